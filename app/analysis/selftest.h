/*
 * Self-tests with known answers. Every analysis has a few small built-in items, with
 * the CRC-32 of their final states compiled in. A device that computes another final state is
 * faulty and is not used. The CPU must pass the tests, too.
 */
#ifndef AN_SELFTEST_H
#define AN_SELFTEST_H

#include "app/analysis/analysis.h"

/* What a synthetic picture shows. */
typedef enum an_scene {
    AN_BALLS,   /* touching balls on an uneven background, with noise */
    AN_NOISE,   /* noise of all grey values, which reaches every branch of a kernel */
    AN_TIES,    /* noise of four grey values, so that many pixels are equal */
    AN_TERRACES /* flat blocks, in which the smallest change of a height is a peak */
} an_scene;

/* A synthetic item of nx * ny * nz pixels (an_selftest_pixels), and the CRC-32 of its final state.
 * An analysis' list of tests ends with an entry whose parameters are NULL. */
struct an_selftest {
    const char *parameters; /* JSON */
    uint32_t nx, ny, nz;
    unsigned bits;      /* 8 or 16 */
    bool mask;          /* the item has a mask */
    uint32_t state_crc; /* CRC-32 of the final state */
    an_scene scene;
    bool doubles; /* the test needs a device with double precision */
};

/* Makes a test's pixels, by integer arithmetic only. labels: also make labels, for analyses that
 * need them. *out: freed by wu_pixels_free. */
tc_status an_selftest_pixels(const an_selftest *test, bool labels, wu_pixels *out, tc_err *err);

/* The description of a test's item with these pixels. */
wu_item an_selftest_item(const an_selftest *test, const wu_pixels *pixels);

/* Runs one test on a backend, and sets *crc to the CRC-32 of its final state. The caller compares
 * *crc with state_crc: TC_OK only means that the test ran. device: NULL for the CPU. poll: may be
 * NULL. */
tc_status an_selftest_crc(const an_analysis *analysis, const an_selftest *test,
                          const an_backend *backend, struct ocl_device *device, unsigned threads,
                          const tc_poll *poll, uint32_t *crc, tc_err *err);

/* For a backend that has the function `finish`: computes the result of a test's item by `finish`,
 * without calling `sync`, and compares its arrays with those that the CPU computes. Returns
 * TC_DEVICE if they differ, but TC_OK if `finish` cannot make them (it returned TC_MORE). */
tc_status an_selftest_result(const an_analysis *analysis, const an_selftest *test,
                             const an_backend *backend, struct ocl_device *device, unsigned threads,
                             const tc_poll *poll, tc_err *err);

/* Returns the kernels that the work unit's items use on a device, as bits like those of
 * an_analysis.kernels. If unit is NULL, returns AN_ALL_KERNELS. */
enum { AN_ALL_KERNELS = 0x7fffffff };
uint32_t an_unit_kernels(const an_analysis *analysis, const an_unit *unit);

/* Whether test number `which` of an analysis' list of tests uses only these kernels. */
bool an_selftest_is_needed(const an_analysis *analysis, size_t which, uint32_t kernels);

/* Runs test number `which` of an analysis on a backend and checks the answer. If the answer is
 * wrong, returns TC_DEVICE for a device, and TC_INTERNAL for the CPU. */
tc_status an_selftest_run_one(const an_analysis *analysis, size_t which, const an_backend *backend,
                              struct ocl_device *device, unsigned threads, const tc_poll *poll,
                              tc_err *err);

/* Runs all tests of an analysis on the CPU, up to the first that fails. */
tc_status an_selftest_run_cpu(const an_analysis *analysis, unsigned threads, tc_err *err);

#endif
