"""Lazy cheats who know the source: results that cost less than the work, consistent in themselves,
so that nothing but pixels tells. Of every analysis each is refused or computed again, with each of
SEEDS seeds (20; check-long takes 100), and the honest ones are accepted. Pictures are so large that
they are not computed again in any case. What differs in little, or costs most of the work, is found
with the odds that docs/validation.md has, counted here.

FORGERS: a regular expression of forgeries; of those with care the names begin with "odds, "."""
import os
import re

import numpy as np
import scipy.ndimage

import forge
import tap
from oracle import workunit
from pictures import coins, gravel

FOLDER = tap.scratch()
SEEDS = range(int(os.environ.get("SEEDS", "20")))
ONLY = re.compile(os.environ.get("FORGERS", ""))
BRIGHT = {"polarity": "bright"}
EVERY = dict(BRIGHT, min_area=20, min_contrast={"full_area": 520, "percent": 40}, smooth=1,
             fill_holes=True, split="distance", threshold="local", window=113, offset_percent=20)
WINDOWS = {"levels": [16, 64], "distances": [1, 3], "window": {"shape": "disc", "radius": 5}}
LEVEL = {"target": 180, "epsilon": 60, "alpha": 0.02, "iterations": 400,
         "init": {"type": "ball", "cx": 66, "cy": 65, "r": 12}}


def path(name):
    return os.path.join(FOLDER, name)


def cells(side=400, n=120, seed=1, radius=(4, 9)):
    """Discs, some of which touch, on an uneven ground."""
    rng = np.random.default_rng(seed)
    y, x = np.indices((side, side))
    picture = 60 + 20 * np.sin(x / 90.0) + rng.normal(0, 4, (side, side))
    for _ in range(n):
        cy, cx, r = rng.uniform(0, side), rng.uniform(0, side), rng.uniform(*radius)
        picture[(y - cy) ** 2 + (x - cx) ** 2 < r * r] += 90
    return picture.clip(0, 255).astype(np.uint8)


def many_cells():
    return np.tile(cells(), (4, 4))


def different_cells():
    return np.block([[cells(seed=4 * i + k) for k in range(4)] for i in range(4)])


def clumped():
    """Discs that lie alone, and on the right discs that all touch."""
    picture = 60 + np.random.default_rng(3).normal(0, 4, (1600, 1600))
    y, x = np.indices((18, 18)) - 8.5
    disc = 90 * (y * y + x * x < 81)
    for step, first, end in (26, 4, 1310), (17, 1320, 1580):
        for i in range(4, 1580, step):
            for k in range(first, end, step):
                picture[i:i + 18, k:k + 18] = np.maximum(picture[i:i + 18, k:k + 18], 60 + disc)
    return picture.clip(0, 190).astype(np.uint8)


def one_clump(a, _analysis):
    """All regions on the right are one."""
    box, area = a["region_bbox"], a["region_area"]
    right = box[:, 3] > 1318
    first, n = np.flatnonzero(right)[0], area[right].sum()
    for name, whole in ("mean", a["region_mean"]), ("centroid", a["region_centroid"]):
        weight = area[right] if whole.ndim == 1 else area[right, None]
        a["region_" + name][first] = np.round((whole[right] * weight).sum(0)) / n
    box[first] = np.concatenate([box[right, :2].min(0), box[right, 2:].max(0)])
    area[first] = n
    a["region_border"][first] = box[first].min() == 0 or box[first].max() == 1600
    relabel(a, ~right | (np.arange(len(right)) == first))


def no_clump(a, _analysis):
    relabel(a, a["region_bbox"][:, 3] <= 1318)


def rows_where(arrays, table, keep):
    """The table's rows of the one item that are kept."""
    for name in arrays:
        if name.startswith(table + "_"):
            arrays[name] = arrays[name][keep]


# --- cellcount
# -------------------------------------------------------------------------------------

def relabel(a, keep):
    """Regions that are left out are no region; labels in turn."""
    rows_where(a, "region", keep)
    a["count"][0] = keep.sum()
    a["region_label"] = np.arange(1, keep.sum() + 1)
    if "labels_one" in a:
        a["labels_one"] = np.concatenate([[0], np.where(keep, np.cumsum(keep), 0)]).astype(
            np.int32)[a["labels_one"]]


