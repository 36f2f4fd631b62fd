/* Runs of ones in a word of a mask. */
#ifndef OCL_RUNS_H
#define OCL_RUNS_H

/* Where the lowest bit is; word > 0. */
static int lowest(uint word)
{
    return 31 - (int)clz(word & (0 - word));
}

/* Bits where runs begin. */
static uint starts_of(uint word)
{
    return word & ~(word << 1);
}

/* The first bit of the run of ones that bit x of a word is in. */
static int run_start(uint word, int x)
{
    const uint gaps = ~word & ((1u << x) - 1);

    return gaps != 0 ? 32 - (int)clz(gaps) : 0;
}

#endif
