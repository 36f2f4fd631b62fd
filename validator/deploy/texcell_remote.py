"""texcell-submit --url: submits from any computer by BOINC's remote job submission, to which the
project's admin must have admitted the user's account. BOINC's lib/boinc_submit.py talks to the
server. The folder of the results has the state of a submission, so that the same command continues
after an interruption at any moment."""
import contextlib
import http.client
import io
import json
import os
import shutil
import signal
import struct
import sys
import tempfile
import time
import types
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ElementTree
import zipfile

from texcell_project import (NAME, Problem, TRY_LATER, USAGE, ask_user, locked, plain, read_file,
                             write_file)
from texcell_submissions import settle_quorum
from texcell_units import (MORE_RESULTS, changed_pictures, checked_numbers, digest_of,
                           note_pictures, pack_all, dry_run_total, unit_of)

HERE = os.path.dirname(os.path.realpath(__file__))
# Where templates and programs are, relative to this file: in a project, in the sources, and as
# installed by make install.
TEMPLATES = ("../templates", "../../workunits/templates")
PROGRAMS = (".", "../../build", "../../../../bin")
# Limits of an upload: PHP accepts 20 files and 8 MB, unless php.ini allows more.
MAX_FILES, MAX_BYTES = 20, 7 << 20
# Largest sizes in bytes: of an answer that describes a submission, of a result file, and of the
# decompressed members of a result.
MAX_ANSWER, MAX_RESULT, MAX_INFLATED = 64 << 20, 4 << 30, 64 << 30
# The most members of a result, and bytes of its list of members, each of which has a header and a
# name there (workunits/FORMAT.md).
MAX_MEMBERS = 1 << 20
MAX_LIST = MAX_MEMBERS * (46 + 512)
# Limits in seconds: for a server that sends no byte, for a whole call including its uploads, and
# for downloading PART bytes of a result.
MAX_SILENCE, MAX_CALL, MAX_PART, PART = 300, 3600, 300, 1 << 20
# Seconds after which the server may delete the files of units, whatever their state.
KEEP_SECONDS = 365 * 86400
# Explanations that are added to BOINC's error messages.
EXPLANATIONS = ((" access", ": your account may not submit here; the project's admin gives that "
             "permission (user_submit: docs/admin.md)"),
            ("bad authenticator", ": no account there has this --key"))
NO_PROJECT = ("is not what a BOINC project answers: --url must be the address of its main page, "
              "without a file's name")
# The element that an answer must have, by call; the answer of query_batches may be empty.
EXPECTED_ELEMENTS = {"query_batches": "batch", "create_batch": "batch_id", "query_batch": "state"}
# Values of a batch's state in BOINC.
INIT, COMPLETE = 0, 2


def find_kit_file(folders, name):
    """Path of a file in the first of these folders that has it, or None."""
    return next((p for p in (os.path.join(HERE, f, name) for f in folders) if os.path.isfile(p)),
                None)


def texcell_wu():
    path = find_kit_file(PROGRAMS, "texcell-wu") or shutil.which("texcell-wu")
    if path is None:
        raise Problem("there is no program texcell-wu: build texcell on this computer, or install "
                      "its Debian package")
    return path


def refuse_more(most, what):
    raise Problem("%s: has more than %d MiB" % (what, most >> 20), TRY_LATER)


@contextlib.contextmanager
def time_limit(seconds):
    """A context that raises an OSError after this number of seconds. A socket's timeout would not
    end the connection to a server that sends a byte now and then."""
    def end(_signal, _frame):
        raise TimeoutError("has not answered in full within %g s" % seconds)
    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def refuse_redirect(url, target):
    """No redirect is followed: it would take the key to another host, or past https, and turns a
    request that has data into one that has none."""
    host, to = (urllib.parse.urlsplit(address) for address in (url, target))
    raise Problem("%s://%s: redirects to %s://%s%s: no redirect is followed, since the key would "
                  "go there; if that is the project, give its address as --url" %
                  (host.scheme, host.netloc, to.scheme, to.netloc, to.path), TRY_LATER)


class NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req, fp, code, msg, headers, newurl):
        refuse_redirect(req.full_url, newurl)


