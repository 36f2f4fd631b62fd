"""Tests the NPZ writer and reader against NumPy: each reads the other's files, with the same names,
types, shapes and bytes."""
import io
import os
import zipfile
import zlib

import numpy as np

import tap

# NumPy's name of a type -> number in wu_dtype.
DTYPES = {"|b1": 0, "|u1": 1, "<i4": 2, "<i8": 3, "<f4": 4, "<f8": 5}


def program():
    """Path of test_npz in this build, or None. It writes or lists files if it has arguments."""
    for path in ("tests/unit/test_npz", "test_npz"):
        full = os.path.join(tap.BUILD, path)
        if os.access(full, os.X_OK):
            return full
    return None


def check_written(test_npz, folder):
    path = os.path.join(folder, "ours.npz")
    p = tap.run([test_npz, "--write", path])
    if not tap.ok(p.returncode == 0, "test_npz writes a file", p.stderr):
        return
    expected = {
        "bools": np.array([True, False, True]),
        "u8s": np.array([[0, 1, 2], [127, 128, 255]], "u1"),
        "i32s": np.array([[-2 ** 31], [-1], [0], [2 ** 31 - 1]], "<i4"),
        "i64s": np.array([-2 ** 63, 2 ** 63 - 1], "<i8"),
        "f32s": np.array([0.5, -1e-30, 3e38, 0], "<f4"),
        "f64s": np.array([[1 / 3, -2.5, 1e-300], [1e300, 0, -0.0]]),
        "strs": np.array(["n\u00e9", "abcd"], "<U4"),
        "empty": np.zeros((0, 7)),
        "a.long-name_with.everything-in_it": np.zeros(1, "u1"),
    }
    with np.load(path, allow_pickle=False) as npz:
        names = [n for n in npz.files if n != "result.json"]
        tap.ok(names == list(expected), "NumPy lists the arrays in order", names)
        for name, want in expected.items():
            got = npz[name]
            same = (got.dtype == want.dtype and got.shape == want.shape and
                    got.tobytes() == want.tobytes())
            tap.ok(same, "NumPy reads " + name, "%r %r" % (got, want))
    with zipfile.ZipFile(path) as z:
        tap.ok(z.testzip() is None, "every CRC is right")
        tap.ok({i.date_time for i in z.infolist()} == {(1980, 1, 1, 0, 0, 0)},
               "every time stamp is 1980-01-01")
        for name, want in expected.items():
            member = z.getinfo(name + ".npy")
            npy = io.BytesIO()
            np.save(npy, want)
            tap.ok(z.read(member) == npy.getvalue(), "%s is the same file as NumPy's" % name)
            floats = want.dtype.kind == "f"
            tap.ok(member.compress_type == (zipfile.ZIP_STORED if floats else zipfile.ZIP_DEFLATED),
                   "%s is %s" % (name, "stored" if floats else "deflated"))


def line_of(name, a):
    """The line that test_npz --read prints for an array."""
    width = a.dtype.itemsize // 4 if a.dtype.kind == "U" else 0
    kind = 6 if width else DTYPES[a.dtype.str]
    return " ".join([name, str(kind), str(width)] + [str(n) for n in a.shape] +
                    ["%08x" % zlib.crc32(a.tobytes())])


def check_read(test_npz, folder):
    rng = np.random.default_rng(1)
    arrays = {
        "b": rng.random(100) < 0.5, "u": rng.integers(0, 256, (3, 4, 5)).astype("u1"),
        "i": rng.integers(-2 ** 31, 2 ** 31, (2, 3, 4, 5)).astype("i4"),
        "l": rng.integers(-2 ** 63, 2 ** 63 - 1, 7), "f": rng.random((300, 200)).astype("f4"),
        "d": rng.random((1, 2, 3, 4, 5)), "s": np.array(["x" * 70, "\u00e9\U0001f52c", ""]),
        "none": np.zeros((5, 0), "f4"),
    }
    for save, what in ((np.savez, "savez"), (np.savez_compressed, "savez_compressed")):
        path = os.path.join(folder, what + ".npz")
        save(path, **arrays)
        with zipfile.ZipFile(path, "a") as z:
            z.writestr("result.json", "{}")
        p = tap.run([test_npz, "--read", path])
        want = [line_of(n, a) for n, a in arrays.items()]
        tap.ok(p.returncode == 0 and p.stdout.splitlines() == want,
               "test_npz reads a file of numpy.%s" % what,
               p.stderr + p.stdout + "\n" + "\n".join(want))
    for what, a in (("big-endian", np.arange(3, dtype=">i4")),
                    ("Fortran-ordered", np.asfortranarray(np.ones((2, 3)))),
                    ("complex", np.ones(2, "c16")), ("object", np.array([{}, None], object)),
                    ("0-dimensional", np.float64(1)), ("structured", np.zeros(2, "i4,f8"))):
        path = os.path.join(folder, "bad.npz")
        np.savez(path, x=a)
        with zipfile.ZipFile(path, "a") as z:
            z.writestr("result.json", "{}")
        p = tap.run([test_npz, "--read", path])
        tap.ok(p.returncode == 1 and 'bad.npz: member "x.npy": its header does not' in p.stderr,
               "a %s array is refused" % what, p.stderr + p.stdout)


def main():
    test_npz = program()
    if test_npz is None:
        tap.skip("NPZ against NumPy", "test_npz is not built (it needs cmocka)")
        tap.done()
    folder = tap.scratch()
    check_written(test_npz, folder)
    check_read(test_npz, folder)
    tap.done()


if __name__ == "__main__":
    main()
