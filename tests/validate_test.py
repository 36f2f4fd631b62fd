"""Tests texcell-validate: the command line and its exit codes, the scripts for BOINC's
script_validator, how often verify finds a forged result, its limits of time and memory, and how
long compare takes. validate_forgeries.py tests which results are refused."""
import fractions
import hashlib
import math
import os
import re
import resource
import shutil
import subprocess
import threading
import time
import zipfile
import zlib

import numpy as np

import forge
import tap
from oracle import workunit
from oracle.workunit import item

FOLDER = tap.scratch()


def path(*names):
    return os.path.join(FOLDER, *names)


def validate(*args, **kw):
    return tap.run([tap.TEXCELL_VALIDATE, *args], timeout=60, **kw)


def expect(name, code, run, out="", err=""):
    good = run.returncode == code and re.search(out, run.stdout) and re.search(err, run.stderr)
    return tap.ok(good, name,
                  "exit %d, not %d\n%s%s" % (run.returncode, code, run.stdout, run.stderr))


def make(name, items, **parameters):
    unit = workunit.write(path(name + ".zip"), "cellcount",
                          dict(polarity="bright", threshold=100, **parameters), items)
    result = path(name + ".npz")
    run = tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet"])
    tap.ok(run.returncode == 0, name + ": computed", run.stderr)
    return unit, result


def squares(i, size=12):
    picture = np.full((size, size), 20, np.uint8)
    picture[2:5, 2:5 + i % 3] = 150 + i % 50
    picture[7:10, 6:9] = 200
    return picture


def small(n):
    return [item("i%03d" % i, [squares(i)]) for i in range(n)]


# --- the identity in the result ---

def test_identity():
    unit, result = make("identity", small(2))
    with open(unit, "rb") as f:
        body = f.read()
    identity_of_unit = {"crc32": "%08x" % zlib.crc32(body), "size": len(body),
                        "sha256": hashlib.sha256(body).hexdigest()}
    honest = forge.Result(result).json
    tap.ok(honest["version"] == 3 and honest["workunit"] == identity_of_unit,
           "the result has the work unit's CRC-32, size and SHA-256", honest["workunit"])


# --- the command line --------------------------------------------------------------------

def test_command_line(unit, result):
    run = validate("--help")
    expect("--help", 0, run, "script-init.*\n(.*\n)*Exit codes")
    expect("--version", 0, validate("--version"), "^texcell-validate [0-9]")
    expect("check", 0, validate("check", unit, result), "valid\n$", "^$")
    expect("compare", 0, validate("compare", result, result), "^match\n$", "^$")
    expect("no command", 1, validate(), "^$",
           "^usage: (.*\n)*texcell-validate: error: nothing to do; .*\n$")
    for args in (["chek", unit, result], ["check"], ["check", unit],
                 ["check", unit, result, result],
                 ["compare", result], ["compare", result, result, result],
                 ["check", "--fraction", "1", unit, result],
                 ["verify", unit, result], ["verify", "--fraction", "0", unit, result],
                 ["verify", "--fraction", "1.5", unit, result],
                 ["verify", "--fraction", "nan", unit, result],
                 ["verify", "--fraction", "half", unit, result], ["verify", "--fraction"],
                 ["verify", "--fraction", "1", "--seed", "-1", unit, result],
                 ["verify", "--seed", "1", unit, result],
                 ["verify", "--fraction", "1", "--seed", "99999999999999999999", unit, result],
                 ["verify", "--fraction", "1", "--threads", "0", unit, result],
                 ["verify", "--fraction", "1", "--bogus", "0", unit, result],
                 ["verify", "--workunits", ".", "--fraction", "1", unit, result], ["script-init"],
                 ["script-init", result, result], ["script-init", "--workunits"],
                 ["script-init", ""],
                 ["script-init", "--seed", "x", result],
                 ["script-init", "--chance", "0.5", result],
                 ["script-init", "--chance", "2", "--fraction", "1", result],
                 ["check", "--chance", "0.5", unit, result], ["script-compare"],
                 ["script-compare", result],
                 ["script-compare", result, result, result],
                 ["script-compare", "--workunits", ".", result, result]):
        expect("bad usage: %s" % " ".join(a if "/" not in a else "FILE" for a in args), 1,
               validate(*args), "^$",
               "^texcell-validate: error: .*\n$")
    # These command lines are wrong whatever the result is.
    for verb in (["check"], ["verify", "--fraction", "1"]):
        expect(verb[0] + ": no such work unit", 3, validate(*verb, path("no.zip"), result), "^$",
               "no.zip: there is no such file")
        expect(verb[0] + ": no such result", 3, validate(*verb, unit, path("no.npz")), "^$",
               "no.npz: there is no such file")
    expect("compare: no such result", 3, validate("compare", result, path("no.npz")), "^$",
           "no.npz: there is no such file")
    expect("a folder for a result", 3, validate("check", unit, FOLDER), "^$", "is a folder")
    expect("a pipe for a result", 3,
           validate("check", unit, "/dev/stdin", stdin=subprocess.PIPE), "^$",
           "/dev/stdin: is not a regular file")
    texture = workunit.write(path("texture.zip"), "glcm", {}, small(1))
    expect("a result of another analysis, with more members", 2,
           validate("check", texture, result), "^$", '"workunit" differs')
    os.makedirs(path("read_only"))
    os.chmod(path("read_only"), 0o555)
    os.chmod(FOLDER, 0o755)
    user = {"user": "nobody"} if os.getuid() == 0 else {}
    if validate("check", unit, result, **user).returncode == 0:
        expect("--accepted with a folder that may not be written", 3,
               validate("check", "--accepted", path("read_only"), unit, result, **user), "^$",
               "read_only: cannot be written: Permission denied")
    expect("a result for a work unit", 3, validate("check", result, result), "^$",
           "is a result, not a work unit")
    expect("check says what it looked at", 0, validate("check", "--seed", "5", unit, result),
           "^looked at [1-9] of [1-9] items?, computed [0-9] again .--seed 5.\nvalid\n$", "^$")
    expect("and nothing where it did not", 0, validate("check", "--no-pixels", unit, result),
           "^valid\n$", "^$")
    with zipfile.ZipFile(unit) as z:
        member = next(m for m in z.infolist() if m.filename.endswith(".png"))
    with open(unit, "rb") as f:
        body = bytearray(f.read())
    body[member.header_offset + 30 + len(member.filename) + 60] ^= 1
    with open(path("damaged.zip"), "wb") as f:
        f.write(body)
    expect("a damaged work unit", 3, validate("check", "--no-pixels", path("damaged.zip"), result),
           "^$", "damaged.zip: member .* is corrupt")
    with open("/dev/full", "w") as full:
        run = tap.subprocess.run([tap.TEXCELL_VALIDATE, "check", unit, result], stdout=full)
    tap.ok(run.returncode == 3, "if the answer cannot be written, the exit code is 3 (try later)")


