"""Tests volume's watershed against scikit-image's Gaussian filter, h-minima and watershed, with
twelve sets of parameters. Also scores parameters chosen on one half of the stack (by z) on the
other. Takes ten minutes, most of them in scikit-image."""
import itertools
import time

import numpy as np

import tap
from volume_accuracy import cells, score, show, stack_and_truth


def peer(stack, smooth, h):
    """scikit-image's label picture."""
    from skimage import filters, measure, morphology, segmentation
    grey = filters.gaussian(stack, smooth, preserve_range=True)
    return segmentation.watershed(grey, measure.label(morphology.h_minima(grey, h)))


def test_grid(raw, truth):
    f1 = []
    for smooth, h in itertools.product((1, 1.5, 2), (0.5, 1, 2, 4)):
        start = time.process_time()
        labels = peer(raw, smooth, h)
        took = time.process_time() - start
        texcell_score, peer_score = score(cells(raw, smooth, h), truth), score(labels, truth)
        tap.note("smooth %-4g h %-4g texcell %d of %d, F1 %.3f; scikit-image %d of %d, F1 "
                 "%.3f, in %.0f s" %
                 ((smooth, h) + texcell_score + peer_score + (took,)))
        f1.append((texcell_score[2], peer_score[2]))
    mean = np.mean(f1, axis=0)
    tap.ok(mean[0] >= mean[1], "mean F1 of 12 settings: %.4f, scikit-image %.4f" % tuple(mean), f1)


def test_halves(raw, truth):
    """Parameters chosen on the slices below the middle are scored on those above, and the
    reverse."""
    middle = len(raw) // 2
    parts = [slice(0, middle), slice(middle, None)]
    settings = list(itertools.product((1.5, 2, 2.5), (0.5, 0.7, 1), (1, 1000)))
    scores = [[score(cells(raw[p], s, h, min_voxels=m), truth[p])[2] for s, h, m in settings]
              for p in parts]
    chosen = [settings[int(np.argmax(s))] for s in scores]
    unseen = [scores[1 - k][settings.index(c)] for k, c in enumerate(chosen)]
    for k, c in enumerate(chosen):
        s, h, m = c
        show("smooth %g, h %g, min_voxels %d, of half %d" % (s, h, m, k),
             score(cells(raw[parts[1 - k]], s, h, min_voxels=m),
                                                                                    truth[parts[
                                                                                        1 - k]]))
    tap.ok(min(unseen) > 0.4,
           "F1 on the half that was not used for the choice: %.3f, %.3f" % tuple(unseen))


def main():
    raw, truth = stack_and_truth()
    test_grid(raw, truth)
    test_halves(raw, truth)
    tap.done()


main()
