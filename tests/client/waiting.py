"""Tests tasks that must wait, in the real BOINC client: the disk is full for an hour, the clock is
set back, the driver is missing for three days, and so on. No task is lost, and its result equals
that of "texcell run"."""
import atexit
import contextlib
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
from scipy import ndimage

import compiled
import tap
from harness import Client, Server, Timeout, end_cleanly, until
from oracle import workunit
from work import pack, run_alone, suited_workunit

LIMIT = 900         # seconds after which the test gives up
SECONDS = 20        # the duration of an undisturbed task
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"


def in_own_mounts():
    """Starts this script again in a separate mount namespace. Returns whether it runs in one."""
    if os.environ.get("TEXCELL_OWN_MOUNTS"):
        return True
    if tap.run(["unshare", "-m", "true"]).returncode != 0:
        return False
    os.execvpe("unshare", ["unshare", "-m", sys.executable, *sys.argv],
               dict(os.environ, TEXCELL_OWN_MOUNTS="1"))


OWN_MOUNTS = in_own_mounts()
WORK = tap.scratch()


class Disk:
    """A small file system that can be filled."""

    def __init__(self, name, megabytes=64):
        self.folder = os.path.join(WORK, name)
        os.makedirs(self.folder)
        image = self.folder + ".image"
        with open(image, "wb") as f:
            f.truncate(megabytes << 20)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
        self._mount("-o", "loop", image, self.folder)

    @staticmethod
    def _mount(*words):
        subprocess.run(["mount", *words], check=True)

    def take_over(self, folder):
        """Moves a folder to this disk (bind mount)."""
        copy = os.path.join(self.folder, os.path.basename(folder))
        subprocess.run(["cp", "-r", folder, copy], check=True)
        self._mount("--bind", copy, folder)

    def fill(self):
        """Fills the disk, as another program might."""
        with open(os.path.join(self.folder, "filler"), "ab", buffering=0) as f:
            for size in (1 << 20, 1 << 12, 1):
                with contextlib.suppress(OSError):
                    while f.write(bytes(size)) == size:
                        pass

    def make_room(self):
        os.remove(os.path.join(self.folder, "filler"))

    def slow(self, bytes_a_second):
        """Limits the speed of writing; 0 removes the limit. Returns whether the kernel supports
        that."""
        number = os.stat(self.folder).st_dev
        try:
            with open("/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device", "w") as f:
                f.write("%d:%d %d" % (os.major(number), os.minor(number), bytes_a_second))
        except OSError:
            return False
        if bytes_a_second > 0:
            atexit.register(self.slow, 0)      # as another disk may get the device's number later
        return True

    def set_read_only(self, folder, read_only):
        """Makes a folder read-only or writable; open files stay writable."""
        self._mount("-o", "remount,bind,%s" % ("ro" if read_only else "rw"), folder)


class Clock:
    """The clock of a client and its tasks, set by libfaketime."""

    def __init__(self, name, rate=1):
        self.path = os.path.join(WORK, name + ".clock")
        self.rate = rate
        self.ahead = 0
        self.jump(0)

    def jump(self, seconds):
        self.ahead += seconds
        with open(self.path + ".new", "w") as f:
            f.write("%+d" % self.ahead + (" x%g" % self.rate if self.rate != 1 else "") + "\n")
        os.rename(self.path + ".new", self.path)

    def environment(self, steady=True):
        """The environment variables for libfaketime. steady: whether the monotonic clock stays
        unchanged."""
        monotonic = {"FAKETIME_DONT_FAKE_MONOTONIC": "1"} if steady else {}
        return {"LD_PRELOAD": FAKETIME, "FAKETIME_TIMESTAMP_FILE": self.path,
                "FAKETIME_NO_CACHE": "1", "NO_FAKE_STAT": "1", **monotonic}


def program_with(environment):
    """The path of a script that runs texcell with these additional environment variables."""
    settings = " ".join("%s='%s'" % x for x in environment.items())
    program = os.path.join(WORK, "program")
    with open(program, "w") as f:
        f.write("#!/bin/sh\n%s exec %s \"$@\"\n" % (settings, tap.TEXCELL))
    os.chmod(program, 0o755)
    return program


@contextlib.contextmanager
def client_with_task(name, server, unit, environment=None, program=tap.TEXCELL, cmdline="", **app):
    client = Client(os.path.join(WORK, name), server, **(environment or {}))
    try:
        client.add_app("texcell", program, cmdline=cmdline, **app)
        client.add_task(os.path.basename(name), unit)
        client.preferences(leave_in_memory=1, checkpoint_seconds=1)
        yield client
    except (Timeout, RuntimeError, OSError, subprocess.TimeoutExpired) as e:
        tap.ok(False, name + ": no step exceeds its time limit",
               "%s\n%s%s" % (e, client.slot_stderr(), client.log_tail()))
    finally:
        client.close()


