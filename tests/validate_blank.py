"""Tests that `texcell-validate check` refuses results that cost no work, with every seed: results
of a black, a grey or another picture of the same size, presented as the work unit's. The honest
result is accepted. Runs for every analysis whose tests/analyses/NAME.py has BLANK."""
import os

import numpy as np
import scipy.ndimage

import analyses
import forge
import forgers
import tap
from oracle import workunit

FOLDER = tap.scratch()
SEEDS = range(4)


def path(name):
    return os.path.join(FOLDER, name)


def compute(name, analysis, parameters, slices, labels):
    unit = workunit.write(path(name + ".zip"), analysis, parameters,
                          [workunit.item("one", slices, labels=labels)])
    result = path(name + ".npz")
    if os.path.exists(result):
        os.remove(result)
    run = tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet"])
    return unit, result if run.returncode == 0 else tap.note(run.stderr)


def check(unit, result, *options):
    return [tap.run([tap.TEXCELL_VALIDATE, "check", *options, "--seed", str(seed), unit, result])
            for seed in SEEDS]


def text_of(runs):
    return "\n".join("exit %d: %s%s" % (r.returncode, r.stdout, r.stderr) for r in runs)


def other_pictures(slices, others):
    """Yields (name, slices) of pictures that a host could compute instead."""
    yield "black", [s * 0 for s in slices]
    yield "grey", [np.full_like(s, 77) for s in slices]
    yield "another picture", [np.resize(o, s.shape).astype(s.dtype) for s, o in zip(slices, others)]


def test_cost_of_checks():
    """If checking an item costs much, few items are checked: a single forged item is found with
    some probability, and a result whose items are all forged is always found. If checking costs
    little, each item is checked."""
    for side, least, most in ((30, 60, 60), (600, 1, 11)):
        test_many_items(side, least, most)


def test_many_items(side, least, most):
    parameters, items = {"levels": [8], "distances": [1], "window": {"shape": "roi"}}, []
    for i in range(20):
        picture = np.random.default_rng(i).integers(0, 256, (side, side)).astype(np.uint8)
        items.append(workunit.item("i%d" % i, [picture]))
    unit, honest = path("many.zip"), path("many.npz")
    workunit.write(unit, "glcm", parameters, items)
    tap.run([tap.TEXCELL, "run", unit, "-o", honest, "--device", "cpu", "--quiet"])
    for forged in (1, 20):
        forgery = forge.Result(honest)
        forgery.arrays["features"] = forgery.arrays["features"].copy()
        forgery.arrays["features"][:forged] = forgery.arrays["features"][[(i + 1) % 20
                                                                          for i in range(forged)]]
        with open(path("forged.npz"), "wb") as f:
            f.write(forgery.bytes())
        codes = [tap.run([tap.TEXCELL_VALIDATE, "check", "--seed", str(seed), unit,
                          path("forged.npz")]).returncode
                 for seed in range(60)]
        refused = sum(code in (2, 4) for code in codes)
        tap.ok(set(codes) <= {0, 2, 4} and
               (refused == 60 if forged == 20 else least <= refused <= most),
               "glcm, pictures of %d x %d: %d of 20 items have another's features: found with %d "
               "of 60 seeds" %
               (side, side, forged, refused), codes)


def test_forgeries():
    """A sample of the forgeries of forgers.py: they cost hardly any work and are consistent in
    themselves, so that only the pixels can show the error. The honest results are accepted without
    computing an item again."""
    bright = {"polarity": "bright", "threshold": 110, "min_area": 20}
    picture = forgers.different_cells()
    labels = scipy.ndimage.label(picture > 110)[0]
    for analysis, what, more, items, change in (
            ("objects", "no object off the border", {"exclude_border": True, "families": ["shape"]},
             [workunit.item("one", [picture], labels=[labels])],
             lambda a: forgers.keep_objects(0)(a, "objects")),
            ("objects", "other intensities for every second one", {"families": ["intensity"]},
             [workunit.item("one", [picture], labels=[labels])], other_intensities),
            ("cellcount", "the top alone of regions by contrast",
             dict(bright, min_contrast={"full_area": "auto"}),
             [workunit.item("one", [picture])],
             lambda a: forgers.keep_upper_regions(1200)(a, "cellcount")),
            ("cellcount", "the largest alone", dict(bright, min_area="auto"),
             [workunit.item("one", [picture])],
             lambda a: forgers.keep_largest(200)(a, "cellcount")),
            ("cellcount", "the large one of 41 pictures without anything", bright,
             [workunit.item("one", [picture])] +
             [workunit.item("s%d" % i, [forgers.cells(60, 4, i)])
                                                  for i in range(40)],
             forgers.empty_first_item)):
        if os.environ.get("TEXCELL_ANALYSIS", "") not in ("", analysis):
            continue
        unit, honest = forgers.make_of(analysis, more, items)
        runs = check(unit, honest)
        # Small items beside a large one are in doubt: they have few cells.
        tap.ok(all(r.returncode == 0 and ("computed 0 again" in r.stdout or
                                          len(items) > 1 and 'item "one"' not in r.stdout)
                   for r in runs),
               "%s, %s: the honest result is accepted, without computing again" % (analysis, what),
               text_of(runs))
        forgery = forge.Result(honest)
        change(forgery.arrays)
        with open(path("forged.npz"), "wb") as f:
            f.write(forgery.bytes())
        runs = check(unit, path("forged.npz"))
        tap.ok(all(r.returncode in (2, 4) for r in runs), "%s, %s: refused" % (analysis, what),
               text_of(runs))


def other_intensities(a):
    for name in a:
        if name.startswith("object_intensity"):
            a[name][::2] = np.roll(a[name], 1, 0)[::2]


def main():
    for analysis, of in analyses.each():
        blank = getattr(of, "BLANK", {})
        for title, (parameters, slices, other_pictures_slices, *labels) in blank.items():
            labels = labels[0] if labels else None
            name = "%s, %s" % (analysis, title)
            unit, result = compute("honest", analysis, parameters, slices, labels)
            runs = check(unit, result)
            tap.ok(all(r.returncode == 0 and r.stdout.endswith("valid\n") for r in runs),
                   name + ": the honest result is accepted",
                   text_of(runs))
            honest = forge.Result(result)
            for what, other_slices in other_pictures(slices, other_pictures_slices):
                forgery = forge.Result(compute("lie", analysis, parameters, other_slices,
                                               labels)[1])
                forgery.json["workunit"] = honest.json["workunit"]
                with open(path("forged.npz"), "wb") as f:
                    f.write(forgery.bytes())
                runs = check(unit, path("forged.npz"), "--no-pixels")
                tap.ok(all(r.returncode == 0 for r in runs),
                       "%s: %s: without pixels it is accepted" % (name, what),
                       text_of(runs))
                runs = check(unit, path("forged.npz"))
                tap.ok(all(r.returncode in (2, 4) for r in runs), "%s: %s: refused" % (name, what),
                       text_of(runs))
    if os.environ.get("TEXCELL_ANALYSIS", "") in ("", "glcm"):
        test_cost_of_checks()
    test_forgeries()
    tap.done()


if __name__ == "__main__":
    main()
