"""The data of volume for the tests over all analyses; __init__.py explains the names."""
import numpy as np

from forge import column_of, set_at
from oracle.workunit import item
from pictures import DEEP, SMOOTH_STACK, TINY_STACK, coins, gravel, noise, one_of, random_items


def shells():
    """Balls within membranes, alone and in pairs; all items have the same size."""
    z, y, x = np.indices((9, 26, 30))
    for i in range(3):
        picture = np.full(z.shape, 30)
        for cy, cx, r in ((8, 8, 5), (8, 17, 5), (18, 20, 3 + i)):
            distance = np.sqrt((1.5 * (z - 4)) ** 2 + (y - cy) ** 2 + (x - cx) ** 2)
            picture[abs(distance - r) < 1] = 200
        yield item("shell_%d" % i, list(picture.astype(np.uint8)), spacing=[0.3, 0.2, 0.2])


JOBS = {
    "labels": ({"membrane": 128, "labels": True}, list(shells())),
    "slices": ({"membrane": 128, "mode": "slices", "labels": True}, list(shells())),
    "basins": ({"method": "watershed", "smooth": 1.0, "h": 4, "labels": True}, list(shells())),
    "filled": ({"method": "watershed", "h": 2, "connectivity": 26, "mode": "slices", "fill": True,
                "min_voxels": 5,
                "labels": True}, list(shells())),
    "repaired": ({"membrane": 128, "repair": {"sigma": 0.8, "threshold": 90}, "min_voxels": 5,
                  "exclude_border": True}, list(shells())),
}


KNOWN = {"labels": "03998abe", "slices": "7cefc61d", "basins": "6a0a1df5", "filled": "9438326a",
         "repaired": "2fe01bda"}


def random_job(rng):
    if rng.integers(2):
        return {"method": "watershed", "membrane": one_of(rng, "otsu", 100),
                "mode": one_of(rng, "slices", "3d"),
                "smooth": one_of(rng, 0, 0.5, 2.5), "h": float(rng.integers(0, 60)) / 2,
                "connectivity": one_of(rng, 6, 26),
                "fill": one_of(rng, True, False), "min_voxels": one_of(rng, 1, 5),
                "exclude_border": one_of(rng, True, False),
                "labels": one_of(rng, True, False)}, random_items(rng, True, False)
    return {"membrane": int(rng.integers(30, 230)), "mode": one_of(rng, "slices", "3d"),
            "min_voxels": one_of(rng, 1, 5),
            "repair": one_of(rng, None, {"sigma": 1.0, "threshold": int(rng.integers(30, 150))}),
            "max_voxels": one_of(rng, None, 200), "exclude_border": one_of(rng, True, False),
            "labels": one_of(rng, True, False)}, random_items(rng, True, False)


