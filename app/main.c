/*
 * texcell: options and wiring. Started by the BOINC client it takes the work
 * unit "workunit" of its slot and leaves "result"; "texcell run" does the same
 * for named files at a command line.
 */
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/analysis/analysis.h"
#include "app/analysis/selftest.h"
#include "app/run.h"
#include "config.h"
#include "opencl/backends.h"
#include "wrapper/bw.h"

enum { MAX_THREADS = 256 };

typedef struct command {
    const char *input, *output, *checkpoint_dir;
    const char *device;        /* NULL: not given */
    double checkpoint_every, slice_ms;
    unsigned threads;          /* 0: not given */
    bool quiet;
} command;

static const char usage[] =
    "usage: texcell run WU.zip -o RESULT.npz [options]\n"
    "       texcell devices\n"
    "       texcell selftest [--device D]\n"
    "       texcell --help | --version\n"
    "\n"
    "Computes the features of a work unit and writes them as a NumPy archive.\n"
    "Interrupted, it goes on where it was when the same command is given again.\n"
    "\n"
    "  -o, --output FILE          the result\n"
    "  --device D                 auto, cpu, opencl or P:D of `texcell devices` (default: auto)\n"
    "  --threads N                CPU threads (default: one a processor)\n"
    "  --checkpoint-dir DIR       where the state of an interrupted run is kept\n"
    "                             (default: beside the result)\n"
    "  --checkpoint-every SECONDS (default: 60)\n"
    "  --gpu-slice-ms MS          longest launch on a device (default: 50)\n"
    "  --quiet                    only errors\n"
    "\n"
    "Exit codes: 0 done, 1 bad usage, 2 bad input, 3 try again later, 70 internal error.\n"
    "Without arguments the BOINC client is expected to have started it.\n";

/* --- command line ------------------------------------------------------------------ */

static tc_status get_positive(const char *name, const char *text, double hi, double *value, tc_err *err)
{
    char *end;

    errno = 0;
    *value = strtod(text, &end);
    if (errno != 0 || end == text || *end != '\0' || !(*value > 0) || !(*value <= hi))
        return tc_fail(err, TC_USAGE, "%s: \"%.64s\" is not a number above 0 and up to %g", name, text, hi);
    return TC_OK;
}

static tc_status get_threads(const char *name, const char *text, unsigned *value, tc_err *err)
{
    char *end;
    long n;

    errno = 0;
    n = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || n < 1 || n > MAX_THREADS)
        return tc_fail(err, TC_USAGE, "%s: \"%.64s\" is not a number of threads from 1 to %d", name, text, MAX_THREADS);
    *value = (unsigned)n;
    return TC_OK;
}

static tc_status take_option(command *c, const char *name, const char *value, tc_err *err)
{
    if (strcmp(name, "-o") == 0 || strcmp(name, "--output") == 0) {
        c->output = value;
        return TC_OK;
    }
    if (strcmp(name, "--device") == 0) {
        c->device = value;
        return TC_OK;
    }
    /* BOINC gives a multi-thread app version --nthreads. */
    if (strcmp(name, "--threads") == 0 || strcmp(name, "--nthreads") == 0)
        return get_threads(name, value, &c->threads, err);
    if (strcmp(name, "--checkpoint-dir") == 0) {
        c->checkpoint_dir = value;
        return TC_OK;
    }
    if (strcmp(name, "--checkpoint-every") == 0)
        return get_positive(name, value, 1e6, &c->checkpoint_every, err);
    if (strcmp(name, "--gpu-slice-ms") == 0)
        return get_positive(name, value, 10000, &c->slice_ms, err);
    return tc_fail(err, TC_USAGE, "unknown option \"%.64s\"; texcell --help lists them", name);
}

