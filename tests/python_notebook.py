"""Tests docs/python.ipynb, cell by cell: its results agree with those of the cells that use
scikit-image and SciPy. Prints a table with lines of code and seconds of processor time.
NOTEBOOK_FIGURES=FOLDER keeps the figures."""
import json
import os
import resource
import sys
import warnings

import tap

try:
    import matplotlib
    import sklearn  # noqa: F401
except ImportError as error:
    tap.skip("the notebook", str(error))
    tap.done()
matplotlib.use("Agg")
import matplotlib.pyplot as plt

sys.path.insert(0, os.path.join(tap.SRC, "workunits", "python"))
os.environ["TEXCELL"] = os.path.abspath(tap.BUILD)
FIGURES = os.environ.get("NOTEBOOK_FIGURES")
shown = []


def show():
    """Replaces pyplot.show: counts and keeps the figure."""
    shown.append(plt.gcf())
    if FIGURES:
        plt.savefig(os.path.join(FIGURES, "%d.png" % len(shown)), dpi=70)
    plt.close("all")


def spent():
    """Processor time of this process and its children, in seconds."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def lines_of(source):
    """The number of lines of code, without blank lines and comments."""
    return sum(bool(l.strip()) and not l.strip().startswith("#") for l in source.splitlines())


plt.show = show
warnings.simplefilter("ignore")
with open(os.path.join(tap.SRC, "docs", "python.ipynb"), encoding="utf-8") as f:
    cells = [c for c in json.load(f)["cells"] if c["cell_type"] == "code"]
names, measured = {"__name__": "notebook"}, {}
for number, cell in enumerate(cells):
    source, about = "".join(cell["source"]), cell["metadata"]
    times = []
    for _ in range(3 if about else 1):
        start = spent()
        exec(compile(source, "cell %d" % number, "exec"), names)
        times.append(spent() - start)
    if about:
        measured[about["task"], about["by"]] = lines_of(source), min(times)
    tap.ok(not cell["outputs"] and cell["execution_count"] is None,
           "cell %d: %s" % (number, source.splitlines()[0]))
tap.ok(len(shown) == 5, "%d figures" % len(shown))
tap.ok(names["count"] == names["peer_count"] == 24, "both count 24 coins",
       (names["count"], names["peer_count"]))
tap.ok(abs(len(names["shapes"]) - len(names["peer_shapes"]["label"])) < 0.25 * len(names["shapes"]),
       "both count about the same number of nuclei",
       (len(names["shapes"]), len(names["peer_shapes"]["label"])))
tap.ok(names["accuracy"] > 0.9 and names["accuracy"] > names["peer_accuracy"] - 0.02,
       "textures are classified",
       (names["accuracy"], names["peer_accuracy"]))
tap.ok(len(names["table"]) == len(names["peer_table"]["label"]) > 40,
       "the same number of cells in the stack",
       (len(names["table"]), len(names["peer_table"]["label"])))
tap.note("| task | texcell | scikit-image and SciPy |\n|---|---|---|")
for task in dict.fromkeys(t for t, _ in measured):
    tap.note("| %s | %s |" % (task, " | ".join("%d lines, %.2f s" % measured[task, by]
                                               for by in ("texcell", "scikit-image"))))
tap.done()
