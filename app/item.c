/* Processes one item of a job: opens a backend, takes steps, writes checkpoints, and falls back to
 * the CPU. */
#include "app/item.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/os.h"
#include "app/driver_fault.h"
#include "workunits/format/title.h"
#include "wrapper/bw.h"

/* The state of processing an item. */
typedef struct item_run {
    an_work work;
    wu_pixels pixels;
    void *state;
    const an_backend *backend; /* the analysis' backend for the CPU or for the device */
    void *worker;              /* the backend's worker; NULL if it is closed */
    const item_work *args;     /* the argument of item_process */
    wu_output output;          /* the item's arrays, once they are computed */
    double opened_at;          /* the value of seconds_worked just before the backend is opened */
    bool finished; /* the backend has made `output` without a sync, so `state` is an earlier one */
    bool final_saved; /* a checkpoint with the final state was written */
} item_run;

void job_device_release(job_device *d)
{
    if (d->opened != NULL)
        ocl_device_close(&d->opened);
    tc_guard_deactivate();
}

/* --- device or CPU --------------------------------------------------------------------------- */

/* Whether the CPU continues the work after the device has failed with `status`: always if the item
 * cannot fit the device; otherwise only if the device was not assigned by the client, which starts
 * a GPU task again later. */
static bool cpu_takes_over(const job_device *d, tc_status status)
{
    return status == TC_TOO_LARGE || (status == TC_DEVICE && !d->gpu_task);
}

/* Opens the CPU's backend after the device's backend has failed with `status`. If the item does not
 * fit the device (TC_TOO_LARGE), the CPU does only this item; otherwise it does all remaining
 * items. */
static tc_status switch_to_cpu(const item_work *w, item_run *it, tc_status status, tc_err *err)
{
    if (status == TC_TOO_LARGE) {
        /* The device remains open for the items after this one. */
        progress_print(w->progress, "the CPU does this item", err->message);
    } else {
        progress_print(w->progress, "going on with the CPU", err->message);
        job_device_release(w->device);
    }
    it->work.device = NULL;
    it->backend = w->unit->analysis->cpu;
    return it->backend->open(&it->work, it->state, &it->worker, err);
}

/* Opens the device's backend, or the CPU's if no device is used or opening fails. */
static tc_status open_backend(const item_work *w, item_run *it, tc_err *err)
{
    tc_status status;

    it->work.device = w->device->opened;
    it->backend = it->work.device != NULL ? w->device->backend : w->unit->analysis->cpu;
    status = it->backend->open(&it->work, it->state, &it->worker, err);
    return it->work.device != NULL && cpu_takes_over(w->device, status)
               ? switch_to_cpu(w, it, status, err)
               : status;
}

/* After an error of the device: continues on the CPU from the state of the last sync. Returns
 * `status` if the CPU does not take over. */
static tc_status fall_back(const item_work *w, item_run *it, tc_status status, tc_err *err)
{
    if (it->work.device == NULL || !cpu_takes_over(w->device, status))
        return status;
    it->backend->close(&it->worker);
    return switch_to_cpu(w, it, status, err);
}

/* --- steps and checkpoints ------------------------------------------------------------------- */

/* Writes a checkpoint with this state, which is NULL if the item has not been started. Returns
 * whether it was written. */
static bool save_state(const item_work *w, const void *state, size_t bytes)
{
    if (!job_files_save(w->files, state, bytes, w->progress))
        return false;
    bw_checkpoint_completed();
    if (w->device->opened != NULL && bw_has_client())
        driver_fault_reset_count(); /* the device has worked without a fault until now */
    return true;
}

/* Writes a checkpoint with the item's state, which must be in sync with the device. */
static bool save_item(const item_work *w, const item_run *it)
{
    return save_state(w, it->state, it->work.plan.state_bytes);
}

void item_checkpoint_between(const item_work *w)
{
    if (!bw_time_to_checkpoint())
        return;
    /* The checkpoint contains no state, since the next item has not been started. */
    w->files->position.item = w->index + 1;
    if (!save_state(w, NULL, 0))
        bw_checkpoint_failed();
}

/* Called when the client or a signal has asked the program to stop. Writes a checkpoint, unless the
 * task was aborted. Returns TC_TRY_LATER with the reason for the stop. */
static tc_status stop_on_request(const item_work *w, item_run *it, tc_err *err)
{
    tc_err ignored;

    job_files_set_deadline(w->files);
    /* Without a worker the state is final and needs no sync. */
    if (bw_poll() == BW_QUIT &&
        (it->worker == NULL || an_sync(it->backend, it->worker, it->state, &ignored) == TC_OK))
        save_item(w, it);
    progress_clear(w->progress);
    return tc_fail(err, TC_TRY_LATER, "%s", bw_request_reason());
}

