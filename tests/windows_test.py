"""The programs for Windows, under wine. They compile by MinGW without warnings, pass the known
answers, and give the same bytes as on Linux; file names may be in any script. Killed at any
operation on files, stopped by Ctrl-C, on a full disk, or with a driver that crashes, no work is
lost. Their instructions are read, too: GCC for Windows has a bug that spills AVX registers by
aligned moves to a stack that is not aligned, which does not show under wine."""
import os
import pty
import re
import select
import shutil
import subprocess
import time

import skimage

import other_system
import tap
from oracle import workunit
from other_system import FOLDER, path, read
from pictures import GREY, blobs
from oracle.workunit import item

WINE = "/usr/lib/wine/wine64"
COMPILER = "x86_64-w64-mingw32-gcc-posix"
SERVER = os.path.join(os.path.dirname(WINE), "wineserver64")
PREFIX = os.path.join(os.path.abspath(tap.BUILD), "wine")

KILLED = 137      # the exit code when tests/hooks/file_hooks.c ends the program

# Parameters that every analysis accepts, for a run long enough to be killed.
LONG = {"levels": [64], "distances": list(range(1, 17)), "window": {"shape": "disc", "radius": 5}}


def start():
    """Returns the platform, and a process that keeps wine running: without one wine ends, and
    starting it again takes seconds."""
    p = other_system.Platform("windows", COMPILER, [WINE], ".exe")
    p.env.update(WINEPREFIX=PREFIX, WINEDLLOVERRIDES="mscoree,mshtml=", LC_ALL="C.UTF-8",
                 DISPLAY="")
    compiled("hold.exe", "hold.c")
    compiled("driver.dll", "driver.c", "-shared", "-I", tap.SRC, "-I",
             os.path.join(p.folder, "..", "prefix", "include"))
    r = subprocess.run([WINE, "wineboot", "-i"], env=p.env, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, timeout=300)
    if not tap.ok(r.returncode == 0, "wine starts", r.stdout.decode("utf-8", "replace")):
        tap.done()
    with open(path("lasting"), "wb"):
        pass
    return p, holder(p, "lasting", 3600, "share")


def compiled(name, source, *options):
    """Compiles a source of tests/windows for Windows."""
    made = tap.run([COMPILER, "-std=gnu11", "-O2", "-o", path(name),
                    os.path.join(tap.SRC, "tests", "windows", source), *options])
    if made.returncode != 0:
        tap.bail(made.stderr)


def holder(p, name, seconds, how):
    """Starts a program that keeps a file open for so many seconds. how: "share", others may open
    it; "alone"."""
    process = subprocess.Popen([WINE, path("hold.exe"), name, str(seconds), how], cwd=FOLDER,
                               env=p.env,
                               stdout=subprocess.PIPE)
    tap.ok(process.stdout.readline().strip() == b"open",
           "a program opens the file \"%s\" (%s)" % (name, how))
    return process


def end(process):
    process.kill()
    process.wait()


def one_file(p):
    """A program needs no DLL but Windows' own, and its code has no aligned move of a wide register
    to the stack."""
    for program in ("texcell", "texcell-wu", "texcell-validate"):
        exe = os.path.join(p.folder, program + ".exe")
        text = tap.run(["x86_64-w64-mingw32-objdump", "-p", exe]).stdout
        needed = set(re.findall(r"DLL Name: (\S+)", text))
        tap.ok(needed and needed <= {"KERNEL32.dll", "ADVAPI32.dll", "msvcrt.dll"},
               "%s.exe needs only the system's DLLs" % program, needed)
    code = tap.run(["x86_64-w64-mingw32-objdump", "-d", "--no-show-raw-insn",
                    os.path.join(p.folder, "texcell.exe")]).stdout
    aligned = re.findall(r"vmov(?:ap[sd]|dqa\S*|ntps)\s+(?:%[yz]mm\d+,-?\w*\(%r[sb]p|"
                         r"-?\w*\(%r[sb]p[^)]*\),%[yz]mm).*", code)
    tap.ok("%ymm" in code and not aligned, "no wide register goes to the stack by an aligned move",
           "\n".join(aligned[:9]))


