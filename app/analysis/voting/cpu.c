/*
 * voting's CPU backend: threads process bands, which are ranges of rows, phase by phase. If a band
 * takes long, it is divided into strips, which are ranges of its columns.
 */
#include "app/analysis/voting/voting.h"

#include <stdlib.h>
#include <string.h>

typedef struct cpu_worker {
    const an_work *work;
    const voting_params *params;
    voting_scheme s;
    voting_tables tables;
    an_pool *pool;
    uint32_t **scratch;       /* [threads][voting_thread_bytes] */
    uint32_t *votes, *voters; /* the planes of the state */
    /* The current step: */
    voting_phase phase;
    uint64_t first_band;
    uint32_t strips; /* number of strips of each band; 1 in phases whose bands do not take long */
    /* TURN: [bands of the step][band_rows][nx], the turned voters. They are copied to the state
     * when all these bands are done, so a step that is stopped leaves the state as it was. */
    uint32_t *turned;
    size_t turned_size;       /* number of elements of `turned` */
    struct turn_reads *reads; /* images only: [n_dirs][2 reach_y + 1], see make_reads; else NULL */
    int reads_round;          /* the round that `reads` is made for; -1: none yet */
    int levels; /* images only: number of levels of the table of maxima (make_levels) that `reads`
                   refers to */
} cpu_worker;

/* --- voters ---------------------------------------------------------------------------------- */

/* Makes the voters of rows [y0, y1) of slice z. */
static void make_voters(const cpu_worker *w, uint32_t z, uint32_t y0, uint32_t y1)
{
    const voting_scheme *const s = &w->s;

    for (uint32_t y = y0; y < y1; y++)
        for (uint32_t x = 0; x < s->nx; x++) {
            const size_t i = ((size_t)z * s->ny + y) * s->nx + x;
            int64_t g[3];

            voting_gradient(&s->shape, w->votes + i, (tc_i32)z, (tc_i32)y, (tc_i32)x, g);
            w->voters[i] = voting_voter(&s->shape, g, w->tables.dir_of_code);
        }
}

/* --- vote ------------------------------------------------------------------------------------ */

/* The sums of votes in the columns [x0, x1) of a band. Each sum is stored as its difference from
 * the sum in the column to its left. Rows have margins on both sides, for the parts of cones
 * outside these columns. */
typedef struct band {
    uint32_t *sums; /* points to column 0 of the band's first row */
    size_t stride;  /* elements from one row to the next */
    int rows;
    uint32_t x0, x1;                 /* half-open */
    uint32_t voters_from, voters_to; /* half-open: the columns of all voters whose cones may
                                        reach the columns [x0, x1) */
} band;

/* Adds the votes of one voter to the band. The voter is in column x, and its row is y rows
 * after the band's first row: y is negative, or at least b->rows, if the voter is outside the band.
 * The band is dz slices after the voter. */
static void add_voter(const cpu_worker *w, const band *b, uint32_t voter, int dz, int y, uint32_t x)
{
    const voting_shape *const s = &w->s.shape;
    const uint32_t weight = VOTING_WEIGHT(voter);
    const voting_part rows =
        voting_clip_span(w->tables.rows[voting_rows_at(s, VOTING_DIR(voter), dz)], y, b->rows);
    const voting_span *span =
        w->tables.spans + voting_spans_at(s, VOTING_DIR(voter), dz) + rows.lo + s->reach[1];
    uint32_t *sums = b->sums + (y + rows.lo) * (int64_t)b->stride + x;

    for (int dy = rows.lo; dy <= rows.hi; dy++, span++, sums += b->stride) {
        sums[span->lo] += weight;
        sums[span->hi + 1] -= weight;
    }
}

/* Adds up the differences of the band, and writes the sums to the votes. */
static void store_band(const cpu_worker *w, const band *b, uint32_t z, uint32_t y0)
{
    const voting_scheme *const s = &w->s;

    for (int64_t y = 0; y < b->rows; y++) {
        const uint32_t *const in = b->sums + y * (int64_t)b->stride;
        uint32_t *const out = w->votes + ((size_t)z * s->ny + y0 + (size_t)y) * s->nx;
        uint32_t sum = 0;

        for (int64_t x = (int64_t)b->voters_from - s->shape.reach[2]; x < b->x0; x++)
            sum += in[x];
        for (size_t x = b->x0; x < b->x1; x++) {
            sum += in[x];
            out[x] = sum;
        }
    }
}

