"""Tests every analysis whose file in tests/analyses has a function `expected`: each value of the
results of its jobs, and of random jobs, equals that function's."""
import os

import numpy as np

import analyses
import forge
import tap
from oracle import workunit

FOLDER = tap.scratch()


def grey(slices):
    """The slices as integers; of colours the mean of the channels, rounded down."""
    pixels = np.stack(slices)
    return pixels.astype(np.int64).sum(-1) // 3 if pixels.ndim == 4 else pixels.astype(np.int64)


def check(title, name, module, parameters, items):
    """Compares a result with module.expected()."""
    unit, result = os.path.join(FOLDER, "u.zip"), os.path.join(FOLDER, "r.npz")
    workunit.write(unit, name, parameters, items)
    run = tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet"])
    if not tap.ok(run.returncode == 0, title + ": computed", run.stderr):
        return
    got = forge.Result(result).arrays
    os.remove(result)
    wrong = []
    for i, item in enumerate(items):
        for array, value in module.expected(parameters, grey(item["slices"])).items():
            if not np.array_equal(got[array][i], value, equal_nan=True):
                wrong.append("%s, %s: %s, not %s" % (item["name"], array, got[array][i], value))
    tap.ok(not wrong, "%s: %d items" % (title, len(items)), "\n".join(wrong[:20]))


def main():
    for name, module in analyses.each():
        if not hasattr(module, "expected"):
            continue
        for title, (parameters, items) in module.JOBS.items():
            check("%s: %s" % (name, title), name, module, parameters, items)
        for k in range(20):
            parameters, items = module.random_job(np.random.default_rng([5, k]))
            check("%s: random job %d" % (name, k), name, module, parameters, list(items))
    tap.done()


if __name__ == "__main__":
    main()
