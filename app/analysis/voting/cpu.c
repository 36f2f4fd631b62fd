/*
 * voting on the CPU: bands of rows, each done by one thread.
 */
#include "app/analysis/voting/voting.h"

#include <stdlib.h>
#include <string.h>

typedef struct cpu_worker {
    const an_task *task;
    const voting_params *params;
    voting_scheme s;
    voting_levels levels;
    voting_tables tables;
    an_pool *pool;
    uint32_t **scratch;         /* [threads] */
    uint32_t *votes, *voters;   /* of the state */
    /* the current step */
    voting_phase phase;
    uint64_t first;             /* band of task 0 */
    uint64_t batch;             /* bands of a step */
} cpu_worker;

/* --- voters ------------------------------------------------------------------------ */

static uint32_t voter_at(const cpu_worker *w, uint32_t z, uint32_t y, uint32_t x)
{
    const voting_scheme *const s = &w->s;
    int64_t g[3];
    uint64_t most, length;

    voting_gradient(s, w->params->dark, w->votes, (const int64_t[3]){ z, y, x }, g);
    most = voting_most(g[0], g[1], g[2]);
    if (most == 0)
        return 0;
    length = voting_length(g[0], g[1], g[2]);
    if (length < w->levels.floor)
        return 0;
    return voting_weight(length, w->params->root) << 16
         | w->tables.dir_of_code[voting_code(g[0], g[1], g[2], most, s->side, s->nz == 1)];
}

static void do_voters(const cpu_worker *w, uint32_t z, uint32_t y0, uint32_t y1)
{
    for (uint32_t y = y0; y < y1; y++)
        for (uint32_t x = 0; x < w->s.nx; x++)
            w->voters[((size_t)z * w->s.ny + y) * w->s.nx + x] = voter_at(w, z, y, x);
}

/* --- vote ---------------------------------------------------------------------------- */

/* A band's sums as differences along x, with room for cones that reach beyond
 * the picture. */
typedef struct band {
    uint32_t *sums;             /* of (row 0, x = 0) */
    size_t stride;
    int64_t rows;
} band;

/* Adds one voter, dz slices away and in row y of the band's own count. */
static void add_voter(const cpu_worker *w, const band *b, uint32_t voter, int dz, int64_t y, uint32_t x)
{
    const voting_scheme *const s = &w->s;
    const size_t dir = VOTING_DIR(voter);
    const uint32_t weight = VOTING_WEIGHT(voter);
    const voting_span rows = w->tables.rows[dir * (2 * (size_t)s->reach[0] + 1) + (size_t)(dz + s->reach[0])];
    const int64_t from = y + rows.lo < 0 ? -y : rows.lo;
    const int64_t to = y + rows.hi >= b->rows ? b->rows - 1 - y : rows.hi;
    const voting_span *span;
    uint32_t *sums;

    if (from > to)
        return;
    span = w->tables.spans + dir * voting_offset_rows(s)
         + (size_t)((dz + s->reach[0]) * (2 * s->reach[1] + 1) + s->reach[1] + from);
    sums = b->sums + (y + from) * (int64_t)b->stride + x;
    for (int64_t dy = from; dy <= to; dy++, span++, sums += b->stride) {
        sums[span->lo] += weight;
        sums[span->hi + 1] -= weight;
    }
}

/* Differences to sums, into the picture. */
static void store_band(const cpu_worker *w, const band *b, uint32_t z, uint32_t y0)
{
    const voting_scheme *const s = &w->s;

    for (int64_t y = 0; y < b->rows; y++) {
        const uint32_t *const in = b->sums + y * (int64_t)b->stride;
        uint32_t *const out = w->votes + ((size_t)z * s->ny + y0 + (size_t)y) * s->nx;
        uint32_t sum = 0;

        for (int64_t x = -s->reach[2]; x < 0; x++)
            sum += in[x];
        for (size_t x = 0; x < s->nx; x++) {
            sum += in[x];
            out[x] = sum;
        }
    }
}

static size_t band_stride(const voting_scheme *s)
{
    return s->nx + 2 * (size_t)s->reach[2] + 2;
}

