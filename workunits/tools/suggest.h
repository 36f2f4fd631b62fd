/* Lets an analysis suggest parameters from the pictures (texcell-wu analyse, pack --suggest), and
 * prints and saves the suggested parameters.
 */
#ifndef WU_SUGGEST_H
#define WU_SUGGEST_H

#include "app/analysis/suggest.h"
#include "workunits/format/page.h"
#include "workunits/tools/sources.h"

/* Passes the pictures of up to AN_MAX_PICTURES items, evenly chosen, to the analysis. An item whose
 * picture is damaged gets a fault; TC_BAD_INPUT if none is left. Adds the parameters that the
 * analysis suggests to `parameters`; parameters that are there already are kept. The caller frees
 * *out by an_suggestion_free, also after a failure. */
tc_status wu_suggest(const an_analysis *analysis, wu_sources *sources, json_t *parameters,
                     an_suggestion *out, tc_err *err);
/* Prints the suggested parameters to stderr, one "--param KEY=VALUE" a line, ready to be copied.
 * otherwise: text appended to the first line that says how to switch the suggestion off, or "". */
tc_status wu_suggest_print(const an_suggestion *s, const char *otherwise, tc_err *err);

/* Writes the suggestion to a JSON file: its parameters and its doubts. */
tc_status wu_suggest_save(const an_suggestion *s, const char *path, tc_err *err);
/* Reads the doubts, which the marks of a report use, from a file that wu_suggest_save wrote. The
 * caller frees *out by an_suggestion_free, also after a failure. */
tc_status wu_suggest_load(const char *path, an_suggestion *out, tc_err *err);

/* Returns a parameter as an option for a shell, such as "--param radius=15", quoted where
 * necessary; to be freed by free(). Returns NULL if there is no memory. */
char *wu_param_text(const char *key, const json_t *value);

/* Writes the section of a page that shows the suggested parameters and the reasons for them: text,
 * and curves measured in the pictures. */
tc_status wu_suggest_put(const an_suggestion *s, wu_page *page, tc_err *err);

#endif
