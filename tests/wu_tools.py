#!/usr/bin/python3
"""Tests texcell-wu pack, show and export. pack: the samples of every kind of picture file equal
those that PIL, scikit-image or tifffile read; stacks, masks and --split; refused input. show and
export are tested with a result that this test writes, whole and damaged."""
import csv
import gzip
import hashlib
import io
import json
import os
import re
import resource
import shutil
import signal
import struct
import sys
import unicodedata
import zipfile
import zlib

import numpy as np
from PIL import Image, PngImagePlugin

from tap import TEXCELL, TEXCELL_WU, data, done, note, ok, run, sanitized, scratch, skip

try:
    import tifffile
except ImportError:
    tifffile = None

TMP = scratch()
RNG = np.random.default_rng(20240501)
GREY = RNG.integers(0, 256, (37, 53), dtype=np.uint8)
GREY16 = RNG.integers(0, 65536, (37, 53), dtype=np.uint16)
COLOUR = RNG.integers(0, 256, (37, 53, 3), dtype=np.uint8)
ROI = ("--param", 'roi={"type":"mask"}')
SMOOTH = (np.add.outer(np.arange(64), 2 * np.arange(80)) % 256).astype(np.uint8)


def path(name):
    full = os.path.join(TMP, name)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    return full


def wu(*args, **kw):
    return run([TEXCELL_WU] + [str(a) for a in args], **kw)


def pack(out, *args, **kw):
    """Packs a work unit of the analysis glcm, which has no mandatory parameter."""
    return wu("pack", "--analysis", "glcm", "-o", out, *args, **kw)


def job_of(out):
    with zipfile.ZipFile(out) as z:
        return json.loads(z.read("job.json"))


def members(out, names):
    """The samples of PNG members of a work unit, as PIL reads them."""
    with zipfile.ZipFile(out) as z:
        return [np.asarray(Image.open(io.BytesIO(z.read(n)))) for n in names]


def item_samples(out, index=0, key=None):
    """The samples of an item: [h, w] of an image; the joined samples of all members of a stack, or
    of a picture that is stored in strips."""
    item = job_of(out)["items"][index]
    if key is None:
        key = "image" if "image" in item else "stack"
    names = item[key]
    if isinstance(names, str):
        return members(out, [names])[0]
    return (np.stack if "stack" in item else np.concatenate)(members(out, names))


# A part of pack's note about a palette whose colours are not grey, or not in ascending order.
PALETTE_NOTE = "the colours that it shows are taken"


def check_packed(name, picture, expected, note_text=None):
    """The picture is packed, its samples are the expected ones, and pack writes note_text to stderr
    (None: writes nothing)."""
    out = path("out.zip")
    r = pack(out, picture)
    if not ok(r.returncode == 0, name + ": packed", r.stderr):
        return
    got = item_samples(out)
    same = got.shape == expected.shape and got.dtype.itemsize >= expected.dtype.itemsize \
        and np.array_equal(got.astype(np.int64), expected.astype(np.int64))
    ok(same, name + ": same samples",
       "%s %s, expected %s %s" % (got.shape, got.dtype, expected.shape,
                                  expected.dtype))
    # glcm's note about the number of grey levels is not tested here.
    notes = "".join(line + "\n" for line in r.stderr.splitlines() if "its greys are" not in line)
    ok((note_text is None and notes == "") or (note_text is not None and note_text in r.stderr),
       name + ": prints the right notes", r.stderr)
    os.remove(out)


def check_refused(name, picture, word, *args):
    """pack exits with 2 and leaves no output. The one line that it writes, apart from notes, names
    the file and contains `word`."""
    out = path("refused.zip")
    r = pack(out, picture, *args)
    line = "\n".join(line for line in r.stderr.splitlines() if "note:" not in line)
    good = (r.returncode == 2 and line.count("\n") == 0 and line.startswith("texcell-wu: error: ")
            and os.path.basename(str(picture)) in line and word in line and not os.path.exists(out))
    ok(good, name + ": refused", "%d: %s" % (r.returncode, r.stderr))
    if os.path.exists(out):
        os.remove(out)


# --- writing PNG byte by byte, in the formats that PIL does not write ---------------------------

def png_chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png_rows(samples, depth):
    """The uncompressed image data of samples [h, w, c]: `depth` bits a sample, and filter type 0
    before each row."""
    rows = []
    for row in samples.reshape(samples.shape[0], -1):
        if depth == 16:
            packed = row.astype(">u2").tobytes()
        elif depth == 8:
            packed = row.astype(np.uint8).tobytes()
        else:
            bits = ((row[:, None] >> np.arange(depth - 1, -1, -1)) & 1).astype(np.uint8)
            packed = np.packbits(bits.reshape(-1)).tobytes()
        rows.append(b"\0" + packed)
    return b"".join(rows)


def write_png(name, samples, depth, colour_type, extra=(), interlaced=False, cut=None):
    """Writes a PNG of samples [h, w(, c)]. extra: [(kind, body)] of chunks before IDAT; cut: the
    file's length in bytes if it is truncated."""
    samples = samples if samples.ndim == 3 else samples[:, :, None]
    h, w = samples.shape[:2]
    if interlaced:
        passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4),
                  (1, 0, 2, 2), (0, 1, 1, 2)]
        parts = [samples[y0::dy, x0::dx] for x0, y0, dx, dy in passes]
        raw = b"".join(png_rows(p, depth) for p in parts if p.size)
    else:
        raw = png_rows(samples, depth)
    body = b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR",
                                            struct.pack(">IIBBBBB", w, h, depth, colour_type, 0, 0,
                                                        int(interlaced)))
    for kind, chunk in extra:
        body += png_chunk(kind, chunk)
    body += png_chunk(b"IDAT", zlib.compress(raw)) + png_chunk(b"IEND", b"")
    full = path(name)
    with open(full, "wb") as f:
        f.write(body if cut is None else body[:cut])
    return full


def as_read(picture):
    """The samples of a file as PIL reads them."""
    return np.asarray(Image.open(picture))


def test_png():
    for depth in (1, 2, 4):
        low = (GREY >> (8 - depth)).astype(np.uint8)
        for interlaced in (False, True):
            f = write_png("g%d.png" % depth, low, depth, 0, interlaced=interlaced)
            check_packed("PNG grey %d bits%s" % (depth, " interlaced" if interlaced else ""), f,
                         np.asarray(Image.open(f).convert("L")),
                         "they are overexposed" if depth > 1 else None)
    f = path("g8.png")
    Image.fromarray(GREY).save(f)
    check_packed("PNG grey 8", f, GREY)
    check_packed("PNG grey 16", write_png("g16.png", GREY16, 16, 0), GREY16)
    check_packed("PNG grey 16 interlaced", write_png("g16i.png", GREY16, 16, 0, interlaced=True),
                 GREY16)
    check_packed("PNG RGB 8 interlaced", write_png("c8i.png", COLOUR, 8, 2, interlaced=True),
                 COLOUR)
    f = path("c8.png")
    Image.fromarray(COLOUR).save(f)
    check_packed("PNG RGB 8", f, as_read(f))
    check_refused("PNG RGB 16", write_png("c16.png", COLOUR.astype(np.uint16) * 257, 16, 2),
                  "16 bits")

    alpha = np.full(GREY.shape, 255, np.uint8)
    half = alpha.copy()
    half[3, 5] = 254
    dropped = "the transparency was dropped"
    check_packed("PNG RGBA opaque", write_png("ao.png", np.dstack([COLOUR, alpha]), 8, 6), COLOUR)
    check_packed("PNG RGBA", write_png("at.png", np.dstack([COLOUR, half]), 8, 6), COLOUR, dropped)
    check_packed("PNG grey and alpha",
                 write_png("la.png", np.dstack([GREY, half]), 8, 4, interlaced=True), GREY, dropped)
    deep = np.dstack([GREY16, np.full(GREY.shape, 65535, np.uint16)])
    check_packed("PNG grey 16 and opaque alpha", write_png("la16.png", deep, 16, 4), GREY16)
    deep[0, 0, 1] = 65534
    check_packed("PNG grey 16 and alpha", write_png("la16t.png", deep, 16, 4), GREY16, dropped)
    key = struct.pack(">H", int(GREY[10, 10]))
    check_packed("PNG grey with tRNS", write_png("trns.png", GREY, 8, 0, [(b"tRNS", key)]), GREY,
                 dropped)

    identity = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, 1)
    check_packed("PNG palette, identity grey",
                 write_png("pi.png", GREY, 8, 3, [(b"PLTE", identity.tobytes())]), GREY)
    check_packed("PNG palette, inverted grey",
                 write_png("pv.png", GREY, 8, 3, [(b"PLTE", identity[::-1].tobytes())]),
                 255 - GREY, PALETTE_NOTE)
    palette = RNG.integers(0, 256, (256, 3), dtype=np.uint8)
    check_packed("PNG palette, colours",
                 write_png("pc.png", GREY, 8, 3, [(b"PLTE", palette.tobytes())]), palette[GREY],
                 PALETTE_NOTE)
    for depth in (1, 2, 4):
        few = palette[:1 << depth]
        index = GREY >> (8 - depth)
        check_packed("PNG palette of %d bits, interlaced" % depth,
                     write_png("p%d.png" % depth, index, depth, 3, [(b"PLTE", few.tobytes())],
                               interlaced=True), few[index],
                     PALETTE_NOTE)
    check_packed("PNG palette with tRNS",
                 write_png("pt.png", GREY, 8, 3, [(b"PLTE", palette.tobytes()),
                                                  (b"tRNS", b"\xff\x80")]), palette[GREY], dropped)
    check_refused("PNG with a pixel beyond the palette",
                  write_png("pb.png", GREY, 8, 3, [(b"PLTE", palette[:9].tobytes())]), "damaged")
    check_refused("PNG cut short", write_png("cut.png", GREY, 8, 0, cut=900), "damaged")
    check_refused("PNG that ends after its header", write_png("cut2.png", GREY, 8, 0, cut=40),
                  "damaged")
    for w, h in ((65536, 1), (1, 70000), (65535, 65535), (0x7fffffff, 0x7fffffff), (0, 5)):
        f = path("huge.png")
        with open(f, "wb") as out:
            out.write(b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR",
                                                       struct.pack(">IIBBBBB", w, h, 8, 0, 0, 0, 0))
                      + png_chunk(b"IDAT", zlib.compress(b"\0" * 100)) + png_chunk(b"IEND", b""))
        check_refused("PNG of %d x %d" % (w, h), f, "are too many" if min(w, h) > 0 else "")


