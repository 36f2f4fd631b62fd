/*
 * The part of the self-test that is common to all analyses: does this device
 * compute at all as OpenCL C says, in what every kernel stands on?
 *
 * It takes a few milliseconds after the build and finds drivers that are broken
 * as a whole. Each analysis has a known-answer item of its own besides.
 */
#ifndef OCL_SELFTEST_H
#define OCL_SELFTEST_H

#include "app/base/poll.h"
#include "opencl/program.h"

/*
 * Runs 32 and 64-bit integer arithmetic, the *_core.h helpers, local and global
 * atomics, barriers, and with `floats` fp32 division, square root, denormals and
 * uncontracted a*b+c on the device, and compares every bit with the same source
 * compiled for the CPU. TC_DEVICE: it differs (the message says in what), or
 * OpenCL failed. poll: may be NULL.
 */
tc_status ocl_selftest(ocl_device *device, bool floats, const tc_poll *poll, tc_err *err);

#endif
