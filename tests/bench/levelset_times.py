"""The time of an iteration of levelset, on the CPU and on a device, compared with scipy and CuPy if
they are installed: python3 levelset_times.py [DEVICE] [--device-only]

DEVICE is one of texcell's --device arguments; without it only the CPU is timed.
The time of an iteration is the difference between a long and a short run, the fastest of three
each, so that what happens once cancels out; phi of the two backends is compared bit by bit.
Environment: TEXCELL_BUILD, TEXCELL_DATA as for the tests; BENCH_SIDE (256), the side of the
volume."""
import os
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import levelset_run as ls          # noqa: E402
import tap                         # noqa: E402

SIDE = int(os.environ.get("BENCH_SIDE", "256"))
FOLDER = tempfile.mkdtemp(prefix="levelset-times-")
OUT = os.path.join(FOLDER, "state")
FORCE = {"target": 180, "epsilon": 60, "alpha": 0.003}


def volume():
    z, y, x = np.ogrid[:SIDE, :SIDE, :SIDE]
    image = 60 + 40.0 * x / SIDE + 0 * y + 0 * z
    for cx, cy, cz, r in ((0.4, 0.45, 0.5, 0.25), (0.62, 0.6, 0.45, 0.18), (0.5, 0.3, 0.6, 0.12)):
        inside = (x - cx * SIDE) ** 2 + (y - cy * SIDE) ** 2 + (z -
                                                                cz * SIDE) ** 2 < (r * SIDE) ** 2
        image = np.where(inside, 185.0, image)
    noise = np.random.default_rng(1).normal(0, 8, image.shape)
    return np.clip(image + noise, 0, 255).astype(np.uint8)


def ball(side):
    return {"type": "ball", "cx": 0.45 * side, "cy": 0.45 * side, "cz": 0.5 * side, "r": 0.2 * side}


def unit_of(image, parameters, iterations):
    path = os.path.join(FOLDER, "%d.zip" % iterations)
    return ls.write(path, image, dict(FORCE, **dict(parameters, iterations=iterations)))


def time_run(unit, device, threads):
    """(seconds, last state) of a run."""
    data, time_or_why = ls.state(unit, OUT, device, threads)
    if data is None:
        sys.exit("levelset_times: " + time_or_why)
    return time_or_why, data


def an_iteration(image, parameters, device, threads, n=None):
    """(seconds of one iteration, last state)."""
    n = n or (20 if device == "cpu" else 1000)
    units = [unit_of(image, parameters, k) for k in (n // 4, n + n // 4)]
    short = min(time_run(units[0], device, threads)[0] for _ in range(3))
    runs = [time_run(units[1], device, threads) for _ in range(3)]
    return (min(time for time, _ in runs) - short) / n, runs[0][1]


def show(name, each, voxels, note=""):
    print("%-44s %9.3f ms  %8.2f G voxels/s  %s" % (name, 1e3 * each, voxels / each * 1e-9, note))
    sys.stdout.flush()
    return each


def on(device, threads, image):
    title = "%s, %d threads" % (device, threads) if device == "cpu" else device
    fixed = {"dt": 0.05, "reinit_every": 0, "init": ball(SIDE)}
    plain, _ = an_iteration(image, fixed, device, threads)
    show(title + ": dense, fixed dt", plain, image.size)
    each, _ = an_iteration(image, dict(fixed, dt="cfl"), device, threads)
    show(title + ": dense, cfl", each, image.size)
    both, _ = an_iteration(image, dict(fixed, reinit_every=1), device, threads,
                           4 if device == "cpu" else 200)
    show(title + ": re-initialisation (distances)", both - plain, image.size)
    return plain, both - plain


def brain(device, threads):
    path = tap.data("levelset/colin27_ch2.nii.gz")
    if path is None:
        print("Colin27 is not here")
        return
    image = np.ascontiguousarray(ls.nifti(path))
    p = {"target": 97, "epsilon": 35, "alpha": 0.0185, "smooth": 1, "reinit_every": 0, "dt": "cfl",
         "init": {"type": "ball", "cx": 90, "cy": 108, "cz": 90, "r": 50}}
    title = "%s: Colin27, " % device
    dense = show(title + "dense, cfl", an_iteration(image, p, device, threads)[0], image.size)
    for band in (3, 6, 10):
        each, data = an_iteration(image, dict(p, band=band), device, threads)
        near = np.frombuffer(data, np.uint8)[64 + 4 * image.size + 128:]
        show(title + "band %d, cfl" % band, each, image.size,
             "%.1f times less; %.1f%% of the blocks near" % (dense / each, 100 * (near & 1).mean()))


def start_mask():
    z, y, x = np.ogrid[:SIDE, :SIDE, :SIDE]
    b = ball(SIDE)
    return (x - b["cx"]) ** 2 + (y - b["cy"]) ** 2 + (z - b["cz"]) ** 2 <= b["r"] ** 2


def scipy_distances(image, ours):
    from scipy.ndimage import distance_transform_edt
    mask = start_mask()
    start = time.perf_counter()
    distance_transform_edt(mask)
    distance_transform_edt(~mask)
    each = show("scipy: distances, both sides", time.perf_counter() - start, image.size)
    print("%-44s %9.1f times" % ("re-initialisation on 1 thread is faster by", each / ours))


def cupy_distances(mask, ours):
    """Times CuPy for the distances on both sides, as re-initialisation computes them; each call of
    CuPy gives those on one side."""
    try:
        import cupy
        from cupyx.scipy.ndimage import distance_transform_edt
        inside, outside = cupy.asarray(mask), cupy.asarray(~mask)
    except Exception as why:       # no CuPy, or no device for it
        print("CuPy: not here (%s)" % why)
        return
    both = 0
    for name, side in (("inside", inside), ("outside", outside)):
        times = []
        for _ in range(10):
            cupy.cuda.Device().synchronize()
            start = time.perf_counter()
            distance_transform_edt(side)
            cupy.cuda.Device().synchronize()
            times.append(time.perf_counter() - start)
        each = show("CuPy: distances, %s" % name, sorted(times)[5], mask.size)
        print("%-44s %9.2f times" % ("re-initialisation, both sides, takes of that", ours / each))
        both += each
    print("%-44s %9.2f times" % ("re-initialisation takes of CuPy's both sides", ours / both))


def same_bits(image, device):
    p = {"dt": "cfl", "reinit_every": 20, "init": ball(SIDE)}
    unit = unit_of(image, p, 50)
    states = [time_run(unit, d, 2)[1] for d in ("cpu", device)]
    print("phi on the device %s" % ("is the CPU's, bit for bit" if states[0] == states[1]
                                    else "DIFFERS"))


def main():
    device = sys.argv[1] if len(sys.argv) > 1 else None
    image = volume()
    if "--device-only" not in sys.argv:
        one, distances = on("cpu", 1, image)
        two, _ = on("cpu", 2, image)
        print("%-44s %9.2f times" % ("two threads are faster by", one / two))
        scipy_distances(image, distances)
        brain("cpu", 1)
    if device is None:
        return
    _, distances = on(device, 1, image)
    same_bits(image, device)
    brain(device, 1)
    cupy_distances(start_mask(), distances)


if __name__ == "__main__":
    main()
