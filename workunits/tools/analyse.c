/* texcell-wu analyse: makes tables and a page from pictures, by pack, texcell run, export and
 * report. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/base/files.h"
#include "app/base/os.h"
#include "workunits/format/csv.h"
#include "workunits/tools/report.h"
#include "workunits/tools/tools.h"

const char wu_analyse_help[] =
    "usage: texcell-wu analyse --analysis NAME [OPTION]... -o DIR INPUT...\n"
    "\n"
    "From pictures to numbers in one command. It writes into DIR:\n"
    "\n"
    "  report.html          what was found, for any browser: begin here\n"
    "  items.csv, ...       the tables; items.csv has each image's mark\n"
    "  parameters.json      as run; --defaults --params FILE runs the same again\n"
    "  workunit.zip         the pictures and parameters; up to 1 GiB uncompressed and\n"
    "                       without --pictures in the greys that are analysed\n"
    "  result.npz           all arrays, for numpy.load\n"
    "\n"
    "INPUT and options are those of pack (texcell-wu pack --help), and\n"
    "\n"
    "  --device D           auto, cpu, opencl, or P:D as texcell devices numbers them\n"
    "                       (default: the fastest)\n"
    "  --threads N          threads on the CPU (default: all)\n"
    "  --sweep KEY=A,B,...  try each value of a parameter, each in a folder within\n"
    "                       DIR; the page compares what each found in the same\n"
    "                       picture. Given twice: all pairs of values\n"
    "  --suggest            choose parameters that are not given by a look at the\n"
    "                       pictures, where the analysis can; the page says why\n"
    "                       (this is the default)\n"
    "  --defaults           do not look: what is not given has its default\n"
    "                       (texcell-wu parameters)\n"
    "  --keep-unit          compress the work unit, with its colours, to keep it or\n"
    "                       send it\n"
    "  --pictures, --tiff, --geojson\n"
    "                       as in texcell-wu export\n"
    "  -o, --output DIR     the folder to write into, not the pictures' own\n"
    "\n"
    "Interrupted, the same command continues. A folder that holds the result of\n"
    "other pictures or another analysis is refused; other parameters replace it.\n";

/* Values of options that are passed to texcell run; NULL if the option was not given. */
typedef struct run_words {
    const char *device, *threads;
} run_words;

/* Reads --device: "auto", "cpu", "opencl" or two numbers "P:D". Checks it as texcell run would, but
 * before the pictures are read. to: the word of run_words that is set; `text` is not copied. */
static tc_status read_device(void *to, const char *text, tc_err *err)
{
    static const char digits[] = "0123456789";
    const size_t n = strspn(text, digits), m = text[n] == ':' ? strspn(text + n + 1, digits) : 0;
    if (strcmp(text, "auto") != 0 && strcmp(text, "cpu") != 0 && strcmp(text, "opencl") != 0 &&
        (n == 0 || m == 0 || text[n + 1 + m] != '\0'))
        return tc_fail(err, TC_USAGE,
                       "analyse: --device %s: is none of auto, cpu, opencl (the best GPU, else a "
                       "CPU) and P:D (platform and device, as texcell devices numbers them)",
                       text);
    *(const char **)to = text;
    return TC_OK;
}

static tc_status read_threads(void *to, const char *text, tc_err *err)
{
    *(const char **)to = text;
    return text[strspn(text, "0")] != '\0' && text[strspn(text, "0123456789")] == '\0'
               ? TC_OK
               : tc_fail(err, TC_USAGE, "analyse: --threads %s: is not a whole number from 1",
                         text);
}

/* Whether the file `result` exists and is the result of the work unit in the file `unit`. */
static bool is_done(const char *unit, const char *result)
{
    wu_result_file file = { 0 };
    wu_job *job = NULL;
    const bool done = os_kind_of(result) == OS_FILE &&
                      wu_result_file_open(result, NULL, &file, NULL) == TC_OK &&
                      wu_open_unit_of_result(&file, unit, false, &job, NULL) == TC_OK;
    wu_job_destroy(&job);
    wu_result_file_close(&file);
    return done;
}

