/*
 * texcell-wu analyse --suggest: parameters from a look at the pictures.
 */
#ifndef WU_SUGGEST_H
#define WU_SUGGEST_H

#include "app/analysis/suggest.h"
#include "workunits/format/page.h"
#include "workunits/tools/sources.h"

/* Looks at up to AN_MAX_PICTURES of the items, evenly chosen, adds what they suggest to the
 * parameters, and tells so. TC_USAGE where the analysis suggests nothing. *out: an_suggestion_free,
 * also after a failure. */
tc_status wu_suggest(const an_analysis *analysis, wu_sources *sources, json_t *parameters,
                     an_suggestion *out, tc_err *err);

/* What was gone by, as a section of a page. */
tc_status wu_suggest_put(const an_suggestion *s, wu_page *page, tc_err *err);

#endif
