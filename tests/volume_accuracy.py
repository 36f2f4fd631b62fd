"""Tests the cells that volume's watershed finds in a real stack of plant cells against a label
picture of 106 cells.

A cell matches if its intersection with a labelled cell is more than half of their union; F1 is
2 matches / (cells of volume + labelled cells). volume_accuracy_long.py compares with scikit-image.
"""
import os

import numpy as np

import tap
from oracle import workunit
from oracle.workunit import item

FOLDER = tap.scratch()


def cells(stack, smooth, h, **more):
    """The label picture that texcell computes."""
    unit, result = os.path.join(FOLDER, "u.zip"), os.path.join(FOLDER, "r.npz")
    parameters = dict({"method": "watershed", "smooth": smooth, "h": h, "fill": True,
                       "labels": True}, **more)
    workunit.write(unit, "volume", parameters, [item("s", list(stack))])
    run = tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--threads", "1",
                   "--quiet"])
    if run.returncode != 0:
        tap.bail(run.stderr)
    with np.load(result) as r:
        return r["labels_s"]


def score(labels, truth):
    """(cells that match, number of cells, F1)."""
    n, expected = len(np.unique(labels[labels > 0])), len(np.unique(truth[truth > 0]))
    here, there = np.bincount(labels.ravel()), np.bincount(truth.ravel())
    pairs, shared = np.unique(labels.ravel().astype(np.int64) << 32 | truth.ravel(),
                              return_counts=True)
    a, b = pairs >> 32, pairs & 0xffffffff
    found = int(((a > 0) & (b > 0) & (2 * shared > here[a] + there[b] - shared)).sum())
    return found, n, 2 * found / (n + expected)


def show(what, s):
    tap.note("%-44s %3d found, of %3d cells, F1 %.3f" % ((what,) + s))
    return s


def stack_and_truth():
    import tifffile
    folder = tap.data("volume")
    if folder is None:
        tap.skip("accuracy", "the stack is not here")
        tap.done()
        raise SystemExit
    raw, truth = (tifffile.imread(os.path.join(folder, "membrane_%s.tif" % n))
                  for n in ("raw", "label"))
    return raw, truth.astype(np.int64)


def main():
    raw, truth = stack_and_truth()
    texcell_score = show("smooth 1.5, h 1", score(cells(raw, 1.5, 1), truth))
    tap.ok(texcell_score[0] >= 40 and texcell_score[2] >= 0.47,
           "at least 40 of 106 cells are found, with an F1 of at least 0.47", texcell_score)
    tap.done()


if __name__ == "__main__":
    main()
