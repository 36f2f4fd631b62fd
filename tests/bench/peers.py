"""make bench-peers: compares the time of texcell, from picture files to tables, with that of other
libraries. texcell's commands (pack, run, export; or analyse, with its page) run in turn with a
short Python script that reads the same files with OpenCV, cc3d, mahotas or SimpleITK, computes and
writes a table. A ratio above 1 means that the other library is faster.

    peers.py [ROW...]       rows by the beginning of their names; all rows by default

Times are wall seconds, the best of BENCH_ROUNDS (2), with texcell on BENCH_PROCESSORS (1)
processors, and the peers with one thread. "run" compares texcell run with the peer's reading and
computing. Both count objects; if the numbers differ, the row says so. Peers without a Debian
package are installed from PyPI into the build folder; pictures are generated, the same in every
run. Environment variables: TEXCELL_BUILD, BENCH_ROUNDS, BENCH_PROCESSORS; BENCH_CPU=1 measures
processor seconds, which depend less on other processes."""
import csv
import os
import resource
import shutil
import sys
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

os.environ.pop("TEXCELL_ALL_THREADS", None)
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "2"))
PROCESSORS = int(os.environ.get("BENCH_PROCESSORS", "1"))
CPU = os.environ.get("BENCH_CPU", "") == "1"
FOLDER = tap.scratch()
PEERS = os.path.join(os.path.abspath(tap.BUILD), "bench_peers")
PYPI = ["mahotas==1.4.13", "connected-components-3d==3.12.3", "SimpleITK==2.3.1"]

# The beginning of each peer's script. end() prints the number of objects and the time of computing.
HEAD = """
import csv, glob, os, sys, time
import numpy as np
files = sorted(glob.glob(sys.argv[1] + "/*"))
table = csv.writer(open(sys.argv[2], "w"))
begin = time.process_time if os.environ.get("BENCH_CPU") == "1" else time.perf_counter
def end(count, start):
    print("RESULT", count, begin() - start)
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
    """Dark balls in a grid on a bright background."""
    step = 32
    z, y, x = (np.arange(side) % step - step / 2 for _ in range(3))
    inside = z[:, None, None] ** 2 + y[:, None] ** 2 + x ** 2 < 100
    return np.where(inside, 60, 180).astype(np.uint8)


def save_pictures(name, pictures, ending="png", **how):
    path = folder(name)
    for i, picture in enumerate(pictures):
        save(os.path.join(path, "p%04d.%s" % (i, ending)), picture, **how)
    return path


# --- the rows ------------------------------------------------------------------------------------

class Row:
    """A comparison. peer: the script of the other library. table: texcell's table whose rows are
    counted or, if sum_of is given, whose column sum_of is summed. same: the relative difference
    allowed between the counts of both. bar: the largest ratio of times that is not marked
    MISSED."""

    def __init__(self, analysis, params, inputs, peer, **how):
        self.inputs, self.peer = inputs, peer
        self.arguments = ["--analysis", analysis]
        for param in params:
            self.arguments += ["--param", param]
        self.arguments += how.get("more", [])
        self.bar, self.same = how.get("bar", 1.0), how.get("same", 0.001)
        self.table, self.sum_of = how.get("table", "regions.csv"), how.get("sum_of")
        self.analyse = how.get("analyse", False)


def cellcount_row(name, params, mask, keep="", n=4, side=2048, **how):
    """A row of cellcount for n pictures of cells. Rows with the same name share the pictures."""
    path = os.path.join(FOLDER, name)
    if not os.path.isdir(path):
        spacing, noise = (28, 4) if side > 200 else (16, 2)
        save_pictures(name, (cells(i, side, side, spacing, noise) for i in range(n)),
                      "tif" if n == 1 else "png")
    return Row("cellcount", params, path, OPENCV % (mask, keep), **how)


def jpeg_row(analyse):
    path, tint = os.path.join(FOLDER, "jpeg"), np.array([1, 0.97, 1.02])
    if not os.path.isdir(path):
        pictures = (cells(i, 2250, 4000)[:, :, None] * tint for i in range(6))
        save_pictures("jpeg", (p.clip(0, 255).astype(np.uint8) for p in pictures), "jpg",
                      quality=92)
    return Row("cellcount", ["min_area=30"], path,
               OPENCV % (DARK, "stats = stats[stats[:, 4] >= 30]; n = len(stats)"),
               analyse=analyse, same=0.01, bar=0.8 if analyse else 1.0)


FILLED = DARK + """
    border = cv2.copyMakeBorder(mask, 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=0)
    cv2.floodFill(border, None, (0, 0), 255)
    mask = mask | ~border[1:-1, 1:-1]"""
LOCAL = """mask = cv2.adaptiveThreshold(picture, 255, cv2.ADAPTIVE_THRESH_MEAN_C,
                                 cv2.THRESH_BINARY_INV, 51, 10)"""
SMOOTH = "picture = cv2.GaussianBlur(picture, (0, 0), 2); " + DARK
LABELS = """cv2.imwrite(sys.argv[2] + os.path.basename(f) + ".tif", labels.astype(np.float32))"""


def opening_row(radius):
    """A row of bright cells on a background; the peer computes the top-hat with the same disc."""
    mask = """
    squares = np.arange(-{0}, {0} + 1) ** 2
    disc = (np.add.outer(squares, squares) <= {0} ** 2).astype(np.uint8)
    picture = cv2.morphologyEx(picture, cv2.MORPH_TOPHAT, disc)
    """.format(radius) + OTSU % ""
    path = save_pictures("opening%d" % radius, (255 - cells(i, 2048, 2048) for i in range(2)))
    return Row("cellcount", ['background={"method":"opening","radius":%d}' % radius,
                             "polarity=bright"], path, OPENCV % (mask, ""), same=0.02)


def objects_row():
    import tifffile
    from skimage.measure import label
    picture = cells(1, 4096, 4096)
    path, masks = save_pictures("objects", [picture], "tif"), folder("object_labels")
    file = os.path.join(masks, "p0000.tif")
    tifffile.imwrite(file, label(picture < 145, connectivity=2).astype(np.int32))
    peer = HEAD + """
