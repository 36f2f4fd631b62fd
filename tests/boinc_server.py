"""Tests texcell's tools with BOINC's own server, from make_project to the data set: three
validators on one database with kills and deadlocks, a host that sends wrong results, hostile
uploads, restoring a backup. Hosts are simulated by writing to the database. Needs BOINC=DIR, a
folder of BOINC's sources in which its server was built, PHP, and MariaDB's programs, to start a
database on a socket. UNITS: the number of work units (default 200)."""
import atexit
import contextlib
import glob
import gzip
import hashlib
import math
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree
from fractions import Fraction

import numpy as np
from PIL import Image

import forge
import hostile_memory
from tap import BUILD, SRC, TEXCELL, done, note, ok, run, scratch, side_by_side, skip

BOINC, UNITS = os.environ.get("BOINC", ""), int(os.environ.get("UNITS", 200))
TMP = scratch()
SOCKET, HOME, TOOLS = (os.path.join(TMP, "db.sock"), os.path.join(TMP, "home"),
                       os.path.join(TMP, "tools"))
PROJECT = os.path.join(TMP, "projects", "cells")
HOST = os.uname().nodename.split(".")[0]
# BOINC's scripts start "python", which must be the system's: TOOLS has a link to it.
ENV = dict(os.environ, MYSQL_UNIX_PORT=SOCKET, USER="root", HOME=TMP,
           PATH=TOOLS + ":" + os.environ["PATH"] + ":/usr/sbin")
OVER, SUCCESS, VALID, INVALID, NO_CHECK, INCONCLUSIVE = 5, 1, 1, 2, 3, 4
chance = random.Random(43)


# --- the server --------------------------------------------------------------------------------

def program(name):
    return shutil.which(name, path=ENV["PATH"])


def start_database():
    """Starts a MariaDB server in the scratch folder. Returns its process, or None."""
    os.makedirs(TOOLS)
    for name in ("python", "python3"):
        os.symlink("/usr/bin/python3", os.path.join(TOOLS, name))
    with open(os.path.join(TOOLS, "php"), "w") as f:
        f.write('#!/bin/sh\nexec %s -d mysqli.default_socket=%s "$@"\n' %
                (shutil.which("php"), SOCKET))
    os.chmod(f.name, 0o755)
    for name in ("mariadb", "mariadb-dump"):
        with open(os.path.join(TOOLS, name), "w") as f:
            f.write('#!/bin/sh\nexec %s --no-defaults --socket=%s "$@"\n' %
                    (shutil.which(name), SOCKET))
        os.chmod(f.name, 0o755)
    base = os.path.dirname(os.path.dirname(os.path.realpath(program("mariadbd"))))
    common = ["--no-defaults", "--datadir=" + os.path.join(TMP, "db"), "--basedir=" + base]
    r = run([program("mariadb-install-db"), *common, "--auth-root-authentication-method=normal"] +
            ["--user=root"] * (os.getuid() == 0), env=ENV)
    if r.returncode != 0:
        return None
    process = subprocess.Popen([program("mariadbd"), *common, "--socket=" + SOCKET,
                                "--skip-networking", "--innodb-flush-log-at-trx-commit=0"]
                               + ["--user=root"] * (os.getuid() == 0), stdout=subprocess.DEVNULL,
                               stderr=open(os.path.join(TMP, "db.log"), "w"))
    for _i in range(300):
        if os.path.exists(SOCKET) or process.poll() is not None:
            break
        time.sleep(0.1)
    return process


def connect():
    import MySQLdb
    connection = MySQLdb.connect(unix_socket=SOCKET, user="root", db="cells")
    connection.autocommit(True)
    return connection


def sql(text, *values, on=[]):     # noqa: B006  one connection for all
    """Executes a statement, and returns its rows."""
    if not on:
        on.append(connect())
    cursor = on[0].cursor()
    cursor.execute(text, values)
    return list(cursor.fetchall()) if cursor.description else []


def make_project():
    r = run(["/usr/bin/python3", "tools/make_project", "--no_query", "--url_base",
             "http://127.0.0.1/", "--project_host", HOST, "--db_name",
             "cells", "--db_user", "root", "--db_host", "localhost", "--project_root", PROJECT,
             "cells", "Cells"], cwd=BOINC, env=ENV)
    return ok(r.returncode == 0 and os.path.exists(os.path.join(PROJECT, "bin", "update_versions")),
              "make_project", (r.stdout + r.stderr)[-2000:])


def deploy(*more, version="1.00"):
    return run([os.path.join(SRC, "validator", "deploy", "texcell-deploy"), "--build", BUILD,
                "--version", version, *more, PROJECT], env=ENV)


