/*
 * voting: finds the points, which are peaks of the sums of votes of the last round, declares the
 * arrays of a result and fills them.
 */
#include "app/analysis/voting/voting.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/array.h"
#include "app/base/sort.h"

/* --- peaks ----------------------------------------------------------------------------------- */

/* Whether pixel a comes before pixel b in the order of peaks: a has the larger sum, or the sums are
 * equal and a is earlier in the picture. */
static bool ranks_before(const uint32_t *votes, size_t a, size_t b)
{
    return votes[a] > votes[b] || (votes[a] == votes[b] && a < b);
}

/* Whether pixel (z, y, x) is a peak: it comes before all its neighbours (ranks_before). */
static bool is_peak(const voting_scheme *s, const uint32_t *votes, uint32_t z, uint32_t y,
                    uint32_t x)
{
    const size_t i = ((size_t)z * s->ny + y) * s->nx + x;

    for (int64_t dz = z > 0 ? -1 : 0; dz <= (z + 1 < s->nz ? 1 : 0); dz++)
        for (int64_t dy = y > 0 ? -1 : 0; dy <= (y + 1 < s->ny ? 1 : 0); dy++)
            for (int64_t dx = x > 0 ? -1 : 0; dx <= (x + 1 < s->nx ? 1 : 0); dx++) {
                const size_t j = (size_t)((int64_t)i + (dz * s->ny + dy) * s->nx + dx);

                if (j != i && !ranks_before(votes, i, j))
                    return false;
            }
    return true;
}

/* A peak before suppression, in fewer bytes than a voting_peak, as there are many more peaks than
 * points. */
typedef struct candidate {
    uint32_t score, index; /* score; index of the pixel */
} candidate;

typedef struct candidates {
    size_t n, room;
    candidate *list;
} candidates;

static tc_status add_candidate(candidates *c, candidate added, tc_err *err)
{
    candidate *const list = tc_array_grow(c->list, c->n, &c->room, sizeof *list);

    if (list == NULL)
        return tc_no_memory(err, "the peaks");
    c->list = list;
    c->list[c->n++] = added;
    return TC_OK;
}

/* Appends the peaks in rows [y0, y1) of slice z to c. */
static tc_status find_peaks_in_rows(const voting_scheme *s, const uint32_t *votes, uint32_t z,
                                    uint32_t y0, uint32_t y1, candidates *c, tc_err *err)
{
    size_t i = ((size_t)z * s->ny + y0) * s->nx;

    for (uint32_t y = y0; y < y1; y++)
        for (uint32_t x = 0; x < s->nx; x++, i++) {
            /* Comparing the four nearest pixels first rules out most pixels. */
            if (votes[i] == 0 || (x > 0 && votes[i - 1] >= votes[i]) ||
                (x + 1 < s->nx && votes[i + 1] > votes[i]) ||
                (y > 0 && votes[i - s->nx] >= votes[i]) ||
                (y + 1 < s->ny && votes[i + s->nx] > votes[i]))
                continue;
            if (is_peak(s, votes, z, y, x))
                return_if_error(add_candidate(c, (candidate){ votes[i], (uint32_t)i }, err));
        }
    return TC_OK;
}

/* The search for peaks by several threads. */
typedef struct search {
    const voting_scheme *s;
    const uint32_t *votes;
    struct thread_result {
        candidates peaks; /* the peaks in the bands that this thread searched */
        tc_status status;
        tc_err err;
    } *results; /* [threads] */
} search;

/* Called by the pool's threads: finds the peaks of a band. */
static void search_band(void *user, unsigned thread, size_t band)
{
    const search *const job = user;
    struct thread_result *const result = &job->results[thread];
    uint32_t z, y0, y1;

    voting_band_rows(job->s, band, &z, &y0, &y1);
    if (result->status == TC_OK)
        result->status =
            find_peaks_in_rows(job->s, job->votes, z, y0, y1, &result->peaks, &result->err);
}

