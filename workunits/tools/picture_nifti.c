/*
 * The decoder for NIfTI-1 and NIfTI-2 files (https://nifti.nimh.nih.gov/nifti-1, nifti-2), a format
 * of medical images: a header and the samples, in one file, .nii or .nii.gz. x changes fastest,
 * then y, z, time and channel. The orientation of the axes is ignored: rows and slices come in the
 * order in which they are stored.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "workunits/tools/picture_format.h"

enum {
    MAX_HEADER_BYTES = 540, /* bytes of NIfTI-2's header, which is larger than NIfTI-1's */
    DIMS = 8,               /* numbers in the field dim: the count of axes, and seven lengths */
    GZIP_BUFFER = 1 << 17,  /* bytes of zlib's buffer */
    MAX_PAGES = 1 << 24,  /* slices, summed over times and channels; files with more are refused */
    MAX_GZIP_RATIO = 1032 /* the most bytes that one byte of a gzip file can decompress to */
};

/* The layout of the header in one version of the format. */
typedef struct nifti_version {
    size_t size;   /* bytes of the header */
    uint8_t digit; /* the version as a character: the third character of the field magic */
    /* Offsets of fields in the header. They have the names of the specification, except `type`,
     * which is datatype, and `slope`, which is scl_slope. */
    size_t magic, dim, type, pixdim, vox_offset, slope, xyzt_units;
    size_t units_size; /* bytes of the field xyzt_units */
    size_t int_bytes;  /* bytes of each integer in dim */
    size_t real_bytes; /* bytes of each floating-point number in pixdim and slope */
} nifti_version;

/* NIfTI-1 and NIfTI-2. */
static const nifti_version versions[] = {
    { .size = 348,
      .digit = '1',
      .magic = 344,
      .dim = 40,
      .type = 70,
      .pixdim = 76,
      .vox_offset = 108,
      .slope = 112,
      .xyzt_units = 123,
      .units_size = 1,
      .int_bytes = 2,
      .real_bytes = 4 },
    { .size = 540,
      .digit = '2',
      .magic = 4,
      .dim = 16,
      .type = 12,
      .pixdim = 104,
      .vox_offset = 168,
      .slope = 176,
      .xyzt_units = 500,
      .units_size = 4,
      .int_bytes = 8,
      .real_bytes = 8 },
};

/* The state of the decoder. A page is a slice. */
typedef struct nifti_state {
    const nifti_version *version;
    uint8_t header[MAX_HEADER_BYTES];
    gzFile stream;  /* decompresses a compressed file; NULL: the file is not compressed */
    uint64_t at;    /* offset of the next byte in the decompressed stream */
    uint64_t start; /* offset of the first sample in the (decompressed) file */
    uint64_t page_bytes, n_pages;
    bool must_fit; /* the header is doubtful: the samples must end at the end of the file */
    bool swapped;  /* the file's byte order is not the host's */
} nifti_state;

/* Fails because the file is damaged. what: the fault. */
static tc_status refuse_damaged(const wu_picture *picture, const char *what, tc_err *err)
{
    return tc_fail(err, TC_BAD_INPUT, "%s: damaged NIfTI: %s", picture->path, what);
}

/* Fails because of the header. what: its fault, a phrase with a verb. */
static tc_status refuse_header(const wu_picture *picture, const char *what, tc_err *err)
{
    return tc_fail(err, TC_BAD_INPUT,
                   "%s: its NIfTI header %s; save it again with the program that made it",
                   picture->path, what);
}

/* Returns the error that zlib reports. */
static tc_status fail_stream(const wu_picture *picture, tc_err *err)
{
    const nifti_state *const s = picture->state;
    int fault = Z_OK;
    const char *const text = gzerror(s->stream, &fault);
    return fault == Z_MEM_ERROR ? tc_no_memory(err, picture->path)
           : fault == Z_ERRNO
               ? tc_fail(err, TC_IO, "%s: cannot read: %s", picture->path, strerror(errno))
               : refuse_damaged(picture, text, err);
}

/* --- bytes ----------------------------------------------------------------------------------- */

/* Reads the next n bytes of the file, decompressed. */
static tc_status read_bytes(wu_picture *picture, void *out, uint64_t n, tc_err *err)
{
    nifti_state *const s = picture->state;
    uint8_t *to = out;
    while (n > 0 && s->stream != NULL) {
        const unsigned part = n < 1u << 30 ? (unsigned)n : 1u << 30; /* gzread returns an int */
        const int got = gzread(s->stream, to, part);
        if (got <= 0)
            return got < 0 ? fail_stream(picture, err)
                           : refuse_damaged(picture, "ends too early", err);
        to += got;
        n -= (unsigned)got;
        s->at += (unsigned)got;
    }
    if (n > 0 && fread(to, 1, n, picture->file) != n)
        return refuse_damaged(picture, "ends too early", err);
    return TC_OK;
}

