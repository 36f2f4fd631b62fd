"""Tests texcell run when something around it fails: folders vanish, files change, a second run uses
the same output, signals arrive while the result is written, memory is too small, or standard
streams are closed. The work done is not lost, no wrong result is written, and one line names the
error."""
import fcntl
import io
import json
import os
import resource
import shutil
import signal
import subprocess
import time
import zipfile

import numpy as np

import tap
from oracle import workunit
from oracle.workunit import item

WORK = tap.scratch()
DONE, USAGE, BAD_INPUT, LATER = 0, 1, 2, 3
PARAMETERS = {"levels": [16], "distances": [1, 2, 3], "window": {"shape": "disc", "radius": 6}}


def picture(seed, size=(120, 160)):
    return np.random.default_rng(seed).integers(0, 256, size).astype(np.uint8)


class JobFolder:
    """A folder with a work unit of n items, and the bytes of its result from an undisturbed run."""

    def __init__(self, name, n=4, size=(120, 160), parameters=None):
        self.folder = os.path.join(WORK, name)
        os.mkdir(self.folder)
        self.unit = self.path("unit.zip")
        workunit.write(self.unit, "glcm", parameters or PARAMETERS,
                       [item("i%d" % i, [picture(i, size)]) for i in range(n)])
        self.out = self.path("out.npz")
        p = self.run()
        if not tap.ok(p.returncode == DONE and self.files() == ["out.npz", "unit.zip"],
                      name + ": an undisturbed run succeeds", p.stderr):
            tap.done()
        self.expected = self.bytes()
        os.remove(self.out)

    def path(self, name):
        return os.path.join(self.folder, name)

    def files(self):
        return sorted(os.listdir(self.folder))

    def bytes(self, path=None):
        with open(path or self.out, "rb") as f:
            return f.read()

    def argv(self, *options):
        return [tap.TEXCELL, "run", self.unit, "-o", self.out, "--device", "cpu", "--threads", "2",
                *options]

    def run(self, *options, **kw):
        return tap.run(self.argv(*options), **kw)

    def run_steps(self, steps, *options):
        """Runs texcell until a test hook stops it after this number of steps."""
        env = dict(os.environ, TEXCELL_TEST_QUIT_AFTER_STEPS=str(steps),
                   TEXCELL_TEST_SHORT_STEPS="1")
        return tap.run([tap.TEXCELL_TEST] + self.argv(*options)[1:], env=env)

    def check_result(self, title, p):
        """A test point: the right result and no other file. Removes the result."""
        good = p.returncode == DONE and os.path.exists(self.out) and self.bytes() == self.expected
        tap.ok(good and self.files() == ["out.npz", "unit.zip"], title,
               "exit %d, %s\n%s" % (p.returncode, self.files(), p.stderr))
        if os.path.exists(self.out):
            os.remove(self.out)


def errors(p):
    return [line for line in p.stderr.splitlines() if line.startswith("texcell: error: ")]


def check_error(title, p, code, words):
    messages = errors(p)
    tap.ok(p.returncode == code and len(messages) == 1 and words in messages[0] and
           not messages[0].endswith("."), title,
           "exit %d, not %d; expected words: %s\n%s" % (p.returncode, code, words, p.stderr))


class Live:
    """A run in the background, which has finished its first item when the constructor returns."""

    def __init__(self, place, *options):
        self.log = os.path.join(WORK, "live.stderr")
        with open(self.log, "w") as f:
            self.process = subprocess.Popen(place.argv("--checkpoint-every", "0.01", *options),
                                            stderr=f)
        until = time.monotonic() + 60
        while ": done (1 of" not in self.text() and time.monotonic() < until and \
                self.process.poll() is None:
            time.sleep(0.01)

    def text(self):
        with open(self.log) as f:
            return f.read()

    def wait(self):
        code = self.process.wait(600)
        return subprocess.CompletedProcess([], code, "", self.text())


# --- items and files ---------------------------------------------------------------------

