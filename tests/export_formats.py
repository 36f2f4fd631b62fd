"""Tests texcell-wu export --tiff and --geojson. TIFF: tifffile reads every value, the axes and the
size of a voxel. GeoJSON: polygons enclose exactly the pixels of the labels, and points are those of
the table."""
import csv
import json
import os
import shutil
import signal
import sys

import numpy as np
from scipy import ndimage
from skimage.measure import points_in_poly

import forge
import tap
from oracle import workunit

sys.path.insert(0, os.path.join(tap.SRC, "workunits", "python"))
import texcell

try:
    import tifffile
except ImportError:
    tifffile = None
try:
    import shapely.geometry
except ImportError:
    shapely = None

FOLDER = tap.scratch()
RNG = np.random.default_rng(3)


def path(*parts):
    return os.path.join(FOLDER, *parts)


def content(file):
    with open(file, "rb") as f:
        return f.read()


def export_result(name, analysis, parameters, items):
    """Computes a result and exports it. Returns (result, folder of the export)."""
    unit, result, out = path(name + ".zip"), path(name + ".npz"), path(name)
    workunit.write(unit, analysis, parameters, items)
    r = tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet"])
    if r.returncode == 0:
        r = tap.run([tap.TEXCELL_WU, "export", "--tiff", "--geojson", "--images", unit, result,
                     "-o", out])
    tap.ok(r.returncode == 0, "%s: exported" % name, r.stderr)
    return np.load(result), out


def check_tiff(name, out, array, wanted, spacing):
    """Tests that the exported TIFF has the values of `array`, as dtype `wanted`, its axes, and the
    spacing in micrometres."""
    with tifffile.TiffFile(os.path.join(out, name + ".tif")) as t:
        read, about, page = t.asarray(), t.imagej_metadata or {}, t.pages[0]
        size = [page.tags[k].value[1] / page.tags[k].value[0]
                for k in ("YResolution", "XResolution")] if spacing else None
        axes = t.series[0].axes
    tap.ok(read.dtype == wanted and np.array_equal(read, array, equal_nan=read.dtype.kind == "f"),
           "%s.tif has every value, as %s" % (name, wanted),
           (read.dtype, read.shape))
    tap.ok(axes == ("ZYX" if array.ndim == 3 else "YX"), "%s.tif has the right axes" % name, axes)
    if spacing:
        tap.ok(about.get("unit") == "micron" and np.allclose(size, spacing[1:], rtol=1e-6)
               and (array.ndim < 3 or about.get("spacing") == spacing[0]),
               "%s.tif has the right voxel size" % name, (about, size))


def rings_of(geometry):
    """The polygons of a geometry, each a list of rings."""
    return geometry["coordinates"] if geometry["type"] == "MultiPolygon" else [
        geometry["coordinates"]]


def inside(rings, shape):
    """The mask of the pixels whose centre is inside the rings, which a ray from the left to it
    crosses an odd number of times."""
    crossings = np.zeros((shape[0], shape[1] + 1), int)
    for ring in rings:
        for (x0, y0), (x1, y1) in zip(ring, ring[1:]):
            if x0 == x1:
                crossings[min(y0, y1):max(y0, y1), x0] += 1
    return np.cumsum(crossings, 1)[:, :-1] % 2 == 1


def is_valid(polygon):
    """Whether the rings of a polygon are closed, run along the sides of pixels, and have the right
    direction: the first one counterclockwise (as RFC 7946 requires, y upwards), the holes, inside
    it, clockwise."""
    areas = []
    for ring in polygon:
        a = np.array(ring)
        steps = np.abs(np.diff(a, axis=0))
        if ring[0] != ring[-1] or len(ring) < 5 or ((steps > 0).sum(1) != 1).any():
            return False
        areas.append(np.sum(a[:-1, 0] * a[1:, 1] - a[1:, 0] * a[:-1, 1]) / 2)
    return areas[0] > 0 and all(area < 0 for area in areas[1:]) and \
        all(points_in_poly([np.mean(np.array(hole[:2]), 0) + [0, -0.01]], polygon[0])[0]
            for hole in polygon[1:])


