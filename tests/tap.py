"""TAP output for the Python tests, and what all of them need: the programs
under test, scratch folders and the real pictures, which may be absent."""
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
# the same with tests/hooks/seam_hooks.c
TEXCELL_TEST = os.path.join(BUILD, "tests", "texcell_test")
TEXCELL_WU = os.path.join(BUILD, "texcell-wu")
TEXCELL_VALIDATE = os.path.join(BUILD, "texcell-validate")
TEXCELL_ASSIMILATE = os.path.join(BUILD, "texcell-assimilate")

# Whoever starts this in the background may have it ignored, and so it would be in all that is
# started from here.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Small pictures, which tests have, are to meet as many threads as --threads says.
os.environ.setdefault("TEXCELL_ALL_THREADS", "1")
# Many give the result of each run the same name.
os.environ.setdefault("TEXCELL_REPLACE", "1")

_lock = threading.Lock()   # a test may have several stories at a time
_count = 0
_failed = 0


def ok(condition, name, detail=""):
    """One test point. detail is shown when it fails."""
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
    """Ends the script: nothing that it could test is there."""
    print("Bail out! " + why)
    sys.exit(99)


def done():
    """Prints the plan and ends the script; the exit status is for a reader
    without a TAP driver."""
    print("1..%d" % _count)
    sys.exit(1 if _failed else 0)


def scratch():
    """A temporary folder, removed at exit."""
    import atexit
    path = tempfile.mkdtemp(prefix="texcell-test-")
    atexit.register(shutil.rmtree, path, True)
    return path


def run(argv, timeout=600, **kw):
    """Runs a program to its end; text output, no exception on failure."""
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True, timeout=timeout, **kw)


def side_by_side(lanes, jobs, trial):
    """[(job, trial(lane, job))] of all jobs, so many at a time; what a trial raises is raised
    here."""
    def work(lane):
        return [(job, trial(lane, job)) for job in jobs[lane::lanes]]

    with concurrent.futures.ThreadPoolExecutor(lanes) as pool:
        return [found for of_lane in pool.map(work, range(lanes)) for found in of_lane]


def sanitized(by=("asan", "tsan")):
    """Whether this build's programs watch themselves: they take terabytes of addresses, and more
    memory and time."""
    with open(TEXCELL, "rb") as f:
        program = f.read()
    return any(b"__%s_init" % name.encode() in program for name in by)


def opencl_hooks(**hooks):
    """Environment of a program that is to meet tests/hooks/opencl_hooks.c: fail, count,
    memory, call_ms, gpu, rounds, times, item_ns. --device auto takes the GPU for any job."""
    return dict({"TEXCELL_TEST_CL_" + name.upper(): str(value) for name, value in hooks.items()},
                TEXCELL_AUTO_SECONDS="0",
                TEXCELL_OPENCL_LIBRARY=os.path.join(BUILD, "tests", "opencl_hooks.so"))


def data(name):
    """Path of a real picture, or None where the folder is absent."""
    path = os.path.join(DATA, name)
    return path if os.path.exists(path) else None
