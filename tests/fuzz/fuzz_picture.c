/* libFuzzer target: opens a picture as each kind of picture, with and without a scale, and reads
 * it. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz_fail.h"
#include "tests/fuzz/fuzz_zip.h"
#include "workunits/tools/picture_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__asan_default_options(void);

/* The bytes of the largest page that is read: larger ones would take the time of thousands of
 * inputs. */
#define LARGEST ((size_t)1 << 16)

/* Limits the size of allocations: larger ones fail, which the program must handle. */
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=256";
}

/* Reads the next page, also as encoded PNG data if these can be used unchanged. */
static tc_status read_page(wu_picture *picture, void *page, tc_err *err)
{
    const tc_status status = wu_picture_next(picture, page, err);
    size_t n = 0;
    if (status == TC_OK) {
        unsigned char *const encoded = wu_picture_encoded(picture, &n);
        if (encoded != NULL && n == 0)
            abort();
        free(encoded);
    }
    return status;
}

static void read_as(const char *path, const wu_picture_want *want)
{
    wu_picture *picture = NULL;
    tc_err err = { "" };
    tc_status status = wu_picture_open(path, want, &picture, &err);
    const wu_picture_info *const info = picture == NULL ? NULL : wu_picture_get_info(picture);
    const size_t bytes = picture == NULL ? 0 : wu_picture_page_bytes(info);
    void *const page = bytes > 0 && bytes <= LARGEST ? malloc(bytes) : NULL;
    for (uint32_t z = 0; page != NULL && status == TC_OK && z < info->nz && z * bytes <= LARGEST;
         z++)
        status = read_page(picture, page, &err);
    if (status == TC_BAD_INPUT && strncmp(err.message, path, strlen(path)) != 0)
        abort();
    if (status == TC_INTERNAL)
        abort();
    for (const char *note = picture == NULL ? NULL : wu_picture_note(picture);
         note != NULL && *note != '\0'; note++)
        if ((unsigned char)*note < ' ' || *note == 127)
            abort();
    char *const *others = NULL;
    for (size_t i = picture == NULL ? 0 : wu_picture_others(picture, &others); i > 0; i--)
        if (others[i - 1][0] == '\0')
            abort();
    if (picture != NULL &&
        (wu_picture_get_about(picture)->orientation > 8 || wu_picture_format(picture)[0] == '\0'))
        abort();
    free(page);
    wu_picture_close(&picture);
}

static void read_input(const uint8_t *data, size_t size)
{
    const wu_picture_want wanted[] = {
        { .kind = WU_KIND_IMAGE },
        { .kind = WU_KIND_IMAGE, .alone = true, .wants_encoded = true },
        { .kind = WU_KIND_MASK },
        { .kind = WU_KIND_LABELS },
        { .kind = WU_KIND_IMAGE,
          .scaled = true,
          .lo = -1,
          .hi = 100,
          .channel = 1 + size % 4,
          .alone = size % 2 != 0,
          .time = 1 + size % 3 },
    };
    const char *const path = fuzz_system_file(data, size);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        read_as(path, &wanted[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_with_failures(data, size, read_input);
    return 0;
}
