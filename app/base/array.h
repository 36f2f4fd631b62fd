/*
 * Arrays that grow on demand.
 */
#ifndef TC_ARRAY_H
#define TC_ARRAY_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Makes room for element n of a list whose memory holds *room elements of `size` bytes each.
 * Returns the list: unchanged if n < *room, otherwise reallocated with twice the room, and *room is
 * updated. Returns NULL if there is no memory; the list and *room are then unchanged. */
static inline void *tc_array_grow(void *list, size_t n, size_t *room, size_t size)
{
    assert(size > 0 && n <= *room);
    const size_t more = *room < 32 ? 64 : 2 * *room;
    void *grown;

    if (n < *room)
        return list;
    grown = more <= SIZE_MAX / size ? realloc(list, more * size) : NULL;
    if (grown != NULL)
        *room = more;
    return grown;
}

#endif
