/*
 * glcm: Haralick's texture features from grey-level co-occurrence matrices, of a whole picture or
 * of a window around each pixel, as the project Help Conquer Cancer computed them. This file
 * declares the parameters, the state, the geometry and the tables, which both backends share.
 * docs/analyses/glcm.md explains the analysis to its users.
 *
 * A pair is two pixels at a given offset (dx, dy). "The 13" are Haralick's features, in core.h;
 * more_core.h has the features beyond the 13. The ROI, region of interest, is the set of pixels
 * that have a window; with the window GLCM_WHOLE_ROI there is one matrix for the whole ROI instead.
 */
#ifndef GLCM_H
#define GLCM_H

#include "app/analysis/analysis.h"
#include "app/analysis/common/cooc.h"
#include "app/analysis/glcm/core.h"
#include "app/analysis/glcm/more_core.h"

enum {
    GLCM_MAX_LEVELS = 256,     /* greatest number of grey levels, and so of rows, of a matrix */
    GLCM_MAX_LEVEL_COUNT = 16, /* greatest length of the parameter `levels`, a list */
    GLCM_MAX_RADIUS = 63,      /* greatest radius of a window, in pixels */
    GLCM_MAX_DISTANCE = 255,   /* greatest distance, in pixels */
    GLCM_MAX_MAPS = 256,       /* greatest number of maps of a job */
    GLCM_MAX_OFFSETS = 65536   /* greatest number of offsets of all distances together */
};

/* The range of grey values that is divided into levels. */
typedef enum glcm_range {
    GLCM_RANGE_FIXED, /* glcm_params.range_ends */
    GLCM_RANGE_TYPE,  /* all values that the item's pixels can have: 0 to 2^bits - 1 */
    GLCM_RANGE_IMAGE, /* the least to the greatest value of the item's pixels */
    GLCM_RANGE_NULL   /* the parameter is null, which means GLCM_RANGE_TYPE */
} glcm_range;
/* The shape of the window of a matrix. */
typedef enum glcm_window { GLCM_DISC, GLCM_SQUARE, GLCM_WHOLE_ROI } glcm_window;
/* The kind of region of interest. */
typedef enum glcm_roi { GLCM_ROI_ALL, GLCM_ROI_DISC, GLCM_ROI_MASK } glcm_roi;

/* The second pixel of a pair is at (dx, dy) from the first. */
typedef struct glcm_offset {
    int dx, dy;        /* pixels; dy > 0, or dy = 0 and dx > 0 */
    unsigned distance; /* index into glcm_params.distances */
} glcm_offset;

/* A map that is returned: a feature of the window of each pixel. */
typedef struct glcm_map {
    unsigned feature; /* a number of cooc_core.h */
    int levels;
    int vector[2]; /* offset dx, dy */
    size_t level;  /* derived: index of `levels` in glcm_params.levels */
    size_t offset; /* derived: index of `vector` in glcm_params.offsets */
} glcm_map;

typedef struct glcm_params {
    an_params_head head;
    size_t n_levels;
    unsigned levels[GLCM_MAX_LEVEL_COUNT]; /* [n_levels]: the numbers of grey levels; features are
                                              computed for each number */
    glcm_range range;
    unsigned range_ends[2]; /* GLCM_RANGE_FIXED: least and greatest grey value of the range */
    glcm_window window;
    int radius; /* radius of the window, in pixels */
    size_t n_distances;
    unsigned distances[GLCM_MAX_DISTANCE]; /* [n_distances], in pixels */
    bool four_directions;                  /* the parameter `directions` is "four", not "all" */
    glcm_roi roi;
    bool roi_centred; /* the centre of the ROI's disc is (width/2, height/2), rounded down */
    int64_t roi_cx, roi_cy, roi_r; /* centre, unless roi_centred, and radius of the disc */
    bool per_offset;               /* the result contains offset_features */
    uint32_t features;   /* bit i: feature i of cooc_core.h; the first 13 are also in core.h */
    int32_t feature_set; /* how the parameter `features` was given: 1 "haralick", 2 "ibsi", 0 as a
                            list */
    size_t n_maps;
    glcm_map maps[GLCM_MAX_MAPS];
    /* The fields below are derived from those above (glcm_derive_params). */
    unsigned n_features;
    unsigned feature[COOC_FEATURES]; /* [n_features]: numbers of the features in `features` */
    const char *feature_names[COOC_FEATURES + 1];
    bool has_more_features; /* some features are not among the 13 */
    size_t n_offsets;
    glcm_offset *offsets; /* [n_offsets], sorted by distance, dy, dx */
    /* [GLCM_BANDS]: the CPU backend computes only the windows of the bands (glcm_bands) whose
     * element is true; NULL: it computes all windows. Only the checks in pixels.c set this. */
    const bool *bands;
} glcm_params;

