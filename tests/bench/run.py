"""make bench: time and memory of glcm, compared with scikit-image.

Environment: TEXCELL_BUILD (the build folder), BENCH_ROUNDS (3), and BENCH_DISTANCES, a JSON list
instead of all 25 distances, for a quick run."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import skimage
from skimage import io

BUILD = os.path.abspath(os.environ["TEXCELL_BUILD"])
HERE = os.path.dirname(os.path.abspath(__file__))
BENCH = os.path.join(BUILD, "tests", "bench", "glcm_bench")
PICTURES = os.path.join(os.path.dirname(skimage.__file__), "data")
ROUNDS = os.environ.get("BENCH_ROUNDS", "3")
DISTANCES = os.environ.get("BENCH_DISTANCES", str(list(range(1, 26))))
MEMORY_LIMIT = 200          # MiB
FEW = "[1,9,17,25]"         # distances with which instructions are counted


def title(text):
    print("\n== " + text)
    sys.stdout.flush()


def output_of(command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


# The peak memory of a child includes what its parent had resident when it was started, and this
# script has loaded NumPy: so a small Python process starts the program.
LAUNCHER = """
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
print(usage.ru_maxrss)
sys.exit(status != 0)
"""


def peak_of(command):
    """Peak resident memory, MiB."""
    return int(output_of([sys.executable, "-ISc", LAUNCHER] + command)) / 1024


# --- memory ---------------------------------------------------------------------------

def large_picture(path):
    """Smooth shapes with noise, 2532 x 2028 of 8 bits."""
    rng = np.random.default_rng(1)
    y, x = np.mgrid[:2028, :2532]
    shape = 128 + 60 * np.sin(x / 70) * np.cos(y / 90) + rng.normal(0, 12, (2028, 2532))
    io.imsave(path, np.clip(shape, 0, 255).astype(np.uint8), check_contrast=False)


def memory_row(folder, what, pictures, *options):
    unit, result = os.path.join(folder, "unit.zip"), os.path.join(folder, "result.npz")
    output_of([os.path.join(BUILD, "texcell-wu"), "pack", "--analysis", "glcm", "-o", unit] +
              list(options) + pictures)
    peak = peak_of([os.path.join(BUILD, "texcell"), "run", unit, "--replace", "-o", result,
                    "--device", "cpu",
                    "--threads", "2", "--quiet"])
    print("%-52s %6.1f MiB" % (what, peak))
    sys.stdout.flush()
    return peak


def memory(folder):
    title("peak memory of texcell run, 2 threads, 2532 x 2028 pixels of 8 bits")
    large = [os.path.join(folder, "large%02d.png" % i) for i in range(20)]
    large_picture(large[0])
    for copy in large[1:]:
        shutil.copy(large[0], copy)
    hcc = memory_row(folder, "preset hcc, 1 image (limit: %d MiB)" % MEMORY_LIMIT, large[:1],
                     "--preset", "hcc",
                     "--param", "distances=" + DISTANCES)
    one = memory_row(folder, "the same with distance 1 only, 1 image", large[:1], "--preset", "hcc",
                     "--param",
                     "distances=[1]")
    many = memory_row(folder, "the same with distance 1 only, 20 images", large, "--preset", "hcc",
                      "--param",
                      "distances=[1]")
    memory_row(folder, "every pixel, distance 1, four directions, 64 grey levels", large[:1],
               "--param", "distances=[1]", "--param", "directions=four", "--param", "levels=[64]")
    print("within the limit: %s; 20 images take %+.1f MiB more than 1" %
          ("yes" if hcc <= MEMORY_LIMIT else "NO", many - one))
    return hcc <= MEMORY_LIMIT


# --- instructions ----------------------------------------------------------------------

def instructions(picture, part, roi):
    """(instructions of a run, including the program's start; number of matrices)."""
    done = subprocess.run(["valgrind", "--tool=cachegrind", "--cache-sim=no",
                           "--cachegrind-out-file=/dev/null",
                           BENCH, picture, "--once", part, "--distances", FEW, "--roi", str(roi)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
    return (int(re.search(r"I\s+refs:\s+([\d,]+)", done.stderr).group(1).replace(",", "")),
            int(done.stdout))


def count_instructions(picture):
    title("instructions per matrix, one thread (valgrind; the same on a busy machine)")
    if shutil.which("valgrind") is None:
        print("left out: there is no valgrind")
        return
    matrices = instructions(picture, "all", 20)[1] - instructions(picture, "all", 10)[1]
    before = 0
    for part in "accumulators", "features", "all":
        # The difference of two sizes: what does not depend on the number of windows cancels out.
        total = (instructions(picture, part, 20)[0] - instructions(picture, part, 10)[0]) / matrices
        name = {"accumulators": "accumulators", "features": "features",
                "all": "statistics over windows"}[part]
        print("%-44s %8.1f" % (name, total - before))
        sys.stdout.flush()
        before = total
    print("%-44s %8.1f" % ("together", before))


def main():
    picture = os.path.join(PICTURES, "gravel.png")
    print("glcm, preset hcc, distances %s" % DISTANCES.replace(" ", ""))
    print("load of this machine: %.1f on %d processors" % (os.getloadavg()[0], os.cpu_count()))
    for name in "gravel", "camera":
        title("time: %s.png" % name)
        with tempfile.TemporaryDirectory(dir=BUILD) as folder:
            subprocess.run([BENCH, os.path.join(PICTURES, name + ".png"), "--rounds", ROUNDS,
                            "--distances", DISTANCES],
                           check=True, cwd=folder)
    count_instructions(picture)
    title("scikit-image")
    sys.stdout.write(output_of([sys.executable, os.path.join(HERE, "skimage_glcm.py")]))
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        good = memory(folder)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
