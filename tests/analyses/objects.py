"""The data of objects for the tests over all analyses; __init__.py explains the names."""
import numpy as np
import scipy.ndimage

from forge import column_of, swap_rows
from oracle.workunit import item
from pictures import (DEEP, SMOOTH, SMOOTH_STACK, TINY, coins, gravel, noise, one_of, random_items,
                      some_of)

FEATURES = ["asm", "contrast", "correlation", "variance", "idm", "sum_average", "sum_variance",
            "sum_entropy", "entropy",
            "difference_variance", "difference_entropy", "imc1", "imc2", "joint_maximum",
            "joint_average",
            "difference_average", "inverse_difference", "inverse_difference_normalised",
            "inverse_difference_moment_normalised", "inverse_variance", "autocorrelation",
            "cluster_tendency",
            "cluster_shade", "cluster_prominence"]


def tiles(seed, n, *shape):
    """Labels in blocks, with holes, separate pieces, unused numbers and single pixels."""
    rng = np.random.default_rng(seed)
    size = (3, 7, 8)[-len(shape):]
    blocks = rng.integers(0, n, [s // b + 1 for s, b in zip(shape, size)]) * 3
    labels = np.kron(blocks, np.ones(size, int))[tuple(slice(0, s) for s in shape)]
    labels[rng.random(shape) < 0.08] = 0
    dots = rng.random(shape) < 0.01
    labels[dots] = rng.integers(1, 4 * n, dots.sum())
    return labels


def texture(seed, *shape):
    rng = np.random.default_rng(seed)
    ramp = sum(np.indices(shape)) * 2
    return (60 + ramp % 90 + rng.integers(0, 60, shape)).astype(np.uint8)


def flat():
    return [item("flat_%d" % i, [texture(i, 40, 44)], labels=[tiles(i, 12, 40, 44)])
            for i in range(3)]


def deep(spacing=(0.5, 0.25, 0.3)):
    return [item("deep_%d" % i, list(texture(i, 9, 22, 24)), labels=list(tiles(i, 9, 9, 22, 24)),
                 spacing=spacing)
            for i in range(2)]


def sixteen():
    many = np.arange(1, 41 * 38 + 1).reshape(41, 38) * 10007 % 16777213
    return [item("many", [texture(5, 41, 38).astype(np.uint16) * 211],
                 labels=[many * (many % 3 == 0)]),
            item("one", [texture(6, 30, 30) * np.uint16(257)], labels=[np.full((30, 30), 70000)]),
            item("none", [texture(7, 12, 13).astype(np.uint16) * 200],
                 labels=[np.zeros((12, 13), int)])]


def uniform():
    """An object of the largest size that a device takes, with one grey value. All of its pairs are
    counted in one entry of its matrix, and this count is too large for the table of logarithms."""
    return [item("uniform", [np.full((180, 182), 9, np.uint8)], labels=[np.ones((180, 182), int)])]


JOBS = {
    "flat": ({"texture_features": "ibsi", "distances": [1, 3], "levels": 16}, flat()),
    "deep": ({"texture_features": "ibsi", "levels": 8, "range": "image"}, deep()),
    "merged": ({"aggregate": "merge", "texture_features": ["contrast", "joint_maximum", "imc2"],
                "range": [80, 160],
                "exclude_border": True}, flat()),
    "sixteen": ({"families": ["shape", "intensity"]}, sixteen()),
    "textures": ({"families": ["texture"], "aggregate": "merge", "distances": [2, 1],
                  "range": "type"}, deep()),
    "minute": ({"families": ["shape"]}, deep((5e-7, 2e-7, 3e-7))),
    "uniform": ({"families": ["texture"], "aggregate": "merge", "texture_features": "ibsi"},
                uniform()),
}


KNOWN = {"flat": "0ce535d4", "deep": "3f9baa12", "merged": "8be6a60c", "sixteen": "9b9537ad",
         "textures": "677d21a6", "uniform": "d7449905",
         "minute": "056103ca"}


def random_job(rng):
    stack = one_of(rng, True, False)
    items = [dict(it, labels=[rng.integers(0, one_of(rng, 2, 9, 300, 90000), p.shape[:2])
                              if rng.random() < 0.4
                              else tiles(int(rng.integers(99)), 9, *p.shape[:2])
                              for p in it["slices"]])
             for it in random_items(rng, stack, False)]
    return {"families": [str(f) for f in rng.choice(["shape", "intensity", "texture"],
                                                    rng.integers(1, 4), False)],
            "levels": one_of(rng, 2, 7, 32, 256),
            "range": one_of(rng, "object", "image", "type", [10, 10], [9, 200]),
            "distances": some_of(rng, [1, 2, 3, 8, 255], 3),
            "aggregate": one_of(rng, "average", "merge"),
            "texture_features": one_of(rng, "haralick", "ibsi",
                                       [str(f) for f in rng.choice(FEATURES, 5, False)]),
            "exclude_border": one_of(rng, True, False)}, items


def squares(*shape):
    """Labels of squares, or cubes, with sides of 8 and gaps of 2."""
    n = [s // 10 for s in shape]
    one = np.pad(np.ones([8] * len(shape), int), [(0, 2)] * len(shape))
    return np.kron(np.arange(1, np.prod(n) + 1).reshape(n), one)


def memory_jobs():
    return [({"levels": 256}, noise(1200, 1600),
             np.arange(1200 * 1600).reshape(1200, 1600) % 65000),
            ({"families": ["shape", "intensity"]}, noise(2000, 2000), squares(2000, 2000)),
            ({"distances": [1, 2]}, noise(60, 400, 400), squares(60, 400, 400))]


def _tiny():
    labels = [np.indices((14, 17)).sum(0) // 5 % 4 * (p["slices"][0] > 60) * 7 for p in TINY]
    return [dict(p, labels=[lab]) for p, lab in zip(TINY, labels)]


SEEDS = [({"levels": 5}, _tiny()),
         ({"levels": 4, "texture_features": "ibsi", "aggregate": "merge"},
          [item("s", [t["slices"][0] for t in _tiny()], labels=[t["labels"][0] for t in _tiny()])])]

ESTIMATES = [(["families=[\"shape\",\"intensity\"]"], np.tile(SMOOTH, (2, 2)), squares(960, 1280)),
             (["distances=[1,2]"], SMOOTH_STACK,
              np.pad(squares(10, 240, 320), ((3, 3), (0, 0), (0, 0)))),
             (["levels=32"], np.tile(SMOOTH, (3, 3)), squares(1440, 1920)),
             (["levels=256", "distances=[1,2,3,4]"], np.tile(SMOOTH, (2, 2))[:, :960],
              np.kron(np.arange(1, 160 * 160 + 1).reshape(160, 160), np.pad([[1]], (0, 5))))]

DATA_SET = {
    "nuclei": ({"texture_features": "ibsi"}, flat()),
    "nuclei3": ({"distances": [1, 2]},
                [item("s", DEEP, labels=list(tiles(3, 5, 5, 20, 22)), spacing=[1.5, 1, 1])]),
}

COINS = [scipy.ndimage.label(scipy.ndimage.binary_opening(coins() > 110, iterations=3))[0]]
BLANK = {
    "all": ({}, [coins()], [gravel()], COINS),
    "shape and intensity": ({"families": ["shape", "intensity"]}, [coins()], [gravel()], COINS),
    "texture": ({"families": ["texture"], "range": "image"}, [coins()], [gravel()], COINS),
    "stack": ({}, [coins()] * 9, [gravel()] * 9, COINS * 9),
}


def forgeries():
    column = column_of("flat")
    nan = float("nan")
    big = 3         # the row of a large object with several grey values

    yield column("objects", 0, lambda v: v + 1, "objects: is ")
    yield column("object_label", 0, 0, "object_label: labels must rise")
    yield column("object_label", 1, lambda v: 1 << 24, "object_label: labels must rise")
    yield ("two labels exchanged", "flat", lambda a: swap_rows(a, ["object_label"], 0, 1),
           "object_label: labels must rise")
    yield column("object_area", big, 0, "object_area: does not go with object_bbox")
    yield column("object_area", big, 44 * 40 + 1, "object_area: does not go with object_bbox")
    yield column("object_area", big, lambda v: v + 1, "object_centroid: cannot be|object_extent")
    yield column("object_bbox", (big, 0), -1, "object_bbox: not a box")
    yield column("object_bbox", (big, 2), 41, "object_bbox: not a box")
    yield column("object_bbox", (big, 3), 0, "object_bbox: not a box")
    yield column("object_bbox", (big, 0), -1 << 63, "object_bbox: not a box")
    yield column("object_bbox", (big, 2), (1 << 63) - 1, "object_bbox: not a box")
    yield column("object_euler_number", big, (1 << 63) - 1, "object_euler_number: does not go")
    yield column("object_euler_number", big, -1 << 63, "object_euler_number: does not go")
    yield column("object_centroid", (big, 0), 39.75, "object_centroid: cannot be")
    yield column("object_centroid", (big, 1), nan, "object_centroid: cannot be")
    yield column("object_centroid", (big, 1), lambda v: np.nextafter(v, 0),
                 "object_centroid: cannot be")
    yield column("object_border", big, lambda v: not v,
                 "object_border: does not go with object_bbox")
    yield column("object_extent", big, lambda v: np.nextafter(v, 0),
                 "object_extent: is not the share")
    yield column("object_perimeter", big, -1.0, "object_perimeter: impossible")
    yield column("object_perimeter", big, nan, "object_perimeter: impossible")
    yield column("object_perimeter", big, 1e4, "object_perimeter: impossible")
    yield column("object_perimeter", big, lambda v: v + 0.3,
                 "object_perimeter: impossible")
    yield column("object_perimeter", big, lambda v: v + 1, "object_form_factor: does not go")
    yield column("object_form_factor", big, lambda v: 2 * v, "object_form_factor: does not go")
    yield column("object_equivalent_diameter_area", big, lambda v: v + 1,
                 "object_equivalent_diameter_area: does not")
    yield column("object_axis_major_length", big, 1e3,
                 "object_axis_major_length, object_axis_minor_length: impossible")
    yield column("object_axis_minor_length", big, 1e3,
                 "object_axis_major_length, object_axis_minor_length: impossible")
    yield column("object_axis_minor_length", big, -1.0,
                 "object_axis_major_length, object_axis_minor_length: impossible")
    yield column("object_axis_major_length", big, lambda v: v * 1.001,
                 "object_eccentricity: does not go")
    yield column("object_eccentricity", big, 1.5, "object_eccentricity: does not go")
    yield column("object_eccentricity", big, lambda v: v * 0.99, "object_eccentricity: does not go")
    yield column("object_orientation", big, 1.6, "object_orientation: not from")
    yield column("object_orientation", big, nan, "object_orientation: not from")
    yield column("object_orientation", big, lambda v: v / 2, None)
    yield column("object_area_convex", big, 1, "object_area_convex: is less than")
    yield column("object_area_convex", big, 1 << 20, "object_area_convex: is less than")
    yield column("object_solidity", big, lambda v: np.nextafter(v, 0),
                 "object_solidity: is not object_area")
    yield column("object_holes", big, -1, "object_holes: more than")
    yield column("object_holes", big, 5000, "object_holes: more than")
    yield column("object_euler_number", big, 5000, "object_euler_number: does not go")
    yield column("object_euler_number", big, -5000, "object_euler_number: does not go")
    yield column("object_feret_diameter_max", big, 0.5, "object_feret_diameter_max: impossible")
    yield column("object_feret_diameter_max", big, 500.0, "object_feret_diameter_max: impossible")
    yield column("object_feret_diameter_max", big, lambda v: np.nextafter(v, 0),
                 "object_feret_diameter_max: impossible")
    yield column("object_intensity_min", big, -1,
                 "object_intensity_min, object_intensity_max: not two")
    yield column("object_intensity_max", big, 256,
                 "object_intensity_min, object_intensity_max: not two")
    yield column("object_intensity_min", big, 250,
                 "object_intensity_min, object_intensity_max: not two")
    yield column("object_intensity_mean", big, 1.0, "object_intensity_mean: not from minimum")
    yield column("object_intensity_mean", big, lambda v: np.nextafter(v, 0),
                 "object_intensity_integrated: does not go")
    yield column("object_intensity_integrated", big, lambda v: v + 1,
                 "object_intensity_integrated: does not go")
    yield column("object_intensity_median", big, 300.0, "object_intensity_percentile: not in order")
    yield column("object_intensity_median", big, lambda v: v + 0.25,
                 "object_intensity_median: neither|percentile: not in order")
    yield column("object_intensity_percentile", (big, 0), 0.0,
                 "object_intensity_percentile: not in order")
    yield column("object_intensity_percentile", (big, 5), lambda v: v + 0.0031,
                 "object_intensity_percentile: not ")
    yield column("object_intensity_percentile", (big, 2), nan,
                 "object_intensity_percentile: not in order")
    yield column("object_intensity_std", big, 0.0, "object_intensity_std: impossible")
    yield column("object_intensity_std", big, 300.0, "object_intensity_std: impossible")
    yield column("object_intensity_std", big, nan, "object_intensity_std: impossible")
    yield column("object_intensity_kurtosis", big, -2.5, "object_intensity_kurtosis: does not go")
    yield column("object_intensity_kurtosis", big, 1e9, "object_intensity_kurtosis: does not go")
    yield column("object_intensity_skewness", big, 50.0, "object_intensity_kurtosis: does not go")
    yield column("object_intensity_entropy", big, 20.0, "object_intensity_entropy: impossible")
    yield column("object_intensity_entropy", big, -0.5, "object_intensity_entropy: impossible")
    yield column("object_intensity_entropy", big, nan, "object_intensity_entropy: impossible")
    yield column("object_centroid_weighted", (big, 0), 44.0, "object_centroid_weighted: not within")
    yield column("object_centroid_weighted", (big, 1), nan, "object_centroid_weighted: not within")
    for i, name in enumerate(FEATURES):
        yield column("object_glcm", (big, i), 1e12, "object_glcm: a feature is beyond",
                     what=name + " made 1e12")
        if name not in ("cluster_shade", "correlation", "imc1"):
            yield column("object_glcm", (big, i), -0.5, "object_glcm: a feature is beyond",
                         what=name + " made -0.5")
    position = FEATURES.index
    yield column("object_glcm", (big, position("entropy")), nan,
                 "object_glcm: some features are numbers and some are not")
    yield column("object_glcm", (big, position("asm")), lambda v: 0.9,
                 "object_glcm: one feature is greater")
    yield column("object_glcm", (big, position("entropy")), 1.0,
                 "object_glcm: one feature is greater",
                 what="entropy made 1")
    yield column("object_glcm", (big, position("idm")), 1.0, "object_glcm: one feature is greater")
    yield column("object_glcm", (big, position("variance")), lambda v: v * 1.001,
                 "object_glcm: variance, sum_variance and")
    yield column("object_glcm", (big, position("contrast")), lambda v: v * 1.001,
                 "object_glcm: variance, sum_variance and")
    yield column("object_glcm", (big, position("cluster_tendency")), lambda v: np.nextafter(v, 0),
                 "object_glcm: cluster_tendency is not")
    yield column("object_glcm", (big, position("joint_average")), lambda v: v + 0.001,
                 "object_glcm: joint_average is not half")
    yield column("object_glcm", (big, position("difference_variance")), lambda v: v * 1.5,
                 "object_glcm: ")
    yield column("object_glcm", (big, position("autocorrelation")), 1.0,
                 "object_glcm: autocorrelation is less")
    yield column("object_glcm", (big, position("cluster_shade")), lambda v: v + 1, None)
    yield column("object_voxels", 2, 1, "object_voxels: does not go", "deep")
    yield column("object_volume_um3", 2, lambda v: v * 2, "object_volume_um3: is not object_voxels",
                 "deep")
    yield column("object_bbox", (2, 3), 99, "object_bbox: not a box", "deep")
    yield column("object_axis_length", (2, 0), 0.0, "object_axis_length: impossible", "deep")
    yield column("object_axis_length", (2, 0), 90.0, "object_axis_length: impossible", "deep")
    yield column("object_surface", 2, -1.0, "object_surface: impossible", "deep")
    yield column("object_surface", 2, 1e9, "object_surface: impossible", "deep")
    yield column("object_surface", 2, lambda v: v * 1.01, "object_sphericity: does not go", "deep")
    yield column("object_surface", 2, lambda v: v * 1000, "object_surface: impossible", "minute")
    yield column("object_mesh_volume", 2, lambda v: v * 1000, "object_mesh_volume: impossible",
                 "minute")
    yield column("object_axis_length", (1, 0), lambda v: v * 20,
                 "object_axis_length: impossible", "minute")
    yield column("object_mesh_volume", 2, 0.0, "object_mesh_volume: impossible", "deep")
    yield column("object_mesh_volume", 2, lambda v: v * 1.01, "object_sphericity: does not go",
                 "deep")
    yield column("object_sphericity", 2, lambda v: np.nextafter(v, 0),
                 "object_sphericity: does not go", "deep")
    yield column("object_euler_number", 2, 1 << 30, "object_euler_number: impossible", "deep")
    yield column("object_intensity_std", 0, 1.0, "object_intensity_std: all pixels have",
                 "sixteen")
    yield column("object_border", 0, True, "object_border: does not go", "merged")
    yield ("an object too few", "flat", lambda a: a["objects"].__setitem__(1, a["objects"][1] - 1),
           "objects: is ")
    yield ("one object's values in another's row", "sixteen",
           lambda a: swap_rows(a, ["object_intensity_entropy", "object_intensity_std"], 0, -1),
           "object_intensity_std")
    yield ("two objects exchanged", "flat",
           lambda a: swap_rows(a, [k for k in a if k.startswith("object_") and k not in
                                   ("object_item", "object_label")], 1, 2), None)
