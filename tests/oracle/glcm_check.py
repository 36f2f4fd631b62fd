"""Runs texcell on a glcm work unit and compares everything in the result with
the oracle."""
import json
import os
import zipfile

import numpy as np

import tap
from oracle import glcm_oracle, workunit

TOLERANCE = 1e-9          # relative, or absolute below 1
# Maps are stored as float32, which adds half a unit in the last place.
MAP_TOLERANCE = 2.0 ** -24 + 2 * TOLERANCE

_scratch = None


def folder():
    global _scratch
    if _scratch is None:
        _scratch = tap.scratch()
    return _scratch


def texcell(unit, result, threads=1, extra=()):
    """Runs texcell once, without a BOINC client. Returns the CompletedProcess."""
    return tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu",
                    "--threads", str(threads), "--quiet"] + list(extra))


class Comparison:
    """Collects the differences; `worst` is the largest, in units of the tolerance."""

    def __init__(self):
        self.worst = 0.0
        self.lines = []
        self.n = 0

    def values(self, what, got, expected, tolerance=TOLERANCE):
        got = np.asarray(got, np.float64)
        expected = np.asarray(expected, glcm_oracle.REAL)
        if got.shape != expected.shape:
            self.fault("%s: shape %s, expected %s" % (what, got.shape, expected.shape))
            return
        self.n += got.size
        both_nan = np.isnan(got) & np.isnan(expected)
        with np.errstate(invalid="ignore"):
            error = np.abs(got - expected) / np.maximum(1, np.abs(expected)) / tolerance
        error = np.where(both_nan, 0, np.where(np.isnan(error), np.inf, error))
        self.worst = max(self.worst, float(error.max(initial=0)))
        for position in np.argwhere(error > 1)[:3]:
            position = tuple(position)
            self.lines.append("%s%s: got %.17g, expected %.20g (%.3g times the tolerance)" %
                              (what, list(position) if position else "", got[position],
                               expected[position], error[position]))

    def fault(self, text):
        self.worst = float("inf")
        self.lines.append(text)


def compare(result, parameters, items, answers):
    """A Comparison of the result file with the oracle's answers."""
    c = Comparison()
    full = glcm_oracle.complete(parameters)
    with zipfile.ZipFile(result) as z:
        output = json.loads(z.read("result.json"))["parameters"]
    if output != full:
        c.fault("result.json's parameters: %s, expected %s" % (output, full))
    with np.load(result) as r:
        names = [str(n) for n in r["feature_names"]]
        if [str(n) for n in r["item_names"]] != [it["name"] for it in items]:
            c.fault("item_names: %s" % r["item_names"])
        if names != answers[0].names:
            c.fault("feature_names differ, in order or: only there %s, only here %s" %
                    (sorted(set(names) - set(answers[0].features))[:5],
                     sorted(set(answers[0].features) - set(names))[:5]))
            return c
        if r["features"].dtype != np.float64:
            c.fault("features: dtype %s" % r["features"].dtype)
        table = r["features"]
        if table.shape != (len(items), len(names)):
            c.fault("features: shape %s" % (table.shape,))
            return c
        for index, answer in enumerate(answers):
            for column, name in enumerate(names):
                c.values("%s %s" % (items[index]["name"], name), table[index, column],
                         answer.features[name])
        if full["per_offset"]:
            _compare_offsets(c, r, full, items, answers)
        elif "offset_features" in r.files:
            c.fault("offset_features is there, unasked")
        _compare_maps(c, r, items, answers)
        if full["window"]["shape"] != "roi":
            _compare_bands(c, r["band_sums"], answers)
        elif "band_sums" in r.files:
            c.fault("band_sums are there, of a whole ROI")
    return c


def _compare_bands(c, found, answers):
    # Band sums are in units of 2^-32, modulo 2^64.
    for answer, row in zip(answers, found):
        for k, (expected, size) in enumerate(answer.bands):
            error = (int(row[k]) - int(np.rint(expected * 2 ** 32)) + 2 ** 63) % 2 ** 64 - 2 ** 63
            if abs(error) > TOLERANCE * 2.0 ** 32 * float(size):
                c.fault("band_sums: band %d: %d, expected %d" % (k, row[k], expected * 2 ** 32))
        c.n += len(row)


def _compare_offsets(c, r, full, items, answers):
    # The offsets of a distance are sorted by dy, then by dx.
    every = [o for d in full["distances"]
             for o in sorted(answers[0].offsets[d], key=lambda o: (o[1], o[0]))]
    expected = np.array([[[a.per_offset[(levels,) + o] for o in every]
                          for levels in full["levels"]] for a in answers])
    c.values("offset_features", r["offset_features"], expected)
    listed = [(dx, dy, d) for d in full["distances"] for dx, dy in
              sorted(answers[0].offsets[d], key=lambda o: (o[1], o[0]))]
    if r["offsets"].tolist() != [list(o) for o in listed]:
        c.fault("offsets differ: %s" % r["offsets"][:9].tolist())