def memory_jobs():
    return [
        ({"membrane": 128, "labels": True}, noise(32, 300, 400)),
        ({"method": "watershed", "connectivity": 26}, noise(32, 300, 400) // 64 * np.uint8(64)),
        ({"method": "watershed", "h": 0, "labels": True}, noise(32, 300, 400)),
        ({"method": "watershed", "smooth": 4}, noise(3, 20, 65535)),
        ({"membrane": 128, "repair": {"sigma": 4, "threshold": 64}}, noise(3, 20, 65535)),
        ({"membrane": 128, "repair": {"sigma": 2, "threshold": 64}}, noise(4, 60, 8192)),
        ({"membrane": 128, "mode": "slices", "repair": {"sigma": 1.5, "threshold": 64},
          "min_voxels": 50}, noise(32, 300, 400)),
    ]


SEEDS = [({"membrane": 150, "labels": True}, TINY_STACK),
         ({"method": "watershed", "smooth": 0.5, "labels": True}, TINY_STACK),
         ({"membrane": 150, "repair": {"sigma": 0.8, "threshold": 90}}, TINY_STACK)]

ESTIMATES = [
    (["membrane=150"], SMOOTH_STACK),
    (["membrane=150", "mode=slices", "labels=true"], SMOOTH_STACK),
    (["membrane=150", 'repair={"sigma":1,"threshold":130}'], SMOOTH_STACK),
    (["method=watershed", "smooth=1.5", "labels=true"], SMOOTH_STACK),
    (["method=watershed", "connectivity=26", "fill=true"], SMOOTH_STACK),
]

DATA_SET = {
    "volume": ({"membrane": 128, "labels": True}, [item("s", DEEP, spacing=[1.5, 1, 1])]),
}

BLANK = {
    "3d": ({"membrane": 110}, [coins()] * 9, [gravel()] * 9),
    "slices": ({"membrane": 110, "mode": "slices", "min_voxels": 5, "labels": True}, [coins()] * 3,
               [gravel()] * 3),
    "watershed": ({"method": "watershed", "smooth": 1, "h": 2, "fill": True, "labels": True},
                  [coins()] * 5,
                  [gravel()] * 5),
    "repair": ({"membrane": 110, "repair": {"sigma": 1}}, [coins()] * 5, [gravel()] * 5),
}


def forgeries():
    column = column_of("labels")

    def recount(a, i=0):
        """Computes the tables and totals of item i again from its labels."""
        labels = a["labels_shell_%d" % i]
        n = int(labels.max())
        rows = a["cell_item"] == i
        for name in [k for k in a if k.startswith("cell_")]:
            own = {"cell_item": [i] * n, "cell_label": list(range(1, n + 1))}.get(name) or [
                cell(labels, k + 1)[name] for k in range(n)]
            a[name] = np.concatenate([a[name][:np.argmax(rows)], np.array(own, a[name].dtype),
                                      a[name][len(rows) - np.argmax(rows[::-1]):]])
        inside = int((labels > 0).sum())
        a["membrane_voxels"][i] += a["inside_voxels"][i] - inside
        a["inside_voxels"][i], a["cells"][i] = inside, n
        a["volume"][i] = inside * (0.3 * 0.2 * 0.2)

    def cell(labels, k):
        voxels = np.nonzero(labels == k)
        n = len(voxels[0])
        lo, hi = [int(v.min()) for v in voxels], [int(v.max()) + 1 for v in voxels]
        return {"cell_voxels": n, "cell_volume": n * (0.3 * 0.2 * 0.2), "cell_bbox": lo + hi,
                "cell_centroid": [v.sum() / n for v in voxels],
                "cell_border": 0 in lo or any(h == s for h, s in zip(hi, labels.shape))}

    def drop_last(a):
        labels = a["labels_shell_0"]
        labels[labels == labels.max()] = 0
        recount(a)

    def shrink(a):
        """Makes one voxel of a cell membrane, in all numbers."""
        voxels = np.argwhere(a["labels_shell_0"] == 1)
        a["labels_shell_0"][tuple(voxels[0])] = 0
        recount(a)

    def cut(a):
        """Makes half of a cell another cell that touches it."""
        labels = a["labels_shell_0"]
        n = labels.max()
        voxels = np.argwhere(labels == n)
        labels[tuple(voxels[voxels[:, 2] > voxels[:, 2].mean()].T)] = n + 1
        recount(a)

    yield column("cells", 0, lambda v: v + 1, "cells: is")
    yield column("cells", 0, -1, "cells: is")
    yield column("inside_voxels", 0, lambda v: v + 1,
                 "inside_voxels: row 0: not the sum of cell_voxels")
    yield column("inside_voxels", 0, -1, "inside_voxels: row 0: ")
    yield column("membrane_voxels", 0, lambda v: v ^ 1,
                 "the numbers of voxels of all kinds do not add up to the stack's")
    yield column("external_voxels", 0, lambda v: v - 1,
                 "the numbers of voxels of all kinds do not add up to the stack's")
    yield column("external_voxels", 0, 1 << 50, "external_voxels: row 0: ")
    yield column("left_out_voxels", 0, 1, "voxels of all kinds|nothing was to be left out")
    yield column("left_out_voxels", 0, -5, "left_out_voxels: row 0: ")
    yield ("voxels left out of nothing", "labels",
           lambda a: (set_at(a["left_out_voxels"], 0, 1), set_at(
               a["external_voxels"], 0, a["external_voxels"][0] - 1)), "nothing was to be left out")
    yield column("repair_added_voxels", 0, 1,
                 "repair_added_voxels: row 0: more than can have been added")
    yield column("repair_bias_voxels", 0, 1,
                 "repair_bias_voxels: row 0: more than repair_added_voxels")
    yield column("voxel_volume", 0, 1.0, "voxel_volume: row 0: does not follow from spacing")
    yield column("voxel_volume", 0, lambda v: np.nextafter(v, 1),
                 "voxel_volume: row 0: does not follow from spacing")
    yield column("volume", 0, lambda v: np.nextafter(v, 1e9),
                 "volume: row 0: is not inside_voxels times")
    yield column("volume", 0, float("nan"), "volume: row 0: is not inside_voxels times")
    yield column("cell_item", 0, 1, "cell_item: a row of item|cells: is")
    yield column("cell_item", -1, 0, "cell_item: a row of item 0")
    yield column("cell_item", -1, 3, "cell_item: a row of item 3")
    yield column("cell_label", 0, 2, "cell 1: cell_label: labels must count from 1")
    yield column("cell_voxels", 0, 0, "cell 1: cell_voxels: not within")
    yield column("cell_voxels", 0, lambda v: v + 1, "cell 1: cell_")
    yield column("cell_voxels", 0, 1 << 60, "cell 1: cell_voxels: does not go with cell_bbox")
    yield column("cell_voxels", 0, 2, "cell 1: cell_voxels: not within", "repaired",
                 "a cell below min_voxels")
    yield column("cell_bbox", (0, 0), -1, "cell 1: cell_bbox: is empty or reaches the outside")
    yield column("cell_bbox", (0, 4), 27, "cell 1: cell_bbox: is empty or reaches the outside")
    yield column("cell_bbox", (0, 2), 0, "cell 1: cell_bbox: is empty or reaches the outside")
    yield column("cell_bbox", (0, 5), lambda v: v + 1, "cell 1: ")
    yield column("cell_bbox", (0, 3), lambda v: v + 1, "a cell is in a single slice",
                 "slices")
    yield column("cell_centroid", (0, 0), lambda v: np.nextafter(v, 99),
                 "cell_centroid: cannot be")
    yield column("cell_centroid", (0, 2), lambda v: v + 12, "cell_centroid: cannot be")
    yield column("cell_centroid", (0, 1), float("nan"), "cell_centroid: cannot be")
    yield column("cell_volume", 0, lambda v: v * 2, "cell_volume: is not cell_voxels times")
    yield column("cell_volume", 0, lambda v: -v, "cell_volume: is not cell_voxels times")
    yield column("cell_border", 0, lambda v: not v, "cell_border: does not go with cell_bbox")
    yield ("a bool of 7", "labels", lambda a: set_at(a["cell_border"].view("u1"), 0, 7),
           "cell_border: 7 is not a bool")
    yield column("labels_shell_0", (0, 0, 0), -1, "label -1")
    yield column("labels_shell_0", (8, 25, 29), 99, "label 99")
    yield ("an empty label image", "labels", lambda a: a["labels_shell_0"].fill(0),
           "are not those of labels_shell_0")
    yield ("label images of two items exchanged", "labels", lambda a: a.update(
        labels_shell_0=a["labels_shell_2"], labels_shell_2=a["labels_shell_0"]), "labels_shell_0")
    yield ("a cell cut in two", "labels", cut, "touch")
    yield ("the last cell left out", "labels", drop_last, None)
    yield ("a voxel less", "labels", shrink, None)
    yield ("membrane for outside", "labels",
           lambda a: (set_at(a["membrane_voxels"], 0, a["membrane_voxels"][0] + 1), set_at(
               a["external_voxels"], 0, a["external_voxels"][0] - 1)), None)
    def exchange_parts(a):
        """Moves the last voxel of a cell to the next cell, in all numbers."""
        labels = a["labels_shell_0"]
        voxels = tuple(np.argwhere(
            (labels[:, :, 1:] != labels[:, :, :-1]) & (labels[:, :, 1:] > 0) &
            (labels[:, :, :-1] > 0))[0])
        labels[voxels[0], voxels[1], voxels[2] + 1] = labels[voxels]
        recount(a)

    yield column("threshold", 0, 0, "threshold: row 0", "basins")
    yield column("threshold", 0, 256, "threshold: row 0", "basins")
    yield column("threshold", 0, lambda v: v + 1, None, "basins")
    yield column("external_voxels", 0, 1, "a watershed has no outside|voxels of all kinds",
                 "basins")
    yield column("cell_border", 0, lambda v: not v, "cell_border: does not go with cell_bbox",
                 "basins")
    yield column("membrane_voxels", 0, 1, "all voxels belong to cells|voxels of all kinds",
                 "filled")
    yield ("a voxel for the neighbour", "filled", exchange_parts, None)
    yield column("repair_added_voxels", 0, lambda v: v + 1, None, "repaired",
                 "a voxel more repaired")
