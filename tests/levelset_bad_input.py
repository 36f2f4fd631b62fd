"""Tests that levelset refuses wrong parameters and unsuitable pictures with a message that names
the parameter, and writes no result."""
import os


import levelset_run as ls
import tap
from oracle import workunit

FOLDER = tap.scratch()
UNIT, OUT = os.path.join(FOLDER, "u.zip"), os.path.join(FOLDER, "r.npz")
FLAT, DEEP = ls.balls((1, 30, 40)), ls.balls((6, 20, 30))
BOX = {"type": "box", "x0": 5, "y0": 5, "x1": 20, "y1": 15}
GOOD = {"target": 180, "epsilon": 50, "iterations": 20, "init": BOX}


def check_refused(name, words, change, image=FLAT, mask=None, code=2):
    """Tests that a run with one change of the GOOD parameters is refused; the value ... (Ellipsis)
    leaves the parameter out."""
    parameters = dict(GOOD, **change)
    parameters = {k: v for k, v in parameters.items() if v is not Ellipsis}
    ls.write(UNIT, image, parameters, mask)
    run = tap.run([tap.TEXCELL, "run", UNIT, "-o", OUT, "--device", "cpu", "--quiet"])
    tap.ok(run.returncode == code and words in run.stderr and "u.zip" in run.stderr
           and not os.path.exists(OUT), name, "exit %d: %s" % (run.returncode, run.stderr))


def test_parameters():
    for key in ("target", "epsilon", "init"):
        check_refused("no " + key, "parameters.%s: is required" % key, {key: Ellipsis})
    for key, value in (("alpha", -0.1), ("alpha", 1.001), ("alpha", "x"), ("epsilon", 0),
                       ("epsilon", 1e-60),
                       ("epsilon", -3), ("target", -1), ("target", 70000), ("iterations", -1),
                       ("iterations", 1.5), ("iterations", 10 ** 9), ("dt", 0), ("dt", -1),
                       ("dt", "fast"),
                       ("dt", 1e9), ("reinit_every", -1), ("band", 2), ("band", -6), ("band", 5000),
                       ("smooth", -1), ("smooth", 21), ("edge_stop", -0.5), ("stop_after", -1),
                       ("stop_after", None), ("init", "box"), ("init", {})):
        check_refused("%s %r" % (key, value), "parameters." + key, {key: value})
    check_refused("an unknown key", 'unknown key "tagret"', {"tagret": 1})
    for change, words in (({"x1": 5}, "x1 must be above x0"), ({"y1": 3}, "y1 must be above y0"),
                          ({"x0": -1}, "init.x0"), ({"r": 3}, 'init.r: goes only with type "ball"'),
                          ({"x1": 70000}, "init.x1")):
        check_refused("a box with %r" % change, words, {"init": dict(BOX, **change)})
    check_refused("a ball without r", "init.r: is required",
                  {"init": {"type": "ball", "cx": 3, "cy": 3}})
    check_refused("another start", "init.type", {"init": {"type": "star"}})


def test_starts():
    """Starts that exceed the picture, or have no interface."""
    check_refused("a box beyond the picture", "reaches beyond", {"init": dict(BOX, x1=41)})
    check_refused("a box that fills the picture", "fills the whole picture",
                  {"init": {"type": "box", "x0": 0, "y0": 0, "x1": 40, "y1": 30}})
    check_refused("a ball with no voxel", "no voxel inside",
                  {"init": {"type": "ball", "cx": 200, "cy": 10, "r": 5}})
    check_refused("a ball that fills the picture", "fills the whole picture",
                  {"init": {"type": "ball", "cx": 20, "cy": 15, "r": 500}})
    check_refused("an empty mask", "no voxel inside", {"init": {"type": "mask"}}, mask=FLAT * 0)
    check_refused("a full mask", "fills the whole picture", {"init": {"type": "mask"}},
                  mask=FLAT * 0 + 1)
    check_refused("no mask", "has no mask", {"init": {"type": "mask"}})
    check_refused("a mask for a box", "has a mask", {}, mask=FLAT > 100)
    check_refused("z for a picture", "has a z", {"init": dict(BOX, z0=0, z1=1)})
    check_refused("no z for a stack", "has no z", {}, image=DEEP)


def test_divergence():
    """phi overflows: the message names the iteration, the same on every device."""
    check_refused("an infinite phi", "no longer finite after iteration", {"dt": 900, "alpha": 1,
                                                                          "iterations": 1000})
    messages = set()
    for device in ["cpu"] + (["opencl"] if ls.opencl_missing() is None else []):
        for change in ({}, {"band": 4}):
            ls.write(UNIT, DEEP, dict(GOOD, dt=50, alpha=0.5, iterations=500,
                                      init=dict(BOX, z0=1, z1=4), **change))
            data, why = ls.state(UNIT, OUT, device, threads=2)
            tap.ok(data is None and "no longer finite after iteration" in why,
                   "%s: phi that overflows with %r is an error" % (device, change), why)
            messages.add((str(change), why))
    tap.ok(len(messages) == 2, "every device names the same iteration", messages)


def test_slices():
    """A stack whose slices differ in size."""
    item = workunit.item("it", [DEEP[0], DEEP[1][:-1]])
    workunit.write(UNIT, "levelset", dict(GOOD, init=dict(BOX, z0=0, z1=1)), [item])
    run = tap.run([tap.TEXCELL, "run", UNIT, "-o", OUT, "--device", "cpu", "--quiet"])
    tap.ok(run.returncode == 2 and "u.zip" in run.stderr and not os.path.exists(OUT),
           "slices that differ in size are refused", run.stderr)


def main():
    test_parameters()
    test_starts()
    test_divergence()
    test_slices()
    tap.done()


if __name__ == "__main__":
    main()
