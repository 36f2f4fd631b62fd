/* Chooses items of a result at random and computes them again, and checks the pixels of others. */
#include "validator/check/verify.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/os.h"
#include "app/base/random.h"
#include "validator/check/difference.h"

/* --- choosing -------------------------------------------------------------------------------- */

/* Numbers that are combined with the given seed by XOR, to make seeds for further decisions. */
#define CHANCE 0x6368616e6365u     /* whether items are computed again at all */
#define PIXEL_CHECKS 0x6c6f6f6b73u /* which items' pixels are checked */
#define READ 0x656d707479u         /* which items of the count 0 or 1 are read */

/* The average time for checking pixels, as a share of the time that computing the result takes. */
static const double pixels_budget = 0.0165;
/* Reading a byte of pixels takes as long as this number of operations (the unit of an_plan.flops).
 */
static const double reading_flops = 25;

/* A unit of fewer operations than this, which take some hundredths of a second, is computed again
 * completely. A quarter of randomly generated units are smaller; together they take a hundredth of
 * the time of all. */
static const double few_flops = 6e7;

/* A second item is checked in any case if this takes at most this number of operations, a tenth of
 * a second. */
static const double second_flops = 5e8;

/* Of the items that contain nothing by the result, and of those that contain one region, this
 * number is read. */
enum { MOST_READ = 10 };

/* Chooses `wanted` items, or all if there are fewer, of those for which `of` is true (of all n
 * items if it is NULL), such that every set of this size has the same probability (selection
 * sampling: an item is chosen with the probability (number still wanted) / (number of items left)).
 */
static void choose_items(uint64_t seed, const bool *of, size_t n, size_t wanted, bool *chosen)
{
    size_t left = 0;

    for (size_t i = 0; i < n; i++)
        left += of == NULL || of[i];
    for (size_t i = 0; i < n; i++)
        if (of == NULL || of[i]) {
            chosen[i] = tc_random_below(left--, &seed) < wanted;
            wanted -= chosen[i];
        }
}

/* Returns the time for checking an item's pixels, without reading them, as a share of the time for
 * computing the item. Returns 1 if the analysis has no such check, as the item is then computed
 * again. */
static double pixels_share(const an_analysis *a, const an_work *work)
{
    return a->check_pixels != NULL ? a->pixels_share(work) : 1;
}

/* Returns the weight with which an item is drawn (choose_pixel_checks). share: its share of the
 * unit's operations. bytes: of the compressed pictures of all items, or 0 if these tell nothing
 * about the time. */
static double weight_of(double share, const wu_item *item, double bytes)
{
    return bytes > 0 ? fmax(share, (double)item->compressed_bytes / bytes) : share;
}

/* Sets *flops to the operations that an item's mask or labels give: the mean of those by some
 * slices, one at random in each of equally thick parts of the stack. */
static tc_status estimate_inside(const an_unit *unit, size_t index, uint64_t *random, double *flops,
                                 tc_err *err)
{
    enum { MOST_SLICES = 64 };
    const wu_item *const item = &unit->job->items[index];
    const uint64_t n = item->nz < MOST_SLICES ? item->nz : MOST_SLICES;
    wu_pixels pixels = { .nx = 0 };
    an_work work = { .params = unit->params, .item = item, .pixels = &pixels, .threads = 1 };

    *flops = 0;
    return_if_error(unit->analysis->plan(unit->params, item, &work.plan, err));
    for (uint64_t k = 0; k < n; k++) {
        const uint64_t first = k * item->nz / n, end = (k + 1) * item->nz / n;
        const uint64_t z = first + tc_random_below(end - first, random);

        return_if_error(wu_item_load_regions(unit->job, index, (uint32_t)z, &pixels, err));
        *flops += unit->analysis->flops_inside(&work) / (double)n;
        wu_pixels_free(&pixels);
    }
    return TC_OK;
}

/* What choosing an item depends on. */
typedef struct {
    double most;  /* the greatest operations that flops_inside gives */
    double flops; /* those that its mask or labels give; 0: not known yet */
    double cost;  /* the operations of checking its pixels */
    double end;   /* the sum of the weights of the items up to and with it that can be drawn */
} candidate;

/* Whether an item that was drawn is to be checked: with the probability flops / most, where its
 * mask or labels give `flops`, with a lower bound. */
