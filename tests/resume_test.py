"""Tests that runs which are interrupted at random moments, by kill -9, SIGTERM or SIGINT, continue:
the result always has the bytes of an undisturbed run, and no other file is left. Also with
checkpoints that are damaged, exchanged or missing."""
import os
import random
import signal
import subprocess
import time

import numpy as np
import skimage.data

import analyses
import tap
from oracle import workunit
from oracle.workunit import item

SEED = int(os.environ.get("TEXCELL_SEED", "0")) or random.SystemRandom().randrange(1, 10 ** 6)
KILLS = int(os.environ.get("TEXCELL_KILLS", "20"))
MANY = KILLS >= 50        # whether other tests, too, are repeated more often
PATIENCE = 600            # seconds after which a run counts as hanging
RNG = random.Random(SEED)


class Run:
    """A running texcell, whose processor time is measured."""

    def __init__(self, argv, errors, **kw):
        self.process = subprocess.Popen(argv, stderr=errors, **kw)
        self.cpu = None

    def wait(self, seconds=PATIENCE, cpu=None):
        """Waits for the end of the run. Returns its exit status, or None after `seconds`, or after
        `cpu` seconds of processor time."""
        end = time.monotonic() + seconds
        while True:
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                self.cpu = usage.ru_utime + usage.ru_stime
                self.process.returncode = os.waitstatus_to_exitcode(status)
                return self.process.returncode
            if cpu is not None and self._cpu_so_far() >= cpu:
                return None
            if time.monotonic() >= end:
                return None
            time.sleep(0.003)

    def _cpu_so_far(self):
        with open("/proc/%d/schedstat" % self.process.pid) as f:
            own = int(f.read().split()[0]) * 1e-9
        # /proc/PID/stat has the time of all threads, schedstat only that of the first one.
        with open("/proc/%d/stat" % self.process.pid) as f:
            ticks = f.read().rsplit(")", 1)[1].split()[11:13]
        return max(own, sum(int(t) for t in ticks) / os.sysconf("SC_CLK_TCK"))

    def signal(self, sig):
        self.process.send_signal(sig)


class Job:
    """A work unit in its own folder, and the bytes of its result from an undisturbed run."""

    def __init__(self, root, name, parameters, items, options, analysis="glcm"):
        self.name = name
        self.folder = os.path.join(root, name)
        os.mkdir(self.folder)
        self.unit = os.path.join(self.folder, "unit.zip")
        self.result = os.path.join(self.folder, "result.npz")
        self.options = options
        self.errors = os.path.join(root, name + ".stderr")
        workunit.write(self.unit, analysis, parameters, items)
        begin = time.monotonic()
        run = self.start()
        code = run.wait()
        self.seconds = time.monotonic() - begin
        self.cpu = run.cpu
        if not tap.ok(code == 0, "%s: an undisturbed run succeeds" % name, self.stderr()):
            tap.done()
        self.expected = self.bytes()
        os.remove(self.result)
        tap.note("%s: %.1f s undisturbed, %.1f s of processor time" % (name, self.seconds,
                                                                       self.cpu))

    def start(self, **kw):
        with open(self.errors, "w") as errors:
            return Run([tap.TEXCELL, "run", self.unit, "-o", self.result, "--device", "cpu"] +
                       self.options, errors, **kw)

    def stderr(self):
        with open(self.errors) as f:
            return f.read()

    def bytes(self):
        with open(self.result, "rb") as f:
            return f.read()

    def files(self):
        return sorted(os.listdir(self.folder))

    def finish(self, title):
        """Runs to the end and checks the result (one test point). Returns the processor time in
        seconds."""
        run = self.start()
        self.judge(title, run.wait())
        return run.cpu

    def judge(self, title, code):
        """A test point: exit code 0, the right bytes, and no other file. Then removes the
        result."""
        good = code == 0 and os.path.exists(self.result)
        same = good and self.bytes() == self.expected
        clean = self.files() == ["result.npz", "unit.zip"]
        tap.ok(good and same and clean, "%s: %s" % (self.name, title),
               "exit %s, bytes %s, files %s\n%s" %
               (code, "equal" if same else "differ", self.files(), self.stderr()))
        self.clear()
        return good and same and clean

    def clear(self):
        for name in self.files():
            if name != "unit.zip":
                os.remove(os.path.join(self.folder, name))

    def saved(self):
        """{name: bytes} of the files that a killed run has left."""
        left_files = {}
        for name in self.files():
            if name != "unit.zip":
                with open(os.path.join(self.folder, name), "rb") as f:
                    left_files[name] = f.read()
        return left_files

    def restore(self, saved):
        self.clear()
        for name, data in saved.items():
            if data is not None:
                with open(os.path.join(self.folder, name), "wb") as f:
                    f.write(data)

    def kill_after(self, seconds, sig=signal.SIGKILL, cpu=None):
        """Starts the run and sends it `sig` after `seconds`, or after `cpu` seconds of processor
        time. Returns the exit status, whether the run had not ended before, and the seconds from
        the signal to its end."""
        run = self.start()
        code = run.wait(seconds, cpu)
        if code is not None:
            return code, False, 0
        begin = time.monotonic()
        run.signal(sig)
        return run.wait(), True, time.monotonic() - begin

    def half_done(self):
        """Kills a run after about half of its time, so that a checkpoint is left."""
        for share in (0.5, 0.6, 0.4, 0.7, 0.3, 0.8) * 3:
            self.clear()
            self.kill_after(PATIENCE, cpu=share * self.cpu)
            if os.path.exists(self.result + ".checkpoint") and not os.path.exists(self.result):
                return True
        return tap.ok(False, "%s: a killed run leaves a checkpoint" % self.name, self.files())


