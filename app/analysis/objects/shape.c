/* objects: computes the shape of an object from integer sums over its runs (a run is a series of
 * adjacent pixels of the object in a row). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/objects/objects.h"

typedef __int128 i128;

/* --- sums ------------------------------------------------------------------------------------ */

void obj_sums_clear(obj_sums *s)
{
    *s = (obj_sums){ .lo = { UINT32_MAX, UINT32_MAX, UINT32_MAX } };
}

/* Extends the bounding box along an axis to [lo, hi). */
static void widen_box(obj_sums *s, int axis, uint32_t lo, uint32_t hi)
{
    s->lo[axis] = lo < s->lo[axis] ? lo : s->lo[axis];
    s->hi[axis] = hi > s->hi[axis] ? hi : s->hi[axis];
}

void obj_sums_merge(obj_sums *s, const obj_sums *other)
{
    s->area += other->area;
    for (int i = 0; i < 3; i++) {
        s->sum[i] += other->sum[i];
        s->square[i] += other->square[i];
        s->product[i] += other->product[i];
        s->steps[i] += other->steps[i];
        widen_box(s, i, other->lo[i], other->hi[i]);
    }
    for (int i = 0; i < 256; i++)
        s->windows[i] += other->windows[i];
}

/* The sum of k^2 for k from 0 to n - 1; n is at most 65535. */
static uint64_t squares_below(uint64_t n)
{
    return n == 0 ? 0 : (n - 1) * n * (2 * n - 1) / 6;
}

/* Adds the run of pixels x0 to x1 in row y of slice z to all members of *s except windows and
 * steps.
 */
static void add_moments(obj_sums *s, uint64_t z, uint64_t y, uint64_t x0, uint64_t x1)
{
    const uint64_t n = x1 - x0 + 1, x_sum = n * (x0 + x1) / 2;

    s->area += n;
    s->sum[0] += n * z;
    s->sum[1] += n * y;
    s->sum[2] += x_sum;
    s->square[0] += n * z * z;
    s->square[1] += n * y * y;
    s->square[2] += squares_below(x1 + 1) - squares_below(x0);
    s->product[0] += n * z * y;
    s->product[1] += x_sum * z;
    s->product[2] += x_sum * y;
    widen_box(s, 0, (uint32_t)z, (uint32_t)z + 1);
    widen_box(s, 1, (uint32_t)y, (uint32_t)y + 1);
    widen_box(s, 2, (uint32_t)x0, (uint32_t)x1 + 1);
}

/* --- windows of 2 x 2 (x 2) pixels ------------------------------------------------------------ */

size_t obj_rows_bytes(const wu_item *item)
{
    /* Flags of 9 rows (add_outline), each with a pixel more on both sides. */
    return 9 * ((size_t)item->nx + 2);
}

/* Sets flags[0] and following for pixels x0 - 1 to x1 + 1 of a row: 1 if the pixel has the label,
 * else 0. Rows and pixels outside the picture or stack get 0. */
static void row_flags(const obj_item *o, int64_t z, int64_t y, uint32_t label, uint32_t x0,
                      uint32_t x1, uint8_t *flags)
{
    const uint32_t *const labels = obj_labels(o->pixels, z, y);
    const uint32_t n = x1 - x0 + 3;

    if (labels == NULL) {
        memset(flags, 0, n);
        return;
    }
    flags[0] = x0 > 0 && labels[x0 - 1] == label;
    for (uint32_t i = 1; i < n - 1; i++)
        flags[i] = labels[x0 + i - 1] == label;
    flags[n - 1] = x1 + 1 < o->pixels->nx && labels[x1 + 1] == label;
}

/* Counts, along one row of windows, the windows that contain pixels of a run. A row of windows
 * extends over n_rows rows of pixels: 2 in pictures, 4 in stacks. rows: the n flags (row_flags) of
 * each of these rows, in raster order. own_row: the index, in `rows`, of the row in which the run
 * lies. A window that has pixels of the object in an earlier row is not counted, as it is counted
 * for the run there; a window that lies completely in the object is not counted at all. */
static void count_windows(const uint8_t *const *rows, int n_rows, int own_row, uint32_t n,
                          uint64_t *windows)
{
    const unsigned full = n_rows == 2 ? 15 : 255; /* all 4 or 8 bits of a window */

    for (uint32_t i = 0; i + 1 < n; i++) {
        unsigned window = 0, before = 0; /* bits as in obj_mesh; not 0: an earlier row has pixels */

        for (int r = 0; r < n_rows; r++) {
            const unsigned two = rows[r][i] | rows[r][i + 1] << 1;

            window |= two << 2 * r;
            before |= r < own_row ? two : 0;
        }
        if (before == 0 && window != full)
            windows[window]++;
    }
}

