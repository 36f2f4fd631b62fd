/*
 * Variants of glcm's cpu.c with parts left out, to measure the cost of each part. Each variant is
 * cpu.c itself, compiled after a header with a macro that ends add_features early.
 */
#ifndef GLCM_BENCH_H
#define GLCM_BENCH_H

#include "app/analysis/analysis.h"

extern const an_backend glcm_cpu_accumulators; /* windows slide; no features are computed */
extern const an_backend glcm_cpu_features;     /* features are computed; no statistics, no maps */

/* Makes the compiler assume that *p is used, so that it computes it. */
#define BENCH_KEEP(p) __asm__ volatile("" : : "r"(p) : "memory")

#endif
