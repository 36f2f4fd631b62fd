#include "app/run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/analysis/analysis.h"
#include "app/checkpoint.h"
#include "app/spool.h"
#include "opencl/backends.h"
#include "wrapper/bw.h"

typedef struct job_run {
    const run_options *options;
    wu_job *job;
    const an_analysis *analysis;
    const an_backend *device_backend;   /* of the analysis; NULL: none */
    void *params;
    spool *spool;
    ocl_device *device;        /* NULL: the CPU works */
    checkpoint mark;           /* whose checkpoint, and where the job is */
    double *done_before;       /* [n_items + 1]: share of the work before each item */
    bool item_saved;           /* the checkpoint holds a state of this item */
    bool warned;               /* of a checkpoint that could not be written */
    bool terminal;             /* stderr is one: draw a progress bar */
    double shown;              /* time of the last drawing */
} job_run;

/* The item being worked on. */
typedef struct item_run {
    size_t index;
    an_task task;
    wu_pixels pixels;
    void *state;
    const an_backend *backend;
    void *worker;
    double start;
} item_run;

/* --- what people see --------------------------------------------------------------- */

static void show_progress(job_run *r, const item_run *it, double fraction)
{
    enum { WIDTH = 30 };
    const double time = tc_seconds();
    const int full = (int)(fraction * WIDTH);

    bw_fraction_done(fraction);
    if (!r->terminal || time - r->shown < 0.1)
        return;
    r->shown = time;
    fprintf(stderr, "\r[%.*s%.*s] %5.1f%%  %s (%zu of %zu)\033[K", full, "##############################",
            WIDTH - full, "..............................", 100 * fraction,
            r->job->items[it->index].name, it->index + 1, r->job->n_items);
    fflush(stderr);
}

static void clear_progress(const job_run *r)
{
    if (r->terminal)
        fputs("\r\033[K", stderr);
}

static void say_item_done(const job_run *r, const item_run *it)
{
    clear_progress(r);
    if (!r->options->quiet)
        fprintf(stderr, "texcell: %s: done (%zu of %zu) in %.1f s\n", r->job->items[it->index].name,
                it->index + 1, r->job->n_items, tc_seconds() - it->start);
}

static void say(const job_run *r, const char *what, const char *detail)
{
    clear_progress(r);
    fprintf(stderr, "texcell: %s: %s\n", what, detail);
}

/* --- checkpoints ----------------------------------------------------------------------- */

/* A checkpoint is on disk, one that the device has worked for if there is one. */
static void saved(const job_run *r)
{
    bw_checkpoint_completed();
    if (r->device != NULL && bw_has_client())
        driver_fault_forget();
}

/* Writes one; a failure is a warning, since the work itself can go on. */
static bool save(job_run *r, const void *state, size_t state_size)
{
    tc_err err;
    checkpoint c = r->mark;
    tc_status st;

    c.state_size = state_size;
    st = spool_sync(r->spool, &c.spool_size, &c.spool_crc, &err);
    if (st == TC_OK)
        st = checkpoint_write(r->options->checkpoint, &c, state, &err);
    if (st == TC_OK)
        r->item_saved = state_size > 0;
    if (st != TC_OK && !r->warned) {
        r->warned = true;
        say(r, "warning: no checkpoint", err.message);
    }
    return st == TC_OK;
}

/* Finds where the job stands: from a checkpoint that fits, or at its start. */
static tc_status find_start(job_run *r, void **state, tc_err *err)
{
    checkpoint found;
    tc_err why;
    tc_status st = checkpoint_read(r->options->checkpoint, &r->mark, &found, state, &why);

    if (st == TC_OK && found.item > r->job->n_items)
        st = tc_fail(&why, TC_BAD_INPUT, "%s: is corrupt", r->options->checkpoint);
    if (st == TC_OK)
        st = spool_keep(r->spool, found.spool_size, found.spool_crc, found.item, &why);
    if (st == TC_OK) {
        r->mark = found;
        if (!r->options->quiet)
            fprintf(stderr, "texcell: going on from the checkpoint, with %llu of %zu items done\n",
                    (unsigned long long)found.item, r->job->n_items);
        return TC_OK;
    }
    free(*state);
    *state = NULL;
    if (st == TC_BAD_INPUT)
        fprintf(stderr, "texcell: the work starts over: %s\n", why.message);
    else if (st != TC_MORE)
        return tc_fail(err, st, "%s", why.message);
    r->mark.item = r->mark.state_size = 0;
    return spool_keep(r->spool, 0, 0, 0, err);
}

