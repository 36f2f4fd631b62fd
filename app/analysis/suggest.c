/* Helpers for the `suggest` functions of analyses: see suggest.h. */
#include "app/analysis/suggest.h"

#include <assert.h>
#include <stdlib.h>

void an_suggestion_free(an_suggestion *s)
{
    for (size_t i = 0; i < s->n_curves; i++) {
        free(s->curves[i].x);
        free(s->curves[i].y);
    }
    json_decref(s->parameters);
    *s = (an_suggestion){ .parameters = NULL };
}

tc_status an_suggest_value(an_suggestion *s, const json_t *given, const char *key, json_t *value,
                           tc_err *err)
{
    if (json_object_get(given, key) != NULL) {
        json_decref(value);
        return TC_OK;
    }
    return json_object_set_new(s->parameters, key, value) == 0 ? TC_OK
                                                               : tc_no_memory(err, "a suggestion");
}

an_curve *an_add_curve(an_suggestion *s, const char *x_name, const char *y_name, size_t n)
{
    assert(x_name != NULL && y_name != NULL && n > 0);
    if (s->n_curves == AN_MAX_CURVES)
        return NULL;
    an_curve *const c = &s->curves[s->n_curves++];
    *c = (an_curve){ .x_name = x_name,
                     .y_name = y_name,
                     .n = n,
                     .x = calloc(n + 1, sizeof *c->x),
                     .y = calloc(n + 1, sizeof *c->y) };
    return c->x != NULL && c->y != NULL ? c : NULL;
}

tc_status an_try_parameters(const an_analysis *analysis, const an_pictures *pictures, size_t i,
                            const json_t *parameters, wu_output *out, tc_err *err)
{
    assert(i < pictures->n);
    an_work work = { .item = &pictures->items[i],
                     .pixels = &pictures->pixels[i],
                     .threads = pictures->threads,
                     .poll = pictures->poll };
    void *params = NULL;
    *out = (wu_output){ .n = 0 };
    tc_status status = an_parse_params(analysis, parameters, "parameters", &params, err);
    work.params = params;
    if (status == TC_OK)
        status = an_check_item(analysis, params, work.item, work.item->name, err);
    if (status == TC_OK)
        status = analysis->plan(params, work.item, &work.plan, err);
    if (status == TC_OK)
        status = an_compute_item(analysis, &work, 0, 0, out, err);
    an_params_free(analysis, &params);
    return status;
}

int an_compare_areas(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

tc_status an_copy_middle(const wu_pixels *px, wu_pixels *out, tc_err *err)
{
    const uint32_t nx = px->nx < AN_MIDDLE_SIDE ? px->nx : AN_MIDDLE_SIDE,
                   ny = px->ny < AN_MIDDLE_SIDE ? px->ny : AN_MIDDLE_SIDE;
    const uint32_t from[3] = { 0, (px->ny - ny) / 2, (px->nx - nx) / 2 }, size[3] = { 1, ny, nx };

    return an_copy_box(px, from, size, out, err);
}

double an_middle_pixels(const wu_item *item)
{
    const double nx = item->nx < AN_MIDDLE_SIDE ? item->nx : AN_MIDDLE_SIDE;

    return nx * (item->ny < AN_MIDDLE_SIDE ? item->ny : AN_MIDDLE_SIDE);
}
