"""Tests that each system call of every program, for each analysis, may fail (strace injects the
errors, one at a time): there is no crash; the exit code is 0 with all work done, or 3 with a
reason; no file is incomplete; and the same command, repeated, does the work.

CALLS selects the failing calls, as places.py describes; by default every tenth of the first and
last calls of each kind in a case, and only one analysis on a device. CALLS_ONLY: a regular
expression for the names of cases."""
import collections
import contextlib
import gzip
import os
import re
import resource
import shutil
import signal
import sqlite3
import struct
import subprocess

import numpy as np
from PIL import Image

import analyses
import compiled
import places
import tap
from oracle import workunit

FOLDER = tap.scratch()
MOST = os.environ.get("CALLS", "")
SWEEP = places.Sweep("CALLS", 10)
ONLY = re.compile(os.environ.get("CALLS_ONLY", ""))
LANES = 2
CALLS = {"openat": "EMFILE", "read": "EIO", "pread64": "EIO", "write": "ENOSPC",
         "pwrite64": "ENOSPC", "fsync": "EIO", "fdatasync": "EIO",
         "rename": "EIO", "unlink": "EIO", "ftruncate": "EIO", "newfstatat": "EIO", "lseek": "EIO",
         "mmap": "ENOMEM", "mremap": "ENOMEM",
         "clone3": "EAGAIN", "clone": "EAGAIN", "vfork": "EAGAIN", "flock": "EINTR", "fcntl": "EIO",
         "mkdir": "ENOSPC",
         "rmdir": "EIO", "getdents64": "EIO", "access": "EIO", "readlink": "EIO",
         "getrandom": "EAGAIN", "wait4": "ECHILD", "close": "EIO",
         "madvise": "EINVAL", "sched_getaffinity": "EPERM", "prctl": "ENOMEM",
         "landlock_create_ruleset": "ENOMEM",
         "landlock_add_rule": "ENOMEM", "landlock_restrict_self": "ENOMEM"}
STRACE = ["strace", "-f", "-qq", "--seccomp-bpf"]
# Files whose bytes differ from run to run: data sets (times, random seeds), SQLite's own files, the
# page of a data set, and the list of exported files.
CHANGES = re.compile(r"\.sqlite(-shm|-wal|-journal)?$|page\.html$|exported\.txt$")


def path(*names):
    return os.path.join(FOLDER, *names)


def content(file):
    with open(file, "rb") as f:
        return f.read()


def make_data_set(out):
    tap.run([tap.TEXCELL_ASSIMILATE, "create", "--db", os.path.join(out, "d.sqlite")])


ASAN = b"libasan.so" in content(tap.TEXCELL)          # gcc's AddressSanitizer, a shared library


def below(folder):
    """{name: bytes} of all files of a folder; the folder's path in their content is replaced by
    OUT."""
    return {os.path.relpath(os.path.join(at, n),
                            folder): content(os.path.join(at, n)).replace(folder.encode(), b"OUT")
            for at, _, names in os.walk(folder) for n in names}


