"""Tests how texcell-wu pack interprets the metadata of picture files: channels, times, slices and
their order, calibration, sizes of pixels, lookup tables, and files that belong together. The files
are made by this test, byte by byte where no library writes them."""
import gzip
import io
import json
import os
import struct
import zipfile

import numpy as np
from PIL import Image

import picture_files as files
import tap
from picture_files import flat, imagej, ome

FOLDER = tap.scratch()
SHARED = os.path.join(tap.SRC, "..", "shared", "pictures")


def path(*parts):
    return os.path.join(FOLDER, *parts)


def put(name, data):
    with open(path(name), "wb") as f:
        f.write(data)
    return path(name)


def tiff(name, planes, text=None, **more):
    return put(name, files.tiff(planes, text, **more))


def lsm(name, planes, **more):
    return put(name, files.lsm(planes, **more))


def nifti2(name, array, *args, **change):
    return put(name, files.nifti2(array, *args, **change))


def pack(out, *args):
    return tap.run([tap.TEXCELL_WU, "pack", "--analysis", "glcm", "--param", "levels=[8]",
                    "--param", "distances=[1]", "-o", out] + [str(a) for a in args])


def members(unit, item, key):
    names = item[key] if isinstance(item[key], list) else [item[key]]
    return [np.asarray(Image.open(io.BytesIO(unit.read(n)))) for n in names]


def items_of(out):
    """[(name, spacing, [plane])] of the items of a work unit."""
    with zipfile.ZipFile(out) as z:
        return [(i["name"], i.get("spacing"), members(z, i, "stack" if "stack" in i else "image"))
                for i in json.loads(z.read("job.json"))["items"]]


def count_inside(kind, mask, picture):
    """The number of pixels that are not 0 in a mask or label picture, as packed; or the error
    message."""
    out = path("inside.zip")
    analysis = ["objects"] if kind == "labels" else ["glcm", "--param", 'roi={"type":"mask"}']
    r = tap.run([tap.TEXCELL_WU, "pack", "--analysis", *analysis, "--" + kind, mask, "-o", out,
                 picture])
    if r.returncode != 0:
        return r.stderr
    with zipfile.ZipFile(out) as z:
        return int((members(z, json.loads(z.read("job.json"))["items"][0], kind)[0] > 0).sum())


def check_packed(name, picture, values, *args, spacing=None, note=None, names=None,
                 absent_note=None):
    """Tests that pack accepts the picture(s). values: the first sample of each plane, a list for
    each item. spacing: the expected spacing of each item, [] for none. note: a part of a note
    (None: no note is printed); absent_note: text that no note contains."""
    out = path("out.zip")
    r = pack(out, *args, *(picture if isinstance(picture, list) else [picture]))
    got = [(n, s, [int(p.flat[0]) for p in planes])
           for n, s, planes in items_of(out)] if r.returncode == 0 else []
    values = values if values and isinstance(values[0], list) else [values]
    good = [g[2] for g in got] == values
    if spacing is not None:
        good = good and all(g[1] is None if spacing == [] else g[1] is not None and
                            np.allclose(g[1], spacing, rtol=1e-5) for g in got)
    if names is not None:
        good = good and [g[0] for g in got] == names
    notes = "\n".join(line for line in r.stderr.splitlines() if "its greys are" not in line and
                      "as the file says" not in line)
    good = good and (notes == "" if note is None else note in notes) and (absent_note is None or
                                                                          absent_note not in notes)
    tap.ok(good, name, "%s\n%s" % (got, r.stderr))
    if os.path.exists(out):
        os.remove(out)


def check_refused(name, picture, why, *args):
    """Tests that pack refuses the picture(s) with `why` in the message, which does not call them
    damaged."""
    r = pack(path("out.zip"), *args, *(picture if isinstance(picture, list) else [picture]))
    error = "".join(line for line in r.stderr.splitlines(True) if "error:" in line)
    tap.ok(r.returncode == 2 and why in error and "damaged" not in error, "refused: " + name,
           r.stderr)
    if os.path.exists(path("out.zip")):
        os.remove(path("out.zip"))


SIZES = 'PhysicalSizeX="0.5" PhysicalSizeY="0.5" PhysicalSizeZ="2"'
SIX_PLANES = flat(10, 200, 20, 201, 30, 202)
PLAIN_PIXELS = 'DimensionOrder="XYCZT" SizeZ="3" SizeC="2" SizeT="1" ' + SIZES


def check_two_channels(name, picture):
    """A picture of 2 channels of 3 slices: each channel is packed as a stack; without --channel it
    is refused."""
    check_packed(name + ", channel 1", picture, [10, 20, 30], "--channel", 1, spacing=[2, 0.5, 0.5])
    check_packed(name + ", channel 2", picture, [200, 201, 202], "--channel", 2,
                 spacing=[2, 0.5, 0.5])
    check_refused(name + " without a channel", picture, "holds 2 channels")


