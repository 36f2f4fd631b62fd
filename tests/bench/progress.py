"""make bench-progress: how linear the fraction done is. The client takes the time left from it: t (1 - f) / f, t being the time
so far. Here t is processor time of one thread; printed is by how much the time left that this tells was wrong, from a tenth of
the task on, "-" where nothing was drawn near that share: a phase without progress. Arguments: names of analyses, or none for all."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios

import plans

LARGER = {"objects": 3, "volume": 3, "cellcount": 3, "voting": 3}     # than for make bench-plans: sides, so that there are seconds to look at


def processor_time(pid):
    with open("/proc/%d/schedstat" % pid) as f:
        return int(f.read().split()[0]) / 1e9


def course(unit, result):
    """[(processor time, fraction)] of a run, and the processor time of the whole of it."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    p = subprocess.Popen([plans.TEXCELL, "run", unit, "-o", result, "--device", "cpu", "--threads", "1"], stderr=slave)
    os.close(slave)
    points, text = [], b""
    try:
        while True:
            more = os.read(master, 65536)
            if not more:
                break
            spent = processor_time(p.pid)
            text = (text + more)[-200:]
            shown = re.findall(rb"(\d+\.\d)%", text)
            if shown and (not points or float(shown[-1]) / 100 > points[-1][1]):
                points.append((spent, float(shown[-1]) / 100))
    except OSError:          # the other end is closed
        pass
    os.close(master)
    _pid, status, usage = os.wait4(p.pid, 0)
    p.returncode = status
    return points, usage.ru_utime + usage.ru_stime


def main():
    shown, only = plans.pictures(), sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="texcell-bench-") as folder:
        for analysis, parameters, kind, times in plans.JOBS:
            if only and analysis not in only:
                continue
            times *= LARGER.get(analysis, 1)
            unit = plans.pack(folder, shown, analysis, parameters, kind, times)
            points, whole = course(unit, os.path.join(folder, "r.npz"))
            errors = []
            for share in (0.1, 0.2, 0.3, 0.5, 0.7, 0.9):
                at = [p for p in points if p[0] >= share * whole]
                if at and at[0][0] < min(share + 0.08, 0.97) * whole and at[0][1] > 0:
                    t, f = at[0]
                    errors.append("%+4.0f%%" % (100 * (t * (1 - f) / f / (whole - t) - 1)))
                else:
                    errors.append("    -")
            print("%-10s %-62s %6.2f s  at 10, 20, 30, 50, 70, 90%%: %s" % (analysis, " ".join(parameters), whole, " ".join(errors)),
                  flush=True)


if __name__ == "__main__":
    main()
