/* Finds runs: sequences of consecutive ones in a 32-bit word of a mask. */
#ifndef OCL_RUNS_H
#define OCL_RUNS_H

/* Returns the number of the lowest bit that is set in `word`, which must not be 0. */
static int lowest_bit(uint word)
{
    return 31 - (int)clz(word & (0 - word));
}

/* Returns a word in which only the lowest bit of each run of `word` is set: 0b01110110 gives
 * 0b00010010. */
static uint starts_of(uint word)
{
    return word & ~(word << 1);
}

/* Returns the number of the lowest bit of the run of `word` that contains bit x. */
static int run_start(uint word, int x)
{
    const uint gaps = ~word & ((1u << x) - 1);

    return gaps != 0 ? 32 - (int)clz(gaps) : 0;
}

#endif
