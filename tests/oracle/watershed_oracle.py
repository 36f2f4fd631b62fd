"""The oracle of volume's watershed, step by step as docs/dev/analyses/volume.md defines it:
heights, paths uphill, plateaus by distance, maxima, saddles in order. It is slow; arrays are
[z,y,x]."""
import itertools

import numpy as np


def steps(corners, depth):
    """The steps (dz, dy, dx) to a pixel's neighbours, in raster order."""
    return [d for d in itertools.product((-1, 0, 1), repeat=3)
            if any(d) and (corners or sum(map(abs, d)) == 1) and (depth or d[0] == 0)]


def shifted(a, d, fill):
    """b[p] = a[p + d]; `fill` if p + d is outside."""
    b = np.full_like(a, fill)
    here = tuple(slice(max(0, -k), n - max(0, k)) for k, n in zip(d, a.shape))
    there = tuple(slice(max(0, k), n + min(0, k)) for k, n in zip(d, a.shape))
    b[here] = a[there]
    return b


def ways(height, ground, around, plateaus):
    """For each pixel the index of the neighbour uphill, or on a maximum the pixel's own index."""
    index = np.arange(height.size).reshape(height.shape)
    best, to = height.copy(), index.copy()
    for d in around:
        h, i = shifted(height, d, -1), shifted(index, d, -1)
        better = (h > best) | ((h == best) & (i < to) & (not plateaus) & (i >= 0))
        best, to = np.where(better, h, best), np.where(better, i, to)
    to[ground] = -1
    if not plateaus:
        return to
    level = np.where((to != index) | ground, 0, -1)
    for k in itertools.count(1):
        first = np.full(height.shape, height.size)
        for d in around:
            good = (shifted(level, d, -1) == k - 1) & (shifted(height, d, -1) == height)
            first = np.where(good, np.minimum(first, shifted(index, d, height.size)), first)
        new = (level == -1) & (first < height.size)
        if not new.any():
            return to
        level[new], to[new] = k, first[new]


def maxima(height, to, around):
    """For each pixel the index of its maximum."""
    from scipy import ndimage
    index = np.arange(height.size)
    flat = (to.ravel() == index).reshape(height.shape)
    structure = np.zeros((3, 3, 3), int)
    structure[1, 1, 1] = 1
    for d in around:
        structure[tuple(k + 1 for k in d)] = 1
    found, n = ndimage.label(flat, structure)
    first = np.full(n + 1, height.size)
    np.minimum.at(first, found.ravel(), index)
    lead = np.where(flat.ravel(), first[found.ravel()], to.ravel())
    while True:
        further = np.where(lead >= 0, lead[lead], -1)
        if (further == lead).all():
            return lead.reshape(height.shape)
        lead = further


def saddles(height, top, around):
    """[(height, a, b)], a < b: the highest saddle between each two maxima whose basins meet, in the
    order in which saddles are visited."""
    found = {}
    pairs = []
    for d in around:
        other, h = shifted(top, d, -1), np.minimum(height, shifted(height, d, -1))
        good = (top >= 0) & (other > top)
        pairs.append(np.stack([h[good], top[good], other[good]], axis=1))
    for h, a, b in np.unique(np.concatenate(pairs), axis=0) if pairs else ():
        found[a, b] = max(h, found.get((a, b), 0))
    return sorted(((h, a, b) for (a, b), h in found.items()), key=lambda s: (-s[0], s[1], s[2]))


def hills(height, apart, corners=False, depth=True, plateaus=True):
    """Labels of the pixels with height > 0, from 1 in raster order of their first pixels."""
    height = height.astype(np.int64)
    around = steps(corners, depth)
    top = maxima(height, ways(height, height == 0, around, plateaus), around)
    flat = height.ravel()
    part = {int(t): int(t) for t in np.unique(top) if t >= 0}

    def root(t):
        while part[t] != t:
            t = part[t]
        return t
    for h, a, b in saddles(height, top, around):
        a, b = root(int(a)), root(int(b))
        high, low = (a, b) if (flat[a], -a) > (flat[b], -b) else (b, a)
        if a != b and not apart(flat[low], h):
            part[low] = high
    table = np.full(height.size + 1, -1)
    for t in part:
        table[t] = root(t)
    return table[top.ravel()].reshape(height.shape)
