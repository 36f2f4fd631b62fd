/* The decoder for JPEG files, which uses libjpeg. */
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "workunits/tools/picture_format.h"

enum {
    MAX_SCANS = 200, /* the most scans of a progressive file: each costs a pass over the whole
                        picture, and real files have about ten */
    EXIF_BYTES = 6,  /* length of "Exif\0\0", which precedes the Exif data in an APP1 marker */
    ICC_BYTES = 12,  /* length of "ICC_PROFILE\0", with which an APP2 marker of a profile begins */
    /* Bytes of the file that are read at once. libjpeg's own source manager reads fewer, and
     * decoding is slower with it. */
    SOURCE_BYTES = 1 << 18
};

/* The state of the decoder: libjpeg's structures, and those of the functions that it calls. */
typedef struct jpeg_state {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    struct jpeg_source_mgr source;
    FILE *file;
    bool has_begun;             /* bytes of the file were read */
    JOCTET bytes[SOURCE_BYTES]; /* buffer for bytes of the file */
    jmp_buf jump;               /* where on_error continues */
    bool no_memory;             /* libjpeg's error is that memory ran out */
    bool decoding;              /* the header was read */
    bool several_scans;         /* the file is progressive, or has a scan for each component */
    bool harmless_warning;      /* libjpeg gave a warning that is_harmless accepts */
    char message[JMSG_LENGTH_MAX];
    bool created; /* jpeg must be destroyed */
} jpeg_state;

/* Keeps libjpeg's error message and jumps back to the setjmp of the decoder's function. */
static void on_error(j_common_ptr common)
{
    jpeg_state *state = common->client_data;
    common->err->format_message(common, state->message);
    state->no_memory = common->err->msg_code == JERR_OUT_OF_MEMORY;
    longjmp(state->jump, 1);
}

/* Whether the cause of libjpeg's current warning changes no sample: extra bytes between the
 * segments of the header, a segment that is not used, or a missing end marker. */
static bool is_harmless(j_common_ptr common)
{
    const jpeg_state *const state = common->client_data;
    switch (common->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA: return !state->decoding;
    case JWRN_JFIF_MAJOR:
    case JWRN_ADOBE_XFORM: return true;
    /* The file ends early. If it has a single scan, only the end marker is missing, since libjpeg
     * gives another warning for missing samples; if it has several, whole scans may be missing. */
    case JWRN_JPEG_EOF: return state->decoding && !state->several_scans;
    default: return false;
    }
}

/* Turns a warning (level -1) into an error, unless it is harmless: libjpeg would invent samples in
 * place of corrupt data, and results would be wrong without notice. */
static void on_message(j_common_ptr common, int level)
{
    jpeg_state *const state = common->client_data;
    if (level < 0 && !is_harmless(common))
        on_error(common);
    state->harmless_warning = state->harmless_warning || level < 0;
}

/* libjpeg calls this while it decodes. Stops decoding after too many scans. */
static void on_progress(j_common_ptr common)
{
    jpeg_state *state = common->client_data;
    if (state->jpeg.input_scan_number > MAX_SCANS) {
        snprintf(state->message, sizeof state->message, "more than %d scans", MAX_SCANS);
        longjmp(state->jump, 1);
    }
}

/* --- the file -------------------------------------------------------------------------------- */

/* libjpeg calls this at the beginning and at the end of reading. There is nothing to do. */
static void do_nothing(j_decompress_ptr jpeg)
{
    (void)jpeg;
}

/* Reads more of the file. If it has ended, warns and supplies an end marker. */
static boolean fill_source(j_decompress_ptr jpeg)
{
    jpeg_state *const state = jpeg->client_data;
    size_t n = fread(state->bytes, 1, SOURCE_BYTES, state->file);
    if (n == 0 && !state->has_begun)
        ERREXIT(jpeg, JERR_INPUT_EMPTY);
    if (n == 0) {
        WARNMS(jpeg, JWRN_JPEG_EOF);
        state->bytes[n++] = 0xff;
        state->bytes[n++] = JPEG_EOI;
    }
    state->has_begun = true;
    state->source.next_input_byte = state->bytes;
    state->source.bytes_in_buffer = n;
    return TRUE;
}

/* Skips n bytes of the file. */
static void skip_source(j_decompress_ptr jpeg, long n)
{
    struct jpeg_source_mgr *const source = jpeg->src;
    for (; n > 0 && (size_t)n > source->bytes_in_buffer; fill_source(jpeg))
        n -= (long)source->bytes_in_buffer;
    if (n > 0) {
        source->next_input_byte += n;
        source->bytes_in_buffer -= (size_t)n;
    }
}

static void open_source(jpeg_state *state, FILE *file)
{
    state->file = file;
    /* No byte is in the buffer yet: libjpeg calls fill_source first. */
    state->source = (struct jpeg_source_mgr){ .init_source = do_nothing,
                                              .fill_input_buffer = fill_source,
                                              .skip_input_data = skip_source,
                                              .resync_to_restart = jpeg_resync_to_restart,
                                              .term_source = do_nothing };
    state->jpeg.src = &state->source;
}

/* --- the picture ----------------------------------------------------------------------------- */

