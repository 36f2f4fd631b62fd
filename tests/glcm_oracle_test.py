"""Tests glcm against a direct evaluation of the definitions (oracle/glcm_oracle.py): values are
equal within 1e-9."""
import math
import os

import mpmath
import numpy as np
import skimage.data
from skimage.feature import graycomatrix, graycoprops

import tap
from oracle import glcm_cases, glcm_oracle as oracle
from oracle.glcm_check import (check, fold, near_products, pairs_in, product_row, refused,
                               two_level_walk)
from oracle.workunit import item

ALL = {"type": "all"}
RNG = np.random.default_rng(20)


def image(name, picture, mask=None):
    return item(name, [picture], None if mask is None else [mask])


# --- the oracle itself ------------------------------------------------------------------

def test_oracle_against_skimage():
    """The oracle and scikit-image agree on the counts for every offset up to distance 6, and on
    four features."""
    camera = skimage.data.camera()[150:183, 220:253]
    equal, worst = True, 0.0
    for levels in (5, 64):
        q = oracle.quantise(camera, levels, 0, 255)
        for d in range(1, 7):
            for dx, dy in oracle.offsets(d):
                ours = oracle.counts(q, np.ones(q.shape, bool), dx, dy, levels)
                theirs = graycomatrix(q.astype(np.uint8), [math.hypot(dx, dy)],
                                      [math.atan2(dy, dx)], levels, symmetric=True)
                equal = equal and np.array_equal(ours, theirs[:, :, 0, 0])
                p = theirs / theirs.sum()
                f = oracle.features(ours)
                for prop, index in (("ASM", 0), ("contrast", 1), ("correlation", 2),
                                    ("homogeneity", 4)):
                    value = float(graycoprops(p, prop)[0, 0])
                    worst = max(worst, abs(value - float(f[index])) / max(1, abs(value)))
    tap.ok(equal, "the oracle's counts are scikit-image's")
    tap.ok(worst < 1e-11, "asm, contrast, correlation, idm are scikit-image's", worst)


def test_oracle_against_mpmath():
    """The oracle's 80-bit floating-point numbers suffice: an evaluation with 50 digits gives the
    same 13 features."""
    worst = mpmath.mpf(0)
    for top, size in ((1, 5), (2, 9), (5, 9), (13, 6), (16, 20)):
        q = RNG.integers(0, top, (size, size))
        q[0, 0] = 15
        m = oracle.counts(q, np.ones(q.shape, bool), 1, 1, 16)
        for a, b in zip(oracle.features(m), oracle.features_precise(m)):
            worst = max(worst, abs(mpmath.mpf(str(a)) - b) / max(1, abs(b)))
    tap.ok(worst < 1e-15, "80-bit and 50-digit evaluation agree", worst)


def test_oracle_offsets():
    every = [o for d in range(1, 26) for o in oracle.offsets(d)]
    tap.ok(len(every) == 1026 and len(set(every)) == 1026, "1,026 offsets up to distance 25",
           len(every))
    tap.ok(all((-dx, -dy) not in set(every) for dx, dy in every),
           "no distance has an offset and its opposite")
    for h, w in ((520, 520), (512, 512), (511, 200)):
        n = int(oracle.roi_of(h, w, {"type": "disc", "r": 84}).sum())
        tap.ok(n == 22133, "22,133 pixels in a disc of radius 84 in %d x %d" % (w, h), n)


# --- real pictures -------------------------------------------------------------------------

