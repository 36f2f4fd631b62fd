/*
 * qsort that asks whether it may go on: a long list takes minutes.
 */
#ifndef TC_SORT_H
#define TC_SORT_H

#include <stdint.h>

#include "app/base/poll.h"

/* Sorts n elements of `size` bytes, with memory for half as many more. compare: as qsort's; equal
 * elements stay in no order. */
tc_status tc_sort(void *list, size_t n, size_t size, int (*compare)(const void *a, const void *b),
                  const tc_poll *poll, tc_err *err);

/* The same by a key of each element, ascending, with memory for as many more: many times as fast.
 * Elements of one key are in the order of `compare`; NULL: they stay in theirs. */
tc_status tc_sort_by_key(void *list, size_t n, size_t size, uint32_t (*key)(const void *element),
                         int (*compare)(const void *a, const void *b), const tc_poll *poll,
                         tc_err *err);

#endif
