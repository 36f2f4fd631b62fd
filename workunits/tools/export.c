/* texcell-wu export: writes a result as CSV tables and pictures, and keeps the list of the files
 * that an export wrote. */
#include "workunits/tools/confine.h"
#include "workunits/tools/export.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/base/command.h"
#include "app/base/os.h"
#include "workunits/format/csv.h"
#include "workunits/format/json_text.h"
#include "workunits/format/new_file.h"
#include "workunits/tools/tools.h"

const char wu_export_help[] =
    "usage: texcell-wu export [--pictures] [--images WU.zip] [--marks WU.zip]\n"
    "                         [--only-marks] [--tiff] [--geojson] RESULT.npz -o DIR\n"
    "\n"
    "Writes a result as files that any program can open. Files that an earlier\n"
    "export wrote into DIR (exported.txt lists them) are removed first, no others.\n"
    "\n"
    "  items.csv, regions.csv, ...  tables: a row for each item, region, cell, ...\n"
    "  features.csv         a row for each item, a column for each feature\n"
    "  offset_features.csv  a row for each item, levels, offset and feature\n"
    "\n"
    "and, with --pictures or --images,\n"
    "\n"
    "  map_*.png            maps of a value in colour, with a scale, cut to the part\n"
    "                       that has values\n"
    "  labels_*.png         labelled regions, each in a colour of its own, with its\n"
    "                       number where that fits\n"
    "  mask_*.png           the pixels inside, in white\n"
    "  points_*.png         with --images: points over the image; for a stack, over\n"
    "                       the largest greys of all slices, and over the slices\n"
    "\n"
    "Programs that read the tables get exactly the result's numbers. The slices of a\n"
    "stack are drawn next to each other with their numbers, from 0; at most 36,\n"
    "evenly chosen. Pictures below 300 pixels are enlarged, but not masks without\n"
    "images.\n"
    "\n"
    "  -o, --output DIR     the folder to write into\n"
    "  --pictures           draw maps, labels and masks as PNG\n"
    "  --images WU.zip      the work unit of the result: labels and masks are drawn\n"
    "                       over its images; a map is shown next to its image and\n"
    "                       laid over it\n"
    "  --marks WU.zip       the work unit: items.csv then has each image's mark (ok,\n"
    "                       look, wrong?) and group, and groups.csv has the groups,\n"
    "                       as in the page of report\n"
    "  --only-marks         with --marks: write no other files\n"
    "  --suggested FILE     the file that pack wrote: its doubts about the suggested\n"
    "                       parameters become marks\n"
    "  --tiff               also write labels, masks and maps as TIFF for ImageJ and\n"
    "                       napari: values are unchanged, and the size of a pixel is\n"
    "                       that of --images\n"
    "  --geojson            also write outlines of regions, and points, as GeoJSON,\n"
    "                       for QuPath\n";

/* The values of options, and the path of the result; NULL if they were not given. */
typedef struct export_options {
    const char *result, *folder, *images, *marks, *suggested;
    wu_export_extras extras;
} export_options;

static tc_status parse_options(int argc, char **argv, export_options *o, tc_err *err)
{
    const tc_option options[] = { { "output", 'o', TC_TEXT, .to = &o->folder },
                                  { "images", 0, TC_TEXT, .to = &o->images },
                                  { "pictures", 0, TC_FLAG, .to = &o->extras.pictures },
                                  { "marks", 0, TC_TEXT, .to = &o->marks },
                                  { "only-marks", 0, TC_FLAG, .to = &o->extras.only_removes_files },
                                  { "suggested", 0, TC_TEXT, .to = &o->suggested },
                                  { "tiff", 0, TC_FLAG, .to = &o->extras.tiff },
                                  { "geojson", 0, TC_FLAG, .to = &o->extras.geojson },
                                  { .name = NULL } };
    int n_files;
    return_if_error(tc_read_options(argc, argv, options, &n_files, err));
    if (n_files != 1)
        return tc_fail(err, TC_USAGE, "export: takes one RESULT.npz, %d given", n_files);
    o->result = argv[1]; /* tc_read_options moves arguments that are no options here */
    o->extras.without_items_csv = o->marks != NULL;
    o->extras.pictures = o->extras.pictures || o->images != NULL;
    if (o->extras.only_removes_files &&
        (o->marks == NULL || o->extras.pictures || o->extras.tiff || o->extras.geojson))
        return tc_fail(err, TC_USAGE, "export: --only-marks goes with --marks alone");
    if (o->folder == NULL)
        return tc_fail(err, TC_USAGE, "export: -o DIR is missing");
    return TC_OK;
}

