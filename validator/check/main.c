#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "validator/check/val.h"

#define WORKUNITS "../download"

enum { MAX_THREADS = 1024, MAX_SECONDS = 1000000000 };

static const char usage[] =
    "usage: texcell-validate check WU.zip RESULT.npz\n"
    "       texcell-validate compare A.npz B.npz\n"
    "       texcell-validate verify --fraction F [OPTION]... WU.zip RESULT.npz\n"
    "       texcell-validate script-init [--workunits DIR] [--fraction F [OPTION]...] RESULT\n"
    "       texcell-validate script-compare RESULT RESULT\n"
    "       texcell-validate --help | --version\n"
    "\n"
    "check    is the result well-formed, of this work unit, and possible?\n"
    "compare  have two results the same content? If not: the first differences.\n"
    "verify   check, and compute the share F of the items (above 0, up to 1; at least one)\n"
    "         again: are they the same? Says how likely that catches a forger.\n"
    "  --seed N          choose the items as it was done when N was printed (default: chance)\n"
    "  --threads N       compute with N threads (default 1)\n"
    "  --max-seconds S   exit with 3 when computing takes longer\n"
    "  --max-memory MIB  exit with 3 when an item needs more\n"
    "\n"
    "script-init, script-compare: check (with --fraction: verify) and compare for BOINC's\n"
    "script_validator. RESULT is the path of an upload, named WORKUNIT_0_r123_0. Its work unit\n"
    "is WORKUNIT.zip in DIR or in a folder of DIR (BOINC's fan-out), as it was staged for\n"
    "create_work --wu_name WORKUNIT.\n"
    "  --workunits DIR  " WORKUNITS " unless given: script_validator runs in PROJECT/tmp_HOST\n"
    "\n"
    "Exit codes: 0 yes, 1 bad usage (also no file, or one too many), 2 not a valid result (or\n"
    "work unit), 3 try again later, 4 no match. To script_validator 0 is valid or a match, 3\n"
    "try again later, all else invalid or no match.\n";

typedef enum verb { CHECK, COMPARE, VERIFY, SCRIPT_INIT, SCRIPT_COMPARE, VERBS } verb;

static const struct {
    const char *name;
    int n_files;
    const char *yes;
} verbs[VERBS] = {
    [CHECK] = { "check", 2, "valid" },
    [COMPARE] = { "compare", 2, "match" },
    [VERIFY] = { "verify", 2, "valid" },
    [SCRIPT_INIT] = { "script-init", 1, "valid" },
    [SCRIPT_COMPARE] = { "script-compare", 2, "match" },
};

typedef struct command {
    verb verb;
    const char *workunits;
    val_verification verification;
    bool verifies;             /* an option of verification was given */
    const char *files[2];
    int n_files;
} command;

/* --- the command line ------------------------------------------------------------------ */

static tc_status get_number(const char *name, const char *text, double lo, double hi, double *out, tc_err *err)
{
    char *end;
    const double value = strtod(text, &end);

    if (end == text || *end != '\0' || !(value >= lo && value <= hi))
        return tc_fail(err, TC_USAGE, "%s: must be a number from %g to %g, not \"%.64s\"", name, lo, hi, text);
    *out = value;
    return TC_OK;
}

static tc_status get_seed(const char *text, val_verification *v, tc_err *err)
{
    char *end;

    errno = 0;
    v->seed = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0)
        return tc_fail(err, TC_USAGE, "--seed: must be a number that verify has printed, not \"%.64s\"", text);
    v->seeded = true;
    return TC_OK;
}

/* An option of verify; its name is known to begin with "--". */
static tc_status take_option(command *c, const char *name, const char *value, tc_err *err)
{
    val_verification *const v = &c->verification;
    double number = 0;
    tc_status st;

    c->verifies = true;
    if (strcmp(name, "--fraction") == 0) {
        st = get_number(name, value, 0, 1, &v->fraction, err);
        return st == TC_OK && v->fraction == 0 ? tc_fail(err, TC_USAGE, "--fraction: must be above 0") : st;
    }
    if (strcmp(name, "--seed") == 0)
        return get_seed(value, v, err);
    if (strcmp(name, "--threads") == 0) {
        st = get_number(name, value, 1, MAX_THREADS, &number, err);
        v->threads = (unsigned)number;
        return st;
    }
    if (strcmp(name, "--max-seconds") == 0)
        return get_number(name, value, 0.001, MAX_SECONDS, &v->max_seconds, err);
    if (strcmp(name, "--max-memory") == 0) {
        st = get_number(name, value, 1, 1 << 24, &number, err);
        v->max_memory = (uint64_t)number << 20;
        return st;
    }
    return tc_fail(err, TC_USAGE, "unknown option \"%.64s\"; texcell-validate --help", name);
}

