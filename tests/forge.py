"""Forges results for tests: makes ZIP and NPY files byte by byte, right or wrong in any way. It
shares no code with the program."""
import io
import json
import struct
import zipfile
import zlib

import numpy as np

DOS_TIME, DOS_DATE = 0, 33  # 1980-01-01 00:00:00


class Member:
    """A member of an archive. Sizes, CRC and the other fields follow from the data unless they are
    set."""

    def __init__(self, name, data, method=None):
        self.name = name
        self.data = data
        self.method = (0 if is_float(data) else 8) if method is None else method
        self.packed = None          # the bytes in the file; None: the data, compressed by method
        self.crc = self.size = None
        self.local_name = None      # the name in the local header; None: name
        self.local_extra = self.extra = self.comment = b""
        self.flags = 0
        self.gap = b""              # bytes before the local header
        self.descriptor = False     # whether sizes and CRC follow the data (a data descriptor)
        self.local_size = None      # the size in the local header; None: size
        self.disk_method = None     # the method in the headers; None: method
        self.version = 20           # the version needed to extract the member
        self.attributes = 0         # external attributes: Unix's are in the upper half
        self.local_flags = None     # the flags in the local header; None: flags

    def bytes(self):
        if self.packed is not None:
            return self.packed
        if self.method == 0:
            return self.data
        packer = zlib.compressobj(6, zlib.DEFLATED, -15)
        return packer.compress(self.data) + packer.flush()


def is_float(data):
    return data[:6] == b"\x93NUMPY" and (b"'<f" in data[:64])


def archive(members, comment=b"", front=b"", behind=b"", count=None, before_list=b""):
    """The bytes of a ZIP. front: bytes before the first member; before_list: bytes before the
    central directory; behind: bytes after the comment; count: the number of members in the end
    record."""
    out, directory = bytearray(front), bytearray()
    for m in members:
        out += m.gap
        offset, packed = len(out), m.bytes()
        crc = zlib.crc32(m.data) if m.crc is None else m.crc
        size = len(m.data) if m.size is None else m.size
        flags = m.flags | (8 if m.descriptor else 0)
        method = m.method if m.disk_method is None else m.disk_method
        name = m.name if isinstance(m.name, bytes) else m.name.encode()
        local = m.local_name.encode() if m.local_name is not None else name
        numbers = (0, 0, 0) if m.descriptor else (crc, len(packed), m.local_size
                                                  if m.local_size is not None else size)
        local_flags = flags if m.local_flags is None else m.local_flags
        out += struct.pack("<IHHHHHIIIHH", 0x04034b50, m.version, local_flags, method, DOS_TIME,
                           DOS_DATE, *numbers, len(local),
                           len(m.local_extra)) + local + m.local_extra + packed
        if m.descriptor:
            out += struct.pack("<IIII", 0x08074b50, crc, len(packed), size)
        directory += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014b50, 20, m.version, flags, method,
                                 DOS_TIME, DOS_DATE, crc,
                                 len(packed), size, len(name), len(m.extra), len(m.comment), 0, 0,
                                 m.attributes, offset)
        directory += name + m.extra + m.comment
    out += before_list
    start = len(out)
    n = len(members) if count is None else count
    return bytes(out + directory + struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, n, n, len(directory),
                                               start,
                                               len(comment)) + comment + behind)


def deflated(data):
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def two_lists(members, others, place):
    """A ZIP with two central directories: a ZIP64 record points to the directory of `members`, and
    the end record to the directory of `others`, which is hidden from readers of the first: in the
    "comment" of the last entry of the first directory, or in the "tail" of its last member's
    data."""
    first = archive(members)
    start, end = struct.unpack_from("<I", first, len(first) - 6)[0], len(first) - 22
    data, listed = first[:start], bytearray(first[start:end])
    second = archive(others)
    split, last = struct.unpack_from("<I", second, len(second) - 6)[0], len(second) - 22
    body, directory = second[:split], bytearray(second[split:last])
    offset = 0
    while offset < len(directory):     # the second list's members lie behind the first's
        n, x, c = struct.unpack_from("<HHH", directory, offset + 28)
        struct.pack_into("<I", directory, offset + 42,
                         struct.unpack_from("<I", directory, offset + 42)[0] +
                         len(data))
        offset += 46 + n + x + c
    offset = listed.rindex(b"PK\1\2")
    packed, = struct.unpack_from("<I", listed, offset + 20)
    struct.pack_into("<I", listed, offset + 20, packed + len(body))
    begin = len(data) + len(body)
    record = struct.pack("<IQHHIIQQQQ", 0x06064b50, 44, 45, 45, 0, 0, len(members), len(members),
                         len(listed), begin)
    locator = struct.pack("<IIQI", 0x07064b50, 0, begin + len(listed), 1)
    if place == "comment":
        struct.pack_into("<H", listed, offset + 32, len(record + locator + directory))
    out = data + body + listed + record + locator
    return bytes(out + directory + struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, len(others),
                                               len(others), len(directory),
                                               len(out), 0))


