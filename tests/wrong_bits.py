"""Tests texcell with an OpenCL driver that flips a random bit of one kernel's output at each launch
(tests/hooks/opencl_hooks.c): the self-test refuses the device, or the result is right nevertheless.
Prints a table by kernel.   wrong_bits.py [TRIALS of each kernel [ANALYSIS...]]"""
import collections
import os
import subprocess
import sys

import compiled
import opencl_jobs
import tap
from oracle.workunit import write

FOLDER = tap.scratch()
TRIALS = int(sys.argv[1]) if len(sys.argv) > 1 else int(os.environ.get("WRONG_BITS", "1"))
ANALYSES = sys.argv[2:] or [name for name, _, _ in opencl_jobs.JOBS]
ENV = dict(os.environ, POCL_CACHE_DIR=compiled.copy(FOLDER, *set(ANALYSES)))
# A trial takes a second. A flipped bit in a list or link may cause an endless loop, which texcell
# ends only after 50 seconds (driver_faults.py): so the test ends the run earlier.
TIME = 20


def result(unit, device, timeout=600, **hooks):
    """(bytes of the result or None, stderr)."""
    out = "%s-%s.npz" % (unit, "-".join(map(str, hooks.values())).replace("/", "-"))
    ran = tap.run([tap.TEXCELL, "run", unit, "-o", out, "--device", device, "--quiet"],
                  timeout=timeout, env=dict(ENV, **tap.opencl_hooks(**hooks)))
    if not os.path.exists(out):
        return None, ran.stderr
    with open(out, "rb") as f:
        content = f.read()
    os.remove(out)
    return content, ran.stderr


def launched_by(unit):
    """The names of the kernels that the self-test or the job launches."""
    names = os.path.join(FOLDER, "names")
    result(unit, "opencl", launched=names)
    with open(names) as f:
        return set(f.read().split())


units, jobs = [], collections.defaultdict(list)
for i, (analysis, parameters, items) in enumerate(opencl_jobs.JOBS):
    if analysis not in ANALYSES:
        continue
    made = write(os.path.join(FOLDER, "%02d-%s.zip" % (i, analysis)), analysis, parameters, items())
    units.append((made, result(made, "cpu", count=os.path.join(FOLDER, "count"))[0]))
    for kernel in launched_by(made):
        jobs[kernel].append(units[-1])
found = collections.Counter()


def trial(_lane, job):
    """The outcome of a run with one kernel's output flipped: found (by the self-test), crashed,
    right, or WRONG."""
    kernel, seed = job
    unit, expected = jobs[kernel][seed % len(jobs[kernel])]
    try:
        got, output = result(unit, "opencl", TIME, flip="%s:%d" % (kernel, seed))
    except subprocess.TimeoutExpired:
        return "crashed"
    if got is not None and got != expected:
        tap.note("wrong: %s with %s:%d" % (os.path.basename(unit), kernel, seed))
        return "WRONG"
    if "the OpenCL driver failed" in output:
        return "crashed"
    return "found" if got is None or "wrong" in output else "right"


def try_seeds(seeds):
    """Counts the outcomes of these seeds; returns whether at most 5% of all so far are WRONG."""
    tries = [(kernel, seed) for kernel in sorted(jobs) for seed in seeds]
    for (kernel, _), what in tap.side_by_side(2, tries, trial):
        found[kernel, what] += 1
    return wrong_of() <= 0.05 * sum(found.values())


def wrong_of():
    return sum(n for (_, what), n in found.items() if what == "WRONG")


# Of few trials more may be WRONG by chance: then further ones decide.
few_wrong = try_seeds(range(TRIALS)) or try_seeds(range(TRIALS, 4 * TRIALS))
ENDS = ["found", "crashed", "right", "WRONG"]
tap.note("%-24s %7s %7s %7s %7s" % tuple(["kernel"] + ENDS))
for kernel in sorted(jobs):
    tap.note("%-24s %7d %7d %7d %7d" %
             tuple([kernel] + [found[kernel, what] for what in ENDS]))
tap.ok(len(jobs) > (80 if len(sys.argv) < 3 else 2), "%d kernels were launched" % len(jobs))
tap.ok(few_wrong, "%d trials with a flipped bit: %d end in a wrong result" %
       (sum(found.values()), wrong_of()))
tap.done()
