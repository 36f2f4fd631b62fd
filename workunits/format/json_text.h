/*
 * Parses JSON text within limits, and writes it. jansson does not report every failed allocation: a
 * parsed string may then lack characters, and the text of an object may lack keys. Therefore these
 * functions make jansson use an allocator that records failures.
 */
#ifndef WU_JSON_TEXT_H
#define WU_JSON_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "app/base/status.h"

/* Parses an object of at most max_values values, without duplicate keys, into *out; the caller owns
 * the reference. where, name: the file and the member, for messages, which also state line and
 * column. */
tc_status wu_json_parse(const char *where, const char *name, const char *text, size_t n,
                        uint64_t max_values, json_t **out, tc_err *err);

/* The same as jansson's json_loadb and json_load_file, but safe if memory runs out: they then
 * return NULL. fault: may be NULL. */
json_t *wu_json_load(const char *text, size_t n, size_t flags, json_error_t *fault);
json_t *wu_json_load_file(const char *path, size_t flags, json_error_t *fault);

/* The flags with which JSON in files is written. */
#define WU_JSON_LAYOUT ((size_t)(JSON_SORT_KEYS | JSON_INDENT(2)))
/* Returns the text of an object or a list, as json_dumps does, to be freed by free(). Parses the
 * text as a check, and returns NULL if the parsed JSON differs or memory ran out. */
char *wu_json_text(const json_t *json, size_t flags);
/* Whether both have the same text. Unlike json_equal, distinguishes -0.0 from 0.0. Also returns
 * false if memory has run out (wu_json_out_of_memory). */
bool wu_json_same(const json_t *a, const json_t *b);
/* Whether the JSON contains -0.0, which texcell never writes. */
bool wu_json_has_negative_zero(const json_t *json);
/* Returns the length of the text of wu_json_text in bytes, or 0 if memory has run out. */
uint64_t wu_json_size(const json_t *json, size_t flags);

/* Makes jansson use the allocator that records failures. The functions above call it. */
void wu_json_install_allocator(void);
/* Whether an allocation of jansson has failed since wu_json_install_allocator was first called. */
bool wu_json_out_of_memory(void);
/* Corrects `found`, the status that a function which used JSON has returned. If it is an error that
 * blames a file or the program, and an allocation of jansson has failed, returns TC_NO_MEMORY,
 * because JSON may have been misread. Otherwise returns `found`. */
tc_status wu_json_check_memory(tc_status found, tc_err *err);

/* Text from a file in a form for messages: bytes that are control characters or not ASCII become
 * '?', and long text is cut and ends with "...". To be used as wu_quote(text).text. */
typedef struct wu_quoted_text {
    char text[132];
} wu_quoted_text;
wu_quoted_text wu_quote(const char *text);

#endif
