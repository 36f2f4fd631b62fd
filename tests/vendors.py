"""Tests the jobs of opencl_jobs.py on other vendors' OpenCL implementations: they give the CPU's
bytes, or are refused with a message. rusticl is the system's; Intel's runtimes are downloaded from
PyPI. An implementation that is not available is skipped.
    vendors.py [all | NAME...]    (default: $VENDORS, or rusticl intel23)"""
import glob
import os
import shutil
import subprocess
import sys

import opencl_jobs
import tap
from oracle.workunit import write

FOLDER = tap.scratch()


def has_avx512():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
        return " avx512f" in f.read()


# The processor for which the older runtimes compile: they convert integers wrongly on processors
# that they do not know.
KNOWN = {"CL_CONFIG_CPU_TARGET_ARCH": "skx" if has_avx512() else "core-avx2"}
# {name: (packages, environment)}
PYPI = {
    "intel21": (["intel-opencl-rt==2021.4.0", "intel-cmplr-lib-rt==2023.2.4", "tbb==2021.4.0"],
                KNOWN),
    "intel23": (["intel-opencl-rt==2023.2.4", "intel-cmplr-lib-rt==2023.2.4", "tbb==2023.2.0",
                 "tcmlib==1.6.0"], KNOWN),
    "intel26": (["intel-opencl-rt==2026.2.0", "intel-cmplr-lib-rt==2026.2.0", "tbb==2023.2.0",
                 "tcmlib==1.6.0"], {}),
}
# The messages for a device without double precision, or with a wrong one.
SENTENCES = ["double precision, which the texture of objects needs"]
ALL = ["pocl", "rusticl", "intel26", "intel23", "intel21"]


def find(folder, name):
    return next((os.path.join(root, name)
                for root, _, files in os.walk(folder) if name in files), None)


def run(command, cwd):
    """Whether the command succeeds."""
    return subprocess.run(command, cwd=cwd, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, timeout=600).returncode == 0


def unpack(name):
    """The implementation's library, or None, and the environment variables that it needs."""
    folder = os.path.join(FOLDER, name)
    os.mkdir(folder)
    if name == "pocl":
        return "libpocl.so.2", {}
    if name == "rusticl":
        installed = glob.glob("/usr/lib/*/libRusticlOpenCL.so.1")
        return installed[0] if installed else None, {"RUSTICL_ENABLE": "llvmpipe"}
    packages, env = PYPI[name]
    pip = shutil.which("pip3") or shutil.which("pip")
    if pip is None or not run([pip, "download", "-q", "--no-deps", "-d", "."] + packages, folder):
        return None, {}
    for wheel in [n for n in os.listdir(folder) if n.endswith(".whl")]:
        shutil.unpack_archive(os.path.join(folder, wheel), folder, "zip")
    libraries = {root for root, _, files in os.walk(folder) if any(".so" in n for n in files)}
    return find(folder, "libintelocl.so"), dict(env, LD_LIBRARY_PATH=":".join(sorted(libraries)))


def result(unit, device, env):
    """(bytes of the result or None, stderr)."""
    out = unit + "." + device + ".npz"
    if os.path.exists(out):
        os.remove(out)
    r = tap.run([tap.TEXCELL, "run", unit, "-o", out, "--device", device, "--quiet",
                 "--kernel-cache", FOLDER], env=env)
    if r.returncode != 0:
        return None, r.stderr
    with open(out, "rb") as f:
        return f.read(), r.stderr


def test_implementation(name, units):
    library, env = unpack(name)
    if library is None:
        return tap.skip(name, "its packages cannot be had")
    vendors = os.path.join(FOLDER, name + ".vendors")
    os.mkdir(vendors)
    with open(os.path.join(vendors, "x.icd"), "w") as f:
        f.write(library + "\n")
    env = dict(os.environ, OCL_ICD_VENDORS=vendors,
               POCL_CACHE_DIR=os.path.join(FOLDER, "cache"), **env)
    if tap.run([tap.TEXCELL, "devices"], env=env).stdout.count("usable for") == 0:
        return tap.skip(name, "it has no device here")
    wrong, refused = [], []
    for unit, expected in units:
        got, output = result(unit, "opencl", env)
        if got is None and any(s in output for s in SENTENCES):
            refused.append(os.path.basename(unit))
        elif got != expected or "driver" in output:
            wrong.append("%s: %s" %
                         (os.path.basename(unit), output.strip()[-300:] or "other bytes"))
    tap.ok(not wrong, "%s: %d of %d jobs have the CPU's bytes, %d are refused with a sentence" %
           (name, len(units) - len(wrong) - len(refused), len(units), len(refused)),
           "\n".join(wrong))
    tap.ok(len(refused) <= 4, "%s: only the texture of objects is refused" % name, refused)


def main(names):
    units = []
    for i, (analysis, parameters, items) in enumerate(opencl_jobs.JOBS):
        unit = write(os.path.join(FOLDER, "%02d-%s.zip" % (i, analysis)), analysis, parameters,
                     items())
        units.append((unit, result(unit, "cpu", os.environ)[0]))
    tap.ok(all(expected is not None for _, expected in units), "the CPU computes all jobs")
    for name in names:
        test_implementation(name, units)


asked = sys.argv[1:] or os.environ.get("VENDORS", "rusticl intel23").split()
main(ALL if asked == ["all"] else asked)
tap.done()
