/* glcm: declares the arrays of a result and fills them, computes statistics from the sums over
 * windows, writes notes, and computes the features of one matrix of a whole ROI. Used with both
 * backends. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "app/analysis/common/real.h"
#include "app/analysis/glcm/glcm.h"

typedef __int128 i128;
typedef unsigned __int128 u128;

static const char *const statistic_names[GLCM_STATISTICS] = { "mean", "range", "sd", "min", "max" };
static const char *const moment_names[GLCM_MOMENTS] = { "mean", "variance", "min", "max" };

/* Returns the 128-bit integer whose lower and upper halves are lo and hi. */
static u128 join_halves(uint64_t lo, uint64_t hi)
{
    return (u128)hi << 64 | lo;
}

/* Adds the 13 features of one window to the statistics. */
static void add_window(glcm_stat *stat, const int64_t feature[GLCM_FEATURES])
{
    stat->windows++;
    for (int i = 0; i < GLCM_FEATURES; i++)
        glcm_moments_add(&stat->feature[i], feature[i]);
}

void glcm_stat_merge(glcm_stat *stat, const glcm_stat *other)
{
    stat->windows += other->windows;
    for (int i = 0; i < GLCM_FEATURES; i++)
        glcm_moments_merge(&stat->feature[i], &other->feature[i]);
}

void glcm_more_stat_merge(glcm_more_stat *more, const glcm_more_stat *other)
{
    for (int i = 0; i < GLCM_MORE_FEATURES; i++)
        glcm_moments_merge(&more->feature[i], &other->feature[i]);
}

void glcm_bands_merge(glcm_bands *bands, const glcm_bands *other)
{
    for (int i = 0; i < GLCM_BANDS; i++)
        bands->sum[i] += other->sum[i];
}

/* --- features beyond the 13 ------------------------------------------------------------------ */

void glcm_more_features(const cooc_sums *sums, unsigned levels, int64_t feature[GLCM_MORE_FEATURES])
{
    double all[COOC_FEATURES];

    cooc_features(sums, NULL, levels, ~0u, all); /* NULL: without the features with logarithms */
    glcm_more_fixed(all, levels, feature);
}

void glcm_more_stat_add(glcm_more_stat *more, const int64_t feature[GLCM_MORE_FEATURES])
{
    for (int i = 0; i < GLCM_MORE_FEATURES; i++)
        glcm_moments_add(&more->feature[i], feature[i]);
}

void glcm_add_matrix(const uint32_t *pairs, unsigned levels, const glcm_tables *t,
                     tc_log2_cache *logs, glcm_stat *stat, glcm_more_stat *more)
{
    int64_t feature[GLCM_FEATURES], more_features[GLCM_MORE_FEATURES];
    cooc_sums sums;

    if (!glcm_matrix_features(pairs, levels, t, logs, feature))
        return;
    add_window(stat, feature);
    if (more == NULL)
        return;
    cooc_clear(&sums, levels);
    for (unsigned a = 0; a < levels; a++)
        for (unsigned b = a; b < levels; b++)
            cooc_add(&sums, NULL, a, b, pairs[(size_t)a * levels + b]);
    glcm_more_features(&sums, levels, more_features);
    glcm_more_stat_add(more, more_features);
}

/* --- statistics ------------------------------------------------------------------------------ */

/* Sets *mean and *variance (of the population) of n > 0 values v, whose sums in *m are in units of
 * 2^-32. To avoid cancellation, deviations from an integer c near the mean are used. Let e = sum -
 * n c, and let S = squares - 2 c sum + n c^2, which is the sum of (v - c)^2. Then the variance is
 * (S - e^2/n) / n. */
static void mean_and_variance(const glcm_moments *m, uint64_t n, double *mean, double *variance)
{
    const i128 sum = (i128)join_halves(m->sum_lo, m->sum_hi);
    const i128 c = sum / (i128)n;
    const i128 e = sum - c * (i128)n;
    const u128 centred = join_halves(m->square_lo, m->square_hi) - 2 * (u128)c * (u128)sum +
                         (u128)n * (u128)c * (u128)c;
    const double count = (double)n;
    const double rest = (double)e;

    *mean = (double)sum / (count * 0x1p32);
    *variance = ((double)centred - rest * rest / count) / count * 0x1p-64;
    if (*variance < 0)
        *variance = 0;
}

