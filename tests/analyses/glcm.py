"""The data of glcm for the tests over all analyses; __init__.py explains the names."""
import numpy as np

from forge import flip_bit, set_at, swap_rows
from oracle.workunit import item
from pictures import (DEEP, GREY, SMOOTH, TINY, TINY_STACK, coins, gravel, noise, one_of, pictures,
                      random_items, some_of, stacks)


JOBS = {
    "full": ({"levels": [8, 16], "distances": [1, 2, 9], "window": {"shape": "disc", "radius": 3},
              "per_offset": True, "maps": [{"feature": "contrast", "levels": 16, "offset": [1, 0]},
                                           {"feature": "entropy", "levels": 8, "offset": [0, 2]}]},
             pictures()),
    "plain": ({"levels": [16], "distances": [1, 3], "window": {"shape": "square", "radius": 4},
               "roi": {"type": "disc", "r": 9}}, pictures()),
    "masked": ({"levels": [16], "distances": [1], "window": {"shape": "roi"},
                "roi": {"type": "mask"}},
               [dict(it, masks=[np.indices(it["slices"][0].shape)[0] > 12]) for it in pictures()]),
    # "wide": wider than a tile of the program; "large": one window (the ROI) that all threads
    # count.
    "wide": ({"levels": [16], "distances": [1], "window": {"shape": "disc", "radius": 2}, "maps": [
        {"feature": "asm", "levels": 16, "offset": [0, 1]}]},
             [item("w", [np.tile(GREY[0][:18], (1, 400))])]),
    "large": ({"levels": [32], "distances": [1, 3], "window": {"shape": "roi"},
               "roi": {"type": "disc", "r": 540}},
              [item("l", [np.tile(GREY[0], (36, 26))])]),
    "more": ({"levels": [8, 64], "distances": [1, 2], "window": {"shape": "disc", "radius": 3},
              "features": "ibsi", "per_offset": True,
              "maps": [{"feature": "cluster_shade", "levels": 8, "offset": [1, 0]},
                       {"feature": "joint_maximum", "levels": 64, "offset": [0, 2]}]}, pictures()),
    "stack": ({"levels": [8], "distances": [1, 2], "window": {"shape": "disc", "radius": 2}},
              stacks()),
}


KNOWN = {"full": "d9df3f98", "plain": "372cbda4", "masked": "6a34e911", "wide": "2da5cbde",
         "large": "f549eacc", "more": "a72a7d53",
         "stack": "25d83085"}


def random_job(rng):
    roi = one_of(rng, {"type": "all"}, {"type": "disc", "r": int(rng.integers(12))},
                 {"type": "mask"},
                 {"type": "disc", "cx": 0, "cy": 0, "r": 3})
    p = {"levels": some_of(rng, [2, 3, 8, 16, 64, 256], 2),
         "distances": some_of(rng, [1, 2, 3, 5, 8, 13, 40], 3),
         "window": one_of(rng, {"shape": "disc", "radius": int(rng.integers(1, 8))},
                          {"shape": "square", "radius": int(rng.integers(1, 6))}, {"shape": "roi"}),
         "directions": one_of(rng, "all", "four"), "per_offset": one_of(rng, True, False),
         "range": one_of(rng, "type", "image", [10, 200]), "roi": roi,
         "features": one_of(rng, "haralick", "haralick", "ibsi")}
    if p["window"]["shape"] != "roi" and 1 in p["distances"]:
        p["maps"] = [{"feature": str(f), "levels": p["levels"][0], "offset": [1, 0]}
                     for f in rng.choice(
                         ["asm", "contrast", "correlation", "variance", "sum_variance", "entropy",
                          "imc1", "imc2"], 2, replace=False)]
    return p, random_items(rng, one_of(rng, True, False), roi["type"] == "mask")


MAPS = [{"feature": f, "levels": 256, "offset": [1, 0]} for f in ("asm", "contrast")]

