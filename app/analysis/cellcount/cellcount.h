/*
 * cellcount: counts the connected components of a thresholded picture, fills
 * their holes, separates touching cells, and measures them.
 *
 * The state (cc_state) is the head, the number of regions, the threshold, a plane of int32
 * [ny][nx], and a table of the regions. When all is done, the plane holds the label of every pixel,
 * 0 for background. Only an item with a split (the separation of touching cells) can be resumed,
 * from the beginning of phase CC_RESUME. The plane then holds what the split needs: squared
 * distances to the background, or heights computed from grey values (CC_HEIGHTS). Any other
 * interrupted item begins anew; that takes seconds for the largest picture.
 */
#ifndef AN_CELLCOUNT_H
#define AN_CELLCOUNT_H

#include "app/analysis/analysis.h"
#include "app/analysis/cellcount/layout.h"
#include "app/analysis/common/gauss.h"
#include "app/analysis/common/label.h"
#include "app/analysis/common/otsu.h"
#include "app/base/pool.h"

/* cc_params.threshold_word: the rule that finds the threshold; 0: it is given as a number. */
enum { CC_OTSU = 1, CC_LOCAL };
/* cc_params.ground: how the background is estimated at each pixel. */
enum {
    CC_MEAN = 0, /* mean of a square around the pixel */
    CC_OPENING,  /* opening with a disc; for dark cells a closing */
    CC_LINES     /* lines fitted to a square around the pixel, along columns and then along rows */
};
/* cc_params.split: the criterion by which touching cells are separated; 0: they are not separated.
 */
enum { CC_DISTANCE = 1, CC_INTENSITY };
/* cc_params.polarity: whether cells are darker or brighter than the background; CC_AUTO: decided
 * for each picture. */
enum { CC_DARK = 0, CC_BRIGHT, CC_AUTO };
/* The least sigma, in pixels, of the Gaussian filter before the threshold. */
#define CC_LEAST_SIGMA 0.3

typedef struct cc_params {
    an_params_head head;
    int32_t threshold;      /* 0 to 65535, if threshold_word is 0 */
    int32_t threshold_word; /* 0, CC_OTSU or CC_LOCAL */
    int32_t classes;        /* CC_OTSU: classes of grey values, 2 to AN_OTSU_CLASSES */
    int32_t scale;          /* CC_OTSU: how grey values are scaled first (an_otsu_scale) */
    int32_t window;         /* CC_LOCAL: side of the square of the local mean, in pixels; odd */
    int32_t offset;         /* CC_LOCAL: difference, in grey values, between the local mean and the
                               threshold */
    int32_t window_auto;    /* 1: cc_resolve_params finds the window in the item's pixels */
    int32_t offset_percent; /* CC_LOCAL: offset as a percentage of the picture's contrast; 0: the
                               offset is `offset` */
    double smooth;          /* sigma of the Gaussian filter in pixels; 0: no filter */
    bool background;  /* the background is removed before the threshold, as the next three say */
    int32_t ground;   /* how the background is estimated: CC_MEAN, CC_OPENING or CC_LINES */
    bool ratio;       /* grey values are divided by the background; else it is subtracted */
    int32_t radius;   /* radius of the background's disc in pixels; or r, if the background's square
                         has sides of 2 r + 1 pixels */
    int32_t polarity; /* CC_DARK, CC_BRIGHT or CC_AUTO */
    bool bright;      /* pixels of cells have values >= threshold; else < threshold. With CC_AUTO
                         cc_resolve_params sets it */
    bool eight_connected; /* connectivity 8; else 4 */
    bool fill_holes;
    bool exclude_border;
    double min_fill;   /* least share of its box that a region must fill; 0: any share */
    double max_aspect; /* greatest ratio of the sides of a region's box; 0: any ratio */
    bool min_contrast; /* regions of low contrast that are smaller than full_area are removed */
    int64_t full_area; /* min_contrast: pixels */
    int32_t full_area_auto; /* 1: full_area is a third of the area of the picture's cells */
    int32_t percent;        /* min_contrast: least contrast of such a region, as a percentage of the
                               mean contrast of the regions of at least full_area */
    int32_t split;          /* 0, CC_DISTANCE or CC_INTENSITY */
    int32_t h;              /* CC_INTENSITY: least difference, in grey values, between a cell's
                               maximum and the saddle to a higher maximum */
    bool labels;            /* the result contains the label image */
    int64_t min_area, max_area; /* pixels; regions of other areas are removed */
    int32_t min_area_auto;      /* 1: min_area follows from the areas of the picture's regions */
} cc_params;

