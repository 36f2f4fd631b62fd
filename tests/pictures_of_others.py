"""Tests texcell-wu pack on pictures made by other programs: it reads the same samples from each as
tifffile, Pillow or nibabel, or refuses it with a reason. PICTURES_FOLDER names the folder; without
it nothing is tested. Differences and refusals are counted by kind; VERBOSE=1 prints each file."""
import collections
import concurrent.futures
import io
import json
import logging
import os
import re
import sys
import warnings
import zipfile

import numpy as np
from PIL import Image

import tap

FOLDER = os.environ.get("PICTURES_FOLDER", "")
SCRATCH = tap.scratch()
ENDS = (".tif", ".tiff", ".btf", ".tf8", ".stk", ".lsm", ".flex", ".svs", ".png", ".jpg", ".jpeg",
        ".nii", ".nii.gz")
# (kind of refusal, regular expression for pack's error messages)
REFUSALS = (
    ("a scale is needed", "--scale LO,HI"), ("limits of a work unit", "too many|no pixels"),
    ("a slide, by name", "is a slide of"),
    ("codec that is not let in", "compressed by"),
    ("samples that no work unit holds",
     "which a work unit cannot hold|CMYK|components|RGB of 16|NIfTI's type|complex"),
    ("pages of several sizes", "differs from page"), ("several pictures (OME)", "series of OME"),
    ("planes that are said and not there", "is not there|but it has|fewer planes"),
    ("other axes", "no channel, time or slice"), ("thumbnails or masks alone", "holds only"),
    ("a file of several is missing", "in another file|one of \\d+ files"),
    ("no picture that is read", "is not a PNG|the file is empty|holds no NIfTI|two files"),
    ("not read, by name", "which is not read|is not known"),
    ("contradicts itself", "cut short|the palette has|SizeZ of 0|its NIfTI header"),
    ("damaged", "damaged"),
)


def files_of(folder):
    for base, _, names in os.walk(folder):
        for name in sorted(names):
            if name.lower().endswith(ENDS):
                yield os.path.join(base, name)


# --- what other programs read -------------------------------------------------------------------

def by_tifffile(path):
    """The samples as array [T, C, Z, Y, X], and whether they are colours."""
    import tifffile
    with tifffile.TiffFile(path) as t:
        series = t.series[0]
        axes, a = series.axes, series.asarray()
        page = t.pages[0]
        colours = page.photometric.name in ("RGB", "YCBCR", "PALETTE")
    for axis in "QIR":
        if axis in axes and "Z" not in axes:
            axes = axes.replace(axis, "Z", 1)
    if "S" in axes and "C" not in axes:
        axes = axes.replace("S", "C")
    elif "S" in axes and a.shape[axes.index("S")] > 1:
        position = axes.index("C")
        a = np.moveaxis(a, [position, axes.index("S")], [0, 1])
        a = a.reshape((-1,) + a.shape[2:])
        axes = "C" + axes.replace("C", "").replace("S", "")
    for i in reversed(range(len(axes))):
        if axes[i] not in "TCZYX" and a.shape[i] == 1:
            a, axes = a.squeeze(i), axes[:i] + axes[i + 1:]
    if set(axes) - set("TCZYX") or "Y" not in axes or "X" not in axes:
        raise ValueError("axes " + axes)
    for axis in "TCZ":
        if axis not in axes:
            a, axes = a[None], axis + axes
    return a.transpose([axes.index(c) for c in "TCZYX"]), colours


def by_pillow(path):
    """As by_tifffile."""
    with Image.open(path) as im:
        frames = []
        for i in range(im.n_frames if im.format == "TIFF" else 1):
            im.seek(i)
            frame = im.convert("RGBA" if "transparency" in im.info or im.mode == "PA"
                               else "RGB") if im.mode in ("P", "PA") else im
            frames.append(np.asarray(frame))
        a = np.stack(frames)
        kind = frame.mode
    if kind in ("CMYK", "LAB", "HSV"):
        raise ValueError("mode " + kind)
    a = a.astype(np.uint8) * 255 if a.dtype == bool else a
    a = a[..., None] if a.ndim == 3 else a
    return np.moveaxis(a, 3, 0)[None], a.shape[3] > 1