def bounded_post(requests):
    """requests.post for BOINC's module, with bounded answers and without redirects."""
    def post(url, **what):
        data = bytearray()
        with requests.post(url, stream=True, timeout=MAX_SILENCE, allow_redirects=False,
                           **what) as reply:
            if "location" in reply.headers:
                refuse_redirect(url, urllib.parse.urljoin(url, reply.headers["location"]))
            for part in reply.iter_content(1 << 16):
                data += part
                if len(data) > MAX_ANSWER:
                    refuse_more(MAX_ANSWER, url)
        return types.SimpleNamespace(text=data.decode())
    return post


class BoundedAnswers(urllib.request.BaseHandler):
    """Limits the size of the server's answers, which BOINC's module reads as a whole."""

    def http_response(self, request, response):
        read = response.read

        def read_bounded(n=None):
            data = read(MAX_ANSWER + 1 if n is None else n)
            return refuse_more(MAX_ANSWER, request.host) if len(data) > MAX_ANSWER else data
        response.read = read_bounded
        return response

    https_response = http_response


def list_of_members(file):
    """The bytes of an archive's list of members, at most MAX_LIST + 1. None: the file does not end
    as a result does, with an end record without a comment, a ZIP64 end record and its locator in
    front of that if there is a locator."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 98, 0))
    end = file.read().rjust(98, b"\0")
    _, _, _, length, start, comment = struct.unpack("<4s4sIIIH", end[76:])
    if end[76:80] != b"PK\5\6" or comment > 0:
        return None
    end_record = size - 22
    if end[56:60] == b"PK\6\7":
        end_record = size - 98
        length, start = struct.unpack("<QQ", end[40:56])
        if end[:4] != b"PK\6\6" or struct.unpack("<Q", end[64:72])[0] != end_record:
            return None
    if start + length != end_record:
        return None
    file.seek(start)
    return file.read(min(length, MAX_LIST + 1))


def is_whole(path, what):
    """Whether a file is a ZIP archive whose members are intact."""
    try:
        with open(path, "rb") as file:
            members = list_of_members(file)
        if members is None:
            return False
        # zipfile keeps some 400 bytes for each entry of the list; each begins with these four
        if len(members) > MAX_LIST or members.count(b"PK\1\2") > MAX_MEMBERS:
            raise Problem("%s: has more than %d members" % (what, MAX_MEMBERS), TRY_LATER)
        with zipfile.ZipFile(path) as archive:
            if sum(member.file_size for member in archive.infolist()) > MAX_INFLATED:
                refuse_more(MAX_INFLATED, what)
            return archive.testzip() is None
    except (OSError, Problem):
        raise
    except Exception:       # noqa: BLE001  Python's module has many for a damaged or encrypted file
        return False


def copy_at_most(source, to, most, what):
    """Copies an open file to another one; more than `most` bytes are an error."""
    done = 0
    while True:
        with time_limit(MAX_PART):
            data = source.read(PART)
        done += len(data)
        if done > most:
            refuse_more(most, what)
        if not data:
            return
        to.write(data)


class Server:
    """The project's server, called by the module in the BOINC sources of --boinc."""

    def __init__(self, options):
        folder = os.path.join(options.boinc, "lib")
        sys.path.insert(0, folder)
        try:
            import boinc_submit
        except ImportError as error:
            package = " (Debian: python3-requests)" if getattr(error, "name",
                                                               None) == "requests" else ""
            raise Problem("%s: boinc_submit.py cannot be used: %s%s" % (folder, error, package))
        self.boinc, self.key = boinc_submit, options.key
        if hasattr(boinc_submit, "requests"):
            boinc_submit.requests = types.SimpleNamespace(post=bounded_post(boinc_submit.requests))
        self.url = options.url.rstrip("/") + "/"
        try:
            at = urllib.parse.urlsplit(self.url)
            _ = at.port                   # raises ValueError if it is no number of a port
        except ValueError as error:
            raise Problem("--url %s: is not an address: %s" % (options.url, error), USAGE)
        if at.scheme != "https" and at.hostname not in ("localhost", "127.0.0.1", "::1"):
            print("note: %s: without https anybody on the way can read the key and the pictures, "
                  "and change results"
                  % plain(self.url), file=sys.stderr)
        urllib.request.install_opener(urllib.request.build_opener(BoundedAnswers, NoRedirects))
        self.server = boinc_submit.BOINC_SERVER(self.url, options.key, rpc_timeout=MAX_SILENCE)

    def ask(self, what, *arguments):
        """Calls a function of BOINC's module; returns its answer, a dictionary."""
        try:
            # where it cannot parse an answer, the module prints it
            with contextlib.redirect_stdout(io.StringIO()), time_limit(MAX_CALL):
                answer = getattr(self.server, what)(*arguments)
        except (ElementTree.ParseError, ValueError, LookupError, TypeError, AttributeError,
                RecursionError) as error:      # it is no text, or no XML, or lacks an element
            raise Problem("%s: %s: %s: %s" % (self.url, what, NO_PROJECT, error), TRY_LATER)
        except (OSError, http.client.HTTPException) as error:
            raise Problem("%s: %s: %s" % (self.url, what, getattr(error, "reason", error)),
                          TRY_LATER)
        needed = EXPECTED_ELEMENTS.get(what) if answer or what != "query_batches" else None
        if not isinstance(answer,
                          dict) or needed and needed not in answer and "error" not in answer:
            raise Problem("%s: %s: %s" % (self.url, what, NO_PROJECT), TRY_LATER)
        if "error" in answer:
            error = answer["error"]
            text = str(error.get("error_msg") if isinstance(error, dict) else error)
            raise Problem("%s: %s: %s%s" %
                          (self.url, what, text,
                           next((more for words, more in EXPLANATIONS if words in text), "")))
        return answer

    def batch_of(self, name):
        """The number of the newest batch of that name, or None."""
        found = [b for b in self.listed(self.ask("query_batches", False), "batch")
                 if self.text(b, "name") == name]
        return self.number(found[-1], "id") if found else None

    def jobs_of(self, answer):
        """The jobs of a batch, each with name and status."""
        jobs = self.listed(answer, "job")
        for job in jobs:
            if not NAME.match(self.text(job, "name")):
                raise Problem("%s: %s: is not a name of a work unit" % (self.url, job["name"]))
            job.setdefault("status", "unknown")
        return jobs

    def listed(self, answer, tag):
        """The elements `tag` of an answer as a list; BOINC's module gives one element without a
        list."""
        found = answer.get(tag, [])
        return found if isinstance(found, list) else [found]

    def text(self, element, key):
        """The text of `key` in an element of the server's answer."""
        found = element.get(key) if isinstance(element, dict) else None
        if not isinstance(found, str):
            raise Problem("%s: %s: %s" % (self.url, key, NO_PROJECT), TRY_LATER)
        return found

    def number(self, element, key):
        found = self.text(element, key)
        if not found.isascii() or not found.isdigit() or len(found) > 18:
            raise Problem("%s: %s: %s" % (self.url, key, NO_PROJECT), TRY_LATER)
        return int(found)

    def fetch(self, unit, path):
        """Downloads the valid result of a unit to `path`. False: the server has deleted it. BOINC's
        page accepts the key only in the address, so that it is in the web server's log."""
        query = urllib.parse.urlencode({"cmd": "workunit_file", "wu_name": unit, "file_num": 0,
                                        "auth_str": self.key})
        part = path + ".part"
        try:
            with time_limit(MAX_PART):
                reply = urllib.request.urlopen("%sget_output.php?%s" % (self.url, query),
                                               timeout=MAX_SILENCE)
            with reply, open(part, "wb") as file:
                if (reply.length or 0) > MAX_RESULT:
                    refuse_more(MAX_RESULT, "%s: %s" % (self.url, unit))
                copy_at_most(reply, file, MAX_RESULT, "%s: %s" % (self.url, unit))
                file.flush()
                os.fsync(file.fileno())
            with open(part, "rb") as file:
                begin = file.read(200)
            if begin.startswith(b"ERROR: no such file"):
                return False
            if is_whole(part, "%s: %s" % (self.url, unit)):
                os.rename(part, path)
                return True
        except (http.client.HTTPException, ValueError) as error:
            raise Problem("%s: %s: %s" % (self.url, unit, error), TRY_LATER)
        except OSError as error:
            raise Problem("%s: %s: %s" % (self.url, unit, getattr(error, "reason", error)),
                          TRY_LATER)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part)
        raise Problem("%s: %s: is not a result: %s" %
                      (self.url, unit, begin.decode(errors="replace")), TRY_LATER)


