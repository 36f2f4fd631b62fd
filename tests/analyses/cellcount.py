"""The data of cellcount for the tests over all analyses; __init__.py explains the names."""
import numpy as np

from forge import column_of, exchange_items, set_at
from oracle.workunit import item
from pictures import (CELLS, SMOOTH, TINY, chequered, coins, gravel, noise, one_of, pictures,
                      random_items)


JOBS = {
    "labels": ({"threshold": 90, "polarity": "bright", "labels": True, "min_area": 4}, pictures()),
    "plain": ({"threshold": "otsu", "polarity": "bright", "connectivity": 4, "split": "distance",
               "fill_holes": True}, pictures()),
    "uneven": ({"smooth": 0.8, "background": {"method": "mean", "radius": 9, "by": "ratio"},
                "polarity": "bright",
                "split": "intensity", "h": 4, "labels": True}, pictures()),
    "inner": ({"threshold": 90, "polarity": "bright", "exclude_border": True, "labels": True},
              pictures()),
    "parts": ({"threshold": 90, "polarity": "bright", "split": "intensity", "h": 2}, pictures()),
    "left": ({"polarity": "auto", "threshold": "local", "window": 21, "offset_percent": 20,
              "smooth": 1, "fill_holes": True,
              "split": "distance", "min_area": 4, "min_contrast": {"full_area": 30},
              "labels": True}, pictures()),
    "classes": ({"polarity": "auto", "classes": 3, "scale": "sqrt", "min_fill": 0.4,
                 "max_aspect": 3}, pictures()),
}


KNOWN = {"labels": "b33df8de", "plain": "357d1fef", "uneven": "ca56863c", "inner": "87160589",
         "parts": "c01a0e07", "left": "4b24a9fd", "classes": "e504ef35"}


def random_job(rng):
    threshold = one_of(rng, "otsu", "local", int(rng.integers(256)))
    choices = {"otsu": {"classes": int(rng.integers(2, 5)), "scale": one_of(rng, "linear", "sqrt")},
               "local": {"offset_percent": int(rng.integers(0, 300))}}.get(threshold, {})
    filters = one_of(rng, {}, {"min_fill": 0.4, "max_aspect": 2.5},
                     {"min_contrast": {"full_area": 30}})
    background = {"radius": int(rng.integers(1, 40)), "by": one_of(rng, "ratio", "difference"),
                  "method": one_of(rng, "mean", "lines", "opening")}
    return dict(one_of(rng, choices, {}) | filters,
                threshold=threshold, polarity=one_of(rng, "dark", "bright", "auto"),
                connectivity=one_of(rng, 4, 8), fill_holes=one_of(rng, True, False),
                min_area=one_of(rng, 1, 1, 3, 10),
                max_area=one_of(rng, None, 50), exclude_border=one_of(rng, True, False),
                split=one_of(rng, "none", "distance", "intensity"), h=int(rng.integers(20)),
                smooth=one_of(rng, 0, 0, 0.3, 2.0), window=2 * int(rng.integers(1, 30)) + 1,
                offset=int(rng.integers(127)),
                background=one_of(rng, None, None, background), labels=one_of(rng, True, False)), \
        random_items(rng, False, False)


def memory_jobs():
    return [
        ({"min_area": 9, "connectivity": 4}, chequered(500, 700).repeat(3, 0).repeat(3, 1)),
        ({"min_area": 1, "connectivity": 4}, chequered(1500, 2000)),
        ({"min_area": 1, "split": "distance"}, noise(40, 65535)),
        ({"min_area": 1, "split": "distance"}, noise(8192, 300)),
        ({"min_area": 1, "polarity": "bright"},
         ((np.indices((1500, 2000)) % 2 == 0).all(0) * 200).astype(np.uint8)),
        ({"min_area": 1, "labels": True, "split": "distance", "fill_holes": True},
         noise(1500, 2000)),
        ({"min_area": 1, "split": "intensity", "h": 0, "threshold": "local"}, noise(1500, 2000)),
        ({"min_area": 9, "background": {"radius": 200}, "smooth": 20},
         noise(900, 3000) * np.uint16(257)),
        ({"min_area": 1, "background": {"radius": 20}}, noise(40, 65535)),
        ({"min_area": 1, "threshold": 20000}, noise(1500, 2000) * np.uint16(257)),
    ]


SEEDS = [
    ({"polarity": "bright", "labels": True}, TINY),
    ({"polarity": "bright", "split": "distance", "threshold": 120}, TINY),
    ({"polarity": "bright", "split": "intensity", "background": {"radius": 3},
      "threshold": "local"}, TINY),
]

ESTIMATES = [
    (["split=distance", "labels=true"], SMOOTH),
    (["split=intensity", "smooth=2", "labels=true"], SMOOTH),
    (['background={"radius":50}', "threshold=local"], SMOOTH),
]

