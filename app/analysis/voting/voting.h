/*
 * voting: finds cells by iterative voting (Saadatifard et al. 2018), in
 * integers throughout, so that no order of summation can change a bit.
 *
 *   blur -> gradient -> every pixel above the noise floor is a voter: a
 *   direction and a weight -> rounds of: vote (every pixel sums the weights of
 *   the voters whose cone it lies in) and turn (every voter turns to the
 *   largest sum in its cone); the cone narrows from round to round
 *   -> the last round's sums are the scores; their peaks are the cells.
 *
 * docs/dev/analyses/voting.md has the definitions; tests/oracle/voting_oracle.py
 * follows them by other means.
 *
 * A cone cut by a ball is convex, so its part in any one row of pixels is an
 * interval. A table gives it for each direction and each row around the voter:
 * a vote is then two additions to differences along the row, and no pixel of
 * the row is touched otherwise.
 */
#ifndef VOTING_H
#define VOTING_H

#include "app/analysis/analysis.h"
#include "app/base/pool.h"
#include "app/analysis/voting/core.h"

enum {
    VOTING_MAX_RADIUS_2D = 127, /* pixels along any axis */
    VOTING_MAX_RADIUS_3D = 32,
    VOTING_MAX_SIGMA = 16, /* pixels */
    VOTING_MAX_RATIO = 32, /* of the spacings of a stack */
    VOTING_MAX_ROUNDS = 12
};

enum { VOTING_BRIGHT, VOTING_DARK, VOTING_AUTO };

typedef struct voting_params {
    an_params_head head;
    double radius;    /* pixels, or the unit of the spacing */
    bool own_radius;  /* of each image, up to that */
    double sigma;     /* pixels (of the finest axis) */
    int32_t polarity; /* VOTING_BRIGHT, VOTING_DARK, VOTING_AUTO */
    bool automatic;   /* threshold "auto" */
    double threshold; /* otherwise: least score */
    int cone;         /* first half-angle: 0: 90 degrees, 1: 45, 2: 22.5 */
    bool root;        /* weight by the root of the gradient, not by itself */
    double floor;     /* noise floor, standard deviations */
    bool refine;
    bool foreground; /* "otsu": points elsewhere are left out */
    int32_t classes; /* of it: 2 to AN_OTSU_CLASSES */
} voting_params;

/* The state: an_state_head, u32 votes[n], u32 voters[n]. The phases use these
 * planes like this (rows in order, so both backends agree at every chunk):
 *   BLUR    pixels -> votes (blurred picture)
 *   VOTERS  votes -> voters
 *   VOTE    voters -> votes        TURN    votes, voters -> voters
 *   REBLUR  pixels -> voters (blurred picture, for the refinement of points) */
typedef enum voting_phase {
    VOTING_BLUR,
    VOTING_VOTERS,
    VOTING_VOTE,
    VOTING_TURN,
    VOTING_REBLUR
} voting_phase;

static inline uint32_t *voting_votes(void *state)
{
    return (uint32_t *)(void *)((unsigned char *)state + sizeof(an_state_head));
}
static inline const uint32_t *voting_votes_const(const void *state)
{
    return (const uint32_t *)(const void *)((const unsigned char *)state + sizeof(an_state_head));
}

/* What follows from parameters and the item's shape. */
typedef struct voting_scheme {
    uint32_t nx, ny, nz;
    size_t n;         /* pixels */
    int scale[3];     /* z, y, x: spacing in 1/64 of the smallest; 64 is the smallest */
    int64_t radius64; /* in 1/64 of the smallest spacing */
    voting_shape shape;
    size_t n_dirs;
    int rounds;
    uint32_t cos2[VOTING_MAX_ROUNDS]; /* square of the cosine of the half-angle, 2^-20 */
    double radius;                    /* as a parameter is */
    /* chunks of the work: bands of rows of one slice, phase by phase */
    uint32_t band_rows;
    uint64_t bands_per_slice, bands;
    int phases;
    uint64_t chunks;
} voting_scheme;

/* TC_BAD_INPUT where the radius or the spacing does not do; where: of messages. */
tc_status voting_scheme_init(const voting_params *p, const wu_item *item, const char *where,
                             voting_scheme *s, tc_err *err);
/* What a chunk does: the phase, its round, and the band within the item. */
void voting_chunk_at(const voting_scheme *s, uint64_t chunk, voting_phase *phase, int *round,
                     uint64_t *band);
/* Slice and rows [y0, y1) of a band. */
void voting_band_rows(const voting_scheme *s, uint64_t band, uint32_t *z, uint32_t *y0,
                      uint32_t *y1);

/* Whether cells are dark, by the picture where that is left to it. */
tc_status voting_find_dark(const an_work *work, bool *dark, tc_err *err);
/* radius.c: of a picture whose own radius counts. */
tc_status voting_own_radius(const an_work *work, double *radius, tc_err *err);
double voting_least_radius(const voting_params *p);
/* The radius for a median area of regions. */
double voting_radius_of(int64_t area);
/* The quartiles of the areas of cellcount's regions in a picture; 0: there are none. *n: plus their
 * number. */
tc_status voting_find_area(const struct an_pictures *pictures, size_t i, const json_t *parameters,
                           int64_t area[3], size_t *n, tc_err *err);
/* With own_radius the scheme is that of the greatest until this: rounds that a smaller one does not
 * have are its last one again. */
