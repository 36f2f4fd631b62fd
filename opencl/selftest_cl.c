/* Tests the arithmetic that kernels depend on: integers, atomics, and single precision (fp32). */
#include "opencl/selftest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl/kernels/selftest_core.h"

extern const ocl_source ocl_source_selftest;

/* Sizes, in 32-bit words, of parts of the buffer in the test of atomics. */
enum {
    TOTALS = 4, /* the totals, which expect_atomics describes */
    /* The whole buffer: the bins of all work-groups, then the totals. */
    ATOMICS = ST_GROUPS * ST_BINS + TOTALS
};

/* --- expected results, computed on the CPU --------------------------------------------------- */

static void expect_integers(void *to)
{
    uint64_t *out = to;
    for (uint32_t i = 0; i < ST_ITEMS; i++)
        for (uint32_t k = 0; k < ST_INTEGERS; k++)
            out[i * ST_INTEGERS + k] = st_integer(i, k);
}

/* Writes the buffer's content before the test of atomics. */
static void start_atomics(void *to)
{
    uint32_t *out = to;
    memset(out, 0, ATOMICS * sizeof *out);
    out[ST_GROUPS * ST_BINS + 1] = UINT32_MAX; /* where the minimum is computed */
}

/* Each work-item increments a bin of its group; the totals are the sum of the bins' old values, and
 * the minimum, the maximum and the exclusive or of the work-items' hashes. */
static void expect_atomics(void *to)
{
    uint32_t *out = to;
    uint32_t *totals = out + (size_t)ST_GROUPS * ST_BINS;
    start_atomics(out);
    for (uint32_t i = 0; i < ST_ITEMS; i++) {
        const uint32_t hash = (uint32_t)st_mix(i);
        totals[0] += out[i / ST_GROUP * ST_BINS + hash % ST_BINS]++;
        totals[1] = hash < totals[1] ? hash : totals[1];
        totals[2] = hash > totals[2] ? hash : totals[2];
        totals[3] ^= hash;
    }
}

/* Returns the float with this representation. */
static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void expect_floats(void *to)
{
    uint32_t *out = to;
    for (uint32_t i = 0; i < ST_ITEMS; i++) {
        const float a = from_bits(st_float_bits(i, 0)), b = from_bits(st_float_bits(i, 1));
        const float results[ST_FLOATS] = { a + b, a - b, a * b, a / b, sqrtf(b), a * b + a };
        memcpy(out + (size_t)i * ST_FLOATS, results, sizeof results);
    }
}

/* For messages: the operation of each result of expect_floats. The last result is wrong if a*b is
 * not rounded before a is added. */
static const char *const operations[ST_FLOATS] = {
    "fp32 addition", "fp32 subtraction", "fp32 multiplication",
    "fp32 division", "fp32 square root", "fp32 product and sum, rounded once,"
};

/* --- the tests ------------------------------------------------------------------------------- */

typedef struct test_case {
    const char *kernel;
    const char *subject;      /* what is tested, for messages */
    size_t word;              /* bytes of one result */
    size_t count;             /* number of results */
    void (*start)(void *to);  /* writes the buffer's content before the launch; NULL: zeros */
    void (*expect)(void *to); /* writes the expected content after the launch */
    size_t local_bytes;       /* size of the local memory that is the kernel's second argument; 0 if
                                 it has no second argument */
    bool floats;              /* tests floats, if `floats` of ocl_selftest is set */
} test_case;

static const test_case tests[] = {
    { "selftest_integers", "integer arithmetic", sizeof(uint64_t), (size_t)ST_ITEMS *ST_INTEGERS,
      NULL, expect_integers, 0, false },
    { "selftest_atomics", "atomic arithmetic", sizeof(uint32_t), ATOMICS, start_atomics,
      expect_atomics, ST_BINS * sizeof(uint32_t), false },
    { "selftest_floats", "fp32 arithmetic", sizeof(uint32_t), (size_t)ST_ITEMS *ST_FLOATS, NULL,
      expect_floats, 0, true },
};

/* Copies `results` to the buffer, launches the kernel once, and copies the buffer back to
 * `results`. */
static tc_status run_kernel(ocl_device *device, cl_program program, const test_case *t,
                            ocl_buffer *buffer, void *results, tc_err *err)
{
    const size_t global = (size_t)ST_GROUPS * ST_GROUP, local = ST_GROUP;
    ocl_kernel kernel;
    ocl_batch batch = { 0 };
    double ms;

    return_if_error(ocl_kernel_new(device, program, t->kernel, &kernel, err));
    const ocl_arg args[] = { OCL_BUFFER(*buffer), OCL_LOCAL(t->local_bytes) };
    tc_status status = ocl_set_args(device, &kernel, args, t->local_bytes > 0 ? 2 : 1, err);
    if (status == TC_OK)
        status = ocl_write(device, buffer, 0, results, buffer->bytes, err);
    if (status == TC_OK)
        status = ocl_launch(device, &kernel, 1, NULL, &global, &local, &batch, err);
    if (status == TC_OK)
        status = ocl_batch_wait(device, &batch, 0, &ms, err);
    if (status == TC_OK)
        status = ocl_read(device, buffer, 0, results, buffer->bytes, err);
    ocl_kernel_free(device, &kernel);
    return status;
}

/* Returns TC_DEVICE with a message about result number `index`, which is wrong. For a test of
 * floats the message names the operation, and says whether the operand a is a denormal number
 * (st_float_bits). */
static tc_status report_wrong(const ocl_device *device, const test_case *t, size_t index,
                              tc_err *err)
{
    char what[80];

    snprintf(what, sizeof what, "%s%s", t->floats ? operations[index % ST_FLOATS] : t->subject,
             t->floats && index / ST_FLOATS % 4 == 0 ? " of denormal numbers" : "");
    return tc_fail(err, TC_DEVICE, "%s: %s is wrong (self-test, answer %zu)", device->info.name,
                   what, index);
}

/* Runs a test, and compares the results with the expected ones. */
static tc_status run_test(ocl_device *device, cl_program program, const test_case *t, tc_err *err)
{
    const size_t bytes = t->word * t->count;
    ocl_buffer buffer = { 0 };
    TC_AUTOFREE unsigned char *const results = calloc(2, bytes);

    if (results == NULL)
        return tc_no_memory(err, "the self-test");
    unsigned char *expected = results + bytes; /* the second half of the memory */
    if (t->start != NULL)
        t->start(results);
    t->expect(expected);
    return_if_error(ocl_buffer_new(device, bytes, "the self-test", &buffer, err));
    const tc_status status = run_kernel(device, program, t, &buffer, results, err);
    ocl_buffer_free(device, &buffer);
    return_if_error(status);
    for (size_t i = 0; i < t->count; i++)
        if (memcmp(results + i * t->word, expected + i * t->word, t->word) != 0)
            return report_wrong(device, t, i, err);
    return TC_OK;
}

tc_status ocl_selftest(ocl_device *device, bool floats, const tc_poll *poll, tc_err *err)
{
    cl_program program = NULL;
    return_if_error(ocl_program_build(device, &ocl_source_selftest, floats ? "-DFLOATS" : NULL,
                                      floats, &program, err));
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        if (floats || !tests[i].floats)
            return_if_error(run_test(device, program, &tests[i], err));
        return_if_error(tc_call_poll(poll, err));
    }
    return TC_OK;
}
