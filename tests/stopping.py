"""A function that stops a run repeatedly."""
import os
import signal
import subprocess

import tap


def stopped_often(folder, unit, device, seconds, more_per_turn):
    """The bytes of the result, and the number of stops. In turn 1, 2, ..., the program is stopped
    after seconds + more_per_turn * turn seconds, by SIGTERM or SIGKILL. It runs on CPU and device
    alternately if there is a device."""
    result, where = os.path.join(folder, "x.npz"), os.path.join(folder, "checkpoints")
    os.mkdir(where)
    kills, turns = 0, 0
    while not os.path.exists(result) and turns < 40:
        turns += 1
        backend = "opencl" if device and turns % 2 else "cpu"
        p = subprocess.Popen([tap.TEXCELL, "run", unit, "-o", result, "--device", backend,
                              "--threads", str(turns % 3 + 1),
                              "--checkpoint-dir", where, "--checkpoint-every", "0.01", "--quiet"],
                             stderr=subprocess.PIPE)
        try:
            p.wait(timeout=seconds + more_per_turn * turns)
        except subprocess.TimeoutExpired:
            p.send_signal(signal.SIGTERM if turns % 4 else signal.SIGKILL)
            p.wait()
            kills += 1
        p.stderr.close()
    with open(result, "rb") as f:
        return f.read(), kills
