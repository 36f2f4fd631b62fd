"""Credit for nothing: the result of a blank picture, of a grey one or of another
picture of the same size, made to look like that of the work unit, is refused by
texcell-validate check, whatever it looks at; the honest one is accepted. For every analysis that
has BLANK."""
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


def shown(runs):
    return "\n".join("exit %d: %s%s" % (r.returncode, r.stdout, r.stderr) for r in runs)


def lies(slices, others):
    """What a host could compute instead."""
    yield "black", [s * 0 for s in slices]
    yield "grey", [np.full_like(s, 77) for s in slices]
    yield "another picture", [np.resize(o, s.shape).astype(s.dtype) for s, o in zip(slices, others)]


def costly_looks():
    """Where spot checks cost much, few items are checked: that one of them is forged is found
    with some probability, that all are always. Of a unit of hardly any work each is checked."""
    for side, least, most in ((30, 60, 60), (600, 1, 11)):
        many_looks(side, least, most)


def many_looks(side, least, most):
    parameters, items = {"levels": [8], "distances": [1], "window": {"shape": "roi"}}, []
    for i in range(20):
        picture = np.random.default_rng(i).integers(0, 256, (side, side)).astype(np.uint8)
        items.append(workunit.item("i%d" % i, [picture]))
    unit, honest = path("many.zip"), path("many.npz")
    workunit.write(unit, "glcm", parameters, items)
    tap.run([tap.TEXCELL, "run", unit, "-o", honest, "--device", "cpu", "--quiet"])
    for forged in (1, 20):
        lie = forge.Result(honest)
        lie.arrays["features"] = lie.arrays["features"].copy()
        lie.arrays["features"][:forged] = lie.arrays["features"][[(i + 1) % 20
                                                                  for i in range(forged)]]
        with open(path("forged.npz"), "wb") as f:
            f.write(lie.bytes())
        codes = [tap.run([tap.TEXCELL_VALIDATE, "check", "--seed", str(seed), unit,
                          path("forged.npz")]).returncode
                 for seed in range(60)]
        seen = sum(code in (2, 4) for code in codes)
        tap.ok(set(codes) <= {0, 2, 4} and (seen == 60 if forged == 20 else least <= seen <= most),
               "glcm, roi of %d x %d: %d of 20 items are of another: refused with %d of 60 seeds" %
               (side, side, forged, seen), codes)


def lazy():
    """Hardly any of the work, consistent in itself: one of each kind of those in forgers.py. The
    pixels alone tell that; the honest ones are not computed again."""
    bright = {"polarity": "bright", "threshold": 110, "min_area": 20}
    one = forgers.different_cells()
    labels = scipy.ndimage.label(one > 110)[0]
    for analysis, what, more, items, change in (
            ("objects", "no object off the border", {"exclude_border": True, "families": ["shape"]},
             [workunit.item("one", [one], labels=[labels])],
             lambda a: forgers.first_objects(0)(a, "objects")),
            ("objects", "other intensities for every second one", {"families": ["intensity"]},
             [workunit.item("one", [one], labels=[labels])], other_intensities),
            ("cellcount", "the top alone of regions by contrast",
             dict(bright, min_contrast={"full_area": "auto"}),
             [workunit.item("one", [one])], lambda a: forgers.top_rows(1200)(a, "cellcount")),
            ("cellcount", "the largest alone", dict(bright, min_area="auto"),
             [workunit.item("one", [one])], lambda a: forgers.largest(200)(a, "cellcount")),
            ("cellcount", "the large one of 41 pictures without anything", bright,
             [workunit.item("one", [one])] + [workunit.item("s%d" % i, [forgers.cells(60, 4, i)])
                                              for i in range(40)],
             forgers.emptied)):
        if os.environ.get("TEXCELL_ANALYSIS", "") not in ("", analysis):
            continue
        unit, honest = forgers.make_of(analysis, more, items)
        runs = check(unit, honest)
        tap.ok(all(r.returncode == 0 and "computed 0 again" in r.stdout for r in runs),
               "%s, %s: the honest one is accepted by a look" % (analysis, what), shown(runs))
        lie = forge.Result(honest)
        change(lie.arrays)
        with open(path("forged.npz"), "wb") as f:
            f.write(lie.bytes())
        runs = check(unit, path("forged.npz"))
        tap.ok(all(r.returncode in (2, 4) for r in runs), "%s, %s: refused" % (analysis, what),
               shown(runs))


def other_intensities(a):
    for name in a:
        if name.startswith("object_intensity"):
            a[name][::2] = np.roll(a[name], 1, 0)[::2]


def main():
    for analysis, of in analyses.each():
        blank = getattr(of, "BLANK", {})
        for title, (parameters, slices, others, *labels) in blank.items():
            labels = labels[0] if labels else None
            name = "%s, %s" % (analysis, title)
            unit, result = compute("honest", analysis, parameters, slices, labels)
            runs = check(unit, result)
            tap.ok(all(r.returncode == 0 and r.stdout.endswith("valid\n") for r in runs),
                   name + ": the honest one is accepted",
                   shown(runs))
            honest = forge.Result(result)
            for what, instead in lies(slices, others):
                lie = forge.Result(compute("lie", analysis, parameters, instead, labels)[1])
                lie.json["workunit"] = honest.json["workunit"]
                with open(path("forged.npz"), "wb") as f:
                    f.write(lie.bytes())
                runs = check(unit, path("forged.npz"), "--no-pixels")
                tap.ok(all(r.returncode == 0 for r in runs),
                       "%s: %s: nothing is wrong with it by itself" % (name, what),
                       shown(runs))
                runs = check(unit, path("forged.npz"))
                tap.ok(all(r.returncode in (2, 4) for r in runs), "%s: %s: refused" % (name, what),
                       shown(runs))
    if os.environ.get("TEXCELL_ANALYSIS", "") in ("", "glcm"):
        costly_looks()
    lazy()
    tap.done()


if __name__ == "__main__":
    main()
