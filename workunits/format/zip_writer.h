/*
 * Writing a ZIP (FORMAT.md, section 1): local headers, data, the list of members,
 * the end record, and ZIP64 fields where the numbers need them. No extra fields
 * else, no comments, the time stamp 1980-01-01: the same members give the same bytes.
 */
#ifndef WU_ZIP_WRITER_H
#define WU_ZIP_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "app/base/status.h"

typedef struct wu_zip_writer wu_zip_writer;

/* Writes into the open file fd from its begin on; fd stays the caller's. level: zlib's,
 * for members that are deflated. shown: the file that messages name; it must outlive the
 * writer. */
tc_status wu_zip_create(int fd, const char *shown, int level, wu_zip_writer **out, tc_err *err);
/* So many threads deflate, 8 at most, a megabyte for each; the bytes do not hang on it. */
void wu_zip_use_threads(wu_zip_writer *w, unsigned threads);
/* What was packed when it was stopped is not packed again: fd has an earlier try's bytes, and the file at `path`, of which
 * the writer's caller is the only one, says of each block what it was and what became of it. Taken are the first blocks
 * that are the same now; of a new file there are none. It is made, and lengthened, where there is much to pack; the
 * caller removes it. To be called before the first member. */
tc_status wu_zip_go_on(wu_zip_writer *w, const char *path, tc_err *err);
/* Whether a next try has anything to go on with. */
bool wu_zip_is_noted(const wu_zip_writer *w);
/* A member: begin, any number of writes, end. bytes: as many at most. */
tc_status wu_zip_begin(wu_zip_writer *w, const char *name, bool deflated, uint64_t bytes, tc_err *err);
tc_status wu_zip_write(wu_zip_writer *w, const void *data, size_t n, tc_err *err);
tc_status wu_zip_end(wu_zip_writer *w, tc_err *err);
/* The list and the end record, all of it on the disk (fsync). */
tc_status wu_zip_finish(wu_zip_writer *w, tc_err *err);
void wu_zip_free(wu_zip_writer **w);

#endif
