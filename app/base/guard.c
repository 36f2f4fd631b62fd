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
    tc_guard_act *_Atomic act; /* NULL: the guard is not active */
    const char *_Atomic call;  /* the name of the library function being called; NULL: no call */
    _Atomic bool is_work;      /* the current call waits for a launch */
    _Atomic uint64_t calls;    /* how often tc_guard_enter and tc_guard_leave were called */
    _Atomic pthread_t caller;  /* the thread that makes the call */
    tc_guard_ask *_Atomic ask; /* the argument of tc_guard_listen, or NULL */
    tc_background *_Atomic background; /* the argument of tc_guard_listen, or NULL */
    _Atomic double patience_ms;        /* for how long a call that waits for a launch continues
                                          before `ask` is called */
    _Atomic uint64_t heard;            /* how often tc_guard_heard was called */
    atomic_flag tripped;               /* a fault is being handled */
    _Atomic pthread_t acting;          /* the thread that handles that fault */
    pthread_t watcher;                 /* runs watch_main_thread, if `watching` */
    bool watching;
    pthread_mutex_t lock;
    tc_condition over; /* signalled when `stop` is set */
    bool stop;         /* the watcher is to end; protected by lock */
    bool registered;   /* on_exit_call is an exit handler */
    bool leaving;      /* tc_guard_exit was called */
    int exit_code;     /* the argument of tc_guard_exit */
    char how[160];     /* the sentence for act */
} guard = { .tripped = ATOMIC_FLAG_INIT, .lock = PTHREAD_MUTEX_INITIALIZER };

/* Appends text to guard.how; safe in a signal handler. */
static void write_text(const char *text)
{
    size_t n = strnlen(guard.how, sizeof guard.how);

    while (*text != '\0' && n + 1 < sizeof guard.how)
        guard.how[n++] = *text++;
    guard.how[n] = '\0';
}

/* Handles a fault: composes the sentence from the call's name, `what` and the signal's number (0:
 * no signal), and calls act with it. Only the first fault does so. Threads with later faults wait
 * here for the end of the process: after one fault other threads of the library often crash too.
 * Returns if the guard is not active. */
static void end_stuck_process(const char *what, int number)
{
    tc_guard_act *const act = guard.act;
    const char *const call = guard.call;

    if (act == NULL)
        return;
    while (atomic_flag_test_and_set(&guard.tripped))
        if (pthread_equal(guard.acting, pthread_self()))
            os_exit_now(128 + number); /* act itself had a fault */
        else
            os_sleep(1);
    guard.acting = pthread_self();
    os_let_faults_in();
    write_text(call != NULL ? call : "the OpenCL driver");
    write_text(what);
    if (number != 0) {
        const char digits[] = { (char)('0' + number / 10), (char)('0' + number % 10), '\0' };

        write_text(" (signal ");
        write_text(number < 10 ? digits + 1 : digits);
        write_text(")");
    }
    act(guard.how);
    os_exit_now(TC_GUARD_SECONDS); /* not reached, as act does not return */
}

/* Handles a fatal signal. If the guard is not active, this returns, and the handler of
 * os_catch_faults then lets the signal end the process. */
static void on_fatal(int number)
{
    end_stuck_process(" crashed", number);
}

/* An exit handler: runs when a driver calls exit(), and when the program itself ends. */
static void on_exit_call(void)
{
    if (!guard.leaving)
        end_stuck_process(" ended the program", 0);
}

/* Whether the program is to be suspended while it is in a library call. (If it is to end, `ask`
 * ends the process.) lasts: the call is the same as one tick ago. ms: how long the call has lasted.
 * unasked_ms: the time since the main thread last called tc_guard_heard, which is long while it
 * makes many short calls. */
static bool is_to_suspend(bool lasts, unsigned ms, unsigned unasked_ms)
{
    enum { LONGEST_UNASKED_MS = 3 * TC_GUARD_TICK_MS };
    tc_guard_ask *const ask = guard.ask;

    if (guard.call == NULL || ask == NULL)
        return false;
    return (guard.is_work ? lasts && ms >= guard.patience_ms
                          : lasts || unasked_ms >= LONGEST_UNASKED_MS) &&
           ask();
}

