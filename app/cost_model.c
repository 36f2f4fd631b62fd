/* Computes the cost of each part of a job, from which the fraction done is computed: see
 * cost_model.h. */
#include "app/cost_model.h"

#include <assert.h>
#include <stdlib.h>

tc_status cost_model_make(const an_unit *unit, bool on_device, cost_model *w, tc_err *err)
{
    const size_t n = unit->job->n_items;

    *w = (cost_model){ .n = n,
                       .speed = on_device ? AN_DEVICE_SPEED : 1,
                       .host = calloc(n + 1, sizeof *w->host),
                       .chunks = calloc(n + 1, sizeof *w->chunks),
                       .writing_cost = calloc(n + 1, sizeof *w->writing_cost) };
    if (w->host == NULL || w->chunks == NULL || w->writing_cost == NULL)
        return tc_no_memory(err, "the items");
    /* Until the second loop, host[i + 1] and chunks[i + 1] hold the cost of item i alone. */
    for (size_t i = n; i-- > 0;) {
        an_plan plan = { 0 };
        return_if_error(unit->analysis->plan(unit->params, &unit->job->items[i], &plan, err));
        w->reading_cost += plan.open_flops;
        w->chunks[i + 1] = an_chunks_flops(&plan);
        w->host[i + 1] = an_item_cost(&plan, 1) - w->chunks[i + 1];
        w->sha256_cost += plan.identify_flops;
        w->writing_cost[i] = w->writing_cost[i + 1] + plan.write_flops;
        w->byte_cost = plan.byte_flops; /* the same for all items */
    }
    for (size_t i = 0; i < n; i++) {
        w->host[i + 1] += w->host[i];
        w->chunks[i + 1] += w->chunks[i];
    }
    return TC_OK;
}

void cost_model_free(cost_model *w)
{
    free(w->host);
    free(w->chunks);
    free(w->writing_cost);
}

double cost_before(const cost_model *w, size_t i)
{
    assert(i <= w->n);
    return w->reading_cost + w->host[i] + w->chunks[i] / w->speed;
}

double cost_total(const cost_model *w, size_t done, double bytes)
{
    assert(done <= w->n && bytes >= 0);
    return cost_before(w, w->n) + w->sha256_cost + w->byte_cost * bytes + w->writing_cost[done];
}

void cost_add_times(cost_model *w, size_t i, const item_times *times)
{
    assert(i < w->n);
    /* At the second item, removes the first one from the sums, as its time may include compiling
     * kernels. */
    if (w->n_done_items == 1)
        w->done_host = w->done_chunks = w->done_times.host = w->done_times.chunks = 0;
    w->n_done_items++;
    w->done_host += w->host[i + 1] - w->host[i];
    w->done_chunks += w->chunks[i + 1] - w->chunks[i];
    w->done_times.host += times->host;
    w->done_times.chunks += times->chunks;
    if (w->done_host > 0 && w->done_chunks > 0 && w->done_times.host > 0 &&
        w->done_times.chunks > 0)
        /* The device's operations a second, divided by the host's operations a second. */
        w->speed = w->done_chunks / w->done_times.chunks / (w->done_host / w->done_times.host);
}

void cost_use_cpu(cost_model *w)
{
    w->speed = 1;
}
