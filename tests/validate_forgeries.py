"""Forged results, at least 60 of each analysis: texcell-validate check must
refuse every one that can be told without computing it again, with the right
reason; the others must be caught by verify and by compare with an honest one.
The honest results of every analysis, of the CPU and of OpenCL, are accepted and
equal byte for byte. The forger (forge.py) shares nothing with the program."""
import json
import os
import re
import struct
import zlib

import numpy as np

import forge
import tap
from forge import Member, archive, flip_bit, npy
from oracle import workunit
from oracle.workunit import item

FOLDER = tap.scratch()
os.environ["POCL_CACHE_DIR"] = os.path.join(FOLDER, "pocl")
MEMORY = 256 << 20              # address space of texcell-validate: a bomb that goes off is seen
SANITIZED = b"__asan_init" in open(tap.TEXCELL_VALIDATE, "rb").read()   # such a program wants terabytes
LIMITS = [] if SANITIZED else ["prlimit", "--as=%d" % MEMORY]
SECONDS = 20


def path(name):
    return os.path.join(FOLDER, name)


def save(name, data):
    with open(path(name), "wb") as f:
        f.write(data)
    return path(name)


def validate(*args):
    return tap.run([*LIMITS, tap.TEXCELL_VALIDATE, *args], timeout=SECONDS)


# --- honest results --------------------------------------------------------------------

def blobs(height, width, seed, n=6, radius=4.0):
    rng = np.random.default_rng(seed)
    y, x = np.indices((height, width))
    picture = np.full((height, width), 50.0)
    for _ in range(n):
        cy, cx = rng.uniform(2, height - 2), rng.uniform(2, width - 2)
        picture += 130 * np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / (2 * (radius / 1.6) ** 2))
    return (picture + rng.normal(0, 3, picture.shape)).clip(0, 255).astype(np.uint8)


def pictures(sizes=((40, 44), (40, 44), (33, 51), (48, 30))):
    return [item("cell_%d" % i, [blobs(h, w, i)]) for i, (h, w) in enumerate(sizes)]


def stacks():
    return [item("stack_%d" % i, [blobs(24, 28, 10 * i + z, 3) for z in range(9)], spacing=[0.5, 0.25, 0.25])
            for i in range(2)]


def shells():
    """Balls within membranes, alone and two together; all items of one size."""
    z, y, x = np.indices((9, 26, 30))
    for i in range(3):
        picture = np.full(z.shape, 30)
        for cy, cx, r in ((8, 8, 5), (8, 17, 5), (18, 20, 3 + i)):
            distance = np.sqrt((1.5 * (z - 4)) ** 2 + (y - cy) ** 2 + (x - cx) ** 2)
            picture[abs(distance - r) < 1] = 200
        yield item("shell_%d" % i, list(picture.astype(np.uint8)), spacing=[0.3, 0.2, 0.2])


# analysis -> name of the job -> parameters, items. The first job of an analysis gets the
# forgeries of the file's form.
JOBS = {
    "glcm": {
        "full": ({"levels": [8, 16], "distances": [1, 2, 9], "window": {"shape": "disc", "radius": 3},
                  "per_offset": True, "maps": [{"feature": "contrast", "levels": 16, "offset": [1, 0]},
                                               {"feature": "entropy", "levels": 8, "offset": [0, 2]}]}, pictures()),
        "plain": ({"levels": [16], "distances": [1, 3], "window": {"shape": "square", "radius": 4},
                   "roi": {"type": "disc", "r": 9}}, pictures()),
        "masked": ({"levels": [16], "distances": [1], "window": {"shape": "roi"}, "roi": {"type": "mask"}},
                   [dict(it, masks=[np.indices(it["slices"][0].shape)[0] > 12]) for it in pictures()]),
        "stack": ({"levels": [8], "distances": [1, 2], "window": {"shape": "disc", "radius": 2}}, stacks()),
    },
    "cellcount": {
        "labels": ({"threshold": 90, "polarity": "bright", "labels": True, "min_area": 4}, pictures()),
        "plain": ({"threshold": "otsu", "polarity": "bright", "connectivity": 4, "split": "distance",
                   "fill_holes": True}, pictures()),
        "inner": ({"threshold": 90, "polarity": "bright", "exclude_border": True, "labels": True}, pictures()),
    },
    "levelset": {
        "plain": ({"target": 170, "epsilon": 80, "alpha": 0.02, "iterations": 30,
                   "init": {"type": "ball", "cx": 15, "cy": 20, "r": 9}}, pictures()),
        "stopping": ({"target": 170, "epsilon": 80, "alpha": 0.02, "iterations": 400, "stop_after": 20,
                      "init": {"type": "ball", "cx": 15, "cy": 20, "r": 9}}, pictures()),
        "stack": ({"target": 170, "epsilon": 80, "alpha": 0.02, "iterations": 10,
                   "init": {"type": "box", "x0": 5, "y0": 5, "z0": 2, "x1": 20, "y1": 20, "z1": 7}}, stacks()),
    },
    "volume": {
        "labels": ({"membrane": 128, "labels": True}, list(shells())),
        "slices": ({"membrane": 128, "mode": "slices", "labels": True}, list(shells())),
        "repaired": ({"membrane": 128, "repair": {"sigma": 0.8, "threshold": 90}, "min_voxels": 5,
                      "exclude_border": True}, list(shells())),
    },
    "voting": {
        "peaks": ({"radius": 4, "refine": False, "threshold": 500}, pictures()),
        "refined": ({"radius": 4}, pictures()),
        "stack": ({"radius": 0.75, "sigma": 0.5}, stacks()),
    },
}


def known(analysis):
    unit = workunit.write(path("known.zip"), analysis, {}, pictures())
    return "is not known to this version" not in tap.run([tap.TEXCELL, "run", unit, "-o", path("known.npz")]).stderr


def compute(unit, device):
    result = path("computed.npz")
    if os.path.exists(result):
        os.remove(result)
    run = tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", device, "--quiet"])
    return result if run.returncode == 0 else tap.note(run.stderr)


def honest_ones(analysis, device):
    """Computes every job of an analysis; the results by job, and their units."""
    units, results = {}, {}
    for job, (parameters, items) in JOBS[analysis].items():
        name = "%s, %s" % (analysis, job)
        units[job] = workunit.write(path("%s_%s.zip" % (analysis, job)), analysis, parameters, items)
        made = compute(units[job], "cpu")
        if not tap.ok(made is not None, name + ": computed"):
            continue
        with open(made, "rb") as f:
            saved = save("%s_%s.npz" % (analysis, job), f.read())
        results[job] = forge.Result(saved)
        accept(name + ": the CPU's", units[job], saved)
        accept(name + ": written again by other means", units[job], save("again.npz", results[job].bytes()))
        if device:
            made = compute(units[job], "opencl")
            if tap.ok(made is not None, name + ": computed with OpenCL"):
                accept(name + ": OpenCL's", units[job], made)
                with open(made, "rb") as f:
                    tap.ok(f.read() == results[job].original, name + ": OpenCL's file is the CPU's, byte for byte")
    return units, results