/* Finds all peaks, in no particular order. c->list: the caller frees it, also after a failure. */
static tc_status find_peaks(const an_work *work, const voting_scheme *s, const uint32_t *votes,
                            an_pool *pool, candidates *c, tc_err *err)
{
    const unsigned threads = work->threads;
    search all = { s, votes, calloc(threads, sizeof *all.results) };
    unsigned longest = 0;
    tc_status status = all.results == NULL ? tc_no_memory(err, "the peaks") : TC_OK;

    if (status == TC_OK)
        status = an_pool_run_polled(pool, search_band, &all, s->bands, work->poll, err);
    /* Appends the other lists to the longest one. */
    for (unsigned i = 1; all.results != NULL && i < threads; i++)
        longest = all.results[i].peaks.n > all.results[longest].peaks.n ? i : longest;
    if (all.results != NULL) {
        *c = all.results[longest].peaks;
        all.results[longest].peaks = (candidates){ .n = 0 };
    }
    for (unsigned i = 0; all.results != NULL && i < threads; i++) {
        const struct thread_result *const result = &all.results[i];

        if (status == TC_OK && result->status != TC_OK)
            status = tc_fail(err, result->status, "%s", result->err.message);
        for (size_t k = 0; status == TC_OK && k < result->peaks.n; k++) {
            status = add_candidate(c, result->peaks.list[k], err);
            if (status == TC_OK)
                status = tc_call_poll(work->poll, err);
        }
        free(result->peaks.list);
    }
    free(all.results);
    return status;
}

