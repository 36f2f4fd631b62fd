/*
 * Makes the HTML page of a result (texcell-wu report, analyse): a summary with a mark for each
 * image, pictures with what was found on them, and tables. Also finds the marks for the tables of
 * an export.
 */
#ifndef WU_REPORT_H
#define WU_REPORT_H

#include "workunits/format/job.h"
#include "workunits/format/label_runs.h"
#include "workunits/format/result_file.h"
#include "workunits/tools/export.h"
#include "workunits/format/page.h"
#include "workunits/tools/shrink.h"
#include "workunits/tools/suggest.h"

/* The mark of an image: whether its numbers can be trusted. */
typedef struct wu_mark {
    int level;            /* 0: ok, 1: look, 2: wrong? */
    char why[TC_ERR_MAX]; /* the reason; "" if ok */
} wu_mark;

/* A picture of labels or of a mask, reduced in size: of each square of step x step pixels, only the
 * pixel in the middle is kept. */
typedef struct wu_sample_grid {
    uint32_t nx, ny, step, sx, sy; /* nx x ny: the whole picture; sx x sy: the grid */
    uint32_t *grid;                /* [sy][sx] */
} wu_sample_grid;

/* Findings about the labelled regions of an image that the page shows. */
typedef struct wu_outlines {
    bool ragged;    /* most outlines are ragged */
    size_t merged;  /* number of indented regions that look like several cells; 0 if they are few */
    size_t several; /* number of regions so large that they may be several cells; 0 if few */
    size_t n;       /* number of all regions */
    wu_label_run *runs; /* [n_runs] the labels that the image's figure shows, as runs of equal
                           labels; owned; NULL if they are not kept */
    size_t n_runs;
} wu_outlines;

/* An open result, and what the parts of its page need. */
typedef struct wu_report {
    wu_page *page;
    wu_result_file *file;
    wu_run_reader *runs; /* the runs of the result's labels, from a file next to it, or NULL */
    wu_tables *tables;
    wu_job *images;           /* the work unit, or NULL */
    wu_thumbnail *thumbnails; /* [n_items] reduced pictures that pack kept, or NULL; not owned */
    size_t n_items;           /* only the pictures of the first n_items items are shown; the tables
                                 have all file->n_items items */
    size_t n_variants;     /* number of reports that share the page; pictures are smaller if there
                              are more */
    wu_points *points;     /* [tables->n] the points of each table */
    double *radii;         /* [file->n_items] the radius of points in each item, if the analysis
                              determined it from the item; else NULL */
    char **notes;          /* [file->n_items], as wu_notes_read returns them */
    wu_outlines *outlined; /* [n_items], set by wu_report_find_marks */
    struct wu_summary *summary; /* set by wu_report_find_marks */
    wu_mark *marks;             /* [file->n_items], set by wu_report_find_marks */
    const char *colour;         /* which channel or stain is analysed, in words, or "" */
    const an_suggestion
        *suggestion; /* the suggestion that gave the parameters, or NULL; not owned */
} wu_report;

/* Writes an item's pictures with the outlines and points that were found. An image has one figure.
 * A stack has a figure for each of some slices and, if there are points, a maximum projection along
 * z. Each map has a figure for each of these slices. Writes nothing if neither the work unit nor a
 * picture in the result shows the item. */
tc_status wu_report_put_figures(wu_report *r, size_t item, tc_err *err);

/* Opens a result and, if `images` is not NULL, its work unit `images`. Call wu_report_close on
 * success and failure. items: the most items whose pictures are shown. thumbnails: the reduced
 * pictures of the same work unit that pack kept, or NULL; they are freed when the figures are
 * written. */
tc_status wu_report_open(wu_report *r, const char *result, const char *images,
                         wu_thumbnail *thumbnails, uint64_t items, tc_err *err);
void wu_report_close(wu_report *r);

/* Finds the marks of an open report and writes its page to the file `output`. colour, suggestion:
 * as in wu_report; suggestion may be NULL. */
tc_status wu_report_write_page(wu_report *r, const char *output, const char *colour,
                               const an_suggestion *suggestion, tc_err *err);
