"""Tests README's commands in bare root folders of Debian releases, made by mmdebstrap: build and
demo, and in check-long all of check. The demo's result has the same bytes everywhere. BARE_ROOTS:
the releases, oldest first; only build on bullseye, which has the oldest libraries that texcell
accepts. BARE_ROOTS_FOLDER: a folder that keeps the roots' archives for the next time."""
import os
import re
import shutil
import subprocess

import tap

ALL = os.environ.get("TEXCELL_PLATFORMS") == "long"
SUITES = os.environ.get("BARE_ROOTS", "bullseye bookworm trixie").split()
FOLDER = os.environ.get("BARE_ROOTS_FOLDER") or tap.scratch()
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8",
               "TERM": "dumb"}
# Runs in separate name spaces, so that mounts and processes end with the command.
ENTER = ('root=$1; shift; mount -t proc proc "$root/proc"; mount --rbind /dev "$root/dev"; mount '
         '--rbind /sys "$root/sys"; exec chroot "$root" sh -c "cd /src/texcell && $*"')


def make_root(suite):
    """Makes a root folder with the sources. Returns its path, or None (the test is then skipped
    with the reason)."""
    root = os.path.join(FOLDER, suite)
    archive = root + ".tar"
    if not os.path.exists(archive):
        made = tap.run(["mmdebstrap", "--variant=apt", "--mode=root", "--format=tar", suite,
                        archive + ".new"], timeout=1800)
        if made.returncode != 0:
            tap.skip(suite,
                     "no root can be made: " + made.stderr.strip()[-150:].replace("\n", "; "))
            return None
        os.rename(archive + ".new", archive)
    source = os.path.join(root, "src", "texcell")
    shutil.rmtree(root, True)
    os.makedirs(source)
    subprocess.run(["tar", "-C", root, "-xf", archive], check=True)
    shutil.copy("/etc/resolv.conf", os.path.join(root, "etc"))
    names = subprocess.run(["git", "-C", tap.SRC, "ls-files", "-co", "--exclude-standard", "-z"],
                           check=True, stdout=subprocess.PIPE).stdout
    for name in os.fsdecode(names).split("\0"):
        if os.path.isfile(os.path.join(tap.SRC, name)):
            os.makedirs(os.path.dirname(os.path.join(source, name)), exist_ok=True)
            shutil.copy2(os.path.join(tap.SRC, name), os.path.join(source, name))
    return root


def bootstrap(root, verb):
    p = subprocess.run(["unshare", "-mpf", "--kill-child", "sh", "-c", ENTER, "sh", root,
                        "./bootstrap", verb], env=ENVIRONMENT,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=7200)
    return p.returncode, p.stdout.decode("utf-8", "replace")


def try_suite(suite, verbs):
    """Runs ./bootstrap with each of the verbs. Returns the bytes of the demo's result, or None."""
    root = make_root(suite)
    if root is None:
        return None
    for verb in verbs:
        code, output = bootstrap(root, verb)
        tap.note("%s, %s: %s" % (suite, verb, "\n".join(
            re.findall(r"(?m)^(?:Need to get|After this|\d+ passed|  SKIP).*", output))))
        if not tap.ok(code == 0, "%s: ./bootstrap %s" % (suite, verb), output[-3000:]):
            return None
    result = os.path.join(root, "src", "texcell", "build", "demo", "undisturbed.npz")
    if not os.path.exists(result):
        return None
    with open(result, "rb") as f:
        return f.read()


def main():
    missing = [tool for tool in ("mmdebstrap", "unshare", "git") if shutil.which(tool) is None]
    if missing or os.getuid() != 0:
        tap.skip("bare roots", "no " + ", no ".join(missing or ["right to make one"]))
        tap.done()
    results = {}
    for suite in SUITES:
        verbs = ["build"] if suite == "bullseye" else ["build", "demo"] + ["check"] * ALL
        results[suite] = try_suite(suite, verbs)
    made = {s: r for s, r in results.items() if r is not None}
    if len(made) > 1:
        tap.ok(len(set(made.values())) == 1, "the demo's bytes are the same: " + ", ".join(made))
    tap.done()


main()
