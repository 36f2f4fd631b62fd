"""Tests texcell-validate with forged results, at least 60 of each analysis. check must refuse each
one whose error shows without computing it again, with the right reason; verify, and compare with
an honest result, must find the others. The honest results of every analysis, from the CPU and from
OpenCL, are accepted and equal byte for byte. forge.py, which makes the forgeries, shares no code
with the program."""
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
MEMORY = 256 << 20              # address space of texcell-validate, so that a ZIP bomb is noticed
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


def test_honest_results(analysis, jobs, known, device):
    """Computes every job of an analysis, and checks the results. Returns ({job: work unit}, {job:
    result})."""
    units, results = {}, {}
    for job, (parameters, items) in jobs.items():
        name = "%s, %s" % (analysis, job)
        units[job] = workunit.write(path("%s_%s.zip" % (analysis, job)), analysis, parameters,
                                    items)
        computed_file = compute(units[job], "cpu")
        if not tap.ok(computed_file is not None, name + ": computed on the CPU"):
            continue
        with open(computed_file, "rb") as f:
            saved_file = save("%s_%s.npz" % (analysis, job), f.read())
        results[job] = forge.Result(saved_file)
        accept(name + ": the CPU's result", units[job], saved_file)
        accept(name + ": the result as forge.py writes it", units[job],
               save("again.npz", results[job].bytes()))
        accept(name + ": the result with more padding in the arrays' headers", units[job],
               save("padded.npz", forge.archive([forge.Member(m.name, pad_header(m.data))
                                                 for m in results[job].members()])))
        same = [n for n in (1, 3, 7) if same_file(compute(units[job], "cpu", "--threads", str(n)),
                                                  results[job])]
        tap.ok(same == [1, 3, 7], name + ": the same file with 1, 3 and 7 threads", same)
        answer = results[job].known_answer()
        if job in known:
            tap.ok(answer == known[job], name + ": the known answer", answer)
        else:
            tap.skip(name + ": the known answer", "KNOWN has none; it is \"%s\"" % answer)
        if device and analyses.has_opencl(analysis):
            computed_file = compute(units[job], "opencl")
            if tap.ok(computed_file is not None, name + ": computed with OpenCL"):
                accept(name + ": OpenCL's result", units[job], computed_file)
                tap.ok(same_file(computed_file, results[job]),
                       name + ": OpenCL's file has the same bytes as the CPU's")
    return units, results


def pad_header(data):
    """An .npy file with 64 more spaces in its header; other data are returned as they are."""
    if data[:6] != b"\x93NUMPY":
        return data
    end = 10 + int.from_bytes(data[8:10], "little")
    return data[:8] + (end + 54).to_bytes(2, "little") + data[10:end - 1] + b" " * 64 + \
        data[end - 1:]


def accept(name, unit, result):
    for command in ("check", "verify"):
        run = validate(command, *(["--fraction", "1"] if command == "verify" else []), unit, result)
        tap.ok(run.returncode == 0 and run.stdout.endswith("valid\n") and run.stderr == "",
               "%s is accepted by %s" % (name, command), run.stdout + run.stderr)


# --- forgeries of the file's form ------------------------------------------------------------
#
# Each is (name, bytes, reason). The reason is a regular expression that check's message matches.

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
    """The result with the .npy of one array replaced by these bytes."""
    members = honest.members()
    index = [m.name for m in members].index(name + ".npy")
    members[index] = Member(name + ".npy", data)
    return archive(members)


def with_member(honest, index, **attributes):
    members = honest.members()
    for key, value in attributes.items():
        setattr(members[index], key, value)
    return archive(members)


