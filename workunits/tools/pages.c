/* Reads an item's pages from its files, and converts them to the pixels that a work unit stores: to
 * grey if need be, and masks to 0 and 255. Surveys the pixels: computes statistics of them
 * (an_survey), on which notes and checks depend. */
#include "workunits/tools/pages.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/os.h"
#include "workunits/format/grey.h"
#include "workunits/tools/tools.h"

/* --- conversion and survey ------------------------------------------------------------------- */

/* Converts an RGB page in place to (R+G+B)/3. */
static void make_grey(uint8_t *data, wu_picture_info *info)
{
    wu_make_grey(data, (size_t)info->nx * info->ny, data);
    info->channels = 1;
}

/* Converts a page of a mask in place to bytes: 255 where any channel is not 0, else 0. */
static void make_mask(uint8_t *data, wu_picture_info *info)
{
    const size_t step = (size_t)info->channels * (info->bits / 8);
    const size_t n = (size_t)info->nx * info->ny;
    for (size_t i = 0; i < n; i++) {
        bool inside = false;
        for (size_t k = 0; k < step; k++)
            inside = inside || data[i * step + k] != 0;
        data[i] = inside ? 255 : 0;
    }
    info->channels = 1;
    info->bits = 8;
}

/* Counts the pixels inside the mask. */
static void survey_mask(const uint8_t *data, const wu_picture_info *info, an_survey *out)
{
    const size_t n = (size_t)info->nx * info->ny;
    for (size_t i = 0; i < n; i++)
        out->inside += data[i] != 0;
}

/* Counts the different grey values up to the third one. In most pictures this is among the first
 * few pixels. */
static void survey_values(const uint8_t *bytes, const uint16_t *words, size_t n, an_survey *out)
{
    for (size_t i = 0; i < n && out->n_values < 3; i++) {
        const uint32_t grey = bytes != NULL ? bytes[i] : words[i];
        if ((out->n_values > 0 && grey == out->values[0]) ||
            (out->n_values > 1 && grey == out->values[1]))
            continue;
        if (out->n_values < 2)
            out->values[out->n_values] = grey;
        out->n_values++;
    }
}

unsigned wu_bits_of_greatest(uint32_t value)
{
    for (unsigned bits = 10; bits <= 16; bits += 2) {
        const uint32_t greatest = ((uint32_t)1 << bits) - 1;
        if (value == greatest || value == greatest << (16 - bits))
            return bits;
    }
    return value == UINT8_MAX ? 8 : 0;
}

void wu_survey_greys(const void *data, const wu_picture_info *info, an_survey *out)
{
    assert(info->bits == 8 || info->bits == 16);
    const size_t n = (size_t)info->nx * info->ny;
    const uint8_t *const bytes = data;
    const uint16_t *const words = data;
    unsigned lo = UINT_MAX, hi = 0;
    uint64_t saturated = 0;
    if (info->bits == 16) {
        for (size_t i = 0; i < n; i++) {
            lo = words[i] < lo ? words[i] : lo;
            hi = words[i] > hi ? words[i] : hi;
        }
        const bool is_greatest = wu_bits_of_greatest(hi) > 8;
        for (size_t i = 0; is_greatest && i < n; i++)
            saturated += words[i] == hi;
        survey_values(NULL, words, n, out);
    } else {
        enum { BLOCK = 512 }; /* pixels that are converted to grey at a time */
        /* least, most: the range of the grey values so far. */
        uint8_t greys[BLOCK], least = UINT8_MAX, most = 0;
        for (size_t i = 0, n_block; i < n; i += n_block) {
            const uint8_t *const block = bytes + info->channels * i;
            /* That range, extended to the bytes of this block. */
            uint8_t with_lo = least, with_hi = most;
            n_block = n - i < BLOCK ? n - i : BLOCK;
            wu_widen_range(block, info->channels * n_block, &with_lo, &with_hi);
            if (info->channels == 1) {
                least = with_lo;
                most = with_hi;
                saturated += most == UINT8_MAX ? wu_count_white(block, n_block) : 0;
            } else if (with_lo < least || with_hi > most) {
                /* Some byte is outside the range, so the grey values must be computed. A grey
                 * value is the mean of three bytes: if all bytes were in the range, so would all
                 * grey values be. */
                wu_make_grey(block, n_block, greys);
                wu_widen_range(greys, n_block, &least, &most);
            }
        }
        lo = least;
        hi = most;
        if (info->channels == 1)
            survey_values(bytes, NULL, n, out);
    }
    if (hi > out->hi)
        out->saturated = 0; /* what was counted is not the greatest value */
    out->saturated += hi >= out->hi ? saturated : 0;
    out->lo = lo < out->lo ? lo : out->lo;
    out->hi = hi > out->hi ? hi : out->hi;
}

