/* Writes the labels, masks and maps of a result as TIFF files, which contain the size of a pixel in
 * the form that ImageJ and napari read. */
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
    BIG_BYTES = 1 << 30,   /* files with more bytes of samples are written as BigTIFF */
    STRIP_BYTES = 1 << 18, /* approximate size of a strip, in bytes before compression */
    ZLIB_BYTES = 6         /* bytes of a zlib stream besides its deflated data */
};

/* A file being written. */
typedef struct tiff_file {
    TIFF *tiff;
    const wu_array_info *info; /* the array that is written */
    uint32_t nx, ny, nz;
    unsigned bits;             /* bits of a sample in the file */
    bool is_float;             /* the array is a map */
    double um[3];              /* z, y, x: size of a voxel in micrometres; 0: not known */
    size_t row_bytes;          /* bytes of a row in the file, uncompressed */
    uint32_t rows;             /* rows of a strip */
    unsigned char *values;     /* the values of a strip in the type of the array */
    unsigned char *strip;      /* these values, converted to samples of the file */
    unsigned char *compressed; /* the strip, compressed */
    wu_row_deflater *deflater; /* compresses strips */
    wu_npz_stream *stream;     /* reads the array */
    char message[300];         /* the first error of libtiff, or "" */
} tiff_file;

/* Keeps the first error message of libtiff. user: a tiff_file. */
static void keep_message(void *user, const char *format, va_list args)
{
    tiff_file *const f = user;
    if (f->message[0] == '\0')
        vsnprintf(f->message, sizeof f->message, format, args);
}

/* Sets the tags of page z. The first page gets a description in ImageJ's format. The description
 * must be ASCII, and so the unit is "micron" instead of a micro sign. */
static void set_tags(tiff_file *f, uint32_t z)
{
    char description[200];
    size_t n = (size_t)snprintf(description, sizeof description,
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
        n += (size_t)snprintf(description + n, sizeof description - n, "unit=micron\n");
        if (f->nz > 1)
            snprintf(description + n, sizeof description - n, "spacing=%.9g\n", f->um[0]);
    }
    if (z == 0)
        TIFFSetField(f->tiff, TIFFTAG_IMAGEDESCRIPTION, description);
}

/* Converts n values of f->values to samples of the file in f->strip: labels to 16 bits, which
 * ImageJ opens, or 32 if f->bits is 32; masks to 0 and 255; maps unchanged. Returns false if
 * f->bits is 16 and a label needs 32 bits. */
static bool put_values(const tiff_file *f, size_t n)
{
    const int32_t *const labels = (const void *)f->values;
    uint16_t *const u16 = (void *)f->strip;
    int32_t most = 0;
    if (f->bits == 32)
        memcpy(f->strip, f->values, n * 4);
    for (size_t i = 0; f->bits == 16 && i < n; i++) {
        u16[i] = (uint16_t)labels[i];
        most = labels[i] > most ? labels[i] : most;
    }
    for (size_t i = 0; f->bits == 8 && i < n; i++)
        f->strip[i] = f->values[i] != 0 ? 255 : 0;
    return most <= UINT16_MAX;
}

/* Compresses a strip of n bytes into f->compressed as a zlib stream: 2 bytes of header, deflated
 * data, 4 bytes of checksum. Returns the size of the stream, or 0 if the stream would hardly be
 * smaller than the strip; then libtiff must compress the strip. */
static size_t deflate_strip(const tiff_file *f, size_t n)
{
    const size_t limit = n / WU_ROWS_MIN_RATIO < STRIP_BYTES ? n / WU_ROWS_MIN_RATIO : STRIP_BYTES;
    const wu_row_layout layout = { .word = f->bits / 8, .row = f->row_bytes };
    const size_t deflated = f->is_float ? 0
                                        : wu_deflate_rows(f->deflater, layout, f->strip, n, 0, true,
                                                          f->compressed + 2, limit);
    const unsigned long sum = adler32_z(1, f->strip, n); /* Adler-32 begins with 1 */
    unsigned char *const end = f->compressed + 2 + deflated;
    f->compressed[0] = 0x78; /* deflate, window of 32 KiB */
    f->compressed[1] = 0x01; /* fastest level; makes the header a multiple of 31 */
    for (int i = 0; i < 4; i++)
        end[i] = (unsigned char)(sum >> (24 - 8 * i));
    return deflated == 0 ? 0 : deflated + ZLIB_BYTES;
}

static tc_status fail_writing(const tiff_file *f, const char *path, tc_err *err)
{
    return tc_fail(err, TC_IO, "%s: cannot be written: %s", path, f->message);
}

/* Reads the next `rows` rows and writes them as strip number `strip` of the page. Returns TC_MORE
 * if a label needs 32 bits. */
static tc_status write_strip(tiff_file *f, const char *path, uint32_t strip, uint32_t rows,
                             tc_err *err)
{
    const size_t pixels = (size_t)rows * f->nx, n = rows * f->row_bytes;
    return_if_error(
        wu_npz_stream_read(f->stream, f->values, pixels * wu_dtype_size(f->info->dtype, 0), err));
    if (!put_values(f, pixels))
        return TC_MORE;
    const size_t deflated = deflate_strip(f, n);
    const bool good =
        deflated > 0 ? TIFFWriteRawStrip(f->tiff, strip, f->compressed, (tmsize_t)deflated) >= 0
                     : TIFFWriteEncodedStrip(f->tiff, strip, f->strip, (tmsize_t)n) >= 0;
    return good ? TC_OK : fail_writing(f, path, err);
}