/* Whether a pixel has the label; false outside the picture. */
static int is_inside(const obj_item *o, int64_t y, int64_t x, uint32_t label)
{
    return y >= 0 && x >= 0 && y < o->pixels->ny && x < o->pixels->nx &&
           o->pixels->labels[(size_t)y * o->pixels->nx + (size_t)x] == label;
}

/* Whether a pixel has the label, and at least one of the four pixels that share a side with it does
 * not. */
static int is_border(const obj_item *o, int64_t y, int64_t x, uint32_t label)
{
    return is_inside(o, y, x, label) &&
           !(is_inside(o, y - 1, x, label) && is_inside(o, y + 1, x, label) &&
             is_inside(o, y, x - 1, label) && is_inside(o, y, x + 1, label));
}

/* Adds 1 to the element of `steps` (obj_sums) for the length that a border pixel adds to the
 * perimeter. The length depends on two numbers: how many of the pixel's four neighbours across a
 * side, and how many of its four neighbours across a corner, are also border pixels. The weights
 * are those of Benkrid and Crookes, "Design and FPGA implementation of a perimeter estimator". */
static void count_step(const obj_item *o, int64_t y, int64_t x, uint32_t label, uint64_t *steps)
{
    /* [sides][corners]: 1 + the index in steps; 0: the pixel adds nothing. */
    static const uint8_t weights[5][5] = { { 0, 0, 2, 0, 0 },
                                           { 0, 3, 3, 2, 0 },
                                           { 1, 1, 1, 0, 0 },
                                           { 1, 1, 1, 0, 0 },
                                           { 0, 0, 0, 0, 0 } };
    const int sides = is_border(o, y - 1, x, label) + is_border(o, y + 1, x, label) +
                      is_border(o, y, x - 1, label) + is_border(o, y, x + 1, label);
    const int corners = is_border(o, y - 1, x - 1, label) + is_border(o, y - 1, x + 1, label) +
                        is_border(o, y + 1, x - 1, label) + is_border(o, y + 1, x + 1, label);

    if (weights[sides][corners] != 0)
        steps[weights[sides][corners] - 1]++;
}

/* Calls count_step for the border pixels of a run. rows: the n flags (row_flags) of the row above
 * the run, of the run's row and of the row below. */
static void count_steps(const obj_item *o, uint32_t y, uint32_t x0, uint32_t n, uint32_t label,
                        const uint8_t *const *rows, uint64_t *steps)
{
    for (uint32_t i = 1; i + 1 < n; i++)
        if (!(rows[0][i] && rows[2][i] && rows[1][i - 1] && rows[1][i + 1]))
            count_step(o, y, (int64_t)x0 + i - 1, label, steps);
}

/* Adds the run of pixels x0 to x1 in row y of slice z to s->windows and, in a picture, s->steps.
 * scratch: obj_rows_bytes bytes. */
static void add_outline(const obj_item *o, uint32_t z, uint32_t y, uint32_t x0, uint32_t x1,
                        uint8_t *scratch, obj_sums *s)
{
    const uint32_t n = x1 - x0 + 3, label = obj_labels(o->pixels, z, y)[x0];
    const int slices = o->dims == 3 ? 3 : 1;
    enum { AHEAD = 6 };     /* rows from this one to the one that is prefetched */
    const uint8_t *rows[9]; /* in a stack element 3 (dz + 1) + dy + 1, in a picture dy + 1 */

    /* Prefetches explicitly, as hardware does not predict the access to labels down many rows. */
    if ((uint64_t)y + AHEAD < o->pixels->ny) {
        const uint32_t *const ahead = obj_labels(o->pixels, z, y + AHEAD);

        __builtin_prefetch(ahead + x0);
        __builtin_prefetch(ahead + x1);
    }
    /* The flags of the rows above, at and below the run; in a stack also of the same rows in the
     * slices before and after. */
    for (int k = 0; k < 3 * slices; k++) {
        uint8_t *const flags = scratch + k * ((size_t)o->pixels->nx + 2);

        row_flags(o, (int64_t)z + (slices == 3 ? k / 3 - 1 : 0), (int64_t)y + k % 3 - 1, label, x0,
                  x1, flags);
        rows[k] = flags;
    }
    /* Each row of pixels belongs to 2 rows of windows in a picture, to 4 in a stack. */
    for (int wy = 0; wy < 2 && slices == 1; wy++)
        count_windows(rows + wy, 2, 1 - wy, n, s->windows);
    for (int w = 0; w < 4 && slices == 3; w++) {
        const int first = w / 2 * 3 + w % 2;
        const uint8_t *const window[4] = { rows[first], rows[first + 1], rows[first + 3],
                                           rows[first + 4] };

        count_windows(window, 4, 3 - w, n, s->windows);
    }
    if (slices == 1)
        count_steps(o, y, x0, n, label, rows, s->steps);
}