/* --- the files of an export ------------------------------------------------------------------ */

/* The first line of WU_EXPORT_LIST. */
static const char list_title[] = "# written by texcell-wu export, which removes these files at the "
                                 "next export into this folder\n";

/* Fails because the list cannot be written; errno has the reason. */
static tc_status fail_list(const char *folder, tc_err *err)
{
    return tc_fail(err, TC_IO, "%s/" WU_EXPORT_LIST ": cannot be written: %s", folder,
                   strerror(errno));
}

/* Writes `line` and `end` to the folder's file WU_EXPORT_LIST, the list of the files that exports
 * wrote. mode: "wb" begins a new list, "ab" appends (as for fopen). */
static tc_status write_list(const char *folder, const char *mode, const char *line, const char *end,
                            tc_err *err)
{
    char *const path = wu_join_path(folder, WU_EXPORT_LIST, "");
    if (path == NULL)
        return tc_no_memory(err, WU_EXPORT_LIST);
    FILE *const list = fopen(path, mode);
    free(path);
    if (list == NULL)
        return fail_list(folder, err);
    const bool good = fprintf(list, "%s%s", line, end) > 0;
    return fclose(list) == 0 && good ? TC_OK : fail_list(folder, err);
}

wu_item_title wu_result_item_title(const wu_result_file *file, size_t item)
{
    assert(item < file->n_items);
    return wu_item_title_of(file->item_names[item],
                            file->item_sources == NULL ? NULL : file->item_sources[item]);
}

wu_file_name wu_array_file_name(const wu_result_file *file, const wu_declaration *d, size_t item,
                                const char *array)
{
    assert(item < file->n_items);
    const char *const name = file->item_names[item], *const place = strstr(d->name, "{item}");
    const size_t name_start = place == NULL ? 0 : (size_t)(place - d->name), n = strlen(name);
    wu_file_name out = { "" };
    /* d->name is a pattern: the item's name begins where "{item}" does. */
    strncat(out.text, array, sizeof out.text - 1);
    if (place != NULL && strlen(array) >= name_start + n &&
        strncmp(array + name_start, name, n) == 0)
        memcpy(out.text + name_start, wu_result_item_title(file, item).text, n);
    return out;
}

/* Returns TC_BAD_INPUT with a message about an existing file that no export wrote. */
static tc_status refuse_existing(const char *path, const char *folder, tc_err *err)
{
    return tc_fail(err, TC_BAD_INPUT,
                   "%s: exists, and %s/" WU_EXPORT_LIST " does not list it; remove it, or choose "
                   "another folder",
                   path, folder);
}

tc_status wu_export_list_file(const char *folder, const char *name, const char *end, tc_err *err)
{
    char *const path = wu_join_path(folder, name, end), *const file =
                                                            path == NULL
                                                                ? NULL
                                                                : path + strlen(folder) + 1;
    tc_status status = TC_OK;
    if (path == NULL)
        return tc_no_memory(err, name);
    if (os_kind_of_link(path) != OS_NOTHING)
        status = refuse_existing(path, folder, err);
    else
        status = write_list(folder, "ab", file, "\n", err);
    free(path);
    return status;
}

/* Whether an export can have written a file of this name: the name contains no folder, does not
 * begin with a dot, and has an extension that exports use. n: the length of the name, which other
 * characters may follow. */
static bool is_export_name(const char *name, size_t n)
{
    static const char *const ends[] = { ".csv", ".json", ".png", ".tif", ".geojson" };
    for (size_t i = 0;
         name[0] != '.' && os_base_name(name) == name && i < sizeof ends / sizeof *ends; i++)
        if (n > strlen(ends[i]) &&
            strncmp(name + n - strlen(ends[i]), ends[i], strlen(ends[i])) == 0)
            return true;
    return false;
}

/* Whether the list in the folder has the name. */
static bool is_listed(const char *folder, const char *name)
{
    TC_AUTOFREE char *const path = wu_join_path(folder, WU_EXPORT_LIST, "");
    FILE *const list = path == NULL ? NULL : fopen(path, "rb");
    char line[1024]; /* a file name has at most 255 bytes */
    bool is_found = false;
    while (list != NULL && !is_found && fgets(line, sizeof line, list) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        is_found = strcmp(line, name) == 0;
    }
    if (list != NULL)
        fclose(list);
    return is_found;
}