DATA_SET = {
    "cells": ({"labels": True, "fill_holes": True},
              [item("c%d" % i, [c], source="healthy/\u00fcber c %d.png" % i if i < 2 else None,
                    spacing=[0.5, 0.25] if i < 1 else None) for i, c in enumerate(CELLS)]),
    "count": ({"min_area": 10}, [item("c%d" % i, [c]) for i, c in enumerate(CELLS)]),
}

BLANK = {
    "plain": ({}, [coins()], [gravel()]),
    "left out": ({"polarity": "bright", "min_area": 20, "exclude_border": True, "labels": True},
                 [coins()], [gravel()]),
    "uneven": ({"polarity": "bright", "background": {"method": "mean", "radius": 40},
                "min_area": 50, "labels": True}, [coins()],
               [gravel()]),
    "local": ({"polarity": "bright", "smooth": 2, "threshold": "local", "window": 101,
               "split": "intensity", "min_area": 50,
                "labels": True}, [coins()], [gravel()]),
    "split": ({"polarity": "bright", "fill_holes": True, "split": "distance", "min_area": 50},
              [coins()], [gravel()]),
}


def forgeries():
    column = column_of("labels")

    def drop_last(a):
        """Removes the last region of the last item from every column and picture."""
        for name in [n for n in a if n.startswith("region_")]:
            a[name] = a[name][:-1]
        picture = a[[n for n in a if n.startswith("labels_")][-1]]
        picture[picture == a["count"][-1]] = 0
        a["count"][-1] -= 1

    def split_one(a):
        """Makes two regions that touch from the first item's last region."""
        n = int(a["count"][0])
        picture = a["labels_cell_0"]
        ys, xs = np.nonzero(picture == n)
        rows = ys > (ys.min() + ys.max()) // 2
        picture[ys[rows], xs[rows]] = n + 1
        measured = [[measure(picture == k) for k in (n, n + 1)]]
        for name in [k for k in a if k.startswith("region_")]:
            a[name] = np.insert(a[name], n, a[name][n - 1], axis=0)
        for k, (area, bbox, centroid, border) in enumerate(measured[0]):
            i = n - 1 + k
            a["region_label"][i] = n + k
            a["region_area"][i], a["region_bbox"][i], a["region_centroid"][i] = area, bbox, centroid
            a["region_border"][i] = border
            a["region_mean"][i] = 100.0
        a["count"][0] += 1

    def measure(mask):
        ys, xs = np.nonzero(mask)
        bbox = [ys.min(), xs.min(), ys.max() + 1, xs.max() + 1]
        border = bbox[0] == 0 or bbox[1] == 0 or bbox[2] == mask.shape[0] or bbox[3] == mask.shape[
            1]
        return len(ys), bbox, [ys.sum() / len(ys), xs.sum() / len(ys)], border

    def other_mean(a):
        area = a["region_area"][0]
        a["region_mean"][0] = (round(a["region_mean"][0] * area) + 1) / area

    def exchange_labels(a):
        p = a["labels_cell_0"]
        one, two = p == 1, p == 2
        p[one], p[two] = 2, 1
        for name in ("region_area", "region_bbox", "region_centroid", "region_mean",
                     "region_border"):
            a[name][[0, 1]] = a[name][[1, 0]]

    def at_border(a):
        """Moves a region's box to the border, and changes all numbers that depend on it."""
        y0, x0, y1, x1 = a["region_bbox"][0]
        a["region_bbox"][0] = [0, x0, y1 - y0, x1]
        area = a["region_area"][0]
        a["region_centroid"][0, 0] = (round(a["region_centroid"][0, 0] * area) - y0 * area) / area
        a["region_border"][0] = True

    yield column("count", 0, lambda v: v + 1, "count: is")
    yield column("count", 0, lambda v: v - 1, "count: is")
    yield column("count", 0, -1, "count: is")
    yield column("count", 0, 1 << 40, "count: is")
    yield column("threshold", 0, 91, "threshold: 91 is not possible")
    for value in (0, -1, 256, 1 << 40):
        yield ("Otsu's threshold of %d" % value, "plain",
               lambda a, v=value: set_at(a["threshold"], 1, v),
               "threshold: %d is not possible" % value)
    yield ("another threshold of Otsu's", "plain",
           lambda a: set_at(a["threshold"], 0, a["threshold"][0] - 1), None)
    def other_part(a):
        """Moves a pixel to a neighbouring region, and changes all numbers that depend on it."""
        p = a["labels_cell_0"]
        y, x = np.argwhere((p[:, 1:] != p[:, :-1]) & (p[:, 1:] > 0) & (p[:, :-1] > 0))[-1]
        p[y, x + 1] = p[y, x]
        for k in range(int(a["count"][0])):
            mask = p == k + 1
            old = a["region_area"][k] * a["region_mean"][k]
            a["region_area"][k], a["region_bbox"][k], a["region_centroid"][k], a["region_border"][
                k] = measure(mask)
            a["region_mean"][k] = round(old) / a["region_area"][k]

    yield ("a pixel of another part", "uneven", other_part, None)
    yield column("threshold", 0, 0, "threshold: 0 is not possible", "uneven")
    yield column("region_item", 0, 1, "region_item: a row of item|count: is")
    yield column("region_item", -1, 0, "_item: a row of item 0")
    yield column("region_item", -1, 4, "_item: a row of item 4")
    yield column("region_item", 0, -1, "_item: a row of item -1")
    yield column("region_label", 0, 2, "region 1: region_label: labels must count from 1")
    yield column("region_label", 0, 0, "region 1: region_label: labels must count from 1")
    yield column("region_area", 0, lambda v: v ^ 1, "region 1: region_")
    yield column("region_area", 0, 0, "region 1: region_area: not within")
    yield column("region_area", 0, -5, "region 1: region_area: not within")
    yield column("region_area", 0, 3, "region 1: region_area: not within")
    yield column("region_area", 0, 1 << 60, "region 1: region_area: does not go with region_bbox")
    yield column("region_bbox", (0, 0), -1, "region_bbox: not a box within the picture")
    yield column("region_bbox", (0, 3), 45, "region_bbox: not a box within the picture")
    yield column("region_bbox", (0, 2), 0, "region_bbox: not a box within the picture")
    yield column("region_bbox", (0, 2), 40, "region 1: (region_|area, box)")
    yield column("region_bbox", (1, 0), lambda v: v - 1, "region 2: |region 1: ")
    yield column("region_centroid", (0, 0), lambda v: np.nextafter(v, 99),
                 "region_centroid: not the centroid")
    yield column("region_centroid", (0, 1), lambda v: v + 40, "region_centroid: not the centroid")
    yield column("region_centroid", (0, 1), float("nan"), "region_centroid: not the centroid")
    yield column("region_centroid", (0, 1), -0.0, "region_centroid: not the centroid")
    yield column("region_mean", 0, lambda v: np.nextafter(v, 99), "region_mean: not the mean")
    yield column("region_mean", 0, float("nan"), "region_mean: not the mean")
    yield column("region_mean", 0, 256.0, "region_mean: not the mean")
    yield column("region_mean", 0, -1.0, "region_mean: not the mean")
    yield column("region_mean", 0, 89.0, "region_mean: on the wrong side of the threshold")
    yield column("region_border", 0, lambda v: not v, "region_border: does not go with region_bbox")
    yield ("a bool of 2", "labels", lambda a: set_at(a["region_border"].view("u1"), 0, 2),
           "region_border: 2 is not a bool")
    yield column("labels_cell_0", (0, 0), -1, "label -1 of")
    yield column("labels_cell_0", (-1, -1), 99, "label 99 of")
    yield ("a pixel taken from a region", "labels", lambda a: take_pixel(a, 0),
           "differs from labels_cell_0|touch")
    yield ("a pixel given to another region", "labels", lambda a: take_pixel(a, 2), "labels_cell_0")
    yield ("labels exchanged", "labels", exchange_labels,
           "region_bbox: the regions are not|comes before label")
    yield ("an empty label image", "labels", lambda a: set_at(a["labels_cell_0"], slice(None), 0),
           "labels_cell_0")
    yield ("a region cut in two", "labels", split_one, "touch")
    yield ("at the border, though excluded", "inner", at_border,
           "regions at the border are excluded|not in the order")
    yield ("the last region left out", "labels", drop_last, None)
    yield ("the last region left out of the table", "plain", drop_last_plain, None)
    yield ("no region at all", "plain", lambda a: a.update(
        {n: a[n][:0] for n in a if n.startswith("region_")}, count=a["count"] * 0), None)
    yield ("another mean", "labels", other_mean, None)
    yield ("other means of all parts", "parts", lambda a: set_at(
        a["region_mean"], slice(None),
        (np.round(a["region_mean"] * a["region_area"]) + a["region_area"]) / a["region_area"]),
           ("pixels", "regions: one of those around|the picture has no such region"))
    yield ("counts of two items exchanged", "plain", exchange_items, None)


def take_pixel(a, label):
    p = a["labels_cell_0"]
    ys, xs = np.nonzero(p == 1)
    p[ys[len(ys) // 2], xs[len(ys) // 2]] = label


def drop_last_plain(a):
    for name in [n for n in a if n.startswith("region_")]:
        a[name] = a[name][:-1]
    a["count"][-1] -= 1
