"""Tests every program and analysis under limits of memory, file size, open files and processor
time; with a signal at each call that changes files, also a second one while the process stops for
the first; with a clock that is set by days; and with the process id of a killed process. The exit
code is 0 with all work done, or there is a reason; no file is incomplete; and the same command,
repeated, does the work, from the checkpoint on.

LIMITS=N tries up to N values of each limit, and N calls; default: every eleventh trial of LIMITS=4.
LIMITS_ONLY: a regular expression for names of cases."""
import fcntl
import os
import re
import resource
import shutil
import signal
import subprocess
import time

import analyses
import calls_test
import driver_faults
import tap

FOLDER = calls_test.FOLDER
WANTED = os.environ.get("LIMITS", "")
MOST = int(WANTED or 4)
ONLY = re.compile(os.environ.get("LIMITS_ONLY", ""))
LANES = 2
MIB = 1 << 20
path = calls_test.path
# Signals that texcell handles: it stops with a checkpoint. The other programs end at once.
STOPS = (signal.SIGTERM, signal.SIGXCPU, signal.SIGHUP, signal.SIGINT)


def library(name, *source):
    """Compiles a library to be preloaded."""
    made = tap.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-o", path(name + ".so"),
                    os.path.join(tap.SRC, "tests", *source), "-ldl"])
    if not tap.ok(made.returncode == 0, source[-1] + " compiles", made.stderr):
        tap.done()
    return path(name + ".so")


def spread(low, high):
    """A geometric sequence of up to MOST values from low to high."""
    return sorted({round(low * (high / low) ** (i / max(1, MOST - 1))) for i in range(MOST)})


def side_by_side(title, jobs, trial):
    """A test point for all jobs, which several threads run; trial(lane, job) returns the error of a
    job, or None. Without WANTED only every eleventh job is run."""
    jobs = jobs if WANTED else jobs[len(title) % 11::11]
    bad = ["%s: %s" % (job, wrong[-700:]) for job, wrong in tap.side_by_side(LANES, jobs, trial)
           if wrong]
    if jobs:
        tap.ok(not bad, "%s: %d trials" % (title, len(jobs)), "\n".join(bad[:12]))


def try_case(case, lane, by_signal=(), **how):
    """Runs a case with limits or an environment (`how`), and repeats it without them if it failed.
    Returns the error, or None. by_signal: signals that may end the run."""
    out = path("out", "%s_%d" % (case.name, lane))
    run = case.run(out, **how)
    ended = -run.returncode in by_signal
    if ended:
        run.returncode, run.stderr = case.good[0], "signal"
    bad = case.wrong(run, out)
    if not bad and run.returncode != 0:
        bad = case.wrong(case.run(out, fresh=False), out, again=True)
        bad = bad and "the same again: " + bad
    return bad


def test_limits(case):
    largest = max(map(len, case.expected.values()), default=1000)
    jobs = [("memory", resource.RLIMIT_AS, n * MIB) for n in spread(12, 200)]
    jobs += [("file size", resource.RLIMIT_FSIZE, n) for n in [0] + spread(64, 2 * largest + 128)]
    jobs += [("open files", resource.RLIMIT_NOFILE, n) for n in range(3, 3 + 3 * MOST, 3)]
    # With too little memory the kernel may kill a process before its first instruction.
    side_by_side(case.name + ": limits of memory, file size and open files", jobs,
                 lambda lane, job: try_case(
                     case, lane, (signal.SIGKILL, signal.SIGSEGV) if job[2] < 16 * MIB and
                     job[0] == "memory" else (), limits=[(job[1], job[2], job[2])]))


