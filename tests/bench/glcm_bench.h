/*
 * glcm's cpu.c with parts left out, to see what each part costs. Every copy is
 * that very file, compiled behind a header with a macro that ends take_features early.
 */
#ifndef GLCM_BENCH_H
#define GLCM_BENCH_H

#include "app/analysis/analysis.h"

extern const an_backend glcm_cpu_accumulators; /* windows slide; no features */
extern const an_backend glcm_cpu_features;     /* and the features; no statistics, no maps */

/* Makes the compiler believe that *p is needed. */
#define BENCH_KEEP(p) __asm__ volatile("" : : "r"(p) : "memory")

#endif
