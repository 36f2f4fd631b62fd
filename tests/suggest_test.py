"""Tests `texcell-wu analyse --suggest` on generated pictures, where the right answer is known, and
on real pictures that were not used to choose its rules. Also scores the counts of blood smears when
nobody sets a parameter: --suggest, and a --sweep around its values, choose the parameters on some
of the pictures, and the others are scored (docs/analyses/cellcount.md).

The rules for voting were chosen on half of the nuclei of six kinds; those for cellcount follow the
advice in cellcount.md (min_area: a third of a cell's area). StarDist's nuclei and the smears were
used for neither."""
import csv
import html
import json
import os
import shlex
import zipfile

import numpy as np
import tifffile
from PIL import Image
from scipy import ndimage

import smears
import tap
import voting_score

FOLDER = tap.scratch()


def path(*names):
    return os.path.join(FOLDER, *names)


def analyse(analysis, out, *args):
    return tap.run([tap.TEXCELL_WU, "analyse", "--analysis", analysis, "-o", path(out), *args])


def parameters(out):
    with zipfile.ZipFile(os.path.join(path(out), "workunit.zip")) as z:
        return json.loads(z.read("job.json"))["parameters"]


def save(name, picture):
    Image.fromarray(picture).save(path(name))
    return path(name)


def test_voting():
    """The suggested radius is 0.8 to 1.4 times the true one, which gives as good results according
    to voting.md."""
    for radius, dark in ((6, False), (12, True), (21, False)):
        picture, centres = voting_score.balls((280, 320), radius, 40, 6, radius, dark=dark)
        r = analyse("voting", "discs", "--suggest", save("d.png", picture))
        p = parameters("discs") if r.returncode == 0 else {}
        tap.ok(p.get("polarity") == ("dark" if dark else "bright") and
               0.8 <= p.get("radius", 0) / radius <= 1.4,
               "%s discs of radius %d" % ("dark" if dark else "bright", radius),
               "%s %s" % (p, r.stderr))
        with np.load(os.path.join(path("discs"), "result.npz")) as z:
            matches = voting_score.matched(z["point"], centres, radius / 2)
        tap.ok(matches >= 0.95 * len(centres), "%d of %d discs are found" % (matches, len(centres)))
    stack, _ = voting_score.balls((40, 140, 140), 7, 60, 5, 3)
    pages = [Image.fromarray(s) for s in stack]
    pages[0].save(path("s.tif"), save_all=True, append_images=pages[1:])
    r = analyse("voting", "stack", "--suggest", "--spacing", "0.5,0.5,0.5", path("s.tif"))
    tap.ok(r.returncode == 0 and 0.7 <= parameters("stack")["radius"] / 3.5 <= 1.4,
           "balls: the suggested radius is in micrometres", r.stderr)
    tap.ok("cubes" not in r.stderr, "balls: no note, as the size of a voxel is known", r.stderr)
    r = analyse("voting", "cubes", path("s.tif"))
    with open(os.path.join(path("cubes"), "items.csv"), encoding="utf-8") as f:
        items_csv = f.read()
    tap.ok(r.returncode == 0 and "cubes" in r.stderr and "look" in items_csv and
           "--spacing" in items_csv,
           "balls, size of a voxel unknown: voxels count as cubes", r.stderr + items_csv)
    for name, options in (("volume", ["--defaults"]),
                          ("objects", ["--labels", path("s_labels.tif")])):
        Image.fromarray(np.uint8(stack[0] > 255)).save(path("s_labels.tif"), save_all=True,
                                                       append_images=[
                                                           Image.fromarray(np.uint8((page > 60) * (
                                                               1 + (np.arange(140) > 70))))
                                                           for page in stack[1:]])
        for spacing_option in ([], ["--spacing", "1,1,1"]):
            r = analyse(name, name + "_cubes", *options, *spacing_option, path("s.tif"))
            with open(os.path.join(path(name + "_cubes"), "items.csv"), encoding="utf-8") as f:
                tap.ok(r.returncode == 0 and ("for cubes" in r.stderr) == (not spacing_option) and
                       # volume's first reason is another one: these are balls, not foam.
                       ("for cubes" in f.read()) == (not spacing_option and name == "objects"),
                       "%s: voxels count as cubes" % name, r.stderr)
    r = analyse("voting", "given", "--suggest", "--param", "radius=9", "--param", "polarity=dark",
                "--param", "foreground=none", save("d.png", picture))
    tap.ok(r.returncode == 0 and parameters("given") == {"radius": 9, "polarity": "dark",
                                                         "foreground": "none"} and
           "nothing that was not given" in r.stderr,
           "given parameters stay", r.stderr)
    r = analyse("voting", "blank", save("blank.png", np.full((60, 60), 9, np.uint8)))
    with np.load(os.path.join(path("blank"), "result.npz")) as z:
        tap.ok(r.returncode == 0 and len(z["point"]) == 0,
               "voting finds no points in a blank picture", r.stderr)
    noise = np.clip(picture + np.random.default_rng(8).normal(0, 25, picture.shape), 0,
                    255).astype(np.uint8)
    r = analyse("voting", "noise", "--param", "floor=0", "--param", "threshold=0",
                save("noise.png", noise))
    with np.load(os.path.join(path("noise"), "result.npz")) as z:
        n_points, matches = len(z["point"]), voting_score.matched(z["point"], centres, 21)
    tap.ok(parameters("noise").get("foreground") == "otsu" and n_points <= 1.3 * len(centres) and
           matches >= 0.8 * len(centres),
           "in noise most points are on discs",
           "%d points, %d of %d discs: %s" % (n_points, matches, len(centres), r.stderr))
    rng = np.random.default_rng(5)
    y, x = np.mgrid[-9:10, -9:10]
    ring, rings, ring_centres = (np.hypot(y, x), np.full((240, 240), 180.0),
                                 [(a, b) for a in range(20, 240, 40) for b in range(20, 240, 40)])
    for a, b in ring_centres:
        rings[a - 9:a + 10, b - 9:b + 10] -= np.where(abs(ring - 6) < 2.5, 80, 0)
    r = analyse("voting", "rings", save("rings.png", np.clip(rings + rng.normal(0, 2, rings.shape),
                                                             0, 255).round().astype(np.uint8)))
    with np.load(path("rings", "result.npz")) as z:
        n_points, matches = len(z["point"]), voting_score.matched(z["point"],
                                                                  np.array(ring_centres), 3)
    tap.ok("foreground" not in parameters("rings") and matches >= 34 and n_points <= 38,
           "cells that are pale in the middle are not left out as background", [r.stderr, matches])
    if tap.data("voting/stardist_img2d.tif") is None:
        tap.skip("nuclei", "the folder of real pictures is absent")
        return
    r = analyse("voting", "nuclei", "--suggest", tap.data("voting/stardist_img2d.tif"))
    truth = voting_score.truth_of("voting/stardist_mask2d_centroids.csv", "yx")
    tolerance = voting_score.largest_radius(
        voting_score.io.imread(tap.data("voting/stardist_mask2d.tif"))) / 2
    with np.load(os.path.join(path("nuclei"), "result.npz")) as z:
        f1 = voting_score.f1(z["point"], truth, tolerance)
    tap.note("125 nuclei: radius %g suggested, F1 %.3f" % (parameters("nuclei")["radius"], f1))
    tap.ok(f1 >= 0.93, "125 nuclei with what is suggested: F1 of at least 0.93",
           "%s %.3f" % (parameters("nuclei"), f1))
    with open(os.path.join(path("nuclei"), "report.html")) as f:
        page = f.read()
    tap.ok("Suggested by the pictures" in page and "Areas of all regions" in page and
           "class=mark" in page, "the page shows the histogram of areas")


