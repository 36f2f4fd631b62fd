"""Tests that each allocation and each system call may fail, alone or with all later ones, in every
program and analysis and for each kind of picture. An error of the server must never count against a
host: a right result is never found invalid or refused. Exit code 0 means that all was done;
otherwise the same command does it later. FAULTS selects the calls, as places.py describes; default:
each 300th trial. FAULTS_ONLY: a regular expression for names of cases.

In a build with gcc's sanitizers only allocations fail: there is no leak and no use of freed
memory."""
import errno
import hashlib
import os
import re
import shutil
import sqlite3

import numpy as np

import calls_test
import places
import tap
from oracle import workunit
from oracle.workunit import item

FOLDER = tap.scratch()
SWEEP = places.Sweep("FAULTS", 300)
ONLY = re.compile(os.environ.get("FAULTS_ONLY", ""))
LEAKS = os.path.join(os.path.abspath(tap.SRC), "tests", "faults", "leaks.supp")
PRELOAD = {"ASAN_OPTIONS": "exitcode=99:verify_asan_link_order=0:detect_stack_use_after_return=1:"
                           "fast_unwind_on_malloc=0",
           "LSAN_OPTIONS": "print_suppressions=0:suppressions=" + LEAKS}
# A sanitizer that lacks memory for itself ends with this message.
TOOL = "AddressSanitizer: CHECK failed: sanitizer_"
KINDS = (("memory", errno.ENOMEM), ("open", errno.EMFILE), ("open", errno.EIO), ("read", errno.EIO),
         ("write", errno.ENOSPC), ("lock", errno.EIO))[:1 if calls_test.ASAN else None]
LIBRARY = os.path.join(FOLDER, "fail_at.so")


def path(*names):
    return os.path.join(FOLDER, *names)


def copy_of(file):
    with open(file, "rb") as f:
        return f.read()


def build(library, source):
    made = tap.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1",
                    "-fno-omit-frame-pointer", "-o", library,
                    os.path.join(tap.SRC, "tests", "faults", source), "-ldl"])
    return tap.ok(made.returncode == 0, source + " compiles", made.stderr)


def files():
    """Makes a BOINC project's folders. Returns a work unit, and two uploads of its result."""
    y, x = np.indices((40, 50))
    picture = np.where((y % 12 < 5) & (x % 14 < 6), 40, 200).astype(np.uint8)
    for name in ("upload", "download/3f", "tmp_host", "pictures", "out"):
        os.makedirs(path(name))
    unit = path("download/3f/drops_1.zip")
    workunit.write(unit, "cellcount", {"labels": True, "threshold": 128},
                   [item("a", [picture]), item("b", [picture.T.copy()])])
    up = [path("upload", n) for n in ("drops_1_0_r1_0", "drops_1_1_r2_0")]
    run = tap.run([tap.TEXCELL, "run", unit, "-o", up[0], "--device", "cpu", "--quiet"])
    tap.ok(run.returncode == 0, "the result", run.stderr)
    shutil.copy(up[0], up[1])
    with open(path("pictures/p.png"), "wb") as f:
        f.write(workunit.png(picture))
    return unit, up


class Case:
    """A command of the server, with a folder for each thread. fresh(folder) prepares the folder;
    wrong(code, folder) returns the error after a run, or None; good: allowed exit codes."""

    def __init__(self, name, argv, fresh, wrong, cwd=None, good=(0, 3)):
        self.name, self.argv, self.fresh, self.wrong, self.cwd, self.good = (name, argv, fresh,
                                                                             wrong, cwd, good)

    def once(self, out, **environment):
        """Runs the command with the library. Returns the run, and the error or None."""
        shutil.rmtree(out, True)
        os.mkdir(out)
        self.fresh(out)
        env = dict(os.environ, LD_PRELOAD=LIBRARY, **PRELOAD, **environment)
        run = tap.run([a.replace("OUT", out) for a in self.argv], cwd=self.cwd, env=env,
                      timeout=120)
        if TOOL in run.stderr:
            return run, None
        if run.returncode not in self.good:
            return run, "exit %d" % run.returncode
        return run, self.wrong(run.returncode, out)


class Any:
    """A case of calls_test.py: all files that the case writes are compared, and a failed run is
    repeated."""

    def __init__(self, case):
        self.name, self.argv, self.case = case.name, case.argv, case
        case.good = (3,)           # never 2, which means an error of the input
        # Allocations of a driver do not fail in this test; driver_faults.py tests drivers.
        self.own = {"FAIL_OWN": "1"} if case.device else {}

    def once(self, out, **environment):
        """As Case.once()."""
        run = self.case.run(out, LD_PRELOAD=LIBRARY, **PRELOAD, **self.own, **environment)
        if TOOL in run.stderr:
            return run, None
        if run.returncode == -11 and self.name == "pack jpeg.tif" and not os.path.exists(
                os.path.join(out, "w.zip")):
            return run, None       # libtiff 4.5 crashes if libjpeg gets no memory
        bad = self.case.wrong(run, out)
        if not bad and run.returncode != 0:
            bad = self.case.wrong(self.case.run(out, fresh=False), out, again=True)
            bad = bad and "the same again: " + bad
        return run, bad


