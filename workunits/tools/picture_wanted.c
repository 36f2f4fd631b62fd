/* Converts decoded pages to the channels and the type of samples that the caller wants. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "workunits/format/job.h"
#include "workunits/tools/picture_format.h"

/* --- samples --------------------------------------------------------------------------------- */

/* Whether the picture is RGB of more than 8 bits. */
static bool is_deep_colour(const wu_picture *picture)
{
    return picture->info.channels == 3 && picture->samples.bits > 8;
}

/* Whether slope and offset only add a whole number to the samples. */
static bool is_shift(const wu_samples *s)
{
    return s->slope >= 1 && s->slope <= 1 && s->offset == floor(s->offset);
}

/* Whether the values are of a type that can be stored as unsigned 8 or 16 bits without scaling;
 * whether each value is in that range is checked when pages are converted. */
static bool sample_fits(const wu_picture *picture)
{
    const wu_samples *const s = &picture->samples;
    return s->type != WU_SAMPLE_FLOAT && s->bits <= 16 && (s->slope == 0 || is_shift(s)) &&
           !is_deep_colour(picture);
}

/* Sets info.bits. Unsigned samples without a slope keep their bits, in labels up to 32, in masks up
 * to 16; other labels have 32 bits, other masks 8. Images have 8 bits if the samples have 8 bits
 * (those with a slope only if they are scaled), or if RGB is scaled; else 16. TC_BAD_INPUT: the
 * samples cannot be converted, or need a scale. */
static tc_status choose_bits(wu_picture *picture, tc_err *err)
{
    const wu_samples *const s = &picture->samples;
    wu_picture_info *const info = &picture->info;
    const bool whole = s->type == WU_SAMPLE_UNSIGNED && s->slope == 0;
    switch (picture->want.kind) {
    case WU_KIND_LABELS:
        info->bits = whole && s->bits <= 32 ? s->bits : 32;
        if (is_deep_colour(picture) || (info->channels > 1 && info->bits == 32))
            return tc_fail(err, TC_BAD_INPUT,
                           "%s: is RGB of %u bits; label pictures are grey, or RGB of 8 bits",
                           picture->path, s->bits);
        return TC_OK;
    case WU_KIND_MASK: info->bits = whole && s->bits <= 16 ? s->bits : 8; return TC_OK;
    default:
        info->bits = (s->bits == 8 && (s->slope == 0 || picture->want.scaled)) ||
                             (picture->want.scaled && info->channels == 3)
                         ? 8
                         : 16;
        return picture->want.scaled || sample_fits(picture)
                   ? TC_OK
                   : wu_picture_refuse_unscaled(picture, err);
    }
}

tc_status wu_picture_set_info(wu_picture *picture, tc_err *err)
{
    const wu_samples *const s = &picture->samples;
    const unsigned channel = picture->want.channel;
    return_if_error(wu_picture_choose_pages(picture, err));
    picture->info.channels = s->channels;
    if (channel > 0 && s->channels > 1 && !picture->info.chosen) {
        if (picture->want.colour && !(s->rgb && s->channels == 3))
            return wu_picture_refuse_colour(picture, s->channels, err);
        if (channel > s->channels)
            return tc_fail(err, TC_BAD_INPUT, "%s: has %u channels; %u is none of them",
                           picture->path, s->channels, channel);
        picture->info.channels = 1;
        picture->info.chosen = true;
    }
    if (picture->info.channels > 1 && !(s->rgb && s->channels == 3))
        return tc_fail(err, TC_BAD_INPUT, "%s: has %u samples a pixel; %s", picture->path,
                       s->channels, wu_channel_advice(picture));
    if ((uint64_t)picture->info.nx * picture->info.ny * s->channels > 4 * WU_MAX_VOXELS)
        return tc_fail(err, TC_BAD_INPUT, "%s: %u x %u pixels of %u samples are too many",
                       picture->path, picture->info.nx, picture->info.ny, s->channels);
    return choose_bits(picture, err);
}

