/* Runs the reading of an untrusted file in a child process, with fewer rights. */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/files.h"
#include "app/base/os.h"
#include "validator/check/val.h"
#include "workunits/format/csv.h"
#include "workunits/format/json_text.h"

enum { NO_MEMORY_EXIT = 3 }; /* what tc_exit_code returns for TC_NO_MEMORY */

/* Handles SIGSEGV and SIGABRT: the JSON library jansson may crash when an allocation fails, which
 * is no fault of the file. wu_json_out_of_memory only reads an atomic variable, so that a signal
 * handler may call it. */
static void on_crash(int number)
{
    if (wu_json_out_of_memory())     /* NOLINT(bugprone-signal-handler,cert-sig30-c) */
        os_exit_now(NO_MEMORY_EXIT); /* NOLINT(bugprone-signal-handler,cert-sig30-c) */
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

/* The function that val_run_child received, and its argument; passed to call_in_child. */
typedef struct child_call {
    int (*work)(void *user);
    void *user;
} child_call;

/* Calls the function in the child process. A function for os_run_child; user: a child_call. */
static int call_in_child(void *user)
{
    const child_call *const a = user;

    (void)signal(SIGSEGV, on_crash);
    (void)signal(SIGABRT, on_crash);
    return a->work(a->user);
}

tc_status val_run_child(int (*work)(void *user), void *user, const char *file, int *code,
                        int *ended_by, tc_err *err)
{
    *code = os_run_child(call_in_child, &(child_call){ work, user }, ended_by);
    if (*code < 0)
        return tc_fail(err, TC_TRY_LATER, "no process could be started: %s", strerror(errno));
    if (*ended_by != 0)
        return tc_fail(err, TC_TRY_LATER, "%.600s: ended this program by signal %d (%s)", file,
                       *ended_by, os_signal_name(*ended_by));
    return TC_OK;
}

/* --- confining the process -------------------------------------------------------------------- */

tc_status val_confine(const os_place *places, unsigned calls, tc_err *err)
{
    return os_confine(places, calls)
               ? TC_OK
               : tc_fail(err, TC_TRY_LATER, "this process cannot restrict its access to files: %s",
                         strerror(errno));
}

tc_status val_confine_uploads(const val_places *places, char *const *uploads, int n,
                              const os_place *more, unsigned calls, tc_err *err)
{
    enum { MOST = 2 };
    assert(n >= 0 && n <= MOST);
    os_place list[VAL_MAX_PLACES] = { { places->workunits, OS_MAY_READ },
                                      { places->private, OS_MAY_WRITE },
                                      { places->accepted, OS_MAY_WRITE },
                                      { places->alone, OS_MAY_READ } };
    /* A folder of BOINC's fan-out may be a symbolic link to another disk, which a rule for the
     * folder `workunits` does not cover: so each unit's file has a rule of its own. */
    char *folders[MOST] = { NULL }, *units[MOST] = { NULL };
    size_t used = 4; /* elements of `list` that are set */
    tc_status status = places->accepted == NULL ? TC_OK : wu_make_folder(places->accepted, err);

    for (int i = 0; status == TC_OK && i < n; i++) {
        folders[i] = tc_folder_of(uploads[i]);
        if (folders[i] == NULL)
            status = tc_no_memory(err, uploads[i]);
        else if (val_find_workunit(places->workunits, uploads[i], &units[i], err) == TC_NO_MEMORY)
            status = TC_NO_MEMORY; /* any other fault is reported when the unit is read */
        list[used++] = (os_place){ uploads[i], OS_MAY_READ };
        list[used++] = (os_place){ folders[i], OS_MAY_LIST };
        list[used++] = (os_place){ units[i], OS_MAY_READ };
    }
    for (; more != NULL && more->may != OS_MAY_NOTHING; more++) {
        assert(used + 1 < VAL_MAX_PLACES);
        list[used++] = *more;
    }
    if (status == TC_OK)
        status = val_confine(list, calls, err);
    for (int i = 0; i < MOST; i++) {
        free(folders[i]);
        free(units[i]);
    }
    return status;
}

void val_describe_confinement(char *text, size_t size)
{
    const unsigned version = os_landlock_version();
    const size_t n = strlen(text);
    assert(n < size);

    if (version > 0)
        snprintf(text + n, size - n, "; reads files confined by Landlock %u", version);
    else
        snprintf(text + n, size - n,
                 "; not confined when it reads files: no Landlock in this kernel");
}
