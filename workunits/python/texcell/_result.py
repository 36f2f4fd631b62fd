"""A result: its arrays, its tables with the columns that texcell-wu export gives them, and its
pictures."""
from __future__ import annotations

import contextlib
import csv
import functools
import itertools
import json
import math
import os
import pathlib
import re
import shutil
import tempfile
import weakref
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any, Callable, Optional, Union

import numpy as np
from numpy.typing import NDArray

from . import _program

Array = NDArray[Any]


SUGGESTED = "suggested.json"  # next to the work unit: the parameters that pack suggested
# Columns that tables["items"] has in addition, as the tables of texcell-wu analyse.
MARKED = ("group", "mark", "why")


class Lazy(Mapping[str, Any]):
    """A mapping of names whose values are made when they are read."""

    def __init__(self, names: list[str], make: Callable[[str], Any]) -> None:
        self._names, self._make = dict.fromkeys(names), functools.lru_cache(maxsize=32)(make)

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError("%s; there are: %s" % (name, ", ".join(self._names) or "none"))
        return self._make(name)

    def add(self, name: str) -> None:
        self._names[name] = None

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return "{%s}" % ", ".join(self._names)


def words_of(axis: dict[str, Any]) -> list[str]:
    return ["%s%0*d" % (axis.get("prefix", ""), axis.get("digits", 0), v) if isinstance(v, int)
            else v for v in axis["values"]]


def titles_of(array: dict[str, Any]) -> list[str]:
    """A column's title for each element of a row."""
    axes = [words_of(axis) for axis in array.get("axes", [])]
    return ["_".join(filter(None, (array.get("title", ""), *words)))
            for words in itertools.product(*axes)]


def um_column(array: dict[str, Any], title: str, values: Array,
              spacing: Array) -> Optional[tuple[str, Array]]:
    """The column in micrometres. spacing: z, y, x of each row."""
    unit, axes, (y, x) = array.get("unit"), array.get("axes", []), (spacing[:, 1], spacing[:, 2])
    word = re.search(r"(?:^|_)([zyx])\d*$", title) if len(axes) == 1 else None
    if unit in ("pixel", "voxel") and word:
        return title + "_um", values * spacing[:, "zyx".index(word.group(1))]
    if axes or unit not in ("pixel", "pixel^2"):
        return None
    return (title + "_um2", values * (y * x)) if unit == "pixel^2" else (
        title + "_um", values * np.where(y == x, y, np.nan))


def in_voxels(array: dict[str, Any], columns: list[tuple[str, Array]],
              known: Optional[Array]) -> list[tuple[str, Array]]:
    """Sizes in micrometres; NaN in rows whose voxels have no known size. known: which rows have
    one; None: no row, and the sizes stay in voxels."""
    if not (array.get("unit", "") in ("um", "um^2", "um^3") or array.get("title") == "measure"):
        return columns
    if known is not None:
        return [(title, np.where(known, values, np.nan)) for title, values in columns]
    return [(re.sub("_um3$", "", title) + "_voxels", values) for title, values in columns
            if title != "voxel_volume"]


def read_csv(path: str) -> dict[str, list[str]]:
    with open(path, newline="", encoding="utf-8") as f:
        return {title: values for title, *values in zip(*csv.reader(f))}


