"""Random glcm work units, for the long test; the short test uses a few of them."""
import numpy as np

from oracle import workunit


def _picture(rng, height, width, dtype):
    top = int(np.iinfo(dtype).max)
    kind = rng.integers(0, 8)
    if kind == 0:
        p = rng.integers(0, top + 1, (height, width))
    elif kind == 1:
        p = np.full((height, width), rng.integers(0, top + 1))
    elif kind == 2:
        p = np.full((height, width), rng.integers(0, top + 1))
        p[rng.integers(0, height), rng.integers(0, width)] = rng.integers(0, top + 1)
    elif kind == 3:
        p = rng.integers(0, 2, (height, width)) * top
    elif kind == 4:
        y, x = np.mgrid[0:height, 0:width]
        p = (x * rng.integers(0, 9) + y * rng.integers(0, 9)) * top // 400 % (top + 1)
    elif kind == 5:
        y, x = np.mgrid[0:height, 0:width]
        p = ((x // rng.integers(1, 4) + y // rng.integers(1, 4)) % 2) * (top // 3)
    elif kind == 6:
        p = np.clip(rng.normal(top / 2, top / 20, (height, width)), 0, top)
    else:
        steps = rng.integers(-top // 30 - 1, top // 30 + 2, (height, width))
        p = np.clip(np.cumsum(steps, axis=1) + top // 2, 0, top)
    return p.astype(dtype)


def _mask(rng, height, width):
    kind = rng.integers(0, 4)
    if kind == 0:
        m = rng.random((height, width)) < rng.choice([0.1, 0.5, 0.9])
    elif kind == 1:
        m = np.zeros((height, width), bool)
        m[rng.integers(0, height), :] = True
    elif kind == 2:
        m = np.zeros((height, width), bool)
        m[:, rng.integers(0, width)] = True
    else:
        y, x = np.mgrid[0:height, 0:width]
        m = (x - width / 3) ** 2 + (y - height / 2) ** 2 < rng.uniform(1, 60)
    m[rng.integers(0, height), rng.integers(0, width)] = True
    return m


def random_job(rng, matrices=2500):
    """(parameters, items) of a random work unit that takes about `matrices` matrices or fewer."""
    dtype = np.uint16 if rng.random() < 0.3 else np.uint8
    top = int(np.iinfo(dtype).max)
    height, width = (int(v) for v in rng.integers(1, 40, 2))
    radius = int(rng.choice([1, 2, 3, 5, 8, 12, 16, 20]))
    shape = str(rng.choice(["disc", "square", "disc", "square", "roi"]))
    window = {"shape": "roi"} if shape == "roi" else {"shape": shape, "radius": radius}
    levels = sorted(int(v) for v in
                    rng.choice([2, 3, 5, 8, 16, 31, 64, 100, 128, 200, 256],
                               rng.integers(1, 3), replace=False))
    distances = sorted(int(v) for v in rng.choice(np.arange(1, 11), rng.integers(1, 4),
                                                  replace=False))
    directions = "four" if rng.random() < 0.4 else "all"
    how = rng.integers(0, 3)
    if how == 0:
        limits = None
    elif how == 1:
        limits = "image"
    else:
        limits = sorted(int(v) for v in rng.choice(top, 2, replace=False))
    parameters = {"levels": levels, "window": window, "distances": distances,
                  "directions": directions, "per_offset": bool(rng.random() < 0.7)}
    if limits is not None:
        parameters["range"] = limits
    per_window = len(levels) * (4 * len(distances) if directions == "four"
                                else sum(3.2 * d + 1 for d in distances))
    budget = max(1, int(matrices / per_window))
    slices = int(rng.choice([1, 1, 1, 3]))
    roi = int(rng.integers(0, 3)) if shape != "roi" else int(rng.choice([0, 2]))
    masks = None
    if roi == 0 and (shape == "roi" or height * width * slices <= 4 * budget):
        parameters["roi"] = {"type": "all"}
    elif roi == 1:
        r = 0
        while 3.2 * (r + 1) ** 2 * slices < budget and r < 12:
            r += 1
        parameters["roi"] = {"type": "disc", "r": r, "cx": int(rng.integers(0, width)),
                             "cy": int(rng.integers(0, height))}
    else:
        parameters["roi"] = {"type": "mask"}
        masks = [_mask(rng, height, width) for _ in range(slices)]
        if shape != "roi":
            for m in masks:
                inside = np.argwhere(m)
                for y, x in inside[rng.permutation(len(inside))[max(1, budget // slices):]]:
                    m[y, x] = False
    if shape != "roi" and slices == 1 and rng.random() < 0.4:
        parameters["maps"] = [{"feature": "entropy", "levels": levels[0],
                               "offset": [distances[0], 0]}]
    pictures = [_picture(rng, height, width, dtype) for _ in range(slices)]
    return parameters, [workunit.item("random", pictures, masks)]