static void do_vote(const cpu_worker *w, uint32_t *scratch, uint32_t z, uint32_t y0, uint32_t y1)
{
    const voting_scheme *const s = &w->s;
    const band b = { scratch + s->reach[2], band_stride(s), (int64_t)y1 - y0 };
    const int64_t top = (int64_t)y0 - s->reach[1], bottom = (int64_t)y1 + s->reach[1];

    memset(scratch, 0, (size_t)b.rows * b.stride * sizeof *scratch);
    for (int dz = -s->reach[0]; dz <= s->reach[0]; dz++) {
        const int64_t from = (int64_t)z - dz;

        if (from < 0 || from >= (int64_t)s->nz)
            continue;
        for (int64_t y = top < 0 ? 0 : top; y < bottom && y < (int64_t)s->ny; y++) {
            const uint32_t *const row = w->voters + ((size_t)from * s->ny + (size_t)y) * s->nx;

            for (uint32_t x = 0; x < s->nx; x++)
                if (VOTING_WEIGHT(row[x]) != 0)
                    add_voter(w, &b, row[x], dz, y - (int64_t)y0, x);
        }
    }
    store_band(w, &b, z, y0);
}

/* --- turn ------------------------------------------------------------------------------ */

typedef struct best {
    uint32_t votes;
    size_t offset;              /* into dir_of_offset */
} best;

/* The largest sum in the part [x0, x1] of a row, if larger than the best. */
static void look_along(const uint32_t *row, int64_t x0, int64_t x1, size_t offset, best *found)
{
    uint32_t most = 0;
    int64_t x = x0;

    for (int64_t i = x0; i <= x1; i++)
        most = row[i] > most ? row[i] : most;
    if (most <= found->votes)
        return;
    while (row[x] != most)
        x++;
    found->votes = most;
    found->offset = offset + (size_t)(x - x0);
}

/* The voter turned to the first of the largest sums in its cone. */
static uint32_t turned(const cpu_worker *w, uint32_t voter, uint32_t z, uint32_t y, uint32_t x)
{
    const voting_scheme *const s = &w->s;
    const int rz = s->reach[0], ry = s->reach[1], rx = s->reach[2];
    const size_t dir = VOTING_DIR(voter), n_rows = voting_offset_rows(s);
    best found = { 0, 0 };

    for (int dz = -rz; dz <= rz; dz++) {
        const voting_span rows = w->tables.rows[dir * (2 * (size_t)rz + 1) + (size_t)(dz + rz)];

        if ((int64_t)z + dz < 0 || (int64_t)z + dz >= (int64_t)s->nz)
            continue;
        for (int dy = (int)rows.lo; dy <= (int)rows.hi; dy++) {
            const size_t at = (size_t)(dz + rz) * (size_t)(2 * ry + 1) + (size_t)(dy + ry);
            const voting_span span = w->tables.spans[dir * n_rows + at];
            const int64_t lo = (int64_t)x + span.lo, hi = (int64_t)x + span.hi;
            const int64_t from = lo < 0 ? 0 : lo, to = hi >= (int64_t)s->nx ? (int64_t)s->nx - 1 : hi;

            if ((int64_t)y + dy < 0 || (int64_t)y + dy >= (int64_t)s->ny || from > to)
                continue;
            look_along(w->votes + ((size_t)((int64_t)z + dz) * s->ny + (size_t)((int64_t)y + dy)) * s->nx, from, to,
                       at * (2 * (size_t)rx + 1) + (size_t)(from - (int64_t)x + rx), &found);
        }
    }
    return found.votes == 0 ? voter : (voter & ~0xffffu) | w->tables.dir_of_offset[found.offset];
}

static void do_turn(const cpu_worker *w, uint32_t z, uint32_t y0, uint32_t y1)
{
    for (uint32_t y = y0; y < y1; y++) {
        uint32_t *const row = w->voters + ((size_t)z * w->s.ny + y) * w->s.nx;

        for (uint32_t x = 0; x < w->s.nx; x++)
            if (VOTING_WEIGHT(row[x]) != 0)
                row[x] = turned(w, row[x], z, y, x);
    }
}

