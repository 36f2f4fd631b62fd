"""Builds the programs that read untrusted files once more, with the address and undefined-behaviour
sanitizers, and checks that they refuse every bad file in the same way."""
import os
import sys

import tap
from quality import builds

if __name__ == "__main__":
    folder = builds.make("readers", "asan-readers", "--enable-sanitizers", "CFLAGS=-g -O1",
                         "CXXFLAGS=-g -O1",
                         targets=["texcell"])
    if folder is not None:
        r = tap.run([sys.executable, os.path.join(tap.SRC, "tests", "bad_files.py")],
                    env=dict(os.environ, TEXCELL_BUILD=folder, ASAN_OPTIONS="exitcode=99"))
        points = [line for line in r.stdout.splitlines() if line.startswith(("ok ", "not ok "))]
        tap.ok(r.returncode == 0 and points, "readers: %d bad files" % len(points),
               "\n".join(line for line in points if line.startswith("not ")) + r.stderr[-2000:])
    tap.done()
