"""Writes arrays, and objects that contain arrays, as files for texcell-wu pack: NIfTI-2, which
supports every sample type."""
from __future__ import annotations

import functools
import os
import re
import shutil
import struct
from collections.abc import Iterator, Mapping, ValuesView
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from ._program import InputError, formats, note

CODES = {"u1": 2, "i2": 4, "i4": 8, "f4": 16, "f8": 64, "i1": 256, "u2": 512, "u4": 768, "i8": 1024,
         "u8": 1280}
RGB = 128
IN_UM = {"um": 1.0, "µm": 1.0, "μm": 1.0, "micron": 1.0, "microns": 1.0, "micrometer": 1.0,
         "micrometre": 1.0,
         "nm": 1e-3, "nanometer": 1e-3, "mm": 1e3, "millimeter": 1e3, "m": 1e6, "meter": 1e6}


class Picture(NamedTuple):
    """A picture of a call: an array with the axes c, t, z, y, x or, if colour, z, y, x, 3; or a
    path."""

    name: str
    path: Optional[str] = None
    array: Optional[NDArray[Any]] = None
    colour: bool = False
    spacing: Optional[tuple[float, ...]] = None      # z, y, x in micrometres


def plain_name(name: str, taken: set[str]) -> str:
    """The name that texcell-wu pack would give to a file's item. Names that differ only in case are
    made different, as they are the same on some file systems."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".")[:120] or "_"
    unique, number = plain, 1
    while unique.lower() in taken:
        number += 1
        unique = "%s_%d" % (plain, number)
    taken.add(unique.lower())
    return unique


def noted_name(name: str, taken: set[str]) -> str:
    """The same as plain_name; gives a note if this is not the name that the user gave."""
    plain = plain_name(name, taken)
    if plain != name:
        note("%s: is called %s in the tables" % (name, plain))
    return plain


def spacing_of(image: Any, axes: Optional[str]) -> Optional[tuple[float, ...]]:
    """The size of a voxel from the object's attributes: bioio's, napari's or xarray's."""
    sizes = getattr(image, "physical_pixel_sizes", None)
    if sizes is not None and sizes.Y and sizes.X:      # bioio's 1 of a TIFF is not known either
        return (float(sizes.Z or 1), float(sizes.Y),
                float(sizes.X)) if (sizes.Y, sizes.X) != (1, 1) else None
    found: dict[str, float] = {}
    if axes is not None and hasattr(image, "coords"):
        for dim, axis in zip(image.dims, axes):
            coordinates = image.coords[dim].values if dim in image.coords else []
            factor = IN_UM.get(str(image.coords[dim].attrs.get("units")).lower()) if len(
                coordinates) else None
            if axis in "zyx" and factor and len(coordinates) > 1:
                found[axis] = abs(float(coordinates[1] - coordinates[0])) * factor
    elif hasattr(image, "scale"):
        scale = [float(s) for s in image.scale][-3:]
        factors = [IN_UM.get(str(unit).lower()) for unit in getattr(image, "units", None) or
                   []][-len(scale):]
        if any(factors) or any(s != 1 for s in scale):       # napari's 1 of a pixel is not known
            found = dict(
                zip("zyx"[-len(scale):],
                    (s * (f or 1.0) for s, f in zip(scale, factors or [1.0] * len(scale)))))
    return (found.get("z", 1.0), found["y"], found["x"]) if "y" in found and "x" in found else None


def axes_of(image: Any) -> Optional[str]:
    """The axes as a letter each, or None if the object does not name them."""
    dims = getattr(image, "dims", None)
    dims = getattr(dims, "order", dims)
    if not dims or isinstance(image, np.ndarray):
        return None
    if all(str(dim) == "dim_%d" % i for i, dim in enumerate(dims)):     # xarray's own names
        return None
    letters = {"band": "c", "rgb": "s", "sample": "s", "row": "y", "col": "x", "column": "x"}
    return "".join(letters.get(str(dim).lower(), str(dim).lower()[:1]) for dim in dims)


def guess_axes(array: NDArray[Any], rgb: Optional[bool], name: str) -> str:
    colour = array.ndim > 2 and array.shape[-1] in (3, 4) if rgb is None else rgb
    flat = array.ndim - colour
    if flat not in (2, 3):
        raise InputError("%s: has %d axes; an image is [y, x], a stack [z, y, x], of colours [y, "
                         "x, 3]; give several images as a list" % (name, array.ndim))
    return "zyx"[-flat:] + "s" * colour


def take_array(image: Any, name: str, rgb: Optional[bool] = None) -> Picture:
    """The Picture of an array or object, with the axes in NIfTI's order."""
    axes = axes_of(image)
    plain = isinstance(image, (np.ndarray, list, tuple)) or not hasattr(image, "data")
    data = image if plain else image.data[0] if getattr(image, "multiscale", False) else image.data
    if isinstance(data, np.ma.MaskedArray) and np.any(data.mask):
        raise InputError("%s: is a masked array; give image.data, and masks=~image.mask where the "
                         "analysis takes one" % name)
    array = np.asarray(data)
    if axes is None or len(axes) != array.ndim:
        axes = guess_axes(array, rgb if plain else getattr(image, "rgb", rgb), name)
    order, every = order_of(axes)
    if not order:
        raise InputError("%s: axes %s; of these t, c, z, y, x and the colours' s are known" %
                         (name, ", ".join(axes)))
    spacing = None if plain else spacing_of(image, axes)
    return Picture(name, None, check_type(array, axes, name).transpose(order)[every], "s" in axes,
                   spacing)


