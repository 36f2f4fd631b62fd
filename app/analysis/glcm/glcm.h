/*
 * glcm: Haralick texture in a sliding neighbourhood, as Help Conquer Cancer
 * computed it. Parameters, geometry, tables and state, shared by both
 * backends. docs/analyses/glcm.md explains the analysis to its users.
 */
#ifndef GLCM_H
#define GLCM_H

#include "app/analysis/analysis.h"
#include "app/analysis/common/cooc.h"
#include "app/analysis/glcm/core.h"
#include "app/analysis/glcm/more_core.h"

enum {
    GLCM_MAX_LEVELS = 256,     /* grey levels */
    GLCM_MAX_LEVEL_COUNT = 16, /* entries of "levels" */
    GLCM_MAX_RADIUS = 63,      /* of a sliding window */
    GLCM_MAX_DISTANCE = 255,
    GLCM_MAX_MAPS = 256,
    GLCM_MAX_OFFSETS = 65536
};

typedef enum glcm_range {
    GLCM_RANGE_FIXED,
    GLCM_RANGE_TYPE,
    GLCM_RANGE_IMAGE,
    GLCM_RANGE_NULL
} glcm_range;
typedef enum glcm_window { GLCM_DISC, GLCM_SQUARE, GLCM_WHOLE_ROI } glcm_window;
typedef enum glcm_roi { GLCM_ROI_ALL, GLCM_ROI_DISC, GLCM_ROI_MASK } glcm_roi;

typedef struct glcm_offset {
    int dx, dy;        /* dy > 0, or dy = 0 and dx > 0 */
    unsigned distance; /* index into distances */
} glcm_offset;

typedef struct glcm_map {
    unsigned feature;
    int levels;
    int vector[2]; /* dx, dy */
    /* derived: */
    size_t level;  /* index into levels */
    size_t offset; /* index into offsets */
} glcm_map;

typedef struct glcm_params {
    an_params_head head;
    size_t n_levels;
    unsigned levels[GLCM_MAX_LEVEL_COUNT];
    glcm_range range;
    unsigned range_ends[2]; /* lo, hi of GLCM_RANGE_FIXED */
    glcm_window window;
    int radius;
    size_t n_distances;
    unsigned distances[GLCM_MAX_DISTANCE];
    bool four; /* directions "four" */
    glcm_roi roi;
    bool roi_centred; /* disc at (width/2, height/2), rounded down */
    int64_t roi_cx, roi_cy, roi_r;
    bool per_offset;
    uint32_t features;   /* bit i: feature i of cooc.h, whose first 13 are those of core.h */
    int32_t feature_set; /* 1 haralick, 2 ibsi, 0 a list */
    size_t n_maps;
    glcm_map maps[GLCM_MAX_MAPS];
    /* derived */
    unsigned n_features;
    unsigned feature[COOC_FEATURES]; /* [n_features]: their numbers */
    const char *feature_names[COOC_FEATURES + 1];
    bool more;        /* some of them are not of the 13 */
    size_t n_offsets; /* sorted by distance, dy, dx */
    glcm_offset *offsets;
    const bool *bands; /* [GLCM_BANDS]: on the CPU only windows of these; NULL: all */
} glcm_params;

/* --- state ----------------------------------------------------------------------------------- */

/* Of one (levels, offset): the windows seen and their 13 features. */
typedef struct glcm_stat {
    uint64_t windows;
    glcm_moments feature[GLCM_FEATURES];
} glcm_stat;

/* The features beyond the 13: computed from a window's histograms where one of them is wanted, and
 * in units of 2^-glcm_fraction_bits. */
typedef struct glcm_more {
    glcm_moments feature[GLCM_MORE];
} glcm_more;
/* Features of a matrix without logarithms, in these units. */
void glcm_more_features(const cooc_sums *sums, unsigned levels, int64_t feature[GLCM_MORE]);
void glcm_more_clear(glcm_more *more);
/* Adds one window's. */
void glcm_more_add(glcm_more *more, const int64_t feature[GLCM_MORE]);
void glcm_more_merge(glcm_more *more, const glcm_more *other);

/* Of the windows in a band of the lines that windows slide along, whatever the offset: the sum,
 * modulo 2^64, of all features that are returned. Who computes some bands again sees whether others
 * were computed. Of a whole ROI there are none. */
