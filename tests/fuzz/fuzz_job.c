/* libFuzzer target: reads a work unit and loads every item. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz_fail.h"
#include "tests/fuzz/fuzz_zip.h"
#include "workunits/format/job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Larger items are valid, but would take the time of thousands of inputs. */
#define LARGEST ((uint64_t)1 << 16)

/* Checks that an error message is one printable line that begins with the file's name. */
static void check_message(const char *path, const tc_err *err)
{
    if (strncmp(err->message, path, strlen(path)) != 0 &&
        strncmp(err->message, "out of memory", 13) != 0)
        fuzz_wrong();
    for (const char *c = err->message; *c != '\0'; c++) {
        if (*c < 0x20 || *c > 0x7e)
            abort();
    }
}

static void load_items(const char *path, wu_job *job, unsigned threads)
{
    job->threads = threads;
    for (size_t i = 0; i < job->n_items && i < 50; i++) {
        const wu_item *item = &job->items[i];
        const uint64_t n = (uint64_t)item->nx * item->ny * item->nz;
        static _Alignas(16) uint8_t image[3 * LARGEST];
        wu_pixels pixels;
        tc_err err = { "" };
        if (n == 0 || n > WU_MAX_VOXELS || !wu_is_item_name(item->name))
            abort();
        if (n > LARGEST)
            continue;
        if (wu_item_decode_slice(job, i, 0, image, &err) != TC_OK)
            check_message(path, &err);
        if (wu_item_load(job, i, &pixels, &err) != TC_OK) {
            check_message(path, &err);
            continue;
        }
        /* Reads the first and the last pixel, so that the sanitizer checks both. */
        volatile unsigned sum =
            pixels.bits == 8 ? pixels.u8[0] + pixels.u8[n - 1] : pixels.u16[0] + pixels.u16[n - 1];
        if (pixels.mask != NULL)
            sum = pixels.mask[0] + pixels.mask[n - 1];
        (void)sum;
        wu_pixels_free(&pixels);
    }
}

static void read_input(const uint8_t *data, size_t size)
{
    const char *const path = fuzz_file(data, size);
    wu_job *job = NULL;
    tc_err err = { "" };
    if (wu_job_read(path, &job, &err) == TC_OK)
        load_items(path, job, size % 16 == 0 ? 2 : 1);
    else
        check_message(path, &err);
    wu_job_destroy(&job);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_with_failures(data, size, read_input);
    return 0;
}
