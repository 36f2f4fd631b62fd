"""objects for a picture of 4000 x 2250 pixels with 4,000 cells, on one thread, compared with
scikit-image for some of its objects in the same run: regionprops_table with the same shape and
intensity properties, and graycomatrix with graycoprops for each object, in which pixels outside
have a level of their own. Also the time of reading the two PNGs. Of texture only matrices and
features are compared: the time of four more distances, divided by four, since objects and grey
levels are then prepared already, as they are for graycomatrix. With a DEVICE, also gpu_objects on
that.

    objects.py [DEVICE]

Environment: TEXCELL_BUILD; BENCH_ROUNDS (5)."""
import os
import subprocess
import sys
import time

import numpy as np
from skimage import io, measure
from skimage.feature import graycomatrix, graycoprops

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap                         # noqa: E402
from oracle import workunit        # noqa: E402

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
PART = 200                         # number of objects that scikit-image measures
FOLDER = tap.scratch()
PROPERTIES = ["area", "bbox", "centroid", "perimeter", "axis_major_length", "axis_minor_length",
              "eccentricity",
              "orientation", "equivalent_diameter_area", "area_convex", "solidity", "extent",
              "euler_number",
              "feret_diameter_max", "intensity_max", "intensity_mean", "intensity_min",
              "centroid_weighted"]
TEXTURE, FIVE = "texture, distance 1, 32 levels", "texture, distances 1 to 5"
UNITS = {"shape and intensity": {"families": ["shape", "intensity"]},
         FIVE: {"families": ["texture"], "distances": [1, 2, 3, 4, 5]},
         TEXTURE: {"families": ["texture"]}, "all three": {}}


def picture(height=2250, width=4000, side=36):
    rng = np.random.default_rng(1)
    y, x = np.indices((height, width))
    labels, n = np.zeros((height, width), np.int32), 0
    for cy in range(side // 2, height, side):
        for cx in range(side // 2, width, side):
            n += 1
            r, e, a = rng.uniform(11, 17), rng.uniform(0.7, 1), rng.uniform(0, np.pi)
            v, u = np.mgrid[max(cy - 18, 0):min(cy + 18, height),
                            max(cx - 18, 0):min(cx + 18, width)]
            p, q = ((v - cy) * np.cos(a) + (u - cx) * np.sin(a),
                    (u - cx) * np.cos(a) - (v - cy) * np.sin(a))
            inside = (p * p + (q / e) ** 2 < r * r) & (n <= 4000)
            labels[v[inside], u[inside]] = n
    grey = 128 + 60 * np.sin(x / 17.0) * np.cos(y / 13.0) + rng.normal(0, 9, (height, width))
    return grey.clip(0, 255).astype(np.uint8), labels


def seconds(command):
    """Processor seconds, the best of ROUNDS."""
    best = np.inf
    for _ in range(ROUNDS):
        p = subprocess.Popen(command)
        _pid, status, usage = os.wait4(p.pid, 0)
        p.returncode = status
        if status:
            sys.exit("%s failed" % command[0])
        best = min(best, usage.ru_utime + usage.ru_stime)
    return best


def peer_shape(grey, labels):
    few = np.where(labels <= PART, labels, 0)
    start = time.process_time()
    measure.regionprops_table(few, grey, PROPERTIES)
    return (time.process_time() - start) * labels.max() / PART


def peer_texture(grey, labels):
    total = 0.0
    regions = measure.regionprops(np.where(labels <= PART, labels, 0))
    for r in regions:
        part = grey[r.slice].astype(int)
        lo, hi = part[r.image].min(), part[r.image].max()
        q = np.where(r.image, (part - lo) * 32 // (hi - lo + 1) + 1, 0).clip(0, 32).astype(np.uint8)
        start = time.process_time()
        c = graycomatrix(q, [1], [0, np.pi / 4, np.pi / 2, 3 * np.pi / 4], levels=33,
                         symmetric=True)[1:, 1:]
        for name in ("contrast", "dissimilarity", "homogeneity", "energy", "correlation", "ASM"):
            graycoprops(c, name)
        total += time.process_time() - start
    return total * labels.max() / PART


def reading(grey, labels):
    paths = [os.path.join(FOLDER, n) for n in ("grey.png", "labels.png")]
    for path, data in zip(paths, (grey, labels.astype(np.uint16))):
        with open(path, "wb") as f:
            f.write(workunit.png(data))
    best = np.inf
    for _ in range(ROUNDS):
        start = time.process_time()
        for path in paths:
            io.imread(path)
        best = min(best, time.process_time() - start)
    return best


def main():
    grey, labels = picture()
    read = reading(grey, labels)
    print("reading the PNGs: %.3f s" % read)
    ours = {}
    for name, parameters in UNITS.items():
        unit = workunit.write(os.path.join(FOLDER, "unit.zip"), "objects", parameters,
                              [workunit.item("a", [grey], labels=[labels])])
        ours[name] = seconds([tap.TEXCELL, "run", unit, "-o", os.path.join(FOLDER, "r.npz"),
                              "--device", "cpu", "--threads", "1",
                              "--quiet"])
        print("%s: %.3f s from work unit to result, %.2f times the reading" %
              (name, ours[name], ours[name] / read))
    for name, peer, what in (("shape and intensity", peer_shape(grey, labels), "regionprops_table"),
                             (TEXTURE, peer_texture(grey, labels), "graycomatrix and graycoprops")):
        print("%s: %.2f s for all, as %d of them take: %.0f times from file to result" %
              (what, peer, PART, peer / ours[name]))
    alone = (ours[FIVE] - ours[TEXTURE]) / 4
    print("matrices and features of a distance alone: %.3f s, %.0f times" % (alone, peer / alone))
    for device in sys.argv[1:]:
        subprocess.run([os.path.join(tap.BUILD, "tests", "bench", "gpu_objects"), device, "16",
                        unit], check=True)


if __name__ == "__main__":
    main()
