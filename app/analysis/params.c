/* Reads and checks the parameters of an analysis, as its table declares them: see params.h. */
#include "app/analysis/params.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/text.h"
#include "workunits/format/archive.h"
#include "workunits/format/json_text.h"

/* --- words ----------------------------------------------------------------------------------- */

/* Appends formatted text to t, cut off where t is full. */
TC_FORMAT(2, 3)
static void add_text(an_text *t, const char *format, ...)
{
    const size_t used = strlen(t->text);
    va_list args;

    va_start(args, format);
    vsnprintf(t->text + used, sizeof t->text - used, format, args);
    va_end(args);
}

/* Whether a choice is a word rather than null or a number. Sets *number to the number, or to NaN
 * for null. */
static bool is_word(const char *choice, double *number)
{
    const bool null = strcmp(choice, "null") == 0;
    char *end;

    *number = strtod(choice, &end);
    if (null)
        *number = NAN;
    return *end != '\0' && !null;
}

/* Appends the choices whose bits are set, such as: "a", "b" or "c". last: the text that is put
 * before the last choice (" or "). */
static void add_choices(an_text *t, const char *const *choices, unsigned bits, const char *last)
{
    double number;
    bool first = true;

    for (unsigned i = 0; choices[i] != NULL; i++) {
        if ((bits >> i & 1) == 0)
            continue;
        if (!first)
            /* bits >> i is 1 at the last bit that is set */
            add_text(t, "%s", choices[i + 1] == NULL || bits >> i == 1 ? last : ", ");
        first = false;
        add_text(t, is_word(choices[i], &number) ? "\"%s\"" : "%s", choices[i]);
    }
}

an_text an_value_in_words(const an_param *p)
{
    const bool is_choice = p->type == AN_CHOICE || p->type == AN_PRESET;
    an_text t = { "" };

    if (p->choices != NULL)
        add_choices(&t, p->choices, ~0u, is_choice ? " or " : ", ");
    if (p->choices != NULL && !is_choice)
        add_text(&t, " or ");
    switch (p->type) {
    case AN_BOOL: add_text(&t, "true or false"); break;
    case AN_INT:
    case AN_NUMBER:
        add_text(&t, p->above_min ? "%s above %.15g, up to %.15g" : "%s from %.15g to %.15g",
                 p->type == AN_INT ? "an integer" : "a number", p->min, p->max);
        break;
    case AN_INTS:
        add_text(&t, "a list of %s%zu %sintegers from %.15g to %.15g",
                 p->count.size > 0 ? "1 to " : "", p->field.size / sizeof(int32_t),
                 p->count.size > 0 ? "different " : "", p->min, p->max);
        break;
    case AN_WORDS:
        add_text(&t, "a list of different words from ");
        add_choices(&t, p->words, ~0u, ", ");
        break;
    case AN_OBJECT: add_text(&t, "an object"); break;
    case AN_OBJECTS:
        add_text(&t, "a list of at most %zu objects", p->field.size / p->stride);
        break;
    case AN_CHOICE:
    case AN_PRESET: break;
    }
    return t;
}

an_text an_condition_in_words(const an_param *p, const an_param *keys)
{
    an_text t = { "" };

    add_choices(&t, keys->choices, p->allowed_choices, " or ");
    return t;
}

