/*
 * JSON as text: parsed within limits, and written without loss. jansson
 * forgets some allocations that fail: a string that is parsed then lacks
 * characters, an object that is written lacks keys. So its memory comes from
 * here, where failures are remembered.
 */
#ifndef WU_JSON_TEXT_H
#define WU_JSON_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "app/base/status.h"

/* Parses an object of at most `max_values` values, without duplicate keys. *out is the
 * caller's. where, name: the file and the member, for messages; faults are given
 * with line and column. */
tc_status wu_json_parse(const char *where, const char *name, const char *text, size_t n,
                        uint64_t max_values, json_t **out, tc_err *err);

/* json_loadb and json_load_file, by which jansson does no harm where memory ends: NULL then. fault
 * may be NULL. */
json_t *wu_json_load(const char *text, size_t n, size_t flags, json_error_t *fault);
json_t *wu_json_load_file(const char *path, size_t flags, json_error_t *fault);

/* How a file's JSON is written. */
#define WU_JSON_LAYOUT ((size_t)(JSON_SORT_KEYS | JSON_INDENT(2)))
/* json_dumps of an object or a list, which is read again: NULL unless it is the same, where
 * memory ran out on the way. free(). */
char *wu_json_text(const json_t *json, size_t flags);
/* Whether the texts that this program writes of both are the same: to json_equal -0.0 is 0.0. False
 * also where there is no memory, wu_json_starved. */
bool wu_json_same(const json_t *a, const json_t *b);
/* Whether there is a zero below that no texcell writes. */
bool wu_json_negative_zero(const json_t *json);
/* The bytes of wu_json_text, or 0. */
uint64_t wu_json_size(const json_t *json, size_t flags);

/* Remembers from now on; the calls above do so, too. */
void wu_json_watch(void);
/* Whether jansson has ever been refused memory since. */
bool wu_json_starved(void);
/* What a program found. A fault becomes TC_NO_MEMORY if jansson was refused memory on the
 * way: JSON may have been misread then, and it is no fault of a file. */
tc_status wu_json_verdict(tc_status found, tc_err *err);

/* Text from a file made fit for a message: control and non-ASCII bytes become
 * '?', and long text is cut ("..."). Use: wu_quote(text).text. */
typedef struct wu_quoted {
    char text[132];
} wu_quoted;
wu_quoted wu_quote(const char *text);

#endif
