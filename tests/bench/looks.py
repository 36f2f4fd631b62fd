"""The figures of docs/validation.md on checking pixels: the cost compared with reading the pictures
and computing the unit, and how many results of blank and other pictures are refused, for the real
pictures next to the checkout (or scikit-image's, without these).

    looks.py lies [ANALYSIS [JOB]]
    looks.py units [ANALYSIS]           UNITS (1000) random units of many items, of all analyses in
                                        turn: the time of check, with the unit's SHA-256 recorded as
                                        by texcell-submit, and that of checking pixels, as a share
                                        of the run's processor time, by analysis and in all
    looks.py honest [ANALYSIS]          UNITS (1000) random units of one item, of all analyses in
                                        turn: how many are in doubt, and the processor time of
                                        checking pixels compared with reading and computing, by
                                        analysis and in all

Environment: TEXCELL_BUILD; SIDE (512): pictures are cut to this side; SECONDS (20): how long a unit
of many items takes, about; FIRST (0): number of the first of UNITS."""
import os
import re
import resource
import sys
import zipfile

import numpy as np
import scipy.ndimage
from PIL import Image, ImageSequence

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import forge                       # noqa: E402
import pictures                    # noqa: E402
import tap                         # noqa: E402
from oracle import workunit        # noqa: E402

FOLDER = tap.scratch()
SIDE, DEPTH, SEEDS = int(os.environ.get("SIDE", "512")), 64, 4
FEW = 6e7      # units of fewer operations are always computed again (few_flops of verify.c)
SLOW = ("glcm", "levelset", "voting")
ROI = {"window": {"shape": "roi"}}


