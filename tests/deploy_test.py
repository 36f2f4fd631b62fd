#!/usr/bin/python3
"""Tests texcell-deploy, texcell-submit, texcell-again, texcell-watch and texcell-backup in project
folders with the layout of BOINC's make_project. Scripts in bin/ stand in for BOINC's tools: they
keep a "database" in a file, print what the real tools print, and exit with 0 where those do."""
import contextlib
import fcntl
import glob
import hashlib
import json
import math
import os
import pty
import pwd
import re
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
import zipfile
import zlib

import numpy as np
from PIL import Image

from tap import BUILD, SRC, TEXCELL, TEXCELL_VALIDATE, TEXCELL_WU, done, ok, run, scratch, skip

DEPLOY_FOLDER = os.path.join(SRC, "validator", "deploy")
DEPLOY = os.path.join(DEPLOY_FOLDER, "texcell-deploy")
TMP = scratch()
PLATFORM = "x86_64-pc-linux-gnu" if os.uname().machine == "x86_64" else "aarch64-unknown-linux-gnu"
KINDS = ("cpu", "mt", "opencl_nvidia", "opencl_amd", "opencl_intel")


def newest_libc():
    """The newest glibc version that texcell and BOINC's libraries need, in BOINC's notation: 234 is
    glibc 2.34."""
    files = [TEXCELL] + re.findall(r"=> (\S*libboinc\S*)", run(["ldd", TEXCELL]).stdout)
    text = "".join(run(["readelf", "--dyn-syms", "-W", f]).stdout for f in files)
    # UND marks the symbols that the file needs and does not define.
    return max(100 * int(a) + int(b) for a, b in re.findall(r" UND .*@GLIBC_(\d+)\.(\d+)", text))


LIBC = newest_libc()
FOLDERS = ["%s__texcell_%s_libc%d" % (PLATFORM, kind, LIBC) for kind in KINDS]

CONFIG = """<?xml version="1.0" ?>
<boinc>
    <!-- the admin's comment -->
    <config>
        <long_name>Caf\u00e9 &amp; cells</long_name>
        <uldl_dir_fanout>1024</uldl_dir_fanout>
        <download_dir>%s/download</download_dir>
        <upload_dir>upload</upload_dir>
        <db_name>%s/db.sqlite</db_name>
        <one_result_per_user_per_wu>0</one_result_per_user_per_wu>
    </config>
    <tasks>
        <task><cmd>db_dump -d 2</cmd><period>24 hours</period></task>
    </tasks>
    <daemons>
        <daemon>
            <cmd>feeder -d 3 </cmd>
        </daemon>
        <daemon><cmd>script_validator --app other --init_script "check files"</cmd></daemon>
    </daemons>
</boinc>
"""
PROJECT_XML = """<boinc>
    <platform>
        <name>x86_64-pc-linux-gnu</name>
        <user_friendly_name>Linux</user_friendly_name>
    </platform>
</boinc>
"""
OWN_CLASSES = """<plan_classes>
    <!-- of another app -->
    <plan_class><name> other_mt </name><min_ncpus>4</min_ncpus></plan_class>
    <plan_class><name>texcell_mt_libc%d</name><min_ncpus>3</min_ncpus></plan_class>
</plan_classes>
""" % LIBC

# Stand-in for the module MySQLdb, by which BOINC's Python tools reach the database. It uses SQLite.
MYSQLDB = """import sqlite3
Error = sqlite3.Error
class connect:
    def __init__(self, host, user, passwd, db):
        self.db = sqlite3.connect(db, timeout=60, isolation_level=None)
    def autocommit(self, _on):
        pass
    def cursor(self):
        return Cursor(self.db)
class Cursor:
    def __init__(self, db):
        self.cursor = db.cursor()
    def execute(self, sql, values=()):
        self.cursor.execute(sql.replace("%s", "?").replace("START TRANSACTION", "BEGIN").replace(" FOR UPDATE", ""), values)
        self.description = self.cursor.description
    def fetchall(self):
        return self.cursor.fetchall()
    def close(self):
        self.cursor.close()
"""  # noqa: E501
SCHEMA = """
CREATE TABLE app(id INTEGER PRIMARY KEY, name TEXT UNIQUE, fraction_done_exact INTEGER DEFAULT 0);
CREATE TABLE workunit(id INTEGER PRIMARY KEY, name TEXT COLLATE NOCASE UNIQUE, canonical_resultid INTEGER DEFAULT 0,
    error_mask INTEGER DEFAULT 0, assimilate_state INTEGER DEFAULT 0, canonical_credit REAL,
    need_validate INTEGER DEFAULT 0, transition_time INTEGER DEFAULT 0, file_delete_state INTEGER DEFAULT 0,
    appid INTEGER DEFAULT 1, target_nresults INTEGER DEFAULT 2, min_quorum INTEGER DEFAULT 2, max_total_results INTEGER DEFAULT 14, max_error_results INTEGER DEFAULT 12);
CREATE TABLE result(id INTEGER PRIMARY KEY, workunitid INTEGER, server_state INTEGER, outcome INTEGER DEFAULT 0,
    validate_state INTEGER DEFAULT 0, hostid INTEGER DEFAULT 0, app_version_id INTEGER DEFAULT 0,
    received_time INTEGER DEFAULT 0, userid INTEGER DEFAULT 0, granted_credit REAL DEFAULT 0, name TEXT, xml_doc_in TEXT, sent_time INTEGER DEFAULT 0,
    exit_status INTEGER DEFAULT 0, file_delete_state INTEGER DEFAULT 0);
CREATE TABLE user(id INTEGER PRIMARY KEY, name TEXT, teamid INTEGER DEFAULT 0, total_credit REAL);
CREATE TABLE host(id INTEGER PRIMARY KEY, total_credit REAL, userid INTEGER DEFAULT 0, rpc_time INTEGER DEFAULT 0);
CREATE TABLE platform(id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE app_version(id INTEGER PRIMARY KEY, appid INTEGER, version_num INTEGER, platformid INTEGER, plan_class TEXT, deprecated INTEGER DEFAULT 0);
CREATE TABLE team(id INTEGER PRIMARY KEY, total_credit REAL);
CREATE TABLE host_app_version(host_id INTEGER, app_version_id INTEGER, consecutive_valid INTEGER);
"""  # noqa: E501

# The beginning of each stand-in for a tool of BOINC. Its variable db is the state that the
# stand-ins keep between calls, in db.json; the SQL tables are in db.sqlite.
STUB = """#!/usr/bin/python3
import hashlib, json, os, re, shutil, signal, sqlite3, sys
sql = sqlite3.connect("db.sqlite", isolation_level=None, timeout=60)
path = os.path.join(os.getcwd(), "db.json")
db = json.load(open(path)) if os.path.exists(path) else {"apps": [], "versions": [], "work": [], "calls": []}
def save():
    with open(path + ".new", "w") as f:
        json.dump(db, f)
    os.replace(path + ".new", path)
def leave(code=0):
    save()
    sys.exit(code)
"""  # noqa: E501
STUBS = {
    "xadd": """
for name in re.findall(r"<app>\\s*<name>(.*?)</name>", open("project.xml").read()):
    print(("app %s already in DB" if name in db["apps"] else "added app: (0, '%s', 'x')") % name)
    db["apps"] = sorted(set(db["apps"] + [name]))
    sql.execute("INSERT OR IGNORE INTO app(name) VALUES(?)", (name,))
leave()
""",
    "update_versions": """
assert sys.argv[1:] == ["--noconfirm", "--verbose"], sys.argv
for app in sorted(os.listdir("apps")):
    print("App %s:" % app)
    for version in os.listdir("apps/" + app):
        print("   Version %s:" % version)
        for folder in os.listdir("apps/%s/%s" % (app, version)):
            print("      App version: " + folder)
            key = [app, version, folder]
            if key in db["versions"]:
                print("         (already in database)")
                continue
            for name in os.listdir("/".join(["apps"] + key)):
                if name == "version.xml":
                    continue
                here, there = "/".join(["apps"] + key + [name]), "download/" + name
                if os.path.exists(there) and open(here, "rb").read() != open(there, "rb").read():
                    print("Error: files %s and %s differ.\\nBOINC files are immutable.\\n" % (here, there))
                    leave(0)
                shutil.copy(here, there)
            db["versions"].append(key)
            platform, _, plan_class = folder.partition("__")
            sql.execute("INSERT INTO platform(name) SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM platform WHERE name = ?1)", (platform,))
            sql.execute("INSERT INTO app_version(appid, version_num, platformid, plan_class) SELECT a.id, ?, p.id, ? FROM app a, platform p "
                        "WHERE a.name = ? AND p.name = ?", (round(100 * float(version)), plan_class, app, platform))
            print("    App version added successfully; ID=%d" % len(db["versions"]))
leave()
""",  # noqa: E501
    "create_work": """
together = "--stdin" in sys.argv
lines = [line.split() for line in sys.stdin] if together else [sys.argv[1:]]
names = [line[line.index("--wu_name") + 1] for line in lines]
credit = float(sys.argv[sys.argv.index("--credit") + 1])
if os.path.exists("no_work"):
    print("create_work: error opening database")
    leave(1)
for line in lines:
    digest = hashlib.md5(line[-1].encode()).hexdigest()
    size, = [float(open("download/%x/%s.md5" % (int(digest[1:8], 16) % 1024, line[-1])).read().split()[1])]
    assert size == os.path.getsize("download/%x/%s" % (int(digest[1:8], 16) % 1024, line[-1]))
kill = int(open("kill_at").read()) if os.path.exists("kill_at") else -1
def killed(moment):
    if kill == moment:
        os.remove("kill_at")
        os.kill(os.getppid(), signal.SIGKILL)
killed(0)
sql.execute("BEGIN IMMEDIATE")
try:
    sql.executemany("INSERT INTO workunit(name, canonical_credit) VALUES(?, ?)", [(n, credit) for n in names])
except sqlite3.IntegrityError:
    print("Database error: Duplicate entry '%s' for key 'name'" % names[0])
    leave(1)
sql.execute("COMMIT")
killed(1)
db["work"] += names
db["calls"].append(sys.argv[1:])
leave()
""",  # noqa: E501
    "cancel_jobs": """
sql.execute("UPDATE workunit SET error_mask = error_mask | 16 WHERE id BETWEEN ? AND ?", sys.argv[1:])
leave()
""",  # noqa: E501
    "script_validator": "", "script_assimilator": "",
}


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode())
    os.chmod(path, mode)


def read(*parts):
    with open(os.path.join(*parts), "rb") as f:
        return f.read()


def make_project(name):
    """Makes a project folder with the layout of BOINC's make_project and the stand-ins for its
    tools."""
    folder = os.path.join(TMP, name)
    for sub in ("apps", "bin", "download", "templates", "upload", "tmp_host"):
        os.makedirs(os.path.join(folder, sub))
    escaped = folder.replace("&", "&amp;").replace("<", "&lt;")
    write(os.path.join(folder, "config.xml"), CONFIG % (escaped, escaped))
    write(os.path.join(folder, "project.xml"), PROJECT_XML)
    for tool, text in STUBS.items():
        write(os.path.join(folder, "bin", tool), STUB + text, 0o755)
    write(os.path.join(folder, "bin", "sign_executable"), "#!/bin/sh\ngrep -q secret \"$2\" && "
          "echo 0a1b && exit\necho \"add: can't read key\"; exit 1\n", 0o755)
    with contextlib.closing(sqlite3.connect(os.path.join(folder, "db.sqlite"))) as db:
        db.executescript(SCHEMA)
    return folder


def sql(folder, statement, *values):
    with contextlib.closing(sqlite3.connect(os.path.join(folder, "db.sqlite"))) as db, db:
        return db.execute(statement, values).fetchall()


def tree(folder):
    """{path: (SHA-256, mode)} of every file, except for lock files and SQLite databases."""
    entries = {}
    for base, _folders, files in os.walk(folder):
        for name in files:
            path = os.path.join(base, name)
            # SQLite writes its file even if a transaction changes nothing.
            if name.startswith(("db.sqlite", "submissions.sqlite-")) or path.endswith(
                    "/texcell/lock"):
                continue
            entries[os.path.relpath(path, folder)] = (hashlib.sha256(read(path)).hexdigest(),
                                                      os.stat(path).st_mode)
    return entries


def database(folder):
    """What the stand-ins for BOINC's tools have recorded."""
    path = os.path.join(folder, "db.json")
    return json.loads(read(path)) if os.path.exists(path) else {"work": [], "calls": [],
                                                                "versions": []}


write(os.path.join(TMP, "python", "MySQLdb.py"), MYSQLDB)
ENV = dict(os.environ, PYTHONPATH=os.path.join(TMP, "python"))
# A module MySQLdb that cannot be imported, as if Debian's python3-mysqldb were not installed.
write(os.path.join(TMP, "absent", "MySQLdb.py"),
      "raise ImportError(\"No module named 'MySQLdb'\")\n")


def at_terminal(argv, answer=""):
    """The exit code and output of a program that runs at a terminal, where `answer` is typed."""
    our_end, program_end = pty.openpty()
    process = subprocess.Popen(argv, env=ENV, stdin=program_end, stdout=program_end,
                               stderr=program_end)
    os.close(program_end)
    os.write(our_end, answer.encode())
    output = b""
    with contextlib.suppress(OSError), open(our_end, "rb",
                                            0) as f:  # at the end read() raises OSError
        while part := f.read(4096):
            output += part
    return process.wait(60), output.decode()


def deploy(folder, *options, build=BUILD, version="1.00", **kw):
    return run([sys.executable, DEPLOY, *(["--version", version] if version else []), "--build",
                build, *options, folder],
               env=kw.get("env", ENV))


def is_kept(old_text, new_text):
    """Whether all lines of old_text are in new_text, in the same order."""
    lines = iter(new_text.splitlines())
    return all(any(line == other for other in lines) for line in old_text.splitlines())


def check_refused(name, folder, words, *options, code=2, **kw):
    """Tests that texcell-deploy prints one line, which matches `words`, exits with `code`, and
    changes no file."""
    original = tree(folder)
    r = deploy(folder, *options, **kw)
    ok(r.returncode == code and re.search(words, r.stderr) and r.stderr.count("\n") == 1
       and r.stderr.startswith("texcell-deploy: error: ") and tree(folder) == original,
       "refused: " + name, "exit %d\n%s%s" % (r.returncode, r.stdout, r.stderr))


# --- installing ---------------------------------------------------------------------------

def needed_libraries():
    """SONAMEs of the libraries that texcell needs, by readelf, except for the C and C++ runtime."""
    text = run(["readelf", "-d", TEXCELL]).stdout
    names = re.findall(r"\(NEEDED\).*\[(.*?)\]", text)
    return {n for n in names
            if not re.match(r"lib(c|m|stdc\+\+|gcc_s|dl|pthread|rt|asan|ubsan)\.so|ld-linux", n)}


def test_version_folders(folder, version):
    """The folders of a version contain the files that BOINC's update_versions needs."""
    program = "texcell_%s_%s" % (version, PLATFORM)
    for name in FOLDERS:
        base = os.path.join(folder, "apps", "texcell", version, name)
        root = ElementTree.parse(os.path.join(base, "version.xml")).getroot()
        files = {f.findtext("physical_name"): f.find("main_program") is not None
                 for f in root.findall("file")}
        mains = [n for n, main in files.items() if main]
        ok(mains == [program] and set(files) == set(os.listdir(base)) - {"version.xml"}
           and needed_libraries() <= set(files) and
           re.match(r"\d+\.\d+\.\d+$", root.findtext("api_version"))
           and read(base, program) == read(TEXCELL) and os.access(os.path.join(base, program),
                                                                  os.X_OK),
           "version %s: folder %s has the program, libraries named by SONAME, and version.xml with "
           "the API version" % (version, name), files)


def test_install():
    folder = make_project("cells")
    original = tree(folder)
    r = deploy(folder, "--dry-run")
    ok(r.returncode == 0 and tree(folder) == original and "would write config.xml" in r.stdout
       and "would run bin/xadd" in r.stdout,
       "deploy: a dry run prints its actions and changes nothing",
       r.stderr)
    r = deploy(folder)
    ok(r.returncode == 0 and "one computer may get both results" in r.stdout,
       "deploy installs a version",
       r.stdout + r.stderr)
    test_version_folders(folder, "1.00")
    ok(sorted(v[2] for v in database(folder)["versions"]) == sorted(FOLDERS),
       "update_versions added a version for every plan class")
    for name, old in (("config.xml", CONFIG % (folder, folder)), ("project.xml", PROJECT_XML)):
        new = read(folder, name).decode()
        ok(is_kept(old, new), "%s keeps all its lines" % name, new)
    commands = [d.findtext("cmd")
                for d in ElementTree.parse(os.path.join(folder, "config.xml")).iter("daemon")]
    ok(commands[:2] == ["feeder -d 3 ", 'script_validator --app other --init_script "check files"']
       and [c.split()[0] for c in commands[2:]] == ["script_validator", "script_assimilator"]
       and all('"' not in c for c in commands[2:]),
       "config.xml: other daemons stay, and texcell's are added, whose commands have no quotes",
       commands)
    logs = [d.findtext("output")
            for d in ElementTree.parse(os.path.join(folder, "config.xml")).iter("daemon")][2:]
    ok(None not in logs and len(set(logs)) == 2, "each of texcell's daemons has its own log", logs)
    classes = {c.findtext("name"): c
               for c in ElementTree.parse(os.path.join(folder, "plan_class_spec.xml")).getroot()}
    gpus = {n.rsplit("_", 2)[1]: c.findtext("gpu_type") for n, c in classes.items()
            if "opencl" in n}
    ok(sorted("__" + n for n in classes) == sorted(f[len(PLATFORM):] for f in FOLDERS)
       and {c.findtext("min_libc_version") for c in classes.values()} == {str(LIBC)}
       and gpus == {"nvidia": "nvidia", "amd": "amd", "intel": "intel"}
       and all(c.find("opencl") is not None for n, c in classes.items() if "opencl" in n),
       "each app version has a plan class, which excludes hosts with an older C library",
       sorted(classes))
    after = tree(folder)
    r = deploy(folder)
    ok(r.returncode == 0 and tree(folder) == after and
       "all files are as they should be" in r.stdout,
       "the same deployment again changes nothing", r.stdout + r.stderr)
    return folder


