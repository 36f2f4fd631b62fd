#include <stdio.h>

#include "validator/check/items.h"
#include "validator/check/verify.h"

/* One item: whether its values are possible, for its pixels too. */
static tc_status check_item(const an_unit *unit, const char *path, val_items *items, size_t index,
                            const val_verifier *verifier, tc_err *err)
{
    const wu_item *const item = &unit->job->items[index];
    wu_output claimed = { .n = 0 };
    tc_err why = { "" };
    tc_status st = val_items_next(items, &claimed, err);

    if (st == TC_OK) {
        st = unit->analysis->check_result(unit->params, item, &claimed, &why);
        if (st != TC_OK)
            tc_fail(err, st, "%.400s: item \"%s\": %.400s", path, item->name, why.message);
    }
    if (st == TC_OK && verifier->chosen != NULL) {
        st = val_check_pixels(verifier, index, &claimed, path, &why);
        if (st != TC_OK)
            tc_fail(err, st, "%.400s: %.600s", path, why.message);
    }
    wu_output_free(&claimed);
    return st;
}

tc_status val_check_form(const an_unit *unit, const char *result, uint64_t max_memory, tc_err *err)
{
    val_items *items = NULL;
    tc_status st = val_items_open(unit, result, &items, err);

    if (st == TC_OK)
        val_items_limit(items, max_memory > 0 ? max_memory : VAL_ROWS_BYTES);
    for (size_t i = 0; st == TC_OK && i < unit->job->n_items; i++) {
        wu_output claimed = { .n = 0 };

        st = val_items_next(items, &claimed, err);
        wu_output_free(&claimed);
    }
    if (st == TC_OK)
        st = val_items_end(items, err);
    val_items_close(&items);
    return st;
}

tc_status val_check(const an_unit *unit, const char *result, const val_verification *verification,
                    tc_err *err)
{
    val_items *items = NULL;
    val_verifier verifier = { .chosen = NULL };
    tc_status st = val_items_open(unit, result, &items, err);

    if (st == TC_OK && verification != NULL)
        val_items_limit(items, verification->max_memory);
    if (st == TC_OK && verification != NULL)
        st = val_verifier_init(&verifier, unit, verification, err);
    for (size_t i = 0; st == TC_OK && i < unit->job->n_items; i++)
        st = check_item(unit, result, items, i, &verifier, err);
    if (st == TC_OK)
        st = val_items_end(items, err);
    val_verifier_free(&verifier);
    val_items_close(&items);
    return st;
}