void obj_sums_add(const obj_item *o, const obj_run *runs, size_t n, uint8_t *rows, obj_sums *s)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t z = OBJ_RUN_Z(runs[i]), y = OBJ_RUN_Y(runs[i]);

        add_moments(s, z, y, OBJ_RUN_X0(runs[i]), OBJ_RUN_X1(runs[i]));
        if ((o->params->families & OBJ_SHAPE) != 0)
            add_outline(o, z, y, OBJ_RUN_X0(runs[i]), OBJ_RUN_X1(runs[i]), rows, s);
    }
}

/* Returns the Euler number of the union of the object's pixels or voxels: vertices - edges + faces,
 * in a stack - voxels. The centre of each window is a vertex. The window contributes this vertex, a
 * half of each edge that ends there, a quarter of each face at the vertex, and an eighth of each
 * voxel. */
static int64_t euler_number(const uint64_t *windows, int dims)
{
    /* The window's voxels on each side of the vertex, as bits: lower and upper along x, y, z. An
     * edge at the vertex lies between the 2 or 4 voxels of one side. A face between two edges, on
     * sides that are not opposite, lies between the voxels that both sides share. */
    static const uint8_t sides[6] = { 0x55, 0xaa, 0x33, 0xcc, 0x0f, 0xf0 };
    const int n = 1 << dims; /* number of pixels in a window */
    int64_t sum = 0;

    for (int w = 1; w < 1 << n; w++) {
        int chi = n; /* the window's contribution, times n */

        for (int a = 0; a < 2 * dims; a++)
            chi -= (w & sides[a]) != 0 ? n / 2 : 0;
        for (int a = 0; a < 2 * dims && dims == 3; a++)
            for (int b = a + 1; b < 2 * dims; b++)
                chi += (sides[a] & sides[b]) != 0 && (w & sides[a] & sides[b]) != 0 ? 2 : 0;
        chi += dims == 2 ? __builtin_popcount((unsigned)w) : -__builtin_popcount((unsigned)w);
        sum += chi * (int64_t)windows[w];
    }
    return sum / n;
}

/* --- surface --------------------------------------------------------------------------------- */

/*
 * Marching cubes (Lorensen and Cline 1987). Where a face of a window is ambiguous, its voxels that
 * are in the object are joined. A window of 2 x 2 x 2 voxel centres has 12 edges; the surface
 * crosses an edge in its middle. These points have letters: a to d on the edges along x (at y, z =
 * 0 0, 1 0, 0 1, 1 1), e to h on those along y (at x, z), i to l on those along z (at x, y); m is
 * the centre of the window. Each entry has a window (bit x + 2y + 4z: the voxel is in the object),
 * the volume that the surface encloses in the window, in 48ths of the window, and the surface as
 * fans of triangles. For example, the fan "feij" consists of the triangles fei and fij, which share
 * the point f. All other windows follow by symmetry.
 */
static const struct {
    uint8_t window, volume;
    const char *fans;
} surfaces[] = { { 1, 1, "aei" },
                 { 3, 6, "feij" },
                 { 6, 10, "keajfb" },
                 { 7, 17, "kbfji" },
                 { 15, 24, "ijlk" },
                 { 22, 3, "iajcgke eafbk afj" },
                 { 23, 24, "jckbf ckg" },
                 { 24, 2, "blf cgi" },
                 { 25, 27, "caflg blge" },
                 { 27, 24, "bljge cjg" },
                 { 30, 30, "kgcjl aie" },
                 { 31, 31, "kgcjl" },
                 { 60, 36, "fjie ghlk" },
                 { 61, 29, "mhgjfklh ajgkf" },
                 { 63, 42, "hlkg" },
                 { 105, 44, "ajf bek cig dlh" },
                 { 107, 45, "bek cgi dhl" },
                 { 111, 46, "cgi dhl" },
                 { 126, 46, "aie dhl" },
                 { 127, 47, "dhl" } };

/* One of the 48 symmetries of the cube (6 orders of the axes, each with 8 choices of reversed
 * axes). It maps axis from[i] to axis i, and reverses axis i if bit i of `reversed` is set. */
typedef struct symmetry {
    int from[3];
    unsigned reversed;
} symmetry;

