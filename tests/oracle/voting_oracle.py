"""The oracle of voting, from docs/dev/analyses/voting.md: pixel by pixel and offset by offset,
without the program's intervals, tables of cones and differences. It is slow."""
import fractions
import math

import numpy as np
import skimage.filters

from oracle import cellcount_oracle

DEFAULTS = {"sigma": 2.0, "polarity": "bright", "threshold": "auto", "cone": 45, "weight": "root",
            "floor": 3.0, "refine": True, "classes": 2, "own_radius": False}


def isqrt(a):
    """floor(sqrt(a)) of an array of integers below 2^62."""
    root = np.sqrt(a.astype(np.float64)).astype(np.int64)
    root -= root * root > a
    root += (root + 1) * (root + 1) <= a
    return root


def sqrt_nearest(a):
    root = isqrt(a)
    return root + (a - root * root > root)


def round_half_up(value):
    return int(math.floor(value + 0.5))


class Scheme:
    """The constants that follow from the parameters and the item's shape [nz,ny,nx]."""

    def __init__(self, parameters, shape, spacing=None):
        self.p = dict(DEFAULTS, **parameters)
        self.shape = shape
        spacing = list(spacing or [1.0, 1.0, 1.0])
        least = min(spacing)
        self.radius = round_half_up(64 * (self.p["radius"] / least))
        self.scale = [round_half_up(64 * (s / least)) for s in spacing]
        self.inverse = [(4096 + s // 2) // s for s in self.scale]
        self.reach = [self.radius // s if n > 1 else 0 for s, n in zip(self.scale, shape)]
        self.kernels = [self.kernel(a) for a in range(3)]
        self.side = 16 if shape[0] > 1 else 64
        self.cos2 = self.cosines()
        self.offsets = self.ball()

    def kernel(self, axis):
        sigma = round_half_up(256 * self.p["sigma"] * 64 / self.scale[axis]) / 256
        if self.shape[axis] == 1 or sigma < 0.25:
            return [4096]
        half = math.ceil(3.5 * sigma)
        g = [math.exp(-i * i / (2 * sigma * sigma)) for i in range(-half, half + 1)]
        k = [round_half_up(4096 * v / math.fsum(g)) for v in g]
        k[half] = 0
        k[half] = 4096 - sum(k)
        return k

    def cosines(self):
        one = 1 << 20
        c2 = {90: 0, 45: one // 2}.get(self.p["cone"])
        if c2 is None:
            c2 = (one + math.isqrt((one // 2) << 20)) // 2
        found = [c2]
        # until the cone is narrow enough: radius * tan(angle) < 1 pixel
        while len(found) < 12 and self.radius ** 2 * (one - c2) >= 64 ** 2 * c2:
            c2 = (one + math.isqrt(c2 << 20)) // 2
            found.append(c2)
        return found

    def ball(self):
        rz, ry, rx = self.reach
        return [(z, y, x) for z in range(-rz, rz + 1) for y in range(-ry, ry + 1)
                for x in range(-rx, rx + 1)
                if (z, y, x) != (0, 0, 0)
                and sum((d * s) ** 2 for d, s in zip((z, y, x), self.scale)) <= self.radius ** 2]

    def physical(self, offset):
        return [d * s for d, s in zip(offset, self.scale)]


def shift_of(image):
    return 15 - (max(int(image.max()), 1).bit_length() - 1)


def blur(scheme, image):
    v = image.astype(np.int64) << shift_of(image)
    for axis, (add, bits) in enumerate(((128, 8), (2048, 12), (2048, 12))):
        k = scheme.kernels[axis]
        half = len(k) // 2
        padded = np.pad(v, [(half, half) if a == axis else (0, 0) for a in range(3)], mode="edge")
        total = np.zeros_like(v)
        for i, weight in enumerate(k):
            part = [slice(None)] * 3
            part[axis] = slice(i, i + v.shape[axis])
            total += weight * padded[tuple(part)]
        assert total.max() + add < 1 << 32
        v = (total + add) >> bits
    return v


def gradient(scheme, blurred):
    parts = []
    for axis in range(3):
        padded = np.pad(blurred, [(1, 1) if a == axis else (0, 0) for a in range(3)], mode="edge")
        n = blurred.shape[axis]
        up = np.take(padded, range(2, n + 2), axis)
        down = np.take(padded, range(n), axis)
        parts.append((up - down) * scheme.inverse[axis])
    g = np.stack(parts, -1)
    return -g if scheme.p["polarity"] == "dark" else g


def noise_floor(scheme, image):
    v = image.astype(np.int64)
    nz, ny, nx = v.shape
    if ny < 3 or nx < 3:
        return 0
    mask = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]])
    rough = np.zeros((nz, ny - 2, nx - 2), np.int64)
    for y in range(3):
        for x in range(3):
            rough += mask[y, x] * v[:, y:y + ny - 2, x:x + nx - 2]
    rows = np.abs(rough).reshape(-1, nx - 2)
    rows = rows[::-(-rows.size // (1 << 20))]
    ranked = np.sort(rows.ravel())
    median = int(ranked[(ranked.size - 1) // 2])
    gain = 0.0
    for axis in range(0 if nz > 1 else 1, 3):
        one = 1.0
        for other in range(3):
            k = np.array(scheme.kernels[other], float)
            if other == axis:
                slope = np.convolve(k, [1, 0, -1])
                one *= (slope ** 2).sum() / 4096 ** 2 * scheme.inverse[axis] ** 2 / 4096
            else:
                one *= (k ** 2).sum() / 4096 ** 2
        gain = max(gain, one)
    return int(scheme.p["floor"] * (median / 4.047) * 2.0 ** shift_of(image) * 1024 * math.sqrt(
        gain))


def quantised(vectors, side):
    """Directions rounded to integer points on the surface of a cube; zero stays zero."""
    size = np.abs(vectors)
    most = np.maximum(size.max(-1, keepdims=True), 1)
    return np.sign(vectors) * ((2 * side * size + most) // (2 * most))


def lengths_weights(scheme, g, floor):
    length = sqrt_nearest((g ** 2).sum(-1))
    weight = sqrt_nearest(length >> 4) if scheme.p["weight"] == "root" else length >> 15
    weight[(length < floor) | (length == 0)] = 0
    return weight


def covers(scheme, directions, offset, cos2):
    """For each voter, whether the voter's cone contains the pixel at `offset` from the voter."""
    d = np.array(scheme.physical(offset))
    dot = (directions * d).sum(-1)
    return (dot > 0) & (dot * dot * (1 << 20) >=
                        cos2 * (directions ** 2).sum(-1) * int((d * d).sum()))


def shifted(shape, offset):
    """(index slices of the voters for which the pixel at `offset` is in the picture, index slices
    of these pixels)."""
    voters = tuple(slice(max(0, -d), max(0, min(n, n - d))) for d, n in zip(offset, shape))
    pixels = tuple(slice(max(0, d), max(0, min(n, n + d))) for d, n in zip(offset, shape))
    return voters, pixels


def vote(scheme, directions, weight, cos2):
    votes = np.zeros(scheme.shape, np.int64)
    for offset in scheme.offsets:
        voters, pixels = shifted(scheme.shape, offset)
        votes[pixels] += np.where(covers(scheme, directions[voters], offset, cos2), weight[voters],
                                  0)
    assert votes.max() < 1 << 32
    return votes


def turn(scheme, directions, weight, votes, cos2):
    """Turns each voter towards the largest sum of votes in its cone; if several are equal, towards
    the first in the order of z, y, x."""
    best = np.zeros(scheme.shape, np.int64)
    choice = directions.copy()
    for offset in scheme.offsets:                      # sorted by z, y, x
        voters, pixels = shifted(scheme.shape, offset)
        better = covers(scheme, directions[voters], offset,
                        cos2) & (votes[pixels] > best[voters]) & (weight[voters] > 0)
        best[voters] = np.where(better, votes[pixels], best[voters])
        aim = quantised(np.array(scheme.physical(offset)), scheme.side)
        choice[voters] = np.where(better[..., None], aim, choice[voters])
    return choice


def peaks(scheme, votes):
    """[(score, position)] of local maxima that are at least the radius apart, chosen greedily."""
    nz, ny, nx = votes.shape
    order = np.argsort(-votes, axis=None, kind="stable")
    rank = np.empty(votes.size, np.int64)
    rank[order] = np.arange(votes.size)
    rank = np.pad(rank.reshape(votes.shape), 1, constant_values=votes.size)
    centre = rank[1:-1, 1:-1, 1:-1]
    first = np.ones(votes.shape, bool)
    for z in range(3):
        for y in range(3):
            for x in range(3):
                first &= rank[z:z + nz, y:y + ny, x:x + nx] >= centre
    chosen_peaks = []
    for i in order:
        position = np.unravel_index(i, votes.shape)
        if votes[position] == 0:
            break
        if first[position] and all(sum(((a - b) * s) ** 2 for a, b,
                                       s in zip(position, other, scheme.scale)) >=
                                   scheme.radius ** 2
                                   for _, other in chosen_peaks):
            chosen_peaks.append((int(votes[position]), tuple(int(a) for a in position)))
    return chosen_peaks


def automatic_threshold(kept):
    total, part = sum(k[0] for k in kept), 0
    for score, _ in kept:
        part += score
        if 2 * part >= total:
            return math.ceil(fractions.Fraction(3 * score, 10))
    return 0


def on_foreground(volume, at, polarity, classes):
    """Whether the mean of 5 x 5 pixels is on the foreground's side of the threshold: scikit-image's
    Otsu threshold (the largest value of the lower class), or cellcount_oracle's for more
    classes."""
    if classes > 2:
        threshold = cellcount_oracle.by_classes(volume.ravel(), classes, polarity == "bright", int)
    else:
        threshold = int(skimage.filters.threshold_otsu(volume)) + 1
    z, y, x = (int(np.floor(a + 0.5)) for a in at)
    mean = volume[z, max(0, y - 2):y + 3, max(0, x - 2):x + 3].mean(dtype=np.float64)
    return (mean >= threshold) == (polarity == "bright")


def own_radius(image, p):
    """The radius for "auto": 5/4 of the radius of a disc with the median area of cellcount's
    regions."""
    y, x = ((n - min(n, 512)) // 2 for n in image.shape)
    cells = {"smooth": 1, "fill_holes": True, "split": "distance", "polarity": p["polarity"],
             "min_area": "auto", "min_contrast": {"full_area": "auto"}}
    cells.update({"classes": p["classes"]} if p["classes"] > 2
                 else {"threshold": "local", "window": "auto", "offset_percent": 20})
    areas = np.sort(cellcount_oracle.analyse(image[y:y + 512, x:x + 512], cells).area)
    found = 1.25 * math.sqrt(areas[len(areas) // 2] / 3.14159265358979323846) if len(areas) else p[
        "radius"]
    return min(max(found, p["radius"] / 4 if p["radius"] > 4 else 1), p["radius"])


def positive_definite(m):
    """Whether all pivots of the elimination are positive, in exact fractions."""
    from fractions import Fraction
    m = [[Fraction(e) for e in row] for row in m]
    for i in range(len(m)):
        if m[i][i] <= 0:
            return False
        for j in range(i + 1, len(m)):
            ratio = m[j][i] / m[i][i]
            m[j] = [a - ratio * b for a, b in zip(m[j], m[i])]
    return True


def refined(scheme, g, weight, at):
    """The centre refined by least squares, with integer sums, solved in fractions; None if the
    lines do not cross."""
    from fractions import Fraction
    nz = scheme.shape[0]
    span = [range(max(0, a - (5 * scheme.radius // (4 * s) if n > 1 else 0)),
                  min(n, a + (5 * scheme.radius // (4 * s) if n > 1 else 0) + 1))
            for a, s, n in zip(at, scheme.scale, scheme.shape)]
    m, v = [[0] * 3 for _ in range(3)], [0] * 3
    for z in span[0]:
        for y in span[1]:
            for x in span[2]:
                w = int(weight[z, y, x])
                if w == 0:
                    continue
                d = [4 * (p - c) * s for p, c, s in zip((z, y, x), at, scheme.scale)]
                u = [int(c) for c in quantised(g[z, y, x], 64)]
                d2, u2 = sum(c * c for c in d), sum(c * c for c in u)
                dot = -sum(a * b for a, b in zip(u, d))
                if d2 > (5 * scheme.radius) ** 2 or dot <= 0 or 1024 * dot * dot < 874 * u2 * d2:
                    continue
                t = (w << 12) // u2
                for a in range(3):
                    for b in range(3):
                        e = t * ((u2 if a == b else 0) - u[a] * u[b])
                        m[a][b] += e
                        v[a] += e * d[b]
    axes = range(3) if nz > 1 else range(1, 3)
    shift = 0
    trace = sum(m[a][a] for a in axes)
    while (trace * (1 if nz > 1 else 2)) >> shift >= 1 << 34:   # in 2D the zz element is the trace
        shift += 1
    cut = lambda e: abs(e) // (1 << shift) * (1 if e >= 0 else -1)
    whole = cut(trace)
    m = [[cut(m[a][b]) for b in axes] for a in axes]
    v = [cut(v[a]) for a in axes]
    total = sum(m[a][a] for a in range(len(m))) + (0 if nz > 1 else whole)
    if not positive_definite([[(96 if nz > 1 else 40) * m[a][b] - (total if a == b else 0)
                               for b in range(len(m))] for a in range(len(m))]):
        return None

    def det(q):
        if len(q) == 2:
            return q[0][0] * q[1][1] - q[0][1] * q[1][0]
        return sum(q[0][i] * (q[1][(i + 1) % 3] * q[2][(i + 2) % 3] -
                              q[1][(i + 2) % 3] * q[2][(i + 1) % 3])
                   for i in range(3))
    move = [0] * (3 - len(v))
    for a in range(len(v)):
        q = Fraction(det([[v[r] if c == a else m[r][c] for c in range(len(v))]
                          for r in range(len(v))]), det(m))
        size = math.floor(abs(q) + Fraction(1, 2))
        move.append(size if q >= 0 else -size)
    if sum(c * c for c in move) > 4 * scheme.radius ** 2:
        return [float(a) for a in at]
    found = [Fraction(4 * a * s + c, 4 * s) for a, s, c in zip(at, scheme.scale, move)]
    if any(q < Fraction(-1, 2) or q >= n - Fraction(1, 2) for q, n in zip(found, scheme.shape)):
        return [float(a) for a in at]
    return [float(q) for q in found]


def run(image, parameters, spacing=None):
    """Runs voting on image [h,w] or [nz,ny,nx]. Returns a dictionary with `blurred`, `weight`, the
    `votes` of each round, `points` and `scores`."""
    flat = image.ndim == 2
    volume = image[None] if flat else image
    p = dict(DEFAULTS, **parameters)
    s = Scheme(p, volume.shape, spacing)
    if p["polarity"] == "auto":
        p["polarity"] = "bright" if (volume <
                                     cellcount_oracle.otsu(volume)).mean() > 0.5 else "dark"
    if p["own_radius"]:
        rounds = len(s.cos2)
        p["radius"] = own_radius(image, p)
    s = Scheme(p, volume.shape, spacing)
    if p["own_radius"]:
        s.cos2 = s.cos2 + s.cos2[-1:] * (rounds - len(s.cos2))
    blurred = blur(s, volume)
    g = gradient(s, blurred)
    weight = lengths_weights(s, g, noise_floor(s, volume))
    directions = quantised(g, s.side)
    rounds = []
    for i, cos2 in enumerate(s.cos2):
        rounds.append(vote(s, directions, weight, cos2))
        if i + 1 < len(s.cos2):
            directions = turn(s, directions, weight, rounds[-1], cos2)
    all_peaks = peaks(s, rounds[-1])
    threshold = s.p["threshold"]
    if threshold == "auto":
        threshold = automatic_threshold(all_peaks)
    kept_peaks = [k for k in all_peaks if k[0] >= threshold]
    if s.p["refine"]:
        points = [refined(s, g, weight, position) for _, position in kept_peaks]
        kept_peaks = [k for k, p in zip(kept_peaks, points) if p is not None]
        points = [p for p in points if p is not None]
    else:
        points = [[float(a) for a in position] for _, position in kept_peaks]
    if parameters.get("foreground", "none") == "otsu":
        on = [on_foreground(volume, position, p["polarity"], p["classes"]) for position in points]
        kept_peaks, points = ([v for v, o in zip(values, on) if o]
                              for values in (kept_peaks, points))
    return {"radius": p["radius"], "bright": p["polarity"] == "bright", "threshold": threshold,
            "peak_sum": sum(k[0] for k in all_peaks), "blurred": blurred,
            "weight": weight, "votes": rounds,
            "points": np.array(points).reshape(-1, 3)[:, 1 if flat else 0:],
            "scores": np.array([k[0] for k in kept_peaks], np.int64)}
