"""Tests that a work unit of cellcount gives the same bytes on the CPU with 1, 2, 3 and 7 threads,
on an OpenCL device, on a device too small for the picture, and when it is killed on one device and
continued on another. A device's values are also compared with the oracle's."""
import os

import numpy as np
from scipy import ndimage

import compiled
import same_bits
import tap
from oracle import cellcount_check, workunit
from oracle.workunit import item

FOLDER = tap.scratch()
os.environ["POCL_CACHE_DIR"] = compiled.copy(FOLDER, "cellcount")


def dark(mask):
    noise = (np.arange(mask.size).reshape(mask.shape) * 7919) % 100
    return np.where(mask, noise, 150 + noise).astype(np.uint8)


def pictures():
    rng = np.random.default_rng(3)
    y, x = np.indices((300, 517))
    deep = (ndimage.gaussian_filter(rng.random((150, 130)), 2) * 65535).astype(np.uint16)
    return [item("noise", [dark(rng.random((301, 517)) < 0.55)]),
            item("blobs", [dark(ndimage.gaussian_filter(rng.random((600, 1333)), 6) > 0.5)]),
            item("chess", [dark((y + x) % 2 == 0)]),
            item("rings", [dark(np.maximum(abs(y - 150), abs(x - 250)) % 2 == 0)]),
            item("all", [dark(np.ones((70, 70), bool))]),
            item("none", [dark(np.zeros((70, 33), bool))]),
            item("dot", [dark(np.ones((1, 1), bool))]),
            item("column", [dark(rng.random((33, 1)) < 0.5)]),
            item("row", [dark(rng.random((1, 65)) < 0.5)]), item("deep", [deep])]


JOBS = {
    "components": {"threshold": "otsu", "labels": True},
    "4-connected, filled": {"threshold": 125, "connectivity": 4, "fill_holes": True,
                            "labels": True},
    "filled, filtered": {"threshold": 125, "fill_holes": True, "min_area": 10,
                         "exclude_border": True,
                         "labels": True},
    "4-connected, filtered": {"threshold": 125, "connectivity": 4, "max_area": 40, "labels": True},
    "split": {"threshold": "otsu", "fill_holes": True, "split": "distance", "labels": True},
    "4-connected, split, filtered": {"threshold": 125, "connectivity": 4, "split": "distance",
                                     "min_area": 10,
                                     "labels": True},
    "opening, local": {"smooth": 1.5, "background": {"radius": 8, "by": "ratio"},
                       "threshold": "local", "window": 31,
                       "labels": True},
    "mean, split": {"background": {"method": "mean", "radius": 40}, "threshold": 100,
                    "split": "distance", "fill_holes": True},
    "lines": {"background": {"method": "lines", "radius": 40, "by": "ratio"}, "min_area": 3,
              "labels": True},
    "left to the picture": {"polarity": "auto", "threshold": "local", "window": 31,
                            "offset_percent": 20, "smooth": 1, "fill_holes": True,
                            "split": "distance", "min_contrast": {"full_area": 40}, "labels": True},
    "sizes left to the picture": {"polarity": "auto", "threshold": "local", "window": "auto",
                                  "offset_percent": 20, "smooth": 1, "fill_holes": True,
                                  "min_area": "auto", "min_fill": 0.3,
                                  "min_contrast": {"full_area": "auto"}, "labels": True},
    "min_area left to the picture": {"min_area": "auto", "split": "distance",
                                     "exclude_border": True},
    "classes, boxes": {"polarity": "auto", "classes": 3, "scale": "sqrt", "min_fill": 0.5,
                       "max_aspect": 2.5, "labels": True},
    "opening, split by intensity": {"background": {"radius": 7}, "polarity": "bright",
                                    "split": "intensity", "labels": True},
}


def test_turns(device):
    rng = np.random.default_rng(8)
    big = dark(ndimage.uniform_filter(rng.random((1900, 2300)), 9) > 0.5)
    unit = workunit.write(os.path.join(FOLDER, "big.zip"), "cellcount",
                          {"threshold": 125, "fill_holes": True, "split": "distance",
                           "labels": True},
                          [item("a", [big]), item("b", [big[::-1]]), item("c", [big[:, ::-1]])])
    same_bits.crossing(FOLDER, unit, device, 0.6, 0.3)


def test_oracle(device):
    if not device:
        return tap.skip("the oracle agrees with the device", "no OpenCL device")
    for name, parameters in JOBS.items():
        small = [it for it in pictures() if it["slices"][0].size < 200000]
        if parameters.get("split") == "distance":
            small = [it for it in small if it["slices"][0].size < 30000]
        cellcount_check.check("the oracle agrees with the device: " + name, parameters, small, 2,
                              "opencl")


device = same_bits.has_device()
# Device memory of 3 MB: enough for a picture, but not for a table of all squares of the chessboard.
same_bits.everywhere(FOLDER, "cellcount",
                     ((name, parameters, pictures()) for name, parameters in JOBS.items()), device,
                     (None, 3000000, 1700000))
test_oracle(device)
test_turns(device)
tap.done()