def has_checkpoint(client):
    return os.path.exists(os.path.join(client.slot(), "checkpoint"))


def check_done(client, server, task, expected):
    until(240, lambda: task + "_0" in server.uploads, "the result is uploaded")
    tap.ok(server.uploads[task + "_0"] == expected, task +
           ": the result is that of an undisturbed run")
    until(20, lambda: "stderr_out" in client.result(task), "the task is over")
    result = client.result(task)
    tap.ok(result["exit_status"] == "0", task + ": exit status 0", result["exit_status"])
    with open(client.log, errors="replace") as f:
        tap.ok("exited with zero status but no" not in f.read(),
               task + ": no exit that the client counts as a failure", client.log_tail())
    return result["stderr_out"]


# --- the disk -------------------------------------------------------------------------------

def check_waiting(client, process, what, times=1):
    until(60, lambda: client.slot_stderr().count("waiting for the disk") >= times, what)
    tap.ok(process.alive() and client.slot_stderr().count("waiting for the disk") == times,
           what + ": the task waits, and reports it once", client.slot_stderr())


def disk_full_for_an_hour(server, unit, expected):
    """The task's files are on a full disk, and the client's own files on another one."""
    rate = 60
    disk, clock = Disk("disk_of_an_hour"), Clock("hour", rate)
    with client_with_task("hour", server, unit, clock.environment(steady=False)) as client:
        for folder in ("slots", "projects"):
            disk.take_over(os.path.join(client.dir, folder))
        client.start()
        process = client.task_process("hour_0")
        until(60, lambda: has_checkpoint(client), "there is a checkpoint")
        disk.fill()
        check_waiting(client, process, "a full disk")
        time.sleep(3600 / rate)
        tap.ok(process.alive(), "a full disk: after an hour the same process waits")
        disk.make_room()
        messages = check_done(client, server, "hour_0", expected)
        tap.ok("the disk takes files again" in messages and
               messages.count("waiting for the disk") == 1,
               "a full disk: when there is space again, the task reports that it continues",
               messages)


def disk_full_at_a_stop(server, unit, expected):
    """A task that is stopped while the disk is full can write its checkpoint. It is continued while
    the disk is still full; then the folder of the result is read-only."""
    disk = Disk("disk_of_a_stop")
    with client_with_task("stop", server, unit) as client:
        for folder in ("slots", "projects"):
            disk.take_over(os.path.join(client.dir, folder))
        client.preferences(leave_in_memory=1, checkpoint_seconds=1000)
        client.start()
        process = client.task_process("stop_0")
        until(60, lambda: client.fraction("stop_0") > 0.3, "it works")
        disk.fill()
        old_fraction = client.fraction("stop_0")
        process.signal(signal.SIGTERM)
        until(20, lambda: not process.alive(), "it ends")
        messages = client.slot_stderr()
        tap.ok("interrupted by signal 15" in messages and "no checkpoint" not in messages and
               has_checkpoint(client),
               "a full disk: a stopped task writes its checkpoint", messages)
        process = client.task_process("stop_0")
        check_waiting(client, process, "started on a full disk")
        disk.make_room()
        disk.set_read_only(client.dir + "/projects", True)
        check_waiting(client, process, "a folder that is read-only", 2)
        tap.ok(client.fraction("stop_0") >= old_fraction,
               "a read-only folder: the task keeps its progress")
        client.tell("stop_0", "suspend")
        until(10, lambda: client.task("stop_0")["active_task_state"] == "SUSPENDED", "suspended")
        client.tell("stop_0", "resume")
        disk.set_read_only(client.dir + "/projects", False)
        check_done(client, server, "stop_0", expected)


def disk_full_for_the_client(server, unit, expected):
    """The client cannot write its own state, and ends."""
    disk = Disk("disk_of_a_client")
    with client_with_task(os.path.join("disk_of_a_client", "all"), server, unit) as client:
        client.log = os.path.join(WORK,
                                  "all.log")     # not on the client's disk, which will be full
        client.start()
        process = client.task_process("all_0")
        until(60, lambda: client.fraction("all_0") > 0.2, "it works")
        client.preferences(leave_in_memory=1, checkpoint_seconds=1000)
        old_fraction = client.fraction("all_0")
        disk.fill()
        with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
            client.tell("all_0", "suspend")    # makes the client write its state
        client.process.wait(60)
        until(30, lambda: not process.alive(), "the task leaves with it")
        tap.ok("giving up" in client.log_tail() and has_checkpoint(client) and
               "texcell: the client is gone" in client.slot_stderr(),
               "a full disk of the client: it ends, and the task keeps its checkpoint",
               client.log_tail() + client.slot_stderr())
        disk.make_room()
        client.start()
        with contextlib.suppress(RuntimeError):
            client.tell("all_0", "resume")
        process = client.task_process("all_0")
        until(20, lambda: client.fraction("all_0") >= old_fraction, "it goes on where it was")
        check_done(client, server, "all_0", expected)


