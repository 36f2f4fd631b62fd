"""Tests how long texcell continues after it was suspended or stopped, while it reads, prepares,
computes, finishes, or packs the result. For each analysis, with large pictures and stacks.

The test measures the times between two polls, in which texcell asks whether to stop
(TEXCELL_TEST_GAPS records them), and the time from SIGTERM to the exit, without the fsync of the
checkpoint. The limits are 0.2 s for 95% of the moments, and 0.5 s for all, in processor time of one
thread, which does not depend on other processes; wall time is printed, too. The variable AT_ONCE
has words: all up to 20,000 x 20,000 and 512^3, and 200 moments for each analysis: takes hours quiet
two threads, and wall time is tested: no other process runs opencl on a device; opencl=P:D steps a
false clock makes each step as short as possible, so that the times between polls are those of
indivisible work; they may depend on the picture's size side=N cube=N moments=N jobs=I,J,... other
sizes and numbers; numbers of jobs in memory_jobs() seconds=N no new moment after that time, which
is divided among the jobs keep=DIR a folder in which the work units are kept for the next call With
TEXCELL_ANALYSIS=NAME several can run side by side."""
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

WORDS = dict(w.partition("=")[::2] for w in os.environ.get("AT_ONCE", "").split())
ALL, QUIET = "all" in WORDS, "quiet" in WORDS
STEPS = "steps" in WORDS
DEVICE = WORDS.get("opencl", "cpu") or "opencl"
SIDE, CUBE, MOMENTS = (int(WORDS.get(word, usual)) for word, usual in
                       (("side", 20000 if ALL else 8000 if STEPS else 3000),
                        ("cube", 512 if ALL else 256 if STEPS else 200),
                        ("moments", 200 if ALL else 6)))
SECONDS = float(WORDS.get("seconds", 1e6))
USUAL, MOST = 0.2, 0.5
WORK = tap.scratch()
KEEP = WORDS.get("keep", WORK)
TICK = os.sysconf("SC_CLK_TCK")


def large(pixels):
    """The pixels repeated up to the size SIDE or CUBE, as a list of slices."""
    if pixels is None:
        return None
    shape = (CUBE,) * 3 if pixels.ndim == 3 else (SIDE,) * 2
    times = [-(-n // m) for n, m in zip(shape, pixels.shape)]
    more = np.tile(pixels, times)[tuple(slice(n) for n in shape)]
    return list(more) if more.ndim == 3 else [more]


def fitting(parameters):
    """The parameters, with the initial box of a level set reduced to the width SIDE."""
    init = parameters.get("init", {})
    return dict(parameters,
                init=dict(init, x1=min(init["x1"], SIDE - 10))) if "x1" in init else parameters


def start(unit, result, gaps, **more):
    """Starts a run; the times between its polls go to the file `gaps`."""
    open(gaps, "w").close()
    return subprocess.Popen(
        [tap.TEXCELL_TEST, "run", unit, "-o", result, "--device", DEVICE, "--threads",
         "2" if QUIET else "1", "--quiet",
         "--checkpoint-every", "1000000" if STEPS else "5"], stderr=subprocess.DEVNULL,
        env=dict(os.environ, TEXCELL_TEST_GAPS=gaps, **more))


def read_gaps(gaps):
    """The gaps between polls, as [(end as time of day, seconds of wall time, seconds of processor
    time)], and the same of each fsync."""
    found = {"gap": [], "sync": []}
    with open(gaps) as f:
        for word, *numbers in (line.split() for line in f):
            found[word].append(tuple(map(float, numbers)))
    return found["gap"], found["sync"]


def within(gaps, total):
    """The 95th percentile of the time from a random moment in `total` seconds to the next poll, in
    seconds. gaps: the lengths of all times between polls."""
    low, high = 0.0, max(gaps, default=0.0)
    while high - low > 1e-4:
        middle = (low + high) / 2
        if sum(max(gap - middle, 0) for gap in gaps) > 0.05 * total:
            low = middle
        else:
            high = middle
    return high


def test_polls(title, unit, patience):
    """Tests that the gaps between polls are short in a run. Returns its result (None if it took
    longer than `patience` seconds), and its time."""
    result, gaps = os.path.join(WORK, "whole.npz"), os.path.join(WORK, "gaps")
    begin, p = time.time(), start(unit, result, gaps)
    try:
        p.wait(patience)
    except subprocess.TimeoutExpired:
        p.kill()
        p.wait()
    total = time.time() - begin
    found = read_gaps(gaps)[0] or [(begin, 0.0, 0.0)]
    _, clock, used = zip(*found)
    judged = clock if QUIET else used
    figures = "%.1f s; 95%% within %.0f ms, longest %.0f ms, of processor time %.0f and %.0f" % (
        total, 1e3 * within(clock, total), 1e3 * max(clock), 1e3 * within(used, total),
        1e3 * max(used))
    tap.ok(p.returncode in (0, -signal.SIGKILL) and within(judged, total) <= USUAL and
           max(judged) <= MOST,
           "%s: polls are frequent (%s%s)" % (title, figures,
                                         "" if p.returncode == 0 else "; not to the end"))
    for when, seconds, of_them in sorted(found, key=lambda gap: -gap[1])[:3]:
        tap.note("at %.1f s: %.0f ms, %.0f of processor time" % (when - begin, 1e3 * seconds,
                                                                 1e3 * of_them))
    if p.returncode != 0:
        return None, total
    with open(result, "rb") as f:
        return f.read(), total


def processor_time(pid):
    with open("/proc/%d/stat" % pid) as f:
        fields = re.sub(r".*\) ", "", f.read()).split()
    return (int(fields[11]) + int(fields[12])) / TICK


def stop(unit, result, after):
    """Sends SIGTERM to a run after some seconds. Returns the seconds from the signal to its exit:
    (wall time without fsync, processor time, fsync), or None if it ended before."""
    gaps = os.path.join(WORK, "gaps")
    p = start(unit, result, gaps)
    try:
        p.wait(after)
        return None
    except subprocess.TimeoutExpired:
        before, begin = processor_time(p.pid), time.time()
    # Not by send_signal(), which would poll, and take the exit status from wait4 below.
    os.kill(p.pid, signal.SIGTERM)
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    took = time.time() - begin
    syncs = sum(seconds for when, seconds, _ in read_gaps(gaps)[1] if when >= begin)
    return took - syncs, usage.ru_utime + usage.ru_stime - before, syncs


def short_steps():
    """Compiles a library to be preloaded, with which steps are as short as possible."""
    library = os.path.join(WORK, "short_steps.so")
    made = tap.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", library,
                    os.path.join(tap.SRC, "tests", "resume", "short_steps.c"), "-ldl"])
    if not tap.ok(made.returncode == 0, "short_steps.c compiles", made.stderr):
        tap.done()
    return library


