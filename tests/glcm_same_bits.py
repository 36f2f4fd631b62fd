"""The same work unit gives the same bytes: for 1, 2, 3 and 7 threads, with and
without checkpoints in between, and from other compilers and optimisation
levels (--compilers: only those, and more of them; COMPILERS=all: more of them, too)."""
import os
import shutil
import subprocess
import sys

import numpy as np
import skimage.data

import tap
from oracle import workunit
from oracle.workunit import item

THREADS = (1, 2, 3, 7)
SOME = (("clang", "-O2"),)
EVERY = SOME + (("gcc", "-O0"), ("gcc", "-O1"), ("gcc", "-Os"), ("gcc", "-O3"), ("gcc", "-O3 -march=native"),
                ("clang", "-O0"), ("clang", "-O3 -march=native"))


def jobs(folder, small):
    """{name: work unit}. The small ones are quick enough for -O0."""
    rng = np.random.default_rng(5)
    crop = slice(200, 264)
    camera, brick = skimage.data.camera()[crop, crop], skimage.data.brick()[crop, crop]
    deep = rng.integers(0, 65536, (40, 37)).astype(np.uint16)
    r = 3 if small else 12
    made = {
        "pictures": ({"levels": [16, 32, 64], "distances": [1, 2, 3, 9, 25], "per_offset": True,
                      "roi": {"type": "disc", "r": r},
                      "maps": [{"feature": "imc2", "levels": 64, "offset": [-1, 1]}]},
                     [item("camera", [camera]), item("brick", [brick])]),
        "deep": ({"levels": [7, 256], "range": "image", "distances": [1, 4],
                  "window": {"shape": "square", "radius": 5}, "per_offset": True,
                  "roi": {"type": "mask"}},
                 [item("deep", [deep], [rng.random(deep.shape) < (0.05 if small else 0.5)])]),
        "region": ({"levels": [32], "distances": [1, 2, 3], "window": {"shape": "roi"},
                    "per_offset": True, "roi": {"type": "mask"}},
                   [item("stack", [camera, brick, brick[::-1]],
                         [rng.random(camera.shape) < f for f in (0.9, 0.5, 0.01)])]),
        "thin": ({"levels": [16], "distances": [1, 2], "per_offset": True, "roi": {"type": "all"}},
                 [item("row", [camera[:1]]), item("column", [camera[:, :1]]),
                  item("dot", [camera[:1, :1]])]),
    }
    units = {}
    for name, (parameters, items) in made.items():
        units[name] = os.path.join(folder, "%s%s.zip" % (name, "_small" if small else ""))
        workunit.write(units[name], "glcm", parameters, items)
    return units


def bytes_of(program, unit, result, *options):
    """The result's bytes, or None with the reason shown."""
    if os.path.exists(result):
        os.remove(result)
    run = tap.run([program, "run", unit, "-o", result, "--device", "cpu", "--quiet"] +
                  list(options))
    if run.returncode != 0:
        tap.note("exit %d: %s" % (run.returncode, run.stderr))
        return None
    with open(result, "rb") as f:
        return f.read()


def threads(folder):
    result = os.path.join(folder, "r.npz")
    for name, unit in jobs(folder, False).items():
        first = bytes_of(tap.TEXCELL, unit, result, "--threads", "1")
        for n in THREADS:
            again = bytes_of(tap.TEXCELL, unit, result, "--threads", str(n),
                             "--checkpoint-every", "0.05")
            tap.ok(first is not None and first == again,
                   "%s: %d threads and checkpoints give the bytes of one thread" % (name, n))


def build(folder, compiler, flags):
    """texcell built by another compiler in a folder of its own; None if not."""
    place = os.path.join(folder, (compiler + flags).replace(" ", "").replace("=", ""))
    os.mkdir(place)
    # A make that runs this test must not steer the one started here.
    env = {k: v for k, v in os.environ.items()
           if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "CFLAGS", "CPPFLAGS", "LDFLAGS", "CC")}
    configure = os.path.join(os.path.abspath(tap.SRC), "configure")
    with open(os.path.join(place, "log"), "w+") as log:
        for argv in ([configure, "--without-boinc", "--quiet", "CC=" + compiler,
                      "CFLAGS=" + flags], ["make", "texcell"]):
            if subprocess.call(argv, cwd=place, env=env, stdout=log, stderr=log) != 0:
                log.seek(0)
                tap.note("".join(log.readlines()[-12:]))
                return None
    return os.path.join(place, "texcell")


def compilers(folder, wanted):
    result = os.path.join(folder, "r.npz")
    units = jobs(folder, True)
    first = {name: bytes_of(tap.TEXCELL, unit, result) for name, unit in units.items()}
    for compiler, flags in wanted:
        title = "%s %s" % (compiler, flags)
        if shutil.which(compiler) is None:
            tap.skip(title, "%s is not installed" % compiler)
            continue
        program = build(folder, compiler, flags)
        if program is None:
            tap.ok(False, title + " builds")
            continue
        run = tap.run([program, "selftest", "--device", "cpu"])
        tap.ok(run.returncode == 0, title + ": the known answers of every analysis", run.stderr)
        for name, unit in units.items():
            tap.ok(first[name] is not None and
                   first[name] == bytes_of(program, unit, result, "--threads", "2"),
                   "%s: the same bytes as this build's for %s" % (title, name))


def main():
    folder = tap.scratch()
    every = "--compilers" in sys.argv[1:]
    if not every:
        threads(folder)
    compilers(folder, EVERY if every or os.environ.get("COMPILERS") == "all" else SOME)
    tap.done()


if __name__ == "__main__":
    main()