/* All statistics of a state. Entry i of stats and of more belongs to the number of levels with
 * index i / n_offsets and the offset with index i % n_offsets. */
typedef struct statistics {
    const glcm_params *p;
    const glcm_stat *stats;
    const glcm_more_stat *more; /* NULL: there are no features beyond the 13 */
} statistics;

static statistics statistics_of(const glcm_params *p, const void *state)
{
    const void *const more = (const unsigned char *)state + glcm_state_more_at(p);

    return (statistics){ p, glcm_state_stats_const(state), p->has_more_features ? more : NULL };
}

/* Sets out to mean, variance, minimum and maximum of a feature over the windows of an entry. */
static void window_statistics(const statistics *s, size_t entry, unsigned feature,
                              double out[GLCM_MOMENTS])
{
    const bool is_haralick = feature < GLCM_FEATURES;
    const glcm_moments *const m = is_haralick ? &s->stats[entry].feature[feature]
                                              : &s->more[entry].feature[feature - GLCM_FEATURES];
    const int shift =
        is_haralick ? 0 : 32 - glcm_fraction_bits(feature, s->p->levels[entry / s->p->n_offsets]);
    const double unit =
        (double)((int64_t)1 << shift); /* the feature's unit, as a multiple of 2^-32 */

    for (int i = 0; i < GLCM_MOMENTS; i++)
        out[i] = NAN;
    if (s->stats[entry].windows == 0)
        return;
    mean_and_variance(m, s->stats[entry].windows, &out[0], &out[1]);
    out[0] *= unit;
    out[1] *= unit * unit;
    out[2] = (double)m->min * 0x1p-32 * unit;
    out[3] = (double)m->max * 0x1p-32 * unit;
}

void glcm_summary_add(glcm_summary *s, const double offset[GLCM_MOMENTS])
{
    if (isnan(offset[0]))
        return;
    s->sum += offset[0];
    s->sum_variance += offset[1];
    s->lowest = s->n == 0 || offset[0] < s->lowest ? offset[0] : s->lowest;
    s->highest = s->n == 0 || offset[0] > s->highest ? offset[0] : s->highest;
    s->min = s->n == 0 || offset[2] < s->min ? offset[2] : s->min;
    s->max = s->n == 0 || offset[3] > s->max ? offset[3] : s->max;
    s->n++;
}

void glcm_summary_end(const glcm_summary *s, double out[GLCM_STATISTICS])
{
    for (int i = 0; i < GLCM_STATISTICS; i++)
        out[i] = NAN;
    if (s->n == 0)
        return;
    out[GLCM_MEAN] = s->sum / s->n;
    out[GLCM_SPREAD] = s->highest - s->lowest;
    out[GLCM_SD] = sqrt(s->sum_variance / s->n);
    out[GLCM_MIN] = s->min;
    out[GLCM_MAX] = s->max;
}

/* Sets out to the statistics of a feature, with one number of levels, over the offsets of a
 * distance. */
static void offset_statistics(const statistics *s, size_t level, unsigned distance,
                              unsigned feature, double out[GLCM_STATISTICS])
{
    const glcm_params *const p = s->p;
    glcm_summary summary = { .n = 0 };

    for (size_t o = 0; o < p->n_offsets; o++) {
        double offset[GLCM_MOMENTS];

        if (p->offsets[o].distance != distance)
            continue;
        window_statistics(s, level * p->n_offsets + o, feature, offset);
        glcm_summary_add(&summary, offset);
    }
    glcm_summary_end(&summary, out);
}

/* Fills the array features, to whose first element `row` points. */
static void fill_features(const statistics *s, double *row)
{
    for (size_t level = 0; level < s->p->n_levels; level++)
        for (unsigned d = 0; d < s->p->n_distances; d++)
            for (unsigned f = 0; f < s->p->n_features; f++, row += GLCM_STATISTICS)
                offset_statistics(s, level, d, s->p->feature[f], row);
}

/* Fills the array offset_features, to whose first element `row` points. */
static void fill_offset_features(const statistics *s, double *row)
{
    for (size_t i = 0; i < s->p->n_levels * s->p->n_offsets; i++)
        for (unsigned f = 0; f < s->p->n_features; f++, row += GLCM_MOMENTS)
            window_statistics(s, i, s->p->feature[f], row);
}

/* Declares the array features, which has a column for each number of levels, distance, feature and
 * statistic, named for example glcm_L64_d03_contrast_mean. The fields without names in this and the
 * next declaration are name, dtype, role, table and title. */
