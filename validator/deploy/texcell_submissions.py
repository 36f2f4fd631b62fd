"""The database of all submissions to a BOINC project, and staging of their work units' files."""
import hashlib
import json
import os
import sqlite3

from texcell_project import Problem, USAGE, naming_file, read_file, write_file
from texcell_units import digest_of


def settle_quorum(options, stored):
    """Sets options.quorum and options.targets. The quorum of a submission never changes. stored:
    the quorum of its first call, or None in the first call."""
    if stored is not None and options.quorum not in (None, stored):
        raise Problem("%s: was submitted with --quorum %d, and all its units have that: leave "
                      "--quorum out, or give another --name"
                      % (options.name, stored))
    options.quorum = stored or options.quorum or 2
    options.targets = options.targets or options.quorum
    if options.targets < options.quorum:
        raise Problem("--targets: must not be less than --quorum, which is %d" % options.quorum,
                      USAGE)


class Submissions:
    """The SQLite database of all units that were ever submitted, with their digests and states.
    Every change is on the disk when the method that makes it returns."""
    STATES = ("packed", "creating", "created", "cancelled")

    @staticmethod
    def path_in(project):
        return project.path("texcell", "submissions.sqlite")

    def __init__(self, project):
        self.path = self.path_in(project)
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        with naming_file(self.path):
            self.open()

    def open(self):
        self.db = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        self.db.execute("PRAGMA synchronous=FULL")
        self.db.execute("CREATE TABLE IF NOT EXISTS submissions(name TEXT PRIMARY KEY, request "
                        "TEXT NOT NULL, begun TEXT NOT NULL)")
        self.db.execute("CREATE TABLE IF NOT EXISTS units(name TEXT PRIMARY KEY, submission TEXT "
                        "NOT NULL, number INTEGER NOT NULL, sha256 TEXT NOT NULL, state "
                        "TEXT NOT NULL)")
        self.db.execute("CREATE INDEX IF NOT EXISTS units_by_content ON units(sha256)")
        self.db.execute("CREATE INDEX IF NOT EXISTS units_by_submission ON "
                        "units(submission, number)")

    def request(self, name):
        """The request that was submitted under this name, a dictionary; None if there is none."""
        row = self.db.execute("SELECT request FROM submissions WHERE name = ?", (name,)).fetchone()
        return row and json.loads(row[0])

    def refuse_case(self, name):
        """Refuses a name that differs from another submission's only in upper and lower case:
        BOINC's database treats such names as equal."""
        row = self.db.execute("SELECT name FROM submissions WHERE name = ?1 COLLATE NOCASE "
                              "AND name != ?1", (name,)).fetchone()
        if row:
            raise Problem("%s: BOINC takes it for the same name as %s: give another --name" %
                          (name, row[0]))

    def of_unit(self, unit):
        """The submission and the digest of a unit."""
        row = self.db.execute("SELECT submission, sha256 FROM units WHERE name = ?",
                              (unit,)).fetchone()
        if row is None:
            raise Problem("%s: was not submitted by texcell-submit, and its file is deleted" % unit)
        return row

    def age(self, name):
        """Seconds since the submission began."""
        row = self.db.execute("SELECT strftime('%s', 'now') - strftime('%s', begun) FROM "
                              "submissions WHERE name = ?", (name,))
        return max(1, int(row.fetchone()[0]))

    def add(self, name, request, units):
        """Adds a submission. request: a dictionary, as request() returns it; units: [(name,
        digest)]."""
        self.db.execute("BEGIN IMMEDIATE")
        self.db.execute("INSERT INTO submissions VALUES(?, ?, datetime('now'))",
                        (name, json.dumps(request)))
        try:
            self.db.executemany("INSERT INTO units VALUES(?, ?, ?, ?, 'packed')",
                                [(unit, name, i, digest) for i, (unit, digest) in enumerate(units)])
        except sqlite3.IntegrityError:
            self.db.execute("ROLLBACK")
            raise Problem("%s: another submission has a work unit of this name already: give "
                          "another --name" % name)
        self.db.execute("COMMIT")

    def units(self, name, *states):
        """[(unit, digest, state)] of a submission in the order of packing; states: only units in
        these states."""
        marks = ",".join("?" * len(states or self.STATES))
        return self.db.execute("SELECT name, sha256, state FROM units WHERE submission = ? AND "
                               "state IN (%s) ORDER BY number" % marks,
                               (name,) + (states or self.STATES)).fetchall()

    def note(self, state, units):
        """Records a new state of units."""
        self.db.execute("BEGIN IMMEDIATE")
        self.db.executemany("UPDATE units SET state = ? WHERE name = ?",
                            [(state, unit) for unit in units])
        self.db.execute("COMMIT")

    def twins(self, name):
        """(number of the submission's units that have the same content as an earlier unit, name of
        one such earlier unit)."""
        return self.db.execute("SELECT count(*), min(other.name) FROM units AS own JOIN units AS "
                               "other USING(sha256) WHERE own.submission = ?1 AND other.rowid < "
                               "own.rowid AND other.state != 'cancelled'",
                               (name,)).fetchone()


def stage(project, unit, digest):
    """Puts a work unit into the download folder, with the file of size and MD5 that create_work
    reads, as BOINC's stage_file does. It is a hard link if possible, since the packed file is
    deleted when the unit is created."""
    name = os.path.basename(unit)
    target = project.staged(name)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if not os.path.exists(target):
        os.chmod(unit, 0o644)
        try:
            os.link(unit, target)
        except OSError:
            write_file(target, read_file(unit))
    elif digest_of(target) != digest:
        raise Problem("%s: there is another file of this name already" % target)
    write_file(target + ".md5", b"%s %.15e\n" % (digest_of(target, hashlib.md5).encode(),
                                                 os.path.getsize(target)), sync=False)


def record_digest(project, name, digest):
    """Records the SHA-256 of a staged unit as texcell-validate does (validator/check/upload.c), so
    that texcell_check need not compute it. The record is valid only for this version of the file,
    which it identifies by device, inode, size and times."""
    info = os.stat(project.staged(name + ".zip"))
    times = (divmod(ns, 10 ** 9) for ns in (info.st_mtime_ns, info.st_ctime_ns))
    version = "%x:%x:%x:" % (info.st_dev, info.st_ino, info.st_size) + ":".join(
        "%x.%x" % time for time in times)
    folder = project.path("texcell", "accepted")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "a") as f:
        f.write("%s %d %s\n" % (digest, info.st_size, version))
