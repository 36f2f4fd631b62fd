/* cellcount: checks items, plans the work (chunks, costs, memory), decides which regions pass the
 * filters, and contains the self-tests and the analysis' table of functions. */
#include "app/analysis/cellcount/cpu.h"

#include "app/analysis/common/phases.h"
#include "app/analysis/selftest.h"
#include "app/analysis/suggest.h"

static tc_status check_item(const void *params, const wu_item *item, const char *where, tc_err *err)
{
    const cc_params *const p = params;
    const uint64_t n = (uint64_t)item->nx * item->ny;

    if (item->is_stack)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: is a stack; cellcount takes pictures (of stacks: voting finds nuclei, "
                       "volume cells within membranes; if the pages are channels, --channel N "
                       "takes one)",
                       where);
    if (p->threshold_word == CC_LOCAL && !cc_finds_threshold(p) &&
        (uint32_t)p->offset >= cc_middle_grey(item->bits))
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: has %u bits a pixel, so parameters.offset cannot be %d", where,
                       item->bits, (int)p->offset);
    if (p->threshold_word == 0 && p->threshold >= 1 << item->bits)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: has %u bits a pixel, so parameters.threshold cannot be %d", where,
                       item->bits, (int)p->threshold);
    /* A label image must have less than 1023 * 4 MiB, which is 4 MiB below 4 GiB. */
    if (p->labels && n * sizeof(int32_t) >= ((uint64_t)4 << 20) * 1023)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: %llu pixels are too many for a label image; "
                       "set parameters.labels to false",
                       where, (unsigned long long)n);
    return TC_OK;
}

/* Sets costs[phase], in operations per pixel, of the phases before the threshold. */
static void preparing_costs(const cc_params *p, double *costs)
{
    const double rows = 2.0 * p->radius + 1, mean = 40; /* rows of the disc; cost of a mean */

    costs[CC_SMOOTH] = p->smooth > 0 ? 4 + 2.3 * (2.0 * an_gauss_radius(p->smooth) + 1) : 0;
    costs[CC_EXTREME] = p->background && p->ground == CC_OPENING ? 25 + 3.6 * rows : 0;
    costs[CC_GROUND] = !p->background ? 0 : p->ground == CC_OPENING ? 35 + 3.6 * rows : mean;
    costs[CC_LOCAL_MEAN] = p->threshold_word == CC_LOCAL ? mean : 0;
}

/* Sets costs[phase], in operations per pixel, of the phases of a split. In a split by intensity
 * some phases take longer, as grey values have plateaus, and more maxima than distances have. */
static void split_costs(const cc_params *p, double *costs)
{
    const bool grey = p->split == CC_INTENSITY;

    costs[CC_BYTES] = grey ? 0 : 4.5;
    costs[CC_DISTANCE_X] = grey ? 0 : 15;
    costs[CC_DISTANCE_Y] = grey ? 0 : 47;
    costs[CC_HEIGHTS] = grey ? 8 : 0;
    costs[CC_ASCEND] = grey ? 45 : 32;
    costs[CC_EDGES] = grey ? 25 : 0;
    costs[CC_FLAT] = grey ? 4 : 0;
    costs[CC_FLAT_JOIN] = grey ? 7 : 0;
    costs[CC_MAXIMA] = grey ? 24 : 20;
    costs[CC_SADDLES] = grey ? 70 : 29;
    costs[CC_CLEAR] = 1.7;
    costs[CC_FIRST] = grey ? 24 : 13;
    costs[CC_ROOTS] = grey ? 8 : 5;
    costs[CC_PARTS] = 11;
    costs[CC_IDS] = 5;
}

/* Sets costs[phase], in operations per pixel, of all phases, as measured on pictures of all kinds
 * (make bench-progress). */