static wu_declaration declare_features(const glcm_params *p)
{
    return (wu_declaration){
        "features",
        WU_F64,
        WU_VALUE,
        "features",
        "glcm",
        .n_axes = 4,
        .axes = { { "levels", (uint32_t)p->n_levels, .numbers = p->levels, .prefix = "L" },
                  { "distance", (uint32_t)p->n_distances, .numbers = p->distances, .prefix = "d",
                    .digits = 2 },
                  { "feature", p->n_features, .words = p->feature_names },
                  { "statistic", GLCM_STATISTICS, .words = statistic_names } }
    };
}

static wu_declaration declare_offset_features(const glcm_params *p)
{
    return (wu_declaration){ "offset_features",
                             WU_F64,
                             WU_VALUE,
                             "offset_features",
                             .separate_axes = true,
                             .n_axes = 4,
                             .axes = { { "levels", (uint32_t)p->n_levels, .numbers = p->levels,
                                         .prefix = "L" },
                                       { "offset", (uint32_t)p->n_offsets, .array = "offsets" },
                                       { "feature", p->n_features, .words = p->feature_names },
                                       { .n = GLCM_MOMENTS, .words = moment_names } } };
}

/* The numbers 0 to GLCM_BANDS - 1, which name the columns of band_sums. */
#define EIGHT(i) (i), (i) + 1, (i) + 2, (i) + 3, (i) + 4, (i) + 5, (i) + 6, (i) + 7
#define SIXTY_FOUR(i)                                                                             \
    EIGHT(i), EIGHT((i) + 8), EIGHT((i) + 16), EIGHT((i) + 24), EIGHT((i) + 32), EIGHT((i) + 40), \
        EIGHT((i) + 48), EIGHT((i) + 56)
static const unsigned band_numbers[GLCM_BANDS] = { SIXTY_FOUR(0),   SIXTY_FOUR(64),
                                                   SIXTY_FOUR(128), SIXTY_FOUR(192),
                                                   SIXTY_FOUR(256), SIXTY_FOUR(320),
                                                   SIXTY_FOUR(384), SIXTY_FOUR(448) };
static const wu_declaration band_sums = { "band_sums", WU_I64, WU_PROOF, .n_axes = 1,
                                          .axes = { { "band", GLCM_BANDS, .numbers = band_numbers,
                                                      .prefix = "b" } } };

static tc_status declare_map(const glcm_params *p, const glcm_map *map, const wu_item *item,
                             wu_output *out, tc_err *err)
{
    const char *const feature = cooc_names[map->feature];
    const unsigned levels = p->levels[map->level];
    char name[128], title[128];

    snprintf(name, sizeof name, "map_{item}_%s_L%u_%d_%d", feature, levels, map->vector[0],
             map->vector[1]);
    snprintf(title, sizeof title, "%s, %u levels, offset (%d,%d)", feature, levels, map->vector[0],
             map->vector[1]);
    return wu_output_declare(out, &(wu_declaration){ name, WU_F32, WU_MAP, .title = title }, 1,
                             item, err);
}

tc_status glcm_declare_arrays(const void *params, const wu_item *item, wu_output *out, tc_err *err)
{
    const glcm_params *const p = params;
    const wu_declaration arrays[] = { declare_features(p), declare_offset_features(p) };
    return_if_error(wu_output_declare(out, arrays, 1, item, err));

    if (p->window != GLCM_WHOLE_ROI)
        return_if_error(wu_output_declare(out, &band_sums, 1, item, err));
    if (p->per_offset)
        return_if_error(wu_output_declare(out, &arrays[1], 1, item, err));
    for (size_t i = 0; i < p->n_maps; i++)
        return_if_error(declare_map(p, &p->maps[i], item, out, err));
    return TC_OK;
}