def test_damaged_item(place):
    """The data of the third picture is damaged, while the archive is valid."""
    good = place.bytes(place.unit)
    with zipfile.ZipFile(io.BytesIO(good)) as z:
        members = [(n, z.read(n)) for n in z.namelist()]
    with zipfile.ZipFile(place.unit, "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in members:
            z.writestr(name, data[:-12] if name == "images/i2_0000.png" else data)
    for suffix in ("", ", again"):
        p = place.run()
        check_error("a damaged item after valid ones" + suffix, p, BAD_INPUT,
                    "images/i2_0000.png: damaged PNG")
        tap.ok(place.files() == ["unit.zip"], "no file is left" + suffix, place.files())
    with open(place.unit, "wb") as f:
        f.write(good)
    env = {k: v for k, v in os.environ.items() if k != "TEXCELL_REPLACE"}
    place.check_result("a mended work unit gives its result", place.run(env=env))


def test_changed_unit(place):
    """Another work unit replaces the first one under its name, between two runs and during a
    run."""
    other = JobFolder("other", 4, (90, 80))
    good = place.bytes(place.unit)
    p = place.run_steps(2)
    tap.ok(p.returncode == LATER, "a test hook interrupts the run", p.stderr)
    shutil.copy(other.unit, place.unit)
    p = place.run()
    tap.ok(p.returncode == DONE and place.bytes() == other.expected and "starts over" in p.stderr,
           "another work unit between two runs: the result is that unit's", p.stderr)
    os.remove(place.out)
    with open(place.unit, "wb") as f:
        f.write(good)
    live = Live(place)
    os.rename(place.unit, place.path("aside"))
    shutil.copy(other.unit, place.unit)
    p = live.wait()
    os.rename(place.path("aside"), place.unit)
    place.check_result("another work unit under its name during a run: the result of the one that "
                "was checked", p)
    live = Live(place)
    with open(place.unit, "r+b") as f:
        f.seek(len(good) // 2)
        f.write(bytes(len(good) // 3))
    p = live.wait()
    check_error("a work unit that is written to during a run", p, BAD_INPUT, "corrupt")
    tap.ok(not os.path.exists(place.out),
           "a work unit that is written to during a run gives an error and no result",
           place.files())
    with open(place.unit, "wb") as f:
        f.write(good)
    p = place.run()
    tap.ok("going on from the checkpoint" in p.stderr,
           "with the original work unit the run continues",
           p.stderr)
    place.check_result("and gives its result", p)


def test_foreign_files(place):
    """Without --replace a run does not overwrite files that an interrupted run of another work unit
    left, another unit's result, or a file that is not a result."""
    env = {key: value for key, value in os.environ.items() if key != "TEXCELL_REPLACE"}
    other = JobFolder("others", 4, (90, 80))
    argv = [tap.TEXCELL, "run", other.unit, "-o", place.out, "--device", "cpu"]

    def check_not_replaced(words):
        contents = {name: place.bytes(place.path(name)) for name in place.files()}
        check_error("not replaced: " + words, tap.run(argv, env=env), USAGE, words)
        tap.ok({name: place.bytes(place.path(name)) for name in place.files()} == contents,
               "and no file changes", place.files())

    place.run_steps(2)
    check_not_replaced("out.npz.checkpoint: is of another work unit than this: finish that job "
                       "first, use another -o, or --replace")
    place.check_result("the interrupted run continues", place.run(env=env))
    for content, words in ((place.expected, "is the result of a work unit other than " +
                            other.unit), (b"my thesis", "is not a result of " + other.unit)):
        with open(place.out, "wb") as f:
            f.write(content)
        check_not_replaced("out.npz: already exists, and %s: use another -o, or --replace" %
                           words)
    p = tap.run([*argv, "--replace"], env=env)
    tap.ok(p.returncode == DONE and place.bytes() == other.expected,
           "--replace overwrites a foreign file", p.stderr)
    open(place.out, "wb").close()
    place.check_result("an empty file is replaced", place.run(env=env))


def test_done(place):
    """A result that is there is not computed again without --replace."""
    env = {key: value for key, value in os.environ.items() if key != "TEXCELL_REPLACE"}
    spool, kept = place.out + ".spool", "is the result of %s already; --replace" % place.unit
    for words, options, left, computed in (
            ("missing is computed", [], None, True), ("there is kept", [], None, False),
            ("there is kept with --quiet", ["--quiet"], None, False),
            ("there is computed with --replace", ["--replace"], None, True),
            ("beside the spool of a killed run is written again", [], spool, True),
            ("there is computed with --label-runs", ["--label-runs"], None, True)):
        if left is not None:
            open(left, "wb").close()
        before = os.stat(place.out).st_ino if os.path.exists(place.out) else None
        p = place.run(*options, env=env)
        tap.ok(p.returncode == DONE and place.bytes() == place.expected and
               (os.stat(place.out).st_ino != before) == computed and not os.path.exists(spool) and
               (kept in p.stderr) == (not computed and "--quiet" not in options) and
               (computed or "i0: done" not in p.stderr),
               "a result that is " + words, (p.returncode, p.stderr))
    os.remove(place.out + ".labels")
    os.remove(place.out)


def test_vanished_folder(place):
    """The folder of the checkpoints is removed during the run."""
    state = os.path.join(WORK, "state")
    os.mkdir(state)
    live = Live(place, "--checkpoint-dir", state)
    shutil.rmtree(state, True)
    shutil.rmtree(state, True)
    p = live.wait()
    tap.ok(p.stderr.count("warning: no checkpoint: ") == 1,
           "if the checkpoint folder vanishes, the run prints one warning and goes on", p.stderr)
    place.check_result("a vanished checkpoint folder: the result is written", p)
    p = place.run("--checkpoint-dir", state)
    check_error("a checkpoint folder that does not exist", p, LATER,
                "out.npz.spool: cannot write: the folder %s does not exist" % state)


def test_early_errors(place):
    os.mkdir(place.out)
    p = place.run()
    check_error("a folder as output", p, LATER, "out.npz: cannot write: Is a directory")
    tap.ok("i0: done" not in p.stderr and place.files() == ["out.npz", "unit.zip"],
           "a folder as output is an error before anything is computed", p.stderr)
    os.rmdir(place.out)
    for suffix in ("", ".checkpoint", ".spool"):
        name = place.path("x.npz" + suffix)
        shutil.copy(place.unit, name)
        p = tap.run([tap.TEXCELL, "run", name, "-o", place.path("x.npz")])
        check_error("the work unit under the name of RESULT%s" % suffix, p, USAGE,
                    "is the work unit")
        tap.ok(place.bytes(name) == place.bytes(place.unit), "the work unit does not change")
        os.remove(name)


def test_quiet(place):
    tap.ok(place.run_steps(2, "--quiet").returncode == LATER,
           "a test hook interrupts the run with --quiet")
    p = place.run("--quiet")
    tap.ok(p.stderr == "", "--quiet: a continued run prints nothing", p.stderr)
    place.check_result("and gives its result", p)


def test_closed_streams(place):
    p = subprocess.run(["sh", "-c", '"$@" <&- >&- 2>&-', "sh"] + place.argv(),
                       stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, universal_newlines=True)
    place.check_result("without standard streams", p)


# --- two at a time -------------------------------------------------------------------------

def test_two_runs(place):
    """A second run with the same output is refused, and does not disturb the first."""
    live = Live(place)
    p = place.run()
    tap.ok(live.process.poll() is None,
           "the first of two runs still works when the second one has ended", live.text())
    check_error("the second of two runs is an error", p, LATER,
                "out.npz.spool: another texcell is at work on it")
    place.check_result("the first of two runs is not disturbed", live.wait())
    # With --checkpoint-dir the checkpoints of two runs have different locks: the second run fails
    # when it writes the result.
    state = os.path.join(WORK, "state2")
    os.mkdir(state)
    with open(place.out + ".tmp", "w") as locked_file:
        fcntl.flock(locked_file, fcntl.LOCK_EX)
        p = place.run("--checkpoint-dir", state)
        check_error("a result that another run writes", p, LATER,
                    "another texcell is at work on it")
    tap.ok(sorted(os.listdir(state)) == ["out.npz.checkpoint", "out.npz.spool"],
           "if another run writes the result first, the work done is kept",
           os.listdir(state))
    p = place.run("--checkpoint-dir", state)
    tap.ok("with 4 of 4 items done" in p.stderr, "finished items are not computed again", p.stderr)
    place.check_result("the kept work gives the result", p)


def test_six_runs(place):
    """Of six runs with the same output each succeeds, or reports that another one is at work; the
    result is right."""
    procs = [subprocess.Popen(place.argv("--quiet"), stderr=subprocess.PIPE,
                              universal_newlines=True) for _ in range(6)]
    ends = [(q.communicate(timeout=600)[1], q.returncode) for q in procs]
    wrong = [e for e in ends if e[1] not in (DONE, LATER) or
             (e[1] == LATER and "another texcell" not in e[0])]
    tap.ok(not wrong and any(code == DONE for _, code in ends),
           "of six runs with the same output each succeeds or is refused", ends)
    place.check_result("a seventh run gives the right result", place.run())


# --- signals while the result is written ------------------------------------------------------

def test_late_signals(place):
    """SIGTERM arrives at each of the last calls that change files, which complete the result."""
    library = os.path.join(WORK, "kill_at.so")
    made = tap.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", library,
                    os.path.join(tap.SRC, "tests", "resume", "kill_at.c"), "-ldl"])
    if not tap.ok(made.returncode == 0, "kill_at.c compiles", made.stderr):
        return
    env = dict(os.environ, LD_PRELOAD=library, ASAN_OPTIONS="verify_asan_link_order=0")
    count = os.path.join(WORK, "count")
    p = place.run("--checkpoint-every", "3600", env=dict(env, KILL_COUNT=count))
    place.check_result("counted", p)
    with open(count) as f:
        calls = int(f.read())
    tap.ok(calls >= 8, "a run has at least 8 calls that change files", calls)
    wrong = []
    for n in range(max(1, calls - 7), calls + 1):
        p = place.run("--checkpoint-every", "3600",
                      env=dict(env, KILL_AT=str(n), KILL_SIGNAL=str(int(signal.SIGTERM))))
        if p.returncode != DONE or place.files() != ["out.npz",
                                                     "unit.zip"] or place.bytes() != place.expected:
            wrong.append("call %d of %d: exit %d, %s\n%s" % (n, calls, p.returncode, place.files(),
                                                             p.stderr))
        for name in place.files():
            if name != "unit.zip":
                os.remove(place.path(name))
    tap.ok(not wrong,
           "SIGTERM while the result is written: the result is completed", "\n".join(wrong))


# --- memory --------------------------------------------------------------------------------------

def test_little_memory():
    """Runs with limits of memory from far too small to large enough: each failing run prints one
    line and exits with 3."""
    if tap.sanitized():
        tap.skip("too little memory", "the sanitizers need the address space")
        return
    job = JobFolder("memory", 1, (200, 300),
                    dict(PARAMETERS, maps=[{"feature": "asm", "levels": 16, "offset": [1, 0]}]))
    wrong, reasons, right, mib = [], set(), 0, 6
    while mib < 400:
        size = mib << 20
        p = job.run(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)))
        if p.returncode == DONE:
            right += 1
            if job.bytes() != job.expected or job.files() != ["out.npz", "unit.zip"]:
                wrong.append("%d MiB: another result, or %s" % (mib, job.files()))
            os.remove(job.out)
        # With even less memory the system kills the program while it loads it, before main().
        elif p.returncode != 127 and "loading shared libraries" not in p.stderr and (
                reasons or p.stderr or p.returncode != -signal.SIGSEGV):
            messages = errors(p)
            if p.returncode != LATER or len(messages) != 1 or "out of memory" not in messages[
                    0] or os.path.exists(job.out):
                wrong.append("%d MiB: exit %d\n%s" % (mib, p.returncode, p.stderr))
            reasons.add(messages[0] if messages else "")
        mib += 1 if mib < 30 else 37
    tap.ok(not wrong,
           "with too little memory a run prints one line and exits with 3", "\n".join(wrong[:3]))
    tap.ok(reasons and right, "some limits of memory were too small, and some large enough",
           "%s, %d" % (reasons, right))


