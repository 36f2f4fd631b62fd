"""Tests the kernels of every analysis under Oclgrind, an interpreter that checks them: there are no
data races, uninitialized values, indices out of range or wrong OpenCL calls; and states or results
equal the CPU's."""
import os
import shutil

import levelset_run
import tap

UNIT = os.path.join(tap.BUILD, "tests", "unit")
BACKEND_TRY, OPENCL_TRY = os.path.join(UNIT, "backend_try"), os.path.join(UNIT, "opencl_try")
FOLDER = tap.scratch()
RACES, UNINITIALIZED = ("--data-races", "--check-api"), ("--uninitialized",)


def run(options, command, **hooks):
    return tap.run(["oclgrind", *options, *command],
                   env=dict(os.environ, **(tap.opencl_hooks(**hooks) if hooks else {})))


def common():
    """Oclgrind finds a race that was put into a kernel, and nothing in the device's self-test."""
    log = os.path.join(FOLDER, "log")

    def report(*args, **hooks):
        if os.path.exists(log):
            os.remove(log)
        r = run(RACES + UNINITIALIZED + ("--log", log), [OPENCL_TRY, *args], **hooks)
        if not os.path.exists(log):                  # no OpenCL device was opened
            return r, "", ""
        with open(log) as f:
            found = f.read()
        return r, found, "exit %d\n%s%s%s" % (r.returncode, r.stdout, r.stderr, found)

    r, found, output = report("selftest", "opencl", "floats", rounds=1)
    tap.ok("Oclgrind" in r.stdout, "a preloaded OpenCL library is used before the system's", output)
    tap.ok(r.returncode == 0 and found == "", "Oclgrind reports nothing in the self-test", output)
    r, found, output = report("selftest", "opencl", "floats")
    tap.ok(r.returncode == 0 and found == "",
           "Oclgrind does not report correct division, but passes the self-test",
           output)
    r, found, output = report("race", "opencl")
    tap.ok("race" in found, "Oclgrind reports a race that was put into a kernel", output)


def glcm():
    """Tiny items that need each kernel in each variant."""
    for parameters, shape in (
            ('{"levels":[8],"window":{"shape":"disc","radius":2},"distances":[1,2],'
             '"directions":"four","maps":[{"feature":"imc2","levels":8,"offset":[1,0]}]}',
             "9 8 1 8 0"),
            ('{"levels":[256],"window":{"shape":"square","radius":1},"distances":[1],'
             '"directions":"four","range":"image","roi":{"type":"mask"}}', "8 7 2 16 1"),
            ('{"levels":[6],"window":{"shape":"roi"},"distances":[1],"roi":{"type":"disc","r":3}}',
             "9 9 1 8 0")):
        yield parameters, shape, None, UNINITIALIZED


def cellcount():
    for parameters in ('{"threshold":"otsu","polarity":"bright"}',
                       '{"threshold":30000,"polarity":"bright","fill_holes":true,"connectivity":4,'
                       '"min_area":2}',
                       '{"threshold":"otsu","polarity":"bright","fill_holes":true,'
                       '"split":"distance"}',
                       '{"smooth":0.5,"background":{"radius":3},"threshold":"local","window":9}',
                       '{"background":{"radius":9,"method":"mean","by":"ratio"},'
                       '"split":"intensity"}'):
        for bits in ("8", "16"):
            yield parameters.replace("30000",
                                     "120") if bits == "8" else parameters, "41 37 1 %s 0" % bits, \
                None, UNINITIALIZED


