/* Writes CSV. */
#include "workunits/format/csv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/os.h"

char *wu_path_in(const char *folder, const char *name, const char *end)
{
    const size_t room = strlen(folder) + strlen(name) + strlen(end) + 2;
    char *path = malloc(room);
    if (path != NULL)
        snprintf(path, room, "%s/%s%s", folder, name, end);
    return path;
}

tc_status wu_make_folder(const char *folder, tc_err *err)
{
    if (!os_make_folder(folder) && errno != EEXIST)
        return tc_fail(err, TC_IO, "%s: cannot be made: %s", folder, strerror(errno));
    if (os_kind_of(folder) != OS_FOLDER)
        return tc_fail(err, TC_IO, "%s: is not a folder", folder);
    return TC_OK;
}

tc_status wu_csv_open(const char *folder, const char *name, wu_csv *csv, tc_err *err)
{
    char *const path = wu_path_in(folder, name, ".csv");
    *csv = (wu_csv){ .line_begun = false };
    const tc_status status =
        path == NULL ? tc_no_memory(err, name) : wu_new_file_open(path, &csv->out, err);
    free(path);
    return status;
}

tc_status wu_csv_close(wu_csv *csv, tc_status status, tc_err *err)
{
    return wu_new_file_close(&csv->out, status, err);
}

static void put_cell(wu_csv *csv, const char *before, const char *text)
{
    if (csv->line_begun)
        fputc(',', csv->out.file);
    csv->line_begun = true;
    if (text[strcspn(text, ",\"\r\n")] == '\0') {
        fprintf(csv->out.file, "%s%s", before, text);
        return;
    }
    fprintf(csv->out.file, "\"%s", before);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            fputc('"', csv->out.file);
        fputc(*text, csv->out.file);
    }
    fputc('"', csv->out.file);
}

void wu_csv_put(wu_csv *csv, const char *text)
{
    put_cell(csv, text[0] != '\0' && strchr("=+-@\t\r", text[0]) != NULL ? "'" : "", text);
}

void wu_csv_put_value(wu_csv *csv, const wu_array_info *info, const void *data)
{
    char text[WU_CELL_MAX];
    wu_value_text(info, data, text);
    if (info->dtype == WU_STR)
        wu_csv_put(csv, text);
    else
        put_cell(csv, "", text);
}

tc_status wu_csv_end_line(wu_csv *csv, tc_err *err)
{
    csv->line_begun = false;
    errno = 0;
    if (fputc('\n', csv->out.file) != EOF && ferror(csv->out.file) == 0)
        return TC_OK;
    return tc_fail(err, TC_IO, "%s: cannot write: %s", csv->out.path, strerror(errno));
}
