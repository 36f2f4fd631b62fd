/*
 * voting: finds cells by iterative voting (Saadatifard et al. 2018). All sums are of integers, so
 * their order cannot change the result.
 *
 * The picture is blurred. Every pixel whose gradient is above the noise floor becomes a voter, with
 * a direction and a weight. Then there are rounds of two phases. Vote: every pixel gets a sum of
 * votes, the weights of all voters whose cones contain the pixel; the cone of a voter is the part
 * of the ball around it within an angle of its direction. Turn: every voter turns towards the pixel
 * with the largest sum in its cone. The angle decreases from round to round. The sums of the last
 * round are scores; their peaks are the cells.
 *
 * docs/dev/analyses/voting.md has the definitions; tests/oracle/voting_oracle.py is an independent
 * implementation of them.
 *
 * A cone cut by a ball is convex, so it meets each row of pixels in an interval, called a span
 * here. A table has the spans for each direction and each row around a voter. A vote then only adds
 * the weight at the beginning of a span and subtracts it behind its end, and running sums along the
 * rows give the votes.
 *
 * A voting_scheme holds what is derived from the parameters and the item's shape. Axes are in the
 * order z, y, x.
 */
#ifndef VOTING_H
#define VOTING_H

#include "app/analysis/analysis.h"
#include "app/base/pool.h"
#include "app/analysis/voting/core.h"

enum {
    VOTING_MAX_RADIUS_2D = 127, /* greatest radius in an image, in pixels along any axis */
    VOTING_MAX_RADIUS_3D = 32,  /* greatest radius in a stack, in pixels along any axis */
    VOTING_MAX_SIGMA = 16,      /* greatest sigma, in pixels of the finest axis */
    VOTING_MAX_RATIO = 32,      /* greatest ratio of a stack's spacings */
    VOTING_MAX_ROUNDS = 12      /* greatest number of rounds */
};

/* Whether cells are brighter or darker than the background. VOTING_AUTO: this is decided for each
 * item from its pixels. */
enum { VOTING_BRIGHT, VOTING_DARK, VOTING_AUTO };

typedef struct voting_params {
    an_params_head head;
    double radius;         /* radius of a cell, in pixels; for stacks in the unit of the spacing */
    bool radius_per_image; /* a radius of its own, at most `radius`, is determined for each image */
    double sigma;          /* sigma of the blur, in pixels of the finest axis */
    int32_t polarity;      /* VOTING_BRIGHT, VOTING_DARK or VOTING_AUTO */
    bool threshold_auto;   /* the threshold is "auto" (voting_apply_threshold) */
    double threshold;      /* unless `threshold_auto`: the least score of a point */
    int cone;        /* half-angle of the first round's cones: 0: 90 degrees; 1: 45; 2: 22.5 */
    bool root;       /* a voter's weight is the square root of its gradient; else the gradient */
    double floor;    /* noise floor, in standard deviations of the noise */
    bool refine;     /* points are moved to where the gradients around them meet */
    bool foreground; /* points that are not on Otsu's foreground are left out */
    int32_t classes; /* foreground: classes of grey values, 2 to AN_OTSU_CLASSES */
} voting_params;

/* The phases. The state consists of an an_state_head, uint32_t votes[n] and uint32_t voters[n], n
 * being the number of pixels. Each phase processes bands of rows in order, so both backends have
 * the same state after every chunk. It reads and writes:
 *   BLUR    pixels -> votes (the blurred picture)
 *   VOTERS  votes -> voters
 *   VOTE    voters -> votes
 *   TURN    votes, voters -> voters
 *   REBLUR  pixels -> voters (the blurred picture again, for the refinement of points) */
typedef enum voting_phase {
    VOTING_BLUR,
    VOTING_VOTERS,
    VOTING_VOTE,
    VOTING_TURN,
    VOTING_REBLUR
} voting_phase;

/* The votes of a state; the voters are n elements further on. */
static inline uint32_t *voting_votes(void *state)
{
    return (uint32_t *)(void *)((unsigned char *)state + sizeof(an_state_head));
}
static inline const uint32_t *voting_votes_const(const void *state)
{
    return (const uint32_t *)(const void *)((const unsigned char *)state + sizeof(an_state_head));
}

/* All values that are derived from the parameters and an item: geometry, rounds and chunks. */
typedef struct voting_scheme {
    uint32_t nx, ny, nz;
    size_t n;         /* number of pixels */
    int scale[3];     /* spacing of each axis in 1/64 of the smallest spacing; at least 64 */
    int64_t radius64; /* the radius of the cones' balls, in 1/64 of the smallest spacing */
    voting_shape shape;
    size_t n_dirs; /* number of directions */
    int rounds;
    uint32_t cos2[VOTING_MAX_ROUNDS]; /* for each round: the square of the cosine of the
                                         cones' half-angle, in units of 2^-20 */
    double radius;                    /* the radius in the unit of voting_params.radius */
    uint32_t band_rows;               /* rows of a band; a band lies within one slice */
    uint64_t bands_per_slice, bands;  /* number of bands of a slice, and of the item */
    int phases;                       /* number of phases, counting those of each round */
    uint64_t chunks; /* phases * bands: a chunk of the work is one band of a phase */
} voting_scheme;

