"""Tests the accuracy of voting, on real pictures with known nuclei and on synthetic balls: points
are matched one to one with the truth, within half of the largest radius, for precision, recall, F1
and the area under the precision-recall curve.

voting_score.py tests that the scores are high enough voting_score.py --table prints F1 for radii
and options, and of the Laplacian of Gaussian"""
import csv
import os
import sys

import numpy as np
from scipy import ndimage
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from skimage import io

import tap
from oracle.workunit import item, write

SCRATCH = tap.scratch()


# --- scores ------------------------------------------------------------------------------

def matched(points, truth, tolerance):
    """The number of pairs in the best one-to-one matching of points that are within the
    tolerance."""
    if len(points) == 0 or len(truth) == 0:
        return 0
    distance = cdist(points, truth)
    near = distance <= tolerance
    rows, columns = linear_sum_assignment(np.where(near, distance - 1e6, 0))
    return int(near[rows, columns].sum())


def f1(points, truth, tolerance):
    found = matched(points, truth, tolerance)
    return 2 * found / (len(points) + len(truth))


def precision_recall_area(points, truth, tolerance):
    """The area under the precision-recall curve. points: in the order of decreasing score."""
    area = before = 0.0
    for k in range(1, len(points) + 1):
        found = matched(points[:k], truth, tolerance)
        area += (found / len(truth) - before) * found / k
        before = found / len(truth)
    return area


def described(points, truth, tolerance, ranked):
    """The scores as text. ranked: more points, in the order of decreasing score."""
    found = matched(points, truth, tolerance)
    return "F1 %.3f (precision %.3f, recall %.3f, area %.3f)" % (
        f1(points, truth, tolerance), found / max(len(points), 1), found / len(truth),
        precision_recall_area(ranked, truth, tolerance))


# --- methods ---------------------------------------------------------------------------------

def voting(volume, spacing=None, **parameters):
    """Points and their scores, as texcell computes them. volume: [h, w] or [nz, ny, nx]."""
    flat = volume.ndim == 2
    wu = write(os.path.join(SCRATCH, "wu.zip"), "voting", parameters,
               [item("a", [volume] if flat else list(volume), stack=not flat, spacing=spacing)])
    out = os.path.join(SCRATCH, "out.npz")
    r = tap.run([tap.TEXCELL, "run", wu, "-o", out, "--device", "cpu", "--threads", "2", "--quiet"])
    if r.returncode != 0:
        raise RuntimeError(r.stderr)
    result = np.load(out)
    return result["point"], result["score"]


def truth_of(name, axes):
    """The true centres from a CSV file [n, axes]."""
    with open(tap.data(name)) as file:
        rows = list(csv.DictReader(file))
    return np.array([[float(r[a]) for a in axes] for r in rows])


def largest_radius(mask):
    """The radius of a disc or ball of the size of the largest label."""
    sizes = np.bincount(mask.ravel())[1:]
    return (sizes.max() / np.pi) ** 0.5 if mask.ndim == 2 else (sizes.max() * 0.75 / np.pi) ** (
        1 / 3)


