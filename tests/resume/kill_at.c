/*
 * A library to be preloaded into a program: it kills the program by SIGKILL at one of the calls
 * that change files. KILL_AT=N: before the N-th such call, from 1; in a write after half of the
 * bytes. With KILL_SIGNAL=S the program gets this signal instead, and the call is made; with
 * KILL_TIMES=T at each of T calls from the N-th on. KILL_COUNT=FILE: each process that exits
 * appends a line with its number of such calls; a forked process continues its parent's count.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long calls; /* number of calls that change files, so far */
static FILE *counts;      /* the file KILL_COUNT, or NULL */

/* Counts a call. Returns whether the caller must kill the program, after it did half of a write. If
 * KILL_SIGNAL is set, sends that signal instead. */
static int is_chosen(void)
{
    const char *const at = getenv("KILL_AT"), *const number = getenv("KILL_SIGNAL"),
                      *const times = getenv("KILL_TIMES");
    const long call = atomic_fetch_add(&calls, 1) + 1, first = at == NULL ? 0 : atol(at);

    if (first == 0 || call < first || call >= first + (times == NULL ? 1 : atol(times)))
        return 0;
    if (number == NULL)
        return 1;
    kill(getpid(), atoi(number));
    return 0;
}

static void die(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

/* The file is opened at the start, as the program may later be confined. */
__attribute__((constructor)) static void begin(void)
{
    const char *const path = getenv("KILL_COUNT");

    counts = path == NULL ? NULL : fopen(path, "we");
}

__attribute__((destructor)) static void report(void)
{
    if (counts != NULL) {
        (void)fseek(counts, 0, SEEK_END); /* after the lines of processes that this one started */
        fprintf(counts, "%ld\n", atomic_load(&calls));
        fclose(counts);
    }
}

/* The program closes inherited descriptors; this one must stay open. */
#define KEEP_OPEN (counts == NULL ? -1 : fileno(counts))
#include "../faults/keep_open.h"

#define NEXT(type, name, ...)         \
    static type (*next)(__VA_ARGS__); \
    if (next == NULL)                 \
    *(void **)&next = dlsym(RTLD_NEXT, name)

ssize_t write(int fd, const void *data, size_t n)
{
    NEXT(ssize_t, "write", int, const void *, size_t);
    if (fd > 2 && is_chosen()) {
        (void)!next(fd, data, n / 2);
        die();
    }
    return next(fd, data, n);
}

#define PWRITE(name, off_type)                                     \
    ssize_t name(int fd, const void *data, size_t n, off_type at)  \
    {                                                              \
        NEXT(ssize_t, #name, int, const void *, size_t, off_type); \
        if (is_chosen()) {                                         \
            (void)!next(fd, data, n / 2, at);                      \
            die();                                                 \
        }                                                          \
        return next(fd, data, n, at);                              \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define OPEN(name)                                    \
    int name(const char *path, int flags, ...)        \
    {                                                 \
        NEXT(int, #name, const char *, int, ...);     \
        va_list ap;                                   \
        int mode;                                     \
        va_start(ap, flags);                          \
        mode = flags & O_CREAT ? va_arg(ap, int) : 0; \
        va_end(ap);                                   \
        if ((flags & O_CREAT) && is_chosen())         \
            die();                                    \
        return next(path, flags, mode);               \
    }
OPEN(open)
OPEN(open64)

#define CHANGE(name, type, parameters, ...) \
    type name parameters                    \
    {                                       \
        NEXT(type, #name, __VA_ARGS__);     \
        if (is_chosen())                    \
            die();                          \
        return next
CHANGE(fsync, int, (int fd), int)(fd);
}
CHANGE(unlink, int, (const char *path), const char *)(path);
}
CHANGE(rename, int, (const char *from, const char *to), const char *, const char *)(from, to);
}
CHANGE(ftruncate, int, (int fd, off_t n), int, off_t)(fd, n);
}
CHANGE(ftruncate64, int, (int fd, off64_t n), int, off64_t)(fd, n);
}