static tc_status fail_jpeg(const wu_picture *picture, tc_err *err)
{
    const jpeg_state *state = picture->state;
    if (state->no_memory)
        return tc_no_memory(err, picture->path);
    return tc_fail(err, TC_BAD_INPUT, "%s: damaged JPEG: %s", picture->path, state->message);
}

/* Makes libjpeg return grey or RGB. TC_BAD_INPUT: the file has other colours. */
static tc_status choose_colours(wu_picture *picture, tc_err *err)
{
    jpeg_state *state = picture->state;
    switch (state->jpeg.jpeg_color_space) {
    case JCS_GRAYSCALE:
        state->jpeg.out_color_space = JCS_GRAYSCALE;
        picture->samples = (wu_samples){ .bits = 8, .channels = 1 };
        return TC_OK;
    case JCS_YCbCr:
    case JCS_RGB:
        state->jpeg.out_color_space = JCS_RGB;
        picture->samples = (wu_samples){ .bits = 8, .channels = 3, .rgb = true };
        return TC_OK;
    case JCS_CMYK:
    case JCS_YCCK:
        return tc_fail(err, TC_BAD_INPUT, "%s: is a CMYK JPEG; convert it to RGB or grey first",
                       picture->path);
    default:
        return tc_fail(err, TC_BAD_INPUT, "%s: is a JPEG of %d components, not grey or colour",
                       picture->path, state->jpeg.num_components);
    }
}

static tc_status open_jpeg(wu_picture *picture, tc_err *err)
{
    jpeg_state *state = calloc(1, sizeof *state);
    picture->state = state;
    if (state == NULL)
        return tc_no_memory(err, picture->path);
    state->jpeg.err = jpeg_std_error(&state->errors);
    state->jpeg.client_data = state;
    state->errors.error_exit = on_error;
    state->errors.emit_message = on_message;
    state->progress.progress_monitor = on_progress;
    if (setjmp(state->jump) != 0)
        return fail_jpeg(picture, err);
    jpeg_create_decompress(&state->jpeg);
    state->created = true;
    state->jpeg.progress = &state->progress;
    /* Markers APP1 (Exif) are kept whole, of markers APP2 only the beginning. */
    jpeg_save_markers(&state->jpeg, JPEG_APP0 + 1, 0xffff);
    jpeg_save_markers(&state->jpeg, JPEG_APP0 + 2, ICC_BYTES);
    open_source(state, picture->file);
    jpeg_read_header(&state->jpeg, TRUE);
    return_if_error(
        wu_picture_set_size(picture, state->jpeg.image_width, state->jpeg.image_height, err));
    for (jpeg_saved_marker_ptr m = state->jpeg.marker_list; m != NULL; m = m->next) {
        if (m->data_length > EXIF_BYTES && memcmp(m->data, "Exif\0\0", EXIF_BYTES) == 0)
            wu_about_read_exif(m->data + EXIF_BYTES, m->data_length - EXIF_BYTES, &picture->about);
        if (m->data_length >= ICC_BYTES && memcmp(m->data, "ICC_PROFILE", ICC_BYTES) == 0)
            picture->about.remarks |= WU_REMARK_COLOUR_PROFILE;
        /* Multi-Picture Format: further pictures follow in the file; only the first is read. */
        if (m->data_length >= 4 && memcmp(m->data, "MPF", 4) == 0)
            picture->about.remarks |= WU_REMARK_MORE_IMAGES;
    }
    picture->about.remarks |= state->harmless_warning ? WU_REMARK_STRAY_BYTES : 0;
    state->harmless_warning = false; /* from now on only a missing end marker sets it */
    /* The density is in pixels per inch (unit 1) or centimetre (unit 2). */
    if (state->jpeg.saw_JFIF_marker && state->jpeg.density_unit > 0)
        wu_about_set_resolution(picture, state->jpeg.X_density, state->jpeg.Y_density,
                                state->jpeg.density_unit == 1 ? 25400 : 1e4);
    state->several_scans = jpeg_has_multiple_scans(&state->jpeg) != 0;
    return choose_colours(picture, err);
}

static tc_status next_jpeg(wu_picture *picture, uint64_t page, void *samples, tc_err *err)
{
    jpeg_state *state = picture->state;
    const size_t row_bytes = (size_t)picture->info.nx * picture->samples.channels;
    (void)page;
    if (setjmp(state->jump) != 0)
        return fail_jpeg(picture, err);
    state->decoding = true;
    jpeg_start_decompress(&state->jpeg);
    while (state->jpeg.output_scanline < state->jpeg.output_height) {
        JSAMPROW row = (JSAMPROW)samples + state->jpeg.output_scanline * row_bytes;
        jpeg_read_scanlines(&state->jpeg, &row, 1);
    }
    jpeg_finish_decompress(&state->jpeg);
    picture->no_end = state->harmless_warning;
    return TC_OK;
}

static void close_jpeg(wu_picture *picture)
{
    jpeg_state *state = picture->state;
    if (state == NULL)
        return;
    if (state->created)
        jpeg_destroy_decompress(&state->jpeg);
    free(state);
    picture->state = NULL;
}

const wu_picture_decoder wu_picture_jpeg = { "JPEG", open_jpeg, next_jpeg, close_jpeg };
