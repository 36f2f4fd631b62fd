"""What PoCL has compiled of the kernels: that takes tens of seconds of each analysis' jobs, so it
is done once for a build, in BUILD/tests/compiled/NAME, and every test has a copy to do with as it
likes. What a test needs beyond that is compiled there."""
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
    """What tells these kernels from others."""
    digest = hashlib.sha256()
    for name in sorted(glob.glob(os.path.join(tap.BUILD, "opencl", "kernels", "*.c"))):
        with open(name, "rb") as f:
            digest.update(f.read())
    return digest.hexdigest()


def make(name, folder):
    """Runs the jobs of an analysis, known answers first, with an empty cache."""
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
    """A new folder for POCL_CACHE_DIR within that one: of these analyses, or of each that has
    OpenCL."""
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
