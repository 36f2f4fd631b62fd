"""Tests a glcm task in the real BOINC client: progress; suspension in memory and out of memory; the
client quits, the task gets a signal, the client crashes; upload. Other tasks are aborted, must be
postponed, or have a broken work unit. In the end the first task's result has the same bytes as that
of "texcell run"."""
import fcntl
import os
import signal
import subprocess
import time

import tap
from harness import end_cleanly, Client, Server, Timeout, until
from work import suited_workunit

SECONDS = 22        # approximate wall time of the undisturbed task
LIMIT = 400         # seconds after which the test gives up
THREADS = 2


class Story:
    """A task in a client, with which the functions below interfere."""

    def __init__(self, client, name):
        self.client, self.name = client, name
        self.process = client.task_process(name)
        self.fraction = 0

    def works_on(self, gain=0.02, seconds=60):
        """Waits until the task's fraction done has grown by `gain`."""
        goal = self.fraction + gain
        until(seconds, lambda: self.client.fraction(self.name) >= goal,
              "%s gets to %.3f" % (self.name, goal))
        self.fraction = self.client.fraction(self.name)

    def state(self):
        return self.client.task(self.name).get("active_task_state")

    def said(self, sentence):
        """The number of times that the sentence is in the task's stderr."""
        return self.client.slot_stderr().count(sentence)

    def new_process(self):
        """Waits for a new process, and returns the first fraction that it reports; before, the
        client shows the old one."""
        self.process = self.client.task_process(self.name)
        old = self.client.fraction(self.name)
        until(20, lambda: self.client.fraction(self.name) != old, "the new process reports")
        return self.client.fraction(self.name)

    def restarts(self, what):
        """Checks that a new process continues from the checkpoint."""
        before = self.process
        now = self.new_process()
        tap.ok(self.process.pid != before.pid, "%s: a new process" % what)
        tap.ok(now >= self.fraction, "%s: continues where it was" % what,
               "%.3f before, %.3f after" % (self.fraction, now))
        self.works_on()

    def stopped(self, what, sentence, since, times=1, seconds=30):
        """Checks that the process ends by itself, that its stderr has the reason, and that it wrote
        a checkpoint after the time `since` of the request to stop."""
        until(seconds, lambda: not self.process.alive(), "%s: the process ends" % what)
        tap.ok(self.said(sentence) == times, "%s: stderr says \"%s\"" % (what, sentence),
               self.client.slot_stderr())
        written = os.stat(os.path.join(self.client.slot(), "checkpoint")).st_mtime
        # a file's time is that of the kernel's last clock tick, and there are at least a hundred
        # ticks a second
        tick = 0.02
        tap.ok(written >= since - tick, "%s: leaves a checkpoint" % what,
               "asked at %.4f, checkpoint of %.4f" % (since, written))

    def sleeps(self):
        """Suspends the task in memory and waits until it sleeps, which it does at the end of a
        step; the client's message may come after another one."""
        self.client.tell(self.name, "suspend")
        until(10, lambda: self.state() == "SUSPENDED", "the task is suspended")
        time.sleep(2.5)


def test_suspend_in_memory(story):
    process = story.process
    story.sleeps()
    start = process.cpu_seconds()
    time.sleep(2)
    used = process.cpu_seconds() - start
    tap.ok(process.alive() and used < 0.1, "suspended in memory: no CPU time",
           "%.2f s of CPU time in 2 s" % used)
    story.client.tell(story.name, "resume")
    story.works_on()
    tap.ok(story.client.task_process(story.name).pid == process.pid,
           "resumed in memory: the same process continues")


