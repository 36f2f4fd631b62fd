/*
 * voting_states WU.zip THREADS OUT: runs the first item of a work unit of `voting` on the CPU, for
 * tests/voting_oracle_test.py, and writes the state's planes after every phase to OUT:
 * votes[n], voters[n] (u32), n pixels.
 */
#include <stdio.h>
#include <stdlib.h>

#include "app/analysis/analyses.h"
#include "app/analysis/voting/voting.h"

static tc_status run(const char *path, unsigned threads, FILE *out, tc_err *err)
{
    an_work work = { .threads = threads };
    voting_scheme s;
    wu_pixels pixels;
    wu_job *job = NULL;
    void *params = NULL, *state = NULL, *worker = NULL;
    tc_status status = wu_job_read(path, &job, err);

    if (status == TC_OK)
        status = an_parse_params(&an_voting, job->parameters, path, &params, err);
    if (status == TC_OK)
        status = wu_item_load(job, 0, &pixels, err);
    if (status != TC_OK)
        return status;
    work.params = params;
    work.item = &job->items[0];
    work.pixels = &pixels;
    status = voting_scheme_init(params, work.item, path, &s, err);
    if (status == TC_OK)
        status = an_voting.plan(params, work.item, &work.plan, err);
    state = calloc(1, work.plan.state_bytes);
    if (status == TC_OK)
        status = voting_cpu.open(&work, state, &worker, err);
    for (status = status == TC_OK ? TC_MORE : status; status == TC_MORE;) {
        uint64_t done;

        status = voting_cpu.step(worker, state, &done, err);
        if (done % s.bands == 0 &&
            fwrite(voting_votes(state), 2 * sizeof(uint32_t), s.n, out) != s.n)
            status = tc_fail(err, TC_IO, "cannot write");
    }
    voting_cpu.close(&worker);
    free(state);
    an_params_free(&an_voting, &params);
    wu_pixels_free(&pixels);
    wu_job_destroy(&job);
    return status;
}

int main(int argc, char **argv)
{
    FILE *const out = argc == 4 ? fopen(argv[3], "wb") : NULL;
    tc_err err = { "usage: voting_states WU.zip THREADS OUT" };

    if (out == NULL || run(argv[1], (unsigned)atoi(argv[2]), out, &err) != TC_OK ||
        fclose(out) != 0) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    return 0;
}
