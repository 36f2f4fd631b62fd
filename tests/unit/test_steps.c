/* Unit tests that the pool and sorting poll for interruptions often, however large the task is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cmocka.h>

#include "app/base/os.h"
#include "app/base/pool.h"
#include "app/base/sort.h"

static atomic_size_t done; /* work since the last poll */
static atomic_size_t most; /* the maximum of `done` */
static size_t asked;       /* number of polls */
static size_t patience;    /* the number of the poll that is answered by "stop"; 0: none */

static tc_status ask(void *unused, tc_err *err)
{
    (void)unused;
    asked++;
    most = done > most ? done : most;
    done = 0;
    return asked == patience ? tc_fail(err, TC_TRY_LATER, "stopped") : TC_OK;
}

static const tc_poll poll = { ask, NULL };

static int start(void **state)
{
    (void)state;
    done = most = asked = patience = 0;
    return 0;
}

/* --- the pool -------------------------------------------------------------------------------- */

enum { PARTS = 300, SHORT = 150, THREADS = 2, LONG_MS = 10 };

static atomic_int times[PARTS];

/* The first parts of the task are short and later ones long, as if the upper half of a picture were
 * empty. */
static void do_part(void *user, unsigned thread, size_t part)
{
    (void)user;
    (void)thread;
    times[part]++;
    if (part >= SHORT) {
        os_sleep(LONG_MS * 1e-3);
        done++;
    }
}

static an_pool *make_pool(void)
{
    an_pool *pool;
    tc_err err;

    for (int i = 0; i < PARTS; i++)
        times[i] = 0;
    assert_int_equal(an_pool_create(THREADS, &pool, &err), TC_OK);
    return pool;
}

static void pool_polls(void **state)
{
    an_pool *pool = make_pool();
    tc_err err;

    (void)state;
    assert_int_equal(an_pool_run_polled(pool, do_part, NULL, PARTS, &poll, &err), TC_OK);
    for (int i = 0; i < PARTS; i++)
        assert_int_equal(times[i], 1);
    assert_true(most <= THREADS * ((size_t)(AN_STEP_SECONDS * 1000 / LONG_MS) + 1));
    start(NULL);
    patience = 2;
    assert_int_equal(an_pool_run_polled(pool, do_part, NULL, PARTS, &poll, &err), TC_TRY_LATER);
    assert_true(times[PARTS - 1] == 1);
    an_pool_destroy(&pool);
}

/* After a stop only parts at the beginning are done: at least one, and each once. */
static void pool_stops(void **state)
{
    an_pool *pool = make_pool();

    (void)state;
    assert_int_equal(an_pool_run_until(pool, do_part, NULL, PARTS, 0), 1);
    assert_int_equal(times[0], 1);
    assert_int_equal(an_pool_run_until(pool, do_part, NULL, 0, 0), 0);
    for (int round = 0; round < 5; round++) {
        const size_t n =
            an_pool_run_until(pool, do_part, NULL, PARTS, tc_seconds() + 3 * LONG_MS * 1e-3);

        assert_true(n > 0 && n < PARTS);
        for (size_t i = 0; i < PARTS; i++)
            assert_int_equal(times[i], (i == 0) + (i < n));
        for (size_t i = 1; i < n; i++)
            times[i] = 0;
        times[0] = 1;
    }
    an_pool_destroy(&pool);
}

/* --- sorting --------------------------------------------------------------------------------- */

enum { ELEMENTS = 1 << 21 };

static uint32_t key_of(const void *element)
{
    done++;
    return (uint32_t)(*(const uint64_t *)element >> 40);
}

static int compare(const void *va, const void *vb)
{
    const uint64_t a = *(const uint64_t *)va, b = *(const uint64_t *)vb;

    return a < b ? -1 : a > b;
}

/* Sorts elements with `values` different keys. */
static void sort(unsigned values)
{
    uint64_t *const list = malloc(ELEMENTS * sizeof *list);
    uint64_t random = 1;
    tc_err err;

    assert_non_null(list);
    for (size_t i = 0; i < ELEMENTS; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        list[i] = (random >> 33) % values << 40 | (random >> 32);
    }
    assert_int_equal(tc_sort_by_key(list, ELEMENTS, sizeof *list, key_of, compare, &poll, &err),
                     TC_OK);
    for (size_t i = 1; i < ELEMENTS; i++)
        assert_true(list[i - 1] <= list[i]);
    assert_true(most <= 2 * (size_t)TC_POLL_BLOCK);
    free(list);
}

static void sorting_polls(void **state)
{
    (void)state;
    sort(1);
    sort(3);
    sort(100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(pool_polls, start),
        cmocka_unit_test_setup(pool_stops, start),
        cmocka_unit_test_setup(sorting_polls, start),
    };
    return cmocka_run_group_tests_name("steps", tests, NULL, NULL);
}
