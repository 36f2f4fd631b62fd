"""Tests the part of the OpenCL backend that all analyses share: machines without OpenCL, a real
device (PoCL), every OpenCL call failing in turn, and the embedding of kernels in the program."""
import ast
import os
import re
import shutil
import sys

import numpy as np

import compiled
import tap
from oracle import workunit

TRY = os.path.join(tap.BUILD, "tests", "unit", "opencl_try")
EMBED = os.path.join(tap.SRC, "opencl", "embed.sh")
SCRATCH = tap.scratch()


def attempt(*args, **env):
    """Runs opencl_try with some environment variables. PoCL's cache is in the scratch folder, and
    its own memory leaks are not reported."""
    full = dict(os.environ, POCL_CACHE_DIR=os.path.join(SCRATCH, "pocl"),
                LSAN_OPTIONS="print_suppressions=0:suppressions="
                             + os.path.join(tap.SRC, "tests", "pocl.supp"))
    full.update(env)
    return tap.run([TRY] + list(args), env=full)


COUNT = os.path.join(SCRATCH, "count")


def read_counts():
    """(OpenCL calls made, OpenCL objects not released) in the last run with the hook
    count=COUNT."""
    with open(COUNT) as file:
        calls, objects = file.read().split()
    return int(calls), int(objects)


def messages_of(result):
    return "exit %d\n%s%s" % (result.returncode, result.stdout, result.stderr)


def test_without_opencl():
    missing = os.path.join(SCRATCH, "libNone.so.1")
    sentence = "no OpenCL on this machine: %s could not be opened" % missing
    r = attempt("list", TEXCELL_OPENCL_LIBRARY=missing)
    tap.ok(r.returncode == 0 and r.stdout == sentence + "\n",
           "the list of devices reports a machine without OpenCL", messages_of(r))
    r = attempt("selftest", "opencl", TEXCELL_OPENCL_LIBRARY=missing)
    tap.ok(r.returncode == 3 and sentence in r.stderr,
           "a machine without OpenCL is a device error", messages_of(r))
    r = attempt("selftest", "cpu", TEXCELL_OPENCL_LIBRARY=missing)
    tap.ok(r.returncode == 0, "--device cpu does not use OpenCL", messages_of(r))
    r = attempt("list", TEXCELL_OPENCL_LIBRARY="libm.so.6")
    tap.ok(r.returncode == 0 and "libm.so.6 has no clGetPlatformIDs" in r.stdout,
           "a library that is not OpenCL 1.2 is reported", messages_of(r))
    empty = os.path.join(SCRATCH, "vendors")
    os.mkdir(empty)
    r = attempt("list", OCL_ICD_VENDORS=empty)
    tap.ok(r.returncode == 0 and "no driver" in r.stdout,
           "OpenCL without a driver is reported", messages_of(r))


def test_real_device():
    r = attempt("list")
    if "usable" not in r.stdout:
        tap.skip("a real device", "no OpenCL device here: " + r.stdout.strip())
        return
    tap.note(r.stdout)
    tap.ok(r.returncode == 0 and re.search(r"^0:0  \S", r.stdout, re.M), "devices are listed",
           messages_of(r))
    r = attempt("selftest", "opencl")
    tap.ok(r.returncode == 0, "the integer self-test passes", messages_of(r))
    r = attempt("selftest", "opencl", "floats")
    if "not correctly rounded" in r.stderr:
        tap.skip("the fp32 self-test passes", r.stderr.strip())
    else:
        tap.ok(r.returncode == 0, "the fp32 self-test passes", messages_of(r))
    r = attempt("selftest", "63:0")
    tap.ok(r.returncode == 3 and "there is no OpenCL device 63:0" in r.stderr,
           "a device that does not exist is an error", messages_of(r))
    r = attempt("broken", "opencl")
    tap.ok(r.returncode == 3 and "build of try.cl: CL_BUILD_PROGRAM_FAILURE" in r.stderr
           and r.stderr.count("no_such_thing") >= 2, "a failed build prints its log",
           messages_of(r))
    test_failing_calls()


