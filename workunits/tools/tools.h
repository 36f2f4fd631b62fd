/*
 * texcell-wu: what main.c and the verbs share.
 */
#ifndef WU_TOOLS_H
#define WU_TOOLS_H

#include "app/analysis/analysis.h"
#include "app/base/status.h"

/* The verbs, as tc_verb has them. */
tc_status wu_pack(int argc, char **argv, tc_err *err);
tc_status wu_show(int argc, char **argv, tc_err *err);
tc_status wu_export(int argc, char **argv, tc_err *err);
tc_status wu_parameters(int argc, char **argv, tc_err *err);

extern const char wu_pack_help[];
extern const char wu_show_help[];
extern const char wu_export_help[];
extern const char wu_parameters_help[];

/* "texcell-wu: note: ..." on stderr. */
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
void wu_note(const char *format, ...);

/* The analysis of a name; TC_USAGE with the list of them if there is none. */
tc_status wu_find_analysis(const char *name, const an_analysis **out, tc_err *err);

#endif
