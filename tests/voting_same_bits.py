"""Tests that voting gives the same bytes with every number of threads, on OpenCL with launches of
any size, and if the device changes during the work."""
import os
import signal
import subprocess
import time

import numpy as np

import compiled
import tap
from oracle.workunit import item, write

FOLDER = tap.scratch()
ENV = dict(os.environ, POCL_CACHE_DIR=compiled.copy(FOLDER, "voting"),
           LSAN_OPTIONS="print_suppressions=0:suppressions=" +
           os.path.join(tap.SRC, "tests", "pocl.supp"))
TRY = os.path.join(tap.BUILD, "tests", "unit", "backend_try")
RNG = np.random.default_rng(11)


def path(name):
    return os.path.join(FOLDER, name)


def blobs(shape, radius, count, dtype=np.uint8):
    grid = np.indices(shape)
    image = np.full(shape, 50.0)
    for _ in range(count):
        c = [RNG.uniform(0, n) for n in shape]
        near = tuple(slice(max(0, int(v - radius) - 1), int(v + radius) + 2) for v in c)
        d = np.sqrt(sum((grid[(a, *near)] - c[a]) ** 2 for a in range(len(shape))))
        image[near] = np.maximum(image[near],
                                 50 + RNG.uniform(60, 150) * np.clip(radius + 0.5 - d, 0, 1))
    image = np.clip(image + RNG.normal(0, 5, shape), 0, 255)
    return np.round(image * (257 if dtype == np.uint16 else 1)).astype(dtype)


def jobs():
    wide = blobs((40, 1200), 6, 60)
    yield "pictures", {"radius": 6}, [item("a", [blobs((90, 110), 6, 25)]), item("b", [wide]),
                                      item("c", [blobs((200, 33), 6, 20, np.uint16)])]
    yield "dark, half plane, no floor", {"radius": 4.5, "polarity": "dark", "cone": 90, "floor": 0,
                                         "weight": "gradient", "sigma": 0.7}, \
        [item("a", [blobs((70, 80), 5, 12)])]
    yield "on the foreground", {"radius": 3, "floor": 0, "threshold": 0, "foreground": "otsu"}, \
        [item("a", [blobs((90, 110), 6, 25)]), item("b", [blobs((60, 200), 6, 20, np.uint16)])]
    yield "left to the picture", {"radius": 15, "own_radius": True, "polarity": "auto",
                                  "foreground": "otsu", "classes": 3}, \
        [item("a", [blobs((90, 110), 6, 25)]), item("b", [255 - blobs((160, 200), 8, 20)]),
         item("c", [blobs((20, 30), 3, 1, np.uint16)])]
    yield "a large radius", {"radius": 90, "cone": 22.5}, [item("a", [blobs((120, 130), 30, 3)])]
    yield "a stack", {"radius": 4, "sigma": 1}, [item("a", list(blobs((17, 30, 35), 4, 9)))]
    yield "an anisotropic stack of 16 bits", {"radius": 1.1, "refine": False, "sigma": 1.5}, \
        [item("a", list(blobs((14, 40, 40), 4, 9, np.uint16)), spacing=[0.6, 0.25, 0.2])]
    yield "thin", {"radius": 3, "floor": 0}, [item("row", [wide[:1]]),
                                              item("column", [wide[:, :1]]),
                                             item("dot", [wide[:1, :1]])]


def bytes_of(unit, device, *options):
    result = path("r.npz")
    if os.path.exists(result):
        os.remove(result)
    r = tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", device, "--quiet"]
                + list(options), env=ENV)
    if r.returncode != 0 or "driver failed" in r.stderr:
        tap.note("exit %d: %s" % (r.returncode, r.stderr))
        return None
    with open(result, "rb") as file:
        return file.read()


def test_same_bits():
    for name, parameters, items in jobs():
        unit = write(path("unit.zip"), "voting", parameters, items)
        first = bytes_of(unit, "cpu", "--threads", "1")
        same = [bytes_of(unit, "cpu", "--threads", str(n), "--checkpoint-every", "0.01") == first
                for n in (1, 2, 3, 7)]
        tap.ok(first is not None and all(same),
               "%s: 1, 2, 3 and 7 threads give the same bytes" % name, same)
        same = [bytes_of(unit, "opencl", "--gpu-slice-ms", ms) == first
                for ms in ("0.2", "3", "50", "5000")]
        tap.ok(first is not None and all(same),
               "%s: OpenCL gives the CPU's bytes with launches of any size" % name, same)


