/* Reads a PNG that is a member of an archive. */
#include "workunits/format/member_png.h"

#include <stdio.h>

/* Where a PNG comes from. Why it cannot be read is kept for the one who asked. */
typedef struct png_source {
    wu_unzip *zip;
    tc_status status;
    tc_err err;
} png_source;

static long read_from_zip(void *user, void *buf, size_t n)
{
    png_source *const s = user;
    size_t got = 0;
    s->status = wu_unzip_read(s->zip, buf, n, &got, &s->err);
    return s->status == TC_OK ? (long)got : -1;
}

/* samples NULL: the header into *head, which else is expected. */
static tc_status read_member(wu_unzip *zip, size_t member, wu_png_info *head, void *samples,
                             tc_err *err)
{
    const wu_archive *const a = wu_unzip_archive(zip);
    const wu_member *const m = &a->members[member];
    png_source s = { .zip = zip };
    char what[TC_ERR_MAX];
    tc_err png_err = { "" };
    snprintf(what, sizeof what, "%s: %s", a->path, m->name);
    wu_unzip_begin(zip, member);
    const tc_status png =
        samples == NULL ? wu_png_read_info(read_from_zip, &s, m->size, what, head, &png_err)
                        : wu_png_read(read_from_zip, &s, m->size, what, head, samples, &png_err);
    if (s.status != TC_OK)
        return tc_fail(err, s.status, "%s", s.err.message);
    if (png == TC_BAD_INPUT)
        wu_unzip_begin(zip, member);
    const tc_status status = png == TC_OK || png == TC_BAD_INPUT ? wu_unzip_drain(zip, err) : TC_OK;
    return status == TC_OK && png != TC_OK ? tc_fail(err, png, "%s", png_err.message) : status;
}

tc_status wu_member_head(wu_unzip *zip, size_t member, wu_png_info *head, tc_err *err)
{
    return read_member(zip, member, head, NULL, err);
}

tc_status wu_member_pixels(wu_unzip *zip, size_t member, const wu_png_info *expected, void *samples,
                           tc_err *err)
{
    wu_png_info head = *expected;
    return read_member(zip, member, &head, samples, err);
}
