"""For make check-long: clang's sanitizers, each in a separate build, with all tests of make check
that run the build's programs; gcc's sanitizers where allocations fail; valgrind for tests of
texcell-wu. Any report is a failure, even if the test itself passes."""
import glob
import os
import stat
import sys

import tap
from quality import builds, sanitizers, small_job

# Tests that are left out: of programs built by other compilers, and one that measures times.
OTHERS = ["windows_test", "release_test", "arm64_test", "new_analysis", "estimates"]
# These tests skip themselves in such a build: hardened, confine_test, faults_test, calls_test,
# memory_test, at_once.
WHOLE = "$(filter-out %s, $(UNIT_TESTS) $(PY_TESTS) $(OWN_TESTS) " \
    "tests/strips.py tests/wu_tools.py tests/run_faults.py)" % " ".join("tests/%s.py" % name
                                                                        for name in OTHERS)
VALGRIND = ["export_formats", "notes_test"]
MEMCHECK = ["valgrind", "--quiet", "--vgdb=no", "--error-exitcode=99", "--leak-check=full",
            "--errors-for-leak-kinds=definite,indirect,possible",
            "--show-leak-kinds=definite,indirect,possible", "--fair-sched=yes"]


def no_reports(title, reports):
    found = [f for f in glob.glob(reports + ".*") if os.path.getsize(f) > 0]
    first = ""
    for name in found[:1]:
        with open(name, errors="replace") as f:
            first = f.read()[:6000]
    tap.ok(not found, "%s: no report in all of check" % title,
           "%d in %s.*\n%s" % (len(found), reports, first))


def reports_of(folder):
    """The beginning of the reports' file names; removes older reports."""
    reports = os.path.join(folder, "report")
    for old in glob.glob(reports + ".*"):
        os.remove(old)
    return reports


def addresses():
    """Address sanitizer. Leaks are reported only by tests that use no OpenCL driver, as drivers
    leak."""
    sanitizers.watch("clang", "asan-clang", "$(UNIT_TESTS) tests/bad_files.py tests/run_faults.py "
                     "tests/wu_tools.py tests/assimilate_test.py tests/objects_oracle_test.py",
                     "--with-boinc=auto", "CC=clang", "CXX=clang++")
    folder = os.path.join(os.path.abspath(tap.BUILD), "quality-asan-clang")
    reports = reports_of(folder)
    builds.check("clang, all of check", folder, WHOLE,
                 ASAN_OPTIONS="exitcode=99:detect_leaks=0:log_path=" + reports,
                 UBSAN_OPTIONS="print_stacktrace=1:log_path=" + reports)
    no_reports("clang", reports)


def threads():
    """Thread sanitizer. It runs without ASLR, as its runtime does not know every kernel's memory
    layout."""
    folder = builds.make("threads", "tsan", "--with-boinc=auto", "CC=clang", "CXX=clang++",
                         "CFLAGS=-g -O1 -fsanitize=thread",
                         "CXXFLAGS=-g -O1 -fsanitize=thread", "LDFLAGS=-fsanitize=thread")
    if folder is None:
        return
    prefix = ["setarch", "-R"] if builds.have("setarch") and tap.run(
        ["setarch", "-R", "true"]).returncode == 0 else []
    known = "exitcode=99:halt_on_error=0:atexit_sleep_ms=0:ignore_noninstrumented_modules=1:" \
        "suppressions=" + os.path.join(os.path.abspath(tap.SRC), "tests", "tsan.supp")
    small_job.run(small_job.Watched("threads", folder, prefix, {"TSAN_OPTIONS": known}))
    reports = reports_of(folder)
    builds.check("threads, all of check", folder, WHOLE, prefix,
                 TSAN_OPTIONS=known + ":log_path=" + reports)
    no_reports("threads", reports)


def memory():
    """valgrind: in a copy of the build folder made of links, the programs that read untrusted files
    are replaced by scripts that run them under valgrind."""
    folder = tap.scratch()
    reports = os.path.join(folder, "report")
    for name in os.listdir(tap.BUILD):
        os.symlink(os.path.join(os.path.abspath(tap.BUILD), name), os.path.join(folder, name))
    for name in ("texcell-wu", "texcell-validate", "texcell-assimilate"):
        program = os.path.join(folder, name)
        if os.path.exists(program):
            os.remove(program)
            with open(program, "w") as f:
                f.write("#!/bin/sh\nexec %s --log-file=%s.%%p '%s' \"$@\"\n"
                        % (" ".join(MEMCHECK), reports,
                           os.path.join(os.path.abspath(tap.BUILD), name)))
            os.chmod(program, os.stat(program).st_mode | stat.S_IXUSR)
    for name in VALGRIND:
        r = tap.run([sys.executable, os.path.join(tap.SRC, "tests", name + ".py")], timeout=7200,
                    env=dict(os.environ, TEXCELL_BUILD=folder))
        tap.ok(r.returncode == 0 and "\nok " in r.stdout, "valgrind: %s.py" % name,
               "\n".join(line for line in r.stdout.splitlines()
                         if not line.startswith("ok"))[-3000:] + r.stderr[-2000:])
    no_reports("valgrind", reports)


def allocations():
    folder = builds.make("allocations", "asan-gcc", "--enable-sanitizers", "CC=gcc", "CXX=g++")
    if folder is not None:
        builds.check("allocations", folder, "tests/run_faults.py tests/faults_test.py", FAULTS="3",
                     **sanitizers.ENV)


if __name__ == "__main__":
    if builds.have("gcc", "g++"):
        allocations()
    if builds.have("clang", "clang++"):
        addresses()
        threads()
    else:
        tap.skip("clang's sanitizers", "no clang")
    if builds.have("valgrind") and not tap.sanitized():
        memory()
    else:
        tap.skip("valgrind", "there is none, or this build has sanitizers")
    tap.done()
