"""The long comparison of glcm with its oracle: many random jobs, and the preset hcc on larger parts
of real pictures. Arguments: seconds (default 1500) and the first seed."""
import sys
import time

import numpy as np
import PIL.Image
import skimage.data

import tap
from oracle import glcm_cases
from oracle.glcm_check import check
from oracle.workunit import item


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 1500
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    end = time.monotonic() + seconds
    whole = {"brick": skimage.data.brick(), "camera": skimage.data.camera()}
    path = tap.data("crystal/vmxi_big_crystals_3.jpg")
    if path is None:
        tap.skip("hcc preset on a crystal picture", "the folder of real pictures is absent")
    else:
        whole["crystal"] = np.asarray(PIL.Image.open(path))
    for name, picture in whole.items():
        check("hcc preset, a disc of radius 2 in all of %s" % name,
              {"preset": "hcc", "roi": {"type": "disc", "r": 2}, "per_offset": True},
              [item(name, [picture])], threads=2)
    # A larger region for one matrix than any in the short test.
    big = np.asarray(skimage.data.camera()).repeat(5, 0).repeat(5, 1)
    check("one matrix for a region of 6.5 million pixels",
          {"levels": [16, 256], "window": {"shape": "roi"}, "distances": [1, 40],
           "directions": "four", "roi": {"type": "all"}, "per_offset": True}, [item("big", [big])])
    flat = np.zeros((3000, 3000), np.uint8)
    flat[1500, 1500] = 255
    check("one odd pixel among nine million",
          {"levels": [2, 256], "window": {"shape": "roi"}, "distances": [1],
           "directions": "four", "roi": {"type": "all"}, "per_offset": True}, [item("odd", [flat])])
    tap.note("random jobs from seed %d" % seed)
    while time.monotonic() < end:
        parameters, items = glcm_cases.random_job(np.random.default_rng(seed), 6000)
        check("random job %d" % seed, parameters, items, threads=1 + seed % 3)
        seed += 1
    tap.done()


if __name__ == "__main__":
    main()
