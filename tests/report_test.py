"""Tests texcell-wu report and analyse. In a browser (Chromium) at three widths: sorting, layers,
and rows linked with outlines. Without one: outlines enclose each region's area, names that contain
markup are escaped, the page loads nothing from elsewhere, a page of 200 items, marks of doubtful
images, and an interrupted analysis that continues."""
import base64
import csv
import decimal
import fcntl
import filecmp
import hashlib
import html
import html.parser
import json
import math
import os
import re
import shutil
import signal
import subprocess
import time
import zlib

import numpy as np
from PIL import Image
from scipy import ndimage

import tap
from oracle import workunit

FOLDER = tap.scratch()
CHROMIUM = shutil.which("chromium")
RNG = np.random.default_rng(7)


def path(*parts):
    return os.path.join(FOLDER, *parts)


def make_page(analysis, parameters, items, name):
    """Writes a work unit, computes its result and writes its report. Returns the paths of page and
    result."""
    unit, result, page = path(name + ".zip"), path(name + ".npz"), path(name + ".html")
    workunit.write(unit, analysis, parameters, items)
    r = tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet"])
    if r.returncode == 0:
        r = tap.run([tap.TEXCELL_WU, "report", result, "--images", unit, "-o", page])
    tap.ok(r.returncode == 0 and os.path.exists(page), "%s: report writes a page" % name, r.stderr)
    return page, result


def text_of(page):
    with open(page, encoding="utf-8") as f:
        return f.read()


