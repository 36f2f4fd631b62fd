/* libFuzzer target: continues from a changed state of an item, as a checkpoint with right CRCs may
 * contain it. An input has a byte for the analysis, one for its self-test item (made smaller) and
 * one for the number of computed chunks; then changes of the state, of five bytes each: offset
 * (little-endian) and value. If check_state accepts the state, the item is computed to its end. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/analysis.h"
#include "app/analysis/selftest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CHANGE = 5, SIDE = 11, DEPTH = 3, LEVELS = 16 };

typedef struct job {
    an_selftest test;
    wu_item item;
    wu_pixels pixels;
    void *params;
    an_work work;
} job;

static void must(tc_status status)
{
    if (status != TC_OK)
        abort();
}

/* Changes parameters to suit a smaller item: positions and radii inside it, and fewer grey levels,
 * as a matrix grows with their square. */
static void make_small(json_t *json)
{
    static const struct {
        const char *key;
        int most;
    } small[] = {
        { "cx", SIDE / 2 }, { "cy", SIDE / 2 },     { "cz", DEPTH / 2 },
        { "r", SIDE / 4 },  { "radius", SIDE / 4 },
    };
    json_t *const levels = json_object_get(json, "levels");
    const char *key;
    json_t *value;
    size_t i;

    for (i = 0; i < sizeof small / sizeof *small; i++)
        if (json_number_value(json_object_get(json, small[i].key)) > small[i].most)
            must(json_object_set_new(json, small[i].key, json_integer(small[i].most)) == 0
                     ? TC_OK
                     : TC_NO_MEMORY);
    if (json_integer_value(levels) > LEVELS)
        json_integer_set(levels, LEVELS / 2 + json_integer_value(levels) % 5);
    json_array_foreach(levels, i, value)
        if (json_integer_value(value) > LEVELS)
            json_integer_set(value, LEVELS / 2 + json_integer_value(value) % 5);
    json_object_foreach(json, key, value) {
        make_small(value);
        for (i = 0; i < json_array_size(value); i++)
            make_small(json_array_get(value, i));
    }
}

static void make_item(job *j, const an_analysis *a)
{
    must(an_selftest_pixels(&j->test, a->takes_labels, &j->pixels, NULL));
    j->item = an_selftest_item(&j->test, &j->pixels);
}

static void begin(job *j, const an_analysis *a, const an_selftest *t)
{
    json_t *const json = json_loads(t->parameters, 0, NULL);

    memset(j, 0, sizeof *j);
    make_small(json);
    must(an_parse_params(a, json, "fuzz", &j->params, NULL));
    j->test = *t;
    j->test.nx = t->nx < SIDE ? t->nx : SIDE;
    j->test.ny = t->ny < SIDE ? t->ny : SIDE;
    j->test.nz = t->nz < DEPTH ? t->nz : DEPTH;
    make_item(j, a);
    if (a->check_item(j->params, &j->item, "fuzz", NULL) != TC_OK) {
        wu_pixels_free(&j->pixels);
        j->test = *t;
        make_item(j, a);
    }
    j->work =
        (an_work){ .params = j->params, .item = &j->item, .pixels = &j->pixels, .threads = 1 };
    must(a->plan(j->params, &j->item, &j->work.plan, NULL));
    json_decref(json);
}

/* Continues a state until `units` chunks are done, or to the end. */
static tc_status work(const an_analysis *a, job *j, void *state, uint64_t units)
{
    void *worker = NULL;
    uint64_t done = 0;
    tc_status status = a->cpu->open(&j->work, state, &worker, NULL);

    if (status != TC_OK)
        return status;
    do
        status = a->cpu->step(worker, state, &done, NULL);
    while (status == TC_MORE && done < units);
    if (status == TC_OK || status == TC_MORE) {
        const tc_status synced = an_sync(a->cpu, worker, state, NULL);

        status = synced != TC_OK ? synced : status;
    }
    a->cpu->close(&worker);
    return status;
}

static void finish(const an_analysis *a, job *j, const void *state)
{
    wu_output out = { .n = 0 };

    a->finish(&j->work, 0, state, &out, NULL);
    wu_output_free(&out);
}

static void one_state(const an_analysis *a, job *j, const uint8_t *data, size_t size, uint8_t far)
{
    const size_t bytes = j->work.plan.state_bytes;
    unsigned char *const state = calloc(1, bytes);

    if (state == NULL)
        abort();
    must(an_init(a, &j->work, state, NULL));
    if (far > 0 && work(a, j, state, j->work.plan.chunks * far / UINT8_MAX) != TC_MORE &&
        far < UINT8_MAX)
        far = UINT8_MAX; /* a small item is finished in one step */
    for (; size >= CHANGE; data += CHANGE, size -= CHANGE) {
        uint32_t place;

        memcpy(&place, data, sizeof place);
        state[place % bytes] = data[CHANGE - 1];
    }
    if (((const an_state_head *)(const void *)state)->chunks_done <= j->work.plan.chunks &&
        (a->check_state == NULL || a->check_state(&j->work, state, NULL) == TC_OK) &&
        work(a, j, state, UINT64_MAX) == TC_OK)
        finish(a, j, state);
    free(state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t analyses = 0, tests = 0;
    const an_analysis *a;
    job j;

    if (size < 3)
        return 0;
    while (an_analyses[analyses] != NULL)
        analyses++;
    a = an_analyses[data[0] % analyses];
    while (a->selftests[tests].parameters != NULL)
        tests++;
    begin(&j, a, &a->selftests[data[1] % tests]);
    one_state(a, &j, data + 3, size - 3, data[2]);
    wu_pixels_free(&j.pixels);
    an_params_free(a, &j.params);
    return 0;
}
