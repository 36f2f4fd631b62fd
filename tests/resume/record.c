/*
 * A library to be preloaded into a program: it appends the program's changes of other files to the
 * file RECORD, from which a test derives the possible files after a power cut at any point. Each
 * event is a line of a word, numbers and names; the bytes of a "write" follow its line. NODE is the
 * file's inode number.
 *
 *   create NODE PATH    an empty file with that name was made
 *   open NODE PATH      an existing file was opened for writing
 *   size NODE N         the file now has N bytes
 *   write NODE AT N     N bytes were written at AT: they follow
 *   sync NODE           the file's bytes were synced
 *   folder PATH         the names in that folder were synced
 *   rename FROM         a file was renamed; its new name follows on a line of its own
 *   remove PATH         a file was deleted
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEXT(type, name, ...)         \
    static type (*next)(__VA_ARGS__); \
    if (next == NULL)                 \
    *(void **)&next = dlsym(RTLD_NEXT, name)

static int to = -1; /* descriptor of the file RECORD; -1: none */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Appends bytes to RECORD. */
static void put(const void *data, size_t n)
{
    NEXT(ssize_t, "write", int, const void *, size_t);

    if (to >= 0 && next(to, data, n) != (ssize_t)n)
        _exit(99);
}

__attribute__((constructor)) static void begin(void)
{
    const char *const path = getenv("RECORD");

    if (path != NULL)
        to = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

/* Records an event. The caller takes the lock before the call is made, so that events are in the
 * order of the calls. */
static void say(const char *format, ...)
{
    char line[9000];
    va_list ap;
    int n;

    va_start(ap, format);
    n = vsnprintf(line, sizeof line, format, ap);
    va_end(ap);
    put(line, (size_t)n);
}

/* The program closes inherited descriptors; this one must stay open. */
#define KEEP_OPEN to
#include "../faults/keep_open.h"

/* Returns the inode number of a regular file, or 0 for anything else. */
static unsigned long node(int fd)
{
    struct stat info;

    return fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? info.st_ino : 0;
}

#define OPEN(name)                                                       \
    int name(const char *path, int flags, ...)                           \
    {                                                                    \
        NEXT(int, #name, const char *, int, ...);                        \
        va_list ap;                                                      \
        int mode, fd, was;                                               \
        va_start(ap, flags);                                             \
        mode = flags & O_CREAT ? va_arg(ap, int) : 0;                    \
        va_end(ap);                                                      \
        if (to < 0 || (flags & O_ACCMODE) == O_RDONLY)                   \
            return next(path, flags, mode);                              \
        pthread_mutex_lock(&lock);                                       \
        was = access(path, F_OK) == 0;                                   \
        fd = next(path, flags, mode);                                    \
        if (fd >= 0 && node(fd) != 0)                                    \
            say("%s %lu %s\n", was ? "open" : "create", node(fd), path); \
        if (fd >= 0 && was && flags & O_TRUNC && node(fd) != 0)          \
            say("size %lu 0\n", node(fd));                               \
        pthread_mutex_unlock(&lock);                                     \
        return fd;                                                       \
    }
OPEN(open)
OPEN(open64)

/* Defines a replacement for a call: makes the call, and executes the last argument, which records
 * an event, if the condition `good` on `result` holds. */
#define CALL(type, name, parameters, types, arguments, good, ...) \
    type name parameters                                          \
    {                                                             \
        NEXT(type, #name, types);                                 \
        type result;                                              \
        int error;                                                \
        pthread_mutex_lock(&lock);                                \
        result = next arguments;                                  \
        error = errno;                                            \
        if (good) {                                               \
            __VA_ARGS__;                                          \
        }                                                         \
        pthread_mutex_unlock(&lock);                              \
        errno = error;                                            \
        return result;                                            \
    }
#define TYPES(...) __VA_ARGS__

/* Records that n bytes were written at offset `at`; n < 0: the call failed. */
static void wrote(int fd, const void *data, ssize_t n, long long at)
{
    if (n <= 0 || node(fd) == 0)
        return;
    say("write %lu %lld %zd\n", node(fd), at, n);
    put(data, (size_t)n);
}

/* Records that a file or a folder was synced. */
static void synced(int fd)
{
    char link[40], path[4096];
    ssize_t n;

    if (node(fd) != 0) {
        say("sync %lu\n", node(fd));
        return;
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    say("folder %s\n", path);
}

CALL(ssize_t, write, (int fd, const void *data, size_t n), TYPES(int, const void *, size_t),
     (fd, data, n), fd > 2, wrote(fd, data, result, (long long)lseek(fd, 0, SEEK_CUR) - result))
CALL(ssize_t, pwrite, (int fd, const void *data, size_t n, off_t at),
     TYPES(int, const void *, size_t, off_t), (fd, data, n, at), 1, wrote(fd, data, result, at))
CALL(ssize_t, pwrite64, (int fd, const void *data, size_t n, off64_t at),
     TYPES(int, const void *, size_t, off64_t), (fd, data, n, at), 1, wrote(fd, data, result, at))
CALL(int, ftruncate, (int fd, off_t n), TYPES(int, off_t), (fd, n), result == 0,
     say("size %lu %lld\n", node(fd), (long long)n))
CALL(int, ftruncate64, (int fd, off64_t n), TYPES(int, off64_t), (fd, n), result == 0,
     say("size %lu %lld\n", node(fd), (long long)n))
CALL(int, fsync, (int fd), TYPES(int), (fd), result == 0, synced(fd))
CALL(int, fdatasync, (int fd), TYPES(int), (fd), result == 0, synced(fd))
CALL(int, unlink, (const char *path), TYPES(const char *), (path), result == 0,
     say("remove %s\n", path))
CALL(int, rename, (const char *from, const char *name), TYPES(const char *, const char *),
     (from, name), result == 0, say("rename %s\n%s\n", from, name))