/* --- one item ----------------------------------------------------------------------------- */

static double fraction_at(const job_run *r, const item_run *it, uint64_t units_done)
{
    const double a = r->done_before[it->index], b = r->done_before[it->index + 1];

    return a + (b - a) * (double)units_done / (double)it->task.plan.units;
}

static void release_device(job_run *r)
{
    if (r->device != NULL)
        ocl_device_close(&r->device);
    tc_guard_down();
}

/* Whether the CPU does what a device did not: always what the device can never
 * hold; else not in a client's GPU task, which leaves it to the client to try again. */
static bool cpu_takes_over(const job_run *r, tc_status st)
{
    return st == TC_TOO_LARGE || (st == TC_DEVICE && !r->options->gpu_task);
}

/* Opens the CPU's backend in place of the device's, which failed with `st`: for
 * this item, or where the device itself failed for all that are left. */
static tc_status go_to_cpu(job_run *r, item_run *it, tc_status st, tc_err *err)
{
    if (st == TC_TOO_LARGE) {
        say(r, "the CPU does this item", err->message);
    } else {
        say(r, "going on with the CPU", err->message);
        release_device(r);
    }
    it->task.device = NULL;
    it->backend = r->analysis->cpu;
    return it->backend->open(&it->task, it->state, &it->worker, err);
}

/* Opens the device's backend, if there is one. */
static tc_status open_backend(job_run *r, item_run *it, tc_err *err)
{
    tc_status st;

    it->task.device = r->device;
    it->backend = r->device != NULL ? r->device_backend : r->analysis->cpu;
    st = it->backend->open(&it->task, it->state, &it->worker, err);
    return it->task.device != NULL && cpu_takes_over(r, st) ? go_to_cpu(r, it, st, err) : st;
}

/* After an error of the device: back to the state as of the last sync, on the CPU. */
static tc_status fall_back(job_run *r, item_run *it, tc_status st, tc_err *err)
{
    if (it->task.device == NULL || !cpu_takes_over(r, st))
        return st;
    it->backend->close(&it->worker);
    return go_to_cpu(r, it, st, err);
}

static tc_status stop_as_asked(job_run *r, item_run *it, bw_request request, tc_err *err)
{
    if (request == BW_QUIT) {
        tc_err ignored;

        if (it->backend->sync(it->worker, it->state, &ignored) == TC_OK &&
            save(r, it->state, it->task.plan.state_bytes))
            saved(r);
    }
    clear_progress(r);
    return tc_fail(err, TC_TRY_LATER, "%s", bw_why());
}

/* A checkpoint, where one is due. */
static tc_status maybe_save(job_run *r, item_run *it, tc_err *err)
{
    tc_status st;

    if (!bw_time_to_checkpoint())
        return TC_OK;
    st = it->backend->sync(it->worker, it->state, err);
    if (st == TC_OK && save(r, it->state, it->task.plan.state_bytes))
        saved(r);
    else
        bw_checkpoint_failed();
    return st;
}

static tc_status do_steps(job_run *r, item_run *it, tc_err *err)
{
    tc_status st = TC_MORE;

    while (st == TC_MORE) {
        const bw_request request = bw_poll();
        uint64_t units = 0;

        if (request != BW_GO_ON)
            return stop_as_asked(r, it, request, err);
        bw_begin_critical();
        st = it->backend->step(it->worker, it->state, &units, err);
        if (st == TC_OK)
            st = it->backend->sync(it->worker, it->state, err);
        bw_end_critical();
        if (st == TC_MORE) {
            show_progress(r, it, fraction_at(r, it, units));
            st = maybe_save(r, it, err);
            st = st == TC_OK ? TC_MORE : st;
        }
        if (st != TC_OK && st != TC_MORE) {
            st = fall_back(r, it, st, err);
            st = st == TC_OK ? TC_MORE : st;
        }
    }
    return st;
}

/* Whether the work can go on from a state of the checkpoint (NULL: there is none), which is not
 * believed blindly. */
static bool takes_up(const job_run *r, const item_run *it, const void *state)
{
    tc_err err;
    tc_status st = TC_OK;

    if (state == NULL)
        return false;
    if (r->mark.state_size != it->task.plan.state_bytes ||
        ((const an_state_head *)state)->units_done > it->task.plan.units)
        st = tc_fail(&err, TC_BAD_INPUT, "the state is of another size");
    else if (r->analysis->check_state != NULL)
        st = r->analysis->check_state(&it->task, state, &err);
    if (st != TC_OK)
        say(r, "this item starts over", err.message);
    return st == TC_OK;
}