def by_nibabel(path):
    """As by_tifffile."""
    import nibabel
    a = np.asanyarray(nibabel.load(path).dataobj)
    if a.dtype.names:
        a = np.stack([a[n] for n in a.dtype.names[:3]], -1).squeeze()
        return np.moveaxis(a, -1, 0).transpose(0, 3, 2, 1)[None], True
    while a.ndim < 5:
        a = a[..., None]
    return (a[..., 0].transpose(3, 2, 1, 0)[:, None] if a.shape[4] == 1
            else a.transpose(3, 4, 2, 1, 0), False)


def reference(path):
    """Yields (program, array, whether samples are colours) for each program that reads the file."""
    readers = (("nibabel", by_nibabel),) if ".nii" in path.lower()[-7:] else (("Pillow",
                                                                               by_pillow),) \
        if path.lower().endswith((".png", ".jpg", ".jpeg")) else (("tifffile", by_tifffile),
                                                                  ("Pillow", by_pillow))
    for name, read in readers:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield (name,) + read(path)
        except Exception:
            continue


# --- what pack reads ----------------------------------------------------------------------------

def plane_of(unit, names):
    """A picture of a work unit, which may be stored in several strips."""
    return np.concatenate([np.asarray(Image.open(io.BytesIO(unit.read(n))))
                           for n in ([names] if isinstance(names, str) else names)])


def pack(path, unit, *args):
    """Packs a file. Returns the samples of its items, or None, and stderr."""
    if os.path.exists(unit):
        os.remove(unit)
    r = tap.run([tap.TEXCELL_WU, "pack", "--analysis", "glcm", "--param=distances=[1]", *args, "-o",
                 unit, path])
    if r.returncode != 0:
        return None, r.stderr
    with zipfile.ZipFile(unit) as z:
        items = []
        for item in json.loads(z.read("job.json"))["items"]:
            items.append(np.stack(
                [plane_of(z, n) for n in (item["stack"] if "stack" in item else [item["image"]])]))
    os.remove(unit)
    return np.stack(items), r.stderr


def channels_of(error):
    """The number of channels that an error message states, or 0."""
    found = re.search(r"holds (\d+) channels|has (\d+) samples a pixel", error)
    return int(found.group(1) or found.group(2)) if found else 0


def scale_of(error):
    """The range of the samples that an error message states, and the option --scale for it."""
    lo, hi = (float(v) for v in re.search(r"from (\S+) to ([^\s;,]+)", error).groups())
    hi = hi if hi > lo else lo + 1
    return (lo, hi), ["--scale=%.17g,%.17g" % (lo, hi)]


def pack_all(path, unit, scale=None, args=()):
    """The samples that pack reads, as array [T, C, Z, Y, X] or None; its messages; and the range of
    --scale if one was necessary. Channels are packed one by one."""
    a, error = pack(path, unit, *args)
    if a is None and "--scale LO,HI" in error and "RGB of 16" not in error:
        scale, args = scale_of(error)
        a, error = pack(path, unit, *args)
    n = channels_of(error) if a is None else 0
    if a is None and "RGB of 16" in error:
        n = 3
    if n > 1:
        parts = []
        for c in range(min(n, 8)):
            part, error = pack(path, unit, "--channel", str(c + 1), *args)
            if part is None and scale is None and "--scale LO,HI" in error:
                return pack_all(path, unit, *scale_of(error))
            if part is None:
                return None, error, None
            parts.append(part)
        return np.stack(parts, 1), error, scale
    if a is None:
        return None, error, None
    return (np.moveaxis(a, 4, 1) if a.ndim == 5 else a[:, None]), error, scale


