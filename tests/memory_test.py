"""The memory that a plan states, which a project gives to BOINC as
rsc_memory_bound, against the largest memory that a run on the CPU had. The
pictures are chosen to need much: noise, and as many regions as there can be."""
import os
import re
import sys

import numpy as np

import tap
from oracle import workunit
from oracle.workunit import item

MIB = 1 << 20
PROGRAM = 8 * MIB          # the program itself, on top of any plan
THREAD = 1.25 * MIB        # and each thread but the first
UNUSED = 96 * MIB          # a plan may be this much, and three times, too large: noise has half the regions
                           # of isolated pixels
WORK = tap.scratch()

# Without a child of its own, a small one, the peak would be this Python's.
LAUNCH = ("import resource, subprocess, sys\n"
          "code = subprocess.run(sys.argv[1:]).returncode\n"
          "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
          "sys.exit(code)\n")


def noise(*shape):
    return np.random.default_rng(1).integers(0, 256, shape).astype(np.uint8)


def chequered(h, w):
    return ((np.indices((h, w)).sum(0) % 2 == 0) * 200).astype(np.uint8)


BOX = {"type": "box", "x0": 100, "y0": 100, "x1": 600, "y1": 600}
CUBE = {"type": "box", "x0": 10, "y0": 10, "x1": 100, "y1": 100, "z0": 0, "z1": 10}
MAPS = [{"feature": f, "levels": 256, "offset": [1, 0]} for f in ("asm", "contrast")]
CASES = [
    ("glcm", {"distances": [1], "roi": {"type": "disc", "r": 40}}, noise(2000, 2500)),
    ("glcm", {"levels": [16], "distances": [1], "roi": {"type": "disc", "r": 20}}, noise(1500, 2000) * np.uint16(257)),
    ("glcm", {"levels": [64], "distances": [1], "window": {"shape": "roi"}}, noise(1500, 2000)),
    ("glcm", {"levels": [256], "distances": [1], "per_offset": True, "window": {"shape": "disc", "radius": 2},
              "maps": MAPS}, noise(500, 500)),
    ("cellcount", {"min_area": 9, "connectivity": 4}, chequered(500, 700).repeat(3, 0).repeat(3, 1)),
    ("cellcount", {"min_area": 1, "connectivity": 4}, chequered(1500, 2000)),
    ("cellcount", {"min_area": 1, "polarity": "bright"}, ((np.indices((1500, 2000)) % 2 == 0).all(0) * 200).astype(np.uint8)),
    ("cellcount", {"min_area": 1, "labels": True, "split": "distance", "fill_holes": True}, noise(1500, 2000)),
    ("cellcount", {"min_area": 1, "threshold": 20000}, noise(1500, 2000) * np.uint16(257)),
    ("levelset", {"target": 128, "epsilon": 60, "iterations": 5, "init": BOX}, noise(1000, 1200)),
    ("levelset", {"target": 128, "epsilon": 60, "iterations": 5, "init": BOX, "band": 4, "smooth": 2,
                  "edge_stop": 0.5}, noise(1000, 1200)),
    ("levelset", {"target": 128, "epsilon": 60, "iterations": 3, "init": CUBE}, noise(32, 200, 200)),
    ("volume", {"membrane": 128, "labels": True}, noise(32, 300, 400)),
    ("volume", {"membrane": 128, "mode": "slices", "repair": {"sigma": 1.5, "threshold": 64}, "min_voxels": 50},
     noise(32, 300, 400)),
    ("voting", {"radius": 4, "sigma": 0, "threshold": 1}, noise(800, 1000)),
    ("voting", {"radius": 10}, noise(500, 600)),
    ("voting", {"radius": 3, "sigma": 0, "threshold": 1}, noise(24, 128, 128)),
]


def peak(unit, threads):
    p = tap.run([sys.executable, "-I", "-S", "-c", LAUNCH, tap.TEXCELL, "run", unit, "-o", unit + ".npz",
                 "--device", "cpu", "--threads", str(threads)])
    if p.returncode != 0:
        raise RuntimeError(p.stderr)
    return int(p.stdout) * 1024


def check(analysis, parameters, pixels):
    unit = os.path.join(WORK, "unit.zip")
    slices = list(pixels) if pixels.ndim == 3 else [pixels]
    workunit.write(unit, analysis, parameters, [item("a", slices)])
    shown = tap.run([tap.TEXCELL_WU, "show", unit]).stdout
    plan = int(re.search(r"(\d+) bytes of memory", shown).group(1))
    title = "%s %s %s" % (analysis, pixels.shape, " ".join(sorted(parameters)))
    for threads in (1, 8):
        used = peak(unit, threads)
        figures = "planned %.1f MiB, used %.1f MiB" % (plan / MIB, used / MIB)
        tap.ok(used <= plan + PROGRAM + (threads - 1) * THREAD, "%s, %d threads: no more than planned (%s)"
               % (title, threads, figures))
    tap.ok(plan <= 3 * used + UNUSED, "%s: nor a plan that keeps it from small computers" % title, figures)


def main():
    if b"__asan_init" in open(tap.TEXCELL, "rb").read():
        tap.skip("memory", "the sanitizers need their own")
        tap.done()
    for case in CASES:
        check(*case)
    known = {line.split(":")[0] for line in tap.run([tap.TEXCELL, "selftest", "--device", "cpu"]).stdout.splitlines()}
    tap.ok(known == {c[0] for c in CASES}, "every analysis is here", known)
    tap.done()


main()
