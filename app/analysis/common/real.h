/*
 * Functions of real numbers in double precision from +, -, *, / and sqrt alone, which IEEE 754
 * defines to the bit: the same on every machine, where libm's differ from release to
 * release. Each is within some units of the last place.
 */
#ifndef AN_REAL_H
#define AN_REAL_H

#include <stdint.h>

#include "app/base/status.h"

#define TC_PI 3.14159265358979323846

/* The angle of (x, y), -pi < angle <= pi; 0 for (0, 0). */
double tc_atan2(double y, double x);
/* Cube root of x >= 0. */
double tc_cbrt(double x);
/* 1 - exp(-x) for 0 <= x <= 64. */
double tc_one_minus_exp(double x);

/* --- logarithms in fixed point ---------------------------------------------------------- */

/* a b / 2^127, rounded down. */
unsigned __int128 tc_mul_q127(unsigned __int128 a, unsigned __int128 b);
/* log2(k) in 2^-80, k > 0, within 2^-79. */
unsigned __int128 tc_log2_q80(uint64_t k);

/* The same for counts, small ones from a table: within 2^-75. */
enum { TC_LOGS = 65536 };
typedef struct tc_logs {
    unsigned __int128 *table;  /* [TC_LOGS], of 1 to TC_LOGS - 1 */
} tc_logs;

tc_status tc_logs_init(tc_logs *logs, tc_err *err);
void tc_logs_free(tc_logs *logs);

/* k log2(k) in 2^-80, 0 for 0; k < 2^32. */
static inline unsigned __int128 tc_k_log2_k(const tc_logs *logs, uint64_t k)
{
    return k < TC_LOGS ? k * logs->table[k] : k * tc_log2_q80(k);
}

#endif
