/* Opens, locks, reads and writes files: see files.h. */
#include "app/base/files.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/base/os.h"
#include "app/base/text.h"

tc_status tc_open_locked(const char *path, const char *shown_name, int *fd, tc_err *err)
{
    /* If the file is removed or renamed during each of TRIES tries, its file system is faulty. */
    enum { TRIES = 1000 };

    for (int i = 0; i < TRIES; i++) {
        *fd = os_open(path, OS_UPDATE);
        if (*fd < 0)
            return tc_fail_write(path, shown_name, err);
        if (!os_lock(*fd)) {
            close(*fd);
            *fd = -1;
            return tc_fail(err, TC_TRY_LATER, "%s: another texcell is at work on it", shown_name);
        }
        /* The process that held the lock may have removed or renamed the file before this one
         * locked it. */
        if (os_path_refers_to(path, *fd))
            return TC_OK;
        close(*fd);
    }
    *fd = -1;
    return tc_fail(err, TC_TRY_LATER, "%s: cannot be locked: the file is replaced again and again",
                   shown_name);
}

tc_status tc_open_error_status(int error)
{
    const bool is_permanent = error == ENOENT || error == ENOTDIR || error == EISDIR ||
                              error == ELOOP || error == ENAMETOOLONG || error == EINVAL;

    return is_permanent ? TC_BAD_INPUT : TC_TRY_LATER;
}

tc_status tc_write_error_status(int error)
{
    const bool is_temporary = error == ENOSPC || error == EROFS || error == EIO ||
#ifdef EDQUOT
                              error == EDQUOT ||
#endif
#ifdef ESTALE
                              error == ESTALE ||
#endif
                              error == ENOTCONN || error == ETIMEDOUT;

    /* TC_DISK: the fault of the disk or network may end without a change to the file. TC_IO: any
     * other failure. */
    return is_temporary ? TC_DISK : TC_IO;
}

tc_status tc_fail_write(const char *path, const char *shown_name, tc_err *err)
{
    const int error = errno;
    const tc_status status = tc_write_error_status(error);
    TC_AUTOFREE char *const folder = error == ENOENT ? tc_folder_of(path) : NULL;

    if (folder != NULL && os_kind_of(folder) == OS_NOTHING)
        return tc_fail(err, status, "%s: cannot write: the folder %s does not exist", shown_name,
                       folder);
    return tc_fail(err, status, "%s: cannot write: %s", shown_name, strerror(error));
}

tc_status tc_open_regular(const char *path, int *fd, uint64_t *size, tc_err *err)
{
    tc_status result = TC_OK;
    struct stat info;

    *fd = os_open(path, OS_READ);
    if (*fd < 0 && errno == ENXIO) /* a socket, or a device that does not exist */
        return tc_fail(err, TC_BAD_INPUT, "%s: not a regular file", path);
    if (*fd < 0)
        return tc_fail(err, tc_open_error_status(errno), "%s: cannot open: %s", path,
                       strerror(errno));
    if (fstat(*fd, &info) != 0)
        result = tc_fail(err, TC_TRY_LATER, "%s: cannot open: %s", path, strerror(errno));
    else if (!S_ISREG(info.st_mode))
        result = tc_fail(err, TC_BAD_INPUT, "%s: %s", path,
                         S_ISDIR(info.st_mode) ? "is a folder, not a file" : "not a regular file");
    if (result == TC_OK) {
        *size = (uint64_t)info.st_size;
        return TC_OK;
    }
    close(*fd);
    *fd = -1;
    return result;
}

tc_status tc_read_at(int fd, const char *shown_name, uint64_t at, void *data, size_t n,
                     size_t *n_read, tc_err *err)
{
    char *p = data;

    *n_read = 0;
    while (*n_read < n) {
        const ptrdiff_t done = os_read_at(fd, p + *n_read, n - *n_read, at + *n_read);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return tc_fail(err, TC_TRY_LATER, "%s: cannot be read now: %s", shown_name,
                           strerror(errno));
        if (done == 0)
            break;
        *n_read += (size_t)done;
    }
    return TC_OK;
}

bool tc_read_all_at(int fd, uint64_t at, void *data, size_t n)
{
    size_t n_read = 0;

    return tc_read_at(fd, "", at, data, n, &n_read, NULL) == TC_OK && n_read == n;
}

static bool waits_for_disk; /* set by tc_enable_write_sync */

void tc_enable_write_sync(void)
{
    waits_for_disk = true;
}

bool tc_write_at(int fd, uint64_t at, const void *data, size_t n)
{
    const uint64_t from = at;
    const char *p = data;

    while (n > 0) {
        const ptrdiff_t done = os_write_at(fd, p, n, at);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        p += done;
        at += (uint64_t)done;
        n -= (size_t)done;
    }
    return !waits_for_disk || os_sync_written(fd, from, at);
}

/* The counter is the file's size. */
uint64_t tc_increment_file_counter(const char *path)
{
    const int fd = os_open(path, OS_APPEND);
    struct stat info = { .st_size = 1 }; /* the result after a failure */

    if (fd < 0 || write(fd, "x", 1) != 1 || fstat(fd, &info) != 0)
        info.st_size = 1;
    if (fd >= 0)
        close(fd);
    return (uint64_t)info.st_size;
}

char *tc_folder_of(const char *path)
{
    size_t n = (size_t)(os_base_name(path) - path);

    /* Drops the separator at the end, except that of the root ("/" or "C:\"). */
    if (n > 1 && path[n - 2] != ':')
        n--;
    return n == 0 ? strdup(".") : tc_strndup(path, n);
}
