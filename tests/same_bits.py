"""Test points for tests of the same bits: a unit gives the same bytes with any number of threads,
on devices of any size, and after stops."""
import os
import re

import tap
from oracle import workunit
from stopping import stopped_often


def has_device():
    return "usable" in re.sub("not usable", "", tap.run([tap.TEXCELL, "devices"]).stdout)


def bytes_of(folder, unit, device, threads, memory=None, checkpoints=True):
    """The bytes of the result, or None with a note, also if the CPU replaced a device whose driver
    failed. memory: the device's memory in bytes, None for all."""
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


def crossing(folder, unit, device, patience, more):
    """Stopped again and again, and continued each time on the other device."""
    first = bytes_of(folder, unit, "cpu", 2)
    again, kills = stopped_often(folder, unit, device, patience, more)
    tap.ok(first is not None and again == first and kills > 0,
           "stopped %d times, %s, it gives the same bytes" %
           (kills, "on both backends in turn" if device else "on the CPU"))
