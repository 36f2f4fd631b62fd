/*
 * objects: measures shape, intensity and texture of each object of a label picture or stack; an
 * object is all pixels with the same label. docs/dev/analyses/objects.md has the definitions.
 *
 * Objects are measured one by one, from their runs (a run is a series of adjacent pixels with the
 * same label in a row), so that the time depends on the number of pixels, and hardly on the number
 * of objects. All sums over pixels are integers. The state consists of an an_state_head and, for
 * each object in the order of the labels, an obj_row: a row of 8-byte words. obj_finish copies the
 * words to the columns of the result's table.
 */
#ifndef AN_OBJECTS_H
#define AN_OBJECTS_H

#include <assert.h>

#include "app/analysis/analysis.h"
#include "app/analysis/common/cooc.h"

/* Families of columns, as bits. */
enum { OBJ_SHAPE = 1, OBJ_INTENSITY = 2, OBJ_TEXTURE = 4 };
/* Which range of grey values is mapped to the grey levels of the texture. */
typedef enum obj_range {
    OBJ_RANGE_FIXED,  /* obj_params.range_ends */
    OBJ_RANGE_OBJECT, /* from the least to the greatest value of the object's pixels */
    OBJ_RANGE_IMAGE,  /* from the least to the greatest value of all pixels of the item */
    OBJ_RANGE_TYPE    /* all values that a pixel of 8 or 16 bits can have */
} obj_range;
enum {
    OBJ_MAX_DISTANCE = 255, /* greatest distance between the pixels of a pair, in pixels */
    OBJ_MAX_DISTANCES = 16  /* greatest number of distances in a job */
};
/* Which percentiles of the grey values are computed, in percent. */
enum { OBJ_PERCENTILES = 6 };
extern const unsigned obj_percentiles[OBJ_PERCENTILES];

typedef struct obj_params {
    an_params_head head;
    uint32_t families; /* OBJ_SHAPE | ... */
    int32_t levels;    /* number of grey levels of the texture */
    obj_range range;
    int32_t range_ends[2]; /* lo, hi of OBJ_RANGE_FIXED */
    size_t n_distances;
    int32_t distances[OBJ_MAX_DISTANCES];
    bool merge; /* the matrices of all directions are added; otherwise features are averaged over
                   directions */
    uint32_t features;   /* bit i: feature i of cooc.h is wanted */
    int32_t feature_set; /* 1: haralick; 2: ibsi; 0: a list of features */
    bool exclude_border; /* objects that touch the border are left out of the result */
    /* Set by obj_derive_params: */
    unsigned n_features;                          /* number of features that are wanted */
    const char *feature_names[COOC_FEATURES + 1]; /* names of the features, ended by NULL */
    unsigned distance_numbers[OBJ_MAX_DISTANCES]; /* the distances as wu_axis.numbers needs them */
} obj_params;

extern const an_param obj_parameters[];
tc_status obj_derive_params(void *params, const char *where, tc_err *err);

/* --- the state ------------------------------------------------------------------------------- */

/* An object's row in the state. */
typedef struct obj_row {
    uint64_t label;   /* 0: the object is not measured yet */
    uint16_t lo, hi;  /* the object's least and greatest grey value */
    uint32_t border;  /* 1: the object touches the border of the picture or stack; else 0 */
    uint64_t words[]; /* [obj_words]: doubles and int64s for the table's columns, texture last */
} obj_row;

/* The number of words in a row. */
size_t obj_words(const obj_params *p, const wu_item *item);
/* The index, in obj_row.words, of the first word of the texture. */
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

/* Whether a measured object will be in the table. If not, its texture is not computed. */
static inline bool obj_is_kept(const obj_params *p, const obj_row *row)
{
    return row->border == 0 || !p->exclude_border;
}

/* The number of chunks (units of work after which a checkpoint is possible) of an object. The first
 * chunk of an object measures shape and intensity. With texture there is another chunk for each
 * distance, which computes the texture for this distance. Besides, the item's first chunk finds all
 * objects; a worker that continues from a checkpoint finds them again. */
