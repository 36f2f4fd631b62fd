"""Tests that app/analysis/analyses.def is the only list of analyses: programs and tests read it; an
analysis without its file in tests/analyses ends the tests with an error; and no other file of the
programs or of the build lists analyses. Each analysis has its pages, which describe every
column."""
import glob
import itertools
import json
import os
import re
import shutil
import sys
import zipfile

import analyses
import tap
from oracle import workunit

FOLDER = tap.scratch()


def source(*names):
    return os.path.join(tap.SRC, *names)


def read(*names):
    with open(source(*names), encoding="utf-8") as f:
        return f.read()


def programs(names):
    r = tap.run([tap.TEXCELL, "selftest", "--device", "cpu"])
    tap.ok(r.returncode == 0 and r.stdout.splitlines()[:len(names)] ==
           [n + ": the CPU is right" for n in names],
           "texcell selftest tests every analysis, in the list's order",
           r.stdout + r.stderr)
    r = tap.run([tap.TEXCELL_WU, "pack", "--analysis", "nothing", "-o",
                 os.path.join(FOLDER, "n.zip"), FOLDER])
    tap.ok(r.returncode == 1 and ", ".join(names) in r.stderr,
           "texcell-wu pack accepts every analysis",
           r.stderr)


def tests_of(line, name, text):
    """Runs a test over each analysis in a tree with one more line in analyses.def, and (unless text
    is None) one more file, name.py, in tests/analyses."""
    tree = os.path.join(FOLDER, "tree")
    shutil.rmtree(tree, True)
    os.makedirs(os.path.join(tree, "app", "analysis"))
    shutil.copytree(source("tests", "analyses"), os.path.join(tree, "tests", "analyses"))
    with open(os.path.join(tree, "app", "analysis", "analyses.def"), "w") as f:
        f.write(read("app", "analysis", "analyses.def") + line)
    if text is not None:
        with open(os.path.join(tree, "tests", "analyses", name + ".py"), "w") as f:
            f.write(text)
    path = os.pathsep.join([os.path.join(tree, "tests"), source("tests")])
    return tap.run([sys.executable, "-c", "import analyses\nfor n, _ in analyses.each(): print(n)"],
                   env=dict(os.environ, TEXCELL_SRC=tree, PYTHONPATH=path, TEXCELL_ANALYSIS=""))


def test_new_analyses(names):
    """A new analysis is tested if it has its file, and ends the tests with an error otherwise."""
    whole = "\n".join("%s = None" % what for what in analyses.WANTED)
    r = tests_of("ANALYSIS(nova, cpu)\n", "nova", whole)
    tap.ok(r.returncode == 0 and r.stdout.split() == names + ["nova"],
           "a new analysis with a file in tests/analyses is tested",
           r.stdout + r.stderr)
    for title, line, text, words in (
            ("without its file", "ANALYSIS(nova, cpu)\n", None,
             "tests/analyses/nova.py is missing: analyses.def names nova"),
            ("with a part missing", "ANALYSIS(nova, opencl)\n", whole.replace("SEEDS", "SEED"),
             "tests/analyses/nova.py has no SEEDS"),
            ("in a line of its own form", "ANALYSIS(nova,cpu) // mine\n", whole,
             "a line that is not like")):
        r = tests_of(line, "nova", text)
        tap.ok(r.returncode == 99 and r.stdout.startswith("Bail out! ") and words in r.stdout,
               "an analysis %s ends the tests with an error" % title,
               "exit %d\n%s%s" % (r.returncode, r.stdout, r.stderr))


def belongs_to(path, name):
    """Whether a file belongs to this analysis."""
    return path.startswith("app/analysis/%s/" % name) or \
        re.match(r"opencl/(kernels/)?%s[_.]" % name, path) is not None


def names_it(path, name):
    """Whether a file names an analysis: in C and JavaScript as a string, an identifier or a path,
    as some names are also ordinary words; in other files as any word."""
    word = r'"%s["/]|\b(an|ocl)_%s\b|/%s[/_.]' if path.endswith((".c", ".h", ".cl",
                                                                 ".js")) else r"\b%s\b"
    return re.search(word.replace("%s", name), read(path)) is not None


