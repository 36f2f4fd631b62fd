"""Labels of a 256^3 stack by texcell and by scipy.ndimage.label with the same connectivity, in turn
in the same run; labels of a watershed, compared with scikit-image's Gaussian, h-minima and
watershed. With a DEVICE also on that, compared with cupyx.scipy.ndimage.label if CuPy is installed.

    volume.py [DEVICE [SIDE]]

Processor time of one thread, wall time of two. Memory for the labels is allocated anew each time.
On a device voxels and labels are in device memory, and transfers are not counted. Environment:
TEXCELL_BUILD; BENCH_ROUNDS (7)."""
import os
import subprocess
import sys
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap                         # noqa: E402

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "7"))
IN_SLICES = np.zeros((3, 3, 3), int)
IN_SLICES[1] = [[0, 1, 0], [1, 1, 1], [0, 1, 0]]
STRUCTURES = {"3d": None, "slices": IN_SLICES}


def smooth(a, size):
    for axis in (0, 1, 2, 0, 1, 2):
        total = a.copy()
        for shift in range(1, size):
            total += np.roll(a, shift, axis)
        a = total / size
    return a


def stacks(n):
    """(name, membrane) of stacks of at most 256^3 voxels, repeated to n^3."""
    block = min(n, 256)
    for name, mask in blocks(block):
        yield name, np.tile(mask, (n // block,) * 3)


def blocks(n):
    """(name, membrane): shells in rows; a foam (walls where the two nearest of many seeds are
    equally far); crumpled sheets; and noise."""
    z, y, x = np.ogrid[:n, :n, :n]
    cell = [(v % 64 - 32) ** 2 for v in (z, y, x)]
    far = sum(cell)
    yield "shells", (far < 28 ** 2) & (far >= 25 ** 2)
    rng = np.random.default_rng(1)
    nearest = np.full((2, n, n, n), np.inf, np.float32)
    for seed in rng.random((40, 3), np.float32) * n:
        d = np.sqrt(sum((v - s) ** 2 for v, s in zip((z, y, x), seed))).astype(np.float32)
        nearest[1] = np.minimum(nearest[1], np.maximum(nearest[0], d))
        nearest[0] = np.minimum(nearest[0], d)
    yield "foam", nearest[1] - nearest[0] < 4
    noise = rng.random((n, n, n), np.float32)
    sheets = smooth(noise, 9)
    yield "sheets", np.abs(sheets - sheets.mean()) < 0.15 * sheets.std()
    yield "noise, 50%", noise < 0.5


def ours(path, n, mode, device="cpu", threads=1, rounds=1):
    run = subprocess.run([os.path.join(tap.BUILD, "tests", "bench", "volume_bench"), device, str(n),
                          str(n), str(n),
                          mode, str(threads), str(rounds), path], stdout=subprocess.PIPE,
                         universal_newlines=True)
    if run.returncode != 0:
        sys.exit("volume_bench: exit %d" % run.returncode)
    labels, everything, table, cells, same = run.stdout.split()
    if same != "same":
        sys.exit("the labels differ: %s" % run.stdout)
    return np.array([float(labels), float(everything), float(table)]), int(cells)


def measure_cpu(name, path, mask, n):
    from scipy import ndimage
    empty = ~mask
    for mode, structure in STRUCTURES.items():
        best, peer = np.full(3, np.inf), np.inf
        for _ in range(ROUNDS):
            best = np.minimum(best, ours(path, n, mode)[0])
            start = time.process_time()
            ndimage.label(empty, structure)
            peer = min(peer, 1e3 * (time.process_time() - start))
        two = min(ours(path, n, mode, threads=2)[0][0] for _ in range(3))
        print("%-12s %-6s %9.1f %9.1f %9.1f %8.1f %6.2f" % (name, mode, best[0], best[1], two, peer,
                                                            peer / best[0]))
        sys.stdout.flush()


def cells_in_noise(mask, n):
    """Grey values of a foam with the mask's walls, blurred, with noise."""
    rng = np.random.default_rng(2)
    block = mask[:min(n, 256), :min(n, 256), :min(n, 256)]
    walls = smooth(block.astype(np.float32),
                   3) * 60 + 40 + rng.normal(0, 6, block.shape).astype(np.float32)
    return np.tile(np.clip(walls, 0, 255).astype(np.uint8), (n // len(block),) * 3)


def watershed(path, grey, n, device):
    """Compares watersheds. scikit-image's h-minima and watershed are timed together, and its
    Gaussian separately; texcell's time includes its own."""
    grey.tofile(path)
    if device is not None:
        one, cells = ours(path, n, "watershed", device, 16, 3)
        cpu = ours(path, n, "watershed", "cpu", 16, 3)[0]
        print("watershed: kernels %.1f, all of it %.1f, to the table %.1f; 16 CPU threads %.1f, "
              "all of it %.1f; %.1f and %.1f times; %d cells, those of the CPU" %
              (one[0], one[1], one[2], cpu[0], cpu[1], cpu[0] / one[0], cpu[1] / one[1], cells))
        return
    from skimage import filters, measure, morphology, segmentation
    best, cells = min((ours(path, n, "watershed") for _ in range(3)), key=lambda t: t[0][0])
    times = [time.process_time()]
    blurred = filters.gaussian(grey, 1.5, preserve_range=True)
    times.append(time.process_time())
    found = segmentation.watershed(blurred, measure.label(morphology.h_minima(blurred, 2))).max()
    times.append(time.process_time())
    gauss, flood = 1e3 * np.diff(times)
    print("watershed: texcell %.0f, scikit-image %.0f (its Gaussian %.0f more): %.1f times; %d "
          "and %d cells" % (
              best[0], flood, gauss, flood / best[0], cells, found))


def cupy_ms(mask, structure):
    try:
        import cupy
        from cupyx.scipy import ndimage
    except ImportError:
        return None
    on_device = cupy.asarray(~mask)
    best = np.inf
    for _ in range(10):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        ndimage.label(on_device, structure)
        end.record()
        end.synchronize()
        best = min(best, cupy.cuda.get_elapsed_time(start, end))
    return best


def measure_device(name, path, mask, n, device):
    for mode, structure in STRUCTURES.items():
        t, cells = ours(path, n, mode, device, 16, 3)
        peer = cupy_ms(mask, structure)
        print("%-12s %-6s %9.3f %9.1f %9.1f %8s %6s  %d cells, those of the CPU" % (
            name, mode, t[0], t[1], t[2], "-" if peer is None else "%.2f" % peer,
            "-" if peer is None else "%.2f" % (peer / t[0]), cells))
        sys.stdout.flush()


def main():
    device = sys.argv[1] if len(sys.argv) > 1 else None
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 256
    path = os.path.join(tap.scratch(), "raw")
    print("%d^3 voxels, milliseconds" % n)
    if device is None:
        print("%-12s %-6s %9s %9s %9s %8s %6s" % ("stack", "mode", "labels", "and table",
                                                  "2 threads", "scipy", "ratio"))
    else:
        print("%-12s %-6s %9s %9s %9s %8s %6s" % ("stack", "mode", "labels", "all of it",
                                                  "to table", "CuPy", "ratio"))
    for name, mask in stacks(n):
        if name == "foam":
            watershed(path, cells_in_noise(mask, n), n, device)
        mask.astype(np.uint8).tofile(path)
        if device is None:
            measure_cpu(name, path, mask, n)
        else:
            measure_device(name, path, mask, n, device)


main()
