"""Tests the page of texcell-assimilate report, in Chromium at three widths. The page has counts,
reasons, histograms and pictures of a data set; names that contain markup are escaped; the page
names no folder of the server and loads nothing from elsewhere; and an existing page is replaced as
a whole or not at all."""
import html.parser
import os
import re
import sqlite3

import numpy as np

import report_test
import tap
from oracle import workunit

FOLDER = tap.scratch()
ASSIMILATE = os.path.join(tap.BUILD, "texcell-assimilate")
DB, PAGE = os.path.join(FOLDER, "d.sqlite"), os.path.join(FOLDER, "page.html")
EVIL = "<img src=x onerror=\"document.title='owned'\">&<b>"


class Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen, self.words = [], ""

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)

    def handle_data(self, data):
        self.words += data


def assimilate(*args):
    return tap.run([ASSIMILATE, *args])


def fill():
    """Makes a data set of three results, one of them of a stack, a refused result, and a unit that
    failed."""
    stack = np.full((6, 30, 40), 20, np.uint8)
    stack[1:5, 5:25, 5:35] = 200
    stack[2:4, 8:20, 8:30] = 20
    for name, analysis, parameters, items in (
            ("cells", "cellcount", {"labels": True, "threshold": 128, "polarity": "bright"},
             [workunit.item("a", [report_test.spots((90, 120), 14)])]),
            ("walls", "volume", {"membrane": 100, "labels": True},
             [workunit.item("s", list(stack), spacing=[])]),
            ("texture", "glcm", {"levels": [16], "distances": [1, 2], "window": {"radius": 3}},
             [workunit.item("g%d" % i, [report_test.spots((40, 50), 3)]) for i in range(9)])):
        _, result = report_test.make_page(analysis, parameters, items, os.path.join(FOLDER, name))
        unit = result[:-4] + ".zip"
        r = assimilate("--db", DB, unit, result)
        tap.ok(r.returncode == 0, name + " is stored", r.stderr)
    assimilate("script", "--db", DB, "--error", "4", EVIL, "77", "0")
    db = sqlite3.connect(DB)
    db.execute("INSERT INTO refused(kind, reason, name, wu_id, result, stored) VALUES('invalid', "
               "?, 'u_1', 3, 'u_1_r42_0', '2026-01-01T00:00:00Z')",
               ("/home/boinc/projects/x/upload/3f/u_1_r42_0: result.json: " + EVIL,))
    db.execute("UPDATE items SET name = ? WHERE name = 'g0'", (EVIL,))
    db.commit()
    columns = {row[1] for row in db.execute("PRAGMA table_info(volume_cells)")}
    tap.ok("volume_voxels" in columns and "volume" not in columns,
           "the column of volumes in voxels is volume_voxels, not volume", columns)
    db.close()


def main():
    fill()
    r = assimilate("report", "--db", DB, "-o", PAGE)
    tap.ok(r.returncode == 0 and r.stdout == PAGE + "\n" and r.stderr == "",
           "report writes the page, and prints its name", r.stdout + r.stderr)
    with open(PAGE) as f:
        text = f.read()
    tags = Tags()
    tags.feed(text)
    tap.ok("img" not in tags.seen and "b" not in tags.seen and tags.words.count(EVIL) == 3,
           "names add no elements to the page, and appear as text", tags.words.count(EVIL))
    tap.ok(FOLDER not in text and "/home/boinc" not in text and "u_1_r42_0: result.json" in text,
           "the page names no folder of the server")
    counted = re.findall(r"<strong>(\d+)</strong> ([a-z ]+)</span>", text)
    tap.ok(counted == [("3", "units"), ("11", "items"), ("1", "refused"), ("1", "failed")],
           "the page has the counts of the data set", counted)
    tap.ok("too many results without agreement" in text or "failed" in text and "invalid" in text,
           "the page has the reasons of refusals and failures")
    tap.ok(text.count("class=thumb>") == 2 and text.count("data:image/png") == 2,
           "the page has pictures of units whose result was kept", text.count("class=thumb>"))
    tap.ok("<h3>cellcount_regions</h3>" in text and "<h3>glcm_features</h3>" in text and
           ", levels 16, distance 1" in text
           and "<figcaption>area</figcaption>" in text and "centroid_x</figcaption>" not in text,
           "the page has histograms")
    for width in (400, 800, 1400):
        output = report_test.in_browser(PAGE, "return [innerWidth, "
                                        "document.documentElement.scrollWidth, document.title, "
                                        "performance.getEntriesByType('resource').filter(e => "
                                        "!e.name.startsWith('data:')).length]", width)
        tap.ok(output is not None and output[1] <= output[0] and output[3] == 0 and output[2] ==
               "Data set",
               "%d pixels wide: the page has no overflow and loads nothing" % width, output)
    output = report_test.in_browser(PAGE, "const t = document.querySelector('table'), h = "
                                    "[...t.tHead.rows[0].cells].findIndex(c => c.textContent == "
                                    "'items'); t.tHead.rows[0].cells[h].click(); return "
                                    "[...t.tBodies[0].rows].map(r => +r.cells[h].textContent)")
    tap.ok(output == [1, 1, 9], "the page's tables can be sorted", output)
    before = text
    r = assimilate("report", "--db", os.path.join(FOLDER, "none.sqlite"), "-o", PAGE)
    tap.ok(r.returncode != 0 and open(PAGE).read() == before,
           "an error of the data set keeps the old page", r.stderr)
    r = assimilate("report", "--db", DB, "-o", os.path.join(FOLDER, "nowhere", "page.html"))
    tap.ok(r.returncode == 3 and "cannot write" in r.stderr,
           "report into a folder that does not exist is an error", r.stderr)
    for args in (["--db", DB], ["-o", PAGE], ["--db", DB, "-o", PAGE, "x"]):
        tap.ok(assimilate("report", *args).returncode == 1, "refused: report " + " ".join(args[:1]))
    for file in os.listdir(DB + ".files"):
        with open(os.path.join(DB + ".files", file), "r+b") as f:
            f.truncate(100)
    r = assimilate("report", "--db", DB, "-o", PAGE)
    tap.ok(r.returncode == 0 and "class=thumb>" not in open(PAGE).read(),
           "kept files that are damaged are left out", r.stderr)
    tap.ok(not [f for f in os.listdir(FOLDER) if f.endswith(".tmp")], "no temporary file is left",
           os.listdir(FOLDER))
    tap.done()


main()