/* Resumes the threads of *held, pauses those of `background`, and sets *held to `background`.
 * Either may be NULL, for no threads. */
static void pause_background(tc_background **held, tc_background *background)
{
    if (*held == background)
        return;
    tc_background_resume(*held);
    tc_background_pause(background);
    *held = background;
}

/* The watcher thread. It measures a call's duration by counting its own ticks, not by a clock: that
 * a process was stopped meanwhile, or a computer slept, is not a fault of the driver. */
static void *watch_main_thread(void *unused)
{
    uint64_t last = 0, last_heard = 0;
    unsigned ms = 0, unasked_ms = 0;
    tc_background *held = NULL;

    (void)unused;
    pthread_mutex_lock(&guard.lock);
    while (!guard.stop) {
        tc_condition_wait(&guard.over, &guard.lock, 1e-3 * TC_GUARD_TICK_MS);
        const uint64_t now = guard.calls, heard = guard.heard;
        const bool lasts = guard.call != NULL && now == last;
        ms = lasts ? ms : 0;
        unasked_ms = heard == last_heard ? unasked_ms + TC_GUARD_TICK_MS : 0;
        const bool suspended = is_to_suspend(lasts, ms, unasked_ms);
        pause_background(&held, suspended ? guard.background : NULL);
        if (suspended)
            os_rest(guard.caller, 0.9e-3 * TC_GUARD_TICK_MS);
        else if (lasts)
            ms += TC_GUARD_TICK_MS;
        last = now;
        last_heard = heard;
        if (ms >= 1000 * TC_GUARD_SECONDS)
            end_stuck_process(" does not return", 0);
    }
    pause_background(&held, NULL);
    pthread_mutex_unlock(&guard.lock);
    return NULL;
}

tc_status tc_guard_up(tc_guard_act *act, tc_err *err)
{
    assert(act != NULL);
    if (!guard.registered && atexit(on_exit_call) != 0)
        return tc_no_memory(err, "an exit handler");
    guard.registered = true;
    if (!guard.watching) {
        guard.stop = false;
        tc_condition_init(&guard.over);
        guard.watching = os_thread(&guard.watcher, watch_main_thread, NULL);
    }
    if (!guard.watching)
        return tc_no_memory(err, "a thread that watches the OpenCL driver");
    guard.act = act;
    tc_guard_again();
    return TC_OK;
}

void tc_guard_again(void)
{
    if (guard.act != NULL)
        os_catch_faults(on_fatal);
}

void tc_guard_listen(tc_guard_ask *ask, tc_background *background, double launch_ms)
{
    assert(launch_ms >= 0);
    guard.background = background;
    guard.patience_ms = 2 * launch_ms;
    guard.ask = guard.act != NULL ? ask : NULL;
}

void tc_guard_heard(void)
{
    guard.heard++;
}

void tc_guard_down(void)
{
    guard.act = NULL;
    guard.ask = NULL;
    if (!guard.watching)
        return;
    pthread_mutex_lock(&guard.lock);
    guard.stop = true;
    tc_condition_signal(&guard.over);
    pthread_mutex_unlock(&guard.lock);
    pthread_join(guard.watcher, NULL);
    tc_condition_destroy(&guard.over);
    guard.watching = false;
}

void tc_guard_enter(const char *call, bool is_work)
{
    assert(call != NULL);
    guard.caller = pthread_self();
    guard.is_work = is_work;
    guard.call = call;
    guard.calls++;
}

void tc_guard_leave(void)
{
    assert(guard.call != NULL);
    guard.call = NULL;
    guard.calls++;
    fesetenv(FE_DFL_ENV);
}

/* The `act` of the guard during tc_guard_exit. */
static void leave_quietly(const char *how)
{
    (void)how;
    os_exit_now(guard.exit_code);
}

void tc_guard_exit(int code)
{
    tc_err ignored;

    guard.leaving = true;
    guard.exit_code = code;
    if (guard.registered && tc_guard_up(leave_quietly, &ignored) == TC_OK)
        tc_guard_enter("an exit handler", true);
    exit(code);
}
