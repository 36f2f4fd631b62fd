"""At once: how long a task that is suspended or stopped goes on, whatever it is doing: reading,
preparing, working, finishing, packing the result. Each analysis, large pictures and stacks.

From any moment to the next question whether to go on (TEXCELL_TEST_GAPS), and from SIGTERM to
the exit: 0.2 s in the 95th percentile, 0.5 s at most, in processor time of one thread, as the
machine may be busy; the clock's is told beside it. AT_ONCE=all: up to 20,000 x 20,000 and
512^3 and 200 moments each, which takes hours; AT_ONCE=opencl: on a device."""
import os
import random
import re
import signal
import subprocess
import time

import numpy as np

import analyses
import tap
from oracle import workunit
from oracle.workunit import item

ALL = os.environ.get("AT_ONCE") == "all"
DEVICE = "opencl" if os.environ.get("AT_ONCE") == "opencl" else "cpu"
SIDE, CUBE, MOMENTS = (20000, 512, 200) if ALL else (3000, 200, 3)
USUAL, MOST = 0.2, 0.5
WORK = tap.scratch()
TICK = os.sysconf("SC_CLK_TCK")


def large(pixels):
    """The same again and again, in slices."""
    if pixels is None:
        return None
    shape = (CUBE,) * 3 if pixels.ndim == 3 else (SIDE,) * 2
    times = [-(-n // m) for n, m in zip(shape, pixels.shape)]
    more = np.tile(pixels, times)[tuple(slice(n) for n in shape)]
    return list(more) if more.ndim == 3 else [more]


def command(program, unit, result, threads):
    return [program, "run", unit, "-o", result, "--device", DEVICE, "--threads", str(threads), "--quiet",
            "--checkpoint-every", "5"]


def within(gaps, total):
    """The time that 95 of 100 moments of `total` seconds are at most away from the end of their gap."""
    low, high = 0.0, max(gaps, default=0.0)
    while high - low > 1e-4:
        middle = (low + high) / 2
        if sum(max(gap - middle, 0) for gap in gaps) > 0.05 * total:
            low = middle
        else:
            high = middle
    return high


def ask_often(title, unit):
    """One run with one thread: its processor time is what a quiet machine's clock would show. Returns
    its result, and how long it took."""
    result, gaps = os.path.join(WORK, "whole.npz"), os.path.join(WORK, "gaps")
    open(gaps, "w").close()
    start = time.monotonic()
    p = tap.run(command(tap.TEXCELL_TEST, unit, result, 1), timeout=36000, env=dict(os.environ, TEXCELL_TEST_GAPS=gaps))
    total = time.monotonic() - start
    with open(gaps) as f:
        clock, used = zip(*([tuple(map(float, line.split()[1:])) for line in f] or [(0.0, 0.0)]))
    figures = "%.1f s; 95%% within %.0f ms, longest %.0f ms (by the clock %.0f and %.0f)" % (
        total, 1e3 * within(used, total), 1e3 * max(used), 1e3 * within(clock, total), 1e3 * max(clock))
    tap.ok(p.returncode == 0 and within(used, total) <= USUAL and max(used) <= MOST,
           "%s: it asks often (%s)" % (title, figures), p.stderr)
    with open(result, "rb") as f:
        return f.read(), total


def processor_time(pid):
    with open("/proc/%d/stat" % pid) as f:
        fields = re.sub(r".*\) ", "", f.read()).split()
    return (int(fields[11]) + int(fields[12])) / TICK


def stop(unit, result, after):
    """Seconds from SIGTERM to the exit, of one thread and by the clock; None: it was done before."""
    p = subprocess.Popen(command(tap.TEXCELL, unit, result, 1), stderr=subprocess.DEVNULL)
    try:
        p.wait(after)
        return None
    except subprocess.TimeoutExpired:
        before, start = processor_time(p.pid), time.monotonic()
    p.send_signal(signal.SIGTERM)
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime - before, time.monotonic() - start


def stops(title, unit, whole, seconds):
    """At moments of the whole run, then once more and again until the result is there."""
    rng, found = random.Random(title), []
    for i in range(MOMENTS):
        result = os.path.join(WORK, "stopped.npz")
        took = stop(unit, result, seconds * rng.uniform(i, i + 1) / MOMENTS)
        if took is not None:
            found.append(took)
            p = tap.run(command(tap.TEXCELL, unit, result, 2), timeout=36000) if i % 10 == MOMENTS % 10 - 1 else None
        if os.path.exists(result):
            with open(result, "rb") as f:
                same = f.read() == whole
            tap.ok(same, "%s: stopped, it goes on to the same bytes" % title)
        for name in os.listdir(WORK):
            if name.startswith("stopped."):
                os.remove(os.path.join(WORK, name))
    used, clock = sorted(u for u, _ in found), sorted(c for _, c in found)
    if not used:
        tap.skip(title + ": it stops at once", "it was done each time")
        return
    at = int(0.95 * len(used))
    figures = "%d stops: 95%% within %.0f ms, longest %.0f ms (by the clock %.0f and %.0f)" % (
        len(used), 1e3 * used[at], 1e3 * used[-1], 1e3 * clock[at], 1e3 * clock[-1])
    tap.ok(used[at] <= (USUAL if MOMENTS > 20 else MOST) and used[-1] <= MOST, "%s: it stops at once (%s)" % (title, figures))


def main():
    if b"__asan_init" in open(tap.TEXCELL, "rb").read():
        tap.skip("at once", "the sanitizers take their own time")
        tap.done()
    for analysis, of in analyses.each():
        jobs = of.memory_jobs()
        for parameters, pixels, *labels in jobs if ALL else [jobs[0], jobs[-1]]:
            title = "%s of %d^%d, %s" % (analysis, CUBE if pixels.ndim == 3 else SIDE, pixels.ndim,
                                         " ".join(sorted(parameters)) or "as it is")
            unit = os.path.join(WORK, "unit.zip")
            workunit.write(unit, analysis, parameters, [item("a", large(pixels), labels=large(labels[0] if labels else None))])
            stops(title, unit, *ask_often(title, unit))
    tap.done()


main()
