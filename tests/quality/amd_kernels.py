"""Compiles every kernel for AMD's GPUs with clang and AMD's device libraries, without a GPU: for
each processor, and for each set of defines that the kernel's comments name. A warning is a
failure."""
import glob
import os
import re
import shutil
import subprocess

import tap

# GCN 3, GCN 5 (Vega), RDNA 1, 2 and 3. Older device libraries lack RDNA 3.
PROCESSORS = ["gfx803", "gfx900", "gfx906", "gfx1010", "gfx1030", "gfx1100"]
FLAGS = ("-x cl -cl-std=CL1.2 -D__OPENCL_VERSION__=120 -Xclang -finclude-default-header -O3 -Wall"
         " -Wno-unused-function -Werror -ffp-contract=off -cl-fp32-correctly-rounded-divide-sqrt"
         " --target=amdgcn-amd-amdhsa").split()


def find_library():
    found = sum((glob.glob(folder + "/amdgcn/bitcode/ocml.bc")
                 for folder in ("/usr/lib/*-linux-gnu", "/usr/lib", "/opt/rocm*")), [])
    return os.path.dirname(found[0]) if found else None


def find_compiler(library):
    """The newest clang that can read the library's bitcode and has AMD's processors, or None."""
    named = glob.glob("/usr/bin/clang-[0-9]*")
    for clang in sorted((c for c in named if re.fullmatch(r".*clang-\d+", c)),
                        key=lambda c: -int(c.rsplit("-", 1)[1])) + ["clang"]:
        if shutil.which(clang) and compile_kernel(clang, library, "gfx900", "selftest", [])[0] == 0:
            return clang
    return None


def compile_kernel(clang, library, processor, name, defines):
    ran = subprocess.run(
        [clang] + FLAGS + ["-mcpu=" + processor, "--rocm-device-lib-path=" + library, "-I", tap.SRC]
        + defines + ["-c", os.path.join(tap.SRC, "opencl/kernels", name + ".cl"),
                     "-o", os.path.join(FOLDER, name + ".o")],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, universal_newlines=True, timeout=300)
    return ran.returncode, ran.stderr


def defines_of(path):
    """The sets of defines that the kernel's comments name, and the empty set."""
    with open(path, encoding="utf-8") as f:
        return [[]] + [line.split(":", 1)[1].split() for line in f
                       if line.startswith("//! check:")]


FOLDER = tap.scratch()
LIBRARY = find_library()
CLANG = LIBRARY and find_compiler(LIBRARY)
if not CLANG:
    tap.skip("AMD's compiler", "no clang with rocm-device-libs")
    tap.done()
for processor in PROCESSORS:
    if not os.path.exists(os.path.join(LIBRARY, "oclc_isa_version_%s.bc" % processor[3:])):
        tap.skip(processor, "%s does not know it" % LIBRARY)
        continue
    tried, wrong = 0, []
    for path in sorted(glob.glob(os.path.join(tap.SRC, "opencl/kernels/*.cl"))):
        name = os.path.basename(path)[:-3]
        for defines in defines_of(path):
            code, said = compile_kernel(CLANG, LIBRARY, processor, name, defines)
            tried += 1
            if code != 0:
                wrong.append("%s %s: %s" % (name, " ".join(defines), said[-600:]))
    tap.ok(tried > 20 and not wrong, "%s compiles all kernels for %s, %d ways" %
           (os.path.basename(CLANG), processor, tried), "\n".join(wrong))
tap.done()