def test_new_versions(folder):
    build = os.path.join(TMP, "build")
    os.mkdir(build)
    for name in ("texcell", "texcell-wu", "texcell-validate", "texcell-assimilate"):
        shutil.copy(os.path.join(BUILD, name), build)
    check_refused("programs of unknown sources", folder,
                  "the programs are not those of .* as it is now: build it", build=build)
    write(os.path.join(build, "sources.sha256"), "0" * 64 + "  -\n")
    check_refused("programs of other sources", folder,
                  "the programs are not those of .* as it is now: build it", build=build)
    shutil.copy(os.path.join(BUILD, "sources.sha256"), build)
    with open(os.path.join(build, "texcell"), "ab") as f:
        f.write(b"another build")
    check_refused("another program with an existing version", folder,
                  "versions never change: give a higher --version",
                  build=build)
    extra = os.path.join(folder, "apps", "texcell", "1.00", FOLDERS[0], "left.over")
    write(extra, "x")
    check_refused("a foreign file in the version's folder", folder, r"left\.over")
    os.unlink(extra)
    write(os.path.join(folder, "apps", "texcell", "1.00", FOLDERS[0], "libboinc.so.7.sig"),
          "signed elsewhere")
    ok(deploy(folder).returncode == 0, "signatures next to the files are accepted")
    # The libraries in download/ differ from the system's, as after an update of the system.
    libraries = sorted(needed_libraries())
    for name in libraries:
        write(os.path.join(folder, "download", name), read(folder, "download", name) + b"older")
    r = deploy(folder, build=build, version="1.01")
    ok(r.returncode == 0 and
       all(read(folder, "apps", "texcell", "1.01", FOLDERS[0], n) == read(folder, "download", n)
           for n in libraries),
       "a new version reuses the libraries in download/", r.stdout + r.stderr)
    ok(len(database(folder)["versions"]) == 2 * len(FOLDERS), "both versions are in the database")
    platform = FOLDERS[0].split("__")[0]
    sql(folder, "INSERT INTO platform(name) VALUES('other')")
    sql(folder, "INSERT INTO app_version(appid, version_num, platformid, plan_class) SELECT a.id, "
        "100, p.id, 'old' FROM app a, platform p WHERE a.name = 'texcell' ORDER BY p.id")
    r = deploy(folder, build=build, version="1.01")
    ok("note: hosts still get 1.00 for %s (old); with --deprecate no more\nnote: hosts still get "
       "1.00 for other (old)\n" % platform in r.stdout,
       "older versions that hosts would still get are printed", r.stdout + r.stderr)
    r = deploy(folder, "--deprecate", "--dry-run", build=build, version="1.01")
    ok(r.returncode == 0 and "would deprecate 1.00 for %s (old)\nnote: hosts still get 1.00 for "
       "other (old)\n" % platform in r.stdout
       and sql(folder, "SELECT sum(deprecated) FROM app_version") == [(0,)],
       "--deprecate --dry-run names the versions it would deprecate", r.stdout + r.stderr)
    r = deploy(folder, "--deprecate", build=build, version="1.01")
    ok("database: 1.00 for %s (old) is deprecated\nnote: hosts still get 1.00 for other (old)\n" %
       platform in r.stdout
       and sql(folder, "SELECT deprecated FROM app_version WHERE plan_class = 'old' ORDER BY id") ==
       [(1,), (0,)], "--deprecate deprecates superseded versions", r.stdout + r.stderr)


# --- other systems ------------------------------------------------------------------------

API = b"\0API_VERSION_8.1.0\0"


def elf(name, libraries=(), machine=None):
    """The path of an ELF program that needs these libraries, none of which exists. machine: its ELF
    machine number."""
    path, flags = os.path.join(TMP, name), []
    for library in libraries:
        run(["gcc", "-shared", "-Wl,-soname," + library, "-o", os.path.join(TMP, "stub.so"), "-x",
             "c", "/dev/null"])
        shutil.move(os.path.join(TMP, "stub.so"), os.path.join(TMP, "stubs-" + library))
        flags.append(os.path.join(TMP, "stubs-" + library))
    write(path + ".c", "int main(void) { return 0; }")
    r = run(["gcc", "-o", path, path + ".c", "-Wl,--no-as-needed", *flags])
    data = bytearray(read(path) + API) if r.returncode == 0 else bytearray()
    if machine:
        data[18] = machine
    write(path, bytes(data), 0o755)
    return path


def pe(name, machine=0x8664, dlls=("KERNEL32.dll",)):
    """The path of a PE32+ file: headers, and one section with an import table."""
    table, texts = b"", b""
    for dll in dlls:
        table += struct.pack("<IIIII", 0, 0, 0, 0x1000 + 20 * (len(dlls) + 1) + len(texts), 0)
        texts += dll.encode() + b"\0"
    content = table + bytes(20) + texts
    optional = struct.pack("<H", 0x20b) + bytes(110) + struct.pack("<IIII", 0, 0, 0x1000,
                                                                   len(content)) + bytes(112)
    head = b"MZ" + bytes(58) + struct.pack("<I",
                                           64) + b"PE\0\0" + struct.pack("<HHIIIHH", machine, 1, 0,
                                                                         0, 0, len(optional), 0)
    section = b".idata\0\0" + struct.pack("<IIII", len(content), 0x1000, len(content),
                                          0x400) + bytes(16)
    write(os.path.join(TMP, name), (head + optional + section).ljust(0x400, b"\0") + content + API)
    return os.path.join(TMP, name)


def macho(name, libraries=("/usr/lib/libSystem.B.dylib",)):
    """The path of a 64-bit Mach-O executable that has load commands for these libraries."""
    commands = b""
    for library in libraries:
        text = library.encode().ljust(len(library) // 8 * 8 + 8, b"\0")
        commands += struct.pack("<IIIIII", 0xc, 24 + len(text), 24, 0, 0, 0) + text
    write(os.path.join(TMP, name),
          struct.pack("<IIIIIIII", 0xfeedfacf, 0x100000c, 0, 2, len(libraries), len(commands), 0, 0)
          + commands + API)
    return os.path.join(TMP, name)


def test_platforms():
    """Programs for several systems are deployed at once; a program that no volunteer's computer
    could run is refused."""
    folder = make_project("platforms")
    programs = {"x86_64-pc-linux-gnu": elf("p1", machine=62),
                "aarch64-unknown-linux-gnu": elf("p2", machine=183),
                "windows_x86_64": pe("p3.exe"), "arm64-apple-darwin": macho("p4")}
    r = deploy(folder,
               *[w for p, f in programs.items() for w in ("--app-version", "%s=%s" % (p, f))])
    ok(r.returncode == 0, "one call deploys for four platforms", r.stdout + r.stderr)
    platforms = sorted(v[2].split("__")[0] for v in database(folder)["versions"])
    ok(platforms == sorted(["arm64-apple-darwin"] * 3 + [p for p in programs if "apple" not in p
                                                         for _ in KINDS]),
       "each platform gets the plan classes that it supports", platforms)
    classes = {c.findtext("name"): c
               for c in ElementTree.parse(os.path.join(folder, "plan_class_spec.xml")).getroot()}
    ok(classes["texcell_cpu_windows"].findtext("min_os_version") == "1001836200"
       and classes["texcell_opencl_apple_macos"].findtext("gpu_type") == "apple_gpu"
       and all(c.find("min_libc_version") is None for n, c in classes.items() if "_libc" not in n),
       "plan classes exclude hosts whose system is too old for the program", sorted(classes))
    with open(os.path.join(SRC, "docs", "volunteer.md")) as f:
        named = set(re.findall("<plan_class>(.*)</plan_class>", f.read()))
    ok(named and named <= {re.sub("_libc[0-9]+$", "_libc217", n) for n in classes},
       "the examples in volunteer.md name existing plan classes", sorted(named))
    exe = "texcell_1.00_windows_x86_64.exe"
    app_folder = os.path.join(folder, "apps", "texcell", "1.00",
                              "windows_x86_64__texcell_cpu_windows")
    ok(sorted(os.listdir(app_folder)) == [exe, "version.xml"] and
       exe in read(app_folder, "version.xml").decode(),
       "a program for Windows ends in .exe")
    graphics = elf("texcell_graphics", machine=62)
    again = make_project("looked_at")
    r = deploy(again, "--app-version", "auto=" + programs["x86_64-pc-linux-gnu"], "--app-version",
               "auto=" + programs["aarch64-unknown-linux-gnu"])
    seen = {}
    for path in glob.glob(os.path.join(again, "apps", "texcell", "1.00", "*", "version.xml")):
        files = [f for f in ElementTree.parse(path).getroot() if f.findtext("logical_name") ==
                 "graphics_app"]
        seen[os.path.basename(os.path.dirname(path)).split("__")[0]] = [
            (f.findtext("physical_name"),
             read(os.path.dirname(path), f.findtext("physical_name")) == read(graphics))
            for f in files]
    ok(r.returncode == 0 and
       seen == {"x86_64-pc-linux-gnu": [("texcell_graphics_1.00_x86_64-pc-linux-gnu", True)],
                "aarch64-unknown-linux-gnu": []},
       "the graphics program is deployed if it is next to texcell and for the same platform",
       (seen, r.stdout + r.stderr))
    os.remove(graphics)
    library = os.path.join(TMP, "beside", "libnowhere.so.3")
    lonely = elf("beside-it", ["libnowhere.so.3"])
    check_refused("a Linux program whose library is missing", folder,
                  r"needs libnowhere\.so\.3, which volunteers may lack",
                  "--app-version", "auto=" + lonely, version="1.01")
    os.makedirs(os.path.dirname(library))
    shutil.copy(os.path.join(TMP, "stubs-libnowhere.so.3"), library)
    shutil.copy(lonely, os.path.dirname(library))
    r = deploy(folder, "--app-version", "auto=" + os.path.join(TMP, "beside", "beside-it"),
               "--classes", "cpu", version="1.01")
    ok(r.returncode == 0 and os.path.exists(os.path.join(folder, "download", "libnowhere.so.3")),
       "a library next to the program is deployed", r.stdout + r.stderr)
    on_arm = os.path.join(TMP, "arm", "on-arm")
    write(os.path.join(TMP, "arm", "libnowhere.so.3"), read(library) + b"another")
    shutil.copy(elf("on-arm", ["libnowhere.so.3"], machine=183), on_arm)
    check_refused("two programs with different libraries of the same name", make_project("two"),
                  r"libnowhere\.so\.3: two of these programs need different files",
                  "--app-version", "auto=" + os.path.join(TMP, "beside", "beside-it"),
                  "--app-version",
                  "auto=" + on_arm)
    for name, path, words in (("a DLL that Windows has not",
                               pe("p5.exe", dlls=["KERNEL32.dll", "libpng16-16.dll"]),
                               r"needs libpng16-16\.dll"),
                              ("a library that macOS has not",
                               macho("p6", ["/opt/lib/libpng.dylib"]),
                               r"needs /opt/lib/libpng\.dylib"),
                              ("a file that is cut", "cut", "is a damaged program"),
                              ("no program", DEPLOY, "is not a 64-bit program"),
                              ("a machine that BOINC has no name for here", elf("p7", machine=243),
                               "give --app-version NAME=")):
        if path == "cut":
            path = os.path.join(TMP, path)
            write(path, read(programs["windows_x86_64"])[:300])
        check_refused(name, folder, words, "--app-version", "auto=" + path, version="1.02")
    check_refused("a program for another platform than the one given", folder,
                  "is a program for windows_x86_64, not for",
                  "--app-version", "x86_64-pc-linux-gnu=" + programs["windows_x86_64"],
                  version="1.02")
    check_refused("two programs for the same platform", folder,
                  "two programs for the same platform",
                  "--app-version", "auto=" + programs["windows_x86_64"],
                  "--app-version", "auto=" + pe("p8.exe"), code=1, version="1.02")


def test_settings():
    """After a version of programs built elsewhere was deployed (--app-version), a call that changes
    a setting does not publish this machine's programs."""
    folder = make_project("volunteers")
    check_refused("no version", folder, "has no version of texcell: give --version", code=1,
                  version=None)
    program = elf("theirs", machine=62)
    r = deploy(folder, "--app-version", "x86_64-pc-linux-gnu=" + program, "--app-version",
               "windows_x86_64=" + pe("theirs.exe"), version="1.01")
    versions, apps = database(folder)["versions"], tree(os.path.join(folder, "apps"))
    ok(r.returncode == 0 and versions,
       "a version of programs built elsewhere is deployed", r.stderr)
    check_refused("the same version without its programs", folder,
                  "apps/texcell/1.01: has other programs, such as .*leave --version out",
                  "--verify",
                  "0.1", version="1.01")
    for option in (["--deprecate"], ["--classes", "cpu"], ["--app-version", "auto=" + program]):
        check_refused("%s without a version" % option[0], folder, "need --version", *option, code=1,
                      version=None)
    classes = read(folder, "plan_class_spec.xml")
    for call in range(2):
        r = deploy(folder, "--verify", "0.1", version=None)
        ok(r.returncode == 0 and "--fraction-alone 0.1 " in read(folder, "bin",
                                                                 "texcell_check").decode()
           and database(folder)["versions"] == versions and tree(os.path.join(folder, "apps")) ==
           apps
           and read(folder, "plan_class_spec.xml") == classes and
           ("all files are as they should be" in r.stdout) == bool(call),
           "changing a setting leaves programs as they are, call %d" % call, r.stdout + r.stderr)


def test_options_of_scripts():
    """Each setting changes only its own option in the scripts of bin/; options that an admin added
    stay."""
    folder = make_project("options")
    deploy(folder, "--classes", "cpu")
    check, assimilate = (os.path.join(folder, "bin", "texcell_" + name)
                         for name in ("check", "assimilate"))

    def expect(name, options, wanted, memory, words="", absent="differs"):
        r = deploy(folder, *options, version=None)
        found = [dict(re.findall(r" --(fraction-alone|fraction|chance|max-memory) (\S+)",
                                 read(script).decode().splitlines()[-1]))
                 for script in (check, assimilate)]
        memory = {"max-memory": memory} if memory else {}
        ok(r.returncode == 0 and found == [dict(wanted, **memory), memory] and words in r.stdout and
           absent not in r.stdout,
           "settings: " + name, "%s\n%s%s" % (found, r.stdout, r.stderr))

    fiftieth, verify_options = {"fraction": "0.001", "chance": "0.02"}, {"fraction": "0.05"}
    expect("none", [], fiftieth, None)
    expect("--verify", ["--verify", "1"], dict(fiftieth, **{"fraction-alone": "1"}), None)
    expect("--max-memory leaves --verify", ["--max-memory", "1024"],
           dict(fiftieth, **{"fraction-alone": "1"}), "1024")
    write(check, "# --max-memory 7\n".join(read(check).decode().partition("# Made")[::2]).replace(
        "--fraction 0.001 --chance 0.02", "--fraction 0.05"), 0o755)
    by_hand = read(check).replace(b"--fraction-alone 1 ", b"")
    write(check, read(check).replace(b"# --max-memory 7", b"# Made"), 0o755)
    expect("--verify leaves --max-memory, and --fraction by hand", ["--verify", "0.2"],
           dict(verify_options, **{"fraction-alone": "0.2"}), "1024")
    expect("--accept-loss, too", ["--accept-loss", "0.001"],
           dict(verify_options, **{"fraction-alone": "0.023"}), "1024")
    expect("both", ["--verify", "0.3", "--max-memory", "2048"],
           dict(verify_options, **{"fraction-alone": "0.3"}), "2048")
    expect("--verify 0", ["--verify", "0"], verify_options, "2048",
           "keeps --fraction 0.05, which was written by hand")
    write(check, by_hand, 0o755)
    expect("other --max-memory by hand: one for both", [], verify_options, "1024",
           "had not the same --max-memory; both have 1024 now", "\n\n")
    ok(read(check) == by_hand, "settings: a script's comment stays", read(check))
    expect("--max-memory default", ["--max-memory", "default"], verify_options, None, absent="\n\n")
    os.unlink(check)
    expect("a script that was removed", ["--verify", "0.1"],
           dict(fiftieth, **{"fraction-alone": "0.1"}), None)
    expect("--verify 0 after that", ["--verify", "0"], {}, None)
    expect("--accept-loss of more than there are cheats", ["--accept-loss", "0.05"], fiftieth, None,
           "note: --accept-loss 0.05: without --verify no more is wrong")
    for memory in ("-5", "0", "63", "16777217", "99999999999", "\u0661\u0662\u0663", "1e3"):
        check_refused("--max-memory " + memory, folder, "--max-memory: must be from 64 to 16777216 "
                      ".MiB., or the word default", "--max-memory=" + memory, code=1)
    write(check, "#!/bin/sh\nexec mine $1\n", 0o755)
    check_refused("settings: a script without \"$@\"", folder, 'bin/texcell_check: has no "\\$@"',
                  "--verify", "0.1", version=None)
    check_refused("a version that no host would get", folder, "--version 0.98: no host would get "
                  "it: there is 1.00", "--classes", "cpu", version="0.98")
    r = deploy(folder, "--classes", "cpu,mt", version="0.98")
    ok(r.returncode == 0 and "note: no host gets 0.98 for %s (%s): there is 1.00" %
       (PLATFORM, FOLDERS[0].partition("__")[2]) in r.stdout
       and re.search(r"wrote apps/texcell/0.98/\S+ \(\d+ files, \d+ bytes\)", r.stdout) and
       r.stdout.splitlines()[-2].startswith("note: bin/texcell_check"),
       "settings: a version that is lower for some is reported; notes come last",
       r.stdout + r.stderr)


def test_update_versions_refuses():
    folder = make_project("refusing")
    write(os.path.join(folder, "apps", "another", "0.99", PLATFORM, "other"), "new")
    write(os.path.join(folder, "download", "other"), "old")
    r = deploy(folder)
    ok(r.returncode == 2 and re.search(r"did not take texcell/1\.00/.*immutable|differ", r.stderr),
       "deploy fails if update_versions reports an error and exits with 0", r.stdout + r.stderr)
    write(os.path.join(folder, "bin", "xadd"), "#!/bin/sh\necho 'PHP Fatal error: no database'\n",
          0o755)
    r = deploy(folder)
    ok(r.returncode == 2 and "bin/xadd: did not take the app: PHP Fatal error" in r.stderr,
       "deploy fails if xadd reports an error and exits with 0",
       r.stderr)


def test_failed_versions():
    """If a call fails before update_versions, the files that it leaves do not make a later call
    fail, and are not published by mistake."""
    program = "texcell_1.00_" + PLATFORM
    folder, build = make_project("failed"), os.path.join(TMP, "build")
    xadd = read(folder, "bin", "xadd")
    write(os.path.join(folder, "bin", "xadd"), "#!/bin/sh\nexit 1\n", 0o755)
    ok(deploy(folder, "--classes", "cpu,mt", build=build).returncode == 2 and
       not database(folder)["versions"], "deploy fails, and publishes no version, if xadd fails")
    write(os.path.join(folder, "bin", "xadd"), xadd, 0o755)
    there = os.path.join(folder, "apps", "texcell", "1.00")
    name = next(n for n in sorted(os.listdir(there)) if "_cpu_" in n)
    for stray in ("left.over", program + ".sig"):
        write(os.path.join(there, name, stray), "x")
    check_refused("version folders with foreign files, left by a failed call", folder,
                  r"apps/texcell/1\.00/\S+_cpu_\S+: is in "
                  r"no database, .*remove that folder", version="1.01")
    check_refused("plan classes left by a failed call", folder,
                  r"apps/texcell/1\.00/\S+_mt_\S+: is in no database", "--classes", "cpu")
    r = deploy(folder, "--classes", "cpu,mt")
    ok(r.returncode == 0 and read(there, name, program) == read(TEXCELL) ==
       read(folder, "download", program) and len(database(folder)["versions"]) == 2
       and not {"left.over", program + ".sig"} & set(os.listdir(os.path.join(there, name))),
       "a later call replaces the program of a version that was not published", r.stdout + r.stderr)
    check_refused("another program after the version is published", folder, "versions never change",
                  "--classes",
                  "cpu,mt", build=build)


def test_what_is_there():
    """What the project has already stays: plan classes, daemons, templates, and the mode, group and
    access control list of config.xml. Also: config.xml in unusual forms."""
    folder = make_project("busy")
    write(os.path.join(folder, "plan_class_spec.xml"), OWN_CLASSES)
    write(os.path.join(folder, "apps", "other", "1.0", PLATFORM + "__mt", "other"), "x", 0o755)
    write(os.path.join(folder, "templates", "texcell_out.xml"),
          "<output_template>mine</output_template>")
    own_daemon = ('<daemon><cmd>sample_bitwise_validator -d 3 -app texcell</cmd></daemon>\n'
                  '    </daemons>')
    config = (CONFIG % (folder, folder)).replace("</daemons>", own_daemon)
    write(os.path.join(folder, "config.xml"), config, 0o640)
    group = 65534 if os.geteuid() == 0 else -1
    os.chown(os.path.join(folder, "config.xml"), -1, group)
    # An ACL [(tag, permissions, id)]: owner rw, user 33 (the web server) r, group r, mask r, others
    # nothing
    entries = [(1, 6, -1), (2, 4, 33), (4, 4, -1), (16, 4, -1), (32, 0, -1)]
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *e) for e in entries)
    try:
        os.setxattr(os.path.join(folder, "config.xml"), "system.posix_acl_access", acl)
    except OSError:
        acl = None
    r = deploy(folder, "--one-result-per-host")
    new = read(folder, "plan_class_spec.xml").decode()
    ok(r.returncode == 0 and is_kept(OWN_CLASSES, new) and
       new.count("<name>texcell_mt_libc%d</name>" % LIBC) == 1
       and new.count("<plan_class>") == 6 and "texcell_mt_libc%d differs from the kit's" %
       LIBC in r.stdout,
       "plan classes that the admin wrote stay, with a note if they differ",
       r.stdout + r.stderr + new)
    new = read(folder, "config.xml").decode()
    commands = [d.findtext("cmd") for d in ElementTree.fromstring(new).iter("daemon")]
    ok(is_kept(config, new) and "another validator of texcell" in r.stdout
       and [c.split()[0] for c in commands] == ["feeder", "script_validator",
                                                "sample_bitwise_validator",
                                                "script_assimilator"],
       "a validator of the admin's own stays", new)
    ok(ElementTree.fromstring(new).findtext("config/one_result_per_host_per_wu") == "1"
       and os.stat(os.path.join(folder, "config.xml")).st_mode & 0o777 == 0o640
       and group in (-1, os.stat(os.path.join(folder, "config.xml")).st_gid),
       "config.xml: --one-result-per-host sets its rule; the file's mode and group stay")
    if acl:
        ok(os.getxattr(os.path.join(folder, "config.xml"), "system.posix_acl_access") == acl,
           "config.xml: its access control list stays")
    else:
        skip("config.xml: its access control list stays", "this file system has no ACLs")
    ok(read(folder, "templates", "texcell_out.xml") == b"<output_template>mine</output_template>"
       and "texcell_out.xml: differs" in r.stdout, "a template that the admin changed stays")
    for text, words in (("<boinc><config/><daemons/></boinc>", "one line"),
                        ("<boinc>\n<config/>\n</boinc>", "no daemons"),
                        ("<boinc>\r\n<config/><daemons a='/>' >\r\n</daemons></boinc>\r\n",
                         "attributes")):
        folder = make_project(words)
        write(os.path.join(folder, "config.xml"), text)
        r = deploy(folder, "--classes", "cpu", "--one-result-per-host")
        root = ElementTree.fromstring(read(folder, "config.xml"))
        ok(r.returncode == 0 and len(root.findall("daemons/daemon")) == 2
           and root.findtext("config/one_result_per_host_per_wu") == "1",
           "config.xml with %s gets texcell's daemons and settings" % words, r.stderr)
    test_rules()


