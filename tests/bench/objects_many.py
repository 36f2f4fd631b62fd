"""The most objects that there can be, of one pixel each: processor time and memory of their intensity, from work unit to
result, with one thread.

    objects_many.py [SIDE]

SIDE x SIDE pixels (4096); environment: TEXCELL_BUILD."""
import os
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap                         # noqa: E402
from oracle import workunit        # noqa: E402

SIDE = int((sys.argv + ["4096"])[1])
MOST = (1 << 24) - 1
FOLDER = tap.scratch()


def main():
    grey = np.random.default_rng(1).integers(0, 256, (SIDE, SIDE)).astype(np.uint8)
    labels = np.arange(1, SIDE * SIDE + 1).clip(0, MOST).reshape(SIDE, SIDE)
    unit = workunit.write(os.path.join(FOLDER, "unit.zip"), "objects", {"families": ["intensity"]},
                          [workunit.item("a", [grey], labels=[labels])])
    p = subprocess.Popen([tap.TEXCELL, "run", unit, "-o", os.path.join(FOLDER, "r.npz"), "--device", "cpu", "--threads", "1",
                          "--quiet"])
    _pid, status, usage = os.wait4(p.pid, 0)
    p.returncode = status
    if status:
        sys.exit("texcell failed")
    print("%d objects of one pixel, intensity: %.0f s of a processor, %.1f GiB"
          % (labels.max(), usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 2 ** 20))


if __name__ == "__main__":
    main()