def memory_jobs():
    return [
        ({"distances": [1], "roi": {"type": "disc", "r": 40}}, noise(2000, 2500)),
        ({"levels": [16], "distances": [1], "roi": {"type": "disc", "r": 20}},
         noise(1500, 2000) * np.uint16(257)),
        ({"levels": [256], "distances": [1], "features": "ibsi",
          "window": {"shape": "square", "radius": 60},
          "roi": {"type": "disc", "r": 100}}, noise(400, 400)),
        ({"levels": [64], "distances": [1], "window": {"shape": "roi"}}, noise(1500, 2000)),
        ({"levels": [64], "distances": [1], "directions": "four",
          "window": {"shape": "disc", "radius": 8}}, noise(24, 65535)),
        ({"levels": [16], "distances": [1], "directions": "four",
          "window": {"shape": "square", "radius": 20}}, noise(40, 8192)),
        ({"levels": [256], "distances": [1], "per_offset": True,
          "window": {"shape": "disc", "radius": 2}, "maps": MAPS},
         noise(500, 500)),
    ]


SEEDS = [
    ({"levels": [4], "distances": [1, 5], "window": {"shape": "disc", "radius": 2},
      "per_offset": True,
      "maps": [{"feature": "contrast", "levels": 4, "offset": [1, 0]}]}, TINY[:1]),
    ({"levels": [4], "distances": [1], "window": {"shape": "roi"}}, TINY_STACK),
]

ESTIMATES = [
    (["levels=[16,64]", "distances=[1,5]"], SMOOTH),
    (['window={"shape":"roi"}', "distances=[1,2,3,4,5,6,7,8]"], SMOOTH),
]

DATA_SET = {
    "texture": ({"levels": [16, 64], "distances": [1, 2, 30],
                 "window": {"shape": "disc", "radius": 5},
                 "per_offset": True,
                 "maps": [{"feature": "contrast", "levels": 16, "offset": [1, 0]}]},
                [item("t%d" % i, [g]) for i, g in enumerate(GREY)]),
    "plain": ({"levels": [16], "distances": list(range(1, 27)),
               "window": {"shape": "disc", "radius": 4}},
              [item("a", [GREY[0][:14, :16]]), item("b", DEEP)]),
}


STATISTICS = {"mean": 0, "range": 1, "sd": 2, "min": 3, "max": 4}

BLANK = {
    "windows": ({"levels": [16, 64], "distances": [1, 3], "window": {"shape": "disc", "radius": 5}},
                [gravel()], [coins()]),
    "one matrix": ({"levels": [32], "distances": [1, 2], "window": {"shape": "roi"}}, [gravel()],
                   [coins()]),
}