class Case:
    """A command, in which OUT is replaced by a new folder. before: a function that prepares the
    folder; good: exit codes of an allowed failure; device: the OpenCL device, or None."""

    def __init__(self, name, *argv, before=None, good=(3,), device=None):
        self.name, self.argv, self.before, self.good, self.device = name, argv, before, good, device

    def run(self, out, prefix=(), fresh=True, limits=(), **environment):
        """Runs the command. prefix: words before it; fresh: whether to empty the folder first;
        limits: (resource, soft, hard) for setrlimit."""
        if fresh:
            shutil.rmtree(out, True)
            os.makedirs(os.path.join(out, "private"))
            if self.before:
                self.before(out)
        env = dict(os.environ, TMPDIR=os.path.join(out, "private"), POCL_CACHE_DIR=path("pocl"),
                   **environment)
        argv = [*prefix, *(str(a).replace("OUT", out) for a in self.argv)]
        try:
            return tap.run(argv, cwd=path("tmp_host"), env=env, timeout=180,
                           preexec_fn=(lambda: [resource.setrlimit(of, (soft, hard))
                                                for of, soft, hard in limits]) if limits else None)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(argv, 124, "", "it did not end")

    def learn(self):
        """Records the files and the output of an undisturbed run, which later runs must equal."""
        out = path("out", self.name)
        run = self.run(out)
        self.expected, self.answer = below(out), run.stdout.replace(out, "OUT")
        return tap.ok(run.returncode == 0, self.name + ": an undisturbed run succeeds", run.stderr)

    def count(self):
        """{(call, stack of its callers): [its ordinal numbers among such calls of its thread]}. The
        stack is replaced by the case's name if strace has no -k, or if it would take too long."""
        folder, found = path("trace"), {}
        shutil.rmtree(folder, True)
        os.mkdir(folder)
        stacks = ["-k"] if MOST and tap.run(["strace", "-k", "-o", "/dev/null",
                                             "true"]).returncode == 0 else []
        self.run(path("out", self.name), [*STRACE, "-ff", *stacks, "-o", path("trace", "of"), "-e",
                                          "trace=munmap,?" + ",?".join(CALLS)])
        traces = sorted(os.listdir(folder), key=lambda n: int(n.split(".")[1]))
        for trace in traces:
            numbers = collections.Counter()
            for call, callers in re.findall(r"(?m)^(\w+)\(.*\n((?: > .*\n)*)",
                                            content(path("trace", trace)).decode(errors="replace")):
                numbers[call] += 1
                if call in CALLS:
                    found.setdefault((call, callers or self.name), set()).add(numbers[call])
        # The dynamic loader crashes if mmap fails. Its calls are those before the first munmap,
        # which frees its list of libraries.
        self.of_loader = (b"\n" + content(path("trace", traces[0]))).split(b"\nmunmap(")[0].count(
            b"\nmmap(")
        return {place: sorted(numbers) for place, numbers in found.items()}

    def wrong(self, run, out, call="", again=False):
        """The error of a run as text, or None. again: whether the run repeated a failed one."""
        found = below(out)
        if call == "unlink":                       # files whose removal was made to fail
            found = {n: data for n, data in found.items()
                     if not n.endswith((".checkpoint", ".spool"))}
        if run.returncode == 127:
            return None                            # the dynamic loader failed, not the program
        if run.returncode != 0 and (again or run.returncode not in self.good):
            return "exit %d: %s" % (run.returncode, run.stderr[-900:])
        if run.returncode != 0 and not run.stderr.strip() and call != "write":
            return "exit %d without a reason" % run.returncode
        # If SQLite could not move its log into the data set, the log stays, and is read with it.
        names, expected = [[n for n in some if not n.endswith(
            (".tmp", ".sqlite-shm", ".sqlite-wal")) and not n.startswith("private/")]
                           for some in (found, self.expected)]
        half = [n for n in names if not CHANGES.search(n) and not n.startswith("accepted/") and
                found[n] != self.expected.get(n, found[n])]
        if half:
            return "exit %d, other bytes in %s: %s" % (run.returncode, half, run.stderr[-300:])
        if run.returncode == 0 and (sorted(names) != sorted(expected) or not again and
                                    run.stdout.replace(out, "OUT") != self.answer):
            return "exit 0, but left %s, said %r" % (sorted(names), run.stdout[:200])
        for base in (n for n in names if n.endswith(".sqlite")):
            with contextlib.closing(sqlite3.connect(os.path.join(out, base))) as db:
                if db.execute("PRAGMA integrity_check").fetchone()[0] != "ok":
                    return base + " is damaged"
                if run.returncode == 0 and db.execute("SELECT COUNT(*) FROM units").fetchone()[
                        0] != 1:
                    return "exit 0, but not stored"
        return None

    def fails(self, out, call, number):
        """Runs the case while the call of this number fails. Returns (exit code, what is wrong or
        None)."""
        run = self.run(out, STRACE + ["-o", "/dev/null", "-e", "trace=" + call, "-e",
                                      "inject=%s:error=%s:when=%s" % (call, CALLS[call], number)])
        code = run.returncode
        # LLVM in PoCL replaces texcell's signal handler, and PoCL aborts when the call fails.
        if code == -signal.SIGABRT and self.device:
            run.returncode = 3
        of_loader = (call == "mmap" and code == -signal.SIGSEGV and int(number.rstrip("+")) <=
                     self.of_loader)
        bad = None if of_loader else self.wrong(run, out, call)
        if not bad and run.returncode != 0:
            bad = self.wrong(self.run(out, fresh=False), out, again=True)
            bad = bad and "the same again: " + bad
        return code, bad