def names(p):
    """File names with blanks, in other scripts, and with both path separators; tables, pictures and
    work units are the same as on Linux."""
    folder = "Zellen 細胞 ü"
    os.makedirs(path(folder, "in", "b"))
    for i, name in enumerate(("клетка 1", "cell 2", "b/zellkern é 10")):
        with open(path(folder, "in", name + ".png"), "wb") as f:
            f.write(workunit.png(GREY[i % len(GREY)]))
    pack = ["pack", "--analysis", "glcm", "--param", "levels=[8]", "--param", "distances=[1,2]",
            "--param",
            'maps=[{"feature":"contrast","levels":8,"offset":[1,0]}]', "--recursive", "-o"]
    r = other_system.here(tap.TEXCELL_WU, *pack, folder + "/here.zip", folder + "/in")
    if r.returncode != 0:
        tap.bail(r.stderr)
    for title, separator in (("a slash", "/"), ("a backslash", "\\")):
        unit, result, tables = (separator.join((folder, n))
                                for n in ("dort 那 .zip", "résultat 1.npz", "tab " + separator[0]))
        r = p.run("texcell-wu", *pack, unit, folder + separator + "in")
        tap.ok(r.returncode == 0 and read(folder + "/dort 那 .zip") == read(folder + "/here.zip"),
               "names with %s: packed to the same bytes" % title, r.stderr)
        r = p.run("texcell", "run", unit, "-o", result, "--device", "cpu")
        expected = other_system.compute_here(folder + "/here.zip", "here.npz")
        tap.ok(r.returncode == 0 and read(folder + "/résultat 1.npz") == expected,
               "names with %s: computed to the same bytes" % title, r.stderr)
        os.remove(path(folder, "résultat 1.npz"))
    same_tables(p, folder)
    r = p.run("texcell-wu", "analyse", "--analysis", "cellcount", folder + "\\in\\", "-o",
              folder + "\\alles ü\\")
    tap.ok(r.returncode == 0 and os.path.exists(path(folder, "alles ü", "report.html")),
           "analyse starts the texcell.exe that lies beside it", r.stdout + r.stderr)


def pictures(p):
    """texcell-wu reads the same as on Linux from the files in ../shared/pictures, if present, and
    in scikit-image."""
    given = os.path.join(tap.SRC, "..", "shared", "pictures")
    folder = os.path.join(os.path.dirname(skimage.__file__), "data")
    files = [os.path.join(at, f) for at in (given, folder) if os.path.isdir(at)
             for f in sorted(os.listdir(at))
             if f.lower().endswith((".tif", ".tiff", ".lsm", ".stk", ".jpg", ".png", ".nii"))]
    files = files if other_system.ALL else files[::2]
    wrong, taken = [], 0
    pack = ["pack", "--analysis", "glcm", "--param", "distances=[1]", "-o"]
    for name in files:
        shutil.copy(name, FOLDER)
        base = os.path.basename(name)
        for unit in ("here.zip", "there.zip"):
            if os.path.exists(path(unit)):
                os.remove(path(unit))
        here = other_system.here(tap.TEXCELL_WU, *pack, "here.zip", base)
        there = p.run("texcell-wu", *pack, "there.zip", base)
        same = here.returncode == there.returncode and here.stderr == there.stderr.replace(
            "\r\n", "\n") and (
                here.returncode != 0 or read("here.zip") == read("there.zip"))
        taken += here.returncode == 0
        if not same:
            wrong.append("%s: %d %s\n%d %s" % (base, here.returncode, here.stderr, there.returncode,
                                               there.stderr))
    tap.ok(taken > 4 and not wrong, "%d pictures are packed or refused as on Linux" % len(files),
           "\n".join(wrong))


def same_tables(p, folder):
    """export writes the same files as on Linux, and texcell-validate accepts the result."""
    there, here = folder + "\\aus", folder + "/out"
    r = p.run("texcell-wu", "export", "--images", folder + "\\here.zip", "here.npz", "-o", there)
    again = p.run("texcell-wu", "export", "--images", folder + "\\here.zip", "here.npz", "-o",
                  there)
    other_system.here(tap.TEXCELL_WU, "export", "--images", folder + "/here.zip", "here.npz", "-o",
                      here)
    files = sorted(os.listdir(path(here)))
    same = files == sorted(os.listdir(path(folder, "aus"))) and all(read(here + "/" + f) ==
                                                                    read(folder + "/aus/" + f)
                                                                   for f in files)
    tap.ok(r.returncode == again.returncode == 0 and len(files) > 3 and same,
           "tables and pictures: the same files with the same bytes, also where they are replaced",
           "%s\n%s\n" % (files, sorted(os.listdir(path(folder, "aus")))) + r.stderr + again.stderr)
    for args in (["verify", "--fraction", "1", folder + "\\here.zip", "here.npz"],
                 ["compare", "here.npz", "here.npz"]):
        r = p.run("texcell-validate", *args)
        tap.ok(r.returncode == 0, "texcell-validate %s" % args[0], r.stdout + r.stderr)
    r = p.run("texcell-validate", "check", folder + "\\none.zip", "here.npz")
    tap.ok(r.returncode == 3 and "none.zip" in r.stderr,
           "the error names the missing file", r.stderr)