def npy(array, descr=None, fortran=False, shape=None, version=b"\x01\x00", text=None):
    """An .npy file; given arguments replace the array's values in the header."""
    kind = {"b": "|b1", "u": "|u1", "U": "<U%d" % (array.dtype.itemsize // 4)}.get(array.dtype.kind,
                                                                                  array.dtype.str)
    data = array.tobytes()
    if text is None:
        text = "{'descr': %r, 'fortran_order': %s, 'shape': %s, }" % (
            descr or kind, bool(fortran), shape if shape is not None else repr(tuple(array.shape)))
    head = text.encode() if isinstance(text, str) else text
    length = 2 if version == b"\x01\x00" else 4
    pad = -(6 + 2 + length + len(head) + 1) % 64
    head += b" " * pad + b"\n"
    return b"\x93NUMPY" + version + len(head).to_bytes(length, "little") + head + data


class Result:
    """A result that can be changed and written again. arrays: {name: array}, in the file's order;
    json: result.json."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.original = f.read()
        with zipfile.ZipFile(path) as z:
            self.order = [i.filename for i in z.infolist()]
            self.json = json.loads(z.read("result.json"))
            self.arrays = {n[:-4]: np.load(io.BytesIO(z.read(n))) for n in self.order
                           if n.endswith(".npy")}

    def copy(self):
        other = object.__new__(Result)
        other.original, other.order = self.original, list(self.order)
        other.json = json.loads(json.dumps(self.json))
        other.arrays = {n: a.copy() for n, a in self.arrays.items()}
        return other

    def known_answer(self):
        """The CRC-32 of all arrays, their names, types and shapes, in order."""
        crc = 0
        for name, a in self.arrays.items():
            crc = zlib.crc32(("%s %s %s" % (name, a.dtype.str, a.shape)).encode(), crc)
            crc = zlib.crc32(np.ascontiguousarray(a).tobytes(), crc)
        return "%08x" % crc

    def members(self):
        text = json.dumps(self.json, indent=2, sort_keys=True).encode() + b"\n"
        return [Member("result.json", text)] + [Member(n + ".npy", npy(a))
                                                for n, a in self.arrays.items()]

    def bytes(self):
        return archive(self.members())


def flip_bit(array, index, bit):
    """The array with one bit of one element changed."""
    out = array.copy()
    raw = out.reshape(-1).view(np.uint8)
    position = index * out.itemsize + bit // 8
    raw[position] ^= 1 << (bit % 8)
    return out


# --- changes of arrays, for the forgeries of an analysis ---------------------------------------

def set_at(array, index, value):
    array[index] = value


def swap_rows(a, names, i, j):
    for name in names:
        a[name][[i, j]] = a[name][[j, i]]


def column_of(usual):
    """Returns column(name, index, value, reason, job, what), which makes a forgery: element `index`
    of the array `name` becomes `value`, or value(old element) if it is a function. job: the job
    whose result is forged (default: usual); what: the forgery's description."""
    def column(name, index, value, reason, job=usual, what=None):
        def change(a):
            a[name][index] = value(a[name][index]) if callable(value) else value
        return (what or "%s made %s" % (name, value), job, change, reason)
    return column


def exchange_items(a, table="region_"):
    """Exchanges all rows of items 0 and 1, whose pictures have the same size."""
    column = a[("region" if table == "region_" else "point") + "_item"]
    first, second, rest = column == 0, column == 1, column > 1
    order = np.concatenate([np.nonzero(second)[0], np.nonzero(first)[0], np.nonzero(rest)[0]])
    for name in [n for n in a if n.startswith(table) or n == "score" and table == "point"]:
        if not name.endswith("_item"):
            a[name] = a[name][order]
    n = a["count"][:2].copy()
    for name in {"count", "threshold", "peak_sum"} & set(a):
        a[name][:2] = a[name][1::-1].copy()
    column[:] = np.concatenate([np.repeat([0, 1], n[::-1]), column[rest]])
