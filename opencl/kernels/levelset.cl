/*
 * levelset on a device: see app/analysis/levelset.h. Fields are [nz][ny][nx].
 *
 * Built with -DTILE_X= -DTILE_Y=: the work-group of a dense step.
 *
 * Nothing goes through the host between the iterations of a batch: the largest
 * |U| and what was met lie in `ctl`. A kernel that follows the end of the
 * evolution leaves phi as it is.
 */
//! check: -DTILE_X=32 -DTILE_Y=2
#pragma OPENCL FP_CONTRACT OFF
#ifndef TILE_X
#define TILE_X 32
#define TILE_Y 8
#endif
#include "app/analysis/edt_core.h"
#include "app/analysis/levelset_core.h"

#define LS_REAL float
#define LS_NAME(name) name
#define LS_INLINE static inline
#define LS_C(c) (c)
#define LS_SQRT(a) sqrt(a)
#define LS_POS(a) ((a) > 0.0f ? (a) : 0.0f)
#define LS_SIGN(a) ((a) > 0.0f ? 1.0f : -1.0f)
#include "app/analysis/levelset_real.h"

/* Words of ctl. */
#define CTL_MOST 0u          /* two: bits of the largest |U|, by the iteration's parity */
#define CTL_CHANGE 2u        /* last iteration with a change of side */
#define CTL_BAD 3u           /* first iteration after which phi was not finite */
#define CTL_ACTIVE 4u        /* blocks in the list */
#define CTL_SEEN 5u          /* sides seen: 1 outside, 2 inside */
#define NOT_FINITE 0x7f800000u
#define GROUP 64u

/* Sizes, as the host has them. */
typedef struct sizes {
    tc_u32 nx, ny, nz;
    tc_u32 bx, by, bz;
} sizes;

#define SIZES const tc_u32 nx, const tc_u32 ny, const tc_u32 nz
#define BLOCKS const tc_u32 bx, const tc_u32 by, const tc_u32 bz

/* Whether the evolution had ended after `done` iterations. Every work-item
 * calls it; word: local memory. A change that is noted by another group
 * meanwhile does not alter the answer. */
static inline tc_u32 has_ended(volatile __global tc_u32 *ctl, __local tc_u32 *word, tc_u32 first, tc_u32 done,
                               tc_u32 stop_after)
{
    if (stop_after == 0)
        return 0;
    if (first)
        *word = atomic_or(&ctl[CTL_CHANGE], 0u);
    barrier(CLK_LOCAL_MEM_FENCE);
    const tc_u32 change = *word;
    barrier(CLK_LOCAL_MEM_FENCE);
    return done >= change && done - change >= stop_after ? 1u : 0u;
}

/* What a work-item met while phi moved: bits for note_motion. */
#define MET_CHANGE 1u
#define MET_BAD 2u
static inline tc_u32 met(float before, float after)
{
    return ((before < 0.0f) != (after < 0.0f) ? MET_CHANGE : 0u)
         | ((as_uint(after) & NOT_FINITE) == NOT_FINITE ? MET_BAD : 0u);
}

/* Every work-item calls it, with flags in local memory, zeroed, and a barrier
 * since then. */
static inline void note_motion(volatile __global tc_u32 *ctl, volatile __local tc_u32 *flags, tc_u32 mine,
                               tc_u32 first, tc_u32 iteration)
{
    if (mine != 0)
        atomic_or(flags, mine);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (first) {
        const tc_u32 all = *flags;

        if (all & MET_CHANGE)
            atomic_max(&ctl[CTL_CHANGE], iteration);
        if (all & MET_BAD)
            atomic_min(&ctl[CTL_BAD], iteration);
    }
}

/* --- the step over a box ------------------------------------------------------------ */

/* Three planes of phi with a border of one voxel, in a ring, and the faces above
 * each voxel of the tile and below its first row and column. */
#define PITCH(tx) ((tx) + 2)
#define PLANE(tx, ty) (PITCH(tx) * ((ty) + 2))
#define TILE_FLOATS(tx, ty) (3 * PLANE(tx, ty) + 2 * ((tx) + 1) * ((ty) + 1))

