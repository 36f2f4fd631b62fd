/*
 * levelset: an iteration of a box of voxels in vectors of one width. rows.c includes this file once
 * for each width, after defining, besides the macros of real.h: LANES (floats in a vector), LS_INT
 * (a vector of int32_t), LS_LOAD(p), LS_STORE(p, v), LS_LANE(v, i), LS_BELOW0(a) (an LS_INT with
 * all bits set where a < 0), LS_ABS(a), LS_MAX(m, a) (m where a is NaN), LS_TARGET (the attribute
 * of functions that use such vectors). All except LS_INLINE are undefined again at the end.
 *
 * Here a "face" is short for the result of ls_face (real.h) for the face between two voxels. Loops
 * over faces may access up to LANES - 1 floats beyond the end of a row, so fields and rows of
 * scratch memory have LS_PAD more floats.
 */
#include "app/analysis/levelset/real.h"

/* Merges the results of the lanes of a row's vectors into *outcome. bad: 0 in lanes whose values
 * were all finite, otherwise NaN. changed: nonzero in lanes where a voxel changed sides. */
static LS_TARGET void LS_NAME(merge_lanes)(LS_REAL most, LS_REAL bad, LS_INT changed,
                                           ls_outcome *outcome)
{
    for (unsigned i = 0; i < LANES; i++) {
        outcome->most = LS_LANE(most, i) > outcome->most ? LS_LANE(most, i) : outcome->most;
        outcome->bad |= !(LS_LANE(bad, i) == 0);
        outcome->changed |= LS_LANE(changed, i) != 0;
    }
}

/* Sets cx[i], for w voxels of a row from column x0 on, to the next minus the previous voxel along
 * x, and to 0 at the picture's border. */
static LS_TARGET void LS_NAME(central_row)(const float *row, uint32_t x0, uint32_t w, uint32_t nx,
                                           float *cx)
{
    uint32_t i = x0 == 0 ? 1 : 0;

    for (; i < w && x0 + i + 1 < nx; i += LANES)
        LS_STORE(cx + i, LS_LOAD(row + i + 1) - LS_LOAD(row + i - 1));
    if (x0 == 0)
        cx[0] = 0;
    if (x0 + w == nx)
        cx[w - 1] = 0;
}

/* Computes the faces of a row along x: for i = 0 to w, fx[i] is the face between voxels x0 + i - 1
 * and x0 + i, and dx[i] the difference of their phi. */
static LS_TARGET void LS_NAME(x_faces)(const row_set *r, uint32_t x0, uint32_t w, uint32_t nx,
                                       float *fx, float *dx)
{
    const uint32_t end = x0 + w == nx ? w : w + 1;
    uint32_t i = x0 == 0 ? 1 : 0;

    for (; i < end; i += LANES) {
        const ptrdiff_t l = (ptrdiff_t)i - 1, u = (ptrdiff_t)i;
        const LS_REAL d = LS_LOAD(r->p + u) - LS_LOAD(r->p + l);
        const LS_REAL c = LS_NAME(ls_across)(LS_LOAD(r->cyu + l), LS_LOAD(r->cyl + l),
                                             LS_LOAD(r->cyu + u), LS_LOAD(r->cyl + u));
        const LS_REAL e = LS_NAME(ls_across)(LS_LOAD(r->czu + l), LS_LOAD(r->czl + l),
                                             LS_LOAD(r->czu + u), LS_LOAD(r->czl + u));

        LS_STORE(dx + i, d);
        LS_STORE(fx + i, LS_NAME(ls_face)(d, c, e));
    }
    if (x0 == 0)
        fx[0] = dx[0] = 0;
    if (x0 + w == nx)
        fx[w] = dx[w] = 0;
}

/* Computes the faces between the rows a (the lower one) and b, which are adjacent along y or z. ca,
 * cb: their central differences along x. au, al, bu, bl: the next and previous rows of a and b
 * along the third axis. */
