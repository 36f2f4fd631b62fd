"""Tests large pictures that are stored in strips of rows: decoded in parallel by any number of
threads, they give the same result as the whole picture; any number of threads refuse a damaged
strip with the same message. pack stores large pictures in strips."""
import io
import json
import os
import shutil
import sys
import zipfile

import numpy as np
from PIL import Image

sys.path.insert(0, os.path.dirname(__file__))
import tap                              # noqa: E402
from oracle import workunit             # noqa: E402
from oracle.workunit import item        # noqa: E402
from tap import ok, run                 # noqa: E402

WORK = tap.scratch()
RNG = np.random.default_rng(5)


def path(name):
    return os.path.join(WORK, name)


def result(unit, *options):
    """The arrays of the result, without result.json; stderr if the run fails."""
    out = path("out.npz")
    r = run([tap.TEXCELL, "run", unit, "-o", out, "--device", "cpu", "--quiet", *options])
    if r.returncode != 0:
        return r.stderr
    with np.load(out) as z:
        return {k: (z[k].dtype.str, z[k].shape, z[k].tobytes()) for k in z.files
                if k != "result.json"}


def jobs():
    """Yields (title, analysis, parameters, item, rows in a strip of its image, mask and labels or
    None)."""
    grey, deep = (RNG.integers(0, 256, (101, 67), np.uint8),
                  RNG.integers(0, 65536, (101, 67), np.uint16))
    colour = RNG.integers(0, 256, (101, 67, 3), np.uint8)
    mask = np.zeros((101, 67), bool)
    mask[20:80, 10:60] = True
    few = np.kron(RNG.integers(0, 90, (13, 9)), np.ones((8, 8), int))[:101, :67]
    window = {"levels": [16], "distances": [1], "window": {"shape": "disc", "radius": 2}}
    start = {"target": 120, "epsilon": 60, "iterations": 20, "init": {"type": "mask"}}
    yield "grey", "cellcount", {"labels": True}, item("x", [grey]), (7, None, None)
    yield "16 bits", "cellcount", {"labels": True}, item("x", [deep]), (40, None, None)
    yield "colour", "cellcount", {"labels": True}, item("x", [colour]), (1, None, None)
    yield ("a mask of other strips", "glcm", dict(window, roi={"type": "mask"}),
           item("x", [colour], masks=[mask]), (30, 11, None))
    yield ("a mask alone in strips", "levelset", start, item("x", [grey], masks=[mask]),
           (None, 50, None))
    for name, labels in (("8", few), ("16", few * 700), ("24", few * 180001)):
        yield ("labels of %s bits" % name, "objects", {}, item("x", [grey], labels=[labels]),
               (16, None, 9))


def test_same_as_whole():
    for name, analysis, parameters, it, strips in jobs():
        workunit.write(path("whole.zip"), analysis, parameters, [it, dict(it, name="y")])
        workunit.write(path("strips.zip"), analysis, parameters, [it, dict(it, name="y")], strips)
        whole = result(path("whole.zip"), "--threads", "1")
        for threads in ("1", "2", "5"):
            ok(isinstance(whole, dict) and result(path("strips.zip"), "--threads", threads) ==
               whole,
               "%s: strips on %s threads give the same result as the whole picture" %
               (name, threads),
               whole)


def test_damaged_strips():
    """The message names the first damaged strip, whichever thread finds its damage first."""
    workunit.write(path("good.zip"), "cellcount", {},
                   [item("x", [RNG.integers(0, 256, (300, 200), np.uint8)])], (10, None, None))
    with zipfile.ZipFile(path("good.zip")) as z, zipfile.ZipFile(path("bad.zip"), "w") as bad:
        for info in z.infolist():
            data = z.read(info)
            bad.writestr(info,
                         data[:-20] if info.filename in ("images/x_0013.png", "images/x_0014.png",
                                                         "images/x_0029.png") else data)
    messages = [result(path("bad.zip"), "--threads", str(n)) for n in (1, 2, 3, 8)
                for _ in range(3)]
    ok("images/x_0013.png: damaged PNG" in messages[0] and len(set(messages)) == 1,
       "the first damaged strip is named on any number of threads", messages)


def test_pack():
    """pack stores pictures of more than a million pixels in strips."""
    y, x = np.mgrid[:1300, :900]
    grey = (120 + 60 * np.sin(x / 9.) * np.cos(y / 11.) + RNG.integers(0, 9,
                                                                       x.shape)).astype(np.uint8)
    labels = (y // 20 * 50 + x // 20) * ((y + x) % 37 > 3)
    Image.fromarray(grey).save(path("grey.png"))
    Image.fromarray(np.stack([grey, grey.T.reshape(grey.shape), 255 - grey],
                             -1)).save(path("colour.png"))
    Image.fromarray(labels.astype(np.uint16)).save(path("labels.png"))
    for f in ("units", "labels"):
        os.makedirs(path(f), exist_ok=True)
    shutil.copy(path("labels.png"), path("labels/grey.png"))
    one, all_ = path("units/one.zip"), path("units/all.zip")
    argv = [tap.TEXCELL_WU, "pack", "--analysis", "objects", "--param", 'families=["shape"]',
            "--labels", path("labels"), "-o"]
    r = run(["taskset", "-c", str(min(os.sched_getaffinity(0))), *argv, one, path("grey.png")])
    run([*argv, all_, path("grey.png")])
    ok(r.returncode == 0 and open(one, "rb").read() == open(all_, "rb").read(),
       "pack gives the same work unit with one thread and all", r.stderr)
    with zipfile.ZipFile(all_) as z:
        it = json.loads(z.read("job.json"))["items"][0]
        for key, expected in (("image", grey), ("labels", labels)):
            parts = [np.asarray(Image.open(io.BytesIO(z.read(n)))) for n in it[key]]
            ok(it[key] == ["%s/grey/%04d.png" % ({"image": "images"}.get(key, key), i)
                           for i in range(3)]
               and np.array_equal(np.concatenate(parts), expected), "pack: %s in strips" % key, it)
    r = run([tap.TEXCELL_WU, "pack", "--analysis", "cellcount", "--param", "labels=true", "-o",
             path("c.zip"), path("colour.png")])
    workunit.write(path("w.zip"), "cellcount", {"labels": True},
                   [item("colour", [np.asarray(Image.open(path("colour.png")))])])
    same = result(path("w.zip")), result(path("c.zip"))
    ok(r.returncode == 0 and isinstance(same[0], dict) and same[0] == same[1],
       "a packed colour picture", r.stderr)
    r = run([tap.TEXCELL_VALIDATE, "check", path("c.zip"), path("out.npz")])
    ok(r.returncode == 0, "texcell-validate accepts a result of strips", r.stderr)
    r = run([tap.TEXCELL_WU, "report", path("out.npz"), "--images", path("c.zip"), "-o",
             path("r.html")])
    ok(r.returncode == 0 and os.path.getsize(path("r.html")) > 10000,
       "the page shows a picture in strips", r.stderr)
    Image.fromarray(grey[:1024, :900]).save(path("small.png"))
    run([tap.TEXCELL_WU, "pack", "--analysis", "cellcount", "-o", path("c.zip"), path("small.png")])
    with zipfile.ZipFile(path("c.zip")) as z:
        ok(z.namelist() == ["job.json", "images/small.png"],
           "a smaller picture is not split into strips",
           z.namelist())


test_same_as_whole()
test_damaged_strips()
test_pack()
tap.done()
