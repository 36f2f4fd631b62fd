"""Tests the programs for Windows under wine. They compile with MinGW without warnings, pass the
known answers, and give the same bytes as on Linux; file names may be in any script. No work is lost
if a run is killed at any operation on files or stopped by Ctrl-C, if the disk is full, or if the
driver crashes. The compiled code is checked, too: GCC for Windows has a bug that spills AVX
registers by aligned moves to an unaligned stack, which has no effect under wine."""
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

KILLED = 137      # the exit code if tests/hooks/file_hooks.c ends the program

# Parameters that every analysis accepts, for a run long enough to be killed.
LONG = {"levels": [64], "distances": list(range(1, 17)), "window": {"shape": "disc", "radius": 5}}


def start():
    """Returns the platform, and a process that keeps wine running, as wine ends with its last
    process and takes seconds to start."""
    p = other_system.Platform("windows", COMPILER, [WINE], ".exe")
    p.env.update(WINEPREFIX=PREFIX, WINEDLLOVERRIDES="mscoree,mshtml=", LC_ALL="C.UTF-8",
                 DISPLAY="")
    compile_source("hold.exe", "hold.c")
    compile_source("driver.dll", "driver.c", "-shared", "-I", tap.SRC, "-I",
                   os.path.join(p.folder, "..", "prefix", "include"))
    r = subprocess.run([WINE, "wineboot", "-i"], env=p.env, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, timeout=300)
    if not tap.ok(r.returncode == 0, "wine starts", r.stdout.decode("utf-8", "replace")):
        tap.done()
    with open(path("lasting"), "wb"):
        pass
    return p, start_holder(p, "lasting", 3600, "share")


def compile_source(name, source, *options):
    """Compiles a source of tests/windows for Windows."""
    made = tap.run([COMPILER, "-std=gnu11", "-O2", "-o", path(name),
                    os.path.join(tap.SRC, "tests", "windows", source), *options])
    if made.returncode != 0:
        tap.bail(made.stderr)


def start_holder(p, name, seconds, how):
    """Starts a program that keeps a file open for `seconds`. how: "share" if others may open it,
    otherwise "alone"."""
    process = subprocess.Popen([WINE, path("hold.exe"), name, str(seconds), how], cwd=FOLDER,
                               env=p.env,
                               stdout=subprocess.PIPE)
    tap.ok(process.stdout.readline().strip() == b"open",
           "a program opens the file \"%s\" (%s)" % (name, how))
    return process


def end_process(process):
    process.kill()
    process.wait()


def test_dependencies(p):
    """A program needs only Windows' own DLLs, and its code has no aligned move of a wide register
    to the stack."""
    for program in ("texcell", "texcell-wu", "texcell-validate"):
        exe = os.path.join(p.folder, program + ".exe")
        text = tap.run(["x86_64-w64-mingw32-objdump", "-p", exe]).stdout
        dlls = set(re.findall(r"DLL Name: (\S+)", text))
        tap.ok(dlls and dlls <= {"KERNEL32.dll", "ADVAPI32.dll", "msvcrt.dll"},
               "%s.exe needs only the system's DLLs" % program, dlls)
    code = tap.run(["x86_64-w64-mingw32-objdump", "-d", "--no-show-raw-insn",
                    os.path.join(p.folder, "texcell.exe")]).stdout
    aligned_moves = re.findall(r"vmov(?:ap[sd]|dqa\S*|ntps)\s+(?:%[yz]mm\d+,-?\w*\(%r[sb]p|"
                               r"-?\w*\(%r[sb]p[^)]*\),%[yz]mm).*", code)
    tap.ok("%ymm" in code and not aligned_moves,
           "no wide register is moved to the stack by an aligned move",
           "\n".join(aligned_moves[:9]))


def test_names(p):
    """With file names that have blanks, other scripts and both path separators, tables, pictures
    and work units are the same as on Linux."""
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
    check_same_tables(p, folder)
    r = p.run("texcell-wu", "analyse", "--analysis", "cellcount", folder + "\\in\\", "-o",
              folder + "\\alles ü\\")
    tap.ok(r.returncode == 0 and os.path.exists(path(folder, "alles ü", "report.html")),
           "analyse starts the texcell.exe next to it", r.stdout + r.stderr)


