/* Writes a temporary file, which is renamed when it is complete. */
#include "workunits/format/new_file.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/base/files.h"
#include "app/base/os.h"

/* Bytes of the buffer for writing. It is larger than the C library's buffer of 4 KiB, so that a
 * page of many megabytes is written in large pieces. */
enum { BUFFER = 1 << 16 };

static tc_status fail_write(const wu_new_file *f, tc_err *err)
{
    return tc_fail_write(f->path, f->path, err);
}

/* Rejects a path that is a folder or a device. Otherwise renaming the complete file would replace
 * the device, or would fail only at the end. */
static tc_status check_target(const char *path, tc_err *err)
{
    const os_kind kind = os_kind_of(path);
    return kind == OS_NOTHING || kind == OS_FILE
               ? TC_OK
               : tc_fail(err, TC_IO, "%s: cannot write: %s", path,
                         kind == OS_FOLDER ? strerror(EISDIR) : "not a regular file");
}

tc_status wu_new_file_check_replaceable(const char *path, const char *begins, size_t at,
                                        const char *kind, tc_err *err)
{
    char start[64];
    assert(at + strlen(begins) <= sizeof start);
    FILE *const file = os_kind_of(path) == OS_FILE ? fopen(path, "rb") : NULL;
    const size_t n = file != NULL ? fread(start, 1, at + strlen(begins), file) : 0;
    if (file != NULL)
        fclose(file);
    if (n > 0 && (n < at + strlen(begins) || memcmp(start + at, begins, strlen(begins)) != 0))
        return tc_fail(err, TC_USAGE, "%s: already exists, and is not a %s: give another -o", path,
                       kind);
    return TC_OK;
}

tc_status wu_new_file_open(const char *path, wu_new_file *out, tc_err *err)
{
    const size_t size = strlen(path) + sizeof ".tmp";
    int fd = -1;
    *out = (wu_new_file){ .path = strdup(path), .temporary = malloc(size) };
    if (out->path == NULL || out->temporary == NULL)
        return tc_no_memory(err, path);
    snprintf(out->temporary, size, "%s.tmp", path);
    tc_status status = check_target(path, err);
    if (status == TC_OK)
        status = tc_open_locked(out->temporary, path, &fd, err);
    if (status != TC_OK)
        return status;
    out->file = ftruncate(fd, 0) == 0 ? fdopen(fd, "wb") : NULL;
    if (out->file == NULL) {
        status = fail_write(out, err);
        unlink(out->temporary);
        close(fd);
        return status;
    }
    out->buffer = malloc(BUFFER);
    if (out->buffer != NULL)
        (void)setvbuf(out->file, out->buffer, _IOFBF, BUFFER);
    return status;
}

tc_status wu_new_file_close(wu_new_file *out, tc_status status, tc_err *err)
{
    if (out->file != NULL) {
        /* The file is renamed before it is closed, while it is still locked. */
        errno = 0;
        if (status == TC_OK && (fflush(out->file) != 0 || ferror(out->file) != 0 ||
                                (!out->synced && !os_sync(fileno(out->file))) ||
                                !os_replace(out->temporary, out->path)))
            status = fail_write(out, err);
        if (status != TC_OK)
            unlink(out->temporary);
        fclose(out->file);
    }
    free(out->buffer);
    free(out->path);
    free(out->temporary);
    *out = (wu_new_file){ .file = NULL };
    return status;
}