def begun(p, unit, result):
    """Starts a run, and returns when it has written its first checkpoint."""
    with open(path("log"), "wb") as log:
        process = subprocess.Popen(p.argv("texcell", "run", unit, "-o", result, "--device", "cpu",
                                          "--threads", "1",
                                          "--checkpoint-every", "0.05"), cwd=FOLDER, env=p.env,
                                   stderr=log)
    for _ in range(200):
        if os.path.exists(path(result + ".checkpoint")):
            break
        time.sleep(0.05)
    return process


def locked(p):
    """A second run on the same result is refused; after a kill another run continues."""
    process = begun(p, "long.zip", "locked.npz")
    r = p.run("texcell", "run", "long.zip", "-o", "locked.npz", "--device", "cpu")
    tap.ok(process.poll() is None and r.returncode == 3 and
           "another texcell is at work on this result" in r.stderr,
           "a second run of the same result is refused while the first works",
           "exit %s\n%s" % (r.returncode, r.stderr))
    r = p.run("texcell", "run", "long.zip", "-o", ".\\long.zip", "--device", "cpu")
    tap.ok(r.returncode == 1 and "is the work unit" in r.stderr,
           "the work unit is not written over", r.stderr)
    process.kill()
    process.wait()
    r = p.run("texcell", "run", "long.zip", "-o", "locked.npz", "--device", "cpu")
    tap.ok(r.returncode == 0 and "going on from the checkpoint" in r.stderr,
           "after it was killed, another run continues", r.stderr)


def held(p):
    """Another program has the old result open while the new one replaces it: it shares the file, or
    it holds it alone for a moment, as a virus scanner does. Only Windows, not wine, can take the
    name from an open file."""
    unit = next(iter(other_system.units(True)))[1]
    expected = other_system.compute_here(unit, "here.npz")
    for how in ("share", "alone"):
        with open(path("held.npz"), "wb") as f:
            f.write(b"old")
        process = holder(p, "held.npz", 1, how)
        start = time.monotonic()
        r = p.run("texcell", "run", unit, "-o", "held.npz", "--device", "cpu", "--quiet")
        tap.ok(r.returncode == 0 and read("held.npz") == expected,
               "a result that another program has open (%s) is replaced" % how,
               "%.1f s, exit %d\n%s" % (time.monotonic() - start, r.returncode, r.stderr))
        end(process)


def at_every_operation(p):
    """A run that writes checkpoints is killed at each of its operations on files, in the middle of
    a write where it is one, and continued: the bytes are the same, and no other file is left."""
    made = tap.run(["make", "-s", "-C", p.folder, "tests/texcell_test.exe"])
    if not tap.ok(made.returncode == 0, "texcell with the hooks of tests compiles",
                  made.stdout + made.stderr):
        return
    workunit.write(path("files.zip"), "glcm", {"levels": [8], "distances": [1]},
                   [item("p%d" % i, [GREY[i]]) for i in range(2)])
    expected = other_system.compute_here("files.zip", "here.npz")
    argv = ["files.zip", "-o", "files.npz", "--device", "cpu", "--threads", "1", "--quiet"]
    env, wrong, n = dict(p.env), [], 0
    while True:
        n += 1
        p.env = dict(env, TEXCELL_TEST_KILL_AT=str(n), TEXCELL_TEST_CHECKPOINT_EVERY_CALLS="2")
        killed = p.run("tests/texcell_test", "run", *argv)
        p.env = env
        if killed.returncode == 0:
            break
        r = p.run("texcell", "run", *argv)
        left = [f for f in os.listdir(FOLDER) if f.startswith("files.npz.")]
        if (killed.returncode, r.returncode, left) != (KILLED, 0,
                                                       []) or read("files.npz") != expected:
            wrong.append("%d: exit %d, then %d, left %s\n%s" % (n, killed.returncode, r.returncode,
                                                                left, r.stderr))
        os.remove(path("files.npz"))
    tap.ok(n > 20 and not wrong and read("files.npz") == expected,
           "ended at each of %d operations on files, it gives the same bytes" % (n - 1),
           "\n".join(wrong[:3]))


def full(p):
    """The result is written to a file system of one page, mounted in a name space of its own, in
    which wine starts again."""
    script = """mount -t tmpfs -o size=4k tmpfs "$1" && cd "$1" || exit 99
        shift; "$@"; echo $?; ls; mount -o remount,size=1m tmpfs . ; "$@"; echo $?; ls; cat out.npz > ../full.npz; "$0" -k"""  # noqa: E501
    os.mkdir(path("disk"))
    subprocess.run([SERVER, "-k"], env=p.env)
    workunit.write(path("full.zip"), "cellcount", {"threshold": 100},
                   [item("p%d" % i, [blobs(200, 240, i)]) for i in range(9)])
    expected = other_system.compute_here("full.zip", "here.npz")
    try:
        r = subprocess.run(["unshare", "-rm", "sh", "-c", script, SERVER, path("disk")] + p.argv(
            "texcell", "run", "../full.zip", "-o", "out.npz", "--device", "cpu", "--quiet"),
                           env=p.env, timeout=300,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=FOLDER)
    except OSError:
        r = None
    if r is None or not r.stdout:
        tap.skip("a full disk", "no name space with a file system of its own here")
        return
    said = r.stderr.decode("utf-8", "replace")
    tap.ok(r.stdout.split()[0] == b"3" and b"out.npz\n" not in r.stdout.partition(b"\n0\n")[0] and
           "No space left on device" in said,
           "a full disk: an error, and no result", r.stdout.decode() + said)
    tap.ok(r.stdout.endswith(b"\n0\nout.npz\n") and read("full.npz") == expected,
           "with room again, the same bytes",
           r.stdout.decode() + said)


