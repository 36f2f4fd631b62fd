"""make bench: from file to file. `texcell run` with reading, computing and writing, compared with
OpenCV's imread, Otsu's threshold and connectedComponentsWithStats for the same pictures; a split;
large pictures; stacks. Wall seconds, best and median of BENCH_ROUNDS (3), and processor seconds.
BENCH_DEVICE=opencl BENCH_THREADS=16 BENCH_SLICES=512: the same on a GPU, with voting."""
import os
import resource
import statistics
import sys
import tempfile
import time

import numpy as np
from PIL import Image

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import tap      # noqa: E402

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
PICTURES = int(os.environ.get("BENCH_PICTURES", "20"))
THREADS = int(os.environ.get("BENCH_THREADS", "2"))
SLICES = int(os.environ.get("BENCH_SLICES", "256"))
DEVICE = os.environ.get("BENCH_DEVICE", "cpu")


def time_work(work):
    """(best and median wall seconds, least processor seconds) of the process and its children."""
    walls, processor = [], []
    for _ in range(ROUNDS):
        start_time = [resource.getrusage(w)
                      for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        start = time.monotonic()
        work()
        walls.append(time.monotonic() - start)
        after = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        processor.append(sum(a.ru_utime + a.ru_stime - b.ru_utime - b.ru_stime
                             for a, b in zip(after, start_time)))
    return min(walls), statistics.median(walls), min(processor)


def texcell(unit, threads=THREADS):
    out = unit + ".npz"
    r = tap.run([tap.TEXCELL, "run", unit, "-o", out, "--quiet", "--device", DEVICE, "--threads",
                 str(threads)])
    if r.returncode != 0:
        sys.exit(r.stderr)


def opencv(paths):
    import cv2
    cv2.setNumThreads(THREADS)
    for p in paths:
        picture = cv2.imread(p, cv2.IMREAD_GRAYSCALE)
        mask = cv2.threshold(picture, 0, 255, cv2.THRESH_BINARY | cv2.THRESH_OTSU)[1]
        cv2.connectedComponentsWithStats(mask, connectivity=8)


def print_times(name, times):
    print("%-44s %7.2f s best, %7.2f s median, %7.2f s of processor" % (name, *times))
    sys.stdout.flush()
    return times


def blobs(n_y, n_x, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:n_y, :n_x].astype(np.float32)
    light = np.sin(x / 11) * np.sin(y / 13) + 0.5 * np.sin(x / 29 + y / 31)
    return (120 + 60 * light + rng.normal(0, 4, light.shape)).clip(0, 255).astype(np.uint8)


def pack(folder, name, *args):
    unit = os.path.join(folder, name + ".zip")
    r = tap.run([tap.TEXCELL_WU, "pack", "-o", unit, *args])
    if r.returncode != 0:
        sys.exit(r.stderr)
    return unit


def pictures(folder):
    base, paths = blobs(2250, 4000, 1), []
    for i in range(PICTURES):
        paths.append(os.path.join(folder, "p%02d.png" % i))
        Image.fromarray(np.roll(base, (111 * i, 237 * i), (0, 1))).save(paths[-1])
    unit = pack(folder, "pictures", "--analysis", "cellcount", "--param", "polarity=bright", *paths)
    ours = print_times("%d pictures, 4000 x 2250, cellcount, %d threads" % (PICTURES, THREADS),
                       time_work(lambda: texcell(unit)))
    try:
        theirs = print_times("OpenCV: imread, Otsu, components with stats",
                             time_work(lambda: opencv(paths)))
        print("%-44s %7.2f of its best, %7.2f of its processor time" %
              ("texcell takes", ours[0] / theirs[0], ours[2] / theirs[2]))
    except ImportError:
        print("OpenCV is not here")


def split(folder):
    path, side, processor = os.path.join(folder, "split.png"), 4000, {}
    Image.fromarray(blobs(side, side, 3)).save(path, compress_level=1)
    for by in "none", "distance":
        unit = pack(folder, by, "--analysis", "cellcount", "--param", "polarity=bright", "--param",
                    "split=" + by, path)
        processor[by] = print_times("4000 x 4000, cellcount, split %s, one thread" % by,
                                    time_work(lambda: texcell(unit, 1)))[2]
    print("%-44s %7.1f ns of processor a pixel" %
          ("the split takes", 1e9 * (processor["distance"] - processor["none"]) / side ** 2))


def large(folder):
    noise = np.where(np.random.default_rng(4).random((8192, 8192), np.float32) < 0.2, 255,
                     0).astype(np.uint8)
    for name, grey, *more in ("blobs", blobs(8192, 8192, 2)), ("8 million regions", noise,
                                                               "--param", "connectivity=4"):
        path = os.path.join(folder, "large.png")
        Image.fromarray(grey).save(path, compress_level=1)
        unit = pack(folder, "large", "--analysis", "cellcount", "--param", "polarity=bright", *more,
                    path)
        for threads in (1, THREADS):
            print_times("8192 x 8192, cellcount, %s, %s, threads %d" % (name, DEVICE, threads),
                        time_work(lambda: texcell(unit, threads)))


Y, X = np.mgrid[:512, :512].astype(np.float32)


def shells(z):
    return 40 + 160 * (
        np.abs(np.sqrt((X % 32 - 16) ** 2 + (Y % 32 - 16) ** 2 + (z % 32 - 16) ** 2) - 12) < 1.3)


def balls(z):
    k = 2 * np.pi / 26
    return 40 + 150 * np.maximum(0, np.cos(X * k) * np.cos(Y * k) * np.cos(z * k))


def stack(folder, analysis, parameter, grey):
    slices = os.path.join(folder, analysis)
    os.mkdir(slices)
    for z in range(SLICES):
        noise = np.random.default_rng(z).normal(0, 4, X.shape)
        Image.fromarray((grey(z) + noise).clip(0, 255).astype(np.uint8)).save(
            os.path.join(slices, "%03d.png" % z), compress_level=1)
    unit = pack(folder, analysis, "--analysis", analysis, "--param", parameter, "--stack", slices)
    print_times("%d x 512 x 512, %s, %s, threads %d" % (SLICES, analysis, DEVICE, THREADS),
                time_work(lambda: texcell(unit)))


with tempfile.TemporaryDirectory() as scratch:
    pictures(scratch)
    if DEVICE == "cpu":
        split(scratch)
    large(scratch)
    stack(scratch, "volume", "membrane=120", shells)
    if DEVICE != "cpu":
        stack(scratch, "voting", "radius=8", balls)
