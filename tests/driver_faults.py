"""Tests texcell with an OpenCL driver (tests/driver/false_driver.c, around the real one) that
crashes, hangs or exits in each of its calls in turn: no work is lost, no result is wrong, and
nothing hangs for more than a minute."""
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import analyses
import compiled
import tap
from oracle import workunit

WORK = tap.scratch()
LIBRARY = os.path.join(WORK, "false_driver.so")
ENVIRONMENT = {"TEXCELL_OPENCL_LIBRARY": LIBRARY, "POCL_CACHE_DIR": os.path.join(WORK, "pocl")}
MINUTE = 60


def make_library():
    made = tap.run([os.environ.get("CC", "cc"), "-std=gnu11", "-O1", "-shared", "-fPIC", "-pthread",
                    "-I", tap.SRC,
                    "-o", LIBRARY, os.path.join(tap.SRC, "tests", "driver", "false_driver.c"),
                    "-ldl"])
    tap.ok(made.returncode == 0, "the false driver builds", made.stderr)
    return made.returncode == 0


def run(unit, name, wish=None, device="opencl", **more):
    """Returns the process, the bytes of the result or None, the seconds taken, and files left
    beside the result. wish: which call fails, and how."""
    out = os.path.join(WORK, name + ".npz")
    environment = dict(os.environ, **ENVIRONMENT, **more)
    if wish:
        environment["FALSE_DRIVER"] = wish
    start = time.monotonic()
    p = tap.run([tap.TEXCELL, "run", unit, "-o", out, "--device", device, "--threads", "1",
                 "--checkpoint-every", "0.05"],
                env=environment, timeout=300)
    seconds = time.monotonic() - start
    content = None
    if os.path.exists(out):
        with open(out, "rb") as f:
            content = f.read()
    left_files = [f for f in os.listdir(WORK) if f.startswith(name + ".npz.")]
    return p, content, seconds, left_files


def units():
    """{analysis: path of a small job} that together make all kinds of OpenCL calls."""
    made = {}
    compiled.copy(WORK)
    for name, of in analyses.each():
        if analyses.has_opencl(name):
            made[name] = workunit.write(os.path.join(WORK, name + ".zip"), name,
                                        *list(of.JOBS.values())[-1])
    return made


def counts_of(unit, name):
    """The result of a run with the false driver passing all calls on, and {call: number of its
    calls}."""
    path = os.path.join(WORK, name + ".counts")
    p, content, _, _ = run(unit, name, FALSE_DRIVER_COUNTS=path)
    tap.ok(p.returncode == 0 and content is not None, "%s: the false driver passes calls on" % name,
           p.stderr)
    return content, read_counts(path)


def read_counts(path):
    with open(path) as f:
        return {call: int(times) for call, times in (line.split() for line in f)}


def try_fault(unit, name, call, nth, how, expected, limit):
    """Makes one call fail. Returns (title, whether the run was right: the CPU computed the right
    bytes, the exit code is 0, there is a message and no file is left; details)."""
    title = "%s: %s %s at time %d" % (name, call, how, nth)
    run_name = "%s-%s-%d-%s" % (name, call, nth, how)
    path = os.path.join(WORK, run_name + ".counts")
    p, content, seconds, left_files = run(unit, run_name, "%s:%d:%s" % (call, nth, how),
                                          FALSE_DRIVER_COUNTS=path)
    # The number of calls depends on the time that launches take: this run may have made fewer.
    if nth > 1 and os.path.exists(path) and read_counts(path).get(call, nth) < nth:
        return title + ": not reached", p.returncode == 0 and content == expected, p.stderr
    has_message = "texcell: going on with the CPU: the OpenCL driver failed: " in p.stderr
    # "unload" fails when the process ends, so the work may have been done before.
    return (title, p.returncode == 0 and content == expected and seconds < limit and
            not left_files and
            (has_message or call == "unload"),
            "exit %d, %.0f s, left %s, %s result\n%s" % (p.returncode, seconds, left_files,
                                                         "the same" if content == expected
                                                         else "another", p.stderr))


