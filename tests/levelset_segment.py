"""Tests levelset on real pictures: the ventricle in a proton-density slice and the brain in
Colin27, with the parameters from docs/analyses/levelset.md.

--table: prints Dice's coefficient with one parameter changed at a time, or the start moved."""
import os
import sys

import numpy as np

import levelset_run as ls
import tap

VENTRICLE = {"target": 248, "epsilon": 39, "alpha": 0.04, "edge_stop": 0.001, "iterations": 2000,
             "init": {"type": "ball", "cx": 81, "cy": 114, "r": 5}}
BRAIN = {"target": 97, "epsilon": 35, "alpha": 0.0185, "smooth": 1, "reinit_every": 20}
FOLDER = tap.scratch()


HALF = dict(BRAIN, smooth=0.5, init={"type": "ball", "cx": 45, "cy": 54, "cz": 45, "r": 25},
            iterations=600)


def mask_of(image, parameters):
    unit = ls.write(os.path.join(FOLDER, "u.zip"), image, parameters)
    data, why = ls.state(unit, os.path.join(FOLDER, "s"), threads=2)
    if data is None:
        tap.note(why)
        return np.zeros(image.shape, bool)
    return ls.phi_of(data, image.shape) < 0


def ventricle_data():
    """(picture, truth), or None if they are not present."""
    picture, model = (tap.data("levelset/itk_" + n) for n in
                      ("BrainProtonDensitySlice.png", "VentricleModel.png"))
    if picture is None or model is None:
        return None
    import skimage.io
    return skimage.io.imread(picture)[None], skimage.io.imread(model)[None]


def brain_data():
    head, truth = (tap.data("levelset/colin27_%s.nii.gz" % n) for n in ("ch2", "ch2bet"))
    return None if head is None or truth is None else (ls.nifti(head), ls.nifti(truth))


def every_second(volume):
    return np.ascontiguousarray(volume[::2, ::2, ::2])


def compare(name, image, truth, parameters, bar):
    """Dice's coefficient with the truth is at least `bar`. Returns the mask."""
    mask = mask_of(image, parameters)
    score = ls.dice(mask, truth) if mask.any() else 0
    tap.note("%s: Dice %.4f, %d voxels of %d" % (name, score, mask.sum(), (truth != 0).sum()))
    tap.ok(score >= bar, "%s: Dice at least %g" % (name, bar), score)
    return mask


def test_ventricle():
    data = ventricle_data()
    if data is None:
        return tap.skip("the ventricle", "the picture is not here")
    dense = compare("ventricle, dense", *data, VENTRICLE, 0.94)
    for band in (6, 10):
        mask = compare("ventricle, band %d" % band, *data, dict(VENTRICLE, band=band), 0.94)
        tap.ok(ls.dice(dense, mask) > 0.98, "band %d gives the dense mask to 98%%" % band,
               ls.dice(dense, mask))


def test_brain():
    data = brain_data()
    if data is None:
        return tap.skip("the brain", "Colin27 is not here")
    whole = dict(BRAIN, init={"type": "ball", "cx": 90, "cy": 108, "cz": 90, "r": 50})
    compare("brain, band 6", *data, dict(whole, band=6, iterations=600), 0.85)
    # Every second voxel, until the front stops moving.
    head, truth = (every_second(a) for a in data)
    dense = compare("brain at half size, dense", head, truth, HALF, 0.95)
    band = compare("brain at half size, band 6", head, truth, dict(HALF, band=6), 0.95)
    tap.ok(ls.dice(dense, band) > 0.99, "band 6 gives the dense mask to 99%", ls.dice(dense, band))


# --- the influence of the parameters --------------------------------------------------

def move_start(p, key, by):
    return dict(p, init=dict(p["init"], **{key: p["init"][key] + by}))


def variations(p, step):
    """Yields (what is changed, parameters): each parameter by 20% (the target also by 5%), and the
    start's centre by `step` pixels along each axis."""
    yield "nothing", p
    for key in ("target", "epsilon", "alpha", "smooth", "edge_stop", "reinit_every"):
        for percent in (-20, -5, 5, 20) if key == "target" else (-20, 20):
            if key in p:
                value = p[key] * (100 + percent) / 100
                yield ("`%s` %+d%%" % (key, percent),
                       dict(p, **{key: round(value) if key == "reinit_every" else value}))
    for percent in (-20, 20):
        yield "radius of the start %+d%%" % percent, move_start(p, "r",
                                                                p["init"]["r"] * percent / 100)
    for key in ("cx", "cy", "cz"):
        for by in (-step, step):
            if key in p["init"]:
                yield "start at %s %+d" % (key[1], by), move_start(p, key, by)


def table():
    for name, data, p, step in (("ventricle", ventricle_data(), VENTRICLE, 3),
                                ("brain at half size, band 6", brain_data(), dict(HALF, band=6),
                                 5)):
        if data is None:
            print("%s: the picture is not here" % name)
            continue
        image, truth = (every_second(a) for a in data) if "half" in name else data
        print("| %s | Dice |\n|---|---|" % name)
        for what, changed in variations(p, step):
            print("| %s | %.3f |" % (what, ls.dice(mask_of(image, changed), truth)))
            sys.stdout.flush()
        print()


def main():
    if "--table" in sys.argv:
        return table()
    test_ventricle()
    test_brain()
    tap.done()


if __name__ == "__main__":
    main()