/* The phases of an item, in order. A phase that the parameters do not need has no parts. The
 * picture is processed in bands of rows. "up" (cc_worker.up) is a plane [ny][nx] of pixel indices:
 * up[i] is the pixel to which pixel i leads. A split by watershed first sets it to a higher
 * neighbour of i, then to the regional maximum (a highest pixel or plateau), then to the first
 * pixel of i's part. A part is what a split makes of a component: one cell. */
typedef enum cc_phase {
    CC_SMOOTH,     /* Gaussian filter */
    CC_EXTREME,    /* opening: minimum (dark cells: maximum) within the disc around each pixel */
    CC_GROUND,     /* removes the background */
    CC_LOCAL_MEAN, /* local threshold: subtracts the mean of the window around each pixel */
    CC_HISTOGRAM,  /* makes the histogram of the prepared grey values, if the threshold is found in
                      it */
    CC_MASK,       /* threshold: a bit for each pixel, 1 for cells */
    CC_HOLES,      /* fill_holes: components of the background within each band */
    CC_HOLE_SEAMS, /* fill_holes: joins these components across the borders of bands */
    CC_FILL,       /* fill_holes: background that is not connected with the border becomes cell */
    CC_BANDS,      /* no split: components of the cells within each band */
    CC_SEAMS,      /* no split: joins these components across the borders of bands */
    CC_BYTES,      /* split by distance: the mask as bytes, for the distance transform */
    CC_DISTANCE_X, /* split by distance: the pass along rows */
    CC_DISTANCE_Y, /* split by distance: the pass along columns */
    CC_HEIGHTS,    /* split by intensity: heights from grey values; 0 on the background */
    CC_ASCEND,     /* split: up[i] becomes the highest neighbour of i */
    CC_EDGES,     /* split by intensity: on a plateau (adjacent pixels of equal height), up leads to
                     the nearest pixel that has a higher neighbour */
    CC_FLAT,      /* split by intensity: plateaus without a higher neighbour are maxima; each of
                     their pixels becomes a node of a union-find */
    CC_FLAT_JOIN, /* split by intensity: joins the nodes of each such plateau */
    CC_MAXIMA,    /* split: up[i] becomes the regional maximum that i leads to */
    CC_SADDLES,   /* split: finds the highest saddle between any two adjacent maxima; then joins two
                     maxima unless ws_map.is_separate */
    CC_CLEAR,     /* split: fills the plane for CC_FIRST */
    CC_FIRST,     /* split: plane[maximum] becomes the first pixel of the maximum's part */
    CC_ROOTS,     /* split: up[i] becomes the first pixel of i's part */
    CC_PARTS,     /* after a split, or after a device has labelled strips of rows: gives the parts,
                     or the strips' components, ids */
    CC_IDS,       /* after CC_PARTS: up[i] becomes the id of i's part */
    CC_STRIPS,    /* joins the components of adjacent strips, which a device labelled separately */
    CC_COUNT,     /* counts the components of each band */
    CC_NUMBER,    /* numbers the components in the order of the raster */
    CC_AREAS,     /* filters: computes the areas of regions; then decides which regions pass */
    CC_RENUMBER,  /* filters: numbers the regions that pass */
    CC_PAINT,     /* writes the labels into the plane */
    CC_MEASURE,   /* fills the table of regions, if they fit; else cc_finish measures them */
    CC_PHASES
} cc_phase;

/* The phase that a saved state of a split continues with. An item that is interrupted earlier, or
 * after CC_CLEAR has overwritten the plane, begins anew. */
#define CC_RESUME CC_ASCEND

/* Measurements of a region; sums over its pixels are exact. */
typedef struct cc_region {
    uint64_t sum_y, sum_x, sum_grey;
    uint32_t area;           /* pixels */
    uint16_t y0, x0, y1, x1; /* box, half-open; the picture's sides are at most 65535 */
    uint32_t zero;           /* explicit padding, so that a state has no undefined bytes */
} cc_region;

