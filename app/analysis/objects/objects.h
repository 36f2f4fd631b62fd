/*
 * objects: shape, intensity and texture of each object of a label picture or stack.
 * docs/dev/analyses/objects.md has every definition.
 *
 * Work goes from object to object, by the runs of pixels that each has, so it
 * grows with the pixels and not with the objects. Everything that is summed is an
 * integer. The state is the head and a row of 8-byte words for each object, in the order
 * of the labels: what finish puts into the columns, as soon as it is known.
 */
#ifndef AN_OBJECTS_H
#define AN_OBJECTS_H

#include <assert.h>

#include "app/analysis/analysis.h"
#include "app/analysis/common/cooc.h"

enum { OBJ_SHAPE = 1, OBJ_INTENSITY = 2, OBJ_TEXTURE = 4 }; /* families */
typedef enum obj_range {
    OBJ_RANGE_FIXED,
    OBJ_RANGE_OBJECT,
    OBJ_RANGE_IMAGE,
    OBJ_RANGE_TYPE
} obj_range;
enum { OBJ_MAX_DISTANCE = 255, OBJ_MAX_DISTANCES = 16 };
enum { OBJ_PERCENTILES = 6 };
extern const unsigned obj_percentiles[OBJ_PERCENTILES];

typedef struct obj_params {
    an_params_head head;
    uint32_t families;
    int32_t levels;
    obj_range range;
    int32_t range_ends[2]; /* lo, hi of OBJ_RANGE_FIXED */
    size_t n_distances;
    int32_t distances[OBJ_MAX_DISTANCES];
    bool merge;          /* aggregate "merge"; else average */
    uint32_t features;   /* bit i: feature i of cooc.h */
    int32_t feature_set; /* 1 haralick, 2 ibsi, 0 a list */
    bool exclude_border;
    /* derived */
    unsigned n_features;
    const char *feature_names[COOC_FEATURES + 1];
    unsigned distance_numbers[OBJ_MAX_DISTANCES];
} obj_params;

extern const an_param obj_parameters[];
tc_status obj_derive_params(void *params, const char *where, tc_err *err);

/* --- the state ------------------------------------------------------------------------------- */

/* Of an object, before the words of its columns. */
typedef struct obj_row {
    uint64_t label;   /* 0: not reached yet */
    uint16_t lo, hi;  /* its grey values */
    uint32_t border;  /* whether it touches the picture's border */
    uint64_t words[]; /* obj_words: doubles and int64s, texture behind all others */
} obj_row;

/* Words of a row's columns, and how many of them come before the texture. */
size_t obj_words(const obj_params *p, const wu_item *item);
size_t obj_texture_at(const obj_params *p, const wu_item *item);

static inline size_t obj_row_bytes(const obj_params *p, const wu_item *item)
{
    return sizeof(obj_row) + 8 * obj_words(p, item);
}

static inline obj_row *obj_row_of(void *state, size_t row_bytes, size_t object)
{
    return (obj_row *)(void *)((char *)state + sizeof(an_state_head) + object * row_bytes);
}

static inline const obj_row *obj_row_of_const(const void *state, size_t row_bytes, size_t object)
{
    return (const obj_row *)(const void *)((const char *)state + sizeof(an_state_head) +
                                           object * row_bytes);
}

/* Whether it is in the table; one that is not needs no texture. */
static inline bool obj_is_kept(const obj_params *p, const obj_row *row)
{
    return row->border == 0 || !p->exclude_border;
}

/* Chunks of an object: one measures it, and one more computes each distance of its texture. Before
 * those of the first object one chunk finds the objects; a worker that goes on from a checkpoint
 * finds them again. */
static inline size_t obj_chunks(const obj_params *p)
{
    return 1 + (p->families & OBJ_TEXTURE ? p->n_distances : 0);
}

/* Words are written one after the other. */
static inline uint64_t *obj_put_real(uint64_t *at, double value)
{
    *(double *)(void *)at = value;
    return at + 1;
}

static inline uint64_t *obj_put_int(uint64_t *at, int64_t value)
{
    *(int64_t *)(void *)at = value;
    return at + 1;
}

/* --- what all objects share ------------------------------------------------------------------ */

/* A run of pixels of one object in a row of a slice: x0 to x1, both its own. Ordered as in
 * the raster. */
typedef uint64_t obj_run;
#define OBJ_RUN(z, y, x0, x1) \
    ((uint64_t)(z) << 48 | (uint64_t)(y) << 32 | (uint64_t)(x0) << 16 | (x1))
