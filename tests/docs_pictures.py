#!/usr/bin/python3
"""Makes the pictures of README, in docs/images: `make docs-pictures`. They show what texcell makes of
pictures of scikit-image's Debian package and of a stack that is computed here."""
import glob
import os
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image
from scipy import ndimage

BUILD, IMAGES = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
DATA = "/usr/lib/python3/dist-packages/skimage/data"
PAGE, SHOWN, THUMB = (1200, 1250), (780, 812), (150, 100)


def analyse(folder, analysis, picture, *options):
    """The folder of what texcell makes of a picture."""
    subprocess.run([os.path.join(BUILD, "texcell-wu"), "analyse", "--analysis", analysis, "--pictures", "--device", "cpu", "-o", analysis,
                    *options, picture], check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return os.path.join(folder, analysis)


def save(picture, name):
    picture.convert("RGB").quantize(64).save(os.path.join(IMAGES, name), optimize=True)


def thumb(path, name):
    """The middle of a picture, a third of its width or what is there."""
    with Image.open(path) as picture:
        w, h = picture.size
        scale = max(THUMB[0] / w, THUMB[1] / h, 0.6)
        part = picture.convert("RGB").resize((round(w * scale), round(h * scale)), Image.Resampling.LANCZOS)
    x, y = (part.width - THUMB[0]) // 2, (part.height - THUMB[1]) // 2
    save(part.crop((x, y, x + THUMB[0], y + THUMB[1])), name + ".png")


def foam(path):
    """A stack of cells within membranes."""
    rng = np.random.default_rng(3)
    zoom = ndimage.gaussian_filter(rng.random((24, 160, 240)), (2, 6, 6))
    walls = np.abs(zoom - zoom.mean()) < 0.35 * zoom.std()
    stack = np.where(walls, 190, 40) + rng.normal(0, 8, walls.shape)
    planes = [Image.fromarray(p.clip(0, 255).astype(np.uint8)) for p in stack]
    planes[0].save(path, save_all=True, append_images=planes[1:])


def main():
    os.makedirs(IMAGES, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        coins, brick, stack = os.path.join(DATA, "coins.png"), os.path.join(DATA, "brick.png"), os.path.join(folder, "foam.tif")
        counted = analyse(folder, "cellcount", coins)
        page = os.path.join(folder, "page.png")
        subprocess.run([next(filter(os.path.exists, ("/usr/bin/chromium", "/usr/bin/chromium-browser"))), "--headless",
                        "--no-sandbox", "--hide-scrollbars", "--window-size=%d,%d" % PAGE, "--screenshot=" + page,
                        "file://%s/report.html" % counted], check=True, timeout=120, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        with Image.open(page) as picture:
            save(picture.convert("RGB").resize(SHOWN, Image.Resampling.LANCZOS), "page.png")
        foam(stack)
        maps = 'maps=[{"feature":"contrast","levels":32,"offset":[1,0]}]'
        labels = os.path.join(counted, "result.npz")
        for analysis, picture, *options in (
                ("voting", coins), ("levelset", coins), ("volume", stack), ("objects", coins, "--labels", labels),
                ("glcm", brick, "--defaults", "--param", "levels=[32]", "--param", "distances=[1]", "--param", maps,
                 "--param", 'window={"shape":"disc","radius":9}')):
            out = analyse(folder, analysis, picture, *options)
            for drawn in sorted(glob.glob(os.path.join(out, "*.png")))[-1:]:
                thumb(drawn, analysis)
        thumb(sorted(glob.glob(os.path.join(counted, "labels*.png")))[0], "cellcount")


main()
