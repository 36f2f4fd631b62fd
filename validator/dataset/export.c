/*
 * The data set as CSV: units by name, their items in order, so that the order in
 * which units came does not matter. Reads everything in one transaction, and
 * holds one row.
 */
#include <stdlib.h>
#include <string.h>

#include "validator/dataset/dataset.h"
#include "workunits/format/csv.h"

typedef struct exporting {
    const val_dataset *ds;
    const char *folder, *only;
    size_t written;
} exporting;

/* Makes the rows of a table; `name` is that of the database's table, or of the
 * analysis. */
typedef tc_status (*row_writer)(const exporting *x, const char *name, wu_csv *csv, tc_err *err);

static tc_status write_file(exporting *x, const char *file, const char *name, row_writer write, tc_err *err)
{
    wu_csv csv;
    tc_status st;

    if (x->only != NULL && strcmp(x->only, file) != 0)
        return TC_OK;
    st = wu_csv_open(x->folder, file, &csv, err);
    if (st == TC_OK)
        st = write(x, name, &csv, err);
    x->written++;
    return wu_csv_close(&csv, st, err);
}

/* --- cells ----------------------------------------------------------------------------------- */

/* A column of the row at hand; `null` for NULL. */
static void put_column(wu_csv *csv, sqlite3_stmt *row, int column, const char *null)
{
    static const wu_array_info f64 = { .dtype = WU_F64 };
    char text[WU_CELL_MAX];

    switch (sqlite3_column_type(row, column)) {
    case SQLITE_NULL: wu_csv_put(csv, null); break;
    case SQLITE_FLOAT:
        wu_value_text(&f64, &(double){ sqlite3_column_double(row, column) }, text);
        wu_csv_put(csv, text);
        break;
    default: wu_csv_put(csv, (const char *)sqlite3_column_text(row, column)); break;
    }
}

/* The names of the columns from `first` on. */
static void put_titles(wu_csv *csv, sqlite3_stmt *stmt, int first)
{
    for (int i = first; i < sqlite3_column_count(stmt); i++)
        wu_csv_put(csv, sqlite3_column_name(stmt, i));
}

/* All rows of a query, with titles. */
static tc_status write_query(const exporting *x, const char *query, wu_csv *csv, tc_err *err)
{
    sqlite3_stmt *stmt;
    bool row = true;
    tc_status st = val_sql_prepare(x->ds, &stmt, err, "%s", query);

    if (st == TC_OK) {
        put_titles(csv, stmt, 0);
        st = wu_csv_end_line(csv, err);
    }
    while (st == TC_OK && row) {
        st = val_sql_step(x->ds, stmt, &row, err);
        for (int i = 0; st == TC_OK && row && i < sqlite3_column_count(stmt); i++)
            put_column(csv, stmt, i, "");
        if (st == TC_OK && row)
            st = wu_csv_end_line(csv, err);
    }
    sqlite3_finalize(stmt);
    return st;
}

/* --- rows of items ------------------------------------------------------------------------------ */

/* Every item of an analysis' units, in the order of the export. */
static tc_status items_of(const exporting *x, const char *analysis, size_t length, sqlite3_stmt **out, tc_err *err)
{
    return val_sql_prepare(x->ds, out, err, "SELECT items.id, units.workunit, items.name FROM units JOIN items "
                           "ON items.unit = units.id WHERE units.analysis = '%.*q' "
                           "ORDER BY units.name, units.workunit, items.number", (int)length, analysis);
}

static void put_item(wu_csv *csv, sqlite3_stmt *item)
{
    put_column(csv, item, 1, "");
    put_column(csv, item, 2, "");
}

static tc_status write_lines_of_item(const exporting *x, sqlite3_stmt *item, sqlite3_stmt *lines, wu_csv *csv, tc_err *err)
{
    bool row = true;
    tc_status st = TC_OK;

    sqlite3_bind_int64(lines, 1, sqlite3_column_int64(item, 0));
    while (st == TC_OK && row) {
        st = val_sql_step(x->ds, lines, &row, err);
        if (st != TC_OK || !row)
            break;
        put_item(csv, item);
        for (int i = 1; i < sqlite3_column_count(lines); i++)
            put_column(csv, lines, i, "");
        st = wu_csv_end_line(csv, err);
    }
    sqlite3_reset(lines);
    return st;
}

