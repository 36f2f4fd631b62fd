"""Tests docs/admin.md: runs its steps 1 to 4, block by block, in a bare root folder of Debian 12
with a separate network, from nothing to the first validated unit, and prints the times. Needs root,
mmdebstrap, and BOINC=DIR, a git repository of BOINC's sources. BARE_ROOTS_FOLDER: a folder that
keeps the root's archive for the next time."""
import os
import re
import shlex
import shutil
import subprocess
import time

import numpy as np
from PIL import Image

from tap import SRC, done, note, ok, run, scratch, skip

BOINC = os.path.abspath(os.environ["BOINC"]) if os.environ.get("BOINC") else None
ROOT = os.path.join(scratch(), "root")
ARCHIVE = os.path.join(os.environ.get("BARE_ROOTS_FOLDER") or scratch(), "server.tar")
PROJECT = "/home/boincadm/projects/cells"
VALUES = {"SECRET": "s3cret", "PROJECT": PROJECT,
          "https://cells.example.org": "http://cells.example.org",
          "YOU@EXAMPLE.ORG": "you@example.org",
          "PASSWORD YOU": "passw0rd you"}
CLEAN = ["env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
         "HOME=/root", "TERM=dumb", "LC_ALL=C.UTF-8",
         "DEBIAN_FRONTEND=noninteractive"]
# Sets up new name spaces as a starting system would. This shell is their first process, and so
# reaps orphaned processes.
MACHINE = """hostname cells && ip link set lo up && mount -t proc proc $0/proc && mount --rbind /dev $0/dev && mount -t sysfs sys $0/sys
mount --bind $1 $0/srv/boinc; sleep 7200; exit"""  # noqa: E501


class Machine:
    """The bare system, in name spaces with a file system, network and processes of its own."""
    def __init__(self):
        self.process = subprocess.Popen(["unshare", "-n", "-m", "-p", "-u", "-i", "-f",
                                         "--kill-child", "bash", "-c", MACHINE, ROOT, BOINC])
        time.sleep(2)
        children = "/proc/%d/task/%d/children" % (self.process.pid, self.process.pid)
        self.enter = ["nsenter", "-t", open(children).read().split()[0], "-n", "-m", "-p", "-u",
                      "-i", "chroot", ROOT, *CLEAN]
        self.seconds = 0.0

    def do(self, what, text, folder=None, timed=True):
        """Runs commands as root, or in a folder as the project's owner: one test point. Returns the
        output. timed: whether their time counts."""
        for word, value in VALUES.items():
            text = text.replace(word, value)
        words = ["bash", "-e", "-c", text] if folder is None else ["su", "-", "boincadm", "-c",
                                                                   "cd %s && bash -e -c %s" %
                                                                   (folder, shlex.quote(text))]
        start, before = time.monotonic(), os.times()
        r = subprocess.run(self.enter + words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, timeout=3600)
        took, after = time.monotonic() - start, os.times()
        self.seconds += took * timed
        note("%5.0f s, %4.0f s of processor time: %s" %
             (took, after[2] - before[2] + after[3] - before[3], what))
        return r.stdout if ok(r.returncode == 0, what, r.stdout[-3000:]) else ""


def blocks():
    """{heading of the page: [block of commands]}."""
    with open(os.path.join(SRC, "docs", "admin.md")) as f:
        parts = re.split(r"(?m)^## (.*)$", f.read())
    return {heading: [b for _w, b in re.findall(r"(?ms)^```sh (\w+)\n(.*?)^```$", text)]
            for heading, text in zip(parts[1::2], parts[2::2])}


def make_root():
    """Unpacks a bare Debian to ROOT; its archive is made at the first call."""
    if not os.path.exists(ARCHIVE):
        r = run(["mmdebstrap", "--format=tar", "--variant=important", "--mode=root", "bookworm",
                 ARCHIVE + ".new"], timeout=1800)
        if r.returncode != 0:
            skip("the page", "no root can be made: " + r.stderr.strip()[-200:])
            done()
        os.rename(ARCHIVE + ".new", ARCHIVE)
    os.makedirs(ROOT)
    subprocess.run(["tar", "-C", ROOT, "-xf", ARCHIVE], check=True)
    for name, text in (("hosts", "127.0.0.1 localhost cells cells.example.org\n"),
                       ("hostname", "cells\n")):
        with open(os.path.join(ROOT, "etc", name), "w") as f:
            f.write(text)
    shutil.copy("/etc/resolv.conf", os.path.join(ROOT, "etc"))
    os.makedirs(os.path.join(ROOT, "srv", "boinc"))


