"""Tests the memory that show --needs states, for the unit's pictures and for any pictures of their
size, against the peak of a run on the CPU. The pictures need much memory: noise, as many regions as
possible, and the largest widths. Each job runs with eight threads; the first job of each analysis
(with MEMORY=1 each job) also with one thread, and the first also with three items."""
import json
import os
import sys

import analyses
import tap
from oracle import workunit
from oracle.workunit import item

MIB = 1 << 20
STARTER = 5 * MIB  # the measured peak is at least that of the starting Python: 11 MiB, not 6
UNUSED = 16 * MIB          # a plan may be three times the peak plus this
WORK = tap.scratch()

# A small Python starts the run, as the peak of a child includes the memory of the process that
# forked it.
LAUNCH = ("import resource, subprocess, sys\n"
          "code = subprocess.run(sys.argv[1:]).returncode\n"
          "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
          "sys.exit(code)\n")


def peak(unit, threads):
    """The peak memory of a run in bytes."""
    p = tap.run([sys.executable, "-I", "-S", "-c", LAUNCH, tap.TEXCELL, "run", unit, "-o",
                 unit + ".npz",
                 "--device", "cpu", "--threads", str(threads)])
    if p.returncode != 0:
        raise RuntimeError(p.stderr)
    return int(p.stdout) * 1024


def check(analysis, numbers, copies, parameters, pixels, labels=None):
    """A job with each of these numbers of threads, and with `copies` items."""
    unit = os.path.join(WORK, "unit.zip")

    def slices(a):
        return a if a is None else list(a) if a.ndim == 3 else [a]
    workunit.write(unit, analysis, parameters,
                   [item("i%d" % i, slices(pixels), labels=slices(labels)) for i in range(copies)])
    needs = json.loads(tap.run([tap.TEXCELL_WU, "show", "--needs", unit]).stdout)
    title = "%s %s %s, %d items" % (analysis, pixels.shape, " ".join(sorted(parameters)), copies)
    for threads in numbers:
        used = peak(unit, threads)
        plan = needs["memory_bytes"] + threads * needs["thread_bytes"]
        figures = "planned %.1f MiB, used %.1f MiB" % (plan / MIB, used / MIB)
        tap.ok(used <= plan + STARTER,
               "%s, %d threads: the peak is at most the planned memory (%s)" %
               (title, threads, figures))
    tap.ok(needs["memory_bytes"] <= needs["most_memory_bytes"],
           "%s: the planned memory is at most that for any pictures" % title, needs)
    tap.ok(plan <= 3 * used + UNUSED,
           "%s: the planned memory is at most three times the peak, plus a constant" % title,
           figures)


def main():
    if tap.sanitized():
        tap.skip("memory", "the sanitizers need their own")
        tap.done()
    for analysis, of in analyses.each():
        for i, job in enumerate(of.memory_jobs()):
            check(analysis, (1, 8) if i == 0 or os.environ.get("MEMORY") else (8,), 1, *job)
            if i == 0:
                check(analysis, (8,), 3, *job)
    known = [line.split(":")[0]
             for line in tap.run([tap.TEXCELL, "selftest", "--device", "cpu"]).stdout.splitlines()]
    tap.ok(known == analyses.names(), "every analysis has a job", known)
    tap.done()


main()
