#include "app/base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether the name still leads to the file that was opened. */
static bool still_named(const char *path, int fd)
{
    struct stat named, opened;

    return lstat(path, &named) == 0 && fstat(fd, &opened) == 0 &&
           named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

tc_status tc_open_locked(const char *path, const char *shown, int *fd, tc_err *err)
{
    for (;;) {
        *fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (*fd < 0)
            return tc_fail(err, TC_IO, "%s: cannot write: %s", shown, strerror(errno));
        if (flock(*fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
            close(*fd);
            *fd = -1;
            return tc_fail(err, TC_TRY_LATER, "%s: another texcell is at work on this result", shown);
        }
        /* The one that had it may have removed or renamed it meanwhile. */
        if (still_named(path, *fd))
            return TC_OK;
        close(*fd);
    }
}

tc_status tc_open_fault(int error)
{
    const bool bad = error == ENOENT || error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG || error == EINVAL;

    return bad ? TC_BAD_INPUT : TC_TRY_LATER;
}

tc_status tc_open_regular(const char *path, int *fd, uint64_t *size, tc_err *err)
{
    tc_status result = TC_OK;
    struct stat st;

    *fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (*fd < 0 && errno == ENXIO)
        return tc_fail(err, TC_BAD_INPUT, "%s: not a regular file", path);
    if (*fd < 0)
        return tc_fail(err, tc_open_fault(errno), "%s: cannot open: %s", path,
                       strerror(errno));
    if (fstat(*fd, &st) != 0)
        result = tc_fail(err, TC_TRY_LATER, "%s: cannot open: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        result = tc_fail(err, TC_BAD_INPUT, "%s: %s", path,
                         S_ISDIR(st.st_mode) ? "is a folder, not a file" : "not a regular file");
    if (result == TC_OK) {
        *size = (uint64_t)st.st_size;
        return TC_OK;
    }
    close(*fd);
    *fd = -1;
    return result;
}

tc_status tc_read_at(int fd, const char *shown, uint64_t at, void *data, size_t n, size_t *got, tc_err *err)
{
    char *p = data;

    *got = 0;
    while (*got < n) {
        const ssize_t done = pread(fd, p + *got, n - *got, (off_t)(at + *got));

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return tc_fail(err, TC_TRY_LATER, "%s: cannot be read now: %s", shown, strerror(errno));
        if (done == 0)
            break;
        *got += (size_t)done;
    }
    return TC_OK;
}

bool tc_write_at(int fd, uint64_t at, const void *data, size_t n)
{
    const char *p = data;

    while (n > 0) {
        const ssize_t done = pwrite(fd, p, n, (off_t)at);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        p += done;
        at += (uint64_t)done;
        n -= (size_t)done;
    }
    return true;
}

void tc_sync_folder_of(const char *path)
{
    const char *const slash = strrchr(path, '/');
    char *const folder = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
    const int fd = folder == NULL ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    free(folder);
}
