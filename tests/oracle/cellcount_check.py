"""Runs texcell on a cellcount work unit and compares everything in the result
with the oracle, exactly."""
import os

import numpy as np

import tap
from oracle import cellcount_oracle, workunit

_scratch = None


def folder():
    global _scratch
    if _scratch is None:
        _scratch = tap.scratch()
    return _scratch


def texcell(unit, result, threads=1, device="cpu", extra=()):
    if os.path.exists(result):
        os.remove(result)
    return tap.run([tap.TEXCELL, "run", unit, "-o", result, "--device", device,
                    "--threads", str(threads), "--quiet"] + list(extra))


def differences(result, items, answers, labels):
    """Lines that describe how the result differs from the answers."""
    lines = []

    def same(what, got, expected):
        if got.dtype != expected.dtype or got.shape != expected.shape or not np.array_equal(
                got, expected):
            where = ""
            if got.shape == expected.shape:
                where = ", first at %s: %s, expected %s" % tuple(
                    [tuple(np.argwhere(got != expected)[0])] +
                    [v[got != expected][0] for v in (got, expected)]
                    if (got != expected).any() else ["", got.dtype, expected.dtype])
            lines.append("%s differs: shape %s, expected %s%s" % (what, got.shape, expected.shape,
                                                                  where))
    with np.load(result) as r:
        same("count", r["count"], np.array([a.count for a in answers], np.int64))
        same("threshold", r["threshold"], np.array([a.threshold for a in answers], np.int64))
        if hasattr(answers[0], "bright"):
            same("bright", r["bright"], np.array([a.bright for a in answers]))
        for name in ("window", "min_area"):
            if hasattr(answers[0], name):
                same(name, r[name], np.array([getattr(a, name) for a in answers], np.int64))
        same("region_item", r["region_item"],
             np.repeat(np.arange(len(items), dtype=np.int64), [a.count for a in answers]))
        same("region_label", r["region_label"],
             np.concatenate([np.arange(1, a.count + 1, dtype=np.int64) for a in answers]))
        for name in ("area", "bbox", "centroid", "mean", "border"):
            same("region_" + name, r["region_" + name],
                 np.concatenate([getattr(a, name) for a in answers]))
        for it, a in zip(items, answers):
            if labels:
                same("labels_" + it["name"], r["labels_" + it["name"]], a.labels)
        if not labels and any(n.startswith("labels_") for n in r.files):
            lines.append("labels are there, unasked")
    return lines


def check(name, parameters, items, threads=1, device="cpu"):
    """One test point: the program's result equals the oracle's."""
    unit = workunit.write(os.path.join(folder(), "unit.zip"), "cellcount", parameters, items)
    result = os.path.join(folder(), "result.npz")
    run = texcell(unit, result, threads, device)
    if run.returncode != 0 or not os.path.exists(result):
        return tap.ok(False, name, "exit %d\n%s" % (run.returncode, run.stderr))
    answers = [cellcount_oracle.analyse(it["slices"][0], parameters, *(it["masks"] or []))
               for it in items]
    lines = differences(result, items, answers, parameters.get("labels", False))
    return tap.ok(not lines, "%s (%d regions)" % (name, sum(a.count for a in answers)),
                  "parameters %s\n%s" % (parameters, "\n".join(lines[:12])))
