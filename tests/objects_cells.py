"""Tests the worked example in docs/shapes.md on real blood smears: its commands and its rule give
the picture and the figures in the page. `objects_cells.py --svg` draws the picture again."""
import csv
import os
import re
import shutil
import subprocess
import sys
from collections import Counter

import numpy as np

import tap

DOCS = os.path.join(tap.SRC, "docs", "analyses")
PICTURE = os.path.join(DOCS, "objects_cells.svg")
NORMAL, OVALOCYTE = 0, 6
COLOURS = {"round": "#4477aa", "oval": "#ee6677", "several": "#ccbb44", "small": "#aa3377",
           "border": "#bbbbbb"}
FOLDER = tap.scratch()


def page():
    with open(os.path.join(tap.SRC, "docs", "shapes.md"), encoding="utf-8") as f:
        return f.read()


def example(name):
    """(rows of objects.csv, {label: kind by the page's rule}, label picture) of a smear."""
    commands, rule = re.search(r"```sh\n(.*?)```.*?```python\n(.*?)```", page(), re.S).groups()
    shutil.copy(os.path.join(tap.DATA, "count", name + ".jpg"), os.path.join(FOLDER, "smear.jpg"))
    env = dict(os.environ, PATH=os.path.abspath(tap.BUILD) + os.pathsep + os.environ["PATH"])
    for script in (["sh", "-ec", commands], [sys.executable, "-c", rule]):
        process = subprocess.run(script, cwd=FOLDER, env=env, check=True, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, universal_newlines=True)
    with open(os.path.join(FOLDER, "shapes", "objects.csv")) as f:
        rows = list(csv.DictReader(f))
    with np.load(os.path.join(FOLDER, "cells", "result.npz")) as z:
        labels = z["labels_smear"]
    for each in ("cells", "shapes"):
        shutil.rmtree(os.path.join(FOLDER, each))
    return rows, dict(line.split() for line in process.stdout.splitlines()), labels


def drawing(rows, kinds):
    """Yields the lines of an SVG with an ellipse for each object."""
    counts = Counter(kinds.values())
    yield ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 510" width="640" '
           'height="510">\n<rect width="640" height="510" fill="#fff"/>')
    for r in rows:
        c = COLOURS[kinds[r["label"]]]
        a, b, o, x, y = (float(r[k]) for k in ("axis_major_length", "axis_minor_length",
                                               "orientation", "centroid_x", "centroid_y"))
        yield ('<ellipse cx="0" cy="0" rx="%.1f" ry="%.1f" transform="translate(%.1f %.1f) '
               'rotate(%.0f)" fill="%s" fill-opacity="0.6" stroke="%s"/>' %
               (a / 2, b / 2, x, y, 90 - np.degrees(o), c, c))
    for i, (kind, c) in enumerate(COLOURS.items()):
        yield ('<rect x="%d" y="488" width="14" height="14" fill="%s"/><text x="%d" y="500" '
               'font-family="sans-serif" font-size="14">%s: %d</text>' %
               (10 + 125 * i, c, 30 + 125 * i, kind, counts[kind]))
    yield "</svg>\n"


def main():
    if not os.path.isdir(os.path.join(tap.DATA, "count")):
        tap.skip("the worked example", "the pictures are not here")
        tap.done()
    found = {NORMAL: Counter(), OVALOCYTE: Counter()}
    for name in ("chula_1", "chula_4", "chula_262"):
        rows, kinds, labels = example(name)
        if name == "chula_1":
            svg = "\n".join(drawing(rows, kinds))
        for x, y, which in np.loadtxt(os.path.join(tap.DATA, "count", name + ".txt"))[:, :3]:
            if which in found:
                found[which][kinds.get(str(labels[min(int(y), labels.shape[0] - 1),
                                                  min(int(x), labels.shape[1] - 1)]), "none")] += 1
    if "--svg" in sys.argv:
        with open(PICTURE, "w") as f:
            f.write(svg)
    with open(PICTURE) as f:
        tap.ok(f.read() == svg, "the page's picture is that of the table")
    oval, normal = found[OVALOCYTE], found[NORMAL]
    inside = Counter({k: n for k, n in normal.items() if k != "border"})
    text = " ".join(page().split())
    sentence = ("Of %d cells that experts marked as ovalocytes in three pictures, the rule calls "
                "%d oval, %d round and %d several; of %d "
                "normal cells away from the border %d round, %d oval, %d several and %d small, "
                "and %d were not found" % (
                    sum(oval.values()), oval["oval"], oval["round"], oval["several"],
                    sum(inside.values()), inside["round"],
                    inside["oval"], inside["several"], inside["small"], inside["none"]))
    tap.ok(sentence in text, "the page says: " + sentence)
    tap.done()


if __name__ == "__main__":
    main()