/* Returns symmetry i, 0 to 47. */
static symmetry symmetry_of(int i)
{
    static const uint8_t orders[6][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
                                          { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };

    return (symmetry){ { orders[i / 8][0], orders[i / 8][1], orders[i / 8][2] }, (unsigned)i % 8 };
}

/* Returns the window to which the symmetry maps `window`. */
static unsigned map_window(unsigned window, const symmetry *s)
{
    unsigned out = 0;

    for (unsigned b = 0; b < 8; b++) {
        unsigned to = 0;

        for (int i = 0; i < 3; i++)
            to |= ((b >> s->from[i] & 1) ^ (s->reversed >> i & 1)) << i;
        out |= (window >> b & 1) << to;
    }
    return out;
}

/* Computes the position of a letter's point, mapped by the symmetry, in micrometres from the centre
 * of the window's first voxel. out: x, y, z. spacing: z, y, x. */
static void edge_point(char letter, const symmetry *s, const double spacing[3], double out[3])
{
    const int edge = letter - 'a', along = edge / 4; /* along: the edge's axis; 3 for m */
    int halves[3] = { 1, 1, 1 }; /* the point's coordinates in half voxels, before the mapping */

    for (int i = 0, bit = 0; i < 3 && edge < 12; i++)
        if (i != along)
            halves[i] = 2 * (edge >> bit++ & 1);
    for (int i = 0; i < 3; i++) {
        const int mapped = halves[s->from[i]];

        out[i] = ((s->reversed >> i & 1) != 0 ? 2 - mapped : mapped) * spacing[2 - i] / 2;
    }
}

static double triangle_area(const double a[3], const double b[3], const double c[3])
{
    const double u[3] = { b[0] - a[0], b[1] - a[1], b[2] - a[2] },
                 v[3] = { c[0] - a[0], c[1] - a[1], c[2] - a[2] };
    const double x = u[1] * v[2] - u[2] * v[1], y = u[2] * v[0] - u[0] * v[2],
                 z = u[0] * v[1] - u[1] * v[0];

    return sqrt(x * x + y * y + z * z) / 2;
}

/* The area of the fans of triangles (surfaces), in square micrometres. */
static double fans_area(const char *fans, const symmetry *s, const double spacing[3])
{
    double area = 0, hub[3], last[3], next[3];

    for (; *fans != '\0'; fans += *fans == ' ') {
        edge_point(*fans++, s, spacing, hub);
        edge_point(*fans++, s, spacing, last);
        for (; *fans != '\0' && *fans != ' '; fans++) {
            edge_point(*fans, s, spacing, next);
            area += triangle_area(hub, last, next);
            memcpy(last, next, sizeof last);
        }
    }
    return area;
}

void obj_mesh_init(const double spacing[3], obj_mesh *mesh)
{
    bool is_set[256] = { [0] = true, [255] = true };

    memset(mesh, 0, sizeof *mesh);
    for (size_t k = 0; k < sizeof surfaces / sizeof surfaces[0]; k++)
        for (int i = 0; i < 48; i++) {
            const symmetry s = symmetry_of(i);
            const unsigned window = map_window(surfaces[k].window, &s);

            if (is_set[window])
                continue;
            is_set[window] = true;
            mesh->area[window] = fans_area(surfaces[k].fans, &s, spacing);
            mesh->volume[window] =
                (int8_t)(surfaces[k].volume - 6 * __builtin_popcount(surfaces[k].window));
        }
}

/* --- hull and pieces, for pictures ------------------------------------------------------------ */

/* The greatest number of corners of the left or right side of the hull. Convex outlines in the
 * largest pictures, which are 131,072 half pixels wide and high, have far fewer corners. */
enum { HULL_ROOM = 16384 };

tc_status obj_outline_init(const wu_item *item, obj_outline *h, tc_err *err)
{
    /* add_row adds up to 3 points to a side; a row has at most nx / 2 + 1 runs. */
    const size_t most = 3 * (size_t)item->ny + 3, runs = (size_t)item->nx / 2 + 1;
    bool good;

    h->room = most < HULL_ROOM ? most : HULL_ROOM;
    h->left = malloc(h->room * sizeof *h->left);
    h->right = malloc(h->room * sizeof *h->right);
    h->outer = malloc(2 * h->room * sizeof *h->outer);
    h->parent = malloc(2 * runs * sizeof *h->parent);
    good = h->left != NULL && h->right != NULL && h->outer != NULL && h->parent != NULL;
    for (int i = 0; i < 2; i++) {
        h->row[i] = malloc(runs * sizeof *h->row[i]);
        h->piece[i] = malloc(runs * sizeof *h->piece[i]);
        good = good && h->row[i] != NULL && h->piece[i] != NULL;
    }
    return good ? TC_OK : tc_no_memory(err, "an outline");
}

void obj_outline_free(obj_outline *h)
{
    free(h->left);
    free(h->right);
    free(h->outer);
    free(h->parent);
    for (int i = 0; i < 2; i++) {
        free(h->row[i]);
        free(h->piece[i]);
    }
    *h = (obj_outline){ .left = NULL };
}

void obj_outline_clear(obj_outline *h)
{
    h->n_left = h->n_right = h->pieces = h->n_row[0] = h->n_row[1] = 0;
}

/* The z component of the cross product (b - a) x (c - a). */
static int64_t cross_product(obj_point a, obj_point b, obj_point c)
{
    return (int64_t)(b.x - a.x) * (c.y - a.y) - (int64_t)(b.y - a.y) * (c.x - a.x);
}

/* Adds a point to a side of the hull (Andrew's monotone chain). chain: the side's n corners.
 * Returns the new number of corners. The point's y must not be less than the y of any corner. side:
 * -1 left, 1 right. If points have the same y, only the outermost one remains. */
static size_t add_point(obj_point *chain, size_t n, obj_point p, int side)
{
    if (n > 0 && chain[n - 1].y == p.y) {
        if (side * (p.x - chain[n - 1].x) <= 0)
            return n;
        n--;
    }
    while (n > 1 && side * cross_product(chain[n - 2], chain[n - 1], p) <= 0)
        n--;
    chain[n] = p;
    return n + 1;
}

/* Adds row y of the object to the hull. x0, x1: the row's first and last pixel. The points are, in
 * half pixels, the midpoints of the upper, outer and lower side of pixel x0 (for the left side of
 * the hull) and of pixel x1 (for the right side). */
static void add_row(obj_outline *h, int32_t y, int32_t x0, int32_t x1)
{
    for (int32_t dy = -1; dy <= 1; dy++) {
        const int32_t outward = dy == 0;

        h->n_left = add_point(h->left, h->n_left, (obj_point){ 2 * y + dy, 2 * x0 - outward }, -1);
        h->n_right =
            add_point(h->right, h->n_right, (obj_point){ 2 * y + dy, 2 * x1 + outward }, 1);
    }
}

/* Returns the root of i's set in the union-find, and shortens the path to it. */
static uint32_t root_of(uint32_t *parent, uint32_t i)
{
    while (parent[i] != i)
        i = parent[i] = parent[parent[i]];
    return i;
}

/* Joins each run of the current row, which is complete, with the pieces of the runs that it touches
 * in the row above, also at corners. Updates the number of pieces: each run adds a piece, and each
 * union of two pieces removes one. Only pieces with a run in the row above are nodes of the
 * union-find, as other pieces cannot get further runs. */
static void end_row(obj_outline *h)
{
    const obj_run *const previous = h->row[0], *const current = h->row[1];
    const size_t n_above = h->n_row[0], n = h->n_row[1];
    /* The rows are adjacent: no row without runs lies between them. */
    const bool adjacent =
        n > 0 && n_above > 0 && OBJ_RUN_Y(current[0]) == OBJ_RUN_Y(previous[0]) + 1;
    size_t a = 0;

    /* Nodes of the union-find: first the pieces of the row above by their number, then this row's
     * runs. */
    for (size_t i = 0; i < n_above + n; i++)
        h->parent[i] = (uint32_t)i;
    h->pieces += n;
    for (size_t i = 0; i < n && adjacent; i++) {
        while (a < n_above && OBJ_RUN_X1(previous[a]) + 1 < OBJ_RUN_X0(current[i]))
            a++;
        for (size_t k = a; k < n_above && OBJ_RUN_X0(previous[k]) <= OBJ_RUN_X1(current[i]) + 1;
             k++) {
            const uint32_t r = root_of(h->parent, h->piece[0][k]),
                           s = root_of(h->parent, (uint32_t)(n_above + i));

            h->pieces -= r != s;
            h->parent[r > s ? r : s] = r > s ? s : r;
        }
    }
    for (size_t i = 0; i < n; i++)
        h->piece[1][i] = root_of(h->parent, (uint32_t)(n_above + i));
}

/* Makes the current row the row above, and empties the row for new runs. Renumbers the pieces: the
 * number of a piece becomes the index of its first run in the row. `parent` serves as the table of
 * the new numbers. */
static void advance_row(obj_outline *h)
{
    obj_run *const row = h->row[0];
    uint32_t *const piece = h->piece[0];
    const size_t n = h->n_row[1], nodes = h->n_row[0] + n;

    for (size_t i = 0; i < nodes; i++)
        h->parent[i] = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        uint32_t *const number = &h->parent[h->piece[1][i]];

        *number = *number == UINT32_MAX ? (uint32_t)i : *number;
        h->piece[1][i] = *number;
    }
    h->row[0] = h->row[1];
    h->piece[0] = h->piece[1];
    h->n_row[0] = n;
    h->row[1] = row;
    h->piece[1] = piece;
    h->n_row[1] = 0;
}

