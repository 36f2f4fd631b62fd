"""24 small jobs, four of each analysis, which together reach the cases that the kernels treat
separately; for tests that run them on several OpenCL implementations."""
import numpy as np
from scipy import ndimage

from oracle.workunit import item


def balls(shape, radius, count, seed, dtype=np.uint8):
    rng = np.random.default_rng(seed)
    grid = np.indices(shape)
    image = np.full(shape, 50.0)
    for _ in range(count):
        centre = [rng.uniform(0, n) for n in shape]
        d = np.sqrt(sum((grid[a] - centre[a]) ** 2 for a in range(len(shape))))
        image = np.maximum(image, 50 + rng.uniform(60, 150) * np.clip(radius + 0.5 - d, 0, 1))
    image = np.clip(image + rng.normal(0, 5, shape), 0, 255)
    return np.round(image * (257 if dtype == np.uint16 else 1)).astype(dtype)


def noise(shape, seed, top=256, dtype=np.uint8):
    return np.random.default_rng(seed).integers(0, top, shape).astype(dtype)


def foam(shape, seed, dtype=np.uint8):
    blurred = ndimage.gaussian_filter(np.random.default_rng(
        seed).random(shape), [min(3, n / 4) for n in shape])
    membrane = np.abs(blurred - blurred.mean()) < 0.5 * blurred.std()
    grey = np.arange(membrane.size).reshape(shape) * 7919 % 100
    return (np.where(membrane, 128 + grey, grey) * (257 if dtype == np.uint16 else 1)).astype(dtype)


def one(image, labels=None):
    """One item with this picture or stack, and labels."""
    planes = [None if a is None else [a] if a.ndim == 2 else list(a) for a in (image, labels)]
    return [item("a", planes[0], labels=planes[1])]


def labelled(shape, seed, dtype=np.uint8):
    image = balls(shape, 5, 3 * max(shape[-1] * shape[-2] // 400, 3), seed, dtype)
    return one(image, ndimage.label(image > (90 * 257 if dtype == np.uint16 else 90))[0])


FLAT = {"target": 180, "epsilon": 60, "alpha": 0.003, "iterations": 200,
        "init": {"type": "ball", "cx": 60, "cy": 45, "r": 16}}
DEEP = dict(FLAT, iterations=60, init={"type": "ball", "cx": 30, "cy": 25, "cz": 9, "r": 8})
# [(analysis, parameters, function that returns the items)]
JOBS = [
    ("glcm", {"levels": [16, 64], "distances": [1, 5], "window": {"shape": "disc", "radius": 9}},
     lambda: one(balls((70, 85), 6, 25, 1))),
    ("glcm", {"levels": [9, 256], "distances": [2], "features": "ibsi",
              "window": {"shape": "square", "radius": 4},
              "maps": [{"feature": "cluster_shade", "levels": 256, "offset": [2, 0]},
                       {"feature": "entropy", "levels": 9, "offset": [0, 2]}]},
     lambda: one(noise((40, 55), 2, 65536, np.uint16))),
    ("glcm", {"levels": [2, 64, 256], "distances": [1, 4], "window": {"shape": "roi"},
              "roi": {"type": "disc", "r": 40}},
     lambda: one(balls((170, 140), 6, 60, 3))),
    ("glcm", {"levels": [32], "distances": [1, 7, 25], "directions": "four",
              "window": {"shape": "square", "radius": 20}},
     lambda: one(balls((110, 130), 9, 30, 4))),
    ("cellcount", {"threshold": "otsu", "polarity": "bright",
     "min_area": 3}, lambda: one(balls((400, 333), 6, 200, 5))),
    ("cellcount", {"threshold": 30000, "connectivity": 4, "fill_holes": True, "split": "distance",
                   "labels": True},
     lambda: one(balls((301, 290), 9, 200, 6, np.uint16))),
    ("cellcount", {"smooth": 1.5, "background": {"radius": 12}, "split": "intensity", "h": 4,
                   "labels": True},
     lambda: one(balls((210, 333), 7, 150, 7))),
    ("cellcount", {"threshold": 128, "polarity": "dark", "fill_holes": True,
                   "exclude_border": True, "labels": True},
     lambda: one(noise((257, 511), 8))),
    ("volume", {"membrane": 128, "labels": True}, lambda: one(foam((45, 90, 131), 9))),
    ("volume", {"membrane": 128 * 257, "mode": "slices", "min_voxels": 4},
     lambda: one(foam((9, 120, 130), 10, np.uint16))),
    ("volume", {"membrane": 128, "repair": {"sigma": 1.2, "threshold": 90}, "labels": True},
     lambda: one(foam((30, 60, 61), 11))),
    ("volume", {"method": "watershed", "smooth": 0.5, "h": 6.5, "min_voxels": 3, "labels": True},
     lambda: one(foam((25, 60, 71), 12))),
    ("objects", {"texture_features": "ibsi", "distances": [
     1, 3]}, lambda: labelled((300, 280), 13)),
    ("objects", {"aggregate": "merge", "levels": 256, "range": "image", "exclude_border": True},
     lambda: labelled((200, 210), 14, np.uint16)),
    ("objects", {"levels": 9, "distances": [2], "range": [
     50, 230]}, lambda: labelled((20, 60, 70), 15)),
    ("objects", {"levels": 32}, lambda: labelled((333, 222), 16)),
    ("levelset", FLAT, lambda: one(balls((95, 130), 8, 20, 17))),
    ("levelset", dict(FLAT, band=5), lambda: one(balls((95, 130), 8, 20, 18))),
    ("levelset", dict(DEEP, dt=0.2, smooth=1.2, edge_stop=0.0001),
     lambda: one(balls((22, 50, 66), 8, 20, 19))),
    ("levelset", dict(DEEP, band=4, stop_after=9, alpha=0.02),
     lambda: one(balls((22, 50, 66), 8, 20, 20))),
    ("voting", {"radius": 6}, lambda: one(balls((200, 210), 6, 90, 21))),
    ("voting", {"radius": 4.5, "polarity": "dark", "cone": 90, "floor": 0, "weight": "gradient",
                "sigma": 0.7,
                "refine": False}, lambda: one(noise((130, 140), 22))),
    ("voting", {"radius": 4, "sigma": 1}, lambda: one(balls((17, 40, 45), 4, 19, 23))),
    ("voting", {"radius": 2.5, "floor": 0}, lambda: one(noise((150, 333), 24, 65536, np.uint16))),
]
