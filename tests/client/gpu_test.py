"""Tests a GPU task in the real BOINC client. The client's configuration has an NVIDIA GPU, and
gpu_shim.c presents PoCL as one: so the client treats the task as a GPU task, and texcell finds its
device. The task is suspended, the GPU is lost, and the driver crashes; the result equals the CPU's.
Also tests the app_config.xml examples of docs/volunteer.md."""
import contextlib
import os
import re
import subprocess

import numpy as np

import compiled
import tap
from oracle import workunit
from harness import end_cleanly, Client, Server, Timeout, together, until
from work import pack, run_alone

LIMIT = 480         # seconds after which the test gives up
WORK = tap.scratch()
LOST = os.path.join(WORK, "lost")       # while this file exists, the GPU is lost (gpu_shim.c)
CRASH = os.path.join(WORK, "crash")     # while this file exists, the driver crashes
ENVIRONMENT = {"POCL_CACHE_DIR": compiled.copy(WORK, "glcm", "levelset"), "GPU_SHIM_LOST": LOST,
               "GPU_SHIM_CRASH": CRASH}


def make_gpu():
    """Builds gpu_shim.so; returns whether it works, with a device of PoCL."""
    library = os.path.join(WORK, "gpu_shim.so")
    made = tap.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", library,
                    os.path.join(tap.SRC, "tests", "client", "gpu_shim.c"),
                    "-Wl,--no-as-needed", "-l:libOpenCL.so.1", "-ldl"])
    if made.returncode != 0:
        tap.skip("a GPU task", "no OpenCL to link with: " + made.stderr.strip().replace("\n", " "))
        return False
    ENVIRONMENT["TEXCELL_OPENCL_LIBRARY"] = library
    unit = os.path.join(WORK, "tiny.zip")
    pack(unit, ["coins"], 4)
    p = tap.run([tap.TEXCELL, "run", unit, "-o", unit + ".npz", "--device", "0:0"],
                env=dict(os.environ, **ENVIRONMENT))
    if p.returncode != 0:
        tap.skip("a GPU task", "no OpenCL device: " + p.stderr.strip())
    return p.returncode == 0          # PoCL's cache now has the kernels, too


@contextlib.contextmanager
def client_with_tasks(name, server, tasks, gpu="", environment={}, without=None, **app):
    """A context with a client that has some tasks. tasks: [(name, work unit)]."""
    client = Client(os.path.join(WORK, name), server, gpu, without, **ENVIRONMENT, **environment)
    try:
        client.add_app("texcell", tap.TEXCELL, gpu=gpu, **app)
        for task, unit in tasks:
            client.add_task(task, unit)
        client.preferences(leave_in_memory=1, checkpoint_seconds=1)
        yield client
    except Timeout as e:
        raise Timeout("%s\n%s%s" % (e, client.slot_stderr(), client.log_tail())) from e
    finally:
        client.close()


def executing(client):
    return [t for t in client.tasks().values() if t.get("active_task_state") == "EXECUTING"]


# --- a GPU task -------------------------------------------------------------------------

def test_suspension(client, task):
    """A suspended task must release the GPU, whether or not tasks stay in memory."""
    process = client.task_process(task)
    until(60, lambda: client.fraction(task) > 0.05, "the GPU task is at work")
    tap.ok("glcm on pthread" in client.stderr_of(task),
           "the GPU task runs on the device that the client assigned",
           client.stderr_of(task))
    slot = client.slot_of(task)
    client.tell(task, "suspend")
    until(20, lambda: not process.alive(), "a suspended GPU task exits")
    with open(os.path.join(slot, "stderr.txt")) as f:
        output = f.read()
    tap.ok("texcell: the client asked to quit" in output and
           os.path.exists(os.path.join(slot, "checkpoint")),
           "a suspended task releases the GPU, reports it, and leaves a checkpoint", output)
    client.tell(task, "resume")


def test_lost_gpu(client, task):
    process = client.task_process(task)
    until(60, lambda: "going on from the checkpoint" in client.stderr_of(task),
          "it goes on after a suspension")
    open(LOST, "w").close()
    until(20, lambda: not process.alive(), "a task that lost its GPU exits")
    until(20, lambda: "postponed for" in client.log_tail(), "the client is told to wait")
    line = [x for x in client.log_tail().splitlines() if "postponed for" in x][-1]
    tap.ok(re.search(r"Task %s postponed for 300 seconds: (\S.*): launch of kernel \w+: "
                     r"CL_OUT_OF_RESOURCES" % task, line)
           and line.count("pthread-") == 1,
           "GPU lost: the client waits, and shows the reason", line)
    os.remove(LOST)
    client.quit()              # the new client does not know that the task was postponed
    client.start()


