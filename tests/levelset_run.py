"""Functions for the tests of levelset: pictures, and phi as a device computes it."""
import gzip
import os
import re

import numpy as np

import compiled
import tap
from oracle import workunit

STATE_OF = os.path.join(tap.BUILD, "tests", "unit", "state_of")
PHI_AT = 64


def balls(shape, seed=1, bits=8):
    """A stack [z, y, x] of bright balls on a dark slope, with noise."""
    rng = np.random.default_rng(seed)
    z, y, x = np.ogrid[:shape[0], :shape[1], :shape[2]]
    image = 40 + 50.0 * x / shape[2] + 20.0 * y / shape[1] + 0 * z
    for _ in range(6):
        c = rng.random(3) * shape
        r = (0.1 + 0.15 * rng.random()) * min(s for s in shape if s > 1)
        d = (x - c[2]) ** 2 + (y - c[1]) ** 2 + ((z - c[0]) ** 2 if shape[0] > 1 else 0)
        image = np.where(d < r * r, 190.0, image)
    image = image + rng.normal(0, 12, shape)
    top = 255 if bits == 8 else 65535
    return np.clip(image * top / 255, 0, top).astype(np.uint8 if bits == 8 else np.uint16)


def write(path, image, parameters, mask=None):
    """A work unit of one item from an array [z, y, x]; an image if there is one slice."""
    stack = image.shape[0] > 1
    item = workunit.item("it", list(image), None if mask is None else list(mask), stack=stack)
    return workunit.write(path, "levelset", parameters, [item])


def state(unit, out, device="cpu", threads=1, steps=0, env=None):
    """(bytes of the state after the last step, seconds), or (None, error message)."""
    argv = [STATE_OF, unit, "0", device, str(threads), out]
    run = tap.run(argv + ([str(steps)] if steps else []),
                  env=dict(os.environ, **(env or {})))
    if run.returncode != 0:
        return None, run.stderr
    with open(out, "rb") as f:
        return f.read(), float(run.stdout)


def phi_of(data, shape):
    """phi [z, y, x] in a state."""
    n = int(np.prod(shape))
    return np.frombuffer(data, np.float32, n, PHI_AT).reshape(shape)


def nifti(path):
    """The voxels of a .nii.gz file as [z, y, x]."""
    with gzip.open(path) as f:
        raw = f.read()
    dim = np.frombuffer(raw, "<i2", 8, 40)
    kind = int(np.frombuffer(raw, "<i2", 1, 70)[0])
    offset = int(np.frombuffer(raw, "<f4", 1, 108)[0])
    dtype = {2: "u1", 4: "<i2", 8: "<i4", 16: "<f4", 512: "<u2"}[kind]
    n = [int(d) for d in dim[1:4]]
    return np.frombuffer(raw, dtype, n[0] * n[1] * n[2], offset).reshape(n[::-1])


def dice(a, b):
    """Dice's coefficient of two masks."""
    a, b = np.asarray(a) != 0, np.asarray(b) != 0
    return 2.0 * (a & b).sum() / (a.sum() + b.sum())


def opencl_missing():
    """Why there is no usable OpenCL device, or None if there is one."""
    run = tap.run([tap.TEXCELL, "devices"])
    if not re.search("usable", run.stdout):
        return "no OpenCL device here"
    os.environ["POCL_CACHE_DIR"] = compiled.copy(tap.scratch(), "levelset")
    return None