def unit_with_labels(path):
    """Writes a work unit whose result has three megabytes. Returns the result's bytes."""
    rng = np.random.default_rng(1)
    pictures = [(ndimage.gaussian_filter(rng.normal(size=(1500, 1500)), 1) * 600 + 128).clip(0, 255)
                for _ in range(3)]
    workunit.write(path, "cellcount", {"polarity": "bright", "labels": True},
                   [workunit.item("p%d" % i, [p.astype(np.uint8)]) for i, p in enumerate(pictures)])
    run_alone(path, path + ".npz", 1)
    with open(path + ".npz", "rb") as f:
        return f.read()


def disk_is_slow(server, _, __):
    """A task on a slow disk reacts to the client while it writes, and does not stay at 100%."""
    disk, unit = Disk("slow_disk"), os.path.join(WORK, "labels.zip")
    expected = unit_with_labels(unit)
    with client_with_task("slow", server, unit) as client:
        for folder in ("slots", "projects"):
            disk.take_over(os.path.join(client.dir, folder))
        os.sync()
        if not disk.slow(100000):
            tap.skip("a slow disk", "no cgroup that throttles a device")
            return
        client.preferences(leave_in_memory=1, checkpoint_seconds=60)
        spool = os.path.join(client.slot(), "spool")
        result = os.path.join(client.project_dir, "slow_0_0.tmp")
        for file, least_size in ((spool, 1 << 20), (result, 1), (result, 2 << 20)):
            client.start()
            process = client.task_process("slow_0")
            until(120, lambda: os.path.exists(file) and os.path.getsize(file) >= least_size,
                  file + " is being written")
            start = time.monotonic()
            client.command("--quit")
            until(60, lambda: not process.alive(), "it leaves")
            took = time.monotonic() - start
            client.process.wait(60)
            tap.ok(took < 10, "a slow disk, %d bytes of %s: the task ends with the client"
                   % (least_size, os.path.basename(file)), took)
        client.start()
        process = client.task_process("slow_0")
        complete = 0
        while process.alive():
            complete = complete or client.fraction("slow_0") >= 0.99999 and time.monotonic()
            time.sleep(0.2)
        tap.ok(not complete or time.monotonic() - complete < 10,
               "a slow disk: the task does not stay at 100%")
        check_done(client, server, "slow_0", expected)


# --- the clock -------------------------------------------------------------------------------

DAY = 24 * 60
STEPS = (2, 15, 60, DAY)           # minutes


def clock_of_the_task(server, unit, expected):
    """Only the task's clock is set back; the task must still react to the client."""
    clock = Clock("task")
    program = program_with(clock.environment())
    with client_with_task("task", server, unit, program=program) as client:
        client.start()
        process = client.task_process("task_0")
        for minutes in (*STEPS, -DAY):
            old_fraction = client.fraction("task_0")
            until(60, lambda: client.fraction("task_0") != old_fraction, "it reports")
            process.signal(signal.SIGSTOP)     # as when the computer sleeps
            time.sleep(1)
            clock.jump(-60 * minutes)
            process.signal(signal.SIGCONT)
            start = time.monotonic()
            client.tell("task_0", "suspend")
            until(60, process.sleeps, "suspended, it sleeps")
            took = time.monotonic() - start
            tap.ok(took < 10 and process.alive(),
                   "a task's clock is set back by %d minutes: the task reacts" % minutes, took)
            client.tell("task_0", "resume")
        check_done(client, server, "task_0", expected)


def clock_of_both(server, unit, expected):
    """The clock of client and task is set back. The client then sends nothing until its clock
    reaches the old time or it is restarted; the task works on, and notices when the client ends."""
    clock = Clock("both")
    with client_with_task("both", server, unit, clock.environment()) as client:
        client.start()
        process = client.task_process("both_0")
        for minutes in STEPS:
            clock.jump(-60 * minutes)
            time.sleep(0.5)
            old_seconds = process.cpu_seconds()
            until(10, lambda: process.cpu_seconds() > old_seconds + 0.3, "it works")
            tap.ok(process.alive(),
                   "the computer's clock is set back by %d minutes: the task works on" % minutes)
        client.kill()
        end = time.monotonic()
        until(60, lambda: not process.alive(), "it leaves")
        messages = client.slot_stderr()
        tap.ok("texcell: the client is gone" in messages and time.monotonic() - end < 15,
               "a clock that was set back: the task notices that the client has ended", messages)
        client.start()
        messages = check_done(client, server, "both_0", expected)
        tap.ok("going on from the checkpoint" in messages,
               "a clock that was set back: the task continues", messages)


