/* libFuzzer target: a NIfTI picture is opened as each kind of picture, with and without a scale, and read. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz_zip.h"
#include "workunits/tools/picture_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What other formats' libraries do with odd files is theirs to test. */
const wu_picture_decoder wu_picture_jpeg = { .name = "JPEG" }, wu_picture_tiff = { .name = "TIFF" };

static void read_as(const char *path, const wu_picture_want *want)
{
    wu_picture *picture = NULL;
    tc_err err = { "" };
    tc_status status = wu_picture_open(path, want, &picture, &err);
    const wu_picture_info *const info = picture == NULL ? NULL : wu_picture_get_info(picture);
    const size_t bytes = picture == NULL ? 0 : wu_picture_page_bytes(info);
    void *const page = bytes > 0 && bytes <= 1 << 22 ? malloc(bytes) : NULL;
    for (uint32_t z = 0; page != NULL && status == TC_OK && z < info->nz; z++)
        status = wu_picture_next(picture, page, &err);
    if (status == TC_BAD_INPUT && strncmp(err.message, path, strlen(path)) != 0)
        abort();
    if (status == TC_INTERNAL)
        abort();
    free(page);
    wu_picture_close(&picture);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const wu_picture_want wanted[] = {
        { .kind = WU_KIND_IMAGE }, { .kind = WU_KIND_MASK }, { .kind = WU_KIND_LABELS },
        { .kind = WU_KIND_IMAGE, .scaled = true, .lo = -1, .hi = 100, .channel = 2, .time = 2 },
    };
    const bool nifti = size > 4 && (memcmp(data, "\x5c\1\0", 4) == 0 || memcmp(data, "\0\0\1\x5c", 4) == 0 ||
                                    memcmp(data, "\x1f\x8b\x08", 3) == 0);
    fuzz_file file;
    if (!nifti)
        return 0;
    fuzz_file_open(&file, data, size);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        read_as(file.path, &wanted[i]);
    fuzz_file_close(&file);
    return 0;
}
