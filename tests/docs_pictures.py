#!/usr/bin/python3
"""Makes the pictures of the documentation, in docs/images (`make docs-pictures`): texcell's results
for pictures from scikit-image's Debian package, and for a stack that is computed here.
docs/graphics.png, what a volunteer sees, is made of a blood smear if ../shared/data and Xvfb are
present."""
import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
from PIL import Image
from scipy import ndimage

import graphics as graphics_test
import tap
from oracle import workunit

BUILD, IMAGES = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
DATA = "/usr/lib/python3/dist-packages/skimage/data"
PAGE, SHOWN, THUMB = (1200, 1250), (780, 812), (150, 100)


def analyse(folder, analysis, picture, *options):
    """Analyses a picture. Returns the folder of the results."""
    subprocess.run([os.path.join(BUILD, "texcell-wu"), "analyse", "--analysis", analysis,
                    "--pictures", "--device", "cpu", "-o", analysis,
                    *options, picture], check=True, cwd=folder, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return os.path.join(folder, analysis)


def save(picture, name):
    picture.convert("RGB").quantize(64).save(os.path.join(IMAGES, name), optimize=True)


def thumb(path, name):
    """Scales a picture to 60%, or to the size that fills THUMB if this is larger, and saves its
    centre."""
    with Image.open(path) as picture:
        w, h = picture.size
        scale = max(THUMB[0] / w, THUMB[1] / h, 0.6)
        part = picture.convert("RGB").resize((round(w * scale), round(h * scale)),
                                             Image.Resampling.LANCZOS)
    x, y = (part.width - THUMB[0]) // 2, (part.height - THUMB[1]) // 2
    save(part.crop((x, y, x + THUMB[0], y + THUMB[1])), name + ".png")


def foam(path):
    """A stack of cells within membranes."""
    rng = np.random.default_rng(3)
    smooth_noise = ndimage.gaussian_filter(rng.random((24, 160, 240)), (2, 6, 6))
    walls = np.abs(smooth_noise - smooth_noise.mean()) < 0.35 * smooth_noise.std()
    stack = np.where(walls, 190, 40) + rng.normal(0, 8, walls.shape)
    planes = [Image.fromarray(p.clip(0, 255).astype(np.uint8)) for p in stack]
    planes[0].save(path, save_all=True, append_images=planes[1:])


def graphics(path):
    """Saves windows of texcell_graphics: of glcm while it computes, and of cellcount."""
    smear, windows = tap.data("count/chula_1.jpg"), []
    if smear is None or not os.path.exists(graphics_test.GRAPHICS) or shutil.which("Xvfb") is None:
        print("graphics.png is left as it is: no smear, no texcell_graphics or no Xvfb here")
        return
    with Image.open(smear) as picture:
        pixels = np.array(picture.convert("RGB"))
    with graphics_test.a_display() as env:
        # The picture of glcm is magnified, so that computing takes longer.
        for analysis, magnification, parameters in (
                ("glcm", 3,
                 {"levels": [32], "distances": [1, 2, 3], "window": {"shape": "disc", "radius": 9},
                  "maps": [{"feature": "correlation", "levels": 32, "offset": [2, 0]}]}),
                ("cellcount", 1, {"polarity": "dark", "smooth": 1, "fill_holes": True,
                                  "split": "distance", "min_area": 280})):
            folder = os.path.join(graphics_test.FOLDER, analysis)
            os.mkdir(folder)
            workunit.write(os.path.join(folder, "workunit"), analysis, parameters,
                           [workunit.item("smear", [pixels.repeat(magnification, 0)
                                           .repeat(magnification, 1)])])
            viewer = subprocess.Popen([graphics_test.GRAPHICS], cwd=folder, env=env)
            graphics_test.until(lambda: os.path.exists(os.path.join(folder, "texcell_watched")))
            task = subprocess.Popen([os.path.join(BUILD, "texcell")],
                                    cwd=folder, stderr=subprocess.DEVNULL)
            seen = os.path.join(folder, "texcell_view")
            graphics_test.until(lambda: task.poll() is not None or os.path.exists(seen) and
                          graphics_test.view_of(folder)[1] > 30000, 60)
            task.send_signal(signal.SIGSTOP)
            time.sleep(2.5)
            windows.append(graphics_test.screen())
            task.kill()
            task.wait()
            viewer.kill()
            viewer.wait()
    save(Image.fromarray(np.hstack(windows)[:540].astype(np.uint8)), path)


def main():
    os.makedirs(IMAGES, exist_ok=True)
    graphics(os.path.join(os.pardir, "graphics.png"))
    with tempfile.TemporaryDirectory() as folder:
        coins, brick, stack = (os.path.join(DATA, "coins.png"), os.path.join(DATA, "brick.png"),
                               os.path.join(folder, "foam.tif"))
        counted = analyse(folder, "cellcount", coins)
        page = os.path.join(folder, "page.png")
        subprocess.run(
            [next(filter(os.path.exists, ("/usr/bin/chromium", "/usr/bin/chromium-browser"))),
             "--headless",
             "--no-sandbox", "--hide-scrollbars", "--window-size=%d,%d" % PAGE,
             "--screenshot=" + page,
             "file://%s/report.html" % counted], check=True, timeout=120, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        with Image.open(page) as picture:
            save(picture.convert("RGB").resize(SHOWN, Image.Resampling.LANCZOS), "page.png")
        foam(stack)
        maps = 'maps=[{"feature":"contrast","levels":32,"offset":[1,0]}]'
        labels = os.path.join(counted, "result.npz")
        for analysis, picture, *options in (
                ("voting", coins), ("levelset", coins), ("volume", stack),
                ("objects", coins, "--labels", labels),
                ("glcm", brick, "--defaults", "--param", "levels=[32]", "--param", "distances=[1]",
                 "--param", maps,
                 "--param", 'window={"shape":"disc","radius":9}')):
            out = analyse(folder, analysis, picture, *options)
            for drawn in sorted(glob.glob(os.path.join(out, "*.png")))[-1:]:
                thumb(drawn, analysis)
        thumb(sorted(glob.glob(os.path.join(counted, "labels*.png")))[0], "cellcount")


main()
