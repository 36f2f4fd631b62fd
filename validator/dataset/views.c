/*
 * Views over a table that is cut (tables.c): every number in a row of its own,
 * and all of an item in one row.
 */
#include <stdio.h>
#include <string.h>

#include "validator/dataset/dataset.h"

/* Columns of a wide view, below SQLite's 2,000, and the most tables that are joined for
 * them, below its 64. */
enum { WIDE_COLUMNS = 1990, WIDE_JOINS = 25 };

/* A table of the data set, and what its rows and columns are. */
typedef struct cut_table {
    const val_dataset *ds;
    const char *analysis;
    const wu_declared *declared;   /* the first n_keys axes are keys, the others words */
    unsigned n_keys;
    char *name, *base;             /* ANALYSIS_TABLE; with which views are named (sqlite3_malloc) */
    int64_t joined;                /* values of the last key that one wide view has room for */
} cut_table;

char *val_view_base(const char *analysis, const char *table)
{
    return strcmp(table, "features") == 0 ? sqlite3_mprintf("%s", analysis) : sqlite3_mprintf("%s_%s", analysis, table);
}

static tc_status drop_views(const cut_table *t, tc_err *err)
{
    sqlite3_stmt *names;
    sqlite3_str *const sql = sqlite3_str_new(t->ds->db);
    bool row = true;
    tc_status st = val_sql_prepare(t->ds, &names, err, "SELECT name FROM sqlite_schema WHERE type = 'view' AND "
                                   "(name = '%q_long' OR name GLOB '%q_wide*')", t->base, t->base);

    while (st == TC_OK && row) {
        st = val_sql_step(t->ds, names, &row, err);
        if (st == TC_OK && row)
            sqlite3_str_appendf(sql, "DROP VIEW \"%w\";", sqlite3_column_text(names, 0));
    }
    sqlite3_finalize(names);
    if (st == TC_OK && sqlite3_str_length(sql) > 0)
        return val_sql_built(t->ds, sql, err);
    sqlite3_free(sqlite3_str_finish(sql));
    return st;
}

/* The columns of the table but its keys. */
static tc_status columns_of(const cut_table *t, sqlite3_stmt **out, tc_err *err)
{
    return val_sql_prepare(t->ds, out, err, "SELECT name FROM pragma_table_info(%Q) WHERE pk = 0 ORDER BY cid", t->name);
}

/* Of the names of columns only the first word has any underscores (val_cut_axes). */
void val_split(char *name, unsigned n, const char *part[WU_MAX_AXES])
{
    for (unsigned i = n; i-- > 1;) {
        char *const at = strrchr(name, '_');

        part[i] = at == NULL ? "" : at + 1;
        if (at != NULL)
            *at = '\0';
    }
    part[0] = name;
}

/* One column of the table as rows of the long view. */
static void add_select(const cut_table *t, const char *column, sqlite3_str *sql)
{
    const unsigned n_words = t->declared->n_axes - t->n_keys;
    const char *part[WU_MAX_AXES];
    char copy[WU_TITLE_MAX];

    snprintf(copy, sizeof copy, "%s", column);
    val_split(copy, n_words, part);
    sqlite3_str_appendall(sql, "SELECT item");
    for (unsigned i = 0; i < t->n_keys; i++)
        sqlite3_str_appendf(sql, ", \"%w\"", t->declared->axes[i].name);
    for (unsigned i = 0; i < n_words; i++)
        sqlite3_str_appendf(sql, ", %Q", part[i]);
    sqlite3_str_appendf(sql, ", \"%w\" FROM \"%w\"", column, t->name);
}