class Daemons:
    """The daemons of config.xml whose programs are in `only`. Until stop() each daemon that ends is
    started again, as bin/start --cron does."""

    def __init__(self, *only):
        self.only, self.running, self.live, self.killed = only, {}, True, 0
        os.makedirs(os.path.join(PROJECT, "tmp_" + HOST), exist_ok=True)
        for name in glob.glob(os.path.join(PROJECT, "stop_*")):
            os.unlink(name)
        atexit.register(self.stop)
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def commands(self):
        found = [e.text.strip() for e in ElementTree.parse(
            os.path.join(PROJECT, "config.xml")).getroot().iter("cmd")]
        return [c for c in found if c.split()[0] in self.only]

    def watch(self):
        """Starts each daemon that does not run."""
        while self.live:
            for command in self.commands():
                if command not in self.running or self.running[command].poll() is not None:
                    name = command.split()[0]
                    with open(os.path.join(TMP, name + ".log"), "a") as log:
                        self.running[command] = subprocess.Popen(["../bin/" + name,
                                                                  *command.split()[1:]], stdout=log,
                                                                 stderr=log, env=dict(
                                                                     ENV, PATH=os.path.join(PROJECT,
                                                                                            "bin") +
                                                                     ":" + ENV["PATH"]),
                                                                 cwd=os.path.join(PROJECT,
                                                                                  "tmp_" + HOST))
            time.sleep(0.05)

    def kill(self, name):
        """Kills one of the daemons with this program."""
        found = [p for c, p in list(self.running.items()) if c.split()[0] == name and
                 p.poll() is None]
        if found:
            chance.choice(found).send_signal(signal.SIGKILL)
            self.killed += 1

    def stop(self):
        self.live = False
        self.thread.join()
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def log(name):
    path = os.path.join(TMP, name + ".log")
    return open(path, errors="replace").read() if os.path.exists(path) else ""


def until(seconds, true):
    """Waits until true() returns a true value, for at most the given seconds. Returns this value's
    truth."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.2)
    return False


# --- hosts ---------------------------------------------------------------------------------------

def make_users(n):
    """Adds users 1 to n, each with a host of the same id."""
    columns = {t: [r[0] for r in sql("SHOW COLUMNS FROM " + t) if r[2] == "NO" and r[4] is None and
                   "auto" not in r[5]] for t in ("user", "host")}
    for i in range(1, n + 1):
        for table, extra in (("user", {"email_addr": "u%d" % i}), ("host", {"userid": i})):
            row = dict({c: 0 for c in columns[table]}, id=i, expavg_time=time.time(), **extra)
            sql("INSERT INTO %s(%s) VALUES(%s)" % (table, ",".join(row),
                                                   ",".join(["%s"] * len(row))), *row.values())


def spread(folder, name):
    """The path of a file in BOINC's hierarchy of folders: folder/hash/name."""
    return os.path.join(PROJECT, folder,
                        "%x" % (int(hashlib.md5(name.encode()).hexdigest()[1:8], 16) % 1024), name)


def upload_name(xml):
    """The name of the upload in a result's XML."""
    return re.search(r"<(?:file_)?name>([^<]*_r\d+_\d+)</", xml.decode() if isinstance(xml, bytes)
                     else xml).group(1)


def right_result(unit):
    """The path of the result of a unit, computed at the first call."""
    path = os.path.join(TMP, "results", unit)
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        r = run([TEXCELL, "run", spread("download", unit + ".zip"), "-o", path, "--device", "cpu",
                 "--quiet"])
        if r.returncode != 0:
            raise SystemExit(r.stderr)
    return path


def compute(users, make=right_result, deliver=True, lanes=2):
    """Simulates hosts: each unsent result is sent to a random host of `users` without another
    result of the same unit, uploaded (if deliver) and reported. Returns the number of unsent
    results. make: function that returns the file to upload."""
    version = sql("SELECT min(id) FROM app_version")[0][0]
    rows = sql("SELECT r.id, w.id, w.name, r.xml_doc_in FROM result r JOIN workunit w ON w.id = "
               "r.workunitid WHERE r.server_state = 2 ORDER BY r.id")
    side_by_side(lanes, sorted({r[2] for r in rows}), lambda _lane, unit: make(unit))
    for result, unit, name, xml in rows:
        unit_users = {r[0] for r in sql("SELECT hostid FROM result WHERE workunitid = %s", unit)}
        free = [u for u in users if u not in unit_users]
        if not free:
            continue
        if deliver:
            upload = spread("upload", upload_name(xml))
            os.makedirs(os.path.dirname(upload), exist_ok=True)
            shutil.copy(make(name), upload)
        user, time_ = chance.choice(free), int(time.time())
        sql("INSERT INTO host_app_version SELECT %s, %s, 0,0,0,0,0,0,100,0,0,0,0,0,0 FROM DUAL "
            "WHERE NOT EXISTS (SELECT 1 FROM host_app_version WHERE host_id = %s AND "
            "app_version_id = %s)", user, version, user, version)
        sql("UPDATE result SET server_state = %s, outcome = %s, hostid = %s, userid = %s, "
            "sent_time = %s, received_time = %s, app_version_id = %s, cpu_time = 1, elapsed_time = "
            "1, flops_estimate = 1e9 WHERE id = %s", OVER, SUCCESS, user, user, time_ - 10, time_,
            version, result)
        sql("UPDATE workunit SET transition_time = %s WHERE id = %s", time_, unit)
    return len(rows)


