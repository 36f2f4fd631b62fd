"""Tests that glcm on OpenCL gives the same bytes as on the CPU: for jobs of every kind, if the
device changes during the work, and if an OpenCL call fails."""
import os
import signal
import subprocess
import time

import numpy as np

import compiled
import tap
from oracle import glcm_cases
from oracle import workunit

FOLDER = tap.scratch()
ENV = dict(os.environ, POCL_CACHE_DIR=compiled.copy(FOLDER),
           LSAN_OPTIONS="print_suppressions=0:suppressions=" +
           os.path.join(tap.SRC, "tests", "pocl.supp"))
COUNT = os.path.join(FOLDER, "count")
RANDOM_JOBS = int(os.environ.get("TEXCELL_OPENCL_JOBS", "12"))
SEED = int(os.environ.get("TEXCELL_SEED", "20261121"))


def path(name):
    return os.path.join(FOLDER, name)


def texcell(unit, result, device, *options, env=ENV, quiet=True):
    if os.path.exists(result):
        os.remove(result)
    argv = [tap.TEXCELL, "run", unit, "-o", result, "--device", device, "--threads", "2"]
    return tap.run(argv + list(options) + (["--quiet"] if quiet else []), env=env)


def content(name):
    with open(name, "rb") as file:
        return file.read()


def messages_of(r):
    return "exit %d\n%s%s" % (r.returncode, r.stdout, r.stderr)


