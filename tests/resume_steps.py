"""Tests every analysis with a stop after each of its steps: the process ends, another one continues
from the checkpoint, and the result has the bytes of an undisturbed run. A false clock makes each
step as short as possible, so that stops occur in every phase. With an OpenCL device, CPU and device
also take turns."""
import os
import re
import struct

import analyses
import compiled
import tap
from oracle import workunit

FOLDER = tap.scratch()
ENV = dict(os.environ, POCL_CACHE_DIR=compiled.copy(FOLDER))
STATE_OF = os.path.join(tap.BUILD, "tests", "unit", "state_of")
MOST = 400          # the largest number of stops of a job


def path(name):
    return os.path.join(FOLDER, name)


def short_steps():
    """The environment variables that preload a library that makes steps as short as possible."""
    library = path("short_steps.so")
    made = tap.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", library,
                    os.path.join(tap.SRC, "tests", "resume", "short_steps.c"), "-ldl"])
    if not tap.ok(made.returncode == 0, "short_steps.c compiles", made.stderr):
        tap.done()
    return dict(ENV, LD_PRELOAD=library, ASAN_OPTIONS="verify_asan_link_order=0")


def texcell(unit, threads, env, **more):
    return tap.run([tap.TEXCELL_TEST, "run", unit, "-o", path("r.npz"), "--device", "cpu",
                    "--threads", str(threads),
                    "--quiet"], env=dict(env, **more))


def result():
    with open(path("r.npz"), "rb") as f:
        data = f.read()
    os.remove(path("r.npz"))
    return data


def position():
    """The position in the checkpoint: (number of finished items, units of work done of the
    next)."""
    with open(path("r.npz.checkpoint"), "rb") as f:
        data = f.read()
    return struct.unpack_from("<Q", data, 40) + (struct.unpack_from("<Q", data, 80) if len(data) >
                                                 80 else (0,))


def test_stops(title, unit, env):
    """Stops a job after one step at first, later after two, three and so on."""
    run = texcell(unit, 2, ENV)
    if not tap.ok(run.returncode == 0, title + ": an undisturbed run succeeds", run.stderr):
        return
    expected = result()
    stops, more, old_position = 0, 0, (0, 0)
    while stops < MOST:
        steps = 1 + more + stops // 15
        run = texcell(unit, 1 + stops % 3, env, TEXCELL_TEST_QUIT_AFTER_STEPS=str(steps))
        if run.returncode != 3:
            break
        # Each process repeats work that is not in the checkpoint, such as preparation, and so gets
        # more steps.
        more, old_position = (0, position()) if position() > old_position else (more + 1,
                                                                                old_position)
        stops += 1
    same = run.returncode == 0 and result() == expected
    tap.ok(same and stops > 2, "%s: stopped %d times, it gives the same bytes" % (title, stops),
           "exit %d\n%s" % (run.returncode, run.stderr))


def state(unit, devices, *steps):
    run = tap.run([STATE_OF, unit, "0", devices, "2", path("state"), *steps], env=ENV, timeout=120)
    if run.returncode != 0:
        return run.stderr
    with open(path("state"), "rb") as f:
        return f.read()


def test_turns(title, unit):
    """The state of the first item has the same bits when CPU and device take turns."""
    alone, together = state(unit, "cpu"), state(unit, "cpu,opencl", "1")
    tap.ok(isinstance(alone, bytes) and alone == together,
           title + ": the same state if CPU and device take turns",
           "" if alone == together else together)


def main():
    env = short_steps()
    device = "usable" in re.sub("not usable", "", tap.run([tap.TEXCELL, "devices"], env=ENV).stdout)
    if not device:
        tap.skip("to and fro between CPU and device", "no usable device")
    for analysis, of in analyses.each():
        for job, (parameters, items) in of.JOBS.items():
            unit = workunit.write(path("u.zip"), analysis, parameters, items)
            test_stops("%s, %s" % (analysis, job), unit, env)
        for i, (parameters, items) in enumerate(of.SEEDS if device and analyses.has_opencl(analysis)
                                                else []):
            unit = workunit.write(path("u.zip"), analysis, parameters, items)
            test_turns("%s, tiny job %d" % (analysis, i), unit)
    tap.done()


if __name__ == "__main__":
    main()
