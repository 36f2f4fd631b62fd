"""Tests that texcell leaves time to other users of an OpenCL device: the first launches of kernels
are short on any device, no launch exceeds its limit, and with --gpu-percent the device rests
between launches. Compiled kernels are kept. The results have the same bytes."""
import os
import re
import shutil
import signal
import subprocess
import time
import zipfile

import numpy as np

import compiled
import tap
from oracle import workunit
from pictures import blobs

FOLDER = tap.scratch()
POCL = dict(POCL_CACHE_DIR=compiled.copy(FOLDER))
BALL = {"type": "ball", "cx": 70, "cy": 70, "r": 30}
PICTURE, LABELS = (blobs(220, 220, 5, 40, 8),
                   np.indices((220, 220))[0] // 22 * 10 + np.indices((220, 220))[1] // 22 + 1)


def items(n=2, **more):
    return [workunit.item("p%d" % i, [PICTURE], **more) for i in range(n)]


JOBS = {
    "glcm": ({"levels": [16], "window": {"shape": "disc", "radius": 3}, "distances": [1]}, items()),
    "cellcount": ({}, items()),
    "volume": ({"membrane": 150}, [workunit.item("s", [PICTURE] * 6)]),
    "levelset": ({"target": 170, "epsilon": 80, "iterations": 8, "init": BALL}, items()),
    "voting": ({"radius": 8}, items()),
    "objects": ({}, items(labels=[LABELS.astype(np.uint16)])),
    "glcm, chunks of many launches": ({"levels": [8, 16],
                                       "window": {"shape": "square", "radius": 1}, "distances": [1],
                                        "maps": [{"feature": "asm", "levels": 16,
                                                  "offset": [1, 0]}]},
                                        [workunit.item("p",
                                                       [np.tile(PICTURE, (38, 1))[:8192, :16]])]),
    "glcm, the ROI as window": ({"levels": [8], "window": {"shape": "roi"}, "distances": [1, 2]},
                                items()),
    "levelset, a band": ({"target": 170, "epsilon": 80, "iterations": 30, "init": BALL, "band": 4,
                          "smooth": 2}, items()),
    "cellcount, split by distance": ({"split": "distance", "labels": True}, items()),
    "cellcount, split by intensity": ({"split": "intensity", "h": 0, "threshold": "local",
                                       "background": {"radius": 20}}, items()),
}
# Nanoseconds of a work-item by a false clock, for jobs with another time than 100 ns (10 million
# work-items a second, slower than any GPU): with these one chunk exceeds the limit.
ITEM_NS = {"glcm, chunks of many launches": 2000}
# {analysis whose rests between launches are measured: nanoseconds of a work-item by a false clock,
# with which launches take 2 s in all; 0 if the host works between launches, which is no rest}.
SHARED = {"cellcount": 0, "levelset": 2000}


def unit_of(name):
    path = os.path.join(FOLDER, name + ".zip")
    if not os.path.exists(path):
        workunit.write(path, name.split(",")[0], *JOBS[name])
    return path


def run(name, out, *options, **hooks):
    """The bytes of the result, or stderr if the run fails."""
    out = os.path.join(FOLDER, out)
    r = tap.run([tap.TEXCELL, "run", unit_of(name), "-o", out, "--threads", "1"] + list(options),
                env=dict(os.environ, **POCL, **tap.opencl_hooks(**hooks)))
    if r.returncode != 0:
        return r.stderr
    with open(out, "rb") as f:
        return f.read()


def times_of(path):
    """Two arrays, in milliseconds: when each launch began, and how long it took."""
    with open(path) as f:
        rows = np.array([[int(x) for x in line.split()] for line in f],
                        dtype=np.int64).reshape(-1, 2)
    return (rows[:, 0] - rows[0, 0]) / 1e6, (rows[:, 1] - rows[:, 0]) / 1e6


def short_launches(name, cpu):
    """The time of launches, by a false clock that gives each work-item the same time."""
    path = os.path.join(FOLDER, name + ".launches")
    same = run(name, "g.npz", "--device", "opencl", "--gpu-slice-ms", "10", times=path,
               item_ns=ITEM_NS.get(name, 100)) == cpu
    took = times_of(path)[1]
    tap.ok(same and len(took) > 10, name + ": the same bytes in short launches", len(took))
    late = took[len(took) // 2:]
    # One launch may be too long, as its size follows from the time of the one before.
    tap.ok(np.sum(late > 10) <= max(1, len(late) // 100) and np.max(took) <= 15,
           name + ": no launch exceeds its limit",
           np.sort(took)[-10:])
    # A launch is at most twice as long as the one before, so the first ones are the shortest.
    tap.ok(np.max(took[:8]) <= 5, name + ": first launches are short", took[:20])


def test_share(name, cpu):
    """--gpu-percent 50: the device works half of the time, not more and not less."""
    def half(clock, **hooks):
        path = os.path.join(FOLDER, name + "." + clock)
        same = run(name, "h.npz", "--device", "opencl", "--gpu-percent", "50", times=path,
                   **hooks) == cpu
        return (same, *(x[len(x) // 3:] for x in times_of(path)))     # without the self-test

    same, began, took = half("real")
    # After each launch the device rests as long as it took; rests may lag by a tenth of a second.
    over = np.max([np.sum(took[i:-1]) - 0.5 * (began[-1] - began[i] + 100)
                   for i in range(len(took) - 1)])
    tap.ok(same and over < 10, name + ": the device works at most half of the time",
           "%s, %.1f ms over" % (same, over))
    if SHARED[name]:
        # On a busy machine real launches begin late, so that the device rests longer than it is
        # told to. Launches that are short, but long by the false clock, have time for that.
        same, began, took = half("false", item_ns=SHARED[name])
        busy = np.sum(took[:-1]) / (began[-1] - began[0])
        tap.ok(same and busy > 0.46, name + ": the device works half of the time",
               "%s, busy %.3f" % (same, busy))


def stop_when(begun, name, *options, **hooks):
    """Sends SIGTERM to a run as soon as begun() holds. Returns the exit code, and the seconds from
    then to the exit."""
    command = [tap.TEXCELL, "run", unit_of(name), "-o", os.path.join(FOLDER, "s.npz"), "--device",
               "opencl", "--quiet"]
    p = subprocess.Popen(command + list(options),
                         env=dict(os.environ, **POCL, **tap.opencl_hooks(**hooks)),
                         stderr=subprocess.DEVNULL)
    deadline = time.time() + 120
    while p.poll() is None and time.time() < deadline and not begun():
        time.sleep(0.05)
    start = time.time()
    p.send_signal(signal.SIGTERM)
    return p.wait(60), time.time() - start


def test_stop_at_rest():
    """A rest of several seconds ends when the program is told to stop."""
    path = os.path.join(FOLDER, "s.times")
    code, seconds = stop_when(lambda: os.path.exists(path) and len(open(path).readlines()) > 10,
                              "levelset",
                              "--gpu-percent", "1", times=path, item_ns=200)
    tap.ok(code == 3 and seconds < 2, "SIGTERM ends a rest",
           "exit %d after %.1f s" % (code, seconds))
    same = run("levelset", "s.npz", "--device", "opencl", "--gpu-percent",
               "100") == run("levelset", "c.npz", "--device", "cpu")
    tap.ok(same, "work stopped during a rest can be continued")


def test_stop_at_selftest():
    """The self-test of a device with a driver that takes 40 ms for each call also stops soon."""
    path = os.path.join(FOLDER, "s.count")
    code, seconds = stop_when(lambda: os.path.exists(path) and int(open(path).read().split()[0]) >
                              300, "cellcount",
                              count=path, call_ms=40)
    tap.ok(code == 3 and seconds < 1, "SIGTERM ends a device's self-test",
           "exit %d after %.1f s" % (code, seconds))


def test_kernel_cache():
    """--kernel-cache: compiled kernels are kept in a folder for drivers that keep none themselves;
    a damaged file only costs the time to compile it again."""
    folder = os.path.join(FOLDER, "kernels")
    os.mkdir(folder)
    cpu = run("voting", "c.npz", "--device", "cpu")

    def once(number):
        """A run with an empty cache of the driver. Returns whether the result is right, and {file
        in the folder: (inode, time of the last change of its name)}; texcell renames a file while
        the driver reads it."""
        POCL["POCL_CACHE_DIR"] = os.path.join(FOLDER, "forgets%d" % number)
        os.mkdir(POCL["POCL_CACHE_DIR"])
        same = run("voting", "k.npz", "--device", "opencl", "--kernel-cache", folder, gpu=1) == cpu
        return same, {e.name: (e.inode(), e.stat().st_ctime_ns) for e in os.scandir(folder)}

    same, made = once(0)
    tap.ok(same and len(made) > 1, "--kernel-cache keeps compiled kernels", made)
    same, cache_files = once(1)
    tap.ok(same and all(cache_files.get(name, (0, 0))[0] == made[name][0] and
                        cache_files[name][1] > made[name][1] for name in made),
           "--kernel-cache uses kept kernels", (made, cache_files))
    for i, name in enumerate(made):
        with open(os.path.join(folder, name), "r+b") as f:
            f.seek(-100 * (i + 1), os.SEEK_END)
            f.write(b"damaged")
    same, again = once(2)
    tap.ok(same and sorted(again) == sorted(made) and
           all(b"damaged" not in open(os.path.join(folder, name), "rb").read()
           for name in made), "--kernel-cache: damaged kernels are compiled again",
           (cache_files, again))


def test_read_ahead():
    """The next item's pixels are read by another thread while the device works on the first."""
    if shutil.which("strace") is None or tap.run(["strace", "-qq", "-o", "/dev/null",
                                                  "true"]).returncode != 0:
        tap.skip("items read ahead", "no strace")
        return
    big = [workunit.item("p%d" % i, [np.roll(np.tile(PICTURE, (4, 4)), i * 37)]) for i in range(3)]
    workunit.write(os.path.join(FOLDER, "ahead.zip"), "cellcount", {}, big)
    with zipfile.ZipFile(os.path.join(FOLDER, "ahead.zip")) as z:
        places = {i.header_offset: int(re.search("[0-9]", i.filename).group()) for i in z.infolist()
                  if i.filename.endswith(".png")}
    log, results = os.path.join(FOLDER, "reads"), []
    for device, threads in ("cpu", "1"), ("opencl", "1"), ("opencl", "2"):
        out = os.path.join(FOLDER, "ahead.npz")
        p = tap.run(["strace", "-f", "-qq", "-o", log, "-e", "trace=pread64", tap.TEXCELL, "run",
                     os.path.join(FOLDER, "ahead.zip"), "-o",
                     out, "--device", device, "--threads", threads],
                    env=dict(os.environ, **POCL, **tap.opencl_hooks(gpu=1)))
        readers, main = {}, None
        for line in open(log):
            read = re.match(r"([0-9]+) +pread64\([0-9]+, .*, [0-9]+, ([0-9]+)(\)| <unf)", line)
            main = main or (read and read.group(1))
            earlier = [position for position in places if read and position < int(read.group(2))]
            if earlier:
                readers.setdefault(places[max(earlier)], set()).add(read.group(1))
        beside = sorted(i for i in readers if readers[i] - {main})
        with open(out, "rb") as f:
            results.append(f.read())
        tap.ok(p.returncode == 0 and len(readers) == 3 and
               beside == ([] if device == "cpu" else [0, 1, 2]),
               "items read ahead on %s with %s" % (device, threads), (p.stderr, readers, main))
    tap.ok(results[0] == results[1] == results[2], "the same bytes")


def main():
    if tap.run([tap.TEXCELL, "selftest", "--device", "opencl"],
               env=dict(os.environ, **POCL)).returncode != 0:
        tap.skip("launches on a device", "no OpenCL device here")
        tap.done()
    for name in JOBS:
        cpu = run(name, "c.npz", "--device", "cpu")
        short_launches(name, cpu)
        if name in SHARED:
            test_share(name, cpu)
    test_read_ahead()
    test_stop_at_rest()
    test_stop_at_selftest()
    test_kernel_cache()
    tap.done()


main()
