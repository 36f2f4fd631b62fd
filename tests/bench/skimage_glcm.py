"""The time that scikit-image takes for matrices of the preset hcc: prints one line for `make
bench`, microseconds for a matrix with all 13 features in numpy.

scikit-image has no disc, so the window is the square around it (33 x 33)."""
import math
import sys
import time

import numpy as np
import skimage.data
from skimage.feature import graycomatrix

LEVELS = (16, 32, 64)
RADIUS = 16


def hcc_offsets():
    reach = range(-26, 27)
    return [(dx, dy) for dy in range(27) for dx in reach
            if (dy > 0 or dx > 0) and 1 <= 4 * (dx * dx + dy * dy) < 51 ** 2]


class Features:
    """The 13 features in double precision, vectorised as far as numpy allows."""

    def __init__(self, levels):
        self.i = np.arange(1, levels + 1)[:, None].astype(float)
        self.j = self.i.T
        self.difference2 = (self.i - self.j) ** 2
        self.idm = 1 / (1 + self.difference2)
        self.sums = (self.i + self.j).astype(int).ravel()
        self.differences = np.abs(self.i - self.j).astype(int).ravel()

    def __call__(self, p):
        px = p.sum(axis=1)
        level = self.i[:, 0]
        mean = level @ px
        variance = (level - mean) ** 2 @ px
        ps = np.bincount(self.sums, p.ravel())
        pd = np.bincount(self.differences, p.ravel())
        ks, kd = np.arange(ps.size), np.arange(pd.size)
        sum_average, difference_average = ks @ ps, kd @ pd
        hx, hxy = entropy(px), entropy(p)
        hxy1 = 2 * hx
        contrast = (self.difference2 * p).sum()
        return (np.sum(p * p), contrast,
                1.0 if variance == 0 else ((self.i - mean) * (self.j - mean) * p).sum() / variance,
                variance, (self.idm * p).sum(), sum_average,
                (ks - sum_average) ** 2 @ ps, entropy(ps), hxy,
                (kd - difference_average) ** 2 @ pd, entropy(pd),
                0.0 if hx == 0 else (hxy - hxy1) / hx,
                math.sqrt(max(0.0, 1 - math.exp(-2 * (hxy1 - hxy)))))


def entropy(p):
    p = p[p > 0]
    return -(p * np.log2(p)).sum()


def main():
    windows = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    camera = skimage.data.camera()
    offsets = hcc_offsets()[::8]
    rng = np.random.default_rng(1)
    spent = {"matrix": 0.0, "features": 0.0}
    n = 0
    for levels in LEVELS:
        quantised = (camera.astype(int) * levels // 256).astype(np.uint8)
        features = Features(levels)
        for _ in range(windows):
            y, x = rng.integers(RADIUS, 512 - RADIUS, 2)
            window = quantised[y - RADIUS:y + RADIUS + 1, x - RADIUS:x + RADIUS + 1]
            for dx, dy in offsets:
                start = time.perf_counter()
                p = graycomatrix(window, [math.hypot(dx, dy)], [math.atan2(dy, dx)], levels,
                                 symmetric=True, normed=True)[:, :, 0, 0]
                middle = time.perf_counter()
                features(p)
                spent["matrix"] += middle - start
                spent["features"] += time.perf_counter() - middle
                n += 1
    print("scikit-image: %.1f us per matrix (%.1f counting, %.1f features; %d matrices, "
          "one thread, 33 x 33 windows of camera, levels 16, 32, 64)"
          % (1e6 * sum(spent.values()) / n, 1e6 * spent["matrix"] / n,
             1e6 * spent["features"] / n, n))


if __name__ == "__main__":
    main()
