"""Tests that levelset's results do not depend on the last bit of a float: with dt "cfl", after 200
iterations on four real pictures and a stack, the float64 oracle differs in less than 0.2% of the
mask's pixels if phi is rounded to single precision after each iteration, and texcell differs from
float64 as little. Without the upper bound of dt that curvature requires they differ more."""
import math
import os

import numpy as np

import levelset_run as ls
import tap
from oracle import levelset_oracle as oracle

FOLDER = tap.scratch()
BAR = 0.002
ITERATIONS = 200


def ball(x, y, r, **z):
    return dict({"type": "ball", "cx": x, "cy": y, "r": r}, **z)


def picture(name):
    """A picture of the levelset folder as [1, y, x], or None."""
    import skimage.io
    path = tap.data("levelset/" + name)
    if path is None:
        return None
    pixels = skimage.io.imread(path)
    return (pixels if pixels.ndim == 2 else pixels[..., 0])[None]


def head():
    path = tap.data("levelset/colin27_ch2.nii.gz")
    return None if path is None else ls.nifti(path)


def cases():
    """Yields (name, pixels or None, target, epsilon, start). Target and epsilon are chosen so that
    the range contains the middle grey values in the start."""
    colin = head()
    yield "proton density", picture("itk_BrainProtonDensitySlice.png"), 165, 45, ball(90, 108, 50)
    yield "T1", picture("itk_BrainT1Slice.png"), 91, 52, ball(90, 108, 40)
    yield "head, slice 60", None if colin is None else colin[60][None], 80, 30, ball(90, 108, 40)
    yield "head, slice 90", None if colin is None else colin[90][None], 74, 41, ball(90, 108, 50)
    yield ("head, every fourth voxel",
           None if colin is None else np.ascontiguousarray(colin[::4, ::4, ::4]), 80, 35,
           ball(22, 27, 12, cz=22))


def float64(image, p, rounded=False):
    """The oracle's mask. rounded: with phi rounded to single precision after each iteration."""
    inside = oracle.start(image.shape, p["init"]) & np.ones(image.shape, bool)
    return oracle.evolve(image, inside, p, rounded=rounded)[0] < 0


def share(a, b):
    """The number of pixels that differ between the masks a and b, divided by the pixels inside
    a."""
    return np.count_nonzero(a != b) / max(np.count_nonzero(a), 1)


def agree(name, image, p):
    """Tests one picture: rounding changes few pixels, and texcell differs from float64 in few."""
    exact = float64(image, p)
    between = share(exact, float64(image, p, rounded=True))
    unit = ls.write(os.path.join(FOLDER, "u.zip"), image, p)
    data, why = ls.state(unit, os.path.join(FOLDER, "s"), threads=2)
    tap.note("%s: %d pixels inside; rounded %.3f%%" % (name, exact.sum(), 100 * between))
    tap.ok(exact.any() and not exact.all(), "%s: the mask has a border" % name)
    tap.ok(between < BAR,
           "%s: rounding changes less than %g%% of the pixels" % (name, 100 * BAR), between)
    if not tap.ok(data is not None, "%s: texcell runs" % name, why):
        return
    ours = share(exact, ls.phi_of(data, image.shape) < 0)
    tap.ok(ours < BAR, "%s: texcell differs from float64 in less than %g%%" % (name, 100 * BAR),
           ours)


def without_the_bound(image, p):
    """Shows that this test detects instability: without the bound of dt rounding changes more
    pixels."""
    bound, oracle.bound = oracle.bound, lambda shape, alpha: math.inf
    moved = share(float64(image, p), float64(image, p, rounded=True))
    oracle.bound = bound
    tap.ok(moved > BAR, "without the bound rounding changes more pixels", moved)


def note_above():
    """run accepts a dt above the bound, with a note."""
    image = ls.balls((1, 41, 53), 3)
    for dt, has_note in ((0.3, True), (0.2, False)):
        p = {"target": 180, "epsilon": 60, "alpha": 0, "dt": dt, "iterations": 1,
             "init": ball(25, 19, 11)}
        unit = ls.write(os.path.join(FOLDER, "n.zip"), image, p)
        run = tap.run([tap.TEXCELL, "run", unit, "-o", os.path.join(FOLDER, "n.npz"), "--device",
                       "cpu"])
        os.remove(os.path.join(FOLDER, "n.npz"))
        tap.ok(run.returncode == 0 and ("parameters.dt 0.3 is above 0.225" in run.stderr) ==
               has_note,
               "dt %g: %s" % (dt, "taken, with a note" if has_note else "no note"), run.stderr)


def main():
    note_above()
    for name, image, target, epsilon, init in cases():
        if image is None:
            tap.skip(name, "the picture is not here")
            continue
        p = {"target": target, "epsilon": epsilon, "alpha": 1 / epsilon, "init": init,
             "iterations": ITERATIONS}
        agree(name, image, p)
        if name == "T1":
            without_the_bound(image, p)
    tap.done()


main()
