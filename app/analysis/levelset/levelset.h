/*
 * levelset: segmentation by an interface that moves through a picture or stack: the set of points
 * where the function phi is 0. phi is negative inside and positive outside. This header declares
 * the parameters, the state and the preparation, which both backends share.
 * docs/dev/analyses/levelset.md has the definition.
 *
 * An iteration computes F = (-alpha D + (1 - alpha) kappa) * stop and U = F |grad phi| (upwind),
 * and adds dt U to phi. D is the data term, from the grey values; kappa is the curvature; stop is a
 * factor below 1 at edges. real.h has the arithmetic.
 */
#ifndef LEVELSET_H
#define LEVELSET_H

#include "app/analysis/analysis.h"
#include "app/analysis/common/gauss.h"
#include "app/analysis/levelset/core.h"
#include "app/base/pool.h"

enum {
    LS_MAX_ITERATIONS = 10000000, /* greatest number of iterations */
    /* The bounds of ls_params.band, in pixels. In a narrower band the interface could leave the
     * active blocks before they are listed again, after LS_RELIST_EVERY (core.h) iterations. */
    LS_MIN_BAND = 3,
    LS_MAX_BAND = 1000,
    LS_MAX_SMOOTH = AN_GAUSS_MAX_SIGMA /* greatest ls_params.smooth, in pixels */
};

typedef enum ls_init_kind { LS_INIT_BOX, LS_INIT_BALL, LS_INIT_MASK, LS_INIT_OTSU } ls_init_kind;

typedef struct ls_params {
    an_params_head head;
    double target, epsilon; /* grey values: D = epsilon - |grey value - target| */
    double alpha;           /* weight of D in F, 0 to 1 */
    int64_t iterations;
    bool cfl;             /* each iteration's time step is chosen by ls_cfl_step (core.h), from the
                             speed of the interface (Courant-Friedrichs-Lewy condition) */
    double dt;            /* the time step, unless cfl */
    int64_t reinit_every; /* iterations from one re-initialisation to the next; 0: never */
    int64_t band;       /* half the width of the narrow band, in pixels; 0: no band, all voxels are
                           computed */
    double smooth;      /* sigma of a Gaussian filter of the grey values, in pixels; 0: none */
    double edge_stop;   /* weight of the squared gradient in `stop`; 0: there is no `stop` */
    int64_t stop_after; /* the evolution ends early once no voxel has crossed the interface in this
                           number of iterations; 0: it does not end early */
    ls_init_kind init;
    bool init_has_z;     /* z0 and z1 of the box, or cz of the ball, are given */
    int64_t box[6];      /* x0 x1 y0 y1 z0 z1 */
    double centre[3], r; /* centre (x, y, z) and radius of the ball */
    bool otsu;           /* the target is the mean of the pixels on one side of Otsu's threshold */
    bool dark; /* with Otsu's threshold: the structure's pixels are below it, not above it */
    /* ls_resolve sets the following members, except `stretch`, from the picture. */
    bool resolved;      /* target, epsilon, gain and threshold have been set */
    bool stretch;       /* set by a validator that computes only some of the iterations: the
                           re-initialisation after the last one is omitted */
    uint32_t threshold; /* Otsu's threshold: the lowest grey value of the bright class */
    double gain;        /* with otsu, a factor of D: D is the given epsilon at the target */
} ls_params;

/* Copies the parameters. If they depend on Otsu's threshold, sets target, epsilon, gain and
 * threshold from the item's pixels; returns TC_BAD_INPUT if all pixels have the same grey value. */
tc_status ls_resolve(const an_work *work, ls_params *out, tc_err *err);
/* The message of the TC_BAD_INPUT that ls_resolve returns. */
extern const char ls_flat_message[];

/* --- chunks ---------------------------------------------------------------------
 *
 * A re-initialisation makes phi the signed distance to the interface. Chunk 0 is a
 * re-initialisation. After it each iteration is a chunk, and so is the re-initialisation after
 * every reinit_every-th iteration. */