def _compare_maps(c, r, items, answers):
    expected = {}
    for it, answer in zip(items, answers):
        for (feature, levels, dx, dy), picture in answer.maps.items():
            name = "map_%s_%s_L%d_%d_%d" % (it["name"], feature, levels, dx, dy)
            expected[name] = picture if it["stack"] else picture[0]
    found = {n for n in r.files if n.startswith("map_")}
    if found != set(expected):
        c.fault("maps differ: found %s, expected %s" % (sorted(found), sorted(expected)))
        return
    for name, picture in expected.items():
        if r[name].dtype != np.float32:
            c.fault("%s: dtype %s" % (name, r[name].dtype))
        c.values(name, r[name], picture, MAP_TOLERANCE)


def check(name, parameters, items, threads=1):
    """One test point: the program's result agrees with the oracle's."""
    unit = os.path.join(folder(), "unit.zip")
    result = os.path.join(folder(), "result.npz")
    if os.path.exists(result):
        os.remove(result)
    workunit.write(unit, "glcm", parameters, items)
    run = texcell(unit, result, threads)
    if run.returncode != 0 or not os.path.exists(result):
        return tap.ok(False, name, "exit %d\n%s" % (run.returncode, run.stderr))
    answers = [glcm_oracle.analyse(it["slices"], parameters, it["masks"]) for it in items]
    c = compare(result, parameters, items, answers)
    title = "%s (%d values, worst %.2g of the tolerance)" % (name, c.n, c.worst)
    return tap.ok(c.worst <= 1, title,
                  "parameters %s\n%s" % (parameters, "\n".join(c.lines[:12])))


def refused(name, parameters, items, words):
    """One test point: the program refuses the work unit with exit code 2 and one line that contains
    `words`, and leaves no result."""
    unit = os.path.join(folder(), "unit.zip")
    result = os.path.join(folder(), "result.npz")
    if os.path.exists(result):
        os.remove(result)
    workunit.write(unit, "glcm", parameters, items)
    run = texcell(unit, result)
    good = (run.returncode == 2 and not os.path.exists(result) and
            any(line.startswith("texcell: error: ") and all(w in line for w in words)
                for line in run.stderr.splitlines()))
    return tap.ok(good, name, "exit %d\n%s" % (run.returncode, run.stderr))


# --- pictures with known matrices ----------------------------------------------------

def product_row(multiplicity):
    """A row of levels 0, 1, ... in which each ordered pair (i, j) occurs m[i] * m[j] times as
    neighbours, so that p is the product of its marginals: an Eulerian circuit (Hierholzer's
    method)."""
    k = len(multiplicity)
    left = [[multiplicity[i] * multiplicity[j] for j in range(k)] for i in range(k)]
    stack, row = [0], []
    while stack:
        here = stack[-1]
        for there in range(k):
            if left[here][there]:
                left[here][there] -= 1
                stack.append(there)
                break
        else:
            row.append(stack.pop())
    return np.array(row[::-1], np.uint8)


def near_products(pairs, how_many):
    """Two-level matrices [[c00, c01], [c01, c11]] of `pairs` unordered pairs that are almost, but
    not exactly, the product of their marginals: those with the smallest |c00 c11 - c01^2| > 0."""
    found = []
    for c01 in range(1, pairs):
        c00 = np.arange(0, pairs - c01 + 1, 2, dtype=np.int64)
        c11 = 2 * (pairs - c01) - c00
        determinant = np.abs(c00 * c11 - c01 * c01)
        determinant[determinant == 0] = pairs * pairs
        k = int(determinant.argmin())
        found.append((int(determinant[k]), int(c00[k]), c01, int(c11[k])))
    return [f[1:] for f in sorted(found)[:how_many]]


def two_level_walk(c00, c01, c11):
    """A row of levels 0 and 1 whose neighbours have the matrix [[c00, c01], [c01, c11]]."""
    row = [0] * (c00 // 2) + [k % 2 for k in range(c01 + 1)]
    # The alternating part may end with 0: the ones are inserted at its first 1.
    position = row.index(1, c00 // 2)
    return np.array(row[:position] + [1] * (c11 // 2) + row[position:], np.uint8)


def fold(walk, shape, radius):
    """A picture of the size of a window. Its rows are consecutive parts of `walk`, each beginning
    with the last pixel of the one before, so that its horizontal pairs are those of the walk.
    Pixels outside a disc are 0."""
    side = 2 * radius + 1
    inside = glcm_oracle.disc(side, side, radius, radius, radius) if shape == "disc" \
        else np.ones((side, side), bool)
    picture = np.zeros((side, side), np.uint8)
    position = 0
    for y in range(side):
        columns = np.flatnonzero(inside[y])
        picture[y, columns] = walk[position:position + columns.size]
        position += columns.size - 1
    assert position == walk.size - 1
    return picture


def pairs_in(shape, radius):
    """The number of horizontal pairs of neighbours in a window."""
    side = 2 * radius + 1
    if shape == "square":
        return side * (side - 1)
    return int((glcm_oracle.disc(side, side, radius, radius, radius).sum(axis=1) - 1).sum())
