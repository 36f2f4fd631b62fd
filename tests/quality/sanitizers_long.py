"""make check-long: clang's sanitizers, and ThreadSanitizer on the worker pool."""
import tap
from quality import builds, sanitizers, small_job


def threads():
    """Without ASLR: its runtime does not know every kernel's memory layout."""
    folder = builds.make("threads", "tsan", "CC=clang", "CXX=clang++", "CFLAGS=-g -O1 -fsanitize=thread",
                         "CXXFLAGS=-g -O1 -fsanitize=thread", "LDFLAGS=-fsanitize=thread")
    if folder is None:
        return
    prefix = ["setarch", "-R"] if builds.have("setarch") and tap.run(["setarch", "-R", "true"]).returncode == 0 else []
    small_job.run(small_job.Watched("threads", folder, prefix, {"TSAN_OPTIONS": "exitcode=99:halt_on_error=0"}))


if __name__ == "__main__":
    if builds.have("clang", "clang++"):
        sanitizers.watch("clang", "asan-clang", "$(UNIT_TESTS) tests/bad_files.py tests/run_faults.py tests/wu_tools.py "
                         "tests/assimilate_test.py tests/objects_oracle_test.py", "CC=clang", "CXX=clang++")
        threads()
    else:
        tap.skip("clang's sanitizers", "no clang")
    tap.done()