def broken_archives(honest):
    data, members = honest.bytes(), honest.members()
    yield "truncated by a byte", data[:-1], "truncated or damaged"
    yield "truncated to a half", data[:len(data) // 2], "truncated or damaged"
    yield "an empty file", b"", "the file is empty"
    yield "text", b"these are not the numbers you are looking for\n" * 9, "not a ZIP archive"
    yield "bytes before the archive", archive(members, front=b"#!/bin/sh\n"), "not a ZIP archive"
    yield "bytes after the archive", data + b"\0", "truncated or damaged"
    yield "a comment", archive(members, comment=b"hello"), "holds more than its members"
    yield ("a comment of a member", with_member(honest, 1, comment=b"hello"),
           "holds more than its members")
    yield "an extra field in the central directory", with_member(honest, 1,
                                                                 extra=struct.pack("<HH4s", 0x7075,
                                                                                 4, b"evil")), \
        "holds more than its members"
    yield ("an extra field in a local header", with_member(honest, 2, local_extra=bytes(40)),
           "holds more than its members")
    yield "a gap", with_member(honest, 3, gap=b"PK hidden"), "holds more than its members"
    yield ("a data descriptor", with_member(honest, 1, descriptor=True),
           "holds more than its members")
    yield "an encrypted member", with_member(honest, 1, flags=1), "is encrypted"
    yield "a member compressed by bzip2", with_member(honest, 1,
                                                      disk_method=12), "neither store nor deflate"
    yield "a wrong CRC", with_member(honest, -1, crc=1), "its CRC is wrong"
    yield "a wrong size", with_member(honest, -1, size=len(members[-1].data) + 8), \
        "its size is not what|its two sizes differ|disagree"
    yield "another size in a local header", with_member(honest, 2, local_size=77), "disagree"
    yield "an end record that counts too many members", archive(members, count=len(members) +
                                                                1), "damaged"
    yield "an end record that counts too few members", archive(members,
                                                               count=len(members) - 1), "damaged"
    yield "a broken deflate stream", with_member(honest, 1, packed=b"\xff" * 2000), "is corrupt"
    yield "two members with the same name", archive(members +
                                                    [members[-1]]), "two members are named"
    yield "two result.json", archive(members + [members[0]]), "two members are named"
    yield ("a path that leads out of the archive",
           archive(members + [Member("../../evil.npy", npy(np.zeros(1)))]),
           "leads out of the archive")
    yield ("a name with a backslash", archive(members + [Member("..\\evil.npy", npy(np.zeros(1)))]),
           "has a backslash")
    yield ("a name that is not ASCII", archive(members + [Member("\u00e9.npy", npy(np.zeros(1)))]),
           "not printable")
    yield ("a member that is a folder", archive(members + [Member("folder/", b"", 0)]),
           "neither result.json nor an array")
    yield ("a script as a member", archive(members + [Member("run.sh", b"true")]),
           "neither result.json nor an array")
    yield ("result.json last", archive(members[1:] + members[:1]),
           "result.json is not its first member")


def zip64(data, count, front=b""):
    """The archive with a ZIP64 end record that counts `count` members before its end record."""
    end = data.rindex(b"PK\5\6")
    size, list_offset = struct.unpack_from("<II", data, end + 12)
    record = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size,
                         list_offset)
    return data[:end] + front + record + struct.pack("<4sIQI", b"PK\6\7", 0, end + len(front),
                                                     1) + data[end:]


