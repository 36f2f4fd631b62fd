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

static tc_status fail_file(const char *path, tc_err *err)
{
    return tc_fail(err, TC_IO, "%s: cannot be written: %s", path, strerror(errno));
}

tc_status wu_close_file(FILE *file, const char *path, tc_status status, tc_err *err)
{
    if (file == NULL)
        return status;
    errno = 0;
    const bool bad = ferror(file) != 0;
    if ((fclose(file) != 0 || bad) && status == TC_OK)
        status = fail_file(path, err);
    if (status != TC_OK)
        remove(path);
    return status;
}

tc_status wu_csv_open(const char *folder, const char *name, wu_csv *out, tc_err *err)
{
    *out = (wu_csv){ .path = wu_path_in(folder, name, ".csv") };
    if (out->path == NULL)
        return tc_no_memory(err, name);
    out->file = fopen(out->path, "wb");
    return out->file == NULL ? fail_file(out->path, err) : TC_OK;
}

tc_status wu_csv_close(wu_csv *out, tc_status status, tc_err *err)
{
    status = wu_close_file(out->file, out->path, status, err);
    free(out->path);
    *out = (wu_csv){ 0 };
    return status;
}

static void put_cell(wu_csv *out, const char *before, const char *text)
{
    if (out->line_begun)
        fputc(',', out->file);
    out->line_begun = true;
    if (text[strcspn(text, ",\"\r\n")] == '\0') {
        fprintf(out->file, "%s%s", before, text);
        return;
    }
    fprintf(out->file, "\"%s", before);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            fputc('"', out->file);
        fputc(*text, out->file);
    }
    fputc('"', out->file);
}

void wu_csv_put(wu_csv *out, const char *text)
{
    put_cell(out, text[0] != '\0' && strchr("=+-@\t\r", text[0]) != NULL ? "'" : "", text);
}

void wu_csv_put_value(wu_csv *out, const wu_array_info *info, const void *data)
{
    char text[WU_CELL_MAX];
    wu_value_text(info, data, text);
    if (info->dtype == WU_STR)
        wu_csv_put(out, text);
    else
        put_cell(out, "", text);
}

tc_status wu_csv_end_line(wu_csv *out, tc_err *err)
{
    out->line_begun = false;
    errno = 0;
    return fputc('\n', out->file) == EOF || ferror(out->file) ? fail_file(out->path, err) : TC_OK;
}
