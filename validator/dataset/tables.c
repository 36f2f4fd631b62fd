/*
 * The tables of a result as rows of the data set. What columns there are is
 * what the result has, so a new analysis needs nothing here.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "validator/dataset/dataset.h"

/* A table of the data set that is written to. */
typedef struct target {
    const val_dataset *ds;
    char *name;                /* sqlite3_malloc */
    const char *keys;          /* "item INTEGER NOT NULL, n INTEGER NOT NULL" */
    const char *key_names;     /* "item, n": the primary key */
    unsigned n_keys;
    const char **columns;      /* n_columns titles (not owned) ... */
    const char **types;        /* ... and their SQL types */
    size_t n_columns;
    sqlite3_stmt *insert;
} target;

/* --- columns and statements ----------------------------------------------------------- */

static const char *sql_type(wu_dtype dtype)
{
    return dtype == WU_STR ? "TEXT" : dtype == WU_F32 || dtype == WU_F64 ? "REAL" : "INTEGER";
}

static tc_status open_target(target *t, const char *analysis, const char *table, size_t n_columns, tc_err *err)
{
    t->name = sqlite3_mprintf("%s_%s", analysis, table);
    t->columns = calloc(n_columns + 1, sizeof *t->columns);
    t->types = calloc(n_columns + 1, sizeof *t->types);
    t->n_columns = n_columns;
    return t->name == NULL || t->columns == NULL || t->types == NULL ? tc_no_memory(err, table) : TC_OK;
}

static void close_target(target *t)
{
    sqlite3_finalize(t->insert);
    sqlite3_free(t->name);
    free(t->columns);
    free(t->types);
}

static tc_status create_table(const target *t, tc_err *err)
{
    sqlite3_str *const sql = sqlite3_str_new(t->ds->db);

    sqlite3_str_appendf(sql, "CREATE TABLE \"%w\"(%s", t->name, t->keys);
    for (size_t i = 0; i < t->n_columns; i++)
        sqlite3_str_appendf(sql, ", \"%w\" %s", t->columns[i], t->types[i]);
    sqlite3_str_appendf(sql, ", PRIMARY KEY(%s)) WITHOUT ROWID", t->key_names);
    return val_sql_built(t->ds, sql, err);
}

/* Makes the table, or adds the columns that it lacks (a stack's regions have
 * more than a picture's). *changed: there was something to do. */
static tc_status make_ready(const target *t, bool *changed, tc_err *err)
{
    sqlite3_stmt *has = NULL;
    bool row = false;
    tc_status st = val_sql_prepare(t->ds, &has, err, "SELECT 1 FROM pragma_table_info(%Q) WHERE ?1 IS NULL OR "
                                   "name = ?1 COLLATE NOCASE", t->name);

    if (st == TC_OK)
        st = val_sql_step(t->ds, has, &row, err);
    *changed = !row;
    if (st == TC_OK && !row) {
        sqlite3_finalize(has);
        return create_table(t, err);
    }
    for (size_t i = 0; st == TC_OK && i < t->n_columns; i++) {
        sqlite3_reset(has);
        sqlite3_bind_text(has, 1, t->columns[i], -1, SQLITE_STATIC);
        st = val_sql_step(t->ds, has, &row, err);
        sqlite3_reset(has);
        if (st == TC_OK && !row) {
            *changed = true;
            st = val_sql(t->ds, err, "ALTER TABLE \"%w\" ADD COLUMN \"%w\" %s", t->name, t->columns[i], t->types[i]);
        }
    }
    sqlite3_finalize(has);
    return st;
}

/* Parameters: the keys, then the columns. */
static tc_status prepare_insert(target *t, tc_err *err)
{
    sqlite3_str *const sql = sqlite3_str_new(t->ds->db);
    char *text;
    tc_status st;

    sqlite3_str_appendf(sql, "INSERT INTO \"%w\"(%s", t->name, t->key_names);
    for (size_t i = 0; i < t->n_columns; i++)
        sqlite3_str_appendf(sql, ", \"%w\"", t->columns[i]);
    sqlite3_str_appendall(sql, ") VALUES(?");
    for (size_t i = 1; i < t->n_keys + t->n_columns; i++)
        sqlite3_str_appendall(sql, ",?");
    sqlite3_str_appendall(sql, ")");
    text = sqlite3_str_finish(sql);
    if (text == NULL)
        return tc_no_memory(err, t->name);
    st = val_sql_prepare(t->ds, &t->insert, err, "%s", text);
    sqlite3_free(text);
    return st;
}

