"""A minimal BOINC project for tests of the client: master page, scheduler, downloads, upload
handler. It sends each host the tasks assigned to it, and keeps the host's reports and uploads.

    with Project() as project:
        client = Client(folder, project)
        client.start()
        client.attach("the host's key")
        project.add_app_version(program, "mt", cmdline="--nthreads 2", ncpus=2)
        task = project.send("the host's key", "wu1", "/path/of/wu1.zip", "mt")
        report = project.wait_for_report(task)
"""
import hashlib
import os
import re
import threading
import time
import zlib

from harness import Client, Server, until, xml_lines

APP = "texcell"


# --- code signing -------------------------------------------------------------------

EXPONENT, BITS = 65537, 1024


def signing_key():
    """(modulus, private exponent) of a key for signing programs, as the client accepts no unsigned
    ones. The key is public, and used only by this test."""
    p, q = 2 ** 521 - 1, 2 ** 502 + 1
    while pow(3, q - 1, q) != 1:
        q += 2
    return p * q, pow(EXPONENT, -1, (p - 1) * (q - 1))


def hex_lines(data):
    text = data.hex()
    return "".join(text[i:i + 64] + "\n" for i in range(0, len(text), 64)) + "."


def public_key(modulus):
    size = BITS // 8
    return "%d\n%s" % (BITS,
                       hex_lines(modulus.to_bytes(size, "big") + EXPONENT.to_bytes(size, "big")))


