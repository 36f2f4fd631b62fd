/*
 * A program's command line, alike in all of them: PROGRAM VERB [OPTION]... [FILE]...,
 * --opt=value as well as --opt value, options before or after files, "--" before a file
 * that begins with a dash, -h and --help for the program and for every verb, --version.
 */
#ifndef TC_COMMAND_H
#define TC_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "app/base/status.h"

typedef enum tc_option_kind {
    TC_FLAG,   /* bool: no value */
    TC_TEXT,   /* const char *: anything but nothing */
    TC_NUMBER, /* double: above `least`, up to `most`; or `word` */
    TC_COUNT,  /* uint64_t: a whole number, from `least` to `most` */
    TC_TAKE    /* what `take` makes of it */
} tc_option_kind;

typedef struct tc_option {
    const char *name; /* without the dashes; a table ends where it is NULL, and `take` there, if
 it is given, takes the message of each fault: what it answers counts */
    char letter;      /* 'o' for -o; 0: none */
    tc_option_kind kind;
    void *to; /* where the value goes, of the kind's type; left alone if not given */
    uint64_t least, most;
    const char *word; /* stands for the number 0; NULL: none does */
    bool *given;      /* becomes true; NULL: nobody asks */
    tc_status (*take)(void *to, const char *value, tc_err *err);
} tc_option;

/* Reads argv[1] to argv[argc - 1]. What is no option lies, in its order, in argv[1] to
 * argv[*n_words] afterwards. TC_USAGE names the option that is wrong. */
tc_status tc_read_options(int argc, char **argv, const tc_option *options, int *n_words,
                          tc_err *err);

typedef struct tc_verb {
    const char *name; /* a table ends where it is NULL */
    /* argv[0] is the verb. TC_USAGE: the message gets a pointer to the help. */
    tc_status (*run)(int argc, char **argv, tc_err *err);
    const char *help; /* NULL: the program's */
} tc_verb;

typedef struct tc_program {
    const char *name;
    const char *help;
    const tc_verb *verbs;
    /* The libraries in it and their versions, for --version; NULL: none. */
    void (*libraries)(char *text, size_t size);
    /* For a command line that does not begin with a verb; NULL: that is an error. argv[0]
     * is the program. */
    tc_status (*without_verb)(int argc, char **argv, tc_err *err);
    /* Nobody is there to read help: a command line that begins with an option is without_verb's,
     * whatever it asks for. */
    bool is_task;
} tc_program;

/* The main function of a program; the exit code. Sees to it that what is opened is not
 * taken for a standard stream, and that writes report a full disk or a closed pipe
 * instead of ending the process. */
int tc_main(const tc_program *program, int argc, char **argv);

/* Says on stderr, in one printable line, what went wrong, and where nothing did whether
 * standard output could be written; the exit code. An empty message: the answer was given
 * on standard output. tc_main does this for what a verb returns. */
int tc_report(const char *program, tc_status status, tc_err *err);

#endif