def test_real_pictures():
    crops = [image("camera", skimage.data.camera()[190:250, 200:255]),
             image("brick", skimage.data.brick()[40:100, 300:361]),
             image("gravel", skimage.data.gravel()[200:258, 10:70]),
             image("coins", skimage.data.coins()[20:80, 20:80])]
    check("real pictures, three levels, distances 1, 5 and 25",
          {"levels": [16, 32, 64], "distances": [1, 5, 25], "roi": {"type": "disc", "r": 1},
           "per_offset": True}, crops, threads=2)
    check("real pictures, range image, square window",
          {"levels": [64], "range": "image", "distances": [1, 2], "roi": {"type": "disc", "r": 2},
           "window": {"shape": "square", "radius": 10}, "per_offset": True}, crops)
    check("the hcc preset on five pixels of camera",
          {"preset": "hcc", "roi": {"type": "disc", "r": 1}, "per_offset": True}, crops[:1],
          threads=2)
    rgb = skimage.data.astronaut()[100:130, 200:240]
    check("range type, distances and levels not in order",
          {"levels": [32, 8], "range": "type", "distances": [4, 1], "window": {"radius": 4},
           "roi": {"type": "disc", "r": 2}, "per_offset": True}, crops[:1])
    check("a disc by default", {"levels": [8], "distances": [1], "window": {"shape": "square"},
                                "roi": {"type": "disc", "r": 1, "cx": 3, "cy": 50}}, crops[:2])
    check("a colour picture", {"levels": [32], "distances": [1, 3],
                               "window": {"shape": "disc", "radius": 6},
                               "roi": {"type": "disc", "r": 3}}, [image("astronaut", rgb)])
    for name in ("crystal/vmxi_big_crystals_3.jpg", "crystal/xchem_echo_test_im_1.jpg"):
        path = tap.data(name)
        if path is None:
            tap.skip(name, "the folder of real pictures is absent")
            continue
        import PIL.Image
        whole = np.asarray(PIL.Image.open(path))
        middle = tuple(slice(n // 2 - 40, n // 2 + 40) for n in whole.shape[:2])
        check(name, {"levels": [16, 64], "distances": [1, 4, 11], "per_offset": True,
                     "roi": {"type": "disc", "r": 3}}, [image("crystal", whole[middle])])


# --- windows, borders, masks -------------------------------------------------------------------

def test_windows():
    brick = skimage.data.brick()[100:170, 100:170]
    for shape in ("disc", "square"):
        for r in list(range(1, 17)) + [30]:
            check("%s window of radius %d" % (shape, r),
                  {"levels": [32], "distances": [1, 2], "window": {"shape": shape, "radius": r},
                   "roi": {"type": "disc", "r": 1}, "per_offset": True}, [image("brick", brick)])
    gravel = skimage.data.gravel()[50:69, 70:87]
    for shape in ("disc", "square"):
        check("%s windows cut at every border" % shape,
              {"levels": [16], "distances": [1, 3], "window": {"shape": shape, "radius": 6},
               "roi": ALL, "per_offset": True,
               "maps": [{"feature": f, "levels": 16, "offset": o}
                        for f, o in zip(oracle.FEATURES, [[1, 0], [-1, 1], [0, 1], [1, 1]] * 4)]},
              [image("gravel", gravel)], threads=2)
    check("distances up to the window's diameter and beyond",
          {"levels": [16], "distances": [1, 10, 11, 12, 13, 14, 30], "directions": "four",
           "window": {"shape": "disc", "radius": 6}, "roi": ALL, "per_offset": True},
          [image("gravel", gravel)])
    check("offsets that fit only in a few windows",
          {"levels": [8], "distances": [4, 5], "window": {"shape": "disc", "radius": 2},
           "roi": ALL, "per_offset": True,
           "maps": [{"feature": "contrast", "levels": 8, "offset": [4, 0]}]},
          [image("gravel", gravel)])
    check("four directions", {"levels": [16, 32], "distances": [1, 2, 5], "directions": "four",
                              "window": {"shape": "disc", "radius": 5}, "roi": ALL,
                              "per_offset": True}, [image("gravel", gravel[:9, :9])])
    for h, w in ((1, 30), (30, 1), (2, 2), (1, 2), (1, 1), (7, 5)):
        check("a picture of %d x %d" % (w, h),
              {"levels": [16], "distances": [1, 2, 9], "roi": ALL, "per_offset": True},
              [image("small", skimage.data.gravel()[:h, :w])])


def test_regions():
    camera = skimage.data.camera()[200:230, 210:250]
    shape = camera.shape
    common = {"levels": [16], "distances": [1, 4], "window": {"shape": "disc", "radius": 5},
              "per_offset": True, "roi": {"type": "mask"},
              "maps": [{"feature": "imc1", "levels": 16, "offset": [0, 1]}]}
    line = np.zeros(shape, bool)
    line[:, 17] = True
    row = np.zeros(shape, bool)
    row[0, :] = True
    diagonal = np.eye(*shape, dtype=bool)
    dot = np.zeros(shape, bool)
    dot[29, 39] = True
    scattered = RNG.random(shape) < 0.08
    masks = {"vertical": line, "horizontal": row, "diagonal": diagonal, "dot": dot,
             "scattered": scattered}
    check("masks: lines, a pixel, scattered pixels", common,
          [image(n, camera, m) for n, m in masks.items()], threads=2)
    radiomics = {"levels": [16, 64], "distances": [1, 2, 6], "window": {"shape": "roi"},
                 "per_offset": True, "roi": {"type": "mask"}}
    check("masks: one matrix for the region", radiomics,
          [image(n, camera, m) for n, m in masks.items()])
    for centre in ((0, 0), (39, 29), (20, 3)):
        check("a disc at (%d, %d)" % centre,
              {"levels": [8], "distances": [2], "window": {"shape": "square", "radius": 3},
               "roi": {"type": "disc", "cx": centre[0], "cy": centre[1], "r": 4},
               "per_offset": True}, [image("camera", camera)])
    for h, w in ((10, 11), (11, 10), (10, 10), (9, 9)):
        check("the centred disc of %d x %d" % (w, h),
              {"levels": [8], "distances": [1], "window": {"shape": "disc", "radius": 2},
               "roi": {"type": "disc", "r": 2},
               "maps": [{"feature": "asm", "levels": 8, "offset": [1, 0]}]},
              [image("camera", camera[:h, :w])])
    stack = [skimage.data.camera()[200 + 9 * z:211 + 9 * z, 210:223] for z in range(3)]
    flat = [np.full((11, 13), 9, np.uint8)]
    check("a stack, slice by slice",
          {"levels": [16], "range": "image", "distances": [1, 3],
           "window": {"shape": "disc", "radius": 4}, "roi": ALL, "per_offset": True},
          [item("stack", stack + flat)], threads=2)
    some = [RNG.random((11, 13)) < 0.2 for _ in range(3)] + [np.zeros((11, 13), bool)]
    check("a stack, a matrix for each slice's region",
          {"levels": [16], "distances": [1, 3], "window": {"shape": "roi"},
           "roi": {"type": "mask"}, "per_offset": True}, [item("stack", stack + flat, some)])


# --- odd contents ---------------------------------------------------------------------------------

def test_unusual_contents():
    h, w = 14, 15
    y, x = np.mgrid[0:h, 0:w]
    flat = np.full((h, w), 77, np.uint8)
    odd = flat.copy()
    odd[6, 7] = 200
    near = flat.copy()
    near[6, 7] = 78
    noise = RNG.integers(0, 2, (h, w)).astype(np.uint8) * 255
    pictures = {"flat": flat, "odd": odd, "near": near, "black": flat * 0,
                "white": flat * 0 + 255, "halves": np.where(x < 7, 10, 240).astype(np.uint8),
                "checkerboard": ((x + y) % 2 * 255).astype(np.uint8),
                "stripes": (x % 2 * 255).astype(np.uint8), "noise": noise,
                "ramp": (x * 16 + y).astype(np.uint8)}
    items = [image(n, p) for n, p in pictures.items()]
    for limits in (None, "image", [70, 80]):
        parameters = {"levels": [2, 256], "distances": [1, 2], "directions": "four",
                      "window": {"shape": "disc", "radius": 4}, "per_offset": True,
                      "roi": {"type": "disc", "r": 3}}
        if limits is not None:
            parameters["range"] = limits
        check("odd contents, range %s" % limits, parameters, items, threads=2)


def test_levels_and_depth():
    gravel = skimage.data.gravel()[300:325, 300:325]
    for levels in ([2], [5, 7], [16, 32, 64], [200], [256], [255, 3]):
        check("levels %s" % levels,
              {"levels": levels, "distances": [1, 3], "roi": {"type": "disc", "r": 2},
               "window": {"shape": "disc", "radius": 7}, "per_offset": True},
              [image("gravel", gravel)])
    deep = (gravel.astype(np.uint16) * 37 + 1000 + RNG.integers(0, 300,
                                                                gravel.shape)).astype(np.uint16)
    wide = RNG.integers(0, 65536, gravel.shape).astype(np.uint16)
    for limits in (None, "image", [2000, 7001], [0, 65535], [5000, 5000], [5000, 5001]):
        parameters = {"levels": [7, 64, 256], "distances": [1], "per_offset": True,
                      "roi": {"type": "disc", "r": 2}, "window": {"shape": "disc", "radius": 7}}
        if limits is not None:
            parameters["range"] = limits
        check("16 bit, range %s" % limits, parameters, [image("deep", deep), image("wide", wide)])


def test_independence():
    """Co-occurrence matrices that are products of their marginals, exactly or nearly: HXY2 - HXY is
    zero or tiny, and the square root in the feature imc2 magnifies an error of this difference."""
    whole = {"levels": [256], "window": {"shape": "roi"}, "distances": [1],
             "directions": "four", "roi": ALL, "per_offset": True}
    rows = {"uniform2": [1, 1], "uniform6": [1] * 6, "uniform16": [1] * 16, "skew": [5, 1],
            "skewer": [60, 1], "three": [30, 2, 1], "powers": [1, 2, 4, 8, 16],
            "many": list(range(1, 17)), "primes": [2, 3, 5, 7, 11, 13, 17, 19]}
    for name, m in rows.items():
        row = product_row(m)[None, :]
        less = row[:, 1:]
        other = row.copy()
        other[0, row.size // 2] ^= 1
        far = row.copy()
        far[0, row.size // 2] = 255
        check("product matrix %s, exact and nearly" % name, whole,
              [image("exact", row), image("less", less), image("other", other), image("far", far)])
    for side in (3, 33, 181, 1000):
        p = np.full((side, side), 3, np.uint8)
        p[side // 2, side // 2] = 9
        q = p.copy()
        q[0, 0] = 200
        check("one odd pixel in %d x %d" % (side, side), whole, [image("one", p), image("two", q)])
    noise = RNG.integers(0, 2, (400, 400)).astype(np.uint8)
    check("independent noise", whole, [image("two", noise),
                                       image("sixteen",
                                             RNG.integers(0, 16, (400, 400)).astype(np.uint8))])
    sliding = {"levels": [16], "distances": [1], "per_offset": True, "directions": "four",
               "window": {"shape": "disc", "radius": 16}, "roi": {"type": "disc", "r": 3}}
    p = np.full((48, 48), 100, np.uint8)
    p[24, 24] = 180
    check("one odd pixel in sliding windows", sliding, [image("odd", p)])


def test_near_independence_in_windows():
    """Windows of two grey levels whose matrices are as close to products as possible, the most
    difficult ones for imc2."""
    centre = {"type": "disc", "r": 0}
    for shape, radius in (("disc", 2), ("disc", 8), ("disc", 16), ("square", 16), ("disc", 30),
                          ("square", 45), ("square", 63)):
        hardest = near_products(pairs_in(shape, radius), 12)
        check("windows that are nearly products, %s of radius %d" % (shape, radius),
              {"levels": [256], "distances": [1], "directions": "four", "per_offset": True,
               "window": {"shape": shape, "radius": radius}, "roi": centre},
              [image("c%d_%d_%d" % c, fold(two_level_walk(*c), shape, radius)) for c in hardest])
        side = 2 * radius + 1
        one = np.full((side, side), 4, np.uint8)
        one[radius, radius // 2] = 9
        two = one.copy()
        two[radius // 2, radius] = 130
        noise = RNG.integers(0, 2, (side, side)).astype(np.uint8)
        check("one and two odd pixels, and noise, %s of radius %d" % (shape, radius),
              {"levels": [2, 16, 256], "distances": [1, 2], "per_offset": True,
               "window": {"shape": shape, "radius": radius}, "roi": centre},
              [image("one", one), image("two", two), image("noise", noise)])
    whole = {"levels": [256], "window": {"shape": "roi"}, "distances": [1], "roi": ALL,
             "directions": "four", "per_offset": True}
    check("regions that are nearly products", whole,
          [image("k%d" % k, two_level_walk(k - 1, k, k + 1)[None, :])
           for k in (1, 3, 31, 301, 3001, 32767)])


def test_random_jobs():
    for seed in range(30):
        parameters, items = glcm_cases.random_job(np.random.default_rng(seed), 1200)
        check("random job %d" % seed, parameters, items, threads=1 + seed % 3)


def test_refusals():
    picture = skimage.data.gravel()[:9, :9]
    nothing = np.zeros((9, 9), bool)
    base = {"levels": [16], "distances": [1], "roi": {"type": "mask"}}
    refused("an empty mask is refused", base, [image("void", picture, nothing)],
            ["unit.zip", "mask"])
    refused("an empty mask is refused, one matrix for the region",
            dict(base, window={"shape": "roi"}), [image("void", picture, nothing)],
            ["unit.zip", "mask"])
    refused("a missing mask is refused", base, [image("maskless", picture)],
            ["unit.zip", "maskless", "mask"])
    for key, value in (("levels", []), ("levels", [1]), ("levels", [257]), ("levels", [16, 16]),
                       ("levels", "16"), ("distances", [0]), ("distances", []),
                       ("distances", [1, 1]), ("range", [9, 3]), ("range", [0.5, 3]),
                       ("window", {"shape": "disc", "radius": 0}), ("window", {"shape": "hexagon"}),
                       ("directions", "eight"), ("roi", {"type": "disc", "r": -1}),
                       ("maps", [{"feature": "charm", "levels": 16, "offset": [1, 0]}]),
                       ("maps", [{"feature": "asm", "levels": 17, "offset": [1, 0]}]),
                       ("maps", [{"feature": "asm", "levels": 16, "offset": [5, 0]}]),
                       ("per_offset", 1), ("colour", True)):
        refused("%s %s is refused" % (key, value),
                dict({"levels": [16], "distances": [1]}, **{key: value}),
                [image("p", picture)], ["unit.zip", key])


def main():
    test_oracle_against_skimage()
    test_oracle_against_mpmath()
    test_oracle_offsets()
    if not os.path.exists(tap.TEXCELL):
        tap.ok(False, "texcell is built", tap.TEXCELL)
        tap.done()
    test_real_pictures()
    test_windows()
    test_regions()
    test_unusual_contents()
    test_levels_and_depth()
    test_independence()
    test_near_independence_in_windows()
    test_random_jobs()
    test_refusals()
    tap.done()


if __name__ == "__main__":
    main()