/* --- the backend --------------------------------------------------------------------------- */

static void run_band(void *user, unsigned thread, size_t task)
{
    const cpu_worker *const w = user;
    const voting_scheme *const s = &w->s;
    uint32_t *const plane = w->phase == VOTING_REBLUR ? w->voters : w->votes;
    uint32_t z, y0, y1;

    voting_band_rows(s, w->first + task, &z, &y0, &y1);
    switch (w->phase) {
    case VOTING_BLUR:
    case VOTING_REBLUR:
        voting_blur(s, &w->levels, w->task->pixels, z, y0, y1, w->scratch[thread],
                    plane + ((size_t)z * s->ny + y0) * s->nx);
        break;
    case VOTING_VOTERS:
        do_voters(w, z, y0, y1);
        break;
    case VOTING_VOTE:
        do_vote(w, w->scratch[thread], z, y0, y1);
        break;
    case VOTING_TURN:
        do_turn(w, z, y0, y1);
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
    for (unsigned i = 0; w->scratch != NULL && i < w->task->threads; i++)
        free(w->scratch[i]);
    free(w->scratch);
    voting_tables_free(&w->tables);
    free(w);
}

static tc_status make_scratch(cpu_worker *w, tc_err *err)
{
    const size_t blur = voting_blur_scratch(&w->s, w->s.band_rows);
    const size_t vote = w->s.band_rows * band_stride(&w->s);

    w->scratch = calloc(w->task->threads, sizeof *w->scratch);
    for (unsigned i = 0; w->scratch != NULL && i < w->task->threads; i++) {
        w->scratch[i] = malloc((blur > vote ? blur : vote) * sizeof **w->scratch);
        if (w->scratch[i] == NULL)
            return tc_no_memory(err, "voting");
    }
    return w->scratch == NULL ? tc_no_memory(err, "voting") : TC_OK;
}

static tc_status cpu_open(const an_task *task, const void *state, void **worker, tc_err *err)
{
    cpu_worker *const w = calloc(1, sizeof *w);
    tc_status st;

    (void)state;
    *worker = w;
    if (w == NULL)
        return tc_no_memory(err, "voting");
    w->task = task;
    w->params = task->params;
    w->batch = task->threads;
    st = voting_scheme_init(w->params, task->item, task->item->name, &w->s, err);
    if (st == TC_OK)
        st = voting_levels_init(w->params, &w->s, task->pixels, &w->levels, err);
    if (st == TC_OK)
        st = voting_tables_init(&w->s, &w->tables, err);
    if (st == TC_OK)
        st = make_scratch(w, err);
    if (st == TC_OK)
        st = an_pool_create(task->threads, &w->pool, err);
    if (st != TC_OK)
        cpu_close(worker);
    return st;
}

static tc_status cpu_step(void *worker, void *state, uint64_t *units_done, tc_err *err)
{
    cpu_worker *const w = worker;
    an_state_head *const head = state;
    const double start = tc_seconds();
    uint64_t n;
    int round;

    (void)err;
    *units_done = head->units_done;
    if (head->units_done >= w->s.units)
        return TC_OK;
    voting_unit_at(&w->s, head->units_done, &w->phase, &round, &w->first);
    n = w->s.bands - w->first < w->batch ? w->s.bands - w->first : w->batch;
    if (w->phase == VOTING_VOTE || w->phase == VOTING_TURN)
        voting_tables_round(&w->s, &w->tables, round, w->pool);
    w->votes = voting_votes(state);
    w->voters = w->votes + w->s.n;
    an_pool_run(w->pool, run_band, w, n);
    head->units_done += n;
    *units_done = head->units_done;
    w->batch = an_next_batch(w->batch, n, w->task->threads, tc_seconds() - start);
    return head->units_done == w->s.units ? TC_OK : TC_MORE;
}

/* The state is always up to date. */
const an_backend voting_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .step = cpu_step,
    .sync = an_always_synced,
    .close = cpu_close
};
