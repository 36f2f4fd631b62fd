/* Prints the progress bar and the log lines of a job. */
#include "app/progress.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/base/os.h"
#include "app/base/text.h"

/* Widths in columns. */
enum {
    COLUMNS_MAX = 200,    /* the longest line */
    COLUMNS_UNKNOWN = 80, /* assumed width of a terminal whose width is unknown */
    BAR_MAX = 30,         /* the longest bar */
    BAR_LEAST = 5,        /* the shortest bar; with less space no bar is drawn */
    NAME_LEAST = 5        /* the shortest abbreviated name; with less space no name is printed */
};

progress progress_begin(bool quiet, bool by_client)
{
    return (progress){ .quiet = quiet,
                       .terminal = !quiet && !by_client && isatty(STDERR_FILENO) == 1 };
}

/* Returns the number of columns that a line may have. The terminal's last column is not used, as
 * some terminals begin a new line after it. */
static size_t terminal_room(void)
{
    size_t columns = os_terminal_columns();

    if (columns == 0)
        columns = COLUMNS_UNKNOWN;
    return (columns < COLUMNS_MAX ? columns : COLUMNS_MAX) - 1;
}

/* Writes the estimated remaining time, such as "  1:05 left", computed from the progress since the
 * bar was first drawn; or "" before an estimate is possible. */
static void describe_time_left(const progress *p, double fraction, char *out, size_t size)
{
    const double done = fraction - p->first_fraction, seconds = p->drawn_at - p->first_drawn_at;
    const double left = done > 0 ? (1 - fraction) * seconds / done : 0;
    const unsigned long s = left < 1e9 ? (unsigned long)(left + 0.5) : 1000000000;

    if (seconds < 1 || !(done > 0))
        out[0] = '\0';
    else if (s >= 100 * 3600UL)
        snprintf(out, size, "  %lu days left", s / 86400);
    else if (s >= 3600)
        snprintf(out, size, "  %lu:%02lu:%02lu left", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, size, "  %lu:%02lu left", s / 60, s % 60);
}

/* Writes "  NAME (2 of 5)" in at most n columns. If the space is too small, abbreviates the name,
 * or writes only the numbers, or nothing. */
static void describe_item(const progress *p, const char *name, size_t item, size_t n, char *out,
                          size_t size)
{
    char numbers[64];
    const size_t length =
        (size_t)snprintf(numbers, sizeof numbers, " (%zu of %zu)", item + 1, p->n_items);
    const size_t name_length = strlen(name), room = n > length + 2 ? n - length - 2 : 0;

    if (name_length <= room)
        snprintf(out, size, "  %s%s", name, numbers);
    else if (room >= NAME_LEAST) {
        size_t name_bytes = room - 3;
        while (name_bytes > 0 &&
               (name[name_bytes] & 0xc0) == 0x80) /* does not cut within a UTF-8 character */
            name_bytes--;
        snprintf(out, size, "  %.*s...%s", (int)name_bytes, name, numbers);
    } else
        snprintf(out, size, "%s", length <= n ? numbers : "");
}

void progress_show(progress *p, double fraction, const char *name, size_t item)
{
    assert(fraction >= 0 && fraction <= 1 + 1e-9 && item < p->n_items);
    static const char full[] = "##############################",
                      empty[] = "..............................";
    const double time = tc_seconds();
    char line[2 * COLUMNS_MAX + 64], left[40], text[COLUMNS_MAX + 64];
    size_t room, fixed, bar; /* numbers of columns: of the line, of its fixed parts, of the bar */
    int done;                /* columns of the bar that are filled */

    if (!p->terminal || time - p->drawn_at < 0.1)
        return;
    room = terminal_room();
    if (p->drawn_at == 0) {
        p->first_drawn_at = time;
        p->first_fraction = fraction;
    }
    p->drawn_at = time;
    describe_time_left(p, fraction, left, sizeof left);
    fixed = strlen("100.0%") + (left[0] != '\0' ? strlen(left) : strlen("  0:00 left"));
    /* The bar, with the 3 characters "[" and "] " around it, gets up to half of the remaining
     * columns. */
    bar = room > fixed ? (room - fixed) / 2 : 0;
    bar = bar > BAR_MAX + 3 ? BAR_MAX : bar < BAR_LEAST + 3 ? 0 : bar - 3;
    fixed += bar > 0 ? bar + 3 : 0;
    done = (int)(fraction * (double)bar);
    describe_item(p, name, item, room > fixed ? room - fixed : 0, text, sizeof text);
    snprintf(line, sizeof line, "%s%.*s%.*s%s%5.1f%%%s%s", bar > 0 ? "[" : "", done, full,
             (int)bar - done, empty, bar > 0 ? "] " : "", 100 * fraction, text, left);
    fprintf(stderr, "\r%.*s\033[K", (int)room, line); /* \033[K erases the rest of the line */
    fflush(stderr);
}

void progress_clear(const progress *p)
{
    if (p->terminal)
        fputs("\r\033[K", stderr);
}

bool progress_reports_item(progress *p, size_t item)
{
    assert(item < p->n_items);
    /* In a job of at most all_reported items, all items are reported. In a larger job: the first
     * item, the last item, items that complete a quarter of the job, and otherwise one per minute.
     */
    const size_t all_reported = 100;
    const double time = tc_seconds();
    const bool is_due =
        p->n_items <= all_reported || item + 1 == p->n_items || p->reported_at == 0 ||
        item * 4 / p->n_items != (item + 1) * 4 / p->n_items || time - p->reported_at >= 60;

    p->reported_at = is_due ? time : p->reported_at;
    return is_due;
}

void progress_print(const progress *p, const char *what, const char *detail)
{
    progress_clear(p);
    fprintf(stderr, "texcell: %s: ", what);
    tc_print_printable(detail, stderr);
    fputc('\n', stderr);
}

void progress_note(const progress *p, const char *format, ...)
{
    char text[TC_ERR_MAX];
    va_list args;

    progress_clear(p);
    if (p->quiet)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "texcell: %s\n", tc_make_printable(text));
}

void progress_note_item(progress *p, const char *name, const char *text)
{
    if (tc_notes_add(&p->notes, text))
        progress_note(p, "%s: note: %s", name, text);
}

/* For tc_notes_end: prints the number of further notes of a kind. */
static void print_more(void *user, size_t more, bool differ, const char *text)
{
    const char *const plural = more == 1 ? "" : "s";
    if (differ)
        progress_note(user, "note of %zu more item%s, with other numbers: %s", more, plural, text);
    else
        progress_note(user, "note of %zu more item%s: %s", more, plural, text);
}

void progress_end_notes(progress *p)
{
    tc_notes_end(&p->notes, print_more, p);
}
