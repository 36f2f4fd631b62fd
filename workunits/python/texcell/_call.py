"""Computes results, suggested parameters and features of images, by texcell-wu pack and texcell
run."""
from __future__ import annotations

import hashlib
import json
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Callable, Optional, Union

import numpy as np
from numpy.typing import NDArray

from . import _pictures, _program
from ._result import MARKED, SUGGESTED, Result

Path = Union[str, "os.PathLike[str]"]
FEATURES: dict[str, dict[str, Any]] = {"glcm": {"window": {"shape": "roi"}, "levels": [32],
                                                "distances": [1, 2, 4], "range": "image"}}
# Analyses whose labels are requested by default, as texcell-wu analyse does: marks need them.
LABELLED = ("cellcount", "volume")
# Parts of a regular expression for notes of texcell-wu that are not passed on. The second one is
# used for images whose files this module wrote; the third one also if spacing is one number, of
# which this module makes three.
SUGGESTION_NOTE = "a look at the pictures suggests"
OWN_FILE_NOTES = r"as the file says; --spacing|as the file says; spacing="
FLAT_NOTE = "is a picture, not a stack: the first"


@contextmanager
def _packed(images: Any, analysis: str, *, spacing: Any = None, labels: Any = None,
            masks: Any = None, names: Any = None,
            scale: Any = None, channel: Any = None, stain: Any = None, stains: Any = None,
            recursive: bool = False,
            **parameters: Any) -> Iterator[tuple[list[str], str, list[_pictures.Picture]]]:
    """Yields the arguments common to pack and analyse, a temporary folder with the files that these
    arguments name, and the pictures."""
    pictures = _pictures.take(images, names)
    with tempfile.TemporaryDirectory(prefix="texcell-",
                                     dir=_pictures.place_of(pictures)) as private:
        if isinstance(labels, bool):
            parameters["labels"], labels = labels, None
        if isinstance(scale, str):
            parameters["scale"], scale = scale, None
        if spacing is not None:
            spacing = [spacing[axis] for axis in "zyx" if axis in spacing] if isinstance(
                spacing, Mapping) else np.ravel(spacing).tolist()
            spacing = spacing * 3 if len(spacing) == 1 else spacing
            pictures = [p._replace(spacing=None) for p in pictures]
        words = ["--analysis", analysis, *["--recursive"] * recursive]
        for option, value in (("channel", channel), ("stain", stain), ("stains", stains),
                              ("spacing", spacing), ("scale", scale)):
            if value is not None:
                words += ["--" + option, ",".join(map(str, np.atleast_1d(value).tolist()))]
        for key, value in parameters.items():
            if not np.isfinite(value if isinstance(value, (float, np.floating)) else 0):
                raise _program.UsageError("%s=%s: is not a finite number" % (key, value))
        if parameters:
            with open(os.path.join(private, "parameters.json"), "w", encoding="utf-8") as f:
                json.dump(parameters, f,
                          default=lambda value: getattr(value, "tolist", value.__str__)())
            words += ["--params", f.name]
        inputs = _pictures.write_all(pictures, os.path.join(private, "images"))
        for option, given in (("mask", masks), ("labels", labels)):
            if given is not None:
                words += ["--" + option,
                          _pictures.write_matching(pictures, given, os.path.join(private, option))]
        yield words + inputs, private, pictures


