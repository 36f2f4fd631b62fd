"""Tests volume against an oracle with SciPy: membranes of known volume, membranes of difficult
shape, random and real stacks; every parameter; and input that must be refused."""
import itertools
import os
import sys

import numpy as np
from scipy import ndimage

import tap
from oracle import workunit
from oracle.volume_check import check, folder, run, texcell
from oracle.workunit import item

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cpu"
MODES = ("3d", "slices")


def grey(membrane, deep=False):
    """A stack in which the membrane's voxels have grey values from the middle of the range up, and
    all others lower values."""
    membrane = np.asarray(membrane, bool)
    noise = (np.arange(membrane.size).reshape(membrane.shape) * 7919) % 100
    stack = np.where(membrane, 128 + noise, noise).astype(np.uint8)
    return stack.astype(np.uint16) * 257 if deep else stack


def stack_item(name, membrane, spacing=None, deep=False):
    return item(name, list(grey(membrane, deep)), stack=True, spacing=spacing)


def shell(shape, centre, radius, thickness, axes=(1, 1, 1)):
    """The voxels whose distance from centre is radius to radius + thickness; coordinates are
    divided by axes, which gives an ellipsoid."""
    z, y, x = (((g - c) / a) ** 2 for g, c, a in zip(np.indices(shape), centre, axes))
    d = np.sqrt(z + y + x)
    return (d >= radius) & (d < radius + thickness)


