"""make_seeds.py TARGET FOLDER: first inputs for a fuzz target."""
import io
import json
import os
import sys
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
LARGEST = 20000


def job():
    """Good work units, and all the bad ones that are small."""
    import bad_files as b
    yield b.GOOD
    yield b.STORED
    yield b.item(image="images/x.png", mask="s/0.png")
    yield b.item(image="s/rgb.png")
    yield b.item(image="s/16.png", mask="s/0.png")
    yield b.item(stack=["s/0.png", "s/1.png"], spacing=[1, 0.5, 0.5], mask=["s/1.png", "s/1.png"])
    for group in (b.bad_archives, b.bad_names, b.bad_json, b.bad_items, b.bad_pictures, b.bad_pixels):
        for _, data, _ in group():
            yield data
    yield from units_of_every_kind()


def units_of_every_kind():
    """Grey of 8 and 16 bits and colour, masks, labels of every depth, strips, stacks, spacing, sources, words about the job."""
    import numpy as np
    from oracle import workunit
    y, x = np.indices((16, 21))
    grey = ((x * 11 + y * 5) % 256).astype(np.uint8)
    labels = (x // 5 + 1) * (y > 3)
    for picture in (grey, grey.astype(np.uint16) * 250, np.dstack([grey, grey + 1, 255 - grey])):
        for n in (1, 3):
            for largest, strips in ((1, None), (300, (7, 5, 16)), (70000, None)):
                out, again = io.BytesIO(), io.BytesIO()
                workunit.write(out, "objects", {}, [
                    workunit.item("a.b-c", [picture] * n, masks=[grey > 90] * n, labels=[labels * largest] * n,
                                  spacing=[2, 1, 0.5][-3 if n > 1 else 1:], source="folder/a.tif")], strips=strips)
                with zipfile.ZipFile(out) as z, zipfile.ZipFile(again, "w") as copy:
                    for name in z.namelist():
                        data = z.read(name)
                        copy.writestr(name, json.dumps(dict(json.loads(data), about="what it is for")) if name == "job.json" else data)
                yield again.getvalue()



def npz():
    """Results as NumPy writes them, with every type in use, whole and damaged."""
    import numpy as np
    arrays = [np.array([[1.5, 2], [3, 4]]), np.array([True, False]), np.arange(6, dtype="u1"),
              np.arange(6, dtype="i4").reshape(1, 2, 3), np.arange(3, dtype="i8"), np.zeros((0, 7), "f4"),
              np.array(["contrast", "\u00e9"]), np.zeros((1, 1, 1, 1, 2))]
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", method) as z:
            z.writestr("result.json", json.dumps({"format": "texcell-result", "version": 1, "items": ["a", "b"],
                                                  "workunit": {"crc32": "0123abcd", "size": 99}}))
            for i, a in enumerate(arrays):
                one = io.BytesIO()
                np.save(one, a)
                z.writestr("array_%d.npy" % i, one.getvalue())
        whole = out.getvalue()
        yield whole
        yield whole[:len(whole) // 2]
        yield whole[:-3]
        yield whole.replace(b"<f8", b"<f4")
        yield whole.replace(b"array_1", b"array_0")


def picture():
    """Small ones of every format and layout that pack reads, and damaged ones."""
    import numpy as np
    from PIL import Image
    grey = (np.indices((9, 13)).sum(0) * 11).astype(np.uint8)
    grey[2:4, 2:7] = 250
    rgb = np.dstack([grey, grey.T.copy().reshape(9, 13), 255 - grey])

    def saved(array, form, **options):
        out = io.BytesIO()
        image = array if isinstance(array, Image.Image) else Image.fromarray(array)
        image.save(out, form, **options)
        return out.getvalue()

    files = list(nifti()) + list(odd_pictures())
    palette = Image.fromarray(grey).convert("P", palette=Image.Palette.ADAPTIVE)
    alpha = np.dstack([rgb, grey])
    for array in (grey, grey.astype(np.uint16) * 200, rgb, alpha, np.dstack([grey, grey]), palette, grey > 90):
        files.append(saved(array, "PNG", dpi=(3000, 3000)))
    for options in ({"quality": 30}, {"progressive": True, "quality": 95}, {"optimize": True, "subsampling": 2}):
        files += [saved(array, "JPEG", **options) for array in (grey, rgb)]
    files.append(saved(Image.fromarray(rgb).convert("CMYK"), "JPEG"))
    for codec in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg"):
        files += [saved(array, "TIFF", compression=codec) for array in (grey, rgb)]
    for codec in ("group3", "group4", "tiff_ccitt"):
        files.append(saved(grey > 90, "TIFF", compression=codec))
    files += [saved(array, "TIFF") for array in (palette, alpha, grey.astype(np.uint16), grey.astype(np.int32), grey.astype(np.float32))]
    try:
        import tifffile
    except ImportError:
        return [whole for file in files for whole in (file, file[:len(file) * 2 // 3])]

    def written(array, **options):
        out = io.BytesIO()
        tifffile.imwrite(out, array, **options)
        return out.getvalue()

    for dtype in (np.int8, np.int16, np.uint32, np.int64, np.float64):
        files.append(written(grey.astype(dtype) // 2))
    for order in "<>":
        files.append(written(grey, tile=(16, 16), byteorder=order))
        files.append(written(np.stack([grey, grey]), bigtiff=True, byteorder=order, photometric="minisblack"))
    files.append(written(grey, photometric="miniswhite"))
    files.append(written(rgb, photometric="rgb", planarconfig="separate", tile=(16, 16)))
    files.append(written(rgb.astype(np.uint16) * 250, photometric="rgb"))
    files.append(written(np.zeros((2, 3, 9, 13), np.uint8), imagej=True, metadata={"axes": "TCYX", "unit": "um"}, resolution=(4, 4)))
    ome = written(np.zeros((2, 2, 9, 13), np.uint16), ome=True, metadata={"axes": "CZYX", "PhysicalSizeX": 0.5})
    files.append(ome)
    files.append(ome.replace(b'FirstZ="0"', b'FirstZ="1"').replace(b'IFD="0"', b'IFD="1"'))
    files.append(ome.replace(b"</Image>", b"</Image><Image/>"))
    two = io.BytesIO()
    with tifffile.TiffWriter(two, ome=True) as tiff:
        for _ in range(2):
            tiff.write(grey, metadata={"axes": "YX"})
    files.append(two.getvalue())
    return [whole for file in files for whole in (file, file[:len(file) * 2 // 3])]


def odd_pictures():
    """A JPEG that is turned, in both orders of bytes, and of two components; a PNG whose pixels have colours that it does not list."""
    import struct
    from oracle.workunit import png
    from PIL import Image
    import numpy as np
    grey = (np.indices((9, 13)).sum(0) * 11).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(grey).save(out, "JPEG")
    whole = out.getvalue()
    for order, mark in (("<", b"II*\0"), (">", b"MM\0*")):
        exif = b"Exif\0\0" + mark + struct.pack(order + "IHHHIHHI", 8, 1, 0x112, 3, 1, 6, 0, 0)
        yield whole[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + whole[2:]
    yield (b"\xff\xd8\xff\xc0" + struct.pack(">HBHHB", 14, 8, 9, 13, 2) + bytes([1, 0x11, 0, 2, 0x11, 0]) +
           b"\xff\xda" + struct.pack(">HB", 10, 2) + bytes([1, 0, 2, 0, 0, 63, 0]))
    of_palette = bytearray(png(grey))
    of_palette[25] = 3     # the kind of picture, in IHDR
    of_palette[33:33] = struct.pack(">I", 9) + b"PLTE" + bytes(range(9)) + bytes(4)
    yield mend(bytes(of_palette))


def mend(data):
    """A PNG whose chunks have the CRCs that they should have."""
    import struct
    import zlib
    out, at = data[:8], 8
    while at < len(data):
        n = struct.unpack(">I", data[at:at + 4])[0]
        out += data[at:at + 8 + n] + struct.pack(">I", zlib.crc32(data[at + 4:at + 8 + n]))
        at += 12 + n
    return out


def nifti():
    """Small pictures of every type of sample, plain and in gzip, in both orders of bytes; damaged ones."""
    import gzip
    import struct
    for code, bits in ((2, 8), (4, 16), (8, 32), (16, 32), (64, 64), (128, 24), (256, 8), (512, 16), (768, 32), (1024, 64), (1280, 64)):
        for order, dims in (("<", (3, 5, 4, 3, 1, 1, 1, 1)), (">", (5, 3, 2, 2, 2, 2, 1, 1))):
            head = bytearray(352)
            struct.pack_into(order + "i", head, 0, 348)
            struct.pack_into(order + "8h", head, 40, *dims)
            struct.pack_into(order + "hh", head, 70, code, bits)
            struct.pack_into(order + "7f", head, 76, 1, 0.5, 0.5, 2, 1, 1, 1)
            struct.pack_into(order + "3f", head, 108, 352, 0.5 if bits == 32 else 0, 1)
            head[123], head[344:348] = 2, b"n+1\0"
            whole = bytes(head) + bytes(range(97)) * (bits // 8)
            yield whole
            yield whole[:380]
            yield gzip.compress(whole, mtime=0)


def validate(folder="units_validate"):
    """Work units of every analysis in a folder (see fuzz_validate.c), and
    their results."""
    import analyses
    import tap
    from oracle import workunit
    os.makedirs(folder, exist_ok=True)
    jobs = [(name, *job) for name, of in analyses.each() for job in of.SEEDS]
    for i, (analysis, parameters, items) in enumerate(jobs):
        unit, result = (os.path.join(folder, name % i) for name in ("unit_%d.zip", "honest_%d.npz"))
        workunit.write(unit, analysis, parameters, items)
        run = tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet"])
        if run.returncode != 0:
            sys.exit(run.stderr)
        with open(result, "rb") as f:
            yield f.read()


def own():
    """The same results, alone."""
    return validate("units_own")


def export():
    """The same results; and one with tables of every type, lengths and areas, keys and sources, of which texcell knows nothing."""
    import numpy as np
    yield from validate("units_export")
    kinds = [np.array([1, 0], "?"), np.array([1, 2], "u1"), np.array([-1, 2], "<i4"), np.array([1, 1 << 40]),
             np.array([np.nan, 0.5], "f4"), np.array([np.inf, 1e300]), np.array(["=b", "\u00e9"])]
    words = {"name": "axis", "values": ["y0", "x0", "y1", "x1"]}
    numbers = {"name": "distance", "values": [1, 3], "prefix": "d", "digits": 2}
    arrays = {"value_%d" % i: (kind, {"role": "value", "table": "items"}) for i, kind in enumerate(kinds)}
    arrays["thing_item"] = np.array([0, 0, 1]), {"role": "item", "table": "things"}
    arrays["thing_number"] = np.array([1, 2, 1], "<i4"), {"role": "key", "table": "things"}
    for unit in ("pixel", "pixel^2", "um"):
        arrays["thing_" + unit.replace("^2", "s")] = np.array([1.5, 2, 3]), {"role": "value", "table": "things", "unit": unit}
    arrays["thing_box"] = np.ones((3, 4), "<i4"), {"role": "value", "table": "things", "unit": "pixel", "axes": [words]}
    arrays["thing_wide"] = np.ones((3, 8)), {"role": "value", "table": "things", "axes": [numbers, words]}
    arrays["deep"] = np.ones((2, 2, 4)), {"role": "value", "table": "deep", "axes": [numbers, words]}
    arrays["place_item"] = np.array([0, 1]), {"role": "item", "table": "places"}
    arrays["place"] = np.ones((2, 2)), {"role": "place", "table": "places", "unit": "pixel", "axes": [{"values": ["y", "x"]}]}
    for name in "ab":
        for role, dtype in (("labels", "<i4"), ("mask", "u1"), ("map", "<f4")):
            arrays["%s_%s" % (role, name)] = np.eye(5, 7).astype(dtype), {"role": role, "title": role}
    declared = {name if name[-2] != "_" or name[:3] == "val" else name[:-1] + "{item}": of for name, (_, of) in arrays.items()}
    for about in ({}, {"sources": ["x/a.tif", ""]}, {"version": 2}, {"version": 1}):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
            z.writestr("result.json", json.dumps(dict({
                "format": "texcell-result", "version": 3, "analysis": "alchemy", "parameters": {}, "items": ["a", "b"],
                "arrays": [dict(of, array=name) for name, of in declared.items()],
                "workunit": {"crc32": "0123abcd", "size": 99, "sha256": "ab" * 32}}, **about)))
            spacing = np.array([[np.nan, 1, 2], [np.nan] * 3])
            for name, array in [("item_names", np.array(["a", "b"])), ("item_spacing", spacing)] + \
                    [(name, array) for name, (array, _) in arrays.items()]:
                one = io.BytesIO()
                np.save(one, array)
                z.writestr(name + ".npy", one.getvalue())
        yield out.getvalue()


def dataset():
    """A data set with units of every analysis, in SQL, a statement a line; one with views of many columns."""
    import sqlite3
    import subprocess

    import tap
    files = list(validate("units_dataset"))
    for i in range(len(files)):
        db = "dataset_%d.sqlite" % i
        if os.path.exists(db):
            os.remove(db)
        subprocess.run([tap.TEXCELL_ASSIMILATE, "--db", db, "units_dataset/unit_%d.zip" % i, "units_dataset/honest_%d.npz" % i],
                       check=True, stdout=subprocess.DEVNULL)
        with sqlite3.connect(db) as q:
            lines = [line.replace("\n", " ") for line in q.iterdump()]
        yield "\n".join(lines).encode()


def checkpoint():
    """Spools of a few arrays with their checkpoint: see fuzz_checkpoint.c."""
    import re
    import struct
    import zlib
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "app", "checkpoint.h")) as f:
        version = int(re.search(r"#define CHECKPOINT_VERSION (\d+)", f.read()).group(1))

    def array(kind, dtype, name, shape, data, width=0, packed=0, plain=b""):
        return struct.pack("<BBBBIIIQQII", kind, dtype, len(shape), packed, width, len(name), zlib.crc32(data), len(data),
                           len(plain), zlib.crc32(plain), 0) + name + struct.pack("<%dQ" % len(shape), *shape), data

    def deflated(kind, dtype, name, shape, plain):
        packer = zlib.compressobj(4, zlib.DEFLATED, -15)
        return array(kind, dtype, name, shape, packer.compress(plain) + packer.flush(), 0, 3, plain)

    def record(*arrays):
        heads, data = (b"".join(a[i] for a in arrays) for i in (0, 1))
        return data + heads + b"TXSP" + struct.pack("<IQII", len(arrays), len(data), len(heads), zlib.crc32(heads))

    def whole(mend, records, state):
        spool = b"".join(records)
        head = struct.pack("<8sIIQ16sQQQIII", b"TEXCKPT", version, 0x12345678, 4321, b"glcm", len(records), len(spool),
                           len(state), zlib.crc32(spool), zlib.crc32(state), 0)
        file = head + struct.pack("<I", zlib.crc32(head)) + state
        return struct.pack("<BH", mend, len(file)) + file + spool

    features = array(0, 5, b"features", [1, 3], struct.pack("<3d", 1.5, -2, 1e300))
    names = array(0, 6, b"names", [2], "abcdefgh".encode("utf-32-le"), 4)
    empty = deflated(1, 1, b"own_x", [0], bytes(128))
    deep = array(1, 4, b"map", [1, 2, 1, 1, 2], bytes(144), 0, 1, bytes(144))
    for mend in (0, 1, 2, 3, 4, 6, 7):
        yield whole(mend, [], b"")
        yield whole(mend, [record(features)], b"state" * 9)
        yield whole(mend, [record(features, names, empty), record(features, names, deep), record()], bytes(64))


def state():
    """Honest states of every analysis, and some with a word changed: see fuzz_state.c."""
    import struct

    import analyses
    for analysis in range(len(analyses.names())):
        for test in range(3):
            for far in (0, 60, 120, 190, 255):
                yield bytes([analysis, test, far])
                yield bytes([analysis, test, far]) + struct.pack("<IB", 0, 1)
                yield bytes([analysis, test, far]) + b"".join(struct.pack("<IB", 4001 * k, 255) for k in range(1, 9))
    # A range of greys that are none of the object's, for its texture: was read beyond its counts.
    yield bytes.fromhex("05000000000002be030278a10f0000000002003fffe32e0000ff843e")


def main():
    target, folder = sys.argv[1], sys.argv[2]
    maker = globals().get(target)
    os.makedirs(folder, exist_ok=True)
    for number, data in enumerate(maker() if maker else ()):
        if len(data) <= LARGEST:
            with open(os.path.join(folder, "seed_%03d" % number), "wb") as f:
                f.write(data)


if __name__ == "__main__":
    main()
