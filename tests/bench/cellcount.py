"""Labels and statistics of a 2250x4000 picture: texcell's labelling and
OpenCV's connectedComponentsWithStats, side by side, on one thread and on two;
scikit-image's label and regionprops where they are quick enough to wait for.

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


def best(n, f):
    times = []
    for _ in range(n):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def main():
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    try:
        import cv2
    except ImportError:
        cv2 = None
    bench = os.path.join(tap.BUILD, "tests", "bench", "cellcount_bench")
    folder = tap.scratch()
    print("%-16s %7s %9s %15s %8s %7s" % ("picture", "threads", "labels ms", "with stats ms", "cv2 ms", "ratio"))
    for name, mask in pictures():
        raw = os.path.join(folder, "raw")
        mask.astype(np.uint8).tofile(raw)
        for threads in (1, 2):
            out = subprocess.run([bench, str(WIDTH), str(HEIGHT), str(threads), str(repeats), raw],
                                 stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout.split()
            labels, stats, count = float(out[0]), float(out[1]), int(out[2])
            peer = None
            if cv2 is not None:
                cv2.setNumThreads(threads)
                image = mask.astype(np.uint8)
                # Its labels go to memory that is there, as ours do.
                out = np.zeros(mask.shape, np.int32)
                peer = best(repeats, lambda: cv2.connectedComponentsWithStats(
                    image, labels=out, connectivity=8, ltype=cv2.CV_32S))
                n = cv2.connectedComponents(image, connectivity=8)[0] - 1
                if n != count:
                    sys.exit("%s: %d regions, OpenCV has %d" % (name, count, n))
            print("%-16s %7d %9.1f %15.1f %8s %7s" % (
                name, threads, labels, stats, "-" if peer is None else "%.1f" % peer,
                "-" if peer is None else "%.2f" % (peer / stats)))


main()