def test_failing_calls():
    """Call n fails (fail=n), or it and all after it, as with a lost device (fail=n+). In a build
    with sanitizers a memory leak changes the exit code, so that it is found here."""
    args = ("selftest", "opencl", "floats")
    if attempt(*args).returncode != 0:
        args = args[:2]
    r = attempt(*args, **tap.opencl_hooks(count=COUNT))
    calls, objects = read_counts()
    tap.ok(r.returncode == 0 and calls > 40 and objects == 0,
           "%d calls, every object released" % calls, messages_of(r) + "left: %d" % objects)
    for form in ("%d", "%d+"):
        wrong = []
        unharmed = []
        leaks = []
        for n in range(1, calls + 1):
            r = attempt(*args, **tap.opencl_hooks(fail=form % n, count=COUNT))
            if r.returncode == 0:
                unharmed.append(n)
            elif r.returncode != 3 or "CL_" not in r.stderr:
                wrong.append("call %s: %s" % (form % n, messages_of(r)))
            if read_counts()[1] != 0:
                leaks.append(n)
        name = form.replace("%d", "N")
        tap.ok(not wrong, "each call failing (%s) is a device error" % name,
               "\n".join(wrong[:5]))
        # Failures without consequence: of the call for a platform's name, which is only shown; of
        # the last call, a wait while the device is closed; and of the first build, which is
        # repeated without a flag that some compilers reject.
        tap.ok(len(unharmed) <= (3 if name == "N" else 1),
               "every failure (%s) is reported, except for those without consequence"
               % name, unharmed)
        tap.ok(not leaks, "each call failing (%s) leaves no OpenCL object" % name, leaks)
    r = attempt(*args, **tap.opencl_hooks(fail=calls + 1))
    tap.ok(r.returncode == 0, "a failure after the last call has no effect", messages_of(r))


def test_staged_copies():
    """Large copies to and from a GPU (PoCL with the hook gpu=1) go through pinned memory
    (opencl/staging.c)."""
    if attempt("selftest", "opencl").returncode != 0:
        tap.skip("copies through pinned memory give the same bytes", "no device")
        return
    rng = np.random.default_rng(4)
    picture = (128 + 90 * np.sin(np.arange(2100) / 9.) * np.cos(np.arange(1900)[:, None] / 7.) +
               rng.normal(0, 5, (1900, 2100)))
    unit = workunit.write(os.path.join(SCRATCH, "large.zip"), "cellcount", {"labels": True},
                          [workunit.item("x", [picture.astype(np.uint8)])])

    def result(device, **hooks):
        out = os.path.join(SCRATCH, "large.npz")
        environment = dict(os.environ, POCL_CACHE_DIR=os.path.join(SCRATCH, "pocl"))
        r = tap.run([tap.TEXCELL, "run", unit, "-o", out, "--device", device, "--threads", "3"],
                    env=dict(environment, **tap.opencl_hooks(gpu=1, count=COUNT, **hooks)))
        if r.returncode != 0:
            return r, None
        with open(out, "rb") as f:
            content = f.read()
        os.remove(out)
        return r, content
    r, expected = result("cpu")
    r, got = result("opencl")
    calls, objects = read_counts()
    tap.ok(expected is not None and got == expected and objects == 0,
           "copies through pinned memory give the same bytes",
           messages_of(r))
    r, last = result("opencl", fail=calls + 1)
    wrong = []
    for n in range(calls - 96, calls + 1, 12):
        r, got = result("opencl", fail="%d" % n)
        if (got is None and r.returncode != 3) or (got is not None and
                                                   got != expected) or read_counts()[1] != 0:
            wrong.append("%d of %d: left %d, %s" % (n, calls, read_counts()[1], messages_of(r)))
    tap.ok(last == expected and not wrong,
           "failing copies through pinned memory: the run uses the CPU, and no object is left",
           "\n".join(wrong[:3]))


