/* texcell-wu: packs pictures into work units, shows work units and results,
 * exports results. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "workunits/tools/tools.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

typedef struct verb {
    const char *name;
    tc_status (*run)(int argc, char **argv, tc_err *err);
    const char *help;
} verb;

static const verb verbs[] = {
    { "pack", wu_pack, wu_pack_help },
    { "show", wu_show, wu_show_help },
    { "export", wu_export, wu_export_help },
};

static const char main_help[] =
    "texcell-wu packs pictures into work units for texcell and reads what comes back.\n"
    "\n"
    "  texcell-wu pack --analysis NAME [options] -o WU.zip INPUT...   pictures to a work unit\n"
    "  texcell-wu show FILE                                           a work unit or result, readable\n"
    "  texcell-wu export RESULT.npz -o DIR [--images WU.zip]          tables and pictures of a result\n"
    "\n"
    "  texcell-wu VERB --help   all about one of them\n"
    "  texcell-wu --version\n"
    "\n"
    "Exit codes: 0 done, 1 bad usage, 2 bad input, 3 try later, 70 internal error.\n";

void wu_note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("texcell-wu: note: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

tc_status wu_bad_option(const char *verb_name, int answer, int optopt_value, char **argv, tc_err *err)
{
    /* For a long option getopt has moved past it; a short one may stand in a group. */
    const char *what = optind > 0 ? argv[optind - 1] : "";
    char short_option[3] = { '-', (char)optopt_value, '\0' };
    if (strncmp(what, "--", 2) != 0 && optopt_value > ' ' && optopt_value < 127)
        what = short_option;
    return tc_fail(err, TC_USAGE, "%s: %s %s; see texcell-wu %s --help", verb_name, what,
                   answer == ':' ? "needs a value" : "is not an option, or not used like this",
                   verb_name);
}

static const verb *find_verb(const char *name)
{
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    return NULL;
}

/* --help and --version count only before "--"; they win over anything else. */
static int wants(int argc, char **argv, const char *option)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], option) == 0)
            return 1;
    return 0;
}

static tc_status run(int argc, char **argv, tc_err *err)
{
    if (argc < 2)
        return tc_fail(err, TC_USAGE, "nothing to do; see texcell-wu --help");
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        fputs(main_help, stdout);
        return TC_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("texcell-wu " PACKAGE_VERSION);
        return TC_OK;
    }
    const verb *v = find_verb(argv[1]);
    if (v == NULL)
        return tc_fail(err, TC_USAGE, "%s is not one of pack, show, export; see texcell-wu --help",
                       argv[1]);
    if (wants(argc - 1, argv + 1, "--help")) {
        fputs(v->help, stdout);
        return TC_OK;
    }
    opterr = 0;
    return v->run(argc - 1, argv + 1, err);
}

int main(int argc, char **argv)
{
    tc_err err = { "" };
    tc_status status = run(argc, argv, &err);
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == TC_OK)
        status = tc_fail(&err, TC_IO, "standard output: cannot be written");
    /* One line, whatever a file's name or content brought into the message. */
    for (char *c = err.message; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = '?';
    if (status != TC_OK)
        fprintf(stderr, "texcell-wu: error: %s\n",
                err.message[0] != '\0' ? err.message : tc_status_string(status));
    return tc_exit_code(status);
}
