/* Parses a command line according to a program's table of verbs and options. */
#include "app/base/command.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/os.h"
#include "app/base/text.h"
#include "config.h"

/* --- options --------------------------------------------------------------------------------- */

enum {
    OPTIONS_MAX = 32, /* the most options of a table */
    /* getopt_long returns FIRST_CODE + i for the long name of options[i], and for a one-letter
     * option the letter itself, which is smaller. */
    FIRST_CODE = 256
};

/* Converts an option's value and stores it in *o->to, or passes it to o->take. */
static tc_status store_value(const tc_option *o, const char *value, tc_err *err)
{
    const unsigned long long least = o->least, most = o->most;
    char *end = NULL;

    errno = 0;
    switch (o->kind) {
    case TC_FLAG: *(bool *)o->to = true; return TC_OK;
    case TC_TEXT:
        if (value[0] == '\0')
            return tc_fail(err, TC_USAGE, "--%s: the value is empty", o->name);
        *(const char **)o->to = value;
        return TC_OK;
    case TC_NUMBER: {
        const bool is_word = o->word != NULL && strcmp(value, o->word) == 0;
        const double number = is_word ? 0 : strtod(value, &end);

        if (is_word)
            ; /* the number is 0, whatever the limits are */
        else if (errno != 0 || end == value || *end != '\0' ||
                 !(number > (double)least && number <= (double)most))
            return tc_fail(err, TC_USAGE,
                           "--%s: \"%.64s\" is not a number above %llu and up to %llu", o->name,
                           value, least, most);
        *(double *)o->to = number;
        return TC_OK;
    }
    case TC_COUNT: {
        const unsigned long long number = strtoull(value, &end, 10);

        if (errno != 0 || value[0] < '0' || value[0] > '9' || *end != '\0' || number < least ||
            number > most)
            return tc_fail(err, TC_USAGE, "--%s: \"%.64s\" is not a whole number from %llu to %llu",
                           o->name, value, least, most);
        *(uint64_t *)o->to = number;
        return TC_OK;
    }
    case TC_TAKE: break;
    }
    return o->take(o->to, value, err);
}

/* Fails with a message that names the option that getopt_long rejected. code: ':' if its value is
 * missing, '?' if the option is unknown or takes no value. An unknown long option is compared with
 * the known names, and the message suggests a similar one. */
static tc_status refuse_option(int code, char **argv, const tc_option *options, tc_err *err)
{
    const char *rejected = argv[optind - 1], *similar_name = NULL;
    /* If a letter of a group such as -abc was rejected, and letters follow it: the whole group. */
    const char *const group = argv[optind];
    const char letter[] = { '-', (char)optopt, '\0' };
    char name[32];
    size_t least = TC_UNLIKE_DISTANCE; /* distance of similar_name */

    if (strncmp(rejected, "--", 2) != 0 && optopt > ' ' && optopt < FIRST_CODE)
        rejected = letter; /* argv[optind - 1] may be a group of letters, or another argument */
    if (code == ':')
        return tc_fail(err, TC_USAGE, "%.64s needs a value", rejected);
    if (optopt >= FIRST_CODE)
        return tc_fail(err, TC_USAGE, "%.64s: this option takes no value", rejected);
    const bool in_group =
        rejected == letter && group != NULL && group[0] == '-' && group[1] == optopt;
    const char *const word = in_group ? group : argv[optind - 1];
    if (os_kind_of(word) != OS_NOTHING)
        return tc_fail(err, TC_USAGE,
                       "unknown option \"%.64s\"; if the file %.200s is meant, write ./%.200s",
                       rejected, word, word);
    if (in_group && strlen(group) > 3)
        /* A dash is missing, as in -param x=1: the long name is compared. */
        snprintf(name, sizeof name, "-%.*s", (int)strcspn(group, "="), group);
    else
        snprintf(name, sizeof name, "%.*s", (int)strcspn(rejected, "="), rejected);
    for (; options->name != NULL && strncmp(name, "--", 2) == 0; options++)
        if (tc_is_misspelling(name + 2, options->name, &least))
            similar_name = options->name;
    return tc_fail(err, TC_USAGE, "unknown option \"%.64s\"%s%s%s", rejected,
                   similar_name != NULL ? " (did you mean \"--" : "",
                   similar_name != NULL ? similar_name : "", similar_name != NULL ? "\"?)" : "");
}

/* If status is TC_USAGE, passes the message to the table's fault handler, which is the `take` of
 * the entry that ends the table, and returns the handler's status. If it is another status, or
 * there is no handler, returns `status`. */
static tc_status report_usage_error(const tc_option *end_of_table, tc_status status, tc_err *err)
{
    return status == TC_USAGE && end_of_table->take != NULL
               ? end_of_table->take(end_of_table->to, err->message, err)
               : status;
}

