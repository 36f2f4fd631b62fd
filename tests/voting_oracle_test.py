"""Tests voting against a direct evaluation (oracle/voting_oracle.py): the vote images of every
round, the blurred picture, the weights, points and scores are equal."""
import os
import time

import numpy as np

import tap
from oracle import voting_oracle as oracle
from oracle.workunit import item, write

STATES = os.path.join(tap.BUILD, "tests", "unit", "voting_states")
SCRATCH = tap.scratch()
RNG = np.random.default_rng(7)


def balls(shape, radius, count, noise, dtype=np.uint8, dark=False, spacing=(1, 1, 1)):
    """A stack of balls (discs if shape[0] is 1) that may touch, on a brightness slope, with
    noise."""
    grid = np.indices(shape)
    image = 40.0 + 30.0 * grid[2] / shape[2]
    for _ in range(count):
        c = [RNG.uniform(0, n) if n > 1 else 0 for n in shape]
        d = np.sqrt(sum(((grid[a] - c[a]) * spacing[a]) ** 2 for a in range(3)))
        image = np.maximum(image, 40 + RNG.uniform(60, 150) * np.clip(radius + 0.5 - d, 0, 1))
    image = np.clip(image + RNG.normal(0, noise, shape), 0, 255)
    image = 255 - image if dark else image
    return np.round(image * (200 if dtype == np.uint16 else 1)).astype(dtype)


def check(name, volume, parameters, spacing=None, stack=None):
    """Compares the states and the result of one item with the oracle's."""
    volume = volume if volume.ndim == 3 else volume[None]
    flat = not (volume.shape[0] > 1 if stack is None else stack)
    wu = write(os.path.join(SCRATCH, "wu.zip"), "voting", parameters,
               [item("a", list(volume), stack=not flat, spacing=spacing)])
    start = time.time()
    expected = oracle.run(volume[0] if flat else volume, parameters, spacing)
    seconds = time.time() - start
    dump = os.path.join(SCRATCH, "states")
    wrong = []
    for threads in (1, 2, 3, 7):
        r = tap.run([STATES, wu, str(threads), dump])
        if r.returncode != 0:
            wrong.append(r.stderr)
            continue
        planes = np.fromfile(dump, np.uint32).reshape((-1, 2) + volume.shape).astype(np.int64)
        rounds = len(expected["votes"])
        if len(planes) != 2 * rounds + 1 + int(dict(oracle.DEFAULTS, **parameters)["refine"]):
            wrong.append("%d phases, %d rounds" % (len(planes), rounds))
            continue
        if not np.array_equal(planes[0][0], expected["blurred"]):
            wrong.append("the blurred picture")
        if not np.array_equal(planes[1][1] >> 16, expected["weight"]):
            wrong.append("the weights")
        for i in range(rounds):
            if not np.array_equal(planes[2 + 2 * i][0], expected["votes"][i]):
                wrong.append("the votes of round %d: %d pixels" %
                             (i, (planes[2 + 2 * i][0] != expected["votes"][i]).sum()))
    tap.ok(not wrong, name + ": votes of all rounds", "\n".join(wrong))
    out = os.path.join(SCRATCH, "out.npz")
    r = tap.run([tap.TEXCELL, "run", wu, "-o", out, "--device", "cpu", "--threads", "2", "--quiet"])
    if not tap.ok(r.returncode == 0, name + ": runs", r.stderr):
        return
    result = np.load(out)
    same = (np.array_equal(result["point"], expected["points"]) and
            np.array_equal(result["score"], expected["scores"])
            and result["count"].tolist() == [len(expected["scores"])]
            and all(result[k].tolist() == [expected[k]] for k in
                    ("radius", "bright", "threshold", "peak_sum") if k in result.files))
    tap.ok(same, name + ": %d points" % len(expected["scores"]),
           "%s\n%s" % (result["point"][:9], expected["points"][:9]))
    r = tap.run([tap.TEXCELL_VALIDATE, "check", wu, out])
    tap.ok(r.returncode == 0, name + ": is valid", r.stderr)
    tap.note("%d voters, oracle %.1f s" % ((expected["weight"] > 0).sum(), seconds))


