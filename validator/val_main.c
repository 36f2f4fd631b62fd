#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "validator/val.h"

#define WORKUNITS "../download"

static const char usage[] =
    "usage: texcell-validate check WU.zip RESULT.npz\n"
    "       texcell-validate compare A.npz B.npz\n"
    "       texcell-validate script-init [--workunits DIR] RESULT\n"
    "       texcell-validate script-compare RESULT RESULT\n"
    "       texcell-validate --help | --version\n"
    "\n"
    "check    is the result well-formed, and of this work unit?\n"
    "compare  have two results the same content? If not: the first differences.\n"
    "\n"
    "script-init, script-compare: check and compare for BOINC's script_validator. RESULT is\n"
    "the path of an upload, named WORKUNIT_0_r123_0. Its work unit is WORKUNIT.zip in DIR or\n"
    "in a folder of DIR (BOINC's fan-out), as it was staged for create_work --wu_name WORKUNIT.\n"
    "  --workunits DIR  " WORKUNITS " unless given: script_validator runs in PROJECT/tmp_HOST\n"
    "\n"
    "Exit codes: 0 yes, 1 bad usage (also no file, or one too many), 2 not a valid result (or\n"
    "work unit), 3 try again later, 4 no match. To script_validator 0 is valid or a match, 3\n"
    "try again later, all else invalid or no match.\n";

typedef struct command {
    const char *verb;
    const char *workunits;
    const char *files[2];
    int n_files;
} command;

static const struct verb {
    const char *name;
    int n_files;
    bool takes_workunits;
    const char *yes;
} verbs[] = {
    { "check", 2, false, "valid" },
    { "compare", 2, false, "match" },
    { "script-init", 1, true, "valid" },
    { "script-compare", 2, false, "match" },
};

static const struct verb *find_verb(const char *name)
{
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    return NULL;
}

static tc_status take_arguments(const struct verb *verb, int n, char **args, command *c, tc_err *err)
{
    for (int i = 0; i < n; i++) {
        if (verb->takes_workunits && strcmp(args[i], "--workunits") == 0 && i + 1 < n)
            c->workunits = args[++i];
        else if (args[i][0] == '-' || args[i][0] == '\0')
            return tc_fail(err, TC_USAGE, "%s: unknown option or missing value: \"%.64s\"", verb->name, args[i]);
        else if (c->n_files++ < verb->n_files)
            c->files[c->n_files - 1] = args[i];
    }
    if (c->n_files != verb->n_files)
        return tc_fail(err, TC_USAGE, "%s: takes %d file%s, %d given; texcell-validate --help", verb->name,
                       verb->n_files, verb->n_files == 1 ? "" : "s", c->n_files);
    return TC_OK;
}

static tc_status check(const char *workunit, const char *result, tc_err *err)
{
    an_unit unit;
    tc_status st = an_unit_read(workunit, &unit, err);

    if (st == TC_OK)
        st = val_check(&unit, result, err);
    an_unit_free(&unit);
    return st;
}

static tc_status do_command(const struct verb *verb, const command *c, tc_err *err)
{
    if (strcmp(verb->name, "check") == 0)
        return check(c->files[0], c->files[1], err);
    if (strcmp(verb->name, "compare") == 0)
        return val_compare(c->files[0], c->files[1], err);
    if (strcmp(verb->name, "script-init") == 0)
        return val_script_init(c->workunits, c->files[0], err);
    return val_script_compare(c->files[0], c->files[1], err);
}

static tc_status dispatch(int argc, char **argv, tc_err *err)
{
    command c = { .workunits = WORKUNITS };
    const char *const name = argc > 1 ? argv[1] : "";
    const struct verb *const verb = find_verb(name);
    tc_status st;

    if (argc == 2 && (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)) {
        fputs(usage, stdout);
        return TC_OK;
    }
    if (argc == 2 && strcmp(name, "--version") == 0) {
        printf("texcell-validate %s\n", VERSION);
        return TC_OK;
    }
    if (verb == NULL)
        return tc_fail(err, TC_USAGE, "no such command: \"%.64s\"; texcell-validate --help", name);
    st = take_arguments(verb, argc - 2, argv + 2, &c, err);
    if (st == TC_OK)
        st = do_command(verb, &c, err);
    if (st == TC_OK)
        printf("%s\n", verb->yes);
    return st;
}

int main(int argc, char **argv)
{
    tc_err err = { "" };
    const tc_status st = dispatch(argc, argv, &err);

    if (st == TC_NO_MATCH)
        printf("no match: %s\n", err.message);
    else if (st != TC_OK)
        fprintf(stderr, "texcell-validate: error: %s\n", err.message);
    if (fflush(stdout) != 0 || ferror(stdout))
        return tc_exit_code(TC_IO);
    return tc_exit_code(st);
}