/* Writes a checkpoint if one is due. */
static tc_status save_if_due(const item_work *w, item_run *it, tc_err *err)
{
    tc_status status;

    if (!bw_time_to_checkpoint())
        return TC_OK;
    status = an_sync(it->backend, it->worker, it->state, err);
    if (status != TC_OK || !save_item(w, it))
        bw_checkpoint_failed();
    return status;
}

/* Returns the fraction of the job that is done when this share (0 to 1) of the item is done. */
static double fraction_at(const item_work *w, double share)
{
    return w->fraction_before + (w->fraction_after - w->fraction_before) * share;
}

/* Returns the item's name for messages. */
static wu_item_title title_of(const item_work *w)
{
    const wu_item *const item = &w->unit->job->items[w->index];

    return wu_item_title_of(item->name, item->source);
}

/* Reports the progress after this share (0 to 1) of the item is done. */
static void report_progress(const item_work *w, double share)
{
    const double fraction = fraction_at(w, share);

    bw_fraction_done(fraction);
    progress_show(w->progress, fraction, title_of(w).text, w->index);
}

/* The share of the item's work that is done after chunks_done chunks. */
static double work_share(const item_run *it, uint64_t chunks_done)
{
    return an_spent_share(it->args->unit->analysis, &it->work, chunks_done);
}

/* Writes the picture for texcell_graphics, if one is due. */
static void update_view(const item_work *w, item_run *it, uint64_t chunks_done)
{
    tc_err ignored;

    if (w->view == NULL || !view_is_due(w->view))
        return;
    /* If the sync fails, the next step reports the error. */
    if (an_sync(it->backend, it->worker, it->state, &ignored) == TC_OK)
        view_write(w->view, w->unit->analysis, &it->work, it->state,
                   fraction_at(w, work_share(it, chunks_done)), w->index, w->unit->job);
}

/* Called when all chunks are done: the backend makes the item's output. If the backend cannot do so
 * (TC_MORE), copies its final state to it->state, from which end_item makes the output. */
static tc_status end_steps(const item_work *w, item_run *it, tc_err *err)
{
    const tc_status status =
        it->backend->finish == NULL
            ? TC_MORE
            : it->backend->finish(it->worker, it->state, w->index, &it->output, err);

    if (status == TC_MORE)
        return an_sync(it->backend, it->worker, it->state, err);
    it->finished = status == TC_OK;
    if (!it->finished)
        wu_output_free(&it->output);
    return status;
}

/* Returns the number of threads that the options and the volunteer's current limit allow. */
static unsigned most_threads(const item_work *w)
{
    const unsigned limit = (unsigned)bw_cpu_limit();

    return limit > 0 && limit < w->threads ? limit : w->threads;
}

/* Returns the number of threads for an item: 1, plus 1 for every 10^7 operations. For a small item,
 * waking more threads takes longer than they save. */
static unsigned choose_threads(const item_work *w, const an_plan *plan)
{
    const double flops_a_thread = 1e7;
    const double n = 1 + plan->flops / flops_a_thread;
    const unsigned most = most_threads(w);

    return n < most && !w->all_threads ? (unsigned)n : most;
}

/* Whether to decode the next item while the CPU computes this one. This is done if this item uses
 * only one of several allowed threads, and the next item is large enough: starting a thread takes
 * longer than decoding a tiny item. As the next item's size is not looked up, it is assumed to be
 * as large as this one. */
static bool decodes_ahead(const item_work *w, const item_run *it)
{
    const double least = 1e6; /* the least operations of an item for which this is worthwhile */

    return it->work.device == NULL && it->work.threads == 1 && most_threads(w) > 1 &&
           it->work.plan.flops >= least;
}

/* Adapts the number of threads to the volunteer's current limit: closes the worker between two
 * steps, when the state is complete, and opens one with the new number. */
static tc_status follow_cpu_limit(const item_work *w, item_run *it, tc_err *err)
{
    const unsigned threads = choose_threads(w, &it->work.plan);
    tc_status status;

    if (it->work.device != NULL || threads == it->work.threads)
        return TC_OK;
    status = an_sync(it->backend, it->worker, it->state, err);
    it->backend->close(&it->worker);
    it->work.threads = threads;
    return status == TC_OK ? it->backend->open(&it->work, it->state, &it->worker, err) : status;
}

