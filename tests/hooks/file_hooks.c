/*
 * Linked into texcell_test between the program and the files that it changes (the linker's
 * --wrap): TEXCELL_TEST_KILL_AT=N, a whole number from 1 on, ends the process at once at the
 * N-th such operation, before it is done; a write is done by half. The exit code is then KILLED.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "app/base/os.h"

enum { KILLED = 137 };

int __real_os_open(const char *path, os_access access);
ptrdiff_t __real_os_write_at(int fd, const void *data, size_t n, uint64_t at);
bool __real_os_replace(const char *from, const char *to);
int __real_unlink(const char *path);
/* os_sync, in seam_hooks.c. */
bool time_sync(int fd);
int __wrap_os_open(const char *path, os_access access);
ptrdiff_t __wrap_os_write_at(int fd, const void *data, size_t n, uint64_t at);
bool __wrap_os_sync(int fd);
bool __wrap_os_replace(const char *from, const char *to);
int __wrap_unlink(const char *path);

/* Counts an operation; true when it is the one. */
static bool is_it(void)
{
    static atomic_ulong operations;
    const char *const at = getenv("TEXCELL_TEST_KILL_AT");

    return at != NULL && atomic_fetch_add(&operations, 1) + 1 == strtoul(at, NULL, 10);
}

static void count(void)
{
    if (is_it())
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
    if (is_it()) {
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