#define OBJ_RUN_Z(r) ((uint32_t)((r) >> 48))
#define OBJ_RUN_Y(r) ((uint32_t)((r) >> 32) & 0xffff)
#define OBJ_RUN_X0(r) ((uint32_t)((r) >> 16) & 0xffff)
#define OBJ_RUN_X1(r) ((uint32_t)(r) & 0xffff)
#define OBJ_RUN_LENGTH(r) ((size_t)OBJ_RUN_X1(r) - OBJ_RUN_X0(r) + 1)

/* An object's surface by marching cubes, by windows of 2 x 2 x 2 voxels. */
typedef struct obj_mesh {
    double area[256];   /* within a window, by which of its voxels are inside (bit x + 2y + 4z) */
    int8_t volume[256]; /* 48ths of the window that it encloses, less 6 for each voxel inside */
} obj_mesh;

typedef struct obj_item {
    const obj_params *params;
    const wu_item *item;
    const wu_pixels *pixels;
    int dims; /* 3 for stacks, also of one slice */
    uint8_t
        *quantised; /* [nz][ny][nx]: grey levels of objects without a box; NULL without texture */
    size_t row_bytes, texture_at; /* of a row; its words before the texture */
    /* Once the objects are known: */
    uint32_t lo, hi; /* of all pixels, for OBJ_RANGE_IMAGE */
    tc_logs logs;    /* of all counts there can be */
    obj_mesh mesh;   /* of stacks */
} obj_item;

/* The labels of a row, or NULL outside the picture. */
static inline const uint32_t *obj_labels(const wu_pixels *px, int64_t z, int64_t y)
{
    if (z < 0 || y < 0 || z >= px->nz || y >= px->ny)
        return NULL;
    return px->labels + ((size_t)z * px->ny + (size_t)y) * px->nx;
}

/* --- shape.c --------------------------------------------------------------------------------- */

/* Integer sums over the pixels of an object; those of parts are added. */
typedef struct obj_sums {
    uint64_t area;
    uint64_t sum[3], square[3], product[3]; /* of z, y, x; of zy, zx, yx */
    uint32_t lo[3], hi[3];                  /* the box: z, y, x, half-open */
    uint64_t windows[256]; /* windows of 2 x 2 (x 2) pixels that it has a part of, by which */
    uint64_t steps[3];     /* border pixels of weight 1, sqrt(2), (1 + sqrt(2)) / 2 */
} obj_sums;

void obj_sums_clear(obj_sums *s);
void obj_sums_merge(obj_sums *s, const obj_sums *other);
/* rows: scratch, obj_rows_bytes. windows: whether they and steps are wanted. */
size_t obj_rows_bytes(const wu_item *item);
void obj_sums_add(const obj_item *o, const obj_run *runs, size_t n, uint8_t *rows, obj_sums *s);

/* What needs the runs in order, of pictures: the outline's hull, and the pieces. */
typedef struct obj_point {
    int32_t y, x; /* in half pixels */
} obj_point;

typedef struct obj_outline {
    obj_point *left, *right; /* [room]: the hull's sides, y rising */
    size_t room, n_left, n_right;
    obj_point *outer; /* [2 room] */
    uint64_t pieces;  /* whatever touches, also by a corner, is one */
    /* the row at hand and the one before: runs, and the piece of each among `ends` */
    obj_run *row[2]; /* [nx / 2 + 1] each */
    uint32_t *piece[2];
    size_t n_row[2];
    uint32_t *parent; /* [nx + 2] */
} obj_outline;

tc_status obj_outline_init(const wu_item *item, obj_outline *h, tc_err *err);
void obj_outline_free(obj_outline *h);
void obj_outline_clear(obj_outline *h);
void obj_outline_add(obj_outline *h, const obj_run *runs, size_t n);

/* spacing: z, y, x. */
void obj_mesh_init(const double spacing[3], obj_mesh *mesh);
/* Whether it touches the border of the picture or stack. */
bool obj_at_border(const obj_item *o, const obj_sums *s);
/* The columns of the family; the outline of pictures has all runs. */
uint64_t *obj_put_shape(const obj_item *o, const obj_sums *s, obj_outline *h, uint64_t *at);

/* --- intensity.c ----------------------------------------------------------------------------- */

typedef struct obj_grey_sums {
    uint64_t weighted[3];    /* sums of value times z, y, x */
    uint32_t *fine, *coarse; /* [65536], [256]: pixels by value, by its upper byte */
} obj_grey_sums;

