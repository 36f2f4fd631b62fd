"""The oracle of levelset, in float64 with NumPy, from the definitions, with padded arrays. phi is
negative inside; arrays are [z, y, x], and a picture has one slice."""
import math

import numpy as np
import skimage.filters
from scipy.ndimage import distance_transform_edt

EPS = 2.0 ** -23
BLOCK = (4, 8, 8)            # z, y, x
REFLAG = 4


def shifted(a, axis, by, fill):
    """For each voxel the value of `a` at the voxel `by` further along the axis, or of the array
    `fill` if that is outside."""
    out = np.roll(a, -by, axis)
    border = [slice(None)] * a.ndim
    border[axis] = slice(-by, None) if by > 0 else slice(None, -by)
    out[tuple(border)] = fill[tuple(border)]
    return out


def one_sided(phi, axis):
    """(forward, backward) differences, 0 across the border."""
    return shifted(phi, axis, 1, phi) - phi, phi - shifted(phi, axis, -1, phi)


def central(phi, axis):
    """Central differences, 0 on the border of their axis."""
    if phi.shape[axis] < 3:
        return np.zeros_like(phi)
    d = (shifted(phi, axis, 1, phi) - shifted(phi, axis, -1, phi)) / 2
    for end in (0, -1):
        border = [slice(None)] * phi.ndim
        border[axis] = end
        d[tuple(border)] = 0
    return d


def curvature(phi):
    zero = np.zeros_like(phi)
    c = [central(phi, axis) for axis in range(3)]
    total = zero
    for axis in range(3):
        up, low = one_sided(phi, axis)
        other_axes = [c[k] for k in range(3) if k != axis]
        parts = []
        for d, by in ((up, 1), (low, -1)):
            cross = sum(((o + shifted(o, axis, by, zero)) / 2) ** 2 for o in other_axes)
            parts.append(d / np.sqrt(EPS + d * d + cross))
        total = total + parts[0] - parts[1]
    return total / 2


def gradient(phi, speed):
    high, low = 0, 0
    for axis in range(3):
        up, down = one_sided(phi, axis)
        high = high + np.maximum(up, 0) ** 2 + np.maximum(-down, 0) ** 2
        low = low + np.minimum(up, 0) ** 2 + np.minimum(-down, 0) ** 2
    return np.sqrt(np.where(speed > 0, high, low))


def signed_distance(inside):
    if inside.all() or not inside.any():
        return None
    out, inn = distance_transform_edt(~inside), distance_transform_edt(inside)
    return np.where(inside, -(inn - 0.5), out - 0.5)


def smooth(image, sigma):
    """The fixed-point Gaussian filter, in Python's integers."""
    grey = image.astype(np.int64) * 256
    if sigma == 0:
        return grey / 256
    radius = math.ceil(3 * sigma)
    w = [math.exp(-k * k / (2 * sigma * sigma)) for k in range(radius + 1)]
    total = w[0] + 2 * sum(w[1:])
    q = [int(v / total * 65536 + 0.5) for v in w]
    q[0] = 65536 - 2 * sum(q[1:])
    for axis in (2, 1, 0) if image.shape[0] > 1 else (2, 1):
        n = image.shape[axis]
        out = np.zeros_like(grey)
        for k in range(-radius, radius + 1):
            out += q[abs(k)] * np.take(grey, np.clip(np.arange(n) + k, 0, n - 1), axis)
        grey = (out + 32768) >> 16
    return grey / 256