def compare_arrays(ours, theirs, colours, scale):
    """Compares the array of pack with that of another program. Returns "equal", or the kind of
    difference."""
    theirs = theirs.astype(np.uint8) * 255 if theirs.dtype == bool else theirs
    if scale is not None:
        lo, hi = scale
        with np.errstate(all="ignore"):
            most = 255 if ours.dtype.itemsize == 1 else 65535
            theirs = np.floor(np.clip(np.nan_to_num((theirs.astype(float) - lo) / (hi - lo) * most,
                                                    nan=0, posinf=most, neginf=0), 0, most) + 0.5)
    if theirs.shape[1] in (2, 4) and ours.shape[1] == theirs.shape[1] - 1:
        theirs = theirs[:, :-1]                           # without the alpha channel
    if theirs.shape[1] == 4 and ours.shape[1] == 1:
        theirs = theirs[:, :1]  # Pillow makes RGBA of grey with alpha of 16 bits
    if colours and theirs.shape[1] == 3 and ours.shape[1] == 1:
        theirs = theirs.astype(np.int64).sum(1, keepdims=True) // 3
    theirs = theirs[:, :8]
    if ours.shape != theirs.shape and ours.shape[0] == 1 and theirs.shape[2] == 1 and ours.shape[
            2] == theirs.shape[0]:
        theirs = theirs.swapaxes(0, 2)                    # pack reads times of one slice as a stack
    if ours.shape != theirs.shape:
        return "axes: %s, by them %s" % ("x".join(map(str, ours.shape)),
                                         "x".join(map(str, theirs.shape)))
    near = 1 if scale is not None else 0
    a, b = ours.astype(np.int64), theirs.astype(np.int64)
    if (abs(a - b) <= near).all():
        return "equal"
    if ours.dtype.itemsize > 1 and theirs.dtype.itemsize == 1 and (a >> 8 == b).all():
        return "equal"  # Pillow reads only the upper 8 of 16 bits of RGB
    for bits in (8, 12, 16):
        if (a == (1 << bits) - 1 - b).all():
            return "inverted"
    for most in (1, 3, 15):
        if b.max() <= most and (a == b * (255 // most)).all():
            return "spread"
        if b.max() <= most and (a == 255 - b * (255 // most)).all():
            return "inverted"
    return "samples"


def compare(job):
    """job: (number, path). Returns (path, kind of outcome, details, whether another program reads
    the file)."""
    number, path = job
    ours, messages, scale = pack_all(path, os.path.join(SCRATCH, "%d.zip" % number))
    references = list(reference(path))
    notes = [line for line in messages.splitlines() if ": note: " in line]
    if ours is None:
        line = next((line for line in messages.splitlines() if "error: " in line), messages)
        kind = next((kind for kind, words in REFUSALS if re.search(words, line)), "else")
        return path, "refused: " + kind, line.split(": ", 3)[-1][:150], bool(references)
    if not references:
        return path, "taken, and read by none of them", "", False
    results = []
    for name, theirs, colours in references:
        result = compare_arrays(ours, theirs, colours, scale)
        if result == "equal":
            return path, "equal to %s" % name, "", True
        results.append((name, result, theirs.shape))
    name, result, _ = results[0]
    if result == "spread":
        return path, "equal, 1, 2 and 4 bits being spread over 0 to 255", "", True
    words = " ".join(notes)
    if result == "inverted" and "0 is white" in words:
        return path, "inverted, as told", "", True
    reasons = [n.split(": ", 3)[-1] for n in notes
               if not re.search("--param range|as the file says|changes nothing", n)]
    if reasons:
        return path, "differs, as told: " + reasons[0][:70], results[0][1], True
    return path, "differs, and nothing told", "; ".join("%s: %s" % r[:2] for r in results), True


def main():
    logging.disable(logging.CRITICAL)
    if not os.path.isdir(FOLDER):
        tap.skip("pictures of others", "no PICTURES_FOLDER")
        tap.done()
        return
    Image.MAX_IMAGE_PIXELS = None
    found = collections.defaultdict(list)
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        for path, kind, detail, read in pool.map(compare, enumerate(files_of(FOLDER))):
            found[kind].append((os.path.relpath(path, FOLDER), detail, read))
    for kind in sorted(found, key=lambda k: -len(found[k])):
        tap.note("%5d  %s" % (len(found[kind]), kind))
        for name, detail, read in found[kind]:
            if os.environ.get("VERBOSE") or "nothing told" in kind or (
                    kind == "refused: damaged" and read) or kind == "refused: else":
                tap.note("           %s: %s%s" % (name, detail,
                                                  "" if read else " (by none of them)"))
    tap.ok("differs, and nothing told" not in found, "every picture that differs has a note")
    tap.ok(sum(map(len, found.values())) > 0, "%d pictures" % sum(map(len, found.values())))
    tap.done()


if __name__ == "__main__":
    main()
    sys.exit(0)
