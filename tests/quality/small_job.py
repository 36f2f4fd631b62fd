"""Runs a small job from end to end with every program, for builds and tools that report faults
(sanitizers, valgrind). Each step must have its exit code and no report."""
import os
import re

import numpy as np

import analyses
import tap
from oracle import workunit

REPORT = re.compile(r"Sanitizer|runtime error:|^==\d+==", re.MULTILINE)


class Watched:
    """The programs of a build, run with a prefix to the command line."""

    def __init__(self, title, build, prefix=(), env=None):
        self.title, self.build, self.prefix = title, build, list(prefix)
        self.env = dict(os.environ, **(env or {}))
        self.folder = tap.scratch()

    def path(self, name):
        return os.path.join(self.folder, name)

    def step(self, what, code, program, *argv, **env):
        p = tap.run(self.prefix + [os.path.join(self.build, program)] + [str(a) for a in argv],
                    env=dict(self.env, **env), cwd=self.folder)
        tap.ok(p.returncode == code and not REPORT.search(p.stderr), "%s: %s" % (self.title, what),
               "exit %d, not %d\n%s" % (p.returncode, code, p.stderr[-6000:]))
        return p

    def same(self, what, a, b):
        with open(self.path(a), "rb") as f, open(self.path(b), "rb") as g:
            tap.ok(f.read() == g.read(), "%s: %s" % (self.title, what))


