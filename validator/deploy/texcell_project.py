"""The folder of a BOINC project, as texcell-deploy, texcell-submit and the
validator's scripts see it. No shell is ever used: names are arguments."""
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

# The names of work units and of submissions: script_validator puts them on a
# shell's command line, so nothing that a shell or a path would take apart.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
# BOINC names an output file WORKUNIT_N_rRANDOM_NUMBER.
OUTPUT = re.compile(r"(?P<unit>[A-Za-z0-9][A-Za-z0-9_.-]*)_\d+_r\d+_\d+\Z")

USAGE, BAD_INPUT, TRY_LATER, INTERNAL = 1, 2, 3, 70   # exit codes, those of all of texcell


class Problem(Exception):
    """One line for the person at the keyboard, and the exit code."""

    def __init__(self, text, code=BAD_INPUT):
        super().__init__(text)
        self.code = code


def report(program, error):
    """Prints a Problem as all of texcell's programs do; returns the exit code."""
    text = "".join(c if c.isprintable() else "?" for c in str(error))
    print("%s: error: %s" % (program, text), file=sys.stderr)
    return error.code


def guarded(program, main):
    """Runs main; every fault ends in one line and an exit code."""
    try:
        return main()
    except Problem as problem:
        return report(program, problem)
    except OSError as error:
        return report(program, Problem("%s: %s" % (error.filename, error.strerror), TRY_LATER))
    except KeyboardInterrupt:
        return report(program, Problem("interrupted; the same command goes on", TRY_LATER))


def run(argv, folder=None, **options):
    """Runs a program with nothing to read; text of both streams together."""
    try:
        done = subprocess.run(argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, **options)
    except OSError as error:
        raise Problem("%s: cannot be run: %s" % (argv[0], error.strerror))
    return done.returncode, done.stdout.decode(errors="replace")


def answer_of(argv):
    """The exit code of one of our programs, whose words go to the daemon's log. One
    that crashes has not said yes."""
    sys.stdout.flush()
    try:
        code = subprocess.run(argv, stdin=subprocess.DEVNULL).returncode
    except OSError as error:
        raise Problem("%s: cannot be run: %s" % (argv[0], error.strerror), TRY_LATER)
    return code if code >= 0 else INTERNAL


def write_file(path, data, mode=0o644):
    """Complete under its name or not there: temporary file, fsync, rename."""
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".texcell-")
    try:
        with os.fdopen(handle, "wb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        os.chmod(temporary, mode)
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def read_file(path):
    with open(path, "rb") as f:
        return f.read()


class Project:
    """A project's folder, as BOINC's make_project lays it out."""

    # What the kit keeps in PROJECT/texcell/settings.json, with its defaults.
    SETTINGS = {"database": "texcell/dataset.sqlite", "verify_fraction": 0.0}

    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        if not os.path.isdir(self.folder):
            raise Problem("%s: no such folder" % folder)
        for name in ("config.xml", "bin", "apps", "templates"):
            if not os.path.exists(self.path(name)):
                raise Problem("%s: is not the folder of a BOINC project: it has no %s" % (folder, name))
        try:
            root = ElementTree.parse(self.path("config.xml")).getroot()
        except ElementTree.ParseError as error:
            raise Problem("%s: %s" % (self.path("config.xml"), error))
        config = root.find("config") if root.tag == "boinc" else None
        if config is None:
            raise Problem("%s: has no <config> within <boinc>" % self.path("config.xml"))
        self.config = {e.tag: (e.text or "").strip() for e in config}
        self.daemons = [(e.findtext("cmd") or "").strip() for e in root.findall("daemons/daemon")]

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def tool(self, *names):
        """The first of BOINC's or our programs in bin/ that is there."""
        for name in names:
            path = self.path("bin", name)
            if os.access(path, os.X_OK):
                return path
        raise Problem("%s: has no program %s" % (self.path("bin"), " or ".join(names)))

    def settings(self):
        path = self.path("texcell", "settings.json")
        values = dict(self.SETTINGS)
        if os.path.exists(path):
            try:
                values.update(json.loads(read_file(path).decode()))
            except (ValueError, TypeError) as error:
                raise Problem("%s: %s" % (path, error))
        fraction = values["verify_fraction"]
        if isinstance(fraction, bool) or not isinstance(fraction, (int, float)) or not 0 <= fraction <= 1:
            raise Problem("%s: verify_fraction: is not a number from 0 to 1" % path)
        if not isinstance(values["database"], str) or values["database"] == "":
            raise Problem("%s: database: is not the name of a file" % path)
        return values

    def downloads(self, name):
        """Where a staged input file lies: BOINC spreads them over
        uldl_dir_fanout folders by the MD5 of the name."""
        folder = self.config.get("download_dir") or self.path("download")
        fanout = self.config.get("uldl_dir_fanout") or "0"
        if not fanout.isdigit():
            raise Problem("%s: uldl_dir_fanout: is not a number" % self.path("config.xml"))
        if int(fanout) == 0:
            return os.path.join(folder, name)
        digest = hashlib.md5(name.encode()).hexdigest()
        return os.path.join(folder, "%x" % (int(digest[1:8], 16) % int(fanout)), name)

    def work_unit_of(self, result):
        """The work unit's file for a result's, found by its name."""
        match = OUTPUT.match(os.path.basename(result))
        if match is None:
            raise Problem("%s: is not named like an output file, WORKUNIT_N_rNUMBER_0" % result)
        return self.downloads(match.group("unit") + ".zip")