static inline size_t obj_chunks(const obj_params *p)
{
    return 1 + (p->families & OBJ_TEXTURE ? p->n_distances : 0);
}

/* Writes a double to a word, and returns the address of the next word. */
static inline uint64_t *obj_put_real(uint64_t *word, double value)
{
    *(double *)(void *)word = value;
    return word + 1;
}

/* Writes an integer to a word, and returns the address of the next word. */
static inline uint64_t *obj_put_int(uint64_t *word, int64_t value)
{
    *(int64_t *)(void *)word = value;
    return word + 1;
}

/* --- the item -------------------------------------------------------------------------------- */

/* A run: adjacent pixels of one object in row y of slice z, from x0 to x1, both included. z is in
 * the highest bits, so runs that are sorted as numbers are in raster order. */
typedef uint64_t obj_run;
#define OBJ_RUN(z, y, x0, x1) \
    ((uint64_t)(z) << 48 | (uint64_t)(y) << 32 | (uint64_t)(x0) << 16 | (x1))
#define OBJ_RUN_Z(r) ((uint32_t)((r) >> 48))
#define OBJ_RUN_Y(r) ((uint32_t)((r) >> 32) & 0xffff)
#define OBJ_RUN_X0(r) ((uint32_t)((r) >> 16) & 0xffff)
#define OBJ_RUN_X1(r) ((uint32_t)(r) & 0xffff)
#define OBJ_RUN_LENGTH(r) ((size_t)OBJ_RUN_X1(r) - OBJ_RUN_X0(r) + 1)

/* Tables of what a window of 2 x 2 x 2 voxels contributes to the surface and to the enclosed volume
 * of an object, by marching cubes. In the index, bit x + 2y + 4z is set if this voxel of the window
 * is in the object. Volumes are multiples of 1/48 voxel. A voxel lies in 8 windows, so it has 6/48
 * in each: the volume of an object is its number of voxels plus the differences in `volume`. */
typedef struct obj_mesh {
    double area[256];   /* surface, in square micrometres */
    int8_t volume[256]; /* in 48ths of a voxel: the enclosed volume, minus 6 for each voxel that is
                           in the object */
} obj_mesh;

/* An item, and what its objects share. */
typedef struct obj_item { /* `o` in all files of objects */
    const obj_params *params;
    const wu_item *item;
    const wu_pixels *pixels;
    int dims;           /* 3 for stacks, also of one slice; 2 for pictures */
    uint8_t *quantised; /* [nz][ny][nx]: grey levels of pixels of objects that are too large or too
                           sparse for an obj_box; NULL without texture */
    size_t row_bytes, texture_at; /* obj_row_bytes, obj_texture_at */
    uint32_t lo, hi; /* least and greatest grey value of all pixels, for OBJ_RANGE_IMAGE; set when
                        the objects are found */
    tc_logs logs;    /* a table of logarithms of counts; made when the objects are found */
    obj_mesh mesh;   /* for stacks */
} obj_item;

/* The labels of row y of slice z; NULL if this row is outside the picture or stack. */
static inline const uint32_t *obj_labels(const wu_pixels *px, int64_t z, int64_t y)
{
    if (z < 0 || y < 0 || z >= px->nz || y >= px->ny)
        return NULL;
    return px->labels + ((size_t)z * px->ny + (size_t)y) * px->nx;
}

/* --- shape.c --------------------------------------------------------------------------------- */

/* Integer sums over the pixels of an object. The sums of parts of an object can be merged. */
typedef struct obj_sums {
    uint64_t area;              /* pixels */
    uint64_t sum[3], square[3]; /* sums of the pixels' z, y and x; sums of the squares of these */
    uint64_t product[3];        /* sums of the products zy, zx and yx */
    uint32_t lo[3], hi[3];      /* bounding box: z, y, x; hi is exclusive */
    uint64_t windows[256]; /* numbers of windows of 2 x 2 pixels, in a stack 2 x 2 x 2. The index
                              says which of the window's pixels are in the object, by bits as in
                              obj_mesh. Windows that lie completely in the object are not counted */
    uint64_t steps[3]; /* pictures: numbers of border pixels that add 1, sqrt(2) and (1 + sqrt(2)) /
                          2 to the perimeter */
} obj_sums;

