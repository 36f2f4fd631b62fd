#include "workunits/tools/picture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app/base/files.h"
#include "workunits/format/job.h"
#include "workunits/tools/picture_format.h"

enum { MAGIC_BYTES = 8 };

/* The decoder for a file that begins with these n bytes, or NULL. */
static const wu_picture_decoder *find_decoder(const unsigned char *magic, size_t n)
{
    static const struct {
        unsigned char bytes[MAGIC_BYTES];
        size_t n;
        const wu_picture_decoder *decoder;
    } table[] = {
        { { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n' }, 8, &wu_picture_png },
        { { 0xff, 0xd8, 0xff }, 3, &wu_picture_jpeg },
        { { 'I', 'I', 42, 0 }, 4, &wu_picture_tiff },
        { { 'M', 'M', 0, 42 }, 4, &wu_picture_tiff },
        { { 'I', 'I', 43, 0 }, 4, &wu_picture_tiff },   /* BigTIFF */
        { { 'M', 'M', 0, 43 }, 4, &wu_picture_tiff },
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (n >= table[i].n && memcmp(magic, table[i].bytes, table[i].n) == 0)
            return table[i].decoder;
    return NULL;
}

/* Looks before it opens: opening a pipe would wait for a writer. */
static tc_status open_file(wu_picture *picture, tc_err *err)
{
    struct stat st;
    if (stat(picture->path, &st) == 0 && !S_ISREG(st.st_mode))
        return tc_fail(err, TC_BAD_INPUT, "%s: is not a regular file", picture->path);
    picture->file = fopen(picture->path, "rb");
    if (picture->file == NULL)
        return tc_fail(err, tc_open_fault(errno), "%s: cannot be opened: %s", picture->path, strerror(errno));
    return TC_OK;
}

static tc_status choose_decoder(wu_picture *picture, tc_err *err)
{
    unsigned char magic[MAGIC_BYTES];
    const size_t n = fread(magic, 1, sizeof magic, picture->file);
    if (ferror(picture->file))
        return tc_fail(err, TC_BAD_INPUT, "%s: cannot be read: %s", picture->path, strerror(errno));
    if (n == 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: the file is empty", picture->path);
    picture->decoder = find_decoder(magic, n);
    if (picture->decoder == NULL)
        return tc_fail(err, TC_BAD_INPUT, "%s: is not a PNG, JPEG or TIFF picture", picture->path);
    rewind(picture->file);
    return TC_OK;
}

tc_status wu_picture_open(const char *path, bool labels, wu_picture **out, tc_err *err)
{
    *out = NULL;
    wu_picture *picture = calloc(1, sizeof *picture);
    if (picture == NULL)
        return tc_no_memory(err, path);
    picture->labels = labels;
    picture->path = strdup(path);
    if (picture->path == NULL) {
        wu_picture_close(&picture);
        return tc_no_memory(err, path);
    }
    tc_status status = open_file(picture, err);
    if (status == TC_OK)
        status = choose_decoder(picture, err);
    if (status == TC_OK) {
        picture->info.nz = 1;
        picture->about = (wu_picture_about){ .channels = 1, .frames = 1, .slices = 1, .images = 1, .orientation = 1 };
        status = picture->decoder->open(picture, err);
        wu_about_check(&picture->about);
    }
    if (status != TC_OK)
        wu_picture_close(&picture);
    *out = picture;
    return status;
}

void wu_picture_close(wu_picture **picture)
{
    if (*picture == NULL)
        return;
    if ((*picture)->decoder != NULL)
        (*picture)->decoder->close(*picture);
    if ((*picture)->file != NULL)
        fclose((*picture)->file);
    free((*picture)->path);
    free(*picture);
    *picture = NULL;
}

const wu_picture_info *wu_picture_get_info(const wu_picture *picture)
{
    return &picture->info;
}

const wu_picture_about *wu_picture_get_about(const wu_picture *picture)
{
    return &picture->about;
}

const char *wu_picture_format(const wu_picture *picture)
{
    return picture->decoder->name;
}

size_t wu_picture_page_bytes(const wu_picture_info *info)
{
    return (size_t)info->nx * info->ny * info->channels * (info->bits / 8);
}

tc_status wu_picture_next(wu_picture *picture, void *pixels, tc_err *err)
{
    if (picture->pages_read >= picture->info.nz)
        return tc_fail(err, TC_INTERNAL, "%s: page %u was asked for, there are %u", picture->path,
                       picture->pages_read + 1, picture->info.nz);
    const tc_status status = picture->decoder->next(picture, pixels, err);
    if (status == TC_OK)
        picture->pages_read++;
    snprintf(picture->note, sizeof picture->note, "%s%s%s",
             picture->alpha_dropped ? "partly transparent: the transparency was dropped, "
                                      "the colours under it were kept" : "",
             picture->alpha_dropped && picture->pages_skipped ? "; " : "",
             picture->pages_skipped ? "pages marked as thumbnails or masks were left out" : "");
    return status;
}

const char *wu_picture_note(const wu_picture *picture)
{
    return picture->note[0] == '\0' ? NULL : picture->note;
}

tc_status wu_picture_set_size(wu_picture *picture, uint64_t width, uint64_t height, tc_err *err)
{
    if (width == 0 || height == 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: the picture has no pixels", picture->path);
    if (width > WU_MAX_SIDE || height > WU_MAX_SIDE || width * height > WU_MAX_VOXELS)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: %llu x %llu pixels are too many: a work unit takes sides of up to %u "
                       "and %llu pixels in all", picture->path, (unsigned long long)width,
                       (unsigned long long)height, WU_MAX_SIDE, (unsigned long long)WU_MAX_VOXELS);
    picture->info.nx = (uint32_t)width;
    picture->info.ny = (uint32_t)height;
    return TC_OK;
}

tc_status wu_picture_refuse_rgb16(const wu_picture *picture, tc_err *err)
{
    return tc_fail(err, TC_BAD_INPUT,
                   "%s: is RGB of 16 bits a sample, which a work unit cannot hold without loss; "
                   "convert it to RGB of 8 bits or to grey of 16 bits first", picture->path);
}