# A preloaded library: crashes the child process in which a script opens a file, not its parent.
CRASH = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

static pid_t first;

__attribute__((constructor)) static void begin(void)
{
    first = getpid();
}

int open(const char *path, int flags, ...)
{
    int (*next)(const char *, int, ...);

    if (getpid() != first)
        raise(SIGSEGV);
    *(void **)&next = dlsym(RTLD_NEXT, "open");
    return next(path, flags);
}

int open64(const char *path, int flags, ...)
{
    return open(path, flags);
}
"""


def compile_crash_library():
    library = path("crash.so")
    with open(path("crash.c"), "w") as f:
        f.write(CRASH)
    made = tap.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", library, path("crash.c"),
                    "-ldl"])
    tap.ok(made.returncode == 0, "the library that crashes a process compiles", made.stderr)
    return dict(os.environ, LD_PRELOAD=library)


# --- scripts -----------------------------------------------------------------------------------

def project(unit, result):
    """Makes a BOINC project's folders. Returns a function that runs a script in them."""
    shutil.rmtree(path("project"), ignore_errors=True)
    for folder in ("download/3f", "upload/1a", "tmp_host", "copies"):
        os.makedirs(path("project", folder))
    shutil.copy(unit, path("project/download/3f/drops_1.zip"))
    for name in ("drops_1_0_r123456_0", "drops_1_1_r77_0", "drops_1_12_0", "drops_2_0_r1_0",
                 "nameless"):
        shutil.copy(result, path("project/upload/1a", name))
    return lambda *args, **kw: validate(*args, cwd=path("project/tmp_host"), **kw)


