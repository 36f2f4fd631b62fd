"""Makes work units for the tests with a client: of scikit-image's images, with as much work as this
machine does in a given time."""
import math
import os

import skimage

import tap

TRIAL_RADIUS = 30
PICTURES = ["camera", "brick", "grass", "gravel", "moon", "coins", "cell", "clock_motion",
            "coffee", "astronaut", "chelsea"]


def pack(path, pictures, radius):
    folder = os.path.join(os.path.dirname(skimage.__file__), "data")
    done = tap.run([tap.TEXCELL_WU, "pack", "--analysis", "glcm", "--param", "levels=[16,64]",
                    "--param", "distances=%s" % list(range(1, 17)), "--param",
                    'roi={"type":"disc","r":%d}' % radius, "-o", path]
                   + [os.path.join(folder, name + ".png") for name in pictures])
    if done.returncode != 0:
        raise RuntimeError("texcell-wu pack: " + done.stderr)


def run_alone(workunit, result, threads):
    """Runs a work unit without a client. Returns the seconds that it would take on an idle machine,
    from its processor time."""
    before = sum(os.times()[2:4])
    done = tap.run([tap.TEXCELL, "run", workunit, "-o", result, "--device", "cpu",
                    "--threads", str(threads)])
    if done.returncode != 0:
        raise RuntimeError("texcell run: " + done.stderr)
    return (sum(os.times()[2:4]) - before) / threads


def suited_workunit(path, seconds, threads, pictures=PICTURES):
    """Packs a work unit that takes about `seconds` here; returns its result."""
    result = path + ".npz"
    pack(path, pictures[:1], TRIAL_RADIUS)
    each = run_alone(path, result, threads) / TRIAL_RADIUS ** 2
    radius = int(math.sqrt(seconds / (each * len(pictures))))
    pack(path, pictures, max(4, min(radius, 145)))   # a radius of 145 fits in all pictures
    tap.note("the work unit takes %.0f s by itself" % run_alone(path, result, threads))
    with open(result, "rb") as f:
        return f.read()
