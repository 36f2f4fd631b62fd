"""Tests that jobs of every analysis, with 1 to 4 threads, on the CPU and some on OpenCL, survive
kills at random moments and power cuts: each continues from the files that are left, and gives the
same bytes in the end.

CRASH_KILLS and CRASH_CUTS: numbers of kills and of power cuts; CRASH_SEED: the seed of the random
choices (the moments of kills also depend on the computer). make check-crash: 10,000 kills."""
import hashlib
import os
import random
import signal
import sqlite3
import subprocess
import threading
import time

import analyses
import compiled
import tap
from oracle import workunit
from resume import power

SEED = int(os.environ.get("CRASH_SEED", "0")) or random.SystemRandom().randrange(1, 10 ** 9)
KILLS = int(os.environ.get("CRASH_KILLS", "28"))
CUTS = int(os.environ.get("CRASH_CUTS", "56"))
LANES = 2
PATIENCE = 600
ROOT = tap.scratch()
ENV = dict(os.environ, POCL_CACHE_DIR=compiled.copy(ROOT), ASAN_OPTIONS="verify_asan_link_order=0")


def library(name):
    """Compiles a library of tests/resume that is to be preloaded."""
    made = tap.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-o",
                    os.path.join(ROOT, name + ".so"),
                    os.path.join(tap.SRC, "tests", "resume", name + ".c"), "-ldl"])
    if not tap.ok(made.returncode == 0, name + ".c compiles", made.stderr):
        tap.done()
    return os.path.join(ROOT, name + ".so")


def content(path):
    with open(path, "rb") as f:
        return f.read()


class Job:
    """A small work unit. Runs write a checkpoint after each step, and steps are as short as
    possible."""

    def __init__(self, analysis, title, parameters, items):
        self.name, self.opencl = ("%s_%s" % (analysis, title.replace(" ", "_")),
                                  analyses.has_opencl(analysis))
        self.unit = workunit.write(os.path.join(ROOT, self.name + ".zip"), analysis, parameters,
                                   items)
        folder = os.path.join(ROOT, self.name)
        os.mkdir(folder)
        begin = time.monotonic()
        count = os.path.join(ROOT, "count")
        run = self.start(folder, 2, KILL_AT, KILL_COUNT=count)
        errors = run.communicate()[1]
        self.seconds = time.monotonic() - begin
        if not tap.ok(run.returncode == 0, self.name + ": an undisturbed run succeeds", errors):
            tap.done()
        self.expected, self.calls = content(os.path.join(folder, "r.npz")), int(content(count))

    def start(self, folder, threads, *libraries, device="cpu", **more):
        env = dict(ENV, LD_PRELOAD=":".join(libraries + (SHORT_STEPS,)),
                   TEXCELL_TEST_CHECKPOINT_EVERY_CALLS="1", **more)
        return subprocess.Popen([tap.TEXCELL_TEST, "run", self.unit, "-o",
                                 os.path.join(folder, "r.npz"), "--device", device,
                                 "--threads", str(threads), "--quiet"], env=env,
                                stderr=subprocess.PIPE, errors="replace",
                                universal_newlines=True)

    def finish(self, folder, threads, *libraries, **more):
        """Runs to the end. Returns the error as text, or None."""
        p = self.start(folder, threads, *libraries, **more)
        errors = p.communicate(timeout=PATIENCE)[1]
        return self.wrong(folder, p.returncode, errors)

    def wrong(self, folder, code, errors):
        """The error in the folder after a run, as text, or None. Empties the folder."""
        left = sorted(os.listdir(folder))
        same = "r.npz" in left and content(os.path.join(folder, "r.npz")) == self.expected
        for name in left:
            os.remove(os.path.join(folder, name))
        return None if code == 0 and same and left == ["r.npz"] else \
            "%s: exit %s, bytes %s, files %s\n%s" % (self.name, code, "equal" if same else "differ",
                                                     left, errors)


