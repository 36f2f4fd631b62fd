"""Tests the notes about results that are probably useless, such as no cells or a texture of one
grey level: `run` prints a sentence for each such item, with a remedy, and `show` and the page have
it, too; for good results there is no note."""
import html
import json
import os
import re

import numpy as np
import tifffile
from scipy import ndimage, spatial
from skimage import measure

import tap
from oracle import workunit

FOLDER = tap.scratch()
UNIT, OUT = os.path.join(FOLDER, "u.zip"), os.path.join(FOLDER, "r.npz")
FLAT = np.full((30, 40), 200, np.uint8)
EMPTY = FLAT.copy()
EMPTY[0, 0] = 199
SPOTS = FLAT.copy()
SPOTS[5:12, 6:15] = SPOTS[18:25, 20:30] = 40
DEEP = np.full((8, 20, 20), 10, np.uint8)
BALL = DEEP.copy()
BALL[2:6, 5:15, 5:15] = 250
HOLLOW = BALL.copy()
HOLLOW[3:5, 7:13, 7:13] = 10
GLCM = {"levels": [16, 64], "distances": [1, 2], "window": {"radius": 3}}
SLIVER = (np.arange(1200).reshape(30, 40) % 236).astype(np.uint16)
LEVEL_SET = {"target": 180, "epsilon": 50, "iterations": 300, "alpha": 0.1,
             "init": {"type": "box", "x0": 5, "y0": 5, "x1": 20, "y1": 15}}


def run(analysis, parameters, image, *options):
    """Runs a work unit of two equal items "one" and "two". Returns the text on stderr."""
    items = [workunit.item(name, list(image) if image.ndim == 3 else [image])
             for name in ("one", "two")]
    workunit.write(UNIT, analysis, parameters, items)
    if os.path.exists(OUT):
        os.remove(OUT)
    r = tap.run([tap.TEXCELL, "run", UNIT, "-o", OUT, "--device", "cpu", "--threads", "1",
                 *options])
    tap.ok(r.returncode == 0 and os.path.exists(OUT), "%s runs" % analysis, r.stderr)
    return r.stderr


def report():
    """The HTML of the result's page."""
    page = OUT + ".html"
    r = tap.run([tap.TEXCELL_WU, "report", OUT, "-o", page])
    if r.returncode != 0:
        return r.stderr
    with open(page, encoding="utf-8") as f:
        return html.unescape(f.read())


def check_note(name, words, analysis, parameters, image):
    """Tests that the run prints a note with these words for each item, and that `show` and the page
    have it."""
    output = run(analysis, parameters, image)
    lines = [line for line in output.splitlines() if ": note: " in line]
    tap.ok(len(lines) == 2 and all(word in line for line in lines for word in words)
           and lines[0].startswith("texcell: one: ") and lines[1].startswith("texcell: two: "),
           name, output)
    shown_notes = tap.run([tap.TEXCELL_WU, "show",
                           OUT]).stdout.partition("\nnotes\n")[2].splitlines()
    tap.ok(shown_notes ==
           ["    " + line[len("texcell: "):].replace(": note: ", ": ") for line in lines],
           name + ": show prints it, too", shown_notes)
    page = report()
    notes = [line.partition(": note: ")[2] for line in lines]
    tap.ok([page.count(note) for note in notes] == [4, 4] and len(set(notes)) == 1 and
           page.count("<strong>Note:</strong>") == 2 and
           page.count("<strong class=wrong>wrong?</strong>") == 2,
           name + ": the page has it, too, with each item and at its top", page[:3000])
    output = run(analysis, parameters, image, "--quiet")
    tap.ok(output == "", name + ": no note with --quiet", output)


def check_no_note(name, analysis, parameters, image):
    """Tests that there is no note in the run's messages, in `show` and on the page."""
    output = run(analysis, parameters, image)
    tap.ok(": note: " not in output, name, output)
    show_run = tap.run([tap.TEXCELL_WU, "show", OUT])
    tap.ok(show_run.returncode == 0 and "\nnotes" not in show_run.stdout, name +
           ": no note in show",
           show_run.stdout)
    page = report()
    tap.ok("Note:" not in page and "Notes" not in page and "<h2>Pictures</h2>" in page,
           name + ": no note on the page")


