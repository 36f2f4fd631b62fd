/*
 * The main function of texcell: the command line, and the beginning and end of a BOINC task. A
 * BOINC client starts the program in a slot folder, where it reads the work unit "workunit" and
 * writes "result"; "texcell run" does the same with files that are named on the command line.
 */
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/analysis/analysis.h"
#include "app/analysis/selftest.h"
#include "app/base/command.h"
#include "app/base/files.h"
#include "app/base/os.h"
#include "app/base/text.h"
#include "app/run.h"
#include "config.h"
#include "opencl/backends.h"
#include "workunits/format/label_runs.h"
#include "wrapper/bw.h"
#include "workunits/format/json_text.h"
#include "workunits/format/png_io.h"

enum { MAX_THREADS = 256 }; /* the most threads that can be requested */

typedef struct command {
    const char *input, *output, *checkpoint_dir, *kernel_cache;
    const char *device;      /* value of --device; NULL if the option is not given */
    double checkpoint_every; /* seconds between two checkpoints */
    double launch_ms;        /* longest kernel launch on a device, in milliseconds; 0: automatic */
    uint64_t threads;        /* the most CPU threads; 0 if the option is not given */
    uint64_t gpu_percent;    /* the percentage of the time in which a device works */
    bool quiet, replace, label_runs; /* the options of these names */
    bool is_task; /* the program was started without a verb, as a BOINC client starts it */
} command;

static const command default_options = { .checkpoint_every = 60, .gpu_percent = 100 };

static const char usage[] =
    "usage: texcell run [OPTION]... WU.zip -o RESULT.npz\n"
    "       texcell devices\n"
    "       texcell selftest [--device D]\n"
    "       texcell --help | --version\n"
    "\n"
    "run       computes the features of a work unit and writes them as a NumPy\n"
    "          archive, unless it is there; interrupted, the same command continues\n"
    "devices   lists the OpenCL devices, and says which cannot be used, and why\n"
    "selftest  checks whether the CPU and a device compute correctly\n"
    "\n"
    "  -o, --output FILE          the result\n"
    "  --device D                 auto (default), cpu, opencl, or P:D as\n"
    "                             `texcell devices` numbers them\n"
    "  --threads N                the most CPU threads; small pictures use fewer\n"
    "                             (default: one per processor)\n"
    "  --checkpoint-dir DIR       where the state of an interrupted run is kept\n"
    "                             (default: where the result is)\n"
    "  --checkpoint-every SECONDS time between two saved states (default: 60)\n"
    "  --gpu-slice-ms MS          longest launch on a device (default: auto, here 50)\n"
    "  --gpu-percent N            a device works N% of the time (default: 100)\n"
    "  --kernel-cache DIR         where to keep kernels that took long to compile\n"
    "                             (default: nowhere)\n"
    "  --replace                  replaces RESULT.npz even if complete, or another\n"
    "                             file, and discards what an interrupted run left\n"
    "  --label-runs               also RESULT.npz.labels, for texcell-wu report\n"
    "  --quiet                    only errors\n"
    "\n"
    "Exit codes: 0 done, 1 bad usage, 2 bad input, 3 try again later, 70 a fault\n"
    "of this program. Without arguments, the program is a task of a BOINC client.\n";

/* --- command line ---------------------------------------------------------------------------- */

/* Stores the value of --device. In a client's task a number without a colon is ignored: the client
 * passes the GPU's number in this form, but the program reads it from init_data.xml, which has more
 * details. */
static tc_status set_device(void *to, const char *value, tc_err *err)
{
    command *const c = to;

    (void)err;
    if (!c->is_task || value[0] == '\0' || value[strspn(value, "0123456789")] != '\0')
        c->device = value;
    return TC_OK;
}

/* Handles a mistake in the command line of a client's task, which the volunteer may have set in
 * app_config.xml: warns and ignores it, as results do not depend on options. A mistake in --device
 * is an error until it is corrected: the volunteer may want to keep the work off a device. */
