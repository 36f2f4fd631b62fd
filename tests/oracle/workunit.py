"""Writes work units for the tests without the program's code: by zipfile, json and a PNG writer of
a few lines."""
import json
import struct
import zipfile
import zlib

import numpy as np


def png(image):
    """A PNG of a grey picture [h,w] with 8 or 16 bits, or an RGB picture [h,w,3] with 8 bits."""
    image = np.ascontiguousarray(image)
    height, width = image.shape[:2]
    bits = image.dtype.itemsize * 8
    data = image.astype(image.dtype.newbyteorder(">")).reshape(height, -1)
    raw = b"".join(b"\0" + row.tobytes() for row in data)

    def chunk(kind, body):
        return (struct.pack(">I", len(body)) + kind + body +
                struct.pack(">I", zlib.crc32(kind + body)))
    header = struct.pack(">IIBBBBB", width, height, bits, 2 if image.ndim == 3 else 0, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) +
            chunk(b"IDAT", zlib.compress(raw, 6 if len(raw) < 1 << 26 else 1)) +
            chunk(b"IEND", b""))


def mask_png(mask):
    return png(np.where(np.asarray(mask) != 0, 255, 0).astype(np.uint8))


def label_png(labels, largest):
    """A PNG of labels as in work units: grey, or RGB with label R + 256 G + 65536 B."""
    labels = np.asarray(labels).astype(np.uint32)
    if largest < 65536:
        return png(labels.astype(np.uint8 if largest < 256 else np.uint16))
    return png(np.stack([labels & 255, labels >> 8 & 255, labels >> 16], -1).astype(np.uint8))


def item(name, slices, masks=None, stack=None, spacing=None, source=None, labels=None):
    """An item of one picture, or of several, which are a stack (as is one with stack=True). Voxels
    are cubes of 1 unless `spacing` has another size; []: no spacing."""
    return {"name": name, "slices": slices, "masks": masks, "labels": labels,
            "stack": len(slices) > 1 if stack is None else stack, "spacing": spacing,
            "source": source}


def write(path, analysis, parameters, items, strips=None, pictures_as=zipfile.ZIP_DEFLATED):
    """Writes the work unit of these items. strips: rows of a strip for images, masks and labels,
    which are then cut into strips. pictures_as: the ZIP method of PNGs; texcell-wu uses
    ZIP_STORED."""
    members, described = [], []

    def add(folder, it, pictures, png_of, rows):
        """Adds the pictures as members; returns their names, or one name if it is a whole
        picture."""
        whole = not it["stack"] and not rows
        if rows and not it["stack"]:
            pictures = [pictures[0][y:y + rows] for y in range(0, len(pictures[0]), rows)]
        names = ["%s/%s_%04d.png" % (folder, it["name"], i) for i in range(len(pictures))]
        members.extend((n, png_of(p)) for n, p in zip(names, pictures))
        return names[0] if whole else names
    for it in items:
        rows = strips or (None, None, None)
        entry = {"name": it["name"]}
        entry["stack" if it["stack"] else "image"] = add("images", it, it["slices"], png, rows[0])
        if it["stack"]:
            entry.update({} if it["spacing"] == []
                         else {"spacing": it["spacing"] or [1.0, 1.0, 1.0]})
        elif it["spacing"]:
            entry["spacing"] = it["spacing"]
        if it.get("source"):
            entry["source"] = it["source"]
        if it["masks"]:
            entry["mask"] = add("masks", it, it["masks"], mask_png, rows[1])
        if it["labels"]:
            largest = max(int(np.max(p)) for p in it["labels"])
            entry["labels"] = add("labels", it, it["labels"],
                                  lambda plane: label_png(plane, largest), rows[2])
            entry["objects"] = len(np.setdiff1d(np.unique(np.stack(it["labels"])), [0]))
        described.append(entry)
    job = {"format": "texcell-workunit", "version": 3,
           "analysis": analysis, "parameters": parameters, "items": described}
    with zipfile.ZipFile(path, "w") as z:
        for name, data in [("job.json", json.dumps(job))] + members:
            # with the time stamp 1980, so that the same unit has the same bytes
            z.writestr(zipfile.ZipInfo(name), data, pictures_as if name.endswith(".png")
                       else zipfile.ZIP_DEFLATED)
    return path
