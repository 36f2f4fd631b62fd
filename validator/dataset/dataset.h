/*
 * The data set: the canonical results of a project in one SQLite database. docs/dataset.md
 * describes its tables for users.
 * TC_BAD_INPUT and TC_NO_MATCH mean that the files of one unit have a fault; the caller can
 * continue with the next unit. Faults of the data set itself (it cannot be opened, is full, locked
 * or damaged) have other codes.
 */
#ifndef VAL_DATASET_H
#define VAL_DATASET_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "app/analysis/analysis.h"
#include "workunits/format/result_file.h"

/* --- the database (dataset.c) ---------------------------------------------------------------- */

typedef struct val_dataset {
    const char *path; /* not owned */
    bool only_reads;  /* the data set was opened with VAL_READ */
    sqlite3 *db;
    uint64_t bytes;      /* set with VAL_READ: length of the file */
    uint64_t calls_left; /* set with VAL_READ: after this number of calls of SQLite's progress
                            handler reading is ended, as a crafted view could have endless rows */
    int log_pages;       /* set with VAL_WRITE_SHARED: pages of the write-ahead log after the last
                            commit */
} val_dataset;

enum { VAL_WAIT_MS = 60000 }; /* how long to wait for other writers */

/* How val_dataset_open opens the file. */
typedef enum val_mode {
    VAL_READ,
    VAL_WRITE,
    VAL_CREATE,      /* for writing; creates the file if it does not exist */
    VAL_WRITE_SHARED /* for writing, if other processes will write soon after. The write-ahead log
                        is emptied only when it has 8 MB, by this process or a later one. This saves
                        four of five waits for the disk. */
} val_mode;

/* Opens the data set. val_dataset_close must be called, also after a failure. */
tc_status val_dataset_open(const char *path, val_mode mode, val_dataset *out, tc_err *err);
void val_dataset_close(val_dataset *ds);

/* Reports SQLite's last error: writes its message to err and returns a status for it. */
tc_status val_sql_fault(const val_dataset *ds, tc_err *err);
/* Executes statements that return no rows; the format is sqlite3_mprintf's (%Q, %w). */
tc_status val_sql(const val_dataset *ds, tc_err *err, const char *format, ...);
/* Prepares one statement; the caller frees *out by val_sql_close. */
tc_status val_sql_prepare(const val_dataset *ds, sqlite3_stmt **out, tc_err *err,
                          const char *format, ...);
/* Prepares a query for the sorted names of the tables that have a column `item`. Names that texcell
 * would not make, and that may be unsafe in file names, are left out. *out: as in val_sql_prepare.
 */
tc_status val_sql_item_tables(const val_dataset *ds, sqlite3_stmt **out, tc_err *err);
/* Steps to the next row, and returns true if there is one. Returns false after the last row, and
 * also if *status is an error, set by this call or before. */
bool val_sql_next(const val_dataset *ds, sqlite3_stmt *stmt, tc_status *status, tc_err *err);
void val_sql_close(sqlite3_stmt **stmt); /* finalizes; *stmt may be NULL */
/* Runs a statement that returns no rows, and resets it so that it can be bound again. */
tc_status val_sql_run(const val_dataset *ds, sqlite3_stmt *stmt, tc_err *err);
/* Prepares the statement in `text`, as val_sql_prepare does, and frees `text`. */
tc_status val_sql_query(const val_dataset *ds, sqlite3_str *text, sqlite3_stmt **out, tc_err *err);
/* Executes the statements in `text`, which must return no rows, and frees `text`. */
tc_status val_sql_execute_built(const val_dataset *ds, sqlite3_str *text, tc_err *err);

/* Begin and end a transaction that writes. val_begin_transaction waits for other writers.
 * val_end_transaction commits if `status` is TC_OK, and rolls back otherwise; it returns `status`,
 * or the failure of the commit.
 */
tc_status val_begin_transaction(const val_dataset *ds, tc_err *err);
tc_status val_end_transaction(const val_dataset *ds, tc_status status, tc_err *err);

/* The present time in UTC, as the data set stores it: "2026-01-31T12:34:56Z". */
typedef struct val_time {
    char text[32];
} val_time;
val_time val_current_time(void);

/* --- units (store.c) ------------------------------------------------------------------------- */

