/* Runs a job from its work unit to its result file. */
#include "app/run.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app/base/files.h"
#include "app/base/os.h"
#include "app/base/text.h"
#include "app/item.h"
#include "opencl/backends.h"
#include "workunits/format/npz.h"
#include "workunits/format/title.h"
#include "wrapper/bw.h"

/* *reported is the fraction of the job that was reported last. Sets it to `share` if `share` is
 * larger, and returns it. So the reported fraction never decreases, even if the result becomes
 * larger than estimated. */
static double increase(double *reported, double share)
{
    *reported = share > *reported ? share : *reported;
    return *reported;
}

/* Returns the seconds that the CPU will take for the remaining items according to their plans,
 * accurate to a factor of two. */
static double cpu_seconds(const run_options *o, const job_files *files, const cost_model *model)
{
    const size_t done = (size_t)files->position.item;

    return (cost_total(model, done, spool_writing_cost(files->spool)) - cost_before(model, done)) /
           (AN_CORE_SPEED * o->threads);
}

/* "auto" chooses a device only if the job would take at least this many seconds on the CPU
 * (cpu_seconds): the time that starting a device takes if its driver has compiled the kernels
 * before. For tests, the environment variable TEXCELL_AUTO_SECONDS replaces the value. */
static double least_cpu_seconds(void)
{
    const char *const variable = getenv("TEXCELL_AUTO_SECONDS");

    return variable != NULL ? strtod(variable, NULL) : 0.6;
}

/* Sets *use_cpu to whether "auto" chooses the CPU because the job is short. */
static tc_status decide_device(const run_options *o, const an_unit *unit, const job_files *files,
                               bool *use_cpu, tc_err *err)
{
    cost_model model;
    const tc_status status = cost_model_make(unit, /* on_device */ false, &model, err);

    *use_cpu = status == TC_OK && cpu_seconds(o, files, &model) < least_cpu_seconds();
    cost_model_free(&model);
    return status;
}

/* Opens the requested device and checks it by self-tests. If "auto" finds no device, the CPU is
 * used without a note; if the device fails its self-tests, the CPU is used with a note. */
static tc_status open_device(const run_options *o, const an_unit *unit, const job_files *files,
                             const progress *p, job_device *d, tc_err *err)
{
    const bool may_use_cpu = o->request.kind == OCL_REQUEST_AUTO;
    bool use_cpu = false;
    tc_status status;

    *d = (job_device){ .backend = ocl_backend(unit->analysis->name), .gpu_task = o->gpu_task };
    if (o->request.kind == OCL_REQUEST_CPU || (may_use_cpu && d->backend == NULL))
        return TC_OK;
    status = may_use_cpu ? decide_device(o, unit, files, &use_cpu, err) : TC_OK;
    if (status != TC_OK || use_cpu)
        return status;
    if (d->backend == NULL)
        return tc_fail(err, TC_DEVICE, "%s cannot use OpenCL in this version: use --device cpu",
                       unit->analysis->name);
    /* From here on a crash or hang of the driver calls driver_fault, and requests of the client are
     * polled even while the main thread is inside a call of the driver. */
    status = tc_guard_activate(o->driver_fault, err);
    tc_guard_set_poll(bw_poll_from_thread, files->background, o->launch_ms);
    if (status == TC_OK)
        status = ocl_device_find(&o->request, &d->opened, err);
    if (status == TC_OK) {
        d->opened->cache_folder = o->kernel_folder;
        d->opened->background = files->background;
        status = ocl_check_device(unit->analysis, unit, d->opened, &files->poll, err);
        if (status == TC_DEVICE && may_use_cpu)
            progress_note(p, "using the CPU: %s", err->message);
        d->opened->share = o->gpu_share;
    }
    if (status != TC_OK)
        job_device_release(d);
    return status == TC_DEVICE && may_use_cpu ? TC_OK : status;
}

/* Prints how long the CPU will take: always on a terminal, otherwise only if this is a minute or
 * longer. Nothing is printed in a client's task. Not called for a device, as a device's speed is
 * unknown at the start. */
static void print_duration(const an_unit *unit, double seconds, unsigned threads, progress *p)
{
    const bool is_long = seconds >= 60;
    char text[TC_DURATION_SIZE];

    if (bw_has_client() || !(p->terminal || is_long))
        return;
    tc_format_duration(seconds, text);
    progress_note(p, "%s on %u thread%s%s%s", text, threads, threads == 1 ? "" : "s",
                  is_long && unit->analysis->shorten_advice != NULL ? ". To shorten it: " : "",
                  is_long && unit->analysis->shorten_advice != NULL ? unit->analysis->shorten_advice
                                                                    : "");
}

