"""Tests the programs for Linux with glibc 2.17 or later: the libraries that they need, and that
they give the same bytes as the ordinary build, also in a root folder with only an older C
library."""
import os
import shutil

import other_system
from oracle.workunit import item
from pictures import blobs
import tap


def nothing_but_libc(p):
    """The programs run where there is only a C library."""
    root, start, libc = other_system.bare_root()
    if root is None:
        return
    for program in ("texcell", "texcell-wu", "texcell-validate"):
        shutil.copy(os.path.join(p.folder, program), root)
    for title, unit in other_system.units(True):
        shutil.copy(other_system.path(unit), root)
        expected = other_system.compute_here(unit, "here.npz")
        ran = tap.run(start + ["/texcell", "run", unit, "-o", "there.npz", "--device", "cpu",
                               "--quiet"], cwd=root)
        checked = tap.run(start + ["/texcell-validate", "check", unit, "there.npz"], cwd=root)
        tap.ok(ran.returncode == checked.returncode == 0 and other_system.read("root/there.npz") ==
               expected,
               "%s: the same bytes in a folder with nothing but %s" % (title, libc),
               ran.stderr + checked.stderr)
    r = tap.run(start + ["/texcell-wu", "show", unit], cwd=root)
    tap.ok(r.returncode == 0, "texcell-wu starts with only an older C library", r.stderr)


p = other_system.Platform("release", "gcc", [])
other_system.stands_alone(p, other_system.LIBRARIES)
other_system.known_answers(p)
other_system.for_volunteers(p)
other_system.same_bytes(p, True)
other_system.kills(p, {"levels": [64], "distances": list(range(1, 9)),
                       "window": {"shape": "disc", "radius": 5}},
                   [item("p%d" % i, [blobs(120, 140, i)]) for i in range(3)], "glcm", 5)
nothing_but_libc(p)
tap.done()
