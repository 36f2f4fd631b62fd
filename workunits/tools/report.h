/*
 * The parts of texcell-wu report.
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

/* Whether the answer of an image can be believed. */
typedef struct wu_mark {
    int level;            /* 0: ok, 1: look, 2: wrong? */
    char why[TC_ERR_MAX]; /* "": ok */
} wu_mark;

/* A picture of labels or of a mask, of step x step pixels the one in the middle. */
typedef struct wu_sampled {
    uint32_t nx, ny, step, sx, sy;
    uint32_t *grid; /* [sy][sx] */
} wu_sampled;

/* What is found in the labels of an image that is shown. */
typedef struct wu_outlined {
    bool ragged;       /* most outlines are */
    size_t merged, n;  /* regions that look like several cells, where these are many, of n */
    wu_sampled labels; /* its figure takes the grid, which is owned; NULL: it is not kept */
} wu_outlined;

/* What a page is made from. */
typedef struct wu_report {
    wu_page *page;
    wu_result_file *file;
    wu_run_reader *runs; /* of its labels, or NULL */
    wu_tables *tables;
    wu_job *images;                  /* the work unit, or NULL */
    wu_seen *seen;                   /* [n_items] what packing kept of it, or NULL; not owned */
    size_t n_items;                  /* that are shown */
    size_t n_variants;               /* reports on the page, whose pictures share the room */
    wu_points *points;               /* [tables->n] */
    double *radii;                   /* [file->n_items] of points, where each item has its own */
    char **notes;                    /* of each item, as wu_notes_read has them */
    wu_outlined *outlined;           /* [n_items], once wu_report_find_marks was called */
    struct wu_summary *summary;      /* once wu_report_find_marks was called */
    wu_mark *marks;                  /* of each item, once wu_report_find_marks was called */
    const char *colour;              /* what of colours is analysed, in words, or "" */
    const an_suggestion *suggestion; /* that the parameters came from, or NULL; not owned */
} wu_report;

/* An item's pictures with what was found on them: for an image one figure, for a stack its
 * largest greys along z where there are points, and slices; and one for each map and slice.
 * Nothing where nothing is known of its looks. */
tc_status wu_report_figures(wu_report *r, size_t item, tc_err *err);

/* Opens a result, and its work unit unless that is NULL; wu_report_close also after a failure.
 * seen: of the work unit that was run just now, whose items' pictures it gives up; or NULL. */
tc_status wu_report_open(wu_report *r, const char *result, const char *images, wu_seen *seen,
                         uint64_t items, tc_err *err);
void wu_report_close(wu_report *r);

/* Writes the page of an open report, and finds the marks. colour: what of colours is analysed, or
 * ""; suggestion: or NULL. */
tc_status wu_report_write_page(wu_report *r, const char *output, const char *colour,
                               const an_suggestion *suggestion, tc_err *err);
/* Both, of a result by itself or with its work unit (images: its file, or NULL): pictures of up to
 * `items` items. */
tc_status wu_report_write(const char *result, const char *images, const char *output,
                          uint64_t items, tc_err *err);
/* What was kept of an item's picture; NULL: nothing. */
wu_seen *wu_seen_by(const wu_report *r, size_t item);

/* Sets r->outlined, of images that have so many regions each. */
tc_status wu_report_find_ragged(wu_report *r, const size_t *counts, tc_err *err);
/* How an image's figure takes a picture of the result, the grid aside; sx 0: there is none. */
wu_sampled wu_report_sampling(const wu_report *r, size_t item);
/* Whether anything is taken of row y. */
bool wu_samples_row(const wu_sampled *to, uint32_t y);
/* Takes what there is of row y: labels, or a mask. */
void wu_sample_row(const wu_sampled *to, uint32_t y, const void *row, bool labels);

/* What the pixels of an image say of what was counted in it. */
typedef struct wu_seen_doubt {
    bool noise;        /* most of it stands out no more than noise does */
    const char *frame; /* "dark" or "bright": one of one grey value surrounds the field; or NULL */
    bool drawn;        /* some of it has edges of a pixel, as letters have */
    bool wide;         /* points of cells of a quarter of the image were looked for */
    bool labels;       /* its values are labels */
    bool cubes;        /* of unknown size, its voxels were taken for cubes */
    bool surveyed;
    an_survey survey; /* its greys, if all of them were seen */
} wu_seen_doubt;
/* Of each image, where the work unit is known: noise and the like where cellcount and voting
 * count. */