class Submission:
    """The state of a submission, kept in its folder."""

    def __init__(self, options):
        self.folder = options.output or options.name
        os.makedirs(self.folder, exist_ok=True)
        self.path = os.path.join(self.folder, "submission.json")
        self.state = None
        if os.path.exists(self.path):
            with contextlib.suppress(ValueError):
                self.state = json.loads(read_file(self.path))
            if not isinstance(self.state, dict) or not {"request", "units", "batch", "submitted",
                                                        "until"} <= set(self.state):
                raise Problem("%s: is damaged: texcell-submit --status prints what the server has; "
                              "give another --name and --output to submit anew"
                              % self.path)

    def note(self, **what):
        """Changes the state and saves it."""
        self.state = dict(self.state or {}, **what)
        write_file(self.path, json.dumps(self.state).encode())

    def unit(self, name):
        return os.path.join(self.folder, "units", name + ".zip")

    def result(self, name):
        return os.path.join(self.folder, name + ".npz")

    def pack(self, options):
        """Packs the work units, unless that was done before."""
        request = {"url": options.url, "pack": options.pack,
                   "inputs": [os.path.abspath(i) for i in options.inputs]}
        settle_quorum(options, self.state and self.state.get("quorum", options.quorum))
        if self.state is None:
            folder = os.path.join(self.folder, "units")
            os.makedirs(folder, exist_ok=True)
            note_pictures(options, self.folder)
            paths, _words = pack_all(texcell_wu(), options, folder)
            self.note(request=request, quorum=options.quorum,
                      units=[[unit_of(p), digest_of(p)] for p in paths], batch=None,
                      submitted=False,
                      until=int(time.time()) + KEEP_SECONDS)
        elif self.state["request"] != request:
            raise Problem("%s: has another submission: give another --output" % self.folder)


