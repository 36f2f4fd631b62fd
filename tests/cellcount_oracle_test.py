"""Tests cellcount against an oracle with SciPy and scikit-image: pictures of difficult shapes,
random and real pictures; every parameter; and input that must be refused."""
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


def dark(mask):
    """A picture with the mask as dark cells, whose grey values vary, so that means differ."""
    mask = np.asarray(mask, bool)
    noise = (np.arange(mask.size).reshape(mask.shape) * 7919) % 100
    return np.where(mask, noise, 150 + noise).astype(np.uint8)


def spiral(n):
    """A line that winds inwards, with a gap of one pixel between its turns."""
    m = np.zeros((n, n), bool)
    y, x, dy, dx = 0, 0, 0, 1
    m[0, 0] = True

    def free(at_y, at_x):
        return 0 <= at_y < n and 0 <= at_x < n and not m[at_y, at_x]
    while True:
        ahead = 0
        while free(y + dy, x + dx) and (free(y + 2 * dy, x + 2 * dx) or
                                        not (0 <= y + 2 * dy < n and 0 <= x + 2 * dx < n)):
            y, x, ahead = y + dy, x + dx, ahead + 1
            m[y, x] = True
        if ahead < 2:
            return m
        dy, dx = dx, -dy


def comb(height, width, below=True):
    """Teeth of one pixel, joined below or above."""
    m = np.zeros((height, width), bool)
    m[:, ::2] = True
    m[-1 if below else 0] = True
    return m