tc_status wu_report_find_noise(const wu_report *r, wu_seen_doubt *doubts, tc_err *err);
/* The least and the greatest grey value, and the median. */
typedef struct wu_range {
    uint32_t lo, hi, median;
} wu_range;
tc_status wu_find_labels(const wu_pixels *px, const wu_range *range, bool *labels, tc_err *err);
/* "dark" or "bright"; NULL: it has none. */
const char *wu_find_frame(const wu_pixels *px, const wu_range *range);
bool wu_is_drawn(const wu_pixels *px, size_t z, const double at[2], double radius, bool bright,
                 const wu_range *range);

/* Sums up what was found, and the mark of each image, which the summary and the tables of variants
 * show. Once a report. */
tc_status wu_report_find_marks(wu_report *r, tc_err *err);
void wu_report_free_summary(wu_report *r);
void wu_report_mark(wu_page *page, const wu_mark *mark); /* a cell */
/* Once the marks are found: items.csv, with each image's group and mark behind its own columns, and
 * groups.csv where images are compared by their folders; columns: columns.csv, too. After
 * wu_export_write with also.marks. */
tc_status wu_report_marks_csv(wu_report *r, const char *folder, bool columns, tc_err *err);
/* How many were found, and a row for each image: counts, sizes, and whether to believe them. */
tc_status wu_report_summary(wu_report *r, tc_err *err);

/* Whether the table is one of features of textures. */
bool wu_report_has_features(const wu_table *table);
/* What the column of one is called; false: it is none. */
bool wu_report_feature_title(wu_page *page, const wu_table *table, size_t column);
/* A row for each of them, with what it says, and a column for each image. */
tc_status wu_report_features(wu_report *r, const wu_table *table, tc_err *err);

/* The first rows of a table. */
tc_status wu_report_table(wu_report *r, const wu_table *table, tc_err *err);
/* A table's values, for the figures. */
tc_status wu_report_values(wu_report *r, const wu_table *table, tc_err *err);

/* --- what these share ------------------------------------------------------------------------- */

/* The columns with numbers that are not the same in all rows, those first that people look at.
 * *out: free(), also after a failure. */
tc_status wu_report_columns(const wu_report *r, const wu_table *table, size_t **out, size_t *n,
                            tc_err *err);
/* The column with this title; -1: the table has none. */
long wu_report_find_column(const wu_table *table, const char *title);
bool wu_report_has_stacks(const wu_report *r);
/* Whether walls belong to the cells at their sides, so that no threshold tells them. */
bool wu_report_fills(const wu_report *r);
/* What the rows of a table are: "cells". */
const char *wu_report_word(const wu_table *table);
/* A column's title without its unit, which is returned, or NULL. */
const char *wu_report_unit(const wu_report *r, const wu_table *table, size_t column,
                           char title[WU_TITLE_MAX]);
/* A unit as people write it: "px" with a raised 2 for "pixel^2". */
void wu_report_unit_text(const char *unit, char *out, size_t size);
void wu_report_title(const wu_report *r, const wu_table *table, size_t column);
/* A number with the digits that mean something. */
void wu_report_number(wu_page *page, double value);
void wu_report_cell(const wu_report *r, const wu_table *table, size_t column,
                    const wu_array_info *info, const void *data);

/* One of several results of the same pictures. */
typedef struct wu_variant {
    char *name;          /* "radius=6" */
    char *unit, *result; /* files */
    char *place;         /* the folder of its tables */
} wu_variant;

/* A row for each variant, of all images together: counts, sizes, the worst mark and how many have
 * it; nothing where nothing is found in images. Once the marks of each report are found. */
void wu_report_variant_sums(wu_report *reports, const wu_variant *variants, size_t n);
/* Table t of each variant in one. */
tc_status wu_report_variants(wu_report *reports, const wu_variant *variants, size_t n_variants,
                             size_t t, tc_err *err);

/* The page of a sweep: the tables of items, and each picture with what each variant found, side by
 * side. */
tc_status wu_report_sweep(const wu_variant *variants, size_t n, const char *output,
                          const char *colour, tc_err *err);

#endif
