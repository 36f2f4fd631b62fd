/* Opens, creates and locks the data set's SQLite database. */
#include "validator/dataset/dataset.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "app/base/files.h"

enum {
    APPLICATION_ID = 0x54455843, /* "TEXC" in the file's header, by which file(1) and other programs
                                    recognize a data set */
    SCHEMA_VERSION = 3,
    LOG_BYTES = 64 << 20, /* the write-ahead log is cut to this size after a long read */
    LOG_PAGES = 1000,     /* a log of fewer pages (of 8 KiB) is left to the next process */
    CACHE_KIB = 65536     /* holds every page that storing a unit of 100 items changes */
};

/* --- statements ------------------------------------------------------------------------------ */

tc_status val_sql_fault(const val_dataset *ds, tc_err *err)
{
    /* SQLite's codes that are not reported as TC_IO. */
    static const struct {
        int code;
        tc_status status;
    } unlike_io[] = {
        { SQLITE_NOMEM, TC_NO_MEMORY },
        { SQLITE_BUSY, TC_TRY_LATER },
        { SQLITE_LOCKED, TC_TRY_LATER },
        /* Errors that the rows of one unit may cause. */
        { SQLITE_CONSTRAINT, TC_INTERNAL },
        { SQLITE_TOOBIG, TC_INTERNAL },
        { SQLITE_MISMATCH, TC_INTERNAL },
    };
    const int code = ds->db == NULL ? SQLITE_NOMEM : sqlite3_errcode(ds->db);
    tc_status status = TC_IO;

    for (size_t i = 0; i < sizeof unlike_io / sizeof unlike_io[0]; i++)
        if (code == unlike_io[i].code)
            status = unlike_io[i].status;
    if (ds->only_reads && (code == SQLITE_READONLY || code == SQLITE_CANTOPEN))
        return tc_fail(err, TC_IO,
                       "%.600s: to read it, SQLite makes files next to it (-shm, -wal), which this "
                       "user may not do: copy it to a folder of your own, with its -wal if there "
                       "is one",
                       ds->path);
    if (code == SQLITE_INTERRUPT)
        return tc_fail(err, TC_IO,
                       "%.600s: reading takes longer than a data set of this size needs", ds->path);
    return tc_fail(err, status, "%.600s: %.300s", ds->path,
                   ds->db == NULL ? "out of memory" : sqlite3_errmsg(ds->db));
}

/* Executes the SQL `text`, and frees it by sqlite3_free. text: NULL means that there was no memory.
 */
static tc_status execute(const val_dataset *ds, char *text, tc_err *err)
{
    tc_status status = TC_OK;

    if (text == NULL)
        return tc_no_memory(err, ds->path);
    if (sqlite3_exec(ds->db, text, NULL, NULL, NULL) != SQLITE_OK)
        status = val_sql_fault(ds, err);
    sqlite3_free(text);
    return status;
}

tc_status val_sql(const val_dataset *ds, tc_err *err, const char *format, ...)
{
    va_list ap;
    char *text;

    va_start(ap, format);
    text = sqlite3_vmprintf(format, ap);
    va_end(ap);
    return execute(ds, text, err);
}

tc_status val_sql_execute_built(const val_dataset *ds, sqlite3_str *built, tc_err *err)
{
    return execute(ds, sqlite3_str_finish(built), err);
}

/* Prepares the SQL `text`, and frees it by sqlite3_free, like execute. */
static tc_status prepare(const val_dataset *ds, char *text, sqlite3_stmt **out, tc_err *err)
{
    tc_status status = TC_OK;

    *out = NULL;
    if (text == NULL)
        return tc_no_memory(err, ds->path);
    if (sqlite3_prepare_v2(ds->db, text, -1, out, NULL) != SQLITE_OK)
        status = val_sql_fault(ds, err);
    sqlite3_free(text);
    return status;
}

tc_status val_sql_query(const val_dataset *ds, sqlite3_str *built, sqlite3_stmt **out, tc_err *err)
{
    return prepare(ds, sqlite3_str_finish(built), out, err);
}