/* Removes the checkpoint and the spool (the file of finished items) that a run leaves if it ends
 * right after its result was written. If texcell is still running, it has locked the spool, and the
 * files stay. */
static tc_status remove_spool(const char *place, tc_err *err)
{
    static const char *const ends[] = { ".npz.checkpoint", ".npz.checkpoint.tmp", ".npz.spool" };
    enum { N = sizeof ends / sizeof ends[0] };
    char *paths[N] = { NULL };
    bool good = true;
    int fd = -1;
    tc_err busy;

    for (size_t i = 0; i < N; i++)
        good = (paths[i] = wu_join_path(place, "result", ends[i])) != NULL && good;
    if (good && os_kind_of_link(paths[N - 1]) == OS_FILE &&
        tc_open_locked(paths[N - 1], paths[N - 1], &fd, &busy) == TC_OK) {
        for (size_t i = 0; i < N; i++)
            unlink(paths[i]);
        close(fd);
    }
    for (size_t i = 0; i < N; i++)
        free(paths[i]);
    return good ? TC_OK : tc_no_memory(err, place);
}

/* Runs the program texcell with its command `run`. If it fails and has printed an error message
 * itself, err is set to an empty message. */
static tc_status run_texcell(const run_words *o, const char *unit, const char *result, tc_err *err)
{
    /* seven words, and room for two options with values and the final NULL */
    const char *words[12] = { "texcell", "run", unit, "-o", result, "--replace", "--label-runs" };
    size_t n = 7;
    int signal;
    if (o->device != NULL) {
        words[n++] = "--device";
        words[n++] = o->device;
    }
    if (o->threads != NULL) {
        words[n++] = "--threads";
        words[n++] = o->threads;
    }
    const int code = os_run_program((char *const *)(uintptr_t)words, &signal);
    if (code < 0)
        return tc_fail(err, TC_TRY_LATER,
                       "texcell cannot be started: %s; it must be in the folder of texcell-wu",
                       strerror(errno));
    if (signal != 0)
        return tc_fail(err, TC_TRY_LATER, "texcell run: ended by %s; the same command goes on",
                       os_signal_name(signal));
    err->message[0] = '\0';
    if (code >= 1 && code <= 3) /* texcell has printed the reason */
        return code == 1 ? TC_USAGE : code == 2 ? TC_BAD_INPUT : TC_TRY_LATER;
    return code == 0 ? TC_OK
                     : tc_fail(err, TC_INTERNAL, "texcell run: ended with exit code %d", code);
}

/* Computes the result of a work unit into result.npz next to it, unless this file has the result
 * already. Sets *result to its path, to be freed by free(). */
static tc_status compute_result(const run_words *o, const wu_pack_into *into, char **result,
                                tc_err *err)
{
    *result = wu_join_path(into->output_folder, "result", ".npz");
    if (*result == NULL)
        return tc_no_memory(err, into->folder);
    if (is_done(into->unit, *result)) {
        wu_print_note("%s: has the result already, which is kept; another -o computes it again",
                      into->folder);
        return remove_spool(into->output_folder, err);
    }
    if (os_kind_of(*result) == OS_FILE)
        wu_print_note("%s: replaces the result there, which has other parameters or options",
                      into->folder);
    return run_texcell(o, into->unit, *result, err);
}

static void free_into(wu_pack_into *into)
{
    free(into->output_folder);
    free(into->unit);
    wu_thumbnails_free(into->thumbnails, into->n_thumbnails);
}

/* The arguments and the outcome of export_files, which writes all files but the page, and may run
 * in a thread of its own. */
typedef struct export_call {
    const char *result, *unit, *folder;
    wu_export_extras also;
    tc_status status;
    tc_err err;
} export_call;

static void *export_files(void *user)
{
    export_call *const e = user;
    e->status = wu_export_write(e->result, e->also.pictures || e->also.tiff ? e->unit : NULL,
                                e->folder, e->also, &e->err);
    return NULL;
}

