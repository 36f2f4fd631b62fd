"""What honest computers send is accepted, whatever the work unit: random jobs of
every analysis, with pictures and parameters at their limits too, computed and
then verified. HONEST_JOBS=3000 for as many."""
import os

import numpy as np

import tap
from oracle import workunit
from oracle.workunit import item

FOLDER = tap.scratch()
JOBS = int(os.environ.get("HONEST_JOBS", "150"))
SIDES = [1, 2, 3, 5, 9, 17, 24, 33, 65, 130]


def one_of(rng, *choices):
    return choices[rng.integers(len(choices))]


def some_of(rng, choices, most):
    return [int(v) for v in rng.choice(choices, rng.integers(1, most + 1), replace=False)]


def picture(rng, height, width, bits):
    y, x = np.indices((height, width))
    kind = rng.integers(6)
    if kind == 0:
        p = np.full((height, width), rng.integers(256))
    elif kind == 1:
        p = rng.integers(0, 256, (height, width))
    elif kind == 2:
        p = (y + x) % 2 * 255
    else:
        p = np.full((height, width), 40.0)
        for _ in range(rng.integers(1, 8)):
            cy, cx, s = rng.uniform(0, height), rng.uniform(0, width), rng.uniform(1, 6)
            p += 150 * np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / (2 * s * s))
        p = (p + rng.normal(0, 4, p.shape)).clip(0, 255)
    if bits == 16:
        return (p * 257).astype(np.uint16)
    if bits == 24:
        return np.stack([p, p[::-1], np.roll(p, 1, 1)], -1).astype(np.uint8)
    return p.astype(np.uint8)


def items(rng, stack, masks):
    bits = one_of(rng, 8, 8, 16, 8 if stack else 24)
    for i in range(rng.integers(1, 4)):
        height, width, slices = int(rng.choice(SIDES)), int(rng.choice(SIDES)), int(rng.integers(1, 6)) if stack else 1
        yield item("i%d" % i, [picture(rng, height, width, bits) for _ in range(slices)],
                   [rng.random((height, width)) < 0.5 for _ in range(slices)] if masks else None, stack=stack,
                   spacing=[one_of(rng, 1, 0.5, 1.5), one_of(rng, 1, 0.25), one_of(rng, 1, 0.25, 0.3)] if stack else None)


def glcm(rng):
    roi = one_of(rng, {"type": "all"}, {"type": "disc", "r": int(rng.integers(12))}, {"type": "mask"},
                 {"type": "disc", "cx": 0, "cy": 0, "r": 3})
    p = {"levels": some_of(rng, [2, 3, 8, 16, 64, 256], 2), "distances": some_of(rng, [1, 2, 3, 5, 8, 13, 40], 3),
         "window": one_of(rng, {"shape": "disc", "radius": int(rng.integers(1, 8))},
                          {"shape": "square", "radius": int(rng.integers(1, 6))}, {"shape": "roi"}),
         "directions": one_of(rng, "all", "four"), "per_offset": one_of(rng, True, False),
         "range": one_of(rng, "type", "image", [10, 200]), "roi": roi}
    if p["window"]["shape"] != "roi" and 1 in p["distances"]:
        p["maps"] = [{"feature": str(f), "levels": p["levels"][0], "offset": [1, 0]} for f in rng.choice(
            ["asm", "contrast", "correlation", "variance", "sum_variance", "entropy", "imc1", "imc2"], 2, replace=False)]
    return p, items(rng, one_of(rng, True, False), roi["type"] == "mask")


def cellcount(rng):
    return {"threshold": one_of(rng, "otsu", int(rng.integers(256))), "polarity": one_of(rng, "dark", "bright"),
            "connectivity": one_of(rng, 4, 8), "fill_holes": one_of(rng, True, False), "min_area": one_of(rng, 1, 1, 3, 10),
            "max_area": one_of(rng, None, 50), "exclude_border": one_of(rng, True, False),
            "split": one_of(rng, "none", "distance"), "labels": one_of(rng, True, False)}, items(rng, False, False)


def levelset(rng):
    stack, masks = one_of(rng, True, False), one_of(rng, True, False)
    ball = {"type": "ball", "cx": 2, "cy": 2, "r": 2.5, **({"cz": 1} if stack else {})}
    return {"target": int(rng.integers(20, 220)), "epsilon": int(rng.integers(5, 90)), "alpha": one_of(rng, 0.003, 0.05, 1),
            "iterations": one_of(rng, 0, 1, 7, 60), "reinit_every": one_of(rng, 0, 5, 50), "band": one_of(rng, 0, 3, 6),
            "stop_after": one_of(rng, 0, 1, 3), "smooth": one_of(rng, 0, 1.5),
            "init": {"type": "mask"} if masks else ball}, items(rng, stack, masks)


def voting(rng):
    return {"radius": one_of(rng, 1, 2.5, 4, 7), "sigma": one_of(rng, 0, 1, 2), "polarity": one_of(rng, "dark", "bright"),
            "threshold": one_of(rng, "auto", 0, int(rng.integers(5000))), "refine": one_of(rng, True, False),
            "cone": one_of(rng, 90, 45, 22.5), "weight": one_of(rng, "root", "gradient"),
            "floor": one_of(rng, 0, 3)}, items(rng, one_of(rng, True, False), False)


def volume(rng):
    return {"membrane": int(rng.integers(30, 230)), "mode": one_of(rng, "slices", "3d"), "min_voxels": one_of(rng, 1, 5),
            "repair": one_of(rng, None, {"sigma": 1.0, "threshold": int(rng.integers(30, 150))}),
            "max_voxels": one_of(rng, None, 200), "exclude_border": one_of(rng, True, False),
            "labels": one_of(rng, True, False)}, items(rng, True, False)


def main():
    unit, result = os.path.join(FOLDER, "u.zip"), os.path.join(FOLDER, "r.npz")
    for make in (glcm, cellcount, volume, levelset, voting):
        accepted, wrong, known = 0, [], True
        for k in range(JOBS // 4):
            parameters, some = make(np.random.default_rng([27, k]))
            workunit.write(unit, make.__name__, parameters, list(some))
            if os.path.exists(result):
                os.remove(result)
            run = tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet"])
            if "is not known to this version" in run.stderr:
                known = False
                break
            if run.returncode == 2:
                continue        # a start without an interface, a spacing too uneven: no result, nothing to accept
            run = tap.run([tap.TEXCELL_VALIDATE, "verify", "--fraction", "0.3", "--seed", "1", unit, result])
            accepted += run.returncode == 0
            if run.returncode != 0:
                wrong.append("job %d, %s: exit %d\n%s%s" % (k, parameters, run.returncode, run.stdout, run.stderr))
        if not known:
            tap.skip(make.__name__, "this build does not have it")
            continue
        tap.ok(accepted > JOBS // 8 and not wrong, "%s: %d honest results are accepted" % (make.__name__, accepted),
               "\n".join(wrong[:5]))
    tap.done()


if __name__ == "__main__":
    main()
