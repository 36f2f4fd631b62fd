"""The data of voting for the tests over all analyses; __init__.py explains the names."""
import numpy as np

from forge import column_of, exchange_items, set_at
from oracle.workunit import item
from pictures import (CELLS, DEEP, SMOOTH, TINY, TINY_STACK, coins, gravel, noise, one_of, pictures,
                      random_items, stacks)


JOBS = {
    "peaks": ({"radius": 4, "refine": False, "threshold": 500}, pictures()),
    "refined": ({"radius": 4}, pictures()),
    "stack": ({"radius": 0.75, "sigma": 0.5}, stacks()),
}


KNOWN = {"peaks": "a47ef9e5", "refined": "8161827c", "stack": "bf6757e5"}


def random_job(rng):
    return {"radius": one_of(rng, 1, 2.5, 4, 7), "sigma": one_of(rng, 0, 1, 2),
            "polarity": one_of(rng, "dark", "bright"),
            "threshold": one_of(rng, "auto", 0, int(rng.integers(5000))),
            "refine": one_of(rng, True, False),
            "cone": one_of(rng, 90, 45, 22.5), "weight": one_of(rng, "root", "gradient"),
            "floor": one_of(rng, 0, 3), "foreground": one_of(rng, "none", "otsu")}, random_items(
                rng, one_of(rng, True, False), False)


def memory_jobs():
    return [
        ({"radius": 4, "sigma": 0, "threshold": 1}, noise(800, 1000)),
        ({"radius": 10}, noise(500, 600)),
        ({"radius": 2.5, "sigma": 0.5, "floor": 0}, noise(2000, 2000)),
        ({"radius": 10}, noise(40, 65535)),
        ({"radius": 20}, noise(64, 8192)),
        ({"radius": 3, "sigma": 0, "threshold": 1}, noise(24, 128, 128)),
    ]


SEEDS = [({"radius": 3, "refine": False}, TINY), ({"radius": 3}, TINY_STACK)]

ESTIMATES = [(["radius=12"], SMOOTH)]

DATA_SET = {
    "votes": ({"radius": 4, "polarity": "dark"},
              [item("c%d" % i, [c]) for i, c in enumerate(CELLS)]),
    "votes3": ({"radius": 4}, [item("s", DEEP, spacing=[1.5, 1, 1])]),
}

BLANK = {
    "picture": ({"radius": 20}, [coins()], [gravel()]),
    "stack": ({"radius": 6, "polarity": "dark"}, [c[:128, :128] for c in [coins()] * 16],
              [gravel()] * 16),
}


def forgeries():
    column = column_of("peaks")

    def swap_first(a):
        for name in ("point", "score"):
            a[name][[0, 1]] = a[name][[1, 0]]

    def beside(a):
        a["point"][1] = a["point"][0] + [0, 2 if a["point"][0, 1] < 30 else -2]

    def equal_scores(a):
        """Makes two scores equal; points with equal scores are sorted by place."""
        a["score"][1] = a["score"][0]
        a["point"][[0, 1]] = a["point"][np.lexsort((a["point"][:2, 1], a["point"][:2, 0]))[::-1]]

    def drop_last(a):
        for name in ("point_item", "point", "score"):
            a[name] = a[name][:-1]
        a["count"][-1] -= 1

    def move(a):
        """Moves the last point of an item by a pixel, within the picture."""
        a["point"][-1, 0] += 1 if a["point"][-1, 0] < 24 else -1

    yield column("count", 0, lambda v: v + 1, "count: is")
    yield column("count", 0, lambda v: v - 1, "count: is")
    yield column("count", 0, -1, "count: is")
    yield column("point_item", 0, 1, "_item: a row of item 0|count: is")
    yield column("point_item", -1, 0, "_item: a row of item 0")
    yield column("point_item", -1, 99, "_item: a row of item 99")
    yield column("point_item", 0, -7, "_item: a row of item -7")
    yield column("point", (0, 0), -1.0, "point: row 0: -1 is not a coordinate")
    yield column("point", (0, 0), 40.0, "point: row 0: 40 is not a coordinate")
    yield column("point", (0, 1), 44.0, "point: row 0: 44 is not a coordinate")
    yield column("point", (0, 1), 1e300, "point: row 0: ")
    yield column("point", (0, 0), float("nan"), "point: row 0: -?nan is not a coordinate")
    yield column("point", (0, 0), float("inf"), "point: row 0: inf is not a coordinate")
    yield column("point", (0, 0), lambda v: v + 0.5, "is not a coordinate")
    yield column("point", (0, 0), lambda v: np.nextafter(v, 99), "is not a coordinate")
    yield column("point", (0, 0), lambda v: np.nextafter(v, 99), "is not a coordinate", "refined",
                 "a refined point's bit")
    yield column("point", (0, 0), lambda v: v + 0.001, "is not a coordinate", "refined",
                 "a point between the steps")
    yield column("point", (0, 0), -0.75, "is not a coordinate", "refined",
                 "a refined point outside")
    yield column("point", (0, 0), -0.0, "is not a coordinate", "refined", "a refined point at -0")
    yield column("point", (0, 0), 9.0, "is not a coordinate", "stack", "a point above the stack")
    yield column("score", 0, 0, "score: row 0: 0 is not from")
    yield column("score", 0, -3, "score: row 0: -3 is not from")
    yield column("score", -1, 499, "score: row [0-9]+: 499 is not from 500")
    yield column("score", 0, 1 << 32, "score: row 0: 4294967296 is not from")
    yield column("score", 0, 4095 * 81 + 1, "score: row 0: ")
    yield column("score", 0, 1 << 62, "score: row 0: ")
    yield column("threshold", 0, lambda v: v + 99999, "threshold: .* above the lowest score",
                 "refined", "a greater threshold")
    yield column("threshold", 0, -1, "threshold: -1 is", "refined")
    yield column("threshold", 0, 0, "peak_sum: .* does not give the threshold 0", "refined")
    yield column("peak_sum", 0, 0, "peak_sum: 0 does not give the threshold", "refined")
    yield column("peak_sum", 0, -5, "peak_sum: -5 does not give the threshold", "refined")
    yield column("peak_sum", 0, lambda v: v + 1, None, "refined", "a sum more by one")
    yield ("points out of order", "peaks", swap_first,
           "score: row 1: the points are not sorted")
    yield ("refined points out of order", "refined", swap_first,
           "score: row 1: the points are not sorted")
    yield ("equal scores out of order", "peaks", equal_scores,
           "score: row 1: the points are not sorted")
    yield ("two points of one cell", "peaks", beside, "two points are closer than the radius")
    yield ("a point twice", "peaks", lambda a: set_at(a["point"], 1, a["point"][0]),
           "closer than the radius")
    yield ("the last point left out", "peaks", drop_last, None)
    yield ("the last refined point left out", "refined", drop_last, None)
    yield ("no point at all", "peaks", lambda a: a.update(
        {n: a[n][:0] for n in ("point_item", "point", "score")}, count=a["count"] * 0), None)
    yield column("score", 0, lambda v: v + 1, None, what="a score more by one")
    yield ("a point moved by a pixel", "peaks", move, None)
    yield column("point", (0, 0), lambda v: v + 1 / 256, None, "refined", "a point moved by 1/256")
    yield column("score", 0, lambda v: v + 1, None, "stack", "a stack's score")
    yield ("two items exchanged", "refined", lambda a: exchange_items(a, "point"), None)
