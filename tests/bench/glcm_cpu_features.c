#include "app/analysis/core.h"
#include "app/analysis/glcm_core.h"
#include "tests/bench/glcm_bench.h"

#define glcm_features(sums, n, divisors, f, f60, fbits, exp_table, feature)           \
    do {                                                                              \
        (glcm_features)(sums, n, divisors, f, f60, fbits, exp_table, feature);        \
        BENCH_KEEP(feature);                                                          \
        return;                                                                       \
    } while (0)
#define glcm_cpu glcm_cpu_features

#include "app/analysis/glcm_cpu.c"   /* NOLINT(bugprone-suspicious-include): that is the point */