/* The plane z (clamped) around the tile; outside the picture its border. */
static inline void load_plane(__global const float *phi, __local float *plane, tc_i32 x0, tc_i32 y0, tc_i32 z,
                              SIZES, const tc_i32 tx, const tc_i32 ty, tc_i32 me)
{
    const tc_i32 at_z = clamp(z, 0, (tc_i32)nz - 1);
    __global const float *const from = phi + (tc_u64)at_z * nx * ny;

    for (tc_i32 i = me; i < PLANE(tx, ty); i += tx * ty) {
        const tc_i32 x = clamp(x0 - 1 + i % PITCH(tx), 0, (tc_i32)nx - 1);
        const tc_i32 y = clamp(y0 - 1 + i / PITCH(tx), 0, (tc_i32)ny - 1);

        plane[i] = from[(tc_u32)y * nx + (tc_u32)x];
    }
}

/* The face above the voxel `at` of the tile along x, y, z: 0 beyond the border
 * of the picture, which starts and ends say. low, mid, high: the planes below,
 * of and above the voxel. Central differences are 0 on the borders of their
 * axis. */
static inline float x_face(__local const float *low, __local const float *mid, __local const float *high, tc_i32 at,
                           const tc_i32 pitch, int here, int y_inner, int z_inner)
{
    const tc_i32 up = at + 1;
    const float d = mid[up] - mid[at];
    const float c = y_inner ? (mid[at + pitch] - mid[at - pitch]) + (mid[up + pitch] - mid[up - pitch]) : 0.0f;
    const float e = z_inner ? (high[at] - low[at]) + (high[up] - low[up]) : 0.0f;

    return here ? ls_face(d, c, e) : 0.0f;
}

static inline float y_face(__local const float *low, __local const float *mid, __local const float *high, tc_i32 at,
                           const tc_i32 pitch, int here, int x_inner, int z_inner)
{
    const tc_i32 up = at + pitch;
    const float d = mid[up] - mid[at];
    const float c = x_inner ? (mid[at + 1] - mid[at - 1]) + (mid[up + 1] - mid[up - 1]) : 0.0f;
    const float e = z_inner ? (high[at] - low[at]) + (high[up] - low[up]) : 0.0f;

    return here ? ls_face(d, c, e) : 0.0f;
}

static inline float z_face(__local const float *mid, __local const float *high, tc_i32 at, const tc_i32 pitch,
                           int here, int x_inner, int y_inner)
{
    const float d = high[at] - mid[at];
    const float c = x_inner ? (mid[at + 1] - mid[at - 1]) + (high[at + 1] - high[at - 1]) : 0.0f;
    const float e = y_inner ? (mid[at + pitch] - mid[at - pitch]) + (high[at + pitch] - high[at - pitch]) : 0.0f;

    return here ? ls_face(d, c, e) : 0.0f;
}

/* What a step needs besides the box. */
typedef struct step_of {
    __global const float *phi, *data, *stop;
    __global float *out;
    tc_u32 nx, ny, nz;
    float beta, dt;
    tc_u32 has_stop, move;
} step_of;

/* The tile tx * ty at (x0, y0), slices [z0, z1): every work-item of a group of
 * tx * ty calls it. *most, *flags: what this item met. */
