"""Tests the dependencies of the sources: no #include contradicts the order in docs/dev/design.md,
no files include each other in a circle, and only an analysis's own folder contains the names of its
arrays."""
import glob
import os
import re

import tap

# What each folder may include besides its own files.
BASE = ["app/base"]
FORMAT = BASE + ["workunits/format"]
ANALYSIS = FORMAT + ["app/analysis", "app/analysis/common"]
MAY = {
    "app/base": [],
    "workunits/format": BASE,
    "app/analysis": FORMAT,
    "app/analysis/common": FORMAT + ["app/analysis"],
    "app/analysis/*": ANALYSIS,
    "opencl": ANALYSIS + ["app/analysis/*", "opencl/kernels"],
    "opencl/kernels": ["app/analysis/common", "app/analysis/*"],
    "wrapper": BASE,
    "app": ANALYSIS + ["opencl", "wrapper"],
    "workunits/tools": ANALYSIS,
    "validator/check": ANALYSIS,
    "validator/dataset": ANALYSIS + ["validator/check"],
    "validator/deploy": [],
}


def folder_of(path):
    """The entry of MAY for a file's folder, or None."""
    folder = os.path.dirname(path)
    if folder in MAY:
        return folder
    if os.path.dirname(folder) == "app/analysis":
        return "app/analysis/*"
    return None


# Names of an analysis's tables and pictures may occur only in its folder and in opencl/NAME_cl.c.
ANALYSES = re.findall(r"^ANALYSIS\((\w+),",
                      open(os.path.join(tap.SRC, "app", "analysis", "analyses.def")).read(), re.M)
NAMES = re.compile(r'"(%s|region|cell|point|object|labels|mask|map)_' % "|".join(ANALYSES))


def is_allowed(path, included):
    source, target = folder_of(path), folder_of(included)
    if source is None or target is None:
        return False
    if source == target == "app/analysis/*":        # an analysis includes no other one's files
        return os.path.dirname(path) == os.path.dirname(included)
    return target == source or target in MAY[source]


def may_name(path):
    """Whether a file may contain the names of an analysis's arrays."""
    folder, file = os.path.split(path)
    return folder_of(path) == "app/analysis/*" or folder == "opencl" and file in [a + "_cl.c"
                                                                                  for a in ANALYSES]


def names_in(text):
    return [m.group(0)[1:] for m in NAMES.finditer(text)]


