"""Tests `texcell-validate check` with forgeries by chance: UNITS (50) random work units are
computed with random parameters, and their results are forged in each way that saves most of the
work and suits any picture: a part of the rows, another picture's result, that of a coarser picture
or of cheaper parameters, copies of what was computed. A unit is a picture, a stack, or several of
these, of which some are empty, dense or noisy. Of several, all are forged, or some that take half
of the work. A forgery counts if items with a tenth of the work are wrong, each by over a tenth; of
glcm's bands and objects' features by over a half, as the check looks at few of them.

If items with a share s of the work are wrong, at most 1 - s of the checks may accept, as they look
at one item drawn in proportion to the work, and one in 500 more; of voting's one in 100: some of
few points can be left out; of glcm's as well: in even pictures many windows are the same. FIRST (0)
is the first unit's number; EACH=1 prints every forgery that was accepted; ANALYSIS is the only
one."""
import os

import numpy as np
import scipy.ndimage

import forge
import tap
from forgers import bind, keep_rows, make_of, masks_of, path, relabel, table_of
from oracle import workunit

SEEDS = 4
# Depth and side of a stack, and the side of a picture: of units that take about a second.
SIZES = {"cellcount": (1, 1, 1500), "voting": (20, 120, 700), "objects": (24, 200, 900),
         "glcm": (3, 70, 140), "levelset": (24, 70, 180), "volume": (32, 160, 0)}
# Which part of an item must be wrong: of some bands and objects, each is looked at alone.
LEAST = dict.fromkeys(SIZES, 0.1) | {"glcm": 0.5, "objects": 0.5}
TABLES = ("region_", "point", "object_", "cell_")


def draw_scene(rng, deep):
    """What the pictures of a unit have in common: spots of one shape, alike, of different sizes or
    of different contrast; anywhere, most of them in the upper part, or in pairs; in even or uneven
    light; with bars, squares, specks or none of these."""
    return {"radius": float(np.exp(rng.uniform(1.1, 2 if deep else 2.6))),
            "contrast": int(rng.choice([25, 45, 90])), "ground": rng.choice([0, 0, 30]),
            "number": np.exp(rng.uniform(1.4, 8.3)), "noise": rng.choice([0, 2, 4, 10, 20]),
            "shape": rng.choice(["disc", "soft", "rod", "ring"]),
            "places": rng.choice(["any", "top", "pairs"]), "sizes": rng.choice([0, 0.4]),
            "contrasts": rng.choice([0, 0, 0.3]), "dark": rng.random() < 0.25,
            "beside": rng.choice(["", "", "bar", "squares", "specks"])}


