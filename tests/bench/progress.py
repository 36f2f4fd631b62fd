"""make bench-progress: how linear the reported fraction done, f, is. BOINC's client estimates the
time left as t (1 - f) / f, where t is the time so far; here t is the processor time of one thread.
Prints the relative error of that estimate at a tenth of the task and later, the median of
BENCH_ROUNDS (3) runs; "-": no fraction was printed near that share of the task. First for tasks of
many items, as in a project: pieces of real pictures, of different sizes and kinds; then for single
items. Arguments: names of analyses (default: all). BENCH_DEVICE=opencl: computes on that device,
and t is wall time; the first run of each task is ignored, since the driver compiles then."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import time

import numpy as np
import tifffile
from PIL import Image

import plans

DEVICE, RUNS = os.environ.get("BENCH_DEVICE", "cpu"), int(os.environ.get("BENCH_ROUNDS", "3"))
SHARES = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)

# how often pictures are repeated along each side, compared with bench-plans, to take some seconds
LARGER = {"objects": 3, "volume": 3, "cellcount": 3, "voting": 3}

COUNT = [("count/" + f,) for f in ("bccd_BloodImage_00000.jpg", "blobs.tif", "chula_1.jpg",
                                   "coins.png", "chula_262.jpg")]
CRYSTAL = [("crystal/texture_%s.png" % f,) for f in ("brick", "gravel")]
BRAIN = [("levelset/itk_BrainProtonDensitySlice.png",), ("levelset/itk_BrainT1Slice.png",)]
MEMBRANE, NUCLEI = [("volume/membrane_raw.tif",)], [("volume/neubias_nuclei.tif",)]
FLAT, DEEP = [("voting/stardist_img2d.tif",)], [("voting/cellfinder_crop_ch0.tif",)]
# (analysis, parameters, pictures (and labels), number of pieces, how often each is repeated along
# each side)
TASKS = [
    ("cellcount", ["split=distance"], COUNT, 240, 4),
    ("cellcount", ["labels=true", "smooth=1"], COUNT, 120, 6),
    ("cellcount", ["min_area=20"], COUNT, 400, 6),
    ("glcm", ["preset=hcc"], CRYSTAL, 6, 1),
    ("glcm", ["levels=[32]", "distances=[1]", 'features="ibsi"'], CRYSTAL, 24, 1),
    ("volume", ["membrane=30"], MEMBRANE, 120, 4),
    ("volume", ["membrane=30", 'repair={"sigma":1}', "labels=true"], MEMBRANE, 80, 2),
    ("volume", ["method=watershed", "smooth=1.5"], MEMBRANE, 160, 1),
    ("volume", ["membrane=60"], NUCLEI, 160, 8),
    ("levelset", ["target=128", "epsilon=40", "iterations=1000",
                  'init={"type":"ball","cx":50,"cy":50,"r":30}'], BRAIN, 240, 1),
    ("levelset", ["target=128", "epsilon=40", "iterations=1000", "band=6",
                  'init={"type":"ball","cx":50,"cy":50,"r":30}'], BRAIN, 240, 2),
    ("voting", ["radius=12"], FLAT, 240, 1), ("voting", ["radius=6"], DEEP, 20, 1),
    ("objects", ['families=["shape","intensity"]'],
     [("voting/stardist_img2d.tif", "voting/stardist_mask2d.tif")], 240, 4),
    ("objects", ["levels=32"], [("voting/stardist_img2d.tif", "voting/stardist_mask2d.tif")], 240,
     4),
]


def processor_time(pid):
    with open("/proc/%d/schedstat" % pid) as f:
        return int(f.read().split()[0]) / 1e9


def course(unit, result):
    """([(processor time, fraction)], processor time of the whole run); on a device by the wall
    clock."""
    begin = time.monotonic()
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    p = subprocess.Popen([plans.TEXCELL, "run", unit, "--replace", "-o", result, "--device", DEVICE,
                          "--threads", "1"], stderr=slave)
    os.close(slave)
    points, text = [], b""
    try:
        while True:
            more = os.read(master, 65536)
            if not more:
                break
            spent = processor_time(p.pid) if DEVICE == "cpu" else time.monotonic() - begin
            text = (text + more)[-200:]
            percentages = re.findall(rb"(\d+\.\d)%", text)
            if percentages and (not points or float(percentages[-1]) / 100 > points[-1][1]):
                points.append((spent, float(percentages[-1]) / 100))
    except OSError:          # the program has closed its end
        pass
    os.close(master)
    _pid, status, usage = os.wait4(p.pid, 0)
    p.returncode = status
    return points, usage.ru_utime + usage.ru_stime if DEVICE == "cpu" else time.monotonic() - begin


def pieces(rng, files, count, times):
    """Pieces of the pictures in turn, `count` in all, with half to all of their sides. Pictures are
    repeated `times` times along each side before."""
    loaded_pictures = []
    for f in files:
        path = os.path.join(plans.DATA, f)
        picture = tifffile.imread(path) if f.endswith(".tif") else np.asarray(
            Image.open(path).convert("L"))
        loaded_pictures.append(np.tile(picture, (1,) * (picture.ndim - 2) + (times, times)))
    for i in range(count):
        whole = loaded_pictures[i % len(loaded_pictures)]
        size = [int(n * rng.uniform(0.5, 1)) for n in whole.shape]
        position = [rng.integers(n - k + 1) for n, k in zip(whole.shape, size)]
        yield whole[tuple(slice(a, a + k) for a, k in zip(position, size))]


def task(folder, analysis, parameters, files, count, times):
    """Packs a task's work unit."""
    unit, pictures, labels = (os.path.join(folder, n) for n in ("u.zip", "pictures", "labels"))
    words = [w for p in parameters for w in ("--param", p)]
    for name, of in (("pictures", [f[0] for f in files]),
                     ("labels", [f[1] for f in files if len(f) > 1])):
        os.mkdir(os.path.join(folder, name))
        for i, piece in enumerate(pieces(np.random.default_rng(5), of, count, times) if of else ()):
            tifffile.imwrite(os.path.join(folder, name, "%03d.tif" % i), piece)
    if len(files[0]) > 1:
        words += ["--labels", labels]
    subprocess.check_call([plans.TEXCELL_WU, "pack", "--analysis", analysis, *words, "-o", unit,
                           pictures], stdout=subprocess.DEVNULL)
    return unit