def test_sigterm(unit, name, call, expected):
    """SIGTERM during a long call of the driver, such as the compilation of a kernel."""
    out = os.path.join(WORK, "asked-%s.npz" % call)
    command = [tap.TEXCELL, "run", unit, "-o", out, "--device", "opencl", "--threads", "1"]
    p = subprocess.Popen(command, stderr=subprocess.PIPE, universal_newlines=True,
                         env=dict(os.environ, **ENVIRONMENT, FALSE_DRIVER=call + ":1:hang"))
    time.sleep(2)
    start = time.monotonic()
    p.send_signal(signal.SIGTERM)
    output = p.communicate(timeout=MINUTE)[1]
    seconds = time.monotonic() - start
    tap.ok(p.returncode == 3 and seconds < 1 and "interrupted by signal 15; the same command goes "
           "on from here" in output,
           "%s: SIGTERM during a long %s ends the program at once (%.2f s)" % (name, call, seconds),
           "%d %s" % (p.returncode, output))
    tap.run(command, env=dict(os.environ, **ENVIRONMENT))
    with open(out, "rb") as f:
        tap.ok(f.read() == expected, "%s: the same command continues" % name)


def main():
    if not make_library():
        tap.done()
    if "usable" not in tap.run([tap.TEXCELL, "devices"],
                               env=dict(os.environ, **ENVIRONMENT)).stdout:
        tap.skip("faults of a driver", "no OpenCL device")
        tap.done()
    made = units()
    if not made:
        tap.skip("faults of a driver", "no analysis for OpenCL")
        tap.done()
    any_one = next(iter(made))
    of_floats = "levelset" if "levelset" in made else any_one
    expected, faults = {}, []
    reached = {}
    for name, unit in made.items():
        expected[name], counts = counts_of(unit, name)
        alone = run(unit, name + "-cpu", device="cpu")
        tap.ok(alone[1] == expected[name], "%s: the CPU gives the same bytes" % name)
        for call, times in counts.items():
            if times > reached.get(call, (0, ""))[0]:
                reached[call] = (times, name)
    never = sorted(call for call in counts if call not in reached)
    # These are only for GPUs: waiting without using the processor, pinned memory, kept compiled
    # programs; and the log is only for a build that fails.
    if "TEXCELL_ANALYSIS" not in os.environ:
        tap.ok(set(never) <= {"clFlush", "clGetEventInfo", "clGetProgramBuildInfo",
                              "clEnqueueMapBuffer", "clEnqueueUnmapMemObject",
                              "clCreateProgramWithBinary", "clGetProgramInfo"},
               "the jobs make all calls except for those of GPUs and failed builds", never)
    reached["load"] = reached["unload"] = (1, any_one)
    for call, (times, name) in sorted(reached.items()):
        for nth in sorted({1, max(1, min(times // 2, 100))}):
            for how in ("segv", "abort", "exit", "thread"):
                # exit() in an exit handler, or while a library is loaded, is undefined in C; a
                # thread cannot be started then.
                if call in ("load", "unload") and how in ("exit", "thread"):
                    continue
                faults.append((made[name], name, call, nth, how, expected[name], MINUTE))
    hangs = [(made[name], name, call, 1, "hang", expected[name], MINUTE + 30)
             for call, (_, name) in sorted(reached.items())]
    with ThreadPoolExecutor(len(hangs)) as asleep, ThreadPoolExecutor(2) as pool:
        sleepers = asleep.map(lambda f: try_fault(*f), hangs)  # all hanging runs at once
        for title, good, detail in pool.map(lambda f: try_fault(*f), faults):
            tap.ok(good, title, detail)
        for title, good, detail in sleepers:
            tap.ok(good, title, detail)
    p, content, _, _ = run(made[any_one], any_one + "-term", "clBuildProgram:1:term")
    tap.ok(p.returncode == 3 and content is None and
           "stopped, and the OpenCL driver failed" in p.stderr,
           "after SIGTERM and a crash the work does not start again", "%d %s" %
           (p.returncode, p.stderr))
    for call in ("load", "clBuildProgram", "clWaitForEvents"):
        test_sigterm(made[any_one], any_one, call, expected[any_one])
    for call in ("clGetPlatformIDs", "clCreateContext", "clBuildProgram", "clEnqueueNDRangeKernel"):
        p, content, _, _ = run(made[of_floats], "%s-%s-ftz" % (of_floats, call), "%s:1:ftz" % call)
        tap.ok(p.returncode == 0 and content == expected[of_floats],
               "a driver that switches denormal numbers off in %s: the same bytes" % call, p.stderr)
    for verb in ("devices", "selftest"):
        p = tap.run([tap.TEXCELL, verb] + (["--device", "opencl"] if verb == "selftest" else []),
                    env=dict(os.environ, **ENVIRONMENT, FALSE_DRIVER="clGetDeviceInfo:2:segv"))
        tap.ok(p.returncode == 3 and "texcell: error: the OpenCL driver failed: clGetDeviceInfo "
               "crashed (signal 11)"
               in p.stderr,
               "%s: the message names the call that crashed" % verb, "%d %s" %
               (p.returncode, p.stderr))
    tap.done()


if __name__ == "__main__":
    main()