static tc_status accept_item(const val_verifier *v, size_t index, candidate *c, uint64_t *random,
                             bool *accepted, tc_err *err)
{
    const an_unit *const unit = v->unit;
    const wu_item *const item = &unit->job->items[index];
    const double least = c->most / 20000; /* bounds the number of draws */

    if (c->flops == 0 && unit->analysis->flops_inside != NULL &&
        item->n_masks + item->n_labels > 0) {
        return_if_error(estimate_inside(unit, index, random, &c->flops, err));
        c->flops = fmax(c->flops, least);
    } else if (c->flops == 0) {
        c->flops = c->most;
    }
    *accepted = 0x1p-64 * (double)tc_random(random) * c->most <= c->flops;
    return TC_OK;
}

/* Adds n grey values, from pixel `at` on, to sums[0] to sums[n - 1]. */
static void add_row(const wu_pixels *px, size_t at, size_t n, uint32_t *sums)
{
    if (px->bits == 8)
        for (size_t i = 0; i < n; i++)
            sums[i] += px->u8[at + i];
    else
        for (size_t i = 0; i < n; i++)
            sums[i] += px->u16[at + i];
}

/* Sets *content to a measure of how much an item contains: the largest label, if it has labels,
 * else, as noise has little influence on it, the sum of the fourth powers of the differences
 * between the sums of grey values of adjacent blocks. */
static tc_status measure_content(const wu_pixels *px, double *content, tc_err *err)
{
    const uint32_t most = 8, height = px->ny < most ? px->ny : most,
                   width = px->nx < most ? px->nx : most, columns = px->nx / width;
    double before = 0; /* the block to the left */

    *content = px->largest_label;
    if (px->labels != NULL)
        return TC_OK;
    TC_AUTOFREE uint32_t *const sums = calloc(px->nx, sizeof *sums);
    TC_AUTOFREE double *const blocks = calloc(columns, sizeof *blocks);

    if (sums == NULL || blocks == NULL)
        return tc_no_memory(err, "the blocks");
    for (uint32_t z = 0; z < px->nz; z++)
        for (uint32_t y = 0; y + height <= px->ny; y += height) {
            memset(sums, 0, px->nx * sizeof *sums);
            for (uint32_t k = 0; k < height; k++)
                add_row(px, ((size_t)z * px->ny + y + k) * px->nx, px->nx, sums);
            for (uint32_t column = 0; column < columns; column++) {
                double block = 0;

                for (uint32_t x = 0; x < width; x++)
                    block += sums[column * width + x];
                const double down = y > 0 ? block - blocks[column] : 0,
                             right = column > 0 ? block - before : 0;

                *content += down * down * down * down + right * right * right * right;
                blocks[column] = before = block;
            }
        }
    return TC_OK;
}

/* Sets v->looks for some of the items with this count: MOST_READ of these are read, and the one
 * whose pixels contain most is checked, and so is `others` of the others, chosen at random. */
static tc_status choose_of_count(val_verifier *v, const int64_t *counts, int64_t count,
                                 size_t others, tc_err *err)
{
    const size_t n = v->unit->job->n_items;
    const val_look look = v->unit->analysis->check_end != NULL ? VAL_END : VAL_PIXELS;
    TC_AUTOFREE bool *const of = calloc(n, sizeof *of);
    TC_AUTOFREE bool *const read = calloc(n, sizeof *read);
    TC_AUTOFREE bool *const checked = calloc(n, sizeof *checked);
    size_t fullest = n;
    double most = -1, content;

    if (of == NULL || read == NULL || checked == NULL)
        return tc_no_memory(err, "the items");
    for (size_t i = 0; i < n; i++)
        of[i] = counts[i] == count;
    choose_items(v->seed ^ READ, of, n, MOST_READ, read);
    for (size_t i = 0; i < n; i++)
        if (read[i]) {
            TC_AUTO(wu_pixels_free) wu_pixels pixels = { .nx = 0 };

            return_if_error(wu_item_load(v->unit->job, i, &pixels, err));
            return_if_error(measure_content(&pixels, &content, err));
            if (content > most) {
                most = content;
                fullest = i;
            }
        }
    if (fullest < n) {
        read[fullest] = false;
        choose_items(~v->seed ^ READ, read, n, others, checked);
        checked[fullest] = true;
    }
    for (size_t i = 0; i < n; i++)
        if (checked[i] && v->looks[i] == VAL_NO_LOOK)
            v->looks[i] = look;
    return TC_OK;
}

/* Returns the operations of checking an item's pixels, of which reading them is a part. part: the
 * share of the planned operations that the item took, by the result. */
