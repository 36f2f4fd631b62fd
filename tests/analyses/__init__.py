"""The data of each analysis for tests that run over all analyses: for each name in
app/analysis/analyses.def there is a file NAME.py in this folder. Each file must have:

JOBS           {title: (parameters, items)}: small valid work units with every kind of phase, and
               with pictures and stacks as far as the analysis takes them; the first has at least
               two items. They are computed on the CPU and by OpenCL, stopped at every step, and
               validated; the last one is also run with OpenCL drivers that fail
forgeries()    yields (title, job, change, reason): change(arrays) forges the result of that job,
               and texcell-validate check refuses it with a message that matches `reason` (a
               regular expression); reason None: only computing the item again finds the forgery
random_job(rng)
               (parameters, items) of a random work unit, whose values are sometimes at their limits
memory_jobs()  [(parameters, pixels)]: work units that need much memory; pixels: a picture or a
               stack; with labels after the pixels if the analysis takes them
SEEDS          [(parameters, items)]: tiny work units, the first inputs of the fuzzers
ESTIMATES      [(["KEY=VALUE", ...], pixels)], with labels after the pixels if the analysis takes
               them: work units of usual size that take some tenths of a second; the plan must
               estimate their time and the size of the result
DATA_SET       {name: (parameters, items)}: units of a data set; names differ between analyses
and may have:
KNOWN          {title: known_answer() of forge.Result}: checksums of the arrays of JOBS, which are
               the same on every machine; validate_forgeries.py prints those that are missing
expected(parameters, pixels)
               {array: value} of an item, computed independently from its grey values ([y, x] or
               [z, y, x] of int64), for oracle_test.py
BLANK          if the analysis checks pixels (check_pixels): {title: (parameters, slices, slices
               of another picture)}, with label pictures if the analysis takes them: real
               pictures, whose results must not be accepted for blank pictures
"""
import importlib
import json
import os
import re

import tap

WANTED = ("JOBS", "forgeries", "random_job", "memory_jobs", "SEEDS", "ESTIMATES", "DATA_SET")
FOLDER = os.path.dirname(os.path.abspath(__file__))


def listed():
    """{name: "cpu" or "opencl"} from analyses.def."""
    with open(os.path.join(tap.SRC, "app", "analysis", "analyses.def"), encoding="utf-8") as f:
        lines = [line for line in f if line.startswith("ANALYSIS")]
    found = [re.match(r"ANALYSIS\(([a-z0-9_]+), (cpu|opencl)\)$", line) for line in lines]
    if not lines or None in found:
        tap.bail("app/analysis/analyses.def has a line that is not like ANALYSIS(name, opencl)")
    return dict(m.groups() for m in found)


def names():
    return list(listed())


def has_opencl(name):
    return listed()[name] == "opencl"


def load(name):
    """The module of an analysis; ends the test if something is missing in it."""
    if not os.path.exists(os.path.join(FOLDER, name + ".py")):
        tap.bail("tests/analyses/%s.py is missing: analyses.def names %s" % (name, name))
    module = importlib.import_module("analyses." + name)
    missing = [what for what in WANTED if not hasattr(module, what)]
    if missing:
        tap.bail("tests/analyses/%s.py has no %s" % (name, ", ".join(missing)))
    return module


def parameters_of(texts):
    """{key: value} of texts KEY=VALUE, read like those of pack --param: JSON, or else a string."""
    found = {}
    for key, text in (t.split("=", 1) for t in texts):
        try:
            found[key] = json.loads(text)
        except ValueError:
            found[key] = text
    return found


def each():
    """(name, module) of every analysis, or of the one that TEXCELL_ANALYSIS names."""
    only = os.environ.get("TEXCELL_ANALYSIS")
    return [(name, load(name)) for name in names() if only in (None, "", name)]
