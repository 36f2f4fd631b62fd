/* Features beyond the 13, in fixed point: compiled as C and as OpenCL C, where the device has
 * double precision. */
#ifndef GLCM_MORE_CORE_H
#define GLCM_MORE_CORE_H

#include "app/analysis/common/cooc_core.h"
#include "app/analysis/glcm/core.h"

enum { GLCM_MORE = COOC_FEATURES - GLCM_FEATURES };

/* Bits behind the point: 32, or fewer where a value of so many levels would have more than 48 bits.
 * Third and fourth central moments of a sum of two levels grow with these powers of its span. */
TC_INLINE int glcm_fraction_bits(tc_u32 feature, tc_u32 levels)
{
    const double span = 2 * ((double)levels - 1), cube = span * span * span;
    const double most = feature == COOC_CLUSTER_SHADE        ? cube / 10
                        : feature == COOC_CLUSTER_PROMINENCE ? cube * span / 12
                                                             : 65535;
    int bits = 48;

    for (tc_u64 left = (tc_u64)most; left > 0; left /= 2)
        bits--;
    return TC_MIN(bits, 32);
}

/* From a window's features, of which those beyond the 13 are looked at. */
TC_INLINE void glcm_more_fixed(const double *feature, tc_u32 levels, tc_i64 *out)
{
    for (tc_u32 i = 0; i < GLCM_MORE; i++) {
        const double v = feature[GLCM_FEATURES + i] *
                         (double)((tc_i64)1 << glcm_fraction_bits(GLCM_FEATURES + i, levels));

        out[i] = (tc_i64)(v + (v < 0 ? -0.5 : 0.5));
    }
}

/* One of these as maps hold it. */
TC_INLINE float glcm_more_float(tc_i64 value, tc_u32 feature, tc_u32 levels)
{
    return (float)((double)value / (double)((tc_i64)1 << glcm_fraction_bits(feature, levels)));
}

#endif