def best_log(image, truth, tolerance, sigmas, apart):
    """(F1, scale, distance) of the Laplacian of Gaussian with its best scale, minimum distance of
    peaks, and threshold."""
    best = (0,)
    for sigma in sigmas:
        response = -ndimage.gaussian_laplace(image.astype(float), sigma)
        for d in apart:
            peak = (response == ndimage.maximum_filter(response, 2 * d + 1)) & (response > 0)
            points = np.argwhere(peak)
            points = points[np.argsort(-response[peak])]
            for k in range(len(truth) // 2, min(len(points), 2 * len(truth)) + 1):
                best = max(best, (f1(points[:k], truth, tolerance), sigma, d))
    return best


def balls(shape, radius, count, noise, seed, dark=False, spacing=(1, 1, 1)):
    """A picture of discs (or a stack of balls) that may touch but do not overlap, and their
    centres."""
    rng = np.random.default_rng(seed)
    spacing = np.array(spacing[-len(shape):], float)
    centres = []
    for _ in range(4000):
        c = np.array([rng.uniform(radius / s, n - 1 - radius / s) for n, s in zip(shape, spacing)])
        if all(np.linalg.norm((c - o) * spacing) >= 2 * radius for o in centres):
            centres.append(c)
        if len(centres) == count:
            break
    image = np.full(shape, 40.0)
    grid = np.moveaxis(np.indices(shape), 0, -1)
    for c in centres:
        image = np.maximum(image, 40 + 100 * np.clip(
            radius + 0.5 - np.linalg.norm((grid - c) * spacing, axis=-1), 0, 1))
    image = image + rng.normal(0, noise, shape)
    return (np.clip(np.round(200 - image if dark else image), 0, 255).astype(np.uint8),
            np.array(centres))


# --- tests ---------------------------------------------------------------------------------

def real_2d():
    if tap.data("voting/stardist_img2d.tif") is None:
        tap.skip("nuclei in 2D", "the folder of real pictures is absent")
        return
    image = io.imread(tap.data("voting/stardist_img2d.tif"))
    truth = truth_of("voting/stardist_mask2d_centroids.csv", "yx")
    tolerance = largest_radius(io.imread(tap.data("voting/stardist_mask2d.tif"))) / 2
    for radius, bar in ((12, 0.88), (13, 0.92), (15, 0.93), (18, 0.90), (21, 0.86)):
        points, _ = voting(image, radius=radius)
        ranked, _ = voting(image, radius=radius, threshold=0)
        tap.note("nuclei in 2D, radius %g: %s" %
                 (radius, described(points, truth, tolerance, ranked)))
        tap.ok(f1(points, truth, tolerance) >= bar,
               "125 nuclei in 2D, radius %g: F1 of at least %.2f" % (radius, bar))


def real_3d():
    if tap.data("volume/stardist_img3d.tif") is None:
        tap.skip("nuclei in 3D", "the folder of real pictures is absent")
        return
    image = io.imread(tap.data("volume/stardist_img3d.tif"))
    truth = truth_of("volume/stardist_mask3d_centroids.csv", "zyx")
    tolerance = largest_radius(io.imread(tap.data("volume/stardist_mask3d.tif"))) / 2
    for radius, bar in ((7, 0.90), (8, 0.93), (9, 0.93)):
        points, _ = voting(image, [2.0, 1.0, 1.0], radius=radius)
        ranked, _ = voting(image, [2.0, 1.0, 1.0], radius=radius, threshold=0)
        tap.note("nuclei in 3D, radius %g: %s" %
                 (radius, described(points, truth, tolerance, ranked)))
        tap.ok(f1(points, truth, tolerance) >= bar,
               "51 nuclei in 3D, radius %g: F1 of at least %.2f" % (radius, bar))


def two_circles():
    """ITK's picture of two circles: both are found for radii that roughly fit them."""
    path = tap.data("voting/itk_HoughTransformTwoCircles.png")
    if path is None:
        tap.skip("two circles", "the folder of real pictures is absent")
        return
    image = io.imread(path)
    image = image if image.ndim == 2 else image[..., 0]
    labels, n = ndimage.label(ndimage.binary_fill_holes(image > 127))
    centres = np.array(ndimage.center_of_mass(labels > 0, labels, range(1, n + 1)))
    tap.ok(n == 2, "the picture has two circles of closed lines", n)
    # The circles are lines, of radii 18 and 8. Their inner edges vote for the centres, their outer
    # edges for places outside, where few votes meet; only between the two circles some may.
    for radius, more in ((15, 0), (18, 1), (21, 2)):
        points, _ = voting(image, radius=radius, polarity="dark")
        everything, _ = voting(image, radius=radius, polarity="dark", refine=False)
        tap.note("two circles, radius %d: %d points, %d without refine" %
                 (radius, len(points), len(everything)))
        tap.ok(matched(points, centres, 1) == 2 and len(points) <= 2 + more,
               "the two circles, radius %d: both within one pixel, and at most %d other points" %
               (radius, more), points)


def geometry():
    """The points are the true centres, each within one pixel, and there are no others."""
    for name, shape, radii, options in (
            ("discs", (160, 160), (4, 6, 8, 10, 12), {}),
            ("dark discs", (160, 160), (4, 8, 12), {"dark": True}),
            ("balls", (60, 64, 64), (4, 6, 8), {}),
            ("dark balls", (60, 64, 64), (6,), {"dark": True}),
            ("balls, anisotropic", (30, 64, 64), (6, 8), {"spacing": (2, 1, 1)})):
        for radius in radii:
            for noise in (0, 5, 10):
                image, centres = balls(shape, radius, 30, noise, 1, **options)
                points, _ = voting(image, list(map(float, options["spacing"]))
                                   if "spacing" in options else None,
                                   radius=radius, polarity="dark" if options.get("dark")
                                   else "bright")
                near = matched(points, centres, 1)
                tap.ok(near == len(centres) == len(points),
                       "%s of radius %d, noise %d: %d of %d within one pixel"
                       % (name, radius, noise, near, len(centres)), "%d points" % len(points))


def exported():
    """Crosses are drawn at the points, and the table has a row for each."""
    folder = os.path.join(SCRATCH, "export")
    for name, shape, spacing in (("image", (60, 80), None),
                                 ("stack", (9, 40, 50), [1.0, 1.0, 1.0])):
        image, _ = balls(shape, 4, 5, 3, 2)
        points, _ = voting(image, spacing, radius=4)
        r = tap.run([tap.TEXCELL_WU, "export", os.path.join(SCRATCH, "out.npz"), "-o", folder,
                     "--images", os.path.join(SCRATCH, "wu.zip")])
        if not tap.ok(r.returncode == 0 and len(points) > 0, "%s: exported" % name, r.stderr):
            continue
        picture = io.imread(os.path.join(folder, "points_a.png"))
        larger = -(-300 // max(shape[-2:]))  # small pictures are enlarged to 300 pixels and more
        position = np.floor((points[:, -2:] + 0.5) * larger).astype(int)
        tap.ok(picture.shape[:2] == (larger * shape[-2], larger * shape[-1]) and
               all(tuple(picture[y, x]) == (255, 70, 40) for y, x in position)
               and (picture[..., 0] != picture[..., 2]).sum() <= 13 * len(points),
               "%s: crosses at the points" % name)
        with open(os.path.join(folder, "points.csv")) as file:
            rows = list(csv.DictReader(file))
        tap.ok([[float(r[c]) for c in "zyx"[-len(shape):]] for r in rows] == points.tolist(),
               "%s: points.csv has the points" % name, rows)
    slices = io.imread(os.path.join(folder, "points_a_slices.png"))
    tap.ok(slices.shape[:2] == (2 * 3 * 40 + 8, 2 * 3 * 50 + 8),
           "the exported slices are next to each other",
           slices.shape)


def table():
    image = io.imread(tap.data("voting/stardist_img2d.tif"))
    truth = truth_of("voting/stardist_mask2d_centroids.csv", "yx")
    tolerance = largest_radius(io.imread(tap.data("voting/stardist_mask2d.tif"))) / 2
    volume = io.imread(tap.data("volume/stardist_img3d.tif"))
    truth3 = truth_of("volume/stardist_mask3d_centroids.csv", "zyx")
    tolerance3 = largest_radius(io.imread(tap.data("volume/stardist_mask3d.tif"))) / 2
    radii, radii3 = (12, 13, 13.5, 15, 16.5, 18, 21), (6, 7, 8, 9)
    print("F1, 2D radius:", *radii, "| 3D (spacing 2,1,1) radius:", *radii3)
    for options in ({}, {"cone": 90, "weight": "gradient", "floor": 0, "refine": False},
                    {"cone": 90}, {"cone": 22.5},
                    {"weight": "gradient"}, {"floor": 0}, {"refine": False}, {"sigma": 1.5},
                    {"sigma": 3}):
        a = ["%.3f" % f1(voting(image, radius=r, **options)[0], truth, tolerance) for r in radii]
        b = ["%.3f" % f1(voting(volume, [2.0, 1.0, 1.0], radius=r, **options)[0], truth3,
                         tolerance3) for r in radii3]
        print("  ", *a, "|", *b, options or "defaults", flush=True)
    print("Laplacian of Gaussian, best of its parameters: 2D %.3f (sigma %g, apart %d)"
          % best_log(image, truth, tolerance, (5, 6, 7, 8), (5, 7, 9)))
    print("  3D %.3f (sigma %g, apart %d)" % best_log(volume, truth3, tolerance3,
                                                      (2, 2.5, 3, 3.5, 4), (2, 3, 4)))


def main():
    if "--table" in sys.argv[1:]:
        table()
        return
    real_2d()
    real_3d()
    two_circles()
    geometry()
    exported()
    tap.done()


if __name__ == "__main__":
    main()
