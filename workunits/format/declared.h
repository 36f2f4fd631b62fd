/*
 * What the arrays of a result are, said once by the analysis that makes them and
 * written into result.json: all that a table, a picture, a data set or a message
 * needs, so that no reader knows an analysis. workunits/FORMAT.md, 3.3.
 */
#ifndef WU_DECLARED_H
#define WU_DECLARED_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "app/base/status.h"
#include "workunits/format/npz.h"

enum { WU_MAX_AXES = 6 };

typedef enum wu_role {
    WU_VALUE,  /* rows of a table: what was measured. Without a table: of the whole result */
    WU_ITEM,   /* the index of the row's item, before the table's other arrays; in a table
                * without it row i is of item i */
    WU_KEY,    /* which row of its item it is, as a picture of labels has it */
    WU_PLACE,  /* where in the picture a point is: y, x or z, y, x in pixels */
    WU_LABELS, /* a picture (int32): which row of the table a pixel is of, 0: none */
    WU_MASK,   /* a picture (uint8): 0 outside, 1 inside */
    WU_MAP,    /* a picture (float32) of a value, NaN where there is none */
    WU_TITLES, /* of the whole result: the titles of the table's columns */
    WU_KEYS,   /* of the whole result: what the entries along an axis are, a row each */
    WU_PROOF   /* for a validator alone, in no table: of each item numbers, or with {item} in its
                * name an int32 for each of its pixels */
} wu_role;

/* What the entries of an array along an axis behind the first are: words, numbers
 * or the rows of a WU_KEYS array. */
typedef struct wu_axis {
    const char *name; /* "levels", "feature"; NULL: adjacent columns */
    uint32_t n;
    const char *const *words; /* [n], or NULL */
    const unsigned *numbers;  /* [n], or NULL */
    const char *array;        /* or NULL */
    const char *prefix;       /* in a title "d03" is the number 3 with prefix d and 2 digits */
    unsigned digits;
} wu_axis;

typedef struct wu_declared {
    const char *name; /* of the array; {item} stands for the item's name: a picture's has it */
    wu_dtype dtype;
    wu_role role;
    const char *table; /* "regions"; of labels: whose rows they number; NULL: none */
    const char *title; /* what titles of columns begin with, NULL: nothing; a picture's */
    const char *unit;  /* "pixel", "um^3"; NULL: none */
    unsigned n_axes;
    wu_axis axes[WU_MAX_AXES];
    /* What the file's array itself says. */
    bool deep;      /* its axes are those of the array; else they are one, the last fastest */
    uint32_t width; /* of text */
    uint64_t rows;  /* of an array of the whole result */
} wu_declared;

#define WU_ITEM_SPACING "item_spacing" /* an array of the whole result that is not declared */

/* What is wrong with a declaration that a program makes, naming array and axis: each axis has
 * entries, and words, numbers with a prefix, or an array. NULL: nothing. */
const char *wu_declared_fault(const wu_declared *d, char *text, size_t size);

bool wu_is_picture(wu_role role);
/* Whether each item has its own array, an element a pixel: a picture, or a proof. */
bool wu_is_own(const wu_declared *d);
/* The name of the array, with the item's in it if it is the item's own. Cut at size. */
void wu_declared_name(const wu_declared *d, const char *item, char *out, size_t size);
/* Entries of a row: columns that the array gives. */
uint64_t wu_declared_elements(const wu_declared *d);

enum { WU_TITLE_MAX = 512 };
/* The title of a column, as "bbox_y0" or "t_L64_d03_contrast": the parts of axes
 * `from` to n_axes - 1, behind the declared title if from is 0. */
void wu_title(const wu_declared *d, uint64_t element, unsigned from, char out[WU_TITLE_MAX]);

/* --- as JSON --------------------------------------------------------------------------------- */

/* One entry of result.json's "arrays"; NULL: no memory. */
json_t *wu_declared_json(const wu_declared *d);

/* The other way round, of a file that anyone may have made: names are of a-z, 0-9 and _,
 * everything is bounded. TC_BAD_INPUT names entry and key after `where`. Strings stay
 * the JSON's; *out: wu_declared_free. */
tc_status wu_declared_read(const json_t *list, const char *where, wu_declared **out, size_t *n,
                           tc_err *err);
void wu_declared_free(wu_declared *list, size_t n);

#endif