static void phase_costs(const cc_params *p, double costs[CC_PHASES])
{
    for (size_t i = 0; i < CC_PHASES; i++)
        costs[i] = 0;
    preparing_costs(p, costs);
    costs[CC_HISTOGRAM] = cc_finds_threshold(p) ? 2 : 0;
    costs[CC_MASK] = 1;
    costs[CC_HOLES] = p->fill_holes ? 5 : 0;
    costs[CC_HOLE_SEAMS] = p->fill_holes ? 0.6 : 0;
    costs[CC_FILL] = p->fill_holes ? 2 : 0;
    costs[CC_BANDS] = p->split ? 0 : 5;
    costs[CC_SEAMS] = p->split ? 0 : 0.2;
    if (p->split)
        split_costs(p, costs);
    costs[CC_COUNT] = 0.2;
    costs[CC_NUMBER] = 0.2;
    costs[CC_AREAS] = !cc_has_filters(p) ? 0 : cc_needs_boxes(p) ? 4 : 1.8;
    costs[CC_RENUMBER] = cc_has_filters(p) ? 0.2 : 0;
    costs[CC_PAINT] = 6.5;
    costs[CC_MEASURE] = 5.5;
}

/* Implements an_analysis.time_share. */
static double time_share(const an_work *work, uint64_t chunks_done)
{
    double costs[CC_PHASES];

    phase_costs(work->params, costs);
    return an_phases_spent(costs, CC_PHASES, work->plan.chunks / CC_PHASES, chunks_done);
}

static void plan_flops(const cc_params *p, const wu_item *item, an_plan *out)
{
    const double n = (double)item->nx * item->ny;
    double costs[CC_PHASES];

    phase_costs(p, costs);
    out->load_flops = an_reading_flops(item) + (p->polarity == CC_AUTO ? n * 2 : 0);
    if (p->window_auto) /* analyses the picture's middle with about five windows */
        out->load_flops += 5 * an_middle_pixels(item) * an_phases_sum(costs, CC_PHASES);
    out->finish_flops = n * (2 + (p->labels ? 18 : 0));
    out->compress_flops = n * (p->labels ? 82 : 0);
    out->write_flops = n * 3.5;
    out->byte_flops = 45;
    an_complete_plan(out, item, n * an_phases_sum(costs, CC_PHASES));
}

uint64_t cc_thread_bytes(const cc_params *p, const wu_item *item)
{
    const edt_job edt = { .nx = item->nx, .ny = item->ny, .nz = 1 };

    return (item->nx + (uint64_t)CC_PAD) * 7 * sizeof(int32_t) + ((uint64_t)8 << item->bits) +
           (p->split == CC_DISTANCE ? edt_scratch_bytes(&edt) : 0) +
           (cc_has_preparation(p) ? cc_prepare_scratch(p, item->nx) : 0) + PLAN_THREAD_BYTES;
}

static tc_status plan(const void *params, const wu_item *item, an_plan *out, tc_err *err)
{
    const cc_params *const p = params;
    const cc_contents most = cc_most_contents(p, item);

    (void)err;
    out->chunks = (uint64_t)cc_bands(item->nx, item->ny) * CC_PHASES;
    out->state_bytes =
        cc_table_at(item->nx, item->ny) + cc_table_rows(item->nx, item->ny) * sizeof(cc_region);
    out->sparse_state = !p->labels && !p->split; /* the plane may not be written */
    out->thread_bytes = cc_thread_bytes(p, item);
    cc_memory_of(p, item, &most, out);
    /* Without a split: the state's plane, which the CPU backend may never write, and the plane of
     * cc_host_roots. With a split, memory_bytes contains both. */
    out->device_bytes = (uint64_t)item->nx * item->ny * sizeof(int32_t) * (p->split ? 0 : 2);
    out->most_rows = most.regions;
    plan_flops(p, item, out);
    return TC_OK;
}

bool cc_needs_boxes(const cc_params *p)
{
    return p->min_fill > 0 || p->max_aspect > 0 || p->min_contrast;
}

bool cc_has_filters(const cc_params *p)
{
    return p->min_area > 1 || p->min_area_auto || p->max_area < INT64_MAX || p->exclude_border ||
           cc_needs_boxes(p);
}

