/*
 * Computes how much of an item's work is done, for analyses that consist of phases with the same
 * number of chunks but different costs.
 */
#ifndef AN_PHASES_H
#define AN_PHASES_H

#include <stddef.h>
#include <stdint.h>

/* The sum of the phases' costs. costs: [phases], the cost of each phase, in any unit. */
static inline double an_phases_sum(const double *costs, size_t phases)
{
    double sum = 0;

    for (size_t i = 0; i < phases; i++)
        sum += costs[i];
    return sum;
}

/* The share of the costs, 0 to 1, that is spent when chunks_done chunks are done. per_phase: the
 * number of chunks of each phase. */
static inline double an_phases_spent(const double *costs, size_t phases, uint64_t per_phase,
                                     uint64_t chunks_done)
{
    double spent = 0;

    for (size_t i = 0; i < phases; i++) {
        const uint64_t before = i * per_phase;

        if (chunks_done >= before + per_phase)
            spent += costs[i];
        else if (chunks_done > before)
            spent += costs[i] * (double)(chunks_done - before) / (double)per_phase;
    }
    return chunks_done >= phases * per_phase ? 1 : spent / an_phases_sum(costs, phases);
}

#endif
