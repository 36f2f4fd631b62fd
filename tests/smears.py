"""Blood smears as a person meets them who knows nothing of texcell: half of the pictures of a study, analyse --suggest, a
look, a --sweep around what was suggested, a look; then the other half with what was best. The look is here the
marks of the first half: F1 as cellcount_accuracy.py has it, within the median radius.

  smears.py        each step with its score"""
import os
import re
import tempfile

import numpy as np

import cellcount_accuracy as marks
import tap

# Learnt on, scored on.
SPLITS = [(("chula_1", "chula_4"), ("chula_262",)), (("chula_262",), ("chula_1", "chula_4")),
          (("bccd_BloodImage_00000",), ("bccd_BloodImage_00028",)), (("bccd_BloodImage_00028",), ("bccd_BloodImage_00000",))]
PARAM = re.compile(r"--param (\w+)=(\S+)")


def analyse(names, folder, *args):
    """Messages of a run on the pictures of these names."""
    r = tap.run([tap.TEXCELL_WU, "analyse", "--analysis", "cellcount", "-o", folder, *args] +
                [tap.data("count/%s.jpg" % n) for n in names])
    if r.returncode != 0:
        raise RuntimeError(r.stderr)
    return r.stderr


def f1(names, result):
    """Mean over the pictures."""
    with np.load(result) as r:
        return float(np.mean([marks.score(n, r["region_centroid"][r["region_item"] == k][:, ::-1], r["region_area"][r["region_item"] == k], 1)[2]
                              for k, n in enumerate(names)]))


def person(learnt, scored):
    """The steps, and their scores."""
    folder = tempfile.mkdtemp(dir=marks.FOLDER)
    said = analyse(learnt, os.path.join(folder, "first"), "--suggest")
    suggested = dict(PARAM.findall(said))
    first = f1(learnt, os.path.join(folder, "first", "result.npz"))
    area = int(suggested["min_area"])
    analyse(learnt, os.path.join(folder, "sweep"), "--suggest", "--sweep", "min_area=%d,%d,%d" % (area // 2, area, 2 * area),
            "--sweep", "split=distance,none")
    tried = {}
    for variant in sorted(os.listdir(os.path.join(folder, "sweep"))):
        result = os.path.join(folder, "sweep", variant, "result.npz")
        if os.path.exists(result):
            tried[variant] = f1(learnt, result)
    best = max(tried, key=tried.get)
    chosen = dict(suggested, **dict(re.findall(r"(min_area|split)=([a-z0-9]+)", best)))

    def rest(parameters):
        analyse(scored, os.path.join(folder, "rest"), *[w for k, v in parameters.items() for w in ("--param", "%s=%s" % (k, v))])
        return round(f1(scored, os.path.join(folder, "rest", "result.npz")), 3)

    return {"suggested": suggested, "learnt": round(first, 3), "swept": {k: round(v, 3) for k, v in tried.items()}, "chosen": chosen,
            "suggested alone": rest(suggested), "scored": rest(chosen)}


def main():
    for learnt, scored in SPLITS:
        one = person(learnt, scored)
        print("%s -> %s" % (" ".join(learnt), " ".join(scored)))
        for key, value in one.items():
            print("   %-15s %s" % (key, value))


if __name__ == "__main__":
    main()