def test_rules():
    """The settings in config.xml for the number of results per host or user and for the permissions
    of finished uploads are kept if they exist; otherwise texcell-deploy adds them."""
    def config(folder):
        return {e.tag: e.text for e in ElementTree.fromstring(read(folder, "config.xml")).find(
            "config") if e.tag != "httpd_user"}
    host, user, finished = ("one_result_per_host_per_wu", "one_result_per_user_per_wu",
                            "fuh_set_completed_permission")
    for name, settings, options, expected, words in (
            ("nothing", {}, [], {user: "1", finished: "0444"},
             ("nobody gets two results", "read-only")),
            ("nothing, a host", {}, ["--one-result-per-host"], {host: "1", finished: "0444"},
             ("read-only",)),
            ("host", {host: "1"}, [], {host: "1", finished: "0444"}, ("read-only",)),
            ("no", {user: "0", finished: "0644"}, [], {user: "0", finished: "0644"},
             ("one computer may get both",)),
            ("make_project's no", {user: "0"}, [], {user: "1", finished: "0444"},
             ("nobody gets two results", "read-only"))):
        folder = make_project("rules of " + name)
        text = "".join("<%s>%s</%s>" % (k, v, k) for k, v in settings.items())
        other = ("<daemons><daemon><cmd>sample_trivial_validator --app "
                 "other</cmd></daemon></daemons>" if name == "no" else "")
        write(os.path.join(folder, "config.xml"),
              "<boinc><config>%s</config>%s</boinc>" % (text, other))
        r = deploy(folder, "--classes", "cpu", *options)
        ok(r.returncode == 0 and config(folder) == expected and
           r.stdout.count("note: config.xml") == len(words)
           and all(w in r.stdout for w in words),
           "config.xml with %s: afterwards %s" % (name, expected),
           r.stdout + r.stderr)
        r = deploy(folder, "--classes", "cpu", *options)
        ok(r.returncode == 0 and config(folder) == expected and
           "all files are as they should be" in r.stdout,
           "config.xml with %s: a second call changes nothing" % name, r.stdout + r.stderr)


def test_refusals():
    ok(run([sys.executable, DEPLOY]).returncode == 1, "no arguments: bad usage")
    folder = make_project("refuse")
    check_refused("a version without two decimals", folder, "--version 1.0: must be like 1.00",
                  code=1,
                  version="1.0")
    check_refused("an unknown plan class", folder, "--classes gpu", "--classes", "gpu", code=1)
    check_refused("an app name with shell characters", folder, "is not a name", "--app", "a;b",
                  code=1)
    check_refused("a share above 1", folder, "--verify", "--verify", "1.5", code=1)
    check_refused("a build folder without programs", folder, "has no program texcell", build=TMP)
    sources = os.path.join(TMP, "sources")
    shutil.copytree(DEPLOY_FOLDER, os.path.join(sources, "validator", "deploy"))
    write(os.path.join(sources, "configure.ac"), "")
    r = run([sys.executable, os.path.join(sources, "validator", "deploy", "texcell-deploy"),
             "--version", "1.00", folder])
    ok(r.returncode == 2 and r.stderr.startswith("texcell-deploy: error: %s/build: has no program "
                                                 "texcell: build it first" % sources),
       "refused: sources that are not built", r.stderr)
    for program, *words in (("submit", "--status", "x"), ("again", "x"), ("watch",),
                            ("backup", "x")):
        r = run([os.path.join(sources, "validator", "deploy", "texcell-" + program), *words])
        ok(r.returncode == 2 and "is not the folder of a BOINC project: it has no config.xml: "
           "give --project" in r.stderr,
           "refused: texcell-%s in the sources without a project" % program, r.stderr)
    empty = os.path.join(TMP, "empty")
    os.mkdir(empty)
    check_refused("a folder that is not a project", empty,
                  "is not the folder of a BOINC project: it has no config.xml")
    r = deploy(os.path.join(TMP, "no such folder"))
    ok(r.returncode == 2 and "no such folder" in r.stderr, "refused: no project folder given")
    for tool in ("xadd", "script_assimilator"):
        os.chmod(os.path.join(folder, "bin", tool), 0o644)
        check_refused("a project without the tool " + tool, folder, "has no program " + tool)
        os.chmod(os.path.join(folder, "bin", tool), 0o755)
    for name, text, words in (
            ("config.xml", "<boinc><config>", "config.xml: "),
            ("config.xml", "<other/>", "has no <config>"),
            ("project.xml", PROJECT_XML.encode("utf-16"), "project.xml: is in UTF-16"),
            ("project.xml", "<boinc>&</boinc>",
             "project.xml: is not well-formed XML, and so not touched: .*line 1"),
            ("plan_class_spec.xml", "<plan_classes>\n<a>1<a>\n</plan_classes>",
             "not well-formed XML.*line 3")):
        old = read(folder, name) if os.path.exists(os.path.join(folder, name)) else None
        write(os.path.join(folder, name), text)
        check_refused("%s: %r" % (name, text[:30]), folder, words)
        if old is None:
            os.unlink(os.path.join(folder, name))
        else:
            write(os.path.join(folder, name), old)
    write(os.path.join(folder, "apps", "other", "2.0", PLATFORM + "__mt", "other"), "x", 0o755)
    check_refused("a new plan_class_spec.xml that would hide another app's class", folder,
                  "other/2.0/.*__mt: its plan class")
    write(os.path.join(folder, "keys", "code_sign_private"), "")
    check_refused("a key that cannot sign", folder,
                  "code_sign_private: signs nothing .add: can't read key.: it is damaged or "
                  "encrypted")
    write(os.path.join(folder, "texcell", "lock"), "")
    with open(os.path.join(folder, "texcell", "lock")) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        check_refused("two deployments at the same time", folder,
                      "another texcell-deploy is at work on it: try again", code=3)
    if os.geteuid() == 0:
        os.chown(folder, 65534, -1)
        check_refused("another user's project", folder,
                      "belongs to user nobody: run this as that user")
        for program, *words in (("submit", "--name", "x", "--analysis", "cellcount", folder),
                                ("submit", "--cancel", "x"), ("again", "x"),
                                ("backup", "--restore", TMP)):
            r = run([os.path.join(DEPLOY_FOLDER, "texcell-" + program), "--project", folder,
                     *words], env=ENV)
            ok(r.returncode == 2 and "belongs to user nobody" in r.stderr,
               "refused: another user's project, texcell-%s %s" % (program, words[0]), r.stderr)
    else:
        skip("refused: another user's project", "needs root")


# --- the scripts of bin/, in a folder with an odd name -----------------------------------------

def picture(path, seed, shape=(48, 64)):
    values = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    Image.fromarray(values).save(path)
    return path


def test_scripts():
    folder = make_project("odd $(touch x) 'a\" & <b>;\u00fc")
    r = deploy(folder)
    ok(r.returncode == 0, "deploy works in a folder whose name has spaces and quotes",
       r.stdout + r.stderr)
    unit = os.path.join(folder, "download", "17b", "wu_7.zip")
    os.makedirs(os.path.dirname(unit), exist_ok=True)
    run([TEXCELL_WU, "pack", "--analysis", "cellcount", "-o", unit,
         picture(os.path.join(TMP, "p", "a.png"), 1)])
    result = os.path.join(TMP, "wu_7_0_r123_0")
    run([TEXCELL, "run", unit, "-o", result, "--quiet"])
    bad = os.path.join(TMP, "wu_7_1_r124_0")
    write(bad, read(result)[:-30])

    def script(name, *arguments):
        return run([os.path.join(folder, "bin", name), *arguments],
                   cwd=os.path.join(folder, "tmp_host"))

    ok(script("texcell_check", result).returncode == 0, "texcell_check accepts a valid result")
    ok(script("texcell_check", bad).returncode not in (0, 3),
       "texcell_check refuses a damaged result")
    ok(script("texcell_check").returncode not in (0, 3),
       "texcell_check without arguments fails")
    ok(script("texcell_compare", result, result).returncode == 0,
       "texcell_compare accepts equal results")
    ok(os.listdir(os.path.join(folder, "texcell", "quarantine")) == [os.path.basename(bad)] and
       not os.path.exists(bad),
       "a refused upload is moved to quarantine")
    bad = shutil.copy(os.path.join(TMP, "wu_7_0_r123_0"), bad)
    ok(script("texcell_compare", result, bad).returncode == 3,
       "texcell_compare: try again later (exit code 3) if texcell_check has not accepted a result")
    ok(os.listdir(os.path.join(folder, "texcell", "accepted")) == ["wu_7"],
       "texcell_check records what it accepted")
    ok(script("texcell_compare").returncode not in (0, 3),
       "texcell_compare without arguments fails")
    r = script("texcell_assimilate", "7", result)
    ok(r.returncode == 0 and os.path.exists(os.path.join(folder, "texcell", "dataset.sqlite")),
       "texcell_assimilate stores in the project's folder", r.stderr)
    record = os.path.join(folder, "texcell", "accepted", "wu_8")
    write(record, "")
    r = script("texcell_assimilate", "--error", "1", "wu_8", "8", "0")
    ok(r.returncode == 0 and not os.path.exists(record),
       "texcell_assimilate records a failed unit, and removes the record of its SHA-256", r.stderr)
    program = os.path.join(folder, "bin", "texcell-validate")
    signal.signal(signal.SIGHUP, signal.SIG_DFL)    # it is ignored under nohup
    write(program, "#!/bin/sh\nkill -s $SIGNAL $$\n", 0o755)
    codes = [run([os.path.join(folder, "bin", name), result, result],
                 env=dict(os.environ, SIGNAL=number)).returncode
             for name in ("texcell_check", "texcell_compare") for number in ("KILL", "TERM", "HUP")]
    os.unlink(program)
    codes += [script(name, result).returncode for name in ("texcell_check", "texcell_compare")]
    ok(codes == [3] * 8, "texcell_check and texcell_compare: try again later if texcell-validate "
       "was killed, or is missing", codes)
    check = os.path.join(folder, "bin", "texcell_check")
    text = read(check)
    write(check, text.replace(b"deploy.\n", b"deploy.\nexec ").partition(b" || ")[0] + b"\n", 0o755)
    r = deploy(folder)
    ok(r.returncode == 0 and read(check) == text and "differs from" not in r.stdout,
       "deploy replaces a texcell_check that an older texcell-deploy wrote", r.stdout + r.stderr)


def forge(path):
    """Flips the lowest bit of a value in features.npy, which is stored uncompressed, and corrects
    the CRC."""
    with zipfile.ZipFile(path) as z:
        info = z.getinfo("features.npy")
    content = bytearray(read(path))
    lengths = struct.unpack_from("<HH", content, info.header_offset + 26)
    start = info.header_offset + 30 + sum(lengths)
    content[start + info.file_size - 8 * 3] ^= 1
    crc = struct.pack("<I", zlib.crc32(content[start:start + info.file_size]))
    write(path, bytes(content).replace(struct.pack("<I", info.CRC), crc))


def test_verify():
    folder = make_project("one")
    unit, result = os.path.join(folder, "download", "g.zip"), os.path.join(TMP, "g_0_r5_0")
    write(os.path.join(folder, "config.xml"), (CONFIG % (folder, folder)).replace(">1024<", ">0<"))
    run([TEXCELL_WU, "pack", "--analysis", "glcm", "--param", "distances=[1]", "-o", unit,
         picture(os.path.join(TMP, "p", "g.png"), 2)])
    run([TEXCELL, "run", unit, "-o", result, "--quiet"])
    deploy(folder, "--verify", "1")

    def check():
        shutil.copy(result, os.path.join(folder, "upload", "g_0_r5_0"))
        return run([os.path.join(folder, "bin", "texcell_check"),
                    os.path.join(folder, "upload", "g_0_r5_0")]).returncode

    def leave_nothing_to_chance():
        """Removes the options by which texcell_check computes random items again."""
        write(os.path.join(folder, "bin", "texcell_check"),
              read(folder, "bin", "texcell_check").replace(b"--fraction 0.001 --chance 0.02", b""),
              0o755)

    ok(check() == 0, "--verify accepts an honest result")
    forge(result)
    leave_nothing_to_chance()
    ok(check() == 0, "--verify computes nothing again with a quorum above one")
    write(os.path.join(folder, "texcell", "alone", "g"), "")
    ok(check() not in (0, 3), "--verify refuses a result with one forged bit")
    r = deploy(folder)
    ok(r.returncode == 0 and "differs" not in r.stdout and check() not in (0, 3),
       "--verify stays in force without being given again", r.stdout)
    r = deploy(folder, "--max-memory", "1024", version=None)
    ok(r.returncode == 0 and check() not in (0, 3), "--verify stays when --max-memory is given",
       r.stdout + r.stderr)
    r = deploy(folder, "--accept-loss", "0.001")
    ok(r.returncode == 0 and b"--fraction-alone 0.023" in read(folder, "bin", "texcell_check") and
       "--accept-loss 0.001: --verify 0.023, if no more" in
       r.stdout,
       "--accept-loss computes the share to verify from the accepted loss", r.stdout + r.stderr)
    check_refused("--accept-loss together with --verify", folder, "without --verify",
                  "--accept-loss",
                  "0.1",
                  "--verify", "0.1", code=1)
    r = deploy(folder, "--verify", "0")
    leave_nothing_to_chance()
    ok(r.returncode == 0 and check() == 0,
       "--verify 0 switches verification off: the forged result is accepted", r.stderr)


# --- texcell_validator: one process for many results --------------------------------------------

