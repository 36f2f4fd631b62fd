"""What honest computers send is accepted, whatever the work unit: random jobs of
every analysis, with pictures and parameters at their limits too, computed and
then verified: a part of the items is computed again, the pixels of the others are looked at.
HONEST_JOBS=3000 for as many."""
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
                # a start without an interface, a spacing too uneven: no result, nothing to accept
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