/* Writes the page and the other files: at the same time if the other files are only tables; one
 * after the other if there are pictures, which take as much memory as the page. v: the only
 * variant. colour: which channel or stain is analysed, in words, or "". */
static tc_status write_files(const char *folder, const wu_variant *v, const char *page,
                             wu_export_extras also, wu_thumbnail *thumbnails, const char *colour,
                             const an_suggestion *suggestion, tc_err *err)
{
    TC_AUTO(wu_report_close) wu_report report = { .file = NULL };
    export_call e = { .result = v->result, .unit = v->unit, .folder = folder, .also = also };
    pthread_t thread;
    const bool in_thread = !also.pictures && !also.tiff && !also.geojson && os_processors() > 1 &&
                           os_create_thread(&thread, export_files, &e);
    tc_status status = TC_OK;
    if (!in_thread)
        export_files(&e);
    if (e.status == TC_OK || in_thread)
        status = wu_report_open(&report, v->result, v->unit, thumbnails, WU_REPORT_ITEMS, err);
    if (status == TC_OK && report.file != NULL)
        status = wu_report_write_page(&report, page, colour, suggestion, err);
    if (in_thread)
        pthread_join(thread, NULL);
    if (e.status != TC_OK)
        return tc_fail(err, e.status, "%s", e.err.message);
    return status == TC_OK
               ? wu_report_write_marks_csv(&report, folder, true /* columns.csv, too */, err)
               : status;
}

/* Removes the files that texcell run --label-runs writes next to results: for each row of pixels,
 * the stretches (runs) of equal labels. Only the page needs these files. */
static void remove_runs(const wu_variant *variants, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        TC_AUTOFREE char *const path = wu_label_runs_path(variants[k].result);
        if (path != NULL)
            unlink(path);
    }
}

/* Names of the results in a folder that earlier commands wrote and that the page does not show. */
typedef struct other_results {
    const wu_variant *variants; /* [n] the variants that the page shows */
    size_t n;
    char names[200]; /* such as "01_radius=5, result.npz" */
} other_results;

/* Adds an entry of the folder to o->names if the page does not show it and it is a result, or the
 * folder of a variant: two digits, '_' and KEY=VALUE. A function for os_list; user: an
 * other_results. */
static int add_other(void *user, const char *name, bool may_be_folder)
{
    other_results *const o = user;
    const size_t at = strlen(o->names);
    bool other = (may_be_folder && strspn(name, "0123456789") == 2 && name[2] == '_' &&
                  strchr(name, '=') != NULL) ||
                 (o->n > 1 && strcmp(name, "result.npz") == 0);
    for (size_t k = 0; other && o->n > 1 && k < o->n; k++)
        other = strcmp(os_base_name(o->variants[k].output_folder), name) != 0;
    if (other && at + strlen(name) + sizeof ", " < sizeof o->names)
        snprintf(o->names + at, sizeof o->names - at, "%s%s", at > 0 ? ", " : "", name);
    return 0;
}

/* Writes report.html of one result (n is 1) or of a sweep, and for one result the other files, too.
 * thumbnails, suggestion: as for wu_report_open and wu_report_write_page; may be NULL. */
static tc_status write_page(const char *folder, const wu_variant *variants, size_t n,
                            wu_export_extras also, wu_thumbnail *thumbnails, const char *colour,
                            const an_suggestion *suggestion, tc_err *err)
{
    TC_AUTOFREE char *const page = wu_join_path(folder, "report", ".html");
    if (page == NULL)
        return tc_no_memory(err, folder);
    return_if_error(
        n == 1 ? write_files(folder, variants, page, also, thumbnails, colour, suggestion, err)
               : wu_report_sweep(variants, n, page, colour, err));
    remove_runs(variants, n);
    other_results o = { .variants = variants, .n = n };
    os_list(folder, add_other, &o);
    if (o.names[0] != '\0')
        wu_print_note_of_file(folder, "holds other results, which are not on the page: %s",
                              o.names);
    printf("%s\n", page);
    return TC_OK;
}

