/*
 * The data set: canonical results in one SQLite database. docs/dataset.md has
 * its tables, for those who read them.
 *
 * A fault of the data set itself (cannot be opened, full, locked, damaged) is
 * never TC_BAD_INPUT or TC_NO_MATCH: those two are for one unit's files, so
 * that an assimilator knows whether to stop or to go on with the next unit.
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
    uint64_t bytes; /* with VAL_READ: the file's length */
    uint64_t
        calls;     /* with VAL_READ: how often count_down may still be called before reading ends */
    int log_pages; /* of the write-ahead log, after the last commit; VAL_WRITE_ON */
} val_dataset;

enum { VAL_WAIT_MS = 60000 }; /* for other writers */

typedef enum val_mode {
    VAL_READ,
    VAL_WRITE,
    VAL_CREATE,  /* make it if it is not there */
    VAL_WRITE_ON /* others will follow soon: the write-ahead log is left to them, which saves four
                    of the five waits for the disk, until it has 8 MB */
} val_mode;

/* Opens the data set.
 * val_dataset_close also after a failure. */
tc_status val_dataset_open(const char *path, val_mode mode, val_dataset *out, tc_err *err);
void val_dataset_close(val_dataset *ds);

/* What SQLite says is wrong, as status and message. */
tc_status val_sql_fault(const val_dataset *ds, tc_err *err);
/* Statements without parameters; the format is sqlite3_mprintf's (%Q, %w). */
tc_status val_sql(const val_dataset *ds, tc_err *err, const char *format, ...);
/* One statement; *out is the caller's (val_sql_close). */
tc_status val_sql_prepare(const val_dataset *ds, sqlite3_stmt **out, tc_err *err,
                          const char *format, ...);
/* The names of the tables whose rows are of items, in order; only such as may be those of files and
 * of SQL, as all that texcell makes. *out as there. */
tc_status val_sql_item_tables(const val_dataset *ds, sqlite3_stmt **out, tc_err *err);
/* To the next row. False behind the last, and where *status is a failure, of this call or before.
 */
bool val_sql_next(const val_dataset *ds, sqlite3_stmt *stmt, tc_status *status, tc_err *err);
void val_sql_close(sqlite3_stmt **stmt); /* NULL inside: does nothing */
/* Runs a statement that gives no rows, and makes it ready to be bound again. */
tc_status val_sql_run(const val_dataset *ds, sqlite3_stmt *stmt, tc_err *err);
/* As val_sql_prepare, of the text that was built; frees it. */
tc_status val_sql_query(const val_dataset *ds, sqlite3_str *text, sqlite3_stmt **out, tc_err *err);
/* Executes the text that was built, and frees it. */
tc_status val_sql_built(const val_dataset *ds, sqlite3_str *text, tc_err *err);

/* A transaction that writes: begin waits for other writers; end commits, or
 * after a failure (`status`) takes everything back. Gives `status`, or what
 * went wrong here. */
tc_status val_begin(const val_dataset *ds, tc_err *err);
tc_status val_end(const val_dataset *ds, tc_status status, tc_err *err);

/* The time now, UTC, as it is stored: "2026-01-31T12:34:56Z". */
typedef struct val_time {
    char text[32];
} val_time;
val_time val_now(void);

/* --- units (store.c) ------------------------------------------------------------------------- */

/* A canonical result, and what is known of where it comes from. */
typedef struct val_delivery {
    const char *workunit;   /* its file, or NULL: then the result is checked by itself */
    bool workunit_optional; /* do so too if that file is not right */
    const char *result;     /* the file */
    const char *name;       /* the work unit's */
    const char *result_name;
    int64_t wu_id;       /* BOINC's number of the work unit, 0: none */
    uint64_t max_memory; /* bytes for the rows of an item; 0: as much as is planned */
    const char *folder;  /* for copies of results whose arrays fit no table, and of refused ones */
} val_delivery;

typedef enum val_stored { VAL_STORED, VAL_WAS_THERE } val_stored;

/* Checks a result as texcell-validate does, and stores it, in one transaction.
 * A unit that is there already with the same content is left alone; with other
 * content: TC_NO_MATCH. */
tc_status val_store(const val_dataset *ds, const val_delivery *d, val_stored *stored, tc_err *err);

/* A work unit made up from what its result says of it, for a check without the
 * work unit. an_unit_free. */
tc_status val_unit_of_result(const char *result, an_unit *out, tc_err *err);

/* The tables of a result, with items numbered from first_item on (tables.c). */
tc_status val_store_tables(const val_dataset *ds, const wu_result_file *file,
                           const wu_tables *tables, const char *analysis, int64_t first_item,
                           tc_err *err);

/* A table of one array, wide by axes of numbers and of named words, is cut: the numbers become
 * keys of rows, and the words name the columns. How many axes of numbers; 0: it is not cut. */
unsigned val_cut_axes(const wu_table *table);
/* Makes the views over a cut table anew (views.c): BASE_long and BASE_wide_... */
tc_status val_make_views(const val_dataset *ds, const char *analysis, const wu_table *table,
                         tc_err *err);
/* The analysis for its table of features, ANALYSIS_TABLE for others. sqlite3_free; NULL: no
 * memory. */
char *val_view_base(const char *analysis, const char *table);
/* Cuts the name of a column into its n words. */
void val_split(char *name, unsigned n, const char *part[WU_MAX_AXES]);

/* --- what is not stored (refuse.c) ----------------------------------------------------------- */

/* Records a delivery that is not stored, and why, and keeps its file. *kept:
 * the copy's path within the folder, the caller's; NULL where there is no file. */
tc_status val_refuse(const val_dataset *ds, const val_delivery *d, const char *kind,
                     const char *reason, char **kept, tc_err *err);

/* Takes a unit of this name out of the data set with all that was computed of it, and records that
 * as refused, once for each name that it had; these are printed, a line each. *there: there was
 * one; another may have the same name. */
tc_status val_take_out(const val_dataset *ds, const char *name, const char *why, const char *folder,
                       bool *there, tc_err *err);

/* A work unit that BOINC gave up. */
typedef struct val_failure {
    int64_t error_mask, wu_id, batch;
    const char *name;
} val_failure;
tc_status val_record_failure(const val_dataset *ds, const val_failure *f, tc_err *err);

/* --- CSV (export.c) -------------------------------------------------------------------------- */

/* Writes the data set's tables into `folder`; `only`: that one, or NULL. */
tc_status val_export(const val_dataset *ds, const char *folder, const char *only, size_t *written,
                     tc_err *err);

/* --- a page (report.c) ----------------------------------------------------------------------- */

/* Writes the page `output`, replacing an older one at once. store: the folder of kept files. */
tc_status val_report(const val_dataset *ds, const char *store, const char *output, tc_err *err);

#endif
