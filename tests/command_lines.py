"""Tests that the command lines of all programs follow the same conventions, and that a closed pipe,
a full disk or a missing standard stream kills no program by a signal."""
import glob
import os
import re
import resource
import shutil
import subprocess

import numpy as np

import tap
from oracle import workunit

FOLDER = tap.scratch()
PROGRAMS = {"texcell": ["run", "devices", "selftest"],
            "texcell-wu": ["analyse", "pack", "show", "export", "report", "parameters"],
            "texcell-validate": ["check", "compare", "verify", "script-init", "script-compare"],
            "texcell-assimilate": ["script", "create", "forget", "export"]}
PROGRAMS = {p: verbs for p, verbs in PROGRAMS.items() if os.path.exists(os.path.join(tap.BUILD, p))}
ENV = dict(os.environ, OCL_ICD_VENDORS=FOLDER)      # no OpenCL drivers: these tests need none
UNIT, RESULT, PICTURE = (os.path.join(FOLDER, n) for n in ("u.zip", "u.npz", "p.png"))


def call(program, *args, **kw):
    kw.setdefault("cwd", FOLDER)
    return tap.run([os.path.join(tap.BUILD, program)] + [str(a) for a in args], env=ENV, **kw)


def check_refused(program, args, words, pointer):
    """Tests that the program prints one error with `words`, which refers to `pointer --help`, and
    exits with 1."""
    r = call(program, *args)
    tap.ok(r.returncode == 1 and r.stdout == "" and words in r.stderr
           and re.fullmatch(r"%s: error: [^\n]*; see %s --help\n" % (program, pointer), r.stderr),
           "refused: %s %s" % (program, " ".join(map(str, args)).replace(FOLDER, "")),
           "%d %s%s" % (r.returncode, r.stdout, r.stderr))


def content(name):
    with open(os.path.join(FOLDER, name), "rb") as f:
        return f.read()


# --- help and version ---------------------------------------------------------------------

def test_help_and_version():
    for program, verbs in PROGRAMS.items():
        r = call(program, "--version")
        tap.ok(r.returncode == 0 and re.fullmatch(
            program + r" \d+\.\d+\.\d+\nzlib [\d.]+, libpng [\d.]+, jansson [\d.]+(, libjpeg)?(, "
            r"libtiff)?(, SQLite [\d.]+)?(; [^;]*Landlock[^;]*)?\n", r.stdout) and r.stderr == "",
               program + " --version", r.stdout + r.stderr)
        for start in [[]] + [[v] for v in verbs]:
            for last in (["--help"], ["-h"], ["--nonsense", "--help"], ["-h", "x", "y"]):
                r = call(program, *start, *last)
                good = r.returncode == 0 and r.stdout.startswith("usage: " +
                                                                 program) and r.stderr == ""
                # Without a command, --help must be the only argument (tested below).
                if not start and len(last) > 1:
                    continue
                tap.ok(good, "%s %s" % (program, " ".join(start + last)),
                       "%d %s" % (r.returncode, r.stderr))
            text = call(program, *start, "--help").stdout
            tap.ok(max(map(len, text.splitlines())) <= 80 and text.endswith("\n"),
                   "the help's lines have at most 80 columns: %s %s" % (program, start))
        for alone in ("--help", "-h", "--version"):
            check_refused(program, [alone, "x"], alone + " is used alone", program)


def test_options_in_help():
    """The options in the help are exactly those that the program accepts."""
    for program, source in (("texcell", "app/main.c"), ("texcell-wu", "workunits/tools/*.c"),
                            ("texcell-validate", "validator/check/main.c"),
                            ("texcell-assimilate", "validator/dataset/main.c")):
        if program not in PROGRAMS:
            continue
        code = "".join(open(f).read() for f in glob.glob(os.path.join(tap.SRC, source)))
        # Only BOINC's client gives --nthreads.
        accepted_options = set(re.findall(r'\{ "([a-z-]+)", (?:0|\'[a-z]\'), TC_',
                                          code)) - {"nthreads"}
        listed_options = set()
        for start in [[]] + [[v] for v in PROGRAMS[program]]:
            text = call(program, *start, "--help").stdout
            listed_options |= set(re.findall(r"(?<![\w-])--([a-z][a-z-]*)", text))
        listed_options -= {"help", "version", "error",
                           "wu"}  # --error is BOINC's, --wu_name is create_work's
        tap.ok(accepted_options and accepted_options == listed_options, program +
               ": the help has every option",
               "taken %s\ntold %s" % (accepted_options, listed_options))