def test_cells():
    count = {"threshold": 100}
    check_no_note("cells are found", "cellcount", count, SPOTS)
    check_no_note("by Otsu's threshold", "cellcount", {}, SPOTS)
    check_note("no cells", ["no cells", "polarity"], "cellcount", count, EMPTY)
    check_note("none that are large enough", ["no cells", "min_area"], "cellcount",
               dict(count, min_area=500), SPOTS)
    check_note("everything is a cell", ["whole picture", "polarity=bright"], "cellcount",
               {"threshold": 220}, SPOTS)
    check_note("everything is a cell, with labels", ["whole picture"], "cellcount",
               {"threshold": 220, "labels": True}, SPOTS)
    specks = FLAT.copy()
    specks[2:30:4, 2:40:4] = 40                       # 70 specks of one pixel
    check_note("specks", ["most of the 70 regions have fewer than 9 pixels", "min_area (now 1)",
                          "smooth (now 0)"], "cellcount", count, specks)
    few = np.where(np.arange(40) < 20, specks, FLAT).astype(np.uint8)[:16]
    few[2, 2] = 200
    check_no_note("nineteen specks", "cellcount", count, few)
    tiles = np.kron((np.indices((14, 20)) % 2 == 0).all(axis=0), np.ones((4, 4)))
    tiles = np.where(tiles > 0, 40, 200).astype(np.uint8)                  # squares of 16 pixels
    check_note("cells that min_area cuts through",
               ["have less than twice min_area (now 10)", "a smaller --param min_area"],
               "cellcount",
               dict(count, min_area=10), tiles)
    check_no_note("cells far above min_area", "cellcount", dict(count, min_area=4), tiles)
    check_note("min_area that leaves few cells",
               ["most of the 4 regions have less than twice min_area"],
               "cellcount", dict(count, min_area=10), tiles[:16, :16])
    slope = np.tile(np.arange(40, dtype=np.uint8), (30, 1))
    check_note("half of the picture", ["one region covers most of the picture"], "cellcount",
               {"threshold": 19, "labels": True}, slope)
    check_note("a quarter of it, from edge to edge", ["reaches across it"], "cellcount",
               {"threshold": 29, "polarity": "bright", "labels": True}, slope)
    check_no_note("one large cell", "cellcount", {"threshold": 100},
                  np.where(np.hypot(*np.mgrid[-15:15, -20:20]) < 12, 40, 200).astype(np.uint8))
    specks[0:8] = 200
    for x in range(0, 40, 4):  # as many regions of 9 pixels and more as specks, a line between them
        specks[0:3, x:x + 3] = specks[4:7, x:x + 3] = specks[8:11,
                                                             x:x + 3] = specks[12:15, x:x + 3] = 40
    check_no_note("fewer specks than cells", "cellcount", count, specks)
    check_note("a picture but for a pixel",
               ["one region covers most of the picture", "polarity=bright"],
               "cellcount",
               {"threshold": 220, "labels": True},
               np.where(np.arange(1200).reshape(30, 40) == 7, 255, FLAT).astype(np.uint8))


def test_voting():
    check_note("no points", ["no cells", "--param radius"], "voting", {"radius": 5}, EMPTY)
    check_no_note("points", "voting", {"radius": 5}, SPOTS)


def test_volume():
    check_no_note("a cell in a stack", "volume", {"membrane": 200}, HOLLOW)
    check_note("no membrane", ["no voxel is membrane", "a smaller --param membrane (now 252)"],
               "volume",
               {"membrane": 252}, HOLLOW)
    check_note("all is membrane", ["every voxel is membrane", "a larger --param membrane (now 5)"],
               "volume", {"membrane": 5}, HOLLOW)
    check_note("all cells left out", ["left out by", "min_voxels"], "volume",
               {"membrane": 200, "min_voxels": 5000}, HOLLOW)
    noise = np.random.default_rng(3).integers(50, 90, (12, 40, 40)).astype(np.uint8)
    check_note("a watershed of noise", ["cells have fewer than 27 voxels", "smooth (now 0)",
                                        "min_voxels (now 1)"], "volume", {"method": "watershed"},
               noise)
    hole = HOLLOW.copy()
    hole[3, 9, :8] = 10
    check_note("a gap in the membrane",
               ["connected with the outside", "repair", "method=watershed --param smooth=1.5"],
               "volume",
               {"membrane": 200}, hole)
    specks = np.full((12, 40, 40), 30, np.uint8)
    specks[4:7, 10:13, 10:13] = specks[4:7, 20:23, 20:23] = 250
    specks[5, 11, 11] = specks[5, 21, 21] = 30
    check_note("specks beside leaking walls",
               ["most of the 2 cells have fewer than 27 voxels", "9573 times as many voxels",
                "method=watershed"], "volume", {"membrane": 200}, specks)


