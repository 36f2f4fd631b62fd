"""make bench-assimilate: stores units of 100 items with the preset hcc (4,875 features each) in an
empty data set, and in one of ASSIMILATE_ITEMS items (default: a million; ASSIMILATE_HCC of them,
default 150,000, have all features, and the others five distances of one level, so that the file has
12 GB). Each unit is stored by a process of its own, as by BOINC. Then the same with units of one
small picture, in an empty data set and in one of a million items."""
import io
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import zipfile

import numpy as np
from PIL import Image

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from oracle import workunit  # noqa: E402
from tap import BUILD, TEXCELL, TEXCELL_WU  # noqa: E402

ASSIMILATE = os.path.join(BUILD, "texcell-assimilate")
SMALL = {"levels": [64], "distances": [1, 2, 3, 4, 5]}
TIMED = 60                      # units of which each figure is the mean


class Maker:
    """Makes results of 100 items from the features of ten computed ones, each for another work
    unit."""
    count = 0

    def __init__(self, folder, parameters):
        self.folder = folder
        rng = np.random.default_rng(1)
        unit, result = os.path.join(folder, "unit.zip"), os.path.join(folder, "unit.npz")
        workunit.write(unit, "glcm", parameters, [
            workunit.item("i%d" % i, [rng.integers(0, 256, (40 + i, 50)).astype(np.uint8)])
            for i in range(10)])
        subprocess.check_call([TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet"])
        with zipfile.ZipFile(result) as z:
            self.json = json.loads(z.read("result.json"))
            self.names = z.read("feature_names.npy")
        self.features = np.load(result)["features"]
        os.remove(unit)
        os.remove(result)

    def make(self, items=100):
        Maker.count += 1
        names = ["u%d_%d" % (Maker.count, i) for i in range(items)]
        self.json["items"] = names
        self.json["workunit"] = {"crc32": "%08x" % (Maker.count * 2654435761 % 2 ** 32),
                                 "size": 1000 + Maker.count,
                                 "sha256": "%064x" % Maker.count}
        path = os.path.join(self.folder, "u%d_0_r%d_0" % (Maker.count, Maker.count))
        with zipfile.ZipFile(path, "w") as z:
            z.writestr("result.json", json.dumps(self.json))
            z.writestr("feature_names.npy", self.names, zipfile.ZIP_DEFLATED)
            for name, array in (("item_names", np.array(names)),
                                ("features", np.tile(self.features, (items // 10, 1)))):
                data = io.BytesIO()
                np.save(data, array)
                z.writestr(name + ".npy", data.getvalue())
        return path


def assimilate(db, path):
    if not os.path.exists(db):
        subprocess.check_call([ASSIMILATE, "create", "--db", db])
    subprocess.check_call([ASSIMILATE, "script", "--db", db, "1", path], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL)


def time_units(db, maker, units):
    """(seconds for all units, stored by one process after another; seconds of the slowest;
    processor seconds of all, which depend less on other work of the machine)."""
    paths = [maker.make() for _ in range(units)]
    each, before = [], resource.getrusage(resource.RUSAGE_CHILDREN)
    for path in paths:
        start = time.perf_counter()
        assimilate(db, path)
        each.append(time.perf_counter() - start)
        os.remove(path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(each), max(each), after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def show(what, db, units, seconds, slowest, processor):
    size = sum(os.path.getsize(db + e) for e in ("", "-wal") if os.path.exists(db + e))
    print("%-30s %4.0f units/min  slowest %.2f s  processor %3.0f ms a unit  file %.2f GB" %
          (what, 60 * units / seconds, slowest, 1000 * processor / units, size / 1e9), flush=True)


def small_units(folder, db, n=100):
    """Times units of one picture, with a shell and a script for each, as BOINC starts them."""
    os.makedirs(os.path.join(folder, "pictures"), exist_ok=True)
    rng, prefix = np.random.default_rng(), "s%d" % time.time_ns()
    for i in range(n):
        Image.fromarray(rng.integers(0, 256, (128, 128)).astype(np.uint8)).save(
            os.path.join(folder, "pictures", "p%03d.png" % i))
    subprocess.check_call([TEXCELL_WU, "pack", "--analysis", "cellcount", "--split", "1", "-o",
                           os.path.join(folder, prefix + ".zip"),
                           os.path.join(folder, "pictures")], stdout=subprocess.DEVNULL)
    script, results = os.path.join(folder, "assimilate"), []
    with open(script, "w") as f:
        f.write("#!/bin/sh\nexec %s script --db %s --workunits %s \"$@\"\n" %
                (ASSIMILATE, db, folder))
    os.chmod(script, 0o755)
    for i in range(1, n + 1):
        unit, result = (os.path.join(folder, "%s_%03d%s" % (prefix, i, end))
                        for end in (".zip", "_0_r1_0"))
        os.rename(os.path.join(folder, "%s_%04d.zip" % (prefix, i)), unit)
        subprocess.check_call([TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet"])
        results.append(result)
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    for i, result in enumerate(results):
        if os.system("%s %d %s > /dev/null 2>&1" % (script, i + 1, result)) != 0:
            raise SystemExit("%s is not stored" % result)
    after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - start
    show("units of one picture", db, n, seconds, 0,
         after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def ask(db, sql):
    """Seconds of a query, with the file dropped from the system's cache where that is possible."""
    if hasattr(os, "posix_fadvise"):
        with open(db, "rb") as f:
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    start = time.perf_counter()
    connection = sqlite3.connect(db)
    rows = len(connection.execute(sql).fetchall())
    connection.close()
    print("%6.2f s for %d rows: %s" % (time.perf_counter() - start, rows, sql), flush=True)


def main():
    folder = tempfile.mkdtemp(prefix="texcell-bench-")
    items, hcc_items = (int(os.environ.get(name, default)) for name, default in
                        (("ASSIMILATE_ITEMS", 1000000), ("ASSIMILATE_HCC", 150000)))
    db = os.path.join(folder, "dataset.sqlite")
    try:
        small_units(folder, os.path.join(folder, "small.sqlite"))
        hcc, small = Maker(folder, {"preset": "hcc"}), Maker(folder, SMALL)
        show("hcc units, empty data set", db, TIMED, *time_units(db, hcc, TIMED))
        for done in range(TIMED * 100, hcc_items, 100):
            path = hcc.make()
            assimilate(db, path)
            os.remove(path)
        show("hcc units, %d items" % hcc_items, db, TIMED, *time_units(db, hcc, TIMED))
        for done in range(hcc_items, items, 10000):
            path = small.make(10000)
            assimilate(db, path)
            os.remove(path)
        show("hcc units, %d items" % items, db, TIMED, *time_units(db, hcc, TIMED))
        small_units(folder, db)
        for sql in ("SELECT avg(contrast_mean) FROM glcm_features WHERE levels = 64 AND "
                    "distance = 3",
                    "SELECT item, contrast_mean FROM glcm_features WHERE levels = 64 AND "
                    "distance = 3",
                    "SELECT name, glcm_L64_d03_contrast_mean FROM glcm_wide_L64",
                    "SELECT * FROM glcm_wide_L64 WHERE name = 'u7_7'",
                    "SELECT * FROM glcm_features WHERE item = 707",
                    "SELECT * FROM glcm_long WHERE item = 707"):
            ask(db, sql)
    finally:
        shutil.rmtree(folder)


main()
