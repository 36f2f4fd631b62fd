"""Functions for tests of a build for another system: the build, made by .ci/platform.sh, the start
of its programs, and test points for all such builds. A build that fails is a failed test; without
its compiler, or if the sources cannot be downloaded, the test is skipped, which the summary
reports."""
import os
import re
import shutil
import subprocess
import time

import analyses
import tap
from oracle import workunit

FOLDER = tap.scratch()
ALL = os.environ.get("TEXCELL_PLATFORMS") == "long"      # all small jobs, not one of each analysis


def path(*names):
    return os.path.join(FOLDER, *names)


class Platform:
    """A build for another system. start: words before a program on the command line, such as an
    emulator; suffix: of programs' names."""

    def __init__(self, name, compiler, start, suffix=""):
        self.start, self.suffix = start, suffix
        self.env = dict(os.environ, WINEDEBUG="-all")
        missing = [tool for tool in [compiler] + start[:1] if shutil.which(tool) is None]
        if missing:
            tap.skip(name, "no %s; ./bootstrap %s installs it" % (", no ".join(missing), name))
            tap.done()
        self.folder = os.path.join(os.path.abspath(tap.SRC), "build", name, "texcell")
        made = tap.run(["sh", os.path.join(tap.SRC, ".ci", "platform.sh"), name], timeout=1800)
        if made.returncode == 75:
            tap.skip(name, "what it is built from cannot be fetched here: " +
                     made.stderr.strip().replace("\n", "; ")[-300:])
            tap.done()
        if not tap.ok(made.returncode == 0, "every program compiles for %s, without a warning" %
                      name,
                      made.stdout + made.stderr):
            tap.done()

    def argv(self, program, *args):
        return self.start + [os.path.join(self.folder, program + self.suffix), *args]

    def run(self, program, *args, **kw):
        r = subprocess.run(self.argv(program, *args), stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, cwd=FOLDER,
                           env=self.env, timeout=600, **kw)
        r.stdout, r.stderr = (r.stdout.decode("utf-8", "replace"),
                              r.stderr.decode("utf-8", "replace"))
        return r


def read(name):
    with open(path(name), "rb") as f:
        return f.read()


def here(program, *args):
    """Runs a program of the ordinary build."""
    return tap.run([program, *args], cwd=FOLDER)


def compute_here(unit, result):
    r = here(tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet")
    if r.returncode != 0:
        tap.bail(r.stderr)
    return read(result)


def stands_alone(p, allowed):
    """Tests that a Linux program needs no symbol newer than GLIBC_2.17 (CentOS 7), and only the C
    library."""
    for program in ("texcell", "texcell-wu", "texcell-validate"):
        exe = os.path.join(p.folder, program)
        needed = set(re.findall(r"\(NEEDED\)\s+Shared library: \[(\S+)\]",
                                tap.run(["readelf", "-d", "-W", exe]).stdout))
        versions = re.findall(r"GLIBC_(\d+)\.(\d+)",
                              tap.run(["readelf", "--dyn-syms", "-W", exe]).stdout)
        newest = max((int(a), int(b)) for a, b in versions)
        tap.ok(newest <= (2, 17) and "libc.so.6" in needed and needed <= allowed,
               "%s needs GLIBC_%d.%d and %s" % ((program,) + newest + (
                   " ".join(sorted(needed)),)), sorted(needed - allowed))


LIBRARIES = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1",
             "ld-linux-x86-64.so.2"}


def bare_root():
    """Makes a root folder with only a C library: that of the previous Debian release, or this
    system's if that cannot be downloaded. Returns the folder (None where name spaces are not
    allowed), the words that start a program in it, and the library's version."""
    root, libc = path("root"), os.path.join(os.path.abspath(tap.SRC), "build", "old-libc")
    r = tap.run(["sh", os.path.join(tap.SRC, ".ci", "old_libc.sh"), libc])
    if r.returncode == 0:
        shutil.copytree(libc, root, symlinks=True)
    else:
        tap.note("no older C library: " + r.stderr)
        for name in ["/lib64/ld-linux-x86-64.so.2"] + ["/lib/x86_64-linux-gnu/" + n
                                                       for n in LIBRARIES if n.startswith("lib")]:
            os.makedirs(root + os.path.dirname(name), exist_ok=True)
            shutil.copy(name, root + name)
    os.makedirs(root + "/dev")
    with open(root + "/dev/urandom", "wb") as f:  # texcell-validate reads its random seed from it
        f.write(os.urandom(4096))
    start = ["unshare", "-r", "chroot", root]
    try:
        output = subprocess.run(start +
                                ["/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6"],
                                stdout=subprocess.PIPE).stdout.decode()
    except OSError:
        output = ""
    if not output:
        tap.skip("in a root folder of their own", "no name space in which one may be had here")
        return None, start, ""
    return root, start, re.search(r"GLIBC [\d.]+", output).group(0)


