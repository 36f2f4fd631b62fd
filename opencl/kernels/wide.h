/* Adds to 64-bit sums atomically on devices that only have 32-bit atomics. */
#ifndef OCL_WIDE_H
#define OCL_WIDE_H

/* Adds value to the sum in sum[0] (low half) and sum[1] (high half). The work-item whose addition
 * makes the low half wrap around adds the carry. The sum is valid after the launch. */
static void add_wide(volatile __global uint *sum, ulong value)
{
    const uint low = (uint)value, before = atomic_add(&sum[0], low);
    const uint high = (uint)(value >> 32) + (before + low < before);

    if (high != 0)
        atomic_add(&sum[1], high);
}

#endif
