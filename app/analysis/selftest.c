/* Runs the self-tests: processes built-in items and compares the CRC of their final states. See
 * selftest.h. */
#include "app/analysis/selftest.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/crc32.h"
#include "workunits/format/json_text.h"

/* The longest time that a launch may take, in ms, on a device whose speed is not known yet. */
enum { FIRST_LAUNCH_MS = 5 };

/* Returns a number below 2^16 from a linear congruential generator. */
static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

/* The brightness of a pixel of the test's scene, 0 to 255. random: the state of next_random. */
static uint32_t brightness(const an_selftest *t, uint32_t x, uint32_t y, uint32_t z,
                           uint32_t *random)
{
    /* AN_BALLS has a ball in each cube of side `cell`, in pixels. */
    const uint32_t cell = 14;
    const int64_t dx = (int64_t)(x % cell) - 6, dy = (int64_t)(y % cell) - 7;
    const int64_t dz = t->nz > 1 ? (int64_t)(z % cell) - 6 : 0;
    const int64_t r2 = dx * dx + dy * dy + dz * dz;
    const uint32_t radius = 4 + (x / cell * 3 + y / cell * 5 + z / cell) % 5;
    const uint32_t background = 40 + 60 * x / t->nx + 20 * y / t->ny;

    if (t->scene == AN_TERRACES)
        return (x * x / 64 * 7 + y * y / 48 * 3 + z * z / 32 * 5) % 8 * 32;
    if (t->scene != AN_BALLS)
        return t->scene == AN_NOISE ? next_random(random) % 256
                                    : next_random(random) % 4 * 64 /* AN_TIES */;
    return (r2 <= (int64_t)radius * radius ? 200 - (uint32_t)r2 : background) +
           next_random(random) % 24;
}

/* The label of a pixel: 1 to 29 if its brightness is that of balls, else 0. Several balls may have
 * the same label. */
static uint32_t label_of(uint32_t x, uint32_t y, uint32_t z, uint32_t brightness)
{
    const uint32_t cell = 14;

    return brightness > 150 ? 1 + (x / cell * 7 + y / cell * 3 + z / cell * 5) % 29 : 0;
}

/* The number of different labels, not counting 0, of n pixels. labels: none is above 31, so that
 * each has a bit in labels_set; NULL if there are no labels. */
static uint32_t count_labels(const uint32_t *labels, size_t n)
{
    uint32_t labels_set = 0, count = 0;

    for (size_t i = 0; labels != NULL && i < n; i++)
        labels_set |= labels[i] > 0 ? 1u << labels[i] : 0;
    for (; labels_set != 0; labels_set &= labels_set - 1) /* clears the lowest bit */
        count++;
    return count;
}

tc_status an_selftest_pixels(const an_selftest *t, bool labels, wu_pixels *out, tc_err *err)
{
    assert(t->bits == 8 || t->bits == 16);
    const size_t n = (size_t)t->nx * t->ny * t->nz;
    uint32_t random = 12345;
    size_t i = 0;

    *out = (wu_pixels){ .nx = t->nx, .ny = t->ny, .nz = t->nz, .bits = t->bits };
    out->u8 = t->bits == 8 ? malloc(n) : NULL;
    out->u16 = t->bits == 16 ? malloc(n * sizeof *out->u16) : NULL;
    out->mask = t->mask ? malloc(n) : NULL;
    out->labels = labels ? malloc(n * sizeof *out->labels) : NULL;
    out->largest_label = labels ? 29 : 0;
    if ((out->u8 == NULL && out->u16 == NULL) || (t->mask && out->mask == NULL) ||
        (labels && out->labels == NULL)) {
        wu_pixels_free(out);
        return tc_no_memory(err, "the self-test");
    }
    for (uint32_t z = 0; z < t->nz; z++)
        for (uint32_t y = 0; y < t->ny; y++)
            for (uint32_t x = 0; x < t->nx; x++, i++) {
                const uint32_t v = brightness(t, x, y, z, &random);

                if (t->bits == 8)
                    out->u8[i] = (uint8_t)v;
                else
                    out->u16[i] = (uint16_t)(v * 257 + x % 251); /* uses all 16 bits */
                if (labels)
                    out->labels[i] = label_of(x, y, z, v);
                if (t->mask) /* a pattern with holes in the left two thirds of the picture */
                    out->mask[i] = (x + 2 * y + 3 * z) % 7 < 5 && x * 3 < t->nx * 2;
            }
    return TC_OK;
}

