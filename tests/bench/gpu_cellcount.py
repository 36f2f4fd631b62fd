"""make bench-gpu: labels on a device, beside cupyx.scipy.ndimage.label in the
same run where CuPy is installed. Both have a picture of bytes and the labels in
device memory; texcell's time is that of its kernels, CuPy's from event to event.

    gpu_cellcount.py [DEVICE] [WIDTHxHEIGHT...]
"""
import os
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import tap

try:
    import cupy
    from cupyx.scipy import ndimage as gpu_ndimage
except ImportError:
    cupy = None


def smooth(a, size):
    """A box blur along both axes, twice; wraps around. NumPy only."""
    for axis in (0, 1, 0, 1):
        total = a.copy()
        for shift in range(1, size):
            total += np.roll(a, shift, axis)
        a = total / size
    return a


def masks(height, width):
    rng = np.random.default_rng(1)
    noise = rng.random((height, width), np.float32)
    yield "noise, 50%", noise < 0.5
    yield "noise, 10%", noise < 0.1
    blurred = smooth(noise, 9)
    yield "blobs", blurred > np.median(blurred)
    yield "all cell", np.ones((height, width), bool)


def cupy_ms(mask, connectivity, repeats=10):
    """Best of some, and the number of regions."""
    on_device = cupy.asarray(mask)
    structure = cupy.ones((3, 3)) if connectivity == 8 else None
    best = None
    for _ in range(repeats):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        gpu_ndimage.label(on_device, structure)
        end.record()
        end.synchronize()
        ms = cupy.cuda.get_elapsed_time(start, end)
        best = ms if best is None else min(best, ms)
    return best


def main():
    device = sys.argv[1] if len(sys.argv) > 1 else "auto"
    sizes = [tuple(int(v) for v in s.split("x")) for s in sys.argv[2:]] or [(8192, 8192), (4000, 2250)]
    raw = os.path.join(tap.scratch(), "raw")
    bad = 0
    print("%-12s %-11s %4s %10s %8s %6s %10s %12s %9s  %s" % ("size", "mask", "conn", "labels ms", "CuPy ms", "ratio",
                                                               "regions ms", "all of it ms", "no labels", "against the CPU"))
    for width, height in sizes:
        for name, mask in masks(height, width):
            mask.astype(np.uint8).tofile(raw)
            for connectivity in (4, 8):
                run = subprocess.run([os.path.join(tap.BUILD, "tests", "bench", "gpu_cellcount"), device, str(width),
                                      str(height), str(connectivity), "5", raw], stdout=subprocess.PIPE,
                                     universal_newlines=True)
                if run.returncode != 0:
                    sys.exit("no device to measure")
                labels, regions, everything, table, same = run.stdout.split()
                bad += same != "same"
                peer = cupy_ms(mask, connectivity) if cupy is not None else None
                print("%-12s %-11s %4d %10s %8s %6s %10s %12s %9s  %s" % (
                    "%dx%d" % (width, height), name, connectivity, labels,
                    "-" if peer is None else "%.3f" % peer,
                    "-" if peer is None else "%.2f" % (peer / float(labels)), regions, everything, table, same))
                sys.stdout.flush()
    sys.exit(bad > 0)


main()