class Lane(threading.Thread):
    """One thread's share of the kills, in separate folders."""

    def __init__(self, number, jobs, opencl):
        super().__init__()
        self.number, self.jobs, self.opencl, self.rng = (number, jobs, opencl,
                                                         random.Random("%d %d" % (SEED, number)))
        self.killed, self.ends, self.faults = dict.fromkeys(jobs, 0), 0, []

    def start_one(self, job, folder):
        """Starts a run that is killed after a random time, or at a random call that changes a file.
        Returns exit code and stderr."""
        device = "opencl" if self.opencl and job.opencl and self.rng.random() < 0.1 else "cpu"
        by_call = self.rng.random() < 0.4
        pause = self.rng.uniform(0, 1.1) * job.seconds * (1 if device == "cpu" else 3)
        p = job.start(folder, self.rng.randrange(1, 5), KILL_AT, device=device,
                      **({"KILL_AT": str(self.rng.randrange(1, job.calls + 1))} if by_call else {}))
        begin = time.monotonic()
        try:
            errors = p.communicate(timeout=PATIENCE if by_call else pause)[1]
            if device == "cpu" and p.returncode == 0:
                # The shortest time is used, as other processes may slow a run down.
                job.seconds = min(job.seconds, time.monotonic() - begin)
        except subprocess.TimeoutExpired:
            p.send_signal(signal.SIGKILL)
            errors = p.communicate()[1]
        return p.returncode, errors

    def run(self):
        while sum(self.killed.values()) < KILLS // LANES and len(self.faults) < 5:
            job = min(self.jobs, key=lambda j: self.killed[j])
            folder = os.path.join(ROOT, "%s_%d" % (job.name, self.number))
            os.makedirs(folder, exist_ok=True)
            code, errors = self.start_one(job, folder)
            if code == -signal.SIGKILL:
                self.killed[job] += 1
                if sum(self.killed.values()) % 500 == 0:
                    tap.note("%d kills, %d results" % (sum(self.killed.values()), self.ends))
                continue
            self.end(job.wrong(folder, code, errors))
        for job in self.jobs:
            folder = os.path.join(ROOT, "%s_%d" % (job.name, self.number))
            if os.path.isdir(folder):
                self.end(job.finish(folder, 2))

    def end(self, fault):
        """Counts a run that ended by itself."""
        self.ends += 1
        self.faults += [fault] if fault else []


def kills(jobs, opencl):
    """Random kills, by all lanes."""
    lanes = [Lane(i, jobs, opencl) for i in range(LANES)]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    faults = [f for lane in lanes for f in lane.faults]
    for job in jobs:
        tap.note("%s: killed %d times" % (job.name, sum(lane.killed[job] for lane in lanes)))
    tap.ok(not faults, "%d kills, %d results: the same bytes, and no file left" %
           (sum(sum(lane.killed.values()) for lane in lanes), sum(lane.ends for lane in lanes)),
           "\n".join(faults))


# --- power cuts ----------------------------------------------------------------------------------

def fill(folder, files):
    """Writes files {name: bytes} to a folder."""
    os.makedirs(folder, exist_ok=True)
    for name, data in files.items():
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "wb") as f:
            f.write(data)


def cut(folder, files, events, rng):
    """Applies the recorded events up to a random one, or all of them, to a disk with these files.
    Returns (the disk, {name: bytes} of the files after a power cut at this point)."""
    disk = power.Disk(folder, files)
    for event in events[
            :rng.choice((len(events), *(rng.randrange(len(events) + 1) for _ in range(7))))]:
        disk.do(*event)
    return disk, disk.after_cut(rng)


def cuts_of_job(job, n, rng):
    """n power cuts of a job. It starts with an empty folder or with the files after one of the last
    three cuts. Returns (number of cuts, errors)."""
    folder, record = (os.path.join(ROOT, job.name + "_power"),
                      os.path.join(ROOT, job.name + ".record"))
    faults, done, states = [], 0, [{}]
    os.mkdir(folder)
    while done < n:
        files = rng.choice(states[-3:])
        fill(folder, files)
        fault = job.finish(folder, rng.randrange(1, 5), RECORD, RECORD=record)
        events = list(power.read(record)) + [("mark", "done")]
        os.remove(record)
        if fault:
            return done, [fault]
        for _ in range(min(4, n - done)):
            disk, files_then = cut(folder, files, events, rng)
            states.append(files_then)
            if files_then.get("r.npz", job.expected if not disk.marks else None) != job.expected:
                faults.append("cut %d: %s: %s" % (done, job.name,
                                                  "half a result" if "r.npz" in files_then
                                                  else "its result is lost"))
            fill(folder, files_then)
            fault = job.finish(folder, 2)
            done += 1
            if fault:
                faults.append("cut %d: left %s\n%s" %
                              (done, {k: len(v) for k, v in files_then.items()}, fault))
    return done, faults


