"""Tests that the server's programs, when they check, verify, store or submit, survive kill -9 of
the process alone or with its children, at random moments. They are started again, as BOINC starts
its daemons, until they end: nothing is lost, and nothing is stored twice. KILLS: the number of
kills of each program (default 8; make check-long: 75)."""
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

import numpy as np
from PIL import Image

from tap import BUILD, SRC, TEXCELL, TEXCELL_WU, done, note, ok, run, scratch, skip

KILLS = int(os.environ.get("KILLS", 8))
TMP = scratch()
VALIDATE, ASSIMILATE = (os.path.join(BUILD, "texcell-validate"),
                        os.path.join(BUILD, "texcell-assimilate"))
CREATE = """#!/usr/bin/python3
import sqlite3, sys
names = [line.split()[1] for line in sys.stdin] if "--stdin" in sys.argv else [sys.argv[sys.argv.index("--wu_name") + 1]]
db = sqlite3.connect("jobs.sqlite", timeout=60, isolation_level=None)
try:
    db.execute("BEGIN IMMEDIATE")
    db.executemany("INSERT INTO jobs VALUES(?, ?)", [(n, sys.argv[sys.argv.index("--credit") + 1]) for n in names])
    db.execute("COMMIT")
except sqlite3.IntegrityError:
    print("Duplicate entry")
    sys.exit(1)
"""  # noqa: E501
chance = random.Random(20)


