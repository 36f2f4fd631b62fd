"""Computes the weights of the Gaussian filter that docs/dev/analyses/volume.md defines, in double
precision and as integers."""
import math

import numpy as np


def gaussian(sigma):
    k = np.arange(-math.ceil(3 * sigma), math.ceil(3 * sigma) + 1)
    g = np.exp(-k * k / (2 * sigma * sigma))
    return g / g.sum()


def integer_weights(sigma):
    """The weights as integers with the sum 65,536."""
    if sigma == 0:
        return np.array([65536])
    weights = np.floor(gaussian(sigma) * 65536 + 0.5).astype(np.int64)
    half = len(weights) // 2
    weights[half] = 65536 - (weights.sum() - weights[half])
    return weights