def torus(shape, ring, tube):
    z, y, x = (g - n // 2 for g, n in zip(np.indices(shape), shape))
    d = np.hypot(np.hypot(y, x) - ring, z)
    return (d >= tube) & (d < tube + 1.8)


def spiral(n):
    """A wall that winds inwards and is open to the outside: no straight line leads from outside to
    its inner part."""
    m = np.zeros((n, n), bool)
    lo, hi = 1, n - 2
    while hi - lo > 3:
        m[lo, lo:hi + 1] = m[lo:hi + 1, hi] = m[hi, lo:hi + 1] = True
        m[lo + 2:hi + 1, lo] = True
        m[lo + 2, lo:lo + 2] = True
        lo, hi = lo + 2, hi - 2
    return m


def diagonal_box(n):
    """The wall of a cell, an octahedron of voxels that touch only at corners."""
    z, y, x = (abs(g - n // 2) for g in np.indices((n, n, n)))
    return z + y + x == n // 2 - 2


def shapes():
    yield "sphere", shell((30, 34, 70), (15, 17, 40), 11, 1.8)
    yield "ellipsoid", shell((30, 40, 60), (15, 20, 30), 1, 0.3, (9, 14, 22))
    yield "torus", torus((21, 70, 70), 22, 6)
    yield ("nested", np.logical_or.reduce([shell((41, 41, 41), (20, 20, 20), r, 1.8)
                                           for r in (3, 7, 12, 17)]))
    yield ("touching", np.logical_or.reduce([shell((24, 26, 66), (12, 13, 12 + 18 * k), 9, 1.8)
                                             for k in range(3)]))
    yield "cut by the border", np.logical_or.reduce(
        [shell((24, 26, 66), (2 + 20 * (k % 2), 13, 5 + 18 * k), 9, 1.8)
                                                        for k in range(4)])
    yield "diagonal walls", diagonal_box(33)
    walls = spiral(45)
    yield "spiral", np.stack([np.ones_like(walls)] + [walls] * 9 + [np.ones_like(walls)])
    yield "spiral through slices", np.moveaxis(np.stack([walls] * 7), 0, 1)
    closed = np.ones((5, 45, 45), bool)
    closed[1:4] = walls
    closed[2, 0, 0] = True
    yield "spiral, closed outside", closed | np.pad(np.zeros((5, 43, 43), bool),
                                                    ((0, 0), (1, 1), (1, 1)),
                                                    constant_values=True)
    yield "tube", shell((1, 40, 40), (0, 20, 20), 15, 1.5).repeat(12, 0)
    z, y, x = np.indices((17, 33, 65))
    yield "chessboard", (z + y + x) % 2 == 0
    yield "rods", (y % 2 == 0) | (z % 2 == 0)
    yield "dots", (z % 3 == 0) | (y % 3 == 0) | (x % 3 == 0)
    yield "plates", z % 2 == 0
    yield "all membrane", np.ones((9, 8, 33), bool)
    yield "no membrane", np.zeros((9, 17, 40), bool)
    yield "full blocks", np.pad(np.zeros((40, 40, 160), bool), 4, constant_values=True)
    for k, shape in enumerate(((1, 1, 1), (1, 1, 70), (1, 70, 1), (70, 1, 1), (3, 3, 3), (8, 8, 32),
                               (9, 9, 33))):
        yield "random %s" % (shape,), np.random.default_rng(k).random(shape) < 0.4


def test_difficult_shapes():
    items = [stack_item("s%02d" % k, m) for k, (_, m) in enumerate(shapes())]
    for mode in MODES:
        check("shapes, %s" % mode, {"membrane": 128, "mode": mode, "labels": True}, items, 2,
              DEVICE)
        mirrored = [item(it["name"], [s[::-1, ::-1] for s in it["slices"][::-1]], stack=True)
                    for it in items]
        check("shapes mirrored, %s" % mode, {"membrane": 128, "mode": mode, "labels": True},
              mirrored, 3, DEVICE)


def test_known_volumes():
    """The true volume follows from the shape's definition: all voxels nearer to the centre than the
    wall are inside."""
    shape, centre, r = (92, 92, 92), (45.5, 45.5, 45.5), 40
    d = np.sqrt(sum((g - c) ** 2 for g, c in zip(np.indices(shape), centre)))
    inside = int((d < r).sum())
    for spacing in (None, [0.29, 0.065, 0.065]):
        got = run({"membrane": 128}, [stack_item("ball", shell(shape, centre, r, 1.8), spacing)], 2,
                  DEVICE)
        unit = 1.0 if spacing is None else spacing[0] * spacing[1] * spacing[2]
        good = not isinstance(got,
                              str) and got["inside_voxels"][0] == inside and got["cells"][0] == 1
        tap.ok(good and got["volume"][0] == inside * unit and abs(inside - 4 / 3 * np.pi * r ** 3) <
               0.03 * inside,
               "a shell of radius 40 contains its %d voxels, spacing %s" % (inside, spacing), got)
    for name, axes in (("ellipsoid", (12, 20, 31)), ("flat ellipsoid", (5, 40, 40))):
        shape = tuple(2 * a + 9 for a in axes)
        scaled = sum(((g - n // 2) / a) ** 2 for g, n, a in zip(np.indices(shape), shape, axes))
        wall = ndimage.binary_dilation(scaled < 1, np.ones((3, 3, 3))) & (scaled >= 1)
        got = run({"membrane": 128}, [stack_item("e", wall)], 1, DEVICE)
        tap.ok(not isinstance(got, str) and got["inside_voxels"][0] == (scaled < 1).sum(),
               "an %s contains the voxels that it surrounds" % name, got)


def test_bands():
    """Stacks that are processed in several bands of rows, as they are large; cells cross the
    borders between bands."""
    rng = np.random.default_rng(11)
    foam = np.abs(ndimage.gaussian_filter(rng.random((40, 170, 400)), 5) - 0.5) < 0.004
    items = [stack_item("foam", foam), stack_item("noise", rng.random((30, 300, 301)) < 0.45),
             stack_item("long", rng.random((70, 3, 20000)) < 0.3),
             stack_item("thin", rng.random((900, 1200, 2)) < 0.4),
             stack_item("shells", np.tile(shell((32, 32, 32), (16, 16, 16), 12, 1.8), (2, 6, 12)))]
    for mode in MODES:
        check("several bands, %s" % mode, {"membrane": 128, "mode": mode, "labels": True}, items, 3,
              DEVICE)


def test_random_stacks(n):
    rng = np.random.default_rng(42)
    items = []
    for k in range(n):
        shape = tuple(int(v) for v in rng.integers(1, (24, 40, 90)))
        noise = rng.random(shape)
        if k % 3 == 2:
            noise = ndimage.uniform_filter(noise, 3)
        items.append(stack_item("r%03d" % k, noise < np.quantile(noise, 0.1 + 0.85 * k / (n - 1)),
                                deep=k % 4 == 1))
    for mode in MODES:
        for deep, threshold in ((False, 128), (True, 128 * 257)):
            some = [it for it in items if (it["slices"][0].dtype == np.uint16) == deep]
            check("%d random stacks, %s, %d bits" % (len(some), mode, 16 if deep else 8),
                  {"membrane": threshold, "mode": mode, "labels": True}, some, 3, DEVICE)


def test_parameters():
    rng = np.random.default_rng(5)
    cells = np.abs(ndimage.gaussian_filter(rng.random((20, 60, 90)), 3) - 0.5) < 0.012
    cells[:, 20:40, 30:60] |= rng.random((20, 20, 30)) < 0.7
    items = [stack_item("a", cells, [0.5, 0.25, 0.125]), stack_item("b", cells[::-1, :, ::-1])]
    for mode in MODES:
        for extra in ({"min_voxels": 5}, {"max_voxels": 4}, {"min_voxels": 2, "max_voxels": 60},
                      {"exclude_border": True},
                      {"min_voxels": 10 ** 9}):
            check("filter %s, %s" % (extra, mode),
                  dict(extra, membrane=128, mode=mode, labels=True), items, 2, DEVICE)
    stack = rng.integers(0, 256, (5, 40, 41)).astype(np.uint8)
    for threshold in (0, 1, 128, 255):
        check("8 bits, membrane %d" % threshold,
              {"membrane": threshold, "mode": "slices", "labels": True},
              [item("n", list(stack))], 1, DEVICE)
    deep = rng.integers(0, 65536, (5, 40, 41)).astype(np.uint16)
    for threshold in (0, 1, 40000, 65535):
        check("16 bits, membrane %d" % threshold, {"membrane": threshold, "mode": "slices"},
              [item("n", list(deep))], 1,
              DEVICE)


def test_repairs():
    rng = np.random.default_rng(9)
    items = []
    for k in range(3):
        m = shell((27, 29, 40), (13, 14, 20), 10, 1 + k)
        items.append(stack_item("h%d" % k, m & (rng.random(m.shape) > 0.06)))
    items.append(stack_item("edge", np.pad(np.zeros((3, 70, 68), bool), 1, constant_values=True)))
    for mode, sigma, threshold in itertools.product(MODES, (0.3, 1.5, 2.2), (40, 97)):
        check("repair with sigma %g, threshold %d, %s" % (sigma, threshold, mode),
              {"membrane": 128, "mode": mode, "repair": {"sigma": sigma, "threshold": threshold},
               "labels": True},
              items, 2, DEVICE)
    check("repair and filter", {"membrane": 128 * 257, "repair": {"sigma": 1.2, "threshold": 60},
                                "min_voxels": 9,
                                "labels": True},
          [stack_item("d", m & (rng.random(m.shape) > 0.1), deep=True)], 2, DEVICE)


def test_gaps():
    """`repair` closes slits and holes up to the size that it reports, and the bias of the volume
    that it reports is the growth of the wall."""
    repair = {"sigma": 1.5, "threshold": 64}
    stated = run({"membrane": 128, "repair": repair}, [stack_item("x", np.zeros((3, 3, 3)))], 1,
                 DEVICE)["repair_gap"]
    tap.ok(stated.shape == (8,) and (np.diff(stated) >= 0).all() and stated[2] >= 2,
           "gaps that are closed: %s" % stated)
    open_by = []
    for wall, gap in enumerate(stated, 1):
        for width in range(1, int(gap) + 1):
            for axes in itertools.permutations(range(3)):
                box = np.zeros((24 + 2 * wall,) * 3, bool)
                box[4:-4, 4:-4, 4:-4] = True
                box[4 + wall:-4 - wall, 4 + wall:-4 - wall, 4 + wall:-4 - wall] = False
                box[:12, 10:10 + width] = False  # a slit across a whole side of the box
                got = run({"membrane": 128, "repair": repair},
                          [stack_item("x", np.transpose(box, axes))], 1, DEVICE)
                if got["cells"][0] != 1:
                    open_by.append((wall, width, axes))
    tap.ok(not open_by, "every slit up to the stated width is closed", open_by)
    rng = np.random.default_rng(2)
    shape, centre = (64, 64, 64), (32, 32, 32)
    grid = np.indices(shape)
    from_centre = np.stack([g - 32 for g in grid])
    for wall, gap in ((2, stated[1]), (3, stated[2]), (4, stated[3])):
        closed, ratios = 0, []
        for _ in range(8):
            membrane = shell(shape, centre, 22, wall)
            for _ in range(6):
                axis = rng.normal(size=3)
                axis /= np.linalg.norm(axis)
                along = np.tensordot(axis, from_centre, 1)
                across = np.sqrt(np.maximum((from_centre ** 2).sum(axis=0) - along ** 2, 0))
                membrane &= ~((along > 0) & (across <= gap / 2))
            got = run({"membrane": 128, "repair": repair}, [stack_item("x", membrane)], 1, DEVICE)
            closed += got["cells"][0] == 1
            true = int((np.sqrt((from_centre ** 2).sum(axis=0)) < 22).sum())
            ratios.append(got["repair_bias_voxels"][0] / max(true - got["inside_voxels"][0], 1))
        tap.ok(closed == 8, "holes %d voxels wide in shells of %d are closed" % (gap, wall), closed)
        tap.ok(all(0.85 < r < 1.15 for r in ratios),
               "the reported bias of the volume is right within 15%", ratios)


def test_real_stacks():
    import tifffile
    folder_ = tap.data("volume")
    if folder_ is None:
        return tap.skip("real stacks", "they are not here")
    for name, levels in (("membrane_raw", (60, 90, 130, 180)), ("neubias_nuclei", (30, 80, 150)),
                         ("stardist_img3d", None)):
        stack = tifffile.imread(os.path.join(folder_, name + ".tif"))
        levels = levels or [int(q) for q in np.quantile(stack, (0.3, 0.6, 0.9))]
        for mode, level in itertools.product(MODES, levels):
            check("%s at %d, %s" % (name, level, mode),
                  {"membrane": level, "mode": mode, "labels": True},
                  [item("s", list(stack))], 2, DEVICE)


def test_tools():
    """texcell-wu: a stack from a TIFF with several pages and from a folder of slices; tables and
    pictures."""
    import tifffile
    from skimage import io
    tools_folder = os.path.join(folder(), "tools")
    os.makedirs(os.path.join(tools_folder, "walls"))
    stack = grey(shell((24, 30, 50), (12, 14, 16), 9, 1.8) | shell((24, 30, 50), (12, 15, 36), 8,
                                                                   1.8))
    tifffile.imwrite(os.path.join(tools_folder, "walls.tif"), stack)
    for z, s in enumerate(stack):
        io.imsave(os.path.join(tools_folder, "walls", "slice%d.png" % z), s, check_contrast=False)
    tables = []
    for source in ("walls.tif", "walls"):
        unit, result, out = (os.path.join(tools_folder, source + e)
                             for e in (".zip", ".npz", ".out"))
        for argv in ([tap.TEXCELL_WU, "pack", "--analysis", "volume", "--param", "membrane=128",
                      "--param", "labels=true",
                      "--spacing", "0.5,0.25,0.25", "--stack", "-o", unit,
                      os.path.join(tools_folder, source)],
                     [tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet"],
                     [tap.TEXCELL_VALIDATE, "check", unit, result],
                     [tap.TEXCELL_WU, "export", result, "--images", unit, "-o", out]):
            ended = tap.run(argv)
            if ended.returncode != 0:
                return tap.ok(False, "%s: %s" % (source, " ".join(argv[:2])), ended.stderr)
        with open(os.path.join(out, "cells.csv")) as f:
            tables.append(f.read())
        with np.load(result) as r:
            labels = r["labels_walls"]
        picture = io.imread(os.path.join(out, "labels_walls.png"))
        colour = (picture.max(axis=2) != picture.min(axis=2)).sum()
        columns = int(np.ceil(np.sqrt(len(labels))))
        scale = -(-300 // (columns * max(labels.shape[1:])))
        tap.ok(labels.max() == 2 and colour == (labels > 0).sum() * scale ** 2 and
               len(tables[-1].splitlines()) == 3,
               "%s: packed, run, valid, exported, two cells in colour" % source,
               "%d coloured, %d inside\n%s" % (colour, (labels > 0).sum(), tables[-1]))
    tap.ok(tables[0].replace("walls.tif", "walls") == tables[1],
           "a folder of slices is the same stack as a TIFF of several pages", tables)


def test_refusals():
    stack = [np.arange(64, dtype=np.uint8).reshape(8, 8)] * 2
    one = [item("p", stack)]

    def check_refused(name, parameters, items, words):
        unit = workunit.write(os.path.join(folder(), "bad.zip"), "volume", parameters, items)
        result = os.path.join(folder(), "bad.npz")
        ended = texcell(unit, result)
        good = (ended.returncode == 2 and not os.path.exists(result) and
                any(l.startswith("texcell: error: ") and all(w in l for w in words)
                    for l in ended.stderr.splitlines()))
        tap.ok(good, "refused: " + name, "exit %d\n%s" % (ended.returncode, ended.stderr))
    check_refused("unknown key", {"membrane": 3, "mod": "3d"}, one, ["unknown key", "mod"])
    check_refused("membrane beyond 8 bits", {"membrane": 256}, one,
                  ["item \"p\"", "membrane", "8 bits"])
    for value in (65536, -1, 1.5, "x", None):
        check_refused("membrane %r" % (value,), {"membrane": value}, one, ["parameters.membrane"])
    for value in ("2d", 3, None):
        check_refused("mode %r" % (value,), {"membrane": 3, "mode": value}, one,
                      ["parameters.mode"])
    for value, word in (({"sigma": 0}, "repair.sigma"), ({"sigma": 9}, "repair.sigma"),
                        ({"threshold": 0}, "repair.threshold"),
                        ({"threshold": 256}, "repair.threshold"), ({"size": 2}, "unknown key"),
                        (3, "repair")):
        check_refused("repair %r" % (value,), {"membrane": 3, "repair": value}, one, [word])
    check_refused("min_voxels 0", {"membrane": 3, "min_voxels": 0}, one, ["parameters.min_voxels"])
    check_refused("max_voxels below min_voxels", {"membrane": 3, "min_voxels": 9, "max_voxels": 8},
                  one,
                  ["max_voxels", "min_voxels"])
    check_refused("labels as a number", {"membrane": 3, "labels": 1}, one, ["parameters.labels"])
    check_refused("a picture", {"membrane": 3}, [item("s", stack[:1])], ["item \"s\"", "picture"])
    check_refused("a mask", {"membrane": 3}, [item("m", stack, [s > 3 for s in stack])],
                  ["item \"m\"", "mask"])
    check_refused("slices of different sizes", {"membrane": 3},
                  [item("m", [stack[0], stack[1][:-1]])],
                  ["bad.zip"])


test_difficult_shapes()
test_known_volumes()
test_bands()
test_random_stacks(100)
test_parameters()
test_repairs()
test_gaps()
test_real_stacks()
if DEVICE == "cpu":
    test_tools()
    test_refusals()
tap.done()