tc_status glcm_finish(const an_work *work, size_t item_index, const void *state, wu_output *out,
                      tc_err *err)
{
    const glcm_params *const p = work->params;
    const wu_item *const item = work->item;
    const statistics stats = statistics_of(p, state);
    const size_t bytes = (size_t)item->nx * item->ny * item->nz * sizeof(float);
    const unsigned char *const planes = (const unsigned char *)state + glcm_state_maps_at(p);
    return_if_error(glcm_declare_arrays(p, item, out, err));

    (void)item_index;
    for (size_t i = 0; i < p->n_maps; i++)
        wu_output_lend(&out->arrays[out->n - p->n_maps + i], planes + i * bytes);
    return_if_error(wu_output_allocate(out, 0, err));
    fill_features(&stats, wu_output_data(out, "features"));
    if (p->window != GLCM_WHOLE_ROI)
        memcpy(wu_output_data(out, "band_sums"),
               (const unsigned char *)state + glcm_state_bands_at(p), sizeof(glcm_bands));
    if (p->per_offset)
        fill_offset_features(&stats, wu_output_data(out, "offset_features"));
    return TC_OK;
}

/* The level of a grey value, as in glcm_quantiser. */
static uint32_t level_of(uint32_t grey, uint32_t lo, uint32_t hi, uint32_t levels)
{
    const uint32_t clamped = grey < lo ? lo : grey > hi ? hi : grey;

    return (uint32_t)((uint64_t)(clamped - lo) * levels / ((uint64_t)hi - lo + 1));
}

/* Writes a note if the item's grey values are those of a mask, or use a quarter of the levels or
 * fewer: both leave little texture. */
bool glcm_note_survey(const void *params, const wu_item *item, const an_survey *survey, char *text,
                      size_t size)
{
    const glcm_params *const p = params;
    const bool fixed = p->range == GLCM_RANGE_FIXED;
    const uint32_t lo = fixed ? p->range_ends[0] : 0,
                   hi = fixed ? p->range_ends[1] : ((uint32_t)1 << item->bits) - 1;
    uint32_t most = 0;

    if (survey->n_values == 2 && survey->lo == 0 &&
        (survey->hi == 1 || survey->hi == UINT8_MAX || survey->hi == UINT16_MAX)) {
        snprintf(text, size,
                 "its greys are 0 and %u only, as in a mask, which has no texture: analyse the "
                 "picture itself, and give this one by --mask",
                 survey->hi);
        return true;
    }
    for (size_t i = 0; i < p->n_levels; i++)
        most = p->levels[i] > most ? p->levels[i] : most;
    if (p->range == GLCM_RANGE_IMAGE || survey->lo >= survey->hi)
        return false;
    const uint32_t used =
        level_of(survey->hi, lo, hi, most) - level_of(survey->lo, lo, hi, most) + 1;
    if (used * 4 > most)
        return false;
    snprintf(text, size,
             "its greys are %u to %u of %u bits and use only %u of %u levels, which shows little "
             "texture: --param range=image uses each picture's own greys%s",
             survey->lo, survey->hi, item->bits, used, most,
             fixed ? "" : ", range=[lo,hi] the same greys for all");
    return true;
}

/* Writes a note if all pixels have the same level. Then every matrix has only one element that is
 * not 0 (asm is 1), and it is the same element in all windows (equal sum averages). */
bool glcm_note_result(const void *params, const wu_item *item, const wu_output *out, char *text,
                      size_t size)
{
    const glcm_params *const p = params;
    const double *feature = wu_output_data(out, "features");
    const uint32_t wanted = 1u << GLCM_ASM | 1u << GLCM_SUM_AVERAGE;
    const size_t average_index =
        (size_t)__builtin_popcount(p->features & ((1u << GLCM_SUM_AVERAGE) - 1));
    bool any = false;

    (void)item;
    if ((p->features & wanted) != wanted)
        return false;
    for (size_t i = 0; i < p->n_levels * p->n_distances;
         i++, feature += (size_t)p->n_features * GLCM_STATISTICS) {
        const double *const sum = feature + average_index * GLCM_STATISTICS;

        if (isnan(feature[GLCM_MIN]))
            continue;
        any = true;
        if (feature[GLCM_ASM * GLCM_STATISTICS + GLCM_MIN] < 1 || sum[GLCM_MIN] < sum[GLCM_MAX])
            return false;
    }
    if (any)
        snprintf(
            text, size,
            "all pixels fall into one level, so the features carry no information: set --param "
            "range to the greys of the pictures, [lo,hi] or image");
    return any;
}

