#!/usr/bin/python3
"""Tests texcell-assimilate: every value that it stores of the results of every analysis is compared
with what numpy reads from them. Also: the same unit again, another result of it, invalid results;
the two command lines of BOINC's script_assimilator; a kill at every file operation, several
processes at a time, full disks; export."""
import contextlib
import csv
import glob
import hashlib
import io
import itertools
import json
import os
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import time
import zipfile
import zlib

import numpy as np

import analyses
from oracle import workunit
from tap import BUILD, SRC, TEXCELL, done, note, ok, run, scratch, skip

ASSIMILATE = os.path.abspath(os.path.join(BUILD, "texcell-assimilate"))
VALIDATE = os.path.abspath(os.path.join(BUILD, "texcell-validate"))
TMP = scratch()
RNG = np.random.default_rng(20240601)
FEATURE = re.compile(r"glcm_L(\d+)_d(\d+)_(.+)_([a-z]+)$")
# {name of a unit: (analysis, parameters, items)}
UNITS = {name: (analysis, *unit) for analysis, of in analyses.each()
         for name, unit in of.DATA_SET.items()}


def path(*names):
    return os.path.join(TMP, *names)


def make_results():
    """Writes NAME.zip and computes NAME.npz for each of UNITS. Returns the names of the computed
    ones."""
    names = []
    for name, (analysis, parameters, items) in UNITS.items():
        workunit.write(path(name + ".zip"), analysis, parameters, items)
        r = run([TEXCELL, "run", path(name + ".zip"), "-o", path(name + ".npz"), "--device", "cpu",
                 "--quiet"])
        if ok(r.returncode == 0, "texcell computes the unit " + name, r.stderr):
            names.append(name)
    return names


def assimilate(*args, **kw):
    return run([ASSIMILATE] + [str(a) for a in args], **kw)


def add(db, name, *options):
    """Adds the result of a unit to a data set."""
    return assimilate("--db", path(db), *options, path(name + ".zip"), path(name + ".npz"))


def query(db, sql, *values):
    connection = sqlite3.connect("file:%s?mode=ro" % path(db), uri=True)
    try:
        return connection.execute(sql, values).fetchall()
    finally:
        connection.close()


def change(db, script):
    """Executes SQL statements on a data set."""
    c = sqlite3.connect(path(db))
    c.executescript(script)
    c.close()


def dump(db):
    """All rows of all tables as sorted lines, independent of the order of adding: units and items
    by name instead of id, and without times."""
    connection = sqlite3.connect("file:%s?mode=ro" % path(db), uri=True)
    connection.row_factory = sqlite3.Row
    unit = {r["id"]: r["name"] for r in connection.execute("SELECT id, name FROM units")}
    item = {r["id"]: unit[r["unit"]] + "/" + r["name"]
            for r in connection.execute("SELECT id, unit, name FROM items")}
    out = []
    for (table,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' "
                                       "ORDER BY name").fetchall():
        for row in connection.execute('SELECT * FROM "%s"' % table):
            line = {k: row[k] for k in row.keys() if k not in ("id", "stored") and
                    row[k] is not None}
            if "unit" in line:
                line["unit"] = unit[line["unit"]]
            if table not in ("items",) and "item" in line:
                line["item"] = item[line["item"]]
            out.append(table + json.dumps(line, sort_keys=True))
    check = connection.execute("PRAGMA integrity_check").fetchall()
    connection.close()
    return sorted(out) if [tuple(c) for c in check] == [("ok",)] else ["damaged: %s" % check]


def load(name):
    """{key: array} of a result."""
    with np.load(path(name + ".npz")) as z:
        return {k: z[k] for k in z.files if k != "result.json"}


def result_json(name):
    with zipfile.ZipFile(path(name + ".npz")) as z:
        return json.loads(z.read("result.json"))


