#!/usr/bin/python3
"""The programs that read strangers' files are built so that a fault ends them: the stack is
guarded, calls of the C library know the room, what the linker fills in is read-only."""
import os
import re

from tap import BUILD, done, ok, run, skip

with open(os.path.join(BUILD, "Makefile")) as f:
    flags = dict(re.findall(r"(?m)^(CFLAGS|SAN_CFLAGS) =(.*)$", f.read()))
hard = "-fsanitize" not in "".join(flags.values())
# The libraries that are linked statically may be built otherwise: our own part by itself.
own = run(["nm", "--undefined-only", os.path.join(BUILD, "libbase.a")]).stdout
for what, call, off in (("guards the stack", "__stack_chk_fail", False),
                        ("calls that know the room", "__vsnprintf_chk", re.search(r"-O[0g]\b", flags["CFLAGS"]))):
    if hard and not off:
        ok(call in own, what, own)
    else:
        skip(what, "sanitizers, or not optimised")
for name in ("texcell", "texcell-wu", "texcell-validate", "texcell-assimilate"):
    program = os.path.join(BUILD, name)
    if hard and os.path.exists(program):
        loaded = run(["readelf", "--program-headers", "--dynamic", "--wide", program]).stdout
        ok("GNU_RELRO" in loaded and re.search(r"BIND_NOW|\bNOW\b", loaded), name + ": full RELRO", loaded)
    else:
        skip(name, "sanitizers, or not built")
done()
