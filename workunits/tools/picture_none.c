/* Stands in for the decoders of formats for which this build has no library (libjpeg, libtiff):
 * refuses such files. */
#include "config.h"
#include "workunits/tools/export.h"
#include "workunits/tools/picture_format.h"

#if !defined HAVE_JPEG || !defined HAVE_TIFF
static tc_status refuse_format(wu_picture *picture, tc_err *err)
{
    return tc_fail(err, TC_BAD_INPUT,
                   "%s: this build of texcell-wu cannot read %s; convert it to PNG", picture->path,
                   picture->decoder->name);
}

static void close_nothing(wu_picture *picture)
{
    (void)picture;
}
#endif
#ifndef HAVE_JPEG
const wu_picture_decoder wu_picture_jpeg = { .name = "JPEG",
                                             .open = refuse_format,
                                             .close = close_nothing };
#endif
#ifndef HAVE_TIFF
const wu_picture_decoder wu_picture_tiff = { .name = "TIFF",
                                             .open = refuse_format,
                                             .close = close_nothing };

tc_status wu_export_tiff(const wu_result_file *file, const wu_job *images, const char *folder,
                         size_t *written, tc_err *err)
{
    (void)images;
    (void)folder;
    (void)written;
    return tc_fail(err, TC_BAD_INPUT, "%s: this build of texcell-wu cannot write TIFF", file->path);
}
#endif