/* Processes all items that are not done yet. Sets *done to the fraction of the job that was
 * reported last. */
static tc_status run_items(const run_options *o, const an_unit *unit, job_device *device,
                           prefetch *next, job_files *files, progress *p, double *done, tc_err *err)
{
    const size_t n = unit->job->n_items;
    cost_model model;
    view v = { .next = 0 }; /* the state of the picture for the screensaver */
    tc_status status = cost_model_make(unit, device->opened != NULL, &model, err);

    if (status == TC_OK && device->opened == NULL)
        print_duration(unit, cpu_seconds(o, files, &model), o->threads, p);
    for (size_t i = (size_t)files->position.item; status == TC_OK && i < n; i++) {
        const double total_cost = cost_total(&model, i, spool_writing_cost(files->spool));
        const double from = increase(done, cost_before(&model, i) / total_cost),
                     to = increase(done, cost_before(&model, i + 1) / total_cost);
        item_times times = { 0, 0 };
        const item_work work = { .unit = unit,
                                 .index = i,
                                 .fraction_before = from,
                                 .fraction_after = to,
                                 .speed = model.speed,
                                 .times = &times,
                                 .threads = o->threads,
                                 .all_threads = o->all_threads,
                                 .launch_ms = o->launch_ms,
                                 .device = device,
                                 .prefetch = next,
                                 .files = files,
                                 .progress = p,
                                 .view = o->writes_view ? &v : NULL };

        files->position.item = i;
        /* files->state is not NULL if the job resumes from a checkpoint within this item. */
        files->item_saved = files->state != NULL;
        status = item_process(&work, err);
        /* item_process may have closed a device that failed: the CPU does the remaining items. */
        if (device->opened == NULL)
            cost_use_cpu(&model);
        else if (status == TC_OK && times.chunks > 0)
            cost_add_times(&model, i, &times);
        free(files->state); /* a checkpoint's state that was not used */
        files->state = NULL;
        if (status == TC_OK && i + 1 < n)
            item_checkpoint_between(&work);
    }
    /* Sets *done to the fraction of the job that will be done when the result file begins to grow:
     * all items, and the SHA-256 of the work unit's file, which write_result computes before it
     * writes. */
    if (status == TC_OK)
        increase(done, (cost_before(&model, n) + model.sha256_cost) /
                           cost_total(&model, n, spool_writing_cost(files->spool)));
    cost_model_free(&model);
    return status;
}

/* Data with which report_written reports the progress while the result is written. */
typedef struct write_state {
    progress *p;
    const wu_job *job;
    double before; /* fraction of the job that is done before the result is written */
} write_state;

/* The `report` function of a wu_write_progress. share: the share of the result, 0 to 1, that is
 * written. */
static void report_written(void *user, double share)
{
    const write_state *const state = user;
    const double on_disk = 0.99; /* the rest is the time of the final fsync */
    const double fraction = state->before + (1 - state->before) * on_disk * share;

    bw_fraction_done(fraction);
    progress_show(state->p, fraction, state->job->items[state->job->n_items - 1].name,
                  state->job->n_items - 1);
}

/* Writes the result file from the spool. */
static tc_status write_result(const char *path, const an_unit *unit, spool *s, write_state *state,
                              tc_err *err)
{
    const wu_result_source source = { s, spool_read, spool_copy };
    const wu_write_progress on_written = { report_written, state };
    TC_AUTO(wu_output_free) wu_output constants = { .n = 0 };
    TC_AUTO(wu_output_free) wu_output first_item = { .n = 0 }; /* declares the items' arrays */
    json_auto_t *parameters = an_params_as_run(unit->params);

    if (parameters == NULL)
        return tc_no_memory(err, "the parameters");
    if (unit->analysis->add_constants != NULL)
        return_if_error(unit->analysis->add_constants(unit->params, &constants, err));
    return_if_error(
        unit->analysis->declare_arrays(unit->params, &unit->job->items[0], &first_item, err));
    return_if_error(wu_job_compute_sha256(unit->job, err));
    return wu_result_write(path, unit->job, parameters, &constants, &first_item, &source,
                           &on_written, err);
}

