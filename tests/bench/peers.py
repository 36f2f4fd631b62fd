"""make bench-peers: texcell's whole way from picture files to tables, as processes (pack, run, export; or
analyse, with its page), in turn with a short Python script over OpenCV, cc3d, mahotas, scikit-image or
SimpleITK that reads the same files, computes and writes a table. A ratio above 1 is one where the peer wins.

    peers.py [ROW...]       rows by the beginning of their names; all without one

Seconds by the clock, the best of BENCH_ROUNDS (2), the programs on BENCH_PROCESSORS (1) processors,
peers with one thread. "run" compares texcell run with the peer's reading and computing. What is
counted is counted by both; where it differs the row says so. Peers that Debian has no package of are
installed from PyPI into the build folder; pictures are made here, the same in every run.
Environment: TEXCELL_BUILD, BENCH_ROUNDS, BENCH_PROCESSORS."""
import csv
import os
import shutil
import subprocess
import sys
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

os.environ.pop("TEXCELL_ALL_THREADS", None)
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "2"))
PROCESSORS = int(os.environ.get("BENCH_PROCESSORS", "1"))
FOLDER = tap.scratch()
PEERS = os.path.join(os.path.abspath(tap.BUILD), "bench_peers")
PYPI = ["mahotas==1.4.13", "connected-components-3d==3.12.3", "SimpleITK==2.3.1"]

# What each peer's script begins with; it ends by telling what it counted and how long it computed.
HEAD = """
import csv, glob, os, sys, time
import numpy as np
files = sorted(glob.glob(sys.argv[1] + "/*"))
table = csv.writer(open(sys.argv[2], "w"))
begin = lambda: time.perf_counter()
def end(count, start):
    print("RESULT", count, time.perf_counter() - start)
"""
OPENCV = HEAD + """
import cv2
cv2.setNumThreads(1)
start, count, computed = begin(), 0, 0
for f in files:
    picture = cv2.imread(f, cv2.IMREAD_GRAYSCALE)
    %s
    n, labels, stats, centres = cv2.connectedComponentsWithStats(mask, connectivity=8)
    count += n - 1
    %s
    paused = begin()
    name = os.path.basename(f)
    table.writerows([name, i, *stats[i], *centres[i]] for i in range(1, n))
    start += begin() - paused
end(count, start)
"""
OTSU = "_, mask = cv2.threshold(picture, 0, 255, cv2.THRESH_BINARY%s | cv2.THRESH_OTSU)"
DARK = OTSU % "_INV"


# --- pictures ------------------------------------------------------------------------------------

def folder(name):
    path = os.path.join(FOLDER, name)
    os.mkdir(path)
    return path


def save(path, picture, **how):
    from PIL import Image
    Image.MAX_IMAGE_PIXELS = None
    Image.fromarray(picture).save(path, **how)


