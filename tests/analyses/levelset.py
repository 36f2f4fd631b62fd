"""The data of levelset for the tests over all analyses; __init__.py explains the names."""
import numpy as np

from forge import set_at
from oracle.workunit import item
from pictures import (DEEP, GREY, SMOOTH, TINY, TINY_STACK, coins, gravel, noise, one_of, pictures,
                      random_items, stacks)


JOBS = {
    "plain": ({"target": 170, "epsilon": 80, "alpha": 0.02, "iterations": 30,
               "init": {"type": "ball", "cx": 15, "cy": 20, "r": 9}}, pictures()),
    "stopping": ({"target": 170, "epsilon": 80, "alpha": 0.02, "iterations": 400, "stop_after": 20,
                  "init": {"type": "ball", "cx": 15, "cy": 20, "r": 9}}, pictures()),
    "stack": ({"target": 170, "epsilon": 80, "alpha": 0.02, "iterations": 10,
               "init": {"type": "box", "x0": 5, "y0": 5, "z0": 2, "x1": 20, "y1": 20, "z1": 7}},
              stacks()),
}


KNOWN = {"plain": "cb19d71b", "stopping": "9d4bd1ff", "stack": "665ad502"}


def random_job(rng):
    stack, masks = one_of(rng, True, False), one_of(rng, True, False)
    ball = {"type": "ball", "cx": 2, "cy": 2, "r": 2.5, **({"cz": 1} if stack else {})}
    return {"target": int(rng.integers(20, 220)), "epsilon": int(rng.integers(5, 90)),
            "alpha": one_of(rng, 0.003, 0.05, 1),
            "iterations": one_of(rng, 0, 1, 7, 60), "reinit_every": one_of(rng, 0, 5, 50),
            "band": one_of(rng, 0, 3, 6),
            "stop_after": one_of(rng, 0, 1, 3), "smooth": one_of(rng, 0, 1.5),
            "init": {"type": "mask"} if masks else ball}, random_items(rng, stack, masks)


BOX = {"type": "box", "x0": 100, "y0": 100, "x1": 600, "y1": 600}
CUBE = {"type": "box", "x0": 10, "y0": 10, "x1": 100, "y1": 100, "z0": 0, "z1": 10}

def memory_jobs():
    return [
        ({"target": 128, "epsilon": 60, "iterations": 5, "reinit_every": 1, "init": BOX},
         noise(1000, 1200)),
        ({"target": 128, "epsilon": 60, "iterations": 3,
          "init": {"type": "box", "x0": 10, "x1": 65000, "y0": 5, "y1": 35}},
         noise(40, 65535)),
        ({"target": 128, "epsilon": 60, "iterations": 3, "smooth": 2, "init": BOX},
         noise(700, 8192)),
        ({"target": 128, "epsilon": 60, "iterations": 5, "init": BOX, "band": 4, "reinit_every": 1,
          "smooth": 2, "edge_stop": 0.5},
         noise(1000, 1200)),
        ({"target": 128, "epsilon": 60, "iterations": 3, "init": CUBE}, noise(32, 200, 200)),
    ]


BALL = {"type": "ball", "cx": 6, "cy": 6, "r": 4}
SEEDS = [
    ({"target": 150, "epsilon": 60, "iterations": 4, "stop_after": 2, "init": BALL}, TINY),
    ({"target": 150, "epsilon": 60, "iterations": 2, "init": dict(BALL, cz=1)}, TINY_STACK),
]

ESTIMATES = [(["target=128", "epsilon=40", "iterations=400",
               'init={"type":"ball","cx":200,"cy":200,"r":60}'], SMOOTH)]

SMALL_BOX = {"type": "box", "x0": 5, "y0": 5, "x1": 15, "y1": 15}
DATA_SET = {
    "level": ({"target": 100, "epsilon": 40, "iterations": 20, "init": SMALL_BOX},
              [item("t%d" % i, [g]) for i, g in enumerate(GREY)]),
    "level3": ({"target": 100, "epsilon": 40, "iterations": 20,
                "init": dict(SMALL_BOX, z0=1, z1=4)},
               [item("s", DEEP, spacing=[1.5, 1, 1])]),
}