/* Returns the number of iterations among the first `chunks` chunks. */
uint64_t ls_iterations_at(const ls_params *p, uint64_t chunks);
/* Returns the number of chunks up to and including this iteration. iteration: from 1 on. */
uint64_t ls_chunks_after(const ls_params *p, uint64_t iteration);
/* Whether a chunk is a re-initialisation. */
bool ls_is_reinit(const ls_params *p, uint64_t chunk);

/* --- stretches ------------------------------------------------------------------
 *
 * Right after a re-initialisation phi depends only on which side of the interface each voxel is on.
 * So if a job has at least LS_LEAST_STRETCHES re-initialisations, its result stores ("keeps") the
 * sides of all voxels at up to LS_HISTORY_BITS re-initialisations. Each voxel has a word with one
 * bit for each stored re-initialisation. A validator can repeat a stretch: the iterations from one
 * stored re-initialisation to the next. */
enum {
    LS_HISTORY_BITS = 32,  /* greatest number of stored re-initialisations */
    LS_LEAST_STRETCHES = 4 /* with fewer re-initialisations, not counting chunk 0, none is stored */
};
/* Returns n if one in n re-initialisations is stored; 0 if none is stored. */
uint64_t ls_history_every(const ls_params *p);
/* Returns the bit for the sides at this chunk; LS_HISTORY_BITS if they are not stored. */
uint32_t ls_history_bit(const ls_params *p, uint64_t chunk);
/* Returns the number of stored re-initialisations if the evolution ended after `iterations`
 * iterations; 0 if ls_history_every is 0. converged: the evolution ended because of stop_after. */
uint32_t ls_history_count(const ls_params *p, int64_t iterations, bool converged);

/* --- state ---------------------------------------------------------------------
 *
 * The state consists of: ls_head; phi [nz][ny][nx], from byte LS_PHI_AT on; LS_PAD_BYTES zeros,
 * which vector code may read with phi; near[block] (core.h) of all blocks; and if sides are stored,
 * from the next multiple of four bytes on, a word of stored sides for each voxel. */
typedef struct ls_head {
    an_state_head head;
    uint64_t last_change; /* last iteration in which a voxel changed sides */
} ls_head;
enum {
    LS_PHI_AT = 64,    /* byte of the state where phi begins */
    LS_PAD_BYTES = 128 /* bytes of zeros after phi */
};