def pictures():
    return {"camera": skimage.data.camera(), "brick": skimage.data.brick(),
            "gravel": skimage.data.gravel(), "coins": skimage.data.coins()}


def one_long_item(root):
    return Job(root, "one_item", {"preset": "hcc", "roi": {"type": "disc", "r": 40}},
               [item("camera", [pictures()["camera"]])],
               ["--threads", "1", "--checkpoint-every", "0.2"])


def many_items(root, threads="2", every="0.05"):
    """A job of many small items with arrays, so that the spool (the file of finished items)
    grows."""
    items = []
    for name, p in pictures().items():
        for k in range(6):
            crop = p[40 * k:40 * k + 60, 30 * k:30 * k + 60]
            items.append(item("%s_%d" % (name, k), [crop]))
    parameters = {"levels": [16, 32], "distances": [1, 2, 3, 4, 5, 6], "per_offset": True,
                  "window": {"shape": "disc", "radius": 16}, "roi": {"type": "disc", "r": 16},
                  "maps": [{"feature": "entropy", "levels": 32, "offset": [1, 0]},
                           {"feature": "asm", "levels": 16, "offset": [-1, 1]}]}
    return Job(root, "many_items", parameters, items,
               ["--threads", threads, "--checkpoint-every", every])


def stacks(root):
    p = pictures()
    rng = np.random.default_rng(3)
    stack = [p["camera"][80 * z:80 * z + 70, 100:170] for z in range(5)]
    masks = [rng.random(s.shape) < 0.5 for s in stack]
    parameters = {"levels": [16, 64, 256], "distances": [1, 3, 5], "directions": "four",
                  "window": {"shape": "square", "radius": 9}, "roi": {"type": "mask"},
                  "maps": [{"feature": "imc2", "levels": 256, "offset": [3, 0]}]}
    return Job(root, "stacks", parameters,
               [item("a", stack, masks), item("b", stack[::-1], masks)],
               ["--threads", "3", "--checkpoint-every", "0.01"])


def jobs_of_analyses(root):
    """Yields a job with ordinary pictures for each analysis, as in estimates.py."""
    for analysis, of in analyses.each():
        parameters, *planes = of.ESTIMATES[-1]
        slices, labels = ([list(a) if a.ndim == 3 else [a] for a in planes] + [None])[:2]
        yield Job(root, analysis, analyses.parameters_of(parameters),
                  [item("a", slices, labels=labels),
                   item("b", [s[::-1] for s in slices], labels=labels)],
                  ["--threads", "2", "--checkpoint-every", "0.01"], analysis)


def test_three_kills(job):
    """Kills a job three times, early, in the middle and late; each run continues the previous
    one."""
    killed = 0
    for share in (0.2, 0.4, 0.4):
        code, in_time, _ = job.kill_after(PATIENCE, cpu=share * job.cpu)
        if not in_time:
            return job.judge("result before it was killed", code)
        killed += 1
    return job.finish("result after %d kills at parts of its time" % killed)


def test_kills(job, kills):
    """Kills a job `kills` times. If a run ends before it is killed, its result is checked and the
    job starts again."""
    killed = ends = 0
    resumed = False
    while killed < kills:
        code, in_time, _ = job.kill_after(RNG.uniform(0.02, 1.2 * min(job.seconds, 1.0)))
        resumed = resumed or "going on from the checkpoint" in job.stderr()
        if in_time:
            killed += 1
        else:
            ends += 1
            if not job.judge("result after kills, no. %d" % ends, code):
                return
    job.finish("result after %d kills" % killed)
    tap.ok(resumed, "%s: runs continued from checkpoints, with a message" % job.name, job.stderr())