def holes_of(mask):
    """The number of holes in all regions of the mask. Pixels of a region, and of a hole, touch at
    their sides; the part that surrounds a region is no hole."""
    regions, n = ndimage.label(mask)
    return sum(ndimage.label(np.pad(regions != i, 1, constant_values=True))[1] - 1
               for i in range(1, n + 1))


def check_shapes(name, features, labels):
    """Tests that GEOS finds the polygons valid, with the areas and numbers of holes of the
    labels."""
    bad = []
    for feature in features:
        shape = shapely.geometry.shape(feature["geometry"])
        plane = labels[feature["geometry"]["plane"]["z"]] if labels.ndim == 3 else labels
        mask = plane == feature["properties"]["label"]
        parts = getattr(shape, "geoms", [shape])
        if not shape.is_valid or shape.area != mask.sum() or sum(len(p.interiors)
                                                                 for p in parts) != holes_of(mask):
            bad.append((feature["properties"]["label"], shape.is_valid, shape.area, mask.sum()))
    tap.ok(not bad,
           "%s.geojson: GEOS finds %d valid polygons, with the areas and holes of the labels" %
           (name, len(features)), bad[:3])


def check_regions(name, out, labels, title):
    """Tests that the filled polygons of a GeoJSON file are the label picture."""
    with open(os.path.join(out, name + ".geojson"), encoding="utf-8") as f:
        collection = json.load(f)
    painted, bad = np.zeros(labels.shape, labels.dtype), []
    for feature in collection["features"]:
        polygons = rings_of(feature["geometry"])
        where = inside([ring for polygon in polygons for ring in polygon], labels.shape[-2:])
        label = feature["properties"]["label"]
        into = painted[feature["geometry"]["plane"]["z"]] if labels.ndim == 3 else painted
        if not all(is_valid(p)
                   for p in polygons) or (into[where] != 0).any() or feature["properties"][
                "name"] != "%s %d" % (title, label):
            bad.append((label, polygons))
        into[where] = label
    tap.ok(not bad, "%s.geojson: %d features with valid rings" %
           (name, len(collection["features"])), bad[:2])
    if shapely is not None:
        check_shapes(name, collection["features"], labels)
    tap.ok(collection["type"] == "FeatureCollection" and np.array_equal(painted, labels),
           "%s.geojson: the filled polygons are the labels" % name)