def test_levelset():
    spot = np.where(SPOTS == 40, 180, 40).astype(np.uint8)
    check_no_note("a level set that finds a spot", "levelset", LEVEL_SET, spot)
    check_note("one that vanishes", ["vanished", "--param target"], "levelset", LEVEL_SET,
               EMPTY - 199)
    check_note("one that fills everything", ["fills the whole picture", "--param epsilon"],
               "levelset", LEVEL_SET, EMPTY)


def test_one_grey():
    """A picture or stack of one grey value: the run, the tables and the page of its work unit say
    that, and propose no parameter."""
    text = "all pixels have the same grey"
    for analysis, parameters, image in (
            ("cellcount", {"threshold": 100}, FLAT), ("cellcount", {"threshold": 220}, FLAT),
            ("cellcount", {"threshold": 220}, FLAT * np.uint16(9)), ("voting", {"radius": 5}, FLAT),
            ("levelset", LEVEL_SET, FLAT), ("volume", {}, HOLLOW * 0 + 90),
            ("glcm", GLCM, FLAT)):
        name = "one grey value: %s %s: " % (analysis, parameters.get("threshold", ""))
        output = run(analysis, parameters, image)
        lines = [line for line in output.splitlines() if ": note: " in line]
        tap.ok(lines == ["texcell: %s: note: %s" % (item, text) for item in ("one", "two")],
               name + "run", output)
        tables = os.path.join(FOLDER, name.replace(" ", "_"))
        r = tap.run([tap.TEXCELL_WU, "export", OUT, "--marks", UNIT, "-o", tables])
        with open(os.path.join(tables, "items.csv"), encoding="utf-8") as f:
            rows = f.read().splitlines()[1:]
        tap.ok(r.returncode == 0 and [row.endswith(",wrong?," + text) for row in rows] == [True] * 2
               and "noise" not in r.stderr, name + "tables", r.stderr + "\n".join(rows))
        page = OUT + ".html"
        r = tap.run([tap.TEXCELL_WU, "report", OUT, "--images", UNIT, "-o", page])
        with open(page, encoding="utf-8") as f:
            found = html.unescape(f.read())
        tap.ok(r.returncode == 0 and "<strong>Note:</strong> " + text in found and
               "try another --param" not in found, name + "page", r.stderr)


def test_textures():
    check_note("16 bits with few greys", ["one level", "--param range"], "glcm", GLCM, SLIVER)
    check_no_note("packing greys 0 to 235 of 16 bits with a range", "glcm",
                  dict(GLCM, range=[0, 235]), SLIVER)
    check_no_note("the same, spread over each picture's range", "glcm", dict(GLCM, range="image"),
                  SLIVER)
    check_no_note("one number of levels of two tells something", "glcm", dict(GLCM, levels=[2, 64]),
                  np.where(SPOTS == 40, 10, 100).astype(np.uint8))
    # Each window is uniform; windows on the left and on the right have different grey levels.
    halves = FLAT.copy()
    halves[:, :19], halves[:, 19:21] = 0, 100
    mask = np.zeros((30, 40), np.uint8)
    mask[:, 3:15] = mask[:, 25:37] = 1
    workunit.write(UNIT, "glcm", dict(GLCM, roi={"type": "mask"}),
                   [workunit.item("one", [halves], [mask])])
    r = tap.run([tap.TEXCELL, "run", UNIT, "-o", OUT, "--device", "cpu"])
    tap.ok(r.returncode == 0 and ": note: " not in r.stderr,
           "uniform windows of two grey levels", r.stderr)


