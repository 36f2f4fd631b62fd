"""Makes picture files for tests and as the fuzzers' first inputs, byte by byte: TIFF with the texts
and tags by which many programs describe pages, and NIfTI-2."""
import gzip
import json
import struct

import numpy as np

NAMES = {1: "B", 2: "s", 3: "H", 4: "I", 5: "II", 12: "d", 16: "Q"}


def flat(*values, shape=(8, 8), dtype=np.uint8):
    """A uniform plane for each value."""
    return [np.full(shape, v, dtype) for v in values]


def tags_of(plane, text=None, **more):
    """The tags of a page, {number: (type, [values])}."""
    samples = plane.shape[2] if plane.ndim == 3 else 1
    bits = plane.dtype.itemsize * 8
    tags = {256: (4, [plane.shape[1]]), 257: (4, [plane.shape[0]]), 258: (3, [bits] * samples),
            259: (3, [1]), 262: (3, [2 if samples == 3 else 1]),
            273: (4, [0]), 277: (3, [samples]), 278: (4, [plane.shape[0]]),
            279: (4, [plane.nbytes])}
    if text is not None:
        data = text if isinstance(text, bytes) else text.encode()
        tags[270] = (2, data + b"\0")
    tags.update({int(k[1:]): v for k, v in more.items()})
    return tags


def tiff(planes, text=None, order="<", one=False, behind=b"", first=None, front=b"", **more):
    """A TIFF with each plane as a page. one: the samples of all planes follow each other, and only
    the first page has a directory. front: bytes after the header; behind: bytes at the end; first:
    {tag: (type, values)} of the first page; more: further tags as t<tag>=(type, values)."""
    out = bytearray((b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, 0))
    out += front
    link = 4
    for i, plane in enumerate(planes[:1] if one else planes):
        data = b"".join(p.astype(p.dtype.newbyteorder(order)).tobytes()
                        for p in (planes if one else [plane]))
        tags = tags_of(plane, text if i == 0 else None, **(more if i == 0 else {}))
        tags.update((first or {}) if i == 0 else {})
        tags[273] = (4, [len(out)])
        out += data + b"\0" * (len(data) % 2)
        places = {}
        for tag, (kind, values) in sorted(tags.items()):
            raw = values if isinstance(values, (bytes, bytearray)) else b"".join(
                struct.pack(order + NAMES[kind], *(v if isinstance(v, tuple) else (v,)))
                for v in values)
            count = len(values)
            # MetaMorph's tag UIC2 has six 32-bit numbers for each plane, but counts planes
            if kind == 4 and tag == 33629:
                kind, count = 5, len(values) // 6
            places[tag] = (kind, count, raw)
        for tag, (kind, count, raw) in places.items():
            if len(raw) > 4:
                offset = len(out)
                out += raw + b"\0" * (len(raw) % 2)
                places[tag] = (kind, count, struct.pack(order + "I", offset))
        struct.pack_into(order + "I", out, link, len(out))
        out += struct.pack(order + "H", len(places))
        for tag, (kind, count, raw) in sorted(places.items()):
            out += struct.pack(order + "HHI", tag, kind, count) + raw.ljust(4, b"\0")
        link = len(out)
        out += b"\0\0\0\0"
    return bytes(out) + behind


def ome(pixels, data="<TiffData/>", head=""):
    """OME-XML. pixels: the attributes of the element Pixels."""
    return ('<?xml version="1.0" encoding="UTF-8"?><OME '
            'xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" %s><Image '
            'ID="Image:0"><Pixels ID="Pixels:0" Type="uint8" SizeX="8" SizeY="8" '
            '%s>%s</Pixels></Image></OME>' % (head, pixels, data))


def imagej(*lines):
    """The description that ImageJ writes."""
    return "ImageJ=1.54f\n" + "\n".join(lines) + "\n"


def uic2(n, z):
    """MetaMorph's tag UIC2 for n planes; z(i): z of plane i."""
    return (4, [v for i in range(n) for v in (z(i), 1000, 2450000, 0, 2450000, 0)])


def stk(n=5, z=lambda i: 1500, **more):
    """A MetaMorph stack (STK) of n planes with the values 1 to n."""
    return tiff(flat(*range(1, n + 1)), one=True, t33629=uic2(n, z), **more)


def nih(planes):
    """A stack as NIH Image writes it."""
    header = bytearray(512)
    struct.pack_into(">h", header, 260, len(planes))
    return tiff(planes, order=">", one=True, t43314=(3, struct.unpack(">256H", header)))


