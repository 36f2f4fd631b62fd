/* Included before glcm's cpu.c (by the compiler's -include): windows slide, but no features are
 * computed. */
#include "app/analysis/common/core.h"
#include "app/analysis/glcm/core.h"
#include "tests/bench/glcm_bench.h"

#define glcm_features(sums, n, divisors, f, f60, fbits, exp_table, feature) \
    do {                                                                    \
        (void)(f);                                                          \
        BENCH_KEEP(sums);                                                   \
        return;                                                             \
    } while (0)
#define glcm_cpu glcm_cpu_accumulators
