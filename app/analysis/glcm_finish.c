/* From sums to statistics and names: what both backends share after the windows. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/glcm.h"

typedef __int128 i128;
typedef unsigned __int128 u128;

enum { MEAN, RANGE, SD, MIN, MAX, STATISTICS };
static const char *const statistic_names[STATISTICS] = { "mean", "range", "sd", "min", "max" };

static u128 join(uint64_t lo, uint64_t hi)
{
    return (u128)hi << 64 | lo;
}

static void add128(uint64_t *lo, uint64_t *hi, u128 v)
{
    v += join(*lo, *hi);
    *lo = (uint64_t)v;
    *hi = (uint64_t)(v >> 64);
}

void glcm_stat_add(glcm_stat *stat, const int64_t feature[GLCM_FEATURES])
{
    stat->windows++;
    for (int i = 0; i < GLCM_FEATURES; i++) {
        glcm_moments *const m = &stat->feature[i];
        const int64_t v = feature[i];
        const uint64_t size = v < 0 ? -(uint64_t)v : (uint64_t)v;

        m->min = v < m->min ? v : m->min;
        m->max = v > m->max ? v : m->max;
        add128(&m->sum_lo, &m->sum_hi, (u128)(i128)v);
        add128(&m->square_lo, &m->square_hi, (u128)size * size);
    }
}

void glcm_stat_merge(glcm_stat *stat, const glcm_stat *other)
{
    stat->windows += other->windows;
    for (int i = 0; i < GLCM_FEATURES; i++) {
        glcm_moments *const m = &stat->feature[i];
        const glcm_moments *const o = &other->feature[i];

        m->min = o->min < m->min ? o->min : m->min;
        m->max = o->max > m->max ? o->max : m->max;
        add128(&m->sum_lo, &m->sum_hi, join(o->sum_lo, o->sum_hi));
        add128(&m->square_lo, &m->square_hi, join(o->square_lo, o->square_hi));
    }
}

/* Mean and population variance of n > 0 values in 2^-32. The variance is taken
 * about an integer near the mean, where nothing cancels: with e = sum - n c,
 * sum (v-c)^2 = squares - 2 c sum + n c^2 and n var = that - e^2/n. */
static void moments(const glcm_moments *m, uint64_t n, double *mean, double *variance)
{
    const i128 sum = (i128)join(m->sum_lo, m->sum_hi);
    const i128 c = sum / (i128)n;
    const i128 e = sum - c * (i128)n;
    const u128 centred = join(m->square_lo, m->square_hi) - 2 * (u128)c * (u128)sum
                       + (u128)n * (u128)c * (u128)c;
    const double count = (double)n;
    const double rest = (double)e;

    *mean = (double)sum / (count * 0x1p32);
    *variance = ((double)centred - rest * rest / count) / count * 0x1p-64;
    if (*variance < 0)
        *variance = 0;
}

/* The five statistics of one (levels, distance, feature) over its offsets. */
static void over_offsets(const glcm_params *p, const glcm_stat *stats, unsigned distance,
                         int feature, double out[STATISTICS])
{
    double sum = 0, sum_variance = 0, lowest = INFINITY, highest = -INFINITY;
    int64_t min = INT64_MAX, max = INT64_MIN;
    unsigned n = 0;

    for (size_t o = 0; o < p->n_offsets; o++) {
        const glcm_moments *const m = &stats[o].feature[feature];
        double mean, variance;

        if (p->offsets[o].distance != distance || stats[o].windows == 0)
            continue;
        moments(m, stats[o].windows, &mean, &variance);
        sum += mean;
        sum_variance += variance;
        lowest = mean < lowest ? mean : lowest;
        highest = mean > highest ? mean : highest;
        min = m->min < min ? m->min : min;
        max = m->max > max ? m->max : max;
        n++;
    }
    for (int i = 0; i < STATISTICS; i++)
        out[i] = NAN;
    if (n == 0)
        return;
    out[MEAN] = sum / n;
    out[RANGE] = highest - lowest;
    out[SD] = sqrt(sum_variance / n);
    out[MIN] = (double)min * 0x1p-32;
    out[MAX] = (double)max * 0x1p-32;
}

