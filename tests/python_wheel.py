"""Tests the Python wheels: made twice they have the same bytes, packaging tools find no fault, and
after installation by pip in a fresh environment they give the same results as the ordinary build.
With PYTHON_WHEELS=all: the wheels of all platforms."""
import glob
import hashlib
import os
import shutil
import sys
import tarfile
import zipfile

import tap

SCRIPT = """
import numpy, sys, texcell
image = (numpy.indices((90, 120)).sum(0) % 40 < 20).astype("u1") * 200
texcell.analyse(image, "cellcount", polarity="bright", labels=True, device="cpu").save(sys.argv[1])
print(texcell.__file__)
"""
WORK = tap.scratch()
WHEELS = os.path.join(os.path.abspath(tap.SRC), "build", "wheel")
SOURCES = os.path.join(os.path.abspath(tap.SRC), "workunits", "python")
ALL = os.environ.get("PYTHON_WHEELS") == "all"


def make_wheels():
    """Makes the files. Returns {path: SHA-256}."""
    r = tap.run(["sh", os.path.join(tap.SRC, ".ci", "wheel.sh"),
                 *(["release", "arm64", "windows"] if ALL else ["release"])], timeout=3000)
    if r.returncode == 75:
        tap.skip("wheels", "what they are made of cannot be fetched here: " +
                 r.stderr.strip()[-200:])
        tap.done()
    if not tap.ok(r.returncode == 0, "wheels are made", r.stderr):
        tap.done()
    return {f: hashlib.sha256(open(f, "rb").read()).hexdigest()
            for f in sorted(glob.glob(WHEELS + "/*.whl") + glob.glob(WHEELS + "/*.gz"))}


def test_tools(files):
    """Packaging tools and mypy, installed from PyPI as Debian has none of them, find no fault."""
    for name, version, arguments in (("twine", "6.1.0", ["check", "--strict", *files]),
                                     ("check-wheel-contents", "0.6.1", files[:-1]),
                                     ("auditwheel", "6.2.0", ["show", files[0]]),
                                     ("mypy", "1.13.0", None)):
        folder = os.path.join(os.path.abspath(tap.BUILD), "python-tools", name)
        if not os.path.exists(folder):
            tap.run(["/usr/bin/python3", "-m", "pip", "-q", "install", "--target", folder,
                     name + "==" + version])
        program = os.path.join(folder, "bin", name)
        if not os.path.exists(program):
            tap.skip(name, "cannot be installed here")
            continue
        if arguments is None:
            arguments = ["--config-file", os.path.join(SOURCES, "pyproject.toml"),
                         "--python-executable", "/usr/bin/python3",
                         "--cache-dir", WORK, os.path.join(SOURCES, "texcell")]
        r = tap.run(["/usr/bin/python3", program, *arguments],
                    env=dict(os.environ, PYTHONPATH=folder))
        tap.ok(r.returncode == 0 and "warning" not in r.stdout.lower() and
               (name != "auditwheel" or '"manylinux_2_17_x86_64"' in r.stdout),
               name + " finds nothing", r.stdout + r.stderr)


def test_installed(package, bare_path):
    """Installs a package in an environment of its own, with Debian's NumPy, and compares the result
    of SCRIPT there with that of the ordinary build."""
    folder, out = os.path.join(WORK, "env"), os.path.join(WORK, "there.npz")
    shutil.rmtree(folder, True)
    r = tap.run(["/usr/bin/python3", "-m", "venv", "--system-site-packages", folder])
    if r.returncode != 0:
        tap.skip(os.path.basename(package) + " in a fresh environment",
                 "no venv here: " + r.stdout[:80])
        return
    env = {k: v for k, v in os.environ.items() if k not in ("TEXCELL", "PYTHONPATH")}
    env["PATH"] = bare_path
    r = tap.run([folder + "/bin/python", "-m", "pip", "-q", "install", "--no-index", "--no-deps",
                 "--no-build-isolation", package], env=env)
    ran = tap.run([folder + "/bin/python", "-c", SCRIPT, out], env=env, cwd=WORK)
    here = tap.run([sys.executable, "-c", SCRIPT, os.path.join(WORK, "here.npz")],
                   env=dict(os.environ, TEXCELL=os.path.abspath(tap.BUILD), PYTHONPATH=SOURCES))
    same = ran.returncode == here.returncode == 0 and open(out, "rb").read() == open(
        os.path.join(WORK, "here.npz"), "rb").read()
    tap.ok(r.returncode == 0 and same and ran.stdout.startswith(folder),
           os.path.basename(package) + " in a fresh environment: the same bytes",
           r.stderr + ran.stderr + here.stderr)


def test_coverage():
    """python_test.py reaches 95% of the package's lines, not counting those for napari."""
    env = dict(os.environ, COVERAGE_FILE=os.path.join(WORK, "coverage"))
    coverage = ["/usr/bin/python3", "-m", "coverage"]
    r = tap.run(coverage + ["run", "--source", SOURCES + "/texcell", "--omit", "*/_napari.py",
                            os.path.join(tap.SRC, "tests", "python_test.py")],
                env=dict(env, PYTHON_TEST="full"), cwd=WORK)
    if "No module named" in r.stderr:
        tap.skip("lines reached", "no coverage here")
        return
    report = tap.run(coverage + ["report", "-m", "--fail-under", "95"], env=env, cwd=WORK)
    tap.ok(r.returncode == report.returncode == 0,
           "python_test.py, with every small job, reaches 95% of the package's lines",
           "\n".join(l for l in r.stdout.splitlines() if not l.startswith("ok")) + r.stderr +
           report.stdout)
    tap.note(report.stdout.splitlines()[-1])


files = make_wheels()
tap.ok(len(files) == (4 if ALL else 2) and make_wheels() == files,
       "wheels made twice have the same bytes", files)
test_tools(list(files))
wheel, sdist = [next(f for f in files if f.endswith(end)) for end in ("x86_64.whl", ".tar.gz")]
with zipfile.ZipFile(wheel) as z, tarfile.open(sdist) as t:
    whole = {os.path.basename(f) for f in glob.glob(SOURCES + "/texcell/*") if os.path.isfile(f)}
    tap.ok(all(whole <= {os.path.basename(n) for n in names}
               for names in (z.namelist(), t.getnames())),
           "each wheel has every file of the module",
           (whole, z.namelist()))
    text = t.extractfile(next(n for n in t.getnames() if n.endswith("/README.md"))).read().decode()
    tap.ok("TEXCELL" in text and "PATH" in text,
           "the source distribution names the programs to be built")
test_installed(wheel, "/usr/bin:/bin")
test_installed(sdist, os.path.abspath(tap.BUILD) + ":/usr/bin:/bin")
test_coverage()
tap.done()