/* A table whose key begins with the item, which is its first column. */
static tc_status write_lines(const exporting *x, const char *table, wu_csv *csv, tc_err *err)
{
    sqlite3_stmt *lines, *items = NULL;
    bool row = true;
    tc_status st = val_sql_prepare(x->ds, &lines, err, "SELECT * FROM \"%w\" WHERE item = ?1", table);

    if (st == TC_OK)
        st = items_of(x, table, strcspn(table, "_"), &items, err);
    if (st == TC_OK) {
        wu_csv_put(csv, "workunit");
        wu_csv_put(csv, "item");
        put_titles(csv, lines, 1);
        st = wu_csv_end_line(csv, err);
    }
    while (st == TC_OK && row) {
        st = val_sql_step(x->ds, items, &row, err);
        if (st == TC_OK && row)
            st = write_lines_of_item(x, items, lines, csv, err);
    }
    sqlite3_finalize(lines);
    sqlite3_finalize(items);
    return st;
}

/* --- features ------------------------------------------------------------------------------------ */

typedef struct features {
    const char *analysis;
    sqlite3_stmt *items;       /* items_of */
    sqlite3_stmt *groups;      /* levels, distance */
    sqlite3_stmt *numbers;     /* levels ?1, distance ?2, item ?3: as tables.c lays them out */
    int first;                 /* column of the first number */
} features;

static tc_status open_features(const exporting *x, const char *analysis, features *f, tc_err *err)
{
    tc_status st;

    *f = (features){ .analysis = analysis, .first = 3 };
    st = items_of(x, analysis, strlen(analysis), &f->items, err);
    if (st == TC_OK)
        st = val_sql_prepare(x->ds, &f->groups, err, "SELECT levels, distance FROM \"%w_features_groups\" ORDER BY 1, 2",
                             analysis);
    if (st == TC_OK)
        st = val_sql_prepare(x->ds, &f->numbers, err, "SELECT * FROM \"%w_features\" WHERE levels = ?1 AND distance = ?2 "
                             "AND item = ?3", analysis);
    return st;
}

static void close_features(features *f)
{
    sqlite3_finalize(f->items);
    sqlite3_finalize(f->groups);
    sqlite3_finalize(f->numbers);
}

/* Calls `put` for every group; *row: whether the item has numbers there. Without
 * `put` for titles there is no item. */
typedef tc_status (*group_writer)(const features *f, bool row, wu_csv *csv, tc_err *err);

static tc_status each_group(const exporting *x, const features *f, bool item, group_writer put, wu_csv *csv, tc_err *err)
{
    bool group = true, row = false;
    tc_status st = TC_OK;

    while (st == TC_OK && group) {
        st = val_sql_step(x->ds, f->groups, &group, err);
        if (st != TC_OK || !group)
            break;
        sqlite3_bind_int64(f->numbers, 1, sqlite3_column_int64(f->groups, 0));
        sqlite3_bind_int64(f->numbers, 2, sqlite3_column_int64(f->groups, 1));
        if (item) {
            sqlite3_bind_int64(f->numbers, 3, sqlite3_column_int64(f->items, 0));
            st = val_sql_step(x->ds, f->numbers, &row, err);
        }
        if (st == TC_OK)
            st = put(f, row, csv, err);
        sqlite3_reset(f->numbers);
    }
    sqlite3_reset(f->groups);
    return st;
}

/* "glcm_L64_d03_contrast_mean", as the result calls it. */
static tc_status put_wide_titles(const features *f, bool row, wu_csv *csv, tc_err *err)
{
    (void)row;
    for (int i = f->first; i < sqlite3_column_count(f->numbers); i++) {
        char *const title = sqlite3_mprintf("%s_L%lld_d%02lld_%s", f->analysis, sqlite3_column_int64(f->groups, 0),
                                            sqlite3_column_int64(f->groups, 1), sqlite3_column_name(f->numbers, i));

        if (title == NULL)
            return tc_no_memory(err, "titles");
        wu_csv_put(csv, title);
        sqlite3_free(title);
    }
    return TC_OK;
}

/* "nan" is a number that is not one; empty: it was not asked for. */
static tc_status put_wide(const features *f, bool row, wu_csv *csv, tc_err *err)
{
    (void)err;
    for (int i = f->first; i < sqlite3_column_count(f->numbers); i++) {
        if (row)
            put_column(csv, f->numbers, i, "nan");
        else
            wu_csv_put(csv, "");
    }
    return TC_OK;
}

static tc_status put_long(const features *f, bool row, wu_csv *csv, tc_err *err)
{
    tc_status st = TC_OK;

    for (int i = f->first; row && st == TC_OK && i < sqlite3_column_count(f->numbers); i++) {
        char name[128];
        char *last;

        snprintf(name, sizeof name, "%s", sqlite3_column_name(f->numbers, i));
        last = strrchr(name, '_');
        if (last != NULL)
            *last = '\0';
        put_item(csv, f->items);
        put_column(csv, f->groups, 0, "");
        put_column(csv, f->groups, 1, "");
        wu_csv_put(csv, name);
        wu_csv_put(csv, last != NULL ? last + 1 : "");
        put_column(csv, f->numbers, i, "nan");
        st = wu_csv_end_line(csv, err);
    }
    return st;
}

