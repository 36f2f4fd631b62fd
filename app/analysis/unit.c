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

tc_status an_task_run(const an_analysis *analysis, const an_backend *backend, const an_task *task, void *state,
                      double deadline, tc_err *err)
{
    void *worker = NULL;
    uint64_t units;
    tc_status st = analysis->init(task, state, err);

    if (st == TC_OK)
        st = backend->open(task, state, &worker, err);
    if (st == TC_OK)
        st = TC_MORE;
    while (st == TC_MORE) {
        if (deadline > 0 && tc_seconds() > deadline)
            st = tc_fail(err, TC_TRY_LATER, "item \"%s\": the time for it is over", task->item->name);
        else
            st = backend->step(worker, state, &units, err);
    }
    if (st == TC_OK)
        st = backend->sync(worker, state, err);
    if (worker != NULL)
        backend->close(&worker);
    return st;
}
