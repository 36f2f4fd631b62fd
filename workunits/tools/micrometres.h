/*
 * Parameters that a person gives in micrometres ("12um", "50um2"): the work unit gets pixels.
 */
#ifndef WU_MICROMETRES_H
#define WU_MICROMETRES_H

#include "workunits/tools/sources.h"

/* Whether a parameter that has a measure is given so. */
bool wu_um_given(const an_param *table, const json_t *parameters);

/* Puts pixels in their place, and tells so; of integers the nearest. TC_BAD_INPUT where the size of
 * a pixel is not known, not the same in all items, or not along all axes where a length wants
 * that. */
tc_status wu_um_replace(const an_param *table, json_t *parameters, const wu_sources *sources,
                        tc_err *err);

#endif