static tc_status ignore_mistake(void *unused, const char *message, tc_err *err)
{
    (void)unused;
    (void)err;
    if (strncmp(message, "--device", strlen("--device")) == 0)
        return TC_USAGE;
    fputs("texcell: warning: ignored, in the command line: ", stderr);
    tc_print_printable(message, stderr);
    fputc('\n', stderr);
    return TC_OK;
}

/* Parses the options into *c, and moves the other arguments to argv[1] to argv[*n_words]. */
static tc_status read_command(int argc, char **argv, command *c, int *n_words, tc_err *err)
{
    const tc_option options[] = {
        { "output", 'o', TC_TEXT, .to = &c->output },
        { "device", 0, TC_TAKE, .to = c, .take = set_device },
        { "threads", 0, TC_COUNT, .to = &c->threads, .least = 1, .most = MAX_THREADS },
        /* BOINC passes --nthreads to multi-threaded applications. */
        { "nthreads", 0, TC_COUNT, .to = &c->threads, .least = 1, .most = MAX_THREADS },
        { "checkpoint-dir", 0, TC_TEXT, .to = &c->checkpoint_dir },
        { "checkpoint-every", 0, TC_NUMBER, .to = &c->checkpoint_every, .most = 1000000 },
        { "gpu-slice-ms", 0, TC_NUMBER, .to = &c->launch_ms, .most = 10000, .word = "auto" },
        { "gpu-percent", 0, TC_COUNT, .to = &c->gpu_percent, .least = 1, .most = 100 },
        { "kernel-cache", 0, TC_TEXT, .to = &c->kernel_cache },
        { "replace", 0, TC_FLAG, .to = &c->replace },
        { "label-runs", 0, TC_FLAG, .to = &c->label_runs },
        { "quiet", 0, TC_FLAG, .to = &c->quiet },
        { .name = NULL, .take = c->is_task && bw_has_client() ? ignore_mistake : NULL }
    };

    return tc_read_options(argc, argv, options, n_words, err);
}

/* --- running --------------------------------------------------------------------------------- */

/* Returns the longest launch in milliseconds. Without the option --gpu-slice-ms, this is 10 if
 * somebody may be using the computer, so that the desktop stays responsive; otherwise 50. */
static double launch_ms(const command *c, bool may_be_used)
{
    return c->launch_ms > 0 ? c->launch_ms : may_be_used ? 10 : 50;
}

/* Returns the default number of threads: one for each processor, at most MAX_THREADS. */
static unsigned processors(void)
{
    const unsigned n = os_processors();

    return n > MAX_THREADS ? MAX_THREADS : n;
}

/* Returns the path of the output with ".SUFFIX" appended; if a checkpoint folder is given, the same
 * name in that folder. The caller frees it. NULL if there is not enough memory. */
static char *path_with_suffix(const command *c, const char *suffix)
{
    const char *const name = c->checkpoint_dir != NULL ? os_base_name(c->output) : c->output;
    const char *const folder = c->checkpoint_dir != NULL ? c->checkpoint_dir : "";
    const size_t size = strlen(folder) + strlen(name) + strlen(suffix) + 3;
    char *const path = malloc(size);

    if (path != NULL)
        snprintf(path, size, "%s%s%s.%s", folder, c->checkpoint_dir != NULL ? "/" : "", name,
                 suffix);
    return path;
}

/* Checks that the run would not overwrite the work unit. */
static tc_status check_names(const run_options *o, tc_err *err)
{
    /* The spool is the file with the outputs of the items that are done. */
    const char *const outputs[] = { o->output, o->checkpoint, o->spool };

    for (size_t i = 0; i < sizeof outputs / sizeof outputs[0]; i++)
        if (os_same_file(o->input, outputs[i]))
            return tc_fail(err, TC_USAGE, "%s: is the work unit and cannot be written too",
                           outputs[i]);
    return TC_OK;
}

