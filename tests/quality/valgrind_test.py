"""valgrind on a small job from end to end: no error, no leak."""
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
        "valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect,possible",
        "--show-leak-kinds=definite,indirect,possible", "--fair-sched=yes"]))
    tap.done()