def linked(planes, to, text=None):
    """A TIFF whose last page points to a next page at offset `to`, or to the first page if `to` is
    None."""
    data = bytearray(tiff(planes, text))
    first = offset = struct.unpack_from("<I", data, 4)[0]
    while offset:
        link = offset + 2 + 12 * struct.unpack_from("<H", data, offset)[0]
        offset = struct.unpack_from("<I", data, link)[0]
    struct.pack_into("<I", data, link, first if to is None else to)
    return bytes(data)


def with_sub(side, sub):
    """A square page, with another one as its SubIFD."""
    data = bytearray(tiff(flat(5, shape=(side, side)) + flat(9, shape=(sub, sub)), t330=(4, [0])))
    offset = struct.unpack_from("<I", data, 4)[0]
    n = struct.unpack_from("<H", data, offset)[0]
    link = offset + 2 + 12 * n
    for entry in range(offset + 2, link, 12):
        if struct.unpack_from("<H", data, entry)[0] == 330:
            data[entry + 8:entry + 12] = data[link:link + 4]
    data[link:link + 4] = bytes(4)
    return bytes(data)


def lsm(planes, x=8, y=8, z=1, c=1, t=1, scan=0, magic=0x0400494c, places=1, thumbnails=False,
        **more):
    """A Zeiss LSM file. x, y, z, c, t: the dimensions in its header."""
    head = bytearray(500)
    struct.pack_into("<IiiiiiiI", head, 0, magic, 500, x, y, z, c, t, 1)
    struct.pack_into("<3d", head, 40, 1e-7, 2e-7, 5e-7)
    struct.pack_into("<H", head, 88, scan)
    struct.pack_into("<ii", head, 264, 1, places)
    return tiff(planes, t34412=(1, bytes(head)), **more)


def fluoview(planes):
    """An Olympus FluoView file of 3 slices and 2 channels."""
    head = bytearray(284 + 1000)
    for i, (name, size, step, unit) in enumerate((("X", 8, 0.5, "um"), ("Y", 8, 0.5, "um"),
                                                  ("Z", 3, 2, "um"), ("Ch", 2, 1, ""))):
        struct.pack_into("<16sIdd64s", head, 284 + 100 * i, name.encode(), size, 0, step,
                         unit.encode())
    return tiff(planes, t34361=(1, bytes(head)))


