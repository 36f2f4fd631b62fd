"""Tests texcell-submit --url against a stand-in for BOINC's remote job submission: submitting,
status, fetching results; a kill at any call to the server, after which the command is repeated;
work that the server refuses, loses or deletes. The Python module boinc_submit is a stand-in, too,
with the calls, arguments and answers of BOINC's."""
import contextlib
import gzip
import http.server
import io
import itertools
import json
import os
import re
import shutil
import struct
import sys
import threading
import time
import types
import urllib.parse
import xml.etree.ElementTree as ElementTree
import zipfile

import numpy as np
from PIL import Image

from tap import SRC, TEXCELL, done, ok, run, scratch

sys.path.insert(0, os.path.join(SRC, "validator", "deploy"))
import texcell_remote                                            # noqa: E402

SUBMIT = os.path.join(SRC, "validator", "deploy", "texcell-submit")
TMP = scratch()
KEY = "0123abc"
MODULE = '''
import builtins, json, os, urllib.parse, urllib.request, xml.etree.ElementTree
class FILE_DESC:
    def __init__(self, source=None, mode="local_staged"):
        self.source, self.mode = source, mode
class JOB_DESC:
    def __init__(self, files=[], name=None, rsc_fpops_est=None, input_template=None, output_template=None):
        self.__dict__.update(locals())
class BATCH_DESC:
    def __init__(self, app_name, jobs, batch_id=0, priority=None):
        self.__dict__.update(locals())
class BOINC_SERVER:
    def __init__(self, url, authenticator, rpc_timeout=0):
        self.url, self.key = url, authenticator
    def call(self, what, **arguments):
        """END names a call, and whether this process ends before or after it."""
        if "FAULT" in os.environ:       # as BOINC's module for elements that it does not expect
            raise getattr(builtins, os.environ["FAULT"])
        name, _, moment = os.environ.get("END", "").partition(" ")
        if (name, moment) == (what, "before"):
            os._exit(9)
        data = json.dumps(dict(arguments, what=what, key=self.key)).encode()
        answer = urllib.request.urlopen(self.url + "submit_rpc_handler.php", data).read()
        try:
            answer = json.loads(answer)
        except ValueError:
            print("invalid reply: " + answer.decode())
            raise xml.etree.ElementTree.ParseError("no XML")
        if (name, moment) == (what, "after"):
            os._exit(9)
        return answer
    def query_batches(self, get_cpu_time):
        return self.call("query_batches")
    def create_batch(self, app_name, batch_name="", expire_time=0):
        return self.call("create_batch", app=app_name, name=batch_name)
    def query_batch(self, batch_id, get_cpu_time=False, get_job_details=False):
        return self.call("query_batch", batch=batch_id)
    def upload_files(self, local_names, phys_names, batch_id=0, delete_time=0):
        return self.call("upload_files", files={p: open(n, "rb").read().hex() for p, n in zip(phys_names, local_names)})
    def submit_batch(self, b):
        return self.call("submit_batch", batch=b.batch_id, app=b.app_name, jobs=[
            dict(name=j.name, est=j.rsc_fpops_est, template=j.input_template, out=j.output_template,
                 files=[(f.source, f.mode) for f in j.files]) for j in b.jobs])
    def abort_batch(self, batch_id):
        return self.call("abort_batch", batch=batch_id)
    def retire_batch(self, batch_id):
        return self.call("retire_batch", batch=batch_id)
'''  # noqa: E501


