/* libFuzzer target: checks a result without its work unit, by the description in the result. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz_fail.h"
#include "tests/fuzz/fuzz_zip.h"
#include "validator/check/val.h"
#include "validator/dataset/dataset.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_input(const uint8_t *data, size_t size)
{
    const char *const path = fuzz_file(data, size);
    an_unit unit = { .job = NULL };
    tc_err err = { "" };
    tc_status status;

    status = val_unit_of_result(path, &unit, &err);
    if (status == TC_OK)
        status = val_check_form(&unit, path, 0, &err);
    if (status == TC_INTERNAL ||
        (status == TC_BAD_INPUT && strncmp(err.message, path, strlen(path)) != 0))
        abort();
    /* The tools that display results can open an accepted result. */
    if (status == TC_OK) {
        wu_result_file shown;

        if (wu_result_file_open(path, NULL, &shown, &err) != TC_OK)
            fuzz_wrong();
        wu_result_file_close(&shown);
    }
    an_unit_free(&unit);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_with_failures(data, size, read_input);
    return 0;
}
