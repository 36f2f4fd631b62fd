"""Tests `texcell-validate check` with forgeries by chance: UNITS (50) random pictures are computed
with random parameters, and the results are forged in each way that saves most of the work and suits
any picture: a part of the rows, another picture's result, that of a coarser picture or of cheaper
parameters, copies of what was computed. A forgery counts if more than a tenth of the result is
wrong. Of the checks of such forgeries at most one in 500 may accept, of voting's one in 25: with an
automatic threshold in noise, weak points can be left out. FIRST (0) is the first unit's number;
EACH=1 prints every forgery that was accepted; ANALYSIS is the only one."""
import os

import numpy as np
import scipy.ndimage

import forge
import tap
from forgers import (bind, coarse, compute, compute_part_with, compute_with, keep_rows_of_items,
                     make_of, masks_of, path, relabel, set_masks)
from oracle import workunit

SEEDS = 4
SIDES = {"cellcount": 1600, "voting": 1000, "objects": 1000, "glcm": 240, "levelset": 200}


def spots(rng, side):
    """(picture, radius, contrast) of bright spots of one shape: alike, of different sizes, or of
    different contrast; anywhere, most of them in the upper part, or in pairs; in even or uneven
    light; with bars, squares, specks or none of these."""
    y, x = np.mgrid[0:side, 0:side].astype(np.float32)
    ground = 60 + rng.choice([0, 0, 30]) * x / side
    radius, contrast = np.exp(rng.uniform(1.1, 2.6)), rng.choice([25, 45, 90])
    n = int(min(np.exp(rng.uniform(1.4, 8.3)), 0.07 * side ** 2 / radius ** 2))
    shape, places = rng.choice(["disc", "soft", "rod", "ring"]), rng.choice(["any", "top", "pairs"])
    spread_of_sizes, spread = rng.choice([0, 0.4]), rng.choice([0, 0, 0.3])
    centres = rng.uniform(0, side, (n, 2))
    if places == "top":
        centres[::2, 0] *= 0.15
    if places == "pairs":
        centres[1:n // 8:2] = centres[:n // 8 // 2 * 2:2][:len(centres[1:n // 8:2])] + 1.6 * radius
    cells = np.zeros_like(ground)
    for cy, cx in centres:
        r = radius * np.exp(rng.normal(0, 1) * spread_of_sizes)
        angle, w = rng.uniform(0, np.pi), int(3 * r) + 2
        box = tuple(slice(max(int(c) - w, 0), max(int(c) + w, 0)) for c in (cy, cx))
        v, u = y[box] - cy, x[box] - cx
        if shape == "rod":
            v, u = (v * np.cos(angle) + u * np.sin(angle)) / 2, u * np.cos(angle) - v * np.sin(
                angle)
        d = (v * v + u * u) / (r * r)
        value = {"soft": np.exp(-d), "ring": (d < 1) & (d > 0.3)}.get(shape, d < 1)
        cells[box] = np.maximum(cells[box], value * contrast * max(0.2, rng.normal(1, spread)))
    picture, beside = ground + cells, rng.choice(["", "", "bar", "squares", "specks"])
    if beside == "bar":
        picture[:, :side // 12] += 140
    if beside == "squares":
        for cy, cx, w in rng.integers(15, side // 10, (10, 3)) * [10, 10, 1]:
            picture[cy:cy + w, cx:cx + w] += 100
    if beside == "specks":
        picture[rng.random(picture.shape) < 0.01] += contrast
    picture += rng.normal(0, 1, picture.shape) * rng.choice([0, 2, 4, 10, 20])
    return picture.clip(0, 255).round().astype(np.uint8), float(radius), int(contrast)


def some(rng, **choices):
    """One value of each choice; a value of None leaves the parameter out."""
    drawn = {key: values[rng.integers(len(values))] for key, values in choices.items()}
    return {key: value for key, value in drawn.items() if value is not None}


def random_parameters(analysis, rng, side, radius, contrast):
    """(parameters, names of those that a forger may leave out)."""
    if analysis == "cellcount":
        p = some(rng, min_area=[1, 20, "auto"], smooth=[None, 0.5, 1, 2], fill_holes=[None, True],
                 split=[None, None, "distance", "intensity"], exclude_border=[None, None, True],
                 threshold=["otsu", "local", 60 + contrast // 2, contrast // 2])
        if p["threshold"] == "local":
            p.update(window=int(rng.choice([51, 113, 151])), offset=contrast // 4)
        elif p["threshold"] == contrast // 2:
            p["background"] = {"method": str(rng.choice(["opening", "mean", "lines"])),
                               "radius": int(rng.choice([25, 50]))}
        return dict(p, polarity="bright"), ("smooth", "fill_holes", "split", "background")
    if analysis == "voting":
        return some(rng, radius=[round(max(radius, 3), 1), round(1.3 * radius + 1, 1)],
                    weight=["gradient", "root"], sigma=[1, 2, 3], refine=[None, False],
                    foreground=[None, None, "otsu"], polarity=["bright"]), ()
    if analysis == "objects":
        return some(rng, levels=[None, 16, 256], distances=[None, [1, 3]],
                    texture_features=[None, "ibsi"], range=[None, "image"]), ()
    if analysis == "glcm":
        return some(rng, levels=[[16, 64], [32], [256]], distances=[[1], [1, 3], [2]],
                    features=["ibsi", "haralick"], directions=["all", "four"],
                    window=[{"shape": "disc", "radius": 4}, {"shape": "square", "radius": 5}]), ()
    ball = {"type": "ball", "cx": side // 2, "cy": side // 2, "r": side // int(rng.choice([4, 8]))}
    return some(rng, target=[60 + contrast], epsilon=[contrast * 2 // 5, contrast // 2],
                alpha=[0.01, 0.03], iterations=[400, 900], smooth=[0, 1], band=[0, 6],
                init=[ball]), ("smooth",)


def quantile(values, q):
    return np.quantile(values, q) if len(values) else 0


def keep(which):
    """A forgery: only rows for which which(rows' positions, sizes or scores) is true remain."""
    def change(a, analysis):
        table = analysis == "cellcount"
        chosen = which(a["region_bbox"][:, 2:] if table else a["point"][:, -2:],
                       a["region_area"] if table else a["score"])
        if table:
            relabel(a, chosen)
        else:
            keep_rows_of_items(a, chosen)
    return change


def first_of_octave(area):
    """For each object the first one whose area has the same power of two as its integer part."""
    _, first, octave = np.unique(np.log2(area).astype(int), return_index=True,
                                 return_inverse=True)
    return first[octave]


def copy_textures(source_of):
    """A forgery: each object has the texture of the object of index source_of(areas), if both
    have one."""
    def change(a, _analysis):
        source = source_of(a["object_area"])
        copied = a["object_glcm"][source]
        a["object_glcm"] = np.where(np.isnan(a["object_glcm"]) | np.isnan(copied),
                                    a["object_glcm"], copied)
    return change


def set_mask(of):
    """A forgery of levelset: the mask `of`, at once."""
    def change(a, _analysis):
        mask = of(a["mask_one"]).astype(int)
        if "history_one" in a:
            set_masks(a, masks_of(a)[:1] + [mask] * (len(masks_of(a)) - 1))
        a["mask_one"] = mask.astype(np.uint8)
        a["inside_voxels"][0] = a["measure"][0] = mask.sum()
    return change


def forgeries(analysis, p, omitted, picture, labels, rng):
    """Yields (name, function that forges)."""
    side, slices = len(picture), [picture]
    turned = [np.ascontiguousarray(picture[::-1, ::-1].T)]
    yield "another picture", compute_with(p, turned, labels)
    for part in 0.05, 0.1, 0.2, 0.33:
        if analysis in ("cellcount", "voting"):
            yield ("the upper %g" % part, keep(lambda at, _size, part=part:
                                               at[:, 0] <= part * side))
            yield "%g of the rows" % part, keep(lambda at, _size, part=part:
                                                rng.random(len(at)) < part)
            yield ("the largest %g" % part, keep(lambda _at, size, part=part: size >= quantile(
                size, 1 - part)))
    if analysis in ("cellcount", "voting"):
        yield "no row", keep(lambda at, _size: np.zeros(len(at), bool))
        yield "the smaller half", keep(lambda _at, size: size < quantile(size, 0.5))
        yield "a coarser picture", coarse(p, slices)
    cheaper = {key: value for key, value in p.items() if key not in omitted}
    for key in [k for k in omitted if p.get(k)]:
        yield "without " + key, compute_with(dict(p, **{key: None}), slices)
    if analysis == "cellcount" and cheaper != p:
        yield "without all", compute_with(cheaper, slices)
        yield "a fifth right, cheaper below", compute_part_with(
            cheaper, slices, lambda a: a["region_bbox"][:, 0] >= side // 5)
    if analysis == "voting":
        yield "not refined", compute_with(dict(p, refine=False), slices)
        yield "another sigma", compute_with(dict(p, sigma=1.5 * p["sigma"]), slices)
    if analysis == "objects":
        yield "one texture", copy_textures(lambda area: np.zeros(len(area), int))
        yield "a tenth, repeated", copy_textures(
            lambda area: np.arange(len(area)) % max(len(area) // 10, 1))
        yield "a texture for similar areas", copy_textures(first_of_octave)
        yield ("the largest tenth, copied", copy_textures(
            lambda area: np.where(area >= np.quantile(area, 0.9), np.arange(len(area)),
                                  np.argmax(area))))
    if analysis == "glcm":
        repeated = np.ascontiguousarray(np.resize(picture[:side // 5], picture.shape))
        smaller = dict(p, window=dict(p["window"], radius=p["window"]["radius"] - 1))
        yield "the upper fifth, repeated", compute_with(p, [repeated])
        yield "smaller windows", compute_with(smaller, slices)
    if analysis == "levelset":
        fewer, blurred = dict(p, iterations=p["iterations"] // 4), scipy.ndimage.uniform_filter(
            picture, 9)
        yield "a blurred picture", compute_with(p, [blurred])
        yield "a quarter of the iterations", set_mask(
            lambda _mask: compute("levelset", fewer, slices)["mask_one"])
        yield "all near the target", set_mask(
            lambda _mask: abs(picture.astype(int) - p["target"]) < p["epsilon"])


def obey(a, analysis, p):
    """Makes a forged result of cellcount consistent with filters that take no work."""
    if analysis == "cellcount":
        chosen = np.ones(len(a["region_area"]), bool)
        if p.get("exclude_border"):
            chosen &= ~a["region_border"]
        if p["min_area"] != "auto":
            chosen &= a["region_area"] >= p["min_area"]
        relabel(a, chosen)


def wrong_share(analysis, right, forged):
    """The share of the result's rows, numbers or pixels that are wrong."""
    if analysis in ("cellcount", "voting"):
        rows = [set(map(tuple, np.column_stack(
            [a["region_bbox"], a["region_area"]] if analysis == "cellcount" else a["point"].T
        ).tolist())) for a in (right, forged)]
        return len(rows[0] ^ rows[1]) / max(len(rows[0] | rows[1]), 1)
    if analysis == "levelset":
        return (right["mask_one"] != forged["mask_one"]).sum() / max(right["mask_one"].sum(), 1)
    name = "object_glcm" if analysis == "objects" else "features"
    same = (right[name] == forged[name]) | np.isnan(right[name])
    return 1 - same.mean() if same.size else 0


def labelled(picture):
    return [scipy.ndimage.label(scipy.ndimage.gaussian_filter(picture.astype(float), 1) >
                                (int(picture.min()) + np.percentile(picture, 99.5)) / 2)[0]]


def try_unit(k, accepted, checks):
    """Tries all forgeries of unit number k, and counts checks of them."""
    analysis = os.environ.get("ANALYSIS") or sorted(SIDES)[k % len(SIDES)]
    rng = np.random.default_rng([44, k])
    picture, radius, contrast = spots(rng, SIDES[analysis])
    p, omitted = random_parameters(analysis, rng, len(picture), radius, contrast)
    labels = labelled(picture) if analysis == "objects" else None
    unit, result = make_of(analysis, p, [workunit.item("one", [picture], labels=labels)])
    seeds = [str(v) for v in rng.integers(0, 2 ** 62, SEEDS)]
    right = forge.Result(result)

    def codes(file):
        return [tap.run([tap.TEXCELL_VALIDATE, "check", "--seed", seed, unit, file]).returncode
                for seed in seeds]
    if codes(result) != [0] * SEEDS:
        tap.ok(False, "unit %d: the honest result is accepted" % k)
    for what, change in forgeries(analysis, p, omitted, picture, labels, rng):
        forged = right.copy()
        change(forged.arrays, analysis)
        obey(forged.arrays, analysis, p)
        bind(forged)
        if wrong_share(analysis, right.arrays, forged.arrays) <= 0.1:
            continue
        with open(path("forged.npz"), "wb") as f:
            f.write(forged.bytes())
        if tap.run([tap.TEXCELL_VALIDATE, "check", "--no-pixels", unit,
                    path("forged.npz")]).returncode == 0:
            found = codes(path("forged.npz"))
            checks[analysis] = checks.get(analysis, 0) + SEEDS
            accepted[analysis] = accepted.get(analysis, 0) + found.count(0)
            if os.environ.get("EACH") and 0 in found:
                tap.note("unit %d: %s: %s: %d of %d: %s" % (k, analysis, what, found.count(0),
                                                           SEEDS, p))


def main():
    first, accepted, checks = int(os.environ.get("FIRST", "0")), {}, {}
    for k in range(first, first + int(os.environ.get("UNITS", "50"))):
        try_unit(k, accepted, checks)
    tap.ok(checks, "there are forgeries by chance")
    for analysis, n in sorted(checks.items()):
        tap.ok(accepted[analysis] <= n / (25 if analysis == "voting" else 500),
               "%s, forgeries by chance: %d of %d checks accept" % (analysis, accepted[analysis],
                                                                  n))
    tap.done()


if __name__ == "__main__":
    main()
