/*
 * volume: the inside of membranes in a stack. Voxels that are no membrane and
 * are not connected with the outside, which surrounds the stack, are inside;
 * their components are cells.
 *
 * Union-find works in the state itself. Node 0 is the outside, node 1 + i is
 * voxel i, in the raster's order. While components are joined, the first voxel of a
 * run of voxels along x holds ~parent; a run at the border belongs to node 0. In
 * the end every voxel has its cell's label, 0 for none. So the state is the only
 * plane there is: with the pixels, 5 or 6 bytes a voxel.
 *
 * A watershed takes the voxels' heights, the higher the darker they are, and finds the hills
 * among them (app/analysis/common/watershed.h); its ways uphill are another plane.
 *
 * There is one place besides the start where an interrupted item can go on: when voxels have been
 * blurred, and the plane has 0 (membrane) or 1, or heights.
 */
#ifndef AN_VOLUME_H
#define AN_VOLUME_H

#include "app/analysis/analysis.h"
#include "app/analysis/common/gauss.h"
#include "app/analysis/common/label.h"
#include "app/analysis/common/watershed.h"
#include "app/analysis/volume/core.h"
#include "app/analysis/volume/layout.h"

/* Membrane before a repair's blur, which a repair's threshold refers to. */
enum { VOL_WHITE = 255, VOL_MAX_SIGMA = 8, VOL_WALLS = 8 };
#define VOL_MIN_SIGMA 0.3

typedef struct vol_params {
    an_params_head head;
    int32_t membrane; /* v >= membrane, 0..65535, unless: */
    bool otsu;        /* each item's own */
    bool watershed;   /* else what membrane surrounds */
    bool through;     /* mode 3d; else each slice by itself */
    double smooth;    /* sigma in voxels; 0: none */
    bool corners;     /* watershed: voxels that touch there are neighbours */
    double h;         /* watershed: the least dynamics of a cell, in grey values */
    bool fill;        /* watershed: membrane belongs to cells */
    bool repair;
    double sigma;                   /* voxels */
    int64_t threshold;              /* 1..VOL_WHITE */
    int64_t min_voxels, max_voxels; /* kept: min_voxels <= voxels <= max_voxels */
    bool exclude_border;
    bool labels;
} vol_params;

/* The phases of an item, in order; those that do not apply have no parts. */
typedef enum vol_phase {
    VOL_HISTOGRAM, /* for Otsu */
    VOL_BLUR,      /* repair, smooth, and the heights of a watershed: along x and y */
    VOL_BLUR_Z,
    VOL_ASCEND,    /* watershed: each voxel leads to its highest neighbour */
    VOL_EDGES,     /* from the borders of plateaus inwards */
    VOL_FLAT,      /* plateaus that are maxima become trees, */
    VOL_FLAT_JOIN, /* each one */
    VOL_TOPS,      /* each voxel leads to the regional maximum that it belongs to */
    VOL_SADDLES,   /* the highest between each two maxima; then maxima are joined */
    VOL_CLEAR,
    VOL_FIRST,  /* the first voxel of each cell */
    VOL_FIRSTS, /* how many there are */
    VOL_NAME,   /* and their labels */
    VOL_LABEL,  /* those of all voxels */
    VOL_COPY,
    VOL_BANDS, /* components, by bands of rows */
    VOL_SEAMS,
    VOL_COUNT, /* of roots */
    VOL_NUMBER,
    VOL_PAINT,
    VOL_BIAS,  /* what a repair took from the inside */
    VOL_SIZES, /* only if something may be left out */
    VOL_LAST,  /* leaves it out, and the traces of a repair */
    VOL_PHASES
} vol_phase;

/* Where an interrupted item goes on, besides the start: the first phase of those that make
 * cells. */
#define VOL_KEPT VOL_ASCEND

