/*
 * Exports the data set as CSV. Units are sorted by name, and their items as in the unit, so that
 * the tables do not depend on the order in which units arrived. Everything is read in one
 * transaction, and one row is held at a time.
 */
#include <stdio.h>
#include <string.h>

#include "app/base/os.h"
#include "app/base/text.h"
#include "validator/dataset/dataset.h"
#include "workunits/format/csv.h"

/* The state of an export. */
typedef struct table_writer {
    const val_dataset *ds;
    const char *folder;
    const char *only_table; /* the only table that is requested; NULL: all are */
    char *other_tables; /* [MAX_OTHERS] names of the tables that were not requested; printed if the
                           requested table does not exist */
    sqlite3_str *files; /* "/NAME" of each table written */
    size_t written;     /* number of tables written */
} table_writer;

enum { MAX_OTHERS = 600 }; /* bytes of table_writer.other_tables */

/* Whether the table of the file `file`.csv is to be written. If not, its name is added to
 * x->other_tables. */
static bool is_requested(const table_writer *x, const char *file)
{
    const bool requested = x->only_table == NULL || strcmp(x->only_table, file) == 0;
    const size_t n = strlen(x->other_tables);

    if (!requested)
        snprintf(x->other_tables + n, MAX_OTHERS - n, "%s%s", n > 0 ? ", " : "", file);
    return requested;
}

/* --- cells ----------------------------------------------------------------------------------- */

/* Writes a column of the current row. null: the text that is written for NULL. */
static void put_column(wu_csv *csv, sqlite3_stmt *row, int column, const char *null)
{
    static const wu_array_info f64 = { .dtype = WU_F64 }, i64 = { .dtype = WU_I64 };

    switch (sqlite3_column_type(row, column)) {
    case SQLITE_NULL: wu_csv_put_cell(csv, null); break;
    case SQLITE_FLOAT:
        wu_csv_put_value(csv, &f64, &(double){ sqlite3_column_double(row, column) });
        break;
    case SQLITE_INTEGER:
        wu_csv_put_value(csv, &i64, &(int64_t){ sqlite3_column_int64(row, column) });
        break;
    default: wu_csv_put_cell(csv, (const char *)sqlite3_column_text(row, column)); break;
    }
}

/* Opens a table's file. titles: the first titles of columns, separated by commas. An existing file
 * is replaced only if it begins with these titles, which means that an earlier export wrote it. */
static tc_status open_table(table_writer *x, const char *file, const char *titles, wu_csv *csv,
                            tc_err *err)
{
    TC_AUTOFREE char *const path = wu_join_path(x->folder, file, ".csv");
    if (path == NULL)
        return tc_no_memory(err, file);
    x->written++;
    sqlite3_str_appendf(x->files, "/%s", file);
    return_if_error(wu_new_file_check_replaceable(path, titles, 0, "table of an export", err));
    return wu_csv_open(x->folder, file, csv, err);
}

/* Writes all rows of a query, with the names of its columns as titles. */
static tc_status put_query(const table_writer *x, const char *query, wu_csv *csv, tc_err *err)
{
    TC_AUTO(val_sql_close) sqlite3_stmt *stmt = NULL;
    return_if_error(val_sql_prepare(x->ds, &stmt, err, "%s", query));

    for (int i = 0; i < sqlite3_column_count(stmt); i++)
        wu_csv_put_cell(csv, sqlite3_column_name(stmt, i));
    tc_status status = wu_csv_end_line(csv, err);
    while (val_sql_next(x->ds, stmt, &status, err)) {
        for (int i = 0; i < sqlite3_column_count(stmt); i++)
            put_column(csv, stmt, i, "");
        status = wu_csv_end_line(csv, err);
    }
    return status;
}

/* Writes the table `file`, if it is requested, from a query. titles: as for open_table. */
static tc_status write_query(table_writer *x, const char *file, const char *titles,
                             const char *query, tc_err *err)
{
    wu_csv csv = { 0 };

    if (!is_requested(x, file))
        return TC_OK;
    tc_status status = open_table(x, file, titles, &csv, err);
    if (status == TC_OK)
        status = put_query(x, query, &csv, err);
    return wu_csv_close(&csv, status, err);
}

/* --- rows of items --------------------------------------------------------------------------- */

/* Writes workunit, item and source of the current item. */
static void put_item(wu_csv *csv, sqlite3_stmt *item)
{
    for (int i = 1; i <= 3; i++) /* the columns of the query in put_items */
        put_column(csv, item, i, "");
}

/* A table of an analysis. A "cut" table (tables.c) has several rows an item, one for each
 * combination of its keys, which are axes of numbers such as levels and distance. */
