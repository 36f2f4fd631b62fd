"""Tests that malicious code inside a program that reads an untrusted file (simulated by a preloaded
library) cannot do harm: it can open only the files that the program named, and make only the system
calls on a list; and it inherits no descriptor from the process that started the program."""
import contextlib
import os
import re
import shutil
import socket
import sqlite3
import subprocess

import numpy as np

import tap
from oracle import workunit
from oracle.workunit import item

FOLDER = tap.scratch()
LIBRARY = os.path.join(FOLDER, "break_out.so")


def path(*names):
    return os.path.join(FOLDER, *names)


def files():
    """Makes a BOINC project's folders. Returns the paths of a work unit and of three uploads of its
    result."""
    for name in ("upload", "download/3f", "tmp_host", "elsewhere", "private", "pages", "pictures"):
        os.makedirs(path(name))
    y, x = np.indices((40, 50))
    picture = np.where((y % 12 < 5) & (x % 14 < 6), 40, 200).astype(np.uint8)
    unit = workunit.write(path("download/3f/drops_1.zip"), "cellcount",
                          {"labels": True, "threshold": 128}, [item("a", [picture])])
    up = [path("upload", n) for n in ("drops_1_0_r1_0", "drops_1_1_r2_0", "drops_1_2_r3_0")]
    run = tap.run([tap.TEXCELL, "run", unit, "-o", up[0], "--device", "cpu", "--quiet"])
    tap.ok(run.returncode == 0, "the result", run.stderr)
    for other in up[1:]:
        shutil.copy(up[0], other)
    with open(up[1], "ab") as f:       # so that it is compared in full
        f.write(b" ")
    with open(path("pictures/a.png"), "wb") as f:
        f.write(workunit.png(picture))
    with open(path("victim"), "w") as f:
        f.write("a secret")
    return unit, up


INHERITED = 200                # descriptors 200 to 202 are inherited, and must be closed
MAKES, LOCKS = 1, 2            # OS_CALLS_MODIFY_FILES and OS_CALLS_LOCK_FILES


def broken(argv, at, calls=None, expect=None):
    """Runs a program with the library, which attacks when the program reads the file `at` (@N: at
    offset N). Returns the run, the successful attempts, and the number of attempts. calls: the
    OS_CALLS_ that the program needs."""
    env = dict(os.environ, LD_PRELOAD=LIBRARY, BREAK_AT=at, BREAK_VICTIM=path("victim"),
               BREAK_FOLDER=path("elsewhere"), TMPDIR=path("private"),
               BREAK_INHERITED=str(INHERITED))
    env["BREAK_AT"], _, env["BREAK_FROM"] = at.partition("@")
    if calls is not None:
        env["BREAK_CALLS"] = str(calls)
    ends, pair = os.pipe(), socket.socketpair()
    with open(path("log"), "w+") as log:
        given = [ends[1], pair[0].fileno(), log.fileno()]
        run = subprocess.run(argv, cwd=path("tmp_host"), env=env, stdin=pair[1],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             timeout=180, close_fds=False, preexec_fn=lambda: [
                                 os.dup2(fd, INHERITED + i) for i, fd in enumerate(given)])
    for fd in ends:
        os.close(fd)
    for end in pair:
        end.close()
    return (run, re.findall("broke out: (.*)", run.stderr),
            sum(int(n) for n in re.findall("tried: ([0-9]+)", run.stderr)))


def tables():
    """The filter of system calls gives the right answer for each call, on this processor and on
    another one."""
    for name, compiler, runner in (("this processor", os.environ.get("CC", "cc"), []),
                                   ("arm64", "aarch64-linux-gnu-gcc",
                                    ["qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu"])):
        if not all(shutil.which(program) for program in [compiler.split()[0], *runner[:1]]):
            tap.skip("the list of calls, " + name, "no compiler")
            continue
        program = path("call_filter")
        made = tap.run([*compiler.split(), "-std=gnu11", "-D_GNU_SOURCE", "-I", tap.SRC, "-I",
                        tap.BUILD, "-o", program,
                        os.path.join(tap.SRC, "tests", "faults", "call_filter.c")])
        run = tap.run([*runner, program]) if made.returncode == 0 else made
        answer = re.search(r"([0-9]+) asked, 0 wrong", run.stdout)
        tap.ok(run.returncode == 0 and answer and int(answer.group(1)) > 500000,
               "the list of calls, " + name, run.stdout[-2000:] + run.stderr)