def test_pictures():
    disc = balls((1, 60, 70), 6, 9, 6)
    check("discs", disc, {"radius": 6})
    check("discs, no floor", disc, {"radius": 6, "floor": 0})
    check("discs, half plane", disc, {"radius": 6, "cone": 90, "weight": "gradient"})
    check("discs, narrow cone", disc, {"radius": 9, "cone": 22.5, "sigma": 0})
    check("discs, threshold", disc, {"radius": 6, "threshold": 20000, "refine": False})
    noise = np.clip(disc + RNG.normal(0, 12, disc.shape), 0, 255).astype(np.uint8)
    for radius in (3, 6):
        check("discs in noise, on the foreground, radius %d" % radius, noise,
              {"radius": radius, "floor": 0, "threshold": 0, "foreground": "otsu"})
    check("discs in noise without foreground", noise,
          {"radius": 3, "floor": 0, "threshold": 0, "foreground": "none"})
    check("parameters chosen for the picture", disc,
          {"radius": 11, "own_radius": True, "polarity": "auto",
                                          "foreground": "otsu", "classes": 3})
    check("dark discs of a quarter of the radius", balls((1, 70, 65), 4, 10, 9, np.uint16, True),
          {"radius": 20, "own_radius": True, "polarity": "auto"})
    check("dark discs of 16 bits, on the foreground", balls((1, 50, 41), 5, 8, 9, np.uint16, True),
          {"radius": 3, "polarity": "dark", "threshold": 0, "floor": 0, "refine": False,
           "foreground": "otsu"})
    check("dark discs of 16 bits", balls((1, 50, 41), 5, 8, 9, np.uint16, True),
          {"radius": 5.4, "polarity": "dark", "sigma": 1.3})
    grid = np.indices((1, 60, 70))
    rings = [np.abs(np.hypot(grid[1] - y, grid[2] - x) - r) < 1
             for y, x, r in ((22, 40, 12), (44, 16, 6))]
    check("rings, whose outsides are no cells", (200 * np.any(rings, 0)).astype(np.uint8),
          {"radius": 9, "polarity": "dark", "sigma": 1})
    check("a radius larger than the picture", balls((1, 30, 23), 6, 3, 6),
          {"radius": 40, "floor": 1})
    check("several bands", balls((1, 150, 40), 4, 20, 5), {"radius": 4, "sigma": 1})
    for shape in ((1, 1, 1), (1, 1, 40), (1, 40, 1), (1, 2, 2)):
        check("a picture of %d x %d" % shape[1:], RNG.integers(0, 256, shape).astype(np.uint8),
              {"radius": 3, "floor": 0})
    check("a flat picture", np.full((1, 20, 30), 77, np.uint8), {"radius": 5, "floor": 0})
    check("black", np.zeros((1, 20, 30), np.uint16), {"radius": 5})
    check("extremes", (RNG.integers(0, 2, (1, 40, 40)) * 65535).astype(np.uint16),
          {"radius": 7, "floor": 0, "sigma": 0})


def test_stacks():
    check("balls", balls((18, 24, 26), 5, 6, 5), {"radius": 5, "sigma": 1})
    check("balls, on the foreground", balls((18, 24, 26), 5, 6, 9),
          {"radius": 3, "sigma": 1, "floor": 0, "threshold": 0, "foreground": "otsu"})
    check("balls, half space", balls((12, 20, 19), 4, 4, 5, np.uint16),
          {"radius": 4, "cone": 90, "floor": 0})
    check("balls, anisotropic", balls((12, 26, 28), 5, 6, 5, spacing=(2, 1, 1)),
          {"radius": 0.5, "sigma": 1.4},
          [0.2, 0.1, 0.1])
    check("balls, three spacings", balls((12, 16, 20), 5, 6, 5, np.uint16, True, (1.7, 1.3, 1)),
          {"radius": 4.9, "polarity": "dark"}, [1.7, 1.3, 1.0])
    grid = np.indices((20, 24, 26))
    shell = np.abs(np.sqrt(sum((grid[a] - c) ** 2 for a, c in enumerate((9, 12, 12)))) - 6) < 1
    check("a shell, whose outside is no cell", (200 * shell).astype(np.uint8),
          {"radius": 5, "polarity": "dark", "sigma": 1})
    check("a stack of one slice", balls((1, 30, 30), 5, 4, 5), {"radius": 5}, [1.0, 1.0, 1.0], True)
    check("a stack of two slices", balls((2, 30, 30), 5, 4, 5), {"radius": 5}, [1.0, 1.0, 1.0],
          True)


def check_refused(name, parameters, said, volume=None, spacing=None):
    volume = np.zeros((1, 8, 8), np.uint8) if volume is None else volume
    wu = write(os.path.join(SCRATCH, "bad.zip"), "voting", parameters,
               [item("a", list(volume), spacing=spacing)])
    r = tap.run([tap.TEXCELL, "run", wu, "-o", os.path.join(SCRATCH, "bad.npz"), "--device", "cpu"])
    tap.ok(r.returncode == 2 and said in r.stderr, name, r.stderr)


def test_limits():
    check_refused("no radius", {}, "radius: is required")
    check_refused("a radius of zero", {"radius": 0}, "radius")
    check_refused("too large in 2D", {"radius": 128}, "127 are allowed")
    check_refused("too large in 3D", {"radius": 33}, "32 are allowed",
                  np.zeros((2, 8, 8), np.uint8))
    check_refused("too small", {"radius": 0.9}, "less than one pixel")
    check_refused("too large for the spacing", {"radius": 10}, "32 are allowed",
                  np.zeros((2, 8, 8), np.uint8), [1, 0.1, 0.1])
    check_refused("spacings too different", {"radius": 10}, "differ by more",
                  np.zeros((2, 8, 8), np.uint8), [40, 1, 1])
    wu = write(os.path.join(SCRATCH, "mixed.zip"), "voting", {"radius": 3},
               [item("a", [np.zeros((8, 8), np.uint8)]),
                item("b", [np.zeros((8, 8), np.uint8)] * 2)])
    r = tap.run([tap.TEXCELL, "run", wu, "-o", os.path.join(SCRATCH, "bad.npz"), "--device", "cpu"])
    tap.ok(r.returncode == 2 and "images or stacks, not both" in r.stderr,
           "an image and a stack in one job", r.stderr)
    check_refused("unknown key", {"radius": 3, "r": 1}, "unknown key")
    check_refused("a cone of 30", {"radius": 3, "cone": 30}, "cone: must be")
    check_refused("a negative threshold", {"radius": 3, "threshold": -1}, "threshold")
    check_refused("a negative sigma", {"radius": 3, "sigma": -1}, "sigma")
    check_refused("grey polarity", {"radius": 3, "polarity": "grey"}, "polarity")


test_pictures()
test_stacks()
test_limits()
tap.done()
