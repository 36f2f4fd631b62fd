#include "app/analysis/voting/voting.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/params.h"
#include "app/analysis/selftest.h"

static const char *const polarity_names[] = { "bright", "dark", NULL };
static const char *const weight_names[] = { "root", "gradient", NULL };
/* First half-angles in degrees; each is half the one before. */
static const double cones[] = { 90, 45, 22.5 };

static tc_status get_threshold(const json_t *json, voting_params *p, const char *where, tc_err *err)
{
    const json_t *const v = json_object_get(json, "threshold");

    if (v == NULL || (json_is_string(v) && strcmp(json_string_value(v), "auto") == 0))
        return TC_OK;
    if (!json_is_number(v) || !(json_number_value(v) >= 0 && json_number_value(v) <= UINT32_MAX))
        return tc_fail(err, TC_BAD_INPUT, "%s.threshold: must be \"auto\" or a number from 0 to %.0f", where,
                       (double)UINT32_MAX);
    p->automatic = false;
    p->threshold = json_number_value(v);
    return TC_OK;
}

static tc_status get_cone(const json_t *json, voting_params *p, const char *where, tc_err *err)
{
    const json_t *const v = json_object_get(json, "cone");

    if (v == NULL)
        return TC_OK;
    for (int i = 0; i < 3; i++)
        if (json_is_number(v) && !(json_number_value(v) < cones[i]) && !(json_number_value(v) > cones[i])) {
            p->cone = i;
            return TC_OK;
        }
    return tc_fail(err, TC_BAD_INPUT, "%s.cone: must be 90, 45 or 22.5", where);
}

static tc_status read_params(const json_t *json, void *params, const char *where, tc_err *err)
{
    voting_params *const p = params;
    static const char *const known[] = { "radius", "sigma", "polarity", "threshold", "cone", "weight",
                                         "floor", "refine", NULL };
    int polarity = 0, weight = 0;
    tc_status st = an_check_keys(json, known, where, err);

    *p = (voting_params){ .sigma = 2, .automatic = true, .cone = 1, .floor = 3, .refine = true };
    if (st == TC_OK && json_object_get(json, "radius") == NULL)
        st = tc_fail(err, TC_BAD_INPUT, "%s.radius: is missing", where);
    if (st == TC_OK)
        st = an_get_number(json, "radius", 1e-3, 65535, &p->radius, where, err);
    if (st == TC_OK)
        st = an_get_number(json, "sigma", 0, VOTING_MAX_SIGMA, &p->sigma, where, err);
    if (st == TC_OK)
        st = an_get_choice(json, "polarity", polarity_names, &polarity, where, err);
    if (st == TC_OK)
        st = get_threshold(json, p, where, err);
    if (st == TC_OK)
        st = get_cone(json, p, where, err);
    if (st == TC_OK)
        st = an_get_choice(json, "weight", weight_names, &weight, where, err);
    if (st == TC_OK)
        st = an_get_number(json, "floor", 0, 1000, &p->floor, where, err);
    if (st == TC_OK)
        st = an_get_bool(json, "refine", &p->refine, where, err);
    p->dark = polarity == 1;
    p->root = weight == 0;
    return st;
}

static json_t *params_json(const void *params)
{
    const voting_params *const p = params;

    return json_pack("{s:f,s:f,s:s,s:o,s:f,s:s,s:f,s:b}",
                     "radius", p->radius,
                     "sigma", p->sigma,
                     "polarity", polarity_names[p->dark ? 1 : 0],
                     "threshold", p->automatic ? json_string("auto") : json_real(p->threshold),
                     "cone", cones[p->cone],
                     "weight", weight_names[p->root ? 0 : 1],
                     "floor", p->floor,
                     "refine", (int)p->refine);
}

static tc_status check_item(const void *params, const wu_item *item, const char *where, tc_err *err)
{
    voting_scheme s;

    if (item->n_masks > 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: has a mask, which voting does not use", where);
    return voting_scheme_init(params, item, where, &s, err);
}

static tc_status plan(const void *params, const wu_item *item, an_plan *out, tc_err *err)
{
    voting_scheme s;
    tc_status st = voting_scheme_init(params, item, item->name, &s, err);
    double cells;

    if (st != TC_OK)
        return st;
    cells = (double)voting_offset_rows(&s) * (2 * s.reach[2] + 1);
    out->units = s.units;
    out->state_bytes = sizeof(an_state_head) + 2 * s.n * sizeof(uint32_t);
    out->memory_bytes = (uint64_t)s.n * (item->bits / 8) + 2 * (uint64_t)out->state_bytes
                      + voting_tables_bytes(&s) + ((uint64_t)64 << 20);
    out->flops = 1.6 * (double)s.n * (200 + cells + (double)s.rounds * 4 * (double)voting_offset_rows(&s));
    return TC_OK;
}

/* Zeros are the start. */
static tc_status init(const an_task *task, void *state, tc_err *err)
{
    (void)task;
    (void)state;
    (void)err;
    return TC_OK;
}

/* Both polarities, 8 and 16 bit, a stack, cones of every width. */
static const an_selftest selftests[] = {
    { "{\"radius\":6}", 61, 47, 1, 8, false, 0x8a177fe2 },
    { "{\"radius\":5.3,\"sigma\":1.2,\"polarity\":\"dark\",\"cone\":90,\"weight\":\"gradient\",\"floor\":0}",
      43, 70, 1, 16, false, 0x55a464eb },
    { "{\"radius\":4,\"sigma\":1,\"refine\":false}", 31, 25, 19, 16, false, 0x35261573 },
    { .parameters = NULL }
};

const an_analysis an_voting = {
    .name = "voting",
    .summary = "cells found by iterative voting, in images and stacks",
    .params_bytes = sizeof(voting_params),
    .read_params = read_params,
    .params_json = params_json,
    .check_item = check_item,
    .plan = plan,
    .init = init,
    .finish = voting_finish,
    .expect = voting_expect,
    .check_result = voting_check_result,
    .cpu = &voting_cpu,
    .one_kind = true,
    .selftests = selftests
};
