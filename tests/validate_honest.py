"""Tests that honest results are accepted for any work unit: random jobs of every analysis, also
with pictures and parameters at their limits, are computed and verified: some items are computed
again, and the pixels of the others are checked. HONEST_JOBS: the number of jobs."""
import os

import numpy as np

import analyses
import tap
from oracle import workunit

FOLDER = tap.scratch()
JOBS = int(os.environ.get("HONEST_JOBS", "150"))


def main():
    unit, result = os.path.join(FOLDER, "u.zip"), os.path.join(FOLDER, "r.npz")
    for analysis, of in analyses.each():
        accepted, wrong = 0, []
        for k in range(JOBS // 4):
            parameters, items = of.random_job(np.random.default_rng([27, k]))
            workunit.write(unit, analysis, parameters, list(items))
            if os.path.exists(result):
                os.remove(result)
            run = tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet"])
            if run.returncode == 2:
                # No result, as with a start without an interface, or a spacing too uneven.
                continue
            run = tap.run([tap.TEXCELL_VALIDATE, "verify", "--fraction", "0.3", "--seed", str(k),
                           unit, result])
            accepted += run.returncode == 0
            if run.returncode != 0:
                wrong.append("job %d, %s: exit %d\n%s%s" % (k, parameters, run.returncode,
                                                            run.stdout, run.stderr))
        tap.ok(accepted > JOBS // 8 and not wrong,
               "%s: %d honest results are accepted" % (analysis, accepted),
               "\n".join(wrong[:5]))
    tap.done()


if __name__ == "__main__":
    main()