static inline void step_box(const step_of *s, __local float *tile, tc_i32 x0, tc_i32 y0, tc_i32 z0, tc_i32 z1,
                            const tc_i32 tx, const tc_i32 ty, tc_i32 me, tc_u32 *most, tc_u32 *flags)
{
    const tc_i32 pitch = PITCH(tx), size = PLANE(tx, ty), faces = tx + 1;
    const tc_i32 nx = (tc_i32)s->nx, ny = (tc_i32)s->ny, nz = (tc_i32)s->nz;
    const tc_i32 lx = me % tx, ly = me / tx, x = x0 + lx, y = y0 + ly;
    const tc_i32 at = (ly + 1) * pitch + lx + 1;
    /* The faces above the tile's voxels, from column and row -1 on. */
    __local float *const fx = tile + 3 * size, *const fy = fx + (tx + 1) * (ty + 1);
    const tc_i32 face = (ly + 1) * faces + lx + 1;
    const int inside = x < nx && y < ny;
    const int x_inner = x > 0 && x + 1 < nx, y_inner = y > 0 && y + 1 < ny;
    /* tx + ty faces remain: below the first column (along x), below the first
     * row (along y). Some work-items take one each. */
    const int extra_x = me < ty, extra_y = me >= ty && me < ty + tx;
    const tc_i32 ex = extra_x ? -1 : me - ty, ey = extra_x ? me : -1;
    const tc_i32 extra_at = (ey + 1) * pitch + ex + 1;
    const int extra_x_inner = x0 + ex > 0 && x0 + ex + 1 < nx, extra_y_inner = y0 + ey > 0 && y0 + ey + 1 < ny;
    __local float *low = tile, *mid = tile + size, *high = tile + 2 * size;
    const tc_u64 plane = (tc_u64)s->nx * s->ny;
    tc_u64 index = (tc_u64)z0 * plane + (tc_u64)((tc_i64)y * nx + x);
    float zl;

    load_plane(s->phi, low, x0, y0, z0 - 1, s->nx, s->ny, s->nz, tx, ty, me);
    load_plane(s->phi, mid, x0, y0, z0, s->nx, s->ny, s->nz, tx, ty, me);
    barrier(CLK_LOCAL_MEM_FENCE);
    zl = z_face(low, mid, at, pitch, inside && z0 > 0, x_inner, y_inner);
    for (tc_i32 z = z0; z < z1; z++, index += plane) {
        const int z_inner = z > 0 && z + 1 < nz;
        float xu, yu, zu, p;

        load_plane(s->phi, high, x0, y0, z + 1, s->nx, s->ny, s->nz, tx, ty, me);
        barrier(CLK_LOCAL_MEM_FENCE);
        xu = x_face(low, mid, high, at, pitch, inside && x + 1 < nx, y_inner, z_inner);
        yu = y_face(low, mid, high, at, pitch, inside && y + 1 < ny, x_inner, z_inner);
        zu = z_face(mid, high, at, pitch, inside && z + 1 < nz, x_inner, y_inner);
        fx[face] = xu;
        fy[face] = yu;
        if (extra_x)
            fx[(ey + 1) * faces] = x_face(low, mid, high, extra_at, pitch, x0 > 0 && y0 + ey < ny,
                                          extra_y_inner, z_inner);
        if (extra_y)
            fy[ex + 1] = y_face(low, mid, high, extra_at, pitch, y0 > 0 && x0 + ex < nx, extra_x_inner, z_inner);
        p = mid[at];
        const float dxu = mid[at + 1] - p, dxl = p - mid[at - 1];
        const float dyu = mid[at + pitch] - p, dyl = p - mid[at - pitch];
        const float dzu = high[at] - p, dzl = p - low[at];
        barrier(CLK_LOCAL_MEM_FENCE);
        if (inside) {
            const float kappa = ls_curvature(xu, fx[face - 1], yu, fy[face - faces], zu, zl);
            float speed = s->data[index] + s->beta * kappa;
            float u;

            if (s->has_stop)
                speed = speed * s->stop[index];
            u = ls_motion(speed, dxu, dxl, dyu, dyl, dzu, dzl);
            if (s->move) {
                const float next = p + s->dt * u;

                *flags |= met(p, next);
                s->out[index] = next;
            } else {
                *most = max(*most, as_uint(u) & 0x7fffffffu);
                s->out[index] = u;
            }
        }
        zl = zu;
        __local float *const free_plane = low;
        low = mid;
        mid = high;
        high = free_plane;
    }
    /* The next box loads over what others may still read. */
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* One iteration of the dense evolution: groups along x and y are tiles, along z
 * slabs of `slab` slices from z_first on, before z_last. With `move` out is the
 * next phi, without it U, and ctl gets the largest. */
__kernel __attribute__((reqd_work_group_size(TILE_X, TILE_Y, 1)))
void levelset_step(__global const float *phi, __global const float *data, __global const float *stop,
                   __global float *out, volatile __global tc_u32 *ctl, SIZES, const tc_u32 z_first,
                   const tc_u32 z_last, const tc_u32 slab, const float beta, const float dt, const tc_u32 has_stop,
                   const tc_u32 move, const tc_u32 done, const tc_u32 stop_after)
{
    __local float tile[TILE_FLOATS(TILE_X, TILE_Y)];
    __local tc_u32 word, flags, largest;
    const tc_i32 me = (tc_i32)(get_local_id(1) * TILE_X + get_local_id(0));
    const tc_i32 x0 = (tc_i32)get_group_id(0) * TILE_X, y0 = (tc_i32)get_group_id(1) * TILE_Y;
    const tc_u32 z0 = z_first + (tc_u32)get_group_id(2) * slab, z1 = min(z0 + slab, z_last);
    step_of s;
    tc_u32 most = 0, mine = 0;

    if (has_ended(ctl, &word, me == 0, done, stop_after)) {
        const tc_u32 x = x0 + get_local_id(0), y = y0 + get_local_id(1);

        if (move && x < nx && y < ny)
            for (tc_u32 z = z0; z < z1; z++)
                out[((tc_u64)z * ny + y) * nx + x] = phi[((tc_u64)z * ny + y) * nx + x];
        return;
    }
    if (me == 0)
        flags = largest = 0;
    s.phi = phi;
    s.data = data;
    s.stop = stop;
    s.out = out;
    s.nx = nx;
    s.ny = ny;
    s.nz = nz;
    s.beta = beta;
    s.dt = dt;
    s.has_stop = has_stop;
    s.move = move;
    step_box(&s, tile, x0, y0, (tc_i32)z0, (tc_i32)z1, TILE_X, TILE_Y, me, &most, &mine);
    if (move) {
        note_motion(ctl, &flags, mine, me == 0, done + 1);
    } else {
        atomic_max((volatile __local tc_u32 *)&largest, most);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (me == 0)
            atomic_max(&ctl[CTL_MOST + ((done + 1) & 1)], largest);
    }
}

/* The time step of the iteration after `done`. */
static inline float time_step(__global const tc_u32 *ctl, tc_u32 cfl, float dt, tc_u32 done)
{
    return cfl ? ls_cfl(as_float(ctl[CTL_MOST + ((done + 1) & 1)])) : dt;
}

/* phi += dt U, for voxels [first, last). */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void levelset_apply(__global float *phi, __global const float *u, __global tc_u32 *ctl, const tc_u64 first,
                    const tc_u64 last, const tc_u32 cfl, const float dt, const tc_u32 done, const tc_u32 stop_after)
{
    __local tc_u32 word, flags;
    const tc_u32 lid = (tc_u32)get_local_id(0);
    const float step = time_step(ctl, cfl, dt, done);
    tc_u32 mine = 0;

    if (has_ended(ctl, &word, lid == 0, done, stop_after))
        return;
    if (lid == 0)
        flags = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (tc_u32 k = 0; k < 4; k++) {
        const tc_u64 i = first + get_group_id(0) * (4 * GROUP) + k * GROUP + lid;

        if (i < last) {
            const float p = phi[i], next = p + step * u[i];

            phi[i] = next;
            mine |= met(p, next);
        }
    }
    note_motion(ctl, &flags, mine, lid == 0, done + 1);
    /* For the iteration after this one. */
    if (first == 0 && get_global_id(0) == 0)
        ctl[CTL_MOST + (done & 1)] = 0;
}

/* --- narrow band ---------------------------------------------------------------------- */

/* The corner of a block and where it ends. */
typedef struct block_box {
    tc_u32 x0, y0, z0, x1, y1, z1;
} block_box;

static inline block_box box_of(tc_u32 block, SIZES, BLOCKS)
{
    block_box b;

    b.x0 = block % bx * LS_BX;
    b.y0 = block / bx % by * LS_BY;
    b.z0 = block / bx / by * LS_BZ;
    b.x1 = min(b.x0 + LS_BX, nx);
    b.y1 = min(b.y0 + LS_BY, ny);
    b.z1 = min(b.z0 + LS_BZ, nz);
    (void)bz;
    return b;
}

/* U of the listed blocks. A fixed number of groups shares the list. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void levelset_band_step(__global const float *phi, __global const float *data, __global const float *stop,
                        __global float *out, volatile __global tc_u32 *ctl, __global const tc_u32 *list, SIZES,
                        BLOCKS, const float beta, const tc_u32 has_stop, const tc_u32 done, const tc_u32 stop_after)
{
    __local float tile[TILE_FLOATS(LS_BX, LS_BY)];
    __local tc_u32 word, largest;
    const tc_i32 me = (tc_i32)get_local_id(0);
    const tc_u32 count = ctl[CTL_ACTIVE];
    step_of s;
    tc_u32 most = 0, mine = 0;

    if (has_ended(ctl, &word, me == 0, done, stop_after))
        return;
    if (me == 0)
        largest = 0;
    s.phi = phi;
    s.data = data;
    s.stop = stop;
    s.out = out;
    s.nx = nx;
    s.ny = ny;
    s.nz = nz;
    s.beta = beta;
    s.dt = 0.0f;
    s.has_stop = has_stop;
    s.move = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (tc_u32 i = (tc_u32)get_group_id(0); i < count; i += (tc_u32)get_num_groups(0)) {
        const block_box b = box_of(list[i], nx, ny, nz, bx, by, bz);

        step_box(&s, tile, (tc_i32)b.x0, (tc_i32)b.y0, (tc_i32)b.z0, (tc_i32)b.z1, LS_BX, LS_BY, me, &most, &mine);
    }
    atomic_max((volatile __local tc_u32 *)&largest, most);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me == 0)
        atomic_max(&ctl[CTL_MOST + ((done + 1) & 1)], largest);
}

/* The bits of a block's voxels in this item's column. */
static inline tc_u32 near_of_column(__global const float *phi, const block_box *b, tc_u32 x, tc_u32 y, SIZES,
                                    float band)
{
    tc_u32 bits = 0;

    if (x < b->x1 && y < b->y1)
        for (tc_u32 z = b->z0; z < b->z1; z++)
            if (fabs(phi[((tc_u64)z * ny + y) * nx + x]) < band)
                bits |= ls_near_bits(x - b->x0, y - b->y0, z - b->z0, b->x1 - b->x0 - 1, b->y1 - b->y0 - 1,
                                     b->z1 - b->z0 - 1);
    (void)nz;
    return bits;
}

/* phi += dt U in the listed blocks; with `renew` also their bits. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void levelset_band_apply(__global float *phi, __global const float *u, __global tc_u32 *ctl,
                         __global const tc_u32 *list, __global tc_u8 *near, SIZES, BLOCKS, const tc_u32 cfl,
                         const float dt, const float band, const tc_u32 renew, const tc_u32 done,
                         const tc_u32 stop_after)
{
    __local tc_u32 word, flags, bits;
    const tc_u32 lid = (tc_u32)get_local_id(0);
    const float step = time_step(ctl, cfl, dt, done);
    const tc_u32 count = ctl[CTL_ACTIVE];
    tc_u32 mine = 0;

    if (has_ended(ctl, &word, lid == 0, done, stop_after))
        return;
    if (lid == 0)
        flags = 0;
    for (tc_u32 i = (tc_u32)get_group_id(0); i < count; i += (tc_u32)get_num_groups(0)) {
        const tc_u32 block = list[i];
        const block_box b = box_of(block, nx, ny, nz, bx, by, bz);
        const tc_u32 x = b.x0 + lid % LS_BX, y = b.y0 + lid / LS_BX;

        if (x < b.x1 && y < b.y1)
            for (tc_u32 z = b.z0; z < b.z1; z++) {
                const tc_u64 at = ((tc_u64)z * ny + y) * nx + x;
                const float p = phi[at], next = p + step * u[at];

                phi[at] = next;
                mine |= met(p, next);
            }
        if (renew) {
            if (lid == 0)
                bits = 0;
            barrier(CLK_LOCAL_MEM_FENCE);
            atomic_or((volatile __local tc_u32 *)&bits, near_of_column(phi, &b, x, y, nx, ny, nz, band));
            barrier(CLK_LOCAL_MEM_FENCE);
            if (lid == 0)
                near[block] = (tc_u8)bits;
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    note_motion(ctl, &flags, mine, lid == 0, done + 1);
    if (get_global_id(0) == 0)
        ctl[CTL_MOST + (done & 1)] = 0;
}

/* The bits of all blocks. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void levelset_near(__global const float *phi, volatile __global tc_u32 *ctl, __global tc_u8 *near, SIZES, BLOCKS,
                   const float band, const tc_u32 done, const tc_u32 stop_after)
{
    __local tc_u32 word, bits;
    const tc_u32 lid = (tc_u32)get_local_id(0), blocks = bx * by * bz;

    if (has_ended(ctl, &word, lid == 0, done, stop_after))
        return;
    for (tc_u32 block = (tc_u32)get_group_id(0); block < blocks; block += (tc_u32)get_num_groups(0)) {
        const block_box b = box_of(block, nx, ny, nz, bx, by, bz);

        if (lid == 0)
            bits = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        atomic_or((volatile __local tc_u32 *)&bits,
                  near_of_column(phi, &b, b.x0 + lid % LS_BX, b.y0 + lid / LS_BX, nx, ny, nz, band));
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lid == 0)
            near[block] = (tc_u8)bits;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

/* The list of active blocks, in order: each group counts a chunk of blocks, one
 * group sums the counts up, each group writes its chunk. */
#define PER_ITEM 4u
#define CHUNK (GROUP * PER_ITEM)

/* How many of this item's blocks are active. */
static inline tc_u32 count_item(__global const tc_u8 *near, tc_u32 first, BLOCKS)
{
    tc_u32 n = 0;

    for (tc_u32 b = first; b < first + PER_ITEM && b < bx * by * bz; b++)
        n += ls_active(near, b % bx, b / bx % by, b / bx / by, bx, by, bz);
    return n;
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void levelset_list_count(__global const tc_u8 *near, __global tc_u32 *counts, BLOCKS)
{
    __local tc_u32 sum;
    const tc_u32 lid = (tc_u32)get_local_id(0);

    if (lid == 0)
        sum = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_add((volatile __local tc_u32 *)&sum,
               count_item(near, (tc_u32)get_group_id(0) * CHUNK + lid * PER_ITEM, bx, by, bz));
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lid == 0)
        counts[get_group_id(0)] = sum;
}

/* counts[i] becomes the sum of those before it; their total goes to ctl. One group. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void levelset_list_scan(__global tc_u32 *counts, __global tc_u32 *ctl, const tc_u32 chunks)
{
    __local tc_u32 part[GROUP];
    const tc_u32 lid = (tc_u32)get_local_id(0);
    const tc_u32 each = (chunks + GROUP - 1) / GROUP;
    const tc_u32 first = min(lid * each, chunks), last = min(first + each, chunks);
    tc_u32 sum = 0;

    for (tc_u32 i = first; i < last; i++)
        sum += counts[i];
    part[lid] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    sum = 0;
    for (tc_u32 i = 0; i < lid; i++)
        sum += part[i];
    for (tc_u32 i = first; i < last; i++) {
        const tc_u32 n = counts[i];

        counts[i] = sum;
        sum += n;
    }
    if (lid == GROUP - 1)
        ctl[CTL_ACTIVE] = sum;
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void levelset_list_fill(__global const tc_u8 *near, __global const tc_u32 *counts, __global tc_u32 *list, BLOCKS)
{
    __local tc_u32 part[GROUP];
    const tc_u32 lid = (tc_u32)get_local_id(0);
    const tc_u32 first = (tc_u32)get_group_id(0) * CHUNK + lid * PER_ITEM;
    tc_u32 at = counts[get_group_id(0)];

    part[lid] = count_item(near, first, bx, by, bz);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (tc_u32 i = 0; i < lid; i++)
        at += part[i];
    for (tc_u32 b = first; b < first + PER_ITEM && b < bx * by * bz; b++)
        if (ls_active(near, b % bx, b / bx % by, b / bx / by, bx, by, bz))
            list[at++] = b;
}

/* --- re-initialisation -------------------------------------------------------------------
 *
 * Squared distances to the other side, as app/analysis/edt_core.h has them: along
 * x a group for each row, then along y and along z a work-item for each line,
 * neighbours along x side by side so that they read and write whole lines of
 * memory. */

/* Before the others: one work-item. */
__kernel void levelset_edt_begin(__global tc_u32 *ctl)
{
    ctl[CTL_SEEN] = 0;
}

/* The distance from x to the nearest set bit of `bits` other than in front of
 * (below) it, then behind it; EDT_FAR if there is none. flip: all bits are
 * taken the other way round. */
static inline tc_u32 nearest_below(__local const tc_u32 *bits, tc_u32 flip, tc_u32 x)
{
    tc_u32 w = x / 32, found = (bits[w] ^ flip) & ((1u << x % 32) - 1u);

    while (found == 0 && w > 0)
        found = bits[--w] ^ flip;
    return found != 0 ? x - (w * 32 + 31u - (tc_u32)clz(found)) : EDT_FAR;
}

static inline tc_u32 nearest_above(__local const tc_u32 *bits, tc_u32 flip, tc_u32 x, tc_u32 nx)
{
    tc_u32 w = x / 32, found = (bits[w] ^ flip) & ~((2u << x % 32) - 1u);
    const tc_u32 words = (nx + 31) / 32;

    while (found == 0 && w + 1 < words)
        found = bits[++w] ^ flip;
    /* The lowest bit; behind the row's end there is nothing. */
    const tc_u32 at = w * 32 + 31u - (tc_u32)clz(found & (0u - found));

    return found != 0 && at < nx ? at - x : EDT_FAR;
}

/* Along x: a group for each row (first_row and on), whose sides become bits in
 * local memory; also side[], 1 inside, and which sides there are at all. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void levelset_edt_x(__global const float *phi, __global tc_u32 *d, __global tc_u8 *side, volatile __global tc_u32 *ctl,
                    const tc_u32 nx, const tc_u64 first_row, __local tc_u32 *bits)
{
    __local tc_u32 seen;
    const tc_u32 lid = (tc_u32)get_local_id(0);
    const tc_u64 row = (first_row + get_group_id(0)) * nx;
    tc_u32 mine = 0;

    if (lid == 0)
        seen = 0;
    for (tc_u32 w = lid; w < (nx + 31) / 32; w += GROUP)
        bits[w] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (tc_u32 x = lid; x < nx; x += GROUP) {
        const tc_u32 inside = phi[row + x] < 0.0f ? 1u : 0u;

        side[row + x] = (tc_u8)inside;
        mine |= 1u << inside;
        if (inside)
            atomic_or((volatile __local tc_u32 *)&bits[x / 32], 1u << x % 32);
    }
    if (mine != 0)
        atomic_or((volatile __local tc_u32 *)&seen, mine);
    barrier(CLK_LOCAL_MEM_FENCE);
    const tc_u32 both = seen == 3u ? 1u : 0u;
    if (lid == 0)
        atomic_or(&ctl[CTL_SEEN], seen);
    for (tc_u32 x = lid; x < nx; x += GROUP) {
        /* Wanted are the bits that differ from this voxel's. */
        const tc_u32 flip = bits[x / 32] >> x % 32 & 1u ? 0xffffffffu : 0u;
        tc_u32 best = EDT_FAR;

        if (both)
            best = min(nearest_below(bits, flip, x), nearest_above(bits, flip, x, nx));
        d[row + x] = best == EDT_FAR ? EDT_FAR : best * best;
    }
}