void obj_sums_clear(obj_sums *s);
void obj_sums_merge(obj_sums *s, const obj_sums *other);
/* The number of bytes of scratch memory (`rows`) for obj_sums_add. */
size_t obj_rows_bytes(const wu_item *item);
/* Adds n runs of an object; adds to windows and steps only if OBJ_SHAPE is wanted. */
void obj_sums_add(const obj_item *o, const obj_run *runs, size_t n, uint8_t *rows, obj_sums *s);

/* A point, in half pixels. */
typedef struct obj_point {
    int32_t y, x;
} obj_point;

/* Computes the convex hull and the number of pieces of an object in a picture, from its runs in
 * raster order. */
typedef struct obj_outline {
    obj_point *left, *right; /* [room]: corners of the hull's left and right side, by ascending y */
    size_t room, n_left, n_right; /* number of elements allocated, and used on each side */
    obj_point *outer;             /* [2 room]: scratch memory for a second hull */
    uint64_t pieces; /* connected components; pixels that touch at corners are connected */
    /* Index 0: the last complete row that has runs; 1: the current row. */
    obj_run *row[2];    /* [nx / 2 + 1]: the runs */
    uint32_t *piece[2]; /* [nx / 2 + 1]: the number of each run's piece */
    size_t n_row[2];    /* number of runs */
    uint32_t *parent;   /* [nx + 2]: union-find of pieces and runs */
} obj_outline;

tc_status obj_outline_init(const wu_item *item, obj_outline *h, tc_err *err);
void obj_outline_free(obj_outline *h);
void obj_outline_clear(obj_outline *h);
/* Adds n runs, in raster order. */
void obj_outline_add(obj_outline *h, const obj_run *runs, size_t n);

/* Sets the mesh for voxels of this spacing: z, y, x, in micrometres. */
void obj_mesh_init(const double spacing[3], obj_mesh *mesh);
/* Whether the object touches the border of the picture or stack. */
bool obj_at_border(const obj_item *o, const obj_sums *s);
/* Writes the words of the columns of the family shape; returns the address after them. h: for a
 * picture, an outline to which all runs of the object have been added; its content is undefined
 * afterwards. */
uint64_t *obj_put_shape(const obj_item *o, const obj_sums *s, obj_outline *h, uint64_t *word);

/* --- intensity.c ----------------------------------------------------------------------------- */

/* The histogram and sums of an object's grey values. */
typedef struct obj_grey_sums {
    uint64_t weighted[3]; /* sums of value times z, times y, times x */
    uint32_t *fine;       /* [65536]: pixels of each value */
    uint32_t *coarse;     /* [256]: pixels by the upper byte of the value; each element is the sum
                             of 256 elements of `fine` */
} obj_grey_sums;

tc_status obj_grey_init(obj_grey_sums *g, tc_err *err);
void obj_grey_free(obj_grey_sums *g);
/* Adds the pixels of n runs. Without OBJ_INTENSITY only obj_grey_range is needed, so of each run
 * only one pixel with the least and one with the greatest value are counted. */
void obj_grey_add(const obj_item *o, const obj_run *runs, size_t n, obj_grey_sums *g);
/* Adds `other` to g, and clears `other`. */
void obj_grey_merge(obj_grey_sums *g, obj_grey_sums *other);
/* Sets *lo and *hi to the least and the greatest value of a histogram that is not empty. */
void obj_grey_range(const obj_grey_sums *g, uint16_t *lo, uint16_t *hi);
/* Writes the words of the columns of the family intensity; returns the address after them. area:
 * the number of pixels of the object. */
uint64_t *obj_put_intensity(const obj_item *o, const obj_grey_sums *g, uint64_t area,
                            uint64_t *word);
/* Clears the histogram and the sums; this is faster the fewer values occur. */
void obj_grey_clear(obj_grey_sums *g);

/* --- texture.c ------------------------------------------------------------------------------- */

enum { OBJ_DIRECTIONS_2D = 4, OBJ_DIRECTIONS_3D = 13 };
/* The displacement from the first to the second pixel of a pair, in pixels. (obj_box uses the type
 * also for a size.) */