/* --- values ------------------------------------------------------------------------------ */

/* NaN becomes NULL: SQLite has no other. */
static tc_status bind_value(const target *t, int at, const wu_array_info *info, const unsigned char *p, tc_err *err)
{
    union { int32_t i32; int64_t i64; float f32; double f64; } v;
    char text[WU_CELL_MAX];
    int code = SQLITE_OK;

    switch (info->dtype) {
    case WU_BOOL:
    case WU_U8: code = sqlite3_bind_int(t->insert, at, *p); break;
    case WU_I32: memcpy(&v.i32, p, sizeof v.i32); code = sqlite3_bind_int(t->insert, at, v.i32); break;
    case WU_I64: memcpy(&v.i64, p, sizeof v.i64); code = sqlite3_bind_int64(t->insert, at, v.i64); break;
    case WU_F32: memcpy(&v.f32, p, sizeof v.f32); code = sqlite3_bind_double(t->insert, at, (double)v.f32); break;
    case WU_F64: memcpy(&v.f64, p, sizeof v.f64); code = sqlite3_bind_double(t->insert, at, v.f64); break;
    case WU_STR:
        wu_value_text(info, p, text);
        code = sqlite3_bind_text(t->insert, at, text, -1, SQLITE_TRANSIENT);
        break;
    }
    return code == SQLITE_OK ? TC_OK : val_sql_fault(t->ds, err);
}

static const unsigned char *value_at(const wu_cursor *cursor, const wu_column *column, const wu_array_info **info)
{
    const struct wu_cursor_array *const array = &cursor->arrays[column->source];

    *info = array->info;
    return array->data + column->element * wu_dtype_size(array->info->dtype, array->info->width);
}

/* --- tables with a row for each item, region, cell, point --------------------------------- */

/* Rows belong to their array's row number, or to the item that a column names;
 * then they are counted within the item. */
typedef struct rows {
    const wu_column *item_column;    /* NULL: row i is of item i */
    int64_t item, n;                 /* of the row at hand */
} rows;

static tc_status next_item(rows *r, const wu_cursor *cursor, tc_err *err)
{
    char text[WU_CELL_MAX];
    const wu_array_info *info;
    const unsigned char *p;
    int64_t item;

    if (r->item_column == NULL) {
        r->item = (int64_t)cursor->row;
        return TC_OK;
    }
    p = value_at(cursor, r->item_column, &info);
    wu_value_text(info, p, text);
    item = strtoll(text, NULL, 10);
    if (item < 0 || (uint64_t)item >= cursor->file->n_items || item < r->item)
        return tc_fail(err, TC_BAD_INPUT, "%s: %s: row %" PRIu64 " is of item %" PRId64 ": they are not in order",
                       cursor->file->path, info->name, cursor->row, item);
    r->n = item == r->item ? r->n + 1 : 1;
    r->item = item;
    return TC_OK;
}

static tc_status insert_row(const target *t, const wu_cursor *cursor, const rows *r, int64_t first_item, tc_err *err)
{
    int at = 1;
    tc_status st = TC_OK;

    sqlite3_bind_int64(t->insert, at++, first_item + r->item);
    if (r->item_column != NULL)
        sqlite3_bind_int64(t->insert, at++, r->n);
    for (size_t i = 0; st == TC_OK && i < cursor->table->n_columns; i++) {
        const wu_array_info *info;
        const unsigned char *p;

        if (cursor->table->columns[i].kind != WU_COLUMN_VALUE)
            continue;
        p = value_at(cursor, &cursor->table->columns[i], &info);
        st = bind_value(t, at++, info, p, err);
    }
    return st == TC_OK ? val_sql_run(t->ds, t->insert, err) : st;
}

static tc_status insert_rows(const target *t, const wu_result_file *file, const wu_table *table,
                             const wu_column *item_column, int64_t first_item, tc_err *err)
{
    rows r = { .item_column = item_column };
    wu_cursor cursor;
    bool more = true;
    tc_status st = wu_cursor_open(file, table, &cursor, err);

    while (st == TC_OK && more) {
        st = wu_cursor_next(&cursor, &more, err);
        if (st == TC_OK && more)
            st = next_item(&r, &cursor, err);
        if (st == TC_OK && more)
            st = insert_row(t, &cursor, &r, first_item, err);
    }
    wu_cursor_close(&cursor);
    return st;
}

