/* Included before glcm's cpu.c (by the compiler's -include): each window ends with its features,
 * before statistics and maps. */
#include "app/analysis/common/core.h"
#include "app/analysis/glcm/core.h"
#include "tests/bench/glcm_bench.h"

#define glcm_features(sums, n, divisors, f, f60, fbits, exp_table, feature)    \
    do {                                                                       \
        (glcm_features)(sums, n, divisors, f, f60, fbits, exp_table, feature); \
        BENCH_KEEP(feature);                                                   \
        return;                                                                \
    } while (0)
#define glcm_cpu glcm_cpu_features
