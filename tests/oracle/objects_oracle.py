"""The oracle of objects, from docs/dev/analyses/objects.md: by scikit-image's regionprops for the
features that it has, otherwise by NumPy in float64."""
import math

import numpy as np
from skimage import measure

DIRECTIONS = [(0, 0, 1), (0, 1, -1), (0, 1, 0), (0, 1, 1)] + [(1, dy, dx) for dy in (-1, 0, 1)
                                                              for dx in (-1, 0, 1)]
HARALICK = ["asm", "contrast", "correlation", "variance", "idm", "sum_average", "sum_variance",
            "sum_entropy", "entropy",
            "difference_variance", "difference_entropy", "imc1", "imc2"]
IBSI = HARALICK + ["joint_maximum", "joint_average", "difference_average", "inverse_difference",
                   "inverse_difference_normalised", "inverse_difference_moment_normalised",
                   "inverse_variance",
                   "autocorrelation", "cluster_tendency", "cluster_shade", "cluster_prominence"]
PERCENTILES = [5, 10, 25, 75, 90, 95]


def features(p):
    """The features of a symmetric matrix p [levels, levels] with the sum 1, by their
    definitions."""
    n = len(p)
    i, j = np.indices(p.shape) + 1
    px = p.sum(1)
    mean = (i * p).sum()
    variance = ((i - mean) ** 2 * p).sum()
    d, s = np.abs(i - j), i + j
    pd = np.array([p[d == k].sum() for k in range(n)])
    ps = np.array([p[s == k].sum() for k in range(2, 2 * n + 1)])
    k, t = np.arange(n), np.arange(2, 2 * n + 1)

    def entropy(q):
        return -(q[q > 0] * np.log2(q[q > 0])).sum()
    hxy, hx = entropy(p), entropy(px)
    product = px[:, None] * px[None, :]
    hxy1 = -(p[p > 0] * np.log2(product[p > 0])).sum()
    # HXY2 - HXY as one sum, whose terms are exactly 0 where p is the product of its marginals: the
    # difference of the two entropies would lose them in float64
    ratio = p[p > 0] / product[p > 0]
    information = max((p[p > 0] * np.log2(ratio)).sum(), 0)
    return {
        "asm": (p ** 2).sum(), "contrast": (d ** 2 * p).sum(),
        "correlation": 1 if (px > 0).sum() == 1 else ((i - mean) * (j - mean) * p).sum() / variance,
        "variance": variance, "idm": (p / (1 + d ** 2)).sum(),
        "sum_average": (t * ps).sum(), "sum_variance": ((t - (t * ps).sum()) ** 2 * ps).sum(),
        "sum_entropy": entropy(ps), "entropy": hxy,
        "difference_variance": ((k - (k * pd).sum()) ** 2 * pd).sum(),
        "difference_entropy": entropy(pd),
        "imc1": 0 if hx == 0 else (hxy - hxy1) / hx,
        "imc2": math.sqrt(-math.expm1(-2 * information)),
        "joint_maximum": p.max(), "joint_average": mean, "difference_average": (k * pd).sum(),
        "inverse_difference": (p / (1 + d)).sum(),
        "inverse_difference_normalised": (p / (1 + d / n)).sum(),
        "inverse_difference_moment_normalised": (p / (1 + (d / n) ** 2)).sum(),
        "inverse_variance": (p[d > 0] / d[d > 0] ** 2).sum(), "autocorrelation": (i * j * p).sum(),
        "cluster_tendency": ((s - 2 * mean) ** 2 * p).sum(),
        "cluster_shade": ((s - 2 * mean) ** 3 * p).sum(),
        "cluster_prominence": ((s - 2 * mean) ** 4 * p).sum()}


def matrix(levels, inside, q, step):
    """Counts of ordered pairs in direction `step`, with both voxels inside."""
    dz, dy, dx = step
    c = np.zeros((levels, levels))
    nz, ny, nx = inside.shape
    if abs(dz) >= nz or abs(dy) >= ny or abs(dx) >= nx:
        return c

    def part(a, sign):
        return a[tuple(slice(max(sign * v, 0), n + min(sign * v, 0))
                       for v, n in zip(step, a.shape))]
    both = part(inside, 1) & part(inside, -1)
    np.add.at(c, (part(q, 1)[both], part(q, -1)[both]), 1)
    return c + c.T


def texture(p, grey, inside, depth, ends, stack):
    """[distances][features] of one object, cut to its bounding box."""
    kind = p.get("range", "object")
    lo, hi = ((int(grey[inside].min()), int(grey[inside].max())) if kind == "object" else ends
              if kind == "image" else
              (0, 2 ** depth - 1) if kind == "type" else kind)
    levels = p.get("levels", 32)
    q = (np.clip(grey.astype(np.int64), lo, hi) - lo) * levels // (hi - lo + 1)
    names = p.get("texture_features", "haralick")
    names = HARALICK if names == "haralick" else IBSI if names == "ibsi" else [n for n in IBSI
                                                                               if n in names]
    rows = []
    for d in p.get("distances", [1]):
        found = [matrix(levels, inside, q, tuple(d * v for v in step))
                 for step in DIRECTIONS[:13 if stack else 4]]
        if p.get("aggregate") == "merge":
            found = [sum(found)]
        all_of = [features(c / c.sum()) for c in found if c.sum() > 0]
        rows.append([np.mean([f[n] for f in all_of]) if all_of else math.nan for n in names])
    return rows


