#include "app/analysis/params.h"

#include <stdio.h>
#include <string.h>

#include "workunits/format/job.h"

typedef struct word_list {
    char text[256];
} word_list;

/* "a", "b", "c" for a message. */
static word_list list_of(const char *const *words)
{
    word_list list = { "" };

    for (size_t i = 0; words[i] != NULL; i++) {
        const size_t used = strlen(list.text);

        snprintf(list.text + used, sizeof list.text - used, "%s\"%s\"", i > 0 ? ", " : "", words[i]);
    }
    return list;
}

tc_status an_check_keys(const json_t *object, const char *const *known, const char *where, tc_err *err)
{
    const char *key;
    json_t *value;

    if (!json_is_object(object))
        return tc_fail(err, TC_BAD_INPUT, "%s: must be an object", where);
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        size_t i = 0;

        while (known[i] != NULL && strcmp(known[i], key) != 0)
            i++;
        if (known[i] == NULL)
            return tc_fail(err, TC_BAD_INPUT, "%s: unknown key \"%.64s\"; there are %s", where, key,
                           list_of(known).text);
    }
    return TC_OK;
}

tc_status an_get_int(const json_t *object, const char *key, int64_t lo, int64_t hi,
                     int64_t *value, const char *where, tc_err *err)
{
    const json_t *v = json_object_get(object, key);

    if (v == NULL)
        return TC_OK;
    if (!json_is_integer(v) || json_integer_value(v) < lo || json_integer_value(v) > hi)
        return tc_fail(err, TC_BAD_INPUT, "%s.%s: must be an integer from %lld to %lld",
                       where, key, (long long)lo, (long long)hi);
    *value = json_integer_value(v);
    return TC_OK;
}

tc_status an_get_sizes(const json_t *object, const char *least_key, const char *most_key,
                       int64_t *least, int64_t *most, const char *where, tc_err *err)
{
    tc_status st;

    *least = 1;
    *most = INT64_MAX;
    st = an_get_int(object, least_key, 1, (int64_t)WU_MAX_VOXELS, least, where, err);
    if (st == TC_OK && !json_is_null(json_object_get(object, most_key)))
        st = an_get_int(object, most_key, 1, (int64_t)WU_MAX_VOXELS, most, where, err);
    if (st == TC_OK && *most < *least)
        st = tc_fail(err, TC_BAD_INPUT, "%s.%s: must not be smaller than %s", where, most_key, least_key);
    return st;
}

tc_status an_get_bool(const json_t *object, const char *key, bool *value, const char *where, tc_err *err)
{
    const json_t *v = json_object_get(object, key);

    if (v == NULL)
        return TC_OK;
    if (!json_is_boolean(v))
        return tc_fail(err, TC_BAD_INPUT, "%s.%s: must be true or false", where, key);
    *value = json_is_true(v);
    return TC_OK;
}

tc_status an_get_number(const json_t *object, const char *key, double lo, double hi,
                        double *value, const char *where, tc_err *err)
{
    const json_t *v = json_object_get(object, key);
    double number;

    if (v == NULL)
        return TC_OK;
    number = json_number_value(v);
    if (!json_is_number(v) || !(number >= lo && number <= hi))
        return tc_fail(err, TC_BAD_INPUT, "%s.%s: must be a number from %g to %g", where, key, lo, hi);
    *value = number;
    return TC_OK;
}

tc_status an_get_choice(const json_t *object, const char *key, const char *const *choices,
                        int *index, const char *where, tc_err *err)
{
    const json_t *v = json_object_get(object, key);

    if (v == NULL)
        return TC_OK;
    for (int i = 0; choices[i] != NULL; i++)
        if (json_is_string(v) && strcmp(json_string_value(v), choices[i]) == 0) {
            *index = i;
            return TC_OK;
        }
    return tc_fail(err, TC_BAD_INPUT, "%s.%s: must be one of %s", where, key, list_of(choices).text);
}
