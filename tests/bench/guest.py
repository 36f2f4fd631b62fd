"""Measures what texcell costs the computer on which it runs.

make bench-threads: each analysis on 1, 2, 4, ... threads up to the number of processors (or
THREADS): seconds, and the efficiency (speed-up divided by threads).
make bench-guest: on an OpenCL device (DEVICE; default opencl), for each analysis: seconds of a
small unit from the program's start to its end, with nothing compiled, and again; the share of the
time in which launches run with --gpu-percent 50; with --gpu-slice-ms 10 the 99th percentile of
launches, and how long another program's kernel of a millisecond takes in the meantime."""
import json
import os
import subprocess
import sys
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap
from oracle import workunit

FOLDER = tap.scratch()
SIZE = float(os.environ.get("GUEST_SIZE", "1"))      # factor for the amount of work


def cells(nz, ny, nx, distance):
    """Round cells on a grid, with noise."""
    rng = np.random.default_rng(3)
    z, y, x = np.meshgrid(np.arange(nz), np.arange(ny), np.arange(nx), indexing="ij", sparse=True)
    square = sum(((a + distance // 2) % distance - distance / 2) ** 2
                 for a in ((y, x) if nz == 1 else (z, y, x)))
    picture = np.where(square < (0.35 * distance) ** 2, 170, 60) + rng.normal(0, 10, (nz, ny, nx))
    return picture.clip(0, 255).astype(np.uint8)


def labels_of(ny, nx, side):
    return (np.arange(ny)[:, None] // side * (nx // side + 1) + np.arange(nx)[None] // side +
            1).astype(np.uint16)


def jobs(small, device):
    """{analysis: (parameters, pictures, number of items)}; more work for a device."""
    more = 4 if device and not small else 1
    side = 256 if small else int(2048 * SIZE ** 0.5)
    flat, deep = (cells(1, side, side, 32)[0],
                  cells(*(16, 64, 64) if small else (int(192 * SIZE), 256, 256), 16))
    ball = {"type": "ball", "cx": side / 2, "cy": side / 2, "r": side / 3}
    n = 1 if small else 4
    return {
        "glcm": ({"levels": [16], "window": {"shape": "disc", "radius": 5},
                  "distances": list(range(1, 1 + more))}, [flat], more),
        "cellcount": ({"split": "distance"}, [flat], 3 * n),
        "volume": ({"membrane": 120}, list(deep), 3 * n),
        "levelset": ({"target": 170, "epsilon": 80, "iterations": 20 if small else 150 * more,
                      "init": ball}, [flat], more),
        "voting": ({"radius": 11}, [flat], 1 if small else 2 * more),
        "objects": ({"families": ["shape", "intensity", "texture"], "levels": 32, "distances": [1]},
                    [flat], 3 * n),
    }


def unit(name, parameters, slices, n, path):
    """Packs a unit by texcell-wu, which cuts large pictures into strips."""
    folder = os.path.splitext(path)[0]
    inputs, more = [], []
    for i in range(n):
        inputs.append(os.path.join(folder, "i%d" % i) + (".png" if len(slices) == 1 else ""))
        os.makedirs(os.path.dirname(inputs[-1]) if len(slices) == 1 else inputs[-1], exist_ok=True)
        for z, picture in enumerate(slices):
            file = inputs[-1] if len(slices) == 1 else os.path.join(inputs[-1], "%03d.png" % z)
            if i == 0:
                with open(file, "wb") as f:
                    f.write(workunit.png(picture))
            else:
                os.link(file.replace(inputs[-1], inputs[0]), file)
        if name == "objects":
            os.makedirs(os.path.join(folder, "labels"), exist_ok=True)
            with open(os.path.join(folder, "labels", "i%d.png" % i), "wb") as f:
                f.write(workunit.png(labels_of(*slices[0].shape, 32)))
            more = ["--labels", os.path.join(folder, "labels") + ("" if n > 1 else "/i0.png")]
    words = [w for key, value in parameters.items()
             for w in ("--param", "%s=%s" % (key, json.dumps(value)))]
    subprocess.run([tap.TEXCELL_WU, "pack", "--analysis", name, "-o", path] + words + more
                   + (["--stack"] if len(slices) > 1 else []) + inputs, check=True,
                   stdout=subprocess.DEVNULL)


def units(small, device=False):
    """(analysis, path) of each work unit."""
    for name, job in jobs(small, device).items():
        path = os.path.join(FOLDER, "%s_%d%d.zip" % (name, small, device))
        if not os.path.exists(path):
            unit(name, *job, path)
        yield name, path


def command(path, *options):
    return [tap.TEXCELL, "run", path, "-o", os.path.join(FOLDER, "out.npz"),
            "--quiet"] + list(options)


def seconds(words, **env):
    start = time.time()
    subprocess.run(words, check=True, env=dict(os.environ, **env))
    return time.time() - start


def threads():
    most = int(os.environ.get("THREADS", os.cpu_count()))
    counts = [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= most]
    print("%-10s" % "seconds" + "".join("%12d" % n for n in counts))
    for name, path in units(False):
        row, before = [], None
        for n in counts:
            took = min(seconds(command(path, "--device", "cpu", "--threads", str(n)))
                       for _ in range(2))
            before = before or took
            row.append("%6.2f %4.0f%%" % (took, 100 * before / took / n))
        print("%-10s " % name + " ".join(row))
        sys.stdout.flush()


def launches(path, *options):
    """(share of the time in which launches ran, their 99th percentile and longest time in ms)."""
    times = os.path.join(FOLDER, "times")
    if os.path.exists(times):
        os.remove(times)
    seconds(command(path, *options), **tap.opencl_hooks(times=times))
    rows = np.loadtxt(times, dtype=np.int64).reshape(-1, 2)
    rows = rows[len(rows) // 4:]                     # without the launches of self-tests
    took = rows[:, 1] - rows[:, 0]
    return (took[:-1].sum() / max(1, rows[-1, 0] - rows[0, 0]), np.percentile(took, 99) / 1e6,
            took.max() / 1e6)


def guest(device):
    lag = os.path.join(tap.BUILD, "tests", "bench", "gpu_lag")
    print("a kernel of a millisecond alone: least, median, 99 in 100, most: "
          + subprocess.check_output([lag, device, "3"], text=True).strip())
    small = dict(units(True))
    for name, path in units(False, True):
        first = seconds(command(small[name], "--device", device))
        again = min(seconds(command(small[name], "--device", device)) for _ in range(3))
        half, _, _ = launches(path, "--device", device, "--gpu-percent", "50")
        full, late, longest = launches(path, "--device", device, "--gpu-slice-ms", "10")
        beside = subprocess.Popen(command(path, "--device", device, "--gpu-slice-ms", "10"))
        time.sleep(again)
        waited = subprocess.check_output([lag, device, "2"],
                                         text=True).strip() if beside.poll() is None else "over"
        beside.wait()
        print(json.dumps({"analysis": name, "first": round(first, 2), "again": round(again, 2),
                          "busy": round(full, 3),
                          "busy at 50%": round(half, 3), "99 in 100 launches, ms": round(late, 2),
                          "longest": round(longest, 2), "beside it": waited}))
        sys.stdout.flush()


if sys.argv[1:] == ["threads"]:
    threads()
else:
    guest(os.environ.get("DEVICE", "opencl"))