def test_unknown():
    """Unknown options and commands are refused, with a suggestion where a known one is similar."""
    for program, verbs in PROGRAMS.items():
        for verb in verbs:
            for wrong in ("--nonsense", "--nonsense=3", "-Q"):
                check_refused(program, [verb, wrong], 'unknown option "%s"' % wrong,
                              "%s %s" % (program, verb))
        if program != "texcell-assimilate":
            check_refused(program, ["frobnicate"], 'unknown command "frobnicate"', program)
    for program, args, meant in (("texcell", ["run", "--ntreads=2"], "--nthreads"),
                                 ("texcell", ["run", "--devise"], "--device"),
                                 ("texcell-wu", ["analyse", "--anlysis", "glcm"], "--analysis"),
                                 ("texcell-wu", ["pack", "--masks"], "--mask"),
                                 ("texcell-wu", ["pack", "--" + "spacing" * 20], None),
                                 ("texcell-validate", ["compare", "-Q"], None)):
        r = call(program, *args)
        tap.ok(r.returncode == 1 and
               ('"%s"?)' % meant in r.stderr if meant else "did you mean" not in r.stderr),
               "the error for %s proposes %s" % (args[-1][:20], meant), r.stderr)
    for args, words in ((["--polarity", "dark"],
                         '"--polarity": is a parameter: write --param polarity=VALUE'),
                        (["--min-area=20"], "write --param min_area=20"),
                        (["--pixel-size", "0.2"], 'did you mean "--spacing"?'),
                        (["-param", "x=1"], 'did you mean "--param"?'),
                        (["--param", "min_area", "20"], "must be KEY=VALUE"),
                        (["--param", "smooth=0,5"], "write 0.5, with a point"),
                        (["--spacing", "0.2um"], "without a unit"),
                        (["--threads", "0"], "--threads 0: is not a whole number from 1")):
        check_refused("texcell-wu", ["analyse", "--analysis", "cellcount", "-o", "x", *args,
                                     "nowhere.png"], words, "texcell-wu analyse")
    check_refused("texcell", [], "no BOINC client has started", "texcell")
    r = call("texcell-wu")
    tap.ok(r.returncode == 1 and r.stdout == "" and r.stderr.startswith("usage: texcell-wu ") and
           r.stderr.endswith("texcell-wu: error: nothing to do; see texcell-wu --help\n"),
           "a program without arguments prints its usage", r.stderr)
    tap.ok(call("texcell-wu", "analyze", "--help").stdout ==
           call("texcell-wu", "analyse", "--help").stdout, "analyze is accepted for analyse")
    check_refused("texcell", ["run", UNIT, "-o", RESULT, "--threads"], "--threads needs a value",
                  "texcell run")
    check_refused("texcell", ["run", UNIT, "-o"], "-o needs a value", "texcell run")
    check_refused("texcell", ["run", UNIT, "--output="], "--output: the value is empty",
                  "texcell run")
    check_refused("texcell", ["run", UNIT, "-o", RESULT, "--quiet=yes"],
                  "--quiet=yes: this option takes no value", "texcell run")
    check_refused("texcell", ["run", "-o", RESULT, ""], "an argument is empty", "texcell run")
    check_refused("texcell", ["run", "-o", RESULT], "takes one work unit, 0 given", "texcell run")
    check_refused("texcell", ["run", UNIT, UNIT, "-o", RESULT], "takes one work unit, 2 given",
                  "texcell run")
    for option, values in (("threads", ("0", "257", "-1", "1.5", "x", "99999999999999999999")),
                           ("checkpoint-every", ("0", "-1", "nan", "inf", "1000001", "1s")),
                           ("gpu-slice-ms", ("0", "10001", "Auto")),
                           ("gpu-percent", ("0", "101", "50%", "auto"))):
        for value in values:
            check_refused("texcell", ["run", UNIT, "-o", RESULT, "--%s=%s" % (option, value)],
                          '--%s: "%s" is not a ' % (option, value), "texcell run")


