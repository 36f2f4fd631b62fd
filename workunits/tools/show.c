/* texcell-wu show: prints a work unit or a result in readable form. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/analysis.h"
#include "app/base/command.h"
#include "app/base/text.h"
#include "workunits/format/archive.h"
#include "workunits/format/job.h"
#include "workunits/tools/confine.h"
#include "workunits/tools/needs.h"
#include "workunits/tools/notes.h"
#include "workunits/tools/suggest.h"
#include "workunits/format/result_file.h"
#include "workunits/tools/tools.h"

const char wu_show_help[] =
    "usage: texcell-wu show [--all] FILE\n"
    "       texcell-wu show --needs FILE...\n"
    "\n"
    "Shows a work unit: analysis, parameters, the sizes of items, and what\n"
    "create_work is told (operations, memory), with the time on one core (it may be\n"
    "half or twice that).\n"
    "Or a result: analysis, parameters as run, type and shape of arrays, and the\n"
    "first values of each table.\n"
    "\n"
    "  --all    every item and every value, not only the first\n"
    "  --needs  only what work units need, each as a line of JSON: operations; bytes\n"
    "           of memory, by a look at the pixels, and of the largest item's\n"
    "           checkpoint; pixels; bytes of the result's arrays, and of a row (a\n"
    "           region, a point) where the number of rows depends on the picture\n";

enum {
    SOME_ITEMS = 20,  /* the most lines of a list that are printed without --all */
    SOME_ROWS = 12,   /* the most lines of a table that are printed without --all */
    SOME_COLUMNS = 4, /* the most rows that print_columns prints; it prints each as a column */
    NAME_WIDTH = 24,  /* the least width, in characters, of a column of names */
    NUMBER_WIDTH = 12 /* the least width, in characters, of a column of numbers */
};

/* --- parameters ------------------------------------------------------------------------------ */