def pictures(name, n):
    folder = os.path.join(TMP, name)
    os.makedirs(folder)
    for i in range(n):
        Image.fromarray(np.random.default_rng([len(name), i]).integers(0, 256, (24, 24)).astype(
            np.uint8)).save(os.path.join(folder, "p%04d.png" % i))
    return folder


def tool(name, *arguments):
    return run([os.path.join(PROJECT, "bin", name), *arguments], env=ENV)


def submit(name, n, *more):
    """Submits n pictures as work units called name_0001 and so on."""
    split = () if "--for" in more else ("--split", "1")
    r = tool("texcell-submit", "--name", name, "--analysis", "cellcount", *split, *more,
             pictures(name, n))
    return ok(r.returncode == 0, "%s: %d pictures are submitted" % (name, n),
              r.stdout[-500:] + r.stderr)


def stored_units(name):
    """The names of the submission's units in the data set."""
    path = os.path.join(PROJECT, "texcell", "dataset.sqlite")
    with contextlib.suppress(sqlite3.OperationalError), contextlib.closing(
            sqlite3.connect("file:%s?mode=ro" % path, uri=True)) as db:
        return [r[0] for r in db.execute("SELECT name FROM units WHERE name GLOB ? ORDER BY name",
                                         (name + "_*",))]
    return []       # the data set does not exist yet


def sums():
    """Credit as three dictionaries {user or host: credit}: the sum granted for results by user,
    total_credit of users, and total_credit of hosts."""
    of_results = {}
    for user, credit in sql("SELECT userid, granted_credit FROM result WHERE validate_state = %s",
                            VALID):
        of_results[user] = of_results.get(user, 0) + Fraction(credit)
    tables = [{row[0]: Fraction(row[1]) for row in sql("SELECT id, total_credit FROM " + t)
               if row[1]} for t in ("user", "host")]
    return of_results, tables[0], tables[1]


# --- the tests ----------------------------------------------------------------------------------

class Troublemaker(threading.Thread):
    """Provokes deadlocks: it locks users and then hosts, whereas a validator locks hosts and then
    users. It changes many rows, so that the database rolls back the validator's transaction, not
    its own."""

    def __init__(self):
        super().__init__()
        self.live, self.connection = True, connect()
        cursor = self.connection.cursor()
        cursor.execute("CREATE TABLE trouble(id integer, n integer) engine=InnoDB")
        cursor.executemany("INSERT INTO trouble VALUES(%s, 0)", [(i,) for i in range(500)])
        self.connection.autocommit(False)
        self.start()

    def run(self):
        while self.live:
            cursor = self.connection.cursor()
            try:
                cursor.execute("UPDATE trouble SET n = n + 1")
                cursor.execute("UPDATE user SET seti_nresults = seti_nresults + 1 WHERE "
                               "id IN (1, 2)")
                time.sleep(0.005)
                cursor.execute("UPDATE host SET rpc_time = rpc_time + 1 WHERE id IN (1, 2)")
                cursor.execute("COMMIT")
            except Exception:   # noqa: BLE001  the database rolled back this transaction
                cursor.execute("ROLLBACK")
            time.sleep(0.01)


def test_deadlocks():
    """Three validators, two users, kills and deadlocks: the sums of credit are exactly equal."""
    if not submit("many", UNITS):
        return
    daemons = Daemons("transitioner")
    until(300, lambda: sql("SELECT count(*) FROM result WHERE server_state = 2 AND name "
                           "LIKE 'many%%'")[0][0] == 2 * UNITS)
    daemons.stop()
    compute([1, 2])
    daemons, trouble = (Daemons("transitioner", "texcell_validator", "script_assimilator"),
                        Troublemaker())
    start = time.monotonic()
    while time.monotonic() < start + 600 and sql("SELECT count(*) FROM workunit WHERE "
                                                 "canonical_resultid = 0 AND name LIKE 'many%%'")[
                                                     0][0]:
        time.sleep(chance.uniform(0.1, 0.5))
        daemons.kill(chance.choice(["texcell_validator", "texcell_validator",
                                    "script_assimilator"]))
    trouble.live = False
    trouble.join()
    took = time.monotonic() - start
    until(300, lambda: len(stored_units("many")) == UNITS)
    daemons.stop()
    deadlocks = log("texcell_validator").count("Deadlock found")
    note("%d units in %.0f s, %d kills, %d deadlocks" % (UNITS, took, daemons.killed, deadlocks))
    of_results, users, hosts = sums()
    valid = sql("SELECT count(*), count(DISTINCT workunitid) FROM result WHERE validate_state = %s "
                "AND granted_credit > 0", VALID)[0]
    ok(deadlocks > 0 and daemons.killed > 0, "deadlocks and kills occurred", deadlocks)
    ok(valid == (2 * UNITS, UNITS) and
       not sql("SELECT id FROM workunit WHERE canonical_credit = 0"),
       "every result is valid and has credit", valid)
    ok(of_results == users == hosts and set(users) == {1, 2},
       "credit of results, users and hosts is equal to the last digit",
       {k: [float(d.get(k, 0)) for d in (of_results, users, hosts)] for k in (1, 2)})
    # BOINC averages credit per day with a half-life of a week. As all credit was granted within
    # minutes, the average has hardly decayed: it is credit * ln 2 / 7 days.
    averages = {t: {i: a / (float(total) * math.log(2) / 7) for i, a, total in sql(
        "SELECT id, expavg_credit, total_credit FROM " + t) if total}
                for t in ("user", "host")}
    ok(all(set(a) == {1, 2} and all(0.995 < share <= 1.000001 for share in a.values())
           for a in averages.values()),
       "recent average credit of users and hosts includes all credit", averages)
    ok(len(set(stored_units("many"))) == UNITS == len(stored_units("many")),
       "each unit is in the data set once", len(stored_units("many")))