def micromanager(summary, planes, index=True):
    """A Micro-Manager file with this summary. index: with an index of its planes, alternating
    between two channels."""
    text = json.dumps(summary).encode()
    front = struct.pack("<8I", 54773648, 0, 483765892, 0, 99384722, 0, 2355492, len(text)) + text
    data = bytearray(tiff(planes, front=front + b"\0" * (len(front) % 2), t51123=(2, b"{}\0")))
    offsets, directory = [], struct.unpack_from("<I", data, 4)[0]
    while directory:
        offsets.append(directory)
        directory = struct.unpack_from("<I", data, directory + 2 +
                                       12 * struct.unpack_from("<H", data, directory)[0])[0]
    if index:
        struct.pack_into("<I", data, 12, len(data))
        data += struct.pack("<II", 3453623, len(offsets))
        for i, offset in enumerate(offsets):
            data += struct.pack("<5I", i % 2, i // 2, 0, 0, offset)
    return bytes(data)


def nifti2(array, order="<", **change):
    """A NIfTI-2 file. change: size, slope, offset, unit, and cut (the file's length)."""
    head = bytearray(544)
    axes = array.shape[::-1]
    dims = [len(axes)] + list(axes) + [1] * (7 - len(axes))
    struct.pack_into(order + "i8sHH8q", head, 0, 540, b"n+2\0\r\n\x1a\n",
                     {"u1": 2, "u2": 512, "i2": 4}[array.dtype.str[1:]], array.dtype.itemsize * 8,
                     *dims)
    struct.pack_into(order + "8d", head, 104, 1, *change.get("size", (0.5, 0.5, 2)), 1, 1, 1, 1)
    struct.pack_into(order + "q2d", head, 168, 544, change.get("slope", 0), change.get("offset", 0))
    struct.pack_into(order + "i", head, 500, change.get("unit", 3))
    data = bytes(head) + array.astype(array.dtype.newbyteorder(order)).tobytes()
    return data[:change.get("cut", len(data))]


def seeds():
    """Yields small files of each kind, good and bad, for the fuzzers. "98" and "99" in them are
    names of files that exist there: a companion file, and the input itself."""
    six, five = flat(1, 2, 3, 4, 5, 6, shape=(3, 4)), flat(1, 2, 3, 4, 5, shape=(3, 4))
    plain = ome('DimensionOrder="XYCZT" SizeZ="3" SizeC="2" SizeT="1" PhysicalSizeX="0.5" '
                'PhysicalSizeXUnit="&#xB5;m" PhysicalSizeY="0.5"').replace('"8"', '"4"', 1).replace(
                    '"8"', '"3"', 1)
    each = "".join('<TiffData FirstZ="%d" FirstC="%d" IFD="%d" PlaneCount="1"/>' %
                   (i // 2, i % 2, i) for i in range(6))
    for text in (plain, plain.replace("<TiffData/>", each),
                 plain.replace("<TiffData/>", each.replace('IFD="1"', 'IFD="0"')),
                 plain.replace("<TiffData/>", each.replace('FirstZ="2"', 'FirstZ="9"')),
                 plain.replace("<TiffData/>", each.replace("/>", '><UUID FileName="99">urn:uuid:1</'
                                                           'UUID></TiffData>', 3)),
                 plain.replace("<TiffData/>",
                               '<TiffData><UUID FileName="../a">u</UUID></TiffData>'),
                 plain.replace("<TiffData/>",
                               '<TiffData IFD="0"><UUID FileName="97">u</UUID></TiffData><TiffData '
                               'IFD="0" FirstZ="1"><UUID FileName="96">u</UUID></TiffData>'),
                 plain.replace("<TiffData/>", ""),
                 plain.replace("<OME", "<a:OME").replace("</OME", "</a:OME"), plain[:-9],
                 plain.replace("<OME", "<!DOCTYPE OME [<!ENTITY a 'b'>]><OME"),
                 plain.replace("</Image>",
                               "</Image>" + plain[plain.index("<Image"):plain.index("</OME>")]),
                 plain.replace('SizeC="2"', 'SizeC="0"'), plain.replace("0.5", "\u00e5"),
                 plain.replace('SizeT="1"', 'SizeT="4"').replace("<TiffData/>", each),
                 plain.replace('SizeZ="3"', 'SizeZ="1"'),
                 plain.replace('SizeZ="3"', 'SizeZ="3000000"'),
                 '<OME UUID="urn:uuid:2"><BinaryOnly MetadataFile="98" UUID="urn:uuid:3"/></OME>',
                 '<OME><BinaryOnly MetadataFile="99"/></OME>',
                 '<OME><BinaryOnly MetadataFile="97"/></OME>',
                 '<OME><BinaryOnly MetadataFile="a/b"/></OME>', '<OME><BinaryOnly/></OME>',
                 "<scn/>", "<a:scn />", "Aperio", "<DataObject>DPUfsImport</DataObject>",
                 '<MetaData><prop id="spatial-calibration-state" value="on"/><prop '
                 'id="spatial-calibration-x" value="0.65"/><prop id="spatial-calibration-y" '
                 'value="1"/><prop id="spatial-calibration-units" value="um"/><prop/></MetaData>',
                 plain.replace("UTF-8", "utf-16"), plain.encode("utf-16"),
                 plain.replace("<OME ", "<OME\n"), plain.replace("&#xB5;m", "pixel"),
                 "<PerkinElmer-QPI-ImageDescription/>", "level=0 mag=40",
                 imagej("unit=um", "yunit=nm"), imagej("unit=parsec"),
                 imagej("images=6", "channels=2", "slices=3", "unit=micron", "spacing=2"),
                 imagej("images=6"), imagej("images=6", "slices=2"), imagej("frames=9"),
                 imagej("slices=4", "frames=4"),
                 imagej("cf=0", "c0=-32768", "c1=1"), imagej("cf=21"), imagej("cf=20"),
                 imagej("cf=0", "c0=1", "c1=0.5", "unit=inch", "zunit=um"),
                 "SCIFIO=1\naxes=X,Y,Channel,Z\nlengths=4,3,2,3\nscales=1,1,1,2\nunits=um,"
                 "um,null,mm\n", "SCIFIO=1\naxes=X,Channel,Time,Lifetime,Z,Z\nlengths=4,1,2,3\n",
                 "SCIFIO=1\nimages=6\n",
                 '{"shape": [3, 2, 3, 4], "axes": "ZCYX"}', '{"shape": [6, 3, 4], "axes": "QYX"}',
                 '{"shape": [2, 3, 3, 4]}', '{"shape": [1, 3, 3, 4], "axes": "TSYX"}',
                 '{"shape": [4]}', '{"shape": [6, 3, 4, 1]}',
                 '{"shape": "x', '{"shape": 3}', "shape=(6, 3, 4)",
                 "shape=(x)", "SI.a = 1\nSI.hChannels.channelSave = [1;2]\n",
                 "state.acq.numberOfChannelsSave=2\n"):
        yield tiff(six, text)
        yield tiff(five[:1], text)
        yield tiff([p.astype(np.uint16) for p in five], text, one=True, order=">")
    yield tiff([np.dstack([p, p, p]) for p in five[:2]],
               plain.replace('SizeC="2"', 'SizeC="3"').replace('SizeZ="3"', 'SizeZ="2"'))
    yield tiff([np.dstack([p, p, p]) for p in five], imagej("images=5", "slices=5"), one=True)
    yield tiff([np.dstack([p, p, p]) for p in six], '{"shape": [6, 3, 4, 3], "axes": "ZYXS"}')
    yield tiff(flat(1, shape=(40, 61)) + flat(2, shape=(20, 30)))
    yield tiff(five[:1], t330=(4, [8]), t34675=(7, b"icc"))
    yield tiff(five[:2], t254=(4, b""), t281=(3, b""))
    yield with_sub(4, 3)
    yield with_sub(3, 4)
    for to, planes in ((None, five[:2]), (1 << 20, five[:1]), (1 << 20, five[:2])):
        yield linked(planes, to)
    for n in (3, 9, 768):
        yield tiff(five[:1], t262=(3, [3]), t278=(4, [0]), t284=(3, [0]), t320=(3, list(range(n))))
    yield tiff(six,
               plain.replace("</OME>", '<a><ModuloAlongZ Type="angle" Start="0" '
                             'End="2"/><ModuloAlongC><Label/><Label/></ModuloAlongC></a></OME>'))
    yield nih(five)
    yield tiff(five[:1], t33445=(4, [2]))
    for kind in (1, 2):
        yield tiff([np.dstack([p, p, p, p]) for p in five[:1]], t262=(3, [2]), t338=(3, [kind]))
    yield lsm([np.dstack([p, p, p, p]) for p in five[:2]], z=2, c=4, t262=(3, [2]))
    yield struct.pack("<i", 348) + bytes(344)
    for photometric in (5, 8, 32803, 32844):
        yield tiff(five[:1], t262=(3, [photometric]))
    yield tiff([p.astype(np.uint16) for p in five[:1]], t262=(3, [0]))
    yield tiff([np.dstack([p, p, p, p]).astype(np.float32) for p in five[:1]], t262=(3, [2]),
               t338=(3, [2]), t339=(3, [3, 3, 3, 3]))
    away = '<TiffData IFD="0"><UUID FileName="%s">u</UUID></TiffData><TiffData IFD="0" FirstZ="1"/>'
    for name in ("98", "97"):
        yield tiff(flat(1, shape=(3, 4)), plain.replace("<TiffData/>", away % name).replace(
            'SizeC="2"', 'SizeC="1"').replace('SizeZ="3"', 'SizeZ="2"'))
    front = struct.pack("<IIII", 65, 100, 13, 100) + struct.pack("<I", 2) + b"um\0\0"
    yield stk(front=front, t33628=(4, [4, 8, 5, 16, 6, 24, 0, 0]))
    yield stk(z=lambda i: 0)
    yield stk(z=lambda i: i % 2, order=">")
    yield stk(t33630=(5, [(i % 2 + 400, 1) for i in range(5)]))
    for more in ({}, {"c": 2}, {"scan": 1}, {"magic": 5}, {"places": 2}):
        yield lsm(flat(1, 2, 3, 4, 5, 6), **{"z": 2, "t": 3, **more})
    yield lsm([np.dstack(flat(1, 2, 3))], c=3)
    yield fluoview(flat(1, 2, 3, 4, 5, 6))
    summary = {"Channels": 2, "Slices": 3, "Frames": 1, "Positions": 1, "PixelSize_um": 0.5,
               "z-step_um": 2}
    for change in ({}, {"Positions": 2}, {"Slices": 9}, {"SlicesFirst": False, "TimeFirst": True}):
        yield micromanager({**summary, **change}, flat(1, 2, 3, 4, 5, 6))
    yield micromanager(summary, flat(1, 2, 3, 4, 5, 6), False)
    yield tiff(flat(1), t65420=(4, [1]))
    for colours in (np.outer(np.arange(256), (0, 1, 0)), np.outer(255 - np.arange(256), (1, 0, 1)),
                    np.outer(np.arange(256), (1, 1, 1))):
        for text in (None, imagej("min=0")):
            yield tiff(five[:1], text, t262=(3, [3]),
                       t320=(3, [int(v) * 257 for v in colours.T.ravel()]))
    yield tiff(five[:1], imagej("min=0"), t262=(3, [0]))
    stack = np.stack(five).astype(np.uint16)
    for order in "<>":
        yield nifti2(stack, order)
        yield nifti2(np.stack([stack, stack]), order, slope=0.5, size=(-1, 1, 1))
        yield nifti2(stack[None, None, None], order)
    yield nifti2(stack, slope=2, offset=float("nan"))
    yield nifti2(stack, slope=float("inf"))
    for offset in (168, 14):
        whole = bytearray(nifti2(stack))
        whole[offset:offset + 2] = b"\0\0"
        yield bytes(whole)
        yield gzip.compress(whole, mtime=0)
    yield nifti2(stack, cut=300)
