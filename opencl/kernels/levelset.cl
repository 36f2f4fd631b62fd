/*
 * The OpenCL kernels of levelset; app/analysis/levelset/levelset.h describes the method. Fields are
 * arrays [nz][ny][nx]. phi is the level-set function, negative inside the segmented region; U is
 * its rate of change. With a narrow band only the blocks of voxels near the contour are computed.
 *
 * Macros: TILE_X, TILE_Y, TILE_Z, the size in voxels of a tile, the box that a work-group computes
 * at a time; with a narrow band a tile is a block of the band. A work-group has TILE_X * TILE_Y
 * work-items. This number must be at least BORDER and (TILE_X + TILE_Y) * TILE_Z, as each work-item
 * processes a column of the tile, and at most one column of the border and one of the faces before
 * the tile's first voxels.
 *
 * The host reads nothing between the iterations of a batch. The control words `ctl` (layout.h) hold
 * the largest |U| and the results that the host reads after the batch. The evolution ends when no
 * voxel has changed its side (the sign of phi) for `stop_after` iterations; 0 means never. Kernels
 * that run after that leave phi unchanged. `done` is the number of iterations before the launch.
 */
//! check: -DTILE_X=8 -DTILE_Y=8 -DTILE_Z=1
#pragma OPENCL FP_CONTRACT OFF
#ifndef TILE_X
#define TILE_X 32
#define TILE_Y 8
#define TILE_Z 4
#endif
#include "app/analysis/levelset/core.h"
#include "app/analysis/levelset/layout.h"

#define EDT_SIDE(l, i) ((l)->side[i])
#define EDT_WANTED(inside) 1
#include "opencl/kernels/edt.h"

/* For real.h, whose functions are written for scalars and for vectors: here for floats. */
#define LS_REAL float
#define LS_NAME(name) name
#define LS_INLINE static inline
#define LS_C(c) (c)
#define LS_SQRT(a) sqrt(a)
#define LS_POS(a) ((a) > 0.0f ? (a) : 0.0f)
#define LS_SIGN(a) ((a) > 0.0f ? 1.0f : -1.0f)
#include "app/analysis/levelset/real.h"

/* The exponent bits of a float. All of them are set if the float is not finite. */
#define NOT_FINITE 0x7f800000u

/* The parameters of functions for the picture's size in voxels (SIZES) and in blocks of the narrow
 * band (BLOCKS). */
#define SIZES const tc_u32 nx, const tc_u32 ny, const tc_u32 nz
#define BLOCKS const tc_u32 bx, const tc_u32 by, const tc_u32 bz

/* Whether the evolution had ended after `done` iterations. Every work-item of a work-group must
 * call this function. word: a word of local memory. first: set for exactly one work-item. The
 * result is the same if another work-group records a change of the current iteration at the same
 * time. */
static inline tc_u32 has_ended(volatile __global tc_u32 *ctl, __local tc_u32 *word, tc_u32 first,
                               tc_u32 done, tc_u32 stop_after)
{
    if (stop_after == 0)
        return 0;
    if (first)
        *word = atomic_or(&ctl[LS_CTL_CHANGE], 0u);
    barrier(CLK_LOCAL_MEM_FENCE);
    const tc_u32 change = *word;
    barrier(CLK_LOCAL_MEM_FENCE);
    return done >= change && done - change >= stop_after ? 1u : 0u;
}

#define CHANGED_SIDE 1u   /* the sign of a voxel's phi has changed */
#define NOT_FINITE_PHI 2u /* phi of a voxel is not finite */
/* Returns the flags for record_motion, given phi of a voxel before and after an iteration. */
static inline tc_u32 motion_flags(float before, float after)
{
    return ((before < 0.0f) != (after < 0.0f) ? CHANGED_SIDE : 0u) |
           ((as_uint(after) & NOT_FINITE) == NOT_FINITE ? NOT_FINITE_PHI : 0u);
}

/* Writes the flags of all work-items of a work-group to ctl. Every work-item must call this
 * function. my_flags: the calling work-item's flags. first: set for exactly one work-item. flags: a
 * word of local memory, which has been zeroed before a barrier. iteration: the current iteration,
 * counted from 1. */