/* Runs the job of "texcell run". Does not return if a signal stops the program. */
static tc_status run_command(const command *c, tc_err *err)
{
    const bw_options client_options = { .checkpoint_every = c->checkpoint_every,
                                        .standalone_command = true };
    /* threads: the most threads; small items use fewer, unless all_threads is set, for tests. */
    run_options o = { .input = c->input,
                      .output = c->output,
                      .quiet = c->quiet,
                      .refuses_to_replace = !c->replace && getenv("TEXCELL_REPLACE") == NULL,
                      .launch_ms = launch_ms(c, /* may_be_used */ false),
                      .gpu_share = (double)c->gpu_percent / 100,
                      .threads = c->threads != 0 ? (unsigned)c->threads : processors(),
                      .all_threads = getenv("TEXCELL_ALL_THREADS") != NULL };
    TC_AUTOFREE char *checkpoint = NULL;
    TC_AUTOFREE char *spool = NULL;
    TC_AUTOFREE char *runs = NULL;

    o.driver_fault = driver_fault_restart;
    o.kernel_folder = c->kernel_cache;
    return_if_error(ocl_request_parse(c->device != NULL ? c->device : "auto", &o.request, err));
    if (driver_fault_restart_reason() != NULL) {
        o.request = (ocl_request){ .kind = OCL_REQUEST_CPU };
        fputs("texcell: going on with the CPU: the OpenCL driver failed: ", stderr);
        tc_print_printable(driver_fault_restart_reason(), stderr);
        fputc('\n', stderr);
    }
    bw_init(&client_options);
    checkpoint = path_with_suffix(c, "checkpoint");
    spool = path_with_suffix(c, "spool");
    o.checkpoint = checkpoint;
    o.spool = spool;
    if (c->label_runs)
        o.label_runs_path = runs = wu_label_runs_path(c->output);
    return_if_error(checkpoint == NULL || spool == NULL ? tc_no_memory(err, "a file name")
                                                        : check_names(&o, err));
    /* If memory ran out while JSON was read, the status becomes TC_NO_MEMORY. */
    const tc_status status = wu_json_check_memory(run_job(&o, err), err);
    if (status == TC_TRY_LATER && bw_request_reason()[0] != '\0') {
        fprintf(stderr, "texcell: %s; the same command goes on from here\n",
                tc_make_printable(err->message));
        bw_exit_on_request();
    }
    return status;
}

/* Chooses the device of a client's task: the one that the client assigned, unless the application
 * version or the volunteer's app_config.xml names another. */
static tc_status choose_task_device(const command *c, run_options *o, tc_err *err)
{
    ocl_request *const request = &o->request;
    bw_gpu gpu;

    bw_get_gpu(&gpu);
    o->gpu_task = gpu.assigned;
    /* while_used: the task may run while somebody uses the computer. */
    o->launch_ms = launch_ms(c, gpu.while_used);
    if (c->device != NULL)
        return ocl_request_parse(c->device, request, err);
    memset(request, 0, sizeof *request);
    request->kind = gpu.assigned ? OCL_REQUEST_ASSIGNED : OCL_REQUEST_CPU;
    snprintf(request->vendor, sizeof request->vendor, "%s", gpu.vendor);
    request->opencl_index = gpu.opencl_index;
    request->device_number = gpu.device_number;
    return TC_OK;
}

/* Returns the number of threads of a client's task: the number on the command line, else the number
 * that the client assigned, else 1. */
static unsigned task_threads(const command *c)
{
    const int ncpus = bw_ncpus();

    return c->threads != 0                     ? (unsigned)c->threads
           : ncpus > 1 && ncpus <= MAX_THREADS ? (unsigned)ncpus
                                               : 1;
}

/* Runs the job of a client's task. */
static tc_status run_task_job(const command *c, const bw_task *task, tc_err *err)
{
    run_options o = { .checkpoint = "checkpoint",
                      .spool = "spool",
                      .quiet = c->quiet,
                      .writes_view = true,
                      .gpu_share = (double)c->gpu_percent / 100,
                      .driver_fault = driver_fault_temporary_exit };
    TC_AUTOFREE char *input = NULL;
    TC_AUTOFREE char *output = NULL;
    return_if_error(choose_task_device(c, &o, err));

    o.threads = task_threads(c);
    o.kernel_folder = c->kernel_cache != NULL   ? c->kernel_cache
                      : task->folder[0] != '\0' ? task->folder
                                                : NULL;
    return_if_error(bw_resolve("workunit", &input, err));
    return_if_error(bw_resolve("result", &output, err));
    o.input = input;
    o.output = output;
    return wu_json_check_memory(run_job(&o, err), err);
}

