"""Tests the distribution: the source archive has all files and no others; installed programs work;
manual pages and completion agree with --help; all version numbers are the same; shellcheck, ruff,
clang-format and codespell find nothing; lines and blanks are as in .editorconfig."""
import os
import re
import shutil
import subprocess

import tap

C_SOURCES = (".c", ".h", ".cpp", ".cl")
WORK = tap.scratch()
PROGRAMS = ["texcell", "texcell-wu",
            "texcell-validate"] + ["texcell-assimilate"] * os.path.exists(tap.TEXCELL_ASSIMILATE)


def lines(*argv, **kw):
    return tap.run(argv, **kw).stdout.splitlines()


def known_to_git():
    """The names of the files in the repository; none without git or a repository."""
    return lines("git", "ls-files", cwd=tap.SRC) if shutil.which("git") else []


def source(name):
    with open(os.path.join(tap.SRC, name)) as f:
        return f.read()


def test_source_archive():
    """Compares make dist with the repository; the archive also has autoconf's files."""
    repository_files = set(known_to_git())
    if not repository_files:
        tap.skip("the archive of the sources", "no git here that knows them")
        return
    folder = os.path.join(WORK, "dist")
    r = tap.run(["make", "-s", "-C", tap.BUILD, "distdir", "distdir=" + folder])
    there = {os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder)
             for name in names}
    made = re.compile(r"configure|aclocal\.m4|config\.h\.in|Makefile\.in|build-aux/.*|app/analysis/"
                      r"analyses\.inc")
    missing, more = (repository_files - there - {".gitignore"},
                     {f for f in there - repository_files if not made.fullmatch(f)})
    tap.ok(r.returncode == 0 and not missing, "make dist has all files",
           "\n".join(sorted(missing)) + r.stderr)
    tap.ok(not more, "make dist has no other files", "\n".join(sorted(more)))


def test_installation():
    """Installs into a folder; the programs are then run from there, by name."""
    root = os.path.join(WORK, "root")
    r = tap.run(["make", "-s", "-C", tap.BUILD, "install", "prefix=" + root])
    if not tap.ok(r.returncode == 0, "make install", r.stderr):
        return
    env = dict(os.environ, PATH=os.path.join(root, "bin") + ":" + os.environ["PATH"])
    for program in PROGRAMS + ["texcell-deploy"]:
        help_text = tap.run([program, "--help"], env=dict(env, COLUMNS="100")).stdout
        verbs = set(re.findall(r"(?m)^(?:usage:|      ) %s ([a-z][a-z-]*)" % program, help_text))
        of_verbs = {verb: tap.run([program, verb, "--help"], env=env).stdout for verb in verbs}
        test_manual(program, help_text + "".join(of_verbs.values()),
                    os.path.join(root, "share", "man", "man1", program + ".1"))
        test_completion(program, of_verbs, root, env)
    project = os.path.join(WORK, "project")
    os.mkdir(project)
    r = tap.run(["texcell-deploy", "--version", "1.00", project], env=env)
    tap.ok(r.returncode != 0 and "project" in r.stderr and "Traceback" not in r.stderr,
           "the installed texcell-deploy finds its parts", r.stderr)
    kit = os.path.join(root, "share", "texcell", "validator", "deploy")
    pages = os.path.join(root, "share", "man", "man1")
    for program in [os.path.join(kit, "texcell-" + n)
                    for n in ("submit", "again", "watch", "backup")] + [
                            os.path.join(root, "bin", "texcell_graphics")] * os.path.exists(
                                os.path.join(tap.BUILD, "texcell_graphics")):
        help_text = tap.run([program, "--help"], env=dict(env, COLUMNS="100")).stdout
        test_manual(os.path.basename(program), help_text,
                    os.path.join(pages, os.path.basename(program) + ".1"))
    tap.ok(sorted(os.listdir(kit)) ==
           sorted(os.listdir(os.path.join(tap.SRC, "validator", "deploy"))),
           "all files of the deployment tools are installed",
           os.listdir(kit))
    staged = "DESTDIR=" + os.path.join(WORK, "a stage")
    before = {os.path.relpath(f, root) for f in lines("find", root, "!", "-type", "d")}
    for verb, expected in (("install", before), ("uninstall", set())):
        r = tap.run(["make", "-s", "-C", tap.BUILD, verb, "prefix=" + root, staged])
        folder = staged[8:] + root
        there = {os.path.relpath(f, folder) for f in lines("find", folder, "!", "-type", "d")}
        tap.ok(r.returncode == 0 and there == expected, "make %s DESTDIR=, with a blank" % verb,
               r.stderr + repr(there ^ expected))
    r = tap.run(["make", "-s", "-C", tap.BUILD, "uninstall", "prefix=" + root])
    left_files = lines("find", root, "!", "-type", "d")
    tap.ok(r.returncode == 0 and not left_files, "make uninstall leaves no file",
           "\n".join(left_files) + r.stderr)


