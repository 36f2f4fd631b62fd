"""Errors around a run: folders that vanish, files that change, a second run, signals while the
result is written, too little memory, closed standard streams. The work done is not lost, no wrong
result is written, and one line says what is wrong."""
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


class Place:
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
                      name + ": undisturbed", p.stderr):
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

    def interrupted(self, steps, *options):
        """Runs texcell until it quits by a test hook after so many steps."""
        env = dict(os.environ, TEXCELL_TEST_QUIT_AFTER_STEPS=str(steps),
                   TEXCELL_TEST_SHORT_STEPS="1")
        return tap.run([tap.TEXCELL_TEST] + self.argv(*options)[1:], env=env)

    def right(self, title, p):
        """A test point: the right result and no other file. Removes the result."""
        good = p.returncode == DONE and os.path.exists(self.out) and self.bytes() == self.expected
        tap.ok(good and self.files() == ["out.npz", "unit.zip"], title,
               "exit %d, %s\n%s" % (p.returncode, self.files(), p.stderr))
        if os.path.exists(self.out):
            os.remove(self.out)


def errors(p):
    return [line for line in p.stderr.splitlines() if line.startswith("texcell: error: ")]


def refused(title, p, code, words):
    found = errors(p)
    tap.ok(p.returncode == code and len(found) == 1 and words in found[0] and
           not found[0].endswith("."), title,
           "exit %d, not %d; expected words: %s\n%s" % (p.returncode, code, words, p.stderr))


class Live:
    """A run that is started, and has finished its first item when the constructor returns."""

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

