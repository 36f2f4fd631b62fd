/* texcell-assimilate: stores canonical results in a data set, and exports and reports it. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/base/command.h"
#include "app/base/files.h"
#include "app/base/text.h"
#include "validator/check/val.h"
#include "workunits/format/csv.h"
#include "workunits/format/json_text.h"
#include "workunits/format/png_io.h"
#include "validator/dataset/dataset.h"

#define PROGRAM "texcell-assimilate"
#define WORKUNITS "../download" /* the default of --workunits */
#define FILES ".files"          /* appended to --db for the default of --store */

static const char usage[] =
    "usage: texcell-assimilate --db FILE [--store DIR] [--max-memory MIB]\n"
    "                          [WU.zip] RESULT.npz\n"
    "       texcell-assimilate script --db FILE [--store DIR] [--workunits DIR]\n"
    "                          [--accepted DIR] [--max-memory MIB] WU_ID RESULT\n"
    "       texcell-assimilate script --db FILE [--accepted DIR]\n"
    "                          --error MASK NAME WU_ID BATCH\n"
    "       texcell-assimilate create --db FILE\n"
    "       texcell-assimilate forget --db FILE [--store DIR] [--why TEXT] NAME...\n"
    "       texcell-assimilate export --db FILE -o DIR [--only TABLE]\n"
    "       texcell-assimilate report --db FILE [--store DIR] -o PAGE.html\n"
    "       texcell-assimilate --help | --version\n"
    "\n"
    "Checks a result as texcell-validate does, against its work unit if given, and\n"
    "adds it to the SQLite data set FILE, which is created if it does not exist. If\n"
    "the data set has the result already, nothing changes; another result of the\n"
    "same work unit is refused. create makes an empty data set; script never does,\n"
    "so that a data set whose disk is not mounted is not replaced by an empty one.\n"
    "forget deletes units, records them as refused, and prints each of their names.\n"
    "export writes the data set as CSV tables. report writes one page: progress,\n"
    "refused results, the newest items and histograms.\n"
    "\n"
    "  --db FILE        the data set\n"
    "  --store DIR      the folder for results with arrays that fit no table (maps,\n"
    "                   labels, masks), and for refused ones (default: FILE.files)\n"
    "  -o, --output DIR the folder for the tables, or the page; older files are\n"
    "                   replaced\n"
    "  --only TABLE     write this table only: units, items, glcm_wide, ...\n"
    "  --why TEXT       the reason that is recorded\n"
    "  --workunits DIR  look for the work unit there and in its folders, by the name\n"
    "                   of the upload; it may be absent (default: ../download)\n"
    "  --accepted DIR   the records of texcell-validate script-init: a result that\n"
    "                   was changed since is refused; deletes those of the unit\n"
    "  --max-memory MIB refuse a result whose rows of an item take more memory\n"
    "                   (default: 512, or what the plan of the work unit expects)\n"
    "\n"
    "script is for BOINC's script_assimilator, which starts bin/NAME with\n"
    "\"WU_ID FILE...\" or \"--error MASK NAME WU_ID BATCH\". bin/NAME is a script:\n"
    "\n"
    "    #!/bin/sh\n"
    "    exec /path/to/texcell-assimilate script --db ../dataset.sqlite \"$@\"\n"
    "\n"
    "After exit code 0 BOINC deletes the files; any other code stops the daemon. So\n"
    "the code is 0 if the unit is stored, or recorded as refused with a copy of its\n"
    "file. It is not 0 for faults that concern every unit: wrong arguments, a\n"
    "data set that cannot be written, files that cannot be read.\n"
    "\n"
    "Exit codes: 0 done, 1 bad usage, 2 not a valid result (or work unit), 3 try\n"
    "again later (data set or disk), 4 the data set has another result of this\n"
    "work unit, or not each NAME.\n";

/* The values of options, by their names; NULL if they were not given. */
typedef struct options {
    const char *db, *store;
    const char *workunits; /* --workunits; NULL: the command is not `script` */
    const char *output, *only, *accepted, *why;
    uint64_t mib; /* --max-memory, in MiB; 0 if it was not given */
    int n;        /* number of arguments that are not options */
    char **args;  /* [n] these arguments */
} options;

