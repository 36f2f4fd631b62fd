"""levelset on real pictures: the ventricle of a proton-density slice and the
brain of Colin27, with the parameters that docs/analyses/levelset.md gives."""
import os

import numpy as np

import levelset_run as ls
import tap

VENTRICLE = {"target": 248, "epsilon": 39, "alpha": 0.04, "edge_stop": 0.001, "iterations": 2000,
             "init": {"type": "ball", "cx": 81, "cy": 114, "r": 5}}
BRAIN = {"target": 97, "epsilon": 35, "alpha": 0.0185, "smooth": 1, "reinit_every": 20}
FOLDER = tap.scratch()


def mask_of(image, parameters):
    unit = ls.write(os.path.join(FOLDER, "u.zip"), image, parameters)
    data, why = ls.state(unit, os.path.join(FOLDER, "s"), threads=2)
    if data is None:
        tap.note(why)
        return np.zeros(image.shape, bool)
    return ls.phi_of(data, image.shape) < 0


def compare(name, image, truth, parameters, bar):
    mask = mask_of(image, parameters)
    score = ls.dice(mask, truth) if mask.any() else 0
    tap.note("%s: Dice %.4f, %d voxels of %d" % (name, score, mask.sum(), (truth != 0).sum()))
    tap.ok(score >= bar, "%s: Dice at least %g" % (name, bar), score)
    return mask


def ventricle():
    picture, model = (tap.data("levelset/itk_" + n) for n in
                      ("BrainProtonDensitySlice.png", "VentricleModel.png"))
    if picture is None or model is None:
        return tap.skip("the ventricle", "the picture is not here")
    import skimage.io
    image, truth = skimage.io.imread(picture)[None], skimage.io.imread(model)[None]
    dense = compare("ventricle, dense", image, truth, VENTRICLE, 0.94)
    for band in (6, 10):
        mask = compare("ventricle, band %d" % band, image, truth, dict(VENTRICLE, band=band), 0.94)
        tap.ok(ls.dice(dense, mask) > 0.98, "band %d gives the dense mask to 98%%" % band,
               ls.dice(dense, mask))


def brain():
    head, truth = (tap.data("levelset/colin27_%s.nii.gz" % n) for n in ("ch2", "ch2bet"))
    if head is None or truth is None:
        return tap.skip("the brain", "Colin27 is not here")
    head, truth = ls.nifti(head), ls.nifti(truth)
    whole = dict(BRAIN, init={"type": "ball", "cx": 90, "cy": 108, "cz": 90, "r": 50})
    compare("brain, band 6", np.ascontiguousarray(head), truth,
            dict(whole, band=6, iterations=300), 0.85)
    # Every second voxel, to the end.
    head, truth = np.ascontiguousarray(head[::2, ::2, ::2]), truth[::2, ::2, ::2]
    half = dict(BRAIN, smooth=0.5, init={"type": "ball", "cx": 45, "cy": 54, "cz": 45, "r": 25},
                iterations=600)
    dense = compare("brain at half size, dense", head, truth, half, 0.95)
    band = compare("brain at half size, band 6", head, truth, dict(half, band=6), 0.95)
    tap.ok(ls.dice(dense, band) > 0.99, "band 6 gives the dense mask to 99%", ls.dice(dense, band))


def main():
    ventricle()
    brain()
    tap.done()


if __name__ == "__main__":
    main()