def damaged_item(place):
    """The data of the third picture is damaged; the archive itself is not."""
    good = place.bytes(place.unit)
    with zipfile.ZipFile(io.BytesIO(good)) as z:
        members = [(n, z.read(n)) for n in z.namelist()]
    with zipfile.ZipFile(place.unit, "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in members:
            z.writestr(name, data[:-12] if name == "images/i2_0000.png" else data)
    for again in ("", ", again"):
        p = place.run()
        refused("a damaged item after good ones" + again, p, BAD_INPUT,
                "images/i2_0000.png: damaged PNG")
        tap.ok(place.files() == ["out.npz.checkpoint", "out.npz.spool", "unit.zip"],
               "finished items are kept, and there is no result" + again, place.files())
    tap.ok("with 2 of 4 items done" in p.stderr and "i1: done" not in p.stderr,
           "and is not computed again", p.stderr)
    with open(place.unit, "wb") as f:
        f.write(good)
    p = place.run()
    tap.ok("the work starts over: " in p.stderr and "of another work unit" in p.stderr,
           "a mended work unit is another one", p.stderr)
    place.right("and gives its result", p)


def changed_unit(place):
    """A different work unit takes the name of the first one, between two runs and during one."""
    other = Place("other", 4, (90, 80))
    good = place.bytes(place.unit)
    p = place.interrupted(2)
    tap.ok(p.returncode == LATER, "interrupted", p.stderr)
    shutil.copy(other.unit, place.unit)
    p = place.run()
    tap.ok(p.returncode == DONE and place.bytes() == other.expected and "starts over" in p.stderr,
           "another work unit between two runs: its own result", p.stderr)
    os.remove(place.out)
    with open(place.unit, "wb") as f:
        f.write(good)
    live = Live(place)
    os.rename(place.unit, place.path("aside"))
    shutil.copy(other.unit, place.unit)
    p = live.wait()
    os.rename(place.path("aside"), place.unit)
    place.right("another work unit under its name during a run: the result of the one that "
                "was checked", p)
    live = Live(place)
    with open(place.unit, "r+b") as f:
        f.seek(len(good) // 2)
        f.write(bytes(len(good) // 3))
    p = live.wait()
    refused("a work unit that is written to during a run", p, BAD_INPUT, "corrupt")
    tap.ok(not os.path.exists(place.out), "no result from it", place.files())
    with open(place.unit, "wb") as f:
        f.write(good)
    p = place.run()
    tap.ok("going on from the checkpoint" in p.stderr, "with the first bytes restored it continues",
           p.stderr)
    place.right("and gives its result", p)


def keeps_others(place):
    """Without --replace a run does not overwrite what an interrupted run of another work unit has
    left, another unit's result, or a file that is no result."""
    env = {key: value for key, value in os.environ.items() if key != "TEXCELL_REPLACE"}
    other = Place("others", 4, (90, 80))
    argv = [tap.TEXCELL, "run", other.unit, "-o", place.out, "--device", "cpu"]

    def stays(words):
        before = {name: place.bytes(place.path(name)) for name in place.files()}
        refused("not replaced: " + words, tap.run(argv, env=env), USAGE, words)
        tap.ok({name: place.bytes(place.path(name)) for name in place.files()} == before,
               "and stays", place.files())

    place.interrupted(2)
    stays("out.npz.checkpoint: is of another work unit than this: finish that first, give another "
          "-o, or --replace")
    place.right("it goes on", place.run(env=env))
    for content, words in ((place.expected, "is the result of another work unit than " +
                            other.unit), (b"my thesis", "is no result of " + other.unit)):
        with open(place.out, "wb") as f:
            f.write(content)
        stays("out.npz: is there already, and %s: give another -o, or --replace" % words)
    p = tap.run([*argv, "--replace"], env=env)
    tap.ok(p.returncode == DONE and place.bytes() == other.expected, "--replace", p.stderr)
    for content in (place.expected, b""):
        with open(place.out, "wb") as f:
            f.write(content)
        place.right("an older result of the same work unit, or an empty file, is replaced",
                    place.run(env=env))


def vanished_folder(place):
    """The folder of the checkpoints is removed during the run."""
    state = os.path.join(WORK, "state")
    os.mkdir(state)
    live = Live(place, "--checkpoint-dir", state)
    shutil.rmtree(state, True)
    shutil.rmtree(state, True)
    p = live.wait()
    tap.ok(p.stderr.count("warning: no checkpoint: ") == 1,
           "a vanished checkpoint folder: one warning", p.stderr)
    place.right("and the result all the same", p)
    p = place.run("--checkpoint-dir", state)
    refused("a checkpoint folder that is not there", p, LATER,
            "out.npz.spool: cannot write: No such file")


def early_refusals(place):
    os.mkdir(place.out)
    p = place.run()
    refused("a folder as output", p, LATER, "out.npz: cannot write: Is a directory")
    tap.ok("i0: done" not in p.stderr and place.files() == ["out.npz", "unit.zip"],
           "it is found before the work", p.stderr)
    os.rmdir(place.out)
    for suffix in ("", ".checkpoint", ".spool"):
        name = place.path("x.npz" + suffix)
        shutil.copy(place.unit, name)
        p = tap.run([tap.TEXCELL, "run", name, "-o", place.path("x.npz")])
        refused("the work unit under the name of RESULT%s" % suffix, p, USAGE, "is the work unit")
        tap.ok(place.bytes(name) == place.bytes(place.unit), "it is unharmed")
        os.remove(name)


def quiet(place):
    tap.ok(place.interrupted(2, "--quiet").returncode == LATER, "interrupted, --quiet")
    p = place.run("--quiet")
    tap.ok(p.stderr == "", "--quiet: a continued run prints nothing", p.stderr)
    place.right("and gives its result", p)


def no_streams(place):
    p = subprocess.run(["sh", "-c", '"$@" <&- >&- 2>&-', "sh"] + place.argv(),
                       stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, universal_newlines=True)
    place.right("without standard streams", p)


# --- two at a time -------------------------------------------------------------------------

def two_runs(place):
    """A second run with the same output is refused, and does not disturb the first."""
    live = Live(place)
    p = place.run()
    tap.ok(live.process.poll() is None, "two runs at the same time", live.text())
    refused("the second is told", p, LATER,
            "out.npz.spool: another texcell is at work on this result")
    place.right("the first is not disturbed", live.wait())
    # With --checkpoint-dir the lock of the checkpoints does not help; the second run fails at the
    # result.
    state = os.path.join(WORK, "state2")
    os.mkdir(state)
    with open(place.out + ".tmp", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        p = place.run("--checkpoint-dir", state)
        refused("a result that another is writing", p, LATER,
                "another texcell is at work on this result")
    tap.ok(sorted(os.listdir(state)) == ["out.npz.checkpoint", "out.npz.spool"], "the work is kept",
           os.listdir(state))
    p = place.run("--checkpoint-dir", state)
    tap.ok("with 4 of 4 items done" in p.stderr, "and is not computed again", p.stderr)
    place.right("the result comes out", p)


def many_runs(place):
    """Six runs with the same output: each succeeds or says that another is at work; the result is
    right."""
    procs = [subprocess.Popen(place.argv("--quiet"), stderr=subprocess.PIPE,
                              universal_newlines=True) for _ in range(6)]
    ends = [(q.communicate(timeout=600)[1], q.returncode) for q in procs]
    wrong = [e for e in ends if e[1] not in (DONE, LATER) or
             (e[1] == LATER and "another texcell" not in e[0])]
    tap.ok(not wrong and any(code == DONE for _, code in ends), "six runs at the same time", ends)
    place.right("one more", place.run())


# --- signals while the result is written ------------------------------------------------------

def late_signals(place):
    """SIGTERM at each of the last calls that change files, by which the result is completed."""
    library = os.path.join(WORK, "kill_at.so")
    made = tap.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", library,
                    os.path.join(tap.SRC, "tests", "resume", "kill_at.c"), "-ldl"])
    if not tap.ok(made.returncode == 0, "kill_at.c compiles", made.stderr):
        return
    env = dict(os.environ, LD_PRELOAD=library, ASAN_OPTIONS="verify_asan_link_order=0")
    count = os.path.join(WORK, "count")
    p = place.run("--checkpoint-every", "3600", env=dict(env, KILL_COUNT=count))
    place.right("counted", p)
    with open(count) as f:
        calls = int(f.read())
    tap.ok(calls >= 8, "there are calls to interrupt", calls)
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
    tap.ok(not wrong, "SIGTERM while the result is written: it is completed", "\n".join(wrong))


# --- memory --------------------------------------------------------------------------------------

def no_memory():
    """Limits of memory from far too little to enough: each failing run prints one line and exits
    with 3."""
    if tap.sanitized():
        tap.skip("too little memory", "the sanitizers need the address space")
        return
    place = Place("memory", 1, (200, 300),
                  dict(PARAMETERS, maps=[{"feature": "asm", "levels": 16, "offset": [1, 0]}]))
    wrong, reasons, right, mib = [], set(), 0, 6
    while mib < 400:
        size = mib << 20
        p = place.run(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)))
        if p.returncode == DONE:
            right += 1
            if place.bytes() != place.expected or place.files() != ["out.npz", "unit.zip"]:
                wrong.append("%d MiB: another result, or %s" % (mib, place.files()))
            os.remove(place.out)
        # Below that the system ends the program while it is loaded; that is no fault of texcell's.
        elif p.returncode != 127 and "loading shared libraries" not in p.stderr and (
                reasons or p.stderr or p.returncode != -signal.SIGSEGV):
            found = errors(p)
            if p.returncode != LATER or len(found) != 1 or "out of memory" not in found[
                    0] or os.path.exists(place.out):
                wrong.append("%d MiB: exit %d\n%s" % (mib, p.returncode, p.stderr))
            reasons.add(found[0] if found else "")
        mib += 1 if mib < 30 else 37
    tap.ok(not wrong, "too little memory: one line, exit code 3", "\n".join(wrong[:3]))
    tap.ok(reasons and right, "there was too little at times, and enough at times",
           "%s, %d" % (reasons, right))


# --- the validator's output ---------------------------------------------------------------------

def hostile_names():
    """Names in a result, which may be malicious, contain control characters: none of them is
    printed."""
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
           "a difference is shown without control characters", repr(p.stdout))
    tap.ok(all(line.startswith(("features[", "text[", "no match"))
               for line in p.stdout.splitlines()),
           "and on one line", repr(p.stdout))


def validator_arguments(place):
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
               "odd arguments are no match: %s" % [os.path.basename(a) for a in argv],
               "exit %d %s" % (p.returncode, p.stdout))
    p = tap.run([tap.TEXCELL_VALIDATE, "compare", place.out, place.unit])
    tap.ok(p.returncode == BAD_INPUT and "is a work unit, not a result" in p.stderr,
           "a work unit in place of a result", p.stderr)
    if os.path.exists("/dev/full"):
        with open("/dev/full", "w") as full:
            code = subprocess.run([tap.TEXCELL_VALIDATE, "compare", place.out, place.out],
                                  stdout=full).returncode
        tap.ok(code == LATER, "an answer that cannot be written: try later", code)
    os.remove(place.out)


def main():
    place = Place("place", 4)
    early_refusals(place)
    quiet(place)
    no_streams(place)
    damaged_item(place)
    many_runs(place)
    late_signals(place)
    hostile_names()
    validator_arguments(place)
    slow = Place("slow", 4, (500, 700))
    changed_unit(slow)
    keeps_others(slow)
    vanished_folder(slow)
    two_runs(slow)
    no_memory()
    tap.done()


if __name__ == "__main__":
    main()
