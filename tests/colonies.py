"""Compares counts of colonies on dishes with counts by people: `texcell-wu analyse --analysis
cellcount` without any parameter, and with the filters from docs/analyses/cellcount.md. Prints the
mean of |found - true| / true.

  COLONIES_FOLDER=FOLDER colonies.py     FOLDER/N/image.jpg with the count in FOLDER/N/count.csv"""
import os
import statistics

import tap

FOLDER = os.environ.get("COLONIES_FOLDER")
COMPACT = ["--param", "min_fill=0.65", "--param", "max_aspect=1.7"]


def found(numbers, *args):
    """{picture: number of regions}. Each picture is analysed separately, as a person who has one
    dish would do."""
    out = os.path.join(tap.scratch(), "out")
    counts = {}
    for n in numbers:
        r = tap.run([tap.TEXCELL_WU, "analyse", "--analysis", "cellcount", "--device", "cpu", *args,
                     "-o", out + n, os.path.join(FOLDER, n, "image.jpg")])
        if r.returncode != 0:
            tap.bail(r.stderr)
        with open(os.path.join(out + n, "items.csv")) as f:
            head, row = [line.rstrip("\n").split(",") for line in f][:2]
        counts[n] = int(row[head.index("count")])
    return counts


def main():
    if not FOLDER:
        tap.skip("colonies", "COLONIES_FOLDER names no folder of dishes")
        tap.done()
    numbers = sorted(os.listdir(FOLDER), key=int)
    true = {}
    for n in numbers:
        with open(os.path.join(FOLDER, n, "count.csv")) as f:
            true[n] = int(f.read())
    for args, bar, what in (([], 0.3, "no parameter"), (COMPACT, 0.07, "compact regions")):
        counts = found(numbers, *args)
        errors = [abs(counts[n] - true[n]) / true[n] for n in numbers]
        tap.note(" ".join("%s: %d of %d" % (n, counts[n], true[n]) for n in numbers))
        mean = statistics.mean(errors)
        tap.ok(mean <= bar, "%s, %d dishes: a mean error of %.3f" % (what, len(numbers), mean))
    tap.done()


main()
