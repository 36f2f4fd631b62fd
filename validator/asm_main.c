/* texcell-assimilate: canonical results into a data set. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "validator/dataset.h"
#include "validator/val.h"
#include "workunits/archive.h"
#include "workunits/csv.h"

#define WORKUNITS "../download"

static const char usage[] =
    "usage: texcell-assimilate --db FILE [--store DIR] [WU.zip] RESULT.npz\n"
    "       texcell-assimilate script --db FILE [--store DIR] [--workunits DIR] WU_ID RESULT\n"
    "       texcell-assimilate script --db FILE --error MASK NAME WU_ID BATCH\n"
    "       texcell-assimilate --help | --version\n"
    "\n"
    "Checks a result as texcell-validate does, against its work unit if that is given, and\n"
    "adds it to the SQLite data set FILE, which is made if need be. A result that is there\n"
    "already is left alone; one that differs from what is there is refused.\n"
    "\n"
    "  --db FILE        the data set\n"
    "  --store DIR      where results with arrays that fit no table (maps, labels, masks) are\n"
    "                   copied to, and, in DIR/refused, what was refused. FILE.files unless given\n"
    "  --workunits DIR  where the work unit is looked for by the name of the upload, in DIR and\n"
    "                   its folders; " WORKUNITS " unless given. It need not be there\n"
    "\n"
    "script is for BOINC's script_assimilator, which starts bin/NAME with \"WU_ID FILE...\" or\n"
    "\"--error MASK NAME WU_ID BATCH\". NAME is a script of two lines in bin/:\n"
    "\n"
    "    #!/bin/sh\n"
    "    exec /path/to/texcell-assimilate script --db ../dataset.sqlite \"$@\"\n"
    "\n"
    "Any exit code but 0 stops that daemon, and after a 0 BOINC deletes the files. So it is 0\n"
    "when the unit is stored, or recorded in the table \"refused\" and its file kept; not 0 for\n"
    "what every unit would meet: arguments that are not as above, a data set that cannot be\n"
    "written, files that cannot be read.\n"
    "\n"
    "Exit codes: 0 done, 1 bad usage, 2 not a valid result (or work unit), 3 try again later\n"
    "(data set or disk), 4 the data set has another result of this work unit.\n";

typedef struct options {
    const char *db, *store, *workunits;
    int n;                     /* arguments that are no options */
    char **args;
} options;

/* --- arguments ---------------------------------------------------------------------------- */

/* Takes the options in front; what begins with none of them is the rest. */
static tc_status take_options(int argc, char **argv, options *o, tc_err *err)
{
    const struct { const char *name; const char **value; } known[] = {
        { "--db", &o->db }, { "--store", &o->store }, { "--workunits", &o->workunits },
    };
    int i = 0;

    while (i < argc && strncmp(argv[i], "--", 2) == 0 && strcmp(argv[i], "--error") != 0) {
        size_t k = 0;

        while (k < sizeof known / sizeof known[0] && strcmp(argv[i], known[k].name) != 0)
            k++;
        if (k == sizeof known / sizeof known[0])
            return tc_fail(err, TC_USAGE, "unknown option \"%.64s\"; texcell-assimilate --help", argv[i]);
        if (i + 1 == argc || argv[i + 1][0] == '\0')
            return tc_fail(err, TC_USAGE, "%s needs a value; texcell-assimilate --help", argv[i]);
        *known[k].value = argv[i + 1];
        i += 2;
    }
    if (o->db == NULL)
        return tc_fail(err, TC_USAGE, "--db FILE is missing; texcell-assimilate --help");
    o->n = argc - i;
    o->args = argv + i;
    return TC_OK;
}

