/*
 * Stores the tables of a result as rows of the data set's tables. Their columns are those that the
 * result declares, so that a new analysis needs no code here.
 */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "validator/dataset/dataset.h"

/* A table of the data set to which rows are added.
 *
 * A table that consists of one array with several axes is "cut": each of its rows becomes several
 * rows of the data set. For example, a result of glcm may have 4,875 features an item, more than
 * SQLite's limit of 2,000 columns; but with a row for each feature, a million items would have
 * 5,000 million rows. So the array's axes of numbers (levels, distance) become key columns, and a
 * row has the features of one combination of keys, such as 64 levels and distance 1. Such a row
 * takes hardly more space than its numbers. The item is the last column of the primary key, so that
 * the rows of all items for one combination lie close together. An index on the item (1 KB an item)
 * finds the rows of one item. */
typedef struct target {
    const val_dataset *ds;
    const wu_table *table;
    const wu_declaration *cut; /* declaration of the array, if the table is cut; else NULL */
    unsigned n_numbers;        /* number of axes that become keys; 0 if the table is not cut */
    char *name;                /* the analysis and the table, joined by "_"; name, keys
                                  and key_types are from sqlite3_malloc */
    char *keys;                /* the primary key: "levels, distance, item" */
    char *key_types;           /* "levels INTEGER NOT NULL, ..." */
    size_t n_columns;          /* columns of a row of the data set, without the keys */
    sqlite3_stmt *insert;
} target;

/* --- columns and statements ------------------------------------------------------------------ */

unsigned val_cut_axes(const wu_table *table)
{
    assert(table->n_arrays > 0);
    const wu_declaration *const d = table->arrays[0].declared;
    unsigned numbers = 0;

    if (table->has_item_array || table->n_arrays != 1)
        return 0;
    while (numbers < d->n_axes && d->axes[numbers].numbers != NULL)
        numbers++;
    for (unsigned i = numbers; i < d->n_axes; i++) {
        if (d->axes[i].words == NULL || d->axes[i].name == NULL)
            return 0;
        /* A column's name is its words joined by "_"; only the first word may contain one. */
        for (uint32_t k = 0; i > numbers && k < d->axes[i].n; k++)
            if (strchr(d->axes[i].words[k], '_') != NULL)
                return 0;
    }
    return numbers < d->n_axes ? numbers : 0;
}

/* Writes the title of column i (after the keys) to out. */
static void column_title(const target *t, size_t i, char out[WU_TITLE_MAX])
{
    if (t->cut != NULL)
        wu_declaration_title(t->cut, i, t->n_numbers, out);
    else
        wu_column_title(t->table, i, out);
}

static const char *column_type(const target *t, size_t i)
{
    const wu_dtype dtype = wu_column_dtype(t->table, i);

    return dtype == WU_STR ? "TEXT" : dtype == WU_F32 || dtype == WU_F64 ? "REAL" : "INTEGER";
}

/* Returns the names of the columns of the primary key, each followed by `type` and separated by
 * commas. The caller frees it by sqlite3_free. */
static char *key_list(const target *t, const char *type)
{
    sqlite3_str *const text = sqlite3_str_new(t->ds->db);

    for (unsigned i = 0; i < t->n_numbers; i++)
        sqlite3_str_appendf(text, "\"%w\"%s, ", t->cut->axes[i].name, type);
    sqlite3_str_appendf(text, "item%s", type);
    if (t->table->has_item_array)
        sqlite3_str_appendf(text, ", n%s", type);
    return sqlite3_str_finish(text);
}

/* Fills *t for a table of the result. close_target must be called, also after a failure. */
static tc_status open_target(const val_dataset *ds, const char *analysis, const wu_table *table,
                             target *t, tc_err *err)
{
    *t = (target){
        .ds = ds, .table = table, .n_numbers = val_cut_axes(table), .n_columns = table->n_columns
    };
    t->cut = t->n_numbers > 0 ? table->arrays[0].declared : NULL;
    for (unsigned i = 0; i < t->n_numbers; i++)
        t->n_columns /= t->cut->axes[i].n;
    t->name = sqlite3_mprintf("%s_%s", analysis, table->name);
    t->keys = key_list(t, "");
    t->key_types = key_list(t, " INTEGER NOT NULL");
    return t->name == NULL || t->keys == NULL || t->key_types == NULL
               ? tc_no_memory(err, table->name)
               : TC_OK;
}

static void close_target(target *t)
{
    sqlite3_finalize(t->insert);
    sqlite3_free(t->name);
    sqlite3_free(t->keys);
    sqlite3_free(t->key_types);
}

