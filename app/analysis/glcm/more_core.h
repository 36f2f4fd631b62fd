/* glcm: fixed-point numbers for the features of cooc_core.h beyond Haralick's 13. Compiled as C,
 * and as OpenCL C for devices with double precision. */
#ifndef GLCM_MORE_CORE_H
#define GLCM_MORE_CORE_H

#include "app/analysis/common/cooc_core.h"
#include "app/analysis/glcm/core.h"

/* The number of features beyond the 13. */
enum { GLCM_MORE_FEATURES = COOC_FEATURES - GLCM_FEATURES };

/* The number of fraction bits of a feature: 32, or fewer if its greatest value, with this number of
 * levels, would need more than 48 bits in all. Cluster shade and prominence are third and fourth
 * central moments of a sum of two levels. For values in a range of length `span`, these moments are
 * at most span^3 / (6 sqrt(3)), which is less than span^3 / 10, and span^4 / 12. The other features
 * are at most 65535. */
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

/* Rounds features to fixed point. feature: [COOC_FEATURES], all features of a window; out:
 * [GLCM_MORE_FEATURES], those beyond the 13. */
TC_INLINE void glcm_more_fixed(const double *feature, tc_u32 levels, tc_i64 *out)
{
    for (tc_u32 i = 0; i < GLCM_MORE_FEATURES; i++) {
        const double v = feature[GLCM_FEATURES + i] *
                         (double)((tc_i64)1 << glcm_fraction_bits(GLCM_FEATURES + i, levels));

        out[i] = (tc_i64)(v + (v < 0 ? -0.5 : 0.5));
    }
}

/* The value of a map's pixel, from a feature in fixed point. */
TC_INLINE float glcm_more_float(tc_i64 value, tc_u32 feature, tc_u32 levels)
{
    return (float)((double)value / (double)((tc_i64)1 << glcm_fraction_bits(feature, levels)));
}

#endif
