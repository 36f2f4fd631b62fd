/*
 * Arrays that grow on demand.
 */
#ifndef TC_ARRAY_H
#define TC_ARRAY_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Ensures that a list with memory for *capacity elements of `size` bytes has memory for element n.
 * Returns the list: unchanged if n < *capacity, otherwise reallocated with twice the capacity, and
 * *capacity is updated. Returns NULL if there is not enough memory; the list and *capacity are then
 * unchanged. */
static inline void *tc_array_grow(void *list, size_t n, size_t *capacity, size_t size)
{
    assert(size > 0 && n <= *capacity);
    const size_t more = *capacity < 32 ? 64 : 2 * *capacity;
    void *new_list;

    if (n < *capacity)
        return list;
    new_list = more <= SIZE_MAX / size ? realloc(list, more * size) : NULL;
    if (new_list != NULL)
        *capacity = more;
    return new_list;
}

#endif