/* Runs steps until all chunks are done. Between steps polls and writes checkpoints. After an error
 * of the device continues on the CPU. */
static tc_status do_steps(const item_work *w, item_run *it, tc_err *err)
{
    tc_status status = TC_MORE;

    report_progress(w, work_share(it, ((const an_state_head *)it->state)->chunks_done));
    while (status == TC_MORE) {
        uint64_t chunks = 0;

        status = tc_call_poll(&w->files->poll, err);
        if (status == TC_OK)
            status = it->backend->step(it->worker, it->state, &chunks, err);
        if (status == TC_OK)
            status = end_steps(w, it, err);
        if (status == TC_OK || status == TC_MORE)
            update_view(w, it, chunks);
        if (status == TC_MORE) {
            report_progress(w, work_share(it, chunks));
            status = save_if_due(w, it, err);
            if (status == TC_OK)
                status = follow_cpu_limit(w, it, err);
            status = status == TC_OK ? TC_MORE : status;
        }
        if (status != TC_OK && status != TC_MORE) {
            status = fall_back(w, it, status, err);
            status = status == TC_OK ? TC_MORE : status;
        }
    }
    return status;
}

/* --- beginning and end ----------------------------------------------------------------------- */

/* Checks whether the item can continue from the checkpoint's state, which may be corrupt in spite
 * of its CRC. Returns TC_BAD_INPUT if it cannot; other errors mean that the check itself failed. */
static tc_status check_state(const item_work *w, const item_run *it, tc_err *err)
{
    const an_state_head *const head = w->files->state;
    const an_analysis *const analysis = w->unit->analysis;

    /* A checkpoint of this item always has the same size, and at most plan.chunks chunks. */
    if (w->files->position.state_size != it->work.plan.state_bytes ||
        head->chunks_done > it->work.plan.chunks)
        return tc_fail(err, TC_BAD_INPUT, "the state is of another size");
    return analysis->check_state != NULL ? analysis->check_state(&it->work, head, err) : TC_OK;
}

/* Sets it->state to the checkpoint's state if there is a valid one, otherwise to a new one. */
static tc_status init_state(const item_work *w, item_run *it, tc_err *err)
{
    /* TC_OK: the checkpoint's state is valid. TC_BAD_INPUT: it is not. TC_MORE: there is none. */
    const tc_status status = w->files->state != NULL ? check_state(w, it, err) : TC_MORE;

    if (status == TC_OK) {
        it->state = w->files->state;
        w->files->state = NULL;
    }
    if (status != TC_MORE && status != TC_BAD_INPUT)
        return status;
    if (status == TC_BAD_INPUT)
        progress_print(w->progress, "this item starts over", err->message);
    it->state = it->work.plan.sparse_state ? calloc(1, it->work.plan.state_bytes)
                                           : os_alloc_zeroed(it->work.plan.state_bytes);
    return it->state == NULL ? tc_no_memory(err, "the state of an item")
                             : an_init(w->unit->analysis, &it->work, it->state, err);
}

/* Returns tc_seconds() less the seconds during which the task was suspended. */
static double seconds_worked(void)
{
    return tc_seconds() - bw_suspended_seconds();
}

/* Loads the item's pixels, makes its plan and state, and opens a backend. */
static tc_status begin_item(const item_work *w, item_run *it, tc_err *err)
{
    const an_unit *const unit = w->unit;
    tc_status status = prefetch_take(w->prefetch, w->index, &w->files->poll, &it->pixels, err);

    it->work = (an_work){ .params = unit->params,
                          .item = &unit->job->items[w->index],
                          .pixels = &it->pixels,
                          .poll = &w->files->poll,
                          .launch_ms = w->launch_ms,
                          .speed = w->speed,
                          .result_only = true /* only finish will use the final state */ };
    if (status == TC_OK)
        status = unit->analysis->plan(unit->params, it->work.item, &it->work.plan, err);
    it->work.threads = choose_threads(w, &it->work.plan);
    if (status == TC_OK)
        job_files_reserve(w->files, it->work.plan.state_bytes);
    if (status == TC_OK)
        status = init_state(w, it, err);
    it->opened_at = seconds_worked();
    return_if_error(status);
    return_if_error(open_backend(w, it, err));
    if (it->work.device != NULL || decodes_ahead(w, it))
        prefetch_begin(w->prefetch, w->index + 1);
    return TC_OK;
}

/* The callback of the tc_poll that end_item uses. If end_item takes so long that a checkpoint
 * becomes due, this function writes one with the final state, once. */
