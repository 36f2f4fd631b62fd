/*
 * A result as show and export look at it: the open NPZ and the items' names,
 * and its arrays sorted into tables.
 */
#ifndef WU_RESULT_FILE_H
#define WU_RESULT_FILE_H

#include <stdbool.h>
#include <stdio.h>

#include "workunits/format/npz.h"

typedef struct wu_result_file {
    const char *path;          /* not owned */
    wu_npz_reader *npz;
    size_t n_items;
    char **item_names;         /* UTF-8 */
} wu_result_file;

/* Opens a result and reads item_names. wu_result_file_close also after a
 * failure. TC_BAD_INPUT if it is no result or names are missing. */
tc_status wu_result_file_open(const char *path, wu_result_file *out, tc_err *err);
void wu_result_file_close(wu_result_file *file);

/* The array `name` of strings, shape [*n], as UTF-8. *out is the caller's, for
 * wu_free_strings. TC_BAD_INPUT if it is missing or something else. */
tc_status wu_load_strings(const wu_result_file *file, const char *name, char ***out, size_t *n,
                          tc_err *err);
void wu_free_strings(char **strings, size_t n);

/* --- tables ---------------------------------------------------------------------------- */

typedef enum wu_column_kind {
    WU_COLUMN_VALUE,           /* an element of the array's row */
    WU_COLUMN_ROW_NAME,        /* the name of the item whose number is the row's */
    WU_COLUMN_ITEM_NAME        /* the name of the item whose number is the element */
} wu_column_kind;

typedef struct wu_column {
    char *title;
    wu_column_kind kind;
    size_t source;             /* index into the table's arrays */
    size_t element;            /* within a row of the array */
} wu_column;

typedef struct wu_table {
    const char *name;          /* "features", "items", "regions", "cells", "points" */
    uint64_t rows;
    size_t n_arrays;
    size_t *arrays;            /* indices into the NPZ, shape [rows] or [rows, k] */
    size_t n_columns;
    wu_column *columns;
} wu_table;

typedef struct wu_tables {
    size_t n;
    wu_table *tables;
    bool *used;                /* per array of the NPZ: it is in a table, or gives it names */
} wu_tables;

/* Sorts the arrays: `features` with the titles in feature_names; arrays named
 * region_*, cell_*, point_* and score, a table for each prefix; other arrays of
 * one row per item. wu_tables_free also after a failure. */
tc_status wu_tables_find(const wu_result_file *file, wu_tables *out, tc_err *err);
void wu_tables_free(wu_tables *tables);

/* Reads a table row by row with the memory of one row. */
typedef struct wu_cursor {
    const wu_result_file *file;
    const wu_table *table;
    uint64_t row;              /* number of the row at hand */
    struct wu_cursor_array {
        wu_npz_stream *stream;
        const wu_array_info *info;
        size_t row_bytes;
        unsigned char *data;   /* the row at hand */
    } *arrays;
} wu_cursor;

tc_status wu_cursor_open(const wu_result_file *file, const wu_table *table, wu_cursor *out,
                         tc_err *err);
/* *more is false when there is no row any more; damage is found by then. */
tc_status wu_cursor_next(wu_cursor *cursor, bool *more, tc_err *err);
void wu_cursor_close(wu_cursor *cursor);

enum { WU_CELL_MAX = 2048 };
/* A value as text: numbers with as many digits as give them back exactly, text
 * as it is (cut at WU_CELL_MAX). TC_BAD_INPUT for a number that is no item's. */
tc_status wu_cursor_text(const wu_cursor *cursor, size_t column, char out[WU_CELL_MAX], tc_err *err);
/* One element at `data`. */
void wu_value_text(const wu_array_info *info, const void *data, char out[WU_CELL_MAX]);

#endif
