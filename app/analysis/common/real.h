/*
 * Elementary functions of +, -, *, / and sqrt alone, in double precision, which IEEE 754
 * defines to the bit: the same on every machine, where libm's differ from release to
 * release. Each is within some units of the last place. real_core.h has those that devices
 * compute, too.
 */
#ifndef AN_REAL_H
#define AN_REAL_H

#include "app/analysis/common/real_core.h"
#include "app/base/status.h"

#define TC_PI 3.14159265358979323846

/* The angle of (x, y), -pi < angle <= pi; 0 for (0, 0). */
double tc_atan2(double y, double x);
/* Cube root of x >= 0. */
double tc_cbrt(double x);

/* --- logarithms of counts -------------------------------------------------------------------- */

/* k log2(k) in 2^-80, within k 2^-75, of small k from a table. Below TC_LOGS the logarithm of a
 * product is the sum of its factors' logarithms, above it is not: so a table ends there, or behind
 * the largest count that is needed. */
enum { TC_LOGS = 65536 };
typedef struct tc_logs {
    tc_u128 *k_log2_k; /* [n] */
    size_t n;
} tc_logs;

/* most: the largest count that will be asked for. */
tc_status tc_logs_init(tc_logs *logs, uint64_t most, tc_err *err);
void tc_logs_free(tc_logs *logs);

/* 0 for 0; k < 2^32. */
static inline tc_u128 tc_k_log2_k(const tc_logs *logs, uint64_t k)
{
    return k < logs->n ? logs->k_log2_k[k] : tc_wide_times(tc_log2_q80(k), k);
}

/* tc_log2_q80 for one thread, several times faster where counts repeat: the logarithms of small
 * counts are kept. */
enum { TC_LOG2S = 4096 };
typedef struct tc_log2s {
    tc_u128 octave[129];    /* log2(128 + i) in 2^-120 */
    tc_u128 kept[TC_LOG2S]; /* tc_log2_q80(k); 0: not yet known */
} tc_log2s;

/* NULL: no memory. */
tc_log2s *tc_log2s_create(void);
void tc_log2s_destroy(tc_log2s **logs);
/* log2(k) to the bits of tc_log2_q80, 0 < k < 2^32. */
tc_u128 tc_log2s_compute(const tc_log2s *logs, uint64_t k);

static inline tc_u128 tc_log2s_of(tc_log2s *logs, uint64_t k)
{
    if (k >= TC_LOG2S)
        return tc_log2s_compute(logs, k);
    if (logs->kept[k] == 0)
        logs->kept[k] = tc_log2s_compute(logs, k);
    return logs->kept[k];
}

#endif