/* Fills the scheme. Returns TC_BAD_INPUT if the item's spacing does not allow the radius. where:
 * text that messages begin with. */
tc_status voting_scheme_init(const voting_params *p, const wu_item *item, const char *where,
                             voting_scheme *s, tc_err *err);
/* Sets *phase, *round and *band to the phase, its round and the band that a chunk of the work
 * consists of. */
void voting_chunk_at(const voting_scheme *s, uint64_t chunk, voting_phase *phase, int *round,
                     uint64_t *band);
/* Sets *z to the slice of a band, and *y0 and *y1 to its rows [*y0, *y1). */
void voting_band_rows(const voting_scheme *s, uint64_t band, uint32_t *z, uint32_t *y0,
                      uint32_t *y1);

/* foreground.c: sets *dark to whether cells are dark; with VOTING_AUTO, from the item's pixels. */
tc_status voting_find_dark(const an_work *work, bool *dark, tc_err *err);
/* radius.c */
/* For voting_params.radius_per_image: sets *radius to the radius that is determined from the item's
 * pixels. */
tc_status voting_find_radius(const an_work *work, double *radius, tc_err *err);
/* The smallest value that voting_find_radius can set. */
double voting_least_radius(const voting_params *p);
/* The radius of cells, in pixels, if the median area of regions is `area` pixels. */
double voting_radius_of(int64_t area);
/* Finds the cells of picture i as regions, by the analysis cellcount with these parameters. Sets
 * area to the three quartiles of the regions' areas, in pixels, or to 0 if there are no regions.
 * Adds the number of regions to *n. */
tc_status voting_find_area(const struct an_pictures *pictures, size_t i, const json_t *parameters,
                           int64_t area[3], size_t *n, tc_err *err);
/* plan.c */
/* For voting_params.radius_per_image: changes the scheme from p->radius to a smaller radius. A
 * smaller radius needs fewer rounds, but the number of rounds stays the same (the last one is
 * repeated), so that the number of chunks, which the state counts, does not depend on the
 * pixels. */
tc_status voting_set_radius(const voting_params *p, const wu_item *item, double radius,
                            voting_scheme *s, tc_err *err);
/* Sets the fields of the scheme that depend on the item's pixels: shape.floor and shape.shift; if
 * the polarity is VOTING_AUTO, also the sign of shape.inverse; with voting_params.radius_per_image,
 * also the radius (voting_set_radius). */
tc_status voting_scheme_use_pixels(const an_work *work, voting_scheme *s, tc_err *err);

/* The number of uint32_t of scratch memory that voting_blur needs for this many rows. */
size_t voting_blur_scratch(const voting_scheme *s, uint32_t rows);
/* Writes rows [y0, y1) of slice z of the blurred picture into out, [y1 - y0][nx]. */
void voting_blur(const voting_scheme *s, const wu_pixels *px, uint32_t z, uint32_t y0, uint32_t y1,
                 uint32_t *scratch, uint32_t *out);

/* --- tables.c -------------------------------------------------------------------------------- */

/* Directions, and the spans of their cones in one round. reach_z and reach_y are shape.reach[0] and
 * [1]. */
typedef struct voting_tables {
    int8_t (*dirs)[3];     /* [n_dirs]: components z, y, x of a direction */
    uint16_t *dir_of_code; /* [voting_code_count]: for a code (voting_direction_code), the index of
                              its direction in dirs */
    uint16_t *dir_of_offset; /* [2 reach_z + 1][2 reach_y + 1][2 reach_x + 1]: index of the
                                direction of an offset in pixels; 0 for the offset 0 */
    /* [2 reach_z + 1][2 reach_y + 1]: for each row around the voter, the end e: the ball contains
     * the row's pixels from -e to e, relative to the voter; -1 if it contains none. */
    int8_t *ends;
    voting_span *spans; /* the span of each cone in each row: see voting_spans_at */
    voting_span *rows;  /* [2 reach_z + 1][n_dirs]: first and last row with a span */
    int round;          /* the round that spans and rows are made for; -1: none yet */
} voting_tables;

/* Makes all tables except `spans` and `rows`, which voting_tables_set_round makes. */
tc_status voting_tables_init(const voting_scheme *s, voting_tables *t, tc_err *err);
/* Makes t->spans and t->rows for a round, unless they are already made for this round. */
tc_status voting_tables_set_round(const an_work *work, const voting_scheme *s, voting_tables *t,
                                  int round, an_pool *pool, tc_err *err);
void voting_tables_free(voting_tables *t);
/* Bytes of all tables. */
size_t voting_tables_bytes(const voting_scheme *s);
/* The number of codes of directions (voting_direction_code): the integer points of the cube on
 * whose surface the directions lie, including the points inside. */
size_t voting_code_count(const voting_scheme *s);
/* The number of elements of voting_tables.spans. */
size_t voting_span_count(const voting_scheme *s);
/* Number of rows around a voter, of all slices. */
size_t voting_offset_rows(const voting_scheme *s);