/* --- a sweep --------------------------------------------------------------------------------- */

enum {
    MAX_SWEEPS = 2,    /* the most options --sweep */
    MAX_VALUES = 32,   /* the most values of one option --sweep */
    MAX_VARIANTS = 64, /* the most combinations of values */
};
#define OPTION "--param="

/* An option --sweep KEY=A,B,... */
typedef struct sweep {
    char *text; /* KEY, followed in memory by the texts of the values; owned */
    size_t n;
    char *values[MAX_VALUES]; /* [n] the texts of the values; not owned */
} sweep;

/* The options of analyse that pack does not have. A variant is one combination of the values of the
 * options --sweep. */
typedef struct analyse_options {
    run_words run;
    wu_export_extras also;
    bool keep_unit, defaults, suggest; /* `suggest` has no effect, as it is the default */
    size_t n_sweeps;
    sweep sweeps[MAX_SWEEPS];
} analyse_options;

/* Reads an option --sweep. Commas within brackets or quotes do not separate values. */
static tc_status read_sweep(void *to, const char *text, tc_err *err)
{
    analyse_options *const o = to;
    const char *const equals = strchr(text, '=');
    sweep *const s = &o->sweeps[o->n_sweeps];
    int depth = 0;
    bool quoted = false;
    if (o->n_sweeps == MAX_SWEEPS)
        return tc_fail(err, TC_USAGE, "analyse: --sweep %s: two parameters can be swept at a time",
                       text);
    if (equals == NULL || equals == text || equals[1] == '\0')
        return tc_fail(err, TC_USAGE, "analyse: --sweep %s: must be KEY=A,B,...", text);
    s->text = strdup(text);
    if (s->text == NULL)
        return tc_no_memory(err, "a sweep");
    o->n_sweeps++;
    char *at = s->text + (equals - text);
    *at++ = '\0';
    for (s->values[s->n++] = at; *at != '\0'; at++) {
        quoted ^= *at == '"';
        depth += quoted ? 0 : (*at == '[' || *at == '{') - (*at == ']' || *at == '}');
        if (*at != ',' || depth > 0 || quoted)
            continue;
        if (s->n == MAX_VALUES)
            return tc_fail(err, TC_USAGE, "analyse: --sweep %s: more than %d values", text,
                           MAX_VALUES);
        *at = '\0';
        s->values[s->n++] = at + 1;
    }
    if (s->n == 1)
        return tc_fail(
            err, TC_USAGE,
            "analyse: --sweep %s: needs several values to compare: KEY=A,B; a single one "
            "is set by --param %s",
            text, text);
    return TC_OK;
}

/* Returns the option that sets the parameter of sweep i in variant k, such as "--param=radius=6".
 * The variants are all pairs of values; the values of sweep 0 change fastest. The returned text is
 * owned by the caller; it is NULL if there is no memory. */
static char *param_of(const analyse_options *o, size_t i, size_t k)
{
    const sweep *const s = &o->sweeps[i];
    const char *const value = s->values[i == 0 ? k % s->n : k / o->sweeps[0].n];
    const size_t room = sizeof OPTION + strlen(s->text) + 1 + strlen(value);
    char *const param = malloc(room);
    if (param != NULL)
        snprintf(param, room, OPTION "%s=%s", s->text, value);
    return param;
}

/* Returns the name of a variant on the page, such as "radius=6" or "radius=6, floor=2". params: [n]
 * the variant's options, made by param_of. Owned by the caller; NULL if there is no memory. */
static char *name_of(char *const *params, size_t n)
{
    const char *const first = params[0] + strlen(OPTION), *const second =
                                                              n > 1 ? params[1] + strlen(OPTION)
                                                                    : "";
    const size_t room = strlen(first) + strlen(second) + 3;
    char *const name = malloc(room);
    if (name != NULL)
        snprintf(name, room, "%s%s%s", first, n > 1 ? ", " : "", second);
    return name;
}