tc_status val_sql_prepare(const val_dataset *ds, sqlite3_stmt **out, tc_err *err,
                          const char *format, ...)
{
    va_list ap;
    char *text;

    va_start(ap, format);
    text = sqlite3_vmprintf(format, ap);
    va_end(ap);
    return prepare(ds, text, out, err);
}

tc_status val_sql_item_tables(const val_dataset *ds, sqlite3_stmt **out, tc_err *err)
{
    return val_sql_prepare(
        ds, out, err,
        "SELECT name FROM sqlite_schema AS s WHERE type = 'table' AND rootpage > 0 AND "
        "name NOT GLOB '*[^a-z0-9_]*' AND "
        "EXISTS (SELECT 1 FROM pragma_table_info(s.name) WHERE name = 'item') ORDER BY name");
}

bool val_sql_next(const val_dataset *ds, sqlite3_stmt *stmt, tc_status *status, tc_err *err)
{
    assert(stmt != NULL || *status != TC_OK);
    const int code = *status == TC_OK ? sqlite3_step(stmt) : SQLITE_DONE;

    if (code != SQLITE_ROW && code != SQLITE_DONE)
        *status = val_sql_fault(ds, err);
    return code == SQLITE_ROW;
}

void val_sql_close(sqlite3_stmt **stmt)
{
    sqlite3_finalize(*stmt);
    *stmt = NULL;
}

tc_status val_sql_run(const val_dataset *ds, sqlite3_stmt *stmt, tc_err *err)
{
    tc_status status = TC_OK;

    (void)val_sql_next(ds, stmt, &status, err);
    sqlite3_reset(stmt);
    return status;
}

/* --- transactions ---------------------------------------------------------------------------- */

tc_status val_begin_transaction(const val_dataset *ds, tc_err *err)
{
    assert(sqlite3_get_autocommit(ds->db) != 0);
    return val_sql(ds, err, "BEGIN IMMEDIATE");
}

