"""Tests objects against an oracle with scikit-image and NumPy (oracle/objects_oracle.py): random
and real label pictures, stacks, the phantom of the Image Biomarker Standardisation Initiative
(IBSI), large objects whose pixels are divided among threads, and label pictures from several
sources."""
import json
import os
import sys
import zipfile

import numpy as np
import tifffile
from PIL import Image
from skimage import measure

import tap
from analyses.objects import FEATURES, squares, texture, tiles
from oracle import objects_oracle, workunit
from oracle.ibsi import PHANTOM
from oracle.workunit import item

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cpu"
FOLDER = tap.scratch()
# For objects without width scikit-image's axis lengths are up to some 1e-7, not 0
# (docs/dev/analyses/objects.md).
THIN = {"object_axis_minor_length": 1e-6, "object_axis_length": 1e-6}


def path(name):
    return os.path.join(FOLDER, name)


def compute(parameters, items, threads=1):
    unit = workunit.write(path("unit.zip"), "objects", parameters, items)
    return compute_unit(unit, threads)


def compute_unit(unit, threads=1):
    r = tap.run([tap.TEXCELL, "run", unit, "-o", path("r.npz"), "--device", DEVICE, "--threads",
                 str(threads), "--quiet"])
    if r.returncode != 0:
        tap.note(r.stderr)
        return {}
    with np.load(path("r.npz")) as z:
        return dict(z)


def differences(got, want, index):
    """Yields a line for each column in which the rows of item `index` differ from the expected
    ones."""
    rows = got["object_item"] == index
    for name, values in want.items():
        found = got[name][rows].astype(np.float64)
        if found.shape != values.shape:
            yield "%s: %s, not %s" % (name, found.shape, values.shape)
            continue
        near = np.isclose(found, values, rtol=1e-9, atol=1e-9, equal_nan=True)
        thin = (found == 0) & (np.abs(values) < THIN.get(name, 0))
        for position in np.argwhere(~(near | thin))[:2]:
            yield "%s %s: %.17g, not %.17g" % (name, position, found[tuple(position)],
                                               values[tuple(position)])


def check(title, parameters, items, threads=1):
    """Compares a result with the oracle, and returns the number of objects."""
    got = compute(parameters, items, threads)
    if not tap.ok(got != {}, title + ": computed"):
        return 0
    expected = [objects_oracle.analyse(it, parameters, i) for i, it in enumerate(items)]
    wrong = [d for i, want in enumerate(expected) for d in differences(got, want, i)]
    rows = sum(len(w.get("object_label", [])) for w in expected)
    tap.ok(not wrong and len(got["object_label"]) == rows, "%s: %d objects" % (title, rows),
           "\n".join(wrong[:9]))
    return rows


# --- pictures -------------------------------------------------------------------------------------

def random_labels(rng, *shape):
    """One of four kinds of label pictures: random labels per pixel; connected components of noise;
    stripes with random holes; blocks."""
    kind = rng.integers(4)
    if kind == 0:
        return rng.integers(0, 60, shape)
    if kind == 1:
        return measure.label(rng.random(shape) < 0.45) * 7
    if kind == 2:
        where = np.indices(shape)
        return (where[-1] + (2 if rng.integers(2) else 1) * where[-2]) // 3 % 9 * (
            rng.random(shape) < 0.9)
    return tiles(int(rng.integers(1000)), 9, *shape)


def test_random_objects():
    rng = np.random.default_rng(15)
    sets = ["haralick", "ibsi", ["asm", "imc2", "cluster_shade"]]
    n = 0
    for i in range(6):
        bits = 257 if i % 2 else 1
        items = [item("p%d" % k,
                      [texture(k, 37, 45).astype(np.uint16 if bits > 1 else np.uint8) * bits],
                      labels=[random_labels(rng, 37, 45)]) for k in range(4)]
        n += check("random pictures %d" % i,
                   {"levels": (2, 16, 256)[i % 3], "distances": [1, 2, 40][:1 + i % 3],
                    "texture_features": sets[i % 3],
                    "aggregate": ("average", "merge")[i % 2],
                    "range": ("object", "image", "type", [90, 130])[i % 4],
                    "exclude_border": i == 4}, items, 1 + i % 3)
        stacks = [item("s%d" % k, list(texture(k, 7, 15, 17)),
                       labels=list(random_labels(rng, 7, 15, 17)),
                       spacing=[(0.5, 0.25, 0.3), (1, 1, 1)][k % 2]) for k in range(2)]
        n += check("random stacks %d" % i,
                   {"levels": 8, "distances": [1, 2], "texture_features": sets[i % 3],
                    "aggregate": ("merge", "average")[i % 2]}, stacks, 1 + i % 2)
    tap.ok(n >= 1000, "%d random objects and more" % 1000, n)


