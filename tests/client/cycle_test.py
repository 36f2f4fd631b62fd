"""Tests a work unit from download to data set, with five real BOINC clients as five hosts and a
small project (project.py): runs on the CPU, by OpenCL and with several threads; suspension; a power
cut; a lost host; a host that forges; a task that the server cancels; refused uploads; an
unreachable server; upload and report. Then the server's side: texcell-validate and
texcell-assimilate as BOINC's daemons call them."""
import contextlib
import io
import os
import re
import sqlite3
import struct
import subprocess
import time
import zipfile
import zlib

import numpy as np

import compiled
import tap
from harness import end_cleanly, Client, Server, Timeout, together, until
from project import Project
from work import PICTURES, pack, suited_workunit

LIMIT = 240         # seconds after which the test gives up
SECONDS = 6         # the duration of the undisturbed long unit with two threads
SAME, DIFFERENT = 0, 4      # exit codes of texcell-validate script-compare


class Host(Client):
    """A client that is attached to the project with its own account key."""

    def __init__(self, folder, project, key):
        super().__init__(os.path.join(folder, key), project,
                         POCL_CACHE_DIR=compiled.copy(os.path.join(folder, "kernels_" + key),
                                                      "glcm"))
        self.server, self.key = project, key
        self.preferences(leave_in_memory=1, checkpoint_seconds=1)
        self.start()
        self.attach(key)

    def works_on(self, task, fraction=0.02):
        """Waits until the task has done this fraction; returns its process."""
        process = self.task_process(task, 60)
        until(60, lambda: self.fraction(task) >= fraction, "%s is at work on %s" % (self.key, task))
        return process

    def does(self, task, words, what):
        """Waits until the task is reported; its stderr must contain `words`."""
        report = self.server.wait_for_report(task)
        tap.ok(report["exit_status"] == "0" and words in report["stderr_out"] and
               self.server.result(task) is not None, "%s: uploaded and reported" % what, report)
        until(20, lambda: task not in self.tasks(), "the client forgets what was acknowledged")

    def tries_again_to_upload(self, task):
        self.command("--file_transfer", self.url, self.server.upload_name(task), "retry")


# --- what the hosts go through -------------------------------------------------------

def test_cancelled_task(host, task):
    process = host.works_on(task)
    host.server.cancel(task)
    host.project("update")
    report = host.server.wait_for_report(task)
    tap.ok("the client aborted the task" in report["stderr_out"] and report["exit_status"] == "202",
           "cancelled by the server: the task ends and reports it", report)
    tap.ok(not process.alive() and host.server.result(task) is None,
           "cancelled: nothing is uploaded")


def forge(content):
    """The result with its last feature, a maximum, larger by the smallest step: a possible value.
    All checksums of the ZIP are right."""
    with zipfile.ZipFile(io.BytesIO(content)) as z:
        original = z.read("features.npy")          # stored, not deflated
    value, = struct.unpack("<d", original[-8:])
    after = original[:-8] + struct.pack("<d", value + 2.0 ** -32)
    old, new = (zlib.crc32(x).to_bytes(4, "little") for x in (original, after))
    return content.replace(original, after).replace(old, new)


def test_forging_host(host, task):
    """The server refuses the upload for a while, in which the file is changed."""
    project = host.server
    until(90, lambda: "Backing off" in host.log_tail(), "the client puts a refused upload off")
    path = os.path.join(host.project_dir, project.upload_name(task))
    tap.ok(project.result(task) is None and os.path.exists(path),
           "a refused upload: the client keeps the file")
    with open(path, "r+b") as f:
        content = forge(f.read())
        f.seek(0)
        f.write(content)
    project.refused.clear()
    host.tries_again_to_upload(task)
    host.does(task, "texcell: done", "after a refused upload")
    tap.ok(project.result(task) == content, "the upload after a refusal has the changed file")


