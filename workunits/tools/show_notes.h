/*
 * The notes of a result: run says them of items whose results say nothing, show says them again.
 */
#ifndef WU_SHOW_NOTES_H
#define WU_SHOW_NOTES_H

#include "app/analysis/analysis.h"
#include "workunits/format/result_file.h"

/* Prints them, at most so many. Nothing where the file's arrays are not those of its analysis, or not
 * sound: what else is shown of it says so. */
void wu_show_notes(const wu_result_file *file, size_t most);

#endif