def test_signal(job, sig):
    """SIGTERM or SIGINT: the run ends within 5 s, with exit code 3 and a message, and no work is
    lost."""
    name = signal.Signals(sig).name
    code, in_time, delay = job.kill_after(PATIENCE, sig, cpu=0.5 * job.cpu)
    errors = job.stderr()
    tap.ok(in_time and code == 3, "%s: %s ends it with exit code 3" % (job.name, name),
           "exit %s\n%s" % (code, errors))
    tap.ok(delay < 5, "%s: %s ends it within 5 s" % (job.name, name), "%.1f s" % delay)
    tap.ok(any(line.startswith("texcell: ") and "signal" in line for line in errors.splitlines()),
           "%s: %s is named on stderr" % (job.name, name), errors)
    tap.ok(not os.path.exists(job.result) and len(job.files()) > 1,
           "%s: %s leaves a checkpoint and no result" % (job.name, name), job.files())
    spent = job.finish("result after %s" % name)
    tap.ok(spent < 0.75 * job.cpu + 0.3, "%s: the work before %s is not done again" %
           (job.name, name), "%.1f s of %.1f s of processor time" % (spent, job.cpu))


def test_damaged_checkpoints(job, other):
    """Checkpoint and spool with flipped bits, truncated, emptied, replaced by another job's, and
    removed."""
    if not job.half_done():
        return
    saved = job.saved()
    tap.note("left by a kill: %s" % {n: len(b) for n, b in saved.items()})
    checkpoint = "result.npz.checkpoint"
    if not tap.ok(checkpoint in saved, "%s: the checkpoint's name" % job.name, sorted(saved)):
        return

    def flip(data):
        position = RNG.randrange(len(data))
        return data[:position] + bytes([data[position] ^ (1 << RNG.randrange(8))]) + data[position +
                                                                                          1:]

    def cut(data):
        return data[:RNG.randrange(len(data))]

    def test_change(title, changes, must_say):
        job.restore(dict(saved, **changes))
        job.finish(title)
        if must_say:
            messages = job.stderr()
            tap.ok("texcell: " in messages and "over" in messages,
                   "%s: %s: a message says that it starts over" % (job.name, title), messages)

    for n, data in saved.items():
        is_checkpoint = n == checkpoint
        for k in range(4 if MANY else 2):
            test_change("%s with a flipped bit, %d" % (n, k), {n: flip(data)}, is_checkpoint)
        if is_checkpoint:
            # Flips bits also in the head, which has lengths and counts.
            for k in range(6 if MANY else 3):
                test_change("%s with a flipped bit in its head, %d" % (n, k),
                            {n: flip(data[:64]) + data[64:]}, True)
        for k in range(2 if MANY else 1):
            test_change("%s cut short, %d" % (n, k), {n: cut(data)}, is_checkpoint)
        test_change("%s with a tail" % n, {n: data + b"tail"}, False)
        test_change("%s empty" % n, {n: b""}, is_checkpoint)
        test_change("%s gone" % n, {n: None}, False)
        test_change("%s full of noise" % n, {n: RNG.randbytes(len(data))}, is_checkpoint)
    if other.half_done():
        foreign = other.saved()
        test_change("the checkpoint of another work unit", foreign, True)
        test_change("only the checkpoint of another work unit",
                    {checkpoint: foreign.get(checkpoint)}, True)
        other.clear()


def test_checkpoint_dir(job):
    """--checkpoint-dir: checkpoints are in that folder, and are removed at the end."""
    folder = os.path.join(os.path.dirname(job.folder), "elsewhere")
    os.mkdir(folder)
    options = job.options
    job.options = options + ["--checkpoint-dir", folder]
    for share in (0.5, 0.7, 0.9):
        job.kill_after(PATIENCE, cpu=share * job.cpu)
        if os.listdir(folder):
            break
    tap.ok(os.listdir(folder) and job.files() == ["unit.zip"],
           "%s: checkpoints go to --checkpoint-dir" % job.name,
           "%s, %s" % (os.listdir(folder), job.files()))
    job.finish("result after a kill, with --checkpoint-dir")
    tap.ok(not os.listdir(folder), "%s: --checkpoint-dir is empty at the end" % job.name,
           os.listdir(folder))
    job.options = options