@functools.lru_cache(maxsize=None)
def order_of(axes: str) -> tuple[list[int], tuple[Optional[slice], ...]]:
    """How to transpose (empty if an axis is unknown) and to index an array with these axes, to get
    the axes c, t, z, y, x, s."""
    good = {"y", "x"} <= set(axes) <= set("tczyxs") and len(set(axes)) == len(axes)
    return ([axes.index(a) for a in "ctzyxs" if good and a in axes],
            tuple(slice(None) if a in axes else None for a in "ctzyx"))


def check_type(array: NDArray[Any], axes: str, name: str) -> NDArray[Any]:
    """Returns the array if the program accepts its type; otherwise raises an error with the
    necessary conversion."""
    if "s" in axes and array.shape[axes.index("s")] != 3:
        raise InputError("%s: has transparency or %d samples a pixel; image[..., :3] has "
                         "the colours"
                         % (name, array.shape[axes.index("s")]))
    kind = array.dtype.str[1:]
    if "s" in axes and kind != "u1":
        how = "(image >> 8)" if kind == "u2" else "(image * 255)" if kind[0] == "f" else "image"
        raise InputError("%s: colours of %s; %s.astype('uint8') makes them the 8 bits "
                         "that are taken" % (name, array.dtype.name, how))
    if kind[0] == "b":
        raise InputError("%s: is bool; image.astype('uint8') is 0 and 1" % name)
    if kind not in CODES:
        how = "abs(image)" if kind[0] == "c" else "image.astype('float32') and scale=(LO, HI)"
        raise InputError("%s: has samples of type %s; %s can be taken" % (name, array.dtype.name,
                                                                          how))
    if array.size == 0:
        raise InputError("%s: is empty, of shape %s" % (name, array.shape))
    return array


def write_nifti(path: str, pictures: list[Picture]) -> None:
    """Writes pictures of equal shape and type to one file, as its points in time."""
    array, um = pictures[0].array, pictures[0].spacing
    assert array is not None
    c, t, z, y, x = array.shape[:5]
    kind = RGB if pictures[0].colour else CODES[array.dtype.str[1:]]
    header = bytearray(544)
    struct.pack_into("<i8s2h8q", header, 0, 540, b"n+2\0\r\n\x1a\n", kind,
                     24 if kind == RGB else 8 * array.dtype.itemsize,
                     5, x, y, z, t * len(pictures), c, 1, 1)
    struct.pack_into("<8dq", header, 104, 1, *(reversed(um) if um else (0, 0, 0)), 0, 0, 0, 0, 544)
    struct.pack_into("<i", header, 500, 3 if um else 0)
    with open(path, "wb", 1 << 16) as f:
        f.write(header)
        for p in pictures:
            f.write(np.ascontiguousarray(p.array, array.dtype.newbyteorder("<")).data)


def is_own(path: str) -> bool:
    """Whether the path is for texcell-wu: a file that it reads, a folder, or a missing file, which
    it reports."""
    name = os.path.basename(path.rstrip("/" + os.sep)).lower()
    return (os.path.isdir(path) and not name.endswith(".zarr") or
            name.endswith((".png", ".nii", ".nii.gz"))
            or name.endswith((".tif", ".tiff", ".jpg", ".jpeg")) and
            name[name.rindex("."):][1] in formats())


def stem_of(path: str) -> str:
    return re.sub(r"(\.nii)?\.[^.]*$", "", os.path.basename(path.rstrip("/" + os.sep)))


def read_foreign(path: str, name: str) -> Iterator[tuple[str, Any]]:
    """The pictures of a file that bioio reads and texcell-wu does not, with their names: one, or
    one for each scene."""
    try:
        from bioio import BioImage
    except ImportError:
        raise InputError(path + (": this texcell does not read it; read it as an array, or pip "
                                 "install bioio and its reader of the format"
                                 if os.path.exists(path) else ": no such file or folder")) from None
    image = BioImage(path)
    for scene in image.scenes:
        image.set_scene(scene)
        yield (name if len(image.scenes) == 1 else "%s_%s" % (name, scene)), image


