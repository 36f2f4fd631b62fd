/* Reads a picture that is a member of an archive. */
#include "workunits/format/member_png.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/files.h"

/* The member from which a picture is read. status, err: the error of a failed read, since a
 * wu_read_fn can return only that there was an error. */
typedef struct member_source {
    wu_unzip *zip;
    tc_status status;
    tc_err err;
} member_source;

/* Reads the next bytes of the member: a wu_read_fn; user: a member_source. */
static long read_from_zip(void *user, void *buf, size_t n)
{
    member_source *const s = user;
    size_t got = 0;
    s->status = wu_unzip_read(s->zip, buf, n, &got, &s->err);
    return s->status == TC_OK ? (long)got : -1;
}

/* --- plain pictures: PGM and PPM ------------------------------------------------------------- */

size_t wu_format_pnm_header(const wu_png_info *info, char out[WU_PNM_HEADER_MAX])
{
    return (size_t)snprintf(out, WU_PNM_HEADER_MAX, "P%c\n%" PRIu32 " %" PRIu32 "\n%s\n",
                            info->channels == 3 ? '6' : '5', info->width, info->height,
                            info->bits == 16 ? "65535" : "255");
}

bool wu_is_pnm_name(const char *name)
{
    const size_t n = strlen(name);
    return n > 4 && strcmp(name + n - 4, ".pnm") == 0;
}

/* Reads the header of a plain picture. Returns the header's length in bytes, or 0 if it differs
 * from what wu_format_pnm_header writes, or is of a picture in colour with 16 bits. */
static size_t read_pnm_head(member_source *s, wu_png_info *head)
{
    char text[WU_PNM_HEADER_MAX] = "", valid[WU_PNM_HEADER_MAX];
    char *at = text + 3; /* the width follows "P5\n" or "P6\n" */
    unsigned lines = 0;
    size_t n = 0;
    while (lines < 3 && n + 1 < sizeof text && read_from_zip(s, text + n, 1) == 1)
        lines += text[n++] == '\n';
    *head = (wu_png_info){ .channels = text[1] == '6' ? 3 : 1 };
    head->width = (uint32_t)strtoul(at, &at, 10);
    head->height = (uint32_t)strtoul(at, &at, 10);
    head->bits = strtoul(at, &at, 10) > 255 ? 16 : 8;
    return wu_format_pnm_header(head, valid) == n && memcmp(text, valid, n) == 0 &&
                   (head->channels == 1 || head->bits == 8)
               ? n
               : 0;
}

void wu_swap_pnm_bytes(uint8_t *p, size_t n)
{
    assert(n % 2 == 0);
    for (size_t i = 0; i < n; i += 2) {
        const uint16_t v = (uint16_t)(p[i] << 8 | p[i + 1]);
        memcpy(p + i, &v, sizeof v);
    }
}

/* Reads a plain picture. If samples is NULL, sets *head to its header. Otherwise checks that its
 * header is *head, and reads the samples. size: bytes of the member. what: the member's name in
 * messages. */
static tc_status read_pnm(member_source *s, uint64_t size, const char *what, wu_png_info *head,
                          uint8_t *samples, tc_err *err)
{
    wu_png_info found;
    const size_t begin = read_pnm_head(s, &found);
    const uint64_t n = (uint64_t)found.width * found.height * found.channels * (found.bits / 8);
    if (begin == 0 || n == 0)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: must begin as a PGM of 8 or 16 bits or a PPM of 8 bits: a line with P5 "
                       "or P6, a line with width and height, and a line with 255 or 65535",
                       what);
    if (size != begin + n)
        return tc_fail(err, TC_BAD_INPUT, "%s: is not as long as its header says", what);
    if (samples == NULL) {
        *head = found;
        return TC_OK;
    }
    if (memcmp(&found, head, sizeof found) != 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: the picture's header has changed", what);
    for (uint64_t at = 0; at < n;) {
        const long got = read_from_zip(s, samples + at, (size_t)(n - at));
        if (got <= 0)
            return TC_BAD_INPUT; /* the error is in s */
        at += (uint64_t)got;
    }
    if (found.bits == 16)
        wu_swap_pnm_bytes(samples, (size_t)n);
    return TC_OK;
}

/* --- both kinds ------------------------------------------------------------------------------ */

/* Reads a PNG or a plain picture. If samples is NULL, sets *head to the picture's header. Otherwise
 * checks that the header equals *head, and reads the samples. Then reads the member to its end to
 * check its CRC, except if only the header of a plain picture was read. */
static tc_status read_member(wu_unzip *zip, size_t member, wu_png_info *head, void *samples,
                             tc_err *err)
{
    const wu_archive *const a = wu_unzip_archive(zip);
    const wu_member *const m = &a->members[member];
    member_source s = { .zip = zip };
    char what[TC_ERR_MAX];
    tc_err read_err = { "" };
    snprintf(what, sizeof what, "%s: %s", a->path, m->name);
    wu_unzip_begin(zip, member);
    const tc_status got =
        wu_is_pnm_name(m->name) ? read_pnm(&s, m->size, what, head, samples, &read_err)
        : samples == NULL ? wu_png_read_info(read_from_zip, &s, m->size, what, head, &read_err)
                          : wu_png_read(read_from_zip, &s, m->size, what, head, samples, &read_err);
    if (got == TC_OK && samples == NULL && wu_is_pnm_name(m->name))
        return TC_OK; /* the CRC is checked when the samples are read */
    if (s.status != TC_OK)
        return tc_fail(err, s.status, "%s", s.err.message);
    /* If the picture is invalid, the whole member is read again to check its CRC. If the CRC is
     * wrong, too, the error is that the member is corrupt. */
    if (got == TC_BAD_INPUT)
        wu_unzip_begin(zip, member);
    const tc_status status = got == TC_OK || got == TC_BAD_INPUT ? wu_unzip_drain(zip, err) : TC_OK;
    return status == TC_OK && got != TC_OK ? tc_fail(err, got, "%s", read_err.message) : status;
}

tc_status wu_member_read_and_check(wu_unzip *zip, size_t member, wu_png_info *head, tc_err *err)
{
    return read_member(zip, member, head, NULL, err);
}

tc_status wu_member_read_header(wu_unzip *zip, size_t member, wu_png_info *head, tc_err *err)
{
    const wu_archive *const a = wu_unzip_archive(zip);
    const wu_member *const m = &a->members[member];
    unsigned char begin[WU_PNG_HEADER_BYTES];
    size_t got = 0;
    /* A PNG that is stored uncompressed is read directly from the archive's file. */
    if (!m->is_deflated && m->compressed > WU_PNG_HEADER_BYTES)
        return_if_error(tc_read_at(a->fd, a->path, m->data, begin, sizeof begin, &got, err));
    return got == sizeof begin && wu_png_parse_header(begin, m->size, head)
               ? tc_call_poll(a->poll, err) /* whether the caller wants to cancel */
               : wu_member_read_and_check(zip, member, head, err);
}

tc_status wu_member_decode(wu_unzip *zip, size_t member, const wu_png_info *expected, void *samples,
                           tc_err *err)
{
    wu_png_info head = *expected;
    return read_member(zip, member, &head, samples, err);
}