static tc_status add_features(const glcm_params *p, const glcm_stat *stats, wu_output *out, tc_err *err)
{
    const uint64_t shape[2] = { 1, (uint64_t)p->n_levels * p->n_distances * GLCM_FEATURES * STATISTICS };
    void *data;
    double *row;
    const tc_status st = wu_output_add(out, WU_ROWS, "features", WU_F64, 0, 2, shape, &data, err);

    if (st != TC_OK)
        return st;
    row = data;
    for (size_t level = 0; level < p->n_levels; level++)
        for (unsigned d = 0; d < p->n_distances; d++)
            for (int f = 0; f < GLCM_FEATURES; f++, row += STATISTICS)
                over_offsets(p, stats + level * p->n_offsets, d, f, row);
    return TC_OK;
}

static tc_status add_offset_features(const glcm_params *p, const glcm_stat *stats, wu_output *out, tc_err *err)
{
    const uint64_t shape[5] = { 1, p->n_levels, p->n_offsets, GLCM_FEATURES, 4 };
    void *data;
    double *row;
    const tc_status st = wu_output_add(out, WU_ROWS, "offset_features", WU_F64, 0, 5, shape, &data, err);

    if (st != TC_OK)
        return st;
    row = data;
    for (size_t i = 0; i < p->n_levels * p->n_offsets; i++) {
        for (int f = 0; f < GLCM_FEATURES; f++, row += 4) {
            const glcm_moments *const m = &stats[i].feature[f];

            row[0] = row[1] = row[2] = row[3] = NAN;
            if (stats[i].windows == 0)
                continue;
            moments(m, stats[i].windows, &row[0], &row[1]);
            row[2] = (double)m->min * 0x1p-32;
            row[3] = (double)m->max * 0x1p-32;
        }
    }
    return TC_OK;
}

static void map_info(const glcm_params *p, const glcm_map *map, const wu_item *item, char *name, size_t size,
                     wu_array_info *info)
{
    const uint64_t shape[3] = { item->nz, item->ny, item->nx };

    snprintf(name, size, "map_%s_%s_L%u_%d_%d", item->name, glcm_feature_names[map->feature],
             p->levels[map->level], map->dx, map->dy);
    *info = (wu_array_info){ .name = name, .dtype = WU_F32, .ndim = item->is_stack ? 3 : 2 };
    memcpy(info->shape, item->is_stack ? shape : shape + 1, info->ndim * sizeof shape[0]);
}

static tc_status add_maps(const an_task *task, const void *state, wu_output *out, tc_err *err)
{
    const glcm_params *const p = task->params;
    const wu_item *const item = task->item;
    const size_t bytes = (size_t)item->nx * item->ny * item->nz * sizeof(float);
    const unsigned char *plane = (const unsigned char *)state + glcm_state_maps_at(p);

    for (size_t i = 0; i < p->n_maps; i++, plane += bytes) {
        char name[WU_MAX_NAME + 128];
        wu_array_info info;
        void *data;
        tc_status st;

        map_info(p, &p->maps[i], item, name, sizeof name, &info);
        st = wu_output_add(out, WU_OWN, name, info.dtype, 0, info.ndim, info.shape, &data, err);
        if (st != TC_OK)
            return st;
        memcpy(data, plane, bytes);
    }
    return TC_OK;
}

tc_status glcm_finish(const an_task *task, size_t item_index, const void *state, wu_output *out, tc_err *err)
{
    const glcm_params *const p = task->params;
    const glcm_stat *const stats = glcm_state_stats_const(state);
    tc_status st = add_features(p, stats, out, err);

    (void)item_index;
    if (st == TC_OK && p->per_offset)
        st = add_offset_features(p, stats, out, err);
    if (st == TC_OK)
        st = add_maps(task, state, out, err);
    return st;
}