tc_status val_end_transaction(const val_dataset *ds, tc_status status, tc_err *err)
{
    if (status == TC_OK)
        status = val_sql(ds, err, "COMMIT");
    if (status != TC_OK && sqlite3_get_autocommit(ds->db) == 0)
        (void)sqlite3_exec(ds->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

val_time val_current_time(void)
{
    const time_t now = time(NULL);
    struct tm utc;
    val_time t = { "" };

    if (gmtime_r(&now, &utc) == NULL ||
        strftime(t.text, sizeof t.text, "%Y-%m-%dT%H:%M:%SZ", &utc) == 0)
        t.text[0] = '\0';
    return t;
}

/* --- opening --------------------------------------------------------------------------------- */

static const char schema[] = "CREATE TABLE units("
                             " id INTEGER PRIMARY KEY,"
                             " workunit TEXT NOT NULL UNIQUE,"
                             " name TEXT NOT NULL,"
                             " wu_id INTEGER,"
                             " result TEXT NOT NULL,"
                             " analysis TEXT NOT NULL,"
                             " parameters TEXT NOT NULL,"
                             " n_items INTEGER NOT NULL,"
                             " arrays TEXT NOT NULL,"
                             " checked TEXT NOT NULL,"
                             " kept TEXT,"
                             " program TEXT NOT NULL,"
                             " stored TEXT NOT NULL,"
                             " sha256 TEXT NOT NULL UNIQUE);"
                             "CREATE INDEX units_by_name ON units(name);"
                             "CREATE TABLE items("
                             " id INTEGER PRIMARY KEY,"
                             " unit INTEGER NOT NULL REFERENCES units(id),"
                             " number INTEGER NOT NULL,"
                             " name TEXT NOT NULL,"
                             " source TEXT);"
                             "CREATE UNIQUE INDEX items_by_unit ON items(unit, number);"
                             "CREATE INDEX items_by_name ON items(name);"
                             "CREATE TABLE aliases("
                             " unit INTEGER NOT NULL REFERENCES units(id),"
                             " name TEXT NOT NULL,"
                             " wu_id INTEGER NOT NULL,"
                             " result TEXT NOT NULL,"
                             " stored TEXT NOT NULL,"
                             " PRIMARY KEY(name, wu_id, unit)) WITHOUT ROWID;"
                             "CREATE TABLE refused("
                             " id INTEGER PRIMARY KEY,"
                             " kind TEXT NOT NULL,"
                             " reason TEXT NOT NULL,"
                             " name TEXT NOT NULL,"
                             " wu_id INTEGER NOT NULL,"
                             " result TEXT NOT NULL,"
                             " kept TEXT,"
                             " stored TEXT NOT NULL,"
                             " UNIQUE(result, wu_id, kind, reason));"
                             "CREATE TABLE failed("
                             " wu_id INTEGER NOT NULL,"
                             " name TEXT NOT NULL,"
                             " batch INTEGER NOT NULL,"
                             " error_mask INTEGER NOT NULL,"
                             " reasons TEXT NOT NULL,"
                             " stored TEXT NOT NULL,"
                             " PRIMARY KEY(wu_id, name)) WITHOUT ROWID;";

/* Sets *value to the integer that "PRAGMA name" returns. */
static tc_status read_pragma(const val_dataset *ds, const char *name, int64_t *value, tc_err *err)
{
    TC_AUTO(val_sql_close) sqlite3_stmt *stmt = NULL;
    tc_status status = val_sql_prepare(ds, &stmt, err, "PRAGMA %s", name);

    *value = val_sql_next(ds, stmt, &status, err) ? sqlite3_column_int64(stmt, 0) : 0;
    return status;
}

/* Refuses generated columns: their values may be of any length without being in the file. */
static tc_status check_columns(const val_dataset *ds, tc_err *err)
{
    TC_AUTO(val_sql_close) sqlite3_stmt *stmt = NULL;
    tc_status status =
        val_sql_prepare(ds, &stmt, err,
                        "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_xinfo(t.name) c "
                        "WHERE t.type = 'table' AND c.hidden > 1"); /* 2 and 3: generated columns */

    if (val_sql_next(ds, stmt, &status, err))
        return tc_fail(err, TC_IO,
                       "%.600s: the column %.64s of %.64s is computed, not stored as in a data set "
                       "of texcell",
                       ds->path, (const char *)sqlite3_column_text(stmt, 1),
                       (const char *)sqlite3_column_text(stmt, 0));
    return status;
}

/* Refuses a view with the name of a table of the data set, as it may have an endless number of
 * rows. */
static tc_status check_tables(const val_dataset *ds, tc_err *err)
{
    TC_AUTO(val_sql_close) sqlite3_stmt *stmt = NULL;
    tc_status status = val_sql_prepare(
        ds, &stmt, err,
        "SELECT name FROM sqlite_schema WHERE (type <> 'table' OR rootpage = 0) AND "
        "name COLLATE NOCASE IN ('units', 'items', 'aliases', 'refused', 'failed')");

    if (val_sql_next(ds, stmt, &status, err))
        return tc_fail(err, TC_IO, "%.600s: %s is not a table, as in a data set of texcell",
                       ds->path, (const char *)sqlite3_column_text(stmt, 0));
    return status;
}

/* Checks that the file is a data set, or an empty database, and sets *empty accordingly. Called
 * within a transaction, so that no other process can create the data set in between. */
static tc_status read_format(const val_dataset *ds, bool *empty, tc_err *err)
{
    int64_t application, version, objects;
    return_if_error(read_pragma(ds, "application_id", &application, err));

    return_if_error(read_pragma(ds, "user_version", &version, err));
    return_if_error(read_pragma(ds, "schema_version", &objects, err));
    *empty = application == 0 && version == 0 && objects == 0;
    if (!*empty && application != APPLICATION_ID)
        return tc_fail(err, TC_IO, "%.600s: is a database, but not a data set of texcell",
                       ds->path);
    if (!*empty && version != SCHEMA_VERSION)
        return tc_fail(
            err, TC_IO,
            "%.600s: was made by another version of texcell-assimilate (data set %lld, not %d)",
            ds->path, (long long)version, SCHEMA_VERSION);
    return check_tables(ds, err);
}

/* Asks SQLite for a write-ahead log, and checks its answer, which is the kind of log in use. */
static tc_status request_log(const val_dataset *ds, tc_err *err)
{
    TC_AUTO(val_sql_close) sqlite3_stmt *stmt = NULL;
    tc_status status = val_sql_prepare(ds, &stmt, err, "PRAGMA journal_mode=WAL");
    const bool row = val_sql_next(ds, stmt, &status, err);

    if (status == TC_OK &&
        (!row || sqlite3_stricmp((const char *)sqlite3_column_text(stmt, 0), "wal") != 0))
        return tc_fail(err, TC_IO,
                       "%.600s: its file system has no shared memory for SQLite's write-ahead log",
                       ds->path);
    return status;
}

/* Turns on the write-ahead log, with which other processes can read while units are stored. For
 * this SQLite needs exclusive access to the file, and does not wait for it; so the request is
 * repeated for VAL_WAIT_MS. */
static tc_status use_log(const val_dataset *ds, tc_err *err)
{
    for (int waited = 0;; waited += 50) {
        const tc_status status = request_log(ds, err);

        if (status != TC_TRY_LATER || waited >= VAL_WAIT_MS)
            return status;
        usleep(50 * 1000);
    }
}

/* Makes an empty data set. */
static tc_status create(const val_dataset *ds, tc_err *err)
{
    bool empty;
    return_if_error(val_sql(ds, err, "PRAGMA page_size=8192"));

    return_if_error(use_log(ds, err));
    return_if_error(val_begin_transaction(ds, err));
    /* Another process may have created the data set since the first check. */
    tc_status status = read_format(ds, &empty, err);
    if (status == TC_OK && empty)
        status = val_sql(ds, err, "PRAGMA application_id=%d; PRAGMA user_version=%d; %s",
                         APPLICATION_ID, SCHEMA_VERSION, schema);
    return val_end_transaction(ds, status, err);
}

/* SQLite calls this function after a commit. n: the number of pages in the write-ahead log. */
static int record_log_pages(void *pages, sqlite3 *db, const char *name, int n)
{
    (void)db;
    (void)name;
    *(int *)pages = n;
    return SQLITE_OK;
}

/* SQLite calls count_call after every CALL_STEPS instructions of its virtual machine. After
 * MIN_CALLS calls plus STEPS_PER_BYTE instructions for each byte of the file, reading is ended,
 * since a query on a crafted view could run endlessly. */
enum { CALL_STEPS = 1 << 20, MIN_CALLS = 1024, STEPS_PER_BYTE = 400 };

/* Returns nonzero, which ends reading, when *calls has been counted down to 0. */
static int count_call(void *calls)
{
    return (*(uint64_t *)calls)-- == 0;
}

/* Returns the length of a file, or 0 if it is not known. */
static uint64_t bytes_of(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 ? (uint64_t)info.st_size : 0;
}

/* Returns the error that the data set is missing or empty. state: "is not there" or "is empty". A
 * new data set is not created, since nobody would notice that the units of the old one are missing.
 */
static tc_status refuse_to_create(const char *path, const char *state, tc_err *err)
{
    return tc_fail(
        err, TC_IO,
        "%.600s: the data set %s: mount its disk, or restore a backup (if there never was "
        "one: texcell-assimilate create --db FILE)",
        path, state);
}

tc_status val_dataset_open(const char *path, val_mode mode, val_dataset *out, tc_err *err)
{
    const int flags = SQLITE_OPEN_NOMUTEX |
                      (mode == VAL_READ ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE) |
                      (mode == VAL_CREATE ? SQLITE_OPEN_CREATE : 0);
    /* The names "", ":memory:" and "file:..." have a special meaning to SQLite; "./" prevents it.
     */
    char *const safe_path = sqlite3_mprintf("%s%s", path[0] == '/' ? "" : "./", path);
    TC_AUTOFREE char *const folder = tc_folder_of(path);
    bool empty = false;
    int keep_log = 1; /* true, for SQLITE_FCNTL_PERSIST_WAL */
    tc_status status = TC_OK;

    *out = (val_dataset){ .path = path, .only_reads = mode == VAL_READ };
    if (safe_path == NULL || folder == NULL) {
        sqlite3_free(safe_path);
        return tc_no_memory(err, path);
    }
    if (sqlite3_open_v2(safe_path, &out->db, flags, NULL) != SQLITE_OK) {
        if (mode != VAL_CREATE && access(path, F_OK) != 0 && errno == ENOENT)
            status = refuse_to_create(path, "is not there", err);
        else if (mode == VAL_CREATE && access(folder, F_OK) != 0)
            status = tc_fail_write(path, path, err);
        else
            status = val_sql_fault(out, err);
    }
    sqlite3_free(safe_path);
    if (status != TC_OK)
        return status;
    /* A data set may be untrusted: its views and triggers may call only harmless functions. */
    sqlite3_db_config(out->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(out->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    if (mode == VAL_READ) {
        out->bytes = bytes_of(path);
        out->calls_left = MIN_CALLS + out->bytes / CALL_STEPS * STEPS_PER_BYTE;
        sqlite3_progress_handler(out->db, CALL_STEPS, count_call, &out->calls_left);
    }
    if (mode == VAL_WRITE_SHARED) {
        /* Leaves the write-ahead log as it is when the data set is closed. */
        sqlite3_db_config(out->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        sqlite3_file_control(out->db, "main", SQLITE_FCNTL_PERSIST_WAL, &keep_log);
        sqlite3_wal_hook(out->db, record_log_pages, &out->log_pages);
    }
    sqlite3_busy_timeout(out->db, VAL_WAIT_MS);
    /* Synchronous is FULL, as BOINC deletes the files after a script has reported success. */
    return_if_error(val_sql(
        out, err, "PRAGMA synchronous=FULL; PRAGMA cache_size=-%d; PRAGMA journal_size_limit=%d",
        CACHE_KIB, LOG_BYTES));
    if (mode != VAL_READ) /* a confined process may not make temporary files */
        return_if_error(val_sql(out, err, "PRAGMA temp_store=MEMORY"));
    return_if_error(val_sql(out, err, "BEGIN"));
    return_if_error(val_end_transaction(out, read_format(out, &empty, err), err));
    if (mode == VAL_READ)
        return_if_error(check_columns(out, err));
    /* Turns the write-ahead log on, in case the data set was not created completely, or somebody
     * has turned it off. The query makes SQLite open the log's files before the process is
     * confined. */
    if (!empty && mode != VAL_READ)
        return_if_error(use_log(out, err));
    if (!empty && mode != VAL_READ)
        return_if_error(val_sql(out, err, "SELECT count(*) FROM sqlite_schema"));
    if (empty)
        return_if_error(mode == VAL_CREATE ? create(out, err)
                        : mode == VAL_READ ? tc_fail(err, TC_IO, "%.600s: is empty", path)
                                           : refuse_to_create(path, "is empty", err));
    return TC_OK;
}

void val_dataset_close(val_dataset *ds)
{
    /* SQLite's automatic checkpoints copy the log's content into the database, but do not empty the
     * log, which every process must read: it would grow without end. The following checkpoint
     * empties it. It fails if another process is reading; the next process then tries again. */
    if (ds->log_pages >= LOG_PAGES) {
        sqlite3_busy_timeout(ds->db, 0);
        sqlite3_wal_checkpoint_v2(ds->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    }
    sqlite3_close(ds->db);
    ds->db = NULL;
}