static tc_status store_rows(const val_dataset *ds, const wu_result_file *file, const wu_table *table,
                            const char *analysis, int64_t first_item, tc_err *err)
{
    target t = { .ds = ds, .keys = "item INTEGER NOT NULL", .key_names = "item", .n_keys = 1 };
    const wu_column *item_column = NULL;
    bool changed;
    tc_status st = open_target(&t, analysis, table->name, table->n_columns, err);

    t.n_columns = 0;
    for (size_t i = 0; st == TC_OK && i < table->n_columns; i++) {
        const wu_column *const column = &table->columns[i];

        if (column->kind == WU_COLUMN_ITEM_NAME)
            item_column = column;
        if (column->kind != WU_COLUMN_VALUE)
            continue;
        t.types[t.n_columns] = sql_type(wu_npz_info(file->npz, table->arrays[column->source])->dtype);
        t.columns[t.n_columns++] = column->title;
    }
    if (item_column != NULL) {
        t.keys = "item INTEGER NOT NULL, n INTEGER NOT NULL";
        t.key_names = "item, n";
        t.n_keys = 2;
    }
    if (st == TC_OK)
        st = make_ready(&t, &changed, err);
    if (st == TC_OK)
        st = prepare_insert(&t, err);
    if (st == TC_OK)
        st = insert_rows(&t, file, table, item_column, first_item, err);
    close_target(&t);
    return st;
}

/* --- features: a row for each item, levels and distance ------------------------------------- */

/* hcc has 4,875 features an item: more than SQLite has columns (2,000), and as
 * one row a feature a million items would have 5,000 million rows. A row for
 * each levels and distance is as small as the numbers themselves, and with the
 * item last in its key, one feature of all items lies together. An index finds
 * all of one item: 1 KB an item. */
typedef struct layout {
    size_t n_groups, width;    /* groups of `width` features, one behind the other */
    struct group {
        unsigned levels, distance;
    } *groups;
} layout;

/* The number behind `prefix`; *text is then behind the number. */
static bool eat_number(const char **text, const char *prefix, unsigned *out)
{
    const size_t n = strlen(prefix);
    char *end;

    if (strncmp(*text, prefix, n) != 0 || (*text)[n] < '0' || (*text)[n] > '9')
        return false;
    *out = (unsigned)strtoul(*text + n, &end, 10);
    *text = end;
    return true;
}

/* "glcm_L64_d03_contrast_mean" to 64, 3 and "contrast_mean"; NULL: not so. */
static const char *split_title(const char *title, struct group *g)
{
    const char *rest = title + strcspn(title, "_");

    return eat_number(&rest, "_L", &g->levels) && eat_number(&rest, "_d", &g->distance) && *rest == '_' ? rest + 1 : NULL;
}

static bool same_group(const struct group *a, const struct group *b)
{
    return a->levels == b->levels && a->distance == b->distance;
}

/* Fills the layout and the columns of the target, from titles[n]. */
static tc_status find_layout(const wu_column *columns, size_t n, layout *l, target *t, tc_err *err)
{
    l->groups = calloc(n + 1, sizeof *l->groups);
    if (l->groups == NULL)
        return tc_no_memory(err, "features");
    for (size_t i = 0; i < n; i++) {
        struct group g = { 0 };
        const char *const rest = split_title(columns[i].title, &g);
        const bool fresh = l->n_groups == 0 || !same_group(&g, &l->groups[l->n_groups - 1]);

        if (fresh && l->n_groups == 1)
            l->width = i;
        if (fresh)
            l->groups[l->n_groups++] = g;
        if (rest != NULL && l->n_groups == 1) {
            t->columns[i] = rest;
            t->types[i] = "REAL";
        } else if (rest == NULL || strcmp(rest, t->columns[i % l->width]) != 0 || fresh != (i % l->width == 0)) {
            return tc_fail(err, TC_INTERNAL, "the feature %s does not fit the others", columns[i].title);
        }
    }
    if (l->n_groups == 1)
        l->width = n;
    t->n_columns = l->width;
    return l->n_groups * l->width == n ? TC_OK : tc_fail(err, TC_INTERNAL, "features are missing");
}