def take(images: Any, names: Any = None) -> list[Picture]:
    """All pictures of a call, each with its name."""
    if isinstance(images, Mapping):
        names, images = list(images), list(images.values())
    elif isinstance(images, (set, Iterator, ValuesView)) or getattr(getattr(images, "dtype", None),
                                                                    "kind", "") == "O":
        images = list(images)
    elif not isinstance(images, (list, tuple)):
        images = [images]
    if not images:
        raise InputError("no images are given")
    if names is not None:
        names = [names] if isinstance(names, str) else [str(name) for name in names]
        if len(names) != len(images):
            raise InputError("%d name%s of %d image%s" % (len(names), "s"[:len(names) != 1],
                                                          len(images), "s"[:len(images) != 1]))
    # As texcell-wu pack names the times of image.nii.
    default = ["image_t%0*d" % (len(str(len(images))), i + 1)
               for i in range(len(images))] if len(images) > 1 else ["image"]
    used_names, out = set[str](), []
    for i, image in enumerate(images):
        if isinstance(image, (str, os.PathLike)):
            path = os.fspath(image)
            name = stem_of(path) if names is None or os.path.isdir(path) else names[i]
            if is_own(path):
                out.append(Picture(name if name == stem_of(path) else noted_name(name, used_names),
                                   path))
                continue
            scenes = read_foreign(path, name)
        else:
            own = getattr(image, "name", None) or b""                  # a lazy array's is a key
            name = names[i] if names is not None else own if isinstance(own, str) and hasattr(
                image, "data") else default[i]
            scenes = iter([(name, image)])
        out += [take_array(image, noted_name(name, used_names)) for name, image in scenes]
    return out


def place_of(pictures: list[Picture]) -> Optional[str]:
    """The folder for temporary files: in memory, which is faster, if there is room for the
    pictures; otherwise None, for tempfile's default."""
    size = sum(p.array.nbytes for p in pictures if p.array is not None)
    memory = "/dev/shm"
    good = (size <= 1 << 26 and "TMPDIR" not in os.environ and os.access(memory, os.W_OK) and
            shutil.disk_usage(memory).free > 4 * size)
    return memory if good else None


def write_all(pictures: list[Picture], folder: str) -> list[str]:
    """The inputs of pack, and their names if they are in one file: the given paths, except for
    files with another name, and the files written from arrays."""
    os.mkdir(folder)
    kinds = {(p.array.shape, p.array.dtype.str, p.colour, p.spacing) if p.array is not None else ()
             for p in pictures}
    first, inputs = pictures[0].array, ["--"]
    # One file takes less time than several.
    alike = len(kinds) == 1 < len(pictures) and first is not None and first.shape[:2] == (1, 1)
    # The user gave names, not files.
    if all(p.array is not None and p.array.shape[1] == 1 for p in pictures):
        inputs = ["--names", os.path.join(folder, "names.txt"), "--"]
        with open(inputs[1], "w", encoding="ascii") as f:
            f.writelines(p.name + "\n" for p in pictures)
    if alike:
        write_nifti(os.path.join(folder, "image.nii"), pictures)
        return [*inputs, os.path.join(folder, "image.nii")]
    for p in pictures:
        if p.path is not None and p.name == stem_of(p.path):
            inputs.append(p.path)
        elif p.path is not None:
            inputs.append(os.path.join(folder,
                                       p.name + os.path.basename(p.path)[len(stem_of(p.path)):]))
            shutil.copyfile(p.path, inputs[-1])
        else:
            inputs.append(os.path.join(folder, p.name + ".nii"))
            write_nifti(inputs[-1], [p])
    return inputs


def write_matching(pictures: list[Picture], given: Any, folder: str) -> str:
    """The value of pack's option --mask or --labels: masks or label pictures, which are assigned to
    the images by name."""
    if isinstance(given, (str, os.PathLike)):
        return str(os.fspath(given))
    if hasattr(given, "path") and hasattr(given, "unit"):       # a Result
        return str(given.path)
    if isinstance(given, Mapping):
        by_name = {plain_name(str(name), set()): one for name, one in given.items()}
        image_names = [plain_name(p.name, set()) for p in pictures]
        lacking = [name for name in image_names if name not in by_name]
        # Otherwise it is not clear which one belongs to which image.
        if lacking or len(by_name) < len(given) or len(set(image_names)) < len(image_names):
            raise InputError("masks or label pictures of %s; each image needs one of "
                             "its own name%s" % (
                                 ", ".join(list(map(str, given))[:9]) or "none",
                                 ": " + lacking[0] if lacking else ", letters and digits"))
        given = [by_name[name] for name in image_names]
    elif not isinstance(given, (list, tuple)):
        given = (list(given) if isinstance(given, np.ndarray) and len(given) == len(pictures) > 1
                 else [given])
    if len(given) != len(pictures):
        raise InputError("%d image%s need%s as many masks or label pictures, %d given" % (
            len(pictures), "s"[:len(pictures) != 1], "s"[:len(pictures) == 1], len(given)))
    os.mkdir(folder)
    for p, one in zip(pictures, given):
        array = np.asarray(one if isinstance(one, np.ndarray) else getattr(one, "data", one))
        array = array.astype(np.uint8) if array.dtype == bool else array
        write_nifti(os.path.join(folder, p.name + ".nii"), [take_array(array, p.name, rgb=False)])
    return folder
