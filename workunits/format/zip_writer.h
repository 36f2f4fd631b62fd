/*
 * Writing a ZIP (FORMAT.md, section 1): local headers, data, the list of members,
 * the end record, and ZIP64 fields where the numbers need them. No other extra
 * fields, no comments, the time stamp 1980-01-01: the same members give the same bytes.
 */
#ifndef WU_ZIP_WRITER_H
#define WU_ZIP_WRITER_H

#include "workunits/format/packer.h"

typedef struct wu_zip_writer wu_zip_writer;

/* Writes into the open file fd from its beginning; fd stays the caller's. level: zlib's,
 * 0 to 9, for members that are deflated. shown: the file that messages name; it must outlive the
 * writer. */
tc_status wu_zip_create(int fd, const char *shown, int level, wu_zip_writer **out, tc_err *err);
/* As wu_compressor_use_threads. */
void wu_zip_use_threads(wu_zip_writer *w, unsigned threads);
/* A member: begin, any number of writes, end. bytes: as many at most. */
tc_status wu_zip_begin(wu_zip_writer *w, const char *name, bool deflated, uint64_t bytes,
                       tc_err *err);
/* The same of one that has been compressed, whose compressed bytes are then written. */
tc_status wu_zip_begin_compressed(wu_zip_writer *w, const char *name, const wu_compressed *member,
                                  tc_err *err);
/* As wu_compressor_expect_rows, for a member that has just begun. */
tc_status wu_zip_expect_rows(wu_zip_writer *w, wu_row_layout layout, tc_err *err);
tc_status wu_zip_write(wu_zip_writer *w, const void *data, size_t n, tc_err *err);
tc_status wu_zip_end(wu_zip_writer *w, tc_err *err);
/* The list and the end record; sync: all of it is on the disk then (fsync). */
tc_status wu_zip_finish(wu_zip_writer *w, bool sync, tc_err *err);
void wu_zip_free(wu_zip_writer **w);

#endif