/* Runs a client's task and ends the process. status, err: the result of parsing the command line.
 * If the command line has an error, the task exits temporarily, until the volunteer corrects it. */
static void run_task(const command *c, tc_status status, tc_err *err)
{
    const double start = tc_seconds();
    char line[TC_ERR_MAX + 64];
    bw_task task;

    bw_get_task(&task);
    tc_enable_write_sync();
    if (!c->quiet)
        fprintf(stderr, "texcell %s, application version %s, BOINC client %s, threads: %u\n",
                VERSION, task.version, task.client, task_threads(c));
    if (status == TC_OK)
        status = run_task_job(c, &task, err);
    tc_make_printable(err->message);
    if (status == TC_OK) {
        if (!c->quiet)
            fprintf(stderr, "texcell: done, %.0f s since the task was first started\n",
                    task.seconds_before + tc_seconds() - start - bw_suspended_seconds());
        bw_finish(0, NULL);
    }
    if (bw_request_reason()[0] != '\0') {
        fprintf(stderr, "texcell: %s\n", err->message);
        bw_exit_on_request();
    }
    snprintf(line, sizeof line, "texcell: error: %s", err->message);
    fprintf(stderr, "%s\n", line);
    if (tc_exit_code(status) == 3 || status == TC_USAGE)
        bw_temporary_exit(err->message);
    bw_finish(tc_exit_code(status), line);
}

/* Runs the self-tests of an analysis on the requested device, and prints the outcome. Returns
 * TC_DEVICE if the device computes wrongly or cannot be used. If "auto" finds no device, sets
 * *no_device to the reason, and *request to the CPU alone. */
static tc_status selftest_device(const an_analysis *a, ocl_request *request, tc_err *no_device,
                                 tc_err *err)
{
    ocl_device *device = NULL;
    tc_status status = ocl_device_find(request, &device, err);

    if (status == TC_DEVICE && request->kind == OCL_REQUEST_AUTO) {
        *no_device = *err;
        request->kind = OCL_REQUEST_CPU;
        return TC_OK;
    }
    if (status == TC_OK)
        status = ocl_check_device(a, NULL, device, NULL, err);
    if (status == TC_OK)
        printf("%s: %s is right%s\n", a->name, device->info.name,
               a->doubles == AN_SOME_DOUBLES && !device->info.doubles
                   ? ", but for what needs double precision, which the CPU does"
                   : "");
    if (status == TC_DEVICE)
        printf("%s: refused: %s\n", a->name, tc_make_printable(err->message));
    if (device != NULL)
        ocl_device_close(&device);
    return status;
}

/* Runs the self-tests of all analyses on the CPU and, if requested, on a device. A device that
 * fails does not end the tests. "auto" without OpenCL tests only the CPU. */
static tc_status selftest(const char *spec, tc_err *err)
{
    ocl_request request;
    size_t refused = 0;
    tc_err no_device = { "" };
    tc_status status = ocl_request_parse(spec, &request, err);

    if (status == TC_OK && request.kind != OCL_REQUEST_CPU)
        status = tc_guard_activate(driver_fault_exit, err);
    for (size_t i = 0; status == TC_OK && an_analyses[i] != NULL; i++) {
        const an_analysis *const a = an_analyses[i];

        char text[256];
        const char *const fault = an_params_fault(a->parameters, text, sizeof text);

        status = fault != NULL ? tc_fail(err, TC_INTERNAL, "%s: %s", a->name, fault)
                               : an_selftest_run_cpu(a, 2, err);
        if (status == TC_OK)
            printf("%s: the CPU is right\n", a->name);
        if (status != TC_OK || request.kind == OCL_REQUEST_CPU || ocl_backend(a->name) == NULL)
            continue;
        status = selftest_device(a, &request, &no_device, err);
        if (status == TC_DEVICE) {
            refused++;
            status = TC_OK;
        }
    }
    if (no_device.message[0] != '\0')
        printf("no device: %s; --device P:D tests one that `devices` lists\n",
               tc_make_printable(no_device.message));
    if (status == TC_OK && refused > 0)
        status = tc_fail(err, TC_DEVICE, "the device is refused for %zu of the analyses: see above",
                         refused);
    return status;
}