bool cc_passes_without_contrast(const cc_params *p, int64_t area, bool border, int64_t height,
                                int64_t width)
{
    const double shorter = (double)(height < width ? height : width),
                 longer = (double)(height < width ? width : height);

    return area >= p->min_area && area <= p->max_area && !(p->exclude_border && border) &&
           (double)area >= p->min_fill * ((double)height * (double)width) &&
           (p->max_aspect <= 0 || longer <= p->max_aspect * shorter);
}

bool cc_passes_at_any_contrast(const cc_params *p, int64_t area, bool border, int64_t height,
                               int64_t width)
{
    return (!p->min_contrast || area >= p->full_area) &&
           cc_passes_without_contrast(p, area, border, height, width);
}

/* --- the analysis ---------------------------------------------------------------------------- */

/* The groups of kernels that an item uses on a device (layout.h). */
static uint32_t kernels_of(const void *params, const wu_item *item)
{
    const cc_params *const p = params;

    return (item->bits == 16 ? CC_KERNELS_16 : CC_KERNELS_8) |
           (cc_has_preparation(p) ? CC_KERNELS_PREPARE : 0) |
           (cc_has_step(p, CC_EXTREME) ? CC_KERNELS_DISC : 0) |
           (p->split != CC_INTENSITY ? CC_KERNELS_REGIONS : 0) |
           (p->split == CC_DISTANCE ? CC_KERNELS_SPLIT : 0);
}

static const an_selftest selftests[] = {
    { "{\"threshold\":\"otsu\",\"polarity\":\"bright\",\"min_area\":3}", 150, 131, 1, 8, false,
      0x539308cf, AN_BALLS, false },
    { "{\"threshold\":30000,\"polarity\":\"bright\",\"connectivity\":4,\"fill_holes\":true,"
      "\"split\":\"distance\",\"max_area\":200}",
      127, 140, 1, 16, false, 0xe3ef2b7d, AN_BALLS, false },
    { "{\"threshold\":70,\"polarity\":\"dark\",\"fill_holes\":true,\"split\":\"distance\","
      "\"exclude_border\":true}",
      140, 99, 1, 8, false, 0x24f108ff, AN_BALLS, false },
    { "{\"smooth\":0.7,\"background\":{\"radius\":6},\"split\":\"intensity\",\"h\":4}", 90, 77, 1,
      8, false, 0xe5cdd4bc, AN_BALLS, false },
    { "{\"threshold\":\"local\",\"window\":21,\"offset\":900,\"polarity\":\"bright\","
      "\"background\":{\"method\":\"lines\","
      "\"radius\":30,\"by\":\"ratio\"}}",
      66, 54, 1, 16, false, 0x1f8d5563, AN_BALLS, false },
    { "{\"threshold\":128,\"polarity\":\"bright\",\"fill_holes\":true,\"labels\":true}", 99, 70, 1,
      8, false, 0x0c09b28e, AN_NOISE, false },
    { "{\"threshold\":128,\"polarity\":\"bright\",\"connectivity\":4,\"fill_holes\":true,\"min_"
      "area\":2,\"labels\":true}",
      40, 133, 1, 8, false, 0xf863db17, AN_NOISE, false },
    { "{\"smooth\":0.5,\"background\":{\"radius\":4},\"threshold\":\"local\",\"window\":9,"
      "\"polarity\":\"bright\",\"split\":\"intensity\",\"h\":1,\"labels\":true}",
      70, 66, 1, 8, false, 0x0cb0b277, AN_NOISE, false },
    { "{\"threshold\":\"otsu\",\"polarity\":\"bright\",\"fill_holes\":true}", 13, 11, 1, 8, false,
      0xa1291c63, AN_NOISE, false },
    { "{\"threshold\":\"otsu\",\"polarity\":\"dark\",\"fill_holes\":true,\"exclude_border\":true}",
      11, 17, 1, 8, false, 0x15fe6419, AN_TIES, false },
    { "{\"threshold\":20000,\"polarity\":\"bright\",\"fill_holes\":true,\"split\":\"distance\","
      "\"min_area\":2,\"labels\":true}",
      99, 70, 1, 16, false, 0x01e829f4, AN_TIES, false },
    { "{\"threshold\":30000,\"polarity\":\"dark\",\"fill_holes\":true,\"exclude_border\":true,"
      "\"labels\":true}",
      70, 66, 1, 16, false, 0xa57d57e4, AN_NOISE, false },
    { "{\"smooth\":0.5,\"background\":{\"method\":\"mean\",\"radius\":5},\"threshold\":\"otsu\","
      "\"polarity\":\"bright\",\"split\":\"intensity\",\"h\":100}",
      33, 28, 1, 16, false, 0x100bc092, AN_NOISE, false },
    { "{\"classes\":4,\"scale\":\"sqrt\",\"polarity\":\"auto\",\"split\":\"distance\",\"min_fill\":"
      "0.6,"
      "\"max_aspect\":2,\"min_contrast\":{\"full_area\":9,\"percent\":30}}",
      110, 87, 1, 8, false, 0x9769e2c1, AN_BALLS, false },
    { "{\"threshold\":\"local\",\"window\":15,\"offset_percent\":30,\"polarity\":\"auto\","
      "\"smooth\":1,\"min_area\":3}",
      75, 83, 1, 16, false, 0x2b7c2c5a, AN_BALLS, false },
    { "{\"smooth\":0.6,\"background\":{\"radius\":5},\"threshold\":\"local\",\"window\":11,"
      "\"polarity\":\"bright\"}",
      61, 83, 1, 8, false, 0xdcadabc3, AN_BALLS, false },
    { "{\"smooth\":0.8,\"background\":{\"radius\":7},\"polarity\":\"dark\",\"fill_holes\":true}",
      77, 69, 1, 16, false, 0x25211818, AN_BALLS, false },
    { "{\"threshold\":\"local\",\"window\":\"auto\",\"offset_percent\":20,\"polarity\":\"auto\","
      "\"smooth\":1,\"fill_holes\":true,\"split\":\"distance\",\"min_area\":\"auto\","
      "\"min_contrast\":{\"full_area\":\"auto\"},\"labels\":true}",
      150, 131, 1, 8, false, 0xdcca9c5c, AN_BALLS, false },
    { "{\"smooth\":0.7,\"threshold\":\"local\",\"window\":13,\"polarity\":\"bright\"}", 66, 54, 1,
      8, false, 0xc367f815, AN_NOISE, false },
    { "{\"smooth\":0.8,\"background\":{\"method\":\"mean\",\"radius\":5},\"split\":\"intensity\","
      "\"h\":3}",
      50, 41, 1, 8, false, 0x554c12c3, AN_BALLS, false },
    { "{\"background\":{\"radius\":6},\"split\":\"intensity\",\"h\":900}", 47, 55, 1, 16, false,
      0x81fe534a, AN_BALLS, false },
    { .parameters = NULL }
};