typedef struct analysis_table {
    const char *name; /* the names of the analysis and of the table, joined by "_" */
    char *analysis;   /* sqlite3_malloc */
    char *base;       /* the beginning of the names of the table's views (sqlite3_malloc) */
    int n_keys;       /* a cut table: the number of its key columns; other tables: 0 */
    int n_words;      /* a cut table: the number of words that each column's name consists of */
} analysis_table;

/* A function of this type writes the cells, or the lines, for one row of the table (`row`) of the
 * current item (`item`, a row of the query in put_items). */
typedef tc_status (*row_writer)(const analysis_table *t, sqlite3_stmt *item, sqlite3_stmt *row,
                                wu_csv *csv, tc_err *err);

/* A row_writer: writes one line, with the item and all columns of the row but the first, which is
 * the item's id. */
static tc_status put_row(const analysis_table *t, sqlite3_stmt *item, sqlite3_stmt *row,
                         wu_csv *csv, tc_err *err)
{
    (void)t;
    put_item(csv, item);
    for (int i = 1; i < sqlite3_column_count(row); i++)
        put_column(csv, row, i, "");
    return wu_csv_end_line(csv, err);
}

/* A row_writer: writes a cell for each column after the keys and the item. NULL is written as
 * "nan". If the item has no row for this combination of keys, its numbers were not computed, and
 * the cells are empty. */
static tc_status put_cells(const analysis_table *t, sqlite3_stmt *item, sqlite3_stmt *row,
                           wu_csv *csv, tc_err *err)
{
    const bool has_row = sqlite3_column_type(row, t->n_keys) != SQLITE_NULL;

    (void)item;
    (void)err;
    for (int i = t->n_keys + 1; i < sqlite3_column_count(row); i++)
        put_column(csv, row, i, has_row ? "nan" : "");
    return TC_OK;
}

/* A row_writer: writes a line for each column after the keys and the item. The line has the item,
 * the keys, the words of the column's name, and the value. */
static tc_status put_lines(const analysis_table *t, sqlite3_stmt *item, sqlite3_stmt *row,
                           wu_csv *csv, tc_err *err)
{
    for (int i = t->n_keys + 1; i < sqlite3_column_count(row); i++) {
        const char *words[WU_MAX_AXES];
        char name[WU_TITLE_MAX];

        snprintf(name, sizeof name, "%s", sqlite3_column_name(row, i));
        val_split_column_name(name, (unsigned)t->n_words, words);
        put_item(csv, item);
        for (int k = 0; k < t->n_keys; k++)
            put_column(csv, row, k, "");
        for (int k = 0; k < t->n_words; k++)
            wu_csv_put_cell(csv, words[k]);
        put_column(csv, row, i, "nan");
        return_if_error(wu_csv_end_line(csv, err));
    }
    return TC_OK;
}

/* Writes the rows of all items. rows: a query with the item's id as ?1. one_line: all rows of an
 * item are written to one line. */
static tc_status put_items(const table_writer *x, const analysis_table *t, sqlite3_stmt *rows,
                           row_writer put, bool one_line, wu_csv *csv, tc_err *err)
{
    TC_AUTO(val_sql_close) sqlite3_stmt *items = NULL;
    tc_status status = val_sql_prepare(
        x->ds, &items, err,
        "SELECT items.id, units.workunit, items.name, items.source FROM units JOIN items "
        "ON items.unit = units.id WHERE units.analysis = %Q "
        "ORDER BY units.name, units.workunit, items.number",
        t->analysis);

    while (val_sql_next(x->ds, items, &status, err)) {
        if (one_line)
            put_item(csv, items);
        sqlite3_bind_int64(rows, 1, sqlite3_column_int64(items, 0));
        while (val_sql_next(x->ds, rows, &status, err))
            status = put(t, items, rows, csv, err);
        sqlite3_reset(rows);
        if (status == TC_OK && one_line)
            status = wu_csv_end_line(csv, err);
    }
    return status;
}

/* Writes the titles of the columns: workunit, item, source, and the names that the query returns.
 */
static tc_status put_titles(const table_writer *x, const char *query, wu_csv *csv, tc_err *err)
{
    TC_AUTO(val_sql_close) sqlite3_stmt *titles = NULL;
    tc_status status = val_sql_prepare(x->ds, &titles, err, "%s", query);

    wu_csv_put_cell(csv, "workunit");
    wu_csv_put_cell(csv, "item");
    wu_csv_put_cell(csv, "source");
    while (val_sql_next(x->ds, titles, &status, err))
        wu_csv_put_cell(csv, (const char *)sqlite3_column_text(titles, 0));
    return_if_error(status);
    return wu_csv_end_line(csv, err);
}