/* The size of an item in voxels, and in the blocks of core.h. */
typedef struct ls_size {
    uint32_t nx, ny, nz;
    size_t voxels;
    uint32_t bx, by, bz; /* numbers of blocks along x, y and z */
    size_t blocks;       /* bx * by * bz */
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

/* Where the words of kept sides begin in the state. */
static inline size_t ls_history_at(const ls_size *size)
{
    return LS_PHI_AT + size->voxels * sizeof(float) + LS_PAD_BYTES + (size->blocks + 3) / 4 * 4;
}
size_t ls_state_bytes(const ls_params *p, const ls_size *size);

/* Whether the evolution has ended: all iterations are done, or it has converged. */
bool ls_has_ended(const ls_params *p, const ls_head *head);
/* Whether no voxel has changed sides in the last stop_after iterations. */
bool ls_has_converged(const ls_params *p, const ls_head *head);
/* The largest time step at which the curvature term certainly makes phi smoother, not rougher;
 * infinite if alpha is 1. The roughest possible phi is a checkerboard of values a and -a. If d axes
 * are longer than one voxel, its curvature is d and its upwind gradient sqrt(8d) a. Its amplitude
 * grows if the time step is above 1 / (d sqrt(2d) (1 - alpha)). The bound is nine tenths of this
 * time step. */
float ls_max_time_step(const ls_params *p, const ls_size *size);
/* Whether a voxel is inside at the start. px is only used for LS_INIT_MASK and LS_INIT_OTSU; for
 * LS_INIT_OTSU p must come from ls_resolve. */
bool ls_starts_inside(const ls_params *p, const wu_pixels *px, uint32_t x, uint32_t y, uint32_t z);
/* suggest.c */
tc_status ls_suggest(const struct an_pictures *pictures, const json_t *given,
                     struct an_suggestion *out, tc_err *err);
/* Sets *err to the message that phi is not finite after this iteration; returns TC_BAD_INPUT. */
tc_status ls_not_finite(uint64_t iteration, tc_err *err);

/* --- preparation ----------------------------------------------------------------------------- */

/* The terms of F that come from the pixels: [nz][ny][nx], followed by LS_PAD_BYTES bytes. */
typedef struct ls_force {
    float *data; /* -alpha D */
    float *stop; /* the factor of F that is below 1 at edges; NULL without edge_stop */
} ls_force;
/* Computes *force from the pixels. The caller frees it by ls_force_free; it is empty after a
 * failure. */
tc_status ls_force_make(const an_work *work, ls_force *force, tc_err *err);
void ls_force_free(ls_force *force);

/* -alpha D at a grey value. With otsu the data term is gain * (epsilon - excess), where excess is
 * how far the grey value lies from the target towards the other side of the threshold; it is 0 on
 * the target's other side. */
static inline float ls_data_term(const ls_params *p, float grey)
{
    const float difference = grey - (float)p->target, excess = p->dark ? difference : -difference,
                epsilon = (float)p->epsilon;

    return p->otsu ? -(float)(p->alpha * p->gain) * (epsilon - (excess > 0 ? excess : 0))
                   : -(float)p->alpha * (epsilon - __builtin_fabsf(difference));
}

/* output.c: the indices of the mask and of the words of kept sides among an item's arrays. */
enum { LS_OUT_MASK = 4, LS_OUT_HISTORY };

/* params.c */
extern const an_param ls_parameters[];
tc_status ls_derive_params(void *params, const char *where, tc_err *err);

/* output.c */
tc_status ls_check_state(const an_work *work, const void *state, tc_err *err);
tc_status ls_finish(const an_work *work, size_t item_index, const void *state, wu_output *out,
                    tc_err *err);
/* Implements an_analysis.note_result: if a result looks wrong, writes advice to text, which has
 * `size` bytes, and returns true. */
bool ls_note_result(const void *params, const wu_item *item, const wu_output *out, char *text,
                    size_t size);
/* Implements an_analysis.declare_arrays: declares the arrays that an item's result has. */
tc_status ls_declare_arrays(const void *params, const wu_item *item, wu_output *out, tc_err *err);
/* check.c */
tc_status ls_check_result(const void *params, const wu_item *item, const wu_output *out,
                          tc_err *err);
/* pixels.c */
/* Implements an_analysis.pixels_share: the cost of ls_check_pixels as a share of the cost of the
 * item. */
double ls_pixels_share(const an_work *work);
tc_status ls_check_pixels(const an_work *work, const wu_output *out, uint64_t *random, tc_err *err);
/* pixels.c: implement an_analysis.most_steps and check_end. */
uint64_t ls_most_steps(const void *params);
tc_status ls_check_end(const an_work *work, const wu_output *out, tc_err *err);
/* The sides of all voxels right before a re-initialisation, and later ones according to a result.
 */
typedef struct ls_claim {
    const an_work *work;
    const ls_params *p; /* the parameters of the item (ls_resolve) */
    const uint8_t *from, *to;
    int64_t iterations; /* number of iterations that ls_check_claim computes from `from` on */
    /* The claim is improbable if more than the share `denied` of the push of the data term on the
     * outline is in another direction, and at least the share `wrong` of a block's voxels, where
     * this push is greatest, change sides in another way. */
    double denied, wrong;
} ls_claim;
/* patch.c: computes all iterations of work->params on the CPU. state: [ls_state_bytes]: phi is
 * below 0 inside, above 0 outside. */
tc_status ls_compute(const an_work *work, void *state, tc_err *err);
/* patch.c: returns TC_NO_MATCH if the claim is improbable. */
tc_status ls_check_claim(const ls_claim *claim, tc_err *err);
/* output.c: returns the volume of `inside` voxels, in the cube of the unit of the item's spacing;
 * for a picture their number. */
double ls_inside_volume(const wu_item *item, int64_t inside);

extern const an_backend ls_cpu;
/* The bytes of memory that ls_cpu allocates for each thread. */
uint64_t ls_thread_bytes(const ls_size *size);

#endif
