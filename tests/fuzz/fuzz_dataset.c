/* libFuzzer target: a data set is exported as CSV and made a page of. An input is the data set in SQL, a statement a
 * line; lines that SQLite refuses are left out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz_zip.h"
#include "validator/dataset/dataset.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OPERATIONS = 1000, MOST = 300 };    /* of SQLite's machine: one that never ends is interrupted */

static const char *folder;
static char page[64];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    folder = fuzz_folder();
    snprintf(page, sizeof page, "%s/report.html", folder);
    return 0;
}

static int too_long(void *left)
{
    return --*(int *)left < 0;
}

static int deny_files(void *user, int action, const char *a, const char *b, const char *c, const char *d)
{
    (void)user, (void)a, (void)b, (void)c, (void)d;
    return action == SQLITE_ATTACH || action == SQLITE_PRAGMA ? SQLITE_DENY : SQLITE_OK;
}

static void make(sqlite3 *db, char *sql)
{
    sqlite3_set_authorizer(db, deny_files, NULL);
    for (char *line = strtok(sql, "\n"); line != NULL; line = strtok(NULL, "\n"))
        (void)sqlite3_exec(db, line, NULL, NULL, NULL);
    sqlite3_set_authorizer(db, NULL, NULL);
    if (sqlite3_get_autocommit(db) == 0)
        (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    val_dataset ds = { .path = "data set" };
    int left = MOST;
    size_t written;
    tc_err err = { "" };
    char *const sql = malloc(size + 1);
    if (sql == NULL || sqlite3_open(":memory:", &ds.db) != SQLITE_OK)
        abort();
    memcpy(sql, data, size);
    sql[size] = '\0';
    sqlite3_limit(ds.db, SQLITE_LIMIT_LENGTH, 1 << 20);
    sqlite3_db_config(ds.db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(ds.db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_progress_handler(ds.db, OPERATIONS, too_long, &left);
    make(ds.db, sql);
    left = MOST;
    (void)val_export(&ds, folder, NULL, &written, &err);
    left = MOST;
    (void)val_report(&ds, folder, page, &err);
    if (sqlite3_get_autocommit(ds.db) == 0)
        abort();
    sqlite3_close(ds.db);
    free(sql);
    return 0;
}
