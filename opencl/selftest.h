/*
 * The device self-test that all analyses have in common. It tests the arithmetic that every kernel
 * depends on against the rules of OpenCL C.
 *
 * It takes a few milliseconds after the program is built, and finds drivers that are broken
 * altogether. Each analysis also has known-answer tests (app/analysis/selftest.h).
 */
#ifndef OCL_SELFTEST_H
#define OCL_SELFTEST_H

#include "app/base/poll.h"
#include "opencl/program.h"

/*
 * Runs on the device 32-bit and 64-bit integer arithmetic, the functions of common/core.h, local
 * and global atomics, barriers, and, if floats is set, single-precision (fp32) arithmetic with
 * denormal numbers and uncontracted a*b+a. Compares every bit with the same operations on the CPU.
 * TC_DEVICE: a result differs (the message names the operation), or OpenCL failed. poll: may be
 * NULL.
 */
tc_status ocl_selftest(ocl_device *device, bool floats, const tc_poll *poll, tc_err *err);

#endif
