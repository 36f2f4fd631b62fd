"""Tests `texcell-validate check` with forged results: they cost less than the computation and are
consistent in themselves, so that only a comparison with the pixels can find them. For every
analysis each forgery is refused or computed again, with each of SEEDS seeds (20; check-long uses
100), and the honest results are accepted. The pictures are too large to be always computed again.
Forgeries that differ little from the truth, or cost most of the computation, are found with some of
the seeds (docs/validation.md has the probabilities), which are counted here.

FORGERS=REGEX selects forgeries by name; the names of those found with some seeds begin with
"odds, "."""
import itertools
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
ALL_FILTERS = dict(BRIGHT, min_area=20, min_contrast={"full_area": 520, "percent": 40}, smooth=1,
                   fill_holes=True, split="distance", threshold="local", window=113,
                   offset_percent=20)
WINDOWS = {"levels": [16, 64], "distances": [1, 3], "window": {"shape": "disc", "radius": 5}}
LEVEL = {"target": 180, "epsilon": 60, "alpha": 0.02, "iterations": 400,
         "init": {"type": "ball", "cx": 66, "cy": 65, "r": 12}}


def path(name):
    return os.path.join(FOLDER, name)


def cells(side=400, n=120, seed=1, radius=(4, 9)):
    """A picture of discs, some of which touch, on an uneven background."""
    rng = np.random.default_rng(seed)
    y, x = np.indices((side, side))
    picture = 60 + 20 * np.sin(x / 90.0) + rng.normal(0, 4, (side, side))
    for _ in range(n):
        cy, cx, r = rng.uniform(0, side), rng.uniform(0, side), rng.uniform(*radius)
        picture[(y - cy) ** 2 + (x - cx) ** 2 < r * r] += 90
    return picture.clip(0, 255).astype(np.uint8)


def many_cells():
    return np.tile(cells(), (4, 4))


def sparse_cells():
    return cells(side=1600, n=60)


def different_cells():
    return np.block([[cells(seed=4 * i + k) for k in range(4)] for i in range(4)])


def discs_and_clump():
    """A picture of isolated discs and, on the right, discs that all touch."""
    picture = 60 + np.random.default_rng(3).normal(0, 4, (1600, 1600))
    y, x = np.indices((18, 18)) - 8.5
    disc = 90 * (y * y + x * x < 81)
    for step, first, end in (26, 4, 1310), (17, 1320, 1580):
        for i in range(4, 1580, step):
            for k in range(first, end, step):
                picture[i:i + 18, k:k + 18] = np.maximum(picture[i:i + 18, k:k + 18], 60 + disc)
    return picture.clip(0, 190).astype(np.uint8)


def draw_discs(discs, noise=4, seed=2, side=1600):
    """A picture of side x side. discs: y, x, radius and height of each."""
    picture = 60 + np.random.default_rng(seed).normal(0, noise, (side, side))
    for y, x, r, height in discs:
        top, left = max(y - r, 0), max(x - r, 0)
        part = picture[top:y + r + 1, left:x + r + 1]
        ys, xs = np.indices(part.shape)
        part[(ys + top - y) ** 2 + (xs + left - x) ** 2 <= r * r] += height
    return picture.clip(0, 255).astype(np.uint8)


def crowded_top():
    """A picture of 60 discs in the upper sixth and 40 elsewhere."""
    random = np.random.default_rng(3)
    return draw_discs([(20 + 48 * i, 40 + 80 * k, 9, 90) for i in range(3) for k in range(20)] +
                      [(330 + 155 * i + random.integers(60), 100 + 300 * k + random.integers(200),
                        9, 90) for i in range(8) for k in range(5)])


def scattered_discs():
    """A picture of 200 small discs, of which none touches another."""
    random, places = np.random.default_rng(3), []
    while len(places) < 200:
        place = random.integers(8, 1592, 2)
        if all(np.abs(place - other).max() > 12 for other in places):
            places.append(place)
    return draw_discs([(y, x, 5, 90) for y, x in places], 3)


def leave_out_block(share, y, x):
    """A forgery: this share of the regions, those nearest to a point, is left out."""
    def is_near(a):
        distance = np.abs(a["region_centroid"] - [y, x]).max(1)
        return distance < np.quantile(distance, share)
    return leave_out(is_near)


def giants_among_small():
    return draw_discs([(y, x, 230, 90) for y in (270, 800, 1330) for x in (270, 800, 1330)] +
                 [(y, x, 5, 90) for y in (10, 535, 1065, 1588) for x in range(12, 1590, 24)])


def giant_among_discs(r=120):
    return draw_discs([(800, 800, r, 90)] + [(y, x, 8, 90) for y in range(12, 1580, 22)
                                            for x in range(12, 1580, 22)
                                            if np.hypot(y - 800, x - 800) > r + 20])


def change_giants(a, _analysis):
    change_large(a, a["region_area"] > 20000)


def change_large(a, big):
    """These regions have another area, centre and mean; their boxes are right."""
    n = a["region_area"][big] = a["region_area"][big] * 7 // 10
    a["region_centroid"][big] = np.round((a["region_centroid"][big] - 30) * n[:, None]) / n[:, None]
    a["region_mean"][big] = np.round((a["region_mean"][big] + 20) * n) / n


