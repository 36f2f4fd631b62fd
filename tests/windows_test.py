"""The programs for Windows, under wine: built by MinGW without a warning, they know the known
answers, give Linux's bytes, keep what is kept by a file system that has other rules, and take names in
any script. What wine does not show: spills of AVX registers to a stack that is not aligned,
which an old fault of GCC's made; so their instructions are read."""
import os
import re
import subprocess
import time

import analyses
import other_system
import tap
from oracle import workunit
from other_system import FOLDER, path, read
from pictures import GREY, blobs
from oracle.workunit import item

WINE = "/usr/lib/wine/wine64"
COMPILER = "x86_64-w64-mingw32-gcc-posix"
PREFIX = os.path.join(os.path.abspath(tap.BUILD), "wine")

# Every analysis takes it; long enough to be killed in.
LONG = {"levels": [64], "distances": list(range(1, 17)), "window": {"shape": "disc", "radius": 5}}


def start():
    p = other_system.Platform("windows", COMPILER, [WINE], ".exe")
    p.env.update(WINEPREFIX=PREFIX, WINEDLLOVERRIDES="mscoree,mshtml=", LC_ALL="C.UTF-8", DISPLAY="")
    r = subprocess.run([WINE, "wineboot", "-i"], env=p.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    if not tap.ok(r.returncode == 0, "wine starts", r.stdout.decode("utf-8", "replace")):
        tap.done()
    return p


def one_file(p):
    """Nothing has to lie beside a program, nothing spills to the stack where it may not."""
    for program in ("texcell", "texcell-wu", "texcell-validate"):
        exe = os.path.join(p.folder, program + ".exe")
        text = tap.run(["x86_64-w64-mingw32-objdump", "-p", exe]).stdout
        needed = set(re.findall(r"DLL Name: (\S+)", text))
        tap.ok(needed and needed <= {"KERNEL32.dll", "ADVAPI32.dll", "msvcrt.dll"},
               "%s.exe needs the system's libraries alone" % program, needed)
    code = tap.run(["x86_64-w64-mingw32-objdump", "-d", "--no-show-raw-insn", os.path.join(p.folder, "texcell.exe")]).stdout
    aligned = re.findall(r"vmov(?:ap[sd]|dqa\S*|ntps)\s+(?:%[yz]mm\d+,-?\w*\(%r[sb]p|-?\w*\(%r[sb]p[^)]*\),%[yz]mm).*", code)
    tap.ok("%ymm" in code and not aligned, "no wide register goes to the stack by an aligned move", "\n".join(aligned[:9]))


def names(p):
    """Blanks, other scripts, both separators; tables, pictures and work units as on Linux."""
    folder = "Zellen 細胞 ü"
    os.makedirs(path(folder, "in", "b"))
    for i, name in enumerate(("клетка 1", "cell 2", "b/zellkern é 10")):
        with open(path(folder, "in", name + ".png"), "wb") as f:
            f.write(workunit.png(GREY[i % len(GREY)]))
    pack = ["pack", "--analysis", "glcm", "--param", "levels=[8]", "--param", "distances=[1,2]", "--param",
            'maps=[{"feature":"contrast","levels":8,"offset":[1,0]}]', "--recursive", "-o"]
    r = other_system.here(tap.TEXCELL_WU, *pack, folder + "/here.zip", folder + "/in")
    if r.returncode != 0:
        tap.bail(r.stderr)
    for title, separator in (("a slash", "/"), ("a backslash", "\\")):
        unit, result, tables = (separator.join((folder, n)) for n in ("dort 那 .zip", "résultat 1.npz", "tab " + separator[0]))
        r = p.run("texcell-wu", *pack, unit, folder + separator + "in")
        tap.ok(r.returncode == 0 and read(folder + "/dort 那 .zip") == read(folder + "/here.zip"),
               "names with %s: packed to the same bytes" % title, r.stderr)
        r = p.run("texcell", "run", unit, "-o", result, "--device", "cpu")
        expected = other_system.compute_here(folder + "/here.zip", "here.npz")
        tap.ok(r.returncode == 0 and read(folder + "/résultat 1.npz") == expected,
               "names with %s: computed to the same bytes" % title, r.stderr)
        os.remove(path(folder, "résultat 1.npz"))
    same_tables(p, folder)
    r = p.run("texcell-wu", "analyse", "--analysis", "cellcount", folder + "\\in\\", "-o", folder + "\\alles ü\\")
    tap.ok(r.returncode == 0 and os.path.exists(path(folder, "alles ü", "report.html")),
           "analyse starts the texcell.exe that lies beside it", r.stdout + r.stderr)


def same_tables(p, folder):
    there, here = folder + "\\aus", folder + "/out"
    r = p.run("texcell-wu", "export", "--images", folder + "\\here.zip", "here.npz", "-o", there)
    again = p.run("texcell-wu", "export", "--images", folder + "\\here.zip", "here.npz", "-o", there)
    other_system.here(tap.TEXCELL_WU, "export", "--images", folder + "/here.zip", "here.npz", "-o", here)
    files = sorted(os.listdir(path(here)))
    same = files == sorted(os.listdir(path(folder, "aus"))) and all(read(here + "/" + f) == read(folder + "/aus/" + f)
                                                                   for f in files)
    tap.ok(r.returncode == again.returncode == 0 and len(files) > 3 and same,
           "tables and pictures: the same files with the same bytes, also where they are replaced", "%s\n%s\n" % (files, sorted(os.listdir(path(folder, "aus")))) + r.stderr + again.stderr)
    for args in (["verify", "--fraction", "1", folder + "\\here.zip", "here.npz"], ["compare", "here.npz", "here.npz"]):
        r = p.run("texcell-validate", *args)
        tap.ok(r.returncode == 0, "texcell-validate %s" % args[0], r.stdout + r.stderr)
    r = p.run("texcell-validate", "check", folder + "\\none.zip", "here.npz")
    tap.ok(r.returncode == 2 and "none.zip" in r.stderr, "what is not there is an error of its name", r.stderr)


def begun(p, unit, result):
    """A run of the unit, when it has begun to write."""
    with open(path("log"), "wb") as log:
        process = subprocess.Popen(p.argv("texcell", "run", unit, "-o", result, "--device", "cpu", "--threads", "1",
                                          "--checkpoint-every", "0.05"), cwd=FOLDER, env=p.env, stderr=log)
    for _ in range(200):
        if os.path.exists(path(result + ".checkpoint")):
            break
        time.sleep(0.05)
    return process


def locked(p):
    process = begun(p, "long.zip", "locked.npz")
    r = p.run("texcell", "run", "long.zip", "-o", "locked.npz", "--device", "cpu")
    tap.ok(process.poll() is None and r.returncode == 3 and "another texcell is at work on this result" in r.stderr,
           "a second run of the same result is refused while the first works", "exit %s\n%s" % (r.returncode, r.stderr))
    r = p.run("texcell", "run", "long.zip", "-o", ".\\long.zip", "--device", "cpu")
    tap.ok(r.returncode == 1 and "is the work unit" in r.stderr, "the work unit is not written over", r.stderr)
    process.kill()
    process.wait()
    r = p.run("texcell", "run", "long.zip", "-o", "locked.npz", "--device", "cpu")
    tap.ok(r.returncode == 0 and "going on from the checkpoint" in r.stderr, "once it is gone, another goes on", r.stderr)


def held(p):
    """Somebody reads the old result while the new one takes its name: a scanner for a moment, alone, or
    one that shares. Wine has no way to take a name from a file that is open; Windows has."""
    made = tap.run([COMPILER, "-O2", "-o", path("hold.exe"), os.path.join(tap.SRC, "tests", "windows", "hold.c")])
    if not tap.ok(made.returncode == 0, "hold.c compiles", made.stderr):
        return
    unit = next(iter(other_system.units(True)))[1]
    expected = other_system.compute_here(unit, "here.npz")
    for how in ("share", "alone"):
        with open(path("held.npz"), "wb") as f:
            f.write(b"old")
        holder = subprocess.Popen([WINE, path("hold.exe"), "held.npz", "3", how], cwd=FOLDER, env=p.env,
                                  stdout=subprocess.PIPE)
        said = holder.stdout.readline().strip()
        start = time.monotonic()
        r = p.run("texcell", "run", unit, "-o", "held.npz", "--device", "cpu", "--quiet")
        tap.ok(said == b"open" and r.returncode == 0 and read("held.npz") == expected,
               "a result that another program has open (%s) is replaced" % how,
               "%.1f s, exit %d\n%s" % (time.monotonic() - start, r.returncode, r.stderr))
        holder.kill()
        holder.wait()


def main():
    p = start()
    try:
        one_file(p)
        other_system.known_answers(p)
        other_system.same_bytes(p)
        other_system.kills(p, LONG, [item("p%d" % i, [blobs(120, 140, i)]) for i in range(3)], "glcm", 20)
        names(p)
        locked(p)
        held(p)
    finally:
        subprocess.run([os.path.join(os.path.dirname(WINE), "wineserver"), "-k"], env=p.env)
    tap.done()


main()