def test_driver_crash(client, task):
    """The driver crashes: the first time, and the third time in a row."""
    for before, seconds, why in ((0, 300, "the OpenCL driver failed: clEnqueueNDRangeKernel "
                                  "crashed (signal 11)"),
                                 (2, 86400, "the OpenCL driver fails again and again; update it, "
                                  "or take the device from BOINC with exclude_gpu: "
                                  "clEnqueueNDRangeKernel crashed (signal 11)")):
        process = client.task_process(task)
        faults = os.path.join(client.slot_of(task), "driver_faults")
        with open(faults, "w") as f:
            f.write("x" * before)
        open(CRASH, "w").close()
        until(30, lambda: not process.alive(), "a task whose driver crashed exits")
        line = "Task %s postponed for %d seconds: %s" % (task, seconds, why)
        until(20, lambda: "postponed for %d seconds: the OpenCL" % seconds in client.log_tail(),
              "the client is told to wait")
        tap.ok(line in client.log_tail() and os.path.getsize(faults) == before + 1,
               "the driver crashed, %d times before: the task waits %d s" % (before, seconds),
               client.log_tail())
        os.remove(CRASH)
        client.quit()
        client.start()
    until(60, lambda: not os.path.exists(faults),
          "driver_faults is removed when the task writes a checkpoint")


def test_large_stack(server):
    """A stack that does not fit the GPU's memory is computed on the CPU, as waiting would be of no
    use."""
    unit, result = os.path.join(WORK, "large.zip"), os.path.join(WORK, "large.npz")
    workunit.write(unit, "levelset",
                   {"target": 150, "epsilon": 60, "iterations": 5, "init": {"type": "ball", "r": 9,
                   "cx": 50, "cy": 50, "cz": 10}},
                   [workunit.item("a", [np.full((100, 100), 150, np.uint8)] * 20)])
    memory = {"GPU_SHIM_MEMORY": str(4 << 20)}
    if tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", "cpu"]).returncode != 0:
        raise RuntimeError("texcell run: levelset")
    with client_with_tasks("small", server, [("w2", unit)], gpu="NVIDIA", environment=memory,
                           ncpus=0.1) as client:
        client.start()
        # PoCL compiles the kernels first: half a minute of processor time.
        output = until(240, lambda: client.result("w2_0").get("stderr_out"),
                       "a task ends without the GPU")
        until(20, lambda: "w2_0_0" in server.uploads, "its result is uploaded")
        with open(result, "rb") as f:
            tap.ok("the CPU does this item: " in output and server.uploads["w2_0_0"] == f.read(),
                   "a stack too large for the GPU: the task computes it on the CPU, and reports "
                   "the reason",
                   output)


def gpu_story(server):
    unit = os.path.join(WORK, "long.zip")
    pack(unit, ["camera", "brick", "moon"], 50)
    run_alone(unit, unit + ".npz", 2)
    # With GPU_SHIM_HANGS, the driver hangs when the process exits. A process that waited for it
    # would be counted as failed by the client after 300 s.
    hangs = {"GPU_SHIM_HANGS": "1"}
    with client_with_tasks("gpu", server, [("w1", unit)], gpu="NVIDIA", environment=hangs,
                           ncpus=0.1) as client:
        client.start()
        test_suspension(client, "w1_0")
        test_lost_gpu(client, "w1_0")
        test_driver_crash(client, "w1_0")
        until(240, lambda: "w1_0_0" in server.uploads, "the result is uploaded")
        with open(unit + ".npz", "rb") as f:
            tap.ok(server.uploads["w1_0_0"] == f.read(), "the GPU task's result is the CPU's")


def test_two_gpus(server):
    """The client itself finds two GPUs, and the volunteer excludes one of them, or none. A
    suspended task ends, whether tasks are to stay in memory or not."""
    unit = os.path.join(WORK, "endless.zip")
    found = os.path.join(WORK, "found")
    os.mkdir(found)
    os.symlink(ENVIRONMENT["TEXCELL_OPENCL_LIBRARY"], os.path.join(found, "libOpenCL.so"))
    two = {"POCL_DEVICES": "pthread pthread", "GPU_SHIM_NAMES": "1", "LD_LIBRARY_PATH": found}
    for name, without, gpus in (("second", [0], {"GPU 1"}), ("first", [1], {"GPU 0"}),
                                ("both", [], {"GPU 0", "GPU 1"})):
        with client_with_tasks(name, server, [(name + "1", unit), (name + "2", unit)], gpu="NVIDIA",
                               environment=two, without=without, ncpus=0.1) as client:
            client.preferences(leave_in_memory=0, checkpoint_seconds=1)
            client.start()
            tasks = until(30, lambda: len(executing(client)) == len(gpus) and
                          [t["name"] for t in executing(client)],
                          "as many tasks run as there are GPUs left")
            until(60, lambda: all("glcm on" in client.stderr_of(t) for t in tasks),
                  "they say where they run")
            used = [re.search("glcm on (GPU [01])", client.stderr_of(t)) for t in tasks]
            tap.ok(all(used) and {u[1] for u in used} == gpus,
                   "two GPUs, excluded %s: each task uses the one that the client assigned" %
                   without,
                   [client.stderr_of(t) for t in tasks])
            process = client.task_process(tasks[0])
            until(60, lambda: client.fraction(tasks[0]) > 0, "it is at work")
            client.tell(tasks[0], "suspend")
            until(20, lambda: not process.alive(), "a suspended GPU task exits")
            output = client.stderr_of(tasks[0])
            tap.ok("texcell: the client asked to quit" in output,
                   "a task not left in memory releases the GPU", output)