bool wu_picture_is_unconverted(const wu_picture *picture)
{
    const wu_samples *const s = &picture->samples;
    return s->type == WU_SAMPLE_UNSIGNED && s->slope == 0 && s->bits == picture->info.bits &&
           s->channels == picture->info.channels &&
           !(picture->want.scaled && picture->want.kind == WU_KIND_IMAGE);
}

size_t wu_picture_raw_bytes(const wu_picture *picture)
{
    return (size_t)picture->info.nx * picture->info.ny * picture->samples.channels *
           (picture->samples.bits / 8);
}

/* Returns sample i of the page `raw`, which is as the decoder returned it. */
static double sample_at(const wu_samples *s, const void *raw, size_t i)
{
    const uint8_t *const at = (const uint8_t *)raw + i * (s->bits / 8);
    union {
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        float f32;
        double f64;
    } v;
    memcpy(&v, at, s->bits / 8);
    if (s->type == WU_SAMPLE_FLOAT)
        return s->bits == 32 ? (double)v.f32 : v.f64;
    if (s->type == WU_SAMPLE_SIGNED)
        return s->bits == 8 ? v.i8 : s->bits == 16 ? v.i16 : s->bits == 32 ? v.i32 : (double)v.i64;
    return s->bits == 8 ? v.u8 : s->bits == 16 ? v.u16 : s->bits == 32 ? v.u32 : (double)v.u64;
}

/* The number of samples of a converted page. */
static size_t wanted_samples(const wu_picture *picture)
{
    return (size_t)picture->info.nx * picture->info.ny * picture->info.channels;
}

/* Returns the value, with slope and offset, of sample i of the converted page. raw: the page as
 * decoded. */
static double value_at(const wu_picture *picture, const void *raw, size_t i)
{
    const wu_samples *const s = &picture->samples;
    /* The decoded page has s->channels samples a pixel. Of these the converted page has `keep`,
     * from number `from` on: either all of them or the wanted channel. */
    const unsigned keep = picture->info.channels,
                   from = keep < s->channels ? picture->want.channel - 1 : 0;
    const double sample = sample_at(s, raw, i / keep * s->channels + i % keep + from);
    return s->slope != 0 ? s->slope * sample + s->offset : sample;
}

/* Converts a value to a sample of the converted page: inside a mask 255; labels unchanged, but an
 * invalid label becomes UINT32_MAX; values of images scaled, if want.scaled. */
static uint32_t scale_value(wu_picture *picture, double value)
{
    const wu_picture_want *const want = &picture->want;
    const double most = picture->info.bits == 8 ? 255 : 65535;
    if (want->kind == WU_KIND_MASK)
        return value < 0 || value > 0 ? 255 : 0; /* value != 0 */
    if (want->kind == WU_KIND_LABELS)
        return value >= 0 && value <= WU_MAX_LABEL && value == floor(value) ? (uint32_t)value
                                                                            : UINT32_MAX;
    if (isnan(value)) {
        picture->not_numbers = true;
        return 0;
    }
    if (!want->scaled)
        return (uint32_t)value;
    const double scaled = (value - want->lo) / (want->hi - want->lo) * most;
    picture->infinite = picture->infinite || isinf(value);
    picture->n_scaled++;
    picture->n_clipped += value < want->lo || value > want->hi;
    return scaled <= 0 ? 0 : scaled >= most ? (uint32_t)most : (uint32_t)(scaled + 0.5);
}

/* Extends the range [*lo, *hi] to the finite values of the wanted samples of the page `raw`.
 * Returns true if some of these samples are infinite. */
static bool widen_range(const wu_picture *picture, const void *raw, double *lo, double *hi)
{
    const size_t n = wanted_samples(picture);
    bool infinite = false;
    for (size_t i = 0; i < n; i++) {
        const double value = value_at(picture, raw, i);
        *lo = isfinite(value) && value < *lo ? value : *lo;
        *hi = isfinite(value) && value > *hi ? value : *hi;
        infinite = infinite || isinf(value);
    }
    return infinite;
}

