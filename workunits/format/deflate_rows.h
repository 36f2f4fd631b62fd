/* Deflates rows of equal words, such as labels and masks: ten times as fast as zlib, and smaller.
 */
#ifndef WU_DEFLATE_ROWS_H
#define WU_DEFLATE_ROWS_H

#include <stdbool.h>
#include <stddef.h>

/* How the bytes are arranged: in words and in rows, of so many bytes each. anywhere: what repeats
 * is looked for elsewhere, too, in what the deflater was given since `before` was 0; the data begin
 * with a row then, or they take more bytes. */
typedef struct wu_row_layout {
    size_t word, row;
    bool anywhere;
} wu_row_layout;

/* Bytes of which more than one in so many is left may become fewer with zlib. */
enum { WU_ROWS_WORTH = 8 };

/* What one thread works with. */
typedef struct wu_row_deflater wu_row_deflater;

wu_row_deflater *wu_row_deflater_create(void); /* NULL: no memory */
/* The n bytes as blocks of a deflate stream, which may point back into the `before` bytes that
 * stand in front of them. last: the stream ends with them, else a sync flush follows. 0: they take
 * more than `room`; WU_ROWS_ROOM is enough for any. */
#define WU_ROWS_ROOM(n) ((n) + (n) / 2 + (n) / 32 + 512)
size_t wu_deflate_rows(wu_row_deflater *d, wu_row_layout layout, const unsigned char *data,
                       size_t n, size_t before, bool last, unsigned char *out, size_t room);

#endif