def test_no_other_list(names):
    """No file but those of an analysis names more than one analysis."""
    found = []
    files = [os.path.relpath(f, tap.SRC) for top in ("app", "opencl", "wrapper", "workunits",
                                                     "validator")
             for f in glob.glob(source(top, "**", "*"), recursive=True) if os.path.isfile(f)]
    # The Python package's stubs and napari widgets list all analyses; python_test.py compares them
    # with the program.
    files = [f for f in files if not f.endswith((".md", ".o", ".pyc")) and
             not re.match("opencl/kernels/.*[.]c$|workunits/python/", f)]
    tests = [os.path.relpath(f, tap.SRC) for f in glob.glob(source("tests", "*.inc"))]
    for f in files + tests + ["configure.ac", "Makefile.am", "bootstrap"]:
        if f in ("app/analysis/analyses.def", "app/analysis/analyses.inc"):
            continue
        named = [n for n in names if names_it(f, n) and not belongs_to(f, n)]
        if len(named) > 1:
            found.append("%s names %s" % (f, ", ".join(named)))
    tap.ok(len(files) > 150 and not found,
           "no file of the programs or of the build contains another list of analyses",
           "\n".join(found))


def described_columns(page):
    """{column: [units]} in the page's section Columns, where `bbox_y0 x0` means bbox_y0 and
    bbox_x0."""
    units_by_column = {}
    for cells in re.findall(r"(?m)^\| (`.*?) \| (.*?) \|",
                            page.partition("\n## Columns\n")[2].partition("\n## Accuracy\n")[0]):
        for first, *other_names in (code.split() for code in re.findall(r"`([^`]+)`", cells[0])):
            for column in [first] + [re.sub("[a-z0-9]+$", other, first) for other in other_names]:
                units_by_column.setdefault(column, []).append(cells[1])
    return units_by_column


def test_columns(name, of):
    """The page describes each column of results, with its unit."""
    page = read("docs", "analyses", name + ".md")
    described, missing = described_columns(page), set()
    for parameters, items in of.SEEDS + list(of.DATA_SET.values()):
        r = tap.run([tap.TEXCELL, "run",
                     workunit.write(os.path.join(FOLDER, "u.zip"), name, parameters, items), "-o",
                     os.path.join(FOLDER, "r.npz"), "--device", "cpu", "--quiet"])
        if not tap.ok(r.returncode == 0, name + ": a result", r.stderr):
            return
        with zipfile.ZipFile(os.path.join(FOLDER, "r.npz")) as z:
            arrays = json.loads(z.read("result.json"))["arrays"]
        for array in arrays:
            words = [axis.get("values", [0]) for axis in array.get("axes", [])]
            if "title" not in array or array["role"] not in ("value", "place", "key") or any(
                    type(w[0]) is int for w in words):
                continue
            for column in ["_".join((array["title"],) + word)
                           for word in itertools.product(*words)]:
                if column not in described and "`%s`" % column not in page:
                    missing.add(column)
                elif column in described and array.get("unit",
                                                       "") not in " ".join(described[column]):
                    missing.add("%s (%s)" % (column, array["unit"]))
        os.remove(os.path.join(FOLDER, "r.npz"))
    tap.ok(not missing, name + ": the page has every column and its unit", sorted(missing))


def main():
    names = analyses.names()
    programs(names)
    test_new_analyses(names)
    test_no_other_list(names)
    for name, of in analyses.each():
        tap.ok(all(os.path.exists(source("docs", *folder, name + ".md"))
                   for folder in (["analyses"], ["dev", "analyses"])) and
               "[`%s`](docs/analyses/%s.md)" % (name, name) in read("README.md"),
               name + ": its two pages, and its line in README.md")
        test_columns(name, of)
    units = [unit for _name, of in analyses.each() for unit in of.DATA_SET]
    tap.ok(len(units) == len(set(units)), "units of the data set have different names", units)
    tap.done()


if __name__ == "__main__":
    main()
