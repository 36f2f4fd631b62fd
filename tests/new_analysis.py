"""Tests that an analysis is added by its own files and two lines in others: a copy of the tree gets
the files of tests/example, a line in app/analysis/analyses.def and one in README.md, and is built;
the new analysis computes on the CPU and on OpenCL, its results are validated, stored and exported,
and tests of all analyses include it. docs/dev/new_analysis.md describes how."""
import csv
import filecmp
import glob
import os
import re
import shutil
import subprocess

import tap
from oracle import workunit
from pictures import TINY, TINY_STACK

NAME = "mean"
LINES = {
    "app/analysis/analyses.def": ("ANALYSIS(volume, opencl)\n", "ANALYSIS(%s, opencl)\n" % NAME),
    "README.md": ("| ![](docs/images/voting.png)",
                  "| | say how bright a picture is | [`%s`](docs/analyses/%s.md) | 0.1 s |\n" %
                  (NAME, NAME))
}
PLACE = os.path.join(os.path.abspath(tap.BUILD), "new-analysis")  # kept: a second build is short
TREE, BUILD = os.path.join(PLACE, "tree"), os.path.join(PLACE, "build")
LEFT_OUT = re.compile(r"(build.*|autom4te.cache|__pycache__|\.git|.*\.o|aclocal.m4|configure|"
                      r"configure~|config.h.in~?|Makefile.in|analyses.inc|texcell-.*\.tar.*)$")
TESTS = ["analyses_test", "parameters", "validate_forgeries", "validate_honest", "memory_test",
         "resume_steps",
         "assimilate_test", "estimates", "oracle_test", "quality/includes"]


def files_of(root):
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if not LEFT_OUT.match(f)]
        found += [os.path.relpath(os.path.join(folder, f), root) for f in files
                  if not LEFT_OUT.match(f)]
    return found


