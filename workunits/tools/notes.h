/*
 * The notes of a result: run says them of items whose results say nothing, show and pages say them
 * again.
 */
#ifndef WU_NOTES_H
#define WU_NOTES_H

#include "app/analysis/analysis.h"
#include "workunits/format/result_file.h"

/* *out: [file->n_items], NULL where there is nothing to say; wu_notes_free, also after a failure.
 * All NULL where the file's arrays are not those of its analysis; up to where they are not sound,
 * as what else is shown of it says that. TC_NO_MEMORY, or what reading fails with. */
tc_status wu_notes_read(const wu_result_file *file, char ***out, tc_err *err);
void wu_notes_free(char **notes, size_t n);

#endif
