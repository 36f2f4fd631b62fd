/*
 * cellcount: counts the connected components of a thresholded picture, fills
 * their holes, separates touching cells, and measures them.
 *
 * The state is the head, the number of regions, Otsu's threshold, one plane of int32 [ny][nx], at
 * the end the label of every pixel, 0 for none, and a table of the regions. On the way there is one
 * place where an interrupted item can go on, with the plane holding the squared distances of a
 * split; everything before it takes seconds for the largest picture, and is done again.
 */
#ifndef AN_CELLCOUNT_H
#define AN_CELLCOUNT_H

#include "app/analysis/analysis.h"
#include "app/analysis/cellcount/layout.h"
#include "app/analysis/common/gauss.h"
#include "app/analysis/common/label.h"
#include "app/analysis/common/otsu.h"
#include "app/base/pool.h"

/* A threshold that is no number; the kind of background; how cells are separated; the polarity. */
enum {
    CC_OTSU = 1,
    CC_LOCAL,
    CC_MEAN = 0,
    CC_OPENING,
    CC_LINES,
    CC_DISTANCE = 1,
    CC_INTENSITY,
    CC_DARK = 0,
    CC_BRIGHT,
    CC_AUTO
};
/* Of the filter before the threshold: the least sigma. */
#define CC_LEAST_SIGMA 0.3

typedef struct cc_params {
    an_params_head head;
    int32_t threshold;      /* 0..65535, used if: */
    int32_t threshold_word; /* 0; else CC_OTSU, CC_LOCAL */
    int32_t classes, scale; /* otsu: 2 to AN_OTSU_CLASSES, an_otsu_scale */
    int32_t window, offset; /* local: the side of the square, grey values */
    int32_t window_auto;    /* the side is what the picture's cells say: see cc_resolve */
    int32_t offset_percent; /* local: of the picture's contrast, in place of offset; 0: none */
    double smooth;          /* sigma in pixels; 0: none */
    bool background;        /* is taken off: */
    int32_t ground;         /* CC_MEAN, CC_OPENING, CC_LINES */
    bool ratio;             /* by ratio; else by difference */
    int32_t radius;         /* of the disc; half the square of the mean */
    int32_t polarity;       /* CC_DARK, CC_BRIGHT, CC_AUTO */
    bool bright;            /* cells are v >= T; else v < T. Of CC_AUTO: see cc_resolve */
    bool eight_connected;   /* connectivity 8; else 4 */
    bool fill_holes;
    bool exclude_border;
    double min_fill, max_aspect; /* of a region's box; 0: any */
    bool min_contrast;           /* for regions of less than: */
    int64_t full_area;           /* pixels */
    int32_t full_area_auto;      /* a third of a cell's area */
    int32_t percent;             /* of the contrast of the larger ones */
    int32_t split;               /* 0, CC_DISTANCE, CC_INTENSITY */
    int32_t h;                   /* intensity: the least dynamics of a cell, in grey values */
    bool labels;
    int64_t min_area, max_area; /* kept: min_area <= area <= max_area */
    int32_t min_area_auto;      /* by a cell's area, once the regions are there */
} cc_params;

/* The phases of an item, in order; those that do not apply have no parts. */
typedef enum cc_phase {
    CC_SMOOTH,    /* the Gaussian filter */
    CC_EXTREME,   /* the least, of dark cells the greatest, within a disc */
    CC_GROUND,    /* the background is subtracted */
    CC_LOCALLY,   /* and so is the mean that a local threshold refers to */
    CC_HISTOGRAM, /* for Otsu */
    CC_MASK,      /* pixels to bits */
    CC_HOLES,     /* components of the background, by bands */
    CC_HOLE_SEAMS,
    CC_FILL,  /* what is not connected with the border becomes cell */
    CC_BANDS, /* components of the cells, by bands */
    CC_SEAMS,
    CC_BYTES, /* split: bits to bytes, for the distance transform */
    CC_DISTANCE_X,
    CC_DISTANCE_Y,
    CC_HEIGHTS,   /* split by intensity: of grey values, where there are cells */
    CC_ASCEND,    /* each pixel points to its highest neighbour */
    CC_EDGES,     /* split by intensity: from the borders of plateaus inwards */
    CC_FLAT,      /* plateaus that are maxima become trees, */
    CC_FLAT_JOIN, /* each one */
    CC_MAXIMA,    /* and then to the regional maximum it leads to */
    CC_SADDLES,   /* the highest between each two maxima; then maxima are joined */
    CC_CLEAR,
    CC_FIRST,  /* the first pixel of each part */
    CC_ROOTS,  /* points to it from everywhere */
    CC_PARTS,  /* the parts get ids, as components have them */
    CC_IDS,    /* and so do their pixels */
    CC_STRIPS, /* joins what a device labelled strip by strip */
    CC_COUNT,  /* of components in each band */
    CC_NUMBER,
    CC_AREAS, /* only if there is something to leave out */
    CC_RENUMBER,
    CC_PAINT,
    CC_MEASURE, /* if the table has room; else it is done when all is finished */
    CC_PHASES
} cc_phase;