static tc_status insert_features(const target *t, const layout *l, const wu_cursor *cursor, int64_t item, tc_err *err)
{
    const double *const row = (const double *)(const void *)cursor->arrays[0].data;
    tc_status st = TC_OK;

    for (size_t g = 0; st == TC_OK && g < l->n_groups; g++) {
        sqlite3_bind_int64(t->insert, 1, l->groups[g].levels);
        sqlite3_bind_int64(t->insert, 2, l->groups[g].distance);
        sqlite3_bind_int64(t->insert, 3, item);
        for (size_t i = 0; i < l->width; i++)
            sqlite3_bind_double(t->insert, (int)(4 + i), row[g * l->width + i]);
        st = val_sql_run(t->ds, t->insert, err);
    }
    return st;
}

static tc_status insert_all_features(const target *t, const layout *l, const wu_result_file *file,
                                     const wu_table *table, int64_t first_item, tc_err *err)
{
    wu_cursor cursor;
    bool more = true;
    tc_status st = wu_cursor_open(file, table, &cursor, err);

    while (st == TC_OK && more) {
        st = wu_cursor_next(&cursor, &more, err);
        if (st == TC_OK && more)
            st = insert_features(t, l, &cursor, first_item + (int64_t)cursor.row, err);
    }
    wu_cursor_close(&cursor);
    return st;
}

/* Which levels and distances there are; *changed: some are new. */
static tc_status record_groups(const target *t, const layout *l, bool *changed, tc_err *err)
{
    sqlite3_stmt *insert = NULL;
    tc_status st = val_sql(t->ds, err, "CREATE TABLE IF NOT EXISTS \"%w_groups\"(levels INTEGER NOT NULL, "
                           "distance INTEGER NOT NULL, PRIMARY KEY(levels, distance)) WITHOUT ROWID", t->name);

    if (st == TC_OK)
        st = val_sql_prepare(t->ds, &insert, err, "INSERT OR IGNORE INTO \"%w_groups\" VALUES(?, ?)", t->name);
    for (size_t g = 0; st == TC_OK && g < l->n_groups; g++) {
        sqlite3_bind_int64(insert, 1, l->groups[g].levels);
        sqlite3_bind_int64(insert, 2, l->groups[g].distance);
        st = val_sql_run(t->ds, insert, err);
        *changed = *changed || sqlite3_changes(t->ds->db) > 0;
    }
    sqlite3_finalize(insert);
    return st;
}

static tc_status store_features(const val_dataset *ds, const wu_result_file *file, const wu_table *table,
                                const char *analysis, int64_t first_item, tc_err *err)
{
    target t = { .ds = ds, .key_names = "levels, distance, item", .n_keys = 3,
                 .keys = "levels INTEGER NOT NULL, distance INTEGER NOT NULL, item INTEGER NOT NULL" };
    layout l = { .n_groups = 0 };
    bool changed = false;
    tc_status st = open_target(&t, analysis, table->name, table->n_columns, err);

    /* The first column is the item's name. */
    if (st == TC_OK)
        st = find_layout(table->columns + 1, table->n_columns - 1, &l, &t, err);
    if (st == TC_OK)
        st = make_ready(&t, &changed, err);
    if (st == TC_OK)
        st = record_groups(&t, &l, &changed, err);
    if (st == TC_OK && changed)
        st = val_sql(ds, err, "CREATE INDEX IF NOT EXISTS \"%w_by_item\" ON \"%w\"(item)", t.name, t.name);
    if (st == TC_OK && changed)
        st = val_make_views(ds, analysis, err);
    if (st == TC_OK)
        st = prepare_insert(&t, err);
    if (st == TC_OK)
        st = insert_all_features(&t, &l, file, table, first_item, err);
    free(l.groups);
    close_target(&t);
    return st;
}

tc_status val_store_tables(const val_dataset *ds, const wu_result_file *file, const wu_tables *tables,
                           const char *analysis, int64_t first_item, tc_err *err)
{
    tc_status st = TC_OK;

    for (size_t i = 0; st == TC_OK && i < tables->n; i++) {
        const wu_table *const table = &tables->tables[i];

        st = strcmp(table->name, "features") == 0
            ? store_features(ds, file, table, analysis, first_item, err)
            : store_rows(ds, file, table, analysis, first_item, err);
    }
    return st;
}
