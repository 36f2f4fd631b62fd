"""The same work unit gives the same bytes: on the CPU with 1, 2, 3 and 7
threads, on an OpenCL device (PoCL will do), on a device too small for the
picture, and when it is killed on one and goes on with the other. On the device
the answers are those of the oracle too."""
import os
import re
import shutil

import numpy as np
from scipy import ndimage

import compiled
import tap
from oracle import cellcount_check, workunit
from oracle.workunit import item
from stopping import stopped_often

FOLDER = tap.scratch()
os.environ["POCL_CACHE_DIR"] = compiled.copy(FOLDER, "cellcount")


def dark(mask):
    noise = (np.arange(mask.size).reshape(mask.shape) * 7919) % 100
    return np.where(mask, noise, 150 + noise).astype(np.uint8)


def pictures():
    rng = np.random.default_rng(3)
    y, x = np.indices((300, 517))
    deep = (ndimage.gaussian_filter(rng.random((150, 130)), 2) * 65535).astype(np.uint16)
    return [item("noise", [dark(rng.random((301, 517)) < 0.55)]),
            item("blobs", [dark(ndimage.gaussian_filter(rng.random((600, 1333)), 6) > 0.5)]),
            item("chess", [dark((y + x) % 2 == 0)]),
            item("rings", [dark(np.maximum(abs(y - 150), abs(x - 250)) % 2 == 0)]),
            item("all", [dark(np.ones((70, 70), bool))]), item("none", [dark(np.zeros((70, 33), bool))]),
            item("dot", [dark(np.ones((1, 1), bool))]), item("column", [dark(rng.random((33, 1)) < 0.5)]),
            item("row", [dark(rng.random((1, 65)) < 0.5)]), item("deep", [deep])]


JOBS = {
    "components": {"threshold": "otsu", "labels": True},
    "4-connected, filled": {"threshold": 125, "connectivity": 4, "fill_holes": True, "labels": True},
    "filled, filtered": {"threshold": 125, "fill_holes": True, "min_area": 10, "exclude_border": True,
                         "labels": True},
    "4-connected, filtered": {"threshold": 125, "connectivity": 4, "max_area": 40, "labels": True},
    "split": {"threshold": "otsu", "fill_holes": True, "split": "distance", "labels": True},
    "4-connected, split, filtered": {"threshold": 125, "connectivity": 4, "split": "distance", "min_area": 10,
                                     "labels": True},
    "opening, local": {"smooth": 1.5, "background": {"radius": 8, "by": "ratio"}, "threshold": "local", "window": 31,
                       "labels": True},
    "mean, split": {"background": {"method": "mean", "radius": 40}, "threshold": 100, "split": "distance", "fill_holes": True},
    "lines": {"background": {"method": "lines", "radius": 40, "by": "ratio"}, "min_area": 3, "labels": True},
    "opening, split by intensity": {"background": {"radius": 7}, "polarity": "bright", "split": "intensity", "labels": True},
}


def bytes_of(unit, device, threads, memory=None):
    result = os.path.join(FOLDER, "r.npz")
    if os.path.exists(result):
        os.remove(result)
    env = dict(os.environ)
    if memory:
        env.update(tap.opencl_hooks(memory=memory))
    run = tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", device, "--threads", str(threads),
                   "--checkpoint-every", "0.05", "--quiet"], env=env)
    if run.returncode != 0:
        tap.note("exit %d: %s" % (run.returncode, run.stderr))
        return None
    with open(result, "rb") as f:
        return f.read()


def has_device():
    return "usable" in re.sub("not usable", "", tap.run([tap.TEXCELL, "devices"]).stdout)


def everywhere(device):
    for name, parameters in JOBS.items():
        unit = workunit.write(os.path.join(FOLDER, "u.zip"), "cellcount", parameters, pictures())
        first = bytes_of(unit, "cpu", 1)
        for threads in (2, 3, 7):
            tap.ok(first is not None and bytes_of(unit, "cpu", threads) == first,
                   "%s: %d threads give the bytes of one" % (name, threads))
        # 3 MB: room for a picture, but not for a table of all squares of the chessboard.
        for memory in (None, 3000000, 1700000):
            title = "%s: OpenCL%s gives the same bytes" % (name, " with %d bytes" % memory if memory else "")
            if device:
                tap.ok(first is not None and bytes_of(unit, "opencl", 2, memory) == first, title)
            else:
                tap.skip(title, "no OpenCL device")


def crossing(device):
    """Killed again and again, each time on the other backend."""
    rng = np.random.default_rng(8)
    big = dark(ndimage.uniform_filter(rng.random((1900, 2300)), 9) > 0.5)
    unit = workunit.write(os.path.join(FOLDER, "big.zip"), "cellcount",
                          {"threshold": 125, "fill_holes": True, "split": "distance", "labels": True},
                          [item("a", [big]), item("b", [big[::-1]]), item("c", [big[:, ::-1]])])
    first = bytes_of(unit, "cpu", 2)
    again, kills = stopped_often(FOLDER, unit, device, 0.6, 0.3)
    tap.ok(first is not None and again == first and kills > 0,
           "stopped %d times, %s, it gives the same bytes" % (kills, "on both backends in turn" if device else "on the CPU"))


def oracle(device):
    if not device:
        return tap.skip("the oracle agrees with the device", "no OpenCL device")
    for name, parameters in JOBS.items():
        small = [it for it in pictures() if it["slices"][0].size < 200000]
        if parameters.get("split") == "distance":
            small = [it for it in small if it["slices"][0].size < 30000]
        cellcount_check.check("the oracle agrees with the device: " + name, parameters, small, 2, "opencl")


def oclgrind():
    """The kernels interpreted: no two work-items race, nothing uninitialized is
    used, no index is out of range."""
    title = "Oclgrind: "
    program = os.path.join(tap.BUILD, "tests", "unit", "backend_try")
    if shutil.which("oclgrind") is None or not os.path.exists(program):
        return tap.skip(title + "the kernels", "oclgrind or backend_try is not here")
    for parameters in ('{"threshold":"otsu","polarity":"bright"}',
                       '{"threshold":30000,"polarity":"bright","fill_holes":true,"connectivity":4,"min_area":2}',
                       '{"threshold":"otsu","polarity":"bright","fill_holes":true,"split":"distance"}',
                       '{"smooth":0.5,"background":{"radius":3},"threshold":"local","window":9}',
                       '{"background":{"radius":9,"method":"mean","by":"ratio"},"split":"intensity"}'):
        for bits in ("8", "16"):
            run = tap.run(["oclgrind", "--data-races", "--uninitialized", "--check-api", program, "cellcount",
                           parameters.replace("30000", "120") if bits == "8" else parameters,
                           "41", "37", "1", bits, "0"])
            lines = [l for l in (run.stdout + run.stderr).splitlines() if l.strip()]
            tap.ok(run.returncode == 0 and len(lines) == 1, title + "%s bits, %s" % (bits, parameters),
                   "exit %d\n%s" % (run.returncode, "\n".join(lines[:20])))


device = has_device()
everywhere(device)
oracle(device)
oclgrind()
crossing(device)
tap.done()