tc_status glcm_constants(const void *params, wu_output *out, tc_err *err)
{
    enum { WIDTH = 48 };
    const glcm_params *const p = params;
    const uint64_t n = (uint64_t)p->n_levels * p->n_distances * GLCM_FEATURES * STATISTICS;
    const uint64_t offsets_shape[2] = { p->n_offsets, 3 };
    void *data;
    uint32_t *name;
    int32_t *row;
    tc_status st = wu_output_add(out, WU_ONCE, "feature_names", WU_STR, WIDTH, 1, &n, &data, err);

    if (st != TC_OK)
        return st;
    name = data;
    for (size_t level = 0; level < p->n_levels; level++)
        for (size_t d = 0; d < p->n_distances; d++)
            for (int f = 0; f < GLCM_FEATURES; f++)
                for (int s = 0; s < STATISTICS; s++, name += WIDTH) {
                    char text[WIDTH + 1];

                    snprintf(text, sizeof text, "glcm_L%u_d%02u_%s_%s", p->levels[level],
                             p->distances[d], glcm_feature_names[f], statistic_names[s]);
                    wu_utf8_to_ucs4(text, name, WIDTH);
                }
    if (!p->per_offset)
        return TC_OK;
    /* What axis 2 of offset_features is: dx, dy, distance. */
    st = wu_output_add(out, WU_ONCE, "offsets", WU_I32, 0, 2, offsets_shape, &data, err);
    if (st != TC_OK)
        return st;
    row = data;
    for (size_t o = 0; o < p->n_offsets; o++, row += 3) {
        row[0] = p->offsets[o].dx;
        row[1] = p->offsets[o].dy;
        row[2] = (int32_t)p->distances[p->offsets[o].distance];
    }
    return TC_OK;
}

/* --- what a result may hold ---------------------------------------------------- */

/* Bounds of each feature for L levels, the ends included. */
static void bounds(int feature, double levels, double *lo, double *hi)
{
    const double span = levels - 1, bits = 8;       /* log2(256) */

    *lo = 0;
    *hi = 1;
    switch (feature) {
    case GLCM_CONTRAST: *hi = span * span; break;
    case GLCM_CORRELATION: *lo = -1; break;
    case GLCM_VARIANCE: *hi = span * span / 4; break;
    case GLCM_SUM_AVERAGE: *lo = 2; *hi = 2 * levels; break;
    case GLCM_SUM_VARIANCE: *hi = span * span; break;
    case GLCM_SUM_ENTROPY: *hi = bits + 1; break;
    case GLCM_ENTROPY: *hi = 2 * bits; break;
    case GLCM_DIFFERENCE_VARIANCE: *hi = span * span / 4; break;
    case GLCM_DIFFERENCE_ENTROPY: *hi = bits; break;
    case GLCM_IMC1: *lo = -1; *hi = 0; break;
    default: break;
    }
}

/* min <= mean <= max within the feature's bounds, sd at most half the range of
 * values, range not above it. Either all are NaN (no windows) or none is. */
static bool possible(const double v[STATISTICS], int feature, unsigned levels)
{
    const double slack = 1e-9;
    double lo, hi;
    int nans = 0;

    for (int i = 0; i < STATISTICS; i++)
        nans += isnan(v[i]) != 0;
    if (nans > 0)
        return nans == STATISTICS;
    bounds(feature, levels, &lo, &hi);
    return v[MIN] >= lo - slack && v[MAX] <= hi + slack && v[MIN] <= v[MAX] &&
           v[MEAN] >= v[MIN] - slack && v[MEAN] <= v[MAX] + slack &&
           v[RANGE] >= 0 && v[RANGE] <= v[MAX] - v[MIN] + slack &&
           v[SD] >= 0 && v[SD] <= (v[MAX] - v[MIN]) / 2 + slack;
}

static tc_status check_features(const void *params, const wu_array_info *info, const void *data, tc_err *err)
{
    const glcm_params *const p = params;
    const double *row = data;

    for (uint64_t item = 0; item < info->shape[0]; item++)
        for (size_t level = 0; level < p->n_levels; level++)
            for (size_t d = 0; d < p->n_distances; d++)
                for (int f = 0; f < GLCM_FEATURES; f++, row += STATISTICS)
                    if (!possible(row, f, p->levels[level]))
                        return tc_fail(err, TC_BAD_INPUT, "item %llu: glcm_L%u_d%02u_%s: values that no picture gives",
                                       (unsigned long long)item, p->levels[level], p->distances[d],
                                       glcm_feature_names[f]);
    return TC_OK;
}