typedef struct vol_state {
    an_state_head head;
    uint64_t cells;
    uint64_t membrane, outside; /* voxels */
    uint64_t repair_added;      /* voxels that the repair made membrane */
    uint64_t repair_bias;       /* and those of them taken from the inside */
    uint32_t begun;             /* nodes have been written to, and are not done */
    uint32_t threshold;         /* Otsu's, once it is known; 0 for one that was given */
    int32_t nodes[];            /* [1 + nz*ny*nx] */
} vol_state;

/* Rows are numbered through all slices. A band has about a million
 * voxels. */
static inline size_t vol_band_rows(uint32_t nx)
{
    return ((size_t)1 << 20) / nx + 1;
}

/* --- blur ------------------------------------------------------------------------------------ */

/* Rows of a slice that are blurred by a part, and voxels along x of one, up to so many slices. */
enum { VOL_BLUR_ROWS = 64, VOL_BLUR_CHUNK = 1024, VOL_HIGH = 4096 };

/* What is blurred, and what becomes of it in the plane. */
typedef enum vol_blurred {
    VOL_REPAIR, /* membrane: 0 where it is or becomes membrane, else 1 */
    VOL_SMOOTH, /* grey values: the same */
    VOL_HEIGHTS /* grey values: VOL_TOP less the value in 2^-VOL_GREY_BITS */
} vol_blurred;

typedef struct vol_blur {
    const vol_params *params;
    const wu_pixels *pixels;
    vol_blurred what;
    uint32_t threshold; /* of membrane */
    an_gauss gauss;
    int32_t *plane; /* [nz][ny][nx]: blurred in x and y; then as `what` says */
} vol_blur;

/* Whether an item is blurred, if only to make heights of its grey values, and how. */
static inline bool vol_blurs(const vol_params *p)
{
    return p->repair || p->watershed || p->smooth > 0;
}
vol_blur vol_blur_of(const vol_params *p, const wu_pixels *pixels);
size_t vol_blur_parts(const vol_blur *r, vol_phase phase);
/* uint32_t of scratch memory that a thread needs. */
size_t vol_blur_scratch(const vol_blur *r);
/* Does a part. Returns the number of voxels that became membrane. */
uint64_t vol_blur_part(const vol_blur *r, vol_phase phase, size_t part, uint32_t *scratch);
/* Voxels of rows [row0, row1) that the repair took from the inside. In the
 * plane: labels, 0 for membrane, -1 for the outside. */
uint64_t vol_repair_bias(const vol_blur *r, size_t row0, size_t row1);
/* gaps[w - 1]: the widest slit in a flat wall of w voxels, 1 <= w <= VOL_WALLS,
 * that the repair closes. */
void vol_repair_gaps(const vol_params *p, int64_t *gaps);

/* --- components ------------------------------------------------------------------------------ */

typedef struct vol_stack {
    uint32_t nx, ny, nz;
    size_t stride; /* 64-bit words of a row: lab_stride(nx) */
    bool through;
    /* Makes the words of a row, with a one for each voxel that is no membrane: voxel x is
     * bit x % 64 of word x / 64. */
    void (*row)(const void *source, size_t row, uint64_t *words);
    const void *source;
    int32_t *nodes;  /* the state's */
    uint64_t *roots; /* [nz*ny][stride]: the first voxels of runs that are roots */
} vol_stack;

/* Bytes. */
size_t vol_label_scratch(const vol_stack *s);
/* Makes nodes of the runs of rows [row0, row1) and joins them among themselves. */
void vol_label_band(const vol_stack *s, size_t row0, size_t row1, uint64_t *scratch);
/* Joins these rows with those before row0. Several threads may do so at a time. */
void vol_label_seam(const vol_stack *s, size_t row0, size_t row1, uint64_t *scratch);
/* The runs of a row, as lab_edges gives them. */
size_t vol_runs(const vol_stack *s, size_t row, uint32_t *edges);
/* Whether all runs of a row are at the border of the stack (of the slice). */
bool vol_border_row(const vol_stack *s, size_t row);
/* The node of the run [a, b) of a row; border: vol_border_row. */
static inline int32_t vol_node(const vol_stack *s, size_t row, bool border, uint32_t a, uint32_t b)
{
    return vol_is_border_run(border, a, b, s->nx) ? 0 : (int32_t)(row * s->nx + a + 1);
}

