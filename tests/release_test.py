"""The programs for Linux from glibc 2.17 on: what they need of a computer, and that they compute
what the ordinary build does, also where nothing is but an older C library."""
import os
import re
import shutil
import subprocess

import other_system
from oracle.workunit import item
from pictures import blobs
import tap

LIBRARIES = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2"}


def nothing_but_libc(p):
    """A root folder with the C library of the Debian before, or with this one's where that cannot be fetched."""
    root, libc = other_system.path("root"), os.path.join(os.path.abspath(tap.SRC), "build", "old-libc")
    r = tap.run(["sh", os.path.join(tap.SRC, ".ci", "old_libc.sh"), libc])
    if r.returncode == 0:
        shutil.copytree(libc, root, symlinks=True)
    else:
        tap.note("no older C library: " + r.stderr)
        for name in ["/lib64/ld-linux-x86-64.so.2"] + ["/lib/x86_64-linux-gnu/" + n for n in LIBRARIES if n.startswith("lib")]:
            os.makedirs(root + os.path.dirname(name), exist_ok=True)
            shutil.copy(name, root + name)
    os.makedirs(root + "/dev")
    with open(root + "/dev/urandom", "wb") as f:      # the validator's choice of pixels begins with it
        f.write(os.urandom(4096))
    start = ["unshare", "-r", "chroot", root]
    try:
        said = subprocess.run(start + ["/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6"], stdout=subprocess.PIPE).stdout.decode()
    except OSError:
        said = ""
    if not said:
        tap.skip("in a root folder of their own", "no name space in which one may be had here")
        return
    for program in ("texcell", "texcell-wu", "texcell-validate"):
        shutil.copy(os.path.join(p.folder, program), root)
    for title, unit in other_system.units(True):
        shutil.copy(other_system.path(unit), root)
        expected = other_system.compute_here(unit, "here.npz")
        ran = tap.run(start + ["/texcell", "run", unit, "-o", "there.npz", "--device", "cpu", "--quiet"], cwd=root)
        checked = tap.run(start + ["/texcell-validate", "check", unit, "there.npz"], cwd=root)
        tap.ok(ran.returncode == checked.returncode == 0 and other_system.read("root/there.npz") == expected,
               "%s: the same bytes with nothing but %s" % (title, re.search(r"GLIBC [\d.]+", said).group(0)), ran.stderr + checked.stderr)
    r = tap.run(start + ["/texcell-wu", "show", unit], cwd=root)
    tap.ok(r.returncode == 0, "texcell-wu starts there, too", r.stderr)


p = other_system.Platform("release", "gcc", [])
other_system.stands_alone(p, LIBRARIES)
other_system.known_answers(p)
other_system.for_volunteers(p)
other_system.same_bytes(p, True)
other_system.kills(p, {"levels": [64], "distances": list(range(1, 9)), "window": {"shape": "disc", "radius": 5}},
                   [item("p%d" % i, [blobs(120, 140, i)]) for i in range(3)], "glcm", 5)
nothing_but_libc(p)
tap.done()
