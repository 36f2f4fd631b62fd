/*
 * Writing a work unit. workunits/FORMAT.md specifies the file; job.h reads it.
 */
#ifndef WU_UNIT_H
#define WU_UNIT_H

#include <jansson.h>

#include "workunits/tools/pages.h"
#include "workunits/tools/shrink.h"

typedef struct wu_unit {
    const char *shown; /* the path in messages */
    const char *analysis;
    const char *about;  /* NULL: nothing is said */
    json_t *parameters; /* an object, as given (not owned) */
    wu_source *items;   /* n of them (not owned) */
    size_t n;
    bool stored;   /* pictures are samples as they are, and nothing waits for the disk */
    bool grey;     /* colours become what analyses see of them */
    wu_seen *seen; /* [n_seen] set, of images among the first items, or NULL (not owned) */
    size_t n_seen;
    wu_item_check *check; /* called with `user` when an item was written, or NULL */
    void *user;
} wu_unit;

/* A picture of more pixels is cut into strips of about half as many. */
#define WU_WHOLE_PIXELS ((uint64_t)1 << 20)
#define WU_BATCH_BYTES ((size_t)64 << 20)

/* Writes the archive: job.json first (deflated), then for each item its images
 * and its masks and labels (PNG, or samples as they are; stored). The same input gives the same
 * bytes. Colour slices of a stack become grey; masks become 0 and 255. Creates `path`, which must
 * not exist, and leaves it to the caller to remove it after an error. The file is on the disk
 * (fsync) when TC_OK is returned. Pages, and strips of large pictures, are compressed in all
 * threads; memory: pages of WU_BATCH_BYTES, but one at least. A stored one is not on the disk yet.
 */
tc_status wu_unit_write(const char *path, const wu_unit *unit, tc_err *err);

#endif