/* Completes the current row, if it has runs. */
static void finish_row(obj_outline *h)
{
    const size_t n = h->n_row[1];

    if (n == 0)
        return;
    add_row(h, (int32_t)OBJ_RUN_Y(h->row[1][0]), (int32_t)OBJ_RUN_X0(h->row[1][0]),
            (int32_t)OBJ_RUN_X1(h->row[1][n - 1]));
    end_row(h);
    advance_row(h);
}

void obj_outline_add(obj_outline *h, const obj_run *runs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (h->n_row[1] > 0 && OBJ_RUN_Y(h->row[1][0]) != OBJ_RUN_Y(runs[i]))
            finish_row(h);
        h->row[1][h->n_row[1]++] = runs[i];
    }
}

/* Computes the x of a side of the hull at a given y, both in half pixels: x = *num / *den, with
 * *den > 0. chain: the side's n corners. *corner: the index of the corner at which the search
 * begins, 0 in the first call; the function updates it, so y must not decrease from call to call.
 */
static void hull_side_at(const obj_point *chain, size_t n, int32_t y, size_t *corner, int64_t *num,
                         int64_t *den)
{
    while (*corner + 1 < n && chain[*corner + 1].y < y)
        ++*corner;
    if (*corner + 1 == n) {
        *num = chain[*corner].x;
        *den = 1;
        return;
    }
    *den = chain[*corner + 1].y - chain[*corner].y;
    *num = chain[*corner].x * *den +
           (int64_t)(y - chain[*corner].y) * (chain[*corner + 1].x - chain[*corner].x);
}

