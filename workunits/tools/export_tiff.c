/* Labels, masks and maps as TIFF, with the pixel's size as ImageJ and napari read it. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <tiffio.h>

#include "workunits/format/csv.h"
#include "workunits/format/new_file.h"
#include "workunits/tools/export.h"
#include "workunits/tools/tiff_open.h"

enum { BIG = 1 << 30 }; /* bytes from which on the file is a BigTIFF */

typedef struct tiff_file {
    TIFF *tiff;
    const wu_array_info *info;
    uint32_t nx, ny, nz;
    unsigned bits;
    bool is_float;
    double um[3];      /* of a voxel: z, y, x; 0: not known */
    char message[300]; /* libtiff's */
} tiff_file;

static void keep_message(void *user, const char *format, va_list args)
{
    tiff_file *const f = user;
    if (f->message[0] == '\0')
        vsnprintf(f->message, sizeof f->message, format, args);
}

/* ImageJ's own way of saying what a TIFF is; its unit has to be ASCII. */
static void set_tags(tiff_file *f, uint32_t z)
{
    char about[200];
    size_t n = (size_t)snprintf(about, sizeof about,
                                "ImageJ=1.53t\nimages=%u\nslices=%u\nloop=false\n", f->nz, f->nz);
    TIFFSetField(f->tiff, TIFFTAG_IMAGEWIDTH, f->nx);
    TIFFSetField(f->tiff, TIFFTAG_IMAGELENGTH, f->ny);
    TIFFSetField(f->tiff, TIFFTAG_BITSPERSAMPLE, f->bits);
    TIFFSetField(f->tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
    TIFFSetField(f->tiff, TIFFTAG_SAMPLEFORMAT,
                 f->is_float ? SAMPLEFORMAT_IEEEFP : SAMPLEFORMAT_UINT);
    TIFFSetField(f->tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
    TIFFSetField(f->tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
    TIFFSetField(f->tiff, TIFFTAG_COMPRESSION, COMPRESSION_ADOBE_DEFLATE);
    TIFFSetField(f->tiff, TIFFTAG_ZIPQUALITY, 1);
    TIFFSetField(f->tiff, TIFFTAG_ROWSPERSTRIP, TIFFDefaultStripSize(f->tiff, 0));
    if (f->um[2] > 0) {
        TIFFSetField(f->tiff, TIFFTAG_RESOLUTIONUNIT, RESUNIT_NONE);
        TIFFSetField(f->tiff, TIFFTAG_XRESOLUTION, 1 / f->um[2]);
        TIFFSetField(f->tiff, TIFFTAG_YRESOLUTION, 1 / f->um[1]);
        n += (size_t)snprintf(about + n, sizeof about - n, "unit=micron\n");
        if (f->nz > 1)
            snprintf(about + n, sizeof about - n, "spacing=%.9g\n", f->um[0]);
    }
    if (z == 0)
        TIFFSetField(f->tiff, TIFFTAG_IMAGEDESCRIPTION, about);
}

/* Labels of 16 bits where they fit, which ImageJ opens; masks 0 and 255. */
static void put_row(const tiff_file *f, const unsigned char *from, void *row)
{
    for (uint32_t x = 0; x < f->nx; x++)
        if (f->info->dtype == WU_I32 && f->bits == 16)
            ((uint16_t *)row)[x] = (uint16_t)((const int32_t *)(const void *)from)[x];
        else if (f->bits == 8)
            ((uint8_t *)row)[x] = from[x] != 0 ? 255 : 0;
        else
            ((uint32_t *)row)[x] = ((const uint32_t *)(const void *)from)[x];
}

static bool write_pages(tiff_file *f, const unsigned char *data, void *row)
{
    const size_t stride = (size_t)f->nx * wu_dtype_size(f->info->dtype, 0);
    bool good = true;
    for (uint32_t z = 0; good && z < f->nz; z++) {
        set_tags(f, z);
        good = f->message[0] == '\0';
        for (uint32_t y = 0; good && y < f->ny; y++) {
            put_row(f, data + ((size_t)z * f->ny + y) * stride, row);
            good = TIFFWriteScanline(f->tiff, row, y, 0) == 1;
        }
        good = good && TIFFWriteDirectory(f->tiff) == 1;
    }
    return good;
}

static void write_tags(tiff_file *f, const void *data, const wu_item *item)
{
    const size_t ndim = f->info->ndim;
    f->nx = (uint32_t)f->info->shape[ndim - 1];
    f->ny = (uint32_t)f->info->shape[ndim - 2];
    f->nz = ndim == 3 ? (uint32_t)f->info->shape[0] : 1;
    f->is_float = f->info->dtype == WU_F32;
    f->bits = f->info->dtype == WU_U8 ? 8 : f->is_float ? 32 : 16;
    for (size_t i = 0;
         f->info->dtype == WU_I32 && f->bits == 16 && i < (size_t)f->nx * f->ny * f->nz; i++)
        f->bits = ((const int32_t *)data)[i] > 65535 ? 32 : 16;
    if (item != NULL && item->has_spacing)
        memcpy(f->um, item->spacing, sizeof f->um);
    else if (item != NULL && item->has_pixel)
        memcpy(f->um + 1, item->pixel, 2 * sizeof *f->um);
}

static tc_status write_file(tiff_file *f, const char *path, const void *data, tc_err *err)
{
    void *const row = malloc((size_t)f->nx * sizeof(uint32_t));
    wu_tiff_listener listener = { .error = keep_message, .user = f };
    wu_new_file out;
    tc_status status = wu_new_file_open(path, &out, err);
    if (status == TC_OK && row == NULL)
        status = tc_no_memory(err, path);
    if (status == TC_OK) {
        f->tiff =
            wu_tiff_open(&listener, out.temporary,
                         (uint64_t)f->nx * f->ny * f->nz * (f->bits / 8) > BIG ? "w8" : "w", 0);
        bool good = f->tiff != NULL && write_pages(f, data, row);
        good = good && TIFFFlush(f->tiff) == 1;
        if (f->tiff != NULL) {
            TIFFSetMode(f->tiff,
                        good ? O_RDWR : O_RDONLY); /* nothing more is written of what is half set */
            wu_tiff_close(&listener);
        }
        if (!good || f->message[0] != '\0')
            status = tc_fail(err, TC_IO, "%s: cannot be written: %s", path, f->message);
    }
    status = wu_new_file_close(&out, status, err);
    free(row);
    return status;
}

tc_status wu_export_tiff(const wu_result_file *file, const wu_job *images, const char *folder,
                         size_t *written, tc_err *err)
{
    tc_status status = TC_OK;
    for (size_t k = 0; k < file->n_items * file->n_declared && status == TC_OK; k++) {
        const wu_declared *const d = &file->declared[k % file->n_declared];
        const size_t item = k / file->n_declared;
        tiff_file f = { .tiff = NULL };
        wu_file_name name = { "" };
        char *path = NULL;
        void *data = NULL;
        size_t index;
        if (!wu_is_picture(d->role))
            continue;
        status = wu_find_declared(file, d, file->item_names[item], &index, err);
        if (status == TC_OK) {
            f.info = wu_npz_info(file->npz, index);
            name = wu_name_file(file, d, item, f.info->name);
            path = wu_path_in(folder, name.text, ".tif");
            status = path == NULL ? tc_no_memory(err, folder)
                                  : wu_npz_load(file->npz, index, &data, err);
        }
        if (status == TC_OK)
            status = wu_export_begin(folder, name.text, ".tif", err);
        if (status == TC_OK) {
            write_tags(&f, data, images != NULL ? &images->items[item] : NULL);
            status = write_file(&f, path, data, err);
        }
        *written += status == TC_OK;
        free(path);
        free(data);
    }
    return status;
}
