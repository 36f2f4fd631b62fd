"""The oracle of glcm: Haralick features in a sliding window, evaluated directly.

For every window the pairs are counted into a full matrix C, p = C / sum(C), and each feature is its
textbook double sum (Haralick 1973, in the form of the IBSI reference manual) in extended precision.
There are no sliding updates, no identities of symmetric matrices and no tables, so that an error of
the program in these cannot be in the oracle, too.
"""
import functools

import mpmath
import numpy as np

FEATURES = ("asm", "contrast", "correlation", "variance", "idm",
            "sum_average", "sum_variance", "sum_entropy", "entropy",
            "difference_variance", "difference_entropy", "imc1", "imc2")
WINDOW_STATISTICS = ("mean", "variance", "min", "max")
STATISTICS = ("mean", "range", "sd", "min", "max")      # in the order of the features' names

# Extended precision (64 bits of mantissa) on x86 processors.
REAL = np.longdouble
DIGITS = 50
BANDS = 512

DEFAULTS = {"levels": [16, 32, 64], "range": "type",
            "window": {"shape": "disc", "radius": 16},
            "distances": list(range(1, 26)), "directions": "all",
            "roi": {"type": "all"}, "per_offset": False, "features": "haralick", "maps": []}
HCC = {"roi": {"type": "disc", "r": 84}}


# --- from picture to levels ---------------------------------------------------

