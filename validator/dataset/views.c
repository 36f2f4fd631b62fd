/*
 * Makes the SQL views over a cut table of the data set. In a cut table (dataset.h) each item has
 * several rows: one for each combination of values of the key columns, such as levels and distance.
 * The long view has a row for each value in the table's other columns. The wide views have a row
 * for each item.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "validator/dataset/dataset.h"

enum {
    WIDE_COLUMNS = 1990, /* columns of a wide view: fewer than SQLite's limit of 2,000 */
    WIDE_JOINS = 25      /* the most joins of a wide view: fewer than SQLite's limit of 64 */
};

/* A cut table of the data set. */
typedef struct cut_table {
    const val_dataset *ds;
    const char *analysis;
    const wu_declaration *declared; /* the array's declaration: the entries of the first n_keys
                                        axes are values of key columns; the words of the other axes
                                        name the columns */
    unsigned n_keys;
    char *name;            /* the analysis and the table, joined by "_" (sqlite3_malloc) */
    char *base;            /* the beginning of the views' names (sqlite3_malloc) */
    int64_t keys_per_view; /* a wide view has columns for at most this number of values of
                              the last key */
} cut_table;

char *val_view_base(const char *analysis, const char *table)
{
    return strcmp(table, "features") == 0 ? sqlite3_mprintf("%s", analysis)
                                          : sqlite3_mprintf("%s_%s", analysis, table);
}

/* Removes the older views over the table. */
static tc_status drop_views(const cut_table *t, tc_err *err)
{
    TC_AUTO(val_sql_close) sqlite3_stmt *names = NULL;
    sqlite3_str *const sql = sqlite3_str_new(t->ds->db);
    tc_status status = val_sql_prepare(t->ds, &names, err,
                                       "SELECT name FROM sqlite_schema WHERE type = 'view' AND "
                                       "(name = '%q_long' OR name GLOB '%q_wide*')",
                                       t->base, t->base);

    while (val_sql_next(t->ds, names, &status, err))
        sqlite3_str_appendf(sql, "DROP VIEW \"%w\";", sqlite3_column_text(names, 0));
    if (status == TC_OK && sqlite3_str_length(sql) > 0)
        return val_sql_execute_built(t->ds, sql, err);
    sqlite3_free(sqlite3_str_finish(sql));
    return status;
}

/* Prepares a query for the names of the table's columns that are not keys. */
static tc_status prepare_columns(const cut_table *t, sqlite3_stmt **out, tc_err *err)
{
    return val_sql_prepare(t->ds, out, err,
                           "SELECT name FROM pragma_table_info(%Q) WHERE pk = 0 ORDER BY cid",
                           t->name);
}

/* Splits the name at its last n - 1 underscores, as only the first word may contain underscores
 * (val_cut_axes). */
void val_split_column_name(char *name, unsigned n, const char *part[WU_MAX_AXES])
{
    assert(n > 0 && n <= WU_MAX_AXES);
    for (unsigned i = n; i-- > 1;) {
        char *const underscore = strrchr(name, '_');

        part[i] = underscore == NULL ? "" : underscore + 1;
        if (underscore != NULL)
            *underscore = '\0';
    }
    part[0] = name;
}

/* Appends the SELECT that makes one column of the table into rows of the long view. */
static void add_select(const cut_table *t, const char *column, sqlite3_str *sql)
{
    const unsigned n_words = t->declared->n_axes - t->n_keys;
    const char *part[WU_MAX_AXES];
    char copy[WU_TITLE_MAX];

    snprintf(copy, sizeof copy, "%s", column);
    val_split_column_name(copy, n_words, part);
    sqlite3_str_appendall(sql, "SELECT item");
    for (unsigned i = 0; i < t->n_keys; i++)
        sqlite3_str_appendf(sql, ", \"%w\"", t->declared->axes[i].name);
    for (unsigned i = 0; i < n_words; i++)
        sqlite3_str_appendf(sql, ", %Q", part[i]);
    sqlite3_str_appendf(sql, ", \"%w\" FROM \"%w\"", column, t->name);
}

