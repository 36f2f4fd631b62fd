#include "app/analysis/voting/voting.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/selftest.h"

#define FIELD(field) AN_FIELD(voting_params, field)

static const char *const polarities[] = { "bright", "dark", NULL }, *const automatic[] = { "auto", NULL };
/* Each is half the one before, which make_rounds relies on. */
static const char *const cones[] = { "90.0", "45.0", "22.5", NULL };
static const char *const weights[] = { "gradient", "root", NULL };

static const an_param parameters[] = {
    { "radius", AN_NUMBER, FIELD(radius), .min = 1e-3, .max = 65535, .unit = "pixels; stacks: as spacing",
      .help = "Radius of the largest cells: at least 1 pixel of the finest axis, at most 127 pixels along any axis of "
              "an image, 32 of a stack." },
    { "sigma", AN_NUMBER, FIELD(sigma), .min = 0, .max = VOTING_MAX_SIGMA, .initial = "2.0",
      .unit = "pixels of the finest axis",
      .help = "Of the Gaussian filter before; below 1/4 pixel along an axis there is none." },
    { "polarity", AN_CHOICE, FIELD(dark), .choices = polarities, .initial = "bright",
      .help = "bright: cells on dark background; dark: the reverse." },
    { "threshold", AN_NUMBER, FIELD(threshold), .min = 0, .max = UINT32_MAX, .choices = automatic,
      .word = FIELD(automatic), .initial = "auto", .unit = "votes",
      .help = "The least score of a point; auto: 3/10 of that where the best have half the votes." },
    { "cone", AN_CHOICE, FIELD(cone), .choices = cones, .initial = "45.0", .unit = "degrees",
      .help = "Half-angle of the first round's cones; it halves from round to round." },
    { "weight", AN_CHOICE, FIELD(root), .choices = weights, .initial = "root",
      .help = "What a voter's vote weighs: the length of its gradient, or the root of that." },
    { "floor", AN_NUMBER, FIELD(floor), .min = 0, .max = 1000, .initial = "3.0", .unit = "standard deviations of noise",
      .help = "Pixels with a smaller gradient do not vote." },
    { "refine", AN_BOOL, FIELD(refine), .initial = "true",
      .help = "Whether points are moved to where the gradients around them meet, and left out where these hardly "
              "cross." },
    { .key = NULL }
};

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
    .parameters = parameters,
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