def analyse(images: Any, analysis: str = "cellcount", *, spacing: Any = None, labels: Any = None,
            masks: Any = None,
            names: Optional[list[str]] = None, scale: Any = None, channel: Any = None,
            stain: Optional[str] = None,
            stains: Optional[str] = None, recursive: bool = False, device: str = "auto",
            threads: Optional[int] = None, progress: bool = True,
            resume: Optional[Path] = None, defaults: bool = False, **parameters: Any) -> Result:
    """Computes an analysis of images.

    Parameters that are not given are suggested by the images, as by texcell-wu analyse; given ones
    are kept. The result has all parameters that were used.

    images      an array ([y, x], a stack [z, y, x], colours [y, x, 3]), a path (of a file or a
                folder), an object that has .data and the size of its pixels (napari's layers,
                xarray, bioio), or a list, a dict or another iterable of these
    spacing     size of a voxel in micrometres: z, y, x (for images y, x), one number or a dict;
                default: that of the object
    labels      label pictures (the object of each pixel): an array, a list, a dict, a path or a
                Result; or whether to return labels: without them (False), marks cannot judge
                outlines
    masks       masks (which pixels to analyse), in the same forms
    names       names of a list's images; default: image_t1, ...
    scale       (lo, hi): for samples of 32 bits or floating point, the values that become black
                and white
    channel, stain, stains    as for texcell-wu pack
    recursive   also analyses the images in subfolders of a folder
    device      "auto", "cpu", "opencl" or "P:D", as listed by texcell devices
    threads     number of threads on the CPU
    progress    shows tqdm's progress bar, if tqdm is installed
    resume      a folder for result and work unit, where the same call continues after an
                interruption
    defaults    suggests nothing: parameters that are not given have their default values
    parameters  of the analysis: texcell.parameters(analysis); lengths may be "12um", areas "50um2"
    """
    if labels is None and analysis in LABELLED:
        labels = True
    folder = os.path.abspath(resume) if resume is not None else tempfile.mkdtemp(prefix="texcell-")
    temporary = folder if resume is None else None
    unit, result = os.path.join(folder, "workunit.zip"), os.path.join(folder, "result.npz")
    try:
        os.makedirs(folder, exist_ok=True)
        with _packed(images, analysis, spacing=spacing, labels=labels, masks=masks, names=names,
                     scale=scale, channel=channel,
                     stain=stain, stains=stains, recursive=recursive,
                     **parameters) as (words, private, pictures):
            known = SUGGESTION_NOTE
            own = all(p.path is None for p in pictures)
            if own:
                known += "|" + OWN_FILE_NOTES
            if own or not isinstance(spacing, Mapping) and np.size(spacing) == 1:
                known += "|" + FLAT_NOTE
            look = [] if defaults else ["--suggest", "--suggested", os.path.join(folder, SUGGESTED)]
            pathlib.Path(folder, SUGGESTED).unlink(missing_ok=True)
            notes = _program.run("texcell-wu", "pack", "-o", unit, *look, *words, private=private,
                                 unlike=known)
        if temporary is not None or not _is_of(result, unit):
            notes += _program.run("texcell", "run", unit, "-o", result, "--replace", "--device",
                                  device or "auto",
                                  *([] if threads is None else ["--threads", str(threads)]),
                                  private=folder,
                                  watch=_program.bar(len(pictures)) if progress else None)
        found = Result(result, unit, [line for line in notes if ": done (" not in line], temporary)
        found.notes += found.doubts(found.notes)
        return found
    except BaseException:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        raise


def _is_of(result: str, unit: str) -> bool:
    """Whether the file is the result of this work unit."""
    digest = hashlib.sha256(pathlib.Path(unit).read_bytes()).hexdigest()
    return os.path.exists(result) and bool(Result(result).workunit["sha256"] == digest)


def suggest(images: Any, analysis: str = "cellcount", **options: Any) -> dict[str, Any]:
    """The parameters that analyse chooses for these images, so that several calls can use the same
    ones: analyse(others, NAME, defaults=True, **suggest(images, NAME)).

    options: the arguments of analyse. Given parameters are kept, and are not returned.
    """
    with _packed(images, analysis, **options) as (words, private, _):
        suggested = os.path.join(private, SUGGESTED)
        _program.run("texcell-wu", "pack", "--suggest", "--suggested", suggested, "-o",
                     os.path.join(private, "workunit.zip"), *words,
                     private=private, unlike="")
        if not os.path.exists(suggested):         # the analysis suggests nothing
            return {}
        return dict(json.loads(pathlib.Path(suggested).read_text(encoding="utf-8"))["parameters"])


def features(images: Any, analysis: str = "glcm", **options: Any) -> tuple[NDArray[Any], list[str]]:
    """Features of each image: X [images, features] and the features' names.

    options: the arguments of analyse. Parameters are not chosen for the images, so that columns
    mean the same in each call, for training images and for test images; suggest() finds parameters
    once for all of them. glcm without options gives 13 Haralick features of the whole image, with
    32 levels between its minimum and maximum, at distances 1, 2 and 4.
    """
    if isinstance(images, np.ndarray) and images.ndim > 2:
        images = list(images)
    found = analyse(images, analysis, **{**FEATURES.get(analysis, {}), "progress": False,
                                         "defaults": True, **options})
    for name in found.tables:
        columns = found.tables[name]
        measured = [c for c in columns if c not in ("item", "source", *MARKED)]
        if measured and len(columns["item"]) == len(found.names) and list(
                columns["item"]) == found.names:
            return np.column_stack([np.asarray(columns[c], float) for c in measured]), measured
    raise _program.UsageError("%s: no table of its result has one row per image" % analysis)


def of_analysis(name: str) -> Callable[..., Result]:
    """A function that calls analyse for one analysis, with its parameters as docstring."""
    def one(images: Any, **options: Any) -> Result:
        return analyse(images, name, **options)
    one.__name__ = one.__qualname__ = name
    one.__doc__ = "texcell.analyse(images, %r, ...). Its parameters:\n\n%s\n" % (
        name, "\n".join(_program.lines_of(_program.parameters(name))))
    return one
