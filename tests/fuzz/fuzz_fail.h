/*
 * Calls that fail: what allocates, and what reads and writes files. An input runs as it is; then
 * once for each place of a call that no input has had before (its innermost callers), which fails;
 * one input in 16 once more, where the call fails that its bytes choose. A run in which one failed
 * must not leak either.
 *
 * jansson's allocations do not fail: without memory for JSON texcell gives up for good
 * (faults_test.py).
 */
#ifndef FUZZ_FAIL_H
#define FUZZ_FAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void fuzz_with_failures(const uint8_t *data, size_t size, void (*run)(const uint8_t *, size_t));

/* Whether calls may fail from here on, for what the target does itself; what held before. */
bool fuzz_may_fail(bool may);

/* Not as it should be: aborts, but where a call was made to fail. */
void fuzz_wrong(void);

#endif