static LS_TARGET void LS_NAME(row_faces)(const float *a, const float *b, const float *ca,
                                         const float *cb, const float *au, const float *al,
                                         const float *bu, const float *bl, uint32_t w, float *out)
{
    for (uint32_t i = 0; i < w; i += LANES)
        LS_STORE(out + i, LS_NAME(ls_face)(LS_LOAD(b + i) - LS_LOAD(a + i),
                                           LS_LOAD(ca + i) + LS_LOAD(cb + i),
                                           LS_NAME(ls_across)(LS_LOAD(au + i), LS_LOAD(al + i),
                                                              LS_LOAD(bu + i), LS_LOAD(bl + i))));
}

/* Computes cx (central_row) for rows y0 - 1 to y1 of the plane z, except those outside the picture.
 */
static LS_TARGET void LS_NAME(central_plane)(const ls_fields *f, const ls_box *b, int64_t z,
                                             float *cx)
{
    const uint32_t w = b->x1 - b->x0;

    if (z < 0 || z >= f->nz)
        return;
    for (int64_t y = (int64_t)b->y0 - 1; y <= b->y1; y++)
        if (y >= 0 && y < f->ny)
            LS_NAME(central_row)(f->phi + index_of(f, b->x0, (uint32_t)y, (uint32_t)z), b->x0, w,
                                 f->nx, cx + (size_t)(y - b->y0 + 1) * scratch_pitch(w));
}

/* Computes F and then U, or the next phi, of voxels [i, w) of the row from its faces. Returns the
 * index of the first voxel that is not computed: w, unless [i, w) is narrower than a vector. */
static LS_TARGET uint32_t LS_NAME(move_row)(const ls_fields *f, const row_set *r, const float *fx,
                                            const float *dx, const float *yl, const float *yu,
                                            const float *zl, const float *zu, uint32_t i,
                                            uint32_t w, ls_outcome *outcome)
{
    LS_REAL most = LS_C(0.0f), bad = LS_C(0.0f);
    LS_INT changed = { 0 };

    while (i + LANES <= w) {
        const LS_REAL p = LS_LOAD(r->p + i);
        const LS_REAL kappa =
            LS_NAME(ls_curvature)(LS_LOAD(fx + i + 1), LS_LOAD(fx + i), LS_LOAD(yu + i),
                                  LS_LOAD(yl + i), LS_LOAD(zu + i), LS_LOAD(zl + i));
        LS_REAL speed = LS_NAME(ls_speed)(LS_LOAD(r->data + i), LS_C(f->beta), kappa);
        LS_REAL u;

        if (r->stop != NULL)
            speed = speed * LS_LOAD(r->stop + i);
        u = LS_NAME(ls_motion)(speed, LS_LOAD(dx + i + 1), LS_LOAD(dx + i), LS_LOAD(r->yu + i) - p,
                               p - LS_LOAD(r->yl + i), LS_LOAD(r->zu + i) - p,
                               p - LS_LOAD(r->zl + i));
        if (f->move) {
            const LS_REAL next = LS_NAME(ls_next_phi)(p, LS_C(f->dt), u);

            bad = bad + (next - next); /* adds 0, or NaN if `next` is not finite */
            changed |= LS_BELOW0(next) ^ LS_BELOW0(p);
            LS_STORE(r->out + i, next);
        } else {
            most = LS_MAX(most, LS_ABS(u));
            LS_STORE(r->out + i, u);
        }
        /* The last vector of a row overlaps the one before it. */
        i = i + LANES < w && i + 2 * LANES > w && w >= LANES ? w - LANES : i + LANES;
    }
    LS_NAME(merge_lanes)(most, bad, changed, outcome);
    return i;
}

