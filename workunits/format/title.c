/* Makes the titles by which items are shown to people. */
#include "workunits/format/title.h"

#include <string.h>

#include "app/base/compose.h"
#include "app/base/os.h"
#include "app/base/text.h"

/* Whether a character beyond ASCII is a letter, a digit or a combining mark of any script. All
 * characters are, except those in the ranges listed here: signs, spaces, control characters,
 * private use and invisible fillers. */
static bool is_letter(uint32_t c)
{
    static const uint32_t other_ranges[][2] = {
        { 0x0000, 0x00a9 },    { 0x00ab, 0x00b4 },   { 0x00b6, 0x00b9 },   { 0x00bb, 0x00bf },
        { 0x00d7, 0x00d7 },    { 0x00f7, 0x00f7 },   { 0x034f, 0x034f },   { 0x037e, 0x037e },
        { 0x0600, 0x060f },    { 0x061b, 0x061f },   { 0x06d4, 0x06d4 },   { 0x06dd, 0x06dd },
        { 0x070f, 0x070f },    { 0x0890, 0x0891 },   { 0x08e2, 0x08e2 },   { 0x115f, 0x1160 },
        { 0x1680, 0x1680 },    { 0x17b4, 0x17b5 },   { 0x180b, 0x180f },   { 0x2000, 0x206f },
        { 0x20a0, 0x20cf },    { 0x2190, 0x2bff },   { 0x2e00, 0x2e7f },   { 0x2ff0, 0x3004 },
        { 0x3008, 0x3020 },    { 0x3030, 0x3030 },   { 0x303d, 0x303f },   { 0x3164, 0x3164 },
        { 0xd800, 0xf8ff },    { 0xfd3e, 0xfd3f },   { 0xfe00, 0xfe1f },   { 0xfe30, 0xfe6f },
        { 0xfeff, 0xff0f },    { 0xff1a, 0xff20 },   { 0xff3b, 0xff40 },   { 0xff5b, 0xff65 },
        { 0xffa0, 0xffa0 },    { 0xffe0, 0xffff },   { 0x110bd, 0x110bd }, { 0x110cd, 0x110cd },
        { 0x13430, 0x1343f },  { 0x1bca0, 0x1bcaf }, { 0x1d173, 0x1d17a }, { 0x1f000, 0x1faff },
        { 0xe0000, 0x10ffff },
    };
    for (size_t i = 0; i < sizeof other_ranges / sizeof *other_ranges; i++)
        if (c >= other_ranges[i][0] && c <= other_ranges[i][1])
            return false;
    return true;
}

/* An item's name is made from the name of its file: each byte that is not allowed becomes '_'. This
 * function puts the letters of the file's name back in place of these '_'. It stops at the first
 * character at which the two names differ in another way. */
wu_item_title wu_item_title_of(const char *name, const char *source)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    static const char unders[] = "____"; /* as many as the longest character in UTF-8 has bytes */
    /* The name of the file. It may be longer than the item's name, since composing a letter and its
     * accents leaves at least a third of their bytes. */
    char base[4 * WU_MAX_NAME];
    wu_item_title out = { "" };
    const char *const file = source == NULL ? "" : os_base_name(source);
    strncat(out.text, name, WU_MAX_NAME);
    size_t n_ascii = 0;
    while (file[n_ascii] > 0 && file[n_ascii] < 0x7f)
        n_ascii++;
    if (file[n_ascii] == '\0') /* the usual case, in tables of millions of rows */
        return out;
    base[0] = '\0';
    strncat(base, file, sizeof base - 1);
    tc_compose_accents(base);
    for (size_t i = 0; base[i] != '\0' && out.text[i] != '\0';) {
        uint32_t c = 0;
        const size_t n = tc_decode_utf8(base + i, &c);
        const bool ascii = strchr(good, base[i]) != NULL;
        if (ascii ? out.text[i] != base[i] : strncmp(out.text + i, unders, n > 0 ? n : 1) != 0)
            break;
        if (n > 1 && is_letter(c))
            memcpy(out.text + i, base + i, n);
        i += n > 0 ? n : 1;
    }
    return out;
}
