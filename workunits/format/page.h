/*
 * Writes an HTML page that needs no other file: its pictures are PNGs within the page. Text from
 * files is escaped.
 */
#ifndef WU_PAGE_H
#define WU_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "app/base/status.h"
#include "workunits/format/new_file.h"

typedef wu_new_file wu_page;

/* Checks that writing a page to `path` replaces nothing but an earlier page. TC_USAGE: `path` is a
 * file that was not written by wu_page_open. */
tc_status wu_page_check_replaceable(const char *path, tc_err *err);
/* Begins the page: writes its head. *out must be closed by wu_page_close, also after a failure. */
tc_status wu_page_open(const char *path, const char *title, wu_page *out, tc_err *err);
/* Completes the page, or removes it, as wu_new_file_close does. */
tc_status wu_page_close(wu_page *page, tc_status status, tc_err *err);

/* Writes markup, formatted as by printf and not escaped: must not contain text from files. */
TC_FORMAT(2, 3)
void wu_page_printf(wu_page *page, const char *format, ...);
/* Writes a character and an integer. This is faster than wu_page_printf, which matters as pages
 * have many numbers. */
void wu_page_number(wu_page *page, char before, int64_t value);
enum { WU_NUMBER_TEXT = 24 }; /* enough bytes for a character and an integer */
/* Writes a character and an integer to `out`, without a NUL, and returns the number of bytes. */
size_t wu_format_number(char before, int64_t value, char out[WU_NUMBER_TEXT]);
/* Writes a blank and a number like printf's " %.4g", but faster. */
void wu_page_value(wu_page *page, double value);
/* Writes any text, escaped so that it can stand between tags and within double quotes. Bytes that
 * are not UTF-8, and characters that control text, become '?'. */
void wu_page_text(wu_page *page, const char *text);
/* Writes a picture of nx * ny pixels with 1 or 3 channels of 8 bits as a data: URL, for the address
 * of an <image>. what: the name of the picture in messages. */
tc_status wu_page_picture(wu_page *page, const char *what, uint32_t nx, uint32_t ny,
                          unsigned channels, const uint8_t *pixels, tc_err *err);

enum { WU_HISTOGRAM_BINS = 24 }; /* number of bins of a histogram */
/* The range and the histogram of values. */
typedef struct wu_histogram {
    uint64_t n;              /* number of values */
    double least, most, sum; /* the least and the greatest value, and the sum of all values */
    uint64_t
        bins[WU_HISTOGRAM_BINS]; /* number of values in each of these equal parts of the range */
} wu_histogram;
/* Adds a value, unless it is infinite or NaN. All values must be added twice: first with `binned`
 * false, for n, range and sum, then with `binned` true, for the bins. */
void wu_histogram_add(wu_histogram *spread, double value, bool binned);
/* Writes the histogram as bars, and below them the ends of the range and the mean. */
void wu_page_histogram(wu_page *page, const wu_histogram *spread);

/* The lines of page.css and of page.js, ended by NULL. */
extern const char *const wu_page_style[], *const wu_page_script[];

#endif