/* --- arguments ------------------------------------------------------------------------------- */

/* Reads the options of the table `known` from the command line, and requires --db. */
static tc_status read_options(int argc, char **argv, const tc_option *known, options *o,
                              tc_err *err)
{
    return_if_error(tc_read_options(argc, argv, known, &o->n, err));
    if (o->db == NULL)
        return tc_fail(err, TC_USAGE, "--db FILE is missing");
    o->args = argv + 1;
    return TC_OK;
}

/* Parses a decimal integer >= 0. Returns false if the text is anything else. */
static bool parse_number(const char *text, int64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoll(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
}

/* Returns the folder of --store or its default, which the caller frees, or NULL if there is no
 * memory. */
static char *store_of(const options *o)
{
    char *const folder = o->store != NULL ? strdup(o->store) : malloc(strlen(o->db) + sizeof FILES);

    if (folder != NULL && o->store == NULL)
        snprintf(folder, strlen(o->db) + sizeof FILES, "%s" FILES, o->db);
    return folder;
}

/* --- storing one result ----------------------------------------------------------------------- */

/* The open data set, and the result to be stored in it. */
typedef struct session {
    val_dataset ds;
    val_delivery d;
    char *folder, *name; /* owned; d.folder and d.name point to the same strings */
} session;

/* Opens the data set and completes s->d, whose `result` must be set. name: the work unit's name, of
 * n characters. close_session must be called, also after a failure. */
static tc_status open_session(session *s, const options *o, const char *name, size_t n, tc_err *err)
{
    s->name = strndup(name, n);
    s->folder = store_of(o);
    if (s->name == NULL || s->folder == NULL)
        return tc_no_memory(err, "names");
    s->d.name = s->name;
    s->d.folder = s->folder;
    s->d.result_name = os_base_name(s->d.result);
    s->d.max_memory = o->mib << 20;
    return val_dataset_open(o->db, o->workunits != NULL ? VAL_WRITE_SHARED : VAL_CREATE, &s->ds,
                            err);
}

static void close_session(session *s)
{
    val_dataset_close(&s->ds);
    free(s->folder);
    free(s->name);
}

static void print_stored(const session *s, val_stored stored)
{
    printf("%s: %s\n", s->name,
           stored == VAL_STORED ? "stored" : "is in the data set already, with the same content");
}

/* Records a refused result, keeps its file and prints the reason to stderr. */
static tc_status record_refusal(const session *s, const char *kind, char *reason, tc_err *err)
{
    tc_err why = { "" };
    char *copy_name;
    const tc_status status =
        val_record_refused(&s->ds, &s->d, kind, tc_make_printable(reason), &copy_name, &why);

    if (status != TC_OK)
        tc_fail(err, status, "%.400s; and it could not be recorded: %.400s", reason, why.message);
    else if (copy_name != NULL)
        fprintf(stderr, "texcell-assimilate: refused (%s): %s; the file is kept as %s/%s\n", kind,
                reason, s->folder, copy_name);
    else
        fprintf(stderr, "texcell-assimilate: refused (%s): %s; there is no file to keep\n", kind,
                reason);
    free(copy_name);
    return status;
}

/* Confines the process. The data set's folder stays writable, as SQLite removes its log there when
 * the data set is closed. */
static tc_status confine_command(const session *s, const options *o, tc_err *err)
{
    TC_AUTOFREE char *const folder = tc_folder_of(o->db);

    if (folder == NULL)
        return tc_no_memory(err, o->db);
    (void)wu_make_folder(s->folder, NULL); /* a failure matters only if a file is to be kept */
    return val_confine((os_place[]){ { s->d.workunit, OS_MAY_READ },
                                     { s->d.result, OS_MAY_READ },
                                     { s->folder, OS_MAY_WRITE },
                                     { folder, OS_MAY_WRITE },
                                     { .may = OS_MAY_NOTHING } },
                       OS_CALLS_MODIFY_FILES | OS_CALLS_LOCK_FILES, err);
}

/* Checks that the file, if it exists, is an SQLite database. Called by commands that a person
 * gives: any other file is a wrong argument. `script` does not call this, as there such a file
 * would be a damaged data set. */
static tc_status check_kind(const char *db, tc_err *err)
{
    static const char magic[] = "SQLite format 3";
    char begin[sizeof magic];
    FILE *const f = fopen(db, "rb");
    const size_t n = f == NULL ? 0 : fread(begin, 1, sizeof begin, f);

    if (f != NULL)
        fclose(f);
    if (n > 0 && (n < sizeof begin || memcmp(begin, magic, n) != 0))
        return tc_fail(err, TC_BAD_INPUT, "%.600s: is not a data set", db);
    return TC_OK;
}

/* Stores a result given on the command line. An invalid result is only reported, since the file
 * belongs to the caller. A result that conflicts with the stored one is also recorded and copied,
 * since one of the two must be wrong. */
static tc_status store_given_result(int argc, char **argv, tc_err *err)
{
    options o = { .db = NULL };
    const tc_option known[] = { { "db", 0, TC_TEXT, .to = &o.db },
                                { "store", 0, TC_TEXT, .to = &o.store },
                                { "max-memory", 0, TC_COUNT, .to = &o.mib, .least = 1,
                                  .most = VAL_MAX_MIB },
                                { .name = NULL } };
    TC_AUTO(close_session) session s = { .d = { .workunit = NULL } };
    const char *name, *dot;
    val_stored stored;
    return_if_error(read_options(argc, argv, known, &o, err));
    if (o.n != 1 && o.n != 2)
        return tc_fail(err, TC_USAGE, "takes a result, or a work unit and a result, %d files given",
                       o.n);
    for (int i = 0; i < o.n; i++) /* checked first, as opening the data set may create it */
        if (access(o.args[i], F_OK) != 0)
            return tc_fail(err, tc_open_error_status(errno), "%.600s: cannot open: %s", o.args[i],
                           strerror(errno));
    return_if_error(check_kind(o.db, err));
    s.d.workunit = o.n == 2 ? o.args[0] : NULL;
    s.d.result = o.args[o.n - 1];
    name = os_base_name(o.args[0]);
    dot = strrchr(name, '.');
    return_if_error(open_session(
        &s, &o, name, dot == NULL || dot == name ? strlen(name) : (size_t)(dot - name), err));
    return_if_error(confine_command(&s, &o, err));
    const tc_status status = wu_json_check_memory(val_store(&s.ds, &s.d, &stored, err), err);
    if (status == TC_OK)
        print_stored(&s, stored);
    if (status == TC_NO_MATCH) {
        tc_err refusal_error = { "" };

        if (record_refusal(&s, "conflict", err->message, &refusal_error) != TC_OK)
            *err = refusal_error;
    }
    return status;
}

/* --- for script_assimilator ------------------------------------------------------------------ */

/* Sets *path to the work unit of the result. If BOINC has deleted it, prints a note and sets *path
 * to NULL. Fails if the work unit cannot be read now. */
static tc_status find_workunit(const char *workunits, const session *s, char **path, tc_err *err)
{
    const tc_status status = val_find_workunit(workunits, s->d.result, path, err);

    if (status != TC_BAD_INPUT)
        return status;
    fprintf(stderr, PROGRAM ": note: %s; the result is checked by itself\n",
            tc_make_printable(err->message));
    return TC_OK;
}

/* Copies the upload, and stores the copy. Returns TC_USAGE if the upload is not the file that
 * texcell-validate accepted, by its record in the folder o->accepted. private: the folder for the
 * copy.
 */
static tc_status store_copy(session *s, const options *o, const char *private, val_stored *stored,
                            tc_err *err)
{
    const char *const upload = s->d.result;
    val_copy copy = { .path = NULL };
    bool known = true;
    tc_status status = val_copy_upload(private, upload, &copy, err);

    if (status == TC_OK && o->accepted != NULL)
        status = val_check_accepted(o->accepted, upload, &copy, &known, err);
    if (status == TC_NO_MATCH)
        status = TC_USAGE;
    if (!known)
        fprintf(stderr, PROGRAM ": note: %s: there is no record that it was accepted\n",
                s->d.result_name);
    s->d.result = copy.path;
    if (status == TC_OK)
        status = val_store(&s->ds, &s->d, stored, err);
    s->d.result = upload;
    val_private_hide_path(private, err == NULL ? NULL : err->message);
    val_copy_free(&copy);
    return status;
}

/* Stores the upload, or records it as refused. A fault of this unit, which must not stop the
 * daemon, is recorded if it is found in two attempts. A fault that every unit would meet is
 * returned as an error.
 */
static tc_status store_or_refuse(session *s, const options *o, const char *private, tc_err *err)
{
    tc_err why = { "" };
    val_stored stored;
    char *workunit = NULL;
    tc_status status = val_check_exists(s->d.result, &why);

    if (status == TC_BAD_INPUT && val_check_exists(s->d.result, NULL) == status)
        return record_refusal(s, "missing", why.message, err);
    if (status == TC_OK)
        status = find_workunit(o->workunits, s, &workunit, &why);
    if (status == TC_OK) {
        s->d.workunit = workunit;
        s->d.workunit_optional = true;
        status = store_copy(s, o, private, &stored, &why);
        if (status == TC_USAGE || status == TC_BAD_INPUT || status == TC_NO_MATCH ||
            status == TC_INTERNAL)
            status = val_confirm_fault(status, store_copy(s, o, private, &stored, NULL), &why);
    }
    free(workunit);
    status = wu_json_check_memory(status, &why);
    if (o->accepted != NULL &&
        (status == TC_OK || status == TC_USAGE || status == TC_BAD_INPUT || status == TC_NO_MATCH))
        val_remove_records(o->accepted, s->d.result);
    switch (status) {
    case TC_OK: print_stored(s, stored); return TC_OK;
    case TC_USAGE: return record_refusal(s, "changed", why.message, err);
    case TC_BAD_INPUT: return record_refusal(s, "invalid", why.message, err);
    case TC_NO_MATCH: return record_refusal(s, "conflict", why.message, err);
    case TC_INTERNAL: return record_refusal(s, "fault", why.message, err);
    default: *err = why; return wu_json_check_memory(status, NULL);
    }
}

/* Opens the data set, to store the upload that is the script's argument. */
static tc_status open_upload(session *s, const options *o, tc_err *err)
{
    const char *const name = os_base_name(o->args[1]);
    const size_t n = val_workunit_length(name);

    s->d.result = o->args[1];
    return open_session(s, o, name, n > 0 ? n : strlen(name), err);
}

/* The argument of store_upload. */
typedef struct upload_work {
    const options *o;
    session *s;
    char *private; /* folder for private copies of the upload */
} upload_work;

/* Confines the process. The data set's files are open already, and SQLite's temporary files are in
 * memory; but SQLite must still open the data set's folder to fsync the folder. */
static tc_status confine_script(const upload_work *w, tc_err *err)
{
    const val_places places = { .workunits = w->o->workunits,
                                .accepted = w->o->accepted,
                                .private = w->private };
    TC_AUTOFREE char *const folder = tc_folder_of(w->o->db);
    const os_place other_places[] = { { w->s->folder, OS_MAY_WRITE },
                                      { folder, OS_MAY_LIST },
                                      { .may = OS_MAY_NOTHING } };

    if (folder == NULL)
        return tc_no_memory(err, w->o->db);
    (void)wu_make_folder(w->s->folder, NULL); /* a failure matters only if a file is to be kept */
    return val_confine_uploads(&places, &w->o->args[1], 1, other_places,
                               OS_CALLS_MODIFY_FILES | OS_CALLS_LOCK_FILES, err);
}

/* Stores the upload, in a child process; returns the exit code. */
static int store_upload(void *user)
{
    const upload_work *const w = user;
    tc_err err = { "" };
    tc_status status = open_upload(w->s, w->o, &err);

    if (status == TC_OK)
        status = confine_script(w, &err);
    if (status == TC_OK)
        status = store_or_refuse(w->s, w->o, w->private, &err);
    close_session(w->s);
    return tc_report_failure(PROGRAM, status, &err);
}

/* script WU_ID RESULT: stores a result in a child process. If the child crashes, the result is
 * recorded as refused, so that its file does not stop the daemon. */
static tc_status script_result(const options *o, tc_err *err)
{
    TC_AUTO(close_session) session s = { .d = { .workunit = NULL } };
    upload_work w = { o, &s, NULL };
    tc_err reason;
    int code, sig;
    tc_status status;

    if (o->n != 2 || !parse_number(o->args[0], &s.d.wu_id) || s.d.wu_id == 0)
        return tc_fail(err, TC_USAGE,
                       "script: takes WU_ID and one file, or --error; %d arguments given", o->n);
    val_private_clean();
    return_if_error(val_private_folder(&w.private, err));
    status = val_run_child(store_upload, &w, o->args[1], &code, &sig, err);
    val_private_remove(&w.private);
    if (status == TC_OK)
        exit(code); /* the child has printed why */
    /* Only these signals can be caused by the result; another process may have sent any other. */
    if (sig != SIGSEGV && sig != SIGBUS && sig != SIGABRT && sig != SIGFPE && sig != SIGILL)
        return status;
    reason = *err;
    return_if_error(open_upload(&s, o, err));
    return record_refusal(&s, "fault", reason.message, err);
}

/* script --error: records a work unit that has failed, which BOINC does not send again. */
static tc_status script_error(const options *o, tc_err *err)
{
    val_failure f = { .error_mask = 0 };
    TC_AUTO(val_dataset_close) val_dataset ds = { .db = NULL };

    if (o->n != 4 || !parse_number(o->args[0], &f.error_mask) || o->args[1][0] == '\0' ||
        !parse_number(o->args[2], &f.wu_id) || !parse_number(o->args[3], &f.batch))
        return tc_fail(err, TC_USAGE, "script: --error takes MASK NAME WU_ID BATCH");
    f.name = o->args[1];
    return_if_error(val_dataset_open(o->db, VAL_WRITE, &ds, err));
    return_if_error(val_record_failure(&ds, &f, err));
    if (o->accepted != NULL)
        val_forget_unit(o->accepted, f.name);
    printf("%s: recorded as failed\n", f.name);
    return TC_OK;
}

/* script: stores a result, or with --error records a failed work unit. */
static tc_status run_script(int argc, char **argv, tc_err *err)
{
    options o = { .workunits = WORKUNITS };
    const tc_option known[] = { { "db", 0, TC_TEXT, .to = &o.db },
                                { "store", 0, TC_TEXT, .to = &o.store },
                                { "workunits", 0, TC_TEXT, .to = &o.workunits },
                                { "accepted", 0, TC_TEXT, .to = &o.accepted },
                                { "max-memory", 0, TC_COUNT, .to = &o.mib, .least = 1,
                                  .most = VAL_MAX_MIB },
                                { .name = NULL } };
    int n_own = 1; /* number of arguments before --error. Those after it come from BOINC and are not
                      parsed, as names may look like options */

    while (n_own < argc && strcmp(argv[n_own], "--error") != 0)
        n_own++;
    return_if_error(read_options(n_own, argv, known, &o, err));
    if (n_own == argc)
        return script_result(&o, err);
    if (o.n > 0)
        return tc_fail(err, TC_USAGE, "script: \"%.64s\" is one argument too many", o.args[0]);
    o.n = argc - n_own - 1;
    o.args = argv + n_own + 1;
    return script_error(&o, err);
}

/* Checks that the data set exists, so that commands that read it do not create a new one if its
 * name is misspelt. */
static tc_status check_exists(const char *db, tc_err *err)
{
    struct stat info;

    if (stat(db, &info) != 0 && errno == ENOENT)
        return tc_fail(err, TC_BAD_INPUT, "%.600s: there is no such data set", db);
    return check_kind(db, err);
}

static tc_status create(int argc, char **argv, tc_err *err)
{
    options o = { .db = NULL };
    const tc_option known[] = { { "db", 0, TC_TEXT, .to = &o.db }, { .name = NULL } };
    TC_AUTO(val_dataset_close) val_dataset ds = { .db = NULL };

    return_if_error(read_options(argc, argv, known, &o, err));
    if (o.n != 0)
        return tc_fail(err, TC_USAGE, "create: takes --db FILE");
    return_if_error(check_kind(o.db, err));
    return val_dataset_open(o.db, VAL_CREATE, &ds, err);
}

/* --- forget ---------------------------------------------------------------------------------- */

/* forget: deletes all units of the given names. */
static tc_status forget(int argc, char **argv, tc_err *err)
{
    options o = { .why = "taken out by hand" };
    const tc_option known[] = { { "db", 0, TC_TEXT, .to = &o.db },
                                { "store", 0, TC_TEXT, .to = &o.store },
                                { "why", 0, TC_TEXT, .to = &o.why },
                                { .name = NULL } };
    TC_AUTO(val_dataset_close) val_dataset ds = { .db = NULL };
    TC_AUTOFREE char *store = NULL;
    int absent = 0;

    return_if_error(read_options(argc, argv, known, &o, err));
    if (o.n == 0)
        return tc_fail(err, TC_USAGE, "forget: takes names of units");
    return_if_error(check_exists(o.db, err));
    store = store_of(&o);
    return_if_error(store == NULL ? tc_no_memory(err, "names")
                                  : val_dataset_open(o.db, VAL_WRITE, &ds, err));
    for (int i = 0; i < o.n; i++) {
        bool was_found = true;

        for (int n_deleted = 0; was_found; n_deleted++) {
            return_if_error(val_delete_unit(&ds, o.args[i], o.why, store, &was_found, err));
            if (!was_found && n_deleted == 0) {
                fprintf(stderr, PROGRAM ": note: %s: is not in the data set\n",
                        tc_make_printable(o.args[i]));
                absent++;
            }
        }
    }
    if (absent > 0)
        return tc_fail(err, TC_NO_MATCH, "forget: %d of %d names are not in the data set", absent,
                       o.n);
    return TC_OK;
}

/* --- export ---------------------------------------------------------------------------------- */

static tc_status export_tables(const val_dataset *ds, const options *o, tc_err *err)
{
    size_t written = 0;
    return_if_error(val_export(ds, o->output, o->only, &written, err));
    printf("%s: %zu %s\n", o->output, written, written == 1 ? "table" : "tables");
    return TC_OK;
}

static tc_status put_report(const val_dataset *ds, const options *o, tc_err *err)
{
    return_if_error(val_report(ds, o->store, o->output, err));
    printf("%s\n", o->output);
    return TC_OK;
}

/* A table or page that is written from an untrusted data set may have at most OUTPUT_BASE bytes
 * plus OUTPUT_PER_BYTE bytes for each byte of the data set. The factor is large, as a name that is
 * stored once may be repeated in every row of a table. */
enum { OUTPUT_BASE = 1 << 30, OUTPUT_PER_BYTE = 64 };

/* A command that reads a data set. It runs in a child process, since the data set may be untrusted.
 */
typedef struct read_command {
    const options *o;
    tc_status (*work)(const val_dataset *ds, const options *o, tc_err *err);
    const os_place *places; /* [2] places that the command reads or writes besides the data set; a
                               place with may = OS_MAY_NOTHING or path = NULL is unused */
    char *private;          /* folder for SQLite's temporary files */
} read_command;

static tc_status confine_reading(const read_command *r, tc_err *err)
{
    TC_AUTOFREE char *const folder = tc_folder_of(r->o->db);
    const os_place places[] = { { folder, OS_MAY_LIST },
                                { r->private, OS_MAY_WRITE },
                                r->places[0],
                                r->places[1],
                                { .may = OS_MAY_NOTHING } };

    sqlite3_temp_directory = sqlite3_mprintf("%s", r->private);
    return folder == NULL ? tc_no_memory(err, r->o->db)
                          : val_confine(places, OS_CALLS_MODIFY_FILES | OS_CALLS_LOCK_FILES, err);
}

/* Confines the child process and runs the command in it; returns the exit code. A function for
 * val_run_child; user: a read_command. */
static int read_in_child(void *user)
{
    const read_command *const r = user;
    val_dataset ds = { .db = NULL };
    tc_err err = { "" };
    tc_status status = val_dataset_open(r->o->db, VAL_READ, &ds, &err);

    if (status == TC_OK && r->work == export_tables) /* the confined process may not make folders */
        status = wu_make_folder(r->o->output, &err);
    os_limit_files(OUTPUT_BASE + OUTPUT_PER_BYTE * ds.bytes);
    if (status == TC_OK)
        status = confine_reading(r, &err);
    if (status == TC_OK)
        status = r->work(&ds, r->o, &err);
    val_dataset_close(&ds);
    return tc_report_failure(PROGRAM, status, &err);
}

/* Runs the command r in a child process, and exits with its exit code. */
static tc_status read_dataset(read_command *r, tc_err *err)
{
    int code, signal_number;
    return_if_error(check_exists(r->o->db, err));
    val_private_clean();
    return_if_error(val_private_folder(&r->private, err));
    const tc_status status = val_run_child(read_in_child, r, r->o->db, &code, &signal_number, err);
    val_private_remove(&r->private);
    if (status == TC_OK)
        exit(code); /* the child has printed why */
    return status;
}

/* report: writes the page. */
static tc_status write_report(int argc, char **argv, tc_err *err)
{
    options o = { .db = NULL };
    const tc_option known[] = { { "db", 0, TC_TEXT, .to = &o.db },
                                { "output", 'o', TC_TEXT, .to = &o.output },
                                { "store", 0, TC_TEXT, .to = &o.store },
                                { .name = NULL } };
    TC_AUTOFREE char *folder = NULL, *store = NULL;
    return_if_error(read_options(argc, argv, known, &o, err));
    if (o.output == NULL || o.n != 0)
        return tc_fail(err, TC_USAGE, "report: takes --db FILE -o PAGE.html");
    o.store = store = store_of(&o);
    folder = tc_folder_of(o.output);
    return store == NULL || folder == NULL
               ? tc_no_memory(err, "names")
               : read_dataset(&(read_command){ &o, put_report,
                                               (os_place[]){ { store, OS_MAY_READ },
                                                             { folder, OS_MAY_WRITE } },
                                               NULL },
                              err);
}

/* export: writes the tables. */
static tc_status export(int argc, char **argv, tc_err *err)
{
    options o = { .db = NULL };
    const tc_option known[] = { { "db", 0, TC_TEXT, .to = &o.db },
                                { "output", 'o', TC_TEXT, .to = &o.output },
                                { "only", 0, TC_TEXT, .to = &o.only },
                                { .name = NULL } };
    return_if_error(read_options(argc, argv, known, &o, err));
    if (o.output == NULL || o.n != 0)
        return tc_fail(err, TC_USAGE, "export: takes --db FILE -o DIR");
    return read_dataset(
        &(read_command){ &o, export_tables,
                         (os_place[]){ { o.output, OS_MAY_WRITE }, { NULL, OS_MAY_READ } }, NULL },
        err);
}

static void describe_libraries(char *text, size_t size)
{
    wu_library_versions(text, size);
    snprintf(text + strlen(text), size - strlen(text), ", SQLite %s", sqlite3_libversion());
    val_describe_confinement(text, size);
}

/* --- main ------------------------------------------------------------------------------------ */

int main(int argc, char **argv)
{
    static const tc_verb verbs[] = { { "script", run_script, NULL },   { "create", create, NULL },
                                     { "forget", forget, NULL },       { "export", export, NULL },
                                     { "report", write_report, NULL }, { .name = NULL } };
    static const tc_program program = {
        PROGRAM, usage, verbs, describe_libraries, store_given_result, false
    };

    os_close_inherited();
    return tc_main(&program, argc, argv);
}