/* Compares two candidates as voting_compare_peaks compares peaks. */
static int compare_candidates(const void *va, const void *vb)
{
    const candidate *const a = va, *const b = vb;

    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

int voting_compare_peaks(const void *va, const void *vb)
{
    const voting_peak *const a = va, *const b = vb;

    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    if (a->z != b->z)
        return a->z < b->z ? -1 : 1;
    if (a->y != b->y)
        return a->y < b->y ? -1 : 1;
    return a->x < b->x ? -1 : a->x > b->x;
}

/* --- suppression ----------------------------------------------------------------------------- */

/* The peaks that are not suppressed, sorted into boxes. A box is larger than the radius, so all
 * peaks nearer than the radius to a pixel are in the pixel's box or an adjacent one. Axes are z, y,
 * x. */
typedef struct grid {
    size_t box[3]; /* size of a box in pixels */
    size_t n[3];   /* number of boxes along each axis */
    int64_t *head; /* [n[0]][n[1]][n[2]]: index of a kept peak in the box, from which `next` leads
                      to the others; -1 if the box has none */
    int64_t *next; /* for each kept peak: the next one in its box; -1 at the last one */
} grid;

static tc_status grid_init(const voting_scheme *s, size_t n_peaks, grid *g, tc_err *err)
{
    const size_t length[3] = { s->nz, s->ny, s->nx };
    size_t boxes = 1;

    for (int a = 0; a < 3; a++) {
        g->box[a] = (size_t)s->shape.reach[a] + 1;
        g->n[a] = length[a] / g->box[a] + 1;
        boxes *= g->n[a];
    }
    g->head = malloc(boxes * sizeof *g->head);
    g->next = malloc((n_peaks + 1) * sizeof *g->next);
    if (g->head == NULL || g->next == NULL)
        return tc_no_memory(err, "the peaks");
    for (size_t i = 0; i < boxes; i++)
        g->head[i] = -1;
    return TC_OK;
}

static void free_grid(grid *g)
{
    free(g->head);
    free(g->next);
}

/* Whether two peaks are nearer to each other than the radius. */
static bool are_close(const voting_scheme *s, const voting_peak *a, const voting_peak *b)
{
    const int64_t dz = ((int64_t)a->z - b->z) * s->scale[0],
                  dy = ((int64_t)a->y - b->y) * s->scale[1],
                  dx = ((int64_t)a->x - b->x) * s->scale[2];

    return dz * dz + dy * dy + dx * dx < s->radius64 * s->radius64;
}

/* Whether p is nearer than the radius to a kept peak. */
static bool is_suppressed(const voting_scheme *s, const grid *g, const voting_peak *list,
                          const voting_peak *p)
{
    const size_t box[3] = { p->z / g->box[0], p->y / g->box[1], p->x / g->box[2] };

    for (size_t z = box[0] > 0 ? box[0] - 1 : 0; z <= box[0] + 1 && z < g->n[0]; z++)
        for (size_t y = box[1] > 0 ? box[1] - 1 : 0; y <= box[1] + 1 && y < g->n[1]; y++)
            for (size_t x = box[2] > 0 ? box[2] - 1 : 0; x <= box[2] + 1 && x < g->n[2]; x++)
                for (int64_t i = g->head[(z * g->n[1] + y) * g->n[2] + x]; i >= 0; i = g->next[i])
                    if (are_close(s, &list[i], p))
                        return true;
    return false;
}

/* Appends a peak to the kept peaks, unless it is suppressed. */
static tc_status add_unless_suppressed(const voting_scheme *s, grid *g, const voting_peak *peak,
                                       voting_peaks *peaks, tc_err *err)
{
    const size_t box =
        (peak->z / g->box[0] * g->n[1] + peak->y / g->box[1]) * g->n[2] + peak->x / g->box[2];

    if (is_suppressed(s, g, peaks->list, peak))
        return TC_OK;
    voting_peak *const list = tc_array_grow(peaks->list, peaks->n, &peaks->room, sizeof *list);
    if (list == NULL)
        return tc_no_memory(err, "the peaks");
    peaks->list = list;
    g->next[peaks->n] = g->head[box];
    g->head[box] = (int64_t)peaks->n;
    peaks->list[peaks->n++] = *peak;
    return TC_OK;
}

tc_status voting_suppress_peaks(const voting_scheme *s, voting_peaks *p, const tc_poll *poll,
                                tc_err *err)
{
    const size_t n = p->n;
    TC_AUTO(free_grid) grid g = { .head = NULL };
    return_if_error(tc_sort(p->list, n, sizeof *p->list, voting_compare_peaks, poll, err));

    return_if_error(grid_init(s, n, &g, err));
    p->n = 0; /* kept peaks are written to the front of the same list */
    p->room = n;
    for (size_t i = 0; i < n; i++) {
        const voting_peak peak = p->list[i];

        return_if_error(add_unless_suppressed(s, &g, &peak, p, err));
        return_if_error(tc_call_poll(poll, err));
    }
    return TC_OK;
}

/* Does the same as voting_suppress_peaks for candidates: sorts them, and appends those that are
 * kept to p, which is empty. */
static tc_status choose_candidates(const voting_scheme *s, candidates *c, voting_peaks *p,
                                   const tc_poll *poll, tc_err *err)
{
    TC_AUTO(free_grid) grid g = { .head = NULL };
    return_if_error(tc_sort(c->list, c->n, sizeof *c->list, compare_candidates, poll, err));

    return_if_error(grid_init(s, c->n, &g, err));
    for (size_t i = 0; i < c->n; i++) {
        const uint32_t index = c->list[i].index, x = index % s->nx, y = index / s->nx % s->ny,
                       z = index / s->nx / s->ny;

        return_if_error(add_unless_suppressed(
            s, &g, &(voting_peak){ c->list[i].score, z, y, x, { z, y, x } }, p, err));
        return_if_error(tc_call_poll(poll, err));
    }
    return TC_OK;
}

/* --- threshold ------------------------------------------------------------------------------- */

/* The threshold "auto" is 3/10 of the score of the middle peak. This is the peak at which the
 * scores, added up from the best peak on, reach half of the sum of all scores. Many weak peaks,
 * which are noise, hardly change this threshold, and it does not depend on the number of cells. */
void voting_apply_threshold(const voting_params *params, voting_peaks *p)
{
    uint64_t part = 0;
    size_t middle = 0, n = 0;

    p->sum = 0;
    for (size_t i = 0; i < p->n; i++)
        p->sum += p->list[i].score;
    while (p->n > 0 && 2 * (part += p->list[middle].score) < p->sum)
        middle++;
    p->threshold = p->n > 0 ? voting_threshold_of(p->list[middle].score) : 0;
    const double least = params->threshold_auto ? p->threshold : params->threshold;

    while (n < p->n && p->list[n].score >= least)
        n++;
    p->n = n;
}

uint32_t voting_threshold_of(uint32_t score)
{
    return (uint32_t)((3 * (uint64_t)score + 9) / 10);
}

/* --- output ---------------------------------------------------------------------------------- */

tc_status voting_declare_arrays(const void *params, const wu_item *item, wu_output *out,
                                tc_err *err)
{
    static const char *const zyx[] = { "z", "y", "x" };
    const unsigned dims = item->is_stack ? 3 : 2;
    const wu_declaration arrays[] = {
        { "count", WU_I64, WU_VALUE, "items", .title = "count" },
        { "bright", WU_BOOL, WU_VALUE, "items", .title = "bright" },
        { "radius", WU_F64, WU_VALUE, "items", .title = "radius", .unit = "pixel" },
        { "threshold", WU_I64, WU_VALUE, "items", .title = "threshold", .unit = "votes" },
        { "peak_sum", WU_I64, WU_PROOF, .table = NULL },
        { "point_item", WU_I64, WU_ITEM, .table = "points" },
        { "point", WU_F64, WU_POSITION, "points", .unit = "pixel", .n_axes = 1,
          .axes = { { .n = dims, .words = zyx + 3 - dims } } },
        { "score", WU_I64, WU_VALUE, "points", .title = "score" },
    };

    const voting_params *const p = params;
    /* indices in `arrays` of the arrays that only some results have */
    enum { DECLARED = sizeof arrays / sizeof arrays[0], BRIGHT = 1, RADIUS, THRESHOLD, SUM };
    wu_declaration declared[DECLARED];
    size_t n = 0;

    for (size_t i = 0; i < DECLARED; i++)
        if ((i != BRIGHT || p->polarity == VOTING_AUTO) && (i != RADIUS || p->radius_per_image) &&
            ((i != THRESHOLD && i != SUM) || p->threshold_auto))
            declared[n++] = arrays[i];
    return wu_output_declare(out, declared, n, item, err);
}

bool voting_note_result(const void *params, const wu_item *item, const wu_output *out, char *text,
                        size_t size)
{
    const voting_params *const p = params;
    if (wu_output_find(out, "point_item")->info.shape[0] > 0)
        return false;
    snprintf(
        text, size,
        "no cells: %stry another --param radius%s, polarity or foreground, or a lower threshold",
        item->n_masks > 0 ? "the mask may be empty, else " : "",
        p->radius_per_image ? " (now the largest)" : "");
    return true;
}

tc_status voting_add_points(const an_work *work, double radius, size_t item_index, voting_peaks *p,
                            wu_output *out, tc_err *err)
{
    const size_t dims = work->item->is_stack ? 3 : 2;
    const voting_params *const params = work->params;
    voting_foreground foreground;

    return_if_error(voting_find_foreground(work, &foreground, err));
    voting_keep_foreground(work->pixels, &foreground, p);
    return_if_error(voting_declare_arrays(params, work->item, out, err));
    return_if_error(wu_output_allocate(out, p->n, err));
    if (params->polarity == VOTING_AUTO) {
        bool dark;

        return_if_error(voting_find_dark(work, &dark, err));
        *(uint8_t *)wu_output_data(out, "bright") = !dark;
    }
    if (params->radius_per_image)
        *(double *)wu_output_data(out, "radius") = radius;
    if (params->threshold_auto) {
        *(int64_t *)wu_output_data(out, "threshold") = p->threshold;
        *(int64_t *)wu_output_data(out, "peak_sum") = (int64_t)p->sum;
    }
    *(int64_t *)wu_output_data(out, "count") = (int64_t)p->n;
    for (size_t i = 0; i < p->n; i++) {
        ((int64_t *)wu_output_data(out, "point_item"))[i] = (int64_t)item_index;
        ((int64_t *)wu_output_data(out, "score"))[i] = p->list[i].score;
        memcpy((double *)wu_output_data(out, "point") + i * dims, p->list[i].point + 3 - dims,
               dims * sizeof(double));
    }
    return TC_OK;
}

tc_status voting_find_points(const an_work *work, const voting_scheme *s, const void *state,
                             voting_peaks *points, tc_err *err)
{
    assert(points->n == 0 && points->list == NULL);
    const voting_params *const p = work->params;
    const uint32_t *const votes = voting_votes_const(state);
    candidates peaks = { 0, 0, NULL };
    TC_AUTO(an_pool_destroy) an_pool *pool = NULL;
    return_if_error(an_pool_create(work->threads, &pool, err));

    tc_status status = find_peaks(work, s, votes, pool, &peaks, err);
    if (status == TC_OK)
        status = choose_candidates(s, &peaks, points, work->poll, err);
    free(peaks.list);
    return_if_error(status);
    voting_apply_threshold(p, points);
    return p->refine ? voting_refine(s, votes + s->n, NULL, pool, points, work->poll, err) : TC_OK;
}

static void free_peaks(voting_peaks *p)
{
    free(p->list);
}

tc_status voting_finish(const an_work *work, size_t item_index, const void *state, wu_output *out,
                        tc_err *err)
{
    TC_AUTO(free_peaks) voting_peaks points = { .n = 0 };
    voting_scheme s;
    return_if_error(voting_scheme_init(work->params, work->item, work->item->name, &s, err));

    return_if_error(voting_scheme_use_pixels(work, &s, err));
    return_if_error(voting_find_points(work, &s, state, &points, err));
    return voting_add_points(work, s.radius, item_index, &points, out, err);
}
