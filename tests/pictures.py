"""Makes synthetic pictures, and items of work units with them; the same in every run."""
import numpy as np
import skimage.data

from oracle.workunit import item


def blobs(height, width, seed, n=6, radius=4.0):
    """A dark picture with n bright round blobs, and noise."""
    rng = np.random.default_rng(seed)
    y, x = np.indices((height, width))
    picture = np.full((height, width), 50.0)
    for _ in range(n):
        cy, cx = rng.uniform(2, height - 2), rng.uniform(2, width - 2)
        picture += 130 * np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / (2 * (radius / 1.6) ** 2))
    return (picture + rng.normal(0, 3, picture.shape)).clip(0, 255).astype(np.uint8)


def pictures(sizes=((40, 44), (40, 44), (33, 51), (48, 30))):
    return [item("cell_%d" % i, [blobs(h, w, i)]) for i, (h, w) in enumerate(sizes)]


def stacks():
    return [item("stack_%d" % i, [blobs(24, 28, 10 * i + z, 3) for z in range(9)],
                 spacing=[0.5, 0.25, 0.25])
            for i in range(2)]


def coins():
    return skimage.data.coins()


def gravel():
    return skimage.data.gravel()[:300, :300]


def noise(*shape):
    return np.random.default_rng(1).integers(0, 256, shape).astype(np.uint8)


def chequered(h, w):
    return ((np.indices((h, w)).sum(0) % 2 == 0) * 200).astype(np.uint8)


# --- small items for many tests ------------------------------------------------------------------

def _tiny():
    y, x = np.indices((14, 17))
    return [item("a",
                 [(60 + 9 * y + 90 * ((x % 8 - 3) ** 2 + (y % 7 - 3) ** 2 < 8)).astype(np.uint8)]),
            item("b", [(40 + 140 * (x % 6 < 3)).astype(np.uint8)])]


TINY = _tiny()
TINY_STACK = [item("s", [TINY[i]["slices"][0] for i in (0, 1, 0)])]


# --- for tests of data sets -----------------------------------------------------------------------

_RNG = np.random.default_rng(20240601)
GREY = [_RNG.integers(0, 256, (30 + 2 * i, 40)).astype(np.uint8) for i in range(3)]
DEEP = [_RNG.integers(0, 256, (20, 22)).astype(np.uint8) for _ in range(5)]


def _dark_cells(height, width, n, radius):
    """Dark cells on bright ground, some of them at the border."""
    y, x = np.mgrid[:height, :width]
    image = np.full((height, width), 200.0)
    for _ in range(n):
        cy, cx = _RNG.integers(0, height), _RNG.integers(0, width)
        image[(y - cy) ** 2 + (x - cx) ** 2 <= radius ** 2] = 60
    return (image + _RNG.integers(-9, 10, image.shape)).astype(np.uint8)


CELLS = [_dark_cells(60, 70, 9, 4) for _ in range(2)] + [np.full((20, 20), 7, np.uint8)]


# --- pictures of usual size -----------------------------------------------------------------------

def _smooth(*shape):
    """A smooth pattern with noise."""
    y, x = np.mgrid[:shape[-2], :shape[-1]]
    return (128 + 60 * np.sin(x / 17.0) * np.cos(y / 13.0) +
            np.random.default_rng(5).normal(0, 9, shape)).clip(
                0, 255).astype(np.uint8)


SMOOTH = _smooth(480, 640)
SMOOTH_STACK = _smooth(16, 240, 320)


# --- random ones ---------------------------------------------------------------------------

SIDES = [1, 2, 3, 5, 9, 17, 24, 33, 65, 130]


def one_of(rng, *choices):
    return choices[rng.integers(len(choices))]


def some_of(rng, choices, most):
    return [int(v) for v in rng.choice(choices, rng.integers(1, most + 1), replace=False)]


def random_picture(rng, height, width, bits):
    y, x = np.indices((height, width))
    kind = rng.integers(6)
    if kind == 0:
        p = np.full((height, width), rng.integers(256))
    elif kind == 1:
        p = rng.integers(0, 256, (height, width))
    elif kind == 2:
        p = (y + x) % 2 * 255
    else:
        p = np.full((height, width), 40.0)
        for _ in range(rng.integers(1, 8)):
            cy, cx, s = rng.uniform(0, height), rng.uniform(0, width), rng.uniform(1, 6)
            p += 150 * np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / (2 * s * s))
        p = (p + rng.normal(0, 4, p.shape)).clip(0, 255)
    if bits == 16:
        return (p * 257).astype(np.uint16)
    if bits == 24:
        return np.stack([p, p[::-1], np.roll(p, 1, 1)], -1).astype(np.uint8)
    return p.astype(np.uint8)


def random_items(rng, stack, masks):
    """Yields one to three items of random shapes, with random masks if `masks`."""
    bits = one_of(rng, 8, 8, 16, 8 if stack else 24)
    for i in range(rng.integers(1, 4)):
        height, width, slices = (int(rng.choice(SIDES)), int(rng.choice(SIDES)),
                                 int(rng.integers(1, 6)) if stack else 1)
        yield item("i%d" % i, [random_picture(rng, height, width, bits) for _ in range(slices)],
                   [rng.random((height, width)) < 0.5 for _ in range(slices)] if masks else None,
                   stack=stack,
                   spacing=[one_of(rng, 1, 0.5, 1.5), one_of(rng, 1, 0.25),
                            one_of(rng, 1, 0.25, 0.3)] if stack else None)
