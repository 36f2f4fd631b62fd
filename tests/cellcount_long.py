"""The long test of cellcount (a minute or two, 8 GiB of memory): a picture of 20000 x 20000
compared with SciPy; one and two threads give the same bytes."""
import os
import sys

import numpy as np
from scipy import ndimage

import tap
from oracle import workunit
from oracle.workunit import item

FOLDER = tap.scratch()
N = int(sys.argv[1]) if len(sys.argv) > 1 else 20000
rng = np.random.default_rng(1)
noise = np.empty((N, N), np.uint8)
for y in range(0, N, 1000):
    noise[y:y + 1000] = rng.integers(0, 256, noise[y:y + 1000].shape, np.uint8)
picture = ndimage.uniform_filter(noise, 5)
del noise
threshold = 134
unit = workunit.write(os.path.join(FOLDER, "u.zip"), "cellcount",
                      {"threshold": threshold, "polarity": "bright"}, [item("big", [picture])])
results = []
for threads in (1, 2):
    result = os.path.join(FOLDER, "r%d.npz" % threads)
    run = tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--threads",
                   str(threads)], timeout=3000)
    tap.note(run.stderr)
    with open(result, "rb") as f:
        results.append(f.read())
tap.ok(results[0] == results[1], "two threads give the bytes of one")
labels, n = ndimage.label(picture >= threshold, np.ones((3, 3), int))
with np.load(os.path.join(FOLDER, "r1.npz")) as r:
    tap.ok(r["count"].tolist() == [n],
           "SciPy counts the same number of regions (%d)" % n, r["count"])
    area = np.bincount(labels.ravel(), minlength=n + 1)[1:]
    tap.ok(np.array_equal(r["region_area"], area),
           "the regions' areas equal SciPy's, in the same order")
    boxes = np.array([(s[0].start, s[1].start, s[0].stop, s[1].stop)
                      for s in ndimage.find_objects(labels)])
    tap.ok(np.array_equal(r["region_bbox"], boxes), "the regions' bounding boxes equal SciPy's")
    rows = np.bincount(labels.ravel(), np.repeat(np.arange(N, dtype=np.float64), N), n + 1)[1:]
    tap.ok(np.array_equal(r["region_centroid"][:, 0], rows / area),
           "the rows of the regions' centroids equal SciPy's")
    grey = np.bincount(labels.ravel(), picture.ravel(), n + 1)[1:]
    tap.ok(np.array_equal(r["region_mean"], grey / area),
           "the regions' mean grey values equal SciPy's")
tap.done()
