"""The oracle of cellcount, with numpy, scipy.ndimage and scikit-image. Only the split, which no
library has, is implemented here from its description (docs/dev/analyses/cellcount.md): by sorting
pixels and flooding, whereas the program follows pointers and merges maxima."""
import math
from fractions import Fraction

import numpy as np
from scipy import ndimage
from skimage import measure

from oracle import watershed_oracle
from oracle.gauss import integer_weights

# Default values: of the parameters (DEFAULTS), of min_contrast's keys (CONTRAST), and of
# background's keys (GROUND).
DEFAULTS = {"threshold": "otsu", "polarity": "dark", "connectivity": 8, "fill_holes": False,
            "min_area": 1, "max_area": None, "exclude_border": False, "split": "none",
            "labels": False,
            "smooth": 0, "background": None, "window": 51, "offset": 10, "h": 5, "classes": 2,
            "scale": "linear",
            "offset_percent": None, "min_fill": 0, "max_aspect": None, "min_contrast": None}
CONTRAST = {"full_area": 100, "percent": 40}
GROUND = {"method": "opening", "radius": 50, "by": "difference"}


def grey(picture):
    """(R+G+B)/3 in integers; a grey picture is returned unchanged."""
    if picture.ndim == 2:
        return picture
    return (picture.astype(np.uint32).sum(axis=2) // 3).astype(np.uint8)


def root(v):
    return math.isqrt(v << 16)


def otsu(picture, scale=int):
    """Otsu's threshold: the least value of the upper class, in exact integers."""
    top = 1 << (8 * picture.dtype.itemsize)
    counts = [int(c) for c in np.bincount(picture.ravel(), minlength=top)]
    n, total = sum(counts), sum(scale(v) * c for v, c in enumerate(counts))
    best, best_t, n0, s0 = (0, 1), 0, 0, 0
    for t, c in enumerate(counts):
        n0 += c
        s0 += scale(t) * c
        if 0 < n0 < n:
            value = ((s0 * (n - n0) - (total - s0) * n0) ** 2, n0 * (n - n0))
            if value[0] * best[1] > best[0] * value[1]:
                best, best_t = value, t
    return best_t + 1


def by_classes(picture, classes, highest, scale):
    """The least value of the second class, or of the last one if `highest`, by multi-Otsu with sums
    S*S/N in doubles, class by class."""
    if not picture.size:
        return otsu(picture)
    counts = np.bincount(picture.ravel())
    shift = 0
    while (int(picture.max()) >> shift) - (int(picture.min()) >> shift) >= 256:
        shift += 1
    values = np.flatnonzero(counts)
    groups = np.unique(values >> shift)
    n = [sum(int(counts[v]) for v in values[values >> shift == g]) for g in groups]
    s = [sum(int(counts[v]) * scale(int(v)) for v in values[values >> shift == g]) for g in groups]
    if min(classes, len(groups)) < 3:
        return otsu(picture, scale)
    n, s = np.cumsum([0] + n).astype(float), np.cumsum([0] + s).astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        worth = (s[None] - s[:, None]) ** 2 / (n[None] - n[:, None])
    worth[np.tril_indices(len(n))] = -np.inf
    best, begins = worth[0], []
    for _ in range(min(classes, len(groups)) - 1):
        sums = best[:, None] + worth
        begins.append(sums.argmax(axis=0))
        best = sums.max(axis=0)
    position = begins[-1][-1]
    for b in begins[-2::-1] if not highest else []:
        position = b[position]
    return int(groups[position]) << shift


def share_of_contrast(values, percent):
    """A percentage of the difference of the two classes' means, rounded to the nearest integer."""
    t = otsu(values)
    above, below = values[values >= t].astype(object), values[values < t].astype(object)
    if not len(above) or not len(below):
        return 1
    difference = Fraction(int(above.sum()), len(above)) - Fraction(int(below.sum()), len(below))
    return min(max(math.floor(percent * difference / 100 + Fraction(1, 2)), 1),
               (int(np.iinfo(values.dtype).max) + 1) // 2 - 1)


def smoothed(image, sigma):
    out = (ndimage.convolve1d(image.astype(np.int64), integer_weights(sigma), 1, mode="nearest") +
           128) >> 8
    out = (ndimage.convolve1d(out, integer_weights(sigma), 0, mode="nearest") + 32768) >> 16
    return ((out + 128) >> 8).astype(image.dtype)


def mean_around(image, radius):
    """Means of the square around each pixel, clipped at the border, rounded to the nearest
    integer."""
    sums = np.pad(image.astype(np.int64), ((1, 0), (1, 0))).cumsum(axis=0).cumsum(axis=1)
    (y0, y1), (x0, x1) = ((np.maximum(np.arange(n) - radius, 0),
                           np.minimum(np.arange(n) + radius + 1, n))
                          for n in image.shape)
    total = sums[y1][:, x1] - sums[y0][:, x1] - sums[y1][:, x0] + sums[y0][:, x0]
    n = (y1 - y0)[:, None] * (x1 - x0)
    return (total + n // 2) // n


def risen(values, radius):
    """Fits a line, along the first axis, to the values within the radius of each position. Returns
    the line's value at the position times the number of values, and this number."""
    length = len(values)
    position = np.arange(length)
    lo, hi = np.maximum(position - radius, 0), np.minimum(position + radius + 1, length)
    total, moment = (np.pad((values * k).cumsum(axis=0), ((1, 0), (0, 0)))
                     for k in (1, position[:, None]))
    n, u = (hi - lo)[:, None], (2 * position - lo - hi + 1)[:, None]
    total, moment = total[hi] - total[lo], moment[hi] - moment[lo]
    twice, by = 2 * moment - (lo + hi - 1)[:, None] * total, np.maximum(n * n - 1, 1)
    return total + (3 * u * twice + by // 2) // by, n


def lines_around(image, radius):
    """The background by lines, which are fitted along the columns, and then along the rows to the
    result."""
    columns, height = risen(image.astype(np.int64), radius)
    rows, width = risen(np.ascontiguousarray(columns.T), radius)
    n = height * width.T
    return np.clip((rows.T + n // 2) // n, 0, np.iinfo(image.dtype).max)


def opened(image, radius, bright):
    """An opening by a disc (for dark cells a closing) that ignores pixels outside the picture."""
    r = np.arange(-radius, radius + 1)
    disc = r[:, None] ** 2 + r ** 2 <= radius ** 2
    top = np.iinfo(image.dtype).max
    first, second = (ndimage.grey_erosion, ndimage.grey_dilation) if bright else (
        ndimage.grey_dilation, ndimage.grey_erosion)
    out = first(image, footprint=disc, mode="constant", cval=top if bright else 0)
    return second(out, footprint=disc, mode="constant", cval=0 if bright else top).astype(np.int64)


def levelled(image, ground, middle, ratio):
    v = image.astype(np.int64)
    q = (v * middle + ground // 2) // np.maximum(ground, 1) if ratio else v - ground + middle
    return np.clip(q, 0, np.iinfo(image.dtype).max).astype(image.dtype)


def prepared(image, p):
    """The picture to which the threshold is applied, and a local threshold, or None."""
    bright, top = p["polarity"] == "bright", int(np.iinfo(image.dtype).max)
    middle = (top + 1) // 2
    if p["smooth"]:
        image = smoothed(image, p["smooth"])
    if p["background"] is not None:
        b = dict(GROUND, **p["background"])
        ratio = b["by"] == "ratio"
        if b["method"] != "opening":
            around = mean_around if b["method"] == "mean" else lines_around
            image = levelled(image, around(image, b["radius"]), middle, ratio)
        else:
            image = levelled(image, opened(image, b["radius"], bright),
                             (middle if ratio else 0) if bright else top, ratio)
    if p["threshold"] == "local":
        image = levelled(image, mean_around(image, p["window"] // 2), middle, False)
    return image, middle + p["offset"] if bright else middle - p["offset"]


def structure(connectivity):
    return np.ones((3, 3), int) if connectivity == 8 else None


def squared_distance(mask):
    """The squared distance to the nearest pixel outside the mask. What lies beyond the picture's
    border does not count as outside."""
    if mask.all():
        return np.full(mask.shape, 2 ** 32 - 1, np.int64)
    where = ndimage.distance_transform_edt(mask, return_distances=False, return_indices=True)
    index = np.indices(mask.shape)
    return ((where.astype(np.int64) - index) ** 2).sum(axis=0)


def split(mask, connectivity):
    """Splits touching regions. Pixels are visited in the order of decreasing squared distance,
    equal ones in raster order. A pixel without a higher neighbour is a maximum; each other pixel
    belongs to the basin of its highest neighbour. A saddle is where two basins meet. Saddles are
    visited in decreasing order, equal ones by the maxima's indices, and join their basins unless
    the lower maximum is high enough above the saddle (apart)."""
    d2 = squared_distance(mask)
    height, width = mask.shape
    steps = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if (dy, dx) != (0, 0)
             and (connectivity == 8 or dy == 0 or dx == 0)]
    flat = d2.ravel()
    order = sorted(np.flatnonzero(mask.ravel()).tolist(), key=lambda i: (-flat[i], i))
    rank = {i: k for k, i in enumerate(order)}
    basin, saddles = {}, {}

    def neighbours(i):
        y, x = divmod(i, width)
        for dy, dx in steps:
            if 0 <= y + dy < height and 0 <= x + dx < width and mask[y + dy, x + dx]:
                yield (y + dy) * width + x + dx
    for i in order:
        higher = [j for j in neighbours(i) if rank[j] < rank[i]]
        basin[i] = basin[min(higher, key=rank.get)] if higher else i
        for j in higher:
            if basin[j] != basin[i]:
                pair = (min(basin[i], basin[j]), max(basin[i], basin[j]))
                saddles[pair] = max(saddles.get(pair, 0), int(flat[i]))
    owner = {s: s for s in set(basin.values())}

    def find(s):
        while owner[s] != s:
            s = owner[s]
        return s
    for (a, b), d in sorted(saddles.items(), key=lambda p: (-p[1], p[0])):
        a, b = find(a), find(b)
        high, low = (a, b) if rank[a] < rank[b] else (b, a)
        if a != b and not apart(int(flat[low]), d):
            owner[low] = high
    out = np.zeros(mask.size, np.int64)
    numbers = {}
    for i in np.flatnonzero(mask.ravel()).tolist():
        out[i] = numbers.setdefault(find(basin[i]), len(numbers) + 1)
    return out.reshape(mask.shape)


def apart(maximum, d2):
    """Whether sqrt(maximum) - sqrt(d2) >= 3/4 and d2 < 9/10 maximum, in integers."""
    rise = 16 * (maximum - d2) - 9
    return rise >= 0 and rise * rise >= 576 * d2 and 10 * d2 < 9 * maximum


def by_intensity(values, mask, p):
    heights = np.where(mask, (values if p["polarity"] == "bright" else values.max() - values) + 1,
                       0)
    top = watershed_oracle.hills(heights[None], lambda maximum, saddle: maximum - saddle >= p["h"],
                                 p["connectivity"] == 8,
                                 False)[0] + 1
    values, first = np.unique(top, return_index=True)
    order = values[np.argsort(first)]
    table = np.zeros(top.max() + 1, np.int64)
    table[order[order > 0]] = np.arange(1, (order > 0).sum() + 1)
    return table[top]


def typical_area(areas, share=2):
    """The least area such that the regions that are not larger contain half (1/share) of all
    regions' pixels; None if there are no regions."""
    areas = np.sort(areas)
    return int(areas[np.argmax(share * np.cumsum(areas) >= areas.sum())]) if len(areas) else None


def diameter(area):
    return 2 * math.sqrt(area / 3.14159265358979)


def own_window(image, p):
    """The window for "auto": cells in the picture's middle are found by Otsu's threshold, then with
    windows derived from the cells' diameter, until the window no longer grows."""
    y, x = ((n - min(n, 512)) // 2 for n in image.shape)
    middle = image[y:y + 512, x:x + 512]
    alone = dict(p, min_area=1, max_area=None, exclude_border=False, min_fill=0, max_aspect=None,
                 min_contrast=None, threshold="otsu", window=3, classes=2, scale="linear")
    area = typical_area(analyse(middle, alone).area)
    r = min(int(diameter(area) + 0.5) if area else 4, min(middle.shape) // 4)
    for _ in range(6):
        if r <= 4:
            break
        area = typical_area(analyse(middle, dict(alone, threshold="local",
                                                 window=min(2 * r + 1, 511))).area)
        if area is None or diameter(area) >= 0.9 * r:
            break
        r = int(diameter(area) + 0.5)
    return 2 * min(int(1.2 * max(r, 4) + 0.5), 255) + 1


class Answer:
    """The labels, and the columns of the result's tables."""


def analyse(picture, parameters, inside=True):
    """The Answer for a picture. inside: the mask, or None."""
    inside = np.broadcast_to(np.asarray(inside) != 0, picture.shape[:2])
    p = dict(DEFAULTS, **parameters)
    image = grey(picture)
    a = Answer()
    if p["polarity"] == "auto":
        a.bright = bool(2 * (image[inside] < otsu(image[inside])).sum() > inside.sum())
        p["polarity"] = "bright" if a.bright else "dark"
    if p["window"] == "auto":
        p["window"] = a.window = own_window(image, p)
    values, local = prepared(image, p)
    bright, scale = p["polarity"] == "bright", root if p["scale"] == "sqrt" else int
    threshold = {"otsu": None, "local": local}.get(p["threshold"], p["threshold"])
    if p["threshold"] == "local" and p["offset_percent"]:
        middle, offset = ((int(np.iinfo(image.dtype).max) + 1) // 2,
                          share_of_contrast(values[inside], p["offset_percent"]))
        threshold = middle + offset if bright else middle - offset
    if threshold is None:
        threshold = by_classes(values[inside], p["classes"], bright, scale)
    mask = inside & (values >= threshold if p["polarity"] == "bright" else values < threshold)
    if p["fill_holes"]:
        # Holes are background, which has connectivity 4 if regions have 8, and 8 if they have 4.
        mask = inside & ndimage.binary_fill_holes(mask,
                                                  structure(4 if p["connectivity"] == 8 else 8))
    if p["split"] == "distance":
        labels = split(mask, p["connectivity"])
    elif p["split"] == "intensity":
        labels = by_intensity(values.astype(np.int64), mask, p)
    else:
        labels = ndimage.label(mask, structure(p["connectivity"]))[0]
    n = int(labels.max(initial=0))
    columns = by_regionprops(labels, image) if n <= 3000 else by_sums(labels, image, n)
    area, bbox = columns["area"], columns["bbox"]
    border = (bbox[:, :2] == 0).any(axis=1) | (bbox[:, 2:] == image.shape).any(axis=1)
    height, width = (bbox[:, 2:] - bbox[:, :2]).T
    is_kept = area >= p["min_fill"] * (height * width)
    if p["max_aspect"]:
        is_kept &= np.maximum(height, width) <= p["max_aspect"] * np.minimum(height, width)
    is_kept &= ~(border & p["exclude_border"])
    if p["max_area"] is not None:
        is_kept &= area <= p["max_area"]
    half, tenth = typical_area(area[is_kept]) or 1, typical_area(area[is_kept], 10) or 1
    if p["min_area"] == "auto":
        p["min_area"] = a.min_area = max(half // 25, 1 if bright else tenth // 3, 1)
    if p["min_contrast"] is not None and n:
        contrast = dict(CONTRAST, **p["min_contrast"])
        if contrast["full_area"] == "auto":
            contrast["full_area"] = max(half // 3, 1)
        is_kept &= stands_out(labels, values, threshold, bright, contrast, n)
    is_kept &= area >= p["min_area"]
    a.threshold = threshold
    a.labels = np.concatenate([[0],
                               np.where(is_kept, np.cumsum(is_kept), 0)]).astype(np.int32)[labels]
    a.count = int(is_kept.sum())
    a.border = border[is_kept]
    for name, column in columns.items():
        setattr(a, name, column[is_kept])
    return a


def stands_out(labels, values, threshold, bright, p, n):
    """Whether min_contrast keeps each region, in exact fractions: the distance of the region's mean
    from the threshold is compared with that of the mean of all large regions together."""
    index = np.arange(1, n + 1)
    area = [int(v) for v in ndimage.sum_labels(np.ones(labels.shape, np.int64), labels, index)]
    total = [int(v) for v in ndimage.sum_labels(values.astype(np.float64), labels, index)]
    sign = 1 if bright else -1
    large = [k for k in range(n) if area[k] >= p["full_area"]]
    if not large:
        return np.ones(n, bool)
    pixels = sum(area[k] for k in large)
    contrast = Fraction(sign * (sum(total[k] for k in large) - threshold * pixels), pixels)
    return np.array([area[k] >= p["full_area"] or 100 * sign * (
        Fraction(total[k], area[k]) - threshold) >= p["percent"] * contrast
                     for k in range(n)])


def by_regionprops(labels, image):
    regions = measure.regionprops(labels, intensity_image=image)
    return {"area": np.array([r.area for r in regions], np.int64),
            "bbox": np.array([r.bbox for r in regions], np.int64).reshape(-1, 4),
            "centroid": np.array([r.centroid for r in regions], np.float64).reshape(-1, 2),
            "mean": np.array([r.mean_intensity for r in regions], np.float64)}


def by_sums(labels, image, n):
    """The same as by_regionprops, faster: scikit-image takes minutes for many regions."""
    area = np.bincount(labels.ravel(), minlength=n + 1)[1:]
    y, x = np.indices(labels.shape)

    def sums(values):
        return np.bincount(labels.ravel(), values.ravel(), n + 1)[1:]
    boxes = [(s[0].start, s[1].start, s[0].stop, s[1].stop) for s in ndimage.find_objects(labels)]
    return {"area": area.astype(np.int64), "bbox": np.array(boxes, np.int64),
            "centroid": np.stack([sums(y) / area, sums(x) / area], axis=1),
            "mean": sums(image) / area}