def test_other_threads(job):
    """A run is continued with another number of threads."""
    options = job.options
    for n in ("1", "7", "2"):
        if not job.half_done():
            return
        job.options = ["--threads", n, "--checkpoint-every", "0.2"]
        job.finish("resumed with %s threads" % n)
        job.options = options


def preload(root):
    """The environment variables that let a run be killed at a chosen call that creates, writes,
    syncs, renames or removes a file; None if the preloaded library cannot be compiled."""
    library = os.path.join(root, "kill_at.so")
    source = os.path.join(tap.SRC, "tests", "resume", "kill_at.c")
    made = subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", library, source,
                           "-ldl"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if not tap.ok(made.returncode == 0, "kill_at.c compiles", made.stdout):
        return None
    return dict(os.environ, LD_PRELOAD=library, ASAN_OPTIONS="verify_asan_link_order=0")


def calls_of(root, job, env):
    count = os.path.join(root, "calls")
    job.start(env=dict(env, KILL_COUNT=count)).wait()
    with open(count) as f:
        return int(f.read())


def test_kills_at_calls(root, job, env, trials):
    """Kills a job at chosen calls, in a write after half of its bytes; then continues it without
    writing checkpoints, so that it must remove the files left."""
    calls = calls_of(root, job, env)
    job.clear()
    options = job.options
    for n in RNG.sample(range(1, calls + 1), min(trials, calls)):
        code = job.start(env=dict(env, KILL_AT=str(n))).wait()
        if code != -signal.SIGKILL:      # fewer calls: the number of checkpoints varies
            job.clear()
            continue
        job.options = options[:-1] + ["3600"]
        job.finish("killed at call %d of about %d" % (n, calls))
        job.options = options


def test_kills_at_last_calls(root, job, env, trials):
    """Kills a job at each of the calls that complete the result file."""
    if not job.half_done():
        return
    saved = job.saved()
    options = job.options
    job.options = options[:-1] + ["3600"]
    calls = calls_of(root, job, env)
    for n in range(max(1, calls - trials + 1), calls + 1):
        job.restore(saved)
        code = job.start(env=dict(env, KILL_AT=str(n))).wait()
        tap.ok(code == -signal.SIGKILL, "%s: killed at call %d of %d" % (job.name, n, calls), code)
        job.finish("result after call %d of %d" % (n, calls))
    job.options = options


def test_stop_while_packing(root):
    """Stops a job while it compresses an item's labels into the spool, which then ends in an
    incomplete record."""
    noise = np.random.default_rng(8).integers(0, 256, (2400, 2400)).astype(np.uint8)
    job = Job(root, "packing", {"min_area": 1, "labels": True}, [item("a", [noise])],
              ["--threads", "1"], "cellcount")
    spool = job.result + ".spool"
    stops = 0
    for i in range(6):
        run = job.start()
        while run.wait(0.002) is None and not (os.path.exists(spool) and os.path.getsize(spool) >
                                               200000 * (i + 1)):
            pass
        if run.process.returncode is None:
            run.signal((signal.SIGTERM, signal.SIGKILL)[i % 2])
            run.wait()
            stops += not os.path.exists(job.result)
    job.judge("stopped %d times while packing" % stops,
              0 if os.path.exists(job.result) else job.start().wait())
    tap.ok(stops > 2, "packing: more than two runs were stopped while packing", stops)


def main():
    tap.note("seed %d (TEXCELL_SEED repeats it), %d kills" % (SEED, KILLS))
    root = tap.scratch()
    long_job = one_long_item(root)
    small_items = many_items(root)
    stack_items = stacks(root)
    share = KILLS // 5
    test_kills(long_job, 2 * share)
    test_kills(small_items, 2 * share)
    test_kills(stack_items, KILLS - 4 * share)
    for job in jobs_of_analyses(root):
        test_three_kills(job)
    for job in (small_items, long_job):
        test_signal(job, signal.SIGTERM)
        test_signal(job, signal.SIGINT)
    tap.ok(" s since the restart" in long_job.stderr(),
           "the time of an item begun before the restart is measured from the restart",
           long_job.stderr())
    test_damaged_checkpoints(small_items, stack_items)
    test_stop_while_packing(root)
    env = preload(root)
    if env is not None:
        test_kills_at_calls(root, stack_items, env, 16 if MANY else 6)
        test_kills_at_last_calls(root, small_items, env, 9)
    test_checkpoint_dir(small_items)
    test_other_threads(small_items)
    tap.done()


if __name__ == "__main__":
    main()
