/*
 * Declared parameters. A table for each analysis says what each key may be and which
 * field of the analysis' struct it fills. Reading, checking, messages, the parameters as
 * run, `texcell-wu parameters` and the tables of docs/analyses all come from it. What no
 * table can say (how keys depend on each other, what follows from them) is in derive_params.
 */
#ifndef AN_PARAMS_H
#define AN_PARAMS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "app/base/status.h"

typedef enum an_type {
    AN_BOOL,    /* bool */
    AN_INT,     /* int32_t or int64_t */
    AN_NUMBER,  /* double */
    AN_CHOICE,  /* enum, int or bool: the index */
    AN_INTS,    /* int32_t[]: with a count, a list of different ones, up to as many as fit; else as
                   many as fit */
    AN_WORDS,   /* uint32_t: a list of different ones of `words`, bit i for word i */
    AN_OBJECT,  /* bool, or none: that there is one. Its keys' fields are in the same struct */
    AN_OBJECTS, /* a list of structs, up to as many as fit */
    AN_PRESET   /* none: a choice of other defaults. The first key, if there is one */
} an_type;

/* What a number of pixels measures, such that it can be given in micrometres where the size of a
 * pixel is known (texcell-wu pack). */
typedef enum an_measure {
    AN_NO_MEASURE,
    AN_LENGTH,        /* in pixels, which must be as long along all axes */
    AN_LENGTH_FINEST, /* in pixels of the finest axis */
    AN_LENGTH_SPACED, /* of stacks in the unit of spacing, of pictures in pixels */
    AN_AREA,
    AN_VOLUME
} an_measure;

typedef struct an_field {
    size_t at, size; /* in bytes, within the struct */
} an_field;

#define AN_FIELD(type, field) { offsetof(type, field), sizeof(((type *)0)->field) }

typedef struct an_param {
    const char *key; /* at most 31 bytes: an_params_fault */
    an_type type;
    an_field field;
    double min, max; /* of a number, or of each in a list */
    bool above_min;  /* more than min, also in single precision */
    const char
        *initial; /* the default: JSON, or a word. NULL: the key is needed; "": it may be absent */
    const char *const *choices; /* words, numbers, null; ended by NULL. With other types than a
                                   choice: what else the */
    an_field word;              /*   value may be. Here then is 1 + its index; the field stays 0 */
    const char *const *words;   /* of AN_WORDS: at most 32, ended by NULL */
    const char *const *presets; /* for each choice of a preset an object in JSON */
    const struct an_param
        *keys;        /* of objects, ended by one without a key. The first may be a choice */
    unsigned when;    /* bit i: goes with choice i of the first of these keys; 0: with all */
    an_field count;   /* size_t: of a list */
    size_t stride;    /* of AN_OBJECTS: bytes of a struct */
    const char *unit; /* NULL: none */
    an_measure measure;
    bool later;    /* left out of the parameters as run where it is not given: results of work units
                    * that are older than the key keep their bytes */
    bool pictured; /* true makes the result one that can be looked at */
    const char *help; /* a sentence for people */
} an_param;

/* The struct of an analysis begins with this. */
typedef struct an_params_head {
    json_t *as_run; /* the parameters complete, defaults included, presets resolved */
} an_params_head;

/* Fills the zeroed struct that begins with *params: defaults, everything checked; unknown keys are
 * errors. `where` begins messages ("FILE: job.json: parameters"). as_run is the caller's even
 * then. */
tc_status an_params_read(const an_param *table, const json_t *json, an_params_head *params,
                         const char *where, tc_err *err);

/* What is wrong with a table of parameters, naming the key: that each field has the size of its
 * type, and choices, words and keys are there where the type needs them. NULL: nothing. */
const char *an_params_fault(const an_param *table, char *text, size_t size);

typedef struct an_text {
    char text[768];
} an_text;

/* What a value must be, in words: "an integer from 1 to 63". */
an_text an_value_in_words(const an_param *param);
/* What the first of the keys must be for this one: `"disc" or "square"`. */
an_text an_condition_in_words(const an_param *param, const an_param *keys);
/* The JSON that a text of a table says; a word is a string. The caller's; NULL: no memory. */
json_t *an_json_of(const char *text);

#endif
