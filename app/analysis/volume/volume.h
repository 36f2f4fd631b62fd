/*
 * volume: finds and measures the cells that membranes enclose in a stack. With method threshold,
 * voxels that are not membrane form connected components. Those that touch the outside, which
 * surrounds the stack, belong to the outside; the others are the cells.
 *
 * The components are found by a union-find whose nodes are part of the state: node 0 is the
 * outside, node 1 + i is voxel i in raster order. While components are joined, the node of the
 * first voxel of a run (adjacent non-membrane voxels along x) holds ~parent, the complement of its
 * parent's index, so that links are negative. A run at the border belongs to node 0. In the end
 * every voxel's node holds the label of its cell, or 0. So the nodes
 * are the only plane (array with an element for each voxel) besides the pixels: pixels and nodes
 * together take 5 or 6 bytes a voxel.
 *
 * With method watershed, each voxel has a height: the darker the voxel, the greater its height.
 * Cells are the hills of these heights (app/analysis/common/watershed.h). The watershed needs a
 * second plane, of 4 bytes a voxel: the direction uphill from each voxel (ws_map.up).
 *
 * An interrupted item continues either from the start or from the end of the filter, when the nodes
 * hold 0 (membrane) and 1 (other voxels), or the heights of a watershed.
 */
#ifndef AN_VOLUME_H
#define AN_VOLUME_H

#include "app/analysis/analysis.h"
#include "app/analysis/common/gauss.h"
#include "app/analysis/common/label.h"
#include "app/analysis/common/watershed.h"
#include "app/analysis/volume/core.h"
#include "app/analysis/volume/layout.h"

enum {
    VOL_MEMBRANE_VALUE = 255, /* the value of membrane, before a repair blurs it, on the scale of
                                 the repair's threshold; other voxels have 0 */
    VOL_MAX_SIGMA = 8,        /* the largest sigma of a repair, in voxels */
    VOL_MAX_WALL = 8 /* thickness, in voxels, of the thickest wall that vol_repair_gaps describes */
};
/* The smallest sigma of a filter, in voxels. */
#define VOL_MIN_SIGMA 0.3

typedef struct vol_params {
    an_params_head head;
    int32_t membrane; /* voxels with grey value >= membrane are membrane; 0 to 65535 */
    bool otsu;        /* Otsu's threshold of each item is used in place of `membrane` */
    bool watershed;   /* method watershed; otherwise threshold */
    bool is_3d;       /* mode 3d; otherwise each slice is analysed by itself */
    double smooth;    /* sigma of the Gaussian filter in voxels; 0: no filter */
    bool corners;     /* watershed: voxels that touch at corners are neighbours */
    double h;  /* watershed: a cell's walls are at least this much brighter than its darkest voxel,
                  in grey values */
    bool fill; /* watershed: membrane belongs to the cells, too */
    bool repair;       /* gaps in the membrane are closed, by blurring the membrane */
    double sigma;      /* repair: sigma of this blur, in voxels */
    int64_t threshold; /* repair: 1..VOL_MEMBRANE_VALUE; voxels whose blurred value is at least this
                          become membrane */
    int64_t min_voxels, max_voxels; /* cells with fewer or more voxels are left out of the result */
    bool exclude_border;            /* cells that touch the border are left out of the result */
    bool labels;                    /* the result has the labels of all voxels */
} vol_params;

/* The phases of an item, in order. The work of a phase is divided into parts; a phase that the
 * parameters do not need has no parts. Only a watershed has the phases VOL_ASCEND to VOL_COPY, and
 * only method threshold VOL_BANDS to VOL_PAINT. */
