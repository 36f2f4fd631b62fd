/*
 * Reads a picture that is a member of an archive: a PNG, or, if the member's name ends with .pnm, a
 * plain picture, which is a PGM or PPM: a header of three lines and the uncompressed samples.
 */
#ifndef WU_MEMBER_PNG_H
#define WU_MEMBER_PNG_H

#include "workunits/format/archive.h"
#include "workunits/format/png_io.h"

/* The largest header of a plain picture, in bytes. */
enum { WU_PNM_HEADER_MAX = 32 };

/* Whether a member of this name is a plain picture. */
bool wu_is_pnm_name(const char *name);
/* Writes the header of a plain picture, and returns its length in bytes. */
size_t wu_format_pnm_header(const wu_png_info *info, char out[WU_PNM_HEADER_MAX]);
/* Converts 16-bit samples, in place, from the byte order of a plain picture (big-endian) to that of
 * memory, or back. n: the number of bytes, which is even. */
void wu_swap_pnm_bytes(uint8_t *samples, size_t n);

/* Reads the picture's header. Decompresses a member that is a PNG to its end to check its CRC; the
 * CRC of a plain picture is checked only by wu_member_decode. TC_BAD_INPUT: the message says that
 * the member is corrupt if its CRC is wrong, even if the picture is invalid, too. */
tc_status wu_member_read_and_check(wu_unzip *zip, size_t member, wu_png_info *head, tc_err *err);
/* Reads the picture's header, and nothing else of the member if the header is of the usual kind: so
 * damage after the header is not found. */
tc_status wu_member_read_header(wu_unzip *zip, size_t member, wu_png_info *head, tc_err *err);
/* Decodes the member into `samples`, as wu_png_read does. expected: the header that was read
 * before. */
tc_status wu_member_decode(wu_unzip *zip, size_t member, const wu_png_info *expected, void *samples,
                           tc_err *err);

#endif