def test_suspend_out_of_memory(story):
    """Suspends the task out of memory. From here on no checkpoints are due. The client keeps a task
    without a checkpoint in memory, so the first process has written one."""
    story.client.preferences(leave_in_memory=0, checkpoint_seconds=1000)
    stop_time = time.time()
    story.client.tell(story.name, "suspend")
    story.stopped("suspended out of memory", "the client asked to quit", stop_time)
    log = os.path.join(story.client.slot(), "stderr.txt")
    with open(log) as f:
        output = f.read()
    first = output.splitlines()[0]
    with open(log, "w") as f:          # as if it had been suspended so for a week
        f.write(output + "".join("texcell: restart %d\n" % i for i in range(100000)) + output)
    story.client.tell(story.name, "resume")
    story.restarts("resumed out of memory")
    with open(log) as f:
        lines = f.read().splitlines()
    tap.ok(os.path.getsize(log) < 40000 and lines[0] == first and
           "texcell: restart 99999" in lines and
           lines.count("texcell: older lines are left out here") == 1 and
           all(line.startswith("texcell") for line in lines),
           "a long stderr.txt: the first lines and the last ones are kept", lines[-20:])
    with open(log, "w") as f:
        f.write(output)


def test_client_quits(story):
    stop_time = time.time()
    story.client.quit()
    tap.ok(time.time() - stop_time < 15, "client quit: the task ends without being killed")
    story.stopped("client quit", "the client asked to quit", stop_time, times=2)
    story.client.start()
    story.restarts("client restarted")


def test_signal(story):
    stop_time = time.time()
    story.process.signal(signal.SIGTERM)
    story.stopped("SIGTERM", "interrupted by signal 15", stop_time)
    story.restarts("after SIGTERM")


def test_no_checkpoint(story):
    """No checkpoint can be written into the slot. The work since the last one is lost, and the
    client must not count its time."""
    def counted():
        return story.client.told(story.name, "wu_cpu_time")
    obstacle = os.path.join(story.client.slot(), "checkpoint.tmp")
    before = counted()
    story.works_on(0.05)
    os.remove(obstacle)        # the task reserves disk space for its next checkpoint in this file
    os.mkdir(obstacle)
    used = story.process.cpu_seconds()
    story.process.signal(signal.SIGTERM)
    until(30, lambda: not story.process.alive(), "SIGTERM ends it")
    story.fraction = story.new_process()
    tap.ok(story.said("warning: no checkpoint: checkpoint.tmp: cannot be created: Is "
                      "a directory") == 1,
           "no checkpoint can be written: stderr reports this", story.client.slot_stderr())
    tap.ok(used > 0.5 and abs(counted() - before) < 0.01,
           "no checkpoint: the CPU time since the last one is not kept",
           "%.2f s before, %.2f s used, %.2f s counted" % (before, used, counted()))
    os.rmdir(obstacle)
    story.works_on()


def test_client_killed(story):
    """The task is suspended, so that it cannot finish before it notices that the client is gone."""
    client = story.client
    client.preferences(leave_in_memory=1, checkpoint_seconds=1000)
    story.sleeps()
    stop_time = time.time()
    client.kill()
    story.stopped("client gone", "the client is gone", stop_time)
    client.start()
    client.tell(story.name, "resume")
    story.restarts("client back")


def long_story(client, server, expected):
    story = Story(client, "wu1_0")
    story.works_on()
    first = story.fraction
    story.works_on(0.1)
    tap.ok(0 < first < story.fraction < 1, "the fraction done grows")
    test_suspend_in_memory(story)
    test_suspend_out_of_memory(story)
    test_client_quits(story)
    test_signal(story)
    test_no_checkpoint(story)
    test_client_killed(story)
    until(180, lambda: "wu1_0_0" in server.uploads, "the result is uploaded")
    tap.ok(server.uploads["wu1_0_0"] == expected, "the uploaded result is the undisturbed one's",
           "%d bytes, not %d" % (len(server.uploads["wu1_0_0"]), len(expected)))
    result = until(20, lambda: "stderr_out" in client.result("wu1_0") and client.result("wu1_0"),
                   "the task is over")
    tap.ok(result["exit_status"] == "0", "the task's exit status is 0", result["exit_status"])
    tap.note(result["stderr_out"])


def test_abort(client, server):
    client.tell("wu2_0", "resume")
    story = Story(client, "wu2_0")
    story.works_on(0.01)
    client.tell(story.name, "abort")
    until(20, lambda: not story.process.alive(), "the aborted process ends")
    result = until(20, lambda: "stderr_out" in client.result("wu2_0") and client.result("wu2_0"),
                   "the aborted task is over")
    tap.ok("the client aborted the task" in result["stderr_out"],
           "an aborted task: stderr reports the abort",
           result["stderr_out"])
    tap.ok("wu2_0_0" not in server.uploads, "an aborted task: nothing is uploaded")