def embed(files, *extra):
    """Embeds k.cl, which includes `files`. Returns the run and the embedded lines."""
    root = os.path.join(SCRATCH, "root")
    shutil.rmtree(root, True)
    for name, text in files.items():
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", newline="") as file:
            file.write(text)
    out = os.path.join(root, "out.c")
    r = tap.run(["sh", EMBED, root, os.path.join(root, "opencl/kernels/k.cl"), out] + list(extra))
    lines = None
    if os.path.exists(out):
        with open(out) as file:
            lines = "".join(ast.literal_eval(x[:-1].strip()) for x in file.read().splitlines()
                            if x.startswith('    "'))
    left_files = set(os.listdir(root)) - {"out.c", "opencl", "app"}
    return r, lines, left_files


def test_embedding():
    kernel = ('// \\ "quoted" \'x\' \t %d\n#include "app/a.h"\n#include <stdint.h>\n'
              '  #  include "near.h" // why\nint last;\n')
    a = '#ifndef A\n#define A\n#include "app/b.h"\nint a;\n#endif\n'
    near = '#include "app/b.h"\r\nint near;\r\n'
    r, text, left_files = embed({"opencl/kernels/k.cl": kernel, "opencl/kernels/near.h": near,
                                 "app/a.h": a, "app/b.h": "int b;\n"})
    expected = ('#line 1 "opencl/kernels/k.cl"\n// \\ "quoted" \'x\' \t %d\n'
                '#line 1 "app/a.h"\n#ifndef A\n#define A\n'
                '#line 1 "app/b.h"\nint b;\n'
                '#line 4 "app/a.h"\nint a;\n#endif\n'
                '#line 3 "opencl/kernels/k.cl"\n#include <stdint.h>\n'
                '#line 1 "opencl/kernels/near.h"\n'
                '#line 2 "opencl/kernels/near.h"\nint near;\n'
                '#line 5 "opencl/kernels/k.cl"\nint last;\n')
    tap.ok(r.returncode == 0 and text == expected and not left_files,
           "headers are included once each, with the line numbers of the files",
           "%s\n%s\n%s" % (messages_of(r), text, left_files))
    r, text, left_files = embed({"opencl/kernels/k.cl": 'int x;\n#include "app/none.h"\n'})
    tap.ok(r.returncode != 0 and text is None and not left_files and
           'k.cl:2: "app/none.h"' in r.stderr,
           "a header that is missing is an error with its line", messages_of(r))
    r, text, left_files = embed({"opencl/kernels/k.cl": "//" + "x" * 4100 + "\n"})
    tap.ok(r.returncode != 0 and text is None and not left_files,
           "a line beyond C's limit is an error",
           messages_of(r))
    clang = shutil.which("clang") or shutil.which("clang-14")
    if clang is None:
        tap.skip("embedding compiles the kernels", "no clang")
        return
    good = "__kernel void k(__global int *p) {\n#ifdef BAD\nrubbish\n#endif\n*p = 1;\n}\n"
    r, text, left_files = embed({"opencl/kernels/k.cl": good}, clang)
    tap.ok(r.returncode == 0 and text, "embedding accepts a kernel that compiles", messages_of(r))
    r, text, left_files = embed({"opencl/kernels/k.cl": "//! check: -DBAD\n" + good}, clang)
    tap.ok(r.returncode != 0 and text is None and not left_files and
           "opencl/kernels/k.cl:4" in r.stderr,
           "a kernel that does not compile with the flags of a check line stops the build",
           messages_of(r))
    r, text, left_files = embed({"opencl/kernels/k.cl": "//! check: -DGOOD\n//! check: -DBAD\n"
                                 "//! check: -DFINE\n" + good}, clang)
    tap.ok(r.returncode != 0 and text is None,
           "any of several check lines may stop the build", messages_of(r))
    r, text, left_files = embed({"opencl/kernels/k.cl": "rubbish\n"}, ":")
    tap.ok(r.returncode == 0 and text, "without clang nothing is compiled", messages_of(r))


if not os.path.exists(TRY):
    print("1..0 # SKIP opencl_try is not built")
    sys.exit(0)
test_without_opencl()
test_real_device()
compiled.copy(SCRATCH, "cellcount")
test_staged_copies()
test_embedding()
tap.done()