# Stand-ins for the parts of BOINC's sources that texcell_validator is compiled with. main() reads
# lines from standard input, each with the names of results to check or compare.
HEADERS = {
    "boinc_db.h": """#pragma once
#include <cstring>
#include <string>
#include <vector>
#include <mysql.h>
enum { VALIDATE_STATE_NO_CHECK = 3, RESULT_OUTCOME_CLIENT_DETACHED = 7 };
struct RESULT { unsigned long id; char name[256]; double sent_time; int outcome, validate_state; };
struct WORKUNIT { unsigned long id; char name[256]; double rsc_fpops_est, canonical_credit; int target_nresults, error_mask;
                  unsigned long canonical_resultid; int transition_time; };
struct DB_VALIDATOR_ITEM_SET { int update_workunit(WORKUNIT &); int update_result(RESULT &); };
""",  # noqa: E501
    "mysql.h": """#pragma once
typedef struct MYSQL MYSQL;
typedef unsigned long long my_ulonglong;
extern "C" { int mysql_query(MYSQL *, const char *); my_ulonglong mysql_affected_rows(MYSQL *); unsigned mysql_errno(MYSQL *);
             const char *mysql_error(MYSQL *); }
""",  # noqa: E501
    "error_numbers.h": "",
    "sched_config.h": "struct CONFIG { const char *download_dir; int uldl_dir_fanout; };\n"
                      "extern CONFIG config;",
    "sched_util.h": "#include <cstring>\n#define SECONDS_IN_DAY 86400\n"
                    "#define CREDIT_HALF_LIFE (SECONDS_IN_DAY*7)\n"
                    "inline bool is_arg(const char *x, const char *y)"
                    " { return strcmp(x + 2, y) == 0; }\n"
                    "int dir_hier_path(const char *, const char *, int, char *);",
    "sched_msgs.h": "#include <cstdio>\nenum { MSG_CRITICAL, MSG_NORMAL };\n"
                    "struct { template <class... T> void printf(int, const char *text, T... values)"
                    " { fprintf(stderr, text, values...); } } static log_messages;",
    "validate_util.h": "int get_output_file_paths(const RESULT &, std::vector<std::string> &);",
    "validate_util2.h": "enum { VAL_RESULT_TRANSIENT_ERROR = 3 };\n"
                        "int init_result(const RESULT &, void *&);\n"
                        "int compare_results(RESULT &, void *, const RESULT &, void *, bool &);\n"
                        "int cleanup_result(const RESULT &, void *);",
    "validator.h": "extern WORKUNIT *g_wup;\nint validate_handler_init(int, char **);\n"
                   "void validate_handler_usage();",
}
VALIDATOR = """
#include <cstdlib>
#include <iostream>
#include "boinc_db.h"
#include "sched_config.h"
#include "validate_util.h"
#include "validate_util2.h"
#include "validator.h"
int get_output_file_paths(const RESULT &result, std::vector<std::string> &paths)
{
    paths.push_back(result.name);
    return 0;
}
WORKUNIT *g_wup;
CONFIG config = { "../download/3", 0 };
int main(int argc, char **argv)
{
    DB_VALIDATOR_ITEM_SET set;
    WORKUNIT unit = { 1, "wu_7", 86400e9 / 2, argc > 20 ? 7.1 : 0.0, 5, getenv("CANCELLED") ? 16 : 0, getenv("CANONICAL") ? 2u : 0u, 0 };
    RESULT one = { 1, "", 50, 1, 0 }, other = { 2, "", 50, 1, 0 };
    std::string line;
    void *data;
    bool match;
    if (validate_handler_init(argc, argv) != 0)
        return 1;
    g_wup = &unit;
    while (std::getline(std::cin, line)) {
        const size_t space = line.find(' ');
        if (line == "write") {
            mysql_query(NULL, "update user set total=total+1 where id=2");
            mysql_query(NULL, "insert into credit_user set id=1");
            mysql_query(NULL, "update user set total=total+1 where id=1");
            mysql_query(NULL, "update host_app_version set consecutive_valid=12, n=3 where host_id=1 and app_version_id=1");
            mysql_query(NULL, "update app_version set n=1 where id=1");
            unit.target_nresults++;
            set.update_workunit(unit);
            continue;
        }
        if (line == "average") {
            mysql_query(NULL, "update host set  avg_turnaround=2.5e+00, total_credit=total_credit+1.500000000000000e+00, "
                              "expavg_credit=9.000000000000000e+00, expavg_time=1.000000000000000e+06 where id=3");
            set.update_workunit(unit);
            continue;
        }
        strcpy(one.name, line.substr(0, space).c_str());
        one.id = line.find("_1_r1") != std::string::npos ? 2 : 1;
        if (space == std::string::npos) {
            std::cout << init_result(one, data) << std::endl;
            continue;
        }
        strcpy(other.name, line.substr(space + 1).c_str());
        const int retval = compare_results(one, NULL, other, NULL, match);
        std::cout << retval << (match ? " match" : " no match") << std::endl;
    }
    std::cerr << "credit " << unit.canonical_credit << std::endl;
    return cleanup_result(one, NULL);
}
"""  # noqa: E501
# Stand-in for the database: writes to the table user fail FAILS times with MySQL's error ERROR.
DATABASE = """
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include "boinc_db.h"
static int fails = getenv("FAILS") ? atoi(getenv("FAILS")) : 0;
static unsigned number;
extern "C" int mysql_query(MYSQL *, const char *sql)
{
    std::cerr << "sql " << sql << std::endl;
    number = strstr(sql, "insert") ? 1062 : strstr(sql, "user") && fails-- > 0 ? atoi(getenv("ERROR")) : 0;
    return number != 0;
}
extern "C" my_ulonglong mysql_affected_rows(MYSQL *) { return 0; }
extern "C" unsigned mysql_errno(MYSQL *) { return number; }
extern "C" const char *mysql_error(MYSQL *) { return "it fails"; }
int dir_hier_path(const char *name, const char *root, int, char *path) { return sprintf(path, "%s/%s", root, name) < 0; }
"""  # noqa: E501
STATEMENTS = """
#include "boinc_db.h"
int DB_VALIDATOR_ITEM_SET::update_result(RESULT &r)
{
    return mysql_query(NULL, ("update result set outcome=" + std::to_string(r.outcome) + ", validate_state=" +
                              std::to_string(r.validate_state) + " where id=" + std::to_string(r.id)).c_str());
}
int DB_VALIDATOR_ITEM_SET::update_workunit(WORKUNIT &unit)
{
    return mysql_query(NULL, ("update workunit set target=" + std::to_string(unit.target_nresults) + (unit.transition_time ? ", now" : "") +
                              " where id=1").c_str()) || mysql_affected_rows(NULL) != 1;
}
"""  # noqa: E501
MAKEFILE = """
OBJEXT = o
CXXCOMPILE = c++ -std=c++17 -Wall -Wextra -Werror -I.
CXXLINK = c++ -o $@
SERVERLIBS =
all:
\tfalse
"""


def false_boinc(folder):
    """Writes the stand-ins, compiled, to a folder that texcell-deploy accepts as the built sources
    of BOINC's server."""
    for name, text in dict(HEADERS, Makefile=MAKEFILE).items():
        write(os.path.join(folder, "sched", name), text + "\n")
    for name, text in (("validator", VALIDATOR), ("validate_util", DATABASE),
                       ("validate_util2", STATEMENTS)):
        write(os.path.join(folder, "sched", name + ".cpp"), text + "\n")
        subprocess.check_call(["c++", "-std=c++17", "-I.", "-c", name + ".cpp"],
                              cwd=os.path.join(folder, "sched"))


def average_of(statement, average, then):
    """The row of a host that had this average credit at time `then`, after the SQL statement."""
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.create_function("EXP", 1, math.exp)
        db.create_function("GREATEST", 2, max)
        db.execute("CREATE TABLE host(id, avg_turnaround, total_credit, expavg_credit, "
                   "expavg_time)")
        db.execute("INSERT INTO host VALUES(3, 0, 10, ?, ?)", (average, then))
        db.execute(statement.replace("IF(", "iif("))
        return db.execute("SELECT avg_turnaround, total_credit, expavg_credit, "
                          "expavg_time FROM host").fetchone()


def test_validator():
    """texcell_validator starts each script once, sends it the names of many results, and starts it
    again if it has ended."""
    folder, boinc = make_project("asks"), os.path.join(TMP, "boinc")
    unit = os.path.join(folder, "download", "3", "wu_7.zip")
    os.makedirs(os.path.dirname(unit), exist_ok=True)
    run([TEXCELL_WU, "pack", "--analysis", "cellcount", "-o", unit,
         picture(os.path.join(TMP, "p", "a.png"), 1)])
    one, other, bad = (os.path.join(folder, "upload", "wu_7_%d_r1_0" % i) for i in range(3))
    run([TEXCELL, "run", unit, "-o", one, "--quiet"])
    shutil.copy(one, other)
    write(bad, read(one)[:-30])
    check_refused("--boinc: a folder without BOINC's sources", folder,
                  "is not a folder of BOINC's sources",
                  "--boinc",
                  TMP)
    deploy(folder)
    false_boinc(boinc)
    r = deploy(folder, "--boinc", boinc)
    commands = sorted((e.text for e in ElementTree.fromstring(read(folder, "config.xml")).iter(
        "cmd") if "--app texcell" in e.text), reverse=True)
    ok(r.returncode == 0 and [c.split()[0] for c in commands] == ["texcell_validator",
                                                                  "script_assimilator"],
       "--boinc: texcell_validator replaces script_validator", r.stdout + r.stderr + str(commands))
    after = tree(folder)
    r = deploy(folder)
    ok(r.returncode == 0 and tree(folder) == after,
       "--boinc stays in force without being given again",
       r.stdout)

    def validator(*lines, more=(), **env):
        return subprocess.run([os.path.join(folder, "bin", "texcell_validator"),
                               *commands[0].split()[1:], *more],
                              cwd=os.path.join(folder, "tmp_host"),
                              input="".join(line + "\n" for line in lines), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=100,
                              env=dict(os.environ, **env))

    r = validator(one, other, bad, one + " " + other, one + " " + bad)
    ok(r.returncode == 0 and r.stdout == "0\n0\n-1\n0 match\n0 no match\n",
       "texcell_validator: two valid results, a damaged one, an equal pair and one that differs",
       r.stdout + r.stderr)
    credits = [re.findall("credit .*", validator(one, more=more).stderr)
               for more in ((), ["--other"] * 20)]
    ok(credits == [["credit 100"], ["credit 7.09961"]],
       "texcell_validator: a unit without credit gets that of its operations, rounded to a "
       "multiple of 1/1024", credits)

    def written(*lines, **env):
        return re.findall("(?m)^sql (.*)", validator(*lines, **env).stderr)

    last = ["insert into credit_user set id=1",
            "update host_app_version set consecutive_valid=LEAST(consecutive_valid+1, 12), n=3 "
            "where host_id=1 and app_version_id=1", "update user set total=total+1 where id=1",
            "update user set total=total+1 where id=2",
            "update workunit set target=6 where id=1", "COMMIT"]
    first, fails = (["update app_version set n=1 where id=1"],
                    ["START TRANSACTION", *last[:3], "ROLLBACK"])
    good, repeated, lost = (written(one, other, one + " " + other, "write", **env)
                            for env in ({}, {"FAILS": "2", "ERROR": "1213"},
                                        {"FAILS": "2", "ERROR": "2013"}))
    ok(good == [*first, "START TRANSACTION", *last],
       "texcell_validator writes a unit in one transaction, its rows in a fixed order", good)
    ok(repeated == [*first, *fails, *fails, "START TRANSACTION", *last],
       "texcell_validator repeats the whole transaction after a deadlock", repeated)
    ok(lost == first + fails, "texcell_validator writes nothing of a unit when the database fails",
       lost)
    statement = next(text for text in written(one, "average") if text.startswith("update host "))
    for average, then in ((0, 0), (5, 1e6 - 600), (5, 1e6 + 7), (5, 1e6), (5, 1), (0, 1e6 - 1e-3)):
        days = max(1e6 - then, 0) / 86400
        rate = 1.5 * math.log(2) / 7 if days == 0 else 1.5 * -math.expm1(
            -days * math.log(2) / 7) / days
        expected = (2.5, 11.5, 9 if then == 0 else average * 2 ** (-days / 7) + rate,
                    max(then, 1e6))
        got = average_of(statement, average, then)
        ok(all(math.isclose(a, b, rel_tol=1e-6) for a, b in zip(got, expected)),
           "texcell_validator updates an average credit of %g of time %g" % (average, then),
           (statement, got, expected))
    os.rename(other, other + "x")
    write(os.path.join(folder, "texcell", "restored"), "100\n")
    r = [written(one, other, "write"), written(one, "write"), validator(other).stdout]
    compared = written(one, other, "write", CANONICAL="1")
    ok("update result set outcome=7, validate_state=3 where id=1" in compared and
       "where id=2" not in "".join(w for w in compared if " result " in w),
       "texcell_validator leaves a comparison with a lost upload undecided",
       compared)
    ok("update result set outcome=7, validate_state=3 where id=2" in r[0] and
       r[0][-2:] == ["update workunit set target=5, now where id=1", "COMMIT"]
       and r[1] == good and r[2] == "3\n",
       "texcell_validator: a lost upload does not count as a host's error", r)
    os.unlink(os.path.join(folder, "texcell", "restored"))
    os.rename(other + "x", other)
    os.rename(unit, unit + "x")
    start = time.monotonic()
    r = [validator(one, CANCELLED="1").stdout, validator(one).stdout]
    ok(r == ["3\n"] * 2 and time.monotonic() - start < 10,
       "texcell_validator does not wait for results of a deleted or cancelled unit", r)
    os.rename(unit + "x", unit)
    write(bad, read(one))
    r = validator(one + " " + bad)
    ok(r.stdout == "3 no match\n",
       "texcell_validator: try again later (3) if texcell_check has not accepted a result",
       r.stdout + r.stderr)
    check = read(folder, "bin", "texcell_check")
    started = os.path.join(folder, "started")
    write(os.path.join(folder, "bin", "texcell_check"),
          "#!/bin/sh\necho x >> %s\nread line && echo 0\n" % started, 0o755)
    r = validator(one, one, one)
    ok(r.stdout == "0\n" * 3 and read(started) == b"x\n" * 3,
       "texcell_validator restarts a script that ended", r.stdout + r.stderr)
    write(os.path.join(folder, "bin", "texcell_check"), "#!/bin/sh\nexit 0\n", 0o755)
    r = validator(one)
    ok(r.returncode == 1 and r.stdout == "" and "does not answer" in r.stderr,
       "texcell_validator decides nothing without a script's answer", r.stdout + r.stderr)
    write(os.path.join(folder, "bin", "texcell_check"), check, 0o755)
    write(os.path.join(boinc, "sched", "Makefile"), "OBJEXT = o\nCXXCOMPILE = false\n")
    os.unlink(os.path.join(folder, "bin", "texcell_validator"))
    check_refused("--boinc: sources of an incompatible version", folder,
                  "texcell_validator cannot be built of it", "--boinc", boinc)


# --- submitting -------------------------------------------------------------------------------

def submit(folder, *arguments):
    """Runs bin/texcell-submit of the project."""
    return run([os.path.join(folder, "bin", "texcell-submit"), *arguments], env=ENV)


def options_of(call):
    """{option: value} of a recorded command line."""
    return {call[i][2:]: call[i + 1] for i in range(0, len(call) - 1, 2)}