/* Computes one plane of the box, whose faces along z have already been computed. */
static LS_TARGET void LS_NAME(step_plane)(const ls_fields *f, const ls_box *b, uint32_t z,
                                          buffers *m, ls_outcome *outcome)
{
    const uint32_t w = b->x1 - b->x0;
    const size_t pitch = scratch_pitch(w);

    /* Begins with the row before the box, whose upper faces are the lower ones of the first row. */
    for (int64_t y = (int64_t)b->y0 - 1; y < b->y1; y++) {
        const size_t at = (size_t)(y - b->y0 + 1) * pitch;

        if (y < 0 || y + 1 >= f->ny) {
            memset(m->yu, 0, w * sizeof(float));
        } else {
            const row_set lo = row_set_at(f, b->x0, (uint32_t)y, z),
                          hi = row_set_at(f, b->x0, (uint32_t)y + 1, z);

            LS_NAME(row_faces)(lo.p, hi.p, m->cx[0] + at, m->cx[0] + at + pitch, lo.czu, lo.czl,
                               hi.czu, hi.czl, w, m->yu);
        }
        if (y >= b->y0) {
            const row_set r = row_set_at(f, b->x0, (uint32_t)y, z);
            const size_t z_at = (size_t)(y - b->y0) * m->z_pitch;
            const float *const zl = m->zl + z_at, *const zu = m->zu + z_at;
            uint32_t i;

            LS_NAME(x_faces)(&r, b->x0, w, f->nx, m->fx, m->dx);
            i = LS_NAME(move_row)(f, &r, m->fx, m->dx, m->yl, m->yu, zl, zu, 0, w, outcome);
            if (i < w)
                scalar_move_row(f, &r, m->fx, m->dx, m->yl, m->yu, zl, zu, i, w, outcome);
        }
        swap(&m->yl, &m->yu);
    }
}

/* Implements ls_simd.step. */
static LS_TARGET void LS_NAME(step_box)(const ls_fields *f, const ls_box *b, float *scratch,
                                        ls_outcome *outcome)
{
    const uint32_t w = b->x1 - b->x0, h = b->y1 - b->y0;
    const size_t pitch = scratch_pitch(w);
    buffers m = cut_scratch(scratch, w, h, f->nz == 1);

    /* Begins with the plane before the box, whose upper faces are the lower ones of the first
     * plane. */
    LS_NAME(central_plane)(f, b, (int64_t)b->z0 - 1, m.cx[0]);
    for (int64_t z = (int64_t)b->z0 - 1; z < b->z1; z++) {
        LS_NAME(central_plane)(f, b, z + 1, m.cx[1]);
        for (uint32_t y = b->y0; y < (f->nz == 1 ? b->y0 + 1 : b->y1); y++) {
            const size_t at = (y - b->y0) * pitch;
            row_set lo, hi;

            if (z < 0 || z + 1 >= f->nz) {
                memset(m.zu + at, 0, w * sizeof(float));
                continue;
            }
            lo = row_set_at(f, b->x0, y, (uint32_t)z);
            hi = row_set_at(f, b->x0, y, (uint32_t)z + 1);
            LS_NAME(row_faces)(lo.p, hi.p, m.cx[0] + at + pitch, m.cx[1] + at + pitch, lo.cyu,
                               lo.cyl, hi.cyu, hi.cyl, w, m.zu + at);
        }
        if (z >= b->z0)
            LS_NAME(step_plane)(f, b, (uint32_t)z, &m, outcome);
        swap(&m.zl, &m.zu);
        swap(&m.cx[0], &m.cx[1]);
    }
}

/* Implements ls_simd.apply. */
static LS_TARGET void LS_NAME(apply)(float *phi, const float *u, size_t n, float dt,
                                     ls_outcome *outcome)
{
    LS_REAL bad = LS_C(0.0f);
    LS_INT changed = { 0 };
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        const LS_REAL p = LS_LOAD(phi + i),
                      next = LS_NAME(ls_next_phi)(p, LS_C(dt), LS_LOAD(u + i));

        bad = bad + (next - next); /* adds 0, or NaN if `next` is not finite */
        changed |= LS_BELOW0(next) ^ LS_BELOW0(p);
        LS_STORE(phi + i, next);
    }
    LS_NAME(merge_lanes)(LS_C(0.0f), bad, changed, outcome);
    if (i < n)
        scalar_apply(phi + i, u + i, n - i, dt, outcome);
}

#undef LS_TARGET
#undef LANES
#undef LS_REAL
#undef LS_INT
#undef LS_NAME
#undef LS_C
#undef LS_LOAD
#undef LS_STORE
#undef LS_LANE
#undef LS_SQRT
#undef LS_POS
#undef LS_SIGN
#undef LS_ABS
#undef LS_MAX
#undef LS_BELOW0