def test_large_objects():
    """Objects of more than 2^18 pixels, which are divided among threads."""
    rng = np.random.default_rng(3)
    shape = (640, 700)
    y, x = np.indices(shape)
    one = np.where(rng.random(shape) < 0.97, 5, 0)
    one[200:240, 300:420] = 9
    ring = np.where(((y - 320) ** 2 + (x - 350) ** 2 < 318 ** 2) & (x % 50 > 0), 2, 1)
    items = [item("one", [texture(1, *shape)], labels=[one]),
             item("ring", [texture(2, *shape) * np.uint16(99)], labels=[ring])]
    for threads in (1, 3):
        check("large objects, %d threads" % threads,
              {"texture_features": "ibsi", "distances": [1, 9]}, items, threads)
    check("a large object of a stack",
          {"texture_features": "ibsi", "aggregate": "merge", "levels": 9},
          [item("s", list(texture(4, 7, 210, 220)),
                labels=list(np.where(rng.random((7, 210, 220)) < 0.95, 3, 0)),
                spacing=[2, 1, 1])], 2)


def test_more_threads_than_parts():
    """Small objects, and a large one of fewer parts than threads: some threads only have small
    ones."""
    labels = np.zeros((560, 1070), int)
    labels[:560:8, 1060] = np.arange(1, 71)
    labels[20:540, 20:1040] = 71
    items = [item("one", [texture(1, *labels.shape)], labels=[labels])]
    want = compute({}, items)["object_glcm"].tobytes()
    runs = [compute({}, items, 8) for _ in range(8)]
    tap.ok(all(got and got["object_glcm"].tobytes() == want for got in runs),
           "a large object of fewer parts than threads")


# --- the phantom ----------------------------------------------------------------------------------

# The values in IBSI's reference manual for the four ways of aggregation, in this order: by slice,
# averaged; by slice, merged; 3D, averaged; 3D, merged.
PUBLISHED = {
    "joint_maximum": ("0.519", "0.512", "0.503", "0.509"),
    "joint_average": ("2.14", "2.14", "2.14", "2.15"),
    "variance": ("2.69", "2.71", "3.10", "3.13"), "entropy": ("2.05", "2.24", "2.40", "2.57"),
    "difference_average": ("1.42", "1.40", "1.43", "1.38"),
    "difference_variance": ("2.90", "3.06", "3.06", "3.21"),
    "difference_entropy": ("1.40", "1.49", "1.56", "1.64"),
    "sum_average": ("4.28", "4.29", "4.29", "4.30"),
    "sum_variance": ("5.47", "5.66", "7.07", "7.41"),
    "sum_entropy": ("1.60", "1.79", "1.92", "2.11"),
    "asm": ("0.368", "0.352", "0.303", "0.291"), "contrast": ("5.28", "5.19", "5.32", "5.12"),
    "inverse_difference": ("0.678", "0.683", "0.677", "0.688"),
    "inverse_difference_normalised": ("0.851", "0.854", "0.851", "0.856"),
    "idm": ("0.619", "0.625", "0.618", "0.631"),
    "inverse_difference_moment_normalised": ("0.899", "0.901", "0.898", "0.902"),
    "inverse_variance": ("0.0567", "0.0553", "0.0604", "0.0574"),
    "correlation": ("-0.0121", "0.0173", "0.157", "0.183"),
    "autocorrelation": ("5.09", "5.14", "5.06", "5.19"),
    "cluster_tendency": ("5.47", "5.66", "7.07", "7.41"),
    "cluster_shade": ("7.00", "6.98", "16.6", "17.4"),
    "cluster_prominence": ("79.1", "80.4", "145", "147"),
    "imc1": ("-0.155", "-0.0341", "-0.157", "-0.0288"),
    "imc2": ("0.487", "0.263", "0.520", "0.269")}