tc_status wu_export_check_folder(const char *folder, tc_err *err)
{
    static const char *const names[] = { "items.csv", "columns.csv", WU_EXPORT_PARAMETERS ".json" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        TC_AUTOFREE char *const path = wu_join_path(folder, names[i], "");
        if (path == NULL)
            return tc_no_memory(err, names[i]);
        if (os_kind_of_link(path) != OS_NOTHING && !is_listed(folder, names[i]))
            return refuse_existing(path, folder, err);
    }
    return TC_OK;
}

/* Removes the file `name` + `end` of the folder, if it exists and is a regular file. */
static tc_status remove_file(const char *folder, const char *name, const char *end, tc_err *err)
{
    TC_AUTOFREE char *const path = wu_join_path(folder, name, end);
    if (path == NULL)
        return tc_no_memory(err, name);
    if (os_kind_of_link(path) == OS_FILE && unlink(path) != 0)
        return tc_fail(err, TC_IO, "%s: cannot be removed: %s", path, strerror(errno));
    return TC_OK;
}

/* The last line of WU_EXPORT_LIST. It is written after all files: a file that was changed after the
 * list was changed by a person. */
static const char list_end[] = "# all files are written";

tc_status wu_export_finish_list(const char *folder, tc_err *err)
{
    return write_list(folder, "ab", list_end, "\n", err);
}

/* Renames the table of this name to NAME.edited, or NAME.edited2 and so on, if it was changed after
 * the list, which the export that wrote the table finished. */
static tc_status keep_edited(const char *folder, const char *name, tc_err *err)
{
    TC_AUTOFREE char *const path = wu_join_path(folder, name, "");
    TC_AUTOFREE char *const list = wu_join_path(folder, WU_EXPORT_LIST, "");
    const size_t n = strlen(name);
    if (path == NULL || list == NULL)
        return tc_no_memory(err, name);
    /* only tables, whose names end in ".csv" (4 characters), are kept */
    if (n < 4 || strcmp(name + n - 4, ".csv") != 0 || os_kind_of_link(path) != OS_FILE ||
        !os_is_newer(path, list))
        return TC_OK;
    for (unsigned i = 1;; i++) {
        char end[24] = ".edited";
        if (i > 1)
            snprintf(end, sizeof end, ".edited%u", i);
        TC_AUTOFREE char *const kept = wu_join_path(folder, name, end);
        if (kept == NULL)
            return tc_no_memory(err, name);
        if (os_kind_of_link(kept) != OS_NOTHING)
            continue;
        if (rename(path, kept) != 0)
            return tc_fail(err, TC_IO, "%s: cannot be renamed: %s", path, strerror(errno));
        wu_print_note("%s: was changed after it was written: kept as %s%s", path, name, end);
        return TC_OK;
    }
}

/* Removes the file that a line of the list names, if an export can have written such a file. Also
 * removes the file's temporary file, which a killed export may have left. finished: whether
 * the export that wrote the list ended. */
static tc_status remove_listed(const char *folder, char *line, bool finished, tc_err *err)
{
    const size_t n = strlen(line);
    if (n < 2 || line[n - 1] != '\n' || !is_export_name(line, n - 1))
        return TC_OK;
    line[n - 1] = '\0';
    if (finished)
        return_if_error(keep_edited(folder, line, err));
    const tc_status status = remove_file(folder, line, "", err);
    return status == TC_OK ? remove_file(folder, line, ".tmp", err) : status;
}

/* Whether the list begins with the title. A list that is empty or ends within the title is
 * accepted, too: it was cut short by a full disk. line: a buffer of `size` bytes. */
static bool begins_list(char *line, size_t size, FILE *list)
{
    if (fgets(line, (int)size, list) == NULL)
        return feof(list) != 0;
    return strncmp(list_title, line, strlen(line)) == 0 &&
           (strcmp(list_title, line) == 0 || feof(list) != 0);
}

/* Whether the export that wrote the list ended. The list must have been read up to the end of its
 * title; reading continues there. */
