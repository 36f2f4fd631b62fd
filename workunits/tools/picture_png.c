/* The decoder for PNG files. Pixels are read by workunits/format/png_io.h, as in work units. */
#include <stdlib.h>
#include <string.h>

#include "workunits/format/png_io.h"
#include "workunits/tools/picture_format.h"

/* Reads from a file: a wu_read_fn; user: a FILE. */
static long read_file(void *user, void *buf, size_t n)
{
    FILE *file = user;
    const size_t got = fread(buf, 1, n, file);
    return ferror(file) ? -1 : (long)got;
}

/* The number in the four bytes at p, big-endian as in PNG. */
static uint32_t number_at(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Decides whether a palette (n bytes, three per colour) is only for display, so that its indices
 * are the samples, and sets the remark. */
static void read_palette(wu_picture *picture, const uint8_t *body, size_t n)
{
    uint8_t colour[256][3];
    const bool image = picture->want.kind == WU_KIND_IMAGE;
    bool grey = true; /* the palette is the evenly spaced greys in their order */
    memcpy(colour, body, n < sizeof colour ? n : sizeof colour);
    for (size_t i = 0; i + 3 <= n && i < sizeof colour; i += 3)
        /* Of c = n / 3 colours, number i / 3 must be 255 * (i / 3) / (c - 1). If there is only one
         * colour, it must be 0. */
        grey = grey && body[i] == body[i + 1] && body[i] == body[i + 2] &&
               body[i] == i / 3 * 255 / (n / 3 - (n > 3));
    const bool ramp = n == sizeof colour && wu_is_palette_ramp(colour, n / 3);
    picture->metadata.indices = ramp;
    picture->about.remarks |= !image ? ((body[0] | body[1] | body[2]) != 0 ? WU_REMARK_INDICES : 0)
                              : ramp ? WU_REMARK_LOOKUP_TABLE
                              : grey ? 0
                                     : WU_REMARK_PALETTE;
}

/* Reads the chunks before the picture's data, and Exif data after them. Stops if the file is
 * damaged, which is reported when the file is decoded. */
static void read_about(wu_picture *picture)
{
    enum {
        SIGNATURE = 8, /* bytes of the PNG signature */
        HEAD = 8,      /* bytes of a chunk's length and type */
        CRC = 4,       /* bytes of a chunk's CRC */
        PHYS = 9,      /* bytes of data of the chunk pHYs */
        KIND = 9,      /* offset of the colour type in the data of IHDR */
        PALETTE = 3,   /* the colour type of pictures with a palette */
        MOST = 4096    /* the most bytes of a chunk's data that are read */
    };
    uint8_t head[HEAD], body[MOST] = { 0 };
    unsigned kind = 0;
    bool good = fseek(picture->file, SIGNATURE, SEEK_SET) == 0, after_data = false;
    while (good && fread(head, 1, HEAD, picture->file) == HEAD) {
        const uint32_t length = number_at(head);
        const bool exif = memcmp(head + 4, "eXIf", 4) == 0;
        after_data = after_data || memcmp(head + 4, "IDAT", 4) == 0;
        const size_t n = after_data && !exif ? 0 : length < MOST ? length : MOST;
        good = length <= INT32_MAX && fread(body, 1, n, picture->file) == n &&
               fseek(picture->file, (long)(length - n) + CRC, SEEK_CUR) == 0;
        if (good && exif)
            wu_about_read_exif(body, n, &picture->about);
        if (!good || after_data)
            continue;
        /* pHYs has the pixels per unit along x and y; unit 1 is the metre. */
        if (memcmp(head + 4, "pHYs", 4) == 0 && n == PHYS && body[8] == 1)
            wu_about_set_resolution(picture, number_at(body), number_at(body + 4), 1e6);
        if (memcmp(head + 4, "IHDR", 4) == 0 && n > KIND)
            kind = body[KIND];
        if (memcmp(head + 4, "PLTE", 4) == 0 && n >= 3 && kind == PALETTE)
            read_palette(picture, body, n);
        if (memcmp(head + 4, "iCCP", 4) == 0 || memcmp(head + 4, "acTL", 4) == 0)
            picture->about.remarks |=
                head[4] == 'i' ? WU_REMARK_COLOUR_PROFILE : WU_REMARK_MORE_IMAGES; /* iCCP, acTL */
    }
    clearerr(picture->file);
}

/* Whether samples are numbers, not brightness: grey of 1, 2 or 4 bits is then not scaled, and the
 * indices of a palette are the samples. */
static bool is_of_numbers(const wu_picture *picture)
{
    return picture->want.kind != WU_KIND_IMAGE || picture->metadata.indices;
}

static tc_status open_png(wu_picture *picture, tc_err *err)
{
    wu_png_info info;
    read_about(picture);
    rewind(picture->file);
    tc_status status = wu_png_convert_info(read_file, picture->file, picture->path,
                                           is_of_numbers(picture), &info, err);
    if (status == TC_OK)
        status = wu_picture_set_size(picture, info.width, info.height, err);
    picture->samples = (wu_samples){ .bits = info.bits, .channels = info.channels, .rgb = true };
    return status;
}

/* A file in memory of n bytes, of which read_bytes has returned the first `at`. */
typedef struct png_bytes {
    const unsigned char *data;
    size_t n, at;
} png_bytes;

/* Reads from memory: a wu_read_fn; user: a png_bytes. */
static long read_bytes(void *user, void *buf, size_t n)
{
    png_bytes *const b = user;
    const size_t left = b->n - b->at, part = left < n ? left : n;
    memcpy(buf, b->data + b->at, part);
    b->at += part;
    return (long)part;
}

/* Reads the whole file to memory, to be freed by free(), and sets *n to its size. Returns NULL if
 * want.wants_encoded is not set, if the file is larger than the decoded page, or if it cannot be
 * read: the page must then be decoded from the file. */
static unsigned char *read_whole(wu_picture *picture, size_t *n)
{
    const size_t most = wu_picture_page_bytes(&picture->info);
    unsigned char *const data = picture->want.wants_encoded ? malloc(most) : NULL;
    *n = data != NULL ? fread(data, 1, most, picture->file) : 0;
    if (data != NULL && !ferror(picture->file) && *n < most)
        return data;
    free(data);
    clearerr(picture->file);
    rewind(picture->file);
    return NULL;
}

/* Decodes the page. If the whole file was read to memory, keeps it as picture->encoded if a work
 * unit can hold it. */
static tc_status next_png(wu_picture *picture, uint64_t page, void *samples, tc_err *err)
{
    const wu_png_info info = { .width = picture->info.nx,
                               .height = picture->info.ny,
                               .bits = picture->samples.bits,
                               .channels = picture->samples.channels };
    (void)page;
    rewind(picture->file);
    free(picture->encoded);
    picture->encoded = read_whole(picture, &picture->n_encoded);
    png_bytes bytes = { picture->encoded, picture->n_encoded, 0 };
    const bool whole = picture->encoded != NULL;
    const tc_status status = wu_png_convert(
        whole ? read_bytes : read_file, whole ? (void *)&bytes : picture->file, picture->path,
        is_of_numbers(picture), &info, samples, &picture->alpha_dropped, &picture->no_end, err);
    picture->n_encoded =
        whole && status == TC_OK ? wu_png_strip(picture->encoded, picture->n_encoded) : 0;
    if (picture->n_encoded == 0) {
        free(picture->encoded);
        picture->encoded = NULL;
    }
    return status;
}

/* The decoder has no state to be freed. */
static void close_png(wu_picture *picture)
{
    (void)picture;
}

const wu_picture_decoder wu_picture_png = { "PNG", open_png, next_png, close_png };