def test_scripts(unit, result):
    script = project(unit, result)
    up = path("project/upload/1a/")
    one, other = up + "drops_1_0_r123456_0", up + "drops_1_1_r77_0"
    expect("script-init finds the work unit in the fan-out", 0, script("script-init", one),
           "valid\n$", "^$")
    expect("script-init knows names of old servers", 0, script("script-init", up + "drops_1_12_0"),
           "valid\n$")
    expect("script-compare: a match", 0, script("script-compare", one, other), "^match\n$", "^$")
    expect("script-init: a folder without fan-out", 0,
           script("script-init", "--workunits", path("project/download/3f"), one), "valid\n$")
    expect("script-init with verification", 0, script("script-init", "--fraction", "0.5", one),
           "^computing [0-9]+ of [0-9]+ items again, chosen by --seed [0-9]+\n(.*\n)*valid\n$")

    runs = [script("script-init", "--fraction", "0.5", "--chance", "0.2", "--seed", str(seed), one)
            for seed in range(150)]
    chosen = sum(r.stdout.startswith("computing") for r in runs)
    tap.ok(all(r.returncode == 0 for r in runs) and
           abs(chosen - 30) < 4 * math.sqrt(150 * 0.2 * 0.8),
           "script-init --chance 0.2: items of %d of 150 results are computed" % chosen)

    later = "^texcell-validate: error: .*\n$"
    expect("no work unit: try later", 3, script("script-init", up + "drops_2_0_r1_0"), "^$",
           "drops_2.zip is not there")
    expect("a name without a work unit: try later", 3, script("script-init", up + "nameless"), "^$",
           "not the name of")
    expect("no folder of work units: try later", 3,
           script("script-init", "--workunits", "none", one), "^$", later)
    expect("no upload: invalid", 2, script("script-init", up + "drops_1_9_r9_0"), "^$",
           "there is no such file")
    expect("no folder of uploads: try later", 3, script("script-init", path("gone/drops_1_9_r9_0")),
           "^$", later)
    expect("an upload that cannot be read: try later", 3,
           script("script-compare", "/proc/self/mem", one), "^$",
           "mem: cannot be read now")
    expect("the same as the second", 3, script("script-compare", one, "/proc/self/mem"), "^$",
           "cannot be read now")
    expect("no upload to compare: no match", 2,
           script("script-compare", one, up + "drops_1_9_r9_0"), "^$", later)

    with open(path("project/copies/drops_1.zip"), "wb") as f:
        f.write(b"PK\3\4 damaged")
    expect("a damaged work unit: try later", 3,
           script("script-init", "--workunits", path("project/copies"), one), "^$",
           later)
    r = forge.Result(result)
    r.arrays["region_mean"][0] = 201.5
    with open(other, "wb") as f:
        f.write(r.bytes())
    expect("script-init: a forged result is invalid", 2, script("script-init", other), "^$",
           "region_mean: not the mean")
    expect("script-compare: no match", 4, script("script-compare", one, other),
           r"^region_mean\[i000, row 0\]: \S+ and 201.5\nno match: ")
    with open(other, "wb") as f:
        f.write(b"")
    expect("script-init: an empty upload is invalid", 2, script("script-init", other), "^$",
           "the file is empty")
    big_unit, big_result = make("big",
                                [item("big", [np.kron(squares(1), np.ones((250, 250), np.uint8))])],
                                labels=True)
    shutil.copy(big_unit, path("project/download/big.zip"))
    shutil.copy(big_result, up + "big_0_r5_0")
    if tap.sanitized():
        tap.skip("script-init without memory: try later", "this build has sanitizers")
    else:
        run = tap.run(["prlimit", "--as=%d" % (32 << 20), tap.TEXCELL_VALIDATE, "script-init",
                       up + "big_0_r5_0"],
                      cwd=path("project/tmp_host"))
        expect("no memory: try later; the message names the upload", 3, run, "^$",
               "big_0_r5_0: .*out of memory")
        expect("ended by a signal: try later", 3,
               script("script-init", up + "big_0_r5_0", env=compile_crash_library()), "^$",
               r"big_0_r5_0: ended this program by signal 11 \(Segmentation fault\)\n$")
    expect("with memory it is valid", 0, script("script-init", up + "big_0_r5_0"), "valid\n$")
    return big_unit, big_result