/* Makes the long view: the union of one SELECT for each column of the table. */
static tc_status make_long(const cut_table *t, tc_err *err)
{
    sqlite3_str *const sql = sqlite3_str_new(t->ds->db);
    TC_AUTO(val_sql_close) sqlite3_stmt *columns = NULL;
    const char *before = ", value) AS "; /* the text before the next SELECT */
    tc_status status = prepare_columns(t, &columns, err);

    sqlite3_str_appendf(sql, "CREATE VIEW \"%w_long\"(item", t->base);
    for (unsigned i = 0; i < t->declared->n_axes; i++)
        sqlite3_str_appendf(sql, ", \"%w\"", t->declared->axes[i].name);
    for (; val_sql_next(t->ds, columns, &status, err); before = " UNION ALL ") {
        sqlite3_str_appendall(sql, before);
        add_select(t, (const char *)sqlite3_column_text(columns, 0), sql);
    }
    if (status == TC_OK)
        return val_sql_execute_built(t->ds, sql, err);
    sqlite3_free(sqlite3_str_finish(sql));
    return status;
}

/* --- wide views ------------------------------------------------------------------------------ */

/* Returns the name of key i. */
static const char *key_name(const cut_table *t, unsigned i)
{
    return t->declared->axes[i].name;
}

/* Appends the value of key i as it is written in titles of columns: "_L64" for the value 64. */
static void append_key(const cut_table *t, unsigned i, int64_t value, sqlite3_str *text)
{
    sqlite3_str_appendf(text, "_%s%0*lld", t->declared->axes[i].prefix,
                        (int)t->declared->axes[i].digits, value);
}

/* Appends the columns for one combination of keys (`group`, a row of the table NAME_groups), and
 * the join that provides them. The join is named after the value of the last key (k1, k2, ...).
 * SQLite skips a join whose columns are not used. names: the query of prepare_columns. */
static tc_status add_group(const cut_table *t, sqlite3_stmt *group, sqlite3_stmt *names,
                           sqlite3_str *columns, sqlite3_str *joins, tc_err *err)
{
    const int64_t last = sqlite3_column_int64(group, (int)t->n_keys - 1);
    tc_status status = TC_OK;

    sqlite3_str_appendf(joins, " LEFT JOIN \"%w\" k%lld ON k%lld.item = items.id", t->name, last,
                        last);
    for (unsigned i = 0; i < t->n_keys; i++)
        sqlite3_str_appendf(joins, " AND k%lld.\"%w\" = %lld", last, key_name(t, i),
                            sqlite3_column_int64(group, (int)i));
    while (val_sql_next(t->ds, names, &status, err)) {
        const char *const name = (const char *)sqlite3_column_text(names, 0);

        sqlite3_str_appendf(columns, ", k%lld.\"%w\" AS \"%w", last, name,
                            t->declared->title != NULL ? t->declared->title : "");
        for (unsigned i = 0; i < t->n_keys; i++)
            append_key(t, i, sqlite3_column_int64(group, (int)i), columns);
        sqlite3_str_appendf(columns, "_%w\"", name);
    }
    sqlite3_reset(names);
    return status;
}

/* Makes one wide view, from consecutive rows of NAME_groups, each of which is a combination of
 * keys. All keys but the last have the same values in these rows. The last key is in one block of
 * t->keys_per_view values: for example, glcm_wide_L64 has the distances 1 to 25, and
 * glcm_wide_L64_d26 has 26 to 50. group: the first row of the view; on return, the first row of the
 * next view. Sets *has_next to whether there is such a row. */