def errors_of_estimate(points, whole):
    """The relative error of the time left at each share; None: no fraction was printed near it."""
    for share in SHARES:
        points_after = [p for p in points if p[0] >= share * whole]
        t, f = points_after[0] if points_after else (whole, 0)
        yield t * (1 - f) / f / (whole - t) - 1 if f > 0 and t < min(share + 0.08,
                                                                     0.97) * whole else None


def print_errors(analysis, parameters, unit, result):
    if DEVICE != "cpu":
        course(unit, result)
    runs = [course(unit, result) for _ in range(RUNS)]
    found = [[e for e in errors if e is not None]
             for errors in zip(*(errors_of_estimate(*run) for run in runs))]
    print("%-10s %-62s %6.2f s  at 10, 20, 30, 50, 70, 90%%: %s" %
          (analysis, " ".join(parameters), np.median([whole for _points, whole in runs]),
           " ".join("%+4.0f%%" % (100 * np.median(errors)) if errors else "    -"
                    for errors in found)), flush=True)


def main():
    only = sys.argv[1:]
    for analysis, *job in TASKS:
        if (not only or analysis in only) and os.path.exists(os.path.join(plans.DATA,
                                                                          job[1][0][0])):
            with tempfile.TemporaryDirectory(prefix="texcell-bench-") as folder:
                print_errors(analysis, job[0], task(folder, analysis, *job),
                             os.path.join(folder, "r.npz"))
    print("Single items", flush=True)
    files_by_kind = plans.pictures()
    with tempfile.TemporaryDirectory(prefix="texcell-bench-") as folder:
        for analysis, parameters, kind, times in plans.JOBS:
            if not only or analysis in only:
                unit = plans.pack(folder, files_by_kind, analysis, parameters, kind,
                                  times * LARGER.get(analysis, 1))
                print_errors(analysis, parameters, unit, os.path.join(folder, "r.npz"))


if __name__ == "__main__":
    main()