/* Sets `out` to the name of variant k's folder: the number k + 1 and the variant's name, with '_'
 * in place of characters that some file systems do not allow. */
static void folder_of(size_t k, const char *name, char out[64])
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789=.-";
    size_t n = (size_t)snprintf(out, 64, "%02zu_", k + 1);
    /* Names are cut to 60 characters. */
    for (; *name != '\0' && n < 60; name++)
        if (strchr(good, *name) != NULL)
            out[n++] = *name;
        else if (out[n - 1] != '_')
            out[n++] = '_';
    out[n] = '\0';
}

/* Packs variant k: runs pack with the variant's parameters added to the command line (argc, argv).
 * Sets the fields of *v except `result`, and `colour` to wu_pack_into.colour. If *folder is NULL,
 * sets it to the folder that -o names, to be freed by free(). */
static tc_status pack_variant(const analyse_options *o, const tc_option *options, int argc,
                              char **argv, size_t k, char **folder, wu_variant *v, char colour[160],
                              tc_err *err)
{
    char within[64], *params[MAX_SWEEPS] = { NULL };
    char **const words = calloc((size_t)argc + MAX_SWEEPS + 1, sizeof *words);
    an_suggestion suggestion = { .parameters = NULL };
    wu_pack_into into = { .options = options,
                          .keep_unit = o->keep_unit,
                          .within = within,
                          .suggestion = o->defaults ? NULL : &suggestion };
    tc_status status = words == NULL ? tc_no_memory(err, "a sweep") : TC_OK;
    int n = 1;
    for (size_t i = 0; status == TC_OK && i < o->n_sweeps; i++) {
        params[i] = words[n++] = param_of(o, i, k);
        if (params[i] == NULL)
            status = tc_no_memory(err, "a sweep");
    }
    if (status == TC_OK) {
        v->name = name_of(params, o->n_sweeps);
        if (v->name == NULL)
            status = tc_no_memory(err, "a sweep");
    }
    if (status == TC_OK) {
        folder_of(k, v->name, within);
        words[0] = argv[0];
        memcpy(words + n, argv + 1, (size_t)(argc - 1) * sizeof *words);
        printf("%s\n", v->name);
        fflush(stdout);
        status = wu_pack_folder(n + argc - 1, words, &into, err);
        v->unit = into.unit;
        v->output_folder = into.output_folder;
        into.unit = into.output_folder = NULL;
        memcpy(colour, into.colour, sizeof into.colour);
        if (status == TC_OK && *folder == NULL) {
            *folder = strdup(into.folder);
            status = *folder == NULL ? tc_no_memory(err, "a sweep") : TC_OK;
        }
    }
    free_into(&into);
    an_suggestion_free(&suggestion);
    for (size_t i = 0; i < MAX_SWEEPS; i++)
        free(params[i]);
    free(words);
    return status;
}

/* Computes and exports a variant that was packed. folder: the folder of all variants. */
static tc_status compute_variant(const analyse_options *o, const char *folder, wu_variant *v,
                                 tc_err *err)
{
    const wu_pack_into into = { .folder = folder,
                                .output_folder = v->output_folder,
                                .unit = v->unit };
    return_if_error(compute_result(&o->run, &into, &v->result, err));
    return wu_export_write(v->result, o->also.pictures || o->also.tiff ? v->unit : NULL,
                           v->output_folder, o->also, err);
}

/* Runs analyse with --sweep: packs, computes and exports each variant, and writes one page of all.
 */
