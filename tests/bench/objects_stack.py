"""Compares the times that texcell and pyradiomics take for the texture of each cell of a stack,
with 13 directions, 32 levels and distance 1. texcell computes all cells with one thread; it is
timed from work unit to result, and also without the time for finding the cells. pyradiomics
computes 100 of the cells, each cut out beforehand. Six features that both have are compared, too.
A stack of 192^3 voxels has 343 cells; 512^3 voxels have 5,000 (this takes minutes and gigabytes).

    objects_stack.py [SIDE]

Environment: TEXCELL_BUILD; RADIOMICS_PYTHON: a Python that has pyradiomics (3.0.1 was used);
without it only texcell is timed; BENCH_ROUNDS (3)."""
import itertools
import json
import os
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap                         # noqa: E402
from analyses.objects import FEATURES      # noqa: E402
from oracle import workunit        # noqa: E402

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
SIDE = int((sys.argv + ["192"])[1])
MOST_CELLS, PART, PITCH = 5000, 100, 27
FOLDER = tap.scratch()
SAME = {"autocorrelation": "Autocorrelation", "contrast": "Contrast",
        "joint_maximum": "MaximumProbability", "asm": "JointEnergy",
        "cluster_shade": "ClusterShade", "sum_entropy": "SumEntropy"}

PEER = """
import json, logging, sys, time
import numpy, radiomics, SimpleITK
from radiomics import glcm
radiomics.logger.setLevel(logging.ERROR)
z = numpy.load(sys.argv[1])
times, found = [], []
for i in range(len(z.files) // 2):
    picture, mask = (SimpleITK.GetImageFromArray(z["%s%d" % (k, i)]) for k in "pm")
    start = time.process_time()
    one = glcm.RadiomicsGLCM(picture, mask, binCount=32, symmetricalGLCM=True, distances=[1])
    one.enableAllFeatures()
    values = one.execute()
    times.append(time.process_time() - start)
    found.append({k: float(v) for k, v in values.items()})
print(json.dumps([sum(times), found]))
"""


def stack():
    """Balls of several radii in a lattice. Their grey values fall into the same 32 bins in
    pyradiomics and texcell: the least value of a cell is 0, the greatest 31."""
    rng = np.random.default_rng(2)
    pixels = rng.integers(0, 32, (SIDE,) * 3).astype(np.uint8)
    pixels = (pixels + np.roll(pixels, 1, 2)) // 2
    labels = np.zeros((SIDE,) * 3, np.uint16)
    centres = range(PITCH // 2, SIDE - PITCH // 2, PITCH)
    ball = np.indices((PITCH,) * 3) - PITCH // 2
    square = (ball ** 2).sum(0)
    for n, (z, y, x) in enumerate(itertools.product(centres, repeat=3), 1):
        if n > MOST_CELLS:
            break
        part = tuple(slice(c - PITCH // 2, c + PITCH // 2 + 1) for c in (z, y, x))
        labels[part][square < rng.uniform(9, 13) ** 2] = n
        pixels[z, y, x], pixels[z, y, x + 1] = 0, 31
    return pixels, labels


def seconds(unit, result):
    """Processor seconds, the best of ROUNDS."""
    best = np.inf
    for _ in range(ROUNDS):
        p = subprocess.Popen([tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu",
                              "--threads", "1", "--quiet"])
        _pid, status, usage = os.wait4(p.pid, 0)
        p.returncode = status
        if status:
            sys.exit("texcell failed")
        best = min(best, usage.ru_utime + usage.ru_stime)
    return best


def main():
    pixels, labels = stack()
    it = workunit.item("s", list(pixels), labels=list(labels))
    units = {}
    for name, parameters in (("texture", {"families": ["texture"], "texture_features": "ibsi"}),
                             ("finding", {"families": ["intensity"]})):
        units[name] = workunit.write(os.path.join(FOLDER, name + ".zip"), "objects", parameters,
                                     [it])
    result = os.path.join(FOLDER, "r.npz")
    finding, whole = seconds(units["finding"], result), seconds(units["texture"], result)
    n = labels.max()
    print("%d cells of %.0f voxels: %.2f s from work unit to result, of which reading, finding and "
          "histograms %.2f"
          % (n, (labels > 0).sum() / n, whole, finding))
    python = os.environ.get("RADIOMICS_PYTHON")
    if not python:
        return
    cut = {}
    for i in range(min(PART, n)):
        inside = labels == i + 1
        box = tuple(slice(c.min(), c.max() + 1) for c in np.nonzero(inside))
        cut["p%d" % i], cut["m%d" % i] = pixels[box].astype(np.int32), inside[box].astype(np.uint8)
    np.savez(os.path.join(FOLDER, "cut.npz"), **cut)
    total, peer = json.loads(subprocess.run([python, "-c", PEER, os.path.join(FOLDER, "cut.npz")],
                                            check=True, stdout=subprocess.PIPE,
                                            universal_newlines=True).stdout.splitlines()[-1])
    with np.load(result) as r:
        glcm = r["object_glcm"][:PART]
    print("pyradiomics: %.2f s for %d cells, so %.0f s for all: %.0f times texcell's time from "
          "work unit to result, %.0f times its time for the texture alone"
          % (total, PART, total * n / PART, total * n / PART / whole,
             total * n / PART / (whole - finding)))
    for ours, theirs in SAME.items():
        a, b = glcm[:, FEATURES.index(ours)], np.array([p[theirs] for p in peer])
        print("  %s: apart by %.1e at most" %
              (ours, np.max(np.abs(a - b) / np.maximum(np.abs(b), 1))))


if __name__ == "__main__":
    main()