/* The stride of a band that has all columns, with the reach of cones on either side. */
static size_t band_stride(const voting_scheme *s)
{
    return s->nx + 2 * (size_t)s->shape.reach[2] + 2;
}

/* Computes the votes of rows [y0, y1), columns [x0, x1) of slice z. */
static void count_votes(const cpu_worker *w, uint32_t *scratch, uint32_t z, uint32_t y0,
                        uint32_t y1, uint32_t x0, uint32_t x1)
{
    const voting_scheme *const s = &w->s;
    const uint32_t reach = (uint32_t)s->shape.reach[2];
    band b = { .rows = (int)(y1 - y0),
               .x0 = x0,
               .x1 = x1,
               .voters_from = x0 > reach ? x0 - reach : 0,
               .voters_to = s->nx - x1 > reach ? x1 + reach : s->nx };
    /* the rows [top, bottom) have the voters whose cones may reach the band */
    const int64_t top = (int64_t)y0 - s->shape.reach[1], bottom = (int64_t)y1 + s->shape.reach[1];

    b.stride = b.voters_to - b.voters_from + 2 * (size_t)reach + 2;
    b.sums = scratch + (int64_t)reach - (int64_t)b.voters_from;
    memset(scratch, 0, (size_t)b.rows * b.stride * sizeof *scratch);
    for (int dz = -s->shape.reach[0]; dz <= s->shape.reach[0]; dz++) {
        const int64_t from = (int64_t)z - dz;

        if (from < 0 || from >= (int64_t)s->nz)
            continue;
        for (int64_t y = top < 0 ? 0 : top; y < bottom && y < (int64_t)s->ny; y++) {
            const uint32_t *const row = w->voters + ((size_t)from * s->ny + (size_t)y) * s->nx;

            for (uint32_t x = b.voters_from; x < b.voters_to; x++)
                if (VOTING_WEIGHT(row[x]) != 0)
                    add_voter(w, &b, row[x], dz, (int)(y - (int64_t)y0), x);
        }
    }
    store_band(w, &b, z, y0);
}

/* --- turn ------------------------------------------------------------------------------------ */

/* Stacks: turns the voters of rows [y0, y1), columns [x0, x1) of slice z. turned: [y1 - y0][nx]. */
static void turn_in_stack(const cpu_worker *w, uint32_t *turned, uint32_t z, uint32_t y0,
                          uint32_t y1, uint32_t x0, uint32_t x1)
{
    const voting_tables *const t = &w->tables;

    for (uint32_t y = y0; y < y1; y++, turned += w->s.nx) {
        const size_t row_start = ((size_t)z * w->s.ny + y) * w->s.nx;

        for (size_t x = x0; x < x1; x++) {
            const uint32_t voter = w->voters[row_start + x];

            turned[x] =
                VOTING_WEIGHT(voter) == 0
                    ? voter
                    : voting_turned(&w->s.shape, voter, (tc_i32)z, (tc_i32)y, (tc_i32)x,
                                    w->votes + row_start + x, t->spans, t->rows, t->dir_of_offset);
        }
    }
}

/* In images, voters are turned with a table of maxima. Level k of the table has, for each pixel,
 * the largest sum of votes of the 2^k pixels of its row from this pixel on. So the largest sum of a
 * span is the larger of two entries: that for the span's first 2^k pixels, and that for its last
 * 2^k pixels, which may overlap the first. Pixels outside the picture have the sum 0, so they are
 * never taken for the largest. */

/* The number of columns of voters for which the table is made at a time. */
enum { TURN_COLUMNS = 256 };
/* The greatest number of levels: a span has at most 2 * VOTING_MAX_RADIUS_2D + 1 = 255 pixels. */
enum { TURN_LEVELS = 8 };