static tc_status write_wide(const exporting *x, const char *analysis, wu_csv *csv, tc_err *err)
{
    features f;
    bool row = true;
    tc_status st = open_features(x, analysis, &f, err);

    wu_csv_put(csv, "workunit");
    wu_csv_put(csv, "item");
    if (st == TC_OK)
        st = each_group(x, &f, false, put_wide_titles, csv, err);
    while (st == TC_OK && row) {
        st = wu_csv_end_line(csv, err);
        if (st == TC_OK)
            st = val_sql_step(x->ds, f.items, &row, err);
        if (st == TC_OK && row) {
            put_item(csv, f.items);
            st = each_group(x, &f, true, put_wide, csv, err);
        }
    }
    close_features(&f);
    return st;
}

static tc_status write_long(const exporting *x, const char *analysis, wu_csv *csv, tc_err *err)
{
    static const char *const titles[] = { "workunit", "item", "levels", "distance", "feature", "statistic", "value" };
    features f;
    bool row = true;
    tc_status st = open_features(x, analysis, &f, err);

    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++)
        wu_csv_put(csv, titles[i]);
    if (st == TC_OK)
        st = wu_csv_end_line(csv, err);
    while (st == TC_OK && row) {
        st = val_sql_step(x->ds, f.items, &row, err);
        if (st == TC_OK && row)
            st = each_group(x, &f, true, put_long, csv, err);
    }
    close_features(&f);
    return st;
}

/* --- all ----------------------------------------------------------------------------------------- */

/* A table of an analysis; features become two files. */
static tc_status write_table(exporting *x, const char *table, tc_err *err)
{
    char *const wide = sqlite3_mprintf("%.*s_wide", (int)strcspn(table, "_"), table);
    char *const tall = sqlite3_mprintf("%.*s_long", (int)strcspn(table, "_"), table);
    char *const analysis = sqlite3_mprintf("%.*s", (int)strcspn(table, "_"), table);
    tc_status st = wide == NULL || tall == NULL || analysis == NULL ? tc_no_memory(err, table) : TC_OK;

    if (st == TC_OK && strcmp(table + strcspn(table, "_"), "_features") != 0)
        st = write_file(x, table, table, write_lines, err);
    else if (st == TC_OK) {
        st = write_file(x, wide, analysis, write_wide, err);
        if (st == TC_OK)
            st = write_file(x, tall, analysis, write_long, err);
    }
    sqlite3_free(wide);
    sqlite3_free(tall);
    sqlite3_free(analysis);
    return st;
}

static tc_status write_tables(exporting *x, tc_err *err)
{
    sqlite3_stmt *tables;
    bool row = true;
    tc_status st = val_sql_prepare(x->ds, &tables, err, "SELECT name FROM sqlite_schema AS s WHERE type = 'table' AND "
                                   "EXISTS (SELECT 1 FROM pragma_table_info(s.name) WHERE name = 'item') ORDER BY name");

    while (st == TC_OK && row) {
        st = val_sql_step(x->ds, tables, &row, err);
        if (st == TC_OK && row)
            st = write_table(x, (const char *)sqlite3_column_text(tables, 0), err);
    }
    sqlite3_finalize(tables);
    return st;
}

tc_status val_export(const val_dataset *ds, const char *folder, const char *only, size_t *written, tc_err *err)
{
    static const struct { const char *file, *query; } common[] = {
        { "units", "SELECT workunit, name, wu_id, result, analysis, parameters, n_items, checked, kept, program, stored "
                   "FROM units ORDER BY name, workunit" },
        { "items", "SELECT units.workunit, number, items.name AS item FROM units JOIN items ON items.unit = units.id "
                   "ORDER BY units.name, units.workunit, number" },
        { "refused", "SELECT kind, reason, name, wu_id, result, kept, stored FROM refused ORDER BY name, result, reason" },
        { "failed", "SELECT name, wu_id, batch, error_mask, reasons, stored FROM failed ORDER BY name, wu_id" },
    };
    exporting x = { .ds = ds, .folder = folder, .only = only };
    tc_status st = wu_make_folder(folder, err);

    if (st == TC_OK)
        st = val_sql(ds, err, "BEGIN");
    for (size_t i = 0; st == TC_OK && i < sizeof common / sizeof common[0]; i++)
        st = write_file(&x, common[i].file, common[i].query, write_query, err);
    if (st == TC_OK)
        st = write_tables(&x, err);
    if (st == TC_OK && x.written == 0)
        st = tc_fail(err, TC_USAGE, "export: there is no table %.64s; without --only, all are written", only);
    *written = x.written;
    return val_end(ds, st, err);
}