def test_signals(case, kill_at):
    """Sends a signal at each call that changes files; a second signal ends the process at once."""
    count = path("count")
    case.run(path("out", case.name), LD_PRELOAD=kill_at, KILL_COUNT=count)
    calls = max(map(int, calls_test.content(count).split()))
    step = max(1, calls // MOST)
    jobs = [(n, sig, times) for n in range(1, calls + 1, step) for sig, times in
            ((signal.SIGTERM, 1), (signal.SIGTERM, 2), (signal.SIGTERM, 1000), (signal.SIGXCPU, 2),
             (signal.SIGXFSZ, 1000))]
    side_by_side("%s: signals at %d calls" % (case.name, calls), jobs, lambda lane, job: try_case(
        case, lane, () if job[1] == signal.SIGXFSZ else STOPS, LD_PRELOAD=kill_at,
        KILL_AT=str(job[0]),
        KILL_SIGNAL=str(int(job[1])), KILL_TIMES=str(job[2])))


def test_clocks(case, clock):
    """All work is done although the wall clock is set."""
    def trial(lane, job):
        out = path("out", "%s_%d" % (case.name, lane))
        run = case.run(out, LD_PRELOAD=clock, **job)
        return case.wrong(run, out, again=True) or ("exit %d: %s" % (run.returncode, run.stderr)
                                                    if run.returncode else None)
    side_by_side(case.name + ": a clock that is set by days",
                 [{}, {"CLOCK_BACK": "1"}] * (1 if WANTED else 6), trial)


def test_processor_time():
    """SIGXCPU at the soft limit of 1 s of processor time: each run stops with a checkpoint and the
    next one continues, until the work is done."""
    for name, of in analyses.each()[0 if WANTED else -1:]:
        parameters, *planes = of.ESTIMATES[-1]
        slices, labels = ([list(a) if a.ndim == 3 else [a] for a in planes] + [None])[:2]
        unit, result = path("long_%s.zip" % name), path("long.npz")
        argv = [tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--threads", "1",
                "--quiet"]
        count, took = 6, 0
        while took < 2:            # until the work takes 2 s of processor time
            count, before = 2 * count, os.times()
            items = [calls_test.workunit.item("i%d" % i, slices, labels=labels)
                     for i in range(count)]
            calls_test.workunit.write(unit, name, analyses.parameters_of(parameters), items)
            tap.run(argv)
            took = sum(os.times()[2:4]) - sum(before[2:4])
        expected = calls_test.content(result)
        os.remove(result)
        codes, output = [], set()
        while not os.path.exists(result) and len(codes) < 60:
            run = tap.run(argv, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (1, 20)))
            codes.append(run.returncode)
            output.add(run.stderr.strip())
        good = codes[-1] == 0 and set(codes[:-1]) == {3} and output <= {
            "", "texcell: interrupted by signal 24; the same command goes on from here"}
        tap.ok(good and os.path.exists(result) and calls_test.content(result) == expected,
               "%s: a second of processor time a run: done in %d runs" % (name, len(codes)),
               "%s %s" % (codes, output))
        if os.path.exists(result):
            os.remove(result)


def test_killed_pack():
    """The temporary files of a killed pack are replaced by the same command, but not those of a
    running one."""
    argv = [tap.TEXCELL_WU, "pack", "--analysis", "cellcount", "--split", "1", "-o",
            "w.zip", path("copies")]
    folder = path("units")
    os.mkdir(folder)
    os.mkdir(path("copies"))
    for i in range(300):
        shutil.copy(path("pictures", "a.png"), path("copies", "%03d.png" % i))
    with subprocess.Popen(argv, cwd=folder, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as p:
        while p.poll() is None and len(os.listdir(folder)) < 3:
            time.sleep(0.001)
        p.kill()
    left = [name for name in os.listdir(folder) if name.endswith(".tmp")]
    again = tap.run(argv, cwd=folder)
    tap.ok(p.returncode == -signal.SIGKILL and left and again.returncode == 0 and
           sorted(os.listdir(folder)) == ["w_%04d.zip" % (i + 1) for i in range(300)],
           "pack replaces the temporary files of a killed pack",
           (p.returncode, left, again.stderr))
    with open(os.path.join(folder, "w_0001.zip.tmp"), "w", encoding="utf-8") as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)
        r = tap.run(argv, cwd=folder)
        tap.ok(r.returncode == 3 and "another texcell is at work on it" in r.stderr and
               os.path.exists(locked.name), "pack does not replace those of a running pack",
               r.stderr)


def test_driver_and_clock(unit, clock):
    """SIGTERM while a driver hangs and the wall clock is set: the process ends soon, as its
    timeouts use the monotonic clock."""
    if not driver_faults.make_library():
        return
    for back in ({}, {"CLOCK_BACK": "1"}):
        env = dict(os.environ, POCL_CACHE_DIR=path("pocl"),
                   TEXCELL_OPENCL_LIBRARY=driver_faults.LIBRARY,
                   FALSE_DRIVER="clBuildProgram:1:hang", LD_PRELOAD=clock, **back)
        p = subprocess.Popen([tap.TEXCELL, "run", unit, "-o", path("hang.npz"), "--device",
                              "opencl", "--threads", "1"],
                             stderr=subprocess.PIPE, universal_newlines=True, env=env)
        time.sleep(2)
        start = time.monotonic()
        p.send_signal(signal.SIGTERM)
        try:
            p.wait(30)
        except subprocess.TimeoutExpired:
            p.kill()
        output = p.communicate()[1]
        tap.ok(p.returncode == 3 and "interrupted by signal 15" in output,
               "a driver hangs, the clock is set %s: it ends %.2f s after SIGTERM" %
               ("back" if back else "forward", time.monotonic() - start),
               "%d %s" % (p.returncode, output))


def main():
    if tap.sanitized():
        tap.skip("limits and signals", "this build has sanitizers")
        tap.done()
    kill_at, clock = (library("kill_at", "resume", "kill_at.c"),
                      library("clock", "faults", "clock.c"))
    made = calls_test.files()
    for case in calls_test.cases(made):
        if not ONLY.match(case.name) or (case.device and not WANTED) or not case.learn():
            continue
        if case.device is None:
            test_limits(case)
            test_signals(case, kill_at)
        test_clocks(case, clock)
    if ONLY.match("process"):
        test_processor_time()
        test_killed_pack()
        if "cellcount" in made and re.search(r"(?<!not )usable",
                                             tap.run([tap.TEXCELL, "devices"]).stdout):
            test_driver_and_clock(made["cellcount"][0], clock)
    tap.done()


if __name__ == "__main__":
    main()