def ambiguous_archives(honest):
    """Archives that two readers would read differently, or one of them not at all."""
    members, forgery = honest.members(), honest.copy()
    first = next(iter(honest.arrays))
    forgery.arrays["hidden"] = np.zeros(3)
    if honest.arrays[first].dtype.kind != "U":
        forgery.arrays[first] = honest.arrays[first] + 1
    agree = "more than its members"
    yield ("two central directories, the second in a comment",
           two_lists(members, forgery.members(), "comment"),
           agree)
    yield "two central directories, the second in a gap", two_lists(members, forgery.members(),
                                                                    "gap"), agree
    yield ("a needless ZIP64 record", zip64(honest.bytes(), len(members)),
           "more than its members")
    yield ("a ZIP64 record that counts too few members", zip64(honest.bytes(), len(members) - 1),
           "truncated or damaged")
    yield ("a ZIP64 record at another offset", zip64(honest.bytes(), len(members), bytes(8)),
           "truncated or damaged|damaged")
    yield ("bytes before the central directory", archive(members, before_list=b"PK hidden"),
           "more than its members")
    whole = archive(members)
    list_offset, = struct.unpack_from("<I", whole, len(whole) - 6)
    yield ("a wrong offset of the central directory", whole[:-6] +
           struct.pack("<I", list_offset - 1) + whole[-2:],
           "truncated or damaged")
    k = [m.method for m in members].index(8, 1)
    data, packed = members[k].data, deflated(members[k].data)
    size = len(data)
    yield "bytes after a deflate stream", with_member(honest, k, packed=packed + bytes(1 << 20)), \
        "its data do not end after %d bytes" % size
    yield "a deflate stream longer than its size", with_member(honest, k,
                                                       packed=deflated(data + b"more" * 1000)), \
        "its data do not end after %d bytes" % size
    yield ("a deflate stream without an end",
           with_member(honest, k, packed=deflate_without_end(data)),
           "is corrupt")
    yield "a member inside another member", archive(nested_member(members, k)), "not a NumPy array"
    yield "a member of ZIP version 25.5", with_member(honest, k,
                                                      version=255), "version, flags or attributes"
    yield "the flag of patched data", with_member(honest, k,
                                                  flags=0x20), "version, flags or attributes"
    yield "the flag of UTF-8 names", with_member(honest, k,
                                                 flags=0x800), "version, flags or attributes"
    yield ("a symbolic link", with_member(honest, k, attributes=0o120777 << 16),
           "version, flags or attributes")
    yield ("a folder by its attributes", with_member(honest, k, attributes=0x10),
           "version, flags or attributes")
    yield ("another name in a local header",
           with_member(honest, k, local_name="x" * len(members[k].name)), "disagree")
    yield "the flag of encryption only in a local header", with_member(honest, k,
                                                                       local_flags=1), "disagree"
    yield "other flags in a local header", with_member(honest, k,
                                                       local_flags=2), "more than its members"


def deflate_without_end(data):
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)


def nested_member(members, k):
    """The members, of which number k becomes a stored archive of another member."""
    inner = archive([members[-1]])
    members[k].data, members[k].method = inner, 0
    return members


def deflated_zeros(size):
    """`size` zero bytes, deflated."""
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    block = bytes(1 << 20)
    return b"".join([packer.compress(block) for _ in range(size >> 20)] +
                    [packer.compress(block[:size % (1 << 20)]), packer.flush()])


def with_bomb(honest, name, shape):
    """The result with an array replaced by zeros of this shape: its header as a stored block, then
    deflated zeros."""
    members = honest.members()
    m = members[[m.name for m in members].index(name + ".npy")]
    empty = honest.arrays[name].reshape(-1)[:0]
    head = npy(empty, shape=str(tuple(shape)))
    size = int(np.prod(shape)) * empty.dtype.itemsize
    m.method, m.size, m.crc = 8, len(head) + size, zlib.crc32(bytes(size), zlib.crc32(head))
    m.packed = b"\0" + struct.pack("<HH", len(head),
                                   len(head) ^ 0xffff) + head + deflated_zeros(size)
    return archive(members)


