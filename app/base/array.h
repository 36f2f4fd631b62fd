/*
 * Lists that grow.
 */
#ifndef TC_ARRAY_H
#define TC_ARRAY_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Room for one element more of `size` bytes in a list of n with *room: as it is, or moved,
 * with twice the room. NULL without memory: the list is as it was. */
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
