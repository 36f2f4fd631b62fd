/*
 * A library to be preloaded into a program: it makes some of the program's calls fail. Environment:
 *   FAIL_WHAT       the kind of calls: memory (malloc, calloc, realloc, aligned_alloc, strdup,
 *                   strndup), open, read, write (also fsync, ftruncate and rename) or lock
 *   FAIL_AT=PLACE:N[+]  the N-th call from a place fails, with + also all later calls
 *                   (../hooks/places.h)
 *   FAIL_ERRNO      the errno of calls that fail, as a number
 *   FAIL_COUNT=FILE each process appends the places of its calls, and the number of calls of each
 *   FAIL_OWN        only allocations by the program itself fail, none by libraries
 *
 * A forked process continues its parent's counts.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "../hooks/places.h"

static int error_number; /* FAIL_ERRNO */
static int is_ready;     /* whether calls may fail: the library was initialised and has not ended */
static int own_only;     /* whether FAIL_OWN is set */
static int counts = -1;  /* descriptor of the file FAIL_COUNT; -1: none */
static const char *what; /* FAIL_WHAT */
static uintptr_t program_from, program_to; /* addresses of the program's code and data */

/* Callback for each loaded object, of which the first is the program: stores its addresses. */
static int find_program(struct dl_phdr_info *of, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    for (int i = 0; i < of->dlpi_phnum; i++) {
        const uintptr_t end = of->dlpi_addr + of->dlpi_phdr[i].p_vaddr + of->dlpi_phdr[i].p_memsz;

        if (of->dlpi_phdr[i].p_type == PT_LOAD && end > program_to)
            program_to = end;
    }
    program_from = of->dlpi_addr;
    return 1;
}

__attribute__((constructor)) static void begin(void)
{
    const char *const number = getenv("FAIL_ERRNO");

    what = getenv("FAIL_WHAT");
    choose_place(getenv("FAIL_AT"));
    error_number = number == NULL ? ENOMEM : atoi(number);
    if (getenv("FAIL_COUNT") != NULL) /* open the file now, as the program may be confined later */
        counts = open(getenv("FAIL_COUNT"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    own_only = getenv("FAIL_OWN") != NULL;
    dl_iterate_phdr(find_program, NULL);
    is_ready = what != NULL;
}

/* The program closes inherited descriptors; this one must stay open. */
#define KEEP_OPEN counts
#include "keep_open.h"

/* Returns whether this call, of the kind `kind`, must fail. */
static int fails(const char *kind)
{
    if (!is_ready || strcmp(what, kind) != 0 || !is_chosen(counts >= 0))
        return 0;
    errno = error_number;
    return 1;
}

__attribute__((destructor)) static void end(void)
{
    is_ready = 0;
    if (counts >= 0)
        tell_places(counts);
}

/* Finds the next function with this name, in glibc or a sanitizer. */
#define NEXT(type, name, ...)         \
    static type (*next)(__VA_ARGS__); \
    if (next == NULL)                 \
    *(void **)&next = dlsym(RTLD_NEXT, name)

/* Returns whether an allocation by the code at `caller` must fail. */
static int memory_fails(const void *caller)
{
    const uintptr_t at = (uintptr_t)caller;

    return !(own_only && (at < program_from || at >= program_to)) && fails("memory");
}
/* Defines a replacement for a function that allocates memory. */
#define MEMORY(type, name, parameters, types, ...)                                   \
    type name parameters                                                             \
    {                                                                                \
        NEXT(type, #name, types);                                                    \
        return memory_fails(__builtin_return_address(0)) ? NULL : next(__VA_ARGS__); \
    }
#define TYPES(...) __VA_ARGS__
MEMORY(void *, malloc, (size_t n), size_t, n)
MEMORY(void *, calloc, (size_t n, size_t size), TYPES(size_t, size_t), n, size)
MEMORY(void *, realloc, (void *p, size_t n), TYPES(void *, size_t), p, n)
MEMORY(void *, aligned_alloc, (size_t of, size_t n), TYPES(size_t, size_t), of, n)
MEMORY(char *, strdup, (const char *text), const char *, text)
MEMORY(char *, strndup, (const char *text, size_t n), TYPES(const char *, size_t), text, n)

#define OPEN(name)                                           \
    int name(const char *path, int flags, ...)               \
    {                                                        \
        NEXT(int, #name, const char *, int, ...);            \
        va_list ap;                                          \
        int mode;                                            \
        va_start(ap, flags);                                 \
        mode = flags & O_CREAT ? va_arg(ap, int) : 0;        \
        va_end(ap);                                          \
        return fails("open") ? -1 : next(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

/* Defines a replacement for a function, which returns `failed` if the call must fail. */
#define CALL(kind, type, failed, name, parameters, types, ...) \
    type name parameters                                       \
    {                                                          \
        NEXT(type, #name, types);                              \
        return fails(kind) ? failed : next(__VA_ARGS__);       \
    }
CALL("open", FILE *, NULL, fopen, (const char *path, const char *how),
     TYPES(const char *, const char *), path, how)
CALL("open", FILE *, NULL, fopen64, (const char *path, const char *how),
     TYPES(const char *, const char *), path, how)
CALL("open", void *, NULL, opendir, (const char *path), TYPES(const char *), path)
CALL("read", ssize_t, -1, read, (int fd, void *p, size_t n), TYPES(int, void *, size_t), fd, p, n)
CALL("read", ssize_t, -1, pread, (int fd, void *p, size_t n, off_t at_),
     TYPES(int, void *, size_t, off_t), fd, p, n, at_)
CALL("read", ssize_t, -1, pread64, (int fd, void *p, size_t n, off64_t at_),
     TYPES(int, void *, size_t, off64_t), fd, p, n, at_)
CALL("write", ssize_t, -1, pwrite, (int fd, const void *p, size_t n, off_t at_),
     TYPES(int, const void *, size_t, off_t), fd, p, n, at_)
CALL("write", ssize_t, -1, pwrite64, (int fd, const void *p, size_t n, off64_t at_),
     TYPES(int, const void *, size_t, off64_t), fd, p, n, at_)
CALL("write", int, -1, fsync, (int fd), TYPES(int), fd)
CALL("write", int, -1, fdatasync, (int fd), TYPES(int), fd)
CALL("write", int, -1, ftruncate, (int fd, off_t n), TYPES(int, off_t), fd, n)
CALL("write", int, -1, ftruncate64, (int fd, off64_t n), TYPES(int, off64_t), fd, n)
CALL("write", int, -1, rename, (const char *from, const char *to),
     TYPES(const char *, const char *), from, to)
CALL("lock", int, -1, flock, (int fd, int how), TYPES(int, int), fd, how)

ssize_t write(int fd, const void *data, size_t n)
{
    NEXT(ssize_t, "write", int, const void *, size_t);
    return fd > 2 && fails("write") ? -1 : next(fd, data, n); /* messages never fail */
}

#define FCNTL(name)                                          \
    int name(int fd, int how, ...)                           \
    {                                                        \
        NEXT(int, #name, int, int, ...);                     \
        va_list ap;                                          \
        void *argument;                                      \
        va_start(ap, how);                                   \
        argument = va_arg(ap, void *);                       \
        va_end(ap);                                          \
        return fails("lock") ? -1 : next(fd, how, argument); \
    }
FCNTL(fcntl)
FCNTL(fcntl64)