void wu_survey_colours(const uint8_t *data, size_t n_pixels, an_survey *out)
{
    enum {
        LANES = 48, /* samples summed side by side: 16 pixels */
        PART = 16,  /* samples of a vector; a vector of words has their sums */
        MOST = 257  /* the most bytes whose sum fits into 16 bits: 257 * 255 = 65535 */
    };
    typedef uint8_t bytes __attribute__((vector_size(PART), aligned(1)));
    typedef uint16_t words __attribute__((vector_size(2 * PART)));
    const size_t n = 3 * n_pixels;
    size_t i = 0;
    while (n - i >= LANES) {
        words sums[LANES / PART] = { 0 };
        for (int k = 0; k < MOST && n - i >= LANES; k++, i += LANES)
            for (size_t v = 0; v < LANES / PART; v++)
                sums[v] += __builtin_convertvector(
                    *(const bytes *)(const void *)(data + i + v * PART), words);
        for (size_t j = 0; j < LANES; j++)
            out->rgb[j % 3] += sums[j / PART][j % PART];
    }
    for (; i < n; i++)
        out->rgb[i % 3] += data[i];
}

bool wu_has_one_colour(const an_survey *survey, char *text, size_t size)
{
    /* A colour counts as the only one if its sum is at least MUCH times the sum of the other two,
     * which may differ from 0 because of JPEG or a scale bar. */
    enum { MUCH = 8 };
    static const char *const names[3] = { "red", "green", "blue" };
    const uint64_t sum = survey->rgb[0] + survey->rgb[1] + survey->rgb[2];
    for (size_t c = 0; c < 3; c++)
        if (sum > 0 && survey->rgb[c] >= MUCH * (sum - survey->rgb[c])) {
            snprintf(text, size,
                     "has only %s, and the grey value, (R+G+B)/3, is a third of it: --channel %s "
                     "uses all of it",
                     names[c], names[c]);
            return true;
        }
    return false;
}

bool wu_has_few_greys(const an_survey *survey, char *text, size_t size)
{
    enum { FEW = 16 }; /* there is a note if the grey values span less than this */
    if (survey->lo >= survey->hi || survey->hi - survey->lo >= FEW)
        return false;
    const bool as_mask = survey->lo == 0 && survey->hi == 1;
    snprintf(
        text, size, "its greys are %u to %u only%s: --scale %u,%u maps them from black to white",
        survey->lo, survey->hi,
        as_mask ? ", as in a mask (then analyse the picture itself, and give this one by --mask)"
                : "",
        survey->lo, survey->hi);
    return true;
}

/* --- reading --------------------------------------------------------------------------------- */

/* The files that the reader reads: the files of the item, of its mask or of its labels. */
static const wu_page_files *files_of(const wu_page_reader *reader)
{
    return wu_page_files_of(reader->item, reader->kind);
}

/* Opens the next file, and checks that its header is still what it was when the items were found.
 * Before the first file, resets the part of the item's survey that the pages will be added to. */
static tc_status open_next_file(wu_page_reader *reader, tc_err *err)
{
    const wu_page_files *files = files_of(reader);
    if (reader->next_file >= files->n_files)
        return tc_fail(err, TC_INTERNAL, "%s: has no more pages", files->files[0]);
    if (reader->next_file == 0 && reader->kind == WU_KIND_MASK)
        reader->item->survey.inside = 0;
    else if (reader->next_file == 0 && reader->kind == WU_KIND_IMAGE)
        reader->item->survey = (an_survey){ .lo = UINT32_MAX };
    const char *path = files->files[reader->next_file++];
    wu_picture_want want = files->want;
    /* An image's PNG can be copied as it is, if its pixels are not to be converted to grey. */
    want.wants_encoded = reader->wants_encoded && reader->kind == WU_KIND_IMAGE &&
                         reader->item->colour == NULL &&
                         !(reader->item->is_stack && files->info.channels == 3);
    return_if_error(wu_picture_open(path, &want, &reader->picture, err));
    const wu_picture_info *opened = wu_picture_get_info(reader->picture);
    const uint32_t expected = files->n_files == 1 ? files->info.nz : 1;
    if (opened->nx != files->info.nx || opened->ny != files->info.ny || opened->nz != expected ||
        opened->bits != files->info.bits || opened->channels > files->info.channels)
        return tc_fail(err, TC_BAD_INPUT, "%s: changed while it was being compressed", path);
    reader->pages_left = opened->nz;
    return TC_OK;
}

