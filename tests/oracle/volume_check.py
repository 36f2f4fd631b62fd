"""Runs texcell on a volume work unit and compares everything in the result with the
oracle, exactly."""
import os

import numpy as np

import tap
from oracle import volume_oracle, workunit

_scratch = None


def folder():
    global _scratch
    if _scratch is None:
        _scratch = tap.scratch()
    return _scratch


def texcell(unit, result, threads=1, device="cpu", **env):
    if os.path.exists(result):
        os.remove(result)
    return tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", device, "--threads",
                    str(threads), "--quiet"],
                   env=dict(os.environ, **env))


def run(parameters, items, threads=1, device="cpu", **env):
    """The arrays of the result; if there is none, a string that says why."""
    unit = workunit.write(os.path.join(folder(), "unit.zip"), "volume", parameters, items)
    result = os.path.join(folder(), "result.npz")
    ended = texcell(unit, result, threads, device, **env)
    if ended.returncode != 0 or not os.path.exists(result):
        return "exit %d\n%s" % (ended.returncode, ended.stderr)
    with np.load(result) as r:
        return {name: r[name] for name in r.files if not name.endswith(".json")}


def differences(r, items, answers, labels):
    """Lines that describe how the result differs from the answers."""
    lines = []

    def same(what, expected):
        got = r[what]
        if got.dtype != expected.dtype or got.shape != expected.shape or not np.array_equal(
                got, expected):
            where = np.argwhere(got != expected)[:3].tolist() if got.shape == expected.shape else ""
            lines.append("%s differs: %s %s, expected %s %s %s" % (what, got.shape, got.ravel()[:8],
                                                                   expected.shape,
                                                                  expected.ravel()[:8], where))
    counts = [len(a.voxels) for a in answers]
    for name, values in (("cells", counts), ("inside_voxels", [a.inside for a in answers]),
                         ("membrane_voxels", [a.membrane for a in answers]),
                         ("external_voxels", [a.outside for a in answers]),
                         ("left_out_voxels", [a.left_out for a in answers]),
                         ("repair_added_voxels", [a.added for a in answers]),
                         ("repair_bias_voxels", [a.bias for a in answers])):
        same(name, np.array(values, np.int64))
    if answers[0].otsu:
        same("threshold", np.array([a.threshold for a in answers], np.int64))
    same("voxel_volume", np.array([a.unit for a in answers]))
    same("volume", np.array([a.inside * a.unit for a in answers]))
    same("cell_item", np.repeat(np.arange(len(items), dtype=np.int64), counts))
    same("cell_label", np.concatenate([np.arange(1, n + 1, dtype=np.int64) for n in counts]))
    for name in ("voxels", "bbox", "centroid", "border"):
        same("cell_" + name, np.concatenate([getattr(a, name) for a in answers]))
    same("cell_volume", np.concatenate([a.voxels * a.unit for a in answers]))
    for it, a in zip(items, answers):
        if labels:
            same("labels_" + it["name"], a.labels)
    if not labels and any(n.startswith("labels_") for n in r):
        lines.append("labels are there, unasked")
    return lines


def check(name, parameters, items, threads=1, device="cpu", **env):
    """One test point: the program's result equals the oracle's."""
    r = run(parameters, items, threads, device, **env)
    if isinstance(r, str):
        return tap.ok(False, name, r)
    answers = [volume_oracle.analyse(np.stack(it["slices"]), parameters,
                                     it["spacing"] or (1.0, 1.0, 1.0))
               for it in items]
    lines = differences(r, items, answers, parameters.get("labels", False))
    unsure = sum(a.unsure for a in answers)
    return tap.ok(not lines and not unsure,
                  "%s (%d cells)" % (name, sum(len(a.voxels) for a in answers)),
                  "parameters %s, %d voxels where fixed point is off\n%s" % (parameters, unsure,
                                                                                "\n".join(
                                                                                    lines[:12])))
