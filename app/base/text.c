/* Text for people: decodes UTF-8, makes untrusted text safe to print, writes durations, and finds
 * similar words. */
#include "app/base/text.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

size_t tc_decode_utf8(const char *text, uint32_t *out)
{
    assert(text[0] != '\0');
    /* [n]: the least code point that needs n bytes; a lesser one in n bytes is an overlong form. */
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const unsigned char *const p = (const unsigned char *)text;
    if (p[0] < 0x80) {
        *out = p[0];
        return 1;
    }
    const size_t n = p[0] >= 0xf0 && p[0] < 0xf8   ? 4
                     : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
                     : p[0] >= 0xc0 && p[0] < 0xe0 ? 2
                                                   : 0;
    if (n == 0)
        return 0;
    uint32_t c = p[0] & (0xffu >> (n + 1)); /* without the n ones and the zero that begin it */
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3fu);
    }
    if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) /* 0xd800...: surrogates */
        return 0;
    *out = c;
    return n;
}

char *tc_strndup(const char *text, size_t n)
{
    const size_t length = strnlen(text, n);
    char *const copy = malloc(length + 1);

    if (copy != NULL) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}

/* Whether a code point can control a terminal: control characters (U+009B alone begins a command in
 * xterm and VTE), Unicode's Bidi_Control, and separators of lines and paragraphs. */
static bool controls_terminal(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x061c || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

/* Returns the number of bytes of the character at `text`, 1 if it is not UTF-8. Sets *is_safe to
 * whether the character is valid and cannot control a terminal. */
static size_t character_length(const char *text, bool *is_safe)
{
    uint32_t c = 0;
    const size_t n = tc_decode_utf8(text, &c);
    *is_safe = n > 0 && !controls_terminal(c);
    return n > 0 ? n : 1;
}

char *tc_make_printable(char *text)
{
    bool is_safe;
    for (char *c = text; *c != '\0';) {
        const size_t n = character_length(c, &is_safe);
        for (const char *const end = c + n; c < end; c++)
            if (!is_safe)
                *c = '?';
    }
    return text;
}

void tc_print_printable(const char *text, FILE *to)
{
    bool is_safe;
    while (*text != '\0') {
        const size_t n = character_length(text, &is_safe);
        for (const char *const end = text + n; text < end; text++)
            fputc(is_safe ? *text : '?', to);
    }
}

/* Rounds to a multiple of a step that grows with the value: 1 for values below 10, 5 below 50, 10
 * below 100, then 50, 100, 500 and so on. */
static unsigned long round_number(double value)
{
    unsigned long step = 1;
    /* factor alternates between 5 and 2: 7 - 5 is 2, 7 - 2 is 5. */
    for (unsigned factor = 5; value >= 10 * (double)step; factor = 7 - factor)
        step *= factor;
    return (unsigned long)(value / (double)step + 0.5) * step;
}

void tc_format_duration(double seconds, char out[TC_DURATION_SIZE])
{
    static const struct {
        double seconds; /* seconds of one unit */
        double limit;   /* from this number of units on, the next unit is used */
        const char *name;
    } units[] = {
        { 1, 55, "second" },   { 60, 55, "minute" },      { 3600, 36, "hour" },
        { 86400, 500, "day" }, { 31557600, 1e6, "year" },
    };
    size_t i = 0;
    if (seconds < 1) {
        snprintf(out, TC_DURATION_SIZE, "under a second");
        return;
    }
    while (i + 1 < sizeof units / sizeof units[0] && seconds >= units[i].limit * units[i].seconds)
        i++;
    const double value = seconds / units[i].seconds;
    const unsigned long n = round_number(value < units[i].limit ? value : units[i].limit);
    snprintf(out, TC_DURATION_SIZE, "about %lu %s%s", n, units[i].name, n == 1 ? "" : "s");
}

/* Returns the least number of letters to insert, delete or change to turn a into b, by Wagner and
 * Fischer's algorithm. After i letters of a, row[j] is the distance of these to the first j letters
 * of b. b has up to 31 letters. */
static size_t edit_distance(const char *a, const char *b)
{
    assert(strlen(b) < 32);
    size_t row[32];

    for (size_t j = 0; j <= strlen(b); j++)
        row[j] = j;
    for (; *a != '\0'; a++) {
        size_t diagonal = row[0]++;

        for (size_t j = 0; b[j] != '\0'; j++) {
            const size_t change = diagonal + (*a != b[j]);
            const size_t insert_or_delete = (row[j] < row[j + 1] ? row[j] : row[j + 1]) + 1;

            diagonal = row[j + 1];
            row[j + 1] = change < insert_or_delete ? change : insert_or_delete;
        }
    }
    return row[strlen(b)];
}

/* *least: the distance of the most similar word so far. Words are also not similar if more than
 * half of the letters differ. */
bool tc_is_misspelling(const char *text, const char *word, size_t *least)
{
    const size_t distance = edit_distance(text, word);

    if (distance >= *least || 2 * distance > strlen(word))
        return false;
    *least = distance;
    return true;
}
