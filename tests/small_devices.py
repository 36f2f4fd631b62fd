"""Tests OpenCL devices with small limits: work-groups of 32, 64 and 128 work-items, 16 KiB of local
memory, buffers of 1 MiB, no double precision, denormals not reported. The result has the CPU's
bytes, computed by the device or, with a message, by the CPU."""
import os

import compiled
import opencl_jobs
import tap
from oracle.workunit import write

FOLDER = tap.scratch()
ENV = dict(os.environ, POCL_CACHE_DIR=compiled.copy(FOLDER))
DEVICES = {"work-groups of 32": {"group": 32}, "work-groups of 64": {"group": 64},
           "work-groups of 128": {"group": 128},
           "16 KiB of local memory": {"local": 16384}, "buffers of 1 MiB": {"buffer": 1 << 20},
           "no doubles": {"no_doubles": 1}, "no denormals": {"no_denormals": 1},
           "all of it": {"group": 64, "local": 16384, "buffer": 1 << 20, "no_doubles": 1,
                         "no_denormals": 1}}


def result(unit, device, **hooks):
    out = unit + ".npz"
    if os.path.exists(out):
        os.remove(out)
    # As a GPU, since texcell uses work-groups of one work-item on a CPU device.
    r = tap.run([tap.TEXCELL, "run", unit, "-o", out, "--device", device, "--quiet"],
                env=dict(ENV, **tap.opencl_hooks(gpu=1, **hooks)))
    if r.returncode != 0:
        return None, r.stderr
    with open(out, "rb") as f:
        return f.read(), r.stderr


for i in range(0, len(opencl_jobs.JOBS), 1 if os.environ.get("SMALL_DEVICES") else 4):
    analysis, parameters, items = opencl_jobs.JOBS[i]
    job = write(os.path.join(FOLDER, "%02d-%s.zip" % (i, analysis)), analysis, parameters, items())
    expected, _ = result(job, "cpu")
    told, wrong = [], []
    for name, hooks in DEVICES.items():
        got, said = result(job, "auto", **hooks)
        told += [name] if "CPU" in said else []
        if got is None or got != expected:
            wrong.append("%s: %s" % (name, said))
    tap.ok(not wrong and expected is not None, "job %d, %s: the same bytes%s" %
           (i, analysis, ", the CPU's with a sentence for " + ", ".join(told) if told else ""),
           "\n".join(wrong))
tap.done()
