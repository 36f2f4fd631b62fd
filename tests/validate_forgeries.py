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

import analyses
import compiled
import forge
import tap
from forge import Member, archive, deflated, npy, two_lists
from oracle import workunit

FOLDER = tap.scratch()
os.environ["POCL_CACHE_DIR"] = compiled.copy(FOLDER)
MEMORY = 256 << 20              # address space of texcell-validate: a bomb that goes off is seen
LIMITS = [] if tap.sanitized() else ["prlimit", "--as=%d" % MEMORY]
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

def compute(unit, device, *options):
    result = path("computed.npz")
    if os.path.exists(result):
        os.remove(result)
    run = tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", device, "--quiet", *options])
    return result if run.returncode == 0 else tap.note(run.stderr)


def same_file(file, result):
    if file is None:
        return False
    with open(file, "rb") as f:
        return f.read() == result.original


def honest_ones(analysis, jobs, known, device):
    """Computes every job of an analysis; the results by job, and their units."""
    units, results = {}, {}
    for job, (parameters, items) in jobs.items():
        name = "%s, %s" % (analysis, job)
        units[job] = workunit.write(path("%s_%s.zip" % (analysis, job)), analysis, parameters,
                                    items)
        made = compute(units[job], "cpu")
        if not tap.ok(made is not None, name + ": computed"):
            continue
        with open(made, "rb") as f:
            saved = save("%s_%s.npz" % (analysis, job), f.read())
        results[job] = forge.Result(saved)
        accept(name + ": the CPU's", units[job], saved)
        accept(name + ": written again by other means", units[job],
               save("again.npz", results[job].bytes()))
        same = [n for n in (1, 3, 7) if same_file(compute(units[job], "cpu", "--threads", str(n)),
                                                  results[job])]
        tap.ok(same == [1, 3, 7], name + ": the same file from 1, 3 and 7 threads", same)
        answer = results[job].known_answer()
        if job in known:
            tap.ok(answer == known[job], name + ": the known answer", answer)
        else:
            tap.skip(name + ": the known answer", "KNOWN has none; it is \"%s\"" % answer)
        if device and analyses.has_opencl(analysis):
            made = compute(units[job], "opencl")
            if tap.ok(made is not None, name + ": computed with OpenCL"):
                accept(name + ": OpenCL's", units[job], made)
                tap.ok(same_file(made, results[job]),
                       name + ": OpenCL's file is the CPU's, byte for byte")
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
    yield ("a comment of a member", with_member(honest, 1, comment=b"hello"),
           "holds more than its members")
    yield "an extra field in the list", with_member(honest, 1, extra=struct.pack("<HH4s", 0x7075,
                                                                                 4, b"evil")), \
        "holds more than its members"
    yield ("an extra field at the data", with_member(honest, 2, local_extra=bytes(40)),
           "holds more than its members")
    yield "a gap", with_member(honest, 3, gap=b"PK hidden"), "holds more than its members"
    yield ("a data descriptor", with_member(honest, 1, descriptor=True),
           "holds more than its members")
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
    yield ("a path out", archive(members + [Member("../../evil.npy", npy(np.zeros(1)))]),
           "leads out of the archive")
    yield ("a backslash", archive(members + [Member("..\\evil.npy", npy(np.zeros(1)))]),
           "has a backslash")
    yield ("a name that is not ASCII", archive(members + [Member("\u00e9.npy", npy(np.zeros(1)))]),
           "not printable")
    yield ("a folder", archive(members + [Member("folder/", b"", 0)]),
           "neither result.json nor an array")
    yield ("a script beside", archive(members + [Member("run.sh", b"true")]),
           "neither result.json nor an array")
    yield ("result.json last", archive(members[1:] + members[:1]),
           "result.json is not its first member")


def zip64(data, count, front=b""):
    """A ZIP64 end record that counts so many members, in front of the end record."""
    end = data.rindex(b"PK\5\6")
    size, at = struct.unpack_from("<II", data, end + 12)
    record = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, at)
    return data[:end] + front + record + struct.pack("<4sIQI", b"PK\6\7", 0, end + len(front),
                                                     1) + data[end:]