def test_interruptions(host, task, upload_server):
    """A task with three threads is suspended and resumed; a power cut; the upload server is
    unreachable."""
    process = host.works_on(task)
    until(10, lambda: process.threads() == 4, "--nthreads 3: two threads more than a task has")
    host.tell(task, "suspend")
    until(10, lambda: host.task(task).get("active_task_state") == "SUSPENDED", "it is suspended")
    old_value = host.fraction(task)
    host.tell(task, "resume")
    until(30, lambda: host.fraction(task) > old_value, "it works on")
    until(30, lambda: os.path.exists(os.path.join(host.slot_of(task), "checkpoint")),
          "there is a checkpoint")
    host.power_cut()
    until(10, lambda: not process.alive(), "the power cut ends the task")
    host.start()
    host.works_on(task, old_value)
    ran = host.told(task, "starting_elapsed_time")
    with upload_server.unreachable():
        until(90, lambda: "Temporarily failed upload" in host.log_tail(), "an upload fails")
        tap.ok(host.server.result(task) is None,
               "an unreachable server: the client keeps the result")
    host.tries_again_to_upload(task)
    host.does(task, "going on from the checkpoint", "after a hard life")
    text = host.server.reports[task]["stderr_out"]
    tap.ok(re.search(r"texcell \S+, application version 1\.00, BOINC client \d+\.\d+\.\d+, "
                     r"threads: 3\n", text),
           "stderr has the versions and the number of threads", text)
    runs = re.findall(r"texcell: done, (\d+) s since the task was first started", text)
    last = [float(s) for s in re.findall(r"in (\d+\.\d) s",
                                         text.rpartition("going on from the checkpoint")[2])]
    tap.ok(ran > 0 and last and len(runs) == 1 and int(runs[0]) >= ran + sum(last) - 1 -
           0.05 * len(last),
           "stderr has the task's time since its first start", "%s s before\n%s" % (ran, text))


def test_lost_host(host, task, heir, long):
    """After a power cut the host does not come back: its task is sent to the host `heir`, for
    OpenCL."""
    host.works_on(task)
    host.power_cut()
    again = host.server.send(heir.key, "long", long, "opencl_cpu")
    heir.project("update")
    heir.does(again, "glcm on pthread", "the lost host's task, on another one")
    tap.ok(task not in host.server.reports, "the lost host reports nothing")


# --- the server's side ------------------------------------------------------------------

class Daemons:
    """A project's folders, and our programs as BOINC's script_validator and script_assimilator call
    them."""

    def __init__(self, folder, project, units):
        self.project = project
        self.folder = os.path.join(folder, "server")
        self.db = os.path.join(self.folder, "dataset.sqlite")
        for name in ("upload", "download", "tmp_host"):
            os.makedirs(os.path.join(self.folder, name))
        for unit, path in units.items():
            os.link(path, os.path.join(self.folder, "download", unit + ".zip"))
        self.run(0, "the data set is made", tap.TEXCELL_ASSIMILATE, "create", "--db", self.db)

    def path(self, task):
        """The path of a task's upload, which is written there first, as the upload handler
        would."""
        path = os.path.join(self.folder, "upload", self.project.upload_name(task))
        if not os.path.exists(path):
            with open(path, "wb") as f:
                f.write(self.project.result(task))
        return path

    def run(self, code, what, *argv):
        p = tap.run(argv, cwd=os.path.join(self.folder, "tmp_host"))
        tap.ok(p.returncode == code, what,
               "exit %d, not %d: %s" % (p.returncode, code, p.stdout + p.stderr))

    def validates(self, form, tasks, code, what):
        self.run(code, what, tap.TEXCELL_VALIDATE, form, *map(self.path, tasks))

    def assimilates(self, task, number, what):
        self.run(0, what, tap.TEXCELL_ASSIMILATE, "script", "--db", "../dataset.sqlite",
                 str(number), self.path(task))

    def rows(self, query):
        with contextlib.closing(sqlite3.connect(self.db)) as db:
            return db.execute(query).fetchall()