def test_phantom():
    labels = (PHANTOM > 0).astype(int)
    slices = [item("z%d" % z, [PHANTOM[z]], labels=[labels[z]]) for z in range(4)]
    stack = [item("phantom", list(PHANTOM), labels=list(labels))]
    for k, (title, items, aggregate) in enumerate((("by slice, averaged", slices, "average"),
                                                   ("by slice, merged", slices, "merge"),
                                                   ("3D, averaged", stack, "average"),
                                                   ("3D, merged", stack, "merge"))):
        got = compute({"families": ["texture"], "texture_features": "ibsi", "levels": 6,
                       "range": [1, 6],
                       "aggregate": aggregate}, items).get("object_glcm", np.zeros((1, 24))).mean(0)
        wrong = []
        for name, values in PUBLISHED.items():
            half = 0.5 * 10.0 ** -len((values[k].split(".") + [""])[1])
            if not abs(got[FEATURES.index(name)] - float(values[k])) <= half:
                wrong.append("%s: %.9g, not %s" % (name, got[FEATURES.index(name)], values[k]))
        tap.ok(not wrong, "IBSI's phantom, %s: all published digits of 24 features" % title,
               "\n".join(wrong))
    got = compute({"families": ["shape"]}, [dict(stack[0], spacing=[2, 2, 2])])
    shape = [float("%.3g" % got["object_" + name][0])
             for name in ("volume_um3", "mesh_volume", "surface", "sphericity")]
    tap.ok(shape == [592, 556, 388, 0.843],
           "IBSI's phantom: its voxels' and its mesh's volume, surface and sphericity", shape)


# --- where labels come from -----------------------------------------------------------------------

def pack(*arguments):
    return tap.run([tap.TEXCELL_WU, "pack", *arguments])


def check_sources(title, picture, labels, want, *more):
    r = pack("--analysis", "objects", "-o", path("p.zip"), "--labels", labels, *more, picture)
    if tap.ok(r.returncode == 0, title + ": packed", r.stderr):
        wrong = list(differences(compute_unit(path("p.zip")), want, 0))
        tap.ok(not wrong, title + ": measured", "\n".join(wrong[:9]))


def test_sources_of_labels():
    """pack stores label pictures from several kinds of files, and the result is the oracle's."""
    grey, labels = texture(8, 50, 60), tiles(4, 9, 50, 60)
    picture = path("cells.tif")
    tifffile.imwrite(picture, grey)
    with open(path("l8.png"), "wb") as f:
        f.write(workunit.png(labels.astype(np.uint8)))
    with open(path("l16.png"), "wb") as f:
        f.write(workunit.png(labels.astype(np.uint16)))
    for name, dtype in (("u8", np.uint8), ("u16", np.uint16), ("u32", np.uint32), ("i32", np.int32),
                        ("f32", np.float32)):
        tifffile.imwrite(path(name + ".tif"), labels.astype(dtype))
    palette = Image.fromarray(labels.astype(np.uint8))
    palette.putpalette(np.random.default_rng(1).integers(0, 256, 768).astype(np.uint8).tobytes())
    palette.save(path("palette.png"))
    tifffile.imwrite(path("palette.tif"), labels.astype(np.uint8), photometric="palette",
                     colormap=np.full((3, 256), 9000, np.uint16))
    want = objects_oracle.analyse(item("cells", [grey], labels=[labels]), {})
    for name in ("palette.png", "palette.tif", "l8.png", "l16.png", "u8.tif", "u16.tif", "u32.tif",
                 "i32.tif", "f32.tif"):
        check_sources("labels from " + name, picture, path(name), want)
    many = np.where(labels > 0, labels + 70000, 0)
    tifffile.imwrite(path("many.tif"), many.astype(np.uint32))
    check_sources("labels of 24 bits", picture, path("many.tif"),
                  objects_oracle.analyse(item("cells", [grey], labels=[many]), {}))
    os.makedirs(path("folder"), exist_ok=True)
    tifffile.imwrite(path("folder/cells.tif"), labels.astype(np.uint16))
    check_sources("labels by name in a folder", picture, path("folder"), want)
    for name, values, words in (("wide", labels[:, :59],
                                 "the label picture is 59 x 50 of 1 page(s), but"),
                                ("half", labels + 0.5, "a value that is not a label: labels "
                                 "are whole numbers from 0 to 16777215"),
                                ("minus", labels - 1, "a value that is not a label"),
                                ("beyond", labels + (1 << 24), "a value that is not a label")):
        tifffile.imwrite(path(name + ".tif"),
                         values.astype(np.float32 if name == "half" else np.int32))
        r = pack("--analysis", "objects", "-o", path("p.zip"), "--labels", path(name + ".tif"),
                 picture)
        tap.ok(r.returncode != 0 and words in r.stderr and name + ".tif" in r.stderr,
               "refused by name: " + words, r.stderr)
    np.save(path("cells_seg.npy"), labels)
    r = pack("--analysis", "objects", "-o", path("p.zip"), "--labels", path("cells_seg.npy"),
             picture)
    tap.ok(r.returncode != 0 and "cells_seg.npy: is an array of NumPy" in r.stderr,
           "an array of NumPy as labels is refused", r.stderr)
    r = pack("--analysis", "objects", "-o", path("p.zip"), picture)
    tap.ok(r.returncode != 0 and "has no labels" in r.stderr,
           "objects without labels is refused", r.stderr)
    r = pack("--analysis", "glcm", "--labels", path("u8.tif"), "-o", path("p.zip"), picture)
    tap.ok(r.returncode != 0 and "takes none" in r.stderr,
           "labels for glcm, which uses none, are refused",
           r.stderr)
    test_wrong_count(item("cells", [grey], labels=[labels]), len(np.unique(labels)) - 1)


