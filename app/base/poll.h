/*
 * "May I go on?": what lasts longer than a moment asks whoever it works for. So reading,
 * preparing and finishing are suspended and stopped as the work itself is.
 */
#ifndef TC_POLL_H
#define TC_POLL_H

#include <assert.h>
#include <string.h>

#include "app/base/status.h"

typedef struct tc_poll {
    tc_status (*ask)(void *user, tc_err *err);
    void *user;
} tc_poll;

/* Pixels, rows of a table, or bytes of a file, between two questions: a few milliseconds, also
 * where their memory is touched for the first time. */
enum { TC_BLOCK = 1 << 18 };

/* For the main thread, about every 50 ms, while no launch is under way and no other thread
 * works but those that are paused meanwhile (app/base/background.h). It returns when the work
 * may go on, later where it is suspended: TC_OK. TC_TRY_LATER: it is to stop; what was not finished
 * is done again another time. Without a poll, or with one that is zeroed, the work may always
 * go on. */
static inline tc_status tc_ask(const tc_poll *poll, tc_err *err)
{
    return poll != NULL && poll->ask != NULL ? poll->ask(poll->user, err) : TC_OK;
}

/* Many pixels are gone through block by block: the end of the one that begins at i, of n. */
static inline size_t tc_block_end(size_t i, size_t n)
{
    assert(i <= n);
    return n - i < TC_BLOCK ? n : i + TC_BLOCK;
}

/* Zeros, and room for each page of them: for what is then written here and there. */
static inline tc_status tc_clear(void *memory, size_t n, const tc_poll *poll, tc_err *err)
{
    for (size_t at = 0; at < n; at = tc_block_end(at, n)) {
        memset((unsigned char *)memory + at, 0, tc_block_end(at, n) - at);
        return_if_error(tc_ask(poll, err));
    }
    return TC_OK;
}

#endif