/* Opens a result, writes its page, and closes it. images: the file of its work unit, or NULL. */
tc_status wu_report_write(const char *result, const char *images, const char *output,
                          uint64_t items, tc_err *err);
/* Returns the reduced picture of an item that pack kept, or NULL. */
wu_thumbnail *wu_report_thumbnail(const wu_report *r, size_t item);

/* Sets r->outlined. counts: [n_items] the number of regions of each image. */
tc_status wu_report_find_outlines(wu_report *r, const size_t *counts, tc_err *err);
/* Returns the grid (sizes and step; `grid` is NULL) in which the figure of an image samples the
 * result's labels and masks. sx is 0 if the item is a stack or no picture shows it. */
wu_sample_grid wu_report_sample_grid(const wu_report *r, size_t item);
/* Whether row y of the picture has pixels for the grid. */
bool wu_row_is_sampled(const wu_sample_grid *to, uint32_t y);
/* Copies the pixels of row y that are sampled, if any, into the grid. row: uint32_t labels, or
 * uint8_t samples of a mask. */
void wu_sample_row(const wu_sample_grid *to, uint32_t y, const void *row, bool labels);

/* Reasons, found in an image's pixels, to doubt what was counted in it. */
typedef struct wu_count_doubt {
    bool noise;        /* most counted objects stand out no more than noise does */
    const char *frame; /* "dark" or "bright" if a frame of this grey value surrounds the field of
                          view, else NULL */
    bool smooth; /* the image has no edges: its grey values change gradually, as in uneven light */
    bool blunt;  /* a region covers more than a fifth of the image, and outlines follow no edges */
    bool drawn;  /* some counted objects have edges one pixel wide, as letters have, or
                    are hot pixels */
    bool wide;   /* the radius searched for is that of cells as wide as a quarter of the image */
    bool labels; /* the image looks like a label picture */
    bool cubes;  /* the image's voxels, whose size is unknown, were assumed to be cubes */
    size_t missed; /* number of objects that are as large as the counted regions, but stand out less
                      and were not counted; 0 if they are few */
    double excess; /* the median ratio of a region's area to its area at half of its contrast; 0 if
                      it is unknown */
    bool surveyed; /* whether `survey` is set */
    an_survey survey; /* the range of grey values of the whole image */
} wu_count_doubt;
/* Fills doubts[file->n_items] for the images of the work unit, if there is one. Most doubts are
 * found only for results with regions (cellcount) or points (voting). `smooth` is also found for
 * results with masks (levelset), and `cubes` for all results. */
tc_status wu_report_find_doubts(const wu_report *r, wu_count_doubt *doubts, tc_err *err);
/* The least, the greatest and the median grey value of an image. */
typedef struct wu_range {
    uint32_t lo, hi, median;
} wu_range;
/* Sets *labels to whether the picture looks like a label picture, that is, has few different values
 * in compact patches. */
tc_status wu_find_labels(const wu_pixels *px, const wu_range *range, bool *labels, tc_err *err);
/* Returns "dark" or "bright" if a frame of the least or greatest grey value surrounds the field of
 * view, else NULL. */
const char *wu_find_frame(const wu_pixels *px, const wu_range *range);
/* Whether the object around `at` (y, x) in slice z was drawn by a program, as letters and scale
 * bars are, or is a hot pixel. bright: whether the object is brighter than its surroundings. */
bool wu_is_drawn(const wu_pixels *px, size_t z, const double at[2], double radius, bool bright,
                 const wu_range *range);

/* Computes the summary (counts, sizes, groups) and the mark of each image. To be called once per
 * report, before the functions that write them. */
tc_status wu_report_find_marks(wu_report *r, tc_err *err);
void wu_report_free_summary(wu_report *r);
/* Writes a mark as a cell of a table. */
void wu_report_put_mark(wu_page *page, const wu_mark *mark);
/* Writes items.csv, with each image's group and mark after its other columns; groups.csv if images
 * are compared by their folders; and columns.csv if `columns`. To be called after
 * wu_report_find_marks and after wu_export_write with also.without_items_csv. */
