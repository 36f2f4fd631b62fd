/*
 * One status enum for the whole program, and the error context that carries
 * the sentence a person reads.
 *
 * Every fallible function returns a tc_status and takes a tc_err * as its last
 * argument. A function that fails fills the tc_err (once, where the fault is
 * found) and returns the status; callers pass both on unchanged. The message
 * begins with the file it concerns: "FILE: what is wrong". tc_err may be NULL.
 */
#ifndef TC_STATUS_H
#define TC_STATUS_H

#include <stdarg.h>
#include <stddef.h>

typedef enum tc_status {
    TC_OK = 0,    /* done */
    TC_MORE,      /* a step ended, there are more */
    TC_USAGE,     /* bad command line                          exit 1  */
    TC_BAD_INPUT, /* a file or its content is not acceptable   exit 2  */
    TC_TRY_LATER, /* interrupted: state kept, run again        exit 3  */
    TC_IO,        /* an output could not be written            exit 3  */
    TC_DISK,      /* the disk takes nothing now: full ...      exit 3  */
    TC_NO_MEMORY, /* out of memory                             exit 3  */
    TC_DEVICE,    /* an OpenCL device failed or is unusable    exit 3  */
    TC_TOO_LARGE, /* an item that an OpenCL device never holds exit 3  */
    TC_NO_MATCH,  /* two results differ                        exit 4  */
    TC_INTERNAL   /* a fault of this program                   exit 70 */
} tc_status;

enum { TC_ERR_MAX = 1024 };

typedef struct tc_err {
    char message[TC_ERR_MAX];
} tc_err;

/* The process exit code that belongs to a status. */
int tc_exit_code(tc_status status);

/* The compiler checks a format, argument number `text`, against those from `first` on. TC_PRINTF
 * is its name for C's printf, where that is not the system's (configure). */
#ifndef TC_PRINTF
#define TC_PRINTF printf
#endif
#define TC_FORMAT(text, first) __attribute__((format(TC_PRINTF, text, first)))

/* Writes the message (printf style) into err, if there is one, and returns
 * status, so that a failure is one line: return tc_fail(err, TC_IO, ...). */
TC_FORMAT(3, 4)
tc_status tc_fail(tc_err *err, tc_status status, const char *format, ...);

/* Ends the function with the status of a step, unless that is TC_OK. For functions that have
 * nothing to release then, or whose variables release themselves. */
#define return_if_error(...)                            \
    do {                                                \
        const tc_status status_of_step = (__VA_ARGS__); \
        if (status_of_step != TC_OK)                    \
            return status_of_step;                      \
    } while (0)

/* Before the declaration of a local variable: release(&variable) is called where its block ends,
 * whichever way. From its declaration on it holds what release takes. */
#define TC_AUTO(release) __attribute__((cleanup(release)))
/* The same with free, for a pointer. */
#define TC_AUTOFREE TC_AUTO(tc_free_variable)
void tc_free_variable(const void *pointer);

/* tc_fail for an allocation of "what" that failed. */
tc_status tc_no_memory(tc_err *err, const char *what);

/* Overflow-checked size products: returns 0 and leaves *out alone when the
 * product does not fit a size_t, 1 otherwise. */
int tc_mul_size(size_t a, size_t b, size_t *out);

/* Seconds of a clock that only goes forward; its zero means nothing. */
double tc_seconds(void);

#endif