wu_item an_selftest_item(const an_selftest *t, const wu_pixels *pixels)
{
    static char name[] = "selftest";

    return (wu_item){ .name = name,
                      .is_stack = t->nz > 1,
                      .n_images = t->nz,
                      .n_masks = pixels->mask != NULL ? t->nz : 0,
                      .n_labels = pixels->labels != NULL ? t->nz : 0,
                      .n_objects = count_labels(pixels->labels, (size_t)t->nx * t->ny * t->nz),
                      .spacing = { 1, 1, 1 },
                      .nx = t->nx,
                      .ny = t->ny,
                      .nz = t->nz,
                      .bits = t->bits,
                      .channels = 1 };
}

/* Whether two items have the same arrays: names, sizes and contents. */
static bool same_output(const wu_output *a, const wu_output *b)
{
    bool same = a->n == b->n;

    for (size_t i = 0; same && i < a->n; i++) {
        int ok = 1;
        const wu_out_array *const x = &a->arrays[i], *const y = &b->arrays[i];
        const uint64_t bytes = wu_array_bytes(&x->info, &ok);

        same = strcmp(x->info.name, y->info.name) == 0 && bytes == wu_array_bytes(&y->info, &ok) &&
               ok && (bytes == 0 || memcmp(x->data, y->data, (size_t)bytes) == 0);
    }
    return same;
}

/* A test's item with its pixels and parameters, and the work on it, which points to them. */
typedef struct test_item {
    const an_analysis *analysis;
    wu_item item;
    wu_pixels pixels;
    void *params;
    an_work work;
} test_item;

/* Makes a test's item, and plans the work on it. The caller frees *m by free_item, also after a
 * failure. */
static tc_status make_item(const an_analysis *a, const an_selftest *t, struct ocl_device *device,
                           unsigned threads, const tc_poll *poll, test_item *m, tc_err *err)
{
    json_auto_t *json = wu_json_load(t->parameters, strlen(t->parameters), 0, NULL);

    *m = (test_item){ .work = { .item = &m->item,
                                .pixels = &m->pixels,
                                .threads = threads,
                                .device = device,
                                .poll = poll,
                                .launch_ms = FIRST_LAUNCH_MS } };
    m->analysis = a;
    return_if_error(json == NULL
                        ? tc_fail(err, TC_INTERNAL, "%s: self-test: bad parameters", a->name)
                        : an_parse_params(a, json, "self-test", &m->params, err));
    m->work.params = m->params;
    return_if_error(an_selftest_pixels(t, a->takes_labels, &m->pixels, err));
    m->item = an_selftest_item(t, &m->pixels);
    return a->plan(m->params, &m->item, &m->work.plan, err);
}

static void free_item(test_item *m)
{
    wu_pixels_free(&m->pixels);
    an_params_free(m->analysis, &m->params);
}

tc_status an_selftest_crc(const an_analysis *a, const an_selftest *t, const an_backend *backend,
                          struct ocl_device *device, unsigned threads, const tc_poll *poll,
                          uint32_t *crc, tc_err *err)
{
    TC_AUTO(free_item) test_item m;
    TC_AUTOFREE void *state = NULL;
    return_if_error(make_item(a, t, device, threads, poll, &m, err));

    state = calloc(1, m.work.plan.state_bytes);
    return_if_error(state == NULL ? tc_no_memory(err, "the self-test")
                                  : an_run_chunks(a, backend, &m.work, state, 0, err));
    *crc = tc_crc32(0, state, m.work.plan.state_bytes);
    return TC_OK;
}

/* Makes the item's arrays on the CPU. */
static tc_status result_by_cpu(const an_analysis *a, an_work work, void *state, wu_output *out,
                               tc_err *err)
{
    work.device = NULL;
    const tc_status status = an_run_chunks(a, a->cpu, &work, state, 0, err);

    return status == TC_OK ? a->finish(&work, 0, state, out, err) : status;
}