tc_status obj_grey_init(obj_grey_sums *g, tc_err *err);
void obj_grey_free(obj_grey_sums *g);
/* Adds the values of the runs. */
void obj_grey_add(const obj_item *o, const obj_run *runs, size_t n, obj_grey_sums *g);
/* Adds other's, which is empty then. */
void obj_grey_merge(obj_grey_sums *g, obj_grey_sums *other);
/* Least and greatest value of a histogram that is not empty. */
void obj_grey_ends(const obj_grey_sums *g, uint16_t *lo, uint16_t *hi);
/* The columns of the family. */
uint64_t *obj_put_intensity(const obj_item *o, const obj_grey_sums *g, uint64_t area, uint64_t *at);
/* Makes it empty again, in time that grows with the values there are. */
void obj_grey_clear(obj_grey_sums *g);

/* --- texture.c ------------------------------------------------------------------------------- */

enum { OBJ_DIRECTIONS_2D = 4, OBJ_DIRECTIONS_3D = 13 };
typedef struct obj_step {
    int dx, dy, dz;
} obj_step;
static inline size_t obj_n_directions(const obj_item *o)
{
    return o->dims == 3 ? OBJ_DIRECTIONS_3D : OBJ_DIRECTIONS_2D;
}

/* Bits that a level has; there are two levels at least. */
static inline int obj_bits(const obj_params *p)
{
    assert(p->levels >= 2);
    return 32 - __builtin_clz((unsigned)p->levels - 1);
}

/* Of an object's counts of pairs on a device, and the most that it has in local memory. */
enum { OBJ_LOCAL_BYTES = 16384 };
static inline uint64_t obj_count_bytes(const obj_params *p)
{
    return (uint64_t)4 << 2 * obj_bits(p);
}

/* Grey levels from 0, each where its pixel is: obj_level_at. */
enum { OBJ_OVER = 32 }; /* bytes behind them that are read and ignored */
typedef struct obj_levels {
    uint8_t *level;
    ptrdiff_t origin, row, slice;
} obj_levels;

static inline uint8_t *obj_level_at(const obj_levels *l, obj_run r)
{
    return l->level + ((ptrdiff_t)OBJ_RUN_Z(r) * l->slice + (ptrdiff_t)OBJ_RUN_Y(r) * l->row +
                       (ptrdiff_t)OBJ_RUN_X0(r) - l->origin);
}

static inline ptrdiff_t obj_pixels_of(const obj_levels *l, obj_step s)
{
    return s.dz * l->slice + s.dy * l->row + s.dx;
}

/* An object with room around it, which has a level that means outside: a step from any of its
 * pixels needs no look at its bounds. */
enum { OBJ_BOX_BYTES = 1 << 18, OBJ_BOX_SHARE = 16 };
typedef struct obj_box {
    obj_levels levels;
    obj_run from;             /* its first row, as if that were full */
    obj_step size;            /* of the object */
    uint8_t *bytes, *ends[2]; /* [OBJ_BOX_BYTES + OBJ_OVER]: of all, of the object's pixels, and of
                                 those a step from these */
} obj_box;

/* Pairs by their two levels, the lower first. A matrix with many cells compared with an object's
 * pixels is gone through by a list of those that have a pair; others as a whole. */
enum { OBJ_ENTRIES = 4096 };
typedef struct obj_pairs {
    uint32_t levels,
        stride; /* of a row: a column for pairs with an end outside, unless there are 256 levels */
    bool listed;
    uint32_t *count;   /* [levels][stride] */
    uint16_t *touched; /* where listed: the cells that have a pair, [levels * stride + 1] */
    size_t n;
    uint32_t entries[OBJ_ENTRIES]; /* while they are taken: how many cells of the matrix have each
                                      value */
    obj_box box;
} obj_pairs;

tc_status obj_pairs_init(const obj_params *p, obj_pairs *pairs, tc_err *err);
void obj_pairs_free(obj_pairs *pairs);
/* Before those of an object of so many pixels. */
void obj_pairs_begin(const obj_item *o, obj_pairs *pairs, uint64_t pixels);
/* From an object's least and greatest value to what is spread over the levels. */
void obj_range_of(const obj_item *o, uint32_t *lo, uint32_t *hi);
/* Those of the picture. */
obj_levels obj_levels_of(const obj_item *o);
/* Sets the grey levels of the runs' pixels. lo, hi: the object's. */
void obj_quantise(const obj_item *o, const obj_run *runs, size_t n, uint32_t lo, uint32_t hi,
                  const obj_levels *levels);
/* Adds the pairs in one direction whose first pixel is in `few` of the n runs of an object, from
 * `first` on. */
void obj_pairs_add(const obj_levels *levels, const obj_run *runs, size_t n, size_t first,
                   size_t few, obj_step step, obj_pairs *pairs);
/* Puts an object of so many pixels into pairs->box. false: it is too large, or too thin, or there
 * are 256 levels. */