/* A line of n voxels, at..., `stride` apart: squared distances so far, sides, and
 * room for the pieces of its runs. A piece is kept as site | start << 16; those
 * of a run lie from its first voxel on, ended by NO_PIECE where there is room.
 * A run of m voxels has at most m pieces that start in it. */
typedef struct line {
    __global const tc_u32 *d;
    __global const tc_u8 *side;
    __global tc_u32 *pieces;
    tc_u64 at, stride;
    tc_u32 n;
} line;
#define NO_PIECE 0xffffffffu
#define IN_LINE(l, i) ((l)->at + (i) * (l)->stride)

/* The envelope of the run that begins at `first`: `count` pieces, the last of
 * them here. */
typedef struct envelope {
    tc_u32 first, count;
    edt_piece last;
} envelope;

/* The piece at place k of the line; before `first` and behind its end a run
 * has apexes of height 0. */
static inline edt_piece piece_at(const line *l, tc_u32 stored, tc_u32 inside)
{
    edt_piece p;

    p.site = stored & 0xffffu;
    p.start = stored >> 16;
    p.height = l->side[IN_LINE(l, p.site)] == inside ? l->d[IN_LINE(l, p.site)] : 0u;
    return p;
}

static inline void push(const line *l, envelope *e, tc_u32 u, tc_u32 height, tc_u32 inside)
{
    tc_u64 start = e->first;

    while (e->count > 0 && edt_hides(u, height, e->last)) {
        e->count--;
        if (e->count > 0)
            e->last = piece_at(l, l->pieces[IN_LINE(l, e->first + e->count - 1)], inside);
    }
    if (e->count > 0)
        start = edt_cross(e->last, u, height);
    if (start < l->n) {
        e->last.site = u;
        e->last.height = height;
        e->last.start = (tc_u32)start;
        l->pieces[IN_LINE(l, e->first + e->count)] = u | (tc_u32)start << 16;
        e->count++;
    }
}