static tc_status write_pages(tiff_file *f, const char *path, tc_err *err)
{
    for (uint32_t z = 0; z < f->nz; z++) {
        set_tags(f, z);
        for (uint32_t y = 0; f->message[0] == '\0' && y < f->ny; y += f->rows)
            return_if_error(
                write_strip(f, path, y / f->rows, f->ny - y < f->rows ? f->ny - y : f->rows, err));
        if (f->message[0] != '\0' || TIFFWriteDirectory(f->tiff) != 1)
            return_if_error(fail_writing(f, path, err));
    }
    return wu_npz_stream_end(f->stream, err);
}

/* Sets sizes and types from the array, and the size of a voxel from the item, if that is not NULL.
 */
static void set_layout(tiff_file *f, const wu_item *item)
{
    const size_t ndim = f->info->ndim;
    f->nx = (uint32_t)f->info->shape[ndim - 1];
    f->ny = (uint32_t)f->info->shape[ndim - 2];
    f->nz = ndim == 3 ? (uint32_t)f->info->shape[0] : 1;
    f->is_float = f->info->dtype == WU_F32;
    f->bits = f->info->dtype == WU_U8 ? 8 : f->is_float ? 32 : 16;
    if (item != NULL && item->has_spacing)
        memcpy(f->um, item->spacing, sizeof f->um);
    else if (item != NULL && item->has_pixel)
        memcpy(f->um + 1, item->pixel, 2 * sizeof *f->um);
}

/* Chooses the number of rows of a strip, and allocates the buffers. */
static tc_status allocate_buffers(tiff_file *f, tc_err *err)
{
    f->row_bytes = (size_t)f->nx * (f->bits / 8);
    f->rows = f->row_bytes < STRIP_BYTES ? (uint32_t)(STRIP_BYTES / f->row_bytes) : 1;
    f->rows = f->rows < f->ny ? f->rows : f->ny;
    f->values = malloc((size_t)f->rows * f->nx * wu_dtype_size(f->info->dtype, 0) + 1);
    f->strip = malloc(f->rows * f->row_bytes + 1);
    f->compressed = malloc(STRIP_BYTES + ZLIB_BYTES);
    f->deflater = wu_row_deflater_create();
    return f->values == NULL || f->strip == NULL || f->compressed == NULL || f->deflater == NULL
               ? tc_no_memory(err, f->info->name)
               : TC_OK;
}

/* Writes all pages to the file `temporary`. path: the final name, for messages. */
static tc_status write_tiff(tiff_file *f, const char *path, const char *temporary, tc_err *err)
{
    wu_tiff_listener listener = { .error = keep_message, .user = f };
    f->tiff = wu_tiff_create(&listener, temporary,
                             (uint64_t)f->nx * f->ny * f->nz * (f->bits / 8) > BIG_BYTES
                                 ? "w8" /* BigTIFF */
                                 : "w");
    tc_status status = f->tiff == NULL ? fail_writing(f, path, err) : write_pages(f, path, err);
    if (status == TC_OK && TIFFFlush(f->tiff) != 1)
        status = fail_writing(f, path, err);
    if (f->tiff != NULL) {
        /* After an error the incomplete page must not be written when the file is closed. */
        TIFFSetMode(f->tiff, status == TC_OK ? O_RDWR : O_RDONLY);
        wu_tiff_close(&listener);
    }
    return status == TC_OK && f->message[0] != '\0' ? fail_writing(f, path, err) : status;
}

/* Writes the array `index` as the file `path`. Returns TC_MORE if a label needs 32 bits. */
static tc_status write_file(tiff_file *f, const wu_result_file *file, size_t index,
                            const char *path, tc_err *err)
{
    wu_new_file out;
    tc_status status = wu_new_file_open(path, &out, err);
    f->values = f->strip = f->compressed = NULL;
    f->deflater = NULL;
    if (status == TC_OK)
        status = allocate_buffers(f, err);
    if (status == TC_OK)
        status = wu_npz_stream_open(file->npz, index, &f->stream, err);
    if (status == TC_OK)
        status = write_tiff(f, path, out.temporary, err);
    status = wu_new_file_close(&out, status, err);
    wu_npz_stream_close(&f->stream);
    free(f->values);
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
        const wu_declaration *const d = &file->declared[k % file->n_declared];
        const size_t item = k / file->n_declared;
        tiff_file f = { .tiff = NULL };
        wu_file_name name = { "" };
        char *path = NULL;
        size_t index;
        if (!wu_is_picture(d->role))
            continue;
        status = wu_find_declared_array(file, d, file->item_names[item], &index, err);
        if (status == TC_OK) {
            f.info = wu_npz_array_info(file->npz, index);
            name = wu_array_file_name(file, d, item, f.info->name);
            path = wu_join_path(folder, name.text, ".tif");
            status = path == NULL ? tc_no_memory(err, folder) : TC_OK;
        }
        if (status == TC_OK)
            status = wu_export_list_file(folder, name.text, ".tif", err);
        if (status == TC_OK) {
            set_layout(&f, images != NULL ? &images->items[item] : NULL);
            status = write_file(&f, file, index, path, err);
        }
        if (status == TC_MORE) {
            f.bits = 32;
            status = write_file(&f, file, index, path, err);
        }
        *written += status == TC_OK;
        free(path);
    }
    return status;
}
