"""Functions for all Python tests: test points in the Test Anything Protocol (TAP), the paths of the
programs under test and of the real pictures, and functions that run programs."""
import concurrent.futures
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

SRC = os.environ.get("TEXCELL_SRC", os.path.join(os.path.dirname(__file__), ".."))
BUILD = os.environ.get("TEXCELL_BUILD", os.path.join(SRC, "build"))
DATA = os.environ.get("TEXCELL_DATA", os.path.join(SRC, "..", "shared", "data"))
TEXCELL = os.path.join(BUILD, "texcell")
# texcell with the hooks of tests/hooks/seam_hooks.c
TEXCELL_TEST = os.path.join(BUILD, "tests", "texcell_test")
TEXCELL_WU = os.path.join(BUILD, "texcell-wu")
TEXCELL_VALIDATE = os.path.join(BUILD, "texcell-validate")
TEXCELL_ASSIMILATE = os.path.join(BUILD, "texcell-assimilate")

# A shell makes a background job ignore SIGINT. Children would inherit that, so that no test could
# interrupt them.
signal.signal(signal.SIGINT, signal.default_int_handler)

# texcell starts fewer threads for small pictures, but tests with small pictures need the number of
# --threads.
os.environ.setdefault("TEXCELL_ALL_THREADS", "1")
# Allows the programs to replace an existing result, as many tests give all results the same name.
os.environ.setdefault("TEXCELL_REPLACE", "1")

_lock = threading.Lock()   # a test may call ok() from several threads
_count = 0
_failed = 0


def ok(condition, name, detail=""):
    """Prints one test point: "ok" if the condition is true, otherwise "not ok" and detail. Returns
    the condition's truth."""
    global _count, _failed
    with _lock:
        _count += 1
        if not condition:
            _failed += 1
            for line in str(detail).splitlines():
                print("# " + line)
        print("%s %d - %s" % ("ok" if condition else "not ok", _count, name.replace("#", "")))
        sys.stdout.flush()
    return bool(condition)


def skip(name, why):
    global _count
    _count += 1
    print("ok %d - %s # SKIP %s" % (_count, name, why))
    sys.stdout.flush()


def note(text):
    for line in str(text).splitlines():
        print("# " + line)
    sys.stdout.flush()


def bail(why):
    """Ends the script with an error, as it cannot test anything."""
    print("Bail out! " + why)
    sys.exit(99)


def done():
    """Prints the TAP plan and ends the script. The exit code, 1 if a point failed, is for callers
    that do not read TAP."""
    print("1..%d" % _count)
    sys.exit(1 if _failed else 0)


def scratch():
    """A temporary folder, removed at exit."""
    import atexit
    path = tempfile.mkdtemp(prefix="texcell-test-")
    atexit.register(shutil.rmtree, path, True)
    return path


def run(argv, timeout=600, **kw):
    """Runs a program to its end. The output is text; a failure raises no exception."""
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True, timeout=timeout, **kw)


def side_by_side(lanes, jobs, trial):
    """[(job, trial(lane, job))] of all jobs, computed by `lanes` threads. An exception of a trial
    is raised here."""
    def work(lane):
        return [(job, trial(lane, job)) for job in jobs[lane::lanes]]

    with concurrent.futures.ThreadPoolExecutor(lanes) as pool:
        return [found for of_lane in pool.map(work, range(lanes)) for found in of_lane]


def sanitized(by=("asan", "tsan")):
    """Whether texcell was built with one of the sanitizers `by`. Such a program maps terabytes of
    addresses, and needs more memory and time."""
    with open(TEXCELL, "rb") as f:
        program = f.read()
    return any(b"__%s_init" % name.encode() in program for name in by)


def opencl_hooks(**hooks):
    """The environment in which a program loads tests/hooks/opencl_hooks.c instead of OpenCL. hooks:
    values of its settings fail, count, memory, call_ms, gpu, rounds, times, item_ns. --device auto
    takes the GPU for every job."""
    return dict({"TEXCELL_TEST_CL_" + name.upper(): str(value) for name, value in hooks.items()},
                TEXCELL_AUTO_SECONDS="0",
                TEXCELL_OPENCL_LIBRARY=os.path.join(BUILD, "tests", "opencl_hooks.so"))


def data(name):
    """The path of a real picture, or None if the folder is absent."""
    path = os.path.join(DATA, name)
    return path if os.path.exists(path) else None