def signature(content, modulus, private):
    """The PKCS #1 type 1 signature of the MD5 in hexadecimal."""
    digest = hashlib.md5(content).hexdigest().encode()
    block = b"\0\1" + b"\xff" * (BITS // 8 - 3 - len(digest)) + b"\0" + digest
    return hex_lines(pow(int.from_bytes(block, "big"), private, modulus).to_bytes(BITS // 8, "big"))


# --- the project ---------------------------------------------------------------------

def field(text, tag):
    found = re.search("<%s>(.*?)</%s>" % (tag, tag), text, re.S)
    return found.group(1) if found else None


class Project(Server):
    """A project. Names are as in BOINC: the second task of unit wu1 is wu1_1, and its result is
    uploaded as wu1_1_rNUMBER_0."""

    def __init__(self):
        super().__init__()
        self.url = "http://127.0.0.1:%d/proj/" % self.port
        self._key = signing_key()
        self.reports = {}          # task -> {exit_status, stderr_out, ...}
        self.requests = 0          # number of requests to the scheduler
        self.refused = set()       # tasks whose uploads are refused for now
        self.refusals = 0
        self._lock = threading.Lock()
        self._hosts = []           # account keys, in the order of the hosts' numbers
        self._files = {}           # name -> (content, executable)
        self._versions = {}        # plan class -> XML of the app version
        self._version_files = {}
        self._units = {}           # name -> file
        self._tasks = {}           # name -> (host's key, unit, plan class)
        self._upload_servers = {}
        self._waiting = []         # tasks not sent yet
        self._abort = set()

    # --- what the project's admin does -----------------------------------------

    def add_app_version(self, program, plan_class="", cmdline="", ncpus=1, coproc=""):
        """Adds the version of the app for a plan class."""
        name = "%s_1_%s" % (APP, plan_class or "cpu")
        with open(program, "rb") as f:
            self._files[name] = f.read(), True
        self._version_files[plan_class] = name
        self._versions[plan_class] = xml_lines(
            "app_version", "<app_name>%s</app_name>" % APP, "<version_num>100</version_num>",
            "<platform>%s</platform>" % Client.PLATFORM, "<plan_class>%s</plan_class>" % plan_class,
            "<api_version>7.20.5</api_version>", "<avg_ncpus>%g</avg_ncpus>" % ncpus,
            "<flops>1e9</flops>",
            "<cmdline>%s</cmdline>" % cmdline, coproc,
            xml_lines("file_ref", "<file_name>%s</file_name>" % name, "<main_program/>"))

    def send(self, key, unit, path, plan_class="", upload_server=None):
        """Makes another task of the unit, whose file is at path, for the host with this key, which
        gets it with its next request for work. Returns the task's name."""
        with self._lock:
            if unit not in self._units:
                self._units[unit] = unit + ".zip"
                with open(path, "rb") as f:
                    self._files[unit + ".zip"] = f.read(), False
            task = "%s_%d" % (unit, sum(t[1] == unit for t in self._tasks.values()))
            self._tasks[task] = key, unit, plan_class
            self._upload_servers[task] = upload_server or self
            self._waiting.append(task)
        return task

    def cancel(self, task):
        """Cancels a task. The host learns this with its next request."""
        with self._lock:
            self._abort.add(task)

    @staticmethod
    def upload_name(task):
        return "%s_r%d_0" % (task, zlib.crc32(task.encode()))

    def result(self, task):
        """The uploaded file's bytes, or None."""
        return self._upload_servers[task].uploads.get(self.upload_name(task))

    def wait_for_report(self, task, seconds=180):
        """Waits until the host reports the task; returns what it reports."""
        return until(seconds, lambda: self.reports.get(task), "%s is reported" % task)

    # --- HTTP -----------------------------------------------------------------------

    def get(self, path):
        if path == "/proj/":
            return b"<html><link rel=\"boinc_scheduler\" href=\"%scgi\"></html>" % self.url.encode()
        name = os.path.basename(path)
        if path == "/proj/download/" + name and name in self._files:
            return self._files[name][0]
        return None

    def post(self, path, body):
        if path == "/proj/cgi":
            with self._lock:
                return self._schedule(body.decode(errors="replace")).encode()
        return super().post(path, body)

    def upload(self, body):
        head = body.partition(b"<data>\n")[0].decode(errors="replace")
        if field(head, "name") in map(self.upload_name, self.refused):
            self.refusals += 1
            return (b"<data_server_reply>\n<status>1</status>\n<message>try later</message>\n"
                    b"</data_server_reply>\n")
        return super().upload(body)

    # --- the scheduler --------------------------------------------------------------

    def _schedule(self, request):
        self.requests += 1
        key = field(request, "authenticator") or ""
        if key not in self._hosts:
            self._hosts.append(key)
        parts = ["<scheduler_version>800</scheduler_version>",
                 "<master_url>%s</master_url>" % self.url,
                 "<request_delay>1</request_delay>", "<project_name>proj</project_name>",
                 "<user_name>tester</user_name>",
                 "<hostid>%d</hostid>" % (self._hosts.index(key) + 1)]
        if "<code_sign_key>" not in request:
            parts.append("<code_sign_key>\n%s\n</code_sign_key>" % public_key(self._key[0]))
        parts += self._take_reports(request)
        parts += ["<result_abort>\n<name>%s</name>\n</result_abort>" % task
                  for task in sorted(self._abort)
                  if self._tasks[task][0] == key and task not in self.reports]
        if float(field(request, "work_req_seconds") or 0) > 0:
            ready = [t for t in self._waiting if self._tasks[t][0] == key]
            parts += [self._work(ready)] if ready else []
            self._waiting = [t for t in self._waiting if t not in ready]
        return xml_lines("scheduler_reply", *parts)

    def _take_reports(self, request):
        acknowledged = []
        for block in re.findall(r"<result>\n(.*?)\n</result>", request, re.S):
            fields = dict(re.findall(r"<(\w+)>(.*?)</\1>", block, re.S))
            if fields.get("name") in self._tasks:
                self.reports[fields["name"]] = fields
                acknowledged.append(xml_lines("result_ack", "<name>%s</name>" % fields["name"]))
        return acknowledged

    def _file_info(self, name):
        content, executable = self._files[name]
        return xml_lines("file_info", "<name>%s</name>" % name,
                         "<url>%sdownload/%s</url>" % (self.url, name),
                         "<nbytes>%d</nbytes>" % len(content),
                         "<md5_cksum>%s</md5_cksum>" % hashlib.md5(content).hexdigest(),
                         *(["<executable/>", "<signature_required/>",
                            "<file_signature>\n%s\n</file_signature>"
                            % signature(content, *self._key)] if executable else []))

    def _work(self, tasks):
        classes = sorted({self._tasks[t][2] for t in tasks})
        units = sorted({self._tasks[t][1] for t in tasks})
        parts = [xml_lines("app", "<name>%s</name>" % APP,
                           "<user_friendly_name>%s</user_friendly_name>" % APP)]
        for c in classes:
            parts += [self._file_info(self._version_files[c]), self._versions[c]]
        for unit in units:
            parts += [self._file_info(self._units[unit]), xml_lines(
                "workunit", "<name>%s</name>" % unit, "<app_name>%s</app_name>" % APP,
                "<rsc_fpops_est>1e10</rsc_fpops_est>", "<rsc_fpops_bound>1e16</rsc_fpops_bound>",
                "<rsc_memory_bound>1e9</rsc_memory_bound>", "<rsc_disk_bound>1e9</rsc_disk_bound>",
                xml_lines("file_ref", "<file_name>%s</file_name>" % self._units[unit],
                          "<open_name>workunit</open_name>"))]
        for task in tasks:
            _, unit, plan_class = self._tasks[task]
            parts += [xml_lines(
                "file_info", "<name>%s</name>" % self.upload_name(task), "<generated_locally/>",
                "<upload_when_present/>",
                "<max_nbytes>100000000</max_nbytes>",
                "<url>http://127.0.0.1:%d/file_upload_handler</url>" %
                self._upload_servers[task].port), xml_lines(
                "result", "<name>%s</name>" % task, "<wu_name>%s</wu_name>" % unit,
                "<platform>%s</platform>" % Client.PLATFORM, "<version_num>100</version_num>",
                "<plan_class>%s</plan_class>" % plan_class,
                "<report_deadline>%d</report_deadline>" % (time.time() + 86400),
                xml_lines("file_ref", "<file_name>%s</file_name>" % self.upload_name(task),
                          "<open_name>result</open_name>"))]
        return "".join(parts)