def fetch_packages(install):
    """Downloads the packages from outside, as Machine has no network. Returns the seconds taken, or
    False."""
    names = re.search(r"(?s)apt-get install (.*?[^\\])\n",
                      install).group(1).replace("\\\n", " ").split() + ["boinc-client"]
    start = time.monotonic()
    r = run(["chroot", ROOT, *CLEAN, "sh", "-c",
             "apt-get -q update && apt-get -qyd install " + " ".join(names)], timeout=1800)
    note("%5.0f s: packages are fetched" % (time.monotonic() - start))
    return ok(r.returncode == 0, "the packages of the page are installed",
              r.stderr[-500:]) and time.monotonic() - start


def copy_texcell():
    """Copies the sources to the root, and three pictures to the project's folder."""
    names = run(["git", "-C", SRC, "ls-files", "-z"]).stdout.split("\0")
    for name in filter(None, names):
        target = os.path.join(ROOT, "home", "boincadm", "texcell", name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(os.path.join(SRC, name), target, follow_symlinks=False)
    folder = os.path.join(ROOT, PROJECT[1:], "pictures")
    os.makedirs(folder)
    for i in range(3):
        Image.fromarray(np.random.default_rng(i).integers(0, 256, (64, 64)).astype(np.uint8)).save(
            os.path.join(folder, "p%d.png" % i))


def main():
    missing = [tool for tool in ("mmdebstrap", "unshare", "nsenter", "git")
               if shutil.which(tool) is None]
    if missing or os.getuid() != 0 or not BOINC or not run(["git", "-C", BOINC,
                                                            "rev-parse"]).returncode == 0:
        skip("the page", "no " + (", no ".join(missing) or "right to make a root, or BOINC names "
                                  "no git repository of its sources"))
        done()
    make_root()
    page = blocks()
    (packages, build), (grant, project, web), (texcell, _platforms, restart, attach), (submit,) = (
        page["1. BOINC's server"], page["2. A project"], page["3. texcell"], page["4. Work"])
    fetched = fetch_packages(packages)
    machine = Machine()
    try:
        do = machine.do
        do("1: packages", packages.replace("apt-get install", "apt-get -qy install") +
           "service mariadb start; service apache2 start; service cron start")
        do("BOINC's sources are there", "git config --system url./srv/boinc.insteadOf "
           "https://github.com/BOINC/boinc; git config --system safe.directory '*'", timed=False)
        do("1: BOINC's server", build, "~")
        do("2: database", grant)
        do("2: project", project, "~/boinc")
        do("2: web server", web)
        copy_texcell()
        do("texcell's sources are there", "chown -R boincadm: /home/boincadm", timed=False)
        do("3: texcell", texcell, "~/texcell")
        do("3: restart", restart, PROJECT)
        do("3: a client",
           "apt-get -qy install boinc-client && (service boinc-client start || true)\nfor i in "
           "$(seq 60); do boinccmd --get_cc_status >/dev/null 2>&1 && break; sleep 1; done")
        create, join = attach.splitlines()
        key = re.search(r"account key: (\S+)", do("3: an account", create))
        do("3: attached", join.replace("KEY", key.group(1) if key else "none"))
        do("4: work", submit.replace("--name", "--quorum 1 --name", 1), PROJECT)
        stored = ("until bin/texcell-submit --status drops | tee /dev/stderr | grep -q 'stored  "
                  "*[1-9]'; do sleep 2; done")
        do("4: the first unit is stored", "timeout 900 bash -c %s" % shlex.quote(stored), PROJECT)
        note("from nothing to the first validated unit: %.1f minutes" %
             ((machine.seconds + fetched) / 60))
    finally:
        machine.process.kill()
        machine.process.wait()
    done()


main()