static double cost_of(const an_analysis *a, const an_work *work, double part)
{
    const wu_item *const item = work->item;
    /* Bytes of a pixel: its channels, a mask and a label. Those of images are also read to draw
     * items: all bytes so read, which compress well, cost 0.6 times those of a chosen item. */
    const double each =
        (item->bits == 16 ? 2.0 : 1.0) * item->channels +
        (item->is_stack ? 1 : 1.6) * ((item->n_masks > 0) + 2.0 * (item->n_labels > 0));

    return reading_flops * each * (double)item->nx * item->ny * item->nz +
           fmin(pixels_share(a, work), part) * work->plan.flops;
}

/* Draws items in proportion to their weights and sets v->looks for these. The weights, whose sum is
 * that of the last candidate, are divided into this number of equal stretches in the order of
 * items, and the item at a random point of each stretch is drawn, until one is accepted. */
static tc_status draw_items(val_verifier *v, candidate *items, double stretches, tc_err *err)
{
    const size_t n = v->unit->job->n_items;
    const double step = items[n - 1].end / stretches;
    uint64_t random = v->seed ^ PIXEL_CHECKS;
    size_t i = 0;

    for (double stretch = 0, drawn = 0; stretch < stretches;) {
        /* Weights before the point: at least those of the items up to the one drawn last. */
        const double from = fmax(step * stretch, drawn), to = step * (stretch + 1);
        const size_t first = i; /* the item at the start of the stretch */
        bool accepted = false;

        while (!accepted) {
            const double point = from + (to - from) * 0x1p-64 * (double)tc_random(&random);

            for (i = first; i + 1 < n && items[i].end <= point;)
                i++;
            return_if_error(accept_item(v, i, &items[i], &random, &accepted, err));
        }
        v->looks[i] = VAL_PIXELS;
        drawn = items[i].end;
        /* Continues with the next stretch, or with the one that contains this item's end. */
        stretch = fmax(stretch + 1, floor(items[i].end / step));
    }
    return TC_OK;
}

/* Chooses the items whose pixels are checked. An item's weight is the greater one of its shares of
 * the unit's operations, which a forger would save, by the result's steps, and, unless masks or
 * labels tell the operations, of the bytes of compressed pictures, as a picture with much in it may
 * take longer. An item with more than half of the operations or bytes is always chosen. Of the
 * others that contain something, by the result's counts, some are drawn; with check_end, whatever
 * the count. Of the items with a count of 0, and of those with 1, which may be a region that fills
 * the picture, the fullest is chosen, as such results take no work to forge.
 * Also sets v->small to whether the unit has fewer than few_flops operations; then all its items
 * are checked. */
static tc_status choose_pixel_checks(val_verifier *v, const int64_t *counts, const int64_t *steps,
                                     tc_err *err)
{
    const an_unit *const unit = v->unit;
    const an_analysis *const a = unit->analysis;
    const size_t n = unit->job->n_items;
    TC_AUTOFREE candidate *const items = calloc(n, sizeof *items);
    const double most_steps = a->most_steps != NULL ? (double)a->most_steps(unit->params) : 0;
    /* Sums over all items; `all`: operations as planned; `done`: with the steps of the result. */
    double all = 0, done = 0, all_most = 0, bytes = 0;
    double sum = 0;           /* of the weights */
    double weighted_cost = 0; /* sum of the weights times the costs of checking */

    if (items == NULL)
        return tc_no_memory(err, "the items");
    for (size_t i = 0; i < n; i++) {
        const wu_item *const item = &unit->job->items[i];
        an_work work = { .params = unit->params, .item = item, .threads = 1 };

        return_if_error(a->plan(unit->params, item, &work.plan, err));
        /* The steps may be any number: the item is not checked yet. */
        const double part = most_steps > 0 ? fmin(fmax((double)steps[i], 1) / most_steps, 1) : 1;

        items[i].most = part * (a->flops_inside != NULL ? a->flops_inside(&work) : work.plan.flops);
        items[i].cost = cost_of(a, &work, part);
        all += work.plan.flops;
        done += part * work.plan.flops;
        all_most += items[i].most;
        if (a->flops_inside == NULL)
            bytes += (double)item->compressed_bytes;
    }
    v->small = all < few_flops;
    for (size_t i = 0; i < n; i++) {
        const double weight = weight_of(items[i].most / all_most, &unit->job->items[i], bytes);

        /* check_end alone tells little of an item of the count 0. */
        if (weight <= 0.5 && (counts == NULL || counts[i] > 0 || a->check_end != NULL)) {
            weighted_cost += weight * items[i].cost;
            sum += weight;
        }
        items[i].end = sum;
        v->looks[i] = v->small || weight > 0.5 ? VAL_PIXELS
                      : most_steps > 0         ? VAL_END
                                               : VAL_NO_LOOK;
    }
    if (v->small || n == 1)
        return TC_OK;
    if (counts != NULL) {
        /* Items of the count 0 are often computed again. */
        return_if_error(
            choose_of_count(v, counts, 0, all <= second_flops * (double)n ? 2 : 1, err));
        return_if_error(choose_of_count(v, counts, 1, 0, err));
    }
    if (sum == 0)
        return TC_OK;
    /* The checks cost at most pixels_budget * done on average; their number is an integer >= 1, or
     * >= 2 if the second one takes little, as a forger of all items but one passes the first. */
    const double least = weighted_cost <= second_flops * sum ? 2 : 1;

    return draw_items(v, items, fmax(floor(pixels_budget * done * sum / weighted_cost), least),
                      err);
}

