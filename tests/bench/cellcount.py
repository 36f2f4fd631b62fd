"""Labels and statistics of a picture of 2250 x 4000 pixels: texcell's labelling and OpenCV's
connectedComponentsWithStats, in turn, on one thread and on two.

    cellcount.py [REPEATS]
"""
import os
import subprocess
import sys
import time

import numpy as np
from scipy import ndimage

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import tap

HEIGHT, WIDTH = 2250, 4000


def pictures():
    rng = np.random.default_rng(1)
    noise = rng.random((HEIGHT, WIDTH))
    yield "blobs, sigma 8", ndimage.gaussian_filter(noise, 8) > 0.5
    yield "blobs, sigma 2", ndimage.gaussian_filter(noise, 2) > 0.5
    yield "noise, 50%", noise < 0.5
    yield "noise, 10%", noise < 0.1


def milliseconds(f):
    start = time.perf_counter()
    f()
    return (time.perf_counter() - start) * 1e3


def measure(bench, raw, mask, threads, repeats, cv2):
    """The best times of texcell and of OpenCV, measured in turn, so that other work of the machine
    slows both."""
    image, labels = mask.astype(np.uint8), np.zeros(mask.shape, np.int32)
    ours, peer = [], []
    if cv2 is not None:
        cv2.setNumThreads(threads)
    with subprocess.Popen([bench, str(WIDTH), str(HEIGHT), str(threads), raw],
                          stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, universal_newlines=True, bufsize=1) as program:
        for _ in range(repeats):
            program.stdin.write("\n")
            ours.append([float(v) for v in program.stdout.readline().split()])
            if cv2 is not None:
                # The labels go to memory that is already allocated, as texcell's do.
                peer.append(milliseconds(lambda: cv2.connectedComponentsWithStats(
                    image, labels=labels, connectivity=8, ltype=cv2.CV_32S)))
        program.stdin.close()
    n = int(ours[0][1])
    if cv2 is not None and labels.max() != n:
        sys.exit("%d regions, OpenCV has %d" % (n, labels.max()))
    return min(t[0] for t in ours), min(peer) if peer else None


def main():
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    try:
        import cv2
    except ImportError:
        cv2 = None
    bench = os.path.join(tap.BUILD, "tests", "bench", "cellcount_bench")
    raw = os.path.join(tap.scratch(), "raw")
    print("%-16s %7s %10s %10s %7s" % ("picture", "threads", "texcell ms", "OpenCV ms", "ratio"))
    for name, mask in pictures():
        mask.astype(np.uint8).tofile(raw)
        for threads in (1, 2):
            ours, peer = measure(bench, raw, mask, threads, repeats, cv2)
            print("%-16s %7d %10.1f %10s %7s" % (
                name, threads, ours, "-" if peer is None else "%.1f" % peer,
                "-" if peer is None else "%.2f" % (peer / ours)))
            sys.stdout.flush()


main()
