"""What the tests that say "each analysis" run over: for each name in
app/analysis/analyses.def the file NAME.py in this folder. All of these are required:

JOBS           {title: (parameters, items)}: small honest work units with every kind of phase,
               pictures and stacks, whichever there are, at least two items in the first.
               They are computed on the CPU and on OpenCL, stopped at every step, validated; the
               last one meets OpenCL drivers that fail
forgeries()    yields (title, job, change, reason): change(arrays) forges the result of that
               job, and texcell-validate check refuses it with these words (a regular
               expression); reason None: nobody can know without computing it again
random_job(rng)
               parameters and items by chance, at their limits too
memory_jobs()  [(parameters, pixels)]: what needs much memory; pixels: a picture or a stack; and
               labels, where the analysis wants them
SEEDS          [(parameters, items)]: tiny ones, the first inputs of the fuzzers
ESTIMATES      [(["KEY=VALUE", ...], pixels)], or with labels: jobs of usual size, some tenths of a
               second, whose time, and size of the result, the plan must estimate
DATA_SET       {name: (parameters, items)}: units of a data set; no other analysis has the name
and these may be there:
KNOWN          {title: known_answer() of forge.Result}: the arrays of JOBS, as they have been
               ever since and on every machine; validate_forgeries.py tells those that are missing
expected(parameters, pixels)
               {array: value} of an item, computed from its grey values ([y, x] or [z, y, x] of
               int64) by other means, for oracle_test.py
BLANK          for an analysis that looks at pixels (check_pixels): {title: (parameters, slices,
               slices of another picture)}, with label pictures where the analysis wants them: real
               pictures, whose result must not be taken for that of a blank one
"""
import importlib
import json
import os
import re

import tap

WANTED = ("JOBS", "forgeries", "random_job", "memory_jobs", "SEEDS", "ESTIMATES", "DATA_SET")
FOLDER = os.path.dirname(os.path.abspath(__file__))


def listed():
    """{name: "cpu" or "opencl"}, as analyses.def has them."""
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
    """The module of an analysis, complete."""
    if not os.path.exists(os.path.join(FOLDER, name + ".py")):
        tap.bail("tests/analyses/%s.py is missing: analyses.def names %s" % (name, name))
    module = importlib.import_module("analyses." + name)
    missing = [what for what in WANTED if not hasattr(module, what)]
    if missing:
        tap.bail("tests/analyses/%s.py has no %s" % (name, ", ".join(missing)))
    return module


def parameters_of(texts):
    """As pack --param reads them: what is no JSON is a word."""
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
