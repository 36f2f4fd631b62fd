/* Parses untrusted JSON within limits, writes JSON, and records failed allocations of jansson. */
#include "workunits/format/json_text.h"

#include <math.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Whether an allocation of jansson has failed. There is one variable, as jansson has one allocator
 * for the whole program. */
static atomic_bool out_of_memory;
/* The setjmp at which this thread continues if an allocation fails while it parses JSON; NULL while
 * the thread is not parsing. */
static _Thread_local jmp_buf *reading;

/* The allocator for jansson. While this thread parses JSON, does not return after a failure. */
static void *allocate(size_t n)
{
    void *const memory = malloc(n);

    if (memory == NULL) {
        atomic_store(&out_of_memory, true);
        if (reading != NULL)
            longjmp(*reading, 1);
    }
    return memory;
}

void wu_json_install_allocator(void)
{
    json_set_alloc_funcs(allocate, free);
}

bool wu_json_out_of_memory(void)
{
    return atomic_load(&out_of_memory);
}

tc_status wu_json_check_memory(tc_status found, tc_err *err)
{
    if (!wu_json_out_of_memory() || (found != TC_USAGE && found != TC_BAD_INPUT &&
                                     found != TC_NO_MATCH && found != TC_INTERNAL))
        return found;
    return tc_no_memory(err, "JSON");
}

/* Parses the file `path` or, if `path` is NULL, the text. If an allocation for a string fails,
 * jansson accesses memory beyond the string. Therefore the first allocation that fails aborts
 * parsing by longjmp; the memory allocated until then is leaked. */
static json_t *load_json(const char *path, const char *text, size_t n, size_t flags,
                         json_error_t *fault)
{
    jmp_buf back;
    json_t *volatile json = NULL;

    wu_json_install_allocator();
    if (fault != NULL)
        *fault = (json_error_t){ .line = -1, .column = -1, .text = "out of memory" };
    reading = &back;
    if (setjmp(back) == 0)
        json =
            path != NULL ? json_load_file(path, flags, fault) : json_loadb(text, n, flags, fault);
    reading = NULL;
    return json;
}

json_t *wu_json_load(const char *text, size_t n, size_t flags, json_error_t *fault)
{
    return load_json(NULL, text, n, flags, fault);
}

json_t *wu_json_load_file(const char *path, size_t flags, json_error_t *fault)
{
    return load_json(path, NULL, 0, flags, fault);
}

/* Returns an upper bound of the number of values in a JSON text. Values are counted before parsing,
 * because a value of two bytes of text may take a few hundred bytes of memory when it is parsed. */
static uint64_t count_values(const char *text, size_t n)
{
    uint64_t count = 1;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        const char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == ',' || c == '[' || c == '{') {
            count++;
        }
    }
    return count;
}

tc_status wu_json_parse(const char *where, const char *name, const char *text, size_t n,
                        uint64_t max_values, json_t **out, tc_err *err)
{
    json_error_t fault;
    *out = NULL;
    if (count_values(text, n) > max_values)
        return tc_fail(err, TC_BAD_INPUT, "%s: %s: more than %llu values", where, name,
                       (unsigned long long)max_values);
    json_t *const json = wu_json_load(text, n, JSON_REJECT_DUPLICATES, &fault);
    tc_status status = TC_OK;
    if (wu_json_out_of_memory())
        status = tc_no_memory(err, name);
    else if (json == NULL)
        status = tc_fail(err, TC_BAD_INPUT, "%s: %s: line %d, column %d: %s", where, name,
                         fault.line, fault.column, wu_quote(fault.text).text);
    else if (!json_is_object(json))
        status = tc_fail(err, TC_BAD_INPUT, "%s: %s: must be a JSON object", where, name);
    if (status == TC_OK)
        *out = json;
    else
        json_decref(json);
    return status;
}

char *wu_json_text(const json_t *json, size_t flags)
{
    wu_json_install_allocator();
    char *const text = json_dumps(json, flags);
    json_t *const parsed = text == NULL ? NULL : wu_json_load(text, strlen(text), 0, NULL);
    const bool same = json_equal(json, parsed) && !wu_json_out_of_memory();
    json_decref(parsed);
    if (same)
        return text;
    free(text);
    return NULL;
}

bool wu_json_same(const json_t *a, const json_t *b)
{
    wu_json_install_allocator();
    char *const one = json_equal(a, b) ? json_dumps(a, WU_JSON_LAYOUT | JSON_ENCODE_ANY) : NULL;
    char *const other = one != NULL ? json_dumps(b, WU_JSON_LAYOUT | JSON_ENCODE_ANY) : NULL;
    const bool same = other != NULL && strcmp(one, other) == 0;
    free(one);
    free(other);
    return same;
}

bool wu_json_has_negative_zero(const json_t *json)
{
    const char *key;
    json_t *value;
    size_t i;
    bool found = json_is_real(json) && json_real_value(json) == 0 && signbit(json_real_value(json));
    json_array_foreach(json, i, value)
        found = found || wu_json_has_negative_zero(value);
    json_object_foreach((json_t *)(uintptr_t)json, key, value)
        found = found || wu_json_has_negative_zero(value);
    return found;
}

uint64_t wu_json_size(const json_t *json, size_t flags)
{
    wu_json_install_allocator();
    const size_t n = json_dumpb(json, NULL, 0, flags);
    return wu_json_out_of_memory() ? 0 : n;
}

wu_quoted_text wu_quote(const char *text)
{
    wu_quoted_text q;
    const size_t room = sizeof q.text - 4; /* without "..." and its NUL */
    size_t n = 0;
    for (; n < room && text[n] != '\0'; n++) {
        const char c = text[n];
        q.text[n] = (char)(c >= 0x20 && c < 0x7f ? c : '?');
    }
    memcpy(q.text + n, text[n] != '\0' ? "..." : "", text[n] != '\0' ? 4 : 1);
    return q;
}
