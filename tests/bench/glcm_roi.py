"""One matrix for each picture, distance and direction: 177 parts of scikit-image's images, 200 x
200 pixels, 32 levels, distances 1, 2 and 4, four directions. texcell on one thread, from work unit
to result, in turn with mahotas (13 features) and scikit-image (six), from arrays to features.

    glcm_roi.py

Processor seconds, the least of some rounds. Environment: TEXCELL_BUILD; BENCH_ROUNDS (5). mahotas
is on PyPI; if it is not installed, it is left out."""
import os
import resource
import subprocess
import sys
import time

import numpy as np
import skimage.data
from skimage import io
from skimage.feature import graycomatrix, graycoprops

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

try:
    import mahotas
except ImportError:
    mahotas = None

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
PICTURES, SIDE, DISTANCES = 177, 200, (1, 2, 4)
ANGLES = np.arange(4) * np.pi / 4
PROPERTIES = ("contrast", "dissimilarity", "homogeneity", "ASM", "energy", "correlation")


def parts():
    sources = [skimage.data.camera(), skimage.data.gravel(), skimage.data.brick(),
               skimage.data.moon(), skimage.data.coins()]
    rng = np.random.default_rng(1)
    for i in range(PICTURES):
        picture = sources[i % len(sources)]
        y, x = (rng.integers(0, n - SIDE + 1) for n in picture.shape)
        yield picture[y:y + SIDE, x:x + SIDE]


def pack(folder, pictures):
    inputs, unit = os.path.join(folder, "in"), os.path.join(folder, "unit.zip")
    os.mkdir(inputs)
    for i, picture in enumerate(pictures):
        io.imsave(os.path.join(inputs, "%03d.png" % i), picture, check_contrast=False)
    subprocess.run([os.path.join(tap.BUILD, "texcell-wu"), "pack", "--analysis", "glcm", "--param",
                    "levels=[32]",
                    "--param", "distances=%s" % list(DISTANCES), "--param", "directions=four",
                    "--param", 'window={"shape":"roi"}', "--param", 'roi={"type":"all"}',
                    "-o", unit, inputs], check=True, stdout=subprocess.DEVNULL)
    return unit


def time_texcell(unit):
    result = unit + ".npz"
    start = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([os.path.join(tap.BUILD, "texcell"), "run", unit, "-o", result, "--device",
                    "cpu",
                    "--threads", "1"], check=True, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    os.remove(result)
    return after.ru_utime + after.ru_stime - start.ru_utime - start.ru_stime


def time_mahotas(pictures):
    start = time.process_time()
    for picture in pictures:
        for d in DISTANCES:
            mahotas.features.haralick(picture, distance=d)
    return time.process_time() - start


def time_skimage(pictures):
    start = time.process_time()
    for picture in pictures:
        matrices = graycomatrix(picture, DISTANCES, ANGLES, 32, symmetric=True, normed=True)
        for name in PROPERTIES:
            graycoprops(matrices, name)
    return time.process_time() - start


def main():
    pictures = list(parts())
    unit = pack(tap.scratch(), pictures)
    levels = [p // 8 for p in pictures]
    best = [np.inf] * 3
    for _ in range(ROUNDS):
        best[0] = min(best[0], time_texcell(unit))
        best[1] = min(best[1], time_mahotas(levels) if mahotas is not None else np.inf)
        best[2] = min(best[2], time_skimage(levels))
    print("texcell %.3f s" % best[0])
    for name, seconds in (("mahotas", best[1]), ("scikit-image", best[2])):
        if seconds < np.inf:
            print("%s %.3f s, %.1f times as long" % (name, seconds, seconds / best[0]))


main()