typedef struct cc_state {
    an_state_head head;
    uint32_t regions;   /* number of regions, when all is done */
    uint32_t threshold; /* after CC_HISTOGRAM: the threshold; 0 if no histogram is needed */
    uint32_t window;    /* with window "auto", when all is done: the window's side; else 0 */
    uint32_t min_area;  /* with min_area "auto", when all is done: the least area; else 0 */
    int32_t plane[];    /* [ny][nx] */
} cc_state;

/* After the plane, from byte cc_table_at on, the state contains the table of regions, by label (row
 * 0 is all zeros), or only zeros if there are cc_table_rows regions or more. Pictures of cells have
 * far fewer regions; a table large enough for noise would double the state. */
static inline size_t cc_table_at(uint32_t nx, uint32_t ny)
{
    return (sizeof(cc_state) + (size_t)nx * ny * sizeof(int32_t) + 7) / 8 * 8;
}

static inline size_t cc_table_rows(uint32_t nx, uint32_t ny)
{
    return (size_t)nx * ny / 64 + 1024;
}

/* Returns the number of rows of a band, which has about 2^18 pixels. The number depends on the item
 * alone, never on the number of threads, so that a position in a checkpoint is the same band on
 * every machine. */
static inline uint32_t cc_band_rows(uint32_t nx)
{
    return ((uint32_t)1 << 18) / nx + 1;
}

static inline uint32_t cc_bands(uint32_t nx, uint32_t ny)
{
    return (ny + cc_band_rows(nx) - 1) / cc_band_rows(nx);
}

/* params.c */
extern const an_param cc_parameters[];
tc_status cc_derive_params(void *params, const char *where, tc_err *err);

/* Whether the threshold comes from the histogram of the prepared grey values. */
bool cc_finds_threshold(const cc_params *p);
/* The threshold for grey values of `bits` bits, if it does not come from the histogram. A local
 * threshold applies to grey values from which the local mean has been subtracted; the middle of the
 * range stands for a difference of zero. */
uint32_t cc_threshold(const cc_params *p, unsigned bits);
/* The threshold from the histogram, [2^bits], of the prepared grey values. */
tc_status cc_find_threshold(const cc_params *p, const uint64_t *histogram, unsigned bits,
                            uint32_t *threshold, tc_err *err);
/* threshold.c */
/* Copies work->params and sets `bright`, if the polarity is CC_AUTO, from the item's pixels. */
tc_status cc_resolve_polarity(const an_work *work, cc_params *out, tc_err *err);
/* Does the same as cc_resolve_polarity, and sets `window` from the item's pixels if window_auto is
 * set. */
tc_status cc_resolve_params(const an_work *work, cc_params *out, tc_err *err);
/* Finds a radius, in pixels, for the window of a local threshold. *radius is about the diameter of
 * the cells that a local threshold with this radius finds, and at most the diameter of the cells
 * that Otsu's threshold finds. Sets *smaller to whether it is less than the latter diameter.
 * p->bright must be set. */
tc_status cc_find_radius(const cc_params *p, const wu_pixels *px, unsigned threads,
                         const tc_poll *poll, int64_t *radius, bool *smaller, tc_err *err);
/* The side of the window, in pixels, for a radius that cc_find_radius found. */
int32_t cc_window_of(int64_t radius);
/* Returns the least A of the n areas such that the regions of at most A pixels contain the share
 * numerator / denominator of the pixels of all regions; INT64_MAX if n is 0. Sorts the areas. */
int64_t cc_area_quantile(int64_t *area, size_t n, int64_t numerator, int64_t denominator);
/* The value of min_area "auto". half, tenth: the quantiles (cc_area_quantile) 1/2 and 1/10 of the
 * regions' areas. */
int64_t cc_least_area(int64_t half, int64_t tenth, bool bright);
/* The value of full_area "auto", from the quantile 1/2. */
int64_t cc_full_area(int64_t half);
/* The diameter of a disc of this area. */
double cc_diameter(int64_t area);
/* The middle of the range of grey values of `bits` bits. */
static inline uint32_t cc_middle_grey(unsigned bits)
{
    return (uint32_t)1 << (bits - 1);
}

/* again.c: computes a few random tiles of the picture again, each with at least this margin in
 * pixels, and checks that the result contains the regions found in them. One of the tiles is placed
 * around the box `doubtful`: y0, x0, y1, x1, half-open; all 0: there is none. Returns TC_NO_MATCH,
 * without a message, if the result does not contain these regions, or if the tiles do not suffice
 * to decide. */
