#include "app/weights.h"

#include <stdlib.h>

tc_status weights_of(const an_unit *unit, bool on_device, weights *w, tc_err *err)
{
    const size_t n = unit->job->n_items;

    *w = (weights){ .n = n,
                    .speed = on_device ? AN_DEVICE_SPEED : 1,
                    .host = calloc(n + 1, sizeof *w->host),
                    .portions = calloc(n + 1, sizeof *w->portions),
                    .writing = calloc(n + 1, sizeof *w->writing) };
    if (w->host == NULL || w->portions == NULL || w->writing == NULL)
        return tc_no_memory(err, "the items");
    for (size_t i = n; i-- > 0;) {
        an_plan plan = { 0 };
        const tc_status status =
            unit->analysis->plan(unit->params, &unit->job->items[i], &plan, err);

        if (status != TC_OK)
            return status;
        w->opening += plan.open_flops;
        w->portions[i + 1] = an_portions_flops(&plan);
        w->host[i + 1] = an_weight(&plan, 1) - w->portions[i + 1];
        w->identifying += plan.identify_flops;
        w->writing[i] = w->writing[i + 1] + plan.write_flops;
        w->byte = plan.byte_flops;
    }
    for (size_t i = 0; i < n; i++) {
        w->host[i + 1] += w->host[i];
        w->portions[i + 1] += w->portions[i];
    }
    return TC_OK;
}

void weights_free(weights *w)
{
    free(w->host);
    free(w->portions);
    free(w->writing);
}

double weights_before(const weights *w, size_t i)
{
    return w->opening + w->host[i] + w->portions[i] / w->speed;
}

double weights_whole(const weights *w, size_t done, double bytes)
{
    return weights_before(w, w->n) + w->identifying + w->byte * bytes + w->writing[done];
}

void weights_learn(weights *w, size_t i, const item_times *times)
{
    if (w->n_known == 1)
        w->known_host = w->known_portions = w->known.host = w->known.portions = 0;
    w->n_known++;
    w->known_host += w->host[i + 1] - w->host[i];
    w->known_portions += w->portions[i + 1] - w->portions[i];
    w->known.host += times->host;
    w->known.portions += times->portions;
    if (w->known_host > 0 && w->known_portions > 0 && w->known.host > 0 && w->known.portions > 0)
        w->speed = w->known_portions / w->known.portions / (w->known_host / w->known.host);
}

void weights_on_cpu(weights *w)
{
    w->speed = 1;
}
