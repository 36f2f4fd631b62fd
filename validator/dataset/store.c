/* Stores one canonical result in the data set, in one transaction. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/base/crc32.h"
#include "app/base/sha256.h"
#include "config.h"
#include "validator/dataset/dataset.h"
#include "validator/check/val.h"
#include "workunits/format/csv.h"
#include "workunits/format/json_text.h"

enum { BLOCK = 1 << 20 }; /* bytes of an array that are read at a time */

/* A unit to be stored. It is read completely before the data set is locked. */
typedef struct unit {
    const val_delivery *d;
    wu_result_file file;
    wu_tables tables;
    char file_key[64]; /* short key of the work unit's file, for the data set and names: its
                          CRC-32 and size, such as "358765c0-40960" */
    char sha256[TC_SHA256_TEXT]; /* SHA-256 of the work unit's file; identifies the unit */
    const char *analysis;        /* from result.json */
    char *parameters;            /* JSON text, allocated by jansson */
    json_t *arrays;              /* object: for each array's name, its type and shape, and CRC-32
                                    and SHA-256 of its data */
    const char *checked;         /* "workunit" if the result was checked against its work unit,
                                    "result" if against its own description of the work unit */
    char copy_name[160];         /* name of the copy in d->folder, or "" if no copy is needed */
    wu_npz_writer *copy; /* the result's copy, complete but not yet renamed to copy_name; NULL if
                            there is no copy */
} unit;

/* --- digests of arrays ------------------------------------------------------------------------ */

/* The checksums of an array's data. */
typedef struct digest {
    uint32_t crc;
    char sha256[TC_SHA256_TEXT];
} digest;

/* Computes the checksums of array number `index`. block: a buffer of BLOCK bytes. */
static tc_status digest_of_array(const unit *u, size_t index, unsigned char *block, digest *out,
                                 tc_err *err)
{
    TC_AUTO(wu_npz_stream_close) wu_npz_stream *stream = NULL;
    tc_sha256 sum;
    return_if_error(wu_npz_stream_open(u->file.npz, index, &stream, err));

    out->crc = 0;
    tc_sha256_begin(&sum);
    while (wu_npz_stream_left(stream) > 0) {
        const uint64_t left = wu_npz_stream_left(stream);
        const size_t n = left < BLOCK ? (size_t)left : BLOCK;

        return_if_error(wu_npz_stream_read(stream, block, n, err));
        out->crc = tc_crc32(out->crc, block, n);
        tc_sha256_add(&sum, block, n);
    }
    tc_sha256_end(&sum, out->sha256);
    return wu_npz_stream_end(stream, err);
}

/* Returns the description of an array, as unit.arrays contains it: [type, shape, CRC-32, SHA-256].
 */
static json_t *describe_array(const wu_array_info *info, const digest *d)
{
    static const char *const types[] = { "bool",    "uint8",   "int32", "int64",
                                         "float32", "float64", "text" };
    json_t *const shape = json_array();
    char text[16];

    for (unsigned i = 0; i < info->ndim; i++)
        json_array_append_new(shape, json_integer((json_int_t)info->shape[i]));
    snprintf(text, sizeof text, "%08" PRIx32, d->crc);
    return json_pack("[s,o,s,s]", types[info->dtype], shape, text, d->sha256);
}

/* Sets u->arrays: reads all arrays and computes their checksums. */
static tc_status describe_arrays(unit *u, tc_err *err)
{
    TC_AUTOFREE unsigned char *const block = malloc(BLOCK);

    u->arrays = json_object();
    if (block == NULL || u->arrays == NULL)
        return tc_no_memory(err, u->d->result);
    for (size_t i = 0; i < wu_npz_array_count(u->file.npz); i++) {
        const wu_array_info *const info = wu_npz_array_info(u->file.npz, i);
        digest d;

        return_if_error(digest_of_array(u, i, block, &d, err));
        if (json_object_set_new(u->arrays, info->name, describe_array(info, &d)) != 0)
            return tc_no_memory(err, u->d->result);
    }
    return TC_OK;
}

/* Reads the result into *u. As the result has been checked, all keys of result.json exist and have
 * the right types. */