/* --- state ----------------------------------------------------------------------------------- */

/* Statistics, over all windows so far, of the 13 features for one number of levels and one offset.
 */
typedef struct glcm_stat {
    uint64_t windows; /* number of windows that have a pair */
    glcm_moments feature[GLCM_FEATURES];
} glcm_stat;

/* The same statistics of the features beyond the 13, in units of 2^-glcm_fraction_bits. These
 * features are computed from a window's histograms if glcm_params.has_more_features is set. */
typedef struct glcm_more_stat {
    glcm_moments feature[GLCM_MORE_FEATURES];
} glcm_more_stat;
/* Computes the features beyond the 13 from the sums of a window, in units of 2^-glcm_fraction_bits.
 * None of these features needs logarithms. */
void glcm_more_features(const cooc_sums *sums, unsigned levels,
                        int64_t feature[GLCM_MORE_FEATURES]);
void glcm_more_stat_clear(glcm_more_stat *more);
/* Adds the features of one window. */
void glcm_more_stat_add(glcm_more_stat *more, const int64_t feature[GLCM_MORE_FEATURES]);
/* more += other */
void glcm_more_stat_merge(glcm_more_stat *more, const glcm_more_stat *other);

/* A line is a row or a column that windows slide along; a band is a range of lines (glcm_band_of).
 * sum[i]: the sum, modulo 2^64, of all returned features of the windows of band i, with all offsets
 * and numbers of levels. A validator computes random bands again: if their sums agree, probably all
 * bands were computed. Not used with GLCM_WHOLE_ROI. */
typedef struct glcm_bands {
    uint64_t sum[GLCM_BANDS];
} glcm_bands;
/* bands += other */
void glcm_bands_merge(glcm_bands *bands, const glcm_bands *other);

/* The state consists of an an_state_head, glcm_stat[n_levels][n_offsets], glcm_more_stat of the
 * same shape if glcm_params.has_more_features is set, glcm_bands, and a plane of float [nz][ny][nx]
 * for each map. */
static inline glcm_stat *glcm_state_stats(void *state)
{
    return (glcm_stat *)(void *)((unsigned char *)state + sizeof(an_state_head));
}
/* Byte offsets in the state of glcm_more_stat, of glcm_bands and of the first map. */
size_t glcm_state_more_at(const glcm_params *params);
size_t glcm_state_bands_at(const glcm_params *params);
size_t glcm_state_maps_at(const glcm_params *params);
static inline glcm_more_stat *glcm_state_more(const glcm_params *params, void *state)
{
    return (glcm_more_stat *)(void *)((unsigned char *)state + glcm_state_more_at(params));
}
static inline glcm_bands *glcm_state_bands(const glcm_params *params, void *state)
{
    return (glcm_bands *)(void *)((unsigned char *)state + glcm_state_bands_at(params));
}
static inline const glcm_stat *glcm_state_stats_const(const void *state)
{
    return (const glcm_stat *)(const void *)((const unsigned char *)state + sizeof(an_state_head));
}

void glcm_stat_clear(glcm_stat *stat);
/* stat += other */
void glcm_stat_merge(glcm_stat *stat, const glcm_stat *other);

/* --- geometry: the windows, their pairs, and how the work is divided (plan.c) ---------------- */

/* An orientation of the picture: not changed, or transposed. A window slides along the view's rows;
 * in the transposed view these are the picture's columns. Each offset uses the view in which fewer
 * pairs enter and leave when the window moves. */
typedef struct glcm_view {
    uint32_t nx, ny;        /* size of the picture in this orientation */
    int64_t x0, y0, x1, y1; /* bounding box, half-open, of the ROI; the whole picture if
                               the ROI is a mask */
} glcm_view;

/* The first pixels of all pairs of one offset within a window; they form a lens, the intersection
 * of two discs, if the window is a disc. If the window's centre is c, the first pixel of a pair is
 * p = c + (x, y), with y = row[i] and lo[i] <= x <= hi[i], and the second pixel is p + (dx, dy). */
typedef struct glcm_lens {
    int dx, dy;      /* the offset, in the orientation of the view */
    bool transposed; /* the view is the transposed one */
    int rows; /* number of rows with pairs, and of elements of row, lo and hi; 0 if no pair fits in
                 the window */
    int row[2 * GLCM_MAX_RADIUS + 1];
    int lo[2 * GLCM_MAX_RADIUS + 1], hi[2 * GLCM_MAX_RADIUS + 1];
    uint32_t pairs; /* number of pairs */
} glcm_lens;

