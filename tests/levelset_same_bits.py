"""Tests that levelset gives the same bytes with 1, 2, 3 and 7 threads, with every vector width, on
an OpenCL device, and if CPU and device take turns."""
import os

import numpy as np

import levelset_oracle_test as cases
import levelset_run as ls
import tap

EXTRA = {
    "2D, wide, an early end": ((1, 70, 301), 8, {
        "init": {"type": "ball", "cx": 150, "cy": 35, "r": 20}, "stop_after": 14, "alpha": 0.02,
        "dt": 0.01, "reinit_every": 10, "iterations": 2000}),
    "3D band, an early end": ((24, 50, 70), 8, {
        "init": {"type": "ball", "cx": 30, "cy": 25, "cz": 12, "r": 9}, "stop_after": 9,
        "alpha": 0.02, "dt": 0.01, "band": 6, "reinit_every": 7, "iterations": 2000}),
    "3D, cfl, an early end": ((20, 45, 66), 8, {
        "init": {"type": "ball", "cx": 30, "cy": 25, "cz": 10, "r": 8}, "stop_after": 3,
        "iterations": 300, "alpha": 0.004}),
    "3D, 1,000 iterations": ((9, 35, 47), 8, {
        "init": {"type": "ball", "cx": 21, "cy": 15.5, "cz": 4, "r": 6}, "iterations": 1000}),
    "3D band, 1,000 iterations": ((9, 35, 47), 8, {
        "init": {"type": "ball", "cx": 21, "cy": 15.5, "cz": 4, "r": 6}, "iterations": 1000,
        "band": 6}),
    "2D, 1,000 iterations": ((1, 95, 130), 8, {
        "init": {"type": "ball", "cx": 60, "cy": 45, "r": 16}, "iterations": 1000}),
    "2D band, 1,000 iterations": ((1, 95, 130), 8, {
        "init": {"type": "ball", "cx": 60, "cy": 45, "r": 16}, "iterations": 1000, "band": 5}),
    # Squared distances that do not fit 31 bits.
    "very wide": ((1, 3, 47000), 8, {"init": {"type": "box", "x0": 3, "x1": 1000, "y0": 0, "y1": 3},
                                     "iterations": 6, "reinit_every": 3}),
    "very tall": ((1, 47000, 3), 8, {"init": {"type": "box", "x0": 0, "x1": 3, "y0": 3, "y1": 1000},
                                     "iterations": 6, "reinit_every": 3}),
    "2D, the region vanishes": ((1, 40, 50), 8, {
        "init": {"type": "ball", "cx": 25, "cy": 20, "r": 6}, "alpha": 0, "dt": 0.3,
        "iterations": 300, "reinit_every": 20}),
    "2D by Otsu": ((1, 60, 90), 16, {"init": {"type": "otsu"}, "target": "otsu", "polarity": "dark",
                                     "alpha": 0.02}),
    "3D by Otsu, band": ((18, 30, 40), 8, {"init": {"type": "otsu"}, "target": "otsu",
                                           "alpha": 0.02, "band": 4, "smooth": 0.8}),
    "3D band, the region vanishes": ((20, 40, 50), 8, {
        "init": {"type": "ball", "cx": 25, "cy": 20, "cz": 9, "r": 6}, "alpha": 0, "dt": 0.2,
        "iterations": 200, "reinit_every": 20, "band": 4}),
}


def test_case(folder, name, shape, bits, given, missing):
    """Tests one case: the state has the same bytes in all runs. missing: the reason why there is no
    device, or None."""
    image = ls.balls(shape, 3, bits)
    p = dict({"target": 180, "epsilon": 60, "alpha": 0.003, "iterations": 60}, **given)
    mask = ls.balls(shape, 7) > 120 if p["init"]["type"] == "mask" else None
    unit = ls.write(os.path.join(folder, "u.zip"), image, p, mask)
    out = os.path.join(folder, "s")
    first, why = ls.state(unit, out)
    if first is None:
        return tap.ok(False, name, why)
    runs = [("%d threads" % n, ("cpu", n, 0), {}) for n in (2, 3, 7)]
    runs += [(simd, ("cpu", 1, 0), {"TEXCELL_TEST_SIMD": simd})
             for simd in ("scalar", "sse2", "avx2")]
    runs += [("resumed", ("cpu", 2, 1), {})]
    if missing is None:
        # On a device the first steps have 1, 2, 4 ... units.
        steps = 6 if p["iterations"] > 100 else 3
        runs += [("OpenCL", ("opencl", 1, 0), {}),
                 ("CPU and OpenCL in turn", ("opencl,cpu", 2, steps), {})]
    wrong = []
    for title, (device, n, steps), env in runs:
        again, why = ls.state(unit, out, device, n, steps, env)
        if again is None:
            wrong.append("%s: %s" % (title, why))
        elif again != first:
            a, b = (np.frombuffer(d, np.uint8) for d in (first, again))
            wrong.append("%s: %d bytes differ" % (title, (a != b).sum()))
    return tap.ok(not wrong, name, "\n".join(wrong))


def test_large_stack(folder, missing):
    """A stack that does not fit the device's memory: the CPU computes it, and a message says so."""
    if missing is not None:
        return tap.skip("a stack too large for the device", missing)
    unit = ls.write(os.path.join(folder, "u.zip"), ls.balls((20, 90, 100), 3), {
        "target": 180, "epsilon": 60, "iterations": 30,
        "init": {"type": "ball", "cx": 50, "cy": 45, "cz": 10, "r": 9}})
    results = []
    for device in ("cpu", "opencl"):
        out = os.path.join(folder, device + ".npz")
        run = tap.run([tap.TEXCELL, "run", unit, "-o", out, "--device", device],
                      env=dict(os.environ, **tap.opencl_hooks(memory=2 << 20)))
        results.append((run, open(out, "rb").read() if run.returncode == 0 else None))
    output = results[1][0].stderr
    tap.ok("the CPU does this item" in output and " MiB" in output and "phi" in output,
           "a stack too large for the device is computed on the CPU, with a message", output)
    tap.ok(results[0][1] is not None and results[0][1] == results[1][1],
           "a stack too large for the device has the same result as on the CPU alone")


def main():
    folder = tap.scratch()
    missing = ls.opencl_missing()
    for name, (shape, bits, given) in list(cases.CASES.items()) + list(EXTRA.items()):
        test_case(folder, name, shape, bits, given, missing)
    if missing is not None:
        tap.skip("on an OpenCL device", missing)
    test_large_stack(folder, missing)
    tap.done()


if __name__ == "__main__":
    main()