class Killer:
    """Runs a command repeatedly, and kills it each time at a random moment; the last run may
    end."""

    def __init__(self):
        self.kills, self.longest = 0, 0.05

    def run(self, argv, wanted, cwd):
        """Returns the exit code of the last run. wanted: the largest number of kills."""
        while True:
            start = time.monotonic()
            process = subprocess.Popen(argv, cwd=cwd, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, start_new_session=True)
            try:
                code = process.wait(chance.uniform(0, self.longest) if wanted > 0 else None)
                self.longest = max(0.003, 0.9 * (time.monotonic() - start))
                return code
            except subprocess.TimeoutExpired:
                try:
                    (os.killpg if chance.random() < 0.5 else os.kill)(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.wait()
                self.kills += 1
                wanted -= 1
                self.longest *= 1.02


def make_server():
    """Makes a project's folders with work units, right results and damaged ones."""
    for name in ("bin", "apps", "templates", "download", "upload", "tmp", "texcell/alone",
                 "pictures"):
        os.makedirs(os.path.join(TMP, name))
    for i in range(30):
        Image.fromarray(np.random.default_rng(i).integers(0, 256, (60, 80)).astype(np.uint8)).save(
            os.path.join(TMP, "pictures", "p%02d.png" % i))
    for i in range(6):
        unit = os.path.join(TMP, "download", "u_%d.zip" % i)
        run([TEXCELL_WU, "pack", "--analysis", "cellcount", "--param", "labels=true", "-o", unit,
             os.path.join(TMP, "pictures", "p%02d.png" % i)])
        run([TEXCELL, "run", unit, "-o", os.path.join(TMP, "upload", "u_%d_0_r1_0" % i), "--device",
             "cpu", "--quiet"])
        with open(os.path.join(TMP, "upload", "u_%d_0_r1_0" % i),
                  "rb") as f, open(os.path.join(TMP, "upload", "u_%d_1_r1_0" % i), "wb") as g:
            g.write(f.read()[:-50])
    open(os.path.join(TMP, "texcell", "alone", "u"), "w").close()


def validating(killer, more, what):
    tmp_folder = os.path.join(TMP, "tmp")
    start, answers = killer.kills, []
    while killer.kills < start + KILLS:
        answers = validating_once(killer, more, tmp_folder)
    ok(answers == [0, 2] * 6, "%s, killed %d times: the right answers; what is refused is in the "
       "quarantine, once" % (what, killer.kills - start),
       answers)


def validating_once(killer, more, at):
    """The exit codes for all results. Raises an exception if a file is not where it belongs."""
    answers = []
    for i in range(6):
        for k in range(2):
            argv = [VALIDATE, "script-init", "--workunits", "../download", "--accepted",
                    "../texcell/accepted", "--quarantine",
                    "../texcell/quarantine", *more, "../upload/u_%d_%d_r1_0" % (i, k)]
            answers.append(killer.run(argv, -(-KILLS // 12), at))
    if sorted(os.listdir(os.path.join(TMP, "upload"))) != ["u_%d_0_r1_0" % i
                                                           for i in range(6)] or sorted(
                                                                   os.listdir(os.path.join(
                                                                       TMP, "texcell",
                                                                       "quarantine"))) != [
                                                                           "u_%d_1_r1_0" % i
                                                                           for i in range(6)]:
        raise SystemExit("the files are not where they should be")
    for name in os.listdir(os.path.join(TMP, "texcell", "quarantine")):
        os.rename(os.path.join(TMP, "texcell", "quarantine", name),
                  os.path.join(TMP, "upload", name))
    return answers


def storing(killer):
    start, rounds, good = killer.kills, 0, True
    while good and killer.kills < start + KILLS:
        rounds += 1
        good = stored_once(killer, os.path.join(TMP, "texcell", "d%d.sqlite" % rounds))
    ok(good, "assimilating, killed %d times: each unit and its file once, in each of %d data sets" %
       (killer.kills - start, rounds))


def stored_once(killer, path):
    """Stores all results in a new data set. Returns whether each is there once."""
    killer.run([ASSIMILATE, "create", "--db", path], 0, os.path.join(TMP, "tmp"))
    answers = [killer.run([ASSIMILATE, "script", "--db", path, "--workunits", "../download",
                           "--accepted", "../texcell/accepted",
                           str(i + 1), "../upload/u_%d_0_r1_0" % i], -(-KILLS // 6),
                          os.path.join(TMP, "tmp")) for i in range(6)]
    db = sqlite3.connect(path)
    rows = db.execute("SELECT name, wu_id, kept FROM units ORDER BY wu_id").fetchall()
    counted = db.execute("SELECT count(*), count(DISTINCT item) FROM cellcount_items").fetchall()
    kept_files = sorted(n for n in os.listdir(path + ".files") if n.endswith(".npz"))
    good = (answers == [0] * 6 and [r[:2] for r in rows] ==
            [("u_%d" % i, i + 1) for i in range(6)] and counted == [(6, 6)]
            and kept_files == sorted(r[2] for r in rows) and
            db.execute("SELECT count(*) FROM refused").fetchall() == [(0,)]
            and db.execute("PRAGMA integrity_check").fetchall() == [("ok",)])
    db.close()
    if not good:
        note((answers, rows, counted, kept_files))
    return good


def submitting(killer):
    """texcell-submit, killed; create_work is a stand-in that refuses a name that exists."""
    start = killer.kills
    with open(os.path.join(TMP, "config.xml"), "w") as f:
        f.write("<boinc><config><uldl_dir_fanout>16</uldl_dir_fanout></config></boinc>")
    for name in ("texcell-submit", "texcell_project.py", "texcell_submissions.py",
                 "texcell_units.py", "texcell_remote.py"):
        shutil.copy(os.path.join(SRC, "validator", "deploy", name), os.path.join(TMP, "bin"))
    os.symlink(os.path.abspath(TEXCELL_WU), os.path.join(TMP, "bin", "texcell-wu"))
    for name in ("texcell_in.xml", "texcell_out.xml"):
        shutil.copy(os.path.join(SRC, "workunits", "templates", name),
                    os.path.join(TMP, "templates"))
    with open(os.path.join(TMP, "bin", "create_work"), "w") as f:
        f.write(CREATE)
    os.chmod(f.name, 0o755)
    db = sqlite3.connect(os.path.join(TMP, "jobs.sqlite"))
    db.execute("CREATE TABLE jobs(name TEXT UNIQUE, credit REAL)")
    db.commit()
    n, answers = 0, []
    while killer.kills < start + KILLS:
        n, killer.longest = n + 1, 0.6
        argv = [sys.executable, os.path.join(TMP, "bin", "texcell-submit"), "--name", "s%03d" % n,
                "--analysis", "cellcount", "--split", "1",
                os.path.join(TMP, "pictures")]
        code, tries = killer.run(argv, 10, TMP), 0
        while code == 3 and tries < 100:  # the killed process's texcell-wu pack still works
            time.sleep(0.1)
            code, tries = killer.run(argv, 0, TMP), tries + 1
        time.sleep(0.2)                # its create_work may still work, too
        answers += [code, killer.run(argv, 0, TMP)]
    rows = db.execute("SELECT name, credit FROM jobs ORDER BY name").fetchall()
    ok(answers == [0] * 2 * n and [r[0] for r in rows] ==
       ["s%03d_%04d" % (k + 1, i + 1) for k in range(n) for i in range(30)]
       and len({r[1] for r in rows}) == 1,
       "submitting, killed %d times: every unit once, with its credit" % (killer.kills - start),
       (answers, len(rows)))
    db.close()


def main():
    make_server()
    killer = Killer()
    validating(killer, [], "validating")
    killer.longest = 0.05
    validating(killer, ["--alone", "../texcell/alone", "--fraction-alone", "1"], "verifying")
    if os.path.exists(ASSIMILATE):
        storing(killer)
    else:
        skip("assimilating", "it is not built: no SQLite")
    submitting(killer)
    done()


main()