def power_cuts(jobs):
    rng = random.Random("%d power" % SEED)
    share, done, faults = max(1, CUTS // len(jobs)), 0, []
    for job in jobs if CUTS >= len(jobs) else rng.sample(jobs, CUTS):
        n, found = cuts_of_job(job, share, rng)
        done, faults = done + n, faults + found
    tap.ok(not faults, "%d power cuts: the same bytes, and no file left" % done,
           "\n".join(faults[:5]))


def data_set(jobs):
    """Units that texcell-assimilate reported as stored are in the data set after a power cut."""
    folder, record = os.path.join(ROOT, "data"), os.path.join(ROOT, "data.record")
    rng, uploads = random.Random("%d data" % SEED), []
    os.mkdir(folder)
    os.mkdir(os.path.join(ROOT, "tmp_host"))
    for i, job in enumerate(jobs):
        uploads.append((i + 1, os.path.join(ROOT, "%s_0_r1_0" % job.name)))
        with open(uploads[-1][1], "wb") as f:
            f.write(job.expected)
    db = os.path.join(folder, "d.sqlite")

    def store(number, upload, **more):
        return tap.run([tap.TEXCELL_ASSIMILATE, "script", "--db", db, "--workunits", ROOT,
                        str(number), upload],
                       env=dict(ENV, **more), cwd=os.path.join(ROOT, "tmp_host"))
    tap.run([tap.TEXCELL_ASSIMILATE, "create", "--db", db],
            env=dict(ENV, LD_PRELOAD=RECORD, RECORD=record))
    for number, upload in uploads:
        p = store(number, upload, LD_PRELOAD=RECORD, RECORD=record)
        if not tap.ok(p.returncode == 0, "stored: " + os.path.basename(upload), p.stderr):
            return
        with open(record, "a") as f:
            f.write("mark %d\n" % number)
    events, faults, cuts = list(power.read(record)), [], CUTS // 2

    def rows():
        base = sqlite3.connect(db)
        try:
            good = base.execute("PRAGMA integrity_check").fetchone()[0]
            made = base.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
            return good, dict(base.execute("SELECT wu_id, kept FROM units")) if made else {}
        except sqlite3.DatabaseError as fault:
            return str(fault), {}
        finally:
            base.close()

    def kept(found):
        return {n: hashlib.sha256(content(os.path.join(db + ".files", k))).hexdigest()
                for n, k in found.items() if k}
    whole = kept(rows()[1])
    for i in range(cuts):
        for path, _, names in os.walk(folder):
            for name in names:
                os.remove(os.path.join(path, name))
        disk, files = cut(folder, {}, events, rng)
        fill(folder, files)
        good, found = rows()
        wrong = [m for m in disk.marks if int(m) not in found]
        if good != "ok" or wrong or any(whole[n] != h for n, h in kept(found).items()):
            faults.append("cut %d: %s, lost %s, there %s" % (i, good, wrong, sorted(found)))
    tap.run([tap.TEXCELL_ASSIMILATE, "create", "--db", db])
    again = [store(*u) for u in uploads]
    tap.ok(all(p.returncode == 0 for p in again) and len(rows()[1]) == len(uploads),
           "after the last power cut all units are stored again",
           "\n".join(p.stderr for p in again))
    tap.ok(not faults,
           "%d power cuts: the data set has all units reported as stored, with their files" %
           cuts, "\n".join(faults[:5]))


def main():
    tap.note("CRASH_SEED=%d" % SEED)
    opencl = "usable" in tap.run([tap.TEXCELL, "devices"], env=ENV).stdout
    jobs = [Job(name, title, *job) for name, of in analyses.each()
            for title, job in of.JOBS.items()]
    tap.note("%d jobs, %.2f s in the mean, %s" % (len(jobs),
                                                  sum(j.seconds for j in jobs) / len(jobs),
                                                  "with OpenCL" if opencl else "no OpenCL"))
    power_cuts(jobs)
    if os.path.exists(tap.TEXCELL_ASSIMILATE):
        data_set(jobs)
    kills(jobs, opencl)
    tap.done()


if __name__ == "__main__":
    KILL_AT, RECORD, SHORT_STEPS = library("kill_at"), library("record"), library("short_steps")
    main()
