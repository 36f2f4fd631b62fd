/*
 * Declarations of the arrays of a result. The analysis that makes an array declares it, and the
 * declaration is written to result.json. It contains everything that programs need to show the
 * array in a table or picture, so that they need not know the analyses. workunits/FORMAT.md,
 * section 3.3, has the JSON.
 */
#ifndef WU_DECLARED_H
#define WU_DECLARED_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "app/base/status.h"
#include "workunits/format/npz.h"

enum { WU_MAX_AXES = 6 }; /* the most declared axes of an array */

/* What an array contains. Most arrays are columns of a table. */
typedef enum wu_role {
    WU_VALUE, /* measured values: a row for each row of the table; if there is no table, values of
                 the whole result */
    WU_ITEM,  /* the index of each row's item; declared before the table's other arrays. In a table
                 without such an array, row i belongs to item i */
    WU_KEY, /* the number of each row within its item: its label, if there is a WU_LABELS picture */
    WU_POSITION, /* the row's position in the picture: y, x or z, y, x in pixels */
    WU_LABELS,   /* a picture (int32): for each pixel, the WU_KEY of its row in the table; 0 if the
                    pixel belongs to no row */
    WU_MASK,     /* a picture (uint8): 0 outside, 1 inside */
    WU_MAP,      /* a picture (float32): a value for each pixel; NaN if it has none */
    WU_TITLES,   /* an array of the whole result: the titles of the table's columns */
    WU_KEYS, /* an array of the whole result: a row for each entry along an axis, with numbers that
                describe the entry */
    WU_PROOF /* only for validators, not part of a table: numbers of each item, or, with {item} in
                the name, an int32 for each of the item's pixels */
} wu_role;

/* An axis of an array, except the first one (the axis of rows). The entries (positions) of an axis
 * are named by words, by numbers or by the rows of a WU_KEYS array. Exactly one of words, numbers
 * and array is not NULL. */
typedef struct wu_axis {
    const char *name;         /* such as "levels" or "feature"; NULL if the axis has no name */
    uint32_t n;               /* number of entries */
    const char *const *words; /* [n] */
    const unsigned *numbers;  /* [n] */
    const char *array;        /* the name of the WU_KEYS array */
    /* How a number is written in a title: the number 3 with prefix "d" and 2 digits is "d03". */
    const char *prefix;
    unsigned digits;
} wu_axis;

/* The declaration of an array. */
typedef struct wu_declaration {
    const char *name; /* the array's name; in names of pictures {item} stands for the item's name */
    wu_dtype dtype;
    wu_role role;
    const char *table; /* the table to which the array belongs, such as "regions"; for WU_LABELS,
                          the table whose rows the labels number; or NULL */
    const char *title; /* the beginning of columns' titles, or a picture's title; or NULL */
    const char *unit;  /* the unit of values, such as "pixel" or "um^3"; or NULL */
    unsigned n_axes;
    wu_axis axes[WU_MAX_AXES];
    /* The array's shape and type in the file: */
    bool separate_axes; /* whether each declared axis is an axis of the array. If not, all declared
                  axes together are the array's second axis, the last one changing fastest */
    uint32_t width;     /* for WU_STR: characters of an element */
    uint64_t rows;      /* number of rows if the array belongs to the whole result, else 0 */
} wu_declaration;

/* The name of an array of the whole result that has no declaration. */
#define WU_ITEM_SPACING "item_spacing"

/* Checks a declaration that a program makes: each axis must have entries and either words, or
 * numbers with a prefix, or an array. Returns what is wrong, with the array's name (`text` or a
 * constant), or NULL if the declaration is valid. */
const char *wu_declaration_fault(const wu_declaration *d, char *text, size_t size);

/* Whether arrays of this role are pictures. */
bool wu_is_picture(wu_role role);
/* Whether each item has an array of its own, with an element for each pixel: a picture, or a
 * WU_PROOF with {item} in its name. */
bool wu_is_per_item(const wu_declaration *d);
/* Writes the array's name, with {item} replaced by the item's name if wu_is_per_item, cut after
 * size - 1 bytes. */
void wu_declaration_name(const wu_declaration *d, const char *item, char *out, size_t size);
/* The number of elements in a row of the array; each element is a column of the table. */
uint64_t wu_declaration_elements(const wu_declaration *d);

enum { WU_TITLE_MAX = 512 }; /* bytes for a title, with the final NUL */
/* Writes the title of a column, such as "bbox_y0" or "t_L64_d03_contrast": the declared title if
 * `from` is 0, then the element's entries along axes `from` to n_axes - 1, joined by '_'. */
void wu_declaration_title(const wu_declaration *d, uint64_t element, unsigned from,
                          char out[WU_TITLE_MAX]);

/* --- as JSON --------------------------------------------------------------------------------- */

/* The entry for the declaration in result.json's "arrays". The caller owns the reference; NULL if
 * there is no memory. */
json_t *wu_declaration_json(const wu_declaration *d);

/* Reads the declarations from an untrusted "arrays": names must consist of a-z, 0-9 and _, and all
 * numbers and lengths are limited. TC_BAD_INPUT: the message begins with `where` and names the
 * entry and the key. Sets *out to an array of *n declarations, to be freed by wu_declarations_free,
 * also after a failure; their strings point into `list`. */
tc_status wu_declarations_read(const json_t *list, const char *where, wu_declaration **out,
                               size_t *n, tc_err *err);
void wu_declarations_free(wu_declaration *list, size_t n);

#endif