def test_selftest_and_devices():
    for option in ("--threads=2", "--quiet", "--gpu-slice-ms=3", "--checkpoint-every=2", "-o"):
        check_refused("texcell", ["selftest", option], 'unknown option "%s"' % option,
                      "texcell selftest")
    check_refused("texcell-wu", ["analyse", "--analysis", "cellcount", "-o", "x", "--device", "gpu",
                                 "nowhere.png"], "--device gpu: is none of auto",
                  "texcell-wu analyse")
    check_refused("texcell", ["selftest", UNIT], "takes only --device", "texcell selftest")
    check_refused("texcell", ["selftest", "--device", "nonsense"], "none of auto, cpu, opencl, P:D",
                  "texcell selftest")
    check_refused("texcell", ["devices", "--all"], "unknown option", "texcell devices")
    check_refused("texcell", ["devices", "all"], "takes no arguments", "texcell devices")
    r = call("texcell", "selftest", "--device=cpu")
    tap.ok(r.returncode == 0 and r.stdout.count("the CPU is right\n") >= 5,
           "selftest --device=cpu is accepted",
           r.stdout + r.stderr)
    r = call("texcell", "selftest")
    *lines, last = r.stdout.splitlines()
    tap.ok(r.returncode == 0 and all(x.endswith(": the CPU is right") for x in lines) and
           last.startswith("no device: "),
           "selftest says once that there is no device", r.stdout + r.stderr)


# --- options in other forms and in another order ----------------------------------------------

def test_argument_order():
    """Options and files mean the same in another order and in other forms."""
    ways = (["run", UNIT, "-o", "w.npz", "--device", "cpu", "--threads", "2", "--quiet"],
            ["run", "--quiet", "--threads=2", "--device=cpu", "--output=w.npz", UNIT],
            ["run", "-ow.npz", "--device=cpu", "--", UNIT])
    for way in ways:
        r = call("texcell", *way)
        tap.ok(r.returncode == 0 and content("w.npz") == content("u.npz"),
               "texcell " + " ".join(way).replace(FOLDER, ""), r.stderr)
        os.remove(os.path.join(FOLDER, "w.npz"))
    for way in (["--analysis", "glcm", "--param", "levels=[8]", "-o", "w.zip", PICTURE],
                [PICTURE, "--output=w.zip", "--param=levels=[8]", "--analysis=glcm"]):
        r = call("texcell-wu", "pack", *way)
        tap.ok(r.returncode == 0 and content("w.zip") == content("u.zip"),
               "texcell-wu pack " + " ".join(way).replace(FOLDER, ""), r.stderr)
    tap.ok(call("texcell-wu", "show", RESULT, "--all").stdout ==
           call("texcell-wu", "show", "--all", RESULT).stdout, "show accepts --all after the file")
    for way in (["--fraction", "1", "--seed", "7", UNIT, RESULT],
                [UNIT, "--fraction=1", RESULT, "--seed=7", "--threads=2"]):
        r = call("texcell-validate", "verify", *way)
        tap.ok(r.returncode == 0 and "valid\n" in r.stdout and
               "seed 7" in r.stdout.replace("--", ""),
               "texcell-validate verify " + " ".join(way).replace(FOLDER, ""), r.stdout + r.stderr)
    if "texcell-assimilate" in PROGRAMS:
        for way in (["--db", "d.sqlite", UNIT, RESULT], [UNIT, RESULT, "--db=d.sqlite"]):
            # Files may come first, although the first word may be a command.
            r = call("texcell-assimilate", *way)
            tap.ok(r.returncode == 0 and r.stdout.startswith("u: "),
                   "texcell-assimilate " + " ".join(way).replace(FOLDER, ""), r.stderr)
        r = call("texcell-assimilate", "script", "--db=d.sqlite", "--error", "3", "--odd-name",
                 "17", "0")
        tap.ok(r.returncode == 0 and r.stdout == "--odd-name: recorded as failed\n",
               "arguments of BOINC's script may look like options", r.stderr)
        r = call("texcell-assimilate", "export", "--db=d.sqlite", "--output=tables", "--only=units")
        tap.ok(r.returncode == 0 and os.listdir(os.path.join(FOLDER, "tables")) == ["units.csv"],
               "export accepts --output=DIR", r.stderr)