/* Elements of a row of the table. */
static size_t turn_stride(const voting_scheme *s)
{
    return TURN_COLUMNS + 2 * (size_t)s->shape.reach[2];
}

/* Elements of a level of the table. */
static size_t turn_level(const voting_scheme *s)
{
    return turn_stride(s) * (s->band_rows + 2 * (size_t)s->shape.reach[1]);
}

/* The level to read for a span of n > 0 pixels: the logarithm of n to base 2, rounded down. */
static int level_of(int n)
{
    return 31 - __builtin_clz((unsigned)n);
}

/* The two entries of the table whose maximum is the largest sum of a span, as indices relative to
 * the voter's own entry in level 0. */
typedef struct turn_reads {
    int32_t first, last;
} turn_reads;

/* Fills w->reads from the spans of the current round, and sets w->levels. A row without a span
 * reads the same entries as the row before it, which does not change the maximum. */
static void make_reads(cpu_worker *w)
{
    const voting_scheme *const s = &w->s;
    const int ry = s->shape.reach[1], rows = 2 * ry + 1;
    const int32_t stride = (int32_t)turn_stride(s), level = (int32_t)turn_level(s);

    w->levels = 1;
    for (size_t dir = 0; dir < s->n_dirs; dir++) {
        turn_reads *const reads = w->reads + dir * (size_t)rows, before = { 0, 0 };
        const voting_span *const spans =
            w->tables.spans + voting_spans_at(&s->shape, (uint32_t)dir, 0);

        for (int y = 0; y < rows; y++) {
            const int n = spans[y].hi - spans[y].lo + 1, k = n > 0 ? level_of(n) : 0;

            /* the last 2^k pixels of the span begin at hi + 1 - 2^k */
            if (n > 0)
                before = (turn_reads){ k * level + (y - ry) * stride + spans[y].lo,
                                       k * level + (y - ry) * stride + spans[y].hi + 1 - (1 << k) };
            reads[y] = before;
            w->levels = k + 1 > w->levels ? k + 1 : w->levels;
        }
    }
    w->reads_round = w->tables.round;
}

/* Four sums. They are compared as signed numbers, since SSE2 has no unsigned comparison; sums of an
 * image are below 2^31 (VOTING_WEIGHT_LIMIT). */
typedef int32_t sums4 __attribute__((vector_size(16), aligned(4), may_alias));

/* Sets out[i] to the larger of a[i] and b[i]. */
static void take_larger(const uint32_t *a, const uint32_t *b, size_t n, uint32_t *out)
{
    size_t i = 0;

    for (; i + 4 <= n; i += 4) {
        const sums4 va = *(const sums4 *)(const void *)(a + i),
                    vb = *(const sums4 *)(const void *)(b + i), larger = va > vb;

        *(sums4 *)(void *)(out + i) = (va & larger) | (vb & ~larger);
    }
    for (; i < n; i++)
        out[i] = a[i] > b[i] ? a[i] : b[i];
}

/* Fills the table of maxima for voters in columns [x0, x1) of rows [y0, y1). */
static void make_levels(const cpu_worker *w, uint32_t *table, uint32_t y0, uint32_t y1, uint32_t x0,
                        uint32_t x1)
{
    const voting_scheme *const s = &w->s;
    const int64_t rx = s->shape.reach[2], ry = s->shape.reach[1];
    /* the columns [left, right) of the table; the picture has [inside_from, inside_to) of these */
    const int64_t left = (int64_t)x0 - rx, right = (int64_t)x1 + rx;
    const int64_t inside_from = left < 0 ? 0 : left, inside_to = right < s->nx ? right : s->nx;
    const size_t stride = turn_stride(s), level = turn_level(s);

    for (int64_t y = (int64_t)y0 - ry; y < (int64_t)y1 + ry; y++, table += stride) {
        memset(table, 0, stride * sizeof *table);
        if (y >= 0 && y < s->ny)
            memcpy(table + (inside_from - left), w->votes + (size_t)y * s->nx + inside_from,
                   (size_t)(inside_to - inside_from) * sizeof *table);
        for (int k = 1; k < w->levels; k++) {
            uint32_t *const out = table + (size_t)k * level;
            const size_t half = (size_t)1 << (k - 1);

            take_larger(out - level, out - level + half, stride - half, out);
        }
    }
}