def test_kills(name, signals=(signal.SIGKILL, signal.SIGTERM)):
    """An export killed at any call that changes files leaves only complete files; the same command,
    repeated, writes the others and removes incomplete ones."""
    library, count, out = path("kill_at.so"), path("count"), path("killed")
    made = tap.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-o", library,
                    os.path.join(tap.SRC, "tests", "resume", "kill_at.c"), "-ldl"])
    argv = [tap.TEXCELL_WU, "export", "--tiff", "--geojson", "--images", path(name + ".zip"),
            path(name + ".npz"), "-o", out]

    def export(**env):
        return tap.run(argv, env=dict(os.environ, **env)).returncode

    def files():
        return {n: content(os.path.join(out, n))
                for n in os.listdir(out)} if os.path.isdir(out) else {}

    whole = export(LD_PRELOAD=library, KILL_COUNT=count) if made.returncode == 0 else None
    if not tap.ok(whole == 0, "%s: exported, its calls counted" % name, made.stderr):
        return
    expected, calls, bad, ended = files(), int(content(count)), [], 0
    for n in range(1, calls + 1, max(1, calls // 30)):
        for number in signals:
            shutil.rmtree(out, True)
            code = export(LD_PRELOAD=library, KILL_AT=str(n),
                          **({"KILL_SIGNAL": str(int(number))} if number != signal.SIGKILL else {}))
            left_files = files()
            half = [f for f in left_files if f != "exported.txt" and not f.endswith(".tmp") and
                    left_files[f] != expected.get(f)]
            again = export()
            ended += code == -number
            if code != -number or half or again != 0 or files() != expected:
                bad.append((n, number, code, half, again, sorted(files())))
    tap.ok(ended > 20 and not bad,
           "%s: killed %d times at %d calls: no incomplete file, and the same command writes all "
           "files" % (name, ended, calls), bad[:3])


def rows_of(*parts):
    with open(path(*parts), encoding="utf-8") as f:
        return list(csv.DictReader(f))


def test_voxel_sizes(analysis, table, stack):
    """Without the size of a voxel no column is in micrometres; if only some of the stacks have a
    size, the volumes of the others are NaN."""
    labels = (list(ndimage.label(stack == 20)[0].astype(np.uint16)) if analysis == "objects"
              else None)
    for name, known in (("unknown", []), ("mixed", ["a"])):
        out = "%s_%s" % (analysis, name)
        export_result(out, analysis, {"membrane": 100} if labels is None else {},
                      [workunit.item(n, list(stack), labels=labels,
                                     spacing=[2.0, 0.5, 0.25] if n in known else []) for n in "ab"])
        units = {row["column"]: row["unit"] for row in rows_of(out, "columns.csv")}
        title = "volume_voxels" if not known else "volume_um3" if labels else "volume"
        rows = rows_of(out, table + ".csv")
        expected = [float(row["voxels"]) * (1 if not known else 0.25 if row["item"] in known
                                            else np.nan) for row in rows]
        tap.ok({row["item"] for row in rows} == {"a", "b"} and
               np.array_equal([float(row[title]) for row in rows], expected, equal_nan=True),
               out + ": volumes", expected)
        um = [column for column, unit in units.items() if "um" in unit or "_um" in column]
        tap.ok(bool(um) == bool(known) and units[title] == ("um^3" if known else "voxel") and
               ("voxel_volume" in units) == bool(known and not labels),
               out + ": units", units)
        columns = texcell.read(path(out + ".npz")).tables[table]
        tap.ok(list(columns) == list(rows[0]) and
               np.array_equal(columns[title], expected, equal_nan=True), out +
               ": the same in Python",
               list(columns))


def test_picture_measures():
    """The column `measure` of a picture is in pixels even if the size of a pixel is known."""
    wide = [workunit.item(name, [np.full((24, 24), 200, np.uint8)], spacing=spacing)
            for name, spacing in (("a", [0.5, 0.25]), ("b", []))]
    r, out = export_result("pictures", "levelset", {"target": 200, "epsilon": 60, "iterations": 5,
                                                    "init": {"type": "box", "x0": 8, "y0": 6,
                                                             "x1": 20,
                                                             "y1": 18}}, wide)
    units = {row["column"]: row["unit"] for row in rows_of("pictures", "columns.csv")}
    tap.ok([float(row["measure"]) for row in rows_of("pictures", "items.csv")] ==
           r["inside_voxels"].tolist() ==
           texcell.read(path("pictures.npz")).tables["items"]["measure"].tolist()
           and units["measure"] == "pixel^2",
           "measures of pictures are in pixels, though one has a pixel size", units)


def test_far_points():
    """Points with coordinates that no analysis computes are not exported, without an error."""
    yy, xx = np.mgrid[:24, :48]
    spots = np.stack([((yy - 11) ** 2 + (xx % 24 - 12) ** 2 + (z - 5) ** 2 <=
                       16).astype(np.uint8) * 200 for z in range(11)])
    r, _ = export_result("stack", "voting", {"radius": 4}, [workunit.item("s", list(spots))])
    places = [-3e231, 3e231, 2.0 ** 63, 65534.6, -0.6, 2.4]
    far = forge.Result(path("stack.npz"))
    for name, array in far.arrays.items():
        if name != "point" and array.shape[:1] == (len(r["point"]),):
            far.arrays[name] = np.repeat(array[:1], len(places), 0)
    far.arrays["point"] = np.array([[z, 1, 2] for z in places])
    with open(path("far.npz"), "wb") as f:
        f.write(far.bytes())
    run = tap.run([tap.TEXCELL_WU, "export", "--geojson", path("far.npz"), "-o", path("far")])
    found = []
    if run.returncode == 0:
        with open(path("far", "points_s.geojson"), encoding="utf-8") as f:
            found = [feature["geometry"].get("plane", {}).get("z")
                     for feature in json.load(f)["features"]]
    tap.ok(found == [None, None, None, None, None, 2], "points outside all slices are not exported",
           (found, run.stderr))


def main():
    noise = (RNG.random((60, 70)) < 0.6).astype(np.uint8) * 255
    targets = np.zeros((41, 41), np.uint8)
    # Rings inside rings, so that each polygon has one hole.
    for r, grey in ((20, 255), (16, 0), (12, 255), (8, 0), (4, 255)):
        targets[20 - r:21 + r, 20 - r:21 + r] = grey
    items = [workunit.item("noise", [noise]), workunit.item("rings", [targets])]
    for connectivity in (4, 8):
        name = "cells%d" % connectivity
        r, out = export_result(name, "cellcount", {"labels": True, "threshold": 128,
                                                   "polarity": "bright",
                                                   "connectivity": connectivity},
                               items)
        for item in ("noise", "rings"):
            check_regions("labels_" + item, out, r["labels_" + item], "regions")
            check_tiff("labels_" + item, out, r["labels_" + item], np.uint16, None)
    many = np.zeros((600, 600), np.uint8)
    many[::2, ::2] = 255
    if not tap.sanitized():                    # a sanitizer must be the first preloaded library
        test_kills("cells4")
    r, out = export_result("many", "cellcount",
                           {"labels": True, "threshold": 128, "polarity": "bright"},
                           [workunit.item("many", [many])])
    check_tiff("labels_many", out, r["labels_many"], np.uint32, None)

    stack = np.full((9, 30, 40), 20, np.uint8)
    stack[2:8, 5:25, 6:34] = 200
    stack[4:6, 9:20, 10:18] = stack[4:6, 9:20, 22:30] = 20
    r, out = export_result("deep", "volume", {"membrane": 100, "labels": True},
                           [workunit.item("s", list(stack), spacing=[2.0, 0.5, 0.25])])
    check_regions("labels_s", out, r["labels_s"], "cells")
    check_tiff("labels_s", out, r["labels_s"], np.uint16, [2.0, 0.5, 0.25])
    test_picture_measures()
    for analysis, table in (("volume", "cells"), ("objects", "objects")):
        test_voxel_sizes(analysis, table, stack)

    r, out = export_result("mask", "levelset", {"target": 200, "epsilon": 60, "iterations": 20,
                                                "init": {"type": "box", "x0": 8, "y0": 6, "x1": 30,
                                                         "y1": 22}},
                           [workunit.item("m", [stack[4]])])
    check_regions("mask_m", out, r["mask_m"], "inside")
    check_tiff("mask_m", out, r["mask_m"] * np.uint8(255), np.uint8, None)
    r, out = export_result("map", "glcm",
                           {"levels": [16], "distances": [1], "window": {"radius": 3},
                                           "maps": [{"feature": "contrast", "levels": 16,
                                                     "offset": [1, 0]}]},
                           [workunit.item("g", [noise])])
    name = next(n for n in r.files if n.startswith("map_"))
    check_tiff(name, out, r[name], np.float32, None)

    yy, xx = np.mgrid[:60, :60]
    spots = (((yy - 20) ** 2 + (xx - 20) ** 2 <= 64) |
             ((yy - 40) ** 2 + (xx - 44) ** 2 <= 64)).astype(np.uint8) * 200
    r, out = export_result("points", "voting", {"radius": 8}, [workunit.item("v", [spots])])
    with open(os.path.join(out, "points_v.geojson"), encoding="utf-8") as f:
        found = [f["geometry"]["coordinates"] for f in json.load(f)["features"]]
    tap.ok(len(found) > 0 and np.array_equal(np.array(found) - 0.5, r["point"][:, ::-1]),
           "points.geojson: the points are those of the table", found)

    test_far_points()

    before = sorted(os.listdir(path("cells8")))
    with open(path("cells8", "own.tif"), "wb") as f:
        f.write(b"mine")
    r = tap.run([tap.TEXCELL_WU, "export", "--pictures", path("cells8.npz"), "-o", path("cells8")])
    left_files = sorted(os.listdir(path("cells8")))
    tap.ok(r.returncode == 0 and left_files ==
           sorted([n for n in before if not n.endswith((".tif", ".geojson"))] + ["own.tif"]),
           "the next export removes the files of this one, and no others", (left_files, r.stderr))
    tap.done()


if __name__ == "__main__":
    main()
