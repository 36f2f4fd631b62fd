/* A library for LD_PRELOAD: fsync fails in all threads but the main thread. Linux reports an error
 * of the disk to one call of fsync only, so that later calls succeed. Writing takes long, so that
 * other threads have the time to call fsync. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int fsync(int fd)
{
    if (syscall(SYS_gettid) == getpid())
        return (int)syscall(SYS_fsync, fd);
    errno = EIO;
    return -1;
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
    const struct timespec half_a_second = { .tv_nsec = 500000000 };
    nanosleep(&half_a_second, NULL);
    return syscall(SYS_pwrite64, fd, data, n, at);
}

ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at)
{
    return pwrite(fd, data, n, at);
}