def nested_squares(n):
    """Concentric square rings."""
    y, x = np.indices((n, n))
    return np.maximum(np.abs(y - n // 2), np.abs(x - n // 2)) % 2 == 0


def shapes():
    """Yields (name, mask) of shapes that are difficult for labelling."""
    y, x = np.indices((70, 131))
    comb_down, comb_up = comb(40, 131), comb(40, 131, False)
    yield "chessboard", (y + x) % 2 == 0
    yield "lines", y % 2 == 0
    yield "columns", x % 2 == 0
    yield "dots", (y % 2 == 0) & (x % 2 == 0)
    yield "comb", comb_down
    yield "comb upside down", comb_up
    yield "two combs", np.vstack([comb_up, comb_down])
    yield "spiral", spiral(65)
    yield "spiral of the ground", ~spiral(64)
    yield "rings", nested_squares(67)
    yield "rings of the ground", ~nested_squares(66)
    yield "diagonals", (y + x) % 5 == 0
    yield "stairs", (y // 2 + x // 2) % 2 == 0
    yield "V shapes", np.abs(x % 16 - 8) == y % 9
    yield "all cell", np.ones((33, 65), bool)
    yield "all ground", np.zeros((33, 65), bool)
    for height, width in ((1, 1), (1, 2), (2, 1), (1, 64), (1, 65), (65, 1), (1, 200), (2, 2),
                          (3, 3), (2, 63)):
        rng = np.random.default_rng(height * 1000 + width)
        yield "random %dx%d" % (height, width), rng.random((height, width)) < 0.6
    yield "one cell pixel", np.ones((1, 1), bool)
    yield "one ground pixel", np.zeros((1, 1), bool)


def test_difficult_shapes():
    items = [item("s%02d" % k, [dark(m)]) for k, (_, m) in enumerate(shapes())]
    for connectivity, fill in itertools.product((8, 4), (False, True)):
        check("shapes, connectivity %d%s" % (connectivity, ", holes filled" if fill else ""),
              {"threshold": 125, "connectivity": connectivity, "fill_holes": fill, "labels": True},
              items, 1 + fill, DEVICE)
    for connectivity in (8, 4):
        check("shapes, split, connectivity %d" % connectivity,
              {"threshold": 125, "connectivity": connectivity, "split": "distance", "labels": True},
              items, 2, DEVICE)


def test_bands():
    """Large pictures, which are processed in several bands of rows; components cross the borders
    between bands."""
    rng = np.random.default_rng(11)
    y, x = np.indices((700, 1500))
    items = [item("noise", [dark(rng.random((700, 1500)) < 0.55)]),
             item("sparse", [dark(rng.random((90, 30000)) < 0.35)]),
             item("blobs", [dark(ndimage.gaussian_filter(rng.random((1100, 900)), 4) > 0.5)]),
             item("spiral", [dark(spiral(901))]), item("ground", [dark(~spiral(900))]),
             item("combs", [dark(np.vstack([comb(500, 1501, False), comb(501, 1501)]))]),
             item("chess", [dark((y + x) % 2 == 0)]), item("rings", [dark(nested_squares(1001))]),
             item("thin", [dark(rng.random((65535, 9)) < 0.5)]),
             item("long", [dark(rng.random((1, 65535)) < 0.5)])]
    for connectivity, fill in itertools.product((8, 4), (False, True)):
        check("several bands, connectivity %d%s" % (connectivity, ", holes filled" if fill else ""),
              {"threshold": 125, "connectivity": connectivity, "fill_holes": fill, "labels": True},
              items, 2 + fill, DEVICE)


def test_random_pictures(n):
    rng = np.random.default_rng(42)
    batches = {8: [], 4: []}
    for k in range(n):
        shape = tuple(int(v) for v in rng.integers(1, 200, 2))
        density = 0.05 + 0.9 * k / (n - 1)
        noise = rng.random(shape)
        if k % 3 == 2:
            noise = ndimage.uniform_filter(noise, 3)
        batches[8 if k % 2 else 4].append(
            item("r%03d" % k, [dark(noise < np.quantile(noise, density))]))
    for connectivity, fill in itertools.product((8, 4), (False, True)):
        check("%d random pictures, connectivity %d%s" %
              (n // 2, connectivity, ", holes filled" if fill else ""),
              {"threshold": 125, "connectivity": connectivity, "fill_holes": fill, "labels": True},
              batches[connectivity], 3, DEVICE)


def balls(rng, shape, n, radius, noise=0):
    y, x = np.indices(shape)
    m = np.zeros(shape, bool)
    for _ in range(n):
        r = rng.uniform(0.6, 1.3) * radius
        m |= (y - rng.uniform(0, shape[0])) ** 2 + (x - rng.uniform(0, shape[1])) ** 2 < r * r
    return m ^ (rng.random(shape) < noise)


def test_automatic_parameters():
    """Parameters that are chosen for each picture (polarity, classes, scale, contrast), and filters
    by bounding box and contrast, on pictures of nuclei, blobs and noise with 8 and 16 bits."""
    rng = np.random.default_rng(31)
    blobs = ndimage.gaussian_filter(rng.random((140, 170)), 3)
    blobs = (blobs - blobs.min()) / (blobs.max() - blobs.min())
    cells = balls(rng, (150, 190), 25, 8) * 90 + balls(rng, (150, 190), 60,
                                                       3) * 60 + rng.integers(0, 40, (150, 190))
    pictures = {"blobs": (blobs ** 3 * 255).astype(np.uint8),
                "negative": (255 - blobs ** 3 * 255).astype(np.uint8),
                "cells": cells.astype(np.uint8), "deep": (cells * 97 + 3000).astype(np.uint16),
                "wide": (blobs ** 2 * 65535).astype(np.uint16),
                "two": (blobs > 0.6).astype(np.uint8) * 7,
                "three": ((blobs > 0.6).astype(np.uint8) + (blobs > 0.8)).astype(np.uint8),
                "flat": np.full((30, 40), 9, np.uint8),
                "noise": rng.integers(0, 256, (90, 70), np.uint8)}
    items = [item(n, [p]) for n, p in pictures.items()]
    for parameters in (
            {"polarity": "auto"}, {"classes": 3, "polarity": "bright"}, {"classes": 4},
            {"classes": 4, "scale": "sqrt", "polarity": "bright"},
            {"scale": "sqrt", "polarity": "auto", "fill_holes": True, "split": "distance"},
            {"threshold": "local", "window": 21, "offset": 900, "offset_percent": 20,
             "polarity": "auto", "smooth": 1},
            {"threshold": "local", "window": 21, "offset": 20, "polarity": "auto"},
            {"threshold": "local", "window": 41, "offset_percent": 250, "polarity": "bright",
             "background": {"radius": 9}},
            {"threshold": "local", "window": "auto", "offset_percent": 20, "polarity": "auto",
             "exclude_border": True, "min_fill": 0.6},
            {"min_fill": 0.6, "max_aspect": 1.7, "polarity": "auto"},
            {"min_fill": 0.5, "polarity": "bright", "split": "distance"},
            {"min_contrast": {"full_area": 40, "percent": 50}, "polarity": "bright"},
            {"min_contrast": {"full_area": 30}, "split": "distance", "fill_holes": True,
             "smooth": 0.8, "connectivity": 4},
            {"min_contrast": {"full_area": 60, "percent": 90}, "split": "intensity", "min_area": 5,
             "polarity": "auto",
             "background": {"method": "mean", "radius": 20}},
            {"min_contrast": {"percent": 30}, "threshold": 60, "exclude_border": True,
             "max_aspect": 2.5}):
        check("chosen for each picture: %s" % parameters, dict(parameters, labels=True), items, 2,
              DEVICE)


def test_splits():
    rng = np.random.default_rng(7)
    items = [item("b%02d" % k, [dark(balls(rng, (90, 121), 25, 4 + k, 0.002 * (k % 3)))])
             for k in range(8)]
    items += [item("n%d" % k, [dark(rng.random((60, 77)) < d)])
              for k, d in enumerate((0.3, 0.5, 0.7, 0.95))]
    for connectivity in (8, 4):
        check("split of balls and noise, connectivity %d" % connectivity,
              {"threshold": 125, "connectivity": connectivity, "split": "distance", "labels": True},
              items, 2, DEVICE)
    check("split with other parameters",
          {"threshold": 125, "split": "distance", "fill_holes": True, "min_area": 20,
           "max_area": 400, "exclude_border": True, "labels": True}, items, 3, DEVICE)


def test_parameters():
    rng = np.random.default_rng(3)
    deep = (ndimage.gaussian_filter(rng.random((150, 130)), 2) * 65535).astype(np.uint16)
    colour = rng.integers(0, 256, (61, 67, 3)).astype(np.uint8)
    flat = np.full((5, 7), 9, np.uint8)
    items = [item("flat", [flat]), item("black", [flat * 0]), item("white", [flat * 0 + 255]),
             item("noise", [rng.integers(0, 256, (80, 90)).astype(np.uint8)]),
             item("two", [np.where(rng.random((50, 40)) < 0.3, 3, 250).astype(np.uint8)]),
             item("deep", [deep]),
             item("colour", [colour])]
    for polarity in ("dark", "bright"):
        check("Otsu, %s" % polarity, {"polarity": polarity, "labels": True}, items, 2, DEVICE)
    deep_item = [item("deep", [deep])]
    for threshold in (0, 1, 32000, 32767, 33500, 65535):
        check("16 bits, threshold %d" % threshold,
              {"threshold": threshold, "polarity": "bright", "connectivity": 4}, deep_item, 1,
              DEVICE)
    for threshold in (0, 1, 128, 255):
        check("8 bits, threshold %d" % threshold, {"threshold": threshold, "labels": True},
              items[:5], 1, DEVICE)
    blobs = [item("blobs", [dark(ndimage.gaussian_filter(rng.random((300, 211)), 3) > 0.505)])]
    for extra in ({"min_area": 40}, {"max_area": 40}, {"min_area": 30, "max_area": 60},
                  {"exclude_border": True},
                  {"min_area": 20, "exclude_border": True, "fill_holes": True},
                  {"min_area": 10 ** 9}):
        check("filter %s" % extra, dict(extra, threshold=125, labels=True), blobs, 2, DEVICE)


def test_real_pictures():
    from skimage import io
    files = tap.data("count")
    if files is None:
        return tap.skip("real pictures", "they are not here")
    items = []
    for name in sorted(os.listdir(files)):
        if not name.endswith((".jpg", ".png", ".tif")):
            continue
        picture = io.imread(os.path.join(files, name))
        if picture.dtype == np.uint8:
            items.append(item(name.replace(".", "_"), [np.ascontiguousarray(picture)]))
    for connectivity, polarity in itertools.product((8, 4), ("dark", "bright")):
        check("%d real pictures, connectivity %d, %s" % (len(items), connectivity, polarity),
              {"connectivity": connectivity, "polarity": polarity, "labels": True}, items, 2,
              DEVICE)


def test_refusals():
    picture = np.arange(64, dtype=np.uint8).reshape(8, 8)
    one = [item("p", [picture])]

    def check_refused(name, parameters, items, words):
        unit = workunit.write(os.path.join(folder(), "bad.zip"), "cellcount", parameters, items)
        result = os.path.join(folder(), "bad.npz")
        run = texcell(unit, result)
        good = (run.returncode == 2 and not os.path.exists(result) and
                any(l.startswith("texcell: error: ") and all(w in l for w in words)
                    for l in run.stderr.splitlines()))
        tap.ok(good, "refused: " + name, "exit %d\n%s" % (run.returncode, run.stderr))
    check_refused("unknown key", {"treshold": 3}, one, ["unknown key", "treshold"])
    check_refused("threshold beyond 8 bits", {"threshold": 256}, one,
                  ["item \"p\"", "threshold", "8 bits"])
    check_refused("threshold beyond 16 bits", {"threshold": 65536}, one, ["parameters.threshold"])
    check_refused("negative threshold", {"threshold": -1}, one, ["parameters.threshold"])
    check_refused("threshold in words", {"threshold": "high"}, one, ["parameters.threshold"])
    check_refused("connectivity 6", {"connectivity": 6}, one, ["parameters.connectivity"])
    check_refused("polarity", {"polarity": "grey"}, one, ["parameters.polarity", "dark"])
    check_refused("split", {"split": True}, one, ["parameters.split", "distance"])
    check_refused("min_area 0", {"min_area": 0}, one, ["parameters.min_area"])
    check_refused("max_area below min_area", {"min_area": 9, "max_area": 8}, one,
                  ["max_area", "min_area"])
    check_refused("fill_holes as a number", {"fill_holes": 1}, one, ["parameters.fill_holes"])
    check_refused("classes of a given threshold", {"threshold": 90, "classes": 3}, one,
                  ["parameters.classes", "otsu"])
    check_refused("scale of a local threshold", {"threshold": "local", "scale": "sqrt"}, one,
                  ["parameters.scale", "otsu"])
    check_refused("five classes", {"classes": 5}, one, ["parameters.classes", "4"])
    check_refused("percent of Otsu's", {"offset_percent": 20}, one,
                  ["parameters.offset_percent", "local"])
    check_refused("aspect", {"max_aspect": 0.5}, one, ["parameters.max_aspect"])
    check_refused("a stack", {}, [item("s", [picture, picture])], ["item \"s\"", "stack"])
    check_refused("window of a given threshold", {"window": "auto"}, one,
                  ["parameters.window", "local"])


def test_masks():
    """With a mask, which may have few or no pixels: pixels outside belong to no cell, and do not
    influence the threshold."""
    rng = np.random.default_rng(14)
    y, x = np.indices((120, 150))
    picture = (90 + 60 * (((y // 15 + x // 15) % 2) * rng.random((120, 150)) > 0.3) +
               rng.integers(0, 9, (120, 150))).astype(np.uint8)
    picture[np.hypot(y - 60, x - 75) > 50] += 100
    items = [item("disc", [picture], [(np.hypot(y - 60, x - 75) < 45).astype(np.uint8)]),
             item("ring", [picture], [((np.hypot(y - 60, x - 75) < 45) & (np.hypot(y - 60, x - 75) >
                                                                          20)).astype(np.uint8)]),
             item("none", [picture], [np.zeros((120, 150), np.uint8)])]
    for parameters in ({"labels": True}, {"polarity": "auto", "fill_holes": True,
                                          "split": "distance", "labels": True},
                       {"threshold": "local", "window": "auto", "offset_percent": 20,
                        "polarity": "auto", "min_area": "auto", "fill_holes": True},
                       {"classes": 3, "scale": "sqrt", "smooth": 1}):
        check("masked, %s" % sorted(parameters), parameters, items, 2, DEVICE)


test_difficult_shapes()
test_bands()
test_random_pictures(200)
test_splits()
test_automatic_parameters()
test_masks()
test_parameters()
test_real_pictures()
if DEVICE == "cpu":
    test_refusals()
tap.done()