def no_landlock(unit, result):
    """With a kernel without Landlock, programs report this with --version and do their work."""
    program = path("no_landlock")
    made = tap.run([os.environ.get("CC", "cc"), "-o", program,
                    os.path.join(tap.SRC, "tests", "faults", "no_landlock.c")])
    tap.ok(made.returncode == 0, "no_landlock.c compiles", made.stderr)
    version = tap.run([program, tap.TEXCELL_VALIDATE, "--version"]).stdout
    tap.ok("not confined when it reads files: no Landlock" in version,
           "without Landlock --version reports this", version)
    for argv in ([tap.TEXCELL, "run", unit, "-o", path("no_landlock.npz"), "--device", "cpu",
                  "--quiet"], [tap.TEXCELL_VALIDATE, "check", unit, result],
                 [tap.TEXCELL_ASSIMILATE, "--db", path("no_landlock.sqlite"), unit, result],
                 [tap.TEXCELL_WU, "show", result]):
        run = tap.run([program, *argv])
        tap.ok(run.returncode == 0,
               "without Landlock %s does its work"
               % " ".join(os.path.basename(a) for a in argv[:2]), run.stderr)


def main():
    made = tap.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-o", LIBRARY,
                    os.path.join(tap.SRC, "tests", "faults", "break_out.c"), "-ldl", "-pthread"])
    tap.ok(made.returncode == 0, "break_out.c compiles", made.stderr)
    tables()
    version = tap.run([tap.TEXCELL_VALIDATE, "--version"]).stdout
    tap.ok(("confined by Landlock" in version) != ("not confined" in version),
           "--version reports whether the kernel has Landlock", version)
    if "not confined" in version or tap.sanitized():
        tap.skip("no attack succeeds in a confined program",
                 "no Landlock, or a build that does not confine itself")
        tap.done()
    landlock = int(re.search("Landlock ([0-9]+)", version).group(1))
    unit, up = files()
    no_landlock(unit, up[0])
    victim, elsewhere, private = path("victim"), path("elsewhere"), path("private")
    run = broken([tap.TEXCELL, "run", unit, "-o", path("r.npz"), "--device", "cpu", "--quiet"],
                 "drops_1.zip")
    tap.ok(len(run[1]) > 15, "attacks succeed in a program that is not confined", run[0].stderr)
    for name in os.listdir(elsewhere):
        os.remove(os.path.join(elsewhere, name))
    with open(victim, "w") as f:
        f.write("a secret")
    validate, assimilate, wu = tap.TEXCELL_VALIDATE, tap.TEXCELL_ASSIMILATE, tap.TEXCELL_WU
    os.mkdir(path("db"))
    tap.run([assimilate, "create", "--db", path("db", "d.sqlite")])
    both = MAKES | LOCKS
    cases = [
        ([validate, "check", unit, up[0]], "drops_1_0_r1_0", 0, 0),
        ([validate, "verify", "--fraction", "1", "--threads", "2", unit, up[0]], "drops_1_0_r1_0",
         0, 0),
        ([validate, "compare", up[0], up[2]], "drops_1_0_r1_0", 0, 0),
        ([validate, "script-init", "--accepted", path("accepted"), "--quarantine",
          path("quarantine"), "--alone", path("none"), up[0]],
         private, 0, MAKES),
        ([validate, "script-compare", up[0], up[2]], private, 0, MAKES),
        ([validate, "script-init", "--accepted", path("accepted"), "--quarantine",
          path("quarantine"), path("upload/x_0_r1_0")],
         private, 2, MAKES),
        ([validate, "script-init", "--accepted", path("accepted"), "--quarantine",
          path("quarantine"), up[1]], private, 2, MAKES),
        ([assimilate, "script", "--db", path("db", "d.sqlite"), "--accepted", path("accepted"), "5",
          up[0]], private, 0, both),
        ([assimilate, "script", "--db", path("db", "d.sqlite"), "6", path("upload/missing_0_r1_0")],
         private, 0, both),
        ([assimilate, "--db", path("db", "e.sqlite"), unit, up[0]], "drops_1_0_r1_0", 0, both),
        # The data set is open before the process is confined; its tables follow its schema.
        ([assimilate, "export", "--db", path("db", "e.sqlite"), "-o", path("tables_of_all")],
         "e.sqlite@98304", 0, both),
        ([assimilate, "report", "--db", path("db", "e.sqlite"), "-o", path("pages/all.html")],
         "e.sqlite@98304", 0, both),
        ([wu, "show", up[0]], "drops_1_0_r1_0", 0, 0),
        ([wu, "show", "--needs", unit], "drops_1.zip", 0, 0),
        ([wu, "export", up[0], "--images", unit, "--tiff", "--geojson", "-o", path("tables")],
         "drops_1_0_r1_0", 0, both),
        ([wu, "report", up[0], "--images", unit, "-o", path("pages/p.html")], "drops_1_0_r1_0", 0,
         both),
        ([wu, "pack", "--analysis", "voting", "--param", "radius=4", "-o", path("pages/w.zip"),
          path("pictures/a.png")], "w.zip", 0, both),
    ]
    shutil.copy(unit, path("download/x.zip"))
    with open(path("upload/x_0_r1_0"), "wb") as f:
        f.write(b"no result")
    for argv, attacked_file, code, calls in cases:
        title = " ".join([os.path.basename(argv[0])] + argv[1:2] + [os.path.basename(argv[-1])])
        alone = sorted(os.listdir(elsewhere))
        run, out, n = broken(argv, attacked_file, calls)
        # Older versions of Landlock do not restrict these.
        out = [o for o in out if not (landlock < 3 and "O_TRUNC" in o) and
               not (landlock < 6 and "tgkill" in o)]
        with open(victim) as f:
            whole = f.read() == "a secret" or landlock < 3
        tap.ok(not out and whole and sorted(os.listdir(elsewhere)) == alone,
               "%s: none of %d attacks succeeds" % (title, n), run.stderr)
        tap.ok(run.returncode == code and (n > 0 or "missing" in title),
               "%s: exit code %d nevertheless" % (title, code), "exit %d %s" %
               (run.returncode, run.stderr))
    tap.ok(os.listdir(path("private")) == [], "no private copy is left",
           os.listdir(path("private")))
    tap.ok(sorted(os.listdir(path("quarantine"))) == ["drops_1_1_r2_0", "x_0_r1_0"],
           "refused results are in quarantine",
           os.listdir(path("quarantine")))
    tap.ok(sorted(os.listdir(path("db"))) == ["d.sqlite", "d.sqlite-shm", "d.sqlite-wal",
                                              "d.sqlite.files", "e.sqlite", "e.sqlite-shm",
                                              "e.sqlite-wal",
                                               "e.sqlite.files"],
           "the data sets and their files are complete", os.listdir(path("db")))
    # A data set that somebody has switched from a write-ahead log to another journal.
    with contextlib.closing(sqlite3.connect(path("db", "d.sqlite"))) as db:
        tap.ok(db.execute("PRAGMA journal_mode=DELETE").fetchone()[0] == "delete",
               "the data set has no write-ahead log any more")
    shutil.copy(up[0], path("upload/y_0_r1_0"))
    run = tap.run([assimilate, "script", "--db", path("db", "d.sqlite"), "7",
                   path("upload/y_0_r1_0")], cwd=path("tmp_host"))
    tap.ok(run.returncode == 0,
           "a result is stored in a data set without a write-ahead log", run.stderr)
    # The folders of downloads and uploads may be links to other disks.
    os.makedirs(path("other_disk"))
    os.rename(path("download/3f"), path("other_disk/3f"))
    os.symlink(path("other_disk/3f"), path("download/3f"))
    os.rename(path("upload"), path("other_disk/upload"))
    os.symlink(path("other_disk/upload"), path("upload"))
    run = tap.run([validate, "script-init", "--accepted", path("accepted"), up[0]],
                  cwd=path("tmp_host"))
    tap.ok(run.returncode == 0, "folders that are links are accepted", run.stderr)
    tap.done()


if __name__ == "__main__":
    main()
