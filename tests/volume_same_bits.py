"""Tests that a work unit of volume gives the same bytes on the CPU with 1, 2, 3 and 7 threads, on
an OpenCL device, on a device too small for the stack, and when it is stopped on one device and
continued on another. A device's values are also compared with the oracle's."""
import os

import numpy as np
from scipy import ndimage

import compiled
import same_bits
import tap
from oracle import volume_check, workunit
from oracle.workunit import item

FOLDER = tap.scratch()
os.environ["POCL_CACHE_DIR"] = compiled.copy(FOLDER, "volume")


def grey(membrane, kind=np.uint8):
    noise = (np.arange(membrane.size).reshape(membrane.shape) * 7919) % 100
    return (np.where(membrane, 128 + noise, noise) * (257 if kind == np.uint16 else 1)).astype(kind)


def foam(shape, seed, kind=np.uint8):
    rng = np.random.default_rng(seed)
    blurred = ndimage.gaussian_filter(rng.random(shape), 4)
    return grey(np.abs(blurred - blurred.mean()) < 0.5 * blurred.std(), kind)


def balls(n, count):
    z, y, x = ((np.arange(n * c) % n - n // 2) ** 2 for c in count)
    d = np.sqrt(z[:, None, None] + y[:, None] + x)
    return grey((d >= n * 0.36) & (d < n * 0.36 + 1.8))


def stacks():
    rng = np.random.default_rng(3)
    return [item("foam", list(foam((45, 90, 131), 1))), item("balls", list(balls(32, (2, 3, 4)))),
            item("noise", list(grey(rng.random((20, 70, 65)) < 0.5))),
            item("sparse", list(grey(rng.random((33, 70, 65)) < 0.1))),
            item("walls",
                 list(grey(np.pad(np.zeros((30, 46, 94), bool), 1, constant_values=True)))),
            item("row", list(grey(rng.random((1, 1, 65)) < 0.5)), stack=True),
            item("column", list(grey(rng.random((40, 1, 1)) < 0.5))),
            item("none", list(grey(np.zeros((9, 33, 40), bool)))),
            item("all", list(grey(np.ones((9, 33, 40), bool))))]


def deep():
    return [item("deep", list(foam((30, 50, 70), 4, np.uint16)), spacing=[0.3, 0.1, 0.1])]


JOBS = {
    "3d": ({"membrane": 128, "labels": True}, stacks),
    "slices": ({"membrane": 128, "mode": "slices", "labels": True}, stacks),
    "filtered": ({"membrane": 128, "mode": "slices", "min_voxels": 7, "exclude_border": True,
                  "labels": True}, stacks),
    "repaired": ({"membrane": 128, "repair": {"sigma": 1.2, "threshold": 90}, "max_voxels": 9000,
                  "labels": True}, stacks),
    "repaired slices": ({"membrane": 128, "mode": "slices",
                         "repair": {"sigma": 1, "threshold": 120}, "labels": True},
                        stacks),
    "watershed": ({"method": "watershed", "smooth": 0.5, "h": 6.5, "min_voxels": 3, "labels": True},
                  stacks),
    "watershed slices": ({"method": "watershed", "mode": "slices", "connectivity": 26, "h": 20,
                          "fill": True, "labels": True},
                         lambda: stacks()[2:]),
    "watershed, 16 bits": ({"method": "watershed", "smooth": 1, "h": 300, "labels": True}, deep),
    "16 bits": ({"membrane": 128 * 257, "min_voxels": 3, "labels": True}, deep),
    # Without labels the device computes the table of cells, if the stack fits its memory.
    "table": ({"membrane": 128}, stacks),
    "table of what is kept": ({"membrane": 128, "mode": "slices", "min_voxels": 7,
                               "max_voxels": 900,
                               "exclude_border": True}, stacks),
    "table of a watershed": ({"method": "watershed", "smooth": 0.5, "h": 6.5,
                              "exclude_border": True}, stacks),
    "table, 16 bits": ({"membrane": "otsu", "smooth": 1}, deep),
}


def test_turns(device):
    """The state has the same bits when CPU and device take turns every few steps, and the result
    has the same bytes when the program is stopped repeatedly."""
    program = os.path.join(tap.BUILD, "tests", "unit", "state_of")
    big = foam((96, 220, 220), 8)
    parameters = {"membrane": 128, "repair": {"sigma": 1.5, "threshold": 100}, "min_voxels": 4,
                  "labels": True}
    unit = workunit.write(os.path.join(FOLDER, "big.zip"), "volume", parameters,
                          [item("a", list(big)), item("b", list(big[::-1]))])
    devices = "cpu,opencl" if device else "cpu"
    states = []
    for where, steps in (("cpu", []), (devices, ["1000"])):
        out = os.path.join(FOLDER, "state")
        run = tap.run([program, unit, "0", where, "2", out] + steps)
        with open(out, "rb") as f:
            states.append(f.read() if run.returncode == 0 else run.stderr)
    tap.ok(states[0] == states[1] and len(states[0]) > big.size * 4,
           "the state is the same on %s" % devices)
    same_bits.crossing(FOLDER, unit, device, 0.25, 0.15)


def test_oracle(device):
    if not device:
        return tap.skip("the oracle agrees with the device", "no OpenCL device")
    for name, (parameters, items) in JOBS.items():
        if parameters.get("method") == "watershed":
            continue                       # volume_watershed.py tests the watershed
        small = [it for it in items()
                 if it["name"] not in ("noise", "foam")] if "repair" in parameters else items()
        volume_check.check("the oracle agrees with the device: " + name, parameters, small, 2,
                           "opencl")


device = same_bits.has_device()
# The foam has 530,000 voxels. Device memory: all; for two slabs; for many; for slabs of fewer
# slices than a tile.
same_bits.everywhere(FOLDER, "volume",
                     ((name, parameters, items()) for name, (parameters, items) in JOBS.items()),
                     device,
                     (None, 2000000, 700000, 200000))
test_oracle(device)
test_turns(device)
tap.done()