static bool has_ended(FILE *list)
{
    char line[1024] = "";
    const long begin = ftell(list);
    while (fgets(line, sizeof line, list) != NULL)
        ;
    const bool ended = strncmp(line, list_end, strlen(list_end)) == 0;
    return begin >= 0 && fseek(list, begin, SEEK_SET) == 0 && ended;
}

/* Removes the files that an earlier export wrote, and begins a new list. */
static tc_status clear_folder(const char *folder, tc_err *err)
{
    char *const path = wu_join_path(folder, WU_EXPORT_LIST, "");
    char line[1024]; /* a file name has at most 255 bytes */
    tc_status status = TC_OK;
    if (path == NULL)
        return tc_no_memory(err, WU_EXPORT_LIST);
    FILE *const list = fopen(path, "rb");
    free(path);
    if (list == NULL && errno != ENOENT)
        return tc_fail(err, TC_IO, "%s/" WU_EXPORT_LIST ": cannot be read: %s", folder,
                       strerror(errno));
    if (list != NULL && !begins_list(line, sizeof line, list))
        status = tc_fail(err, TC_BAD_INPUT,
                         "%s/" WU_EXPORT_LIST ": is not the list of an export; give another folder",
                         folder);
    const bool finished = list != NULL && has_ended(list);
    while (status == TC_OK && list != NULL && fgets(line, sizeof line, list) != NULL)
        status = remove_listed(folder, line, finished, err);
    if (list != NULL)
        fclose(list);
    return status == TC_OK ? write_list(folder, "wb", list_title, "", err) : status;
}

/* Whether `identity`, a result's record of its work unit, describes the job: CRC-32, size and, if
 * it was computed, SHA-256 are equal. */
static bool is_result_of(const json_t *identity, const wu_job *job)
{
    char crc[9];
    const char *const recorded_crc = json_string_value(json_object_get(identity, "crc32")),
                      *const sha256 = json_string_value(json_object_get(identity, "sha256"));
    snprintf(crc, sizeof crc, "%08" PRIx32, job->file_crc);
    return recorded_crc != NULL && strcmp(recorded_crc, crc) == 0 &&
           json_integer_value(json_object_get(identity, "size")) == (json_int_t)job->file_size &&
           (job->file_sha256[0] == '\0' ||
            (sha256 != NULL && strcmp(sha256, job->file_sha256) == 0));
}

tc_status wu_open_unit_of_result(const wu_result_file *file, const char *path, bool by_crc,
                                 wu_job **job, tc_err *err)
{
    return_if_error(wu_job_read(path, job, err));
    return_if_error(by_crc ? TC_OK : wu_job_compute_sha256(*job, err));
    if (!is_result_of(json_object_get(wu_npz_json(file->npz), "workunit"), *job))
        return tc_fail(err, TC_BAD_INPUT, "%s: is not the work unit that %s is a result of", path,
                       file->path);
    for (size_t i = 0; i < file->n_items; i++)
        if (i >= (*job)->n_items || strcmp((*job)->items[i].name, file->item_names[i]) != 0)
            return tc_fail(err, TC_BAD_INPUT, "%s: item %zu is not %s, as in %s", path, i,
                           file->item_names[i], file->path);
    return TC_OK;
}

/* Prints a note if the result has pictures that the options do not export. Also prints a note about
 * each array that no file contains and that no option would export. used: [number of arrays]
 * whether a file contains the array; updated. */
static void note_unused(const wu_result_file *file, wu_export_extras extras, bool *used)
{
    bool has_pictures = false;
    for (size_t k = 0; k < file->n_items * file->n_declared; k++) {
        const wu_declaration *const d = &file->declared[k % file->n_declared];
        size_t index;
        if ((wu_is_picture(d->role) ? !extras.pictures : wu_is_per_item(d)) &&
            wu_find_declared_array(file, d, file->item_names[k / file->n_declared], &index, NULL) ==
                TC_OK) {
            used[index] = true;
            has_pictures = has_pictures || wu_is_picture(d->role);
        }
    }
    if (has_pictures && !extras.tiff && !extras.for_report)
        wu_print_note("%s: has pictures: --pictures draws them, and --tiff writes their values",
                      file->path);
    for (size_t i = 0; i < wu_npz_array_count(file->npz); i++) {
        const char *name = wu_npz_array_info(file->npz, i)->name;
        if (!used[i])
            wu_print_note("%s: %s is in no table and no picture; read it with numpy.load",
                          file->path, name);
    }
}