def test_locked_spool(client):
    """Another process has locked the spool of the task, so that the task must be postponed."""
    client.tell("wu3_0", "resume")
    story = Story(client, "wu3_0")
    story.works_on(0.01)
    with open(os.path.join(client.slot(int(client.task("wu3_0")["slot"])), "spool")) as spool:
        story.process.signal(signal.SIGTERM)
        fcntl.flock(spool, fcntl.LOCK_EX)      # succeeds when the process has ended
        until(30, lambda: "postponed for" in client.log_tail(), "the client is told to wait")
        line = [x for x in client.log_tail().splitlines() if "postponed for" in x][-1]
        tap.ok("Task wu3_0 postponed for 300 seconds: spool: another texcell" in line,
               "a task whose spool is locked: the client waits, and shows the reason", line)
    client.tell("wu3_0", "abort")


def test_power_failure(client, server, expected):
    """Files that the client wrote just before a power failure are empty after it."""
    client.tell("wu5_0", "resume")
    story = Story(client, "wu5_0")
    story.works_on(0.01)
    slot = client.slot_of("wu5_0")
    client.power_cut()
    for name in ("workunit", "result"):
        os.truncate(os.path.join(slot, name), 0)
    client.start()
    until(30, lambda: "a power failure has emptied" in client.log_tail(), "the client is told")
    client.quit()              # the new client does not know that the task was postponed
    client.start()
    until(180, lambda: "wu5_0_0" in server.uploads, "the result is uploaded")
    tap.ok(server.uploads["wu5_0_0"] == expected,
           "power failure: the result is the undisturbed one's")


def test_broken_unit(client, server):
    client.tell("wu4_0", "resume")
    result = until(60, lambda: "stderr_out" in client.result("wu4_0") and client.result("wu4_0"),
                   "the task with the broken work unit is over")
    tap.ok(result["exit_status"] == "2", "broken work unit: exit status 2", result["exit_status"])
    tap.ok("texcell: error: " in result["stderr_out"], "broken work unit: stderr gives the reason",
           result["stderr_out"])
    tap.ok("wu4_0_0" not in server.uploads, "broken work unit: nothing is uploaded")


def main():
    end_cleanly(LIMIT)

    folder = tap.scratch()
    workunit = os.path.join(folder, "wu1.zip")
    expected = suited_workunit(workunit, SECONDS, THREADS)
    broken = os.path.join(folder, "wu4.zip")
    with open(broken, "wb") as f:
        f.write(b"PK\3\4, and then nothing")
    begin = time.monotonic()
    with Server() as server:
        client = Client(os.path.join(folder, "data"), server)
        try:
            # Each task takes all CPUs of the client, so that one runs at a time.
            client.add_app("texcell", tap.TEXCELL, ncpus=THREADS)
            client.add_task("wu1", workunit)
            client.add_task("wu2", workunit, suspended=True)
            client.add_task("wu3", workunit, suspended=True)
            client.add_task("wu4", broken, suspended=True)
            client.add_task("wu5", workunit, suspended=True)
            client.preferences(leave_in_memory=1)
            client.start()
            long_story(client, server, expected)
            test_abort(client, server)
            test_locked_spool(client)
            test_power_failure(client, server, expected)
            test_broken_unit(client, server)
            with open(client.log, errors="replace") as f:
                tap.ok("exited with zero status but no" not in f.read(),
                       "the client found a finish file for each task")
        except (Timeout, RuntimeError, OSError, subprocess.TimeoutExpired) as e:
            tap.ok(False, "all waits end in time",
                   "%s\nstderr of the task:\n%s\nthe client's log:\n%s"
                   % (e, client.slot_stderr(), client.log_tail()))
        finally:
            client.close()
    tap.note("%.0f s with the client" % (time.monotonic() - begin))
    tap.done()


main()
