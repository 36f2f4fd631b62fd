/*
 * store_try DATASET ANALYSIS RESULT.npz...: stores the tables of results in a data set, each as a
 * unit, without the checks that need the work unit and a known analysis. Exit code 0: they are
 * stored.
 */
#include <stdio.h>

#include "validator/dataset/dataset.h"

static tc_status store(const val_dataset *ds, const char *analysis, const char *path, tc_err *err)
{
    wu_result_file file = { 0 };
    wu_tables tables = { 0 };
    sqlite3_int64 unit = 0, first = 0;
    tc_status status = wu_result_file_open(path, NULL, &file, err);

    if (status == TC_OK)
        status = wu_tables_find(&file, &tables, err);
    if (status == TC_OK)
        status =
            val_sql(ds, err,
                    "INSERT INTO units(workunit, name, result, analysis, parameters, n_items, "
                    "arrays, checked, program, stored, sha256) "
                    "VALUES(%Q, %Q, 'r', %Q, '{}', %d, '{}', 'result', 'store_try', 'now', %Q)",
                    path, path, analysis, (int)file.n_items, path);
    unit = sqlite3_last_insert_rowid(ds->db);
    for (size_t i = 0; status == TC_OK && i < file.n_items; i++) {
        status = val_sql(ds, err, "INSERT INTO items(unit, number, name) VALUES(%lld, %d, %Q)",
                         unit, (int)i, file.item_names[i]);
        if (i == 0)
            first = sqlite3_last_insert_rowid(ds->db);
    }
    if (status == TC_OK)
        status = val_store_tables(ds, &file, &tables, analysis, first, err);
    wu_tables_free(&tables);
    wu_result_file_close(&file);
    return status;
}

int main(int argc, char **argv)
{
    tc_err err = { "" };
    val_dataset ds;
    tc_status status = val_dataset_open(argc > 3 ? argv[1] : "", VAL_CREATE, &ds, &err);

    for (int i = 3; status == TC_OK && i < argc; i++)
        status = store(&ds, argv[2], argv[i], &err);
    val_dataset_close(&ds);
    if (status != TC_OK)
        fprintf(stderr, "store_try: %s\n", err.message);
    return status == TC_OK ? 0 : 2;
}
