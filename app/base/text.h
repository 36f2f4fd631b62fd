/*
 * Text for people: untrusted text (names, titles, parameters) made safe to print, durations, and
 * suggestions for misspelled words.
 */
#ifndef TC_TEXT_H
#define TC_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Decodes the code point at `text`, which must not be empty, into *out. Returns its number of
 * bytes, or 0 if it is not valid UTF-8 (overlong forms and surrogates are invalid). */
size_t tc_decode_utf8(const char *text, uint32_t *out);

/* Returns a copy of the first n bytes of text, or of all its bytes if it is shorter; the caller
 * frees the copy. NULL if there is not enough memory. */
char *tc_strndup(const char *text, size_t n);

/* Makes text safe to print on a terminal, in place: writes '?' for every byte of a control
 * character (C0, DEL, C1), of a character that changes the direction or the line of text, and for
 * every byte that is not UTF-8. Returns text. */
char *tc_make_printable(char *text);
/* Prints the text as tc_make_printable would change it; the text itself remains unchanged. */
void tc_print_printable(const char *text, FILE *to);

enum {
    TC_DURATION_SIZE = 40 /* bytes of tc_format_duration's text */
};
/* Writes a duration that is known to a factor of two: "about 40 minutes", "under a second". */
void tc_format_duration(double seconds, char out[TC_DURATION_SIZE]);

enum {
    TC_UNLIKE_DISTANCE = 3 /* words at this distance in letters, or a larger one, are not similar */
};
/* Whether text is probably a misspelling of `word` (up to 31 bytes), and its distance from `word`
 * in letters is less than *least; if so, sets *least to that distance. To find the most similar of
 * several words, set *least to TC_UNLIKE_DISTANCE and call this for each word. */
bool tc_is_misspelling(const char *text, const char *word, size_t *least);

#endif
