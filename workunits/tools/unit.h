/*
 * Writes a work unit, a ZIP archive that workunits/FORMAT.md specifies; job.h reads it.
 */
#ifndef WU_UNIT_H
#define WU_UNIT_H

#include <jansson.h>

#include "workunits/tools/pages.h"
#include "workunits/tools/shrink.h"

/* The work unit to be written. */
typedef struct wu_unit {
    const char *shown;    /* the path in messages */
    const char *analysis; /* the name of the analysis */
    const char *about;    /* a text for volunteers that says what the work is for, or NULL */
    json_t *parameters;   /* an object: the parameters that were given or suggested (not owned) */
    wu_source *items;     /* [n] (not owned) */
    size_t n;
    bool stored; /* pictures are PNM files, not compressed, and the archive is not fsynced */
    bool grey;   /* RGB is converted to (R+G+B)/3, as analyses use only this value */
    wu_thumbnail *thumbnails; /* [n_thumbnails], or NULL (not owned): receives a reduced picture of
                                 each of the first n_thumbnails items, except stacks */
    size_t n_thumbnails;
    wu_item_check *check; /* called with `user` when an item was written, or NULL */
    void *user;
} wu_unit;

/* An image of more pixels than this is cut into strips of about half this number of pixels; each
 * strip is a file. */
#define WU_WHOLE_PIXELS ((uint64_t)1 << 20)
/* Pages are collected until they have this size together, then compressed at the same time. */
#define WU_BATCH_BYTES ((size_t)64 << 20)

/* Writes the archive: first job.json (deflated), then for each item its images, masks and labels
 * (as PNG, or PNM if unit->stored; the archive does not compress them). The same input gives the
 * same bytes. Colour slices of a stack become grey; masks become 0 and 255. fd: an empty file;
 * after an error the caller removes it. When TC_OK is returned, the file is on the disk (fsync)
 * unless unit->stored. Pages, and strips of large pictures, are compressed in all
 * threads. Uses about WU_BATCH_BYTES of memory for pages, or the memory of one page if it is
 * larger. */
tc_status wu_unit_write(int fd, const wu_unit *unit, tc_err *err);

#endif