tc_status wu_page_buffer_reserve(wu_page_buffer *buffer, size_t bytes, const char *what,
                                 tc_err *err)
{
    if (bytes <= buffer->size)
        return TC_OK;
    free(buffer->data);
    buffer->data = os_alloc_zeroed(bytes);
    buffer->size = buffer->data == NULL ? 0 : bytes;
    return buffer->data == NULL ? tc_no_memory(err, what) : TC_OK;
}

/* Decodes the next page without converting it. After the last page of a file, prints or keeps the
 * note about the file. */
static tc_status decode_page(wu_page_reader *reader, wu_page_buffer *buffer, wu_picture_info *info,
                             tc_err *err)
{
    if (reader->picture == NULL)
        return_if_error(open_next_file(reader, err));
    const char *const path = files_of(reader)->files[reader->next_file - 1];
    *info = *wu_picture_get_info(reader->picture);
    info->nz = 1;
    return_if_error(wu_page_buffer_reserve(buffer, wu_picture_page_bytes(info), path, err));
    tc_status status = wu_picture_next(reader->picture, buffer->data, err);
    free(reader->encoded);
    reader->encoded =
        status == TC_OK ? wu_picture_encoded(reader->picture, &reader->n_encoded) : NULL;
    if (status != TC_OK || --reader->pages_left > 0)
        return status;
    const char *note = wu_picture_note(reader->picture);
    if (note != NULL && reader->defer_notes)
        reader->note = strdup(note);
    else if (note != NULL && !reader->quiet)
        wu_print_note_of_file(path, "%s", note);
    wu_picture_close(&reader->picture);
    return TC_OK;
}

tc_status wu_page_next(wu_page_reader *reader, wu_page_buffer *buffer, wu_picture_info *info,
                       tc_err *err)
{
    assert(reader->item != NULL);
    const tc_status status = decode_page(reader, buffer, info, err);
    if (status != TC_OK || reader->kind == WU_KIND_LABELS)
        return status;
    if (reader->kind == WU_KIND_MASK) {
        make_mask(buffer->data, info);
        if (reader->survey)
            survey_mask(buffer->data, info, &reader->item->survey);
        return TC_OK;
    }
    if (reader->item->colour != NULL) {
        wu_colour_apply(reader->item->colour, buffer->data, info);
    } else if (info->channels == 3) {
        if (reader->defer_grey && !reader->item->is_stack)
            return TC_OK;
        if (reader->survey)
            wu_survey_colours(buffer->data, (size_t)info->nx * info->ny, &reader->item->survey);
        if (reader->item->is_stack) {
            make_grey(buffer->data, info);
            reader->became_grey = true;
        }
    }
    if (reader->survey)
        wu_survey_greys(buffer->data, info, &reader->item->survey);
    return TC_OK;
}

void wu_page_reader_close(wu_page_reader *reader)
{
    wu_picture_close(&reader->picture);
    free(reader->encoded);
    reader->encoded = NULL;
    if (reader->note != NULL)
        wu_print_note_of_file(files_of(reader)->files[0], "%s", reader->note);
    free(reader->note);
    reader->note = NULL;
    if (reader->became_grey && !reader->quiet)
        wu_print_note_of_file(files_of(reader)->files[0], "colour slices became grey, (R+G+B)/3");
}

/* --- all items ------------------------------------------------------------------------------- */

/* Decodes all pages of an item, its mask or its labels, to check and survey them. */
static tc_status decode_pages(wu_source *item, wu_kind kind, bool survey, wu_page_buffer *buffer,
                              tc_err *err)
{
    TC_AUTO(wu_page_reader_close)
    wu_page_reader reader = { .item = item, .kind = kind, .quiet = true, .survey = survey };
    wu_picture_info info;
    for (uint32_t z = 0; z < files_of(&reader)->info.nz; z++)
        return_if_error(wu_page_next(&reader, buffer, &info, err));
    return TC_OK;
}

tc_status wu_sources_decode(wu_sources *sources, wu_item_check *check, void *user, tc_err *err)
{
    wu_page_buffer buffer = { 0 };
    tc_status status = TC_OK;
    for (size_t i = 0; i < sources->n && status == TC_OK; i++) {
        wu_source *const item = &sources->items[i];
        wu_show_progress("files decoded", i, sources->n);
        if (item->fault != NULL)
            continue;
        status = decode_pages(item, WU_KIND_IMAGE, check != NULL, &buffer, err);
        if (status == TC_OK && item->mask.n_files > 0)
            status = decode_pages(item, WU_KIND_MASK, check != NULL, &buffer, err);
        if (status == TC_OK && check != NULL)
            status = check(user, item, err);
        /* Bad input is kept as the item's fault, and does not end the loop. */
        status = wu_source_keep_fault(item, status, err);
    }
    wu_show_progress("files decoded", 1, 1);
    free(buffer.data);
    return status;
}