def test_touching():
    """Of cells that touch all around the gaps between them, the cells are suggested, not the gaps,
    and gaps are not filled; small cells that lie apart are not taken for gaps."""
    def balls(shape, pitch, radius, jitter):
        """Balls on a grid, every other row of it shifted in pictures, and their number."""
        picture = np.zeros(shape)
        places = [np.array(k) * pitch for k in np.ndindex(*(int(s // pitch) + 2 for s in shape))]
        for at in places:
            if len(shape) == 2:
                at = at * (np.sqrt(3) / 2, 1) + (0, round(at[0] / pitch) % 2 * pitch / 2)
            at = at + rng.normal(0, jitter, len(shape))
            box = tuple(slice(max(int(c - radius - 1), 0), int(c + radius + 2)) for c in at)
            grid = np.indices(picture[box].shape).T + [b.start for b in box] - at
            picture[box][((grid**2).sum(-1) <= radius**2).T] = 150
        return (20 + ndimage.gaussian_filter(picture, 0.7) +
                rng.normal(0, 3, shape)).clip(0, 255).round().astype(np.uint8)

    rng = np.random.default_rng(6)
    for radius, pitch, touch in ((10, 20, True), (6, 12, True), (4, 16, False), (6, 18, False)):
        picture = balls((240, 240), pitch, radius, radius / 10)
        for dark in (False, True):
            name, word = "apart%d_%d_%d" % (radius, pitch, dark), "dark" if dark else "bright"
            save(name + ".png", 255 - picture if dark else picture)
            for analysis in ("voting", "cellcount"):
                r = analyse(analysis, name + analysis, path(name + ".png"))
                p = parameters(name + analysis)
                right = (p.get("fill_holes") == (not touch) if analysis == "cellcount" else
                         0.6 <= p["radius"] / radius <= 1.6)
                tap.ok(r.returncode == 0 and p["polarity"] == word and right,
                       "%s: %s discs of radius %d, %d apart" % (analysis, word, radius, pitch),
                       "%s %s" % (p, r.stderr))
    at = np.indices((77,) * 3) % 11 - 5
    stack = np.pad(((at**2).sum(0) <= 36) * 150.0, 6)
    stack = 20 + ndimage.gaussian_filter(stack, 0.7) + rng.normal(0, 4, (89,) * 3)
    tifffile.imwrite(path("touching.tif"), stack.clip(0, 255).round().astype(np.uint8))
    r = analyse("voting", "touching", "--stack", "--spacing", "1,1,1", path("touching.tif"))
    with np.load(path("touching", "result.npz")) as z:
        found = len(z["point"])
    tap.ok(parameters("touching")["polarity"] == "bright" and found == 343,
           "touching balls in a stack are counted, not the gaps between them",
           "%d %s" % (found, r.stderr))


def test_uneven_light():
    """Light that falls to one side or to the corners: cells are counted, not what is lit. In the
    last picture, the light is even in the part that a look at the picture analyses."""
    rng = np.random.default_rng(17)
    for size, kind, fall, dark, contrast in (
            (400, "side", 0.35, True, 0.45), (512, "side", 0.4, True, 0.2),
            (450, "side", 0.6, False, 0.3), (512, "corners", 0.3, True, 0.2),
            (400, "corners", 0.5, True, 0.35), (512, "corners", 0.65, False, 0.5),
            (1200, "corners", 0.7, True, 0.4)):
        y, x = np.mgrid[:size, :size] / size - 0.5
        light = 1 - fall * (x + 0.5 if kind == "side" else 2 * (x ** 2 + y ** 2))
        cells, pitch = np.zeros((size, size)), size // 6
        for cy in range(pitch // 2, size - pitch // 3, pitch):
            for cx in range(pitch // 2, size - pitch // 3, pitch):
                a, b = np.ogrid[-cy:size - cy, -cx:size - cx]
                cells[((a + rng.uniform(-6, 6)) / 14) ** 2 +
                      ((b + rng.uniform(-6, 6)) / rng.uniform(9, 17)) ** 2 < 1] = 1
        cells = ndimage.gaussian_filter(cells, 0.8)
        picture = (210 * (1 - contrast * cells) if dark else 40 + 200 * contrast * cells) * light
        name = "light_%d_%s_%g" % (size, kind, fall)
        r = analyse("cellcount", name, save(name + ".png", np.clip(
            picture + rng.normal(0, 3, cells.shape), 0, 255).round().astype(np.uint8)))
        with open(path(name, "items.csv"), newline="") as f:
            row = next(csv.DictReader(f))
        p = parameters(name)
        tap.ok(row["count"] == "36" and row["mark"] == "ok" and
               p["polarity"] == ("dark" if dark else "bright"),
               "%s cells in light that falls by %g to the %s, %d pixels" % (
                   "dark" if dark else "bright", fall, kind, size), [row, p, r.stderr])
        if not dark:
            continue
        r = analyse("voting", name + "_voting", path(name + ".png"))
        with open(path(name + "_voting", "items.csv"), newline="") as f:
            row = next(csv.DictReader(f))
        tap.ok(row["count"] == "36" and parameters(name + "_voting")["polarity"] == "dark" and
               ("uneven" in row["why"]) == ("background" in p),
               "the same, voting", [row, r.stderr])


def test_blunt_outline():
    """The lit middle of a picture, as one region, is marked; a large object is not, even if it is
    blurred."""
    rng = np.random.default_rng(3)
    y, x = np.mgrid[:400, :400] - 200
    cells = np.hypot(y % 66 - 33, x % 66 - 33) < 10
    blurred = ndimage.gaussian_filter(1.0 * (np.hypot(y, x) < 120), 9)
    lit = 200 * (1 - 0.4 * cells) * (1 - 0.6 * (y ** 2 + x ** 2) / 80000)
    for name, picture, polarity, threshold, is_marked in (
            ("lit_region", lit, "bright", 170, True),
            ("sharp_region", 60 + 120.0 * (np.hypot(y, 1.2 * x) < 140), "bright", 120, False),
            ("blurred_region", 160 - 90 * blurred, "dark", 115, False)):
        r = analyse("cellcount", name, "--param", "polarity=" + polarity, "--param",
                    "threshold=%d" % threshold, "--param", "split=none", save(name + ".png", (
                        picture + rng.normal(0, 3, x.shape)).clip(0, 255).round().astype(np.uint8)))
        with open(path(name, "items.csv"), newline="") as f:
            row = next(csv.DictReader(f))
        with np.load(path(name, "result.npz")) as z:
            area = z["region_area"].tolist()
        tap.ok(len(area) == 1 and 32000 < area[0] < 80000 and
               row["mark"] == ("wrong?" if is_marked else "ok") and
               ("follows no edge" in row["why"]) == is_marked,
               "one region of a fifth of the picture and more: " + name, [area, row, r.stderr])


def test_cellcount():
    rng = np.random.default_rng(5)
    for dark in (True, False):
        picture, centres = voting_score.balls((300, 300), 11, 50, 8, 4, dark=dark)
        specks = rng.integers(0, 300, (200, 2))
        picture[specks[:, 0], specks[:, 1]] = 60 if dark else 140
        r = analyse("cellcount", "cells", "--suggest", save("c.png", picture))
        p = parameters("cells") if r.returncode == 0 else {}
        area = np.pi * 11 ** 2
        tap.ok(p.get("polarity") == ("dark" if dark else "bright") and
               0.03 * area <= p.get("min_area", 0) <= 0.5 * area
               and p.get("split") == "distance" and p.get("fill_holes") is True,
               "cellcount: the suggestion for %s discs among specks" % p.get("polarity"), "%s %s" %
               (p, r.stderr))
        with np.load(os.path.join(path("cells"), "result.npz")) as z:
            tap.ok(abs(int(z["count"][0]) - len(centres)) <= 1,
                   "cellcount: %d of %d discs are counted" % (z["count"][0], len(centres)))
    with open(os.path.join(path("cells"), "report.html")) as f:
        page = f.read()
    tap.ok("differ" not in page and "greys, and Otsu's threshold" in page and
           "Areas of all regions" in page, "the page shows the histogram and the areas")
    r = analyse("cellcount", "cells", "--suggest", "--param", "min_area=7", "--param",
                "polarity=dark", path("c.png"))
    tap.ok(r.returncode == 0 and parameters("cells")["min_area"] == 7 and
           parameters("cells")["polarity"] == "dark", "given parameters stay", r.stderr)
    small, centres = voting_score.balls((300, 300), 4, 60, 8, 4, dark=dark)
    r = analyse("cellcount", "mixed", "--suggest", path("c.png"), save("small.png", small))
    with np.load(os.path.join(path("mixed"), "result.npz")) as z:
        counts = dict(zip(z["item_names"].tolist(), z["count"].tolist()))
    with open(os.path.join(path("mixed"), "report.html")) as f:
        page = f.read()
    tap.ok(r.returncode == 0 and "pictures that differ" in r.stderr and "in small" in r.stderr and
           "pictures that differ" in page and parameters("mixed")["min_area"] == "auto"
           and abs(counts["small"] - len(centres)) <= 3, "two magnifications: a warning, and the "
           "small cells are not lost", "%s %s" % (counts, r.stderr))
    r = analyse("cellcount", "no_cells", "--suggest",
                save("blank.png", np.full((60, 60), 9, np.uint8)))
    tap.ok(r.returncode == 0 and "differ" not in r.stderr,
           "cellcount counts nothing in a blank picture", r.stderr)
    r = analyse("cellcount", "defaults", "--defaults", path("c.png"))
    tap.ok(r.returncode == 0 and "look" not in r.stderr and parameters("defaults") ==
           {"labels": True}, "--defaults: nothing is suggested", r.stderr)
    r = analyse("cellcount", "both", "--defaults", "--suggest", path("c.png"))
    tap.ok(r.returncode == 1 and "exclude each other" in r.stderr,
           "--defaults and --suggest exclude each other",
           r.stderr)
    r = analyse("cellcount", "window", "--param", "window=31", path("c.png"))
    tap.ok(r.returncode == 0 and parameters("window")["threshold"] == "local",
           "with a given window a local threshold is suggested", r.stderr)
    r = analyse("cellcount", "local", "--param", "threshold=local", path("c.png"))
    with np.load(os.path.join(path("local"), "result.npz")) as z:
        tap.ok(r.returncode == 0 and {"window", "offset_percent"} <= set(parameters("local")) and
               abs(int(z["count"][0]) - 50) <= 1,
               "with a given local threshold its window and offset are suggested",
               "%s %s" % (z["count"], r.stderr))
    test_nuclei_in_cytoplasm()
    test_dishes()
    test_filters()
    test_copied_options()


def test_dishes():
    """Colonies on agar in a dish with a label, whose rim is two bright rings, in uneven light."""
    rng = np.random.default_rng(4)
    y, x = np.indices((1500, 1400))
    distance = np.hypot(y - 750, x - 700)
    picture = np.where(distance < 660, 70 + 20 * x / 1400, 25.0)
    picture[(distance > 640) & (distance < 660) | (distance > 610) & (distance < 616)] = 150
    picture[400:480, 200:215] = picture[400:415, 200:260] = 120
    colonies = []
    while len(colonies) < 70:
        colony = rng.integers(200, 1200, 2)
        if np.hypot(*(colony - (750, 700))) < 560 and all(np.hypot(*(colony - other)) > 30
                                                          for other in colonies):
            colonies.append(colony)
            picture[np.hypot(y - colony[0], x - colony[1]) < rng.integers(8, 11)] = 190
    # As in a photograph: blurred by the optics, with noise.
    file = save("dish.png", (ndimage.gaussian_filter(picture, 1.5) +
                             rng.normal(0, 3, picture.shape)).clip(0, 255).astype(np.uint8))
    r = analyse("cellcount", "dish", file)
    with np.load(os.path.join(path("dish"), "result.npz")) as z:
        matches = voting_score.matched(z["region_centroid"], np.array(colonies), 5)
        tap.ok(r.returncode == 0 and "min_fill" in parameters("dish") and matches >= 67 and
               int(z["count"][0]) <= 75,
               "colonies are counted, and not the dish's rim",
               "%d of 70 among %d: %s %s" % (matches, z["count"][0], parameters("dish"), r.stderr))


def test_mixed_folder():
    """A smear and fluorescent nuclei in one folder: each count is within a tenth of the number that
    people marked (StarDist's authors for the nuclei), and close to the count in a separate
    folder."""
    files = [tap.data("count/chula_1.jpg"), tap.data("voting/stardist_img2d.tif")]
    r = analyse("cellcount", "folder", *files)
    with np.load(os.path.join(path("folder"), "result.npz")) as z:
        counts, windows, areas = z["count"].tolist(), z["window"].tolist(), z["min_area"].tolist()
    tap.ok(r.returncode == 0 and 105 <= counts[0] <= 129 and 112 <= counts[1] <= 138 and
           parameters("folder")["min_area"] == "auto",
           "a smear and nuclei in one folder are counted nearly as in separate folders",
           "%s of 117 and 125, windows %s, min_area %s: %s" %
           (counts, windows, areas, r.stderr))


def test_small_kinds():
    """If min_area leaves out cells of a second, smaller kind, the page says so; dirt of all sizes
    is not reported. Also: volume prints a note for pictures of nuclei."""
    rng = np.random.default_rng(9)
    for name, small, is_reported in (("platelets", rng.uniform(4, 5, 36), True),
                                     ("dirt", rng.uniform(0.5, 2.2, 36), False)):
        picture = np.full((400, 400), 200.0)
        for k, r in enumerate(np.concatenate([rng.uniform(17, 20, 36), small])):
            y, x = 34 + 60 * (k % 36 // 6) + 30 * (k >= 36), 34 + 60 * (k % 6) + 30 * (k >= 36)
            picture -= 90 / (1 + np.exp(np.clip(np.hypot(*np.ogrid[-y:400 - y, -x:400 - x]) - r,
                                                -30, 30)))
        r = analyse("cellcount", name,
                    save(name + ".png", np.clip(picture + rng.normal(0, 2, picture.shape), 0,
                                                255).round().astype(np.uint8)))
        with open(path(name, "items.csv"), newline="") as f:
            row = next(csv.DictReader(f))
        tap.ok(int(row["count"]) == 36 and ("are left out" in row["why"]) ==
               (row["mark"] == "look") == is_reported and
               ("are left out" in r.stderr) == is_reported,
               "small regions in addition to cells: " + name,
               [row, r.stderr])
    stack, _ = voting_score.balls((20, 100, 100), 6, 30, 5, 3)
    tifffile.imwrite(path("balls.tif"), stack)
    r = analyse("volume", "balls", "--stack", "--spacing", "1,1,1", path("balls.tif"))
    tap.ok("voting counts nuclei" in r.stderr, "volume: a note about a stack of nuclei", r.stderr)
    tifffile.imwrite(path("foam.tif"), foam((20, 80, 80), 25, 100, 8, rng)[0])
    r = analyse("volume", "walls", "--stack", "--spacing", "1,1,1", path("foam.tif"))
    tap.ok(r.returncode == 0 and "nuclei" not in r.stderr,
           "volume: no note about a stack of walls", r.stderr)


def test_groups():
    """Files in several folders, in any order, get the same suggestions as in one folder."""
    for i in range(12):
        picture, _ = voting_score.balls((120, 120), 3 + i % 7, 12, 4, i)
        for folder in ("all", "b" if i % 5 < 2 else "a"):
            os.makedirs(path("groups", folder), exist_ok=True)
            Image.fromarray(picture).save(path("groups", folder, "p%d.png" % i))
    r = [analyse("cellcount", "whole", path("groups", "all")),
         analyse("cellcount", "groups_ab", path("groups", "a"), path("groups", "b")),
         analyse("cellcount", "groups_ba", path("groups", "b"), path("groups", "a"))]
    tap.ok(all(x.returncode == 0 for x in r) and parameters("whole") == parameters("groups_ab") ==
           parameters("groups_ba"),
           "sorting pictures into groups does not change what is suggested", [x.stderr for x in r])


def test_glcm():
    """Two pictures of 512 x 512 are analysed fast; the suggested range consists of NumPy's
    quantiles of both."""
    rng = np.random.default_rng(7)
    pictures = [np.clip(rng.normal(mean, 9, (512, 512)), 0, 255).astype(np.uint8)
                for mean in (60, 90)]
    files = [save("texture%d.png" % i, p) for i, p in enumerate(pictures)]
    start = os.times()
    r = analyse("glcm", "texture", *files)
    elapsed = os.times()
    seconds = (elapsed.children_user + elapsed.children_system - start.children_user -
               start.children_system)
    tap.ok(r.returncode == 0 and seconds < 5, "glcm: the suggestion for two pictures of 512 x 512",
           "%.2f s %s" % (seconds, r.stderr))
    p = parameters("texture")
    ends = np.quantile(np.concatenate(pictures), (0.001, 0.999))
    tap.ok(np.abs(ends - p.pop("range")).max() <= 1 and p == {
        "levels": [32], "window": {"shape": "roi"}, "distances": [1, 2, 4], "directions": "four"},
           "glcm: one matrix for each distance and direction, with levels in the pictures' range",
           p)
    with open(os.path.join(path("texture"), "report.html")) as f:
        page = f.read()
    tap.ok("Suggested by the pictures" in page and "glcm_L32_d01_asm_mean" in page,
           "glcm: the page has the features and the reasons")
    r = analyse("glcm", "preset", "--param", "preset=hcc", "--param", "distances=[1]", "--param",
                "levels=[8]", "--param", 'roi={"type":"disc","r":3}',
                files[0])
    tap.ok(r.returncode == 0 and set(parameters("preset")) ==
           {"preset", "distances", "levels", "roi"},
           "glcm: nothing is suggested with a preset", r.stderr)
    few_greys = save("few.png", (rng.integers(0, 2, (64, 64)) * 9 + 40).astype(np.uint8))
    r = analyse("glcm", "few", few_greys)
    tap.ok(r.returncode == 0 and parameters("few")["levels"] == [10] and
           parameters("few")["range"] == [40, 49],
           "glcm: at most as many levels as greys are suggested", r.stderr)
    r = analyse("glcm", "flat", save("flat.png", np.full((60, 60), 9, np.uint8)))
    tap.ok(r.returncode == 0 and "all pixels have the same grey" in r.stderr,
           "glcm: a picture of one grey value gets a note", r.stderr)


def foam(shape, seeds, contrast, noise, rng):
    """A stack of the walls, which have gaps, between the Voronoi cells of the seeds; and the label
    of the cell at each voxel."""
    positions = rng.random((seeds, 3)) * shape
    distance = np.sqrt(((np.indices(shape)[..., None] - positions.T[:, None, None,
                                                                    None]) ** 2).sum(0))
    two = np.partition(distance, 1, -1)
    walls = (two[..., 1] - two[..., 0] <
             3) * np.where(ndimage.gaussian_filter(rng.normal(size=shape), 4) > 0.01, 0.3, 1)
    grey = 30 + contrast * ndimage.gaussian_filter(walls, 1) + rng.normal(0, noise, shape)
    return np.clip(grey, 0, 255).astype(np.uint8), distance.argmin(-1) + 1


def test_volume():
    """Cells within leaky walls: a cell counts as found if the intersection with its true region is
    more than half of the union."""
    rng = np.random.default_rng(11)
    for name, contrast, noise in (("quiet", 150, 6), ("noisy", 60, 20)):
        stack, truth = foam((32, 72, 72), 20, contrast, noise, rng)
        tifffile.imwrite(path("foam.tif"), stack)
        r = analyse("volume", name, path("foam.tif"))
        with np.load(os.path.join(path(name), "result.npz")) as z:
            n_found, n = cells_found(z["labels_foam"], truth)
        p = parameters(name)
        tap.ok(p["method"] == "watershed" and p["smooth"] == (1.5 if name == "quiet" else 2) and
               2 * n_found / (n + 20) >= 0.8,
               "volume: %s walls with gaps: F1 of at least 0.8" % name,
               "%d of %d cells, of 20: %s %s" % (n_found, n, p, r.stderr))
    for noise, has_note in ((6, False), (16, True)):
        tifffile.imwrite(path("foam.tif"),
                         foam((32, 72, 72), 20, 80, noise, np.random.default_rng(30))[0])
        r = analyse("volume", "told%d" % noise, path("foam.tif"))
        tap.ok(r.returncode == 0 and ("number of cells depends on h" in r.stderr) == has_note,
               "volume: noise of %d: the note that the number of cells depends on h" % noise,
               r.stderr)
    r = analyse("volume", "tight", "--param", "method=threshold", path("foam.tif"))
    tap.ok(r.returncode == 0 and set(parameters("tight")) == {"method", "labels"},
           "volume: a given threshold stays", r.stderr)


def test_levelset():
    """Pictures of different exposures: what is suggested suits the grey values of each, by Dice's
    coefficient with the true discs."""
    rng = np.random.default_rng(13)
    grid = np.indices((120, 140))
    truth = np.any([np.hypot(grid[0] - y, grid[1] - x) < 14
                    for y, x in ((30, 30), (40, 100), (85, 60))], 0)
    files = [save("exposed%d.png" % i,
                  np.clip(level + truth * contrast + rng.normal(0, contrast / 6, truth.shape), 0,
                          255).astype(np.uint8))
             for i, (level, contrast) in enumerate(((10, 40), (60, 150)))]
    r = analyse("levelset", "exposures", *files)
    tap.ok(r.returncode == 0 and parameters("exposures")["target"] == "otsu" and
           parameters("exposures")["init"] == {"type": "otsu"},
           "levelset: the suggestion has no coordinates and no grey values", r.stderr)
    with np.load(os.path.join(path("exposures"), "result.npz")) as z:
        masks = [z["mask_exposed%d" % i] > 0 for i in range(2)]
    dice = [2 * (m & truth).sum() / (m.sum() + truth.sum()) for m in masks]
    tap.ok(min(dice) > 0.97, "levelset: two exposures: a Dice of at least 0.97", dice)
    blurred = 60 + 150 * ndimage.gaussian_filter(truth * 1.0, 3) + rng.normal(0, 5, truth.shape)
    r = analyse("levelset", "blurred", save("blurred.png", blurred.round().astype(np.uint8)))
    with np.load(os.path.join(path("blurred"), "result.npz")) as z:
        ended, mask = z["converged"].tolist(), z["mask_blurred"] > 0
    dice = 2 * (mask & truth).sum() / (mask.sum() + truth.sum())
    tap.ok(ended == [True] and dice > 0.97, "levelset: the outline of blurred discs comes to rest",
           (ended, dice))
    for dark in (False, True):  # the structure is more than half of the picture
        large = np.hypot(grid[0] - 60, (grid[1] - 70) / 1.15) < 57
        picture = 90 + 80 * (large ^ dark) + rng.normal(0, 5, large.shape)
        r = analyse("levelset", "large", save("large.png", picture.round().astype(np.uint8)))
        with np.load(path("large", "result.npz")) as z:
            mask = z["mask_large"] > 0
        dice = 2 * (mask & large).sum() / (mask.sum() + large.sum())
        tap.ok(large.mean() > 0.6 and dice > 0.97,
               "levelset: a %s structure, not the frame around it" % ("dark" if dark else "bright"),
               [dice, parameters("large"), r.stderr])
    r = analyse("levelset", "one grey", save("flat.png", np.full((60, 60), 9, np.uint8)))
    tap.ok(r.returncode == 2 and "one grey value" in r.stderr,
           "levelset: a picture of one grey value is refused", r.stderr)


def cells_found(labels, truth):
    pairs, common = np.unique(np.stack([labels.ravel(), truth.ravel()]), axis=1, return_counts=True)
    label, true_label = np.bincount(labels.ravel()), np.bincount(truth.ravel())
    good = (pairs[0] > 0) & (2 * common > label[pairs[0]] + true_label[pairs[1]] - common)
    return int(good.sum()), int(labels.max())


def test_nuclei_in_cytoplasm():
    """Pictures with four classes of grey (nuclei in cytoplasm) in a frame; bright on dark and dark
    on bright in one folder."""
    rng = np.random.default_rng(8)
    y, x = np.indices((400, 400))
    picture = np.full((400, 400), 220.0)
    places = [(yy, xx) for yy in range(50, 400, 100) for xx in range(50, 400, 100)]
    for cy, cx in places:
        picture[(y - cy) ** 2 + (x - cx) ** 2 < 42 ** 2] = rng.integers(150, 185)
        picture[(y - cy) ** 2 + (x - cx) ** 2 < 9 ** 2] = 70
    r = analyse("cellcount", "inner",
                save("inner.png",
                     (picture + rng.normal(0, 3, picture.shape)).clip(0, 255).astype(np.uint8)))
    with np.load(os.path.join(path("inner"), "result.npz")) as z:
        count, area = int(z["count"][0]), float(np.median(z["region_area"]))
    tap.ok(r.returncode == 0 and parameters("inner").get("classes") == 4 and
           abs(count - len(places)) <= 1 and 200 <= area <= 300
           and "classes=2" in r.stderr and "threshold=local" in r.stderr,
           "nuclei in cytoplasm: a note on how to count the cells",
           "%d of %d, area %g, %s" % (count, len(places), area, r.stderr))
    dark, centres = voting_score.balls((300, 300), 11, 40, 8, 4, dark=True)
    bright, truth = voting_score.balls((300, 300), 11, 45, 8, 4)
    r = analyse("cellcount", "both", save("dark.png", dark), save("bright.png", bright))
    with np.load(os.path.join(path("both"), "result.npz")) as z:
        counts = dict(zip(z["item_names"].tolist(), z["count"].tolist()))
        sides = dict(zip(z["item_names"].tolist(), z["bright"].tolist()))
    tap.ok(r.returncode == 0 and parameters("both")["polarity"] == "auto" and
           sides == {"dark": False, "bright": True}
           and abs(counts["dark"] - len(centres)) <= 2 and abs(counts["bright"] - len(truth)) <= 2,
           "dark and bright cells in one folder are all counted",
           "%s of %d and %d, %s" % (counts, len(centres), len(truth), r.stderr))
    frame = np.pad(np.pad(bright, 30, constant_values=255), 20, constant_values=20)
    r = analyse("cellcount", "frame", "--defaults", "--param", "polarity=bright", "--param",
                "fill_holes=true", save("frame.png", frame))
    with open(os.path.join(path("frame"), "report.html")) as f:
        page = f.read()
    tap.ok(r.returncode == 0 and "covers most of the picture" in page,
           "a frame around the field of view is noted", r.stderr)


FILTERS = ("exclude_border=true", "max_area=3000", "min_area=200", "min_fill=0.6", "max_aspect=2",
           'min_contrast={"full_area":100,"percent":30}')


def suggestion_for(picture, *given, analysis="cellcount"):
    """The parameters that --suggest prints in addition to the given ones."""
    words = [word for param in given for word in ("--param", param)]
    r = tap.run([tap.TEXCELL_WU, "pack", "--analysis", analysis, "--suggest", "-o",
                 path("looked.zip"), *words, picture])
    if r.returncode != 0:
        return {"failed": r.stderr}
    return dict(shlex.split(s)[1].split("=", 1) for s in r.stderr.splitlines()
                if s.startswith("    --param "))


def test_filters():
    """A given parameter that only removes regions (min_area and the like) does not change the other
    suggestions: the pixels of removed regions do not count as background."""
    real = ("count/chula_1.jpg", "count/coins.png", "voting/stardist_img2d.tif",
            "nuclei/he256/79fe419488.png")
    pictures = [save("dark.png", voting_score.balls((300, 300), 11, 40, 8, 4, dark=True)[0]),
                save("bright.png", voting_score.balls((300, 300), 11, 45, 8, 4)[0])]
    for picture in pictures + [tap.data(name) for name in real if tap.data(name) is not None]:
        without_filters = suggestion_for(picture)
        with_filters = {f: suggestion_for(picture, f) for f in FILTERS}
        with_filters["all"] = suggestion_for(picture, *FILTERS)
        wrong = {f: got for f, got in with_filters.items()
                 if got != {k: v for k, v in without_filters.items() if k != f.split("=")[0] and
                            (f != "all" or k not in ("min_area", "min_contrast"))}}
        tap.ok(without_filters.get("polarity") in ("dark", "bright") and not wrong,
               "%s: no filter changes "
               "a suggestion" % os.path.basename(picture), "%s, not %s" % (wrong, without_filters))
    os.makedirs(path("two"), exist_ok=True)
    Image.fromarray(voting_score.balls((300, 300), 5, 60, 8, 4)[0]).save(path("two", "small.png"))
    Image.fromarray(voting_score.balls((300, 300), 15, 20, 8, 4)[0]).save(path("two", "large.png"))
    tifffile.imwrite(path("walls.tif"), foam((20, 50, 50), 12, 150, 6, np.random.default_rng(2))[0])
    for analysis, picture, option in (("voting", path("two"), "own_radius=true"),
                                      ("voting", path("two"), "threshold=0.4"),
                                      ("voting", pictures[0], "floor=0"),
                                      ("volume", path("walls.tif"), "exclude_border=true"),
                                      ("volume", path("walls.tif"), "min_voxels=300"),
                                      ("levelset", pictures[1], "iterations=9"),
                                      ("glcm", pictures[1], "distances=[3]")):
        key = option.split("=")[0]
        without_filters = suggestion_for(picture, analysis=analysis)
        got = suggestion_for(picture, option, analysis=analysis)
        tap.ok(without_filters.keys() - {"failed", key} and
               got == {k: v for k, v in without_filters.items() if k != key},
               "%s: %s changes no other suggestion" % (analysis, option), (without_filters, got))
    tap.ok(suggestion_for(pictures[1], "range=[40,49]", analysis="glcm").get("levels") == "[10]",
           "glcm: the suggested levels fit the given range")
    tiny = suggestion_for(pictures[0], "max_area=3")
    tap.ok("failed" not in tiny, "a max_area below all cells is accepted", tiny)


def test_copied_options():
    """The suggestion, as printed by analyse, on the page and by `show`, can be copied to a command
    line and has the values in the work unit."""
    background = '{"method":"mean","by":"ratio"}'
    r = analyse("cellcount", "one", "--param", "background=" + background, path("c.png"))
    show_run = tap.run([tap.TEXCELL_WU, "show", os.path.join(path("one"), "workunit.zip")])
    line = next((s for s in show_run.stdout.splitlines() if s.startswith("as options")), "")
    second_run = analyse("cellcount", "two", "--defaults", *shlex.split(line)[2:], path("c.png"))
    tap.ok(r.returncode == second_run.returncode == 0 and parameters("one") == parameters("two")
           and parameters("one")["background"] == json.loads(background),
           "`show` prints the work unit's parameters as options", line)
    lines = [s.strip() for s in r.stderr.splitlines() if s.startswith("    --param ")]
    with open(os.path.join(path("one"), "report.html")) as f:
        page = html.unescape(f.read())
    tap.ok(len(lines) >= 4 and all(s in page and s in line for s in lines),
           "analyse and the page give the same options, one a line", r.stderr)


def test_errors():
    """A wrong command line gets the same message as without --suggest."""
    floats, texture = (path("floats.tif"), save(
        "texture.png", np.random.default_rng(4).integers(0, 256, (64, 64)).astype(np.uint8)))
    Image.fromarray(np.linspace(0, 1, 4096, dtype=np.float32).reshape(64, 64)).save(floats)
    with open(path("Notes.docx"), "wb") as f:
        f.write(b"PK\3\4")
    for analysis, words, args in (("cellcount", "floating-point samples", [floats]),
                                  ("cellcount", "Notes.docx: is a ZIP archive",
                                   [path("Notes.docx")]),
                                  ("cellcount", "floating-point samples",
                                   ["--param", "min_area=10um2", "--skip-bad", floats]),
                                  ("glcm", 'not "roughness"',
                                   ["--param", 'features=["roughness"]', texture]),
                                  ("glcm", "maps[0]: must be an object",
                                   ["--param", 'maps=["contrast"]', texture])):
        r = analyse(analysis, "refused", *args)
        tap.ok(r.returncode == 2 and words in r.stderr and not os.path.exists(path("refused")),
               "refused: " + words, r.stderr)


def test_masks():
    """A mask given as a label picture is one object: there is a note if it has a single value or
    separate pieces."""
    y, x = np.indices((64, 64))
    pieces = (((y // 8 + x // 8) % 2 == 0) & (y % 8 < 6) & (x % 8 < 6)).astype(np.uint8)
    half = (y > 31).astype(np.uint8)
    for title, labels, notes in (("255", half * 255, True), ("pieces", pieces, True),
                                 ("one object", half, False), ("two objects", half + 1, False)):
        r = analyse("objects", "mask_" + title[:3], "--labels", save("labels.png", labels),
                    path("texture.png"))
        tap.ok(r.returncode == 0 and ("as in a mask" in r.stderr) == notes,
               "a mask as label picture: " + title, r.stderr)


def main():
    test_errors()
    test_masks()
    test_voting()
    test_touching()
    test_small_kinds()
    test_cellcount()
    test_uneven_light()
    test_blunt_outline()
    test_groups()
    test_glcm()
    test_volume()
    test_levelset()
    if tap.data("count/chula_1.jpg") is None:
        tap.skip("smears", "the folder of real pictures is absent")
    else:
        test_mixed_folder()
        one = smears.person(*smears.SPLITS[0], light=False)
        tap.note("smears: %s" % one)
        tap.ok(one["suggested"]["scored"] >= 0.93 and one["sizes"]["scored"] >= 0.93,
               "smears: parameters chosen on two give an F1 of at least 0.93 on the third", one)
    tap.done()


main()