def test_starts():
    """A start of the level set without an interface: pack refuses it if the parameters show it, and
    run refuses it, too."""
    picture = save("p.png", SPOTS)
    for name, words, init in (
            ("a box that is the picture", "fills the whole picture",
             "{\"type\":\"box\",\"x0\":0,\"y0\":0,\"x1\":40,\"y1\":30}"),
            ("a ball around the picture", "fills the whole picture",
             "{\"type\":\"ball\",\"cx\":19.5,\"cy\":14.5,\"r\":24.4}"),
            ("a ball beside the picture", "no voxel inside",
             "{\"type\":\"ball\",\"cx\":45,\"cy\":10,\"r\":5.9}"),
            ("a ball between the voxels", "no voxel inside",
             "{\"type\":\"ball\",\"cx\":7.5,\"cy\":8.5,\"r\":0.7}"),
            ("a ball but for the corners", None,
             "{\"type\":\"ball\",\"cx\":19.5,\"cy\":14.5,\"r\":24.2}"),
            ("a ball that reaches a voxel", None,
             "{\"type\":\"ball\",\"cx\":45,\"cy\":10,\"r\":6}")):
        if os.path.exists(UNIT):
            os.remove(UNIT)
        r = tap.run([tap.TEXCELL_WU, "pack", "--analysis", "levelset", "--param", "target=180",
                     "--param", "epsilon=50",
                     "--param", "iterations=1", "--param", "init=" + init, "-o", UNIT, picture])
        good = (r.returncode == 0 and os.path.exists(UNIT) if words is None else
                r.returncode == 2 and "p.png" in r.stderr and words in r.stderr and
                not os.path.exists(UNIT))
        tap.ok(good, "packing with " + name, r.stderr)


def save(name, image):
    with open(os.path.join(FOLDER, name), "wb") as f:
        f.write(workunit.png(image))
    return f.name


def check_pack(name, analysis, parameters, image, words, mask=None, bad=False, *options):
    """Tests packing a picture. words: what the only note (the error if `bad`) contains; [] for no
    output."""
    picture = save("q.png", image)
    if os.path.exists(UNIT):
        os.remove(UNIT)
    args = [a for k, v in parameters.items() for a in ("--param", "%s=%s" % (k, json.dumps(v)))]
    if mask is not None:
        args += ["--mask", save("m.png", mask)]
    r = tap.run([tap.TEXCELL_WU, "pack", "--analysis", analysis, *args, *options, "-o", UNIT,
                 picture])
    lines = r.stderr.splitlines()
    good = lines == [] if not words else len(lines) == 1 + ("--skip-bad" in options) and all(
        w in lines[0] for w in words) and "q.png: " in lines[0]
    tap.ok(r.returncode == (2 if bad else 0) and good and os.path.exists(UNIT) != bad, name,
           r.stderr)