def wrong_result(unit):
    """The result of the first picture for any unit, as a cheating host sends that computed only one
    picture."""
    path = os.path.join(TMP, "results", unit)
    if not os.path.exists(path):
        right_result(unit)
    return path


def test_wrong_host():
    """The wrong results of a host were accepted without a second result of each unit: one command
    removes them all, and other hosts compute the units again."""
    n = min(40, UNITS)
    submit("lonely", n, "--quorum", "1")
    daemons = Daemons("transitioner", "texcell_validator", "script_assimilator", "file_deleter")
    wait = ("SELECT count(*) FROM result r JOIN workunit w ON w.id = r.workunitid WHERE "
            "r.server_state = 2 AND w.name LIKE 'lonely%%'")
    until(60, lambda: sql(wait)[0][0] == n)
    compute([3])
    ok(until(120, lambda: len(stored_units("lonely")) == n and not sql(
        "SELECT id FROM workunit WHERE file_delete_state != 2 AND name LIKE 'lonely%%'")),
       "%d single results of a host are stored, their files deleted" % n,
       len(stored_units("lonely")))
    before = sums()[1]
    r = tool("texcell-again", "--host", "3", "--dry-run")
    ok(r.returncode == 0 and r.stdout.splitlines()[1:] ==
       ["lonely_%04d" % (i + 1) for i in range(n)], "--dry-run lists the units",
       r.stdout + r.stderr)
    start = time.monotonic()
    r = tool("texcell-again", "--host", "3", "--yes", "--why", "found out")
    note("%s (%.1f s)" % (r.stdout.strip(), time.monotonic() - start))
    ok(r.returncode == 0 and not stored_units("lonely") and until(60, lambda: sql(wait)[0][0] == n),
       "one command removes all units from the data set and queues them",
       r.stdout + r.stderr)
    second_run = tool("texcell-again", "--host", "3", "--yes")
    ok(second_run.returncode == 0 and "no unit" in second_run.stdout,
       "the same command again finds nothing",
       second_run.stdout + second_run.stderr)
    of_results, users, hosts = sums()
    ok(3 in before and 3 not in users and of_results == users == hosts,
       "the host's credit was removed")
    compute([1])
    ok(until(120, lambda: len(stored_units("lonely")) == n), "all units are stored again",
       len(stored_units("lonely")))
    daemons.stop()
    of_results, users, hosts = sums()
    ok(of_results == users == hosts and 3 not in users, "the other host has the credit")
    confirmed = tool("texcell-again", "--host", "1", "--dry-run").stdout
    ok("many_" not in confirmed and "lonely_0001" in confirmed,
       "units that another user confirms stay")
    r = tool("texcell-again", "--yes", "many_0001")
    ok(r.returncode == 0 and "many_0001" not in stored_units("many"),
       "a unit given by name is removed",
       r.stdout + r.stderr)


def hostile_results():
    """Functions that make the bytes of a hostile upload from the right result."""
    def member(name, data):
        return lambda right: forge.archive([forge.Member(name, data, 8)] + right.members()[1:])

    def text(data):
        return lambda right: hostile_memory.with_json(right, data)

    return [
        lambda _right: b"", lambda _right: os.urandom(100000),
        lambda _right: b"<html>busy</html>" * 100,
        lambda right: right.bytes()[:-100],
        lambda _right: gzip.compress(bytes(100 << 20)), lambda _right: bytes(32 << 20),
        member("result.json", bytes(256 << 20)), member("../../name", b"x"),
        text(b'{"a":' * 400000 + b"0" + b"}" * 400000),
        text(b'{"a":[' + b'{"":0},' * ((1 << 20) - 8) + b"0]}"),
        text(b'{"a":[' + b'"",' * ((1 << 21) - 8) + b'""]}'),
        lambda right: hostile_memory.many_members(right, 100000),
        lambda right: hostile_memory.many_rows(right, 24 * 24),
        lambda right: hostile_memory.many_rows(right, 1 << 20)]


