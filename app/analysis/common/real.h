/*
 * Elementary functions that use only +, -, *, / and sqrt in double precision. IEEE 754 defines
 * these to the bit, so results are the same on every machine, while those of libm differ between
 * releases. Each result is accurate to a few units in the last place. real_core.h has the functions
 * that are also compiled for devices. tc_u128 is an unsigned integer of 128 bits.
 */
#ifndef AN_REAL_H
#define AN_REAL_H

#include "app/analysis/common/real_core.h"
#include "app/base/status.h"

#define TC_PI 3.14159265358979323846

/* The angle of the point (x, y), -pi < angle <= pi; 0 for (0, 0). */
double tc_atan2(double y, double x);
/* The cube root of x >= 0. */
double tc_cbrt(double x);

/* --- logarithms of counts -------------------------------------------------------------------- */

/* The greatest number of elements of a tc_logs. */
enum { TC_MAX_LOGS = 65536 };
/* A table of k log2(k), in units of 2^-80, for k < n, with errors of less than k 2^-75. The
 * logarithm of a product is computed as the sum of its factors' logarithms. */
typedef struct tc_logs {
    tc_u128 *k_log2_k; /* [n] */
    size_t n;
} tc_logs;

/* Makes a table of at most TC_MAX_LOGS elements, for counts up to `most`. */
tc_status tc_logs_init(tc_logs *logs, uint64_t most, tc_err *err);
void tc_logs_free(tc_logs *logs);

/* k log2(k) in units of 2^-80, for k < 2^32; 0 for k = 0. For k outside the table the logarithm is
 * computed. */
static inline tc_u128 tc_k_log2_k(const tc_logs *logs, uint64_t k)
{
    return k < logs->n ? logs->k_log2_k[k] : tc_u128_times(tc_log2_q80(k), k);
}

/* A cache of tc_log2_q80 for one thread; it is several times as fast if counts repeat. */
enum { TC_LOG2_CACHE_SIZE = 4096 };
typedef struct tc_log2_cache {
    tc_u128 octave[129];                /* log2(128 + i) in units of 2^-120 */
    tc_u128 cached[TC_LOG2_CACHE_SIZE]; /* tc_log2_q80(k), or 0 if it is not yet computed */
} tc_log2_cache;

/* Makes an empty cache. Returns NULL if there is no memory. */
tc_log2_cache *tc_log2_cache_create(void);
void tc_log2_cache_destroy(tc_log2_cache **logs);
/* Computes the same bits as tc_log2_q80(k), faster and without the cache; 0 < k < 2^32. */
tc_u128 tc_log2_cache_compute(const tc_log2_cache *logs, uint64_t k);

/* Returns tc_log2_q80(k), using the cache; 0 < k < 2^32. */
static inline tc_u128 tc_log2_cache_get(tc_log2_cache *logs, uint64_t k)
{
    if (k >= TC_LOG2_CACHE_SIZE)
        return tc_log2_cache_compute(logs, k);
    if (logs->cached[k] == 0)
        logs->cached[k] = tc_log2_cache_compute(logs, k);
    return logs->cached[k];
}

#endif