static tc_status make_long(const cut_table *t, tc_err *err)
{
    sqlite3_str *const sql = sqlite3_str_new(t->ds->db);
    sqlite3_stmt *columns;
    bool row = true;
    const char *before = ", value) AS ";
    tc_status st = columns_of(t, &columns, err);

    sqlite3_str_appendf(sql, "CREATE VIEW \"%w_long\"(item", t->base);
    for (unsigned i = 0; i < t->declared->n_axes; i++)
        sqlite3_str_appendf(sql, ", \"%w\"", t->declared->axes[i].name);
    for (; st == TC_OK && row; before = " UNION ALL ") {
        st = val_sql_step(t->ds, columns, &row, err);
        if (st != TC_OK || !row)
            break;
        sqlite3_str_appendall(sql, before);
        add_select(t, (const char *)sqlite3_column_text(columns, 0), sql);
    }
    sqlite3_finalize(columns);
    if (st == TC_OK)
        return val_sql_built(t->ds, sql, err);
    sqlite3_free(sqlite3_str_finish(sql));
    return st;
}

/* --- wide views --------------------------------------------------------------------------- */

/* A wide view has all rows of an item in which all keys but the last are the same, and the last
 * is in one block of `joined` values. block: the keys' values, and the number of the block. */
static const char *key_name(const cut_table *t, unsigned i)
{
    return t->declared->axes[i].name;
}

/* "_L64", as a title has it. */
static void append_key(const cut_table *t, unsigned i, int64_t value, sqlite3_str *text)
{
    sqlite3_str_appendf(text, "_%s%0*lld", t->declared->axes[i].prefix, (int)t->declared->axes[i].digits, value);
}

/* The columns for one value of the last key, and the join that gives them. SQLite leaves out
 * the joins whose columns are not asked for. */
static tc_status add_value(const cut_table *t, sqlite3_stmt *block, sqlite3_stmt *names, int64_t value,
                           sqlite3_str *columns, sqlite3_str *joins, tc_err *err)
{
    bool row = true;
    tc_status st = TC_OK;

    sqlite3_str_appendf(joins, " LEFT JOIN \"%w\" k%lld ON k%lld.item = items.id", t->name, value, value);
    for (unsigned i = 0; i < t->n_keys; i++)
        sqlite3_str_appendf(joins, " AND k%lld.\"%w\" = %lld", value, key_name(t, i),
                            i + 1 < t->n_keys ? sqlite3_column_int64(block, (int)i) : value);
    while (st == TC_OK && row) {
        const char *name;

        st = val_sql_step(t->ds, names, &row, err);
        if (st != TC_OK || !row)
            break;
        name = (const char *)sqlite3_column_text(names, 0);
        sqlite3_str_appendf(columns, ", k%lld.\"%w\" AS \"%w", value, name,
                            t->declared->title != NULL ? t->declared->title : "");
        for (unsigned i = 0; i < t->n_keys; i++)
            append_key(t, i, i + 1 < t->n_keys ? sqlite3_column_int64(block, (int)i) : value, columns);
        sqlite3_str_appendf(columns, "_%w\"", name);
    }
    sqlite3_reset(names);
    return st;
}

static tc_status add_values(const cut_table *t, sqlite3_stmt *block, sqlite3_str *columns, sqlite3_str *joins, tc_err *err)
{
    const unsigned last = t->n_keys - 1;
    sqlite3_str *const sql = sqlite3_str_new(t->ds->db);
    sqlite3_stmt *values = NULL, *names = NULL;
    bool row = true;
    tc_status st;

    sqlite3_str_appendf(sql, "SELECT \"%w\" FROM \"%w_groups\" WHERE (\"%w\" - 1) / %lld = %lld", key_name(t, last), t->name,
                        key_name(t, last), t->joined, sqlite3_column_int64(block, (int)last));
    for (unsigned i = 0; i < last; i++)
        sqlite3_str_appendf(sql, " AND \"%w\" = %lld", key_name(t, i), sqlite3_column_int64(block, (int)i));
    sqlite3_str_appendall(sql, " ORDER BY 1");
    st = val_sql_query(t->ds, sql, &values, err);
    if (st == TC_OK)
        st = columns_of(t, &names, err);
    while (st == TC_OK && row) {
        st = val_sql_step(t->ds, values, &row, err);
        if (st == TC_OK && row)
            st = add_value(t, block, names, sqlite3_column_int64(values, 0), columns, joins, err);
    }
    sqlite3_finalize(values);
    sqlite3_finalize(names);
    return st;
}