/* A chunk of the work: the windows of a tile of a slice, with one offset and one number of levels.
 * Chunks are ordered by slice, offset, tile and level; the level varies fastest. */
typedef struct glcm_chunk {
    size_t offset, level; /* indices into glcm_params.offsets and .levels */
    uint32_t slice, tile;
} glcm_chunk;

typedef struct glcm_geometry {
    const glcm_params *params;
    uint32_t nx, ny, nz;
    unsigned lo, hi;           /* least and greatest grey value of the range that has levels */
    int64_t cx, cy;            /* centre of the ROI's disc */
    glcm_view view[2];         /* [0]: not transposed; [1]: transposed */
    const uint8_t *slice_mask; /* GLCM_ROI_MASK: the mask of all slices, [nz][ny][nx]; else NULL */
    /* The ROI's bounding box is divided into tiles, the units of work (not the bands of
     * glcm_bands): into `bands` ranges of rows, each of which has `strips` ranges of columns. */
    uint32_t bands, strips;
    uint64_t chunks;
    uint32_t max_pairs; /* upper bound of the pairs of a window */
    int fbits;          /* fraction bits of glcm_tables.f */
} glcm_geometry;

/* Sets the geometry. It points into `work` and needs no freeing. */
tc_status glcm_geometry_init(const an_work *work, glcm_geometry *g, tc_err *err);
/* Sets *chunk to chunk number `index`. */
void glcm_chunk_at(const glcm_geometry *g, uint64_t index, glcm_chunk *chunk);
/* Sets the lens of an offset, in the orientation that takes less work. */
void glcm_lens_init(const glcm_params *params, const glcm_offset *o, glcm_lens *lens);
/* A tile in coordinates of a view, half-open. */
typedef struct glcm_tile {
    int64_t x0, y0, x1, y1;
} glcm_tile;
/* Returns tile number `tile` of the view's box: tiles are numbered along each range of rows. */
glcm_tile glcm_tile_at(const glcm_geometry *g, const glcm_view *view, uint32_t tile);
/* The index in glcm_bands.sum of a line of the view. */
static inline unsigned glcm_band_of(const glcm_view *v, int64_t line)
{
    return (unsigned)GLCM_BAND(line - v->y0, v->y1 - v->y0);
}

/* Returns a table of the levels of all grey values, [n_levels][2^bits]: for L levels, the level of
 * grey value v is (v-lo)*L/(hi-lo+1), rounded down and clamped to 0 to L - 1. The caller frees the
 * table. NULL if there is not enough memory. */
uint8_t *glcm_quantiser(const glcm_geometry *g, unsigned bits);
/* Sets out[nx] to the levels of row y of a slice. levels: one row of the quantiser. */
void glcm_quantise_row(const wu_pixels *px, uint32_t slice, uint32_t y, const uint8_t *levels,
                       uint8_t *out);
/* Sets out[nx] to row y of the ROI: 1 for pixels that have a window, else 0. */
void glcm_roi_row(const glcm_geometry *g, uint32_t slice, uint32_t y, uint8_t *out);

/* --- tables (tables.c) ----------------------------------------------------------------------- */

typedef struct glcm_tables {
    int fbits;
    uint32_t max_pairs;
    uint64_t *f;                   /* [2*max_pairs+1]: k*log2(k) in units of 2^-fbits */
    uint64_t *f60;                 /* k*log2(k) in units of 2^-60, modulo 2^64 */
    uint64_t *f12;                 /* k*log2(k) in units of 2^-12 */
    glcm_divisors *divisors;       /* [max_pairs+1]; entry 0 is unused */
    uint64_t *exp_table;           /* [GLCM_EXP_SIZE]: read by glcm_exp_neg */
    uint64_t idm[GLCM_MAX_LEVELS]; /* 1/(1+k^2) in units of 2^-GLCM_IDM_BITS */
    /* The next three tables have, for each count k of a histogram's bin, the change of a window's
     * sums (glcm_sums) when the count becomes k+1. In cell_step, entry k is for a cell off the
     * diagonal of the matrix, and entry diagonal + k for a cell on the diagonal. */
    uint32_t diagonal;          /* index of the first entry for cells on the diagonal */
    uint32_t cells;             /* number of entries of cell_step */
    glcm_pair64 *cell_step;     /* [cells]: change of glcm_sums.cell */
    glcm_pair64 *marginal_step; /* [2*max_pairs+1]: change of glcm_sums.marginal */
    uint64_t *step; /* [2*max_pairs+1]: change of glcm_sums.fs (sums a + b) or .fd (differences) */
} glcm_tables;