def judge(daemons, project, equal, forged):
    for task in sum(equal, ()) + (forged,):
        daemons.validates("script-init", (task,), 0, "%s: well-formed" % task)
    for a, b in equal:
        daemons.validates("script-compare", (a, b), SAME, "%s and %s are equal" % (a, b))
        tap.ok(project.result(a) == project.result(b), "%s and %s: byte for byte" % (a, b))
    for other in equal[0]:
        daemons.validates("script-compare", (other, forged), DIFFERENT,
                          "%s is not %s" % (forged, other))


def collect(daemons, project, canonical, forged):
    """BOINC passes one canonical result of each unit to the assimilator; here a forged one is
    passed, too."""
    daemons.assimilates(canonical, 1, "the canonical result is stored")
    daemons.assimilates(canonical, 1, "once more: no harm")
    daemons.assimilates(forged, 1, "a forged one does not stop the daemon")
    with np.load(io.BytesIO(project.result(canonical))) as r:
        names, want, expected = list(r["feature_names"]), r["features"], r["item_names"].tolist()
    column = "glcm_L64_d16_contrast_mean"
    got = daemons.rows("SELECT name, %s FROM glcm_wide_L64 ORDER BY item" % column)
    tap.ok(got == list(zip(expected, want[:, names.index(column)])),
           "the data set has the unit's features once", got)
    tap.ok(daemons.rows("SELECT result FROM refused") == [(project.upload_name(forged),)],
           "the data set has the forged result among the refused ones",
           daemons.rows("SELECT * FROM refused"))


def run_hosts(folder, project, upload_server):
    """Runs all hosts at the same time."""
    begin = time.monotonic()
    short, long = os.path.join(folder, "short.zip"), os.path.join(folder, "long.zip")
    endless = os.path.join(folder, "endless.zip")
    pack(short, ["camera", "moon"], 20)
    pack(endless, PICTURES, 145)
    hosts = {}
    try:
        for key in ("cpu", "opencl", "forger", "lost", "hard"):
            hosts[key] = Host(folder, project, key)
        project.add_app_version(tap.TEXCELL)
        project.add_app_version(tap.TEXCELL, "opencl_cpu", cmdline="--device opencl")
        project.add_app_version(tap.TEXCELL, "mt", cmdline="--nthreads 3", ncpus=2)
        cpu = project.send("cpu", "short", short)
        opencl = project.send("opencl", "short", short, "opencl_cpu")
        forged = project.send("forger", "short", short)
        project.refused.add(forged)
        expected = suited_workunit(long, SECONDS, 2)
        unwanted = project.send("cpu", "unwanted", endless)
        hard = project.send("hard", "long", long, "mt", upload_server)
        lost = project.send("lost", "long", long)
        for host in hosts.values():
            host.project("update")     # a host that asked too early would wait for ten minutes
        together(
            lambda: hosts["cpu"].does(cpu, "glcm on the CPU", "on the CPU"),
            lambda: test_cancelled_task(hosts["cpu"], unwanted),
            lambda: hosts["opencl"].does(opencl, "glcm on pthread", "on an OpenCL device"),
            lambda: test_forging_host(hosts["forger"], forged),
            lambda: test_lost_host(hosts["lost"], lost, hosts["opencl"], long),
            lambda: test_interruptions(hosts["hard"], hard, upload_server))
        tap.ok(project.result(hard) == expected, "the long unit's result is the undisturbed one's")
        daemons = Daemons(folder, project, {"short": short, "long": long})
        judge(daemons, project, ((cpu, opencl), (hard, "long_2")), forged)
        collect(daemons, project, cpu, forged)
    except (Timeout, RuntimeError, OSError, subprocess.TimeoutExpired) as e:
        tap.ok(False, "all waits end in time", "%s\n%s" % (e, "\n".join(
            "--- %s\n%s%s" % (key, host.slot_stderr(), host.log_tail())
            for key, host in hosts.items())))
    finally:
        for host in hosts.values():
            host.close()
    tap.note("%.0f s" % (time.monotonic() - begin))


def main():
    end_cleanly(LIMIT)
    with Project() as project, Server() as upload_server:
        run_hosts(tap.scratch(), project, upload_server)
    tap.done()


main()
