"""make bench: texcell-wu pack compared with libpng's usual settings (PIL, level 6, every filter):
bytes, time to write and time to read, for the pictures in TEXCELL_DATA, one of 24 million pixels
and a stack of 512 slices. Processor seconds of one thread, the best of three; for pack also wall
seconds with all threads."""
import io
import os
import resource
import sys
import tempfile
import time
import zipfile

import numpy as np
from PIL import Image

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import tap      # noqa: E402

DATA = tap.DATA
PICTURES = [os.path.join(DATA, *p.split("/")) for p in
            ("crystal/texture_gravel.png", "crystal/texture_brick.png",
             "crystal/vmxi_big_crystals_3.jpg",
             "crystal/xchem_echo_test_im_1.jpg", "count/bccd_BloodImage_00000.jpg",
             "count/chula_1.jpg", "count/coins.png",
             "levelset/itk_BrainProtonDensitySlice.png", "voting/stardist_img2d.tif",
             "voting/neubias_mitocheck_t1.tif")]


def best(work):
    times = []
    for _ in range(3):
        start = time.process_time()
        result = work()
        times.append(time.process_time() - start)
    return min(times), result


def usual(images):
    def write(image):
        f = io.BytesIO()
        Image.fromarray(image).save(f, "PNG", compress_level=6)
        return f.getvalue()
    seconds, files = best(lambda: [write(i) for i in images])
    return seconds, files


def read(files):
    return best(lambda: [np.asarray(Image.open(io.BytesIO(f))) for f in files])


def pack(folder, analysis, inputs):
    """(wall seconds, processor seconds, members): the best of three."""
    out, times = os.path.join(folder, "out.zip"), []
    for _ in range(3):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        r = tap.run([tap.TEXCELL_WU, "pack", "--analysis", analysis[0], *analysis[1:], "-o", out,
                     *inputs])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if r.returncode != 0:
            sys.exit(r.stderr)
        times.append((time.monotonic() - start, after.ru_utime + after.ru_stime - before.ru_utime -
                      before.ru_stime))
    with zipfile.ZipFile(out) as z:
        return (min(t[0] for t in times), min(t[1] for t in times),
                [z.read(n) for n in z.namelist() if n.endswith(".png")])


def row(name, wall, processor, files, images):
    theirs, peer = usual(images)
    print("%-28s pack %6.2f s wall, %6.2f s processor (PIL %6.2f); bytes %9d (PIL %9d, %.3f); read "
          "%6.3f s (PIL's %6.3f)"
          % (name, wall, processor, theirs, sum(map(len, files)), sum(map(len, peer)),
             sum(map(len, files)) / sum(map(len, peer)),
             read(files)[0], read(peer)[0]))


def main():
    there = [p for p in PICTURES if os.path.exists(p)]
    with tempfile.TemporaryDirectory() as folder:
        if there:
            wall, processor, files = pack(folder, ["cellcount"], there)
            row("%d pictures of TEXCELL_DATA" % len(there), wall, processor, files,
                [np.asarray(Image.open(io.BytesIO(f))) for f in files])
        rng = np.random.default_rng(1)
        yy, xx = np.mgrid[:512, :512]
        slices = os.path.join(folder, "slices")
        os.mkdir(slices)
        for z in range(512):
            slice_ = 90 + 60 * np.sin(xx / 17 + z / 40) * np.cos(yy / 23) + rng.normal(0, 3,
                                                                                       xx.shape)
            Image.fromarray(slice_.astype(np.uint8)).save(os.path.join(slices, "%03d.png" % z),
                                                          compress_level=1)
        y, x = np.mgrid[:4000, :6000]
        large = os.path.join(folder, "large.png")
        picture = (90 + 60 * np.sin(x / 17) * np.cos(y / 23) +
                   rng.normal(0, 3, x.shape)).astype(np.uint8)
        Image.fromarray(picture).save(large, compress_level=1)
        wall, processor, files = pack(folder, ["cellcount"], [large])
        row("one picture of 6000 x 4000", wall, processor, files, [picture])
        wall, processor, files = pack(folder, ["volume", "--param", "membrane=90", "--stack"],
                                      [slices])
        row("512 slices of 512 x 512", wall, processor, files,
            [np.asarray(Image.open(io.BytesIO(f))) for f in files])


if __name__ == "__main__":
    main()
