"""Builds the tree with other compilers or flags than the build under test."""
import os
import shutil
import subprocess

import tap


def have(*programs):
    return all(shutil.which(p) for p in programs)


def make(title, name, *configure_options, targets=("all", "tests/texcell_test")):
    """Configures and builds in BUILD/quality-NAME, which is kept for the next time. One test point.
    Returns the folder, or None."""
    folder = os.path.join(os.path.abspath(tap.BUILD), "quality-" + name)
    source = os.path.abspath(tap.SRC)
    jobs = os.environ.get("QUALITY_JOBS", "2")
    os.makedirs(folder, exist_ok=True)
    log = os.path.join(folder, "quality.log")
    # without the variables of a make that runs this test
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL",
                                                            "MAKEOVERRIDES")}
    with open(log, "w") as f:
        def command(*argv):
            return subprocess.call(argv, cwd=folder, stdout=f, stderr=subprocess.STDOUT,
                                   env=env) == 0
        good = os.path.exists(os.path.join(folder, "Makefile")) or \
            command(os.path.join(source, "configure"), "--without-boinc", "--enable-werror",
                    *configure_options)
        # One target after the other: each starts a make for "all", and two of these at once would
        # write the same files.
        good = good and all(command("make", "-j" + jobs, target) for target in targets)
    with open(log, errors="replace") as f:
        tail = "".join(f.readlines()[-40:])
    return folder if tap.ok(good, "%s: it builds" % title, tail) else None


def check(title, folder, tests, prefix=(), **env):
    """Runs some tests by make check in such a folder. One test point, and one for each failure."""
    jobs = os.environ.get("QUALITY_JOBS", "2")
    clean = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL",
                                                              "MAKEOVERRIDES",
                                                              "TEXCELL_BUILD",
                                                              "CMOCKA_MESSAGE_OUTPUT", "COMPILERS")}
    p = subprocess.run([*prefix, "make", "-j" + jobs, "-k", "check", "TESTS=" + tests], cwd=folder,
                       stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, universal_newlines=True, errors="replace",
                       env=dict(clean, **env))
    points = [line for line in p.stdout.splitlines()
              if line.startswith(("PASS:", "FAIL:", "SKIP:", "ERROR:", "XPASS:"))]
    wrong = [line for line in points if line.startswith(("FAIL:", "ERROR:", "XPASS:"))]
    tap.ok(p.returncode == 0 and not wrong and points, "%s: %d test points" % (title, len(points)),
           "\n".join(wrong[:20]) + "\n" + ("" if wrong else p.stdout[-4000:]))
    for line in wrong:
        log = os.path.join(folder, line.split()[1].rsplit(".", 1)[0] + ".log")
        if os.path.exists(log):
            with open(log, errors="replace") as f:
                tap.note(f.read()[-3000:])
            break