/* A canonical result and its origin. */
typedef struct val_delivery {
    const char *workunit;   /* path of the work unit; NULL: the result is checked without it, by the
                               description in the result (val_unit_of_result) */
    bool workunit_optional; /* if the work unit's file is not valid, the result is checked as if
                               `workunit` were NULL; otherwise this is an error */
    const char *result;     /* path of the result */
    const char *name;       /* name of the work unit */
    const char *result_name; /* name of the result's file, as it was uploaded */
    int64_t wu_id;           /* BOINC's number of the work unit; 0 if there is none */
    uint64_t max_memory;     /* the most bytes of memory for one item's rows; 0: the default of
                                val_check or val_check_form */
    const char *folder;      /* folder for copies of results with arrays that fit no table, and of
                                refused results */
} val_delivery;

typedef enum val_stored { VAL_STORED, VAL_STORED_BEFORE } val_stored;

/* Checks a result as texcell-validate does, and stores it in one transaction. If the data set has a
 * result of the same work unit already, nothing is stored: sets *stored to VAL_STORED_BEFORE if its
 * content is the same, and returns TC_NO_MATCH if it is not. */
tc_status val_store(const val_dataset *ds, const val_delivery *d, val_stored *stored, tc_err *err);

/* Makes a work unit from the description that its result contains, so that the result can be
 * checked without the work unit's file. *out must be freed by an_unit_free. */
tc_status val_unit_of_result(const char *result, an_unit *out, tc_err *err);

/* Stores the rows of a result's tables (tables.c). first_item: the id of item 0 in the table
 * `items`; item i has the id first_item + i. */
tc_status val_store_tables(const val_dataset *ds, const wu_result_file *file,
                           const wu_tables *tables, const char *analysis, int64_t first_item,
                           tc_err *err);

/* A table is "cut" (each of its rows becomes several rows in the data set) if it consists of one
 * array whose first axes have numbers and whose other axes have words. The numbers become the keys
 * of rows, and the words name the columns. Returns the number of axes that become key columns, or 0
 * if the table is not cut. */
unsigned val_cut_axes(const wu_table *table);
/* Makes the views over a cut table, BASE_long and BASE_wide_..., and replaces older ones (views.c).
 */
tc_status val_make_views(const val_dataset *ds, const char *analysis, const wu_table *table,
                         tc_err *err);
/* Returns BASE of the views' names: ANALYSIS for the table "features", ANALYSIS_TABLE for others.
 * The caller frees it by sqlite3_free. Returns NULL if there is no memory. */
char *val_view_base(const char *analysis, const char *table);
/* Splits the name of a column of a cut table into its n words, in place. */
void val_split_column_name(char *name, unsigned n, const char *part[WU_MAX_AXES]);

/* --- refused results and failed work units (refuse.c) ----------------------------------------- */

/* Records a delivery that is not stored, with the reason, and copies its file. kind: "invalid",
 * "conflict", "changed", "missing" or "fault" (docs/dataset.md). Sets *kept to the path of the copy
 * within d->folder, which the caller frees, or to NULL if there is no file to copy. */
tc_status val_record_refused(const val_dataset *ds, const val_delivery *d, const char *kind,
                             const char *reason, char **kept, tc_err *err);

/* Deletes one unit of this name, with all rows of its items, from the data set. A unit has one or
 * more names; for each of them this adds a row to the table `refused` and prints a line. Sets
 * *was_found to whether there was such a unit. Several units may have the same name, so this must
 * be called until *was_found is false. */
tc_status val_delete_unit(const val_dataset *ds, const char *name, const char *why,
                          const char *folder, bool *was_found, tc_err *err);

/* A work unit that failed and that BOINC will not send again: the arguments of script_assimilator
 * --error. */
typedef struct val_failure {
    int64_t error_mask, wu_id, batch;
    const char *name;
} val_failure;
tc_status val_record_failure(const val_dataset *ds, const val_failure *f, tc_err *err);

/* --- CSV (export.c) --------------------------------------------------------------------------- */

/* Writes the data set's tables as CSV files into `folder`, and sets *written to their number. only:
 * the name of the only table to write, or NULL for all. */
tc_status val_export(const val_dataset *ds, const char *folder, const char *only, size_t *written,
                     tc_err *err);

/* --- a page (report.c) ------------------------------------------------------------------------ */

/* Writes an HTML page about the data set (progress, refused results, newest items, histograms) to
 * the file `output`, and replaces an older file in one step. store: the folder of kept files. */
tc_status val_report(const val_dataset *ds, const char *store, const char *output, tc_err *err);

#endif
