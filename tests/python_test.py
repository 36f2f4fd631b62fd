"""Tests the Python package against the programs: arrays give the same bytes as files that other
libraries wrote; its tables are those that export writes; errors and exit codes; an interrupted call
continues."""
import csv
import contextlib
import gc
import json
import os
import pickle
import signal
import sys
import threading
import types
import warnings
import zipfile

import nibabel
import numpy as np
import pandas
from PIL import Image

import analyses
from oracle import workunit
import tap

sys.path.insert(0, os.path.join(tap.SRC, "workunits", "python"))
os.environ["TEXCELL"] = os.path.abspath(tap.BUILD)
import texcell

WORK = tap.scratch()
FULL = os.environ.get("PYTHON_TEST") == "full"
rng = np.random.default_rng(44)
Y, X = np.mgrid[:90, :120]
SPOTS = (900 + 3000 * ((Y % 30 - 15) ** 2 + (X % 30 - 15) ** 2 < 60) +
         rng.normal(0, 30, Y.shape)).astype(np.uint16)
COUNT = {"polarity": "bright", "min_area": 20, "labels": True}
QUIET = {"progress": False, "device": "cpu", "defaults": True}


def path(*names):
    return os.path.join(WORK, *names)


def read(name):
    with open(name, "rb") as f:
        return f.read()


def run_programs(unit, inputs, *options):
    """The bytes of the result that texcell-wu pack and texcell run compute."""
    r = tap.run([tap.TEXCELL_WU, "pack", "-o", unit, *options, "--", *inputs])
    r2 = tap.run([tap.TEXCELL, "run", unit, "-o", unit + ".npz", "--device", "cpu", "--quiet"])
    return read(unit + ".npz") if tap.ok(r.returncode == r2.returncode == 0,
                                         "texcell-wu pack and texcell run succeed",
                                         r.stderr + r2.stderr) else b""


def nifti(name, array, um=(0, 0, 0)):
    """Writes an array [z, y, x] as NIfTI-2 by nibabel, whose axes are x, y, z."""
    os.makedirs(os.path.dirname(name), exist_ok=True)
    if array.ndim > 2 and array.shape[-1] == 3:
        array = np.ascontiguousarray(array).view([("R", "u1"), ("G", "u1"), ("B", "u1")])[..., 0]
    picture = nibabel.Nifti2Image(array.T, np.diag([*reversed(um), 1]) if any(um) else None)
    picture.header.set_xyzt_units("micron" if any(um) else "unknown")
    nibabel.save(picture, name)