/* Returns the probability that at least one of `chosen` items, drawn from n without replacement, is
 * one of `forged`: 1 - C(n - forged, chosen) / C(n, chosen). */
static double odds_of_finding(size_t n, size_t chosen, size_t forged)
{
    double missed = 1;

    for (size_t i = 0; i < forged; i++)
        missed *= i + chosen < n ? (double)(n - chosen - i) / (double)(n - i) : 0;
    return 1 - missed;
}

/* Prints how many items are computed again, and how likely forged items are caught. */
static void report_items(const val_verifier *v, size_t n)
{
    /* One item, a tenth, half and all of the items. */
    const size_t forged[] = { 1, (n + 9) / 10, (n + 1) / 2, n };
    size_t last = 0;

    printf("computing %zu of %zu item%s again, chosen by --seed %" PRIu64 "\n", v->n_chosen, n,
           n == 1 ? "" : "s", v->seed);
    for (size_t i = 0; i < sizeof forged / sizeof forged[0]; i++) {
        if (forged[i] > last)
            printf("forging %zu of %zu items is caught with probability %.6f\n", forged[i], n,
                   odds_of_finding(n, v->n_chosen, forged[i]));
        last = forged[i];
    }
}

tc_status val_draw_seed(val_verification *options, tc_err *err)
{
    if (!options->seeded && !os_random(&options->seed, sizeof options->seed))
        return tc_fail(err, TC_TRY_LATER, "the system provides no random numbers: %s",
                       strerror(errno));
    return TC_OK;
}

tc_status val_verifier_init(val_verifier *v, const an_unit *unit, const val_verification *options,
                            const int64_t *counts, const int64_t *steps, tc_err *err)
{
    assert(options->fraction >= 0 && options->fraction <= 1 && options->threads >= 1);
    assert(options->fraction == 0 || (options->chance > 0 && options->chance <= 1));
    const size_t n = unit->job->n_items;
    /* The number of items to compute, rounded up. The product may exceed an integer by a rounding
     * error, which must not add an item. */
    const double share = ceil(options->fraction * (double)n - 1e-9);
    uint64_t chance = options->seed ^ CHANCE;

    *v = (val_verifier){ .unit = unit, .options = options, .seed = options->seed };
    if (options->max_seconds > 0)
        v->deadline = tc_seconds() + options->max_seconds;
    v->chosen = calloc(n, sizeof *v->chosen);
    v->looks = calloc(n, sizeof *v->looks);
    if (v->chosen == NULL || v->looks == NULL)
        return tc_no_memory(err, "the items");
    if (!options->blind)
        return_if_error(choose_pixel_checks(v, counts, steps, err));
    if (options->fraction == 0 || (double)tc_random(&chance) * 0x1p-64 >= options->chance)
        return TC_OK;
    v->n_chosen = share < 1 ? 1 : share < (double)n ? (size_t)share : n;
    choose_items(v->seed, NULL, n, v->n_chosen, v->chosen);
    report_items(v, n);
    return TC_OK;
}

void val_verifier_free(val_verifier *v)
{
    free(v->chosen);
    free(v->looks);
    v->chosen = NULL;
    v->looks = NULL;
}

/* --- comparing ------------------------------------------------------------------------------- */

static bool same_shape(const wu_array_info *a, const wu_array_info *b)
{
    return a->ndim == b->ndim && memcmp(a->shape, b->shape, a->ndim * sizeof a->shape[0]) == 0;
}

/* Prints the elements in which the array `claimed`, from the result, differs from the array
 * `right`, which was computed again. */
