/*
 * Sorts lists like qsort, but polls at intervals, since sorting a long list takes minutes.
 */
#ifndef TC_SORT_H
#define TC_SORT_H

#include <stdint.h>

#include "app/base/poll.h"

/* Sorts n elements of `size` bytes; allocates memory for n / 2 elements. compare: as for qsort; the
 * order of equal elements is undefined. TC_TRY_LATER: the poll stopped the sorting; the list's
 * content is then undefined. */
tc_status tc_sort(void *list, size_t n, size_t size, int (*compare)(const void *a, const void *b),
                  const tc_poll *poll, tc_err *err);

/* Sorts by a key of each element, ascending, several times as fast as tc_sort; allocates memory for
 * n elements. Elements with equal keys are sorted by `compare`; NULL: they stay in their order. */
tc_status tc_sort_by_key(void *list, size_t n, size_t size, uint32_t (*key)(const void *element),
                         int (*compare)(const void *a, const void *b), const tc_poll *poll,
                         tc_err *err);

#endif
