/* Opens TIFF files with libtiff so that its messages about a file go to that file's reader or
 * writer, not to handlers of the whole program. */
#ifndef TEXCELL_WORKUNITS_TOOLS_TIFF_OPEN_H
#define TEXCELL_WORKUNITS_TOOLS_TIFF_OPEN_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <tiffio.h>

/* An open file and the functions called with libtiff's errors and warnings about it. The caller
 * sets error, warning (which may be NULL) and user; the other fields must be 0. */
typedef struct wu_tiff_listener {
    void (*error)(void *user, const char *format, va_list args);
    void (*warning)(void *user, const char *format, va_list args);
    void *user;
    TIFF *tiff;
    FILE *file;                    /* the file being read; NULL if the file is being written */
    uint64_t at;                   /* libtiff's position in the file */
    bool big;                      /* the file is a BigTIFF */
    struct wu_tiff_listener *next; /* list of the thread's open files, for libtiff before 4.5 */
} wu_tiff_listener;

/* Creates a file. mode: as for TIFFOpen. This function and wu_tiff_read return NULL after an error
 * that was passed to `listener`, or if there is no memory. Otherwise wu_tiff_close must be called,
 * in the same thread. */
TIFF *wu_tiff_create(wu_tiff_listener *listener, const char *path, const char *mode);
/* Reads the header of `file`, which the caller still owns. Some tags would make libtiff refuse the
 * file; they are hidden from libtiff: tags without values, some tags that are 0, and the
 * photometric value "palette". most: the most bytes that libtiff may allocate at once; libtiff
 * before 4.5 has no such limit. */
TIFF *wu_tiff_read(wu_tiff_listener *listener, const char *path, FILE *file, tmsize_t most);
void wu_tiff_close(wu_tiff_listener *listener);

#endif
