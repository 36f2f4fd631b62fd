/*
 * The status that functions of all programs return, and the message that belongs to a failure.
 *
 * Every function that can fail returns a tc_status and takes a tc_err * as its last
 * argument. The function that finds the fault writes the message into the tc_err and returns the
 * status; its callers pass both on unchanged. The message begins with the file it
 * concerns: "FILE: what is wrong". tc_err may be NULL.
 */
#ifndef TC_STATUS_H
#define TC_STATUS_H

#include <stdarg.h>
#include <stddef.h>

typedef enum tc_status {
    TC_OK = 0,    /* done */
    TC_MORE,      /* no error; something remains to be done, as the function's comment says */
    TC_USAGE,     /* bad command line                          exit 1  */
    TC_BAD_INPUT, /* a file or its content is not acceptable   exit 2  */
    TC_TRY_LATER, /* interrupted: state kept, run again        exit 3  */
    TC_IO,        /* an output could not be written            exit 3  */
    TC_DISK,      /* the disk is full or not writable now      exit 3  */
    TC_NO_MEMORY, /* out of memory                             exit 3  */
    TC_DEVICE,    /* an OpenCL device failed or is unusable    exit 3  */
    TC_TOO_LARGE, /* an item does not fit an OpenCL device      exit 3  */
    TC_NO_MATCH,  /* two results differ                        exit 4  */
    TC_INTERNAL   /* a fault of this program                   exit 70 */
} tc_status;

enum { TC_ERR_MAX = 1024 }; /* bytes of a message, with its NUL */

typedef struct tc_err {
    char message[TC_ERR_MAX];
} tc_err;

/* The process exit code that belongs to a status. */
int tc_exit_code(tc_status status);

/* Makes the compiler check a printf format. text: the number of the parameter with the format,
 * counted from 1. first: the number of the first argument to be printed. TC_PRINTF: the printf
 * whose formats the compiler checks, set by configure if it is not the system's. */
#ifndef TC_PRINTF
#define TC_PRINTF printf
#endif
#define TC_FORMAT(text, first) __attribute__((format(TC_PRINTF, text, first)))

/* Writes the message into err, unless that is NULL, and returns status, so that a failure is one
 * line: return tc_fail(err, TC_IO, ...). */
TC_FORMAT(3, 4)
tc_status tc_fail(tc_err *err, tc_status status, const char *format, ...);

/* Evaluates a call and returns its status from the calling function unless it is TC_OK. For
 * functions that have nothing to release at that point, or whose variables are TC_AUTO. */
#define return_if_error(...)                            \
    do {                                                \
        const tc_status status_of_step = (__VA_ARGS__); \
        if (status_of_step != TC_OK)                    \
            return status_of_step;                      \
    } while (0)

/* Put before the declaration of a local variable: release(&variable) is called at the end of its
 * block, however that is left. The variable must be initialized to a value that release accepts. */
#define TC_AUTO(release) __attribute__((cleanup(release)))
/* TC_AUTO for a pointer that free() releases. */
#define TC_AUTOFREE TC_AUTO(tc_free_variable)
void tc_free_variable(const void *pointer);

/* Fails with TC_NO_MEMORY and the message "out of memory for WHAT". */
tc_status tc_no_memory(tc_err *err, const char *what);

/* Multiplies two sizes. Returns 1, or 0 with *out unchanged if the product does not fit a size_t.
 */
int tc_mul_size(size_t a, size_t b, size_t *out);

/* The time in seconds of a monotonic clock, from an arbitrary point of time on. */
double tc_seconds(void);

#endif
