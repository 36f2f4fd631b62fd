"""The data of mean for the tests over all analyses; __init__.py explains the names."""
import numpy as np

from forge import column_of, swap_rows
from oracle.workunit import item
from pictures import (CELLS, DEEP, GREY, SMOOTH, SMOOTH_STACK, TINY, TINY_STACK, noise, one_of,
                      pictures,
                      random_items, stacks)

JOBS = {
    "bright": ({"threshold": 100}, pictures()),
    "all": ({}, pictures()),
    "none": ({"threshold": 256}, pictures()),
    "stack": ({"threshold": 60}, stacks()),
    "deep": ({"threshold": 30000},
             [item("d", [p["slices"][0] * np.uint16(257)]) for p in pictures()[:1]]),
}


def expected(parameters, pixels):
    bright = pixels[pixels >= parameters.get("threshold", 0)]
    return {"pixels": [pixels.size - len(bright), len(bright)],
            "mean": bright.sum() / len(bright) if len(bright) else np.nan}


def random_job(rng):
    return ({"threshold": one_of(rng, 0, 1, int(rng.integers(256)), 65535)},
            random_items(rng, one_of(rng, True, False), False))


def memory_jobs():
    return [({}, noise(3000, 4000)), ({"threshold": 9}, noise(40, 400, 500)),
            ({}, noise(2000, 2500) * np.uint16(257))]


SEEDS = [({"threshold": 90}, TINY), ({}, TINY_STACK)]

ESTIMATES = [([], np.tile(SMOOTH, (4, 4))), (["threshold=128"], SMOOTH_STACK.repeat(4, 0))]

DATA_SET = {
    "means": ({"threshold": 50}, [item("t%d" % i, [p]) for i, p in enumerate(GREY + CELLS)]),
    "means3": ({}, [item("s", DEEP)]),
}


def forgeries():
    column = column_of("bright")
    wrong_kind, not_a_mean = ("mean: row 0: a number without any pixel, or NaN with pixels",
                              "mean: row 0: not a mean of so many pixels")
    yield column("pixels", (0, 1), -1, "pixels: row 0: -1")
    yield column("pixels", (0, 0), 40 * 44 + 1, "pixels: row 0: %d" % (40 * 44 + 1))
    yield column("pixels", (0, 1), lambda v: v - 1, "pixels: row 0: not as many", "all",
                 "one pixel too few in total")
    yield column("pixels", 0, lambda v: [v.sum(), 0], wrong_kind, what="no bright pixel")
    yield column("mean", 0, float("nan"), wrong_kind)
    yield column("mean", 0, 0.0, wrong_kind, "none")
    yield column("mean", 0, lambda v: np.nextafter(v, 999), not_a_mean)
    yield column("mean", 0, lambda v: -v, not_a_mean)
    yield column("mean", 0, 99.0, "mean: row 0: not from the threshold")
    yield column("mean", 0, 256.0, "mean: row 0: not from the threshold")
    yield column("mean", 0, 150.0, None)
    yield ("two items exchanged", "bright", lambda a: swap_rows(a, ["pixels", "mean"], 0, 1), None)