def input_template(template, numbers, options):
    """The XML of the kit's input template, with the numbers for one unit."""
    root = ElementTree.fromstring(read_file(template))
    values = dict(numbers, min_quorum=options.quorum, target_nresults=options.targets,
                  max_error_results=MORE_RESULTS,
                  max_success_results=options.targets + MORE_RESULTS,
                  max_total_results=options.targets + 2 * MORE_RESULTS)
    del values["credit"]              # the server's validator takes it from rsc_fpops_est
    for key, value in values.items():
        ElementTree.SubElement(root.find("workunit"), key).text = str(value)
    return ElementTree.tostring(root, encoding="unicode")


def upload(server, submission):
    """Uploads those files of units that the server does not have. No batch is named in the call,
    since some servers lack the table for it. `until` is always the same time, since some servers
    refuse a later one for a file that they have."""
    some, size, until = [], 0, submission.state["until"]
    units = [name for name, _digest in submission.state["units"]]
    for i, name in enumerate(units):
        some.append(name)
        size += os.path.getsize(submission.unit(name))
        following = os.path.getsize(submission.unit(units[i + 1])) if i + 1 < len(
            units) else MAX_BYTES
        if len(some) == MAX_FILES or size + following > MAX_BYTES:
            server.ask("upload_files", [submission.unit(n) for n in some],
                       [n + ".zip" for n in some], 0, until)
            some, size = [], 0
        print_progress("%d of %d work units uploaded" % (i + 1, len(units)))


def print_progress(text):
    """On a terminal, replaces the line that was printed before."""
    if sys.stdout.isatty():
        print("\r%s\x1b[K" % text, end="", flush=True)


def submit(server, submission, options):
    """Uploads the files and creates all jobs of the batch in one call."""
    templates = [find_kit_file(TEMPLATES, "texcell_%s.xml" % side) for side in ("in", "out")]
    if None in templates:
        raise Problem("%s: has no templates next to it" % HERE)
    units = [name for name, _digest in submission.state["units"]]
    numbers = checked_numbers(templates[1], options, texcell_wu(),
                              [submission.unit(n) for n in units])
    batch = submission.state["batch"] or server.batch_of(options.name) or \
        server.number(server.ask("create_batch", options.app, options.name), "batch_id")
    submission.note(batch=batch)
    if server.number(server.ask("query_batch", batch), "state") == INIT:
        upload(server, submission)
        boinc = server.boinc
        jobs = [boinc.JOB_DESC(files=[boinc.FILE_DESC(name + ".zip", "local_staged")], name=name,
                               rsc_fpops_est=float(n["rsc_fpops_est"]),
                               input_template=input_template(templates[0], n, options),
                               output_template=read_file(templates[1]).decode())
                for name, n in zip(units, numbers)]
        server.ask("submit_batch",
                   boinc.BATCH_DESC(options.app, jobs, batch_id=batch, priority=options.priority))
    submission.note(submitted=True)
    shutil.rmtree(os.path.join(submission.folder, "units"))
    print("%s: %d work units created, batch %d" % (options.name, len(units), batch))


