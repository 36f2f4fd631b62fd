/*
 * Records what the data set does not store: results that were refused, units that were deleted
 * again, and work units that failed. Copies of refused files are kept.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/base/files.h"
#include "validator/check/val.h"
#include "validator/dataset/dataset.h"
#include "workunits/format/csv.h"
#include "workunits/format/new_file.h"

#define REFUSED "refused" /* the folder of refused files, in the folder of kept files */

enum { COPY_NAME_BYTES = 256 }; /* size of a buffer for a kept file's name */

/* --- files ----------------------------------------------------------------------------------- */

/* Copies a file to folder/name, completely or not at all. */
static tc_status copy_file(const char *from, const char *folder, const char *name, tc_err *err)
{
    val_copy copy = { .path = wu_join_path(folder, name, "") };
    wu_new_file out = { .file = NULL };
    uint64_t size;
    int in = -1;
    tc_status status = copy.path == NULL ? tc_no_memory(err, name) : wu_make_folder(folder, err);

    if (status == TC_OK)
        status = tc_open_regular(from, &in, &size, err);
    if (status == TC_OK)
        status = wu_new_file_open(copy.path, &out, err);
    if (status == TC_OK)
        status = val_copy_bytes(in, from, fileno(out.file), &copy, err);
    status = wu_new_file_close(&out, status, err);
    if (in >= 0)
        close(in);
    val_copy_free(&copy);
    return status == TC_BAD_INPUT ? TC_IO : status; /* the file existed a moment ago */
}

/* --- refused results ------------------------------------------------------------------------- */

/* Makes the name of a refused file's copy. It contains half of the file's SHA-256, so that files of
 * the same name do not replace each other. */
static tc_status make_copy_name(const val_delivery *d, char name[COPY_NAME_BYTES], tc_err *err)
{
    val_copy digest;
    const tc_status status = val_read_upload(d->result, &digest, err);

    /* With ".tmp" appended the name must fit into the 255 bytes that file systems allow. */
    snprintf(name, COPY_NAME_BYTES, "%.210s.%.32s", d->result_name, digest.sha256);
    /* The file was read a moment ago, so this is a fault of the server's disk. */
    return status == TC_BAD_INPUT ? TC_IO : status;
}

/* Copies a refused file into the folder. Sets *copy_path to the copy's path in d->folder,
 * "refused/NAME", or to NULL if there is no file. */
