/*
 * The parts of texcell-wu export.
 */
#ifndef WU_EXPORT_H
#define WU_EXPORT_H

#include "workunits/format/job.h"
#include "workunits/format/result_file.h"

/* Before folder/NAME END is written: puts it into the list of files that the next export removes.
 * TC_BAD_INPUT: there is one of this name, which no export wrote. */
tc_status wu_export_begin(const char *folder, const char *name, const char *end, tc_err *err);

/* Writes one CSV file per table into `folder`, and one named after each array that has more
 * axes, which is then `used`. *written counts the files. */
tc_status wu_export_tables(const wu_result_file *file, wu_tables *tables, const char *folder, size_t *written,
                           tc_err *err);

/* Draws every map, labels and mask into `folder`; with a work unit of the same items (else
 * NULL) over its pictures. used[i] is set for each array that was drawn. */
tc_status wu_export_pictures(const wu_result_file *file, const wu_job *images, const char *folder,
                             bool *used, size_t *written, tc_err *err);

/* Draws the points of a table over the pictures of its work unit: for an image one
 * picture, for a stack its largest greys along z and its slices. Nothing for a table
 * without places. */
tc_status wu_export_points(const wu_result_file *file, const wu_table *table, const wu_job *images, const char *folder,
                           size_t *written, tc_err *err);

#endif
