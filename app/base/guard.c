/* Watches the calls into a foreign library (an OpenCL driver) for crashes, exits and hangs: see
 * guard.h. */
#include "app/base/guard.h"

#include <assert.h>
#include <fenv.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/condition.h"
#include "app/base/os.h"

static struct {
    tc_guard_fault_handler
        *_Atomic handler;     /* ends the process after a fault; NULL: the guard is not active */
    const char *_Atomic call; /* the name of the library function being called; NULL: none is */
    _Atomic bool waits_for_launch; /* the current call waits until a kernel launch is completed;
                                      its work must not be lost without need */
    _Atomic uint64_t calls;        /* number of calls of tc_guard_enter and tc_guard_leave */
    _Atomic pthread_t caller;      /* the thread that makes the current call */
    tc_guard_poll *_Atomic poll;   /* polls the BOINC client, and returns whether the program must
                                      be suspended; NULL: the program is never suspended */
    tc_background *_Atomic background; /* threads to pause while the program is suspended; may be
                                          NULL */
    _Atomic double suspend_after_ms;   /* a call that waits for a launch must last this long before
                                          `poll` is called */
    _Atomic uint64_t polls;            /* number of calls of tc_guard_record_poll */
    atomic_flag has_fault;             /* a fault is being handled */
    _Atomic pthread_t fault_thread;    /* the thread that handles that fault */
    pthread_t watcher;                 /* runs watch_main_thread; valid if has_watcher */
    bool has_watcher;
    pthread_mutex_t lock;
    tc_condition stop_signal; /* signalled when `stop` is set */
    bool stop;                /* the watcher must end; protected by lock */
    bool has_exit_handler;    /* handle_exit is an exit handler */
    bool is_exiting;          /* tc_guard_exit was called */
    int exit_code;            /* the argument of tc_guard_exit */
    char sentence[160];       /* the text that `handler` receives */
} guard = { .has_fault = ATOMIC_FLAG_INIT, .lock = PTHREAD_MUTEX_INITIALIZER };

/* Appends text to guard.sentence; safe in a signal handler. */
static void write_text(const char *text)
{
    size_t n = strnlen(guard.sentence, sizeof guard.sentence);

    while (*text != '\0' && n + 1 < sizeof guard.sentence)
        guard.sentence[n++] = *text++;
    guard.sentence[n] = '\0';
}

/* Handles any fault (a crash, an exit or a hang): composes a sentence from the call's name, `what`
 * and the signal's number (0: no signal), and passes it to guard.handler. This is done only for the
 * first fault. A thread with a later fault waits here until the process ends: after one fault other
 * threads of the library often crash too. Returns if the guard is not active. */
static void report_first_fault(const char *what, int number)
{
    tc_guard_fault_handler *const handler = guard.handler;
    const char *const call = guard.call;

    if (handler == NULL)
        return;
    while (atomic_flag_test_and_set(&guard.has_fault))
        if (pthread_equal(guard.fault_thread, pthread_self()))
            os_exit_now(128 + number); /* the handler itself had a fault */
        else
            os_sleep(1);
    guard.fault_thread = pthread_self();
    os_unblock_faults(); /* unblocks the signals of crashes, so that a crash of the handler is
                            noticed */
    write_text(call != NULL ? call : "the OpenCL driver");
    write_text(what);
    if (number != 0) {
        const char digits[] = { (char)('0' + number / 10), (char)('0' + number % 10), '\0' };

        write_text(" (signal ");
        write_text(number < 10 ? digits + 1 : digits);
        write_text(")");
    }
    handler(guard.sentence);
    os_exit_now(128 + number); /* not reached, as the handler does not return */
}

/* Handles a fatal signal. If the guard is not active, this returns, and the handler of
 * os_set_fault_handler then lets the signal end the process. */
static void handle_signal(int number)
{
    report_first_fault(" crashed", number);
}

/* An exit handler: runs when a driver calls exit(), and when the program itself ends. */
static void handle_exit(void)
{
    if (!guard.is_exiting)
        report_first_fault(" ended the program", 0);
}

/* Whether the program must be suspended now, while it is in a library call. This is decided by
 * guard.poll, which polls the BOINC client; if the client wants the program to end, `poll` ends the
 * process. `poll` is called if the main thread is likely not to poll the client soon: during a
 * launch's call after suspend_after_ms, during another call after one tick or if unpolled_ms is
 * long. same_call: the call is the same as one tick ago. ms: duration of the call so far.
 * unpolled_ms: time since the main thread last called tc_guard_record_poll; it also grows while the
 * main thread makes many short calls. */
static bool must_suspend(bool same_call, unsigned ms, unsigned unpolled_ms)
{
    enum { LONGEST_UNPOLLED_MS = 3 * TC_GUARD_TICK_MS };
    tc_guard_poll *const poll = guard.poll;

    if (guard.call == NULL || poll == NULL)
        return false;
    const bool is_long = guard.waits_for_launch ? same_call && ms >= guard.suspend_after_ms
                                                : same_call || unpolled_ms >= LONGEST_UNPOLLED_MS;

    return is_long && poll();
}