def make_files(w):
    rng = np.random.default_rng(7)
    for name, image in (("a", rng.integers(0, 256, (50, 60)).astype(np.uint8)),
                        ("b", rng.integers(0, 65536, (40, 45)).astype(np.uint16)),
                        ("c", rng.integers(0, 256, (45, 40, 3)).astype(np.uint8))):
        with open(w.path(name + ".png"), "wb") as f:
            f.write(workunit.png(image))
    stack = [rng.integers(0, 256, (30, 35)).astype(np.uint8) for _ in range(3)]
    masks = [rng.random((30, 35)) < 0.4 for _ in range(3)]
    workunit.write(w.path("stack.zip"), "glcm",
                   {"levels": [8, 256], "distances": [1, 2], "directions": "four",
                   "roi": {"type": "mask"}, "range": "image",
                    "window": {"shape": "square", "radius": 4}},
                   [workunit.item("s", stack, masks)])
    workunit.write(w.path("roi.zip"), "glcm",
                   {"levels": [16], "distances": [1], "window": {"shape": "roi"}},
                   [workunit.item("s", stack), workunit.item("t", stack[:1])])
    with open(w.path("stack.zip"), "rb") as f:
        whole = f.read()
    with open(w.path("short.zip"), "wb") as f:
        f.write(whole[:len(whole) // 2])
    with open(w.path("flipped.zip"), "wb") as f:
        f.write(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
    workunit.write(w.path("wrong.zip"), "glcm", {"levels": [1]}, [workunit.item("s", stack)])


def good(w):
    w.step("pack", 0, "texcell-wu", "pack", "--analysis", "glcm", "--param", "levels=[16,64]",
           "--param",
           "distances=[1,4]", "--param", 'window={"shape":"disc","radius":5}', "--param",
           "per_offset=true", "--param",
           'maps=[{"feature":"imc2","levels":64,"offset":[1,0]}]', "-o", "u.zip", "a.png", "b.png",
           "c.png")
    w.step("show a work unit", 0, "texcell-wu", "show", "u.zip")
    for unit in ("u", "stack", "roi"):
        w.step("run %s.zip" % unit, 0, "texcell", "run", unit + ".zip", "-o", unit + ".npz",
               "--device", "cpu",
               "--threads", 3)
        w.step("check %s.npz" % unit, 0, "texcell-validate", "check", unit + ".zip", unit + ".npz")
        w.step("verify %s.npz" % unit, 0, "texcell-validate", "verify", "--fraction", "0.1",
               "--threads", "2", unit + ".zip",
               unit + ".npz")
    for steps in (1, 4):
        w.step("interrupted after %d" % steps, 3, "tests/texcell_test", "run", "u.zip", "-o",
               "again.npz", "--device", "cpu",
               "--threads", 3, TEXCELL_TEST_QUIT_AFTER_STEPS=str(steps),
               TEXCELL_TEST_SHORT_STEPS="1",
               TEXCELL_TEST_CHECKPOINT_EVERY_CALLS="1")
    w.step("go on", 0, "tests/texcell_test", "run", "u.zip", "-o", "again.npz", "--device", "cpu",
           "--threads", 2,
           TEXCELL_TEST_CHECKPOINT_EVERY_CALLS="1")
    w.same("the same result", "u.npz", "again.npz")
    w.step("compare equals", 0, "texcell-validate", "compare", "u.npz", "again.npz")
    w.step("as scripts: try later", 3, "texcell-validate", "script-init", "u.npz")
    w.step("as scripts: a match", 0, "texcell-validate", "script-compare", "u.npz", "again.npz")
    w.step("compare others", 4, "texcell-validate", "compare", "u.npz", "stack.npz")
    w.step("show a result", 0, "texcell-wu", "show", "u.npz")
    w.step("export", 0, "texcell-wu", "export", "u.npz", "-o", "exported")
    w.step("selftest", 0, "texcell", "selftest", "--device", "cpu")
    if os.path.exists(os.path.join(w.build, "texcell-assimilate")):
        data_set(w)


def data_set(w):
    """Stores units with and without their work unit, again, refused and failed; exports them."""
    for unit in ("u", "stack", "roi"):
        w.step("assimilate %s.npz" % unit, 0, "texcell-assimilate", "--db", "d.sqlite",
               unit + ".zip", unit + ".npz")
    w.step("assimilate once more", 0, "texcell-assimilate", "script", "--db", "d.sqlite", 7,
           "u.npz")
    w.step("refuse a result", 0, "texcell-assimilate", "script", "--db", "d.sqlite", 8, "u.zip")
    w.step("refuse it by hand", 2, "texcell-assimilate", "--db", "d.sqlite", "stack.zip", "u.npz")
    w.step("record a failed unit", 0, "texcell-assimilate", "script", "--db", "d.sqlite", "--error",
           3, "x", 9, 0)
    w.step("what is no data set", 3, "texcell-assimilate", "script", "--db", "u.zip", 7, "u.npz")
    w.step("export the data set", 0, "texcell-assimilate", "export", "--db", "d.sqlite", "-o",
           "tables")


def each_analysis(w, most):
    """Runs at most `most` tiny jobs of every analysis, with threads, and has the validator compute
    them again."""
    for name, of in analyses.each():
        for i, (parameters, items) in enumerate(of.SEEDS[:most]):
            unit, result = "%s_%d.zip" % (name, i), "%s_%d.npz" % (name, i)
            workunit.write(w.path(unit), name, parameters, items)
            w.step("run " + unit, 0, "texcell", "run", unit, "-o", result, "--device", "cpu",
                   "--threads", 3)
            w.step("verify " + result, 0, "texcell-validate", "verify", "--fraction", 1, unit,
                   result)
            w.step("export " + result, 0, "texcell-wu", "export", result, "--images", unit, "-o",
                   "exported_" + unit)


def bad(w):
    for unit in ("short", "flipped", "wrong", "missing"):
        w.step("refuse %s.zip" % unit, 2, "texcell", "run", unit + ".zip", "-o", "bad.npz",
               "--device", "cpu")
    w.step("check another's result", 2, "texcell-validate", "check", "stack.zip", "u.npz")
    w.step("check a work unit as result", 2, "texcell-validate", "check", "u.zip", "stack.zip")
    w.step("show what is neither", 2, "texcell-wu", "show", "short.zip")
    w.step("pack nothing", 1, "texcell-wu", "pack", "--analysis", "glcm", "-o", "n.zip")
    w.step("pack what is no picture", 2, "texcell-wu", "pack", "--analysis", "glcm", "-o", "n.zip",
           "u.zip")
    w.step("an output that cannot be", 3, "texcell", "run", "u.zip", "-o", "none/x.npz", "--device",
           "cpu")


def run(w, most=None):
    make_files(w)
    good(w)
    each_analysis(w, most)
    bad(w)
