/*
 * A result as show, export and the data set look at it: the open NPZ, the items'
 * names, and its arrays as they are declared, sorted into tables.
 */
#ifndef WU_RESULT_FILE_H
#define WU_RESULT_FILE_H

#include <stdbool.h>
#include <stdio.h>

#include "workunits/format/declared.h"

typedef struct wu_result_file {
    const char *path; /* not owned */
    wu_npz_reader *npz;
    size_t n_items;
    char **item_names; /* UTF-8 */
    /* Which file each was made of, "" where that is not known; NULL: of none */
    const char **item_sources;
    double *item_spacing; /* [n_items][3]: z, y, x of a voxel in micrometres, NaN: not said; NULL:
                             of none */
    size_t n_declared;
    wu_declared *declared; /* as result.json says; whether the arrays fit it is not known */
} wu_result_file;

/* Opens a result (limits: wu_npz_open) and reads its declarations and item_names.
 * wu_result_file_close also after a failure. TC_BAD_INPUT if it is no result or names are
 * missing. */
tc_status wu_result_file_open(const char *path, const wu_npz_limits *limits, wu_result_file *out,
                              tc_err *err);
void wu_result_file_close(wu_result_file *file);

/* The index of a declared array, a picture's of that item (else NULL), which must be there
 * and fit what is declared of it. TC_BAD_INPUT. */
tc_status wu_find_declared(const wu_result_file *file, const wu_declared *d, const char *item,
                           size_t *index, tc_err *err);

/* The first picture of item `item` that is there, for the item's size; NULL: there is none. */
const wu_array_info *wu_first_picture(const wu_result_file *file, size_t item);

/* --- tables ---------------------------------------------------------------------------------- */

typedef struct wu_table_array {
    size_t index;              /* in the NPZ */
    const wu_array_info *info; /* shape [rows] or [rows, k] */
    const wu_declared *declared;
} wu_table_array;

typedef struct wu_column {
    size_t array, element; /* of the table's arrays; within a row of it */
    bool in_um;            /* the same in micrometres (um, um2), which follow from item_spacing */
} wu_column;

typedef struct wu_table {
    const char *name; /* "features", "items", "regions" */
    uint64_t rows;
    size_t n_arrays;
    wu_table_array *arrays; /* within those of all tables */
    bool has_item;          /* arrays[0] tells each row's item; else row i is of item i */
    bool in_voxels;         /* no item says how large a voxel is: sizes are not in micrometres */
    bool flat;              /* of pictures, not stacks, where a picture of the result tells */
    size_t n_columns;       /* of the other arrays */
    wu_column *columns;
} wu_table;

typedef struct wu_tables {
    size_t n;
    wu_table *tables;       /* in the order in which they are declared */
    wu_table_array *arrays; /* of all of them */
    bool *used;             /* per array of the NPZ: it is in a table, or gives it names */
} wu_tables;

/* Sorts the arrays. Those of more than two axes are in no table. TC_BAD_INPUT: they do
 * not fit their declarations or each other. wu_tables_free also after a failure. */
tc_status wu_tables_find(const wu_result_file *file, wu_tables *out, tc_err *err);
void wu_tables_free(wu_tables *tables);
/* Of its values. */
wu_dtype wu_column_dtype(const wu_table *table, size_t column);
void wu_column_title(const wu_table *table, size_t column, char out[WU_TITLE_MAX]);
/* "pixel^2", or NULL. */
const char *wu_column_unit(const wu_table *table, size_t column);

/* Reads a table row by row with the memory of one row. */
typedef struct wu_cursor {
    const wu_result_file *file;
    const wu_table *table;
    uint64_t row; /* number of the row at hand */
    size_t item;  /* whose it is */
    double um;    /* what wu_cursor_value gave last, of a column in micrometres */
    struct wu_cursor_array {
        wu_npz_stream *stream;
        size_t row_bytes;
        unsigned char *data; /* the row at hand */
    } *arrays;
} wu_cursor;

tc_status wu_cursor_open(const wu_result_file *file, const wu_table *table, wu_cursor *out,
                         tc_err *err);
/* Goes on to the next row. False: there is none (damage is found by then), or *status, which was
 * TC_OK before, says what failed. TC_BAD_INPUT: the row is of no item. Once *status is a failure it
 * reads nothing, so that a loop over rows asks this alone. */
bool wu_cursor_next(wu_cursor *cursor, tc_status *status, tc_err *err);
void wu_cursor_close(wu_cursor *cursor);
/* A value of the row at hand, until the next call, and of which type it is. */
const void *wu_cursor_value(wu_cursor *cursor, size_t column, const wu_array_info **info);

enum { WU_CELL_MAX = 2048 };
/* One element at `data` as text: numbers with the fewest digits that give them back exactly,
 * text as it is (cut at WU_CELL_MAX). */
void wu_value_text(const wu_array_info *info, const void *data, char out[WU_CELL_MAX]);
/* A number of any type; NaN for text. */
double wu_value_number(const wu_array_info *info, const void *data);
double wu_cursor_number(wu_cursor *cursor, size_t column);
void wu_cursor_text(wu_cursor *cursor, size_t column, char out[WU_CELL_MAX]);

#endif
