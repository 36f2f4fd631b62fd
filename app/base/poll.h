/* Polling: work that lasts longer than a moment calls tc_ask regularly, which returns when the work
 * may continue or must stop. So reading, preparing and finishing can be suspended and stopped just
 * as the analysis itself. */
#ifndef TC_POLL_H
#define TC_POLL_H

#include <assert.h>
#include <string.h>

#include "app/base/status.h"

typedef struct tc_poll {
    tc_status (*ask)(void *user,
                     tc_err *err); /* called by tc_ask, whose results it returns; or NULL */
    void *user;
} tc_poll;

/* The number of pixels, table rows or bytes of a file that are processed between two calls of
 * tc_ask. Processing them takes a few milliseconds, even if their memory is used for the first
 * time. */
enum { TC_BLOCK = 1 << 18 };

/* Called by the main thread, about every 50 ms, while no launch is running on a device and all
 * other threads are idle or paused by app/base/background.h. Returns TC_OK when the work may
 * continue; while the program is suspended, it does not return. Returns TC_TRY_LATER if the work
 * must stop; unfinished work is repeated in a later run. poll: NULL or zeroed means that the work
 * may always continue. */
static inline tc_status tc_ask(const tc_poll *poll, tc_err *err)
{
    return poll != NULL && poll->ask != NULL ? poll->ask(poll->user, err) : TC_OK;
}

/* Returns the end of the block that begins at element i, when n elements are processed in blocks of
 * TC_BLOCK. */
static inline size_t tc_block_end(size_t i, size_t n)
{
    assert(i <= n);
    return n - i < TC_BLOCK ? n : i + TC_BLOCK;
}

/* Sets n bytes to zero, polling between blocks. This also makes the kernel provide all pages of new
 * memory, which would otherwise interrupt later writes to scattered addresses. */
static inline tc_status tc_clear(void *memory, size_t n, const tc_poll *poll, tc_err *err)
{
    for (size_t at = 0; at < n; at = tc_block_end(at, n)) {
        memset((unsigned char *)memory + at, 0, tc_block_end(at, n) - at);
        return_if_error(tc_ask(poll, err));
    }
    return TC_OK;
}

#endif
