"""Tests how much worse the constants of --suggest (cellcount's suggest.c) are than the best ones,
on kinds of pictures that were not used to choose them. Values around each constant that a parameter
can override are tried on the development half of six kinds of nuclei (nuclei.py). Then each kind in
turn is held out: the best values on the other kinds are scored on it. The same is done with the two
halves of each kind's pictures.

  cross_validation.py [FOLDER]      takes minutes; FOLDER as in nuclei.py"""
import itertools
import json
import os
import sys

import numpy as np

import nuclei
import tap

# Values of offset_percent and min_contrast.percent; suggest.c has 20 and 40.
OFFSETS, CONTRASTS = (10, 15, 20, 25, 30), (20, 40, 60)
TAKEN = (20, 40)


def scores_of(folder, kind, names, offset, contrast, suggested):
    """F1 of each picture with the two constants changed."""
    given = {"min_contrast": json.dumps({"full_area": suggested["min_contrast"]["full_area"],
                                         "percent": contrast})}
    if "offset_percent" in suggested:
        given["offset_percent"] = str(offset)
    labels, _ = nuclei.analysed(folder, kind, names, *[w for k, v in given.items()
                                                       for w in ("--param", "%s=%s" % (k, v))])
    return [nuclei.f1(labels[n], nuclei.read(os.path.join(folder, kind, n + "_truth.png")))
            for n in names]


def parameters(text):
    """{parameter: value} of the suggested parameters as text."""
    out = {}
    for word in text.replace("'", "").split():
        key, _, value = word.partition("=")
        try:
            out[key] = json.loads(value)
        except ValueError:
            out[key] = value
    return out


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else tap.data("nuclei")
    if folder is None:
        tap.skip("cross-validation", "the pictures are not here")
        return tap.done()
    grid = list(itertools.product(OFFSETS, CONTRASTS))
    present_index, by_kind, halves = grid.index(TAKEN), {}, {}
    for kind in nuclei.KINDS:
        names = nuclei.pictures(folder, kind)
        suggested = parameters(nuclei.analysed(folder, kind, names)[1])
        table = np.array([scores_of(folder, kind, names, *g, suggested) for g in grid])
        by_kind[kind] = table.mean(axis=1)
        halves[kind] = table[:, ::2].mean(axis=1), table[:, 1::2].mean(axis=1)
    lost = []
    for kind, own in by_kind.items():
        best = np.mean([v for k, v in by_kind.items() if k != kind], axis=0).argmax()
        lost.append(own.max() - own[best])
        tap.note("%-8s with what is taken, %s: F1 %.3f; with what is best on the others, %s: %.3f; "
                 "with its own best, %s: %.3f" %
                 (kind, TAKEN, own[present_index], grid[best], own[best], grid[own.argmax()],
                  own.max()))
    tap.note("one kind held back: %.3f is lost to its own best, on average" % np.mean(lost))
    for here in (0, 1):
        learnt, other = (np.mean([h[k] for h in halves.values()], axis=0) for k in (here, 1 - here))
        tap.note("half %d says %s: F1 %.3f on the other, of which the best is %.3f, and what "
                 "is taken %.3f" %
                 (here + 1, grid[learnt.argmax()], other[learnt.argmax()], other.max(),
                  other[present_index]))
    mean = np.mean(list(by_kind.values()), axis=0)
    tap.ok(mean.max() - mean[present_index] < 0.02,
           "F1 of suggest.c's constants is within 0.02 of the best on all kinds", "%.3f, %.3f" %
           (mean[present_index], mean.max()))
    tap.ok(np.mean(lost) < 0.04, "the F1 of a held-out kind is less than 0.04 below its best",
           "%.3f" % np.mean(lost))
    tap.done()


if __name__ == "__main__":
    main()