def giants(a, parameters, picture, n=2):
    """So many regions that are as large as the picture."""
    ny, nx = picture.shape
    t, bright = (int(a["threshold"][0]),
                 a["bright"][0] if "bright" in a else parameters.get("polarity") == "bright")
    side = (picture >= t) == bright
    area = max(int(side.sum()) // n, nx + ny)
    a["count"][0] = n
    if parameters.get("fill_holes"):
        area = nx * ny // n
    values = {"item": 0, "area": area, "mean": float(t + 3 if bright else t - 3), "border": True}
    for key, value in values.items():
        a["region_" + key] = np.full(n, value, a["region_" + key].dtype)
    a["region_label"] = np.arange(1, n + 1)
    a["region_bbox"] = np.tile(np.array([0, 0, ny, nx]), (n, 1))
    a["region_centroid"] = np.tile([float(ny // 2), float(nx // 2)], (n, 1))
    if not parameters.get("min_area") and not parameters.get("fill_holes"):
        a["region_area"][-1] = int(side.sum()) - area * (n - 1)


def cellcount():
    for title, more in (("plain", {}), ("small ones left out", {"min_area": 20}),
                        ("filled", {"fill_holes": True, "min_area": 20}),
                        ("split by distance", {"split": "distance", "min_area": 20}),
                        ("of any polarity",
                         {"polarity": "auto", "split": "distance", "min_area": 20}),
                        ("split by intensity", {"split": "intensity", "min_area": 20}),
                        ("split and filled",
                         {"split": "distance", "fill_holes": True, "min_area": 20}),
                        ("smoothed", {"smooth": 1, "min_area": 20}),
                        ("a local threshold", {"threshold": "local", "window": 31, "min_area": 20}),
                        ("labels", {"labels": True, "min_area": 20})):
        parameters = BRIGHT | more

        def top(a):
            relabel(a, a["region_bbox"][:, 2] < 240)

        def nothing(a):
            relabel(a, np.zeros(len(a["region_item"]), bool))

        picture = many_cells()
        forgeries = {"the top of the picture alone": top, "no region": nothing}
        if "labels" not in more:
            forgeries["two giants"] = lambda a, p=parameters, im=picture: giants(a, p, im)
            forgeries["one giant"] = lambda a, p=parameters, im=picture: giants(a, p, im, 1)
        if "min_area" not in more:                 # the number of pixels tells
            del forgeries["the top of the picture alone"], forgeries["no region"]
        yield title, parameters, [picture], None, forgeries
    for name, picture in (("coins", coins()), ("gravel", gravel())):
        yield name, {}, [picture], None, {"two giants": lambda a, im=picture: giants(a, {}, im)}


# --- the others
# ------------------------------------------------------------------------------------

def no_cells(a, small=False):
    rows_where(a, "cell", np.zeros(len(a["cell_item"]), bool))
    a["left_out_voxels" if small else "external_voxels"][0] += a["inside_voxels"][0]
    a["cells"][0] = a["inside_voxels"][0] = a["volume"][0] = 0
    if "labels_one" in a:
        a["labels_one"][:] = 0


def shells():
    rng = np.random.default_rng(3)
    z, y, x = np.indices((24, 90, 90))
    edges = (np.sin(x / 5.0) * np.sin(y / 5.0) * np.cos(z / 4.0))
    stack = np.where(np.abs(edges) < 0.25, 180,
                     40).astype(np.uint8) + rng.integers(0, 20, (24, 90, 90)).astype(np.uint8)
    return list(np.tile(stack, (1, 3, 3)))


def volume():
    yield "3d", {"membrane": 110}, shells(), None, {"no cells": no_cells}
    yield "with labels", {"membrane": 110, "labels": True}, shells(), None, {"no cells": no_cells}
    yield ("repaired", {"membrane": 110, "repair": {"sigma": 1}}, shells(), None,
           {"no cells": no_cells})
    yield ("slices", {"membrane": 110, "mode": "slices", "min_voxels": 5}, shells(), None,
           {"no cells": lambda a: no_cells(a, True)})


def objects():
    picture = many_cells()
    labels = scipy.ndimage.label(picture > 110)[0]
    few = np.zeros((720, 720), int)
    few[60:300, 60:360], few[420:660, 120:600] = 1, 2

    def texture(a, of=0):
        a["object_glcm"][:] = a["object_glcm"][of]

    for title, im, lab in (("many", picture, labels), (
            "two", np.random.default_rng(5).integers(0, 256, (720, 720)).astype(np.uint8), few)):
        yield title, {}, [im], [lab], {"another's texture": texture}


def points_moved(a):
    a["point"] = np.maximum(a["point"] - 1, 0)


def voting():
    def none(a):
        a["point_item"] = a["point_item"][:0]
        a["point"], a["score"] = a["point"][:0], a["score"][:0]
        a["count"][0] = 0

    def scores(a):
        a["score"] = a["score"] * 9 // 10

    more = {"points moved by a pixel": points_moved, "other scores": scores}
    for title, picture in (("many", cells()), ("few", cells(n=3))):
        yield (title, {"radius": 7, "polarity": "bright"}, [picture], None,
               more | {"no points": none})
    yield ("own radius", {"radius": 9, "own_radius": True, "polarity": "auto",
                          "foreground": "otsu"}, [cells()], None, more)


def glcm():
    def copied(a):
        n = len(a["feature_names"])
        before = sum_of_means(a)
        a["features"][0, n // 4:] = np.resize(a["features"][0, :n // 4], n - n // 4)
        total = int(a["band_sums"][0, 0].view(np.uint64)) + sum_of_means(a) - before
        a["band_sums"][0, 0] = np.array(total % 2 ** 64, np.uint64).view(np.int64)

    def no_sd(a):
        a["features"][0, 2::5] = 0

    yield "windows", WINDOWS, [gravel()], None, \
        {"one number of levels and distance alone": copied, "no standard deviation": no_sd}


def sum_of_means(a):
    """Of all windows and offsets, as band_sums have it."""
    windows, offsets = gravel().size, {"01": 4, "03": 8}
    return sum(int(mean * 2.0 ** 32 * windows * offsets[name.split("_d")[1][:2]])
               for mean, name in zip(a["features"][0], a["feature_names"])
               if name.endswith("_mean"))


def goes(a, sides):
    """The masks on the way, the last of which is the result's."""
    a["history_one"] = sum(side.astype(np.int64) << k
                           for k, side in enumerate(sides)).astype(np.int32)
    a["mask_one"] = sides[-1].astype(np.uint8)
    a["inside_voxels"][0] = a["measure"][0] = a["mask_one"].sum()


def levelset():
    def stays(a, mask):
        """Eight stretches, from the start to the mask at once."""
        goes(a, [a["history_one"] & 1] + [mask] * 8)

    def ball(a, r):
        y, x = np.indices(a["mask_one"].shape)
        stays(a, (y - 65) ** 2 + (x - 66) ** 2 <= r * r)

    def box(a):
        mask = np.zeros_like(a["mask_one"])
        mask[48:85, 48:85] = 1
        stays(a, mask)

    def box_at_last(a):
        sides = sides_of(a)
        sides[-1] = np.zeros_like(a["mask_one"])
        sides[-1][48:85, 48:85] = 1
        goes(a, sides)

    for where, band in ("", 0), (" in a band", 6):
        yield "a picture" + where, LEVEL | {"band": band}, [coins()[:160, :160]], None, {
            "a box": box, "a box after an honest way": box_at_last,
            "the start": lambda a: ball(a, 12),
            "the start, half as large again": lambda a: ball(a, 18)}
        long = LEVEL | {"band": band, "iterations": 1630}
        for title, more in (("a part of a stretch", {}),
                            ("an early end", {"iterations": 20000, "stop_after": 300}),
                            ("vanishes", {"epsilon": 1}),
                            ("by Otsu", {"target": "otsu", "init": {"type": "otsu"}}),
                            ("all the picture", {"epsilon": 255, "alpha": 0.2}),
                            ("an early end of few",
                             {"iterations": 2000, "stop_after": 700, "dt": 0.01}),
                            ("at edges", {"edge_stop": 0.001, "smooth": 1})):
            yield title + where, long | more, [coins()[:160, :160]], None, {}
        deep = long | {"iterations": 200, "reinit_every": 20, "init": LEVEL["init"] | {"cz": 8}}
        yield "a stack" + where, deep, [coins()[i:i + 100, i:i + 100] for i in range(16)], None, {}
    yield "without a history", LEVEL | {"reinit_every": 0}, [coins()[:160, :160]], None, {}
    yield ("a narrow one", LEVEL | {"init": {"type": "ball", "cx": 66, "cy": 5, "r": 4}},
           [coins()[40:52, :160]], None, {})


def sides_of(a):
    return [a["history_one"] >> k & 1 for k in range(int(a["history_one"].max()).bit_length())]


def disc(like, pixels):
    """Of so many pixels, around the same middle."""
    y, x = np.indices(like.shape)
    cy, cx = (like * y).sum() / like.sum(), (like * x).sum() / like.sum()
    distance = (y - cy) ** 2 + (x - cx) ** 2
    return (distance <= np.sort(distance.ravel())[pixels - 1]).astype(like.dtype)


def discs(a, _analysis):
    """In place of each mask on the way."""
    sides = sides_of(a)
    goes(a, sides[:1] + [disc(side, side.sum()) for side in sides[1:]])


def grows(a, _analysis):
    sides = sides_of(a)
    first, last = int(sides[0].sum()), int(sides[-1].sum())
    goes(a, sides[:1] + [disc(sides[-1], first + (last - first) * k // 16) for k in range(1, 17)])


def enlarged(parameters, picture):
    """The masks of every second pixel, each pixel as four."""
    def change(a, analysis):
        init = {key: v // 2 if key in ("cx", "cy", "r") else v
                for key, v in parameters["init"].items()}
        part = computed(analysis, dict(parameters, init=init), [picture[::2, ::2]])
        first = sides_of(a)[:1]
        goes(a, first + [np.kron(side, np.ones((2, 2), side.dtype)) for side in sides_of(part)][1:])
    return change


# --- of every analysis: a step left out, a coarser picture, another one ---------------------------

def instead(parameters, slices, labels=None):
    """All arrays as they are with these parameters or pictures, in place of the right ones."""
    def change(a, analysis):
        part = computed(analysis, parameters, slices, labels=labels)
        for name in a:
            if name in part and part[name].ndim == a[name].ndim and part[name].dtype == a[
                    name].dtype:
                a[name] = part[name]
    return change


def coarse(parameters, slices, by=2):
    """As of every second pixel, lengths and areas times that."""
    def change(a, analysis):
        deep = len(slices) > 1
        part = computed(analysis, parameters, [s[::by, ::by] for s in slices[::by if deep else 1]])
        times = {"area": by ** 2, "voxels": by ** 3, "volume": by ** 3, "bbox": by, "centroid": by,
                 "point": by}
        for name in a:
            if a[name].dtype.kind != "U":
                a[name] = (part[name] * times.get(name.split("_")[-1], 1)).astype(a[name].dtype)
    return change


def alike(table, columns):
    """Rows that all have the first one's values."""
    def change(a, _analysis):
        for column in columns:
            a[table + "_" + column][:] = a[table + "_" + column][0]
    return change


def rolled(names):
    """Of each object what its neighbour has in these columns."""
    return lambda a, _analysis: a.update({name: np.roll(a[name], 1, 0)
                                          for name in a if re.match(names, name)})


def every_second(names):
    """Of every second object what its neighbour has in these columns."""
    def change(a, _analysis):
        for name in a:
            if re.match(names, name):
                a[name][::2] = np.roll(a[name], 1, 0)[::2]
    return change


def higher_means(a, _analysis):
    area = a["region_area"]
    a["region_mean"] = (np.round(a["region_mean"] * area) + area // 50 + 1) / area


def without_each(n):
    return lambda a, _analysis: relabel(a, np.arange(len(a["region_item"])) % n != n - 1)


def left_half(a, _analysis):
    """The left half's regions, and those again as its mirror image."""
    half = np.flatnonzero(a["region_bbox"][:, 3] <= 800)
    both = {name: np.concatenate([a[name][half], a[name][half]])
            for name in a if name.startswith("region_")}
    box, n = both["region_bbox"], len(half)
    box[n:, [1, 3]] = 1600 - box[n:, [3, 1]]
    both["region_centroid"][n:, 1] = 1599 - both["region_centroid"][n:, 1]
    order = np.lexsort((box[:, 1], box[:, 0]))
    a.update({name: column[order] for name, column in both.items()})
    a["region_label"], a["count"][0] = np.arange(1, 2 * n + 1), 2 * n


def keep_cells(a, keep):
    gone = int(a["cell_voxels"][~keep].sum())
    rows_where(a, "cell", keep)
    a["cell_label"], a["cells"][0] = np.arange(1, keep.sum() + 1), keep.sum()
    for name, sign in (("inside_voxels", -1), ("volume", -1), ("external_voxels", 1)):
        a[name][0] += sign * gone


def every_second_cell(a, _analysis):
    keep_cells(a, np.arange(len(a["cell_item"])) % 2 == 0)


def large_and_small():
    """Large cells, and small ones in the walls between them."""
    stack = np.full((24, 270, 270), 180, np.uint8)
    for y in range(5, 230, 66):
        for x in range(5, 230, 66):
            stack[2:22, y:y + 48, x:x + 48] = 40
        for x in range(4, 262, 9):
            stack[4:8, y + 51:y + 55, x:x + 4] = stack[12:16, y + 51:y + 55, x:x + 4] = 40
    return list(stack + np.random.default_rng(3).integers(0, 20, stack.shape).astype(np.uint8))


def no_large_cells(a, _analysis):
    keep_cells(a, a["cell_voxels"] < 1000)


def one_cell_of_all(a, _analysis):
    rows_where(a, "cell", np.arange(len(a["cell_item"])) == 0)
    a["cell_label"][:], a["cells"][0], a["cell_voxels"][0], a["cell_volume"][0] = (
        1, 1, a["inside_voxels"][0], a["volume"][0])
    a["cell_bbox"][0] = [1, 1, 1, 23, 269, 269]
    a["cell_centroid"][0] = 12


def maxima(radius, picture):
    """Where the smoothed picture has a maximum, in place of the points: with their scores."""
    def change(a, _analysis):
        smooth = scipy.ndimage.gaussian_filter(picture.astype(float), 3)
        at = np.argwhere((smooth == scipy.ndimage.maximum_filter(smooth, 2 * radius + 1)) & (
            smooth > smooth.mean()))
        n = min(len(at), len(a["score"]))
        for name in ("point_item", "score"):
            a[name] = a[name][:n]
        a["point"], a["count"][0] = at[:n].astype(a["point"].dtype), n
    return change


def upper_part(end):
    return lambda a, _analysis: keep_points(a, a["point"][:, -2] < end)


def keep_points(a, keep):
    for name in ("point_item", "point", "score"):
        a[name] = a[name][keep]
    a["count"][0] = keep.sum()


def another_threshold(parameters, picture):
    """Otsu's, as it is found in a part of the picture."""
    def change(a, analysis):
        t = int(a["threshold"][0]) + 5
        instead(dict(parameters, threshold=t), [picture])(a, analysis)
        a["threshold"][0] = t
    return change


def pairs(parameters, picture, first):
    """Numbers of levels and distances from this one on, of another picture."""
    def change(a, analysis):
        n = 65 * first
        a["features"][0, n:] = computed(analysis, parameters, [picture])["features"][0, n:]
    return change


def beyond(parameters, picture):
    """The 13 as they are, the others of every second pixel."""
    def change(a, analysis):
        part = computed(analysis, parameters, [picture[::2, ::2]])["features"]
        made_up = np.arange(len(a["feature_names"])) % (24 * 5) >= 13 * 5
        a["features"][0, made_up] = part[0, made_up]
        a["band_sums"] += a["band_sums"] != 0
    return change


def top_rows(end):
    return lambda a, _analysis: relabel(a, a["region_bbox"][:, 2] < end)


def largest(n):
    def change(a, _analysis):
        a["min_area"][0] = np.sort(a["region_area"])[-n]
        relabel(a, a["region_area"] >= a["min_area"][0])
    return change


def wide_boxes(n):
    """Each nth object has another's texture, and a shape that reaches from corner to corner."""
    def change(a, _analysis):
        of = np.arange(len(a["object_item"])) % n == n - 1
        a["object_glcm"][of] = np.roll(a["object_glcm"], 1, 0)[of]
        shape = {"bbox": [0, 0, 1020, 1020], "border": True, "eccentricity": 0,
                 "extent": a["object_area"][of] / 1020 ** 2, "feret_diameter_max": 1100}
        for axis in "major", "minor":
            shape["axis_%s_length" % axis] = 3000 / np.sqrt(a["object_area"][of])
        for key, value in shape.items():
            a["object_" + key][of] = value
    return change


def network():
    """A picture, and labels of 272 squares and, the last, of all that is around them."""
    labels = np.zeros((816, 816), int)
    squares = np.arange(1, 273).reshape(16, 17)
    labels[:768] = np.kron(squares, np.pad(np.ones((8, 8), int), 20))
    labels[scipy.ndimage.uniform_filter((labels > 0).astype(float), 7) == 0] = 273
    return np.random.default_rng(5).integers(0, 256, labels.shape).astype(np.uint8), labels


def last_texture(a, _analysis):
    a["object_glcm"][-1] = a["object_glcm"][0]


def first_objects(n):
    def change(a, _analysis):
        rows_where(a, "object", np.arange(len(a["object_item"])) < n)
        a["objects"][0] = n
    return change


def left_out():
    """Analysis, what, parameters, slices, labels, change."""
    cells_, other = different_cells(), np.rot90(different_cells()).copy()
    labels, others = ([scipy.ndimage.label(p > 110)[0]] for p in (cells_, other))
    step = dict(BRIGHT, min_area=20, threshold=110)
    rings = np.where(scipy.ndimage.distance_transform_edt(cells_ > 110) > 4, 60,
                     cells_).astype(np.uint8)
    for key, value in (("split", "distance"), ("smooth", 2), ("fill_holes", True),
                       ("background", {"method": "opening", "radius": 20})):
        whole = dict(step, threshold=40 if key == "background" else 110, **{key: value})
        picture = rings if key == "fill_holes" else cells_
        yield ("cellcount", "without " + key, whole, [picture], None,
               instead(dict(whole, **{key: None}), [picture]))
    soft = scipy.ndimage.gaussian_filter(cells_.astype(float), 1.5).round().astype(np.uint8)
    even = dict(step, threshold=40, background={"method": "opening", "radius": 20})
    yield ("cellcount", "connectivity 4 for 8", step, [soft], None,
           instead(dict(step, connectivity=4), [soft]))
    yield ("cellcount", "connectivity 8 for 4", dict(step, connectivity=4), [soft], None,
           instead(step, [soft]))
    yield "cellcount", "another window", dict(BRIGHT, threshold="local", window=31,
                                              min_area=20), [soft], None, \
        instead(dict(BRIGHT, threshold="local", window=33, min_area=20), [soft])
    for radius in 15, 30:
        ground = {"method": "opening", "radius": radius}
        yield ("cellcount", "a background of radius %d" % radius, even, [soft], None,
               instead(dict(even, background=ground), [soft]))
    for name, whole in ("background", even), ("smooth",
                                              dict(step, smooth=2)), ("holes",
                                                                      dict(step, fill_holes=True)):
        yield "cellcount", "every third region, with " + name, whole, [soft], None, without_each(3)
        yield ("cellcount", "all means a little higher, with " + name, whole, [soft], None,
               higher_means)
    faint = dict(step, min_contrast={"full_area": 520, "percent": 40})
    for name, whole in (("", faint), (" split", dict(faint, split="distance")),
                        (" with all filters", EVERY),
                        (" of any size",
                         dict(faint, min_contrast={"full_area": "auto", "percent": 40}))):
        yield ("cellcount", "the upper half alone of regions by contrast" + name, whole, [soft],
               None, top_rows(800))
    clump = clumped()
    for name, more in (("", {}), (", filled", {"fill_holes": True}), (", split", {
            "split": "distance"}), (", smoothed", {"smooth": 1}), (
                ", smoothed and split", {"split": "distance", "smooth": 1})):
        whole = dict(step, **more)
        yield "cellcount", "a clump left out" + name, whole, [clump], None, no_clump
        if "split" in more:
            yield "cellcount", "a clump as one" + name, whole, [clump], None, one_clump
    own = dict(step, min_area="auto")
    yield "cellcount", "the largest 200 alone", own, [soft], None, largest(200)
    yield ("cellcount", "the largest 700 alone, smoothed", dict(own, smooth=1), [soft], None,
           largest(700))
    yield "cellcount", "another picture's", step, [cells_], None, instead(step, [other])
    yield ("cellcount", "of every second pixel", step, [cells_], None,
           coarse(dict(step, min_area=5), [cells_]))
    otsu = dict(step, threshold="otsu")
    yield ("cellcount", "another Otsu's threshold", otsu, [cells_], None,
           another_threshold(otsu, cells_))
    yield "cellcount", "every second region", step, [cells_], None, without_each(2)
    yield "cellcount", "all but each tenth region", step, [cells_], None, without_each(10)
    yield "cellcount", "the left half, twice", step, [cells_], None, left_half
    yield ("cellcount", "all regions with one mean", step, [cells_], None,
           alike("region", ["area", "mean"]))
    stack = shells()
    turned = [np.rot90(s).copy() for s in stack]
    edge = {"membrane": 110}
    yield "volume", "another stack's", edge, stack, None, instead(edge, turned)
    yield "volume", "of every second voxel", edge, stack, None, coarse(edge, stack)
    yield ("volume", "without repair", dict(edge, repair={"sigma": 1}), stack, None,
           instead(edge, stack))
    yield "volume", "every second cell", edge, stack, None, every_second_cell
    yield "volume", "one cell of all", edge, stack, None, one_cell_of_all
    yield "volume", "without smooth", dict(edge, smooth=2), stack, None, instead(edge, stack)
    for name, more in ("", {}), (", smoothed", {"smooth": 1}):
        yield ("volume", "large cells left out" + name, dict(edge, **more), large_and_small(), None,
               no_large_cells)
    shed = {"method": "watershed", "smooth": 1, "labels": True}
    for smooth in 0.9, 1.1, 2:
        yield ("volume", "a watershed with smooth %g" % smooth, shed, stack, None,
               instead(dict(shed, smooth=smooth), stack))
    yield ("volume", "every second slice, twice", edge, stack, None,
           instead(edge, list(np.repeat(stack[::2], 2, 0))))
    edges = np.stack(shells())
    yield ("objects", "every second one another's texture", {}, [cells_], labels,
           every_second("object_glcm"))
    inner = {"exclude_border": True}
    yield "objects", "no object off the border", inner, [cells_], labels, first_objects(0)
    yield ("objects", "half of the objects off the border", inner, [cells_], labels,
           first_objects(700))
    yield ("objects", "no object off the border, without shapes",
           dict(inner, families=["intensity"]), [cells_], labels, first_objects(0))
    yield ("objects", "no object off the border of a stack", inner, list(edges),
           list(scipy.ndimage.label(edges < 110)[0]), first_objects(0))
    yield "objects", "every second one another's texture, without shapes", {
        "families": ["texture"]}, [cells_], labels, \
        every_second("object_glcm")
    some = slice(0, 1020), slice(0, 1020)
    yield ("objects", "a tenth of the textures, in wide boxes", {}, [cells_[some].copy()],
           [scipy.ndimage.label(cells_[some] > 110)[0]], wide_boxes(10))
    noise, network_ = network()
    yield ("objects", "another's texture for the one object of most pixels", {}, [noise],
           [network_], last_texture)
    yield "objects", "another picture's", {}, [cells_], labels, instead({}, [other], labels)
    yield ("objects", "of a smoothed picture", {}, [cells_], labels,
           instead({}, [scipy.ndimage.uniform_filter(cells_, 3)], labels))
    yield "objects", "another's intensities", {}, [cells_], labels, rolled("object_intensity")
    yield ("objects", "another's shape", {}, [cells_], labels,
           rolled("object_area|object_bbox|object_centroid$"))
    yield "objects", "other labels", {}, [cells_], labels, instead({}, [cells_], others)
    vote = {"radius": 7, "polarity": "bright"}
    yield "voting", "another picture's", vote, [cells()], None, instead(vote, [cells(seed=2)])
    sparse = cells(side=1600, n=60)
    apart = np.random.default_rng(6).normal(60, 4, (1600, 1600)).clip(0, 255).astype(np.uint8)
    apart[1000:1400, 600:1000] = cells()
    yield "voting", "sparse cells, the upper three quarters alone", vote, [sparse], None, \
        upper_part(1200)
    specks = cells(side=1600, n=80)
    specks[tuple(np.random.default_rng(5).integers(0, 1600, (2, 2000)))] = 255
    yield ("voting", "sparse cells among bright pixels, the upper quarter alone",
           dict(vote, threshold=20000), [specks], None, upper_part(400))
    yield ("voting", "cells in a sixteenth of the picture, the upper three quarters alone", vote,
           [apart], None, upper_part(1200))
    yield ("voting", "cells in a sixteenth of the picture, the upper three quarters of them", vote,
           [apart], None, upper_part(1300))
    yield ("voting", "cells of a rolled picture", vote, [apart], None,
           instead(vote, [np.roll(apart, 100, 1)]))
    yield ("voting", "sparse cells of a rolled picture", vote, [sparse], None,
           instead(vote, [np.roll(sparse, 100, 0)]))
    yield "voting", "maxima of the smoothed picture", vote, [cells()], None, maxima(7, cells())
    yield "voting", "the upper half alone", vote, [cells()], None, upper_part(200)
    yield ("voting", "another radius", vote, [cells()], None,
           instead(dict(vote, radius=5), [cells()]))
    yield ("voting", "of every second pixel", vote, [cells()], None,
           coarse(dict(vote, radius=3.5), [cells()]))
    stone = gravel()
    yield ("glcm", "another picture's", WINDOWS, [stone], None,
           instead(WINDOWS, [np.rot90(stone).copy()]))
    yield "glcm", "of every second pixel", WINDOWS, [stone], None, coarse(WINDOWS, [stone])
    yield "glcm", "the upper half alone", WINDOWS, [stone], None, instead(WINDOWS, [stone[:256]])
    yield ("glcm", "a smaller window", WINDOWS, [stone], None,
           instead(dict(WINDOWS, window={"shape": "disc", "radius": 3}), [stone]))
    yield ("glcm", "another distance", WINDOWS, [stone], None,
           instead(dict(WINDOWS, distances=[1, 2]), [stone]))
    for what, other in (("fewer levels", {"levels": [8, 64]}),
                        ("a range of its own", {"range": "image"}),
                        ("a square window", {"window": {"shape": "square", "radius": 5}}),
                        ("a disc of the picture", {"roi": {"type": "disc", "r": 60}})):
        yield "glcm", what, WINDOWS, [stone], None, instead(dict(WINDOWS, **other), [stone])
    yield ("glcm", "four of the directions", dict(WINDOWS, distances=[1, 3, 5]), [stone], None,
           instead(dict(WINDOWS, distances=[1, 3, 5], directions="four"), [stone]))
    chance = np.random.default_rng(6)
    colour = np.stack([stone, stone, 255 - stone], -1)
    yield "glcm", "one colour", WINDOWS, [colour], None, instead(WINDOWS, [stone])
    yield "glcm", "coarser greys", WINDOWS, [stone], None, instead(WINDOWS, [stone // 8 * 8])
    yield ("glcm", "a smoothed picture", WINDOWS, [stone], None,
           instead(WINDOWS, [scipy.ndimage.uniform_filter(stone, 3)]))
    deep = [np.roll(stone, 40 * i, 0) + chance.integers(0, 9, stone.shape, np.uint8) // 2
            for i in range(4)]
    yield ("glcm", "every second slice, twice", WINDOWS, deep, None,
           instead(WINDOWS, list(np.repeat(deep[::2], 2, 0))))
    every = dict(WINDOWS, features="ibsi")
    yield ("glcm", "features beyond the 13 of every second pixel", every, [stone], None,
           beyond(every, stone))
    whole, large = dict(WINDOWS, window={"shape": "roi"}), np.tile(stone, (3, 3))
    yield ("glcm", "a whole picture, three of four pairs", whole, [large], None,
           pairs(whole, np.tile(coins()[:256, :256], (6, 6)), 1))
    coin = coins()[:160, :160]
    for where, level in ("", dict(LEVEL, iterations=1600)), (" in a band",
                                                             dict(LEVEL, iterations=1600, band=6)):
        def stays(mask):
            return lambda a, _analysis: goes(a, [a["history_one"] & 1] + [mask(a["mask_one"])] * 16)

        def stood_still(a, analysis, level=level):
            early = computed(analysis, dict(level, iterations=200), [coin])["history_one"]
            # of every 50 iterations; the other's are of every 100
            sides = [early >> k & 1 for k in (0, 2, 4)]
            goes(a, [sides[min(k, 2)] for k in range(17)])

        def half_as_long(a, analysis, level=level):
            instead(dict(level, iterations=800, reinit_every=25), [coin])(a, analysis)
            a["iterations_run"][0] = 1600

        yield ("levelset", "an eighth of the iterations, then it stands still" + where, level,
               [coin], None, stood_still)
        def vanished(a, _analysis):
            sides = [a["history_one"] >> k & 1 for k in range(9)]
            goes(a, sides + [sides[0] * 0] * 8)

        slow = dict(level, dt=0.02)
        yield ("levelset", "half of the iterations, then it vanishes" + where, slow, [coin], None,
               vanished)
        yield ("levelset", "iterations half as many in each stretch" + where, level, [coin], None,
               half_as_long)
        yield ("levelset", "another picture's" + where, level, [coin], None,
               instead(level, [coins()[100:260, 100:260]]))
        yield ("levelset", "of another target" + where, level, [coin], None,
               instead(dict(level, target=90), [coin]))
        for what, other in (("another step", {"dt": 0.2}), ("alpha a twentieth less",
                                                            {"alpha": 0.019}),
                            ("another epsilon", {"epsilon": 58}), ("a band", {"band": 3})):
            yield ("levelset", "with %s%s" % (what, where), level, [coin], None,
                   instead(dict(level, **other), [coin]))
        half = np.where(np.arange(160) < 80, coin, 0).astype(np.uint8)
        yield ("levelset", "the left half alone" + where, level, [coin], None,
               instead(level, [half]))
        yield ("levelset", "of every second pixel" + where, level, [coin], None,
               enlarged(level, coin))
        yield ("levelset", "without smooth" + where, dict(level, smooth=1), [coin], None,
               instead(level, [coin]))
        yield "levelset", "discs of the right areas" + where, level, [coin], None, discs
        yield "levelset", "a disc that grows evenly" + where, level, [coin], None, grows
        yield "levelset", "everything" + where, level, [coin], None, stays(np.ones_like)
        yield "levelset", "mirrored" + where, level, [coin], None, stays(np.fliplr)
        yield "levelset", "Otsu's side" + where, level, [coin], None, stays(lambda _m: coin > 107)
    less = dict(LEVEL, iterations=400, reinit_every=0)
    yield ("levelset", "half of the iterations, without a history", less, [coin], None,
           instead(dict(less, iterations=200), [coin]))


def emptied(a):
    """The first item has no rows."""
    table = "region_" if "region_item" in a else "point"
    there = a["region_item" if "region_item" in a else "point_item"] != 0
    for name in a:
        if name.startswith((table, "score")):
            a[name] = a[name][there]
    a["count"][0] = 0


def try_uneven():
    """Of 41 pictures the one that is most of the work."""
    for analysis, parameters in ("cellcount", dict(BRIGHT, threshold=110, min_area=20)), (
            "voting", dict(BRIGHT, radius=7)):
        name = "%s, the large one of 41 pictures without anything" % analysis
        if ONLY.search(name):
            small = [workunit.item("s%d" % i, [cells(120, 10, i)]) for i in range(40)]
            unit, result = make_of(analysis, parameters,
                                   [workunit.item("large", [different_cells()])] + small)
            try_forgery(name, unit, result, emptied)


def try_left_out():
    for analysis, what, parameters, slices, labels, change in left_out():
        name = "%s, left out: %s" % (analysis, what)
        if not ONLY.search(name):
            continue
        unit, result = make(analysis, parameters, slices, labels)
        try_forgery(name, unit, result, lambda a, change=change, of=analysis: change(a, of))


def try_forgery(name, unit, result, change):
    lie = forge.Result(result)
    right = lie.bytes()
    change(lie.arrays)
    with open(path("forged.npz"), "wb") as f:
        f.write(lie.bytes())
    codes, said = codes_of(unit, path("forged.npz"))
    assert lie.bytes() != right, "it is no forgery"
    tap.ok(set(codes) <= {2, 4}, "%s: refused with each of %d seeds" % (name, len(codes)),
           "%d of %d accepted\n%s" % (codes.count(0), len(codes), said))


# --- with care
# -------------------------------------------------------------------------------------

def one_mean(a):
    """A grey value of one pixel of one region."""
    area = a["region_area"][7]
    a["region_mean"][7] = (round(a["region_mean"][7] * area) + 1) / area


def other_means(a):
    """Of one region in 100."""
    area = a["region_area"]
    a["region_mean"][::100] = ((np.round(a["region_mean"] * area) + area // 20 + 1) / area)[::100]


def one_texture(a):
    a["object_glcm"][5] = a["object_glcm"][4]


def half_of_points(a):
    keep_points(a, np.arange(len(a["point_item"])) % 2 == 0)


def one_cell(a):
    keep_cells(a, np.arange(len(a["cell_item"])) != 3)


def every_third_cell(a):
    keep_cells(a, np.arange(len(a["cell_item"])) % 3 != 1)


def all_but_a_tenth_of_cells(a):
    keep_cells(a, np.arange(len(a["cell_item"])) % 10 != 9)


def bands_made_up(which):
    """Sums of bands that have windows are moved, so that their total goes with the means."""
    def change(a):
        sums = a["band_sums"][0]
        made_up = np.flatnonzero(sums)[which]
        sums[made_up] = np.roll(sums[made_up], 1)
    return change


def made_up(a, stretches):
    """So many stretches are right; then pixels at the rim change sides by random."""
    chance = np.random.default_rng(1)
    sides = [a["history_one"] >> k & 1 for k in range(stretches + 1)]
    while len(sides) < 17:
        rim = scipy.ndimage.grey_dilation(sides[-1], 3) != sides[-1]
        sides.append(sides[-1] | (rim & (chance.random(rim.shape) < 0.3)))
    goes(a, sides)


def last_moved(a):
    """The mask at the end by a pixel."""
    sides = [a["history_one"] >> k & 1 for k in range(17)]
    goes(a, sides[:16] + [np.roll(sides[16], 1, 1)])


def sampled(a, of=None, each=7, parameters=WINDOWS):
    """The statistics of one window in each * each (of those in a mask, if there is one), with the
    least and the greatest value farther out."""
    picture = gravel()
    mask = np.zeros(picture.shape, bool)
    mask[each // 2::each, each // 2::each] = True
    if of is not None:
        mask &= of
    part = computed("glcm", dict(parameters, roi={"type": "mask"}), [picture], [mask])
    a["features"][:] = part["features"]
    a["band_sums"] = part["band_sums"] * each ** 2
    lo, hi, span = (np.flatnonzero([name.endswith(end) for name in part["feature_names"]])
                    for end in ("_min", "_max", "_range"))
    spread = a["features"][:, hi] - a["features"][:, lo]
    a["features"][:, lo] -= np.minimum(spread, np.abs(a["features"][:, lo])) / 8
    most = a["features"][:, hi]
    a["features"][:, hi] = np.minimum(most + spread / 8,
                                      np.where(most <= 0, 0, np.where(most <= 1, 1, np.inf)))
    a["features"][:] = np.round(a["features"] * 2.0 ** 32) / 2.0 ** 32
    a["features"][:, span] = a["features"][:, hi] - a["features"][:, lo]


def computed(analysis, parameters, slices, masks=None, labels=None):
    unit, result = path("part.zip"), path("part.npz")
    given = {key: value for key, value in parameters.items() if value is not None}
    workunit.write(unit, analysis, given, [workunit.item("one", slices, masks, labels=labels)])
    if os.path.exists(result):
        os.remove(result)
    run = tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet"])
    if run.returncode != 0:
        tap.bail(run.stderr)
    return forge.Result(result).arrays


def columns(a, statistic):
    return np.flatnonzero([name.endswith("_" + statistic) for name in a["feature_names"]])


def scaled(factor, *statistics):
    def change(a):
        for statistic in statistics:
            a["features"][:, columns(a, statistic)] *= factor
    return change


def moved_maps(how):
    def change(a):
        for name in a:
            if name.startswith("map_"):
                a[name] = how(a[name])
    return change


def tied(change, windows, offsets):
    """The change, and a band that has windows makes up for what the means differ. offsets: how
    many, by distance."""
    def total(a):
        return sum(int(mean * 2.0 ** 32 * windows * offsets[name.split("_d")[1][:2]])
                   for mean, name in zip(a["features"][0], a["feature_names"])
                   if name.endswith("_mean"))

    def changed(a):
        change(a)
        sums = a["band_sums"][0].view(np.uint64)
        at = np.flatnonzero(sums)[0]
        rest = sum(int(v) for i, v in enumerate(sums) if i != at)
        sums[at] = (total(a) - rest) % 2 ** 64
    return changed


def higher_by(a, part):
    """Means of entropies: relations with others hold."""
    names = a["feature_names"]
    at = [i for i in columns(a, "mean") if names[i].endswith("_entropy_mean")]
    for i in at:
        row = a["features"][0]
        row[i] = min(row[i] + part * row[i + 2], row[i + 4])


def exchange_offsets(a):
    a["offset_features"][0, :, [0, 1]] = a["offset_features"][0, :, [1, 0]]


def mapped():
    """glcm with maps, or with a mask: what, parameters, slices, masks, change."""
    stone = gravel()
    maps = dict(WINDOWS, maps=[{"feature": "contrast", "levels": 16, "offset": [1, 0]},
                               {"feature": "entropy", "levels": 64, "offset": [0, 3]},
                               {"feature": "imc2", "levels": 64, "offset": [-2, 2]}])
    chance = np.random.default_rng(8)
    for what, how in (("rolled", lambda m: np.roll(m, (37, 53), (0, 1))),
                      ("rolled by a pixel", lambda m: np.roll(m, 1, 1)),
                      ("shuffled", lambda m: chance.permutation(m.ravel()).reshape(m.shape)),
                      ("of every second pixel", lambda m: np.repeat(m[:, ::2], 2, 1)),
                      ("turned over", lambda m: m[::-1].copy())):
        yield "maps " + what, maps, [stone], None, moved_maps(how)
    for shape in "disc", "square":
        plain = {"levels": [16], "distances": [1], "window": {"shape": shape, "radius": 5},
                 "features": ["contrast", "idm"],
                 "maps": [{"feature": "idm", "levels": 16, "offset": [0, 1]}]}
        yield ("maps of sums over pairs moved by a line, windows a %s" % shape, plain,
               [np.tile(stone, (2, 2))], None, moved_maps(lambda m: np.roll(m, 1, 0)))
    ny, nx = stone.shape
    y, x = np.indices(stone.shape)
    for what, mask in (("a disc", (y - 200) ** 2 + (x - 330) ** 2 <= 60 ** 2),
                       ("a small disc", (y - 200) ** 2 + (x - 130) ** 2 <= 25 ** 2),
                       ("some lines", abs(y - 100 - x // 20) < 15),
                       ("corners", (y < 30) & (x < 60) | (y >= ny - 30) & (x >= nx - 60))):
        masked = dict(WINDOWS, roi={"type": "mask"})
        n = int(mask.sum())
        yield ("one window in 25 of a mask, %s" % what, masked, [stone], [mask],
               tied(lambda a, mask=mask: sampled(a, mask, 5), n, {"01": 4, "03": 8}))
        yield ("means of a mask, %s, without their sums" % what, masked, [stone], [mask],
               lambda a: a["features"].__setitem__((0, 0), a["features"][0, 0] * (1 + 1e-6)))


def try_mapped():
    for what, parameters, slices, masks, change in mapped():
        name = "glcm, %s" % what
        if not ONLY.search(name):
            continue
        unit, result = make("glcm", parameters, slices, None, masks)
        codes, said = codes_of(unit, result)
        tap.ok(set(codes) == {0} and "in doubt" not in said,
               name + ": the honest one is accepted", said)
        try_forgery(name, unit, result, change)


def careful():
    """What differs from the truth in little, or costs most of the work: analysis, what, parameters,
    slices, labels or, of glcm, masks, how it is changed."""
    picture = many_cells()
    labels = scipy.ndimage.label(picture > 110)[0]
    yield ("cellcount", "a grey value of one of 1424 regions", dict(BRIGHT, min_area=20), [picture],
           None, one_mean)
    soft = scipy.ndimage.gaussian_filter(different_cells().astype(float), 1.5)
    yield ("cellcount", "one region in 100 with another mean, with all filters", EVERY,
           [soft.round().astype(np.uint8)], None, other_means)
    yield ("objects", "another's texture for one of 1456 objects", {}, [picture], [labels],
           one_texture)
    yield "glcm", "one of two distances as the other", {
        "levels": [16], "distances": [1, 3], "window": {"shape": "roi"}}, [gravel()], None, \
        lambda a: a["features"].__setitem__((0, slice(65, None)), a["features"][0, :65])
    yield "glcm", "statistics of one window in 49", WINDOWS, [gravel()], None, sampled
    yield ("glcm", "every second band made up", WINDOWS, [gravel()], None,
           bands_made_up(slice(None, None, 2)))
    yield ("glcm", "the lower half of the bands made up", WINDOWS, [gravel()], None,
           bands_made_up(slice(gravel().shape[0] // 2, None)))
    for part in 0.3, 0.6, 1, 2:
        yield ("glcm", "means %g standard deviations nearer to the maximum" % part, WINDOWS,
               [gravel()], None,
               tied(lambda a, part=part: higher_by(a, part), gravel().size, {"01": 4, "03": 8}))
    each = dict(WINDOWS, per_offset=True)
    yield "glcm", "two offsets exchanged", each, [gravel()], None, exchange_offsets
    maps = dict(WINDOWS, maps=[{"feature": "contrast", "levels": 16, "offset": [1, 0]}])
    yield ("glcm", "a half of a map as the other", maps, [gravel()], None,
           moved_maps(lambda m: np.concatenate([m[:len(m) // 2]] * 2)))
    masked = dict(WINDOWS, roi={"type": "mask"})
    for r in 25, 60, 110:
        y, x = np.indices(gravel().shape)
        yield ("glcm", "every second band of a mask of radius %d made up" % r, masked, [gravel()],
               [(y - 150) ** 2 + (x - 150) ** 2 <= r * r], bands_made_up(slice(None, None, 2)))
    for factor in 0.2, 0.3, 0.5, 0.8, 1.3:
        yield ("glcm", "sd and range %g times as large" % factor, WINDOWS, [gravel()], None,
               scaled(factor, "sd", "range"))
    refined = {"radius": 7, "polarity": "bright", "refine": True}
    yield "voting", "points that are not refined", refined, [cells()], None, \
        lambda a: instead(dict(refined, refine=False), [cells()])(a, "voting")
    yield ("voting", "every second point left out", {"radius": 7, "polarity": "bright"},
           [different_cells()], None, half_of_points)
    slow = dict(LEVEL, iterations=1600, dt=0.02)     # it moves in each stretch
    for where, level in ("", slow), (" in a band", dict(slow, band=6)):
        for part, word in (2, "half"), (4, "three quarters"), (8, "seven eighths"):
            yield "levelset", "%s of the stretches made up%s" % (word, where), level, [
                coins()[:160, :160]], None, \
                lambda a, part=part: made_up(a, 16 // part)
        yield ("levelset", "one of 16 stretches made up" + where, level, [coins()[:160, :160]],
               None, last_moved)
    yield "volume", "one of 289 cells left out", {"membrane": 110}, shells(), None, one_cell
    yield ("volume", "a tenth of 139 cells left out, smoothed", {"membrane": 110, "smooth": 2},
           shells(), None, all_but_a_tenth_of_cells)
    yield ("volume", "every third cell left out, smoothed", {"membrane": 110, "smooth": 2},
           shells(), None, every_third_cell)


def odds():
    for analysis, what, parameters, slices, given, change in careful():
        if not ONLY.search("odds, %s, %s" % (analysis, what)):
            continue
        labels, masks = (None, given) if analysis == "glcm" else (given, None)
        unit, result = make(analysis, parameters, slices, labels, masks)
        lie = forge.Result(result)
        change(lie.arrays)
        with open(path("forged.npz"), "wb") as f:
            f.write(lie.bytes())
        codes, said = codes_of(unit, path("forged.npz"))
        run = tap.run([tap.TEXCELL_VALIDATE, "verify", "--fraction", "1", unit, path("forged.npz")])
        tap.ok(set(codes) <= {0, 2, 4} and run.returncode in (2, 4),
               "%s, with care: %s: found with %d of %d seeds; computed again always" %
               (analysis, what, len(codes) - codes.count(0), len(codes)), said + run.stderr)


# --- the trial
# -------------------------------------------------------------------------------------

def make(analysis, parameters, slices, labels, masks=None):
    return make_of(analysis, parameters, [workunit.item("one", slices, masks, labels=labels)])


def make_of(analysis, parameters, items):
    unit, result = path("unit.zip"), path("honest.npz")
    workunit.write(unit, analysis, parameters, items)
    if os.path.exists(result):
        os.remove(result)
    run = tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet"])
    if run.returncode != 0:
        tap.bail(run.stderr)
    return unit, result


def codes_of(unit, result, *options):
    runs = tap.side_by_side(2, list(SEEDS), lambda _lane, seed: tap.run(
        [tap.TEXCELL_VALIDATE, "check", *options, "--seed", str(seed), unit, result]))
    return ([run.returncode for _seed, run in runs],
            "".join(run.stdout + run.stderr for _seed, run in runs[:2]))


def main():
    for analysis in (cellcount, volume, objects, voting, glcm, levelset):
        for title, parameters, slices, labels, forgeries in analysis():
            name = "%s, %s" % (analysis.__name__, title)
            if not ONLY.search(name):
                continue
            unit, result = make(analysis.__name__, parameters, slices, labels)
            codes, said = codes_of(unit, result)
            tap.ok(set(codes) == {0}, name + ": the honest one is accepted", said)
            for what, change in forgeries.items():
                lie = forge.Result(result)
                change(lie.arrays)
                with open(path("forged.npz"), "wb") as f:
                    f.write(lie.bytes())
                blind = tap.run([tap.TEXCELL_VALIDATE, "check", "--no-pixels", unit,
                                 path("forged.npz")])
                codes, said = codes_of(unit, path("forged.npz"))
                tap.ok(blind.returncode == 0,
                       "%s, %s: nothing is wrong with it by itself" % (name, what), blind.stderr)
                tap.ok(set(codes) <= {2, 4},
                       "%s, %s: refused with each of %d seeds" % (name, what, len(codes)),
                       "%d of %d accepted\n%s" % (codes.count(0), len(codes), said))
    try_left_out()
    try_mapped()
    try_uneven()
    odds()
    tap.done()


if __name__ == "__main__":
    main()
