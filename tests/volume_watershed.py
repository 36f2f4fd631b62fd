"""Tests volume's watershed against its definition in Python (oracle/watershed_oracle.py): 30 stacks
with plateaus, noise, a single value, 16 bits, with all parameters, are equal in every voxel. Also
tests input that must be refused."""
import os
import sys

import numpy as np
from scipy import ndimage

import tap
from oracle import workunit
from oracle.volume_check import check, folder, texcell
from oracle.workunit import item

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cpu"


def stacks(rng, n):
    """Noise, smoothed and in few grey levels, of many shapes; and stacks that consist of
    plateaus."""
    for k in range(n):
        shape = tuple(int(v) for v in rng.integers(1, (14, 24, 40)))
        noise = rng.random(shape)
        if k % 3:
            noise = ndimage.gaussian_filter(noise, 1 + k % 3)
        noise -= noise.min()
        noise /= noise.max() or 1
        levels = (255, 7, 3, 1)[k % 4]                       # few levels: plateaus
        yield np.round(noise * levels).astype(np.uint8) * np.uint8(255 // levels)
    yield np.full((6, 9, 11), 77, np.uint8)
    z, y, x = np.indices((9, 20, 33))
    yield ((x // 8 + y // 6 + z // 4) % 3 * 90).astype(np.uint8)      # chequered plateaus
    yield np.where(x + y > 20, 40, 90).astype(np.uint8)               # a step
    walk = np.full((3, 21, 31), 200, np.uint8)                  # a winding path through a plateau
    walk[1, 1::2, 1:-1] = 50
    walk[1, 2:-1:4, -2] = walk[1, 4:-1:4, 1] = 50
    walk[1, 1, 1] = 10
    yield walk
    yield np.maximum(abs(x - 8), abs(y - 9)).astype(np.uint8) * np.uint8(5)


def test_stacks(n):
    rng = np.random.default_rng(17)
    items = [item("s%02d" % k, list(s), stack=True, spacing=[0.5, 0.25, 0.25])
             for k, s in enumerate(stacks(rng, n))]
    deep = [item("d%02d" % k, list((s * np.uint16(257)) ^ np.uint16(k % 2)), stack=True)
            for k, s in enumerate(stacks(rng, 6))]
    for mode, connectivity in (("3d", 6), ("3d", 26), ("slices", 6), ("slices", 26)):
        base = {"method": "watershed", "mode": mode, "connectivity": connectivity, "labels": True}
        check("%d stacks, %s, %d neighbours" % (len(items), mode, connectivity),
              dict(base, h=20.5, fill=True), items, 3,
              DEVICE)
        check("smoothed, %s, %d neighbours" % (mode, connectivity), dict(base, smooth=1.2, h=1.5),
              items[::4], 2, DEVICE)
        check("16 bits, %s, %d neighbours" % (mode, connectivity),
              dict(base, smooth=0.7, h=300, fill=True), deep, 2,
              DEVICE)
    base = {"method": "watershed", "labels": True}
    for more in ({"h": 0, "fill": True}, {"h": 65535}, {"membrane": 100, "min_voxels": 9},
                 {"fill": True, "exclude_border": True}, {"max_voxels": 40, "mode": "slices"}):
        check("parameters %s" % more, dict(base, **more), items[::3], 2, DEVICE)


def test_thresholds():
    """The other method, a threshold, with `smooth` and Otsu's threshold."""
    rng = np.random.default_rng(3)
    foam = np.abs(ndimage.gaussian_filter(rng.random((14, 40, 50)), 3) - 0.5) < 0.012
    stack = np.where(foam, 180,
                     60).astype(np.uint8) + (rng.random(foam.shape) * 50).astype(np.uint8)
    items = [item("a", list(stack), stack=True), item("b", list(stack[::-1]), stack=True)]
    for mode in ("3d", "slices"):
        for more in ({}, {"membrane": 130, "smooth": 0.8}, {"smooth": 1.5},
                     {"repair": {"sigma": 1, "threshold": 80}}):
            check("threshold, %s, %s" % (mode, more), dict(more, mode=mode, labels=True), items, 2,
                  DEVICE)


def test_many_slices():
    """A stack with many slices, which is smoothed in several parts."""
    stack = np.round(np.random.default_rng(4).random((4100, 1, 70)) * 3).astype(
        np.uint8) * np.uint8(60)
    check("a stack with many slices", {"membrane": 90, "smooth": 2, "labels": True},
          [item("h", list(stack))],
          2, DEVICE)


def test_chain_of_maxima():
    """Maxima that increase while the saddles between them decrease: each can join its hill only
    after the previous one. That takes 445 rounds, more than a device makes before the work
    continues on the CPU."""
    stack = np.full((1, 3, 1401), 65535, np.uint16)
    k = np.arange(700)
    stack[0, 1, 1:1400:2] = 59000 - 10 * k
    stack[0, 1, 2:1401:2] = 59100 + k
    check("maxima that join one after the other",
          {"method": "watershed", "h": 5000, "fill": True, "labels": True},
          [item("c", list(stack), stack=True)], 2, DEVICE)


def test_refusals():
    stack = [np.arange(64, dtype=np.uint8).reshape(8, 8)] * 2
    for name, parameters, words in (
            ("a repair", {"method": "watershed", "repair": {}},
             "parameters.repair: is for method threshold"),
            ("a repair of what is smoothed", {"repair": {}, "smooth": 1},
             "parameters.repair: does not go with smooth"),
            ("fill without a watershed", {"fill": True},
             "parameters.fill: is for method watershed"),
            ("connectivity without one", {"connectivity": 26},
             "parameters.connectivity: is for method watershed"),
            ("a sigma too small", {"smooth": 0.2}, "parameters.smooth: must be 0 or at least 0.3"),
            ("another method", {"method": "flood"}, "parameters.method")):
        unit = workunit.write(os.path.join(folder(), "bad.zip"), "volume", parameters,
                              [item("p", stack)])
        ended = texcell(unit, os.path.join(folder(), "bad.npz"))
        tap.ok(ended.returncode == 2 and words in ended.stderr, "refused: " + name, ended.stderr)


test_stacks(25)
test_thresholds()
test_many_slices()
test_chain_of_maxima()
if DEVICE == "cpu":
    test_refusals()
tap.done()
