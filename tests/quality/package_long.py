"""Checks that the source archive builds, passes tests, installs and cleans up after itself (make
distcheck), and that it makes Debian packages that lintian accepts and whose programs run."""
import glob
import os
import shutil
import subprocess

import tap

WORK = tap.scratch()
# Without the variables of a make that runs this test: they would replace the list of tests below.
ALONE = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}


def distcheck():
    r = tap.run(["make", "-C", tap.BUILD, "distcheck",
                 "TESTS=tests/command_lines.py tests/quality/includes.py"], env=ALONE, timeout=1800)
    tap.ok(r.returncode == 0, "make distcheck", r.stdout[-3000:] + r.stderr[-3000:])


def debian():
    missing = [tool for tool in ("dpkg-buildpackage", "dh", "lintian")
               if shutil.which(tool) is None]
    if missing:
        tap.skip("Debian packages", "no " + ", no ".join(missing))
        return
    folder = os.path.join(WORK, "texcell")
    made = tap.run(["make", "-s", "-C", tap.BUILD, "distdir", "distdir=" + folder])
    built = subprocess.run(["dpkg-buildpackage", "-us", "-uc", "-b"], cwd=folder,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           env=ALONE, timeout=3600)
    if not tap.ok(made.returncode == built.returncode == 0, "dpkg-buildpackage",
                  built.stdout.decode("utf-8", "replace")[-3000:]):
        return
    r = tap.run(["lintian", "--allow-root", "--fail-on", "error,warning"] +
                glob.glob(os.path.join(WORK, "*.changes")), timeout=600)
    tap.ok(r.returncode == 0, "lintian finds nothing", r.stdout + r.stderr)
    root = os.path.join(WORK, "root")
    for package in ("texcell", "texcell-server"):
        subprocess.run(["dpkg", "-x", glob.glob(os.path.join(WORK, package + "_*.deb"))[0], root])
    for argv in (["texcell", "selftest", "--device", "cpu"], ["texcell-wu", "parameters"],
                 ["texcell-validate", "--help"],
                 ["texcell-assimilate", "--help"], ["texcell-deploy", "--help"]):
        r = tap.run([os.path.join(root, "usr", "bin", argv[0]), *argv[1:]])
        tap.ok(r.returncode == 0 and r.stdout, "the package's %s runs" % argv[0], r.stderr)


distcheck()
debian()
tap.done()