def test_same_bytes():
    """analyse() of arrays gives the same bytes as the programs from files. Returns one result."""
    stack = np.stack([np.roll(SPOTS, i) for i in range(5)])
    colours = np.dstack([SPOTS >> 4, SPOTS >> 5, np.roll(SPOTS, 9) >> 4]).astype(np.uint8)
    walls = np.full((9, 30, 30), 30, np.uint8)
    walls[1:8, 2:28, 2:28] = 200
    walls[3:6, 4:14, 4:26] = walls[3:6, 16:26, 4:26] = 30
    labels = (X // 20 + 1).astype(np.int32) * 70000 % 16000000
    flags = ["--param", "labels=true"]
    count = ["--analysis", "cellcount", "--param", "polarity=bright", "--param",
             "min_area=20"] + flags
    for title, analysis, arrays, um, words, arguments in (
            ("16 bits", "cellcount", [SPOTS], (0, 0, 0), count, COUNT),
            ("8 bits of colour", "cellcount", [colours], (0, 0, 0), count, COUNT),
            ("micrometres", "cellcount", [SPOTS], (1, .65, .7), count,
             dict(COUNT, spacing=(1, .65, .7))),
            ("signed, big-endian", "cellcount", [SPOTS.astype(">i2")], (0, 0, 0), count, COUNT),
            ("strided", "cellcount", [SPOTS[::2, ::-3]], (0, 0, 0), count, COUNT),
            ("floats", "cellcount", [SPOTS / 7], (0, 0, 0), count + ["--scale", "0,600.5"],
             dict(COUNT, scale=(0, 600.5))),
            ("a stack", "voting", [stack], (2, .5, .5),
             ["--analysis", "voting", "--param", "radius=5"],
             {"radius": 5, "spacing": (2, .5, .5)}),
            ("walls", "volume", [walls], (0, 0, 0), ["--analysis", "volume"] + flags,
             {"labels": True}),
            ("a circle", "levelset", [SPOTS], (0, 0, 0),
             ["--analysis", "levelset", "--param", "target=3800", "--param", "epsilon=500",
             "--param", "iterations=20", "--param", 'init={"type":"otsu"}'],
             {"target": 3800, "epsilon": 500, "iterations": 20, "init": {"type": "otsu"}})):
        name = title.replace(" ", "_")
        nifti(path(name, "images", "image.nii"), arrays[0], um)
        expected = run_programs(path(name + ".zip"), [path(name, "images", "image.nii")], *words,
                                *(["--spacing", ",".join(map(str, um))] if any(um) else []))
        result = texcell.analyse(arrays[0], analysis, **QUIET, **arguments)
        tap.ok(read(result.path) == expected and read(result.unit) == read(path(name + ".zip")),
               title + ": the same bytes as of nibabel's file")
    names = ["b", "a", "c.1"]
    images = {n: SPOTS if n == "a" else SPOTS[::-1] for n in names}
    nifti(path("many", "images", "image.nii"), np.stack(list(images.values()))[:, None])
    with open(path("names.txt"), "w") as f:
        f.write("\n".join(names))
    for name in names:
        nifti(path("apart", "images", name + ".nii"), images[name])
        nifti(path("many", "labels", name + ".nii"), labels if name == "a" else labels // 2)
        nifti(path("many", "mask", name + ".nii"), (X > 30).astype(np.uint8))
    inputs, with_names = [path("many", "images", "image.nii")], ["--names", path("names.txt")]
    expected = run_programs(path("many.zip"), inputs, *with_names, "--analysis", "objects",
                            "--labels",
                            path("many", "labels"))
    result = texcell.analyse(images, "objects", labels={n: labels if n == "a" else labels // 2
                                                        for n in "a b c.1".split()}, **QUIET)
    tap.ok(read(result.path) == expected and result.names == names,
           "names, and label pictures of 24 bits, give the same bytes", result.names)
    run_programs(path("apart.zip"), [path("apart", "images", n + ".nii") for n in names],
                 "--analysis",
                 "objects", "--labels", path("many", "labels"))
    from_files = texcell.read(path("apart.zip.npz"))
    tap.ok(all(np.array_equal(from_files[a], result[a]) for a in result if a != "item_sources"),
           "files with these names give the same numbers")
    expected = run_programs(path("masked.zip"), inputs, *with_names, "--analysis", "glcm", "--mask",
                            path("many", "mask"), "--param", 'roi={"type":"mask"}',
                            "--param", "levels=[8]", "--param", "distances=[1]", "--param",
                            'window={"shape":"roi"}')
    result = texcell.analyse(list(images.values()), "glcm", names=names, masks=[X > 30] * 3,
                             roi={"type": "mask"}, levels=np.array([8]),
                             distances=(1,), window={"shape": "roi"}, **QUIET)
    tap.ok(read(result.path) == expected, "masks may be given as a list")
    os.mkdir(path("pictures"))
    for i in range(2):
        Image.fromarray(np.roll(SPOTS, 5 * i, 0)).save(path("pictures", "p%d.png" % i))
    expected = run_programs(path("folder.zip"), [path("pictures")], *count)
    result = texcell.analyse(path("pictures"), "cellcount", **QUIET, **COUNT)
    tap.ok(read(result.path) == expected and read(result.unit) == read(path("folder.zip")),
           "a folder of pictures may be given")
    object_result = texcell.analyse(path("pictures", "p0.png"), "objects", labels=result, **QUIET)
    tap.ok(list(object_result.tables["objects"]["area"]) ==
           list(result.tables["regions"].query("item == 'p0'")["area"]),
           "a Result's labels are measured")
    os.mkdir(path("elsewhere"))
    Image.fromarray(SPOTS).save(path("elsewhere", "p0.png"))
    error = refusal_of(texcell.analyse, path("elsewhere", "p0.png"), "objects", labels=result,
                       **QUIET)
    tap.ok(isinstance(error, texcell.InputError) and "cannot be distinguished" in str(error),
           "a Result's labels are not used for another folder's file of the same name", error)
    tap.ok(len(texcell.analyse({"p0": SPOTS}, "objects", labels=result,
                               **QUIET).tables["objects"]) == len(object_result.tables["objects"]),
           "a Result's labels are used for an array of the same name")
    nifti(path("times", "images", "image.nii"), np.stack([SPOTS, SPOTS[::-1]])[:, None])
    expected = run_programs(path("times.zip"), [path("times", "images", "image.nii")], *count)
    tap.ok(read(texcell.analyse([SPOTS, SPOTS[::-1]], **QUIET, **COUNT).path) == expected,
           "images of the same size may be given as a list")
    with_names = texcell.analyse({"first": path("pictures", "p1.png"), "second": SPOTS},
                                 "cellcount",
                                 **QUIET, **COUNT)
    tap.ok(with_names.names == ["first", "second"] and
           np.array_equal(with_names.labels["first"], result.labels["p1"]),
           "names may be given for files", with_names.names)
    tap.ok(texcell.analyse(SPOTS, spacing=.5, **QUIET).spacing(0) == (.5, .5) and
           texcell.analyse(stack, "voting", radius=5, spacing=.5, **QUIET).spacing(0) ==
           (.5, .5, .5), "one number as spacing applies to all axes")
    np.savez(path("other.npz"), a=SPOTS)
    np.save(path("other.npy"), SPOTS)
    tap.ok(all(isinstance(refusal_of(texcell.read, path(n)), texcell.InputError)
               for n in ("other.npz", "other.npy")), "read() refuses a file that is not a result")
    result.save(path("saved.npz"))
    reread = texcell.read(path("saved.npz"), result.unit)
    reread.report(path("page.html"))
    r = tap.run([tap.TEXCELL_WU, "report", path("saved.npz"), "--images", result.unit, "-o",
                 path("theirs.html")])
    tap.ok(r.returncode == 0 and read(path("page.html")) == read(path("theirs.html")),
           "a saved result is read, and its page is that of texcell-wu report", r.stderr)
    return result


def columns_agree(frame, csv_frame):
    """Whether a DataFrame has the columns and values of one that pandas read from a CSV file."""
    if list(frame.columns) != list(csv_frame.columns) or len(frame) != len(csv_frame):
        return False
    return all(list(frame[c].fillna("")) == list(csv_frame[c].fillna("")) if frame[c].dtype ==
               object
               else
               np.array_equal(np.asarray(frame[c], float), np.asarray(csv_frame[c], float),
                              equal_nan=True) for c in frame)


def test_tables():
    """The tables of a Result are those that export writes, and its arrays those of the file."""
    for name, module in analyses.each():
        for title, (parameters, items) in list(module.JOBS.items())[:None if FULL else 2]:
            items = [dict(i, source="f/%s.png" % i["name"], spacing=i.get("spacing") or
                          [.3, .3][:2]) if name != "glcm" else i for i in items]
            unit, folder = path("%s_%s.zip" % (name, title)), path("%s_%s" % (name, title))
            workunit.write(unit, name, parameters, items)
            tap.run([tap.TEXCELL, "run", unit, "-o", unit + ".npz", "--device", "cpu", "--quiet"])
            tap.run([tap.TEXCELL_WU, "export", unit + ".npz", "-o", folder])
            result = texcell.read(unit + ".npz")
            csv_tables = {f[:-4]: pandas.read_csv(os.path.join(folder, f),
                                                  float_precision="round_trip",
                                                  keep_default_na=False, na_values="nan")
                          for f in os.listdir(folder) if f.endswith(".csv") and f != "columns.csv"}
            bad = [t for t in {*csv_tables, *result.tables} if t not in csv_tables or
                   t not in result.tables or
                   not columns_agree(result.tables[t], csv_tables[t])]
            tap.ok(csv_tables and not bad, "%s, %s: the tables of export" % (name, title),
                   {t: (list(result.tables[t]), list(csv_tables[t]))
                    for t in bad if t in csv_tables and t in result.tables})
            with np.load(unit + ".npz") as npz:
                pictures = {a for a in npz.files if a.startswith(("labels_", "mask_", "map_"))}
                file_pictures = [npz[a] for a in sorted(pictures)]
                result_pictures = [*result.labels.values(), *result.masks.values(),
                                   *(m for maps in result.maps.values() for m in maps.values())]
                tap.ok(len(file_pictures) == len(result_pictures) and
                       all(any(np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
                               for b in result_pictures)
                           for a in file_pictures)
                       and sorted(result) == sorted(set(npz.files) - {"result.json"}),
                       "a Result has the file's arrays and pictures", sorted(pictures))


def refusal(of, **given):
    """The error of analyse(), or None."""
    try:
        texcell.analyse(of, **{**QUIET, **given})
    except texcell.Error as error:
        return error
    return None


def test_errors():
    """Each error message names a remedy, with which the call succeeds."""
    for kind in (bool, np.float16, np.complex64, "u2 colours", "f8 colours", "rgba", np.float32,
                 np.uint32):
        image = (SPOTS > 2000 if kind is bool else np.dstack([SPOTS] * 3) if kind == "u2 colours"
                 else
                 np.dstack([SPOTS / 65535] * 3) if kind == "f8 colours"
                 else np.dstack([SPOTS >> 8] * 4).astype(np.uint8) if kind == "rgba"
                 else (SPOTS % 60000).astype(kind))
        error, arguments, words = refusal(image), {}, ""
        for _ in range(4):
            if error is None:
                break
            words, message = str(error), str(error)
            if "scale=(L" in message.replace(" ", ""):
                arguments["scale"] = (0, 65535)
            expression = next((e for e in ("(image >> 8).astype('uint8')",
                                           "(image * 255).astype('uint8')", "image[..., :3]",
                                           "image.astype('uint8')", "image.astype('float32')",
                                           "abs(image)") if
                               e in message or e.replace(".astype", "; x.astype") in message),
                              "image")
            image = eval(expression, {"image": image, "abs": np.abs})
            error = refusal(image, **arguments)
        tap.ok(words and error is None,
               "%s: the error proposes a conversion, which works" % (kind,),
               error or words)
    with open(path("x.czi"), "wb") as f:
        f.write(b"ZISRAWFILE")
    for image, words in ((np.zeros((2, 2, 5, 5), np.uint8), "as a list"),
                         (np.zeros(5, np.uint8), "axes"), (np.zeros((0, 5), np.uint8), "empty"),
                         (np.zeros((4, 4), "M8[s]"), "type datetime64"), (path("x.czi"), "bioio"),
                         (np.ma.masked_greater(SPOTS, 1000), "masks=~image.mask")):
        error = refusal(image)
        tap.ok(isinstance(error, texcell.InputError) and words in str(error), "refused: " + words,
               error)
    for arguments, kind, words in (({"analysis": "nothing"}, texcell.UsageError, "no analysis"),
                                   ({"min_area": 0}, texcell.InputError, "min_area"),
                                   ({"names": ["a", "b"]}, texcell.InputError, "2 names of 1"),
                                   ({"device": "9:9"}, texcell.Error, ""),
                                   ({"analysis": "objects", "labels": [SPOTS, SPOTS]},
                                    texcell.InputError,
                                    "1 image needs as many masks or label pictures, 2 given"),
                                   ({"analysis": "voting"}, texcell.InputError, "radius")):
        error = refusal(SPOTS, **arguments)
        tap.ok(isinstance(error, kind) and words in str(error) and "/tmp" not in str(error),
               "refused: %s" % sorted(arguments), error)
    labels = ((Y % 30 - 15) ** 2 + (X % 30 - 15) ** 2 < 60) * (Y // 30 * 4 + X // 30 + 1)
    for title, images, arguments, kind, words in (
            ("no images", [], {}, texcell.InputError, "no images"),
            ("names", [SPOTS] * 2, {"names": "ab"}, texcell.InputError, "1 name of 2 images"),
            ("spacing", SPOTS, {"spacing": "5um"}, texcell.UsageError, "spacing 5um"),
            ("a spacing of 0", SPOTS, {"spacing": 0}, texcell.UsageError, "positive"),
            ("labels without one of the images", {"a": SPOTS, "b": SPOTS},
             {"analysis": "objects", "labels": {"a": labels}}, texcell.InputError,
             "its own name: b"),
            ("names that are equal when made safe", {"a b": SPOTS, "c": SPOTS},
             {"analysis": "objects", "labels": {"a b": labels, "a_b": labels, "c": labels}},
             texcell.InputError, "letters and digits"),
            ("no labels for objects", SPOTS, {"analysis": "objects"}, texcell.InputError,
             "image: has no labels; objects measures the objects that they mark, labels="),
            ("a complex number as parameter", SPOTS, {"min_area": 3j}, texcell.InputError,
             "min_area")):
        error = refusal(images, **arguments)
        tap.ok(isinstance(error, kind) and words in str(error), "refused: " + title, repr(error))
    whole = texcell.analyse([SPOTS, SPOTS], "objects", labels=[labels, labels], **QUIET)
    array_of_images = np.empty(2, object)
    array_of_images[:] = [SPOTS, SPOTS]
    for title, images, arguments in (("a generator", (SPOTS for _ in range(2)), {}),
                                     ("an array of objects", array_of_images, {}),
                                     ("values of a dict", {1: SPOTS, 2: SPOTS}.values(), {}),
                                     ("a stack of label pictures", [SPOTS] * 2,
                                      {"labels": np.stack([labels] * 2)})):
        tap.ok(read(texcell.analyse(images, "objects", **{"labels": [labels] * 2, **QUIET,
                                                          **arguments}).path) == read(whole.path),
               title + ": the same result as from a list")
    file = path("with a space.png")
    Image.fromarray(SPOTS).save(file)
    tap.ok(len(texcell.analyse([file], "objects", labels={"with a space": labels},
                               **QUIET).tables["objects"]) == 12,
           "the labels of a file are found by its name")
    tap.ok(texcell.analyse(SPOTS, names="one", spacing={"x": .5, "y": .6}, **QUIET).spacing(0) ==
           (.6, .5), "one image may have a name, and spacing may be a dict of axes")
    unpickled = pickle.loads(pickle.dumps(whole))
    tap.ok(unpickled.path != whole.path and read(unpickled.path) == read(whole.path) and
           read(unpickled.unit) == read(whole.unit), "a Result is pickled with its files")
    error = refusal(path("nowhere.png"))
    tap.ok(isinstance(error, texcell.InputError) and error.code == 2 and
           "nowhere.png" in str(error),
           "a file that does not exist is an InputError that names it", error)
    with open(path("cut.npz"), "wb") as f:
        f.write(read(whole.path)[:500])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        error = refusal_of(texcell.read, path("cut.npz"))
        gc.collect()
    tap.ok(isinstance(error, texcell.InputError) and not caught,
           "a result that is cut short is refused, and its file is closed", (error, caught))
    for value in (float("nan"), np.float32("inf")):
        error = refusal(SPOTS, smooth=value)
        tap.ok(isinstance(error, texcell.UsageError) and
               str(error) == "smooth=%s: is not a finite number" % value,
               "smooth=%s is refused" % value, error)
    for title, images, names, notes in (
            ("a dict", {"\xe4": SPOTS, "\xf6": SPOTS, "c": SPOTS}, None,
             ["\xe4: is called _ in the tables", "\xf6: is called __2 in the tables"]),
            ("equal names", [SPOTS, SPOTS], ["a", "a"], ["a: is called a_2 in the tables"])):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            texcell.analyse(images, "glcm", names=names, window={"shape": "roi"}, **QUIET)
        found = [str(w.message) for w in caught if "is called" in str(w.message)]
        tap.ok(found == notes, "names that are changed are noted: " + title, found)
    error = refusal("nowhere")
    tap.ok(isinstance(error, texcell.InputError) and "nowhere: no such file" in str(error),
           "a folder that does not exist is an InputError that names it", error)
    empty = texcell.analyse(np.stack([SPOTS] * 3), "volume", spacing=1, **QUIET)
    tap.ok(empty["cells"].tolist() == [0] and
           [len(empty.tables["cells"][c]) for c in ("label", "centroid_x_um")] == [0, 0],
           "a table without a row has its columns")
    with contextlib.suppress(KeyError):
        texcell.read(path("saved.npz")).labels["p9"]
        tap.ok(False, "an unknown name in labels is a KeyError")


def test_exit_codes():
    """Exit codes of the programs become exceptions. Also: how the programs are found."""
    os.mkdir(path("fakes"))
    for code, kind in ((1, texcell.UsageError), (2, texcell.InputError), (3, texcell.TryLater),
                       (70, texcell.InternalError), (99, texcell.InternalError),
                       (-9, texcell.TryLater)):
        with open(path("fakes", "texcell-wu"), "w") as f:
            f.write("#!/bin/sh\necho 'texcell-wu: error: so it is' >&2\n" +
                    ("kill -9 $$" if code < 0 else "exit %d" % code))
        os.chmod(f.name, 0o755)
        os.environ["TEXCELL"] = path("fakes")
        error = refusal(SPOTS)
        os.environ["TEXCELL"] = os.path.abspath(tap.BUILD)
        tap.ok(type(error) is kind and error.code == code and "so it is" in str(error),
               "exit code %d" % code, repr(error))
    original = dict(os.environ)
    for location, words in (("", "TEXCELL may name it"), (path("nowhere"), "TEXCELL=%s: no such "
                                                          "folder or program" % path("nowhere"))):
        try:
            os.environ.update(TEXCELL=location, PATH=WORK)
            texcell.analyse(SPOTS)
            tap.ok(False, "without the programs the call is an error")
        except FileNotFoundError as error:
            tap.ok(words in str(error), "no programs: the message says where they are searched",
                   error)
    os.environ.update(original, TEXCELL="", PATH=os.path.abspath(tap.BUILD) + ":" +
                      original["PATH"])
    tap.ok(refusal(SPOTS, progress=False) is None, "the programs are found in PATH")
    os.environ.update(original, TEXCELL=tap.TEXCELL)
    tap.ok(refusal(SPOTS) is None, "TEXCELL may be the path of one of the programs")
    os.environ.update(original)


def test_interruption():
    """SIGINT sent only to Python, not to the programs that it runs, as a notebook does."""
    image = np.tile(SPOTS, (2, 3))
    arguments = dict(QUIET, levels=[64], distances=[1, 2, 3, 5, 8, 13], window={"radius": 12},
                     threads=1)
    whole = texcell.analyse([image, image.T], "glcm", **arguments)
    # A progress bar that sends SIGINT after the first image, when there is something to continue.
    words = types.ModuleType("tqdm.auto")

    class Bar:
        def __init__(self, **_):
            self.n = 0

        def update(self, n):
            self.n += n
            threading.Timer(.2, os.kill, (os.getpid(), signal.SIGINT)).start()

        def close(self):
            pass
    words.tqdm = Bar
    sys.modules.update({"tqdm": types.ModuleType("tqdm"), "tqdm.auto": words})
    try:
        texcell.analyse([image, image.T], "glcm",
                        **dict(arguments, progress=True, resume=path("going_on")))
        tap.ok(False, "SIGINT raises KeyboardInterrupt")
    except KeyboardInterrupt:
        left_files = sorted(os.listdir(path("going_on")))
        tap.ok("result.npz.checkpoint" in left_files and "result.npz" not in left_files,
               "Ctrl-C leaves a checkpoint", left_files)
    sys.modules.update({"tqdm": None, "tqdm.auto": None})
    result = texcell.analyse([image, image.T], "glcm",
                             **dict(arguments, progress=True, resume=path("going_on")))
    tap.ok(read(result.path) == read(whole.path) and
           any("going on" in n or "1 of 2" in n for n in result.notes),
           "the same call continues, and gives the same bytes", result.notes)
    written = os.stat(result.path).st_mtime_ns
    texcell.analyse([image, image.T], "glcm", **dict(arguments, resume=path("going_on")))
    tap.ok(os.stat(result.path).st_mtime_ns == written, "a finished call computes nothing again")


def test_array_types():
    """Images of the types of napari, xarray and bioio; stand-ins have the attributes of these
    types."""
    def stand_in(**words):
        return types.SimpleNamespace(**words)

    class Coordinates(dict):
        pass
    coords = {d: stand_in(values=np.arange(n) * s, attrs={"units": "nm"})
              for d, n, s in (("y", 90, 650), ("x", 120, 650))}
    sizes = stand_in(Z=2.0, Y=.5, X=.5)
    cases = [("a layer of napari", stand_in(data=SPOTS, scale=[.65, .65], name="cells 1", rgb=False,
                                            multiscale=False, units=("micrometer",) * 2),
              "cells_1", [.65, .65]),
             ("a layer of napari without units",
              stand_in(data=[SPOTS, SPOTS[::2]], scale=[.5, .5], name="",
                                            multiscale=True), "image", [.5, .5]),
             ("a layer of napari in pixels",
              stand_in(data=SPOTS, scale=[1, 1], name="x", units=("pixel",) * 2), "x",
              None),
             ("xarray",
              stand_in(data=SPOTS[None], dims=("band", "y", "x"), coords=Coordinates(coords),
                                 name=None), "image", [.65, .65]),
             ("xarray, of pixels and without names",
              stand_in(data=SPOTS, dims=("dim_0", "dim_1"), coords={}, name=None), "image", None),
             ("bioio, without a size", stand_in(data=SPOTS[None], dims=stand_in(order="ZYX"),
                                                physical_pixel_sizes=stand_in(Z=None, Y=1.0,
                                                                              X=1.0)),
              "image", None),
             ("xarray, transposed", stand_in(data=SPOTS.T, dims=("x", "y"), coords={}, name="t"),
              "t",
              None)]
    for title, image, name, spacing in cases:
        result = texcell.analyse(image, "cellcount", **QUIET, **COUNT)
        same = texcell.analyse(SPOTS, "cellcount", **QUIET, **COUNT)
        spacing_found = result.spacing(0)
        tap.ok(result.names == [name] and
               (spacing_found is None if spacing is None
                else np.allclose(spacing_found, spacing)) and
               all(np.array_equal(result[a], same[a])
                   for a in ("count", "region_area", "region_mean")), title,
               (result.names, spacing_found))
    czi = stand_in(data=np.stack([np.stack([SPOTS, SPOTS[::-1]])] * 3)[:, :, None],
                   dims=stand_in(order="TCZYX"), physical_pixel_sizes=sizes)
    result = texcell.analyse(czi, "cellcount", channel=2, **QUIET, **COUNT)
    tap.ok(result.names == ["image_t%d" % t for t in (1, 2, 3)] and result.spacing(0) ==
           (.5, .5) and
           result["region_centroid"][0, 0] > 0,
           "bioio: points in time and channels are selected", result.names)
    reader = types.ModuleType("bioio")

    class File:
        def __init__(self, name):
            self.scenes, self.dims, self.physical_pixel_sizes = (
                ("A1", "B 2")[:1 + name.endswith(".lif")], stand_in(order="TCZYX"), sizes)

        def set_scene(self, scene):
            self.data = (SPOTS if scene == "A1" else SPOTS[::-1])[None, None, None]
    reader.BioImage = File
    sys.modules["bioio"] = reader
    scenes = texcell.analyse(path("two.lif"), "cellcount", **QUIET, **COUNT)
    tap.ok(scenes.names == ["two_A1", "two_B_2"] and not np.array_equal(*scenes.labels.values()),
           "bioio: all scenes of a file are analysed", scenes.names)
    result = texcell.analyse([path("one.czi"), path("deep", "one.CZI"), SPOTS], "cellcount",
                             **QUIET,
                             **COUNT)
    with_names = texcell.analyse({"a b": path("one.czi")}, "cellcount", **QUIET, **COUNT)
    del sys.modules["bioio"]
    tap.ok(with_names.names == ["a_b"] and result.names == ["one", "one_2", "image_t3"],
           "bioio: file names become names of images", result.names)
    result = texcell.analyse({"A": SPOTS, "a": SPOTS[::-1], "ä b": SPOTS}, "cellcount", **QUIET,
                             **COUNT)
    tap.ok(result.names == ["A", "a_2", "__b"] and not np.array_equal(result.labels["A"],
                                                                      result.labels["a_2"]),
           "names that differ only in case are all kept", result.names)


def test_notes_and_suggestions():
    """Notes, progress and warnings of the package."""
    for images in SPOTS, path("pictures", "p1.png"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = texcell.analyse(images, "cellcount", polarity="bright", min_area="9um2",
                                     spacing=.5, **QUIET)
            tap.ok(result.parameters["min_area"] == 36 and [w.category for w in caught] ==
                   [texcell.Note] and "36 pixels" in str(caught[0].message),
                   "lengths in micrometres; the program's note is a warning",
                   [str(w.message) for w in caught])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = texcell.analyse({"empty": np.zeros((50, 50), np.uint8),
                                  "black": np.zeros((40, 40), np.uint8),
                                  "some": (SPOTS >> 4).astype(np.uint8)},
                                 polarity="bright", threshold=150, **QUIET)
    messages, table = [str(w.message) for w in caught], result.tables["items"]
    tap.ok(list(table["mark"]) == ["wrong?", "wrong?", "ok"] and
           all(why.replace("--param ", "") in " ".join(messages) and why in " ".join(result.notes)
               for why in table["why"])
           and {os.path.abspath(w.filename) for w in caught} == {os.path.abspath(__file__)} and
           list(table["why"])[2] == "",
           "marks and their reasons are columns, notes and warnings of the caller's line",
           (messages, result.notes, dict(table)))
    suggestion = texcell.suggest([SPOTS, SPOTS.T], "cellcount", scale="linear")
    r = tap.run([tap.TEXCELL_WU, "analyse", "--analysis", "cellcount", "--param", "scale=linear",
                 "-o", path("looked"), path("apart", "images", "a.nii")])
    with zipfile.ZipFile(path("looked", "workunit.zip")) as z:
        unit = json.loads(z.read("job.json"))["parameters"]
    single_suggestion = texcell.suggest({"a": SPOTS}, "cellcount", scale="linear")
    tap.ok(r.returncode == 0 and
           single_suggestion == {k: v for k, v in unit.items() if k not in ("scale", "labels")} and
           suggestion["polarity"] == "bright",
           "suggest gives the parameters that analyse uses", (single_suggestion, unit))
    tap.ok(isinstance(refusal_of(texcell.suggest, SPOTS * 1.0), texcell.InputError),
           "suggest refuses floating-point images")
    parameters_by_analysis = json.loads(tap.run([tap.TEXCELL_WU, "parameters", "--json"]).stdout)
    for name, keys in parameters_by_analysis.items():
        doc = getattr(texcell, name).__doc__
        tap.ok(texcell.parameters(name) == keys and
               all(p["key"] in doc and p["help"] in doc for p in keys),
               name + ": parameters and docstring")
    tap.ok(texcell.cellcount(SPOTS, **QUIET, **COUNT)["count"][0] == 12 and
           set(parameters_by_analysis) <= set(dir(texcell)) and not hasattr(texcell, "nothing")
           and isinstance(refusal_of(texcell.parameters, "nothing"), texcell.UsageError),
           "each analysis is a function of its name")
    stubs = tap.run([sys.executable, os.path.join(tap.SRC, "workunits", "python", "stubs.py")],
                    env=dict(os.environ,
                             PYTHONPATH=os.path.join(tap.SRC, "workunits", "python"))).stdout
    tap.ok(stubs ==
           read(os.path.join(tap.SRC, "workunits", "python", "texcell", "__init__.pyi")).decode(),
           "__init__.pyi is up to date: python3 stubs.py > texcell/__init__.pyi")


def test_default_parameters():
    """Without parameters analyse() chooses the same ones as `texcell-wu analyse`, and gives the
    same result; given parameters stay."""
    def run_command(folder, *words):
        r = tap.run([tap.TEXCELL_WU, "analyse", "--device", "cpu", "-o", path(folder), *words])
        tap.ok(r.returncode == 0,
               "the command with which the package is compared succeeds: " + " ".join(words[:4]),
               r.stderr)
        return texcell.read(path(folder, "result.npz"))
    walls = np.full((9, 40, 40), 200, np.uint8)
    walls[2:7, 3:18, 3:37] = walls[2:7, 22:37, 3:37] = 30
    smear, dark = tap.data("count/chula_1.jpg"), tap.data("nuclei/bf1024/3594684b9e.png")
    file = path("apart", "images", "b.nii")
    nifti(path("walls.nii"), walls)
    for title, analysis, images, inputs, arguments in (
            [("a smear", "cellcount", smear, smear, {})] * (smear is not None) +
            [("a doubt of the look", "voting", dark, dark, {})] * (dark is not None) +
            [("discs", "cellcount", {"b": SPOTS[::-1]}, file, {}),
             ("a parameter", "cellcount", {"b": SPOTS[::-1]}, file, {"polarity": "dark"}),
             ("voting", "voting", {"b": SPOTS[::-1]}, file, {}),
             ("levelset", "levelset", {"b": SPOTS[::-1]}, file, {}),
             ("glcm", "glcm", {"b": SPOTS[::-1]}, file, {}),
             ("volume", "volume", {"walls": walls}, path("walls.nii"), {})]):
        params = [w for key, value in arguments.items()
                  for w in ("--param", "%s=%s" % (key, value))]
        command_result = run_command("taken_" + title.replace(" ", "_"), "--analysis", analysis,
                                     *params, inputs)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = texcell.analyse(images, analysis, **dict(QUIET, defaults=False), **arguments)
        tap.ok(result.parameters == command_result.parameters and
               arguments.items() <= result.parameters.items() and
               sorted(result) == sorted(command_result)
               and
               all(np.array_equal(result[a], command_result[a], equal_nan=result[a].dtype.kind ==
                                  "f")
                       for a in result if a != "item_sources"),
               "%s: the parameters and numbers of the command" % title,
               (result.parameters, command_result.parameters))
        with open(path("taken_" + title.replace(" ", "_"), "items.csv"), newline="") as f:
            marks = [(row["mark"], row["why"]) for row in csv.DictReader(f)]
        tap.ok(list(zip(result.marks()["mark"], result.marks()["why"])) == marks,
               title + ": the marks of the command", (result.marks(), marks))
        tap.ok(not any("suggests" in str(w.message) for w in caught) and
               any("suggests" in n for n in result.notes), "suggestions are notes, not warnings",
               [str(w.message) for w in caught])
    for group in "ab":
        for i in range(3):
            nifti(path("groups", group, "%s%d.nii" % (group, i)), SPOTS)
    group_result = texcell.analyse(path("groups"), recursive=True, **QUIET)
    tap.ok(list(group_result.tables["groups"]["group"]) == ["a", "b"] and
           list(group_result.tables["groups"]["images"]) == [3, 3],
           "groups are the folders in a folder", group_result.tables)
    default_result = texcell.analyse(SPOTS, **QUIET)
    tap.ok(default_result.parameters["polarity"] == "dark",
           "defaults=True: no parameters are suggested", default_result.parameters)
    arguments = dict(QUIET, defaults=False, resume=path("looked_once"))
    times_written = [os.stat(texcell.analyse(SPOTS, **arguments).path).st_mtime_ns
                     for _ in range(2)]
    tap.ok(times_written[0] == times_written[1],
           "resume: the same call suggests again, and keeps the result")


def refusal_of(call, *words, **options):
    """The error of a call, or None."""
    try:
        call(*words, **options)
    except texcell.Error as error:
        return error
    return None


def test_features(counted):
    images = np.stack([SPOTS, SPOTS.T[:90, :120] if SPOTS.T.shape == SPOTS.shape else SPOTS[::-1],
                       SPOTS[:, ::-1]])
    x, names = texcell.features(images, device="cpu")
    result = texcell.analyse(list(images), "glcm", window={"shape": "roi"}, levels=[32],
                             distances=[1, 2, 4], range="image", **QUIET)
    tap.ok(np.array_equal(x, result["features"]) and names == list(result["feature_names"]),
           "features() returns features and their names", names[:3])
    x, names = texcell.features(list(images), "cellcount", device="cpu", **COUNT)
    tap.ok(names == ["count", "threshold"] and list(x[:, 0]) == [12, 12, 12],
           "features() of cellcount returns its counts and thresholds",
           x)
    sys.modules["pandas"] = None
    columns = texcell.read(counted.path).tables["regions"]
    sys.modules["pandas"] = pandas
    tap.ok(isinstance(columns, dict) and np.array_equal(columns["area"], counted["region_area"]),
           "without pandas a table is a dict of columns")
    tap.ok("regions" in repr(counted) and "p0" in repr(counted.labels) and
           len(counted) == len(list(counted)) and len(counted.tables) == 2,
           "repr() names a Result's tables and its label pictures", repr(counted))
    folder = os.path.dirname(texcell.analyse(SPOTS, **QUIET).path)
    gc.collect()
    tap.ok(not os.path.exists(folder), "a Result's folder is removed with it", folder)


warnings.simplefilter("ignore")
counted = test_same_bytes()
test_tables()
test_errors()
test_exit_codes()
test_interruption()
test_array_types()
test_notes_and_suggestions()
test_default_parameters()
test_features(counted)
tap.done()
