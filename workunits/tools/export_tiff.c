/* Labels, masks and maps as TIFF, with the pixel's size as ImageJ and napari read it. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <tiffio.h>
#include <zlib.h>

#include "workunits/format/csv.h"
#include "workunits/format/deflate_rows.h"
#include "workunits/format/new_file.h"
#include "workunits/tools/export.h"
#include "workunits/tools/tiff_open.h"

enum {
    BIG = 1 << 30, /* bytes from which on the file is a BigTIFF */
    STRIP = 1 << 18,
};

typedef struct tiff_file {
    TIFF *tiff;
    const wu_array_info *info;
    uint32_t nx, ny, nz;
    unsigned bits;
    bool is_float;
    double um[3]; /* of a voxel: z, y, x; 0: not known */
    size_t row_bytes;
    uint32_t rows; /* of a strip */
    unsigned char *strip, *compressed;
    wu_row_deflater *deflater;
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
    TIFFSetField(f->tiff, TIFFTAG_ROWSPERSTRIP, f->rows);
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
static void put_values(const tiff_file *f, const unsigned char *from, size_t n, void *to)
{
    const int32_t *const labels = (const void *)from;
    uint16_t *const u16 = to;
    uint8_t *const u8 = to;
    if (f->bits == 32)
        memcpy(to, from, n * 4);
    for (size_t i = 0; f->bits == 16 && i < n; i++)
        u16[i] = (uint16_t)labels[i];
    for (size_t i = 0; f->bits == 8 && i < n; i++)
        u8[i] = from[i] != 0 ? 255 : 0;
}

/* As zlib wraps it; 0: what is not worth it is left to libtiff. */
static size_t deflate_strip(const tiff_file *f, size_t n)
{
    const wu_row_layout layout = { f->bits / 8, f->row_bytes };
    const size_t deflated = f->is_float ? 0
                                        : wu_deflate_rows(f->deflater, layout, f->strip, n, 0, true,
                                                          f->compressed + 2, STRIP);
    const unsigned long sum = adler32_z(1, f->strip, n);
    unsigned char *const end = f->compressed + 2 + deflated;
    f->compressed[0] = 0x78;
    f->compressed[1] = 0x01;
    for (int i = 0; i < 4; i++)
        end[i] = (unsigned char)(sum >> (24 - 8 * i));
    return deflated == 0 ? 0 : deflated + 6;
}

static bool write_strip(tiff_file *f, uint32_t strip, const unsigned char *from, uint32_t rows)
{
    const size_t n = rows * f->row_bytes;
    put_values(f, from, (size_t)rows * f->nx, f->strip);
    const size_t deflated = deflate_strip(f, n);
    return deflated > 0 ? TIFFWriteRawStrip(f->tiff, strip, f->compressed, (tmsize_t)deflated) >= 0
                        : TIFFWriteEncodedStrip(f->tiff, strip, f->strip, (tmsize_t)n) >= 0;
}

static bool write_pages(tiff_file *f, const unsigned char *data)
{
    const size_t stride = (size_t)f->nx * wu_dtype_size(f->info->dtype, 0);
    bool good = true;
    for (uint32_t z = 0; good && z < f->nz; z++) {
        set_tags(f, z);
        good = f->message[0] == '\0';
        for (uint32_t y = 0; good && y < f->ny; y += f->rows)
            good = write_strip(f, y / f->rows, data + ((size_t)z * f->ny + y) * stride,
                               f->ny - y < f->rows ? f->ny - y : f->rows);
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
    int32_t most = 0;
    for (size_t i = 0; f->bits == 16 && i < (size_t)f->nx * f->ny * f->nz; i++)
        most = ((const int32_t *)data)[i] > most ? ((const int32_t *)data)[i] : most;
    f->bits = most > 65535 ? 32 : f->bits;
    f->row_bytes = (size_t)f->nx * (f->bits / 8);
    f->rows = f->row_bytes < STRIP ? (uint32_t)(STRIP / f->row_bytes) : 1;
    f->rows = f->rows < f->ny ? f->rows : f->ny;
    if (item != NULL && item->has_spacing)
        memcpy(f->um, item->spacing, sizeof f->um);
    else if (item != NULL && item->has_pixel)
        memcpy(f->um + 1, item->pixel, 2 * sizeof *f->um);
}

static tc_status write_file(tiff_file *f, const char *path, const void *data, tc_err *err)
{
    wu_tiff_listener listener = { .error = keep_message, .user = f };
    wu_new_file out;
    tc_status status = wu_new_file_open(path, &out, err);
    f->strip = malloc(f->rows * f->row_bytes);
    f->compressed = malloc(STRIP + 6);
    f->deflater = wu_row_deflater_create();
    if (status == TC_OK && (f->strip == NULL || f->compressed == NULL || f->deflater == NULL))
        status = tc_no_memory(err, path);
    if (status == TC_OK) {
        f->tiff =
            wu_tiff_open(&listener, out.temporary,
                         (uint64_t)f->nx * f->ny * f->nz * (f->bits / 8) > BIG ? "w8" : "w", 0);
        bool good = f->tiff != NULL && write_pages(f, data);
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
    free(f->strip);
    free(f->compressed);
    free(f->deflater);
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