static tc_status read_unit(unit *u, tc_err *err)
{
    const json_t *json, *workunit;
    return_if_error(wu_result_file_open(u->d->result, NULL, &u->file, err));

    return_if_error(wu_tables_find(&u->file, &u->tables, err));
    json = wu_npz_json(u->file.npz);
    workunit = json_object_get(json, "workunit");
    snprintf(u->file_key, sizeof u->file_key, "%.8s-%" JSON_INTEGER_FORMAT,
             json_string_value(json_object_get(workunit, "crc32")),
             json_integer_value(json_object_get(workunit, "size")));
    snprintf(u->sha256, sizeof u->sha256, "%s",
             json_string_value(json_object_get(workunit, "sha256")));
    u->analysis = json_string_value(json_object_get(json, "analysis"));
    u->parameters =
        wu_json_text(json_object_get(json, "parameters"), JSON_SORT_KEYS | JSON_COMPACT);
    if (u->parameters == NULL)
        return tc_no_memory(err, u->d->result);
    return describe_arrays(u, err);
}

static void free_unit(unit *u)
{
    wu_npz_abort(&u->copy);
    json_decref(u->arrays);
    free(u->parameters);
    wu_tables_free(&u->tables);
    wu_result_file_close(&u->file);
}

/* Checks the result against its work unit. If there is no work unit, or if it is optional and not
 * valid, checks the result against its own description of the work unit. */
static tc_status check_result(unit *u, tc_err *err)
{
    const val_delivery *const d = u->d;
    /* fraction is 0 and blind is set: pixels are used only for items that are in doubt. */
    const val_verification how = { .blind = true, .threads = 1, .max_memory = d->max_memory };
    TC_AUTO(an_unit_free) an_unit workunit = { .job = NULL };
    const tc_status status =
        d->workunit != NULL ? an_unit_read(d->workunit, &workunit, err) : TC_OK;

    u->checked = workunit.job != NULL ? "workunit" : "result";
    if (status != TC_BAD_INPUT || !d->workunit_optional)
        return_if_error(status);
    if (workunit.job != NULL)
        return val_check(&workunit, d->result, &how, err);
    return_if_error(val_unit_of_result(d->result, &workunit, err));
    return val_check_form(&workunit, d->result, d->max_memory, err);
}

/* --- units that are stored already ----------------------------------------------------------- */

/* Compares two objects that describe arrays as unit.arrays does. Returns the name of an array that
 * only one of them has, or whose descriptions differ: of all such names, the first in alphabetical
 * order. Returns NULL if the objects are equal. */
static const char *first_difference(const json_t *a, const json_t *b)
{
    const json_t *const objects[2] = { a, b };
    const char *first = NULL, *name;
    json_t *value;

    for (int side = 0; side < 2; side++)
        json_object_foreach((json_t *)(uintptr_t)objects[side], name, value) {
            const json_t *const other = json_object_get(objects[!side], name);

            if ((other == NULL || !wu_json_same(value, other)) &&
                (first == NULL || strcmp(name, first) < 0))
                first = name;
        }
    return first;
}

/* Compares the result with a stored unit: a row of the table units, which belongs to the same work
 * unit. row: the id, analysis, parameters and arrays of the stored unit. */
static tc_status compare_units(const val_dataset *ds, const unit *u, sqlite3_stmt *row, tc_err *err)
{
    const char *const analysis = (const char *)sqlite3_column_text(row, 1);
    const char *const parameters = (const char *)sqlite3_column_text(row, 2);
    const char *const text = (const char *)sqlite3_column_text(row, 3);
    json_auto_t *arrays = text == NULL ? NULL : wu_json_load(text, strlen(text), 0, NULL);
    const char *const name = first_difference(arrays, u->arrays);

    if (analysis == NULL || parameters == NULL || arrays == NULL)
        return tc_fail(err, TC_TRY_LATER, "%.500s: unit %lld cannot be read", ds->path,
                       (long long)sqlite3_column_int64(row, 0));
    else if (strcmp(analysis, u->analysis) != 0 || strcmp(parameters, u->parameters) != 0)
        return tc_fail(
            err, TC_NO_MATCH,
            "%.500s: conflict: %s has work unit %s already, as unit %lld with another analysis "
            "or other parameters",
            u->d->result, ds->path, u->file_key, (long long)sqlite3_column_int64(row, 0));
    else if (name != NULL)
        return tc_fail(
            err, TC_NO_MATCH,
            "%.400s: conflict: %.200s has work unit %s already, as unit %lld, and its array "
            "%.100s differs; nothing was changed",
            u->d->result, ds->path, u->file_key, (long long)sqlite3_column_int64(row, 0), name);
    return TC_OK;
}

