"""Tests that texcell run refuses bad work units, each of which is made by this test, and fails
cleanly if its output cannot be written: it prints one line with the expected words, exits with the
right code, and leaves no file."""
import io
import json
import os
import resource
import signal
import stat
import struct
import subprocess
import zipfile
import zlib

import tap

BAD_INPUT, OUTPUT_FAILED = 2, 3


# --- PNG and ZIP files, byte by byte -------------------------------------------

def chunk(kind, body=b""):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width=16, height=12, bits=8, colour=0, data=None, head=b"", size=None):
    """A PNG of a small pattern. data: the rows before compression; head: chunks before IDAT; size:
    (width, height) in the header if they are to be wrong."""
    samples = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    row = (width * samples * bits + 7) // 8
    if data is None:
        data = b"".join(b"\0" + bytes((7 * x + 31 * y) % 251 for x in range(row))
                        for y in range(height))
    w, h = size or (width, height)
    palette = chunk(b"PLTE", bytes(range(256)) * 3) if colour == 3 else b""
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR",
                                         struct.pack(">IIBBBBB", w, h, bits, colour, 0, 0, 0)) +
            palette + head + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND"))


def job(**changes):
    """job.json of a valid work unit, with changes; a key whose value is None is left out."""
    whole = {"format": "texcell-workunit", "version": 3, "analysis": "glcm",
             "parameters": {"levels": [16], "distances": [1],
                            "window": {"shape": "disc", "radius": 2}},
             "items": [{"name": "x", "image": "images/x.png"}]}
    whole.update(changes)
    return json.dumps({k: v for k, v in whole.items() if v is not None})


def pack(members, method=zipfile.ZIP_DEFLATED):
    """A ZIP of (name, bytes) pairs."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        for name, body in members:
            z.writestr(zipfile.ZipInfo(name), body, method)
    return out.getvalue()


def unit(json_text=None, more=(), image=None, method=zipfile.ZIP_DEFLATED):
    """A ZIP with job.json and images/x.png (valid ones by default) and the members `more`."""
    return pack([("job.json", json_text if json_text is not None else job()),
                 ("images/x.png", image if image is not None else png())] + list(more), method)


def item(**keys):
    """A work unit with one item "x" that has these keys, and with the members named in them."""
    pictures = [("s/0.png", png()), ("s/1.png", png()), ("s/wide.png", png(17, 12)),
                ("s/16.png", png(bits=16)),
                ("s/rgb.png", png(colour=2))]
    item_json = json.dumps(keys)
    return pack([("job.json", job(items=[dict({"name": "x"}, **keys)])), ("images/x.png", png())] +
                [m for m in pictures if m[0] in item_json])


def entry_offsets(data):
    """Offsets of the entries in the central directory of a ZIP."""
    end = data.rindex(b"PK\5\6")
    offset, offsets = struct.unpack_from("<I", data, end + 16)[0], []
    while data[offset:offset + 4] == b"PK\1\2":
        offsets.append(offset)
        offset += 46 + sum(struct.unpack_from("<HHH", data, offset + 28))
    return offsets


def patch(data, at, form, value):
    data = bytearray(data)
    struct.pack_into(form, data, at, value)
    return bytes(data)


def patch_entry(data, index, field, form, value):
    """The ZIP with a changed field in a member's entry of the central directory. field: the field's
    offset in the entry."""
    return patch(data, entry_offsets(data)[index] + field, form, value)


def local_header(data, index):
    """The offset of a member's local header."""
    return struct.unpack_from("<I", data, entry_offsets(data)[index] + 42)[0]


def data_offset(data, index):
    """The offset of a member's compressed bytes."""
    header = local_header(data, index)
    return header + 30 + sum(struct.unpack_from("<HH", data, header + 26))


def unit_with_member(name):
    """A work unit with one more member, whose name may be one that zipfile cannot write."""
    raw = name.encode("latin-1")
    data = unit(more=[("Q" * len(raw), b"")])
    return data.replace(b"Q" * len(raw), raw)


FLAGS, METHOD, CRC, PACKED, SIZE, OFFSET = 8, 10, 16, 20, 24, 42


def patch_size(data, index, size):
    """The ZIP with another uncompressed size of a member in both headers."""
    data = patch_entry(data, index, SIZE, "<I", size)
    return patch(data, local_header(data, index) + 22, "<I", size)


def damage_member(data, index, shift=0):
    """The ZIP with one changed byte in a member's compressed data, `shift` bytes from its start."""
    position = data_offset(data, index) + shift
    return patch(data, position, "B", data[position] ^ 0x55)


def overlapping_members():
    """A ZIP with two members whose bytes overlap (as in David Fifield's ZIP bomb)."""
    data = unit(more=[("images/y.png", png() + bytes(300))], method=zipfile.ZIP_STORED)
    size = len(data)
    return patch_entry(patch_entry(data, 2, PACKED, "<I", size), 2, SIZE, "<I", size)


def patch_member_count(data, n):
    """The ZIP whose end record counts n members."""
    end = data.rindex(b"PK\5\6")
    return patch(patch(data, end + 8, "<H", n), end + 10, "<H", n)