/* Where an interrupted item goes on, besides the start. */
#define CC_KEPT CC_ASCEND

/* What is known of a region; sums are exact. */
typedef struct cc_region {
    uint64_t sum_y, sum_x, sum_grey;
    uint32_t area;
    uint16_t y0, x0, y1, x1; /* half-open; a side has at most 65535 */
    uint32_t zero;           /* no undefined bytes in a state */
} cc_region;

typedef struct cc_state {
    an_state_head head;
    uint32_t regions;   /* when all is done */
    uint32_t threshold; /* Otsu's, once it is known; 0 for one that was given */
    uint32_t window;    /* when all is done, of window "auto"; else 0 */
    uint32_t min_area;  /* likewise */
    int32_t plane[];
} cc_state;

/* After the plane, from byte cc_table_at of the state on, comes the table of regions by label (row
 * 0 is all zeros) if there are fewer than cc_table_rows of them; otherwise zeros. Pictures of cells
 * have far fewer; room for noise would double the state. */
static inline size_t cc_table_at(uint32_t nx, uint32_t ny)
{
    return (sizeof(cc_state) + (size_t)nx * ny * sizeof(int32_t) + 7) / 8 * 8;
}

static inline size_t cc_table_rows(uint32_t nx, uint32_t ny)
{
    return (size_t)nx * ny / 64 + 1024;
}

/* Rows of a band, about a quarter of a million pixels, and the number of bands: of the item
 * alone. */
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
/* The threshold, if it is not from the histogram. A local one is for grey values of that many bits
 * from which the mean has been subtracted, with the middle of the range as zero. */
uint32_t cc_threshold(const cc_params *p, unsigned bits);
/* The threshold from the histogram. */
tc_status cc_find_threshold(const cc_params *p, const uint64_t *histogram, unsigned bits,
                            uint32_t *threshold, tc_err *err);
/* threshold.c: the parameters of an item, in which what is left to the picture before there are
 * regions is known: polarity and window. */
tc_status cc_resolve_polarity(const an_work *work, cc_params *out, tc_err *err);
tc_status cc_resolve(const an_work *work, cc_params *out, tc_err *err);
/* For a local threshold: a radius that is about the diameter of the cells that are found with it,
 * but no more than the diameter of the cells that Otsu's threshold finds. *smaller: whether it is
 * less. p: its polarity is known. */
tc_status cc_find_radius(const cc_params *p, const wu_pixels *px, unsigned threads,
                         const tc_poll *poll, int64_t *radius, bool *smaller, tc_err *err);
/* The side of the window for such a radius, in pixels. */
int32_t cc_window_of(int64_t radius);
/* The area a such that regions of up to a pixels have part / of of the pixels of all regions. Sorts
 * the areas. INT64_MAX: there are no regions. */
int64_t cc_area_quantile(int64_t *area, size_t n, int64_t part, int64_t of);
/* min_area, from two quantiles (cc_area_quantile): half and a tenth of the regions' pixels. */
int64_t cc_least_area(int64_t half, int64_t tenth, bool bright);
/* full_area for the same cells. */
int64_t cc_full_area(int64_t half);
/* Of a disc of this area. */
double cc_diameter(int64_t area);
/* The middle of grey values of so many bits. */
static inline uint32_t cc_middle(unsigned bits)
{
    return (uint32_t)1 << (bits - 1);
}

/* again.c: whether the result has the regions of a few random tiles, which are computed again with
 * this margin and more. TC_NO_MATCH, without a message: it has not, or the tiles cannot tell. */
tc_status cc_check_again(const an_work *work, const wu_output *out, uint32_t threshold,
                         uint32_t margin, uint64_t *random, tc_err *err);

/* prepare.c: what is done to grey values before the threshold, step by step, from one plane to
 * another. After cc_prepare_begin, each step that there is takes cc_prepare_step and then all
 * pieces of all rows; cc_prepare_end also takes one that is zeroed. */
typedef struct cc_prepare {
    const cc_params *params;
    const wu_pixels *now; /* the grey values so far: the item's pixels, or one of the planes */
    wu_pixels planes[3];
    const wu_pixels *from;
    an_gauss gauss;
    cc_phase step;
} cc_prepare;
/* Whether there is anything to do, and whether this phase is of it. */
bool cc_prepares(const cc_params *p);
bool cc_has_step(const cc_params *p, cc_phase step);
/* Bytes that a thread needs. */
size_t cc_prepare_scratch(const cc_params *p, uint32_t nx);
tc_status cc_prepare_begin(cc_prepare *p, const cc_params *params, const wu_pixels *pixels,
                           tc_err *err);