def test_change_of_device():
    """Started on one device, killed, continued on another."""
    unit, mixed = path("long.zip"), path("mixed.npz")
    write(unit, "voting", {"radius": 9}, [item("a", [blobs((1400, 1400), 9, 1000)])])
    whole = bytes_of(unit, "cpu", "--threads", "1")
    devices = {"cpu": ("cpu", ENV), "opencl": ("opencl", ENV),
               "slabs": ("opencl", dict(ENV, **tap.opencl_hooks(memory=3000000)))}
    for first, second in (("opencl", "cpu"), ("cpu", "opencl"), ("opencl", "slabs"),
                          ("slabs", "cpu")):
        if os.path.exists(mixed):
            os.remove(mixed)
        device, env = devices[first]
        process = subprocess.Popen([tap.TEXCELL, "run", unit, "-o", mixed, "--device", device,
                                    "--quiet", "--threads",
                                    "1", "--gpu-slice-ms", "3", "--checkpoint-every", "0.01"],
                                   env=env)
        waited = time.monotonic()
        while not os.path.exists(mixed + ".checkpoint") and process.poll() is None and \
                time.monotonic() < waited + 60:
            time.sleep(0.002)
        time.sleep(0.05)
        early = process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        device, env = devices[second]
        r = tap.run([tap.TEXCELL, "run", unit, "-o", mixed, "--device", device, "--threads", "2"],
                    env=env)
        with open(mixed, "rb") as file:
            tap.ok(r.returncode == 0 and file.read() == whole,
                   "begun on %s and finished on %s: the same bytes" % (first, second), r.stderr)
        tap.ok(early and "going on from the checkpoint" in r.stderr,
               "the second run continued from a checkpoint",
               r.stderr)


def run_and_count(command, **hooks):
    """Runs a command. Returns the run, the number of its OpenCL calls that can fail, and the number
    of objects not released."""
    count = path("count")
    r = tap.run(command, env=dict(ENV, **tap.opencl_hooks(count=count, **hooks)))
    with open(count) as file:
        calls, objects = (int(n) for n in file.read().split())
    return r, calls, objects


def test_failing_calls():
    """A call that fails gives an error and leaves no OpenCL object; every seventh call is tried.
    While devices are being listed another device may be used instead. For the whole item on the
    device, and in slabs. The last call, a wait while the device is closed, is left out: its failure
    has no consequence."""
    for name, memory in (("whole", {}), ("in slabs", {"memory": 230000})):
        args = [TRY, "voting", '{"radius":3,"sigma":1}', "40", "300", "1", "8", "0"]
        whole, calls, objects = run_and_count(args, **memory)
        if whole.returncode != 0:
            tap.ok("no OpenCL" in whole.stderr,
                   "the backends agree, or there is no OpenCL", whole.stderr)
            return
        listing = run_and_count([tap.TEXCELL, "devices"])[1]
        wrong = []
        for n in range(3, calls, 7):
            r, made, objects = run_and_count(args, fail=n, **memory)
            if made < n:
                continue  # fewer calls: the length of launches depends on the time
            fails = r.returncode == 2 and "CL_" in r.stderr
            if objects != 0 or not (fails or (n <= listing and r.stdout == whole.stdout)):
                wrong.append("call %d: exit %d, %d left, %s" % (n, r.returncode, objects, r.stderr))
        tap.ok(calls > listing + 50 and not wrong,
               "%s: failing calls are device errors and leave nothing" % name,
               "\n".join(wrong[:5]))


def test_slabs():
    """Devices with too little memory for the item, but enough for the self-test: the same bytes by
    more calls, in slabs, without falling back to the CPU."""
    flat, deep = blobs((800, 400), 6, 300), blobs((40, 33, 50), 4, 40, np.uint16)
    for name, parameters, one, sizes in (
            ("a picture", {"radius": 6}, item("a", [flat]), (4000000, 2900000, 1800000, 1600000)),
            ("a stack", {"radius": 4, "sigma": 1}, item("a", list(deep)),
             (2120000, 2040000, 1940000, 1840000))):
        unit, whole = write(path("unit.zip"), "voting", parameters, [one]), None
        expected = bytes_of(unit, "cpu")
        for size in (1 << 30,) + sizes:
            r, calls, _ = run_and_count([tap.TEXCELL, "run", unit, "-o", path("r.npz"), "--device",
                                         "opencl",
                                         "--gpu-slice-ms", "5000"], memory=size)
            if r.returncode != 0:
                tap.ok("no OpenCL" in r.stderr,
                       "%s: a device computes it, or there is no OpenCL" % name, r.stderr)
                return
            with open(path("r.npz"), "rb") as file:
                same = file.read() == expected
            # The self-test's launches depend on the time, so only many more calls show slabs.
            many = size != sizes[-1] or calls > whole + 100
            tap.ok(same and many and "CPU:" not in r.stderr,
                   "%s, %d bytes of device memory: the same bytes" % (name, size),
                   "%d calls, %s with all memory\n%s" % (calls, whole, r.stderr))
            whole = whole or calls


test_same_bits()
test_change_of_device()
test_slabs()
test_failing_calls()
tap.done()