/* Returns TC_BAD_INPUT with a message that a value of the page is outside 0..65535. */
static tc_status refuse_range(const wu_picture *picture, const void *raw, tc_err *err)
{
    double lo = DBL_MAX, hi = -DBL_MAX;
    (void)widen_range(picture, raw, &lo, &hi);
    return tc_fail(err, TC_BAD_INPUT,
                   "%s: has values from %g to %g%s, and texcell takes 0 to 65535; --scale LO,HI "
                   "says which values become black and white",
                   picture->path, lo, hi, picture->info.nz > 1 ? " in a slice" : "");
}

/* Whether the samples are labels of 32 bits that need no conversion, but only a check against
 * WU_MAX_LABEL. Signed labels may be read as unsigned: negative ones then exceed WU_MAX_LABEL. */
static bool are_whole_labels(const wu_picture *picture)
{
    const wu_samples *const s = &picture->samples;
    return picture->want.kind == WU_KIND_LABELS && picture->info.bits == 32 && s->bits == 32 &&
           s->type != WU_SAMPLE_FLOAT && s->slope == 0 && s->channels == picture->info.channels;
}

tc_status wu_picture_convert(wu_picture *picture, const void *raw, void *pixels, tc_err *err)
{
    const bool unscaled = picture->want.kind == WU_KIND_IMAGE && !picture->want.scaled;
    const size_t n = wanted_samples(picture);
    if (are_whole_labels(picture)) {
        const uint32_t *const labels = raw;
        for (size_t i = 0; i < n; i++)
            ((uint32_t *)pixels)[i] = labels[i] <= WU_MAX_LABEL ? labels[i] : UINT32_MAX;
        return TC_OK;
    }
    for (size_t i = 0; i < n; i++) {
        const double value = value_at(picture, raw, i);
        if (unscaled && (value < 0 || value > 65535))
            return refuse_range(picture, raw, err);
        const uint32_t v = scale_value(picture, value);
        if (picture->info.bits == 8)
            ((uint8_t *)pixels)[i] = (uint8_t)v;
        else if (picture->info.bits == 16)
            ((uint16_t *)pixels)[i] = (uint16_t)v;
        else
            ((uint32_t *)pixels)[i] = v;
    }
    return TC_OK;
}

/* --- the error for samples that need a scale ------------------------------------------------- */

/* The type of the samples, for the message: "floating-point samples". */
static const char *samples_in_words(const wu_samples *s)
{
    return s->slope != 0                ? "samples with a slope"
           : s->type == WU_SAMPLE_FLOAT ? "floating-point samples"
           : s->bits <= 16              ? "RGB of 16 bits"
           : s->bits == 32              ? "samples of 32 bits"
                                        : "samples of 64 bits";
}

tc_status wu_picture_refuse_unscaled(wu_picture *picture, tc_err *err)
{
    const wu_samples *const s = &picture->samples;
    double lo = DBL_MAX, hi = -DBL_MAX;
    bool infinite = false;
    void *const raw = malloc(wu_picture_raw_bytes(picture));
    tc_status status = raw == NULL ? tc_no_memory(err, picture->path) : TC_OK;
    /* The range of all pages tells the user which --scale suits them. */
    for (uint32_t z = 0; status == TC_OK && z < picture->info.nz; z++) {
        status = wu_picture_decode(picture, z, raw, err);
        if (status == TC_OK)
            infinite = widen_range(picture, raw, &lo, &hi) || infinite;
        picture->pages_read++;
    }
    free(raw);
    if (status != TC_OK)
        return status;
    if (lo > hi)
        return tc_fail(err, TC_BAD_INPUT, "%s: has no sample that is a finite number",
                       picture->path);
    return tc_fail(
        err, TC_BAD_INPUT,
        "%s: has %s, from %g to %g%s%s; --scale LO,HI says which values become black and white%s",
        picture->path, samples_in_words(s), lo, hi, infinite ? ", and infinite ones" : "",
        lo == 0 && s->slope == 0 && s->type != WU_SAMPLE_FLOAT && s->bits >= 32
            ? ", as label pictures have, which objects takes as --labels"
            : "",
        is_deep_colour(picture) ? ", --channel N takes one channel as it is" : "");
}