def test_manual(program, shown, page):
    with open(page) as f:
        text = f.read()
    plain = re.sub(r"\s+", " ", text.replace("\\-", "-").replace("\\&", "").replace("\n.B ", " "))
    options = set(re.findall(r"--[a-z][a-z-]*", shown))
    missing = sorted(o for o in options if o not in plain)
    tap.ok(not missing and " 1.0" in text.splitlines()[0] and
           re.search(r" 20\d\d-\d\d-\d\d ", text.splitlines()[0]),
           "%s(1) has every option, version and day" % program,
           "%s\n%s" % (missing, text.splitlines()[0]))
    if shutil.which("mandoc") is None:
        tap.skip("mandoc finds no fault in %s(1)" % program, "no mandoc")
        return
    r = tap.run(["mandoc", "-T", "lint", page])
    tap.ok(r.returncode == 0 and not r.stdout, "mandoc finds no fault in %s(1)" % program, r.stdout)


def test_completion(program, of_verbs, root, env):
    """Checks bash completion, called as bash calls it."""
    def offered(*words):
        script = ('source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _texcell "$1" "${!#}" '
                  '"${@:$#-1:1}"; printf "%s\\n" "${COMPREPLY[@]}"')
        return set(lines("bash", "-c", script,
                         os.path.join(root, "share/bash-completion/completions", program), program,
                         *words, env=env))
    tap.ok(offered("") == {*of_verbs, "--help", "--version"},
           "bash completes the verbs of " + program, offered(""))
    for verb, shown in list(of_verbs.items())[:1]:
        expected = set(re.findall(r"--[a-z][a-z-]*", shown))
        tap.ok(expected and offered(verb, "--") == expected, "bash completes the options of " +
               verb,
               offered(verb, "--"))


def test_versions():
    version = re.search(r"AC_INIT\(\[texcell\], \[(.*)\]\)", source("configure.ac")).group(1)
    versions = {p: lines(os.path.join(tap.BUILD, p), "--version")[0] for p in PROGRAMS}
    versions = {p: text for p, text in versions.items() if text.split()[1] != version}
    tap.ok(not versions, "the programs print the version of configure.ac", versions)
    tap.ok(re.search(r"(?m)^## (.*) \(\d{4}-\d\d-\d\d\)$", source("NEWS.md")).group(1) == version
           and "\nversion: %s\n" % version in source("CITATION.cff") and
           source("debian/changelog").startswith("texcell (%s) " % version),
           "NEWS.md, CITATION.cff and debian/changelog have the version of configure.ac")


def from_pypi(name, version, program):
    """The path of a tool that Debian does not have in this version, installed from PyPI into the
    build folder."""
    folder = os.path.join(os.path.abspath(tap.BUILD), name)
    program = os.path.join(folder, program)
    if not os.path.exists(program):
        tap.run(["/usr/bin/python3", "-m", "pip", "-q", "install", "--target", folder,
                 "%s==%s" % (name, version)])
    return program


