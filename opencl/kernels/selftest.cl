/* Kernels of the self-test that all analyses have in common (opencl/selftest.h). With FLOATS
 * defined, single precision is tested, too. */
//! check: -DFLOATS
#pragma OPENCL FP_CONTRACT OFF
#include "opencl/kernels/selftest_core.h"

/* Sets out[ST_ITEMS][ST_INTEGERS] to the integer results of each work-item. */
__kernel __attribute__((reqd_work_group_size(ST_GROUP, 1, 1))) void selftest_integers(
    __global tc_u64 *out)
{
    const tc_u32 i = (tc_u32)get_global_id(0);
    for (tc_u32 k = 0; k < ST_INTEGERS; k++)
        out[i * ST_INTEGERS + k] = st_integer(i, k);
}

/*
 * Counts the work-items' hashes, one each, in a histogram of ST_BINS bins for each work-group.
 * scratch: [ST_BINS]. bins: the histograms, followed by four totals over all work-items: the sum of
 * the values that atomic_inc returned (the same in any order), the least and the greatest hash, and
 * the exclusive or of all hashes.
 */
__kernel __attribute__((reqd_work_group_size(ST_GROUP, 1, 1))) void selftest_atomics(
    volatile __global tc_u32 *bins, __local tc_u32 *scratch)
{
    volatile __local tc_u32 *local_bins = scratch;
    volatile __global tc_u32 *totals = bins + ST_GROUPS * ST_BINS;
    const tc_u32 local_id = (tc_u32)get_local_id(0);
    const tc_u32 hash = (tc_u32)st_mix(get_global_id(0));

    for (tc_u32 b = local_id; b < ST_BINS; b += ST_GROUP)
        local_bins[b] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    const tc_u32 before = atomic_inc(&local_bins[hash % ST_BINS]);
    atomic_add(&totals[0], before);
    atomic_min(&totals[1], hash);
    atomic_max(&totals[2], hash);
    atomic_xor(&totals[3], hash);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (tc_u32 b = local_id; b < ST_BINS; b += ST_GROUP)
        bins[get_group_id(0) * ST_BINS + b] = local_bins[b];
}

#ifdef FLOATS
/* Sets out[ST_ITEMS][ST_FLOATS] to the bits of the floating-point results of each work-item. */
__kernel __attribute__((reqd_work_group_size(ST_GROUP, 1, 1))) void selftest_floats(
    __global tc_u32 *out)
{
    const tc_u32 i = (tc_u32)get_global_id(0);
    const float a = as_float(st_float_bits(i, 0)), b = as_float(st_float_bits(i, 1));
    __global tc_u32 *to = out + i * ST_FLOATS;
    to[0] = as_uint(a + b);
    to[1] = as_uint(a - b);
    to[2] = as_uint(a * b);
    to[3] = as_uint(a / b);
    to[4] = as_uint(sqrt(b));
    to[5] = as_uint(a * b + a);
}
#endif
