/*
 * Notes about items whose results mean little. texcell run prints them when it has computed an
 * item; this file derives them from a result, for texcell-wu show and report.
 */
#ifndef WU_NOTES_H
#define WU_NOTES_H

#include "app/analysis/analysis.h"
#include "workunits/format/result_file.h"

/* Sets *out to an array of [file->n_items]: the note of each item, or NULL. The caller frees it by
 * wu_notes_free, also after a failure. All notes are NULL if the file's arrays are not those that
 * its analysis declares. If the data of an array are faulty, the notes from that item on are NULL,
 * and no error is returned: the caller finds such faults itself. Errors: TC_NO_MEMORY, or an error
 * of reading the file. */
tc_status wu_notes_read(const wu_result_file *file, char ***out, tc_err *err);
void wu_notes_free(char **notes, size_t n);

#endif