/* --- points ---------------------------------------------------------------------------------- */

typedef struct voting_peak {
    uint32_t score;
    uint32_t z, y, x; /* the pixel of the peak */
    double point[3];  /* position in the result (z, y, x): that of the peak, or the refined one */
} voting_peak;

/* A list of peaks or points. */
typedef struct voting_peaks {
    size_t n, room; /* used and allocated elements of the list */
    voting_peak *list;
    /* set by voting_apply_threshold */
    uint64_t sum;       /* of the scores of all peaks */
    uint32_t threshold; /* the threshold "auto"; 0 if there is no peak */
} voting_peaks;

/* output.c */
/* Compares two voting_peak, for qsort: the higher score comes first; of equal scores, the peak that
 * is earlier in the picture. */
int voting_compare_peaks(const void *a, const void *b);
/* Sorts peaks by voting_compare_peaks, and removes each one that is nearer than the radius to a
 * peak that comes before it and was not removed. */
tc_status voting_suppress_peaks(const voting_scheme *s, voting_peaks *p, const tc_poll *poll,
                                tc_err *err);
/* The threshold "auto" if score is that of the middle peak (voting_apply_threshold): the least
 * integer that is at least 3/10 of it. */
uint32_t voting_threshold_of(uint32_t score);
/* Removes the peaks below the threshold, and sets p->sum and p->threshold. The peaks must be sorted
 * by voting_compare_peaks. */
void voting_apply_threshold(const voting_params *params, voting_peaks *p);
/* refine.c: moves each peak to the point where the gradients around it meet, and removes the peaks
 * around which gradients do not meet. blurred: the blurred picture, as in the state after REBLUR.
 * lines: NULL, or for each peak the sums that voting_add_line makes of the gradients around it;
 * then blurred is NULL.
 */
tc_status voting_refine(const voting_scheme *s, const uint32_t *blurred, const voting_lines *lines,
                        an_pool *pool, voting_peaks *p, const tc_poll *poll, tc_err *err);
/* foreground.c */
/* The foreground of an item: pixels on the cells' side of a threshold. */
typedef struct voting_foreground {
    bool is_all; /* all pixels, as the parameters do not ask for another foreground */
    bool dark;
    uint32_t threshold;
} voting_foreground;

tc_status voting_find_foreground(const an_work *work, voting_foreground *f, tc_err *err);
/* Whether the mean of the pixels around a point, in its slice, is on the foreground. */
bool voting_is_foreground(const wu_pixels *px, const voting_foreground *f, const double point[3]);
/* Removes the peaks that are not on the foreground. */
void voting_keep_foreground(const wu_pixels *px, const voting_foreground *f, voting_peaks *p);
/* output.c */
/* Finds the points of a final state, without voting_keep_foreground. *points must be empty; the
 * caller frees its list. */
tc_status voting_find_points(const an_work *work, const voting_scheme *s, const void *state,
                             voting_peaks *points, tc_err *err);
/* Removes the peaks that are not on the foreground, and makes the item's result from the peaks that
 * remain. */
tc_status voting_add_points(const an_work *work, double radius, size_t item_index, voting_peaks *p,
                            wu_output *out, tc_err *err);

/* params.c */
extern const an_param voting_parameters[];
tc_status voting_derive_params(void *params, const char *where, tc_err *err);

/* state.c: implements an_analysis.check_state. */
tc_status voting_check_state(const an_work *work, const void *state, tc_err *err);
/* output.c: implements the functions of an_analysis with these names. */
tc_status voting_finish(const an_work *work, size_t item_index, const void *state, wu_output *out,
                        tc_err *err);
/* Writes a note if there are no points. */
bool voting_note_result(const void *params, const wu_item *item, const wu_output *out, char *text,
                        size_t size);
/* Declares the arrays of an item's result: names, types and shapes, without data. */
tc_status voting_declare_arrays(const void *params, const wu_item *item, wu_output *out,
                                tc_err *err);
/* check.c */
tc_status voting_check_result(const void *params, const wu_item *item, const wu_output *out,
                              tc_err *err);
/* suggest.c */
tc_status voting_suggest(const struct an_pictures *pictures, const json_t *given,
                         struct an_suggestion *out, tc_err *err);
/* pixels.c */
/* The average cost of voting_check_pixels, as a share, 0 to 1, of the cost of computing the item.
 */
double voting_pixels_share(const an_work *work);
tc_status voting_check_pixels(const an_work *work, const wu_output *out, uint64_t *random,
                              tc_err *err);

/* cpu.c */
extern const an_backend voting_cpu;
/* Does all phases with a given scheme, on which voting_scheme_use_pixels has been called; if the
 * work's item is a part of a picture, that call was for the whole picture. */
tc_status voting_cpu_run(const an_work *work, const voting_scheme *s, void *state, tc_err *err);
/* Bytes that voting_cpu allocates for the voters of a step of TURN, before it copies them to the
 * state. */
uint64_t voting_turned_bytes(const voting_scheme *s);
/* Bytes of scratch memory that voting_cpu allocates for each thread. */
uint64_t voting_thread_bytes(const voting_scheme *s);

#endif