/* --- tables ---------------------------------------------------------------------------------- */

/* What is known of a cell. */
typedef struct vol_cell {
    uint64_t voxels, sum[3]; /* z, y, x */
    uint32_t lo[3], hi[3];   /* half-open */
} vol_cell;

/* Whether a cell is not to be left out. */
static inline bool vol_keeps(const vol_params *p, int64_t voxels, bool border)
{
    return voxels >= p->min_voxels && voxels <= p->max_voxels && !(p->exclude_border && border);
}

/* params.c */
extern const an_param vol_parameters[];
tc_status vol_derive_params(void *params, const char *where, tc_err *err);

tc_status vol_check_state(const an_work *work, const void *state, tc_err *err);
tc_status vol_finish(const an_work *work, size_t item_index, const void *state, wu_output *out,
                     tc_err *err);
/* The same without labels: from a copy of the state's head, which is changed, and all cells, before
 * any is left out. */
tc_status vol_finish_cells(const an_work *work, size_t item_index, vol_state *head, vol_cell *cells,
                           wu_output *out, tc_err *err);
/* The only element of an array of integers. */
int64_t vol_read_integer(const wu_output *out, const char *name);
bool vol_note_result(const void *params, const wu_item *item, const wu_output *out, char *text,
                     size_t size);
tc_status vol_constants(const void *params, wu_output *out, tc_err *err);
tc_status vol_expect(const void *params, const wu_item *item, wu_output *out, tc_err *err);
/* suggest.c */
tc_status vol_suggest(const struct an_pictures *pictures, const json_t *given,
                      struct an_suggestion *out, tc_err *err);
tc_status vol_check_result(const void *params, const wu_item *item, const wu_output *out,
                           tc_err *err);
/* pixels.c */
double vol_pixels_share(const an_work *work);
tc_status vol_check_pixels(const an_work *work, const wu_output *out, uint64_t *random,
                           tc_err *err);
/* In the unit of the item's spacing, cubed. */
double vol_volume(const wu_item *item, int64_t voxels);

extern const an_backend vol_cpu;

/* --- for a device's backend, which leaves some phases to a worker of vol_cpu ----------------- */

/* The phase that comes next. */
vol_phase vol_host_phase(const void *worker);
/* Works until phase `until` comes next: TC_OK (and where all is done), or TC_MORE. */
tc_status vol_host_step(void *worker, vol_state *state, vol_phase until, uint64_t *chunks_done,
                        tc_err *err);
/* From which grey value on voxels are membrane; Otsu's when VOL_HISTOGRAM is done. */
uint32_t vol_host_threshold(const void *worker);
/* Words of 32 bits, as a device's kernels want them, for `count` rows from `row` on of
 * what the repair has made. */
void vol_host_mask(const vol_state *state, size_t nx, size_t row, size_t count, uint32_t *words);
/* The least dynamics of a cell, in 2^-VOL_GREY_BITS. */
uint32_t vol_least_rise(const vol_params *p);
/* The rules of a watershed; without planes. */
ws_map vol_map_of(const vol_params *p, const wu_item *item);
/* Of a watershed: the plane for the ways that a device finds. */
int32_t *vol_host_ways(void *worker);
/* Goes on with `next`. Of a watershed, with the heights in the state, VOL_EDGES: their ways are
 * those of WS_ASCEND; VOL_SADDLES: of WS_TOPS; VOL_SIZES: the state has labels. VOL_BANDS: a device
 * has given up. VOL_SEAMS: it has filled the nodes with ~root within the slab, 0 for membrane;
 * slabs begin every slab_rows rows. VOL_BIAS: with labels, 0 for membrane, and for the outside 0
 * or, after a repair, -1. */
tc_status vol_host_resume(void *worker, vol_state *state, vol_phase next, size_t slab_rows,
                          tc_err *err);

#endif
