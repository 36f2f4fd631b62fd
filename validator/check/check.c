/* texcell-validate check: checks whether a result can be the result of a work unit. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "validator/check/difference.h"
#include "validator/check/items.h"
#include "validator/check/verify.h"

/* Checks the values of the next item: whether they are possible, and whether they fit its pixels.
 */
static tc_status check_item(const an_unit *unit, const char *path, val_items *items, size_t index,
                            val_verifier *verifier, tc_err *err)
{
    const wu_item *const item = &unit->job->items[index];
    wu_output claimed = { .n = 0 };
    tc_err why = { "" };
    tc_status status = val_items_next(items, &claimed, err);

    if (status == TC_OK) {
        status = unit->analysis->check_result(unit->params, item, &claimed, &why);
        if (status != TC_OK)
            tc_fail(err, status, "%.400s: item \"%s\": %.400s", path, item->name, why.message);
    }
    if (status == TC_OK && verifier->chosen != NULL) {
        status = val_check_pixels(verifier, index, &claimed, path, &why);
        if (status != TC_OK)
            tc_fail(err, status, "%.400s: %.600s", path, why.message);
    }
    wu_output_free(&claimed);
    return status;
}

tc_status val_check_form(const an_unit *unit, const char *result, uint64_t max_memory, tc_err *err)
{
    val_items *items = NULL;
    tc_status status =
        val_items_open(unit, result, max_memory > 0 ? max_memory : AN_ROWS_BYTES, &items, err);

    for (size_t i = 0; status == TC_OK && i < unit->job->n_items; i++) {
        wu_output claimed = { .n = 0 };

        status = val_items_next(items, &claimed, err);
        wu_output_free(&claimed);
    }
    if (status == TC_OK)
        status = val_items_end(items, err);
    val_items_close(&items);
    return status;
}

tc_status val_check(const an_unit *unit, const char *result, const val_verification *verification,
                    tc_err *err)
{
    TC_AUTO(val_items_close) val_items *items = NULL;
    TC_AUTO(val_verifier_free) val_verifier verifier = { .chosen = NULL };
    return_if_error(val_items_open(
        unit, result, verification != NULL ? verification->max_memory : 0, &items, err));

    if (verification != NULL) {
        const an_analysis *const a = unit->analysis;
        TC_AUTOFREE int64_t *counts = NULL;
        TC_AUTOFREE int64_t *steps = NULL;

        if (a->count_name != NULL)
            return_if_error(val_items_read_counts(items, a->count_name, &counts, err));
        if (a->steps_name != NULL)
            return_if_error(val_items_read_counts(items, a->steps_name, &steps, err));
        return_if_error(val_verifier_init(&verifier, unit, verification, counts, steps, err));
    }
    for (size_t i = 0; i < unit->job->n_items; i++)
        return_if_error(check_item(unit, result, items, i, &verifier, err));
    return_if_error(val_items_end(items, err));
    if (verifier.n_doubts > VAL_MAX_SHOWN)
        printf("%zu items are in doubt\n", verifier.n_doubts);
    if (verifier.n_loaded > 0)
        printf("looked at %zu of %zu item%s, computed %zu again (--seed %" PRIu64 ")\n",
               verifier.n_loaded, unit->job->n_items, unit->job->n_items == 1 ? "" : "s",
               verifier.n_again, verifier.seed);
    return TC_OK;
}
