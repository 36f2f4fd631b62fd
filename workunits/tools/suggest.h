/*
 * texcell-wu analyse: parameters from a look at the pictures, and how they are told.
 */
#ifndef WU_SUGGEST_H
#define WU_SUGGEST_H

#include "app/analysis/suggest.h"
#include "workunits/format/page.h"
#include "workunits/tools/sources.h"

/* Looks at up to AN_MAX_PICTURES of the items, evenly chosen, and adds what they suggest to the
 * parameters. *out: an_suggestion_free, also after a failure. */
tc_status wu_suggest(const an_analysis *analysis, wu_sources *sources, json_t *parameters,
                     an_suggestion *out, tc_err *err);
/* Tells so, a line for each, such that it can be copied. otherwise: how to do without, told after
 * it, or "". */
tc_status wu_suggest_tell(const an_suggestion *s, const char *otherwise, tc_err *err);

/* What marks need of it (wu_suggest_load), and the parameters, as JSON in a file. */
tc_status wu_suggest_save(const an_suggestion *s, const char *path, tc_err *err);
tc_status wu_suggest_load(const char *path, an_suggestion *out, tc_err *err);

/* "--param radius=15", as a shell takes it, quoted where necessary. free(). NULL: no memory. */
char *wu_param_text(const char *key, const json_t *value);

/* What was gone by, as a section of a page. */
tc_status wu_suggest_put(const an_suggestion *s, wu_page *page, tc_err *err);

#endif
