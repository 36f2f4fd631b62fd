/*
 * The data set: the canonical results of a project in one SQLite database. docs/dataset.md
 * describes its tables for users.
 *
 * A fault of the data set itself (it cannot be opened, is full, locked or damaged) is never
 * TC_BAD_INPUT or TC_NO_MATCH: these are for faults of one unit's files. So the caller knows
 * whether to go on with the next unit or to stop.
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
    sqlite3 *db;
    uint64_t bytes; /* VAL_READ: length of the file */
    uint64_t calls; /* VAL_READ: SQLite's progress calls that are left before reading is ended, as a
                       crafted view could have rows without end */
    int log_pages;  /* VAL_WRITE_ON: pages of the write-ahead log after the last commit */
} val_dataset;

enum { VAL_WAIT_MS = 60000 }; /* how long to wait for other writers */

/* How val_dataset_open opens the file. */
typedef enum val_mode {
    VAL_READ,
    VAL_WRITE,
    VAL_CREATE,  /* to write, and make the file if it does not exist */
    VAL_WRITE_ON /* to write, where other processes will follow soon: the write-ahead log is left to
                    them until it has 8 MB, which saves four of five waits for the disk */
} val_mode;

/* Opens the data set. val_dataset_close also after a failure. */
tc_status val_dataset_open(const char *path, val_mode mode, val_dataset *out, tc_err *err);
void val_dataset_close(val_dataset *ds);

/* Reports SQLite's last error: writes its message to err and returns a status for it. */
tc_status val_sql_fault(const val_dataset *ds, tc_err *err);
/* Executes statements that return no rows; the format is sqlite3_mprintf's (%Q, %w). */
tc_status val_sql(const val_dataset *ds, tc_err *err, const char *format, ...);
/* Prepares one statement; *out is the caller's (val_sql_close). */
tc_status val_sql_prepare(const val_dataset *ds, sqlite3_stmt **out, tc_err *err,
                          const char *format, ...);
/* Prepares a query for the names of the tables that have a column `item`, sorted. Names that
 * texcell would not make, and that may be unsafe in file names, are left out. *out: as
 * val_sql_prepare. */
tc_status val_sql_item_tables(const val_dataset *ds, sqlite3_stmt **out, tc_err *err);
/* Steps to the next row and returns whether there is one. False also if *status is a failure, set
 * by this call or before. */
bool val_sql_next(const val_dataset *ds, sqlite3_stmt *stmt, tc_status *status, tc_err *err);
void val_sql_close(sqlite3_stmt **stmt); /* finalizes; *stmt may be NULL */
/* Runs a statement that returns no rows, and resets it so that it can be bound again. */
tc_status val_sql_run(const val_dataset *ds, sqlite3_stmt *stmt, tc_err *err);
/* As val_sql_prepare, with the text built in `text`, which is freed. */
tc_status val_sql_query(const val_dataset *ds, sqlite3_str *text, sqlite3_stmt **out, tc_err *err);
/* Executes the text built in `text`, which is freed. */
tc_status val_sql_built(const val_dataset *ds, sqlite3_str *text, tc_err *err);

/* Begin and end a transaction that writes. val_begin waits for other writers. val_end commits if
 * `status` is TC_OK, and rolls back otherwise; it returns `status`, or the failure of the commit.
 */
tc_status val_begin(const val_dataset *ds, tc_err *err);
tc_status val_end(const val_dataset *ds, tc_status status, tc_err *err);

/* The present time in UTC, as the data set stores it: "2026-01-31T12:34:56Z". */
typedef struct val_time {
    char text[32];
} val_time;
val_time val_now(void);

/* --- units (store.c) ------------------------------------------------------------------------- */

/* A canonical result, and where it comes from. */
typedef struct val_delivery {
    const char *workunit;    /* path of the work unit; NULL: the result is checked by itself */
    bool workunit_optional;  /* check the result by itself, too, if that file is not valid */
    const char *result;      /* path of the result */
    const char *name;        /* name of the work unit */
    const char *result_name; /* name of the result's file, as it was uploaded */
    int64_t wu_id;           /* BOINC's number of the work unit; 0: none */
    uint64_t max_memory;     /* bytes for the rows of an item; 0: as val_check or val_check_form */
    const char *folder;      /* for copies of results with arrays that fit no table, and of refused
                                results */
} val_delivery;

typedef enum val_stored { VAL_STORED, VAL_WAS_THERE } val_stored;

/* Checks a result as texcell-validate does, and stores it in one transaction. A work unit that is
 * stored already with the same content is left as it is (VAL_WAS_THERE); with other content:
 * TC_NO_MATCH. */
tc_status val_store(const val_dataset *ds, const val_delivery *d, val_stored *stored, tc_err *err);

/* Makes up a work unit from the description that its result contains, so that the result can be
 * checked without the work unit. an_unit_free. */
tc_status val_unit_of_result(const char *result, an_unit *out, tc_err *err);

/* Stores the rows of a result's tables (tables.c). first_item: the id of item 0 in the table items;
 * those of the others follow. */
tc_status val_store_tables(const val_dataset *ds, const wu_result_file *file,
                           const wu_tables *tables, const char *analysis, int64_t first_item,
                           tc_err *err);

/* Returns whether, and how, a table is cut. A table is cut if it is one array with several axes,
 * first axes of numbers and then axes of named words: the numbers become keys of rows, and the
 * words name the columns. The return value is the number of axes of numbers; 0: it is not cut. */
unsigned val_cut_axes(const wu_table *table);
/* Makes the views over a cut table, replacing older ones: BASE_long and
 * BASE_wide_... (views.c). */
tc_status val_make_views(const val_dataset *ds, const char *analysis, const wu_table *table,
                         tc_err *err);
/* Returns BASE of the views' names: ANALYSIS for the table "features",
 * ANALYSIS_TABLE for others. sqlite3_free; NULL: no memory. */
char *val_view_base(const char *analysis, const char *table);
/* Splits the name of a column of a cut table into its n words, in place.
 */
void val_split(char *name, unsigned n, const char *part[WU_MAX_AXES]);

/* --- refused results and failed work units (refuse.c)
 * ----------------------------------------- */

/* Records a delivery that is not stored, with its reason, and copies its
 * file. *kept: path of the copy within d->folder, the caller's; NULL if
 * there is no file. */
tc_status val_refuse(const val_dataset *ds, const val_delivery *d, const char *kind,
                     const char *reason, char **kept, tc_err *err);

/* Deletes a unit of this name, with all rows of its items, from the data
 * set; records it in the table refused, once for each name that it had;
 * and prints these names, one a line. *there: there was such a unit.
 * Another one may have the same name, so call it until *there is false.
 */
tc_status val_take_out(const val_dataset *ds, const char *name, const char *why, const char *folder,
                       bool *there, tc_err *err);

/* A work unit that BOINC gave up, with the arguments of
 * script_assimilator --error. */
typedef struct val_failure {
    int64_t error_mask, wu_id, batch;
    const char *name;
} val_failure;
tc_status val_record_failure(const val_dataset *ds, const val_failure *f, tc_err *err);

/* --- CSV (export.c)
 * --------------------------------------------------------------------------
 */

/* Writes the data set's tables as CSV into `folder`. only: the one table
 * to write, or NULL. */
tc_status val_export(const val_dataset *ds, const char *folder, const char *only, size_t *written,
                     tc_err *err);

/* --- a page (report.c)
 * -----------------------------------------------------------------------
 */

/* Writes the page `output`, replacing an older one in one step. store:
 * the folder of kept files. */
tc_status val_report(const val_dataset *ds, const char *store, const char *output, tc_err *err);

#endif
