/*
 * libFuzzer target: checks a result against its work unit in the folder units_validate (unit_N.zip,
 * with its right result honest_N.npz) and against another one. A result that is accepted must equal
 * itself; and computing it again must give the same verdict as comparing it with the right result.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz_zip.h"
#include "validator/check/val.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_UNITS = 32, PATH = 64 };

static an_unit units[MAX_UNITS];
static char honest[MAX_UNITS][PATH];
static size_t n_units;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    for (; n_units < MAX_UNITS; n_units++) {
        char path[PATH];

        snprintf(path, sizeof path, "units_validate/unit_%zu.zip", n_units);
        snprintf(honest[n_units], PATH, "units_validate/honest_%zu.npz", n_units);
        if (an_unit_read(path, &units[n_units], NULL) != TC_OK)
            break;
    }
    /* Discards the printed differences. */
    if (n_units == 0 || freopen("/dev/null", "w", stdout) == NULL)
        abort();
    return 0;
}

static void check_message(const tc_err *err, const char *path)
{
    if (strncmp(err->message, path, strlen(path)) != 0)
        abort();
    for (const char *c = err->message; *c != '\0'; c++)
        if (*c < ' ' || *c > '~')
            abort();
}

static void try_unit(size_t i, const char *path)
{
    const val_verification all = { .fraction = 1, .chance = 1, .seeded = true, .threads = 1 };
    tc_err err = { "" };
    const tc_status status = val_check(&units[i], path, NULL, &err);

    if (status == TC_OK) {
        const tc_status same = val_compare(path, honest[i], true, &err);

        if (val_compare(path, path, true, &err) != TC_OK ||
            (same != TC_OK && same != TC_NO_MATCH) ||
            val_check(&units[i], path, &all, &err) != same)
            abort();
    } else if (status == TC_BAD_INPUT) {
        check_message(&err, path);
    } else {
        abort();
    }
}

/* Returns the index of the work unit that the result names, or `other`. */
static size_t unit_of(const char *path, size_t other)
{
    wu_npz_reader *r = NULL;
    char crc[16];
    size_t found = other;

    if (wu_npz_open(path, NULL, &r, NULL) != TC_OK)
        return other;
    for (size_t i = 0; i < n_units; i++) {
        const json_t *const claimed =
            json_object_get(json_object_get(wu_npz_json(r), "workunit"), "crc32");

        snprintf(crc, sizeof crc, "%08x", (unsigned)units[i].job->file_crc);
        if (json_is_string(claimed) && strcmp(json_string_value(claimed), crc) == 0)
            found = i;
    }
    wu_npz_reader_close(&r);
    return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *const path = fuzz_file(data, size);
    size_t own;

    own = unit_of(path, size % n_units);
    try_unit(own, path);
    /* Some inputs are also compared with the right result, even if they were refused. */
    switch (size % 8) {
    case 0: try_unit(size / 8 % n_units, path); break;
    case 1: val_compare(honest[own], path, false, NULL); break;
    case 2: val_compare(path, honest[own], true, NULL); break;
    default: break;
    }
    return 0;
}
