"""Times a validator with 100 hostile uploads among 100 honest ones, in random order, in one
process, as texcell_validator calls it. Prints the wall time of each, and whether any is left
undecided. Hostile uploads are forged so that the item is computed again, have tables with the
largest allowed number of rows or more, have members that decompress to a gigabyte, are truncated or
random bytes, or are results of another unit."""
import os
import subprocess
import sys
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import forge                       # noqa: E402
import forgers                     # noqa: E402
import tap                         # noqa: E402
from oracle import workunit        # noqa: E402

FOLDER, N = tap.scratch(), 100


def rows(result, n):
    """The result with n rows of zeros."""
    for name in result.arrays:
        if name.startswith("region_"):
            result.arrays[name] = np.zeros((n,) + result.arrays[name].shape[1:],
                                           result.arrays[name].dtype)
    result.arrays["count"][0] = n
    return result.bytes()


def hostile(kind, honest, picture, parameters):
    lie = forge.Result(honest)
    if kind == 0:
        forgers.replace_by_giants(lie.arrays, parameters, picture)
    elif kind == 1:
        return rows(lie, picture.size // 16)
    elif kind == 2:
        return rows(lie, 20 * picture.size // 16)
    elif kind == 3:
        lie.arrays["region_area"] = np.zeros(1 << 27, np.int64)
    with open(honest, "rb") as f:
        whole = f.read()
    return {4: whole[:-1000], 5: os.urandom(1 << 20)}.get(kind) or lie.bytes()


def main():
    picture, parameters = (np.tile(forgers.cells(), (5, 5)),
                           dict(forgers.BRIGHT, min_area=16, fill_holes=True, split="distance"))
    for name in ("download", "upload", "tmp_x"):
        os.makedirs(os.path.join(FOLDER, name))
    unit, honest, other = (os.path.join(FOLDER, name)
                           for name in ("u.zip", "honest.npz", "other.npz"))
    for file, one in ((other, picture[::-1]), (honest, picture)):
        workunit.write(unit, "cellcount", parameters,
                       [workunit.item("one", [np.ascontiguousarray(one)])])
        subprocess.check_call([tap.TEXCELL, "run", unit, "-o", file, "--device", "cpu", "--quiet"])
    kinds = [hostile(k, honest, picture, parameters) for k in range(6)] + [open(other, "rb").read()]
    right, order = open(honest, "rb").read(), np.random.default_rng(1).permutation(2 * N)
    process = subprocess.Popen([os.path.abspath(tap.TEXCELL_VALIDATE), "script-init", "--many",
                                "--workunits", "../download", "--accepted", "../accepted"],
                               cwd=os.path.join(FOLDER, "tmp_x"), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    took, codes = {True: [], False: []}, {True: [], False: []}
    for k in order:
        good = bool(k < N)
        os.link(unit, os.path.join(FOLDER, "download", "u_%d.zip" % k))
        upload = os.path.join(FOLDER, "upload", "u_%d_0_r%d_0" % (k, k))
        with open(upload, "wb") as f:
            f.write(right if good else kinds[k % len(kinds)])
        start = time.perf_counter()
        process.stdin.write(("../upload/" + os.path.basename(upload)).encode() + b"\n")
        process.stdin.flush()
        codes[good].append(int(process.stdout.readline()))
        took[good].append(time.perf_counter() - start)
    process.stdin.close()
    process.wait()
    for good, what in ((True, "honest"), (False, "hostile")):
        print("%d %s: %.2f s in the mean, %.2f s at most; exit codes %s" %
              (N, what, np.mean(took[good]), max(took[good]),
               {c: codes[good].count(c) for c in sorted(set(codes[good]))}))
    print("all of them: %.1f s" % sum(took[True] + took[False]))


if __name__ == "__main__":
    main()