class Server:
    """The state of the server. Its answers are dictionaries as BOINC's module makes them from XML:
    all values are text, and there is a list only for two entries or more."""

    def __init__(self):
        self.raw = None           # bytes that answer any request; None: the usual answers
        self.way = None           # function that answers any request in an unusual way
        self.files, self.batches, self.jobs, self.results, self.errors = {}, [], [], {}, set()

    def listed(self, tag, found):
        return {tag: found if len(found) > 1 else found[0]} if found else {}

    def answer(self, what, ask):
        if ask["key"] == "guest":
            return {"error": {"error_num": "-1", "error_msg": "no submit access"}}
        if ask["key"] != KEY:
            return {"error": {"error_num": "-1", "error_msg": "bad authenticator"}}
        batch = self.batches[int(ask["batch"]) - 1] if "batch" in ask else None
        if what == "query_batches":
            return self.listed("batch", [dict(b, state=str(b["state"])) for b in self.batches
                                         if b["state"] != 4])
        if what == "create_batch":
            self.batches.append({"id": str(len(self.batches) + 1), "name": ask["name"], "state": 0})
            return {"batch_id": self.batches[-1]["id"]}
        if what == "upload_files":
            self.files.update({n: bytes.fromhex(f) for n, f in ask["files"].items()})
        if what == "submit_batch":
            if batch["state"] != 0 or any(f not in self.files for j in ask["jobs"]
                                          for f, _mode in j["files"]):
                return {"error": {"error_num": "-1", "error_msg": "batch not in init state"}}
            self.jobs += [dict(j, batch=batch["id"]) for j in ask["jobs"]]
            batch["state"] = 1
        if what == "query_batch":
            return dict(self.listed("job", [self.job(j["name"]) for j in self.jobs if j["batch"] ==
                                            batch["id"]]), state=str(batch["state"]))
        if what in ("abort_batch", "retire_batch"):
            batch["state"] = 3 if what == "abort_batch" else 4
        return {"success": None}

    def job(self, name):
        status = "error" if name in self.errors else "done" if name in self.results else "queued"
        return {"name": name, "canonical_instance_id": "7" if status == "done" else "0",
                "status": status}


class Handler(http.server.BaseHTTPRequestHandler):
    """The HTTP side of Server."""
    def reply(self, data):
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self):
        ask = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if SERVER.way:
            return SERVER.way(self)
        self.reply(SERVER.raw or json.dumps(SERVER.answer(ask["what"], ask)).encode())

    def do_GET(self):
        if SERVER.way:
            return SERVER.way(self)
        query = {k: v[0]
                 for k, v in urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query).items()}
        good = query["auth_str"] == KEY and query["cmd"] == "workunit_file" and query[
            "file_num"] == "0"
        found = SERVER.results.get(query["wu_name"]) if good else None
        if isinstance(found, int):      # as many bytes are announced
            self.send_response(200)
            self.send_header("Content-Length", str(found))
            self.end_headers()
            return
        if callable(found):
            return found(self)
        if found == "nothing":
            return self.reply(b"")
        self.reply(found if found else b"ERROR: no such file /x" if good
                   else b"ERROR: bad authenticator")

    def log_message(self, *_words):
        pass


def pictures():
    for i in range(5):
        path = os.path.join(TMP, "pictures", "p%d.png" % i)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Image.fromarray(np.random.default_rng(i).integers(0, 256, (40, 50)).astype(np.uint8)).save(
            path)
    return os.path.dirname(path)


def submit(*words, key=KEY, url=None, **env):
    return run([sys.executable, SUBMIT, "--url", url or URL, "--key", key, "--boinc",
                os.path.join(TMP, "boinc"), *words],
               env=dict(os.environ, **env), cwd=TMP, timeout=100)


def submit_with(limits, *words):
    """Does the same as submit, with other limits of texcell_remote: "NAME = VALUE; ..."."""
    code = ("import runpy, sys; sys.path.insert(0, %r); import texcell_remote as of; %s; "
            "sys.argv[0] = %r; runpy.run_path(%r, run_name='__main__')" %
            (os.path.dirname(SUBMIT), limits, SUBMIT, SUBMIT))
    return run([sys.executable, "-c", code, "--url", URL, "--key", KEY, "--boinc",
                os.path.join(TMP, "boinc"), *words], cwd=TMP, timeout=60)