def test_jpeg():
    for name, mode, options in (("grey", "L", {}), ("colour", "RGB", {}),
                                ("4:4:4", "RGB", {"subsampling": 0}),
                                ("progressive", "RGB", {"progressive": True}),
                                ("low quality", "L", {"quality": 5})):
        f = path("j.jpg")
        source = SMOOTH if mode == "L" else np.dstack(
            [SMOOTH, SMOOTH.T[:64, :64].repeat(2, 1)[:, :80], 255 - SMOOTH])
        Image.fromarray(source).save(f, **options)
        check_packed("JPEG " + name, f, as_read(f))
    f = path("cmyk.jpg")
    Image.fromarray(np.dstack([SMOOTH] * 4), "CMYK").save(f)
    check_refused("JPEG CMYK", f, "CMYK")
    f = path("j.jpg")
    Image.fromarray(RNG.integers(0, 256, (100, 120), dtype=np.uint8)).save(f)
    whole = open(f, "rb").read()
    for cut in (3, 20, 200, len(whole) // 2, len(whole) - 200, len(whole) - 5):
        with open(path("cut.jpg"), "wb") as out:
            out.write(whole[:cut])
        check_refused("JPEG cut at %d" % cut, path("cut.jpg"), "damaged")
    with open(path("cut.jpg"), "wb") as out:
        out.write(whole[:-2])
    check_packed("JPEG that lacks only its end marker", path("cut.jpg"), np.asarray(Image.open(f)),
                 "all samples came")


# --- TIFF ---------------------------------------------------------------------------------------

def pil_tiff(name, array, **kw):
    f = path(name)
    Image.fromarray(array).save(f, **kw)
    return f


def tiff(name, array, **kw):
    f = path(name)
    tifffile.imwrite(f, array, **kw)
    return f


def test_tiff_pil():
    for compression in (None, "tiff_lzw", "tiff_adobe_deflate", "packbits"):
        check_packed("TIFF grey 8, %s" % compression,
                     pil_tiff("c.tif", GREY, compression=compression),
                     GREY)
        check_packed("TIFF RGB 8, %s" % compression,
                     pil_tiff("c.tif", COLOUR, compression=compression),
                     COLOUR)
    f = pil_tiff("j.tif", SMOOTH, compression="jpeg", quality=90)
    check_packed("TIFF grey in JPEG", f, as_read(f))
    f = path("j3.tif")
    Image.fromarray(np.dstack([SMOOTH, 255 - SMOOTH, SMOOTH // 2])).save(f, compression="jpeg",
                                                                         quality=90)
    check_packed("TIFF RGB in JPEG", f, as_read(f))
    f = path("bw.tif")
    Image.fromarray(GREY > 100).save(f, compression="group4")
    check_packed("TIFF 1 bit, group 4", f, np.where(GREY > 100, 255, 0).astype(np.uint8))
    f = path("pal.tif")
    indexed = Image.fromarray(COLOUR).quantize(100)
    indexed.save(f)
    check_packed("TIFF palette", f, np.asarray(indexed.convert("RGB")), PALETTE_NOTE)
    whole = open(pil_tiff("c.tif", GREY, compression="tiff_lzw"), "rb").read()
    for cut in (4, 9, len(whole) // 2, len(whole) - 3):
        with open(path("cut.tif"), "wb") as out:
            out.write(whole[:cut])
        check_refused("TIFF cut at %d" % cut, path("cut.tif"), "damaged")
    first = Image.fromarray(GREY)
    f = path("pages.tif")
    first.save(f, save_all=True,
               append_images=[Image.fromarray(GREY[::-1].copy()), Image.fromarray(255 - GREY)])
    check_packed("TIFF of three pages", f, np.stack([GREY, GREY[::-1], 255 - GREY]),
                 "does not say what its pages are")
    for name, other in (("size", GREY[:-1]), ("bits", GREY16), ("colour", COLOUR)):
        first.save(f, save_all=True, append_images=[Image.fromarray(np.ascontiguousarray(other))])
        check_refused("TIFF whose pages differ in " + name, f, "page 2 differs")


def test_tiff_codecs():
    """Compressions that libtiff can decode, but that texcell-wu does not accept."""
    plain = open(pil_tiff("plain.tif", GREY), "rb").read()
    tag = struct.pack("<HHI", 259, 3, 1)
    ok(plain.count(tag + b"\1\0") == 1, "the compression tag occurs once")
    for codec, name in ((32909, "PixarLog"), (34676, "SGILog"), (32766, "NeXT"),
                        (32809, "ThunderScan"), (34925, "LZMA"),
                        (99, "something unknown")):
        with open(path("codec.tif"), "wb") as f:
            f.write(plain.replace(tag + b"\1\0", tag + struct.pack("<H", codec)))
        check_refused("TIFF by " + name, path("codec.tif"), "compressed by %s (%d)" % (name, codec))


def test_tiff_layouts():
    if tifffile is None:
        skip("TIFF layouts", "no tifffile")
        return
    stack = RNG.integers(0, 65536, (5, 37, 53), dtype=np.uint16)
    big = RNG.integers(0, 65536, (150, 203), dtype=np.uint16)
    colour = RNG.integers(0, 256, (150, 203, 3), dtype=np.uint8)
    check_packed("TIFF grey 16", tiff("a.tif", GREY16), GREY16)
    check_packed("TIFF grey 16, big-endian", tiff("a.tif", GREY16, byteorder=">"), GREY16)
    check_packed("BigTIFF", tiff("a.tif", GREY16, bigtiff=True), GREY16)
    check_packed("TIFF grey 16, tiles", tiff("a.tif", big, tile=(32, 64)), big)
    check_packed("TIFF RGB, tiles", tiff("a.tif", colour, tile=(64, 32), photometric="rgb"), colour)
    check_packed("TIFF RGB, planes",
                 tiff("a.tif", np.moveaxis(colour, 2, 0), planarconfig="separate",
                                          photometric="rgb"), colour)
    check_packed("TIFF RGB, planes of tiles",
                 tiff("a.tif", np.moveaxis(colour, 2, 0), planarconfig="separate",
                      photometric="rgb", tile=(32, 32)), colour)
    check_packed("TIFF one row a strip", tiff("a.tif", big, rowsperstrip=1), big)
    check_packed("TIFF 16 bit, deflate and predictor",
                 tiff("a.tif", big, compression="zlib", predictor=True)
                 if can_compress() else tiff("a.tif", big), big)
    check_packed("TIFF min-is-white 8", tiff("a.tif", GREY, photometric="miniswhite"), 255 - GREY,
                 "0 is white")
    check_packed("TIFF min-is-white 16", tiff("a.tif", GREY16, photometric="miniswhite"),
                 65535 - GREY16, "0 is white")
    check_packed("TIFF stack of 16 bits", tiff("a.tif", stack, photometric="minisblack"), stack,
                 "taken as slices")
    check_packed("TIFF stack by ImageJ",
                 tiff("a.tif", stack, imagej=True, metadata={"axes": "ZYX"}),
                 stack)
    opaque = np.dstack([colour, np.full(colour.shape[:2], 255, np.uint8)])
    check_packed("TIFF RGBA opaque",
                 tiff("a.tif", opaque, photometric="rgb", extrasamples=["unassalpha"]), colour)
    opaque[7, 7, 3] = 0
    check_packed("TIFF RGBA", tiff("a.tif", opaque, photometric="rgb", extrasamples=["unassalpha"]),
                 colour,
                 "the transparency was dropped")
    with tifffile.TiffWriter(path("thumb.tif")) as w:
        w.write(GREY)
        w.write(GREY[::2, ::2].copy(), subfiletype=1)
    check_packed("TIFF with a thumbnail", path("thumb.tif"), GREY, "left out")

    check_packed("TIFF signed, none negative", tiff("a.tif", (GREY16 // 2).astype(np.int16)),
                 GREY16 // 2)
    check_packed("TIFF of 12 bits", packed_12("a.tif", GREY16 // 16), GREY16 // 16, "its greys are")
    check_refused("TIFF float", tiff("bad.tif", GREY.astype(np.float32)),
                  "has floating-point samples, from %g to %g; --scale" % (GREY.min(), GREY.max()))
    infinite = GREY.astype(np.float32)
    infinite[3, 3] = np.inf
    check_refused("TIFF float, one infinite", tiff("bad.tif", infinite),
                  ", and infinite ones; --scale")
    check_refused("TIFF 32 bits", tiff("bad.tif", GREY.astype(np.uint32)),
                  "has samples of 32 bits, from "
                  "%d to %d, as label pictures have, which" % (GREY.min(), GREY.max()))
    check_refused("TIFF signed", tiff("bad.tif", GREY16.astype(np.int16)),
                  "has values from %d to %d, and" %
                  (GREY16.astype(np.int16).min(), GREY16.astype(np.int16).max()))
    check_refused("TIFF RGB 16", tiff("bad.tif", colour.astype(np.uint16), photometric="rgb"),
                  "has RGB of 16 bits, from 0 to 255; --scale")
    check_refused("TIFF of channels as pages",
                  tiff("bad.tif", RNG.integers(0, 255, (4, 2, 30, 40), dtype=np.uint8),
                                                           imagej=True, metadata={"axes": "ZCYX"}),
                  "2 channels")
    check_refused("OME-TIFF of channels",
                  tiff("bad.ome.tif", RNG.integers(0, 255, (2, 30, 40), dtype=np.uint8),
                                                      photometric="minisblack",
                       metadata={"axes": "CYX"}),
                  "2 channels")
    check_refused("TIFF of two samples",
                  tiff("bad.tif", np.dstack([GREY, GREY]), photometric="minisblack",
                       planarconfig="contig"), "2 samples")
    lower, upper = GREY.astype(np.int16) - 300, GREY.astype(np.int16) + 1000
    for name, kind in (("float", np.float32), ("signed", np.int16)):
        both = tiff("bad.tif", np.dstack([lower, upper]).astype(kind), photometric="minisblack",
                    planarconfig="contig")
        check_refused("one channel of two, %s: only its range is printed" % name, both,
                      "from %d to %d" % (lower.min(), lower.max()), "--channel", "1")


def raw_tiff(name, pages, end=4):
    """Writes a TIFF that tifffile would not write. pages: [({tag: value}, bytes of the samples)].
    end: number of bytes written of the pointer to the next page (4 bytes) that ends the last
    page's directory."""
    body, links = b"II*\0\0\0\0\0", [4]
    for tags, pixels in pages:
        start = len(body)
        tags = {273: start, 279: len(pixels), **tags}
        values, entries = b"", []
        body += pixels + b"\0" * (len(pixels) % 2)
        body = body[:links[-1]] + struct.pack("<I", len(body)) + body[links[-1] + 4:]
        values_start = len(body) + 2 + 12 * len(tags) + 4
        for tag, value in sorted(tags.items()):
            if isinstance(value, (int, np.integer)):
                entries.append(struct.pack("<HHII", tag, 4, 1, value))
            else:                              # text, or 16-bit numbers
                entries.append(struct.pack("<HHII", tag, 2 if isinstance(value, bytes) else 3,
                                           len(value), values_start + len(values)))
                values += value if isinstance(value, bytes) else struct.pack("<%dH" % len(value),
                                                                             *value)
                values += b"\0" * (len(values) % 2)
        links.append(len(body) + 2 + 12 * len(tags))
        body += struct.pack("<H", len(tags)) + b"".join(entries) + b"\0" * 4 + values
    with open(path(name), "wb") as f:
        f.write(body if end == 4 else body[:links[-1] + end])
    return path(name)


def raw_tags(samples, bits=8, **more):
    """Tags of a grey picture. more: further tags, as t<tag number>=value."""
    h, w = samples.shape
    return {256: w, 257: h, 258: bits, 259: 1, 262: 1, 277: 1, 278: h,
            **{int(tag[1:]): value for tag, value in more.items()}}


def packed_12(name, samples):
    """A TIFF of 12 bits a sample: the bits of a row follow each other without padding."""
    bits = (samples[:, :, None] >> np.arange(11, -1, -1) & 1).astype(np.uint8).reshape(len(samples),
                                                                                       -1)
    return raw_tiff(name, [(raw_tags(samples, 12), np.packbits(bits, axis=1).tobytes())])


def test_tiff_hostile():
    """TIFF files that no usual program writes: most are refused with the reason; those with a
    well-defined meaning are read."""
    small = GREY[:16, :16].copy()
    pixels = small.tobytes()

    def odd(why, data=pixels, bits=8, **more):
        check_refused("TIFF: " + why, raw_tiff("odd.tif", [(raw_tags(small, bits, **more), data)]),
                      why)

    odd("with YCbCr colours", t262=6, t277=3)
    odd("with a palette of 16 bits", pixels * 2, 16, t262=3, t320=[0] * (3 << 16))
    odd("with CMYK colours", t262=5)
    odd("with colours other than grey, RGB or a palette", t262=32844)
    odd("of an unusual number of bits a sample", bits=7)
    odd("of an unusual number of bits a sample", pixels[:128], 4, t339=2)
    odd("of floating-point samples of unusual size", pixels * 2, 16, t339=3)
    odd("of complex samples", pixels * 8, 64, t339=6)
    odd("with volumes as pages", t32997=2)
    odd("holds only thumbnails or masks", t254=1)
    odd("says that it holds 5 slices, but it has 1 page",
        t270=b"ImageJ=1.53\nimages=5\nslices=5\n\0")
    odd("damaged", pixels[:128], 4, t262=3)    # no palette
    odd("the palette is missing", t262=3)                       # libtiff would read it as grey
    odd("the palette is missing", pixels * 3, t262=3, t277=3)   # libtiff would read it as RGB
    odd("the palette is missing", t262=3, t320=[0, 1, 2, 3])    # a length no multiple of 3
    odd("but the palette has only 2", t262=3, t320=[1] * 6)
    odd("damaged", t322=0, t323=0, t324=8, t325=256)
    odd("damaged", t322=16, t323=16, t324=1 << 30, t325=256)
    odd("damaged", t273=1 << 30)
    # libtiff decodes a whole tile, however large, and continues with its next row after an error.
    for side, why in ((1 << 30, "in tiles of 16 x 1073741824"), (4097, "in tiles of 16 x 4097"),
                      (4096, "damaged")):
        odd(why, b"\xff" * 64, 1, t259=2, t322=16, t323=side, t324=8, t325=64)
    larger = np.zeros((32, 4096), np.uint8)
    larger[:16, :16] = small
    f = raw_tiff("odd.tif", [(raw_tags(small, t322=4096, t323=32, t324=8, t325=larger.size),
                              larger.tobytes())])
    check_packed("TIFF whose tile is larger than the picture", f, small)
    for kept_bytes in (0, 1, 3):
        f = raw_tiff("odd.tif", [(raw_tags(small), pixels)], kept_bytes)
        check_refused("TIFF that ends %d bytes into the pointer to the next page" % kept_bytes, f,
                      "ends in its directory")
    thumbnail, page = (raw_tags(small, t254=1), pixels), (raw_tags(small), pixels)
    check_packed("TIFF whose first page is a thumbnail", raw_tiff("odd.tif", [thumbnail, page]),
                 small,
                 "left out")
    check_packed("TIFF with a thumbnail between pages",
                 raw_tiff("odd.tif", [page, thumbnail, page]),
                 np.stack([small, small]), "left out")
    for shift, kind in ((0, "of 8 bits"), (8, "of 16")):
        ramp = [255 - i << shift for i in range(256)]
        check_packed("TIFF with a grey palette, entries " + kind,
                     raw_tiff("odd.tif", [(raw_tags(small, t262=3, t320=ramp * 3), pixels)]),
                     255 - small, PALETTE_NOTE)
    with open(raw_tiff("odd.tif", [page]), "rb") as f:
        whole = f.read()
    (first,) = struct.unpack("<I", whole[4:8])
    with open(path("odd.tif"), "wb") as f:     # the pointer to the next page is to this page
        f.write(whole[:-4] + struct.pack("<I", first))
    check_packed("TIFF whose pages form a circle", path("odd.tif"), small, "another page follows")


def test_jpeg_hostile():
    f = path("odd.jpg")
    with open(f, "wb") as out:
        out.write(bytes.fromhex("ffd8 ffc0000e 08 0004 0004 02 011100 021100 ffda000a 02 0100 0200 "
                                "003f00 0000 ffd9"))
    check_refused("JPEG of two components", f, "is a JPEG of 2 components")
    # A progressive JPEG may contain its first scan any number of times; to decode each copy takes a
    # pass over the whole picture.
    Image.fromarray(SMOOTH).save(f, progressive=True)
    with open(f, "rb") as file:
        whole = file.read()
    scan = bytes.fromhex("ffda000801")
    first, second = whole.index(scan), whole.index(scan, whole.index(scan) + 1)
    tables = whole.rindex(b"\xff\xc4", 0, first)
    block = whole[tables:first + 9] + b"\0" + whole[first + 10:whole.index(b"\xff\xc4", first)]
    for scans, why in ((150, None), (250, "more than 200 scans")):
        with open(f, "wb") as file:
            file.write(whole[:tables] + block * scans + b"\xff\xd9")
        if why:
            check_refused("JPEG of %d scans" % scans, f, why)
        else:
            ok(pack(path("scans.zip"), f).returncode == 0 and second > first,
               "JPEG of %d scans is read" % scans)


def scale(values, lo, hi, most):
    """The samples that --scale=LO,HI makes of values: lo becomes 0, hi becomes `most`, linear in
    between, clipped outside, rounded; NaN becomes 0."""
    v = np.nan_to_num((values.astype(np.float64) - lo) / (hi - lo) * most, nan=0.0, posinf=most,
                      neginf=0)
    return np.clip(np.floor(v + 0.5), 0, most).astype(np.int64)


def test_scale():
    """Values that a work unit cannot hold (signed, floating-point, 32 bits), and what --scale makes
    of them."""
    if tifffile is None:
        skip("--scale", "no tifffile")
        return
    out = path("scale.zip")
    real = RNG.normal(3, 2, (37, 53)).astype(np.float32)
    real[3, 4], real[5, 6], real[7, 8] = np.nan, np.inf, -np.inf
    deep = RNG.integers(0, 65536, (37, 53, 3), dtype=np.uint16)
    write_png("deep.png", deep, 16, 2)
    stack = RNG.normal(0, 1, (4, 30, 40))
    for name, picture, lo, hi, most, values, says in (
            ("float", tiff("f.tif", real), -1, 7.5, 65535, real,
             "not numbers (NaN) became 0; infinite samples became black or white"),
            ("double, a stack, big-endian",
             tiff("d.tif", stack, byteorder=">", photometric="minisblack"), -2, 2, 65535, stack,
             "taken as slices"),
            ("float, planes of tiles",
             tiff("t.tif", np.stack([stack[0].astype("f4")] * 3), photometric="rgb",
                  planarconfig="separate", tile=(16, 16)), -2, 2, 255,
             np.dstack([stack[0].astype("f4")] * 3), ""),
            ("32 bits", tiff("u.tif", deep[:, :, 0].astype(np.uint32) * 65537), 0, 2 ** 32 - 1,
             65535, deep[:, :, 0].astype(np.uint32) * 65537, ""),
            ("signed", tiff("i.tif", GREY16.astype(np.int16)), -100.5, 2000, 65535,
             GREY16.astype(np.int16), ""),
            ("RGB 16", tiff("c.tif", deep, photometric="rgb"), 0, 4095, 255, deep, ""),
            ("PNG of RGB 16", path("deep.png"), 100, 60000, 255, deep, ""),
            ("grey 8", tiff("g.tif", GREY), 10, 200, 255, GREY, ""),
            ("grey 16", tiff("h.tif", GREY16), 1000, 4000, 65535, GREY16, "")):
        r = pack(out, "--scale=%r,%r" % (lo, hi), picture)
        good = r.returncode == 0 and np.array_equal(item_samples(out), scale(values, lo, hi, most))
        beyond = ((np.asarray(values) < lo) | (np.asarray(values) > hi)).mean() > 0.01
        ok(good and says in r.stderr and ("lie beyond --scale" in r.stderr) == beyond and
           (says or beyond or r.stderr == ""), "--scale: " + name, r.stderr)
    r = pack(out, "--channel", "2", path("deep.png"))
    ok(r.returncode == 0 and np.array_equal(item_samples(out), deep[:, :, 1]),
       "a channel of RGB 16 is packed unscaled", r.stderr)
    r = pack(out, "--stain", "dab", "--stains", "hdab", "--scale", "0,65535", path("deep.png"))
    low = scale(deep, 0, 65535, 255).astype(np.uint8)
    difference = np.abs(item_samples(out).astype(int) -
                        separate_stain(low, [(0.650, 0.704, 0.286), (0.268, 0.570, 0.776)], 1))
    ok(r.returncode == 0 and difference.max() <= 1, "a stain of RGB 16", r.stderr)
    for text in ("5", "5,", ",5", "3,3", "4,3", "1,nan", "1,inf", "1,2,3", "a,b"):
        r = pack(out, "--scale=" + text, path("deep.png"))
        ok(r.returncode == 1 and "--scale " + text in r.stderr, "--scale %s: refused" % text,
           r.stderr)
    r = pack(out, *ROI, "--mask", tiff("m.tif", np.where(GREY > 99, 0.5, 0).astype("f4")),
             tiff("g.tif", GREY))
    ok(r.returncode == 0 and np.array_equal(item_samples(out, key="mask"),
                                            np.where(GREY > 99, 255, 0)), "a mask of floats",
       r.stderr)


def test_channels():
    """Channels as samples of a pixel or as pages; points in time; several series in an OME-TIFF;
    slices of several stacks in a folder."""
    if tifffile is None:
        skip("channels", "no tifffile")
        return
    out = path("channel.zip")
    five = RNG.integers(0, 65536, (37, 53, 5), dtype=np.uint16)
    contig = tiff("five.tif", five, photometric="minisblack", planarconfig="contig")
    planar = tiff("planes.tif", np.moveaxis(five, 2, 0), photometric="minisblack",
                  planarconfig="separate")
    tiles = tiff("tiles.tif", np.moveaxis(five, 2, 0), photometric="minisblack",
                 planarconfig="separate", tile=(16, 16))
    check_refused("five samples a pixel", contig,
                  "has 5 samples a pixel; --channel N takes one of them")
    for k in range(5):
        for f in (contig, planar, tiles):
            r = pack(out, "--channel", k + 1, f)
            ok(r.returncode == 0 and r.stderr == "" and np.array_equal(item_samples(out),
                                                                       five[:, :, k]),
               "channel %d of %s" % (k + 1, os.path.basename(f)), r.stderr)
    with tifffile.TiffFile(planar) as t:
        offsets = t.pages[0].dataoffsets
    with open(planar, "r+b") as f:
        f.truncate(offsets[3])
    r = pack(out, "--channel", 3, planar)
    ok(r.returncode == 0 and np.array_equal(item_samples(out), five[:, :, 2]),
       "a plane of a file that is truncated after it", r.stderr)
    check_refused("a plane after the file's end", planar, "TIFF", "--channel", "4")
    Image.fromarray(COLOUR).quantize(64).save(path("palette.tif"))
    r = pack(out, "--channel", "green", path("palette.tif"))
    ok(r.returncode == 0 and np.array_equal(
        item_samples(out), np.asarray(Image.open(path("palette.tif")).convert("RGB"))[:, :, 1]),
       "a colour of a palette", r.stderr)
    for name in ("red", "blue"):
        for f in (contig,
                  tiff("two.tif", five[:, :, :2], photometric="minisblack", planarconfig="contig"),
                  tiff("two_pages.tif", np.moveaxis(five[:, :, :2], 2, 0), imagej=True,
                       metadata={"axes": "CYX"})):
            check_refused("%s of %s" % (name, os.path.basename(f)), f,
                          "which are not red, green and blue; --channel N, from 1", "--channel",
                          name)
    r = wu("analyse", "--analysis", "cellcount", "--channel", 2, "-o", path("no_channel"),
           save_all("grey", {"g8.png": GREY}) + "/g8.png")
    ok(r.returncode == 2 and "g8.png: is grey, but --channel is for colours" in r.stderr,
       "analyse states the reason if no input is left", r.stderr)
    for c, name in enumerate(("red", "green", "blue", None)):
        one = np.where(np.arange(3) == c, COLOUR,
                       COLOUR // 20 if c == 0 else 0).astype(np.uint8) if name else COLOUR
        for stack in ([one], [one, one]):
            tifffile.imwrite(path("one.tif"), np.stack(stack) if len(stack) > 1 else one,
                             photometric="rgb")
            r = pack(out, path("one.tif"))
            ok(r.returncode == 0 and
               (("has only %s" % name) in r.stderr and ("--channel %s uses" % name) in r.stderr
                if name else "has only" not in r.stderr),
               "pack --channel %s of colour pictures (None: without --channel), pages: %d" %
               (name, len(stack)), r.stderr)
    Image.fromarray(COLOUR[:, :, 0]).save(path("silent.tif"), save_all=True,
                                          append_images=[Image.fromarray(COLOUR[:, :, i])
                                                         for i in (1, 2)])
    r = pack(out, path("silent.tif"))
    ok(r.returncode == 0 and item_samples(out).shape[0] == 3 and
       r.stderr.count("does not say what its pages are: taken as slices") == 1,
       "pages without metadata are slices, with a note", r.stderr)
    r = wu("pack", "--analysis", "cellcount", "-o", out, path("silent.tif"))
    ok(r.returncode == 2 and "is a stack; cellcount takes pictures" in r.stderr and
       "--channel N" in r.stderr, "cellcount's error for a stack names --channel", r.stderr)
    r = pack(out, "--channel", 2, path("silent.tif"))
    ok(r.returncode == 0 and np.array_equal(item_samples(out), COLOUR[:, :, 1]) and
       "taken as channels" in r.stderr, "pages without metadata are channels with --channel",
       r.stderr)
    check_refused("channel 4 of three pages", path("silent.tif"), "has 3 channels; 4 is none",
                  "--channel",
                  "4")
    check_refused("channel 6 of five", contig, "has 5 channels; 6 is none of them", "--channel",
                  "6")
    whole = RNG.integers(0, 256, (2, 3, 4, 20, 30), dtype=np.uint8)      # times, slices, channels
    kinds = [("ImageJ", tiff("h.tif", whole, imagej=True, metadata={"axes": "TZCYX"}), whole)]
    for order in ("TZC", "TCZ", "CTZ", "CZT", "ZCT", "ZTC"):
        moved = np.transpose(whole, ["TZC".index(a) for a in order] + [3, 4])
        kinds.append(("OME " + order, tiff("h%s.ome.tif" % order, moved, photometric="minisblack",
                                           metadata={"axes": order + "YX"}), whole))
    for name, f, expected in kinds:
        base = os.path.basename(f)[:-4]
        for c in (1, 4):
            r = pack(out, "--channel", c, f)
            items = job_of(out)["items"] if r.returncode == 0 else []
            good = [i["name"] for i in items] == [base + "_t1", base + "_t2"]
            ok(good and all(np.array_equal(item_samples(out, t), expected[t, :, c - 1])
                            for t in range(2)), "%s: channel %d, each time a stack" % (name, c),
               r.stderr)
        check_refused(name + " without a channel", f, "holds 4 channels as pages; --channel N")
        check_refused(name + ", channel 5", f, "has 4 channels; 5 is none", "--channel", "5")
    times = RNG.integers(0, 256, (12, 20, 30), dtype=np.uint8)
    r = pack(out, tiff("film.ome.tif", times, photometric="minisblack", metadata={"axes": "TYX"}))
    items = job_of(out)["items"] if r.returncode == 0 else []
    ok(r.stderr == "" and [i["name"] for i in items] ==
       ["film.ome_t%02d" % (i + 1) for i in range(12)] and "image" in items[0] and
       items[3]["source"].endswith("film.ome.tif")
       and all(np.array_equal(item_samples(out, t), times[t]) for t in range(12)),
       "each of 12 points in time becomes an item", r.stderr)
    for option in ([], ["--skip-bad"]):
        r = pack(out, *ROI, *option, path("film.ome.tif"))
        ok(r.returncode == 2 and r.stderr.count("has no mask") == 1,
           "one note for all points in time", r.stderr)
    save_all("film_masks", {"film.ome_t%02d.png" % (i + 1): (times[i] > 9 * i).astype(np.uint8)
                            for i in range(12)})
    r = pack(out, *ROI, "--mask", path("film_masks"), path("film.ome.tif"))
    ok(r.returncode == 0 and all(np.array_equal(item_samples(out, t, "mask") > 0, times[t] > 9 * t)
                                 for t in range(12)), "a mask for each point in time", r.stderr)
    labels = ["day %d" % i for i in range(12)]
    save_all("film_called",
             {c + ".png": (times[i] > 9 * i).astype(np.uint8) for i, c in enumerate(labels)})
    for names in (labels, labels[1:], labels + ["x"]):
        with open(path("called.txt"), "w") as f:
            f.write("\n".join(names) + "\n")
        r = pack(out, *ROI, path("film.ome.tif"), "--names", f.name, "--mask", path("film_called"))
        ok(r.returncode == 0 and [i["name"] for i in job_of(out)["items"]] ==
           [c.replace(" ", "_") for c in labels]
           and all(np.array_equal(item_samples(out, t, "mask") > 0, times[t] > 9 * t)
                   for t in range(12)) if names == labels else
           r.returncode == 2 and "has %d lines, but there are 12 items" % len(names) in r.stderr,
           "%d names for 12 points in time" % len(names), r.stderr)
    r = pack(out, path("film.ome.tif"), "--names", path("nowhere.txt"))
    ok(r.returncode == 2 and "nowhere.txt: cannot be opened" in r.stderr,
       "a file of names that does not exist", r.stderr)
    r = pack(out, "--channel", 2, tiff("rgb.ome.tif", np.stack([COLOUR, COLOUR[::-1]]),
                                       photometric="rgb", metadata={"axes": "ZYXS"}))
    ok(r.returncode == 0 and np.array_equal(item_samples(out),
                                            np.stack([COLOUR, COLOUR[::-1]])[..., 1]),
       "OME whose channels are the colours", r.stderr)
    with tifffile.TiffWriter(path("two.ome.tif"), ome=True) as w:
        for _ in range(2):
            w.write(times[:3], photometric="minisblack", metadata={"axes": "ZYX"})
    check_refused("OME of two series", path("two.ome.tif"), "holds 2 pictures (series of OME)")
    data = open(kinds[1][1], "rb").read()
    for name, old, new, why in (
            ("more than there is", b'SizeZ="3"', b'SizeZ="4"', "of these is missing"),
            ("without end", b'SizeT="2"', b'SizeT="99999999999999999999"', "too many planes"),
                                ("zero", b'SizeC="4"', b'SizeC="0"', "SizeC, SizeT or SizeZ of 0")):
        ok(data.count(old) == 1, "the file contains " + old.decode())
        with open(path("hurt.ome.tif"), "wb") as f:
            f.write(tiff_with_text(data, old, new))
        check_refused("OME: " + name, path("hurt.ome.tif"), why, "--channel", "1")
    plain = ('<OME xmlns="x"><Image><Pixels DimensionOrder="XYCZT" SizeC="2" SizeT="1" '
             'SizeZ="3">%s</Pixels></Image></OME>')
    parts = "".join('<TiffData FirstC="%d" FirstT="0" FirstZ="%d" IFD="%d" PlaneCount="1"/>' %
                    (i % 2, i // 2, i) for i in range(6))
    for text, good in ((parts, True), (parts.replace('IFD="2"', 'IFD="3"'), False)):
        f = tiff("order.tif", times[:6], photometric="minisblack", description=plain % text,
                 metadata=None)
        r = pack(out, "--channel", "2", f)
        ok((r.returncode == 0 and np.array_equal(item_samples(out), times[1:6:2])) if good
           else "names one page for two planes" in r.stderr, "OME that lists its pages: %s" %
           ("each once" if good else "one twice"),
           r.stderr)
    slices = {"b_z%d.png" % i: times[i] for i in range(1, 12)}
    slices.update({"a_z%d.png" % i: 255 - times[i] for i in range(1, 12)})
    save_all("series", slices)
    r = pack(out, "--stack", path("series"))
    items = job_of(out)["items"] if r.returncode == 0 else []
    ok([i["name"] for i in items] == ["a", "b"] and items[0]["source"] == "series/a_z*" and
       "are of 2 stacks" in r.stderr
       and np.array_equal(item_samples(out, 0), 255 - times[1:]) and
       np.array_equal(item_samples(out, 1), times[1:]), "slices of two stacks in a folder",
       r.stderr)
    save_all("leica",
             {"x_z%02d_ch%02d.png" % (z, c): times[2 * z + c] for z in range(3) for c in range(2)})
    save_all("leica_masks",
             {"x_ch%02d/%d.png" % (c, z): times[z] for z in range(3) for c in range(2)})
    r = pack(out, *ROI, "--stack", "--mask", path("leica_masks"), path("leica"))
    ok(r.returncode == 0 and [i["name"] for i in job_of(out)["items"]] == ["x_ch00", "x_ch01"]
       and np.array_equal(item_samples(out, 1), times[1:6:2]),
       "the number after z in a file's name is the slice", r.stderr)
    save_all("one", {"s%d_of_3.png" % i: times[i] for i in range(3)})
    r = pack(out, "--stack", path("one"))
    ok(r.returncode == 0 and [i["name"] for i in job_of(out)["items"]] == ["one"],
       "slices of one stack", r.stderr)


def tiff_with_text(data, old, new):
    """The bytes of a TIFF made from the TIFF `data`, with `old` replaced by `new` in its
    description."""
    with tifffile.TiffFile(io.BytesIO(data)) as t:
        text = t.pages[0].description.replace(old.decode(), new.decode())
        pages = t.asarray().reshape((-1,) + t.pages[0].shape)
    f = tiff("other.tif", pages, photometric="minisblack", description=text.encode(), metadata=None)
    return open(f, "rb").read()


def nifti(name, array, unit=2, size=(1, 1, 1), slope=0, offset=0, big=False, code=None, **change):
    """Writes a NIfTI-1 file of the array [.., z, y, x], by the definition of the format. change:
    b<offset in the header>=the bytes to write at this offset."""
    codes = {"u1": 2, "i2": 4, "i4": 8, "f4": 16, "f8": 64, "i1": 256, "u2": 512, "u4": 768,
             "i8": 1024, "u8": 1280}
    order = ">" if big else "<"
    rgb = code == 128
    dims = list(array.shape[::-1])[1 if rgb else 0:]
    head = bytearray(352)
    struct.pack_into(order + "i", head, 0, 348)
    struct.pack_into(order + "8h", head, 40, len(dims), *(dims + [1] * (7 - len(dims))))
    struct.pack_into(order + "hh", head, 70, code or codes[array.dtype.str[1:]],
                     array.dtype.itemsize * 8 * (3 if rgb else 1))
    struct.pack_into(order + "4f", head, 76, 1, *size)
    struct.pack_into(order + "3f", head, 108, 352, slope, offset)
    head[123] = unit
    head[344:348] = b"n+1\0"
    for key, value in change.items():
        head[int(key[1:]):int(key[1:]) + len(value)] = value
    body = bytes(head) + array.astype(array.dtype.newbyteorder(order)).tobytes()
    with open(path(name), "wb") as f:
        f.write(gzip.compress(body, mtime=0) if name.endswith(".gz") else body)
    return path(name)


def test_nifti():
    out = path("nifti.zip")
    stack = RNG.integers(0, 256, (5, 20, 30)).astype(np.int32)
    stack[0, 0, 0] = 255      # so that all 8 bits are in use
    deep = stack * 128
    for kind in ("u1", "i1", "u2", "i2"):
        for name, big in (("n.nii", False), ("n.nii.gz", False), ("n.nii.gz", True)):
            array = (deep if kind[1] == "2" else stack // (2 if kind == "i1" else 1)).astype(kind)
            check_packed("NIfTI of %s in %s%s" % (kind, name, ", big-endian" if big else ""),
                         nifti(name, array, big=big, unit=0), array)
    check_packed("NIfTI of one slice", nifti("n.nii", stack[0].astype("u1")), stack[0].astype("u1"))
    check_packed("NIfTI of one row", nifti("n.nii", stack[0, 0].astype("u1"), unit=0),
                 stack[0, :1].astype("u1"))
    check_packed("NIfTI with a slope of 1", nifti("n.nii", deep.astype("u2"), slope=1, unit=0),
                 deep.astype("u2"))
    check_packed("NIfTI with a slope that is NaN",
                 nifti("n.nii", deep.astype("u2"), slope=np.nan, unit=0), deep.astype("u2"))
    rgb = RNG.integers(0, 256, (20, 30, 3), dtype=np.uint8)
    check_packed("NIfTI of RGB", nifti("n.nii.gz", rgb, code=128, unit=0), rgb)
    for kind in ("i4", "u4", "f4", "f8", "i8", "u8"):
        for big in (False, True):
            f = nifti("n.nii.gz", stack.astype(kind), big=big, slope=0.5, offset=-3, unit=0)
            r = pack(out, "--scale", "0,100", f)
            ok(r.returncode == 0 and np.array_equal(item_samples(out),
                                                    scale(stack * 0.5 - 3, 0, 100, 65535)),
               "NIfTI of %s, scaled" % kind, r.stderr)
    check_refused("NIfTI with a slope, unscaled", f, "has samples with a slope, from %g to %g" %
                  (stack.min() * 0.5 - 3, stack.max() * 0.5 - 3))
    check_refused("NIfTI of floats, unscaled", nifti("n.nii", stack.astype("f4")),
                  "has floating-point samples, from")
    r = pack(out, nifti("brain.nii.gz", stack.astype("u1"), size=(0.5, 0.25, 2)))
    ok(r.returncode == 0 and job_of(out)["items"][0]["spacing"] == [2000, 250, 500] and
       job_of(out)["items"][0]["name"] == "brain", "NIfTI: size of a voxel in millimetres",
       r.stderr)
    r = pack(out, nifti("n.nii.gz", stack.astype("u1"), unit=3, size=(0.5, 0.25, 2)))
    ok(r.returncode == 0 and job_of(out)["items"][0]["spacing"] == [2, 0.25, 0.5],
       "NIfTI: size of a voxel in micrometres", r.stderr)
    four = RNG.integers(0, 256, (2, 3, 4, 20, 30), dtype=np.uint8)      # channels, times, slices
    r = pack(out, "--channel", "2", nifti("four.nii.gz", four, unit=0))
    ok(r.returncode == 0 and [i["name"] for i in job_of(out)["items"]] ==
       ["four_t1", "four_t2", "four_t3"]
       and all(np.array_equal(item_samples(out, t), four[1, t]) for t in range(3)),
       "points in time and channels of NIfTI", r.stderr)
    labels = (stack[:, :, :] // 64).astype("f4")
    nifti("grey.nii", stack.astype("u1"), unit=0)
    r = wu("pack", "--analysis", "objects", "--labels", nifti("labels.nii.gz", labels), "-o", out,
           path("grey.nii"))
    ok(r.returncode == 0 and np.array_equal(item_samples(out, key="labels"), labels),
       "a NIfTI file of floats as label picture", r.stderr)
    base = stack.astype("u1")
    for name, change, why in (
            ("its magic", {"b344": b"abcd"}, "does not say NIfTI"),
            ("two files", {"b344": b"ni1\0"}, "in two files"),
            ("no axes", {"b40": b"\0\0"}, "less than one axis"),
            ("eight axes", {"b40": b"\x08\0"}, "more than seven"),
            ("an axis of 0", {"b42": b"\0\0"}, "an axis has no length"),
            ("a negative axis", {"b44": b"\xff\xff"}, "an axis has no length"),
            ("too much", {"b42": b"\xff\x7f" * 3}, "ends too early"),
            ("without end", {"b40": b"\x05\0" + b"\xff\x7f" * 5}, "has more than 16777216 slices"),
            ("a sixth axis", {"b40": b"\x06\0", "b44": b"\x02\0", "b52": b"\x02\0"},
             "the sixth or seventh"), ("a type", {"b70": b"\x20\0"}, "samples of NIfTI's type 32"),
            ("place", {"b108": struct.pack("<f", 100)}, "begin where they cannot"),
            ("place NaN", {"b108": struct.pack("<f", np.nan)}, "begin where they cannot"),
            ("place 1e30", {"b108": struct.pack("<f", 1e30)}, "begin where they cannot"),
            ("place beyond", {"b108": struct.pack("<f", 1e6)}, "ends too early"),
            ("intercept", {"b112": struct.pack("<2f", 2, np.inf)}, "is not a number")):
        check_refused("NIfTI: " + name, nifti("bad.nii", base, **change), why)
        if name not in ("too much", "place beyond"):
            check_refused("NIfTI in gzip: " + name, nifti("bad.nii.gz", base, **change), why)
    for f in ("cut.nii", "cut.nii.gz"):
        whole = open(nifti(f, base, unit=0), "rb").read()
        for cut in (5, 200, len(whole) // 2, len(whole) - 1):
            with open(path(f), "wb") as out_file:
                out_file.write(whole[:cut])
            check_refused("NIfTI %s cut at %d" % (f, cut), path(f),
                          "damaged NIfTI" if cut < len(whole) - 1 or f == "cut.nii" else "damaged")
    with open(path("hurt.nii.gz"), "wb") as f:
        f.write(whole[:-6] + bytes([whole[-6] ^ 1]) + whole[-5:])
    check_refused("NIfTI whose CRC is wrong", path("hurt.nii.gz"), "damaged NIfTI")
    with open(path("text.nii.gz"), "wb") as f:
        f.write(gzip.compress(b"no picture " * 100))
    check_refused("another file in gzip", path("text.nii.gz"), "does not contain a NIfTI picture")
    brain = data("levelset/colin27_ch2.nii.gz")
    if brain is not None:
        raw = gzip.open(brain).read()
        r = pack(out, brain)
        ok(r.returncode == 0 and np.array_equal(item_samples(out).ravel(),
                                                np.frombuffer(raw, np.uint8, offset=352)),
           "an MRI scan of a head is packed unchanged", r.stderr)


def can_compress():
    try:
        tifffile.imwrite(path("try.tif"), GREY16, compression="zlib", predictor=True)
        return True
    except Exception:
        return False


def spacing_of(r, out):
    return job_of(out)["items"][0].get("spacing") if r.returncode == 0 else r.stderr


def test_sizes():
    """The size of a pixel, from every kind of file that contains one, and the notes about it."""
    if tifffile is None:
        skip("sizes of pixels", "no tifffile")
        return
    out = path("size.zip")
    stack = RNG.integers(0, 256, (4, 37, 53), dtype=np.uint8)

    def imagej(name, array, axes, pixels, **metadata):
        return tiff(name, array, imagej=True, resolution=pixels, metadata=dict(metadata, axes=axes))

    def phys(name, x, y, unit=1):
        return write_png(name, GREY, 8, 0, [(b"pHYs", struct.pack(">IIB", x, y, unit))])

    inch = {"resolutionunit": "INCH"}
    for name, picture, expected in (
            ("ImageJ, micron", imagej("s1.tif", GREY, "YX", (5, 4), unit="micron"), [0.25, 0.2]),
            ("ImageJ, um", imagej("s2.tif", GREY, "YX", (1 / 0.065, 1 / 0.065), unit="um"),
             [0.065, 0.065]),
            ("ImageJ, \\u00B5m", imagej("s3.tif", GREY, "YX", (2, 2), unit="\\u00B5m"), [0.5, 0.5]),
            ("ImageJ, nm", imagej("s4.tif", GREY, "YX", (0.01, 0.01), unit="nm"), [0.1, 0.1]),
            ("ImageJ, inch, of print", imagej("s5.tif", GREY, "YX", (72, 72), unit="inch"), None),
            ("ImageJ, pixel", imagej("s6.tif", GREY, "YX", (1, 1), unit="pixel"), None),
            ("ImageJ, a stack", imagej("s7.tif", stack, "ZYX", (5, 4), unit="micron", spacing=1.5),
             [1.5, 0.25, 0.2]),
            ("ImageJ, a stack without z", imagej("s8.tif", stack, "ZYX", (5, 4), unit="micron"),
             None),
            ("OME, a stack", tiff("s9.ome.tif", stack, photometric="minisblack", metadata={
                "axes": "ZYX", "PhysicalSizeX": 200, "PhysicalSizeXUnit": "nm",
                "PhysicalSizeY": 0.25,
                "PhysicalSizeZ": 0.001, "PhysicalSizeZUnit": "mm"}), [1.0, 0.25, 0.2]),
            ("OME, micrometres in UTF-8",
             tiff("s10.ome.tif", GREY, photometric="minisblack", metadata={
                 "axes": "YX", "PhysicalSizeX": 0.3, "PhysicalSizeXUnit": "\u00b5m",
                 "PhysicalSizeY": 0.4}), [0.4, 0.3]),
            ("OME, pixels", tiff("s11.ome.tif", GREY, photometric="minisblack", metadata={
                "axes": "YX", "PhysicalSizeX": 3, "PhysicalSizeXUnit": "pixel",
                "PhysicalSizeY": 4}), None),
            ("tags, centimetres",
             tiff("s12.tif", GREY, resolution=(1e4, 2e4), resolutionunit="CENTIMETER"), [0.5, 1.0]),
            ("tags, inches", tiff("s13.tif", GREY, resolution=(25400, 25400), **inch), [1.0, 1.0]),
            ("tags, 72 dpi", tiff("s14.tif", GREY, resolution=(72, 72), **inch), None),
            ("tags, 118.11 per cm, which is 300 dpi",
             tiff("s15.tif", GREY, resolution=(118.11, 118.11), resolutionunit="CENTIMETER"), None),
            ("tags without a unit", tiff("s16.tif", GREY, resolution=(5, 5), resolutionunit="NONE"),
             None),
            ("tags of nothing", tiff("s17.tif", GREY, resolution=(0, 0), **inch), None),
            ("pHYs", phys("s18.png", 5000000, 4000000), [0.25, 0.2]),
            ("pHYs, 96 dpi", phys("s19.png", 3780, 3780), None),
            ("pHYs without a unit", phys("s20.png", 5000000, 4000000, 0), None),
            ("pHYs of nothing", phys("s21.png", 0, 0), None)):
        r = pack(out, picture)
        ok(spacing_of(r, out) == expected, "size of a pixel: " + name,
           "%s, expected %s; %s" % (spacing_of(r, out), expected, r.stderr))
        stack_note = name.endswith("without z") or "stack" in name
        oblong = not stack_note and expected is not None and expected[0] != expected[1]
        ok((stack_note or oblong) == ("note" in r.stderr) and
           oblong == ("wide, as the file says" in r.stderr),
           name + ": a note only for stacks and pixels that are not square", r.stderr)
    r = pack(out, imagej("s.tif", stack, "ZYX", (5, 4), unit="micron"))
    ok("not how far slices are apart" in r.stderr and "0.25, 0.2 micrometres (y, x)" in r.stderr,
       "a stack without the distance of its slices", r.stderr)
    picture, deep = (imagej("s.tif", GREY, "YX", (5, 4), unit="micron"),
                     imagej("d.tif", stack, "ZYX", (5, 4), unit="micron", spacing=1.5))
    for spacing_text, f, expected, says in (
            ("0.25,0.2", picture, [0.25, 0.2], None),
            ("0.2", picture, [0.2, 0.2], "but --spacing says 0.2, 0.2"),
            ("9,0.25,0.2", picture, [0.25, 0.2], "is a picture, not a stack"),
            ("0.5,0.2", picture, [0.5, 0.2],
             "says that a pixel is 0.25, 0.2 micrometres (y, x), but --spacing says 0.5, 0.2"),
            ("0.2505,0.2", picture, [0.2505, 0.2], None),
            ("1.5,0.25,0.2", deep, [1.5, 0.25, 0.2], None),
            ("2,0.25,0.2", deep, [2.0, 0.25, 0.2],
             "a voxel is 1.5, 0.25, 0.2 micrometres (z, y, x), but --spacing says 2, 0.25, 0.2"),
            ("0.25,0.2", deep, [1.5, 0.25, 0.2], None)):
        r = pack(out, "--spacing", spacing_text, f)
        notes = "".join(line for line in r.stderr.splitlines(True)
                        if "wide, as --spacing Y,X says" not in line)
        ok(spacing_of(r, out) == expected and
           (notes == "" if says is None else says in notes and notes.count("\n") == 1)
           and (notes != r.stderr) == (f is picture and spacing_text != "0.2"),
           "--spacing %s with a file that has a pixel size" % spacing_text,
           str(spacing_of(r, out)) +
           r.stderr)
    r = pack(out, "--spacing", "0.25,0.2", tiff("a.tif", stack, photometric="minisblack"))
    ok(r.returncode == 2 and "how far its slices are apart" in r.stderr,
       "--spacing Y,X for a stack", r.stderr)
    r = pack(out, "--spacing", "0.25", deep)
    ok(r.returncode == 2 and "give --spacing Z,Y,X, 0.25,0.25,0.25 if" in r.stderr,
       "one number for a stack", r.stderr)
    r = wu("show", out) if pack(out, picture).returncode == 0 else None
    ok(r is not None and "pixel 0.25, 0.2 um (y, x)" in r.stdout, "show prints the size of a pixel",
       r and r.stdout)

    series = imagej("t.tif", stack, "TYX", (1, 1))
    r = pack(out, "--stack", series, "--spacing", "1,1,1")
    ok(r.returncode == 0 and "t.tif: says that its pages are a series of times" in r.stderr and
       np.array_equal(item_samples(out), stack),
       "--stack takes a time series as a stack", r.stderr)
    r = pack(out, "--stack", tiff("t.ome.tif", stack, photometric="minisblack",
                                  metadata={"axes": "TYX"}), "--spacing", "1,1,1")
    ok(r.returncode == 0 and "series of times" in r.stderr,
       "--stack takes an OME time series as a stack", r.stderr)


def test_micrometres():
    """Tables have columns in micrometres in addition to those in pixels, if the size of a pixel is
    known."""
    spots = np.full((50, 60), 200, np.uint8)
    spots[5:12, 6:15] = spots[18:25, 20:30] = 40
    for spacing_options, suffix in ((["--spacing", "0.5,0.25"], True), ([], False)):
        unit, result, folder = path("um.zip"), path("um.npz"), path("um")
        Image.fromarray(spots).save(path("spots.png"))
        wu("pack", "--analysis", "cellcount", *spacing_options, "-o", unit, path("spots.png"))
        run([TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet"])
        r = wu("export", "--pictures", result, "-o", folder)
        rows = [dict(zip(read_csv(folder, "regions.csv")[0], row))
                for row in read_csv(folder, "regions.csv")[1:]]
        um = {k: [float(row[k]) for row in rows] for k in rows[0] if "_um" in k}
        if not suffix:
            ok(um == {} and r.stderr == "", "no columns in micrometres without a pixel size",
               um)
            continue
        ok(r.stderr == "" and um == {"area_um2": [63 * 0.125, 70 * 0.125], "bbox_y0_um": [2.5, 9],
                                     "bbox_x0_um": [1.5, 5], "bbox_y1_um": [6, 12.5],
                                     "bbox_x1_um": [3.75, 7.5], "centroid_y_um": [4, 10.5],
                                     "centroid_x_um": [2.5, 6.125]}, "regions in micrometres", um)
        r = wu("show", result)
        ok("area_um2" in r.stdout and "7.875" in r.stdout, "show prints areas in um2", r.stdout)
        with np.load(result) as z:
            ok(np.array_equal(z["item_spacing"], [[np.nan, 0.5, 0.25]], equal_nan=True),
               "the result contains the pixel size", z["item_spacing"])
    r = wu("pack", "--analysis", "voting", "--param", "radius=4", "--param", "polarity=dark",
           "--spacing", "0.5,0.25", "-o", path("um.zip"), path("spots.png"))
    run([TEXCELL, "run", path("um.zip"), "-o", path("um.npz"), "--device", "cpu", "--quiet"])
    wu("export", path("um.npz"), "-o", path("um"))
    rows = read_csv(path("um"), "points.csv")
    ok(rows[0] == ["item", "source", "y", "x", "y_um", "x_um", "score"] and len(rows) > 1
       and all(float(r[4]) == float(r[2]) / 2 and float(r[5]) == float(r[3]) / 4 for r in rows[1:]),
       "points in micrometres", rows[:2])


def test_um_parameters():
    """Lengths, areas and volumes that are given in micrometres become pixels in the work unit, or
    are refused with the reason."""
    out, flat, deep = path("ump.zip"), path("flat.png"), path("deep.tif")
    Image.fromarray(SMOOTH).save(flat)
    pages = [Image.fromarray(SMOOTH)] * 6
    pages[0].save(deep, save_all=True, append_images=pages[1:])
    for analysis, key, text, spacing, picture, pixels in (
            ("voting", "radius", "12um", "0.5,0.5", flat, 24),
            ("voting", "radius", "4000nm", "0.3,0.3", flat, 13.3333),
            ("voting", "radius", "6 um", "0.5,0.25,0.25", deep, 6),
            ("voting", "sigma", "0.5um", "0.5,0.25,0.25", deep, 2),
            ("cellcount", "min_area", "50um2", "0.5,0.25", flat, 400),
            ("cellcount", "max_area", "0.01mm^2", "0.5,0.5", flat, 40000),
            ("cellcount", "min_area", "\u00b5m\u00b2", "0.5,0.5", flat, None),
            ("cellcount", "min_area", "7.7\u00b5m\u00b2", "1,1", flat, 8),
            ("volume", "min_voxels", "9um3", "0.5,0.25,0.25", deep, 288),
            ("glcm", "window", '{"radius": "3um"}', "0.5,0.5", flat, {"radius": 6})):
        mandatory = ["--param", "radius=5"] if analysis == "voting" and key != "radius" else [
            "--param", "membrane=9"] if analysis == "volume" else []
        r = wu("pack", "--analysis", analysis, *mandatory, "--param", key + "=" + text, "--spacing",
               spacing, "-o", out, picture)
        if pixels is None:
            ok(r.returncode != 0, "no number before the unit: refused", r.stderr)
            continue
        ok(r.returncode == 0 and job_of(out)["parameters"][key] == pixels and
           (text[:4] in r.stderr or key == "window"),
           "%s %s: %s of %s" % (analysis, key, text, spacing),
           "%s %s" % (r.stderr, r.returncode == 0 and job_of(out)["parameters"]))
    other = path("other.png")
    Image.fromarray(SMOOTH).save(other)
    close, far = (write_png(n, GREY, 8, 0, [(b"pHYs", struct.pack(">IIB", p, p, 1))])
                  for n, p in (("s_near.png", 5000000), ("s_far.png", 2500000)))
    for args, why in (([flat], "does not say how large a pixel is"),
                      (["--spacing", "0.5,0.25", flat], "different lengths along the axes"),
                      ([close, far], "separate work units"),
                      (["--param", "radius=12um2", "--spacing", "1,1", flat],
                       "it is a length: 12um"),
                      (["--param", "radius=12miles", "--spacing", "1,1", flat], "radius"),
                      (["--param", "sigma=-1um", "--spacing", "1,1", flat], "sigma"),
                      (["--param", "radius=1e308mm", "--spacing", "1,1", flat], "is too large")):
        r = wu("pack", "--analysis", "voting", "--param", "radius=12um", "-o", path("none.zip"),
               *args)
        ok(r.returncode == 2 and why in r.stderr and not os.path.exists(path("none.zip")),
           "micrometres refused: " + why, r.stderr)
    r = wu("pack", "--analysis", "voting", "--param", "radius=12um", "-o", out, close)
    ok(r.returncode == 0 and job_of(out)["parameters"]["radius"] == 60,
       "micrometres become pixels by the file's pixel size",
       r.stderr)


def separate_stain(rgb, rows, stain):
    """Samples of the stain with index `stain` by scikit-image's colour deconvolution, 170 grey
    levels per unit of optical density. rows: an RGB vector of each stain; a third one that is
    missing is the cross product of the two."""
    from skimage import color
    rows = np.array(rows if len(rows) == 3 else [*rows, np.cross(*rows)], float)
    return np.clip(np.round(170 * 6 * color.separate_stains(rgb, np.linalg.inv(rows))[:, :, stain]),
                   0, 255)


def test_colours():
    h, e, d = (0.650, 0.704, 0.286), (0.072, 0.990, 0.105), (0.268, 0.570, 0.776)
    own_stains = {"one": [0.5, 0.7, 0.2], "two": [0.1, 0.4, 0.9], "three": [0.8, 0.1, 0.1]}
    with open(path("stains.json"), "w") as f:
        json.dump(own_stains, f)
    pictures = {"noise": COLOUR, "cube": np.stack(np.meshgrid(*[np.arange(0, 256, 15)] * 3),
                                                  -1).reshape(18, -1, 3).astype(np.uint8)}
    try:
        from skimage import data as samples
        pictures["ihc"] = samples.immunohistochemistry()
    except Exception:
        note("no picture of scikit-image")
    for name, file in (("smear", "count/chula_1.jpg"),
                       ("blood", "count/bccd_BloodImage_00000.jpg")):
        if data(file) is not None:
            pictures[name] = np.asarray(Image.open(data(file)))[:300, :400]
    out = path("colour.zip")
    for name, rgb in pictures.items():
        f = path("rgb_%s.png" % name)
        Image.fromarray(np.ascontiguousarray(rgb)).save(f)
        for channel_name, k in (("red", 0), ("2", 1), ("blue", 2), ("3", 2)):
            r = pack(out, "--channel", channel_name, f)
            ok(r.returncode == 0 and np.array_equal(item_samples(out), rgb[:, :, k]),
               "%s: --channel %s" % (name, channel_name), r.stderr)
        r = pack(out, "--channel", "grey", f)
        ok(r.returncode == 0 and np.array_equal(item_samples(out), rgb.astype(int).sum(2) // 3),
           name + ": --channel grey", r.stderr)
        for stains, rows, names in (("he", [h, e], ["hematoxylin", "eosin"]),
                                    ("hdab", [h, d], ["hematoxylin", "dab"]),
                                    (path("stains.json"), list(own_stains.values()),
                                     list(own_stains))):
            for k, stain in enumerate(names):
                r = pack(out, "--stain", stain, "--stains", stains, f)
                if not ok(r.returncode == 0, "%s: --stain %s" % (name, stain), r.stderr):
                    continue
                difference = np.abs(item_samples(out).astype(int) - separate_stain(rgb, rows, k))
                ok(difference.max() <= 1 and (difference > 0).mean() < 0.01,
                   "%s: %s as scikit-image computes it" % (name, stain), "%g, %g of %g" % (
                       difference.max(), (difference > 0).mean(), difference.size))
    f, grey = path("rgb_noise.png"), path("g8.png")
    save_all("coloured", {"%d.png" % i: np.roll(COLOUR, i, 0) for i in range(3)})
    r = pack(out, "--stack", "--channel", "green", path("coloured"))
    ok(r.returncode == 0 and r.stderr == "" and
       np.array_equal(item_samples(out), [np.roll(COLOUR, i, 0)[:, :, 1] for i in range(3)]),
       "a channel of a stack", r.stderr)
    r = pack(out, "--channel", "green", "--skip-bad", f, grey)
    ok(r.returncode == 0 and "g8.png: is grey" in r.stderr and len(job_of(out)["items"]) == 1,
       "a grey picture has no channel", r.stderr)
    for text, why in (("[1]", "two or three"), ('{"a": [1, 0, 0]}', "two or three"),
                      ('{"a": [1, 2, 3], "b": [2, 4, 6]}', "too much alike"),
                      ('{"a": [1, 2], "b": [2, 4, 6]}', "two or three"),
                      ('{"a": [1, 2, "x"], "b": [2, 4, 6]}', "two or three"),
                      ('{"a": [1, 2, 1e300], "b": [2, 4, 6]}', "two or three"), ("{", "line 1")):
        with open(path("bad.json"), "w") as file:
            file.write(text)
        r = pack(out, "--stain", "a", "--stains", path("bad.json"), f)
        ok(r.returncode == 2 and why in r.stderr and r.stderr.count("\n") == 1,
           "stains refused: " + text, r.stderr)
    for args, code, why in ((["--stain", "dab"], 1, "go together"),
                            (["--stains", "he"], 1, "go together"),
                            (["--channel", "4"], 2, "has 3 channels; 4 is none of them"),
                            (["--channel", "0"], 1, "--channel 0"),
                            (["--channel", "1x"], 1, "--channel 1x"),
                            (["--stain", "dab", "--stains", "he"], 1, "hematoxylin, eosin"),
                            (["--stain", "dab", "--stains", "hdab", "--channel", "red"], 1,
                             "exclude"),
                            (["--stain", "dab", "--stains", "nothing.json"], 2, "nothing.json"),
                            (["--stain", "dab", "--stains", "hdab", grey], 2, "is grey")):
        r = pack(out, *args, f)
        ok(r.returncode == code and why in r.stderr, " ".join(args[:4]) + ": refused", r.stderr)


def test_orientation():
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = []
    for end, options in (("jpg", {"exif": exif}), ("png", {"exif": exif}),
                         ("tif", {"tiffinfo": {0x0112: 6}})):
        turned.append(path("turned." + end))
        Image.fromarray(SMOOTH).save(turned[-1], **options)
    for f in turned:
        check_packed("a picture to be shown turned, " + f[-3:], f, as_read(f) if f[-3:] == "jpg"
                     else SMOOTH,
                     "rotate or mirror it for display; texcell takes the pixels as they")
    r = pack(path("turned.zip"), *turned)
    ok("turned.jpg (and 2 more): " in r.stderr and r.stderr.count("orientation tag") == 1,
       "one note about all turned pictures", r.stderr)
    exif[0x0112] = 1
    Image.fromarray(SMOOTH).save(turned[0], exif=exif)
    check_packed("a picture to be shown as it is stored", turned[0], as_read(turned[0]))
    exif[0x0112] = 6
    block = exif.tobytes()
    block = block[6:] if block[:4] == b"Exif" else block
    with open(write_png("behind.png", SMOOTH, 8, 0), "r+b") as f:
        f.seek(-12, os.SEEK_END)
        f.write(png_chunk(b"eXIf", block) + png_chunk(b"IEND", b""))
    check_packed("a PNG whose orientation follows its samples", path("behind.png"), SMOOTH,
                 "rotate or mirror it for display")
    # A damaged Exif block is no reason to refuse the picture.
    for i, bad in enumerate([b"", b"II", b"II*\0\xff\xff\xff\xff", b"MM\0*\0\0\0\x08\xff\xff",
                             block[:13], b"II*\0\xfe\xff\xff\xff" + block,
                             block.replace(b"\6\0", b"\xff\xff"), b"\0" * 4000,
                             RNG.integers(0, 256, 5000, dtype=np.uint8).tobytes()]):
        f = write_png("exif.png", GREY, 8, 0, [(b"eXIf", bad)])
        r = pack(path("turned.zip"), f)
        ok(r.returncode == 0 and r.stderr == "", "damaged Exif, %d" % i, r.stderr)


def test_not_pictures():
    for name, body in (("empty.png", b""), ("text.png", b"not a picture\n"),
                       ("gif.tif", b"GIF89a" + b"\0" * 50),
                       ("short.png", b"\x89PNG\r\n\x1a\n"), ("magic.jpg", b"\xff\xd8\xff"),
                       ("magic.tif", b"II*\0")):
        f = path(name)
        with open(f, "wb") as out:
            out.write(body)
        check_refused(name, f, "")
    for magic, what in ((b"%PDF-1.7", "a PDF document, not a PNG, JPEG, TIFF or NIfTI "
                         "picture; save its"), (b"GIF89a..", "a GIF picture"),
                        (b"ZISRAWFILE", "a CZI file of Zeiss"),
                        (b"\x1f\x8b\x08" + b"x" * 400, "damaged NIfTI"),
                        (b"PK\3\4....", "a ZIP archive")):
        with open(path("what.tif"), "wb") as out:
            out.write(magic)
        check_refused("a file that is " + what[:14], path("what.tif"), what)
    check_refused("a file that does not exist", path("nothing.png"), "No such file")
    os.makedirs(path("hollow"), exist_ok=True)
    check_refused("an empty folder", path("hollow"), "no .png")
    f = path("misnamed.jpg")
    Image.fromarray(GREY).save(f, format="PNG")
    check_packed("a PNG called .jpg", f, GREY)
    one = path("one.png")
    Image.fromarray(GREY[:1, :1].copy()).save(one)
    check_packed("1 x 1", one, GREY[:1, :1])


def test_damage():
    """A picture that is cut or changed anywhere is read, or refused with one line; the program
    never crashes."""
    sources = {"d.png": write_png("d.png", GREY, 8, 0)}
    for name in ("d.jpg", "d.tif"):
        Image.fromarray(SMOOTH).save(path(name),
                                     **({"compression": "tiff_lzw"} if name == "d.tif" else {}))
        sources[name] = path(name)
    for name, source in sources.items():
        whole = open(source, "rb").read()
        bad = []
        for i in range(60):
            body = bytearray(whole)
            if i % 3 == 0:
                del body[RNG.integers(1, len(body)):]
            for _ in range(i % 3):
                body[RNG.integers(0, min(len(body), 400))] = RNG.integers(0, 256)
            f = path("hurt_" + name)
            with open(f, "wb") as out:
                out.write(body)
            r = pack(path("hurt.zip"), f)
            lines = r.stderr.strip().split("\n")
            if r.returncode not in (0, 2) or len(lines) != 1 and r.returncode == 2:
                bad.append("%d: %s" % (r.returncode, r.stderr))
            if os.path.exists(path("hurt.zip")):
                os.remove(path("hurt.zip"))
        ok(not bad, "%s damaged in 60 ways is read or refused" % name, "\n".join(bad[:3]))


# --- items --------------------------------------------------------------------------------------

def save_all(folder, pictures):
    for name, array in pictures.items():
        Image.fromarray(array).save(path(os.path.join(folder, name)))
    return path(folder)


def test_names():
    folder = save_all("names", {"b10.png": GREY, "b9.png": GREY, "b010.png": GREY,
                                "a b(1).png": GREY, "ä.png": GREY,
                                "x" * 150 + ".png": GREY, "c.v2.png": GREY})
    open(path("names/notes.txt"), "w").close()
    open(path("names/.hidden.png"), "w").close()
    out = path("names.zip")
    r = pack(out, folder, path("g8.png"), save_all("names2", {"b9.png": GREY}))
    ok(r.returncode == 0 and "left out: notes.txt\n" in r.stderr and ".hidden" not in r.stderr,
       "a folder of pictures, of which hidden files are ignored", r.stderr)
    names = [i["name"] for i in job_of(out)["items"]]
    ok(names == ["a_b_1_", "b9", "b010", "b10", "c.v2", "x" * 128, "__", "g8", "b9_2"],
       "items' names are unique, have only safe characters, and are in natural order", names)
    ok(all(i["image"] == "images/%s.png" % i["name"] for i in job_of(out)["items"]),
       "members are named after items")

    copies = [save_all("copy%d" % i, {"x" * 128 + ".png": GREY, "n_2.png": GREY, "n.png": GREY})
              for i in range(3)]
    r = pack(out, *copies)
    names = [i["name"] for i in job_of(out)["items"]] if r.returncode == 0 else []
    ok(len(set(names)) == 9 and all(len(n) <= 128 for n in names), "nine items, nine names",
       r.stderr + str(names))


def test_about():
    """--about, a text for volunteers, is stored in the work unit and in the result, and run, show
    and report print it."""
    save_all("about", {"p.png": GREY})
    out, result, page = path("about.zip"), path("about.npz"), path("about.html")
    text = "Zählt <b>Zellen</b> in Tropfen. Danke!"
    r = pack(out, "--about", text, path("about/p.png"))
    ok(r.returncode == 0 and job_of(out)["about"] == text, "--about", r.stderr)
    r = run([TEXCELL, "run", out, "-o", result, "--device", "cpu"])
    ok("texcell: about this work: " + text in r.stderr,
       "run prints the text of --about", r.stderr)
    ok(all("\nabout      " + text + "\n" in run([TEXCELL_WU, "show", f]).stdout
           for f in (out, result)), "show prints the text of --about", r.stderr)
    r = run([TEXCELL_WU, "report", result, "--images", out, "-o", page])
    with open(page, encoding="utf-8") as f:
        ok("<p>Zählt &lt;b&gt;Zellen&lt;/b&gt; in Tropfen. Danke!</p>" in f.read(),
           "the page contains the text of --about, escaped", r.stderr)
    for wrong in ("", "x" * 501, "a\nb", "\x1b[2J", os.fsdecode(b"\xff\xfe")):
        r = pack(out, "--about", wrong, path("about/p.png"))
        ok(r.returncode == 1 and "--about" in r.stderr, "--about %.10r is refused" % wrong,
           r.stderr)
    r = pack(out, "--about", "x" * 500, path("about/p.png"))
    ok(r.returncode == 0, "--about of 500 bytes", r.stderr)
    members = zipfile.ZipFile(out)
    for wrong in ("x" * 501, "a\u0007", 7, ""):
        bad = dict(json.loads(members.read("job.json")), about=wrong)
        with zipfile.ZipFile(path("bad_about.zip"), "w") as z:
            for name in members.namelist():
                z.writestr(name, json.dumps(bad) if name == "job.json" else members.read(name))
        r = run([TEXCELL_WU, "show", path("bad_about.zip")])
        ok(r.returncode == 2 and "job.json: about: must" in r.stderr,
           "a work unit whose `about` is %.10r is refused" % (wrong,), r.stderr)


def test_sources():
    """The work unit records the source file of each item: its path below the common parent of the
    given folders, and nothing above. Where possible an item has its file's name, whatever the
    order of the files."""
    for folder, names in (("study/healthy", ("p 2.png", "p_2.png")), ("study/sick", ("p_2.png",)),
                          ("study/sick/deep", ("x.png", "y.png"))):
        save_all(folder, {n: GREY for n in names})
    for name in ("study/sick/notes.txt", "study/sick/.hidden"):
        open(path(name), "w").close()
    os.symlink(path("study"), path("study/sick/deep/around"))
    out, study = path("sources.zip"), path("study")

    def packed(*args):
        r = pack(out, *args)
        return (r, [(i["name"], i["source"]) for i in job_of(out)["items"]] if r.returncode == 0
                else [])

    os.makedirs(path("study/sick/dir.png"))
    r, items = packed(path("study/healthy"), path("study/sick/"))
    ok(items == [("p_2_2", "study/healthy/p 2.png"), ("p_2", "study/healthy/p_2.png"),
                 ("p_2_3", "study/sick/p_2.png")],
       "the unit records each item's source, and an item whose file name is safe has that name",
       str(items) + r.stderr)
    ok("healthy/p 2.png: is called p_2_2 in the tables\n" in r.stderr and
       "sick/p_2.png: is called p_2_3 in the tables\n" in r.stderr
       and "healthy/p_2.png" not in r.stderr and
       "sick/: left out: deep/, dir.png/, notes.txt (--recursive takes" in r.stderr
       and r.stderr.count("\n") == 3, "notes about changed names and files left out",
       r.stderr)
    save_all("accents", {"Zelle \xe4 1.png": GREY})
    r, items = packed(path("accents"))
    ok(r.returncode == 0 and ": is called Zelle_\xe4_1 in the tables\n" in r.stderr,
       "the note has the name that the tables have", r.stderr)
    save_all("case", {n: GREY for n in ("a.png", "A.png", "A_2.png", "B.png")})
    r, items = packed(path("case"))
    ok(len({n.lower() for n, _ in items}) == len(items) == 4 and {"B", "A_2"} <= dict(items).keys()
       and r.stderr.count("is called") == 1, "names that differ in case alone", [items, r.stderr])
    save_all("labelled", {n + ".png": GREY for n in ("a", "a_truth", "b_mask", "c", "c_cp_masks")})
    r, items = packed(path("labelled"))
    ok([n for n, _ in items] == ["a", "b_mask", "c"] and "labelled: left out: 2 files named like "
       "masks or label pictures of others, such as a_truth.png;" in r.stderr,
       "masks and labels next to their pictures are no pictures", r.stderr)
    ok([n for n, _ in packed(path("labelled/a.png"), path("labelled/a_truth.png"))[1]] ==
       ["a", "a_truth"], "a label picture given by its own name is a picture")
    r = run([TEXCELL_WU, "pack", "--analysis", "glcm", "-o", out, "./healthy//p_2.png",
             "../study/healthy/p 2.png"], cwd=study)
    ok([i["source"] for i in job_of(out)["items"]] == ["healthy/p_2.png", "healthy/p 2.png"],
       "relative paths", r.stderr)
    for first, second in (("./healthy", path("study/sick")), (".", "../sick")):
        r = run([TEXCELL_WU, "pack", "--analysis", "glcm", "-o", out, first, second],
                cwd=study if first != "." else os.path.join(study, "healthy"))
        ok([i["source"] for i in job_of(out)["items"]] ==
           ["study/healthy/p 2.png", "study/healthy/p_2.png", "study/sick/p_2.png"],
           "folders %s and %s" % (first, second), r.stderr)
    save_all("ends", {"a.tif": GREY})
    for end in ("lsm", "stk", "BTF", "tf8"):
        shutil.copy(path("ends/a.tif"), path("ends/%s.%s" % (end, end)))
    Image.fromarray(GREY).save(path("ends/j.jpe"), "JPEG")
    shutil.copy(path("ends/j.jpe"), path("ends/k.jfif"))
    r, items = packed(path("ends"))
    ok([n for n, _ in items] == ["BTF", "a", "j", "k", "lsm", "stk", "tf8"],
       "pictures of a folder with every file extension", r.stderr)
    r = run([TEXCELL_WU, "pack", "--analysis", "glcm", "-o", out, "p_2.png"],
            cwd=os.path.join(study, "healthy"))
    ok([i["source"] for i in job_of(out)["items"]] == ["p_2.png"], "a path without a folder",
       r.stderr)
    r, items = packed("--recursive", study)
    ok([s for _, s in items] == ["study/" + s for s in ("healthy/p 2.png", "healthy/p_2.png",
                                                        "sick/p_2.png", "sick/deep/x.png",
                                                        "sick/deep/y.png")], "--recursive",
       str(items) + r.stderr)
    ok("sick: left out: notes.txt\n" in r.stderr and "deep: left out: around (links " in r.stderr,
       "--recursive does not follow a link to a folder above it", r.stderr)
    r, items = packed("--recursive", "--stack", study)
    ok(items == [("healthy", "study/healthy"), ("sick", "study/sick"),
                 ("deep", "study/sick/deep")] and
       [len(i["stack"]) for i in job_of(out)["items"]] == [2, 1, 2],
       "--recursive --stack: each folder is a stack", str(items) + r.stderr)
    for folder in ("healthy", "sick", "sick/deep"):
        save_all("study_masks/" + folder, {n: ((GREY > 99) * 255).astype(np.uint8)
                                           for n in os.listdir(path("study/" + folder))
                                           if n.endswith(".png")})
    Image.fromarray(GREY // 255).save(path("study_masks/sick/p_2.png"))
    r, items = packed("--recursive", "--param", 'roi={"type":"mask"}', "--mask",
                      path("study_masks"), study)
    ok(len(items) == 5 and np.array_equal(item_samples(out, 2, "mask") > 0, GREY == 255) and
       np.array_equal(item_samples(out, 3, "mask") > 0, GREY > 99),
       "--recursive: masks in folders of the same names", r.stderr)
    os.remove(path("study_masks/sick/p_2.png"))
    r, _ = packed("--recursive", "--mask", path("study_masks"), study)
    ok(r.returncode == 2 and "called sick/p_2 or sick/p_2_mask was looked for" in r.stderr,
       "a mask from another folder is not used", r.stderr)
    os.makedirs(path("nothing/here"))
    for more in ([], ["--recursive"]):
        r, _ = packed(*more, path("nothing"))
        ok(r.returncode == 2 and "no .png, .jpg, .tif or .nii files in this folder" in r.stderr,
           "a folder without pictures", r.stderr)
    save_all(os.path.join("long", *["z" * 200] * 5), {"e.png": GREY})
    r, items = packed(save_all("long/" + "y" * 200, {"d" * 250 + ".png": GREY}),
                      os.path.join(path("long"), *["z" * 200] * 5))
    ok([len(s) for _, s in items] == [5 + 201 + 254, 5 + 5 * 201 + 5], "long paths",
       r.stderr + str([len(s) for _, s in items]))
    os.makedirs(os.path.join(os.fsencode(path("bytes")), b"\xff"))
    shutil.copy(path("study/healthy/p_2.png"),
                os.path.join(os.fsencode(path("bytes")), b"\xff", b"a\x1b\xe2\x80\xae\xc3\xbc.png"))
    r, items = packed("--recursive", path("bytes"))
    ok(items and items[0][1] == "?/a????\u00fc.png",
       "a path with invalid UTF-8 and control characters",
       ascii(items) + r.stderr)
    r = pack(out, *[save_all("same%d" % i, {"a.png": GREY}) for i in range(9)])
    ok(r.stderr.count(" in the tables\n") == 3 and "5 more items" in r.stderr,
       "a note about many changed names lists three", r.stderr)
    unit = path("run.zip")
    wu("pack", "--analysis", "cellcount", "-o", unit, os.path.join(study, "healthy"),
       os.path.join(study, "sick"))
    run([TEXCELL, "run", unit, "-o", path("run.npz"), "--device", "cpu"])
    for f in (unit, path("run.npz")):
        r = wu("show", f)
        ok("p_2_2" in r.stdout and "from study/healthy/p 2.png\n" in r.stdout,
           "show prints the source", r.stdout)
    wu("export", path("run.npz"), "-o", path("run"))
    rows = read_csv(path("run"), "items.csv") + read_csv(path("run"), "regions.csv")
    ok(rows[0][:2] == ["item", "source"] and rows[1][:2] == ["p_2_2", "study/healthy/p 2.png"] and
       rows[-1][:2] == ["p_2_3", "study/sick/p_2.png"], "the tables contain the source", rows[:2])
    save_all("study/found", {n: GREY for n in ("labels_x.png", "labels_y.png", "mine.png")})
    with open(path("study/found/exported.txt"), "w") as file:
        file.write("# an export's\nlabels_x.png\nlabels_y.png\n")
    r, items = packed(path("study/found"))
    ok(items == [("mine", "found/mine.png")] and
       "exported.txt, labels_x.png, labels_y.png\n" in r.stderr,
       "pictures of an export are no input", r.stderr)
    os.remove(path("study/found/mine.png"))
    r, items = packed("--recursive", study)
    ok(r.returncode == 0 and not any("found" in s for _, s in items),
       "pictures of an export in a subfolder are no input", r.stderr)
    r, items = packed(path("study/found"))
    ok([n for n, _ in items] == ["labels_x", "labels_y"],
       "pictures of an export are input where the given folder has no others", r.stderr)


def test_scripts():
    """Printed lines, file names, tables and the page keep letters and digits of any script; other
    characters, such as those that control a terminal, are replaced."""
    bases = ["клетка 1", "細胞", "e\u0301té", "हिन्दी", "٣خلية", "a…b🙂²", "x\u202ey\u200bz\u00ad",
             "q\u2028\u0085\u2215r", "plain"]
    folders = [save_all("scripts/a", {b + ".png": GREY for b in bases}),
               save_all("scripts/b", {bases[0] + ".png": GREY})]
    unit, result, out = path("scripts.zip"), path("scripts.npz"), path("scripts/out")
    wu("pack", "--analysis", "cellcount", "--param", "labels=true", "-o", unit, *folders)
    messages = run([TEXCELL, "run", unit, "-o", result, "--device", "cpu"]).stderr
    wu("export", result, "--pictures", "-o", out)

    def safe_character(c):
        good = (c.isalnum() or c in "_-." if c.isascii() else unicodedata.category(c)[0] in "LM" or
                c.isdecimal())
        return c if good else "_" * len(c.encode())
    expected = {"".join(map(safe_character, unicodedata.normalize("NFC", b)))
                for b in bases} | {"клетка_1_2"}
    files = {f[7:-4] for f in os.listdir(out) if f.endswith(".png")}
    ok(files == expected, "names in any script: the names of the exported files",
       "%a\n%a" % (sorted(files), sorted(expected)))
    printed = set(re.findall(r"texcell: (\S+): done", messages))
    ok(printed == expected, "names in any script: the names in the printed lines", "%a\n%a" %
       (sorted(printed), sorted(expected)))
    wu("report", result, "--images", unit, "-o", path("scripts/page.html"))
    with open(path("scripts/out/items.csv"), encoding="utf-8", newline="") as f:
        items = {row["item"] for row in csv.DictReader(f)}
    with open(path("scripts/out/regions.csv"), encoding="utf-8", newline="") as f:
        regions = {row["item"] for row in csv.DictReader(f)}
    ok(items == expected and regions and regions <= expected,
       "names in any script: the names in the tables", "%a\n%a" % (sorted(items), sorted(regions)))
    with open(path("scripts/page.html"), encoding="utf-8") as f:
        page = f.read()
    stored = {i["name"] for i in job_of(unit)["items"]} - expected
    ok(all("<h3>%s</h3>" % name in page for name in expected) and
       not [name for name in stored if re.search('[>"]%s[<"]' % name, page)],
       "names in any script: the names on the page", ascii(stored))
    with zipfile.ZipFile(unit) as z:
        ok(all(n.isascii() for n in z.namelist()), "the archive's names are ASCII", z.namelist())

    # Names in decomposed form, as macOS writes file names: each letter that Unicode composes, and
    # some Korean syllables.
    letters = [c for c in map(chr, [*range(0xc0, 0xac00), *range(0xac00, 0xd7a4, 97),
                                    *range(0xf900, 0x12000)])
               if unicodedata.normalize("NFD", c) != c == unicodedata.normalize("NFC", c) and
               unicodedata.category(c)[0] == "L"]
    bases = ["%dx" % i + "".join(letters[i:i + 15]) for i in range(0, len(letters), 15)]
    folder = save_all("composed", {unicodedata.normalize("NFD", b) + ".png": GREY for b in bases} |
                      {bases[0] + ".png": GREY})
    unit, result, out = path("composed.zip"), path("composed.npz"), path("composed/out")
    wu("pack", "--analysis", "cellcount", "--param", "labels=true", "-o", unit, folder)
    run([TEXCELL, "run", unit, "-o", result, "--device", "cpu"])
    messages = wu("export", "--pictures", result, "-o", out).stderr
    files = {f[7:-4] for f in os.listdir(out) if f.endswith(".png")}
    ok(len(letters) > 950 and files == {*bases, bases[0] + "_2"},
       "decomposed letters are composed, and names stay different",
       messages + ascii(files ^ set(bases)))


def test_bad_files():
    """All bad files of a call are reported at once; with --skip-bad they are left out and
    listed."""
    folder = save_all("bad",
                      {"a.png": GREY, "b.png": GREY, "c.png": GREY, "small.png": GREY[:2, :2]})
    with open(path("bad/b.png"), "rb") as f:
        whole = f.read()
    for name, content in (("cut.png", whole[:len(whole) // 2]),
                          ("hurt.png", whole[:-30] + bytes(30)), ("text.tif", b"no picture")):
        with open(os.path.join(folder, name), "wb") as f:
            f.write(content)
    box = ["--param", "target=99", "--param", "epsilon=9", "--param", "iterations=1",
           "--param", 'init={"type":"box","x0":1,"y0":1,"x1":20,"y1":20}']
    bad, out = ("cut.png", "hurt.png", "small.png", "text.tif"), path("bad.zip")

    def level_set(*args):
        if os.path.exists(out):
            os.remove(out)
        return wu("pack", "--analysis", "levelset", *box, "-o", out, *args)

    r = level_set(folder)
    ok(r.returncode == 2 and r.stderr.count("\n") == 5 and
       all(r.stderr.count("/" + name + ": ") == 1 for name in bad)
       and "4 of 7 inputs" in r.stderr and "--skip-bad" in r.stderr and not os.path.exists(out),
       "all bad files are reported", r.stderr)
    r = level_set("--skip-bad", folder)
    ok(r.returncode == 0 and r.stderr.count("left out: ") == 4 and
       all(r.stderr.count("/" + name + ": ") == 1 for name in bad)
       and [i["name"] for i in job_of(out)["items"]] == ["a", "b", "c"] and
       np.array_equal(item_samples(out, 2), GREY),
       "--skip-bad leaves them out", r.stderr)
    for name in ("small.png", "text.tif"):
        os.remove(os.path.join(folder, name))
    r = level_set(folder)
    ok(r.returncode == 2 and r.stderr.count("\n") == 3 and "cut.png" in r.stderr and
       "hurt.png" in r.stderr,
       "a picture with damaged pixels and a sound header is reported", r.stderr)
    r = level_set(path("bad/a.png"), path("bad/cut.png"))
    ok(r.returncode == 2 and r.stderr.count("\n") == 1 and "cut.png: " in r.stderr and
       r.stderr.endswith("; --skip-bad leaves it out\n"),
       "one bad file: only its error", r.stderr)
    r = wu("analyse", "--analysis", "cellcount", folder, "-o", path("looked"))
    ok(r.returncode == 2 and all(r.stderr.count("/" + name + ": ") == 1
                                 for name in ("cut.png", "hurt.png")) and
       r.stderr.endswith("analyse: 2 of 5 inputs cannot be used; --skip-bad leaves them out\n"),
       "analyse reports all damaged pictures, whichever the look at the pictures meets", r.stderr)
    r = wu("analyse", "--analysis", "cellcount", "--skip-bad", folder, "-o", path("looked"))
    ok(r.returncode == 0 and r.stderr.count("left out: ") == 2 and
       [i["name"] for i in job_of(path("looked/workunit.zip"))["items"]] == ["a", "b", "c"],
       "analyse --skip-bad leaves out pictures that the look at the pictures meets", r.stderr)
    cut = path("bad/cut.png")
    r = wu("analyse", "--analysis", "cellcount", cut, "-o", path("none_looked"))
    ok(r.returncode == 2 and r.stderr.count("\n") == 1 and "cut.png: damaged PNG" in r.stderr,
       "analyse: one damaged picture alone is one error", r.stderr)
    r = wu("analyse", "--analysis", "cellcount", cut, path("bad/hurt.png"), "-o",
           path("none_looked"))
    ok(r.returncode == 2 and r.stderr.count("\n") == 3 and
       r.stderr.endswith("analyse: none of 2 inputs can be used\n"),
       "analyse: no picture that the look at the pictures can read", r.stderr)
    save_all("bombs", {"large.png": np.zeros((400, 500), np.uint8), "a.png": GREY})
    r = level_set("--max-pixels", "199999", path("bombs"))
    ok(r.returncode == 2 and
       "large.png: has 200000 pixels, more than --max-pixels 199999" in r.stderr and
       not os.path.exists(out),
       "--max-pixels refuses a picture by its header", r.stderr)
    r = level_set("--max-pixels", "199999", "--skip-bad", path("bombs"))
    ok(r.returncode == 0 and [i["name"] for i in job_of(out)["items"]] == ["a"],
       "--skip-bad leaves out a picture above --max-pixels", r.stderr)
    ok(level_set("--max-pixels", "200000", path("bombs")).returncode == 0,
       "--max-pixels accepts a picture of just as many pixels")
    page = Image.fromarray(GREY)
    page.save(path("times.tif"), save_all=True, append_images=[page] * 8,
              tiffinfo={270: "ImageJ=1.53t\nimages=9\nframes=9\n"})
    r = level_set("--max-pixels", str(8 * GREY.size), path("times.tif"))
    ok(r.returncode == 2 and "has %d pixels" % (9 * GREY.size) in r.stderr,
       "--max-pixels counts the pixels of all points in time together", r.stderr)
    r = level_set("--skip-bad", path("bad/cut.png"))
    ok(r.returncode == 2 and "no input is left" in r.stderr and not os.path.exists(out),
       "--skip-bad: all inputs left out is an error", r.stderr)
    r = wu("pack", "--analysis", "glcm", "--skip-bad", "-o", path("bad/cut.png"),
           path("bad/cut.png"), path("bad/a.png"))
    ok(r.returncode == 1 and "one of the inputs" in r.stderr and
       os.path.getsize(path("bad/cut.png")) == len(whole) // 2,
       "a file that is left out is not overwritten", r.stderr)
    save_all("badmask", {"a.png": GREY, "b.png": GREY[:5], "hurt.png": GREY})
    r = pack(path("bad.zip"), "--param", 'roi={"type":"mask"}', "--skip-bad", "--mask",
             path("badmask"), folder)
    ok(r.returncode == 0 and [i["name"] for i in job_of(out)["items"]] == ["a"] and
       r.stderr.count("left out: ") == 4
       and "no mask for c" in r.stderr,
       "--skip-bad leaves out pictures whose mask is missing, damaged or of another size", r.stderr)


def chunks_of(png):
    """[(kind, all bytes of the chunk)] of a PNG."""
    chunks, offset = [], 8
    while offset < len(png):
        size = 12 + struct.unpack(">I", png[offset:offset + 4])[0]
        chunks.append((png[offset + 4:offset + 8], png[offset:offset + size]))
        offset += size
    return chunks


def test_compression():
    """Well compressed PNG data is copied to the work unit without the file's text; a PNG that can
    be compressed better is compressed again; other files are compressed to at most 1.05 times the
    size that PIL gives at level 6."""
    noise = (SMOOTH // 2 + RNG.normal(0, 6, SMOOTH.shape)).clip(0, 255).astype(np.uint8)
    flat = np.repeat(np.repeat(RNG.integers(0, 4, (8, 10), dtype=np.uint8) * 60, 8, 0), 8, 1)
    png_text = PngImagePlugin.PngInfo()
    png_text.add_text("Comment", "nobody's business")
    for name, picture, level, copied in (("noise", noise, 9, True), ("flat", flat, 1, False),
                                         ("loose", noise, 0, False),
                                         ("deep", noise.astype(np.uint16) * 257, 9, True),
                                         ("rgb",
                                          np.dstack([noise, noise.T[:64, :64].repeat(2, 1)[:, :80],
                                                     noise]), 9, True)):
        source, out = path("kept/%s.png" % name), path("kept.zip")
        Image.fromarray(picture).save(source, compress_level=level, pnginfo=png_text)
        r = pack(out, source)
        with open(source, "rb") as f, zipfile.ZipFile(out) as z:
            source_bytes, packed_bytes = f.read(), z.read("images/%s.png" % name)
        ok(r.returncode == 0 and np.array_equal(np.asarray(Image.open(io.BytesIO(packed_bytes))),
                                                picture) and b"business" not in packed_bytes,
           "%s: only the samples are packed" % name, r.stderr)
        copied_bytes = source_bytes[:8] + b"".join(body for kind, body in chunks_of(source_bytes)
                                                   if kind in (b"IHDR", b"IDAT", b"IEND"))
        ok((packed_bytes == copied_bytes) == copied, "%s: %s" %
           (name, "copied" if copied else "compressed again"),
           "%d, %d bytes" % (len(packed_bytes), len(source_bytes)))
    large = np.kron(flat, np.ones((8, 8), np.uint8))
    for name, picture in (("large_flat", large),
                          ("large_noise",
                           (large + RNG.normal(20, 3, large.shape)).astype(np.uint8)),
                          ("pattern", np.tile(noise, (8, 8)))):
        source, usual = path("effort/%s.tif" % name), io.BytesIO()
        Image.fromarray(picture).save(source)
        Image.fromarray(picture).save(usual, "PNG", compress_level=6)
        pack(path("effort.zip"), source)
        with zipfile.ZipFile(path("effort.zip")) as z:
            size = len(z.read("images/%s.png" % name))
        ok(size <= 1.05 * len(usual.getvalue()), "%s: not larger than PIL's" % name,
           "%d, %d" % (size, len(usual.getvalue())))
    r = wu("analyse", "--analysis", "cellcount", "--defaults", "--device", "cpu", "-o",
           path("stays"), path("effort/large_noise.tif"))
    kept_run = wu("analyse", "--analysis", "cellcount", "--defaults", "--device", "cpu",
                  "--keep-unit",
                  "--pictures", "-o", path("keeps"),
                  path("effort/large_noise.tif"))
    ok(r.returncode == kept_run.returncode == 0 and
       not [n for n in os.listdir(path("stays")) if n.endswith(".png")]
       and os.path.exists(path("keeps/labels_large_noise.png")),
       "analyse writes pictures only with --pictures",
       r.stderr + kept_run.stderr)
    stays, keeps = path("stays/workunit.zip"), path("keeps/workunit.zip")
    same = job_of(stays)
    same["items"][0]["image"] = "images/large_noise.png"
    ok(os.path.getsize(stays) > large.size > os.path.getsize(keeps) and same == job_of(keeps)
       and np.array_equal(members(stays, ["images/large_noise.pnm"])[0],
                          members(keeps, ["images/large_noise.png"])[0]),
       "--keep-unit: analyse's work unit is compressed and has the same content")
    with np.load(path("stays/result.npz")) as a, np.load(path("keeps/result.npz")) as b:
        ok(all(np.array_equal(a[k], b[k]) for k in a.files if k != "result.json"),
           "--keep-unit: analyse gives the same result")
    folder = save_all("kinds", {"deep.png": GREY16, "colour.png": COLOUR, "grey.png": GREY})
    for out in ("plain", "small"):
        wu("analyse", "--analysis", "cellcount", "--defaults", "--device", "cpu", "-o", path(out),
           *["--keep-unit"] * (out == "small"), folder)
    units = [path(out + "/workunit.zip") for out in ("plain", "small")]
    names = [i["image"] for i in job_of(units[1])["items"]]
    plain, copied_bytes = (members(units[0], [n.replace(".png", ".pnm") for n in names]),
                           members(units[1], names))
    copied_bytes = [m.astype(int).sum(2) // 3 if m.ndim == 3 else m for m in copied_bytes]
    pages = [open(path(out + "/report.html"), encoding="utf-8").read()
             for out in ("plain", "small")]
    with np.load(path("plain/result.npz")) as a, np.load(path("small/result.npz")) as b:
        ok(all(np.array_equal(x, y) for x, y in zip(plain, copied_bytes)) and len(a.files) > 9
           and all(np.array_equal(a[k], b[k]) for k in a.files if k != "result.json"),
           "samples of 8 and 16 bits, as PNM and compressed, are the same, and colours are grey",
           names)
    ok(pages[0].replace(path("plain"), path("small")) == pages[1] and
       "of 8 bits, colour" in pages[1], "the page shows the file's bits and colours")
    with_pictures = path("drawn/workunit.zip")
    wu("analyse", "--analysis", "cellcount", "--defaults", "--device", "cpu", "--pictures", "-o",
       path("drawn"), folder)
    ok(members(with_pictures, ["images/colour.pnm"])[0].ndim == 3,
       "analyse's work unit keeps colours with --pictures")


def test_stacks():
    slices = {"slice%d.png" % i: RNG.integers(0, 256, GREY.shape, dtype=np.uint8)
              for i in (10, 2, 1, 33)}
    folder = save_all("zstack", slices)
    expected = np.stack([slices["slice%d.png" % i] for i in (1, 2, 10, 33)])
    out = path("stack.zip")
    r = pack(out, "--stack", "--spacing", "0.29,0.065,0.065", folder)
    ok(r.returncode == 0, "a folder of slices is packed", r.stderr)
    item = job_of(out)["items"][0]
    ok(item["name"] == "zstack" and item["spacing"] == [0.29, 0.065, 0.065],
       "a stack has its folder's name and the spacing",
       item)
    ok("0.29," in zipfile.ZipFile(out).read("job.json").decode(),
       "a spacing of 0.29 is stored as 0.29, without rounding error")
    ok(np.array_equal(item_samples(out), expected), "slices are in natural order")
    r = pack(out, folder)
    ok(r.returncode == 0 and [i["name"] for i in job_of(out)["items"]] ==
       ["slice1", "slice2", "slice10", "slice33"],
       "without --stack each slice is an item", r.stderr)
    r = run([TEXCELL_WU, "pack", "--analysis", "glcm", "--stack", "-o", out, "."], cwd=folder)
    ok(r.returncode == 0 and job_of(out)["items"][0]["name"] == "zstack",
       "a stack from the folder . has the folder's name",
       r.stderr)

    values = [np.full(GREY.shape, v, np.uint8) for v in (40, 80, 120, 160)]
    for i, (names, expected_note) in enumerate(((("z-1", "z-0.5", "z0", "z0.5"), None),
                                                (("b_z-10", "b_z-2", "b_z0", "b_z1"),
                                                 "slices are missing, by the files' names: -9, -8, "
                                                 "-7 and 5 more"),
                                                (("z-1", "z-2", "z-9", "z-10"),
                                                 "slices are missing, by "
                                                 "the files' names: 3, 4, 5 and 3 more"),
                                                (("c_z0.25", "c_z0.5", "c_z1.0", "c_z1.25"),
                                                 "a slice is missing, by the files' names: 0.75"))):
        folder = save_all("numbers%d" % i, {n + ".png": v for n, v in zip(names, values)})
        r = pack(out, *["--param", 'roi={"type":"mask"}'], "--stack", "--mask",
                 save_all("numbers_mask%d/numbers%d" % (i, i), {
                     n + ".png": np.where(np.arange(v.size).reshape(v.shape) < v[0, 0], 255,
                                          0).astype(np.uint8) for n, v in zip(names, values)}),
                 folder)
        ok(r.returncode == 0 and
           (expected_note in r.stderr if expected_note else "missing" not in r.stderr) and
           np.array_equal(item_samples(out), np.stack(values)) and
           [np.count_nonzero(m) for m in item_samples(out, 0, "mask")] == [v[0, 0] for v in values],
           "slices are in the order of the numbers in their names: " + ", ".join(names), r.stderr)

    folder = save_all("mixed", {"1.png": COLOUR, "2.png": GREY})
    r = pack(out, "--stack", folder)
    grey = (COLOUR.astype(int).sum(2) // 3).astype(np.uint8)
    ok(r.returncode == 0 and "became grey" in r.stderr and
       np.array_equal(item_samples(out), np.stack([grey, GREY])),
       "colour slices become (R+G+B)/3", r.stderr)
    for name, other, word in (("sizes", GREY[1:].copy(), "must agree"),
                              ("depths", None, "must agree")):
        folder = save_all("differ_" + name, {"1.png": GREY})
        if other is None:
            shutil.copy(write_png("deep.png", GREY16, 16, 0), os.path.join(folder, "2.png"))
        else:
            Image.fromarray(other).save(os.path.join(folder, "2.png"))
        r = pack(path("no.zip"), "--stack", folder)
        ok(r.returncode == 2 and "2.png" in r.stderr and word in r.stderr and
           not os.path.exists(path("no.zip")),
           "a stack is refused if its slices have different " + name, r.stderr)
    r = pack(path("no.zip"), "--stack", path("g8.png"))
    ok(r.returncode == 1 and "folder" in r.stderr, "--stack with one picture is bad usage",
       r.stderr)
    for text in ("", "1,", "1,1,1,1", "0,1,1", "a,b,c", "1,1,nan", "1,1,inf", "1,-1,1", "1,1,1e9",
                 "1e-9,1,1", "1,1,1 "):
        r = pack(path("no.zip"), "--spacing", text, folder)
        ok(r.returncode == 1 and text in r.stderr, "--spacing %s is bad usage" % text, r.stderr)


def test_masks():
    mask = np.where(GREY > 128, RNG.integers(1, 256, GREY.shape), 0).astype(np.uint8)
    inside = np.where(mask > 0, 255, 0)
    out = path("mask.zip")
    pictures = save_all("mpic", {"a.png": GREY, "b.png": COLOUR})
    save_all("mmask", {"a.tif": mask, "b.png": np.dstack([mask * 0, mask * 0, mask])})
    roi = ["--param", "roi={\"type\":\"mask\"}"]
    r = pack(out, *roi, "--mask", path("mmask"), pictures)
    ok(r.returncode == 0 and
       all(np.array_equal(item_samples(out, i, "mask"), inside) for i in (0, 1)),
       "masks from a folder: every value but 0 is inside", r.stderr)
    deep = write_png("m16.png", mask.astype(np.uint16) << 8, 16, 0)
    r = pack(out, *roi, "--mask", deep, path("mpic/a.png"))
    ok(r.returncode == 0 and np.array_equal(item_samples(out, 0, "mask"), inside),
       "a mask of 16 bits", r.stderr)

    save_all("vol", {"%d.png" % i: GREY for i in range(3)})
    masks = [np.roll(inside.astype(np.uint8), i, 0) for i in range(3)]
    save_all("vmask/vol", {"m%d.png" % i: masks[i] for i in range(3)})
    Image.fromarray(masks[0]).save(path("vmask_pages/vol.tif"), save_all=True,
                                   append_images=[Image.fromarray(m) for m in masks[1:]])
    for mask_source in ("vmask", "vmask/vol", "vmask_pages", "vmask_pages/vol.tif"):
        r = pack(out, *roi, "--stack", "--mask", path(mask_source), path("vol"))
        ok(r.returncode == 0 and np.array_equal(item_samples(out, 0, "mask"), np.stack(masks)),
           "a stack's mask from " + mask_source, r.stderr)

    os.remove(out)
    Image.fromarray(mask).save(path("mjpg/a.jpg"))
    save_all("msize", {"a.png": mask[1:].copy(), "b.png": mask})
    save_all("mtwo", {"a.png": mask, "a.tif": mask, "b.png": mask})
    save_all("mfew", {"a.png": mask})
    save_all("msame", {"a.png": mask})
    for args, code, word in ((["mjpg/a.jpg", "mpic/a.png"], 2, "JPEG"),
                             (["msize", "mpic"], 2, "the mask is"),
                             (["mtwo", "mpic"], 2, "two masks"),
                             (["mfew", "mpic"], 2, "no mask for b"),
                             (["mmask/a.tif", "mpic"], 1, "folder of masks"),
                             (["nowhere", "mpic"], 2, "No such"),
                             (["mmask", "mpic", "msame/a.png"], 2, "cannot be distinguished")):
        r = pack(out, *roi, "--mask", *[path(a) for a in args])
        ok(r.returncode == code and word in r.stderr and not os.path.exists(out),
           "mask refused: " + word, r.stderr)


def test_labels_of_result():
    """--labels RESULT.npz: labels become the label picture of the file that they were computed
    from, and of no other file with the same name."""
    fields = {"control": 3, "treated": 5}
    for name, n in fields.items():
        grey = np.full((40, 80), 20, np.uint8)
        for i in range(n):
            grey[10:20, 4 + 12 * i:12 + 12 * i] = 200
        save_all("lab/" + name, {"1.png": grey})
    count = ("--param", "polarity=bright", "--param", "labels=true")

    def labels(out, *inputs, **kw):
        unit = path(out + ".zip")
        r = wu("pack", "--analysis", "cellcount", *count, "-o", unit, *inputs, **kw)
        r = r if r.returncode else run([TEXCELL, "run", unit, "-o", path(out), "--device", "cpu",
                                        "--quiet"])
        ok(r.returncode == 0, "cells are counted: " + out, r.stderr)
        return path(out)

    def objects(*args, **kw):
        out = path("lab/objects.zip")
        if os.path.exists(out):
            os.remove(out)
        r = wu("pack", "--analysis", "objects", "-o", out, "--labels", *args, **kw)
        return r, [item["objects"] for item in job_of(out)["items"]] if r.returncode == 0 else None

    folders = [path("lab/" + name) for name in fields]
    both_folders, one = labels("lab/both.npz", *folders), labels("lab/one.npz", folders[0])
    bare = labels("lab/bare.npz", "1.png", cwd=folders[0])
    with open(path("lab/names.txt"), "w", encoding="utf-8") as f:
        f.write("1\n")
    os.symlink(folders[0], path("lab/link"))
    link = [path("lab/link/1.png")]
    for name, args, cwd, want in (("the other order", [both_folders, *folders[::-1]], None, [5, 3]),
                                  ("one of two", [both_folders, folders[1]], None, [5]),
                                  ("from its folder", [both_folders, "1.png"], folders[1], [5]),
                                  ("by a link", [one, *link], None, [3]),
                                  ("by a path with dots", [one, "../control/./1.png"], folders[1],
                                   [3]),
                                  ("of a file without a folder", [bare, folders[0]], None, [3]),
                                  ("another channel", [one, "--names", path("lab/names.txt"),
                                                       folders[1]], None, [3])):
        r, counts = objects(*args, cwd=cwd)
        ok(counts == want, "labels of a result: " + name, (counts, r.stderr))
    r, counts = objects(one, "--spacing", "2,5", folders[0])
    ok(counts == [3] and "a pixel is 2 micrometres high and 5 wide, as --spacing Y,X says (one "
       "number, with a decimal point" in r.stderr,
       "objects: a note about pixels that are not square", r.stderr)
    r, counts = objects(one, "--spacing", "2.5", folders[0])
    ok(counts == [3] and r.stderr == "", "objects: no note about square pixels", r.stderr)
    picture = folders[0] + "/1.png"
    r, counts = objects(picture, picture)
    ok(counts is None and "1.png: is the picture itself, not its labels" in r.stderr,
       "a picture is not its own labels", r.stderr)
    numbers = np.repeat(np.arange(1, 5, dtype=np.uint8), 12).reshape(6, 8)
    for end in ("_cp_masks.png", "_MASKS.tif", "_labels.png", "_label.png", "_seg.tif"):
        pair = save_all("lab/cp" + end, {"x.png": GREY[:6, :8], "x" + end: numbers})
        r, counts = objects(pair, pair)
        ok(counts == [4], "labels next to the pictures: x" + end, r.stderr)
    cellpose_suffixes = ("_flows.tif", "_cp_output.png", "_outlines.png")
    folder = save_all("lab/left",
                      {"x" + end: numbers for end in (".png", "_cp_masks.png", *cellpose_suffixes)})
    r, counts = objects(folder, folder)
    ok(counts == [4] and "left out: 4 files named like" in r.stderr,
       "other files that Cellpose writes are neither pictures nor labels", r.stderr)
    save_all("lab/left", {"y.png": GREY[:6, :8]})
    r, counts = objects(folder, folder)
    ok(r.returncode == 2 and "y.png: no label picture for y: a picture called y_labels or "
       "y_cp_masks was looked for" in r.stderr and
       "itself" not in r.stderr,
       "a picture without labels in a folder of pictures and labels is refused", r.stderr)
    r = wu("pack", "--analysis", "objects", "-o", path("lab/objects.zip"), folder)
    ok(r.returncode == 1 and "objects measures label pictures: give --labels " + folder in r.stderr,
       "without --labels the error proposes the folder that contains them", r.stderr)
    os.symlink(folders[0], os.path.join(folder, "linked"))
    r = pack(path("lab/linked.zip"), folder)
    ok(r.returncode == 0 and
       "left out: linked (links to folders are not followed: name them)" in r.stderr,
       "links to folders are not followed", r.stderr)
    r, counts = objects(pair, save_all("lab/only", {"x.png": GREY[:6, :8]}))
    ok(r.returncode == 2 and "two label pictures for x: " in r.stderr and "x_seg.tif" in r.stderr,
       "two possible label pictures are refused", r.stderr)
    r, counts = objects(pair, save_all("lab/none", {"x.png": GREY[:6, :8], "y.png": GREY[:6, :8]}),
                        "--skip-bad")
    ok("no label picture for y: " in r.stderr, "another picture's labels are not used", r.stderr)
    r, counts = objects(save_all("lab/like", {"a.png": numbers, "x-lbl.png": numbers}),
                        path("lab/only"))
    ok("but there is x-lbl.png; if that is the right file, rename it to x_labels" in r.stderr,
       "the error names the file that is most likely the label picture", r.stderr)
    r, counts = objects(picture, "--param", 'families=["shape"]', picture)
    ok(counts == [2] and r.stderr == "",
       "objects measures shapes with labels as the pictures", r.stderr)
    run([TEXCELL, "run", path("lab/objects.zip"), "-o", path("lab/objects.npz"), "--device", "cpu",
         "--quiet"])
    for option in ("--tiff", "--geojson"):
        for out, writes in ((path("lab/objects.npz"), False), (one, True)):
            r = wu("export", option, "-o", path("lab/exported"), out)
            ok(r.returncode == 0 and (option + " writes nothing" in r.stderr) != writes,
               "%s: a note if it writes nothing (something to write: %s)" % (option, writes),
               r.stderr)
    for name, args, cwd in (("another folder", [one, folders[1]], None),
                            ("another folder, from within", [one, "1.png"], folders[1]),
                            ("two files for one", [bare, *folders], None)):
        r, _ = objects(*args, cwd=cwd)
        ok(r.returncode == 2 and "cannot be distinguished" in r.stderr,
           "labels of a result, refused: " + name, r.stderr)


def test_split():
    folder = save_all("many", {"%d.png" % i: np.full((9, 9), i, np.uint8) for i in range(7)})
    r = pack(path("part.zip"), "--split", "3", folder)
    parts = [path("part_%04d.zip" % i) for i in (1, 2, 3)]
    ok(r.returncode == 0 and not os.path.exists(path("part.zip")) and
       not os.path.exists(path("part_0004.zip")),
       "--split 3: 7 items become three work units", r.stderr)
    ok([[i["name"] for i in job_of(p)["items"]] for p in parts] == [["0", "1", "2"],
                                                                    ["3", "4", "5"], ["6"]],
       "--split: items are in order")
    ok(all(os.path.basename(p) in r.stdout for p in parts),
       "--split: each work unit is named on stdout", r.stdout)
    for n in ("0", "-1", "x", "1.5", "", "99999999999999999999"):
        r = pack(path("part.zip"), "--split", n, folder)
        ok(r.returncode == 1, "--split '%s' is bad usage" % n, r.stderr)


def test_output():
    out = path("det/one.zip")
    stack = path("three.tif")
    Image.fromarray(GREY).save(stack, save_all=True,
                               append_images=[Image.fromarray(255 - GREY)] * 2)
    args = ["--param", "distances=[1,2]", path("g8.png"), stack, path("c8.png")]
    pack(out, *args)
    first = open(out, "rb").read()
    os.utime(path("g8.png"), (1, 1))
    env = dict(os.environ, TZ="Asia/Tokyo", LC_ALL="C")
    r = pack(path("det/two.zip"), *args, env=env)
    ok(r.returncode == 0 and open(path("det/two.zip"), "rb").read() == first,
       "packing twice gives the same bytes", r.stderr)
    single_members = {}
    for name in ("g8.png", "three.tif", "c8.png"):
        pack(path("alone.zip"), path(name))
        with zipfile.ZipFile(path("alone.zip")) as z:
            single_members.update({n: z.read(n) for n in z.namelist() if n != "job.json"})
    with zipfile.ZipFile(out) as z:
        ok([n for n in z.namelist() if n != "job.json"] == ["images/g8.png"] +
           ["stacks/three/%04d.png" % k for k in range(3)]
           + ["images/c8.png"] and all(z.read(n) == single_members[n] for n in single_members),
           "pages compressed in parallel have the same bytes and order as one by one",
           z.namelist())
    with zipfile.ZipFile(out) as z:
        ok(z.infolist()[0].filename == "job.json" and z.testzip() is None
           and all(i.date_time == (1980, 1, 1, 0, 0, 0) for i in z.infolist())
           and all(i.compress_type == zipfile.ZIP_STORED for i in z.infolist()[1:]),
           "the archive begins with job.json, stores PNG files uncompressed and records no time")
    ok(sorted(os.listdir(path("det"))) == ["one.zip", "two.zip"], "pack leaves no other file",
       os.listdir(path("det")))

    with open(out, "wb") as f:
        f.write(first[:60])
    r = pack(out, path("text.png"))
    ok(r.returncode == 2 and open(out, "rb").read() == first[:60],
       "if pack fails, the existing output stays", r.stderr)
    r = pack(out, path("cut.png"))
    ok(r.returncode == 2 and open(out, "rb").read() == first[:60] and
       len(os.listdir(path("det"))) == 2,
       "if pack fails while it reads pixels, the existing output stays and no other file is left",
       r.stderr)
    r = pack(out, *args)
    ok(r.returncode == 0 and open(out, "rb").read() == first, "an existing output is replaced",
       r.stderr)

    shutil.copy(path("g8.png"), path("precious.png"))
    os.makedirs(path("links"), exist_ok=True)
    if not os.path.lexists(path("links/link.zip")):
        os.symlink(path("precious.png"), path("links/link.zip"))
    with open(path("p.json"), "w") as f:
        f.write("{}")
    shutil.copy(path("mmask/a.tif"), path("mask_in.tif"))
    original = open(path("precious.png"), "rb").read()
    for name, target, extra in (("itself", "precious.png", []),
                                ("a link to it", "links/link.zip", []),
                                ("the parameters", "p.json", ["--params", path("p.json")]),
                                ("the mask", "mask_in.tif", ["--mask", path("mask_in.tif"),
                                                               "--param",
                                                             "roi={\"type\":\"mask\"}"])):
        r = pack(path(target), *extra, path("precious.png"))
        ok(r.returncode == 1 and "one of the inputs" in r.stderr and
           open(path("precious.png"), "rb").read() == original,
           "an input is not overwritten: " + name, r.stderr)
    r = pack(path("det"), path("g8.png"))
    ok(r.returncode == 1 and "not a file" in r.stderr, "a folder is not overwritten", r.stderr)
    r = pack(path("det") + "/no/such/x.zip", path("g8.png"))
    ok(r.returncode == 3 and r.stderr.endswith(
        "x.zip: cannot write: the folder %s/no/such does not exist\n" % path("det")),
       "an output in a folder that does not exist: exit code 3", r.stderr)
    r = wu("analyse", "--analysis", "glcm", path("g8.png"), "-o", path("p.json"))
    ok(r.returncode == 3 and "p.json: exists and is not a folder" in r.stderr,
       "analyse refuses a file as output folder", r.stderr)
    for absent in ("absent", "absent/", "absent/x.png", "p.json/x.png"):
        for option in ([], [path("g8.png"), "--mask"], [path("g8.png"), "--labels"], ["--stack"]):
            r = pack(path("no.zip"), *option, os.path.join(TMP, absent))
            ok(r.returncode == 2 and re.search("/absent.*: No such file|p.json/x.png: Not "
                                               "a directory", r.stderr) is not None,
               "an input that does not exist: %s" % [*option[-1:], absent], r.stderr)

    def limit_file_size():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))
    r = pack(path("det/full.zip"), path("g8.png"), path("c8.png"), preexec_fn=limit_file_size)
    ok(r.returncode == 3 and "full.zip" in r.stderr and sorted(os.listdir(path("det"))) ==
       ["one.zip", "two.zip"],
       "a full disk: exit code 3, and no file is left", "%d %s" % (r.returncode, r.stderr))


def test_parameters():
    out = path("param.zip")
    with open(path("params.json"), "w") as f:
        json.dump({"distances": [1, 2], "levels": [8]}, f)
    picture = path("g8.png")
    r = pack(out, "--params", path("params.json"), "--param", "levels=[16]", "--param",
             "directions=four",
             "--param", "per_offset=true", picture)
    ok(r.returncode == 0 and job_of(out)["parameters"] == {"distances": [1, 2], "levels": [16],
                                                           "directions": "four",
                                                            "per_offset": True},
       "parameters from a file, as JSON and as words", r.stderr)
    r = pack(out, "--preset", "hcc", "--param", "roi={\"type\":\"all\"}", picture)
    ok(r.returncode == 0 and job_of(out)["parameters"]["preset"] == "hcc", "--preset", r.stderr)
    r = wu("pack", "--analysis", "volume", "-o", out, "--param", "mode=3d", "--param", "membrane=3",
                 path("three.tif"))
    ok(r.returncode == 0 and job_of(out)["parameters"] == {"mode": "3d", "membrane": 3},
       "a parameter that is a word and begins with a digit", r.stderr)
    os.remove(out)
    with open(path("broken.json"), "w") as f:
        f.write("{\"levels\": [8],\n \"levels\": ")
    with open(path("list.json"), "w") as f:
        f.write("[1]")
    for args, code, word in (
            (["--param", "levels=[8"], 1, "levels"), (["--param", "levels"], 1, "KEY=VALUE"),
            (["--param", "=3"], 1, "KEY"),
            (["--param", "colour=red"], 2, "colour"), (["--param", "levels=0"], 2, "levels"),
            (["--param", "levles=[8]"], 2, 'did you mean "levels"?'),
            (["--param", "per_offset=1O"], 2, 'not "1O"'), (["--preset", "nope"], 2, "preset"),
            (["--params", path("broken.json")], 2, "broken.json: line 2"),
            (["--params", path("list.json")], 2, "list.json"),
            (["--params", path("nothing.json")], 2, "nothing.json"),
            (["--params", TMP], 2, "not a file"),
            (["--param", "roi={\"type\":\"mask\"}"], 2, "mask")):
        r = pack(out, *args, picture)
        ok(r.returncode == code and word in r.stderr and r.stderr.count("\n") == 1 and
           not os.path.exists(out),
           "refused: %s" % " ".join(args)[-40:], "%d %s" % (r.returncode, r.stderr))


def test_usage():
    for args, word in ((["frobnicate"], "frobnicate"), (["pack"], "--analysis"),
                       (["pack", "--analysis", "glcm"], "-o"),
                       (["pack", "--analysis", "glcm", "-o", "x.zip"], "INPUT is missing"),
                       (["pack", "--analysis", "alchemy", "-o", "x.zip", "y.png"], "glcm"),
                       (["pack", "--nope"], "--nope"),
                       (["pack", "-q"], "-q"), (["pack", "--analysis"], "needs a value"),
                       (["show"], "FILE"),
                       (["show", "a", "b"], "FILE"), (["show", "-x"], "-x"),
                       (["export", "x.npz"], "-o DIR"),
                       (["export", "-o", "d"], "RESULT.npz"),
                       (["export", "--frame", "x"], "--frame")):
        r = wu(*args)
        ok(r.returncode == 1 and word in r.stderr and "--help" in r.stderr and
           r.stderr.count("\n") == 1,
           "bad usage: texcell-wu " + " ".join(args), "%d %s" % (r.returncode, r.stderr))
    for args, word in ((["--help"], "export"), (["pack", "--help"], "--split"),
                       (["show", "--help"], "--all"),
                       (["export", "--help"], "--images"), (["--version"], "texcell-wu ")):
        r = wu(*args)
        ok(r.returncode == 0 and word in r.stdout and r.stderr == "",
           "texcell-wu " + " ".join(args), r.stderr)


def test_memory():
    """pack holds the slices of a stack in memory one at a time."""
    if sanitized():
        skip("the memory of slices", "the sanitizers need their own")
        return
    n = 40
    ramp = np.add.outer(np.arange(1000), np.arange(1000)).astype(np.uint16)
    pages = [Image.fromarray(ramp // (i + 1)) for i in range(n)]
    pages[0].save(path("large.tif"), save_all=True, append_images=pages[1:])

    def peak_memory(argv):
        code = "import resource,subprocess,sys; r=subprocess.run(sys.argv[1:]); print(" \
               "resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(r.returncode)"
        r = run([sys.executable, "-c", code] + argv)
        return r.returncode, int(r.stdout.split()[-1]) if r.stdout else 0
    code, one = peak_memory([TEXCELL_WU, "pack", "--analysis", "glcm", "-o", path("l.zip"),
                             path("g8.png")])
    code, all_pages = peak_memory([TEXCELL_WU, "pack", "--analysis", "glcm", "-o", path("l.zip"),
                                   path("large.tif")])
    ok(code == 0 and all_pages - one < 20 * 1024,
       "packing %d slices of 2 MB takes at most 20 MiB more than one small picture" % n,
       "%d KiB and %d KiB" % (one, all_pages))


def test_real():
    names = ["crystal/xchem_echo_test_im_1.jpg", "count/blobs.tif",
             "levelset/itk_VentricleModel.png",
             "levelset/itk_BrainT1Slice.png", "voting/stardist_img2d.tif"]
    for name in names:
        f = data(name)
        if f is None:
            skip("real picture " + name, "not here")
            continue
        picture = Image.open(f)
        check_packed("real picture " + name, f,
                     np.asarray(picture.convert("L") if picture.mode == "P" else picture),
                     "its greys are 0 to 235 of 16 bits" if name.endswith("img2d.tif") else None)
    f = data("volume/membrane_raw.tif")
    if f is None or tifffile is None:
        skip("real stack", "not here")
    else:
        check_packed("real stack", f, tifffile.imread(f), "taken as slices")


# --- show and export ----------------------------------------------------------------------------

def write_npz(name, arrays, workunit, changes=None):
    """Writes a result of the work unit by an analysis "alchemy". changes: {key of result.json:
    value that replaces the valid one}."""
    body = open(workunit, "rb").read()
    head = dict(format="texcell-result", version=3, analysis="alchemy",
                parameters={"levels": [16, 64]},
                items=[i["name"] for i in job_of(workunit)["items"]], arrays=DECLARED,
                workunit={"crc32": "%08x" % zlib.crc32(body), "size": len(body),
                          "sha256": hashlib.sha256(body).hexdigest()})
    head.update(changes or {})
    full = path(name)
    with zipfile.ZipFile(full, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("result.json", json.dumps(head))
        for key, array in arrays.items():
            b = io.BytesIO()
            np.lib.format.write_array(b, np.ascontiguousarray(array), version=(1, 0))
            z.writestr(key + ".npy", b.getvalue())
    return full


def read_csv(folder, name):
    with open(os.path.join(folder, name), newline="") as f:
        return list(csv.reader(f))


FEATURES = ["asm", "contrast", "correlation", "variance", "idm", "sum_average", "sum_variance",
            "sum_entropy",
            "entropy", "difference_variance", "difference_entropy", "imc1", "imc2"]




def array_entry(array, role, table=None, title=None, axes=None):
    """The entry of an array in result.json's `arrays`."""
    entry = dict(array=array, role=role, table=table, title=title, axes=axes)
    return {k: v for k, v in entry.items() if v is not None}


def axis_names(*values):
    """The declaration of an axis whose indices have these names."""
    return [{"values": list(values)}]


# What result.json of "alchemy" declares: LEVELS is an axis, DECLARED are the arrays.
LEVELS = {"name": "levels", "values": [16, 64], "prefix": "L"}
DECLARED = [
    array_entry("feature_names", "titles", "features"),
    array_entry("offsets", "keys", "offset_features", axes=axis_names("dx", "dy")),
    array_entry("features", "value", "features", "glcm",
                [{"name": "distance", "values": [1, 3, 20], "prefix": "d", "digits": 2},
                 {"name": "feature", "values": ["asm", "sum_average", "imc1", "imc2", "entropy"]}]),
    array_entry("offset_features", "value", "offset_features",
                axes=[LEVELS, {"name": "offset", "array": "offsets"},
                      {"name": "feature", "values": FEATURES},
                      *axis_names("mean", "variance", "min", "max")]),
    array_entry("count", "value", "items", "count"),
    array_entry("volume", "value", "items", "volume"),
    array_entry("good", "value", "items", "good"),
    array_entry("otsu_threshold", "value", "items", "otsu_threshold"),
    array_entry("thing_item", "item", "things"),
    array_entry("thing_bbox", "value", "things", "bbox", axis_names("y0", "x0", "y1", "x1")),
    array_entry("thing_centroid", "value", "things", "centroid", axis_names("y", "x")),
    array_entry("thing_mean", "value", "things", "mean"),
    array_entry("thing_glcm", "value", "things", "glcm",
                [{"name": "distance", "values": [2], "prefix": "d", "digits": 2},
                 {"name": "feature", "values": ["contrast", "energy"]}]),
    array_entry("spot_item", "item", "spots"),
    array_entry("spot", "place", "spots", axes=axis_names("z", "y", "x")),
    array_entry("score", "value", "spots", "score"),
    array_entry("heat_{item}_L64_-1_0", "map", title="heat, offset (-1,0)"),
    array_entry("labels_{item}", "labels", "things"),
    array_entry("mask_{item}", "mask", title="inside"),
]


def result_arrays():
    """The arrays of the result that DECLARED describes."""
    features = RNG.standard_normal((3, 15)) * 10.0 ** RNG.integers(-300, 300, (3, 15))
    features[0, :4] = [np.nan, np.inf, -np.inf, -0.0]
    names = ["glcm_d%02d_%s" % (d, f) for d in (1, 3, 20)
             for f in ("asm", "sum_average", "imc1", "imc2", "entropy")]
    disc = RNG.random((37, 53)).astype(np.float32)
    disc[:9] = np.nan
    labels = np.zeros((37, 53), np.int32)
    labels[5:15, 5:15] = 1
    labels[10:30, 15:40] = 7
    return {
        "feature_names": np.array(names), "offsets": np.array([[1, 0], [0, 1]], np.int32),
        "item_names": np.array(["g8", "c8", "three"]), "features": features,
        "offset_features": RNG.random((3, 2, 2, 13, 4)), "count": np.array([2, 0, 1], np.int64),
        "volume": RNG.random(3), "good": np.array([True, False, True]),
        "otsu_threshold": np.array([7, 8, 9], np.int64),
        "thing_item": np.array([0, 0, 2], np.int64),
        "thing_bbox": np.arange(12, dtype=np.int64).reshape(3, 4),
        "thing_centroid": RNG.random((3, 2)), "thing_mean": RNG.random(3).astype(np.float32),
        "thing_glcm": RNG.random((3, 2)),
        "spot_item": np.array([1, 1], np.int64), "spot": np.array([[1, 2, 3], [4, 5, 6.25]]),
        "score": np.array([2 ** 62, -5], np.int64),
        "heat_g8_L64_-1_0": disc, "labels_g8": labels, "mask_g8": (labels > 0).astype(np.uint8),
        "heat_c8_L64_-1_0": np.full((37, 53), 2.5, np.float32), "labels_c8": labels,
        "mask_c8": np.ones((37, 53), np.uint8),
        "heat_three_L64_-1_0": RNG.random((3, 37, 53)).astype(np.float32),
        "labels_three": np.stack([labels] * 3),
        "mask_three": np.stack([labels > 0] * 3).astype(np.uint8),
        "strange": np.zeros((2, 2, 2)),
    }


def test_show_export():
    unit = path("unit.zip")
    pack(unit, path("g8.png"), path("c8.png"), path("three.tif"), "--param", "distances=[1]")
    arrays = result_arrays()
    result = write_npz("result.npz", arrays, unit)

    r = wu("show", unit)
    ok(r.returncode == 0 and
       all(w in r.stdout for w in ("work unit", "glcm", "distances", "g8", "53 x 37", "53 x 37 x 3",
                                   "RGB 8 bit", "rsc_fpops_est")), "show describes a work unit",
       r.stdout + r.stderr)
    r = wu("show", result)
    ok(r.returncode == 0 and
       all(w in r.stdout for w in ("result", "features", "3 x 15", "float64", "glcm_d03_imc1", "g8",
                                   "things", "centroid_y")),
       "show describes a result", r.stdout + r.stderr)
    r = wu("show", "--all", result)
    ok(r.returncode == 0 and "%.17g" % arrays["features"][2, 14] in r.stdout,
       "show --all prints every digit", r.stdout + r.stderr)
    for f, code in ((path("g8.png"), 2), (path("nothing.zip"), 2), (path("empty.png"), 2)):
        r = wu("show", f)
        ok(r.returncode == code and r.stderr.count("\n") == 1 and r.stdout == "",
           "show refuses " + os.path.basename(f), r.stderr)

    folder, overlay_folder = path("exported"), path("exported_over")
    r = wu("export", "--pictures", result, "-o", folder)
    ok(r.returncode == 0 and "strange" in r.stderr and r.stderr.count("\n") == 1,
       "export reports an undeclared array, which it leaves out", r.stderr)
    pictures = [n % i for i in ("g8", "c8", "three")
                for n in ("heat_%s_L64_-1_0.png", "labels_%s.png", "mask_%s.png")]
    tables = ["columns.csv", "features.csv", "offset_features.csv", "items.csv", "things.csv",
              "spots.csv"]
    ok(sorted(os.listdir(folder)) ==
       sorted(tables + pictures + ["mask_three+planes.png", "exported.txt"]),
       "export writes a file for each table, picture and map",
       os.listdir(folder))
    check_tables(folder, arrays)

    mask = np.asarray(Image.open(os.path.join(folder, "mask_g8.png")).convert("RGB"))
    ok(np.array_equal(mask, np.repeat(np.where(arrays["mask_g8"] > 0, 255, 0)[:, :, None], 3, 2)),
       "a mask is black and white")
    labels = np.asarray(Image.open(os.path.join(folder, "labels_g8.png")).convert("RGB"))
    ok(labels.shape == (37 * 6, 53 * 6, 3), "a small picture is drawn larger", labels.shape)
    labels = labels[::6, ::6]
    ok(labels.shape == (37, 53, 3) and (labels[0, 0] == 0).all() and
       not np.array_equal(labels[8, 8], labels[20, 30])
       and not np.array_equal(labels[8, 8], labels[5, 5]), "labels: colours and outlines")
    r = wu("export", result, "-o", overlay_folder, "--images", unit)
    ok(r.returncode == 0 and set(os.listdir(overlay_folder)) - set(os.listdir(folder)) ==
       {"mask_g8+plain.png", "mask_c8+plain.png", "mask_three+plain.png", "spots_g8.png",
        "spots_c8.png", "spots_three.png",
        "spots_three_slices.png"},
       "export --images also draws points, and masks next to their pictures", r.stderr +
       str(os.listdir(overlay_folder)))
    labels = np.asarray(Image.open(os.path.join(overlay_folder,
                                                "labels_g8.png")).convert("RGB"))[::6, ::6]
    ok(np.array_equal(labels[:4], np.repeat(GREY[:4, :, None], 3, 2)),
       "export --images: the picture is visible where no label is")
    small = Image.open(os.path.join(folder, "heat_g8_L64_-1_0.png"))
    large = Image.open(os.path.join(overlay_folder, "heat_g8_L64_-1_0.png"))
    ok(large.width > small.width and large.height == small.height,
       "export --images: a map is next to its picture")
    first_digests = {n: hashlib.sha256(open(os.path.join(folder, n), "rb").read()).digest()
                     for n in os.listdir(folder)}
    wu("export", "--pictures", result, "-o", folder)
    ok(all(hashlib.sha256(open(os.path.join(folder, n), "rb").read()).digest() == d
           for n, d in first_digests.items()),
       "exporting twice gives the same bytes")

    r = wu("export", result, "-o", overlay_folder, "--images", path("stack.zip"))
    ok(r.returncode == 2 and "not the work unit" in r.stderr,
       "another work unit's pictures are refused", r.stderr)
    r = wu("export", "--pictures", result, "-o", path("g8.png"))
    ok(r.returncode == 3 and "exists and is not a folder" in r.stderr,
       "export refuses a file as output folder",
       r.stderr)
    check_drawing(overlay_folder, arrays, unit)
    check_export_again(arrays, unit, result)
    check_terminal(arrays, unit)
    check_formulas(arrays, unit)
    check_separators(arrays, unit)
    check_bad_results(arrays, unit)


def check_drawing(export_folder, arrays, unit):
    """Exported pictures: points on small pictures are drawn; slices are numbered; planes through a
    stack have the proportions of the voxels."""
    def pixels_of(folder, name):
        return np.asarray(Image.open(os.path.join(folder, name)).convert("RGB")).astype(int)
    spots = pixels_of(export_folder, "spots_c8.png")
    is_red = [(255, 70, 40) == tuple(spots[y, x]) for y, x in ((int(2.5 * 6), int(3.5 * 6)),
                                                               (int(5.5 * 6), int(6.75 * 6)))]
    ok(spots.shape == (222, 318, 3) and all(is_red) and (spots == [255, 70, 40]).all(axis=2).sum() <
       60, "points on a small picture", is_red)
    slices = pixels_of(export_folder, "spots_three_slices.png")
    corner = [slices[2:9, 2 + x0:8 + x0] for x0 in (0, 53 * 3 + 4)]
    ok(slices.shape[1] == 2 * 53 * 3 + 4 and all((c == 255).all(axis=2).any() for c in corner) and
       not np.array_equal(*corner),
       "slices are numbered", slices.shape)
    npz = write_npz("spaced.npz", dict(arrays, item_spacing=np.array([[np.nan] * 3, [np.nan] * 3,
                                                                      [4, 1, 2.0]])), unit)
    flat, r = (pixels_of(path("exported"), "mask_three+planes.png"),
               wu("export", "--pictures", npz, "-o", path("spaced")))
    deep = pixels_of(path("spaced"), "mask_three+planes.png")
    ok(flat.shape == (37 * 3, 3 * (2 * 53 + 37) + 8, 3) and
       (flat[9, 53 * 3 + 4:53 * 6 + 4] == 214).all() and
       (flat[8, 53 * 3 + 4:53 * 6 + 4] != 214).all(),
       "planes through cubic voxels", flat.shape)
    ok(r.returncode == 0 and deep.shape == (37 * 2, 2 * (4 * 53 + 37) + 8, 3) and
       (deep[24, 216:426] == 214).all() and (deep[23, 216:426] != 214).all(),
       "planes through voxels of 4 x 1 x 2 micrometres (z, y, x)", "%s %s" % (deep.shape, r.stderr))
    npz = write_npz("spaced.npz", dict(
        arrays, item_spacing=np.array([[np.nan] * 3, [np.nan] * 3, [1e300, 1e-300, np.inf]])), unit)
    r = wu("export", "--pictures", npz, "-o", path("spaced"))
    ok(r.returncode == 0 and pixels_of(path("spaced"), "mask_three+planes.png").shape[1] ==
       2 * (4082 + 4) + 29, "planes through voxels of extreme lengths", r.stderr)


def check_export_again(arrays, unit, result):
    """An export into the folder of an earlier export removes all files of the earlier one, and no
    other file."""
    other = write_npz("other.npz", {k: v for k, v in arrays.items() if not k.startswith("mask_")},
                      unit,
                      {"arrays": [d for d in DECLARED if "mask_" not in str(d)]})
    folder, fresh, outside_file = path("again"), path("fresh"), path("beside.png")
    wu("export", result, "-o", folder, "--images", unit)
    for name in ("mine.png", "notes.csv"):
        with open(os.path.join(folder, name), "w") as f:
            f.write("mine")
    shutil.copy(os.path.join(folder, "mine.png"), outside_file)
    # Files that no export wrote stay, even if they are added to the list of exported files.
    with open(os.path.join(folder, "exported.txt"), "a") as f:
        f.write("../beside.png\nmine.txt\n.hidden.png\nnotes.csv")
    for name in ("mine.txt", ".hidden.png"):
        shutil.copy(outside_file, os.path.join(folder, name))
    r = wu("export", "--pictures", other, "-o", folder)
    wu("export", "--pictures", other, "-o", fresh)
    foreign_files = {"mine.png", "notes.csv", "mine.txt", ".hidden.png"}
    ok(r.returncode == 0 and os.path.exists(outside_file) and set(os.listdir(folder)) ==
       set(os.listdir(fresh)) | foreign_files
       and "mask_c8.png" not in os.listdir(folder),
       "export removes the files of an earlier export, and no others", r.stderr +
       str(os.listdir(folder)))
    ok(all(open(os.path.join(folder, n), "rb").read() == open(os.path.join(fresh, n), "rb").read()
           for n in os.listdir(fresh)),
       "an export after an earlier one has the same files as into a new folder")

    os.remove(os.path.join(folder, "exported.txt"))
    contents = {n: open(os.path.join(folder, n), "rb").read() for n in os.listdir(folder)}
    r = wu("export", "--pictures", result, "-o", folder)
    ok(r.returncode == 2 and ".csv: exists" in r.stderr and "another folder" in r.stderr and
       all(open(os.path.join(folder, n), "rb").read() == b for n, b in contents.items()),
       "export does not replace files that exported.txt does not list", r.stderr)
    with open(os.path.join(folder, "exported.txt"), "w") as f:
        f.write("mine.png\n")
    r = wu("export", "--pictures", result, "-o", folder)
    ok(r.returncode == 2 and "not the list of an export" in r.stderr and
       os.path.exists(os.path.join(folder, "mine.png")),
       "export refuses an exported.txt that it did not write", r.stderr)


def check_terminal(arrays, unit):
    """Malicious text in a result: characters that control a terminal or change the direction of
    text are not printed."""
    control_characters = [chr(c) for c in (*range(1, 32), *range(0x7f, 0xa0), 0x61c, 0x200e, 0x200f,
                                           *range(0x2028, 0x202f),
                                           *range(0x2066, 0x206a))]
    text = "caf\u00e9 \u4e2d" + "".join(control_characters) + "\u20ac \U0001f52c\u00a0."
    result = write_npz("terminal.npz", dict(arrays, words=np.array(["", text, "x"])), unit,
                       {"parameters": {text: [text]},
                        "arrays": DECLARED + [array_entry("words", "value", "items", "words")]})
    r = wu("show", "--all", result, encoding="utf-8")
    output = r.stdout.replace("\n", "")
    ok(r.returncode == 0 and not set(control_characters) & set(output) and
       output.count("\U0001f52c") == 3 and
       "caf\u00e9 \u4e2d" in output,
       "show prints no control characters, and other letters unchanged",
       ascii(r.stdout) + r.stderr)
    for name in (text.replace("\n", ""), b"/nothing/\x9b31m\xe2\x80\xc3\xa9\xed\xa0\x80.png"):
        r = run([TEXCELL_WU, "show", name], encoding="utf-8", errors="replace")
        ok(r.returncode == 2 and not set(control_characters + ["\ufffd"]) & set(r.stderr[:-1]) and
           "\u00e9" in r.stderr,
           "error messages have no control characters", ascii(r.stderr))


def check_tables(folder, arrays):
    """The exported CSV tables have the values of the arrays."""
    rows = read_csv(folder, "features.csv")
    got = np.array([[float(c) for c in row[1:]] for row in rows[1:]])
    ok(rows[0] == ["item"] + list(arrays["feature_names"]) and [r[0] for r in rows[1:]] ==
       list(arrays["item_names"]),
       "features.csv: titles and items")
    ok(got.tobytes() == arrays["features"].tobytes() or
       (np.array_equal(got, arrays["features"], equal_nan=True) and
        np.array_equal(np.signbit(got[0, 3:]), np.signbit(arrays["features"][0, 3:]))),
       "features.csv: every bit")
    rows = read_csv(folder, "offset_features.csv")
    numbers = np.array([[float(c) for c in row[5:]] for row in rows[1:]])
    keys = [row[:5] for row in rows[1:]]
    expected = [[i, l, str(o[0]), str(o[1]), f] for i in arrays["item_names"] for l in ("16", "64")
                for o in arrays["offsets"] for f in FEATURES]
    ok(numbers.tobytes() == arrays["offset_features"].tobytes() and keys == expected
       and rows[0] == ["item", "levels", "dx", "dy", "feature", "mean", "variance", "min", "max"],
       "offset_features.csv: every bit, and the keys of every row", rows[0])
    rows = read_csv(folder, "items.csv")
    ok(rows[0] == ["item", "count", "volume", "good", "otsu_threshold"] and
       rows[1] == ["g8", "2", rows[1][2], "1", "7"]
       and [float(r[2]) for r in rows[1:]] == arrays["volume"].tolist(), "items.csv", rows)
    rows = read_csv(folder, "things.csv")
    ok(rows[0] == ["item", "bbox_y0", "bbox_x0", "bbox_y1", "bbox_x1", "centroid_y", "centroid_x",
                   "mean",
                   "glcm_d02_contrast", "glcm_d02_energy"]
       and [r[0] for r in rows[1:]] == ["g8", "g8", "three"] and
       rows[3][1:5] == ["8", "9", "10", "11"]
       and np.array_equal(np.array([r[7] for r in rows[1:]], np.float32), arrays["thing_mean"]),
       "things.csv", rows)
    rows = read_csv(folder, "spots.csv")
    ok(rows == [["item", "z", "y", "x", "score"], ["c8", "1", "2", "3", str(2 ** 62)],
                ["c8", "4", "5", "6.25", "-5"]],
       "spots.csv", rows)


def check_formulas(arrays, unit):
    """Text in a result that a spreadsheet would evaluate as a formula gets an apostrophe in CSV
    files; numbers do not."""
    title = array_entry("words", "value", "items", "words")
    for texts in (["=HYPERLINK(\"http://x\",\"y\")", "+cmd", "-2+3"],
                  ["@SUM(1+1)*cmd|x", "\t=1", "\r=1"], ["a=1", "'", ""], ["a", "' ", "a \""]):
        bad = write_npz("formulas.npz", dict(arrays, words=np.array(texts),
                                             volume=np.array([-1.5, -np.inf, 2])), unit,
                        {"arrays": DECLARED + [title]})
        r = wu("export", bad, "-o", path("formulas"))
        rows = read_csv(path("formulas"), "items.csv")
        ok(r.returncode == 0 and [r[-1] for r in rows[1:]] ==
           [t.replace("=", "'=") if t[:1] in ("\t", "\r") else t if t[:1] in ("", "a", "'")
            else "'" + t for t in texts]
           and [r[2] for r in rows[1:]] == ["-1.5", "-inf", "2"],
           "export: text does not become a formula: %a" % texts,
           ascii(rows) + r.stderr)


def check_separators(arrays, unit):
    """A spreadsheet may separate cells at semicolons or tabs instead of commas: also then no cell
    begins with a character that begins a formula, plain or full-width."""
    texts = (["a;=1+1", "b\t@x", "c,+1", "d;\"=1", "\uff1d1+1", "e; -2", "f|=1"],
             ["g\x9b31m", "h;\uff0b1", "i", "", "j=1;k", "l;m", "n\u2028", " ", "p; ", "q;\""])
    title = array_entry("words", "value", "items", "words")
    for texts_of_file in texts:
        for i in range(0, len(texts_of_file), 3):
            item_words = (texts_of_file[i:i + 3] + ["", ""])[:3]
            bad = write_npz("separators.npz", dict(arrays, words=np.array(item_words)), unit,
                            {"arrays": DECLARED + [title]})
            r = wu("export", bad, "-o", path("separators"))
            for delimiter in ",;\t":
                with open(path("separators/items.csv"), encoding="utf-8", newline="") as f:
                    cells = [c for row in csv.reader(f, delimiter=delimiter) for c in row]
                formulas = [c for c in cells
                            if c.lstrip(" \"")[:1] in tuple("=+@\uff1d\uff0b\uff0d\uff20") or
                            re.match(r'[ "]*-[^0-9]', c)]
                ok(r.returncode == 0 and not formulas and not any("\x9b" in c for c in cells),
                   "export: separated by %a no text becomes a formula: %a" %
                   (delimiter, item_words), formulas)


def check_bad_results(arrays, unit):
    """Malicious or damaged results are refused with a message of one line."""
    for name, change in (
            ("fewer features", {"features": arrays["features"][:, 1:]}),
            ("fewer features than items", {"features": arrays["features"][:2]}),
            ("features in two axes", {"features": arrays["features"].reshape(3, 3, 5)[:, :, :4]}),
            ("an item number too large", {"thing_item": np.array([0, 0, 3], np.int64)}),
            ("a negative item number", {"thing_item": np.array([0, -1, 2], np.int64)}),
            ("item numbers of another type", {"thing_item": np.zeros(3)}),
            ("tables of unequal length", {"thing_mean": np.zeros(4, np.float32)}),
            ("no item names", {"item_names": None}),
            ("item names that are paths", {"item_names": np.array(["../x", "c8", "three"])}),
            ("item names of 200 characters", {"item_names": np.array(["x" * 200, "c8", "three"])}),
            ("another item's pictures", {"item_names": np.array(["g9", "c8", "three"])}),
            ("an item more", {"item_names": np.array(["g8", "c8", "three", "four"])}),
            ("a missing map", {"heat_g8_L64_-1_0": None}), ("a missing column", {"score": None}),
            ("a map of the wrong type", {"heat_g8_L64_-1_0": np.zeros((3, 3))}),
            ("an empty map", {"heat_g8_L64_-1_0": np.zeros((0, 3), np.float32)}),
            ("a map in one dimension", {"heat_g8_L64_-1_0": np.zeros(4, np.float32)}),
            ("offsets that do not fit", {"offsets": np.zeros((5, 2), np.int32)}),
            ("offsets of more columns", {"offsets": np.zeros((2, 3), np.int32)}),
            ("offsets of another type", {"offsets": np.zeros((2, 2))}),
            ("no offsets", {"offsets": None}),
            ("a map of another size than the picture",
             {"heat_g8_L64_-1_0": np.zeros((3, 3), np.float32)})):
        changed_arrays = {k: v for k, v in {**arrays, **change}.items() if v is not None}
        bad = write_npz("bad.npz", changed_arrays, unit)
        r = wu("export", bad, "-o", path("exported_bad"), "--images", unit)
        ok(r.returncode == 2 and r.stderr.count("\n") == 1 and "bad.npz" in r.stderr,
           "export refuses " + name,
           "%d %s" % (r.returncode, r.stderr))
    for name, dtype in (("heat_g8_L64_-1_0", "f4"), ("labels_g8", "i4"), ("mask_g8", "u1")):
        for shape in ((3, 3), (3000, 2000)):
            bad = write_npz("bad.npz", dict(arrays, **{name: np.zeros(shape, dtype)}), unit)
            r = wu("report", bad, "-o", path("bad.html"))
            ok(r.returncode == 2 and "its size differs from the item's" in r.stderr,
               "report refuses %s of %d x %d" % (name, *shape), r.stderr)
    reordered = [DECLARED[i] for i in (0, 1, 2, 3, 4, 5, 6, 7, 9, 8)] + DECLARED[10:]
    for name, change in (("an item column behind its table", {"arrays": reordered}),
                         ("no declarations", {"arrays": 3}),
                         ("an array of no name", {"arrays": DECLARED + [{"role": "value"}]}),
                         ("an array that is not there",
                          {"arrays": DECLARED + [array_entry("gone", "value", "items", "gone")]}),
                         ("a table that is a path",
                          {"arrays": DECLARED +
                           [array_entry("strange", "value", "../items", "s")]}),
                         ("keys that are not declared", {"arrays": DECLARED[:1] + DECLARED[2:]}),
                         ("no version", {"version": None}), ("version 2", {"version": 2}),
                         ("version 4", {"version": 4})):
        bad = write_npz("bad.npz", arrays, unit, change)
        for verb in (["show"], ["export", "-o", path("exported_bad"), "--images", unit]):
            r = wu(*verb, bad)
            # show does not read the array of keys.
            accepted = verb == ["show"] and name == "keys that are not declared"
            ok(r.returncode == (0 if accepted else 2) and r.stderr.count("\n") ==
               (0 if accepted else 1),
               "%s refuses %s" % (verb[0], name), "%d %s" % (r.returncode, r.stderr))
    whole = open(path("result.npz"), "rb").read()
    wrong = []
    for i in range(60):
        body = bytearray(whole)
        if i % 4 == 0:
            del body[RNG.integers(1, len(body)):]
        for _ in range(1 + i % 3):
            body[RNG.integers(0, len(body))] ^= 1 << int(RNG.integers(0, 8))
        with open(path("hurt.npz"), "wb") as f:
            f.write(body)
        for verb in (["show", "--all"], ["export", "-o", path("exported_bad")]):
            r = wu(*verb, path("hurt.npz"))
            if r.returncode not in (0, 2):
                wrong.append("%s: %d %s" % (verb[0], r.returncode, r.stderr))
    ok(not wrong, "a result damaged in 60 ways is read or refused", "\n".join(wrong[:3]))


if not os.path.exists(TEXCELL_WU):
    note("%s is not built" % TEXCELL_WU)
for test in (test_png, test_jpeg, test_tiff_pil, test_tiff_codecs, test_tiff_layouts,
             test_tiff_hostile, test_jpeg_hostile, test_scale, test_channels, test_nifti,
             test_sizes, test_micrometres, test_um_parameters, test_colours, test_orientation,
             test_not_pictures, test_damage, test_names, test_about, test_sources,
             test_scripts, test_bad_files, test_compression, test_stacks, test_masks,
             test_labels_of_result, test_split, test_output, test_parameters, test_usage,
             test_memory, test_real, test_show_export):
    test()
done()