tc_status glcm_add_constants(const void *params, wu_output *out, tc_err *err)
{
    static const char *const columns[] = { "dx", "dy", "distance" };
    const glcm_params *const p = params;
    const uint32_t width =
        p->has_more_features ? 64 : 48; /* characters of the longest possible name */
    const wu_declaration features = declare_features(p);
    const uint64_t n = wu_declaration_elements(&features);
    const wu_declaration arrays[] = {
        { "feature_names", WU_STR, WU_TITLES, "features", .width = width, .rows = n },
        /* the offsets that axis 2 of offset_features stands for */
        { "offsets", WU_I32, WU_KEYS, "offset_features", .rows = p->n_offsets, .n_axes = 1,
          .axes = { { .n = 3, .words = columns } } },
    };
    return_if_error(wu_output_declare(out, arrays, p->per_offset ? 2 : 1, NULL, err));

    return_if_error(wu_output_allocate(out, 0, err));
    for (uint64_t i = 0; i < n; i++) {
        char title[WU_TITLE_MAX];

        wu_declaration_title(&features, i, 0, title);
        wu_utf8_to_ucs4(title, (uint32_t *)wu_output_data(out, "feature_names") + i * width, width);
    }
    for (size_t o = 0; p->per_offset && o < p->n_offsets; o++) {
        int32_t *const row = (int32_t *)wu_output_data(out, "offsets") + 3 * o;

        row[0] = p->offsets[o].dx;
        row[1] = p->offsets[o].dy;
        row[2] = (int32_t)p->distances[p->offsets[o].distance];
    }
    return TC_OK;
}

/* --- one matrix of a whole ROI --------------------------------------------------------------- */

/* Returns a * 2^32 / b, rounded to the nearest integer. a * 2^32 must fit 127 bits. */
static int64_t rounded_quotient(i128 a, i128 b)
{
    const i128 scaled = (a < 0 ? -a : a) * ((i128)1 << 32);
    const i128 q = (scaled + b / 2) / b;

    return (int64_t)(a < 0 ? -q : q);
}

/* Returns `total` times the entropy of a histogram of n bins, in units of 2^-80: the sum over its
 * bins of h[i] * (log2(total) - log2(h[i])). */
static i128 entropy_sum(const uint64_t *h, size_t n, uint64_t total, tc_log2_cache *logs)
{
    const u128 log_total = tc_log2_cache_get(logs, total);
    i128 sum = 0;

    for (size_t i = 0; i < n; i++)
        if (h[i] != 0)
            sum += (i128)h[i] * (i128)(log_total - tc_log2_cache_get(logs, h[i]));
    return sum;
}

/* Returns the entropy in units of 2^-32, rounded, given `total` times the entropy in units of
 * 2^-80. */
static int64_t rounded_entropy(i128 sum, i128 total)
{
    return (int64_t)((sum / total + ((i128)1 << 47)) >> 48);
}

/* Sums over the elements of the symmetric matrix C of all ordered pairs (a, b) of levels. */
typedef struct matrix_sums {
    uint64_t total;                       /* sum of the elements: twice the number of pairs */
    uint64_t squares;                     /* sum of their squares */
    uint64_t marginal[GLCM_MAX_LEVELS];   /* sums of the elements by the level of the row */
    uint64_t sum[2 * GLCM_MAX_LEVELS];    /* sums of the elements by a + b */
    uint64_t difference[GLCM_MAX_LEVELS]; /* sums of the elements by |a - b| */
    i128 entropy;                         /* total times the entropy, in units of 2^-80 */
    i128 information; /* total times the mutual information of a pair's levels, in units of 2^-80 */
} matrix_sums;

/* Adds n pairs of levels a <= b. In C these are two elements n, or on the diagonal one element 2n.
 */
static void add_cell(matrix_sums *m, unsigned a, unsigned b, uint64_t n)
{
    m->total += 2 * n;
    m->squares += (a == b ? 4 : 2) * n * n;
    m->marginal[a] += n;
    m->marginal[b] += n;
    m->sum[a + b] += 2 * n;
    m->difference[b - a] += 2 * n;
}

/* Sets m->entropy and m->information, which need logarithms. An element of C that is exactly the
 * product of its two marginals, divided by the total, adds exactly 0 to the information. */