static tc_status begin_item(job_run *r, item_run *it, void **resumed, tc_err *err)
{
    tc_status st;

    it->start = tc_seconds();
    it->task.params = r->params;
    it->task.item = &r->job->items[it->index];
    it->task.pixels = &it->pixels;
    it->task.threads = r->options->threads;
    it->task.slice_ms = r->options->slice_ms;
    st = wu_item_load(r->job, it->index, &it->pixels, err);
    if (st == TC_OK)
        st = r->analysis->plan(r->params, it->task.item, &it->task.plan, err);
    if (st != TC_OK)
        return st;
    if (takes_up(r, it, *resumed)) {
        it->state = *resumed;
        *resumed = NULL;
    } else {
        it->state = tc_zeroed(it->task.plan.state_bytes);
        if (it->state == NULL)
            return tc_no_memory(err, "the state of an item");
        st = r->analysis->init(&it->task, it->state, err);
    }
    if (st == TC_OK)
        st = open_backend(r, it, err);
    return st;
}

static tc_status end_item(job_run *r, item_run *it, tc_err *err)
{
    wu_output output = { 0, NULL };
    tc_status st = r->analysis->finish(&it->task, it->index, it->state, &output, err);

    if (st == TC_OK)
        st = spool_append(r->spool, &output, err);
    wu_output_free(&output);
    if (st == TC_OK)
        say_item_done(r, it);
    return st;
}

/* resumed: the state from the checkpoint, if the item was under way; taken. */
static tc_status do_item(job_run *r, size_t index, void **resumed, tc_err *err)
{
    item_run it = { .index = index };
    tc_status st = begin_item(r, &it, resumed, err);

    if (st == TC_OK)
        st = do_steps(r, &it, err);
    if (st == TC_OK)
        st = end_item(r, &it, err);
    if (it.worker != NULL)
        it.backend->close(&it.worker);
    wu_pixels_free(&it.pixels);
    free(it.state);
    if (st == TC_BAD_INPUT && strstr(err->message, r->job->path) == NULL) {
        tc_err inner = *err;

        return tc_fail(err, st, "%.400s: item \"%s\": %.400s", r->job->path, r->job->items[index].name,
                       inner.message);
    }
    return st;
}

/* --- the job ------------------------------------------------------------------------------------- */

/* How much of the work each item is. */
static tc_status weigh_items(job_run *r, tc_err *err)
{
    const wu_job *const job = r->job;

    r->done_before = calloc(job->n_items + 1, sizeof *r->done_before);
    if (r->done_before == NULL)
        return tc_no_memory(err, "the items");
    for (size_t i = 0; i < job->n_items; i++) {
        an_plan plan;
        const tc_status st = r->analysis->plan(r->params, &job->items[i], &plan, err);

        if (st != TC_OK)
            return st;
        r->done_before[i + 1] = r->done_before[i] + plan.flops;
    }
    for (size_t i = 0; i <= job->n_items; i++)
        r->done_before[i] /= r->done_before[job->n_items];
    return TC_OK;
}

static tc_status read_job(job_run *r, tc_err *err)
{
    an_unit unit;
    tc_status st = an_unit_read(r->options->input, &unit, err);

    if (st != TC_OK)
        return st;
    r->job = unit.job;
    r->analysis = unit.analysis;
    r->params = unit.params;
    st = weigh_items(r, err);
    r->device_backend = ocl_backend(r->analysis->name);
    r->mark.job_crc = r->job->file_crc;
    r->mark.job_size = r->job->file_size;
    strncpy(r->mark.analysis, r->analysis->name, sizeof r->mark.analysis - 1);
    return st;
}

/* The device that is wanted and there. "auto" makes do with the CPU. */
static tc_status find_device(job_run *r, tc_err *err)
{
    const ocl_wish_kind kind = r->options->wish.kind;
    ocl_wish wish = r->options->wish;
    tc_status st;

    if (kind == OCL_WISH_CPU || (kind == OCL_WISH_AUTO && r->device_backend == NULL))
        return TC_OK;
    if (r->device_backend == NULL)
        return tc_fail(err, TC_DEVICE, "%s cannot use OpenCL in this version: use --device cpu",
                       r->analysis->name);
    wish.floats = r->analysis->uses_floats;
    st = tc_guard_up(r->options->driver_fault, err);
    if (st == TC_OK)
        st = ocl_device_find(&wish, &r->device, err);
    if (st == TC_OK)
        st = ocl_check_device(r->analysis, r->device, err);
    if (st != TC_OK)
        release_device(r);
    if (st == TC_DEVICE && kind == OCL_WISH_AUTO) {
        if (!r->options->quiet)
            say(r, "using the CPU", err->message);
        return TC_OK;
    }
    return st;
}