typedef enum vol_phase {
    VOL_HISTOGRAM, /* makes the histogram for Otsu's threshold */
    VOL_BLUR,      /* filters along x and y, for repair, smooth and a watershed's heights */
    VOL_BLUR_Z,    /* filters along z */
    /* Parts of the watershed, as in ws_part: */
    VOL_ASCEND,       /* finds each voxel's highest neighbour */
    VOL_EDGES,        /* finds the ways uphill out of plateaus */
    VOL_FLAT,         /* makes nodes of the voxels of plateaus that are maxima */
    VOL_FLAT_JOIN,    /* joins the nodes of each of these plateaus */
    VOL_MAXIMA,       /* finds the regional maximum that each voxel leads to */
    VOL_SADDLES,      /* finds the highest saddle between any two adjacent maxima; then joins
                         maxima */
    VOL_CLEAR,        /* clears the plane of the heights, which are no longer needed */
    VOL_FIRST,        /* finds the first voxel, in raster order, of each cell */
    VOL_COUNT_FIRST,  /* counts these first voxels in each band of rows */
    VOL_NUMBER_CELLS, /* numbers the cells */
    VOL_LABEL,        /* makes the labels of all voxels, in the plane of directions */
    VOL_COPY,         /* copies the labels to the state */
    VOL_BANDS,        /* finds the components within each band of rows */
    VOL_SEAMS,        /* joins the components across the bands' borders */
    VOL_COUNT,        /* counts the roots in each band; each cell has one root */
    VOL_NUMBER,       /* numbers the cells */
    VOL_PAINT,        /* labels all voxels */
    VOL_BIAS,         /* counts the voxels that a repair took from the inside */
    VOL_SIZES,        /* counts the voxels of the cells; only if cells may be left out */
    VOL_RELABEL, /* leaves out cells by size or border, and replaces the -1 of the outside after a
                 repair */
    VOL_PHASES
} vol_phase;

/* An interrupted item continues either with the first phase or with VOL_RESUME, the first phase
 * after the filter. */
#define VOL_RESUME VOL_ASCEND

typedef struct vol_state {
    an_state_head head;
    uint64_t cells;             /* number of components; in the end, without those left out */
    uint64_t membrane, outside; /* numbers of voxels of membrane and of the outside */
    uint64_t repair_added;      /* number of voxels that the repair made membrane */
    uint64_t repair_bias;       /* how many of these would be in cells without the repair, as
                                   estimated by vol_repair_bias */
    uint32_t in_progress;       /* 1: nodes have been written to, and the item is not finished */
    uint32_t threshold;         /* Otsu's threshold, once it is computed; 0 without otsu */
    int32_t nodes[];            /* [1 + nz*ny*nx] */
} vol_state;

/* The number of rows of a band, which has about a million voxels. Rows are numbered through all
 * slices. */
static inline size_t vol_band_rows(uint32_t nx)
{
    return ((size_t)1 << 20) / nx + 1;
}

/* --- blur ------------------------------------------------------------------------------------ */

enum {
    VOL_BLUR_ROWS = 64,    /* rows of a slice that a part of VOL_BLUR filters */
    VOL_BLUR_CHUNK = 1024, /* voxels along x that a part of VOL_BLUR_Z filters */
    VOL_MANY_SLICES = 4096 /* in stacks of more slices, a part of VOL_BLUR_Z filters fewer voxels
                              along x */
};

/* What the filter is applied to, and which values vol_blur.plane has afterwards. */
typedef enum vol_blur_kind {
    VOL_REPAIR, /* filters the membrane; then 0: voxel is or becomes membrane, 1: other voxel */
    VOL_SMOOTH, /* filters the grey values; then 0: membrane, 1: other voxel */
    VOL_HEIGHTS /* filters the grey values; then heights: VOL_TOP minus the filtered value in
                   2^-VOL_GREY_BITS */
} vol_blur_kind;

typedef struct vol_blur {
    const vol_params *params;
    const wu_pixels *pixels;
    vol_blur_kind kind;
    uint32_t threshold; /* grey values >= this are membrane */
    an_gauss gauss;
    int32_t *plane; /* [nz][ny][nx] values filtered along x and y; in the end as stated at
                       vol_blur_kind */
} vol_blur;

/* Whether an item's values are filtered, in phase VOL_BLUR and if needed VOL_BLUR_Z. A watershed
 * always has these phases, as they make the heights. */