static inline void record_motion(volatile __global tc_u32 *ctl, volatile __local tc_u32 *flags,
                                 tc_u32 my_flags, tc_u32 first, tc_u32 iteration)
{
    if (my_flags != 0)
        atomic_or(flags, my_flags);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (first) {
        const tc_u32 group_flags = *flags;

        if (group_flags & CHANGED_SIDE)
            atomic_max(&ctl[LS_CTL_CHANGE], iteration);
        if (group_flags & NOT_FINITE_PHI)
            atomic_min(&ctl[LS_CTL_BAD], iteration);
    }
}

/* Returns the time step of the iteration: dt or, if cfl is set, the step that ls_cfl_step computes
 * from the largest |U|, at most dt. Iterations use the two words LS_CTL_MOST in turn. */
static inline float time_step(__global const tc_u32 *ctl, tc_u32 cfl, float dt, tc_u32 done)
{
    return cfl ? ls_cfl_step(as_float(ctl[LS_CTL_MOST + ((done + 1) & 1)]), dt) : dt;
}

/* --- the step ----------------------------------------------------------------------
 *
 * A work-group computes a tile of TILE_X * TILE_Y * TILE_Z voxels at a time. Each work-item
 * computes a column of the tile along z. A face lies between two adjacent voxels, and has a value
 * (ls_face) from which the curvature is computed. Local memory holds phi of the tile with a border
 * of one voxel, and the values of the faces between voxels along x and along y. A work-item
 * computes the faces along z while it processes its column. */

/* The numbers of floats of a row and of a plane of phi in local memory, with the border. */
#define ROW (TILE_X + 2)
#define PLANE (ROW * (TILE_Y + 2))
/* The number of voxels of the border in a plane. */
#define BORDER (2 * (TILE_X + 2) + 2 * TILE_Y)
/* The numbers of faces of a tile between voxels along x and along y. */
#define X_FACES ((TILE_X + 1) * TILE_Y * TILE_Z)
#define Y_FACES (TILE_X * (TILE_Y + 1) * TILE_Z)

/* The first voxel of a tile. */
typedef struct tile_origin {
    tc_i32 x, y, z;
} tile_origin;

/* The first voxel of tile i. across, down: the number of tiles along x and y. */
static inline tile_origin tile_at(tc_u32 i, tc_u32 across, tc_u32 down)
{
    tile_origin p;

    p.x = (tc_i32)(i % across * TILE_X);
    p.y = (tc_i32)(i / across % down * TILE_Y);
    p.z = (tc_i32)(i / across / down * TILE_Z);
    return p;
}

/* Returns the index, in plane 0 of phi, of the column at (x, y) of the tile at c. If this column is
 * outside the picture, returns the index of the nearest column inside. */
static inline tc_u64 column_at(tile_origin c, tc_i32 x, tc_i32 y, tc_u32 nx, tc_u32 ny)
{
    return (tc_u64)TC_CLAMP(c.y + y, 0, (tc_i32)ny - 1) * nx +
           (tc_u64)TC_CLAMP(c.x + x, 0, (tc_i32)nx - 1);
}

/* Copies phi of the tile at c and its border to tile_phi: each work-item copies its own column, and
 * each of the first BORDER work-items also copies a column of the border. */
static inline void load_tile(__global const float *phi, __local float *tile_phi, tile_origin c,
                             tc_i32 lx, tc_i32 ly, SIZES)
{
    /* Work-items with k < 0 copy the border's first and last row, the others its two columns. */
    const tc_i32 local_id = ly * TILE_X + lx, k = local_id - 2 * (TILE_X + 2);
    const tc_i32 bx = k < 0 ? local_id % (TILE_X + 2) - 1 : k % 2 == 0 ? -1 : TILE_X;
    const tc_i32 by = k < 0 ? local_id / (TILE_X + 2) * (TILE_Y + 1) - 1 : k / 2;
    const tc_u64 own_column = column_at(c, lx, ly, nx, ny), border = column_at(c, bx, by, nx, ny);
    __local float *const at = tile_phi + (ly + 1) * ROW + lx + 1, *const border_at =
                                                                      tile_phi + (by + 1) * ROW +
                                                                      bx + 1;

    for (tc_i32 z = 0; z < TILE_Z + 2; z++) {
        const tc_u64 plane = (tc_u64)TC_CLAMP(c.z + z - 1, 0, (tc_i32)nz - 1) * nx * ny;

        at[z * PLANE] = phi[plane + own_column];
        if (local_id < BORDER)
            border_at[z * PLANE] = phi[plane + border];
    }
}