static bool number(const char *text, int64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoll(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
}

static const char *base_name(const char *path)
{
    const char *const slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

/* The folder for copies; the caller's. */
static char *store_folder(const options *o)
{
    const char *const own = o->store != NULL ? o->store : o->db, *const end = o->store != NULL ? "" : ".files";
    char *const folder = malloc(strlen(own) + strlen(end) + 1);

    if (folder != NULL)
        sprintf(folder, "%s%s", own, end);
    return folder;
}

static void say_stored(const val_delivery *d, const char *db, val_stored stored)
{
    printf("%s: %s\n", d->name, stored == VAL_STORED ? "stored" : "is there already, with the same content");
    (void)db;
}

/* --- by hand ------------------------------------------------------------------------------- */

/* A conflict is recorded, and its file kept; the caller has the message. */
static tc_status record_conflict(const val_dataset *ds, const val_delivery *d, const char *reason)
{
    tc_err err = { "" };
    char *kept;
    const tc_status st = val_refuse(ds, d, "conflict", reason, &kept, &err);

    if (st != TC_OK)
        fprintf(stderr, "texcell-assimilate: warning: the conflict was not recorded: %s\n", err.message);
    free(kept);
    return st;
}

static tc_status add(const options *o, tc_err *err)
{
    val_delivery d = { .folder = store_folder(o) };
    val_dataset ds = { .db = NULL };
    val_stored stored;
    char *name;
    tc_status st;

    if (o->n != 1 && o->n != 2) {
        free((char *)(uintptr_t)d.folder);
        return tc_fail(err, TC_USAGE, "takes a result, or a work unit and a result, %d files given; "
                       "texcell-assimilate --help", o->n);
    }
    d.workunit = o->n == 2 ? o->args[0] : NULL;
    d.result = o->args[o->n - 1];
    d.result_name = base_name(d.result);
    name = strdup(base_name(o->args[0]));
    if (name != NULL && strrchr(name, '.') != NULL && strrchr(name, '.') != name)
        *strrchr(name, '.') = '\0';
    d.name = name;
    st = name == NULL || d.folder == NULL ? tc_no_memory(err, "names") : val_dataset_open(o->db, VAL_WRITE, &ds, err);
    if (st == TC_OK)
        st = val_store(&ds, &d, &stored, err);
    if (st == TC_OK)
        say_stored(&d, o->db, stored);
    if (st == TC_NO_MATCH)
        record_conflict(&ds, &d, err->message);
    val_dataset_close(&ds);
    free(name);
    free((char *)(uintptr_t)d.folder);
    return st;
}

/* --- for script_assimilator ------------------------------------------------------------------ */

/* One bad unit must not stop the daemon: record it, keep its file, and say so. */
static tc_status refuse(const val_dataset *ds, const val_delivery *d, const char *kind, const char *reason, tc_err *err)
{
    tc_err why = { "" };
    char *kept;
    const tc_status st = val_refuse(ds, d, kind, reason, &kept, &why);

    if (st == TC_OK)
        fprintf(stderr, "texcell-assimilate: refused (%s): %s; %s%s\n", kind, reason,
                kept != NULL ? "the file is kept as " : "there is no file to keep", kept != NULL ? kept : "");
    else
        tc_fail(err, st, "%.400s; and it could not be put aside: %.400s", reason, why.message);
    free(kept);
    return st;
}

static tc_status store_or_refuse(const options *o, const val_dataset *ds, val_delivery *d, tc_err *err)
{
    tc_err why = { "" };
    val_stored stored;
    char *workunit = NULL;
    tc_status st = val_try_reading(d->result, err);

    if (st == TC_BAD_INPUT) {
        why = *err;
        return refuse(ds, d, "missing", why.message, err);
    }
    if (st != TC_OK)
        return st;
    if (val_find_workunit(o->workunits, d->result, &workunit, &why) != TC_OK)
        fprintf(stderr, "texcell-assimilate: note: %s; the result is checked by itself\n", why.message);
    d->workunit = workunit;
    d->workunit_optional = true;
    st = val_store(ds, d, &stored, &why);
    free(workunit);
    switch (st) {
    case TC_OK: say_stored(d, o->db, stored); return TC_OK;
    case TC_BAD_INPUT: return refuse(ds, d, "invalid", why.message, err);
    case TC_NO_MATCH: return refuse(ds, d, "conflict", why.message, err);
    case TC_INTERNAL: return refuse(ds, d, "fault", why.message, err);
    default: *err = why; return st;
    }
}

static tc_status script_result(const options *o, tc_err *err)
{
    val_delivery d = { .folder = store_folder(o) };
    val_dataset ds = { .db = NULL };
    char *name;
    size_t length;
    tc_status st;

    if (o->n != 2 || !number(o->args[0], &d.wu_id) || d.wu_id == 0) {
        free((char *)(uintptr_t)d.folder);
        return tc_fail(err, TC_USAGE, "script: takes WU_ID and one file, or --error; %d arguments given; "
                       "texcell-assimilate --help", o->n);
    }
    d.result = o->args[1];
    d.result_name = base_name(d.result);
    length = val_workunit_length(d.result_name);
    name = length > 0 ? strndup(d.result_name, length) : strdup(d.result_name);
    d.name = name;
    st = name == NULL || d.folder == NULL ? tc_no_memory(err, "names") : val_dataset_open(o->db, VAL_WRITE, &ds, err);
    if (st == TC_OK)
        st = store_or_refuse(o, &ds, &d, err);
    val_dataset_close(&ds);
    free(name);
    free((char *)(uintptr_t)d.folder);
    return st;
}

static tc_status script_error(const options *o, tc_err *err)
{
    val_failure f = { .error_mask = 0 };
    val_dataset ds = { .db = NULL };
    tc_status st;

    if (o->n != 5 || !number(o->args[1], &f.error_mask) || o->args[2][0] == '\0' || !number(o->args[3], &f.wu_id) ||
        !number(o->args[4], &f.batch))
        return tc_fail(err, TC_USAGE, "script: --error takes MASK NAME WU_ID BATCH; texcell-assimilate --help");
    f.name = o->args[2];
    st = val_dataset_open(o->db, VAL_WRITE, &ds, err);
    if (st == TC_OK)
        st = val_record_failure(&ds, &f, err);
    if (st == TC_OK)
        printf("%s: recorded as failed\n", f.name);
    val_dataset_close(&ds);
    return st;
}

/* --- main --------------------------------------------------------------------------------------- */

static tc_status dispatch(int argc, char **argv, tc_err *err)
{
    options o = { .workunits = WORKUNITS };
    const char *const first = argc > 1 ? argv[1] : "";
    const bool script = strcmp(first, "script") == 0;
    tc_status st;

    if (argc == 2 && (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0)) {
        fputs(usage, stdout);
        return TC_OK;
    }
    if (argc == 2 && strcmp(first, "--version") == 0) {
        printf("texcell-assimilate %s\n", VERSION);
        return TC_OK;
    }
    st = take_options(argc - 1 - script, argv + 1 + script, &o, err);
    if (st != TC_OK)
        return st;
    if (!script)
        return add(&o, err);
    return o.n > 0 && strcmp(o.args[0], "--error") == 0 ? script_error(&o, err) : script_result(&o, err);
}

int main(int argc, char **argv)
{
    tc_err err = { "" };
    const tc_status st = dispatch(argc, argv, &err);

    if (st != TC_OK)
        fprintf(stderr, "texcell-assimilate: error: %s\n", err.message);
    if (fflush(stdout) != 0 || ferror(stdout))
        return tc_exit_code(st == TC_OK ? TC_IO : st);
    return tc_exit_code(st);
}
