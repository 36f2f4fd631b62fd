"""`make bench-memory`: compares the memory that a plan states (memory_bytes and that of the
threads, from show --needs) with the peak of a run on the CPU, for real pictures and stacks and for
noise, with the default parameters of analyse. Prints a line for each, and how many ratios are
within 1.0 to 1.3."""
import glob
import json
import os
import subprocess
import sys
import time

import numpy as np
import skimage

import tap

FOLDER = tap.scratch()
THREADS = 2


def tiled(path, side):
    """A picture repeated and mirrored to side x side pixels."""
    picture = skimage.io.imread(path)
    picture = picture if picture.ndim == 2 else picture[..., :3].mean(2).astype(np.uint8)
    both = np.block([[picture, picture[:, ::-1]], [picture[::-1], picture[::-1, ::-1]]])
    out = os.path.join(FOLDER, "tiled_%d.png" % side)
    repeats = [-(-side // n) for n in both.shape]
    skimage.io.imsave(out, np.tile(both, repeats)[:side, :side], check_contrast=False)
    return out


def noise(side):
    out = os.path.join(FOLDER, "noise_%d.png" % side)
    skimage.io.imsave(out, np.random.default_rng(50).integers(0, 256, (side, side), dtype=np.uint8),
                      check_contrast=False)
    return out


def peak_of(command):
    """(exit status, peak memory) of a command. The peak is read from the kernel while the program
    runs, as the peak that a parent process gets afterwards is at least its own."""
    most = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as p:
        while p.poll() is None:
            try:
                with open("/proc/%d/status" % p.pid, encoding="ascii") as f:
                    status = f.read()
            except OSError:
                continue
            if status.startswith("Name:\ttexcell\n") and "VmHWM" in status:
                most = int(status.split("VmHWM:")[1].split()[0]) << 10
            time.sleep(0.001)
    return p.returncode, most


def measure(analysis, title, files, options):
    unit, result = os.path.join(FOLDER, "u.zip"), os.path.join(FOLDER, "r.npz")
    packed = tap.run([tap.TEXCELL_WU, "pack", "--analysis", analysis, *options, "-o", unit, *files])
    if packed.returncode != 0:
        print("%-10s %-34s %s" % (analysis, title, packed.stderr.strip()[-100:]))
        return None
    needs = json.loads(tap.run([tap.TEXCELL_WU, "show", "--needs", unit]).stdout)
    plan = needs["memory_bytes"] + THREADS * needs["thread_bytes"]
    code, used = peak_of([tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--threads",
                          str(THREADS)])
    for name in glob.glob(result + "*"):
        os.remove(name)
    if code != 0:
        print("%-10s %-34s ended with %d" % (analysis, title, code))
        return None
    print("%-10s %-34s planned %8.1f MiB, peak %8.1f MiB: %.2f" % (analysis, title, plan / 2**20,
                                                                   used / 2**20, plan / used))
    sys.stdout.flush()
    return plan / used


def jobs(only):
    """[(analysis, title, files, options)]"""
    sk = os.path.join(os.path.dirname(skimage.__file__), "data")
    pictures = [os.path.join(sk, n) for n in ("ihc.png", "camera.png")]
    pictures += [p for p in map(tap.data, ("count/chula_4.jpg", "crystal/vmxi_big_crystals_3.jpg"))
                 if p]
    large = [tiled(p, side)
             for p, side in ((pictures[0], 3000), (os.path.join(sk, "coins.png"), 5000),
                             (os.path.join(sk, "cell.png"), 8000))]
    stacks = [p for p in map(tap.data, ("volume/membrane_raw.tif", "volume/neubias_nuclei.tif",
                                        "volume/stardist_img3d.tif")) if p]
    roi = ("--param", "window={\"shape\":\"roi\"}")
    split = ("--param", "split=distance", "--param", "smooth=1")
    watershed = ("--param", "method=watershed", "--param", "smooth=2")
    for analysis, options, files in (
            ("cellcount", (), pictures + large), ("cellcount", split, pictures + large),
            ("cellcount", (), [noise(2500)]), ("cellcount", split, [noise(2500)]),
            ("cellcount", ("--param", "split=intensity"), [noise(2500)]),
            ("voting", ("--param", "radius=12"), pictures[:2] + large[:2]),
            ("levelset", ("--param", "iterations=5", "--param", "target=120",
                          "--param", "epsilon=50", "--param", "init={\"type\":\"otsu\"}"),
             pictures[:2] + large[:2] + stacks), ("glcm", roi, pictures[:2] + large),
            ("glcm", roi, stacks), ("volume", (), stacks), ("volume", watershed, stacks),
            ("voting", ("--param", "radius=6"), stacks[:2])):
        for name in files:
            if analysis in only:
                yield (analysis, "%s %s" % (os.path.basename(name),
                                            options[1][:20] if options else ""), [name], options)


def main():
    only = sys.argv[1:] or ["cellcount", "voting", "levelset", "glcm", "volume"]
    ratios = [r for r in (measure(*job) for job in jobs(only)) if r is not None]
    within = sum(1.0 <= r <= 1.3 for r in ratios)
    print("%d of %d within 1.0 to 1.3; least %.2f, most %.2f" % (within, len(ratios), min(ratios),
                                                                 max(ratios)))


if __name__ == "__main__":
    main()