def test_pictures(p):
    """texcell-wu reads pictures of scikit-image, and of ../shared/pictures if present, as on
    Linux."""
    shared_pictures = os.path.join(tap.SRC, "..", "shared", "pictures")
    folder = os.path.join(os.path.dirname(skimage.__file__), "data")
    files = [os.path.join(folder_, f) for folder_ in (shared_pictures, folder)
             if os.path.isdir(folder_)
             for f in sorted(os.listdir(folder_))
             if f.lower().endswith((".tif", ".tiff", ".lsm", ".stk", ".jpg", ".png", ".nii"))]
    files = files if other_system.ALL else files[::2]
    wrong, n_packed = [], 0
    pack = ["pack", "--analysis", "glcm", "--param", "distances=[1]", "-o"]
    for name in files:
        shutil.copy(name, FOLDER)
        base = os.path.basename(name)
        for unit in ("here.zip", "there.zip"):
            if os.path.exists(path(unit)):
                os.remove(path(unit))
        linux_run = other_system.here(tap.TEXCELL_WU, *pack, "here.zip", base)
        windows_run = p.run("texcell-wu", *pack, "there.zip", base)
        same = linux_run.returncode == windows_run.returncode and \
            linux_run.stderr == windows_run.stderr.replace("\r\n", "\n") and (
                linux_run.returncode != 0 or read("here.zip") == read("there.zip"))
        n_packed += linux_run.returncode == 0
        if not same:
            wrong.append("%s: %d %s\n%d %s" %
                         (base, linux_run.returncode, linux_run.stderr, windows_run.returncode,
                                               windows_run.stderr))
    tap.ok(n_packed > 4 and not wrong, "%d pictures are packed or refused as on Linux" % len(files),
           "\n".join(wrong))


def check_same_tables(p, folder):
    """export writes the same files as on Linux, and texcell-validate accepts the result."""
    windows_folder, linux_folder = folder + "\\aus", folder + "/out"
    r = p.run("texcell-wu", "export", "--images", folder + "\\here.zip", "here.npz", "-o",
              windows_folder)
    second_run = p.run("texcell-wu", "export", "--images", folder + "\\here.zip", "here.npz", "-o",
                       windows_folder)
    other_system.here(tap.TEXCELL_WU, "export", "--images", folder + "/here.zip", "here.npz", "-o",
                      linux_folder)
    files = sorted(os.listdir(path(linux_folder)))
    same = files == sorted(os.listdir(path(folder, "aus"))) and all(read(linux_folder + "/" + f) ==
                                                                    read(folder + "/aus/" + f)
                                                                   for f in files)
    tap.ok(r.returncode == second_run.returncode == 0 and len(files) > 3 and same,
           "tables and pictures: the same files with the same bytes, also when replaced",
           "%s\n%s\n" % (files, sorted(os.listdir(path(folder, "aus")))) + r.stderr +
           second_run.stderr)
    for args in (["verify", "--fraction", "1", folder + "\\here.zip", "here.npz"],
                 ["compare", "here.npz", "here.npz"]):
        r = p.run("texcell-validate", *args)
        tap.ok(r.returncode == 0, "texcell-validate %s" % args[0], r.stdout + r.stderr)
    r = p.run("texcell-validate", "check", folder + "\\none.zip", "here.npz")
    tap.ok(r.returncode == 3 and "none.zip" in r.stderr,
           "the error names the missing file", r.stderr)


def start_run(p, unit, result):
    """Starts a run. Returns when it has written its first checkpoint."""
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


def test_locks(p):
    """A second run with the same result is refused; after a kill another run continues."""
    process = start_run(p, "long.zip", "locked.npz")
    r = p.run("texcell", "run", "long.zip", "-o", "locked.npz", "--device", "cpu")
    tap.ok(process.poll() is None and r.returncode == 3 and
           "another texcell is at work on it" in r.stderr,
           "a second run of the same result is refused while the first works",
           "exit %s\n%s" % (r.returncode, r.stderr))
    r = p.run("texcell", "run", "long.zip", "-o", ".\\long.zip", "--device", "cpu")
    tap.ok(r.returncode == 1 and "is the work unit" in r.stderr,
           "a work unit in use is not overwritten", r.stderr)
    process.kill()
    process.wait()
    r = p.run("texcell", "run", "long.zip", "-o", "locked.npz", "--device", "cpu")
    tap.ok(r.returncode == 0 and "going on from the checkpoint" in r.stderr,
           "after a run was killed, another one continues", r.stderr)


def test_open_result(p):
    """Another program has the old result open while the new one replaces it: it shares the file, or
    opens it exclusively for a moment, as a virus scanner does. Only Windows, not wine, can rename
    an open file."""
    unit = next(iter(other_system.units(True)))[1]
    expected = other_system.compute_here(unit, "here.npz")
    for how in ("share", "alone"):
        with open(path("held.npz"), "wb") as f:
            f.write(b"old")
        process = start_holder(p, "held.npz", 1, how)
        start = time.monotonic()
        r = p.run("texcell", "run", unit, "-o", "held.npz", "--device", "cpu", "--quiet")
        tap.ok(r.returncode == 0 and read("held.npz") == expected,
               "a result that another program has open (%s) is replaced" % how,
               "%.1f s, exit %d\n%s" % (time.monotonic() - start, r.returncode, r.stderr))
        end_process(process)


