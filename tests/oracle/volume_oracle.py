"""The oracle of volume: scipy.ndimage.label on the complement of the membrane, padded by a layer of
outside; the repair in double precision."""
import math

import numpy as np
from scipy import ndimage

from oracle import watershed_oracle
from oracle.cellcount_oracle import otsu
from oracle.gauss import gaussian, integer_weights

DEFAULTS = {"method": "threshold", "membrane": "otsu", "smooth": 0, "h": 1, "connectivity": 6,
            "fill": False,
            "mode": "3d", "repair": None, "min_voxels": 1, "max_voxels": None,
            "exclude_border": False,
            "labels": False}
# Neighbours within a slice, for scipy.ndimage.label.
IN_SLICES = np.zeros((3, 3, 3), int)
IN_SLICES[1] = [[0, 1, 0], [1, 1, 1], [0, 1, 0]]


def blurred(membrane, repair, mode):
    """The membrane as 0 and 255, blurred in double precision; 0 beyond the border."""
    out = np.where(membrane, 255.0, 0.0)
    for axis in (2, 1, 0) if mode == "3d" else (2, 1):
        out = ndimage.convolve1d(out, gaussian(repair["sigma"]), axis, mode="constant")
    return out


def smoothed(stack, sigma, mode):
    """Smoothed grey values, in units of 2^-8."""
    out = (ndimage.convolve1d(stack.astype(np.int64), integer_weights(sigma), 2, mode="nearest") +
           128) >> 8
    for axis in (1, 0) if mode == "3d" else (1,):
        out = (ndimage.convolve1d(out, integer_weights(sigma), axis, mode="nearest") + 32768) >> 16
    return out


def blurred_fixed(membrane, repair, mode):
    """The blurred membrane in units of 2^-15, by the integers of docs/dev/analyses/volume.md."""
    weights = integer_weights(repair["sigma"])
    out = (ndimage.convolve1d(membrane.astype(np.int64), weights, 2, mode="constant") + 1) >> 1
    for axis in (1, 0) if mode == "3d" else (1,):
        out = (ndimage.convolve1d(out, weights, axis, mode="constant") + 32768) >> 16
    return out


def in_order(labels):
    """Labels renumbered from 1 in raster order of their first voxels; values below 1 become 0."""
    values, first = np.unique(labels, return_index=True)
    order = values[np.argsort(first)]
    order = order[order > 0]
    table = np.zeros(max(labels.max(), 0) + 1, np.int32)
    table[order] = np.arange(1, len(order) + 1)
    return table[np.maximum(labels, 0)]


def interiors(membrane, mode):
    """(labels of the interiors, from 1 in raster order; boolean array of the outside)."""
    slices = mode == "slices"
    padded = np.pad(~membrane, [(0, 0) if slices else (1, 1), (1, 1), (1, 1)], constant_values=True)
    found, _ = ndimage.label(padded, IN_SLICES if slices else None)
    crop = found[:, 1:-1, 1:-1] if slices else found[1:-1, 1:-1, 1:-1]
    outside = np.isin(crop, np.unique(found[:, 0, 0])) & ~membrane
    inside = np.where(outside, 0, crop)
    return in_order(inside), outside


def bias(labels, outside, membrane, before, reach, mode):
    """The number of voxels that the repair took from interiors: voxels that it added to the
    membrane, and whose nearest voxels along all axes, except for added ones, belong to cells."""
    added = membrane & ~before
    n_taken = 0
    for position in np.argwhere(added):
        nearest, kinds = reach + 1, []
        for axis in range(0 if mode == "3d" else 1, 3):
            for sign in (-1, 1):
                p = position.copy()
                for steps in range(1, nearest + 1):
                    p[axis] += sign
                    if steps > reach or not 0 <= p[axis] < added.shape[axis] or before[tuple(p)]:
                        break
                    if not membrane[tuple(p)]:
                        if steps < nearest:
                            nearest, kinds = steps, []
                        kinds.append(labels[tuple(p)] > 0)
                        break
        n_taken += bool(kinds) and all(kinds)
    return n_taken


def basins(stack, p, membrane):
    """The labels of the watershed."""
    height = (1 << 24) - smoothed(stack, p["smooth"], p["mode"])
    least = int(p["h"] * 256 + 0.5)
    top = watershed_oracle.hills(height, lambda maximum, saddle: maximum - saddle >= least,
                                 p["connectivity"] == 26,
                                 p["mode"] == "3d") + 1
    return in_order(top if p["fill"] else np.where(membrane, 0, top))


class Answer:
    """The result of one stack."""


def analyse(stack, parameters, spacing=(1.0, 1.0, 1.0), with_bias=True):
    """The Answer for a stack [z,y,x]. answer.unsure: how many voxels differ by a tenth of a grey
    level or more between the fixed-point blur and the exact one."""
    p = dict(DEFAULTS, **parameters)
    a = Answer()
    a.threshold = otsu(stack) if p["membrane"] == "otsu" else p["membrane"]
    a.otsu = p["membrane"] == "otsu"
    before = stack >= a.threshold
    if p["smooth"] and p["method"] == "threshold":
        before = smoothed(stack, p["smooth"], p["mode"]) >= a.threshold << 8
    membrane = before
    a.unsure = 0
    if p["repair"]:
        fixed = blurred_fixed(before, p["repair"], p["mode"])
        membrane = before | (fixed * 255 >= p["repair"]["threshold"] << 15)
        a.unsure = int((np.abs(fixed * (255 / 32768) - blurred(before, p["repair"], p["mode"])) >
                        0.1).sum())
    if p["method"] == "watershed":
        labels, outside = basins(stack, p, before), np.zeros(stack.shape, bool)
        membrane = before & (not p["fill"])
    else:
        labels, outside = interiors(membrane, p["mode"])
    a.added = int((membrane & ~before).sum())
    a.bias = bias(labels, outside, membrane, before, math.ceil(3 * p["repair"]["sigma"]),
                  p["mode"]) \
        if p["repair"] and with_bias else 0
    n = labels.max()
    sizes = np.bincount(labels.ravel(), minlength=n + 1)[1:]
    boxes = np.array([[s.start for s in b] + [s.stop for s in b]
                      for b in ndimage.find_objects(labels)],
                     np.int64).reshape(-1, 6)
    border = (boxes[:, :3] == 0).any(axis=1) | (boxes[:, 3:] == stack.shape).any(axis=1)
    is_kept = (sizes >= p["min_voxels"]) & (sizes <= (p["max_voxels"] or 2 ** 62)) & ~(
        border & p["exclude_border"])
    table = np.zeros(n + 1, np.int32)
    table[1:][is_kept] = np.arange(1, is_kept.sum() + 1)
    a.labels = table[labels]
    a.voxels, a.bbox, a.border = sizes[is_kept].astype(np.int64), boxes[is_kept], border[is_kept]
    sums = [np.bincount(a.labels.ravel(), weights=g.ravel(), minlength=is_kept.sum() + 1)[1:]
            for g in np.indices(stack.shape)]
    a.centroid = (np.stack(sums, axis=1) / a.voxels[:, None]).reshape(-1, 3)
    a.membrane, a.outside, a.inside = int(membrane.sum()), int(outside.sum()), int(a.voxels.sum())
    a.left_out = stack.size - a.membrane - a.outside - a.inside
    a.unit = spacing[0] * spacing[1] * spacing[2]
    return a