/* Moves to an offset of the (decompressed) file that is not before the current one. */
static tc_status seek_to(wu_picture *picture, uint64_t place, tc_err *err)
{
    nifti_state *const s = picture->state;
    uint8_t skipped[16384];
    if (s->stream == NULL)
        return fseeko(picture->file, (off_t)place, SEEK_SET) == 0
                   ? TC_OK
                   : refuse_damaged(picture, "ends too early", err);
    while (s->at < place)
        return_if_error(read_bytes(picture, skipped,
                                   place - s->at < sizeof skipped ? place - s->at : sizeof skipped,
                                   err));
    return TC_OK;
}

/* For doubtful headers: checks that the file ends at the offset `end`, the end of the samples. */
static tc_status check_fit(wu_picture *picture, uint64_t end, tc_err *err)
{
    nifti_state *const s = picture->state;
    uint8_t beyond;
    return_if_error(seek_to(picture, end, err));
    if (s->stream != NULL ? gzread(s->stream, &beyond, 1) > 0
                          : fread(&beyond, 1, 1, picture->file) == 1)
        return refuse_header(picture,
                             "does not say where its samples begin, or how many bits they have, "
                             "nor does the size of the file show it",
                             err);
    s->at = 0;
    return s->stream == NULL || gzrewind(s->stream) == 0 ? TC_OK : fail_stream(picture, err);
}

/* Checks that the file has at least this many bytes or, if it is compressed, that it is large
 * enough to decompress to this many. */
static tc_status check_size(const wu_picture *picture, uint64_t bytes, tc_err *err)
{
    const nifti_state *const s = picture->state;
    struct stat info;
    if (fstat(fileno(picture->file), &info) != 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: cannot be read: %s", picture->path, strerror(errno));
    return (uint64_t)info.st_size * (s->stream != NULL ? MAX_GZIP_RATIO : 1) >= bytes
               ? TC_OK
               : refuse_damaged(picture, "ends too early", err);
}

/* Opens s->stream if the file is compressed. */
static tc_status open_stream(wu_picture *picture, tc_err *err)
{
    nifti_state *const s = picture->state;
    uint8_t magic[2];
    if (fread(magic, 1, sizeof magic, picture->file) != sizeof magic)
        return refuse_damaged(picture, "ends too early", err);
    rewind(picture->file);
    if (magic[0] != 0x1f || magic[1] != 0x8b)
        return TC_OK;
    const int fd = dup(fileno(picture->file));
    if (fd >= 0 && lseek(fd, 0, SEEK_SET) == 0)
        s->stream = gzdopen(fd, "rb");
    if (s->stream == NULL) {
        if (fd >= 0)
            close(fd);
        return tc_no_memory(err, picture->path);
    }
    gzbuffer(s->stream, GZIP_BUFFER);
    return TC_OK;
}

/* --- the header ------------------------------------------------------------------------------ */

/* Converts a number of n bytes from the file's byte order to the host's. */
static void swap_bytes(const nifti_state *s, uint8_t *bytes, size_t n)
{
    for (size_t i = 0; s->swapped && i < n / 2; i++) {
        const uint8_t byte = bytes[i];
        bytes[i] = bytes[n - 1 - i];
        bytes[n - 1 - i] = byte;
    }
}

/* Returns the integer of n bytes at the offset `at` of the header; it is signed, unless n is 1. */
static int64_t number_at(const nifti_state *s, size_t at, size_t n)
{
    uint8_t bytes[8] = { 0 };
    int16_t two;
    int32_t four;
    int64_t eight;
    memcpy(bytes, s->header + at, n);
    swap_bytes(s, bytes, n);
    memcpy(&two, bytes, sizeof two);
    memcpy(&four, bytes, sizeof four);
    memcpy(&eight, bytes, sizeof eight);
    return n == 1 ? bytes[0] : n == 2 ? two : n == 4 ? four : eight;
}

/* Returns the floating-point number of n bytes, 4 or 8, at the offset `at` of the header. */
static double real_at(const nifti_state *s, size_t at, size_t n)
{
    uint8_t bytes[8] = { 0 };
    float single;
    double value;
    memcpy(bytes, s->header + at, n);
    swap_bytes(s, bytes, n);
    memcpy(&value, bytes, sizeof value);
    memcpy(&single, bytes, sizeof single);
    return n == 4 ? (double)single : value;
}

/* Reads the header. Its first number is its own size, which shows the version and the byte order.
 */
static tc_status read_header(wu_picture *picture, tc_err *err)
{
    nifti_state *const s = picture->state;
    return_if_error(read_bytes(picture, s->header, 4, err));
    for (int swapped = 0; swapped < 2 && s->version == NULL; swapped++) {
        s->swapped = swapped != 0;
        for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++)
            if (number_at(s, 0, 4) == (int64_t)versions[i].size)
                s->version = &versions[i];
    }
    /* A file without compression begins with the size of a header, or this decoder would not have
     * been chosen for it. So this one is compressed. */
    if (s->version == NULL)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: is compressed by gzip, but does not contain a NIfTI picture",
                       picture->path);
    return_if_error(read_bytes(picture, s->header + 4, s->version->size - 4, err));
    const uint8_t *const magic = s->header + s->version->magic;
    if (magic[0] == 'n' && magic[1] == 'i' && magic[2] == s->version->digit)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: is the header of a NIfTI picture in two files; save it as one .nii",
                       picture->path);
    return magic[0] == 'n' && magic[1] == '+' && magic[2] == s->version->digit
               ? TC_OK
               : tc_fail(err, TC_BAD_INPUT,
                         "%s: its header does not say NIfTI: it may be an Analyze picture; "
                         "save it as one .nii",
                         picture->path);
}