/* Describes a value in a short and printable form, for messages. */
static an_text describe_value(const json_t *value)
{
    an_text t = { "" };

    if (json_is_string(value))
        add_text(&t, "\"%s\"", wu_quote(json_string_value(value)).text);
    else if (json_is_array(value))
        add_text(&t, "a list of length %zu", json_array_size(value));
    else if (json_is_object(value))
        add_text(&t, "an object");
    else /* at most 32 bytes: a number, true, false or null */
        (void)json_dumpb(value, t.text, sizeof t.text - 1,
                         JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    return t;
}

/* Fails with a message that says which values are allowed. */
static tc_status refuse_value(const an_param *p, const json_t *value, const char *path, tc_err *err)
{
    return tc_fail(err, TC_BAD_INPUT, "%s: must be %s%s, not %s", path, an_value_in_words(p).text,
                   p->type == AN_OBJECT ? " {\"KEY\": VALUE}" : "", describe_value(value).text);
}

/* Fails with a message that lists the keys and suggests the most similar one. */
static tc_status unknown_key(const an_param *keys, const char *key, const char *where, tc_err *err)
{
    const char *closest = NULL;
    size_t least = TC_UNLIKE_DISTANCE;
    an_text t = { "" };

    for (const an_param *p = keys; p->key != NULL; p++)
        if (tc_is_misspelling(key, p->key, &least))
            closest = p->key;
    if (closest != NULL)
        add_text(&t, " (did you mean \"%s\"?)", closest);
    for (const an_param *p = keys; p->key != NULL; p++)
        add_text(&t, "%s\"%s\"", p == keys ? "; valid keys are " : ", ", p->key);
    return tc_fail(err, TC_BAD_INPUT, "%s: unknown key \"%s\"%s", where, wu_quote(key).text,
                   t.text);
}

/* --- reading --------------------------------------------------------------------------------- */

json_t *an_parse_default(const char *text)
{
    double number;
    const bool word = is_word(text, &number) && strchr("[{", text[0]) == NULL &&
                      strcmp(text, "true") != 0 && strcmp(text, "false") != 0;

    return word ? json_string(text) : wu_json_load(text, strlen(text), JSON_DECODE_ANY, NULL);
}

/* Whether a value matches a choice. A choice "45" matches only the integer 45; a choice "45.0"
 * matches the integer and the real number. */
static bool matches_choice(const json_t *value, const char *choice)
{
    double number;

    if (is_word(choice, &number))
        return json_is_string(value) && strcmp(json_string_value(value), choice) == 0;
    if (isnan(number))
        return json_is_null(value);
    return (strchr(choice, '.') != NULL ? json_is_number(value) : json_is_integer(value)) &&
           json_number_value(value) == number;
}

/* Returns the index of the choice that a value matches, or -1. */
static int index_of(const char *const *choices, const json_t *value)
{
    for (int i = 0; choices != NULL && choices[i] != NULL; i++)
        if (matches_choice(value, choices[i]))
            return i;
    return -1;
}

static int choice_of(const an_param *p, const json_t *value)
{
    return index_of(p->choices, value);
}

static bool is_integer_size(size_t size)
{
    return size == sizeof(int32_t) || size == sizeof(int64_t);
}

/* Returns text that says what is wrong with an entry of a table of parameters, or NULL if the entry
 * is valid.
 */
static const char *param_fault(const an_param *p)
{
    const size_t size = p->field.size;

    if (strlen(p->key) > 31)
        return "has more than 31 bytes";
    if ((p->type == AN_CHOICE || p->type == AN_PRESET || p->word.size > 0) && p->choices == NULL)
        return "has no choices";
    switch (p->type) {
    case AN_BOOL: return size == sizeof(bool) ? NULL : "needs a bool";
    case AN_INT: return is_integer_size(size) ? NULL : "needs an int32_t or int64_t";
    case AN_NUMBER: return size == sizeof(double) ? NULL : "needs a double";
    case AN_CHOICE:
        return size == sizeof(bool) || is_integer_size(size) ? NULL : "needs an enum, int or bool";
    case AN_INTS:
        return size > 0 && size % sizeof(int32_t) == 0 ? NULL : "needs an array of int32_t";
    case AN_WORDS:
        return size != sizeof(uint32_t) ? "needs a uint32_t"
               : p->words == NULL       ? "has no words"
                                        : NULL;
    case AN_OBJECT:
        return p->keys == NULL                     ? "has no keys"
               : size == 0 || size == sizeof(bool) ? NULL
                                                   : "needs a bool, or no field";
    case AN_OBJECTS:
        return p->keys == NULL                           ? "has no keys"
               : p->stride == 0 || size % p->stride != 0 ? "needs an array of structs"
               : p->count.size != sizeof(size_t)         ? "needs a size_t that counts"
                                                         : NULL;
    case AN_PRESET: return p->presets != NULL ? NULL : "has no presets";
    }
    return "has no type";
}

const char *an_params_fault(const an_param *table, char *text, size_t size)
{
    for (const an_param *p = table; p->key != NULL; p++) {
        const char *const fault = param_fault(p);

        if (fault != NULL) {
            snprintf(text, size, "parameter %s %s", p->key, fault);
            return text;
        }
        if (p->keys != NULL && an_params_fault(p->keys, text, size) != NULL)
            return text;
    }
    return NULL;
}

/* Whether a number is within the bounds of the parameter. */
static bool in_bounds(const an_param *p, const json_t *value)
{
    const double number = json_number_value(value);

    /* An analysis may round the number to single precision: it must still be above the minimum. */
    return number >= p->min && number <= p->max && (!p->above_min || (float)number > (float)p->min);
}

/* Stores an integer in a field; the field's size determines the type: int64_t, int32_t or bool. If
 * the size is 0, there is no field, and nothing is stored. */
static void store_value(an_field field, void *base, int64_t value)
{
    void *const target = (char *)base + field.offset;

    if (field.size == sizeof(int64_t))
        *(int64_t *)target = value;
    else if (field.size == sizeof(int32_t))
        *(int32_t *)target = (int32_t)value;
    else if (field.size == sizeof(bool))
        *(bool *)target = value != 0;
}

/* Reads an AN_INTS, a list of integers. Its length is that of the array; but if the parameter has a
 * field `count`, the length is from 1 to that of the array, and the integers must be different. */
static tc_status read_ints(const an_param *p, const json_t *list, void *base, const char *path,
                           tc_err *err)
{
    int32_t *const values = (void *)((char *)base + p->field.offset);
    const size_t n = json_array_size(list), most = p->field.size / sizeof *values;

    if (!json_is_array(list) || n > most || n < (p->count.size > 0 ? 1 : most))
        return refuse_value(p, list, path, err);
    for (size_t i = 0; i < n; i++) {
        const json_t *const value = json_array_get(list, i);

        if (!json_is_integer(value) || !in_bounds(p, value))
            return tc_fail(err, TC_BAD_INPUT,
                           "%s[%zu]: must be an integer from %.15g to %.15g, not %s", path, i,
                           p->min, p->max, describe_value(value).text);
        values[i] = (int32_t)json_integer_value(value);
        for (size_t j = 0; p->count.size > 0 && j < i; j++)
            if (values[j] == values[i])
                return tc_fail(err, TC_BAD_INPUT, "%s: %d appears twice", path, (int)values[i]);
    }
    store_value(p->count, base, (int64_t)n);
    return TC_OK;
}

/* Reads an AN_WORDS: a list of words. */
static tc_status read_words(const an_param *p, const json_t *list, void *base, const char *path,
                            tc_err *err)
{
    const size_t n = json_array_size(list);
    uint32_t bits = 0;

    if (!json_is_array(list) || n == 0)
        return refuse_value(p, list, path, err);
    for (size_t i = 0; i < n; i++) {
        const json_t *const value = json_array_get(list, i);
        const int word = index_of(p->words, value);

        if (word < 0) /* not one of the words */
            return refuse_value(p, value, path, err);
        if ((bits >> word & 1) != 0)
            return tc_fail(err, TC_BAD_INPUT, "%s: \"%s\" appears twice", path, p->words[word]);
        bits |= 1u << word;
    }
    store_value(p->field, base, bits);
    return TC_OK;
}

static tc_status read_object(const an_param *keys, const json_t *object, void *base, json_t *out,
                             const char *where, tc_err *err);

/* Reads an AN_OBJECTS: a list of objects. The arguments are those of read_value. */
static tc_status read_objects(const an_param *p, const json_t *list, void *base, json_t *out,
                              const char *where, tc_err *err)
{
    const size_t n = json_array_size(list);
    tc_status status = TC_OK;

    if (!json_is_array(list) || n > p->field.size / p->stride)
        return refuse_value(p, list, where, err);
    for (size_t i = 0; status == TC_OK && i < n; i++) {
        void *const element = (char *)base + p->field.offset + i * p->stride;
        json_t *const recorded = json_object();
        char element_path[TC_ERR_MAX];

        snprintf(element_path, sizeof element_path, "%.900s[%zu]", where, i);
        status = json_array_append_new(out, recorded) != 0
                     ? tc_no_memory(err, "the parameters")
                     : read_object(p->keys, json_array_get(list, i), element, recorded,
                                   element_path, err);
    }
    store_value(p->count, base, (int64_t)n);
    return status;
}

/* The number of a JSON value; -0 becomes 0, so that both give the same result. */
static double number_of(const json_t *value)
{
    const double number = json_number_value(value);

    return number == 0 ? 0 : number;
}

/* Reads the value of a key into the struct at `base`. out: if the value is an object or a list of
 * objects, an empty JSON object or list, to which this function adds the value with its defaults,
 * as the result records it; else unused. path: the path of the key, for messages. */
static tc_status read_value(const an_param *p, const json_t *value, void *base, json_t *out,
                            const char *path, tc_err *err)
{
    const int choice = choice_of(p, value);
    bool good = choice >= 0;

    if (good) { /* a choice, or a further allowed value (an_param.choices) */
        store_value(p->type == AN_CHOICE ? p->field : p->word, base,
                    p->type == AN_CHOICE ? choice : choice + 1);
        return TC_OK;
    }
    switch (p->type) {
    case AN_BOOL:
        good = json_is_boolean(value);
        store_value(p->field, base, json_is_true(value));
        break;
    case AN_INT:
        good = json_is_integer(value) && in_bounds(p, value);
        store_value(p->field, base, json_integer_value(value));
        break;
    case AN_NUMBER:
        good = json_is_number(value) && in_bounds(p, value);
        *(double *)(void *)((char *)base + p->field.offset) = number_of(value);
        break;
    case AN_INTS: return read_ints(p, value, base, path, err);
    case AN_WORDS: return read_words(p, value, base, path, err);
    case AN_OBJECTS: return read_objects(p, value, base, out, path, err);
    case AN_OBJECT:
        store_value(p->field, base, true);
        return json_is_object(value) ? read_object(p->keys, value, base, out, path, err)
                                     : refuse_value(p, value, path, err);
    case AN_CHOICE:
    case AN_PRESET: break;
    }
    return good ? TC_OK : refuse_value(p, value, path, err);
}

/* Returns the value that the result records: for an object or a list of objects, an empty object or
 * list, which read_value fills; for a parameter of real numbers, a real number, even if an integer
 * was given (45.0 for 45); else the value itself. */
static json_t *recorded_value(const an_param *p, json_t *value)
{
    const bool real =
        p->type == AN_NUMBER || (p->type == AN_CHOICE && strchr(p->choices[0], '.') != NULL);

    if (p->keys != NULL && json_is_object(value))
        return json_object();
    if (p->keys != NULL && json_is_array(value))
        return json_array();
    return real && json_is_number(value) ? json_real(number_of(value)) : json_incref(value);
}

/* Reads a key of an object, or its default, as read_value does, and records the value in `out`. */
static tc_status read_key(const an_param *p, const json_t *object, void *base, json_t *out,
                          const char *path, tc_err *err)
{
    /* optional: the key may be missing, and then has no value (an_param.default_value is ""). */
    const bool optional =
        p->type == AN_PRESET || (p->default_value != NULL && p->default_value[0] == '\0');
    json_t *value = json_incref(json_object_get(object, p->key)), *recorded;
    tc_status status;

    if (value == NULL && optional)
        return TC_OK;
    if (value == NULL && p->default_value == NULL)
        return tc_fail(err, TC_BAD_INPUT, "%s: is required: %s", path, an_value_in_words(p).text);
    if (value == NULL)
        value = an_parse_default(p->default_value);
    recorded = value != NULL ? recorded_value(p, value) : NULL;
    status = json_object_set_new(out, p->key, recorded) != 0
                 ? tc_no_memory(err, "the parameters")
                 : read_value(p, value, base, recorded, path, err);
    if (p->only_if_given && json_object_get(object, p->key) == NULL)
        json_object_del(out, p->key);
    json_decref(value);
    return status;
}

/* Reads an object into the struct at `base`, and records its parameters, with defaults, in `out`.
 * keys: the table of the object's keys; its first key determines which others are allowed
 * (an_param.allowed_choices), and has been read before them. */
static tc_status read_object(const an_param *keys, const json_t *object, void *base, json_t *out,
                             const char *where, tc_err *err)
{
    json_t *const object_to_iterate = (json_t *)(uintptr_t)object;
    const char *key;
    json_t *value;

    if (!json_is_object(object))
        return tc_fail(err, TC_BAD_INPUT, "%s: must be an object, not %s", where,
                       describe_value(object).text);
    json_object_foreach(object_to_iterate, key, value) {
        const an_param *p = keys;

        while (p->key != NULL && strcmp(p->key, key) != 0)
            p++;
        if (p->key == NULL)
            return unknown_key(keys, key, where, err);
    }
    for (const an_param *p = keys; p->key != NULL; p++) {
        char key_path[TC_ERR_MAX];

        snprintf(key_path, sizeof key_path, "%.900s.%.31s", where, p->key);
        if (p->allowed_choices == 0 ||
            (p->allowed_choices >> choice_of(keys, json_object_get(out, keys->key)) & 1) != 0)
            return_if_error(read_key(p, object, base, out, key_path, err));
        else if (json_object_get(object, p->key) != NULL)
            return tc_fail(err, TC_BAD_INPUT, "%s: goes only with %s %s", key_path, keys->key,
                           an_condition_in_words(p, keys).text);
    }
    return TC_OK;
}

tc_status an_params_read(const an_param *keys, const json_t *json, an_params_head *params,
                         const char *where, tc_err *err)
{
    assert(params->as_run == NULL);
    const int preset =
        keys->type == AN_PRESET ? choice_of(keys, json_object_get(json, keys->key)) : -1;
    json_t *const given = (json_t *)(uintptr_t)json;
    json_auto_t *merged = preset < 0 ? json_incref(given) : an_parse_default(keys->presets[preset]);

    params->as_run = json_object();
    if (params->as_run == NULL || (preset >= 0 && json_object_update(merged, given) != 0))
        return tc_no_memory(err, "the parameters");
    else
        return_if_error(read_object(keys, merged, params, params->as_run, where, err));
    if (preset >= 0)
        json_object_del(params->as_run, keys->key);
    return TC_OK;
}