def draw_stack(rng, scene, kind, depth, side, step):
    """A stack of one slice or more, which are `step` pixels apart. kind: an "empty" one has no
    spots, a "dense" one many, a "noisy" one more noise than others."""
    z, y, x = np.mgrid[0:depth, 0:side, 0:side].astype(np.float32)
    z *= step
    ground, radius = 60 + scene["ground"] * x / side, scene["radius"]
    most = 0.07 * side ** 2 / radius ** 2 * (1 if depth == 1 else depth * step / radius / 2)
    n = 0 if kind == "empty" else int(most if kind == "dense" else min(scene["number"], most))
    centres = rng.uniform(0, 1, (n, 3)) * [depth * step if depth > 1 else 0, side, side]
    if scene["places"] == "top":
        centres[::2, 1] *= 0.15
    if scene["places"] == "pairs":
        centres[1:n // 8:2] = centres[:n // 8 // 2 * 2:2][:len(centres[1:n // 8:2])]
        centres[1:n // 8:2, 1:] += 1.6 * radius
    cells = np.zeros_like(ground)
    for centre in centres:
        r = radius * np.exp(rng.normal(0, 1) * scene["sizes"])
        angle, w = rng.uniform(0, np.pi), int(3 * r) + 2
        box = tuple(slice(max(int((c - w) / s), 0), max(int((c + w) / s) + 1, 0))
                    for c, s in zip(centre, (step, 1, 1)))
        t, v, u = (grid[box] - c for grid, c in zip((z, y, x), centre))
        if scene["shape"] == "rod":
            v, u = (v * np.cos(angle) + u * np.sin(angle)) / 2, u * np.cos(angle) - v * np.sin(
                angle)
        d = (t * t + v * v + u * u) / (r * r)
        value = {"soft": np.exp(-d), "ring": (d < 1) & (d > 0.3)}.get(scene["shape"], d < 1)
        cells[box] = np.maximum(cells[box], value * scene["contrast"] *
                                max(0.2, rng.normal(1, scene["contrasts"])))
    picture = ground + cells
    if scene["beside"] == "bar":
        picture[..., :side // 12] += 140
    if scene["beside"] == "squares":
        for cy, cx, w in rng.uniform(0, side, (10, 3)).astype(int) // [1, 1, 12]:
            picture[:, cy:cy + w, cx:cx + w] += 100
    if scene["beside"] == "specks":
        picture[rng.random(picture.shape) < 0.01] += scene["contrast"]
    noise = scene["noise"] + {"noisy": 15, "empty": 2}.get(kind, 0)
    picture += rng.normal(0, 1, picture.shape) * noise
    picture = picture.clip(0, 255).round().astype(np.uint8)
    return 255 - picture if scene["dark"] else picture


def draw_items(analysis, rng):
    """(scene, items) of a random unit, without masks and labels."""
    depth, small, large = SIZES[analysis]
    deep = bool(depth > 1 and (large == 0 or rng.random() < 0.4))
    scene, n, items = draw_scene(rng, deep), rng.choice([1, 1, 3, 6]), []
    spacing = [[1.0, 1.0, 1.0], [2.0, 1.0, 1.0], [1.5, 1.0, 1.0]][rng.integers(3)]
    for i in range(n):
        kind = ["any", "dense", "empty", "noisy", "any", "any"][i if n > 1 else 0]
        side = (small if deep else large) / n ** 0.25 * (rng.uniform(0.6, 1.2) if n > 1 else 1)
        step = spacing[0] if deep else 1
        slices = draw_stack(rng, scene, kind, depth if deep else 1, int(side), step)
        items.append(workunit.item("i%d" % i, list(slices), stack=deep,
                                   spacing=spacing if deep else None))
    return scene, items


def some(rng, **choices):
    """One value of each choice; a value of None leaves the parameter out."""
    drawn = {key: values[rng.integers(len(values))] for key, values in choices.items()}
    return {key: value for key, value in drawn.items() if value is not None}


def parameters_of_cellcount(rng, radius, contrast, polarity):
    area = int(3 * radius ** 2)
    p = some(rng, min_area=[1, 20, "auto"], smooth=[None, 0.5, 1, 2], fill_holes=[None, True],
             split=[None, None, "distance", "intensity"], exclude_border=[None, None, True],
             threshold=["otsu", "local", 60 + contrast // 2, contrast // 2], h=[None, 2, 20],
             polarity=[polarity, polarity, "auto"], connectivity=[None, None, 4],
             max_area=[None, None, None, 4 * area], min_fill=[None, None, None, 0.6],
             max_aspect=[None, None, None, 1.7], labels=[None, None, True],
             min_contrast=[None, None, {"full_area": max(area // 3, 1)}, {"full_area": "auto"}])
    if polarity == "dark" and p["threshold"] not in ("otsu", "local"):
        p["threshold"] = 195 - contrast // 2
    if p["threshold"] == "otsu":
        p.update(some(rng, classes=[None, None, 3, 4], scale=[None, None, "sqrt"]))
    if p["threshold"] == "local":
        p.update(some(rng, window=[51, 113, "auto"], offset=[contrast // 4],
                      offset_percent=[None, 20]))
    elif p["threshold"] == contrast // 2:
        p["background"] = some(rng, method=["opening", "mean", "lines"], radius=[25, 50],
                               by=["difference"])
    return p


def parameters_of_levelset(rng, items, radius, contrast, polarity):
    """Also adds the masks that a start may need."""
    side, deep = min(item["slices"][0].shape[0] for item in items), items[0]["stack"]
    depth, half = len(items[0]["slices"]), side // int(rng.choice([4, 8]))
    ball = {"type": "ball", "cx": side // 2, "cy": side // 2, "r": half}
    box = {"type": "box", "x0": half, "x1": side - half, "y0": half, "y1": side - half}
    if deep:
        ball["cz"], box["z0"], box["z1"] = depth // 2, depth // 4, depth - depth // 4
    p = some(rng, target=[60 + contrast if polarity == "bright" else 195 - contrast, "otsu"],
             epsilon=[contrast * 2 // 5, contrast // 2], alpha=[0.01, 0.03, None],
             iterations=[200, 400], smooth=[0, 1], band=[0, 0, 6], dt=[None, None, 0.02],
             reinit_every=[None, 10, 0], edge_stop=[None, None, 0.001],
             stop_after=[None, None, 5, 40], init=[ball, box, {"type": "mask"}])
    if p["target"] == "otsu":
        p["polarity"] = polarity
    if p["init"]["type"] == "mask":
        add_masks(rng, items, radius)
    return p


def add_masks(rng, items, radius):
    """Adds masks: smooth regions, or small ones."""
    sigma, share = rng.choice([radius, 20.0]), rng.choice([0.1, 0.5])
    for item in items:
        field = scipy.ndimage.gaussian_filter(rng.normal(0, 1, np.shape(item["slices"])),
                                              [0, sigma, sigma])
        item["masks"] = list(field > np.quantile(field, 1 - share))


def random_parameters(analysis, rng, scene, items):
    """(parameters, names of those that a forger may leave out). Also adds masks and labels."""
    radius, contrast = scene["radius"], scene["contrast"]
    polarity = "dark" if scene["dark"] else "bright"
    if analysis == "cellcount":
        if rng.random() < 0.2:
            add_masks(rng, items, radius)
        return parameters_of_cellcount(rng, radius, contrast, polarity), (
            "smooth", "fill_holes", "split", "background", "min_contrast")
    if analysis == "voting":
        deep = items[0]["stack"]
        p = some(rng, radius=[round(max(radius, 3), 1), round(1.3 * radius + 1, 1)],
                 own_radius=[None] if deep else [None, None, True], cone=[None, 90, 22.5],
                 weight=["gradient", "root"], sigma=[1, 2, 3], refine=[None, False],
                 floor=[None, 0, 5], foreground=[None, None, "otsu"],
                 threshold=[None, None, None, 20000], polarity=[polarity, polarity, "auto"])
        if "foreground" in p:
            p.update(some(rng, classes=[None, 3]))
        return p, ("own_radius",)
    if analysis == "objects":
        for item in items:
            item["labels"] = labels_of(item["slices"], scene)
        return some(rng, levels=[None, 16, 256], distances=[None, [1, 3], [5]],
                    texture_features=[None, "ibsi", ["contrast", "correlation"]],
                    range=[None, "image", "type", [60, 60 + contrast]], aggregate=[None, "merge"],
                    exclude_border=[None, None, True],
                    families=[None, None, None, ["shape"], ["intensity"], ["shape", "texture"],
                              ["texture"]]), ()
    if analysis == "glcm":
        roi = [None, None, {"type": "disc", "r": 40}, {"type": "mask"}][rng.integers(4)]
        if roi == {"type": "mask"}:
            add_masks(rng, items, radius)
        p = some(rng, levels=[[16, 64], [32], [100]], distances=[[1], [1, 3], [2, 1]], roi=[roi],
                 features=["ibsi", "haralick", ["contrast", "idm"]], directions=["all", "four"],
                 range=[None, "image", [60, 60 + contrast]], per_offset=[None, None, True],
                 window=[{"shape": "disc", "radius": 4}, {"shape": "square", "radius": 5},
                         {"shape": "disc", "radius": 7}])
        if 1 in p["distances"] and rng.random() < 0.3:
            p["maps"] = [{"feature": "contrast", "levels": p["levels"][0], "offset": [1, 0]}]
        return p, ("per_offset",)
    if analysis == "volume":
        kind = [{"method": ["watershed"], "smooth": [None, 1, 2], "h": [None, 10],
                 "connectivity": [None, 26], "fill": [None, True]},
                {"smooth": [None, 1]}, {"repair": [{"sigma": 1.5}]}][rng.integers(3)]
        return some(rng, mode=[None, "slices"], min_voxels=[None, 10], max_voxels=[None, 3000],
                    exclude_border=[None, True], labels=[None, True], **kind), (
                        "smooth", "repair", "h")
    return parameters_of_levelset(rng, items, radius, contrast, polarity), ("smooth", "edge_stop")


def labels_of(slices, scene):
    """Labels of spots."""
    stack = np.array(slices, float)
    bright = scipy.ndimage.gaussian_filter(255 - stack if scene["dark"] else stack, 1)
    return list(scipy.ndimage.label(bright > 60 + scene["contrast"] / 2)[0])


# --- results of one item -----------------------------------------------------------------------

def is_row(name):
    return name.startswith(TABLES) or name == "score"


def split(a, items):
    """The arrays of each item, as if it were the only one, with the name "one"."""
    parts = []
    for i, item in enumerate(items):
        part, own = {}, "_" + item["name"]
        for name, value in a.items():
            if is_row(name):
                part[name] = value[a[next(n for n in a if n.endswith("_item"))] == i]
                if name.endswith("_item"):
                    part[name] = part[name] * 0
            elif name in ("feature_names", "item_names", "offsets", "repair_gap"):
                part[name] = value
            elif name.startswith(("labels_", "mask_", "history_", "map_")):
                if own in name:
                    part[name.replace(own, "_one")] = value
            else:
                part[name] = value[i:i + 1]
        parts.append({name: value.copy() for name, value in part.items()})
    return parts


def join(a, parts, items):
    """Sets the arrays to those of the items; the reverse of split."""
    for name in a:
        own = [i for i, item in enumerate(items) if "_" + item["name"] in name]
        if name in ("feature_names", "item_names", "offsets", "repair_gap"):
            continue
        if name.endswith("_item"):
            a[name] = np.repeat(np.arange(len(parts)), [len(part[name]) for part in parts])
        elif name.startswith(("labels_", "mask_", "history_", "map_")):
            a[name] = parts[own[0]][name.replace("_" + items[own[0]]["name"], "_one")]
        else:
            a[name] = np.concatenate([part[name] for part in parts])


def compute(analysis, p, item):
    """The arrays of an item alone; those of the item's result if it has none with these values."""
    unit, result = path("part.zip"), path("part.npz")
    workunit.write(unit, analysis, {key: v for key, v in p.items() if v is not None},
                   [dict(item, name="one")])
    if os.path.exists(result):
        os.remove(result)
    tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet"])
    return forge.Result(result).arrays if os.path.exists(result) else {}


# --- forgeries: functions of the arrays of an item ----------------------------------------------

def replace(a, part):
    """Sets the arrays to those of part that have the same type and, but for tables, shape."""
    for name in a:
        if name in part and part[name].dtype == a[name].dtype and (
                is_row(name) or part[name].shape == a[name].shape):
            a[name] = part[name]


def compute_with(analysis, p, item, **changes):
    """A forgery: what these parameters give, for the item with changes."""
    return lambda a: replace(a, compute(analysis, p, dict(item, **changes)))


def quantile(values, q):
    return np.quantile(values, q) if len(values) else 0


def keep_rows_of(a, chosen):
    table = "object" if "object_item" in a else table_of(a)
    if table == "region":
        relabel(a, chosen)
        return
    keep_rows(a, table, chosen)
    if table == "point":
        a["point"], a["score"] = a["point"][chosen], a["score"][chosen]
    a[{"object": "objects", "cell": "cells"}.get(table, "count")][0] = chosen.sum()


def keep(which):
    """A forgery: only rows for which which(rows' positions, sizes or scores) is true remain."""
    def change(a):
        if "object_item" in a and "object_area" not in a:
            keep_rows_of(a, which(a["object_item"][:, None], a["object_label"]))
            return
        at = a["point"] if "point" in a else next(a[t + "_centroid"] for t in (
            "region", "object", "cell") if t + "_centroid" in a)
        size = next(a[n] for n in ("score", "region_area", "cell_voxels", "object_area") if n in a)
        keep_rows_of(a, which(at, size))
    return change


def first_of_octave(area):
    """For each object the first one whose area has the same power of two as its integer part."""
    _, first, octave = np.unique(np.log2(area).astype(int), return_index=True,
                                 return_inverse=True)
    return first[octave]


def copy_objects(source_of):
    """A forgery: each object has the texture of the object of index source_of(areas), if both
    have one; without texture its intensity, or its shape where no relation forbids it."""
    def change(a):
        area = a["object_area"] if "object_area" in a else np.arange(1, len(a["object_item"]) + 1)
        if len(area) == 0:
            return
        source = source_of(area)
        if "object_glcm" in a:
            copied = a["object_glcm"][source]
            a["object_glcm"] = np.where(np.isnan(a["object_glcm"]) | np.isnan(copied),
                                        a["object_glcm"], copied)
            return
        for name in a:
            if name.startswith("object_intensity") or name in (
                    "object_perimeter", "object_orientation", "object_surface"):
                a[name] = a[name][source]
    return change


def set_masks(a, sides, voxel):
    """Sets the history to these masks, the last of which becomes the result's mask."""
    if "history_one" in a:
        a["history_one"] = sum(np.asarray(side).astype(np.int64) << k
                               for k, side in enumerate(sides)).astype(np.uint32).view(np.int32)
    a["mask_one"] = np.asarray(sides[-1]).astype(np.uint8)
    a["inside_voxels"][0] = a["mask_one"].sum()
    a["measure"][0] = float(a["inside_voxels"][0]) * voxel


def set_mask(voxel, of):
    """A forgery of levelset: the mask `of`, at once."""
    def change(a):
        mask = of(a["mask_one"])
        if mask is not None:
            n = len(masks_of(a)) if "history_one" in a else 1
            set_masks(a, (masks_of(a)[:1] if n > 1 else []) + [mask] * max(n - 1, 1), voxel)
    return change


def with_coarse_history(analysis, p, item, voxel):
    """A forgery of levelset: masks of a picture with half of the lines and columns, enlarged."""
    def change(a):
        start = {key: v if key in ("type", "cz", "z0", "z1") else v // 2
                 for key, v in p["init"].items()}
        side = item["slices"][0].shape
        masks = item["masks"] and [m[::2, ::2] for m in item["masks"]]
        part = compute(analysis, dict(p, init=start), dict(
            item, slices=[s[::2, ::2] for s in item["slices"]], masks=masks))
        if "mask_one" not in part:
            return
        kept = masks_of(part) if "history_one" in part else [part["mask_one"]]
        large = [np.repeat(np.repeat(m, 2, -2), 2, -1)[..., :side[0], :side[1]] for m in kept]
        if "history_one" in a:
            large[:1] = [a["history_one"] & 1]
        set_masks(a, large, voxel)
    return change


def coarse(analysis, p, item):
    """A forgery: computed from each second pixel of lines and columns; lengths are scaled."""
    half = {"radius": 2, "min_area": 4, "max_area": 4, "min_voxels": 4, "max_voxels": 4}
    scaled = {key: max(v / half[key] if key == "radius" else v // half[key], 1)
              if key in half and not isinstance(v, str) else v for key, v in p.items()}
    factors = {"area": 4, "voxels": 4, "volume": 4, "bbox": (1, 2, 2), "centroid": (1, 2, 2),
               "point": (1, 2, 2)}

    def change(a):
        part = compute(analysis, scaled, dict(
            item, slices=[s[::2, ::2] for s in item["slices"]],
            masks=item["masks"] and [m[::2, ::2] for m in item["masks"]]))
        for name in part:
            factor = factors.get(name.split("_")[-1], 1)
            if isinstance(factor, tuple):
                axes = part[name].shape[1]
                factor = factor[-axes:] if axes <= 3 else factor[-axes // 2:] * 2
            if name.startswith("labels_"):
                large = np.repeat(np.repeat(part[name], 2, -2), 2, -1)
                part[name] = large[..., :len(item["slices"][0]), :len(item["slices"][0])]
            elif part[name].dtype.kind in "if":
                part[name] = (part[name] * np.array(factor)).astype(part[name].dtype)
        replace(a, part)
    return change


def sample_windows(p, item, each):
    """A forgery of glcm: the statistics are those of one window in each * each."""
    grid = np.zeros(np.shape(item["slices"]), bool)
    grid[:, each // 2::each, each // 2::each] = True
    grid &= region_of(p, item)

    def change(a):
        part = compute("glcm", dict(p, roi={"type": "mask"}), dict(item, masks=list(grid)))
        if part:
            part["band_sums"] = part["band_sums"] * (region_of(p, item).sum() // grid.sum())
            replace(a, {name: v for name, v in part.items() if not name.startswith("map_")})
    return change


def repeat_distance(p):
    """A forgery of glcm: all levels and distances have the features of the first."""
    def change(a):
        cells = a["features"].reshape(len(p["levels"]) * len(p["distances"]), -1)
        cells[:] = cells[0]
    return change


def region_of(p, item):
    shape = np.shape(item["slices"])
    kind = p.get("roi", {}).get("type")
    if kind == "mask":
        return np.array(item["masks"], bool)
    region, (y, x) = np.ones(shape, bool), np.indices(shape[1:])
    if kind == "disc":
        region &= np.hypot(y - shape[1] // 2, x - shape[2] // 2) <= p["roi"]["r"]
    return region


def forgeries(analysis, p, omitted, item, rng):
    """Yields (name, function that forges the arrays of an item)."""
    slices = item["slices"]
    turned = [np.ascontiguousarray(s[::-1, ::-1].T) for s in slices][::-1]
    extent = len(slices) if item["stack"] else len(slices[0])
    voxel = float(np.prod(item["spacing"])) if item["spacing"] else 1.0
    yield "another picture", compute_with(analysis, p, item, slices=turned)
    if analysis in ("cellcount", "voting", "volume"):
        for part in 0.1, 0.33:
            yield "the upper %g" % part, keep(lambda at, _size, part=part:
                                              at[:, 0] <= part * extent)
            yield "%g of the rows" % part, keep(lambda at, _size, part=part:
                                                rng.random(len(at)) < part)
            yield ("the largest %g" % part, keep(lambda _at, size, part=part: size >= quantile(
                size, 1 - part)))
        yield "no row", keep(lambda at, _size: np.zeros(len(at), bool))
        yield "one row", keep(lambda at, _size: np.arange(len(at)) == 0)
        yield "the smaller half", keep(lambda _at, size: size < quantile(size, 0.5))
        yield "a coarser picture", coarse(analysis, p, item)
    cheaper = {key: value for key, value in p.items() if key not in omitted}
    for key in [k for k in omitted if p.get(k)]:
        yield "without " + key, compute_with(analysis, dict(p, **{key: None}), item)
    if analysis == "cellcount" and cheaper != p:
        yield "without all", compute_with(analysis, cheaper, item)
    if analysis == "voting":
        yield "not refined", compute_with(analysis, dict(p, refine=False), item)
        yield "another sigma", compute_with(analysis, dict(p, sigma=1.5 * p["sigma"]), item)
    if analysis == "objects":
        yield "one object", copy_objects(lambda area: np.zeros(len(area), int))
        yield "a tenth, repeated", copy_objects(
            lambda area: np.arange(len(area)) % max(len(area) // 10, 1))
        yield "an object for similar areas", copy_objects(first_of_octave)
        yield ("the largest tenth, copied", copy_objects(
            lambda area: np.where(area >= np.quantile(area, 0.9), np.arange(len(area)),
                                  np.argmax(area))))
        yield "the first half alone", keep(lambda at, _size: np.arange(len(at)) < len(at) // 2)
    if analysis == "glcm":
        repeated = [np.resize(s[:len(s) // 5], s.shape) for s in slices]
        smaller = dict(p, window=dict(p["window"], radius=p["window"]["radius"] - 1))
        yield "the upper fifth, repeated", compute_with(analysis, p, item, slices=repeated)
        yield "smaller windows", compute_with(analysis, smaller, item)
        yield "one window in 9", sample_windows(p, item, 3)
        yield "one window in 49", sample_windows(p, item, 7)
        yield "one distance", repeat_distance(p)
        if item["stack"]:
            yield "the first slice alone", compute_with(analysis, p, item,
                                                        slices=slices[:1] * len(slices))
    if analysis == "levelset":
        fewer = dict(p, iterations=p["iterations"] // 4)
        blurred = [scipy.ndimage.uniform_filter(s, 9) for s in slices]
        yield "a blurred picture", compute_with(analysis, p, item, slices=blurred)
        yield "a quarter of the iterations", set_mask(voxel, lambda mask: compute(
            analysis, fewer, item).get("mask_one"))
        yield "a coarser picture", with_coarse_history(analysis, p, item, voxel)
        if p["target"] != "otsu":
            yield "all near the target", set_mask(
                voxel, lambda mask: (abs(np.array(slices, int) - p["target"]) <
                                     p["epsilon"]).reshape(mask.shape))


def obey(a, analysis, p):
    """Makes a forged result of cellcount consistent with filters that take no work."""
    if analysis == "cellcount":
        chosen = np.ones(len(a["region_area"]), bool)
        if p.get("exclude_border"):
            chosen &= ~a["region_border"]
        if p["min_area"] != "auto":
            chosen &= a["region_area"] >= p["min_area"]
        relabel(a, chosen)


def wrong_of(analysis, right, forged):
    """(wrong, all): rows, numbers or pixels of an item."""
    if analysis in ("cellcount", "voting", "volume"):
        table = {"cellcount": "region_bbox", "volume": "cell_bbox"}.get(analysis, "point")
        rows = [set(map(tuple, a[table].tolist())) for a in (right, forged)]
        return len(rows[0] ^ rows[1]), len(rows[0] | rows[1])
    if analysis == "levelset":
        return (right["mask_one"] != forged["mask_one"]).sum(), right["mask_one"].sum()
    if analysis == "glcm" and (right["band_sums"] != forged["band_sums"]).any():
        return ((right["band_sums"] != forged["band_sums"]).sum(),
                np.count_nonzero(right["band_sums"]))
    names = ["features"] if analysis == "glcm" else [n for n in right if n.startswith(
        ("object_glcm",) if "object_glcm" in right else ("object_",))]
    wrong = sum(right[n].size if right[n].shape != forged[n].shape else
                ((right[n] != forged[n]) & ~np.isnan(right[n])).sum() for n in names)
    return wrong, sum(right[n].size for n in names)


def work_of(analysis, p, item, a):
    """An item's work, in any unit."""
    if analysis == "objects":
        return 0.3 * np.size(item["slices"]) + (np.array(item["labels"]) > 0).sum()
    if analysis == "glcm":
        return region_of(p, item).sum()
    return np.size(item["slices"]) * (a["iterations_run"][0] if analysis == "levelset" else 1)


# --- units -------------------------------------------------------------------------------------

def choose(rng, work):
    """Indices of all items, or of some at random with half of the work or more."""
    order = rng.permutation(len(work))
    if rng.random() < 0.5:
        return order
    return order[:1 + int(np.argmax(np.cumsum(work[order]) >= work.sum() / 2))]


def try_unit(k, tally):
    """Tries all forgeries of unit number k, and counts them in tally[analysis, whether all items
    are wrong]: checks, those that accept, and those that may."""
    analysis = os.environ.get("ANALYSIS") or sorted(SIZES)[k % len(SIZES)]
    rng = np.random.default_rng([45, k])
    scene, items = draw_items(analysis, rng)
    p, omitted = random_parameters(analysis, rng, scene, items)
    made, result = make_of(analysis, p, items)
    unit, seeds = path("whole.zip"), [str(v) for v in rng.integers(0, 2 ** 62, SEEDS)]
    os.replace(made, unit)
    right = forge.Result(result)
    parts = split(right.arrays, items)
    work = np.array([work_of(analysis, p, item, a) for item, a in zip(items, parts)], float)

    def codes(file):
        return [tap.run([tap.TEXCELL_VALIDATE, "check", "--seed", seed, unit, file]).returncode
                for seed in seeds]
    if codes(result) != [0] * SEEDS:
        tap.ok(False, "unit %d: the honest result is accepted" % k)
    for steps in zip(*[forgeries(analysis, p, omitted, item, rng) for item in items]):
        all_forged, share = [a.copy() for a in parts], 0
        for i in choose(rng, work):
            steps[i][1](all_forged[i])
            obey(all_forged[i], analysis, p)
            bind(all_forged[i], p)
            wrong, of_all = wrong_of(analysis, parts[i], all_forged[i])
            share += work[i] / work.sum() if wrong > LEAST[analysis] * of_all else 0
        if share < 0.1:
            continue
        forged = right.copy()
        join(forged.arrays, all_forged, items)
        with open(path("forged.npz"), "wb") as f:
            f.write(forged.bytes())
        if tap.run([tap.TEXCELL_VALIDATE, "check", "--no-pixels", unit,
                    path("forged.npz")]).returncode == 0:
            found = codes(path("forged.npz"))
            of = tally.setdefault((analysis, share > 0.999), np.zeros(3))
            of += [SEEDS, found.count(0), SEEDS * max(1 - share, 0)]
            if os.environ.get("EACH") and 0 in found:
                tap.note("unit %d: %s: %s: %d of %d, with %.2f of the work of %d items: %s" % (
                    k, analysis, steps[0][0], found.count(0), SEEDS, share, len(items), p))


def main():
    first, tally = int(os.environ.get("FIRST", "0")), {}
    for k in range(first, first + int(os.environ.get("UNITS", "50"))):
        try_unit(k, tally)
    tap.ok(tally, "there are forgeries by chance")
    for (analysis, whole), (n, accepted, may) in sorted(tally.items()):
        # 3 standard deviations of checks that find the honest items
        most = may + 3 * may ** 0.5 + n / {"voting": 100, "glcm": 100}.get(analysis, 500)
        tap.ok(accepted <= most, "%s, forgeries by chance of %s: %d of %d checks accept, at most "
               "%.1f may" % (analysis, "all items" if whole else "some items", accepted, n, most))
    tap.done()


if __name__ == "__main__":
    main()
