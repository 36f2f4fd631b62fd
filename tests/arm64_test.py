"""Tests the programs for Linux on 64-bit ARM, under qemu: the libraries that they need, and that
they give the same bytes as the ordinary build."""
import other_system
from oracle.workunit import item
from pictures import blobs
import tap

p = other_system.Platform("arm64", "aarch64-linux-gnu-gcc",
                          ["qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu"])
other_system.stands_alone(p, {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2",
                              "librt.so.1", "ld-linux-aarch64.so.1"})
other_system.known_answers(p)
other_system.for_volunteers(p)
other_system.same_bytes(p)
other_system.kills(p, {"levels": [64], "distances": [1, 2, 3, 4],
                       "window": {"shape": "disc", "radius": 4}},
                   [item("p%d" % i, [blobs(70, 80, i)]) for i in range(3)], "glcm", 5)
tap.done()