static tc_status analyse_variants(const analyse_options *o, const tc_option *options, int argc,
                                  char **argv, tc_err *err)
{
    const size_t n = o->sweeps[0].n * (o->n_sweeps > 1 ? o->sweeps[1].n : 1);
    wu_variant *const variants = calloc(n, sizeof *variants);
    char *folder = NULL, colour[160];
    tc_status status = TC_OK;
    if (variants == NULL)
        return tc_no_memory(err, "a sweep");
    if (n > MAX_VARIANTS)
        status = tc_fail(err, TC_USAGE, "analyse: --sweep: %zu variants are too many: at most %d",
                         n, MAX_VARIANTS);
    /* All variants are packed, which checks their parameters, before any is computed. */
    for (size_t k = 0; status == TC_OK && k < n; k++)
        status = pack_variant(o, options, argc, argv, k, &folder, &variants[k], colour, err);
    for (size_t k = 0; status == TC_OK && k < n; k++)
        status = compute_variant(o, folder, &variants[k], err);
    if (status == TC_OK)
        status = write_page(folder, variants, n, o->also, NULL, colour, NULL, err);
    for (size_t k = 0; k < n; k++) {
        free(variants[k].name);
        free(variants[k].unit);
        free(variants[k].result);
        free(variants[k].output_folder);
    }
    free(variants);
    free(folder);
    return status;
}

/* --- the command ----------------------------------------------------------------------------- */

/* Runs analyse without --sweep. */
static tc_status analyse_once(const analyse_options *o, const tc_option *options, int argc,
                              char **argv, tc_err *err)
{
    TC_AUTO(an_suggestion_free) an_suggestion suggestion = { .parameters = NULL };
    TC_AUTO(free_into)
    wu_pack_into into = { .options = options,
                          .keep_unit = o->keep_unit,
                          .grey = !o->also.pictures,
                          .for_page = true,
                          .suggestion = o->defaults ? NULL : &suggestion };
    TC_AUTOFREE char *result = NULL;
    return_if_error(wu_pack_folder(argc, argv, &into, err));
    return_if_error(compute_result(&o->run, &into, &result, err));
    return write_page(into.folder, &(wu_variant){ .unit = into.unit, .result = result }, 1, o->also,
                      into.thumbnails, into.colour,
                      suggestion.parameters != NULL ? &suggestion : NULL, err);
}

tc_status wu_analyse(int argc, char **argv, tc_err *err)
{
    analyse_options o = { .also = { .for_report = true, .without_items_csv = true } };
    const char *swept;
    tc_option options[] = { { "device", 0, TC_TAKE, .to = &o.run.device, .take = read_device },
                            { "threads", 0, TC_TAKE, .to = &o.run.threads, .take = read_threads },
                            { "sweep", 0, TC_TAKE, .to = &o, .take = read_sweep },
                            { "defaults", 0, TC_FLAG, .to = &o.defaults },
                            { "suggest", 0, TC_FLAG, .to = &o.suggest },
                            { "keep-unit", 0, TC_FLAG, .to = &o.keep_unit },
                            { "pictures", 0, TC_FLAG, .to = &o.also.pictures },
                            { "tiff", 0, TC_FLAG, .to = &o.also.tiff },
                            { "geojson", 0, TC_FLAG, .to = &o.also.geojson },
                            { .name = NULL } };
    char **const words =
        calloc((size_t)argc + 1, sizeof *words); /* a copy, since reading options reorders argv */
    if (words == NULL)
        return tc_no_memory(err, "the command line");
    memcpy(words, argv, (size_t)argc * sizeof *words);
    tc_status status =
        wu_pack_folder(argc, words, &(wu_pack_into){ .options = options, .only_read = true }, err);
    free(words);
    if (status == TC_OK && o.defaults && o.suggest)
        status = tc_fail(err, TC_USAGE, "analyse: --defaults and --suggest exclude each other");
    /* o.sweeps is complete: --sweep (options[2]) is ignored when wu_pack_folder reads the options
     * once more. */
    options[2] = (tc_option){ "sweep", 0, TC_TEXT, .to = &swept };
    if (status == TC_OK)
        status = o.n_sweeps > 0 ? analyse_variants(&o, options, argc, argv, err)
                                : analyse_once(&o, options, argc, argv, err);
    for (size_t i = 0; i < o.n_sweeps; i++)
        free(o.sweeps[i].text);
    return status;
}
