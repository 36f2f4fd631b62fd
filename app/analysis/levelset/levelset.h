/*
 * levelset: segmentation by an evolving interface, in 2D and 3D. Parameters,
 * state and preparation, shared by both backends. docs/dev/analyses/levelset.md
 * has the definition.
 *
 * phi < 0 inside. Iteration: F = (-alpha D + (1-alpha) kappa) * stop,
 * U = F |grad phi| (upwind), phi += dt U. real.h has the arithmetic.
 */
#ifndef LEVELSET_H
#define LEVELSET_H

#include "app/analysis/analysis.h"
#include "app/analysis/common/gauss.h"
#include "app/analysis/levelset/core.h"
#include "app/base/pool.h"

enum {
    LS_MAX_ITERATIONS = 10000000,
    LS_MIN_BAND = 3, /* the list of blocks is renewed often enough for that */
    LS_MAX_BAND = 1000,
    LS_MAX_SMOOTH = AN_GAUSS_MAX_SIGMA
};

typedef enum ls_init_kind { LS_INIT_BOX, LS_INIT_BALL, LS_INIT_MASK, LS_INIT_OTSU } ls_init_kind;

typedef struct ls_params {
    an_params_head head;
    double target, epsilon, alpha;
    int64_t iterations;
    bool cfl;
    double dt;            /* unless cfl: then ls_bound */
    int64_t reinit_every; /* 0: never */
    int64_t band;         /* 0: dense */
    double smooth;        /* 0: off */
    double edge_stop;     /* 0: off */
    int64_t stop_after;   /* 0: never */
    ls_init_kind init;
    bool init_has_z;     /* box: z0, z1; ball: cz */
    int64_t box[6];      /* x0 x1 y0 y1 z0 z1 */
    double centre[3], r; /* x y z */
    bool otsu;           /* target: from the picture */
    bool dark;           /* what is sought by Otsu's threshold is below it */
    /* What follows from the picture (ls_resolve): */
    bool resolved;
    bool stretch; /* a validator's: iterations end where phi would be made a distance, and is not */
    uint32_t threshold; /* Otsu's */
    double gain;        /* otsu: the data term is that of target and epsilon, times this */
} ls_params;

/* The parameters of an item: with Otsu's threshold target, epsilon, gain and threshold are the
 * picture's. TC_BAD_INPUT where it has one grey value. */
tc_status ls_resolve(const an_work *work, ls_params *out, tc_err *err);
/* The message for one that has. */
extern const char ls_flat[];

/* --- chunks ---------------------------------------------------------------------
 *
 * Chunk 0 makes phi a distance; then each iteration is a chunk, and each
 * re-initialisation one more, after every reinit_every-th iteration. */
/* Iterations done when `chunks` chunks are. */
uint64_t ls_iterations_at(const ls_params *p, uint64_t chunks);
/* Chunks done right after an iteration (1..). */
uint64_t ls_chunks_after(const ls_params *p, uint64_t iteration);
/* Whether a chunk is a re-initialisation. */
bool ls_is_reinit(const ls_params *p, uint64_t chunk);

/* --- stretches ------------------------------------------------------------------
 *
 * Right after a re-initialisation phi follows from the sides alone. So with at least
 * LS_LEAST_STRETCHES of them the result keeps the sides of all voxels at up to LS_KEPT
 * re-initialisations, a bit of a word each, and a validator can repeat the stretch from one of them
 * to the next. */
enum { LS_KEPT = 32, LS_LEAST_STRETCHES = 4 };
/* Re-initialisations from one that is kept to the next; 0: none is. */
uint64_t ls_kept_every(const ls_params *p);
/* The bit of a chunk; LS_KEPT: it is not kept. */
uint32_t ls_kept_bit(const ls_params *p, uint64_t chunk);
/* How many are kept after so many iterations, one at least if they have converged. */
uint32_t ls_kept_count(const ls_params *p, int64_t iterations, bool converged);

/* --- state ---------------------------------------------------------------------
 *
 * ls_head; phi [nz][ny][nx] from LS_PHI_AT on; LS_PAD_BYTES zeros (which may be
 * read together with phi); the bits of all blocks (with a band), and if sides are kept, from the
 * next multiple of four bytes on, a word of them for each voxel. */
