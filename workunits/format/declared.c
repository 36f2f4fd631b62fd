/* Reads and writes the declarations of arrays in result.json. */
#include "workunits/format/declared.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In the name of a declared array, this text stands for the item's name. */
static const char mark[] = "{item}";

/* Returns what is wrong with an axis, as the end of a sentence, or NULL if the axis is valid. */
static const char *axis_fault(const wu_axis *axis)
{
    const int n_given = (axis->words != NULL) + (axis->numbers != NULL) + (axis->array != NULL);
    if (axis->n == 0)
        return "has no entries";
    if (n_given != 1)
        return n_given == 0 ? "has neither words nor numbers nor an array"
                            : "has more than one of words, numbers and an array";
    if ((axis->numbers != NULL) != (axis->prefix != NULL))
        return axis->prefix == NULL ? "has numbers, but no prefix" : "has a prefix, but no numbers";
    for (uint32_t i = 0; axis->words != NULL && i < axis->n; i++)
        if (axis->words[i] == NULL)
            return "has fewer words than entries";
    return NULL;
}

const char *wu_declaration_fault(const wu_declaration *d, char *text, size_t size)
{
    const char *fault = NULL;
    unsigned i = 0;
    if (d->name == NULL)
        return "an array has no name";
    if (d->n_axes > WU_MAX_AXES)
        fault = "has too many axes";
    for (; fault == NULL && i < d->n_axes; i++)
        fault = axis_fault(&d->axes[i]);
    if (fault == NULL)
        return NULL;
    if (i > 0) /* axis i - 1 has the fault */
        snprintf(text, size, "array %s: axis %u %s", d->name, i - 1, fault);
    else
        snprintf(text, size, "array %s %s", d->name, fault);
    return text;
}

bool wu_is_picture(wu_role role)
{
    return role == WU_LABELS || role == WU_MASK || role == WU_MAP;
}

bool wu_is_per_item(const wu_declaration *d)
{
    return wu_is_picture(d->role) || (d->role == WU_PROOF && strstr(d->name, mark) != NULL);
}

void wu_declaration_name(const wu_declaration *d, const char *item, char *out, size_t size)
{
    assert(size > 0);
    const char *const at = wu_is_per_item(d) ? strstr(d->name, mark) : NULL;
    if (at == NULL) {
        const size_t length = strlen(d->name), n = length < size ? length : size - 1;

        memcpy(out, d->name, n);
        out[n] = '\0';
    } else {
        snprintf(out, size, "%.*s%s%s", (int)(at - d->name), d->name, item, at + strlen(mark));
    }
}

uint64_t wu_declaration_elements(const wu_declaration *d)
{
    uint64_t n = 1;
    for (unsigned i = 0; i < d->n_axes; i++)
        n *= d->axes[i].n;
    return n;
}

/* from: the first axis whose entry is a part of the title. */
void wu_declaration_title(const wu_declaration *d, uint64_t element, unsigned from,
                          char out[WU_TITLE_MAX])
{
    assert(from <= d->n_axes && element < wu_declaration_elements(d));
    uint64_t at[WU_MAX_AXES] = { 0 };
    for (unsigned i = d->n_axes; i-- > 0; element /= d->axes[i].n)
        at[i] = element % d->axes[i].n;
    snprintf(out, WU_TITLE_MAX, "%s", from == 0 && d->title != NULL ? d->title : "");
    for (unsigned i = from; i < d->n_axes; i++) {
        const wu_axis *const axis = &d->axes[i];
        const size_t n = strlen(out);
        const char *const join = n > 0 ? "_" : "";
        if (axis->words != NULL)
            snprintf(out + n, WU_TITLE_MAX - n, "%s%s", join, axis->words[at[i]]);
        else if (axis->numbers != NULL)
            snprintf(out + n, WU_TITLE_MAX - n, "%s%s%0*u", join, axis->prefix, (int)axis->digits,
                     axis->numbers[at[i]]);
        else
            snprintf(out + n, WU_TITLE_MAX - n, "%s%u", join, (unsigned)at[i]);
    }
}

/* --- to JSON --------------------------------------------------------------------------------- */

/* The names of roles in result.json, indexed by wu_role, which explains the roles. "place" is
 * WU_POSITION; "key" is WU_KEY, a number for each row, and "keys" is WU_KEYS, an array that
 * describes the entries of an axis. */
static const char *const role_names[] = { "value", "item", "key",    "place", "labels",
                                          "mask",  "map",  "titles", "keys",  "proof" };
enum { ROLES = sizeof role_names / sizeof role_names[0] };

/* Returns an axis as result.json describes it. The caller owns the reference; NULL if there is no
 * memory. */
