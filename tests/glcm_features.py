"""Tests glcm with `features`: all features of the Image Biomarker Standardisation Initiative
(IBSI), and lists of them, are compared window by window with the definitions in float64
(oracle/objects_oracle.py); maps; a whole ROI, and IBSI's phantom; the same file from any number of
threads and from a device."""
import os
import re

import numpy as np

import compiled
import tap
from glcm_ibsi import PHANTOM
from objects_oracle_test import PUBLISHED
from oracle import glcm_oracle, objects_oracle, workunit
from oracle.workunit import item
from pictures import blobs

FOLDER = tap.scratch()
os.environ["POCL_CACHE_DIR"] = compiled.copy(FOLDER, "glcm")
ALL = objects_oracle.IBSI


def run(parameters, items, *more):
    """The arrays of the result, or stderr if the run fails."""
    unit = workunit.write(os.path.join(FOLDER, "u.zip"), "glcm", parameters, items)
    result = os.path.join(FOLDER, "r.npz")
    r = tap.run([tap.TEXCELL, "run", unit, "-o", result, "--quiet", *(more or ("--device", "cpu"))])
    if r.returncode:
        return r.stderr
    with np.load(result) as z:
        return {k: z[k] for k in z.files}


def windows(levels, grey, offset, radius, square):
    """{(y, x): features} of all windows that have at least one pair of pixels."""
    dx, dy = offset
    q = grey.astype(int) * levels // 256
    height, width = q.shape
    span = range(-radius, radius + 1)
    inside = [(y, x) for y in span for x in span if square or y * y + x * x <= radius * radius]
    pairs = [(y, x) for y, x in inside if (y + dy, x + dx) in inside]
    found = {}
    for cy in range(height):
        for cx in range(width):
            c = np.zeros((levels, levels))
            for y, x in pairs:
                ends = (cy + y, cx + x), (cy + y + dy, cx + x + dx)
                if all(0 <= v < height and 0 <= u < width for v, u in ends):
                    a, b = (q[e] for e in ends)
                    c[a, b] += 1
                    c[b, a] += 1
            if c.sum() > 0:
                found[cy, cx] = objects_oracle.features(c / c.sum())
    return found


def is_near(found, want, scale):
    """Whether `found` equals `want` but for rounding: texcell stores values as multiples of 2^-32,
    or of 2^-48 of `scale`, the largest possible value."""
    return abs(found - want) <= 2e-9 + 1e-9 * abs(want) + 2.0 ** -46 * scale


def test_sliding(levels, names, square):
    """Sliding windows: all columns of the features and some maps."""
    grey = blobs(13, 15, levels)
    maps = [{"feature": n, "levels": levels, "offset": [1, 0]} for n in names[:20]]
    r = run({"levels": [levels], "distances": [1], "directions": "four",
             "window": {"shape": "square" if square else "disc", "radius": 3},
             "features": names if len(names) < 24 else "ibsi", "maps": maps, "per_offset": True},
            [item("a", [grey])])
    if not tap.ok(isinstance(r, dict), "%d levels: texcell computes the unit" % levels, r):
        return
    ordered = [n for n in ALL if n in names]
    titles = ["glcm_L%d_d01_%s_%s" % (levels, n, s) for n in ordered
              for s in ("mean", "range", "sd", "min", "max")]
    tap.ok(list(r["feature_names"]) == titles and r["offset_features"].shape[3] == len(names),
           "%d levels: the result has the columns of the features" % levels)
    of = [windows(levels, grey, tuple(o[:2]), 3, square) for o in r["offsets"]]
    wrong = []
    for f, name in enumerate(ordered):
        scale = {"cluster_shade": (2 * levels) ** 3,
                 "cluster_prominence": (2 * levels) ** 4}.get(name, 1)
        values = [np.array([w[name] for w in o.values()]) for o in of]
        means = [v.mean() for v in values]
        want = [np.mean(means), max(means) - min(means),
                np.sqrt(np.mean([v.var() for v in values])), min(v.min() for v in values),
                max(v.max() for v in values)]
        for k, statistic in enumerate(want):
            found = r["features"][0, 5 * f + k]
            if not is_near(found, statistic, scale) and not (name == "imc2" and
                                                             abs(found - statistic) < 1e-7):
                wrong.append("%s %d: %.17g, not %.17g" % (name, k, found, statistic))
        for m, (y, x) in enumerate(list(of[0])[:40] if name in names[:20] else []):
            first = windows_at(r, name, levels)
            if first is not None and not abs(
                    first[y, x] - for_first_offset(r, of)[y, x][name]) <= 1e-6 * (
                        1 + abs(first[y, x])):
                wrong.append("map of %s at %d %d" % (name, y, x))
    tap.ok(not wrong,
           "%d levels, %s window: features and maps are those of the definitions"
           % (levels, "square" if square else "disc"),
           "\n".join(wrong[:9]))
    check_same_file({"levels": [levels], "distances": [1, 2], "window": {"radius": 3},
                     "features": names},
                    [item("a", [grey])], levels)


