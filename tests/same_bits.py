"""Functions for the tests *_same_bits.py, which test that the result of a work unit has the same
bytes with any number of threads, on devices of any memory size, and after stops."""
import os
import re

import tap
from oracle import workunit
from stopping import stopped_often


def has_device():
    return "usable" in re.sub("not usable", "", tap.run([tap.TEXCELL, "devices"]).stdout)


def bytes_of(folder, unit, device, threads, memory=None, checkpoints=True):
    """Returns the bytes of the result. If the run failed, or the device's driver failed so that the
    CPU continued, prints a note and returns None. memory: the device's memory in bytes, None for
    all."""
    result = os.path.join(folder, "r.npz")
    if os.path.exists(result):
        os.remove(result)
    env = dict(os.environ, **(tap.opencl_hooks(memory=memory) if memory else {}))
    run = tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", device, "--threads",
                   str(threads),
                   "--checkpoint-every", "0.05" if checkpoints else "3600", "--quiet"], env=env)
    if run.returncode != 0 or "driver failed" in run.stderr:
        tap.note("exit %d: %s" % (run.returncode, run.stderr))
        return None
    with open(result, "rb") as f:
        return f.read()


def everywhere(folder, analysis, jobs, device, memories):
    """jobs: (title, parameters, items). memories: sizes of device memory in bytes; None: all."""
    for name, parameters, items in jobs:
        unit = workunit.write(os.path.join(folder, "u.zip"), analysis, parameters, items)
        first = bytes_of(folder, unit, "cpu", 1, checkpoints=False)
        for threads in (2, 3, 7):
            tap.ok(first is not None and bytes_of(folder, unit, "cpu", threads) == first,
                   "%s: %d threads and checkpoints give the bytes of one thread" % (name, threads))
        for memory in memories:
            title = "%s: OpenCL%s gives the same bytes" % (name, " with %d bytes" % memory if memory
                                                           else "")
            if device:
                tap.ok(first is not None and bytes_of(folder, unit, "opencl", 2, memory) == first,
                       title)
            else:
                tap.skip(title, "no OpenCL device")


def crossing(folder, unit, device, seconds, more_per_turn):
    """Tests a run that is stopped again and again, and continued on CPU and device in turn. It is
    stopped first after `seconds` + `more_per_turn` seconds, and each further time after
    `more_per_turn` seconds more than the time before."""
    first = bytes_of(folder, unit, "cpu", 2)
    again, kills = stopped_often(folder, unit, device, seconds, more_per_turn)
    tap.ok(first is not None and again == first and kills > 0,
           "stopped %d times, %s, it gives the same bytes" %
           (kills, "on both backends in turn" if device else "on the CPU"))
