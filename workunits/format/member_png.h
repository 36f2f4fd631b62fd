/*
 * A picture that is a member of an archive: a PNG, or samples as they are, of which the
 * member's name ends with .pnm.
 */
#ifndef WU_MEMBER_PNG_H
#define WU_MEMBER_PNG_H

#include "workunits/format/archive.h"
#include "workunits/format/png_io.h"

enum { WU_PLAIN_HEAD = 32 };

/* Whether a member of that name has samples as they are. */
bool wu_plain_name(const char *name);
/* What a .pnm of this kind begins with, and how many bytes that are. */
size_t wu_plain_head(const wu_png_info *info, char out[WU_PLAIN_HEAD]);
/* n bytes, an even number, of samples of 16 bits: from those of a .pnm (big-endian) to those in
 * memory, or back. */
void wu_plain_swap(uint8_t *samples, size_t n);

/* Decompresses the member to its end, for its CRC (of samples as they are wu_member_pixels sees to
 * that), reading the picture's header on the way.
 * TC_BAD_INPUT: a member that is corrupt is reported as such rather than as a bad picture. */
tc_status wu_member_head(wu_unzip *zip, size_t member, wu_png_info *head, tc_err *err);
/* The same, but of most pictures their first bytes are read alone: what is damaged behind them,
 * wu_member_head or who decodes it finds out. */
tc_status wu_member_begin(wu_unzip *zip, size_t member, wu_png_info *head, tc_err *err);
/* Decodes the member, whose header was read as *expected, into samples (wu_png_read). */
tc_status wu_member_pixels(wu_unzip *zip, size_t member, const wu_png_info *expected, void *samples,
                           tc_err *err);

#endif