static bool is_number(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

static tc_status parse_options(int argc, char **argv, int first, bool run, command *c, tc_err *err)
{
    for (int i = first; i < argc; i++) {
        const char *const arg = argv[i];
        tc_status st;

        if (strcmp(arg, "--quiet") == 0) {
            c->quiet = true;
            continue;
        }
        /* The client gives a GPU task its number; init_data.xml says more. */
        if (!run && strcmp(arg, "--device") == 0 && i + 1 < argc && is_number(argv[i + 1])) {
            i++;
            continue;
        }
        if (arg[0] != '-' && run && c->input == NULL) {
            c->input = arg;
            continue;
        }
        if (arg[0] != '-')
            return tc_fail(err, TC_USAGE, "\"%.64s\" is one argument too many; texcell --help", arg);
        if (i + 1 >= argc)
            return tc_fail(err, TC_USAGE, "unknown option or missing value: \"%.64s\"; texcell --help", arg);
        st = take_option(c, arg, argv[++i], err);
        if (st != TC_OK)
            return st;
    }
    return TC_OK;
}

/* --- running ---------------------------------------------------------------------------- */

static unsigned processors(void)
{
    const long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (unsigned)n;
}

/* FOLDER/NAME.SUFFIX, for the name of the output; caller frees. */
static char *beside(const command *c, const char *suffix)
{
    const char *const slash = strrchr(c->output, '/');
    const char *const name = slash != NULL && c->checkpoint_dir != NULL ? slash + 1 : c->output;
    const char *const folder = c->checkpoint_dir != NULL ? c->checkpoint_dir : "";
    const size_t size = strlen(folder) + strlen(name) + strlen(suffix) + 3;
    char *const path = malloc(size);

    if (path != NULL)
        snprintf(path, size, "%s%s%s.%s", folder, c->checkpoint_dir != NULL ? "/" : "", name, suffix);
    return path;
}

static bool same_file(const char *a, const char *b)
{
    struct stat sa, sb;

    return stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

/* The work unit must not be one of the files that a run writes. */
static tc_status check_names(const run_options *o, tc_err *err)
{
    const char *const written[] = { o->output, o->checkpoint, o->spool };

    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++)
        if (same_file(o->input, written[i]))
            return tc_fail(err, TC_USAGE, "%s: is the work unit and cannot be written too", written[i]);
    return TC_OK;
}

static tc_status wish_of_command(const command *c, ocl_wish *wish, tc_err *err)
{
    return ocl_wish_parse(c->device != NULL ? c->device : "auto", wish, err);
}

/* "texcell run": TC_OK leaves exit 0. Does not return when asked to stop. */
static tc_status run_command(const command *c, tc_err *err)
{
    const bw_options seam = { .checkpoint_every = c->checkpoint_every, .standalone_command = true };
    run_options o = { .input = c->input, .output = c->output, .quiet = c->quiet, .slice_ms = c->slice_ms,
                      .threads = c->threads != 0 ? c->threads : processors() };
    char *checkpoint = NULL, *spool = NULL;
    tc_status st;

    if (c->input == NULL)
        return tc_fail(err, TC_USAGE, "no work unit is given; texcell --help");
    if (c->output == NULL)
        return tc_fail(err, TC_USAGE, "no result is named: give -o RESULT.npz");
    st = wish_of_command(c, &o.wish, err);
    if (st == TC_OK)
        st = bw_init(&seam, err);
    if (st != TC_OK)
        return st;
    checkpoint = beside(c, "checkpoint");
    spool = beside(c, "spool");
    o.checkpoint = checkpoint;
    o.spool = spool;
    st = checkpoint == NULL || spool == NULL ? tc_no_memory(err, "a file name") : check_names(&o, err);
    if (st == TC_OK)
        st = run_job(&o, err);
    free(checkpoint);
    free(spool);
    if (st == TC_TRY_LATER && bw_why()[0] != '\0') {
        fprintf(stderr, "texcell: %s; the same command goes on from here\n", err->message);
        bw_exit_on_request();
    }
    return st;
}

/* What the client assigned, unless the application version or the volunteer's
 * app_config.xml names a device. */
static tc_status choose_for_task(const command *c, run_options *o, tc_err *err)
{
    ocl_wish *const wish = &o->wish;
    bw_gpu gpu;

    bw_get_gpu(&gpu);
    o->gpu_task = gpu.assigned;
    if (c->device != NULL)
        return ocl_wish_parse(c->device, wish, err);
    memset(wish, 0, sizeof *wish);
    wish->kind = gpu.assigned ? OCL_WISH_ASSIGNED : OCL_WISH_CPU;
    snprintf(wish->vendor, sizeof wish->vendor, "%s", gpu.vendor);
    wish->opencl_index = gpu.opencl_index;
    wish->device_number = gpu.device_number;
    return TC_OK;
}

static tc_status do_task(const command *c, tc_err *err)
{
    run_options o = { .checkpoint = "checkpoint", .spool = "spool", .slice_ms = c->slice_ms, .quiet = c->quiet };
    char *input = NULL, *output = NULL;
    const int ncpus = bw_ncpus();
    tc_status st = choose_for_task(c, &o, err);

    o.threads = c->threads != 0 ? c->threads : ncpus > 1 && ncpus <= MAX_THREADS ? (unsigned)ncpus : 1;
    if (st == TC_OK)
        st = bw_resolve("workunit", &input, err);
    if (st == TC_OK)
        st = bw_resolve("result", &output, err);
    o.input = input;
    o.output = output;
    if (st == TC_OK)
        st = run_job(&o, err);
    free(input);
    free(output);
    return st;
}

/* A task of the client, with the command line as it was found: st, err. Does
 * not return. A wrong command line is a slip in app_config.xml or in the
 * application version: it waits to be mended and costs no work. */
static void run_task(const command *c, tc_status st, tc_err *err)
{
    char line[TC_ERR_MAX + 64];

    fprintf(stderr, "texcell %s\n", VERSION);
    if (st == TC_OK)
        st = do_task(c, err);
    if (st == TC_OK) {
        fprintf(stderr, "texcell: done\n");
        bw_finish(0, NULL);
    }
    if (bw_why()[0] != '\0') {
        fprintf(stderr, "texcell: %s\n", err->message);
        bw_exit_on_request();
    }
    snprintf(line, sizeof line, "texcell: error: %s", err->message);
    fprintf(stderr, "%s\n", line);
    if (tc_exit_code(st) == 3 || st == TC_USAGE)
        bw_temporary_exit(300, err->message);
    bw_finish(tc_exit_code(st), line);
}

/* The known answers of every analysis on the CPU and, if one is wanted, a
 * device. Without OpenCL "auto" tests the CPU alone. */
static tc_status selftest_command(const command *c, tc_err *err)
{
    ocl_device *device = NULL;
    ocl_wish wish;
    tc_status st = wish_of_command(c, &wish, err);

    for (size_t i = 0; st == TC_OK && an_table[i] != NULL; i++) {
        const an_analysis *const a = an_table[i];

        st = an_selftest_run(a, a->cpu, NULL, 2, err);
        if (st == TC_OK)
            printf("%s: the CPU is right\n", a->name);
        if (st != TC_OK || wish.kind == OCL_WISH_CPU || ocl_backend(a->name) == NULL)
            continue;
        wish.floats = a->uses_floats;
        st = ocl_device_find(&wish, &device, err);
        if (st == TC_DEVICE && wish.kind == OCL_WISH_AUTO) {
            printf("%s: no device: %s\n", a->name, err->message);
            st = TC_OK;
            continue;
        }
        if (st == TC_OK)
            st = ocl_check_device(a, device, err);
        if (st == TC_OK)
            printf("%s: %s is right\n", a->name, device->info.name);
        if (device != NULL)
            ocl_device_close(&device);
    }
    return st;
}

static tc_status dispatch(int argc, char **argv, tc_err *err)
{
    command c = { .checkpoint_every = 60, .slice_ms = 50 };
    const char *const verb = argc > 1 ? argv[1] : "";
    tc_status st;

    if (strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0) {
        fputs(usage, stdout);
        return TC_OK;
    }
    if (strcmp(verb, "--version") == 0) {
        printf("texcell %s\n", VERSION);
        return TC_OK;
    }
    if (strcmp(verb, "devices") == 0) {
        if (argc > 2)
            return tc_fail(err, TC_USAGE, "devices: takes no arguments");
        return ocl_list_devices(stdout, err);
    }
    if (strcmp(verb, "selftest") == 0) {
        st = parse_options(argc, argv, 2, true, &c, err);
        if (st == TC_OK && c.input != NULL)
            st = tc_fail(err, TC_USAGE, "selftest: takes only --device");
        return st == TC_OK ? selftest_command(&c, err) : st;
    }
    if (strcmp(verb, "run") == 0) {
        st = parse_options(argc, argv, 2, true, &c, err);
        return st == TC_OK ? run_command(&c, err) : st;
    }
    if (verb[0] != '\0' && verb[0] != '-')
        return tc_fail(err, TC_USAGE, "unknown command \"%.64s\"; texcell --help lists them", verb);
    st = bw_init(&(bw_options){ .checkpoint_every = c.checkpoint_every }, err);
    if (st == TC_OK)
        st = parse_options(argc, argv, 1, false, &c, err);
    if (st == TC_OK && !bw_has_client() && access("workunit", R_OK) != 0)
        st = tc_fail(err, TC_USAGE, "no BOINC client has started this program, and it has nothing to do by "
                     "itself; texcell --help");
    if (st != TC_OK && !bw_has_client())
        return st;
    run_task(&c, st, err);
    return TC_INTERNAL;
}

/* Started without one of the standard streams, the next file that is opened
 * would take its number, and our messages would go into that file. */
static void have_streams(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv)
{
    tc_err err = { "" };
    tc_status st;

    have_streams();
    /* A shared library that was linked for speed rather than exactness (Debian's
     * BOINC library) makes the processor flush denormals to zero. Threads inherit
     * this. */
    fesetenv(FE_DFL_ENV);
    /* Let writes report a full disk or a closed pipe instead of ending us. */
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    st = dispatch(argc, argv, &err);
    if (st != TC_OK)
        fprintf(stderr, "texcell: error: %s\n", err.message);
    return tc_exit_code(st);
}
