#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "validator/check/val.h"
#include "workunits/format/json_text.h"

enum { NO_MEMORY_EXIT = 3 };  /* as tc_exit_code has it */

/* jansson may die of an allocation that it does not look at: that is no fault of the file. What
 * is called here reads an atomic variable, and nothing else. */
static void on_crash(int number)
{
    if (wu_json_starved()) /* NOLINT(bugprone-signal-handler,cert-sig30-c) */
        _exit(NO_MEMORY_EXIT);
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

static int work_apart(int (*work)(void *user), void *user)
{
    (void)signal(SIGSEGV, on_crash);
    (void)signal(SIGABRT, on_crash);
    return work(user);
}

tc_status val_run_apart(int (*work)(void *user), void *user, const char *file, int *code, int *ended_by, tc_err *err)
{
    pid_t child, got;
    int status = 0;

    fflush(stdout);
    child = fork();
    if (child == 0)
        exit(work_apart(work, user));
    do
        got = child < 0 ? -1 : waitpid(child, &status, 0);
    while (got < 0 && child > 0 && errno == EINTR);
    *code = *ended_by = 0;
    if (got < 0)
        return tc_fail(err, TC_TRY_LATER, "no process could be started: %s", strerror(errno));
    if (WIFEXITED(status)) {
        *code = WEXITSTATUS(status);
        return TC_OK;
    }
    *ended_by = WTERMSIG(status);
    return tc_fail(err, TC_TRY_LATER, "%.600s: ended this program by signal %d (%s)", file, *ended_by,
                   strsignal(*ended_by));
}