# --- the volunteer's app_config.xml ----------------------------------------------------------

def example(words):
    """The only XML example in docs/volunteer.md that contains these words."""
    with open(os.path.join(tap.SRC, "docs", "volunteer.md")) as f:
        blocks = [b for b in re.findall(r"```xml\n(.*?)```", f.read(), re.S) if words in b]
    if len(blocks) != 1:
        raise RuntimeError("%d examples have %s" % (len(blocks), words))
    return blocks[0]


@contextlib.contextmanager
def client_with_example(server, name, words, gpu="", version="", edit=lambda text: text, ncpus=1):
    """A context with a started client that has two tasks and the example as its app_config.xml. The
    version's plan class gets another name, as the client ignores OpenCL classes for a GPU that it
    did not find itself."""
    unit = os.path.join(WORK, "endless.zip")
    plan_class = version.replace("_opencl_", "_gpu_")
    with client_with_tasks(name, server, [(name + "1", unit), (name + "2", unit)], gpu=gpu,
                           plan_class=plan_class,
                           ncpus=ncpus) as client:
        client.app_config(edit(example(words)).replace("_opencl_", "_gpu_"))
        client.start()
        bad = [x for x in client.log_tail(200).splitlines() if "app_config" in x and
               "Found" not in x]
        tap.ok(not bad, "%s: the client accepts the example" % words, "\n".join(bad))
        yield client


def runs(client):
    """Waits until a task runs; returns its name."""
    return until(60, lambda: executing(client), "a task runs")[0]["name"]


def test_max_concurrent(server):
    with client_with_example(server, "one", "max_concurrent") as client:
        runs(client)
        tap.ok(len(executing(client)) == 1, "max_concurrent 1: one task at a time",
               executing(client))


def test_two_tasks_on_gpu(server):
    with client_with_example(server, "half", "gpu_usage", gpu="NVIDIA") as client:
        until(30, lambda: len(executing(client)) == 2, "two tasks run")
        tap.ok("0.5 NVIDIA GPU" in executing(client)[0]["resources"],
               "gpu_usage 0.5: two tasks on one GPU",
               executing(client))


def test_one_thread(server):
    with client_with_example(server, "threads", "--nthreads", version="texcell_mt_libc217",
                             ncpus=2) as client:
        process = client.task_process(runs(client))
        until(30, lambda: process.threads() == 2, "one thread, and BOINC's")
        tap.ok(len(executing(client)) == 2,
               "--nthreads 1, avg_ncpus 1: two tasks of one thread run on two CPUs",
               executing(client))


def test_device(server):
    with client_with_example(server, "device", "--gpu-percent", gpu="NVIDIA",
                             version="texcell_opencl_nvidia_windows",
                             edit=lambda text: text.replace("--gpu-percent 50",
                                                            "--device 0:0")) as client:
        task = runs(client)
        until(30, lambda: " on " in client.stderr_of(task), "it says where it runs")
        tap.ok("glcm on pthread" in client.stderr_of(task), "--device 0:0 selects the device",
               client.stderr_of(task))


def test_unknown_option(server):
    """An unknown option in app_config.xml stops no task."""
    with client_with_example(server, "slip", "--nthreads", version="texcell_mt_libc217",
                             edit=lambda text: text.replace("--nthreads",
                                                            "--help --ntreads")) as client:
        task = runs(client)
        until(30, lambda: " on " in client.stderr_of(task), "it says where it runs")
        tap.ok('ignored, in the command line: unknown option "--ntreads"' in client.stderr_of(task),
               "an unknown option in app_config.xml is reported and ignored",
               client.stderr_of(task))


def test_wrong_device(server):
    """A wrong --device postpones the task. It must not run on another device, as the volunteer may
    want to keep tasks off that device."""
    with client_with_example(server, "names", "--gpu-percent", gpu="NVIDIA",
                             version="texcell_opencl_nvidia_windows",
                             edit=lambda text: text.replace("--gpu-percent 50",
                                                            "--device cpus")) as client:
        until(30, lambda: "postponed for" in client.log_tail(), "the client is told to wait")
        tap.ok("_0 postponed for 300 seconds: --device: \"cpus\" is none of auto, cpu, "
               "opencl, P:D" in client.log_tail(),
               "a wrong --device: the task waits, and the client shows the reason",
               client.log_tail())


def main():
    end_cleanly(LIMIT)
    if make_gpu():
        with Server() as server:
            try:
                gpu_story(server)
                pack(os.path.join(WORK, "endless.zip"),
                     ["camera", "brick", "moon", "gravel", "grass"], 140)
                together(*[lambda story=story: story(server) for story in
                           (test_large_stack, test_two_gpus, test_max_concurrent,
                            test_two_tasks_on_gpu,
                            test_one_thread,
                            test_device, test_unknown_option,
                            test_wrong_device)])
            except (Timeout, RuntimeError, OSError, subprocess.TimeoutExpired) as e:
                tap.ok(False, "all waits end in time", e)
    tap.done()


main()