def test_ome():
    text = ome(PLAIN_PIXELS)
    check_two_channels("OME", tiff("plain.ome.tif", SIX_PLANES, text))
    for name, changed_text in (("prefix", text.replace("<OME xmlns=", "<om:OME xmlns:om=").replace(
            "<Image", "<om:Image").replace("<Pixels", "<om:Pixels")
                                .replace("<TiffData", "<om:TiffData").replace("</", "</om:")),
                               ("single quotes", text.replace('"', "'")),
                               ("tabs and newlines",
                                text.replace("<Pixels ", "<Pixels\n\t").replace(
                                   '" Size', '"\r\n\tSize')),
                               ("spaces around =", text.replace("SizeC=", "SizeC = ")),
                               ("numeric references", text.replace('SizeC="2"', 'SizeC="&#50;"')),
                               ("hexadecimal references", text.replace('"XYCZT"', '"X&#x59;CZT"')),
                               ("a comment that contains other Pixels", text.replace(
                                   "<Image ", '<!-- <Pixels SizeC="1" SizeZ="6"/> --><Image ')),
                               ("CDATA",
                                text.replace("<Image ", '<StructuredAnnotations><![CDATA[<Pixels '
                                             'SizeC="1" '
                                             'SizeZ="6"/>]]></StructuredAnnotations><Image ')),
                               ("a byte order mark in UTF-8", "\ufeff" + text),
                               ("a newline at its end", text + "\n"),
                               ("no XML declaration", text.split("?>")[1])):
        check_two_channels("OME with " + name, tiff("x.ome.tif", SIX_PLANES, changed_text))
    check_refused("a DTD", tiff("x.ome.tif", SIX_PLANES,
                                text.replace("<OME",
                                             '<!DOCTYPE OME [<!ENTITY two "2">]><OME').replace(
                                    'SizeC="2"', 'SizeC="&two;"')), "DTD")
    check_refused("OME-XML cut short", tiff("x.ome.tif", SIX_PLANES, text[:-30]),
                  "OME-XML is cut short")
    check_packed("broken OME-XML of one page", tiff("x.ome.tif", flat(7), text[:-30]), [7],
                 note="not well-formed XML")
    units = text.replace('PhysicalSizeX="0.5" PhysicalSizeY="0.5"', 'PhysicalSizeX="0.5" '
                         'PhysicalSizeXUnit="\u00b5m" PhysicalSizeY="500" PhysicalSizeYUnit="nm"')
    for name, data in (("UTF-8 that says UTF-16", units.replace("UTF-8", "utf-16")),
                       ("windows-1252", units.replace("UTF-8", "windows-1252").encode("cp1252")),
                       ("a namespace prefix only for its elements",
                        text.replace("xmlns=", "xmlns:ns0=").replace("<OME", "<ns0:OME").replace(
                            "</OME", "</ns0:OME")),
                       ("UTF-8 read as Latin-1", units.replace("\u00b5", "\u00c2\u00b5")),
                       ("sizes below 0", text.replace('"0.5"', '"-5.0E-1"'))):
        check_two_channels("OME with " + name, tiff("x.ome.tif", SIX_PLANES, data))
    check_two_channels("OME of 16 bits, big-endian",
                       tiff("x.ome.tif", [p.astype(np.uint16) for p in SIX_PLANES],
                                                          text.replace("uint8", "uint16"),
                            order=">"))
    check_refused("OME in UTF-16",
                  tiff("x.ome.tif", SIX_PLANES, text.replace("UTF-8", "UTF-16").encode("utf-16")),
                  "is UTF-16")
    for name, changed_text in (("of an unknown unit", 'PhysicalSizeXUnit="furlong"'),
                               ("with a comma", "")):
        check_packed("a size " + name,
                     tiff("x.ome.tif", flat(7),
                          ome('SizeZ="1" SizeC="1" SizeT="1" PhysicalSizeY="1" PhysicalSizeX="%s" '
                              '%s' %
                              ("1" if changed_text else "0,5", changed_text))), [7],
                     spacing=[], note="the size of a pixel")
    colours = [np.dstack(flat(i, i + 1, i + 2)) for i in (1, 11, 21)]
    check_packed("channels of colours",
                 tiff("c.ome.tif", colours,
                      ome('DimensionOrder="XYCZT" SizeZ="1" SizeC="9" SizeT="1"')),
                 [11], "--channel", 2)
    latin = ome('DimensionOrder="XYZCT" SizeZ="1" SizeC="1" SizeT="1" PhysicalSizeX="0.5" '
                'PhysicalSizeXUnit="@m" PhysicalSizeY="0.5" PhysicalSizeYUnit="@m"')
    for name, unit, um in (("the micro sign", "\xb5m".encode(), 0.5),
                           ("the micro sign in Latin-1", b"\xb5m", 0.5),
                           ("the Greek letter", "\u03bcm".encode(), 0.5),
                           ("&#xB5;", b"&#xB5;m", 0.5),
                           ("&#181;", b"&#181;m", 0.5), ("&#956;", b"&#956;m", 0.5),
                           ("&#x3BC;", b"&#x3BC;m", 0.5), ("angstrom", "\xc5".encode(), 5e-5),
                           ("&#xC5;", b"&#xC5;", 5e-5),
                           ("&#197;", b"&#197;", 5e-5),
                           ("the angstrom sign", "\u212b".encode(), 5e-5),
                           ("nm", b"nm", 5e-4), ("Micron", b"Micron", 0.5), ("mm", b"mm", 500),
                           ("cm", b"cm", 5000), ("pixel", b"pixel", 0),
                           ("reference frame", b"reference frame", 0)):
        check_packed("OME's unit: " + name,
                     tiff("u.ome.tif", flat(7), latin.encode().replace(b"@m", unit)), [7],
                     spacing=[um, um] if um else [])

    def shuffled(data, z=4, more=""):
        return ome('DimensionOrder="XYZCT" SizeZ="%d" SizeC="1" SizeT="1"' % z, data) + more
    four = flat(20, 40, 10, 30)
    tiff_data = "".join('<TiffData FirstZ="%d" IFD="%d" PlaneCount="1"/>' % (z, i)
                        for i, z in enumerate((1, 3, 0, 2)))
    check_packed("TiffData in another order than the pages",
                 tiff("s.ome.tif", four, shuffled(tiff_data)),
                 [10, 20, 30, 40])
    check_packed("TiffData without PlaneCount",
                 tiff("s.ome.tif", four, shuffled(tiff_data.replace(' PlaneCount="1"', ""))),
                 [10, 20, 30, 40])
    check_packed("TiffData with only FirstZ",
                 tiff("s.ome.tif", flat(20, 30, 10),
                      shuffled('<TiffData IFD="0" FirstZ="1" PlaneCount="2"/><TiffData IFD="2" '
                               'FirstZ="0" '
                               'PlaneCount="1"/>', 3)),
                 [10, 20, 30])
    check_packed("TiffData with IFD and PlaneCount", tiff("s.ome.tif", four, shuffled(
        '<TiffData IFD="2" PlaneCount="2"/><TiffData IFD="0" FirstZ="2" PlaneCount="2"/>')),
                 [10, 30, 20, 40])
    check_packed("no TiffData", tiff("s.ome.tif", flat(1, 2, 3), shuffled("", 3)), [1, 2, 3])
    check_refused("a plane that has no page", tiff("s.ome.tif", four[:3], shuffled(tiff_data)),
                  "plane 3 of these is missing")
    check_refused("a page named twice",
                  tiff("s.ome.tif", four, shuffled(tiff_data.replace('IFD="1"', 'IFD="0"'))),
                  "one page for two planes")
    check_refused("a plane named twice",
                  tiff("s.ome.tif", four, shuffled(tiff_data.replace('FirstZ="3"', 'FirstZ="1"'))),
                  "two pages for one plane")
    check_refused("a plane above SizeZ",
                  tiff("s.ome.tif", four, shuffled(tiff_data.replace('FirstZ="3"', 'FirstZ="4"'))),
                  "outside the axes")
    check_refused("5 slices, but one page", tiff("s.ome.tif", flat(1), shuffled("<TiffData/>", 5)),
                  "5 slices")
    check_refused("3 slices of 5 pages",
                  tiff("s.ome.tif", flat(1, 2, 3, 4, 5), shuffled("<TiffData/>", 3)),
                  "fewer planes than")
    check_packed("pages that no TiffData names",
                 tiff("s.ome.tif", flat(1, 2, 3),
                      shuffled('<TiffData IFD="0"/><TiffData IFD="1" FirstZ="1"/>', 2)), [1, 2],
                 note="contains more images")
    check_refused("planes of another size",
                  tiff("s.ome.tif", flat(1, 2, shape=(8, 9)), shuffled("<TiffData/>", 2)),
                  "says that planes have 8 x 8")
    check_packed("a picture of another size than OME's",
                 tiff("s.ome.tif", flat(1, shape=(8, 9)),
                      ome('SizeZ="1" SizeC="1" SizeT="1" PhysicalSizeX="3" PhysicalSizeY="3"')),
                 [1],
                 note="another size", spacing=[])
    stopped_text = ome('DimensionOrder="XYZCT" SizeZ="2" SizeC="1" SizeT="9"',
                       "".join('<TiffData FirstZ="%d" FirstT="%d" IFD="%d"/>' % (i % 2, i // 2, i)
                               for i in range(4)))
    check_packed("a stopped recording", tiff("t.ome.tif", flat(1, 2, 3, 4), stopped_text),
                 [[1, 2], [3, 4]], note="more times than it does")
    for order, tail in (("XYTZC", 'SizeZ="1" SizeC="2"'), ("XYTCZ", 'SizeZ="2" SizeC="1"')):
        check_refused("a recording that was stopped, %s" % order,
                      tiff("t.ome.tif", flat(*range(1, 9)),
                           ome('DimensionOrder="%s" SizeT="5" %s' % (order, tail))), "8 pages",
                      *(("--channel", 2) if 'C="2"' in tail else ()))
    check_packed("channels that are samples of a pixel",
                 tiff("c.ome.tif", [np.dstack(flat(1, 2, 3)), np.dstack(flat(4, 5, 6))],
                      ome('DimensionOrder="XYCZT" SizeZ="2" SizeC="3" SizeT="1"')), [2, 5],
                 "--channel", 2)
    for axis, modulo, says in (("T", 'Type="lifetime" Start="0" End="2"', "3 planes along an axis "
                                "that is no channel, time or slice (lifetime)"),
                               ("T", 'Type="phase" Start="0" End="2" Step="0"', "(phase)"),
                               ("Z", 'Type="angle" Start="0" End="3" Step="1.5"', "3 planes along"),
                               ("C", 'Type="lambda"><Label>a</Label><Label>b</Label',
                                "2 planes along")):
        inside = modulo + ("/>" if "<" not in modulo else "></ModuloAlong%s>" % axis)
        text = ome('SizeZ="1" SizeC="1" SizeT="1"'.replace('Size%s="1"' % axis,
                                                           'Size%s="6"' % axis))
        note = ('<StructuredAnnotations><XMLAnnotation><Value><Modulo><ModuloAlong%s '
                '%s</Modulo></Value></XMLAnnotation></StructuredAnnotations></OME>' %
                (axis, inside))
        check_refused("ModuloAlong" + axis,
                      tiff("m.ome.tif", SIX_PLANES, text.replace("</OME>", note)), says)
    for axes in "EHPRAQ":
        import tifffile
        for name in ("m.ome.tif", "m.tif"):
            tifffile.imwrite(path(name), np.stack([flat(1, 2, 3)] * 2), ome=name != "m.tif",
                             metadata={"axes": "T" + axes + "YX"}, photometric="minisblack")
            if axes != "Q" or name != "m.tif":
                check_refused("tifffile's axis %s in %s" % (axes, name), path(name),
                              "no channel, time or slice")
    for order, planes in (("XYZTC", (0, 4, 2, 6, 1, 5, 3, 7)), ("XYTCZ", (0, 2, 1, 3, 4, 6, 5, 7)),
                          ("XYCTZ", (0, 1, 2, 3, 4, 5, 6, 7)), ("XYTZC", (0, 2, 4, 6, 1, 3, 5, 7))):
        check_packed("DimensionOrder %s" % order,
                     tiff("o.ome.tif",
                          flat(*planes),
                          ome('DimensionOrder="%s" SizeZ="2" SizeC="2" SizeT="2"' % order)),
                     [[1, 5], [3, 7]], "--channel", 2)


def folder(name, files):
    os.makedirs(path(name), exist_ok=True)
    for f, (planes, text) in files.items():
        if planes is None:
            with open(path(name, f), "w", encoding="utf-8") as out:
                out.write(text)
        else:
            tiff(os.path.join(name, f), planes, text)
    return path(name)


def test_several_files():
    uuid = 'UUID="urn:uuid:%d"'
    data = "".join('<TiffData FirstZ="%d" IFD="0" PlaneCount="1"><UUID '
                   'FileName="z%d.ome.tif">urn:uuid:%d</UUID></TiffData>' % (z, z, z)
                   for z in range(3))
    pixels = 'DimensionOrder="XYZCT" SizeZ="3" SizeC="1" SizeT="1" ' + SIZES
    whole = {"z%d.ome.tif" % z: (flat(10 + z), ome(pixels, data, uuid % z)) for z in range(3)}
    f = folder("whole", whole)
    check_packed("one of three files", os.path.join(f, "z0.ome.tif"), [10, 11, 12],
                 spacing=[2, 0.5, 0.5],
                 note="put together from several files")
    check_packed("another of three files", os.path.join(f, "z2.ome.tif"), [10, 11, 12],
                 note="put together from several files")
    check_packed("a folder of three files is one stack", f, [10, 11, 12],
                 note="2 files are parts of other files' pictures", names=["z0.ome"])
    check_packed("--stack takes the files as slices by name", f, [10, 11, 12], "--stack",
                 note="each is taken by itself",
                 absent_note="put together")
    f = folder("lacking", {k: v for k, v in whole.items() if k[1] != "1"})
    check_refused("one of the files is missing", os.path.join(f, "z0.ome.tif"),
                  "z1.ome.tif is not there")
    f = folder("renamed", {k.replace("z", "q"): v for k, v in whole.items() if k[1] == "0"})
    check_refused("a renamed file, whose others are missing", os.path.join(f, "q0.ome.tif"),
                  "is not there")
    single_file = ome('DimensionOrder="XYZCT" SizeZ="2" SizeC="1" SizeT="1"', '<TiffData IFD="0" '
                      'PlaneCount="2"><UUID FileName="was.ome.tif">urn:uuid:9</UUID></TiffData>')
    check_packed("a renamed file of a single one", tiff("is.ome.tif", flat(1, 2), single_file),
                 [1, 2])
    f = folder("outside", {"a.ome.tif": (
        flat(1), ome(pixels, data.replace("z1.ome.tif", "../whole/z1.ome.tif").replace("z0.", "a."),
                     uuid % 0))})
    check_refused("a file elsewhere", os.path.join(f, "a.ome.tif"), "not in the same folder")
    other = dict(whole)
    other["z2.ome.tif"] = (flat(9, shape=(8, 9)), None)
    check_refused("a file of another size", os.path.join(folder("differs", other), "z0.ome.tif"),
                  "differs from")

    def companion(name="set.companion.ome"):
        return ('<?xml version="1.0"?><OME '
                'xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" %%s><BinaryOnly '
                'MetadataFile="%s" UUID="urn:uuid:99"/></OME>' % name)
    files = {"z%d.ome.tif" % z: (flat(10 + z), companion() % (uuid % z)) for z in range(3)}
    check_refused("BinaryOnly without its companion",
                  os.path.join(folder("b", files), "z0.ome.tif"),
                  "set.companion.ome, which is not there")
    files["set.companion.ome"] = (None, ome(pixels, data, uuid % 99))
    check_packed("BinaryOnly with its companion", os.path.join(folder("c", files), "z1.ome.tif"),
                 [10, 11, 12], spacing=[2, 0.5, 0.5], note="several files")
    master = {"z0.ome.tif": (flat(10), ome(pixels, data, uuid % 0))}
    master.update({"z%d.ome.tif" % z: (flat(10 + z), companion("z0.ome.tif") % (uuid % z))
                   for z in (1, 2)})
    f = folder("master", master)
    check_packed("BinaryOnly whose companion is a TIFF", os.path.join(f, "z2.ome.tif"),
                 [10, 11, 12],
                 spacing=[2, 0.5, 0.5], note="several files")
    check_packed("a folder of these", f, [10, 11, 12], note="2 files are parts", names=["z0.ome"])
    check_refused("a companion elsewhere", os.path.join(folder(
        "d", {"z0.ome.tif": (flat(1), companion("../c/set.companion.ome") % "")}), "z0.ome.tif"),
                  "not in the same folder")
    check_refused("a companion that is no OME-XML file",
                  os.path.join(folder("e", {"z0.ome.tif": (flat(1), companion("z0.ome.tif") % "")}),
                               "z0.ome.tif"), "is not OME-XML")
    # Prairie View writes OME-XML of several pictures, each of which is in its own file.
    series = "".join('<Image ID="Image:%d"><Pixels ID="Pixels:%d" DimensionOrder="XYZCT" SizeX="8" '
                     'SizeY="8" SizeZ="1" SizeC="1" SizeT="1"><TiffData IFD="0"><UUID '
                     'FileName="s%d.ome.tif">urn:uuid:%d</UUID></TiffData></Pixels></Image>' %
                     (i, i, i, i) for i in range(3))
    text = '<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" %s>' + series + "</OME>"
    f = folder("series", {"s%d.ome.tif" % i: (flat(i + 1), text % (uuid % i)) for i in range(3)})
    check_packed("one of several pictures in separate files", os.path.join(f, "s1.ome.tif"), [2])
    check_packed("all pictures in separate files", f, [[1], [2], [3]])
    unnamed_pictures = '<OME xmlns="x">' + "".join('<Image><Pixels SizeX="8" SizeY="8" SizeZ="1" '
                                                   'SizeC="1" '
                                                   'SizeT="1"><TiffData IFD="0"/></Pixels></Image>'
                                                   for _ in range(3)) + "</OME>"
    check_packed("one page of three pictures", tiff("one.ome.tif", flat(4), unnamed_pictures), [4],
                 note="each is taken by itself")


def test_texts():
    for text in (imagej("images=6", "channels=2", "slices=3", "hyperstack=true", "unit=micron",
                        "spacing=2.0"),
                 imagej("images=6", "slices=3", "channels=2", "unit=\\u00B5m",
                        "spacing=2").replace("\n", "\r\n"),
                 "SCIFIO=0.46.0\naxes=X,Y,Channel,Z\nlengths=8,8,2,3\nscales=0.5,0.5,1.0,"
                 "2.0\nunits=micron,micron,null,micron\nimages=6\nunit=micron\nspacing=2.0\n",
                 "SCIFIO=0.46.0\naxes=X,Y,Channel,Z\nlengths=8,8,2,3\nscales=0.5,0.5,1.0,"
                 "2.0\nunits=um,um,null,um\n"):
        check_two_channels(text[:6] + " " + text[20:40].replace("\n", " "),
                           tiff("x.tif", SIX_PLANES, text, t282=(5, [(2, 1)]), t283=(5, [(2, 1)]),
                                t296=(3, [1])))
    check_packed("SCIFIO with channels after slices", tiff("x.tif", flat(10, 20, 30, 200, 201, 202),
                                            "SCIFIO=0.46.0\naxes=X,Y,Z,Channel\nlengths=8,8,3,2\n"),
                 [200, 201, 202], "--channel", 2)
    check_refused("SCIFIO: another axis",
                  tiff("x.tif", SIX_PLANES,
                       "SCIFIO=0.46.0\naxes=X,Y,Lifetime,Z\nlengths=8,8,2,3\n"),
                  "no channel, time or slice (Lifetime)")
    nine = [np.dstack(flat(i, i, i)) for i in range(1, 10)]
    for name, text in (("ImageJ", imagej("images=9", "channels=3", "slices=3")),
                       ("tifffile", json.dumps({"shape": [3, 3, 8, 8, 3], "axes": "ZCYXS"}))):
        for one in (False, True):
            check_packed("%s's colours of 3 channels%s" % (name, ", truncated" if one else ""),
                         tiff("x.tif", nine, text, one=one), [2, 5, 8], "--channel", 2,
                         note="colour slices")
    check_packed("ImageJ's colours of 16 bits",
                 tiff("x.tif", [np.dstack([p * np.uint16(300) for p in flat(1, 2, 3)])],
                      imagej("images=3", "channels=3")), [600], "--channel", 2)
    check_refused("ImageJ: 5 slices, 3 pages",
                  tiff("x.tif", flat(1, 2, 3), imagej("images=5", "slices=5")),
                  "5 slices, but it has 3 pages")
    check_refused("ImageJ: 3 slices, 5 pages",
                  tiff("x.tif", flat(1, 2, 3, 4, 5), imagej("images=3", "slices=3")),
                  "3 slices, but it has 5 pages")
    check_refused("ImageJ: images and axes do not agree",
                  tiff("x.tif", SIX_PLANES, imagej("images=6", "channels=2", "slices=2")),
                  "6 images, but also 2 channels of 2 slices")
    check_packed("ImageJ: only the number of images",
                 tiff("x.tif", flat(1, 2, 3), imagej("images=3")), [1, 2, 3])
    check_packed("ImageJ: more pages than described",
                 tiff("x.tif", flat(1, 2, 3), imagej("min=0.0")),
                 [1, 2, 3], note="more pages than its text describes")
    check_packed("ImageJ: missing points in time", tiff("x.tif", flat(1, 2), imagej("frames=5")),
                 [[1], [2]], note="more times than")
    for axes, shape, channel, values in (("ZCYX", [3, 2], 2, [200, 201, 202]),
                                         ("CZYX", [3, 2], 2, [20, 201]),
                                         ("TZYX", [2, 3], 0, [[10, 200, 20], [201, 30, 202]]),
                                         ("TCYX", [3, 2], 1, [[10], [20], [30]]),
                                         ("ZYX", [6], 0, [10, 200, 20, 201, 30, 202]),
                                         ("QYX", [6], 0, [10, 200, 20, 201, 30, 202])):
        text = json.dumps({"shape": shape + [8, 8], "axes": axes})
        says = "taken as slices" if "Q" in axes else None
        check_packed("tifffile's " + axes, tiff("x.tif", SIX_PLANES, text), values,
                     *(["--channel", channel] if channel else []), note=says)
        check_packed("tifffile's JSON, truncated",
                     tiff("x.tif", SIX_PLANES, text[:-1] + ', "truncated": true}', one=True),
                     values,
                     *(["--channel", channel] if channel else []),
                     note=says)
    check_packed("tifffile's JSON in another order",
                 tiff("x.tif", SIX_PLANES, '{"axes":"ZCYX",\n "shape":[3,2,8,8]}'), [200, 201, 202],
                 "--channel",
                 2)
    check_refused("tifffile without axes", tiff("x.tif", SIX_PLANES, '{"shape": [3, 2, 8, 8]}'),
                  "not named")
    check_refused("tifffile's other axes",
                  tiff("x.tif", SIX_PLANES, '{"shape": [3, 2, 8, 8], "axes": "RZYX"}'),
                  "(R)")
    for text in ('{"shape": [6, 8, 8]}', '{"shape": [6, 8, 8], "axes": "QYX"}', "shape=(6, 8, 8)"):
        check_packed("tifffile's unnamed axis: " + text, tiff("x.tif", SIX_PLANES, text),
                     [int(p[0, 0]) for p in SIX_PLANES], note="taken as slices")
        check_packed("the second channel with unnamed axes", tiff("x.tif", SIX_PLANES, text),
                     [int(SIX_PLANES[1][0, 0])], "--channel", 2,
                     note="taken as channels")
    check_refused("--channel of a stack of slices",
                  tiff("x.tif", SIX_PLANES, '{"shape": [6, 8, 8], "axes": "ZYX"}'),
                  "is a stack of slices, grey, but --channel", "--channel", 2)
    check_refused("tifffile: fewer pages",
                  tiff("x.tif", SIX_PLANES[:5], '{"shape": [3, 2, 8, 8], "axes": "ZCYX"}'),
                  "but it has 5 pages",
                  "--channel", 1)
    check_packed("tifffile's oldest form", tiff("x.tif", flat(1, 2, 3), "shape=(3, 8, 8)"),
                 [1, 2, 3],
                 note="taken as slices")
    check_packed("a text of no known program", tiff("x.tif", flat(1, 2, 3), "our cells, slices=7"),
                 [1, 2, 3],
                 note="does not say what its pages are")
    check_refused("ScanImage's channels",
                  tiff("x.tif", SIX_PLANES,
                       "SI.VERSION_MAJOR = 5\nSI.hChannels.channelSave = [1;2]\n"),
                  "ScanImage")
    check_packed("ScanImage's only channel",
                 tiff("x.tif", SIX_PLANES[:2],
                      "SI.VERSION_MAJOR = 5\nSI.hChannels.channelSave = 1\n"), [10, 200],
                 note="does not say what its pages are")


def test_slices_as_colours():
    """Early versions of tifffile wrote a stack of three slices as the colours of one RGB page."""
    import tifffile
    for axes, why in (("ZYX", "the axis Z"), ("TYX", "the axis T"), ("CYX", None), ("SYX", None)):
        tifffile.imwrite(path("p.tif"), np.stack(flat(3, 5, 7)), photometric="rgb",
                         planarconfig="separate", metadata={"axes": axes})
        check_refused("colours that are " + why, path("p.tif"),
                      why) if why else check_packed("colours, " + axes, path("p.tif"), [5],
                                                    "--channel", 2)


def test_planes_without_directory():
    """Planes that follow the first one in the file without a TIFF directory of their own."""
    five = flat(1, 2, 3, 4, 5)
    deep = [p.astype(np.uint16) * 300 for p in five]
    text = imagej("images=5", "slices=5")
    check_packed("ImageJ beyond 4 GB", tiff("x.tif", five, text, one=True), [1, 2, 3, 4, 5])
    check_packed("planes after the first one, of 16 bits",
                 tiff("x.tif", deep, text, one=True, order=">"), [300, 600, 900, 1200, 1500])
    colour = [np.dstack([p, p * 2, p * 3]) for p in five]
    check_packed("planes after the first one, in colour", tiff("x.tif", colour, text, one=True),
                 [2, 4, 6, 8, 10], "--channel", 2)
    check_refused("planes that are missing", tiff("x.tif", five[:4], text, one=True),
                  "5 slices, but it has 1 page")
    check_refused("planes after a compressed one",
                  tiff("x.tif", five, text, one=True, t259=(3, [5])),
                  "5 slices, but it has 1 page")

    def stk(name, *args, **more):
        return put(name, files.stk(*args, **more))
    check_packed("STK", stk("x.stk"), [1, 2, 3, 4, 5])
    check_packed("STK, big-endian", stk("x.stk", order=">"), [1, 2, 3, 4, 5])
    check_packed("STK of points in time", stk("x.stk", z=lambda i: 0), [[i] for i in range(1, 6)])
    check_refused("STK whose planes differ in z only in part", stk("x.stk", z=lambda i: i % 2),
                  "partly apart")
    check_refused("STK of wavelengths",
                  stk("x.stk", t33630=(5, [(i % 2 + 400, 1) for i in range(5)])),
                  "several wavelengths")
    check_packed("STK of one wavelength", stk("x.stk", t33630=(5, [(400, 1)] * 5)), [1, 2, 3, 4, 5])
    check_packed("NIH Image's stack", put("x.tif", files.nih(five)), [1, 2, 3, 4, 5])
    # MetaMorph's tag 33628 is a list of pairs: an id, and a value or the offset of a fraction.
    base = 8
    front = struct.pack("<IIII", 65, 100, 13, 100) + struct.pack("<I", 2) + b"um\0\0"
    check_packed("STK's size of pixels",
                 stk("x.stk", front=front, t33628=(4, [4, base, 5, base + 8, 6, base + 16, 0, 0])),
                 [1, 2, 3, 4, 5], spacing=[1.5, 0.13, 0.65])
    check_packed("Prairie's tags of the same numbers",
                 tiff("x.tif", flat(4), t33629=(2, b"5 planes\0"), t33628=(2, b"Prairie\0")), [4])


def test_tags():
    check_packed("LSM", lsm("x.lsm", flat(1, 2, 3, 4, 5, 6), z=2, t=3), [[1, 2], [3, 4], [5, 6]],
                 spacing=[0.5, 0.2, 0.1])
    check_packed("LSM with channels as samples",
                 lsm("x.lsm", [np.dstack(flat(1, 2, 3)), np.dstack(flat(4, 5, 6))], z=2,
                                       c=3), [2, 5], "--channel", 2)
    four_samples = [np.dstack(flat(*range(i, i + 4))) for i in (1, 5)]
    check_packed("LSM of four samples tagged as colours",
                 lsm("x.lsm", four_samples, z=2, c=4, t262=(3, [2])),
                 [4, 8], "--channel", 4)
    check_refused("LSM: three channels are not colours",
                  lsm("x.lsm", [np.dstack(flat(1, 2, 3))], c=3),
                  "--channel N")
    check_refused("LSM: fewer pages", lsm("x.lsm", flat(1, 2, 3), z=2, t=3, scan=6),
                  "3 times of 2 slices, but it has 3 pages")
    check_refused("LSM of no slice", lsm("x.lsm", flat(1, 2, 3, 4, 5, 6), z=0, t=3, scan=6),
                  "but it has 6 pages")
    check_refused("LSM of x and z", lsm("x.lsm", flat(1, 2), z=2, scan=1), "not of x and y")
    check_refused("LSM of several positions", lsm("x.lsm", flat(1, 2), places=2), "places")
    check_refused("LSM of another kind", lsm("x.lsm", flat(1, 2), z=2, magic=5), "unknown kind")

    check_two_channels("FluoView", put("fv.tif", files.fluoview(flat(10, 20, 30, 200, 201, 202))))

    def micromanager(name, *args):
        return put(name, files.micromanager(*args))
    summary = {"Channels": 2, "Slices": 3, "Frames": 1, "Positions": 1, "PixelSize_um": 0.5,
               "z-step_um": 2}
    check_two_channels("MicroManager", micromanager("mm.tif", summary, SIX_PLANES))
    check_refused("MicroManager without its list",
                  micromanager("mm.tif", summary, SIX_PLANES, False),
                  "list of planes")
    check_refused("MicroManager's positions",
                  micromanager("mm.tif", dict(summary, Positions=2), SIX_PLANES + SIX_PLANES),
                  "positions")
    for name, text, tags in (("Aperio", "Aperio Image Library v11\r\n", {}),
                             ("Leica", '<?xml version="1.0"?><scn '
                              'xmlns="http://www.leica-microsystems.com/scn/2010/10/01"/>', {}),
                             ("Akoya", '<?xml version="1.0" '
                              'encoding="utf-16"?><PerkinElmer-QPI-ImageDescription/>', {}),
                             ("Ventana", "level=0 mag=40 quality=95", {}),
                             ("Hamamatsu", None, {"t65420": (4, [1])})):
        check_refused("a slide of " + name,
                      tiff("x.tif", [flat(1)[0], flat(1, shape=(3, 5))[0]], text,
                                                 **tags), "is a slide of " + name)


def test_copies():
    """Copies of a picture at lower resolution (pyramids)."""
    full, half, quarter = (flat(1, shape=(40, 61))[0], flat(2, shape=(20, 30))[0],
                           flat(3, shape=(10, 15))[0])
    check_packed("smaller copies as pages", tiff("x.tif", [full, half, quarter]), [1],
                 note="smaller copies")
    check_packed("a SubIFD", tiff("x.tif", [full], t330=(4, [8])), [1], note="smaller copies")
    check_packed("a SubIFD of another size", put("x.tif", files.with_sub(40, 11)), [5],
                 note="smaller copies")
    check_refused("a SubIFD that is larger", put("x.tif", files.with_sub(8, 40)),
                  "larger picture of its own")
    check_refused("pages of other sizes", tiff("x.tif", [full, flat(2, shape=(40, 60))[0]]),
                  "differs from page 1")
    check_refused("a larger page", tiff("x.tif", [half, full]), "differs from page 1")


def ramp(r, g, b, down=False, gamma=1.0):
    values = (np.arange(256) / 255) ** gamma
    values = values[::-1] if down else values
    return np.round(np.outer(values, (r, g, b))).astype(np.uint8)


def test_palettes():
    plane = np.full((8, 8), 0, np.uint8)
    plane[0, 0] = 200
    rng = np.random.default_rng(1)

    def paletted(name, colours, text=None):
        return tiff(name, [plane], text, t262=(3, [3]),
                    t320=(3, [int(v) * 257 for v in colours.T.ravel()]))

    def png(name, colours):
        image = Image.fromarray(plane, "P")
        image.putpalette(colours.tobytes())
        image.save(path(name))
        return path(name)
    fire = rng.integers(0, 256, (256, 3)).astype(np.uint8)
    samples_note = "the samples are taken"
    for name, colours in (("green", ramp(0, 255, 0)), ("orange", ramp(255, 128, 0)),
                          ("dim magenta", ramp(180, 0, 180)),
                          ("green, inverted", ramp(0, 255, 0, True)),
                          ("blue of a gamma", ramp(0, 0, 255, gamma=0.5)),
                          ("red of a gamma", ramp(255, 0, 0, gamma=2))):
        check_packed("a ramp: " + name, paletted("p.tif", colours), [200], note=samples_note)
        check_packed("a ramp in PNG: " + name, png("p.png", colours), [200], note=samples_note)
    for text in (imagej("min=0.0"), "SCIFIO=0.46\n", ome('SizeZ="1" SizeC="1" SizeT="1"')):
        check_packed("any table of " + text[:6], paletted("p.tif", fire, text), [200],
                     note=samples_note)
        check_packed("an inverted one of " + text[:6],
                     paletted("p.tif", ramp(255, 255, 255, True), text),
                     [200], note=samples_note)
    check_packed("a grey table that changes nothing",
                 paletted("p.tif", ramp(255, 255, 255), imagej("min=0")), [200])
    check_packed("a palette of a picture", paletted("p.tif", fire), [int(fire[200, 0])],
                 note="the colours that it shows")
    few_greens = ramp(0, 255, 0)
    few_greens[30:] = few_greens[30]
    check_packed("few greens of a picture", paletted("p.tif", few_greens), [0],
                 note="the colours that it shows")
    for name, start_tag in (("a newline", "<OME\n"), ("a tab", "<OME\t"),
                            ("a prefix and a newline", "<o:OME\n")):
        text = ome('SizeZ="1" SizeC="1" SizeT="1"').replace("<OME ", start_tag)
        text = text.replace("</OME>", "</o:OME>").replace("xmlns=",
                                                          "xmlns:o=") if "o:" in start_tag else text
        check_packed("an inverted table of OME with " + name,
                     paletted("p.tif", ramp(255, 255, 255, True), text), [200], note=samples_note)
        check_packed("0 is white, by OME with " + name, tiff("w.tif", [plane], text, t262=(3, [0])),
                     [200],
                     note="as ImageJ measures them")
    check_packed("0 is white, signed", tiff("w.tif", [plane.astype(np.int16)], t262=(3, [0]),
                                            t339=(3, [2])), [200], note="the samples are taken")
    check_packed("0 is white, by ImageJ", tiff("w.tif", [plane], imagej("min=0"), t262=(3, [0])),
                 [200],
                 note="as ImageJ measures them")
    check_packed("0 is white, by a scanner", tiff("w.tif", [plane], t262=(3, [0])), [55],
                 note="values are inverted")

    picture = tiff("picture.tif", flat(9))
    masks = {"plain": tiff("m0.tif", [plane]),
             "inverting, of ImageJ": tiff("m1.tif", [plane], imagej("min=0"), t262=(3, [0])),
             "inverting, of a scanner": tiff("m2.tif", [plane], t262=(3, [0])),
             "inverted palette": paletted("m3.tif", ramp(255, 255, 255, True)),
             "inverted palette of ImageJ": paletted("m4.tif", ramp(255, 255, 255, True),
                                                    imagej("min=0")),
             "colours": paletted("m5.tif", fire),
             "a PNG": png("m6.png", fire),
             "an inverted PNG": png("m7.png", ramp(255, 255, 255, True))}
    for name, mask in masks.items():
        counts = [count_inside(kind, mask, picture) for kind in ("mask", "labels")]
        tap.ok(counts == [1, 1], "--mask and --labels: " + name, counts)


def test_calibration():
    values = np.full((8, 8), 32768 - 800, np.uint16)
    values[3, 3] = 32768 + 1000
    signed = imagej("vunit=Gray Value", "cf=0", "c0=-32768.0", "c1=1.0")
    check_refused("signed samples below 0", tiff("c.tif", [values], signed),
                  "has values from -800 to 1000")
    check_packed("signed samples below 0, with --scale", tiff("c.tif", [values], signed), [0],
                 "--scale=-800,1000")
    check_packed("signed samples, none below 0", tiff("c.tif", [values + np.uint16(900)], signed),
                 [100])
    check_refused("a calibration", tiff("c.tif", [values], imagej("cf=0", "c0=2.5", "c1=0.5")),
                  "has samples with a slope, from %g to %g" % (2.5 + 31968 / 2, 2.5 + 33768 / 2))
    check_packed("calibration function 20 (none)",
                 tiff("c.tif", flat(7), imagej("cf=20", "c0=2.5", "c1=0.5")), [7])
    check_packed("calibration that is no straight line: a note",
                 tiff("c.tif", flat(7), imagej("cf=21", "vunit=OD")), [7],
                 note="not a straight line")
    check_packed("a calibration that changes nothing",
                 tiff("c.tif", flat(7), imagej("cf=0", "c0=0.0", "c1=1.0")),
                 [7])
    check_packed("square roots of a gel", tiff("c.tif", [values], t33445=(4, [2])), [31968],
                 note="not a straight line")
    check_refused("a calibration that inverts",
                  tiff("c.tif", flat(7), imagej("cf=0", "c0=255", "c1=-1")),
                  "samples with a slope, from 248")
    for order in "<>":
        check_packed("a shift " + order, tiff("c.tif", [p.astype(np.uint16) for p in flat(7)],
                                              imagej("cf=0", "c0=100", "c1=1"), order=order), [107])
    labels = tiff("l.tif", [np.where(values > 32768, 32768 + 1, 32768).astype(np.uint16)], signed)
    n = count_inside("labels", labels, tiff("g.tif", flat(7)))
    tap.ok(n == 1, "signed label pictures are read, with 0 as the background", n)


def test_sizes():
    def png(name, per_metre):
        f = path(name)
        Image.fromarray(flat(7)[0]).save(f, dpi=(per_metre * 0.0254, per_metre * 0.0254))
        return f
    for dpi in (72, 75, 96, 110, 144, 192, 220, 227, 254, 300, 326, 600, 1200, 2400):
        check_packed("PNG of %d dpi" % dpi, png("d.png", dpi / 0.0254), [7], spacing=[])
        check_packed("TIFF of %d dpi" % dpi, tiff("d.tif", flat(7), t282=(5, [(dpi, 1)]),
                                                  t283=(5, [(dpi, 1)]), t296=(3, [2])), [7],
                     spacing=[])
        check_packed("of %d dpi in centimetres" % dpi,
                     tiff("d.tif", flat(7), t282=(5, [(dpi * 100, 254)]),
                                                            t283=(5, [(dpi * 100, 254)]),
                          t296=(3, [3])),
                     [7], spacing=[])
        check_packed("ImageJ's unit=inch of %d dpi" % dpi,
                     tiff("d.tif", flat(7), imagej("unit=inch"),
                                                                t282=(5, [(dpi, 1)]),
                          t283=(5, [(dpi, 1)]),
                                                                t296=(3, [1])), [7], spacing=[])
    check_packed("a microscope's", png("d.png", 1e6 / 0.65), [7], spacing=[0.65, 0.65])
    check_packed("a microscope's in inches",
                 tiff("d.tif", flat(7), t282=(5, [(50800, 1)]), t283=(5, [(50800, 1)]),
                      t296=(3, [2])),
                 [7], spacing=[0.5, 0.5])
    check_packed("ImageJ's cm", tiff("d.tif", flat(7), imagej("unit=cm"), t282=(5, [(100, 1)]),
                                     t283=(5, [(100, 1)]), t296=(3, [1])), [7], spacing=[100, 100])
    check_packed("ImageJ's yunit", tiff("d.tif", flat(7), imagej("unit=micron", "yunit=nm"),
                                        t282=(5, [(2, 1)]), t283=(5, [(2, 1000)]), t296=(3, [1])),
                 [7],
                 spacing=[0.5, 0.5])
    check_packed("ImageJ's unknown unit",
                 tiff("d.tif", flat(7), imagej("unit=parsec"), t282=(5, [(2, 1)]),
                                               t283=(5, [(2, 1)]), t296=(3, [1])), [7], spacing=[],
                 note="the size of a pixel")
    check_packed("ImageJ's pixels", tiff("d.tif", flat(7), imagej("unit=pixel"), t282=(5, [(2, 1)]),
                                         t283=(5, [(2, 1)]), t296=(3, [1])), [7], spacing=[])
    check_packed("MetaMorph's XML",
                 tiff("d.tif", flat(7), '<MetaData><PlaneInfo><prop id="spatial-calibration-state" '
                      'type="bool" value="on"/><prop id="spatial-calibration-x" '
                      'value="0.65"/><prop '
                      'id="spatial-calibration-y" value="0.5"/><prop '
                      'id="spatial-calibration-units" '
                      'value="um"/></PlaneInfo></MetaData>'), [7], spacing=[0.5, 0.65])


def test_nifti():
    stack = np.stack(flat(1, 2, 3)).astype(np.uint16) * 300
    for order in "<>":
        check_packed("NIfTI-2 " + order, nifti2("n.nii", stack, order), [300, 600, 900],
                     spacing=[2, 0.5, 0.5])
        check_packed("negative sizes " + order, nifti2("n.nii", stack, order, size=(-0.5, 0.5, -2)),
                     [300, 600, 900], spacing=[2, 0.5, 0.5])
        check_packed("millimetres and seconds " + order, nifti2("n.nii", stack, order, unit=2 + 8),
                     [300, 600, 900], spacing=[2000, 500, 500])
    check_packed("NIfTI without a unit", nifti2("n.nii", stack, unit=0), [300, 600, 900],
                 spacing=[])
    check_packed("points in time of NIfTI-2",
                 nifti2("n.nii", np.stack([stack, stack + np.uint16(1)])),
                 [[300, 600, 900], [301, 601, 901]])
    check_refused("a slope", nifti2("n.nii", stack, slope=0.5, offset=1),
                  "has samples with a slope, from 151 to 451")
    nan, infinite = float("nan"), float("inf")
    check_packed("a slope of NaN", nifti2("n.nii", stack, slope=nan, offset=nan), [300, 600, 900])
    check_packed("an infinite slope", nifti2("n.nii", stack, slope=infinite), [300, 600, 900],
                 note="slope is infinite")
    for offset in (nan, infinite):
        check_refused("a slope, and an intercept of %s" % offset,
                      nifti2("n.nii", stack, slope=2, offset=offset), "is not a number")
    for name, offset_, data, note_part in (("where its samples begin", 168, bytes(8),
                                            "where its samples begin"),
                                           ("other bits", 14, b"\x08\0", "another number of bits")):
        whole = bytearray(open(nifti2("n.nii", stack), "rb").read())
        whole[offset_:offset_ + len(data)] = data
        for f, write in (("m.nii", bytes), ("m.nii.gz", gzip.compress)):
            check_packed("NIfTI-2 of %s: %s" % (name, f), put(f, write(whole)), [300, 600, 900],
                         note=note_part)
            check_refused("the same and bytes more: " + f, put(f, write(whole + b"\0")),
                          "nor does the size of the file show it")
    check_refused("a negative slope", nifti2("n.nii", stack, slope=-1, offset=1000),
                  "has samples with a slope, from 100 to 700")
    check_refused("an Analyze header", put("n.hdr", struct.pack("<i", 348) + bytes(344)), "Analyze")
    check_refused("six axes", nifti2("n.nii", stack[None, None].repeat(2, 0)[:, :, None]),
                  "sixth or seventh")
    r = pack(path("n.zip"), nifti2("n.nii", stack, cut=700))
    tap.ok(r.returncode == 2 and "damaged NIfTI: ends too early" in r.stderr, "NIfTI-2 cut short",
           r.stderr)


def test_unusual_files():
    """Unusual files that are not damaged."""
    bits, out = 0, bytearray()
    width = 0
    for code in (256, 65, 66, 257):     # LZW of early TIFFs: the low bit of a code comes first
        bits |= code << width
        width += 9
    while width > 0:
        out.append(bits & 255)
        bits >>= 8
        width -= 8
    lzw = bytes(out)
    f = tiff("old.tif", [np.array([[65, 66]], np.uint8)], t259=(3, [5]), t279=(4, [len(lzw)]))
    data = bytearray(open(f, "rb").read())
    entries = struct.unpack_from("<I", data, 4)[0]
    for i in range(struct.unpack_from("<H", data, entries)[0]):
        if struct.unpack_from("<H", data, entries + 2 + 12 * i)[0] == 273:
            struct.pack_into("<I", data, entries + 2 + 12 * i + 8, len(data))
    with open(f, "wb") as o:
        o.write(bytes(data) + lzw)
    check_packed("LZW of early TIFFs", f, [65])
    for order in "<>":
        for tag in (34022, 305, 270, 280, 281, 282, 284, 296, 338, 339, 340, 341, 50000):
            kind = {305: 2, 270: 2, 282: 5}.get(tag, 3)
            check_packed("tag %d of count 0 %s" % (tag, order),
                         tiff("tag.tif", flat(65, shape=(1, 1)), order=order,
                              **{"t%d" % tag: (kind, b"")}), [65])
    check_packed("the first tag of count 0",
                 tiff("tag.tif", flat(65, 66, shape=(1, 1)), t254=(4, b""), t281=(3, b"")),
                 [65, 66],
                 note="does not say what its pages are")
    two = [np.vstack(flat(65, 66, shape=(1, 1)))]
    for order in "<>":
        check_packed("0 rows a strip " + order, tiff("o.tif", two, order=order, t278=(4, [0])),
                     [65])
        check_packed("a planar configuration of 0 " + order,
                     tiff("o.tif", [np.dstack(two * 3)], order=order, t284=(3, [0])), [65],
                     "--channel", 1)
        check_packed("0 samples a pixel " + order, tiff("o.tif", two, order=order, t277=(3, [0])),
                     [65])
        check_packed(
                     "0 rows a strip, and a planar configuration of 0 " + order,
            tiff("o.tif", two, order=order, t278=(3, [0]), t284=(3, [0])), [65])
    indices = [np.array([[2, 0, 1]], np.uint8)]
    colours = [1, 2, 3, 11, 12, 13, 21, 22, 23]
    check_packed("a palette of 3 colours",
                 tiff("p.tif", indices, t262=(3, [3]), t320=(3, [v * 257 for v in colours])), [3],
                 note="the colours that it shows")
    check_refused("a palette of 2 colours, and a pixel of a third",
                  tiff("p.tif", indices, t262=(3, [3]), t320=(3, [v * 257 for v in colours[:6]])),
                  "a pixel has the palette index 2, but the palette has only 2 colours")
    check_packed("a palette of 300 colours",
                 tiff("p.tif", indices, t262=(3, [3]),
                      t320=(3, [v % 250 * 257 for v in range(900)])), [2],
                 note="the colours that it shows")
    check_refused("a palette and 3 samples",
                  tiff("p.tif", [np.dstack(indices * 3)], t262=(3, [3]), t320=(3, [1] * 768)),
                  "with a palette and several samples")
    nibbles = tiff("p.tif", [np.array([[0x21]], np.uint8)], t256=(4, [2]), t258=(3, [4]),
                   t262=(3, [3]), t320=(3, [v * 257 for v in colours]))
    check_packed("a palette of 3 colours and 4 bits", nibbles, [3],
                 note="the colours that it shows")

    def linked(name, *args):
        return put(name, files.linked(*args))
    note_part = "another page follows"
    check_packed("pages in a circle", linked("l.tif", flat(1, 2, 3), None), [1, 2, 3],
                 note=note_part)
    check_packed("a page beyond the end, after the only one", linked("l.tif", flat(5), 1 << 20),
                 [5],
                 note=note_part)
    check_packed("a page without entries", linked("l.tif", flat(0), 8), [0], note=note_part)
    check_packed("a page beyond the end, after all pages that the text counts",
                 linked("l.tif", flat(1, 2, 3), 1 << 20, imagej("images=3", "slices=3")), [1, 2, 3],
                 note=note_part)
    check_refused("a page beyond the end, after fewer pages than the text counts",
                  linked("l.tif", flat(1, 2, 3), 1 << 20, imagej("images=4", "slices=4")),
                  "4 slices, but it has 3 pages")
    check_refused("a page beyond the end, after several pages without a text",
                  linked("l.tif", flat(1, 2, 3), 1 << 20),
                  "it is cut short")
    for mode in ("L", "LA", "P", "RGB", "I;16"):
        plane = flat(7)[0]
        image = Image.fromarray(plane.astype(np.uint16) if mode == "I;16" else plane)
        (image if mode in ("L", "I;16") else image.convert(mode)).save(path("e.png"))
        data = open(path("e.png"), "rb").read()
        check_packed("PNG of %s without IEND" % mode, put("e.png", data[:-12]), [7],
                     note="all samples came")
        check_packed("PNG of %s that ends in IEND" % mode, put("e.png", data[:-7]), [7],
                     note="all samples came")
        r = pack(path("e.zip"), put("e.png", data[:data.index(b"IDAT") + 8]))
        tap.ok(r.returncode == 2 and "damaged PNG: it ends too early" in r.stderr,
               "PNG of %s that ends in its samples" % mode, r.stderr)
    Image.fromarray(flat(77)[0]).save(path("j.jpg"))
    data = open(path("j.jpg"), "rb").read()
    position = data.index(b"\xff\xdb")
    with open(path("j.jpg"), "wb") as o:
        o.write(data[:position] + b"\0" + data[position:])
    check_packed("a stray byte between segments of JPEG", path("j.jpg"), [77], note="stray bytes")
    with open(path("j.jpg"), "wb") as o:
        o.write(data[:-2])
    check_packed("JPEG without its end marker", path("j.jpg"), [77], note="ends without saying so")
    Image.fromarray(flat(77)[0]).save(path("p.jpg"), progressive=True)
    data = open(path("p.jpg"), "rb").read()
    with open(path("p.jpg"), "wb") as o:
        o.write(data[:data.rindex(b"\xff\xda")])
    r = pack(path("p.zip"), path("p.jpg"))
    tap.ok(r.returncode == 2 and "damaged JPEG" in r.stderr, "JPEG without its last scan", r.stderr)
    check_packed("premultiplied alpha",
                 tiff("a.tif", [np.dstack(flat(10, 20, 30, 99))], t262=(3, [2]),
                                             t338=(3, [1])), [10], note="premultiplied alpha")
    check_packed("alpha",
                 tiff("a.tif", [np.dstack(flat(10, 20, 30, 99))], t262=(3, [2]), t338=(3, [2])),
                 [10], note="the colours under it were kept")
    Image.new("CMYK", (8, 8), (1, 2, 3, 4)).save(path("c.jpg"))
    check_refused("JPEG of CMYK", path("c.jpg"), "CMYK")
    Image.fromarray(flat(7)[0]).save(path("i.png"), icc_profile=b"\0" * 200)
    r = pack(path("i.zip"), path("i.png"))
    tap.ok(r.returncode == 0 and "colour profile" in r.stderr, "a note about a colour profile",
           r.stderr)


def test_shared():
    """Pictures from bug reports of other programs."""
    def s(name):
        return os.path.join(SHARED, name)
    if not os.path.exists(s("README.tsv")):
        tap.skip("pictures from other programs' bug reports", "no such folder")
        return
    for name in ("plain.ome.tif", "prefixed.ome.tif", "single_quotes.ome.tif",
                 "scifio_hyperstack.tif"):
        check_two_channels(name, s(name))
    check_packed("zcyx.tif", s("zcyx.tif"), [200, 201, 202], "--channel", 2)
    check_packed("shuffled.ome.tif", s("shuffled.ome.tif"), [10, 20, 30, 40])
    for name in ("hex.ome.tif", "greek.ome.tif"):
        check_packed(name, s(name), [20], spacing=[0.5, 0.5])
    check_refused("binary.ome.tif", s("binary.ome.tif"), "set.companion.ome, which is not there")
    check_refused("ome_says5_has1.ome.tif", s("ome_says5_has1.ome.tif"), "5 slices")
    check_refused("imagej_says5_has3.tif", s("imagej_says5_has3.tif"),
                  "5 slices, but it has 3 pages")
    check_packed("t3z2c1.lsm", s("t3z2c1.lsm"), [[10, 11], [20, 21], [30, 31]], note="thumbnails")
    check_packed("five_planes.stk", s("five_planes.stk"), [40, 80, 120, 160, 200])
    check_packed("truncated.tif", s("truncated.tif"), [40, 80, 120, 160, 200])
    r = pack(path("rgb.zip"), s("rgb_5_in_one_ifd.tif"))
    tap.ok(r.returncode == 0 and len(list(items_of(path("rgb.zip")))[0][2]) == 5,
           "rgb_5_in_one_ifd.tif", r.stderr)
    check_packed("grays.tif", s("grays.tif"), [20])
    check_packed("green.tif", s("green.tif"), [20], note="the samples are taken")
    for kind in ("mask", "labels"):
        counts = [count_inside(kind, s(mask), s("picture.tif"))
                  for mask in ("mask_plain.tif", "mask_inverting_lut.tif")]
        tap.ok(counts == [200, 200], "--%s with and without an inverting lookup table" % kind,
               counts)
    check_refused("signed16.tif", s("signed16.tif"), "has values from -800 to 1000")
    check_packed("two_pixels.tif", s("two_pixels.tif"), [65])
    check_packed("one_pixel.tif", s("one_pixel.tif"), [65])
    check_packed("stray_byte_before_DQT.jpg", s("stray_byte_before_DQT.jpg"), [77],
                 note="stray bytes")
    check_packed("screen_144.png", s("screen_144.png"), [20], spacing=[])
    r = pack(path("n.zip"), s("nifti2.nii"))
    tap.ok(r.returncode == 0, "nifti2.nii", r.stderr)
    r = pack(path("n.zip"), s("neg_pixdim.nii"))
    tap.ok(r.returncode == 0 and all(v > 0 for v in list(items_of(path("n.zip")))[0][1]),
           "neg_pixdim.nii", r.stderr)


def packed_bits(rows):
    """The rows [bytes] in PackBits compression, without runs of equal bytes."""
    return b"".join(bytes([len(r) - 1]) + r for r in rows)


def test_misread_files():
    """Files whose meaning other programs often get wrong."""
    rng = np.random.default_rng(3)
    for order in "<>":
        for kind, shape in (("u1", (6, 9)), ("u2", (6, 9)), ("u1", (6, 9, 3))):
            plane = rng.integers(0, 255, shape).astype(kind)
            rows = np.diff(plane, axis=1, prepend=plane[:, :1] * 0).astype(order + kind)
            for name, tile in (("strips", {}), ("tiles", {"t322": (3, [16]), "t323": (3, [16])})):
                rows = np.pad(rows,
                              [(0, 10), (0, 7)] + [(0, 0)] * (len(shape) - 2)) if tile else rows
                data = np.frombuffer(packed_bits([r.tobytes() for r in rows]), np.uint8)[None]
                tile_tags = {"t324": (4, [8]), "t325": (4, [data.size])} if tile else {}
                picture = tiff("d.tif", [data], order=order, t256=(3, [9]), t257=(3, [6]),
                               t258=(3, [plane.itemsize * 8] * (shape[2:] or (1,))[0]),
                               t259=(3, [32773]),
                               t262=(3, [2 if shape[2:] else 1]),
                               t277=(3, [(shape[2:] or (1,))[0]]), t278=(3, [6]), t317=(3, [2]),
                               **tile, **tile_tags)
                r = pack(path("out.zip"), picture)
                tap.ok(r.returncode == 0 and (items_of(path("out.zip"))[0][2][0] == plane).all(),
                       "PackBits with predictor 2, %s%s in %s" % (order, kind, name), r.stderr)
    check_refused("predictor 2 without compression", tiff("d.tif", flat(7), t317=(3, [2])),
                  "predictor 2")
    check_refused("PackBits and predictor 3",
                  tiff("d.tif", flat(7), t259=(3, [32773]), t317=(3, [3])),
                  "predictor 3")

    def sized(unit):
        return tiff("r.tif", flat(7), t282=(5, [(5000, 1)]), t283=(5, [(4000, 1)]),
                    t296=(3, [unit]))
    for unit, um in ((2, 5.08), (3, 2), (4, 0.2), (5, 0.0002)):
        check_packed("unit %d of resolution" % unit, sized(unit), [7], spacing=[um * 1.25, um])
    check_packed("resolution of no unit", sized(1), [7], spacing=[])
    for unit in (0, 6, 300):
        check_packed("unknown unit %d of resolution" % unit, sized(unit), [7], spacing=[],
                     note="the size of a pixel in an unknown unit")
    for dpi, um in ((50800, 0.5), (300, None)):
        Image.fromarray(flat(77)[0]).save(path("j.jpg"), dpi=(dpi, dpi))
        check_packed("JPEG of %d dpi" % dpi, path("j.jpg"), [77], spacing=[um, um] if um else [])

    four_samples = tiff("f.tif", [np.dstack(flat(10, 20, 30, 99))], t262=(3, [2]), t338=(3, [0]))
    check_packed("a fourth sample", four_samples, [10], note="--channel 4 takes it",
                 absent_note="partly")
    check_packed("a fourth sample selected by --channel", four_samples, [99], "--channel", 4)
    check_packed("a colour of a picture with a fourth sample", four_samples, [30], "--channel", 3,
                 note="--channel 4")
    check_refused("a fifth sample of four", four_samples, "has 4 channels; 5 is none", "--channel",
                  5)

    picture = tiff("picture.tif", flat(9))
    half = flat(0)[0]
    half[:, :4] = 255
    for colour, message_part in ((255, "by transparency alone"), (0, 0)):
        for mode in ("LA", "RGBA"):
            Image.merge(mode, [Image.fromarray(half * 0 + np.uint8(colour))] * (len(mode) - 1) +
                        [Image.fromarray(half)]).save(path("a.png"))
            n = count_inside("mask", path("a.png"), picture)
            tap.ok(message_part in n if message_part else n == 0,
                   "a mask that is transparency, of %d in %s" % (colour, mode), n)
    Image.merge("LA", [Image.fromarray(half)] * 2).save(path("a.png"))
    tap.ok(count_inside("mask", path("a.png"), picture) == 32,
           "a mask that is also transparent outside")
    Image.fromarray(flat(77)[0]).save(path("m.jpg"))
    message = count_inside("mask", path("m.jpg"), picture)
    tap.ok("cannot be a JPEG" in message and "empty" not in message, "a mask in JPEG", message)
    r = tap.run([tap.TEXCELL_WU, "pack", "--analysis", "cellcount", "--mask", picture, "-o",
                 path("out.zip"), picture])
    tap.ok(r.returncode == 0 and "no value of its mask is 0" in r.stderr,
           "a mask that contains all pixels",
           r.stderr)
    for kind, required_text in (("mask", "a mask has one"), ("labels", "a label picture has one")):
        message = count_inside(kind,
                               tiff("l.tif", flat(1, 2), ome('SizeZ="1" SizeC="2" SizeT="1"')),
                               picture)
        tap.ok("holds 2 channels" in message and "--channel" not in message and
               required_text in message,
               "channels of " + kind, message)

    values = np.linspace(0, 65535, 64, dtype=np.float32).reshape(8, 8)
    check_packed("samples far beyond --scale", tiff("s.tif", [values], t339=(3, [3])), [0],
                 "--scale=0,1",
                 note="more than 50% of its samples lie beyond --scale 0,1")
    check_packed("samples within --scale", tiff("s.tif", [values], t339=(3, [3])), [0],
                 "--scale=0,65535")


def test_listings():
    """Which files of a folder are pictures, and which of several paths are the same picture."""
    def save_picture(name, value=7):
        os.makedirs(os.path.dirname(path(name)), exist_ok=True)
        Image.fromarray(flat(value)[0]).save(path(name))
        return path(name)

    def names(*args):
        r = pack(path("out.zip"), *args)
        return sorted(n for n, _,
                      _ in items_of(path("out.zip"))) if r.returncode == 0 else [], r.stderr
    x = save_picture("twice/x.png")
    os.symlink("x.png", path("twice", "y.png"))
    for args in ((x, x), (path("twice"), x), (x, path("twice")), (path("twice"),),
                 (os.path.join(path("twice"), "..", "twice"), path("twice"))):
        got, messages = names(*args)
        tap.ok(got == ["x"] and "more than once" in messages, "one picture by several paths",
               [got, messages])
    got, messages = names("--stack", path("twice"), path("twice"))
    tap.ok(got == ["twice"] and "more than once" in messages,
           "one stack given twice", [got, messages])
    for name in ("a", "a-mask", "a_gt", "a_segmentation", "a.labels", "a_ground_truth", "a_overlay",
                 "a_cp_outlines", "b_gt", "gt"):
        save_picture("flat/%s.png" % name)
    got, messages = names(path("flat"))
    tap.ok(got == ["a", "b_gt", "gt"] and "left out: 7 files" in messages,
           "files named like another file's mask",
           [got, messages])
    for name in ("one/images/a", "one/masks/a", "two/p", "two/gt/q", "three/wt/a", "three/gt/b",
                 "four/d", "four/d_x/e", "five/train/t", "five/train_masks/u"):
        save_picture(name + ".png")
    for folder, expected_names, left_out in (("one", ["a"], "masks"), ("two", ["p"], "gt"),
                                             ("three", ["a", "b"], None),
                                             ("four", ["d", "e"], None),
                                             ("five", ["t"], "train_masks")):
        got, messages = names("--recursive", path(folder))
        tap.ok(got == expected_names and
               (left_out + ": left out" in messages if left_out else "left out" not in messages),
               "folders of masks in " + folder, [got, messages])
    got, messages = names("--recursive", path("one", "masks"))
    tap.ok(got == ["a"] and "left out" not in messages,
           "a folder of masks given by its own name", [got, messages])


for test in (test_ome, test_several_files, test_texts, test_slices_as_colours,
             test_planes_without_directory,
             test_tags, test_copies, test_palettes, test_calibration, test_sizes, test_nifti,
             test_unusual_files, test_misread_files, test_listings, test_shared):
    test()
tap.done()