void cc_prepare_step(cc_prepare *p, cc_phase step);
/* Of so many rows: pieces of which none takes long. */
size_t cc_prepare_pieces(const cc_params *p, cc_phase step, uint32_t nx, uint32_t rows);
/* Of a disc's row, dy from its middle: half its width, and from bit 16 on the power of the greatest
 * power of two that is no wider than the row. */
uint32_t cc_disc_row(int64_t radius, int64_t dy);
/* All of it, on one thread. */
tc_status cc_prepare_all(cc_prepare *p, const cc_params *params, const wu_pixels *pixels,
                         tc_err *err);
void cc_prepare_end(cc_prepare *p);

tc_status cc_check_state(const an_work *work, const void *state, tc_err *err);
tc_status cc_finish(const an_work *work, size_t item_index, const void *state, wu_output *out,
                    tc_err *err);
bool cc_note_result(const void *params, const wu_item *item, const wu_output *out, char *text,
                    size_t size);
/* check.c */
tc_status cc_expect(const void *params, const wu_item *item, wu_output *out, tc_err *err);
tc_status cc_check_result(const void *params, const wu_item *item, const wu_output *out,
                          tc_err *err);
/* pixels.c */
tc_status cc_suggest(const struct an_pictures *pictures, const json_t *given,
                     struct an_suggestion *out, tc_err *err);
double cc_pixels_share(const an_work *work);
tc_status cc_check_pixels(const an_work *work, const wu_output *out, uint64_t *random, tc_err *err);

/* Measuring the regions of a label plane: begin, every band once, end. */
typedef struct cc_measure {
    const int32_t *plane;
    const wu_pixels *pixels;
    const tc_poll *poll;
    uint32_t nx, ny;
    size_t rows;        /* of the table: 1 + regions */
    cc_region *regions; /* [rows], by label */
    /* its own */
    unsigned tables;   /* as many as threads, or 1: then not two bands at a time */
    cc_region *others; /* [tables - 1][rows] */
    uint32_t *sums;    /* [tables][nx + 1]: of a row's grey values before each pixel */
} cc_measure;
tc_status cc_measure_begin(cc_measure *m, unsigned threads, tc_err *err);
void cc_measure_band(const cc_measure *m, unsigned thread, size_t band);
/* Or, without a plane, every row of it once, run by run. */
typedef struct cc_row {
    uint32_t y;
    const uint32_t *sums;
    cc_region *table;
} cc_row;
cc_row cc_measure_row(const cc_measure *m, unsigned thread, uint32_t y);
void cc_measure_run(const cc_row *row, uint32_t a, uint32_t b, int32_t label);
tc_status cc_measure_end(cc_measure *m, tc_err *err);
/* Frees what begin took, if there is no end. */
void cc_measure_drop(cc_measure *m);

/* The regions of a final state, by label: its table, or measured now. *owned: to be
 * freed, NULL for the table. */
tc_status cc_regions(const an_work *work, const cc_state *state, const cc_region **regions,
                     cc_region **owned, tc_err *err);

/* Whether a maximum is a cell of its own next to a higher one; a ws_map's rule. */
bool cc_apart_by_intensity(const void *params, uint32_t maximum, uint32_t saddle);

/* Whether regions are left out; whether more than their area and the border is to be known for
 * that. */
bool cc_filters(const cc_params *p);
bool cc_needs_boxes(const cc_params *p);
/* Of a region with this half-open box: whether it is left in, as far as its contrast does not
 * matter; and whether that does not. */
bool cc_kept(const cc_params *p, int64_t area, bool border, int64_t height, int64_t width);
bool cc_kept_anyway(const cc_params *p, int64_t area, bool border, int64_t height, int64_t width);

extern const an_backend cc_cpu;

/* --- for a device's backend, which leaves some phases to a worker of cc_cpu ------------------ */

/* The phase that comes next. */
cc_phase cc_host_phase(const void *worker);
/* Works until phase `until` comes next: TC_OK (and where all is done), or TC_MORE. */
tc_status cc_host_step(void *worker, cc_state *state, cc_phase until, uint64_t *chunks_done,
                       tc_err *err);
/* The plane for the grey values that the threshold is for, where the device prepares them:
 * CC_HISTOGRAM comes next then. */
wu_pixels *cc_host_prepared(void *worker);
/* The mask after CC_FILL: [ny][lab_stride(nx)]. */
const uint64_t *cc_host_bits(const void *worker);
/* The item's parameters, in which all is known that is before there are regions. */
const cc_params *cc_host_params(const void *worker);
/* The plane [ny][nx] for what a device found: the root of every pixel's
 * component in its strip (CC_PARTS comes next) or its maximum (CC_SADDLES), -1 on
 * the background. NULL without memory. */
int32_t *cc_host_roots(void *worker);
/* The plane is filled, the threshold known; goes on with `next`, one of these. Strips begin every
 * strip_rows rows. */
tc_status cc_host_resume(void *worker, cc_phase next, uint32_t threshold, uint32_t strip_rows,
                         tc_err *err);

#endif