/* a / b, rounded down, for b > 0. */
static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Sets *area to the number of pixels whose centres are in the hull or on its outline. Sets *feret
 * to the square, in half pixels, of the greatest distance between two midpoints of sides of these
 * pixels. */
static void measure_hull(obj_outline *h, uint64_t *area, uint64_t *feret)
{
    /* The first and last row with a centre in the hull. The hull begins half a pixel above the
     * object's first row, at an odd y, and ends half a pixel below the last row. */
    const int32_t y0 = h->left[0].y / 2 + (h->left[0].y > 0), y1 = h->left[h->n_left - 1].y / 2;
    obj_outline pixels = { .left = h->outer, .right = h->outer + h->room };
    size_t l = 0, r = 0;

    *area = *feret = 0;
    for (int32_t y = y0; y <= y1; y++) {
        int64_t num, den, x0, x1;

        hull_side_at(h->left, h->n_left, 2 * y, &l, &num, &den);
        x0 = -floor_div(-num, 2 * den);
        hull_side_at(h->right, h->n_right, 2 * y, &r, &num, &den);
        x1 = floor_div(num, 2 * den);
        if (x0 > x1)
            continue;
        *area += (uint64_t)(x1 - x0 + 1);
        add_row(&pixels, y, (int32_t)x0, (int32_t)x1);
    }
    /* All pairs of corners with one on the left side, then all pairs on the right side. */
    for (size_t i = 0; i < pixels.n_left; i++)
        for (size_t k = 0; k < pixels.n_left + pixels.n_right; k++) {
            const obj_point p = pixels.left[i], q = k < pixels.n_left
                                                        ? pixels.left[k]
                                                        : pixels.right[k - pixels.n_left];
            const int64_t dy = q.y - p.y, dx = q.x - p.x;
            const uint64_t square = (uint64_t)(dy * dy + dx * dx);

            *feret = square > *feret ? square : *feret;
        }
    for (size_t i = 0; i < pixels.n_right; i++)
        for (size_t k = i + 1; k < pixels.n_right; k++) {
            const int64_t dy = pixels.right[k].y - pixels.right[i].y,
                          dx = pixels.right[k].x - pixels.right[i].x;
            const uint64_t square = (uint64_t)(dy * dy + dx * dx);

            *feret = square > *feret ? square : *feret;
        }
}

/* --- columns ---------------------------------------------------------------------------------- */

/* Returns area^2 times the covariance of the coordinates of two axes i <= k (0 z, 1 y, 2 x),
 * exactly. */
static i128 covariance(const obj_sums *s, int i, int k)
{
    const uint64_t products = i == k ? s->square[i] : s->product[i + k - 1];

    return (i128)s->area * products - (i128)s->sum[i] * s->sum[k];
}