/* Reads the type of samples, and slope and intercept. */
static tc_status read_type(wu_picture *picture, tc_err *err)
{
    static const struct {
        int code;           /* the value of NIfTI's field datatype */
        wu_samples samples; /* type, bits, channels, rgb; slope and offset, which are set below */
    } types[] = {
        { 2, { WU_SAMPLE_UNSIGNED, 8, 1, false, 0, 0 } },
        { 256, { WU_SAMPLE_SIGNED, 8, 1, false, 0, 0 } },
        { 512, { WU_SAMPLE_UNSIGNED, 16, 1, false, 0, 0 } },
        { 4, { WU_SAMPLE_SIGNED, 16, 1, false, 0, 0 } },
        { 768, { WU_SAMPLE_UNSIGNED, 32, 1, false, 0, 0 } },
        { 8, { WU_SAMPLE_SIGNED, 32, 1, false, 0, 0 } },
        { 1280, { WU_SAMPLE_UNSIGNED, 64, 1, false, 0, 0 } },
        { 1024, { WU_SAMPLE_SIGNED, 64, 1, false, 0, 0 } },
        { 16, { WU_SAMPLE_FLOAT, 32, 1, false, 0, 0 } },
        { 64, { WU_SAMPLE_FLOAT, 64, 1, false, 0, 0 } },
        { 128, { WU_SAMPLE_UNSIGNED, 8, 3, true, 0, 0 } },
    };
    nifti_state *const s = picture->state;
    /* The field bitpix follows datatype, and scl_inter (the offset) follows scl_slope. */
    const int64_t code = number_at(s, s->version->type, 2),
                  bits = number_at(s, s->version->type + 2, 2);
    const double slope = real_at(s, s->version->slope, s->version->real_bytes),
                 offset =
                     real_at(s, s->version->slope + s->version->real_bytes, s->version->real_bytes);
    size_t i = 0;
    while (i < sizeof types / sizeof types[0] && types[i].code != code)
        i++;
    if (i == sizeof types / sizeof types[0])
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: has samples of NIfTI's type %d; integers, floating-point and RGB of 8 "
                       "bits are read",
                       picture->path, (int)code);
    picture->samples = types[i].samples;
    s->must_fit = bits != (int64_t)picture->samples.bits * picture->samples.channels;
    picture->about.remarks |= s->must_fit ? WU_REMARK_BIT_MISMATCH : 0;
    /* A slope of 0, or NaN, which some programs write, means that there is no slope. */
    if (isinf(slope))
        picture->about.remarks |= WU_REMARK_INFINITE_SLOPE;
    if (!isfinite(slope) || slope == 0 || picture->samples.rgb)
        return TC_OK;
    if (!isfinite(offset))
        return refuse_header(picture, "has a slope, and an intercept that is not a number", err);
    if (slope < 1 || slope > 1 || offset < 0 || offset > 0) { /* slope != 1 || offset != 0 */
        picture->samples.slope = slope;
        picture->samples.offset = offset;
    }
    return TC_OK;
}

