/*
 * qsort that asks whether it may go on: a long list takes minutes.
 */
#ifndef TC_SORT_H
#define TC_SORT_H

#include "app/base/poll.h"

/* Sorts n elements of `size` bytes, with memory for as many more. compare: as qsort's; equal elements
 * stay in no order. */
tc_status tc_sort(void *list, size_t n, size_t size, int (*compare)(const void *a, const void *b), const tc_poll *poll,
                  tc_err *err);

#endif
