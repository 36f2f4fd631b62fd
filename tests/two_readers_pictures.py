"""Tests texcell-wu pack against PIL on pictures with random bits changed: pictures that both read
have the same pixels; pictures that only one of them reads are counted by reason, and each reason is
listed here. PICTURES=N: the number of pictures."""
import collections
import io
import os
import re
import sys
import warnings
import zipfile

import numpy as np
from PIL import Image, ImageSequence

import tap

sys.path.insert(0, os.path.join(tap.SRC, "tests", "fuzz"))
import make_seeds                  # noqa: E402

N = int(os.environ.get("PICTURES", "300"))
FOLDER = tap.scratch()
# (regular expression for pack's message, why pack refuses a picture that PIL reads)
STRICTER = (
    ("damaged (PNG|JPEG|TIFF)",
     "a warning of the library is damage: the rest of the picture would be made up"),
    ("corrupt|CRC|truncated|ends|invalid|damaged|not a PNG",
     "libpng and libtiff check all, PIL what it needs"),
    ("a work unit cannot hold|CMYK|components", "no work unit has such samples"),
    ("--scale|--channel|needs", "samples that need a choice"),
    ("pixels are too many|too many|no pixels", "limits of a work unit"),
    ("differs from page|holds only|says that it holds|says that planes "
     "have|describes|TiffData|well-formed|in another file|is not read|is a slide|holds \\d+",
     "pages that do not belong together"),
    ("compressed by", "codecs that strangers' pictures may not use"),
    ("is not a PNG, JPEG|is a|is an", "told by the first bytes"),
)


def by_pil(data):
    """(mode, samples of each page, whether the file states if 0 is black). Raises an exception if
    PIL cannot read the file."""
    with Image.open(io.BytesIO(data)) as im:
        pages = [np.asarray(p.copy()) for p in ImageSequence.Iterator(im)]
        return im.mode, pages, im.format != "TIFF" or 262 in im.tag_v2


def by_tifffile(path):
    """The samples as a list of one array, or None."""
    try:
        import tifffile
        return [whole(tifffile.imread(path))]
    except Exception:
        return None


def whole(samples):
    """The samples as integers, those of bilevel pictures as 0 and 255."""
    return samples.astype(np.int64) * (255 if samples.dtype == bool else 1)


def is_same(ours, theirs):
    return theirs is not None and len(ours) == len(theirs) and all(a.shape == b.shape and
                                                                   (whole(a) == whole(b)).all()
                                                                   for a, b in zip(ours, theirs))


def by_pack(path, unit):
    """The samples of the pictures that pack writes, or None; and the run."""
    if os.path.exists(unit):
        os.remove(unit)
    run = tap.run([tap.TEXCELL_WU, "pack", "--analysis", "glcm", "-o", unit, path])
    if run.returncode != 0:
        return None, run
    with zipfile.ZipFile(unit) as z:
        names = sorted(n for n in z.namelist() if n.endswith(".png"))
        return [np.asarray(Image.open(io.BytesIO(z.read(n)))) for n in names], run


def main():
    warnings.simplefilter("ignore")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # PIL's libraries print a warning for each damage
    seeds = [s for s in make_seeds.pictures() if s[:4] not in (b"\x5c\1\0\0", b"\0\0\1\x5c") and
             s[:2] != b"\x1f\x8b"]
    rng, groups, wrong, unexplained = np.random.default_rng(7), collections.Counter(), [], []
    for k in range(N):
        data = bytearray(seeds[k % len(seeds)])
        for _ in range(min(k // len(seeds), 1 + k % 3)):
            data[int(rng.integers(0, len(data)))] ^= 1 << int(rng.integers(0, 8))
        data = bytes(data)
        path = os.path.join(FOLDER, "picture.dat")
        with open(path, "wb") as f:
            f.write(data)
        try:
            mode, theirs, states_black = by_pil(data)
        except Exception:           # of any kind: PIL cannot read it
            theirs = None
        ours, run = by_pack(path, os.path.join(FOLDER, "unit.zip"))
        if run.returncode not in (0, 2) or run.stderr.count("\n") > 2:
            wrong.append("%d: exit %d: %s" % (k, run.returncode, run.stderr))
        if ours is None and theirs is None:
            groups["neither"] += 1
        elif ours is None:
            why = [w for pattern, w in STRICTER if re.search(pattern, run.stderr)]
            groups["PIL alone: " + (why or ["?"])[0]] += 1
            if not why:
                unexplained.append("%d: %s" % (k, run.stderr))
        elif theirs is None:
            groups["pack alone: PIL has no such samples, or wants more of a header"] += 1
        elif mode not in ("1", "L", "I;16", "RGB") or len(ours) != len(theirs):
            groups["both, of mode %s: not compared" % mode] += 1
        elif is_same(ours, theirs):
            groups["both, the same"] += 1
        elif not states_black and is_same(ours, [255 - whole(t) for t in theirs]):
            groups["both, but 0 is black unless the file says otherwise, to PIL white"] += 1
        elif is_same(ours, by_tifffile(path)):
            groups["both, pack as tifffile: PIL passes over a damaged tag"] += 1
        else:
            wrong.append("%d: other pixels, %s" % (k, mode))
    for what, n in sorted(groups.items()):
        tap.note("%4d %s" % (n, what))
    tap.ok(not wrong,
           "%d pictures: those that both read have the same pixels" % N, "\n".join(wrong[:20]))
    tap.ok(not unexplained, "the reason is known for each picture that only pack refuses",
           "\n".join(unexplained[:20]))
    tap.done()


if __name__ == "__main__":
    main()