def test_accepted_records(unit, result):
    """script-init records the files that it accepted; script-compare requires these records."""
    os.mkdir(path("private"))
    env = dict(os.environ, TMPDIR=path("private"))
    run = project(unit, result)
    script = lambda *args: run(*args, env=env)
    records = path("accepted")
    init = lambda file: script("script-init", "--accepted", records, file)
    compare = lambda: script("script-compare", "--accepted", records, one, other)
    up = path("project/upload/1a/")
    one, other = up + "drops_1_0_r123456_0", up + "drops_1_1_r77_0"
    expect("script-compare: no record: try later", 3, compare(), "^$",
           "drops_1_0_r123456_0: there is no record")
    expect("script-init records what it accepts", 0, init(one), "valid\n$", "^$")
    expect("script-compare: no record of the other", 3, compare(), "^$",
           "drops_1_1_r77_0: there is no record")
    expect("script-init records the other result", 0, init(other), "valid\n$", "^$")
    lines = [f.split() for f in open(os.path.join(records, "drops_1"), encoding="ascii")
             if f.endswith("_0\n")]
    tap.ok(lines == [[hashlib.sha256(open(f, "rb").read()).hexdigest(), str(os.path.getsize(f)),
                      os.path.basename(f)]
                     for f in (one, other)],
           "the record of acceptance has SHA-256, size and name of both results", lines)
    expect("script-compare: both files are as accepted", 0, compare(), "^match\n$", "^$")
    shutil.copy(result, other)
    with open(other, "r+b") as f:
        f.seek(-30, 2)
        f.write(b"\1")
    expect("script-compare: one has changed: try later", 3, compare(), "^$",
           "drops_1_1_r77_0: has changed since")
    expect("script-init checks the changed file again", 2, init(other), "^$", "drops_1_1_r77_0: ")
    shutil.copy(result, other)
    expect("script-init accepts the restored file", 0, init(other), "valid\n$")
    expect("script-compare: the restored file matches again", 0, compare(), "^match\n$")
    with open(os.path.join(records, "drops_1"), "a", encoding="ascii") as f:
        f.write("0123456789abcdef 12")
    expect("script-init adds a record after a truncated line", 0, init(other), "valid\n$")
    expect("script-compare ignores the truncated line", 0, compare(), "^match\n$")
    os.unlink(other)
    expect("script-compare: a file is missing", 2, compare(), "^$", "there is no such file")
    shutil.copy(result, other)
    with open(records + "x", "w", encoding="ascii"):
        pass
    expect("a file as the folder of records: try later", 3,
           script("script-init", "--accepted", records + "x", one), "^$")
    tap.ok(os.listdir(path("private")) == [], "script-init leaves no private copy")
    aside = path("aside")
    os.mkdir(aside)
    left = ["texcell-0123456789abcdef", "texcell-0123456789abcdee", "texcell-0123456789abcdeg",
            "texcell-0123456789abcded"]
    for name in left[:3]:
        os.mkdir(path("private", name))
    os.symlink(aside, path("private", left[3]))
    for folder in [aside] + [path("private", name) for name in left[:3]]:
        with open(os.path.join(folder, "copy"), "w", encoding="ascii"):
            pass
        if not folder.endswith("ee"):
            os.utime(folder, (1, 1))
    expect("script-init beside folders of killed processes", 0, init(one), "valid\n$")
    tap.ok(sorted(os.listdir(path("private"))) == sorted(left[1:]) and
           os.listdir(aside) == ["copy"],
           "private folders older than a day are removed, and nothing else",
           os.listdir(path("private")))
    shutil.rmtree(path("private"))
    os.mkdir(path("private"))
    env["TMPDIR"] = path("none")
    expect("no room for a copy: try later", 3, script("script-init", one), "^$", "cannot be made")


def test_identified(unit, result):
    """With --accepted the SHA-256 of a work unit is kept as long as the unit is unchanged."""
    script = project(unit, result)
    up, records, name = path("project/upload/1a/"), path("project/known"), "known_1"
    there, one = path("project/download/3f", name + ".zip"), up + name + "_0_r1_0"
    shutil.copy(unit, there)
    shutil.copy(result, one)
    check = lambda *more: validate("check", "--accepted", records, *more, there, one)
    init = lambda: script("script-init", "--accepted", records, one)

    def recorded():
        try:
            with open(os.path.join(records, name)) as f:
                return [line.split()[0] for line in f if not line.endswith(name + "_0_r1_0\n") and
                        line.strip()]
        except FileNotFoundError:
            return []

    def record(digest):
        with open(os.path.join(records, name)) as f:
            text = f.read().replace(right, digest)
        with open(os.path.join(records, name), "w") as f:
            f.write(text)

    with open(unit, "rb") as f:
        content = f.read()
    right, wrong = hashlib.sha256(content).hexdigest(), "ab" * 32
    expect("check --accepted: a unit that has just been written", 0, check(), "valid\n$", "^$")
    tap.ok(recorded() == [],
           "the SHA-256 of a unit written just now is not recorded, as the unit may still change",
           recorded())
    time.sleep(3.2)
    expect("check --accepted: a unit that is as it was", 0, check(), "valid\n$", "^$")
    tap.ok(recorded() == [right], "the SHA-256 of an older unit is recorded", recorded())
    expect("check --accepted, again", 0, check("--seed", "1"), "valid\n$", "^$")
    expect("script-init --accepted takes it from there", 0, init(), "valid\n$", "^$")
    tap.ok(recorded() == [right],
           "the SHA-256 of an unchanged unit is recorded only once", recorded())
    record(wrong)
    expect("check --accepted: the SHA-256 is taken from the record", 2, check(), "^$",
           "\"workunit\" differs from that")
    expect("script-init: nothing is refused because of a record", 3, init(), "",
           "but not when it was read again")
    before = os.stat(there)
    with open(there, "r+b") as f:
        f.write(content)
    os.utime(there, ns=(before.st_atime_ns, before.st_mtime_ns))
    tap.ok(os.stat(there).st_mtime_ns == before.st_mtime_ns, "the unit is written again, and looks "
           "as old")
    expect("check --accepted: its SHA-256 is computed", 0, check(), "valid\n$", "^$")
    for text in ("x" * 64 + " 1 2\n", "\n" * 70000, wrong[:63], "\0" * 100):
        with open(os.path.join(records, name), "w") as f:
            f.write(text)
        expect("check --accepted: a record of rubbish", 0, check(), "valid\n$", "^$")
    expect("check --accepted: a folder that cannot be made", 3,
           validate("check", "--accepted", unit + "/x", there, one), "^$", "cannot")


