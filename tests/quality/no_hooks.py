"""Checks that installed programs contain no hooks for tests, and that no test or benchmark includes
a .c file of the programs."""
import glob
import os
import re

import tap

HOOK = b"TEXCELL_TEST"


def main():
    for program in (tap.TEXCELL, tap.TEXCELL_WU, tap.TEXCELL_VALIDATE, tap.TEXCELL_ASSIMILATE):
        if os.path.exists(program):
            with open(program, "rb") as f:
                tap.ok(HOOK not in f.read(), "no test hook in " + os.path.basename(program))
    with open(tap.TEXCELL_TEST, "rb") as f:
        tap.ok(HOOK in f.read(), "texcell_test has test hooks, which this check finds")
    product = [f for top in ("app", "opencl", "wrapper", "workunits", "validator")
               for f in glob.glob(os.path.join(tap.SRC, top, "**", "*.*"), recursive=True)]
    named = [f for f in product if f.endswith((".c", ".h", ".cpp", ".cl", ".inc")) and
             HOOK in open(f, "rb").read()]
    tap.ok(len(product) > 100 and not named, "no test hook in a source of the programs", named)
    tests = glob.glob(os.path.join(tap.SRC, "tests", "**", "*.[ch]"), recursive=True)
    included = ["%s: %s" % (f, x) for f in tests
                for x in re.findall(r'#\s*include\s*"(.*\.c)"(?!.*NOLINT)', open(f).read())]
    tap.ok(len(tests) > 20 and not included, "no test includes a .c file, except with a NOLINT "
           "comment", "\n".join(included))
    tap.done()


main()