typedef struct obj_step {
    int dx, dy, dz;
} obj_step;
static inline size_t obj_n_directions(const obj_item *o)
{
    return o->dims == 3 ? OBJ_DIRECTIONS_3D : OBJ_DIRECTIONS_2D;
}

/* The number of bits that are needed to store a level. */
static inline int obj_level_bits(const obj_params *p)
{
    assert(p->levels >= 2);
    return 32 - __builtin_clz((unsigned)p->levels - 1);
}

/* On a device a co-occurrence matrix of up to this many bytes is in local memory, a larger one in
 * global memory. */
enum { OBJ_LOCAL_BYTES = 16384 };
/* Returns the number of bytes of an object's co-occurrence matrix on a device. */
static inline uint64_t obj_matrix_bytes(const obj_params *p)
{
    /* The number of levels is rounded up to a power of two; an entry has 4 bytes. */
    return (uint64_t)4 << 2 * obj_level_bits(p);
}

/* The number of bytes that are allocated after an array of levels, as code may read or write beyond
 * its end; their values are ignored. */
enum { OBJ_PADDING = 32 };
/* An array of grey levels, from 0 on, of the pixels of a picture or of a box. */
typedef struct obj_levels {
    uint8_t *level;
    ptrdiff_t origin;     /* z * slice + y * row + x of the pixel whose level is level[0] */
    ptrdiff_t row, slice; /* elements from a row, and from a slice, to the next one */
} obj_levels;

/* The level of the run's first pixel. */
static inline uint8_t *obj_level_at(const obj_levels *l, obj_run r)
{
    return l->level + ((ptrdiff_t)OBJ_RUN_Z(r) * l->slice + (ptrdiff_t)OBJ_RUN_Y(r) * l->row +
                       (ptrdiff_t)OBJ_RUN_X0(r) - l->origin);
}

/* The distance, in elements of the array, from the first to the second pixel of a pair. */
static inline ptrdiff_t obj_step_offset(const obj_levels *l, obj_step s)
{
    return s.dz * l->slice + s.dy * l->row + s.dx;
}

enum {
    OBJ_BOX_BYTES = 1 << 18, /* greatest number of bytes of the array of an obj_box */
    OBJ_BOX_SHARE = 16       /* greatest number of elements of the array per pixel of the object */
};
/* A copy of the levels of one object in an array that is larger than the object's bounding box. All
 * elements that are not pixels of the object have the level obj_params.levels, which means outside.
 * So the second pixel of a pair can be read without a check of bounds. */
typedef struct obj_box {
    obj_levels levels;
    obj_run from;     /* the first row of the object's bounding box */
    obj_step size;    /* size of the bounding box */
    uint8_t *bytes;   /* [OBJ_BOX_BYTES + OBJ_PADDING]: the array */
    uint8_t *ends[2]; /* [OBJ_BOX_BYTES + OBJ_PADDING]: the levels of the first (ends[0]) and second
                         (ends[1]) pixels of all pairs of a direction. The first pixels are all
                         pixels of the object, in the order of the runs */
} obj_box;

/* Features need the sum of k log k over the entries k of the matrix. For each k below OBJ_ENTRIES
 * the entries equal to k are first counted, in obj_pairs.entries, so that one logarithm is needed
 * for each k instead of each entry. */
enum { OBJ_ENTRIES = 4096 };
/* A co-occurrence matrix: each cell has the number of pairs of two levels. The row is the lower
 * level of the pair, the column the higher one. If the matrix has many cells compared with the
 * object's pixels, the cells that have a pair are listed, so that the others need not be
 * visited. */
typedef struct obj_pairs {
    uint32_t levels; /* number of levels, and of rows */
    uint32_t stride; /* number of columns. With 256 levels it is `levels`. Otherwise it is greater:
                        column `levels` is for pairs whose second pixel is outside (obj_box) */
    bool listed;     /* `touched` is used */
    uint32_t *count; /* [levels][stride] */
    uint16_t *touched; /* [levels * stride + 1]: if listed, the cells that have a pair */
    size_t n;          /* cells in `touched` */
    uint32_t entries[OBJ_ENTRIES]; /* scratch memory of obj_pairs_to_sums: element k is the number
                                      of entries of the symmetric matrix that are equal to k */
    obj_box box;
} obj_pairs;