/* Implements an_analysis.preview: returns a number from 1 to 255 that depends on the label, or 0 on
 * the background. */
static uint8_t preview(const an_work *work, const void *state, size_t voxel)
{
    const int32_t label = ((const cc_state *)state)->plane[voxel];

    (void)work;
    return label > 0 ? (uint8_t)(1 + (uint32_t)label * 37 % 255) : 0;
}

const an_analysis an_cellcount = {
    .name = "cellcount",
    .summary = "counts cells and measures them (connected pixels beyond a threshold)",
    .cite = "N. Otsu, A threshold selection method from gray-level histograms, IEEE Transactions "
            "on Systems, "
            "Man and Cybernetics 9 (1979) 62-66.",
    .params_bytes = sizeof(cc_params),
    .parameters = cc_parameters,
    .derive_params = cc_derive_params,
    .check_item = check_item,
    .takes_mask = true,
    .plan = plan,
    .memory = cc_memory,
    .time_share = time_share,
    .check_state = cc_check_state,
    .finish = cc_finish,
    .preview = preview,
    .note_result = cc_note_result,
    .declare_arrays = cc_declare_arrays,
    .check_result = cc_check_result,
    .count_name = "count",
    .check_pixels = cc_check_pixels,
    .pixels_share = cc_pixels_share,
    .suggest = cc_suggest,
    .cpu = &cc_cpu,
    .kernels = kernels_of,
    .selftests = selftests
};