static tc_status ask_while_finishing(void *user, tc_err *err)
{
    item_run *const it = user;
    const tc_status status = tc_call_poll(&it->args->files->poll, err);

    if (status == TC_OK && !it->final_saved && bw_time_to_checkpoint()) {
        it->final_saved = true;
        if (!save_item(it->args, it))
            bw_checkpoint_failed();
    }
    return status;
}

/* Reports the progress after this share (0 to 1) of the item's arrays has been compressed. */
static void report_compressed(void *user, double share)
{
    const item_run *const it = user;

    report_progress(it->args, an_spent_share_compressing(&it->work, share));
}

/* Whether all pixels have the same grey value. */
static bool has_one_grey(const wu_pixels *px)
{
    const size_t n = (size_t)px->nx * px->ny * px->nz, size = px->bits / 8;
    const uint8_t *const first = px->bits == 8 ? px->u8 : (const uint8_t *)px->u16;

    return first != NULL && n > 0 && memcmp(first, first + size, (n - 1) * size) == 0;
}

/* Makes the item's output, unless the backend has made it, and appends it to the spool. */
static tc_status end_item(const item_work *w, item_run *it, tc_err *err)
{
    const an_analysis *const analysis = w->unit->analysis;
    const tc_poll poll = { ask_while_finishing, it };
    const wu_write_progress written = { report_compressed, it };
    char text[TC_ERR_MAX];
    tc_status status = TC_OK;

    it->work.poll = &poll;
    if (!it->finished) {
        /* The analysis needs only the state. */
        it->backend->close(&it->worker);
        status = analysis->finish(&it->work, w->index, it->state, &it->output, err);
    }
    if (status == TC_OK)
        do
            status =
                spool_append(w->files->spool, &it->output, it->work.threads, &poll, &written, err);
        while (job_files_try_again(w->files, &status, w->progress, err));
    it->work.poll = &w->files->poll;
    if (status == TC_OK && analysis->note_result != NULL &&
        analysis->note_result(it->work.params, it->work.item, &it->output, text, sizeof text))
        progress_note_item(w->progress, title_of(w).text,
                           has_one_grey(&it->pixels) ? AN_SAME_GREY : text);
    return status;
}

/* Whether the message has the form "PATH: ...". */
static bool begins_with_file(const char *message, const char *path)
{
    const size_t n = strlen(path);

    return strncmp(message, path, n) == 0 && message[n] == ':';
}

tc_status item_process(const item_work *w, tc_err *err)
{
    assert(w->index < w->unit->job->n_items && w->threads >= 1 &&
           w->fraction_before <= w->fraction_after);
    const wu_job *const job = w->unit->job;
    const wu_item_title title = title_of(w);
    const double start = seconds_worked();
    const bool resumed = w->files->state != NULL;
    item_run it = { .args = w };
    tc_status status = begin_item(w, &it, err);
    const bool has_begun = status == TC_OK;
    double steps_end;

    if (status == TC_OK)
        status = do_steps(w, &it, err);
    steps_end = seconds_worked();
    if (status == TC_OK && it.work.threads > 1)
        prefetch_begin(w->prefetch, w->index + 1);
    if (status == TC_OK)
        status = end_item(w, &it, err);
    /* The first element is the time of the device's steps; all other time counts as the host's. */
    if (status == TC_OK && it.work.device != NULL && !resumed)
        *w->times = (item_times){ steps_end - it.opened_at,
                                  it.opened_at - start + seconds_worked() - steps_end };
    if (status == TC_TRY_LATER && has_begun && bw_request_reason()[0] != '\0')
        status = stop_on_request(w, &it, err);
    if (status == TC_OK && resumed)
        progress_note(w->progress, "%s: done (%zu of %zu) in %.1f s since the restart", title.text,
                      w->index + 1, job->n_items, seconds_worked() - start);
    else if (status == TC_OK && progress_reports_item(w->progress, w->index))
        progress_note(w->progress, "%s: done (%zu of %zu) in %.1f s", title.text, w->index + 1,
                      job->n_items, seconds_worked() - start);
    if (it.worker != NULL)
        it.backend->close(&it.worker);
    wu_output_free(&it.output);
    wu_pixels_free(&it.pixels);
    free(it.state);
    if (status == TC_BAD_INPUT && !begins_with_file(err->message, job->path)) {
        tc_err inner = *err;

        return tc_fail(err, status, "%.400s: item \"%s\": %.400s", job->path,
                       job->items[w->index].name, inner.message);
    }
    return status;
}
