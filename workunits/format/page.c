/* Writes a self-contained HTML page. */
#include "workunits/format/page.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/sha256.h"
#include "app/base/text.h"
#include "workunits/format/png_io.h"

/* The first bytes of a page, by which wu_page_check_replaceable recognises it. */
#define BEGINS "<!DOCTYPE html>\n<!-- texcell -->"

static void put_lines(wu_page *page, const char *const *lines)
{
    for (; *lines != NULL; lines++)
        wu_page_printf(page, "%s\n", *lines);
}

/* A stream of bytes that is written as base 64 (RFC 4648), three bytes at a time. waiting: the
 * first n bytes, at most two, of the next three. */
typedef struct base64 {
    FILE *file;
    unsigned char waiting[3];
    size_t n;
} base64;

/* Encodes three bytes as four digits. */
static void encode_three(const unsigned char three[3], char four[4])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint32_t bits = (uint32_t)three[0] << 16 | (uint32_t)three[1] << 8 | three[2];
    for (size_t i = 0; i < 4; i++)
        four[i] = digits[bits >> (18 - 6 * i) & 63]; /* six bits a digit, the highest first */
}

/* Writes n bytes to the stream. A wu_write_fn; user: a base64. */
static int write_base64(void *user, const void *bytes, size_t n)
{
    enum { AT_ONCE = 1024 }; /* triples of bytes that are written at a time */
    base64 *const b = user;
    const unsigned char *at = bytes;
    char text[4 * AT_ONCE];
    size_t n_encoded = 0;
    for (; n > 0; n_encoded = 0) {
        /* Completes the three waiting bytes, or keeps the last one or two bytes waiting. */
        for (; n > 0 && b->n < 3 && (b->n > 0 || n < 3); n--)
            b->waiting[b->n++] = *at++;
        if (b->n == 3) {
            encode_three(b->waiting, text);
            n_encoded = 1;
            b->n = 0;
        }
        for (; b->n == 0 && n >= 3 && n_encoded < AT_ONCE; n -= 3, at += 3)
            encode_three(at, text + 4 * n_encoded++);
        (void)fwrite(text, 4, n_encoded, b->file);
    }
    /* If an earlier write failed, writing what is in the buffer sets errno again. */
    return ferror(b->file) != 0 && (fflush(b->file) != 0 || ferror(b->file) != 0);
}

/* Ends the stream: encodes the one or two waiting bytes, if there are any. */
static void end_base64(base64 *b)
{
    char four[4];
    if (b->n == 0)
        return;
    memset(b->waiting + b->n, 0, 3 - b->n);
    encode_three(b->waiting, four);
    memset(four + b->n + 1, '=', 3 - b->n); /* n bytes make n + 1 digits */
    (void)fwrite(four, 1, sizeof four, b->file);
}

/* Writes the SHA-256, in base 64, of the script: the text between its tags. The page's
 * Content-Security-Policy allows only a script with this digest. */
static void put_script_digest(FILE *to)
{
    base64 b = { .file = to };
    char text[TC_SHA256_TEXT];
    tc_sha256 sum;
    tc_sha256_begin(&sum);
    tc_sha256_add(&sum, "\n", 1);
    for (const char *const *line = wu_page_script; *line != NULL; line++) {
        tc_sha256_add(&sum, *line, strlen(*line));
        tc_sha256_add(&sum, "\n", 1);
    }
    tc_sha256_end(&sum, text);
    for (size_t i = 0; text[i] != '\0'; i += 2) {
        const char digits[] = { text[i], text[i + 1], '\0' };
        const unsigned char byte = (unsigned char)strtoul(digits, NULL, 16);
        (void)write_base64(&b, &byte, 1);
    }
    end_base64(&b);
}

tc_status wu_page_check_replaceable(const char *path, tc_err *err)
{
    return wu_new_file_check_replaceable(path, BEGINS, 0, "page of texcell", err);
}

tc_status wu_page_open(const char *path, const char *title, wu_page *out, tc_err *err)
{
    *out = (wu_page){ .file = NULL };
    return_if_error(wu_page_check_replaceable(path, err));
    return_if_error(wu_new_file_open(path, out, err));
    wu_page_printf(
        out, BEGINS
        "\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        /* The page cannot load anything, even if a browser interpreted text in it as markup. */
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
        "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; script-src 'sha256-");
    put_script_digest(out->file);
    wu_page_printf(out, "'\">\n<title>");
    wu_page_text(out, title);
    wu_page_printf(out, "</title>\n<style>\n");
    put_lines(out, wu_page_style);
    wu_page_printf(out, "</style>\n</head>\n<body>\n");
    return TC_OK;
}

tc_status wu_page_close(wu_page *page, tc_status status, tc_err *err)
{
    if (page->file != NULL) {
        wu_page_printf(page, "<script>\n");
        put_lines(page, wu_page_script);
        wu_page_printf(page, "</script>\n</body>\n</html>\n");
    }
    return wu_new_file_close(page, status, err);
}

void wu_page_printf(wu_page *page, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(page->file, format, args);
    va_end(args);
}

size_t wu_format_number(char before, int64_t value, char out[WU_NUMBER_TEXT])
{
    char text[WU_NUMBER_TEXT], *at = text + sizeof text;
    uint64_t left = value < 0 ? -(uint64_t)value : (uint64_t)value;
    do
        *--at = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    if (value < 0)
        *--at = '-';
    *--at = before;
    const size_t n = (size_t)(text + sizeof text - at);
    memcpy(out, at, n);
    return n;
}

