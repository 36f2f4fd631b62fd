/*
 * The parts of texcell-wu report.
 */
#ifndef WU_REPORT_H
#define WU_REPORT_H

#include "workunits/format/job.h"
#include "workunits/format/result_file.h"
#include "workunits/tools/export.h"
#include "workunits/format/page.h"
#include "workunits/tools/suggest.h"

enum {
    WU_REPORT_ITEMS = 200,     /* that are shown, unless it is set */
    WU_REPORT_BYTES = 12 << 20 /* that their pictures take before they are compressed, about; */
}; /*   their outlines half as much */

/* What a page is made from. */
typedef struct wu_report {
    wu_page *page;
    wu_result_file *file;
    wu_tables *tables;
    wu_job *images;                  /* the work unit, or NULL */
    size_t n_items;                  /* that are shown */
    size_t n_variants;               /* reports on the page, whose pictures share the room */
    wu_points *points;               /* [tables->n] */
    char **notes;                    /* of each item, as wu_notes_read has them */
    const an_suggestion *suggestion; /* that the parameters came from, or NULL; not owned */
} wu_report;

/* An item's pictures with what was found on them: for an image one figure, for a stack its
 * largest greys along z where there are points, and slices; and one for each map and slice.
 * Nothing where nothing is known of its looks. */
tc_status wu_report_figures(wu_report *r, size_t item, tc_err *err);

/* Writes the page; images and suggestion may be NULL; pictures of up to `items` items. */
tc_status wu_report_write(const char *result, const char *images, const char *output,
                          uint64_t items, const an_suggestion *suggestion, tc_err *err);

/* A table: histograms of its first columns, and its first rows. */
tc_status wu_report_table(wu_report *r, const wu_table *table, tc_err *err);

/* The head of a table, and rows of it; variant: what a first column says of them, NULL: there is
 * none. */
void wu_report_head(wu_report *r, const wu_table *table, bool variants);
tc_status wu_report_rows(wu_report *r, const wu_table *table, const char *variant, tc_err *err);

/* One of several results of the same pictures. */
typedef struct wu_variant {
    char *name;          /* "radius=6" */
    char *unit, *result; /* files */
} wu_variant;

/* The page of a sweep: the tables of items, and each picture with what each variant found, side by
 * side. */
tc_status wu_report_sweep(const wu_variant *variants, size_t n, const char *output, tc_err *err);

#endif