typedef struct glcm_bands {
    uint64_t sum[GLCM_BANDS];
} glcm_bands;
void glcm_bands_merge(glcm_bands *bands, const glcm_bands *other);

/* The state is: an_state_head, glcm_stat[n_levels][n_offsets], with more features glcm_more of the
 * same shape, glcm_bands, and one float plane [nz][ny][nx] for each map. */
static inline glcm_stat *glcm_state_stats(void *state)
{
    return (glcm_stat *)(void *)((unsigned char *)state + sizeof(an_state_head));
}
size_t glcm_state_more_at(
    const glcm_params *params); /* byte offset of the statistics of more features */
size_t glcm_state_bands_at(const glcm_params *params); /* byte offset of the bands */
size_t glcm_state_maps_at(const glcm_params *params);  /* byte offset of the planes */
static inline glcm_more *glcm_state_more(const glcm_params *params, void *state)
{
    return (glcm_more *)(void *)((unsigned char *)state + glcm_state_more_at(params));
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

/* --- geometry: what of the work depends on the item alone ------------------------------------ */

/* A window slides along rows of a picture, or along its columns: those are the
 * rows of the transposed picture. Offsets take the direction in which fewer
 * pairs enter and leave. */
typedef struct glcm_view {
    uint32_t nx, ny;        /* of the picture in this orientation */
    int64_t x0, y0, x1, y1; /* bounding box of the ROI (a mask: all), half-open */
} glcm_view;

/* The pairs of one offset inside a window: base pixel p = c + (x, y) for
 * x in [lo[i], hi[i]], y = row[i]; the other end is p + (dx, dy). */
typedef struct glcm_lens {
    int dx, dy; /* in the orientation of the view */
    bool transposed;
    int rows; /* 0: no pair fits in the window */
    int row[2 * GLCM_MAX_RADIUS + 1];
    int lo[2 * GLCM_MAX_RADIUS + 1], hi[2 * GLCM_MAX_RADIUS + 1];
    uint32_t pairs;
} glcm_lens;

/* Work is cut into chunks: for each offset, each slice, each tile of the ROI,
 * each entry of levels (fastest). */
typedef struct glcm_chunk {
    size_t offset, level;
    uint32_t slice, tile;
} glcm_chunk;

typedef struct glcm_geometry {
    const glcm_params *params;
    uint32_t nx, ny, nz;
    unsigned lo, hi;           /* grey range that is quantised */
    int64_t cx, cy;            /* centre of a disc */
    glcm_view view[2];         /* as it is; transposed */
    const uint8_t *slice_mask; /* the item's mask [nz][ny][nx], or NULL */
    uint32_t bands, strips;    /* of rows, and of a band: tiles */
    uint64_t chunks;
    uint32_t max_pairs; /* bound on the pairs of a window */
    int fbits;          /* fraction bits of the tables of k log2 k */
} glcm_geometry;

/* The whole geometry. It borrows from the work and needs no freeing. */
tc_status glcm_geometry_init(const an_work *work, glcm_geometry *g, tc_err *err);
void glcm_chunk_at(const glcm_geometry *g, uint64_t index, glcm_chunk *chunk);
/* The pairs of an offset, in the cheaper orientation. */
void glcm_lens_init(const glcm_params *params, const glcm_offset *o, glcm_lens *lens);
/* The pixels of the view that a tile covers, half-open. */
typedef struct glcm_tile {
    int64_t x0, y0, x1, y1;
} glcm_tile;
glcm_tile glcm_tile_at(const glcm_geometry *g, const glcm_view *view, uint32_t tile);
/* The band of a line of the view. */
static inline unsigned glcm_band_of(const glcm_view *v, int64_t line)
{
    return (unsigned)GLCM_BAND(line - v->y0, v->y1 - v->y0);
}

/* Grey values to levels, for each entry of params->levels: q = clamp((v-lo)*levels/(hi-lo+1)).
 * [n_levels][2^bits], the caller's; NULL without memory. */
uint8_t *glcm_quantiser(const glcm_geometry *g, unsigned bits);
/* Row y of a slice in the grey levels of a row of the quantiser. */
void glcm_quantise_row(const wu_pixels *px, uint32_t slice, uint32_t y, const uint8_t *levels,
                       uint8_t *out);
/* Row y of the ROI: 1 where a window is centred. */
void glcm_roi_row(const glcm_geometry *g, uint32_t slice, uint32_t y, uint8_t *out);

/* --- tables ---------------------------------------------------------------------------------- */

typedef struct glcm_tables {
    int fbits;
    uint32_t max_pairs;
    uint64_t *f;                   /* [2*max_pairs+1]: k*log2(k) in 2^-fbits */
    uint64_t *f60;                 /* the same in 2^-60, modulo 2^64 */
    uint64_t *f12;                 /* the same in 2^-12 */
    glcm_divisors *divisors;       /* [max_pairs+1]; entry 0 unused */
    uint64_t *exp_table;           /* [GLCM_EXP_SIZE] */
    uint64_t idm[GLCM_MAX_LEVELS]; /* 1/(1+k^2) in 2^-36 */
    /* What a histogram's bin changes in the sums when its count goes from k to
     * k+1. A cell's entry stands at k off the diagonal, at diagonal + k on it. */
    uint32_t diagonal, cells;
    glcm_pair64 *cell_step;     /* [cells]: fxy, e2 */
    glcm_pair64 *marginal_step; /* [2*max_pairs+1]: fx, fx12 */
    uint64_t *step;             /* [2*max_pairs+1]: fs, fd */
} glcm_tables;

/* 32 < fbits <= 58; max_pairs > 0. *t: glcm_tables_free. */
tc_status glcm_tables_init(int fbits, uint32_t max_pairs, glcm_tables *t, tc_err *err);
void glcm_tables_free(glcm_tables *t);

/* Features, in 2^-32, of the matrix of these unordered pairs, pairs[L][L] with a <= b: fewer than
 * 2^30. What is below the diagonal is not read. False if there is none. For GLCM_WHOLE_ROI. */
bool glcm_matrix_features(const uint32_t *pairs, unsigned levels, const glcm_tables *t,
                          tc_log2s *logs, int64_t feature[GLCM_FEATURES]);
/* Adds them, as one window's, and those beyond the 13, where more is not NULL. */
void glcm_matrix_take(const uint32_t *pairs, unsigned levels, const glcm_tables *t, tc_log2s *logs,
                      glcm_stat *stat, glcm_more *more);

/* params.c */
extern const an_param glcm_parameters[];
tc_status glcm_derive_params(void *params, const char *where, tc_err *err);
void glcm_clear_params(void *params);

tc_status glcm_finish(const an_work *work, size_t item_index, const void *state, wu_output *out,
                      tc_err *err);
bool glcm_note_survey(const void *params, const wu_item *item, const an_survey *survey, char *text,
                      size_t size);
bool glcm_note_result(const void *params, const wu_item *item, const wu_output *out, char *text,
                      size_t size);
tc_status glcm_constants(const void *params, wu_output *out, tc_err *err);

/* --- output ---------------------------------------------------------------------------------- */

/* Of a feature over the windows of one offset: mean, variance, minimum, maximum;
 * all NaN where no window has a pair. */
enum { GLCM_MOMENTS = 4 };
/* Of a feature over the offsets of a distance. */
enum { GLCM_MEAN, GLCM_SPREAD, GLCM_SD, GLCM_MIN, GLCM_MAX, GLCM_STATISTICS };

/* Makes statistics over offsets of the moments of each; begins all zero. */
typedef struct glcm_summary {
    double sum, sum_variance, lowest, highest, min, max;
    unsigned n;
} glcm_summary;
void glcm_summary_add(glcm_summary *s, const double offset[GLCM_MOMENTS]);
void glcm_summary_end(const glcm_summary *s, double out[GLCM_STATISTICS]);

/* check.c */
tc_status glcm_expect(const void *params, const wu_item *item, wu_output *out, tc_err *err);
tc_status glcm_check_result(const void *params, const wu_item *item, const wu_output *out,
                            tc_err *err);
/* suggest.c */
tc_status glcm_suggest(const struct an_pictures *pictures, const json_t *given,
                       struct an_suggestion *out, tc_err *err);
/* pixels.c */
double glcm_pixels_share(const an_work *work);
tc_status glcm_check_pixels(const an_work *work, const wu_output *out, uint64_t *random,
                            tc_err *err);

extern const an_backend glcm_cpu;

#endif