static tc_status create_table(const target *t, tc_err *err)
{
    sqlite3_str *const sql = sqlite3_str_new(t->ds->db);
    char title[WU_TITLE_MAX];

    sqlite3_str_appendf(sql, "CREATE TABLE \"%w\"(%s", t->name, t->key_types);
    for (size_t i = 0; i < t->n_columns; i++) {
        column_title(t, i, title);
        sqlite3_str_appendf(sql, ", \"%w\" %s", title, column_type(t, i));
    }
    sqlite3_str_appendf(sql, ", PRIMARY KEY(%s)) WITHOUT ROWID", t->keys);
    if (t->cut != NULL)
        sqlite3_str_appendf(sql, "; CREATE INDEX \"%w_by_item\" ON \"%w\"(item)", t->name, t->name);
    return val_sql_execute_built(t->ds, sql, err);
}

/* Creates the table, or adds the columns that it lacks (points in a stack have more coordinates
 * than points in a picture). Sets *changed to whether it did. */
static tc_status prepare_table(const target *t, bool *changed, tc_err *err)
{
    TC_AUTO(val_sql_close) sqlite3_stmt *find_column = NULL;
    char title[WU_TITLE_MAX];
    tc_status status = val_sql_prepare(t->ds, &find_column, err,
                                       "SELECT 1 FROM pragma_table_info(%Q) WHERE ?1 IS NULL OR "
                                       "name = ?1 COLLATE NOCASE",
                                       t->name);

    /* With ?1 unbound (NULL) the query finds any column, so it finds out whether the table exists.
     */
    *changed = !val_sql_next(t->ds, find_column, &status, err);
    return_if_error(status);
    if (*changed)
        return create_table(t, err);
    for (size_t i = 0; i < t->n_columns; i++) {
        column_title(t, i, title);
        sqlite3_reset(find_column);
        sqlite3_bind_text(find_column, 1, title, -1, SQLITE_TRANSIENT);
        const bool exists = val_sql_next(t->ds, find_column, &status, err);
        return_if_error(status);
        sqlite3_reset(find_column);
        if (exists)
            continue;
        *changed = true;
        return_if_error(val_sql(t->ds, err, "ALTER TABLE \"%w\" ADD COLUMN \"%w\" %s", t->name,
                                title, column_type(t, i)));
    }
    return TC_OK;
}

/* Prepares the statement that inserts a row: parameters are the keys, the item, the number of the
 * row within the item if the table has_item_array, and the columns. */
static tc_status prepare_insert(target *t, tc_err *err)
{
    sqlite3_str *const sql = sqlite3_str_new(t->ds->db);
    char title[WU_TITLE_MAX];

    sqlite3_str_appendf(sql, "INSERT INTO \"%w\"(%s", t->name, t->keys);
    for (size_t i = 0; i < t->n_columns; i++) {
        column_title(t, i, title);
        sqlite3_str_appendf(sql, ", \"%w\"", title);
    }
    sqlite3_str_appendall(sql, ") VALUES(?"); /* this parameter is the item */
    for (size_t i = t->n_numbers + t->table->has_item_array + t->n_columns; i > 0; i--)
        sqlite3_str_appendall(sql, ",?");
    sqlite3_str_appendall(sql, ")");
    return val_sql_query(t->ds, sql, &t->insert, err);
}

/* --- values ---------------------------------------------------------------------------------- */

/* Binds a value of the result to parameter `index` of the insertion. NaN becomes NULL, as SQLite
 * stores no NaN. */
static tc_status bind_value(const target *t, int index, const wu_array_info *info, const void *p,
                            tc_err *err)
{
    union {
        int32_t i32;
        int64_t i64;
        float f32;
        double f64;
    } v;
    char text[WU_CELL_MAX];
    int code = SQLITE_OK;

    switch (info->dtype) {
    case WU_BOOL:
    case WU_U8: code = sqlite3_bind_int(t->insert, index, *(const uint8_t *)p); break;
    case WU_I32:
        memcpy(&v.i32, p, sizeof v.i32);
        code = sqlite3_bind_int(t->insert, index, v.i32);
        break;
    case WU_I64:
        memcpy(&v.i64, p, sizeof v.i64);
        code = sqlite3_bind_int64(t->insert, index, v.i64);
        break;
    case WU_F32:
        memcpy(&v.f32, p, sizeof v.f32);
        code = sqlite3_bind_double(t->insert, index, (double)v.f32);
        break;
    case WU_F64:
        memcpy(&v.f64, p, sizeof v.f64);
        code = sqlite3_bind_double(t->insert, index, v.f64);
        break;
    case WU_STR:
        wu_value_text(info, p, text);
        code = sqlite3_bind_text(t->insert, index, text, -1, SQLITE_TRANSIENT);
        break;
    }
    return code == SQLITE_OK ? TC_OK : val_sql_fault(t->ds, err);
}

/* --- rows ------------------------------------------------------------------------------------ */

