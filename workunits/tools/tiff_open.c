/* Opens TIFF files, and passes libtiff's messages about a file to the file's listener. libtiff 4.5
 * has options for this; for older versions, global handlers find the listener. */
#include "config.h"
#include "workunits/tools/tiff_open.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

/* --- a file that is read --------------------------------------------------------------------- */

/* Whether an entry of a directory (a tag of a page) must be hidden from libtiff. Hidden are tags
 * without values; some tags with the value 0, which stands for the default; and the tag that says
 * that there is a palette, which libtiff accepts only in one length. size: bytes of the entry, 20
 * in a BigTIFF, else 12. */
static bool is_hidden(const uint8_t *entry, size_t size, bool big_endian)
{
    static const uint8_t zeros[8];
    /* An entry: tag (2 bytes), type (2), number of values (8 or 4), value or its offset (8 or 4).
     */
    const uint8_t *const count = entry + 4, *const value = count + (size == 20 ? 8 : 4);
    const size_t field =
        (size_t)(value - count); /* bytes of the number of values, and of the value */
    /* Index big_endian has the low byte of a 16-bit number, !big_endian the high byte. */
    const unsigned tag = (unsigned)entry[big_endian] | (unsigned)entry[!big_endian] << 8,
                   first = (unsigned)value[big_endian] | (unsigned)value[!big_endian] << 8;
    if (memcmp(count, zeros, field) == 0)
        return true;
    switch (tag) {
    case TIFFTAG_ROWSPERSTRIP:
    case TIFFTAG_PLANARCONFIG:
    case TIFFTAG_SAMPLESPERPIXEL: return memcmp(value, zeros, field) == 0;
    case TIFFTAG_PHOTOMETRIC: return first == PHOTOMETRIC_PALETTE;
    default: return false;
    }
}

/* Hides entries because of which libtiff would report a damaged file. Overwrites each of them with
 * a copy of an entry that is not hidden, since libtiff ignores repeated tags. */
static void hide_entries(uint8_t *entries, size_t n, size_t size, bool big_endian)
{
    const uint8_t *visible = entries, *const end = entries + n * size;
    while (visible < end && is_hidden(visible, size, big_endian))
        visible += size;
    for (uint8_t *entry = entries; visible < end && entry < end; entry += size)
        if (is_hidden(entry, size, big_endian))
            memcpy(entry, visible, size);
}

/* The function by which libtiff reads the file: reads n bytes at the offset l->at. If they are the
 * entries of the current directory, which follow its number of entries (8 or 2 bytes), hides some
 * of them (hide_entries). */
static tmsize_t read_file(thandle_t handle, void *data, tmsize_t n)
{
    wu_tiff_listener *const l = handle;
    if (l->at > INT64_MAX ||
        (ftello(l->file) != (off_t)l->at && fseeko(l->file, (off_t)l->at, SEEK_SET) != 0))
        return -1;
    const size_t got = fread(data, 1, (size_t)n, l->file), size = l->big ? 20 : 12;
    clearerr(l->file);
    if (l->at == 0 && got >= 4) /* the version, 43 for BigTIFF, in either byte order */
        l->big = ((uint8_t *)data)[2] == 43 || ((uint8_t *)data)[3] == 43;
    else if (l->tiff != NULL && l->at == TIFFCurrentDirOffset(l->tiff) + (l->big ? 8 : 2))
        hide_entries(data, got / size, size, TIFFIsBigEndian(l->tiff) != 0);
    l->at += got;
    return (tmsize_t)got;
}

static tmsize_t write_nothing(thandle_t handle, void *data, tmsize_t n)
{
    (void)handle;
    (void)data;
    (void)n;
    return -1;
}

static toff_t size_of_file(thandle_t handle)
{
    const wu_tiff_listener *const l = handle;
    return fseeko(l->file, 0, SEEK_END) == 0 ? (toff_t)ftello(l->file) : 0;
}

static toff_t seek_file(thandle_t handle, toff_t offset, int whence)
{
    wu_tiff_listener *const l = handle;
    const uint64_t from = whence == SEEK_SET   ? 0
                          : whence == SEEK_CUR ? l->at
                                               : size_of_file(handle);
    l->at = from + offset;
    return l->at;
}

static int close_nothing(thandle_t handle)
{
    (void)handle;
    return 0;
}

/* --- opening --------------------------------------------------------------------------------- */

