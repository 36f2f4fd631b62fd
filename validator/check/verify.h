/*
 * Checks a result against the pixels of its work unit: a random share of the items is computed
 * again, and others are checked by the analysis (check_pixels), or computed again if it cannot.
 */
#ifndef VAL_VERIFY_H
#define VAL_VERIFY_H

#include "validator/check/val.h"

/* How an item's pixels are checked: not, by an_analysis.check_end or by check_pixels. */
typedef enum val_look { VAL_NO_LOOK, VAL_END, VAL_PIXELS } val_look;

/* The items of a result that are chosen to be checked, and the counts of those checked so far. */
typedef struct val_verifier {
    const an_unit *unit;
    const val_verification *options;
    uint64_t seed;
    size_t n_chosen; /* number of items that are `chosen` */
    bool *chosen; /* [n_items] whether each item is computed again, because of options->fraction */
    val_look *looks; /* [n_items] how each item's pixels are checked */
    bool small;      /* the unit takes so little time that all items are computed again */
    double deadline; /* the time, as returned by tc_seconds, at which computing must end; 0: no
                        limit */
    size_t n_loaded; /* number of items whose pixels were loaded */
    size_t n_again;  /* number of items that were computed again */
    size_t n_doubts; /* number of items that check_pixels found improbable */
} val_verifier;

/* Chooses the items. counts, steps: those of the result (an_analysis.count_name and steps_name), or
 * NULL. If some items are chosen by `fraction`, prints the seed and the probability of catching a
 * forger. val_verifier_free must be called, also after a failure. */
tc_status val_verifier_init(val_verifier *v, const an_unit *unit, const val_verification *options,
                            const int64_t *counts, const int64_t *steps, tc_err *err);
void val_verifier_free(val_verifier *v);
/* Checks the arrays `claimed` of the item `index`, if it is `chosen` or `looks` says so. The item
 * is computed again if it is `chosen`, if the analysis' check_pixels finds it improbable or does
 * not exist, or if the unit is `small`. TC_NO_MATCH: computing gives other values. path: the
 * result, for the names of items and features. */
tc_status val_check_pixels(val_verifier *v, size_t index, const wu_output *claimed,
                           const char *path, tc_err *err);

#endif