def test_indivisible_work(title, unit, share, library):
    """Tests that the work between two polls, which cannot be divided, would be within the limit for
    the largest picture. share: this unit's work as a share of the largest picture's."""
    gaps = os.path.join(WORK, "gaps")
    p = start(unit, os.path.join(WORK, "whole.npz"), gaps, LD_PRELOAD=library)
    p.wait()
    found = read_gaps(gaps)[0] or [(0, 0.0, 0.0)]
    longest = max(used for _, _, used in found)
    tap.ok(p.returncode == 0 and longest <= share * MOST,
           "%s: at most %.0f ms of processor time between polls (%.0f)" %
           (title, 1e3 * share * MOST, 1e3 * longest))


def seconds_to_work(unit):
    """Seconds from the start of a run to the end of its first step."""
    begin = time.time()
    start(unit, os.path.join(WORK, "begun.npz"), os.path.join(WORK, "gaps"),
          TEXCELL_TEST_QUIT_AFTER_STEPS="1").wait()
    clear("begun.")
    return time.time() - begin


def clear(prefix):
    """Removes the files in WORK that begin with the prefix."""
    for name in os.listdir(WORK):
        if name.startswith(prefix):
            os.remove(os.path.join(WORK, name))


def test_stops(title, unit, whole, seconds, moments, end):
    """Stops runs at random moments of their whole duration. Later runs continue from the previous
    one's checkpoint, as starting anew each time would take days."""
    rng, found = random.Random(title), []
    begin = min(seconds_to_work(unit), seconds)
    going = os.path.join(WORK, "going.npz")
    for _ in range(moments):
        if time.time() > end:
            break
        if rng.uniform(0, seconds) < begin:
            took = stop(unit, os.path.join(WORK, "early.npz"), rng.uniform(0, begin))
            clear("early.")
        else:
            took = stop(unit, going, begin + rng.uniform(0, 2 * (seconds - begin) / moments))
        if took is not None:
            found.append(took)
        if os.path.exists(going):
            with open(going, "rb") as f:
                tap.ok(whole in (None, f.read()),
                       "%s: stopped and continued, the same bytes" % title)
            clear("going.")
    clear("going.")
    judge_stops(title, found)
    return found


def judge_stops(title, found):
    """A test point: the times of stop() are within the limits."""
    if not found:
        tap.skip(title + ": the run stops at once", "it was done each time")
        return
    clock, used, syncs = (sorted(of) for of in zip(*found))
    judged, at = clock if QUIET else used, int(0.95 * len(found))
    figures = ("%d stops: 95%% within %.0f ms, longest %.0f ms, of processor time %.0f and %.0f, "
               "and fsync %.0f and %.0f") % (
                   (len(found),) + tuple(1e3 * of[i] for of in (clock, used, syncs)
                                         for i in (at, -1)))
    tap.ok(judged[at] <= (USUAL if len(found) > 20 else MOST) and judged[-1] <= MOST,
           "%s: the run stops at once (%s)" % (title, figures))


def main():
    if tap.sanitized():
        tap.skip("at once", "the sanitizers take their own time")
        tap.done()
    library = short_steps() if STEPS else None
    for analysis, of in analyses.each():
        jobs, begin, found = of.memory_jobs(), time.time(), []
        usual = range(len(jobs)) if ALL or STEPS else (0, len(jobs) - 1)
        chosen = [int(i) for i in WORDS["jobs"].split(",")] if "jobs" in WORDS else usual
        for done, i in enumerate(chosen):
            parameters, pixels, *labels = jobs[i]
            shape = "%d^%d" % (CUBE if pixels.ndim == 3 else SIDE, pixels.ndim)
            title = "%s of %s, %s" % (analysis, shape, " ".join(sorted(parameters)) or "as it is")
            unit = os.path.join(KEEP, "%s_%d_%s.zip" % (analysis, i, shape))
            if not os.path.exists(unit):
                workunit.write(unit, analysis, fitting(parameters),
                               [item("a", large(pixels),
                                     labels=large(labels[0] if labels else None))])
            end = begin + SECONDS * (done + 1) / len(chosen)
            if STEPS:
                share = (CUBE / 512) ** 3 if pixels.ndim == 3 else (SIDE / 20000) ** 2
                test_indivisible_work(title, unit, share, library)
            else:
                found += test_stops(title, unit, *test_polls(title, unit, (end - time.time()) / 2),
                                    -(-MOMENTS // len(chosen)), end)
            if KEEP == WORK:
                os.remove(unit)
        if len(chosen) > 1 and not STEPS:
            judge_stops(analysis + " of any of these", found)
    tap.done()


main()
