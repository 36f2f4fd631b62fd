"""Scores the counts of blood smears by a person who does not know texcell's parameters: analyse
--suggest, a look at the page, and a --sweep around the suggested values on some pictures; then the
best variant on the others. The person's judgement is replaced by the marks of the first pictures:
F1 as in cellcount_accuracy.py, within the median radius.

Many visible cells in the two BCCD pictures have no box. So the F1 of a result with every cell and
nothing else is printed last, as the highest possible score.

  smears.py        each step with its score"""
import json
import os
import tempfile
import zipfile

import numpy as np

import cellcount_accuracy as marks
import tap

# (pictures on which parameters are chosen, pictures that are scored)
SPLITS = [(("chula_1", "chula_4"), ("chula_262",)), (("chula_262",), ("chula_1", "chula_4")),
          (("bccd_BloodImage_00000",), ("bccd_BloodImage_00028",)),
          (("bccd_BloodImage_00028",), ("bccd_BloodImage_00000",))]
GROUNDS = 'background=null,{"method":"mean","by":"ratio"},{"method":"opening","by":"ratio"}'


# Cells without a box (x, y), by eye; only clear ones.
WITHOUT_BOX = {
    "bccd_BloodImage_00000": ((96, 25), (20, 60), (123, 120), (15, 222), (10, 287), (232, 290),
                              (484, 45), (519, 76), (570, 15), (612, 156),
                              (534, 290), (282, 453), (610, 469)),
    "bccd_BloodImage_00028": ((30, 20), (25, 62), (121, 200), (537, 227), (622, 130), (500, 315),
                              (524, 418), (405, 443)),
}


def analyse(names, folder, *args):
    r = tap.run([tap.TEXCELL_WU, "analyse", "--analysis", "cellcount", "-o", folder, *args] +
                [tap.data("count/%s.jpg" % n) for n in names])
    if r.returncode != 0:
        raise RuntimeError(r.stderr)


def f1(names, result):
    """The mean F1 of the pictures."""
    with np.load(result) as r:
        return float(np.mean([marks.score(n, r["region_centroid"][r["region_item"] == k][:, ::-1],
                                          r["region_area"][r["region_item"] == k], 1)[2]
                              for k, n in enumerate(names)]))


def sweep(learnt, folder, channel, *sweeps):
    """{variant: (F1, options, parameters)} of a sweep."""
    words = [w for one in sweeps for w in ("--sweep", one)]
    analyse(learnt, folder, "--suggest", *channel, *words)
    tried = {}
    for variant in sorted(os.listdir(folder)):
        result = os.path.join(folder, variant, "result.npz")
        if os.path.exists(result):
            with zipfile.ZipFile(os.path.join(folder, variant, "workunit.zip")) as z:
                parameters = json.loads(z.read("job.json"))["parameters"]
            tried[" ".join(channel[1:]) + variant[2:]] = f1(learnt, result), channel, parameters
    return tried


def person(learnt, scored, light=True):
    """{step: its best variant and scores}. light: whether to sweep channels and backgrounds,
    too."""
    folder = tempfile.mkdtemp(dir=marks.FOLDER)
    suggested = sweep(learnt, os.path.join(folder, "first"), (), "split=distance,none")
    area = list(suggested.values())[0][2]["min_area"]
    sizes = sweep(learnt, os.path.join(folder, "sizes"), (),
                  "min_area=%d,%d,%d" % (area // 2, area, 2 * area), "split=distance,none")

    def rest(tried):
        best = max(tried, key=lambda k: tried[k][0])
        _, channel, parameters = tried[best]
        out = os.path.join(folder, "rest")
        analyse(scored, out, *channel, *[w for k, v in parameters.items()
                                         for w in ("--param", "%s=%s" % (k, json.dumps(v)))])
        return {"best": best, "there": round(tried[best][0], 3),
                "scored": round(f1(scored, os.path.join(out, "result.npz")), 3)}

    out = {"suggested": dict(rest(suggested), min_area=area), "sizes": rest(sizes)}
    if light:
        grounds = sweep(learnt, os.path.join(folder, "grey"), (), GROUNDS)
        grounds.update(sweep(learnt, os.path.join(folder, "green"), ("--channel", "green"),
                             GROUNDS))
        out["light"] = rest(grounds)
    return out


def ceiling():
    """Prints F1 of all cells, with and without a box, compared with the boxes, and F1 of the cells
    found compared with all cells."""
    for name, more in WITHOUT_BOX.items():
        boxes = marks.marks_of(name)
        everything = np.concatenate([boxes, more])
        found = marks.found((name,), dict(marks.PARAMETERS, min_area=2000, background={
            "method": "mean", "radius": 60, "by": "ratio"}), marks.green)
        areas = found[name][1]
        print("%s: %d boxes, %d cells without; all of them score %.3f against the boxes; found "
              "%.3f, against all cells %.3f" % (
                  name, len(boxes), len(more), marks.score(name, everything, areas, 1)[2],
                  marks.score(name, *found[name], 1)[2],
                  marks.score(name, *found[name], 1, everything)[2]))


def main():
    for learnt, scored in SPLITS:
        print("%s -> %s" % (" ".join(learnt), " ".join(scored)))
        for key, value in person(learnt, scored).items():
            print("   %-10s %s" % (key, value), flush=True)
    ceiling()


if __name__ == "__main__":
    main()