def files():
    """{analysis: (work unit, result)}; writes also uploads and pictures."""
    made = {}
    for name in ("upload", "download", "tmp_host", "pictures", "base", "more"):
        os.makedirs(path(name))
    for name, of in analyses.each():
        unit, result = path("download", name + "_1.zip"), path("upload", name + "_1_0_r1_0")
        workunit.write(unit, name, *list(of.JOBS.values())[-1])
        run = tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet"])
        tap.ok(run.returncode == 0, name + ": a result", run.stderr)
        shutil.copy(result, path("upload", name + "_1_1_r2_0"))
        made[name] = unit, result
    picture = analyses.load("cellcount").SEEDS[0][1][0]["slices"][0]
    for n in ("a", "b"):
        with open(path("pictures", n + ".png"), "wb") as f:
            f.write(workunit.png(picture))
    more_pictures(picture)
    return made


# {name of a picture: options of pack for it}
PICTURES = {"grey.jpg": (), "colour.jpg": ("--channel", "grey"), "strips.tif": (), "lzw.tif": (),
            "zip.tif": (), "bits.tif": (), "jpeg.tif": (),
            "pages.tif": (), "colour.png": ("--stain", "hematoxylin", "--stains", "he"),
            "palette.png": (), "grey.nii": (),
            "grey.nii.gz": ("--scale", "0,255")}


def more_pictures(grey):
    """Writes a picture of each kind that pack reads to the folder "more"."""
    grey = Image.fromarray(grey.repeat(4, 0).repeat(4, 1))
    colour = Image.merge("RGB", (grey, grey.rotate(180), grey))
    grey.save(path("more", "grey.jpg"))
    colour.save(path("more", "colour.jpg"), progressive=True)
    for name, compression in (("strips", None), ("lzw", "tiff_lzw"), ("zip", "tiff_adobe_deflate"),
                              ("jpeg", "jpeg")):
        grey.save(path("more", name + ".tif"), compression=compression)
    grey.convert("1").save(path("more", "bits.tif"), compression="group4")
    grey.save(path("more", "pages.tif"), save_all=True, append_images=[grey.rotate(180), grey])
    colour.save(path("more", "colour.png"))
    colour.quantize(16).save(path("more", "palette.png"))
    for name, code, kind in (("grey.nii", 2, "u1"), ("grey.nii.gz", 16, "<f4")):
        head = bytearray(352)
        struct.pack_into("<i", head, 0, 348)
        struct.pack_into("<8h", head, 40, 3, *grey.size, 1, 1, 1, 1, 1)
        struct.pack_into("<hh", head, 70, code, np.dtype(kind).itemsize * 8)
        struct.pack_into("<4f", head, 76, 1, 1, 1, 1)
        struct.pack_into("<3f", head, 108, 352, 0, 0)
        head[344:348] = b"n+1\0"
        body = bytes(head) + np.asarray(grey).astype(kind).tobytes()
        with open(path("more", name), "wb") as f:
            f.write(gzip.compress(body, mtime=0) if name.endswith(".gz") else body)