def clean(tool, *args):
    name = os.path.basename(tool)
    if shutil.which(tool) is None:
        tap.skip(name, "not there")
        return
    r = subprocess.run([tool, *args], cwd=tap.SRC, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    tap.ok(r.returncode == 0, name + " finds nothing", r.stdout.decode("utf-8", "replace"))


def odd_layout(name, text):
    """Yields the lines that violate .editorconfig, and lines over 100 columns, in code and in prose
    other than tables and commands."""
    code = name.endswith((*C_SOURCES, ".py", ".sh"))
    prose = name.endswith(".md")
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            prose = not prose
        too_long = len(line) > 100 and (
            name.endswith(C_SOURCES) and not line.startswith("//! check:") or prose and
            not re.match(r" *\||    ", line))
        table_in_prose = prose and "|--" in line and re.search(r"[^-|: ]", line)
        if table_in_prose or line != line.rstrip() or code and "\t" in line or too_long:
            yield "%s:%d: %s" % (name, number, line[:60])
    if text and not text.endswith("\n"):
        yield name + ": no end of line at its end"


HISTORY = re.compile(
    r"\b(before this|used to be|(is|are|was|were) wanted|falls? short|formerly|until now|in the "
    r"past|nowadays|(was|were|been) tried|so far (has|have|was|were|nobody|none|only)|no longer "
    r"(has|is|takes|needs)|(better|faster|slower|smaller|less|more) than before|load of (the "
    r"machine|\d+)|at a load|(other|busy) work besides|(busy|loaded) machine)\b", re.I)


def test_present_tense(files):
    """Checks that pages describe the present state; history, trials and how busy a machine was
    belong into commits and NEWS.md."""
    pages = [name for name in files if re.match(r"(README|CONTRIBUTING|SECURITY|docs/.*|workunits/"
                                                r".*|tests/fuzz/.*)\.md", name)]
    old = ["%s:%d: %s" % (name, number, line[:80]) for name in pages
           for number, line in enumerate(source(name).splitlines(), 1)
           if HISTORY.search(line)]
    tap.ok(len(pages) > 20 and not old, "pages describe the present state only", "\n".join(old))
    tap.ok(all(map(HISTORY.search, ("It used to be 5 s.", "At a load of 6", "Two were tried.",
                                    "slower than before")))
           and not HISTORY.search("what was joined so far; no longer interval; has not been read; "
                                  "load of pixels"), "the check finds each of these examples")


def test_kernel_calls(files):
    """Checks that kernels call no function of OpenCL C that an expression can replace; TC_MIN in
    core.h explains why."""
    function = re.compile(r"\b(?:f?min|f?max|clamp|select|fma|mad|mad24|mul24|rotate|mix|"
                          r"step|sign)\s*\(")
    names = [name for name in files if name.startswith("opencl/kernels/") or
             re.match(r"app/analysis/.*\.h$", name)]
    found = ["%s:%d: %s" % (name, number, line.strip()) for name in names
             for number, line in enumerate(source(name).splitlines(), 1)
             if function.search(re.sub(r"/\*.*|^ \*.*|//.*", "", line))]
    tap.ok(len(names) > 20 and not found and function.search("x = max(a, b);"),
           "kernels call no min, max or similar function", "\n".join(found))


def test_layout(files):
    odd = []
    for name in files:
        if not name.endswith((".png", ".npz")):
            odd += odd_layout(name, source(name))
    tap.ok(not odd,
           "no file has tabs, trailing blanks or a last line without end", "\n".join(odd[:30]))
    silent = [name for name in files if name.endswith(C_SOURCES) and
              not source(name).startswith(("/*", "//"))]
    tap.ok(not silent, "each source begins with a comment", "\n".join(silent))
    tap.ok(all(list(odd_layout("x.c", bad))
               for bad in ("a; \n", "\ta;\n", "a;", "a" * 101 + "\n")) and
           not list(odd_layout("x.c", "a" * 100 + "\n")) and
           list(odd_layout("x.md", "a " * 51 + "a\n")) and
           list(odd_layout("x.md", "| a | |---| | b |\n")) and
           not list(odd_layout("x.md", "| a |\n|---|\n| b |\n")) and
           not list(odd_layout("x.md", "```sh\n" + "a " * 51 + "a\n```\n")),
           "the check finds each of these examples")


def main():
    test_source_archive()
    test_installation()
    test_versions()
    files = known_to_git()
    if files:
        test_layout(files)
        test_kernel_calls(files)
        test_present_tense(files)
        clean("shellcheck", "bootstrap", ".ci/run", *[f for f in files if f.endswith(".sh")])
        clean("codespell", *files)
        clean(from_pypi("ruff", "0.8.4", "bin/ruff"), "check", "--no-cache", ".")
        clean(from_pypi("clang-format", "19.1.7", "clang_format/data/bin/clang-format"),
              "--dry-run", "-Werror",
              *[f for f in files if f.endswith(C_SOURCES)])
    tap.done()


main()
