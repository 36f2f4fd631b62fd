"""Tests that texcell-validate check, and Python's zipfile with NumPy, read the same from every
archive that check accepts; the archives are results whose structure fuzz/two_readers.c changed.
TWO_READERS=N: the number of archives."""
import atexit
import json
import os
import re
import shutil
import tempfile
import zipfile

import numpy as np

import tap
from oracle import workunit
from oracle.workunit import item

N = int(os.environ.get("TWO_READERS", "20000"))
BATCH = 10000
PROGRAM = os.path.join(tap.BUILD, "tests", "fuzz", "two_readers")
FOLDER = tempfile.mkdtemp(prefix="texcell-test-", dir="/dev/shm" if os.path.isdir("/dev/shm")
                          else None)
atexit.register(shutil.rmtree, FOLDER, True)


def path(*names):
    return os.path.join(FOLDER, *names)


def read(file):
    """(names of members, result.json, {name: array}) as zipfile and numpy.load read them."""
    with zipfile.ZipFile(file) as z:
        names, bad = z.namelist(), z.testzip()
        text = z.read("result.json")
    with np.load(file, allow_pickle=False) as arrays:
        content = {n: arrays[n] for n in arrays.files if n != "result.json"}
        if sorted(arrays.files) != sorted(n[:-4] if n.endswith(".npy") else n
                                          for n in names) or bad is not None:
            raise ValueError("other members: %s %s" % (names, bad))
    return names, json.loads(text), content


def is_same(a, b):
    return a[0] == b[0] and a[1] == b[1] and all(
        x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
        for x, y in ((a[2][n], b[2][n]) for n in a[2]))


def units():
    y, x = np.indices((16, 21))
    picture = np.where((y % 6 < 3) & (x % 7 < 3), 40, 200).astype(np.uint8)
    items = [item("a", [picture]), item("b", [picture.T.copy()])]
    yield "cellcount", {"labels": True, "threshold": 128}, items
    yield ("glcm", {"levels": [8], "distances": [1], "window": {"shape": "disc", "radius": 3},
                    "per_offset": True}, items)


def main():
    changed = accepted = 0
    for number, (analysis, parameters, items) in enumerate(units()):
        unit, result = path("u%d.zip" % number), path("r%d.npz" % number)
        workunit.write(unit, analysis, parameters, items)
        run = tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet"])
        tap.ok(run.returncode == 0, analysis + ": the right result", run.stderr)
        right, wrong, fails = read(result), [], []
        with open(result, "rb") as f:
            right_bytes = f.read()
        for seed in range(0, N // 2, BATCH):
            folder = path("accepted")
            shutil.rmtree(folder, True)
            os.mkdir(folder)
            run = tap.run([PROGRAM, unit, result, str(seed + number * N),
                           str(min(BATCH, N // 2 - seed)), folder])
            counts = re.match(r"(\d+) changed, (\d+) accepted$", run.stdout.strip())
            if run.returncode != 0 or not counts:
                fails.append(run.stderr)
                break
            changed, accepted = changed + int(counts.group(1)), accepted + int(counts.group(2))
            for name in os.listdir(folder):
                if name.endswith(".copy.npz"):
                    continue
                file, copy = (os.path.join(folder, name),
                              os.path.join(folder, name[:-4] + ".copy.npz"))
                with open(copy, "rb") as f:
                    as_written = f.read()
                try:
                    expected = right if as_written == right_bytes else read(copy)
                    if not is_same(read(file), expected):
                        wrong.append("%s: other content" % name)
                except Exception as e:      # of any kind: zipfile or NumPy cannot read it
                    wrong.append("%s: %s: %s" % (name, type(e).__name__, e))
                if wrong and os.environ.get("TWO_READERS_KEEP"):
                    shutil.copy(file, os.environ["TWO_READERS_KEEP"])
        tap.ok(not fails, analysis + ": every archive is accepted or refused", "\n".join(fails))
        tap.ok(not wrong, analysis + ": zipfile and NumPy read the same from accepted archives",
               "\n".join(wrong[:10]))
    tap.ok(accepted >= N // 1000 and changed > N * 9 // 10,
           "some of %d changed archives are accepted: %d" % (changed, accepted))
    tap.done()


if __name__ == "__main__":
    main()