/* Prints the analysis' notes about the items, except a note that repeats the previous one. */
static void note_items(const an_unit *unit, progress *p)
{
    char last[TC_ERR_MAX] = "", text[TC_ERR_MAX];

    for (size_t i = 0; unit->analysis->note_item != NULL && i < unit->job->n_items; i++) {
        const wu_item *const item = &unit->job->items[i];

        if (!unit->analysis->note_item(unit->params, item, text, sizeof text) ||
            strcmp(text, last) == 0)
            continue;
        progress_note_item(p, wu_item_title_of(item->name, item->source).text, text);
        memcpy(last, text, sizeof last);
    }
}

/* Runs a job whose files are open: finds the position where it continues, chooses the device,
 * processes the items and writes the result. */
static tc_status run_open_job(const run_options *o, const an_unit *unit, job_files *files,
                              progress *p, tc_err *err)
{
    const size_t n_items = unit->job->n_items;
    job_device device = { .opened = NULL };
    write_state writing = { .p = p, .job = unit->job };
    prefetch next;
    tc_status status;

    do
        status = job_files_find_start(files, n_items, p, err);
    while (job_files_try_again(files, &status, p, err));
    prefetch_init(&next, unit->job);
    files->background = &next.background;
    if (status == TC_OK && o->request.kind != OCL_REQUEST_CPU)
        prefetch_begin(&next, (size_t)files->position.item);
    if (status == TC_OK)
        status = open_device(o, unit, files, p, &device, err);
    if (status == TC_OK) {
        const bool is_cpu = device.opened != NULL && device.opened->info.type & CL_DEVICE_TYPE_CPU;
        char name[sizeof device.opened->info.name + 32];

        /* An OpenCL device may be the CPU itself: then the note says that no GPU is used. */
        snprintf(name, sizeof name, "%s%s",
                 device.opened == NULL ? "the CPU" : device.opened->info.name,
                 is_cpu ? " (the CPU, by OpenCL: no GPU)" : "");
        progress_note(p, "%s: %zu item%s, %s on %s", o->input, n_items, n_items == 1 ? "" : "s",
                      unit->analysis->name, name);
        if (unit->job->about != NULL)
            progress_note(p, "about this work: %s", unit->job->about);
        note_items(unit, p);
        status = run_items(o, unit, &device, &next, files, p, &writing.before, err);
        progress_end_notes(p);
    }
    job_device_release(&device);
    files->background = NULL;
    prefetch_destroy(&next);
    if (status != TC_OK) {
        /* Saves the finished items in a checkpoint, unless the checkpoint on disk contains them and
         * a state of the current item besides. */
        if (files->position.item > 0 && !files->item_saved)
            job_files_save(files, NULL, 0, p);
        return status;
    }
    files->position.item = n_items;
    do
        status = write_result(o->output, unit, files->spool, &writing, err);
    while (job_files_try_again(files, &status, p, err));
    progress_clear(p);
    if (status == TC_OK)
        bw_fraction_done(1);
    else
        job_files_save(files, NULL, 0, p);
    return status;
}

/* Checks, before the work begins, that the result file can be written. */
static tc_status check_output(const run_options *o, tc_err *err)
{
    struct stat info;
    TC_AUTOFREE char *const folder = tc_folder_of(o->output);

    if (folder == NULL)
        return tc_no_memory(err, "a file name");
    if (!os_is_writable_folder(folder))
        return tc_fail_write(o->output, o->output, err);
    if (stat(o->output, &info) == 0 && S_ISDIR(info.st_mode))
        return tc_fail(err, TC_IO, "%s: cannot write: %s", o->output, strerror(EISDIR));
    if (stat(o->output, &info) == 0 && !S_ISREG(info.st_mode))
        return tc_fail(err, TC_IO, "%s: cannot write: not a regular file", o->output);
    return TC_OK;
}

/* With o->refuses_to_replace, checks that a file which exists at the result's path may be replaced:
 * it must be empty, or a result of the same work unit. Sets *done to whether it is this unit's
 * result and nothing is left to do: results are complete as soon as they have their name, but a run
 * that was killed then has left its spool, and runs of labels are written by computing. */
