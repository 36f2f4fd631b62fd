/* Makes allocations and system calls fail, one at a time, for the fuzz targets. */
#define _GNU_SOURCE
#include "tests/fuzz/fuzz_fail.h"
#include "tests/fuzz/fuzz_files.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <png.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <zlib.h>

/* A function of the sanitizer; NULL in a build for coverage. */
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

enum {
    DEPTH = 6,        /* number of callers that identify a place */
    PLACES = 1 << 14, /* entries of the hash table */
    TRIES = 200       /* largest number of runs of an input for its new places */
};

/* COUNT: calls are only counted, and none fails; FAIL_NEW: the first call at a new place fails;
 * FAIL_AT: the call with number fail_at fails. */
static enum { COUNT, FAIL_NEW, FAIL_AT } mode;
static bool may_fail;            /* whether calls may fail now */
static bool failed;              /* whether a call of this run has failed */
static bool has_new;             /* whether this run has calls at new places that did not fail */
static size_t calls;             /* number of calls of this run */
static size_t fail_at;           /* number of the call that FAIL_AT makes fail, from 1 */
static size_t failed_at;         /* number of the call that failed last */
static uintptr_t places[PLACES]; /* hash table of the known places */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local const uintptr_t *bottom; /* of the main thread's stack; NULL in others */
static _Thread_local bool exempt;             /* whether calls of this thread never fail now */

bool fuzz_may_fail(bool may)
{
    const bool was = may_fail;
    may_fail = may;
    return was;
}

void fuzz_wrong(void)
{
    if (!failed)
        abort();
}

/* Returns a hash of the return addresses above `frame`, the frame of a function below that replaces
 * a call. As libraries are built without frame pointers, the walk ends at a pointer that does not
 * lead further down the stack. */
__attribute__((no_sanitize("address", "undefined"))) static uintptr_t place_of(
    const uintptr_t *frame)
{
    uintptr_t place = frame[1];
    for (int i = 1; i < DEPTH && bottom != NULL; i++) {
        const uintptr_t *const next = (const uintptr_t *)frame[0];
        if (next <= frame || next >= bottom || (uintptr_t)next % sizeof *next != 0)
            break;
        frame = next;
        place = (place ^ frame[1]) * 1099511628211U;
    }
    return place | 1;
}

/* Returns the entry of a place in the hash table, or the free entry for it. */
static uintptr_t *slot_of(uintptr_t place)
{
    size_t i = place >> 20 & (PLACES - 1);
    while (places[i] != 0 && places[i] != place)
        i = (i + 1) & (PLACES - 1);
    return &places[i];
}

/* Counts a call at a place. Returns whether the call must fail. */
static bool is_chosen(uintptr_t place)
{
    uintptr_t *const slot = slot_of(place);
    const bool is_new = *slot != place;
    calls++;
    if (mode == FAIL_AT)
        return calls == fail_at;
    if (mode == FAIL_NEW && is_new && !failed) {
        *slot = place;
        return true;
    }
    has_new = has_new || is_new;
    return false;
}

/* Returns whether the call whose replacement has this frame must fail, and sets errno to `why`. */
static bool fails(const void *frame, int why)
{
    if (!may_fail || exempt)
        return false;
    pthread_mutex_lock(&lock);
    const bool chosen = is_chosen(place_of(frame));
    failed_at = chosen ? calls : failed_at;
    failed = failed || chosen;
    pthread_mutex_unlock(&lock);
    if (chosen)
        errno = why;
    return chosen;
}

/* Runs an input; returns whether more memory is in use after the run than before. */
static bool grows(const uint8_t *data, size_t size, void (*run)(const uint8_t *, size_t))
{
    const size_t before = __sanitizer_get_current_allocated_bytes != NULL
                              ? __sanitizer_get_current_allocated_bytes()
                              : 0;
    calls = 0;
    failed = has_new = false;
    may_fail = true;
    run(data, size);
    may_fail = false;
    return before != 0 && __sanitizer_get_current_allocated_bytes() > before;
}

/* Runs an input with failures. It is a leak if memory grows each time that the same call fails; it
 * may grow once, as libraries keep some memory. LeakSanitizer does not find all leaks. */
static void once(const uint8_t *data, size_t size, void (*run)(const uint8_t *, size_t))
{
    if (!grows(data, size, run) || !failed)
        return;
    const bool more = has_new;
    mode = FAIL_AT;
    fail_at = failed_at;
    bool leaks = true;
    for (int i = 0; leaks && i < 3; i++)
        leaks = grows(data, size, run) && failed;
    if (leaks) {
        fprintf(stderr, "leaks where call %zu fails\n", fail_at);
        abort();
    }
    mode = FAIL_NEW;
    has_new = more;
    failed = true;
}