/* Returns the value of the face (ls_face) between the voxel at `at` and the next one along an axis,
 * `up` floats further. b, c: the distances in floats to the next voxels along the other two axes.
 * b_inner, c_inner: whether the voxel is not on the picture's border along those axes; on the
 * border, the central difference along that axis is 0. Beyond the picture's border the next voxel
 * is a copy of the voxel at `at`, so that the value is 0. */
static inline float face(__local const float *at, const tc_i32 up, const tc_i32 b, const tc_i32 c,
                         int b_inner, int c_inner)
{
    const float d = at[up] - at[0];
    const float m = b_inner ? ls_across(at[b], at[-b], at[up + b], at[up - b]) : 0.0f;
    const float n = c_inner ? ls_across(at[c], at[-c], at[up + c], at[up - c]) : 0.0f;

    return ls_face(d, m, n);
}

/* Whether voxel i of n along an axis is not on the picture's border. */
static inline int is_inner(tc_i32 i, tc_u32 n)
{
    return i > 0 && i + 1 < (tc_i32)n;
}

/* The address in tile_phi of phi at (x, y, z) of the tile; a coordinate of -1 is in the border. */
static inline __local const float *tile_address(__local const float *tile_phi, tc_i32 x, tc_i32 y,
                                                tc_i32 z)
{
    return tile_phi + (z + 1) * PLANE + (y + 1) * ROW + x + 1;
}

/* The value of the face between voxel (x, y, z) of the tile at c (-1 is the border) and the next
 * voxel along x. */
static inline float x_face(__local const float *tile_phi, tile_origin c, tc_i32 x, tc_i32 y,
                           tc_i32 z, tc_u32 ny, tc_u32 nz)
{
    return face(tile_address(tile_phi, x, y, z), 1, ROW, PLANE, is_inner(c.y + y, ny),
                is_inner(c.z + z, nz));
}

/* The value of the face between voxel (x, y, z) and the next voxel along y. */
static inline float y_face(__local const float *tile_phi, tile_origin c, tc_i32 x, tc_i32 y,
                           tc_i32 z, tc_u32 nx, tc_u32 nz)
{
    return face(tile_address(tile_phi, x, y, z), ROW, 1, PLANE, is_inner(c.x + x, nx),
                is_inner(c.z + z, nz));
}

/* The value of the face between voxel (x, y, z) and the next voxel along z. */
static inline float z_face(__local const float *tile_phi, tile_origin c, tc_i32 x, tc_i32 y,
                           tc_i32 z, tc_u32 nx, tc_u32 ny)
{
    return face(tile_address(tile_phi, x, y, z), PLANE, 1, ROW, is_inner(c.x + x, nx),
                is_inner(c.y + y, ny));
}

/* Computes the tile's faces along x (fx) and y (fy). Each work-item computes the faces after the
 * voxels of its column; some work-items also compute a face before the first voxel of a row along x
 * or y. */
static inline void compute_faces(__local const float *tile_phi, __local float *fx,
                                 __local float *fy, tile_origin c, tc_i32 lx, tc_i32 ly, SIZES)
{
    /* The work-items before k = 0, those with ly < TILE_Z, compute the first faces along y, the
     * following ones the first faces along x. */
    const tc_i32 k = ly * TILE_X + lx - TILE_X * TILE_Z;

    for (tc_i32 z = 0; z < TILE_Z; z++) {
        fx[(z * TILE_Y + ly) * (TILE_X + 1) + lx + 1] = x_face(tile_phi, c, lx, ly, z, ny, nz);
        fy[(z * (TILE_Y + 1) + ly + 1) * TILE_X + lx] = y_face(tile_phi, c, lx, ly, z, nx, nz);
    }
    if (ly < TILE_Z)
        fy[ly * (TILE_Y + 1) * TILE_X + lx] = y_face(tile_phi, c, lx, -1, ly, nx, nz);
    if (k >= 0 && k < TILE_Y * TILE_Z)
        fx[k * (TILE_X + 1)] = x_face(tile_phi, c, -1, k % TILE_Y, k / TILE_Y, ny, nz);
}