tc_status wu_report_write_marks_csv(wu_report *r, const char *folder, bool columns, tc_err *err);
/* Writes the head of the page: how many objects were found, and a row for each image with counts,
 * sizes and the mark. */
tc_status wu_report_put_summary(wu_report *r, tc_err *err);

/* Whether the table has texture features as columns. */
bool wu_report_has_features(const wu_table *table);
/* Writes the title of a column of a table with texture features. Returns false, and writes nothing,
 * if the table has none. */
bool wu_report_put_feature_title(wu_page *page, const wu_table *table, size_t column);
/* Writes a table with texture features: a row for each feature, explained, and a column for each
 * image. */
tc_status wu_report_put_features(wu_report *r, const wu_table *table, tc_err *err);

/* Writes the first rows of a table. */
tc_status wu_report_put_table(wu_report *r, const wu_table *table, tc_err *err);
/* Writes a table's values as hidden elements, from which page.js draws figures. */
tc_status wu_report_put_values(wu_report *r, const wu_table *table, tc_err *err);

/* --- functions that several parts of the page use --------------------------------------------- */

/* Lists the columns with numbers that are not the same in all rows, the most important first. Sets
 * *out to the indices of the *n columns, to be freed by free(), also after a failure. */
tc_status wu_report_list_columns(const wu_report *r, const wu_table *table, size_t **out, size_t *n,
                                 tc_err *err);
/* The index of the column with this title, or -1. */
long wu_report_find_column(const wu_table *table, const char *title);
/* Whether the first item of the result is a stack. */
bool wu_report_has_stacks(const wu_report *r);
/* Whether the parameter "fill" of the analysis volume is set. With it, walls belong to the cells on
 * both sides, and no threshold separates wall from cell. */
bool wu_report_has_fill(const wu_report *r);
/* The word for the rows of a table: "cells" for regions and points, else the table's name. */
const char *wu_report_object_word(const wu_table *table);
/* Sets `title` to a column's title without its unit. Returns the unit, or NULL if the column has
 * none or the title names it. */
const char *wu_report_unit(const wu_report *r, const wu_table *table, size_t column,
                           char title[WU_TITLE_MAX]);
/* Sets `out` to a unit as people write it: "px" with a raised 2 for "pixel^2". */
void wu_report_unit_text(const char *unit, char *out, size_t size);
/* Writes a column's title and unit. */
void wu_report_put_title(const wu_report *r, const wu_table *table, size_t column);
/* Writes a number with at most four significant digits, or all of a whole number. */
void wu_report_put_number(wu_page *page, double value);
/* Writes a value of a column as a cell of a table, rounded for display; the attribute data-v has
 * all digits, for sorting. info, data: the value as wu_cursor_value returns it. */
void wu_report_put_cell(const wu_report *r, const wu_table *table, size_t column,
                        const wu_array_info *info, const void *data);

/* One of several results of the same pictures, with other parameters. */
typedef struct wu_variant {
    char *name;          /* such as "radius=6" */
    char *unit, *result; /* paths of the variant's work unit and result */
    char *output_folder; /* the folder into which the variant's tables are written */
} wu_variant;

/* Writes a row for each variant: the counts and sizes of all images together, the worst mark, and
 * how many images have this mark. Writes nothing if the results have no table of objects.
 * wu_report_find_marks must have been called for each report. */
void wu_report_put_variant_sums(wu_report *reports, const wu_variant *variants, size_t n);
/* Writes table t of all variants as one table. */
tc_status wu_report_put_variants(wu_report *reports, const wu_variant *variants, size_t n_variants,
                                 size_t t, tc_err *err);

/* Writes the page of a sweep (several variants of the parameters): the tables of items, and each
 * picture once for each variant, side by side, with the objects that the variant found. Also writes
 * each variant's tables with marks into the variant's folder. */
tc_status wu_report_sweep(const wu_variant *variants, size_t n, const char *output,
                          const char *colour, tc_err *err);

#endif