/* Returns the voter after it has turned. entry: the voter's own entry in level 0 of the table. */
static uint32_t turn_voter(const cpu_worker *w, uint32_t voter, const uint32_t *entry)
{
    const voting_shape *const s = &w->s.shape;
    const int ry = s->reach[1], rx = s->reach[2];
    const voting_span rows = w->tables.rows[VOTING_DIR(voter)];
    const turn_reads *const reads = w->reads + VOTING_DIR(voter) * (size_t)(2 * ry + 1) + ry;
    uint32_t best = 0;
    int best_y = 0, dx;

    for (int dy = VOTING_LO(rows); dy <= VOTING_HI(rows); dy++) {
        const uint32_t first = entry[reads[dy].first], last = entry[reads[dy].last],
                       most = first > last ? first : last;

        best_y = most > best ? dy : best_y;
        best = most > best ? most : best;
    }
    if (best == 0)
        return voter;
    /* Finds the first pixel of row best_y's span that has the sum `best`. */
    dx = VOTING_LO(
        w->tables.spans[voting_spans_at(s, VOTING_DIR(voter), 0) + (size_t)(best_y + ry)]);
    entry += best_y * (int64_t)turn_stride(&w->s);
    while (entry[dx] != best)
        dx++;
    return VOTING_VOTER(VOTING_WEIGHT(voter),
                        w->tables.dir_of_offset[(best_y + ry) * (2 * rx + 1) + dx + rx]);
}

/* Images: turns the voters of rows [y0, y1), columns [x0, x1). table: scratch memory; turned:
 * [y1 - y0][nx]. */
static void turn_in_image(const cpu_worker *w, uint32_t *table, uint32_t *turned, uint32_t y0,
                          uint32_t y1, uint32_t x0, uint32_t x1)
{
    const voting_scheme *const s = &w->s;
    const size_t stride = turn_stride(s);

    for (uint32_t end; x0 < x1; x0 = end) {
        end = x1 - x0 < TURN_COLUMNS ? x1 : x0 + TURN_COLUMNS;
        make_levels(w, table, y0, y1, x0, end);
        for (uint32_t y = y0; y < y1; y++) {
            const uint32_t *const voters = w->voters + (size_t)y * s->nx;
            const uint32_t *const entries =
                table + (y - y0 + (size_t)s->shape.reach[1]) * stride + (size_t)s->shape.reach[2];

            for (uint32_t x = x0; x < end; x++)
                turned[(size_t)(y - y0) * s->nx + x] =
                    VOTING_WEIGHT(voters[x]) == 0 ? voters[x]
                                                  : turn_voter(w, voters[x], entries + (x - x0));
        }
    }
}

/* Copies the n turned bands of the step to the state. */
static void store_turned(const cpu_worker *w, uint64_t n)
{
    const size_t nx = w->s.nx;

    for (uint64_t i = 0; i < n; i++) {
        uint32_t z, y0, y1;

        voting_band_rows(&w->s, w->first_band + i, &z, &y0, &y1);
        memcpy(w->voters + ((size_t)z * w->s.ny + y0) * nx, w->turned + i * w->s.band_rows * nx,
               (y1 - y0) * nx * sizeof *w->voters);
    }
}

/* --- the backend ----------------------------------------------------------------------------- */

/* Called by the pool's threads: does a part of the step, which is a strip of a band, or the whole
 * band if it has one strip. */
