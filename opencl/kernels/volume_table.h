/* Kernels that make the table of volume's cells from the voxels' labels. The includer defines GROUP
 * and GROUP_ATTRIBUTE. The row of the cell with label n is row n - 1. */
#ifndef OCL_VOLUME_TABLE_H
#define OCL_VOLUME_TABLE_H

#include "app/analysis/volume/layout.h"
#include "opencl/kernels/wide.h"

/* Clears the rows [first, end) of the table, [cells][VOL_COLUMNS]. A work-item clears a row. */
__kernel GROUP_ATTRIBUTE void vol_clear_table(__global uint *table, uint first, uint end)
{
    const uint cell = first + (uint)get_global_id(0);

    if (cell >= end)
        return;
    for (int k = 0; k < VOL_COLUMNS; k++)
        table[(size_t)cell * VOL_COLUMNS + k] = k >= VOL_LO && k < VOL_HI ? ~0u : 0;
}

/* The measurements of a part of a cell that lies within a slice: the number of its voxels, the
 * half-open bounds of their y and x, and the sums of y and of x. */
typedef struct vol_part {
    uint voxels, lo_y, lo_x, hi_y, hi_x;
    ulong sum_y, sum_x;
} vol_part;

/* Adds a part, in slice z, of the cell with the given label to the table. */
static void add_part(volatile __global uint *table, uint label, uint z, vol_part p)
{
    volatile __global uint *const row = table + (size_t)(label - 1) * VOL_COLUMNS;

    add_wide(&row[VOL_SUM_Z], (ulong)z * p.voxels);
    add_wide(&row[VOL_SUM_Y], p.sum_y);
    add_wide(&row[VOL_SUM_X], p.sum_x);
    atomic_add(&row[VOL_VOXELS], p.voxels);
    atomic_min(&row[VOL_LO], z);
    atomic_min(&row[VOL_LO + 1], p.lo_y);
    atomic_min(&row[VOL_LO + 2], p.lo_x);
    atomic_max(&row[VOL_HI], z + 1);
    atomic_max(&row[VOL_HI + 1], p.hi_y);
    atomic_max(&row[VOL_HI + 2], p.hi_x);
}

/* The number of cells that a work-group of vol_measure can measure at the same time in local
 * memory.
 */
#define SLOTS 64

/* Adds the measurements of the cells (labels > 0) in the slices from first_z on to the table.
 * labels: [nz][ny][nx]. Global size: x: voxels; y: groups of VOL_ROWS_PER_ITEM rows; z: slices. A
 * work-item goes down its column of VOL_ROWS_PER_ITEM rows, and adds each run of voxels with the
 * same label. A work-group first adds up its GROUP x VOL_ROWS_PER_ITEM voxels of a slice in local
 * memory, where a cell uses element label % SLOTS; there, coordinates are relative to the
 * work-group's first voxel. A run whose element is already used by another cell is added to the
 * table directly. */
__kernel GROUP_ATTRIBUTE void vol_measure(__global const int *labels, volatile __global uint *table,
                                          int nx, int ny, int first_z)
{
    /* owner: the label of the cell that uses the element, or 0. sum, lo, hi: index 0 is for y,
     * index 1 for x. */
    volatile __local uint owner[SLOTS], voxels[SLOTS], sum[2][SLOTS], lo[2][SLOTS], hi[2][SLOTS];
    const int local_id = (int)get_local_id(0), x = (int)get_global_id(0), x0 = x - local_id;
    const int y0 = (int)get_global_id(1) * VOL_ROWS_PER_ITEM,
              end = TC_MIN(y0 + VOL_ROWS_PER_ITEM, ny);
    const uint z = (uint)first_z + (uint)get_global_id(2);
    __global const int *const column = labels + (size_t)z * ny * nx + x;

    for (int p = local_id; p < SLOTS; p += GROUP) {
        owner[p] = voxels[p] = 0;
        for (int k = 0; k < 2; k++) {
            sum[k][p] = hi[k][p] = 0;
            lo[k][p] = ~0u;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int y = y0, from = y0; x < nx && y < end; from = y) {
        const int label = column[(size_t)y * nx];

        do
            y++;
        while (y < end && column[(size_t)y * nx] == label);
        if (label <= 0)
            continue;
        /* n: voxels of the run; down: the sum of their y - y0, which go from `from` to y - 1 */
        const uint n = (uint)(y - from), down = (uint)(from - y0 + y - 1 - y0) * n / 2,
                   p = (uint)label % SLOTS;
        const uint before = atomic_cmpxchg(&owner[p], 0, (uint)label);

        if (before != 0 && before != (uint)label) {
            add_part(table, (uint)label, z,
                     (vol_part){ n, (uint)from, (uint)x, (uint)y, (uint)x + 1, (ulong)y0 * n + down,
                                 (ulong)x * n });
            continue;
        }
        atomic_add(&voxels[p], n);
        atomic_add(&sum[0][p], down);
        atomic_add(&sum[1][p], (uint)local_id * n);
        atomic_min(&lo[0][p], (uint)from);
        atomic_min(&lo[1][p], (uint)x);
        atomic_max(&hi[0][p], (uint)y);
        atomic_max(&hi[1][p], (uint)x + 1);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int p = local_id; p < SLOTS; p += GROUP)
        if (owner[p] != 0)
            add_part(table, owner[p], z,
                     (vol_part){ voxels[p], lo[0][p], lo[1][p], hi[0][p], hi[1][p],
                                 (ulong)y0 * voxels[p] + sum[0][p],
                                 (ulong)x0 * voxels[p] + sum[1][p] });
}

#endif
