/*
 * Untrusted text (names, titles, parameters, words) on its way to a person's terminal.
 */
#ifndef TC_TEXT_H
#define TC_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The code point at text, which is not empty; the bytes used, or 0 for what is not UTF-8
 * (overlong forms and surrogates are not). */
size_t tc_decode_utf8(const char *text, uint32_t *out);

/* The first n bytes of text, or all where there are fewer; the caller frees. NULL: no memory. */
char *tc_text_of(const char *text, size_t n);

/* Makes text harmless for a terminal, in place: '?' for every byte of what controls it (C0,
 * DEL, C1), of what changes the direction or the line of text, and of what is not UTF-8.
 * Returns text. */
char *tc_plain(char *text);
/* Writes it so; text itself stays. */
void tc_put_plain(const char *text, FILE *to);

enum {
    TC_DURATION = 40 /* bytes */
};
/* "about 40 minutes", as people say what they know to a factor of two; "under a second". */
void tc_duration(double seconds, char out[TC_DURATION]);

enum {
    TC_UNLIKE = 3 /* letters */
};
/* Whether text is likely meant to be the word, of up to 31 bytes, by fewer than *least letters that
 * differ, which becomes their number; begin with TC_UNLIKE. */
bool tc_is_like(const char *text, const char *word, size_t *least);

#endif
