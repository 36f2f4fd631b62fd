/* texcell-wu analyse: from pictures to a page, by pack, texcell run, export and report. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/os.h"
#include "workunits/format/csv.h"
#include "workunits/tools/report.h"
#include "workunits/tools/tools.h"

const char wu_analyse_help[] =
    "usage: texcell-wu analyse --analysis NAME [OPTION]... -o DIR INPUT...\n"
    "\n"
    "From pictures to numbers in one command. DIR, which is made if it is not there, gets\n"
    "\n"
    "  report.html          what was found, to look at in any browser: begin here\n"
    "  items.csv, ...       the tables, and pictures of what was found\n"
    "  workunit.zip         the pictures and parameters, as texcell takes them\n"
    "  result.npz           all arrays, for numpy.load\n"
    "\n"
    "INPUT and options are those of pack (texcell-wu pack --help), and\n"
    "\n"
    "  --device D           cpu, opencl, or P:D as texcell devices lists them (the fastest there is)\n"
    "  --threads N          threads on the CPU (all)\n"
    "  -o, --output DIR     the folder to write into\n"
    "\n"
    "Interrupted, the same command goes on from where it was.\n";

typedef struct run_words {
    const char *device, *threads;
} run_words;

/* Whether the result of this very work unit is there. */
static bool is_done(const char *unit, const char *result)
{
    wu_result_file file = { 0 };
    wu_job *job = NULL;
    const bool done = os_kind_of(result) == OS_FILE && wu_result_file_open(result, NULL, &file, NULL) == TC_OK &&
                      wu_open_images(&file, unit, &job, NULL) == TC_OK;
    wu_job_destroy(&job);
    wu_result_file_close(&file);
    return done;
}

/* texcell run; its own messages say what is the matter. */
static tc_status run(const run_words *o, const char *unit, const char *result, tc_err *err)
{
    const char *words[10] = { "texcell", "run", unit, "-o", result };
    size_t n = 5;
    int signal;
    if (o->device != NULL) {
        words[n++] = "--device";
        words[n++] = o->device;
    }
    if (o->threads != NULL) {
        words[n++] = "--threads";
        words[n++] = o->threads;
    }
    const int code = os_run_beside((char *const *)(uintptr_t)words, &signal);
    if (code < 0)
        return tc_fail(err, TC_TRY_LATER, "texcell cannot be started: %s; it belongs beside texcell-wu", strerror(errno));
    if (signal != 0)
        return tc_fail(err, TC_TRY_LATER, "texcell run: ended by %s; the same command goes on", os_signal_name(signal));
    if (code != 0)
        return tc_fail(err, code == 1 ? TC_USAGE : code == 2 ? TC_BAD_INPUT : code == 3 ? TC_TRY_LATER : TC_INTERNAL,
                       "texcell run: ended with exit code %d", code);
    return TC_OK;
}

tc_status wu_analyse(int argc, char **argv, tc_err *err)
{
    run_words o = { NULL, NULL };
    const tc_option options[] = {
        { "device", 0, TC_TEXT, .to = &o.device }, { "threads", 0, TC_TEXT, .to = &o.threads }, { .name = NULL }
    };
    wu_pack_into into = { .options = options };
    char *result = NULL, *page = NULL;
    tc_status status = wu_pack_folder(argc, argv, &into, err);
    if (status == TC_OK) {
        result = wu_path_in(into.folder, "result", ".npz");
        page = wu_path_in(into.folder, "report", ".html");
        status = result == NULL || page == NULL ? tc_no_memory(err, into.folder) : TC_OK;
    }
    if (status == TC_OK && !is_done(into.unit, result))
        status = run(&o, into.unit, result, err);
    if (status == TC_OK)
        status = wu_export_write(result, into.unit, into.folder, err);
    if (status == TC_OK)
        status = wu_report_write(result, into.unit, page, WU_REPORT_ITEMS, err);
    if (status == TC_OK)
        printf("%s\n", page);
    free(page);
    free(result);
    free(into.unit);
    return status;
}
