/* libFuzzer target: exports a result as tables, pictures, TIFF, GeoJSON and a page, without its
 * work unit. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/fuzz_zip.h"
#include "workunits/tools/report.h"
#include "workunits/tools/tools.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *folder;
static char page[64];

void wu_print_note(const char *format, ...)
{
    (void)format;
}

void wu_print_note_of_file(const char *path, const char *format, ...)
{
    (void)path;
    (void)format;
}

void wu_show_progress(const char *what, size_t done, size_t n)
{
    (void)what;
    (void)done;
    (void)n;
}

static void empty_folder(void)
{
    DIR *const dir = opendir(folder);
    const struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.' && unlinkat(dirfd(dir), entry->d_name, 0) != 0)
            abort();
    if (dir != NULL)
        closedir(dir);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    folder = fuzz_folder();
    snprintf(page, sizeof page, "%s/report.html", folder);
    /* Discards the output of the exports. */
    return freopen("/dev/null", "w", stdout) == NULL;
}

/* Returns whether the arrays are small: drawing larger ones takes the time of thousands of inputs.
 */
static int is_small(const char *path)
{
    wu_npz_reader *r = NULL;
    uint64_t total = 0;
    int good = wu_npz_open(path, &(wu_npz_limits){ .array_bytes = 1 << 16 }, &r, NULL) == TC_OK;
    for (size_t i = 0; good && i < wu_npz_array_count(r); i++)
        total += wu_array_bytes(wu_npz_array_info(r, i), &good);
    wu_npz_reader_close(&r);
    return good && total <= 1 << 17;
}

static void check(tc_status status)
{
    if (status == TC_INTERNAL || status == TC_IO)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *const path = fuzz_file(data, size);
    tc_err err = { "" };
    if (is_small(path)) {
        check(wu_export_write(path, NULL, folder,
                              (wu_export_extras){ .pictures = true, .tiff = true, .geojson = true },
                              &err));
        empty_folder();
        check(wu_report_write(path, NULL, page, 3, &err));
        empty_folder();
    }
    return 0;
}