static tc_status check_offset_features(const void *params, const wu_array_info *info, const void *data, tc_err *err)
{
    const glcm_params *const p = params;
    const double *row = data;

    for (uint64_t item = 0; item < info->shape[0]; item++)
        for (size_t level = 0; level < p->n_levels; level++)
            for (size_t o = 0; o < p->n_offsets; o++)
                for (int f = 0; f < GLCM_FEATURES; f++, row += 4) {
                    const double five[STATISTICS] = {
                        [MEAN] = row[0], [SD] = sqrt(row[1]), [RANGE] = isnan(row[0]) ? row[0] : 0,
                        [MIN] = row[2], [MAX] = row[3]
                    };

                    if (!possible(five, f, p->levels[level]))
                        return tc_fail(err, TC_BAD_INPUT, "item %llu: L%u offset (%d,%d) %s: values that no "
                                       "picture gives", (unsigned long long)item, p->levels[level],
                                       p->offsets[o].dx, p->offsets[o].dy, glcm_feature_names[f]);
                }
    return TC_OK;
}

tc_status glcm_expect(const void *params, const wu_job *job, an_expected **list, size_t *n, tc_err *err)
{
    const glcm_params *const p = params;
    char features[] = "features", offset_features[] = "offset_features";
    const an_expected all = {
        { .name = features, .dtype = WU_F64, .ndim = 2,
          .shape = { job->n_items, (uint64_t)p->n_levels * p->n_distances * GLCM_FEATURES * STATISTICS } },
        check_features
    };
    const an_expected each = {
        { .name = offset_features, .dtype = WU_F64, .ndim = 5,
          .shape = { job->n_items, p->n_levels, p->n_offsets, GLCM_FEATURES, 4 } },
        check_offset_features
    };
    tc_status st = an_expected_add(list, n, &all, err);

    if (st == TC_OK && p->per_offset)
        st = an_expected_add(list, n, &each, err);
    for (size_t i = 0; i < job->n_items; i++)
        for (size_t m = 0; st == TC_OK && m < p->n_maps; m++) {
            char name[WU_MAX_NAME + 128];
            an_expected map = { .check = NULL };

            map_info(p, &p->maps[m], &job->items[i], name, sizeof name, &map.info);
            st = an_expected_add(list, n, &map, err);
        }
    return st;
}

/* --- one matrix of many pairs ------------------------------------------------- */

/* Rounds a*2^32/b to the nearest. a*2^32 must fit. */
static int64_t quotient(i128 a, i128 b)
{
    const i128 scaled = (a < 0 ? -a : a) * ((i128)1 << 32);
    const i128 q = (scaled + b / 2) / b;

    return (int64_t)(a < 0 ? -q : q);
}

/* sum over entries h[i] of h*(log2(total) - log2(h)), in 2^-80: total times the
 * entropy. */
static i128 entropy_sum(const uint64_t *h, size_t n, uint64_t total)
{
    const u128 log_total = glcm_log2_q80(total);
    i128 sum = 0;

    for (size_t i = 0; i < n; i++)
        if (h[i] != 0)
            sum += (i128)h[i] * (i128)(log_total - glcm_log2_q80(h[i]));
    return sum;
}

/* From entropy_sum to the entropy in 2^-32. */
static int64_t rounded_entropy(i128 sum, i128 total)
{
    return (int64_t)((sum / total + ((i128)1 << 47)) >> 48);
}

/* 2n times the mutual information of the two ends of a pair, in 2^-80. A cell
 * that is exactly the product of its marginals adds exactly nothing. */
static i128 information_sum(const uint64_t *counts, unsigned levels, const uint64_t *marginal, uint64_t total)
{
    const i128 log_total = (i128)glcm_log2_q80(total);
    i128 logs[GLCM_MAX_LEVELS], sum = 0;

    for (unsigned a = 0; a < levels; a++)
        logs[a] = marginal[a] != 0 ? (i128)glcm_log2_q80(marginal[a]) : 0;
    for (unsigned a = 0; a < levels; a++)
        for (unsigned b = 0; b < levels; b++) {
            const uint64_t c = counts[(size_t)a * levels + b];

            if (c != 0 && (u128)c * total != (u128)marginal[a] * marginal[b])
                sum += (i128)c * ((i128)glcm_log2_q80(c) + log_total - logs[a] - logs[b]);
        }
    return sum < 0 ? 0 : sum;
}

