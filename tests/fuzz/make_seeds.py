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

    files = list(nifti())
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
    files.append(written(np.zeros((2, 2, 9, 13), np.uint16), ome=True, metadata={"axes": "CZYX", "PhysicalSizeX": 0.5}))
    return [whole for file in files for whole in (file, file[:len(file) * 2 // 3])]


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
    """The same results."""
    return validate("units_export")


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

    def array(kind, dtype, name, shape, data, width=0):
        return struct.pack("<BBBBIII", kind, dtype, len(shape), 0, width, len(name), 0) + name + \
            struct.pack("<%dQ" % len(shape), *shape) + data

    def record(*arrays):
        body = b"".join(arrays)
        return b"TXSP" + struct.pack("<IQII", len(arrays), len(body), zlib.crc32(body), 0) + body

    def whole(mend, records, state):
        spool = b"".join(records)
        head = struct.pack("<8sIIQ16sQQQIII", b"TEXCKPT", version, 0x12345678, 4321, b"glcm", len(records), len(spool),
                           len(state), zlib.crc32(spool), zlib.crc32(state), 0)
        file = head + struct.pack("<I", zlib.crc32(head)) + state
        return struct.pack("<BH", mend, len(file)) + file + spool

    features = array(0, 5, b"features", [1, 3], struct.pack("<3d", 1.5, -2, 1e300))
    names = array(0, 6, b"names", [2], "abcdefgh".encode("utf-32-le"), 4)
    empty = array(1, 1, b"own_x", [0], b"")
    deep = array(1, 4, b"map", [1, 2, 1, 1, 2], bytes(16))
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