def fetch_results(server, submission, jobs):
    """Returns (results that are in the folder, units that failed, results that the server has
    deleted)."""
    here, failed, gone = 0, 0, []
    for job in jobs:
        name, path = job["name"], submission.result(job["name"])
        valid = server.number(job, "canonical_instance_id")
        if job["status"] == "error":
            failed += 1
        elif os.path.exists(path) or valid and server.fetch(name, path):
            here += 1
        elif valid:
            gone.append(name)
    return here, failed, gone


def fetch_until_complete(server, submission, options):
    """Fetches results until no more will come, or with --no-wait once. Returns whether nothing
    failed; with --no-wait, True if results are still to come."""
    batch, shown, problems = submission.state["batch"], None, 0
    while True:
        try:
            answer = server.ask("query_batch", batch, False, True)
            here, failed, gone = fetch_results(server, submission, server.jobs_of(answer))
            problems = 0
        except Problem as problem:
            problems += problem.code == TRY_LATER
            if problem.code != TRY_LATER or options.no_wait or problems == 10:
                raise
            print("note: %s; asking again" % plain(problem))
            time.sleep(options.every)
            continue
        n = len(submission.state["units"])
        text = "%s: %d of %d results are here%s" % (options.name, here, n,
                                                    ", %d units failed" % failed if failed else "")
        if text != shown:
            print(text, flush=True)
            shown = text
        if gone:
            raise Problem("%s: the server has deleted %d results, such as that of %s: ask its "
                          "admin for the data set"
                          % (options.name, len(gone), gone[0]))
        if server.number(answer, "state") >= COMPLETE:
            if here + failed == n:
                server.ask("retire_batch", batch)
            return here == n
        if options.no_wait:
            return True
        time.sleep(options.every)


def batch_named(server, name):
    """The number of the batch of this name, which must exist."""
    batch = server.batch_of(name)
    if batch is None:
        raise Problem("%s: nothing was submitted under this name, or all of it is over" % name)
    return batch


def show_status(server, name):
    answer = server.ask("query_batch", batch_named(server, name), False, True)
    jobs = server.jobs_of(answer)
    print("%-10s %d units" % (name, len(jobs)))
    for word, status in (("waiting", "queued"), ("out", "in_progress"), ("valid", "done"),
                         ("failed", "error")):
        print("%-10s %d" % (word, sum(job["status"] == status for job in jobs)))


def main(options):
    options.max_memory = 0
    if options.dry_run and not (options.cancel or options.status):
        with tempfile.TemporaryDirectory(prefix="texcell-submit-") as folder:
            checked_numbers(find_kit_file(TEMPLATES, "texcell_out.xml"), options, texcell_wu(),
                            pack_all(texcell_wu(), options, folder)[0])
        print(dry_run_total(options))
        return 0
    server = Server(options)
    if options.status:
        show_status(server, options.status)
        return 0
    if options.cancel:
        batch = batch_named(server, options.cancel)
        jobs = server.jobs_of(server.ask("query_batch", batch, False, True))
        what = "%d work units" % sum(job["status"] not in ("done", "error") for job in jobs)
        if options.dry_run:
            print("dry run: %s: would cancel %s" % (options.cancel, what))
            return 0
        if not ask_user("%s: cancel %s?" % (options.cancel, what), options.yes):
            print("nothing was cancelled")
            return 1
        server.ask("abort_batch", batch)
        print("%s: cancelled" % options.cancel)
        return 0
    submission = Submission(options)
    with locked(submission.folder):
        submission.pack(options)
        changed = changed_pictures(options, submission.folder)
        if changed:
            print("note: " + changed, file=sys.stderr)
        if not submission.state["submitted"]:
            submit(server, submission, options)
        return 0 if fetch_until_complete(server, submission, options) and not changed else 2