def intensity(grey, inside, place):
    v = grey[inside].astype(np.float64)
    n, mean = len(v), v.mean()
    m2, m3, m4 = (((v - mean) ** k).mean() for k in (2, 3, 4))
    flat = v.min() == v.max()
    counts = np.unique(v, return_counts=True)[1] / n
    where = np.argwhere(inside) + place
    return {
        "object_intensity_min": v.min(), "object_intensity_max": v.max(),
        "object_intensity_mean": mean,
        "object_intensity_std": v.std(), "object_intensity_median": np.median(v),
        "object_intensity_percentile": np.percentile(v, PERCENTILES),
        "object_intensity_skewness": 0 if flat else m3 / m2 ** 1.5,
        "object_intensity_kurtosis": 0 if flat else m4 / m2 ** 2 - 3,
        "object_intensity_entropy": -(counts * np.log2(counts)).sum(),
        "object_intensity_integrated": v.sum(),
        "object_centroid_weighted": (where * v[:, None]).sum(0) / v.sum() if v.sum() > 0
        else [math.nan] * where.shape[1]}


def orientation(r):
    """skimage's orientation, but with another sign if both variances are equal, and 0 for round
    objects."""
    (a, b), (_, c) = r.inertia_tensor
    return 0.5 * math.atan2(-2 * b + 0.0, c - a)


def shape2(r, size):
    y0, x0, y1, x1 = r.bbox
    pieces = measure.label(r.image, connectivity=2).max()
    return {
        "object_area": r.area, "object_bbox": r.bbox, "object_centroid": r.centroid,
        "object_border": y0 == 0 or x0 == 0 or y1 == size[0] or x1 == size[1],
        "object_perimeter": r.perimeter,
        "object_axis_major_length": r.axis_major_length,
        "object_axis_minor_length": r.axis_minor_length,
        "object_eccentricity": r.eccentricity, "object_orientation": orientation(r),
        "object_equivalent_diameter_area": r.equivalent_diameter_area,
        "object_area_convex": r.area_convex,
        "object_solidity": r.solidity, "object_extent": r.extent,
        "object_euler_number": r.euler_number,
        "object_holes": pieces - r.euler_number, "object_feret_diameter_max": r.feret_diameter_max,
        "object_form_factor": 4 * math.pi * r.area / r.perimeter ** 2 if r.perimeter > 0
        else math.nan}


def mesh(inside, spacing):
    """Area and volume of the surface mesh; the volume by the divergence theorem."""
    vertices, faces = measure.marching_cubes(np.pad(inside, 1).astype(np.float64), 0.5)[:2]
    a, b, c = (vertices[faces[:, k]].astype(np.float64) * spacing for k in range(3))
    return (np.sqrt((np.cross(b - a, c - a) ** 2).sum(1)).sum() / 2,
            abs((a * np.cross(b, c)).sum()) / 6)


def shape3(r, size, spacing):
    lo, hi = np.array(r.bbox[:3]), np.array(r.bbox[3:])
    where = r.coords.astype(np.float64)
    covariance = np.cov((where - where.mean(0)).T * np.array(spacing)[:, None],
                        bias=True).reshape(3, 3)
    axes = np.sqrt(20 * np.clip(np.linalg.eigvalsh(covariance)[::-1], 0, None))
    area, volume = mesh(r.image, np.array(spacing))
    return {
        "object_voxels": r.area, "object_bbox": r.bbox, "object_centroid": r.centroid,
        "object_border": bool((lo == 0).any() or (hi == size).any()),
        "object_volume_um3": r.area * np.prod(spacing),
        "object_axis_length": axes, "object_surface": area, "object_mesh_volume": volume,
        "object_sphericity": (36 * math.pi * volume ** 2) ** (1 / 3) / area,
        "object_extent": r.extent,
        "object_euler_number": r.euler_number}


def analyse(it, p, index=0):
    """{name of the array: values} of the item's rows."""
    stack = it["stack"]
    grey = np.stack(it["slices"])
    if grey.ndim == 4:
        grey = grey.astype(np.uint32).sum(-1) // 3
    depth = 16 if it["slices"][0].dtype == np.uint16 else 8
    labels = np.stack(it["labels"]).astype(np.int64)
    spacing = it["spacing"] or [1, 1, 1]
    ends = (int(grey.min()), int(grey.max()))
    families = p.get("families", ["shape", "intensity", "texture"])
    rows = []
    for r in measure.regionprops(labels if stack else labels[0]):
        box = r.slice if stack else (slice(0, 1),) + r.slice
        inside = r.image if stack else r.image[None]
        row = {"object_item": index, "object_label": r.label}
        shape = shape3(r, labels.shape, spacing) if stack else shape2(r, labels.shape[1:])
        if p.get("exclude_border") and shape["object_border"]:
            continue
        if "shape" in families:
            row.update(shape)
        if "intensity" in families:
            row.update(intensity(grey[box] if stack else grey[box][0],
                                 inside if stack else inside[0],
                                 [s.start for s in box][0 if stack else 1:]))
        if "texture" in families:
            row["object_glcm"] = np.ravel(texture(p, grey[box], inside, depth, ends, stack))
        rows.append(row)
    return {name: np.array([row[name] for row in rows], np.float64)
            for name in (rows[0] if rows else [])}