static json_t *axis_json(const wu_axis *axis)
{
    json_t *const values = axis->array != NULL ? NULL : json_array();
    json_t *const json =
        json_pack("{s:s*, s:s*, s:s*, s:o*}", "name", axis->name, "array", axis->array, "prefix",
                  axis->prefix, "digits", axis->digits > 0 ? json_integer(axis->digits) : NULL);
    bool good = json != NULL && (values != NULL || axis->array != NULL);
    for (uint32_t i = 0; good && values != NULL && i < axis->n; i++)
        good = json_array_append_new(values, axis->words != NULL
                                                 ? json_string(axis->words[i])
                                                 : json_integer(axis->numbers[i])) == 0;
    if (good && values != NULL)
        good = json_object_set(json, "values", values) == 0;
    json_decref(values);
    if (good)
        return json;
    json_decref(json);
    return NULL;
}

json_t *wu_declaration_json(const wu_declaration *d)
{
    json_t *const json =
        json_pack("{s:s, s:s, s:s*, s:s*, s:s*}", "array", d->name, "role", role_names[d->role],
                  "table", d->table, "title", d->title, "unit", d->unit);
    json_t *const axes = d->n_axes > 0 ? json_array() : NULL;
    bool good = json != NULL && (axes != NULL || d->n_axes == 0);
    for (unsigned i = 0; good && i < d->n_axes; i++)
        good = json_array_append_new(axes, axis_json(&d->axes[i])) == 0;
    if (good && axes != NULL)
        good = json_object_set(json, "axes", axes) == 0;
    json_decref(axes);
    if (good)
        return json;
    json_decref(json);
    return NULL;
}

/* --- from JSON ------------------------------------------------------------------------------- */

enum {
    MAX_ARRAYS = 16384,  /* the most arrays of a result */
    MAX_ENTRIES = 65536, /* the most entries of an axis */
    MAX_WORD = 64,       /* the most characters of a word */
    MAX_LINE = 200       /* the most characters of a line of text */
};

/* The functions below that read JSON return NULL if all is right. Otherwise they return the key
 * whose value is wrong, or the address of this string (compared as an address) if memory ran out.
 */
static const char no_memory[] = "memory";

/* The characters that an axis' prefix may have. */
static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/* The characters that most names, and the words of an axis, may have. */
static const char word_characters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";

/* Whether a text is NULL, or consists of 1 to `most` of the given characters, or of printable ASCII
 * characters if `characters` is NULL. */
static bool consists_of(const char *text, const char *characters, size_t most)
{
    const size_t n = text == NULL ? 0 : strlen(text);
    bool good = text == NULL || (n >= 1 && n <= most);
    for (size_t i = 0; good && i < n; i++)
        good = characters != NULL ? strchr(characters, text[i]) != NULL
                                  : text[i] >= ' ' && text[i] <= '~';
    return good;
}

/* Returns the string that is the value of `key`, or NULL if there is none. Adds 1 to *known if
 * there is one. *known is the number of known keys of the object: if the object has more keys, some
 * of them are unknown. */
static const char *read_text(const json_t *json, const char *key, size_t *known)
{
    const char *const text = json_string_value(json_object_get(json, key));
    *known += text != NULL;
    return text;
}

/* Reads the entries of an axis, which are all words or all numbers. */
static const char *read_values(const json_t *list, wu_axis *out)
{
    const size_t n = json_array_size(list);
    if (n < 1 || n > MAX_ENTRIES)
        return "values";
    const bool numbers = json_is_integer(json_array_get(list, 0));
    const char **words = numbers ? NULL : calloc(n, sizeof *words);
    unsigned *const values = numbers ? calloc(n, sizeof *values) : NULL;
    out->words = words;
    out->numbers = values;
    out->n = (uint32_t)n;
    if (words == NULL && values == NULL)
        return no_memory;
    for (size_t i = 0; i < n; i++) {
        const json_t *const value = json_array_get(list, i);
        const json_int_t number = json_integer_value(value);
        if (numbers && json_is_integer(value) && number >= 0 && number <= INT32_MAX)
            values[i] = (unsigned)number;
        else if (!numbers && json_is_string(value) &&
                 consists_of(json_string_value(value), word_characters, MAX_WORD))
            words[i] = json_string_value(value);
        else
            return "values";
    }
    return NULL;
}

static const char *read_axis(const json_t *json, wu_axis *out)
{
    const json_t *const values = json_object_get(json, "values");
    const json_t *const digits = json_object_get(json, "digits");
    size_t known = (values != NULL) + (digits != NULL);
    out->name = read_text(json, "name", &known);
    out->array = read_text(json, "array", &known);
    out->prefix = read_text(json, "prefix", &known);
    if (known != json_object_size(json) || !consists_of(out->name, word_characters, MAX_WORD) ||
        !consists_of(out->array, word_characters, MAX_WORD) ||
        !consists_of(out->prefix, letters, 8) || (out->array == NULL) == (values == NULL))
        return "axes";
    const char *const fault = out->array == NULL ? read_values(values, out) : NULL;
    if (fault != NULL)
        return fault;
    if (digits != NULL && (!json_is_integer(digits) || json_integer_value(digits) < 0 ||
                           json_integer_value(digits) > 9))
        return "digits";
    out->digits = (unsigned)json_integer_value(digits);
    /* An axis whose entries are not words needs a name. An axis of numbers, and no other, needs a
     * prefix. */
    if ((out->words == NULL && out->name == NULL) ||
        (out->numbers != NULL) != (out->prefix != NULL))
        return "axes";
    return NULL;
}