/* Looks for a stored unit with the same work unit. If there is one, sets *id to its id and compares
 * it with the result; otherwise sets *id to 0. */
static tc_status find_stored_unit(const val_dataset *ds, const unit *u, int64_t *id, tc_err *err)
{
    TC_AUTO(val_sql_close) sqlite3_stmt *query = NULL;
    tc_status status = val_sql_prepare(
        ds, &query, err, "SELECT id, analysis, parameters, arrays FROM units WHERE sha256 = %Q",
        u->sha256);

    *id = 0;
    if (!val_sql_next(ds, query, &status, err))
        return status;
    *id = sqlite3_column_int64(query, 0);
    return compare_units(ds, u, query, err);
}

/* Records that the stored unit `id` was delivered under another name, too. */
static tc_status add_alias(const val_dataset *ds, const unit *u, int64_t id, tc_err *err)
{
    const val_delivery *const d = u->d;

    return val_sql(ds, err,
                   "INSERT OR IGNORE INTO aliases(unit, name, wu_id, result, stored) SELECT id, "
                   "%Q, %lld, %Q, %Q "
                   "FROM units WHERE id = %lld AND name != %Q",
                   d->name, (long long)d->wu_id, d->result_name, val_current_time().text,
                   (long long)id, d->name);
}

/* --- a new unit ------------------------------------------------------------------------------ */

/* Creates the file of the copy. If another process is storing the same unit at this time, waits for
 * it, for up to VAL_WAIT_MS. */
static tc_status create_copy(const char *path, wu_npz_writer **copy, tc_err *err)
{
    const struct timespec pause = { 0, 100000000 }; /* 100 ms */
    tc_status status = wu_npz_create(path, copy, err);

    for (int i = 0; status == TC_TRY_LATER && i < VAL_WAIT_MS / 100; i++) {
        nanosleep(&pause, NULL);
        status = wu_npz_create(path, copy, err);
    }
    return status;
}

/* Copies the result if it has arrays that fit no table (pictures, and arrays with more axes than a
 * table can have). Since the file is untrusted, the copy is written array by array. It is renamed
 * to u->copy_name when the unit is stored. */
static tc_status copy_pictures(unit *u, tc_err *err)
{
    bool needs_copy = false;

    for (size_t i = 0; i < wu_npz_array_count(u->file.npz); i++)
        needs_copy = needs_copy || !u->tables.used[i];
    if (!needs_copy)
        return TC_OK;
    snprintf(u->copy_name, sizeof u->copy_name, "%s-%.16s.npz", u->file_key, u->sha256);
    TC_AUTOFREE char *const path = wu_join_path(u->d->folder, u->copy_name, "");
    if (path == NULL)
        return tc_no_memory(err, u->copy_name);
    return_if_error(wu_make_folder(u->d->folder, err));
    return_if_error(create_copy(path, &u->copy, err));
    return_if_error(wu_npz_copy(u->copy, u->file.npz, err));
    return wu_npz_complete(u->copy, err);
}

/* Inserts the unit, and sets *id to its id. The column workunit is u->file_key (CRC-32 and size).
 * If another unit has the same value, "-" and the SHA-256 are appended, so that the column is
 * unique. */