# --- the validator's output ---------------------------------------------------------------------

def test_hostile_names():
    """Malicious names in a result contain control characters: none of them is printed."""
    paths = []
    for k in range(2):
        path = os.path.join(WORK, "hostile%d.npz" % k)
        with zipfile.ZipFile(path, "w") as z:
            z.writestr("result.json", json.dumps({"format": "texcell-result"}))
            for name, a in (("item_names", np.array(["\x1b[31mred\n"])),
                            ("features", np.array([[1.0 + k]])),
                            ("feature_names", np.array(["\x1b]0;title\x07"])),
                            ("text", np.array(["\x1b[%dm" % k]))):
                one = io.BytesIO()
                np.save(one, a)
                z.writestr(name + ".npy", one.getvalue())
        paths.append(path)
    p = tap.run([tap.TEXCELL_VALIDATE, "compare"] + paths)
    tap.ok(p.returncode == 4 and "features[" in p.stdout and "text[" in p.stdout and
           not any(c < " " and c != "\n" for c in p.stdout),
           "compare prints a difference without control characters", repr(p.stdout))
    tap.ok(all(line.startswith(("features[", "text[", "no match"))
               for line in p.stdout.splitlines()),
           "compare prints a difference on one line", repr(p.stdout))


def test_validator_arguments(place):
    p = place.run()
    tap.ok(p.returncode == DONE, "a result for the validator", p.stderr)
    for argv in ([], ["check"], ["check", place.unit], ["compare", place.out, place.out, place.out],
                 ["--help", place.out, place.out], ["--version", place.out, place.out],
                 ["-h", place.out, place.out],
                 ["", ""], ["check", "", ""], ["compare", "", place.out],
                 ["compare", place.out, place.out, ""]):
        p = tap.run([tap.TEXCELL_VALIDATE] + argv)
        tap.ok(p.returncode in (USAGE, BAD_INPUT) and "match" not in p.stdout and
               "valid\n" not in p.stdout,
               "wrong arguments give no match: %s" % [os.path.basename(a) for a in argv],
               "exit %d %s" % (p.returncode, p.stdout))
    p = tap.run([tap.TEXCELL_VALIDATE, "compare", place.out, place.unit])
    tap.ok(p.returncode == BAD_INPUT and "is a work unit, not a result" in p.stderr,
           "the validator refuses a work unit in place of a result", p.stderr)
    if os.path.exists("/dev/full"):
        with open("/dev/full", "w") as full:
            code = subprocess.run([tap.TEXCELL_VALIDATE, "compare", place.out, place.out],
                                  stdout=full).returncode
        tap.ok(code == LATER,
               "if the validator cannot write its answer, the exit code is 3 (try later)", code)
    os.remove(place.out)


def main():
    place = JobFolder("place", 4)
    test_early_errors(place)
    test_quiet(place)
    test_closed_streams(place)
    test_damaged_item(place)
    test_six_runs(place)
    test_late_signals(place)
    test_hostile_names()
    test_validator_arguments(place)
    slow = JobFolder("slow", 4, (500, 700))
    test_changed_unit(slow)
    test_foreign_files(slow)
    test_done(slow)
    test_vanished_folder(slow)
    test_two_runs(slow)
    test_little_memory()
    tap.done()


if __name__ == "__main__":
    main()