def picture(height, width, seed, dtype=np.uint8):
    """A smooth picture with noise, in which all differences of neighbours occur."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    top = np.iinfo(dtype).max
    values = 0.5 + 0.3 * np.sin(x / 5.0) * np.cos(y / 7.0) + 0.2 * (rng.random((height, width)) -
                                                                    0.5)
    return np.clip(values * top, 0, top).astype(dtype)


def jobs():
    """A job for each case that the kernels treat separately."""
    grey, deep = picture(60, 75, 1), picture(45, 50, 2, np.uint16)
    flat = np.full((40, 40), 7, np.uint8)
    stack = [picture(40, 44, k) for k in range(3)]
    mask = [np.random.default_rng(k).random((40, 44)) < 0.4 for k in range(3)]
    hcc = {"preset": "hcc", "distances": [1, 7, 25], "roi": {"type": "disc", "r": 12}}
    yield "hcc, a small disc", hcc, [workunit.item("a", [picture(140, 150, 3)])]
    yield "borders, maps, offsets", {
        "levels": [16, 64], "distances": [1, 5], "directions": "four", "per_offset": True,
        "window": {"shape": "square", "radius": 9},
        "maps": [{"feature": f, "levels": 64, "offset": o} for f in ("imc2", "entropy")
                 for o in ([1, 0], [0, 5])],
    }, [workunit.item("a", [grey]), workunit.item("b", [flat])]
    yield "16 bit, histograms too large for local memory", {
        "levels": [255, 256], "distances": [3], "range": "image",
        "window": {"shape": "disc", "radius": 6},
    }, [workunit.item("a", [deep])]
    yield "a stack with masks", {
        "levels": [9], "distances": [1, 2], "roi": {"type": "mask"},
        "window": {"shape": "disc", "radius": 4},
        "maps": [{"feature": "asm", "levels": 9, "offset": [0, 1]}],
    }, [workunit.item("s", stack, mask)]
    yield "whole ROI", {
        "levels": [2, 64, 256], "distances": [1, 4], "window": {"shape": "roi"},
        "roi": {"type": "disc", "r": 17},
    }, [workunit.item("a", [grey]), workunit.item("s", stack)]
    yield "the largest window", {
        "levels": [64], "distances": [40], "directions": "four",
        "window": {"shape": "square", "radius": 63},
        "roi": {"type": "disc", "r": 5},
    }, [workunit.item("a", [picture(150, 140, 5)]),
        workunit.item("grey", [np.full((150, 140), 9, np.uint8)])]
    yield "no pair fits", {"levels": [8], "distances": [30],
                           "window": {"shape": "disc", "radius": 3}}, \
        [workunit.item("a", [grey])]
    yield "rows of many segments", {"levels": [32], "distances": [2], "directions": "four",
                                    "window": {"shape": "disc", "radius": 3}}, \
        [workunit.item("a", [picture(7, 700, 6)])]


def test_same_bits():
    for name, parameters, items in jobs():
        unit = path("unit.zip")
        workunit.write(unit, "glcm", parameters, items)
        compare(name, unit)
    rng = np.random.default_rng(SEED)
    for i in range(RANDOM_JOBS):
        parameters, items = glcm_cases.random_job(rng)
        unit = path("unit.zip")
        workunit.write(unit, "glcm", parameters, items)
        compare("random job %d of seed %d" % (i, SEED), unit)


def compare(name, unit):
    cpu, device = path("cpu.npz"), path("device.npz")
    a = texcell(unit, cpu, "cpu")
    b = texcell(unit, device, "opencl")
    same = a.returncode == b.returncode == 0 and content(cpu) == content(device) and b.stderr == ""
    tap.ok(same, "same bytes: " + name, messages_of(a) + messages_of(b))


def test_change_of_device():
    """Started on one device, killed, continued on another."""
    unit, cpu, mixed = path("long.zip"), path("cpu.npz"), path("mixed.npz")
    parameters = {"levels": [16, 64], "distances": list(range(1, 11)),
                  "roi": {"type": "disc", "r": 50},
                  "maps": [{"feature": "contrast", "levels": 64, "offset": [2, 0]},
                           {"feature": "imc1", "levels": 16, "offset": [0, 5]}]}
    workunit.write(unit, "glcm", parameters, [workunit.item("a", [picture(130, 120, 9)])])
    texcell(unit, cpu, "cpu")
    for first, second in (("opencl", "cpu"), ("cpu", "opencl"), ("opencl", "opencl")):
        if os.path.exists(mixed):
            os.remove(mixed)
        process = subprocess.Popen([tap.TEXCELL, "run", unit, "-o", mixed, "--device", first,
                                    "--quiet",
                                    "--threads", "1", "--gpu-slice-ms", "20", "--checkpoint-every",
                                    "0.01"], env=ENV)
        waited = time.monotonic()
        while not os.path.exists(mixed + ".checkpoint") and process.poll() is None and \
                time.monotonic() < waited + 60:
            time.sleep(0.005)
        early = process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        r = texcell(unit, mixed, second, quiet=False)
        ok = r.returncode == 0 and content(mixed) == content(cpu)
        tap.ok(ok,
               "begun on %s, killed and finished on %s: the same bytes"
               % (first, second), messages_of(r))
        tap.ok(early and "going on from the checkpoint" in r.stderr,
               "the second run continued from a checkpoint",
               messages_of(r))


def test_faults():
    """Every OpenCL call fails in turn: the run ends with the right result on the CPU or, if it
    fails before there is a device, with an error and no result."""
    unit, good, out = path("small.zip"), path("good.npz"), path("out.npz")
    parameters = {"levels": [8, 16], "distances": [1, 2], "window": {"shape": "disc", "radius": 3},
                  "maps": [{"feature": "asm", "levels": 8, "offset": [1, 0]}]}
    workunit.write(unit, "glcm", parameters, [workunit.item("a", [picture(30, 30, 4)]),
                                              workunit.item("b", [picture(20, 25, 5)])])
    texcell(unit, good, "cpu")
    r = texcell(unit, out, "opencl", env=dict(ENV, **tap.opencl_hooks(count=COUNT)))
    calls, objects = (int(n) for n in content(COUNT).split())
    tap.ok(r.returncode == 0 and objects == 0 and calls > 100,
           "an undisturbed run leaves no OpenCL object", messages_of(r))
    bad, fell_back, refused = [], 0, 0
    step = max(1, calls // int(os.environ.get("TEXCELL_OPENCL_FAULTS", "30")))
    for spec in [str(k) for k in range(1, calls + 1,
                                       step)] + ["%d+" % k for k in range(1, calls + 1, 7 * step)]:
        env = dict(ENV, **tap.opencl_hooks(fail=spec, count=COUNT))
        r = texcell(unit, out, "opencl", env=env)
        objects = int(content(COUNT).split()[1])
        # One object is left if the call that releases it fails.
        held = objects == 0 or spec.endswith("+") or objects == 1
        if r.returncode == 0 and content(out) == content(good) and held:
            fell_back += "going on with the CPU" in r.stderr
        elif r.returncode == 3 and "texcell: error: " in r.stderr and not os.path.exists(
                out) and held:
            refused += 1
            for leftover in (out + ".spool", out + ".checkpoint"):
                if os.path.exists(leftover):
                    os.remove(leftover)
        else:
            bad.append("call %s, %d left: %s" % (spec, objects, messages_of(r)))
    tap.note("%d calls; %d runs fell back to the CPU, %d were refused with a message" %
             (calls, fell_back, refused))
    tap.ok(not bad,
           "every OpenCL call fails in turn: the result is right, or there is an error",
           "\n".join(bad[:5]))
    tap.ok(fell_back > 0 and refused > 0, "some runs fell back to the CPU, and some were refused")


def main():
    r = tap.run([tap.TEXCELL, "selftest", "--device", "opencl"], env=ENV)
    if "no OpenCL" in r.stderr or "no driver" in r.stderr or "there is no" in r.stderr:
        tap.skip("glcm on OpenCL", "no OpenCL device here: " + r.stderr.strip())
    else:
        tap.ok(r.returncode == 0 and r.stdout.count(" is right") >= 2, "the self-test passes",
               messages_of(r))
        test_same_bits()
        test_change_of_device()
        test_faults()
    tap.done()


if __name__ == "__main__":
    main()
