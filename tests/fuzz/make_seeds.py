"""make_seeds.py TARGET FOLDER: writes the first inputs (seeds) of a fuzz target."""
import io
import itertools
import json
import os
import sys
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
LARGEST = 20000     # bytes of the largest seed; larger files are left out


def job():
    """Valid work units, and all small invalid ones of bad_files.py."""
    import bad_files as b
    yield b.GOOD
    yield b.STORED
    yield b.item(image="images/x.png", mask="s/0.png")
    yield b.item(image="s/rgb.png")
    yield b.item(image="s/16.png", mask="s/0.png")
    for head, n in ((b"P5\n16 12\n255\n", 192), (b"P5\n16 12\n65535\n", 384),
                    (b"P6\n16 12\n255\n", 576)):
        yield b.pack([("job.json", b.job(items=[{"name": "x", "image": "x.pnm"}])),
                      ("x.pnm", head + bytes(n))])
    yield b.item(stack=["s/0.png", "s/1.png"], spacing=[1, 0.5, 0.5], mask=["s/1.png", "s/1.png"])
    for group in (b.bad_archives, b.bad_names, b.bad_json, b.bad_items, b.bad_pictures,
                  b.bad_pixels):
        for _, data, _ in group():
            yield data
    yield from units_of_every_kind()


def units_of_every_kind():
    """Work units with grey pictures of 8 and 16 bits and in colour, masks, labels of every depth,
    strips, stacks, spacing, sources and texts about the job."""
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
                    workunit.item("a.b-c", [picture] * n, masks=[grey > 90] * n,
                                  labels=[labels * largest] * n,
                                  spacing=[2, 1, 0.5][-3 if n > 1 else 1:], source="folder/a.tif")],
                               strips=strips)
                with zipfile.ZipFile(out) as z, zipfile.ZipFile(again, "w") as copy:
                    for name in z.namelist():
                        data = z.read(name)
                        copy.writestr(name,
                                      json.dumps(dict(json.loads(data), about="what it is for"))
                                      if name == "job.json" else data)
                yield again.getvalue()



def npz():
    """Results as NumPy writes them, with every type in use, whole and damaged."""
    import numpy as np
    arrays = [np.array([[1.5, 2], [3, 4]]), np.array([True, False]), np.arange(6, dtype="u1"),
              np.arange(6, dtype="i4").reshape(1, 2, 3), np.arange(3, dtype="i8"),
              np.zeros((0, 7), "f4"),
              np.array(["contrast", "\u00e9"]), np.zeros((1, 1, 1, 1, 2))]
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", method) as z:
            z.writestr("result.json",
                       json.dumps({"format": "texcell-result", "version": 3, "items": ["a", "b"],
                                   "workunit": {"crc32": "0123abcd", "size": 99,
                                                "sha256": "ab" * 32}}))
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
    yield from odd_results()


def odd_results():
    """A result that fuzz_npz.c can write again, with unusual texts; headers that NumPy does not
    write; members that do not belong in a result."""
    import numpy as np
    words = ["\u00e9\u20ac\U0001f600", "x" * 80]
    odd = npy(np.array(["ab"])).replace("ab".encode("utf-32-le"), b"\0\xd8\0\0\0\0\x20\0")
    for length in range(8):
        yield archive([("result.json", b" " * length + b"{}"), ("a.npy", npy(np.array(words))),
                       ("b.npy", odd), ("c.npy", npy(np.zeros(2000, "u1"))),
                       ("d.npy", npy(np.zeros(3)))], zipfile.ZIP_STORED)
    good = npy(np.arange(6, dtype="u1"))
    for old, new in ((b"False", b"True "), (b"|u1", b">u2"), (b"|u1", b"<U0"),
                     (b"|u1", b"<U99999999"), (b"|u1", b"<Ux"), (b"(6,)", b"()  "),
                     (b"(6,)", b"(06,)"), (b"(6,)", b"(x,)"), (b"(6,)", b"(6 )"),
                     (b"(6,)", b"(7,)"), (b"(6,)", b"(1, 1, 1, 1, 1, 1, 1, 1, 6)"),
                     (b"(6,)", b"(99999999999999999999,)"), (b"(6,)", b"(9223372036854775807, 3)"),
                     (b"(6,)", b"(0, 9223372036854775807, 3)"),
                     (b"\x93NUMPY\1", b"\x93NUMPY\2"), (b"v\0{", b"\xff\xff{"), (b"\n", b"x"),
                     (b"}  ", b"}x ")):
        # With fewer blanks at its end the changed header has the same length.
        other = good.replace(old, new, 1).replace(b" " * (len(new) - len(old)) + b"\n", b"\n", 1)
        yield archive([("result.json", b"{}"), ("a.npy", other)])
    for members in ([("a.npy", good)], [("job.json", b"{}")], [("result.json", b"[]")],
                    [("result.json", b"{"), ("a.npy", good)],
                    [("result.json", b"{}"), ("a.txt", good)],
                    [("result.json", b"{}"), (".npy", good)], [("result.json", b"{}"), ("d/", b"")],
                    [("result.json", b"{}"), ("\u00e9.npy", good)],
                    [("result.json", b"{}"), ("a.npy", good[:6])],
                    [("a.npy", good), ("result.json", b"{}")],
                    [("result.json", b"{}"), ("a.npy", good[:60])],
                    [("result.json", b"{}"), ("a.npy", npy(np.zeros(1 << 16)))]):
        yield archive(members)


