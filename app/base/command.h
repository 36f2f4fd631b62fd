/*
 * The command line that all programs have in common: PROGRAM VERB [OPTION]... [FILE]...,
 * with --opt=value or --opt value, options before or after files, "--" before a file
 * whose name begins with a dash, -h and --help for the program and for every verb, --version.
 */
#ifndef TC_COMMAND_H
#define TC_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "app/base/status.h"

typedef enum tc_option_kind {
    TC_FLAG,   /* bool: no value */
    TC_TEXT,   /* const char *: any text that is not empty */
    TC_NUMBER, /* double: greater than `least`, at most `most`; or the text `word` */
    TC_COUNT,  /* uint64_t: a whole number from `least` to `most` */
    TC_TAKE    /* any type: `take` converts the text and stores it in *to */
} tc_option_kind;

/* An option. The last entry of a table has the name NULL. If that entry has a `take` function, this
 * is the table's fault handler: it receives the message of every usage error, and its status
 * replaces TC_USAGE. */
typedef struct tc_option {
    const char *name; /* without the dashes */
    char letter;      /* such as 'o' for -o; 0 if the option has no letter */
    tc_option_kind kind;
    void *to; /* where the value is stored, of the type that `kind` has; unchanged if the option is
                 not given */
    uint64_t least, most;
    const char *word; /* a text that means the number 0 (TC_NUMBER); NULL if there is none */
    bool *given;      /* *given is set to true if the option is given; may be NULL */
    /* Converts the value and stores it (TC_TAKE). */
    tc_status (*take)(void *to, const char *value, tc_err *err);
} tc_option;

/* Parses argv[1] to argv[argc - 1]. The arguments that are no options are moved, in their order, to
 * argv[1] to argv[*n_words]. TC_USAGE: the message names the option that is wrong. */
tc_status tc_read_options(int argc, char **argv, const tc_option *options, int *n_words,
                          tc_err *err);

typedef struct tc_verb {
    const char *name; /* NULL ends a table */
    /* Runs the verb, which is argv[0]. If it returns TC_USAGE, tc_main appends the name of the help
     * to read to the message. */
    tc_status (*run)(int argc, char **argv, tc_err *err);
    const char *help; /* the text of VERB --help; NULL: the program's help is printed */
} tc_verb;

typedef struct tc_program {
    const char *name;
    const char *help;
    const tc_verb *verbs;
    /* Writes the names and versions of the libraries that the program uses, for --version; NULL if
     * there are none. */
    void (*libraries)(char *text, size_t size);
    /* Runs a command line that does not begin with a verb; argv[0] is the program. NULL: such a
     * command line is an error. */
    tc_status (*without_verb)(int argc, char **argv, tc_err *err);
    /* The program runs as a task, where nobody would read help: a command line that begins with an
     * option, even --help, is passed to without_verb. */
    bool is_task;
} tc_program;

/* The main function of a program. Returns the exit code. It opens standard streams that are closed,
 * so that no file gets their descriptors, and ignores the signals of a full disk and of a closed
 * pipe, so that writing fails instead of ending the process. */
int tc_main(const tc_program *program, int argc, char **argv);

/* Returns the exit code of `status`. If it is an error, prints the message on stderr, as one
 * printable line. An error with an empty message prints nothing, as the verb has printed its answer
 * on standard output. If standard output could not be written, that is the error, unless there is
 * another message. tc_main calls this function with the result of a verb. */
int tc_report_failure(const char *program, tc_status status, tc_err *err);

#endif
