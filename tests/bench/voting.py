"""Measures two ratios of times of voting on the CPU: a direct evaluation of the same scheme in
NumPy (tests/oracle) to texcell, and texcell with one thread to texcell with two. Environment:
TEXCELL_BUILD (the build folder)."""
import os
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from oracle import voting_oracle
from oracle.workunit import item, write

TEXCELL = os.path.join(os.environ["TEXCELL_BUILD"], "texcell")


def balls(shape, radius, count):
    rng = np.random.default_rng(1)
    image = np.full(shape, 40.0)
    for _ in range(count):
        c = [int(rng.integers(0, n)) for n in shape]
        box = tuple(slice(max(0, a - radius - 1), min(n, a + radius + 2)) for a, n in zip(c, shape))
        grid = np.mgrid[box]
        d = np.sqrt(sum((grid[a] - c[a]) ** 2 for a in range(len(shape))))
        image[box] = np.maximum(image[box], 40 + 100 * np.clip(radius + 0.5 - d, 0, 1))
    return np.clip(image + rng.normal(0, 8, shape), 0, 255).astype(np.uint8)


def program(unit, folder, threads):
    """(wall seconds, processor seconds) of the whole program, the best of three."""
    best = (1e9, 1e9)
    for _ in range(3):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([TEXCELL, "run", unit, "--replace", "-o", os.path.join(folder, "r.npz"),
                        "--device", "cpu", "--threads",
                        str(threads), "--quiet"], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, (time.perf_counter() - start,
                          after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime))
    return best


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "u.zip")
    for shape, radius, count in (((160, 160), 12, 30), ((24, 40, 40), 6, 15)):
        image = balls(shape, radius, count)
        write(path, "voting", {"radius": radius},
              [item("a", [image] if image.ndim == 2 else list(image))])
        start = time.process_time()
        voting_oracle.run(image, {"radius": radius})
        numpy_time = time.process_time() - start
        ours = program(path, folder, 1)[1]
        print("%s, radius %d: NumPy %.2f s, texcell %.3f s of one processor: %.0f times"
              % (shape, radius, numpy_time, ours, numpy_time / ours), flush=True)
    for shape, radius, count in (((2048, 2048), 12, 3000), ((96, 160, 160), 8, 400)):
        image = balls(shape, radius, count)
        write(path, "voting", {"radius": radius},
              [item("a", [image] if image.ndim == 2 else list(image))])
        one, two = program(path, folder, 1)[0], program(path, folder, 2)[0]
        print("%s, radius %d: one thread %.2f s, two %.2f s: %.2f times" %
              (shape, radius, one, two, one / two), flush=True)
