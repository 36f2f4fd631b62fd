/* PNG, by the one reader there is of it (workunits/format/png_io.h). */
#include "workunits/format/png_io.h"
#include "workunits/tools/picture_format.h"

static long read_file(void *user, void *buf, size_t n)
{
    FILE *file = user;
    const size_t got = fread(buf, 1, n, file);
    return ferror(file) ? -1 : (long)got;
}

static tc_status open_png(wu_picture *picture, tc_err *err)
{
    wu_png_info info;
    tc_status status = wu_png_convert_info(read_file, picture->file, picture->path, &info, err);
    if (status == TC_OK)
        status = wu_picture_set_size(picture, info.width, info.height, err);
    if (status == TC_OK && info.channels == 3 && info.bits == 16)
        return wu_picture_refuse_rgb16(picture, err);
    picture->info.bits = info.bits;
    picture->info.channels = info.channels;
    return status;
}

static tc_status next_png(wu_picture *picture, void *pixels, tc_err *err)
{
    const wu_png_info info = { .width = picture->info.nx, .height = picture->info.ny, .bits = picture->info.bits,
                               .channels = picture->info.channels };
    rewind(picture->file);
    return wu_png_convert(read_file, picture->file, picture->path, &info, pixels, &picture->alpha_dropped, err);
}

static void close_png(wu_picture *picture)
{
    (void)picture;
}

const wu_picture_decoder wu_picture_png = { "PNG", open_png, next_png, close_png };