/* Writes the words of bbox and centroid. */
static uint64_t *put_box(const obj_item *o, const obj_sums *s, uint64_t *word)
{
    for (int i = 3 - o->dims; i < 3; i++)
        word = obj_put_int(word, s->lo[i]);
    for (int i = 3 - o->dims; i < 3; i++)
        word = obj_put_int(word, s->hi[i]);
    for (int i = 3 - o->dims; i < 3; i++)
        word = obj_put_real(word, (double)s->sum[i] / (double)s->area);
    return word;
}

/* The number of pixels in the bounding box. */
static double box_size(const obj_sums *s)
{
    double size = 1;

    for (int i = 0; i < 3; i++)
        size *= s->hi[i] - s->lo[i];
    return size;
}

/* Writes the words of axis_major_length, axis_minor_length, eccentricity and orientation, which
 * describe the ellipse with the object's second moments. */
static uint64_t *put_ellipse(const obj_sums *s, uint64_t *word)
{
    const double n = (double)s->area;
    const i128 yy = covariance(s, 1, 1), xx = covariance(s, 2, 2), yx = covariance(s, 1, 2),
               limit = (i128)1 << 62; /* products of smaller numbers fit in an i128 */
    const double a = (double)yy / (n * n), b = (double)xx / (n * n), c = (double)yx / (n * n);
    const double difference = sqrt(4 * c * c + (a - b) * (a - b)), major = (a + b + difference) / 2;
    double minor = (a + b - difference) / 2;

    /* Computes the lesser eigenvalue as the determinant divided by the greater one, which is
     * precise even if the lesser one is small. */
    if (major > 0 && yy < limit && xx < limit)
        minor = (double)(yy * xx - yx * yx) / (n * n) / (n * n) / major;
    minor = minor > 0 ? minor < major ? minor : major : 0;
    word = obj_put_real(word, 4 * sqrt(major));
    word = obj_put_real(word, 4 * sqrt(minor));
    word = obj_put_real(word, difference == 0       ? 0
                              : difference >= major ? 1
                                                    : sqrt(difference / major));
    return obj_put_real(word, 0.5 * tc_atan2(2 * c, a - b));
}

/* Writes the words of the shape's columns for an object in a picture. */
static uint64_t *put_shape_2d(const obj_item *o, const obj_sums *s, obj_outline *h, bool border,
                              uint64_t *word)
{
    const double area = (double)s->area;
    const int64_t euler = euler_number(s->windows, 2);
    const double perimeter = (double)s->steps[0] + (double)s->steps[1] * sqrt(2) +
                             (double)s->steps[2] * ((1 + sqrt(2)) / 2);
    uint64_t convex, feret;

    finish_row(h);
    measure_hull(h, &convex, &feret);
    word = obj_put_int(word, (int64_t)s->area);
    word = put_box(o, s, word);
    word = obj_put_int(word, border);
    word = obj_put_real(word, perimeter);
    word = put_ellipse(s, word);
    word = obj_put_real(word, sqrt(4 * area / TC_PI));
    word = obj_put_int(word, (int64_t)convex);
    word = obj_put_real(word, area / (double)convex);
    word = obj_put_real(word, area / box_size(s));
    word = obj_put_int(word, euler);
    word = obj_put_int(word, (int64_t)h->pieces - euler);
    word = obj_put_real(word, sqrt((double)feret) / 2);
    return obj_put_real(word,
                        perimeter > 0 ? 4 * TC_PI * area / (perimeter * perimeter) : (double)NAN);
}

/* Computes the eigenvalues of the symmetric matrix m, in descending order, by Jacobi's rotations.
 * Negative eigenvalues are set to 0. After five sweeps of three rotations each, the elements off
 * the diagonal are negligible. Changes m. */
static void eigenvalues(double m[3][3], double out[3])
{
    for (int turn = 0; turn < 15; turn++) {
        /* The rotation makes element (p, q) 0: (0, 1), (0, 2) and (1, 2) in turn. r: the third
         * axis. */
        const int p = turn % 3 == 2, q = turn % 3 == 0 ? 1 : 2, r = 3 - p - q;
        double t, c, s, rp, rq, theta;

        if (m[p][q] == 0)
            continue;
        theta = (m[q][q] - m[p][p]) / (2 * m[p][q]);
        t = (theta >= 0 ? 1 : -1) / (fabs(theta) + sqrt(theta * theta + 1));
        c = 1 / sqrt(t * t + 1);
        s = t * c;
        m[p][p] -= t * m[p][q];
        m[q][q] += t * m[p][q];
        m[p][q] = m[q][p] = 0;
        rp = m[r][p];
        rq = m[r][q];
        m[r][p] = m[p][r] = c * rp - s * rq;
        m[r][q] = m[q][r] = s * rp + c * rq;
    }
    for (int i = 0; i < 3; i++)
        out[i] = m[i][i] > 0 ? m[i][i] : 0;
    for (int i = 0; i < 3; i++)
        for (int k = i + 1; k < 3; k++)
            if (out[k] > out[i]) {
                const double swap = out[i];

                out[i] = out[k];
                out[k] = swap;
            }
}

