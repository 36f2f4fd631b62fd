/*
 * The parts of texcell-wu export.
 */
#ifndef WU_EXPORT_H
#define WU_EXPORT_H

#include "workunits/format/job.h"
#include "workunits/format/result_file.h"

/* Writes one CSV file per table into `folder`, and offset_features.csv where
 * the result has that array. *written counts the files. used[i] is set for
 * each array that was written. */
tc_status wu_export_tables(const wu_result_file *file, const char *folder, bool *used,
                           size_t *written, tc_err *err);

/* Draws every array named map_*, labels_* and mask_* into `folder`; with a work
 * unit (else NULL) over its pictures. */
tc_status wu_export_pictures(const wu_result_file *file, const wu_job *images, const char *folder,
                             bool *used, size_t *written, tc_err *err);

/* Draws the points of a result over the pictures of its work unit: for an image
 * one picture, for a stack its largest greys along z and its slices. Nothing for a
 * result without points. */
tc_status wu_export_points(const wu_result_file *file, const wu_job *images, const char *folder,
                           size_t *written, tc_err *err);

#endif
