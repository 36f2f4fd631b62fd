"""Tests the estimates of show --needs against a run of every analysis: operations, and bytes of the
result. An operation is a Whetstone flop, of which a core computes about 2 to 6 billion a second. A
tenth to ten times as many are accepted, as the speed of computers varies."""
import json
import os
import re
import subprocess

import numpy as np
import tifffile

import analyses
from tap import TEXCELL, TEXCELL_WU, done, note, ok, run, scratch

TMP = scratch()


def main():
    jobs = [(analysis, *job) for analysis, of in analyses.each() for job in of.ESTIMATES]
    for analysis, parameters, pixels, *labels in jobs:
        path, unit, result = (os.path.join(TMP, "estimate." + end) for end in ("tif", "zip", "npz"))
        tifffile.imwrite(path, pixels)
        options = [word for p in parameters for word in ("--param", p)]
        for of in labels:
            tifffile.imwrite(path + "f", of.astype(np.uint32))
            options += ["--labels", path + "f"]
        r = run([TEXCELL_WU, "pack", "--analysis", analysis, *options, "-o", unit, path])
        needs = json.loads(run([TEXCELL_WU, "show", "--needs", unit]).stdout)
        p = subprocess.Popen([TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--threads",
                              "1", "--quiet"])
        _pid, status, usage = os.wait4(p.pid, 0)
        p.returncode = status
        seconds = usage.ru_utime + usage.ru_stime
        rate = needs["operations"] / max(seconds, 0.02)
        size = os.path.getsize(result)
        ok(r.returncode == 0 and status == 0 and 4e8 < rate < 4e10
           and size < needs["output_bytes"] + needs["pixels"] // 16 * needs["row_bytes"] + 65536,
           "estimate: %s: time, and bytes of the result" % analysis,
           "%.2f s, result of %d bytes: %s" % (seconds, size, needs))
        show_output = run([TEXCELL_WU, "show", unit]).stdout
        stated_time = re.search(r"about (\d+) (second|minute)s? on one core", show_output)
        guess = float(stated_time.group(1)) * (60 if stated_time.group(2) == "minute"
                                               else 1) if stated_time else -1
        guess = 0.5 if "under a second on one core" in show_output else guess
        # The estimate does not include starting and ending the program; a wide tolerance, as other
        # tests run meanwhile.
        ok(seconds / 6 - 0.15 <= guess <= 6 * seconds + 0.5,
           "estimate: %s: time on this machine" % analysis, "%.3f s; %s" % (seconds, show_output))
        note("%s: %.2g operations a second" % (analysis, rate))
        os.unlink(result)
    r = run([TEXCELL_WU, "show", "--needs", path])
    ok(r.returncode == 2 and r.stdout == "" and "a picture, not a work unit" in r.stderr,
       "show --needs: not a work unit", r.stderr)
    done()


main()
