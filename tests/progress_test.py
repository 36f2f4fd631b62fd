"""Tests what a run prints on a terminal: a progress bar that never scrolls, for any width of the
terminal; and messages about devices only if they matter."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
import time

import numpy as np

import tap
from oracle import workunit

FOLDER = tap.scratch()
UNIT, LONG = os.path.join(FOLDER, "u.zip"), "a_name_that_" + "goes_on_and_" * 8 + "ends_here"
DRAWN = re.compile(r"(?:\[(#*)(\.*)\] )? *(\d+\.\d)%(  \S+)?( \(\d of 2\))?(  "
                   r"(?:\d+:)?\d+:\d\d left)?")


def set_width(fd, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def run_on_terminal(columns, later=None):
    """Runs texcell on a terminal of this number of columns, which changes to `later` after a
    second. Returns the exit code and the output."""
    master, slave = pty.openpty()
    set_width(master, columns)
    out = os.path.join(FOLDER, "r%d.npz" % columns)
    p = subprocess.Popen([tap.TEXCELL, "run", UNIT, "-o", out, "--device", "cpu", "--threads", "1"],
                         stderr=slave, cwd=FOLDER)
    os.close(slave)
    timer = threading.Timer(1, set_width, (master, later)) if later else None
    if timer:
        timer.start()
    text = b""
    try:
        while True:
            more = os.read(master, 65536)
            if not more:
                break
            text += more
    except OSError:          # the run has ended and closed its side
        pass
    if timer:
        timer.join()
    os.close(master)
    return p.wait(), text.decode()


def drawings(text):
    """The progress bars in the order in which they were drawn, and the lines that are not
    overwritten."""
    bars, lines = [], []
    for line in text.replace("\r\n", "\n").split("\n"):
        *drawn, last = line.split("\r")
        pieces = [x for x in drawn + [last] if x]
        lines += [x.replace("\x1b[K", "") for x in pieces if "%" not in x and
                  x.replace("\x1b[K", "")]
        bars += [x[:-3] for x in pieces if "%" in x and x.endswith("\x1b[K")]
    return bars, lines


def test_width(columns):
    """The progress bar on a terminal of this width."""
    code, text = run_on_terminal(columns)
    bars, lines = drawings(text)
    tap.ok(code == 0 and len(bars) > 5, "%d columns: a bar is drawn" % columns,
           "%d %r" % (code, text[-300:]))
    widest = max(map(len, bars))
    tap.ok(widest < columns and not any(DRAWN.fullmatch(b) is None for b in bars if columns >= 25),
           "%d columns: the bar fits, with every part complete" % columns,
           [b for b in bars if len(b) >= columns or not DRAWN.fullmatch(b)][:3])
    if columns < 25:
        return
    parts = [DRAWN.fullmatch(b).groups() for b in bars]
    if any(p is None for p in map(DRAWN.fullmatch, bars)):
        return
    tap.ok(any(p[5] for p in parts[len(parts) // 3:]),
           "%d columns: the bar has the time left" % columns,
           bars[-3:])
    shares = [float(p[2]) for p in parts]
    tap.ok(shares == sorted(shares) and shares[-1] > 50,
           "%d columns: the share never decreases" % columns,
           shares)
    filled = [(len(p[0]), len(p[0]) + len(p[1]), float(p[2])) for p in parts if p[0] is not None]
    tap.ok(all(abs(a - n * s / 100) <= 1 for a, n, s in filled) and (filled or columns < 40),
           "%d columns: the bar's length is the share" % columns, filled[:5])
    named = [p[3].strip() for p in parts if p[3]]
    if columns >= 80:
        whole = columns >= 200 and all(n in (LONG, "b") for n in named)
        tap.ok(named and
               (whole or any(n.endswith("...") and LONG.startswith(n[:-3]) for n in named)),
               "%d columns: the name is shortened to fit" % columns, named[:3])
        tap.ok(widest > min(columns, 200) * 0.6,
               "%d columns: the bar uses the width" % columns, widest)
    tap.ok(len(lines) == 4 and lines[0].endswith("glcm on the CPU") and
           lines[2].startswith("texcell: " + LONG[:20])
           and re.fullmatch(r"texcell: (under a second|about \d+ seconds?) on \d+ threads?",
                            lines[1]),
           "%d columns: the other lines stay" % columns, lines)


def test_devices():
    """--device auto says nothing if there is no GPU, and gives the reason if one fails."""
    out = os.path.join(FOLDER, "d.npz")

    def run(device, *options, **env):
        return tap.run([tap.TEXCELL, "run", TINY, "-o", out, "--device", device, *options],
                       env=dict(os.environ, POCL_CACHE_DIR=os.path.join(FOLDER, "pocl"), **env))

    def memory(device, **env):
        """The peak memory of a run, in MiB."""
        with subprocess.Popen([tap.TEXCELL, "run", TINY, "-o", out, "--device", device, "--quiet"],
                              env=dict(os.environ, **env)) as process:
            _pid, process.returncode, usage = os.wait4(process.pid, 0)
        return usage.ru_maxrss / 1024
    nothing = os.path.join(FOLDER, "vendors")
    os.mkdir(nothing)
    for name, env in (("no driver", {"OCL_ICD_VENDORS": nothing}),
                      ("no loader", {"TEXCELL_OPENCL_LIBRARY": "libNone.so"})):
        r = run("auto", **env)
        tap.ok(r.returncode == 0 and r.stderr.splitlines()[0].endswith("1 item, glcm on the CPU"),
               "--device auto, %s: no message" % name, r.stderr)
        r = run("opencl", **env)
        tap.ok(r.returncode == 3 and "OpenCL" in r.stderr,
               "--device opencl, %s: the reason is printed" % name,
               r.stderr)
    if not any(n.startswith(("dri", "nvidia", "nv", "kfd", "dxg", "mali", "kgsl"))
               for n in os.listdir("/dev")):
        peak = memory("auto", TEXCELL_AUTO_SECONDS="0")
        tap.ok(peak < 60, "auto: PoCL, which has no GPU, is not loaded: %.0f MB" % peak)
    listed = tap.run([tap.TEXCELL, "devices"])
    if "usable" not in listed.stdout:
        tap.skip("a device that fails is reported", "no OpenCL device here")
        return
    count = os.path.join(FOLDER, "count")
    tap.run([tap.TEXCELL, "devices"], env=dict(os.environ, **tap.opencl_hooks(count=count, gpu=1)))
    with open(count) as f:
        calls = int(f.read().split()[0])
    r = run("auto", **tap.opencl_hooks(gpu=1, fail="%d+" % (calls + 6)))
    tap.ok(r.returncode == 0 and re.search("^texcell: using the CPU: .*CL_", r.stderr, re.M),
           "--device auto, a GPU that fails: the reason is printed", r.stderr)
    for seconds, where in (("0", "glcm on [^\n]*(?<!the CPU)$"), ("0.5", "glcm on the CPU$")):
        r = run("auto", **dict(tap.opencl_hooks(gpu=1), TEXCELL_AUTO_SECONDS=seconds))
        tap.ok(r.returncode == 0 and re.search(where, r.stderr, re.M),
               "--device auto, a GPU and a job of milliseconds, if the GPU is used from %s s on"
               % seconds, r.stderr)
    r = run("auto", "--quiet", **tap.opencl_hooks(gpu=1, fail="%d+" % (calls + 6)))
    tap.ok(r.returncode == 0 and r.stderr == "", "no message about devices with --quiet", r.stderr)


def run_items(n):
    """The item numbers in the "done" lines of a run of n items, and the seconds that it took."""
    unit, begin = os.path.join(FOLDER, "many.zip"), time.monotonic()
    picture = np.indices((40, 40), np.uint8).sum(0, np.uint8) * 3
    workunit.write(unit, "cellcount", {},
                   [workunit.item("i%d" % i, [np.roll(picture, i)]) for i in range(n)])
    p = tap.run([tap.TEXCELL, "run", unit, "-o", unit + ".npz", "--device", "cpu"])
    return ([int(x) for x in re.findall(r"done \((\d+) of %d\)" % n, p.stderr)],
            time.monotonic() - begin)


TINY = os.path.join(FOLDER, "t.zip")


def main():
    rng = np.random.default_rng(5)
    big = [rng.integers(0, 256, (300, 300)).astype(np.uint8) for _ in range(2)]
    parameters = {"levels": [32], "distances": [1, 2, 3, 4, 5, 6],
                  "window": {"shape": "disc", "radius": 16}}
    workunit.write(UNIT, "glcm", parameters,
                   [workunit.item(LONG, [big[0]]), workunit.item("b", [big[1]])])
    workunit.write(TINY, "glcm",
                   {"levels": [8], "distances": [1], "window": {"shape": "disc", "radius": 3}},
                   [workunit.item("a", [big[0][:40, :40]])])
    for columns in (12, 25, 40, 80, 200):
        test_width(columns)
    code, text = run_on_terminal(120, later=50)
    bars = drawings(text)[0]
    tap.ok(code == 0 and len(bars[0]) > 60 and len(bars[-1]) < 50,
           "the bar follows a terminal that becomes narrower", bars[-1:])
    numbers = run_items(100)[0]
    tap.ok(numbers == list(range(1, 101)), "each of a hundred items has a line", numbers)
    numbers, seconds = run_items(101)
    tap.ok(numbers[0] == 1 and numbers[-1] == 101 and len(numbers) <= 5 + seconds / 60,
           "with more items lines are for each quarter, each minute and the last one",
           (numbers, seconds))
    test_devices()
    tap.done()


main()