import cc3d, tifffile
start = begin()
labels, picture = tifffile.imread({0!r}).astype(np.uint32), tifffile.imread(files[0])
s = cc3d.statistics(labels)
n = len(s["voxel_counts"]) - 1
sums = np.bincount(labels.ravel(), picture.ravel())
squares = np.bincount(labels.ravel(), picture.ravel().astype(np.float64) ** 2)
table.writerows([i, s["voxel_counts"][i], *s["centroids"][i], sums[i], squares[i]]
                for i in range(1, n + 1))
end(n, start)
""".format(file)
    return Row("objects", ['families=["shape","intensity"]'], path, peer, table="objects.csv",
               more=["--labels", masks])


def volume_row():
    import tifffile
    path = folder("stack")
    tifffile.imwrite(os.path.join(path, "p0000.tif"), blobs3d(256), photometric="minisblack",
                     metadata={"axes": "ZYX"})
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
    return Row("volume", ["membrane=120", "labels=true"], path, peer, table="cells.csv")


TEXTURE = ["levels=[32]", "distances=[1]", "directions=four", 'roi={"type":"all"}']


def roi_row():
    import skimage.data
    source, position = skimage.data.gravel(), np.random.default_rng(1).integers(0, 312, (300, 2))
    path = save_pictures("roi", (source[y:y + 200, x:x + 200] for y, x in position))
    peer = HEAD + """
import cv2, mahotas
start = begin()
for f in files:
    picture = cv2.imread(f, cv2.IMREAD_GRAYSCALE) // 8
    table.writerow([f, *mahotas.features.haralick(picture, return_mean=True)])
end(len(files), start)
"""
    return Row("glcm", [*TEXTURE, 'window={"shape":"roi"}'], path, peer, table="features.csv")


def window_row():
    """A row of contrast, which the peer computes by box filters of squared differences."""
    import skimage.data
    peer = HEAD + """
