"""Tests levelset's phi before the first iteration, the signed distance from the start's border: its
square is that of SciPy's distance transform, on the CPU and on an OpenCL device."""
import os

import numpy as np
from scipy.ndimage import distance_transform_edt

import levelset_run as ls
import tap

FOLDER = tap.scratch()
UNIT, OUT = os.path.join(FOLDER, "u.zip"), os.path.join(FOLDER, "s")


def solids(shape, seed=3):
    """Balls, a plate and a tunnel through both; [z, y, x]."""
    z, y, x = np.ogrid[:shape[0], :shape[1], :shape[2]]
    mask = (z > 0.6 * shape[0]) & (z < 0.64 * shape[0] + 2) & (x + y > 0)
    for c in np.random.default_rng(seed).random((5, 3)) * shape:
        mask = mask | ((z - c[0]) ** 2 + (y - c[1]) ** 2 + (x - c[2]) ** 2 <
                       (0.17 * min(shape)) ** 2)
    return mask & ((y - 0.5 * shape[1]) ** 2 + (x - 0.4 * shape[2]) ** 2 > (0.08 * min(shape)) ** 2)


def masks():
    rng = np.random.default_rng(2)
    z, y, x = np.ogrid[:50, :61, :70]
    yield "noise 2D", rng.random((1, 150, 131)) < 0.5
    yield "sparse 2D", rng.random((1, 300, 257)) < 1e-3
    yield "a row", rng.random((1, 1, 999)) < 0.05
    yield "a column", rng.random((1, 999, 1)) < 0.05
    yield "a line of slices", rng.random((333, 1, 1)) < 0.05
    yield "noise 3D", rng.random((40, 51, 62)) < 0.4
    yield "sparse 3D", rng.random((61, 50, 70)) < 1e-4
    yield "dense 3D", rng.random((50, 61, 70)) > 1e-4
    yield "stripes", (x + 2 * y + 3 * z) % 41 < 20
    yield "a chequerboard", (x + y + z) % 2 == 0
    yield "one voxel", np.arange(33 * 35 * 37).reshape(33, 35, 37) == 20000
    yield "solids of 300^3", solids((300, 300, 300))


def long_masks():
    rng = np.random.default_rng(4)
    side = 300
    z, y, x = np.ogrid[:side, :side, :side]
    for share in (1e-6, 1e-4, 0.01, 0.5, 0.99, 1 - 1e-6):
        yield "noise of 300^3, %g inside" % share, rng.random((side, side, side)) < share
    yield "stripes of 300^3", (x + 2 * y + 3 * z) % 101 < 50
    yield "a chequerboard of 300^3", (x + y + z) % 2 == 0
    yield "a corner of 300^3", (x == 0) & (y == 0) & (z == 0)
    for seed in range(3):
        yield "solids of 299 x 301 x 257", solids((257, 301, 299), seed)
    yield "long rows", rng.random((1, 40, 65535)) < 1e-4
    yield "long columns", rng.random((1, 65535, 40)) < 1e-4


def check(name, mask, devices):
    """Compares phi on every device with SciPy's distances."""
    unit = ls.write(UNIT, np.zeros(mask.shape, np.uint8),
                    {"target": 1, "epsilon": 1, "iterations": 0, "init": {"type": "mask"}}, mask)
    expected = np.where(mask, distance_transform_edt(mask), distance_transform_edt(~mask))
    squares = np.rint(expected ** 2)
    # phi has single precision: where it is large, its square is not exact to half a unit.
    near = squares < 2 ** 20
    for device in devices:
        title = "distances of %s, %s" % (name, device)
        data, why = ls.state(unit, OUT, device, threads=2)
        if data is None:
            tap.ok(False, title, why)
            continue
        phi = ls.phi_of(data, mask.shape).astype(float)
        d = np.where(mask, 0.5 - phi, phi + 0.5)
        wrong = (np.rint(d * d) != squares)[near].sum() + (np.abs(d - expected) > 0.01).sum()
        tap.ok(wrong == 0, title, wrong)


def main(which):
    missing = ls.opencl_missing()
    for name, mask in which:
        check(name, mask, ["cpu"] + (["opencl"] if missing is None else []))
    if missing is not None:
        tap.skip("distances on an OpenCL device", missing)
    tap.done()


if __name__ == "__main__":
    main(masks())
