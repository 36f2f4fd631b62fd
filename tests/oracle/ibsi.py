"""The digital phantom of the Image Biomarker Standardisation Initiative (IBSI reference manual)."""
import numpy as np

# Four slices of four rows; 0 is outside the mask, which has 74 voxels.
PHANTOM = np.array([
    [[1, 4, 4, 1, 1], [1, 4, 6, 1, 1], [4, 1, 6, 4, 1], [4, 4, 6, 4, 1]],
    [[1, 4, 4, 1, 1], [1, 1, 6, 1, 1], [0, 1, 3, 1, 1], [4, 4, 6, 1, 1]],
    [[1, 4, 4, 0, 0], [1, 1, 1, 1, 1], [1, 1, 0, 1, 1], [1, 1, 6, 1, 1]],
    [[1, 4, 4, 0, 0], [1, 1, 1, 1, 1], [1, 1, 1, 1, 1], [1, 1, 6, 1, 1]]], np.uint8)
