"""make bench-python: the CPU time of texcell.analyse without that of the programs that it runs."""
import os
import resource
import statistics
import subprocess
import sys

import numpy as np

import tap

sys.path.insert(0, os.path.join(tap.SRC, "workunits", "python"))
os.environ["TEXCELL"] = tap.BUILD
import texcell  # noqa: E402
from texcell import _call  # noqa: E402

OPTIONS = {"defaults": True, "threads": 1, "device": "cpu", "progress": False}


def spots(n, size):
    """Images of dark spots on a bright background, with noise."""
    rng = np.random.default_rng(1)
    near = np.exp(-np.sum((np.indices((13, 13)) - 6) ** 2, 0) / 12)
    images = {}
    for i in range(n):
        image = rng.normal(200, 4, (size, size))
        for y, x in rng.integers(0, size - 13, (size * size // 1500 + 2, 2)):
            image[y:y + 13, x:x + 13] -= 60 * near
        images["image%04d" % i] = np.clip(image, 0, 255).astype(np.uint8)
    return images


def cpu(work):
    """Milliseconds of CPU time of this process and its children."""
    def now():
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(u.ru_utime + u.ru_stime for u in used)
    before = now()
    work()
    return 1000 * (now() - before)


def commands(folder, words):
    """([pack and run], [the export of the marks]): the commands that the call runs."""
    unit, result = (os.path.join(folder, name) for name in ("workunit.zip", "result.npz"))
    return ([["texcell-wu", "pack", "-o", unit, *words],
             ["texcell", "run", unit, "-o", result, "--replace", "--device", "cpu", "--threads",
              "1"]],
            [["texcell-wu", "export", result, "--marks", unit, "--only-marks", "-o",
              os.path.join(folder, "marks")]])


def run(lines):
    for program, *arguments in lines:
        subprocess.run([os.path.join(tap.BUILD, program), *arguments], check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)


def measure(folder, n, size, pairs):
    images = spots(n, size)
    times = []
    with _call._packed(images, "cellcount") as (words, _, _):
        both, marks = commands(folder, words)
        for i in range(pairs + 1):  # the first warms up
            call = cpu(lambda: texcell.analyse(images, "cellcount", **OPTIONS))
            times += [(call, cpu(lambda: run(both)), cpu(lambda: run(marks)))] * (i > 0)
    call, alone, marks = (statistics.median(column) for column in zip(*times))
    own = statistics.median(t[0] - t[1] - t[2] for t in times)
    more = statistics.median(t[0] - t[1] for t in times)
    print("%5d of %3d x %-3d  %7.1f  %7.1f  %5.1f  %5.1f ms %5.1f%%  %5.1f ms %5.1f%%" % (
        n, size, size, call, alone, marks, own, 100 * own / (alone + marks), more,
        100 * more / alone))


if __name__ == "__main__":
    texcell.analyse(spots(1, 64), **OPTIONS)
    print("CPU ms, medians       call  pack+run  marks  besides all three  besides pack and run")
    for n, size, pairs in ((1, 64, 30), (1000, 64, 15), (1000, 200, 7)):
        measure(tap.scratch(), n, size, pairs)
