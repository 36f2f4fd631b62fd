/*
 * Preloaded into a program, ends it by SIGKILL at a chosen one of its calls
 * that change files: KILL_AT=n is the n-th such call, counted from 1. The call
 * is not made; a write is made for its first half. With KILL_SIGNAL=s the
 * program gets that signal instead, and the call is made; with KILL_TIMES=t at each of t calls from
 * the n-th on. KILL_COUNT=FILE: a line of FILE has the number of such calls of each process that
 * exits; those that are forked count on.
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

static atomic_long calls;
static FILE *counts;

/* Counts a call; true when it is the one. */
static int is_it(void)
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

/* Opened at once: a program may give up the right to, later. */
__attribute__((constructor)) static void begin(void)
{
    const char *const path = getenv("KILL_COUNT");

    counts = path == NULL ? NULL : fopen(path, "we");
}

__attribute__((destructor)) static void report(void)
{
    if (counts != NULL) {
        (void)fseek(counts, 0, SEEK_END); /* behind those of the programs that this one started */
        fprintf(counts, "%ld\n", atomic_load(&calls));
        fclose(counts);
    }
}

/* The program closes what it inherits. */
#define KEEP_OPEN (counts == NULL ? -1 : fileno(counts))
#include "../faults/keep_open.h"

#define NEXT(type, name, ...)         \
    static type (*next)(__VA_ARGS__); \
    if (next == NULL)                 \
    *(void **)&next = dlsym(RTLD_NEXT, name)

ssize_t write(int fd, const void *data, size_t n)
{
    NEXT(ssize_t, "write", int, const void *, size_t);
    if (fd > 2 && is_it()) {
        (void)!next(fd, data, n / 2);
        die();
    }
    return next(fd, data, n);
}

#define PWRITE(name, off_type)                                     \
    ssize_t name(int fd, const void *data, size_t n, off_type at)  \
    {                                                              \
        NEXT(ssize_t, #name, int, const void *, size_t, off_type); \
        if (is_it()) {                                             \
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
        if ((flags & O_CREAT) && is_it())             \
            die();                                    \
        return next(path, flags, mode);               \
    }
OPEN(open)
OPEN(open64)

#define CHANGE(name, type, parameters, ...) \
    type name parameters                    \
    {                                       \
        NEXT(type, #name, __VA_ARGS__);     \
        if (is_it())                        \
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