/* Writes one file of a table. titles: SQL that returns the titles of the columns after the item.
 * query: SQL that returns the rows of the item ?1. These two and `file` are freed by sqlite3_free.
 */
static tc_status write_rows(table_writer *x, const analysis_table *t, char *file, char *titles,
                            char *query, row_writer put, bool one_line, tc_err *err)
{
    TC_AUTO(val_sql_close) sqlite3_stmt *rows = NULL;
    wu_csv csv = { 0 };
    tc_status status =
        file == NULL || titles == NULL || query == NULL ? tc_no_memory(err, t->name) : TC_OK;

    if (status == TC_OK && is_requested(x, file)) {
        status = open_table(x, file, "workunit,item,source", &csv, err);
        if (status == TC_OK)
            status = put_titles(x, titles, &csv, err);
        if (status == TC_OK)
            status = val_sql_prepare(x->ds, &rows, err, "%s", query);
        if (status == TC_OK)
            status = put_items(x, t, rows, put, one_line, &csv, err);
        status = wu_csv_close(&csv, status, err);
    }
    sqlite3_free(file);
    sqlite3_free(titles);
    sqlite3_free(query);
    return status;
}

/* Writes a table to one file. A cut table is written to two files, like its views (views.c): "wide"
 * with one row an item, and "long" with one row a number. */
static tc_status write_table(table_writer *x, const analysis_table *t, tc_err *err)
{
    /* The keys are the first n_keys columns, and ORDER BY accepts numbers of columns. The first n
     * characters of `order` are the numbers 1 to n_keys, separated by commas. */
    static const char order[] = "1,2,3,4,5,6";
    const int n = 2 * t->n_keys - 1;

    if (t->n_keys == 0)
        return write_rows(
            x, t, sqlite3_mprintf("%s", t->name),
            sqlite3_mprintf("SELECT name FROM pragma_table_info(%Q) WHERE cid > 0 ORDER BY cid",
                            t->name),
            sqlite3_mprintf("SELECT * FROM \"%w\" WHERE item = ?1", t->name), put_row, false, err);
    /* There is one wide view for each combination of the keys except the last, such as
     * glcm_wide_L64. The first two columns of a view (cid 0 and 1) identify the item. */
    return_if_error(write_rows(
        x, t, sqlite3_mprintf("%s_wide", t->base),
        sqlite3_mprintf("SELECT i.name FROM sqlite_schema AS s, pragma_table_info(s.name) AS i "
                        "WHERE s.type = 'view' "
                        "AND s.name GLOB '%q_wide*' AND i.cid > 1 ORDER BY s.rowid, i.cid",
                        t->base),
        sqlite3_mprintf(
            "SELECT * FROM \"%w_groups\" NATURAL LEFT JOIN (SELECT * FROM \"%w\" WHERE item = ?1) "
            "ORDER BY %.*s",
            t->name, t->name, n, order),
        put_cells, true, err));
    return write_rows(
        x, t, sqlite3_mprintf("%s_long", t->base),
        sqlite3_mprintf("SELECT name FROM pragma_table_info('%q_long') WHERE cid > 0 ORDER BY cid",
                        t->base),
        sqlite3_mprintf("SELECT * FROM \"%w\" WHERE item = ?1 ORDER BY %.*s", t->name, n, order),
        put_lines, false, err);
}

/* Fills *t for the table `name`. */
static tc_status find_table(const table_writer *x, const char *name, analysis_table *t, tc_err *err)
{
    const size_t n = strcspn(name, "_");
    TC_AUTO(val_sql_close) sqlite3_stmt *keys = NULL;

    *t = (analysis_table){ .name = name, .analysis = sqlite3_mprintf("%.*s", (int)n, name) };
    t->base = t->analysis == NULL ? NULL : val_view_base(t->analysis, name + n + (name[n] == '_'));
    if (t->base == NULL)
        return tc_no_memory(err, name);
    /* The columns of the long view are item, keys, words and value. */
    tc_status status =
        val_sql_prepare(x->ds, &keys, err,
                        "SELECT (SELECT count(*) FROM pragma_table_info('%q_groups')), "
                        "(SELECT count(*) FROM pragma_table_info('%q_long'))",
                        name, t->base);
    (void)val_sql_next(x->ds, keys, &status, err);
    return_if_error(status);
    t->n_keys = sqlite3_column_int(keys, 0);
    t->n_words = sqlite3_column_int(keys, 1) - t->n_keys - 2;
    if (t->n_keys > 0 && (t->n_keys > WU_MAX_AXES || t->n_words < 0 || t->n_words > WU_MAX_AXES))
        return tc_fail(err, TC_IO, "%.600s: the views of the table %.64s were not made by texcell",
                       x->ds->path, name);
    return TC_OK;
}

