"""Tests cellcount with processed grey values (smoothed, with the background subtracted), with a
local threshold, and with regions split by intensity. Every pixel equals that of the oracle in
Python (oracle/cellcount_oracle.py). Also tests input that must be refused."""
import itertools
import os
import sys

import numpy as np
from scipy import ndimage

import tap
from oracle import workunit
from oracle.cellcount_check import check, folder, texcell
from oracle.workunit import item

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cpu"


def cells(rng, shape, deep=False):
    """A picture of dark blobs in uneven light, with noise."""
    picture = np.zeros(shape)
    for _ in range(max(1, shape[0] * shape[1] // 300)):
        y, x = rng.integers(shape[0]), rng.integers(shape[1])
        picture[y, x] = 1
    picture = ndimage.gaussian_filter(picture, 2.5)
    picture *= 90 / max(picture.max(), 1e-9)
    light = np.linspace(60, 180, shape[1])[None] + np.linspace(0, 30, shape[0])[:, None]
    values = np.clip(light - picture + rng.normal(0, 3, shape), 0, 255)
    return (values * 257).astype(np.uint16) if deep else values.astype(np.uint8)


def pictures(deep=False):
    rng = np.random.default_rng(5 + deep)
    shapes = ((1, 1), (1, 70), (67, 1), (40, 50), (100, 80), (20, 700))  # the last in several tiles
    return [item("p%d" % k, [cells(rng, s, deep)]) for k, s in enumerate(shapes)] + [
        item("flat", [np.full((20, 33), 77, np.uint16 if deep else np.uint8)])]


BACKGROUNDS = [dict(method=m, by=b, radius=r) for m, b, r in itertools.product(
    ("mean", "lines", "opening"), ("difference", "ratio"), (1, 6))] + [
        {"method": "mean", "radius": 70}, {"method": "lines", "radius": 70}, {"radius": 25}]


def test_methods():
    """Each background, and each other way of processing, for dark and for bright cells."""
    for polarity in ("dark", "bright"):
        for k, background in enumerate(BACKGROUNDS):
            more = {"background": background, "polarity": polarity, "fill_holes": k % 2 == 0,
                    "labels": True}
            check("%s, %s" % (polarity, background), more, pictures(), 2, DEVICE)
        for more in ({"smooth": 0.4}, {"smooth": 3.3, "threshold": 120},
                     {"threshold": "local", "offset": 3},
                     {"threshold": "local", "window": 7, "offset": 0, "smooth": 1,
                      "background": {}},
                     {"split": "intensity", "h": 3, "connectivity": 4},
                     {"split": "intensity", "smooth": 2, "min_area": 9},
                     {"split": "intensity", "h": 0, "threshold": 0 if polarity == "bright"
                      else 255},
                     {"split": "distance", "threshold": "local", "window": 21, "fill_holes": True}):
            check("%s, %s" % (polarity, more), dict(more, polarity=polarity, labels=True),
                  pictures(), 3, DEVICE)
    for more in ({"smooth": 1.5, "background": {"by": "ratio", "radius": 6}},
                 {"background": {"method": "lines", "radius": 255}},
                 {"threshold": "local", "offset": 900},
                 {"split": "intensity", "smooth": 1, "h": 200}):
        check("16 bits, %s" % more, dict(more, labels=True), pictures(True), 2, DEVICE)


def test_refusals():
    for name, parameters, words in (
            ("an even window", {"threshold": "local", "window": 50},
             "parameters.window: must be odd"),
            ("a sigma too small", {"smooth": 0.1}, "parameters.smooth: must be 0 or at least 0.3"),
            ("an offset of half the range of grey values", {"threshold": "local", "offset": 128},
             "parameters.offset cannot be 128"),
            ("a disc too large", {"background": {"radius": 256}}, "background.radius"),
            ("another method", {"background": {"method": "median"}}, "background.method")):
        unit = workunit.write(os.path.join(folder(), "bad.zip"), "cellcount", parameters,
                              [item("p", [np.zeros((9, 9), np.uint8)])])
        ended = texcell(unit, os.path.join(folder(), "bad.npz"))
        tap.ok(ended.returncode == 2 and words in ended.stderr, "refused: " + name, ended.stderr)


test_methods()
if DEVICE == "cpu":
    test_refusals()
tap.done()
