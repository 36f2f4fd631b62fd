"""mean against NumPy's sums, on jobs by chance and at the limits."""
import os

import numpy as np

import analyses.mean
import forge
import tap
from oracle import workunit

FOLDER = tap.scratch()


def grey(slices):
    pixels = np.stack(slices)
    return pixels.astype(np.int64).sum(-1) // 3 if pixels.ndim == 4 else pixels.astype(np.int64)


def check(title, parameters, items):
    unit, result = os.path.join(FOLDER, "u.zip"), os.path.join(FOLDER, "r.npz")
    workunit.write(unit, "mean", parameters, items)
    run = tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet"])
    if not tap.ok(run.returncode == 0, title + ": computed", run.stderr):
        return
    got = forge.Result(result).arrays
    os.remove(result)
    for i, it in enumerate(items):
        bright = grey(it["slices"])
        bright = bright[bright >= parameters.get("threshold", 0)]
        wanted = bright.sum() / len(bright) if len(bright) else np.nan
        tap.ok(got["pixels"][i] == len(bright) and np.array_equal(got["mean"][i], wanted, equal_nan=True),
               "%s, %s: pixels and mean" % (title, it["name"]), "%s %s" % (len(bright), wanted))


def main():
    for title, (parameters, items) in analyses.mean.JOBS.items():
        check(title, parameters, items)
    for k in range(20):
        parameters, items = analyses.mean.random_job(np.random.default_rng([5, k]))
        check("by chance, %d" % k, parameters, list(items))
    check("the widest row of the brightest", {}, [workunit.item("w", [np.full((2, 65535), 65535, np.uint16)])])
    tap.done()


if __name__ == "__main__":
    main()
