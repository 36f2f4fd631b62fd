"""The cost of the first start on a machine: small jobs of opencl_jobs.py on a device whose driver
has compiled nothing yet, and again at once. Wall seconds, the best of three; the last line has, by
analysis, the largest difference between a start with nothing compiled and the next one.

    cold_start.py [DEVICE]    (default auto)"""
import os
import shutil
import sys
import time

import opencl_jobs
import tap
from oracle.workunit import write

FOLDER = tap.scratch()
DEVICE = sys.argv[1] if len(sys.argv) > 1 else "auto"
# The folders in which the drivers of NVIDIA, PoCL, Mesa and Intel keep compiled kernels.
CACHES = {name: os.path.join(FOLDER, name) for name in
          ["CUDA_CACHE_PATH", "POCL_CACHE_DIR", "MESA_SHADER_CACHE_DIR", "NEO_CACHE_DIR"]}
ENV = dict(os.environ, TEXCELL_AUTO_SECONDS="0", **CACHES)


def seconds(unit):
    out = unit + ".npz"
    start = time.monotonic()
    ran = tap.run([tap.TEXCELL, "run", unit, "-o", out, "--device", DEVICE, "--quiet"], env=ENV)
    took = time.monotonic() - start
    if ran.returncode != 0:
        tap.bail(ran.stderr)
    os.remove(out)
    return took


most = {}
for i, (analysis, parameters, items) in enumerate(opencl_jobs.JOBS):
    unit = write(os.path.join(FOLDER, "%02d.zip" % i), analysis, parameters, items())
    cold, warm = [], []
    for _ in range(3):
        for cache in CACHES.values():
            shutil.rmtree(cache, True)
            os.mkdir(cache)
        cold.append(seconds(unit))
        warm.append(seconds(unit))
    more = min(cold) - min(warm)
    most[analysis] = max(more, most.get(analysis, 0))
    print("%-10s job %2d  cold %5.2f  warm %5.2f  more %5.2f" %
          (analysis, i, min(cold), min(warm), more))
    sys.stdout.flush()
print("; ".join("%s %.2f" % found for found in most.items()))