def active(phi, band):
    """The voxels of the blocks that are updated."""
    near = np.abs(phi) < band
    pad = [(0, -n % b) for n, b in zip(phi.shape, BLOCK)]
    padded = np.pad(near, pad)
    count = [n // b for n, b in zip(padded.shape, BLOCK)]
    blocks = padded.reshape(count[0], BLOCK[0], count[1], BLOCK[1], count[2], BLOCK[2])
    on = blocks.any(axis=(1, 3, 5))
    expected = on.copy()
    # A neighbouring block is updated, too, if a voxel of the layer that touches it is near. Layers
    # in the padding have no voxels and no block behind them.
    for axis in range(3):
        upper = np.take(blocks, -1, 2 * axis + 1)
        lower = np.take(blocks, 0, 2 * axis + 1)
        for layer, by in ((upper, 1), (lower, -1)):
            others = tuple(2 * k + 1 - (1 if k > axis else 0) for k in range(3) if k != axis)
            face = layer.any(axis=others)
            moved = np.roll(face, by, axis)
            end = [slice(None)] * 3
            end[axis] = 0 if by > 0 else -1
            moved[tuple(end)] = False
            expected |= moved
    full = np.repeat(np.repeat(np.repeat(expected, BLOCK[0], 0), BLOCK[1], 1), BLOCK[2], 2)
    return full[:phi.shape[0], :phi.shape[1], :phi.shape[2]]


def otsu(image):
    """The largest grey value of the lower class."""
    return int(skimage.filters.threshold_otsu(image))


def otsu_side(image, p):
    return (image > otsu(image)) == (p.get("polarity", "bright") == "bright")


def force(image, p):
    grey = smooth(image, p.get("smooth", 0))
    alpha = p.get("alpha", 0.003)
    if p["target"] == "otsu":
        inside = otsu_side(image, p)
        mean, other = image[inside].mean(dtype=np.float64), otsu(image) + 0.5
        half = abs(mean - other)
        beyond = np.maximum(grey - mean if p.get("polarity") == "dark" else mean - grey, 0)
        data = -alpha * p["epsilon"] / half * (half - beyond)
    else:
        data = -alpha * (p["epsilon"] - np.abs(grey - p["target"]))
    stop = 1.0
    if p.get("edge_stop", 0) > 0:
        slope = sum(central(grey, axis) ** 2 for axis in range(3))
        stop = 1 / (1 + p["edge_stop"] * slope)
    return data, stop, alpha


def bound(shape, alpha):
    """The bound of dt with "cfl": 0.9 / (d sqrt(2d) (1 - alpha)), for d axes longer than a
    voxel."""
    d = sum(n > 1 for n in shape)
    below = d * math.sqrt(2 * d) * (1 - alpha)
    return 0.9 / below if below > 0 else math.inf


def evolve(image, inside, p, watch=None, rounded=False):
    """phi after all iterations. watch(iteration, phi) is called after each. rounded: phi is rounded
    to single precision after each iteration, to see where that matters."""
    data, stop, alpha = force(image, p)
    band, every, stop_after = p.get("band", 0), p.get("reinit_every", 50), p.get("stop_after", 0)
    phi = signed_distance(inside)
    mask = active(phi, band) if band else None
    last, i = 0, 0
    while i < p.get("iterations", 1000) and not (stop_after and i - last >= stop_after):
        i += 1
        speed = (data + (1 - alpha) * curvature(phi)) * stop
        motion = speed * gradient(phi, speed)
        if band:
            motion = np.where(mask, motion, 0)
        most = np.abs(motion).max()
        dt = p.get("dt", "cfl")
        if dt == "cfl":
            dt = min(0.5 / most, bound(image.shape, alpha)) if most > 1e-30 else 0
        before = phi < 0
        phi = phi + dt * motion
        if rounded:
            phi = phi.astype(np.float32).astype(np.float64)
        if ((phi < 0) != before).any():
            last = i
        if band and i % REFLAG == 0:
            mask = active(phi, band)
        if watch is not None:
            watch(i, phi)
        if stop_after and i - last >= stop_after:
            break
        if every and i % every == 0:
            again = signed_distance(phi < 0)
            phi = phi if again is None else again
            if band:
                mask = active(phi, band)
    return phi, i, bool(stop_after and i - last >= stop_after)


def start(shape, init, mask=None):
    z, y, x = np.ogrid[:shape[0], :shape[1], :shape[2]]
    if init["type"] == "mask":
        return np.asarray(mask) != 0
    if init["type"] == "box":
        return ((x >= init["x0"]) & (x < init["x1"]) & (y >= init["y0"]) & (y < init["y1"]) &
                (z >= init.get("z0", 0)) & (z < init.get("z1", 1)))
    return ((x - init["cx"]) ** 2 + (y - init["cy"]) ** 2 +
            (z - init.get("cz", 0)) ** 2 <= init["r"] ** 2)
