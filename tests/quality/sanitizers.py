"""Runs tests with gcc's address and undefined-behaviour sanitizers, in a separate build: unit
tests, files that are refused, allocations that fail, and a small job from end to end."""
import tap
from quality import builds, small_job

ENV = {"ASAN_OPTIONS": "exitcode=99:detect_stack_use_after_return=1",
       "UBSAN_OPTIONS": "print_stacktrace=1"}


def watch(title, name, tests, *configure_options):
    folder = builds.make(title, name, "--enable-sanitizers", *configure_options)
    if folder is None:
        return
    small_job.run(small_job.Watched(title, folder, env=ENV))
    builds.check(title, folder, tests, FAULTS="500", **ENV)


if __name__ == "__main__":
    if builds.have("gcc", "g++"):
        watch("gcc", "asan-gcc", "$(UNIT_TESTS) tests/bad_files.py tests/faults_test.py", "CC=gcc",
              "CXX=g++")
    else:
        tap.skip("gcc's sanitizers", "no gcc")
    tap.done()