class Result(Mapping[str, Array]):
    """The result of texcell run: a mapping of names to arrays, as by numpy.load.

    tables      by name: pandas' DataFrame or, without pandas, a dict of columns
    labels, masks    by item: label pictures, and masks
    maps        by item: a dict of maps
    parameters  of the run, including defaults
    names       of the items
    sources     the files of the items
    notes       the programs' notes
    path, unit  the files of the result and, if known, of the work unit
    """

    def __init__(self, path: str, unit: Optional[str] = None, notes: Optional[list[str]] = None,
                 own: Optional[str] = None) -> None:
        self.path, self.unit, self.notes = path, unit, notes or []
        self._npz: Any = None
        with contextlib.suppress(ValueError, EOFError, zipfile.BadZipFile):
            with open(path, "rb") as f:       # np.load leaves a file open that is cut short
                whole = zipfile.is_zipfile(f)
            if whole:
                self._npz = np.load(path, allow_pickle=False)
        weakref.finalize(self, dispose, self._npz, own)
        if "result.json" not in getattr(self._npz, "files", ()):
            raise _program.InputError("%s: is no result of texcell" % path)
        about = json.loads(self._npz.zip.read("result.json"))
        self.analysis: str = about["analysis"]
        self.parameters: dict[str, Any] = about["parameters"]
        self.workunit: dict[str, Any] = about["workunit"]
        self.names: list[str] = about["items"]
        self.sources: list[str] = about.get("sources", [])
        self._declared: list[dict[str, Any]] = about["arrays"]
        self._arrays = [name for name in self._npz.files if name != "result.json"]
        tables = dict.fromkeys(d["table"] for d in self._declared if "table" in d and
                               d["role"] in ("item", "key", "place", "value"))
        deep = [d["array"] for d in self._declared if self._is_deep(d)]
        self._marks: Optional[dict[str, Array]] = None
        self._groups: dict[str, Array] = {}
        self.tables = Lazy([t for t in dict.fromkeys([*tables, *["items"] * (unit is not None)])
                            if t not in deep] + deep, self._table)
        self.labels, self.masks = (Lazy(self._with(role), functools.partial(self._picture, role))
                                   for role in ("labels", "mask"))
        self.maps = Lazy(self._with("map"), self._maps)

    def __getitem__(self, name: str) -> Array:
        return np.asarray(self._npz[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        return "<texcell.Result: %s of %d image%s; tables: %s>" % (self.analysis, len(self.names),
                                                                   "s" * (len(self.names) != 1),
                                                                  ", ".join(self.tables))

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle: includes the bytes of the files, which are removed with the Result."""
        return unpickle, ([pathlib.Path(path).read_bytes()
                           for path in (self.path, self.unit, self._looked()) if path is not None],
                          self.notes)

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Copies the result, an NPZ file."""
        shutil.copyfile(self.path, path)

    def report(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the result as an HTML page."""
        images = ["--images", self.unit] if self.unit else []
        _program.run("texcell-wu", "report", self.path, *images, "-o", os.fspath(path))

    def spacing(self, item: int) -> Optional[tuple[float, ...]]:
        """The size of the item's voxels in micrometres (z, y, x; for an image y, x), or None if
        unknown."""
        found = self["item_spacing"][item] if "item_spacing" in self else np.full(3, np.nan)
        return None if np.isnan(found[1]) else tuple(float(s) for s in found if s == s)

    # --- marks

    def marks(self) -> dict[str, Array]:
        """For each item, as on the page: its mark (ok, look, wrong?), the reasons, and, if there
        are several groups, its group."""
        if self._marks is None:
            self._mark()
        return dict(self._marks or {})

    def _mark(self) -> list[str]:
        """Computes the marks, and returns the program's notes. There are no marks without the work
        unit, as they need the pictures."""
        self._marks = {}
        if self.unit is None:
            return []
        looked = self._looked()
        with tempfile.TemporaryDirectory(prefix="texcell-") as private:
            notes = _program.run("texcell-wu", "export", self.path, "--marks", self.unit,
                                 "--only-marks",
                                 *(["--suggested", looked] if looked else []), "-o", private,
                                 private=private)
            columns = read_csv(os.path.join(private, "items.csv"))
            groups = os.path.join(private, "groups.csv")
            if os.path.exists(groups):
                self._groups = {title: np.array(values, object if title == "group" else float)
                                for title, values in read_csv(groups).items()}
                self.tables.add("groups")
        self._marks = {c: np.array(columns[c], object) for c in MARKED if c in columns}
        return notes

    def _looked(self) -> Optional[str]:
        path = os.path.join(os.path.dirname(self.unit or ""), SUGGESTED)
        return path if self.unit is not None and os.path.exists(path) else None

    def doubts(self, known: list[str]) -> list[str]:
        """Returns a line, and gives a warning, for each reason why images' results may be wrong,
        except for those in `known`."""
        notes, of = self._mark(), dict[tuple[str, str], list[str]]()
        for name, mark, why in zip(self.names,
                                   *(self.marks().get(column, ()) for column in MARKED[1:])):
            if mark != "ok" and not any(why in line for line in known):
                of.setdefault((mark, why), []).append(name)
        for (mark, why), names in of.items():
            notes.append("%s: %s%s: %s" % (mark, ", ".join(names[:3]), ", ..." * (len(names) > 3),
                                           why))
            _program.note(notes[-1])
        return notes

    # --- pictures

    def _with(self, role: str) -> list[str]:
        kinds, there = [d["array"] for d in self._declared if d["role"] == role], set(self._arrays)
        return [n for n in self.names
                if any(kind.replace("{item}", n) in there for kind in kinds)] if kinds else []

    def _of(self, role: str, item: str) -> Iterator[tuple[str, str]]:
        """[(the part of the array's name after the item, the name)]"""
        for d in self._declared:
            if d["role"] == role:
                yield (d["array"].partition("{item}")[2].lstrip("_"),
                       d["array"].replace("{item}", item))

    def _picture(self, role: str, item: str) -> Array:
        return self[next(self._of(role, item))[1]]

    def _maps(self, item: str) -> dict[str, Array]:
        return {what: self[name] for what, name in self._of("map", item)}

    # --- tables

    def _is_deep(self, d: dict[str, Any]) -> bool:
        """Whether an array has more axes than a row: it becomes a separate table."""
        return d["role"] == "value" and "table" in d and d["array"] in self._arrays and self[
            d["array"]].ndim > 2

    def _table(self, name: str) -> Any:
        arrays = [d for d in self._declared if d.get("table") == name and
                  d["role"] in ("item", "key", "place", "value")
                  and not self._is_deep(d)]
        deep = next((d for d in self._declared if d["array"] == name), None)
        columns = self._columns(arrays) if arrays or deep is None else self._deep(deep)
        if name == "groups":
            columns = self._groups
        if name == "items":
            columns.update(self.marks())
        try:
            import pandas
        except ImportError:
            return columns
        return pandas.DataFrame(columns)

    def _columns(self, arrays: list[dict[str, Any]]) -> dict[str, Array]:
        items = next((self[d["array"]] for d in arrays if d["role"] == "item"),
                     np.arange(len(self.names)))
        columns = self._of_items(items)
        spacing = self["item_spacing"][items] if "item_spacing" in self else None
        known = None if spacing is None or not (self["item_spacing"][:, 0] >
                                                0).any() else spacing[:, 0] > 0
        for d in arrays:
            if d["role"] == "item":
                continue
            values = self[d["array"]]
            found = list(zip(titles_of(d),
                             values.reshape(len(items), math.prod(values.shape[1:])).T))
            columns.update(found if d.get("title") == "measure" and self._is_flat()
                           else in_voxels(d, found, known))
            if spacing is not None:
                columns.update(
                    filter(None, (um_column(d, title, column, spacing) for title, column in found)))
        return columns

    def _is_flat(self) -> bool:
        return next((self.masks[name].ndim == 2 for name in self.masks), False)

    def _of_items(self, items: Array) -> dict[str, Array]:
        columns = {"item": np.asarray(self.names, object)[items]}
        if self.sources:
            columns["source"] = np.asarray(self.sources, object)[items]
        return columns

    def _deep(self, d: dict[str, Any]) -> dict[str, Array]:
        """A table with a row for each combination of all axes' entries except for the last axis,
        whose entries are the columns."""
        values, axes = self[d["array"]], d["axes"]
        places = np.indices(values.shape[:-1]).reshape(values.ndim - 1, -1)
        columns = self._of_items(places[0])
        for axis, position in zip(axes[:-1], places[1:]):
            if "array" in axis:
                keys = next(k for k in self._declared if k["array"] == axis["array"])
                columns.update(zip(words_of(keys["axes"][0]), self[axis["array"]][position].T))
            else:
                columns[axis["name"]] = np.asarray(axis["values"])[position]
        columns.update(zip(words_of(axes[-1]), values.reshape(-1, values.shape[-1]).T))
        return columns


def unpickle(files: list[bytes], notes: list[str]) -> Result:
    own = tempfile.mkdtemp(prefix="texcell-")
    paths = [os.path.join(own, name) for name in ("result.npz", "workunit.zip",
                                                  SUGGESTED)[:len(files)]]
    for path, data in zip(paths, files):
        pathlib.Path(path).write_bytes(data)
    return Result(paths[0], paths[1] if len(files) > 1 else None, notes, own)


def dispose(npz: Any, folder: Optional[str]) -> None:
    """Closes the file, as Windows does not remove open files, and removes the folder."""
    getattr(npz, "close", bool)()
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def read(path: Union[str, "os.PathLike[str]"],
         unit: Union[str, "os.PathLike[str]", None] = None) -> Result:
    """Reads a result that texcell run wrote. unit: the work unit, whose images report() shows."""
    return Result(os.fspath(path), None if unit is None else os.fspath(unit))