def bombs(honest):
    name = list(honest.arrays)[-1]
    side = 5 * MEMORY // 4 // honest.arrays[name].dtype.itemsize >> 14
    yield ("a bomb of an array", with_bomb(honest, name, (side, 1 << 14)),
           "axis [01] has [0-9]+ entries|has 2 axes, not [13]")
    for table in [n for n in honest.arrays if n.endswith("_item")]:
        yield ("a bomb of a table", with_bomb(honest, table, (5 * MEMORY // 32,)),
               "%s: [0-9]+ rows, but" % table)
    yield "more than deflate can hold", with_member(honest, -1, method=8, size=1 << 31), \
        "more bytes than deflate can hold"
    members = honest.members()
    members[0].data += b" " * (65 << 20)
    yield "a result.json of 65 MiB", archive(members), "more than the limit"
    yield ("a deep result.json", with_text(honest, b'{"a":' * 3000 + b"1" + b"}" * 3000),
           "more than the limit|maximum parsing depth")
    values = b'{"a":[' + b"0," * (1 << 22) + b"0]}"
    yield "a result.json of 2^22 values", with_text(honest, values), "more than the limit"


def broken_json(honest):
    workunit_entry = honest.json["workunit"]
    key = sorted(honest.json["parameters"])[0]
    yield "no result.json", archive(honest.members()[1:]), "no member \"result.json\""
    yield "result.json that is not JSON", with_text(honest, b"{nothing"), "result.json: line 1"
    yield "result.json that is a list", with_text(honest, b"[]"), "must be a JSON object"
    yield ("a duplicate key",
           with_text(honest, json.dumps(honest.json)[:-1].encode() + b', "version": 1}'),
           "duplicate")
    yield "NaN in JSON", with_text(honest, b'{"version": NaN}'), "result.json: line 1"
    yield "another format", with_json(honest, format="texcell-workunit"), '"format" is not'
    for version in (1, 2, 4, 3.0, True):
        yield ("format version %s" % version, with_json(honest, version=version),
               '"version" is not 3')
    yield "another analysis", with_json(honest, analysis="texture"), '"analysis" differs from'
    for name, changed_entry in (("another CRC",
                                 dict(workunit_entry, crc32="%08x" %
                                      (int(workunit_entry["crc32"], 16) ^ 1))),
                                ("the CRC in capitals", dict(workunit_entry, crc32="ABCDEF01")),
                                ("another size of the unit",
                                 dict(workunit_entry, size=workunit_entry["size"] + 1)),
                                ("another SHA-256",
                                 dict(workunit_entry, sha256=workunit_entry["sha256"][1:] +
                                      workunit_entry["sha256"][0])),
                                ("the SHA-256 in capitals",
                                 dict(workunit_entry, sha256=workunit_entry["sha256"].upper())),
                                ("no SHA-256",
                                 {k: v for k, v in workunit_entry.items() if k != "sha256"}),
                                ("an additional digest", dict(workunit_entry, sha512="00"))):
        yield name, with_json(honest, workunit=changed_entry), '"workunit" differs from'
    yield "a changed parameter", with_parameters(honest, lambda p: p.update({key: "other"})), \
        '"parameters.%s" differs from' % key
    yield ("a missing parameter", with_parameters(honest, lambda p: p.pop(key)),
           '"parameters.%s" differs from' % key)
    yield ("an additional parameter", with_parameters(honest, lambda p: p.update(zzz=1)),
           '"parameters" differs from')
    yield "no parameters", with_json(honest, parameters=None), '"parameters.'
    yield "an additional key", with_json(honest, host="mine"), "has 8 keys, not 7"
    yield ("a renamed item", with_json(honest, items=["x"] + honest.json["items"][1:]),
           '"items" differs from')
    yield ("items in another order", with_json(honest, items=honest.json["items"][::-1]),
           '"items" differs from')
    yield ("sources that the work unit does not have",
           with_json(honest, sources=["x"] * len(honest.json["items"])),
           "keys, not")
    yield ("a missing item", with_json(honest, items=honest.json["items"][:-1]),
           '"items" differs from')
    arrays = honest.json["arrays"]
    for name, change in (("no arrays declared", None), ("a declaration less", arrays[:-1]),
                         ("an array declared twice", arrays + arrays[:1]),
                         ("arrays declared in another order",
                          arrays[::-1] if len(arrays) > 1 else []),
                         ("another table of an array", [dict(arrays[0], table="zzz")] + arrays[1:]),
                         ("another role of an array", arrays[:-1] +
                          [dict(arrays[-1], role="item")]),
                         ("another unit of measurement of an array", arrays[:-1] +
                          [dict(arrays[-1], unit="furlong")])):
        yield name, with_json(honest, arrays=change), '"arrays" differs from'


def broken_arrays(honest):
    """Errors of the first array that has rows for all items, and of the list of arrays."""
    names = list(honest.arrays)
    name = names[names.index("item_names") + 1]
    a = honest.arrays[name]
    wide = a.astype("<i4" if a.dtype == np.int64 else "<f4")
    shape = ("(%s)" % ", ".join(str(n) for n in (a.shape[0], *a.shape[1:])) if a.ndim > 1
             else "(%d,)" % a.shape[0])

    def replaced(data):
        return with_array(honest, name, data)

    def without_array(left):
        r = honest.copy()
        del r.arrays[left]
        return r.bytes()

    def with_renamed_item():
        r = honest.copy()
        r.arrays["item_names"][0] = "X" + str(r.arrays["item_names"][0])[1:]
        return r.bytes()

    def with_array_added(key, first=False):
        r = honest.copy()
        r.arrays = {key: np.zeros(3), **r.arrays} if first else {**r.arrays, key: np.zeros(3)}
        return r.bytes()

    def with_swapped_arrays():
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
               "array item_spacing: differs from what the work unit defines")
    no_header = "its header does not describe"
    yield "a narrower type", replaced(npy(wide)), "array %s: has the wrong type" % name
    yield "an unsigned type", replaced(npy(a, descr="<u8")), no_header
    yield "a big-endian type", replaced(npy(a, descr=a.dtype.str.replace("<", ">"))), no_header
    yield "Fortran order", replaced(npy(a, fortran=True)), no_header
    yield "pickled objects", replaced(npy(a, descr="|O")), no_header
    yield "a structured type", replaced(npy(a, text="{'descr': [('a', '<f8')], 'fortran_order': "
                                            "False, 'shape': (4,), }")), \
        no_header
    yield ("Python in the header",
           replaced(npy(a, text="{'descr': __import__('os').system('true'), }")), no_header)
    yield "a header without end", replaced(npy(a, text=b"{'descr': '<f8'")), no_header
    yield "a header of 60,000 bytes", replaced(npy(a, text=b" " * 60000)), "its header is too long"
    yield "NPY version 2", replaced(npy(a, version=b"\x02\x00")), "not a NumPy array of format 1.0"
    yield "no NPY format", replaced(b"PNG"), "too short for an array|not a NumPy array"
    yield "too few bytes of data", replaced(npy(a)[:-1]), "its size is not what its header says"
    yield "too many bytes of data", replaced(npy(a) + b"\0"), "its size is not what its header says"
    yield ("a missing row", replaced(npy(a[:-1])),
           "array %s: axis 0 has %d entries, not %d" % (name, len(a) - 1, len(a)))
    yield "an additional row", replaced(npy(np.concatenate([a,
                                                            a[:1]]))), "array %s: axis 0 has" % name
    yield ("an additional axis", replaced(npy(a[..., None])),
           "array %s: has %d axes, not %d" % (name, a.ndim + 1, a.ndim))
    yield "an array without axes", replaced(npy(a, shape="()")), no_header
    yield ("a huge shape", replaced(npy(a, shape="(4611686018427387904, 8)")),
           "its shape is too large")
    yield "a shape beyond 64 bits", replaced(npy(a, shape="(99999999999999999999,)")), no_header
    yield "a negative shape", replaced(npy(a, shape=shape.replace("(", "(-"))), no_header
    yield "a missing array", without_array(name), "has no array " + name
    yield "a missing item_names", without_array("item_names"), "has no array item_names"
    yield "a missing last array", without_array(names[-1]), "has no array " + re.escape(names[-1])
    yield "an additional array", with_array_added("zzz"), "array zzz: does not belong there"
    yield "an additional first array", with_array_added("aaa", True), "array aaa stands where"
    yield "two arrays in the wrong order", with_swapped_arrays(), "stands where|wrong type|axes"
    yield ("a changed item_names", with_renamed_item(),
           "array item_names: differs from what the work unit defines")
    yield "item_names of a wider type", with_array(honest, "item_names",
                                         npy(honest.arrays["item_names"].astype("<U40"))), \
        "array item_names: has the wrong type"


# --- running --------------------------------------------------------------------------------------

def check_refused(name, unit, forged, honest, reason):
    """Tests that check refuses a forgery for this reason, and that compare does, unless the arrays
    are equal. reason: a regular expression; in the form ("pixels", REASON) check needs the
    pixels."""
    file = save("forged.npz", forged)
    by_pixels = isinstance(reason, tuple)
    reason = reason[1] if by_pixels else reason
    run = validate("check", *([] if by_pixels else ["--no-pixels"]), unit, file)
    refused = run.returncode == 2 and run.stdout == "" and re.search(reason,
                                                                     run.stderr) is not None \
        and run.stderr.startswith("texcell-validate: error: %s: " %
                                  file) and run.stderr.count("\n") == 1
    # Pixels left the items chosen at random in doubt: check computed them again.
    if by_pixels and run.returncode == 4:
        refused = "no match" in run.stdout + run.stderr
    tap.ok(refused, "%s: refused" % name,
           "exit %d, not '%s'\n%s%s" % (run.returncode, reason, run.stdout, run.stderr))
    layout = any(words in run.stderr for words in ("more than its members", "version, flags",
                                                   "not its first member", "stands where"))
    run = validate("compare", honest, file)
    if not layout or run.returncode not in (0, 4):
        tap.ok(run.returncode in (2, 4),
               "%s: compare finds a difference from the honest result" % name,
               "exit %d\n%s%s" % (run.returncode, run.stdout, run.stderr))


def check_found_by_verify(name, unit, forged, honest):
    """Tests that check accepts a forgery without the pixels, but that verify and compare find it
    and print its place."""
    file = save("forged.npz", forged)
    run = validate("check", "--no-pixels", unit, file)
    tap.ok(run.returncode == 0, "%s: check accepts it without the pixels" % name, run.stderr)
    for command, args in (("verify", ["--fraction", "1", unit, file]), ("compare", [honest, file])):
        run = validate(command, *args)
        difference = re.search(r"^[A-Za-z_0-9]+\[\S.*\]: \S+ and \S+$|: \d+ and \d+ rows$|has "
                               r"another shape", run.stdout, re.M)
        tap.ok(run.returncode == 4 and difference is not None and "no match: " in run.stdout,
               "%s: found by %s" % (name, command),
               "exit %d\n%s%s" % (run.returncode, run.stdout, run.stderr))


def test_forgeries(analysis, changes, units, results):
    """Forgeries of the file's form for the first job, forgeries of values (tests/analyses) for all
    jobs."""
    first = next(iter(results))
    honest = path("%s_%s.npz" % (analysis, first))
    count = 0
    for kind in (broken_archives, ambiguous_archives, bombs, broken_json, broken_arrays):
        for name, data, reason in kind(results[first]):
            check_refused("%s: %s" % (analysis, name), units[first], data, honest, reason)
            count += 1
    for job, r in results.items():
        name = list(r.arrays)[-1]
        if "{item}" in r.json["arrays"][-1]["array"]:
            check_refused("%s, %s: another shape of the same size" % (analysis, job), units[job],
                          with_array(r, name, npy(r.arrays[name], shape=(1,) * (
                              r.arrays[name].ndim - 1) + (r.arrays[name].size,))),
                          path("%s_%s.npz" % (analysis, job)), "%s: axis . has" % name)
            count += 1
    for name, job, change, reason in changes:
        r = results[job].copy()
        change(r.arrays)
        title = "%s: %s" % (analysis, name)
        honest = path("%s_%s.npz" % (analysis, job))
        if reason is None:
            check_found_by_verify(title, units[job], r.bytes(), honest)
        else:
            check_refused(title, units[job], r.bytes(), honest, reason)
        count += 1
    for job in list(results)[1:]:
        check_refused("%s: another unit's result (%s)" % (analysis, job), units[first],
                      results[job].original,
                      path("%s_%s.npz" % (analysis, first)), '"workunit" differs from')
        count += 1
    tap.ok(count >= 60, "%s: %d forgeries" % (analysis, count))


def main():
    device = "usable" in re.sub("not usable", "", tap.run([tap.TEXCELL, "devices"]).stdout)
    if not device:
        tap.skip("results of OpenCL", "no usable device")
    for analysis, of in analyses.each():
        units, results = test_honest_results(analysis, of.JOBS, getattr(of, "KNOWN", {}), device)
        test_forgeries(analysis, of.forgeries(), units, results)
    tap.done()


if __name__ == "__main__":
    main()