/* Writes parameters.json: the parameters as run, for pack --params. */
static tc_status write_parameters(const wu_result_file *file, const char *folder, tc_err *err)
{
    TC_AUTOFREE char *const text =
        wu_json_text(json_object_get(wu_npz_json(file->npz), "parameters"), WU_JSON_LAYOUT);
    TC_AUTOFREE char *const path = wu_join_path(folder, WU_EXPORT_PARAMETERS, ".json");
    wu_new_file out = { 0 };
    if (text == NULL || path == NULL)
        return tc_no_memory(err, "parameters");
    return_if_error(wu_export_list_file(folder, WU_EXPORT_PARAMETERS, ".json", err));
    const tc_status status = wu_new_file_open(path, &out, err);
    if (status == TC_OK)
        fprintf(out.file, "%s\n", text);
    return wu_new_file_close(&out, status, err);
}

tc_status wu_export_write(const char *result, const char *unit, const char *folder,
                          wu_export_extras extras, tc_err *err)
{
    TC_AUTO(wu_result_file_close) wu_result_file file = { 0 };
    TC_AUTO(wu_tables_free) wu_tables tables = { 0 };
    TC_AUTO(wu_job_destroy) wu_job *images = NULL;
    size_t n_tables = 0, n_pictures = 0;
    return_if_error(wu_result_file_open(result, NULL, &file, err));
    if (unit != NULL)
        return_if_error(wu_open_unit_of_result(&file, unit, false, &images, err));
    return_if_error(wu_tables_find(&file, &tables, err));
    return_if_error(wu_make_folder(folder, err));
    /* analyse wrote parameters.json for the user to repeat the analysis: an export keeps it. */
    const bool has_parameters = is_listed(folder, WU_EXPORT_PARAMETERS ".json");
    return_if_error(clear_folder(folder, err));
    if (extras.for_report || has_parameters)
        return_if_error(write_parameters(&file, folder, err));
    if (extras.only_removes_files)
        return TC_OK;
    return_if_error(
        wu_export_tables(&file, &tables, folder, extras.without_items_csv, &n_tables, err));
    n_tables += extras.without_items_csv && wu_result_has_groups(&file, &tables);
    if (extras.pictures)
        return_if_error(wu_export_pictures(&file, images, folder, tables.used, &n_pictures, err));
    for (size_t i = 0; extras.pictures && images != NULL && i < tables.n; i++)
        return_if_error(
            wu_export_points(&file, &tables.tables[i], images, folder, &n_pictures, err));
    size_t before = n_pictures;
    if (extras.tiff)
        return_if_error(wu_export_tiff(&file, images, folder, &n_pictures, err));
    if (extras.tiff && n_pictures == before)
        wu_print_note("%s: has no labels, masks or maps: --tiff writes nothing", result);
    before = n_pictures;
    if (extras.geojson)
        return_if_error(wu_export_geojson(&file, &tables, folder, &n_pictures, err));
    if (extras.geojson && n_pictures == before)
        wu_print_note("%s: has no labels, masks or places: --geojson writes nothing", result);
    note_unused(&file, extras, tables.used);
    printf("%s: %zu %s", folder, n_tables, n_tables == 1 ? "table" : "tables");
    if (n_pictures > 0 || extras.pictures)
        printf(", %zu %s\n", n_pictures, n_pictures == 1 ? "picture" : "pictures");
    else
        printf(" (--pictures adds PNG)\n");
    return extras.without_items_csv ? TC_OK : wu_export_finish_list(folder, err);
}

tc_status wu_export(int argc, char **argv, tc_err *err)
{
    export_options o = { 0 };
    return_if_error(parse_options(argc, argv, &o, err));
    if (os_kind_of(o.result) == OS_FILE)
        return_if_error(wu_make_folder(o.folder, err)); /* it cannot be made after wu_confine */
    return_if_error(
        wu_confine((char *[]){ (char *)(uintptr_t)o.result, (char *)(uintptr_t)o.images,
                               (char *)(uintptr_t)o.marks, (char *)(uintptr_t)o.suggested },
                   4, o.folder, err));
    return_if_error(wu_export_write(o.result, o.images, o.folder, o.extras, err));
    /* With --only-marks, wu_export_write has only removed the files of an earlier export. */
    return o.marks != NULL ? wu_write_marks(o.result, o.marks, o.suggested, o.folder,
                                            !o.extras.only_removes_files, err)
                           : TC_OK;
}
