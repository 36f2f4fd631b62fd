/*
 * A PNG that is a member of an archive.
 */
#ifndef WU_MEMBER_PNG_H
#define WU_MEMBER_PNG_H

#include "workunits/format/archive.h"
#include "workunits/format/png_io.h"

/* Decompresses the member to its end, for its CRC, reading the PNG's header on the way.
 * TC_BAD_INPUT: a member that is corrupt is reported as such rather than as a bad PNG. */
tc_status wu_member_head(wu_unzip *zip, size_t member, wu_png_info *head, tc_err *err);
/* Decodes the member, whose header was read as *expected, into samples (wu_png_read). */
tc_status wu_member_pixels(wu_unzip *zip, size_t member, const wu_png_info *expected, void *samples,
                           tc_err *err);

#endif