import cv2
cv2.setNumThreads(1)
start = begin()
picture = (cv2.imread(files[0], cv2.IMREAD_GRAYSCALE) // 8).astype(np.float32)
means = []
for dy, dx in ((0, 1), (1, 1), (1, 0), (1, -1)):
    ny, nx = picture.shape
    a = picture[:ny - dy, max(0, -dx):nx - max(0, dx)]
    b = picture[dy:, max(0, dx):nx + min(0, dx)]
    means.append(cv2.blur((a - b) ** 2, (33, 33)).mean())
table.writerow(means)
end(1, start)
"""
    return Row("glcm", [*TEXTURE, 'window={"shape":"square","radius":16}', 'features=["contrast"]'],
               save_pictures("window", [skimage.data.gravel()]), peer, bar=3.0,
               table="features.csv")


def voting_row():
    peer = HEAD + """
import cv2
cv2.setNumThreads(1)
start = begin()
picture = cv2.GaussianBlur(cv2.imread(files[0], cv2.IMREAD_GRAYSCALE), (0, 0), 2)
found = cv2.HoughCircles(picture, cv2.HOUGH_GRADIENT, 1, 16, param1=60, param2=12, minRadius=7,
                         maxRadius=18)
table.writerows(found[0])
end(found.shape[1], start)
"""
    return Row("voting", ["radius=17"], save_pictures("voting", [255 - cells(1, 2048, 2048, 40)]),
               peer,
               bar=3.0, table="points.csv", same=0.1)


def levelset_row(band):
    y, x = np.mgrid[:512, :512] - 256
    picture = np.where(np.hypot(y, x) < 120 + 20 * np.sin(5 * np.arctan2(y, x)), 200, 60)
    noise = np.random.default_rng(1).normal(0, 6, picture.shape)
    path = save_pictures("levelset%d" % band, [(picture + noise).astype(np.uint8)])
    peer = HEAD + """
import SimpleITK as sitk
sitk.ProcessObject.SetGlobalDefaultNumberOfThreads(1)
start = begin()
picture = sitk.Cast(sitk.ReadImage(files[0]), sitk.sitkFloat32)
y, x = np.mgrid[:512, :512] - 256
first = sitk.GetImageFromArray((np.hypot(y, x) - 60).astype(np.float32))
level = sitk.ThresholdSegmentationLevelSetImageFilter()
level.SetLowerThreshold(150)
level.SetUpperThreshold(250)
level.SetNumberOfIterations(600)
level.SetMaximumRMSError(0)
mask = sitk.GetArrayFromImage(level.Execute(first, picture)) < 0
table.writerow([int(mask.sum())])
end(int(mask.sum()), start)
"""
    return Row("levelset", ["target=200", "epsilon=50", "alpha=0.1", "iterations=600",
                            'init={"type":"ball","cx":256,"cy":256,"r":60}', "band=%d" % band],
               path, peer, table="items.csv", same=0.03, sum_of="inside_voxels")


ROWS = [
    ("jpeg, analyse", lambda: jpeg_row(True)),
    ("jpeg, 6 of 4000 x 2250", lambda: jpeg_row(False)),
    ("plain, 4 of 2048^2", lambda: cellcount_row("four", [], DARK)),
    ("fill, 4 of 2048^2", lambda: cellcount_row("four", ["fill_holes=true"], FILLED)),
    ("local, 4 of 2048^2", lambda: cellcount_row("four", ["threshold=local"], LOCAL, same=0.02)),
    ("smooth, 4 of 2048^2", lambda: cellcount_row("four", ["smooth=2"], SMOOTH, same=0.01)),
    ("labels, 4 of 2048^2", lambda: cellcount_row("four", ["labels=true"], DARK, LABELS)),
    ("large, TIFF of 8192^2", lambda: cellcount_row("large", [], DARK, n=1, side=8192)),
    ("small, 1,000 of 200^2", lambda: cellcount_row("small", [], DARK, n=1000, side=200)),
    ("tiny, 1,000 of 64^2", lambda: cellcount_row("tiny", [], DARK, n=1000, side=64)),
    ("opening 15, 2 of 2048^2", lambda: opening_row(15)),
    ("opening 50, 2 of 2048^2", lambda: opening_row(50)),
    ("objects, 4096^2", objects_row),
    ("volume, labels, 256^3", volume_row),
    ("roi, 300 of 200^2", roi_row),
    ("window, contrast, 512^2", window_row),
    ("voting, 2048^2", voting_row),
    ("levelset, 512^2", lambda: levelset_row(0)),
    ("levelset, band 6", lambda: levelset_row(6)),
]


# --- running -------------------------------------------------------------------------------------

def seconds_now():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime if CPU else time.perf_counter()


def time_command(argv, env=None):
    start = seconds_now()
    r = tap.run(argv, env=env)
    if r.returncode != 0:
        sys.exit("%s\n%s%s" % (" ".join(argv), r.stdout, r.stderr))
    return seconds_now() - start, r.stdout


def measure_texcell(row):
    """Runs texcell for a row. Returns (seconds of all commands, seconds of run, folder of the
    tables)."""
    out, unit, result = (os.path.join(FOLDER, n) for n in ("out", "unit.zip", "result.npz"))
    shutil.rmtree(out, True)
    device = ["--device", "cpu", "--threads", str(PROCESSORS)]
    if row.analyse:
        seconds, _ = time_command([tap.TEXCELL_WU, "analyse", *row.arguments, "--defaults", *device,
                                   "-o",
                                   out, row.inputs])
        return seconds, None, out
    pack_seconds, _ = time_command([tap.TEXCELL_WU, "pack", *row.arguments, "-o", unit, row.inputs])
    run_seconds, _ = time_command([tap.TEXCELL, "run", unit, "-o", result, "--quiet", *device])
    export_options = ["--tiff"] if "labels=true" in row.arguments else []
    export_seconds, _ = time_command([tap.TEXCELL_WU, "export", *export_options, result, "-o", out])
    os.remove(result)
    row.parts = "pack %.2f, run %.2f, export %.2f" % (pack_seconds, run_seconds, export_seconds)
    return pack_seconds + run_seconds + export_seconds, run_seconds, out


def measure_peer(row):
    env = dict(os.environ, PYTHONPATH=PEERS, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    out = os.path.join(FOLDER, "peer")
    seconds, output = time_command([sys.executable, "-c", row.peer, row.inputs, out], env)
    _, count, computing_seconds = output.split()
    return seconds, float(computing_seconds), float(count)


def count_objects(row, out):
    with open(os.path.join(out, row.table)) as f:
        table = list(csv.DictReader(f))
    return sum(float(line[row.sum_of]) for line in table) if row.sum_of else len(table)


def measure(name, row):
    texcell_times, run_times, peer_times, peer_computing_times = [], [], [], []
    for _ in range(ROUNDS):
        whole, run, out = measure_texcell(row)
        texcell_times.append(whole)
        run_times.append(run)
        whole, computing_seconds, count = measure_peer(row)
        peer_times.append(whole)
        peer_computing_times.append(computing_seconds)
    our_count = count_objects(row, out)
    whole = min(texcell_times) / min(peer_times)
    run = "" if run_times[0] is None else "%.2f" % (min(run_times) / min(peer_computing_times))
    missed_note = "" if whole <= row.bar else ", MISSED"
    count_note = "" if abs(our_count - count) <= row.same * count else " OTHERS"
    print("%-26s %6.2f s, peer %6.2f; whole %5.2f, bar %.1f%s; run %5s; counted %d, peer %d%s; %s"
          %
          (name, min(texcell_times), min(peer_times), whole, row.bar, missed_note, run, our_count,
           count, count_note,
             getattr(row, "parts", "")))
    sys.stdout.flush()


def main():
    if not os.path.isdir(PEERS):
        r = tap.run([sys.executable, "-m", "pip", "-q", "install", "--no-deps", "--target", PEERS,
                     *PYPI])
        if r.returncode != 0:
            print("peers.py: what is not in Debian cannot be had: " + r.stderr.strip()[-200:])
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:PROCESSORS]))
    for name, make in ROWS:
        if sys.argv[1:] and not any(name.startswith(n) for n in sys.argv[1:]):
            continue
        measure(name, make())


main()
