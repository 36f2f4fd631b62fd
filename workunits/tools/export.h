/*
 * Exports a result as CSV tables, and as PNG, TIFF and GeoJSON files (texcell-wu export, analyse).
 */
#ifndef WU_EXPORT_H
#define WU_EXPORT_H

#include "workunits/format/archive.h"
#include "workunits/format/csv.h"
#include "workunits/format/job.h"
#include "workunits/format/result_file.h"
#include "workunits/format/title.h"

/* The name of the file that lists the files of an export, in the folder of the export: a title
 * line, then a name per line. */
#define WU_EXPORT_LIST "exported.txt"
#define WU_EXPORT_PARAMETERS "parameters" /* file name, without ".json" */

/* What an export writes besides tables. */
typedef struct wu_export_extras {
    bool pictures, tiff, geojson; /* PNG, TIFF and GeoJSON files are written */
    bool for_report; /* the command analyse exports for a report's page, which shows the pictures:
                        parameters.json is written, too */
    bool without_items_csv;  /* items.csv and columns.csv are not written here, but by
                                wu_report_write_marks_csv */
    bool only_removes_files; /* wu_export_write writes nothing, but removes an earlier export's
                                files */
} wu_export_extras;

/* Exports a result into a folder, which is made if necessary. unit: its work unit, or NULL. */
tc_status wu_export_write(const char *result, const char *unit, const char *folder,
                          wu_export_extras extras, tc_err *err);

/* For the command analyse: checks the folder before anything is computed. TC_BAD_INPUT: the folder
 * has a file with the name of one that analyse writes, and no export wrote it. */
tc_status wu_export_check_folder(const char *folder, tc_err *err);

/* Opens a work unit and checks that the result was computed from it: compares size, CRC-32 and
 * SHA-256. by_crc: only size and CRC-32 are compared, which suffices if both files were written a
 * moment ago.
 * TC_BAD_INPUT: it is another work unit. */
tc_status wu_open_unit_of_result(const wu_result_file *file, const char *path, bool by_crc,
                                 wu_job **job, tc_err *err);

/* The title of an item of the result: its name in file names, tables and on the page
 * (wu_item_title_of). */
wu_item_title wu_result_item_title(const wu_result_file *file, size_t item);

/* The name of a file, without its extension. */
typedef struct wu_file_name {
    char text[WU_MAX_MEMBER_NAME + 1];
} wu_file_name;
/* The name of files made from an item's array: the array's name, in which the item's title replaces
 * the item's name. d: the declaration of the array. */
wu_file_name wu_array_file_name(const wu_result_file *file, const wu_declaration *d, size_t item,
                                const char *array);

/* To be called before the file `name` + `end` is written into the folder: adds it to
 * WU_EXPORT_LIST, so that the next export removes it. TC_BAD_INPUT: such a file exists, and no
 * export wrote it. */
tc_status wu_export_list_file(const char *folder, const char *name, const char *end, tc_err *err);
/* To be called when all files of an export are written: tables that are changed later are kept,
 * under another name, by the next export. */
tc_status wu_export_finish_list(const char *folder, tc_err *err);
/* Calls wu_export_list_file for NAME.csv and opens this file. Call wu_csv_close also after a
 * failure.
 */
tc_status wu_export_open_csv(const char *folder, const char *name, wu_csv *out, tc_err *err);

/* Writes a CSV file for each table into `folder`, and columns.csv with the units of their columns;
 * but not items.csv and columns.csv if `without_items_csv`. Also writes a CSV file for each array
 * of values with more axes than a table has, and sets tables->used for it. *written is increased by
 * the number of files. */
tc_status wu_export_tables(const wu_result_file *file, wu_tables *tables, const char *folder,
                           bool without_items_csv, size_t *written, tc_err *err);
/* Opens columns.csv and writes the units of all columns. Call wu_csv_close also after a failure. */
tc_status wu_export_open_columns_csv(const wu_tables *tables, const char *folder, wu_csv *out,
                                     tc_err *err);
/* Writes a line of columns.csv. unit: may be NULL. */
tc_status wu_export_put_column_line(wu_csv *columns, const char *table, const char *title,
                                    const char *unit, tc_err *err);
/* Whether wu_report_write_marks_csv writes groups.csv for this result. */
bool wu_result_has_groups(wu_result_file *file, const wu_tables *tables);
/* Whether the table is written to items.csv. */
bool wu_is_items_table(const wu_table *table);
/* Writes the first cells of a line: the item's title and, if the result records sources, the file
 * that the item was made from. */
void wu_export_put_item_cells(const wu_result_file *file, uint64_t item, wu_csv *out);
/* Writes the titles of the cells of wu_export_put_item_cells, and of the table's columns unless
 * table is NULL. */
void wu_export_put_title_cells(const wu_result_file *file, const wu_table *table, wu_csv *out);

/* Draws all maps, labels and masks as PNG files into `folder`; over the pictures of the work unit
 * `images`, unless that is NULL. Sets used[i] for each array i that was drawn. */
tc_status wu_export_pictures(const wu_result_file *file, const wu_job *images, const char *folder,
                             bool *used, size_t *written, tc_err *err);

/* The positions of the points (or regions) of a table. */
typedef struct wu_points {
    uint64_t n, dims; /* dims: 2 or 3; 0: the table has no positions */
    int64_t *item;    /* [n] index of the item */
    double *position; /* [n][dims], in pixels: (z,) y, x */
} wu_points;

/* Loads the positions of a table's points. The caller frees *out by wu_points_free, also after a
 * failure. */
tc_status wu_points_load(const wu_result_file *file, const wu_table *table, wu_points *out,
                         tc_err *err);
void wu_points_free(wu_points *points);

/* Draws the points of a table over the pictures of the work unit: one PNG file for an image; for a
 * stack, one with its maximum projection along z, and one with its slices. Draws nothing for a
 * table without positions. */
tc_status wu_export_points(const wu_result_file *file, const wu_table *table, const wu_job *images,
                           const char *folder, size_t *written, tc_err *err);

/* Writes all maps, labels and masks as TIFF files: maps as 32-bit floats; labels with 16 bits, or
 * 32 if one is larger than 65535; masks as 0 and 255; the slices of a stack as pages. images: the
 * work unit, which has the size of a pixel, or NULL. TC_BAD_INPUT: this build has no libtiff. */
tc_status wu_export_tiff(const wu_result_file *file, const wu_job *images, const char *folder,
                         size_t *written, tc_err *err);

/* Writes GeoJSON files: the regions of labels and masks as polygons, points as points. */
tc_status wu_export_geojson(const wu_result_file *file, const wu_tables *tables, const char *folder,
                            size_t *written, tc_err *err);

#endif