/* Corrects small eigenvalues. out: the three eigenvalues of a matrix, descending. An eigenvalue
 * that is much smaller than the greatest one may be smaller than its rounding error. Such
 * eigenvalues are computed from the determinant and the sum of the principal minors, in integers,
 * unless the object is too large for this. The smallest eigenvalue of an object that lies in a
 * plane becomes exactly 0. c: the covariances times area^2; the elements of the matrix are c[i][k]
 * sqrt(scale[i] scale[k]). */
static void correct_small(const i128 c[3][3], const double scale[3], double out[3])
{
    const i128 limit = (i128)1 << 40; /* the determinant of smaller numbers fits in an i128 */
    double minors = 0, product;
    i128 det = 0;

    if (c[0][0] > limit || c[1][1] > limit || c[2][2] > limit || out[0] == 0)
        return;
    for (int i = 0; i < 3; i++) {
        const int k = (i + 1) % 3, l = (i + 2) % 3;

        minors += (double)(c[i][i] * c[k][k] - c[i][k] * c[i][k]) * (scale[i] * scale[k]);
        det += c[0][i] * (c[1][k] * c[2][l] - c[1][l] * c[2][k]);
    }
    product = (double)det * (scale[0] * scale[1] * scale[2]) /
              out[0]; /* product of the two lesser eigenvalues */
    if (out[1] < 1e-3 * out[0]) {
        const double sum = (minors - product) / out[0]; /* sum of the two lesser eigenvalues */

        out[1] = sum - out[2] > 0 ? sum - out[2] : 0;
        if (det == 0)
            out[1] = sum > 0 ? sum : 0;
    }
    if (out[2] < 1e-3 * out[1] || det == 0)
        out[2] = out[1] == 0 ? 0 : product / out[1];
}

/* Writes the words of the shape's columns for an object in a stack. */
static uint64_t *put_shape_3d(const obj_item *o, const obj_sums *s, bool border, uint64_t *word)
{
    const double *const spacing = o->item->spacing, n = (double)s->area;
    const double voxel = spacing[0] * spacing[1] * spacing[2];
    double m[3][3], axes[3] /* squared */, scale[3], surface = 0, mesh_volume;
    int64_t volume = 48 * (int64_t)s->area; /* in 48ths of a voxel */
    i128 c[3][3];

    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            c[i][k] = covariance(s, i < k ? i : k, i < k ? k : i);
            m[i][k] = (double)c[i][k] / (n * n) * (spacing[i] * spacing[k]);
        }
    for (int i = 0; i < 3; i++)
        scale[i] = spacing[i] * spacing[i] / (n * n);
    eigenvalues(m, axes);
    correct_small(c, scale, axes);
    for (int w = 0; w < 256; w++) {
        surface += (double)s->windows[w] * o->mesh.area[w];
        volume += (int64_t)s->windows[w] * o->mesh.volume[w];
    }
    mesh_volume = (double)volume / 48 * voxel;
    word = obj_put_int(word, (int64_t)s->area);
    word = put_box(o, s, word);
    word = obj_put_int(word, border);
    word = obj_put_real(word, n * voxel);
    for (int i = 0; i < 3; i++)
        word = obj_put_real(word, sqrt(20 * axes[i]));
    word = obj_put_real(word, surface);
    word = obj_put_real(word, mesh_volume);
    word = obj_put_real(word, tc_cbrt(36 * TC_PI * mesh_volume * mesh_volume) / surface);
    word = obj_put_real(word, n / box_size(s));
    return obj_put_int(word, euler_number(s->windows, 3));
}

uint64_t *obj_put_shape(const obj_item *o, const obj_sums *s, obj_outline *h, uint64_t *word)
{
    const bool border = obj_at_border(o, s);

    return o->dims == 3 ? put_shape_3d(o, s, border, word) : put_shape_2d(o, s, h, border, word);
}

bool obj_at_border(const obj_item *o, const obj_sums *s)
{
    const uint32_t size[3] = { o->item->nz, o->item->ny, o->item->nx };

    for (int i = 3 - o->dims; i < 3; i++)
        if (s->lo[i] == 0 || s->hi[i] == size[i])
            return true;
    return false;
}