static void add_logs(matrix_sums *m, const uint32_t *pairs, unsigned levels, tc_log2_cache *logs)
{
    const i128 log_total = (i128)tc_log2_cache_get(logs, m->total);
    i128 log_marginal[GLCM_MAX_LEVELS];

    for (unsigned a = 0; a < levels; a++)
        log_marginal[a] = m->marginal[a] != 0 ? (i128)tc_log2_cache_get(logs, m->marginal[a]) : 0;
    for (unsigned a = 0; a < levels; a++)
        for (unsigned b = a; b < levels; b++) {
            const uint64_t n = pairs[(size_t)a * levels + b], c = a == b ? 2 * n : n;

            if (n == 0)
                continue;
            const i128 log_c = (i128)tc_log2_cache_get(logs, c);

            m->entropy += (i128)(2 * n) * (log_total - log_c);
            if ((u128)c * m->total != (u128)m->marginal[a] * m->marginal[b])
                m->information +=
                    (i128)(2 * n) * (log_c + log_total - log_marginal[a] - log_marginal[b]);
        }
    if (m->information < 0)
        m->information = 0;
}

bool glcm_matrix_features(const uint32_t *pairs, unsigned levels, const glcm_tables *t,
                          tc_log2_cache *logs, int64_t feature[GLCM_FEATURES])
{
    matrix_sums m;
    /* Sums over ordered pairs (a, b): s1 is the sum of a + b, s2 of a^2 + b^2, d1 of |a - b|, d2 of
     * (a - b)^2, and idm of 1 / (1 + (a - b)^2) in units of 2^-GLCM_IDM_BITS. */
    i128 n2, variance, hx, s1 = 0, s2 = 0, d1 = 0, d2 = 0, idm = 0;
    uint64_t t58;

    memset(&m, 0, sizeof m);
    for (unsigned a = 0; a < levels; a++)
        for (unsigned b = a; b < levels; b++)
            if (pairs[(size_t)a * levels + b] != 0)
                add_cell(&m, a, b, pairs[(size_t)a * levels + b]);
    if (m.total == 0)
        return false;
    add_logs(&m, pairs, levels, logs);
    for (uint64_t k = 0; k < levels; k++) {
        s1 += (i128)(2 * m.marginal[k] * k);
        s2 += (i128)(2 * m.marginal[k] * k * k);
        d1 += (i128)(m.difference[k] * k);
        d2 += (i128)(m.difference[k] * k * k);
        idm += (i128)m.difference[k] * t->idm[k];
    }
    n2 = m.total; /* N, number of ordered pairs */
    /* The variance of the marginal is (N s2/2 - (s1/2)^2) / N^2. `variance` is 4 N^2 times as much,
     * an integer. */
    variance = 2 * n2 * s2 - s1 * s1;
    /* the entropy HX of the marginal, times N, in units of 2^-80 */
    hx = entropy_sum(m.marginal, levels, m.total, logs);
    feature[GLCM_ASM] = rounded_quotient(m.squares, n2 * n2);
    feature[GLCM_CONTRAST] = rounded_quotient(d2, n2);
    feature[GLCM_CORRELATION] =
        variance == 0 ? (int64_t)1 << 32 : rounded_quotient(variance - 2 * n2 * d2, variance);
    feature[GLCM_VARIANCE] = rounded_quotient(variance, 4 * n2 * n2);
    feature[GLCM_IDM] = rounded_quotient(idm, n2 << GLCM_IDM_BITS);
    /* plus 2, as formulas number levels from 1 */
    feature[GLCM_SUM_AVERAGE] = rounded_quotient(s1, n2) + ((int64_t)2 << 32);
    feature[GLCM_SUM_VARIANCE] = rounded_quotient(variance - n2 * d2, n2 * n2);
    feature[GLCM_SUM_ENTROPY] =
        rounded_entropy(entropy_sum(m.sum, (size_t)2 * levels, m.total, logs), n2);
    feature[GLCM_ENTROPY] = rounded_entropy(m.entropy, n2);
    feature[GLCM_DIFFERENCE_VARIANCE] = rounded_quotient(n2 * d2 - d1 * d1, n2 * n2);
    feature[GLCM_DIFFERENCE_ENTROPY] =
        rounded_entropy(entropy_sum(m.difference, levels, m.total, logs), n2);
    /* both are divided by 2^32, so that rounded_quotient does not overflow */
    feature[GLCM_IMC1] = hx == 0 ? 0 : -rounded_quotient(m.information >> 32, hx >> 32);
    t58 = (uint64_t)((2 * m.information / n2) >> 22); /* 2 (HXY2 - HXY) in units of 2^-58 */
    feature[GLCM_IMC2] =
        (int64_t)tc_sqrt_round((((uint64_t)1 << 63) - glcm_exp_neg(t58, t->exp_table)) << 1);
    return true;
}
