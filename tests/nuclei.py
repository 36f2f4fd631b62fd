"""Tests `texcell-wu analyse --analysis cellcount` without any parameter on nuclei of six kinds
(2018 Data Science Bowl, BBBC038v1), with a folder for each kind. Regions are compared with instance
masks by F1, where a region matches if its intersection with a nucleus is more than half of their
union; the score is the mean over a kind's pictures, then over the kinds. For comparison: a plain
chain in scikit-image with a Gaussian filter of 1, Otsu's threshold, filled holes, and a watershed
of the distance from its h-maxima.

  nuclei.py            every seventh picture of each kind: mean F1 of at least 0.7
  nuclei.py all        all pictures of each kind, and scikit-image; errors of counts, by mark
  nuclei.py all FOLDER of this folder, which has a folder for each kind: ID.png and ID_truth.png
  nuclei.py voting     [FOLDER] F1 of voting's points in all pictures; a point matches a nucleus if
                       its distance from the centre is at most the radius"""
import csv
import os
import shutil
import sys

import numpy as np

import tap

# {kind of picture: whether its nuclei are bright}
KINDS = {"fluo256": True, "fluo360": True, "fluo520": True, "tissue": True, "he256": False,
         "bf1024": False}
FOLDER = tap.scratch()


def read(path):
    from skimage import io
    return io.imread(path)


def pictures(folder, kind):
    return sorted(f[:-4] for f in os.listdir(os.path.join(folder, kind)) if f.endswith(".png") and
                  "_truth" not in f)


def f1(labels, truth):
    """F1 of the labels. Pairs that overlap by more than half are always one to one."""
    n, m = int(labels.max()), int(truth.max())
    both = np.bincount(truth.astype(np.int64).ravel() * (n + 1) + labels.ravel(),
                       minlength=(n + 1) * (m + 1)).reshape(m + 1, n + 1)
    of_truth, of_labels = both.sum(axis=1)[1:, None], both.sum(axis=0)[None, 1:]
    inside = both[1:, 1:]
    pairs = int((3 * inside > of_truth + of_labels).sum())
    return 2 * pairs / max(1, int((of_truth > 0).sum() + (of_labels > 0).sum()))


def analysed(folder, kind, names, *args, analysis="cellcount"):
    """Analyses pictures. Returns {name: label picture}, or for voting all arrays, and the suggested
    parameters as text."""
    out = os.path.join(FOLDER, analysis, kind)
    os.makedirs(os.path.dirname(out), exist_ok=True)
    shutil.rmtree(out, True)
    r = tap.run([tap.TEXCELL_WU, "analyse", "--analysis", analysis, "--device", "cpu", *args, "-o",
                 out] +
                [os.path.join(folder, kind, n + ".png") for n in names])
    if r.returncode != 0:
        raise RuntimeError(r.stderr)
    suggested = " ".join(s.strip()[8:] for s in r.stderr.splitlines()
                         if s.startswith("    --param "))
    with np.load(os.path.join(out, "result.npz")) as z:
        return ({n: z["labels_" + n] for n in names} if analysis == "cellcount" else dict(z),
                suggested)


def plain(picture, bright):
    """The label picture of scikit-image's plain chain."""
    from scipy import ndimage
    from skimage import filters, measure, morphology, segmentation
    grey = picture[..., :3].mean(axis=2) if picture.ndim == 3 else picture.astype(float)
    smooth = filters.gaussian(grey, 1, preserve_range=True)
    mask = smooth > filters.threshold_otsu(smooth)
    mask = ndimage.binary_fill_holes(mask if bright else ~mask)
    distance = ndimage.distance_transform_edt(mask)
    return segmentation.watershed(-distance, measure.label(morphology.h_maxima(distance, 1)),
                                  mask=mask)


def scores(folder, some, peer=True):
    """{kind: (F1 of cellcount, F1 of scikit-image)}. some: every some-th picture is used; peer:
    whether scikit-image is scored, too."""
    out, marks = {}, {}
    for kind, bright in KINDS.items():
        names = pictures(folder, kind)[::some]
        labels, suggested = analysed(folder, kind, names)
        truth = {n: read(os.path.join(folder, kind, n + "_truth.png")) for n in names}
        with open(os.path.join(FOLDER, "cellcount", kind, "items.csv"), newline="") as f:
            for row in csv.DictReader(f):
                true = len(np.unique(truth[row["item"]])) - 1
                mark = "several cells each" if "several cells each" in row["why"] else row["mark"]
                marks.setdefault(mark, []).append(abs(int(row["count"]) - true) > 0.15 * true)
        mean_f1 = np.mean([f1(labels[n], truth[n]) for n in names])
        other = np.mean([f1(plain(read(os.path.join(folder, kind, n + ".png")), bright), truth[n])
                         for n in names]) if peer else np.nan
        out[kind] = mean_f1, other
        tap.note("%-8s %2d pictures: F1 %.3f, scikit-image %.3f; %s" % (kind, len(names), mean_f1,
                                                                        other, suggested))
    out["mean"] = tuple(np.mean(list(out.values()), axis=0))
    for mark, off in sorted(marks.items()):
        tap.note("%s: of %d counts %d are off by more than 15 %%" % (mark, len(off), sum(off)))
    tap.note("mean of %d kinds: F1 %.3f, scikit-image %.3f" % ((len(KINDS),) + out["mean"]))
    return out


def f1_of_points(points, truth):
    """F1 of points, in the one-to-one matching with the most pairs."""
    from scipy import ndimage, optimize
    ids = np.unique(truth)[1:]
    area = ndimage.sum_labels(truth > 0, truth, ids)
    centre = np.array(ndimage.center_of_mass(truth > 0, truth, ids))
    near = np.hypot(*(points[:, None] - centre[None]).transpose(2, 0, 1)) <= np.sqrt(area / np.pi)
    pairs = int(near[optimize.linear_sum_assignment(-near.astype(int))].sum())
    return 2 * pairs / (len(points) + len(ids))


def voting(folder):
    means = []
    for kind in KINDS:
        names = pictures(folder, kind)
        out, suggested = analysed(folder, kind, names, analysis="voting")
        points = [out["point"][out["point_item"] == k] for k in range(len(names))]
        means.append(np.mean([f1_of_points(p, read(os.path.join(folder, kind, n + "_truth.png")))
                              for p, n in zip(points, names)]))
        tap.note("%-8s %2d pictures: F1 of points %.3f; %s" % (kind, len(names), means[-1],
                                                               suggested))
    tap.ok(np.mean(means) >= 0.8, "voting, with no parameter given: mean F1 of points of "
           "at least 0.8", "%.3f" % np.mean(means))
    tap.done()


def main():
    if sys.argv[1:2] == ["voting"]:
        return voting(sys.argv[2] if len(sys.argv) > 2 else tap.data("nuclei"))
    whole = sys.argv[1:2] == ["all"]
    folder = sys.argv[2] if len(sys.argv) > 2 else tap.data("nuclei")
    if folder is None:
        tap.skip("nuclei", "the pictures are not here")
        tap.done()
    found = scores(folder, 1 if whole else 7, whole)
    if whole:
        for kind, (mean_f1, other) in found.items():
            tap.ok(mean_f1 > other, "%s: F1 %.3f, scikit-image's plain chain %.3f" %
                   (kind, mean_f1, other))
    tap.ok(found["mean"][0] >= 0.7,
           "nuclei of six kinds, with no parameter given: mean F1 of at least 0.7", found)
    tap.done()


if __name__ == "__main__":
    main()