static tc_status print_parameters(const json_t *parameters, tc_err *err)
{
    puts("parameters");
    if (json_object_size(parameters) == 0)
        puts("    none: all defaults");
    for (void *at = json_object_iter((json_t *)(uintptr_t)parameters); at != NULL;
         at = json_object_iter_next((json_t *)(uintptr_t)parameters, at)) {
        char *value =
            json_dumps(json_object_iter_value(at), JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        if (value == NULL)
            return tc_no_memory(err, "parameters");
        fputs("    ", stdout);
        tc_print_printable(json_object_iter_key(at), stdout);
        fputs("  ", stdout);
        tc_print_printable(value, stdout);
        putchar('\n');
        free(value);
    }
    return TC_OK;
}

/* Prints the parameters as options of pack and analyse, in one line that can be copied. */
static tc_status print_options(json_t *parameters, tc_err *err)
{
    const char *key;
    json_t *value;
    fputs(json_object_size(parameters) > 0 ? "as options" : "", stdout);
    json_object_foreach(parameters, key, value) {
        char *const text = wu_param_text(key, value);
        if (text == NULL)
            return tc_no_memory(err, "parameters");
        putchar(' ');
        tc_print_printable(text, stdout);
        free(text);
    }
    fputs(json_object_size(parameters) > 0 ? "\n" : "", stdout);
    return TC_OK;
}

/* Prints the text that says what the work is for, unless `about` is NULL. */
static void print_about(const char *about)
{
    if (about == NULL)
        return;
    fputs("about      ", stdout);
    tc_print_printable(about, stdout);
    putchar('\n');
}

/* --- work units ------------------------------------------------------------------------------ */

/* Prints a line about an item. width: the width of the column of names, in characters. */
static void print_item(const wu_item *item, int width)
{
    char size[64], type[32];
    snprintf(size, sizeof size, item->is_stack ? "%u x %u x %u" : "%u x %u", item->nx, item->ny,
             item->nz);
    snprintf(type, sizeof type, "%s %u bit", item->channels == 3 ? "RGB" : "grey", item->bits);
    printf("    %-*s  %-6s %-20s %s", width, item->name, item->is_stack ? "stack" : "image", size,
           type);
    if (item->n_masks > 0)
        printf(", mask");
    if (item->n_labels > 0)
        printf(", %u objects", item->n_objects);
    if (item->has_spacing)
        printf(", spacing %.6g, %.6g, %.6g um (z, y, x)", item->spacing[0], item->spacing[1],
               item->spacing[2]);
    if (item->has_pixel)
        printf(", pixel %.6g, %.6g um (y, x)", item->pixel[0], item->pixel[1]);
    if (item->source != NULL) {
        fputs("  from ", stdout);
        tc_print_printable(item->source, stdout);
    }
    putchar('\n');
}

/* Prints the notes about the items' sizes and parameters, which `texcell-wu pack` has printed, too.
 * A note that is equal to the last note printed is left out. */
static void print_notes(const wu_job *job)
{
    const an_analysis *const analysis = an_find_analysis(job->analysis);
    char text[TC_ERR_MAX], last[TC_ERR_MAX] = "";
    void *params = NULL;
    tc_err err;
    if (analysis == NULL || analysis->note_item == NULL ||
        an_parse_params(analysis, job->parameters, "parameters", &params, &err) != TC_OK)
        return;
    for (size_t i = 0; i < job->n_items; i++) {
        const wu_item *const item = &job->items[i];
        if (analysis->check_item(params, item, item->name, &err) != TC_OK ||
            !analysis->note_item(params, item, text, sizeof text) || strcmp(text, last) == 0)
            continue;
        printf("%-10s %s: %s\n", last[0] == '\0' ? "notes" : "", item->name, text);
        memcpy(last, text, sizeof last);
    }
    an_params_free(analysis, &params);
}

/* Prints the time on one core and, if it is a minute or more, advice how to make it shorter. */
static void print_time(const wu_job *job, double seconds)
{
    const an_analysis *const analysis = an_find_analysis(job->analysis);
    char text[TC_DURATION_SIZE];
    tc_format_duration(seconds, text);
    printf("           %s on one core: half or twice as long is possible\n", text);
    if (seconds >= 60 && analysis != NULL && analysis->shorten_advice != NULL)
        printf("           shorter: %s\n", analysis->shorten_advice);
}

/* Prints the values for BOINC's create_work, or why they cannot be computed. */
static void print_needs(const wu_job *job)
{
    wu_needs needs;
    tc_err reason = { "" };
    if (wu_needs_find(job, &needs, &reason) != TC_OK) {
        fputs("needs      unknown: ", stdout);
        tc_print_printable(reason.message, stdout);
        putchar('\n');
    } else {
        printf("needs      %.3g operations (rsc_fpops_est), %" PRIu64
               " bytes of memory and %" PRIu64 " for each thread (rsc_memory_bound)\n",
               needs.operations, needs.memory_bytes, needs.thread_bytes);
        print_time(job, needs.operations / AN_CORE_SPEED);
    }
}

/* Prints, for --needs, what a work unit needs as one line of JSON, for other programs to read. */
static tc_status show_needs(const char *path, tc_err *err)
{
    wu_needs needs;
    wu_job *job = NULL;
    tc_err reason = { "" };
    return_if_error(wu_job_read(path, &job, err));
    tc_status status = wu_needs_find(job, &needs, &reason);
    if (status != TC_OK)
        tc_fail(err, status, "%s: %s", path, reason.message);
    else
        printf("{\"items\": %zu, \"operations\": %.6g, \"memory_bytes\": %" PRIu64
               ", \"thread_bytes\": %" PRIu64 ", \"device_bytes\": %" PRIu64
               ", \"most_memory_bytes\": %" PRIu64 ", \"state_bytes\": %" PRIu64
               ", \"pixels\": %" PRIu64 ", \"output_bytes\": %" PRIu64 ", \"row_bytes\": %" PRIu64
               ", \"most_rows_bytes\": %" PRIu64 ", \"taken_rows_bytes\": %" PRIu64 "}\n",
               job->n_items, needs.operations, needs.memory_bytes, needs.thread_bytes,
               needs.device_bytes, needs.most_memory_bytes, needs.state_bytes, needs.pixels,
               needs.output_bytes, needs.row_bytes, needs.most_rows_bytes, needs.taken_rows_bytes);
    wu_job_destroy(&job);
    return status;
}

/* Prints everything about a work unit. all: whether to print all items, not only the first ones. */
static tc_status show_work_unit(const char *path, bool all, tc_err *err)
{
    TC_AUTO(wu_job_destroy) wu_job *job = NULL;
    return_if_error(wu_job_read(path, &job, err));
    fputs("work unit  ", stdout);
    tc_print_printable(path, stdout);
    printf(": %" PRIu64 " bytes, CRC-32 %08" PRIx32 "\n", job->file_size, job->file_crc);
    tc_status status = wu_job_compute_sha256(job, err);
    if (job->file_sha256[0] != '\0')
        printf("SHA-256    %s\n", job->file_sha256);
    print_about(job->about);
    printf("analysis   %s\n", wu_quote(job->analysis).text);
    return_if_error(status);
    return_if_error(print_parameters(job->parameters, err));
    return_if_error(print_options(job->parameters, err));
    print_needs(job);
    const size_t n = all || job->n_items <= SOME_ITEMS ? job->n_items : SOME_ITEMS;
    int width = 0;
    for (size_t i = 0; i < n; i++)
        width = (int)strlen(job->items[i].name) > width ? (int)strlen(job->items[i].name) : width;
    printf("items      %zu\n", job->n_items);
    for (size_t i = 0; i < n; i++)
        print_item(&job->items[i], width);
    if (n < job->n_items)
        printf("    ... and %zu more (--all)\n", job->n_items - n);
    print_notes(job);
    return TC_OK;
}

/* --- results --------------------------------------------------------------------------------- */

/* Prints an array's name, type and shape. width: the width of the column of names. */
static void print_array(const wu_array_info *info, int width)
{
    static const char *const types[] = { "bool", "uint8", "int32", "int64", "float32", "float64" };
    char shape[128] = "";
    for (unsigned i = 0; i < info->ndim; i++) {
        const size_t n = strlen(shape);
        snprintf(shape + n, sizeof shape - n, "%s%" PRIu64, i > 0 ? " x " : "", info->shape[i]);
    }
    printf("    %-*s  ", width, info->name);
    if (info->dtype == WU_STR)
        printf("text of %-4" PRIu32, info->width);
    else
        printf("%-12s", types[info->dtype]);
    printf(" %s\n", shape);
}

static void print_arrays(const wu_result_file *file, bool all)
{
    const size_t n_arrays = wu_npz_array_count(file->npz);
    const size_t n = all || n_arrays <= SOME_ITEMS ? n_arrays : SOME_ITEMS;
    int width = 0;
    for (size_t i = 0; i < n; i++) {
        const int length = (int)strlen(wu_npz_array_info(file->npz, i)->name);
        width = length > width ? length : width;
    }
    printf("arrays     %zu\n", n_arrays);
    for (size_t i = 0; i < n; i++)
        print_array(wu_npz_array_info(file->npz, i), width);
    if (n < n_arrays)
        printf("    ... and %zu more (--all)\n", n_arrays - n);
}

/* Sets `out` to the text of a cell. Floating-point numbers have six digits, or all digits if `all`.
 * Column 0 is the item's name, column c + 1 is column c of the table. */
static void cell_text(wu_cursor *cursor, size_t column, bool all, char out[WU_CELL_MAX])
{
    const wu_array_info *info;
    if (column == 0) {
        snprintf(out, WU_CELL_MAX, "%s", cursor->file->item_names[cursor->item]);
        return;
    }
    wu_cursor_text(cursor, column - 1, out);
    wu_cursor_value(cursor, column - 1, &info);
    if (!all && (info->dtype == WU_F64 || info->dtype == WU_F32))
        snprintf(out, WU_CELL_MAX, "%.6g", strtod(out, NULL));
}

/* Sets `out` to the title of a column. Columns are counted as in cell_text. */
static void title_text(const wu_table *table, size_t column, char out[WU_TITLE_MAX])
{
    if (column == 0)
        snprintf(out, WU_TITLE_MAX, "item");
    else
        wu_column_title(table, column - 1, out);
}

/* Prints the text, and blanks up to this width. */
static void print_padded(const char *text, size_t width)
{
    tc_print_printable(text, stdout);
    for (size_t n = strlen(text); n < width; n++)
        putchar(' ');
}

/* Prints a row of the table, or its titles if cursor is NULL. */
static void print_line(const wu_table *table, wu_cursor *cursor, bool all)
{
    char title[WU_TITLE_MAX], text[WU_CELL_MAX];
    for (size_t c = 0; c <= table->n_columns; c++) {
        const size_t least = c == 0 ? NAME_WIDTH : NUMBER_WIDTH;
        title_text(table, c, title);
        if (cursor != NULL)
            cell_text(cursor, c, all, text);
        fputs(c == 0 ? "    " : "  ", stdout);
        print_padded(cursor == NULL ? title : text, c == table->n_columns   ? 0
                                                    : strlen(title) > least ? strlen(title)
                                                                            : least);
    }
    putchar('\n');
}

/* Prints a table, a line for each row, with the titles in the first line. */
static tc_status print_rows(const wu_result_file *file, const wu_table *table, bool all,
                            tc_err *err)
{
    const uint64_t limit = all ? UINT64_MAX : SOME_ROWS;
    TC_AUTO(wu_cursor_close) wu_cursor cursor;
    print_line(table, NULL, all);
    tc_status status = wu_cursor_open(file, table, &cursor, err);
    for (uint64_t row = 0; row < limit && wu_cursor_next(&cursor, &status, err); row++)
        print_line(table, &cursor, all);
    if (status == TC_OK && table->rows > limit)
        printf("    ... and %" PRIu64 " more (--all)\n", table->rows - limit);
    return status;
}

/* Returns the length of the longest title of the first n_columns columns. */
static size_t title_width(const wu_table *table, size_t n_columns)
{
    char title[WU_TITLE_MAX];
    size_t width = 0;
    for (size_t c = 0; c < n_columns; c++) {
        title_text(table, c, title);
        width = strlen(title) > width ? strlen(title) : width;
    }
    return width;
}

/* Prints a table of many columns transposed: a line for each column, with the values of the first
 * rows side by side. */
static tc_status print_columns(const wu_result_file *file, const wu_table *table, bool all,
                               tc_err *err)
{
    const size_t n_rows = table->rows < SOME_COLUMNS ? (size_t)table->rows : SOME_COLUMNS;
    const size_t n_columns = table->n_columns + 1,
                 n_lines = all || n_columns < SOME_ROWS ? n_columns : SOME_ROWS;
    const size_t width = title_width(table, n_lines);
    wu_cursor cursors[SOME_COLUMNS] = { { 0 } };
    tc_status status = TC_OK;
    /* Moves cursor r to row r. */
    for (size_t r = 0; r < n_rows && status == TC_OK; r++) {
        status = wu_cursor_open(file, table, &cursors[r], err);
        for (size_t k = 0; k <= r && wu_cursor_next(&cursors[r], &status, err);)
            k++;
    }
    for (size_t c = 0; c < n_lines && status == TC_OK; c++) {
        char text[WU_CELL_MAX], title[WU_TITLE_MAX];
        title_text(table, c, title);
        fputs("    ", stdout);
        print_padded(title, width);
        for (size_t r = 0; r < n_rows; r++) {
            cell_text(&cursors[r], c, all, text);
            fputs("  ", stdout);
            print_padded(text, r + 1 < n_rows ? NAME_WIDTH : 0);
        }
        putchar('\n');
    }
    for (size_t r = 0; r < n_rows; r++)
        wu_cursor_close(&cursors[r]);
    if (status == TC_OK && (n_lines < n_columns || n_rows < table->rows))
        printf("    ... %" PRIu64 " rows of %zu columns in all (--all, or export)\n", table->rows,
               n_columns);
    return status;
}

static tc_status print_tables(const wu_result_file *file, bool all, tc_err *err)
{
    TC_AUTO(wu_tables_free) wu_tables tables;
    return_if_error(wu_tables_find(file, &tables, err));
    for (size_t i = 0; i < tables.n; i++) {
        const wu_table *table = &tables.tables[i];
        printf("%-10s %" PRIu64 " rows of %zu columns\n", table->name, table->rows,
               table->n_columns + 1);
        if (table->n_columns + 1 > SOME_ROWS && !(all && table->rows > SOME_COLUMNS))
            return_if_error(print_columns(file, table, all, err));
        else
            return_if_error(print_rows(file, table, all, err));
    }
    return TC_OK;
}

/* Prints for each item the file from which it was made, if the result records the files. */
static void print_sources(const wu_result_file *file, bool all)
{
    const size_t n = all || file->n_items <= SOME_ITEMS ? file->n_items : SOME_ITEMS;
    int width = 0;
    for (size_t i = 0; i < n; i++)
        width = (int)strlen(file->item_names[i]) > width ? (int)strlen(file->item_names[i]) : width;
    for (size_t i = 0; file->item_sources != NULL && i < n; i++) {
        printf("    %-*s  from ", width, file->item_names[i]);
        tc_print_printable(file->item_sources[i], stdout);
        putchar('\n');
    }
    if (file->item_sources != NULL && n < file->n_items)
        printf("    ... and %zu more (--all)\n", file->n_items - n);
}

/* Prints the notes about items whose results are of little use: at most `most` notes. */
static tc_status print_result_notes(const wu_result_file *file, size_t most, tc_err *err)
{
    char **notes = NULL;
    size_t n = 0;
    const tc_status status = wu_notes_read(file, &notes, err);
    for (size_t i = 0; i < file->n_items && status == TC_OK; i++) {
        if (notes[i] == NULL || n++ >= most)
            continue;
        fputs(n == 1 ? "notes\n    " : "    ", stdout);
        tc_print_printable(file->item_names[i], stdout);
        printf(": %s\n", notes[i]);
    }
    if (n > most)
        printf("    ... and %zu more (--all)\n", n - most);
    wu_notes_free(notes, file->n_items);
    return status;
}

/* Prints everything about a result. all: whether to print all lines, not only the first ones of
 * each list. */
static tc_status show_result(const char *path, bool all, tc_err *err)
{
    TC_AUTO(wu_result_file_close) wu_result_file file;
    return_if_error(wu_result_file_open(path, NULL, &file, err));
    const json_t *json = wu_npz_json(file.npz);
    const char *analysis = json_string_value(json_object_get(json, "analysis"));
    const json_t *unit = json_object_get(json, "workunit");
    const char *crc = json_string_value(json_object_get(unit, "crc32"));
    const char *sha256 = json_string_value(json_object_get(unit, "sha256"));
    fputs("result     ", stdout);
    tc_print_printable(path, stdout);
    printf("\nof         work unit with CRC-32 %s\n", crc != NULL ? wu_quote(crc).text : "?");
    if (sha256 != NULL)
        printf("SHA-256    %s\n", wu_quote(sha256).text);
    print_about(json_string_value(json_object_get(json, "about")));
    printf("analysis   %s\n", analysis != NULL ? wu_quote(analysis).text : "?");
    return_if_error(print_parameters(json_object_get(json, "parameters"), err));
    printf("items      %zu\n", file.n_items);
    print_sources(&file, all);
    print_arrays(&file, all);
    return_if_error(print_tables(&file, all, err));
    return print_result_notes(&file, all ? SIZE_MAX : SOME_ITEMS, err);
}

/* --- the command ----------------------------------------------------------------------------- */

tc_status wu_show(int argc, char **argv, tc_err *err)
{
    bool all = false, needs = false;
    const tc_option options[] = { { "all", 0, TC_FLAG, .to = &all },
                                  { "needs", 0, TC_FLAG, .to = &needs },
                                  { .name = NULL } };
    int n_files;
    return_if_error(tc_read_options(argc, argv, options, &n_files, err));
    if (n_files != 1 && !(needs && n_files > 1))
        return tc_fail(err, TC_USAGE, "show: takes one FILE, %d given", n_files);
    const char *path = argv[1];
    tc_status status = wu_confine(argv + 1, (size_t)n_files, NULL, err);
    for (int i = 1; needs && status == TC_OK && i <= n_files; i++)
        status = show_needs(argv[i], err);
    if (needs || status != TC_OK)
        return status;
    wu_archive *archive = NULL;
    return_if_error(wu_archive_read(path, WU_MAX_MEMBERS, NULL, &archive, err));
    const bool is_job = wu_archive_find(archive, "job.json") >= 0;
    const bool is_result = wu_archive_find(archive, "result.json") >= 0;
    wu_archive_destroy(&archive);
    if (is_job)
        return show_work_unit(path, all, err);
    if (is_result)
        return show_result(path, all, err);
    return tc_fail(err, TC_BAD_INPUT,
                   "%s: is neither a work unit (no job.json) nor a result (no result.json)", path);
}
