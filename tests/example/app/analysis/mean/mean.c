/* The analysis mean: the mean of the pixels above a threshold. */
#include "app/analysis/mean/mean.h"

#include <math.h>

#include "app/analysis/check.h"
#include "app/analysis/mean/core.h"
#include "app/analysis/selftest.h"

typedef struct mean_state {
    an_state_head head; /* counts rows */
    mean_sum sum;       /* the sums over the finished rows */
} mean_state;

static const an_param parameters[] = {
    { "threshold", AN_INT, AN_FIELD(mean_params, threshold), .min = 0, .max = 65535,
      .default_value = "0", .unit = "grey values", .help = "Pixels below it do not count." },
    { .key = NULL }
};

/* --- the work -------------------------------------------------------------------------------- */

static tc_status plan(const void *params, const wu_item *item, an_plan *out, tc_err *err)
{
    const uint64_t rows = (uint64_t)item->ny * item->nz, pixels = rows * item->nx;

    (void)params;
    (void)err;
    out->chunks = rows;
    out->state_bytes = sizeof(mean_state);
    out->memory_bytes = pixels * (item->bits / 8) + ((uint64_t)8 << 20);
    out->thread_bytes = PLAN_THREAD_BYTES;
    out->load_flops = an_reading_flops(item);
    out->flops = out->load_flops + 10.0 * (double)pixels;
    return TC_OK;
}

static void run_row(const an_work *work, uint64_t row, void *sum)
{
    const mean_params *const p = work->params;
    const wu_pixels *const px = work->pixels;
    const size_t start = row * px->nx;

    for (size_t i = start; i < start + px->nx; i++)
        mean_add(sum, px->bits == 8 ? px->u8[i] : px->u16[i], (tc_u32)p->threshold);
}

static void add_sum(void *state, const void *sum)
{
    mean_state *const s = state;
    const mean_sum *const more = sum;

    s->sum.pixels += more->pixels;
    s->sum.grey += more->grey;
}

const an_chunked mean_rows = { sizeof(mean_sum), run_row, add_sum };
AN_CHUNKED_BACKEND(cpu, mean_rows);

/* Checks a state from a checkpoint, which may be damaged. */
static tc_status check_state(const an_work *work, const void *state, tc_err *err)
{
    const mean_state *const s = state;

    if (s->sum.pixels > s->head.chunks_done * work->item->nx || s->sum.grey > s->sum.pixels * 65535)
        return tc_fail(err, TC_BAD_INPUT, "the sums are damaged");
    return TC_OK;
}

/* --- the result ------------------------------------------------------------------------------ */

static const wu_axis sides = { .n = 2, .words = (const char *const[]){ "below", "bright" } };

static tc_status expect(const void *params, const wu_item *item, wu_output *out, tc_err *err)
{
    const wu_declaration arrays[] = { { "pixels", WU_I64, WU_VALUE, "items", .title = "pixels",
                                        .unit = "pixel", .n_axes = 1, .axes = { sides } },
                                      { "mean", WU_F64, WU_VALUE, "items", .title = "mean" } };

    (void)params;
    return wu_output_declare(out, arrays, sizeof arrays / sizeof arrays[0], item, err);
}

static tc_status finish(const an_work *work, size_t item_index, const void *state, wu_output *out,
                        tc_err *err)
{
    const mean_sum *const sum = &((const mean_state *)state)->sum;
    const uint64_t all = (uint64_t)work->item->nx * work->item->ny * work->item->nz;

    (void)item_index;
    return_if_error(expect(work->params, work->item, out, err));
    return_if_error(wu_output_allocate(out, 0, err));
    int64_t *const pixels = wu_output_data(out, "pixels");
    pixels[0] = (int64_t)(all - sum->pixels);
    pixels[1] = (int64_t)sum->pixels;
    *(double *)wu_output_data(out, "mean") =
        sum->pixels > 0 ? (double)sum->grey / (double)sum->pixels : (double)NAN;
    return TC_OK;
}

/* Checks for values that no item's pixels can give. */
static tc_status check_result(const void *params, const wu_item *item, const wu_output *out,
                              tc_err *err)
{
    const int32_t threshold = ((const mean_params *)params)->threshold;
    const int64_t *const counts = wu_output_data(out, "pixels");
    const int64_t pixels = counts[1], all = (int64_t)item->nx * item->ny * item->nz;
    const double mean = *(const double *)wu_output_data(out, "mean");
    const char *fault = NULL;
    int64_t sum;

    return_if_error(an_check_range(out, "pixels", 0, all, err));
    if (counts[0] != all - pixels || (threshold == 0 && pixels != all))
        return an_fail_impossible("pixels", 0, "not as many as the item has", err);
    if ((pixels == 0) != isnan(mean))
        fault = "a number without any pixel, or NaN with pixels";
    else if (pixels > 0 && !an_is_quotient(mean, pixels, &sum))
        fault = "not a mean of so many pixels";
    else if (pixels > 0 && (mean < threshold || mean > (1 << item->bits) - 1))
        fault = "not from the threshold to the largest grey value";
    return fault == NULL ? TC_OK : an_fail_impossible("mean", 0, fault, err);
}

/* Self-tests with 8 and 16 bits, a picture and a stack. */
static const an_selftest selftests[] = {
    { .parameters = "{}", .nx = 61, .ny = 47, .nz = 1, .bits = 8, .state_crc = 0xb44639e1 },
    { .parameters = "{\"threshold\":30000}",
      .nx = 37,
      .ny = 29,
      .nz = 11,
      .bits = 16,
      .state_crc = 0xd583543a },
    { .parameters = NULL }
};

const an_analysis an_mean = { .name = "mean",
                              .summary = "the mean of the pixels that are bright enough",
                              .params_bytes = sizeof(mean_params),
                              .parameters = parameters,
                              .plan = plan,
                              .check_state = check_state,
                              .finish = finish,
                              .declare_arrays = expect,
                              .check_result = check_result,
                              .cpu = &cpu,
                              .selftests = selftests };