tc_status voting_take_radius(const voting_params *p, const wu_item *item, double radius,
                             voting_scheme *s, tc_err *err);
/* What follows from the pixels besides, shape.floor and shift, and the gradient's sign where it is
 * left to the picture: see docs. */
tc_status voting_levels_init(const an_work *work, voting_scheme *s, tc_err *err);

/* A band of the blurred picture: rows [y0, y1) of slice z to out[rows][nx].
 * scratch: voting_blur_scratch(s, rows) words. */
size_t voting_blur_scratch(const voting_scheme *s, uint32_t rows);
void voting_blur(const voting_scheme *s, const wu_pixels *px, uint32_t z, uint32_t y0, uint32_t y1,
                 uint32_t *scratch, uint32_t *out);

/* --- tables ---------------------------------------------------------------------------------- */

/* Directions, and what a voter's cone covers in one round. */
typedef struct voting_tables {
    int8_t (*dirs)[3];       /* [n_dirs] z, y, x */
    uint16_t *dir_of_code;   /* [(2 side + 1)^d]: index of a direction, by voting_code */
    uint16_t *dir_of_offset; /* [2 reach+1]^3: the direction of an offset; 0 for none */
    int8_t *ends; /* [2 reach_z + 1][2 reach_y + 1]: last pixel of the row in the ball; -1: none */
    voting_span *spans; /* [n_dirs]: see voting_spans_at */
    voting_span *rows;  /* [2 reach_z + 1][n_dirs]: first and last row with a span */
    int round;          /* of the spans and rows; -1: none yet */
} voting_tables;

tc_status voting_tables_init(const voting_scheme *s, voting_tables *t, tc_err *err);
tc_status voting_tables_round(const an_work *work, const voting_scheme *s, voting_tables *t,
                              int round, an_pool *pool, tc_err *err);
void voting_tables_free(voting_tables *t);
size_t voting_tables_bytes(const voting_scheme *s);
size_t voting_codes(const voting_scheme *s);       /* points of the cube that directions are of */
size_t voting_spans(const voting_scheme *s);       /* of all directions */
size_t voting_offset_rows(const voting_scheme *s); /* rows around a voter, in all slices */

/* --- points ---------------------------------------------------------------------------------- */

typedef struct voting_peak {
    uint32_t score;
    uint32_t z, y, x;
    double at[3]; /* z, y, x: the peak, or refined */
} voting_peak;

typedef struct voting_peaks {
    size_t n, room;
    voting_peak *list;
} voting_peaks;

/* The order of two voting_peak, for qsort: best first, then first in the picture. */
int voting_by_order(const void *a, const void *b);
/* Best first; a peak nearer than the radius to a kept one goes. */
tc_status voting_suppress(const voting_scheme *s, voting_peaks *p, const tc_poll *poll,
                          tc_err *err);
/* Leaves out the peaks, best first, below the threshold. */
void voting_apply_threshold(const voting_params *params, voting_peaks *p);
/* refine.c. blurred: the picture, as in the state after REBLUR; or the lines around each
 * peak, made from it elsewhere, where these are not NULL. Leaves out the peaks at which the
 * gradients do not meet. */
tc_status voting_refine(const voting_scheme *s, const uint32_t *blurred, const voting_lines *lines,
                        an_pool *pool, voting_peaks *p, const tc_poll *poll, tc_err *err);
/* foreground.c. Leaves out the peaks that are not on the foreground, if that is wanted. */
tc_status voting_keep_foreground(const an_work *work, voting_peaks *p, tc_err *err);
/* The points of a final state, but for those. *found: empty; its list is the caller's. */
tc_status voting_find_points(const an_work *work, const voting_scheme *s, const void *state,
                             voting_peaks *found, tc_err *err);
/* The peaks as the item's result, but for those. */
tc_status voting_add_points(const an_work *work, double radius, size_t item_index, voting_peaks *p,
                            wu_output *out, tc_err *err);

/* params.c */
extern const an_param voting_parameters[];
tc_status voting_derive_params(void *params, const char *where, tc_err *err);

tc_status voting_check_state(const an_work *work, const void *state, tc_err *err);
tc_status voting_finish(const an_work *work, size_t item_index, const void *state, wu_output *out,
                        tc_err *err);
bool voting_note_result(const void *params, const wu_item *item, const wu_output *out, char *text,
                        size_t size);
/* check.c */
tc_status voting_expect(const void *params, const wu_item *item, wu_output *out, tc_err *err);
tc_status voting_check_result(const void *params, const wu_item *item, const wu_output *out,
                              tc_err *err);
/* pixels.c */
tc_status voting_suggest(const struct an_pictures *pictures, const json_t *given,
                         struct an_suggestion *out, tc_err *err);
double voting_pixels_share(const an_work *work);
tc_status voting_check_pixels(const an_work *work, const wu_output *out, uint64_t *random,
                              tc_err *err);

extern const an_backend voting_cpu;
/* All phases, by a scheme whose levels are known: of a part of an item those of the whole. */
tc_status voting_cpu_run(const an_work *work, const voting_scheme *s, void *state, tc_err *err);
/* What voting_cpu has of bands of turned voters, and for each thread. */
uint64_t voting_turned_bytes(const voting_scheme *s);
uint64_t voting_thread_bytes(const voting_scheme *s);

#endif
