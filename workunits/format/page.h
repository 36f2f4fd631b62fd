/*
 * Writing an HTML page that needs no other file: text made harmless, pictures as
 * PNG within it.
 */
#ifndef WU_PAGE_H
#define WU_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "app/base/status.h"
#include "workunits/format/new_file.h"

typedef wu_new_file wu_page;

/* TC_USAGE: there is a file PATH that is no page of wu_page_open, and is not to be replaced. */
tc_status wu_page_replaces(const char *path, tc_err *err);
/* Begins the page: head, style and title. wu_page_close also after a failure. */
tc_status wu_page_open(const char *path, const char *title, wu_page *out, tc_err *err);
/* As wu_new_file_close. */
tc_status wu_page_close(wu_page *page, tc_status status, tc_err *err);

/* Markup as it stands (printf style): of this program's own words and numbers alone. */
TC_FORMAT(2, 3)
void wu_page_put(wu_page *page, const char *format, ...);
/* A character and a number, of which a page has many; or into `out`, not ended: how many bytes. */
enum { WU_NUMBER_TEXT = 24 };
void wu_page_number(wu_page *page, char before, int64_t value);
size_t wu_number_text(char before, int64_t value, char out[WU_NUMBER_TEXT]);
void wu_page_value(wu_page *page, double value); /* " %.4g" */
/* Anybody's text: what HTML would take for markup is written as characters, and what is not
 * UTF-8 or controls text as '?'. Good between tags and between double quotes. */
void wu_page_text(wu_page *page, const char *text);
/* A picture of nx x ny pixels with 1 or 3 channels of 8 bits, as the address of an <image>. */
tc_status wu_page_picture(wu_page *page, const char *what, uint32_t nx, uint32_t ny,
                          unsigned channels, const uint8_t *pixels, tc_err *err);

/* How finite values are spread. They are looked at twice: for their range, then, binned, for how
 * many lie where. */
enum { WU_BINS = 24 };
typedef struct wu_spread {
    uint64_t n;
    double least, most, sum;
    uint64_t bins[WU_BINS];
} wu_spread;
void wu_spread_look(wu_spread *spread, double value, bool binned);
/* Bars, and below them the ends and the mean. */
void wu_page_histogram(wu_page *page, const wu_spread *spread);

/* The style and the script, a line each, ended by NULL: page.css and page.js. */
extern const char *const wu_page_style[], *const wu_page_script[];

#endif