static void run_band(void *user, unsigned thread, size_t part)
{
    const cpu_worker *const w = user;
    const voting_scheme *const s = &w->s;
    uint32_t *const plane = w->phase == VOTING_REBLUR ? w->voters : w->votes;
    const size_t band_index = part / w->strips, strip = part % w->strips;
    const uint32_t x0 = (uint32_t)(s->nx * strip / w->strips),
                   x1 = (uint32_t)(s->nx * (strip + 1) / w->strips);
    uint32_t z, y0, y1;

    voting_band_rows(s, w->first_band + band_index, &z, &y0, &y1);
    switch (w->phase) {
    case VOTING_BLUR:
    case VOTING_REBLUR:
        voting_blur(s, w->work->pixels, z, y0, y1, w->scratch[thread],
                    plane + ((size_t)z * s->ny + y0) * s->nx);
        break;
    case VOTING_VOTERS: make_voters(w, z, y0, y1); break;
    case VOTING_VOTE: count_votes(w, w->scratch[thread], z, y0, y1, x0, x1); break;
    case VOTING_TURN:
        if (w->reads != NULL)
            turn_in_image(w, w->scratch[thread], w->turned + band_index * s->band_rows * s->nx, y0,
                          y1, x0, x1);
        else
            turn_in_stack(w, w->turned + band_index * s->band_rows * s->nx, z, y0, y1, x0, x1);
        break;
    }
}

static void cpu_close(void **worker)
{
    cpu_worker *const w = *worker;

    *worker = NULL;
    if (w == NULL)
        return;
    an_pool_destroy(&w->pool);
    for (unsigned i = 0; w->scratch != NULL && i < w->work->threads; i++)
        free(w->scratch[i]);
    free(w->scratch);
    voting_tables_free(&w->tables);
    free(w->turned);
    free(w->reads);
    free(w);
}

/* The greatest number of bands that a step of TURN does. They have about 2^20 voters, and are at
 * least 16, enough for many threads. */
static uint64_t max_turned_bands(const voting_scheme *s)
{
    const uint64_t voters = 1 << 20, bands = voters / ((uint64_t)s->band_rows * s->nx) + 16;

    return bands < s->bands ? bands : s->bands;
}

uint64_t voting_turned_bytes(const voting_scheme *s)
{
    return max_turned_bands(s) * s->band_rows * s->nx * sizeof(uint32_t);
}

uint64_t voting_thread_bytes(const voting_scheme *s)
{
    const size_t blur = voting_blur_scratch(s, s->band_rows), vote = s->band_rows * band_stride(s),
                 turn = s->nz > 1 ? 0 : TURN_LEVELS * turn_level(s),
                 most = blur > vote ? blur : vote;

    return (most > turn ? most : turn) * sizeof(uint32_t);
}

static tc_status make_scratch(cpu_worker *w, tc_err *err)
{

    w->scratch = calloc(w->work->threads, sizeof *w->scratch);
    for (unsigned i = 0; w->scratch != NULL && i < w->work->threads; i++) {
        w->scratch[i] = malloc((size_t)voting_thread_bytes(&w->s));
        if (w->scratch[i] == NULL)
            return tc_no_memory(err, "voting");
    }
    return w->scratch == NULL ? tc_no_memory(err, "voting") : TC_OK;
}

/* Creates a worker with a given scheme. */
static tc_status make_worker(const an_work *work, const voting_scheme *s, void **worker,
                             tc_err *err)
{
    cpu_worker *const w = calloc(1, sizeof *w);
    tc_status status;

    *worker = w;
    if (w == NULL)
        return tc_no_memory(err, "voting");
    w->work = work;
    w->params = work->params;
    w->s = *s;
    status = voting_tables_init(&w->s, &w->tables, err);
    w->reads_round = -1;
    if (status == TC_OK && s->nz == 1) {
        w->reads = malloc(s->n_dirs * (2 * (size_t)s->shape.reach[1] + 1) * sizeof *w->reads);
        if (w->reads == NULL)
            status = tc_no_memory(err, "voting");
    }
    if (status == TC_OK)
        status = make_scratch(w, err);
    if (status == TC_OK)
        status = an_pool_create(work->threads, &w->pool, err);
    if (status != TC_OK)
        cpu_close(worker);
    return status;
}

static tc_status cpu_open(const an_work *work, const void *state, void **worker, tc_err *err)
{
    voting_scheme s;
    return_if_error(voting_scheme_init(work->params, work->item, work->item->name, &s, err));

    (void)state;
    return_if_error(voting_scheme_use_pixels(work, &s, err));
    return make_worker(work, &s, worker, err);
}

