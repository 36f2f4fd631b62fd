/* Opening a TIFF: by the options of libtiff 4.5, and before it by the handlers of the program. */
#include "config.h"
#include "workunits/tools/tiff_open.h"

#include <assert.h>
#include <stddef.h>

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

TIFF *wu_tiff_open(wu_tiff_listener *listener, const char *path, const char *mode, tmsize_t most)
{
    TIFFOpenOptions *const options = TIFFOpenOptionsAlloc();
    assert(listener->tiff == NULL);
    if (options == NULL)
        return NULL;
    TIFFOpenOptionsSetErrorHandlerExtR(options, on_error, listener);
    TIFFOpenOptionsSetWarningHandlerExtR(options, on_warning, listener);
    if (most > 0)
        TIFFOpenOptionsSetMaxSingleMemAlloc(options, most);
    listener->tiff = TIFFOpenExt(path, mode, options);
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

/* Of this thread's open files; one that is being opened stands first and has no TIFF yet. */
static _Thread_local wu_tiff_listener *listeners;

/* The handlers are given what the file's own functions are: with TIFFOpen, its descriptor. */
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

TIFF *wu_tiff_open(wu_tiff_listener *listener, const char *path, const char *mode, tmsize_t most)
{
    (void)most;
    assert(listener->tiff == NULL);
    TIFFSetErrorHandler(NULL);
    TIFFSetWarningHandler(NULL);
    TIFFSetErrorHandlerExt(on_error);
    TIFFSetWarningHandlerExt(on_warning);
    listener->next = listeners;
    listeners = listener;
    listener->tiff = TIFFOpen(path, mode);
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