def test_quarantine(unit, result):
    """Refused files are moved to a quarantine of limited size, which keeps the newest."""
    script = project(unit, result)
    upload_folder, quarantine = path("project/upload/1a/"), path("quarantine")
    init = lambda file: script("script-init", "--quarantine", quarantine, file)
    good, bad, other = (upload_folder + name for name in ("drops_1_0_r123456_0", "drops_1_1_r77_0",
                                                          "drops_1_12_0"))
    expect("script-init --quarantine accepts a valid result", 0, init(good), "valid\n$")
    tap.ok(os.path.exists(good) and not os.path.exists(quarantine),
           "--quarantine: a valid file stays in its folder")
    expect("--quarantine: an undecided result", 3, init(upload_folder + "drops_2_0_r1_0"))
    tap.ok(os.path.exists(upload_folder + "drops_2_0_r1_0") and not os.path.exists(quarantine),
           "--quarantine: an undecided file stays in its folder")
    content = open(bad, "rb").read()[:-20]
    with open(bad, "wb") as f:
        f.write(content)
    expect("--quarantine: a refused result", 2, init(bad), "^$", "drops_1_1_r77_0: ")
    tap.ok(not os.path.exists(bad) and os.listdir(quarantine) == [os.path.basename(bad)]
           and open(os.path.join(quarantine, os.path.basename(bad)), "rb").read() == content,
           "a refused file is in the quarantine", os.listdir(quarantine))
    expect("a file moved to the quarantine is refused again", 2, init(bad), "^$",
           "there is no such file")
    for name, make_it in (("a pipe", os.mkfifo), ("a link", lambda p: os.symlink("/dev/zero", p)),
                          ("a folder", os.mkdir)):
        os.path.lexists(other) and os.unlink(other)
        make_it(other)
        expect(name + " is refused", 2, init(other), "^$")
        tap.ok(not os.path.lexists(other) and len(os.listdir(quarantine)) == 1, name +
               " is removed")
    with open(bad, "wb") as f:
        f.write(content)
    expect("a quarantine that cannot be made", 2,
           script("script-init", "--quarantine", "/proc/q", bad), "^$",
           "note: .*/proc/q.*the upload was not moved\n$")
    tap.ok(os.path.exists(bad), "the refused upload is still there")
    other_disk = "/dev/shm/texcell-test-%d" % os.getpid()
    if os.path.isdir("/dev/shm") and os.stat("/dev/shm").st_dev != os.stat(bad).st_dev:
        init_there = script("script-init", "--quarantine", other_disk, bad)
        there = os.listdir(other_disk)
        shutil.rmtree(other_disk)
        tap.ok(init_there.returncode == 2 and there == [os.path.basename(bad)] and
               not os.path.exists(bad), "the quarantine may be on another disk", init_there.stderr)
    else:
        tap.skip("the quarantine may be on another disk", "there is no other disk")
    for i in range(3):
        with open(os.path.join(quarantine, "large%d" % i), "wb") as f:
            f.truncate(400 << 20)
        os.utime(os.path.join(quarantine, "large%d" % i), (1000 + i, 1000 + i))
    with open(bad, "wb") as f:
        f.write(content)
    init(bad)
    tap.ok(sorted(os.listdir(quarantine)) == [os.path.basename(bad), "large1", "large2"],
           "quarantine: above 1 GiB the oldest files are removed", os.listdir(quarantine))
    for i in range(1005):
        open(os.path.join(quarantine, "small%d" % i), "wb").close()
        os.utime(os.path.join(quarantine, "small%d" % i), (10000 + i, 10000 + i))
    with open(bad, "wb") as f:
        f.write(content)
    init(bad)
    left_files = os.listdir(quarantine)
    tap.ok(len(left_files) == 1000 and os.path.basename(bad) in left_files and
           "small1004" in left_files and
           "large2" not in left_files,
           "quarantine: above 1,000 files the oldest are removed", len(left_files))


def nobody():
    """A function for preexec_fn: the child process runs as a user who is not root."""
    if os.getuid() == 0:
        os.setgid(65534)
        os.setuid(65534)