static const char *read_axes(const json_t *list, wu_declaration *out)
{
    const size_t n = json_array_size(list);
    const char *fault = NULL;
    if (list != NULL && (n < 1 || n > WU_MAX_AXES))
        return "axes";
    for (size_t i = 0; i < n && fault == NULL; i++) {
        out->n_axes++;
        fault = read_axis(json_array_get(list, i), &out->axes[i]);
    }
    return fault;
}

/* Whether this is a valid name for arrays that each belong to one item, such as "x_{item}" or
 * "x_{item}_L64_-1_2": a word, then "{item}", then characters that any array's name may have. */
static bool is_per_item_name(const char *name)
{
    static const char name_characters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    const char *const at = strstr(name, mark);
    return at != NULL && at != name && strspn(name, word_characters) == (size_t)(at - name) &&
           strlen(name) <= MAX_LINE &&
           (at[strlen(mark)] == '\0' || consists_of(at + strlen(mark), name_characters, MAX_LINE));
}

/* Checks that the declaration's keys are allowed for its role. */
static const char *check_role(const wu_declaration *d)
{
    /* has_words: the array has one declared axis, and words name the entries of this axis */
    const bool per_item = wu_is_per_item(d), picture = wu_is_picture(d->role),
               has_words = d->n_axes == 1 && d->axes[0].words != NULL;
    if (per_item ? !is_per_item_name(d->name) : !consists_of(d->name, word_characters, MAX_WORD))
        return "array";
    if (!consists_of(d->title, picture ? NULL : word_characters, picture ? MAX_LINE : MAX_WORD))
        return "title";
    if ((d->role == WU_ITEM || d->role == WU_KEY || d->role == WU_POSITION ||
         d->role == WU_TITLES) &&
        d->table == NULL)
        return "table";
    /* A position and an array that describes entries need one axis of words. Values and proofs of
     * the whole result may have any axes. All other arrays must have none. */
    if (d->role == WU_POSITION || d->role == WU_KEYS
            ? !has_words
            : (per_item || (d->role != WU_VALUE && d->role != WU_PROOF)) && d->n_axes > 0)
        return "axes";
    if (d->role == WU_POSITION && d->axes[0].n != 2 && d->axes[0].n != 3)
        return "axes";
    return NULL;
}

static const char *read_declared(const json_t *json, wu_declaration *out)
{
    const json_t *const axes = json_object_get(json, "axes");
    size_t known = axes != NULL, role = 0;
    const char *const name = read_text(json, "role", &known);
    out->name = read_text(json, "array", &known);
    out->table = read_text(json, "table", &known);
    out->title = read_text(json, "title", &known);
    out->unit = read_text(json, "unit", &known);
    while (role < ROLES && (name == NULL || strcmp(name, role_names[role]) != 0))
        role++;
    if (role == ROLES || out->name == NULL)
        return role == ROLES ? "role" : "array";
    if (known != json_object_size(json))
        return ""; /* an unknown key, or a text with another type; it has no name here */
    /* A wrong unit is also reported as a wrong table. */
    if (!consists_of(out->table, word_characters, MAX_WORD) ||
        !consists_of(out->unit, NULL, MAX_WORD))
        return "table";
    out->role = (wu_role)role;
    const char *const fault = read_axes(axes, out);
    return fault != NULL ? fault : check_role(out);
}

tc_status wu_declarations_read(const json_t *list, const char *where, wu_declaration **out,
                               size_t *n, tc_err *err)
{
    *n = 0;
    *out = NULL;
    if (!json_is_array(list) || json_array_size(list) > MAX_ARRAYS)
        return tc_fail(err, TC_BAD_INPUT, "%.600s: \"arrays\" must be a list of at most %d", where,
                       MAX_ARRAYS);
    wu_declaration *const all = calloc(json_array_size(list) + 1, sizeof *all);
    const char *fault = all == NULL ? no_memory : NULL;
    while (fault == NULL && *n < json_array_size(list)) {
        fault = read_declared(json_array_get(list, *n), &all[*n]);
        ++*n;
    }
    *out = all;
    if (fault == no_memory)
        return tc_no_memory(err, where);
    if (fault != NULL)
        return tc_fail(err, TC_BAD_INPUT, "%.600s: arrays[%zu]: \"%s\" is missing or not valid",
                       where, *n - 1, fault);
    return TC_OK;
}

void wu_declarations_free(wu_declaration *list, size_t n)
{
    for (size_t i = 0; list != NULL && i < n; i++)
        for (unsigned k = 0; k < list[i].n_axes; k++) {
            free((void *)(uintptr_t)list[i].axes[k].words);
            free((void *)(uintptr_t)list[i].axes[k].numbers);
        }
    free(list);
}
