"""Tests that builds by other compilers and with other optimisation levels give the same bytes, for
every analysis. COMPILERS=all: more builds."""
import os
import shutil

import opencl_jobs
import tap
from oracle import workunit
from quality import builds

SOME = (("clang", "-O2"),)
EVERY = SOME + (("gcc", "-O0"), ("gcc", "-O1"), ("gcc", "-Os"), ("gcc", "-O3"),
                ("gcc", "-O3 -march=native"),
                ("clang", "-O0"), ("clang", "-O3 -march=native"))


def bytes_of(folder, unit, out):
    """The bytes of the result, or None with a note."""
    r = tap.run([os.path.join(folder, "texcell"), "run", unit, "-o", out, "--device", "cpu",
                 "--threads", "2", "--quiet"])
    if r.returncode != 0:
        return tap.note("exit %d: %s" % (r.returncode, r.stderr))
    with open(out, "rb") as f:
        return f.read()


def main():
    folder, expected = tap.scratch(), []
    out = os.path.join(folder, "r.npz")
    for i, (analysis, parameters, items) in enumerate(opencl_jobs.JOBS):
        unit = workunit.write(os.path.join(folder, "%02d-%s.zip" % (i, analysis)), analysis,
                              parameters, items())
        expected.append((unit, bytes_of(tap.BUILD, unit, out)))
    for compiler, flags in EVERY if os.environ.get("COMPILERS") == "all" else SOME:
        title = "%s %s" % (compiler, flags)
        if shutil.which(compiler) is None:
            tap.skip(title, "%s is not installed" % compiler)
            continue
        build = builds.make(title, title.replace(" ", ""), "CC=" + compiler, "CFLAGS=" + flags,
                            targets=["texcell"])
        if build is None:
            continue
        r = tap.run([os.path.join(build, "texcell"), "selftest", "--device", "cpu"])
        tap.ok(r.returncode == 0, title + ": the self-tests of every analysis pass", r.stderr)
        wrong = [os.path.basename(unit) for unit, first in expected if first is None or
                 bytes_of(build, unit, out) != first]
        tap.ok(not wrong,
               "%s: the same bytes as the ordinary build for %d jobs"
               % (title, len(expected)), wrong)
    tap.done()


if __name__ == "__main__":
    main()