void fuzz_with_failures(const uint8_t *data, size_t size, void (*run)(const uint8_t *, size_t))
{
    const uint32_t chosen = (uint32_t)crc32(0, data, (uInt)size);
    bottom = __builtin_frame_address(0);
    mode = COUNT;
    once(data, size, run);
    const size_t any = calls == 0 ? 0 : 1 + chosen / 16 % calls; /* one of all calls */
    mode = FAIL_NEW;
    for (int i = 0; (has_new || failed) && i < TRIES; i++)
        once(data, size, run);
    mode = FAIL_AT;
    fail_at = any;
    if (chosen % 16 == 0)
        once(data, size, run);
    failed = false;
}

/* --- functions with which the linker replaces calls (targets.mk) ------------------------------ */

/* Defines a replacement for a function, which calls `does` unless the call must fail; then it
 * returns `result` with errno `why`. FAILING is for the functions of the C library. */
#define FAILING_BEFORE(does, type, result, why, name, parameters, ...)              \
    type __wrap_##name parameters;                                                  \
    type __wrap_##name parameters                                                   \
    {                                                                               \
        return fails(__builtin_frame_address(0), why) ? result : does(__VA_ARGS__); \
    }
#define FAILING(type, result, why, name, parameters, ...) \
    type __real_##name parameters;                        \
    FAILING_BEFORE(__real_##name, type, result, why, name, parameters, __VA_ARGS__)
FAILING(void *, NULL, ENOMEM, malloc, (size_t n), n)
FAILING(void *, NULL, ENOMEM, calloc, (size_t n, size_t size), n, size)
FAILING(void *, NULL, ENOMEM, realloc, (void *p, size_t n), p, n)
FAILING(void *, NULL, ENOMEM, aligned_alloc, (size_t of, size_t n), of, n)
FAILING(char *, NULL, ENOMEM, strdup, (const char *text), text)
FAILING(char *, NULL, ENOMEM, strndup, (const char *text, size_t n), text, n)
FAILING(FILE *, NULL, EIO, fopen, (const char *path, const char *how), path, how)
FAILING(ssize_t, -1, EIO, read, (int fd, void *p, size_t n), fd, p, n)
FAILING_BEFORE(files_pread, ssize_t, -1, EIO, pread, (int fd, void *p, size_t n, off_t at), fd, p,
               n, at)
FAILING(ssize_t, -1, ENOSPC, write, (int fd, const void *p, size_t n), fd, p, n)
FAILING_BEFORE(files_pwrite, ssize_t, -1, ENOSPC, pwrite,
               (int fd, const void *p, size_t n, off_t at), fd, p, n, at)
FAILING_BEFORE(files_fsync, int, -1, EIO, fsync, (int fd), fd)
FAILING(int, -1, EIO, fdatasync, (int fd), fd)
FAILING_BEFORE(files_ftruncate, int, -1, EIO, ftruncate, (int fd, off_t n), fd, n)
FAILING_BEFORE(files_rename, int, -1, EIO, rename, (const char *from, const char *to), from, to)
FAILING(size_t, 0, EIO, fread, (void *p, size_t size, size_t n, FILE *file), p, size, n, file)
/* Functions of libraries that may report a lack of memory. */
FAILING(int, Z_MEM_ERROR, ENOMEM, inflateInit2_,
        (z_streamp z, int bits, const char *version, int size), z, bits, version, size)
FAILING(int, Z_MEM_ERROR, ENOMEM, deflateInit2_,
        (z_streamp z, int level, int method, int bits, int memory, int strategy,
         const char *version, int size),
        z, level, method, bits, memory, strategy, version, size)
FAILING(gzFile, NULL, ENOMEM, gzdopen, (int fd, const char *how), fd, how)
FAILING(png_infop, NULL, ENOMEM, png_create_info_struct, (png_const_structrp png), png)

int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    const int permissions = flags & O_CREAT ? va_arg(ap, int) : 0;
    va_end(ap);
    return fails(__builtin_frame_address(0), EMFILE) ? -1 : files_open(path, flags, permissions);
}

static json_malloc_t take; /* the program's function that allocates for jansson */

/* Allocates for jansson, without a failure. */
static void *take_all(size_t n)
{
    exempt = true;
    void *const memory = take(n);
    exempt = false;
    return memory;
}

void __real_json_set_alloc_funcs(json_malloc_t allocate, json_free_t release);
void __wrap_json_set_alloc_funcs(json_malloc_t allocate, json_free_t release);
void __wrap_json_set_alloc_funcs(json_malloc_t allocate, json_free_t release)
{
    take = allocate;
    __real_json_set_alloc_funcs(take_all, release);
}