def check_records(folder):
    """check uses the SHA-256 of a unit that submit recorded, and does not compute it: otherwise
    check would add a line to the record."""
    records, name = os.path.join(folder, "texcell", "accepted"), "blood_0001"
    unit = os.path.join(folder, "download", "3c5", name + ".zip")
    result = os.path.join(TMP, name + ".npz")
    run([TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet"])
    with open(unit, "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()

    def record():
        with open(os.path.join(records, name)) as f:
            return f.read()

    before = record()
    time.sleep(3.2)    # check does not use the record of a file that changed in the last seconds
    r = run([TEXCELL_VALIDATE, "check", "--accepted", records, unit, result])
    ok(r.returncode == 0 and before.startswith(digest) and record() == before,
       "submit records the units' SHA-256, which check then need not compute",
       [r.stdout + r.stderr, before, record()])


def test_submit(folder):
    pictures = os.path.join(TMP, "pictures of $HOME; 'x'")
    for i in range(5):
        picture(os.path.join(pictures, "cell %d.png" % i), i)
    request = ["--analysis", "cellcount", "--split", "2", "--param", "labels=true", "--name",
               "blood", pictures]
    original = tree(folder)
    r = submit(folder, *request, "--dry-run")
    ok(r.returncode == 0 and r.stdout.count("rsc_fpops_est") == 3 and tree(folder) == original
       and re.search(r"\ndry run: nothing was created: 3 work units, about \d+ s of a core\nnote: "
                     r"a unit takes 2 s: put more into each", r.stdout),
       "submit: a dry run shows the estimates and changes nothing", r.stdout + r.stderr)
    deep = os.path.join(TMP, "deep")
    for i in range(3):
        picture(os.path.join(deep, "class %d" % i, "a.png"), i, (48, 64, 3))
    picture(os.path.join(deep, "class 0", "grey.png"), 7)
    r = submit(folder, "--analysis", "cellcount", "--name", "deep", "--recursive", "--stain", "dab",
               "--stains", "hdab", "--skip-bad",
               "--dry-run", deep)
    ok(r.returncode == 0 and "3 items" in r.stdout + r.stderr and
       "is grey, but --stain" in r.stdout + r.stderr and tree(folder) == original,
       "submit passes the options of pack on", r.stdout + r.stderr)
    for moment in (0, 1):
        write(os.path.join(folder, "kill_at"), str(moment))
        r = submit(folder, *request)
        time.sleep(0.3)             # create_work, which was not killed, finishes
        ok(r.returncode == -signal.SIGKILL,
           "submit is killed %s create_work creates the units" % ("after" if moment else "before"),
           r.stdout + r.stderr)
        if moment == 0:
            sql(folder, "DELETE FROM workunit")        # as if create_work had been killed as well
            write(os.path.join(folder, "db.json"), json.dumps(dict(database(folder), work=[])))
            write(os.path.join(folder, "no_work"), "")
            r = submit(folder, *request)
            ok(r.returncode == 3 and
               "create_work: blood_0001: create_work: error opening database" in r.stderr,
               "submit: create_work's message is passed on", r.stderr)
            os.unlink(os.path.join(folder, "no_work"))
    r = submit(folder, *request)
    ok(r.returncode == 0 and "3 in all" in r.stdout and
       glob.glob(os.path.join(glob.escape(folder), "texcell", "submissions", "blood", "*.zip*")) ==
       []
       and [row[0] for row in sql(folder, "SELECT name FROM workunit ORDER BY id")] ==
       ["blood_0001", "blood_0002", "blood_0003"],
       "submit: the repeated command continues, and creates every unit once", r.stdout + r.stderr)
    check_records(folder)
    state = tree(folder)
    r = submit(folder, *request)
    ok(r.returncode == 0 and "0 work units created now" in r.stdout and tree(folder) == state,
       "submit: the same command given again creates nothing and changes no file")
    picture(os.path.join(pictures, "new.png"), 9)
    picture(os.path.join(pictures, "cell 1.png"), 9)
    os.rename(os.path.join(pictures, "cell 2.png"), os.path.join(pictures, "cell 2.txt"))
    r = submit(folder, *request)
    ok(r.returncode == 2 and "0 work units created now" in r.stdout and
       "1 new, 1 changed, 1 gone; none of that is submitted, such as %s"
       % os.path.join(pictures, "cell 1.png") in r.stderr,
       "submit: the same command given again reports new, changed and missing pictures",
       r.stdout + r.stderr)
    one = os.path.join(pictures, "cell 0.png")
    r = submit(folder, "--analysis", "cellcount", "--about", "Counts cells.", "--name", "called",
               one)
    with zipfile.ZipFile(glob.glob(os.path.join(glob.escape(folder), "download", "*",
                                                "called.zip"))[0]) as unit:
        ok(json.loads(unit.read("job.json"))["about"] == "Counts cells.",
           "submit --about: the work unit contains the text")
    call = database(folder)["calls"][-1]
    o = options_of(call)
    ok(call[-1] == "called.zip" and o["wu_name"] == "called" and
       o["min_quorum"] == o["target_nresults"] == "2"
       and int(o["max_total_results"]) > 4 and int(o["max_error_results"]) > 2 and
       o["appname"] == "texcell"
       and o["wu_template"] == "templates/texcell_in.xml",
       "submit passes name, quorum, limits, app and template to create_work",
       call)
    ok(math.isclose(float(o["credit"]), float(o["rsc_fpops_est"]) * 200 / 86400e9, rel_tol=1e-4) and
       float(o["credit"]) > 0.02,
       "submit: the credit is 200 for as many operations as a day at 1 GFLOPS", o)
    # A real server uses download/3c5 and download/1d6 for these names.
    ok(os.path.exists(os.path.join(folder, "download", "3c5", "blood_0001.zip"))
       and os.path.exists(os.path.join(folder, "download", "1d6", "blood_0002.zip")),
       "submit: units are staged where BOINC looks for them")
    r = submit(folder, "--analysis", "cellcount", "--name", "Blood", one)
    ok(r.returncode == 2 and "Blood: BOINC takes it for the same name as blood" in r.stderr and
       len(sql(folder, "SELECT * FROM workunit")) == 4,
       "submit: a name that differs only in case from another is refused", r.stderr)
    with contextlib.closing(sqlite3.connect(os.path.join(folder, "texcell",
                                                         "submissions.sqlite"))) as db, db:
        # Earlier versions accepted a name that differs from another only in case.
        db.execute("INSERT INTO submissions VALUES('Blood', '{}', 'now')")
        db.execute("INSERT INTO units VALUES('Blood_0001', 'Blood', 0, 'x', 'packed')")
    r = submit(folder, "--cancel", "Blood", "--yes")
    ok("Blood: 1 work units cancelled, 0 have" in r.stdout and
       sql(folder, "SELECT count(*) FROM workunit WHERE error_mask != 0") == [(0,)],
       "submit --cancel: of two names that differ in case, the one given", r.stdout + r.stderr)
    r = submit(folder, "--analysis", "cellcount", "--name", "small", "--max-pixels", "10", pictures)
    ok(r.returncode == 2 and re.search(r"none of \d+ inputs can be used \(.*cell.*10", r.stderr),
       "submit: the error explains why no picture can be used", r.stderr)
    r = submit(folder, "--analysis", "cellcount", "--name", "q1", "--app", "../x", one)
    ok(r.returncode == 1 and "--app ../x: must be" in r.stderr,
       "submit: the error names a wrong --app",
       r.stderr)
    r = submit(folder, *request[:-1], os.path.join(pictures, "cell 1.png"))
    ok(r.returncode == 2 and "is the name of another submission (" in r.stderr,
       "submit: a used name is refused for other work", r.stderr)
    program = os.path.join(folder, "bin", "texcell-wu")
    right = read(program)
    write(program, "#!/bin/sh\n%s \"$@\" | sed 's/\"device_bytes\": [0-9]*, //'\n" %
          os.path.join(BUILD, "texcell-wu"), 0o755)
    r = submit(folder, "--analysis", "cellcount", "--name", "older", "--dry-run", one)
    ok(r.returncode == 2 and
       "bin/texcell-wu: is of another texcell than this program: build it" in r.stderr,
       "submit: an older texcell-wu is refused", r.stderr)
    write(program, right, 0o755)
    sql(folder, "INSERT INTO workunit(name) VALUES('taken')")
    r = submit(folder, "--analysis", "cellcount", "--name", "taken", one)
    second_run = submit(folder, "--analysis", "cellcount", "--name", "taken", one)
    ok(r.returncode == second_run.returncode == 2 and
       "taken: the project has a unit of this name, of "
       "which texcell/submissions.sqlite" in r.stderr,
       "submit: a unit name that the project has is refused, also when repeated", r.stderr)
    digest = hashlib.md5(b"other.zip").hexdigest()
    there = os.path.join(folder, "download", "%x" % (int(digest[1:8], 16) % 1024), "other.zip")
    write(there, "of another app")
    r = submit(folder, "--analysis", "cellcount", "--name", "other", one)
    ok(r.returncode == 2 and "there is another file of this name" in r.stderr and
       read(there) == b"of another app",
       "submit: a staged file of the same name is refused", r.stderr)
    out = os.path.join(folder, "templates", "texcell_out.xml")
    write(out, read(out).replace(b"268435456", b"1000"))
    r = submit(folder, "--analysis", "cellcount", "--param", "labels=true", "--name", "large", one)
    ok(r.returncode == 2 and "more than <max_nbytes>" in r.stderr,
       "submit: work whose result would be too large to upload is refused", r.stderr)
    write(out, read(out).replace(b"1000", b"268435456"))
    for name, old, new, words in (("texcell_in.xml", b">workunit<", b">work<",
                                   "open_name> within <workunit> must be workunit, or "
                                   "every task fails"),
                                  ("texcell_out.xml", b">result<", b">out<",
                                   "open_name> within <result> must be result"),
                                  ("texcell_in.xml", b"</file_ref>", b"",
                                   "texcell_in.xml: is not well-formed XML: mismatched tag")):
        path = os.path.join(folder, "templates", name)
        right = read(path)
        write(path, right.replace(old, new))
        r = submit(folder, "--analysis", "cellcount", "--name", "edited", one, "--dry-run")
        ok(r.returncode == 2 and words in r.stderr and r.stderr.count("\n") == 1,
           "submit: a template that was changed: " + words, r.stderr)
        write(path, right)
    for arguments, words in ((["--name", "a/b"], "--name a/b"),
                             (["--name", "ok", "--for", "cpu", "--split", "1"], "exclude"),
                             (["--name", "-x"], "expected one argument"),
                             (["--name", "ok", "--quorum", "0"], "quorum"),
                             (["--name", "ok", "--quorum", "3", "--targets", "2"], "--targets")):
        r = submit(folder, "--analysis", "cellcount", *arguments, one)
        ok(r.returncode == 1 and words in r.stderr and r.stderr.count("\n") == 1,
           "submit: refused: " + " ".join(arguments), r.stderr)
    r = submit(folder, "--analysis", "nothing", "--name", "ok", one)
    ok(r.returncode == 1 and
       r.stderr.startswith('texcell-submit: error: there is no analysis "nothing"'),
       "submit: texcell-wu's refusal is passed on", r.stderr)


def test_many(folder):
    """300 units of two sizes take few calls of create_work, and each is created once."""
    pictures = os.path.join(TMP, "many")
    for i in range(300):
        picture(os.path.join(pictures, "p%d.png" % i), 1000 + i,
                (64, 64) if i % 100 else (300, 300))
    before = len(database(folder)["calls"])
    r = submit(folder, "--analysis", "glcm", "--preset", "hcc", "--split", "1", "--quorum", "1",
               "--name", "many", pictures)
    calls = database(folder)["calls"][before:]
    names = [row[0] for row in sql(folder, "SELECT name FROM workunit WHERE name LIKE 'many%' "
                                   "ORDER BY name")]
    ok(r.returncode == 0 and names == ["many_%04d" % (i + 1) for i in range(300)] and
       len(calls) <= 4,
       "submit: 300 units of two sizes take %d calls of create_work" % len(calls), r.stderr)
    credits = sorted({row[0] for row in sql(folder, "SELECT canonical_credit FROM workunit WHERE "
                                            "name LIKE 'many%'")})
    ok(len(credits) == 2 and credits[0] < credits[1],
       "submit: each unit has its own credit", credits)
    ok("only texcell-deploy --verify sees wrong results" in r.stdout and
       os.path.exists(os.path.join(folder, "texcell", "alone", "many")),
       "submit: a quorum of one is recorded for the validator", r.stdout[-300:])
    staged = os.path.join(folder, "download",
                          "%x" % (int(hashlib.md5(b"many_0007.zip").hexdigest()[1:8], 16) % 1024),
                          "many_0007.zip")
    fields = read(staged + ".md5").decode().split()
    ok(fields[0] == hashlib.md5(read(staged)).hexdigest() and
       float(fields[1]) == os.path.getsize(staged) and os.stat(staged).st_nlink == 1,
       "submit: units are staged with size and MD5, and nowhere else", fields)


def test_kill_pack(folder):
    """texcell-submit is killed while texcell-wu packs for it: texcell-wu ends as well."""
    words = ["--analysis", "glcm", "--split", "1", "--name", "killed", os.path.join(TMP, "many")]
    place = os.path.join(folder, "texcell", "submissions", "killed")
    process = subprocess.Popen([os.path.join(folder, "bin", "texcell-submit"), *words], env=ENV,
                               stdout=subprocess.DEVNULL)
    while process.poll() is None and not glob.glob(os.path.join(glob.escape(place), "*.zip*")):
        time.sleep(0.001)
    packs = read("/proc/%d/task/%d/children" % (process.pid, process.pid)).split()
    process.kill()
    process.wait()
    r = submit(folder, *words)
    # The process has ended or is a zombie, as its parent was killed.
    ended = len(packs) == 1 and (not os.path.exists(os.path.join("/proc", packs[0].decode()))
                                 or read("/proc/%s/stat" %
                                         packs[0].decode()).rsplit(b")", 1)[1].split()[0] == b"Z")
    ok(ended and r.returncode == 0 and "300 work units created now" in r.stdout,
       "submit: if it is killed while texcell-wu packs, texcell-wu ends, and the same call works",
       "%s %s" % (packs, r.stdout[-300:] + r.stderr))


def test_alone(folder):
    deploy(folder, "--verify", "0.1", "--classes", "cpu")
    r = submit(folder, "--analysis", "cellcount", "--quorum", "1", "--name", "small",
               os.path.join(TMP, "many", "p1.png"))
    ok(r.returncode == 0 and "of units with 1 item that is 100% of the work, not the 10% "
       "of --verify" in r.stdout,
       "submit warns if units have too few items to compute only the share of --verify again",
       r.stdout)
    r = submit(folder, "--analysis", "cellcount", "--quorum", "1", "--name", "larger",
               os.path.join(TMP, "many"))
    ok(r.returncode == 0 and "note: the server computes" not in r.stdout,
       "submit does not warn if units have enough items for the share of --verify",
       r.stdout)
    r = submit(folder, "--analysis", "cellcount", "--name", "again", "--split", "150",
               os.path.join(TMP, "many"))
    ok("are the same as others" not in r.stdout,
       "submit: different units of the same pictures are not reported as equal", r.stdout)
    r = submit(folder, "--analysis", "cellcount", "--name", "twin", "--split", "150",
               os.path.join(TMP, "many"))
    ok(r.returncode == 0 and
       "note: 2 of the units are the same as others, such as again_0001" in r.stdout,
       "submit: equal units are reported", r.stdout)


def test_quorum(folder):
    """A submission keeps the quorum of its first call, even if that call was interrupted."""
    pictures = os.path.join(TMP, "of a quorum")
    for i in range(4):
        picture(os.path.join(pictures, "p%d.png" % i), 50 + i)
    words = ["--analysis", "cellcount", "--name", "one", "--split", "1", pictures]
    marked = os.path.join(folder, "texcell", "alone", "one")
    write(os.path.join(folder, "no_work"), "")
    r = submit(folder, *words, "--quorum", "1")
    os.unlink(os.path.join(folder, "no_work"))
    ok(r.returncode == 3 and os.path.exists(marked),
       "quorum: the first call is interrupted", r.stderr)
    for other in ("2", "3"):
        r = submit(folder, *words, "--quorum", other)
        ok(r.returncode == 2 and "one: was submitted with --quorum 1, and all its "
           "units have that" in r.stderr and r.stderr.count("\n") == 1
           and os.path.exists(marked),
           "quorum: a later call with another quorum is refused: " + other, r.stderr)
    for again in (words, words, [*words, "--quorum", "1"]):
        r = submit(folder, *again)
        calls = [c for c in database(folder)["calls"] if "--min_quorum" in c]
        ok(r.returncode == 0 and "4 in all" in r.stdout and os.path.exists(marked) and
           options_of(calls[-1])["min_quorum"] == "1"
           and options_of(calls[-1])["target_nresults"] == "1",
           "quorum: the same command without --quorum keeps it", r.stdout + r.stderr)
    r = submit(folder, "--analysis", "cellcount", "--name", "few", "--quorum", "3", "--targets",
               "2", pictures)
    ok(r.returncode == 1 and "--targets: must not be less than --quorum, which is 3" in r.stderr,
       "quorum: --targets below the quorum is refused", r.stderr)
    # Older releases recorded no quorum.
    with contextlib.closing(sqlite3.connect(os.path.join(folder, "texcell",
                                                         "submissions.sqlite"))) as db, db:
        request = json.loads(
            db.execute("SELECT request FROM submissions WHERE name = 'one'").fetchone()[0])
        db.execute("UPDATE submissions SET request = ? WHERE name = 'one'",
                   (json.dumps({k: v for k, v in request.items() if k != "quorum"}),))
    r = submit(folder, *words, "--quorum", "2")
    ok(r.returncode == 2 and submit(folder, *words).returncode == 0 and os.path.exists(marked),
       "quorum: a submission begun by an older release, which recorded no quorum, continues",
       r.stderr)


def test_what_fails(folder):
    """Error messages name the file and the remedy; --for accepts a folder that contains other files
    than pictures."""
    one, inputs = picture(os.path.join(TMP, "p", "fails.png"), 3), os.path.join(TMP, "with README")
    check, words = os.path.join(folder, "bin", "texcell_check"), ["--analysis", "cellcount"]
    for name in ("b.png", "sub/c.png"):
        picture(os.path.join(inputs, name), 4)
        picture(os.path.join(TMP, "masks of README", name), 5)
    write(os.path.join(inputs, "README.txt"), "text")
    os.symlink("nowhere", os.path.join(inputs, "a link.txt"))
    for more in ([], ["--recursive"],
                 ["--recursive", "--mask", os.path.join(TMP, "masks of README")],
                 ["--mask", os.path.join(TMP, "masks of README")]):
        r = submit(folder, *words, "--name", "readme", "--for", "cpu", "--dry-run", *more, inputs)
        ok(r.returncode == 0 and "--for cpu: " in r.stdout and "left out" in r.stdout and
           "%d item" % (1 + ("--recursive" in more)) in r.stdout,
           "submit --for leaves out files that are not pictures %s" % more[:2],
           r.stdout + r.stderr)
    os.mkdir(os.path.join(TMP, "no pictures"))
    write(os.path.join(TMP, "no pictures", "a.txt"), "text")
    r = submit(folder, *words, "--name", "readme", "--for", "cpu", "--dry-run",
               os.path.join(TMP, "no pictures"))
    ok(r.returncode == 2 and os.path.join(TMP, "no pictures") + ": no .png" in r.stderr and
       r.stderr.count("\n") == 1, "submit --for: a folder without a picture is refused", r.stderr)
    script = read(check)
    write(check, script.replace(b' "$@"', b' --max-memory 4 "$@"'), 0o755)
    r = submit(folder, *words, "--name", "memory", one)
    write(check, script, 0o755)
    ok(r.returncode == 2 and re.search(r"memory.zip: to compute an item again takes \d+ MiB, and "
                                       r"the server may take 4: raise texcell-deploy --max-memory",
                                       r.stderr),
       "submit: an item that needs more memory than --max-memory is refused", r.stderr)
    ok(submit(folder, *words, "--name", "q", "--split", "1", "--recursive", inputs).returncode == 0,
       "submit: a submission's units are named q_0001, ...")
    r = submit(folder, *words, "--name", "q_0001", one)
    second_run = submit(folder, *words, "--name", "q_0001", one)
    ok(r.returncode == 2 and "q_0001: another submission has a work unit of this name already: "
       "give another --name" in r.stderr and second_run.stderr == r.stderr,
       "submit: a unit with the name of another submission's unit is refused", r.stderr)
    r = submit(folder, *words, "--name", "x", "-o", "here", one)
    ok(r.returncode == 1 and "--output: is for --url" in r.stderr,
       "submit: --output without --url is refused",
       r.stderr)
    fresh = make_project("fresh")
    deploy(fresh, "--classes", "cpu")
    shutil.rmtree(os.path.join(fresh, "texcell"))
    r = submit(fresh, "--status", "x")
    ok(r.returncode == 2 and "nothing was submitted under this name" in r.stderr and
       not os.path.exists(os.path.join(fresh, "texcell")),
       "submit --status makes no file", r.stderr)
    path = os.path.join(fresh, "texcell", "submissions.sqlite")
    write(path, b"damaged" * 1000)
    r = submit(fresh, "--status", "x")
    ok(r.returncode == 3 and path + ": file is not a database; docs/admin.md says how" in r.stderr,
       "submit: the error names the damaged file", r.stderr)


FULL = """mount -t tmpfs -o size=48k tmpfs "$1/texcell" && mount -t tmpfs -o size=48k tmpfs "$1/download" || exit 99
for size in 64k 200k 400k 50m; do
    "$1/bin/texcell-submit" --name full --analysis cellcount --split 1 "$2"; echo "= $?"
    for name in texcell download; do mount -o remount,size=$size tmpfs "$1/$name"; done
done
"$1/bin/texcell-submit" --name full --analysis cellcount --split 1 "$2"; echo "= $?"; exec ls "$1"/download/*/
"""  # noqa: E501


def test_full_disk():
    """The same command is repeated while space on a full disk is freed step by step: it reports
    that there is no space, and in the end each unit has been created once."""
    folder, pictures = make_project("full"), os.path.join(TMP, "of noise")
    deploy(folder, "--classes", "cpu")
    for i in range(20):
        picture(os.path.join(pictures, "p%02d.png" % i), i, (100, 100))
    r = run(["unshare", "-rm", "sh", "-c", FULL, "sh", folder, pictures], env=ENV)
    if r.returncode == 99 or "unshare" in r.stderr:
        skip("submit: a full disk is reported", "no name space with a file system of its own here")
        return
    output, codes = r.stderr.splitlines(), re.findall(r"(?m)^= (\d+)$", r.stdout)
    ok(codes[0] != "0" and codes[-1] == "0" and len(output) ==
       len([c for c in codes if c != "0"]) and
       all(re.match(r"texcell-submit: error: .*(No space left on device|is full)", line)
           for line in output), "submit: the report of a full disk is one line", output + codes)
    names = ["full_%04d" % (i + 1) for i in range(20)]
    ok([row[0] for row in sql(folder, "SELECT name FROM workunit ORDER BY name")] == names and
       all(n + ".zip\n" in r.stdout for n in names),
       "submit: with free space the same command creates each unit once", r.stdout)


def test_sizes(folder):
    """--for puts as many pictures in a unit as a GPU computes in half an hour or a CPU core in an
    hour."""
    for size, app, flops in (("gpu", "texcell_gpu", 3.6e14), ("cpu", "texcell", 1.8e13)):
        r = submit(folder, "--analysis", "glcm", "--preset", "hcc", "--for", size, "--name",
                   "for_" + size, "--dry-run",
                   os.path.join(TMP, "many", "p0.png"))
        n = int(re.search(r"--for %s: (\d+) items? a unit" % size, r.stdout).group(1))
        each = float(re.search(r"rsc_fpops_est (\S+),", r.stdout).group(1)) - 1e10
        ok(r.returncode == 0 and 0.95 < n * each / flops < 1.06,
           "submit --for %s: %d pictures" % (size, n), r.stdout)
    noise = os.path.join(TMP, "noise.png")
    Image.fromarray(np.random.default_rng(1).integers(0, 255, (1024, 1024), np.uint8)).save(noise)
    r = submit(folder, "--analysis", "cellcount", "--for", "cpu", "--name", "for_bytes",
               "--dry-run", noise)
    ok(r.returncode == 0 and
       re.search(r"--for cpu: 25\d items a unit, for a download of about 256 MiB", r.stdout),
       "submit --for: a unit has at most about 256 MiB", r.stdout)


def test_status(folder):
    """texcell-submit --status: states of units, and what delays them."""
    def status():
        r = submit(folder, "--status", "many")
        return dict(line.split()[:2]
                    for line in r.stdout.splitlines()) if r.returncode == 0 else r.stderr
    ids = [row[0]
           for row in sql(folder, "SELECT id FROM workunit WHERE name LIKE 'many%' ORDER BY id")]
    for i, job in enumerate(ids):
        sql(folder, "INSERT INTO result(workunitid, server_state, outcome, validate_state) "
            "VALUES(?, ?, 1, ?)", job,
            2 if i < 100 else 4 if i < 250 else 5, 0 if i < 290 else 2 if i < 293 else 1)
        if i >= 293:
            sql(folder, "UPDATE workunit SET canonical_resultid = 1 WHERE id = ?", job)
    s = status()
    ok(s == {"many": "300", "created": "300", "cancelled": "0", "waiting": "100", "out": "150",
             "refused": "3", "valid": "7",
             "stored": "0", "failed": "0"},
       "submit --status prints the number of units in each state", s)
    sql(folder, "INSERT INTO host(userid, rpc_time) VALUES(1, ?), (2, ?), (3, 1)", time.time(),
        time.time())
    config = read(folder, "config.xml")
    write(os.path.join(folder, "config.xml"),
          re.sub(b"<one_result_per_user_per_wu>.*?<", b"<one_result_per_user_per_wu>1<", config))
    s = status()
    sql(folder, "INSERT INTO result(workunitid, server_state, outcome, userid) VALUES(?, 5, 1, 1), "
        "(?, 5, 1, 2)", ids[0], ids[0])
    for user in (3, 4, 5):      # a unit that is done, by users of whom some no longer come
        sql(folder, "INSERT INTO result(workunitid, server_state, outcome, validate_state, userid) "
            "VALUES(?, 5, 1, 1, ?)", ids[-1], user)
    stuck = submit(folder, "--status", "many").stdout
    ok("stuck" not in s and "stuck      1  wait for another user: 2 came in the last week" in stuck,
       "submit --status reports units that wait because too few users come", stuck)
    sql(folder, "DELETE FROM result WHERE userid != 0")
    write(os.path.join(folder, "config.xml"), config)
    s = status()
    ok(s["stored"] == "0", "submit --status: no unit is stored if the data set is empty", s)
    name, result = "many_0299.zip", os.path.join(TMP, "many_0299_0_r1_0")
    unit = os.path.join(folder, "download",
                        "%x" % (int(hashlib.md5(name.encode()).hexdigest()[1:8], 16) % 1024), name)
    run([TEXCELL, "run", unit, "-o", result, "--quiet"])
    run([os.path.join(folder, "bin", "texcell_assimilate"), str(ids[-2]), result],
        cwd=os.path.join(folder, "tmp_host"))
    run([os.path.join(folder, "bin", "texcell_assimilate"), "--error", "2", "many_0001",
         str(ids[0]), "0"],
        cwd=os.path.join(folder, "tmp_host"))
    sql(folder, "DELETE FROM workunit WHERE id = ?", ids[-2])             # as BOINC's db_purge does
    s = status()
    ok(s["stored"] == "1" and s["failed"] == "1" and s["valid"] == "6" and int(s["left"]) > 0,
       "submit --status counts stored units, also one that BOINC has purged, and failed ones", s)
    other = sql(folder, "SELECT count(*) FROM workunit WHERE error_mask != 0")[0][0]
    before = sql(folder, "SELECT count(*) FROM workunit WHERE error_mask != 0")
    words = [os.path.join(folder, "bin", "texcell-submit"), "--cancel", "many"]
    r, dry, no = (run(words, env=ENV, stdin=subprocess.DEVNULL),
                  submit(folder, "--cancel", "many", "--dry-run"), at_terminal(words, "\n"))
    ok(r.returncode == 1 and "give --yes" in r.stderr and dry.returncode == 0 and
       "dry run: many: would cancel 293 work units, of which hosts compute 150 results now and 40 "
       "have a result that waits for another, and gets no credit; 6 have a valid result or are over"
       in dry.stdout
       and no[0] == 1 and "many: cancel 293 work units" in no[1] and "[y/N]" in no[1] and
       "nothing was cancelled" in no[1]
       and sql(folder, "SELECT count(*) FROM workunit WHERE error_mask != 0") == before,
       "submit --cancel asks, is an error without a terminal, and --dry-run states the numbers",
       "%s%s%s%s" % (r.stderr, dry.stdout, dry.stderr, no))
    code, output = at_terminal(words, "y\n")
    mine, = sql(folder,
                "SELECT count(*) FROM workunit WHERE error_mask = 16 AND name LIKE 'many%'")[0]
    alien, = sql(folder,
                 "SELECT count(*) FROM workunit WHERE error_mask != 0 AND name NOT LIKE 'many%'")[0]
    ok(code == 0 and mine == 293 and alien == other == 0 and "293 work units cancelled" in output,
       "submit --cancel: cancels the units without a result, and no others", output)
    r = submit(folder, "--cancel", "many", "--yes")
    ok("0 work units cancelled, 6 have a valid result or are over, 293 were cancelled before" in
       r.stdout,
       "submit --cancel: a second call cancels nothing", r.stdout)
    s = status()
    ok(s["cancelled"] == "293" and s["created"] == "300",
       "submit --status counts cancelled units", s)
    r = submit(folder, "--status", "nothing")
    ok(r.returncode == 2 and "nothing was submitted under this name" in r.stderr,
       "submit --status: an unknown name is an error")
    r = run([os.path.join(folder, "bin", "texcell-submit"), "--status", "many"],
            env=dict(ENV, PYTHONPATH=os.path.join(TMP, "absent")))
    ok(r.returncode == 3 and "MySQLdb" in r.stderr,
       "submit --status fails if the database cannot be reached", r.stderr)
    write(os.path.join(folder, "kill_at"), "0")
    pictures = os.path.join(TMP, "many")
    submit(folder, "--analysis", "cellcount", "--split", "10", "--name", "ended", pictures)
    time.sleep(0.3)
    r = submit(folder, "--cancel", "ended", "--yes")
    second_run = submit(folder, "--analysis", "cellcount", "--split", "10", "--name", "ended",
                        pictures)
    ok(r.returncode == 0 and "30 work units cancelled" in r.stdout and
       "0 work units created now" in second_run.stdout and "another --name" in second_run.stdout,
       "submit: the same command does not create cancelled units again",
       r.stdout + second_run.stdout)
    write(os.path.join(folder, "no_work"), "")
    submit(folder, "--analysis", "cellcount", "--split", "10", "--name", "waits", pictures)
    os.unlink(os.path.join(folder, "no_work"))
    r, cancelled = submit(folder, "--status", "waits"), submit(folder, "--cancel", "waits", "--yes")
    ok("packed     30  are not created yet: give the command that submits them again" in r.stdout
       and "waits: 30 work units cancelled" in cancelled.stdout,
       "submit --status, --cancel: units that were not created", r.stdout + cancelled.stdout)


def test_server_settings():
    """Settings that BOINC's own tools need (the web server's user and group, folders of files),
    --fraction in the scripts, and several validators."""
    folder = make_project("settings")
    for parent in ("upload", "download"):
        os.chmod(os.path.join(folder, parent), 0o2775)
    r = deploy(folder, "--dry-run")
    ok("would make 2048 folders in download and upload" in r.stdout and
       os.listdir(os.path.join(folder, "upload")) == [],
       "server settings: a dry run makes no folders")
    write(os.path.join(TMP, "away", "MySQLdb.py"),
          "class Error(Exception):\n    pass\ndef connect(**_how):\n    raise Error('no socket')\n")
    original = tree(folder)
    r = deploy(folder, env=dict(ENV, PYTHONPATH=os.path.join(TMP, "away")))
    ok(r.returncode == 3 and r.stderr.startswith("texcell-deploy: error: database ") and
       tree(folder) == original,
       "server settings: an error without the database, and nothing is changed", r.stderr)
    r = deploy(folder)
    for parent in ("upload", "download"):
        made = [n for n in os.listdir(os.path.join(folder, parent))
                if os.path.isdir(os.path.join(folder, parent, n))]
        ok(sorted(made) == sorted("%x" % i for i in range(1024))
           and {os.stat(os.path.join(folder, parent, n)).st_mode & 0o7777 for n in made} ==
           {0o2775}, "all folders in %s exist" % parent, r.stdout)
    user = ElementTree.fromstring(read(folder, "config.xml")).findtext("config/httpd_user")
    users = {u.pw_name for u in pwd.getpwall()}
    ok(user == next((n for n in ("www-data", "apache", "wwwrun", "http") if n in users and
                     n != "apache"), None),
       "config.xml: the web server's user is in it", user)
    ok(sql(folder, "SELECT fraction_done_exact FROM app WHERE name = 'texcell'") == [(1,)],
       "the database: fraction_done_exact is set", r.stdout)
    r = deploy(folder, env=dict(ENV, PYTHONPATH=os.path.join(TMP, "absent")))
    ok(r.returncode == 0 and
       "UPDATE app SET fraction_done_exact=1 WHERE name='texcell'" in r.stdout,
       "without the database deploy prints the SQL statement", r.stdout)

    def daemons():
        return [(d.findtext("cmd"), d.findtext("output"), d.findtext("pid_file"))
                for d in ElementTree.fromstring(read(folder, "config.xml")).iter("daemon")
                if "--app texcell" in d.findtext("cmd")]

    one = daemons()
    ok(len(one) == 2 and "--credit_from_wu" in one[0][0],
       "one validator, with credit from the units", one)
    original = read(folder, "config.xml")
    r = deploy(folder, "--validators", "3")
    three = [d for d in daemons() if "validator" in d[0]]
    ok(r.returncode == 0 and [re.search(r"--mod .*", d[0]).group() for d in three] ==
       ["--mod 3 0", "--mod 3 1", "--mod 3 2"]
       and len({d[1] for d in three}) == len({d[2] for d in three}) == 3 and
       "loses credit; those of --boinc do not" in r.stdout,
       "three validators, each with its share, log and pid; a note on several of BOINC's own "
       "validators", str(three) + r.stdout)
    after = read(folder, "config.xml")
    deploy(folder)
    ok(read(folder, "config.xml") == after,
       "the number of validators stays without being given again")
    r = deploy(folder, "--scale")
    old_config = read(folder, "config.xml")
    values = {e.tag: e.text for e in ElementTree.fromstring(old_config).find("config")}
    ok(r.returncode == 0 and values["shmem_work_items"] == "2000" and
       values["delete_delay_hours"] == "24"
       and r.stdout.count("docs/scale.md says why") == 6, "--scale: settings for many hosts",
       r.stdout)
    write(os.path.join(folder, "config.xml"),
          old_config.replace(b"<shmem_work_items>2000", b"<shmem_work_items>77"))
    r = deploy(folder, "--scale")
    ok(b"<shmem_work_items>77<" in read(folder, "config.xml") and "says why" not in r.stdout,
       "--scale: existing settings stay", r.stdout)
    page = open(os.path.join(SRC, "docs", "scale.md")).read()
    ok({(n, v) for n, v in values.items() if n in page} >=
       set(re.findall(r"^\| `([a-z_]+)` \| (\d+) \|", page, re.M)),
       "docs/scale.md: its values are those of --scale", values)
    write(os.path.join(folder, "config.xml"), after)
    deploy(folder, "--validators", "1")
    ok(sorted(daemons()) == sorted(one) and
       is_kept(CONFIG % (folder, folder), read(folder, "config.xml").decode()),
       "back to one validator: all other lines stay", original)
    deploy(folder, "--verify", "0.1")
    ok(len([d for d in daemons() if "--mod %d " % (1 + os.cpu_count()) in d[0]]) == 1 +
       os.cpu_count(),
       "--verify: one validator more than there are processors", daemons())
    deploy(folder, "--validators", "2")
    deploy(folder, "--verify", "0.1")
    ok(len([d for d in daemons() if "--mod 2 " in d[0]]) == 2,
       "--verify: the number given by --validators stays", daemons())


def test_suggested():
    """texcell-submit chooses parameters by a look at all pictures, unless some are given."""
    folder, pictures = make_project("suggested"), os.path.join(TMP, "bright cells")
    deploy(folder, "--classes", "cpu")
    os.makedirs(pictures)
    y, x = np.mgrid[:128, :128]
    for i in range(4):
        cells = np.hypot(y % 32 - 16, (x + 3 * i) % 32 - 16) < 8
        noise = np.random.default_rng(i).integers(0, 12, cells.shape)
        Image.fromarray((cells * 150 + 40 + noise).astype(np.uint8)).save(
            os.path.join(pictures, "%d.png" % i))

    def used(name, *options):
        """What submit says, the parameters of the units, and the units' bytes."""
        r = submit(folder, "--name", name, "--analysis", "cellcount", "--split", "1", *options,
                   pictures)
        found, files = [], sorted(glob.glob(os.path.join(folder, "download", "*", name + "*.zip")))
        for path in files:
            with zipfile.ZipFile(path) as archive:
                found.append(json.loads(archive.read("job.json"))["parameters"])
        return r, found, {path: read(path) for path in files}

    r, found, files = used("looked")
    ok(r.returncode == 0 and "note: a look at the pictures suggests\n" in r.stdout and
       "--param polarity=bright" in r.stdout and len(found) == 4 and
       all(p == found[0] for p in found) and found[0]["polarity"] == "bright",
       "submit: parameters are chosen by a look at the pictures, the same for all units",
       "%s%s%s" % (r.stdout, r.stderr, found))
    for path in files:
        os.unlink(path)
    again = run([os.path.join(folder, "bin", "texcell-again"), "--lost"], env=ENV)
    ok(again.returncode == 0 and "4 units that are out are packed again" in again.stdout and
       {path: read(path) for path in files} == files,
       "again --lost: units with chosen parameters are packed with the same bytes",
       again.stdout + again.stderr)
    for name, options in ("plain", ["--defaults"]), ("given", ["--param", "polarity=dark"]):
        r, found, _files = used(name, *options)
        ok(r.returncode == 0 and "suggests" not in r.stdout and
           [p.get("polarity", "dark") for p in found] == ["dark"] * 4,
           "submit: %s: no look at the pictures" % options[0],
           "%s%s%s" % (r.stdout, r.stderr, found))


def test_put_off(folder, again):
    """texcell-again and texcell-watch: units whose check was put off, damaged files of units, and
    results that the data set lost."""
    def watch():
        return run([os.path.join(folder, "bin", "texcell-watch")], env=ENV).stdout

    data_set = os.path.join(folder, "texcell", "dataset.sqlite")
    for table in ("workunit", "result"):
        sql(folder, "CREATE TABLE %s_kept AS SELECT * FROM %s" % (table, table))
    sql(folder, "DELETE FROM result")
    sql(folder, "UPDATE workunit SET canonical_resultid = 0, assimilate_state = 0, error_mask = 0, "
        "need_validate = 0")
    for unit, state in ((1, 4), (1, 4), (3, 4), (3, 0), (4, 4)):
        sql(folder, "INSERT INTO result(workunitid, server_state, outcome, validate_state) "
            "VALUES(?, 5, 1, ?)", unit, state)
    name, = sql(folder, "SELECT name FROM workunit WHERE id = 1")[0]
    path, = [os.path.join(folder, "download", "%x" % (
        int(hashlib.md5((name + ".zip").encode()).hexdigest()[1:8], 16) % 1024), name + ".zip")]
    again(name)                     # packs the unit again if its file was deleted
    content = read(path)
    sql(folder, "UPDATE workunit SET need_validate = 0")
    write(path, content[:100] + b"\0" + content[101:])
    words = watch()
    ok("undecided: 1 units, such as %s: the check of their results was put off" % name in words and
       "bin/texcell-again %s" % name in words,
       "watch reports a unit whose results' check was put off", words)
    r = again(name)
    ok(r.returncode == 0 and "packed again: %s" % name in r.stdout and read(path) == content,
       "again: a damaged work unit is packed again", r.stdout + r.stderr)
    ok("1 had results whose check was put off: they are checked now: " + name in r.stdout and
       sql(folder, "SELECT id FROM workunit WHERE need_validate = 1") == [(1,)] and
       "undecided" not in watch(),
       "again: results whose check was put off are validated", r.stdout + r.stderr)
    sql(folder, "UPDATE workunit SET need_validate = 0")
    write(path, content[:100] + b"\0" + content[101:])
    r = again("--lost")
    ok(r.returncode == 0 and "packed again: %s" % name in r.stdout and read(path) == content and
       "1 units had results whose check was put off" in r.stdout and
       sql(folder, "SELECT id FROM workunit WHERE need_validate = 1") == [(1,)],
       "again --lost packs damaged work units and validates results whose check was put off",
       r.stdout + r.stderr)

    sql(folder, "DELETE FROM result")
    upload = os.path.join(folder, "upload", "%x" % (
        int(hashlib.md5(b"up_4").hexdigest()[1:8], 16) % 1024), "up_4")
    write(upload, "a result")
    for unit in (1, 3, 4):
        sql(folder, "INSERT INTO result(id, workunitid, server_state, outcome, validate_state, "
            "granted_credit, xml_doc_in) VALUES(?, ?, 5, 1, 1, 2.5, ?)", unit, unit,
            "<file_info><name>up_%d</name></file_info>" % unit)
    sql(folder, "UPDATE workunit SET canonical_resultid = id, assimilate_state = 2, "
        "need_validate = 0 WHERE id != 2")
    with contextlib.closing(sqlite3.connect(data_set)) as db, db:
        db.execute("INSERT INTO refused(kind, reason, name, wu_id, result, stored) "
                   "VALUES('missing', '', 'wrong_0003', 3, '', '2020-01-01')")
    words = watch()
    ok("assimilated, but not in the data set: 2, such as wrong_0001" in words and
       "bin/texcell-again --lost" in words,
       "watch reports assimilated results that are missing in the data set", words)
    sql(folder, "INSERT INTO workunit(id, name, canonical_resultid, assimilate_state, error_mask) "
        "VALUES(99, 'nowhere_0001', 0, 0, 0)")
    r = run([os.path.join(folder, "bin", "texcell-again"), "--lost"], env=ENV)
    ok(r.returncode == 1 and "give --yes" in r.stderr and "1 must be computed again" in r.stderr,
       "again --lost: asks before units are computed again", r.stdout + r.stderr)
    ok("nowhere_0001" in r.stdout, "again --lost names units that cannot be packed, also if the "
       "question is not answered", r.stdout + r.stderr)
    sql(folder, "DELETE FROM workunit WHERE id = 99")
    r = again("--lost")
    ok(r.returncode == 0 and "2 units are not in the data set: 1 results are still there, and 1 "
       "are computed again" in r.stdout and
       sql(folder, "SELECT id, canonical_resultid, assimilate_state FROM workunit WHERE id != 2")
       == [(1, 0, 0), (3, 3, 2), (4, 4, 1)] and
       sql(folder, "SELECT outcome, validate_state, granted_credit FROM result WHERE id = 1") ==
       [(7, 3, 2.5)] and "not in the data set" not in watch(),
       "again --lost: results that the data set lost are stored or computed again",
       r.stdout + r.stderr)
    os.rename(data_set, data_set + ".away")
    sql(folder, "UPDATE workunit SET assimilate_state = 2 WHERE id = 4")
    r = again("--lost")
    ok(r.returncode == 2 and "no data set: " in r.stderr and
       sql(folder, "SELECT assimilate_state FROM workunit WHERE id = 4") == [(2,)],
       "again --lost: a missing data set is an error, and no unit is queued", r.stdout + r.stderr)
    os.rename(data_set + ".away", data_set)
    with contextlib.closing(sqlite3.connect(data_set)) as db, db:
        db.execute("DELETE FROM refused WHERE stored = '2020-01-01'")
    os.unlink(upload)
    for table in ("workunit", "result"):
        sql(folder, "DELETE FROM %s" % table)
        sql(folder, "INSERT INTO %s SELECT * FROM %s_kept" % (table, table))
    for unit in (1, 3, 4):
        for left in glob.glob(os.path.join(folder, "download", "*", "wrong_%04d.zip" % unit)):
            os.unlink(left)


def test_again():
    """texcell-again removes units whose only result is from a given host from the data set and
    queues them again; a unit's deleted file is packed again with the same bytes."""
    folder, pictures = make_project("again"), os.path.join(TMP, "again pictures")
    deploy(folder)
    for i in range(4):
        picture(os.path.join(pictures, "%d.png" % i), i)
    submit(folder, "--analysis", "cellcount", "--split", "1", "--name", "wrong", pictures)
    units = sql(folder, "SELECT id, name FROM workunit ORDER BY id")
    for unit, name in units:
        result = os.path.join(TMP, name + "_0_r1_0")
        staged = os.path.join(folder, "download", "%x" % (
            int(hashlib.md5((name + ".zip").encode()).hexdigest()[1:8], 16) % 1024), name + ".zip")
        run([TEXCELL, "run", staged, "-o", result, "--quiet"])
        run([os.path.join(folder, "bin", "texcell_assimilate"), str(unit), result],
            cwd=os.path.join(folder, "tmp_host"))
        sql(folder, "INSERT INTO result(id, workunitid, server_state, outcome, validate_state, "
            "hostid, userid, granted_credit, app_version_id) VALUES(?, ?, 5, 1, 1, 7, 1, 2.5, 3)",
            unit, unit)
        sql(folder,
            "UPDATE workunit SET canonical_resultid = id, assimilate_state = 2 WHERE id = ?", unit)
        content = read(staged)
        os.unlink(staged)
    # Unit 2 also has a result of another user, and unit 3 one of the same user's other host; unit 4
    # is being assimilated.
    for unit, user in ((2, 2), (3, 1)):
        sql(folder, "INSERT INTO result(workunitid, server_state, outcome, validate_state, hostid, "
            "userid, granted_credit, app_version_id) VALUES(?, 5, 1, 1, 8, ?, 2.5, 3)", unit, user)
    sql(folder, "UPDATE workunit SET assimilate_state = 1 WHERE id = 4")
    for statement in ("host(id, total_credit) VALUES(7, 10), (8, 5)",
                      "user(id, teamid, total_credit) VALUES(1, 4, 12.5), (2, 0, 2.5)",
                      "team VALUES(4, 12.5)",
                      "host_app_version VALUES(7, 3, 12), (9, 3, 12)"):
        sql(folder, "INSERT INTO " + statement)

    def again(*options):
        return run([os.path.join(folder, "bin", "texcell-again"), "--yes", *options], env=ENV)

    def stored_units():
        with contextlib.closing(sqlite3.connect(os.path.join(folder, "texcell",
                                                             "dataset.sqlite"))) as db:
            return [row[0] for row in db.execute("SELECT name FROM units ORDER BY name")]

    r = again("--host", "7", "--dry-run")
    ok(r.stdout.splitlines()[1:] == ["wrong_0001", "wrong_0003", "wrong_0004"] and
       len(stored_units()) == 4,
       "again: a dry run prints the query and the units", r.stdout + r.stderr)
    os.rename(pictures, pictures + "x")
    r = again("--host", "7")
    ok(r.returncode != 0 and len(stored_units()) == 4,
       "again: nothing is changed without the pictures",
       r.stdout + r.stderr)
    os.rename(pictures + "x", pictures)
    command = [os.path.join(folder, "bin", "texcell-again"), "--host", "7"]
    for r in run(command, env=ENV), at_terminal(command, "no\n"):
        code, output = (r.returncode, r.stderr) if hasattr(r, "stderr") else r
        ok((code, "give --yes" in output) in ((1, True), (0, False)) and
           ("3 units, such as wrong_0001" in output or code) and len(stored_units()) == 4,
           "again: asks before it removes units that were not given by name", output)
    r = again("--host", "7")
    ok(r.returncode == 3 and "1 are just being stored, such as wrong_0004" in r.stderr and
       stored_units() == ["wrong_0002"] and read(staged) == content,
       "again: units with one result are removed, and their files packed with the same bytes",
       r.stdout + r.stderr)
    requeued = sql(folder, "SELECT id, canonical_resultid, assimilate_state FROM workunit WHERE "
                   "transition_time > 0 ORDER BY id")
    results = sql(folder, "SELECT workunitid, validate_state, granted_credit FROM result ORDER BY "
                  "workunitid, id")
    ok(requeued == [(1, 0, 0), (3, 0, 0)] and results == [(1, 2, 0), (2, 1, 2.5), (2, 1, 2.5),
                                                          (3, 2, 0), (3, 2, 0), (4, 1, 2.5)],
       "again: the units are as if no result had been valid", str(requeued) + str(results))
    ok([sql(folder, "SELECT total_credit FROM %s ORDER BY id" % t)
        for t in ("host", "user", "team")] == [[(5,), (2.5,)], [(5,), (2.5,)], [(5,)]]
       and sql(folder, "SELECT consecutive_valid FROM host_app_version ORDER BY host_id") ==
       [(0,), (12,)], "again: credit and consecutive_valid are taken back")
    sql(folder, "UPDATE workunit SET assimilate_state = 2 WHERE id = 4")
    r = again("--host", "7", "--keep-credit")
    ok(r.returncode == 0 and sql(folder, "SELECT validate_state, granted_credit FROM result WHERE "
                                 "workunitid = 4") == [(2, 2.5)],
       "again: the same command continues; --keep-credit leaves the credit", r.stdout + r.stderr)
    r = again("wrong_0001", "WRONG_0002")
    ok(r.returncode == 2 and "0 units are taken out" in r.stdout and
       "1 are out, and have no result that could be taken out: wrong_0001" in r.stdout
       and "WRONG_0002: neither" in r.stderr,
       "again: reports units that were not removed; names are case-sensitive",
       r.stdout + r.stderr)
    r = run([command[0], "wrong_0002"], env=ENV)
    ok(r.returncode == 1 and "give --yes" in r.stderr and stored_units() == ["wrong_0002"],
       "again: asks before it removes a result that two users agree on", r.stdout + r.stderr)
    code, output = at_terminal([command[0], "wrong_0002"], "no\n")
    ok(code == 0 and "1 units that two users agree on, such as wrong_0002" in output,
       "again: the question mentions that two users agree", output)
    sql(folder, "DELETE FROM workunit WHERE id = 2")
    r = again("wrong_0002")
    ok(r.returncode == 0 and "1 are no longer in BOINC's database" in r.stdout and stored_units() ==
       [],
       "again removes a unit from the data set that BOINC's database no longer has",
       r.stdout + r.stderr)
    r = again("wrong_0001", "nonesuch", "--dry-run")
    ok(r.returncode == 2 and r.stdout == "wrong_0001\n" and "nonesuch: not in" in r.stderr,
       "again: --dry-run reports unknown names", r.stdout + r.stderr)
    r = again("nonesuch")
    ok(r.returncode == 2 and "nonesuch: neither BOINC's database nor the data set has a unit "
       "of this name" in r.stderr, "again: an unknown name is an error", r.stdout + r.stderr)
    sql(folder, "DELETE FROM result WHERE workunitid = 1")
    sql(folder, "INSERT INTO result(workunitid, server_state, outcome, validate_state) VALUES(1, "
        "5, 3, 0), (1, 5, 1, 3)")
    sql(folder, "UPDATE workunit SET error_mask = 2, assimilate_state = 2, transition_time = 0 "
        "WHERE id = 1")
    r = again("wrong_0001")
    ok(r.returncode == 0 and sql(folder, "SELECT error_mask, assimilate_state, transition_time > "
                                 "0, max_error_results FROM workunit WHERE id = 1")
       == [(0, 0, 1, 12 + 1 + 2)] and
       sql(folder, "SELECT outcome FROM result WHERE workunitid = 1 ORDER BY id") == [(3,), (7,)],
       "again: a failed unit is queued again", r.stdout + r.stderr)
    for name in sql(folder, "SELECT name FROM workunit"):
        for path in glob.glob(os.path.join(folder, "download", "*", name[0] + ".zip")):
            os.unlink(path)
    sql(folder, "UPDATE workunit SET canonical_resultid = 0, assimilate_state = 2, error_mask = 16 "
        "WHERE id = 1")
    r = again("wrong_0001")
    ok(r.returncode == 2 and "0 units are taken out" in r.stdout and
       "wrong_0001: was cancelled: submit under another name" in r.stderr,
       "again: a cancelled unit is not queued again, with an error", r.stdout + r.stderr)
    test_put_off(folder, again)
    sql(folder, "UPDATE workunit SET canonical_resultid = 0, assimilate_state = 0, error_mask = 0")
    write(os.path.join(folder, "texcell", "restored"), "%d\n" % time.time())
    sql(folder,
        "INSERT INTO result(workunitid, server_state, name, sent_time) VALUES(1, 4, 'out_0', 5)")
    honest = read(pictures, "2.png")
    shutil.copy(os.path.join(pictures, "0.png"), os.path.join(pictures, "2.png"))
    r = again("--lost")
    ok(r.returncode == 2 and "2 units that are out are packed again" in r.stdout and
       re.search(r"wrong_0003: was packed of .*2\.png.*: put those back", r.stderr)
       and os.path.exists(staged) and os.listdir(os.path.join(folder, "texcell", "lost")) ==
       ["out_0"],
       "again --lost: a changed picture is named, and only its unit is left out",
       r.stdout + r.stderr)
    write(os.path.join(pictures, "2.png"), honest)
    r = again("--lost")
    ok(r.returncode == 0 and r.stdout.endswith("1 units that are out are packed again\n"),
       "again --lost: the same command continues", r.stdout + r.stderr)
    page = os.path.join(folder, "page.html")

    def watch():
        r = run([os.path.join(folder, "bin", "texcell-watch"), "--page", page], env=ENV)
        return r.stdout + r.stderr, read(page).decode()

    sql(folder, "INSERT INTO user(id, name, total_credit) VALUES(77, '<b>me</b> & you', 12345)")
    sql(folder, "INSERT INTO host(userid, rpc_time) VALUES(77, ?)", time.time())
    sql(folder, "INSERT INTO result(workunitid, userid, received_time, validate_state, "
        "granted_credit) VALUES(9, 77, ?, 1, 1234)", time.time())
    missing_page = os.path.join(folder, "nowhere", "page.html")
    r = run([os.path.join(folder, "bin", "texcell-watch"), "--page", missing_page], env=ENV)
    ok(r.returncode == 4 and "daemon down: feeder" in r.stdout and
       r.stdout.endswith("\n%s: No such file or directory\n" % missing_page) and not r.stderr,
       "watch --page: a page that cannot be written is reported, and warnings are printed "
       "nevertheless",
       r.stdout + r.stderr)
    output, text = watch()
    ok("<td>&lt;b&gt;me&lt;/b&gt; &amp; you</td><td class=n>1,234</td>" in text and
       "<td>computers in the last week</td><td class=n>1</td>" in text
       and "<td>credit in all</td><td class=n>12,352</td>" in text and
       "<h2>Newest items</h2>" in text and "<b>me" not in text and "://" not in
       re.sub(r"http://www.w3.org/\S*", "", text),
       "watch --page: units, computers, credit, pictures; names are escaped", output + text[-2000:])
    r = again("wrong_0002", "--host", "7")
    ok(r.returncode == 1 and again("--host", "99").stdout == "no unit is in question\n",
       "again: names and --host exclude each other", r.stderr)


# --- texcell-watch and texcell-backup ----------------------------------------------------------

def test_watch():
    folder = make_project("watched")
    deploy(folder)
    pids = os.path.join(folder, "pid_" + os.uname().nodename.split(".")[0])
    os.mkdir(pids)
    running = []

    def watch(*options):
        return run([os.path.join(folder, "bin", "texcell-watch"), "--free", "0", *options], env=ENV)

    r = watch("--unsent", "0")
    ok(r.returncode == 4 and r.stdout.count("daemon down: ") == 4 and
       "daemon down: feeder" in r.stdout,
       "watch reports daemons that are down", r.stdout + r.stderr)
    for daemon in ElementTree.fromstring(read(folder, "config.xml")).iter("daemon"):
        program = daemon.findtext("cmd").split()[0]
        running.append(subprocess.Popen([program, "300"], executable=shutil.which("sleep")))
        write(os.path.join(pids, daemon.findtext("pid_file") or program + ".pid"),
              "%d\n" % running[-1].pid)
    try:
        r = watch("--unsent", "0")
        ok(r.returncode == 0 and r.stdout == "",
           "watch prints nothing if there is no problem", r.stdout + r.stderr)
        code, output = at_terminal([os.path.join(folder, "bin", "texcell-watch"), "--free", "0",
                                    "--unsent", "0"])
        ok(code == 0 and re.fullmatch(r"all well: 4 daemons run, 0 results wait for a host, 0 came "
                                      r"in the last day, the disk has \d+% left\r\n", output),
           "watch reports at a terminal that there is no problem", output)
        write(os.path.join(pids, "feeder.pid"), "%d\n" % os.getpid())
        r = watch("--unsent", "0")
        ok(r.returncode == 4 and r.stdout == "daemon down: feeder -d 3 (log_%s/feeder.log says "
           "why; then bin/start)\n" % os.uname().nodename.split(".")[0],
           "watch: another program has the daemon's process id", r.stdout)
        write(os.path.join(pids, "feeder.pid"), "%d\n" % running[0].pid)
        r = watch()
        ok(r.returncode == 4 and r.stdout == "work runs out: 0 results wait for a host, fewer than "
           "100 (--unsent 0 switches this warning off)\n", "watch reports that work runs out",
           r.stdout)
        for host, bad, number in ((1, 3, 30), (2, 4, 30), (3, 15, 19)):
            for i in range(number):
                sql(folder, "INSERT INTO result(workunitid, server_state, outcome, validate_state, "
                    "hostid, app_version_id, received_time) VALUES(1, 5, ?, ?, ?, ?, ?)",
                    6 if i < bad else 1, 2 if i < bad else 1, host, 10 + host, time.time() - 3600)
        sql(folder, "INSERT INTO platform VALUES(5, 'windows_x86_64')")
        sql(folder, "INSERT INTO app_version VALUES(12, 1, 101, 5, 'texcell_mt_windows', 0)")
        r = watch("--unsent", "0")
        ok(r.returncode == 4 and r.stdout == "host 2: 4 of 30 results of the last day were not "
           "valid\napp version 1.01 for windows_x86_64 (texcell_mt_windows; its id is 12): 4 of 30 "
           "results of the last day were not valid\n",
           "watch reports a host's invalid results", r.stdout)
        sql(folder, "DELETE FROM result")
        for i in range(60):
            sql(folder, "INSERT INTO result(server_state, outcome, app_version_id, received_time, "
                "exit_status) VALUES(5, 3, ?, ?, ?)",
                12 + i % 2, time.time() - 3600, 202 if i % 2 else 195)
        for mask in (2, 16, 18):
            sql(folder, "INSERT INTO workunit(name, error_mask) VALUES(?, ?)", "mask_%d" % mask,
                mask)
        with contextlib.closing(sqlite3.connect(os.path.join(folder, "texcell",
                                                             "dataset.sqlite"))) as data, data:
            data.executescript("DROP TABLE units; DROP TABLE aliases; DROP TABLE refused; CREATE "
                               "TABLE units(name TEXT); CREATE TABLE aliases(name TEXT);CREATE "
                               "TABLE refused(id INTEGER PRIMARY KEY, kind TEXT, name TEXT, stored "
                               "TEXT);INSERT INTO units VALUES('later'), ('twice'), ('mended'); "
                               "INSERT INTO aliases VALUES('twin')")
            data.executemany("INSERT INTO refused(kind, name, stored) VALUES(?, ?, "
                             "strftime('%Y-%m-%dT%H:%M:%SZ', 'now', ?))",
                             [("missing", "a", "-1 days"), ("missing", "twin", "-1 days"),
                              ("missing", "later", "-1 days"), ("missing", "old", "-8 days"),
                              ("changed", "b", "-1 days"),
                              ("conflict", "twice", "-1 days"), ("conflict", "mended", "-1 days"),
                              ("forgotten", "mended", "-1 days")])
        r = watch("--unsent", "0")
        ok(r.returncode == 4 and r.stdout.splitlines() == [
            "app version 1.01 for windows_x86_64 (texcell_mt_windows; its id is 12): 30 of 30 "
            "results of the last day ended in client errors: their pages in html/ops/ say why; "
            "deprecate a version that fails everywhere in manage_app_versions.php there",
            "given up: 1 units, such as mask_2: remove the cause, then bin/texcell-again mask_2",
            *("not stored (%s): 1 units, such as %s: table refused of the data set says why; "
              "bin/texcell-again %s" % (kind, name, name)
              for kind, name in (("changed", "b"), ("conflict", "twice"), ("missing", "a")))],
           "watch reports client errors, failed units and results not stored, each with its remedy",
           r.stdout + r.stderr)
        os.rename(os.path.join(folder, "texcell", "dataset.sqlite"),
                  os.path.join(folder, "texcell", "aside"))
        r = watch("--unsent", "0")
        ok(r.returncode == 4 and "\nno data set: " in r.stdout, "watch reports a missing data set",
           r.stdout + r.stderr)
        r = deploy(folder, version=None)
        ok(r.returncode == 0 and "dataset.sqlite: is not there, or empty, and nothing is "
           "stored: mount" in r.stdout
           and not os.path.exists(os.path.join(folder, "texcell", "dataset.sqlite")),
           "deploy makes no second data set", r.stdout + r.stderr)
        os.rename(os.path.join(folder, "texcell", "aside"),
                  os.path.join(folder, "texcell", "dataset.sqlite"))
        with contextlib.closing(sqlite3.connect(os.path.join(folder, "texcell",
                                                             "dataset.sqlite"))) as data, data:
            data.execute("DELETE FROM refused")
        sql(folder, "DELETE FROM workunit")
        sql(folder, "DELETE FROM result")
        for i in range(20):
            sql(folder, "INSERT INTO result(workunitid, server_state, outcome, validate_state, "
                "hostid, app_version_id, received_time) VALUES(?, 5, 1, ?, 5, -3, ?)", 100 + i,
                2 if i < 5 else 1, time.time() - 3600)
            sql(folder, "INSERT INTO workunit(id, name, canonical_resultid) VALUES(?, ?, "
                "last_insert_rowid())", 100 + i, "w%d" % i)
        sql(folder, "UPDATE workunit SET canonical_resultid = (SELECT id FROM result WHERE "
            "workunitid = workunit.id) WHERE id >= 105")
        sql(folder, "UPDATE workunit SET canonical_resultid = 0 WHERE id < 105")
        r = watch("--unsent", "0")
        ok(r.stdout == "host 5: 5 of 20 results of the last day were not valid\nhost 5: a result "
           "was not valid, and 15 others nobody has confirmed: bin/texcell-again --host 5\napp "
           "version -3 (the anonymous platform: programs that volunteers built themselves, on "
           "NVIDIA): 5 of 20 results of the last day were not valid\n",
           "watch: other results of a host that sent a wrong one; the anonymous platform",
           r.stdout + r.stderr)
        sql(folder, "UPDATE result SET validate_state = 0, received_time = ? WHERE "
            "workunitid < 103", time.time() - 7300)
        sql(folder, "UPDATE result SET validate_state = 1, received_time = ? WHERE "
            "workunitid >= 103", time.time() - 100000)
        sql(folder, "UPDATE workunit SET need_validate = 1 WHERE id < 103")
        sql(folder, "UPDATE workunit SET assimilate_state = 1 WHERE id = 110")
        r = watch("--unsent", "0")
        ok(r.stdout == "results wait: 3 to be validated, the first for 2.0 hours\nresults wait: 1 "
           "to be stored, the first for 27.8 hours\n"
           and watch("--unsent", "0", "--wait", "48").stdout == "",
           "watch reports results that have waited long",
           r.stdout + r.stderr)
        stamp = [time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time.time() - s))
                 for s in (100000, 100)]
        write(os.path.join(folder, "log_host", "validator.log"),
              "".join("%s.1 [CRITICAL] x\nDatabase error: Deadlock found when trying\n" % s
                      for s in stamp))
        sql(folder, "UPDATE result SET sent_time = ? WHERE workunitid = 104", time.time() + 7200)
        r = watch("--unsent", "0", "--wait", "48")
        ok("\nclock: 1 results were sent or came later than it is now" in r.stdout,
           "watch: a clock that was wrong", r.stdout + r.stderr)
        sql(folder, "UPDATE result SET sent_time = 0")
        r = watch("--unsent", "0", "--wait", "48")
        ok(r.stdout.startswith("deadlocks: log_host/validator.log has 1 of the last day;"),
           "watch reports deadlocks in logs", r.stdout + r.stderr)
        os.unlink(os.path.join(folder, "log_host", "validator.log"))
        r = run([os.path.join(folder, "bin", "texcell-watch"), "--unsent", "0", "--invalid", "1",
                 "--free", "1"], env=ENV)
        ok(r.returncode == 4 and "disk fills: %s has" % folder in r.stdout,
           "watch reports a disk that fills",
           r.stdout)
        write(os.path.join(folder, "stop_daemons"), "")
        ok("the project was stopped" in watch().stdout, "watch reports a stopped project")
        os.rename(os.path.join(folder, "db.sqlite"), os.path.join(folder, "away"))
        os.mkdir(os.path.join(folder, "db.sqlite"))
        r = watch()
        ok(r.returncode == 4 and "database" in r.stdout,
           "watch reports a database that does not answer", r.stdout + r.stderr)
    finally:
        for process in running:
            process.kill()
            process.wait()


DUMP = """#!/usr/bin/python3
import sqlite3, sys
for line in sqlite3.connect(sys.argv[-1]).iterdump():
    print(line)
"""
LOAD = """#!/usr/bin/python3
import sqlite3, sys
assert "--binary-mode" in sys.argv
with sqlite3.connect(sys.argv[-1]) as db:       # like mariadb-dump's, the dump begins with DROP TABLE
    for name, in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        db.execute("DROP TABLE " + name)
    db.executescript(sys.stdin.read())
"""  # noqa: E501


def test_backup(folder):
    """texcell-backup backs up database, keys, data set and submissions while a result is being
    stored, and restores them into another project."""
    tools = os.path.join(TMP, "tools")
    write(os.path.join(tools, "mariadb-dump"), DUMP, 0o755)
    write(os.path.join(tools, "mariadb"), LOAD, 0o755)
    env = dict(ENV, PATH=tools + ":" + os.environ["PATH"])
    write(os.path.join(folder, "keys", "code_sign_private"), "secret", 0o600)
    write(os.path.join(folder, "html", "project", "project.inc"), "<?php")
    write(os.path.join(folder, "download", "unit.zip"), "of a project without folders for them")
    write(os.path.join(folder, "download", "unit.zip.md5"), "")
    handed_out = {n: read(folder, "download", n)
                  for n in os.listdir(os.path.join(folder, "download"))
                  if "unit" not in n and os.path.isfile(os.path.join(folder, "download", n))}
    write(os.path.join(folder, "html", "ops", ".htpasswd"), "me:secret")
    write(os.path.join(folder, "bin", "own_validator"), "#!/bin/sh\n", 0o755)
    config = read(folder, "config.xml").replace(b"user_per_wu>0<", b"user_per_wu>1<")
    config = config.replace(b"</daemons>", b"<daemon><cmd>own_validator --app other &amp; "
                            b"more</cmd><pid_file>own.pid</pid_file></daemon></daemons>")
    write(os.path.join(folder, "config.xml"), config)
    os.chmod(os.path.join(folder, "upload"), 0o2771)
    sql(folder, "DELETE FROM workunit WHERE id < 10")
    for unit, stored, state in ((1, 2, 1), (2, 1, 1), (3, 0, 0), (4, 0, 4)):
        sql(folder, "INSERT INTO workunit(id, name, canonical_resultid, assimilate_state, "
            "need_validate, transition_time) VALUES(?, ?, ?, ?, 1, 7)",
            unit, "lost_%d" % unit, unit * (state == 1), stored)
        sql(folder, "INSERT INTO result(id, workunitid, server_state, outcome, validate_state, "
            "granted_credit) VALUES(?, ?, 5, 1, ?, 1)",
            9000 + unit, unit, state)
    saved = os.path.join(TMP, "saved")
    new = os.path.join(TMP, "restored")
    changed = b"#!/bin/sh\nexec %s/bin/texcell-validate script-init --threads 2 \"$@\"\n"
    write(os.path.join(folder, "bin", "texcell_check"), changed % os.fsencode(new), 0o755)
    with contextlib.closing(sqlite3.connect(os.path.join(folder, "texcell",
                                                         "dataset.sqlite"))) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("INSERT INTO failed VALUES(77, 'in the log alone', 0, 1, 'x', 'now')")
        db.commit()
        db.execute("INSERT INTO failed VALUES(78, 'not committed', 0, 1, 'x', 'now')")
        r = run([os.path.join(folder, "bin", "texcell-backup"), saved], env=env)
    ok(r.returncode == 0 and os.stat(saved).st_mode & 0o777 == 0o700,
       "backup: only its owner can read the folder", r.stderr)
    second_run = run([os.path.join(folder, "bin", "texcell-backup"), saved], env=env)
    ok(second_run.returncode == 1 and "already exists" in second_run.stderr,
       "backup: an existing folder is refused", second_run.stderr)
    os.symlink(os.path.join(folder, "keys"), os.path.join(TMP, "link to keys"))
    os.symlink(TMP, os.path.join(folder, "apps", "all"))
    original = tree(os.path.join(folder, "apps"))
    for inside in (*(os.path.join(folder, name, "bk") for name in ("apps", "keys", "html/project",
                                                                   "html/user", "templates",
                                                                   "download", "upload/1")),
                   os.path.join(TMP, "link to keys", "bk"), saved + "4"):
        r = run([os.path.join(folder, "bin", "texcell-backup"), inside], env=env)
        ok(r.returncode == 1 and
           "which is copied, or which others see: give another folder" in r.stderr and
           not glob.glob(inside + "*")
           and tree(os.path.join(folder, "apps")) == original,
           "backup: never into a folder that it copies or that is public: " + inside[len(TMP):],
           r.stderr)
    os.unlink(os.path.join(folder, "apps", "all"))
    write(os.path.join(saved + "3.part", "mine"), "")
    r = run([os.path.join(folder, "bin", "texcell-backup"), saved + "3"], env=env)
    ok(r.returncode == 1 and "3.part: exists, and is not from texcell-backup" in r.stderr and
       os.listdir(saved + "3.part") == ["mine"],
       "backup: deletes no foreign folder", r.stderr)
    os.rename(os.path.join(saved + "3.part", "mine"), os.path.join(saved + "3.part", "html"))
    r = run([os.path.join(folder, "bin", "texcell-backup"), saved + "3"], env=env)
    ok(r.returncode == 1 and os.listdir(saved + "3.part") == ["html"],
       "backup: deletes no foreign folder that contains html/, as a backup does", r.stderr)
    os.unlink(os.path.join(saved + "3.part", "html"))
    with open(os.path.join(saved + "3.part", "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        r = run([os.path.join(folder, "bin", "texcell-backup"), saved + "3"], env=env)
    ok(r.returncode == 3 and "another texcell-backup is at work on it" in r.stderr,
       "backup: a second one into the same folder at the same time is refused", r.stderr)
    r = run([os.path.join(folder, "bin", "texcell-backup"), saved + "3"], env=env)
    ok(r.returncode == 0 and tree(saved + "3").keys() == tree(saved).keys(),
       "backup: works in the folder of an unfinished one", r.stderr)
    make_project("restored")
    for name in ("texcell-backup", "texcell_project.py", "texcell_units.py", "xml_insert.py"):
        shutil.copy(os.path.join(folder, "bin", name), os.path.join(new, "bin"))
    for table in ("user(id, name)", "host(id, userid)", "workunit(id, name)"):
        sql(new, "INSERT INTO %s VALUES(5, 5)" % table)
        original = tree(new)
        r = run([os.path.join(new, "bin", "texcell-backup"), "--restore", saved], env=env)
        ok(r.returncode == 2 and "(rows: 1 %s), which would be lost" %
           table.split("(")[0] in r.stderr and tree(new) == original
           and not os.path.exists(os.path.join(new, "texcell")),
           "restore: refused if the project has work of its own: " + table, r.stderr)
        sql(new, "DELETE FROM " + table.split("(")[0])
    ok(run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=saved).returncode == 0,
       "backup: its list of files has sha256sum's format")
    original = tree(new)
    for name, content, reason in (
            ("texcell/submissions.sqlite", b"damaged" * 1000,
             "texcell/submissions.sqlite is damaged"),
            ("database.sql.gz", read(saved, "database.sql.gz")[:-9], "database.sql.gz is damaged"),
            ("keys/code_sign_private", None, "keys/code_sign_private is missing"),
            ("texcell/dataset.sqlite", None, "texcell/dataset.sqlite is missing"),
            ("SHA256SUMS", read(saved, "SHA256SUMS")[:200], "SHA256SUMS: is damaged"),
            ("SHA256SUMS", None,
             "is not a complete backup of texcell-backup: it has no file SHA256SUMS")):
        whole = read(saved, name)
        os.unlink(os.path.join(saved, name))
        if content is not None:
            write(os.path.join(saved, name), content)
        r = run([os.path.join(new, "bin", "texcell-backup"), "--restore", saved], env=env)
        ok(r.returncode == 2 and reason in r.stderr and "Traceback" not in r.stderr and
           tree(new) == original,
           "restore: changes nothing if a file of the backup is damaged: " + reason, r.stderr)
        write(os.path.join(saved, name), whole)
    for name, put, reason in (
            ("keys/more", lambda path: write(path, "x"), "keys/more is not in SHA256SUMS"),
            ("html/project/evil.php", lambda path: os.symlink("/etc/passwd", path),
             "html/project/evil.php is not in SHA256SUMS"),
            ("apps/more", lambda path: os.symlink(TMP, path), "apps/more is not in SHA256SUMS"),
            ("config.xml", lambda path: os.symlink(os.path.join(folder, "config.xml"), path),
             "config.xml is a link")):
        path = os.path.join(saved, name)
        aside = [os.rename(path, path + ".aside")] if os.path.exists(path) else []
        os.makedirs(os.path.dirname(path), exist_ok=True)
        put(path)
        r = run([os.path.join(new, "bin", "texcell-backup"), "--restore", saved], env=env)
        ok(r.returncode == 2 and reason in r.stderr and tree(new) == original,
           "restore: changes nothing if " + reason, r.stderr)
        os.unlink(path)
        if aside:
            os.rename(path + ".aside", path)
    os.rename(os.path.join(new, "config.xml"), os.path.join(new, "linked.xml"))
    os.symlink("linked.xml", os.path.join(new, "config.xml"))
    r = run([os.path.join(new, "bin", "texcell-backup"), "--restore", saved], env=env)
    ok(r.returncode == 0 and sql(new, "SELECT id, name FROM workunit") ==
       sql(folder, "SELECT id, name FROM workunit")
       and read(new, "keys", "code_sign_private") == b"secret" and
       str(os.path.join(new, "db.sqlite")) in read(new, "config.xml").decode(),
       "restore: database and keys are restored; the new machine's config.xml stays", r.stdout +
       r.stderr)
    ok(os.readlink(os.path.join(new, "config.xml")) == "linked.xml",
       "restore: a link to config.xml stays a link")
    lost = sql(new, "SELECT outcome, validate_state, granted_credit FROM result WHERE id > 9000 "
               "ORDER BY id")
    units = sql(new, "SELECT canonical_resultid, assimilate_state, need_validate, transition_time "
                "> 7 FROM workunit WHERE id < 10 ORDER BY id")
    ok(lost == [(1, 1, 1), (7, 1, 1), (7, 3, 1), (7, 3, 1)] and units == [(1, 2, 1, 0)] +
       [(0, 0, 0, 1)] * 3,
       "restore: lost results are not a host's error, and their units are sent again",
       str(lost) + str(units))
    commands = [e.text for e in ElementTree.fromstring(read(new, "config.xml")).iter("cmd")]
    ok(commands.count("own_validator --app other & more") == 1 and commands.count("feeder -d 3 ") ==
       1 and os.access(os.path.join(new, "bin", "own_validator"), os.X_OK)
       and read(new, "html", "ops", ".htpasswd") == b"me:secret" and
       os.stat(os.path.join(new, "upload")).st_mode & 0o7777 == 0o2771
       and abs(int(read(new, "texcell", "restored")) - time.time()) < 100,
       "restore: restores the daemons of all apps with their programs, the admins' passwords, and "
       "the mode of upload/",
       commands)
    ok(b"<one_result_per_user_per_wu>1<" in config and read(new, "config.xml").count(
        b"<one_result_per_user_per_wu>1</one_result_per_user_per_wu>") == 1,
       "restore: one_result_per_user_per_wu is that of the backed-up project")
    ok(handed_out and {n: read(new, "download", n)
                       for n in os.listdir(os.path.join(new, "download"))} == handed_out
       and os.path.exists(os.path.join(new, "html", "project", "project.inc")),
       "restore: restores the app version's files in download/, and the project's page",
       handed_out.keys())
    ok(read(new, "bin", "texcell_check") == changed % os.fsencode(new)
       and not os.path.exists(os.path.join(new, "bin", "texcell_compare"))
       and "compare with %s: config.xml, bin/texcell_compare, bin/texcell_assimilate;" %
       saved in r.stdout,
       "restore: restores a script that the admin changed; a note lists files to compare", r.stdout)
    with contextlib.closing(sqlite3.connect(os.path.join(new, "texcell", "dataset.sqlite"))) as db:
        failed = [row[0]
                  for row in db.execute("SELECT name FROM failed WHERE wu_id >= 77 ORDER BY wu_id")]
        units = db.execute("SELECT name FROM units").fetchall()
    ok(failed == ["in the log alone"] and units == [("many_0299",)],
       "restore: the data set has the rows that only its write-ahead log had", failed)
    r = submit(new, "--status", "many") if deploy(new, version=None).returncode == 0 else None
    ok(read(new, "bin", "texcell_check") == changed % os.fsencode(new),
       "restore: deploy keeps the changed script")
    ok(r is not None and "300 units" in r.stdout,
       "restore: deploy works, and submit finds the submissions", r and r.stdout + r.stderr)
    # A result that was in progress at the time of the backup is reported now; its file was uploaded
    # to the old server.
    name = "lost_4_0_r5_0"
    upload = os.path.join(new, "upload", "%x" %
                          (int(hashlib.md5(name.encode()).hexdigest()[1:8], 16) % 1024), name)
    words = [os.path.join(BUILD, "texcell-validate"), "script-init", "--wait", "60", "--workunits",
             os.path.join(new, "download"),
             "--accepted", os.path.join(new, "texcell", "accepted"), upload]
    blamed = run(words)
    sql(new, "UPDATE workunit SET assimilate_state = 2, canonical_resultid = 0")
    sql(new, "UPDATE result SET name = 'other_' || id")
    sql(new, "INSERT INTO result(id, workunitid, name, server_state, xml_doc_in) VALUES(9100, 4, "
        "'lost_4_0', 4, '<file_name>%s</file_name>')" % name)
    lost = [os.path.join(new, "bin", "texcell-again"), "--lost"]
    output, later, start = [run(lost, env=ENV)], run(words), time.monotonic()
    ok(blamed.returncode == 2 and later.returncode == 3 and "the server lost this upload; "
       "run bin/texcell-again --lost" in later.stderr and time.monotonic() - start < 5,
       "again --lost: with script_validator, too, a lost upload is no error of the host, and is "
       "not waited for", "%s %s %s" % (blamed, later, output))
    sql(new, "UPDATE result SET server_state = 5, outcome = 1, validate_state = 4 WHERE id = 9100")
    sql(new, "UPDATE workunit SET transition_time = 7 WHERE id = 4")
    output += [run(lost, env=ENV), run(lost, env=ENV)]
    ok(sql(new, "SELECT outcome, validate_state FROM result WHERE id = 9100") == [(7, 3)] and
       "1 results were reported" in output[1].stdout and
       sql(new, "SELECT transition_time > 7 FROM workunit WHERE id = 4") == [(1,)] and
       "reported" not in output[2].stdout and output[2].returncode == 0,
       "again --lost: a lost upload that is reported later is no error of the host", output)
    write(upload, "there")
    ok(run(words).returncode != 0 and "the server lost" not in run(words).stderr,
       "again --lost: an upload that exists is validated")
    r = run([os.path.join(new, "bin", "texcell-backup"), "--restore", saved], env=env)
    ok(r.returncode == 2 and "has a data set or submissions already" in r.stderr,
       "restore: refused if a data set exists", r.stderr)
    write(os.path.join(new, "texcell", "restoring"), "")
    r = run([os.path.join(new, "bin", "texcell-backup"), "--restore", saved], env=env)
    ok(r.returncode == 2 and "has a data set" in r.stderr,
       "restore: refused if an earlier restore did all but its last step", r.stderr)
    os.unlink(os.path.join(new, "texcell", "submissions.sqlite"))
    r = run([os.path.join(new, "bin", "texcell-backup"), "--restore", saved], env=env)
    ok(r.returncode == 0 and not os.path.exists(os.path.join(new, "texcell", "restoring")) and
       "300 units" in submit(new, "--status", "many").stdout,
       "restore: after a kill between two files the same command continues", r.stdout + r.stderr)
    write(os.path.join(tools, "mariadb-dump"), "#!/bin/sh\nexit 2\n", 0o755)
    r = run([os.path.join(folder, "bin", "texcell-backup"), saved + "2"], env=env)
    ok(r.returncode == 3 and not glob.glob(saved + "2*"),
       "backup: fails and leaves no folder if the database cannot be dumped", r.stderr)


def main():
    if not needed_libraries() and b"API_VERSION_" not in read(TEXCELL):
        skip("texcell-deploy", "this texcell is built without BOINC")
        done()
    folder = test_install()
    test_submit(folder)
    test_many(folder)
    test_kill_pack(folder)
    test_alone(folder)
    test_quorum(folder)
    test_what_fails(folder)
    test_full_disk()
    test_sizes(folder)
    test_status(folder)
    test_backup(folder)
    test_server_settings()
    test_watch()
    test_again()
    test_suggested()
    test_new_versions(folder)
    test_platforms()
    test_settings()
    test_options_of_scripts()
    test_update_versions_refuses()
    test_failed_versions()
    test_what_is_there()
    test_refusals()
    test_scripts()
    test_verify()
    test_validator()
    done()


main()
