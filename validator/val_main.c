#include <stdio.h>
#include <string.h>

#include "config.h"
#include "validator/val.h"

static const char usage[] =
    "usage: texcell-validate check WU.zip RESULT.npz\n"
    "       texcell-validate compare A.npz B.npz\n"
    "       texcell-validate --help | --version\n"
    "\n"
    "check    is the result well-formed, and of this work unit?\n"
    "compare  have two results the same content? If not: the first differences.\n"
    "\n"
    "Exit codes: 0 yes, 1 bad usage, 2 not a valid result (or work unit),\n"
    "3 try again later, 4 no match.\n";

static tc_status dispatch(int argc, char **argv, tc_err *err)
{
    const char *const verb = argc > 1 ? argv[1] : "";

    if (argc == 2 && (strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0)) {
        fputs(usage, stdout);
        return TC_OK;
    }
    if (argc == 2 && strcmp(verb, "--version") == 0) {
        printf("texcell-validate %s\n", VERSION);
        return TC_OK;
    }
    if (strcmp(verb, "check") != 0 && strcmp(verb, "compare") != 0)
        return tc_fail(err, TC_USAGE, "no such command: \"%.64s\"; texcell-validate --help", verb);
    if (argc != 4)
        return tc_fail(err, TC_USAGE, "%s: takes two files, %d given", verb, argc - 2);
    return verb[1] == 'h' ? val_check(argv[2], argv[3], err) : val_compare(argv[2], argv[3], err);
}

int main(int argc, char **argv)
{
    tc_err err = { "" };
    const tc_status st = dispatch(argc, argv, &err);

    if (st == TC_NO_MATCH)
        printf("no match: %s\n", err.message);
    else if (st != TC_OK)
        fprintf(stderr, "texcell-validate: error: %s\n", err.message);
    else if (argc == 4)
        printf("%s\n", argv[1][1] == 'h' ? "valid" : "match");
    if (fflush(stdout) != 0 || ferror(stdout))
        return tc_exit_code(TC_IO);
    return tc_exit_code(st);
}
