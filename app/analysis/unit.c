#include <stdio.h>

#include "app/analysis/analysis.h"

/* Whether the analysis takes every item, one by one and together. */
static tc_status check_items(const an_unit *u, tc_err *err)
{
    const wu_job *const job = u->job;
    tc_status st = TC_OK;

    for (size_t i = 0; st == TC_OK && i < job->n_items; i++) {
        char where[TC_ERR_MAX];

        snprintf(where, sizeof where, "%.600s: item \"%s\"", job->path, job->items[i].name);
        st = u->analysis->check_item(u->params, &job->items[i], where, err);
        if (st == TC_OK && u->analysis->one_kind && job->items[i].is_stack != job->items[0].is_stack)
            st = tc_fail(err, TC_BAD_INPUT, "%s: %s takes images or stacks, not both in one job", where,
                         u->analysis->name);
    }
    return st;
}

tc_status an_unit_read(const char *path, an_unit *out, tc_err *err)
{
    char where[TC_ERR_MAX];
    tc_status st;

    *out = (an_unit){ .job = NULL };
    st = wu_job_read(path, &out->job, err);
    if (st != TC_OK)
        return st;
    out->analysis = an_find(out->job->analysis);
    if (out->analysis == NULL) {
        st = tc_fail(err, TC_BAD_INPUT, "%s: job.json: analysis: \"%.64s\" is not known to this version", path,
                     out->job->analysis);
    } else {
        snprintf(where, sizeof where, "%.600s: job.json: parameters", path);
        st = an_parse(out->analysis, out->job->parameters, where, &out->params, err);
    }
    if (st == TC_OK)
        st = check_items(out, err);
    if (st != TC_OK)
        an_unit_free(out);
    return st;
}

void an_unit_free(an_unit *unit)
{
    an_params_free(unit->analysis, &unit->params);
    wu_job_destroy(&unit->job);
}
