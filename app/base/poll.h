/* Polling: work that lasts longer than a moment calls tc_call_poll regularly, which returns when
 * the work may continue or must stop. In this way every kind of work can be suspended and stopped:
 * reading, the analysis, and writing. */
#ifndef TC_POLL_H
#define TC_POLL_H

#include <assert.h>
#include <string.h>

#include "app/base/status.h"

typedef struct tc_poll {
    /* Called by tc_call_poll, which returns its status; may be NULL. */
    tc_status (*callback)(void *user, tc_err *err);
    void *user;
} tc_poll;

/* The number of pixels, table rows or bytes of a file that are processed between two calls of
 * tc_call_poll. Processing them takes a few milliseconds, even if their memory is used for the
 * first time. */
enum { TC_POLL_BLOCK = 1 << 18 };

/* Called by the main thread, about every 50 ms, while no launch is running on a device and all
 * other threads are idle or paused by app/base/background.h. Returns TC_OK when the work may
 * continue; while the program is suspended, it does not return. Returns TC_TRY_LATER if the work
 * must stop; unfinished work is repeated in a later run. poll: NULL or zeroed means that the work
 * may always continue. */
static inline tc_status tc_call_poll(const tc_poll *poll, tc_err *err)
{
    return poll != NULL && poll->callback != NULL ? poll->callback(poll->user, err) : TC_OK;
}

/* Returns the end of the block that begins at element i, when n elements are processed in blocks of
 * TC_POLL_BLOCK. */
static inline size_t tc_block_end(size_t i, size_t n)
{
    assert(i <= n);
    return n - i < TC_POLL_BLOCK ? n : i + TC_POLL_BLOCK;
}

/* Sets n bytes to zero, polling between blocks. This also makes the kernel provide all pages of new
 * memory, which would otherwise interrupt later writes to scattered addresses. */
static inline tc_status tc_clear_memory(void *memory, size_t n, const tc_poll *poll, tc_err *err)
{
    for (size_t at = 0; at < n; at = tc_block_end(at, n)) {
        memset((unsigned char *)memory + at, 0, tc_block_end(at, n) - at);
        return_if_error(tc_call_poll(poll, err));
    }
    return TC_OK;
}

#endif
