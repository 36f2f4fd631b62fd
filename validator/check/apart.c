#include <errno.h>
#include <signal.h>
#include <string.h>

#include "app/base/os.h"
#include "validator/check/val.h"
#include "workunits/format/json_text.h"

enum { NO_MEMORY_EXIT = 3 };  /* as tc_exit_code has it */

/* jansson may die of an allocation that it does not look at: that is no fault of the file. What
 * is called here reads an atomic variable, and nothing else. */
static void on_crash(int number)
{
    if (wu_json_starved()) /* NOLINT(bugprone-signal-handler,cert-sig30-c) */
        os_exit_now(NO_MEMORY_EXIT); /* NOLINT(bugprone-signal-handler,cert-sig30-c) */
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

typedef struct apart {
    int (*work)(void *user);
    void *user;
} apart;

static int work_apart(void *user)
{
    const apart *const a = user;

    (void)signal(SIGSEGV, on_crash);
    (void)signal(SIGABRT, on_crash);
    return a->work(a->user);
}

tc_status val_run_apart(int (*work)(void *user), void *user, const char *file, int *code, int *ended_by, tc_err *err)
{
    *code = os_run_apart(work_apart, &(apart){ work, user }, ended_by);
    if (*code < 0)
        return tc_fail(err, TC_TRY_LATER, "no process could be started: %s", strerror(errno));
    if (*ended_by != 0)
        return tc_fail(err, TC_TRY_LATER, "%.600s: ended this program by signal %d (%s)", file, *ended_by,
                       os_signal_name(*ended_by));
    return TC_OK;
}
