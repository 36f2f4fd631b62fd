/* 64-bit sums on devices without 64-bit atomics. */
#ifndef OCL_WIDE_H
#define OCL_WIDE_H

/* Adds to a sum, low word first: whoever makes the low one wrap carries. */
static void add_wide(volatile __global uint *sum, ulong value)
{
    const uint low = (uint)value, before = atomic_add(&sum[0], low);
    const uint high = (uint)(value >> 32) + (before + low < before);

    if (high != 0)
        atomic_add(&sum[1], high);
}

#endif