def digest(script):
    """The SHA-256 of a script in base64, as in a Content-Security-Policy."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def in_browser(page, script, width=1200):
    """Runs a JavaScript function body in the page after it has loaded, and returns its result."""
    probe = page[:-5] + "_probe.html"
    probe_script = ("addEventListener('load', () => setTimeout(() => {"
                    "let said; try { said = (() => {%s})(); } catch (e) { said = 'threw ' + e; }"
                    "const out = document.createElement('pre'); out.id = 'probe'; out.textContent "
                    "= "
                    "JSON.stringify(said);document.body.append(out); "
                    "parent.postMessage(out.textContent, '*'); }, 0));" % script)
    # The page's policy allows only its own script: allow this one, too.
    policy_with_probe = "script-src 'sha256-%s' " % digest(probe_script)
    with open(probe, "w", encoding="utf-8") as f:
        f.write(text_of(page).replace("script-src ", policy_with_probe, 1) + "<script>%s</script>" %
                probe_script)
    options = []
    if width < 500:         # Chromium has no window as narrow: show the page in a frame
        inner, probe, options = probe, page[:-5] + "_frame.html", ["--virtual-time-budget=3000"]
        with open(probe, "w", encoding="utf-8") as f:
            f.write("<iframe width=%d height=900 style='border: 0' src='%s'></iframe><pre "
                    "id=probe></pre><script>addEventListener('message', e => { "
                    "document.getElementById('probe').textContent = e.data; });</script>" %
                    (width, os.path.basename(inner)))
    r = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
                        "--disable-extensions",
                        "--user-data-dir=" + path("profile"), "--window-size=%d,900" % width,
                        "--timeout=60000", *options,
                        "--dump-dom", "file://" + probe],
                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=120, check=False)
    match = re.search(r'<pre id="probe">(.+?)</pre>', r.stdout.decode("utf-8", "replace"), re.S)
    return json.loads(html.unescape(match.group(1))) if match else None


# --- without a browser -----------------------------------------------------------------------


def spots(shape, n, rng=RNG):
    """A picture with n bright discs of random radii at random places."""
    image = np.full(shape, 40, np.uint8)
    yy, xx = np.mgrid[:shape[0], :shape[1]]
    for _ in range(n):
        y, x, r = rng.integers(0, shape[0]), rng.integers(0, shape[1]), rng.integers(2, 7)
        image[(yy - y) ** 2 + (xx - x) ** 2 <= r * r] = 200
    return image


def test_drawings():
    """An image with a scale bar, a hot pixel, a frame around the field of view, or analysed with an
    unsuitable radius is marked, with the remedy; the clean image is not."""
    rng = np.random.default_rng(12)
    clean = ndimage.gaussian_filter(spots((240, 320), 25, rng).astype(float), 1)
    clean = np.clip(np.minimum(clean, 160) + rng.normal(0, 2, clean.shape), 4,
                    200).round().astype(np.uint8)
    bar, specks, framed_picture = clean.copy(), clean.copy(), np.zeros((280, 360), np.uint8)
    bar[220:225, 230:300] = 255
    ys, xs = np.nonzero(ndimage.binary_erosion(clean > 130, iterations=2))
    specks[ys[::20], xs[::20]] = specks[ys[::20], xs[::20] + 1] = 0
    framed_picture[20:260, 20:340] = 255 - clean
    hot = clean.astype(np.uint16) * 16
    away = ndimage.distance_transform_edt(clean < 60)
    hot[np.unravel_index(np.argmax(away), away.shape)] = 65535
    photons = rng.poisson(clean / 16.0).astype(np.uint8)  # in cells 10, else 2.5
    cut_cells = np.full(clean.shape, 40.0)
    for k in range(12):
        cut_cells[:8, 20 + 24 * k:30 + 24 * k] = 160
        cut_cells[60:70, 20 + 24 * k:30 + 24 * k] = 160 if k < 9 else 40
    cut_cells = np.clip(ndimage.gaussian_filter(cut_cells, 1) + rng.normal(0, 2, cut_cells.shape),
                        4,
                        200).round().astype(np.uint8)
    for name, analysis, picture, parameters, mark, words in (
            ("clean", "cellcount", clean, ["smooth=1"], "ok", ""),
            ("points", "voting", clean, ["radius=7"], "ok", ""),
            ("bar", "cellcount", bar, ["smooth=1"], "look", "a single pixel"),
            ("wide", "voting", clean, ["radius=60"], "look", "--param radius"),
            ("framed", "voting", framed_picture, ["radius=60"], "wrong?", "crop"),
            ("taken", "voting", framed_picture, ["radius=7", "polarity=dark"], "look",
             "--param polarity=bright"),
            ("print", "cellcount", 255 - bar, ["smooth=1", "polarity=dark"], "look",
             "a single pixel"), ("specks", "cellcount", specks, ["smooth=1"], "ok", ""),
            ("hot", "cellcount", hot, ["smooth=1", "threshold=1500"], "look",
             "against hot pixels try a larger --param min_area"),
            ("photons", "cellcount", photons, ["smooth=2", "min_area=20"], "ok", ""),
            ("cut", "cellcount", cut_cells, ["smooth=1"], "look",
             "the count holds; for sizes alone try --param exclude_border=true"),
            ("field", "cellcount", framed_picture, ["fill_holes=true"], "wrong?", "crop")):
        Image.fromarray(picture).save(path(name + ".png"))
        options = [word for one in parameters for word in ("--param", one)]
        r = tap.run([tap.TEXCELL_WU, "analyse", "--analysis", analysis, "--defaults", "--param",
                     "polarity=bright", *options,
                     "-o", path("drawn_" + name), path(name + ".png")])
        with open(os.path.join(path("drawn_" + name), "items.csv"), newline="") as f:
            row = next(csv.DictReader(f))
        tap.ok(r.returncode == 0 and row["mark"] == mark and words in row["why"],
               "%s: the page has %s" % (name, mark), row)


def test_label_pictures():
    """Label pictures, as scipy.ndimage.label makes them, are marked; masks and smooth pictures are
    not."""
    rng = np.random.default_rng(13)
    blobs = np.where(spots((240, 320), 25, rng) == 200, 200, 0).astype(np.uint8)
    numbers, n = ndimage.label(blobs)
    pictures = {"eight": (numbers.astype(np.uint8), "wrong?"),
                "spread": (numbers.astype(np.uint16) * 97, "wrong?"), "mask": (blobs, ""),
                "few": (np.where(numbers < 5, numbers, 0).astype(np.uint8), "wrong?"),
                "smooth": (ndimage.gaussian_filter(blobs.astype(float), 3).astype(np.uint8), ""),
                "one": (ndimage.gaussian_filter(np.pad([[1e6]], 99), 20).astype(np.uint8), "")}
    for name, (picture, mark) in pictures.items():
        Image.fromarray(picture).save(path(name + ".png"))
        for analysis in ("cellcount", "voting"):
            r = tap.run([tap.TEXCELL_WU, "analyse", "--analysis", analysis, "--param",
                         "min_area=1" if analysis == "cellcount" else "radius=4",
                         "-o", path(analysis + name), path(name + ".png")])
            with open(os.path.join(path(analysis + name), "items.csv"), newline="") as f:
                row = next(csv.DictReader(f))
            tap.ok(r.returncode == 0 and ("looks like a label picture" in row["why"]) ==
                   (mark != "") and row["mark"].startswith(mark),
                   "%s, %d labels of %s: %s" % (analysis, n, name, row["mark"]), row)


def test_label_runs():
    """The page is the same with the file of label runs that `run --label-runs` writes (number of
    pixels and label of each run), without the file, and with a damaged one."""
    page, result = make_page("cellcount", {"threshold": 100, "polarity": "bright", "labels": True},
                             [workunit.item("p", [spots((300, 500), 40)])], "runs")
    unit, runs, original_page = path("runs.zip"), result + ".labels", text_of(page)
    r = tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet",
                 "--label-runs"])
    with open(runs, "rb") as f:
        whole = f.read()
    with np.load(result) as arrays:
        labels = arrays["labels_p"].ravel()
    n, values = np.frombuffer(whole, "<u4", offset=20).reshape(-1, 2).T
    tap.ok(r.returncode == 0 and np.array_equal(np.repeat(values, n), labels) and
           np.all(np.diff(values.astype(int))), "run --label-runs writes the runs of the labels")
    zero_runs = bytes(np.stack([n, 0 * n], 1).astype("<u4"))
    zero_runs_file = whole[:16] + np.uint32(zlib.crc32(zero_runs)).tobytes() + zero_runs
    for name, data, same in (("whole", whole, True), ("cut", whole[:-9], True),
                             ("damaged", whole[:-1] + b"x", True),
                             ("of another", whole[:4] + b"abcd" + whole[8:], True),
                             ("empty", b"", True), ("other ones", zero_runs_file, False)):
        with open(runs, "wb") as f:
            f.write(data)
        r = tap.run([tap.TEXCELL_WU, "report", result, "--images", unit, "-o", page])
        tap.ok(r.returncode == 0 and (text_of(page) == original_page) == same,
               "whether the page is the same with this file of label runs: " + name, r.stderr)


def test_size_notes():
    """A note is printed if the areas of small cells are far larger than at half of the contrast."""
    for name, radius, args, has_note in (("small", 5, [], True), ("medium", 10, [], True),
                                         ("large", 20, [], False),
                                         ("small_otsu", 5, ["threshold=otsu", "smooth=0"], False)):
        y, x = np.mgrid[:30 * radius, :30 * radius] % (5 * radius) - 2.5 * radius + 0.5
        picture = ndimage.gaussian_filter(180.0 * (np.hypot(y, x) <= radius), 1)
        out = path("sizes_" + name)
        Image.fromarray((picture + RNG.normal(20, 2, picture.shape)).clip(0, 255)
                        .astype(np.uint8)).save(path("sizes_%s.png" % name))
        r = tap.run([tap.TEXCELL_WU, "analyse", "--analysis", "cellcount", "--device", "cpu", "-o",
                     out, path("sizes_%s.png" % name)] +
                    [a for value in args for a in ("--param", value)])
        with open(os.path.join(out, "regions.csv"), newline="") as f:
            areas = [int(row["area"]) for row in csv.DictReader(f)]
        excess = np.median(areas) / (math.pi * radius**2) - 1
        note = re.search(r"note: areas are ([0-9]+)% larger \(median\)", r.stderr)
        tap.ok(r.returncode == 0 and len(areas) == 36 and (note is not None) == has_note and
               (not has_note or abs(int(note.group(1)) / 100 - excess) < 0.1) and
               ("larger (median)" in text_of(os.path.join(out, "report.html"))) == has_note,
               "the note about the areas of cells of radius %d: %s"
               % (radius, name), "%s %s" % (excess, r.stderr))


def test_dim_cells():
    """An image with cells too dim to be counted, next to bright ones, is marked; one with dirt
    smaller than min_area, with a mask, or with a given threshold is not."""
    y, x = np.mgrid[:400, :400]
    bright, dim, dirt = np.zeros((3, 400, 400))
    for i in range(36):
        distance = np.hypot(y - 40 - 60 * (i // 6), x - 40 - 60 * (i % 6))
        (bright if (i // 6 + i) % 2 else dim)[distance < 15] = 1
        dirt[np.hypot(y - 70 - 60 * (i // 6), x - 70 - 60 * (i % 6)) < 4] = 1
    noise = RNG.normal(20, 3, bright.shape)
    kinds = {"both": (200 * bright + 25 * dim, [], "look"),
             "lower": (200 * bright + 25 * dim, ["--param", "offset_percent=5"], "ok"),
             "fixed": (200 * bright + 25 * dim, ["--param", "threshold=100"], "ok"),
             "inverse": (200 - 200 * bright - 25 * dim, [], "look"),
             "masked": (200 * bright + 25 * dim, ["--mask", path("inside.png")], "ok"),
             "dirty": (200 * bright + 60 * dirt, ["--param", "min_area=200"], "ok"),
             "alone": (200 * bright, [], "ok")}
    wide = ndimage.binary_dilation(bright > 0, iterations=8)
    Image.fromarray(255 * wide.astype(np.uint8)).save(path("inside.png"))
    for name, (picture, args, mark) in kinds.items():
        file = path(name + "_dim.png")
        Image.fromarray((ndimage.gaussian_filter(picture, 1) + noise).clip(0, 255)
                        .astype(np.uint8)).save(file)
        r = tap.run([tap.TEXCELL_WU, "analyse", "--analysis", "cellcount", "--device", "cpu", *args,
                     "-o", path(name + "_dim"), file])
        with open(os.path.join(path(name + "_dim"), "items.csv"), newline="") as f:
            row = next(csv.DictReader(f))
        why_start = "18 places as large as the 18 cells" if mark == "look" else ""
        tap.ok(r.returncode == 0 and row["mark"] == mark and row["why"].startswith(why_start) and
               row["count"] == ("36" if name == "lower" else "18"),
               "whether a picture is marked for dim cells: " + name,
               "%s %s" % (row, r.stderr))


def test_touching_cells():
    """Touching discs that are not split are marked; with split=distance they are separate and not
    marked."""
    rng = np.random.default_rng(14)
    y, x = np.mgrid[-9:10, -9:10]
    picture, disc = np.full((400, 400), 40.0), np.hypot(y, x) <= 8
    for i in range(64):
        for shift in (0, 13)[:1 + (i % 8 == 0)]:
            picture[6 + i // 8 * 48:, 6 + i % 8 * 48 + shift:][:19, :19][disc] = 160
    Image.fromarray(np.clip(picture + rng.normal(0, 2, picture.shape), 0,
                            255).astype(np.uint8)).save(path("merged.png"))
    for split, count, mark in (("none", "64", "look"), ("distance", "72", "ok")):
        r = tap.run([tap.TEXCELL_WU, "analyse", "--analysis", "cellcount", "--param",
                     "split=" + split, "-o", path("merged_" + split), path("merged.png")])
        with open(os.path.join(path("merged_" + split), "items.csv"), newline="") as f:
            row = next(csv.DictReader(f))
        tap.ok(r.returncode == 0 and row["count"] == count and row["mark"] == mark and
               (mark == "ok" or "8 of 64 regions, large and indented" in row["why"]) and
               "'" not in row["why"],
               "8 pairs of touching discs, split=%s, have the mark %s" % (split, mark), row)


def test_clusters():
    """Regions of several cells without indented outlines are marked; cells of all sizes are not."""
    rng = np.random.default_rng(15)
    hexagon = [(0, 0)] + [(12 * np.sin(k * np.pi / 3), 12 * np.cos(k * np.pi / 3))
                          for k in range(6)]
    kinds = {"hexagon": (lambda k: [(6, *at) for at in hexagon[:7 if k == 14 else 1]], "1 of 36"),
             "pairs": (lambda k: [(6, -4.2, 0), (6, 4.2, 0)] if k % 3 == 0 else [(6, 0, 0)],
                       "12 of 36"),
             "sizes": (lambda k: [(5.0 + k / 8, 0, 0)], "")}
    for name, (cell, why) in kinds.items():
        y, x = np.indices((760, 760)) / 2
        picture = np.zeros(y.shape)
        for k in range(36):
            for radius, dy, dx in cell(k):
                picture[np.hypot(y - 40 - 60 * (k // 6) - dy, x - 40 - 60 * (k % 6) - dx) <=
                        radius] = 130
        picture = ndimage.gaussian_filter(picture.reshape(380, 2, 380, 2).mean((1, 3)), 1)
        Image.fromarray((picture + rng.normal(30, 3, picture.shape)).clip(0, 255).round()
                        .astype(np.uint8)).save(path(name + "_several.png"))
        r = tap.run([tap.TEXCELL_WU, "analyse", "--analysis", "cellcount", "--device", "cpu", "-o",
                     path(name + "_several"), path(name + "_several.png")])
        with open(os.path.join(path(name + "_several"), "items.csv"), newline="") as f:
            row = next(csv.DictReader(f))
        tap.ok(r.returncode == 0 and row["count"] == "36" and row["why"].startswith(why) and
               row["mark"] == ("look" if why else "ok"),
               "whether a picture is marked for regions of several cells: " + name, row)


def test_noise():
    """Pictures without cells are marked "wrong?", also in one analysis with pictures of cells, and
    as a stack."""
    rng = np.random.default_rng(11)
    def noisy(clean):
        return np.clip(clean + rng.normal(0, 4, clean.shape), 0, 255).round().astype(np.uint8)
    empty, full = np.full((120, 160), 60.0), spots((120, 160), 12, rng).astype(float)
    pictures = {"%s/%d" % (group, i): noisy(clean_picture) for group,
                clean_picture in (("full", full), ("empty", empty))
                for i in range(2)}
    for sigma in (1, 3):
        smooth_noise = ndimage.gaussian_filter(rng.normal(0, 1, empty.shape),
                                               sigma) * 40 * sigma + 60
        pictures["empty/blurred%d" % sigma] = smooth_noise.round().astype(np.uint8)
    for group in ("full", "empty"):
        os.makedirs(path("noise", group), exist_ok=True)
    for name, picture in pictures.items():
        Image.fromarray(picture).save(path("noise", name + ".png"))
    for analysis, parameters in (("cellcount", ["smooth=1"]),
                                 ("voting", ["radius=6", "foreground=otsu"])):
        out = path("noise_" + analysis)
        options = [word for one in parameters for word in ("--param", one)]
        r = tap.run([tap.TEXCELL_WU, "analyse", "--analysis", analysis, "--defaults", "--param",
                     "polarity=bright", *options,
                     "-o", out, path("noise", "full"), path("noise", "empty")])
        text = text_of(os.path.join(out, "report.html")) if r.returncode == 0 else ""
        rows = re.findall(r'<tr data-image=\d+ data-group="(\w+)">.*?<strong '
                          r'class=(\w+)>(.*?)</td>', text, re.S)
        tap.ok(len(rows) == 6 and
               all((level == "wrong") == (group == "empty") for group, level, _ in rows) and
               all("no more than noise" in rows[k][2] for k in (4, 5)),
               "%s: pictures of noise are marked" % analysis, [r.stderr, rows])
        groups = dict(re.findall(r"<tr><td>(\w+)</td><td class=n>\d</td>.*?<strong class=(\w+)>",
                                 text, re.S))
        tap.ok(groups.get("empty") == "wrong" and groups.get("full") != "wrong",
               "%s: the group of noise is marked" % analysis, groups)
        tap.ok("4 of 6 images: most of what was counted" in r.stderr,
               "%s: a note counts the marked images" % analysis,
               r.stderr)
    stack = workunit.item("s", list(noisy(np.full((8, 50, 50), 60.0))))
    tap.ok("no more than noise" in text_of(make_page("voting", {"radius": 5}, [stack],
                                                     "noise_stack")[0]),
           "a stack of noise is marked")


def test_gradual():
    """Uneven light without any object is marked "wrong?"; dim or blurred objects in it are not."""
    y, x = np.mgrid[:256, :256] / 256
    lights = {"ramp": 60 + 80 * x, "corner": 60 + 40 * x + 40 * y,
              "vignette": 150 - 120 * ((x - 0.3)**2 + (y - 0.6)**2),
              "hill": 60 + 60 * np.exp(-((x - 0.5)**2 + (y - 0.5)**2) / 0.05)}
    disc = np.hypot(y - 0.5, x - 0.5) < 0.15
    four = np.hypot((y + 0.25) % 0.5 - 0.25, (x + 0.25) % 0.5 - 0.25) < 0.08
    objects = {"dim": lights["ramp"] + 30 * ndimage.gaussian_filter(four.astype(float), 1),
               "blurred": 60 + 80 * ndimage.gaussian_filter(disc.astype(float), 6)}
    for name, picture in {**lights, **objects}.items():
        Image.fromarray((picture + RNG.normal(0, 2, x.shape)).clip(0, 255).round()
                        .astype(np.uint8)).save(path(name + "_light.png"))
        for analysis in ("cellcount", "levelset"):
            out = path("%s_light_%s" % (name, analysis))
            r = tap.run([tap.TEXCELL_WU, "analyse", "--analysis", analysis, "--device", "cpu", "-o",
                         out, path(name + "_light.png")])
            with open(os.path.join(out, "items.csv"), newline="") as f:
                row = next(csv.DictReader(f))
            marked = row["mark"] == "wrong?" and ("change only gradually" in row["why"] or
                                                  "no more than noise" in row["why"])
            tap.ok(r.returncode == 0 and marked == (name in lights),
                   "%s, %s: marked if there is uneven light alone, and not if there are objects"
                   % (name, analysis), row)


def outlined_areas(page, section):
    """{label: area enclosed by its outlines} in the section of an item."""
    part = re.search(r'<section class=item id=%s[ >](.*?)</section>' % section, text_of(page),
                     re.S).group(1)
    areas = {}
    for label, start, steps in re.findall(r'<path class=c\d data-k=(\d+) d="M(-?\d+ '
                                          r'-?\d+)([^z]*)z"/>', part):
        x, y = map(int, start.split())
        corners = [(x, y)]
        for direction, length in re.findall(r"([hv])(-?\d+)", steps):
            x, y = (x + int(length), y) if direction == "h" else (x, y + int(length))
            corners.append((x, y))
        area = sum(a[0] * b[1] - b[0] * a[1]
                   for a, b in zip(corners, corners[1:] + corners[:1])) / 2
        areas[int(label)] = areas.get(int(label), 0) + area
    return areas


def round_as_page(value):
    """The number as the page prints it: three significant digits, or a whole number; halves are
    rounded up."""
    decimals = max(0, 2 - math.floor(math.log10(value)))
    text = format(decimal.Decimal(repr(float(value))).quantize(decimal.Decimal(1).scaleb(-decimals),
                                                               decimal.ROUND_HALF_UP), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def check_counts(text, result):
    """The page begins with the counts: the total, and a row for each image."""
    with np.load(result) as r:
        area, item, border = r["region_area"], r["region_item"], r["region_border"]
    tap.ok("<strong>%d</strong> cells</span><span><strong>2</strong> images" % len(area) in text,
           "the page begins with the counts")
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row)
            for row in re.findall(r"<tr data-image=.*?</tr>", text)]
    for i, row in enumerate(rows):
        item_areas = area[item == i]
        quartiles = []
        for values in (2 * np.sqrt(item_areas / np.pi), item_areas):
            low, median, high = (round_as_page(q) for q in np.percentile(values, [25, 50, 75]))
            quartiles.append("%s <small>%s&#8211;%s</small>" % (median, low, high))
        expected = [str(len(item_areas)), *quartiles, str(int(border[item == i].sum()))]
        tap.ok(row[1:2] + row[3:6] == expected,
               "image %d: count, median diameter and area with quartiles, cells at the border" % i,
               (row, expected))
    whole = np.percentile(2 * np.sqrt(area / np.pi), [50, 25, 75])
    tap.ok("<strong>%.3g</strong> px median diameter (half of them from %.3g to %.3g)" %
           tuple(whole) in text, "the page has the median diameter of all cells", whole)
    tap.ok(len(rows) == 2 and all("ok" in row[2] for row in rows),
           "the page has a mark for each image", rows)
    values = dict(re.findall(r'class=values data-of=1 [^>]*data-title="(\w+)">([^<]*)<', text))
    tap.ok([float(v) for v in values["area"].split()] == [float("%.4g" % a) for a in area],
           "the figures' data have all values")


def test_outlines():
    images = [spots((90, 120), 14), (RNG.random((40, 50)) < 0.45).astype(np.uint8) * 255]
    items = [workunit.item("a", [images[0]]), workunit.item("noise", [images[1]])]
    page, result = make_page("cellcount", {"labels": True, "threshold": 128, "polarity": "bright"},
                             items, "outlines")
    with np.load(result) as r:
        for i, name in enumerate(("a", "noise")):
            labels, areas_found = r["labels_" + name], outlined_areas(page, "i%d" % i)
            expected = {int(k): int(n)
                        for k, n in zip(*np.unique(labels[labels > 0], return_counts=True))}
            tap.ok(areas_found == expected,
                   "%s: the outlines of each region enclose its area, holes left out (%d regions)"
                   % (name, len(expected)),
                   [(k, areas_found.get(k), expected.get(k))
                    for k in set(areas_found) | set(expected)
                    if areas_found.get(k) != expected.get(k)])
    text = text_of(page)
    check_counts(text, result)
    tap.ok("<tr><td>threshold</td><td>128</td><td>grey values</td>" in text and
           "its colours" not in text and "colours only tell neighbours apart" in text,
           "the page has parameters with their units, and a legend")
    return page, result


def test_markup():
    name = "a<img src=x onerror=\"document.title='owned'\">&<b>.png"
    folder = path("<script>alert(1)<script>")
    os.mkdir(folder)
    Image.fromarray(spots((30, 30), 3)).save(os.path.join(folder, name))
    out = path("markup")
    r = tap.run([tap.TEXCELL_WU, "analyse", "--analysis", "cellcount", "--defaults", "--device",
                 "cpu", folder, "-o", out])
    page = os.path.join(out, "report.html")
    tap.ok(r.returncode == 0, "files whose names are HTML are analysed", r.stderr)

    class Tags(html.parser.HTMLParser):
        seen, data = set(), []

        def handle_starttag(self, tag, attrs):
            self.seen.add(tag)

        def handle_data(self, data):
            self.data.append(data)
    parser = Tags()
    parser.feed(text_of(page))
    tap.ok("img" not in parser.seen and "b" not in parser.seen,
           "names add no elements to the page", parser.seen)
    tap.ok(any(name in data for data in parser.data), "names appear as text")
    return page


def check_policy(page):
    """The page's Content-Security-Policy: only its own script runs, no form is sent, and relative
    addresses stay relative to the page (base-uri)."""
    header = re.search('http-equiv="Content-Security-Policy" content="([^"]*)"',
                       text_of(page)).group(1)
    scripts = re.findall("<script>(.*?)</script>", text_of(page), re.S)
    rules = dict(rule.strip().split(" ", 1) for rule in header.split(";"))
    tap.ok(len(scripts) == 1 and rules["script-src"] == "'sha256-%s'" % digest(scripts[0]) and
           rules["default-src"] == "'none'" and
           rules["base-uri"] == "'none'" and rules["form-action"] == "'none'",
           "the page's Content-Security-Policy allows only its own script, and no forms",
           header)


def check_addresses(page):
    """The page refers only to itself and to images inside it."""
    addresses = re.findall(r'(?:src|href|action|data)\s*=\s*"?([^"\s>]{1,40})', text_of(page))
    tap.ok(addresses and all(a.startswith(("data:image/png;base64,", "#")) for a in addresses),
           "the page refers only to itself", set(addresses))
    tap.ok("default-src 'none'" in text_of(page), "the page's policy forbids all other addresses")


def test_refusals(result):
    page = path("refused.html")
    for words, message in (([result], "-o PAGE.html is missing"),
                           (["-o", page], "takes one RESULT.npz"),
                           ([path("none.npz"), "-o", page], "none.npz"),
                           ([result, "--images", path("o200.zip"), "-o", page],
                            "is not the work unit that"),
                           ([result, "-o", path("no", "such", "page.html")],
                            "cannot write: the folder %s does not exist" % path("no", "such"))):
        r = tap.run([tap.TEXCELL_WU, "report"] + words)
        tap.ok(r.returncode in (1, 2, 3) and message in r.stderr and not os.path.exists(page),
               "refused: %s" % message, (r.returncode, r.stderr))
    with open(page + ".tmp", "wb") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        r = tap.run([tap.TEXCELL_WU, "report", result, "-o", page])
        tap.ok(r.returncode == 3 and
               r.stderr == "texcell-wu: error: %s: another texcell is at work on it\n" % page,
               "refused: a page that another process is writing", r.stderr)


# --- in a browser ------------------------------------------------------------------------------

SORT = """
const table = document.querySelector('table[data-t="1"]'), said = {};
const column = [...table.tHead.rows[0].cells].findIndex(c => c.textContent.startsWith('area'));
const values = () => [...table.tBodies[0].rows].map(r => +r.cells[column].textContent);
said.before = values();
table.tHead.rows[0].cells[column].click(); said.up = values();
table.tHead.rows[0].cells[column].click(); said.down = values();
return said;"""

FIGURES = """
const said = {}, plots = document.getElementById('plots'), [select] = plots.querySelectorAll('select');
const title = () => [...plots.querySelector('.plot svg').querySelectorAll('text')].map(t => t.textContent);
said.titles = [...plots.querySelectorAll('.plot:not(.boxes) select')].map(s => s.selectedOptions[0].textContent);
said.bars = [...plots.querySelector('.plot svg').querySelectorAll('rect title')].reduce((n, t) => n + parseInt(t.textContent), 0);
said.boxes = plots.querySelectorAll('.boxes .box').length;
said.all = title().pop();
select.value = 1; select.dispatchEvent(new Event('change'));
said.one = title().pop();
const other = plots.querySelector('.plot select'); other.value = [...other.options].findIndex(o => o.textContent.includes('mean'));
other.dispatchEvent(new Event('change'));
said.other = title().includes('mean grey value');
return said;"""  # noqa: E501

LAYERS = """
const said = {};
for (const [layer, some] of [['outlines', '.outlines'], ['numbers', '.numbers'], ['own', 'image.own']]) {
  const box = document.querySelector('[data-layer=' + layer + ']'), one = document.querySelector(some);
  const before = getComputedStyle(one).display; box.click();
  const off = getComputedStyle(one).display; box.click();
  said[layer] = [before !== 'none', off === 'none', getComputedStyle(one).display === before];
}
return said;"""  # noqa: E501

BELONG = """
const row = document.querySelector('table[data-t="1"] tr[data-i="0"][data-k="2"]');
row.cells[3].click();
const shapes = [...document.querySelectorAll('.figures .hit')].map(s => [s.closest('section').id, s.dataset.k]);
const other = document.querySelector('#i1 .outlines [data-k="1"]');
other.dispatchEvent(new MouseEvent('click', {bubbles: true}));
const rows = [...document.querySelectorAll('tr.hit')].map(r => [r.dataset.i, r.dataset.k]);
return [shapes, rows];"""  # noqa: E501


def test_browser(page, result):
    """The page in Chromium: sorting, figures, rows and outlines."""
    with np.load(result) as r:
        areas = r["region_area"].tolist()
    for width in (390, 800, 1400):
        output = in_browser(page, "return [innerWidth, document.documentElement.scrollWidth, "
                            "Math.max(...[...document.querySelectorAll('.figures svg')].map(s => "
                            "s.getBoundingClientRect().right)), "
                            "performance.getEntriesByType('resource').filter(e => "
                            "!e.name.startsWith('data:')).length, "
                            "matchMedia('(prefers-color-scheme: dark)').matches]", width)
        tap.ok(output is not None and output[0] == width and output[1] <= width and
               output[2] <= width,
               "%d pixels wide: the page has no overflow" % width, output)
        tap.ok(output is not None and output[3] == 0, "%d pixels wide: the page loads nothing" %
               width, output)
    output = in_browser(page, SORT)
    tap.ok(output is not None and output["before"] == areas and output["up"] == sorted(areas) and
           output["down"] == sorted(areas, reverse=True),
           "a click on a title sorts, a second one in reverse order", output)
    output = in_browser(page, FIGURES)
    with np.load(result) as r:
        n = [len(areas), int((r["region_item"] == 0).sum())]
    tap.ok(output is not None and output["titles"] ==
           ["cells: diameter (px)", "cells: area (px\u00b2)",
                                                       "cells: mean grey value"] and
           output["bars"] == n[0] and output["boxes"] == 2 and
           output["all"].startswith("%d cells, median" % n[0]) and
           output["one"].startswith("%d cells, median" % n[1]) and output["other"],
           "histograms and box plots of any column, by image", output)
    output = in_browser(page, LAYERS)
    tap.ok(output is not None and all(all(v) for v in output.values()),
           "layers are switched off and on", output)
    output = in_browser(page, BELONG)
    tap.ok(output is not None and output[0] and all(s == ["i0", "2"] for s in output[0]) and
           output[1] == [["1", "1"]],
           "a click on a row marks its outline, a click on an outline its row", output)


def test_200_items():
    colour = RNG.integers(0, 256, (200, 300, 3), dtype=np.uint8)
    items = [workunit.item("p%03d" % i,
                           [np.dstack([spots((200, 300), 30, np.random.default_rng(i))] * 3) // 2
                            + colour // 8]) for i in range(200)]
    page, _ = make_page("cellcount", {"labels": True, "threshold": 70, "polarity": "bright",
                                      "min_area": 20}, items, "o200")
    size = os.path.getsize(page)
    tap.ok(size < 20e6, "200 items of 300 x 200 pixels: a page of %.1f MB, below 20" % (size / 1e6))
    best = None
    for _ in range(3):      # the best of three, as other processes may slow one down
        output = in_browser(page, "return [performance.timing.loadEventStart - "
                            "performance.timing.navigationStart, "
                            "document.querySelectorAll('section.item svg').length]")
        best = output if best is None or output is not None and output[0] < best[0] else best
        if best is not None and best[0] < 3000:
            break
    tap.ok(best is not None and best[0] < 3000 and best[1] == 200,
           "the page opens in %s s, below 3" % (best and best[0] / 1000), best)


# --- other analyses, stacks -------------------------------------------------------------------


def test_other_analyses():
    stack = np.full((12, 40, 50), 20, np.uint8)
    stack[3:9, 10:30, 12:40] = 200
    stack[5:7, 14:24, 18:30] = 20
    deep = [workunit.item("s", list(stack), spacing=[2.0, 0.5, 0.5])]
    for analysis, parameters, items, texts in (
            ("volume", {"membrane": 100, "labels": True}, deep,
             ["slice 5 of 12", "&#181;m</text>", "<rect class=strip y=\"40\" width=\"50\"",
              "class=c1 data-k=1", "volume <small>\u00b5m\u00b3</small>"]),
            ("voting", {"radius": 8}, [workunit.item("v", [spots((60, 60), 3)])],
             ["<g class=points", 'rx="8.0" ry="8.0"/>']),
            ("voting", {"radius": 8}, deep, ["largest greys of all 12 slices"]),
            ("levelset", {"target": 200, "epsilon": 60, "iterations": 20,
                          "init": {"type": "box", "x0": 12, "y0": 10, "x1": 40, "y1": 30}},
             [workunit.item("l", [stack[4] // 4])],
             ["class=\"outlines one\"", "<td>init.x0</td><td>12</td><td>pixels</td>",
              "Greys are shown from 5 (black) to 50 (white)", ">no</td>",
              "class=look>look</strong> <small>the outline still moved",
              "inside <small>px</small>"]),
            ("cellcount", {"threshold": 250, "polarity": "bright"},
             [workunit.item("c", [stack[4]])], ["class=wrong>wrong?</strong> <small>no cells"]),
            ("objects", {"families": ["shape"]},
             [workunit.item("o", [stack[4]], labels=[(stack[4] > 100) * np.uint8(7)])],
             ["class=c1 data-k=7 d=\"M12 10", 'data-k="7"']),
            ("glcm", {"levels": [16], "distances": [1], "window": {"radius": 3},
                      "maps": [{"feature": "contrast", "levels": 16, "offset": [1, 0]}]},
             [workunit.item("g", [spots((50, 40), 9)])],
             ["class=map", "<td>contrast</td>", "how much neighbours differ",
              "linear-gradient(to right", "Haralick"])):
        page, result = make_page(analysis, parameters, items, "%s_%s" %
                                 (analysis, items[0]["name"]))
        text = text_of(page)
        if analysis == "voting" and items is deep and CHROMIUM:
            output = in_browser(page, "const shown = () => [...document.querySelectorAll('.stack "
                                "figure')].filter(f => !f.hidden).map(f => f.textContent.trim()), "
                                "first = shown(), range = document.querySelector('.stack input'); "
                                "range.value = 5; range.dispatchEvent(new Event('input')); return "
                                "[first.length, shown().join()]")
            tap.ok(output is not None and output[0] == 1 and output[1].endswith("slice 5 of 12"),
                   "a slider selects the slice", output)
        tap.ok(all(w in text for w in texts), "%s: the page has %s" % (analysis, ", ".join(texts)),
               [w for w in texts if w not in text])
        if CHROMIUM:
            output = in_browser(page, "return [innerWidth, document.documentElement.scrollWidth, "
                                "performance.getEntriesByType('resource').filter(e => "
                                "!e.name.startsWith('data:')).length]", 390)
            tap.ok(output is not None and output[0] == 390 and output[1] <= 390 and output[2] == 0,
                   analysis + ": 390 pixels wide: the page has no overflow and loads nothing",
                   output)
        bare = path("bare.html")
        r = tap.run([tap.TEXCELL_WU, "report", result, "-o", bare])
        tap.ok(r.returncode == 0 and "class=own" not in text_of(bare),
               "%s: report without pictures writes a page" % analysis, r.stderr)


def test_own_radii():
    """The circles drawn have the radius found in their own picture. The caption of a box plot of a
    single value says so."""
    y, x = np.mgrid[:160, :160]
    sizes = [np.where((y % 40 - 20) ** 2 + (x % 40 - 20) ** 2 <= r * r, 200, 40).astype(np.uint8)
             for r in (6, 12)]
    page, result = make_page("voting", {"radius": 15, "own_radius": True},
                             [workunit.item("r%d" % i, [one]) for i, one in enumerate(sizes)],
                             "radii")
    with np.load(result) as z:
        radii = z["radius"].tolist()
    drawn = [set(re.findall(r' rx="([0-9.]+)"', part))
             for part in re.findall(r"(?s)<section class=item.*?</section>", text_of(page))]
    tap.ok(len(set(radii)) == 2 and drawn == [{"%.1f" % r} for r in radii],
           "circles have the radius found in their picture", (radii, drawn))
    caption = CHROMIUM and in_browser(page, "const box = document.querySelector('.boxes'), pick = "
                                      "box.querySelector('select'); pick.selectedIndex = "
                                      "[...pick.options].findIndex(o => o.text.startsWith('images: "
                                      "')); pick.dispatchEvent(new Event('change')); return "
                                      "box.querySelector('figcaption').textContent")
    tap.ok(caption == "A mark alone: a single value.",
           "the caption of a box plot of a single value says so", caption)


# --- analyse ----------------------------------------------------------------------------------


def test_analyse():
    """analyse does all steps with one command, and continues after an interruption."""
    folder, out = path("pictures"), path("all")
    os.mkdir(folder)
    for i in range(4):
        Image.fromarray(spots((320, 320), 60)).save(os.path.join(folder, "p%d.png" % i))
    command = [tap.TEXCELL_WU, "analyse", "--analysis", "glcm", "--defaults", "--param",
               "distances=[1,2,3,4,5]", "--device", "cpu", "--threads", "1",
               folder, "-o", out]
    whole = tap.run(command)
    tap.ok(whole.returncode == 0 and whole.stdout.splitlines()[-1] ==
           os.path.join(out, "report.html"),
           "analyse makes a page from a folder", whole.stderr)
    with open(os.path.join(out, "features.csv"), encoding="utf-8", newline="") as f:
        rows = list(csv.reader(f))
    tap.ok(len(rows) == 5 and rows[1][:2] == ["p0", "pictures/p0.png"],
           "analyse writes tables", rows[1][:2])
    with open(os.path.join(out, "result.npz"), "rb") as f:
        first = f.read()
    second_run = tap.run(command)
    tap.ok(second_run.returncode == 0 and "glcm on" not in second_run.stderr,
           "a finished analysis is not computed again", second_run.stderr)

    # Files that a run leaves if it is killed after it wrote its result and before it removed them.
    # They stay while they are locked, as by another run.
    state_files = {"result.npz" + end for end in (".checkpoint", ".checkpoint.tmp", ".spool")}
    for name in state_files:
        with open(os.path.join(out, name), "wb") as f:
            f.write(b"left")
    with open(os.path.join(out, "result.npz.spool"), "rb") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        r = tap.run(command)
        tap.ok(r.returncode == 0 and state_files <= set(os.listdir(out)),
               "another run's locked files stay next to its result", r.stderr)
    r = tap.run(command)
    tap.ok(r.returncode == 0 and not state_files & set(os.listdir(out)),
           "files that a killed run left next to its result are removed", r.stderr)

    os.remove(os.path.join(out, "result.npz"))
    for number, target in ((signal.SIGTERM, "texcell-wu"), (signal.SIGINT, "both"),
                           (signal.SIGINT, "texcell-wu")):
        p = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                             start_new_session=True)
        end = time.monotonic() + 60
        while not any(f.endswith(".spool")
                      for f in os.listdir(out)) and p.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(0.3)
        if target == "both":
            os.killpg(p.pid, number)
        else:
            os.kill(p.pid, number)
        messages = p.communicate(timeout=60)[1]
        state_files = sorted(os.listdir(out))
        tap.ok(p.returncode == 3 and "goes on" in messages.splitlines()[-1] and
               "result.npz" not in state_files and
               any(f.endswith(".checkpoint") for f in state_files),
               "stopped by %s to %s: the state is kept" % (number.name, target),
               (p.returncode, messages, state_files))
    last = tap.run(command)
    with open(os.path.join(out, "result.npz"), "rb") as f:
        same = f.read() == first
    tap.ok(last.returncode == 0 and same, "the same command continues, and gives the same bytes",
           last.stderr)
    r = tap.run(command[:-1] + [path("no_device"), "--device", "99:0"])
    tap.ok(r.returncode == 3 and r.stderr.count("error:") == 1,
           "an error of texcell is printed once", r.stderr)
    for words, message in ((["--split", "2"], "--split is for pack"),
                           (["--device", "opencl:x"], "opencl:x: is none of auto, cpu, opencl")):
        r = tap.run(command[:-2] + words + ["-o", path("no")])
        tap.ok(r.returncode == 1 and message in r.stderr and not os.path.exists(path("no")),
               "analyse refuses " + " ".join(words), (r.returncode, r.stderr))


def test_used_folder():
    """analyse into a folder that contains files: which are replaced. Also: parameters.json repeats
    an analysis."""
    picture = path("one.png")
    Image.fromarray(spots((60, 60), 3)).save(picture)
    first, second_folder = path("first"), path("again")

    def count(out, *words):
        return tap.run([tap.TEXCELL_WU, "analyse", "--analysis", "cellcount", "--device=cpu",
                        *words, "-o", out, picture])

    count(first)
    r = count(second_folder, "--defaults", "--params", os.path.join(first, "parameters.json"))
    tap.ok(r.returncode == 0 and
           all(filecmp.cmp(os.path.join(first, n), os.path.join(second_folder, n), False)
               for n in ("parameters.json", "regions.csv", "items.csv")),
           "parameters.json repeats the analysis", r.stderr)
    for name, kept in (("items.csv", "items.csv.edited"), ("items.csv", "items.csv.edited2")):
        with open(os.path.join(first, name), "a", encoding="utf-8") as f:
            f.write("own notes\n")
        # 10 ms later, as by a script: file systems store times in steps of a few milliseconds
        later = os.stat(os.path.join(first, "exported.txt")).st_mtime_ns + 10 ** 7
        os.utime(os.path.join(first, name), ns=(later, later))
        with open(os.path.join(first, name), encoding="utf-8") as f:
            edited = f.read()
        r = count(first)
        text = text_of(os.path.join(first, kept)) if kept in os.listdir(first) else ""
        tap.ok(r.returncode == 0 and text == edited and "kept as " + kept in r.stderr and
               filecmp.cmp(os.path.join(first, name), os.path.join(second_folder, name), False),
               "a table that the user has edited is kept: " + kept, r.stderr)
    r = count(first)
    tap.ok(r.returncode == 0 and "kept as" not in r.stderr, "a table that is unchanged is replaced",
           r.stderr)
    r = tap.run([tap.TEXCELL_WU, "export", os.path.join(first, "result.npz"), "-o", first])
    tap.ok(r.returncode == 0 and text_of(os.path.join(first, "parameters.json")) ==
           text_of(os.path.join(second_folder, "parameters.json")),
           "an export into the folder keeps parameters.json", (r.stderr, os.listdir(first)))
    r = count(first, "--param", "min_area=3")
    tap.ok(r.returncode == 0 and
           "replaces the result there, which has other parameters" in r.stderr,
           "analyse notes that a result is replaced", r.stderr)
    r = tap.run([tap.TEXCELL_WU, "analyse", "--analysis", "glcm", "--device=cpu", "-o", first,
                 picture])
    tap.ok(r.returncode == 1 and "holds the result of cellcount" in r.stderr,
           "another analysis into the same folder is refused", r.stderr)
    os.remove(os.path.join(first, "result.npz"))
    with open(os.path.join(first, "result.npz.spool"),
              "wb") as f, open(os.path.join(first, "workunit.zip"), "rb") as unit:
        whole = unit.read()
        r = tap.run([tap.TEXCELL_WU, "analyse", "--analysis", "voting", "--device=cpu", "-o", first,
                     picture])
        unit.seek(0)
        tap.ok(r.returncode == 1 and "holds interrupted work of cellcount" in r.stderr and
               unit.read() == whole, "another analysis does not replace interrupted work", r.stderr)
        fcntl.flock(f, fcntl.LOCK_EX)
        r = count(first, "--param", "min_area=4")
        unit.seek(0)
        tap.ok(r.returncode == 3 and first + ": another texcell is at work on it\n" in r.stderr and
               unit.read() == whole, "the work unit of a run in progress is not replaced", r.stderr)
    os.mkdir(path("page"))
    with open(path("page", "report.html"), "w", encoding="utf-8") as f:
        f.write("<!DOCTYPE html>\n<html>")
    r = count(path("page"))
    tap.ok(r.returncode == 1 and "report.html: already exists" in r.stderr and
           os.listdir(path("page")) == ["report.html"],
           "a foreign report.html is refused at once", r.stderr)
    pictures = path("some", "pictures")
    os.makedirs(pictures)
    shutil.copy(picture, pictures)
    for words in ([pictures, "-o", pictures], [pictures, "-o", path("some", ".", "pictures", "")],
                  [path("some"), "--recursive", "-o", pictures],
                  [pictures, "--stack", "-o", pictures],
                  [pictures, "--sweep", "min_area=2,3", "-o", pictures],
                  [picture, "--mask", pictures, "-o", pictures]):
        r = tap.run([tap.TEXCELL_WU, "analyse", "--analysis", "cellcount", "--device=cpu", *words])
        tap.ok(r.returncode == 1 and "holds pictures that are read, such as one.png" in r.stderr and
               os.listdir(pictures) == ["one.png"],
               "analyse writes nothing among the pictures: %s" % [os.path.relpath(w, path())
                                                                  for w in words], r.stderr)
    found = os.path.join(pictures, "found")
    for _ in range(2):
        r = tap.run([tap.TEXCELL_WU, "analyse", "--analysis", "cellcount", "--device=cpu",
                     "--pictures", "--recursive", pictures, "-o", found])
        tap.ok(r.returncode == 0 and sorted(os.listdir(pictures)) == ["found", "one.png"] and
               len(text_of(os.path.join(found, "items.csv")).splitlines()) == 2,
               "analyse writes into a folder in the pictures' one, and does not read it", r.stderr)
    os.mkdir(path("own"))
    open(path("own", "items.csv"), "w", encoding="utf-8").close()
    r = count(path("own"))
    tap.ok(r.returncode == 2 and "items.csv: exists" in r.stderr and os.listdir(path("own")) ==
           ["items.csv"], "a foreign items.csv is refused at once", r.stderr)
    result = os.path.join(second_folder, "result.npz")
    with open(result, "rb") as f:
        whole = f.read()
    for kind, words in (("page", ["report", result]),
                        ("work unit", ["pack", "--analysis", "cellcount", picture])):
        r = tap.run([tap.TEXCELL_WU, *words, "-o", result])
        with open(result, "rb") as f:
            tap.ok(r.returncode == 1 and "already exists, and is not a " + kind in r.stderr and
                   f.read() == whole, "a result is not replaced by a " + kind, r.stderr)


def test_stains():
    """The page of a stain or a channel says that its pictures show only this."""
    with open(path("colours.png"), "wb") as f:
        f.write(workunit.png(np.dstack([spots((60, 60), 3)] * 3)))
    for words, note_text in ((["--stain", "eosin", "--stains", "he"], "how much eosin there is, by "
                              "colour deconvolution"),
                             (["--channel", "red"], "the channel red alone")):
        r = tap.run([tap.TEXCELL_WU, "analyse", "--analysis", "cellcount", "--device=cpu", *words,
                     "-o", path("stained" + words[1]), path("colours.png")])
        tap.ok(r.returncode == 0 and "The pictures show what was analysed: " +
               note_text in text_of(path("stained" + words[1], "report.html")), "the page says: " +
               note_text,
               r.stderr)


def test_sweep():
    out, picture = path("sweep"), path("pictures", "p0.png")
    command = [tap.TEXCELL_WU, "analyse", "--analysis", "cellcount", "--defaults",
               "--param=polarity=bright", "--device=cpu", "-o", out]
    r = tap.run(command + ["--sweep", "threshold=100,220", "--sweep", "min_area=1,1000", picture])
    tap.ok(r.returncode == 0 and r.stdout.splitlines()[-1] == os.path.join(out, "report.html"),
           "sweep: two parameters are swept together", r.stderr)
    variants = sorted(d for d in os.listdir(out) if os.path.isdir(os.path.join(out, d)))
    tap.ok(variants == ["01_threshold=100_min_area=1", "02_threshold=220_min_area=1",
                        "03_threshold=100_min_area=1000",
                        "04_threshold=220_min_area=1000"],
           "sweep: each pair of values has its folder",
           variants)
    counts = []
    for v in variants:
        with np.load(os.path.join(out, v, "result.npz")) as z:
            counts += z["count"].tolist()
    text = text_of(os.path.join(out, "report.html"))
    rows = [re.findall(r"<td[^>]*>(?:<a[^>]*>|<strong[^>]*>)?([^<]*)", row)
            for row in re.findall(r"<tr data-i=.*?</tr>", text)]
    tap.ok([row[2] == "wrong?" for row in rows] == [n == 0 for n in counts],
           "sweep: the page marks variants without cells", rows)
    tap.ok(all({"items.csv", "regions.csv"} <= set(os.listdir(os.path.join(out, v)))
               for v in variants), "sweep: each variant has its tables")
    tap.ok([(row[0], int(row[3])) for row in rows] == [("threshold=%d, min_area=%d" % (t, a), n)
                                                       for (t, a), n in
                                                      zip(((100, 1), (220, 1), (100, 1000),
                                                           (220, 1000)), counts)]
           and counts[0] > counts[2] and counts[1] == 0,
           "sweep: the page has each variant's counts",
           (rows, counts))
    sums = re.findall(r"<tr><td>(threshold=[^<]*)</td><td class=n>(\d+)</td><td class=why "
                      r"data-v=(\d)", text)
    tap.ok([(name, int(n)) for name, n, _ in sums] ==
           [(row[0], n) for row, n in zip(rows, counts)] and [v == "2" for *_, v in sums] ==
           [n == 0 for n in counts],
           "sweep: the page begins with the sums of counts", sums)
    titles = re.findall(r"<th(?: [^>]*)?>([^<]*)",
                        text[text.index("<h2>Images"):text.index("<h2>Pictures")])
    tap.ok(titles[:4] == ["variant", "image", "mark", "count"] and "threshold" in titles[4] and
           "left_out" not in titles,
           "sweep: the table of images leaves out columns without information", titles)
    tap.ok(text.count("<h4>") == 4 and text.count("<svg viewBox") == 4,
           "sweep: the page has each picture once for each variant")
    second_run = tap.run(command + ["--sweep", "threshold=100,220", "--sweep", "min_area=1,1000",
                                    picture])
    tap.ok(second_run.returncode == 0 and "cellcount on" not in second_run.stderr,
           "a finished analysis is not computed again", second_run.stderr)
    other = tap.run(command + ["--sweep", "threshold=100,220", "--sweep", "min_area=1,500",
                               picture])
    folders = other.stderr.partition(": holds other results, which are not on the page: ")[2].split(
        "\n")[0]
    tap.ok("holds other" not in second_run.stderr and sorted(folders.split(", ")) == variants[2:],
           "sweep: folders that an earlier sweep left are noted", other.stderr)
    for words, code, message in ((["--sweep", "threshold"], 1, "must be KEY=A,B"),
                                 (["--sweep", "=1"], 1, "must be KEY=A,B"),
                                 (["--sweep", "a=1,2", "--sweep", "b=1,2", "--sweep", "c=1,2"], 1,
                                  "two parameters"),
                                 (["--sweep", "threshold=9"], 1, "needs several values"),
                                 (["--analysis", "glcm"], 1,
                                  "there is --analysis cellcount already"),
                                 (["--sweep",
                                   "threshold=" + ",".join("12345678901234567890123456789012345")],
                                  1, "more than 32 values"),
                                 (["--sweep", "threshold=50,x"], 2, "threshold"),
                                 (["--sweep", "tresh=1,2"], 2, "unknown key")):
        r = tap.run(command + words + [picture])
        tap.ok("cellcount on" not in r.stderr,
               "sweep: all values are checked before anything is computed", r.stderr)
        tap.ok(r.returncode == code and message in r.stderr, "refused: " + " ".join(words)[:40],
               (r.returncode, r.stderr))
    r = tap.run([tap.TEXCELL_WU, "analyse", "--analysis", "glcm", "--device=cpu", "-o",
                 path("lists"), "--sweep", "distances=[1,2],[3]",
                 "--param=levels=[8]", picture])
    tap.ok(r.returncode == 0 and sorted(os.listdir(path("lists"))) ==
           ["01_distances=_1_2_", "02_distances=_3_", "report.html"],
           "sweep: values may be lists", r.stderr)


def test_groups():
    """Pictures in several folders are compared by folder; all numbers can be read back, with their
    units."""
    for group, n in (("control", 5), ("drug", 20)):
        os.makedirs(path("study", group))
        for i in range(2):
            Image.fromarray(spots((120, 120), n)).save(path("study", group, "%d.png" % i))
    out = path("compared")
    r = tap.run([tap.TEXCELL_WU, "analyse", "--analysis", "cellcount", "--defaults", "--device",
                 "cpu", "--recursive", path("study"), "-o", out])
    page = os.path.join(out, "report.html")
    tap.ok(r.returncode == 0 and re.findall(r'data-group="(\w*)"', text_of(page)) ==
           ["control", "control", "drug", "drug"],
           "groups are the folders below the common one", r.stderr)
    tap.ok("compared: 3 tables" in r.stdout, "analyse's message counts groups.csv",
           r.stdout)
    labels = CHROMIUM and in_browser(page, "return [...document.querySelectorAll('.boxes svg "
                                     "text')].map(t => t.textContent)")
    looks = CHROMIUM and in_browser(page, "return [document.querySelector('.headline').textContent,"
                                    " document.querySelectorAll('.images strong.look, .images "
                                    "strong.wrong').length]")
    tap.ok(looks and ("%d to look at" % looks[1] in looks[0]) == (looks[1] > 0),
           "the page's headline has the number of images to look at", looks)
    tap.ok(labels and any(t.startswith("control: ") for t in labels) and
           any(t.startswith("drug: ") for t in labels), "box plots are by group", labels)
    with np.load(os.path.join(out, "result.npz")) as z, open(os.path.join(out, "regions.csv"),
                                                             encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
        for name, array in (("mean", z["region_mean"]), ("centroid_y", z["region_centroid"][:, 0])):
            tap.ok([r[name] for r in rows] == [repr(v).removesuffix(".0") for v in array.tolist()],
                   name + ": the fewest digits that give the same number")
    with open(os.path.join(out, "columns.csv"), encoding="utf-8") as f:
        columns = list(csv.DictReader(f))
    units = {r["column"]: r["unit"] for r in columns if r["file"] == "regions.csv"}
    tap.ok(set(units) == set(rows[0]) - {"item", "source"} and units["area"] == "pixel^2" and
           units["mean"] == "grey values", "columns.csv has the units of regions.csv", units)
    for name, size in (("items", None), ("groups", "median_diameter")):
        with open(os.path.join(out, name + ".csv"), encoding="utf-8") as f:
            titles = set(next(csv.reader(f)))
        units = {r["column"]: r["unit"] for r in columns if r["file"] == name + ".csv"}
        tap.ok(set(units) == titles - {"item", "source"} and units.get(size) == (size and "pixel"),
               "columns.csv has the units of %s.csv" % name, (units, titles))


def test_empty_images():
    """Images marked "wrong?" do not influence the marks of others; with groups, their number is
    printed and in groups.csv."""
    rng = np.random.default_rng(6)
    for group, n in (("empty", 6), ("full", 5)):
        os.makedirs(path("doubtful", group))
        for i in range(n):
            image = np.full((150, 200), 40.0)
            for k in range(12 if group == "full" else 0):
                image[10 + k // 4 * 45:30 + k // 4 * 45, 10 + k % 4 * 48:30 + k % 4 * 48] = 200
            Image.fromarray(np.clip(image + rng.normal(0, 6, image.shape), 0, 255).astype(
                np.uint8)).save(path("doubtful", group, "%d.png" % i))
    for name, words in (("pooled", [path("doubtful", "empty"), path("doubtful", "full")]),
                        ("flat", [path("doubtful", g, n) for g in ("empty", "full")
                                  for n in sorted(os.listdir(path("doubtful", g)))])):
        if name == "flat":
            os.makedirs(path("flat_in"))
            words = [shutil.copy(word, path("flat_in", "%02d.png" % i))
                     for i, word in enumerate(words)]
        r = tap.run([tap.TEXCELL_WU, "analyse", "--analysis", "cellcount", "--device=cpu", "-o",
                     path(name), *words,
                     "--param=polarity=bright", "--param=threshold=local", "--param=window=21",
                     "--param=min_area=2", "--param=smooth=1"])
        marks = [row["mark"]
                 for row in csv.DictReader(text_of(path(name, "items.csv")).splitlines())]
        tap.ok(r.returncode == 0 and marks == ["wrong?"] * 6 + ["ok"] * 5 and
               "--param smooth=2" in text_of(path(name, "items.csv")),
               name + ": empty images do not make the others doubtful", (marks, r.stderr))
        tap.ok(("6 of 11 images are marked wrong?" in r.stderr) == (name == "pooled"),
               name + ": a note if sums of groups include marked images", r.stderr)
    groups = list(csv.DictReader(text_of(path("pooled", "groups.csv")).splitlines()))
    tap.ok([(g["group"], g["images"], g["marked_wrong"]) for g in groups] ==
           [("empty", "6", "6"), ("full", "5", "0")], "groups.csv has the number of marked images",
           groups)


def test_group_comparison():
    """An image is compared only with its own group. All numbers are rounded half up. Labels of axes
    are inside their figures, small pictures are enlarged at most 4 times, and volume's page has a
    threshold only if it is used."""
    areas = {}
    for group, side, n in (("large", 20, 6), ("small", 6, 28)):
        os.makedirs(path("apart", group))
        areas[group] = []
        for i in range(6):
            image = np.full((150, 200), 40, np.uint8)
            for k in range(1 if (group, i) == ("small", 5) else n):
                y, x, height = 5 + k // 7 * 30, 5 + k % 7 * 27, side + (k + i) % 2
                image[y:y + height, x:x + side] = 200
                areas[group].append(height * side)
            Image.fromarray(image).save(path("apart", group, "%d.png" % i))
    out = path("told_apart")
    r = tap.run([tap.TEXCELL_WU, "analyse", "--analysis", "cellcount", "--defaults", "--device=cpu",
                 "--param=polarity=bright", "--recursive", path("apart"), "-o", out])
    page = os.path.join(out, "report.html")
    reasons = re.findall(r'class=look>look</strong> <small>([^<]*)', text_of(page))
    tap.ok(reasons == ["1, where the median of its group is 28: compare the pictures", "1 of 6"],
           "an image is compared only with its group", (r.stderr, reasons))
    table = text_of(page).partition("<table class=groups>")[2].partition("</tbody>")[0]
    rows = [[html.unescape(re.sub(r"<[^>]*>", "", cell))
             for cell in re.findall(r"<td.*?</td>", row)]
            for row in table.split("<tr>")[2:]]
    expected, counts = [], {group: [int(row["count"]) for row in csv.DictReader(
        text_of(os.path.join(out, "items.csv")).splitlines())
                                    if row["group"] == group] for group in areas}
    for group, group_areas in areas.items():
        quartiles = []
        for values in (counts[group], 2 * np.sqrt(np.array(group_areas) / np.pi), group_areas):
            low, median, high = (round_as_page(q) for q in np.percentile(values, [25, 50, 75]))
            quartiles.append("%s %s\u2013%s" % (median, low, high))
        expected.append([group, "6", str(len(group_areas)), "look 1 of 6" if group == "small"
                         else "ok",
                         *quartiles, "0"])
    tap.ok(rows == expected, "the page has each group's totals", (rows, expected))
    tables = {name: list(csv.DictReader(text_of(os.path.join(out, name + ".csv")).splitlines()))
              for name in ("items", "groups")}
    tap.ok([(row["group"], row["images"], row["cells"], row["at_border"],
             float(row["q1_cells_per_image"]),
             float(row["median_cells_per_image"]), float(row["median_area"]))
            for row in tables["groups"]] ==
           [(group, "6", str(len(group_areas)), "0", *np.percentile(counts[group], [25, 50]),
             float(np.median(group_areas))) for group, group_areas in areas.items()],
           "groups.csv has each group's totals",
           tables["groups"])
    tap.ok([row["group"] for row in tables["items"]] == ["large"] * 6 + ["small"] * 6 and
           [row["why"] for row in tables["items"] if row["mark"] == "look"]
           == reasons[:1] and all(row["mark"] in ("ok", "look") for row in tables["items"]),
           "items.csv has marks and groups", tables["items"])
    export = [tap.TEXCELL_WU, "export", os.path.join(out, "result.npz"), "-o", path("marks"),
              "--only-marks"]
    marks = ["--marks", os.path.join(out, "workunit.zip")]
    codes = [tap.run(export + options).returncode for options in ([], marks + ["--tiff"])]
    r = tap.run(export + marks)
    tap.ok(codes == [1, 1] and r.returncode == 0 and sorted(os.listdir(path("marks"))) ==
           ["exported.txt", "groups.csv", "items.csv"] and
           all(text_of(path("marks", name)) == text_of(os.path.join(out, name))
               for name in ("groups.csv", "items.csv")),
           "export --only-marks writes only the files with marks, with the same bytes",
           (codes, r.stderr))
    if CHROMIUM:
        within, heights, widths = in_browser(page, """
            const box = one => one.getBoundingClientRect(), all = which => [...document.querySelectorAll(which)];
            return [all('.plot svg').map(svg => [...svg.querySelectorAll('text')].every(
                      t => box(t).left >= box(svg).left && box(t).right <= box(svg).right)),
                    all('.plot svg text').map(t => box(t).height), all('.figures svg').map(svg => box(svg).width)];""") or [[]] * 3  # noqa: E501
        tap.ok(len(within) > 3 and all(within), "labels of axes are inside their figures", within)
        tap.ok(heights and max(heights) - min(heights) < 0.5,
               "labels of axes have the same size", heights)
        tap.ok(widths == [4 * 200] * 12, "small pictures are enlarged 4 times", widths)
    walls = np.full((6, 30, 30), 30, np.uint8)
    walls[:, 14:16] = 200
    for fill in (False, True):
        name = "walls%d" % fill
        page, _ = make_page("volume", {"method": "watershed", "h": 5, "fill": fill},
                            [workunit.item(name, list(walls), spacing=[1.0, 1.0, 1.0])], name)
        tap.ok(("<th class=n>threshold" in text_of(page)) != fill,
               name + ": a threshold if it is used")


def main():
    page, result = test_outlines()
    if CHROMIUM is None:
        tap.ok(False, "chromium is installed")
    else:
        test_browser(page, result)
        test_200_items()
        title = in_browser(test_markup(), "return document.title")
        tap.ok(title is not None and "owned" not in title, "a name does not run as a script", title)
    check_addresses(page)
    check_policy(page)
    test_refusals(result)
    test_other_analyses()
    test_own_radii()
    test_analyse()
    test_used_folder()
    test_stains()
    test_sweep()
    test_groups()
    test_noise()
    test_gradual()
    test_drawings()
    test_label_pictures()
    test_label_runs()
    test_touching_cells()
    test_clusters()
    test_dim_cells()
    test_size_notes()
    test_empty_images()
    test_group_comparison()
    tap.done()


if __name__ == "__main__":
    main()