typedef struct ls_head {
    an_state_head head;
    uint64_t last_change; /* last iteration in which a voxel changed sides */
} ls_head;
enum { LS_PHI_AT = 64, LS_PAD_BYTES = 128 };

/* Sizes of an item. */
typedef struct ls_size {
    uint32_t nx, ny, nz;
    size_t voxels;
    uint32_t bx, by, bz; /* blocks */
    size_t blocks;
} ls_size;
ls_size ls_size_of(const wu_item *item);
static inline float *ls_phi(void *state)
{
    return (float *)(void *)((unsigned char *)state + LS_PHI_AT);
}
static inline const float *ls_phi_const(const void *state)
{
    return (const float *)(const void *)((const unsigned char *)state + LS_PHI_AT);
}
static inline uint8_t *ls_near(void *state, const ls_size *size)
{
    return (uint8_t *)state + LS_PHI_AT + size->voxels * sizeof(float) + LS_PAD_BYTES;
}
static inline const uint8_t *ls_near_const(const void *state, const ls_size *size)
{
    return (const uint8_t *)state + LS_PHI_AT + size->voxels * sizeof(float) + LS_PAD_BYTES;
}

static inline size_t ls_history_at(const ls_size *size)
{
    return LS_PHI_AT + size->voxels * sizeof(float) + LS_PAD_BYTES + (size->blocks + 3) / 4 * 4;
}
size_t ls_state_bytes(const ls_params *p, const ls_size *size);

/* Whether the evolution has ended: all iterations, or stop_after of them
 * without a change. */
bool ls_has_ended(const ls_params *p, const ls_head *head);
bool ls_has_converged(const ls_params *p, const ls_head *head);
/* Above this time step curvature makes phi rougher instead of smoother; infinite without
 * curvature. d axes are longer than one voxel: a checkerboard of height a has the
 * curvature d and the upwind gradient sqrt(8d) a, so it grows from
 * 1 / (d sqrt(2d) (1 - alpha)) on. A tenth is left to spare. */
float ls_bound(const ls_params *p, const ls_size *size);
/* Whether the start holds a voxel. px: for a mask, and for a start by a threshold, whose parameters
 * are an item's. */
bool ls_starts_inside(const ls_params *p, const wu_pixels *px, uint32_t x, uint32_t y, uint32_t z);
/* suggest.c */
tc_status ls_suggest(const struct an_pictures *pictures, const json_t *given,
                     struct an_suggestion *out, tc_err *err);
/* The error for a phi that is not finite after an iteration. */
tc_status ls_not_finite(uint64_t iteration, tc_err *err);

/* --- preparation ----------------------------------------------------------------------------- */

/* The fields that phi moves in, [nz][ny][nx] and LS_PAD_BYTES more. */
typedef struct ls_force {
    float *data; /* -alpha D */
    float *stop; /* factor of F at edges; NULL without edge_stop */
} ls_force;
/* From the pixels. *force: ls_force_free. */
tc_status ls_force_make(const an_work *work, ls_force *force, tc_err *err);
void ls_force_free(ls_force *force);

/* output.c: where the mask and, if sides are kept, their words are among an item's arrays. */
enum { LS_OUT_MASK = 4, LS_OUT_HISTORY };

/* params.c */
extern const an_param ls_parameters[];
tc_status ls_derive_params(void *params, const char *where, tc_err *err);

tc_status ls_check_state(const an_work *work, const void *state, tc_err *err);
tc_status ls_finish(const an_work *work, size_t item_index, const void *state, wu_output *out,
                    tc_err *err);
bool ls_note_result(const void *params, const wu_item *item, const wu_output *out, char *text,
                    size_t size);
/* check.c */
tc_status ls_expect(const void *params, const wu_item *item, wu_output *out, tc_err *err);
tc_status ls_check_result(const void *params, const wu_item *item, const wu_output *out,
                          tc_err *err);
/* pixels.c */
double ls_pixels_share(const an_work *work);
tc_status ls_check_pixels(const an_work *work, const wu_output *out, uint64_t *random, tc_err *err);
/* Of so many pixels or voxels inside: cubic micrometres, or pixels for a picture. */
double ls_measure(const wu_item *item, int64_t inside);

extern const an_backend ls_cpu;
/* What ls_cpu has for each thread. */
uint64_t ls_thread_bytes(const ls_size *size);

#endif
