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
 * Returns the list: unchanged if n < *capacity, otherwise reallocated with twice the capacity (at
 * least 64 elements), and *capacity is updated. Returns NULL if there is not enough memory; the
 * list and *capacity are then unchanged. */
static inline void *tc_array_grow(void *list, size_t n, size_t *capacity, size_t size)
{
    assert(size > 0 && n <= *capacity);
    const size_t new_capacity = *capacity < 32 ? 64 : 2 * *capacity;
    void *new_list;

    if (n < *capacity)
        return list;
    new_list = new_capacity <= SIZE_MAX / size ? realloc(list, new_capacity * size) : NULL;
    if (new_list != NULL)
        *capacity = new_capacity;
    return new_list;
}

#endif
