"""The folder and the database of a BOINC project, and helpers that the server's tools share. No
shell is ever used to run a program: names are passed as arguments."""
import argparse
import contextlib
import ctypes
import fcntl
import hashlib
import os
import pwd
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

# Allowed names of work units and of submissions. script_validator puts the names on a shell's
# command line, so characters with a meaning to a shell or in a path are not allowed.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")

HERE = os.path.dirname(os.path.realpath(__file__))
USAGE, BAD_INPUT, TRY_LATER = 1, 2, 3   # exit codes, the same in all programs of texcell
ACL = "system.posix_acl_access"         # the file attribute with the rights given by setfacl


class Problem(Exception):
    """An error: one line for the user, and the exit code."""

    def __init__(self, text, code=BAD_INPUT):
        super().__init__(text)
        self.code = code


class Parser(argparse.ArgumentParser):
    """Reports a bad command line as a Problem."""

    def error(self, message):
        raise Problem("%s; see %s --help" % (message, self.prog), USAGE)


def plain(text):
    """The text on one line, without characters that control a terminal."""
    return "".join(c if c.isprintable() else "?" for c in str(text))


def report(program, error):
    """Prints a Problem as texcell's programs print errors; returns the exit code."""
    print("%s: error: %s" % (program, plain(error)), file=sys.stderr)
    return error.code


FAULTS = (Problem, OSError, sqlite3.Error)


def as_problem(fault):
    """Returns an exception of one of the types FAULTS as a Problem."""
    if isinstance(fault, Problem):
        return fault
    if isinstance(fault, shutil.Error):         # has the errors of many files: report the first
        return Problem(fault.args[0][0][2], TRY_LATER)
    if isinstance(fault, OSError):
        return Problem(": ".join(str(part) for part in (fault.filename2 or fault.filename,
                                                        fault.strerror or fault) if part),
                       TRY_LATER)
    return Problem("SQLite's files in texcell/: %s" % fault, TRY_LATER)


def guarded(program, main):
    """Runs main and returns its exit code; a fault is printed as one line."""
    try:
        return main()
    except FAULTS as fault:
        return report(program, as_problem(fault))
    except KeyboardInterrupt:
        return report(program, Problem("interrupted; the same command continues", TRY_LATER))