static void compare_array(val_names *names, size_t index, const wu_out_array *claimed,
                          const wu_out_array *right)
{
    const wu_array_info *const info = &claimed->info;
    const size_t size = wu_dtype_size(info->dtype, info->width);
    int ok = 0;
    const uint64_t n = wu_array_count(info, &ok);
    const unsigned char *const a = claimed->data, *const b = right->data;

    if (!same_shape(info, &right->info)) {
        names->shown++;
        printf("%s: %" PRIu64 " and %" PRIu64 " rows\n", info->name, info->shape[0],
               right->info.shape[0]);
        return;
    }
    for (uint64_t i = 0; i < n && names->shown < VAL_MAX_SHOWN; i++)
        if (memcmp(a + i * size, b + i * size, size) != 0)
            val_show_difference(names, info, index, i, a + i * size, b + i * size);
}

/* Returns the bytes of memory that computing the item takes. */
static uint64_t memory_of(const an_work *work)
{
    return work->plan.memory_bytes + work->threads * work->plan.thread_bytes;
}

/* Computes the item again and compares it with `claimed`. path: path of the result, from which the
 * names of elements are read if there are differences. */
static tc_status verify_item(const val_verifier *v, size_t index, const an_work *work,
                             const wu_output *claimed, const char *path, tc_err *err)
{
    TC_AUTO(wu_output_free) wu_output right = { .n = 0 };
    TC_AUTO(val_names_free) val_names names = { .path = path };
    const uint64_t memory = memory_of(work);

    if (v->options->max_memory > 0 && memory > v->options->max_memory)
        return tc_fail(err, TC_NO_MEMORY,
                       "item \"%s\": needs %" PRIu64 " MiB of memory, more than it may take",
                       work->item->name, (memory >> 20) + 1);
    return_if_error(an_compute_item(v->unit->analysis, work, index, v->deadline, &right, err));
    /* Both outputs have the arrays that the analysis expects, in the same order. */
    for (size_t i = 0; i < right.n; i++)
        compare_array(&names, index, &claimed->arrays[i], &right.arrays[i]);
    if (names.shown > 0)
        return tc_fail(err, TC_NO_MATCH,
                       "item \"%s\" gives other values when it is computed again (--seed %" PRIu64
                       ")",
                       work->item->name, v->seed);
    return TC_OK;
}

/* --- pixels ---------------------------------------------------------------------------------- */

tc_status val_check_pixels(val_verifier *v, size_t index, const wu_output *claimed,
                           const char *path, tc_err *err)
{
    assert(index < v->unit->job->n_items && v->options->threads >= 1);
    const an_analysis *const a = v->unit->analysis;
    const wu_item *const item = &v->unit->job->items[index];
    wu_pixels pixels = { .nx = 0 };
    an_work work = {
        .params = v->unit->params, .item = item, .pixels = &pixels, .threads = v->options->threads
    };
    /* This seed does not depend on which other items are checked. */
    uint64_t random = ~(v->seed + index);
    const val_look look = v->looks[index];
    bool compute_again = v->chosen[index] || (look == VAL_PIXELS && a->check_pixels == NULL);
    tc_err why = { "" };
    tc_status status;

    if (!compute_again && look == VAL_NO_LOOK)
        return TC_OK;
    v->n_loaded++;
    status = a->plan(v->unit->params, item, &work.plan, err);
    if (status == TC_OK)
        status = wu_item_load(v->unit->job, index, &pixels, err);
    if (status == TC_OK && !compute_again) {
        status = look == VAL_END ? a->check_end(&work, claimed, &why)
                                 : a->check_pixels(&work, claimed, &random, &why);
        compute_again = status == TC_NO_MATCH;
        if (compute_again && ++v->n_doubts <= VAL_MAX_SHOWN)
            printf("item \"%s\" is in doubt: %.500s; computing it again (--seed %" PRIu64 ")\n",
                   item->name, why.message, v->seed);
        if (compute_again)
            status = TC_OK;
        else if (status != TC_OK)
            tc_fail(err, status, "item \"%s\": %.500s (--seed %" PRIu64 ")", item->name,
                    why.message, v->seed);
    }
    if (!compute_again && v->small)
        compute_again = v->options->max_memory == 0 || memory_of(&work) <= v->options->max_memory;
    v->n_again += compute_again;
    if (status == TC_OK && compute_again)
        status = verify_item(v, index, &work, claimed, path, err);
    wu_pixels_free(&pixels);
    return status;
}
