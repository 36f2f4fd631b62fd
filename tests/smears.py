"""Blood smears as a person meets them who knows nothing of texcell: half of the pictures of a study, analyse --suggest, a
look, a --sweep around what was suggested, a look; then the other half with what was best. The look is here the
marks of the first half: F1 as cellcount_accuracy.py has it, within the median radius.

  smears.py        each step with its score"""
import json
import os
import tempfile
import zipfile

import numpy as np

import cellcount_accuracy as marks
import tap

# Learnt on, scored on.
SPLITS = [(("chula_1", "chula_4"), ("chula_262",)), (("chula_262",), ("chula_1", "chula_4")),
          (("bccd_BloodImage_00000",), ("bccd_BloodImage_00028",)), (("bccd_BloodImage_00028",), ("bccd_BloodImage_00000",))]
GROUNDS = 'background=null,{"method":"mean","by":"ratio"},{"method":"opening","by":"ratio"}'


def analyse(names, folder, *args):
    r = tap.run([tap.TEXCELL_WU, "analyse", "--analysis", "cellcount", "-o", folder, *args] +
                [tap.data("count/%s.jpg" % n) for n in names])
    if r.returncode != 0:
        raise RuntimeError(r.stderr)


def f1(names, result):
    """Mean over the pictures."""
    with np.load(result) as r:
        return float(np.mean([marks.score(n, r["region_centroid"][r["region_item"] == k][:, ::-1], r["region_area"][r["region_item"] == k], 1)[2]
                              for k, n in enumerate(names)]))


def sweep(learnt, folder, channel, *sweeps):
    """Each variant: its F1, and what it was run with."""
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
    """The steps, and their scores; light: with the channels and backgrounds, too."""
    folder = tempfile.mkdtemp(dir=marks.FOLDER)
    suggested = sweep(learnt, os.path.join(folder, "first"), (), "split=distance")
    area = list(suggested.values())[0][2]["min_area"]
    sizes = sweep(learnt, os.path.join(folder, "sizes"), (), "min_area=%d,%d,%d" % (area // 2, area, 2 * area), "split=distance,none")

    def rest(tried):
        best = max(tried, key=lambda k: tried[k][0])
        _, channel, parameters = tried[best]
        out = os.path.join(folder, "rest")
        analyse(scored, out, *channel, *[w for k, v in parameters.items() for w in ("--param", "%s=%s" % (k, json.dumps(v)))])
        return {"best": best, "there": round(tried[best][0], 3), "scored": round(f1(scored, os.path.join(out, "result.npz")), 3)}

    out = {"suggested": dict(rest(suggested), min_area=area), "sizes": rest(sizes)}
    if light:
        grounds = sweep(learnt, os.path.join(folder, "grey"), (), GROUNDS)
        grounds.update(sweep(learnt, os.path.join(folder, "green"), ("--channel", "green"), GROUNDS))
        out["light"] = rest(grounds)
    return out


def main():
    for learnt, scored in SPLITS:
        print("%s -> %s" % (" ".join(learnt), " ".join(scored)))
        for key, value in person(learnt, scored).items():
            print("   %-10s %s" % (key, value), flush=True)


if __name__ == "__main__":
    main()