tc_status cc_check_again(const an_work *work, const wu_output *out, uint32_t threshold,
                         uint32_t margin, const uint32_t doubtful[4], uint64_t *random,
                         tc_err *err);

/* prepare.c: prepares grey values for the threshold, in the steps CC_SMOOTH to CC_LOCAL_MEAN, each
 * from one plane to another. cc_prepare_all does all of it on the calling thread. To divide the
 * work, call cc_prepare_begin; then for each step that applies (cc_has_step) cc_prepare_step, after
 * which cc_preparing (cpu.h) processes all pieces of all rows; then cc_prepare_end, which also
 * accepts a zeroed cc_prepare. */
typedef struct cc_prepare {
    const cc_params *params;
    const wu_pixels *current; /* the result so far: the item's pixels, or one of the planes; during
                              a step other than CC_EXTREME the plane that it writes */
    wu_pixels planes[3];      /* [0] and [1] are written in turn, [2] by CC_EXTREME */
    const wu_pixels *input;   /* the grey values that the step reads */
    an_gauss gauss;           /* the filter of CC_SMOOTH */
    cc_phase step;            /* the step that is running */
} cc_prepare;
/* Whether any step applies. */
bool cc_has_preparation(const cc_params *p);
/* Whether this step applies. */
bool cc_has_step(const cc_params *p, cc_phase step);
/* Bytes of scratch memory that a thread needs. */
size_t cc_prepare_scratch(const cc_params *p, uint32_t nx);
tc_status cc_prepare_begin(cc_prepare *p, const cc_params *params, const wu_pixels *pixels,
                           tc_err *err);
void cc_prepare_step(cc_prepare *p, cc_phase step);
/* Returns the number of pieces, each of short duration, that a step divides `rows` rows into. */
size_t cc_prepare_pieces(const cc_params *p, cc_phase step, uint32_t nx, uint32_t rows);
/* Describes the disc's row at distance dy from its middle row, for the kernels: the row has 2 w + 1
 * pixels; bits 0 to 15 of the result are w, and bits 16 to 31 the greatest k with 2^k <= 2 w + 1.
 */
uint32_t cc_disc_row(int64_t radius, int64_t dy);
/* Calls cc_prepare_begin and processes all steps on the calling thread; p->current is then the
 * result. The caller calls cc_prepare_end, also after a failure. */
tc_status cc_prepare_all(cc_prepare *p, const cc_params *params, const wu_pixels *pixels,
                         tc_err *err);
void cc_prepare_end(cc_prepare *p);

/* output.c */
tc_status cc_check_state(const an_work *work, const void *state, tc_err *err);
tc_status cc_finish(const an_work *work, size_t item_index, const void *state, wu_output *out,
                    tc_err *err);
/* Implements an_analysis.note_result: if a result looks wrong, writes advice to text, which has
 * `size` bytes, and returns true. */
bool cc_note_result(const void *params, const wu_item *item, const wu_output *out, char *text,
                    size_t size);
/* Implements an_analysis.declare_arrays: declares the arrays that an item's result has. */
tc_status cc_declare_arrays(const void *params, const wu_item *item, wu_output *out, tc_err *err);
/* check.c */
tc_status cc_check_result(const void *params, const wu_item *item, const wu_output *out,
                          tc_err *err);
/* suggest.c */
tc_status cc_suggest(const struct an_pictures *pictures, const json_t *given,
                     struct an_suggestion *out, tc_err *err);
/* pixels.c */
/* Implements an_analysis.pixels_share: the cost of cc_check_pixels as a share of the cost of the
 * item. */
double cc_pixels_share(const an_work *work);
/* Implements an_analysis.check_pixels: checks a result against some of the picture's pixels. */
tc_status cc_check_pixels(const an_work *work, const wu_output *out, uint64_t *random, tc_err *err);

/* measure.c: measures the regions of a label plane. Call cc_measure_begin, cc_measure_band once for
 * each band, cc_measure_end. The caller sets the fields before `tables`. */