def test_hostile():
    """Each second upload is hostile. The validator decides each of them, and each honest one, at
    its first try and within seconds; then others compute the units."""
    n = min(100, UNITS)
    submit("mixed", 2 * n, "--quorum", "1")
    of = "FROM result r JOIN workunit w ON w.id = r.workunitid WHERE w.name LIKE 'mixed%%'"
    daemons = Daemons("transitioner")
    until(60, lambda: sql("SELECT count(*) " + of)[0][0] == 2 * n)
    daemons.stop()
    right, files = forge.Result(right_result("mixed_0002")), []
    for number, kind in enumerate(hostile_results()):
        files.append(os.path.join(TMP, "hostile%d" % number))
        with open(files[-1], "wb") as f:
            f.write(kind(right))

    def make(unit):
        number = int(unit[-4:])
        return right_result(unit) if number % 2 else files[number // 2 % len(files)]

    compute([1], make)
    for number, replace in ((2, lambda upload: os.symlink("/etc/passwd", upload)),
                            (4, os.mkdir), (6, os.mkfifo), (8, lambda _upload: None)):
        upload = spread("upload", upload_name(sql("SELECT r.xml_doc_in %s AND w.name = "
                                                  "'mixed_%04d'" % (of, number))[0][0]))
        os.unlink(upload)
        replace(upload)
    daemons, start, longest, decided = (Daemons("transitioner", "texcell_validator"),
                                        time.monotonic(), 0, -1)
    last = start
    while decided < 2 * n and time.monotonic() < start + 600:
        now, before = time.monotonic(), decided
        decided, = sql("SELECT count(*) %s AND r.validate_state > 0" % of)[0]
        if decided != before:
            longest, last = max(longest, now - last), now
        time.sleep(0.1)
    daemons.stop()
    note("%d results in %.0f s, at most %.1f s without a decision" %
         (2 * n, last - start, longest))
    states = {hostile: dict(sql("SELECT r.validate_state, count(*) %s AND r.server_state = 5 AND "
                                "mod(right(w.name, 1), 2) = %d GROUP BY 1" % (of, not hostile)))
              for hostile in (False, True)}
    ok(states == {False: {VALID: n}, True: {INVALID: n}},
       "hostile and honest uploads are decided at the first try", states)
    ok(longest < 10, "each within 10 s", longest)
    daemons = Daemons("transitioner", "texcell_validator", "script_assimilator")
    ok(until(120, lambda: compute([2]) and False or len(stored_units("mixed")) == 2 * n),
       "others compute the units of hostile hosts", len(stored_units("mixed")))
    daemons.stop()


def test_stop_and_start():
    """The command of admin.md that stops and starts all daemons leaves all of them running."""
    with open(os.path.join(SRC, "docs", "admin.md")) as f:
        line = next(text for text in f if text.startswith("bin/stop; while"))

    def down():
        return [text for text in tool("texcell-watch", "--unsent", "0").stdout.splitlines()
                if text.startswith("daemon down")]

    tool("start")
    ok(until(20, lambda: not down()), "bin/start: all daemons run", down())
    for i in range(3):
        r = run(["bash", "-c", line], cwd=PROJECT, env=ENV, timeout=100)
        ok(not down(), "stopped and started, time %d: all daemons run" % i,
           r.stdout + r.stderr + "\n".join(down()))
    tool("stop")
    ok(until(30, lambda: not re.search(" running ", tool("status", "-v").stdout)),
       "bin/stop stops all daemons")


# The request for work that a BOINC client sends to the scheduler.
REQUEST = """<scheduler_request>
<authenticator>%s</authenticator><hostid>0</hostid><rpc_seqno>1</rpc_seqno><core_client_major_version>8</core_client_major_version>
<core_client_minor_version>0</core_client_minor_version><core_client_release>2</core_client_release>
<platform_name>%s</platform_name><resource_share_fraction>1</resource_share_fraction><rrs_fraction>1</rrs_fraction><prrs_fraction>1</prrs_fraction>
<duration_correction_factor>1</duration_correction_factor><work_req_seconds>100</work_req_seconds><cpu_req_secs>100</cpu_req_secs>
<cpu_req_instances>1</cpu_req_instances><estimated_delay>0</estimated_delay>
<host_info><timezone>0</timezone><domain_name>%s</domain_name><ip_addr>127.0.0.1</ip_addr><host_cpid>%s</host_cpid><p_ncpus>1</p_ncpus>
<p_vendor>GenuineIntel</p_vendor><p_model>x</p_model><p_fpops>5e9</p_fpops><p_iops>1e10</p_iops><p_membw>1e9</p_membw><m_nbytes>8e9</m_nbytes>
<m_cache>1e6</m_cache><m_swap>8e9</m_swap><d_total>1e11</d_total><d_free>9e10</d_free><os_name>%s</os_name><os_version>%s</os_version></host_info>
<time_stats><on_frac>1</on_frac><connected_frac>1</connected_frac><active_frac>1</active_frac></time_stats>
<disk_usage><d_boinc_used_total>0</d_boinc_used_total></disk_usage>
</scheduler_request>
"""  # noqa: E501
PLATFORMS = [("windows_x86_64", "build/windows/volunteers/texcell.exe", "Microsoft Windows 11",
              "Core x64 Edition, (10.00.22631.00)"),
             ("x86_64-pc-linux-gnu", "build/release/volunteers/texcell", "Linux CentOS",
              "CentOS Linux 7 (Core) [3.10.0|libc 2.17 (GNU libc)]"),
             ("aarch64-unknown-linux-gnu", "build/arm64/volunteers/texcell", "Linux Debian",
              "Debian GNU/Linux 12 (bookworm) [6.1.0|libc 2.36 (GNU libc)]")]


def test_platforms():
    """Hosts with Windows, with an old Linux and with Linux on ARM ask the scheduler for work: each
    gets the program for its platform, built by ./bootstrap windows, release or arm64."""
    programs = {platform: os.path.join(os.path.abspath(SRC), path)
                for platform, path, _os, _version in PLATFORMS}
    if not all(map(os.path.exists, programs.values())):
        skip("each platform has its version",
             "BOINC=DIR ./bootstrap windows, release and arm64 make the programs")
        return
    r = deploy(*["--app-version=%s=%s" % pair for pair in programs.items()], version="1.01")
    ok(r.returncode == 0, "texcell-deploy accepts the programs of all platforms",
       r.stdout[-500:] + r.stderr)
    note("\n".join(line for line in r.stdout.splitlines() if "hosts still get" in line))
    submit("ask", 10, "--quorum", "3")      # three results of each unit, one for each host
    sql("UPDATE user SET authenticator = concat('key', id)")
    # BOINC starts its daemons in folder tmp_HOST, and the scheduler in cgi-bin.
    tool("start")
    until(60, lambda: len(sql("SELECT r.id FROM result r WHERE r.server_state = 2")) >= 30)
    for number, (platform, _path, name, version) in enumerate(PLATFORMS, 1):
        request = REQUEST % ("key%d" % number, platform, platform, "%032d" % number, name, version)
        found = []

        def ask():
            r = subprocess.run(["./cgi"], cwd=os.path.join(PROJECT, "cgi-bin"), input=request,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               # noqa: B023
                               timeout=60,
                               env=dict(ENV, REQUEST_METHOD="POST",
                                        CONTENT_LENGTH=str(len(request)), CONTENT_TYPE="text/xml"))
            found[:] = [r.stdout + r.stderr]  # noqa: B023
            if "<app_version>" not in r.stdout:
                time.sleep(8)       # the scheduler demands 7 s between two requests of a host
            return "<app_version>" in r.stdout

        ok(until(60, ask) and "<name>texcell_1.01_%s" % platform in found[0],
           "%s: the scheduler sends its version" % platform, found[0][-3000:])
    tool("stop")
    until(30, lambda: not re.search(" running ", tool("status", "-v").stdout))
    sql("UPDATE workunit SET error_mask = 16, transition_time = %s WHERE name LIKE 'ask%%'",
        int(time.time()))


def test_gpu():
    """A second app for GPUs is created with its own name; its work is submitted and cancelled."""
    r = tool("texcell-submit", "--name", "early", "--analysis", "cellcount", "--for", "gpu",
             pictures("early", 2))
    ok(r.returncode == 2 and "the project has no app texcell_gpu" in r.stderr,
       "--for gpu without the app for GPUs is an error", r.stdout + r.stderr)
    r = deploy("--app", "texcell_gpu", "--classes", "nvidia,amd")
    ok(r.returncode == 0 and
       sql("SELECT user_friendly_name FROM app WHERE name = 'texcell_gpu'")[0][0] ==
       "texcell_gpu: features of crystal and cell images (GPU)", "texcell_gpu has its own name",
       r.stdout[-500:] + r.stderr)
    submit("gpu", 3, "--for", "gpu")
    units = ("SELECT w.error_mask FROM workunit w JOIN app a ON a.id = w.appid WHERE a.name = "
             "'texcell_gpu'")
    before = sql(units)
    status, r = (tool("texcell-submit", "--status", "gpu"),
                 tool("texcell-submit", "--cancel", "gpu", "--yes"))
    ok(status.returncode == 0 and before and {m for m, in before} == {0},
       "--status reports work for GPUs", status.stdout + status.stderr)
    daemons = Daemons("transitioner")
    ok(r.returncode == 0 and until(30, lambda: {m for m, in sql(units)} == {16}),
       "--cancel cancels work for GPUs", r.stdout + r.stderr)
    daemons.stop()
    after = tool("texcell-submit", "--status", "gpu")
    ok(re.search(r"cancelled +%d\n" % len(before), after.stdout),
       "--status reports it as cancelled",
       after.stdout + after.stderr)


OUT = "SELECT r.id FROM result r JOIN workunit w ON w.id = r.workunitid WHERE w.name LIKE 'out%%'"


def test_restore():
    """A backup is made while results are in progress and uploads wait for validation. It is
    restored into a new project, which has neither these uploads nor the units' files."""
    old = PROJECT + ".old"
    submit("out", 60)
    daemons = Daemons("transitioner")
    until(60, lambda: len(sql(OUT + " AND r.server_state = 2")) == 120)
    compute([1, 2])
    until(60, lambda: sql("SELECT count(*) FROM workunit WHERE need_validate = 1")[0][0] == 60)
    daemons.stop()
    # Ten units are valid but not stored; ten others have a result in progress, whose file is
    # uploaded.
    sql("UPDATE workunit SET need_validate = 0 WHERE name > 'out_0010' AND name LIKE 'out%%'")
    daemons = Daemons("texcell_validator")
    ok(until(60, lambda: len(sql("SELECT id FROM workunit WHERE assimilate_state = 1")) == 10),
       "ten units are valid and not stored")
    daemons.stop()
    out = [r[0] for r in sql(OUT + " AND r.validate_state = 0 LIMIT 10")]
    for result in out:
        sql("UPDATE result SET server_state = 4, outcome = 0 WHERE id = %s", result)
    credits = sums()[1]
    bad = sql("SELECT count(*) FROM result WHERE validate_state = %s", INVALID)[0][0]
    saved = os.path.join(TMP, "saved")
    open(os.path.join(PROJECT, "html", "ops", ".htpasswd"), "w").write("me:secret\n")
    r = tool("texcell-backup", saved)
    ok(r.returncode == 0, "a backup is made", r.stderr)
    sql("DROP DATABASE cells")
    os.rename(PROJECT, old)
    if not make_project():
        return
    sql("USE cells")
    r = run([os.path.join(SRC, "validator", "deploy", "texcell-backup"), "--project", PROJECT,
             "--restore", saved], env=ENV)
    ok(r.returncode == 0 and os.path.exists(os.path.join(PROJECT, "html", "ops", ".htpasswd")),
       "the backup is restored", r.stdout + r.stderr)
    r = deploy("--boinc", BOINC, "--validators", "3")
    ok(r.returncode == 0, "texcell-deploy deploys in the restored project", r.stderr)
    r = tool("texcell-again", "--lost")
    ok(r.returncode == 0 and re.match("6[01] units that are out are packed again", r.stdout),
       "units with results in progress are packed again", r.stdout + r.stderr)
    start = time.monotonic()
    daemons = Daemons("transitioner", "texcell_validator", "script_assimilator")
    # The ten results in progress are reported now; their files were uploaded to the old server.
    late = [r[0] for r in sql(OUT + " AND r.server_state = 4")]
    sql("UPDATE result SET server_state = 5, outcome = 1, received_time = %s WHERE "
        "server_state = 4", int(time.time()))
    sql("UPDATE workunit SET transition_time = %s WHERE name LIKE 'out%%'", int(time.time()))
    while time.monotonic() < start + 120 and len(stored_units("out")) < 60:
        compute([3, 4])
        time.sleep(1)
    ok(len(stored_units("out")) == 60, "60 units are stored in %.0f s" % (time.monotonic() - start),
       len(stored_units("out")))
    daemons.stop()
    ok(late and sql("SELECT count(*) FROM result WHERE validate_state = %s", INVALID)[0][0] == bad,
       "uploads lost by the server are no host's error",
       sql("SELECT outcome, validate_state, count(*) FROM result GROUP BY 1, 2"))
    ok(all(credit <= now.get(user, 0) for user, credit in credits.items() for now in sums()),
       "no credit is lost", sums())


def test_lost_by_script():
    """BOINC's own script_validator after a restore does not count a result whose upload is lost
    with the old server as a host's error."""
    submit("script", 2)
    daemons = Daemons("transitioner")
    of = "FROM result r JOIN workunit w ON w.id = r.workunitid WHERE w.name LIKE 'script%%'"
    until(60, lambda: sql("SELECT count(*) " + of)[0][0] == 4)
    compute([1, 2], deliver=False)
    until(60, lambda: sql("SELECT count(*) FROM workunit WHERE need_validate = 1 AND name "
                          "LIKE 'script%%'")[0][0] == 2)
    daemons.stop()
    ids = [r[0] for r in sql("SELECT r.id " + of)]
    sql("UPDATE result SET server_state = 4 WHERE id IN (%s)" % ",".join(map(str, ids)))
    with open(os.path.join(PROJECT, "texcell", "restored"), "w") as f:
        f.write("%d\n" % (time.time() + 1))
    first = tool("texcell-again", "--lost")
    sql("UPDATE result SET server_state = 5 WHERE id IN (%s)" % ",".join(map(str, ids)))
    r = run(["../bin/script_validator", "--app", "texcell", "--credit_from_wu", "--init_script",
             "texcell_check", "--compare_script", "texcell_compare",
             "--one_pass"], env=ENV, cwd=os.path.join(PROJECT, "tmp_" + HOST))
    states = set(sql("SELECT r.outcome, r.validate_state " + of))
    ok(states == {(SUCCESS, INCONCLUSIVE)},
       "script_validator: lost uploads are no host's error",
       [states, first, r.stdout[-1000:] + r.stderr[-1000:]])
    again = tool("texcell-again", "--lost")
    ok(again.stdout.startswith("4 results were reported whose uploads the server lost") and
       set(sql("SELECT r.outcome, r.validate_state " + of)) == {(7, NO_CHECK)},
       "texcell-again --lost: lost uploads are no host's error", again.stdout + again.stderr)
    daemons = Daemons("transitioner", "texcell_validator", "script_assimilator")
    ok(until(60, lambda: compute([3, 4]) and False or len(stored_units("script")) == 2),
       "other hosts compute these units")
    daemons.stop()


# Commands for gdb: follow a daemon into the process that reads a result (to wu_npz_open), print its
# open descriptors, and write a database query to each descriptor that is a socket.
GDB = """set pagination off
set confirm off
set breakpoint pending on
set follow-fork-mode child
set detach-on-fork on
break wu_npz_open
run
python
import os
of = "/proc/%d" % gdb.selected_inferior().pid
print("reader", os.readlink(of + "/exe"), open(of + "/status").read().split("Seccomp:")[1].split()[0])
query = b"\\x03UPDATE user SET total_credit = 1e9 WHERE id = 4"
packet = len(query).to_bytes(3, "little") + b"\\0" + query
for fd in sorted(map(int, os.listdir(of + "/fd"))):
    there = os.readlink("%s/fd/%d" % (of, fd))
    print("open", fd, there)
    if there.startswith("socket:"):
        gdb.selected_inferior().write_memory(int(gdb.parse_and_eval("$sp")) - 4096, packet)
        print("written", gdb.parse_and_eval("(long)write(%d, $sp - 4096, %d)" % (fd, len(packet))))
end
kill
quit
"""  # noqa: E501


def test_descriptors():
    """The process that reads an upload does not inherit the connection of BOINC's daemons to the
    database."""
    if not shutil.which("gdb"):
        skip("descriptors of the process that reads uploads", "there is no gdb")
        return
    with open(os.path.join(TMP, "gdb"), "w") as f:
        f.write(GDB)
    scripts = ["--app", "texcell", "--credit_from_wu", "--init_script", "texcell_check",
               "--compare_script", "texcell_compare", "--one_pass"]
    for name, arguments in (("script_validator", scripts), ("texcell_validator", scripts),
                            ("script_assimilator",
                             ["--app", "texcell", "--script", "texcell_assimilate", "--one_pass"])):
        if arguments is scripts:
            unit = "seen%d" % len(name)
            submit(unit, 1, "--quorum", "1")
            daemons = Daemons("transitioner")
            # noqa: B023
            until(60, lambda: sql("SELECT count(*) FROM result WHERE server_state = 2 AND "
                                  "name LIKE %s", unit + "%")[0][0] == 1)
            compute([1])
            # noqa: B023
            until(60, lambda: sql("SELECT count(*) FROM workunit WHERE need_validate = 1 AND "
                                  "name LIKE %s", unit + "%")[0][0] == 1)
            daemons.stop()
        r = run(["gdb", "-q", "-batch", "-x", os.path.join(TMP, "gdb"), "--args", "../bin/" + name,
                 *arguments], env=ENV, timeout=120,
                cwd=os.path.join(PROJECT, "tmp_" + HOST))
        reader, there = (re.search(r"reader \S*/(\S+) 2\n", r.stdout),
                         re.findall(r"^open (\d+) (.*)", r.stdout, re.MULTILINE))
        note("%s: %s" % (name, ", ".join("%s %s" % pair for pair in there)))
        ok(reader and {"0", "1", "2"} <= {fd for fd, _ in there} and
           not any("socket:" in target for _fd, target in there),
           "%s: the reader has no socket" % name, r.stdout[-2000:] + r.stderr[-1000:])
        if name == "texcell_validator":       # validate the unit, for the assimilator
            run(["../bin/" + name, *arguments], env=ENV, timeout=120,
                cwd=os.path.join(PROJECT, "tmp_" + HOST))
    ok(sql("SELECT total_credit FROM user WHERE id = 4")[0][0] < 1e9,
       "no query was executed by that process")


def main():
    if not os.path.exists(os.path.join(BOINC, "sched", "validator.o")) or not program(
            "mariadbd") or not program("mariadb-install-db") or not program("php"):
        skip("BOINC's server", "BOINC names no folder of its sources with the server built, or "
             "there is no MariaDB, or no PHP")
        done()
    database = start_database()
    if not ok(database is not None and database.poll() is None,
              "MariaDB's programs for a separate database",
              log("db")[-1000:]):
        done()
    try:
        import MySQLdb
        connection = MySQLdb.connect(unix_socket=SOCKET, user="root")
        connection.cursor().execute("CREATE DATABASE IF NOT EXISTS cells")
        connection.cursor().execute("DROP DATABASE cells")
        if make_project():
            r = deploy("--boinc", BOINC, "--validators", "3")
            if ok(r.returncode == 0, "texcell-deploy", r.stdout[-1000:] + r.stderr):
                make_users(4)
                for test in (test_stop_and_start, test_gpu, test_platforms, test_deadlocks,
                             test_wrong_host, test_hostile, test_restore, test_lost_by_script,
                             test_descriptors):
                    if not sys.argv[1:] or test.__name__ in sys.argv[1:]:
                        test()
    finally:
        database.terminate()
        database.wait(60)
    done()


main()