void wu_page_number(wu_page *page, char before, int64_t value)
{
    char text[WU_NUMBER_TEXT];
    const size_t n = wu_format_number(before, value, text);
    (void)fwrite(text, 1, n, page->file);
}

void wu_page_value(wu_page *page, double value)
{
    /* scale: makes the four significant digits an integer */
    const double size = fabs(value),
                 scale = size < 10     ? 1e3
                         : size < 100  ? 1e2
                         : size < 1000 ? 10
                                       : 1,
                 scaled = size * scale, rest = scaled - floor(scaled);
    char text[16], *at = text + sizeof text;
    unsigned n, decimals = size < 10 ? 3 : size < 100 ? 2 : size < 1000;
    /* `scaled` has a rounding error. If it may be near the middle between two integers, printf is
     * used, which rounds the exact value. */
    if (!(size >= 1 && scaled < 9999) || fabs(rest - 0.5) < 1e-6) {
        wu_page_printf(page, " %.4g", value);
        return;
    }
    /* n: the number in units of 10^-decimals, without zeros at the end of its fraction */
    for (n = (unsigned)(scaled + 0.5); decimals > 0 && n % 10 == 0; decimals--)
        n /= 10;
    for (unsigned i = 0; n > 0; i++, n /= 10) {
        if (i > 0 && i == decimals)
            *--at = '.';
        *--at = (char)('0' + n % 10);
    }
    if (value < 0)
        *--at = '-';
    *--at = ' ';
    (void)fwrite(at, 1, (size_t)(text + sizeof text - at), page->file);
}

void wu_page_text(wu_page *page, const char *text)
{
    while (*text != '\0') {
        uint32_t code;
        const size_t n = tc_decode_utf8(text, &code);
        char one[8] = "?";
        memcpy(one, text, n);
        switch (one[0]) {
        case '&': fputs("&amp;", page->file); break;
        case '<': fputs("&lt;", page->file); break;
        case '>': fputs("&gt;", page->file); break;
        case '"': fputs("&quot;", page->file); break;
        case '\n': fputc('\n', page->file); break;
        default: fputs(tc_make_printable(one), page->file);
        }
        text += n > 0 ? n : 1;
    }
}

/* --- pictures -------------------------------------------------------------------------------- */

tc_status wu_page_picture(wu_page *page, const char *what, uint32_t nx, uint32_t ny,
                          unsigned channels, const uint8_t *pixels, tc_err *err)
{
    assert(nx > 0 && ny > 0 && (channels == 1 || channels == 3));
    const wu_png_info info = { nx, ny, 8, channels };
    base64 b = { .file = page->file };
    fputs("data:image/png;base64,", page->file);
    const tc_status status = wu_png_write_for_page(write_base64, &b, what, &info, pixels, err);
    end_base64(&b);
    return status;
}

/* --- histograms ------------------------------------------------------------------------------ */

void wu_histogram_add(wu_histogram *s, double value, bool binned)
{
    if (!isfinite(value))
        return;
    if (binned) {
        /* Computes with halves, because the difference of the greatest and the least value may
         * overflow. */
        const double half = s->most / 2 - s->least / 2;
        const size_t bin =
            half > 0 ? (size_t)((value / 2 - s->least / 2) / half * WU_HISTOGRAM_BINS) : 0;
        s->bins[bin < WU_HISTOGRAM_BINS ? bin : WU_HISTOGRAM_BINS - 1]++;
        return;
    }
    s->least = s->n == 0 || value < s->least ? value : s->least;
    s->most = s->n == 0 || value > s->most ? value : s->most;
    s->sum += value;
    s->n++;
}

/* Writes a number below the histogram, preceded by `word`. Numbers from 1000 to 1e7 are written as
 * integers, others with three digits. */
static void put_end(wu_page *page, const char *word, double value)
{
    wu_page_printf(page,
                   fabs(value) >= 1000 && fabs(value) < 1e7 ? "<span>%s%.0f</span>"
                                                            : "<span>%s%.3g</span>",
                   word, value);
}

void wu_page_histogram(wu_page *page, const wu_histogram *s)
{
    uint64_t most = 1;
    for (size_t b = 0; b < WU_HISTOGRAM_BINS; b++)
        most = s->bins[b] > most ? s->bins[b] : most;
    wu_page_printf(
        page, "<svg viewBox=\"0 0 %d 40\" preserveAspectRatio=none role=img aria-label=histogram>",
        WU_HISTOGRAM_BINS * 10);
    for (size_t b = 0; b < WU_HISTOGRAM_BINS; b++) {
        const double height = 39.0 * (double)s->bins[b] / (double)most;
        if (s->bins[b] > 0)
            wu_page_printf(page,
                           "<rect x=\"%zu\" y=\"%.1f\" width=\"9\" height=\"%.1f\"><title>%" PRIu64
                           "</title></rect>",
                           b * 10, 39 - height, height + 1, s->bins[b]);
    }
    wu_page_printf(page, "</svg><div class=ends>");
    put_end(page, "", s->least);
    put_end(page, "mean ", s->sum / (double)s->n);
    put_end(page, "", s->most);
    wu_page_printf(page, "</div>");
}