def test_kills(p):
    """A run that writes checkpoints is killed at each of its operations on files, in a write after
    half of its bytes, and continued: the bytes are the same, and no other file is left."""
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
        left_files = [f for f in os.listdir(FOLDER) if f.startswith("files.npz.")]
        if (killed.returncode, r.returncode, left_files) != (KILLED, 0,
                                                             []) or read("files.npz") != expected:
            wrong.append("%d: exit %d, then %d, left %s\n%s" % (n, killed.returncode, r.returncode,
                                                                left_files, r.stderr))
        os.remove(path("files.npz"))
    tap.ok(n > 20 and not wrong and read("files.npz") == expected,
           "a run killed at each of %d operations on files gives the same bytes" % (n - 1),
           "\n".join(wrong[:3]))


def test_full_disk(p):
    """The result is written to a file system of one page, mounted in a separate name space, in
    which wine is started again."""
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
    output = r.stderr.decode("utf-8", "replace")
    tap.ok(r.stdout.split()[0] == b"3" and b"out.npz\n" not in r.stdout.partition(b"\n0\n")[0] and
           "No space left on device" in output,
           "a full disk: an error, and no result", r.stdout.decode() + output)
    tap.ok(r.stdout.endswith(b"\n0\nout.npz\n") and read("full.npz") == expected,
           "with free space again, the same bytes",
           r.stdout.decode() + output)


def test_ctrl_c(p):
    """Ctrl-C at a terminal stops a run, and another one continues it."""
    expected = other_system.compute_here("long.zip", "here.npz")
    argv = p.argv("texcell", "run", "long.zip", "-o", "stopped.npz", "--device", "cpu", "--threads",
                  "1")
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(FOLDER)
        os.execve(argv[0], argv, p.env)
    output, until = b"", None
    while True:
        ready = select.select([terminal], [], [], 0.05)[0]
        try:
            output += os.read(terminal, 65536) if ready else b""
        except OSError:
            break
        if until is None and b"glcm" in re.sub(rb"\x1b\[[?0-9;]*[A-Za-z]", b"", output):
            until = time.monotonic() + 0.3
        if until is not None and time.monotonic() > until:
            os.write(terminal, b"\x03")
            until = float("inf")
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    os.close(terminal)
    r = p.run("texcell", "run", "long.zip", "-o", "stopped.npz", "--device", "cpu")
    tap.ok(code == 3 and "going on from the checkpoint" in r.stderr and read("stopped.npz") ==
           expected,
           "Ctrl-C stops the run, which can be continued", "exit %d\n%r\n%s" %
           (code, output, r.stderr))


def test_driver_faults(p):
    """The OpenCL library crashes in several ways when its platforms are listed; the run then uses
    the CPU."""
    unit = next(iter(other_system.units(True)))[1]
    expected = other_system.compute_here(unit, "here.npz")
    env = p.env
    for how in ("segv", "abort", "exit", "thread") + (("hang",) if other_system.ALL else ()):
        p.env = dict(env, TEXCELL_OPENCL_LIBRARY=path("driver.dll"), FALSE_DRIVER=how)
        r = p.run("texcell", "run", unit, "-o", "driver.npz", "--device", "opencl")
        tap.ok(r.returncode == 0 and "going on with the CPU: the OpenCL driver failed: "
               "clGetPlatformIDs" in r.stderr
               and read("driver.npz") == expected,
               "a driver's fault (%s): the run uses the CPU" % how,
               r.stderr)
        os.remove(path("driver.npz"))
    p.env = env


def test_demo(p):
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
    tap.ok(r.returncode == 0 and read("there.npz") == expected,
           "the demo's pictures give the same bytes", r.stderr)


def main():
    p, lasting = start()
    try:
        test_dependencies(p)
        other_system.known_answers(p)
        other_system.for_volunteers(p)
        other_system.same_bytes(p)
        other_system.kills(p, LONG, [item("p%d" % i, [blobs(120, 140, i)]) for i in range(10)],
                           "glcm", 20)
        test_names(p)
        test_pictures(p)
        test_locks(p)
        test_open_result(p)
        test_ctrl_c(p)
        test_driver_faults(p)
        test_kills(p)
        if other_system.ALL:
            test_demo(p)
        test_full_disk(p)
    finally:
        end_process(lasting)
        subprocess.run([SERVER, "-k"], env=p.env)
    tap.done()


main()