static tc_status insert_unit(const val_dataset *ds, const unit *u, int64_t *id, tc_err *err)
{
    TC_AUTOFREE char *const arrays = wu_json_text(u->arrays, JSON_SORT_KEYS | JSON_COMPACT);
    TC_AUTO(val_sql_close) sqlite3_stmt *insert = NULL;

    if (arrays == NULL)
        return tc_no_memory(err, u->d->result);
    return_if_error(val_sql_prepare(
        ds, &insert, err,
        "INSERT INTO units(workunit, name, wu_id, result, analysis, parameters, n_items, "
        "arrays, checked, kept, program, stored, sha256) VALUES(%Q || "
        "(SELECT iif(count(*) = 0, '', '-%q') FROM units WHERE workunit = %Q), %Q, "
        "nullif(%lld, 0), %Q, %Q, ?1, %lld, ?2, %Q, nullif(%Q, ''), %Q, %Q, %Q)",
        u->file_key, u->sha256, u->file_key, u->d->name, (long long)u->d->wu_id, u->d->result_name,
        u->analysis, (long long)u->file.n_items, u->checked, u->copy_name,
        "texcell-assimilate " VERSION, val_current_time().text, u->sha256));
    sqlite3_bind_text(insert, 1, u->parameters, -1, SQLITE_STATIC);
    sqlite3_bind_text(insert, 2, arrays, -1, SQLITE_STATIC);
    return_if_error(val_sql_run(ds, insert, err));
    *id = sqlite3_last_insert_rowid(ds->db);
    return TC_OK;
}

/* Inserts the items of the unit `id`, and sets *first_item to the id of the first one. */
static tc_status insert_items(const val_dataset *ds, const unit *u, int64_t id, int64_t *first_item,
                              tc_err *err)
{
    TC_AUTO(val_sql_close) sqlite3_stmt *insert = NULL;
    return_if_error(val_sql_prepare(
        ds, &insert, err,
        "INSERT INTO items(unit, number, name, source) VALUES(?1, ?2, ?3, nullif(?4, ''))"));

    for (size_t i = 0; i < u->file.n_items; i++) {
        sqlite3_bind_int64(insert, 1, id);
        sqlite3_bind_int64(insert, 2, (int64_t)i);
        sqlite3_bind_text(insert, 3, u->file.item_names[i], -1, SQLITE_STATIC);
        sqlite3_bind_text(insert, 4, u->file.item_sources != NULL ? u->file.item_sources[i] : "",
                          -1, SQLITE_STATIC);
        return_if_error(val_sql_run(ds, insert, err));
        /* The items' ids follow each other: SQLite gives each the largest id plus one, and no other
         * process writes during the transaction. */
        if (i == 0)
            *first_item = sqlite3_last_insert_rowid(ds->db);
    }
    return TC_OK;
}

/* Stores a unit that the data set does not have, and renames its copy. */
static tc_status insert_new(const val_dataset *ds, unit *u, tc_err *err)
{
    int64_t id = 0, first_item = 0;
    /* As the copy is complete, wu_npz_close only renames it to u->copy_name. */
    return_if_error(u->copy == NULL ? TC_OK : wu_npz_close(&u->copy, err));

    return_if_error(insert_unit(ds, u, &id, err));
    return_if_error(insert_items(ds, u, id, &first_item, err));
    return val_store_tables(ds, &u->file, &u->tables, u->analysis, first_item, err);
}

tc_status val_store(const val_dataset *ds, const val_delivery *d, val_stored *stored, tc_err *err)
{
    assert(d->result != NULL && d->name != NULL && d->folder != NULL);
    TC_AUTO(free_unit) unit u = { .d = d };
    int64_t stored_id = 0;

    return_if_error(check_result(&u, err));
    return_if_error(read_unit(&u, err));
    return_if_error(copy_pictures(&u, err));
    return_if_error(val_begin_transaction(ds, err));
    tc_status status = find_stored_unit(ds, &u, &stored_id, err);
    if (status == TC_OK)
        status = stored_id != 0 ? add_alias(ds, &u, stored_id, err) : insert_new(ds, &u, err);
    /* If BOINC had reported the unit as failed, it has been computed again since then. */
    if (status == TC_OK)
        status = val_sql(ds, err, "DELETE FROM failed WHERE wu_id = %lld AND name = %Q",
                         (long long)d->wu_id, d->name);
    *stored = stored_id != 0 ? VAL_STORED_BEFORE : VAL_STORED;
    return val_end_transaction(ds, status, err);
}