def cells(seed, height, width, spacing=28, noise=4):
    """Dark cells on a bright background, none of which touch."""
    rng = np.random.default_rng(seed)
    rows, columns = -(-height // spacing), -(-width // spacing)
    y, x = np.arange(height)[:, None] % spacing, np.arange(width)[None] % spacing
    radius = rng.uniform(0.2, 0.42, (rows, columns)) * spacing
    radius *= rng.random(radius.shape) < 0.8
    radius = np.repeat(np.repeat(radius, spacing, 0), spacing, 1)[:height, :width]
    inside = (y - spacing / 2) ** 2 + (x - spacing / 2) ** 2 < radius ** 2
    grain = rng.standard_normal((height, width), np.float32) * np.float32(noise)
    return (np.where(inside, np.float32(90), np.float32(200)) + grain).astype(np.uint8)


def blobs3d(side):
    """Labels of balls in a grid, and their greys."""
    step = 32
    z, y, x = (np.arange(side) % step - step / 2 for _ in range(3))
    inside = z[:, None, None] ** 2 + y[:, None] ** 2 + x ** 2 < 100
    return np.where(inside, 60, 180).astype(np.uint8)


def some(name, pictures, ending="png", **how):
    path = folder(name)
    for i, picture in enumerate(pictures):
        save(os.path.join(path, "p%04d.%s" % (i, ending)), picture, **how)
    return path


# --- the rows ------------------------------------------------------------------------------------

class Row:
    """peer: the script; arguments: of pack; table, column: which rows, or sum, to compare the peer's count with."""

    def __init__(self, name, inputs, arguments, peer, bar=1.0, table="regions.csv", analyse=False, same=0.0, sum_of=None):
        self.name, self.inputs, self.arguments, self.peer, self.bar = name, inputs, arguments, peer, bar
        self.table, self.analyse, self.same, self.sum_of = table, analyse, same, sum_of


def cellcount(name, inputs, params, peer, **how):
    arguments = ["--analysis", "cellcount"]
    for p in params:
        arguments += ["--param", p]
    return Row(name, inputs, arguments, peer, **how)


def rows():
    """Each is made when it is its turn."""
    def jpeg(analyse):
        def make():
            tint = np.array([1, 0.97, 1.02])
            pictures = (np.clip(cells(i, 2250, 4000)[:, :, None] * tint, 0, 255).astype(np.uint8) for i in range(6))
            path = os.path.join(FOLDER, "jpeg")
            path = path if os.path.isdir(path) else some("jpeg", pictures, "jpg", quality=92)
            return cellcount("", path, ["min_area=30"], OPENCV % (DARK, "stats = stats[(stats[:, 4] >= 30)]; n = len(stats)"),
                             analyse=analyse, same=0.01, bar=0.8 if analyse else 1.0)
        return make

    def plain(params, mask, keep=""):
        def make():
            path = os.path.join(FOLDER, "plain")
            path = path if os.path.isdir(path) else some("plain", (cells(i, 2048, 2048) for i in range(4)))
            return cellcount("", path, params, OPENCV % (mask, keep), same=0.02)
        return make

    def large(side):
        return lambda: cellcount("", some("large%d" % side, [cells(1, side, side)], "tif"), [], OPENCV % (DARK, ""), same=0.001)

    def small(n, side):
        return lambda: cellcount("", some("small%d" % side, (cells(i, side, side, 16, 2) for i in range(n))), [], OPENCV % (DARK, ""), same=0.001)

    def opening(radius):
        """Bright cells: the tophat by the same disc."""
        mask = """
    disc = (np.add.outer(np.arange(-{0}, {0} + 1) ** 2, np.arange(-{0}, {0} + 1) ** 2) <= {0} ** 2).astype(np.uint8)
    picture = cv2.morphologyEx(picture, cv2.MORPH_TOPHAT, disc)
    """.format(radius) + OTSU % ""

        def make():
            pictures = (255 - cells(i, 2048, 2048) for i in range(2))
            return cellcount("", some("opening%d" % radius, pictures), ['background={"method":"opening","radius":%d}' % radius, "polarity=bright"],
                             OPENCV % (mask, ""), same=0.02, bar=0.8 if radius == 15 else 1.0)
        return make

    def labels():
        write = "cv2.imwrite(sys.argv[2] + os.path.basename(f) + '.tif', labels.astype(np.float32))"
        return cellcount("", some("labels", (cells(i, 2048, 2048) for i in range(4))), ["labels=true"], OPENCV % (DARK, write), same=0.001)

    def objects():
        from skimage.measure import label
        picture = cells(1, 4096, 4096)
        found = label(picture < 145, connectivity=2)
        path, masks = some("objects", [picture], "tif"), folder("object_labels")
        import tifffile
        tifffile.imwrite(os.path.join(masks, "p0000.tif"), found.astype(np.int32))
        peer = HEAD + """
import cc3d, tifffile
start = begin()
labels = tifffile.imread({0!r}).astype(np.uint32)
picture = tifffile.imread(files[0])
s = cc3d.statistics(labels)
n = len(s["voxel_counts"]) - 1
sums = np.bincount(labels.ravel(), picture.ravel())
squares = np.bincount(labels.ravel(), picture.ravel().astype(np.float64) ** 2)
table.writerows([i, s["voxel_counts"][i], *s["centroids"][i], sums[i], squares[i]] for i in range(1, n + 1))
end(n, start)
""".format(os.path.join(masks, "p0000.tif"))
        return Row("", path, ["--analysis", "objects", "--param", 'families=["shape","intensity"]', "--labels",
                              masks], peer, table="objects.csv")

    def volume():
        side = 256
        path = folder("stack")
        import tifffile
        tifffile.imwrite(os.path.join(path, "p0000.tif"), blobs3d(side), photometric="minisblack", metadata={"axes": "ZYX"})
        peer = HEAD + """
import cc3d, tifffile
start = begin()
stack = tifffile.imread(files[0])
labels, n = cc3d.connected_components(stack < 120, connectivity=6, return_N=True)
s = cc3d.statistics(labels)
table.writerows([i, s["voxel_counts"][i], *s["centroids"][i]] for i in range(1, n + 1))
tifffile.imwrite(sys.argv[2] + ".tif", labels.astype(np.uint16))
end(n, start)
"""
        return Row("", path, ["--analysis", "volume", "--param", "membrane=120", "--param", "labels=true"], peer, table="cells.csv")

    def roi():
        import skimage.data
        source, rng = skimage.data.gravel(), np.random.default_rng(1)
        at = rng.integers(0, 512 - 200, (300, 2))
        path = some("roi", (source[y:y + 200, x:x + 200] for y, x in at))
        peer = HEAD + """
import cv2, mahotas
start, n = begin(), 0
for f in files:
    picture = cv2.imread(f, cv2.IMREAD_GRAYSCALE) // 8
    table.writerow([f, *mahotas.features.haralick(picture, return_mean=True)])
    n += 1
end(n, start)
"""
        return Row("", path, ["--analysis", "glcm", "--param", "levels=[32]", "--param", "distances=[1]", "--param", "directions=four", "--param",
                              'window={"shape":"roi"}', "--param", 'roi={"type":"all"}'], peer, table="features.csv")

    def window():
        """Contrast is a mean of squares: box filters of squared differences."""
        import skimage.data
        path = some("window", [skimage.data.gravel()])
        peer = HEAD + """
import cv2
cv2.setNumThreads(1)
start = begin()
picture = (cv2.imread(files[0], cv2.IMREAD_GRAYSCALE) // 8).astype(np.float32)
maps = []
for dy, dx in ((0, 1), (1, 1), (1, 0), (1, -1)):
    a = picture[:picture.shape[0] - dy, max(0, -dx):picture.shape[1] - max(0, dx)]
    b = picture[dy:, max(0, dx):picture.shape[1] + min(0, dx)]
    maps.append(cv2.blur((a - b) ** 2, (33, 33)).mean())
table.writerow(maps)
end(1, start)
"""
        return Row("", path, ["--analysis", "glcm", "--param", "levels=[32]", "--param", "distances=[1]", "--param", "directions=four", "--param",
                              'window={"shape":"square","radius":16}', "--param", 'features=["contrast"]', "--param", 'roi={"type":"all"}'],
                   peer, bar=3.0, table="features.csv")

    def voting():
        path = some("voting", [255 - cells(1, 2048, 2048, 40)])
        peer = HEAD + """
import cv2
cv2.setNumThreads(1)
start = begin()
picture = cv2.GaussianBlur(cv2.imread(files[0], cv2.IMREAD_GRAYSCALE), (0, 0), 2)
found = cv2.HoughCircles(picture, cv2.HOUGH_GRADIENT, 1, 16, param1=60, param2=12, minRadius=7, maxRadius=18)
table.writerows(found[0])
end(found.shape[1], start)
"""
        return Row("", path, ["--analysis", "voting", "--param", "radius=17"], peer, bar=3.0, table="points.csv", same=0.1)

    def levelset(band):
        def make():
            y, x = np.mgrid[:512, :512] - 256
            picture = np.where(np.hypot(y, x) < 120 + 20 * np.sin(5 * np.arctan2(y, x)), 200, 60)
            picture = (picture + np.random.default_rng(1).normal(0, 6, picture.shape)).astype(np.uint8)
            path = some("levelset%d" % band, [picture])
            peer = HEAD + """
import SimpleITK as sitk
sitk.ProcessObject.SetGlobalDefaultNumberOfThreads(1)
start = begin()
picture = sitk.Cast(sitk.ReadImage(files[0]), sitk.sitkFloat32)
seed = np.zeros((512, 512), np.float32)
y, x = np.mgrid[:512, :512] - 256
first = sitk.GetImageFromArray((np.hypot(y, x) - 60).astype(np.float32))
level = sitk.ThresholdSegmentationLevelSetImageFilter()
level.SetLowerThreshold(150); level.SetUpperThreshold(250)
level.SetNumberOfIterations(600); level.SetMaximumRMSError(0)
level.SetCurvatureScaling(1); level.SetPropagationScaling(1)
mask = sitk.GetArrayFromImage(level.Execute(first, picture)) < 0
table.writerow([int(mask.sum())])
end(int(mask.sum()), start)
"""
            return Row("", path, ["--analysis", "levelset", "--param", "target=200", "--param", "epsilon=50", "--param", "alpha=0.1", "--param", "iterations=600",
                                  "--param", 'init={"type":"ball","cx":256,"cy":256,"r":60}', "--param", "band=%d" % band], peer, table="items.csv", same=0.02, sum_of="inside_voxels")
        return make

    return [("jpeg, analyse", jpeg(True)), ("jpeg, 6 of 4000 x 2250", jpeg(False)),
            ("plain, 4 of 2048^2", plain([], DARK)), ("fill, 4 of 2048^2", plain(["fill_holes=true"], DARK + """
    border = cv2.copyMakeBorder(mask, 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=0)
    cv2.floodFill(border, None, (0, 0), 255); mask = mask | ~border[1:-1, 1:-1]""")),
            ("local, 4 of 2048^2", plain(["threshold=local"],
             "mask = cv2.adaptiveThreshold(picture, 255, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY_INV, 51, 10)")),
            ("smooth, 4 of 2048^2", plain(["smooth=2"], "picture = cv2.GaussianBlur(picture, (0, 0), 2); " + DARK)),
            ("large, TIFF of 8192^2", large(8192)), ("small, 1,000 of 200^2", small(1000, 200)), ("tiny, 1,000 of 64^2", small(1000, 64)),
            ("opening 15, 2 of 2048^2", opening(15)), ("opening 50, 2 of 2048^2", opening(50)), ("labels, 4 of 2048^2", labels),
            ("objects, 4096^2", objects), ("volume with labels, 256^3", volume), ("roi, 300 of 200^2", roi),
            ("window, contrast, 512^2", window), ("voting, 2048^2", voting), ("levelset, 512^2", levelset(0)), ("levelset, band 6", levelset(6))]


# --- running -------------------------------------------------------------------------------------

def timed(argv, env=None):
    start = time.perf_counter()
    r = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, env=env)
    if r.returncode != 0:
        sys.exit("%s\n%s%s" % (" ".join(argv), r.stdout, r.stderr))
    return time.perf_counter() - start, r.stdout


