/* Finds runs: sequences of consecutive ones in a 32-bit word of a mask. */
#ifndef OCL_RUNS_H
#define OCL_RUNS_H

/* The number of the lowest bit that is set; word != 0. */
static int lowest(uint word)
{
    return 31 - (int)clz(word & (0 - word));
}

/* A word in which only the lowest bit of each run of the given word is set. */
static uint starts_of(uint word)
{
    return word & ~(word << 1);
}

/* The number of the lowest bit of the run that contains bit x. */
static int run_start(uint word, int x)
{
    const uint gaps = ~word & ((1u << x) - 1);

    return gaps != 0 ? 32 - (int)clz(gaps) : 0;
}

#endif