def for_first_offset(r, entries):
    """The one of `entries`, one for each offset of the result r, that belongs to (1, 0)."""
    return entries[[tuple(o[:2]) for o in r["offsets"]].index((1, 0))]


def windows_at(r, name, levels):
    return r.get("map_a_%s_L%d_1_0" % (name, levels))


def check_same_file(parameters, items, levels):
    """Threads and devices give the same file, and texcell-validate accepts it."""
    unit = workunit.write(os.path.join(FOLDER, "s.zip"), "glcm", parameters, items)
    devices = [("cpu", "1"), ("cpu", "3")]
    if "usable" in re.sub("not usable", "", tap.run([tap.TEXCELL, "devices"]).stdout):
        devices.append(("opencl", "1"))
    made = []
    for device, threads in devices:
        path = os.path.join(FOLDER, "s.npz")
        r = tap.run([tap.TEXCELL, "run", unit, "-o", path, "--device", device, "--threads", threads,
                     "--quiet"])
        made.append(open(path, "rb").read() if r.returncode == 0 else r.stderr)
    tap.ok(len(set(made)) == 1 and isinstance(made[0], bytes),
           "%d levels: the same file from %s" % (levels, devices), made[-1][:200])
    for verb in (["check"], ["verify", "--fraction", "1"]):
        r = tap.run([tap.TEXCELL_VALIDATE, *verb, unit, os.path.join(FOLDER, "s.npz")])
        tap.ok(r.returncode == 0, "%d levels: %s accepts it" % (levels, verb[0]), r.stderr)


def test_phantom():
    masks = list(PHANTOM > 0)
    r = run({"levels": [6], "range": [1, 6], "window": {"shape": "roi"}, "distances": [1],
             "directions": "four", "features": "ibsi",
             "roi": {"type": "mask"}}, [item("phantom", list(PHANTOM), masks)])
    wrong = []
    for name, values in PUBLISHED.items():
        found = r["features"][0, list(r["feature_names"]).index("glcm_L6_d01_%s_mean" % name)]
        half = 0.5 * 10.0 ** -len((values[0].split(".") + [""])[1])
        if not abs(found - float(values[0])) <= half:
            wrong.append("%s: %.9g, not %s" % (name, found, values[0]))
    tap.ok(not wrong, "IBSI's phantom by slice, averaged: all published digits of 24 features",
           "\n".join(wrong))


def test_thirteen():
    """Other features computed as well do not change Haralick's 13 features."""
    grey = blobs(30, 33, 4)
    parameters = {"levels": [16, 64], "distances": [1, 3], "window": {"radius": 5}}
    old, new = (run(parameters, [item("a", [grey])]),
                run(dict(parameters, features="ibsi"), [item("a", [grey])]))
    columns = [list(new["feature_names"]).index(n) for n in old["feature_names"]]
    tap.ok(np.array_equal(old["features"], new["features"][:, columns]),
           "Haralick's 13 features have the same bits with the others")
    few = run(dict(parameters, features=["idm", "asm"]), [item("a", [grey])])
    columns = [list(old["feature_names"]).index(n) for n in few["feature_names"]]
    tap.ok(np.array_equal(few["features"], old["features"][:, columns]),
           "a list gives only its features, in their order")
    r = run(dict(parameters, features=["asm"],
                 maps=[{"feature": "idm", "levels": 16, "offset": [1, 0]}]), [item("a", [grey])])
    tap.ok(isinstance(r, str) and "idm is not one of the features" in r,
           "a map of another feature is refused", r)


def main():
    assert glcm_oracle is not None
    test_phantom()
    test_thirteen()
    test_sliding(8, ALL, False)
    test_sliding(5, ["cluster_prominence", "joint_maximum", "contrast"], True)
    test_sliding(200, ALL, False)
    tap.done()


if __name__ == "__main__":
    main()