bool obj_box_fill(const obj_item *o, const obj_run *runs, size_t n, uint64_t area, uint32_t lo,
                  uint32_t hi, obj_pairs *pairs);
/* Adds all pairs in one direction of the object in it. */
void obj_pairs_add_box(const obj_run *runs, size_t n, uint64_t area, obj_step step,
                       obj_pairs *pairs);
/* Adds other's, which is empty then; neither is listed. */
void obj_pairs_merge(obj_pairs *pairs, obj_pairs *other);
/* Takes the sums of all pairs, which are none then. */
void obj_pairs_take(const obj_item *o, obj_pairs *pairs, cooc_sums *sums);

/* Features of a distance, over its directions. */
typedef struct obj_texture {
    double sum[COOC_FEATURES]; /* of those that are wanted */
    unsigned directions;       /* that had a pair */
} obj_texture;

void obj_texture_add(const obj_item *o, obj_texture *t, const cooc_sums *sums);
/* The columns of the distance: averages, NaN where there is no pair. */
void obj_put_texture(const obj_item *o, const obj_texture *t, size_t distance, obj_row *row);

/* --- index.c: which objects there are -------------------------------------------------------- */

typedef struct obj_index {
    const obj_item *o;
    uint32_t n;       /* objects */
    uint32_t *label;  /* [n], rising */
    uint32_t *area;   /* [n] */
    uint32_t *start;  /* [n + 1]: of their runs */
    obj_run *runs;    /* [start[n]]; an object's in the order of the raster */
    uint32_t largest; /* area of an object */
    /* while it is made */
    int pass;
    uint64_t rows_done;
    uint32_t labels_done, n_placed, runs_placed;
    uint32_t rows;     /* of a part */
    obj_run *found;    /* [parts][rows][nx]: runs of a part */
    uint32_t *n_found; /* [parts] */
    obj_run *kept;     /* [most_kept]: all that there are, unless there are more */
    size_t all, most_kept, placed;
    uint32_t *next;   /* [largest label + 1]: runs, then where the next one goes */
    uint32_t *pixels; /* [largest label + 1] */
    uint32_t *ends;   /* [threads][2]: of the grey values */
} obj_index;

struct an_pool;
/* Looks at some rows; TC_MORE: call again. */
tc_status obj_index_step(obj_index *ix, obj_item *o, struct an_pool *pool, unsigned threads,
                         tc_err *err);
/* Takes n objects, instead: obj_host_give_index. */
tc_status obj_index_give(obj_index *ix, obj_item *o, size_t n, const uint32_t *label,
                         const uint32_t *area, const uint32_t *start, const obj_run *runs,
                         tc_err *err);
void obj_index_free(obj_index *ix);
/* Of each thread, while it is made: bytes. */
uint64_t obj_index_thread_bytes(void);

/* --- the rest -------------------------------------------------------------------------------- */

tc_status obj_check_state(const an_work *work, const void *state, tc_err *err);
tc_status obj_expect(const void *params, const wu_item *item, wu_output *out, tc_err *err);
tc_status obj_finish(const an_work *work, size_t item_index, const void *state, wu_output *out,
                     tc_err *err);
bool obj_note_result(const void *params, const wu_item *item, const wu_output *out, char *text,
                     size_t size);
tc_status obj_check_result(const void *params, const wu_item *item, const wu_output *out,
                           tc_err *err);
double obj_pixels_share(const an_work *work);
tc_status obj_check_pixels(const an_work *work, const wu_output *out, uint64_t *random,
                           tc_err *err);
extern const an_backend obj_cpu;

/* --- for a device's backend ------------------------------------------------------------------- */

/* It computes the texture of small objects, and leaves all else to a worker of obj_cpu. */

/* For a new worker: its objects are these n, whose labels rise, instead of those in the labels.
 * start: [n + 1]; runs as in obj_index. */
tc_status obj_host_give_index(void *worker, size_t n, const uint32_t *label, const uint32_t *area,
                              const uint32_t *start, const obj_run *runs, tc_err *err);
/* How many objects from the next one on have fewer pixels than `large`, and together no more than
 * `pixels`, but at least one; at most `most`. 0: a step of the worker's is next. */
uint64_t obj_host_small(const void *worker, uint32_t large, uint64_t most, uint64_t pixels);
/* NULL: the objects are not found yet. *next: the next object. */
const obj_index *obj_host_index(const void *worker, uint64_t *next);
/* Measures n objects, all but their texture. */
void obj_host_measure(void *worker, void *state, uint64_t n);
/* They are done: where the work is now, as a step answers. */
tc_status obj_host_done(void *worker, uint64_t n, uint64_t *chunks_done);

#endif
