/* Opening a TIFF so that what libtiff says of this file comes to its reader or writer. */
#ifndef TEXCELL_WORKUNITS_TOOLS_TIFF_OPEN_H
#define TEXCELL_WORKUNITS_TOOLS_TIFF_OPEN_H

#include <stdarg.h>

#include <tiffio.h>

/* Who is told of libtiff's errors and warnings; `warning` may be NULL. */
typedef struct wu_tiff_listener {
    void (*error)(void *user, const char *format, va_list args);
    void (*warning)(void *user, const char *format, va_list args);
    void *user;
    TIFF *tiff;
    struct wu_tiff_listener *next;
} wu_tiff_listener;

/* most: bytes that libtiff may allocate at once, which libtiff before 4.5 has no bound for; 0: any
 * number. NULL: it said why, or has no memory. Else wu_tiff_close, in the same thread. */
TIFF *wu_tiff_open(wu_tiff_listener *listener, const char *path, const char *mode, tmsize_t most);
void wu_tiff_close(wu_tiff_listener *listener);

#endif