#ifdef HAVE_TIFFOPENEXT

static int on_error(TIFF *tiff, void *user, const char *module, const char *format, va_list args)
{
    const wu_tiff_listener *const l = user;
    (void)tiff;
    (void)module;
    l->error(l->user, format, args);
    return 1;
}

static int on_warning(TIFF *tiff, void *user, const char *module, const char *format, va_list args)
{
    const wu_tiff_listener *const l = user;
    (void)tiff;
    (void)module;
    if (l->warning != NULL)
        l->warning(l->user, format, args);
    return 1;
}

static TIFF *open_tiff(wu_tiff_listener *listener, const char *path, const char *mode,
                       tmsize_t most)
{
    TIFFOpenOptions *const options = TIFFOpenOptionsAlloc();
    assert(listener->tiff == NULL);
    if (options == NULL)
        return NULL;
    TIFFOpenOptionsSetErrorHandlerExtR(options, on_error, listener);
    TIFFOpenOptionsSetWarningHandlerExtR(options, on_warning, listener);
    if (most > 0)
        TIFFOpenOptionsSetMaxSingleMemAlloc(options, most);
    listener->tiff =
        listener->file == NULL
            ? TIFFOpenExt(path, mode, options)
            : TIFFClientOpenExt(path, mode, listener, read_file, write_nothing, seek_file,
                                close_nothing, size_of_file, NULL, NULL, options);
    TIFFOpenOptionsFree(options);
    return listener->tiff;
}

void wu_tiff_close(wu_tiff_listener *listener)
{
    if (listener->tiff != NULL)
        TIFFClose(listener->tiff);
    listener->tiff = NULL;
}

#else

/* The list of the listeners of this thread's open files. The listener of a file that is being
 * opened is the first one, and has no TIFF yet. */
static _Thread_local wu_tiff_listener *listeners;

/* Returns the listener of the file for which libtiff called a global handler. file: the handle that
 * libtiff also passes to the functions that read the file: the listener itself, or a file
 * descriptor. */
static const wu_tiff_listener *find_listener(thandle_t file)
{
    const wu_tiff_listener *l = listeners;
    while (l != NULL && l->tiff != NULL && TIFFClientdata(l->tiff) != file)
        l = l->next;
    return l;
}

static void on_error(thandle_t file, const char *module, const char *format, va_list args)
{
    const wu_tiff_listener *const l = find_listener(file);
    (void)module;
    if (l != NULL)
        l->error(l->user, format, args);
}

static void on_warning(thandle_t file, const char *module, const char *format, va_list args)
{
    const wu_tiff_listener *const l = find_listener(file);
    (void)module;
    if (l != NULL && l->warning != NULL)
        l->warning(l->user, format, args);
}

static void remove_listener(const wu_tiff_listener *listener)
{
    wu_tiff_listener **at = &listeners;
    while (*at != NULL && *at != listener)
        at = &(*at)->next;
    if (*at != NULL)
        *at = listener->next;
}

static TIFF *open_tiff(wu_tiff_listener *listener, const char *path, const char *mode,
                       tmsize_t most)
{
    (void)most;
    assert(listener->tiff == NULL);
    TIFFSetErrorHandler(NULL);
    TIFFSetWarningHandler(NULL);
    TIFFSetErrorHandlerExt(on_error);
    TIFFSetWarningHandlerExt(on_warning);
    listener->next = listeners;
    listeners = listener;
    listener->tiff = listener->file == NULL
                         ? TIFFOpen(path, mode)
                         : TIFFClientOpen(path, mode, listener, read_file, write_nothing, seek_file,
                                          close_nothing, size_of_file, NULL, NULL);
    if (listener->tiff == NULL)
        remove_listener(listener);
    return listener->tiff;
}

void wu_tiff_close(wu_tiff_listener *listener)
{
    if (listener->tiff != NULL)
        TIFFClose(listener->tiff);
    remove_listener(listener);
    listener->tiff = NULL;
}

#endif

TIFF *wu_tiff_create(wu_tiff_listener *listener, const char *path, const char *mode)
{
    listener->file = NULL;
    return open_tiff(listener, path, mode, 0);
}

TIFF *wu_tiff_read(wu_tiff_listener *listener, const char *path, FILE *file, tmsize_t most)
{
    listener->file = file;
    listener->at = 0;
    return open_tiff(listener, path, "rh", most); /* h: reads only the header, not the first page */
}
