/*
 * Kills texcell_test at a chosen file operation. The linker's --wrap puts these functions between
 * the program and the operations that change files. TEXCELL_TEST_KILL_AT=N, N from 1, ends the
 * process before its N-th such operation, with exit code KILLED; if that is a write, after half of
 * the bytes.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "app/base/os.h"

enum { KILLED = 137 };

int __real_os_open(const char *path, os_access access);
ptrdiff_t __real_os_write_at(int fd, const void *data, size_t n, uint64_t at);
bool __real_os_replace(const char *from, const char *to);
int __real_unlink(const char *path);
/* Calls os_sync and records its time; defined in seam_hooks.c. */
bool time_sync(int fd);
int __wrap_os_open(const char *path, os_access access);
ptrdiff_t __wrap_os_write_at(int fd, const void *data, size_t n, uint64_t at);
bool __wrap_os_sync(int fd);
bool __wrap_os_replace(const char *from, const char *to);
int __wrap_unlink(const char *path);

/* Counts an operation; returns whether the process must end at it. */
static bool is_chosen(void)
{
    static atomic_ulong operations;
    const char *const at = getenv("TEXCELL_TEST_KILL_AT");

    return at != NULL && atomic_fetch_add(&operations, 1) + 1 == strtoul(at, NULL, 10);
}

/* Counts an operation, and ends the process if it is the chosen one. */
static void count(void)
{
    if (is_chosen())
        os_exit_now(KILLED);
}

int __wrap_os_open(const char *path, os_access access)
{
    if (access != OS_READ)
        count();
    return __real_os_open(path, access);
}

ptrdiff_t __wrap_os_write_at(int fd, const void *data, size_t n, uint64_t at)
{
    if (is_chosen()) {
        (void)__real_os_write_at(fd, data, n / 2, at);
        os_exit_now(KILLED);
    }
    return __real_os_write_at(fd, data, n, at);
}

bool __wrap_os_sync(int fd)
{
    count();
    return time_sync(fd);
}

bool __wrap_os_replace(const char *from, const char *to)
{
    count();
    return __real_os_replace(from, to);
}

int __wrap_unlink(const char *path)
{
    count();
    return __real_unlink(path);
}
