"""make bench-gpu: labels on a device, compared with cupyx.scipy.ndimage.label and NVIDIA's NPP
(nppiLabelMarkersUF) in the same run, if CuPy and libnppif are installed. Picture (bytes) and labels
are in device memory; texcell's time is that of its kernels, the others' is from event to event.

    gpu_cellcount.py [DEVICE] [WIDTHxHEIGHT...]
"""
import ctypes
import os
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import tap

try:
    import cupy
    from cupyx.scipy import ndimage as gpu_ndimage
except ImportError:
    cupy = None


def smooth(a, size):
    """A box blur along both axes, twice, with wrap-around, by NumPy alone."""
    for axis in (0, 1, 0, 1):
        total = a.copy()
        for shift in range(1, size):
            total += np.roll(a, shift, axis)
        a = total / size
    return a


def masks(height, width):
    rng = np.random.default_rng(1)
    noise = rng.random((height, width), np.float32)
    yield "noise, 50%", noise < 0.5
    yield "noise, 10%", noise < 0.1
    blurred = smooth(noise, 9)
    yield "blobs", blurred > np.median(blurred)
    yield "all cell", np.ones((height, width), bool)


def best_ms(work, repeats=10):
    best = None
    for _ in range(repeats):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        work()
        end.record()
        end.synchronize()
        ms = cupy.cuda.get_elapsed_time(start, end)
        best = ms if best is None else min(best, ms)
    return best


def cupy_ms(mask, connectivity):
    on_device = cupy.asarray(mask)
    structure = cupy.ones((3, 3)) if connectivity == 8 else None
    return best_ms(lambda: gpu_ndimage.label(on_device, structure))


class Size(ctypes.Structure):
    _fields_ = [("width", ctypes.c_int), ("height", ctypes.c_int)]


class Context(ctypes.Structure):
    """NPP's struct NppStreamContext, for stream 0."""
    _fields_ = ([("stream", ctypes.c_void_p)]
                + [(name, ctypes.c_int) for name in ("device", "units", "unit_threads", "threads")]
                + [("shared", ctypes.c_size_t), ("major", ctypes.c_int), ("minor", ctypes.c_int),
                   ("flags", ctypes.c_uint),
                   ("reserved", ctypes.c_int)])


def npp_ms(mask, connectivity):
    """Milliseconds of NPP; None if it is not installed."""
    try:
        library = ctypes.CDLL(os.environ.get("NPPIF", "libnppif.so"))
        label = library.nppiLabelMarkersUF_8u32u_C1R_Ctx
    except (OSError, AttributeError):
        return None
    height, width = mask.shape
    size, room, device = Size(width, height), ctypes.c_size_t(0), cupy.cuda.Device()
    library.nppiLabelMarkersUFGetBufferSize_32u_C1R(size, ctypes.byref(room))
    pixels, labels = cupy.asarray(mask.astype(np.uint8)), cupy.zeros(mask.shape, cupy.uint32)
    buffer = cupy.zeros(room.value, cupy.uint8)
    d, (major, minor) = device.attributes, divmod(int(device.compute_capability), 10)
    context = Context(None, 0, d["MultiProcessorCount"], d["MaxThreadsPerMultiProcessor"],
                      d["MaxThreadsPerBlock"],
                      d["MaxSharedMemoryPerBlock"], major, minor, 0, 0)
    label.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int, Size,
                      ctypes.c_int, ctypes.c_void_p, Context]
    args = (pixels.data.ptr, width, labels.data.ptr, 4 * width, size, 0 if connectivity == 8 else 1,
            buffer.data.ptr, context)
    return best_ms(lambda: label(*args)) if label(*args) == 0 else None


def ratio(peer, ours):
    return "-" if peer is None else "%.3f (%.2f)" % (peer, peer / float(ours))


def main():
    device = sys.argv[1] if len(sys.argv) > 1 else "auto"
    sizes = [tuple(int(v) for v in s.split("x")) for s in sys.argv[2:]] or [(8192, 8192),
                                                                            (4000, 2250)]
    raw = os.path.join(tap.scratch(), "raw")
    bad = 0
    print("%-12s %-11s %4s %10s %15s %15s %10s %12s %9s  %s" % ("size", "mask", "conn", "labels ms",
                                                                "CuPy (ratio)", "NPP (ratio)",
                                                                "regions ms", "all of it ms",
                                                                "no labels", "against the CPU"))
    for width, height in sizes:
        for name, mask in masks(height, width):
            mask.astype(np.uint8).tofile(raw)
            for connectivity in (4, 8):
                run = subprocess.run([os.path.join(tap.BUILD, "tests", "bench", "gpu_cellcount"),
                                      device, str(width),
                                      str(height), str(connectivity), "5", raw],
                                     stdout=subprocess.PIPE,
                                     universal_newlines=True)
                if run.returncode != 0:
                    sys.exit("no device to measure")
                labels, regions, everything, table, same = run.stdout.split()
                bad += same != "same"
                peers = [f(mask, connectivity) if cupy is not None else None
                         for f in (cupy_ms, npp_ms)]
                print("%-12s %-11s %4d %10s %15s %15s %10s %12s %9s  %s" % (
                    "%dx%d" % (width, height), name, connectivity, labels,
                    *[ratio(p, labels) for p in peers], regions,
                    everything, table, same))
                sys.stdout.flush()
    sys.exit(bad > 0)


main()