def of_texcell(row):
    """Seconds of the whole and of run alone, and the tables' folder."""
    out, unit, result = (os.path.join(FOLDER, n) for n in ("out", "unit.zip", "result.npz"))
    shutil.rmtree(out, True)
    device = ["--device", "cpu", "--threads", str(PROCESSORS)]
    if row.analyse:
        return timed([tap.TEXCELL_WU, "analyse", *row.arguments, "--defaults", *device, "-o", out, row.inputs])[0], None, out
    packed, _ = timed([tap.TEXCELL_WU, "pack", *row.arguments, "-o", unit, row.inputs])
    run, _ = timed([tap.TEXCELL, "run", unit, "-o", result, "--quiet", *device])
    more = ["--tiff"] if "labels=true" in row.arguments else []
    exported, _ = timed([tap.TEXCELL_WU, "export", *more, result, "-o", out])
    os.remove(result)
    row.parts = "pack %.2f, run %.2f, export %.2f" % (packed, run, exported)
    return packed + run + exported, run, out


def of_peer(row):
    env = dict(os.environ, PYTHONPATH=PEERS, **{n + "_NUM_THREADS": "1" for n in ("OPENBLAS", "OMP", "MKL")})
    out = os.path.join(FOLDER, "peer")
    seconds, said = timed([sys.executable, "-c", row.peer, row.inputs, out], env)
    _, count, computed = said.split()
    return seconds, float(computed), float(count)