def grey(image):
    """(R+G+B)/3 in integers; a grey image is returned unchanged."""
    image = np.asarray(image)
    if image.ndim == 3:
        return (image.astype(np.int64).sum(axis=2) // 3).astype(image.dtype)
    return image


def quantise(image, levels, low, high):
    """The levels 0 .. levels-1 of an image's pixels, in exact integers."""
    image = np.asarray(image)
    values, where = np.unique(image, return_inverse=True)
    level_of_value = [min(max((int(v) - low) * levels // (high - low + 1), 0), levels - 1)
                      for v in values]
    return np.array(level_of_value, dtype=np.int64)[where].reshape(image.shape)


def limits(item, parameters):
    """(lowest, highest) value of the parameter `range`, for an item given as a list of grey
    slices."""
    range_ = parameters["range"]
    if range_ == "type":
        return 0, int(np.iinfo(item[0].dtype).max)
    if range_ == "image":
        return (min(int(s.min()) for s in item), max(int(s.max()) for s in item))
    return int(range_[0]), int(range_[1])


# --- offsets and neighbourhoods -----------------------------------------------

def offsets(distance, directions="all"):
    """[(dx, dy)] of one distance, sorted by dy, then dx, for directions "all"."""
    if directions == "four":
        d = distance
        return [(d, 0), (d, d), (0, d), (-d, d)]
    pairs = []
    for dy in range(0, distance + 2):
        for dx in range(-distance - 1, distance + 2):
            if (dy > 0 or dx > 0) and \
               (2 * distance - 1) ** 2 <= 4 * (dx * dx + dy * dy) < (2 * distance + 1) ** 2:
                pairs.append((dx, dy))
    return pairs


def disc(height, width, cx, cy, r):
    y, x = np.mgrid[0:height, 0:width]
    return (x - cx) ** 2 + (y - cy) ** 2 <= r * r


def roi_of(height, width, roi, mask=None):
    """The region of interest as a boolean picture."""
    if roi["type"] == "all":
        return np.ones((height, width), bool)
    if roi["type"] == "mask":
        return np.asarray(mask) != 0
    return disc(height, width, roi.get("cx", width // 2), roi.get("cy", height // 2), roi["r"])


def window_of(height, width, x, y, window):
    """The window around (x, y), clipped at the picture's border: x0 and y0 of its box, and a
    boolean picture of the box's pixels that are in the window."""
    r = window["radius"]
    x0, x1 = max(0, x - r), min(width, x + r + 1)
    y0, y1 = max(0, y - r), min(height, y + r + 1)
    if window["shape"] == "square":
        inside = np.ones((y1 - y0, x1 - x0), bool)
    else:
        inside = disc(y1 - y0, x1 - x0, x - x0, y - y0, r)
    return x0, y0, inside


# --- the matrix -----------------------------------------------------------------

def counts(quantised, inside, dx, dy, levels):
    """The symmetric levels x levels matrix of the pairs (p, p + (dx,dy)) with both pixels in
    `inside`; each unordered pair is counted in both orders."""
    matrix = np.zeros((levels, levels), np.int64)
    height, width = quantised.shape
    if abs(dx) >= width or dy >= height:
        return matrix
    first = (slice(0, height - dy), slice(max(0, -dx), width - max(0, dx)))
    second = (slice(dy, height), slice(max(0, dx), width - max(0, -dx)))
    both_inside = inside[first] & inside[second]
    a = quantised[first][both_inside]
    b = quantised[second][both_inside]
    np.add.at(matrix, (a, b), 1)
    np.add.at(matrix, (b, a), 1)
    return matrix


# --- thirteen numbers from a matrix ----------------------------------------------

def entropy_of(p):
    p = p[p > 0]
    return -(p * np.log2(p)).sum()


def features(matrix):
    """The 13 features of a symmetric count matrix, in extended precision.

    Rows and columns of levels that do not occur are dropped; the other levels
    keep their numbers (1 .. L)."""
    present = np.flatnonzero(matrix.sum(axis=1))
    level = present + 1
    c = matrix[np.ix_(present, present)]
    total = REAL(int(c.sum()))
    p = c.astype(REAL) / total
    px = c.sum(axis=1).astype(REAL) / total
    py = c.sum(axis=0).astype(REAL) / total
    i = level.astype(REAL)[:, None]
    j = level.astype(REAL)[None, :]
    k_sum = level[:, None] + level[None, :]
    k_difference = np.abs(level[:, None] - level[None, :])
    # Counts are far below 2^53, so the double weights of bincount are exact.
    p_sum = np.bincount(k_sum.ravel(), c.ravel()).astype(REAL) / total
    p_difference = np.bincount(k_difference.ravel(), c.ravel()).astype(REAL) / total
    k = np.arange(p_sum.size, dtype=np.int64).astype(REAL)
    kd = np.arange(p_difference.size, dtype=np.int64).astype(REAL)

    mean_x = (i[:, 0] * px).sum()
    mean_y = (j[0] * py).sum()
    variance_x = ((i[:, 0] - mean_x) ** 2 * px).sum()
    variance_y = ((j[0] - mean_y) ** 2 * py).sum()
    sum_average = (k * p_sum).sum()
    difference_average = (kd * p_difference).sum()
    hxy = entropy_of(p)
    hx = entropy_of(px)
    product = px[:, None] * py[None, :]
    log_product = np.log2(product)
    hxy1 = -(p * log_product).sum()
    hxy2 = -(product * log_product).sum()

    f = np.empty(len(FEATURES), REAL)
    f[0] = (p * p).sum()
    f[1] = ((i - j) ** 2 * p).sum()
    f[2] = REAL(1) if present.size == 1 else \
        ((i - mean_x) * (j - mean_y) * p).sum() / np.sqrt(variance_x * variance_y)
    f[3] = ((i - mean_x) ** 2 * p).sum()
    f[4] = (p / (1 + (i - j) ** 2)).sum()
    f[5] = sum_average
    f[6] = ((k - sum_average) ** 2 * p_sum).sum()
    f[7] = entropy_of(p_sum)
    f[8] = hxy
    f[9] = ((kd - difference_average) ** 2 * p_difference).sum()
    f[10] = entropy_of(p_difference)
    f[11] = REAL(0) if present.size == 1 else (hxy - hxy1) / hx
        # Near independence the difference HXY2 - HXY loses all its digits, and the square root
        # magnifies the error: there the entropies are computed with 50 digits.
    if hxy2 - hxy > 1e-6:
        f[12] = np.sqrt(max(REAL(0), 1 - np.exp(-2 * (hxy2 - hxy))))
    else:
        f[12] = imc2_precise(c)
    return f


@functools.lru_cache(maxsize=1 << 16)
def _plog2p(count, total):
    with mpmath.workdps(DIGITS):
        p = mpmath.mpf(count) / total
        return p * mpmath.log(p, 2)


def imc2_precise(c):
    total = int(c.sum())
    rows = [int(v) for v in c.sum(axis=1)]
    columns = [int(v) for v in c.sum(axis=0)]
    with mpmath.workdps(DIGITS):
        hxy = -mpmath.fsum(_plog2p(int(v), total) for v in c.ravel() if v)
        hxy2 = -mpmath.fsum(_plog2p(a * b, total * total) for a in rows for b in columns)
        gap = hxy2 - hxy
        if gap < mpmath.mpf(10) ** (10 - DIGITS):
            return REAL(0)
        return REAL(mpmath.nstr(mpmath.sqrt(1 - mpmath.exp(-2 * gap)), 25))


def features_precise(matrix):
    """The same 13 features with 50 digits, by plain loops, to check features() itself."""
    size = matrix.shape[0]
    total = int(matrix.sum())

    def entropy(ps):
        return -mpmath.fsum(v * mpmath.log(v, 2) for v in ps if v)

    with mpmath.workdps(DIGITS):
        cells = [(a + 1, b + 1, mpmath.mpf(int(matrix[a, b])) / total)
                 for a in range(size) for b in range(size) if matrix[a, b]]
        px, py, ps, pd = {}, {}, {}, {}
        for a, b, v in cells:
            for table, key in ((px, a), (py, b), (ps, a + b), (pd, abs(a - b))):
                table[key] = table.get(key, mpmath.mpf(0)) + v
        mx = mpmath.fsum(a * v for a, v in px.items())
        my = mpmath.fsum(b * v for b, v in py.items())
        vx = mpmath.fsum((a - mx) ** 2 * v for a, v in px.items())
        vy = mpmath.fsum((b - my) ** 2 * v for b, v in py.items())
        sa = mpmath.fsum(s * v for s, v in ps.items())
        da = mpmath.fsum(s * v for s, v in pd.items())
        hxy = entropy(v for _, _, v in cells)
        hx = entropy(px.values())
        hxy1 = -mpmath.fsum(v * mpmath.log(px[a] * py[b], 2) for a, b, v in cells)
        hxy2 = -mpmath.fsum(u * v * mpmath.log(u * v, 2)
                            for u in px.values() for v in py.values())
        gap = hxy2 - hxy
        if abs(gap) < mpmath.mpf(10) ** (10 - DIGITS):
            gap = mpmath.mpf(0)
        one = len(px) == 1
        return [mpmath.fsum(v * v for _, _, v in cells),
                mpmath.fsum((a - b) ** 2 * v for a, b, v in cells),
                mpmath.mpf(1) if one else
                (mpmath.fsum(a * b * v for a, b, v in cells) - mx * my) / mpmath.sqrt(vx * vy),
                vx,
                mpmath.fsum(v / (1 + (a - b) ** 2) for a, b, v in cells),
                sa,
                mpmath.fsum((s - sa) ** 2 * v for s, v in ps.items()),
                entropy(ps.values()),
                hxy,
                mpmath.fsum((s - da) ** 2 * v for s, v in pd.items()),
                entropy(pd.values()),
                mpmath.mpf(0) if one else (hxy - hxy1) / hx,
                mpmath.sqrt(max(mpmath.mpf(0), 1 - mpmath.exp(-2 * gap)))]


# --- an item ----------------------------------------------------------------------

class Answer:
    """The results of one item.

    features: {name: value}; names: the names in order; offsets: {distance: [(dx, dy), ...]};
    per_offset: {(levels, dx, dy): array [13, 4], NaN if there is no window}; windows: {(levels, dx,
    dy): number of windows}; bands: array [BANDS, 2], the sum of all features over the windows of
    each band of rows or columns, and the sum of max(1, |feature|); maps: {(feature, levels, dx,
    dy): array [slices, h, w]}; roi: array [slices, h, w]."""

    def __init__(self):
        self.features = {}
        self.names = []
        self.offsets = {}
        self.per_offset = {}
        self.windows = {}
        self.bands = np.zeros((BANDS, 2), REAL)
        self.maps = {}
        self.roi = None


def complete(parameters):
    full = dict(DEFAULTS)
    with_defaults = dict(parameters)
    if with_defaults.pop("preset", None) == "hcc":
        full.update(HCC)
    full.update(with_defaults)
    if full["window"].get("shape") != "roi":
        full["window"] = dict(DEFAULTS["window"], **full["window"])
    return full


def names(parameters):
    """The names of all features, in order."""
    p = complete(parameters)
    return ["glcm_L%d_d%02d_%s_%s" % (levels, d, f, s) for levels in p["levels"]
            for d in p["distances"] for f in FEATURES for s in STATISTICS]


def analyse(slices, parameters, masks=None):
    """The Answer for one item. slices: one picture, or the slices of a stack, which are evaluated
    one by one; their windows are pooled."""
    parameters = complete(parameters)
    slices = [grey(s) for s in slices]
    height, width = slices[0].shape
    window = parameters["window"]
    answer = Answer()
    answer.names = names(parameters)
    answer.roi = np.array([roi_of(height, width, parameters["roi"], masks[z] if masks else None)
                           for z in range(len(slices))])
    answer.offsets = {d: offsets(d, parameters["directions"]) for d in parameters["distances"]}
    expected = {(m["feature"], m["levels"]) + tuple(m["offset"]) for m in parameters["maps"]}
    every = [o for d in parameters["distances"] for o in answer.offsets[d]]
    low, high = limits(slices, parameters)
    if window["shape"] != "roi":
        along_columns = {o: slides_along_columns(window, *o) for o in every}
        box = [(0, height), (0, width)]
        if parameters["roi"]["type"] == "disc":
            box = [(int(k.min()), int(k.max() - k.min() + 1)) for k in np.nonzero(answer.roi[0])]

    for levels in parameters["levels"]:
        quantised = [quantise(s, levels, low, high) for s in slices]
        rows = {o: [] for o in every}
        for key in expected:
            if key[1] == levels:
                answer.maps[key] = np.full((len(slices), height, width), np.nan)
        for z, q in enumerate(quantised):
            for where, part, inside in _windows(q, answer.roi[z], window):
                for dx, dy in every:
                    matrix = counts(part, inside, dx, dy, levels)
                    if not matrix.any():
                        continue
                    f = features(matrix)
                    rows[dx, dy].append(f)
                    if window["shape"] != "roi":
                        lo, n = box[int(along_columns[dx, dy])]
                        position = (where[int(along_columns[dx, dy])] - lo) * BANDS // n
                        answer.bands[position] += f.sum(), np.maximum(1, np.abs(f)).sum()
                    for key, picture in answer.maps.items():
                        if key[1:] == (levels, dx, dy):
                            picture[(z,) + where] = f[FEATURES.index(key[0])]
        for dx, dy in every:
            answer.windows[levels, dx, dy] = len(rows[dx, dy])
            answer.per_offset[levels, dx, dy] = statistics(rows[dx, dy])
        for d in parameters["distances"]:
            _aggregate(answer, levels, d)
    return answer


def slides_along_columns(window, dx, dy):
    r = window["radius"]
    _, _, inside = window_of(2 * r + 1, 2 * r + 1, r, r, window)
    ones = np.zeros((2 * r + 1 + dy, 2 * r + 1 + 2 * abs(dx)), bool)
    ones[:2 * r + 1, abs(dx):abs(dx) + 2 * r + 1] = inside
    pairs = ones & np.roll(ones, (-dy, -dx), (0, 1))
    return pairs.any(axis=0).sum() < pairs.any(axis=1).sum()


def _windows(quantised, roi, window):
    height, width = quantised.shape
    if window["shape"] == "roi":
        if roi.any():
            yield (slice(None), slice(None)), quantised, roi
        return
    for y, x in zip(*np.nonzero(roi)):
        x0, y0, inside = window_of(height, width, int(x), int(y), window)
        yield ((int(y), int(x)), quantised[y0:y0 + inside.shape[0], x0:x0 + inside.shape[1]],
               inside)


def statistics(rows):
    """Array [13, 4]: mean, population variance, min and max of the features over the windows."""
    if not rows:
        return np.full((len(FEATURES), 4), np.nan, REAL)
    f = np.array(rows, REAL)
    mean = f.mean(axis=0)
    return np.stack([mean, ((f - mean) ** 2).mean(axis=0), f.min(axis=0), f.max(axis=0)], axis=1)


def _aggregate(answer, levels, distance):
    table = [answer.per_offset[levels, dx, dy] for dx, dy in answer.offsets[distance]
             if answer.windows[levels, dx, dy]]
    for index, feature in enumerate(FEATURES):
        if table:
            t = np.array([s[index] for s in table], REAL)
            values = (t[:, 0].mean(), t[:, 0].max() - t[:, 0].min(), np.sqrt(t[:, 1].mean()),
                      t[:, 2].min(), t[:, 3].max())
        else:
            values = (np.nan,) * len(STATISTICS)
        for statistic, value in zip(STATISTICS, values):
            name = "glcm_L%d_d%02d_%s_%s" % (levels, distance, feature, statistic)
            answer.features[name] = value
