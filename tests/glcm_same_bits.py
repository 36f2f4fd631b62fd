"""Tests that a work unit of glcm gives the same bytes with 1, 2, 3 and 7 threads, with and without
checkpoints, and on an OpenCL device."""
import os

import numpy as np
import skimage.data

import compiled
import same_bits
import tap
from oracle.workunit import item

FOLDER = tap.scratch()
os.environ["POCL_CACHE_DIR"] = compiled.copy(FOLDER, "glcm")


def jobs():
    rng = np.random.default_rng(5)
    crop = slice(200, 264)
    camera, brick = skimage.data.camera()[crop, crop], skimage.data.brick()[crop, crop]
    deep = rng.integers(0, 65536, (40, 37)).astype(np.uint16)
    yield "pictures", {"levels": [16, 32, 64], "distances": [1, 2, 3, 9, 25], "per_offset": True,
                       "roi": {"type": "disc", "r": 12},
                       "maps": [{"feature": "imc2", "levels": 64, "offset": [-1, 1]}]}, \
        [item("camera", [camera]), item("brick", [brick])]
    yield "deep", {"levels": [7, 256], "range": "image", "distances": [1, 4],
                   "window": {"shape": "square", "radius": 5}, "per_offset": True,
                   "roi": {"type": "mask"}}, \
        [item("deep", [deep], [rng.random(deep.shape) < 0.5])]
    yield "region", {"levels": [32], "distances": [1, 2, 3], "window": {"shape": "roi"},
                     "per_offset": True,
                     "roi": {"type": "mask"}}, \
        [item("stack", [camera, brick, brick[::-1]],
              [rng.random(camera.shape) < f for f in (0.9, 0.5, 0.01)])]
    yield "thin", {"levels": [16], "distances": [1, 2], "per_offset": True,
                   "roi": {"type": "all"}}, \
        [item("row", [camera[:1]]), item("column", [camera[:, :1]]), item("dot", [camera[:1, :1]])]


same_bits.everywhere(FOLDER, "glcm", jobs(), same_bits.has_device(), (None,))
tap.done()
