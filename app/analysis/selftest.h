/*
 * Known-answer tests. Every analysis brings a few small built-in items, with
 * the CRC-32 of the final state compiled in; a backend whose state differs
 * computes something else and is not used. The CPU must pass them too.
 */
#ifndef AN_SELFTEST_H
#define AN_SELFTEST_H

#include "app/analysis/analysis.h"

/* What is in a made-up picture: balls that touch, on a slope, with noise; noise of all grey values,
 * in which every branch of a kernel is gone; noise of four, full of ties; terraces: blocks that are
 * flat, in which the least change of a height is a peak. */
typedef enum an_scene { AN_BALLS, AN_NOISE, AN_TIES, AN_TERRACES } an_scene;

/* An item of nx*ny*nz made-up pixels (an_selftest_pixels) and its answer. An
 * analysis' list ends with an entry whose parameters are NULL. */
struct an_selftest {
    const char *parameters; /* JSON */
    uint32_t nx, ny, nz;
    unsigned bits; /* 8 or 16 */
    bool mask;
    uint32_t state_crc; /* CRC-32 of the final state */
    an_scene scene;
    bool doubles; /* a device without double precision cannot do it */
};

/* Blobs on an uneven background with noise, from integers only. *out: the caller's,
 * wu_pixels_free. labels: whether there are some, as analyses that take them want. */
tc_status an_selftest_pixels(const an_selftest *test, bool labels, wu_pixels *out, tc_err *err);

/* The item that has these pixels. */
wu_item an_selftest_item(const an_selftest *test, const wu_pixels *pixels);

/* Runs one test on a backend; *crc is what came out. TC_OK also if it is not
 * what it should be: the caller compares. poll: may be NULL. */
tc_status an_selftest_crc(const an_analysis *analysis, const an_selftest *test,
                          const an_backend *backend, struct ocl_device *device, unsigned threads,
                          const tc_poll *poll, uint32_t *crc, tc_err *err);

/* Whether a backend with `finish`, from the start without a sync, makes of a test's item the result
 * that the CPU makes. Fine where it cannot make one. */
tc_status an_selftest_result(const an_analysis *analysis, const an_selftest *test,
                             const an_backend *backend, struct ocl_device *device, unsigned threads,
                             const tc_poll *poll, tc_err *err);

/* The kernels that the work unit's items take on a device: bits of an_analysis.kernels.
 * unit: NULL: all of them. */
enum { AN_ALL_KERNELS = 0x7fffffff };
uint32_t an_unit_kernels(const an_analysis *analysis, const an_unit *unit);

/* Whether one of the analysis' tests takes no other kernels than these. */
bool an_selftest_concerns(const an_analysis *analysis, size_t which, uint32_t kernels);

/* One of the analysis' tests on the backend. TC_DEVICE (TC_INTERNAL on the CPU) where it gives
 * another answer. */
tc_status an_selftest_one(const an_analysis *analysis, size_t which, const an_backend *backend,
                          struct ocl_device *device, unsigned threads, const tc_poll *poll,
                          tc_err *err);

/* All of them on the CPU, up to the first that gives another answer. */
tc_status an_selftest_cpu(const an_analysis *analysis, unsigned threads, tc_err *err);

#endif