tc_status tc_read_options(int argc, char **argv, const tc_option *options, int *n_words,
                          tc_err *err)
{
    struct option table[OPTIONS_MAX + 1] = { { NULL, 0, NULL, 0 } };
    /* "-" makes getopt_long return the arguments that are no options, in their order, with the code
     * 1; ":" makes it return ':' for an option whose value is missing. The letters of the options
     * follow. */
    char letters[2 + 2 * OPTIONS_MAX + 1] = "-:", *end = letters + 2;
    tc_status status = TC_OK;
    const tc_option *end_of_table = options;
    int code;

    for (int i = 0; options[i].name != NULL; i++, end_of_table++) {
        const bool has_value = options[i].kind != TC_FLAG;

        assert(options[i].kind == TC_TAKE ? options[i].take != NULL : options[i].to != NULL);
        if (i == OPTIONS_MAX)
            return tc_fail(err, TC_INTERNAL, "too many options");
        table[i] = (struct option){ options[i].name, has_value ? required_argument : no_argument,
                                    NULL, FIRST_CODE + i };
        if (options[i].letter != 0) {
            *end++ = options[i].letter;
            *end = has_value ? ':' : '\0';
            end += has_value;
        }
    }
    *n_words = 0;
    optind = 1;
    opterr = 0;
    while (status == TC_OK && (code = getopt_long(argc, argv, letters, table, NULL)) != -1) {
        int i = code - FIRST_CODE;

        if (code == 1) {
            argv[++*n_words] = optarg;
            continue;
        }
        if (code == ':' || code == '?') {
            status = refuse_option(code, argv, options, err);
        } else {
            if (i < 0) /* code is the option's letter */
                for (i = 0; options[i].letter != code; i++)
                    ;
            status = store_value(&options[i], optarg, err);
            if (options[i].given != NULL)
                *options[i].given = true;
        }
        status = report_usage_error(end_of_table, status, err);
    }
    while (optind < argc)
        argv[++*n_words] = argv[optind++];
    for (int i = 1; status == TC_OK && i <= *n_words; i++)
        if (argv[i][0] == '\0')
            status = report_usage_error(end_of_table,
                                        tc_fail(err, TC_USAGE, "an argument is empty"), err);
    return status;
}

/* --- verbs ----------------------------------------------------------------------------------- */

static bool is_help(const char *arg)
{
    return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0;
}

/* Whether the command line has --help or -h before any "--". Help is then printed, whatever else is
 * wrong with the command line. */
static bool asks_for_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (is_help(argv[i]))
            return true;
    return false;
}

/* Prints help or the version, or runs the verb. Appends "; see PROGRAM VERB --help" to the message
 * of a usage error. */
static tc_status run_verb(const tc_program *p, int argc, char **argv, tc_err *err)
{
    const char *const first = argc > 1 ? argv[1] : "";
    const bool is_program_option = is_help(first) || strcmp(first, "--version") == 0;
    const tc_verb *verb = p->verbs;
    tc_status status;

    if (p->is_task && first[0] == '-')
        return p->without_verb(argc, argv, err);
    while (verb->name != NULL && strcmp(verb->name, first) != 0)
        verb++;
    if (is_program_option && argc > 2)
        return tc_fail(err, TC_USAGE, "%s is used alone or after a command; see %s --help", first,
                       p->name);
    if (is_program_option && !is_help(first)) {
        char libraries[256] = "";

        printf("%s %s\n", p->name, VERSION);
        if (p->libraries != NULL) {
            p->libraries(libraries, sizeof libraries);
            printf("%s\n", libraries);
        }
        return TC_OK;
    }
    if (asks_for_help(argc, argv) &&
        (is_program_option || verb->name != NULL || p->without_verb != NULL)) {
        fputs(verb->help != NULL ? verb->help : p->help, stdout);
        return TC_OK;
    }
    if (verb->name != NULL)
        status = verb->run(argc - 1, argv + 1, err);
    else if (p->without_verb != NULL)
        status = p->without_verb(argc, argv, err);
    else if (argc > 1)
        status = tc_fail(err, TC_USAGE, "unknown command \"%.64s\"", first);
    else {
        fputs(p->help, stderr);
        status = tc_fail(err, TC_USAGE, "nothing to do");
    }
    if (status == TC_USAGE && err->message[0] != '\0') {
        const size_t n = strlen(err->message);

        snprintf(err->message + n, sizeof err->message - n, "; see %s%s%s --help", p->name,
                 verb->name != NULL ? " " : "", verb->name != NULL ? verb->name : "");
    }
    return status;
}

int tc_report_failure(const char *program, tc_status status, tc_err *err)
{
    /* EPIPE means that the reader has closed the pipe (as `head` does), which needs no message. */
    if ((fflush(stdout) != 0 || ferror(stdout)) && (status == TC_OK || err->message[0] == '\0')) {
        status = tc_fail(err, TC_IO, "standard output: cannot be written: %s", strerror(errno));
        if (errno == EPIPE)
            return tc_exit_code(status);
    }
    /* The message may quote a file's name or content, which may contain control characters. */
    if (status != TC_OK && err->message[0] != '\0')
        fprintf(stderr, "%s: error: %s\n", program, tc_make_printable(err->message));
    return tc_exit_code(status);
}

int tc_main(const tc_program *program, int argc, char **argv)
{
    tc_err err = { "" };

    os_init_process();
    return tc_report_failure(program->name, run_verb(program, argc, argv, &err), &err);
}
