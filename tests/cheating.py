"""Tests texcell-validate with forgeries that are tried one by one: verify, and compare with an
honest result, find every forgery that check accepts, unless no program reads the forged bytes.
SECURITY.md lists what cannot be found, with probabilities, which this test counts."""
import json
import math
import os
import re

import numpy as np

import analyses
import forge
import tap
from oracle import workunit
from pictures import blobs

FOLDER = tap.scratch()
EACH = 3                       # elements of an array that are changed


def path(name):
    return os.path.join(FOLDER, name)


def save(name, data):
    with open(path(name), "wb") as f:
        f.write(data)
    return path(name)


def validate(*args):
    return tap.run([tap.TEXCELL_VALIDATE, *args])


def compute(name, analysis, parameters, items):
    unit, result = path(name + ".zip"), path(name + ".npz")
    workunit.write(unit, analysis, parameters, items)
    run = tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet"])
    return unit, result if run.returncode == 0 else tap.note(run.stderr)


# --- one number -----------------------------------------------------------------------------------

def bits_of(a, at, mask):
    """The element with some bits turned."""
    out = a.copy()
    out.reshape(-1).view("u%d" % a.itemsize)[at] ^= np.array(mask, "u%d" % a.itemsize)
    return out


def extremes_of(dtype):
    """Numbers at which arithmetic of this type ends."""
    if dtype.kind == "f":
        return np.nan, np.inf, np.finfo(dtype).max
    return () if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)


def changes(a, rng):
    """Yields (description of the change, changed copy) for several changes of an array."""
    if a.size == 0 or a.dtype.kind == "U":
        return
    top = 1 << (8 * a.itemsize - 1)
    for position in rng.choice(a.size, min(EACH, a.size), replace=False):
        yield "the lowest bit of %d" % position, bits_of(a, position, 1)
        if a.dtype.kind == "f":
            yield "the sign of %d" % position, bits_of(a, position, top)
        for end in extremes_of(a.dtype):
            out = a.copy()
            out.reshape(-1)[position] = end
            if out.tobytes() != a.tobytes():
                yield "%d is %g" % (position, end), out
    if a.dtype.kind != "f":
        return
    flat = a.reshape(-1)
    for what, where in (("a zero is negative", flat == 0), ("a NaN has a sign", np.isnan(flat))):
        if where.any():
            yield what, bits_of(a, int(np.nonzero(where)[0][0]), top)
    if np.isnan(flat).any():
        yield "a NaN has a message", bits_of(a, int(np.nonzero(np.isnan(flat))[0][0]), 0x2a)
        yield ("a NaN signals", bits_of(a, int(np.nonzero(np.isnan(flat))[0][0]),
                                        3 << (50 if a.itemsize == 8 else 21)))


def test_one_number(analysis, number, unit, result):
    rng, honest, tried, passed, wrong = (np.random.default_rng(number), forge.Result(result), 0, 0,
                                         [])
    for name, array in honest.arrays.items():
        for what, changed in changes(array, rng):
            lie = honest.copy()
            lie.arrays[name] = changed
            file = save("lie.npz", lie.bytes())
            tried += 1
            code = validate("check", "--seed", "1", unit, file).returncode
            if code in (2, 4):
                continue
            passed += 1
            codes = [code, validate("verify", "--fraction", "1", unit, file).returncode,
                     validate("compare", result, file).returncode]
            if codes != [0, 4, 4]:
                wrong.append("%s: %s: %s" % (name, what, codes))
    tap.ok(tried > 0 and not wrong,
           "%s, %d: of %d changed numbers check accepts %d, verify and compare none"
           % (analysis, number, tried, passed), "\n".join(wrong))


# --- what is around the numbers -------------------------------------------------------------------