static tc_status check_replaced(const run_options *o, const wu_job *job, bool *done, tc_err *err)
{
    wu_npz_reader *npz = NULL;
    struct stat info;
    const char *crc = "";
    json_int_t size = -1;

    if (!o->refuses_to_replace || stat(o->output, &info) != 0 || info.st_size == 0)
        return TC_OK;
    const tc_status status = wu_npz_open(o->output, NULL, &npz, err);
    if (status != TC_OK && status != TC_BAD_INPUT)
        return status;
    const bool is_result =
        status == TC_OK && json_unpack(json_object_get(wu_npz_json(npz), "workunit"), "{s:s, s:I}",
                                       "crc32", &crc, "size", &size) == 0;
    const bool same =
        is_result && strtoul(crc, NULL, 16) == job->file_crc && (uint64_t)size == job->file_size;
    *done = same &&
            json_integer_value(json_object_get(wu_npz_json(npz), "version")) ==
                WU_RESULT_FORMAT_VERSION &&
            o->label_runs_path == NULL && os_kind_of_link(o->spool) == OS_NOTHING;
    wu_npz_reader_close(&npz);
    return same ? TC_OK
                : tc_fail(err, TC_USAGE,
                          "%s: already exists, and is %s %s: use another -o, or --replace",
                          o->output,
                          is_result ? "the result of a work unit other than" : "not a result of",
                          o->input);
}

/* Checks that the result file may be written, and opens the spool, unless *done is set: the result
 * is there already. */
static tc_status open_outputs(const run_options *o, const an_unit *unit, job_files *files,
                              bool *done, tc_err *err)
{
    tc_status status = check_output(o, err);

    if (status == TC_OK)
        status = check_replaced(o, unit->job, done, err);
    return status == TC_OK && !*done ? job_files_open(files, o->checkpoint, o->spool, unit, err)
                                     : status;
}

/* The callback of the job's tc_poll: polls the BOINC client for requests to suspend or stop.
 * While the task is suspended, the program sleeps in bw_poll. */
static tc_status ask_client(void *user, tc_err *err)
{
    job_files *const files = user;

    tc_guard_record_poll(); /* so the guard's thread need not poll the client */
    tc_background_pause_threads(files->background);
    const bw_request answer = bw_poll();
    tc_background_resume_threads(files->background);
    return answer == BW_CONTINUE ? TC_OK : tc_fail(err, TC_TRY_LATER, "%s", bw_request_reason());
}

/* Whether a picture of the current item is damaged although the work unit's file has not changed
 * since the job began. If so, the job can never be completed, and its finished items are useless.
 */
static bool stays_damaged(const an_unit *unit, const job_files *files)
{
    const wu_job *const job = unit->job;
    wu_job *again = NULL;
    wu_pixels pixels = { .nx = 0 };
    const bool damaged =
        files->position.item < job->n_items &&
        wu_job_read_polled(job->path, &files->poll, &again, NULL) == TC_OK &&
        again->file_crc == job->file_crc && again->file_size == job->file_size &&
        wu_item_load(again, (size_t)files->position.item, &pixels, NULL) == TC_BAD_INPUT;

    wu_pixels_free(&pixels);
    wu_job_destroy(&again);
    return damaged;
}

tc_status run_job(const run_options *options, tc_err *err)
{
    assert(options->threads >= 1 && options->gpu_share > 0 && options->gpu_share <= 1);
    progress p = progress_begin(options->quiet, bw_has_client());
    job_files files = { .poll = { ask_client, &files },
                        .refuses_to_replace = options->refuses_to_replace };
    an_unit unit;
    bool done = false;
    tc_status status = an_unit_read_polled(options->input, &files.poll, &unit, err);

    if (status == TC_OK)
        do
            status = open_outputs(options, &unit, &files, &done, err);
        while (job_files_try_again(&files, &status, &p, err));
    if (done)
        progress_note(&p, "%s: is the result of %s already; --replace computes it again",
                      options->output, options->input);
    if (status == TC_OK && !done) {
        unit.job->threads = options->threads;
        /* The label pictures are also written as runs: series of pixels with equal labels in a row
         * (label_runs.h). */
        if (options->label_runs_path != NULL)
            spool_write_runs_to(files.spool, options->label_runs_path);
        p.n_items = unit.job->n_items;
        status = run_open_job(options, &unit, &files, &p, err);
    }
    /* Whether checkpoint and spool are kept, so that a later run can continue. After success, and
     * if an image is damaged for good, they are useless and are removed. But a task of a BOINC
     * client leaves them to the client, which empties the task's folder: removing gigabytes takes
     * long, and the task could not be stopped meanwhile. After any other error they are kept,
     * unless the work unit is invalid (TC_BAD_INPUT) and no work was saved. */
    bool keep = status != TC_BAD_INPUT;

    if (status == TC_OK)
        keep = bw_has_client();
    else if (status == TC_BAD_INPUT && (files.position.item > 0 || files.item_saved))
        keep = bw_has_client() || !stays_damaged(&unit, &files);
    job_files_close(&files, keep);
    an_unit_free(&unit);
    return status;
}