def zip64_bomb():
    """A ZIP64 whose end record counts 2^40 members."""
    data = unit()
    end = data.rindex(b"PK\5\6")
    offset = struct.unpack_from("<I", data, end + 16)[0]
    record = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, 1 << 40, 1 << 40,
                         end - offset,
                         offset)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, end, 1)
    tail = patch(patch(data[end:], 8, "<H", 0xffff), 10, "<H", 0xffff)
    return data[:end] + record + locator + tail


def huge_member():
    """A ZIP whose entry says that an image has 5 GiB uncompressed, with enough compressed bytes for
    that."""
    data = pack([("job.json", job()), ("images/x.png", bytes(6 << 20))], zipfile.ZIP_STORED)
    offset = entry_offsets(data)[1]
    name = b"images/x.png"
    new = bytearray(data[offset:offset + 46 + len(name)])
    struct.pack_into("<H", new, METHOD, 8)
    struct.pack_into("<I", new, SIZE, 0xffffffff)
    extra = struct.pack("<HHQ", 1, 8, 5 << 30)
    struct.pack_into("<H", new, 30, len(extra))
    end = data.rindex(b"PK\5\6")
    tail = patch(data[end:], 12, "<I", end - entry_offsets(data)[0] + len(extra))
    return data[:offset] + bytes(new) + extra + tail


def deep(n):
    return "[" * n + "]" * n


# --- the bad work units ---------------------------------------------------------

GOOD = unit()
STORED = unit(method=zipfile.ZIP_STORED)
TRUNCATED = "truncated or damaged"
LONG = "n" * 129


def text_job(text):
    return unit(text)


def image_is(data):
    return unit(image=data)