static tc_status take_arguments(command *c, int n, char **args, tc_err *err)
{
    const bool verifies = c->verb == VERIFY || c->verb == SCRIPT_INIT;
    tc_status st = TC_OK;

    for (int i = 0; st == TC_OK && i < n; i++) {
        if (args[i][0] != '-' && args[i][0] != '\0') {
            if (c->n_files++ < verbs[c->verb].n_files)
                c->files[c->n_files - 1] = args[i];
        } else if (i + 1 == n || (!verifies && args[i][0] == '-')) {
            st = tc_fail(err, TC_USAGE, "%s: unknown option or missing value: \"%.64s\"", verbs[c->verb].name, args[i]);
        } else if (c->verb == SCRIPT_INIT && strcmp(args[i], "--workunits") == 0) {
            c->workunits = args[++i];
        } else {
            st = take_option(c, args[i], args[i + 1], err);
            i++;
        }
    }
    if (st == TC_OK && c->n_files != verbs[c->verb].n_files)
        st = tc_fail(err, TC_USAGE, "%s: takes %d file%s, %d given; texcell-validate --help", verbs[c->verb].name,
                     verbs[c->verb].n_files, verbs[c->verb].n_files == 1 ? "" : "s", c->n_files);
    if (st == TC_OK && (c->verifies || c->verb == VERIFY) && c->verification.fraction == 0)
        st = tc_fail(err, TC_USAGE, "%s: --fraction is missing", verbs[c->verb].name);
    return st;
}

static bool is_script(const command *c)
{
    return c->verb == SCRIPT_INIT || c->verb == SCRIPT_COMPARE;
}

/* --- commands ------------------------------------------------------------------------------ */

static tc_status check(const command *c, tc_err *err)
{
    an_unit unit;
    tc_status st = an_unit_read(c->files[0], &unit, err);

    if (st == TC_OK)
        st = val_check(&unit, c->files[1], c->verifies ? &c->verification : NULL, err);
    an_unit_free(&unit);
    return st;
}

static tc_status do_command(const command *c, tc_err *err)
{
    switch (c->verb) {
    case CHECK:
    case VERIFY: return check(c, err);
    case COMPARE: return val_compare(c->files[0], c->files[1], err);
    case SCRIPT_INIT:
        return val_script_init(c->workunits, c->files[0], c->verifies ? &c->verification : NULL, err);
    case SCRIPT_COMPARE: return val_script_compare(c->files[0], c->files[1], err);
    case VERBS: break;
    }
    return tc_fail(err, TC_INTERNAL, "no such command");
}

static int report(tc_status st, const tc_err *err)
{
    if (st == TC_NO_MATCH)
        printf("no match: %s\n", err->message);
    else if (st != TC_OK)
        fprintf(stderr, "texcell-validate: error: %s\n", err->message);
    if (fflush(stdout) != 0 || ferror(stdout))
        return tc_exit_code(TC_IO);
    return tc_exit_code(st);
}

static int do_and_report(void *user)
{
    const command *const c = user;
    tc_err err = { "" };
    tc_status st = do_command(c, &err);

    if (st == TC_OK)
        printf("%s\n", verbs[c->verb].yes);
    /* A fault of this program is none of the computer that sent the file. */
    return report(is_script(c) && st == TC_INTERNAL ? TC_TRY_LATER : st, &err);
}

/* Only the command line's faults come back. */
static tc_status dispatch(int argc, char **argv, int *code, tc_err *err)
{
    command c = { .workunits = WORKUNITS, .verification = { .threads = 1 } };
    const char *const name = argc > 1 ? argv[1] : "";
    int ended_by;
    tc_status st;

    *code = 0;
    if (argc == 2 && (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)) {
        fputs(usage, stdout);
        return TC_OK;
    }
    if (argc == 2 && strcmp(name, "--version") == 0) {
        printf("texcell-validate %s\n", VERSION);
        return TC_OK;
    }
    while (c.verb < VERBS && strcmp(verbs[c.verb].name, name) != 0)
        c.verb++;
    if (c.verb == VERBS)
        return tc_fail(err, TC_USAGE, "no such command: \"%.64s\"; texcell-validate --help", name);
    st = take_arguments(&c, argc - 2, argv + 2, err);
    if (st == TC_OK && is_script(&c))
        st = val_run_apart(do_and_report, &c, c.files[0], code, &ended_by, err);
    else if (st == TC_OK)
        *code = do_and_report(&c);
    return st;
}

int main(int argc, char **argv)
{
    tc_err err = { "" };
    int code;
    const tc_status st = dispatch(argc, argv, &code, &err);

    return st == TC_OK && code != 0 ? code : report(st, &err);
}
