"""The programs for Linux from glibc 2.17 on: what they need of a computer, and that they compute
what the ordinary build does."""
import other_system
from oracle.workunit import item
from pictures import blobs
import tap

p = other_system.Platform("release", "gcc", [])
other_system.stands_alone(p, {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2"})
other_system.known_answers(p)
other_system.same_bytes(p, True)
other_system.kills(p, {"levels": [64], "distances": list(range(1, 9)), "window": {"shape": "disc", "radius": 5}},
                   [item("p%d" % i, [blobs(120, 140, i)]) for i in range(3)], "glcm", 5)
tap.done()