static tc_status make_wide(const cut_table *t, sqlite3_stmt *group, sqlite3_stmt *names,
                           bool *has_next, tc_err *err)
{
    const int last = (int)t->n_keys - 1;
    /* The number of the block. Block 0 begins with the value 1 of the last key. */
    const int64_t block = (sqlite3_column_int64(group, last) - 1) / t->keys_per_view;
    sqlite3_str *const sql = sqlite3_str_new(t->ds->db), *const joins = sqlite3_str_new(t->ds->db);
    int64_t key[WU_MAX_AXES];
    char *text;
    tc_status status = TC_OK;

    sqlite3_str_appendf(sql, "CREATE VIEW \"%w_wide", t->base);
    for (int i = 0; i < last; i++) {
        key[i] = sqlite3_column_int64(group, i);
        append_key(t, (unsigned)i, key[i], sql);
    }
    if (block > 0)
        append_key(t, (unsigned)last, block * t->keys_per_view + 1, sql);
    sqlite3_str_appendall(sql, "\" AS SELECT items.id AS item, items.name AS name");
    for (bool same = true; status == TC_OK && same;) {
        status = add_group(t, group, names, sql, joins, err);
        *has_next = val_sql_next(t->ds, group, &status, err);
        same = *has_next && (sqlite3_column_int64(group, last) - 1) / t->keys_per_view == block;
        for (int i = 0; same && i < last; i++)
            same = sqlite3_column_int64(group, i) == key[i];
    }
    text = sqlite3_str_finish(joins);
    sqlite3_str_appendf(
        sql, " FROM units JOIN items ON items.unit = units.id%s WHERE units.analysis = %Q",
        text != NULL ? text : "", t->analysis);
    if (status == TC_OK && text == NULL)
        status = tc_no_memory(err, "a view");
    sqlite3_free(text);
    if (status == TC_OK)
        return val_sql_execute_built(t->ds, sql, err);
    sqlite3_free(sqlite3_str_finish(sql));
    return status;
}

/* Makes all wide views. */
static tc_status make_all_wide(cut_table *t, tc_err *err)
{
    TC_AUTO(val_sql_close) sqlite3_stmt *groups = NULL, *names = NULL;
    tc_status status = prepare_columns(t, &names, err);

    int64_t columns = 0; /* number of columns of the cut table, without the keys */

    while (val_sql_next(t->ds, names, &status, err))
        columns++;
    return_if_error(status);
    t->keys_per_view = columns > WIDE_COLUMNS ? 1 : WIDE_COLUMNS / (columns > 0 ? columns : 1);
    t->keys_per_view = t->keys_per_view < WIDE_JOINS ? t->keys_per_view : WIDE_JOINS;
    /* The first 2 * n_keys - 1 characters of "1,2,3,4,5,6" are the numbers of the key columns. */
    status = val_sql_prepare(t->ds, &groups, err, "SELECT * FROM \"%w_groups\" ORDER BY %.*s",
                             t->name, (int)(2 * t->n_keys - 1), "1,2,3,4,5,6");
    sqlite3_reset(names);
    for (bool has_next = val_sql_next(t->ds, groups, &status, err); status == TC_OK && has_next;)
        status = make_wide(t, groups, names, &has_next, err);
    return status;
}

static void free_table(cut_table *t)
{
    sqlite3_free(t->name);
    sqlite3_free(t->base);
}

tc_status val_make_views(const val_dataset *ds, const char *analysis, const wu_table *table,
                         tc_err *err)
{
    TC_AUTO(free_table)
    cut_table t = { .ds = ds,
                    .analysis = analysis,
                    .declared = table->arrays[0].declared,
                    .n_keys = val_cut_axes(table), /* the number of axes that become keys */
                    .name = sqlite3_mprintf("%s_%s", analysis, table->name),
                    .base = val_view_base(analysis, table->name) };
    assert(t.n_keys > 0);
    return_if_error(t.name == NULL || t.base == NULL ? tc_no_memory(err, "a view")
                                                     : drop_views(&t, err));
    return_if_error(make_long(&t, err));
    return make_all_wide(&t, err);
}