def hollow_out_in_labels(a, _analysis):
    """In the labels, pairs of opposite pixels of the background in a region's box take the place of
    pairs in its middle. That keeps its area, box and centroid, if it has point symmetry."""
    for i, (y0, x0, y1, x1) in enumerate(a["region_bbox"]):
        part = a["labels_one"][y0:y1, x0:x1]
        own = part == i + 1
        if (part[~own] != 0).any() or not (own == own[::-1, ::-1]).all():
            continue
        half = np.zeros(own.size, bool)
        half[:own.size // 2] = True             # one pixel of each pair of opposite ones
        y, x = np.indices(own.shape)
        far = np.hypot(2 * y + 1 - own.shape[0], 2 * x + 1 - own.shape[1]).ravel()
        outside, inside = (np.flatnonzero(m & half) for m in (~own.ravel(), own.ravel()))
        inside = inside[np.argsort(far[inside], kind="stable")]
        n, flat = min(len(outside), len(inside) // 2), part.copy().ravel()
        for pixels, value in (outside[:n], i + 1), (inside[:n], 0):
            flat[pixels] = flat[own.size - 1 - pixels] = value
        part[:] = flat.reshape(own.shape)


def replace_giants_by_one(a, _analysis):
    """One region whose box is the picture, in place of the greatest ones."""
    keep = a["region_area"] <= 20000
    first = {"area": 20000, "bbox": [0, 0, 1600, 1600], "border": True, "centroid": 800,
             "mean": 150}
    for name in first:
        a["region_" + name][0] = first[name]
    keep[0] = True
    relabel(a, keep)


def hollow_out_giants(a, _analysis):
    """In the table and in the labels the greatest regions are rings."""
    for i in np.flatnonzero(a["region_area"] > 20000):
        region = a["labels_one"] == i + 1
        inside = scipy.ndimage.binary_erosion(region, iterations=15)
        a["labels_one"][inside] = 0
        at = np.argwhere(region & ~inside)
        n = a["region_area"][i] = len(at)
        a["region_centroid"][i] = at.sum(0) / n
        a["region_mean"][i] = np.round(a["region_mean"][i] * n) / n


def pairs_and_singles():
    """Rows of discs that lie alone, and of pairs that touch."""
    return draw_discs([(y, x + d, 8, 90) for k, y in enumerate(range(12, 1580, 26))
                  for x in range(12, 1560, 26 if k % 3 else 46)
                  for d in ((0,) if k % 3 else (0, 16))])


def discs_and_some_pairs(share):
    """A picture of discs; this share are pairs that touch."""
    rng = np.random.default_rng(1)
    return draw_discs([(y + d, x, 6, 90) for y in range(20, 1580, 28) for x in range(20, 1580, 28)
                       for d in ((-5, 6) if rng.random() < share else (0,))], 3).clip(0, 175)


def pairs_among_sizes(share):
    """A picture of discs of different sizes; this share are pairs of small ones that touch."""
    rng = np.random.default_rng(1)
    return draw_discs([disc for y in range(22, 1578, 34) for x in range(22, 1578, 34)
                       for disc in ([(y - 5, x, 5, 90), (y + 5, x, 5, 90)] if rng.random() < share
                                    else [(y, x, rng.integers(4, 12), 90)])]).clip(0, 140)


def soft_crowded_top(above, below):
    """A picture of soft discs, so many in the upper sixth and below; some of them touch."""
    rng = np.random.default_rng(3)
    discs = [(rng.integers(*rows), rng.integers(12, 1588), 9, 60)
             for n, rows in ((above, (12, 252)), (below, (278, 1588))) for _ in range(n)]
    soft = scipy.ndimage.gaussian_filter(draw_discs(discs, 0).astype(float), 0.7)
    return (soft + rng.normal(0, 4, soft.shape)).round().clip(0, 255).astype(np.uint8)


def change_means_of_pairs(a, _analysis):
    n, row = a["region_area"], np.round((a["region_centroid"][:, 0] - 12) / 26)
    of = row % 3 == 0
    a["region_mean"][of] = (np.round(a["region_mean"] * n + n * 25) / n)[of]


def small_clump():
    """Discs that lie alone, and in the last columns discs that all touch."""
    return draw_discs([(y, x, 8, 90) for y in range(12, 1580, 22) for x in range(12, 1500, 22)] +
                 [(y, x, 9, 90) for y in range(12, 1580, 17) for x in range(1530, 1590, 17)])


def chains():
    """In alternate squares of 84 x 84, a diagonal chain of six discs and discs that lie alone."""
    squares = [(y, x) for y in range(0, 1512, 84) for x in range(0, 1512, 84)]
    return draw_discs([(y + 20 + 9 * k, x + 20 + 9 * k, 7, 90) for y, x in squares for k in range(6)
                       if (y + x) // 84 % 2 == 0] +
                      [(y + i, x + k, 7, 90) for y, x in squares for i in (19, 42, 65)
                       for k in (19, 42, 65) if (y + x) // 84 % 2]).clip(0, 175)


def shrink_chains(a, _analysis):
    shrink(a, (a["region_centroid"] // 84).sum(1) % 2 == 0)


def shrink_clump(a, _analysis):
    shrink(a, a["region_bbox"][:, 1] > 1516)


def shrink(a, of):
    """Of these discs three quarters of the pixels."""
    n = a["region_area"][of] = a["region_area"][of] * 3 // 4
    a["region_centroid"][of] = np.round(a["region_centroid"][of] * n[:, None]) / n[:, None]
    a["region_mean"][of] = np.round(a["region_mean"][of] * n) / n


def large_bright_small_faint():
    kinds = [(12, 120), (6, 110), (6, 50)]
    return draw_discs([(y, x) + kinds[(y + x) // 34 % 3] for y in range(20, 1580, 34)
                  for x in range(20, 1580, 34)], 2)


def fibres_and_discs():
    """A picture of discs and of diagonal fibres, one pixel wide."""
    picture = draw_discs([(y, x, 5, 100) for y in range(40, 1580, 70)
                          for x in range(12, 1580, 24)], 3)
    t = np.arange(50)
    for y, x in itertools.product(range(48, 1530, 70), range(5, 1530, 70)):
        picture[y + t, x + t] = 160
    return picture


def rods_and_discs():
    picture = draw_discs([(y, x, 6, 100) for y in range(48, 1580, 60)
                          for x in range(12, 1586, 22)], 3)
    for y, x in itertools.product(range(20, 1580, 60), range(10, 1440, 170)):
        picture[y:y + 6, x:x + 150] = 160
    return picture


def close_discs():
    """A picture of discs on a lattice, close together on diagonals, and of isolated ones below."""
    return draw_discs([(y + d, x + d, 12, 90) for y in range(18, 1270, 40)
                       for x in range(18, 1540, 40) for d in (0, 20)] +
                      [(y, x, 12, 90) for y in range(1360, 1580, 60) for x in range(20, 1580, 60)],
                      3)


def many_discs():
    return draw_discs([(y, x, 6, 90) for y in range(20, 1580, 26) for x in range(20, 1580, 26)], 3)


def staggered_discs():
    """A picture in which each row has pixels of discs."""
    return draw_discs([(y + 5 * i % 26, x, 6, 90) for i, x in enumerate(range(20, 1580, 26))
                       for y in range(20, 1560, 26)], 3)


def strip_of_discs():
    """A strip of 40 x 40,000 pixels of discs, three quarters of them at its border."""
    strip = 60 + np.random.default_rng(1).normal(0, 2, (40, 40000))
    ys, xs = np.indices((40, 19))
    for i, x in enumerate(range(20, 39980, 30)):
        y = (8, 8, 32, 20)[i % 4]
        strip[:, x - 9:x + 10] += 90 * ((ys - y) ** 2 + (xs - 9) ** 2 <= 81)
    return strip.clip(0, 255).astype(np.uint8)


def add_large_regions(n, side, area):
    """A forgery: n regions of this area, in square boxes, are added."""
    def change(a, _analysis):
        at = np.random.default_rng(5).integers(1, 1599 - side, (n, 2))
        new = {"area": area, "bbox": np.concatenate([at, at + side], 1), "mean": 150,
               "centroid": at + side // 2}
        order = np.argsort(np.concatenate([a["region_bbox"][:, 0], at[:, 0]]), kind="stable")
        for name in [m for m in a if m.startswith("region_")]:
            rows = np.zeros((n, *a[name].shape[1:]), a[name].dtype)
            rows[:] = new.get(name[7:], 0)
            a[name] = np.concatenate([a[name], rows])[order]
        relabel(a, np.ones(len(order), bool))
    return change


def grains_in_rings():
    """A picture of 400 rings, each with five discs inside."""
    return draw_discs([disc for y in range(40, 1600, 80) for x in range(40, 1600, 80)
                       for disc in ((y, x, 30, 90), (y, x, 27, -90), (y, x, 5, 90),
                                    *((y + a, x + b, 5, 90) for a in (-10, 10)
                                      for b in (-10, 10)))], 3)


def add_grains(parameters, picture):
    """A forgery: what lies in holes, which are filled, is added as regions of its own."""
    def change(a, analysis):
        part = compute(analysis, dict(parameters, fill_holes=False), [picture])
        grains = part["region_area"] < 200
        order = np.argsort(np.concatenate([a["region_bbox"][:, 0], part["region_bbox"][grains, 0]]),
                           kind="stable")
        for name in [m for m in a if m.startswith("region_")]:
            a[name] = np.concatenate([a[name], part[name][grains]])[order]
        relabel(a, np.ones(len(order), bool))
    return change


def cells_and_specks(density):
    """A picture of 144 discs and of specks of single pixels, this share of the pixels."""
    picture = draw_discs([], 3)
    picture[np.random.default_rng(2).random(picture.shape) < density] += 80
    discs = draw_discs([(y, x, 7, 90) for y in range(50, 1500, 125) for x in range(50, 1500, 125)],
                       3)
    near = scipy.ndimage.maximum_filter(discs > 110, 7)
    return np.where(near, discs, picture)


def few_cells_among_specks():
    """A picture of three discs and of specks, 2.8% of the pixels."""
    rng = np.random.default_rng(3)
    return draw_discs([(*rng.integers(12, 2988, 2), 8, 80) for _ in range(3)], 18, side=3000)


def large_and_small_among_specks():
    """A picture of 576 large discs, each with a small one at its right, and of specks of single
    pixels, 1.5% of the pixels."""
    rng = np.random.default_rng(1)
    discs = draw_discs([disc for y in range(34, 1566, 64) for x in range(34, 1560, 64)
                        for disc in ((y, x, 20, 90), (y + rng.integers(-6, 7), x + 26, 3, 90))], 3)
    specks = (rng.random(discs.shape) < 0.015) & (scipy.ndimage.maximum_filter(discs, 5) < 110)
    return np.where(specks, 140, discs).astype(np.uint8)


def discs_and_satellites():
    """A picture of discs, each with a square of 2 x 2 pixels at its right."""
    picture = draw_discs([(y, x, 12, 90) for y in range(30, 1560, 50)
                          for x in range(30, 1550, 50)], 2)
    for y, x in itertools.product(range(30, 1560, 50), range(45, 1565, 50)):
        picture[y:y + 2, x:x + 2] = 150
    return picture


def groups_of_discs():
    """A picture of 16 groups, 400 pixels apart, each of 3 x 3 discs close together."""
    random = np.random.default_rng(1)
    corners = [(400 * i + random.integers(80, 280), 400 * k + random.integers(80, 280))
               for i in range(4) for k in range(4)]
    return draw_discs([(y + 15 * i, x + 15 * k, 6, 90) for y, x in corners for i in range(3)
                       for k in range(3)])


def copy_first_of_group(a, _analysis):
    first = {}
    rows = np.array([first.setdefault(tuple(c), i)
                     for i, c in enumerate(a["region_centroid"] // 400)])
    rows = rows[np.argsort(a["region_bbox"][rows, 0], kind="stable")]
    for name in [m for m in a if m.startswith("region_") and m != "region_label"]:
        a[name] = a[name][rows]


def few_soft_discs():
    """A picture of few small discs with soft edges."""
    discs = draw_discs([(y, x, 4, 180) for y in range(40, 1560, 125) for x in range(40, 1560, 125)],
                       0)
    soft = scipy.ndimage.gaussian_filter(discs.astype(float), 1.5)
    return (soft + np.random.default_rng(1).normal(0, 2, soft.shape)).round().astype(np.uint8)


def large_soft_discs():
    discs = draw_discs([(y, x, 19, 90) for y in range(30, 1570, 60) for x in range(30, 1570, 60)],
                       3)
    return scipy.ndimage.gaussian_filter(discs.astype(float), 2).round().astype(np.uint8)


def leave_out_at_random(share):
    return leave_out(lambda a: np.random.default_rng(1).random(len(a["region_item"])) < share)


def repeat_rows(a, _analysis):
    for name in [m for m in a if m.startswith("region_")]:
        a[name] = np.repeat(a[name], 2, 0)
    relabel(a, np.ones(len(a["region_item"]), bool))


def few_large_many_small(large, small, each):
    """Discs; each: one in this many is large. large, small: radius and height."""
    return draw_discs([(y, x) + (large if (7 * i + 3 * k) % each == 0 else small)
                       for k, y in enumerate(range(20, 1580, 30))
                       for i, x in enumerate(range(20, 1580, 30))], 2)


def leave_out(is_left_out, min_area=None):
    """A forgery: regions are left out; min_area: claimed as what "auto" gives."""
    def change(a, _analysis):
        relabel(a, ~is_left_out(a))
        if min_area is not None:
            a["min_area"][0] = min_area
    return change


def is_small(a):
    return a["region_area"] < 200


def is_long(a):
    return a["region_bbox"][:, 3] - a["region_bbox"][:, 1] > 30


def is_large(a):
    return a["region_area"] > 2000


def merge_clump(a, _analysis):
    """Replaces all regions on the right by one."""
    box, area = a["region_bbox"], a["region_area"]
    right = box[:, 3] > 1318
    first, n = np.flatnonzero(right)[0], area[right].sum()
    for name, column in ("mean", a["region_mean"]), ("centroid", a["region_centroid"]):
        weight = area[right] if column.ndim == 1 else area[right, None]
        a["region_" + name][first] = np.round((column[right] * weight).sum(0)) / n
    box[first] = np.concatenate([box[right, :2].min(0), box[right, 2:].max(0)])
    area[first] = n
    a["region_border"][first] = box[first].min() == 0 or box[first].max() == 1600
    relabel(a, ~right | (np.arange(len(right)) == first))


def remove_clump(a, _analysis):
    relabel(a, a["region_bbox"][:, 3] <= 1318)


def keep_rows(arrays, table, keep):
    """Removes the table's rows for which `keep` is false."""
    for name in arrays:
        if name.startswith(table + "_"):
            arrays[name] = arrays[name][keep]


# --- cellcount
# -------------------------------------------------------------------------------------

def relabel(a, keep):
    """Removes the regions for which `keep` is false, and numbers the others."""
    keep_rows(a, "region", keep)
    a["count"][0] = keep.sum()
    a["region_label"] = np.arange(1, keep.sum() + 1)
    if "labels_one" in a:
        a["labels_one"] = np.concatenate([[0], np.where(keep, np.cumsum(keep), 0)]).astype(
            np.int32)[a["labels_one"]]


def replace_by_giants(a, parameters, picture, n=2):
    """Replaces the regions by n regions that are as large as the picture."""
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
    for title, extra in (("plain", {}), ("small ones left out", {"min_area": 20}),
                         ("filled", {"fill_holes": True, "min_area": 20}),
                         ("split by distance", {"split": "distance", "min_area": 20}),
                         ("of any polarity",
                          {"polarity": "auto", "split": "distance", "min_area": 20}),
                         ("split by intensity", {"split": "intensity", "min_area": 20}),
                         ("split and filled",
                          {"split": "distance", "fill_holes": True, "min_area": 20}),
                         ("smoothed", {"smooth": 1, "min_area": 20}),
                         ("a local threshold",
                          {"threshold": "local", "window": 31, "min_area": 20}),
                         ("labels", {"labels": True, "min_area": 20})):
        parameters = BRIGHT | extra

        def keep_top(a):
            relabel(a, a["region_bbox"][:, 2] < 240)

        def remove_all(a):
            relabel(a, np.zeros(len(a["region_item"]), bool))

        picture = many_cells()
        forgeries = {"only the top of the picture": keep_top, "no region": remove_all}
        if "labels" not in extra:
            forgeries["two giants"] = lambda a, p=parameters, im=picture: replace_by_giants(a, p,
                                                                                            im)
            forgeries["one giant"] = lambda a, p=parameters, im=picture: replace_by_giants(a, p, im,
                                                                                           1)
        if "min_area" not in extra:     # found without pixels: areas must sum up to all pixels
            del forgeries["only the top of the picture"], forgeries["no region"]
        yield title, parameters, [picture], None, forgeries
    for name, picture in (("coins", coins()), ("gravel", gravel())):
        yield name, {}, [picture], None, {"two giants": lambda a,
                                          im=picture: replace_by_giants(a, {}, im)}


# --- the other analyses
# ------------------------------------------------------------------------------------

def remove_cells(a, small=False):
    keep_rows(a, "cell", np.zeros(len(a["cell_item"]), bool))
    a["left_out_voxels" if small else "external_voxels"][0] += a["inside_voxels"][0]
    a["cells"][0] = a["inside_voxels"][0] = a["volume"][0] = 0
    if "labels_one" in a:
        a["labels_one"][:] = 0


def remove_one_cell(a):
    keep_cells(a, np.arange(len(a["cell_item"])) != 3)


def repair_more(a):
    for name, sign in ("repair_added", 1), ("membrane", 1), ("external", -1):
        a[name + "_voxels"][0] += 1000 * sign
    a["repair_bias_voxels"][0] = a["repair_added_voxels"][0] // 3


def stack_of_shells():
    rng = np.random.default_rng(3)
    z, y, x = np.indices((24, 90, 90))
    edges = (np.sin(x / 5.0) * np.sin(y / 5.0) * np.cos(z / 4.0))
    stack = np.where(np.abs(edges) < 0.25, 180,
                     40).astype(np.uint8) + rng.integers(0, 20, (24, 90, 90)).astype(np.uint8)
    return list(np.tile(stack, (1, 3, 3)))


def volume():
    yield "3d", {"membrane": 110}, stack_of_shells(), None, {
        "no cells": remove_cells, "one of 289 cells left out": remove_one_cell}
    yield "with labels", {"membrane": 110,
                          "labels": True}, stack_of_shells(), None, {"no cells": remove_cells}
    yield ("repaired", {"membrane": 110, "repair": {"sigma": 1}}, stack_of_shells(), None,
           {"no cells": remove_cells, "other numbers of repaired voxels": repair_more})
    yield ("slices", {"membrane": 110, "mode": "slices", "min_voxels": 5}, stack_of_shells(), None,
           {"no cells": lambda a: remove_cells(a, True)})


def objects():
    picture = many_cells()
    labels = scipy.ndimage.label(picture > 110)[0]
    two_labels = np.zeros((720, 720), int)
    two_labels[60:300, 60:360], two_labels[420:660, 120:600] = 1, 2

    def copy_texture(a, source=0):
        a["object_glcm"][:] = a["object_glcm"][source]

    for title, im, lab in (("many", picture, labels), (
            "two", np.random.default_rng(5).integers(0, 256, (720, 720)).astype(np.uint8),
        two_labels)):
        yield title, {}, [im], [lab], {"another's texture": copy_texture}


def move_points(a):
    a["point"] = np.maximum(a["point"] - 1, 0)


def voting():
    def remove_points(a):
        a["point_item"] = a["point_item"][:0]
        a["point"], a["score"] = a["point"][:0], a["score"][:0]
        a["count"][0] = 0

    def lower_scores(a):
        a["score"] = a["score"] * 9 // 10

    forgeries = {"points moved by a pixel": move_points, "other scores": lower_scores}
    for title, picture in (("many", cells()), ("few", cells(n=3))):
        yield (title, {"radius": 7, "polarity": "bright"}, [picture], None,
               forgeries | {"no points": remove_points})
    yield ("own radius", {"radius": 9, "own_radius": True, "polarity": "auto",
                          "foreground": "otsu"}, [cells()], None, forgeries)
    yield ("a threshold that no score reaches",
           {"radius": 7, "polarity": "bright", "threshold": 4e9}, [cells()], None, {})
    line = np.full((1, 700), 7, np.uint8)
    line[0, 350] = 255
    for title, picture in ("one row", line), ("one column", line.T.copy()):
        yield (title, {"radius": 1, "sigma": 2, "polarity": "bright", "floor": 1000,
                       "threshold": 0, "refine": False}, [picture], None, {})


def glcm():
    def copy_features(a):
        n = len(a["feature_names"])
        old_sum = sum_of_means(a)
        a["features"][0, n // 4:] = np.resize(a["features"][0, :n // 4], n - n // 4)
        total = int(a["band_sums"][0, 0].view(np.uint64)) + sum_of_means(a) - old_sum
        a["band_sums"][0, 0] = np.array(total % 2 ** 64, np.uint64).view(np.int64)

    def zero_sd(a):
        a["features"][0, 2::5] = 0

    yield "windows", WINDOWS, [gravel()], None, \
        {"one number of levels and distance alone": copy_features, "no standard deviation": zero_sd}


def sum_of_means(a):
    """The sum of the means times the number of windows and offsets, in the unit of band_sums."""
    windows, offsets = gravel().size, {"01": 4, "03": 8}
    return sum(int(mean * 2.0 ** 32 * windows * offsets[name.split("_d")[1][:2]])
               for mean, name in zip(a["features"][0], a["feature_names"])
               if name.endswith("_mean"))


def set_masks(a, sides):
    """Sets the history to these masks, the last of which becomes the result's mask."""
    a["history_one"] = sum(side.astype(np.int64) << k
                           for k, side in enumerate(sides)).astype(np.int32)
    a["mask_one"] = sides[-1].astype(np.uint8)
    a["inside_voxels"][0] = a["measure"][0] = a["mask_one"].sum()


def levelset():
    def jump_to(a, mask):
        """Sets the history to the start followed by 8 times this mask."""
        set_masks(a, [a["history_one"] & 1] + [mask] * 8)

    def set_ball(a, r):
        y, x = np.indices(a["mask_one"].shape)
        jump_to(a, (y - 65) ** 2 + (x - 66) ** 2 <= r * r)

    def set_box(a):
        mask = np.zeros_like(a["mask_one"])
        mask[48:85, 48:85] = 1
        jump_to(a, mask)

    def end_with_box(a):
        sides = masks_of(a)
        sides[-1] = np.zeros_like(a["mask_one"])
        sides[-1][48:85, 48:85] = 1
        set_masks(a, sides)

    for suffix, band in ("", 0), (" in a band", 6):
        yield "a picture" + suffix, LEVEL | {"band": band}, [coins()[:160, :160]], None, {
            "a box": set_box, "a box after an honest way": end_with_box,
            "the start": lambda a: set_ball(a, 12),
            "the start, half as large again": lambda a: set_ball(a, 18)}
        long = LEVEL | {"band": band, "iterations": 1630}
        for title, extra in (("a part of a stretch", {}),
                             ("an early end", {"iterations": 20000, "stop_after": 300}),
                             ("vanishes", {"epsilon": 1}),
                             ("by Otsu", {"target": "otsu", "init": {"type": "otsu"}}),
                             ("all the picture", {"epsilon": 255, "alpha": 0.2}),
                             ("an early end of few",
                              {"iterations": 2000, "stop_after": 700, "dt": 0.01}),
                             ("at edges", {"edge_stop": 0.001, "smooth": 1})):
            yield title + suffix, long | extra, [coins()[:160, :160]], None, {}
        deep = long | {"iterations": 200, "reinit_every": 20, "init": LEVEL["init"] | {"cz": 8}}
        yield "a stack" + suffix, deep, [coins()[i:i + 100, i:i + 100] for i in range(16)], None, {}
    yield "without a history", LEVEL | {"reinit_every": 0}, [coins()[:160, :160]], None, {}
    yield ("a narrow one", LEVEL | {"init": {"type": "ball", "cx": 66, "cy": 5, "r": 4}},
           [coins()[40:52, :160]], None, {})


def masks_of(a):
    n = int(a["history_one"].view(np.uint32).max()).bit_length()
    return [a["history_one"] >> k & 1 for k in range(n)]


def disc(like, pixels):
    """A disc of this number of pixels around the centroid of the mask `like`."""
    y, x = np.indices(like.shape)
    cy, cx = (like * y).sum() / like.sum(), (like * x).sum() / like.sum()
    distance = (y - cy) ** 2 + (x - cx) ** 2
    return (distance <= np.sort(distance.ravel())[pixels - 1]).astype(like.dtype)


def replace_by_discs(a, _analysis):
    """Replaces each mask of the history by a disc of the same area."""
    sides = masks_of(a)
    set_masks(a, sides[:1] + [disc(side, side.sum()) for side in sides[1:]])


def grow_disc(a, _analysis):
    sides = masks_of(a)
    first, last = int(sides[0].sum()), int(sides[-1].sum())
    set_masks(a, sides[:1] +
              [disc(sides[-1], first + (last - first) * k // 16) for k in range(1, 17)])


def enlarged(parameters, picture):
    """A forgery: the masks computed from every second pixel, enlarged."""
    def change(a, analysis):
        init = {key: v // 2 if key in ("cx", "cy", "r") else v
                for key, v in parameters["init"].items()}
        part = compute(analysis, dict(parameters, init=init), [picture[::2, ::2]])
        first = masks_of(a)[:1]
        set_masks(a, first +
                  [np.kron(side, np.ones((2, 2), side.dtype)) for side in masks_of(part)][1:])
    return change


def small_structure(parameters, picture, top=151, left=173, side=64, cx=38.08, cy=20.66, r=8.92):
    """A forgery: after the first mask, those of a small structure in a crop of the picture."""
    def change(a, analysis):
        crop = slice(top, top + side), slice(left, left + side)
        init = {"type": "ball", "cx": cx, "cy": cy, "r": r}
        part = compute(analysis, dict(parameters, init=init), [picture[crop]])
        masks = np.zeros((len(masks_of(part)), *picture.shape), int)
        masks[(slice(None), *crop)] = masks_of(part)
        set_masks(a, [a["history_one"] & 1, *masks[:-1]])
    return change


def disc_beside_half_plane():
    """A picture of a disc that darkens outwards, and right of a gap of 9 pixels all bright."""
    y, x = np.indices((500, 500))
    picture = (235 - np.hypot(y - 250, x - 95)).clip(60, 180)
    picture[:, 121:130], picture[:, 130:] = 60, 180
    return (picture + np.random.default_rng(1).normal(0, 3, y.shape)).clip(0, 255).astype(np.uint8)


def leave_out_half_plane(parameters, picture):
    """A forgery: in the second stretch all right of the gap vanishes; the rest is computed further
    in the left part of the picture."""
    def change(a, analysis):
        first = masks_of(a)[:2]
        start = (first[1] > 0) & (np.arange(500) < 125)
        later = dict(parameters, iterations=parameters["iterations"] - 100, init={"type": "mask"})
        part = compute(analysis, later, [picture[:, :200]], masks=[start[:, :200]])
        set_masks(a, first + [np.pad(side, ((0, 0), (0, 300))) for side in masks_of(part)])
    return change


def never_converges(parameters):
    """A forgery: it did not converge, but stayed as it is for all iterations."""
    def change(a, _analysis):
        reinits = parameters["iterations"] // 50
        masks, n = masks_of(a), reinits // (reinits // 32 + 1) + 1
        set_masks(a, masks + [a["mask_one"]] * (n - len(masks)))
        a["iterations_run"][0], a["converged"][0] = parameters["iterations"], False
    return change


# --- every analysis: without a step, from a coarser picture, from another picture -----------------

def compute_with(parameters, slices, labels=None):
    """A forgery: the arrays computed with these parameters and pictures replace the right ones."""
    def change(a, analysis):
        part = compute(analysis, parameters, slices, labels=labels)
        for name in a:
            if name in part and part[name].ndim == a[name].ndim and part[name].dtype == a[
                    name].dtype:
                a[name] = part[name]
    return change


def compute_part_with(parameters, slices, is_part):
    """A forgery of cellcount: regions of a part of the picture are those that these parameters
    give."""
    def change(a, analysis):
        part = compute(analysis, parameters, slices)
        kept, new = ~is_part(a), is_part(part)
        order = np.argsort(np.concatenate([a["region_bbox"][kept, 0], part["region_bbox"][new, 0]]),
                           kind="stable")
        for name in [m for m in a if m.startswith("region_")]:
            a[name] = np.concatenate([a[name][kept], part[name][new]])[order]
        relabel(a, np.ones(len(order), bool))
    return change


def coarse(parameters, slices, by=2):
    """A forgery: computed from every pixel number `by` of each axis; lengths and areas are
    scaled."""
    def change(a, analysis):
        deep = len(slices) > 1
        part = compute(analysis, parameters, [s[::by, ::by] for s in slices[::by if deep else 1]])
        factors = {"area": by ** 2, "voxels": by ** 3, "volume": by ** 3, "bbox": by,
                   "centroid": by,
                   "point": by}
        for name in a:
            if a[name].dtype.kind != "U":
                a[name] = (part[name] * factors.get(name.split("_")[-1], 1)).astype(a[name].dtype)
    return change


def repeat_first_row(table, columns):
    """A forgery: all rows have the values of the first one in these columns."""
    def change(a, _analysis):
        for column in columns:
            a[table + "_" + column][:] = a[table + "_" + column][0]
    return change


def exchange_neighbours(names, first=0):
    """A forgery: each object from row `first` on has its neighbour's values in the columns that
    match `names`."""
    def change(a, _analysis):
        for name in a:
            if re.match(names, name) and len(a[name]) > first:
                a[name][first:] = np.roll(a[name][first:], 1, 0)
    return change


def exchange_every_second(names):
    """A forgery: every second object has its neighbour's values in the columns that match
    `names`."""
    def change(a, _analysis):
        for name in a:
            if re.match(names, name):
                a[name][::2] = np.roll(a[name], 1, 0)[::2]
    return change


def raise_means(a, _analysis):
    area = a["region_area"]
    a["region_mean"] = (np.round(a["region_mean"] * area) + area // 50 + 1) / area


def remove_each(n):
    return lambda a, _analysis: relabel(a, np.arange(len(a["region_item"])) % n != n - 1)


def mirror_left_half(a, _analysis):
    """Replaces the right half's regions by the mirror image of the left half's."""
    half = np.flatnonzero(a["region_bbox"][:, 3] <= 800)
    regions = {name: np.concatenate([a[name][half], a[name][half]])
               for name in a if name.startswith("region_")}
    box, n = regions["region_bbox"], len(half)
    box[n:, [1, 3]] = 1600 - box[n:, [3, 1]]
    regions["region_centroid"][n:, 1] = 1599 - regions["region_centroid"][n:, 1]
    order = np.lexsort((box[:, 1], box[:, 0]))
    a.update({name: column[order] for name, column in regions.items()})
    a["region_label"], a["count"][0] = np.arange(1, 2 * n + 1), 2 * n


def keep_cells(a, keep):
    removed_voxels = int(a["cell_voxels"][~keep].sum())
    keep_rows(a, "cell", keep)
    a["cell_label"], a["cells"][0] = np.arange(1, keep.sum() + 1), keep.sum()
    for name, sign in (("inside_voxels", -1), ("volume", -1), ("external_voxels", 1)):
        a[name][0] += sign * removed_voxels


def small_and_large_cells():
    """A stack with small cells in the rows up to 46, and large ones in the others."""
    stack = np.full((40, 300, 300), 180, np.uint8)
    for z, y, x in itertools.product(range(2, 35, 6), range(2, 40, 6), range(2, 294, 6)):
        stack[z:z + 5, y:y + 5, x:x + 5] = 40
    for y, x in itertools.product(range(46, 220, 83), range(2, 220, 83)):
        stack[1:39, y:y + 80, x:x + 80] = 40
    return list(stack + np.random.default_rng(3).integers(0, 20, stack.shape).astype(np.uint8))


def of_a_slab(parameters, stack):
    """A forgery: the cells of the rows up to 46, after one whose box is the inside of the stack."""
    def change(a, analysis):
        part, voxels = compute(analysis, parameters, [s[:46] for s in stack]), 640
        first = {"voxels": voxels, "volume": voxels * a["voxel_volume"][0],
                 "bbox": [1, 1, 1, 39, 299, 299], "centroid": [20, 150, 150]}
        for name in [m for m in a if m.startswith("cell_")]:
            row = np.array([first.get(name[5:], 0)], a[name].dtype)
            a[name] = np.concatenate([row, part[name]])
        a["cells"][0], inside = len(a["cell_item"]), a["cell_voxels"].sum()
        a["cell_label"] = np.arange(1, a["cells"][0] + 1)
        a["external_voxels"] += a["inside_voxels"] - inside
        a["inside_voxels"][0], a["volume"][0] = inside, inside * a["voxel_volume"][0]
    return change


def points_at_maxima(radius, picture):
    """A forgery: the points are the maxima of the smoothed picture; the scores stay."""
    def change(a, _analysis):
        smooth = scipy.ndimage.gaussian_filter(picture.astype(float), 3)
        positions = np.argwhere((smooth == scipy.ndimage.maximum_filter(smooth, 2 * radius + 1)) & (
            smooth > smooth.mean()))
        n = min(len(positions), len(a["score"]))
        for name in ("point_item", "score"):
            a[name] = a[name][:n]
        a["point"], a["count"][0] = positions[:n].astype(a["point"].dtype), n
    return change


def keep_upper_points(end):
    return lambda a, _analysis: keep_rows_of_items(a, a["point"][:, -2] < end)


def repeat_points(times, end):
    """A forgery: only the points above row `end`, each several times."""
    def change(a, _analysis):
        keep_rows_of_items(a, a["point"][:, -2] < end)
        for name in "point_item", "point", "score":
            a[name] = np.repeat(a[name], times, 0)
        a["count"][0] *= times
    return change


def move_lower_points(start, axis=-2):
    """A forgery: points from `start` on along an axis are a pixel beside the right place."""
    def change(a, _analysis):
        a["point"][:, -1] -= (a["point"][:, axis] >= start) & (a["point"][:, -1] >= 1)
    return change


def below_a_bar(side, n, radius):
    """A picture of discs below a bright bar, most of them directly below it."""
    picture, rows = cells(side=side, n=n, radius=radius), int(side * 0.285)
    picture[:rows] = picture[int(side * 0.61):int(side * 0.61) + rows, ::-1]
    picture[:int(side * 0.265)] = 60
    picture[:int(side * 0.08)] = 150
    return picture


def stack_of_balls(depth=40, side=150, n=160):
    rng = np.random.default_rng(3)
    z, y, x = np.indices((depth, side, side))
    stack = 60 + rng.normal(0, 4, z.shape)
    for _ in range(n):
        cz, cy, cx = rng.uniform(0, (depth, side, side))
        stack[(z - cz) ** 2 + (y - cy) ** 2 + (x - cx) ** 2 < rng.uniform(3, 5) ** 2] += 90
    stack[:, :side // 10] = 150
    return list(stack.clip(0, 255).astype(np.uint8))


def few_bright_discs():
    """A picture of few large bright discs and many small faint ones."""
    return draw_discs([(y, x, 9, 130) if (7 * i + 3 * j) % 11 == 0 else (y, x, 6, 16)
                       for j, y in enumerate(range(20, 1580, 30))
                       for i, x in enumerate(range(20, 1580, 30))], noise=1)[:800, :800]


def keep_strong_points(a, _analysis):
    keep_rows_of_items(a, a["score"] >= a["score"].max() / 2)


def keep_strongest(share):
    return lambda a, _analysis: keep_rows_of_items(
        a, a["score"] >= np.quantile(a["score"], 1 - share))


def rings_in_noise():
    places = np.random.default_rng(9).integers(30, 970, (8, 2))
    return draw_discs([ring for y, x in places for ring in ((y, x, 8, 45), (y, x, 4, -45))], 10,
                      side=1000)


def contrasts_of_all_sizes(sigma):
    """A picture of discs whose heights are log-normal."""
    rng = np.random.default_rng(3)
    picture = 400 + rng.normal(0, 3, (1000, 1000))
    y, x = np.indices((15, 15)) - 7
    for cy in range(20, 980, 25):
        for cx in range(20, 980, 25):
            height = min(np.exp(3.3 + sigma * rng.normal()), 60000)
            top, left = (cy, cx) + rng.integers(-10, -3, 2)
            picture[top:top + 15, left:left + 15] += height * (y * y + x * x <= 49)
    return picture.clip(0, 65535).astype(np.uint16)


def colonies_beside_bars():
    """A picture of groups of seven discs, 150 pixels apart, on the left, and bars on the right."""
    ring = [(0, 0), (0, 14), (12, 7), (12, -7), (0, -14), (-12, -7), (-12, 7)]
    picture = draw_discs([(y + dy, x + dx, 6, 90) for y in range(80, 1590, 150)
                          for x in range(80, 880, 150) for dy, dx in ring], noise=3)
    for x in range(980, 1580, 24):
        picture[:, x:x + 12] += 120
    return picture


def colonies_among_bars():
    """A picture of bars, and groups of seven discs in gaps of them, 250 pixels apart."""
    ring = [(0, 0), (0, 14), (12, 7), (12, -7), (0, -14), (-12, -7), (-12, 7)]
    places = [(y, x) for y in range(100, 1550, 250) for x in range(100, 1550, 250)]
    picture = draw_discs([(y + dy, x + dx, 6, 90) for y, x in places for dy, dx in ring], noise=3)
    gap = np.zeros((1600, 1600), bool)
    for y, x in places:
        gap[y - 26:y + 27, x - 28:x + 29] = True
    bars = 60 + 90 * (np.arange(1600) // 12 % 2)
    return np.where(gap, picture, bars).astype(np.uint8)


def different_contrasts():
    """A picture of 3721 discs of one size."""
    rng = np.random.default_rng(6)
    return draw_discs([(y, x, 6, 40 + 8 * rng.normal()) for y in range(20, 1590, 26)
                       for x in range(20, 1590, 26)], noise=3)


def similar_contrasts():
    """A picture of 3721 discs of one size, with contrasts from 55 to 85."""
    rng = np.random.default_rng(4)
    return draw_discs([(y, x, 6, rng.integers(55, 86)) for y in range(20, 1590, 26)
                       for x in range(20, 1590, 26)])


def few_discs_in_noise():
    """A picture of 60 discs in the upper sixth and 30 below, in noise."""
    rng = np.random.default_rng(3)
    return draw_discs([(rng.integers(*rows), rng.integers(12, 1588), 7, 40)
                       for n, rows in ((60, (12, 244)), (30, (268, 1588))) for _ in range(n)],
                      noise=20)


def discs_between_strong_bars():
    """A picture in 16 bit of 60 discs in the upper sixth, as many below, and bars that are 40 times
    as bright."""
    picture, rng = np.full((1600, 1600), 1000.0), np.random.default_rng(3)
    for row in range(0, 1600, 200):
        picture[row:row + 12] += 20000
    y, x = np.indices((15, 15)) - 7
    for first, end in (12, 244), (268, 1588):
        for _ in range(60):
            cy, cx = rng.integers(first, end), rng.integers(12, 1588)
            box = picture[cy - 7:cy + 8, cx - 7:cx + 8]
            box[y ** 2 + x ** 2 <= 49] = np.maximum(box, 1500)[y ** 2 + x ** 2 <= 49]
    picture = scipy.ndimage.gaussian_filter(picture, 1) + rng.normal(0, 20, picture.shape)
    return picture.round().clip(0, 65535).astype(np.uint16)


def large_discs_beside_bars():
    """A picture of 48 discs of radius 47, and bars on the right."""
    picture = draw_discs([(y, x, 47, 90) for y in range(150, 3000, 400)
                          for x in range(150, 2300, 400)], noise=3, side=3000)
    for x in range(2400, 3000, 50):
        picture[:, x:x + 25] += 90
    return picture


def few_discs(n, side):
    return draw_discs([(y, x, 6, 90) for y, x in
                       np.random.default_rng(8).integers(30, side - 30, (n, 2))], 0, side=side)


def small_spots():
    return draw_discs([(y, x, 2, 90) for y, x in
                       np.random.default_rng(8).integers(10, 1590, (150, 2))], 2)


def bright_top():
    """A picture of 70 faint discs and of 60 bright ones in the upper sixth."""
    random = np.random.default_rng(8)
    return draw_discs([(random.integers(*rows), random.integers(12, 1588), 7, height)
                       for n, rows, height in ((10, (12, 255), 10), (60, (290, 1588), 10),
                                               (60, (12, 255), 190)) for _ in range(n)], 0.4)


def remove_half_of_colonies(a, _analysis):
    keep_rows_of_items(a, ((a["point"] - 5) // 150).sum(1) % 2 == 0)


def pairs_far_apart():
    """A picture of 20 pairs of discs."""
    centres = np.random.default_rng(9).integers(60, 1540, (20, 2))
    return draw_discs([(y, x + d, 7, 90) for y, x in centres for d in (0, 18)])


def add_isolated_points(n):
    """A forgery: n points more than 60 pixels from all others, with the lowest score."""
    def change(a, _analysis):
        rng, points = np.random.default_rng(2), list(a["point"])
        while len(points) < len(a["score"]) + n:
            new = rng.integers(20, 1580, 2)
            if np.hypot(*(np.array(points) - new).T).min() > 60:
                points.append(new)
        new = sorted(map(tuple, points[len(a["score"]):]))
        a["point"] = np.concatenate([a["point"], np.array(new, float)])
        for name, value in ("score", a["score"].min() - 1), ("point_item", 0):
            a[name] = np.concatenate([a[name], np.full(n, value, a[name].dtype)])
        a["count"][0] += n
    return change


def another_threshold(parameters, picture, difference=5):
    """A forgery: computed with another threshold than Otsu's."""
    def change(a, analysis):
        t = int(a["threshold"][0]) + difference
        compute_with(dict(parameters, threshold=t, classes=None), [picture])(a, analysis)
        a["threshold"][0] = t
    return change


def replace_pairs(parameters, picture, first):
    """A forgery: features of the pairs (levels, distance) from index `first` on are another
    picture's."""
    def change(a, analysis):
        n = 65 * first
        a["features"][0, n:] = compute(analysis, parameters, [picture])["features"][0, n:]
    return change


def replace_further_features(parameters, picture):
    """A forgery: only the first 13 features are right; the others are of every second pixel."""
    def change(a, analysis):
        part = compute(analysis, parameters, [picture[::2, ::2]])["features"]
        made_up = np.arange(len(a["feature_names"])) % (24 * 5) >= 13 * 5
        a["features"][0, made_up] = part[0, made_up]
        a["band_sums"] += a["band_sums"] != 0
    return change


def keep_upper_regions(end):
    return lambda a, _analysis: relabel(a, a["region_bbox"][:, 2] < end)


def keep_largest(n):
    def change(a, _analysis):
        a["min_area"][0] = np.sort(a["region_area"])[-n]
        relabel(a, a["region_area"] >= a["min_area"][0])
    return change


def exchange_in_wide_boxes(n):
    """A forgery: each nth object has another's texture, and the bounding box of the whole
    picture."""
    def change(a, _analysis):
        chosen = np.arange(len(a["object_item"])) % n == n - 1
        a["object_glcm"][chosen] = np.roll(a["object_glcm"], 1, 0)[chosen]
        shape = {"bbox": [0, 0, 1020, 1020], "border": True, "eccentricity": 0,
                 "extent": a["object_area"][chosen] / 1020 ** 2, "feret_diameter_max": 1100}
        for axis in "major", "minor":
            shape["axis_%s_length" % axis] = 3000 / np.sqrt(a["object_area"][chosen])
        for key, value in shape.items():
            a["object_" + key][chosen] = value
    return change


def squares_and_network():
    """A picture and its labels: 272 squares and, as the last label, the network around them."""
    labels = np.zeros((816, 816), int)
    squares = np.arange(1, 273).reshape(16, 17)
    labels[:768] = np.kron(squares, np.pad(np.ones((8, 8), int), 20))
    labels[scipy.ndimage.uniform_filter((labels > 0).astype(float), 7) == 0] = 273
    return np.random.default_rng(5).integers(0, 256, labels.shape).astype(np.uint8), labels


def copy_last_texture(a, _analysis):
    a["object_glcm"][-1] = a["object_glcm"][0]


def name_another_label(a, _analysis):
    """The last row is a copy of the row before, with a label that no pixel has."""
    for name in a:
        if name.startswith("object_") and name != "object_label":
            a[name][-1] = a[name][-2]
    a["object_label"][-1] -= 1


def keep_objects(n):
    def change(a, _analysis):
        keep_rows(a, "object", np.arange(len(a["object_item"])) < n)
        a["objects"][0] = n
    return change


def cheap_forgeries():
    """Yields (analysis, name of the forgery, parameters, slices, labels, function that forges)."""
    cells_, other = different_cells(), np.rot90(different_cells()).copy()
    labels, other_labels = ([scipy.ndimage.label(p > 110)[0]] for p in (cells_, other))
    step = dict(BRIGHT, min_area=20, threshold=110)
    rings = np.where(scipy.ndimage.distance_transform_edt(cells_ > 110) > 4, 60,
                     cells_).astype(np.uint8)
    for key, value in (("split", "distance"), ("smooth", 2), ("fill_holes", True),
                       ("background", {"method": "opening", "radius": 20})):
        whole = dict(step, threshold=40 if key == "background" else 110, **{key: value})
        picture = rings if key == "fill_holes" else cells_
        yield ("cellcount", "without " + key, whole, [picture], None,
               compute_with(dict(whole, **{key: None}), [picture]))
    soft = scipy.ndimage.gaussian_filter(cells_.astype(float), 1.5).round().astype(np.uint8)
    even = dict(step, threshold=40, background={"method": "opening", "radius": 20})
    yield ("cellcount", "connectivity 4 for 8", step, [soft], None,
           compute_with(dict(step, connectivity=4), [soft]))
    yield ("cellcount", "connectivity 8 for 4", dict(step, connectivity=4), [soft], None,
           compute_with(step, [soft]))
    yield "cellcount", "another window", dict(BRIGHT, threshold="local", window=31,
                                              min_area=20), [soft], None, \
        compute_with(dict(BRIGHT, threshold="local", window=33, min_area=20), [soft])
    for radius in 15, 30:
        ground = {"method": "opening", "radius": radius}
        yield ("cellcount", "a background of radius %d" % radius, even, [soft], None,
               compute_with(dict(even, background=ground), [soft]))
    for name, whole in ("background", even), ("smooth",
                                              dict(step, smooth=2)), ("holes",
                                                                      dict(step, fill_holes=True)):
        yield "cellcount", "every third region, with " + name, whole, [soft], None, remove_each(3)
        yield ("cellcount", "all means a little higher, with " + name, whole, [soft], None,
               raise_means)
    faint = dict(step, min_contrast={"full_area": 520, "percent": 40})
    for name, whole in (("", faint), (" split", dict(faint, split="distance")),
                        (" with all filters", ALL_FILTERS),
                        (" of any size",
                         dict(faint, min_contrast={"full_area": "auto", "percent": 40}))):
        yield ("cellcount", "the upper half alone of regions by contrast" + name, whole, [soft],
               None, keep_upper_regions(800))
    clump, giant = discs_and_clump(), giants_among_small()
    large = draw_discs([(y, x, 74, 90) for y in range(89, 1526, 170) for x in range(89, 1526, 170)])
    for name, more in (("", {}), (", filled", {"fill_holes": True}), (", split", {
            "split": "distance"}), (", smoothed", {"smooth": 1}), (
                ", smoothed and split", {"split": "distance", "smooth": 1})):
        whole = dict(step, **more)
        yield "cellcount", "a clump left out" + name, whole, [clump], None, remove_clump
        if "split" in more:
            yield "cellcount", "a clump as one" + name, whole, [clump], None, merge_clump
        if "smooth" not in more:
            yield ("cellcount", "the upper half alone of large cells" + name, whole, [large], None,
                   keep_upper_regions(820))
        if "split" not in more:
            yield "cellcount", "giants made up" + name, whole, [giant], None, change_giants
            yield ("cellcount", "one region for giants" + name, whole, [giant], None,
                   replace_giants_by_one)
    yield ("cellcount", "giants hollow in the labels", dict(step, labels=True), [giant], None,
           hollow_out_giants)
    yield ("cellcount", "cells hollow in the labels, filled and split",
           dict(step, labels=True, fill_holes=True, split="distance"), [many_discs()], None,
           hollow_out_in_labels)
    split = dict(step, split="distance")
    yield "cellcount", "a small clump made up", split, [small_clump()], None, shrink_clump
    local = dict(split, smooth=1, fill_holes=True, threshold="local", window=151, offset=15)
    yield ("cellcount", "1% of pairs not split, local threshold", local,
           [discs_and_some_pairs(0.01)], None,
           compute_with(dict(local, split=None), [discs_and_some_pairs(0.01)]))
    for share, more in (0.01, {"threshold": "local", "window": 151, "offset": 25}), (
            0.01, {"threshold": 150, "background": {"method": "mean", "radius": 70}}), (
                0.005, {"threshold": 105}):
        yield ("cellcount", "%g of discs of all sizes are pairs, not split, " % share +
               ", ".join(more), dict(split, **more), [pairs_among_sizes(share)], None,
               compute_with(dict(step, **more), [pairs_among_sizes(share)]))
    filled_split = {"split": "intensity", "fill_holes": True}
    for more in {}, {"split": "distance"}, {"split": "distance", "fill_holes": True}, filled_split:
        yield ("cellcount", "without background but in the crowded upper sixth" + "".join(
            ", %s %s" % v for v in more.items()), dict(step, threshold=25, background={
                "method": "opening", "radius": 50}, **more), [soft_crowded_top(60, 10)], None,
               compute_part_with(dict(step, threshold=85, **more), [soft_crowded_top(60, 10)],
                                 lambda a: a["region_bbox"][:, 2] > 266))
    window = dict(step, threshold="local", window=151, offset=22)
    yield ("cellcount", "not smoothed, filled or split but in the crowded upper sixth",
           dict(window, smooth=1, **filled_split), [soft_crowded_top(180, 180)], None,
           compute_part_with(window, [soft_crowded_top(180, 180)],
                             lambda a: a["region_bbox"][:, 2] > 266))
    for more in {}, {"split": "distance"}, {"split": "intensity"}:
        yield ("cellcount", "a small clump made up, smoothed" + "".join(
            ", split by " + v for v in more.values()), dict(step, smooth=1, **more),
               [small_clump()], None, shrink_clump)
    one = giant_among_discs()
    for more in {}, {"fill_holes": True}, {"smooth": 1}, {"labels": True}:
        yield ("cellcount", "one giant among 5,000 made up" + "".join(", " + k for k in more),
               dict(step, **more), [one], None, change_giants)
    yield ("cellcount", "other means of parts, smoothed and split",
           dict(split, smooth=1, background={"radius": 30}, threshold=50), [pairs_and_singles()],
           None, change_means_of_pairs)
    for more in {}, {"smooth": 1}, {"split": "distance"}:
        whole = dict(BRIGHT, min_area=20, threshold=85,
                     min_contrast={"full_area": 300, "percent": 60}, **more)
        picture = large_bright_small_faint()
        yield ("cellcount", "faint regions as well" + "".join(", " + k for k in more), whole,
               [picture], None, compute_with(dict(whole, min_contrast=None), [picture]))
    usual = {"smooth": 1, "fill_holes": True, "split": "distance"}
    for more in {}, {"split": "distance"}, {"smooth": 0.5, "threshold": 90}:
        yield ("cellcount", "all fibres" + "".join(", " + k for k in more), dict(step, **more),
               [fibres_and_discs()], None, leave_out(is_long))
    for more in {"smooth": 1}, usual:
        yield ("cellcount", "all rods" + "".join(", " + k for k in more), dict(step, **more),
               [rods_and_discs()], None, leave_out(is_long))
    for density in 0.02, 0.1:
        yield ("cellcount", "three of ten cells among specks, %g of the pixels" % density, step,
               [cells_and_specks(density)], None, leave_out_at_random(0.3))
    yield ("cellcount", "two of three cells among specks", dict(BRIGHT, min_area=60, threshold=95),
           [few_cells_among_specks()], None,
           leave_out(lambda a: np.arange(len(a["region_item"])) > 0))
    yield ("cellcount", "all small ones beside large ones, among specks", step,
           [large_and_small_among_specks()], None, leave_out(is_small))
    yield ("cellcount", "the upper tenth of the picture left out, local threshold",
           dict(step, smooth=1, threshold="local", window=113, offset=15), [cells_], None,
           leave_out(lambda a: a["region_bbox"][:, 0] < 160))
    for more in {"background": {"method": "opening", "radius": 50}, "threshold": 40}, dict(
            usual, threshold="local", window=113, offset=15):
        yield ("cellcount", "40 of 100 discs, all but the upper sixth, " + ", ".join(more),
               dict(step, **more), [crowded_top()], None,
               leave_out(lambda a: a["region_bbox"][:, 0] > 280))
    yield ("cellcount", "a block of 20 of 200 small discs left out, background",
           dict(step, background={"method": "opening", "radius": 50}, threshold=40),
           [scattered_discs()], None, leave_out_block(0.1, 900, 900))
    for more in {"threshold": "local", "window": 151, "offset": 15}, {
            "background": {"method": "opening", "radius": 50}, "threshold": 40}:
        yield ("cellcount", "the left twentieth with other parameters, " + ", ".join(more),
               dict(step, **more), [cells_], None,
               compute_part_with(
                   dict(step, threshold="local", window=113, offset=15, **usual), [cells_],
                   lambda a: a["region_bbox"][:, 1] < 80))
    yield ("cellcount", "all chains nearly as wide as a tile made up", dict(
        step, threshold="local", window=113, offset=15, **usual), [chains()], None, shrink_chains)
    filled = {"fill_holes": True}
    for more in filled, dict(filled, split="distance"):
        suffix = ", ".join(more)
        yield ("cellcount", "all discs close to another, " + suffix, dict(step, **more),
               [close_discs()], None, leave_out(lambda a: a["region_bbox"][:, 0] < 1320))
        yield ("cellcount", "60 large regions invented beside 3600, " + suffix, dict(step, **more),
               [many_discs()], None, add_large_regions(60, 150, 20000))
    alone = dict(step, fill_holes=True, split="intensity")
    yield ("cellcount", "60 large regions invented, fill_holes, split by intensity", alone,
           [staggered_discs()], None, add_large_regions(60, 150, 20000))
    yield ("cellcount", "a block of large discs left out, fill_holes, split by intensity",
           dict(alone, h=20), [large_soft_discs()], None,
           leave_out(lambda a: (a["region_centroid"] < 506).all(1)))
    for more in filled, dict(filled, split="distance"), dict(filled, smooth=0.5):
        whole = dict(step, **more)
        yield ("cellcount", "grains in filled rings as well, " + ", ".join(more), whole,
               [grains_in_rings()], None, add_grains(whole, grains_in_rings()))
    for more in filled, dict(usual, threshold="local", window=113, offset=15):
        yield ("cellcount", "one row in place of the nine of each group, " + ", ".join(more),
               dict(step, **more), [groups_of_discs()], None, copy_first_of_group)
    for more in filled, usual:
        yield ("cellcount", "all rows twice, " + ", ".join(more), dict(step, **more), [cells_],
               None, repeat_rows)
    for more in filled, {"split": "distance"}:
        yield ("cellcount", "all cells at the border of a strip, " + ", ".join(more),
               dict(step, **more), [strip_of_discs()], None,
               leave_out(lambda a: a["region_border"]))
    dark = 255 - few_large_many_small((11, 100), (5, 100), 8)
    for more in {}, {"fill_holes": True}, usual:
        suffix = "".join(", " + k for k in more)
        yield ("cellcount", "all small dark ones below an automatic area" + suffix,
               dict(more, polarity="dark", min_area="auto", threshold=155), [dark], None,
               leave_out(is_small, 100))
        if "smooth" not in more:
            yield ("cellcount", "small dark ones of an eighth of the pixels, an automatic area" +
                   suffix, dict(more, polarity="dark", min_area="auto", threshold=145),
                   [255 - few_large_many_small((13, 100), (5, 100), 2)], None,
                   leave_out(is_small, 100))
        contrast = {"min_area": 10, "threshold": 75,
                    "min_contrast": {"full_area": "auto", "percent": 40}}
        yield ("cellcount", "all small faint ones below an automatic area" + suffix,
               dict(BRIGHT, **contrast, **more), [few_large_many_small((11, 120), (5, 26), 11)],
               None, leave_out(is_small))
        contrast = {"min_area": 10, "threshold": 85,
                    "min_contrast": {"full_area": 300, "percent": 40}}
        yield ("cellcount", "regions of 0.47 times the contrast of the others" + suffix,
               dict(BRIGHT, **contrast, **more), [few_large_many_small((12, 120), (5, 70), 8)],
               None, leave_out(is_small))
    for more in {}, {"fill_holes": True}, {"split": "distance"}:
        whole = dict(BRIGHT, min_area=10, threshold=75,
                     min_contrast={"full_area": "auto", "percent": 40}, **more)
        yield ("cellcount", "regions of 0.44 times the contrast, an automatic area" +
               "".join(", " + k for k in more), whole,
               [few_large_many_small((11, 120), (4, 61), 3)], None, leave_out(is_small))
    for more in {"smooth": 1}, usual:
        yield ("cellcount", "regions of a little more contrast than the limit" +
               "".join(", " + k for k in more), dict(BRIGHT, **contrast, **more),
               [few_large_many_small((13, 120), (7, 74), 3)], None, leave_out(is_small))
    auto_area = dict(step, min_area="auto")
    yield "cellcount", "the largest 200 alone", auto_area, [soft], None, keep_largest(200)
    yield ("cellcount", "the largest 700 alone, smoothed", dict(auto_area, smooth=1), [soft], None,
           keep_largest(700))
    yield "cellcount", "another picture's", step, [cells_], None, compute_with(step, [other])
    yield ("cellcount", "of every second pixel", step, [cells_], None,
           coarse(dict(step, min_area=5), [cells_]))
    otsu = dict(step, threshold="otsu")
    yield ("cellcount", "another Otsu's threshold", otsu, [cells_], None,
           another_threshold(otsu, cells_))
    for difference in -25, 25:
        classes = dict(otsu, smooth=1, classes=4)
        yield ("cellcount", "Otsu's threshold %+d, smoothed, of 4 classes" % difference, classes,
               [cells_], None, another_threshold(classes, cells_, difference))
    sparse = dict(BRIGHT, min_area=5, smooth=0.5)
    for difference in -15, 15:
        yield ("cellcount", "Otsu's threshold %+d, of few small discs" % difference, sparse,
               [few_soft_discs()], None, another_threshold(sparse, few_soft_discs(), difference))
    for difference in -20, 20:
        smoothed = dict(otsu, smooth=1)
        yield ("cellcount", "Otsu's threshold %+d, smoothed" % difference, smoothed, [cells_], None,
               another_threshold(smoothed, cells_, difference))
    yield "cellcount", "every second region", step, [cells_], None, remove_each(2)
    yield "cellcount", "all but each tenth region", step, [cells_], None, remove_each(10)
    yield "cellcount", "the left half, twice", step, [cells_], None, mirror_left_half
    yield ("cellcount", "all regions with one mean", step, [cells_], None,
           repeat_first_row("region", ["area", "mean"]))
    stack = stack_of_shells()
    rotated_stack = [np.rot90(s).copy() for s in stack]
    edge = {"membrane": 110}
    yield "volume", "another stack's", edge, stack, None, compute_with(edge, rotated_stack)
    yield ("volume", "without repair", dict(edge, repair={"sigma": 1}), stack, None,
           compute_with(edge, stack))
    watershed = {"method": "watershed", "smooth": 1, "labels": True}
    yield ("volume", "a watershed with smooth 1.1", watershed, stack, None,
           compute_with(dict(watershed, smooth=1.1), stack))
    cubes = small_and_large_cells()
    yield "volume", "a slab alone, and a cell around all", edge, cubes, None, of_a_slab(edge, cubes)
    edges = np.stack(stack_of_shells())
    yield ("objects", "every second one another's texture", {}, [cells_], labels,
           exchange_every_second("object_glcm"))
    inner = {"exclude_border": True}
    yield "objects", "no object off the border", inner, [cells_], labels, keep_objects(0)
    yield ("objects", "half of the objects off the border", inner, [cells_], labels,
           keep_objects(700))
    yield ("objects", "no object off the border, without shapes",
           dict(inner, families=["intensity"]), [cells_], labels, keep_objects(0))
    yield ("objects", "no object off the border of a stack", inner, list(edges),
           list(scipy.ndimage.label(edges < 110)[0]), keep_objects(0))
    yield "objects", "every second one another's texture, without shapes", {
        "families": ["texture"]}, [cells_], labels, \
        exchange_every_second("object_glcm")
    pairs, first = [(labels[0] + 1) // 2], [labels[0] % 2 * (labels[0] + 1) // 2]
    for families in ["shape"], ["shape", "texture"]:
        of = {"families": families}
        yield ("objects", "one of the two pieces of each object, " + " and ".join(families), of,
               [cells_], pairs, compute_with(of, [cells_], first))
    corner = slice(0, 1020), slice(0, 1020)
    yield ("objects", "a tenth of the textures, in wide boxes", {}, [cells_[corner].copy()],
           [scipy.ndimage.label(cells_[corner] > 110)[0]], exchange_in_wide_boxes(10))
    noise, network_ = squares_and_network()
    yield ("objects", "another's texture for the one object of most pixels", {}, [noise],
           [network_], copy_last_texture)
    sparse_labels = np.zeros((2000, 2000), int)
    sparse_labels[100:1800:100, 100:1700:100] = np.arange(1, 273).reshape(17, 16)
    sparse_labels[1900:1940, 1900:1940] = 273
    yield ("objects", "another's texture for the one object of most pixels in a sparse picture", {},
           [np.random.default_rng(5).integers(0, 256, (2000, 2000)).astype(np.uint8)],
           [sparse_labels], copy_last_texture)
    inside = np.pad(2 * network_, 1)
    for suffix, more in ("", {}), (", without intensities", {"families": ["shape", "texture"]}), (
            " off the border", inner):
        yield ("objects", "a label of no pixel in place of the object of most pixels" + suffix,
               more, [np.pad(noise, 1)], [inside], name_another_label)
    few = np.zeros((700, 700), int)
    few[5:280, 5:695], few[285:560, 5:695] = 1, 2
    few[575:675, 5:665][:84] = np.kron(np.arange(3, 69).reshape(3, 22), np.ones((28, 30), int))
    rough = np.random.default_rng(5).integers(0, 256, few.shape).astype(np.uint8)
    ground = np.ones((1000, 1000), int)
    ground[::6, ::6] = np.arange(102, 102 + 167 * 167).reshape(167, 167)
    for label in range(2, 102):
        y, x = 20 + (label - 2) // 10 * 96, 20 + (label - 2) % 10 * 96
        ground[y:y + 40, x:x + 40] = label
    specks = [np.unique(ground, return_inverse=True)[1].reshape(ground.shape) + 1]
    grain = np.random.default_rng(6).integers(0, 256, ground.shape).astype(np.uint8)
    yield ("objects", "another's texture for 100 cells beside specks and the ground", {}, [grain],
           specks, lambda a, _: a["object_glcm"].__setitem__(slice(1, 101), a["object_glcm"][1]))
    sizes = np.zeros((1200, 1200), int)
    sizes[:656] = np.repeat(np.arange(1, 9), 82)[:, None]
    sizes[660:772, :700] = np.kron(np.arange(9, 109).reshape(4, 25), np.pad(np.ones((24, 24)), 2))
    sizes[776:926:3, ::3] = np.arange(109, 20109).reshape(50, 400)
    yield ("objects", "another's texture for 100 cells beside 8 huge objects and specks", {},
           [np.random.default_rng(5).integers(0, 256, sizes.shape).astype(np.uint8)], [sizes],
           lambda a, _: a["object_glcm"].__setitem__(slice(8, 108), a["object_glcm"][8]))
    yield ("objects", "rows of all small objects beside two large ones exchanged", {}, [rough],
           [few], exchange_neighbours("object_(?!item|label)", 12))
    y, x = np.indices((700, 700)) - 349.5
    rings = np.maximum(61 - (np.hypot(y, x) / 5.8).astype(int), 0)  # label 1 is the outermost
    yield ("objects", "another's texture for the inner 35 of 60 rings", {}, [rough], [rings],
           exchange_neighbours("object_glcm", 25))
    yield "objects", "another picture's", {}, [cells_], labels, compute_with({}, [other], labels)
    yield ("objects", "of a smoothed picture", {}, [cells_], labels,
           compute_with({}, [scipy.ndimage.uniform_filter(cells_, 3)], labels))
    yield ("objects", "another's intensities", {}, [cells_], labels,
           exchange_neighbours("object_intensity"))
    yield ("objects", "another's shape", {}, [cells_], labels,
           exchange_neighbours("object_area|object_bbox|object_centroid$"))
    yield "objects", "other labels", {}, [cells_], labels, compute_with({}, [cells_], other_labels)
    vote = {"radius": 7, "polarity": "bright"}
    yield "voting", "another picture's", vote, [cells()], None, compute_with(vote, [cells(seed=2)])
    sparse = sparse_cells()
    crowded = np.random.default_rng(6).normal(60, 4, (1600, 1600)).clip(0, 255).astype(np.uint8)
    crowded[1000:1400, 600:1000] = cells()
    specks = cells(side=1600, n=80)
    specks[tuple(np.random.default_rng(5).integers(0, 1600, (2, 2000)))] = 255
    yield ("voting", "sparse cells among bright pixels, the upper quarter alone",
           dict(vote, threshold=20000), [specks], None, keep_upper_points(400))
    yield ("voting", "cells in a sixteenth of the picture, the upper three quarters alone", vote,
           [crowded], None, keep_upper_points(1200))
    yield ("voting", "cells in a sixteenth of the picture, the upper three quarters of them", vote,
           [crowded], None, keep_upper_points(1300))
    yield ("voting", "cells of a rolled picture", vote, [crowded], None,
           compute_with(vote, [np.roll(crowded, 100, 1)]))
    yield ("voting", "sparse cells of a rolled picture", vote, [sparse], None,
           compute_with(vote, [np.roll(sparse, 100, 0)]))
    yield ("voting", "maxima of the smoothed picture", vote, [cells()], None,
           points_at_maxima(7, cells()))
    yield "voting", "the upper half alone", vote, [cells()], None, keep_upper_points(200)
    for times, end in (2, 1600), (10, 200):
        yield ("voting", "the points above row %d alone, each %d times" % (end, times), vote,
               [cells_], None, repeat_points(times, end))
    barred = cells(side=490, n=230)
    barred[:140] = barred[300:440, ::-1]
    barred[:130] = 60
    barred[:40] = 150
    yield ("voting", "below a bright bar, the lower half moved", dict(vote, threshold="auto"),
           [barred], None, move_lower_points(260))
    for radius, side, n, radii in (14, 490, 60, (8, 14)), (20, 700, 60, (12, 21)):
        yield ("voting", "below a bright bar, the lower half moved, radius %d" % radius,
               {"radius": radius, "polarity": "bright"}, [below_a_bar(side, n, radii)], None,
               move_lower_points(side // 2))
    for start in 20, 28:
        yield ("voting", "of a stack of 40 slices, from %d on moved" % start,
               {"radius": 4, "polarity": "bright"}, stack_of_balls(), None,
               move_lower_points(start, 0))
    for weight in "root", "gradient":
        yield ("voting", "the strongest points alone, weight %s" % weight,
               {"radius": 9, "polarity": "bright", "weight": weight}, [few_bright_discs()], None,
               keep_strong_points)
    for share in 0.05, 0.2:
        yield ("voting", "%g of the points, the strongest, in noise" % share,
               {"radius": 11, "polarity": "bright", "weight": "gradient", "sigma": 1,
                "refine": False}, [rings_in_noise()], None, keep_strongest(share))
    yield ("voting", "another radius", vote, [cells()], None,
           compute_with(dict(vote, radius=5), [cells()]))
    yield ("voting", "of every second pixel", vote, [cells()], None,
           coarse(dict(vote, radius=3.5), [cells()]))
    yield ("voting", "groups of cells among bars, the upper half alone",
           dict(vote, threshold=20000), [colonies_among_bars()], None, keep_upper_points(800))
    yield ("voting", "large cells beside bars, the upper half alone",
           dict(vote, radius=50, threshold=20000), [large_discs_beside_bars()], None,
           keep_upper_points(1500))
    yield ("voting", "cells between much brighter bars, the upper sixth alone",
           dict(vote, radius=8, threshold=23000), [discs_between_strong_bars()], None,
           keep_upper_points(256))
    yield ("voting", "40 cells in a large picture, the upper half alone", vote,
           [few_discs(40, 5000)], None, keep_upper_points(2500))
    yield ("voting", "spots with a radius of two pixels, the upper tenth alone",
           dict(vote, radius=2, sigma=0.5, threshold=7000), [small_spots()], None,
           keep_upper_points(160))
    yield ("voting", "faint cells, and bright ones in the upper sixth, this sixth alone",
           dict(vote, threshold=15000), [bright_top()], None, keep_upper_points(270))
    yield ("voting", "the hundredth of cells above a threshold, the upper half alone",
           dict(vote, threshold=75500), [different_contrasts()], None, keep_upper_points(800))
    for n in 20, 40:
        yield ("voting", "%d isolated points added to 41" % n, dict(vote, threshold=20000),
               [pairs_far_apart()], None, add_isolated_points(n))
    for least in 1, 9000, 14000:
        yield ("voting", "points with scores from %d on, below the threshold" % least, vote,
               [cells_], None, compute_with(dict(vote, threshold=least), [cells_]))
    stone = gravel()
    yield ("glcm", "another picture's", WINDOWS, [stone], None,
           compute_with(WINDOWS, [np.rot90(stone).copy()]))
    yield "glcm", "of every second pixel", WINDOWS, [stone], None, coarse(WINDOWS, [stone])
    yield "glcm", "the upper half alone", WINDOWS, [stone], None, compute_with(WINDOWS,
                                                                               [stone[:256]])
    yield ("glcm", "a smaller window", WINDOWS, [stone], None,
           compute_with(dict(WINDOWS, window={"shape": "disc", "radius": 3}), [stone]))
    yield ("glcm", "another distance", WINDOWS, [stone], None,
           compute_with(dict(WINDOWS, distances=[1, 2]), [stone]))
    for what, other in (("fewer levels", {"levels": [8, 64]}),
                        ("a range of its own", {"range": "image"}),
                        ("a square window", {"window": {"shape": "square", "radius": 5}}),
                        ("a disc of the picture", {"roi": {"type": "disc", "r": 60}})):
        yield "glcm", what, WINDOWS, [stone], None, compute_with(dict(WINDOWS, **other), [stone])
    yield ("glcm", "four of the directions", dict(WINDOWS, distances=[1, 3, 5]), [stone], None,
           compute_with(dict(WINDOWS, distances=[1, 3, 5], directions="four"), [stone]))
    rng = np.random.default_rng(6)
    colour = np.stack([stone, stone, 255 - stone], -1)
    yield "glcm", "one colour", WINDOWS, [colour], None, compute_with(WINDOWS, [stone])
    yield "glcm", "coarser greys", WINDOWS, [stone], None, compute_with(WINDOWS, [stone // 8 * 8])
    yield ("glcm", "a smoothed picture", WINDOWS, [stone], None,
           compute_with(WINDOWS, [scipy.ndimage.uniform_filter(stone, 3)]))
    deep = [np.roll(stone, 40 * i, 0) + rng.integers(0, 9, stone.shape, np.uint8) // 2
            for i in range(4)]
    yield ("glcm", "every second slice, twice", WINDOWS, deep, None,
           compute_with(WINDOWS, list(np.repeat(deep[::2], 2, 0))))
    every = dict(WINDOWS, features="ibsi")
    yield ("glcm", "features beyond the 13 of every second pixel", every, [stone], None,
           replace_further_features(every, stone))
    disc = {"levels": [16, 32], "distances": [1, 2, 3, 4],
            "window": {"shape": "disc", "radius": 16}, "roi": {"type": "disc", "r": 38}}
    windows = sum(x * x + y * y <= 38 ** 2 for x in range(-38, 39) for y in range(-38, 39))
    raised = adjust_bands(lambda a: raise_means_by(a, 1), windows,
                          {"01": 4, "02": 6, "03": 8, "04": 16})
    yield ("glcm", "means of entropies of eight pairs, a standard deviation larger", disc, [stone],
           None, lambda a, _: raised(a))
    whole, large = dict(WINDOWS, window={"shape": "roi"}), np.tile(stone, (3, 3))
    yield ("glcm", "a whole picture, three of four pairs", whole, [large], None,
           replace_pairs(whole, np.tile(coins()[:256, :256], (6, 6)), 1))
    coin = coins()[:160, :160]
    for suffix, level in ("", dict(LEVEL, iterations=1600)), (" in a band",
                                                              dict(LEVEL, iterations=1600, band=6)):
        def stays(mask):
            return lambda a, _analysis: set_masks(a, [a["history_one"] & 1] +
                                                  [mask(a["mask_one"])] * 16)

        def stood_still(a, analysis, level=level):
            early = compute(analysis, dict(level, iterations=200), [coin])["history_one"]
            # `early` has a mask after every 50 iterations, the whole history after every 100.
            sides = [early >> k & 1 for k in (0, 2, 4)]
            set_masks(a, [sides[min(k, 2)] for k in range(17)])

        def half_as_long(a, analysis, level=level):
            compute_with(dict(level, iterations=800, reinit_every=25), [coin])(a, analysis)
            a["iterations_run"][0] = 1600

        yield ("levelset", "an eighth of the iterations, then it stands still" + suffix, level,
               [coin], None, stood_still)
        def vanished(a, _analysis):
            sides = [a["history_one"] >> k & 1 for k in range(9)]
            set_masks(a, sides + [sides[0] * 0] * 8)

        slow = dict(level, dt=0.02)
        yield ("levelset", "half of the iterations, then it vanishes" + suffix, slow, [coin], None,
               vanished)
        jump = dict(slow, iterations=1500)      # each stretch has 50 iterations
        yield ("levelset", "a small structure after a jump" + suffix, jump, [coins()[:300, :380]],
               None, small_structure(jump, coins()[:300, :380]))
        grows = dict(slow, dt=0.1, iterations=1550, init=LEVEL["init"] | {"r": 5})
        yield ("levelset", "a small structure that grows after a jump" + suffix, grows,
               [coins()[:300, :380]], None,
               small_structure(grows, coins()[:300, :380], 17, 230, 96, 35.98, 51.32, 3.178))
        for iterations, stop_after in (1600, 300), (2000, 700):
            ends = dict(level, dt=0.1, iterations=iterations, stop_after=stop_after)
            yield ("levelset", "all of %d iterations, of which %d are needless%s" %
                   (iterations, stop_after, suffix), ends, [coin], None, never_converges(ends))
        yield ("levelset", "iterations half as many in each stretch" + suffix, level, [coin], None,
               half_as_long)
        yield ("levelset", "another picture's" + suffix, level, [coin], None,
               compute_with(level, [coins()[100:260, 100:260]]))
        yield ("levelset", "of another target" + suffix, level, [coin], None,
               compute_with(dict(level, target=90), [coin]))
        for what, other in (("another step", {"dt": 0.2}), ("alpha a twentieth less",
                                                            {"alpha": 0.019}),
                            ("another epsilon", {"epsilon": 58}), ("a band", {"band": 3})):
            yield ("levelset", "with %s%s" % (what, suffix), level, [coin], None,
                   compute_with(dict(level, **other), [coin]))
        half = np.where(np.arange(160) < 80, coin, 0).astype(np.uint8)
        yield ("levelset", "the left half alone" + suffix, level, [coin], None,
               compute_with(level, [half]))
        yield ("levelset", "of every second pixel" + suffix, level, [coin], None,
               enlarged(level, coin))
        yield ("levelset", "without smooth" + suffix, dict(level, smooth=1), [coin], None,
               compute_with(level, [coin]))
        yield "levelset", "discs of the right areas" + suffix, level, [coin], None, replace_by_discs
        yield "levelset", "a disc that grows evenly" + suffix, level, [coin], None, grow_disc
        yield "levelset", "everything" + suffix, level, [coin], None, stays(np.ones_like)
        yield "levelset", "mirrored" + suffix, level, [coin], None, stays(np.fliplr)
        yield "levelset", "Otsu's side" + suffix, level, [coin], None, stays(lambda _m: coin > 107)
    both = dict(LEVEL, iterations=1550, dt=0.2,
                init={"type": "ball", "cx": 122, "cy": 250, "r": 26})
    yield ("levelset", "one of the two structures that the start covers", both,
           [disc_beside_half_plane()], None,
           leave_out_half_plane(both, disc_beside_half_plane()))
    less = dict(LEVEL, iterations=400, reinit_every=0)
    yield ("levelset", "half of the iterations, without a history", less, [coin], None,
           compute_with(dict(less, iterations=200), [coin]))


def empty_first_item(a):
    """Removes the rows of the first item."""
    keep_rows_of_items(a, a[table_of(a) + "_item"] != 0)


def cells_on_black(n, seed=0):
    """A picture without noise, with n cells at random places."""
    picture = np.zeros((800, 800))
    y, x = np.random.default_rng(seed).integers(20, 780, (2, n))
    picture[y, x] = 1
    return np.clip(scipy.ndimage.gaussian_filter(picture, 4) * 12000, 0, 200).astype(np.uint8)


def roll_lower_rows(a):
    """The sums of all rows but the upper fifth of a strip of 31 rows change places."""
    lower = [512 * i // 31 for i in range(6, 31)]
    a["band_sums"][0][lower] = np.roll(a["band_sums"][0][lower], 1)


def try_uneven():
    """A forgery of the one large picture of 41, which is most of the work."""
    for analysis, parameters in ("cellcount", dict(BRIGHT, threshold=110, min_area=20)), (
            "voting", dict(BRIGHT, radius=7)):
        name = "%s, the large one of 41 pictures without anything" % analysis
        if ONLY.search(name):
            small = [workunit.item("s%d" % i, [cells(120, 10, i)]) for i in range(40)]
            unit, result = make_of(analysis, parameters,
                                   [workunit.item("large", [different_cells()])] + small)
            try_forgery(name, unit, result, empty_first_item)
    for analysis, what, parameters, items, change in one_full_item():
        name = "%s, the one of %d items whose %s" % (analysis, len(items), what)
        if ONLY.search(name):
            unit, result = make_of(analysis, parameters, items)
            codes, output = codes_of(unit, result)
            tap.ok(set(codes) == {0}, name + ": the honest result is accepted", output)
            try_forgery(name, unit, result, change)


def one_full_item():
    """Yields (analysis, name, parameters, items, function that forges) for items of the same size,
    of which the first has nearly all the work."""
    stone = gravel()
    tiny, full = np.zeros(stone.shape, bool), np.ones(stone.shape, bool)
    tiny[:2, :2] = True
    yield ("glcm", "mask is full", {"levels": [16, 32, 64], "distances": [1, 3, 5],
                                    "window": {"shape": "square", "radius": 30},
                                    "roi": {"type": "mask"}},
           [workunit.item("i%d" % i, [stone], [tiny if i else full]) for i in range(3)],
           roll_bands(slice(None)))
    two, many = np.zeros((800, 800), int), np.kron(np.arange(1, 1601).reshape(40, 40),
                                                   np.ones((20, 20), int))
    two[100:120, 100:120], two[200:220, 200:220] = 1, 2
    noise = np.random.default_rng(1).integers(0, 256, many.shape).astype(np.uint8)
    yield ("objects", "objects fill it",
           {"distances": list(range(1, 9)), "levels": 64, "texture_features": "ibsi"},
           [workunit.item("i%d" % i, [noise], labels=[two if i else many]) for i in range(10)],
           lambda a: a["object_glcm"].__setitem__(slice(1600), a["object_glcm"][:1]))
    yield ("voting", "cells are more than two", dict(BRIGHT, radius=7, threshold=20000),
           [workunit.item("i%d" % i, [cells_on_black(2 if i else 1500, i)]) for i in range(10)],
           empty_first_item)


def table_of(a):
    return next(name for name in ("region", "point", "cell") if name + "_item" in a)


def keep_rows_above(end):
    def change(a):
        table = table_of(a)
        keep_rows_of_items(a, a["point" if table == "point" else table + "_centroid"][:, -2] < end)
    return change


def keep_rows_of_items(a, keep):
    """Removes the rows of the only table for which `keep` is false, and counts again."""
    table = table_of(a)
    keep_rows(a, table, keep)
    if table == "point":
        a["point"], a["score"] = a["point"][keep], a["score"][keep]
    count = a["cells" if table == "cell" else "count"]
    count[:] = np.bincount(a[table + "_item"], minlength=len(count))
    if table == "cell":
        a["external_voxels"] += a["inside_voxels"]
        a["inside_voxels"][:] = a["volume"][:] = 0


def bind(a, parameters):
    """If a forged result of voting has thresholds and sums of peaks, replaces them by those that
    agree with the points and betray least: for each item the highest threshold for which the sum is
    hardly less than the right one."""
    for item in range(len(a.get("peak_sum", []))):
        scores = a["score"][a["point_item"] == item]
        if len(scores) == 0:
            continue
        total, upto = max(a["peak_sum"][item], scores.sum()), np.cumsum(scores)
        if parameters.get("refine", True) or parameters.get("foreground", "none") != "none":
            threshold = scores[-1]
            total = max(total, 2 * scores[scores > threshold * 10 // 3].sum() + 1)
        else:
            middle = np.searchsorted(-scores, -(scores[-1] * 10 // 3))
            middle = min(max(middle, np.searchsorted(2 * upto, total)), len(scores) - 1)
            threshold = (3 * scores[middle] + 9) // 10
            total = max(min(total, 2 * upto[middle]), 2 * (upto[middle] - scores[middle]) + 1,
                        upto[-1])
        a["threshold"][item], a["peak_sum"][item] = threshold, total


def vanish_all(a):
    """All items vanish before the second mask of the history, and never converge."""
    run = a["iterations_run"].max()
    for name in a:
        if name.startswith("history_"):
            vanish_at_once(a, name[8:])
    a["iterations_run"][:], a["converged"][:] = run, False


def try_nothing():
    """Forgeries of ten items that contain nothing but noise, except for some of them: that all of
    them contain nothing, or these nothing but their tops."""
    def discs(i, full):
        y, x = np.mgrid[30:970:50, 30:970:50].reshape(2, -1)
        return [draw_discs([(a, b, 9, 60) for a, b in zip(y, x)] if full else [], 10, i, 1000)]

    def shells(i, full):
        dark = np.random.default_rng(i).normal(60, 10, (24, 270, 270)).clip(0, 90)
        return stack_of_shells() if full else list(dark.astype(np.uint8))

    def half(i, full, side=400, edge=40, height=120, sd=4):
        picture = np.full((side, side), 60)
        picture[:, edge:side - edge] += height * full
        noise = np.random.default_rng(i).normal(0, sd, picture.shape)
        return [(picture + noise).clip(0, 255).astype(np.uint8)]

    bright = dict(BRIGHT, threshold=100, min_area=60)
    level = dict(LEVEL, band=6, init={"type": "ball", "cx": 200, "cy": 200, "r": 20})
    nothing = {"nothing": keep_rows_above(0)}
    top = {"the top": keep_rows_above(150)}
    for analysis, title, parameters, slices, forgeries in (
            ("cellcount", "discs", bright, discs, dict(nothing, **top)),
            ("cellcount", "discs, split", dict(bright, split="distance"), discs,
             dict(nothing, **top)),
            ("voting", "discs", dict(BRIGHT, radius=9, threshold=60000), discs,
             dict(nothing, **top)),
            ("volume", "shells", {"membrane": 110}, shells, nothing),
            ("levelset", "a square", level, half, {"nothing": vanish_all})):
        for full in (5,), (2, 3, 8):
            try_items("%s, %d of 10 items have %s among noise" % (analysis, len(full), title),
                      analysis, parameters, [slices(i, i in full) for i in range(10)], forgeries)
    faint = dict(LEVEL, target=90, epsilon=15, alpha=0.003,
                 init={"type": "ball", "cx": 100, "cy": 100, "r": 20})
    try_items("levelset, 10 items have a faint square", "levelset", faint,
              [half(i, True, 200, 66, 30, 20) for i in range(10)], {"nothing": vanish_all})
    edge = [np.kron([[60, 170]], np.ones((1000, 500))).astype(np.uint8)]
    for analysis, parameters in (("cellcount", dict(bright, max_area=3000)),
                                 ("voting", dict(BRIGHT, radius=9, threshold=60000))):
        try_items(analysis + ", 9 items after an empty one with more contrast", analysis,
                  parameters, [edge] + [discs(i, True) for i in range(9)], nothing)
    noise = [np.random.default_rng(1).integers(0, 100, (1000, 1000)).astype(np.uint8)]
    clean = [draw_discs([(30 + 50 * (i // 19), 30 + 50 * (i % 19), 9, 60) for i in range(361)],
                        0, 1, 1000)]
    noise[0][100:200, 100:200] = 200
    try_items("cellcount, 9 items after a noisy one", "cellcount", bright, [noise] + [clean] * 9,
              {"the top": lambda a: keep_rows_of_items(
                  a, (a["region_centroid"][:, 0] < 150) | (a["region_item"] == 0))})


def try_items(name, analysis, parameters, items, forgeries):
    """items: the slices of each."""
    if not ONLY.search(name):
        return
    unit, result = make_of(analysis, parameters,
                           [workunit.item("i%d" % i, slices) for i, slices in enumerate(items)])
    codes, output = codes_of(unit, result)
    tap.ok(set(codes) == {0}, name + ": the honest result is accepted", output)
    for what, change in forgeries.items():
        try_forgery("%s: %s" % (name, what), unit, result, change)


def rest_at_start(a, name, run=100):
    """The item rests at its start."""
    start = a["history_" + name] & 1
    a["history_" + name], a["mask_" + name] = start.astype(np.int32), start.astype(np.uint8)
    set_rest(a, name, start.sum(), run)


def vanish_at_once(a, name):
    """The item vanishes before the second mask of the history."""
    a["history_" + name] &= 1
    a["mask_" + name][:] = 0
    set_rest(a, name, 0, 100)


def set_rest(a, name, inside, run):
    i = int(name[1:])
    a["inside_voxels"][i] = a["measure"][i] = inside
    a["iterations_run"][i], a["converged"][i] = run, True


def try_early_ends():
    """A forgery of the one of 9 items that takes nearly all iterations: the others converge at
    once."""
    def noisy(picture, seed):
        return (picture + np.random.default_rng(seed).normal(0, 2, picture.shape)).astype(np.uint8)

    y, x = np.indices((160, 160)) - 80
    square, disc = np.maximum(abs(x), abs(y)) < 55, np.hypot(x, y) < 12.5
    items = [workunit.item("i%d" % i, [noisy(60 + 120 * (square if i == 4 else disc), i)])
             for i in range(9)]
    init = {"type": "ball", "cx": 80, "cy": 80, "r": 12}
    for suffix, band in ("", 0), (" in a band", 6):
        level = dict(LEVEL, iterations=20000, stop_after=100, dt=0.05, init=init, band=band)
        def reaches_end(a, name, level=level):
            """All of the square is inside before the second mask of the history."""
            end = compute("levelset", dict(level, init={"type": "mask"}), [items[4]["slices"][0]],
                          masks=[square])
            a["mask_" + name] = end["mask_one"]
            a["history_" + name] &= 1
            set_rest(a, name, end["inside_voxels"][0], end["iterations_run"][0])

        for what, change in (("rests at its start", rest_at_start), ("vanishes", vanish_at_once),
                             ("reaches its end at once", reaches_end)):
            name = "levelset, the last of 9 to converge %s%s" % (what, suffix)
            if ONLY.search(name):
                unit, result = make_of("levelset", level, items)
                try_forgery(name, unit, result, lambda a, change=change: change(a, "i4"))
    y, x = np.indices((200, 200))
    square, far = (abs(y - 99.5) < 80) & (abs(x - 99.5) < 80), np.hypot(y - 100, x - 60)
    items = [workunit.item("i%d" % i, [noisy(60 + 120 * (square if i == 9 else far < 12.5), i)])
             for i in range(10)]
    level = dict(LEVEL, iterations=20000, stop_after=200, dt=0.02,
                 init={"type": "ball", "cx": 60, "cy": 100, "r": 12})
    for n in 3, 4, 8:              # stretches of 650 iterations; the evolution takes 10
        def jumps(a, n=n):
            end = compute("levelset", dict(level, init={"type": "mask"}), [items[9]["slices"][0]],
                          masks=[square])
            steps = np.ceil((far - 12) / (far[square].max() - 12) * n)
            a["mask_i9"] = end["mask_one"]
            a["history_i9"] &= 1
            for i in range(1, n):
                a["history_i9"] |= (end["mask_one"] * (steps <= i)).astype(np.int32) << i
            set_rest(a, "i9", a["mask_i9"].sum(), 650 * (n - 1) + end["iterations_run"][0])

        name = "levelset, the last of 10 to converge jumps in %d stretches" % n
        if ONLY.search(name):
            unit, result = make_of("levelset", level, items)
            try_forgery(name, unit, result, jumps)


def try_late_loss():
    """A forgery: of two structures among noise one vanishes in the fifth stretch, before it has
    grown much; the rest is computed further in the left part of the picture."""
    y, x = np.indices((300, 900))
    picture = np.where((x >= 130) & (x < 140), 60., 180)
    picture[np.hypot(y - 150, x - 300) < 10] = 135
    picture = (picture + np.random.default_rng(2).normal(0, 60, y.shape)).clip(0, 255).astype(
        np.uint8)
    seeds = (np.hypot(y - 150, x - 65) < 30) | (np.hypot(y - 150, x - 300) < 5)
    for suffix, band in ("", 0), (" in a band", 6):
        level = dict(LEVEL, iterations=1550, smooth=2, dt=0.05, init={"type": "mask"}, band=band)

        def change(a, level=level):
            first = masks_of(a)[:5]
            start = (first[-1] > 0) & (x < 135)
            part = compute("levelset", dict(level, iterations=1350), [picture[:, :154]],
                           masks=[start[:, :154]])
            set_masks(a, first + [np.pad(side, ((0, 0), (0, 746)))
                                  for side in masks_of(part)[1:]])

        name = "levelset, one of two structures vanishes late" + suffix
        if ONLY.search(name):
            unit, result = make("levelset", level, [picture], None, [seeds.astype(np.uint8) * 255])
            try_forgery(name, unit, result, change)


def try_left_out():
    try_items("glcm, a strip", "glcm", {
        "levels": [16, 64], "distances": [1, 3], "window": {"shape": "square", "radius": 8}},
              [[np.tile(gravel()[:31], (1, 6))]], {"the upper fifth": roll_lower_rows})
    for analysis, forgery, parameters, slices, labels, change in cheap_forgeries():
        name = "%s, left out: %s" % (analysis, forgery)
        if not ONLY.search(name):
            continue
        unit, result = make(analysis, parameters, slices, labels)
        try_forgery(name, unit, result, lambda a, change=change, of=analysis: change(a, of))


def try_forgery(name, unit, result, change):
    forgery = forge.Result(result)
    right = forgery.bytes()
    change(forgery.arrays)
    bind(forgery.arrays, forgery.json["parameters"])
    with open(path("forged.npz"), "wb") as f:
        f.write(forgery.bytes())
    codes, output = codes_of(unit, path("forged.npz"))
    assert forgery.bytes() != right, "the forgery equals the result"
    tap.ok(set(codes) <= {2, 4}, "%s: refused with each of %d seeds" % (name, len(codes)),
           "%d of %d accepted\n%s" % (codes.count(0), len(codes), output))


# --- forgeries that are found with some seeds
# -------------------------------------------------------------------------------------

def change_one_mean(a):
    """Raises one pixel of one region by a grey value."""
    area = a["region_area"][7]
    a["region_mean"][7] = (round(a["region_mean"][7] * area) + 1) / area


def raise_every_100th_mean(a):
    """Raises the mean of one region in 100."""
    area = a["region_area"]
    a["region_mean"][::100] = ((np.round(a["region_mean"] * area) + area // 20 + 1) / area)[::100]


def copy_one_texture(a):
    a["object_glcm"][5] = a["object_glcm"][4]


def remove_half_of_points(a):
    keep_rows_of_items(a, np.arange(len(a["point_item"])) % 2 == 0)


def roll_bands(which):
    """A forgery: the sums of bands change places, so that their total still agrees with the
    means."""
    def change(a):
        sums = a["band_sums"][0]
        made_up = np.flatnonzero(sums)[which]
        sums[made_up] = np.roll(sums[made_up], 1)
    return change


def grow_at_random(a, stretches):
    """Keeps the given number of history's intervals; then pixels at the mask's rim are added at
    random."""
    chance = np.random.default_rng(1)
    sides = [a["history_one"] >> k & 1 for k in range(stretches + 1)]
    while len(sides) < 17:
        rim = scipy.ndimage.grey_dilation(sides[-1], 3) != sides[-1]
        sides.append(sides[-1] | (rim & (chance.random(rim.shape) < 0.3)))
    set_masks(a, sides)


def move_last_mask(a):
    """Moves the last mask by a pixel."""
    sides = [a["history_one"] >> k & 1 for k in range(17)]
    set_masks(a, sides[:16] + [np.roll(sides[16], 1, 1)])


def sample_windows(a, region=None, each=7, parameters=WINDOWS):
    """Replaces the statistics by those of one window in each * each (inside region, a mask, if it
    is given), with minimum and maximum farther apart."""
    picture = gravel()
    mask = np.zeros(picture.shape, bool)
    mask[each // 2::each, each // 2::each] = True
    if region is not None:
        mask &= region
    part = compute("glcm", dict(parameters, roi={"type": "mask"}), [picture], [mask])
    a["features"][:] = part["features"]
    a["band_sums"] = part["band_sums"] * each ** 2
    lo, hi, span = (np.flatnonzero([name.endswith(end) for name in part["feature_names"]])
                    for end in ("_min", "_max", "_range"))
    spread = a["features"][:, hi] - a["features"][:, lo]
    a["features"][:, lo] -= np.minimum(spread, np.abs(a["features"][:, lo])) / 8
    maxima = a["features"][:, hi]
    a["features"][:, hi] = np.minimum(maxima + spread / 8,
                                      np.where(maxima <= 0, 0, np.where(maxima <= 1, 1, np.inf)))
    a["features"][:] = np.round(a["features"] * 2.0 ** 32) / 2.0 ** 32
    a["features"][:, span] = a["features"][:, hi] - a["features"][:, lo]


def compute(analysis, parameters, slices, masks=None, labels=None):
    unit, result = path("part.zip"), path("part.npz")
    set_parameters = {key: value for key, value in parameters.items() if value is not None}
    workunit.write(unit, analysis, set_parameters,
                   [workunit.item("one", slices, masks, labels=labels)])
    if os.path.exists(result):
        os.remove(result)
    run = tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet"])
    if run.returncode != 0:
        tap.bail(run.stderr)
    return forge.Result(result).arrays


def columns(a, statistic):
    return np.flatnonzero([name.endswith("_" + statistic) for name in a["feature_names"]])


def scale_statistics(factor, *statistics):
    def change(a):
        for statistic in statistics:
            a["features"][:, columns(a, statistic)] *= factor
    return change


def change_maps(how):
    def change(a):
        for name in a:
            if name.startswith("map_"):
                a[name] = how(a[name])
    return change


def adjust_bands(change, windows, offsets):
    """A forgery: `change`, and one band's sum is adjusted to agree with the changed means. offsets:
    {distance: number of offsets}."""
    def total(a):
        return sum(int(mean * 2.0 ** 32 * windows * offsets[name.split("_d")[1][:2]])
                   for mean, name in zip(a["features"][0], a["feature_names"])
                   if name.endswith("_mean"))

    def change_and_adjust(a):
        change(a)
        sums = a["band_sums"][0].view(np.uint64)
        band = np.flatnonzero(sums)[0]
        rest = sum(int(v) for i, v in enumerate(sums) if i != band)
        sums[band] = (total(a) - rest) % 2 ** 64
    return change_and_adjust


def raise_all_means_by(a, part, which):
    """Raises the means of features that no relation ties to others' by `part` standard deviations,
    for these numbers of levels and distances (in the order of the columns)."""
    row = a["features"].reshape(-1, 13, 5)
    tied = [name.split("_", 3)[3] in ("contrast_mean", "variance_mean", "sum_variance_mean")
            for name in a["feature_names"][:65:5]]
    for i in which:
        means = row[i, ~np.array(tied)]
        means[:, 0] = np.minimum(means[:, 0] + part * means[:, 2], means[:, 4])
        row[i, ~np.array(tied)] = means


# The least and greatest value that features can have with L levels, of those that have such bounds
# and no others from the number of pairs.
BOUNDS = {"contrast": lambda n: (0, (n - 1) ** 2), "correlation": lambda n: (-1, 1),
          "variance": lambda n: (0, (n - 1) ** 2 / 4), "sum_average": lambda n: (2, 2 * n),
          "sum_variance": lambda n: (0, (n - 1) ** 2), "imc1": lambda n: (-1, 0),
          "imc2": lambda n: (0, 1), "difference_variance": lambda n: (0, (n - 1) ** 2 / 4)}


def raise_sd(factor):
    """A forgery: the minimum and maximum of a feature are its bounds, and its standard deviation is
    `factor` times as large, or less, so that one of them is at least 6 / 0.93 of it from the mean.
    """
    def change(a):
        row = a["features"].reshape(-1, 5)
        for i, name in enumerate(a["feature_names"][::5]):
            levels, feature = re.match(r"glcm_L(\d+)_d\d+_(.*)_mean", name).groups()
            if feature in BOUNDS:
                lo, hi = BOUNDS[feature](int(levels))
                raised = min(row[i, 2] * factor, max(hi - row[i, 0], row[i, 0] - lo) * 0.93 / 6)
                if raised > row[i, 2]:
                    row[i, 2:] = raised, lo, hi
    return change


def raise_means_by(a, part):
    """Raises the means of entropies towards their maxima by `part` standard deviations."""
    names = a["feature_names"]
    indices = [i for i in columns(a, "mean") if names[i].endswith("_entropy_mean")]
    for i in indices:
        row = a["features"][0]
        row[i] = min(row[i] + part * row[i + 2], row[i + 4])


def exchange_offsets(a):
    a["offset_features"][0, :, [0, 1]] = a["offset_features"][0, :, [1, 0]]


def move_means_of_offsets(a, part):
    """Raises the means of every second offset by `part` standard deviations and lowers those of the
    next offset as much, so that the means over the offsets stay the same."""
    moments, distances = a["offset_features"][0], a["offsets"][:, 2]
    means, variances, minima, maxima = np.moveaxis(moments, 3, 0)
    statistics = a["features"].reshape(len(moments), -1, moments.shape[2], 5)
    for d, distance in enumerate(np.unique(distances)):
        at = np.flatnonzero(distances == distance)
        up, down = at[::2], at[1::2]
        step = np.minimum.reduce([part * np.sqrt(variances[:, up]),
                                  part * np.sqrt(variances[:, down]),
                                  maxima[:, up] - means[:, up], means[:, down] - minima[:, down]])
        means[:, up] += step
        means[:, down] -= step
        statistics[:, d, :, 0] = sum(means[:, i] for i in at) / len(at)
        statistics[:, d, :, 1] = means[:, at].max(1) - means[:, at].min(1)


def map_forgeries():
    """Yields (name, parameters, slices, masks, function that forges) for glcm with maps or
    masks."""
    stone = gravel()
    maps = dict(WINDOWS, maps=[{"feature": "contrast", "levels": 16, "offset": [1, 0]},
                               {"feature": "entropy", "levels": 64, "offset": [0, 3]},
                               {"feature": "imc2", "levels": 64, "offset": [-2, 2]}])
    rng = np.random.default_rng(8)
    for what, change in (("rolled", lambda m: np.roll(m, (37, 53), (0, 1))),
                         ("rolled by a pixel", lambda m: np.roll(m, 1, 1)),
                         ("shuffled", lambda m: rng.permutation(m.ravel()).reshape(m.shape)),
                         ("of every second pixel", lambda m: np.repeat(m[:, ::2], 2, 1)),
                         ("turned over", lambda m: m[::-1].copy())):
        yield "maps " + what, maps, [stone], None, change_maps(change)
    for shape in "disc", "square":
        parameters = {"levels": [16], "distances": [1], "window": {"shape": shape, "radius": 5},
                      "features": ["contrast", "idm"],
                      "maps": [{"feature": "idm", "levels": 16, "offset": [0, 1]}]}
        yield ("maps of sums over pairs moved by a line, windows a %s" % shape, parameters,
               [np.tile(stone, (2, 2))], None, change_maps(lambda m: np.roll(m, 1, 0)))
    ny, nx = stone.shape
    y, x = np.indices(stone.shape)
    for what, mask in (("a disc", (y - 200) ** 2 + (x - 330) ** 2 <= 60 ** 2),
                       ("a small disc", (y - 200) ** 2 + (x - 130) ** 2 <= 25 ** 2),
                       ("some lines", abs(y - 100 - x // 20) < 15),
                       ("corners", (y < 30) & (x < 60) | (y >= ny - 30) & (x >= nx - 60))):
        mask_parameters = dict(WINDOWS, roi={"type": "mask"})
        n = int(mask.sum())
        yield ("one window in 25 of a mask, %s" % what, mask_parameters, [stone], [mask],
               adjust_bands(lambda a, mask=mask: sample_windows(a, mask, 5), n, {"01": 4, "03": 8}))
        yield ("means of a mask, %s, without their sums" % what, mask_parameters, [stone], [mask],
               lambda a: a["features"].__setitem__((0, 0), a["features"][0, 0] * (1 + 1e-6)))
    sparse = dict(WINDOWS, directions="four", window={"shape": "square", "radius": 30},
                  roi={"type": "mask"})
    large, rng = np.tile(stone, (2, 2)), np.random.default_rng(9)
    y, x = np.indices(large.shape)
    square, specks = (y >= 500) & (x >= 500), (y < 497) & (x < 497) & (rng.random(y.shape) < 0.004)
    yield ("isolated pixels of a mask left out", sparse, [large], [square | specks],
           adjust_bands(lambda a: leave_out_windows(a, sparse, large, square, specks),
                        int((square | specks).sum()), {"01": 4, "03": 4}))


def leave_out_windows(a, parameters, picture, computed, rest):
    """The statistics are those of the windows of the mask `computed`, with minimum and maximum as
    in the right result; the sums of bands in which only the mask `rest` has windows are made up."""
    part = compute("glcm", parameters, [picture], [computed])
    for bound in "min", "max":
        at = columns(a, bound)
        part["features"][:, at] = a["features"][:, at]
    a["features"][:] = part["features"]
    made_up = np.setdiff1d(bands_of(rest), bands_of(computed))
    a["band_sums"][0, made_up] = np.random.default_rng(1).integers(1, 2 ** 62, len(made_up))


def bands_of(mask):
    """The bands in which the mask has windows."""
    return np.concatenate([512 * np.flatnonzero(mask.any(1 - axis)) // mask.shape[axis]
                           for axis in (0, 1)])


def try_maps():
    for what, parameters, slices, masks, change in map_forgeries():
        name = "glcm, %s" % what
        if not ONLY.search(name):
            continue
        unit, result = make("glcm", parameters, slices, None, masks)
        codes, output = codes_of(unit, result)
        tap.ok(set(codes) == {0} and "in doubt" not in output,
               name + ": the honest result is accepted", output)
        try_forgery(name, unit, result, change)


def probabilistic_forgeries():
    """Yields forgeries that differ little from the truth, or cost most of the work: (analysis,
    name, parameters, slices, labels or, for glcm, masks, function that forges)."""
    picture = many_cells()
    labels = scipy.ndimage.label(picture > 110)[0]
    yield ("cellcount", "a grey value of one of 1424 regions", dict(BRIGHT, min_area=20), [picture],
           None, change_one_mean)
    step = dict(BRIGHT, min_area=20, threshold=110)
    discs = draw_discs([(y, x, 28, 90) for y in range(34, 1568, 62) for x in range(34, 1568, 62)])
    for n in 10, 20:
        yield ("cellcount", "each %dth of 625 regions of 2500 pixels left out" % n, step, [discs],
               None, lambda a, n=n: remove_each(n)(a, "cellcount"))
    wide = draw_discs([(y, x, 33, 90) for y in range(120, 1560, 100)
                       for x in range(120, 1560, 100)] +
                      [(y, x, 6, 90) for y in range(70, 1590, 100) for x in range(20, 1580, 20)])
    yield ("cellcount", "areas and means of cells nearly as wide as a tile",
           dict(BRIGHT, threshold="local", window=151, offset=15, min_area=20), [wide], None,
           lambda a: change_large(a, is_large(a)))
    yield ("cellcount", "a tenth of 144 cells among specks left out", step,
           [cells_and_specks(0.02)], None,
           lambda a: leave_out_at_random(0.1)(a, "cellcount"))
    yield ("cellcount", "all small squares right of discs left out", dict(step, min_area=2),
           [discs_and_satellites()], None,
           lambda a: leave_out(lambda a: a["region_area"] < 20)(a, "cellcount"))
    local = dict(BRIGHT, threshold="local", window=113, offset=15, min_area=20, smooth=1)
    for n in 73, 189:
        yield ("cellcount", "%d regions as wide as a tile invented beside 3600" % n, local,
               [many_discs()], None,
               lambda a, n=n: add_large_regions(n, 61, 61 * 61 - 5)(a, "cellcount"))
    crowds = np.random.default_rng(6).normal(60, 4, (1600, 1600)).clip(0, 255).astype(np.uint8)
    crowds[1000:1400, 600:1000], crowds[100:500, 200:600] = cells(), cells(seed=9)
    for classes in 3, 4:
        otsu = dict(BRIGHT, min_area=20, smooth=1, classes=classes)
        yield ("cellcount", "Otsu's threshold 25 off, cells in an eighth, %d classes" % classes,
               otsu, [crowds], None,
               lambda a, otsu=otsu: another_threshold(otsu, crowds, 25)(a, "cellcount"))
    soft = scipy.ndimage.gaussian_filter(different_cells().astype(float), 1.5)
    yield ("cellcount", "one region in 100 with another mean, with all filters", ALL_FILTERS,
           [soft.round().astype(np.uint8)], None, raise_every_100th_mean)
    yield ("objects", "another's texture for one of 1456 objects", {}, [picture], [labels],
           copy_one_texture)
    eight = np.kron(np.arange(1, 65).reshape(8, 8), np.pad(np.ones((60, 60), int), 20))
    yield ("objects", "another's texture for 7 of 64 objects", {},
           [np.random.default_rng(5).integers(0, 256, eight.shape).astype(np.uint8)], [eight],
           lambda a: exchange_neighbours("object_glcm", 57)(a, "objects"))
    yield "glcm", "one of two distances as the other", {
        "levels": [16], "distances": [1, 3], "window": {"shape": "roi"}}, [gravel()], None, \
        lambda a: a["features"].__setitem__((0, slice(65, None)), a["features"][0, :65])
    yield "glcm", "statistics of one window in 49", WINDOWS, [gravel()], None, sample_windows
    yield ("glcm", "every second band made up", WINDOWS, [gravel()], None,
           roll_bands(slice(None, None, 2)))
    yield ("glcm", "the lower half of the bands made up", WINDOWS, [gravel()], None,
           roll_bands(slice(gravel().shape[0] // 2, None)))
    for part in 0.3, 0.6, 1, 2:
        yield ("glcm", "means %g standard deviations nearer to the maximum" % part, WINDOWS,
               [gravel()], None,
               adjust_bands(lambda a, part=part: raise_means_by(a, part), gravel().size,
                            {"01": 4, "03": 8}))
    pairs = {"levels": [16, 32, 64], "distances": list(range(1, 9)), "directions": "four",
             "window": {"shape": "disc", "radius": 6}, "roi": {"type": "disc", "r": 60}}
    n = sum(x * x + y * y <= 3600 for x in range(-60, 61) for y in range(-60, 61))
    for part in 0.7, 1, 1.3:
        raised = adjust_bands(lambda a, part=part: raise_all_means_by(a, part, (3, 11, 17)), n,
                              {"%02d" % d: 4 for d in range(1, 9)})
        yield ("glcm", "a tenth of the means %g standard deviations larger" % part, pairs,
               [gravel()], None, raised)
    for factor in 2, 2.5, 3:
        yield ("glcm", "sd %g times as large, minimum and maximum at the bounds" % factor, WINDOWS,
               [gravel()], None, raise_sd(factor))
    offset_parameters = dict(WINDOWS, per_offset=True)
    yield "glcm", "two offsets exchanged", offset_parameters, [gravel()], None, exchange_offsets
    some = dict(offset_parameters, features=["correlation", "imc1", "imc2"])
    for part in 0.4, 0.6:
        yield ("glcm", "means of offsets %g standard deviations up and down" % part, some,
               [gravel()], None, lambda a, part=part: move_means_of_offsets(a, part))
    maps = dict(WINDOWS, maps=[{"feature": "contrast", "levels": 16, "offset": [1, 0]}])
    yield ("glcm", "a half of a map as the other", maps, [gravel()], None,
           change_maps(lambda m: np.concatenate([m[:len(m) // 2]] * 2)))
    mask_parameters = dict(WINDOWS, roi={"type": "mask"})
    for r in 25, 60, 110:
        y, x = np.indices(gravel().shape)
        yield ("glcm", "every second band of a mask of radius %d made up" % r, mask_parameters,
               [gravel()],
               [(y - 150) ** 2 + (x - 150) ** 2 <= r * r], roll_bands(slice(None, None, 2)))
    for factor in 0.2, 0.3, 0.5, 0.8, 1.3:
        yield ("glcm", "sd and range %g times as large" % factor, WINDOWS, [gravel()], None,
               scale_statistics(factor, "sd", "range"))
    refine_parameters = {"radius": 7, "polarity": "bright", "refine": True}
    yield "voting", "points that are not refined", refine_parameters, [cells()], None, \
        lambda a: compute_with(dict(refine_parameters, refine=False), [cells()])(a, "voting")
    yield ("voting", "every second point left out", {"radius": 7, "polarity": "bright"},
           [different_cells()], None, remove_half_of_points)
    for sigma in 1, 1.5, 2:
        log_normal = {"radius": 8, "polarity": "bright", "weight": "gradient"}
        yield ("voting", "the strongest nine tenths, contrasts e^%g" % sigma, log_normal,
               [contrasts_of_all_sizes(sigma)], None, lambda a: keep_rows_of_items(
                   a, np.arange(len(a["score"])) < 0.9 * len(a["score"])))
        yield ("voting", "points down to 0.7 of the threshold, contrasts e^%g" % sigma, log_normal,
               [contrasts_of_all_sizes(sigma)], None,
               lambda a, sigma=sigma, p=log_normal: compute_with(
                   dict(p, threshold=int(0.7 * a["score"].min())),
                   [contrasts_of_all_sizes(sigma)])(a, "voting"))
    yield ("voting", "sparse cells, the upper three quarters alone", dict(BRIGHT, radius=7),
           [sparse_cells()], None, lambda a: keep_upper_points(1200)(a, "voting"))
    yield ("voting", "the hundredth of similar cells above a threshold, the upper tenth alone",
           dict(BRIGHT, radius=7, threshold=90800), [similar_contrasts()], None,
           lambda a: keep_upper_points(160)(a, "voting"))
    yield ("voting", "few cells in noise, the upper sixth alone",
           dict(BRIGHT, radius=8, threshold=64000), [few_discs_in_noise()], None,
           lambda a: keep_upper_points(256)(a, "voting"))
    yield ("voting", "every second colony left out, beside bars", dict(BRIGHT, radius=7,
                                                                     threshold=15000),
           [colonies_beside_bars()], None, lambda a: remove_half_of_colonies(a, "voting"))
    yield ("voting", "40 isolated points added to 645", {"radius": 7, "polarity": "bright"},
           [pairs_far_apart()], None, lambda a: add_isolated_points(40)(a, "voting"))
    slow = dict(LEVEL, iterations=1600, dt=0.02)     # the mask changes in each interval
    for suffix, level in ("", slow), (" in a band", dict(slow, band=6)):
        for part, word in (2, "half"), (4, "three quarters"), (8, "seven eighths"):
            yield "levelset", "%s of the stretches made up%s" % (word, suffix), level, [
                coins()[:160, :160]], None, \
                lambda a, part=part: grow_at_random(a, 16 // part)
        yield ("levelset", "one of 16 stretches made up" + suffix, level, [coins()[:160, :160]],
               None, move_last_mask)


def try_probabilistic():
    for analysis, what, parameters, slices, labels_or_masks, change in probabilistic_forgeries():
        if not ONLY.search("odds, %s, %s" % (analysis, what)):
            continue
        labels, masks = (None, labels_or_masks) if analysis == "glcm" else (labels_or_masks, None)
        unit, result = make(analysis, parameters, slices, labels, masks)
        forgery = forge.Result(result)
        change(forgery.arrays)
        bind(forgery.arrays, forgery.json["parameters"])
        with open(path("forged.npz"), "wb") as f:
            f.write(forgery.bytes())
        codes, output = codes_of(unit, path("forged.npz"))
        run = tap.run([tap.TEXCELL_VALIDATE, "verify", "--fraction", "1", unit, path("forged.npz")])
        tap.ok(set(codes) <= {0, 2, 4} and run.returncode in (2, 4),
               "%s: %s: found with %d of %d seeds; verify --fraction 1 always finds it" %
               (analysis, what, len(codes) - codes.count(0), len(codes)), output + run.stderr)


# --- running the forgeries
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
            codes, output = codes_of(unit, result)
            tap.ok(set(codes) == {0}, name + ": the honest result is accepted", output)
            for what, change in forgeries.items():
                forgery = forge.Result(result)
                change(forgery.arrays)
                bind(forgery.arrays, forgery.json["parameters"])
                with open(path("forged.npz"), "wb") as f:
                    f.write(forgery.bytes())
                blind = tap.run([tap.TEXCELL_VALIDATE, "check", "--no-pixels", unit,
                                 path("forged.npz")])
                codes, output = codes_of(unit, path("forged.npz"))
                tap.ok(blind.returncode == 0,
                       "%s, %s: without pixels it is accepted" % (name, what), blind.stderr)
                tap.ok(set(codes) <= {2, 4},
                       "%s, %s: refused with each of %d seeds" % (name, what, len(codes)),
                       "%d of %d accepted\n%s" % (codes.count(0), len(codes), output))
    try_left_out()
    try_maps()
    try_uneven()
    try_nothing()
    try_early_ends()
    try_late_loss()
    try_probabilistic()
    tap.done()


if __name__ == "__main__":
    main()
