"""make bench-plans: for each analysis, the operations of its plan per second of processor time, on
one thread, for real pictures if they are present. This should be the same for all analyses, since
credit and the time left are computed from operations. Processor time is the least of seven runs,
minus 4 ms for starting the program; decoding is included, as in a task. PICTURE=FILE: uses
that picture, which must have at least 480 x 640 pixels."""
import json
import math
import os
import resource
import subprocess
import sys
import tempfile

import numpy as np
import tifffile
from PIL import Image

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import DATA, TEXCELL, TEXCELL_WU  # noqa: E402

BALL3 = 'init={"type":"ball","cx":200,"cy":160,"cz":12,"r":60}'
BALL = 'init={"type":"ball","cx":200,"cy":200,"r":60}'
# (analysis, parameters, kind of picture, how often it is repeated along each side)
JOBS = [
    ("cellcount", ["split=distance"], "grey", 4), ("cellcount", ["labels=true"], "grey", 4),
    ("glcm", ["levels=[64]", "distances=[1,5]"], "grey", 1),
    ("glcm", ["levels=[16]", "distances=[1,2,3]"], "grey", 1),
    ("volume", ["membrane=110"], "stack", 2),
    ("volume", ["membrane=110", 'repair={"sigma":1}'], "stack", 2),
    ("volume", ["method=watershed", "smooth=1.5"], "stack", 1),
    ("levelset", ["target=128", "epsilon=40", "iterations=300", BALL], "grey", 1),
    ("levelset", ["target=128", "epsilon=40", "iterations=600", "band=6", BALL], "grey", 1),
    ("voting", ["radius=12"], "grey", 1), ("voting", ["radius=25"], "grey", 1),
    ("voting", ["radius=6"], "stack", 1),
    ("objects", ['families=["shape","intensity"]'], "labels", 3),
    ("objects", ["levels=32"], "labels", 3),
    # The plans' constants were not fitted to the jobs from here on, except to levelset's stack and
    # the texture of objects.
    ("cellcount", ["min_area=20"], "grey", 5),
    ("cellcount", ["split=distance", "labels=true", "smooth=1"], "grey", 3),
    ("glcm", ["levels=[32]", "distances=[2]", 'window={"radius":9}'], "grey", 1),
    ("glcm", ["levels=[128]", "distances=[3]", 'window={"shape":"square","radius":50}',
              'roi={"type":"disc","r":120}'], "grey", 1),
    ("glcm", ["levels=[24]", "distances=[1]", 'features="ibsi"', 'window={"radius":12}'], "grey",
     1),
    ("glcm", ["levels=[128]", "distances=[1,4]", 'window={"shape":"roi"}'], "stack", 1),
    ("volume", ["membrane=90", "labels=true"], "stack", 2),
    ("volume", ["method=watershed", "smooth=2.5"], "stack", 2),
    ("levelset", ["target=100", "epsilon=60", "iterations=150", "alpha=0.4", BALL], "grey", 2),
    ("levelset", ["target=100", "epsilon=60", "iterations=100", "band=8", BALL3], "stack", 1),
    ("voting", ["radius=18"], "grey", 1), ("voting", ["radius=8"], "stack", 1),
    ("objects", ["levels=64", "distances=[1,2]"], "labels", 2),
    ("levelset", ["target=90", "epsilon=50", "iterations=60", "alpha=0.3", BALL3], "stack", 1),
    ("levelset", ["target=90", "epsilon=50", "iterations=120", "band=5", BALL3], "stack", 1),
    ("objects", ["levels=48", 'aggregate="merge"'], "labels", 3),
]


def pictures():
    """{kind: picture}: a real grey picture (generated if there are no data), a stack made of it,
    the picture for objects under "labels", and its label picture under "cells"."""
    names = [os.path.join(f, n) for f, _d, ns in os.walk(DATA) for n in sorted(ns)
             if n.endswith((".png", ".jpg", ".jpeg", ".tif"))]
    grey = None
    for name in [os.environ["PICTURE"]] if "PICTURE" in os.environ else names:
        picture = np.asarray(Image.open(name).convert("L"))
        if picture.shape[0] >= 480 and picture.shape[1] >= 640:
            grey = np.ascontiguousarray(picture[:480, :640])
            break
    if grey is None:
        y, x = np.mgrid[0:480, 0:640]
        grey = (120 + 60 * np.sin(x / 9) * np.cos(y / 13) +
                np.random.default_rng(1).normal(0, 8, (480, 640))).clip(0, 255).astype(np.uint8)
    stack = np.stack([np.roll(grey, 3 * i, 0) for i in range(24)])[:, :320, :400]
    cells = np.zeros_like(grey, np.uint32)
    for i in range(12):
        for j in range(16):
            cells[40 * i + 4:40 * i + 36, 40 * j + 4:40 * j + 36] = 16 * i + j + 1
    return {"grey": grey, "stack": stack, "labels": grey, "cells": cells}


def seconds(argv):
    best = math.inf
    for _ in range(7):
        start = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.check_call(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime - start.ru_utime + after.ru_stime - start.ru_stime)
    return best


def pack(folder, shown, analysis, parameters, kind, times):
    """Packs the work unit of a job. shown: as pictures() returns it."""
    path, unit = os.path.join(folder, "p.tif"), os.path.join(folder, "u.zip")
    tile = (1,) * (shown[kind].ndim - 2) + (times, times)
    tifffile.imwrite(path, np.tile(shown[kind], tile))
    words = [w for p in parameters for w in ("--param", p)]
    if kind == "labels":
        cells = np.tile(shown["cells"], tile)
        cells[cells > 0] += (np.arange(cells.shape[0])[:, None] // 480 * 1000 +
                             np.arange(cells.shape[1]) // 640 * 10000
                             ).astype(np.uint32)[cells > 0]
        tifffile.imwrite(path + "f", cells)
        words += ["--labels", path + "f"]
    if os.path.exists(unit):
        os.unlink(unit)
    subprocess.check_call([TEXCELL_WU, "pack", "--analysis", analysis, *words, "-o", unit, path],
                          stdout=subprocess.DEVNULL)
    return unit


def main():
    files_by_kind, rates = pictures(), []
    with tempfile.TemporaryDirectory(prefix="texcell-bench-") as folder:
        result = os.path.join(folder, "r.npz")
        for job in JOBS:
            analysis, parameters = job[:2]
            unit = pack(folder, files_by_kind, *job)
            needs = json.loads(subprocess.check_output([TEXCELL_WU, "show", "--needs", unit]))
            spent = seconds([TEXCELL, "run", unit, "--replace", "-o", result, "--device", "cpu",
                             "--threads", "1", "--quiet"])
            rates.append((needs["operations"] / max(spent - 0.004, 1e-3), spent, analysis,
                          " ".join(parameters)))
    middle = math.exp(sum(math.log(r[0]) for r in rates) / len(rates))
    for rate, spent, analysis, parameters in rates:
        print("%-10s %-62s %6.2f s %8.2e operations a second, %.2f of the geometric mean" %
              (analysis, parameters, spent, rate, rate / middle))


if __name__ == "__main__":
    main()
