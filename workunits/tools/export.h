/*
 * The parts of texcell-wu export.
 */
#ifndef WU_EXPORT_H
#define WU_EXPORT_H

#include "workunits/format/archive.h"
#include "workunits/format/csv.h"
#include "workunits/format/job.h"
#include "workunits/format/result_file.h"
#include "workunits/format/title.h"

/* A file in each folder of an export, with a title, then the name of a file of the export a line.
 */
#define WU_EXPORT_LIST "exported.txt"
#define WU_EXPORT_PARAMETERS "parameters" /* .json */

/* What is written besides tables. */
typedef struct wu_export_also {
    bool pictures, tiff, geojson;
    bool shown; /* a page shows the pictures and names the file of the parameters */
    bool marks; /* wu_report_marks_csv writes items.csv and columns.csv */
    bool only_marks;
} wu_export_also;

/* All files of a result; unit: its work unit, or NULL. */
tc_status wu_export_write(const char *result, const char *unit, const char *folder,
                          wu_export_also also, tc_err *err);

/* Before anything is computed: TC_BAD_INPUT: the folder has a file of somebody's own that analyse
 * would write. */
tc_status wu_export_check(const char *folder, tc_err *err);

/* Opens the work unit that a result is of, by SHA-256, or by size and CRC-32 alone, which are
 * enough where both were written just now. TC_BAD_INPUT: it is of another. */
tc_status wu_open_images(const wu_result_file *file, const char *path, bool by_crc, wu_job **job,
                         tc_err *err);

wu_item_title wu_result_item_title(const wu_result_file *file, size_t item);

typedef struct wu_file_name {
    char text[WU_MAX_MEMBER_NAME + 1];
} wu_file_name;
/* What the files of an item's array begin with: the array's name, with the item's title. */
wu_file_name wu_name_file(const wu_result_file *file, const wu_declared *d, size_t item,
                          const char *array);

/* Before folder/NAME END is written: puts it into the list of files that the next export removes.
 * TC_BAD_INPUT: there is one of this name, which no export wrote. */
tc_status wu_export_begin(const char *folder, const char *name, const char *end, tc_err *err);
/* The same for folder/NAME.csv, which it begins. wu_csv_close also after a failure. */
tc_status wu_export_csv(const char *folder, const char *name, wu_csv *out, tc_err *err);

/* Writes one CSV file per table into `folder`, with their units in columns.csv (but items.csv and
 * columns.csv if `marks`), and one named after each array that has more axes, which is then `used`.
 * *written counts the files. */
tc_status wu_export_tables(const wu_result_file *file, wu_tables *tables, const char *folder,
                           bool marks, size_t *written, tc_err *err);
/* Begins columns.csv with the units of the tables' columns. wu_csv_close also after a failure. */
tc_status wu_export_columns(const wu_tables *tables, const char *folder, wu_csv *out, tc_err *err);
/* A line of it. unit: NULL: none. */
tc_status wu_export_column(wu_csv *columns, const char *table, const char *title, const char *unit,
                           tc_err *err);
/* Whether wu_report_marks_csv writes groups.csv. */
bool wu_has_groups(wu_result_file *file, const wu_tables *tables);
/* Whether the table is items.csv. */
bool wu_is_of_items(const wu_table *table);
/* The first cells of a line: the item, and the file that it was made of where that is known. */
void wu_export_item(const wu_result_file *file, uint64_t item, wu_csv *out);
void wu_export_titles(const wu_result_file *file, const wu_table *table, wu_csv *out);

/* Draws every map, labels and mask into `folder`; with a work unit of the same items (else
 * NULL) over its pictures. used[i] is set for each array that was drawn. */
tc_status wu_export_pictures(const wu_result_file *file, const wu_job *images, const char *folder,
                             bool *used, size_t *written, tc_err *err);

/* Where the points of a table are. */
typedef struct wu_points {
    uint64_t n, dims; /* dims 0: the table has no places */
    int64_t *item;    /* [n] */
    double *at;       /* [n][dims], in pixels: (z,) y, x */
} wu_points;

/* *out: wu_points_free, also after a failure. */
tc_status wu_points_load(const wu_result_file *file, const wu_table *table, wu_points *out,
                         tc_err *err);
void wu_points_free(wu_points *points);

/* Draws the points of a table over the pictures of its work unit: for an image one
 * picture, for a stack its largest greys along z and its slices. Nothing for a table
 * without places. */
tc_status wu_export_points(const wu_result_file *file, const wu_table *table, const wu_job *images,
                           const char *folder, size_t *written, tc_err *err);

/* Every map, labels and mask as TIFF: maps of 32-bit floats, labels of 16 bits, or 32 where there
 * are more, masks of 0 and 255; stacks as pages; images: for the size of a pixel, or NULL.
 * TC_BAD_INPUT: this build has no TIFF. */
tc_status wu_export_tiff(const wu_result_file *file, const wu_job *images, const char *folder,
                         size_t *written, tc_err *err);

/* Labels and masks as polygons, points as points. */
tc_status wu_export_geojson(const wu_result_file *file, const wu_tables *tables, const char *folder,
                            size_t *written, tc_err *err);

#endif
