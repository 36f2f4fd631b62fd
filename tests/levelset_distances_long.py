"""levelset_distances.py with masks of 300^3 voxels, and with long rows and columns."""
import levelset_distances as distances

if __name__ == "__main__":
    distances.main(distances.long_masks())
