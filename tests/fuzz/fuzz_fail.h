/*
 * Makes calls fail that allocate memory, or read or write files. An input is run without failures;
 * then once for each new place of such a call (its innermost callers), whose call fails; and for
 * one input in 16 once more, with a failing call that the input's bytes select. A run with a
 * failure must not leak memory.
 *
 * Allocations by jansson do not fail: without memory for JSON texcell ends (faults_test.py).
 */
#ifndef FUZZ_FAIL_H
#define FUZZ_FAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Runs an input in all these ways. */
void fuzz_with_failures(const uint8_t *data, size_t size, void (*run)(const uint8_t *, size_t));

/* Sets whether calls may fail from here on, for calls of the target itself; returns the old value.
 */
bool fuzz_may_fail(bool may);

/* Reports an error of the program: aborts, unless a call was made to fail, which may be the
 * reason. */
void fuzz_wrong(void);

#endif
