"""Runs the real BOINC client for tests, on the loopback interface alone: it does not touch an
installed client or /var/lib/boinc.

    with Server() as server:
        client = Client(folder, server)
        client.add_app("texcell", "/path/of/texcell")
        client.add_task("wu1", "/path/of/wu1.zip")
        client.start()
        ...
        client.close()

A client gets a new data folder, a free port, and either a state file as if a project had sent it
work (add_app, add_task), or a project to attach to (project.py). The upload handler is a small HTTP
server in this process. Every wait has a time limit. close() ends only processes that this module
started. If this process dies, the client dies with it, and the client's tasks notice that.

BOINC_CLIENT=FOLDER: use `boinc` and `boinccmd` of this folder instead of the installed ones.
"""
import concurrent.futures
import contextlib
import hashlib
import http.server
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time


PROGRAMS = os.environ.get("BOINC_CLIENT", "")


class Timeout(Exception):
    pass


def until(seconds, condition, what):
    """Waits until condition() returns a true value, and returns it. what: text for the error
    message."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Timeout("waited %g s in vain: %s" % (seconds, what))
        time.sleep(0.2)


def end_cleanly(limit):
    """Raises Timeout when the test gets a signal or has run for `limit` seconds, so that its
    `finally` blocks end the clients."""
    def give_up(*_):
        raise Timeout("the whole test takes more than %d s" % limit)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(limit)


def together(*stories):
    """Runs each function in a thread. When all have ended, raises the first exception."""
    with concurrent.futures.ThreadPoolExecutor(len(stories)) as pool:
        futures = [pool.submit(s) for s in stories]
    for f in futures:
        f.result()


class Process:
    """A process that this module did not start. Its start time distinguishes it from a later
    process with the same id."""

    def __init__(self, pid):
        self.pid = pid
        self.started = self._stat(19)

    def _stat(self, field):
        """A field of /proc/PID/stat, counted from 0 after the command's name; None if the process
        has ended."""
        try:
            with open("/proc/%d/stat" % self.pid) as f:
                fields = f.read().rpartition(")")[2].split()
        except OSError:
            return None
        return fields[field]

    def alive(self):
        return (self.started is not None and self._stat(19) == self.started
                and self._stat(0) not in (None, "Z", "X"))

    def threads(self):
        return int(self._stat(17) or 0)

    def cpu_seconds(self):
        ticks = [self._stat(11), self._stat(12)]
        if None in ticks:
            return None
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    def sleeps(self):
        """Whether the process uses almost no processor time during a second."""
        first = self.cpu_seconds()
        time.sleep(1)
        second = self.cpu_seconds()
        return second is not None and second - first < 0.05

    def signal(self, number):
        if self.alive():
            os.kill(self.pid, number)


class Server:
    """Accepts uploads on loopback and keeps them in uploads[file name]. Everything else gets a 404,
    so that the client never reports a task."""

    def __init__(self):
        self.uploads = {}
        self.port = 0
        self._http = None
        self._open()

    def get(self, path):
        """The body of the answer; None for a 404."""
        return None

    def post(self, path, body):
        return self.upload(body) if "file_upload_handler" in path else None

    def upload(self, body):
        """Answers an upload. Before the client uploads a larger file, it asks how many bytes of the
        file the server has; the answer is 0."""
        head, mark, data = body.partition(b"<data>\n")
        name = re.search(rb"<name>([^<]*)</name>", head)
        if mark and name:
            self.uploads[name.group(1).decode()] = data
        return (b"<data_server_reply>\n<status>0</status>\n<file_size>0</file_size>\n"
                b"</data_server_reply>\n")

    def _open(self):
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def do_GET(self):
                self._answer(server.get(self.path))

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self._answer(server.post(self.path, body))

            def _answer(self, body):
                if body is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._http.daemon_threads = True
        self.port = self._http.server_address[1]

    def _serve(self):
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def _close(self):
        self._http.shutdown()
        self._http.server_close()

    def __enter__(self):
        self._serve()
        return self

    def __exit__(self, *exc):
        self._close()

    @contextlib.contextmanager
    def unreachable(self):
        """A context in which connections are refused; the port stays reserved."""
        self._close()
        with socket.socket() as socket_:
            socket_.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            socket_.bind(("127.0.0.1", self.port))
            yield
        self._open()
        self._serve()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def xml_lines(tag, *lines):
    """XML with one tag a line, as the client parses its files line by line."""
    return "<%s>\n%s</%s>\n" % (tag, "".join(line if line.endswith("\n") else line + "\n"
                                            for line in lines), tag)


class Client:
    """A data folder, and the client that runs in it; after quit() another one can be started."""

    CPUS = 2  # the number of CPUs in the client's configuration
    PLATFORM = "x86_64-pc-linux-gnu"

    def __init__(self, folder, server, gpu="", without=None, **env):
        """gpu: the type of a GPU in the client's configuration. without: if not None, the client
        searches for GPUs of this type, and ignores those with these numbers."""
        self.dir = folder
        self.gpu, self.without = gpu, without
        self.env = env             # additional environment of the client and its tasks
        self.url = "http://127.0.0.1:%d/proj/" % server.port
        self.upload_url = "http://127.0.0.1:%d/proj_cgi/file_upload_handler" % server.port
        self.project_dir = os.path.join(folder, "projects", "127.0.0.1_%d_proj" % server.port)
        self.log = os.path.join(folder, "client.log")
        self.process = None
        self.port = None
        self._app, self._work, self._results = "", "", ""
        self._tasks_seen = {}
        os.makedirs(self.project_dir)
        os.makedirs(os.path.join(folder, "slots"))

    # --- what the project "sent" ---------------------------------------------

    def add_app(self, name, program, ncpus=1, gpu="", plan_class="", cmdline=""):
        """Adds the app. gpu: the type of GPU, of which each task uses one."""
        self._app_name = name
        shutil.copy(program, os.path.join(self.project_dir, name))
        main = xml_lines("file_ref", "<file_name>%s</file_name>" % name, "<main_program/>")
        version = ["<app_name>%s</app_name>" % name, "<version_num>100</version_num>",
                   "<api_version>7.20.5</api_version>", "<avg_ncpus>%g</avg_ncpus>" % ncpus]
        if cmdline:
            version.append("<cmdline>%s</cmdline>" % cmdline)
        self._plan_class = plan_class
        if plan_class:
            version.append("<plan_class>%s</plan_class>" % plan_class)
        if gpu:
            version.append(xml_lines("coproc", "<type>%s</type>" % gpu, "<count>1</count>"))
        self._write(os.path.join(self.project_dir, "app_info.xml"), xml_lines(
            "app_info", xml_lines("app", "<name>%s</name>" % name),
            xml_lines("file_info", "<name>%s</name>" % name, "<executable/>"),
            xml_lines("app_version", *version, main)))
        self._app = (xml_lines("app", "<name>%s</name>" % name)
                     + xml_lines("file", "<name>%s</name>" % name, "<nbytes>0</nbytes>",
                                 "<max_nbytes>0</max_nbytes>", "<status>1</status>",
                                 "<executable/>")
                     + xml_lines("app_version", *version, "<platform>%s</platform>" % self.PLATFORM,
                                 "<flops>1e9</flops>", main))

    def add_task(self, name, workunit, suspended=False):
        """Adds a work unit and its task NAME_0, whose result is uploaded as NAME_0_0. suspended:
        the task waits until it is resumed; otherwise the client runs it as soon as a CPU is
        free."""
        with open(workunit, "rb") as f:
            content = f.read()
        self._write(os.path.join(self.project_dir, name + ".zip"), content)
        self._work += xml_lines(
            "file", "<name>%s.zip</name>" % name, "<nbytes>%d</nbytes>" % len(content),
            "<max_nbytes>0</max_nbytes>", "<status>1</status>",
            "<md5_cksum>%s</md5_cksum>" % hashlib.md5(content).hexdigest())
        self._work += xml_lines(
            "file", "<name>%s_0_0</name>" % name, "<nbytes>0</nbytes>",
            "<max_nbytes>100000000</max_nbytes>", "<status>0</status>",
            "<upload_url>%s</upload_url>" % self.upload_url)
        self._results += xml_lines(
            "workunit", "<name>%s</name>" % name, "<app_name>%s</app_name>" % self._app_name,
            "<version_num>100</version_num>", "<rsc_fpops_est>1e11</rsc_fpops_est>",
            "<rsc_fpops_bound>1e16</rsc_fpops_bound>", "<rsc_memory_bound>1e9</rsc_memory_bound>",
            "<rsc_disk_bound>1e9</rsc_disk_bound>",
            xml_lines("file_ref", "<file_name>%s.zip</file_name>" % name,
                      "<open_name>workunit</open_name>"))
        self._results += xml_lines(
            "result", "<name>%s_0</name>" % name, "<final_cpu_time>0</final_cpu_time>",
            "<exit_status>0</exit_status>", "<state>2</state>",
            "<platform>%s</platform>" % self.PLATFORM, "<version_num>100</version_num>",
            "<plan_class>%s</plan_class>" % self._plan_class,
            "<wu_name>%s</wu_name>" % name,
            "<report_deadline>%d.0</report_deadline>" % (time.time() + 86400),
            "<received_time>%d.0</received_time>" % time.time(),
            *(["<suspended_via_gui/>"] if suspended else []),
            xml_lines("file_ref", "<file_name>%s_0_0</file_name>" % name,
                      "<open_name>result</open_name>"))

    def preferences(self, leave_in_memory, checkpoint_seconds=2, cpus=100):
        """Sets preferences, which take effect at once in a running client, otherwise at its
        start."""
        self._write(os.path.join(self.dir, "global_prefs_override.xml"), xml_lines(
            "global_preferences", "<run_on_batteries>1</run_on_batteries>",
            "<run_if_user_active>1</run_if_user_active>",
            "<run_gpu_if_user_active>1</run_gpu_if_user_active>",
            "<disk_interval>%d</disk_interval>" % checkpoint_seconds,
            "<leave_apps_in_memory>%d</leave_apps_in_memory>" % leave_in_memory,
            "<max_ncpus_pct>%d</max_ncpus_pct>" % cpus, "<cpu_usage_limit>100</cpu_usage_limit>",
            "<suspend_cpu_usage>0</suspend_cpu_usage>", "<disk_max_used_gb>0</disk_max_used_gb>",
            "<disk_max_used_pct>100</disk_max_used_pct>", "<disk_min_free_gb>0</disk_min_free_gb>",
            "<ram_max_used_busy_pct>100</ram_max_used_busy_pct>",
            "<ram_max_used_idle_pct>100</ram_max_used_idle_pct>",
            "<vm_max_used_pct>100</vm_max_used_pct>"))
        if self.process:
            self.command("--read_global_prefs_override")

    def _write_config(self):
        # Normal priority: with a low one other processes could leave the task no time.
        self._write(os.path.join(self.dir, "cc_config.xml"), xml_lines(
            "cc_config",
            xml_lines("log_flags", "<task>1</task>", "<task_debug>1</task_debug>",
                      "<cpu_sched>1</cpu_sched>", "<checkpoint_debug>1</checkpoint_debug>"),
            xml_lines("options", "<allow_multiple_clients>1</allow_multiple_clients>",
                      "<skip_cpu_benchmarks>1</skip_cpu_benchmarks>",
                      "<report_results_immediately>1</report_results_immediately>",
                      "<dont_contact_ref_site>1</dont_contact_ref_site>",
                      "<no_info_fetch>1</no_info_fetch>",
                      "<no_priority_change>1</no_priority_change>", "<ncpus>%d</ncpus>" % self.CPUS,
                      self._gpu_option())))
        self._write(os.path.join(self.dir, "gui_rpc_auth.cfg"), secrets.token_hex(16))

    def _gpu_option(self):
        if not self.gpu:
            return "<no_gpus>1</no_gpus>"
        if self.without is not None:
            return "<use_all_gpus>1</use_all_gpus>\n" + "".join(
                xml_lines("exclude_gpu", "<url>%s</url>" % self.url,
                          "<device_num>%d</device_num>" % n) for n in self.without)
        return xml_lines("coproc", "<type>%s</type>" % self.gpu, "<count>1</count>",
                         "<peak_flops>1e10</peak_flops>", "<device_nums>0</device_nums>")

    def app_config(self, content):
        """Writes the volunteer's app_config.xml, as in an example of docs/volunteer.md."""
        self._write(os.path.join(self.project_dir, "app_config.xml"), content)
        if self.process:
            self.command("--read_cc_config")

    def _project_state(self):
        """The part of the state file about a project that has sent work."""
        master = self.url
        self._write(os.path.join(self.dir, "account_%s.xml" % os.path.basename(self.project_dir)),
                    xml_lines("account", "<master_url>%s</master_url>" % master,
                              "<authenticator>%s</authenticator>" % secrets.token_hex(16)))
        return (xml_lines("project", "<master_url>%s</master_url>" % master,
                          "<project_name>proj</project_name>", "<dont_request_more_work/>",
                          "<scheduler_url>%s</scheduler_url>" %
                          master.replace("/proj/", "/proj_cgi/cgi"))
                + self._app + self._work + self._results)

    def _write_state(self, work):
        self._write(os.path.join(self.dir, "client_state.xml"), xml_lines(
            "client_state", "<platform_name>%s</platform_name>" % self.PLATFORM,
            "<core_client_major_version>7</core_client_major_version>",
            "<core_client_minor_version>20</core_client_minor_version>",
            "<core_client_release>5</core_client_release>",
            "<user_run_request>1</user_run_request>",
            "<user_network_request>1</user_network_request>", work))

    @staticmethod
    def _write(path, content):
        if isinstance(content, str):
            content = content.encode()
        with open(path, "wb") as f:
            f.write(content)

    # --- the client -------------------------------------------------------------

    def start(self):
        """Starts a client in the folder; a later start continues from its state."""
        if not os.path.exists(os.path.join(self.dir, "cc_config.xml")):
            self._write_config()
            self._write_state(self._project_state() if self._app else "")
        for attempt in range(3):
            self.port = free_port()
            with open(self.log, "ab") as log:
                self.process = subprocess.Popen(
                    ["setpriv", "--pdeathsig", "KILL", os.path.join(PROGRAMS, "boinc"), "--dir",
                     self.dir,
                     "--allow_multiple_clients", "--gui_rpc_port", str(self.port)],
                    cwd=self.dir, env=self._environment(), stdin=subprocess.DEVNULL, stdout=log,
                    stderr=log,
                    start_new_session=True)
            try:
                until(20, lambda: self.process.poll() is not None or self._answers(),
                      "the client answers on its port")
            except Timeout:
                if attempt == 2:
                    raise
            if self.process.poll() is None and self._answers():
                return
            self.power_cut()
        raise Timeout("the client does not start:\n" + self.log_tail())

    def attach(self, key):
        """Attaches the client to the server's project, with an account key."""
        self.command("--project_attach", self.url, key)

    def project(self, operation):
        """Runs an operation on the project: update, suspend, resume, ..."""
        self.command("--project", self.url, operation)

    def _environment(self):
        """The environment without proxies; tasks inherit it."""
        env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
        return dict(env, **self.env)

    def _answers(self):
        return self._boinccmd("--get_cc_status").returncode == 0

    def _boinccmd(self, *arguments):
        """Runs boinccmd in the data folder, where it finds the password."""
        return subprocess.run([os.path.join(PROGRAMS, "boinccmd"), "--host",
                               "127.0.0.1:%d" % self.port] + list(arguments),
                              cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, universal_newlines=True, timeout=20)

    def command(self, *arguments):
        done = self._boinccmd(*arguments)
        if done.returncode != 0:
            raise RuntimeError("boinccmd %s: %s" % (" ".join(arguments), done.stdout))
        return done.stdout

    def quit(self, seconds=60):
        """Asks the client to quit, and waits for it."""
        self.command("--quit")
        self.process.wait(seconds)
        self.process = None

    def kill(self):
        """Kills only the client, as a crash would; its tasks stay."""
        self.process.kill()
        self.process.wait(20)
        self.process = None

    def power_cut(self):
        """Kills the client and its tasks at once. They are one process group, whose id cannot be
        reused before wait() was called for its leader."""
        if self.process and self.process.returncode is None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait(20)
        self.process = None

    def close(self):
        self.power_cut()
        for task in self._tasks_seen.values():
            task.signal(signal.SIGKILL)

    def log_tail(self, lines=40):
        with open(self.log, errors="replace") as f:
            return "".join(f.readlines()[-lines:])

    # --- its tasks ----------------------------------------------------------------

    def tasks(self):
        """{name: {key: text}} as boinccmd --get_tasks prints it."""
        tasks, current = {}, {}
        for line in self.command("--get_tasks").splitlines():
            if re.match(r"\d+\) ---", line):
                current = {}
            key, colon, text = line.strip().partition(": ")
            if colon:
                current[key] = text
                if key == "name":
                    tasks[text] = current
        return tasks

    def task(self, name):
        return self.tasks().get(name, {})

    def fraction(self, name):
        return float(self.task(name).get("fraction done", 0))

    def tell(self, name, operation):
        """Runs an operation on a task: "suspend", "resume" or "abort"."""
        self.command("--task", self.url, name, operation)

    def task_process(self, name, seconds=30):
        """Waits until the task runs; returns its process."""
        def find():
            task = self.task(name)
            if task.get("active_task_state") != "EXECUTING" or int(task.get("PID", 0)) <= 0:
                return None
            process = Process(int(task["PID"]))
            return process if process.alive() else None
        process = until(seconds, find, "task %s runs" % name)
        self._tasks_seen[process.pid, process.started] = process
        return process

    def slot(self, number=0):
        return os.path.join(self.dir, "slots", str(number))

    def slot_of(self, task):
        return self.slot(int(self.task(task).get("slot", 0)))

    def told(self, task, tag):
        """A number in init_data.xml, which the client writes at the task's start."""
        with open(os.path.join(self.slot_of(task), "init_data.xml")) as f:
            return float(re.search("<%s>([^<]*)<" % tag, f.read())[1])

    def stderr_of(self, task):
        return self.slot_stderr(int(self.task(task).get("slot", 0)))

    def slot_stderr(self, number=0):
        """What the task in this slot has written to stderr so far."""
        try:
            with open(os.path.join(self.slot(number), "stderr.txt"), errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def result(self, name):
        """{tag: text} of a finished task in the client's state file, with stderr_out; {} before the
        task has finished."""
        with open(os.path.join(self.dir, "client_state.xml"), errors="replace") as f:
            for block in re.findall(r"<result>\n(.*?)\n</result>", f.read(), re.S):
                fields = dict(re.findall(r"<(\w+)>(.*?)</\1>", block, re.S))
                if fields.get("name") == name:
                    return fields
        return {}