def cases(made):
    """Yields the cases: run and verify for each analysis, and each other command once."""
    wu, validate, assimilate = tap.TEXCELL_WU, tap.TEXCELL_VALIDATE, tap.TEXCELL_ASSIMILATE
    for name, (unit, result) in made.items():
        yield Case("run " + name, tap.TEXCELL, "run", unit, "-o", "OUT/r.npz", "--device", "cpu",
                   "--threads", "2", "--quiet",
                   "--checkpoint-every", "0.001")
        yield Case("verify " + name, validate, "verify", "--fraction", "1", "--seed", "1", unit,
                   result)
    if re.search(r"(?<!not )usable", tap.run([tap.TEXCELL, "devices"]).stdout):
        for name, (of, _) in made.items():
            if analyses.has_opencl(name) and not ASAN:
                compiled.copy(FOLDER, name)
                yield Case("opencl " + name, tap.TEXCELL, "run", of, "-o", "OUT/r.npz", "--device",
                           "opencl", "--threads", "1",
                           "--quiet", "--checkpoint-every", "0.001", device="opencl")
    if "cellcount" not in made:                    # TEXCELL_ANALYSIS names another analysis
        return
    unit, result = made["cellcount"]
    pair = [result, result.replace("_0_r1", "_1_r2")]
    yield Case("analyse", wu, "analyse", "--analysis", "cellcount", "--suggest", "--device", "cpu",
               "--threads", "1", "-o", "OUT/r",
               path("pictures/a.png"), good=(2, 3))
    for name, options in PICTURES.items():
        yield Case("pack " + name, wu, "pack", "--analysis", "voting", "--param", "radius=4", "-o",
                   "OUT/w.zip", *options, path("more", name), good=(2, 3))
    yield Case("pack", wu, "pack", "--analysis", "cellcount", "-o", "OUT/w.zip",
               path("pictures/a.png"), path("pictures/b.png"),
               good=(2, 3))                        # 2 is allowed, as a person reads the message
    yield Case("show", wu, "show", result)
    yield Case("export", wu, "export", result, "--tiff", "--geojson", "--images", unit, "-o",
               "OUT/tables")
    yield Case("report", wu, "report", result, "--images", unit, "-o", "OUT/r.html")
    yield Case("check", validate, "check", "--seed", "1", unit, result)
    yield Case("compare", validate, "compare", *pair)
    yield Case("script-init", validate, "script-init", "--workunits", path("download"),
               "--accepted", "OUT/accepted",
               "--quarantine", "OUT/quarantine", "--seed", "1", result)
    yield Case("script-compare", validate, "script-compare", *pair)
    if os.path.exists(assimilate):
        yield Case("assimilate", assimilate, "script", "--db", "OUT/d.sqlite", "--workunits",
                   path("download"), "5", result, before=make_data_set)
        yield Case("add", assimilate, "--db", "OUT/d.sqlite", unit, result)
        base = path("base", "d.sqlite")
        tap.run([assimilate, "--db", base, unit, result])
        yield Case("data set's export", assimilate, "export", "--db", base, "-o", "OUT/tables")
        yield Case("data set's report", assimilate, "report", "--db", base, "-o", "OUT/page.html")


def sweep(case):
    """Makes the selected calls of a case fail, one at a time; one test point for all."""
    calls = case.count()
    jobs = SWEEP.trials(case.argv[0], calls)
    found = tap.side_by_side(LANES, jobs,
                             lambda lane, job: case.fails(path("out", "%s_%d" % (case.name, lane)),
                                                          job[0][0], job[1]))
    SWEEP.tell(case.name, calls, jobs, [code for _job, (code, _wrong) in found],
               ["%s %s (%s): %s\n%s" % (call, number, CALLS[call], wrong, callers)
                for ((call, callers), number), (_code, wrong) in found if wrong])


def main():
    if shutil.which("strace") is None or tap.run(["strace", "-qq", "-o", "/dev/null",
                                                  "true"]).returncode != 0 or \
            tap.sanitized():
        tap.skip("calls that fail", "no strace, or this build has sanitizers")
        tap.done()
    for case in cases(files()):
        if ONLY.match(case.name) and (case.device is None or MOST or
                                      case.name == "opencl cellcount") and case.learn():
            sweep(case)
    SWEEP.done()


if __name__ == "__main__":
    main()