/* The number of strips that a band is divided into, so that no strip takes long. */
static uint32_t strips_of(const voting_scheme *s, voting_phase phase)
{
    const double max_cost = 1 << 27, rows = s->band_rows, cone_rows = (double)voting_offset_rows(s);
    /* cost: an upper bound of the additions (VOTE) or look-ups (TURN) for a column of a band;
     * max_cost: the greatest cost of a strip */
    const double cost = phase == VOTING_VOTE ? cone_rows / (2 * s->shape.reach[1] + 1) *
                                                   (rows + 2 * s->shape.reach[1]) * rows
                        : phase == VOTING_TURN ? rows * cone_rows * (2 * s->shape.reach[2] + 1)
                                               : 0;
    const double strips = cost * s->nx / max_cost + 1;

    return strips < s->nx ? (uint32_t)strips : s->nx;
}

/* Does a step of VOTE or TURN of at most *n bands; sets *n to the number of bands that are done. As
 * all strips of a band together can take long, work->poll is called between strips. If work->poll
 * stops the step, the step has no effect: its votes will be computed again, and turned voters are
 * not copied to the state, so that no voter turns twice. */
static tc_status do_round(cpu_worker *w, int round, uint64_t *n, tc_err *err)
{
    const size_t size = w->phase == VOTING_TURN ? (size_t)*n * w->s.band_rows * w->s.nx : 0;
    tc_status status = voting_tables_set_round(w->work, &w->s, &w->tables, round, w->pool, err);

    if (status == TC_OK && w->reads != NULL && w->reads_round != round)
        make_reads(w);
    if (size > w->turned_size) {
        free(w->turned);
        w->turned = malloc(size * sizeof *w->turned);
        w->turned_size = w->turned != NULL ? size : 0;
        if (w->turned == NULL)
            return tc_no_memory(err, "voting");
    }
    if (status == TC_OK && w->strips > 1)
        status = an_pool_run_polled(w->pool, run_band, w, *n * w->strips, w->work->poll, err);
    else if (status == TC_OK)
        *n = an_pool_run_until(w->pool, run_band, w, *n, tc_seconds() + AN_STEP_SECONDS);
    if (status == TC_OK && w->phase == VOTING_TURN)
        store_turned(w, *n);
    return status;
}

static tc_status cpu_step(void *worker, void *state, uint64_t *chunks_done, tc_err *err)
{
    cpu_worker *const w = worker;
    an_state_head *const head = state;
    uint64_t n;
    int round;

    *chunks_done = head->chunks_done;
    if (head->chunks_done >= w->s.chunks)
        return TC_OK;
    voting_chunk_at(&w->s, head->chunks_done, &w->phase, &round, &w->first_band);
    w->strips = strips_of(&w->s, w->phase);
    n = w->strips > 1 ? 1 : w->s.bands - w->first_band;
    if (w->phase == VOTING_TURN && n > max_turned_bands(&w->s))
        n = max_turned_bands(&w->s);
    w->votes = voting_votes(state);
    w->voters = w->votes + w->s.n;
    if (w->phase == VOTING_VOTE || w->phase == VOTING_TURN)
        return_if_error(do_round(w, round, &n, err));
    else
        n = an_pool_run_until(w->pool, run_band, w, n, tc_seconds() + AN_STEP_SECONDS);
    head->chunks_done += n;
    *chunks_done = head->chunks_done;
    return head->chunks_done == w->s.chunks ? TC_OK : TC_MORE;
}

tc_status voting_cpu_run(const an_work *work, const voting_scheme *s, void *state, tc_err *err)
{
    void *worker = NULL;
    uint64_t done;
    tc_status status = make_worker(work, s, &worker, err);

    if (status == TC_OK)
        status = TC_MORE;
    while (status == TC_MORE)
        status = cpu_step(worker, state, &done, err);
    cpu_close(&worker);
    return status;
}

/* There is no sync, as the state always contains everything done so far. */
const an_backend voting_cpu = {
    .name = "cpu", .open = cpu_open, .step = cpu_step, .close = cpu_close
};