typedef struct matrix_sums {
    uint64_t total;                         /* ordered pairs, 2n */
    i128 e2, s1, s2, d1, d2, idm;           /* over ordered pairs; s2 of a^2+b^2 */
    uint64_t marginal[GLCM_MAX_LEVELS];
    uint64_t sum[2 * GLCM_MAX_LEVELS], difference[GLCM_MAX_LEVELS];
} matrix_sums;

static void add_cell(matrix_sums *m, const glcm_tables *t, unsigned a, unsigned b, uint64_t c)
{
    const unsigned d = a > b ? a - b : b - a;

    m->total += c;
    m->marginal[a] += c;
    m->sum[a + b] += c;
    m->difference[d] += c;
    m->e2 += (i128)c * c;
    m->s1 += (i128)c * (a + b);
    m->s2 += (i128)c * (a * a + b * b);
    m->d1 += (i128)c * d;
    m->d2 += (i128)c * d * d;
    m->idm += (i128)c * t->idm[d];
}

bool glcm_matrix_features(const uint64_t *counts, unsigned levels, const glcm_tables *t,
                          int64_t feature[GLCM_FEATURES])
{
    matrix_sums m;
    i128 n2, variance, x, hx;
    uint64_t t58;

    memset(&m, 0, sizeof m);
    for (unsigned a = 0; a < levels; a++)
        for (unsigned b = 0; b < levels; b++)
            if (counts[(size_t)a * levels + b] != 0)
                add_cell(&m, t, a, b, counts[(size_t)a * levels + b]);
    if (m.total == 0)
        return false;
    n2 = m.total;                           /* N = 2n */
    /* sums over ordered pairs are twice those over pairs: N s2/2 - (s1/2)^2
     * over N^2 is the variance of the marginal; times 4 to stay in integers. */
    variance = 2 * n2 * m.s2 - m.s1 * m.s1;
    x = information_sum(counts, levels, m.marginal, m.total);
    hx = entropy_sum(m.marginal, levels, m.total);
    feature[GLCM_ASM] = quotient(m.e2, n2 * n2);
    feature[GLCM_CONTRAST] = quotient(m.d2, n2);
    feature[GLCM_CORRELATION] = variance == 0 ? (int64_t)1 << 32
                              : quotient(variance - 2 * n2 * m.d2, variance);
    feature[GLCM_VARIANCE] = quotient(variance, 4 * n2 * n2);
    feature[GLCM_IDM] = quotient(m.idm, n2 << GLCM_IDM_BITS);
    feature[GLCM_SUM_AVERAGE] = quotient(m.s1, n2) + ((int64_t)2 << 32);
    feature[GLCM_SUM_VARIANCE] = quotient(variance - n2 * m.d2, n2 * n2);
    feature[GLCM_SUM_ENTROPY] = rounded_entropy(entropy_sum(m.sum, (size_t)2 * levels, m.total), n2);
    feature[GLCM_ENTROPY] = rounded_entropy(entropy_sum(counts, (size_t)levels * levels, m.total), n2);
    feature[GLCM_DIFFERENCE_VARIANCE] = quotient(n2 * m.d2 - m.d1 * m.d1, n2 * n2);
    feature[GLCM_DIFFERENCE_ENTROPY] = rounded_entropy(entropy_sum(m.difference, levels, m.total), n2);
    feature[GLCM_IMC1] = hx == 0 ? 0 : -quotient(x >> 32, hx >> 32);
    t58 = (uint64_t)((2 * x / n2) >> 22);   /* 2 (HXY2 - HXY), for the table */
    feature[GLCM_IMC2] = (int64_t)tc_sqrt_round((((uint64_t)1 << 63)
                                                 - glcm_exp_neg(t58, t->exp_table)) << 1);
    return true;
}
