/* Opening a TIFF so that what libtiff says of this file comes to its reader or writer. */
#ifndef TEXCELL_WORKUNITS_TOOLS_TIFF_OPEN_H
#define TEXCELL_WORKUNITS_TOOLS_TIFF_OPEN_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <tiffio.h>

/* Who is told of libtiff's errors and warnings; `warning` may be NULL. */
typedef struct wu_tiff_listener {
    void (*error)(void *user, const char *format, va_list args);
    void (*warning)(void *user, const char *format, va_list args);
    void *user;
    TIFF *tiff;
    FILE *file;  /* that is read */
    uint64_t at; /* where in it libtiff is */
    bool big;    /* it is a BigTIFF */
    struct wu_tiff_listener *next;
} wu_tiff_listener;

/* Both give NULL after an error that `listener` heard of, or without memory; else wu_tiff_close, in
 * the same thread. */
TIFF *wu_tiff_create(wu_tiff_listener *listener, const char *path, const char *mode);
/* Reads the header of `file`, which stays the caller's. Tags without values are not
 * there, nor some that are 0, nor a photometric that is a palette. most: bytes that libtiff may
 * allocate at once, which libtiff before 4.5 has no bound for. */
TIFF *wu_tiff_read(wu_tiff_listener *listener, const char *path, FILE *file, tmsize_t most);
void wu_tiff_close(wu_tiff_listener *listener);

#endif
