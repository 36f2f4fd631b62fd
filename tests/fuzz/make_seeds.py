"""make_seeds.py TARGET FOLDER: first inputs for a fuzz target."""
import io
import json
import os
import sys
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
LARGEST = 20000


def job():
    """Good work units, and all the bad ones that are small."""
    import bad_files as b
    yield b.GOOD
    yield b.STORED
    yield b.item(image="images/x.png", mask="s/0.png")
    yield b.item(image="s/rgb.png")
    yield b.item(image="s/16.png", mask="s/0.png")
    yield b.item(stack=["s/0.png", "s/1.png"], spacing=[1, 0.5, 0.5], mask=["s/1.png", "s/1.png"])
    for group in (b.bad_archives, b.bad_names, b.bad_json, b.bad_items, b.bad_pictures, b.bad_pixels):
        for _, data, _ in group():
            yield data


def npz():
    """Results as NumPy writes them, with every type in use, whole and damaged."""
    import numpy as np
    arrays = [np.array([[1.5, 2], [3, 4]]), np.array([True, False]), np.arange(6, dtype="u1"),
              np.arange(6, dtype="i4").reshape(1, 2, 3), np.arange(3, dtype="i8"), np.zeros((0, 7), "f4"),
              np.array(["contrast", "\u00e9"]), np.zeros((1, 1, 1, 1, 2))]
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", method) as z:
            z.writestr("result.json", json.dumps({"format": "texcell-result", "version": 1, "items": ["a", "b"],
                                                  "workunit": {"crc32": "0123abcd", "size": 99}}))
            for i, a in enumerate(arrays):
                one = io.BytesIO()
                np.save(one, a)
                z.writestr("array_%d.npy" % i, one.getvalue())
        whole = out.getvalue()
        yield whole
        yield whole[:len(whole) // 2]
        yield whole[:-3]
        yield whole.replace(b"<f8", b"<f4")
        yield whole.replace(b"array_1", b"array_0")


def main():
    target, folder = sys.argv[1], sys.argv[2]
    maker = globals().get(target)
    os.makedirs(folder, exist_ok=True)
    for number, data in enumerate(maker() if maker else ()):
        if len(data) <= LARGEST:
            with open(os.path.join(folder, "seed_%03d" % number), "wb") as f:
                f.write(data)


if __name__ == "__main__":
    main()
