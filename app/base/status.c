/* Error messages, exit codes, checked size products and the monotonic clock. */
#include "app/base/status.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int tc_exit_code(tc_status status)
{
    switch (status) {
    case TC_OK: return 0;
    case TC_USAGE: return 1;
    case TC_BAD_INPUT: return 2;
    case TC_TRY_LATER:
    case TC_IO:
    case TC_DISK:
    case TC_NO_MEMORY:
    case TC_DEVICE:
    case TC_TOO_LARGE: return 3;
    case TC_NO_MATCH: return 4;
    case TC_MORE:
    case TC_INTERNAL: break;
    }
    return 70;
}

tc_status tc_fail(tc_err *err, tc_status status, const char *format, ...)
{
    assert(status != TC_OK);
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
    }
    return status;
}

tc_status tc_no_memory(tc_err *err, const char *what)
{
    return tc_fail(err, TC_NO_MEMORY, "out of memory for %s", what);
}

void tc_free_variable(const void *pointer)
{
    free(*(void *const *)pointer);
}

int tc_mul_size(size_t a, size_t b, size_t *out)
{
    if (b != 0 && a > SIZE_MAX / b)
        return 0;
    *out = a * b;
    return 1;
}

double tc_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
