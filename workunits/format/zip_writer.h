/*
 * Writes ZIP archives (FORMAT.md, section 1): for each member a local header and its data, then the
 * list of members and the end record, with ZIP64 fields if numbers need them. There are no other
 * extra fields and no comments, and time stamps are 1980-01-01, so that the same members give the
 * same bytes.
 */
#ifndef WU_ZIP_WRITER_H
#define WU_ZIP_WRITER_H

#include "workunits/format/packer.h"

typedef struct wu_zip_writer wu_zip_writer;

/* Creates a writer, *out, to be freed by wu_zip_free, which writes to the open file fd from its
 * beginning; the caller closes fd. level: zlib's compression level, 0 to 9. shown: the name of the
 * file in messages; must outlive the writer. */
tc_status wu_zip_create(int fd, const char *shown, int level, wu_zip_writer **out, tc_err *err);
/* Sets the number of threads that compress, as wu_compressor_use_threads does. */
void wu_zip_use_threads(wu_zip_writer *w, unsigned threads);
/* To write a member, call begin, write any number of times, and end. deflated: false to store the
 * data. bytes: the most bytes that will be written. */
tc_status wu_zip_begin(wu_zip_writer *w, const char *name, bool deflated, uint64_t bytes,
                       tc_err *err);
/* Begins a member whose data are already compressed. The compressed bytes must be passed to
 * wu_zip_write. */
tc_status wu_zip_begin_compressed(wu_zip_writer *w, const char *name, const wu_compressed *member,
                                  tc_err *err);
/* Declares, as wu_compressor_expect_rows does, that the data of the member just begun are rows. */
tc_status wu_zip_expect_rows(wu_zip_writer *w, wu_row_layout layout, tc_err *err);
tc_status wu_zip_write(wu_zip_writer *w, const void *data, size_t n, tc_err *err);
tc_status wu_zip_end(wu_zip_writer *w, tc_err *err);
/* Writes the list of members and the end record. sync: whether to bring the file to the disk
 * (fsync). */
tc_status wu_zip_finish(wu_zip_writer *w, bool sync, tc_err *err);
void wu_zip_free(wu_zip_writer **w);

#endif