tc_status obj_pairs_init(const obj_params *p, obj_pairs *pairs, tc_err *err);
void obj_pairs_free(obj_pairs *pairs);
/* Sets pairs->listed for an object of `pixels` pixels. Must be called before the first pairs of the
 * object are added; to call it again for the same object changes nothing. */
void obj_pairs_begin(const obj_item *o, obj_pairs *pairs, uint64_t pixels);
/* Sets *lo and *hi to the grey values that are mapped to the lowest and to the highest level. On
 * entry they must be the object's least and greatest grey value. */
void obj_level_range(const obj_item *o, uint32_t *lo, uint32_t *hi);
/* The array o->quantised. */
obj_levels obj_levels_of(const obj_item *o);
/* Sets the grey levels of the pixels of n runs. lo, hi: the object's least and greatest grey value.
 */
void obj_quantise(const obj_item *o, const obj_run *runs, size_t n, uint32_t lo, uint32_t hi,
                  const obj_levels *levels);
/* Adds those pairs of an object's pixels that are `step` apart and whose first pixel is in one of
 * the runs first to first + count - 1. runs: all n runs of the object. */
void obj_pairs_add(const obj_levels *levels, const obj_run *runs, size_t n, size_t first,
                   size_t count, obj_step step, obj_pairs *pairs);
/* Copies the levels of an object of `area` pixels, given by its n runs, to pairs->box. Returns
 * false if the object is too large, if it fills too little of the box, or if there are 256 levels.
 */
bool obj_box_fill(const obj_item *o, const obj_run *runs, size_t n, uint64_t area, uint32_t lo,
                  uint32_t hi, obj_pairs *pairs);
/* Adds all pairs of pixels that are `step` apart, of the object in pairs->box. runs, n, area: as
 * passed to obj_box_fill. */
void obj_pairs_add_box(const obj_run *runs, size_t n, uint64_t area, obj_step step,
                       obj_pairs *pairs);
/* Adds the counts of `other` to `pairs`, and clears those of `other`. Neither may be listed. */
void obj_pairs_merge(obj_pairs *pairs, obj_pairs *other);
/* Computes the sums of the matrix for cooc_features, and clears the matrix. */
void obj_pairs_to_sums(const obj_item *o, obj_pairs *pairs, cooc_sums *sums);

/* The texture features of an object for one distance, summed over directions. */
typedef struct obj_texture {
    double sum[COOC_FEATURES]; /* sum of each wanted feature */
    unsigned directions;       /* number of directions that have a pair */
} obj_texture;

/* Adds the features of a matrix, unless it has no pair. */
void obj_texture_add(const obj_item *o, obj_texture *t, const cooc_sums *sums);
/* Writes the texture's words for a distance to the row: averages over directions, NaN if there is
 * no pair. distance: the index in obj_params.distances. */
void obj_put_texture(const obj_item *o, const obj_texture *t, size_t distance, obj_row *row);

/* --- index.c --------------------------------------------------------------------------------- */

