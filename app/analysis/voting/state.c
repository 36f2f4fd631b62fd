/* voting: checks a state that was read from a checkpoint for impossible values. */
#include "app/analysis/voting/voting.h"

/* Whether the value can be a blurred pixel, which has 16 integer bits and 4 fraction bits. */
static bool is_blurred(uint32_t value)
{
    return value < 1u << 20;
}

/* Whether the value can be a voter of this item. */
static bool is_voter(const voting_scheme *s, uint32_t value)
{
    return VOTING_WEIGHT(value) < VOTING_WEIGHT_LIMIT && VOTING_DIR(value) < s->n_dirs;
}

/* Checks that all elements of the planes `votes` and `voters` have values that are possible after
 * `done` chunks (see voting_phase). */
static tc_status check_planes(const an_work *work, const voting_scheme *s, uint64_t done,
                              const uint32_t *votes, const uint32_t *voters, tc_err *err)
{
    const bool is_complete = done == s->chunks;
    size_t reblurred = 0; /* pixels of the plane `voters` that REBLUR has overwritten */
    voting_phase phase;
    uint64_t band;
    uint32_t z, y0, y1;
    int round;
    tc_status status = TC_OK;

    voting_chunk_at(s, is_complete ? done - 1 : done, &phase, &round, &band);
    voting_band_rows(s, band, &z, &y0, &y1);
    if (phase == VOTING_REBLUR)
        reblurred = is_complete ? s->n : ((size_t)z * s->ny + y0) * s->nx;
    for (size_t i = 0, end; status == TC_OK && i < s->n;) {
        bool good = true;

        for (end = tc_block_end(i, s->n); i < end; i++)
            good = good && (phase > VOTING_VOTERS || is_blurred(votes[i])) &&
                   (i < reblurred ? is_blurred(voters[i]) : is_voter(s, voters[i]));
        status = good ? tc_call_poll(work->poll, err)
                      : tc_fail(err, TC_BAD_INPUT, "the votes are damaged");
    }
    return status;
}

tc_status voting_check_state(const an_work *work, const void *state, tc_err *err)
{
    const uint64_t done = ((const an_state_head *)state)->chunks_done;
    const uint32_t *const votes = voting_votes_const(state);
    voting_scheme s;
    return_if_error(voting_scheme_init(work->params, work->item, work->item->name, &s, err));
    return check_planes(work, &s, done, votes, votes + s.n, err);
}