/* --- verbs ----------------------------------------------------------------------------------- */

/* Runs "texcell run". */
static tc_status run_verb(int argc, char **argv, tc_err *err)
{
    command c = default_options;
    struct stat info;
    int n_words;
    return_if_error(read_command(argc, argv, &c, &n_words, err));
    if (n_words != 1)
        return tc_fail(err, TC_USAGE, "run: takes one work unit, %d given", n_words);
    if (c.output == NULL)
        return tc_fail(err, TC_USAGE, "no result is named: give -o RESULT.npz");
    if (strcmp(c.output, "-") == 0 ||
        (stat(c.output, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)))
        return tc_fail(err, TC_USAGE, "%.600s: not a regular file", c.output);
    c.input = argv[1];
    return run_command(&c, err);
}

/* Runs "texcell devices". */
static tc_status devices_verb(int argc, char **argv, tc_err *err)
{
    const tc_option none = { .name = NULL };
    int n_words;
    return_if_error(tc_read_options(argc, argv, &none, &n_words, err));

    if (n_words > 0)
        return tc_fail(err, TC_USAGE, "devices: takes no arguments");
    return_if_error(tc_guard_activate(driver_fault_exit, err));
    return ocl_list_devices(stdout, err);
}

/* Runs "texcell selftest". */
static tc_status selftest_verb(int argc, char **argv, tc_err *err)
{
    const char *device = "auto";
    const tc_option options[] = { { "device", 0, TC_TEXT, .to = &device }, { .name = NULL } };
    int n_words;
    return_if_error(tc_read_options(argc, argv, options, &n_words, err));

    if (n_words > 0)
        return tc_fail(err, TC_USAGE, "selftest: takes only --device");
    return selftest(device, err);
}

/* Runs a command line without a verb, by which a client starts a task. Returns only if there is no
 * client, and either the command line is wrong or there is no work unit. Then returns an error. */
static tc_status run_client_task(int argc, char **argv, tc_err *err)
{
    command c = default_options;
    int n_words = 0;
    tc_status status;

    c.is_task = true;
    bw_init(&(bw_options){ .checkpoint_every = c.checkpoint_every });
    if (!bw_has_client() && argc > 1 && argv[1][0] != '-')
        return tc_fail(err, TC_USAGE, "unknown command \"%.64s\"", argv[1]);
    status = read_command(argc, argv, &c, &n_words, err);
    for (int i = 1; status == TC_OK && i <= n_words; i++) {
        status = tc_fail(err, TC_USAGE, "\"%.64s\" is one argument too many", argv[i]);
        if (bw_has_client())
            status = ignore_mistake(NULL, err->message, err);
    }
    if (status == TC_OK && !bw_has_client() && access("workunit", R_OK) != 0)
        status =
            tc_fail(err, TC_USAGE,
                    "no BOINC client has started this program, and it has nothing to do by itself");
    if (status != TC_OK && !bw_has_client())
        return status;
    run_task(&c, status, err);
    return TC_INTERNAL;
}

int main(int argc, char **argv)
{
    static const tc_verb verbs[] = { { "run", run_verb, NULL },
                                     { "devices", devices_verb, NULL },
                                     { "selftest", selftest_verb, NULL },
                                     { .name = NULL } };
    const tc_program program = { "texcell",           usage,           verbs,
                                 wu_library_versions, run_client_task, bw_in_slot() };
    tc_err err = { "" };

    /* A shared library that was linked with -ffast-math (Debian's BOINC library) makes the
     * processor flush denormals to zero. This resets that, before threads inherit it. */
    fesetenv(FE_DFL_ENV);
    if (driver_fault_init(argv, &err) != TC_OK)
        return tc_report_failure(program.name, TC_NO_MEMORY, &err);
    tc_guard_exit(tc_main(&program, argc, argv));
}
