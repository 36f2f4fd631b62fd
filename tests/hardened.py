#!/usr/bin/python3
"""Tests that the programs that read untrusted files are compiled so that memory errors end them:
with stack protectors, with checked calls of the C library (_FORTIFY_SOURCE), with read-only
relocations (RELRO), and with protected jumps (CET). For CET only texcell's own objects are checked,
as static libraries may lack it."""
import os
import re

from tap import BUILD, done, ok, run, skip

with open(os.path.join(BUILD, "Makefile")) as f:
    flags = dict(re.findall(r"(?m)^(CFLAGS|SAN_CFLAGS) =(.*)$", f.read()))
hard = "-fsanitize" not in "".join(flags.values())
# Only texcell's own library is checked for these, as static libraries may be compiled otherwise.
own = run(["nm", "--undefined-only", os.path.join(BUILD, "libbase.a")]).stdout
parts = run(["readelf", "--notes", os.path.join(BUILD, "libbase.a")]).stdout
if hard and "x86-64" in run(["readelf", "--file-header",
                             os.path.join(BUILD, "texcell")]).stdout.lower():
    ok(parts.count("IBT, SHSTK") >= parts.count("File:"),
       "jumps and returns are protected on processors with CET", parts)
else:
    skip("CET", "sanitizers, or another processor")
for what, call, off in (("guards the stack", "__stack_chk_fail", False),
                        ("calls that know the room", "__vsnprintf_chk",
                         re.search(r"-O[0g]\b", flags["CFLAGS"]))):
    if hard and not off:
        ok(call in own, what, own)
    else:
        skip(what, "sanitizers, or not optimised")
for name in ("texcell", "texcell-wu", "texcell-validate", "texcell-assimilate"):
    program = os.path.join(BUILD, name)
    if hard and os.path.exists(program):
        loaded = run(["readelf", "--program-headers", "--dynamic", "--wide", program]).stdout
        ok("GNU_RELRO" in loaded and re.search(r"BIND_NOW|\bNOW\b", loaded), name + ": full RELRO",
           loaded)
        ok("file type is DYN" in loaded and "TEXTREL" not in loaded and
           re.search(r"GNU_STACK .* RW +0x", loaded),
           name + ": position-independent, without an executable stack or writable code", loaded)
    else:
        skip(name, "sanitizers, or not built")
done()