/* Reads the lengths of the axes: dim[1] to dim[7] are x, y, z, time, channel and two others. */
static tc_status read_axes(wu_picture *picture, tc_err *err)
{
    nifti_state *const s = picture->state;
    wu_metadata *const metadata = &picture->metadata;
    uint64_t dim[DIMS] = { 0, 1, 1, 1, 1, 1, 1, 1 };
    const int64_t n = number_at(s, s->version->dim, s->version->int_bytes); /* number of axes */
    if (n < 1 || n >= DIMS)
        return refuse_header(picture, "counts less than one axis, or more than seven", err);
    for (int64_t i = 1; i <= n; i++) {
        const int64_t size = number_at(s, s->version->dim + s->version->int_bytes * (size_t)i,
                                       s->version->int_bytes);
        if (size < 1)
            return refuse_header(picture, "says that an axis has no length", err);
        dim[i] = (uint64_t)size;
    }
    metadata->by = "its NIfTI header";
    metadata->slices = dim[3];
    metadata->frames = dim[4];
    metadata->channels = dim[5];
    metadata->others = dim[6] > 1 ? dim[6] : dim[7];
    snprintf(metadata->other, sizeof metadata->other, "the sixth or seventh");
    memcpy(metadata->order, "ztc", sizeof metadata->order);
    s->n_pages = 1;
    for (int i = 3; i < DIMS; i++) {
        if (dim[i] > MAX_PAGES || s->n_pages * dim[i] > MAX_PAGES)
            return tc_fail(err, TC_BAD_INPUT,
                           "%s: has more than %d slices, summed over times and channels",
                           picture->path, MAX_PAGES);
        s->n_pages *= dim[i];
    }
    picture->n_pages = s->n_pages;
    return wu_picture_set_size(picture, dim[1], dim[2], err);
}

/* Reads the size of a voxel. */
static void read_size(wu_picture *picture)
{
    /* Micrometres per unit, by the unit's code: unknown, metre, millimetre, micrometre, unused. */
    static const double um[] = { 0, 1e6, 1e3, 1, 0, 0, 0, 0 };
    const nifti_state *const s = picture->state;
    const int64_t unit = number_at(s, s->version->xyzt_units, s->version->units_size);
    for (size_t i = 0; i < 3; i++)
        picture->about.um[2 - i] = real_at(s, s->version->pixdim + s->version->real_bytes * (i + 1),
                                           s->version->real_bytes) *
                                   um[unit & 7]; /* the other bits are the unit of time */
}

static tc_status open_nifti(wu_picture *picture, tc_err *err)
{
    nifti_state *const s = calloc(1, sizeof *s);
    picture->state = s;
    if (s == NULL)
        return tc_no_memory(err, picture->path);
    return_if_error(open_stream(picture, err));
    return_if_error(read_header(picture, err));
    return_if_error(read_axes(picture, err));
    return_if_error(read_type(picture, err));
    read_size(picture);
    const double start = s->version->int_bytes == 8
                             ? (double)number_at(s, s->version->vox_offset, 8)
                             : real_at(s, s->version->vox_offset, 4);
    const bool no_start = fpclassify(start) == FP_ZERO;
    /* The samples begin after the header and the 4 bytes that announce extensions. */
    if (!no_start &&
        (!(start >= (double)s->version->size + 4 && start <= 1 << 30) || start != floor(start)))
        return refuse_header(picture, "says that its samples begin where they cannot", err);
    picture->about.remarks |=
        no_start ? WU_REMARK_NO_DATA_OFFSET : 0; /* the samples' place is not stated */
    s->must_fit = s->must_fit || no_start;
    s->start = no_start ? s->version->size + 4 : (uint64_t)start;
    s->page_bytes = (uint64_t)picture->info.nx * picture->info.ny * picture->samples.channels *
                    (picture->samples.bits / 8);
    const uint64_t end = s->start + s->n_pages * s->page_bytes;
    return_if_error(check_size(picture, end, err));
    return s->must_fit ? check_fit(picture, end, err) : TC_OK;
}

/* Verifies the checksum of a compressed file, which zlib does when a byte after the last one is
 * read. */
static tc_status check_end(const wu_picture *picture, tc_err *err)
{
    const nifti_state *const s = picture->state;
    uint8_t beyond;
    int fault = Z_OK;
    gzread(s->stream, &beyond, 1);
    gzerror(s->stream, &fault);
    return fault == Z_OK || fault == Z_STREAM_END ? TC_OK : fail_stream(picture, err);
}

static tc_status next_nifti(wu_picture *picture, uint64_t page, void *samples, tc_err *err)
{
    nifti_state *const s = picture->state;
    const size_t bytes = picture->samples.bits / 8;
    tc_status status = seek_to(picture, s->start + page * s->page_bytes, err);
    if (status == TC_OK)
        status = read_bytes(picture, samples, s->page_bytes, err);
    for (size_t i = 0; status == TC_OK && s->swapped && bytes > 1 && i < s->page_bytes; i += bytes)
        swap_bytes(s, (uint8_t *)samples + i, bytes);
    return status == TC_OK && s->stream != NULL && page + 1 == s->n_pages ? check_end(picture, err)
                                                                          : status;
}

static void close_nifti(wu_picture *picture)
{
    nifti_state *const s = picture->state;
    if (s != NULL && s->stream != NULL)
        gzclose_r(s->stream);
    free(s);
    picture->state = NULL;
}

const wu_picture_decoder wu_picture_nifti = { "NIfTI", open_nifti, next_nifti, close_nifti };