/* Resumes the threads of *paused, pauses the threads of `background`, and sets *paused to
 * `background`. Each of the two may be NULL, which means no threads. */
static void pause_background(tc_background **paused, tc_background *background)
{
    if (*paused == background)
        return;
    tc_background_resume_threads(*paused);
    tc_background_pause_threads(background);
    *paused = background;
}

/* The watcher thread. It measures a call's duration by counting its own ticks, not by a clock, so
 * that time during which the process was stopped or the computer slept does not count. */
static void *watch_main_thread(void *unused)
{
    uint64_t last_calls = 0, last_polls = 0; /* guard.calls and guard.polls one tick ago */
    unsigned ms = 0, unpolled_ms = 0;
    tc_background *paused = NULL;

    (void)unused;
    pthread_mutex_lock(&guard.lock);
    while (!guard.stop) {
        tc_condition_wait(&guard.stop_signal, &guard.lock, 1e-3 * TC_GUARD_TICK_MS);
        const uint64_t calls = guard.calls, polls = guard.polls;
        const bool same_call = guard.call != NULL && calls == last_calls;
        ms = same_call ? ms : 0;
        unpolled_ms = polls == last_polls ? unpolled_ms + TC_GUARD_TICK_MS : 0;
        const bool suspended = must_suspend(same_call, ms, unpolled_ms);
        pause_background(&paused, suspended ? guard.background : NULL);
        if (suspended)
            os_pause_thread(guard.caller, 0.9e-3 * TC_GUARD_TICK_MS); /* for 90% of a tick */
        else if (same_call)
            ms += TC_GUARD_TICK_MS;
        last_calls = calls;
        last_polls = polls;
        if (ms >= 1000 * TC_GUARD_SECONDS)
            report_first_fault(" does not return", 0);
    }
    pause_background(&paused, NULL);
    pthread_mutex_unlock(&guard.lock);
    return NULL;
}

tc_status tc_guard_activate(tc_guard_fault_handler *handler, tc_err *err)
{
    assert(handler != NULL);
    if (!guard.has_exit_handler && atexit(handle_exit) != 0)
        return tc_no_memory(err, "an exit handler");
    guard.has_exit_handler = true;
    if (!guard.has_watcher) {
        guard.stop = false;
        tc_condition_init(&guard.stop_signal);
        guard.has_watcher = os_create_thread(&guard.watcher, watch_main_thread, NULL);
    }
    if (!guard.has_watcher)
        return tc_no_memory(err, "a thread that watches the OpenCL driver");
    guard.handler = handler;
    tc_guard_reinstall_handlers();
    return TC_OK;
}

void tc_guard_reinstall_handlers(void)
{
    if (guard.handler != NULL)
        os_set_fault_handler(handle_signal);
}

void tc_guard_set_poll(tc_guard_poll *poll, tc_background *background, double launch_ms)
{
    assert(launch_ms >= 0);
    guard.background = background;
    guard.suspend_after_ms = 2 * launch_ms; /* a usual launch is over by then */
    guard.poll = guard.handler != NULL ? poll : NULL;
}

void tc_guard_record_poll(void)
{
    guard.polls++;
}

void tc_guard_deactivate(void)
{
    guard.handler = NULL;
    guard.poll = NULL;
    if (!guard.has_watcher)
        return;
    pthread_mutex_lock(&guard.lock);
    guard.stop = true;
    tc_condition_signal(&guard.stop_signal);
    pthread_mutex_unlock(&guard.lock);
    pthread_join(guard.watcher, NULL);
    tc_condition_destroy(&guard.stop_signal);
    guard.has_watcher = false;
}

void tc_guard_enter(const char *call, bool waits_for_launch)
{
    assert(call != NULL);
    guard.caller = pthread_self();
    guard.waits_for_launch = waits_for_launch;
    guard.call = call;
    guard.calls++;
}

void tc_guard_leave(void)
{
    assert(guard.call != NULL);
    guard.call = NULL;
    guard.calls++;
    fesetenv(FE_DFL_ENV); /* the library may have changed the rounding or flush-to-zero mode */
}

/* guard.handler during tc_guard_exit. */
static void exit_quietly(const char *sentence)
{
    (void)sentence;
    os_exit_now(guard.exit_code);
}

void tc_guard_exit(int code)
{
    tc_err ignored;

    /* Exit handlers of the library run inside a guarded call, so that a crash or hang of one still
     * ends the process with `code`. */
    guard.is_exiting = true;
    guard.exit_code = code;
    if (guard.has_exit_handler && tc_guard_activate(exit_quietly, &ignored) == TC_OK)
        tc_guard_enter("an exit handler", /* waits_for_launch */ true);
    exit(code);
}
