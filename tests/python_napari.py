"""Tests the Python package with other packages: arrays of xarray and zarr, pictures of bioio,
tqdm's progress bar, and the widgets in napari under Xvfb, whose buttons are pressed for each
analysis. NAPARI_SHOTS=FOLDER saves pictures of the windows."""
import os
import shutil

import tap

NAPARI = "0.6.4"
TITLES = {"cellcount": "Count cells", "objects": "Measure objects",
          "voting": "Find cells by voting", "levelset": "Segment by a level set",
          "glcm": "Haralick texture", "volume": "Measure cells within membranes"}


def outside():
    """Installs napari in a virtual environment, and runs this script there again."""
    folder = os.path.join(os.path.abspath(tap.BUILD), "python-tools", "others-" + NAPARI)
    python = os.path.join(folder, "bin", "python")
    if not os.path.exists(os.path.join(folder, "whole")):
        r = tap.run(["/usr/bin/python3", "-m", "venv", folder])
        r = tap.run([python, "-m", "pip", "-q", "install", "napari==" + NAPARI, "pyqt5",
                     "scikit-image", "pandas", "setuptools", "wheel",
                     "xarray", "bioio", "bioio-ome-tiff", "bioio-tifffile"],
                    timeout=1800) if r.returncode == 0 else r
        if r.returncode != 0:
            tap.skip("napari", "cannot be installed here: " + (r.stdout + r.stderr)[-200:])
            tap.done()
        open(os.path.join(folder, "whole"), "w").close()
    if shutil.which("xvfb-run") is None:
        tap.skip("napari", "no xvfb-run")
        tap.done()
    stage = os.path.join(tap.scratch(), "package")
    shutil.copytree(os.path.join(tap.SRC, "workunits", "python"), stage)
    r = tap.run([python, "-m", "pip", "-q", "install", "--no-index", "--no-deps",
                 "--no-build-isolation", "--force-reinstall", stage])
    tap.ok(r.returncode == 0, "the package is installed next to napari", r.stderr)
    env = dict(os.environ, TEXCELL=os.path.abspath(tap.BUILD), LIBGL_ALWAYS_SOFTWARE="1",
               QT_QPA_PLATFORM="xcb", NAPARI_INSIDE="1")
    r = tap.run(["xvfb-run", "-a", "-s", "-screen 0 1400x1000x24", python,
                 os.path.abspath(__file__)], env=env, timeout=900)
    for line in r.stdout.splitlines():
        if line.startswith(("ok ", "not ok ")):
            tap.ok(line.startswith("ok "), line.partition(" - ")[2], r.stdout + r.stderr)
    tap.ok(r.returncode == 0 and "1.." in r.stdout, "napari runs to its end", r.stdout + r.stderr)


def wait(widget, button):
    """Presses a button of the widget, and waits for it. Returns the number of new layers."""
    from time import monotonic, sleep
    from napari.qt import get_qapp
    layers, done = len(widget.viewer.layers), []
    widget[-2 if button == "Suggest" else -1].changed.emit(True)
    widget.worker.finished.connect(lambda: done.append(True))
    end = monotonic() + 120
    while monotonic() < end and not done:
        get_qapp().processEvents()
        sleep(.02)
    for _ in range(20):
        get_qapp().processEvents()
        sleep(.02)
    return len(widget.viewer.layers) - layers


