/* A merge sort and a radix sort that poll, so that they can be suspended and stopped. */
#include "app/base/sort.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/os.h"

/* The number of elements that are sorted or merged between two polls. */
enum { RUN = 1 << 15 };

/* The arguments of a sort. */
typedef struct sorter {
    size_t n, size; /* number of elements; bytes of an element */
    int (*compare)(const void *a, const void *b);
    const tc_poll *poll;
    tc_err *err;
} sorter;

/* Copies bytes, polling between blocks. */
static tc_status copy_bytes(unsigned char *to, const unsigned char *from, size_t bytes,
                            const tc_poll *poll, tc_err *err)
{
    for (size_t i = 0; i < bytes; i = tc_block_end(i, bytes)) {
        memcpy(to + i, from + i, tc_block_end(i, bytes) - i);
        return_if_error(tc_call_poll(poll, err));
    }
    return TC_OK;
}

/* Sorts the n elements from `start` on. work: memory for n / 2 elements. */
static tc_status sort_part(const sorter *s, unsigned char *start, size_t n, unsigned char *work)
{
    const size_t half = n / 2, size = s->size;

    if (n <= RUN) {
        qsort(start, n, size, s->compare);
        return tc_call_poll(s->poll, s->err);
    }
    return_if_error(sort_part(s, start, half, work));
    return_if_error(sort_part(s, start + half * size, n - half, work));
    return_if_error(copy_bytes(work, start, half * size, s->poll, s->err));
    /* Merges the first half, in `work` from a on, and the second half, in `start` from b on. */
    for (size_t i = 0, a = 0, b = half; a < half; i++) {
        const bool from_first = b == n || s->compare(work + a * size, start + b * size) <= 0;

        memcpy(start + i * size, from_first ? work + a++ * size : start + b++ * size, size);
        if (i % RUN == 0)
            return_if_error(tc_call_poll(s->poll, s->err));
    }
    return TC_OK;
}

tc_status tc_sort(void *list, size_t n, size_t size, int (*compare)(const void *a, const void *b),
                  const tc_poll *poll, tc_err *err)
{
    assert(size > 0 && compare != NULL);
    const sorter s = { n, size, compare, poll, err };
    TC_AUTOFREE unsigned char *const work = n > RUN ? os_alloc_zeroed(n / 2 * size) : NULL;

    if (n > RUN && work == NULL)
        return tc_no_memory(err, "sorting");
    return n > 0 ? sort_part(&s, list, n, work) : TC_OK;
}

/* --- by keys --------------------------------------------------------------------------------- */

enum {
    DIGIT = 11, /* bits of a digit of a key */
    DIGITS = 3  /* digits of a key of 32 bits */
};

/* One pass of a radix sort: copies the elements from `from` to `to` in the order of one digit of
 * their keys (0: the lowest). Elements with equal digits stay in their order. */
static tc_status distribute_elements(const sorter *s, const unsigned char *from, unsigned char *to,
                                     int digit, uint32_t (*key)(const void *element))
{
    /* start[d]: at first the number of elements with digit d; then the index in `to` of the next
     * element with digit d. */
    size_t start[1 << DIGIT] = { 0 }, n_before = 0;
    const int shift = digit * DIGIT;
    const uint32_t mask = ((uint32_t)1 << DIGIT) - 1;
    tc_status status = TC_OK;

    for (size_t i = 0, end; status == TC_OK && i < s->n; status = tc_call_poll(s->poll, s->err))
        for (end = tc_block_end(i, s->n); i < end; i++)
            start[key(from + i * s->size) >> shift & mask]++;
    for (size_t d = 0; d <= mask; d++) {
        const size_t count = start[d];

        start[d] = n_before;
        n_before += count;
    }
    for (size_t i = 0, end; status == TC_OK && i < s->n; status = tc_call_poll(s->poll, s->err))
        for (end = tc_block_end(i, s->n); i < end; i++)
            memcpy(to + start[key(from + i * s->size) >> shift & mask]++ * s->size,
                   from + i * s->size, s->size);
    return status;
}

tc_status tc_sort_by_key(void *list, size_t n, size_t size, uint32_t (*key)(const void *element),
                         int (*compare)(const void *a, const void *b), const tc_poll *poll,
                         tc_err *err)
{
    assert(size > 0 && key != NULL);
    const sorter s = { n, size, compare, poll, err };
    unsigned char *const start = list, *const work = os_alloc_zeroed(n * size + 1), *from = start,
                         *to = work;
    tc_status status = work == NULL ? tc_no_memory(err, "sorting") : TC_OK;

    for (int digit = 0; status == TC_OK && digit < DIGITS; digit++) {
        unsigned char *const sorted = to;

        status = distribute_elements(&s, from, sorted, digit, key);
        to = from;
        from = sorted;
    }
    if (status == TC_OK && from != start)
        status = copy_bytes(start, from, n * size, poll, err);
    free(work);
    /* Sorts each run of elements with equal keys by `compare`. */
    for (size_t i = 0, end; compare != NULL && status == TC_OK && i < n; i = end) {
        for (end = i + 1;
             status == TC_OK && end < n && key(start + end * size) == key(start + i * size); end++)
            if (end % RUN == 0)
                status = tc_call_poll(poll, err);
        if (status == TC_OK && end - i > 1)
            status = tc_sort(start + i * size, end - i, size, compare, poll, err);
    }
    return status;
}