static tc_status copy_refused(const val_delivery *d, char **copy_path, tc_err *err)
{
    char name[COPY_NAME_BYTES];
    struct stat info;

    *copy_path = NULL;
    if (stat(d->result, &info) != 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? TC_OK
                   : tc_fail(err, TC_TRY_LATER, "%s: cannot read: %s", d->result, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return TC_OK;
    return_if_error(make_copy_name(d, name, err));
    TC_AUTOFREE char *const folder = wu_join_path(d->folder, REFUSED, "");
    *copy_path = wu_join_path(REFUSED, name, "");
    if (folder == NULL || *copy_path == NULL)
        return tc_no_memory(err, name);
    return_if_error(wu_make_folder(d->folder, err));
    return copy_file(d->result, folder, name, err);
}

tc_status val_record_refused(const val_dataset *ds, const val_delivery *d, const char *kind,
                             const char *reason, char **copy_path, tc_err *err)
{
    /* The file is copied before the data set is locked. A copy without a row does no harm, and is
     * not made twice. */
    return_if_error(copy_refused(d, copy_path, err));
    return_if_error(val_begin_transaction(ds, err));
    const tc_status status =
        val_sql(ds, err,
                "INSERT OR IGNORE INTO refused(kind, reason, name, wu_id, result, kept, stored) "
                "VALUES(%Q, %Q, %Q, %lld, %Q, %Q, %Q)",
                kind, reason, d->name, (long long)d->wu_id, d->result_name, *copy_path,
                val_current_time().text);
    return val_end_transaction(ds, status, err);
}

/* --- deletion of units ----------------------------------------------------------------------- */

/* Deletes the rows of the unit's items from each table. */
static tc_status delete_rows(const val_dataset *ds, int64_t unit, tc_err *err)
{
    TC_AUTO(val_sql_close) sqlite3_stmt *tables = NULL;
    tc_status status = val_sql_item_tables(ds, &tables, err);

    while (val_sql_next(ds, tables, &status, err))
        status = val_sql(
            ds, err, "DELETE FROM \"%w\" WHERE item IN (SELECT id FROM items WHERE unit = %lld)",
            (const char *)sqlite3_column_text(tables, 0), (long long)unit);
    return status;
}

/* Records each name of the unit as refused, and deletes the unit with everything that belongs to
 * it. */
static tc_status delete_unit(const val_dataset *ds, int64_t unit, const char *why, tc_err *err)
{
    static const char names[] =
        "SELECT name, wu_id, result, id AS unit, 0 AS of_it FROM units UNION "
        "ALL SELECT name, wu_id, result, unit, 1 FROM aliases";
    return_if_error(
        val_sql(ds, err,
                "INSERT OR IGNORE INTO refused(kind, reason, name, wu_id, result, stored) SELECT "
                "'forgotten', %Q, name, ifnull(wu_id, 0), result, %Q FROM (%s) WHERE unit = %lld",
                why, val_current_time().text, names, (long long)unit));

    return_if_error(delete_rows(ds, unit, err));
    return val_sql(ds, err,
                   "DELETE FROM aliases WHERE unit = %lld; DELETE FROM items WHERE unit = "
                   "%lld; DELETE FROM units WHERE id = %lld",
                   (long long)unit, (long long)unit, (long long)unit);
}

/* Appends all names of the unit to `names`, one a line. Sets *copy_path to its kept file, or to
 * NULL; the caller frees it by sqlite3_free. */
static tc_status list_names(const val_dataset *ds, int64_t unit, sqlite3_str *names,
                            char **copy_path, tc_err *err)
{
    TC_AUTO(val_sql_close) sqlite3_stmt *query = NULL;
    tc_status status = val_sql_prepare(ds, &query, err,
                                       "SELECT name, kept FROM units WHERE id = %lld UNION ALL "
                                       "SELECT name, NULL FROM aliases WHERE unit = %lld",
                                       (long long)unit, (long long)unit);

    *copy_path = NULL;
    while (val_sql_next(ds, query, &status, err)) {
        sqlite3_str_appendf(names, "%s\n", (const char *)sqlite3_column_text(query, 0));
        if (sqlite3_column_text(query, 1) != NULL)
            *copy_path = sqlite3_mprintf("%s", sqlite3_column_text(query, 1));
    }
    return status;
}

/* Sets *unit to the id of the first unit that has this name or alias, or to 0 if there is none. */
static tc_status find_unit(const val_dataset *ds, const char *name, int64_t *unit, tc_err *err)
{
    TC_AUTO(val_sql_close) sqlite3_stmt *query = NULL;
    tc_status status = val_sql_prepare(
        ds, &query, err,
        "SELECT id FROM units WHERE name = %Q UNION SELECT unit FROM aliases WHERE name = %Q", name,
        name);

    *unit = val_sql_next(ds, query, &status, err) ? sqlite3_column_int64(query, 0) : 0;
    return status;
}

/* Deletes the unit's kept file. Must be called after the unit's row was deleted, so that a failure
 * in between leaves no row without its file. */
static void remove_copy(const char *folder, const char *copy_path)
{
    char *const path = copy_path == NULL ? NULL : wu_join_path(folder, copy_path, "");

    if (path != NULL)
        (void)unlink(path);
    free(path);
}

tc_status val_delete_unit(const val_dataset *ds, const char *name, const char *why,
                          const char *folder, bool *was_found, tc_err *err)
{
    char *copy_path = NULL;
    int64_t unit = 0;
    return_if_error(val_begin_transaction(ds, err));
    sqlite3_str *const list = sqlite3_str_new(NULL);
    tc_status status = find_unit(ds, name, &unit, err);
    if (status == TC_OK && unit != 0)
        status = list_names(ds, unit, list, &copy_path, err);
    if (status == TC_OK && unit != 0)
        status = delete_unit(ds, unit, why, err);
    status = val_end_transaction(ds, status, err);
    char *const names = sqlite3_str_finish(list);
    if (status == TC_OK) {
        remove_copy(folder, copy_path);
        printf("%s", names == NULL ? "" : names);
    }
    sqlite3_free(names);
    sqlite3_free(copy_path);
    *was_found = unit != 0;
    return status;
}

/* --- failed work units ----------------------------------------------------------------------- */

tc_status val_record_failure(const val_dataset *ds, const val_failure *f, tc_err *err)
{
    assert(f->name != NULL);
    /* The bits of BOINC's error_mask (WU_ERROR_...), from bit 0. */
    static const char *const reasons[] = {
        "could not be sent", "too many errors", "too many results without agreement",
        "too many results",  "cancelled",       "no canonical result"
    };
    enum { N = sizeof reasons / sizeof reasons[0] };
    char text[256] = "";
    return_if_error(val_begin_transaction(ds, err));
    for (size_t i = 0; i < N; i++)
        if (f->error_mask >> i & 1)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s",
                     text[0] == '\0' ? "" : ", ", reasons[i]);
    /* If BOINC reports the unit again, the mask is replaced, but the first date remains. */
    tc_status status = val_sql(
        ds, err,
        "INSERT INTO failed(wu_id, name, batch, error_mask, reasons, stored) "
        "VALUES(%lld, %Q, %lld, %lld, %Q, %Q) ON CONFLICT DO UPDATE SET batch = excluded.batch, "
        "error_mask = excluded.error_mask, reasons = excluded.reasons",
        (long long)f->wu_id, f->name, (long long)f->batch, (long long)f->error_mask, text,
        val_current_time().text);
    return val_end_transaction(ds, status, err);
}
