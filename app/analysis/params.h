/* Parameters of analyses, declared in tables. A table has an entry for each key, which states the
 * allowed values and the field of the analysis' struct that stores the value. The table controls
 * how parameters are read, checked, named in messages, recorded in results, and listed by
 * `texcell-wu parameters` and in docs/analyses. What a table cannot express (keys that depend on
 * each other, values that are derived from others) is done by an_analysis.derive_params. */
#ifndef AN_PARAMS_H
#define AN_PARAMS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "app/base/status.h"

/* The type of a value. The comments begin with the C type of the field that stores it. */
typedef enum an_type {
    AN_BOOL,    /* bool */
    AN_INT,     /* int32_t or int64_t */
    AN_NUMBER,  /* double */
    AN_CHOICE,  /* enum, int or bool: the index of the choice */
    AN_INTS,    /* int32_t[]: a list of integers, which fills the array; if `count` is given, a list
                  of different integers, at least one and at most the array's length */
    AN_WORDS,   /* uint32_t: a list of different words of `words`; word i sets bit i */
    AN_OBJECT,  /* bool, or no field: whether the object is given. The fields of the object's keys
                   are in the same struct */
    AN_OBJECTS, /* array of structs: a list of objects, at most the array's length */
    AN_PRESET   /* no field: selects a set of defaults. Only the first key of a table may be of this
                   type */
} an_type;

/* What a parameter in pixels measures, so that texcell-wu pack can accept it in micrometres if the
 * size of a pixel is known. */
typedef enum an_measure {
    AN_NO_MEASURE,    /* nothing that can be given in micrometres */
    AN_LENGTH,        /* a length in pixels, which must have the same size along all axes */
    AN_LENGTH_FINEST, /* a length in pixels along the axis along which pixels are smallest */
    AN_LENGTH_SPACED, /* a length: in stacks in the unit of `spacing`, in images in pixels */
    AN_AREA,
    AN_VOLUME
} an_measure;

typedef struct an_field {
    size_t offset, size; /* offset in the struct, and size, in bytes */
} an_field;

#define AN_FIELD(type, field) { offsetof(type, field), sizeof(((type *)0)->field) }

/* A key of a table. A table ends with an entry without a key. */
typedef struct an_param {
    const char *key; /* at most 31 bytes (checked by an_params_fault) */
    an_type type;
    an_field field;
    double min, max; /* bounds of a number, or of each number in a list */
    bool above_min;  /* the number must be greater than min, even when both are rounded to single
                        precision */
    /* The default value, as JSON or a word. NULL: the key is required; "": it may be missing. */
    const char *default_value;
    /* Words, numbers or null, ended by NULL: the values of AN_CHOICE and AN_PRESET. For other
     * types, these are further allowed values: if the value is one of them, the field `word`
     * becomes 1 + its index in `choices`, and `field` stays 0. */
    const char *const *choices;
    an_field word;
    const char *const *words;    /* for AN_WORDS: the words, at most 32, ended by NULL */
    const char *const *presets;  /* for AN_PRESET: the defaults of each choice, an object in JSON */
    const struct an_param *keys; /* for AN_OBJECT and AN_OBJECTS: the table of the object's keys */
    /* Bit i: the key is allowed if the first key of its table, an AN_CHOICE, has choice i. 0: the
     * key is always allowed. */
    unsigned allowed_choices;
    an_field count;   /* for AN_INTS and AN_OBJECTS: a size_t that becomes the number of elements of
                         the list */
    size_t stride;    /* for AN_OBJECTS: bytes of a struct */
    const char *unit; /* the unit's name for people; NULL if there is no unit */
    an_measure measure; /* what a number in pixels measures */
    /* If the key is not given, it is left out of the parameters in results, so that the results of
     * work units that are older than the key do not change. */
    bool only_if_given;
    bool adds_picture; /* if the value is true, results contain a picture that can be shown */
    const char *help;  /* a sentence that explains the parameter to people */
} an_param;

/* The first member of each analysis' struct of parameters. */
typedef struct an_params_head {
    /* The complete parameters that the analysis runs with, as a JSON object: with defaults, and
     * presets replaced by their values. Results record it. */
    json_t *as_run;
} an_params_head;

/* Reads and checks the parameters in `json`: fills the zeroed struct that begins with *params, with
 * defaults for missing keys. Unknown keys are errors. where: the text that messages begin with
 * ("FILE: job.json: parameters"). The caller owns params->as_run, also after a failure. */
tc_status an_params_read(const an_param *table, const json_t *json, an_params_head *params,
                         const char *where, tc_err *err);

/* Checks a table: that each field has the size of its type, and that entries have the choices,
 * words and keys that their types require. Returns NULL, or `text` (of `size` bytes) with the first
 * fault. */
const char *an_params_fault(const an_param *table, char *text, size_t size);

typedef struct an_text {
    char text[768];
} an_text;

/* Describes the values that a parameter allows, in words: "an integer from 1 to 63". */
an_text an_value_in_words(const an_param *param);
/* Lists the values of the table's first key for which this parameter is allowed, in words: `"disc"
 * or "square"`. keys: the table. */
an_text an_condition_in_words(const an_param *param, const an_param *keys);
/* Parses a default or a preset of a table; a word becomes a string. The caller owns the result.
 * Returns NULL if there is no memory. */
json_t *an_parse_default(const char *text);

#endif
