"""Gives tests a cache with the kernels compiled by PoCL. Compiling takes tens of seconds for each
analysis, so it is done once for a build, in BUILD/tests/compiled/NAME, and every test gets a copy
as its cache; other kernels that the test needs are compiled into the copy."""
import fcntl
import glob
import hashlib
import os
import shutil

import analyses
import tap
from oracle import workunit

FOLDER = os.path.join(os.path.abspath(tap.BUILD), "tests", "compiled")


def kernels():
    """A digest that changes with the kernels' sources."""
    digest = hashlib.sha256()
    for name in sorted(glob.glob(os.path.join(tap.BUILD, "opencl", "kernels", "*.c"))):
        with open(name, "rb") as f:
            digest.update(f.read())
    return digest.hexdigest()


def make(name, folder):
    """Runs the jobs of an analysis, after its self-test, with an empty cache, and keeps the cache
    as folder."""
    part, work = folder + ".part", tap.scratch()
    shutil.rmtree(part, True)
    shutil.rmtree(folder, True)
    os.mkdir(part)
    for i, (parameters, items) in enumerate(analyses.load(name).JOBS.values()):
        unit = workunit.write(os.path.join(work, "%d.zip" % i), name, parameters, items)
        tap.run([tap.TEXCELL, "run", unit, "-o", unit + ".npz", "--device", "opencl", "--quiet"],
                env=dict(os.environ, POCL_CACHE_DIR=part))
    os.rename(part, folder)


def copy(folder, *names):
    """Makes a folder for POCL_CACHE_DIR inside `folder`, with the kernels of these analyses
    (default: of all that have OpenCL)."""
    mine = os.path.join(folder, "pocl")
    os.makedirs(mine, exist_ok=True)
    os.makedirs(FOLDER, exist_ok=True)
    of = kernels()
    for name in names or [n for n, _ in analyses.each() if analyses.has_opencl(n)]:
        theirs = os.path.join(FOLDER, "%s-%s" % (name, of[:12]))
        with open(os.path.join(FOLDER, name + ".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.isdir(theirs):
                for old in glob.glob(os.path.join(FOLDER, name + "-*")):
                    shutil.rmtree(old, True)
                make(name, theirs)
        shutil.copytree(theirs, mine, dirs_exist_ok=True)
    return mine