# --- the driver -------------------------------------------------------------------------------

def driver_is_missing(server, _, __):
    """The OpenCL driver is missing for three days. The clock is advanced by the times for which the
    task postpones itself."""
    clock = Clock("driver")
    library = os.path.join(WORK, "libOpenCL.so")
    unit = os.path.join(WORK, "tiny.zip")
    pack(unit, ["coins"], 4)
    command = [tap.TEXCELL, "run", unit, "-o", unit + ".npz", "--device", "opencl"]
    if tap.run(command).returncode != 0:
        tap.skip("a missing driver", "no OpenCL device")
        return
    environment = dict(clock.environment(), TEXCELL_OPENCL_LIBRARY=library,
                       POCL_CACHE_DIR=compiled.copy(WORK, "glcm"))
    program = program_with({"LD_PRELOAD": ""})
    with client_with_task("driver", server, unit, environment, program,
                          "--device opencl") as client:
        client.start()
        waits = []
        while sum(waits) < 3 * 86400:
            waits = until(30, lambda before=len(waits): times_postponed(client, before),
                          "the task waits")
            if len(waits) == 1:
                tap.ok(client.task("driver_0")["active_task_state"] == "UNINITIALIZED",
                       "a missing driver: the client shows the task as UNINITIALIZED",
                       client.task("driver_0"))
            if sum(waits) >= 3 * 86400:
                os.symlink("/usr/lib/x86_64-linux-gnu/libOpenCL.so.1", library)
            clock.jump(waits[-1] + 1)
        tap.ok(waits[:3] == [300, 3600, 3600] and waits[-1] == 86400 and len(waits) < 50,
               "a missing driver: the task waits for three days", waits)
        notices = client.command("--get_notices", "0")
        tap.ok(notices.count("postponed for") == 1 and "no OpenCL on this machine" in notices,
               "a missing driver: the volunteer gets one notice", notices)
        with open(unit + ".npz", "rb") as f:
            check_done(client, server, "driver_0", f.read())


def times_postponed(client, before):
    """The waiting times [s] in the client's log; None unless there are more than `before`."""
    with open(client.log, errors="replace") as f:
        waits = [int(x) for x in re.findall(r"postponed for (\d+) seconds: no OpenCL", f.read())]
    return waits if len(waits) > before else None


# --- the CPUs -------------------------------------------------------------------------------

def cpus_are_taken_away(server, unit, expected):
    """The volunteer limits the CPUs that BOINC may use, and removes the limit. A task has a thread
    for each CPU, including the main thread, and a thread of BOINC's. A suspended task uses no
    CPU."""
    with client_with_task("cpus", server, unit, ncpus=2) as client:
        client.start()
        process = client.task_process("cpus_0")
        for percent, threads in ((100, 3), (50, 2), (100, 3)):
            client.preferences(leave_in_memory=1, checkpoint_seconds=1, cpus=percent)
            until(20, lambda: process.threads() == threads,
                  "%d%% of the CPUs: %d threads" % (percent, threads))
        tap.ok(process.alive(),
               "use at most N% of the CPUs: a running task changes its number of threads")
        client.tell("cpus_0", "suspend")
        until(20, process.sleeps, "suspended, it sleeps")
        time.sleep(10)
        client.tell("cpus_0", "resume")
        messages = check_done(client, server, "cpus_0", expected)
        seconds = int(re.search(r"texcell: done, (\d+) s", messages)[1])
        items = sum(map(float, re.findall(r" in (\d+\.\d) s\n", messages)))
        tap.ok(abs(seconds - items) < 5,
               "the time that a task reports excludes its suspension", messages)


# --- unusual file systems -----------------------------------------------------------------------

ODD = {"ntfs": (["mkntfs", "-f", "-q"], ["ntfs-3g"]),
       "exfat": (["mkfs.exfat"], ["mount.exfat-fuse"]),
       "btrfs": (["mkfs.btrfs", "-q"], ["mount"]),
       "xfs": (["mkfs.xfs", "-q"], ["mount"])}