/* Makes the item's arrays by a backend's `finish`. Returns TC_MORE if `finish` cannot make them. */
static tc_status result_by_backend(const an_analysis *a, const an_backend *backend,
                                   const an_work *work, void *state, wu_output *out, tc_err *err)
{
    void *worker = NULL;
    uint64_t chunks;
    tc_status status = an_init(a, work, state, err);

    if (status == TC_OK)
        status = backend->open(work, state, &worker, err);
    if (status == TC_OK)
        do
            status = backend->step(worker, state, &chunks, err);
        while (status == TC_MORE);
    if (status == TC_OK)
        status = backend->finish(worker, state, 0, out, err);
    if (worker != NULL)
        backend->close(&worker);
    return status;
}

tc_status an_selftest_result(const an_analysis *a, const an_selftest *t, const an_backend *backend,
                             struct ocl_device *device, unsigned threads, const tc_poll *poll,
                             tc_err *err)
{
    TC_AUTO(wu_output_free) wu_output backend_output = { .n = 0 };
    TC_AUTO(wu_output_free) wu_output cpu_output = { .n = 0 };
    TC_AUTO(free_item) test_item m;
    TC_AUTOFREE void *backend_state = NULL;
    TC_AUTOFREE void *cpu_state = NULL;
    return_if_error(make_item(a, t, device, threads, poll, &m, err));

    m.work.result_only = true;
    backend_state = calloc(1, m.work.plan.state_bytes);
    cpu_state = calloc(1, m.work.plan.state_bytes);
    if (backend_state == NULL || cpu_state == NULL)
        return tc_no_memory(err, "the self-test");
    const tc_status status =
        result_by_backend(a, backend, &m.work, backend_state, &backend_output, err);
    if (status != TC_OK)
        return status == TC_MORE ? TC_OK : status;
    return_if_error(result_by_cpu(a, m.work, cpu_state, &cpu_output, err));
    return same_output(&cpu_output, &backend_output)
               ? TC_OK
               : tc_fail(err, TC_DEVICE,
                         "%s: self-test: this device computes another result than the CPU",
                         a->name);
}

uint32_t an_unit_kernels(const an_analysis *a, const an_unit *unit)
{
    uint32_t kernels = 0;

    if (unit == NULL || a->kernels == NULL)
        return AN_ALL_KERNELS;
    for (size_t i = 0; i < unit->job->n_items; i++)
        kernels |= a->kernels(unit->params, &unit->job->items[i]);
    return kernels;
}

bool an_selftest_is_needed(const an_analysis *a, size_t which, uint32_t kernels)
{
    const an_selftest *const t = &a->selftests[which];
    const wu_item item = { .is_stack = t->nz > 1, .nz = t->nz, .bits = t->bits };
    json_auto_t *json = wu_json_load(t->parameters, strlen(t->parameters), 0, NULL);
    void *params = NULL;
    tc_err ignored;
    bool needed = true;

    if (kernels != AN_ALL_KERNELS && json != NULL &&
        an_parse_params(a, json, "self-test", &params, &ignored) == TC_OK)
        needed = (a->kernels(params, &item) & ~kernels) == 0; /* the test uses no other kernel */
    an_params_free(a, &params);
    return needed;
}

tc_status an_selftest_run_one(const an_analysis *a, size_t which, const an_backend *backend,
                              struct ocl_device *device, unsigned threads, const tc_poll *poll,
                              tc_err *err)
{
    const an_selftest *const t = &a->selftests[which];
    uint32_t crc = 0;
    return_if_error(an_selftest_crc(a, t, backend, device, threads, poll, &crc, err));
    if (crc != t->state_crc)
        return tc_fail(err, device != NULL ? TC_DEVICE : TC_INTERNAL,
                       "%s: self-test %zu gives %08x, not %08x: this %s computes wrongly", a->name,
                       which, (unsigned)crc, (unsigned)t->state_crc,
                       device != NULL ? "device" : "program");
    return backend->finish != NULL ? an_selftest_result(a, t, backend, device, threads, poll, err)
                                   : TC_OK;
}

tc_status an_selftest_run_cpu(const an_analysis *a, unsigned threads, tc_err *err)
{
    for (size_t i = 0; a->selftests[i].parameters != NULL; i++)
        return_if_error(an_selftest_run_one(a, i, a->cpu, NULL, threads, NULL, err));
    return TC_OK;
}
