/*
 * texcell-wu: what wu_main.c and the verbs share.
 */
#ifndef WU_TOOLS_H
#define WU_TOOLS_H

#include "app/base/status.h"

/* A verb. argv[0] is the verb's own name. TC_USAGE for a bad command line;
 * the message is then one line that ends with where to find help. */
tc_status wu_pack(int argc, char **argv, tc_err *err);
tc_status wu_show(int argc, char **argv, tc_err *err);
tc_status wu_export(int argc, char **argv, tc_err *err);

extern const char wu_pack_help[];
extern const char wu_show_help[];
extern const char wu_export_help[];

/* "texcell-wu: note: ..." on stderr. */
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
void wu_note(const char *format, ...);

/* The usage error for what getopt_long answered ('?' or ':') at argv. */
tc_status wu_bad_option(const char *verb, int answer, int optopt_value, char **argv, tc_err *err);

#endif