def test_bytes_around_numbers(unit, result):
    honest = forge.Result(result)
    members = honest.members()
    for what, data in (
            ("result.json in another layout",
             [forge.Member("result.json", json.dumps(honest.json).encode())] + members[1:]),
            ("members stored", [forge.Member(m.name, m.data, 0) for m in members]),
            ("members deflated", [forge.Member(m.name, m.data, 8) for m in members])):
        file = save("other.npz", forge.archive(data))
        codes = [validate("check", unit, file).returncode,
                 validate("compare", result, file).returncode]
        tap.ok(codes == [0, 0], what + ": the same result", codes)
    zero = next(key for key, value in sorted(honest.json["parameters"].items())
                if isinstance(value, float) and value == 0)
    lie = honest.copy()
    lie.json["parameters"][zero] = -0.0
    file = save("other.npz", lie.bytes())
    codes = [validate("check", unit, file).returncode, validate("compare", result, file).returncode]
    tap.ok(codes == [2, 4],
           "a parameter of -0.0, not 0: check refuses the result, and compare finds a difference",
           codes)
    run = tap.run([tap.TEXCELL_ASSIMILATE, "--db", path("zero.sqlite"),
                   file]) if os.path.exists(tap.TEXCELL_ASSIMILATE) else None
    tap.ok(run is None or run.returncode == 2,
           "a result with the parameter -0.0 is not stored without the work unit, either",
           run and run.stderr)
    for what, data in (
            ("members in another order", members[:1] + members[:0:-1]),
            ("a member more", members + [forge.Member("notes.npy", forge.npy(np.arange(3)))]),
            ("a member twice", members + members[-1:])):
        file = save("other.npz", forge.archive(data))
        run = validate("check", unit, file)
        tap.ok(run.returncode == 2, what + ": refused", run.stdout)


# --- two hosts, and the server's dice -------------------------------------------------------------

def test_replay():
    """The upload of another host is a right result of its unit, and of no other."""
    pictures = [[workunit.item("a", [blobs(40, 44, i)])] for i in range(2)]
    units = [compute("replay%d" % i, "cellcount", {"threshold": 100}, it)
             for i, it in enumerate(pictures)]
    second_result = compute("named", "cellcount", {"threshold": 100},
                            [workunit.item("b", pictures[0][0]["slices"])])
    tap.ok(validate("compare", units[0][1], units[0][1]).returncode == 0,
           "another host's upload that is sent again cannot be distinguished (SECURITY.md)")
    for what, unit in (("another unit's picture", units[1][0]),
                       ("the same picture under another name", second_result[0])):
        run = validate("check", unit, units[0][1])
        tap.ok(run.returncode == 2 and '"' in run.stderr, "replayed for %s: refused" % what,
               run.stderr)


def test_equal_forgeries(n=20):
    """Two hosts forge one item of n in the same way: compare finds no difference; verify finds the
    forgery with the expected share of the seeds."""
    items = [workunit.item("i%02d" % i, [blobs(30, 34, i)]) for i in range(n)]
    unit, result = compute("alike", "cellcount", {"threshold": 100, "min_area": 9}, items)
    lie = forge.Result(result)
    mean = lie.arrays["region_mean"]
    row = int(np.nonzero(lie.arrays["region_item"] == 7)[0][0])
    area = lie.arrays["region_area"][row]
    mean[row] = (round(mean[row] * area) - 1) / area        # one grey value of one pixel
    first, second = save("first.npz", lie.bytes()), save("second.npz", lie.bytes())
    codes = [validate("compare", first, second).returncode,
             validate("check", "--no-pixels", unit, first).returncode]
    tap.ok(codes == [0, 0], "two results forged in the same way match (SECURITY.md)", codes)
    seeds, share = 200, 0.25
    caught = sum(validate("verify", "--no-pixels", "--fraction", str(share), "--seed",
                          str(1000 + s), unit, first).returncode == 4
                 for s in range(seeds))
    sd = math.sqrt(seeds * share * (1 - share))
    tap.ok(abs(caught - seeds * share) < 4 * sd,
           "a quarter computed again: found with %d of %d seeds" % (caught, seeds))
    return unit, result


def test_seeds(unit, result):
    """verify's random seeds in processes that start within a second, with consecutive process ids:
    each bit of the seeds is set in about half of them."""
    runs = 96
    seeds = [int(re.search(r"--seed (\d+)", validate("verify", "--no-pixels", "--fraction", "0.01",
                                                     unit, result).stdout).group(1))
             for _ in range(runs)]
    counts = [sum(s >> b & 1 for s in seeds) for b in range(64)]
    far = [b for b, c in enumerate(counts) if abs(c - runs / 2) > 5 * math.sqrt(runs) / 2]
    tap.ok(len(set(seeds)) == runs and not far,
           "each bit of the seeds is set as often as not", counts)


def main():
    for analysis, of in analyses.each():
        for number, (parameters, items) in enumerate(of.SEEDS[:2]):
            unit, result = compute("unit", analysis, parameters, items)
            test_one_number(analysis, number, unit, result)
            os.remove(result)
    if os.environ.get("TEXCELL_ANALYSIS", "") not in ("", "cellcount"):
        tap.done()
    unit, result = test_equal_forgeries()
    test_bytes_around_numbers(unit, result)
    test_seeds(unit, result)
    test_replay()
    tap.done()


if __name__ == "__main__":
    main()
