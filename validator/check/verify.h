/*
 * What the pixels of a work unit say of a result: a random share of the items is computed
 * again, the others are looked at as the analysis does (check_pixels).
 */
#ifndef VAL_VERIFY_H
#define VAL_VERIFY_H

#include "validator/check/val.h"

typedef struct val_verifier {
    const an_unit *unit;
    const val_verification *options;
    uint64_t seed;
    size_t n_chosen;
    bool *chosen;           /* [items]: is computed again */
    bool *looked_at;        /* [items]: has pixels that are looked at */
    bool small;             /* what is looked at is computed again in any case */
    double deadline;        /* in tc_seconds; 0: none */
    size_t n_seen, n_again; /* items that were looked at, of which so many were computed again */
    size_t n_doubts;        /* of a look at pixels */
} val_verifier;

/* Chooses the items; prints which seed did and how likely a forger is caught, if any is chosen.
 * val_verifier_free also after a failure. */
tc_status val_verifier_init(val_verifier *v, const an_unit *unit, const val_verification *options,
                            tc_err *err);
void val_verifier_free(val_verifier *v);
/* Whether the item's pixels give `claimed`, as far as can be known: computed again if it is
 * one of the chosen, if a look at the pixels leaves a doubt, or if that takes hardly any time.
 * path: the result's, for names. */
tc_status val_check_pixels(val_verifier *v, size_t index, const wu_output *claimed,
                           const char *path, tc_err *err);

#endif