def npy(array):
    import numpy as np
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def archive(members, method=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, data in members:
            z.writestr(zipfile.ZipInfo(name), data, method)
    return out.getvalue()


def picture():
    """Small pictures in every format and layout that pack reads, unusual and truncated pictures."""
    import picture_files
    yield from odd_nifti()
    yield from odd_tiff()
    yield from of_other_kinds()
    yield from picture_files.seeds()
    for file in pictures():
        yield file
        yield file[:len(file) * 2 // 3]


def pictures():
    """Valid pictures in every format and layout."""
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
    for array in (grey, grey.astype(np.uint16) * 200, rgb, alpha, np.dstack([grey, grey]), palette,
                  grey > 90):
        files.append(saved(array, "PNG", dpi=(3000, 3000)))
    for options in ({"quality": 30}, {"progressive": True, "quality": 95},
                    {"optimize": True, "subsampling": 2}):
        files += [saved(array, "JPEG", **options) for array in (grey, rgb)]
    files.append(saved(Image.fromarray(rgb).convert("CMYK"), "JPEG"))
    for codec in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg"):
        files += [saved(array, "TIFF", compression=codec) for array in (grey, rgb)]
    for codec in ("group3", "group4", "tiff_ccitt"):
        files.append(saved(grey > 90, "TIFF", compression=codec))
    files += [saved(array, "TIFF") for array in (palette, alpha, grey.astype(np.uint16),
                                                 grey.astype(np.int32), grey.astype(np.float32))]
    try:
        import tifffile
    except ImportError:
        return files

    def written(array, **options):
        out = io.BytesIO()
        tifffile.imwrite(out, array, **options)
        return out.getvalue()

    for dtype in (np.int8, np.int16, np.uint32, np.int64, np.float64):
        files.append(written(grey.astype(dtype) // 2))
    for order in "<>":
        files.append(written(grey, tile=(16, 16), byteorder=order))
        files.append(written(np.stack([grey, grey]), bigtiff=True, byteorder=order,
                             photometric="minisblack"))
    files.append(written(grey, photometric="miniswhite"))
    files.append(written(rgb, photometric="rgb", planarconfig="separate", tile=(16, 16)))
    files.append(written(rgb.astype(np.uint16) * 250, photometric="rgb"))
    files.append(written(np.zeros((2, 3, 9, 13), np.uint8), imagej=True,
                         metadata={"axes": "TCYX", "unit": "um"}, resolution=(4, 4)))
    ome = written(np.zeros((2, 2, 9, 13), np.uint16), ome=True,
                  metadata={"axes": "CZYX", "PhysicalSizeX": 0.5})
    files.append(ome)
    files.append(ome.replace(b'FirstZ="0"', b'FirstZ="1"').replace(b'IFD="0"', b'IFD="1"'))
    files.append(ome.replace(b"</Image>", b"</Image><Image/>"))
    two = io.BytesIO()
    with tifffile.TiffWriter(two, ome=True) as tiff:
        for _ in range(2):
            tiff.write(grey, metadata={"axes": "YX"})
    files.append(two.getvalue())
    return files


def odd_pictures():
    """A rotated JPEG, in both byte orders; a JPEG with two components; a PNG with indices beyond
    its palette; a PNG without IEND."""
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
        turned = png(grey)
        yield correct_crcs(turned[:33] + struct.pack(">I", len(exif) - 6) + b"eXIf" + exif[6:] +
                           bytes(4) +
                           turned[33:])
    yield (b"\xff\xd8\xff\xc0" + struct.pack(">HBHHB", 14, 8, 9, 13, 2) +
           bytes([1, 0x11, 0, 2, 0x11, 0]) +
           b"\xff\xda" + struct.pack(">HB", 10, 2) + bytes([1, 0, 2, 0, 0, 63, 0]))
    of_palette = bytearray(png(grey))
    of_palette[25] = 3     # the colour type in IHDR
    of_palette[33:33] = struct.pack(">I", 9) + b"PLTE" + bytes(range(9)) + bytes(4)
    yield correct_crcs(bytes(of_palette))
    yield correct_crcs(png(grey))[:-12]     # without IEND


def odd_nifti():
    """NIfTI headers with one invalid number; gzip with other content."""
    import gzip
    import struct
    good = next(nifti())
    for form, offset, value in (("h", 40, 0), ("h", 40, 8), ("h", 42, 0), ("h", 42, 32767),
                                ("h", 70, 1), ("h", 72, 16), ("f", 112, float("inf")),
                                ("f", 112, float("nan")), ("f", 116, float("inf")), ("f", 108, 0.5),
                                ("f", 108, 353.5), ("f", 108, 1e20),
                                ("4s", 344, b"ni1"), ("4s", 344, b"x"), ("i", 0, 540)):
        head = bytearray(good)
        struct.pack_into("<" + form, head, offset, value)
        yield bytes(head)
        yield gzip.compress(bytes(head), mtime=0)
    for dims in ((7, 3, 3, 1, 1, 1, 2, 1), (5, 3, 3, 30000, 30000, 30000, 1, 1),
                 (3, 30000, 30000, 1, 1, 1, 1, 1), (3, 1, 1, 30000, 1, 1, 1, 1)):
        head = bytearray(good)
        struct.pack_into("<8h", head, 40, *dims)
        yield bytes(head)
        yield gzip.compress(bytes(head), mtime=0)
    packed = gzip.compress(good, mtime=0)
    yield packed[:-6] + b"\1" + packed[-5:]
    yield b"\x1f\x8b\7" + packed[3:]
    # Floating-point pixels that are all NaN.
    for code, bits in ((16, 32), (64, 64)):
        head = bytearray(good[:352])
        struct.pack_into("<hh", head, 70, code, bits)
        struct.pack_into("<ff", head, 112, 0, 0)
        yield bytes(head) + struct.pack("<f" if bits == 32 else "<d", float("nan")) * 60


def of_other_kinds():
    """Files whose first bytes are those of other formats; an empty file."""
    for magic in (b"%PDF-1.7", b"GIF89a", b"BM", b"RIFF", b"ZISRAWFI", b"\xda\xce\xbe\x0a",
                  b"\x93NUMPY", b"PK\3\4", b"<svg ", b"\0\0\0\x0cjP  ", b"x"):
        yield magic + bytes(30)
    yield b""


def raw_tiff(*pages, order="<"):
    """A TIFF with pages that no program writes. pages: (tags with numbers or text, pixels)."""
    import struct
    body, link = (b"II*\0" if order == "<" else b"MM\0*") + bytes(4), 4
    for tags, pixels in pages:
        tags, more, entries = {273: len(body), 279: len(pixels), **tags}, b"", b""
        body += pixels + bytes(len(pixels) % 2)
        body = body[:link] + struct.pack(order + "I", len(body)) + body[link + 4:]
        behind = len(body) + 2 + 12 * len(tags) + 4
        for tag, value in sorted(tags.items()):
            if isinstance(value, int):
                entries += struct.pack(order + "HHII", tag, 4, 1, value)
            else:
                entries += struct.pack(order + "HHII", tag, 2 if isinstance(value, bytes) else 3,
                                       len(value), behind + len(more))
                more += value if isinstance(value,
                                            bytes) else struct.pack("%s%dH" % (order, len(value)),
                                                                    *value)
                more += bytes(len(more) % 2)
        link = len(body) + 2 + 12 * len(tags)
        body += struct.pack(order + "H", len(tags)) + entries + bytes(4) + more
    return body


def odd_tiff():
    """TIFFs with colours, codecs, samples, pages and texts that are rare or refused."""
    height, width = 9, 13
    pixels = bytes(11 * (i // width + i % width) % 256 for i in range(height * width))

    def page(bits=8, **more):
        tags = {256: width, 257: height, 258: bits, 259: 1, 262: 1, 277: 1, 278: height,
                **{int(tag[1:]): value for tag, value in more.items()}}
        return tags, pixels * max(1, bits // 8) * tags[277]

    thumbnail = page(t254=1)
    for order in "<>":
        for pages in ([page(), page()], [page(), thumbnail, page()], [thumbnail, page()],
                      [thumbnail], [page(t254=4)], [page(t255=2)], [page(), page(t257=3)],
                      [page(16, t262=3, t320=[7] * (3 << 16))],
                      [page(t262=3, t320=[0, 65535] * 384)], [page(t262=3, t320=[0, 255] * 384)],
                      [page(t262=3)], [page(t262=3, t277=3)], [page(16, t262=3)],
                      [page(t262=6, t277=3)], [page(t262=6, t277=3, t259=7)]):
            yield raw_tiff(*pages, order=order)
    yield raw_tiff(page())[:-2]
    for codec in (2, 3, 4, 5, 6, 7, 8, 9, 32773, 32809, 32946, 34676, 34712, 34887, 34925, 50000,
                  50001, 65000):
        yield raw_tiff(page(t259=codec))
    for form in (1, 2, 3, 4, 5, 6):
        for bits in (1, 2, 4, 7, 8, 12, 16, 24, 32, 64, 128):
            yield raw_tiff(page(bits, t339=form))
    for tags in ({"t262": 5}, {"t32997": 2}, {"t256": 0}, {"t256": 1 << 30},
                 {"t257": 1 << 20, "t278": 1 << 20}, {"t277": 2, "t284": 2},
                 {"t277": 2, "t338": [1]}, {"t274": 6}, {"t277": 4, "t338": [2], "t262": 2},
                 {"t277": 5}, {"t279": 9}, {"t273": 1 << 30},
                 {"t322": 0, "t323": 0, "t324": 8, "t325": 256},
                 {"t322": 16, "t323": 16, "t324": 8, "t325": 256},
                 {"t322": 16, "t323": 1 << 30, "t324": 8, "t325": 64, "t258": 1, "t259": 2},
                 {"t322": 16, "t323": 256, "t324": 8, "t325": 64, "t258": 1, "t259": 3},
                 {"t270": b"ImageJ=1.53\nimages=70000\nslices=70000\nspacing=0.5\nunit=micron\n\0"},
                 {"t270": b"ImageJ=1.53\nimages=4\nchannels=2\nslices=2\nframes=1\n"
                          b"unit=\\u00B5m\n\0"},
                 {"t270": b"<?xml?><OME><Image><Pixels DimensionOrder=\"XYQZT\" SizeC=\"x\" "
                  b"SizeZ=\"2\" SizeT=\"\"/></Image></OME>\0"},
                 {"t270": b"<OME><Image><Pixels SizeC=\"3\" SizeZ=\"2\" SizeT=\"99\" "
                  b"DimensionOrder=\"XYZCT\" PhysicalSizeX=\"0\"\0"}):
        yield raw_tiff(page(**tags))
        yield raw_tiff(page(**tags), page(**tags))


def correct_crcs(data):
    """A PNG with the CRCs of its chunks corrected."""
    import struct
    import zlib
    out, offset = data[:8], 8
    while offset < len(data):
        n = struct.unpack(">I", data[offset:offset + 4])[0]
        out += data[offset:offset + 8 + n]
        out += struct.pack(">I", zlib.crc32(data[offset + 4:offset + 8 + n]))
        offset += 12 + n
    return out


def nifti():
    """Small NIfTI pictures of every sample type, plain and in gzip, in both byte orders; damaged
    ones."""
    import gzip
    import struct
    for code, bits in ((2, 8), (4, 16), (8, 32), (16, 32), (64, 64), (128, 24), (256, 8), (512, 16),
                       (768, 32), (1024, 64), (1280, 64)):
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


def results(folder):
    """Writes work units of every analysis and their results into a folder (see fuzz_validate.c).
    Yields the results."""
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


def validate(folder="units_validate"):
    """The results, also with extreme values. For one result of each analysis also variants with one
    change (results with maps, with a table and labels, and with points, whose JSON is changed,
    too)."""
    honest = list(results(folder))
    yield from honest
    for result in honest:
        yield from at_its_ends(result)
    first = {member(result, "result.json")["analysis"]: result for result in reversed(honest)}
    for analysis in sorted(first):
        yield from change_result(first[analysis], analysis in ("glcm", "cellcount", "voting"))


def member(data, name):
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        return json.loads(z.read(name))


def change_result(honest, texts=True):
    """Variants of a result with one changed value of its JSON (if `texts`), one changed array, or
    one changed number of an array."""
    with zipfile.ZipFile(io.BytesIO(honest)) as z:
        members = [(name, z.read(name)) for name in z.namelist()]
    about, arrays = json.loads(members[0][1]), members[1:]

    def put(whole, index, *keys):
        """The JSON `whole` with the value `at` at these keys, or without them if it is
    NotImplemented."""
        whole = json.loads(json.dumps(whole))
        inner = whole
        for key in keys[:-1]:
            inner = inner[key]
        if index is NotImplemented:
            del inner[keys[-1]]
        else:
            inner[keys[-1]] = index
        return whole

    def of_json():
        for key in list(about) + ["more"]:
            yield json.dumps(put(about, 7, key))
        for inner in ("parameters", "workunit"):
            for key in about[inner]:
                yield json.dumps(put(about, "0", inner, key))
                yield json.dumps(put(about, NotImplemented, inner, key))
        for number, of in enumerate(about.get("arrays", [])[:12]):
            for key in ("array", "role", "table", "title", "unit", "axes", "more"):
                for value in (7, "", "A b", "item", "nowhere", [], [{}],
                              [{"name": "n"}])[:8 if number < 2 else 1]:
                    yield json.dumps(put(about, value, "arrays", number, key))
            for axis in range(len(of.get("axes", []))):
                for key, value in (("values", []), ("values", [-1]), ("values", ["A"]),
                                   ("values", [1, "a"]), ("values", [1]), ("array", "distances"),
                                   ("name", "Q"), ("digits", 10), ("digits", 1), ("prefix", "0"),
                                   ("prefix", "p"), ("more", 1)):
                    yield json.dumps(put(about, value, "arrays", number, "axes", axis, key))
        yield json.dumps(put(about, NotImplemented, "arrays"))
        yield json.dumps(put(about, 1, "parameters", "more"))

    for text in of_json() if texts else ():
        yield archive([("result.json", text)] + arrays)
    # A texture has many features, of which a few are enough.
    few = arrays if len(arrays) < 16 else arrays[:10] + arrays[-6:]
    for name, data in few:
        index = arrays.index((name, data))
        for change in (("rows", 1), ("rows", -1), ("axes", 0), ("type", 0), ("first", 1),
                       ("first", 255), ("last", 255)):
            yield archive([members[0]] + arrays[:index] + [(name, change_npy(data, *change))] +
                          arrays[index + 1:])
        yield archive([members[0]] + arrays[:index] + arrays[index + 1:])
        yield archive([members[0]] + arrays[:index] + arrays[index + 1:] + [(name, data)])
    yield archive(members + [("more.npy", arrays[0][1])])
    yield archive(arrays + members[:1])


def change_npy(data, what, by):
    """An array with a row more or less, an additional axis, another type, or one byte of its first
    or last number changed."""
    import numpy as np
    array = np.load(io.BytesIO(data))
    if what == "rows":
        array = np.concatenate([array, array[-1:]]) if by > 0 else array[:-1]
    elif what == "axes":
        array = array[..., np.newaxis]
    elif what == "type":
        array = array.astype("<f4" if array.dtype != np.float32 and array.dtype.kind != "U"
                             else "U3")
    elif array.size > 0:
        raw = bytearray(array.tobytes())
        raw[0 if what == "first" else -array.itemsize] = by
        array = np.frombuffer(bytes(raw), array.dtype).reshape(array.shape)
    return npy(np.ascontiguousarray(array))


def own():
    """The results of validate(), which fuzz_own.c reads without their work units."""
    return validate("units_own")


def at_its_ends(honest):
    """Variants of a result: all numbers are the smallest, or the largest, of their type, except for
    item numbers and labels; each table has one row, with a bounding box from 0; each array in turn
    is empty, or has sides of the largest length."""
    import numpy as np
    declared = {a["array"] + ".npy": a for a in member(honest, "result.json")["arrays"]}
    of_rows = {a["table"] for a in declared.values() if a["role"] == "item"}
    with zipfile.ZipFile(io.BytesIO(honest)) as z:
        members = {name: z.read(name) for name in z.namelist()}
    arrays = {name: np.load(io.BytesIO(data)) for name, data in members.items()
              if name.endswith(".npy")}
    for end, one_row in itertools.product(("min", "max"), (False, True)):
        out = dict(members)
        for name, a in arrays.items():
            of = declared.get(name, {})
            if one_row and of.get("table") in of_rows:
                a = a[:1]
            if a.dtype.kind in "iuf" and of.get("role") not in ("item", "key"):
                a = np.full_like(a, getattr(np.finfo(a.dtype) if a.dtype.kind == "f"
                                            else np.iinfo(a.dtype), end))
                if one_row:
                    a[..., :a.shape[-1] // 2] = 0
            out[name] = npy(a)
        yield archive(list(out.items()))
    for name, a in arrays.items():
        if a.ndim > 1 and a.dtype.kind != "U":
            head, side = io.BytesIO(), int((2**62 // a.itemsize) ** (1 / (a.ndim - 1)))
            np.lib.format.write_array_header_1_0(head,
                                                 {"descr": a.dtype.str, "fortran_order": False,
                                                  "shape": (0,) + (side,) * (a.ndim - 1)})
            yield archive(list(dict(members, **{name: head.getvalue()}).items()))


def export():
    """The results of validate() with their variants, and a result of an unknown analysis with
    tables of every type, lengths and areas, keys and sources."""
    import numpy as np
    for result in results("units_export"):
        yield result
        yield from at_its_ends(result)
        if member(result, "result.json")["analysis"] == "volume":
            yield from change_result(result, texts=False)
    kinds = [np.array([1, 0], "?"), np.array([1, 2], "u1"), np.array([-1, 2], "<i4"),
             np.array([1, 1 << 40]),
             np.array([np.nan, 0.5], "f4"), np.array([np.inf, 1e300]), np.array(["=b", "\u00e9"])]
    words = {"name": "axis", "values": ["y0", "x0", "y1", "x1"]}
    numbers = {"name": "distance", "values": [1, 3], "prefix": "d", "digits": 2}
    arrays = {"value_%d" % i: (kind, {"role": "value", "table": "items"})
              for i, kind in enumerate(kinds)}
    arrays["thing_item"] = np.array([0, 0, 1]), {"role": "item", "table": "things"}
    arrays["thing_number"] = np.array([1, 2, 1], "<i4"), {"role": "key", "table": "things"}
    for unit in ("pixel", "pixel^2", "um"):
        arrays["thing_" + unit.replace("^2", "s")] = (
            np.array([1.5, 2, 3]), {"role": "value", "table": "things", "unit": unit})
    arrays["thing_box"] = (np.ones((3, 4), "<i4"),
                           {"role": "value", "table": "things", "unit": "pixel", "axes": [words]})
    arrays["thing_wide"] = (np.ones((3, 8)),
                            {"role": "value", "table": "things", "axes": [numbers, words]})
    arrays["deep"] = (np.ones((2, 2, 4)),
                      {"role": "value", "table": "deep", "axes": [numbers, words]})
    arrays["place_item"] = np.array([0, 1]), {"role": "item", "table": "places"}
    arrays["place"] = (np.ones((2, 2)), {"role": "place", "table": "places", "unit": "pixel",
                                         "axes": [{"values": ["y", "x"]}]})
    for name in "ab":
        for role, dtype in (("labels", "<i4"), ("mask", "u1"), ("map", "<f4")):
            arrays["%s_%s" % (role, name)] = (np.eye(5, 7).astype(dtype),
                                              {"role": role, "title": role})
    declared = {name if name[-2] != "_" or name[:3] == "val" else name[:-1] + "{item}": of
                for name, (_, of) in arrays.items()}
    for about in ({}, {"sources": ["x/a.tif", ""]}, {"version": 2}):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
            z.writestr("result.json", json.dumps(dict({
                "format": "texcell-result", "version": 3, "analysis": "alchemy", "parameters": {},
                "items": ["a", "b"],
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
    """A data set with units of every analysis, in SQL, a statement a line; one with views of many
    columns."""
    import sqlite3
    import subprocess

    import tap
    files = list(results("units_dataset"))
    for i in range(len(files)):
        db = "dataset_%d.sqlite" % i
        if os.path.exists(db):
            os.remove(db)
        subprocess.run([tap.TEXCELL_ASSIMILATE, "--db", db, "units_dataset/unit_%d.zip" % i,
                        "units_dataset/honest_%d.npz" % i],
                       check=True, stdout=subprocess.DEVNULL)
        with sqlite3.connect(db) as q:
            lines = [line.replace("\n", " ") for line in q.iterdump()]
        yield "\n".join(lines).encode()


def checkpoint():
    """Spools of a few arrays, each with a checkpoint, in the format of fuzz_checkpoint.c."""
    import re
    import struct
    import zlib
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "app",
                           "checkpoint.h")) as f:
        version = int(re.search(r"#define CHECKPOINT_VERSION (\d+)", f.read()).group(1))

    def array(kind, dtype, name, shape, data, width=0, packed=0, plain=b""):
        return struct.pack("<BBBBIIIQQII", kind, dtype, len(shape), packed, width, len(name),
                           zlib.crc32(data), len(data),
                           len(plain), zlib.crc32(plain),
                           0) + name + struct.pack("<%dQ" % len(shape), *shape), data

    def deflated(kind, dtype, name, shape, plain):
        packer = zlib.compressobj(4, zlib.DEFLATED, -15)
        return array(kind, dtype, name, shape, packer.compress(plain) + packer.flush(), 0, 3, plain)

    def record(*arrays):
        heads, data = (b"".join(a[i] for a in arrays) for i in (0, 1))
        return data + heads + b"TXSP" + struct.pack("<IQII", len(arrays), len(data), len(heads),
                                                    zlib.crc32(heads))

    def whole(mend, records, state):
        spool = b"".join(records)
        head = struct.pack("<8sIIQ16sQQQIII", b"TEXCKPT", version, 0x12345678, 4321, b"glcm",
                           len(records), len(spool),
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
        yield whole(mend, [record(features, names, empty), record(features, names, deep), record()],
                    bytes(64))
    # A header with one wrong field; the state.
    good = whole(0, [record(features)], b"state")
    for offset in (3, 11, 15, 19, 27, 35, 59, 71, 79, 83):
        yield good[:offset] + bytes([good[offset] ^ 1]) + good[offset + 1:]
        yield b"\1" + good[1:offset] + bytes([good[offset] ^ 1]) + good[offset + 1:]


def state():
    """States of every analysis, right and with a changed byte, in the format of fuzz_state.c."""
    import struct

    import analyses
    for analysis in range(len(analyses.names())):
        for test in range(3):
            for far in (0, 60, 120, 190, 255):
                yield bytes([analysis, test, far])
                yield bytes([analysis, test, far]) + struct.pack("<IB", 0, 1)
                yield bytes([analysis, test, far]) + b"".join(struct.pack("<IB", 4001 * k, 255)
                                                              for k in range(1, 9))
    # objects: a grey range without any grey value of the object (was read beyond its counts).
    yield bytes.fromhex("05000000000002be030278a10f0000000002003fffe32e0000ff843e")
    # Watershed with all heights at the ground (pixels belonged to no cell).
    yield bytes.fromhex(
        "646dffffff0396000000000003020000000000ffff00001a0000000000016974757575757575757575017575756c7068ffffff")


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