def forgeries():
    def f(job, feature, statistic, value, distance=None, levels=16):
        """Changes one feature of the first item."""
        d = distance or 1

        def change(a):
            index = a["feature_names"].tolist().index("glcm_L%d_d%02d_%s_%s" %
                                                      (levels, d, feature, statistic))
            a["features"][0, index] = value(a["features"][0, index]) if callable(value) else value
        return job, change

    def bit(number):
        return lambda v: flip_bit(np.array([v]), 0, number)[0]

    nan = float("nan")
    yield ("asm of 0", *f("plain", "asm", "min", 0.0), "asm: outside the feature's bounds")
    yield ("asm of 1.5", *f("plain", "asm", "max", 1.5), "asm: outside the feature's bounds")
    yield ("negative contrast", *f("plain", "contrast", "min", -1.0), "contrast: outside")
    yield ("contrast of (L-1)^2 and 1", *f("plain", "contrast", "max", 226.0), "contrast: outside")
    yield ("correlation of 2", *f("plain", "correlation", "max", 2.0), "correlation: outside")
    yield ("variance beyond the levels", *f("plain", "variance", "max", 57.0), "variance: outside")
    yield ("idm of 0", *f("plain", "idm", "min", 0.0), "idm: outside")
    yield ("sum_average of 1", *f("plain", "sum_average", "min", 1.0), "sum_average: outside")
    yield ("sum_average of 33", *f("plain", "sum_average", "max", 33.0), "sum_average: outside")
    yield ("entropy above log2", *f("plain", "entropy", "max", 8.0), "entropy: outside")
    yield ("sum_entropy of 6", *f("plain", "sum_entropy", "max", 6.0), "sum_entropy: outside")
    yield ("difference_entropy of 5", *f("plain", "difference_entropy", "max", 5.0),
           "difference_entropy: outside")
    yield ("imc1 above 0", *f("plain", "imc1", "max", 0.25), "imc1: outside")
    yield ("imc2 above 1", *f("plain", "imc2", "max", 1.25), "imc2: outside")
    yield ("infinite", *f("plain", "contrast", "max", float("inf")), "contrast: ")
    yield ("one NaN", *f("plain", "contrast", "mean", nan), "NaN, where windows have pairs")
    yield ("a minimum's lowest bit", *f("plain", "entropy", "min", bit(0)), "not a multiple of 2")
    yield ("a maximum's lowest bit", *f("plain", "idm", "max", bit(0)), "not a multiple of 2")
    yield ("a mean's exponent", *f("plain", "asm", "mean", bit(53)), "the mean is not between")
    yield ("a mean below the minimum", *f("plain", "variance", "mean", lambda v: v / 1e6),
           "the mean is not between")
    yield ("minimum and maximum swapped", "plain", lambda a: swap_columns(a, "min", "max"),
           "mean is not between")
    yield ("a negative range", *f("plain", "contrast", "range", lambda v: -v),
           "the range is not between")
    yield ("a range too large", *f("plain", "contrast", "range", 200.0), "the range is not between")
    yield ("a negative sd", *f("plain", "contrast", "sd", lambda v: -v),
           "the standard deviation is not between")
    yield ("an sd too large", *f("plain", "contrast", "sd", 200.0),
           "the standard deviation is not between")
    yield ("sum_variance out of line", *f("plain", "sum_variance", "mean", lambda v: v * 1.001),
           "sum_variance is not 4 variance - contrast")
    for name, value, reason in (("joint_maximum", 2.0, "joint_maximum: outside"),
                                ("joint_average", 0.5, "joint_average: outside"),
                                ("difference_average", 8.0, "difference_average: outside"),
                                ("inverse_difference", 1.5, "outside"),
                                ("inverse_difference_normalised", 0.25, "outside"),
                                ("inverse_variance", -0.5, "outside"),
                                ("inverse_difference_moment_normalised", 0.25, "outside"),
                                ("autocorrelation", 65.0, "outside"),
                                ("cluster_tendency", 50.0, "outside"),
                                ("cluster_shade", 1e6, "outside"),
                                ("cluster_prominence", -1.0, "outside")):
        yield (name + " beyond its bounds", *f("more", name, "max" if value > 0.3 and name !=
                                               "joint_average" else "min", value, levels=8), reason)
    for name, change, reason in (("joint_average", lambda v: v + 0.001,
                                  "joint_average is not half of sum_average"),
                                 ("cluster_tendency", lambda v: v * 1.001,
                                  "cluster_tendency is not sum_variance"),
                                 ("cluster_prominence", lambda v: v / 50, "cluster_prominence")):
        yield (name + " out of line", *f("more", name, "mean", change, levels=8), reason)
    yield ("idm below its bound", *f("plain", "idm", "mean", lambda v: v / 3), "idm")
    yield ("a whole distance NaN", "plain", lambda a: set_at(a["features"], (0, slice(0, 65)), nan),
           "NaN, where windows have pairs")
    yield ("values where no window has a pair", "full",
           lambda a: set_at(a["features"], (1, slice(130, 195)), 0.5),
           "not NaN, where no window has a pair")
    yield ("another NaN", "full", lambda a: set_at(a["features"].view("<u8"), (1, slice(130, 195)),
                                                    0x7ff8000000000001), "d09: ")
    yield ("a mean that the offsets do not give", *f("full", "entropy", "mean", bit(0)),
           "not what offset_features gives")
    yield ("an sd that the offsets do not give", *f("full", "entropy", "sd", bit(3)),
           "not what offset_features gives")
    yield ("an offset's minimum", "full",
           lambda a: set_at(a["offset_features"], (0, 0, 0, 4, 2), 0.3), "idm: minimum")
    yield ("an offset's variance below 0", "full",
           lambda a: set_at(a["offset_features"], (0, 0, 0, 4, 1), -1e-9),
           "the standard deviation is not between")
    yield ("an offset's negative zero", "full",
           lambda a: set_at(a["offset_features"], (0, 0, 0, 1, 2), -0.0),
           "a negative zero|bounds|between|not what")
    yield ("a band without windows", "plain", lambda a: set_at(a["band_sums"], (0, 1), 1),
           "band_sums: band 1: is not 0, but has no windows")
    yield ("a band's sum", "plain",
           lambda a: set_at(a["band_sums"], (0, 0), a["band_sums"][0, 0] + 1), None)
    yield ("means of an entropy 2% larger", *f("wide", "entropy", "mean", lambda v: v * 1.02),
           "their means are not those of band_sums")
    yield ("offsets changed", "full", lambda a: set_at(a["offsets"], (0, 0), 7),
           "array offsets: differs from what")
    yield ("a feature's name changed", "full",
           lambda a: set_at(a["feature_names"], 3, "glcm_L16_d01_x"),
           "array feature_names: differs from what")
    yield ("a hole in a map", "full", lambda a: set_at(first_map(a), (20, 20), nan),
           "NaN, where the window has pairs")
    yield ("a map's value beyond the maximum", "full",
           lambda a: set_at(first_map(a), (20, 20), 1e6),
           "outside minimum and maximum")
    yield ("a map's largest value lowered", "full", lambda a: lower_largest(first_map(a)),
           "is not that of offset_f")
    yield ("a flat map", "full", lambda a: set_at(first_map(a), slice(None), first_map(a).max()),
           "of offset_features")
    yield ("a map turned over", "full",
           lambda a: set_at(first_map(a), slice(None), first_map(a)[::-1].copy()), None)
    yield ("maps of two items swapped", "full", swap_maps, "is not that of offset_features")
    yield ("values of two items swapped", "plain", lambda a: swap_rows(a, ["features"], 0, 1),
           "their means are not those of band_sums")
    yield ("the lowest bit of a mean", *f("plain", "correlation", "mean", bit(0)), None)
    yield ("the lowest bit of an sd", *f("plain", "contrast", "sd", bit(0)), None)
    yield ("the lowest bit of a range", *f("plain", "contrast", "range", bit(0)), None)
    yield ("a minimum lower by 2^-32", *f("plain", "contrast", "min", lambda v: v + 2.0 ** -32),
           None)
    yield ("another picture's numbers", "masked",
           lambda a: set_at(a["features"], 2, a["features"][3]), None)
    yield ("a stack's entropy", *f("stack", "entropy", "sd", lambda v: v * 0.99, None, 8), None)


def swap_columns(a, one, other):
    x = a["features"].reshape(len(a["features"]), -1, 5)
    i, j = STATISTICS[one], STATISTICS[other]
    x[0, 1, [i, j]] = x[0, 1, [j, i]]


def first_map(a):
    return a["map_cell_0_contrast_L16_1_0"]


def lower_largest(m):
    m[np.unravel_index(np.nanargmax(m), m.shape)] = np.nanmin(m)


def swap_maps(a):
    one, other = "map_cell_0_contrast_L16_1_0", "map_cell_1_contrast_L16_1_0"
    a[one], a[other] = a[other].copy(), a[one].copy()