def odd_file_systems(server, unit, expected):
    """All data of a client are on a file system that is rare on Linux, or that copies on write."""
    for name, (make, mount) in ODD.items():
        folder, image = os.path.join(WORK, name), os.path.join(WORK, name + ".image")
        with open(image, "wb") as f:
            f.truncate(400 << 20)
        os.mkdir(folder)
        device = tap.run(["losetup", "-f", "--show", image]).stdout.strip()
        try:
            made = all(tap.run(line).returncode == 0
                       for line in ([*make, device], [*mount, device, folder]))
        except OSError:
            made = False
        tap.run(["losetup", "-d", device])     # takes effect when the device is unused
        if not made:
            tap.skip(name, "no such file system here")
            continue
        with client_with_task(os.path.join(name, "data"), server, unit) as client:
            client.start()
            process = client.task_process("data_0")
            until(60, lambda: client.fraction("data_0") > 0.2, "it works")
            process.signal(signal.SIGTERM)
            until(20, lambda: not process.alive(), "it ends")
            check_done(client, server, "data_0", expected)
        del server.uploads["data_0_0"]
        tap.run(["umount", "-l", folder])


def mount_ntfs(device, folder, client):
    """Mounts NTFS for the client's slots and projects. Returns the process of ntfs-3g, which stays
    in the foreground."""
    os.mkdir(folder)
    files = subprocess.Popen(["ntfs-3g", "-o", "no_detach", device, folder],
                             stdout=subprocess.DEVNULL)
    until(10, lambda: os.path.ismount(folder), "it is mounted")
    for name in ("slots", "projects"):
        folder_on_ntfs, client_folder = os.path.join(folder, name), os.path.join(client.dir, name)
        if not os.path.exists(folder_on_ntfs):
            subprocess.run(["cp", "-r", client_folder, folder_on_ntfs], check=True)
        subprocess.run(["mount", "--bind", folder_on_ntfs, client_folder], check=True)
    return files


def file_system_goes_away(server, unit, expected):
    """A file system, like a file server, does not answer for longer than BOINC's heartbeat period.
    Then it ends, and with it all open files; the client is started again."""
    image = os.path.join(WORK, "away.image")
    with open(image, "wb") as f:
        f.truncate(64 << 20)
    device = tap.run(["losetup", "-f", "--show", image]).stdout.strip()
    try:
        made = tap.run(["mkntfs", "-f", "-q", device]).returncode == 0
    except OSError:
        made = False
    if not made:
        tap.skip("a file system that ends", "no NTFS-3G here")
        return
    with client_with_task("goes", server, unit) as client:
        files = mount_ntfs(device, os.path.join(WORK, "away"), client)
        client.start()
        process = client.task_process("goes_0")
        until(60, lambda: has_checkpoint(client), "there is a checkpoint")
        old_fraction = client.fraction("goes_0")
        files.send_signal(signal.SIGSTOP)
        time.sleep(40)
        files.send_signal(signal.SIGCONT)
        until(60, lambda: client.fraction("goes_0") > old_fraction, "it reports again")
        tap.ok(process.alive(), "a file system that does not answer for 40 s: the task continues")
        files.kill()
        files.wait(10)
        time.sleep(3)
        client.power_cut()
        for name in ("slots", "projects"):
            subprocess.run(["umount", "-l", os.path.join(client.dir, name)], check=True)
        tap.run(["umount", "-l", os.path.join(WORK, "away")])
        files = mount_ntfs(device, os.path.join(WORK, "back"), client)
        client.start()
        messages = check_done(client, server, "goes_0", expected)
        tap.ok("going on from the checkpoint" in messages,
               "a file system that ended: the task continues from its checkpoint",
               messages)
        for name in ("slots", "projects"):
            tap.run(["umount", "-l", os.path.join(client.dir, name)])
        tap.run(["umount", "-l", os.path.join(WORK, "back")])
        files.wait(20)
    tap.run(["losetup", "-d", device])


def main():
    end_cleanly(LIMIT)
    if not OWN_MOUNTS or not os.path.exists(FAKETIME):
        tap.skip("all", "no mounts of its own, or no libfaketime")
        tap.done()
    unit = os.path.join(WORK, "wu.zip")
    expected = suited_workunit(unit, SECONDS, 1)
    with Server() as server:
        for story in STORIES:
            if len(sys.argv) == 1 or story.__name__ in sys.argv[1:]:
                story(server, unit, expected)
    tap.done()


STORIES = [disk_full_for_an_hour, disk_full_at_a_stop, disk_full_for_the_client, disk_is_slow,
           clock_of_the_task, clock_of_both, driver_is_missing, cpus_are_taken_away,
           odd_file_systems, file_system_goes_away]

main()
