"""Tests glcm and its oracle against published values of the digital phantom of the Image Biomarker
Standardisation Initiative (IBSI reference manual, grey level co-occurrence features, averaged over
directions and slices)."""
import os

import numpy as np

import tap
from oracle import glcm_check, glcm_oracle, workunit
from oracle.ibsi import PHANTOM

# The manual's digits: the tolerance is half a unit of the last one.
PUBLISHED = {
    "asm": "0.368", "contrast": "5.28", "correlation": "-0.0121", "variance": "2.69",
    "idm": "0.619", "sum_average": "4.28", "sum_variance": "5.47", "sum_entropy": "1.60",
    "entropy": "2.05", "difference_variance": "2.90", "difference_entropy": "1.40",
    "imc1": "-0.155", "imc2": "0.487"}

PARAMETERS = {"levels": [6], "range": [1, 6], "window": {"shape": "roi"}, "distances": [1],
              "directions": "four", "roi": {"type": "mask"}}


def check_published(what, value, published):
    """A value agrees with a published one in all its digits."""
    half = 0.5 * 10.0 ** -len(published.split(".")[1])
    tap.ok(abs(value - float(published)) <= half, "%s: %s" % (what, published), "got %.9g" % value)


def main():
    slices, masks = list(PHANTOM), list(PHANTOM > 0)
    tap.ok(sum(int(m.sum()) for m in masks) == 74, "the phantom's mask has 74 voxels")
    answer = glcm_oracle.analyse(slices, PARAMETERS, masks)
    for feature, value in PUBLISHED.items():
        check_published("oracle, " + feature,
                        float(answer.features["glcm_L6_d01_%s_mean" % feature]),
                        value)

    folder = tap.scratch()
    unit, result = os.path.join(folder, "ibsi.zip"), os.path.join(folder, "ibsi.npz")
    workunit.write(unit, "glcm", PARAMETERS, [workunit.item("phantom", slices, masks)])
    run = glcm_check.texcell(unit, result)
    if tap.ok(run.returncode == 0, "texcell runs the phantom", run.stderr):
        with np.load(result) as r:
            names = [str(n) for n in r["feature_names"]]
            for feature, value in PUBLISHED.items():
                column = names.index("glcm_L6_d01_%s_mean" % feature)
                check_published("texcell, " + feature, float(r["features"][0, column]), value)
    tap.done()


if __name__ == "__main__":
    main()