def test_waiting(unit, result):
    """--wait: a file that is unreadable for a moment delays the check, and the work is not sent out
    again."""
    script = project(unit, result)
    one, wu = path("project/upload/1a/drops_1_0_r123456_0"), path("project/download/3f/drops_1.zip")
    disk = path("project/download")
    os.rename(disk, disk + ".away")
    again = threading.Timer(0.5, os.rename, (disk + ".away", disk))
    again.start()
    expect("script-init --wait: the disk of work units comes back", 0,
           script("script-init", "--wait", "20", one), "valid\n$", "there is no such folder")
    again.join()
    begin = time.monotonic()
    shutil.copy(wu, wu + ".kept")
    os.truncate(wu, os.path.getsize(wu) // 2)
    expect("script-init --wait: a damaged work unit", 3, script("script-init", "--wait", "50", one))
    os.unlink(wu)
    expect("script-init --wait: no work unit", 3, script("script-init", "--wait", "50", one), "",
           "is not there")
    os.rename(wu + ".kept", wu)
    tap.ok(time.monotonic() - begin < 30, "a missing or damaged work unit is not waited for",
           time.monotonic() - begin)
    begin = time.monotonic()
    os.chmod(FOLDER, 0o755)
    if validate("--help", preexec_fn=nobody).returncode != 0:
        tap.skip("files without read permission", "no other user can run the program from here")
    else:
        for name, forbidden in (("an upload", one), ("a work unit", wu)):
            mode = os.stat(forbidden).st_mode & 0o777
            os.chmod(forbidden, 0)
            expect("script-init --wait: %s without read permission" % name, 3,
                   script("script-init", "--wait", "50", one, preexec_fn=nobody), "^$",
                   os.path.basename(forbidden) + ": .*: Permission denied\n$")
            os.chmod(forbidden, mode)
        tap.ok(time.monotonic() - begin < 30, "a file without read permission is not waited for",
               time.monotonic() - begin)
    begin = time.monotonic()
    expect("script-init --wait: nothing comes back", 3,
           script("script-init", "--wait", "1.2", "--workunits", path("none"), one))
    tap.ok(1 <= time.monotonic() - begin < 15, "--wait 1.2 waits between 1 and 15 s",
           time.monotonic() - begin)
    begin = time.monotonic()
    expect("--wait: a limit of memory is not waited for", 3,
           script("script-init", "--wait", "50", "--fraction", "1", "--max-memory", "1", one), "",
           "more than it may take")
    tap.ok(time.monotonic() - begin < 30,
           "--wait does not delay an answer that waiting cannot change", time.monotonic() - begin)


def test_many(unit, result):
    """One process with --many gives the same answers as a separate process for each result."""
    script, up = project(unit, result), path("project/upload/1a/")
    one, other, bad = up + "drops_1_0_r123456_0", up + "drops_1_1_r77_0", up + "drops_1_2_r5_0"
    shutil.copy(result, other)
    with open(result, "rb") as f:
        content = f.read()[:-30]
    records = path("many")

    def ask(verb, *lines):
        return script(verb, "--accepted", records, "--many",
                      input="".join(line + "\n" for line in lines))

    with open(bad, "wb") as f:
        f.write(content)
    expect("script-init --many: an answer for each line", 0,
           ask("script-init", one, bad, up + "none_1_0_r1_0", other, one + "\t" + other, "", one),
           "^0\n2\n2\n0\n1\n1\n0\n$",
           "(?s)valid\n.*%s.*takes 1 file, 2 given.*takes 1 file, 0 given" % os.path.basename(bad))
    tap.ok(os.listdir(records) == ["drops_1"], "script-init --many records accepted results",
           os.listdir(records))
    expect("script-compare --many", 0, ask("script-compare", one + "\t" + other, one + "\t" + bad,
                                           one), "^0\n3\n1\n$", "^match\n")
    with open(path("lines"), "w+") as lines:
        lines.write((one + "\n") * 3)
        lines.seek(0)
        run = subprocess.run([tap.TEXCELL_VALIDATE, "script-init", "--workunits",
                              path("project/download"), "--many"], stdin=lines,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             timeout=60)
    tap.ok(run.returncode == 0 and run.stdout == "0\n" * 3,
           "script-init --many reads lines of a file",
           run.stdout)
    expect("script-init --many: a line that is too long ends it", 1,
           ask("script-init", one, "x" * 20000, one), "^0\n$",
           "a line of standard input is too long")
    expect("--many takes no files as arguments", 1, script("script-init", "--many", one), "^$",
           "standard input only")


def test_quorum_of_one(unit, result):
    """--alone: nothing is computed again where a quorum compares results; with a quorum of one, the
    share --fraction-alone of the items is."""
    script = project(unit, result)
    one, marks = path("project/upload/1a/drops_1_0_r123456_0"), path("alone")
    init = lambda: script("script-init", "--alone", marks, "--fraction-alone", "0.5", one)
    os.makedirs(marks)
    expect("script-init --alone: a quorum of more", 0, init(), "valid\n$")
    open(os.path.join(marks, "drops"), "w").close()
    expect("script-init --alone: a quorum of one", 0, init(),
           "^computing [0-9]+ of [0-9]+ items again")
    os.rename(os.path.join(marks, "drops"), os.path.join(marks, "drops_1"))
    expect("script-init --alone: a submission of one unit", 0, init(),
           "^computing [0-9]+ of [0-9]+ items again")
    os.rename(os.path.join(marks, "drops_1"), os.path.join(marks, "dro"))
    expect("script-init --alone: another submission's mark", 0, init(), "valid\n$")


# --- verify ---------------------------------------------------------------------------------------

def probability_of_detection(n, chosen, forged):
    """The exact probability that a forged result is found, if `chosen` of n items are computed
    again and `forged` items are forged."""
    return 1 - fractions.Fraction(math.comb(n - forged, chosen), math.comb(n, chosen))


def test_probabilities():
    """The probabilities that verify prints for several numbers of items and shares."""
    for n, share in ((1, 0.01), (3, 1), (7, 0.3), (20, 0.1), (20, 0.25), (100, 0.07), (101, 0.5),
                     (250, 0.004)):
        unit, result = make("n%d" % n, small(n))
        run = validate("verify", "--fraction", str(share), unit, result)
        chosen = max(1, math.ceil(fractions.Fraction(str(share)) * n))
        lines = re.findall(r"^forging (\d+) of (\d+) items is caught with probability ([0-9.]+)$",
                           run.stdout, re.M)
        right = [float(p) == float("%.6f" % probability_of_detection(n, chosen, int(q))) for q, _,
                 p in lines]
        counts = [int(q) for q, _, _ in lines]
        expected = sorted({1, math.ceil(n / 10), math.ceil(n / 2), n})
        tap.ok(run.returncode == 0 and counts == expected and all(right) and
               run.stdout.startswith("computing %d of %d item" % (chosen, n)),
               "%d items, a share of %g: %d computed again, with the right probabilities" %
               (n, share, chosen),
               run.stdout + run.stderr)


def forge_items(honest, result, forged):
    """Forges items in a way that check cannot find: the mean of a region changes by a grey value of
    one pixel."""
    r = honest.copy()
    for i in forged:
        row = int(np.nonzero(r.arrays["region_item"] == i)[0][0])
        area = int(r.arrays["region_area"][row])
        r.arrays["region_mean"][row] = (round(r.arrays["region_mean"][row] * area) + 1) / area
    with open(result, "wb") as f:
        f.write(r.bytes())


def test_detection_rate():
    """Results with some of 20 items forged are found as often as verify states, over many seeds,
    within four standard deviations of a binomial variable."""
    n, runs = 20, 150
    unit, result = make("cheated", small(n))
    honest, rng = forge.Result(result), np.random.default_rng(8)
    for share, forged_result in ((0.1, 1), (0.1, 2), (0.1, 10), (0.25, 1), (0.25, 4), (0.5, 1)):
        forged_items = sorted(rng.choice(n, forged_result, replace=False).tolist())
        forge_items(honest, result, forged_items)
        codes = [validate("verify", "--no-pixels", "--fraction", str(share), "--seed", str(seed),
                          unit, result).returncode
                 for seed in range(runs)]
        p = float(probability_of_detection(n, math.ceil(share * n), forged_result))
        caught, bound = codes.count(4), 4 * math.sqrt(runs * p * (1 - p))
        tap.ok(set(codes) <= {0, 4} and abs(caught - runs * p) <= bound,
               "%d of %d items forged, a share of %g computed again: found %d times of %d, stated "
               "%.1f" %
               (forged_result, n, share, caught, runs,
                                                                                    runs * p),
               set(codes))
    forge_items(honest, result, range(n))
    run = validate("verify", "--no-pixels", "--fraction", "0.01", unit, result)
    expect("everything forged: caught by one item", 4, run,
           r"(?m)^region_mean\[i\d+, row 0\]: \S+ and \S+$")
    seed = re.search("--seed ([0-9]+)", run.stdout)
    second_run = validate("verify", "--no-pixels", "--fraction", "0.01", "--seed", seed.group(1),
                          unit,
                          result)
    tap.ok(second_run.stdout == run.stdout and second_run.returncode == 4,
           "a rejection can be repeated with its seed",
           second_run.stdout)
    seeds = {re.search("--seed ([0-9]+)", validate("verify", "--no-pixels", "--fraction", "0.1",
                                                   unit, result).stdout).group(1)
             for _ in range(8)}
    tap.ok(len(seeds) == 8, "each run chooses another seed", seeds)
    chosen = {i for i in range(n) for seed in range(1) if chosen_item(honest, unit, result, i)}
    tap.ok(chosen == set(range(n)), "every item can be chosen", chosen)


def chosen_item(honest, unit, result, i):
    """Whether some seed of 120 chooses item i as the only one: (19/20)^120 is 0.002."""
    forge_items(honest, result, [i])
    return any(validate("verify", "--no-pixels", "--fraction", "0.05", "--seed", str(seed), unit,
                        result).returncode == 4
               for seed in range(1000, 1120))


def test_limits(unit, result):
    dots = np.zeros((500, 500), np.uint8)
    dots[::2, ::2] = 200
    many_items = make("many", [item("many", [dots])])
    expect("more rows than may be", 2, validate("check", "--max-memory", "4", *many_items), "^$",
           "62500 rows, but there can be at most [0-9]+, or --max-memory allows")
    expect("rows in enough", 0, validate("check", "--max-memory", "8", *many_items), "valid\n$",
           "^$")
    expect("verify in no time: try later", 3,
           validate("verify", "--fraction", "1", "--max-seconds", "0.001", unit, result),
           "", "the time limit is exceeded")
    expect("verify in no memory: try later", 3,
           validate("verify", "--fraction", "1", "--max-memory", "2", unit, result),
           "", "needs [0-9]+ MiB of memory, more than it may take")
    expect("verify in time and memory, with threads", 0,
           validate("verify", "--fraction", "1", "--max-memory", "1000", "--max-seconds", "60",
                    "--threads", "2", unit,
                    result), "valid\n$")


# --- the time of compare --------------------------------------------------------------------------

def hcc(n):
    """A work unit and a result of n items with the arrays of the preset hcc."""
    r = object.__new__(forge.Result)
    axes = [{"name": "levels", "values": [16, 32, 64], "prefix": "L"},
            {"name": "distance", "values": list(range(1, 26)), "prefix": "d", "digits": 2},
            {"name": "feature", "values": ["f%02d" % f for f in range(13)]},
            {"name": "statistic", "values": ["mean", "range", "sd", "min", "max"]}]
    r.json = {"items": ["drop_%03d" % i for i in range(n)], "analysis": "glcm", "version": 3,
              "arrays": [{"array": "feature_names", "role": "titles", "table": "features"},
                         {"array": "features", "role": "value", "table": "features",
                          "title": "glcm", "axes": axes}]}
    names = ["glcm_L%d_d%02d_%s_%s" % (levels, d, f, s) for levels in axes[0]["values"]
             for d in axes[1]["values"]
             for f in axes[2]["values"] for s in axes[3]["values"]]
    r.arrays = {"feature_names": np.array(names, "U48"), "item_names": np.array(r.json["items"]),
                "features": np.random.default_rng(5).random((n, len(names)))}
    return r


def test_compare_time():
    r = hcc(100)
    for name in ("a", "b"):
        with open(path(name + ".npz"), "wb") as f:
            f.write(r.bytes())
    times = []
    for _ in range(5):
        start = resource.getrusage(resource.RUSAGE_CHILDREN)
        run = validate("compare", path("a.npz"), path("b.npz"))
        seconds = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(seconds.ru_utime + seconds.ru_stime - start.ru_utime - start.ru_stime)
    tap.ok(run.returncode == 0 and min(times) < 0.1,
           "two results of 100 items of hcc: compared in %.0f ms"
           % (1000 * min(times)), run.stdout + run.stderr)
    r.arrays["features"][7, 1234] += 1e-12
    with open(path("b.npz"), "wb") as f:
        f.write(r.bytes())
    expect("a difference is named by array, item and feature", 4,
           validate("compare", path("a.npz"), path("b.npz")),
           r"^features\[drop_007, %s\]: \S+ and \S+\nno match: " % r.arrays["feature_names"][1234],
           "^$")
    r.arrays["features"] += 1
    with open(path("b.npz"), "wb") as f:
        f.write(r.bytes())
    run = validate("compare", path("a.npz"), path("b.npz"))
    tap.ok(run.stdout.count("features[") == 10,
           "compare prints the first ten differences", run.stdout)


def main():
    unit, result = make("unit", small(6), labels=True)
    test_command_line(unit, result)
    test_identity()
    big = test_scripts(unit, result)
    test_accepted_records(unit, result)
    test_identified(unit, result)
    test_quarantine(unit, result)
    test_waiting(unit, result)
    test_many(unit, result)
    test_quorum_of_one(unit, result)
    test_probabilities()
    test_detection_rate()
    test_limits(*big)
    test_compare_time()
    tap.done()


if __name__ == "__main__":
    main()
