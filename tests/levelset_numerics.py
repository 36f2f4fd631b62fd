"""What the scheme of levelset solves, from outside: shrinking under curvature,
independence of orientation, stability, and the distance transform."""
import os

import numpy as np
from scipy.ndimage import distance_transform_edt

import levelset_run as ls
import tap

FOLDER = tap.scratch()
UNIT, OUT = os.path.join(FOLDER, "u.zip"), os.path.join(FOLDER, "s")


def phi_after(image, parameters, mask=None):
    unit = ls.write(UNIT, image, dict({"target": 100, "epsilon": 50}, **parameters), mask)
    data, why = ls.state(unit, OUT, threads=2)
    if data is None:
        tap.note(why)
        return None
    return ls.phi_of(data, image.shape)


def radius(inside, dimensions):
    """Radius of the disc or ball of as many voxels."""
    n = inside.sum()
    return (n / np.pi) ** 0.5 if dimensions == 2 else (n * 3 / (4 * np.pi)) ** (1 / 3)


def shrinking():
    """kappa is half the divergence of the normals: in the plane 1/(2r), so that
    dr/dt = -1/(2r) and r^2 = r0^2 - t; in space 1/r, so that r^2 = r0^2 - 2t. The
    upwind gradient of a convex front is too long by about 1/(2r), so r^2 runs
    ahead by about r0 - r. No re-initialisation: it starts from whole voxels, and
    what moved by less than one since the last would be lost."""
    for dimensions, shape, r0, dt, tolerance in ((2, (1, 121, 119), 50.0, 0.2, 0.02),
                                                 (3, (57, 61, 59), 24.0, 0.12, 0.04)):
        nz, ny, nx = shape
        rate = dimensions - 1
        init = {"type": "ball", "cx": nx / 2 - 0.3, "cy": ny / 2 + 0.2, "r": r0}
        if dimensions == 3:
            init["cz"] = nz / 2 - 0.4
        worst, steps, first = 0, [], None
        for target in (r0, r0 * 0.7, r0 * 0.5, 8.0):
            n = int((r0 ** 2 - target ** 2) / rate / dt)
            phi = phi_after(np.zeros(shape, np.uint8),
                            {"init": init, "alpha": 0, "dt": dt, "iterations": n, "reinit_every": 0,
                             "band": 0 if dimensions == 2 else 5})
            got = radius(phi < 0, dimensions) if phi is not None else 0
            first = first or got
            expected = first ** 2 - rate * n * dt
            steps.append("%.2f: %.2f" % (expected ** 0.5, got))
            worst = max(worst, abs(got ** 2 - expected) / first ** 2)
        tap.ok(worst < tolerance, "a %s shrinks as r^2 = r0^2 - %st, within %.0f%% of r0^2 until r = 8"
               % ("circle" if dimensions == 2 else "ball", "" if rate == 1 else "2", 100 * tolerance),
               (worst, steps))
        tap.note("%.2f%%: %s" % (100 * worst, ", ".join(steps)))


def orientation():
    """The picture turned and mirrored gives the mask turned and mirrored."""
    turns = {"flip x": lambda a: a[:, :, ::-1], "flip y": lambda a: a[:, ::-1],
             "flip z": lambda a: a[::-1], "x <-> y": lambda a: a.transpose(0, 2, 1),
             "y <-> z": lambda a: a.transpose(1, 0, 2), "x <-> z": lambda a: a.transpose(2, 1, 0)}
    for shape, which in (((1, 60, 75), ("flip x", "flip y", "x <-> y")),
                         ((26, 31, 38), tuple(turns))):
        image = ls.balls(shape, 3)
        seed = ls.balls(shape, 3) > 150
        p = {"target": 185, "epsilon": 50, "alpha": 0.02, "iterations": 120, "init": {"type": "mask"},
             "reinit_every": 20, "smooth": 0.7}
        plain = phi_after(image, p, seed) < 0
        for name in which:
            turn = turns[name]
            turned = phi_after(np.ascontiguousarray(turn(image)), p, turn(seed)) < 0
            tap.ok(np.array_equal(turned, turn(plain)) and 0 < plain.sum() < plain.size,
                   "%dD, %s: the same mask" % (2 if shape[0] == 1 else 3, name),
                   (turned != turn(plain)).sum())


def stability():
    """5,000 iterations with cfl: phi stays finite and the mask stays."""
    for shape, init in (((1, 60, 75), {"type": "ball", "cx": 37, "cy": 30, "r": 12}),
                        ((16, 24, 28), {"type": "ball", "cx": 14, "cy": 12, "cz": 8, "r": 6})):
        image = ls.balls(shape, 3)
        found = []
        for n in (4000, 5000):
            phi = phi_after(image, {"target": 185, "epsilon": 50, "alpha": 0.05, "iterations": n,
                                    "init": init, "reinit_every": 50})
            found.append(None if phi is None else phi < 0)
        ok = found[1] is not None and np.isfinite(phi).all() and found[1].any()
        share = ls.dice(found[0], found[1]) if ok else 0
        tap.ok(ok and np.abs(phi).max() < 100 and share > 0.98,
               "%dD: stable for 5,000 iterations" % (2 if shape[0] == 1 else 3), share)


def distances():
    """With no iteration phi is the signed distance: its square is scipy's."""
    rng = np.random.default_rng(2)
    z, y, x = np.ogrid[:90, :70, :80]
    masks = {"noise 2D": rng.random((1, 150, 131)) < 0.5, "sparse 2D": rng.random((1, 300, 257)) < 1e-3,
             "noise 3D": rng.random((40, 51, 62)) < 0.4, "sparse 3D": rng.random((61, 50, 70)) < 1e-4,
             "dense 3D": rng.random((50, 61, 70)) > 1e-4,
             "ball": (x - 33) ** 2 + (y - 30) ** 2 + (z - 50) ** 2 < 25 ** 2,
             "planes": (x + 2 * y + 3 * z) % 41 < 20,
             "one voxel": np.arange(33 * 35 * 37).reshape(33, 35, 37) == 20000}
    devices = ["cpu"] + (["opencl"] if ls.opencl_missing() is None else [])
    for name, mask in masks.items():
        image = np.zeros(mask.shape, np.uint8)
        unit = ls.write(UNIT, image, {"target": 1, "epsilon": 1, "iterations": 0,
                                      "init": {"type": "mask"}}, mask)
        wanted = np.where(mask, -np.rint(distance_transform_edt(mask) ** 2),
                          np.rint(distance_transform_edt(~mask) ** 2))
        for device in devices:
            data, why = ls.state(unit, OUT, device)
            phi = ls.phi_of(data, mask.shape).astype(float) if data is not None else image + 0.0
            got = np.where(mask, -np.rint((0.5 - phi) ** 2), np.rint((phi + 0.5) ** 2))
            tap.ok(np.array_equal(got, wanted), "distances of %s, %s" % (name, device),
                   why if data is None else (got != wanted).sum())


def main():
    shrinking()
    orientation()
    stability()
    distances()
    tap.done()


if __name__ == "__main__":
    main()