def counted(row, out):
    with open(os.path.join(out, row.table)) as f:
        table = list(csv.DictReader(f))
    return sum(float(line[row.sum_of]) for line in table) if row.sum_of else len(table)


def measure(name, row):
    ours, alone, theirs, computing = [], [], [], []
    for _ in range(ROUNDS):
        whole, run, out = of_texcell(row)
        ours.append(whole)
        alone.append(run)
        whole, computed, count = of_peer(row)
        theirs.append(whole)
        computing.append(computed)
    mine = counted(row, out)
    whole = min(ours) / min(theirs)
    run = "" if alone[0] is None else "%.2f" % (min(alone) / min(computing))
    print("%-26s %6.2f s, peer %6.2f; whole %5.2f, bar %.1f%s; run %5s; counted %d, peer %d%s; %s"
          % (name, min(ours), min(theirs), whole, row.bar, "" if whole <= row.bar else ", MISSED", run, mine, count,
             "" if abs(mine - count) <= row.same * count else " OTHERS", getattr(row, "parts", "")))
    sys.stdout.flush()


def main():
    if not os.path.isdir(PEERS):
        r = tap.run([sys.executable, "-m", "pip", "-q", "install", "--no-deps", "--target", PEERS, *PYPI])
        if r.returncode != 0:
            print("peers.py: what is not in Debian cannot be had: " + r.stderr.strip()[-200:])
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:PROCESSORS]))
    for name, make in rows():
        if sys.argv[1:] and not any(name.startswith(n) for n in sys.argv[1:]):
            continue
        measure(name, make())


main()
