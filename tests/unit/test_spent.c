/* Unit tests of the reported fraction of an item: it never decreases, even if a worker continues
 * from a state. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "app/analysis/selftest.h"
#include "app/cost_model.h"

/* Replaces the clock: each reading is a second later, so that steps are as short as possible. */
double __wrap_tc_seconds(void);

double __wrap_tc_seconds(void)
{
    static double now;

    return now++;
}

typedef struct job {
    const an_analysis *analysis;
    json_t *json;
    void *params;
    wu_pixels pixels;
    wu_item item;
    an_work work;
} job;

static void begin(job *j, const an_analysis *analysis, const an_selftest *test)
{
    tc_err err;

    *j = (job){ .analysis = analysis, .json = json_loads(test->parameters, 0, NULL) };
    assert_int_equal(an_parse_params(analysis, j->json, "test", &j->params, &err), TC_OK);
    assert_int_equal(an_selftest_pixels(test, analysis->takes_labels, &j->pixels, &err), TC_OK);
    j->item = an_selftest_item(test, &j->pixels);
    j->work =
        (an_work){ .params = j->params, .item = &j->item, .pixels = &j->pixels, .threads = 1 };
    assert_int_equal(analysis->plan(j->params, &j->item, &j->work.plan, &err), TC_OK);
}

static void end(job *j)
{
    wu_pixels_free(&j->pixels);
    an_params_free(j->analysis, &j->params);
    json_decref(j->json);
}

/* While a worker computes, the fraction grows from the plan's share of loading to 1 minus its share
 * of finishing. */
static void check_plan(const job *j)
{
    const an_plan *const plan = &j->work.plan;
    const double all = an_item_cost(plan, 1),
                 left = (plan->finish_flops + plan->compress_flops) / all;
    double last = plan->load_flops / all;

    assert_true(plan->load_flops > 0 && plan->finish_flops >= 0 && plan->write_flops >= 0);
    assert_true(an_chunks_flops(plan) > 0);
    assert_true(an_spent_share(j->analysis, &j->work, 0) == last && last < 1);
    for (uint64_t i = 1; i <= plan->chunks; i++) {
        const double spent = an_spent_share(j->analysis, &j->work, i);

        assert_true(spent >= last && spent <= 1);
        last = spent;
    }
    assert_true(last > 1 - left - 1e-12 && last < 1 - left + 1e-12);
}

/* Runs some steps of a worker, from the fraction `from` of the state. A worker opened later
 * continues from the state. */
static double work_on(const job *j, void *state, unsigned steps, tc_status *status)
{
    const an_backend *const cpu = j->analysis->cpu;
    const double from =
        an_spent_share(j->analysis, &j->work, ((const an_state_head *)state)->chunks_done);
    double last = from;
    uint64_t done = ((const an_state_head *)state)->chunks_done;
    void *worker = NULL;
    tc_err err;

    *status = cpu->open(&j->work, state, &worker, &err);
    assert_int_equal(*status, TC_OK);
    for (unsigned i = 0; i < steps && (i == 0 || *status == TC_MORE); i++) {
        uint64_t chunks = 0;
        double spent;

        *status = cpu->step(worker, state, &chunks, &err);
        assert_true(*status == TC_OK || *status == TC_MORE);
        spent = an_spent_share(j->analysis, &j->work, chunks);
        assert_true(spent >= last);
        last = spent;
        done = chunks;
    }
    assert_int_equal(an_sync(cpu, worker, state, &err), TC_OK);
    /* an_sync may finish the current chunk. */
    assert_true(((const an_state_head *)state)->chunks_done <= done + 1);
    cpu->close(&worker);
    return last;
}

/* The fraction never decreases if a worker stops after some steps and another one continues. */
static void check_never_falls(const job *j)
{
    for (unsigned steps = 1; steps < 100; steps *= 2) {
        void *const state = calloc(1, j->work.plan.state_bytes);
        tc_status status;
        tc_err err;
        double last;

        assert_non_null(state);
        assert_int_equal(an_init(j->analysis, &j->work, state, &err), TC_OK);
        last = work_on(j, state, steps, &status);
        if (status == TC_MORE)
            last = work_on(j, state, UINT32_MAX, &status);
        assert_int_equal(status, TC_OK);
        assert_true(last == an_spent_share(j->analysis, &j->work, j->work.plan.chunks));
        free(state);
    }
}

static void reports_fraction(void **state)
{
    (void)state;
    for (size_t i = 0; an_analyses[i] != NULL; i++)
        for (const an_selftest *test = an_analyses[i]->selftests; test->parameters != NULL;
             test++) {
            job j;

            begin(&j, an_analyses[i], test);
            check_plan(&j);
            check_never_falls(&j);
            end(&j);
        }
}

/* Two items take 10 operations of the host each, and 100 and 300 operations in chunks, which the
 * device computes. host and chunks are sums of the operations before each item. */
static void learns_speed_of_device(void **state)
{
    double host[] = { 0, 10, 20 }, chunks[] = { 0, 100, 400 }, writing[] = { 8, 4, 0 };
    cost_model w = { .n = 2,
                     .host = host,
                     .chunks = chunks,
                     .writing_cost = writing,
                     .reading_cost = 1,
                     .sha256_cost = 2,
                     .byte_cost = 3,
                     .speed = 50 };

    (void)state;
    assert_true(cost_before(&w, 0) == 1 && cost_before(&w, 1) == 13 && cost_before(&w, 2) == 29);
    assert_true(cost_total(&w, 1, 0) == 35 && cost_total(&w, 2, 100) == 331);
    /* The first item took as long on the device, including compilation, as on the host: so the
     * device is ten times as fast. */
    cost_add_times(&w, 0, &(item_times){ .chunks = 2, .host = 2 });
    assert_true(w.speed == 10 && cost_before(&w, 2) == 61);
    /* After the second item only its times count. */
    cost_add_times(&w, 1, &(item_times){ .chunks = 3, .host = 2 });
    assert_true(w.speed == 20 && cost_before(&w, 2) == 41);
    cost_add_times(&w, 0, &(item_times){ .chunks = 2, .host = 2 });
    assert_true(w.speed == 400 / 5.0 / (20 / 4.0));
    /* Times too short for the clock are ignored. */
    w.n_done_items = 1;
    cost_add_times(&w, 0, &(item_times){ .chunks = 2, .host = 0 });
    assert_true(w.speed == 16);
    cost_use_cpu(&w);
    assert_true(cost_before(&w, 2) == 421);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(reports_fraction),
                                        cmocka_unit_test(learns_speed_of_device) };

    return cmocka_run_group_tests_name("spent", tests, NULL, NULL);
}