BLANK = {
    "picture": ({"target": 180, "epsilon": 60, "alpha": 0.02, "iterations": 400,
                 "init": {"type": "ball", "cx": 66, "cy": 65, "r": 12}},
                [coins()[:160, :160]], [gravel()]),
    "stack": ({"target": 180, "epsilon": 60, "alpha": 0.02, "iterations": 150,
               "init": {"type": "ball", "cx": 50, "cy": 48, "cz": 10, "r": 7}},
              [coins()[16:112, 16:112]] * 20, [gravel()] * 20),
}


def forgeries():
    def row(name, value, reason, job="plain", what=None):
        def change(a):
            a[name][0] = value(a[name][0]) if callable(value) else value
        return (what or "%s made %s" % (name, value), job, change, reason)

    def mask_of(a):
        return a[[n for n in a if n.startswith("mask_")][0]]

    def consistent(change, factor=1.0):
        """Changes the mask, and the counts that depend on it."""
        def all_of_it(a):
            change(mask_of(a))
            inside = int(mask_of(a).sum())
            a["inside_voxels"][0], a["measure"][0] = inside, inside * factor
        return all_of_it

    def flip(m):
        m.reshape(-1)[m.size // 2] ^= 1

    def exchange(a):
        for name in ("inside_voxels", "measure", "iterations_run"):
            a[name][[0, 1]] = a[name][[1, 0]]
        a["mask_cell_0"], a["mask_cell_1"] = a["mask_cell_1"].copy(), a["mask_cell_0"].copy()

    yield row("inside_voxels", lambda v: v + 1, "inside_voxels: is")
    yield row("inside_voxels", lambda v: v ^ 1 << 20, "inside_voxels: is")
    yield row("inside_voxels", -1, "inside_voxels: is -1")
    yield row("inside_voxels", 1 << 62, "inside_voxels: is")
    yield row("measure", lambda v: np.nextafter(v, 1e9), "measure: is")
    yield row("measure", float("nan"), "measure: is")
    yield row("measure", float("inf"), "measure: is")
    yield row("measure", lambda v: -v, "measure: is")
    yield row("measure", lambda v: v * 32, "measure: is", "stack", "a measure in voxels")
    yield row("iterations_run", 31, "iterations_run: 31 is not from 0 to 30")
    yield row("iterations_run", -1, "iterations_run: -1 is not")
    yield row("iterations_run", 29, "iterations_run: 29 of 30, but not converged")
    yield row("iterations_run", 1 << 40, "iterations_run: ")
    yield row("converged", True, "converged: not after 30 iterations with stop_after 0")
    yield ("a bool of 255", "plain", lambda a: set_at(a["converged"].view("u1"), 0, 255),
           "converged: 255 is not a bool")
    yield row("iterations_run", 19, "iterations_run|converged", "stopping", "converged too soon")
    yield ("not converged, but stopped", "stopping",
           lambda a: (set_at(a["converged"], 0, False), set_at(
               a["iterations_run"], 0, 399)), "iterations_run: 399 of 400, but not converged")
    yield ("a pixel flipped", "plain", lambda a: flip(mask_of(a)), "inside_voxels: is")
    yield ("a pixel of 2", "plain", lambda a: set_at(mask_of(a), (3, 3), 2), "neither 0 nor 1")
    yield ("a mask of 255", "plain", lambda a: np.multiply(mask_of(a), 255, out=mask_of(a)),
           "neither 0 nor 1")
    yield ("an empty mask", "plain", lambda a: mask_of(a).fill(0), "inside_voxels: is")
    yield ("a full mask", "plain", lambda a: mask_of(a).fill(1), "inside_voxels: is")
    yield ("masks exchanged", "plain",
           lambda a: a.update(mask_cell_0=a["mask_cell_1"], mask_cell_1=a["mask_cell_0"]),
           "inside_voxels: is|nothing")
    yield ("a pixel flipped, and counted", "plain", consistent(flip), None)
    yield ("a mask moved by a pixel", "plain",
           consistent(lambda m: set_at(m, slice(None), np.roll(m, 1, 1))), None)
    yield ("an empty mask, and counted", "plain", consistent(lambda m: m.fill(0)), None)
    yield ("a full mask, and counted", "plain", consistent(lambda m: m.fill(1)), None)
    yield ("a voxel of a stack, and counted", "stack", consistent(flip, 0.5 * 0.25 * 0.25), None)
    yield ("two items exchanged", "plain", exchange, None)
    yield ("an iteration more", "stopping",
           lambda a: set_at(a["iterations_run"], 0, a["iterations_run"][0] + 1), None)
