"""Tests texcell_graphics under Xvfb: it shows the picture that each analysis writes, and never
disturbs a task."""
import contextlib
import ctypes
import ctypes.util
import os
import shutil
import signal
import struct
import subprocess
import sys
import time

import numpy as np

import tap
from oracle import workunit
from pictures import blobs

FOLDER = tap.scratch()
GRAPHICS = os.path.join(tap.BUILD, "texcell_graphics")
SIDE, WINDOW, TEXT = 384, 640, 8 * 24
HUES = np.array([[255, 96, 64], [255, 200, 48], [96, 220, 96], [64, 200, 255], [128, 128, 255],
                 [255, 112, 200]])
PICTURE = blobs(700, 700, 5, 160, 16)
LABELS = (np.indices((700, 700)) // 35 * [[[20]], [[1]]]).sum(0) + 1
JOBS = {
    "glcm": ({"levels": [16], "window": {"shape": "disc", "radius": 4}, "distances": [1],
              "maps": [{"feature": "entropy", "levels": 16, "offset": [0, 1]}]}, {}),
    "cellcount": ({"threshold": 128}, {}),
    "volume": ({"membrane": 120}, {}),
    "levelset": ({"target": 200, "epsilon": 90, "iterations": 60,
                  "init": {"type": "ball", "cx": 300, "cy": 300, "r": 150}}, {}),
    "voting": ({"radius": 18}, {}),
    "objects": ({}, {"labels": [LABELS.astype(np.uint16)]}),
}


def screen():
    """The pixels [y, x, RGB] on Xvfb's screen, from its file (an X window dump)."""
    with open(os.path.join(FOLDER, "screen", "Xvfb_screen0"), "rb") as f:
        data = f.read()
    head = struct.unpack(">25I", data[:100])
    start, width, height, line = head[0] + 12 * head[19], head[4], head[5], head[12]
    rows = np.frombuffer(data, np.uint8, line * height, start).reshape(height, line)
    return rows[:, :4 * width].reshape(height, width, 4)[:, :, 2::-1].astype(int)


def until(condition, seconds=15):
    """Waits until condition() is true, for at most the given seconds. Returns whether it is."""
    end = time.time() + seconds
    while not condition() and time.time() < end:
        time.sleep(0.1)
    return condition()


def view_of(folder):
    """The picture as it must be drawn, the number of found pixels, and the names of analysis and
    item, from a task's texcell_view."""
    with open(os.path.join(folder, "texcell_view"), "rb") as f:
        data = f.read()
    nx, ny, amounts = struct.unpack_from("<III", data, 12)
    grey, found = (np.frombuffer(data, np.uint8, nx * ny, len(data) -
                                 n * SIDE * SIDE).reshape(ny, nx).astype(int) for n in (2, 1))
    part = (found if amounts else 112 * (found > 0))[:, :, None]
    hue = np.broadcast_to(HUES[1], part.shape[:2] + (3,)) if amounts else HUES[found % 6]
    texts = [data[offset:offset + 64].split(b"\0")[0].decode() for offset in (48, 80)]
    return (grey[:, :, None] * (255 - part) + hue * part) // 255, int((found > 0).sum()), texts


def is_drawn(picture):
    """Whether the screen shows the picture, a square, above the lines of text."""
    room = WINDOW - 2 * 16 - TEXT
    position = ((np.arange(room) + 0.5) * len(picture) / room).astype(int)
    x = (WINDOW - room) // 2
    pixels, expected = screen(), picture[position][:, position]
    # Without a window manager the window is sometimes a pixel off.
    return any(np.array_equal(pixels[16 + d:16 + d + room, x + d:x + d + room], expected)
               for d in (-1, 0, 1))


def task_folder(name):
    path = os.path.join(FOLDER, name)
    os.mkdir(path)
    parameters, more = JOBS[name]
    items = [workunit.item("s", [PICTURE] * 3) if name == "volume"
             else workunit.item("p", [PICTURE], **more)]
    workunit.write(os.path.join(path, "workunit"), name, parameters, items)
    return path


def task(folder):
    return subprocess.Popen([tap.TEXCELL], cwd=folder, stderr=subprocess.PIPE)


def result(folder):
    with open(os.path.join(folder, "result"), "rb") as f:
        return f.read()


def test_each_analysis(env):
    """The picture of each analysis is shown while its task runs; the task's result is the same."""
    for name in JOBS:
        folder = task_folder(name)
        tap.ok(task(folder).wait() == 0 and
               not os.path.exists(os.path.join(folder, "texcell_view")),
               name + ": without graphics the task writes no picture")
        alone = result(folder)
        watcher = subprocess.Popen([GRAPHICS], cwd=folder, env=env)
        tap.ok(until(lambda: os.path.exists(os.path.join(folder, "texcell_watched"))),
               name + ": the graphics program starts")
        code = task(folder).wait()
        picture, found, texts = view_of(folder)
        tap.ok(code == 0 and texts == [name, "s" if name == "volume" else "p"] and
               result(folder) == alone,
               name + ": the same result with graphics", "%d, %s" % (code, texts))
        tap.ok(until(lambda: is_drawn(picture)), name + ": its picture is shown, %d found" % found)
        tap.ok(until(lambda: not is_drawn(picture)) and until(lambda: is_drawn(picture)),
               name + ": a band moves over the picture, and rests")
        tap.ok(screen()[WINDOW - TEXT:, :, :].max(2).sum() > 10000, name + ": text is shown, too")
        if name == "glcm":
            test_damage(folder, watcher, picture)
        watcher.send_signal(signal.SIGKILL)
        watcher.wait()


def test_damage(folder, watcher, picture):
    """Damaged texcell_view files do not change what is shown, and do not end the program."""
    path = os.path.join(folder, "texcell_view")
    with open(path, "rb") as f:
        good = f.read()
    rng = np.random.default_rng(1)
    for what, bad in (("noise", rng.bytes(len(good))), ("half", good[:len(good) // 2]),
                      ("nothing", b""),
                      ("one bit", good[:5000] + bytes([good[5000] ^ 1]) + good[5001:])):
        with open(path, "wb") as f:
            f.write(bad)
        time.sleep(1.5)
        tap.ok(watcher.poll() is None and until(lambda: is_drawn(picture)),
               "a file of %s changes nothing" % what)
    os.remove(path)
    os.mkdir(path)
    tap.ok(task(folder).wait() == 0, "a task that cannot write its picture continues")


class Windows:
    """The windows of an X display, by libX11."""

    def __init__(self, display):
        x = self.x = ctypes.CDLL(ctypes.util.find_library("X11"))
        x.XOpenDisplay.restype = ctypes.c_void_p
        x.XDefaultRootWindow.restype = ctypes.c_ulong
        x.XDefaultRootWindow.argtypes = [ctypes.c_void_p]
        self.display = ctypes.c_void_p(x.XOpenDisplay(display.encode()))

    def all(self):
        root, parent, n = ctypes.c_ulong(), ctypes.c_ulong(), ctypes.c_uint()
        children = ctypes.POINTER(ctypes.c_ulong)()
        self.x.XQueryTree(self.display, ctypes.c_ulong(self.x.XDefaultRootWindow(self.display)),
                          ctypes.byref(root),
                          ctypes.byref(parent), ctypes.byref(children), ctypes.byref(n))
        return [children[i] for i in range(n.value)]

    def resize(self, width, height):
        for window in self.all():
            self.x.XMoveResizeWindow(self.display, ctypes.c_ulong(window), 0, 0, width, height)
        self.x.XSync(self.display, 0)


def test_resize(env):
    """A window can have any size, and back at the old size it shows the same as before."""
    folder = os.path.join(FOLDER, "levelset")
    watcher = subprocess.Popen([GRAPHICS], cwd=folder, env=env)
    picture = view_of(folder)[0]
    is_shown = until(lambda: is_drawn(picture))
    windows = Windows(env["DISPLAY"])
    for size in ((300, 500), (40, 40), (1, 1), (640, 100)):
        windows.resize(*size)
        time.sleep(1.5)
    smaller = not is_drawn(picture)
    windows.resize(WINDOW, WINDOW)
    tap.ok(is_shown and smaller and until(lambda: is_drawn(picture)) and watcher.poll() is None,
           "a resized window shows the same at its old size",
           "%s, %s, %s" % (is_shown, smaller, watcher.poll()))
    watcher.kill()
    watcher.wait()


def test_options(env):
    folder = os.path.join(FOLDER, "levelset")
    for options in (["--fullscreen"], ["-geometry", "1x1"], ["-geometry", "200x90"]):
        p = subprocess.Popen([GRAPHICS] + options, cwd=folder, env=env)
        time.sleep(2)
        tap.ok(p.poll() is None, "texcell_graphics runs with " + " ".join(options), p.poll())
        p.kill()
        p.wait()
    nowhere = subprocess.run([GRAPHICS], cwd=folder, env=dict(env, DISPLAY=":9999"),
                             stderr=subprocess.PIPE, timeout=20)
    tap.ok(nowhere.returncode not in (0, -6, -11),
           "without a display texcell_graphics reports it", nowhere)


@contextlib.contextmanager
def a_display():
    """The environment of programs that draw on an Xvfb screen of their own."""
    os.mkdir(os.path.join(FOLDER, "screen"))
    display = ":%d" % (1000 + os.getpid() % 30000)
    server = subprocess.Popen(["Xvfb", display, "-screen", "0", "%dx%dx24" % (WINDOW, WINDOW),
                               "-nolisten", "tcp", "-noreset",
                               "-fbdir", os.path.join(FOLDER, "screen")], stderr=subprocess.DEVNULL)
    try:
        until(lambda: os.path.exists("/tmp/.X11-unix/X" + display[1:]))
        yield dict(os.environ, DISPLAY=display, LIBGL_ALWAYS_SOFTWARE="1")
    finally:
        server.terminate()
        server.wait()


def main():
    if not os.path.exists(GRAPHICS) or shutil.which("Xvfb") is None:
        print("1..0 # SKIP texcell_graphics is not built, or there is no Xvfb")
        sys.exit(0)
    with a_display() as env:
        test_each_analysis(env)
        test_resize(env)
        test_options(env)
    tap.done()


if __name__ == "__main__":
    main()