/* The objects of an item and their runs. */
typedef struct obj_index {
    const obj_item *o;
    const uint8_t *chosen; /* [largest label + 1]: 1 for the labels whose objects are in the index;
                              NULL: all are */
    uint32_t n;            /* number of objects */
    uint32_t *label;       /* [n], ascending */
    uint32_t *area;        /* [n]: pixels */
    uint32_t *start;       /* [n + 1]: index in `runs` of the first run of each object */
    obj_run *runs;         /* [start[n]]: sorted by object, then in raster order */
    uint32_t largest;      /* the largest area of an object */
    /* While the index is made: */
    int pass;             /* 0: runs are counted; 1: they are put into `runs` */
    uint64_t rows_done;   /* number of rows that are done in this pass */
    uint32_t labels_done; /* between the passes: the elements of label, area and start have been
                             set for the objects with labels up to this one */
    uint32_t objects_placed, runs_placed; /* numbers of objects with these labels, and of runs */
    uint32_t rows;                        /* number of rows of a part, which a thread searches at a
                                             time */
    obj_run *part_runs;                   /* [parts][rows][nx]: the runs of each part */
    uint32_t *n_part_runs;                /* [parts]: the number of runs of each part */
    obj_run *stored_runs;      /* [max_stored]: all runs, unless there are more than max_stored */
    size_t n_runs, max_stored; /* number of runs counted so far; elements of stored_runs */
    size_t stored_placed;      /* how many of stored_runs have been copied to `runs` */
    uint32_t *next;   /* [largest label + 1]: number of runs of the label; in pass 1 the index in
                         `runs` at which its next run is put */
    uint32_t *pixels; /* [largest label + 1]: number of pixels of the label */
    uint32_t *ends;   /* [threads][2]: least and greatest grey value that each thread found */
} obj_index;

struct an_pool;
/* Does a step of making the index. Returns TC_MORE if it must be called again; TC_OK if the index
 * is complete, and o->lo and o->hi are set. Before the first call *ix must be zeroed, except for
 * ix->chosen. */
tc_status obj_index_step(obj_index *ix, obj_item *o, struct an_pool *pool, unsigned threads,
                         tc_err *err);
void obj_index_free(obj_index *ix);
/* The bytes of memory for each thread while the index is made. */
uint64_t obj_index_thread_bytes(void);

/* --- the rest -------------------------------------------------------------------------------- */

/* output.c */
tc_status obj_check_state(const an_work *work, const void *state, tc_err *err);
/* Implements an_analysis.declare_arrays: declares the arrays that an item's result has. */
tc_status obj_declare_arrays(const void *params, const wu_item *item, wu_output *out, tc_err *err);
tc_status obj_finish(const an_work *work, size_t item_index, const void *state, wu_output *out,
                     tc_err *err);
/* Implements an_analysis.note_result: if a result looks wrong, writes advice to text, which has
 * `size` bytes, and returns true. */
bool obj_note_result(const void *params, const wu_item *item, const wu_output *out, char *text,
                     size_t size);
/* plan.c: the operations for an object of this number of pixels. */
double obj_object_flops(const obj_params *p, const wu_item *item, double pixels);
/* check.c */
tc_status obj_check_result(const void *params, const wu_item *item, const wu_output *out,
                           tc_err *err);
/* pixels.c */
/* Implements an_analysis.pixels_share: the cost of obj_check_pixels as a share of the cost of the
 * item. */
double obj_pixels_share(const an_work *work);
tc_status obj_check_pixels(const an_work *work, const wu_output *out, uint64_t *random,
                           tc_err *err);
extern const an_backend obj_cpu;
/* Lets a new worker of obj_cpu measure only the objects whose label is chosen; their number must be
 * at most item->n_objects. chosen: [largest label + 1], 0 or 1; used until the worker is closed. */
void obj_host_choose(void *worker, const uint8_t *chosen);

/* --- for the OpenCL backend ------------------------------------------------------------------- */

/* The OpenCL backend computes the texture of small objects; a worker of obj_cpu does all else. */

/* Returns how many of the next objects can be processed at once: successive objects of fewer than
 * `large` pixels each, at most `most` objects, with at most `pixels` pixels in total; but at least
 * one object, even if it has more than `pixels` pixels. Returns 0 if the next object has at least
 * `large` pixels or has been begun, or if the objects have not been found yet; then the worker must
 * do a step. */
uint64_t obj_host_count_small(const void *worker, uint32_t large, uint64_t most, uint64_t pixels);
/* Returns the worker's index, or NULL if the objects are not found yet. Sets *next to the index of
 * the next object to measure. */
const obj_index *obj_host_index(const void *worker, uint64_t *next);
/* Measures the next n objects, except for their texture. */
void obj_host_measure(void *worker, void *state, uint64_t n);
/* Records that the next n objects are done. Returns the same as an_backend.step. */
tc_status obj_host_advance(void *worker, uint64_t n, uint64_t *chunks_done);

#endif