def drip(handler, head=b"HTTP/1.0 200 OK\r\n\r\n", byte=b" "):
    """Sends a byte now and then, for half a minute."""
    handler.wfile.write(head)
    with contextlib.suppress(OSError):
        for _i in range(100):
            handler.wfile.write(byte)
            time.sleep(0.3)


def redirect(address, code=302):
    """A way to answer: by a redirect to this address."""
    def answer(handler):
        handler.send_response(code)
        handler.send_header("Location", address)
        handler.end_headers()
    return answer


def gzip_answer(handler):
    handler.send_response(200)
    handler.send_header("Content-Encoding", "gzip")
    handler.end_headers()
    handler.wfile.write(gzip.compress(bytes(20 << 20)))


def compute(names):
    """Computes the results of these units, which are then valid on the server."""
    for name in names:
        unit, result = os.path.join(TMP, "unit.zip"), os.path.join(TMP, "unit.npz")
        with open(unit, "wb") as f:
            f.write(SERVER.files[name + ".zip"])
        run([TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--quiet"])
        with open(result, "rb") as f:
            SERVER.results[name] = f.read()


def here(folder):
    return sorted(n for n in os.listdir(os.path.join(TMP, folder)) if n.endswith(".npz"))


def test_submission(folder):
    """A submission from a dry run to the last result."""
    words = ["--name", "drops", "--analysis", "cellcount", "--split", "1", "--every", "0.1", folder]
    names = ["drops_%04d" % i for i in range(1, 6)]
    r = submit("--dry-run", *words)
    ok(r.returncode == 0 and "dry run" in r.stdout and not SERVER.batches,
       "a dry run sends no request", r.stderr)
    r = submit("--no-wait", *words)
    ok(r.returncode == 0 and "5 work units created, batch 1" in r.stdout and
       "0 of 5 results are here" in r.stdout, "the units are submitted", r.stdout + r.stderr)
    job = SERVER.jobs[0]
    root = ElementTree.fromstring(job["template"])
    values = {e.tag: e.text for e in root.find("workunit")}
    ok([j["name"] for j in SERVER.jobs] == names and
       job["files"] == [["drops_0001.zip", "local_staged"]]
       and float(values["rsc_fpops_est"]) == job["est"] > 1e10 and values["min_quorum"] ==
       values["target_nresults"] == "2"
       and values["max_total_results"] == "14" and values["delay_bound"] == "604800" and
       int(values["rsc_memory_bound"]) > 1 << 26
       and root.findtext("workunit/file_ref/open_name") == "workunit" and
       "<OUTFILE_0/>" in job["out"],
       "each job has its estimates, quorum and templates", job)
    r = submit("--no-wait", *words, "--quorum", "3")
    ok(r.returncode == 2 and
       "drops: was submitted with --quorum 2, and all its units have that" in r.stderr,
       "another quorum in a later call is refused", r.stderr)
    r = submit("--status", "drops")
    ok(re.search(r"5 units\nwaiting +5\nout +0\nvalid +0\nfailed +0\n", r.stdout),
       "--status reports progress",
       r.stdout + r.stderr)
    compute(names[:2])
    r = submit("--no-wait", *words)
    ok(r.returncode == 0 and "2 of 5 results are here" in r.stdout and
       here("drops") == [n + ".npz" for n in names[:2]],
       "the same command fetches the valid results", r.stdout + r.stderr)
    SERVER.results[names[2]] = b"<html>maintenance</html>"
    r = submit("--no-wait", *words)
    ok(r.returncode == 3 and "drops_0003: is not a result" in r.stderr and len(here("drops")) == 2,
       "a download that is not a result is not kept", r.stderr)
    SERVER.results[names[2]] = b""
    r = submit("--no-wait", *words)
    ok(r.returncode == 2 and
       "the server has deleted 1 results, such as that of drops_0003" in r.stderr,
       "a result that the server deleted is reported", r.stderr)
    compute(names)
    SERVER.batches[0]["state"] = 2
    r = submit(*words)
    ok(r.returncode == 0 and "5 of 5 results are here" in r.stdout and SERVER.batches[0]["state"] ==
       4, "the last results are fetched, and the batch is retired", r.stdout + r.stderr)
    same = [open(os.path.join(TMP, "drops", n + ".npz"), "rb").read() == SERVER.results[n]
            for n in names]
    ok(all(same) and not os.path.exists(os.path.join(TMP, "drops", "units")),
       "the fetched results have the same bytes", same)
    r = submit("--no-wait", *words, "--polarity", "dark")
    ok(r.returncode == 1, "an option unknown to pack is refused", r.stderr)
    r = submit("--no-wait", *words, "--param", "threshold=100")
    ok(r.returncode == 2 and "has another submission" in r.stderr,
       "another submission with the same name is refused", r.stderr)
    shutil.copy(os.path.join(folder, "p0.png"), os.path.join(folder, "p9.png"))
    r = submit("--no-wait", *words)
    os.unlink(os.path.join(folder, "p9.png"))
    ok(r.returncode == 2 and "1 new, 0 changed, 0 gone; none of that is submitted, such as %s" %
       os.path.join(folder, "p9.png") in r.stderr,
       "a picture that was added later is reported, and not submitted", r.stderr)


def test_kills(folder):
    """A command killed before or after a call to the server and repeated makes one batch, with each
    unit once."""
    for i, end in enumerate(("create_batch before", "create_batch after", "query_batch after",
                             "upload_files after",
                             "submit_batch before", "submit_batch after")):
        words = ["--name", "e%d" % i, "--analysis", "cellcount", "--split", "2", "--no-wait",
                 folder]
        r, again = submit(*words, END=end), submit(*words)
        batches = [b["id"] for b in SERVER.batches if b["name"] == "e%d" % i]
        jobs = [j["name"] for j in SERVER.jobs if j["batch"] in batches]
        ok(r.returncode == 9 and again.returncode == 0 and len(batches) == 1 and
           jobs == ["e%d_%04d" % (i, k) for k in (1, 2, 3)],
           "after a kill the same command makes one batch with each unit once: killed at " + end,
           "%s\n%s\n%s" % (again.stderr, batches, jobs))
    r = submit("--cancel", "e0", "--dry-run")
    ok(r.returncode == 0 and "e0: would cancel 3 work units" in r.stdout and
       SERVER.batches[-6]["state"] != 3,
       "--cancel --dry-run states the number of units and cancels none", r.stdout + r.stderr)
    r = submit("--status", "e0", "--dry-run")
    ok(r.returncode == 0 and "e0         3 units" in r.stdout,
       "--dry-run does not change what --status prints",
       r.stdout + r.stderr)
    r = submit("--cancel", "e0", "--yes")
    ok(r.returncode == 0 and SERVER.batches[-6]["state"] == 3, "--cancel cancels the batch",
       r.stderr)
    SERVER.errors.add("e1_0002")
    compute(["e1_0001", "e1_0003"])
    next(b for b in SERVER.batches if b["name"] == "e1")["state"] = 2
    r = submit("--name", "e1", "--analysis", "cellcount", "--split", "2", folder)
    ok(r.returncode == 2 and "2 of 3 results are here, 1 units failed" in r.stdout,
       "a failed unit is reported, and the other results are fetched", r.stdout + r.stderr)


def test_refusals(folder):
    """Refusals and unusual answers of the server."""
    words = ["--name", "no", "--analysis", "cellcount", folder]
    for name, code, text, r in (
            ("a wrong key", 2, "query_batches: bad authenticator: no account there has this --key",
             submit(*words, key="wrong")),
            ("no permission", 2, "your account may not submit here", submit(*words, key="guest")),
            ("nobody there", 3, "query_batches: ",
             submit(*words, "-o", "nobody", url="http://127.0.0.1:9/")),
            ("a name that is unknown", 2, "nothing was submitted", submit("--status", "never")),
            ("a quorum of one", 1, "--quorum 1 the server would compute none",
             submit(*words, "--quorum", "1")),
            ("no scheme", 1, "must begin with https:// or http://",
             submit(*words, url="cells.example.org/cells")),
            ("an address with half a bracket", 1, "is not an address",
             submit(*words, url="http://[::1")),
            ("an address that is none", 1, "is not an address", submit(*words, url="https://[x]/")),
            ("a port that is none", 1, "is not an address", submit(*words, url="http://x:abc/")),
            ("no BOINC", 2, "boinc_submit.py cannot be used", submit(*words, "--boinc", TMP)),
            ("no key", 1, "needs --key", submit(*words, key="", TEXCELL_KEY=""))):
        ok(r.returncode == code and text in r.stderr and r.stderr.count("\n") == 1, name, r.stderr)
    SERVER.raw = b"\x1b]0;OWNED\x07\x1b[2J error"
    r = submit(*words)
    ok(r.returncode == 3 and "\x1b" not in r.stdout + r.stderr and "no XML" in r.stderr,
       "control characters in an answer are not printed", ascii(r.stdout + r.stderr))
    for page in (b'{"head": {"title": "x"}, "body": "y"}', b'{"channel": "x"}', b"[]"):
        SERVER.raw = page
        for what in (words, ["--status", "no"]):
            r = submit(*what)
            ok(r.returncode == 3 and
               "is not what a BOINC project answers: --url must be" in r.stderr and
               r.stderr.count("\n") == 1,
               "an answer that is not BOINC's is refused: %s %s" % (page, what[0]), r.stderr)
    SERVER.raw = None
    hostile(words)
    for text in ('{"request": ', "[]", '{"units": []}', "\xff"):
        os.makedirs(os.path.join(TMP, "damaged"), exist_ok=True)
        with open(os.path.join(TMP, "damaged", "submission.json"), "w", encoding="latin-1") as f:
            f.write(text)
        r = submit(*words, "-o", "damaged")
        ok(r.returncode == 2 and "damaged/submission.json: is damaged: " in r.stderr and
           r.stderr.count("\n") == 1,
           "a damaged submission.json is an error of one line: " + ascii(text), r.stderr)
    r = submit(*words, "--no-wait", "-o", "plain", url="http://cells.invalid/x/")
    ok(r.returncode == 3 and "without https anybody on the way can read" in r.stderr,
       "a note about an address without https", r.stderr)
    shutil.rmtree(os.path.join(TMP, "no"))
    r = submit(*words, "--no-wait", key="", TEXCELL_KEY=KEY)
    ok(r.returncode == 0, "the key may be in the environment", r.stderr)


def archive(data, method=8, flags=0):
    """A ZIP archive with a member, whose method and flags are changed as given."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", 8) as file:
        file.writestr("a", data)
    found = bytearray(out.getvalue())
    for at, begin in ((6, b"PK\3\4"), (8, b"PK\1\2")):
        start = found.index(begin) + at
        found[start], found[start + 2] = flags, method
    return bytes(found)


def many_members(number):
    """An archive whose list has this many entries, each as short as can be, and no data."""
    entry = struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, 20, 0, 0, 0, 33, 0, 0, 0, 1, 0, 0, 0, 0, 0,
                        0) + b"a"
    members = number * entry
    return members + struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, number, number,
                                 len(members), 0) + struct.pack(
        "<4sIQI", b"PK\6\7", 0, len(members), 1) + struct.pack(
        "<4s4H2IH", b"PK\5\6", 0, 0, 65535, 65535, len(members), 0, 0)


def post_with(headers):
    """A stand-in for requests.post, whose answer has these headers and no end."""
    def post(_url, allow_redirects=True, **_what):
        assert not allow_redirects
        parts = itertools.repeat(b"x" * (1 << 20), 1000)
        return contextlib.nullcontext(types.SimpleNamespace(
            headers=headers, iter_content=lambda _size: parts))
    return types.SimpleNamespace(post=post)


def hostile(words):
    """Answers of the right form that have other entries than BOINC's, and results without end."""
    one = '{"name": "no", "id": "1", "state": "1"}'
    for page in ('{"batch": "x"}', '{"batch": {}}', '{"batch": [1, 2]}', '{"batch": %s}' %
                 one.replace('"1"', '"x"', 1), '{"batch": %s, "batch_id": {}, "state": "1", '
                 '"job": {"name": "no"}}' % one, '{"batch": %s, "state": "1", "job": ["x"]}' % one,
                 '{"batch": %s, "state": null, "job": []}' % one,
                 '{"batch": %s, "state": "1", "job": {"name": {}, "status": "done", '
                 '"canonical_instance_id": "7"}}' % one):
        SERVER.raw = page.encode()
        for what in (words, ["--status", "no"], ["--cancel", "no", "--yes"]):
            r = submit(*what, "--no-wait") if what is words else submit(*what)
            ok(r.returncode in (0, 3) and "Traceback" not in r.stderr and
               r.stderr.count("\n") == (r.returncode == 3),
               "%s: %s" % (what[0], page), r.stderr)
        shutil.rmtree(os.path.join(TMP, "no"), ignore_errors=True)
    SERVER.raw = b'{"error": "' + b"x" * (80 << 20) + b'"}'
    r = submit(*words)
    ok(r.returncode == 3 and "has more than 64 MiB" in r.stderr and len(r.stderr) < 1000,
       "an endless answer is cut at 64 MiB, with one error", r.stderr[:200])
    SERVER.raw = None
    shutil.rmtree(os.path.join(TMP, "no"), ignore_errors=True)
    r = submit(*words, "--no-wait")
    name = next(iter(j["name"] for j in SERVER.jobs if j["name"].startswith("no")))
    for data, text in ((b"\x1b]0;OWNED\x07\x1b[2J", "is not a result: ?]0;OWNED??[2J"),
                       ("nothing", "is not a result"), (5 << 30, "has more than 4096 MiB")):
        SERVER.results[name] = data
        r = submit(*words, "--no-wait")
        ok(r.returncode == 3 and text in r.stderr and r.stderr.count("\n") == 1,
           "a file that is not a result is refused: " + text, ascii(r.stderr[:300]))
        left = [f for f in os.listdir(os.path.join(TMP, "no")) if name in f]
        ok(not left, "no file of a refused result is left", left)
    SERVER.results[name] = b"\x1b[2J"
    r = submit(*words, "--every", "0.1")
    ok(r.returncode == 3 and "\x1b" not in r.stdout and r.stdout.count("asking again") == 9,
       "control characters in a result are not printed; the result is requested again",
       ascii(r.stdout))
    for way, limits, text in (
            (drip, "of.MAX_PART = 2", "within 2 s"),
            (lambda handler: drip(handler, b"", b"H"), "of.MAX_PART = 2", "within 2 s"),
            (archive(bytes(2 << 20)), "of.MAX_INFLATED = 1 << 20", "has more than 1 MiB"),
            (many_members((1 << 20) + 1), "pass", "has more than 1048576 members"),
            (many_members(1000), "of.MAX_LIST = 46999", "has more than 1048576 members"),
            (archive(b"x") + b"x", "pass", "is not a result: PK"),
            (redirect(OTHER), "pass", "redirects to %s: no redirect is followed" % OTHER),
            (redirect("http://[x"), "pass", "Invalid IPv6 URL"),
            (archive(b"x", method=77), "pass", "is not a result: PK"),
            (archive(b"x", flags=1), "pass", "is not a result: PK")):
        SERVER.results[name] = way
        start = time.monotonic()
        r = submit_with(limits, *words, "--no-wait")
        ok(r.returncode == 3 and text in r.stderr and r.stderr.count("\n") == 1 and
           time.monotonic() - start < 20 and not [f for f in os.listdir(os.path.join(TMP, "no"))
                                                  if name in f],
           "a malicious result is refused within seconds, and no file is left: " + text,
           ascii(r.stderr[-300:]))
    many = io.BytesIO()
    with zipfile.ZipFile(many, "w") as file:
        for i in range(66000):
            file.writestr("a%d.npy" % i, b"")
    SERVER.results[name] = many.getvalue()
    r = submit(*words, "--no-wait")
    ok(r.returncode == 0 and name + ".npz" in here("no"),
       "a result of more than 65,535 members, which needs ZIP64, is fetched", r.stderr)
    os.unlink(os.path.join(TMP, "no", name + ".npz"))
    del SERVER.results[name]
    for way, seconds, text in (
            (drip, 2, "within 2 s"),
            (lambda handler: drip(handler, b"", b"H"), 2, "within 2 s"),
            (lambda _handler: time.sleep(20), 2, "within 2 s"),
            (redirect("/cells/submit_rpc_handler.php"), 30, "redirects to %s/submit_rpc" % URL),
            (redirect(OTHER + "?key=1"), 30, "redirects to %s: no redirect is followed" % OTHER),
            (redirect(OTHER, 307), 30, "redirects to %s: " % OTHER),
            (redirect("ftp://127.0.0.1/x"), 30, "ftp://127.0.0.1/x"),
            (gzip_answer, 30, "is not what a BOINC project answers")):
        SERVER.way = way
        start = time.monotonic()
        r = submit_with("of.MAX_CALL = %d" % seconds, *words, "--no-wait")
        ok(r.returncode == 3 and text in r.stderr and r.stderr.count("\n") == 1 and
           time.monotonic() - start < 15,
           "a malicious server is given up within seconds: " + text, ascii(r.stderr[-300:]))
    SERVER.way = None
    ok(not REACHED, "no request follows a redirect to another host", REACHED)
    for fault in (KeyError, IndexError, TypeError, AttributeError, RecursionError):
        r = submit(*words, "--no-wait", "-o", "fault", FAULT=fault.__name__)
        ok(r.returncode == 3 and "is not what a BOINC project answers" in r.stderr and
           r.stderr.count("\n") == 1,
           "an exception in BOINC's module is an error of one line: " + fault.__name__,
           ascii(r.stderr[-300:]))
    for headers, text in (({}, "https://a/b: has more than 64 MiB"),
                          ({"location": "http://a/b"}, "https://a: redirects to http://a/b: ")):
        try:
            texcell_remote.bounded_post(post_with(headers))("https://a/b")
            said = "nothing"
        except texcell_remote.Problem as problem:
            said = str(problem)
        ok(said.startswith(text), "an answer to an upload is refused: " + text, said)
    sink = io.BytesIO()
    try:
        texcell_remote.copy_at_most(io.BytesIO(b"x" * (3 << 20)), sink, 2 << 20, "WHAT")
        said = "nothing"
    except texcell_remote.Problem as problem:
        said = str(problem)
    ok(said == "WHAT: has more than 2 MiB" and len(sink.getvalue()) <= 2 << 20,
       "copy_at_most refuses data above its limit", said)


SERVER = Server()
os.makedirs(os.path.join(TMP, "boinc", "lib"))
with open(os.path.join(TMP, "boinc", "lib", "boinc_submit.py"), "w") as module:
    module.write(MODULE)
REACHED = []              # paths that were requested from the other server


class Other(Handler):
    """A server that is not the project's."""
    def do_GET(self):
        REACHED.append(self.path)
        self.reply(b"{}")

    do_POST = do_GET


listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
URL = "http://127.0.0.1:%d/cells" % listener.server_address[1]
other = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other)
OTHER = "http://127.0.0.1:%d/other" % other.server_address[1]
for server in (listener, other):
    threading.Thread(target=server.serve_forever, daemon=True).start()
test_submission(pictures())
test_kills(pictures())
test_refusals(pictures())
listener.shutdown()
other.shutdown()
done()
