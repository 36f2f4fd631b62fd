#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/analysis.h"
#include "app/base/array.h"

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

/* --- names of arrays ------------------------------------------------------------------ */

typedef struct array_name {
    char *text;
    size_t item;               /* whose array it is */
} array_name;

typedef struct name_list {
    size_t n, room;
    array_name *names;
} name_list;

static void free_names(name_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->names[i].text);
    free(list->names);
}

/* Moves the names of the item's own arrays from out to the list. */
static tc_status take_names(name_list *list, wu_output *out, size_t item, tc_err *err)
{
    for (size_t i = 0; i < out->n; i++) {
        if (out->arrays[i].kind != WU_OWN)
            continue;
        array_name *const grown = tc_array_grow(list->names, list->n, &list->room, sizeof *grown);
        if (grown == NULL)
            return tc_no_memory(err, "the names of arrays");
        list->names = grown;
        list->names[list->n++] = (array_name){ out->arrays[i].info.name, item };
        out->arrays[i].info.name = NULL;
    }
    return TC_OK;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(((const array_name *)a)->text, ((const array_name *)b)->text);
}

/* Names of arrays are put together from those of items and of what is in them,
 * so two items can come to the same one: "a" with a map of sum_variance, and
 * "a_sum" with one of variance. */
static tc_status check_names(const an_unit *u, tc_err *err)
{
    const wu_job *const job = u->job;
    name_list list = { .n = 0 };
    tc_status st = TC_OK;

    for (size_t i = 0; st == TC_OK && i < job->n_items; i++) {
        wu_output out = { .n = 0 };

        st = u->analysis->expect(u->params, &job->items[i], &out, err);
        if (st == TC_OK)
            st = take_names(&list, &out, i, err);
        wu_output_free(&out);
    }
    if (list.n > 0)
        qsort(list.names, list.n, sizeof *list.names, by_text);
    for (size_t i = 1; st == TC_OK && i < list.n; i++) {
        const array_name *const a = &list.names[i - 1], *const b = &list.names[i];

        if (strcmp(a->text, b->text) == 0)
            st = tc_fail(err, TC_BAD_INPUT, "%.400s: items \"%s\" and \"%s\" would both have an array %s in the result: "
                         "give one of them another name", job->path, job->items[a->item].name, job->items[b->item].name,
                         a->text);
    }
    free_names(&list);
    return st;
}

/* --- parameters ----------------------------------------------------------------------------- */

tc_status an_parse(const an_analysis *analysis, const json_t *json, const char *where, void **params, tc_err *err)
{
    tc_status st;

    *params = calloc(1, analysis->params_bytes);
    if (*params == NULL)
        return tc_no_memory(err, "the parameters");
    st = an_params_read(analysis->parameters, json, *params, where, err);
    if (st == TC_OK && analysis->derive_params != NULL)
        st = analysis->derive_params(*params, where, err);
    if (st != TC_OK)
        an_params_free(analysis, params);
    return st;
}

void an_params_free(const an_analysis *analysis, void **params)
{
    if (*params != NULL && analysis->clear_params != NULL)
        analysis->clear_params(*params);
    if (*params != NULL)
        json_decref(((an_params_head *)*params)->as_run);
    free(*params);
    *params = NULL;
}

json_t *an_params_as_run(const void *params)
{
    return json_incref(((const an_params_head *)params)->as_run);
}

/* --- units and tasks --------------------------------------------------------------------- */

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
    if (st == TC_OK)
        st = check_names(out, err);
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