def test_files_like_options():
    """A file whose name begins with "-" is accepted behind "--" and as ./-x; the error for it says
    so."""
    for name in ("-x.png", "-Q", "--x.png", "--x=1.png"):
        shutil.copy(PICTURE, os.path.join(FOLDER, name))
        for verb in ("pack", "analyse"):
            check_refused("texcell-wu", [verb, "--analysis", "glcm", "-o", "o.zip", PICTURE, name],
                          "; if the file %s is meant, write ./%s; see" % (name, name),
                          "texcell-wu " + verb)
        for words in (["./" + name], ["--", name]):
            r = call("texcell-wu", "pack", "--analysis", "glcm", "-o", "o.zip", *words)
            tap.ok(r.returncode == 0, "a file whose name is like an option: " + " ".join(words),
                   r.stderr)
        os.remove(os.path.join(FOLDER, name))


def test_foreign_results():
    """analyse does not overwrite the result of other pictures, but that of a picture among the new
    ones."""
    for folder, names in (("one", "a"), ("two", "ab")):
        os.makedirs(os.path.join(FOLDER, folder), exist_ok=True)
        for name in names:
            shutil.copy(PICTURE, os.path.join(FOLDER, folder, name + ".png"))
    line = ["analyse", "--analysis=glcm", "--param=levels=[8]", "--param=distances=[1]",
            "--device=cpu", "-o", "analysed"]
    tap.ok(call("texcell-wu", *line, "one").returncode == 0, "analyse accepts a folder")
    before = content("analysed/result.npz")
    r = call("texcell-wu", *line, "two")
    tap.ok(r.returncode == 1 and
           "holds the result of other pictures, such as one/a.png" in r.stderr and
           content("analysed/result.npz") == before,
           "the result of other pictures is not replaced", r.stdout + r.stderr)
    shutil.copy(PICTURE, os.path.join(FOLDER, "one", "b.png"))
    r = call("texcell-wu", *line, "one")
    tap.ok(r.returncode == 0 and content("analysed/result.npz") != before,
           "a result is replaced if its picture is among the new ones", r.stderr)
    r = call("texcell-wu", "analyse", "--analysis=levelset", "--param=target=9", "-o", "none",
             "one")
    tap.ok(r.returncode == 2 and "parameters" in r.stderr and
           not os.path.exists(os.path.join(FOLDER, "none")),
           "analyse says which parameter is missing, also after a look at the pictures",
           "%d %s" % (r.returncode, r.stderr))


def test_task():
    """The command lines that BOINC's client gives to a task, in a folder with a work unit and
    without init_data.xml."""
    slot = os.path.join(FOLDER, "slot")
    os.mkdir(slot)
    os.link(UNIT, os.path.join(slot, "workunit"))
    for args in ([], ["--nthreads", "2"], ["--nthreads=2"], ["--device", "0"],
                 ["--device", "cpu", "--device", "1"],
                 ["--nthreads", "2", "--device", "0", "--quiet"]):
        r = call("texcell", *args, cwd=slot)
        tap.ok(r.returncode == 0 and content("slot/result") == content("u.npz"),
               "a task: texcell " + " ".join(args), r.stderr)
        tap.ok(("--quiet" in args) == (r.stderr == ""), "a task: messages of " + " ".join(args),
               r.stderr)
        os.remove(os.path.join(slot, "result"))
    for args, words in ((["--ntreads", "2"], 'unknown option "--ntreads"'),
                        (["--nthreads"], "--nthreads needs a value"),
                        (["--device", "0", "x"], '"x" is one argument too many')):
        r = call("texcell", *args, cwd=slot)
        tap.ok(r.returncode == 1 and words in r.stderr and os.listdir(slot) == ["workunit"],
               "a task: refused: " + " ".join(args), r.stderr)


# --- streams, pipes, disks ------------------------------------------------------------------------

