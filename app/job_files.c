/* Opens, saves and removes the checkpoint and the spool of a job. */
#include "app/job_files.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/base/os.h"
#include "wrapper/bw.h"

enum {
    LAST_STATE_MAX = 32 << 20, /* bytes of the largest state that is saved when the program must
                                  stop; a slow disk hardly writes more in LAST_WRITE_SECONDS */
    LAST_WRITE_SECONDS = 4     /* seconds that writing the last checkpoint may take */
};

tc_status job_files_open(job_files *f, const char *checkpoint_path, const char *spool_path,
                         const an_unit *unit, tc_err *err)
{
    assert(strlen(unit->analysis->name) < sizeof f->position.analysis);
    f->checkpoint_path = checkpoint_path;
    f->spool_path = spool_path;
    f->position = (checkpoint){ .job_crc = unit->job->file_crc, .job_size = unit->job->file_size };
    strncpy(f->position.analysis, unit->analysis->name, sizeof f->position.analysis - 1);
    return spool_open(spool_path, &f->poll, &f->spool, err);
}

void job_files_close(job_files *f, bool keep)
{
    if (f->spool != NULL && !keep) {
        checkpoint_remove(f->checkpoint_path);
        unlink(f->spool_path);
    }
    spool_close(&f->spool);
    free(f->state);
}

tc_status job_files_find_start(job_files *f, size_t n_items, const progress *p, tc_err *err)
{
    assert(f->spool != NULL && f->state == NULL);
    checkpoint position;
    tc_err fault;
    tc_status status =
        checkpoint_read(f->checkpoint_path, &f->position, &position, &f->state, &f->poll, &fault);

    if (status == TC_OK && position.item > n_items)
        status = tc_fail(&fault, TC_BAD_INPUT, "%s: is corrupt", f->checkpoint_path);
    if (status == TC_OK)
        status = spool_truncate(f->spool, position.spool_size, position.spool_crc, position.item,
                                &fault);
    if (status == TC_OK) {
        f->position = position;
        f->item_saved = f->state != NULL;
        progress_note(p, "going on from the checkpoint, with %llu of %zu items done",
                      (unsigned long long)position.item, n_items);
        return TC_OK;
    }
    free(f->state);
    f->state = NULL;
    if (status == TC_NO_MATCH && f->refuses_to_replace)
        return tc_fail(err, TC_USAGE,
                       "%s than this: finish that job first, use another -o, or --replace",
                       fault.message);
    if (status == TC_BAD_INPUT || status == TC_NO_MATCH)
        progress_print(p, "the work starts over", fault.message);
    else if (status != TC_MORE)
        return tc_fail(err, status, "%s", fault.message);
    f->position.item = f->position.state_size = 0;
    return spool_truncate(f->spool, 0, 0, 0, err); /* empties the spool */
}

void job_files_reserve(job_files *f, size_t state_size)
{
    if (!bw_has_client() || state_size <= f->reserved || state_size > LAST_STATE_MAX)
        return;
    f->reserved = state_size;
    checkpoint_reserve(f->checkpoint_path, state_size);
}

bool job_files_try_again(job_files *f, tc_status *status, const progress *p, tc_err *err)
{
    const double longest_pause = 300;
    double until;

    if (*status != TC_DISK || !bw_has_client()) {
        if (*status == TC_OK && f->retry_pause > 0) {
            progress_note(p, "the disk takes files again");
            f->retry_pause = 0;
        }
        return false;
    }
    if (f->retry_pause == 0)
        progress_print(p, "waiting for the disk", err->message);
    /* 1 s at first, doubled after each try up to longest_pause. */
    f->retry_pause = f->retry_pause == 0                  ? 1
                     : f->retry_pause < longest_pause / 2 ? 2 * f->retry_pause
                                                          : longest_pause;
    until = tc_seconds() + f->retry_pause;
    for (*status = TC_OK; *status == TC_OK && tc_seconds() < until;
         *status = tc_call_poll(&f->poll, err))
        os_sleep(0.1);
    return *status == TC_OK;
}

bool job_files_save(job_files *f, const void *state, size_t state_size, const progress *p)
{
    assert(state_size == 0 || state != NULL);
    tc_err err;
    checkpoint c = f->position;
    tc_status status;

    if (f->write_deadline > 0 && state_size > LAST_STATE_MAX)
        return false;
    if (f->write_deadline > 0)
        f->write_deadline += LAST_WRITE_SECONDS;
    c.state_size = state_size;
    status = spool_sync(f->spool, &c.spool_size, &c.spool_crc, &err);
    if (status == TC_OK)
        status = checkpoint_write(f->checkpoint_path, &c, state, &f->poll, &err);
    if (status == TC_OK)
        f->item_saved = state_size > 0;
    if (f->reserved > 0)
        checkpoint_reserve(f->checkpoint_path,
                           f->reserved); /* this checkpoint has used the reserved space */
    if (status != TC_OK && status != TC_TRY_LATER && !f->has_warned) {
        f->has_warned = true;
        progress_print(p, "warning: no checkpoint", err.message);
    }
    return status == TC_OK;
}

/* The callback of the tc_poll after job_files_set_deadline. It writes no message, as the reason for
 * stopping is printed instead. */
static tc_status ask_until_deadline(void *user, tc_err *err)
{
    const job_files *const f = user;

    (void)err;
    return tc_seconds() < f->write_deadline ? TC_OK : TC_TRY_LATER;
}

void job_files_set_deadline(job_files *f)
{
    enum { LEAVE_MS = 100 }; /* milliseconds after which polls fail */

    f->write_deadline = tc_seconds() + LEAVE_MS * 1e-3;
    f->poll = (tc_poll){ ask_until_deadline, f };
}