def accept(name, unit, result):
    for command in ("check", "verify"):
        run = validate(command, *(["--fraction", "1"] if command == "verify" else []), unit, result)
        tap.ok(run.returncode == 0 and run.stdout.endswith("valid\n") and run.stderr == "",
               "%s is accepted by %s" % (name, command), run.stdout + run.stderr)


# --- forgeries of the form -----------------------------------------------------------------
#
# Each is (name, bytes, reason). The reason is a regular expression for what check says.

def with_json(honest, **changed):
    r = honest.copy()
    r.json.update(changed)
    return r.bytes()


def with_parameters(honest, change):
    r = honest.copy()
    change(r.json["parameters"])
    return r.bytes()


def with_text(honest, text):
    members = honest.members()
    members[0] = Member("result.json", text)
    return archive(members)


def with_array(honest, name, data):
    """The .npy of one array replaced by bytes."""
    members = honest.members()
    at = [m.name for m in members].index(name + ".npy")
    members[at] = Member(name + ".npy", data)
    return archive(members)


def with_member(honest, index, **attributes):
    members = honest.members()
    for key, value in attributes.items():
        setattr(members[index], key, value)
    return archive(members)


def broken_archives(honest):
    data, members = honest.bytes(), honest.members()
    yield "cut by a byte", data[:-1], "truncated or damaged"
    yield "cut in half", data[:len(data) // 2], "truncated or damaged"
    yield "an empty file", b"", "the file is empty"
    yield "text", b"these are not the numbers you are looking for\n" * 9, "not a ZIP archive"
    yield "bytes in front", archive(members, front=b"#!/bin/sh\n"), "not a ZIP archive"
    yield "bytes behind", data + b"\0", "truncated or damaged"
    yield "a comment", archive(members, comment=b"hello"), "holds more than its members"
    yield "a comment of a member", with_member(honest, 1, comment=b"hello"), "holds more than its members"
    yield "an extra field in the list", with_member(honest, 1, extra=struct.pack("<HH4s", 0x7075, 4, b"evil")), \
        "holds more than its members"
    yield "an extra field at the data", with_member(honest, 2, local_extra=bytes(40)), "holds more than its members"
    yield "a gap", with_member(honest, 3, gap=b"PK hidden"), "holds more than its members"
    yield "a data descriptor", with_member(honest, 1, descriptor=True), "holds more than its members"
    yield "encrypted", with_member(honest, 1, flags=1), "is encrypted"
    yield "bzip2", with_member(honest, 1, disk_method=12), "neither store nor deflate"
    yield "a wrong CRC", with_member(honest, -1, crc=1), "its CRC is wrong"
    yield "a size that is not true", with_member(honest, -1, size=len(members[-1].data) + 8), \
        "its size is not what|its two sizes differ|disagree"
    yield "another size at the data", with_member(honest, 2, local_size=77), "disagree"
    yield "too many members promised", archive(members, count=len(members) + 1), "damaged"
    yield "members hidden from the list", archive(members, count=len(members) - 1), "damaged"
    yield "broken deflate", with_member(honest, 1, packed=b"\xff" * 2000), "is corrupt"
    yield "two of one name", archive(members + [members[-1]]), "two members are named"
    yield "two result.json", archive(members + [members[0]]), "two members are named"
    yield "a path out", archive(members + [Member("../../evil.npy", npy(np.zeros(1)))]), "leads out of the archive"
    yield "a backslash", archive(members + [Member("..\\evil.npy", npy(np.zeros(1)))]), "has a backslash"
    yield "a name that is not ASCII", archive(members + [Member("\u00e9.npy", npy(np.zeros(1)))]), "not printable"
    yield "a folder", archive(members + [Member("folder/", b"", 0)]), "neither result.json nor an array"
    yield "a script beside", archive(members + [Member("run.sh", b"true")]), "neither result.json nor an array"
    yield "result.json last", archive(members[1:] + members[:1]), "result.json is not its first member"


def zeros(size):
    """So many zeros, deflated."""
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    block = bytes(1 << 20)
    return b"".join([packer.compress(block) for _ in range(size >> 20)] +
                    [packer.compress(block[:size % (1 << 20)]), packer.flush()])


def with_bomb(honest, name, shape):
    """An array of zeros of that shape: its header as a stored block, then the
    deflated zeros."""
    members = honest.members()
    m = members[[m.name for m in members].index(name + ".npy")]
    empty = honest.arrays[name].reshape(-1)[:0]
    head = npy(empty, shape=str(tuple(shape)))
    size = int(np.prod(shape)) * empty.dtype.itemsize
    m.method, m.size, m.crc = 8, len(head) + size, zlib.crc32(bytes(size), zlib.crc32(head))
    m.packed = b"\0" + struct.pack("<HH", len(head), len(head) ^ 0xffff) + head + zeros(size)
    return archive(members)


def bombs(honest):
    name = list(honest.arrays)[-1]
    side = 5 * MEMORY // 4 // honest.arrays[name].dtype.itemsize >> 14
    yield "a bomb of an array", with_bomb(honest, name, (side, 1 << 14)), "axis 0 has [0-9]+ entries|has 2 axes, not [13]"
    for table in [n for n in honest.arrays if n.endswith("_item")]:
        yield "a bomb of a table", with_bomb(honest, table, (5 * MEMORY // 32,)), "%s: [0-9]+ rows, of" % table
    yield "more than deflate can hold", with_member(honest, -1, method=8, size=1 << 31), \
        "more bytes than deflate can hold"
    members = honest.members()
    members[0].data += b" " * (65 << 20)
    yield "a result.json of 65 MiB", archive(members), "more than the limit"
    yield "a deep result.json", with_text(honest, b'{"a":' * 3000 + b"1" + b"}" * 3000), "line 1"
    many = b'{"a":[' + b"0," * (1 << 22) + b"0]}"
    yield "a result.json of 2^22 values", with_text(honest, many), "more than 2097152 values"


def broken_json(honest):
    crc, size = honest.json["workunit"]["crc32"], honest.json["workunit"]["size"]
    key = sorted(honest.json["parameters"])[0]
    yield "no result.json", archive(honest.members()[1:]), "no member \"result.json\""
    yield "no JSON", with_text(honest, b"{nothing"), "result.json: line 1"
    yield "a list", with_text(honest, b"[]"), "must be a JSON object"
    yield "a key twice", with_text(honest, json.dumps(honest.json)[:-1].encode() + b', "version": 1}'), "duplicate"
    yield "NaN in JSON", with_text(honest, b'{"version": NaN}'), "result.json: line 1"
    yield "another format", with_json(honest, format="texcell-workunit"), '"format" is not'
    yield "format version 2", with_json(honest, version=2), '"version" is not 1'
    yield "format version 1.0", with_json(honest, version=1.0), '"version" is not 1'
    yield "format version true", with_json(honest, version=True), '"version" is not 1'
    yield "another analysis", with_json(honest, analysis="texture"), '"analysis" is not'
    yield "another CRC", with_json(honest, workunit={"crc32": "%08x" % (int(crc, 16) ^ 1), "size": size}), \
        '"workunit" is not'
    yield "the CRC in capitals", with_json(honest, workunit={"crc32": "ABCDEF01", "size": size}), '"workunit" is not'
    yield "another size of the unit", with_json(honest, workunit={"crc32": crc, "size": size + 1}), '"workunit" is not'
    yield "a parameter changed", with_parameters(honest, lambda p: p.update({key: "other"})), \
        '"parameters.%s" is not' % key
    yield "a parameter left out", with_parameters(honest, lambda p: p.pop(key)), '"parameters.%s" is not' % key
    yield "a parameter too many", with_parameters(honest, lambda p: p.update(zzz=1)), '"parameters" is not'
    yield "no parameters", with_json(honest, parameters=None), '"parameters.'
    yield "a key too many", with_json(honest, host="mine"), "has 7 keys, not 6"
    yield "an item renamed", with_json(honest, items=["x"] + honest.json["items"][1:]), '"items" is not'
    yield "items in another order", with_json(honest, items=honest.json["items"][::-1]), '"items" is not'
    yield "an item less", with_json(honest, items=honest.json["items"][:-1]), '"items" is not'


def broken_arrays(honest):
    """Of the first array with rows of all items, and of the list of arrays."""
    names = list(honest.arrays)
    name = names[names.index("item_names") + 1]
    a = honest.arrays[name]
    wide = a.astype("<i4" if a.dtype == np.int64 else "<f4")
    shape = "(%s)" % ", ".join(str(n) for n in (a.shape[0], *a.shape[1:])) if a.ndim > 1 else "(%d,)" % a.shape[0]

    def changed(data):
        return with_array(honest, name, data)

    def without(left):
        r = honest.copy()
        del r.arrays[left]
        return r.bytes()

    def renamed():
        r = honest.copy()
        r.arrays["item_names"][0] = "X" + str(r.arrays["item_names"][0])[1:]
        return r.bytes()

    def added(key, first=False):
        r = honest.copy()
        r.arrays = {key: np.zeros(3), **r.arrays} if first else {**r.arrays, key: np.zeros(3)}
        return r.bytes()

    def swapped():
        r = honest.copy()
        keys = list(r.arrays)
        i, j = keys.index(name), keys.index(names[-1])
        keys[i], keys[j] = keys[j], keys[i]
        r.arrays = {k: r.arrays[k] for k in keys}
        return r.bytes()

    no_header = "its header is not that of"
    yield "a narrower type", changed(npy(wide)), "array %s: is of a wrong type" % name
    yield "unsigned", changed(npy(a, descr="<u8")), no_header
    yield "big-endian", changed(npy(a, descr=a.dtype.str.replace("<", ">"))), no_header
    yield "Fortran order", changed(npy(a, fortran=True)), no_header
    yield "pickled objects", changed(npy(a, descr="|O")), no_header
    yield "a structured type", changed(npy(a, text="{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (4,), }")), \
        no_header
    yield "Python in the header", changed(npy(a, text="{'descr': __import__('os').system('true'), }")), no_header
    yield "a header without end", changed(npy(a, text=b"{'descr': '<f8'")), no_header
    yield "a header of 60,000 bytes", changed(npy(a, text=b" " * 60000)), "its header is too long"
    yield "NPY version 2", changed(npy(a, version=b"\x02\x00")), "not a NumPy array of format 1.0"
    yield "no NPY", changed(b"PNG"), "too short for an array|not a NumPy array"
    yield "data too short", changed(npy(a)[:-1]), "its size is not what its header says"
    yield "data too long", changed(npy(a) + b"\0"), "its size is not what its header says"
    yield "a row less", changed(npy(a[:-1])), "array %s: axis 0 has %d entries, not %d" % (name, len(a) - 1, len(a))
    yield "a row more", changed(npy(np.concatenate([a, a[:1]]))), "array %s: axis 0 has" % name
    yield "an axis more", changed(npy(a[..., None])), "array %s: has %d axes, not %d" % (name, a.ndim + 1, a.ndim)
    yield "no axis", changed(npy(a, shape="()")), no_header
    yield "a huge shape", changed(npy(a, shape="(4611686018427387904, 8)")), "its shape is too large"
    yield "a shape beyond 64 bits", changed(npy(a, shape="(99999999999999999999,)")), no_header
    yield "a negative shape", changed(npy(a, shape=shape.replace("(", "(-"))), no_header
    yield "an array left out", without(name), "has no array " + name
    yield "item_names left out", without("item_names"), "has no array item_names"
    yield "the last array left out", without(names[-1]), "has no array " + re.escape(names[-1])
    yield "an array too many", added("zzz"), "array zzz: does not belong there"
    yield "one too many in front", added("aaa", True), "array aaa stands where"
    yield "arrays swapped", swapped(), "stands where|wrong type|axes"
    yield "item_names changed", renamed(), "array item_names: is not what the work unit gives"
    yield "item_names wider", with_array(honest, "item_names", npy(honest.arrays["item_names"].astype("<U40"))), \
        "array item_names: is of a wrong type"


# --- forgeries of values ----------------------------------------------------------------------
#
# Each is (name, job, change, reason): change gets the arrays. Without a reason
# check cannot know, and verify has to.

def set_at(array, index, value):
    array[index] = value


def swap_rows(a, names, i, j):
    for name in names:
        a[name][[i, j]] = a[name][[j, i]]


STATISTICS = {"mean": 0, "range": 1, "sd": 2, "min": 3, "max": 4}


def glcm_values():
    def f(job, feature, statistic, value, distance=None, levels=16):
        """A change of one feature of the first item."""
        d = distance or 1

        def change(a):
            at = a["feature_names"].tolist().index("glcm_L%d_d%02d_%s_%s" % (levels, d, feature, statistic))
            a["features"][0, at] = value(a["features"][0, at]) if callable(value) else value
        return job, change

    def bit(number):
        return lambda v: flip_bit(np.array([v]), 0, number)[0]

    nan = float("nan")
    yield ("asm of 0", *f("plain", "asm", "min", 0.0), "asm: outside the feature's bounds")
    yield ("asm of 1.5", *f("plain", "asm", "max", 1.5), "asm: outside the feature's bounds")
    yield ("negative contrast", *f("plain", "contrast", "min", -1.0), "contrast: outside")
    yield ("contrast of (L-1)^2 and 1", *f("plain", "contrast", "max", 226.0), "contrast: outside")
    yield ("correlation of 2", *f("plain", "correlation", "max", 2.0), "correlation: outside")
    yield ("variance beyond the levels", *f("plain", "variance", "max", 57.0), "variance: outside")
    yield ("idm of 0", *f("plain", "idm", "min", 0.0), "idm: outside")
    yield ("sum_average of 1", *f("plain", "sum_average", "min", 1.0), "sum_average: outside")
    yield ("sum_average of 33", *f("plain", "sum_average", "max", 33.0), "sum_average: outside")
    yield ("entropy above log2", *f("plain", "entropy", "max", 8.0), "entropy: outside")
    yield ("sum_entropy of 6", *f("plain", "sum_entropy", "max", 6.0), "sum_entropy: outside")
    yield ("difference_entropy of 5", *f("plain", "difference_entropy", "max", 5.0), "difference_entropy: outside")
    yield ("imc1 above 0", *f("plain", "imc1", "max", 0.25), "imc1: outside")
    yield ("imc2 above 1", *f("plain", "imc2", "max", 1.25), "imc2: outside")
    yield ("infinite", *f("plain", "contrast", "max", float("inf")), "contrast: ")
    yield ("one NaN", *f("plain", "contrast", "mean", nan), "NaN, where windows have pairs")
    yield ("a minimum's lowest bit", *f("plain", "entropy", "min", bit(0)), "not a multiple of 2")
    yield ("a maximum's lowest bit", *f("plain", "idm", "max", bit(0)), "not a multiple of 2")
    yield ("a mean's exponent", *f("plain", "asm", "mean", bit(53)), "the mean is not between")
    yield ("a mean below the minimum", *f("plain", "variance", "mean", lambda v: v / 1e6), "the mean is not between")
    yield ("minimum and maximum swapped", "plain", lambda a: swap_columns(a, "min", "max"), "mean is not between")
    yield ("a negative range", *f("plain", "contrast", "range", lambda v: -v), "the range is not between")
    yield ("a range too large", *f("plain", "contrast", "range", 200.0), "the range is not between")
    yield ("a negative sd", *f("plain", "contrast", "sd", lambda v: -v), "the standard deviation is not between")
    yield ("an sd too large", *f("plain", "contrast", "sd", 200.0), "the standard deviation is not between")
    yield ("sum_variance out of line", *f("plain", "sum_variance", "mean", lambda v: v * 1.001),
           "sum_variance is not 4 variance - contrast")
    yield ("idm below its bound", *f("plain", "idm", "mean", lambda v: v / 3), "idm")
    yield ("a whole distance NaN", "plain", lambda a: set_at(a["features"], (0, slice(0, 65)), nan),
           "NaN, where windows have pairs")
    yield ("values where no window has a pair", "full", lambda a: set_at(a["features"], (1, slice(130, 195)), 0.5),
           "not NaN, where no window has a pair")
    yield ("another NaN", "full", lambda a: set_at(a["features"].view("<u8"), (1, slice(130, 195)),
                                                    0x7ff8000000000001), "d09: ")
    yield ("a mean that the offsets do not give", *f("full", "entropy", "mean", bit(0)),
           "not what offset_features gives")
    yield ("an sd that the offsets do not give", *f("full", "entropy", "sd", bit(3)), "not what offset_features gives")
    yield ("an offset's minimum", "full", lambda a: set_at(a["offset_features"], (0, 0, 0, 4, 2), 0.3), "idm: minimum")
    yield ("an offset's variance below 0", "full", lambda a: set_at(a["offset_features"], (0, 0, 0, 4, 1), -1e-9),
           "the standard deviation is not between")
    yield ("an offset's negative zero", "full", lambda a: set_at(a["offset_features"], (0, 0, 0, 1, 2), -0.0),
           "a negative zero|bounds|between|not what")
    yield ("offsets changed", "full", lambda a: set_at(a["offsets"], (0, 0), 7), "array offsets: is not what")
    yield ("a feature's name changed", "full", lambda a: set_at(a["feature_names"], 3, "glcm_L16_d01_x"),
           "array feature_names: is not what")
    yield ("a hole in a map", "full", lambda a: set_at(first_map(a), (20, 20), nan), "NaN, where the window has pairs")
    yield ("a map's value beyond the maximum", "full", lambda a: set_at(first_map(a), (20, 20), 1e6),
           "outside minimum and maximum")
    yield ("a map's largest value lowered", "full", lambda a: lower_largest(first_map(a)), "is not that of offset_f")
    yield ("a flat map", "full", lambda a: set_at(first_map(a), slice(None), first_map(a).max()), "of offset_features")
    yield ("a map turned over", "full", lambda a: set_at(first_map(a), slice(None), first_map(a)[::-1].copy()), None)
    yield ("maps of two items swapped", "full", swap_maps, "is not that of offset_features")
    yield ("values of two items swapped", "plain", lambda a: swap_rows(a, ["features"], 0, 1), None)
    yield ("the lowest bit of a mean", *f("plain", "correlation", "mean", bit(0)), None)
    yield ("the lowest bit of an sd", *f("plain", "contrast", "sd", bit(0)), None)
    yield ("the lowest bit of a range", *f("plain", "contrast", "range", bit(0)), None)
    yield ("a minimum lower by 2^-32", *f("plain", "contrast", "min", lambda v: v + 2.0 ** -32), None)
    yield ("another picture's numbers", "masked", lambda a: set_at(a["features"], 2, a["features"][3]), None)
    yield ("a stack's entropy", *f("stack", "entropy", "sd", lambda v: v * 0.99, None, 8), None)


def swap_columns(a, one, other):
    x = a["features"].reshape(len(a["features"]), -1, 5)
    i, j = STATISTICS[one], STATISTICS[other]
    x[0, 1, [i, j]] = x[0, 1, [j, i]]


def first_map(a):
    return a["map_cell_0_contrast_L16_1_0"]


def lower_largest(m):
    m[np.unravel_index(np.nanargmax(m), m.shape)] = np.nanmin(m)


def swap_maps(a):
    one, other = "map_cell_0_contrast_L16_1_0", "map_cell_1_contrast_L16_1_0"
    a[one], a[other] = a[other].copy(), a[one].copy()


def cellcount_values():
    def column(name, index, value, reason, job="labels", what=None):
        def change(a):
            a[name][index] = value(a[name][index]) if callable(value) else value
        return (what or "%s made %s" % (name, value), job, change, reason)

    def drop_last(a):
        """The last region of the last item goes, in every column and picture."""
        for name in [n for n in a if n.startswith("region_")]:
            a[name] = a[name][:-1]
        picture = a[[n for n in a if n.startswith("labels_")][-1]]
        picture[picture == a["count"][-1]] = 0
        a["count"][-1] -= 1

    def split_one(a):
        """The first item's last region becomes two that touch."""
        n = int(a["count"][0])
        picture = a["labels_cell_0"]
        ys, xs = np.nonzero(picture == n)
        rows = ys > (ys.min() + ys.max()) // 2
        picture[ys[rows], xs[rows]] = n + 1
        measured = [[measure(picture == k) for k in (n, n + 1)]]
        for name in [k for k in a if k.startswith("region_")]:
            a[name] = np.insert(a[name], n, a[name][n - 1], axis=0)
        for k, (area, bbox, centroid, border) in enumerate(measured[0]):
            i = n - 1 + k
            a["region_label"][i] = n + k
            a["region_area"][i], a["region_bbox"][i], a["region_centroid"][i] = area, bbox, centroid
            a["region_border"][i] = border
            a["region_mean"][i] = 100.0
        a["count"][0] += 1

    def measure(mask):
        ys, xs = np.nonzero(mask)
        bbox = [ys.min(), xs.min(), ys.max() + 1, xs.max() + 1]
        border = bbox[0] == 0 or bbox[1] == 0 or bbox[2] == mask.shape[0] or bbox[3] == mask.shape[1]
        return len(ys), bbox, [ys.sum() / len(ys), xs.sum() / len(ys)], border

    def other_mean(a):
        area = a["region_area"][0]
        a["region_mean"][0] = (round(a["region_mean"][0] * area) + 1) / area

    def exchange_labels(a):
        p = a["labels_cell_0"]
        one, two = p == 1, p == 2
        p[one], p[two] = 2, 1
        for name in ("region_area", "region_bbox", "region_centroid", "region_mean", "region_border"):
            a[name][[0, 1]] = a[name][[1, 0]]

    def at_border(a):
        """A region's box moved to the border, with all that goes with it."""
        y0, x0, y1, x1 = a["region_bbox"][0]
        a["region_bbox"][0] = [0, x0, y1 - y0, x1]
        area = a["region_area"][0]
        a["region_centroid"][0, 0] = (round(a["region_centroid"][0, 0] * area) - y0 * area) / area
        a["region_border"][0] = True

    yield column("count", 0, lambda v: v + 1, "count: is")
    yield column("count", 0, lambda v: v - 1, "count: is")
    yield column("count", 0, -1, "count: is")
    yield column("count", 0, 1 << 40, "count: is")
    yield column("region_item", 0, 1, "region_item: a row of item|count: is")
    yield column("region_item", -1, 0, "_item: a row of item 0")
    yield column("region_item", -1, 4, "_item: a row of item 4")
    yield column("region_item", 0, -1, "_item: a row of item -1")
    yield column("region_label", 0, 2, "region 1: region_label: labels must count from 1")
    yield column("region_label", 0, 0, "region 1: region_label: labels must count from 1")
    yield column("region_area", 0, lambda v: v ^ 1, "region 1: region_")
    yield column("region_area", 0, 0, "region 1: region_area: not within")
    yield column("region_area", 0, -5, "region 1: region_area: not within")
    yield column("region_area", 0, 3, "region 1: region_area: not within")
    yield column("region_area", 0, 1 << 60, "region 1: region_area: does not go with region_bbox")
    yield column("region_bbox", (0, 0), -1, "region_bbox: not a box within the picture")
    yield column("region_bbox", (0, 3), 45, "region_bbox: not a box within the picture")
    yield column("region_bbox", (0, 2), 0, "region_bbox: not a box within the picture")
    yield column("region_bbox", (0, 2), 40, "region 1: (region_|area, box)")
    yield column("region_bbox", (1, 0), lambda v: v - 1, "region 2: |region 1: ")
    yield column("region_centroid", (0, 0), lambda v: np.nextafter(v, 99), "region_centroid: not a centre")
    yield column("region_centroid", (0, 1), lambda v: v + 40, "region_centroid: not a centre")
    yield column("region_centroid", (0, 1), float("nan"), "region_centroid: not a centre")
    yield column("region_centroid", (0, 1), -0.0, "region_centroid: not a centre")
    yield column("region_mean", 0, lambda v: np.nextafter(v, 99), "region_mean: not a mean")
    yield column("region_mean", 0, float("nan"), "region_mean: not a mean")
    yield column("region_mean", 0, 256.0, "region_mean: not a mean")
    yield column("region_mean", 0, -1.0, "region_mean: not a mean")
    yield column("region_mean", 0, 89.0, "region_mean: on the wrong side of the threshold")
    yield column("region_border", 0, lambda v: not v, "region_border: does not go with region_bbox")
    yield ("a bool of 2", "labels", lambda a: set_at(a["region_border"].view("u1"), 0, 2), "region_border: 2 is no bool")
    yield column("labels_cell_0", (0, 0), -1, "has label -1")
    yield column("labels_cell_0", (-1, -1), 99, "has label 99")
    yield ("a pixel taken from a region", "labels", lambda a: take_pixel(a, 0), "is not that of labels_cell_0|touch")
    yield ("a pixel given to another region", "labels", lambda a: take_pixel(a, 2), "labels_cell_0")
    yield ("labels exchanged", "labels", exchange_labels, "region_bbox: the regions are not|comes before label")
    yield ("an empty label image", "labels", lambda a: set_at(a["labels_cell_0"], slice(None), 0), "labels_cell_0")
    yield ("a region cut in two", "labels", split_one, "touch")
    yield ("at the border, though excluded", "inner", at_border, "regions at the border are excluded|not in the order")
    yield ("the last region left out", "labels", drop_last, None)
    yield ("the last region left out of the table", "plain", drop_last_plain, None)
    yield ("no region at all", "plain", lambda a: a.update(
        {n: a[n][:0] for n in a if n.startswith("region_")}, count=a["count"] * 0), None)
    yield ("another mean", "labels", other_mean, None)
    yield ("counts of two items exchanged", "plain", exchange_items, None)


def take_pixel(a, label):
    p = a["labels_cell_0"]
    ys, xs = np.nonzero(p == 1)
    p[ys[len(ys) // 2], xs[len(ys) // 2]] = label


def drop_last_plain(a):
    for name in [n for n in a if n.startswith("region_")]:
        a[name] = a[name][:-1]
    a["count"][-1] -= 1


def exchange_items(a, table="region_"):
    """All rows of items 0 and 1, which are of one size, change places."""
    column = a[("region" if table == "region_" else "point") + "_item"]
    first, second, rest = column == 0, column == 1, column > 1
    order = np.concatenate([np.nonzero(second)[0], np.nonzero(first)[0], np.nonzero(rest)[0]])
    for name in [n for n in a if n.startswith(table) or n == "score" and table == "point"]:
        if not name.endswith("_item"):
            a[name] = a[name][order]
    n = a["count"][:2].copy()
    a["count"][:2] = n[::-1]
    column[:] = np.concatenate([np.repeat([0, 1], n[::-1]), column[rest]])


def levelset_values():
    def row(name, value, reason, job="plain", what=None):
        def change(a):
            a[name][0] = value(a[name][0]) if callable(value) else value
        return (what or "%s made %s" % (name, value), job, change, reason)

    def mask_of(a):
        return a[[n for n in a if n.startswith("mask_")][0]]

    def consistent(change, factor=1.0):
        """A change of the mask with the counts that go with it."""
        def all_of_it(a):
            change(mask_of(a))
            inside = int(mask_of(a).sum())
            a["inside_voxels"][0], a["measure"][0] = inside, inside * factor
        return all_of_it

    def flip(m):
        m.reshape(-1)[m.size // 2] ^= 1

    def exchange(a):
        for name in ("inside_voxels", "measure", "iterations_run"):
            a[name][[0, 1]] = a[name][[1, 0]]
        a["mask_cell_0"], a["mask_cell_1"] = a["mask_cell_1"].copy(), a["mask_cell_0"].copy()

    yield row("inside_voxels", lambda v: v + 1, "inside_voxels: is")
    yield row("inside_voxels", lambda v: v ^ 1 << 20, "inside_voxels: is")
    yield row("inside_voxels", -1, "inside_voxels: is -1")
    yield row("inside_voxels", 1 << 62, "inside_voxels: is")
    yield row("measure", lambda v: np.nextafter(v, 1e9), "measure: is")
    yield row("measure", float("nan"), "measure: is")
    yield row("measure", float("inf"), "measure: is")
    yield row("measure", lambda v: -v, "measure: is")
    yield row("measure", lambda v: v * 32, "measure: is", "stack", "a measure in voxels")
    yield row("iterations_run", 31, "iterations_run: 31 is not from 0 to 30")
    yield row("iterations_run", -1, "iterations_run: -1 is not")
    yield row("iterations_run", 29, "iterations_run: 29 of 30, but not converged")
    yield row("iterations_run", 1 << 40, "iterations_run: ")
    yield row("converged", True, "converged: not after 30 iterations with stop_after 0")
    yield ("a bool of 255", "plain", lambda a: set_at(a["converged"].view("u1"), 0, 255), "converged: 255 is no bool")
    yield row("iterations_run", 19, "iterations_run|converged", "stopping", "converged too soon")
    yield ("not converged, but stopped", "stopping", lambda a: (set_at(a["converged"], 0, False), set_at(
        a["iterations_run"], 0, 399)), "iterations_run: 399 of 400, but not converged")
    yield ("a pixel flipped", "plain", lambda a: flip(mask_of(a)), "inside_voxels: is")
    yield ("a pixel of 2", "plain", lambda a: set_at(mask_of(a), (3, 3), 2), "neither 0 nor 1")
    yield ("a mask of 255", "plain", lambda a: np.multiply(mask_of(a), 255, out=mask_of(a)), "neither 0 nor 1")
    yield ("an empty mask", "plain", lambda a: mask_of(a).fill(0), "inside_voxels: is")
    yield ("a full mask", "plain", lambda a: mask_of(a).fill(1), "inside_voxels: is")
    yield ("masks exchanged", "plain", lambda a: a.update(mask_cell_0=a["mask_cell_1"], mask_cell_1=a["mask_cell_0"]),
           "inside_voxels: is|nothing")
    yield ("a pixel flipped, and counted", "plain", consistent(flip), None)
    yield ("a mask moved by a pixel", "plain", consistent(lambda m: set_at(m, slice(None), np.roll(m, 1, 1))), None)
    yield ("an empty mask, and counted", "plain", consistent(lambda m: m.fill(0)), None)
    yield ("a full mask, and counted", "plain", consistent(lambda m: m.fill(1)), None)
    yield ("a voxel of a stack, and counted", "stack", consistent(flip, 0.5 * 0.25 * 0.25), None)
    yield ("two items exchanged", "plain", exchange, None)
    yield ("an iteration more", "stopping", lambda a: set_at(a["iterations_run"], 0, a["iterations_run"][0] + 1), None)


def voting_values():
    def column(name, index, value, reason, job="peaks", what=None):
        def change(a):
            a[name][index] = value(a[name][index]) if callable(value) else value
        return (what or "%s made %s" % (name, value), job, change, reason)

    def swap_first(a):
        for name in ("point", "score"):
            a[name][[0, 1]] = a[name][[1, 0]]

    def beside(a):
        a["point"][1] = a["point"][0] + [0, 2 if a["point"][0, 1] < 30 else -2]

    def equal_scores(a):
        """Equal scores are sorted by place."""
        a["score"][1] = a["score"][0]
        a["point"][[0, 1]] = a["point"][np.lexsort((a["point"][:2, 1], a["point"][:2, 0]))[::-1]]

    def drop_last(a):
        for name in ("point_item", "point", "score"):
            a[name] = a[name][:-1]
        a["count"][-1] -= 1

    def move(a):
        """The last point of an item, by a pixel away from where it cannot be."""
        a["point"][-1, 0] += 1 if a["point"][-1, 0] < 24 else -1

    yield column("count", 0, lambda v: v + 1, "count: is")
    yield column("count", 0, lambda v: v - 1, "count: is")
    yield column("count", 0, -1, "count: is")
    yield column("point_item", 0, 1, "_item: a row of item 0|count: is")
    yield column("point_item", -1, 0, "_item: a row of item 0")
    yield column("point_item", -1, 99, "_item: a row of item 99")
    yield column("point_item", 0, -7, "_item: a row of item -7")
    yield column("point", (0, 0), -1.0, "point: row 0: -1 is no coordinate")
    yield column("point", (0, 0), 40.0, "point: row 0: 40 is no coordinate")
    yield column("point", (0, 1), 44.0, "point: row 0: 44 is no coordinate")
    yield column("point", (0, 1), 1e300, "point: row 0: ")
    yield column("point", (0, 0), float("nan"), "point: row 0: -?nan is no coordinate")
    yield column("point", (0, 0), float("inf"), "point: row 0: inf is no coordinate")
    yield column("point", (0, 0), lambda v: v + 0.5, "is no coordinate")
    yield column("point", (0, 0), lambda v: np.nextafter(v, 99), "is no coordinate")
    yield column("point", (0, 0), lambda v: np.nextafter(v, 99), "is no coordinate", "refined", "a refined point's bit")
    yield column("point", (0, 0), lambda v: v + 0.001, "is no coordinate", "refined", "a point between the steps")
    yield column("point", (0, 0), -0.75, "is no coordinate", "refined", "a refined point outside")
    yield column("point", (0, 0), -0.0, "is no coordinate", "refined", "a refined point at -0")
    yield column("point", (0, 0), 9.0, "is no coordinate", "stack", "a point above the stack")
    yield column("score", 0, 0, "score: row 0: 0 is not from")
    yield column("score", 0, -3, "score: row 0: -3 is not from")
    yield column("score", -1, 499, "score: row [0-9]+: 499 is not from 500")
    yield column("score", 0, 1 << 32, "score: row 0: 4294967296 is not from")
    yield column("score", 0, 4095 * 81 + 1, "score: row 0: ")
    yield column("score", 0, 1 << 62, "score: row 0: ")
    yield ("points out of order", "peaks", swap_first, "score: row 1: the points are not in their order")
    yield ("refined points out of order", "refined", swap_first, "score: row 1: the points are not in their order")
    yield ("equal scores out of order", "peaks", equal_scores, "score: row 1: the points are not in their order")
    yield ("two points of one cell", "peaks", beside, "two points are closer than the radius")
    yield ("a point twice", "peaks", lambda a: set_at(a["point"], 1, a["point"][0]), "closer than the radius")
    yield ("the last point left out", "peaks", drop_last, None)
    yield ("the last refined point left out", "refined", drop_last, None)
    yield ("no point at all", "peaks", lambda a: a.update(
        {n: a[n][:0] for n in ("point_item", "point", "score")}, count=a["count"] * 0), None)
    yield column("score", 0, lambda v: v + 1, None, what="a score more by one")
    yield ("a point moved by a pixel", "peaks", move, None)
    yield column("point", (0, 0), lambda v: v + 1 / 256, None, "refined", "a point moved by 1/256")
    yield column("score", 0, lambda v: v + 1, None, "stack", "a stack's score")
    yield ("two items exchanged", "refined", lambda a: exchange_items(a, "point"), None)


def volume_values():
    def column(name, index, value, reason, job="labels", what=None):
        def change(a):
            a[name][index] = value(a[name][index]) if callable(value) else value
        return (what or "%s made %s" % (name, value), job, change, reason)

    def recount(a, i=0):
        """Tables and totals of item i as its labels have them, made anew."""
        labels = a["labels_shell_%d" % i]
        n = int(labels.max())
        rows = a["cell_item"] == i
        for name in [k for k in a if k.startswith("cell_")]:
            own = {"cell_item": [i] * n, "cell_label": list(range(1, n + 1))}.get(name) or [
                cell(labels, k + 1)[name] for k in range(n)]
            a[name] = np.concatenate([a[name][:np.argmax(rows)], np.array(own, a[name].dtype),
                                      a[name][len(rows) - np.argmax(rows[::-1]):]])
        inside = int((labels > 0).sum())
        a["membrane_voxels"][i] += a["inside_voxels"][i] - inside
        a["inside_voxels"][i], a["cells"][i] = inside, n
        a["volume"][i] = inside * (0.3 * 0.2 * 0.2)

    def cell(labels, k):
        at = np.nonzero(labels == k)
        n = len(at[0])
        lo, hi = [int(v.min()) for v in at], [int(v.max()) + 1 for v in at]
        return {"cell_voxels": n, "cell_volume": n * (0.3 * 0.2 * 0.2), "cell_bbox": lo + hi,
                "cell_centroid": [v.sum() / n for v in at], "cell_border": lo[0] == 0 or hi[0] == labels.shape[0]}

    def drop_last(a):
        labels = a["labels_shell_0"]
        labels[labels == labels.max()] = 0
        recount(a)

    def shrink(a):
        """One voxel of a cell becomes membrane, everywhere."""
        at = np.argwhere(a["labels_shell_0"] == 1)
        a["labels_shell_0"][tuple(at[0])] = 0
        recount(a)

    def cut(a):
        """Half a cell becomes another one that touches it."""
        labels = a["labels_shell_0"]
        n = labels.max()
        at = np.argwhere(labels == n)
        labels[tuple(at[at[:, 2] > at[:, 2].mean()].T)] = n + 1
        recount(a)

    yield column("cells", 0, lambda v: v + 1, "cells: is")
    yield column("cells", 0, -1, "cells: is")
    yield column("inside_voxels", 0, lambda v: v + 1, "inside_voxels: row 0: not the sum of cell_voxels")
    yield column("inside_voxels", 0, -1, "inside_voxels: row 0: ")
    yield column("membrane_voxels", 0, lambda v: v ^ 1, "the voxels of all kinds are not those of the stack")
    yield column("external_voxels", 0, lambda v: v - 1, "the voxels of all kinds are not those of the stack")
    yield column("external_voxels", 0, 1 << 50, "external_voxels: row 0: ")
    yield column("left_out_voxels", 0, 1, "the voxels of all kinds|nothing was to be left out")
    yield column("left_out_voxels", 0, -5, "left_out_voxels: row 0: ")
    yield ("voxels left out of nothing", "labels", lambda a: (set_at(a["left_out_voxels"], 0, 1), set_at(
        a["external_voxels"], 0, a["external_voxels"][0] - 1)), "nothing was to be left out")
    yield column("repair_added_voxels", 0, 1, "repair_added_voxels: row 0: more than can have been added")
    yield column("repair_bias_voxels", 0, 1, "repair_bias_voxels: row 0: more than were added")
    yield column("voxel_volume", 0, 1.0, "voxel_volume: row 0: not that of spacing")
    yield column("voxel_volume", 0, lambda v: np.nextafter(v, 1), "voxel_volume: row 0: not that of spacing")
    yield column("volume", 0, lambda v: np.nextafter(v, 1e9), "volume: row 0: not that of inside_voxels")
    yield column("volume", 0, float("nan"), "volume: row 0: not that of inside_voxels")
    yield column("cell_item", 0, 1, "cell_item: a row of item|cells: is")
    yield column("cell_item", -1, 0, "cell_item: a row of item 0")
    yield column("cell_item", -1, 3, "cell_item: a row of item 3")
    yield column("cell_label", 0, 2, "cell 1: cell_label: labels must count from 1")
    yield column("cell_voxels", 0, 0, "cell 1: cell_voxels: not within")
    yield column("cell_voxels", 0, lambda v: v + 1, "cell 1: cell_")
    yield column("cell_voxels", 0, 1 << 60, "cell 1: cell_voxels: does not go with cell_bbox")
    yield column("cell_voxels", 0, 2, "cell 1: cell_voxels: not within", "repaired", "a cell below min_voxels")
    yield column("cell_bbox", (0, 0), -1, "cell 1: cell_bbox: not a box of the inside")
    yield column("cell_bbox", (0, 4), 27, "cell 1: cell_bbox: not a box of the inside")
    yield column("cell_bbox", (0, 2), 0, "cell 1: cell_bbox: not a box of the inside")
    yield column("cell_bbox", (0, 5), lambda v: v + 1, "cell 1: ")
    yield column("cell_bbox", (0, 3), lambda v: v + 1, "a cell of mode slices has one slice", "slices")
    yield column("cell_centroid", (0, 0), lambda v: np.nextafter(v, 99), "cell_centroid: not a centre")
    yield column("cell_centroid", (0, 2), lambda v: v + 12, "cell_centroid: not a centre")
    yield column("cell_centroid", (0, 1), float("nan"), "cell_centroid: not a centre")
    yield column("cell_volume", 0, lambda v: v * 2, "cell_volume: not that of cell_voxels")
    yield column("cell_volume", 0, lambda v: -v, "cell_volume: not that of cell_voxels")
    yield column("cell_border", 0, lambda v: not v, "cell_border: does not go with cell_bbox")
    yield ("a bool of 7", "labels", lambda a: set_at(a["cell_border"].view("u1"), 0, 7), "cell_border: 7 is no bool")
    yield column("labels_shell_0", (0, 0, 0), -1, "label -1")
    yield column("labels_shell_0", (8, 25, 29), 99, "label 99")
    yield ("an empty label image", "labels", lambda a: a["labels_shell_0"].fill(0), "are not those of labels_shell_0")
    yield ("label images of two items exchanged", "labels", lambda a: a.update(
        labels_shell_0=a["labels_shell_2"], labels_shell_2=a["labels_shell_0"]), "labels_shell_0")
    yield ("a cell cut in two", "labels", cut, "touch")
    yield ("the last cell left out", "labels", drop_last, None)
    yield ("a voxel less", "labels", shrink, None)
    yield ("membrane for outside", "labels", lambda a: (set_at(a["membrane_voxels"], 0, a["membrane_voxels"][0] + 1), set_at(
        a["external_voxels"], 0, a["external_voxels"][0] - 1)), None)
    yield column("repair_added_voxels", 0, lambda v: v + 1, None, "repaired", "a voxel more repaired")


VALUES = {"volume": volume_values, "glcm": glcm_values, "cellcount": cellcount_values, "levelset": levelset_values, "voting": voting_values}


# --- the trial ------------------------------------------------------------------------------------

def refuse(name, unit, forged, honest, reason):
    """check refuses it for that reason, and so does compare, unless the content
    is the same."""
    file = save("forged.npz", forged)
    run = validate("check", unit, file)
    refused = run.returncode == 2 and run.stdout == "" and re.search(reason, run.stderr) is not None \
        and run.stderr.startswith("texcell-validate: error: %s: " % file) and run.stderr.count("\n") == 1
    tap.ok(refused, "%s: refused" % name, "exit %d, not '%s'\n%s%s" % (run.returncode, reason, run.stdout, run.stderr))
    layout = "more than its members" in run.stderr or "not its first member" in run.stderr or \
        "stands where" in run.stderr
    run = validate("compare", honest, file)
    if not layout or run.returncode not in (0, 4):
        tap.ok(run.returncode in (2, 4), "%s: unlike an honest one" % name,
               "exit %d\n%s%s" % (run.returncode, run.stdout, run.stderr))


def catch(name, unit, forged, honest):
    """check cannot know; verify and compare do, and say where."""
    file = save("forged.npz", forged)
    run = validate("check", unit, file)
    tap.ok(run.returncode == 0, "%s: check cannot know" % name, run.stderr)
    for command, args in (("verify", ["--fraction", "1", unit, file]), ("compare", [honest, file])):
        run = validate(command, *args)
        place = re.search(r"^[A-Za-z_0-9]+\[\S.*\]: \S+ and \S+$|: \d+ and \d+ rows$|has another shape", run.stdout, re.M)
        tap.ok(run.returncode == 4 and place is not None and "no match: " in run.stdout,
               "%s: caught by %s" % (name, command), "exit %d\n%s%s" % (run.returncode, run.stdout, run.stderr))


def forgeries(analysis, units, results):
    first = next(iter(results))
    honest = path("%s_%s.npz" % (analysis, first))
    count = 0
    for kind in (broken_archives, bombs, broken_json, broken_arrays):
        for name, data, reason in kind(results[first]):
            refuse("%s: %s" % (analysis, name), units[first], data, honest, reason)
            count += 1
    for name, job, change, reason in VALUES[analysis]():
        r = results[job].copy()
        change(r.arrays)
        title = "%s: %s" % (analysis, name)
        honest = path("%s_%s.npz" % (analysis, job))
        if reason is None:
            catch(title, units[job], r.bytes(), honest)
        else:
            refuse(title, units[job], r.bytes(), honest, reason)
        count += 1
    for job in list(results)[1:]:
        refuse("%s: another unit's result (%s)" % (analysis, job), units[first], results[job].original,
               path("%s_%s.npz" % (analysis, first)), '"workunit" is not')
        count += 1
    tap.ok(count >= 60, "%s: %d forgeries" % (analysis, count))


def main():
    device = "usable" in re.sub("not usable", "", tap.run([tap.TEXCELL, "devices"]).stdout)
    if not device:
        tap.skip("results of OpenCL", "no usable device")
    for analysis in JOBS:
        if not known(analysis):
            tap.skip(analysis, "this build does not have it")
            continue
        units, results = honest_ones(analysis, device)
        forgeries(analysis, units, results)
    tap.done()


if __name__ == "__main__":
    main()