/* glcm_wide_L64: distances 1 to 25; glcm_wide_L64_d26: 26 to 50. */
static tc_status make_wide(const cut_table *t, sqlite3_stmt *block, tc_err *err)
{
    const unsigned last = t->n_keys - 1;
    const int64_t number = sqlite3_column_int64(block, (int)last);
    sqlite3_str *const sql = sqlite3_str_new(t->ds->db), *const joins = sqlite3_str_new(t->ds->db);
    char *text;
    tc_status st;

    sqlite3_str_appendf(sql, "CREATE VIEW \"%w_wide", t->base);
    for (unsigned i = 0; i < last; i++)
        append_key(t, i, sqlite3_column_int64(block, (int)i), sql);
    if (number > 0)
        append_key(t, last, number * t->joined + 1, sql);
    sqlite3_str_appendall(sql, "\" AS SELECT items.id AS item, items.name AS name");
    st = add_values(t, block, sql, joins, err);
    text = sqlite3_str_finish(joins);
    sqlite3_str_appendf(sql, " FROM units JOIN items ON items.unit = units.id%s WHERE units.analysis = %Q",
                        text != NULL ? text : "", t->analysis);
    if (st == TC_OK && text == NULL)
        st = tc_no_memory(err, "a view");
    sqlite3_free(text);
    if (st == TC_OK)
        return val_sql_built(t->ds, sql, err);
    sqlite3_free(sqlite3_str_finish(sql));
    return st;
}

static tc_status make_all_wide(cut_table *t, tc_err *err)
{
    sqlite3_str *const sql = sqlite3_str_new(t->ds->db);
    sqlite3_stmt *blocks = NULL, *count = NULL;
    bool row = true;
    tc_status st = val_sql_prepare(t->ds, &count, err, "SELECT max(1, min(%d, %d / count(*))) FROM pragma_table_info(%Q) "
                                   "WHERE pk = 0", WIDE_JOINS, WIDE_COLUMNS, t->name);

    if (st == TC_OK)
        st = val_sql_step(t->ds, count, &row, err);
    t->joined = st == TC_OK ? sqlite3_column_int64(count, 0) : 1;
    sqlite3_finalize(count);
    sqlite3_str_appendall(sql, "SELECT DISTINCT ");
    for (unsigned i = 0; i + 1 < t->n_keys; i++)
        sqlite3_str_appendf(sql, "\"%w\", ", key_name(t, i));
    sqlite3_str_appendf(sql, "(\"%w\" - 1) / %lld FROM \"%w_groups\" ORDER BY %.*s", key_name(t, t->n_keys - 1), t->joined,
                        t->name, (int)(2 * t->n_keys - 1), "1,2,3,4,5,6");
    if (st == TC_OK)
        st = val_sql_query(t->ds, sql, &blocks, err);
    else
        sqlite3_free(sqlite3_str_finish(sql));
    while (st == TC_OK && row) {
        st = val_sql_step(t->ds, blocks, &row, err);
        if (st == TC_OK && row)
            st = make_wide(t, blocks, err);
    }
    sqlite3_finalize(blocks);
    return st;
}

tc_status val_make_views(const val_dataset *ds, const char *analysis, const wu_table *table, tc_err *err)
{
    cut_table t = { .ds = ds, .analysis = analysis, .declared = table->arrays[0].declared, .n_keys = val_cut_axes(table),
                    .name = sqlite3_mprintf("%s_%s", analysis, table->name), .base = val_view_base(analysis, table->name) };
    tc_status st = t.name == NULL || t.base == NULL ? tc_no_memory(err, "a view") : drop_views(&t, err);

    if (st == TC_OK)
        st = make_long(&t, err);
    if (st == TC_OK)
        st = make_all_wide(&t, err);
    sqlite3_free(t.name);
    sqlite3_free(t.base);
    return st;
}
