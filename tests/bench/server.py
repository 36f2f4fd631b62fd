"""make bench-server: the load of texcell's tools on a server, with stand-ins for BOINC's programs.
Creating: texcell-submit for SERVER_UNITS packed units (default 2,000) of one small picture; the
stand-in of create_work only reads the list. Validating: the three questions of a validator about
each unit with a quorum of two, with a shell for each, as script_validator asks them, and with two
processes for all, as texcell_validator does. Packing is not counted. Wall time, and processor time,
which depends less on other work of the machine."""
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
from PIL import Image

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import BUILD, SRC, TEXCELL, TEXCELL_WU  # noqa: E402

VALIDATE = os.path.join(BUILD, "texcell-validate")
KIT = os.path.join(SRC, "validator", "deploy")
UNITS = int(os.environ.get("SERVER_UNITS", 2000))
CONFIG = "<boinc><config><uldl_dir_fanout>1024</uldl_dir_fanout></config><daemons/></boinc>"


def script(path, text):
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, 0o755)


def make_project(folder):
    for name in ("bin", "apps", "templates", "download", "upload", "tmp", "texcell", "pictures"):
        os.makedirs(os.path.join(folder, name))
    with open(os.path.join(folder, "config.xml"), "w") as f:
        f.write(CONFIG)
    for name in ("texcell-submit", "texcell_project.py", "texcell_submissions.py",
                 "texcell_units.py", "texcell_remote.py"):
        shutil.copy(os.path.join(KIT, name), os.path.join(folder, "bin"))
    os.symlink(os.path.abspath(TEXCELL_WU), os.path.join(folder, "bin", "texcell-wu"))
    shutil.copy(os.path.join(SRC, "workunits", "templates", "texcell_out.xml"),
                os.path.join(folder, "templates"))
    script(os.path.join(folder, "bin", "create_work"), "#!/bin/sh\nexec cat > /dev/null\n")


def show(what, n, start, before):
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    print("%-30s %5.0f units a second, %.2f ms of processor a unit" %
          (what, n / seconds, 1000 * processor / n), flush=True)


def creating(folder):
    rng = np.random.default_rng(1)
    for i in range(UNITS):
        Image.fromarray(rng.integers(0, 256, (48, 48)).astype(np.uint8)).save(
            os.path.join(folder, "pictures", "p%06d.png" % i))
    argv = [os.path.join(folder, "bin", "texcell-submit"), "--name", "many", "--analysis",
            "cellcount", "--split", "1",
            os.path.join(folder, "pictures")]
    # The first call packs, and fails as there is no template; the second continues from there.
    template = os.path.join(folder, "templates", "texcell_out.xml")
    os.rename(template, template + ".away")
    subprocess.call(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.rename(template + ".away", template)
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.check_call(argv, stdout=subprocess.DEVNULL)
    show("creating", UNITS, start, before)


def validating(folder, n=200):
    unit, result = os.path.join(folder, "u.zip"), os.path.join(folder, "r.npz")
    picture = os.path.join(folder, "a.png")
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (128, 128)).astype(np.uint8)).save(
        picture)
    subprocess.check_call([TEXCELL_WU, "pack", "--analysis", "cellcount", "-o", unit, picture],
                          stdout=subprocess.DEVNULL)
    subprocess.check_call([TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet"])
    script(os.path.join(folder, "bin", "check"), "#!/bin/sh\nexec %s script-init --wait 60 "
           "--workunits ../download --accepted ../texcell/accepted --quarantine "
           "../texcell/quarantine --fraction 0.001 --chance 0.02 \"$@\"\n" % VALIDATE)
    script(os.path.join(folder, "bin", "compare"),
           "#!/bin/sh\nexec %s script-compare --accepted ../texcell/accepted \"$@\"\n"
           % VALIDATE)
    for i in range(n):
        shutil.copy(unit, os.path.join(folder, "download", "u_%d.zip" % i))
        for k in range(2):
            shutil.copy(result, os.path.join(folder, "upload", "u_%d_%d_r%d_0" % (i, k, i)))
    os.chdir(os.path.join(folder, "tmp"))

    def by_shells(name, *files):
        return os.WEXITSTATUS(os.system(" ".join(["../bin/" + name, *files, "> /dev/null"])))

    questions(n, "validating, script_validator", by_shells)
    shutil.rmtree(os.path.join(folder, "texcell", "accepted"))
    processes = {name: subprocess.Popen(["../bin/" + name, "--many"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                 for name in ("check", "compare")}

    def by_lines(name, *files):
        processes[name].stdin.write("\t".join(files).encode() + b"\n")
        processes[name].stdin.flush()
        return int(processes[name].stdout.readline())

    def end():
        for process in processes.values():
            process.stdin.close()
            process.wait()

    questions(n, "validating, texcell_validator", by_lines, end)


def questions(n, what, ask, end=lambda: None):
    """Asks the three questions for n units: ask(script, upload...) returns the exit code. `end`
    ends processes, so that their processor time counts."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    for i in range(n):
        one, other = ("../upload/u_%d_%d_r%d_0" % (i, k, i) for k in range(2))
        if ask("check", one) or ask("check", other) or ask("compare", one, other):
            raise SystemExit("unit %d is not valid" % i)
    end()
    show(what, n, start, before)


def main():
    folder = tempfile.mkdtemp(prefix="texcell-bench-")
    try:
        make_project(folder)
        creating(folder)
        validating(folder)
    finally:
        os.chdir("/")
        shutil.rmtree(folder)


main()
