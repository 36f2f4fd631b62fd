/* Unit tests of the guard's polling (app/base/guard.h): during a long call into a driver, the guard
 * asks the client whether the program must suspend or end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "app/base/guard.h"

static _Atomic unsigned asked;
static _Atomic bool suspended;

static bool ask(void)
{
    asked++;
    return suspended;
}

static void never(const char *how)
{
    fail_msg("%s", how);
    abort();
}

static double seconds_of(clockid_t which)
{
    struct timespec now;

    clock_gettime(which, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static tc_background beside;
static bool was_held; /* whether background threads were held during the last call() */
static double took;   /* seconds of the last call(): more than requested on a busy machine */

/* Simulates a driver call of `seconds`; is_work: a wait for a launch. Returns the share of that
 * time in which this thread computed. */
static double call(double seconds, bool is_work)
{
    const double start = seconds_of(CLOCK_MONOTONIC), used = seconds_of(CLOCK_THREAD_CPUTIME_ID);

    asked = 0;
    was_held = false;
    tc_guard_enter("a call", is_work);
    while (seconds_of(CLOCK_MONOTONIC) - start < seconds) {
        pthread_mutex_lock(&beside.lock);
        was_held = was_held || beside.pauses > 0;
        pthread_mutex_unlock(&beside.lock);
    }
    tc_guard_leave();
    took = seconds_of(CLOCK_MONOTONIC) - start;
    return (seconds_of(CLOCK_THREAD_CPUTIME_ID) - used) / took;
}

static void test_long_calls(void **unused)
{
    tc_err err;

    (void)unused;
    assert_int_equal(tc_guard_activate(never, &err), TC_OK);
    tc_guard_set_poll(ask, &beside, 1000);
    suspended = false;
    call(0.5, false);
    assert_in_range(asked, 3, (uintmax_t)(20 * took));
    assert_false(was_held);
    suspended = true;
    assert_true(call(1, false) < 0.3);
    assert_in_range(asked, 5, (uintmax_t)(20 * took));
    assert_true(was_held); /* background threads are suspended, too */
    call(0.5, true);       /* while the program waits for a launch the guard does not ask ... */
    assert_int_equal(asked, 0);
    tc_guard_set_poll(ask, &beside, 50);
    call(0.5, true); /* ... unless the wait is longer than the limit, here 50 ms */
    assert_in_range(asked, 2, (uintmax_t)(18 * took));
    tc_guard_deactivate();
    assert_int_equal(beside.pauses, 0);
}

/* Makes calls of a few milliseconds for half a second. If `heard`, the program itself asks between
 * them. Returns the number of times that the guard asked. */
static unsigned short_calls(bool heard)
{
    const double start = seconds_of(CLOCK_MONOTONIC);
    unsigned all = 0;

    while (seconds_of(CLOCK_MONOTONIC) - start < 0.5) {
        call(0.005, false);
        all += asked;
        if (heard)
            tc_guard_record_poll();
    }
    return all;
}

static void test_many_short_calls(void **unused)
{
    unsigned tries = 10;
    tc_err err;

    (void)unused;
    assert_int_equal(tc_guard_activate(never, &err), TC_OK);
    tc_guard_set_poll(ask, &beside, 1000);
    suspended = false;
    assert_true(short_calls(false) >= 3);
    while (short_calls(true) > 0) /* on a busy machine calls may take longer: try again */
        assert_true(--tries > 0);
    tc_guard_deactivate();
}

static void test_nobody_asks_without_a_guard(void **unused)
{
    (void)unused;
    tc_guard_set_poll(ask, NULL, 50);
    call(0.2, false);
    assert_int_equal(asked, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_long_calls),
                                        cmocka_unit_test(test_many_short_calls),
                                        cmocka_unit_test(test_nobody_asks_without_a_guard) };

    tc_background_init(&beside, true);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
