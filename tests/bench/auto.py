"""make bench-auto: the time with `--device auto` divided by that of the faster of the CPU and the
first OpenCL GPU, for 20 units of one picture with 64 x 64 to 8192 x 8192 pixels. Times are wall
seconds of whole processes, with kernels compiled before, the best of three; the devices take turns.
Differences of a hundredth of a second are ignored. A ratio above 1.2 means that auto chose
badly."""
import os
import sys
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import opencl_jobs  # noqa: E402
import tap  # noqa: E402
from oracle.workunit import write  # noqa: E402

FOLDER = tap.scratch()
KINDS = [("cellcount", {"threshold": "otsu", "polarity": "bright", "labels": True}),
         ("glcm", {"levels": [16], "distances": [1], "window": {"shape": "square", "radius": 5}}),
         ("voting", {"radius": 8})]
SIDES = {"cellcount": [64, 256, 1024, 4096, 8192],
         "glcm": [64, 128, 256, 512, 1024, 2048, 4096, 8192],
         "voting": [64, 256, 512, 1024, 2048, 4096, 8192]}
LEAST = 0.01     # seconds: differences below this are those of starting a process


def picture(side):
    tile = opencl_jobs.balls((min(side, 512),) * 2, 7, 60, 3)
    return np.tile(tile, (max(1, side // 512),) * 2)


def seconds(unit, device):
    start = time.monotonic()
    ran = tap.run([tap.TEXCELL, "run", unit, "-o", unit + ".npz", "--device", device, "--quiet"])
    took = time.monotonic() - start
    if ran.returncode != 0:
        tap.bail(ran.stderr)
    os.remove(unit + ".npz")
    return took


worst = 0
for analysis, parameters in KINDS:
    for side in SIDES[analysis]:
        unit = write(os.path.join(FOLDER, "u.zip"), analysis, parameters,
                     opencl_jobs.one(picture(side)))
        seconds(unit, "opencl")
        best = {}
        for _ in range(3):
            for device in ("cpu", "opencl", "auto"):
                best[device] = min(seconds(unit, device), best.get(device, 1e9))
        ratio = max(best["auto"] - LEAST, 0) / min(best["cpu"], best["opencl"])
        worst = max(worst, ratio)
        print("%-10s %5d^2  cpu %6.2f  opencl %6.2f  auto %6.2f  ratio %.2f" %
              (analysis, side, best["cpu"], best["opencl"], best["auto"], ratio))
        sys.stdout.flush()
print("worst %.2f" % worst)