/* Binds the key values of row number `part` of the rows into which a row of the result is cut. */
static void bind_numbers(const target *t, sqlite3_stmt *stmt, size_t part)
{
    /* The last key varies fastest. Parameters are counted from 1. */
    for (unsigned i = t->n_numbers; i-- > 0; part /= t->cut->axes[i].n)
        sqlite3_bind_int64(stmt, (int)i + 1, t->cut->axes[i].numbers[part % t->cut->axes[i].n]);
}

/* Inserts the cursor's row, or several rows if the table is cut. n: the row's number within its
 * item, from 1. */
static tc_status insert_row(const target *t, wu_cursor *cursor, int64_t item, int64_t n,
                            tc_err *err)
{
    for (size_t first = 0; first < t->table->n_columns; first += t->n_columns) {
        int index = (int)t->n_numbers + 1;

        bind_numbers(t, t->insert, first / t->n_columns);
        sqlite3_bind_int64(t->insert, index++, item);
        if (t->table->has_item_array)
            sqlite3_bind_int64(t->insert, index++, n);
        for (size_t i = first; i < first + t->n_columns; i++) {
            const wu_array_info *info;
            const void *const value = wu_cursor_value(cursor, i, &info);

            return_if_error(bind_value(t, index++, info, value, err));
        }
        return_if_error(val_sql_run(t->ds, t->insert, err));
    }
    return TC_OK;
}

/* Inserts all rows of the table. first_item: as for val_store_tables. */
static tc_status insert_rows(const target *t, const wu_result_file *file, int64_t first_item,
                             tc_err *err)
{
    TC_AUTO(wu_cursor_close) wu_cursor cursor;
    size_t item = 0;
    int64_t n = 0;
    tc_status status = wu_cursor_open(file, t->table, &cursor, err);

    while (wu_cursor_next(&cursor, &status, err)) {
        if (cursor.item < item)
            return tc_fail(err, TC_BAD_INPUT,
                           "%s: %s: row %" PRIu64
                           " is of item %zu: the rows are not in the order of items",
                           file->path, t->table->arrays[0].info->name, cursor.row, cursor.item);
        n = cursor.item == item ? n + 1 : 1;
        item = cursor.item;
        return_if_error(insert_row(t, &cursor, first_item + (int64_t)item, n, err));
    }
    return status;
}

/* Adds the combinations of key values to the table NAME_groups, which lists them. Sets *changed to
 * true if one of them is new. */
static tc_status record_numbers(const target *t, bool *changed, tc_err *err)
{
    TC_AUTO(val_sql_close) sqlite3_stmt *insert = NULL;
    /* Lengths of keys and key_types without the item. */
    const int names_length = (int)(strlen(t->keys) - strlen(", item")),
              types_length = (int)(strlen(t->key_types) - strlen(", item INTEGER NOT NULL"));

    return_if_error(
        val_sql(t->ds, err,
                "CREATE TABLE IF NOT EXISTS \"%w_groups\"(%.*s, PRIMARY KEY(%.*s)) WITHOUT ROWID",
                t->name, types_length, t->key_types, names_length, t->keys));
    return_if_error(val_sql_prepare(t->ds, &insert, err,
                                    "INSERT OR IGNORE INTO \"%w_groups\" VALUES(?%.*s)", t->name,
                                    2 * (int)(t->n_numbers - 1), ",?,?,?,?,?")); /* ",?" per key */
    for (size_t part = 0; part < t->table->n_columns / t->n_columns; part++) {
        bind_numbers(t, insert, part);
        return_if_error(val_sql_run(t->ds, insert, err));
        *changed = *changed || sqlite3_changes(t->ds->db) > 0;
    }
    return TC_OK;
}

/* Stores the rows of one table; creates or extends the data set's table, and its views, if
 * necessary. */
static tc_status store_table(const val_dataset *ds, const wu_result_file *file,
                             const wu_table *table, const char *analysis, int64_t first_item,
                             tc_err *err)
{
    TC_AUTO(close_target) target t;
    bool changed = false;
    return_if_error(open_target(ds, analysis, table, &t, err));

    return_if_error(prepare_table(&t, &changed, err));
    if (t.cut != NULL)
        return_if_error(record_numbers(&t, &changed, err));
    if (t.cut != NULL && changed)
        return_if_error(val_make_views(ds, analysis, table, err));
    return_if_error(prepare_insert(&t, err));
    return insert_rows(&t, file, first_item, err);
}

tc_status val_store_tables(const val_dataset *ds, const wu_result_file *file,
                           const wu_tables *tables, const char *analysis, int64_t first_item,
                           tc_err *err)
{
    assert(first_item > 0);

    for (size_t i = 0; i < tables->n; i++)
        return_if_error(store_table(ds, file, &tables->tables[i], analysis, first_item, err));
    return TC_OK;
}