def level(**more):
    return lambda shape: dict({"target": 180, "epsilon": 60, "alpha": 0.02, "iterations": 300,
                               "init": dict({"type": "ball", "cx": shape[2] // 2,
                                             "cy": shape[1] // 2, "r": min(shape[1:]) // 6},
                                            **({"cz": shape[0] // 2} if shape[0] > 1 else {}))},
                              **more)


# {analysis: {job: (parameters, 2 for pictures or 3 for stacks as items)}}
JOBS = {
    "cellcount": {"Otsu": ({"min_area": 20}, 2),
                  "a number": ({"threshold": 128, "min_area": 20}, 2),
                  "Otsu, labels": ({"min_area": 20, "labels": True}, 2),
                  "local": ({"threshold": "local", "window": 51, "min_area": 20}, 2),
                  "background": ({"background": {"method": "opening", "radius": 20}, "smooth": 1,
                                  "labels": True}, 2),
                  "split": ({"split": "distance", "fill_holes": True, "min_area": 20}, 2)},
    "glcm": {"windows": ({"levels": [16, 64], "distances": [1, 3],
                          "window": {"shape": "disc", "radius": 5}}, 2),
             "one distance": ({"levels": [32], "distances": [1],
                               "window": {"shape": "disc", "radius": 5}}, 2),
             "roi": (dict(ROI, levels=[32], distances=[1]), 2),
             "roi, six": (dict(ROI, levels=[16, 64], distances=[1, 2, 5]), 2)},
    "objects": {"picture": ({}, 2), "stack": ({}, 3),
                "without shape": ({"families": ["intensity", "texture"]}, 2)},
    "volume": {"threshold": ({}, 3), "repair": ({"repair": {"sigma": 1, "threshold": 120}}, 3),
               "watershed": ({"method": "watershed", "smooth": 1, "labels": True}, 3)},
    "voting": {"picture": ({"radius": 12}, 2), "stack": ({"radius": 6}, 3)},
    "levelset": {"picture": (level(), 2), "band": (level(band=6), 2),
                 "stack": (level(iterations=150), 3),
                 "band, stack": (level(iterations=150, band=6), 3)},
}


def slices_of(file):
    if file.endswith(".nii.gz"):
        import gzip
        with gzip.open(file) as f:
            raw = f.read()
        nx, ny, nz = map(int, np.frombuffer(raw, "<i2", 3, 42))
        whole = np.frombuffer(raw, np.uint8, nx * ny * nz, 352).reshape(nz, ny, nx)
        return [np.ascontiguousarray(s) for s in whole[nz // 4:]]
    with Image.open(file) as im:
        return [np.asarray(p if p.mode in ("L", "I;16", "I;16B") else p.convert("L"))
                for p in ImageSequence.Iterator(im)]


def real():
    """[(name, slices)] of the real pictures, without masks and other truths."""
    found = [("coins", [pictures.coins()]), ("gravel", [pictures.gravel()])]
    for folder, _, names in sorted(os.walk(tap.DATA)):
        for name in sorted(names):
            if re.search(r"\.(png|jpg|tif|nii\.gz)$",
                         name) and not re.search("label|mask|truth|Model|2bet", name):
                found.append((name.split(".")[0], slices_of(os.path.join(folder, name))))
    for name, slices in found:
        depth = DEPTH if len(slices) > 1 else 1
        yield name, [np.ascontiguousarray(s[:SIDE, :SIDE] if depth == 1
                                          else s[:200, :200]).astype(s.dtype.newbyteorder("="))
                     for s in slices[:depth]]


def item_of(analysis, name, slices, like=None):
    """An item; for objects with labels of what is brighter than the mean of `like`, or of the
    item."""
    labels = np.stack(like or slices)
    labels = list(scipy.ndimage.label(labels > labels.mean())[0]) if analysis == "objects" else None
    return workunit.item(name, slices, labels=labels)


def compute(name, analysis, parameters, slices, like=None):
    unit, result = os.path.join(FOLDER, name + ".zip"), os.path.join(FOLDER, name + ".npz")
    shape = (len(slices),) + slices[0].shape
    workunit.write(unit, analysis, parameters(shape) if callable(parameters) else parameters,
                   [item_of(analysis, "one", slices, like)])
    if os.path.exists(result):
        os.remove(result)
    run = tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet"])
    return (unit, result) if run.returncode == 0 else tap.note(run.stderr)


def check(unit, result, seed):
    return tap.run([tap.TEXCELL_VALIDATE, "check", "--seed", str(seed), unit, result])


def seconds(*command):
    """(processor seconds, output) of a command."""
    def now():
        of = resource.getrusage(resource.RUSAGE_CHILDREN)
        return of.ru_utime + of.ru_stime

    before, run = now(), tap.run(command)
    assert run.returncode == 0, run.stderr
    return now() - before, run.stdout


def random_parameters(analysis, rng, shape, slices):
    """(job, parameters) as users choose them: one of JOBS; for levelset with another target, start
    and number of iterations."""
    job = rng.choice(sorted(JOBS[analysis]))
    parameters, dimensions = JOBS[analysis][job]
    if dimensions != (3 if len(slices) > 1 else 2):
        return None, None
    if analysis != "levelset":
        return job, dict(parameters, polarity="auto") if analysis == "cellcount" else parameters
    r = int(rng.integers(max(4, min(shape[1:]) // 12), min(shape[1:]) // 4))
    position = [int(rng.integers(r, n - r)) if n > 2 * r else n // 2 for n in shape]
    z, y, x = position
    around = np.stack(slices)[z, y - r // 2:y + r // 2 + 1, x - r // 2:x + r // 2 + 1]
    full = 257 if around.dtype == np.uint16 else 1
    return job, dict(parameters(shape), target=int(np.median(around)),
                     epsilon=int(rng.integers(15, 70)) * full,
                     alpha=float(np.round(rng.uniform(0.01, 0.05), 3)) / full,
                     iterations=int(rng.integers(100, 800)) // (4 if z else 1) + 20,
                     init=dict({"type": "ball", "cx": x, "cy": y, "r": r},
                               **({"cz": z} if shape[0] > 1 else {})))


def random_unit(analysis, k, of):
    """(job, name, unit and result) of a part of a picture, or of the picture with its
    reflections."""
    rng = np.random.default_rng([41, k])
    while True:
        name, slices = of[int(rng.integers(len(of)))]
        ny, nx = (int(np.exp(rng.uniform(np.log(128), np.log(4096)))) if len(slices) == 1 else n
                  for n in slices[0].shape)
        if analysis in SLOW:
            ny, nx = min(ny, slices[0].shape[0]), min(nx, slices[0].shape[1])
        y, x = (int(rng.integers(max(n - m, 0) + 1)) for n, m in zip(slices[0].shape, (ny, nx)))
        part = [np.pad(s[y:y + ny, x:x + nx],
                       [(0, max(n - m, 0)) for n, m in zip((ny, nx), s.shape)], "symmetric")
                for s in slices]
        job, parameters = random_parameters(analysis, rng, (len(part), ny, nx), part)
        files = compute("honest", analysis, parameters, part) if job is not None else None
        if files is not None:
            return job, "%s %dx%d" % (name, nx, ny), files


def measure_doubts(names, of):
    """Counts units in doubt, and times checking pixels, including the items that are in doubt: the
    time of check minus that of check --no-pixels."""
    n, sums = int(os.environ.get("UNITS", "1000")) // len(names), {}
    for k in range(n):
        for analysis in names:
            job, name, (file, result) = random_unit(analysis, k, of)
            seed = ["--seed", str(k)]
            blind, _ = seconds(tap.TEXCELL_VALIDATE, "check", "--no-pixels", *seed, file, result)
            again, _ = seconds(tap.TEXCELL_VALIDATE, "verify", "--no-pixels", "--fraction", "1",
                               *seed, file, result)
            look, output = seconds(tap.TEXCELL_VALIDATE, "check", *seed, file, result)
            small = float(re.search(r"needs +(\S+) operations",
                                    seconds(tap.TEXCELL_WU, "show", file)[1])[1]) < FEW
            doubt = re.search(r": (.*); computing it again", output)
            for key in (analysis, ""), (analysis, "small" if small else job), (
                    "all", "small" if small else "large"), ("all", ""):
                of_key = sums.setdefault(key, [0, 0, 0.0, 0.0])
                for i, more in enumerate((1, doubt is not None, look - blind, again - blind)):
                    of_key[i] += more
            if os.environ.get("EACH"):
                print("%s, %s: %s: %.4f of %.4f s%s%s" % (analysis, job, name, look - blind,
                                                          again - blind, ", small" if small else "",
                                                          ": " + doubt[1] if doubt else ""),
                      flush=True)
    for (analysis, job), (units, doubts, look, again) in sorted(sums.items()):
        print("%s%s: %d units, %d in doubt, %.1f%% of %.2f s" %
              (analysis, job and ", " + job, units, doubts, 100 * look / again, again))


def pool_of(analysis, of, flat):
    """Items: parts of pictures with sides of 128 to SIDE, or stacks."""
    rng = np.random.default_rng([43, flat])
    for k in range(40):
        name, slices = of[int(rng.integers(len(of)))]
        n = [int(rng.integers(min(128, m), m + 1)) if flat else m for m in slices[0].shape]
        y, x = (int(rng.integers(m - k + 1)) for m, k in zip(slices[0].shape, n))
        yield item_of(analysis, name,
                      [np.ascontiguousarray(s[y:y + n[0], x:x + n[1]]) for s in slices])


def once(of_picture):
    """A function like of_picture that computes the result of each picture only once; pictures must
    not be changed."""
    known = {}

    def remembered(picture, *more):
        if id(picture) not in known:
            known[id(picture)] = picture, of_picture(picture, *more)
        return known[id(picture)][1]
    return remembered


def measure_cost(names, of):
    """Times units with items of a pool. The number of items is that which takes SECONDS, estimated
    from earlier units."""
    workunit.png, workunit.label_png = once(workunit.png), once(workunit.label_png)
    pools = {(a, flat): list(pool_of(a, [o for o in of if (len(o[1]) == 1) == flat], flat))
             for a in names for flat in (True, False)
             if any((d == 2) == flat for _, d in JOBS[a].values())}
    first, n = int(os.environ.get("FIRST", "0")), int(os.environ.get("UNITS", "1000"))
    file, result, records = (os.path.join(FOLDER, name)
                             for name in ("unit.zip", "unit.npz", "records"))
    rate, sums, estimates = {}, {}, 0
    for k in range(first, first + n):
        analysis, rng = names[k % len(names)], np.random.default_rng([42, k])
        job = rng.choice(sorted(JOBS[analysis]))
        parameters, dimensions = JOBS[analysis][job]
        pool = pools[analysis, dimensions == 2]
        count = min(int(rate.get((analysis, job), 4)), 20000)
        items = [dict(pool[j], name="i%d" % i)
                 for i, j in enumerate(rng.integers(len(pool), size=max(count, 1)))]
        shape = np.min([(len(it["slices"]),) + it["slices"][0].shape for it in items], 0).tolist()
        workunit.write(file, analysis, parameters(shape) if callable(parameters) else parameters,
                       items, pictures_as=zipfile.ZIP_STORED)
        if os.path.exists(result):
            os.remove(result)
        work, _ = seconds(tap.TEXCELL, "run", file, "-o", result, "--device", "cpu", "--quiet",
                          "--threads", "1")
        rate[analysis, job] = len(items) * float(os.environ.get("SECONDS", "20")) / work
        if rate[analysis, job] > 3 * len(items) and len(items) < 20000:
            estimates += 1           # this one only served to estimate the number of items
            continue
        check = [tap.TEXCELL_VALIDATE, "check", "--accepted", records, "--seed"]
        seconds(*check, str(k), "--no-pixels", file, result)   # records the unit's SHA-256
        whole, output = seconds(*check, str(k), file, result)
        blind, _ = seconds(*check, str(k), "--no-pixels", file, result)
        for key in (analysis, job), (analysis, ""), ("all", ""):
            of_key = sums.setdefault(key, [0, 0, 0, 0.0, 0.0, 0.0])
            for i, more in enumerate((1, len(items), output.count("computing it again"),
                                      whole - blind, whole, work)):
                of_key[i] += more
    for (analysis, job), (of_kind, of_items, again, look, whole, work) in sorted(sums.items()):
        print("%s%s: %d units of %d items, %d again: pixels %.2f%%, all of check %.2f%% of %.1f s"
              % (analysis, job and ", " + job, of_kind, of_items // of_kind, again,
                 100 * look / work, 100 * whole / work, work))
    if estimates:
        print("%d of %d units only gave an estimate of how many items take SECONDS%s" %
              (estimates, n, "" if sums else ": give more UNITS, or fewer SECONDS"))


def count_found_lies(analysis, job, parameters, of):
    seen, refused, doubts, honest = [], {"black": [], "grey": [], "another picture": []}, [], 0
    of = list(of)
    for i, (name, slices) in enumerate(of):
        files = compute("honest", analysis, parameters, slices)
        if files is None:
            continue
        runs = [check(*files, seed) for seed in range(SEEDS)]
        assert all(r.returncode == 0 for r in runs), runs
        honest += 1
        doubts += [name] * any("computing it again" in r.stdout for r in runs)
        other = of[(i + 1) % len(of)][1][0]
        lied = {"black": [s * 0 for s in slices], "grey": [np.full_like(s, 77) for s in slices],
                "another picture": [np.resize(other, s.shape).astype(s.dtype) for s in slices]}
        for what, instead in lied.items():
            made = compute("lie", analysis, parameters, instead, slices)
            if made is None:
                continue
            lie = forge.Result(made[1])
            lie.json["workunit"] = forge.Result(files[1]).json["workunit"]
            if lie.bytes() == forge.Result(files[1]).bytes():
                continue               # the result is the same: not forged
            with open(os.path.join(FOLDER, "forged.npz"), "wb") as f:
                f.write(lie.bytes())
            codes = [check(files[0], os.path.join(FOLDER, "forged.npz"), seed).returncode
                     for seed in range(SEEDS)]
            refused[what].append(all(c in (2, 4) for c in codes))
            if not refused[what][-1]:
                seen.append("%s of %s %s" % (what, name, codes))
    print("%s, %s: %s; honest ones in doubt: %d of %d %s" %
          (analysis, job, ", ".join("%s %d of %d" % (w, sum(r), len(r))
           for w, r in refused.items()), len(doubts), honest, doubts), flush=True)
    for line in seen:
        print("    taken: " + line, flush=True)


def main():
    todo, only = sys.argv[1], sys.argv[2:]
    all_of = list(real())
    if todo in ("honest", "units"):
        return {"honest": measure_doubts, "units": measure_cost}[todo](only or sorted(JOBS), all_of)
    for analysis, jobs in JOBS.items():
        for job, (parameters, dimensions) in jobs.items():
            if only and [analysis, job][:len(only)] != only:
                continue
            of = [(n, s) for n, s in all_of if (len(s) > 1) == (dimensions == 3)]
            count_found_lies(analysis, job, parameters, of)


if __name__ == "__main__":
    main()