def ask_user(question, yes):
    """Asks the user at the terminal, and returns whether the answer is yes. yes: --yes was given,
    so nothing is asked."""
    if not yes and not sys.stdin.isatty():
        raise Problem("%s There is no terminal to ask at: give --yes, or --dry-run to see what "
                      "would be done" % question, USAGE)
    try:
        return yes or input(question + " [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def end_with_parent():
    """Called in a child process before it executes a program: makes Linux kill the child when its
    parent ends."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)      # PR_SET_PDEATHSIG


def run(argv, folder=None, stdin=subprocess.DEVNULL, ends_with_us=False):
    """Runs a program whose standard input is empty or the open file `stdin`. Returns (exit code,
    text of standard output and standard error). ends_with_us: the program ends when this one
    ends."""
    try:
        process = subprocess.run(argv, cwd=folder, stdin=stdin, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT,
                                 preexec_fn=end_with_parent if ends_with_us else None)
    except OSError as error:
        raise Problem("%s: cannot be run: %s" % (argv[0], error.strerror))
    return process.returncode, process.stdout.decode(errors="replace")


def write_file(path, data, mode=0o644, sync=True):
    """Writes a file completely or not at all: temporary file, fsync (unless sync is False), rename.
    If `path` is a symbolic link, the file that it points to is replaced."""
    temporary, path = None, os.path.realpath(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".texcell-")
        with os.fdopen(handle, "wb") as f:
            f.write(data)
            f.flush()
            if sync:
                os.fsync(f.fileno())
        if os.path.exists(path):
            with contextlib.suppress(PermissionError):
                # keep the group, whose members may read the file
                os.chown(temporary, -1, os.stat(path).st_gid)
            # most files have no ACL, and only Linux has this call
            with contextlib.suppress(OSError, AttributeError):
                os.setxattr(temporary, ACL, os.getxattr(path, ACL))
        os.chmod(temporary, mode)
        os.rename(temporary, path)
    except BaseException as error:
        if temporary:
            os.unlink(temporary)
        if isinstance(error, OSError):
            error.filename = path       # the error of a full disk names no file
        raise


def read_file(path):
    with open(path, "rb") as f:
        return f.read()


@contextlib.contextmanager
def naming_file(path):
    """A context that adds the file's name to errors of SQLite, which lack it."""
    try:
        yield
    except sqlite3.Error as error:
        damaged = ("; docs/admin.md says how a backup is restored" if "malformed" in str(error) or
                   "not a database" in str(error) else "")
        raise Problem("%s: %s%s" % (path, error, damaged), TRY_LATER)


# One argument in a line of a shell script.
WORD = r"""(?:'[^']*'|"[^"]*"|[^\s'"])+"""


def option_in(text, name):
    """The value of an option in a script that texcell-deploy wrote, quoted as in the script; None
    if the script does not have the option. Comments are skipped."""
    values = [m.group(1) for line in text.splitlines() if not line.lstrip().startswith("#")
              for m in re.finditer(r"\s--%s(?:=|\s+)(%s)" % (name, WORD), line)]
    return values[-1] if values else None


def locked(folder, program="texcell-submit"):
    """Locks a folder, so that one program at a time works on it. Returns the open file that holds
    the lock."""
    file = open(os.path.join(folder, "lock"), "w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise Problem("%s: another %s is at work on it: try again when that has ended" %
                      (folder, program), TRY_LATER)
    return file


class Database:
    """The project's database, accessed with MySQLdb, as by BOINC's own tools."""

    def __init__(self, project):
        config = project.config
        try:
            import MySQLdb
        except ImportError:
            raise Problem("there is no Python module MySQLdb (Debian: python3-mysqldb), which "
                          "BOINC's tools need, too",
                          TRY_LATER)
        self.error = MySQLdb.Error
        try:
            self.connection = MySQLdb.connect(host=config.get("db_host") or "localhost",
                                              user=config.get("db_user", ""),
                                              passwd=config.get("db_passwd", ""),
                                              db=config.get("db_name", ""))
            self.connection.autocommit(True)
        except MySQLdb.Error as error:
            raise Problem("database %s: %s" % (config.get("db_name", ""), error), TRY_LATER)

    def rows(self, sql, values=()):
        """Executes a statement; returns its rows. values: the values that replace each %s."""
        cursor = self.connection.cursor()
        try:
            cursor.execute(sql, values)
            return list(cursor.fetchall()) if cursor.description else []
        except self.error as error:
            raise Problem("database: %s" % (error,), TRY_LATER)
        finally:
            cursor.close()

    def rows_among(self, sql, values, keys):
        """Executes a statement that contains `IN {}` after its other values, for 500 of the keys at
        a time; returns all rows. values: the values that replace each %s before `IN {}`."""
        rows = []
        for i in range(0, len(keys), 500):
            part = tuple(keys[i:i + 500])
            rows += self.rows(sql.format("(%s)" % ",".join(["%s"] * len(part))), values + part)
        return rows

    @contextlib.contextmanager
    def transaction(self):
        """A context in which all statements take effect, or none."""
        self.rows("START TRANSACTION")
        try:
            yield
            self.rows("COMMIT")
        except BaseException:
            with contextlib.suppress(Problem):
                self.rows("ROLLBACK")
            raise


# Condition for units whose results were not decided although enough of them came before the given
# time, and no further result is expected: their check was put off ("try again later"). BOINC then
# calls the results inconclusive, and validates them only when another result comes. Values:
# validate_state 4: inconclusive; server_state 5: over.
STALLED = ("SELECT w.name FROM workunit w JOIN result r ON r.workunitid = w.id WHERE "
           "w.canonical_resultid = 0 AND w.error_mask = 0 AND w.need_validate = 0 GROUP BY w.id, "
           "w.name, w.min_quorum HAVING sum(r.outcome = 1 AND r.validate_state = 4) >= "
           "w.min_quorum AND sum(r.server_state < 5) = 0 AND sum(r.outcome = 1 AND "
           "r.validate_state = 0) = 0 AND max(r.received_time) < %s ORDER BY w.name")


def not_in_data_set(project, database):
    """The names of the units that texcell_assimilate assimilated, but that the data set neither
    contains nor has refused."""
    path = project.path("texcell", "dataset.sqlite")
    apps = [option_in(" " + command, "app") for command in project.daemons
            if option_in(" " + command, "script") == "texcell_assimilate"]
    names = [name for app in apps if app for name, in database.rows(
        "SELECT w.name FROM workunit w JOIN app a ON a.id = w.appid WHERE a.name = %s AND "
        "w.assimilate_state = 2 AND w.error_mask = 0 AND w.canonical_resultid != 0", (app,))]
    if not names:
        return []
    if not (os.path.exists(path) and os.path.getsize(path)):
        raise Problem("no data set: %s is not there, or empty: mount its disk, or restore a backup"
                      % path)
    with naming_file(path), contextlib.closing(sqlite3.connect(path, timeout=60)) as db:
        tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master")}
        known = {row[0] for table, which in (("units", "1"), ("aliases", "1"),
                                             ("refused", "kind != 'forgotten'"))
                 if table in tables
                 for row in db.execute("SELECT name FROM %s WHERE %s" % (table, which))}
    return sorted(set(names) - known)


class Project:
    """A project's folder, as BOINC's make_project lays it out."""

    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        if not os.path.isdir(self.folder):
            raise Problem("%s: no such folder" % folder)
        for name in ("config.xml", "bin", "apps", "templates"):
            if not os.path.exists(self.path(name)):
                hint = ": give --project" if os.path.realpath(folder) == os.path.dirname(
                    HERE) else ""
                hint += (" (or --url)" if hint and os.path.basename(sys.argv[0]) == "texcell-submit"
                         else "")
                raise Problem("%s: is not the folder of a BOINC project: it has no %s%s" %
                              (folder, name, hint))
        try:
            root = ElementTree.parse(self.path("config.xml")).getroot()
        except ElementTree.ParseError as error:
            raise Problem("%s: %s" % (self.path("config.xml"), error))
        config = root.find("config") if root.tag == "boinc" else None
        if config is None:
            raise Problem("%s: has no <config> within <boinc>" % self.path("config.xml"))
        self.config = {e.tag: (e.text or "").strip() for e in config}
        self._daemons = root.findall("daemons/daemon")
        self.daemons = [(e.findtext("cmd") or "").strip() for e in self._daemons]

    def daemons_with_pids(self):
        """[(command, its pid file or "")] of the daemons that are not disabled."""
        return [(c, (e.findtext("pid_file") or "").strip())
                for c, e in zip(self.daemons, self._daemons)
                if c and (e.findtext("disabled") or "0").strip() == "0"]

    def check_owner(self):
        owner = os.stat(self.folder).st_uid
        if owner != os.geteuid():
            with contextlib.suppress(KeyError):
                owner = pwd.getpwuid(owner).pw_name
            raise Problem("%s: belongs to user %s: run this as that user, or the daemons cannot "
                          "use what it makes" % (self.folder, owner))

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def tool(self, *names):
        """Path of the first of these programs in bin/ that exists."""
        for name in names:
            path = self.path("bin", name)
            if os.access(path, os.X_OK):
                return path
        hint = ("texcell-deploy puts it there" if names[0].startswith("texcell")
                else "build all of BOINC's server, then give its tools/upgrade")
        raise Problem("%s: has no program %s: %s" % (self.path("bin"), " or ".join(names), hint))

    def download_folder(self):
        return os.path.abspath(self.path(self.config.get("download_dir") or "download"))

    def upload_folder(self):
        return os.path.abspath(self.path(self.config.get("upload_dir") or "upload"))

    def fanout(self):
        """Number of folders over which BOINC spreads downloads and uploads; 0: none."""
        fanout = self.config.get("uldl_dir_fanout") or "0"
        if not fanout.isdigit():
            raise Problem("%s: uldl_dir_fanout: is not a number" % self.path("config.xml"))
        return int(fanout)

    def staged(self, name):
        """Path of an input file in the download folder."""
        return self.spread(self.download_folder(), name)

    def spread(self, folder, name):
        """Path of the file `name` in a folder with fan-out: a hash of the name decides the
        subfolder."""
        fanout = self.fanout()
        if fanout == 0:
            return os.path.join(folder, name)
        digest = hashlib.md5(name.encode()).hexdigest()
        return os.path.join(folder, "%x" % (int(digest[1:8], 16) % fanout), name)