def test_wrong_count(it, count):
    """A work unit that states a wrong number of objects is refused."""
    unit = workunit.write(path("lie.zip"), "objects", {}, [it])
    with zipfile.ZipFile(unit) as z:
        members = {n: z.read(n) for n in z.namelist()}
    job = json.loads(members["job.json"])
    job["items"][0]["objects"] = count + 1
    members["job.json"] = json.dumps(job).encode()
    with zipfile.ZipFile(unit, "w") as z:
        for name, data in members.items():
            z.writestr(name, data)
    r = tap.run([tap.TEXCELL, "run", unit, "-o", path("lie.npz"), "--device", "cpu", "--quiet"])
    tap.ok(r.returncode == 2 and "%d different labels, not %d objects" %
           (count, count + 1) in r.stderr,
           "labels with another number of objects than stated are refused", r.stderr)


def test_labels_of_results():
    """The labels of results of cellcount and volume are used as label pictures."""
    picture, stack = path("count.png"), path("walls.tif")
    y, x = np.indices((60, 70))
    grey = np.where((y % 20 - 9) ** 2 + (x % 23 - 9) ** 2 < 30, 60, 200).astype(np.uint8)
    with open(picture, "wb") as f:
        f.write(workunit.png(grey))
    solid = np.where(squares(20, 30, 40) > 0, 10, 200).astype(np.uint8)
    tifffile.imwrite(stack, solid)
    for analysis, source, extra, pixels in (("cellcount", picture, [], grey),
                                            ("volume", stack, ["--param", "membrane=90"], solid)):
        r = pack("--analysis", analysis, "--param", "labels=true", *extra, "-o", path("l.zip"),
                 source)
        tap.ok(r.returncode == 0, analysis + ": packed", r.stderr)
        r = tap.run([tap.TEXCELL, "run", path("l.zip"), "-o", path("l.npz"), "--device", "cpu",
                     "--quiet"])
        tap.ok(r.returncode == 0, analysis + ": computed", r.stderr)
        with np.load(path("l.npz")) as z:
            labels = z[[n for n in z.files if n.startswith("labels_")][0]]
        made = item("x", list(pixels) if pixels.ndim == 3 else [pixels],
                    labels=list(labels) if labels.ndim == 3 else [labels])
        tap.ok(labels.max() > 4, analysis + ": has found objects", labels.max())
        check_sources("labels from a result of " + analysis, source, path("l.npz"),
                      objects_oracle.analyse(made, {}))
    r = pack("--analysis", "objects", "--labels", path("l.npz"), "-o", path("p.zip"), picture)
    tap.ok(r.returncode != 0 and "has no labels of an item \"count\"" in r.stderr,
           "labels from a result of other items are refused", r.stderr)


def test_real_pictures():
    """Label pictures among the real pictures, if they are present."""
    root = os.path.join(tap.SRC, "..", "shared", "data", "count")
    found = sorted(os.path.join(d, f) for d, _, files in os.walk(root) for f in files
                   if f.endswith(".png"))[:3]
    if not found:
        tap.skip("real pictures", "no data beside the checkout")
    from skimage import io
    for name in found:
        grey = io.imread(name)[:400, :400]
        grey = grey if grey.ndim == 2 else grey[..., :3].astype(np.uint32).sum(-1) // 3
        labels = measure.label(grey < np.percentile(grey, 25))
        check("real: " + os.path.basename(name), {"levels": 16},
              [item("r", [grey.astype(np.uint8)], labels=[labels])])


def main():
    test_phantom()
    test_random_objects()
    test_large_objects()
    test_more_threads_than_parts()
    test_sources_of_labels()
    test_labels_of_results()
    test_real_pictures()
    tap.done()


if __name__ == "__main__":
    main()
