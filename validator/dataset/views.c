/*
 * Views over a table of features (tables.c): every number in a row of its own,
 * and all of an item in one row.
 */
#include <string.h>

#include "validator/dataset/dataset.h"

/* Distances in a wide view: with 65 features each, 25 leave room below SQLite's
 * 2,000 columns and 64 joined tables. */
enum { WIDE = 25 };

static tc_status drop_views(const val_dataset *ds, const char *analysis, tc_err *err)
{
    sqlite3_stmt *names;
    sqlite3_str *const sql = sqlite3_str_new(ds->db);
    bool row = true;
    tc_status st = val_sql_prepare(ds, &names, err, "SELECT name FROM sqlite_schema WHERE type = 'view' AND "
                                   "(name = '%q_long' OR name GLOB '%q_wide_L*')", analysis, analysis);

    while (st == TC_OK && row) {
        st = val_sql_step(ds, names, &row, err);
        if (st == TC_OK && row)
            sqlite3_str_appendf(sql, "DROP VIEW \"%w\";", sqlite3_column_text(names, 0));
    }
    sqlite3_finalize(names);
    if (st == TC_OK && sqlite3_str_length(sql) > 0)
        return val_sql_built(ds, sql, err);
    sqlite3_free(sqlite3_str_finish(sql));
    return st;
}

/* The columns of the table but its keys. */
static tc_status columns_of(const val_dataset *ds, const char *analysis, sqlite3_stmt **out, tc_err *err)
{
    return val_sql_prepare(ds, out, err, "SELECT name FROM pragma_table_info('%q_features') "
                           "WHERE pk = 0 ORDER BY cid", analysis);
}

static tc_status make_long(const val_dataset *ds, const char *analysis, tc_err *err)
{
    sqlite3_str *const sql = sqlite3_str_new(ds->db);
    sqlite3_stmt *columns;
    bool row = true;
    const char *union_all = "";
    tc_status st = columns_of(ds, analysis, &columns, err);

    sqlite3_str_appendf(sql, "CREATE VIEW \"%w_long\"(item, levels, distance, feature, statistic, value) AS ", analysis);
    while (st == TC_OK && row) {
        st = val_sql_step(ds, columns, &row, err);
        if (st == TC_OK && row) {
            const char *const name = (const char *)sqlite3_column_text(columns, 0);
            const char *const last = strrchr(name, '_');
            const int n = last == NULL ? (int)strlen(name) : (int)(last - name);

            sqlite3_str_appendf(sql, "%sSELECT item, levels, distance, '%.*q', '%q', \"%w\" FROM \"%w_features\"",
                                union_all, n, name, last == NULL ? "" : last + 1, name, analysis);
            union_all = " UNION ALL ";
        }
    }
    sqlite3_finalize(columns);
    if (st == TC_OK)
        return val_sql_built(ds, sql, err);
    sqlite3_free(sqlite3_str_finish(sql));
    return st;
}

/* The text of a wide view: an item's columns, and the tables that are joined for
 * them. SQLite leaves out the joins whose columns are not asked for. */
typedef struct wide {
    sqlite3_str *columns, *joins;
} wide;

static tc_status add_distance(const val_dataset *ds, const char *analysis, sqlite3_stmt *names, int64_t levels, int64_t d,
                              const wide *w, tc_err *err)
{
    bool row = true;
    tc_status st = TC_OK;

    sqlite3_str_appendf(w->joins, " LEFT JOIN \"%w_features\" d%lld ON d%lld.levels = %lld AND d%lld.distance = %lld "
                        "AND d%lld.item = items.id", analysis, d, d, levels, d, d, d);
    while (st == TC_OK && row) {
        st = val_sql_step(ds, names, &row, err);
        if (st == TC_OK && row)
            sqlite3_str_appendf(w->columns, ", d%lld.\"%w\" AS \"%w_L%lld_d%02lld_%w\"", d,
                                sqlite3_column_text(names, 0), analysis, levels, d, sqlite3_column_text(names, 0));
    }
    sqlite3_reset(names);
    return st;
}

static tc_status add_distances(const val_dataset *ds, const char *analysis, int64_t levels, int64_t block, const wide *w,
                               tc_err *err)
{
    sqlite3_stmt *distances, *names = NULL;
    bool row = true;
    tc_status st = val_sql_prepare(ds, &distances, err, "SELECT distance FROM \"%w_features_groups\" WHERE levels = %lld "
                                   "AND (distance - 1) / %d = %lld ORDER BY distance", analysis, levels, WIDE, block);

    if (st == TC_OK)
        st = columns_of(ds, analysis, &names, err);
    while (st == TC_OK && row) {
        st = val_sql_step(ds, distances, &row, err);
        if (st == TC_OK && row)
            st = add_distance(ds, analysis, names, levels, sqlite3_column_int64(distances, 0), w, err);
    }
    sqlite3_finalize(distances);
    sqlite3_finalize(names);
    return st;
}

/* glcm_wide_L64: distances 1 to 25; glcm_wide_L64_d26: 26 to 50. */
static tc_status make_wide(const val_dataset *ds, const char *analysis, int64_t levels, int64_t block, tc_err *err)
{
    const wide w = { sqlite3_str_new(ds->db), sqlite3_str_new(ds->db) };
    tc_status st = add_distances(ds, analysis, levels, block, &w, err);
    char *const columns = sqlite3_str_finish(w.columns), *const joins = sqlite3_str_finish(w.joins);
    char *const name = block == 0 ? sqlite3_mprintf("%s_wide_L%lld", analysis, levels)
        : sqlite3_mprintf("%s_wide_L%lld_d%lld", analysis, levels, block * WIDE + 1);

    if (st == TC_OK && (columns == NULL || joins == NULL || name == NULL))
        st = tc_no_memory(err, "a view");
    if (st == TC_OK)
        st = val_sql(ds, err, "CREATE VIEW \"%w\" AS SELECT items.id AS item, items.name AS name%s FROM units "
                     "JOIN items ON items.unit = units.id%s WHERE units.analysis = %Q", name, columns, joins, analysis);
    sqlite3_free(columns);
    sqlite3_free(joins);
    sqlite3_free(name);
    return st;
}

tc_status val_make_views(const val_dataset *ds, const char *analysis, tc_err *err)
{
    sqlite3_stmt *blocks = NULL;
    bool row = true;
    tc_status st = drop_views(ds, analysis, err);

    if (st == TC_OK)
        st = make_long(ds, analysis, err);
    if (st == TC_OK)
        st = val_sql_prepare(ds, &blocks, err, "SELECT DISTINCT levels, (distance - 1) / %d FROM \"%w_features_groups\" "
                             "ORDER BY 1, 2", WIDE, analysis);
    while (st == TC_OK && row) {
        st = val_sql_step(ds, blocks, &row, err);
        if (st == TC_OK && row)
            st = make_wide(ds, analysis, sqlite3_column_int64(blocks, 0), sqlite3_column_int64(blocks, 1), err);
    }
    sqlite3_finalize(blocks);
    return st;
}