def put(source, target):
    """Copies a file unless the target is the same, so that a second build compiles less."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if not os.path.exists(target) or not filecmp.cmp(source, target, shallow=False):
        shutil.copy2(source, target)


def copy_tree():
    """Copies the tree, with the example and the two lines. Returns the changed files and the new
    files."""
    example = os.path.join(tap.SRC, "tests", "example")
    product, example_files = files_of(tap.SRC), files_of(example)
    for name in [f for f in files_of(TREE) if f not in product + example_files]:
        os.remove(os.path.join(TREE, name))
    edited = os.path.join(PLACE, "edited")
    for root, names in ((tap.SRC, product), (example, example_files)):
        for name in names:
            source = os.path.join(root, name)
            if name in LINES:
                before, line = LINES[name]
                with open(source, encoding="utf-8") as f:
                    text = f.read()
                index = text.index(before)
                index = text.index("\n", index) + 1
                with open(edited, "w", encoding="utf-8") as f:
                    f.write(text[:index] + line + text[index:])
                source = edited
            put(source, os.path.join(TREE, name))
    changed = [f for f in product if not filecmp.cmp(os.path.join(tap.SRC, f),
                                                     os.path.join(TREE, f), shallow=False)]
    return changed, [f for f in files_of(TREE) if f not in product]


def lines_of(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.readlines()


def count_files():
    """Only the files of LINES are changed, each by one line; all new files are the analysis'
    own."""
    changed, new = copy_tree()
    tap.ok(sorted(changed) == sorted(LINES), "two files of the tree are edited", changed)
    for name in changed:
        before, after = lines_of(tap.SRC, name), lines_of(TREE, name)
        tap.ok(len(after) == len(before) + 1 and
               [line for line in after if line != LINES[name][1]] == before,
               "%s is changed by one line" % name)
    own_files = re.compile(r"(app/analysis/%s/.*|opencl/%s_cl\.c|opencl/kernels/%s\.cl|docs/(?:dev/"
                           r")?analyses/%s\.md|tests/analyses/%s\.py|tests/%s_\w+\.py)$" %
                           ((NAME,) * 6))
    tap.ok(new and all(own_files.match(f) for f in new),
           "the %d other files are the analysis' own" %
           len(new), new)


def command(what, *argv, cwd=BUILD, **env):
    """Runs a command with a clean environment: one test point. Returns (success, output)."""
    clean = {k: v for k, v in os.environ.items()
             if not k.startswith(("MAKE", "MFLAGS", "TEXCELL_", "CMOCKA", "PYTHONPATH"))}
    p = subprocess.run(argv, cwd=cwd, env=dict(clean, **env), stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT,
                       universal_newlines=True, errors="replace")
    return tap.ok(p.returncode == 0, what, p.stdout[-6000:]), p.stdout


def build():
    os.makedirs(BUILD, exist_ok=True)
    if not os.path.exists(os.path.join(BUILD, "Makefile")):
        if not command("autoreconf -i takes it into the build", "autoreconf", "-i",
                       cwd=TREE)[0] or \
                not command("it is configured", os.path.join(TREE, "configure"), "--without-boinc",
                            "--enable-werror",
                            "CFLAGS=-O1")[0]:
            return False
    return command("it builds without a warning", "make", "-j2", "all")[0] and \
        command("with what tests need", "make", "-j2", "tests/unit/state_of",
                "tests/texcell_test")[0]


def program(name, *argv):
    return tap.run([os.path.join(BUILD, name)] + [str(a) for a in argv], cwd=PLACE)


def from_end_to_end():
    """An image and a stack of the new analysis: computed, validated, exported, stored."""
    for name in [f for f in ("d.sqlite", "tables", "out")
                 if os.path.lexists(os.path.join(PLACE, f))]:
        path = os.path.join(PLACE, name)
        shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
    device = "usable" in re.sub("not usable", "", program("texcell", "devices").stdout)
    unit = workunit.write(os.path.join(PLACE, "u.zip"), NAME, {"threshold": 100}, TINY + TINY_STACK)
    results = []
    for where in ["cpu"] + ["opencl"] * device:
        r = program("texcell", "run", unit, "-o", "r.npz", "--device", where, "--quiet")
        if not tap.ok(r.returncode == 0, "%s: the new analysis runs" % where, r.stderr):
            return
        with open(os.path.join(PLACE, "r.npz"), "rb") as f:
            results.append(f.read())
        for verb in (["check"], ["verify", "--fraction", "1"]):
            v = program("texcell-validate", *verb, "u.zip", "r.npz")
            tap.ok(v.returncode == 0 and v.stdout.endswith("valid\n"),
                   "%s: texcell-validate %s" % (where, verb[0]), v.stderr)
        os.replace(os.path.join(PLACE, "r.npz"), os.path.join(PLACE, "result.npz"))
    if device:
        tap.ok(results[0] == results[1], "the CPU's file and OpenCL's are the same")
    else:
        tap.skip("the CPU's file and OpenCL's are the same", "no usable device")
    r = program("texcell-wu", "export", "result.npz", "-o", "tables")
    tap.ok(r.returncode == 0 and {"mean", "pixels_below", "pixels_bright"} <=
           set(header(os.path.join(PLACE, "tables", "*.csv"))),
           "texcell-wu export: a column for the number and two for the vector of an item", r.stderr)
    if not os.path.exists(os.path.join(BUILD, "texcell-assimilate")):
        tap.skip("the result is in the data set", "no SQLite")
        return
    r = program("texcell-assimilate", "--db", "d.sqlite", "u.zip", "result.npz")
    e = program("texcell-assimilate", "export", "--db", "d.sqlite", "-o", "out")
    tap.ok(r.returncode == 0 and e.returncode == 0 and {"mean", "pixels_below", "pixels_bright"} <=
           set(header(os.path.join(PLACE, "out", "mean_items.csv"))),
           "the result is in the data set and its export", r.stderr + e.stderr)


def header(pattern):
    """The column titles of all CSV files that match the pattern."""
    titles = []
    for path in glob.glob(pattern):
        with open(path, newline="") as f:
            titles += next(csv.reader(f))
    return titles


def main():
    os.makedirs(TREE, exist_ok=True)
    count_files()
    if build():
        from_end_to_end()
        tests = " ".join("tests/%s.py" % t for t in TESTS)
        good, output = command("every test over each analysis takes it", "make", "check",
                               "check_PROGRAMS=", "TESTS=" + tests,
                               TEXCELL_ANALYSIS=NAME)
        points = [line for line in output.splitlines()
                  if re.match(r"(PASS|FAIL|ERROR|SKIP): ", line)]
        tap.ok(good and len(points) > 200 and
               not [p for p in points if p.startswith(("FAIL", "ERROR"))],
               "%d points" % len(points),
               "\n".join(p for p in points if p.startswith(("FAIL", "ERROR"))))
    tap.done()


if __name__ == "__main__":
    main()
