/*
 * Converts parameters that are given in micrometres ("12um", "50um2") to pixels, the unit in which
 * a work unit has them.
 */
#ifndef WU_MICROMETRES_H
#define WU_MICROMETRES_H

#include "workunits/tools/sources.h"

/* Whether any parameter (a length, area or volume) is given in micrometres (or nm, mm). */
bool wu_has_micrometres(const an_param *table, const json_t *parameters);

/* Replaces the parameters given in micrometres by their values in pixels, and prints a note about
 * each. Parameters of integer type are rounded. TC_BAD_INPUT if the size of a pixel is not known,
 * is not the same in all items or, for some lengths, is not the same along all axes. */
tc_status wu_micrometres_to_pixels(const an_param *table, json_t *parameters,
                                   const wu_sources *sources, tc_err *err);

#endif