def twofold(honest):
    """What two readers would see two things in, or one of them nothing."""
    members, lie = honest.members(), honest.copy()
    first = next(iter(honest.arrays))
    lie.arrays["hidden"] = np.zeros(3)
    if honest.arrays[first].dtype.kind != "U":
        lie.arrays[first] = honest.arrays[first] + 1
    agree = "more than its members"
    yield ("two lists, the first behind a locator", two_lists(members, lie.members(), "comment"),
           agree)
    yield "two lists, side by side", two_lists(members, lie.members(), "gap"), agree
    yield ("a ZIP64 record without need", zip64(honest.bytes(), len(members)),
           "more than its members")
    yield ("a ZIP64 record that counts less", zip64(honest.bytes(), len(members) - 1),
           "truncated or damaged")
    yield ("a ZIP64 record elsewhere", zip64(honest.bytes(), len(members), bytes(8)),
           "truncated or damaged|damaged")
    yield ("bytes in front of the list", archive(members, before_list=b"PK hidden"),
           "more than its members")
    again = archive(members)
    at, = struct.unpack_from("<I", again, len(again) - 6)
    yield ("the list elsewhere", again[:-6] + struct.pack("<I", at - 1) + again[-2:],
           "truncated or damaged")
    k = [m.method for m in members].index(8, 1)
    data, packed = members[k].data, deflated(members[k].data)
    size = len(data)
    yield "bytes behind a deflate stream", with_member(honest, k, packed=packed + bytes(1 << 20)), \
        "its data do not end after %d bytes" % size
    yield "a deflate stream that goes on", with_member(honest, k,
                                                       packed=deflated(data + b"more" * 1000)), \
        "its data do not end after %d bytes" % size
    yield ("a deflate stream without an end", with_member(honest, k, packed=zlib_unended(data)),
           "is corrupt")
    yield "an entry's data in another's", archive(nested(members, k)), "not a NumPy array"
    yield "version 25.5", with_member(honest, k, version=255), "version, flags or attributes"
    yield "patched data", with_member(honest, k, flags=0x20), "version, flags or attributes"
    yield "UTF-8 names", with_member(honest, k, flags=0x800), "version, flags or attributes"
    yield ("a symbolic link", with_member(honest, k, attributes=0o120777 << 16),
           "version, flags or attributes")
    yield ("a folder by its attributes", with_member(honest, k, attributes=0x10),
           "version, flags or attributes")
    yield ("another name at the data",
           with_member(honest, k, local_name="x" * len(members[k].name)), "disagree")
    yield "encrypted at the data only", with_member(honest, k, local_flags=1), "disagree"
    yield "other flags at the data", with_member(honest, k, local_flags=2), "more than its members"


def zlib_unended(data):
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)