static inline bool vol_has_blur(const vol_params *p)
{
    return p->repair || p->watershed || p->smooth > 0;
}
/* The filter of an item, except for its plane and Otsu's threshold, which the caller sets. */
vol_blur vol_blur_of(const vol_params *p, const wu_pixels *pixels);
/* The number of parts of phase VOL_BLUR or VOL_BLUR_Z. */
size_t vol_blur_parts(const vol_blur *r, vol_phase phase);
/* The number of uint32_t of scratch memory that a thread needs. */
size_t vol_blur_scratch(const vol_blur *r);
/* Does a part of phase VOL_BLUR or VOL_BLUR_Z. Returns the number of voxels that a repair made
 * membrane. */
uint64_t vol_blur_part(const vol_blur *r, vol_phase phase, size_t part, uint32_t *scratch);
/* Returns the number of voxels in rows [row0, row1) that the repair took from the inside: voxels
 * that it made membrane, and whose nearest non-membrane voxels belong to cells
 * (docs/dev/analyses/volume.md). The plane must hold labels, 0 for membrane and -1 for the outside.
 */
uint64_t vol_repair_bias(const vol_blur *r, size_t row0, size_t row1);
/* Computes gaps[w - 1], the width in voxels of the widest slit that the repair closes in a flat
 * wall w voxels thick, for w = 1 to VOL_MAX_WALL. */
void vol_repair_gaps(const vol_params *p, int64_t *gaps);

/* --- components ------------------------------------------------------------------------------ */

/* The stack whose components are found. */
typedef struct vol_stack {
    uint32_t nx, ny, nz;
    size_t stride; /* 64-bit words of a row: lab_stride(nx) */
    bool is_3d;    /* as in vol_params */
    /* Sets the words of a row: the bit of voxel x, bit x % 64 of word x / 64, is 1 if the voxel is
     * not membrane. source: the member below. */
    void (*row)(const void *source, size_t row, uint64_t *words);
    const void *source;
    int32_t *nodes;  /* vol_state.nodes */
    uint64_t *roots; /* [nz*ny][stride]: a one at the first voxel of each run that is a root */
} vol_stack;

/* The bytes of scratch memory for vol_label_band and vol_label_seam. */
size_t vol_label_scratch(const vol_stack *s);
/* Makes a node of each run of rows [row0, row1), and joins the runs within these rows. */
void vol_label_band(const vol_stack *s, size_t row0, size_t row1, uint64_t *scratch);
/* Joins the runs of rows [row0, row1) with the adjacent runs of the rows before row0. Several
 * threads may do so at the same time. */
void vol_label_seam(const vol_stack *s, size_t row0, size_t row1, uint64_t *scratch);
/* Finds the runs of a row. Sets `edges` and returns a number as lab_find_runs does. */
size_t vol_runs(const vol_stack *s, size_t row, uint32_t *edges);
/* Whether a row is at the border (vol_is_border_row), so that all its runs belong to node 0. */
bool vol_border_row(const vol_stack *s, size_t row);
/* The node of the run [a, b) of a row. border: vol_border_row of the row. */
static inline int32_t vol_node(const vol_stack *s, size_t row, bool border, uint32_t a, uint32_t b)
{
    return vol_is_border_run(border, a, b, s->nx) ? 0 : (int32_t)(row * s->nx + a + 1);
}

/* --- tables ---------------------------------------------------------------------------------- */

/* The measurements of a cell: coordinates are in the order z, y, x. */
typedef struct vol_cell {
    uint64_t voxels, sum[3]; /* number of voxels; sums of their coordinates */
    uint32_t lo[3], hi[3];   /* bounding box; hi is exclusive */
} vol_cell;

/* Whether a cell with this number of voxels will be in the result. border: it touches the border.
 */
static inline bool vol_is_kept(const vol_params *p, int64_t voxels, bool border)
{
    return voxels >= p->min_voxels && voxels <= p->max_voxels && !(p->exclude_border && border);
}

/* params.c */
extern const an_param vol_parameters[];
tc_status vol_derive_params(void *params, const char *where, tc_err *err);