/* Fills the tables. 32 < fbits <= 58; max_pairs > 0. Free *t with glcm_tables_free. */
tc_status glcm_tables_init(int fbits, uint32_t max_pairs, glcm_tables *t, tc_err *err);
void glcm_tables_free(glcm_tables *t);

/* For GLCM_WHOLE_ROI: the 13 features, in units of 2^-32, of a matrix. pairs: [levels][levels], the
 * number of pairs with levels a <= b in row a, column b; elements below the diagonal are not read.
 * There are fewer than 2^30 pairs. Returns false if there are none. */
bool glcm_matrix_features(const uint32_t *pairs, unsigned levels, const glcm_tables *t,
                          tc_log2_cache *logs, int64_t feature[GLCM_FEATURES]);
/* Adds the 13 features to *stat, as those of one window, and the features beyond the 13 to *more,
 * unless that is NULL. Arguments as for glcm_matrix_features. */
void glcm_add_matrix(const uint32_t *pairs, unsigned levels, const glcm_tables *t,
                     tc_log2_cache *logs, glcm_stat *stat, glcm_more_stat *more);

/* params.c */
extern const an_param glcm_parameters[];
tc_status glcm_derive_params(void *params, const char *where, tc_err *err);
void glcm_clear_params(void *params);

/* output.c: implements the functions of an_analysis with these names. */
tc_status glcm_finish(const an_work *work, size_t item_index, const void *state, wu_output *out,
                      tc_err *err);
/* Writes a note if the item's grey values use only few of the levels. */
bool glcm_note_survey(const void *params, const wu_item *item, const an_survey *survey, char *text,
                      size_t size);
/* Writes a note if all pixels have the same level. */
bool glcm_note_result(const void *params, const wu_item *item, const wu_output *out, char *text,
                      size_t size);
/* Adds the names of the features, and the offsets. */
tc_status glcm_add_constants(const void *params, wu_output *out, tc_err *err);
/* Declares the arrays of an item's result: names, types and shapes, without data. */
tc_status glcm_declare_arrays(const void *params, const wu_item *item, wu_output *out, tc_err *err);

/* The number of statistics, called moments here, of a feature over the windows of one offset: mean,
 * variance, minimum and maximum, in this order. All are NaN if no window has a pair. */
enum { GLCM_MOMENTS = 4 };
/* Statistics of a feature over the offsets of a distance. GLCM_SPREAD, called "range" in results,
 * is the difference between the largest and the smallest mean; GLCM_SD is the root of the mean
 * variance; GLCM_MIN and GLCM_MAX are over all windows. */
enum { GLCM_MEAN, GLCM_SPREAD, GLCM_SD, GLCM_MIN, GLCM_MAX, GLCM_STATISTICS };

/* Computes the statistics over the offsets of a distance: zero the struct, call glcm_summary_add
 * for the moments of each offset, then glcm_summary_end. */
typedef struct glcm_summary {
    double sum, sum_variance; /* sums of the offsets' means and of their variances */
    double lowest, highest;   /* least and greatest mean of an offset */
    double min, max;          /* least minimum and greatest maximum of an offset */
    unsigned n;               /* number of offsets with pairs */
} glcm_summary;
void glcm_summary_add(glcm_summary *s, const double offset[GLCM_MOMENTS]);
void glcm_summary_end(const glcm_summary *s, double out[GLCM_STATISTICS]);

/* check.c */
/* Converts the moments of a single offset to the five statistics that a distance with only this
 * offset has. For NaN they are NaN, except the range, which is 0. */
void glcm_as_statistics(const double moments[GLCM_MOMENTS], double five[GLCM_STATISTICS]);
tc_status glcm_check_result(const void *params, const wu_item *item, const wu_output *out,
                            tc_err *err);
/* Checks that the means in the result's array features agree with its array band_sums
 * (glcm_bands.sum). mask: [nz][ny][nx], not 0 for pixels that have a window; NULL: all pixels of
 * the ROI have one. */
tc_status glcm_check_means(const glcm_params *p, const wu_item *item, const uint8_t *mask,
                           const wu_output *out, tc_err *err);
/* suggest.c */
tc_status glcm_suggest(const struct an_pictures *pictures, const json_t *given,
                       struct an_suggestion *out, tc_err *err);
/* pixels.c */
/* The average cost of glcm_check_pixels, as a share, 0 to 1, of the cost of computing the item. */
double glcm_pixels_share(const an_work *work);
/* Implements an_analysis.flops_inside. */
double glcm_flops_inside(const an_work *work);
tc_status glcm_check_pixels(const an_work *work, const wu_output *out, uint64_t *random,
                            tc_err *err);

/* cpu.c */
extern const an_backend glcm_cpu;

#endif