static void free_table(analysis_table *t)
{
    sqlite3_free(t->analysis);
    sqlite3_free(t->base);
}

/* Writes all tables whose rows belong to items. */
static tc_status write_tables(table_writer *x, tc_err *err)
{
    TC_AUTO(val_sql_close) sqlite3_stmt *tables = NULL;
    tc_status status = val_sql_item_tables(x->ds, &tables, err);

    while (val_sql_next(x->ds, tables, &status, err)) {
        TC_AUTO(free_table) analysis_table t = { .name = NULL };

        return_if_error(find_table(x, (const char *)sqlite3_column_text(tables, 0), &t, err));
        return_if_error(write_table(x, &t, err));
    }
    return status;
}

/* The tables in the folder that an export did not write. */
typedef struct stale_tables {
    const char *files; /* the tables that the export wrote: "/NAME/NAME/" */
    char first[256];   /* the first of the other tables in alphabetical order */
    int n;             /* number of the other tables */
} stale_tables;

/* Counts an entry of the folder if it is a table that this export did not write, or the temporary
 * file of an export that was killed. */
static int count_stale(void *user, const char *name, bool may_be_folder)
{
    stale_tables *const stale = user;
    const size_t n = strlen(name);
    const bool temporary = n > 8 && strcmp(name + n - 8, ".csv.tmp") == 0;
    char own[300];

    (void)may_be_folder;
    if (n > 255 || !(temporary || (n > 4 && strcmp(name + n - 4, ".csv") == 0)))
        return 0;
    snprintf(own, sizeof own, "/%.*s/", (int)(n - 4), name);
    if (!temporary && strstr(stale->files, own) != NULL)
        return 0;
    if (stale->n++ == 0 || strcmp(name, stale->first) < 0)
        snprintf(stale->first, sizeof stale->first, "%s", name);
    return 0;
}

/* Prints a note if the folder has tables that this export did not write. */
static void note_stale(const table_writer *x)
{
    stale_tables stale = { .files = sqlite3_str_value(x->files) };

    if (stale.files != NULL)
        (void)os_list(x->folder, count_stale, &stale);
    if (stale.n > 0)
        fprintf(stderr,
                "texcell-assimilate: note: %s has %d file%s that this export did not write, such "
                "as %s: remove what is no longer wanted\n",
                x->folder, stale.n, stale.n == 1 ? "" : "s", tc_make_printable(stale.first));
}

tc_status val_export(const val_dataset *ds, const char *folder, const char *only, size_t *written,
                     tc_err *err)
{
    static const struct {
        const char *file, *titles, *query;
    } common[] = {
        { "units", "workunit,name,wu_id",
          "SELECT workunit, name, wu_id, result, analysis, parameters, n_items, checked, "
          "kept, program, stored "
          "FROM units ORDER BY name, workunit" },
        { "items", "workunit,number,item",
          "SELECT units.workunit, number, items.name AS item, source FROM units JOIN "
          "items ON items.unit = units.id "
          "ORDER BY units.name, units.workunit, number" },
        { "aliases", "workunit,name,wu_id",
          "SELECT units.workunit, aliases.name, aliases.wu_id, aliases.result, aliases.stored FROM "
          "aliases JOIN units "
          "ON units.id = aliases.unit ORDER BY aliases.name, aliases.wu_id, units.workunit" },
        { "refused", "kind,reason,name",
          "SELECT kind, reason, name, wu_id, result, kept, stored FROM refused ORDER BY "
          "name, result, reason" },
        { "failed", "name,wu_id,batch",
          "SELECT name, wu_id, batch, error_mask, reasons, stored FROM failed ORDER BY "
          "name, wu_id" },
    };
    char other_tables[MAX_OTHERS] = "";
    table_writer x = {
        .ds = ds, .folder = folder, .only_table = only, .other_tables = other_tables
    };
    return_if_error(wu_make_folder(folder, err));
    x.files = sqlite3_str_new(NULL);
    tc_status status = val_sql(ds, err, "BEGIN");
    for (size_t i = 0; status == TC_OK && i < sizeof common / sizeof common[0]; i++)
        status = write_query(&x, common[i].file, common[i].titles, common[i].query, err);
    if (status == TC_OK)
        status = write_tables(&x, err);
    if (status == TC_OK && x.written == 0)
        status = tc_fail(err, TC_USAGE, "export: there is no table %.64s; there are %s", only,
                         other_tables);
    *written = x.written;
    sqlite3_str_appendall(x.files, "/");
    if (status == TC_OK && only == NULL)
        note_stale(&x);
    sqlite3_free(sqlite3_str_finish(x.files));
    return val_end_transaction(ds, status, err);
}