/* output.c */
tc_status vol_check_state(const an_work *work, const void *state, tc_err *err);
tc_status vol_finish(const an_work *work, size_t item_index, const void *state, wu_output *out,
                     tc_err *err);
/* Makes the arrays of vol_finish, except labels, from the table of all cells; removes the cells
 * that vol_is_kept excludes. head: a copy of the state without its nodes. Changes head and cells.
 */
tc_status vol_finish_cells(const an_work *work, size_t item_index, vol_state *head, vol_cell *cells,
                           wu_output *out, tc_err *err);
/* Returns the value of an array of type WU_I64 with one element. */
int64_t vol_read_integer(const wu_output *out, const char *name);
/* Implements an_analysis.note_result: if a result looks wrong, writes advice to text, which has
 * `size` bytes, and returns true. */
bool vol_note_result(const void *params, const wu_item *item, const wu_output *out, char *text,
                     size_t size);
/* Implements an_analysis.add_constants: with a repair, adds the array of vol_repair_gaps. */
tc_status vol_add_constants(const void *params, wu_output *out, tc_err *err);
/* Implements an_analysis.declare_arrays: declares the arrays that an item's result has. */
tc_status vol_declare_arrays(const void *params, const wu_item *item, wu_output *out, tc_err *err);
/* suggest.c */
tc_status vol_suggest(const struct an_pictures *pictures, const json_t *given,
                      struct an_suggestion *out, tc_err *err);
/* check.c */
tc_status vol_check_result(const void *params, const wu_item *item, const wu_output *out,
                           tc_err *err);
/* output.c: the volume of a number of voxels, in the cube of the unit of the item's spacing. */
double vol_volume(const wu_item *item, int64_t voxels);

extern const an_backend vol_cpu;

/* --- for an OpenCL backend, which leaves some phases to a worker of vol_cpu ------------------ */

/* The phase that the worker does next. */
vol_phase vol_host_phase(const void *worker);
/* Does a step of the work, and sets *chunks_done to the number of chunks that are done. Returns
 * TC_OK if phase `until` comes next or all phases are done; TC_MORE if it must be called again. */
tc_status vol_host_step(void *worker, vol_state *state, vol_phase until, uint64_t *chunks_done,
                        tc_err *err);
/* Returns the lowest grey value of membrane. With otsu it is valid only after VOL_HISTOGRAM. */
uint32_t vol_host_threshold(const void *worker);
/* Makes the kernels' mask of `count` rows from `row` on. A row is a series of 32-bit words, which
 * have a 1 for each voxel whose node is not 0; after the filter these are the non-membrane
 * voxels. */
void vol_host_mask(const vol_state *state, size_t nx, size_t row, size_t count, uint32_t *words);
/* The parameter h of a watershed, in units of 2^-VOL_GREY_BITS grey values. */
uint32_t vol_least_rise(const vol_params *p);
/* The ws_map of an item for a watershed, except for its planes `height` and `up`. */
ws_map vol_map_of(const vol_params *p, const wu_item *item);
/* Returns the worker's plane of directions of a watershed (ws_map.up), to which the backend writes
 * the directions that a device has found. */
int32_t *vol_host_directions(void *worker);
/* Makes the worker continue with phase `next`, after a device has done the phases before it. What
 * the state and the worker must contain on entry depends on `next`:
 *   VOL_EDGES (watershed): the state has the heights, vol_host_directions what WS_ASCEND makes;
 *   VOL_SADDLES (watershed): the state has the heights, vol_host_directions what WS_MAXIMA makes;
 *   VOL_BANDS: nothing; the device's tables were too small, so the worker finds the components;
 *   VOL_SEAMS: a node is 0 for membrane, otherwise ~root, where the root is within the same slab
 *     of slab_rows rows (for other phases slab_rows is 0);
 *   VOL_BIAS: the state has labels: 0 for membrane, and for the outside 0 or, after a repair, -1;
 *   VOL_SIZES (watershed): the state has labels. */
tc_status vol_host_resume(void *worker, vol_state *state, vol_phase next, size_t slab_rows,
                          tc_err *err);

#endif