/* No more pieces of a run that ends before `end`. */
static inline void end_run(const line *l, const envelope *e, tc_u32 end)
{
    if (e->first + e->count < end)
        l->pieces[IN_LINE(l, e->first + e->count)] = NO_PIECE;
}

/* The envelopes of all runs of the line. */
static inline void find_pieces(const line *l)
{
    envelope e = { 0, 0, { 0, 0, 0 } };
    tc_u32 before = l->side[l->at];

    for (tc_u32 u = 0; u < l->n; u++) {
        const tc_u32 inside = l->side[IN_LINE(l, u)], height = l->d[IN_LINE(l, u)];

        if (inside != before) {
            push(l, &e, u, 0, before);
            end_run(l, &e, u);
            e.first = u;
            e.count = 0;
            push(l, &e, u - 1, 0, inside);
            before = inside;
        }
        if (height != EDT_FAR)
            push(l, &e, u, height, inside);
    }
    end_run(l, &e, l->n);
}

/* Work-items: (x, other). axis: 1 (y) or 2 (z). last: `out` is the new phi, or
 * phi as it is where there is no interface or the evolution has ended; else it
 * is the next d. It may be phi, not d. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void levelset_edt_lines(__global const tc_u32 *restrict d, __global const tc_u8 *restrict side,
                        __global tc_u32 *restrict pieces, __global const float *phi, __global tc_u32 *out,
                        volatile __global tc_u32 *ctl, SIZES, const tc_u32 first, const tc_u32 axis,
                        const tc_u32 last, const tc_u32 done, const tc_u32 stop_after)
{
    __local tc_u32 word, sides;
    const tc_u32 x = (tc_u32)get_global_id(0), other = first + (tc_u32)get_global_id(1);
    const tc_u64 plane = (tc_u64)nx * ny;
    const tc_u32 ended = has_ended(ctl, &word, get_local_id(0) == 0, done, stop_after);
    line l;

    l.d = d;
    l.side = side;
    l.pieces = pieces;
    l.at = x + other * (axis == 1 ? plane : nx);
    l.stride = axis == 1 ? nx : plane;
    l.n = axis == 1 ? ny : nz;
    if (get_local_id(0) == 0)
        sides = ctl[CTL_SEEN];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (x >= nx)
        return;
    if (ended || sides != 3u) {
        if (last)
            for (tc_u32 u = 0; u < l.n; u++)
                out[IN_LINE(&l, u)] = as_uint(phi[IN_LINE(&l, u)]);
        return;
    }
    find_pieces(&l);

    edt_piece p = { 0, EDT_FAR, 0 };
    tc_u32 before = 2, next = NO_PIECE, place = 0;

    for (tc_u32 u = 0; u < l.n; u++) {
        const tc_u32 inside = side[IN_LINE(&l, u)];
        tc_u32 d2;

        if (inside != before) {
            p.site = u;
            p.height = EDT_FAR;
            place = u;
            next = pieces[IN_LINE(&l, u)];
            before = inside;
        }
        if (next >> 16 == u) {
            p = piece_at(&l, next, inside);
            place++;
            next = place < l.n ? pieces[IN_LINE(&l, place)] : NO_PIECE;
        }
        d2 = edt_value(p.height, p.site, u);
        out[IN_LINE(&l, u)] = last ? as_uint(ls_signed_distance(d2, inside)) : d2;
    }
}