def stopped(p):
    """Ctrl-C at a terminal: the run stops, and another one continues it."""
    expected = other_system.compute_here("long.zip", "here.npz")
    argv = p.argv("texcell", "run", "long.zip", "-o", "stopped.npz", "--device", "cpu", "--threads",
                  "1")
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(FOLDER)
        os.execve(argv[0], argv, p.env)
    said, until = b"", None
    while True:
        ready = select.select([terminal], [], [], 0.05)[0]
        try:
            said += os.read(terminal, 65536) if ready else b""
        except OSError:
            break
        if until is None and b"glcm" in re.sub(rb"\x1b\[[?0-9;]*[A-Za-z]", b"", said):
            until = time.monotonic() + 0.3
        if until is not None and time.monotonic() > until:
            os.write(terminal, b"\x03")
            until = float("inf")
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    os.close(terminal)
    r = p.run("texcell", "run", "long.zip", "-o", "stopped.npz", "--device", "cpu")
    tap.ok(code == 3 and "going on from the checkpoint" in r.stderr and read("stopped.npz") ==
           expected,
           "Ctrl-C: it stops, and can be continued", "exit %d\n%r\n%s" % (code, said, r.stderr))


def driver_faults(p):
    """The OpenCL library crashes in several ways when it is asked for its platforms; the CPU takes
    over."""
    unit = next(iter(other_system.units(True)))[1]
    expected = other_system.compute_here(unit, "here.npz")
    env = p.env
    for how in ("segv", "abort", "exit", "thread") + (("hang",) if other_system.ALL else ()):
        p.env = dict(env, TEXCELL_OPENCL_LIBRARY=path("driver.dll"), FALSE_DRIVER=how)
        r = p.run("texcell", "run", unit, "-o", "driver.npz", "--device", "opencl")
        tap.ok(r.returncode == 0 and "going on with the CPU: the OpenCL driver failed: "
               "clGetPlatformIDs" in r.stderr
               and read("driver.npz") == expected,
               "a driver's fault (%s): the CPU takes over" % how,
               r.stderr)
        os.remove(path("driver.npz"))
    p.env = env


def demo(p):
    """The pictures of ./bootstrap demo."""
    pictures = [os.path.join(os.path.dirname(skimage.__file__), "data", name + ".png")
                for name in ("ihc", "cell", "gravel")]
    maps = ('[{"feature":"entropy","levels":64,"offset":[1,0]},{"feature":"contrast","levels":64,'
            '"offset":[1,0]}]')
    pack = ["pack", "--analysis", "glcm", "--param", "preset=hcc", "--param", "distances=[1,2,4,8]",
            "--param", 'roi={"type":"all"}',
            "--param", "maps=" + maps, "-o"]
    for name in pictures:
        shutil.copy(name, FOLDER)
    names_ = [os.path.basename(name) for name in pictures]
    other_system.here(tap.TEXCELL_WU, *pack, "demo.zip", *names_)
    r = p.run("texcell-wu", *pack, "there.zip", *names_)
    tap.ok(r.returncode == 0 and read("there.zip") == read("demo.zip"),
           "the demo's pictures are packed to the same bytes", r.stderr)
    expected = other_system.compute_here("demo.zip", "here.npz")
    r = p.run("texcell", "run", "demo.zip", "-o", "there.npz", "--device", "cpu", "--quiet")
    tap.ok(r.returncode == 0 and read("there.npz") == expected, "and give the same bytes", r.stderr)


def main():
    p, lasting = start()
    try:
        one_file(p)
        other_system.known_answers(p)
        other_system.for_volunteers(p)
        other_system.same_bytes(p)
        other_system.kills(p, LONG, [item("p%d" % i, [blobs(120, 140, i)]) for i in range(10)],
                           "glcm", 20)
        names(p)
        pictures(p)
        locked(p)
        held(p)
        stopped(p)
        driver_faults(p)
        at_every_operation(p)
        if other_system.ALL:
            demo(p)
        full(p)
    finally:
        end(lasting)
        subprocess.run([SERVER, "-k"], env=p.env)
    tap.done()


main()