def test_pixels():
    """Notes and errors of pack that depend on the pixels."""
    sliver = ["greys are 0 to 235 of 16 bits", "1 of 64 levels", "--param range=image",
              "range=[lo,hi]"]
    check_pack("packing greys 0 to 235 of 16 bits", "glcm", GLCM, SLIVER, sliver)
    check_pack("packing greys 0 to 235 of 16 bits with a range", "glcm", dict(GLCM, range=[0, 235]),
               SLIVER, [])
    check_pack("packing greys 0 to 235 of 16 bits with the picture's range", "glcm",
               dict(GLCM, range="image"), SLIVER, [])
    check_pack("12 bits in 16", "glcm", GLCM, (SLIVER * 17).astype(np.uint16),
               ["0 to 3995", "4 of 64 levels", "range"])
    check_pack("13 bits in 16", "glcm", GLCM, np.minimum(SLIVER * 35, 8191).astype(np.uint16),
               ["8 of 64 levels"])
    check_pack("15 bits in 16", "glcm", GLCM, (SLIVER * 139).astype(np.uint16), [])
    check_pack("a range much wider than the greys", "glcm", dict(GLCM, range=[100, 2000]), SLIVER,
               ["0 to 235", "5 of 64 levels"])
    check_pack("a flat picture, for which no range helps", "glcm", GLCM, FLAT, [])
    check_pack("colours", "glcm", GLCM,
               np.dstack([SLIVER % 9 + 50, SLIVER % 9 + 90, SLIVER % 9 + 40]).astype(np.uint8),
               ["60 to 68 of 8 bits", "range"])
    for top in (1, 255, 65535):
        inside = (SPOTS == 40) * np.uint16(top)
        inside = inside.astype(np.uint8) if top < 256 else inside
        check_pack("textures of a mask of 0 and %d" % top, "glcm", dict(GLCM, range="image"),
                   inside,
                   ["its greys are 0 and %d only, as in a mask" % top, "give this one by --mask"])
        check_pack("cells in a mask of 0 and %d" % top, "cellcount", {}, inside,
                   ["0 to 1 only, as in a mask", "give this one by --mask"] if top == 1 else [])
    inside //= 2
    inside[0, 0] = 7
    check_pack("textures of a picture of three values", "glcm", dict(GLCM, range="image"), inside,
               [])
    for top, bits in ((1023, 10), (4095, 12), (65520, 12), (16383, 14), (65532, 14), (4094, 0),
                      (255, 8), (65535, 16)):
        for n, has_note in ((60, False), (61, bits > 0)):       # of 1200 pixels
            clipped = SLIVER % 200 + (0 if top == 255 else 600)
            clipped[:n // 40] = clipped[n // 40, :n % 40] = top
            clipped = clipped.astype(np.uint8) if top == 255 else clipped
            check_pack("%d pixels of %d" % (n, top), "cellcount", {}, clipped,
                       ["5%% of its pixels have the greatest value of %d bits, %d: " % (bits, top),
                        "overexposed"] if has_note else [])
    check_pack("white in colours", "cellcount", {},
               np.dstack([clipped // 257] * 3).astype(np.uint8), [])
    check_pack("white by --scale", "cellcount", {}, SLIVER.astype(np.uint8),
               ["of its samples lie beyond --scale"], None, False,
               "--scale", "0,220")
    start = dict(target=180, epsilon=50, iterations=1, init={"type": "mask"})
    mask = np.full((30, 40), 255, np.uint8)
    for text, options in (("", []), (", left out", ["--skip-bad"])):
        check_pack("a mask that fills the picture" + text, "levelset", start, SPOTS,
                   ["fills the whole picture"], mask, True, *options)
        check_pack(
                   "a mask without a pixel inside" + text, "levelset", start, SPOTS,
            ["no voxel inside"],
                   mask * 0, True, *options)
    mask[29, 39] = 0
    check_pack("a mask that fills the picture except for a pixel", "levelset", start, SPOTS, [],
               mask)
    check_pack("a mask that fills the picture of a texture", "glcm",
               dict(GLCM, roi={"type": "mask"}),
               SPOTS, ["every pixel is analysed"], mask | 1)
    check_pack("an empty mask of a picture of a texture", "glcm",
               dict(GLCM, roi={"type": "mask"}), SPOTS, ["all values of its mask are 0"], mask * 0)
    workunit.write(os.path.join(FOLDER, "v"), "levelset", start,
                   [workunit.item("one", [SPOTS], [mask | 1])])
    r = tap.run([tap.TEXCELL, "run", "v", "-o", "v.npz", "--device", "cpu", "--quiet"], cwd=FOLDER)
    tap.ok(r.returncode == 2 and r.stderr == 'texcell: error: v: item "one": parameters.init: '
           'fills the whole picture, there is no interface; make it smaller\n',
           "a message begins with the file's name", r.stderr)


def test_metadata():
    """Notes of pack if a file's metadata contradict the command line."""
    picture, times = os.path.join(FOLDER, "cal.tif"), os.path.join(FOLDER, "times.tif")
    tifffile.imwrite(picture, SPOTS, imagej=True, resolution=(2, 2), metadata={"unit": "um"})
    tifffile.imwrite(times, np.stack([SPOTS] * 5), imagej=True, metadata={"axes": "TYX"})

    def pack(*words):
        return tap.run([tap.TEXCELL_WU, "pack", "-o", UNIT, "--analysis", *words])
    r = pack("cellcount", "--spacing", "0.3,0.3", picture)
    tap.ok(r.returncode == 0 and "cal.tif: says that a pixel is 0.5, 0.5 micrometres (y, x), but "
           "--spacing says 0.3, 0.3" in r.stderr,
           "a note about a different calibration", r.stderr)
    description = tap.run([tap.TEXCELL_WU, "show", UNIT]).stdout
    tap.ok("pixel 0.3, 0.3 um" in description and "on one core" in description,
           "--spacing is used; show prints the estimated time", description)
    r = pack("cellcount", "--spacing", "0.5,0.5", picture)
    tap.ok(r.returncode == 0 and r.stderr == "", "no note if the calibration is the same", r.stderr)
    r = pack("volume", "--stack", "--param", "membrane=100", times)
    tap.ok(r.returncode == 0 and "times.tif: says that its pages are a series of times" in r.stderr,
           "a note if points in time are taken as slices", r.stderr)


def test_few_greys():
    """Pictures with few grey levels next to each other get a note from pack and a mark on the page;
    pictures with few levels that are far apart do not."""
    greys, file = (np.digitize(np.arange(1200).reshape(30, 40) % 90, (30, 60)).astype(np.uint16),
                   os.path.join(FOLDER, "few.tif"))
    colours = np.dstack([greys.astype(np.uint8)] * 3)
    for title, analysis, picture, words, has_note in (
            ("16 bits", "cellcount", greys, [], True),
            ("8 bits", "voting", greys.astype(np.uint8), ["--param", "radius=4"], True),
            ("colours", "cellcount", colours, [], True),
            ("a stack", "volume", np.stack([greys] * 4),
             ["--spacing", "1,1,1", "--param", "membrane=1"], True),
            ("spread", "cellcount", greys, ["--scale", "0,2"], False),
            ("three that are apart", "cellcount", greys * 100, [], False),
            ("one", "cellcount", greys * 0, [], False),
            ("enough", "cellcount", greys * 8, [], False)):
        tifffile.imwrite(file, picture, photometric="rgb" if title == "colours" else "minisblack")
        r = tap.run([tap.TEXCELL_WU, "analyse", "--defaults", "--analysis", analysis, *words, "-o",
                     os.path.join(FOLDER, title), file])
        with open(os.path.join(FOLDER, title, "report.html"), encoding="utf-8") as f:
            page = f.read()
        tap.ok(r.returncode == 0 and ("greys are 0 to 2 only" in r.stderr) == has_note and
               ("--scale 0,2 maps" in r.stderr) == has_note,
               "few greys: " + title, r.stderr)
        tap.ok(("<strong class=look>look</strong> <small>its greys are 0 to 2" in page) ==
               (has_note and "class=wrong" not in page),
               "few greys: the page marks the picture", page[-2000:])


def test_few_levels():
    """pack's note about a texture with few grey levels is on the page, too."""
    greys = (np.arange(1200).reshape(30, 40) * 7 % 200).astype(np.uint8)
    names = [os.path.join(FOLDER, "texture%d.tif" % i) for i in range(2)]
    for name, picture in zip(names, (greys, greys // 20)):
        tifffile.imwrite(name, picture)
    r = tap.run([tap.TEXCELL_WU, "analyse", "--analysis", "glcm", "-o",
                 os.path.join(FOLDER, "levels"), *names])
    with open(os.path.join(FOLDER, "levels", "report.html"), encoding="utf-8") as f:
        page = f.read()
    note = "its greys are 0 to 9 of 8 bits"
    tap.ok(r.returncode == 0 and note in r.stderr and page.count(
        "<strong class=look>look</strong> <small>" + note) == page.count("class=look>") == 1,
           "few levels: a note, and a mark on the page", r.stderr)


def share_of_hull(region):
    """The region's area divided by that of its convex hull, by Qhull; the hull is that of the
    midpoints of the pixels' sides."""
    sides = np.array([(.5, 0), (-.5, 0), (0, .5), (0, -.5)])
    return region.area / spatial.ConvexHull((region.coords[:, None] + sides).reshape(-1, 2)).volume


def test_ragged():
    """An image is marked if most of its regions have ragged outlines (they fill less of their
    convex hulls than cells do); a note counts these images."""
    rng = np.random.default_rng(47)
    y, x = np.mgrid[:160, :160]
    pictures = {"discs": ((y % 40 - 20) ** 2 + (x % 40 - 20) ** 2 < 150) * 200.}
    pictures["crosses"] = ((abs(y % 40 - 20) < 4) ^ (abs(x % 40 - 20) < 4)) * (
        abs(y % 40 - 20) + abs(x % 40 - 20) < 16) * 200.
    for sigma in (1.5, 2, 3, 4, 5, 6):
        noise = ndimage.gaussian_filter(rng.normal(0, 1, y.shape), sigma)
        pictures["noise%g" % sigma] = (noise > 1.2 * noise.std()) * 200.
    folder, out = os.path.join(FOLDER, "ragged"), os.path.join(FOLDER, "ragged_out")
    os.mkdir(folder)
    for name, picture in pictures.items():
        tifffile.imwrite(os.path.join(folder, name + ".tif"), picture.astype(np.uint8))
    r = tap.run([tap.TEXCELL_WU, "analyse", "--defaults", "--analysis", "cellcount", "--param",
                 "polarity=bright", "--param", "threshold=100",
                 "--param", "labels=true", "-o", out, folder])
    with open(os.path.join(out, "report.html"), encoding="utf-8") as f:
        rows = re.findall(r"<tr data-image=.*?</tr>", f.read(), re.S)
    marked = sorted(re.search(r">([a-z0-9.]+)</a>", row).group(1) for row in rows
                    if "outlines are ragged" in row)
    expected = []
    with np.load(os.path.join(out, "result.npz")) as npz:
        for name in pictures:
            shares = [share_of_hull(p) for p in measure.regionprops(npz["labels_" + name])]
            if len(shares) >= 8 and 2 * sum(s < .92 for s in shares) > len(shares):
                expected.append(name)
    tap.ok(r.returncode == 0 and marked == sorted(expected) and "crosses" in marked and
           "discs" not in marked and len(marked) < len(pictures) - 1,
           "images with ragged outlines, by Qhull's hulls, are marked",
           (marked, expected, r.stderr))
    tap.ok("note: %d of %d images: most outlines are ragged" %
           (len(marked), len(pictures)) in r.stderr,
           "a note counts images with ragged outlines", r.stderr)


def test_objects():
    """Notes about label pictures that do not label objects: the background has a number, the labels
    are the picture itself, or they are classes of pixels."""
    rng = np.random.default_rng(4)
    for shape in ((48, 60), (10, 48, 60)):
        picture = rng.integers(0, 200, shape, dtype=np.uint8)
        good, tiles = np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)
        for i in range(24):
            box = (..., slice(i // 6 * 12 + 2, i // 6 * 12 + 9),
                   slice(i % 6 * 10 + 1, i % 6 * 10 + 8))
            good[box] = 1 + i
            tiles[..., i // 6 * 12:i // 6 * 12 + 12, i % 6 * 10:i % 6 * 10 + 10] = 1 + i
        good[[0, -1]] *= len(shape) == 2
        packed = ndimage.grey_dilation(good, footprint=np.ones((1,) * (len(shape) - 2) + (4, 3)))
        for name, labels, word in (("good ones", good, None), ("tiles", tiles, None),
                                   ("a numbered background", good + 1, "object 1 is "),
                                   ("one of less than half", packed + 1, "object 1 is "),
                                   ("the picture", picture, "the labels are the picture itself"),
                                   ("another picture", np.roll(picture, 1, -1), "scattered"),
                                   ("classes", 1 + picture // 50, "scattered")):
            deep = len(shape) == 3
            workunit.write(UNIT, "objects", {"families": ["shape", "intensity"]},
                           [workunit.item("one", list(picture) if deep else [picture],
                                          labels=list(labels) if deep else [labels])])
            r = tap.run([tap.TEXCELL, "run", UNIT, "-o", OUT, "--replace", "--device", "cpu"])
            show_output = tap.run([tap.TEXCELL_WU, "show", OUT]).stdout
            tap.ok(r.returncode == 0 and (word in r.stderr and word in show_output if word else
                                          "note" not in r.stderr + show_output),
                   "objects of %d axes, %s" % (len(shape), name), r.stderr + show_output)


def main():
    test_metadata()
    test_objects()
    test_few_greys()
    test_few_levels()
    test_ragged()
    test_cells()
    test_voting()
    test_pixels()
    test_volume()
    test_levelset()
    test_one_grey()
    test_textures()
    test_starts()
    tap.done()


main()