def volume():
    for parameters, bits, memory in (('{"membrane":110}', "8", None),
                                     ('{"membrane":30000,"mode":"slices"}', "16", None),
                                     ('{"membrane":110}', "8", 9000),
                                     ('{"membrane":110,"repair":{"sigma":0.5}}', "8", None),
                                     ('{"method":"watershed","smooth":0.5,"h":2}', "8", None),
                                     ('{"method":"watershed","smooth":0.5,"h":900}', "16", 100000),
                                     ('{"method":"watershed","mode":"slices","connectivity":26,'
                                      '"fill":true}', "8", None)):
        # After a repair the host writes the mask in parts, which Oclgrind reports as
        # uninitialized.
        repair = "repair" in parameters
        for result in ("",) if memory or repair else ("", " result"):
            yield (parameters, "35 18 11 %s 0%s" % (bits, result), memory,
                   () if repair else UNINITIALIZED)


def voting():
    for parameters, shape, memory in (('{"radius":3,"sigma":1}', "21 14 1 8 0", None),
                                      ('{"radius":2,"sigma":0.5}', "5 70 1 8 0", 50000),
                                      # a row longer than one of voting's segments
                                      ('{"radius":2,"sigma":0,"floor":0}', "531 2 1 16 0", None),
                                      ('{"radius":2,"sigma":0.5,"polarity":"dark"}', "9 8 6 16 0",
                                       None)):
        for result in ("", " result"):
            yield parameters, shape + result, memory, UNINITIALIZED


# Both kinds of time step, the narrow band, an early end.
LEVELSET = {
    "2D": ((1, 10, 35), {"init": {"type": "ball", "cx": 15, "cy": 5, "r": 4}, "reinit_every": 1,
                         "iterations": 2}),
    "3D": ((5, 9, 12), {"init": {"type": "ball", "cx": 5, "cy": 4, "cz": 2, "r": 3}, "dt": 0.2,
                        "reinit_every": 1, "iterations": 4, "stop_after": 2, "edge_stop": 0.001}),
    "3D band": ((6, 12, 20),
                {"init": {"type": "ball", "cx": 9, "cy": 6, "cz": 3, "r": 4}, "band": 3,
                 "reinit_every": 1, "iterations": 5, "stop_after": 4}),
}


def levelset():
    """Oclgrind 21.10 does not support the instruction "freeze", which its own compiler's optimiser
    generates; so kernels are compiled without optimisation."""
    for name, (shape, changes) in LEVELSET.items():
        unit = levelset_run.write(os.path.join(FOLDER, "u.zip"), levelset_run.balls(shape, 3),
                                  dict({"target": 180, "epsilon": 60}, **changes))
        expected, _ = levelset_run.state(unit, os.path.join(FOLDER, "s"))
        out = os.path.join(FOLDER, "g")
        for watched, options in (("races and wrong calls", RACES),
                                 ("uninitialized values", UNINITIALIZED)):
            r = run(("--build-options", "-cl-opt-disable") + options,
                    [levelset_run.STATE_OF, unit, "0", "opencl", "1", out],
                    rounds=1)
            got = open(out, "rb").read() if r.returncode == 0 else None
            tap.ok(r.stderr.strip() == "" and got is not None and got == expected,
                   "levelset: no %s, and the same bits: %s" % (watched, name), r.stderr[:3000])


def main():
    if shutil.which("oclgrind") is None or not os.path.exists(BACKEND_TRY):
        tap.skip("Oclgrind", "oclgrind or backend_try is not here")
    elif tap.sanitized():
        tap.skip("Oclgrind", "sanitizers and Oclgrind exclude each other")
    else:
        common()
        for cases in (glcm, cellcount, volume, voting):
            for parameters, arguments, memory, options in cases():
                r = run(RACES + options,
                        [BACKEND_TRY, cases.__name__, parameters, *arguments.split()],
                        **({"memory": memory} if memory else {}))
                lines = [line for line in (r.stdout + r.stderr).splitlines() if line.strip()]
                tap.ok(r.returncode == 0 and len(lines) == 1,
                       "%s: %s, %s%s" % (cases.__name__, parameters, arguments,
                                         ", in slabs" if memory else ""),
                       "exit %d\n%s" % (r.returncode, "\n".join(lines[:20])))
        levelset()
    tap.done()


if __name__ == "__main__":
    main()