def for_volunteers(p):
    """The program for volunteers, which BOINC=DIR ./bootstrap NAME builds as well."""
    if not os.environ.get("BOINC"):
        tap.note("BOINC names no folder of its sources: volunteers' program is not built")
        return
    program = os.path.join(p.folder, "..", "volunteers", os.path.basename(p.argv("texcell")[-1]))
    r = subprocess.run(p.start + [program, "selftest", "--device", "cpu"], stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, env=p.env, timeout=600)
    tap.ok(r.returncode == 0, "the self-tests of the program for volunteers pass",
           r.stdout.decode(errors="replace"))
    with open(program, "rb") as f:
        data = f.read()
    tap.ok(b"API_VERSION_" in data and b".symtab" not in data and b".debug_info" not in data,
           "it has BOINC's API, and is stripped: %d bytes" % len(data))


def known_answers(p):
    r = p.run("texcell", "selftest", "--device", "cpu")
    names = analyses.names()
    tap.ok(r.returncode == 0 and r.stdout.splitlines() == [n + ": the CPU is right" for n in names],
           "the self-tests of every analysis pass", r.stdout + r.stderr)
    assert_states = []
    for program in (p.argv("texcell")[-1], tap.TEXCELL):
        with open(program, "rb") as f:
            assert_states.append(b"work->threads >= 1" in f.read())
    tap.ok(assert_states == [False, True], "asserts are off, and on in the ordinary build",
           assert_states)


def units(first=False):
    """Yields (title, path) of the small jobs of every analysis, or of only the first of each."""
    for name, module in analyses.each():
        for title, (parameters, items) in list(module.JOBS.items())[:1 if first else None]:
            unit = "%s_%s.zip" % (name, title.replace(" ", "_"))
            workunit.write(path(unit), name, parameters, items)
            yield "%s, %s" % (name, title), unit


def same_bytes(p, every=ALL):
    for title, unit in units(not every):
        expected = compute_here(unit, "here.npz")
        r = p.run("texcell", "run", unit, "-o", "there.npz", "--device", "cpu", "--threads", "2",
                  "--quiet")
        tap.ok(r.returncode == 0 and read("there.npz") == expected,
               title + ": the same bytes as the ordinary build",
               "exit %d\n%s" % (r.returncode, r.stderr))
        checked = p.run("texcell-validate", "check", unit, "here.npz")
        tap.ok(checked.returncode == 0, title +
               ": the build's texcell-validate accepts the results",
               checked.stdout + checked.stderr)


def stamp(name):
    """Identifies the file that has this name now."""
    try:
        info = os.stat(path(name))
    except OSError:
        return None
    return info.st_ino, info.st_mtime_ns


def kills(p, parameters, items, analysis, times):
    """Tests that a run continues after each kill, and that the result is that of an undisturbed
    run. The run is killed `times` times, or until it ends, but at least half as often."""
    workunit.write(path("long.zip"), analysis, parameters, items)
    expected = compute_here("long.zip", "here.npz")
    argv = p.argv("texcell", "run", "long.zip", "-o", "there.npz", "--device", "cpu", "--threads",
                  "2",
                  "--checkpoint-every", "0.02")
    killed = went_on = 0
    other_messages = []
    while killed < times:
        before = stamp("there.npz.checkpoint")
        with open(path("log"), "wb") as log:
            process = subprocess.Popen(argv, cwd=FOLDER, env=p.env, stderr=log)
        while process.poll() is None and stamp("there.npz.checkpoint") == before:
            time.sleep(0.01)
        time.sleep(0.003 * (killed % 7))         # so that the kills come at different moments
        process.kill()
        process.wait()
        output = read("log")
        if process.returncode == 3 and b"another texcell is at work" in output:
            continue               # the system has not yet closed the files of the killed process
        if b"going on from the checkpoint" in output:
            went_on += 1
        else:
            other_messages.append("%s: %r" % (process.returncode, output))
        if process.returncode == 0:
            break
        killed += 1
    r = p.run("texcell", "run", "long.zip", "-o", "there.npz", "--device", "cpu", "--quiet")
    tap.ok(2 * killed >= times and went_on >= killed - 1 and r.returncode == 0 and
           read("there.npz") == expected,
           "a run killed up to %d times gives the same bytes" % times,
           "%d kills, went on %d times, exit %d\n%s\n%s" % (killed, went_on, r.returncode, r.stderr,
                                                            "\n".join(other_messages)))
    left_files = [n for n in os.listdir(FOLDER) if n.startswith("there.npz.")]
    tap.ok(not left_files, "a killed run leaves no other file next to the result", left_files)