def arrays():
    """Arrays of other packages give the same regions as a NumPy array, and the size of a pixel if
    it is known."""
    import contextlib
    import io
    import tempfile
    import bioio
    import numpy as np
    import texcell
    import tifffile
    import xarray
    import zarr
    y, x = np.mgrid[:90, :120]
    spots = (900 + 3000 * ((y % 30 - 15) ** 2 + (x % 30 - 15) ** 2 < 60) + (7 * x + 3 * y) %
             50).astype(np.uint16)
    options = {"progress": False, "device": "cpu", "defaults": True, "polarity": "bright"}
    want = texcell.analyse(spots, **options)
    in_um = {d: (d, np.arange(n) * .65, {"units": "um"}) for d, n in (("y", 90), ("x", 120))}
    cells = xarray.DataArray(spots, dims=("y", "x"), coords=in_um, name="cells")
    with tempfile.TemporaryDirectory() as folder:
        one, three, colours = (os.path.join(folder, name)
                               for name in ("one.tif", "three.ome.tif", "colours.tif"))
        tifffile.imwrite(one, spots, imagej=True, resolution=(1 / .65, 1 / .65),
                         metadata={"unit": "um"})
        tifffile.imwrite(three, np.stack([np.stack([spots, spots[::-1]])] * 3)[:, :, None],
                         metadata={"axes": "TCZYX", "PhysicalSizeX": .5, "PhysicalSizeY": .5,
                                   "PhysicalSizeZ": 2.0})
        tifffile.imwrite(colours, np.dstack([spots >> 4] * 3).astype(np.uint8), photometric="rgb")
        for title, image, names, um, more in (
                ("xarray", cells, ["cells"], .65, {}),
                ("xarray, transposed", cells.T, ["cells"], .65, {}),
                ("xarray without names", xarray.DataArray(spots), ["image"], None, {}),
                ("xarray, a series of times",
                 xarray.DataArray(np.stack([spots] * 2), dims=("time", "y", "x"), name="film"),
                 ["film_t1", "film_t2"], None, {}),
                ("xarray, a channel",
                 xarray.DataArray(np.stack([spots[::-1], spots]), dims=("channel", "y", "x")),
                 ["image"], None, {"channel": 2}),
                ("an xarray.Dataset", xarray.Dataset({"a": cells, "b": cells}), ["a", "b"], .65,
                 {}),
                ("zarr", zarr.array(spots), ["image"], None, {}),
                ("bioio, of ImageJ", bioio.BioImage(one), ["image"], .65, {}),
                ("bioio, an array of dask", bioio.BioImage(one).get_image_dask_data("YX"),
                 ["image"], None, {}),
                ("bioio, of OME", bioio.BioImage(three), ["image_t1", "image_t2", "image_t3"], .5,
                 {"channel": 1}),
                ("bioio, colours", {"x": bioio.BioImage(colours)}, ["x"], None, {})):
            found = texcell.analyse(image, **options, **more)
            first_item, spacing_found = found["region_item"] == 0, found.spacing(0)
            tap.ok(found.names == names and np.array_equal(found["region_area"][first_item],
                                                           want["region_area"]) and
                   (spacing_found is None if um is None else np.allclose(spacing_found, (um, um))),
                   title,
                   (found.names, spacing_found))
    bar = io.StringIO()
    with contextlib.redirect_stderr(bar):
        texcell.analyse([spots] * 5, **dict(options, progress=True))
    tap.ok("5/5" in bar.getvalue() and "image" in bar.getvalue(),
           "tqdm's bar counts the images", bar.getvalue())


def inside():
    arrays()
    import napari
    import numpy as np
    from skimage import data
    import texcell
    viewer = napari.Viewer()
    viewer.window.resize(1300, 850)
    coins = viewer.add_image(data.coins(), name="coins", scale=(.5, .5), units=("um", "um"))
    field_values = {"glcm": {"levels": "[16]", "distances": "[1]", "window": '{"radius":4}',
                             "maps": '[{"feature":"contrast","levels":16,"offset":[1,0]}]'},
                    "levelset": {"iterations": 50}}
    for name, title in TITLES.items():
        if name == "volume":
            walls = np.full((12, 60, 60), 30, np.uint8)
            walls[1:11, 2:58, 2:58] = 200
            walls[3:9, 4:28, 4:50] = walls[3:9, 32:56, 4:50] = 30
            viewer.layers.clear()
            coins = viewer.add_image(walls, name="walls", scale=(2, .5, .5))
        dock, widget = viewer.window.add_plugin_dock_widget("texcell", title)
        if name in ("cellcount", "voting", "levelset"):
            wait(widget, "Suggest")
            tap.ok(widget.given(), title + ": Suggest fills the fields", widget.given())
        for key, value in field_values.get(name, {}).items():
            widget.fields[key].value = value
        if name == "objects":
            widget.matching.value = viewer.layers["coins regions"]
        more = wait(widget, "Run")
        again = texcell.analyse(coins, name, progress=False, defaults=True, **widget.given(),
                                **({"labels": widget.matching.value} if name == "objects" else {}))
        same = widget.result is not None and all(np.array_equal(
            again[a], widget.result[a], equal_nan=again[a].dtype.kind == "f") for a in again)
        tap.ok(more >= 1 and same, "%s: Run adds %d layers with the result of texcell.analyse" %
               (title, more), [l.name for l in viewer.layers])
        tap.ok(all(tuple(l.scale) == tuple(coins.scale) for l in viewer.layers),
               "%s: the layers are aligned with the image" % title,
               [tuple(l.scale) for l in viewer.layers])
        if os.environ.get("NAPARI_SHOTS"):
            viewer.window._qt_window.grab().save(os.path.join(os.environ["NAPARI_SHOTS"],
                                                              name + ".png"))
        viewer.window.remove_dock_widget(dock)
    viewer.close()


if os.environ.get("NAPARI_INSIDE"):
    inside()
else:
    outside()
tap.done()
