"""Tests the memory and time that texcell-validate check takes for malicious results, compared with
the right result of the same unit: tables with as many rows as the picture has pixels, JSON with two
million values, archives with very many members."""
import os
import re
import struct
import time
import zlib

import numpy as np

import forge
import tap
from oracle import workunit
from oracle.workunit import item

FOLDER = tap.scratch()
MORE_MIB, MORE_SECONDS = 512, 20


def path(name):
    return os.path.join(FOLDER, name)


def check(unit, file):
    """(exit code, peak memory in MiB, seconds, output)."""
    start = time.monotonic()
    pid = os.fork()
    if pid == 0:
        log = os.open(path("log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.execv(tap.TEXCELL_VALIDATE, [tap.TEXCELL_VALIDATE, "check", unit, file])
    _, status, usage = os.wait4(pid, 0)
    with open(path("log")) as f:
        return (os.waitstatus_to_exitcode(status), usage.ru_maxrss / 1024,
                time.monotonic() - start, f.read())


def zeros_member(name, array, rows):
    """A member of an archive with an array of so many rows of zeros."""
    shape = (rows,) + array.shape[1:]
    head = forge.npy(array[:0], shape=str(shape))
    size = int(np.prod(shape)) * array.dtype.itemsize
    packer, block = zlib.compressobj(6, zlib.DEFLATED, -15), bytes(1 << 20)
    packed, crc = [packer.compress(head)], zlib.crc32(head)
    for offset in range(0, size, len(block)):
        part = block[:min(len(block), size - offset)]
        packed.append(packer.compress(part))
        crc = zlib.crc32(part, crc)
    m = forge.Member(name + ".npy", b"", 8)
    m.packed, m.size, m.crc = b"".join(packed + [packer.flush()]), len(head) + size, crc
    return m


def many_rows(honest, rows):
    """The result with so many rows in all tables, all of the first item."""
    members = honest.members()
    for i, m in enumerate(members):
        name = m.name[:-4]
        if name.startswith("region_"):
            members[i] = zeros_member(name, honest.arrays[name], rows)
    return forge.archive(members)


def with_json(honest, text):
    members = honest.members()
    members[0] = forge.Member("result.json", text, 8)
    return forge.archive(members)


def many_members(honest, n):
    """The result with n more members in its central directory, which share one place in the
    file."""
    members = honest.members()
    data = forge.npy(np.zeros(0))
    out = bytearray(forge.archive(members))
    end = len(out) - 22
    start, = struct.unpack_from("<I", out, end + 16)
    offset = start
    local = struct.pack("<IHHHHHIIIHH", 0x04034b50, 20, 0, 0, 0, 33, zlib.crc32(data), len(data),
                        len(data), 11, 0)
    body = bytes(out[:start]) + local + b"0000000.npy" + data
    entries = b"".join(struct.pack("<IHHHHHHIIIHHHHHII", 0x02014b50, 20, 20, 0, 0, 0, 33,
                                   zlib.crc32(data), len(data),
                                   len(data), 11, 0, 0, 0, 0, 0, offset) + b"%07x.npy" % i
                       for i in range(n))
    listed = bytes(out[start:end]) + entries
    body += bytes(n * len(data))
    return body + listed + struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, 0xffff, 0xffff, len(listed),
                                       len(body), 0)


def large_unit():
    """A unit whose picture could have more rows than memory can store: a result with this number of
    rows is refused before they are read."""
    unit, result, side = path("large.zip"), path("large.npz"), 6000
    workunit.write(unit, "cellcount", {"threshold": 100, "min_area": 1, "connectivity": 4},
                   [item("a", [np.full((side, side), 200, np.uint8)])])
    run = tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet"])
    code, mib, seconds, log = check(unit, result)
    tap.ok(run.returncode == 0 and code == 0,
           "large: the right result is accepted: %d MiB, %.1f s" % (mib, seconds), log)
    rows = side * side // 4
    with open(path("hostile.npz"), "wb") as f:
        f.write(many_rows(forge.Result(result), rows))
    code, peak, took, log = check(unit, path("hostile.npz"))
    tap.ok(code == 2 and
           re.search("rows, but there can be at most [0-9]+, or --max-memory allows", log) and
           peak - mib < MORE_MIB and took - seconds < MORE_SECONDS,
           "large: %d rows, %d KiB: refused with %d MiB in %.1f s" %
           (rows, os.path.getsize(path("hostile.npz")) >> 10, peak,
            took), "exit %d: %s" % (code, log))


def main():
    side = 2048
    picture = np.full((side, side), 200, np.uint8)
    picture[5:9, 5:9] = 10
    unit, result = path("unit.zip"), path("result.npz")
    workunit.write(unit, "cellcount", {"threshold": 100}, [item("a", [picture])])
    run = tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet"])
    tap.ok(run.returncode == 0, "the right result", run.stderr)
    honest = forge.Result(result)
    code, mib, seconds, log = check(unit, result)
    tap.ok(code == 0, "is accepted: %d MiB, %.1f s" % (mib, seconds), log)
    hostile = (("rows as many as pixels", lambda: many_rows(honest, side * side), "rows, but"),
               ("rows as many as there can be", lambda: many_rows(honest, side * side // 4),
                "error"),
               ("objects of one key",
                lambda: with_json(honest, b'{"a":[' + b'{"":0},' * ((1 << 20) - 8) + b"0]}"),
                "more than the limit"),
               ("empty strings", lambda: with_json(honest, b'{"a":[' + b'"",' * ((1 << 21) - 8) +
                                                   b'""]}'), "more than the limit"),
               ("400,000 members", lambda: many_members(honest, 400000),
                "more than [0-9]+ members"))
    for name, make, words in hostile:
        with open(path("hostile.npz"), "wb") as f:
            f.write(make())
        code, peak, took, log = check(unit, path("hostile.npz"))
        size = os.path.getsize(path("hostile.npz"))
        tap.ok(code == 2 and re.search(words, log) and peak - mib < MORE_MIB and
               took - seconds < MORE_SECONDS,
               "%s, %d KiB: refused with %d MiB in %.1f s" % (name, size >> 10, peak, took),
               "exit %d: %s" % (code, log))
    large_unit()
    tap.done()


if __name__ == "__main__":
    main()