def test_calls(case, kind, number):
    """Makes each call of a kind fail with errno `number`."""
    counts = path("counts")
    if os.path.exists(counts):
        os.remove(counts)
    run, bad = case.once(path("out", case.name), FAIL_WHAT=kind, FAIL_COUNT=counts)
    if run.returncode != 0 or bad:
        tap.ok(False, "%s: an undisturbed run succeeds" % case.name,
               "exit %d %s %s" % (run.returncode, bad, run.stderr))
        return
    calls = places.told(counts)
    jobs = SWEEP.trials((case.argv[0], kind, number), calls)

    def trial(lane, job):
        return case.once(path("out", "%s_%d" % (case.name, lane)), FAIL_WHAT=kind,
                         FAIL_AT="%s:%s" % job, FAIL_ERRNO=str(number))

    found = tap.side_by_side(2, jobs, trial)
    SWEEP.tell("%s (%s, %s)" % (case.name, kind, errno.errorcode[number]), calls, jobs,
               [run.returncode for _job, (run, _wrong) in found],
               ["%s:%s: %s: %s" % (*job, wrong, run.stderr[-1500:]) for job, (run, wrong) in found
                if wrong])


def main():
    if tap.sanitized() and not calls_test.ASAN:
        tap.skip("faults", "this build has other sanitizers than gcc's")
        tap.done()
    if not build(LIBRARY, "fail_at.c"):
        tap.done()
    test_sync_in_thread()
    scripts()
    for case in calls_test.cases(calls_test.files()):
        if ONLY.match(case.name) and case.learn():
            test_calls(Any(case), "memory", errno.ENOMEM)
    SWEEP.done()


def test_sync_in_thread():
    """pack calls fsync in a thread while it writes. An error of this fsync is not reported again by
    the one at the end."""
    library, unit = path("fail_sync.so"), path("noise.zip")
    if not build(library, "fail_sync.c"):
        return
    noise = np.random.default_rng(1).integers(0, 256, (500, 500), np.uint8)
    with open(path("noise.png"), "wb") as f:
        f.write(workunit.png(noise))
    run = tap.run([tap.TEXCELL_WU, "pack", "--analysis", "cellcount", "-o", unit,
                   path("noise.png")], env=dict(os.environ, LD_PRELOAD=library, **PRELOAD))
    tap.ok(run.returncode == 3 and "noise.zip: cannot write: Input/output error" in run.stderr and
           not os.path.exists(unit), "pack: an fsync that fails in the thread is an error",
           "exit %d %s" % (run.returncode, run.stderr))


def scripts():
    """The scripts for BOINC's daemons."""
    unit, up = files()
    tmp, right = path("tmp_host"), copy_of(up[0])
    nothing = (lambda out: None)

    def stored(code, out):
        db = os.path.join(out, "d.sqlite")
        if code != 0:
            return None
        rows = sqlite3.connect(db).execute("SELECT checked, kept FROM units").fetchall()
        refused = sqlite3.connect(db).execute("SELECT reason FROM refused").fetchall()
        if refused or len(rows) != 1 or rows[0][0] != "workunit":
            return "exit 0, but stored %s, refused %s" % (rows, refused)
        kept_bytes = copy_of(os.path.join(db + ".files", rows[0][1]))
        return None if kept_bytes == right else "the file that was kept is another"

    def accepted(code, out):
        record = os.path.join(out, "accepted", "drops_1")
        line = "%s %d drops_1_0_r1_0" % (hashlib.sha256(right).hexdigest(), len(right))
        # An earlier failed call may have left an incomplete line: the last line counts.
        return "exit 0, but a wrong record" if code == 0 and copy_of(record).decode().splitlines()[
            -1] != line else None

    yes = (lambda code, out: None)
    cases = [
        Case("script-init", [tap.TEXCELL_VALIDATE, "script-init", "--accepted", "OUT/accepted",
                             "../upload/drops_1_0_r1_0"],
             nothing, accepted, tmp),
        Case("script-compare", [tap.TEXCELL_VALIDATE, "script-compare"] + up, nothing, yes, tmp),
        Case("assimilate", [tap.TEXCELL_ASSIMILATE, "script", "--db", "OUT/d.sqlite", "5",
                            "../upload/drops_1_0_r1_0"],
             calls_test.make_data_set, stored, tmp),
    ]
    for case in cases:
        for kind, number in KINDS if ONLY.match(case.name) else ():
            test_calls(case, kind, number)


if __name__ == "__main__":
    main()