def includes(path):
    with open(os.path.join(tap.SRC, path), encoding="utf-8") as f:
        found = re.findall(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', f.read(), re.M)
    return [name for name in found if name != "config.h"]


def resolve(path, name):
    """The file that the compiler finds: from the root, or from the including file's folder."""
    for candidate in (name, os.path.normpath(os.path.join(os.path.dirname(path), name))):
        if os.path.exists(os.path.join(tap.SRC, candidate)):
            return candidate
    return name


# Only these files may depend on the operating system.
SEAM = re.compile(r"app/base/os_\w+\.c|validator/deploy/.*")      # deploy: for Linux servers only
SYSTEM = re.compile(r"^[ \t]*#[ \t]*(?:if|elif)\w*\b.*\b(_WIN32|_WIN64|__MINGW\w*|__linux__|"
                    r"__APPLE__|__unix__)\b|^[ \t]*#[ \t]*include[ "
                    r"\t]*<(windows|dlfcn|dirent|sys/mman|sys/ioctl|sys/file|sys/wait)\.h>", re.M)


def circle(graph):
    """A list of files of which each includes the next one, and the last one the first; or None."""
    state = {}

    def visit(node, trail):
        state[node] = 1
        for other in graph.get(node, []):
            if state.get(other) == 1:
                return trail[trail.index(other):] + [other] if other in trail else [node, other]
            if other not in state:
                found = visit(other, trail + [other])
                if found:
                    return found
        state[node] = 2
        return None

    for start in sorted(graph):
        if start not in state:
            found = visit(start, [start])
            if found:
                return found
    return None


def modules(graph):
    """The graph of modules. NAME.c and NAME.h are one module; a header without a source belongs to
    each module that includes it."""
    def stem(f):
        return os.path.splitext(f)[0]

    sources = {stem(f) for f in graph if not f.endswith(".h")}

    def reached(f, seen):
        for g in graph[f]:
            if stem(g) in sources:
                yield stem(g)
            elif g not in seen:
                seen.add(g)
                yield from reached(g, seen)

    needs = {}
    for f in graph:
        if stem(f) in sources:
            needs.setdefault(stem(f), set()).update(reached(f, set()))
    return {m: sorted(others - {m}) for m, others in needs.items()}


def main():
    files = sorted(os.path.relpath(f, tap.SRC) for top in ("app", "opencl", "wrapper", "workunits",
                                                           "validator")
                   for ending in ("c", "h", "def", "cl", "cpp")
                   for f in glob.glob(os.path.join(tap.SRC, top, "**", "*." + ending),
                                      recursive=True))
    # Leaves out kernels embedded as C, which a build within the tree has made.
    files = [f for f in files if not (f.startswith("opencl/kernels/") and f.endswith(".c"))]
    graph = {f: [resolve(f, name) for name in includes(f)] for f in files}
    tap.ok(len(files) > 100, "the sources are found", len(files))
    strays = [f for f in files if folder_of(f) is None]
    tap.ok(not strays, "every source is in a folder of the list above", "\n".join(strays))
    missing = ["%s: %s" % (f, g) for f in files for g in graph[f] if g not in graph]
    tap.ok(not missing, "every file that is included exists", "\n".join(missing))
    upward = ["%s includes %s" % (f, g) for f in files for g in graph[f] if not is_allowed(f, g)]
    tap.ok(not upward, "no #include contradicts the order of the folders", "\n".join(upward))
    scripts = [os.path.relpath(f, tap.SRC)
               for f in glob.glob(os.path.join(tap.SRC, "validator", "deploy", "*"))]
    known = []
    for f in files + scripts:
        if not may_name(f) and os.path.isfile(os.path.join(tap.SRC, f)):
            with open(os.path.join(tap.SRC, f), encoding="utf-8") as source:
                known += ["%s: %s" % (f, name) for name in names_in(source.read())]
    tap.ok(not known, "only an analysis's own folder has the names of its arrays",
           "\n".join(known))
    systems = []
    for f in files:
        if not SEAM.fullmatch(f):
            with open(os.path.join(tap.SRC, f), encoding="utf-8") as source:
                systems += ["%s: %s" % (f, found.group(0))
                            for found in SYSTEM.finditer(source.read())]
    tap.ok(not systems, "only app/base/os_*.c depend on the operating system", "\n".join(systems))
    round_trip = circle(modules(graph))
    tap.ok(round_trip is None, "no files include each other in a circle", round_trip)
    # The rules themselves are checked.
    tap.ok(not is_allowed("workunits/format/job.c", "app/analysis/analysis.h")
           and not is_allowed("wrapper/bw.c", "workunits/format/npz.h")
           and not is_allowed("app/analysis/glcm/cpu.c", "app/analysis/voting/voting.h")
           and is_allowed("opencl/glcm_cl.c", "app/analysis/glcm/layout.h"),
           "the rules distinguish allowed includes from others")
    tap.ok(names_in('begins(name, "labels_") || find("glcm_L16") || "relabels_x"') ==
           ["labels_", "glcm_"]
           and may_name("app/analysis/glcm/output.c") and may_name("opencl/glcm_cl.c") and
           not may_name("opencl/worker.c")
           and not may_name("app/analysis/common/label.c") and
           not may_name("validator/dataset/tables.c"), "the check of names finds a forbidden name")
    tap.ok(SYSTEM.search("int a;\n#ifdef _WIN32\n") and SYSTEM.search("# if defined(__APPLE__)\n")
           and SYSTEM.search("#include <dlfcn.h>\n") and not SYSTEM.search("#ifdef __SSE2__\n"),
           "the check of the operating system finds a dependency")
    tap.ok(circle({"a": ["b"], "b": ["c"], "c": ["b"]}) == ["b", "c", "b"],
           "the check for circles finds one")
    tap.ok(circle(modules({"a.c": ["b.h"], "b.h": [], "b.c": ["b.h", "in.h"], "in.h": ["a.h"],
                           "a.h": []})) is not None,
           "the check for circles finds one through a header")
    tap.done()


main()
