"""Runs a small job from end to end under valgrind: no errors and no leaks. VALGRIND=all: with all
tiny jobs of each analysis instead of the first."""
import os

import tap
from quality import builds, small_job

if __name__ == "__main__":
    if not builds.have("valgrind"):
        tap.skip("valgrind", "there is none")
        tap.done()
    if tap.sanitized():
        tap.skip("valgrind", "this build has sanitizers")
        tap.done()
    small_job.run(small_job.Watched("valgrind", tap.BUILD, [
        "valgrind", "--quiet", "--vgdb=no", "--error-exitcode=99", "--leak-check=full",
        "--errors-for-leak-kinds=definite,indirect,possible",
        "--show-leak-kinds=definite,indirect,possible", "--fair-sched=yes"]),
                  None if os.environ.get("VALGRIND") == "all" else 1)
    tap.done()