def bad_archives():
    """Yields (the error, the file's bytes, words of the message) of errors of the ZIP archive. The
    functions below yield the same for other parts of a work unit."""
    yield "an empty file", b"", "is empty"
    yield "a text file", b"hello, this is no archive\n", "not a ZIP archive"
    yield "a PNG in place of a work unit", png(), "a picture, not a work unit or result"
    yield ("a result in place of a work unit", pack([("result.json", b"{}")]),
           "is a result, not a work unit")
    yield "a RAR archive", b"Rar!\x1a\7\0" + bytes(100), "not a ZIP archive"
    for keep, what in ((4, "4 bytes"), (30, "the first header"), (len(GOOD) // 2, "half"),
                       (entry_offsets(GOOD)[0] + 10, "the list of members"),
                       (len(GOOD) - 22, "the end record"),
                       (len(GOOD) - 1, "the last byte")):
        yield "truncated at " + what, GOOD[:keep], TRUNCATED
    yield ("a work unit without a part in its first half", GOOD[:40] + GOOD[len(GOOD) // 2:],
           TRUNCATED)
    yield ("an end record that lists too many members", patch_member_count(GOOD, 9),
           "damaged: it should have 9 members, but has 2")
    yield ("an end record that hides a member",
           patch_member_count(unit(more=[("hidden.txt", b"x")]), 2),
           "damaged: it should have 2 members, but has 3")
    yield ("an end record that counts 65535 members", patch_member_count(GOOD, 65535),
           "damaged: it should have 65535 members, but has 2")
    yield "an end record that lists 2^40 members", zip64_bomb(), "more than 1048576 members"
    yield "a list of members that is zeros", GOOD[:entry_offsets(GOOD)[0]] + \
        bytes(len(GOOD) - 22 - entry_offsets(GOOD)[0]) + GOOD[-22:], "damaged"
    yield "an empty archive", pack([]), "the ZIP archive has no members"
    yield "bytes after the end", GOOD + bytes(10), TRUNCATED
    yield "a program in front of the archive", b"\x7fELF" + bytes(60) + GOOD, "not a ZIP archive"
    yield "a comment that is cut short", patch(GOOD, len(GOOD) - 2, "<H", 7), TRUNCATED
    yield ("a flipped byte in a stored picture", damage_member(STORED, 1, 60),
           'member "images/x.png" is corrupt')
    yield ("a flipped byte in a deflated picture", damage_member(GOOD, 1, 20),
           'member "images/x.png" is corrupt')
    yield ("a flipped byte in a stored job.json", damage_member(STORED, 0, 3),
           'member "job.json" is corrupt: its CRC is wrong')
    yield ("a wrong CRC of a picture", patch_entry(GOOD, 1, CRC, "<I", 1),
           'member "images/x.png" is corrupt')
    yield ("a wrong CRC of job.json", patch_entry(GOOD, 0, CRC, "<I", 1),
           'member "job.json" is corrupt')
    yield ("a member without its local header", damage_member(GOOD, 1, -30 - 12),
           'member "images/x.png" is corrupt: its header')
    yield ("a member that begins beyond the end", patch_entry(GOOD, 1, OFFSET, "<I", 0x7fffffff),
           'member "images/x.png" is corrupt')
    yield ("a member shorter than its header says", patch_size(GOOD, 1, len(png()) + 10),
           "its data end after")
    yield ("a member longer than its header says", patch_size(GOOD, 1, len(png()) - 10),
           'member "images/x.png" is corrupt')
    yield ("a stored member whose two sizes differ", patch_entry(STORED, 1, SIZE, "<I", 5000),
           "its two sizes differ")
    yield ("a member whose header says 2 GiB", patch_entry(GOOD, 1, SIZE, "<I", 1 << 31),
           "claims to decompress to more bytes")
    yield ("a ZIP bomb of 5 GiB", huge_member(),
           'member "images/x.png" is refused: it is larger than 4 GiB')
    yield "a ZIP bomb of zeros as a picture", image_is(bytes(50 << 20)), "images/x.png: damaged PNG"
    yield ("a member beyond 4 GiB", patch_entry(GOOD, 1, OFFSET, "<I", 0xffffffff),
           'member "images/x.png" is refused: it begins more than 4 GiB after')
    yield "a ZIP bomb of overlapping members", overlapping_members(), "overlaps another member"
    yield ("an encrypted member", patch_entry(GOOD, 1, FLAGS, "<H", 1),
           'member "images/x.png" is refused: it is encrypted')
    yield "strong encryption", patch_entry(GOOD, 1, FLAGS, "<H", 0x41), "it is encrypted"
    yield "a masked directory", patch_entry(GOOD, 1, FLAGS, "<H", 0x2000), "it is encrypted"
    yield "bzip2 compression", unit(method=zipfile.ZIP_BZIP2), "neither store nor deflate"
    yield "LZMA compression", unit(method=zipfile.ZIP_LZMA), "neither store nor deflate"


def bad_names():
    outside = "leads out of the archive"
    yield "a name with ..", unit_with_member("../x.png"), outside
    yield "a name with .. inside", unit_with_member("images/../../x.png"), outside
    yield "a name that is ..", unit_with_member(".."), outside
    yield "a name with .", unit_with_member("./x.png"), outside
    yield "an absolute name", unit_with_member("/etc/passwd"), "absolute path"
    yield "a name with a backslash", unit_with_member("images\\x.png"), "backslash"
    yield "a name with a drive letter", unit_with_member("C:x.png"), "drive letter"
    yield "a name with an empty part", unit_with_member("images//x.png"), "empty part"
    yield "a name with a line feed", unit_with_member("a\nb.png"), 'member "a?b.png"'
    yield "a name with a NUL", unit_with_member("a\0b.png"), "not printable ASCII"
    yield "a name with an escape", unit_with_member("a\x1b[31mb.png"), "not printable ASCII"
    yield "a name that is not ASCII", unit_with_member("h\xe9.png"), "not printable ASCII"
    yield "a name that is too long", unit_with_member("n" * 513), "too long"
    yield "a name that is very long", unit_with_member("n" * 60000), "too long"
    yield "an empty name", patch_entry(unit(more=[("", b"")]), 2, 28, "<H", 0), "its name is empty"
    yield ("two members with the same name", unit_with_member("images/x.png"),
           'two members are named "images/x.png"')
    yield "a member that job.json does not name", unit(more=[("notes.txt", b"hello")]), \
        'member "notes.txt" is not named in job.json'
    yield "a folder with data", unit(more=[("folder/", b"data")]), "folder with data"


def bad_json():
    missing = pack([("images/x.png", png())])
    yield "no job.json", missing, 'no member "job.json"'
    yield ("job.json in a folder", pack([("w/job.json", job()), ("w/images/x.png", png())]),
           'no member "job.json"')
    yield ("job.json of 65 MiB", text_job(" " * (65 << 20)),
           "job.json: 68157440 bytes, more than the limit")
    yield ("job.json of too many values", text_job("[" + "0," * (1 << 21) + "0]"),
           "more than 2097152 values")
    yield "job.json that is empty", text_job(""), "job.json: line 1, column 0"
    yield ("job.json that is not JSON", text_job('{\n "format": texcell\n}'),
           "job.json: line 2, column")
    yield "job.json that is cut short", text_job(job()[:-5]), "job.json: line 1, column"
    yield "job.json with text after its end", text_job(job() + "{}"), "job.json: line 1, column"
    yield ("job.json in Latin-1", text_job(job().replace("glcm", "gl\xe9m").encode("latin-1")),
           "line 1, column")
    yield ("job.json with control characters", text_job('{"a\x01\x1b[31m": 1}'),
           "job.json: line 1, column")
    yield "job.json that is very deep", text_job(deep(100000)), "job.json: line 1, column"
    yield "a number that is too large", text_job(job()[:-1] + ', "a": 1e999}'), "line 1, column"
    yield "a key given twice", text_job(job()[:-1] + ', "version": 1}'), "duplicate object key"
    yield "a list at the top level", text_job("[]"), "job.json: must be a JSON object"
    yield "a string at the top level", text_job('"x"'), "job.json:"
    yield "no format", text_job(job(format=None)), "job.json: format: missing"
    yield ("another format", text_job(job(format="texcell-result")),
           'format: must be "texcell-workunit", not "texcell-result"')
    yield ("a format that is a number", text_job(job(format=1)),
           "format: must be a string, not an integer")
    yield "no version", text_job(job(version=None)), "version: missing"
    yield ("a later version", text_job(job(version=4, colour="red")),
           "this program reads version 3, not 4")
    yield "an earlier version", text_job(job(version=2)), "this program reads version 3, not 2"
    yield ("a version that is a string", text_job(job(version="1")),
           "version: must be an integer, not a string")
    yield ("a version with a fraction", text_job(job(version=1.0)),
           "version: must be an integer, not a number")
    yield ("an unknown key at the top level", text_job(job(colour="red")),
           'job.json: unknown key "colour"')
    yield ("an unknown key with control characters", text_job(job(**{"a\n\x1b[31m": 1})),
           'unknown key "a??[31m"')
    yield "no analysis", text_job(job(analysis=None)), "analysis: missing"
    yield "an empty analysis", text_job(job(analysis="")), "analysis: must not be empty"
    yield ("an analysis that is a number", text_job(job(analysis=3)),
           "analysis: must be a string, not an integer")
    yield "an unknown analysis", text_job(job(analysis="tasseography")), "tasseography"
    yield ("parameters that are a list", text_job(job(parameters=[])),
           "parameters: must be an object, not a list")
    yield "an unknown parameter", text_job(job(parameters={"levelz": [16]})), "levelz"
    yield "a parameter of the wrong type", text_job(job(parameters={"levels": "many"})), "levels"
    yield "no items", text_job(job(items=None)), "items: missing"
    yield ("items that are an object", text_job(job(items={})),
           "items: must be a list, not an object")
    yield ("an empty list of items", text_job(job(items=[])),
           "items: must have 1 to 100000 items, not 0")
    yield ("too many items", text_job(job(items=[0] * 100001)),
           "items: must have 1 to 100000 items, not 100001")


def bad_items():
    x = {"name": "x", "image": "images/x.png"}
    yield ("an item that is a string", text_job(job(items=["images/x.png"])),
           "items[0]: must be an object, not a string")
    yield ("an unknown key of an item", text_job(job(items=[x, dict(x, name="y", colour=1)])),
           'items[1]: unknown key "colour"')
    yield ("an item without a name", text_job(job(items=[{"image": "images/x.png"}])),
           "items[0].name: missing")
    yield ("a name that is a number", text_job(job(items=[dict(x, name=7)])),
           "items[0].name: must be a string")
    yield ("an item's empty name", text_job(job(items=[dict(x, name="")])),
           "items[0].name: must not be empty")
    for name in ("a/b", ".hidden", "..", "a b", "h\xe9", "a\nb", LONG):
        yield ("an item named %r" % name[:12], text_job(job(items=[dict(x, name=name)])),
               "items[0].name: \"")
    yield ("two items with the same name", text_job(job(items=[x, dict(x, name="y"), x])),
           'items: two items are named "x"')
    for what, source, word in (("a number", 7, "must be a string"),
                               ("empty", "", "must not be empty"),
                               ("1,025 bytes", "x" * 1025,
                                "must have 1 to 1024 bytes, none of them a control"),
                               ("DEL", "a\x7f",
                                "must have 1 to 1024 bytes, none of them a control"),
                               ("ESC", "\x1b[31m",
                                "must have 1 to 1024 bytes, none of them a control")):
        yield ("a source: " + what, text_job(job(items=[dict(x, source=source)])),
               "items[0].source: " + word)
    yield "sources of 8 MiB", text_job(
        job(items=[dict(x, name="n%d" % i, source="x" * 1024) for i in range(8193)])), \
        "items[8192].source: the sources of all items"
    # A map of each feature for each item: two would have the name map_x_sum_variance_L16_1_0.
    maps = [{"feature": f, "levels": 16, "offset": [1, 0]} for f in ("sum_variance", "variance")]
    yield "two items whose maps would have the same name", \
        text_job(job(items=[x, dict(x, name="x_sum")],
                     parameters={"levels": [16], "distances": [1], "maps": maps})), \
        'items "x" and "x_sum" would both have an array map_x_sum_variance_L16_1_0 in the result'
    yield ("an item with neither image nor stack", item(),
           'items[0]: must have either "image" or "stack", but has neither')
    yield ("an item with both image and stack", item(image="images/x.png", stack=["s/0.png"]),
           "but has both")
    yield ("an image that is a number", item(image=5),
           "items[0].image: must be a string or a list of strips, not an integer")
    yield ("an image that is null", item(image=None),
           "items[0].image: must be a string or a list of strips, not null")
    yield ("an image that is missing", item(image="images/y.png"),
           'items[0].image: no member "images/y.png"')
    yield ("an image outside the archive", item(image="../../etc/passwd"),
           'no member "../../etc/passwd"')
    yield ("an image that is job.json", item(image="job.json"),
           'items[0].image: "job.json" is not a picture')
    yield ("an image that is a folder", unit(job(items=[dict(x, image="f/")]), [("f/", b"")]),
           'no member "f/"')
    yield "a stack that is a string", item(stack="s/0.png"), "items[0].stack: must be a list"
    yield ("a stack without slices", item(stack=[]),
           "items[0].stack: must have 1 to 65535 slices, not 0")
    yield ("a stack of too many slices", item(stack=["images/x.png"] * 65536),
           "must have 1 to 65535 slices, not 65536")
    yield ("a slice that is a number", item(stack=["s/0.png", 1]),
           "items[0].stack[1]: must be a string, not an integer")
    yield ("a slice that is missing", item(stack=["s/0.png", "s/9.png"]),
           'items[0].stack[1]: no member "s/9.png"')
    yield ("slices of different sizes", item(stack=["s/0.png", "s/wide.png"]),
           "items[0].stack[1]: 17 x 12 pixels, but the first")
    yield ("slices of different depths", item(stack=["s/0.png", "s/16.png"]),
           "items[0].stack[1]: 16 bits, but the first")
    yield ("a colour slice", item(stack=["s/0.png", "s/rgb.png"]),
           "items[0].stack[1]: the slices of a stack must be grey")
    yield ("a colour slice as the first one", item(stack=["s/rgb.png"]),
           "items[0].stack[0]: the slices of a stack must be grey")
    for spacing in ([1, 1], [1, 1, 1, 1], [1, 0, 1], [1, 1, -0.5], [1, 1, 1e9], [1e-9, 1, 1],
                    [1, "1", 1], "1,1,1", None):
        yield "a spacing of %s" % json.dumps(spacing), item(stack=["s/0.png"], spacing=spacing), \
            "items[0].spacing: must be three positive numbers"
    yield "a stack's spacing for an image", item(image="images/x.png", spacing=[1, 1, 1]), \
        "items[0].spacing: must be two positive numbers"
    yield ("a string as the mask of a stack", item(stack=["s/0.png"], mask="s/1.png"),
           "items[0].mask: the mask of a stack")
    yield ("a mask that is null", item(image="images/x.png", mask=None),
           "items[0].mask: the mask of an image")
    yield ("too few masks", item(stack=["s/0.png", "s/1.png"], mask=["s/0.png"]),
           "items[0].mask: 1 masks for a stack of 2")
    yield ("a mask that is missing", item(image="images/x.png", mask="m.png"),
           'items[0].mask: no member "m.png"')
    yield "a mask of a stack that is missing", item(stack=["s/0.png", "s/1.png"],
                                                    mask=["s/0.png", "m.png"]), \
        'items[0].mask[1]: no member "m.png"'
    yield ("a mask of another size", item(image="images/x.png", mask="s/wide.png"),
           "items[0].mask: the mask has 17 x 12")
    yield ("a colour mask", item(image="images/x.png", mask="s/rgb.png"),
           "items[0].mask: a mask must be grey")

    def strips(**keys):
        sizes = {"s/0.png": png(), "s/1.png": png(), "s/wide.png": png(17, 12),
                 "s/16.png": png(bits=16), "s/tall.png": png(1, 65535),
                 "s/one.png": png(1, 1)}
        text = job(items=[dict({"name": "x"}, **keys)])
        return pack([("job.json", text)] +
                    [(name, data) for name, data in sizes.items() if name in text])
    yield ("an image that is an object", strips(image={}),
           "items[0].image: must be a string or a list of strips, not an object")
    yield ("an image of no strips", strips(image=[]),
           "items[0].image: must have 1 to 65535 strips, not 0")
    yield ("an image of too many strips", strips(image=["s/0.png"] * 65536),
           "must have 1 to 65535 strips, not 65536")
    yield ("a strip that is a number", strips(image=["s/0.png", 1]),
           "items[0].image[1]: must be a string, not an integer")
    yield ("a strip that is missing", strips(image=["s/0.png", "s/9.png"]),
           'items[0].image[1]: no member "s/9.png"')
    yield ("strips of different widths", strips(image=["s/0.png", "s/wide.png"]),
           "items[0].image[1]: 17 pixels wide, but the first strip is 16")
    yield ("strips of different depths", strips(image=["s/0.png", "s/16.png"]),
           "items[0].image[1]: has another depth or number of colours")
    yield "strips that are too high", strips(image=["s/tall.png", "s/one.png"]), \
        "items[0].image[1]: 1 x 65536 pixels; a side may have at most 65535"
    yield "a mask of too few strips", strips(image=["s/0.png", "s/1.png"], mask="s/0.png"), \
        "items[0].mask: the mask has 16 x 12 pixels, but its image has 16 x 24"
    yield "a mask of too many strips", strips(image="s/0.png", mask=["s/0.png", "s/1.png"]), \
        "items[0].mask[1]: the mask has 16 x 24 pixels, but its image has 16 x 12"

    def labelled(**keys):
        text = job(items=[dict(x, **keys)])
        return unit(text, [(name, png(17, 12) if "wide" in name else png())
                           for name in ("s/0.png", "s/wide.png") if name in text])
    yield ("labels without objects", labelled(labels="s/0.png"),
           "items[0].objects: missing: the number of different labels")
    yield ("objects without labels", labelled(objects=1),
           'items[0].objects: must not be given without "labels"')
    for n in (-1, 1 << 24, 1.5, "1", None, [1]):
        yield ("%s objects" % json.dumps(n), labelled(labels="s/0.png", objects=n),
               "items[0].objects: must be an integer from 0 to 16777215")
    yield "labels that are a number", labelled(labels=7, objects=1), \
        "items[0].labels: the labels of an image must be a string or a list of strips, not an " \
        "integer"
    yield ("labels that are missing", labelled(labels="m.png", objects=1),
           'items[0].labels: no member "m.png"')
    yield ("labels of another size", labelled(labels="s/wide.png", objects=1),
           "items[0].labels: the label picture has 17 x 12")
    yield ("labels for an analysis that takes none", labelled(labels="s/0.png", objects=1),
           "has labels; glcm takes none")


def bad_pictures():
    whole = png()
    kinds = "must be 8- or 16-bit grey or 8-bit RGB"
    yield "a picture that is text", image_is(b"not a picture at all"), "images/x.png: damaged PNG"
    yield "a picture that is empty", image_is(b""), "images/x.png: damaged PNG: it ends too early"
    yield ("a picture that ends in its header", image_is(whole[:20]),
           "images/x.png: damaged PNG: it ends too early")
    yield ("a picture with a damaged header", image_is(patch(whole, 19, "B", 99)),
           "images/x.png: damaged PNG: IHDR: CRC error")
    yield ("a JPEG under a PNG's name", image_is(b"\xff\xd8\xff\xe0" + bytes(100)),
           "images/x.png: damaged PNG")
    for bits, colour, what in ((1, 0, "1-bit grey"), (2, 0, "2-bit grey"), (4, 0, "4-bit grey"),
                               (8, 3, "8-bit palette"),
                               (8, 4, "8-bit grey with alpha"), (16, 2, "16-bit RGB"),
                               (8, 6, "8-bit RGB with alpha")):
        yield ("a picture of %s" % what, image_is(png(bits=bits, colour=colour)),
               "images/x.png: the PNG is %s, but %s" % (what, kinds))
    yield "a picture of 3 bits", image_is(png(bits=3)), "images/x.png: damaged PNG"
    yield "a picture without pixels", image_is(png(size=(0, 12))), "images/x.png: damaged PNG"
    yield ("a PNG bomb", image_is(png(size=(60000, 60000))),
           "claims 60000x60000 pixels, more than its")
    yield ("a PNG bomb of 2^31 by 2^31", image_is(png(size=(0x7fffffff, 0x7fffffff))),
           "pixels, more than its")
    kinds = "images/x.pnm: must begin as a PGM of 8 or 16 bits or a PPM of 8"
    for what, body, fault in (("that is a PNG", whole, kinds),
                              ("with a comment", b"P5\n# no\n4 4\n255\n" + bytes(16), kinds),
                              ("of 12 bits", b"P5\n4 4\n4095\n" + bytes(32), kinds),
                              ("with samples as text", b"P2\n1 1\n255\n1", kinds),
                              ("in colour with 16 bits", b"P6\n4 4\n65535\n" + bytes(96), kinds),
                              ("with a leading zero in a number", b"P5\n04 4\n255\n" + bytes(16),
                               kinds),
                              ("that is empty", b"", kinds),
                              ("without rows", b"P5\n4 0\n255\n", kinds),
                              ("with a negative side", b"P5\n-4 -4\n255\n" + bytes(16), kinds),
                              ("with too few samples", b"P5\n4 4\n255\n" + bytes(15),
                               "images/x.pnm: is not as long as its header says"),
                              ("with bytes after the samples", b"P6\n4 4\n255\n" + bytes(49),
                               "images/x.pnm: is not as long as its header says"),
                              ("of too many pixels", b"P5\n99999 99999\n65535\n",
                               "images/x.pnm: is not as long as its header says")):
        yield ("plain samples " + what,
               pack([("job.json", job(items=[{"name": "x", "image": "images/x.pnm"}])),
                     ("images/x.pnm", body)]), fault)
    wide = png(70000, 1, data=bytes(70001))
    yield ("a picture that is too wide", image_is(wide),
           "items[0].image: 70000 x 1 pixels; a side may have at most 65535")
    big = png(4096, 4096, data=bytes(4097 * 4096))
    yield "a stack of too many voxels", unit(
        job(items=[{"name": "x", "stack": ["images/x.png"] * 65}]), image=big), \
        "items[0].stack: 4096 x 4096 x 65 pixels, more than the limit of 1073741824"


def bad_pixels():
    """Errors in pixel data, which texcell finds only when it decodes the pictures during the
    run."""
    whole = png()
    idat = whole.index(b"IDAT")
    yield "a picture truncated in its data", image_is(whole[:idat +
                                                            40]), "images/x.png: damaged PNG"
    yield ("a picture without IEND", image_is(whole[:-12]),
           "images/x.png: damaged PNG: it ends too early")
    yield "a picture with damaged data", image_is(patch(whole, idat + 20, "B",
                                                        whole[idat + 20] ^ 1)), \
        "images/x.png: damaged PNG: IDAT"
    yield "a picture with a wrong CRC", image_is(patch(whole, len(whole) - 13, "B",
                                                       whole[-13] ^ 1)), \
        "images/x.png: damaged PNG: IDAT: CRC error"
    plain = pack([("job.json", job(items=[{"name": "x", "image": "images/x.pnm"}])),
                  ("images/x.pnm", b"P5\n17 12\n255\n" + bytes(204))],
                 zipfile.ZIP_STORED)
    yield "a flipped byte in plain samples", patch(plain, plain.index(b"P5\n") + 99, "B", 1), \
        'member "images/x.pnm" is corrupt: its CRC is wrong'
    yield ("a picture with too few rows", image_is(png(height=12, data=bytes(17 * 11))),
           "images/x.png: damaged PNG")
    yield ("a picture with a bad row filter", image_is(png(data=b"\x09" + bytes(17 * 12 - 1))),
           "images/x.png: damaged PNG")
    yield "a mask with damaged data", unit(
        job(items=[{"name": "x", "image": "images/x.png", "mask": "m.png"}],
            parameters={"levels": [16], "distances": [1], "window": {"shape": "disc", "radius": 2},
                        "roi": {"type": "mask"}}), [("m.png", whole[:-20])]), "m.png: damaged PNG"
    yield "a strip with damaged data", unit(
        job(items=[{"name": "x", "image": ["images/x.png", "m.png", "m2.png"]}]),
        [("m.png", whole[:-20]), ("m2.png", whole[:-30])]), "m.png: damaged PNG"
    yield "a last slice with damaged data", unit(
        job(items=[{"name": "x", "stack": ["images/x.png", "m.png"]}],
            parameters={"levels": [16], "distances": [1], "window": {"shape": "roi"}}),
        [("m.png", whole[:-20])]), "m.png: damaged PNG"


# --- running ------------------------------------------------------------------------

WORK = tap.scratch()


def errors(text):
    return [line for line in text.splitlines() if line.startswith("texcell: error: ")]


def check_refused(number, what, data, words, options=()):
    """Tests a run of a bad work unit in its own folder: exit code BAD_INPUT, one line with `words`,
    and no file is left."""
    folder = os.path.join(WORK, "bad%d" % number)
    os.mkdir(folder)
    with open(os.path.join(folder, "bad.zip"), "wb") as f:
        f.write(data)
    p = tap.run([tap.TEXCELL, "run", "bad.zip", "-o", "out.npz", *options], cwd=folder)
    left_files = sorted(os.listdir(folder))
    lines = p.stderr.splitlines()
    good = p.returncode == BAD_INPUT and len(lines) == 1 and lines[0].startswith(
        "texcell: error: bad.zip: ") and \
        words in lines[0] and not lines[0].endswith(".") and len(lines[0]) < 1100 and \
        left_files == ["bad.zip"]
    tap.ok(good, "refused: " + what, "exit code %d (expected %d), left %s, expected words: %s\n%s" %
           (
               p.returncode, BAD_INPUT, left_files, words, p.stderr[-2000:]))
    os.remove(os.path.join(folder, "bad.zip"))


def check_failure(what, code, words, unit_path, out, absent, prepare=None, wrap=()):
    """Tests a run of a good work unit that must fail: exit code `code`, one error with `words`, and
    none of the paths `absent` exists afterwards. prepare: preexec_fn; wrap: words before the
    command."""
    p = subprocess.run(list(wrap) + [tap.TEXCELL, "run", unit_path, "-o", out],
                       stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, universal_newlines=True, cwd=WORK,
                       preexec_fn=prepare)
    messages = errors(p.stderr)
    left_paths = [path for path in absent if os.path.lexists(path)]
    tap.ok(p.returncode == code and len(messages) == 1 and words in messages[0] and not left_paths,
           what,
           "exit code %d (expected %d), left %s, expected words: %s\n%s" % (
               p.returncode, code, left_paths, words, p.stderr[-2000:]))


def limit_file_size(size):
    """A function for preexec_fn: files of the child process cannot grow beyond size bytes."""
    def prepare():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return prepare


def check_inputs(good):
    """Work units that cannot be opened."""
    out = os.path.join(WORK, "none.npz")
    absent = [out, out + ".tmp"]
    check_failure("a work unit that does not exist", BAD_INPUT,
                  "missing.zip: cannot open: No such file",
                  "missing.zip", out, absent)
    check_failure("a folder as the work unit", BAD_INPUT, "is a folder", WORK, out, absent)
    check_failure("a file as the work unit's folder", BAD_INPUT, "cannot open: Not a directory",
                  good + "/a.zip", out, absent)
    fifo = os.path.join(WORK, "fifo")
    os.mkfifo(fifo)
    check_failure("a pipe as the work unit", BAD_INPUT, "not a regular file", fifo, out, absent)
    check_failure("a device as the work unit", BAD_INPUT, "not a regular file", "/dev/zero", out,
                  absent)
    if os.getuid() == 0:
        tap.skip("a work unit without read permission", "root may read everything")
    else:
        locked = os.path.join(WORK, "locked.zip")
        with open(locked, "wb") as f:
            f.write(GOOD)
        os.chmod(locked, 0)
        check_failure("a work unit without read permission", BAD_INPUT, "Permission denied", locked,
                      out,
                      absent)


def check_outputs(good):
    """Results that cannot be written."""
    missing_folder = os.path.join(WORK, "gone", "out.npz")
    check_failure("an output folder that does not exist", OUTPUT_FAILED,
                  "out.npz: cannot write: the folder %s does not exist" %
                  os.path.dirname(missing_folder), good, missing_folder, [missing_folder])
    file_as_folder = os.path.join(good, "out.npz")
    check_failure("a file as the output's folder", OUTPUT_FAILED, ": Not a directory", good,
                  file_as_folder, [])
    folder = os.path.join(WORK, "folder")
    os.mkdir(folder)
    check_failure("a folder as the output", OUTPUT_FAILED, ": Is a directory", good, folder,
                  [folder + ".tmp"])
    check_failure("an output in /proc", OUTPUT_FAILED, "/proc/out.npz", good, "/proc/out.npz", [])
    for name in "/dev/null", "-":
        check_failure(
                      "an output that is no regular file: " + name, 1, name +
            ": not a regular file", good,
                      name, [name + ".tmp"])
    tap.ok(stat.S_ISCHR(os.stat("/dev/null").st_mode), "/dev/null is still a device")
    read_only = os.path.join(WORK, "sealed")
    os.mkdir(read_only)
    os.chmod(read_only, 0o555)
    if os.getuid() == 0:
        tap.skip("a folder without write permission", "root may write everywhere")
    else:
        check_failure("a folder without write permission", OUTPUT_FAILED, ": Permission denied",
                      good,
                      os.path.join(read_only, "out.npz"), [])
    link = os.path.join(WORK, "link.npz")
    os.symlink("/dev/full", link + ".tmp")
    check_failure("a link in place of the temporary file", OUTPUT_FAILED, "link.npz", good, link,
                  [link])
    counts = os.path.join(WORK, "counts.zip")
    with open(counts, "wb") as f:
        f.write(unit(job(analysis="cellcount", parameters={"threshold": 128})))
    check_limited_files(counts)
    check_full_disk()


def read(path):
    with open(path, "rb") as f:
        return f.read()


def check_limited_files(good):
    """Runs a work unit with a limit of file sizes that grows until the run succeeds. Whichever file
    exceeds the limit, the run fails cleanly, and the last run's result is right. good: a work unit
    whose result is larger than all other files of the run."""
    out, whole = os.path.join(WORK, "limited.npz"), os.path.join(WORK, "unlimited.npz")
    tap.run([tap.TEXCELL, "run", good, "-o", whole])
    wrong, culprits, size = [], set(), 1
    while size < 1 << 24:
        p = subprocess.run([tap.TEXCELL, "run", good, "-o", out], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE,
                           universal_newlines=True, cwd=WORK, preexec_fn=limit_file_size(size))
        if p.returncode == 0:
            break
        messages = errors(p.stderr)
        if p.returncode != OUTPUT_FAILED or len(messages) != 1 or \
                "File too large" not in messages[0] or os.path.exists(out) or \
                os.path.exists(out + ".tmp"):
            wrong.append("limit %d: exit code %d\n%s" % (size, p.returncode, p.stderr))
        culprits.add(messages[0].split(": ")[2] if messages else "")
        size += 1 + size // 8
    tap.ok(not wrong,
           "with files limited to up to %d bytes a run prints one line and exits with 3" % size,
           "\n".join(wrong[:3]))
    tap.ok(out in culprits, "with some limits the result was the file that exceeded them", culprits)
    tap.ok(p.returncode == 0 and read(out) == read(whole),
           "with enough space the result is the same", p.stderr)


def check_full_disk():
    """Writes the result to a file system of one page, mounted in a separate name space."""
    disk = os.path.join(WORK, "disk")
    os.mkdir(disk)
    mount = 'mount -t tmpfs -o size=4k tmpfs "$0" && { "$@"; code=$?; ls -A "$0" >&2; exit $code; }'
    wrap = ["unshare", "-rm", "sh", "-c", mount, disk]
    try:
        can_mount = subprocess.run(wrap + ["true"], stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        can_mount = False
    if not can_mount:
        tap.skip("a full disk", "no name space with a file system of its own here")
        return
    big = os.path.join(WORK, "big.zip")
    items = [{"name": "item_%04d" % i, "image": "images/x.png"} for i in range(400)]
    with open(big, "wb") as f:
        f.write(unit(job(items=items)))
    p = tap.run(wrap + [tap.TEXCELL, "run", big, "-o", os.path.join(disk, "out.npz")], cwd=WORK)
    messages = errors(p.stderr)
    tap.ok(p.returncode == OUTPUT_FAILED and len(messages) == 1 and
           "No space left on device" in messages[0] and
           "out.npz" not in p.stderr.splitlines(), "a full disk",
           "exit code %d\n%s" % (p.returncode, p.stderr[-2000:]))


def check_kept(good):
    """A failed run does not remove the result of an earlier run."""
    out = os.path.join(WORK, "kept.npz")
    bad = os.path.join(WORK, "bad.zip")
    with open(bad, "wb") as f:
        f.write(image_is(png()[:-12]))
    with open(out, "wb") as f:
        f.write(b"an earlier result")
    tap.run([tap.TEXCELL, "run", bad, "-o", out], cwd=WORK)
    result_kept = read(out) == b"an earlier result"
    tap.ok(result_kept and not os.path.exists(out + ".tmp"), "a failed run keeps an earlier result")
    p = tap.run([tap.TEXCELL, "run", good, "-o", out], cwd=WORK)
    tap.ok(p.returncode == 0 and zipfile.is_zipfile(out),
           "a successful run replaces an earlier result",
           p.stderr)


def main():
    good = os.path.join(WORK, "good.zip")
    with open(good, "wb") as f:
        f.write(GOOD)
    p = tap.run([tap.TEXCELL, "run", good, "-o", os.path.join(WORK, "good.npz")], cwd=WORK)
    tap.ok(p.returncode == 0 and zipfile.is_zipfile(os.path.join(WORK, "good.npz")),
           "texcell runs the valid work unit", p.stderr)
    number = 0
    for group in (bad_archives, bad_names, bad_json, bad_items, bad_pictures):
        for error, data, words in group():
            check_refused(number, error, data, words)
            number += 1
    for error, data, words in bad_pixels():
        check_refused(number, error, data, words, ["--quiet"])
        number += 1
    tap.note("%d bad work units" % number)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    tap.ok(peak < 600, "refusing bad work units takes at most 600 MiB", "%d MiB" % peak)
    tap.note("peak memory %d MiB" % peak)
    check_inputs(good)
    check_outputs(good)
    check_kept(good)
    tap.done()


if __name__ == "__main__":
    main()
