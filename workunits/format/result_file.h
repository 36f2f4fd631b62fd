/*
 * Reads results for the commands show and export and for data sets: opens the NPZ, reads the items'
 * names and the declarations of arrays, and sorts the arrays into tables.
 */
#ifndef WU_RESULT_FILE_H
#define WU_RESULT_FILE_H

#include <stdbool.h>
#include <stdio.h>

#include "workunits/format/declared.h"

/* An open result. */
typedef struct wu_result_file {
    const char *path; /* not owned */
    wu_npz_reader *npz;
    size_t n_items;
    char **item_names;         /* [n_items] UTF-8 */
    const char **item_sources; /* [n_items] path of the file that each item was made from, or "" if
                                  it is unknown; NULL if it is unknown for all items */
    double *item_spacing; /* [n_items][3] size of a voxel (z, y, x) in micrometres, NaN if it is
                             unknown; NULL if it is unknown for all items */
    size_t n_declared;
    wu_declaration *declared; /* [n_declared] from result.json; the arrays need not match them */
} wu_result_file;

/* Opens a result and reads its declarations and item_names. limits: as for wu_npz_open.
 * TC_BAD_INPUT: the file is not a result, or has no item_names. *out must be closed by
 * wu_result_file_close, also after a failure. */
tc_status wu_result_file_open(const char *path, const wu_npz_limits *limits, wu_result_file *out,
                              tc_err *err);
void wu_result_file_close(wu_result_file *file);

/* Finds the array of a declaration, and sets *index to its index in the NPZ. item: the name of an
 * item, for pictures; otherwise NULL. TC_BAD_INPUT: the array does not exist or does not match its
 * declaration. */
tc_status wu_find_declared_array(const wu_result_file *file, const wu_declaration *d,
                                 const char *item, size_t *index, tc_err *err);

/* Returns the first array in the result that is a picture of item `item`, or NULL if there is none.
 * The shape of the array is the size of the item. */
const wu_array_info *wu_first_picture(const wu_result_file *file, size_t item);

/* --- tables ---------------------------------------------------------------------------------- */

/* An array of a table. */
typedef struct wu_table_array {
    size_t index;              /* index of the array in the NPZ */
    const wu_array_info *info; /* shape [rows] or [rows, k] */
    const wu_declaration *declared;
} wu_table_array;

/* A column of a table: one element of each row of an array. */
typedef struct wu_column {
    size_t array, element; /* index of the array in the table; index within a row of the array */
    bool in_um; /* an additional column: the values converted to micrometres, by item_spacing */
} wu_column;

/* A table of a result: the arrays that are declared with the same table name. */
typedef struct wu_table {
    const char *name; /* such as "features", "items" or "regions" */
    uint64_t rows;
    size_t n_arrays;
    wu_table_array *arrays; /* points into wu_tables.arrays */
    bool has_item_array; /* the table may have any number of rows for an item, and arrays[0] (role
                      WU_ITEM) has the item of each row; false: row i belongs to item i */
    bool in_voxels; /* the size of voxels is unknown for all items: sizes are not in micrometres */
    bool flat;      /* the result has a picture, and it has two axes: the items are images, not
                       stacks */
    size_t n_columns; /* number of columns, without the WU_ITEM array */
    wu_column *columns;
} wu_table;

/* All tables of a result. */
typedef struct wu_tables {
    size_t n;
    wu_table *tables;       /* [n] in the order of the declarations */
    wu_table_array *arrays; /* the arrays of all tables */
    bool *used; /* for each array of the NPZ, whether it is in a table or names a table's columns */
} wu_tables;

/* Sorts the arrays into tables, except those of more than two axes. TC_BAD_INPUT: arrays do not
 * match their declarations or each other. *out must be freed by wu_tables_free, also after a
 * failure. */
tc_status wu_tables_find(const wu_result_file *file, wu_tables *out, tc_err *err);
void wu_tables_free(wu_tables *tables);
/* The type of the column's values. */
wu_dtype wu_column_dtype(const wu_table *table, size_t column);
void wu_column_title(const wu_table *table, size_t column, char out[WU_TITLE_MAX]);
/* The column's unit, such as "pixel^2", or NULL. */
const char *wu_column_unit(const wu_table *table, size_t column);

/* Reads a table row by row; only the current row is in memory. */
typedef struct wu_cursor {
    const wu_result_file *file;
    const wu_table *table;
    uint64_t row; /* index of the current row */
    size_t item;  /* index of the item that the current row belongs to */
    double um;    /* buffer: for a column in micrometres, wu_cursor_value returns its address */
    struct wu_cursor_array {
        wu_npz_stream *stream;
        size_t row_bytes;
        unsigned char *data; /* the elements of the current row */
    } *arrays;
} wu_cursor;

tc_status wu_cursor_open(const wu_result_file *file, const wu_table *table, wu_cursor *out,
                         tc_err *err);
/* Advances to the next row and returns true. After the last row, checks the CRCs of all arrays and
 * returns false. After a failure, stores it in *status and returns false. If *status is a failure
 * already, only returns false: so the call can be the only condition of a loop over the rows.
 * TC_BAD_INPUT: the file is damaged, or the row's item does not exist. */
bool wu_cursor_next(wu_cursor *cursor, tc_status *status, tc_err *err);
void wu_cursor_close(wu_cursor *cursor);
/* Returns the column's value in the current row, valid until the next call. Sets *info to its type.
 */
const void *wu_cursor_value(wu_cursor *cursor, size_t column, const wu_array_info **info);

enum { WU_CELL_MAX = 2048 }; /* bytes for the text of a value, with the final NUL */
/* Writes the element at `data` as text: a number with the fewest digits that represent it exactly,
 * text as it is, cut after WU_CELL_MAX - 1 bytes. */
void wu_value_text(const wu_array_info *info, const void *data, char out[WU_CELL_MAX]);
/* The element at `data` as a double; NaN if it is text. */
double wu_value_number(const wu_array_info *info, const void *data);
/* The column's value in the current row as a number, like wu_value_number, and as text, like
 * wu_value_text. */
double wu_cursor_number(wu_cursor *cursor, size_t column);
void wu_cursor_text(wu_cursor *cursor, size_t column, char out[WU_CELL_MAX]);

#endif