def digest(file):
    with open(file, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def rewrite(name, out, change, json_change=None, **options):
    """Writes a copy of a result. change: {key: changed array, or None to leave it out};
    json_change: {key of result.json: changed value}."""
    arrays = load(name)
    arrays.update(change)
    head = result_json(name)
    head.update(json_change or {})
    with zipfile.ZipFile(path(out), "w", **options) as z:
        z.writestr("result.json", json.dumps(head))
        for key, value in arrays.items():
            if value is not None:
                data = io.BytesIO()
                np.save(data, value)
                z.writestr(key + ".npy", data.getvalue())
    return path(out)


# --- what is stored -----------------------------------------------------------------------

def is_same(got, expected):
    """Whether SQLite's values, with NULL for NaN, equal those of an array in every bit."""
    expected = np.asarray(expected)
    if expected.dtype.kind == "f":
        got = np.array([np.nan if v is None else v for v in got], float)
        wide = expected.astype(float).ravel()
        return got.shape == wide.shape and np.array_equal(got, wide, equal_nan=True)
    return [int(v) for v in got] == [int(v) for v in expected.ravel()]


def item_ids(db, name):
    return [r[0] for r in query(db, "SELECT items.id FROM items JOIN units ON units.id = "
                                "items.unit WHERE units.name = ? ORDER BY number", name)]


def check_unit(db, name, checked):
    """The tables units and items agree with the work unit and its result."""
    head, arrays = result_json(name), load(name)
    rows = query(db, "SELECT workunit, result, analysis, parameters, n_items, arrays, checked, "
                 "kept, program, stored, wu_id FROM units WHERE name = ?", name)
    if not ok(len(rows) == 1, name + ": one row in units", rows):
        return
    row = rows[0]
    workunit = head["workunit"]
    ok(row[0] == "%s-%d" % (workunit["crc32"], workunit["size"]) and row[2] == head["analysis"] and
       row[4] == len(head["items"])
       and json.loads(row[3]) == head["parameters"] and row[6] == checked and row[10] is None
       and re.match(r"texcell-assimilate \d", row[8]) and
       re.match(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$", row[9]),
       name + ": its source, versions and times", row)
    expected = {k: [{"U": "text"}.get(a.dtype.kind, a.dtype.name), list(a.shape),
                    "%08x" % zlib.crc32(np.ascontiguousarray(a).tobytes()),
                    hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest()]
                for k, a in arrays.items()}
    ok(json.loads(row[5]) == expected, name + ": type, shape and digests of its arrays", row[5])
    ok([r[0] for r in query(db, "SELECT items.name FROM items JOIN units ON units.id = unit WHERE "
                            "units.name = ? ORDER BY number", name)] == head["items"],
       name + ": its items")
    pictures = [k for k in arrays if re.match("(map|labels|mask)_|offset_features", k)]
    if pictures:
        ok(row[7] is not None and digest(path(db + ".files", row[7])) ==
           digest(path(name + ".npz")),
           name + ": the file is kept for its pictures", row[7])
    else:
        ok(row[7] is None, name + ": no file is kept without pictures", row[7])


def check_features(db, name):
    """The table of features contains every value of the arrays, in the right row and column."""
    arrays, ids = load(name), item_ids(db, name)
    titles = [FEATURE.match(str(n)).groups() for n in arrays["feature_names"]]
    levels = sorted({int(t[0]) for t in titles})
    wrong = []
    for column, (l, d, feature, statistic) in enumerate(titles):
        got = query(db, 'SELECT "%s_%s" FROM glcm_features WHERE levels = ? AND distance = ? AND '
                    'item BETWEEN ? AND ? ORDER BY item' % (feature, statistic), int(l), int(d),
                    ids[0], ids[-1])
        if not is_same([r[0] for r in got], arrays["features"][:, column]):
            wrong.append(arrays["feature_names"][column])
    ok(not wrong, name + ": %d features" % len(titles), wrong[:5])
    long = {r[:-1]: r[-1] for r in query(db, "SELECT item, levels, distance, feature, statistic, "
                                         "value FROM glcm_long WHERE item BETWEEN ? AND ?", ids[0],
                                         ids[-1])}
    keys = [(i, int(l), int(d), f, s) for i in ids for l, d, f, s in titles]
    ok(len(long) == len(keys) and
       is_same([long.get(k, "missing") for k in keys], arrays["features"]),
       name + ": the long view")
    wide, wrong = {}, []
    for l in levels:
        for (view,) in query(db, "SELECT name FROM sqlite_schema WHERE type = 'view' AND name GLOB "
                             "'glcm_wide_L%d*' AND name NOT GLOB 'glcm_wide_L%d[0-9]*'" % (l, l)):
            connection = sqlite3.connect(path(db))
            got = connection.execute('SELECT * FROM "%s" WHERE item BETWEEN ? AND ? ORDER BY item' %
                                     view, (ids[0], ids[-1]))
            columns = [c[0] for c in got.description]
            wide.update(zip(columns, zip(*got.fetchall())))
            connection.close()
    for column, title in enumerate(arrays["feature_names"]):
        if not is_same(wide.get(str(title), []), arrays["features"][:, column]):
            wrong.append(title)
    ok(not wrong and list(wide["item"]) == ids and list(wide["name"]) ==
       [str(n) for n in arrays["item_names"]],
       name + ": the wide views", wrong[:5])


def entries_of_table(name, table):
    """{array: entry} of the arrays that result.json declares for a table."""
    return {d["array"]: d for d in result_json(name)["arrays"] if d.get("table") == table and
            "{item}" not in d["array"]}


def words_of(axis):
    """The text that each entry of an axis adds to the title of a column."""
    return [v if isinstance(v, str) else "%s%0*d" % (axis["prefix"], axis.get("digits", 0), v)
            for v in axis["values"]]


def check_rows(db, name, table):
    """Checks a table with several rows for an item (regions, cells, points): the rows, numbered
    within each item, and all columns."""
    arrays, ids, analysis = load(name), item_ids(db, name), UNITS[name][0]
    of = entries_of_table(name, table)
    owner = next(arrays[a] for a, d in of.items() if d["role"] == "item")
    n = [int(np.sum(owner[:i + 1] == owner[i])) for i in range(len(owner))]
    columns = {}
    for key, d in of.items():
        for i, parts in enumerate(itertools.product(*map(words_of, d.get("axes", [])))
                                  if d["role"] != "item" else []):
            title = "_".join(word for word in (d.get("title"), *parts) if word)
            columns[title] = arrays[key][:, i] if parts else arrays[key]
    got = query(db, "SELECT item, n%s FROM %s_%s WHERE item BETWEEN ? AND ? ORDER BY item, n" %
                ("".join(', "%s"' % c for c in columns), analysis, table), ids[0], ids[-1])
    wrong = [c for i, c in enumerate(columns) if not is_same([r[2 + i] for r in got], columns[c])]
    ok(len(got) == len(owner) and [r[0] for r in got] == [ids[i] for i in owner] and
       [r[1] for r in got] == n and not wrong
       and columns, name + ": %d %s" % (len(owner), table), wrong)


def check_values(db, name):
    """Checks the arrays with one number or one vector for each item."""
    arrays, ids, analysis = load(name), item_ids(db, name), UNITS[name][0]
    columns = {}
    for key, d in entries_of_table(name, "items").items():
        for i, parts in enumerate(itertools.product(*map(words_of, d.get("axes", [])))):
            columns["_".join((key, *parts))] = arrays[key][:, i] if parts else arrays[key]
    got = query(db, "SELECT item%s FROM %s_items WHERE item BETWEEN ? AND ? ORDER BY item" %
                ("".join(', "%s"' % c for c in columns), analysis), ids[0], ids[-1])
    wrong = [c for i, c in enumerate(columns) if not is_same([r[1 + i] for r in got], columns[c])]
    ok(columns and [r[0] for r in got] == ids and not wrong, name + ": values of the items", wrong)


def test_micrometres():
    """Columns in micrometres have values for items with a pixel size, and NULL for all others."""
    a, ids = load("cells"), item_ids("a.sqlite", "cells")
    got = np.array(query("a.sqlite", "SELECT area_um2, bbox_y0_um, bbox_x1_um, centroid_y_um, "
                         "centroid_x_um FROM cellcount_regions WHERE item BETWEEN ? AND ? "
                         "ORDER BY item, n", ids[0], ids[-1]), float)
    y, x = np.where(a["region_item"] < 1, 0.5, np.nan), np.where(a["region_item"] < 1, 0.25, np.nan)
    want = np.stack([a["region_area"] * y * x, a["region_bbox"][:, 0] * y,
                     a["region_bbox"][:, 3] * x, a["region_centroid"][:, 0] * y,
                     a["region_centroid"][:, 1] * x], axis=1)
    ok(np.isfinite(want).any() and np.isnan(want).any() and
       np.array_equal(got, want, equal_nan=True),
       "columns in micrometres have values only for items with a pixel size",
       "%s\n%s" % (got, want))


def check_content(db, name, checked):
    check_unit(db, name, checked)
    tables = [d["table"] for d in result_json(name)["arrays"] if d["role"] == "item"]
    if "features" in load(name):
        check_features(db, name)
    else:
        check_values(db, name)
    for table in tables:
        check_rows(db, name, table)


def test_content(names):
    for name in names:
        r = add("a.sqlite", name)
        ok(r.returncode == 0 and r.stdout == name + ": stored\n" and r.stderr == "",
           name + ": added", r.stderr)
    for name in names:
        check_content("a.sqlite", name, "workunit")
    if "cells" in names:                # TEXCELL_ANALYSIS may leave it out
        test_micrometres()
    for name in reversed(names):
        r = assimilate("--db", path("b.sqlite"), path(name + ".npz"))
        ok(r.returncode == 0, name + ": added without the work unit", r.stderr)
        check_unit("b.sqlite", name, "result")
    a, b = dump("a.sqlite"), dump("b.sqlite")
    ok([l.replace('"workunit"', "") for l in a if not l.startswith("units{")] ==
       [l.replace('"workunit"', "") for l in b if not l.startswith("units{")],
       "units added in another order give the same data set",
       "\n".join(sorted(set(a) ^ set(b))[:5]))


# --- an analysis that texcell does not know -----------------------------------------------------

STORE_TRY = os.path.join(BUILD, "tests", "unit", "store_try")


def write_declared(name, items, arrays):
    """Writes a well-formed result of an analysis "alchemy", which does not exist, with meaningless
    content. arrays: [(declaration, array)]."""
    head = {"format": "texcell-result", "version": 3, "analysis": "alchemy", "parameters": {},
            "items": items,
            "workunit": {"crc32": "00000000", "size": 1, "sha256": "00" * 32},
            "arrays": [d for d, _ in arrays]}
    with zipfile.ZipFile(path(name), "w") as z:
        z.writestr("result.json", json.dumps(head))
        for key, value in [("item_names", np.array(items))] + [(d["array"], a) for d, a in arrays]:
            data = io.BytesIO()
            np.save(data, value)
            z.writestr(key + ".npy", data.getvalue())
    return path(name)


def collide(q):
    """Two work units with the same CRC-32 and size are both stored, as their SHA-256 differ."""
    os.link(path("cells.zip"), os.path.join(q.root, "download", "cells.zip"))
    change(q.db, "UPDATE units SET sha256 = '%064d'; DELETE FROM aliases" % 7)
    sha256 = digest(path("cells.zip"))
    for name in ("cells_0_r1_0", "cells_0_r2_0"):
        r = q.call(3, q.upload(path("cells.npz"), name))
    rows = query(q.db, "SELECT workunit, sha256, name FROM units ORDER BY id")
    ok(r.returncode == 0 and len(rows) == 2 and rows[0][0] + "-" + sha256 == rows[1][0] and
       rows[1][1] == sha256
       and query(q.db, "SELECT count(DISTINCT unit) FROM items") == [(2,)],
       "script: two units with the same CRC and size but other SHA-256 are both stored, once each",
       rows)


def test_unknown_analysis():
    """Results of an analysis that does not exist: tables, views and CSV files follow from the
    declarations alone. They have objects, columns by several axes, values of items, and features by
    other keys than levels and distance."""
    def column(array, table, title, **more):
        return dict(array=array, role="value", table=table, title=title, **more)

    def wide(channels, distances, features):
        return column("profile", "profiles", "p", axes=[
            {"name": "channel", "prefix": "C", "values": channels},
            {"name": "distance", "prefix": "d", "digits": 2, "values": distances},
            {"name": "feature", "values": features},
            {"name": "statistic", "values": ["mean", "sd"]}])

    texture = [{"name": "distance", "prefix": "d", "digits": 2, "values": [2]},
               {"name": "feature", "values": ["contrast", "energy"]}]
    features = ["f_%03d" % i for i in range(50)]        # 100 columns a distance: a wide view has 19
    profiles = [RNG.random((2, 2 * 21 * 100)), RNG.random((1, 1 * 2 * 4))]
    glcm, owner = RNG.random((5, 2)), np.array([0, 0, 1, 1, 1])
    one = write_declared("one.npz", ["a", "b"], [
        (column("otsu_threshold", "items", "otsu_threshold"), np.array([7, 9])),
        ({"array": "object_item", "role": "item", "table": "objects"}, owner),
        ({"array": "object_label", "role": "key", "table": "objects", "title": "label"},
         np.array([1, 2, 1, 2, 3])),
        (column("object_area", "objects", "area", unit="pixel^2"), np.arange(5.0)),
        (column("object_glcm", "objects", "glcm", axes=texture), glcm),
        (wide([1, 3], list(range(1, 22)), features), profiles[0])])
    two = write_declared("two.npz", ["c"], [(wide([3], [2, 40], ["f_000", "new"]), profiles[1])])
    r = run([STORE_TRY, path("x.sqlite"), "alchemy", one, two])
    ok(r.returncode == 0, "an unknown analysis is stored", r.stderr)
    got = query("x.sqlite", "SELECT item, n, label, area, glcm_d02_contrast, glcm_d02_energy FROM "
                "alchemy_objects")
    ok([row[:3] for row in got] == [(1, 1, 1), (1, 2, 2), (2, 1, 1), (2, 2, 2), (2, 3, 3)]
       and is_same([row[4] for row in got], glcm[:, 0]) and
       is_same([row[5] for row in got], glcm[:, 1]),
       "an unknown analysis: its objects", got)
    ok(query("x.sqlite", "SELECT * FROM alchemy_items") == [(1, 7), (2, 9)],
       "an unknown analysis: its values of items")
    expected = {("one", i, c, d, f, s): profiles[0][i].reshape(2, 21, 50, 2)[a, b, e, g]
                for i in range(2)
                for a, c in enumerate([1, 3]) for b, d in enumerate(range(1, 22))
                for e, f in enumerate(features)
                for g, s in enumerate(["mean", "sd"])}
    expected.update({("two", 2, 3, d, f, s): profiles[1][0].reshape(2, 2, 2)[b, e, g]
                     for b, d in enumerate([2, 40])
                     for e, f in enumerate(["f_000", "new"]) for g, s in enumerate(["mean", "sd"])})
    got = {r[:-1]: r[-1]
           for r in query("x.sqlite", "SELECT item - 1, channel, distance, feature, statistic, "
                          "value FROM alchemy_profiles_long WHERE value IS NOT NULL")}
    ok(got == {k[1:]: v for k, v in expected.items()},
       "an unknown analysis: its long view", len(got))
    views = [v for (v,) in query("x.sqlite", "SELECT name FROM sqlite_schema WHERE type = 'view' "
                                 "AND name GLOB '*_wide*' ORDER BY rowid")]
    ok(views == ["alchemy_profiles_wide_" + v for v in ("C1", "C1_d20", "C3", "C3_d20", "C3_d39")],
       "an unknown analysis: its wide views", views)
    ok(query("x.sqlite", 'SELECT "p_C3_d21_f_049_sd", name FROM alchemy_profiles_wide_C3_d20 WHERE '
             'name = \'b\'') ==
       [(expected["one", 1, 3, 21, "f_049", "sd"], "b")],
       "an unknown analysis: a number in a wide view")
    r = assimilate("export", "--db", path("x.sqlite"), "-o", path("x_out"))
    wide_csv, long_csv = (read_csv("x_out", "alchemy_profiles_wide"),
                          read_csv("x_out", "alchemy_profiles_long"))
    titles = wide_csv[0][3:]
    cells = {(r[1], t): c for r in wide_csv[1:] for t, c in zip(titles, r[3:])
             if c not in ("", "nan")}
    ok(r.returncode == 0 and len(titles) == len(set(titles)) == (42 + 1) * 102 and
       {k: float(c) for k, c in cells.items()} ==
       {("abc"[i], "p_C%d_d%02d_%s_%s" % (c, d, f, s)): v
        for (_, i, c, d, f, s), v in expected.items()},
       "an unknown analysis: its wide CSV file", "%d titles, %d cells; %s" %
       (len(titles), len(cells), r.stderr))
    ok(long_csv[0] == ["workunit", "item", "source", "channel", "distance", "feature", "statistic",
                       "value"] and
       {("abc".index(r[1]), int(r[3]), int(r[4]), r[5], r[6]): float(r[7]) for r in long_csv[1:]
        if r[7] != "nan"} ==
       {k[1:]: v for k, v in expected.items()},
       "an unknown analysis: its long CSV file", long_csv[:2])
    change("x.sqlite",
           "UPDATE units SET name = '=1+1'; UPDATE alchemy_items SET otsu_threshold = -7")
    assimilate("export", "--db", path("x.sqlite"), "-o", path("x_out"))
    ok([r[1] for r in read_csv("x_out", "units")] == ["name", "'=1+1", "'=1+1"]
       and [r[3] for r in read_csv("x_out", "alchemy_items")] == ["otsu_threshold", "-7", "-7"],
       "export: text does not become a formula, and a number stays", read_csv("x_out", "units"))
    os.mkdir(path("victim"))
    before = set(os.listdir(path("x_out")))
    change("x.sqlite", "".join('CREATE TABLE "%s"(item, x); INSERT INTO "%s" VALUES(1, 2);' % (t, t)
                               for t in ("../victim/payload", "a b", "\u00e4", "x_\u001b[1m",
                                         "Con.", "fine_1")))
    r = assimilate("export", "--db", path("x.sqlite"), "-o", path("x_out"))
    ok(r.returncode == 0 and os.listdir(path("victim")) == [] and set(os.listdir(path("x_out"))) ==
       before | {"fine_1.csv"},
       "export writes no file elsewhere because of a table's name", r.stderr)
    change("x.sqlite",
           'CREATE TABLE odd_many(item, x, y); CREATE VIEW odd_many_groups AS SELECT 1 AS k; '
                       "CREATE VIEW odd_many_long AS SELECT %s" %
           ", ".join("1 AS w%d" % i for i in range(100)))
    r = assimilate("export", "--db", path("x.sqlite"), "-o", path("x_out"))
    ok(r.returncode == 3 and "the views of the table odd_many were not made by texcell" in r.stderr,
       "export: foreign views with any number of columns",
       "%d %s" % (r.returncode, r.stderr))
    change("x.sqlite", "DROP TABLE odd_many")
    change("x.sqlite", "DROP TABLE failed; CREATE VIEW failed AS SELECT name, 1 AS wu_id, 2 AS "
           "batch, 3 AS error_mask, 4 AS reasons, 5 AS stored FROM pragma_database_list")
    r = assimilate("export", "--db", path("x.sqlite"), "-o", path("x_out"))
    ok(r.returncode == 3 and "failed is not a table" in r.stderr,
       "export: a foreign view cannot read other files", r.stderr)


def test_views():
    """A data set in which one of texcell's tables is a view is refused, as a view may return any
    number of rows."""
    endless = ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS wu_id, "
               "'n' AS name, 1 AS batch, 1 AS error_mask, 'r' AS reasons, 's' AS stored FROM c")
    for change, text in (("DROP TABLE failed; CREATE VIEW failed AS " + endless,
                          "failed is not a table"),
                         ("DROP TABLE aliases; CREATE VIEW Aliases AS " + endless,
                          "liases is not a table")):
        shutil.copy(path("a.sqlite"), path("views.sqlite"))
        with contextlib.closing(sqlite3.connect(path("views.sqlite"))) as db:
            db.executescript(change)
        for command in (["export", "-o", path("views")], ["report", "-o", path("views.html")]):
            r = assimilate(command[0], "--db", path("views.sqlite"), *command[1:])
            ok(r.returncode == 3 and text in r.stderr, "%s: %s" % (command[0], text), r.stderr)


def test_generated_columns():
    """A data set with a generated column is refused, as its values may be larger than the file.
    Also: an export of very long names, repeated in each row, is killed: its reader process ends as
    well."""
    shutil.copy(path("a.sqlite"), path("computed.sqlite"))
    with contextlib.closing(sqlite3.connect(path("computed.sqlite"))) as db:
        db.execute("ALTER TABLE items ADD COLUMN long TEXT AS (hex(zeroblob(100000000)))")
    for command in (["export", "-o", path("computed")], ["report", "-o", path("computed.html")]):
        r = assimilate(command[0], "--db", path("computed.sqlite"), *command[1:])
        ok(r.returncode == 3 and "the column long of items is computed" in r.stderr,
           "%s: a generated column" % command[0], r.stderr)
    shutil.copy(path("a.sqlite"), path("long.sqlite"))
    with contextlib.closing(sqlite3.connect(path("long.sqlite"))) as db:
        db.execute("UPDATE units SET name = hex(zeroblob(100000000))")
        db.commit()
    p = subprocess.Popen([ASSIMILATE, "export", "--db", path("long.sqlite"), "-o",
                          path("long")], stderr=subprocess.PIPE)
    until = time.time() + 60
    while not children(p.pid) and p.poll() is None and time.time() < until:
        time.sleep(0.001)
    readers = children(p.pid)
    p.kill()
    p.wait()
    while any(map(is_running, readers)) and time.time() < until:
        time.sleep(0.01)
    ok(readers and not any(map(is_running, readers)), "the reader ends with texcell-assimilate",
       readers)


def children(pid):
    """The ids of the child processes."""
    with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as f:
        return [int(word) for word in f.read().split()]


def is_running(pid):
    """Whether the process exists and is no zombie."""
    try:
        with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# --- units that are stored already, other results of them, and invalid results -----------------

def test_again(names):
    original = dump("a.sqlite")
    for name in names:
        r = add("a.sqlite", name)
        ok(r.returncode == 0 and "data set already" in r.stdout, name +
           ": added again", r.stdout + r.stderr)
    packed = rewrite("plain", "packed.npz", {}, compression=zipfile.ZIP_DEFLATED)
    r = assimilate("--db", path("a.sqlite"), path("plain.zip"), packed)
    ok(r.returncode == 0 and "data set already" in r.stdout,
       "the same content compressed in another way is the same unit",
       r.stderr)
    ok(dump("a.sqlite") == original, "adding units again does not change the data set")


def test_forget(names):
    """A unit that `forget` removes leaves no row and no file, and may be added again; all names
    under which it was added are printed and recorded."""
    db = "forget.sqlite"
    for name in names:
        add(db, name)
    before, files = dump(db), sorted(os.listdir(path(db + ".files")))
    shutil.copy(path("cells.zip"), path("twin.zip"))
    shutil.copy(path("cells.npz"), path("twin.npz"))
    add(db, "twin")
    r = assimilate("forget", "--db", path(db), "--why", "host 7", "twin", *names, "nobody")
    ok(r.returncode == 4 and sorted(r.stdout.split()) == sorted(["twin", *names]) and
       "nobody: is not in the data set" in r.stderr
       and "cells: is not in the data set" in r.stderr and
       query(db, "SELECT kind, reason, name FROM refused ORDER BY name") ==
       [("forgotten", "host 7", n) for n in sorted(["twin", *names])],
       "forget prints and records each name", r.stdout + r.stderr)
    tables = [t for (t,) in query(db, "SELECT name FROM sqlite_schema WHERE type = 'table' AND "
                                  "name NOT LIKE '%\\_groups' ESCAPE '\\' AND name != 'refused' "
                                  "AND name != 'failed'")]
    rows = {t: query(db, 'SELECT count(*) FROM "%s"' % t)[0][0] for t in tables}
    ok(not any(rows.values()) and
       not [f for f in os.listdir(path(db + ".files")) if f.endswith(".npz")],
       "forget leaves no row and no file", rows)
    for name in names:
        add(db, name)
    change(db, "DELETE FROM refused")
    ok(dump(db) == before and sorted(os.listdir(path(db + ".files"))) == files,
       "forget: the units are added again unchanged")
    ok(assimilate("forget", "--db", path(db)).returncode == 1 and
       assimilate("forget", "x").returncode == 1, "forget without names or data set is refused")
    for verb in (["forget", "cells"], ["export", "-o", path("none")],
                 ["report", "-o", path("none.html")]):
        r = assimilate(verb[0], "--db", path("nothing.sqlite"), *verb[1:])
        ok(r.returncode == 2 and "nothing.sqlite: there is no such data set" in r.stderr and
           not os.path.exists(path("nothing.sqlite")),
           verb[0] + ": a data set that does not exist", r.stderr)
    r = assimilate("export", "--db", path(db), "-o", path("none"), "--only", "nonesuch")
    ok(r.returncode == 1 and re.search("there is no table nonesuch; there are units, items, "
                                       ".*cellcount_regions", r.stderr),
       "export: a table that does not exist", r.stderr)


def test_memory():
    """A result whose rows need more memory than --max-memory allows is refused."""
    dots = np.zeros((500, 500), np.uint8)
    dots[::2, ::2] = 200
    workunit.write(path("dots.zip"), "cellcount", {"polarity": "bright"},
                   [workunit.item("many", [dots])])
    run([TEXCELL, "run", path("dots.zip"), "-o", path("dots.npz"), "--device", "cpu", "--quiet"])
    for files in (["dots.zip", "dots.npz"], ["dots.npz"]):
        codes = []
        for mib in ("4", "8"):
            r = assimilate("--db", path("dots.sqlite"), "--max-memory", mib, *map(path, files))
            codes.append(r.returncode)
            if mib == "4":
                ok("62500 rows, but" in r.stderr and query("dots.sqlite", "SELECT * FROM units") ==
                   [],
                   "--max-memory: a result with too many rows is not stored", r.stderr)
        ok(codes == [2, 0], "--max-memory: the result is stored if its rows fit", codes)
        os.remove(path("dots.sqlite"))


def test_conflict():
    features = load("plain")["features"].copy()
    features[0, 5] = np.nextafter(features[0, 5], np.inf)
    other = rewrite("plain", "other.npz", {"features": features})
    original = dump("a.sqlite")
    for i in range(2):
        r = assimilate("--db", path("a.sqlite"), path("plain.zip"), other)
        ok(r.returncode == 4 and "conflict" in r.stderr and "features" in r.stderr,
           "another result of a stored unit is refused", "%d %s" % (r.returncode, r.stderr))
    rows = query("a.sqlite", "SELECT kind, name, result, reason, kept FROM refused")
    ok(len(rows) == 1 and rows[0][:3] == ("conflict", "plain", "other.npz")
       and "features" in rows[0][3], "the other result is recorded once", rows)
    ok(rows and digest(path("a.sqlite.files", rows[0][4])) == digest(other),
       "the other result's file is kept",
       rows)
    ok([l for l in dump("a.sqlite") if not l.startswith("refused")] == original,
       "the stored result is not overwritten")


def bad_results():
    """Yields (the error, the file, words of the message)."""
    features = load("plain")["features"]
    partly = features.copy()
    partly[0, 0] = np.nan
    negative = features.copy()
    negative[1, 3] = -5
    whole = open(path("plain.npz"), "rb").read()
    with open(path("cut.npz"), "wb") as f:
        f.write(whole[:len(whole) * 2 // 3])
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 4
    with open(path("flipped.npz"), "wb") as f:
        f.write(flipped)
    of = result_json("plain")["workunit"]
    return [
        ("one NaN", "plain", rewrite("plain", "nan.npz", {"features": partly})),
        ("an impossible value", "plain", rewrite("plain", "negative.npz", {"features": negative})),
        ("too few items", "plain", rewrite("plain", "few.npz", {"features": features[:1]})),
        ("an array too many", "plain", rewrite("plain", "more.npz", {"extra": np.zeros(3)})),
        ("an array of another type", "plain",
         rewrite("plain", "f4.npz", {"features": features.astype(np.float32)})),
        ("a missing array", "plain", rewrite("plain", "less.npz", {"feature_names": None})),
        ("other feature names", "plain",
         rewrite("plain", "names.npz", {"feature_names": load("plain")["feature_names"][::-1]})),
        ("another unit's", "plain",
         rewrite("plain", "crc.npz", {}, {"workunit": dict(of, crc32="0badc0de")})),
        ("another unit's with the same CRC", "plain",
         rewrite("plain", "sha.npz", {}, {"workunit": dict(of, sha256="5a" * 32)})),
        ("a part of a file", "plain", path("cut.npz")),
        ("a flipped bit", "plain", path("flipped.npz")),
        ("a work unit", "plain", path("plain.zip")),
        ("nothing", "plain", path("nothing.npz")),
    ]


def bad_words():
    """Results whose result.json contradicts every work unit. They are checked without their work
    unit, as other errors would be found first with it."""
    plain = result_json("plain")
    of = plain["workunit"]
    for what, change in (("no analysis", {"analysis": 7}),
                         ("an unknown analysis", {"analysis": "glcn"}),
                         ("no items", {"items": []}), ("a path as item", {"items": ["../a", "b"]}),
                         ("an item twice", {"items": ["a", "a"]}),
                         ("a number as item", {"items": [1, "b"]}),
                         ("incomplete parameters", {"parameters": {"levels": [16]}}),
                         ("no parameters", {"parameters": []}),
                         ("a wrong parameter",
                          {"parameters": dict(plain["parameters"], levels=[1])}),
                         ("no work unit", {"workunit": {}}),
                         ("a CRC in capitals", {"workunit": dict(of, crc32="0BADC0DE")}),
                         ("a negative size", {"workunit": dict(of, size=-1)}),
                         ("a short SHA-256", {"workunit": dict(of, sha256="5a" * 31)}),
                         ("no SHA-256",
                          {"workunit": {k: v for k, v in of.items() if k != "sha256"}}),
                         ("an earlier version", {"version": 2}),
                         ("one key more", {"more": 1}),
                         ("a source too few", {"sources": ["x"]}),
                         ("a number as source", {"sources": ["x", 1]}),
                         ("a source that drives a terminal", {"sources": ["x", "\u001b[2J"]}),
                         ("a source of 1,025 bytes", {"sources": ["x" * 1025, ""]})):
        yield what, rewrite("plain", "words.npz", {}, change)


def test_bad(names):
    original, files = dump("a.sqlite"), sorted(os.listdir(path("a.sqlite.files")))
    for error, unit, file in bad_results():
        r = assimilate("--db", path("a.sqlite"), path(unit + ".zip"), file)
        ok(r.returncode == 2 and r.stderr.count("\n") == 1 and os.path.basename(file) in r.stderr,
           "refused: " + error,
           "%d %s" % (r.returncode, r.stderr))
    for error, file in bad_words():
        r = assimilate("--db", path("a.sqlite"), file)
        ok(r.returncode == 2 and r.stderr.count("\n") == 1 and "words.npz" in r.stderr,
           "refused without a work unit: " + error,
           "%d %s" % (r.returncode, r.stderr))
    disorder = rewrite("cells", "disorder.npz",
                       {"region_item": load("cells")["region_item"][::-1].copy()})
    r = assimilate("--db", path("empty.sqlite"), disorder)
    ok(r.returncode == 2 and "disorder.npz" in r.stderr and
       query("empty.sqlite", "SELECT * FROM units") == [] and
       not os.path.exists(path("empty.sqlite.files", "refused")),
       "refused: regions whose items are not in order",
       "%d %s" % (r.returncode, r.stderr))
    wrong = []
    for i in range(60):
        name = names[i % len(names)]
        body = bytearray(open(path(name + ".npz"), "rb").read())
        for _ in range(1 + i % 3):
            body[RNG.integers(0, len(body))] ^= 1 << int(RNG.integers(0, 8))
        with open(path("hurt.npz"), "wb") as f:
            f.write(body)
        r = assimilate("--db", path("a.sqlite"), path("hurt.npz"))
        if r.returncode not in (0, 2):
            wrong.append("%s: %d %s" % (name, r.returncode, r.stderr))
    ok(not wrong,
       "results damaged in 60 ways are stored or refused, without a crash", "\n".join(wrong[:3]))
    ok(dump("a.sqlite") == original and sorted(os.listdir(path("a.sqlite.files"))) == files,
       "refused results leave no row and no file")
    for args in ([], ["--db"], ["--db", ""], ["--db", path("u.sqlite")], ["x.npz"],
                 ["--db", path("u.sqlite"), "a", "b", "c"],
                 ["--nonsense", "1"], ["--db", path("u.sqlite"), "--only", "x", "y"],
                 ["export", "--db", path("a.sqlite")],
                 ["export", "-o", path("u")],
                 ["export", "--db", path("a.sqlite"), "-o", path("u"), "x"]):
        r = assimilate(*args)
        ok(r.returncode == 1 and r.stderr.startswith("texcell-assimilate: error: "),
           "usage: " + " ".join(map(str, args))[:60],
           "%d %s" % (r.returncode, r.stderr))
    r = assimilate("--db", path("u.sqlite"), path("nix.npz"))
    ok(r.returncode == 2 and "nix.npz: cannot open" in r.stderr and
       not glob.glob(path("u.sqlite*")), "a wrong command line does not make a data set", r.stderr)
    for words in (["--db", path("plain.zip"), path("plain.npz")],
                  ["create", "--db", path("plain.zip")],
                  ["export", "--db", path("plain.zip"), "-o", path("u")]):
        original, r = digest(path("plain.zip")), assimilate(*words)
        ok(r.returncode == 2 and "plain.zip: is not a data set" in r.stderr and
           digest(path("plain.zip")) == original, "another file as data set: " + words[0], r.stderr)


# --- BOINC's script ---------------------------------------------------------------------------

class Project:
    """A project's folders. The script in its bin/ is the one that --help prints."""

    def __init__(self, name, made=True):
        self.root = path(name)
        for folder in ("bin", "tmp_host", "upload/3f", "download/1a"):
            os.makedirs(os.path.join(self.root, folder))
        text = assimilate("--help").stdout
        lines = re.search(r"^ +(#!/bin/sh)\n +(exec .*)$", text, re.M)
        script = "%s\n%s\n" % lines.groups() if lines else "exit 99\n"
        with open(os.path.join(self.root, "bin", "assimilate_texcell"), "w") as f:
            f.write(script.replace("/path/to/texcell-assimilate", ASSIMILATE))
        os.chmod(os.path.join(self.root, "bin", "assimilate_texcell"), 0o755)
        self.db = name + "/dataset.sqlite"
        if made:
            assimilate("create", "--db", path(self.db))

    def upload(self, file, name):
        target = os.path.join(self.root, "upload/3f", name)
        shutil.copy(file, target)
        return target

    def call(self, *args, **kw):
        """Calls the script as BOINC's script_assimilator does: through a shell, in the folder
        tmp_HOST."""
        return run(["sh", "-c", "../bin/assimilate_texcell" + "".join(" " + str(a) for a in args)],
                   cwd=os.path.join(self.root, "tmp_host"), **kw)

    def refused(self):
        return query(self.db, "SELECT kind, name, wu_id, result, kept FROM refused ORDER BY id")


def test_changed_uploads():
    """An upload that was changed after texcell-validate accepted it is refused; one without a
    record of acceptance is stored with a note."""
    q = Project("p_changed")
    shutil.copy(path("plain.zip"), os.path.join(q.root, "download/1a/plain.zip"))
    file, records = q.upload(path("plain.npz"), "plain_0_r1_0"), os.path.join(q.root, "accepted")

    def accept():
        return run([VALIDATE, "script-init", "--accepted", records, file],
                   cwd=os.path.join(q.root, "tmp_host"))

    r = accept()
    ok(r.returncode == 0 and os.listdir(records) == ["plain"], "the acceptance is recorded",
       r.stdout + r.stderr)
    rewrite("plain", "swapped.npz", {"features": load("plain")["features"][::-1].copy()})
    honest = digest(file)
    shutil.copy(path("swapped.npz"), file)
    r = q.call("--accepted", records, 5, file)
    rows = q.refused()
    ok(r.returncode == 0 and "refused (changed)" in r.stderr and [t[:4] for t in rows] ==
       [("changed", "plain", 5, "plain_0_r1_0")]
       and digest(path(q.db + ".files", rows[0][4])) == digest(file) and
       query(q.db, "SELECT * FROM units") == [],
       "a file changed after its acceptance is refused and kept",
       "%d %s %s" % (r.returncode, r.stderr, rows))
    q.upload(path("plain.npz"), "plain_0_r1_0")
    ok(accept().returncode == 0 and digest(file) == honest, "the restored file is accepted")
    r = q.call("--accepted", records, 5, file)
    ok(r.returncode == 0 and r.stdout == "plain: stored\n" and r.stderr == "" and
       os.listdir(records) == [],
       "an accepted file is stored, and its record is removed", r.stdout + r.stderr)
    q.upload(path("plain.npz"), "plain_0_r2_0")
    r = q.call("--accepted", records, 5, os.path.join(q.root, "upload/3f/plain_0_r2_0"))
    ok(r.returncode == 0 and "note: plain_0_r2_0: there is no record" in r.stderr,
       "a file without a record of acceptance is stored with a note",
       r.stderr)


def test_script_good(p, names):
    shutil.copy(path("votes.zip"), os.path.join(p.root, "download/1a/votes.zip"))
    with open(os.path.join(p.root, "download/1a/cells.zip"), "wb") as f:
        f.write(b"PK\3\4 damaged")
    for i, name in enumerate(names):
        r = p.call(100 + i, p.upload(path(name + ".npz"), name + "_1_r12345_0"))
        ok(r.returncode == 0 and r.stdout == name + ": stored\n", "script: " + name,
           r.stdout + r.stderr)
        rows = query(p.db, "SELECT wu_id, result, checked FROM units WHERE name = ?", name)
        ok(rows == [(100 + i, name + "_1_r12345_0", "workunit" if name == "votes" else "result")],
           "script: the data set has the unit's names, and how it was checked", rows)
    original = dump(p.db)
    r = p.call(100, p.upload(path(names[0] + ".npz"), names[0] + "_1_r12345_0"))
    ok(r.returncode == 0 and dump(p.db) == original,
       "script: the same result again changes nothing", r.stderr)


def test_log():
    """script_assimilator starts a process for each unit: the database's write-ahead log does not
    grow from one to the next."""
    q, plain, sizes = Project("p_log"), load("plain"), []
    times = 1000 // len(plain["features"])
    n = times * len(plain["features"])
    for i in range(8):
        about = {"items": ["l%d_%d" % (i, k) for k in range(n)],
                 "workunit": {"crc32": "%08x" % i, "size": 1000 + i, "sha256": "%064x" % i}}
        rows = {name: np.concatenate([plain[name]] * times) for name in ("features", "band_sums")}
        rewrite("plain", "log.npz",
                {**rows, "item_names": np.array(about["items"]), "item_spacing": None}, about)
        r = q.call(i + 1, q.upload(path("log.npz"), "l%d_0_r1_0" % i))
        if r.returncode != 0 or "stored" not in r.stdout:
            ok(False, "script: unit %d of many is stored" % i, r.stdout + r.stderr)
            return
        sizes.append(os.path.getsize(path(q.db + "-wal")))
    data = os.path.getsize(path(q.db))
    ok(max(sizes) < 24 << 20 < data,
       "script: the write-ahead log stays below 24 MiB, though the data set is larger",
       "%s of %d" % (sizes, data))


def test_script_usage(p):
    original = dump(p.db)
    file = p.upload(path("plain.npz"), "plain_0_r1_0")
    for args in ([], [""], [12], [file], ["x12", file], ["-1", file], ["0", file],
                 ["12", file, file], [file, 12], ["99999999999999999999", file],
                 ["--error"], ["--error", 3], ["--error", 3, "name", 17],
                 ["--error", "x", "name", 17, 0],
                 ["--error", 3, "name", 17, 0, 1], ["--error", 3, "name", "", 0],
                 ["--nonsense", 12, file]):
        r = p.call(*args)
        ok(r.returncode == 1 and r.stderr.count("\n") == 1,
           "script: arguments that are not BOINC's: %s" %
           " ".join("FILE" if a == file else str(a) for a in args),
           "%d %s" % (r.returncode, r.stderr))
    ok(dump(p.db) == original, "script: wrong arguments change nothing")


def test_script_bad(p):
    bad = rewrite("plain", "bad.npz", {"extra": np.zeros(3)})
    changed = load("plain")["features"].copy()
    changed[1, 0] = np.nextafter(changed[1, 0], 0)
    other = rewrite("plain", "other.npz", {"features": changed})
    calls = [("invalid", p.upload(bad, "bad_0_r1_0")),
             ("conflict", p.upload(other, "plain_1_r2_0")),
             ("invalid", p.upload(path("plain.zip"), "strange")),
             ("invalid", p.upload("/dev/null", "empty_0_r1_0")),
             ("missing", os.path.join(p.root, "upload/3f/gone_0_r1_0")),
             ("invalid", os.path.join(p.root, "upload/3f")),
             ("invalid", p.upload("/dev/null", "n" * 200 + "_0_r%s_0" % ("1" * 40)))]
    original = [l for l in dump(p.db) if not l.startswith("refused")]
    for twice in range(2):
        for i, (kind, file) in enumerate(calls):
            r = p.call(200 + i, file)
            ok(r.returncode == 0 and "refused (%s)" % kind in r.stderr,
               "script: %s does not stop the daemon" % kind,
               "%d %s" % (r.returncode, r.stderr))
    rows = p.refused()
    ok([(r[0], r[1], r[2], r[3]) for r in rows] ==
       [("invalid", "bad", 200, "bad_0_r1_0"), ("conflict", "plain", 201, "plain_1_r2_0"),
        ("invalid", "strange", 202, "strange"),
        ("invalid", "empty", 203, "empty_0_r1_0"), ("missing", "gone", 204, "gone_0_r1_0"),
        ("invalid", "3f", 205, "3f"), ("invalid", "n" * 200, 206, "n" * 200 + "_0_r%s_0" %
                                       ("1" * 40))],
       "script: each bad result is recorded once", rows)
    kept_files = [path(p.db + ".files", r[4]) if r[4] else None for r in rows]
    ok([digest(k) for k in kept_files[:4]] == [digest(c[1]) for c in calls[:4]] and
       kept_files[4:6] ==
       [None, None] and digest(kept_files[6]) == digest("/dev/null"),
       "script: the files of bad results are kept",
       rows)
    ok([l for l in dump(p.db) if not l.startswith("refused")] == original,
       "script: bad results do not change the rest of the data set")


def test_script_error(p):
    for mask, words in ((3, "could not be sent, too many errors"), (16, "cancelled"), (0, "")):
        r = p.call("--error", mask, "unit_%d" % mask, 300 + mask, 7)
        rows = query(p.db, "SELECT wu_id, name, batch, error_mask, reasons FROM failed "
                     "WHERE name = ?", "unit_%d" % mask)
        ok(r.returncode == 0 and rows == [(300 + mask, "unit_%d" % mask, 7, mask, words)],
           "script: --error %d is recorded with its reasons" % mask, rows)
    p.call("--error", 18, "unit_16", 316, 7)
    rows = query(p.db, "SELECT error_mask FROM failed WHERE wu_id = 316")
    ok(rows == [(18,)], "script: reported again, the last error mask is stored", rows)
    p.call("--error", 8, "plain", 317, 7)
    r = p.call(317, p.upload(path("plain.npz"), "plain_0_r1_0"))
    rows = query(p.db, "SELECT name FROM failed WHERE wu_id = 317")
    ok(r.returncode == 0 and rows == [],
       "script: a failed unit that is computed again and stored is no longer failed",
       (rows, r.stderr))


def test_script_server(p):
    """An error that every unit would meet stops the daemon (exit code 3), and no result is lost."""
    file = p.upload(path("plain.npz"), "plain_0_r1_0")
    missing_file = os.path.join(p.root, "upload/77/plain_0_r1_0")
    r = p.call(1, missing_file)
    ok(r.returncode == 3 and "cannot be read" in r.stderr,
       "script: a missing upload folder stops the daemon (exit code 3)",
       "%d %s" % (r.returncode, r.stderr))
    whole = open(path(p.db), "rb").read()
    for content_name, body in (("text", b"not a database" * 100),
                               ("a damaged data set", whole[:100] + b"\xff" * (len(whole) - 100))):
        q = Project("p_" + content_name.replace(" ", "_"))
        with open(path(q.db), "wb") as f:
            f.write(body)
        r = q.call(1, file)
        ok(r.returncode == 3 and "dataset.sqlite" in r.stderr and open(path(q.db), "rb").read() ==
           body,
           "script: %s as data set stops the daemon, and is not changed"
           % content_name, "%d %s" % (r.returncode, r.stderr))
    q = Project("p_gone", made=False)
    for content_name, state in ((None, "is not there"), (b"", "is empty")):
        if content_name is not None:
            open(path(q.db), "wb").close()
        calls = [q.call(1, file), q.call("--error", 1, "x", 1, 0)]
        ok(all(r.returncode == 3 and "dataset.sqlite: the data set %s: mount" % state in r.stderr
               for r in calls) and
           [os.path.getsize(f) for f in glob.glob(path(q.db))] == [0] * (content_name is not None),
           "script stops the daemon, and makes no data set, if the data set " + state, calls)
    r = assimilate("forget", "--db", path(q.db), "plain")
    ok(r.returncode == 3 and "is empty" in r.stderr,
       "forget: an empty file as data set is refused", r.stderr)
    r = assimilate("create", "--db", path(q.db))
    ok(r.returncode == 0 and q.call(1, file).returncode == 0 and
       assimilate("create", "--db", path(q.db)).returncode == 0
       and query(q.db, "SELECT name FROM units") == [("plain",)],
       "create makes a data set, and does not change an existing one",
       r.stderr)
    r = assimilate("create", "--db", path("nowhere/d.sqlite"))
    ok(r.returncode == 3 and "d.sqlite: cannot write: the folder " in r.stderr,
       "create: a folder that does not exist", r.stderr)
    q = Project("p_foreign", made=False)
    with sqlite3.connect(path(q.db)) as c:
        c.execute("CREATE TABLE mine(a)")
    c.close()
    r = q.call(1, file)
    ok(r.returncode == 3 and "not a data set" in r.stderr,
       "script: another program's database is refused",
       "%d %s" % (r.returncode, r.stderr))
    q = Project("p_newer")
    q.call("--error", 1, "x", 1, 0)
    with sqlite3.connect(path(q.db)) as c:
        c.execute("PRAGMA user_version = 99")
    c.close()
    r = q.call(1, file)
    ok(r.returncode == 3 and "another version" in r.stderr,
       "script: a later version's data set is refused",
       "%d %s" % (r.returncode, r.stderr))
    q = Project("p_again")
    q.call(1, q.upload(path("cells.npz"), "cells_0_r1_0"))
    r = q.call(2, q.upload(path("cells.npz"), "again_0_r1_0"))
    ok(r.returncode == 0 and query(q.db, "SELECT name FROM units") == [("cells",)] and
       query(q.db, "SELECT units.name, aliases.name, aliases.wu_id FROM aliases JOIN units ON "
             "units.id = unit") == [("cells", "again", 2)],
       "script: the same work under another name is an alias", "%d %s" % (r.returncode, r.stderr))
    for _ in range(2):
        r = q.call(2, q.upload(path("cells.npz"), "again_0_r1_0"))
    ok(r.returncode == 0 and query(q.db, "SELECT count(*) FROM aliases") == [(1,)],
       "script: the alias is recorded once",
       r.stderr)
    collide(q)
    q = Project("p_folder", made=False)
    os.makedirs(path(q.db))
    r = q.call(1, file)
    ok(r.returncode == 3,
       "script: a folder as data set is refused", "%d %s" % (r.returncode, r.stderr))
    q = Project("p_store")
    with open(path(q.db + ".files"), "w") as f:
        f.write("in the way")
    for name, kind in (("texture", "with maps"), ("bad", "refused")):
        r = q.call(1, q.upload(path(name + ".npz"), name + "_0_r1_0"))
        ok(r.returncode == 3 and query(q.db, "SELECT * FROM units") == [] and
           query(q.db, "SELECT * FROM refused") == [],
           "script: if the file of a result %s cannot be stored, no row is written"
           % kind, "%d %s" %
           (r.returncode, r.stderr))
    r = q.call(1, file)
    ok(r.returncode == 0,
       "script: the file store is not needed for a unit without such files", r.stderr)


# --- disks and kills ------------------------------------------------------------------------------

def limit_file_size(size):
    """A function for preexec_fn: files of the child process cannot grow beyond size bytes."""
    def apply():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return apply


def test_full():
    """A limit of file sizes stands in for a full disk: the call fails, the data set stays whole,
    and without the limit the same call succeeds."""
    add("full.sqlite", "count")
    original = dump("full.sqlite")
    failed = 0
    for size in range(8192, 400000, 24576):
        r = assimilate("--db", path("full.sqlite"), path("plain.npz"),
                       preexec_fn=limit_file_size(size))
        if r.returncode == 0:
            break
        failed += 1
        ok(r.returncode == 3 and "full.sqlite" in r.stderr and dump("full.sqlite") == original,
           "files limited to %d bytes: the call fails, and the data set stays whole" % size,
           "%d %s" % (r.returncode, r.stderr))
    ok(failed > 2 and r.returncode == 0 and len(dump("full.sqlite")) > len(original),
       "without a limit the result is stored", failed)
    printed = []
    for size in range(8192, 400000, 24576):
        r = assimilate("forget", "--db", path("full.sqlite"), "plain",
                       preexec_fn=limit_file_size(size))
        if r.returncode == 0:
            break
        printed.append(r.stdout)
    ok(printed and not any(printed) and r.stdout == "plain\n",
       "forget prints no name if it fails", "%s %s" % (printed, r.stdout + r.stderr))
    add("full.sqlite", "plain")
    r = assimilate("export", "--db", path("full.sqlite"), "-o", path("full"), "--only", "glcm_long",
                   preexec_fn=limit_file_size(50000))
    ok(r.returncode == 3 and "cannot write" in r.stderr and os.listdir(path("full")) == [],
       "an export with a limit fails",
       "%d %s" % (r.returncode, r.stderr))


def nobody():
    """A function for preexec_fn: the child process runs as the user nobody."""
    if os.getuid() == 0:
        os.setgid(65534)
        os.setuid(65534)


def test_read_only():
    folder = path("readonly")
    os.makedirs(folder)
    r = assimilate("--db", os.path.join(folder, "d.sqlite"), path("count.npz"))
    os.chmod(os.path.join(folder, "d.sqlite"), 0o444)
    os.chmod(folder, 0o555)
    os.chmod(TMP, 0o755)
    if run([ASSIMILATE, "--help"], preexec_fn=nobody).returncode != 0:
        skip("a read-only data set", "no other user can run the program from here")
        return
    r = assimilate("--db", os.path.join(folder, "d.sqlite"), path("plain.npz"), preexec_fn=nobody)
    ok(r.returncode == 3 and "d.sqlite" in r.stderr, "a read-only data set",
       "%d %s" % (r.returncode, r.stderr))
    there = os.path.join(folder, "d.sqlite")
    os.makedirs(path("of_nobody"))
    os.chmod(path("of_nobody"), 0o777)
    r = run([ASSIMILATE, "export", "--db", there, "-o", path("of_nobody", "t")], preexec_fn=nobody)
    ok(r.returncode == 3 and "which this user may not do: copy it" in r.stderr,
       "export: a data set in a folder of another user", "%d %s" % (r.returncode, r.stderr))
    shutil.copyfile(there, path("of_nobody", "d.sqlite"))
    r = run([ASSIMILATE, "export", "--db", path("of_nobody", "d.sqlite"), "-o",
             path("of_nobody", "t")], preexec_fn=nobody)
    ok(r.returncode == 0,
       "a copy of another user's data set is exported", "%d %s" % (r.returncode, r.stderr))
    os.chmod(folder, 0o755)


def kill_library():
    """Compiles the library that kills a process at its file operation number KILL_AT. Returns its
    path, or None."""
    library = path("kill_at.so")
    made = run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", library,
                os.path.join(SRC, "tests", "resume", "kill_at.c"), "-ldl"])
    return library if ok(made.returncode == 0, "kill_at.c compiles", made.stderr) else None


def test_kills(library):
    """Three calls, each killed at every file operation and then repeated: adding to a new data set,
    adding to one that has units, and refusing a result."""
    for what, first, name, script in (("a new data set", [], "cells", False),
                                      ("a data set with units", ["texture", "votes3"], "cells",
                                       False),
                                      ("a refused one", ["votes"], "kill_bad", True)):
        start, db = path("start.sqlite"), path("kill.sqlite")
        for file in (start, start + ".files"):
            shutil.rmtree(file,
                          True) if os.path.isdir(file) else os.path.exists(file) and os.remove(file)
        for unit in first:
            add("start.sqlite", unit)
        if script:
            rewrite("plain", "kill_bad.npz", {"extra": np.zeros(3)})

        def reset():
            for file in (db, db + "-wal", db + "-shm"):
                if os.path.exists(file):
                    os.remove(file)
            shutil.rmtree(db + ".files", True)
            if first:
                shutil.copy(start, db)
                if os.path.isdir(start + ".files"):
                    shutil.copytree(start + ".files", db + ".files")

        argv = [ASSIMILATE] + (["script"] if script else []) + [
            "--db", db, "--store", db + ".files"] + (["7"] if script else []) \
            + [path(name + ".npz")]
        env = dict(os.environ, LD_PRELOAD=library, ASAN_OPTIONS="verify_asan_link_order=0")
        reset()
        empty = dump("kill.sqlite") if first else []
        run(argv)
        after, files = dump("kill.sqlite"), tree(db + ".files")
        ok(any(l.startswith("refused") for l in after) == script,
           what + ": the result of the undisturbed call", after)
        wrong, killed = [], 0
        for n in range(1, 200):
            reset()
            r = run(argv, env=dict(env, KILL_AT=str(n)))
            if r.returncode == 0:
                break
            killed += 1
            if r.returncode not in (-signal.SIGKILL, 3):
                wrong.append("call %d: not killed: %d %s" % (n, r.returncode, r.stderr))
            if first and dump("kill.sqlite") not in (empty, after):
                wrong.append("call %d: half a unit" % n)
            r = run(argv)
            if r.returncode != 0 or dump("kill.sqlite") != after or tree(db + ".files") != files:
                wrong.append("call %d: not as if undisturbed: %d %s" % (n, r.returncode, r.stderr))
        ok(killed > 20 and r.returncode == 0 and not wrong,
           "%s: killed at each of %d calls" % (what, killed), "\n".join(wrong[:5]))


def test_crash(library):
    """A signal in the middle of a transaction: SIGTERM, and SIGSEGV as by an error in the
    program."""
    q = Project("p_crash")
    q.call("--error", 1, "x", 1, 0)
    file = q.upload(path("plain.npz"), "plain_0_r1_0")
    env = dict(os.environ, LD_PRELOAD=library,
               ASAN_OPTIONS="verify_asan_link_order=0:handle_segv=0", KILL_AT="42")
    r = q.call(5, file, env=dict(env, KILL_SIGNAL=str(int(signal.SIGTERM))))
    ok(r.returncode == 3 and q.refused() == [],
       "script: SIGTERM ends the process as it ends other programs",
       "%d %s" % (r.returncode, r.stderr))
    r = q.call(5, file, env=dict(env, KILL_SIGNAL=str(int(signal.SIGSEGV))))
    rows = q.refused()
    ok(r.returncode == 0 and "refused (fault)" in r.stderr and [t[:4] for t in rows] ==
       [("fault", "plain", 5, "plain_0_r1_0")]
       and digest(path(q.db + ".files", rows[0][4])) == digest(file) and
       query(q.db, "SELECT * FROM units") == [],
       "script: a crash does not stop the daemon", "%d %s %s" % (r.returncode, r.stderr, rows))
    r = q.call(5, file)
    ok(r.returncode == 0 and len(query(q.db, "SELECT * FROM units")) == 1,
       "script: the unit can still be stored", r.stderr)


def tree(folder):
    """[(path, SHA-256)] of all files."""
    return sorted((os.path.relpath(os.path.join(d, f), folder), digest(os.path.join(d, f)))
                  for d, _, files in os.walk(folder) for f in files)


def test_two_at_once(names):
    """Several processes add to a data set that does not exist yet, each unit twice, while a reader
    has an open transaction."""
    for _ in range(4):
        for end in ("", "-wal", "-shm"):
            if os.path.exists(path("many.sqlite" + end)):
                os.remove(path("many.sqlite" + end))
        started = [subprocess.Popen([ASSIMILATE, "--db", path("many.sqlite"), path(n + ".npz")],
                                    stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, universal_newlines=True)
                   for n in names * 2]
        out = [p.communicate() + (p.returncode,) for p in started]
        if any(code != 0 for _, _, code in out):
            break
    ok(all(code == 0 for _, _, code in out),
       "several processes at once: all of them succeed", [o for o in out if o[2] != 0])
    ok(sum("stored" in o[0] for o in out) == len(names) and sum("already" in o[0] for o in out) ==
       len(names),
       "several processes at once: every unit is stored once", [o[0] for o in out])
    ok(dump("many.sqlite") == dump("b.sqlite"),
       "the data set is the same as with one writer after another")
    add("reader.sqlite", "count")
    reader = sqlite3.connect(path("reader.sqlite"), isolation_level=None)
    reader.execute("BEGIN")
    seen = reader.execute("SELECT count(*) FROM items").fetchone()
    r = add("reader.sqlite", "plain")
    ok(r.returncode == 0 and reader.execute("SELECT count(*) FROM items").fetchone() == seen,
       "a reader does not block a writer, nor a writer a reader", r.stderr)
    reader.close()
    writer = sqlite3.connect(path("reader.sqlite"), isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    waiting = subprocess.Popen([ASSIMILATE, "--db", path("reader.sqlite"), path("votes.npz")],
                               stdout=subprocess.DEVNULL)
    time.sleep(1)
    waits = waiting.poll() is None
    writer.execute("ROLLBACK")
    ok(waits and waiting.wait(60) == 0, "a writer waits for another writer", waits)
    writer.close()


# --- export ---------------------------------------------------------------------------------------

def read_csv(folder, name):
    with open(path(folder, name + ".csv"), newline="") as f:
        return list(csv.reader(f))


def number(text):
    return float(text) if text else None


def test_export(names):
    r = assimilate("export", "--db", path("a.sqlite"), "-o", path("out"))
    tables = {t for (t,) in query("a.sqlite", "SELECT name FROM sqlite_schema WHERE type = 'table' "
                                  "AND name NOT GLOB 'glcm_*'")}
    ok(r.returncode == 0 and set(os.listdir(path("out"))) ==
       {t + ".csv" for t in tables | {"glcm_wide", "glcm_long"}},
       "export writes a file for each table", r.stderr + str(os.listdir(path("out"))))
    units = {r[0]: r[1] for r in read_csv("out", "units")[1:]}
    ok(sorted(units.values()) == sorted(names), "units.csv", units)
    rows = read_csv("out", "items")
    ok(rows[0] == ["workunit", "number", "item", "source"] and
       [(units[r[0]], *r[1:]) for r in rows[1:]] ==
       [(n, str(i), item["name"], item["source"] or "") for n in sorted(names)
        for i, item in enumerate(UNITS[n][2])]
       and any(r[3] for r in rows[1:]), "items.csv", rows[:3])
    wide, long = read_csv("out", "glcm_wide"), read_csv("out", "glcm_long")
    expected, count = {}, 0
    for n in ("plain", "texture"):
        a = load(n)
        for i, item in enumerate(a["item_names"]):
            expected[n, str(item)] = dict(zip(map(str, a["feature_names"]), a["features"][i]))
            count += a["features"].shape[1]
    ok([(units[r[0]], r[1]) for r in wide[1:]] == list(expected) and sorted(wide[0][3:]) ==
       sorted({k for e in expected.values() for k in e}), "glcm_wide.csv: items and titles",
       wide[0][:5])
    wrong = [(r[0], r[1], t, c) for r in wide[1:] for t, c in zip(wide[0][3:], r[3:])
             if (c == "") != (t not in expected[units[r[0]], r[1]])
             or c != "" and not is_same([number(c)], [expected[units[r[0]], r[1]][t]])]
    ok(not wrong, "glcm_wide.csv: every bit; empty where a unit has no such feature", wrong[:3])
    got = {(units[r[0]], r[1], "glcm_L%s_d%02d_%s_%s" % (r[3], int(r[4]), r[5], r[6])): r[7]
           for r in long[1:]}
    ok(long[0] == ["workunit", "item", "source", "levels", "distance", "feature", "statistic",
                   "value"] and len(long) == count + 1
       and all(is_same([number(c)], [expected[u, i][t]]) for (u, i, t), c in got.items()),
       "glcm_long.csv: every bit")
    rows = read_csv("out", "cellcount_regions")
    centroid, area = rows[0].index("centroid_x"), rows[0].index("area")
    for n in ("cells", "count"):
        a, unit_rows = load(n), [r for r in rows[1:] if units[r[0]] == n]
        ok(is_same([float(r[centroid]) for r in unit_rows], a["region_centroid"][:, 1]) and
           is_same([r[area] for r in unit_rows], a["region_area"])
           and [r[1] for r in unit_rows] == [str(a["item_names"][i]) for i in a["region_item"]]
           and [r[2] for r in unit_rows] ==
           [UNITS[n][2][i]["source"] or "" for i in a["region_item"]],
           "cellcount_regions.csv: " + n)
    rows = read_csv("out", "voting_points")
    x, z = rows[0].index("x"), rows[0].index("z")
    for n in ("votes", "votes3"):
        a, unit_rows = load(n), [r for r in rows[1:] if units[r[0]] == n]
        ok(is_same([float(r[x]) for r in unit_rows], a["point"][:, -1])
           and ([r[z] for r in unit_rows] == [""] * len(unit_rows) if n == "votes"
                else is_same([float(r[z]) for r in unit_rows], a["point"][:, 0])),
           "voting_points.csv: " + n)
    original = tree(path("out"))
    assimilate("export", "--db", path("a.sqlite"), "-o", path("out"))
    ok(tree(path("out")) == original, "exported twice: the same bytes")
    ok(r.stderr == "", "export has no note", r.stderr)
    for name in ("glcm_old.csv", "units.csv.tmp"):
        with open(path("out", name), "w") as f:
            f.write("workunit,item,source\n")
    with open(path("out", "mine.txt"), "w") as f:
        f.write("mine")
    r = assimilate("export", "--db", path("a.sqlite"), "-o", path("out"))
    ok(r.returncode == 0 and "has 1 file that this export did not write, such as glcm_old.csv" in
       r.stderr, "export names tables that it did not write", r.stderr)
    with open(path("out", "old.csv.tmp"), "w"):
        pass
    r = assimilate("export", "--db", path("a.sqlite"), "-o", path("out"))
    ok("has 2 files that this export did not write" in r.stderr,
       "export names the files that a killed export left", r.stderr)
    r = assimilate("export", "--db", path("a.sqlite"), "-o", path("one"), "--only", "items")
    ok(r.returncode == 0 and os.listdir(path("one")) == ["items.csv"], "export --only", r.stderr)
    for name in ("units", "refused", "failed", "glcm_wide"):
        with open(path("one", name + ".csv"), "w") as f:
            f.write("sample,mine\n1,2\n")
        r = assimilate("export", "--db", path("a.sqlite"), "-o", path("one"))
        with open(path("one", name + ".csv")) as f:
            ok(r.returncode == 1 and name + ".csv: already exists, and is not a table "
               "of an export" in r.stderr and f.read() == "sample,mine\n1,2\n",
               "export does not replace a foreign %s.csv" % name, r.stderr)
        os.remove(path("one", name + ".csv"))
    for what, code, args in (("a table that is not there", 1,
                              [path("a.sqlite"), "-o", path("one"), "--only", "x"]),
                             ("no data set", 2, [path("none.sqlite"), "-o", path("one")]),
                             ("a file as folder", 3, [path("a.sqlite"), "-o", path("plain.zip")])):
        r = assimilate("export", "--db", *args)
        ok(r.returncode == code and r.stderr.count("\n") == 1, "export: " + what,
           "%d %s" % (r.returncode, r.stderr))
    ok(not os.path.exists(path("none.sqlite")), "export does not make a data set")


def test_page():
    """The SQL and Python examples of docs/dataset.md work."""
    with open(os.path.join(SRC, "docs", "dataset.md")) as f:
        page = f.read()
    statements = [s for block in re.findall(r"```sql\n(.*?)```", page, re.S)
                  for s in block.split(";") if s.strip()]
    wrong = []
    for s in statements:
        try:
            if not query("a.sqlite", s):
                wrong.append("nothing found: " + s)
        except sqlite3.Error as e:
            wrong.append("%s: %s" % (e, s))
    ok(len(statements) > 5 and not wrong, "docs/dataset.md: %d queries" % len(statements),
       "\n".join(wrong))
    if run(["/usr/bin/python3", "-c", "import pandas"]).returncode != 0:
        skip("docs/dataset.md: pandas", "there is none")
        return
    for code in re.findall(r"```python\n(.*?)```", page, re.S):
        r = run(["/usr/bin/python3", "-c", code.replace("dataset.sqlite", path("a.sqlite"))],
                cwd=TMP)
        ok(r.returncode == 0 and r.stdout.strip() != "", "docs/dataset.md: pandas", r.stderr)
    named = set(re.findall(r"`([a-z_0-9]+)`", page))
    columns = {c for t in ("units", "items", "aliases", "refused", "failed") for (c,) in
               query("a.sqlite", "SELECT name FROM pragma_table_info(?)", t)}
    ok(columns <= named, "docs/dataset.md: every column is explained", columns - named)


def main():
    if not os.path.exists(ASSIMILATE):
        skip("texcell-assimilate", "it is not built: no SQLite")
        done()
    names = make_results()
    test_content(names)
    if os.environ.get("TEXCELL_ANALYSIS"):      # the other tests use units of several analyses
        done()
    test_unknown_analysis()
    test_views()
    test_generated_columns()
    test_again(names)
    test_forget(names)
    test_bad(names)
    test_conflict()
    test_memory()
    test_changed_uploads()
    p = Project("project")
    test_script_good(p, names)
    test_log()
    test_script_usage(p)
    test_script_bad(p)
    test_script_error(p)
    test_script_server(p)
    test_full()
    test_read_only()
    library = kill_library()
    if library:
        test_kills(library)
        test_crash(library)
    test_two_at_once(names)
    test_export(names)
    if os.path.exists(os.path.join(SRC, "docs", "dataset.md")):
        test_page()
    note("units: " + " ".join(names))
    done()


main()
