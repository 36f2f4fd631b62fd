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