/* Computes U = F |grad phi| of one iteration, where F is the speed of the contour; a work-item
 * computes a column of a tile. With `move` the kernel writes the next phi, phi + dt U, to `out`;
 * otherwise it writes U to `out` and the largest |U| to ctl. data: the data term of the speed;
 * stop, if has_stop: a factor of the speed. If list_word is LS_NOT_LISTED, work-group g computes
 * tile first + g. Otherwise list_word is the index of the word of ctl that holds the length of
 * `list`, and the tiles in entries [first, end) of the list are divided among the work-groups.
 * across, down: the number of tiles along x and y. */
__kernel __attribute__((reqd_work_group_size(TILE_X, TILE_Y, 1))) void levelset_step(
    __global const float *phi, __global const float *data, __global const float *stop,
    __global float *out, volatile __global tc_u32 *ctl, __global const tc_u32 *list, SIZES,
    const tc_u32 across, const tc_u32 down, const tc_u32 first, const tc_u32 end,
    const tc_u32 list_word, const float beta, const float dt, const tc_u32 has_stop,
    const tc_u32 move, const tc_u32 done, const tc_u32 stop_after)
{
    __local float tile_phi[PLANE * (TILE_Z + 2)], fx[X_FACES], fy[Y_FACES];
    __local tc_u32 word, flags, largest;
    const tc_i32 lx = (tc_i32)get_local_id(0), ly = (tc_i32)get_local_id(1),
                 local_id = ly * TILE_X + lx;
    const tc_u32 from = first + (tc_u32)get_group_id(0);
    const tc_u32 ended = has_ended(ctl, &word, local_id == 0, done, stop_after);
    const tc_u32 last = list_word != LS_NOT_LISTED ? TC_MIN(end, ctl[list_word]) : from + 1;
    tc_u32 most = 0, my_flags = 0;

    if (ended && !move)
        return;
    if (local_id == 0)
        flags = largest = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (tc_u32 t = from; t < last; t += (tc_u32)get_num_groups(0)) {
        const tile_origin c = tile_at(list_word != LS_NOT_LISTED ? list[t] : t, across, down);
        const tc_u32 x = (tc_u32)(c.x + lx), y = (tc_u32)(c.y + ly);

        load_tile(phi, tile_phi, c, lx, ly, nx, ny, nz);
        barrier(CLK_LOCAL_MEM_FENCE);
        compute_faces(tile_phi, fx, fy, c, lx, ly, nx, ny, nz);
        barrier(CLK_LOCAL_MEM_FENCE);
        float below = z_face(tile_phi, c, lx, ly, -1, nx, ny);

        for (tc_i32 z = 0; z < TILE_Z; z++) {
            __local const float *const at = tile_address(tile_phi, lx, ly, z);
            __local const float *const xf = fx + (z * TILE_Y + ly) * (TILE_X + 1) + lx;
            __local const float *const yf = fy + (z * (TILE_Y + 1) + ly) * TILE_X + lx;
            const float above = z_face(tile_phi, c, lx, ly, z, nx, ny), p = at[0];

            if (x < nx && y < ny && (tc_u32)(c.z + z) < nz) {
                const tc_u64 i = ((tc_u64)(c.z + z) * ny + y) * nx + x;
                const float kappa = ls_curvature(xf[1], xf[0], yf[TILE_X], yf[0], above, below);
                float speed = ls_speed(data[i], beta, kappa), u;

                if (has_stop)
                    speed = speed * stop[i];
                u = ls_motion(speed, at[1] - p, p - at[-1], at[ROW] - p, p - at[-ROW],
                              at[PLANE] - p, p - at[-PLANE]);
                if (move) {
                    const float next = ended ? p : ls_next_phi(p, dt, u);

                    my_flags |= motion_flags(p, next);
                    out[i] = next;
                } else {
                    most = TC_MAX(most, as_uint(u) & 0x7fffffffu); /* |u|; its bits sort like it */
                    out[i] = u;
                }
            }
            below = above;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (move && !ended) {
        record_motion(ctl, &flags, my_flags, local_id == 0, done + 1);
    } else if (!move) {
        atomic_max((volatile __local tc_u32 *)&largest, most);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (local_id == 0)
            atomic_max(&ctl[LS_CTL_MOST + ((done + 1) & 1)], largest);
    }
}

/* Adds dt U to phi, for voxels [first, last). A work-item processes four voxels. */
__kernel __attribute__((reqd_work_group_size(LS_GROUP, 1, 1))) void levelset_apply(
    __global float *phi, __global const float *u, __global tc_u32 *ctl, const tc_u64 first,
    const tc_u64 last, const tc_u32 cfl, const float dt, const tc_u32 done, const tc_u32 stop_after)
{
    __local tc_u32 word, flags;
    const tc_u32 local_id = (tc_u32)get_local_id(0);
    const float step = time_step(ctl, cfl, dt, done);
    tc_u32 my_flags = 0;

    if (has_ended(ctl, &word, local_id == 0, done, stop_after))
        return;
    if (local_id == 0)
        flags = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (tc_u32 k = 0; k < 4; k++) {
        const tc_u64 i = first + get_group_id(0) * (4 * LS_GROUP) + k * LS_GROUP + local_id;

        if (i < last) {
            const float p = phi[i], next = ls_next_phi(p, step, u[i]);

            phi[i] = next;
            my_flags |= motion_flags(p, next);
        }
    }
    record_motion(ctl, &flags, my_flags, local_id == 0, done + 1);
    /* Clears the word in which the next iteration records its largest |U|. */
    if (first == 0 && get_global_id(0) == 0)
        ctl[LS_CTL_MOST + (done & 1)] = 0;
}

/* --- narrow band ----------------------------------------------------------------------
 *
 * The blocks of the band are the tiles of a step. `list` contains the numbers of the active blocks.
 * Its length is in a word of ctl. Two words are used in turn: word list_word holds the length of
 * the current list, word next_word the length of the next list. */

/* Adds dt U to phi in the blocks in entries [first, end) of the list. With all_blocks the kernel
 * processes blocks number [first, end) instead, and does not change phi. With renew_bits it also
 * writes each block's bits (LS_NEAR_...), which tell where the block has voxels near the contour,
 * to near[block]. Sets word next_word of ctl to 0. The blocks are divided among the work-groups; a
 * work-item processes a column of a block. */
__kernel __attribute__((reqd_work_group_size(TILE_X, TILE_Y, 1))) void levelset_band_apply(
    __global float *phi, __global const float *u, volatile __global tc_u32 *ctl,
    __global const tc_u32 *list, __global tc_u8 *near, SIZES, BLOCKS, const tc_u32 first,
    const tc_u32 end, const tc_u32 list_word, const tc_u32 next_word, const tc_u32 all_blocks,
    const tc_u32 cfl, const float dt, const float band, const tc_u32 renew_bits, const tc_u32 done,
    const tc_u32 stop_after)
{
    __local tc_u32 word, flags, bits;
    const tc_u32 lx = (tc_u32)get_local_id(0), ly = (tc_u32)get_local_id(1),
                 local_id = ly * TILE_X + lx;
    const float step = all_blocks ? 0.0f : time_step((__global const tc_u32 *)ctl, cfl, dt, done);
    const tc_u32 last = TC_MIN(end, all_blocks ? bx * by * bz : ctl[list_word]);
    tc_u32 my_flags = 0;

    if (get_group_id(0) == 0 && local_id == 0)
        ctl[next_word] = 0;
    if (has_ended(ctl, &word, local_id == 0, done, stop_after))
        return;
    if (local_id == 0)
        flags = bits = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (tc_u32 t = first + (tc_u32)get_group_id(0); t < last; t += (tc_u32)get_num_groups(0)) {
        const tc_u32 block = all_blocks ? t : list[t];
        const tile_origin c = tile_at(block, bx, by);
        const tc_u32 x = (tc_u32)c.x + lx, y = (tc_u32)c.y + ly,
                     depth = TC_MIN((tc_u32)TILE_Z, nz - (tc_u32)c.z);
        const tc_u64 at = ((tc_u64)c.z * ny + y) * nx + x;
        float values[TILE_Z];
        tc_u32 near_bits = 0;

        if (x < nx && y < ny) {
            for (tc_u32 z = 0; z < TILE_Z; z++)
                values[z] = phi[at + TC_MIN(z, depth - 1) * ((tc_u64)nx * ny)];
            for (tc_u32 z = 0; !all_blocks && z < TILE_Z; z++) {
                const float next =
                    ls_next_phi(values[z], step, u[at + TC_MIN(z, depth - 1) * ((tc_u64)nx * ny)]);

                my_flags |= motion_flags(values[z], next);
                values[z] = next;
            }
            for (tc_u32 z = 0; z < TILE_Z; z++) {
                if (z < depth && !all_blocks)
                    phi[at + z * ((tc_u64)nx * ny)] = values[z];
                if (z < depth && renew_bits && fabs(values[z]) < band)
                    near_bits |=
                        ls_near_bits(lx, ly, z, TC_MIN((tc_u32)TILE_X, nx - (tc_u32)c.x) - 1,
                                     TC_MIN((tc_u32)TILE_Y, ny - (tc_u32)c.y) - 1, depth - 1);
            }
        }
        if (renew_bits) {
            if (near_bits != 0)
                atomic_or((volatile __local tc_u32 *)&bits, near_bits);
            barrier(CLK_LOCAL_MEM_FENCE);
            if (local_id == 0) {
                near[block] = (tc_u8)bits;
                bits = 0;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
    if (all_blocks)
        return;
    record_motion(ctl, &flags, my_flags, local_id == 0, done + 1);
    if (get_group_id(0) == 0 && local_id == 0)
        ctl[LS_CTL_MOST + (done & 1)] = 0;
}

/* Lists the active blocks, in any order. A work-item examines a block. Adds the number of active
 * blocks to word list_word of ctl, which is 0 before the launch. */
__kernel __attribute__((reqd_work_group_size(LS_GROUP, 1, 1))) void levelset_list(
    __global const tc_u8 *near, __global tc_u32 *list, volatile __global tc_u32 *ctl, BLOCKS,
    const tc_u32 list_word)
{
    __local tc_u32 count, from;
    const tc_u32 local_id = (tc_u32)get_local_id(0), b = (tc_u32)get_global_id(0);
    const tc_u32 active =
        b < bx * by * bz ? ls_is_active_block(near, b % bx, b / bx % by, b / bx / by, bx, by, bz)
                         : 0u;
    tc_u32 at = 0;

    if (local_id == 0)
        count = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (active)
        at = atomic_add((volatile __local tc_u32 *)&count, 1u);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (local_id == 0)
        from = atomic_add(&ctl[list_word], count);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (active)
        list[from + at] = b;
}

/* --- re-initialisation -------------------------------------------------------------------
 *
 * These kernels compute the squared distance of each voxel to the nearest voxel on the other side
 * of the contour (edt_core.h): a pass along x with a work-group for each row, then passes along y
 * and z with a work-item for each line of voxels. phi becomes the signed distance.
 */

/* Clears the record of the sides that occur. Runs before the passes, as one work-item. */
__kernel void levelset_edt_begin(__global tc_u32 *ctl)
{
    ctl[LS_CTL_SEEN] = 0;
}

/* The pass along x; a work-group processes a row, from first_row on. Writes the squared distances
 * within rows to d, the side of each voxel (1 inside, 0 outside) to `side`, and which sides occur
 * to word LS_CTL_SEEN of ctl. bits: local memory for the sides of a row, one bit for each voxel. */
__kernel __attribute__((reqd_work_group_size(LS_GROUP, 1, 1))) void levelset_edt_x(
    __global const float *phi, __global tc_u32 *d, __global tc_u8 *side,
    volatile __global tc_u32 *ctl, const tc_u32 nx, const tc_u64 first_row, __local tc_u32 *bits)
{
    __local tc_u32 row_sides;
    const tc_u32 local_id = (tc_u32)get_local_id(0);
    const tc_u64 row = (first_row + get_group_id(0)) * nx;
    tc_u32 my_flags = 0;

    if (local_id == 0)
        row_sides = 0;
    for (tc_u32 w = local_id; w < (nx + 31) / 32; w += LS_GROUP)
        bits[w] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (tc_u32 x = local_id; x < nx; x += LS_GROUP) {
        const tc_u32 inside = phi[row + x] < 0.0f ? 1u : 0u;

        side[row + x] = (tc_u8)inside;
        my_flags |= 1u << inside;
        if (inside)
            atomic_or((volatile __local tc_u32 *)&bits[x / 32], 1u << x % 32);
    }
    if (my_flags != 0)
        atomic_or((volatile __local tc_u32 *)&row_sides, my_flags);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (local_id == 0)
        atomic_or(&ctl[LS_CTL_SEEN], row_sides);
    for (tc_u32 x = local_id; x < nx; x += LS_GROUP)
        d[row + x] = row_sides == 3u /* both sides */ ? edt_along_x(bits, x, nx) : EDT_FAR;
}

/* The pass along y (axis 1) or z (axis 2); a work-item processes a line along this axis. Global
 * size: x: lines along x; y: lines along the remaining axis, from `first` on. Writes squared
 * distances to `out`. With `last` it writes the new phi instead, or the unchanged phi if all voxels
 * are on one side or the evolution has ended. `out` may be the buffer of phi, but not that of d. If
 * bit < 32, the kernel sets this bit of each inside voxel's word of `history`. */
__kernel __attribute__((reqd_work_group_size(LS_GROUP, 1, 1))) void levelset_edt_lines(
    __global const tc_u32 *restrict d, __global const tc_u8 *restrict side,
    __global tc_u32 *restrict parabolas, __global const float *phi, __global tc_u32 *out,
    volatile __global tc_u32 *ctl, __global tc_u32 *history, const tc_u32 bit, SIZES,
    const tc_u32 first, const tc_u32 axis, const tc_u32 last, const tc_u32 done,
    const tc_u32 stop_after)
{
    __local tc_u32 word, sides;
    const tc_u32 x = (tc_u32)get_global_id(0), line = first + (tc_u32)get_global_id(1);
    const tc_u64 plane = (tc_u64)nx * ny;
    const tc_u32 ended = has_ended(ctl, &word, get_local_id(0) == 0, done, stop_after);
    edt_walk walk = edt_walk_begin();
    edt_line l;

    l.d2 = d;
    l.side = side;
    l.parabolas = parabolas;
    l.at = x + line * (axis == 1 ? plane : nx);
    l.stride = axis == 1 ? nx : plane;
    l.n = axis == 1 ? ny : nz;
    if (get_local_id(0) == 0)
        sides = ctl[LS_CTL_SEEN];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (x >= nx)
        return;
    for (tc_u32 u = 0; bit < 32 && !ended && u < l.n; u++)
        history[EDT_IN_LINE(&l, u)] |= (tc_u32)side[EDT_IN_LINE(&l, u)] << bit;
    if (ended || sides != 3u) {
        if (last)
            for (tc_u32 u = 0; u < l.n; u++)
                out[EDT_IN_LINE(&l, u)] = as_uint(phi[EDT_IN_LINE(&l, u)]);
        return;
    }
    edt_find(&l, 0, l.n);
    for (tc_u32 u = 0; u < l.n; u++) {
        const tc_u32 inside = side[EDT_IN_LINE(&l, u)], d2 = edt_walk_at(&l, &walk, u, inside);

        out[EDT_IN_LINE(&l, u)] = last ? as_uint(ls_signed_distance(d2, inside)) : d2;
    }
}