static tc_status write_result(job_run *r, tc_err *err)
{
    wu_output once = { 0, NULL }, declared = { 0, NULL };
    json_t *const parameters = an_params_as_run(r->params);
    tc_status st = TC_OK;

    if (parameters == NULL)
        st = tc_no_memory(err, "the parameters");
    if (st == TC_OK && r->analysis->constants != NULL)
        st = r->analysis->constants(r->params, &once, err);
    if (st == TC_OK)
        st = r->analysis->expect(r->params, &r->job->items[0], &declared, err);
    if (st == TC_OK)
        st = wu_result_write(r->options->output, r->job, parameters, &once, &declared, spool_read, r->spool, err);
    wu_output_free(&once);
    wu_output_free(&declared);
    json_decref(parameters);
    return st;
}

static tc_status do_job(job_run *r, tc_err *err)
{
    void *resumed = NULL;
    tc_status st = find_start(r, &resumed, err);

    if (st == TC_OK)
        st = find_device(r, err);
    if (st == TC_OK && !r->options->quiet)
        fprintf(stderr, "texcell: %s: %zu item%s, %s on %s\n", r->options->input, r->job->n_items,
                r->job->n_items == 1 ? "" : "s", r->analysis->name,
                r->device == NULL ? "the CPU" : r->device->info.name);
    for (size_t i = (size_t)r->mark.item; st == TC_OK && i < r->job->n_items; i++) {
        r->mark.item = i;
        r->item_saved = resumed != NULL;
        st = do_item(r, i, &resumed, err);
        free(resumed);
        resumed = NULL;
    }
    free(resumed);
    release_device(r);
    if (st != TC_OK) {
        /* The items before it are not done again; of this one the checkpoint
         * may know more than that it has begun. */
        if (st != TC_TRY_LATER && r->mark.item > 0 && !r->item_saved)
            save(r, NULL, 0);
        return st;
    }
    r->mark.item = r->job->n_items;
    bw_begin_critical();
    st = write_result(r, err);
    bw_end_critical();
    if (st == TC_OK)
        bw_fraction_done(1);
    else
        save(r, NULL, 0);
    return st;
}

/* Whether the result could be put where it is wanted, before hours are spent. */
static tc_status check_output(const run_options *o, tc_err *err)
{
    struct stat info;
    const char *const slash = strrchr(o->output, '/');
    char *const folder = slash == NULL ? strdup(".") : strndup(o->output, (size_t)(slash - o->output) + 1);
    tc_status st = TC_OK;

    if (folder == NULL)
        return tc_no_memory(err, "a file name");
    if (access(folder, W_OK | X_OK) != 0)
        st = tc_fail(err, TC_IO, "%s: cannot write: %s", o->output, strerror(errno));
    else if (stat(o->output, &info) == 0 && S_ISDIR(info.st_mode))
        st = tc_fail(err, TC_IO, "%s: cannot write: %s", o->output, strerror(EISDIR));
    else if (stat(o->output, &info) == 0 && !S_ISREG(info.st_mode))
        st = tc_fail(err, TC_IO, "%s: cannot write: not a regular file", o->output);
    free(folder);
    return st;
}

tc_status run_job(const run_options *options, tc_err *err)
{
    job_run r = { .options = options };
    tc_status st;

    r.terminal = !options->quiet && !bw_has_client() && isatty(STDERR_FILENO) == 1;
    st = read_job(&r, err);
    if (st == TC_OK)
        st = check_output(options, err);
    if (st == TC_OK)
        st = spool_open(options->spool, &r.spool, err);
    if (st == TC_OK)
        st = do_job(&r, err);
    if (r.spool != NULL && (st == TC_OK || (st == TC_BAD_INPUT && r.mark.item == 0 && !r.item_saved))) {
        checkpoint_remove(options->checkpoint);
        unlink(options->spool);
    }
    spool_close(&r.spool);
    an_params_free(r.analysis, &r.params);
    free(r.done_before);
    wu_job_destroy(&r.job);
    return st;
}