typedef struct cc_measure {
    const int32_t *plane;    /* labels, [ny][nx] */
    const wu_pixels *pixels; /* the original grey values */
    const tc_poll *poll;
    uint32_t nx, ny;
    size_t rows;        /* rows of the table: 1 + number of regions */
    cc_region *regions; /* [rows]: the result, by label */
    unsigned tables;    /* number of tables: the number of threads; or 1, and then only one band may
                           be measured at a time */
    cc_region *others;  /* [tables - 1][rows]: tables of the threads after the first, which uses
                           `regions` */
    uint32_t *sums;     /* [tables][nx + 1]: sum of a row's grey values before each pixel */
} cc_measure;
tc_status cc_measure_begin(cc_measure *m, unsigned threads, tc_err *err);
void cc_measure_band(const cc_measure *m, unsigned thread, size_t band);
/* If there is no label plane, these replace cc_measure_band: call cc_measure_row once for each row,
 * and after it cc_measure_run for each run [a, b) of that row's pixels with the same label, 0
 * included. */
typedef struct cc_row {
    uint32_t y;
    const uint32_t *sums; /* [nx + 1] */
    cc_region *table;
} cc_row;
cc_row cc_measure_row(const cc_measure *m, unsigned thread, uint32_t y);
void cc_measure_run(const cc_row *row, uint32_t a, uint32_t b, int32_t label);
/* Adds all tables to m->regions, clears its row 0, and frees the memory that cc_measure_begin
 * allocated. */
tc_status cc_measure_end(cc_measure *m, tc_err *err);
/* Frees the memory that cc_measure_begin allocated, if cc_measure_end is not called. */
void cc_measure_free(cc_measure *m);

/* output.c: sets *regions to the table of regions of a final state, by label: the state's table or,
 * if the regions do not fit in it, a new one. Sets *owned to the new table, which the caller frees,
 * or to NULL. */
tc_status cc_regions(const an_work *work, const cc_state *state, const cc_region **regions,
                     cc_region **owned, tc_err *err);

/* The function ws_map.is_separate of a split by intensity: whether a maximum of height `maximum` is
 * a cell of its own, when a saddle of height `saddle` is between it and a higher maximum. */
bool cc_separate_by_intensity(const void *params, uint32_t maximum, uint32_t saddle);

/* plan.c */
/* Whether the parameters contain a filter, which may remove regions from the result. */
bool cc_has_filters(const cc_params *p);
/* Whether the filters need a region's box or contrast, besides its area and whether it touches the
 * border. */
bool cc_needs_boxes(const cc_params *p);
/* Whether a region passes all filters but min_contrast. height, width: the sides of its box, in
 * pixels; border: whether it touches the picture's border. */
bool cc_passes_without_contrast(const cc_params *p, int64_t area, bool border, int64_t height,
                                int64_t width);
/* Whether a region passes all filters, min_contrast included, no matter what contrast it has;
 * arguments as for cc_passes_without_contrast. */
bool cc_passes_at_any_contrast(const cc_params *p, int64_t area, bool border, int64_t height,
                               int64_t width);

extern const an_backend cc_cpu;

/* --- for a device's backend, which leaves some phases to a worker of cc_cpu ------------------ */

/* The phase that comes next. Here and below, `worker` was opened by cc_cpu. */
cc_phase cc_host_phase(const void *worker);
/* Does a step of work. Returns TC_OK if phase `until` comes next or all phases are done; otherwise
 * TC_MORE: call it again. */
tc_status cc_host_step(void *worker, cc_state *state, cc_phase until, uint64_t *chunks_done,
                       tc_err *err);
/* Returns the plane into which the caller writes the prepared grey values that the device computed.
 * The phase that comes next becomes CC_HISTOGRAM, or CC_MASK if no histogram is needed. */
wu_pixels *cc_host_prepared(void *worker);
/* The mask after CC_FILL: [ny][lab_stride(nx)]. */
const uint64_t *cc_host_bits(const void *worker);
/* The item's parameters after cc_resolve_params. */
const cc_params *cc_host_params(const void *worker);
/* Returns the plane [ny][nx] into which the caller writes, for each pixel, the index of another
 * pixel that the device computed: if CC_PARTS comes next, the root of its component within its
 * strip of rows; if CC_SADDLES comes next, its maximum. On the background it writes -1. Returns
 * NULL if there is not enough memory. */
int32_t *cc_host_roots(void *worker);
/* Makes the worker continue with phase `next`, CC_PARTS or CC_SADDLES, after the caller has filled
 * the plane of cc_host_roots. strip_rows: the number of rows of each strip but the last, which may
 * have fewer; 0 if there are no strips. */
tc_status cc_host_resume(void *worker, cc_phase next, uint32_t threshold, uint32_t strip_rows,
                         tc_err *err);

#endif
