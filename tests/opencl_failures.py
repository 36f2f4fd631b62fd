"""Tests that each OpenCL call of every analysis may return an error, once or from then on, with
several error codes. The result has the CPU's bytes, or there is none and the same command computes
it; no OpenCL object is left. With --device auto on a (simulated) GPU there is always a result.

OPENCL_FAILURES selects the failing calls of every job, as places.py describes; default: each 200th
trial of the last job of each analysis. OPENCL_FAILURES_ONLY: a regular expression for names of
analyses."""
import os
import re

import analyses
import places
import compiled
import tap
from oracle import workunit

FOLDER = tap.scratch()
WANTED = os.environ.get("OPENCL_FAILURES", "")
SWEEP = places.Sweep("OPENCL_FAILURES", 200)
ONLY = re.compile(os.environ.get("OPENCL_FAILURES_ONLY", ""))
LANES = 2
# If a slow driver seems to hang, the program starts again without it, with this message.
HUNG = "the OpenCL driver failed"
# CL_DEVICE_NOT_AVAILABLE, CL_OUT_OF_HOST_MEMORY, CL_INVALID_COMMAND_QUEUE, and a vendor's own code.
ERRORS = (2, 6, 36, 9999)


def path(*names):
    return os.path.join(FOLDER, *names)


def content(file):
    with open(file, "rb") as f:
        return f.read()


class Job:
    """A work unit and its result; each lane (thread of the test) has separate files."""

    def __init__(self, name, job, parameters, items):
        self.name = "%s, %s" % (name, job)
        self.unit = workunit.write(path("%s_%s.zip" % (name, job)), name, parameters, items)
        code, self.expected, _ = self.run(0, "cpu")
        tap.ok(code == 0, self.name + ": the CPU's result")

    def run(self, lane, device, **hooks):
        """(exit code, bytes of the result or None, stderr)."""
        out, env = path("r%d.npz" % lane), dict(os.environ, POCL_CACHE_DIR=path("pocl"))
        if hooks:
            env.update(tap.opencl_hooks(count=path("count%d" % lane), **hooks))
        p = tap.run([tap.TEXCELL, "run", self.unit, "-o", out, "--device", device, "--threads", "2",
                     "--checkpoint-every", "0.001"],
                    env=env, timeout=300)
        result = content(out) if os.path.exists(out) else None
        if result is not None:
            os.remove(out)
        return p.returncode, result, p.stderr

    def calls(self, device, **hooks):
        """{place: numbers of its calls} in an undisturbed run."""
        for _ in range(3):
            code, result, output = self.run(0, device, places=path("places"), **hooks)
            if HUNG not in output:
                break
        made, objects = content(path("count0")).split()
        tap.ok(code == 0 and result == self.expected and int(objects) == 0 and int(made) > 40,
               "%s, %s: %d calls, the CPU's bytes, every object released" %
               (self.name, device, int(made)), "%s left\n%s" % (objects, output))
        return places.told(path("places"))

    def fails(self, lane, device, **hooks):
        """(exit code, the error after a failure or None)."""
        code, result, output = self.run(lane, device, **hooks)
        objects = 0 if HUNG in output else int(content(path("count%d" % lane)).split()[1])
        if objects != 0:
            return code, "%d objects left" % objects
        if code == 0:
            return code, None if result == self.expected else "other bytes: " + output
        if device == "auto" or code != 3 or result is not None or "texcell: error: " not in output:
            return code, "exit %d: %s" % (code, output)
        again, result, output = self.run(lane, device)
        return (code, None if again == 0 and result == self.expected
                else "the same again: exit %d: %s" % (again, output))


def sweep(job, device, **hooks):
    """Makes the selected calls of a job fail, one at a time; one test point for all."""
    calls = job.calls(device, **hooks)
    jobs = SWEEP.trials(device, calls)

    def trial(lane, numbered):
        i, where = numbered
        return job.fails(lane, device, fail_at="%s:%s" % where,
                         error=ERRORS[i // LANES % len(ERRORS)], **hooks)
    found = tap.side_by_side(LANES, list(enumerate(jobs)), trial)
    SWEEP.tell("%s, %s" % (job.name, device), calls, jobs, [code for _job, (code, _wrong) in found],
               ["%s:%s: %s" % (*where, wrong[-700:]) for (_i, where), (_code, wrong) in found
                if wrong])


def main():
    if tap.sanitized():
        tap.skip("OpenCL calls that fail",
                 "this build has sanitizers, which report what drivers do")
        tap.done()
    if not re.search(r"(?<!not )usable", tap.run([tap.TEXCELL, "devices"]).stdout):
        tap.skip("OpenCL calls that fail", "no OpenCL device")
        tap.done()
    compiled.copy(FOLDER)
    for name, of in analyses.each():
        if not analyses.has_opencl(name) or not ONLY.match(name):
            continue
        for title, (parameters, items) in list(of.JOBS.items())[0 if WANTED else -1:]:
            job = Job(name, title, parameters, items)
            sweep(job, "opencl")
            sweep(job, "auto", gpu=1)
    SWEEP.done()


if __name__ == "__main__":
    main()