EVERY = [("texcell", "run", UNIT, "-o", RESULT, "--device=cpu", "--quiet"), ("texcell", "devices"),
         ("texcell-wu", "show", UNIT),
         ("texcell-wu", "pack", "--analysis=glcm", "--param=levels=[8]", "-o", UNIT, PICTURE),
         ("texcell-wu", "export", RESULT, "-o", "tables"),
         ("texcell-wu", "report", RESULT, "--images", UNIT, "-o", "page.html"),
         ("texcell-validate", "compare", RESULT, RESULT),
         ("texcell-validate", "script-compare", RESULT, RESULT),
         ("texcell-assimilate", "--db", "d.sqlite", UNIT, RESULT)]
EVERY = [line for line in EVERY if line[0] in PROGRAMS]


def test_closed_streams():
    for line in EVERY:
        name = " ".join(os.path.basename(str(a)) for a in line)
        for closed in ((0,), (1,), (2,), (0, 1, 2)):
            r = subprocess.run([os.path.join(tap.BUILD, line[0]), *line[1:]], env=ENV, cwd=FOLDER,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, timeout=600,
                               preexec_fn=lambda: [os.close(n) for n in closed])
            tap.ok(r.returncode == 0, "without stream %s: %s" % (", ".join(map(str, closed)), name),
                   r.returncode)


def test_closed_pipe():
    """If the reader of a pipe has closed it: no signal, no message, and exit code 3."""
    for line in EVERY:
        if line[1] == "run":
            continue                       # prints nothing
        read, write = os.pipe()
        os.close(read)
        r = subprocess.run([os.path.join(tap.BUILD, line[0]), *line[1:]], env=ENV, cwd=FOLDER,
                           stdout=write,
                           stderr=subprocess.PIPE, restore_signals=True, universal_newlines=True,
                           timeout=600)
        os.close(write)
        tap.ok(r.returncode == 3 and r.stderr == "", "a closed pipe: " + " ".join(line[:2]),
               "%d %s" % (r.returncode, r.stderr))


def test_small_disk():
    """If files cannot grow beyond a limit: exit code 3, no signal, and no file is left."""
    def limit(n):
        return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (n, n))
    before = sorted(os.listdir(FOLDER))
    for line in (("texcell-wu", "pack", "--analysis=glcm", "-o", "big.zip", PICTURE),
                 ("texcell-wu", "report", RESULT, "-o", "big.html"),
                 ("texcell-assimilate", "--db", "none.sqlite", UNIT, RESULT)):
        if line[0] not in PROGRAMS:
            continue
        for n in (100,) if tap.sanitized(by=["tsan"]) else (0, 100):     # TSan writes a file itself
            r = call(*line, preexec_fn=limit(n))
            left_files = [f for f in sorted(os.listdir(FOLDER)) if f not in before and
                          not f.startswith("none.sqlite")]
            tap.ok(r.returncode == 3 and r.stderr.count("\n") == 1 and not left_files,
                   "files of %d bytes at most: %s" % (n, " ".join(line[:2])),
                   "%d %s%s" % (r.returncode, r.stderr, left_files))
    r = call("texcell-wu", "export", RESULT, "-o", "small", preexec_fn=limit(10))
    tap.ok(r.returncode == 3 and r.stderr.count("\n") == 1, "files of 10 bytes at most: export",
           "%d %s" % (r.returncode, r.stderr))


def main():
    with open(PICTURE, "wb") as f:
        f.write(workunit.png(np.random.default_rng(3).integers(0, 256, (40, 50)).astype(np.uint8)))
    r = call("texcell-wu", "pack", "--analysis", "glcm", "--param", "levels=[8]", "-o", UNIT,
             PICTURE)
    tap.ok(r.returncode == 0, "a work unit", r.stderr)
    r = call("texcell", "run", UNIT, "-o", RESULT, "--device", "cpu", "--quiet")
    tap.ok(r.returncode == 0, "a result", r.stderr)
    test_help_and_version()
    test_options_in_help()
    test_unknown()
    test_selftest_and_devices()
    test_argument_order()
    test_files_like_options()
    test_foreign_results()
    test_task()
    test_closed_streams()
    test_closed_pipe()
    test_small_disk()
    tap.done()


main()