def nested(members, k):
    """Member k is stored, and holds the whole of another member."""
    inner = archive([members[-1]])
    members[k].data, members[k].method = inner, 0
    return members


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
    yield ("a bomb of an array", with_bomb(honest, name, (side, 1 << 14)),
           "axis [01] has [0-9]+ entries|has 2 axes, not [13]")
    for table in [n for n in honest.arrays if n.endswith("_item")]:
        yield ("a bomb of a table", with_bomb(honest, table, (5 * MEMORY // 32,)),
               "%s: [0-9]+ rows, of" % table)
    yield "more than deflate can hold", with_member(honest, -1, method=8, size=1 << 31), \
        "more bytes than deflate can hold"
    members = honest.members()
    members[0].data += b" " * (65 << 20)
    yield "a result.json of 65 MiB", archive(members), "more than the limit"
    yield ("a deep result.json", with_text(honest, b'{"a":' * 3000 + b"1" + b"}" * 3000),
           "more than the limit|maximum parsing depth")
    many = b'{"a":[' + b"0," * (1 << 22) + b"0]}"
    yield "a result.json of 2^22 values", with_text(honest, many), "more than the limit"


def broken_json(honest):
    of = honest.json["workunit"]
    key = sorted(honest.json["parameters"])[0]
    yield "no result.json", archive(honest.members()[1:]), "no member \"result.json\""
    yield "no JSON", with_text(honest, b"{nothing"), "result.json: line 1"
    yield "a list", with_text(honest, b"[]"), "must be a JSON object"
    yield ("a key twice",
           with_text(honest, json.dumps(honest.json)[:-1].encode() + b', "version": 1}'),
           "duplicate")
    yield "NaN in JSON", with_text(honest, b'{"version": NaN}'), "result.json: line 1"
    yield "another format", with_json(honest, format="texcell-workunit"), '"format" is not'
    for version in (1, 2, 4, 3.0, True):
        yield ("format version %s" % version, with_json(honest, version=version),
               '"version" is not 3')
    yield "another analysis", with_json(honest, analysis="texture"), '"analysis" is not'
    for what, changed in (("another CRC", dict(of, crc32="%08x" % (int(of["crc32"], 16) ^ 1))),
                          ("the CRC in capitals", dict(of, crc32="ABCDEF01")),
                          ("another size of the unit", dict(of, size=of["size"] + 1)),
                          ("another SHA-256", dict(of, sha256=of["sha256"][1:] + of["sha256"][0])),
                          ("the SHA-256 in capitals", dict(of, sha256=of["sha256"].upper())),
                          ("no SHA-256", {k: v for k, v in of.items() if k != "sha256"}),
                          ("another digest, too", dict(of, sha512="00"))):
        yield what, with_json(honest, workunit=changed), '"workunit" is not'
    yield "a parameter changed", with_parameters(honest, lambda p: p.update({key: "other"})), \
        '"parameters.%s" is not' % key
    yield ("a parameter left out", with_parameters(honest, lambda p: p.pop(key)),
           '"parameters.%s" is not' % key)
    yield ("a parameter too many", with_parameters(honest, lambda p: p.update(zzz=1)),
           '"parameters" is not')
    yield "no parameters", with_json(honest, parameters=None), '"parameters.'
    yield "a key too many", with_json(honest, host="mine"), "has 8 keys, not 7"
    yield ("an item renamed", with_json(honest, items=["x"] + honest.json["items"][1:]),
           '"items" is not')
    yield ("items in another order", with_json(honest, items=honest.json["items"][::-1]),
           '"items" is not')
    yield ("sources that nobody gave", with_json(honest, sources=["x"] * len(honest.json["items"])),
           "keys, not")
    yield "an item less", with_json(honest, items=honest.json["items"][:-1]), '"items" is not'
    arrays = honest.json["arrays"]
    for what, change in (("no arrays declared", None), ("an array less", arrays[:-1]),
                         ("an array twice", arrays + arrays[:1]),
                         ("arrays declared in another order",
                          arrays[::-1] if len(arrays) > 1 else []),
                         ("another table", [dict(arrays[0], table="zzz")] + arrays[1:]),
                         ("another role", arrays[:-1] + [dict(arrays[-1], role="item")]),
                         ("another unit", arrays[:-1] + [dict(arrays[-1], unit="furlong")])):
        yield what, with_json(honest, arrays=change), '"arrays" is not'


def broken_arrays(honest):
    """Of the first array with rows of all items, and of the list of arrays."""
    names = list(honest.arrays)
    name = names[names.index("item_names") + 1]
    a = honest.arrays[name]
    wide = a.astype("<i4" if a.dtype == np.int64 else "<f4")
    shape = ("(%s)" % ", ".join(str(n) for n in (a.shape[0], *a.shape[1:])) if a.ndim > 1
             else "(%d,)" % a.shape[0])

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

    if "item_spacing" in honest.arrays:
        r = honest.copy()
        r.arrays["item_spacing"][0, 1] *= 2
        yield ("another size of pixels", r.bytes(),
               "array item_spacing: is not what the work unit gives")
    no_header = "its header is not that of"
    yield "a narrower type", changed(npy(wide)), "array %s: is of a wrong type" % name
    yield "unsigned", changed(npy(a, descr="<u8")), no_header
    yield "big-endian", changed(npy(a, descr=a.dtype.str.replace("<", ">"))), no_header
    yield "Fortran order", changed(npy(a, fortran=True)), no_header
    yield "pickled objects", changed(npy(a, descr="|O")), no_header
    yield "a structured type", changed(npy(a, text="{'descr': [('a', '<f8')], 'fortran_order': "
                                           "False, 'shape': (4,), }")), \
        no_header
    yield ("Python in the header",
           changed(npy(a, text="{'descr': __import__('os').system('true'), }")), no_header)
    yield "a header without end", changed(npy(a, text=b"{'descr': '<f8'")), no_header
    yield "a header of 60,000 bytes", changed(npy(a, text=b" " * 60000)), "its header is too long"
    yield "NPY version 2", changed(npy(a, version=b"\x02\x00")), "not a NumPy array of format 1.0"
    yield "no NPY", changed(b"PNG"), "too short for an array|not a NumPy array"
    yield "data too short", changed(npy(a)[:-1]), "its size is not what its header says"
    yield "data too long", changed(npy(a) + b"\0"), "its size is not what its header says"
    yield ("a row less", changed(npy(a[:-1])),
           "array %s: axis 0 has %d entries, not %d" % (name, len(a) - 1, len(a)))
    yield "a row more", changed(npy(np.concatenate([a, a[:1]]))), "array %s: axis 0 has" % name
    yield ("an axis more", changed(npy(a[..., None])),
           "array %s: has %d axes, not %d" % (name, a.ndim + 1, a.ndim))
    yield "no axis", changed(npy(a, shape="()")), no_header
    yield ("a huge shape", changed(npy(a, shape="(4611686018427387904, 8)")),
           "its shape is too large")
    yield "a shape beyond 64 bits", changed(npy(a, shape="(99999999999999999999,)")), no_header
    yield "a negative shape", changed(npy(a, shape=shape.replace("(", "(-"))), no_header
    yield "an array left out", without(name), "has no array " + name
    yield "item_names left out", without("item_names"), "has no array item_names"
    yield "the last array left out", without(names[-1]), "has no array " + re.escape(names[-1])
    yield "an array too many", added("zzz"), "array zzz: does not belong there"
    yield "one too many in front", added("aaa", True), "array aaa stands where"
    yield "arrays swapped", swapped(), "stands where|wrong type|axes"
    yield "item_names changed", renamed(), "array item_names: is not what the work unit gives"
    yield "item_names wider", with_array(honest, "item_names",
                                         npy(honest.arrays["item_names"].astype("<U40"))), \
        "array item_names: is of a wrong type"


# --- the trial ------------------------------------------------------------------------------------

def refuse(name, unit, forged, honest, reason):
    """check refuses it for that reason, by the pixels where this is ("pixels", reason), and so does
    compare, unless the content is the same."""
    file = save("forged.npz", forged)
    by_pixels = isinstance(reason, tuple)
    reason = reason[1] if by_pixels else reason
    run = validate("check", *([] if by_pixels else ["--no-pixels"]), unit, file)
    refused = run.returncode == 2 and run.stdout == "" and re.search(reason,
                                                                     run.stderr) is not None \
        and run.stderr.startswith("texcell-validate: error: %s: " %
                                  file) and run.stderr.count("\n") == 1
    # too little was known of what chance chose: it was computed again
    if by_pixels and run.returncode == 4:
        refused = "no match" in run.stdout + run.stderr
    tap.ok(refused, "%s: refused" % name,
           "exit %d, not '%s'\n%s%s" % (run.returncode, reason, run.stdout, run.stderr))
    layout = any(words in run.stderr for words in ("more than its members", "version, flags",
                                                   "not its first member", "stands where"))
    run = validate("compare", honest, file)
    if not layout or run.returncode not in (0, 4):
        tap.ok(run.returncode in (2, 4), "%s: unlike an honest one" % name,
               "exit %d\n%s%s" % (run.returncode, run.stdout, run.stderr))


def catch(name, unit, forged, honest):
    """check cannot know; verify and compare do, and say where."""
    file = save("forged.npz", forged)
    run = validate("check", "--no-pixels", unit, file)
    tap.ok(run.returncode == 0, "%s: check cannot know" % name, run.stderr)
    for command, args in (("verify", ["--fraction", "1", unit, file]), ("compare", [honest, file])):
        run = validate(command, *args)
        place = re.search(r"^[A-Za-z_0-9]+\[\S.*\]: \S+ and \S+$|: \d+ and \d+ rows$|has "
                          r"another shape", run.stdout, re.M)
        tap.ok(run.returncode == 4 and place is not None and "no match: " in run.stdout,
               "%s: caught by %s" % (name, command),
               "exit %d\n%s%s" % (run.returncode, run.stdout, run.stderr))


def forgeries(analysis, changes, units, results):
    """Those of the file's form of the first job, those of values (tests/analyses) of all."""
    first = next(iter(results))
    honest = path("%s_%s.npz" % (analysis, first))
    count = 0
    for kind in (broken_archives, twofold, bombs, broken_json, broken_arrays):
        for name, data, reason in kind(results[first]):
            refuse("%s: %s" % (analysis, name), units[first], data, honest, reason)
            count += 1
    for name, job, change, reason in changes:
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
        refuse("%s: another unit's result (%s)" % (analysis, job), units[first],
               results[job].original,
               path("%s_%s.npz" % (analysis, first)), '"workunit" is not')
        count += 1
    tap.ok(count >= 60, "%s: %d forgeries" % (analysis, count))


def main():
    device = "usable" in re.sub("not usable", "", tap.run([tap.TEXCELL, "devices"]).stdout)
    if not device:
        tap.skip("results of OpenCL", "no usable device")
    for analysis, of in analyses.each():
        units, results = honest_ones(analysis, of.JOBS, getattr(of, "KNOWN", {}), device)
        forgeries(analysis, of.forgeries(), units, results)
    tap.done()


if __name__ == "__main__":
    main()
