/* Writes tables as CSV. */
#include "workunits/format/csv.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/files.h"
#include "app/base/os.h"
#include "app/base/text.h"

char *wu_join_path(const char *folder, const char *name, const char *end)
{
    const size_t room = strlen(folder) + strlen(name) + strlen(end) + 2;
    char *path = malloc(room);
    if (path != NULL)
        snprintf(path, room, "%s/%s%s", folder, name, end);
    return path;
}

tc_status wu_make_folder(const char *folder, tc_err *err)
{
    const bool made = os_make_folder(folder);
    const int reason = errno;
    size_t above = strlen(folder); /* becomes the length of the parent's path, with its '/' */
    while (above > 0 && folder[above - 1] == '/')
        above--;
    while (above > 0 && folder[above - 1] != '/')
        above--;
    TC_AUTOFREE char *const parent = strdup(folder);
    if (parent != NULL && above > 1)
        parent[above - 1] = '\0';
    if (!made && reason == ENOENT && above > 1 && parent != NULL &&
        os_kind_of(parent) == OS_NOTHING)
        return tc_fail(err, TC_IO, "%s: cannot be made: the folder %s does not exist", folder,
                       parent);
    if (!made && reason == ENOENT)
        return tc_fail(err, TC_IO, "%s: cannot be made in that folder", folder);
    if (!made && reason != EEXIST)
        return tc_fail(err, TC_IO, "%s: cannot be made: %s", folder, strerror(reason));
    if (os_kind_of(folder) != OS_FOLDER)
        return tc_fail(err, TC_IO, "%s: exists and is not a folder", folder);
    return TC_OK;
}

tc_status wu_csv_open(const char *folder, const char *name, wu_csv *csv, tc_err *err)
{
    char *const path = wu_join_path(folder, name, ".csv");
    csv->out = (wu_new_file){ .file = NULL };
    csv->line_begun = false;
    csv->error = 0;
    csv->n = 0;
    const tc_status status =
        path == NULL ? tc_no_memory(err, name) : wu_new_file_open(path, &csv->out, err);
    free(path);
    return status;
}

/* Writes the bytes that are waiting to the file. */
static void flush(wu_csv *csv)
{
    errno = 0;
    if (fwrite(csv->waiting, 1, csv->n, csv->out.file) != csv->n && csv->error == 0)
        csv->error = errno != 0 ? errno : EIO;
    csv->n = 0;
}

static tc_status fail_write(const wu_csv *csv, tc_err *err)
{
    errno = csv->error;
    return tc_fail_write(csv->out.path, csv->out.path, err);
}

/* Makes room for `bytes` bytes in csv->waiting, at most WU_CELL_MAX. */
static inline void reserve(wu_csv *csv, size_t bytes)
{
    assert(bytes <= WU_CELL_MAX);
    if (sizeof csv->waiting - csv->n < bytes)
        flush(csv);
}

static inline void put_char(wu_csv *csv, char c)
{
    reserve(csv, 1);
    csv->waiting[csv->n++] = c;
}

static void put_bytes(wu_csv *csv, const char *text, size_t n)
{
    for (size_t part; n > 0; text += part, n -= part) {
        part = n < WU_CELL_MAX ? n : WU_CELL_MAX;
        reserve(csv, part);
        memcpy(csv->waiting + csv->n, text, part);
        csv->n += part;
    }
}

tc_status wu_csv_close(wu_csv *csv, tc_status status, tc_err *err)
{
    if (csv->out.file != NULL)
        flush(csv);
    if (status == TC_OK && csv->error != 0)
        status = fail_write(csv, err);
    return wu_new_file_close(&csv->out, status, err);
}

static void begin_cell(wu_csv *csv)
{
    if (csv->line_begun)
        put_char(csv, ',');
    csv->line_begun = true;
}

/* Whether spreadsheet programs treat this text as a formula, because of its first character. In
 * some languages these programs also accept the full-width forms of the signs =, +, - and @. */
static bool begins_formula(const char *text)
{
    uint32_t c = 0;
    text += strspn(text, " \"");
    if (*text != '\0')
        (void)tc_decode_utf8(text, &c);
    return c == '=' || c == '+' || c == '-' || c == '@' || c == 0xff1d || c == 0xff0b ||
           c == 0xff0d || c == 0xff20; /* the full-width =, +, - and @ */
}

/* Writes the text of a cell. Puts an apostrophe before a formula, so that it is not computed. A
 * formula may be at the beginning, or after a character that some program accepts as a separator of
 * cells. Control characters except separators become '?'. */
static void put_text(wu_csv *csv, const char *text)
{
    static const char separators[] = ",;|\t\r\n",
                      plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./";
    const size_t n_plain = strspn(text, plain);
    bool begins = n_plain == 0; /* a cell may begin here */
    put_bytes(csv, text, n_plain);
    text += n_plain;
    while (*text != '\0') {
        uint32_t c = 0;
        const size_t n = tc_decode_utf8(text, &c);
        if (begins && begins_formula(text))
            put_char(csv, '\'');
        begins = strchr(separators, *text) != NULL;
        if (*text == '"')
            put_char(csv, '"');
        if (n > 0 && ((c < ' ' && !begins) || (c >= 0x7f && c < 0xa0)))
            put_char(csv, '?');
        else
            put_bytes(csv, text, n > 0 ? n : 1);
        text += n > 0 ? n : 1;
    }
}

void wu_csv_put_cell(wu_csv *csv, const char *text)
{
    assert(csv->out.file != NULL);
    const bool quoted = text[strcspn(text, ",;|\t\"\r\n")] != '\0';
    begin_cell(csv);
    if (quoted)
        put_char(csv, '"');
    put_text(csv, text);
    if (quoted)
        put_char(csv, '"');
}

void wu_csv_put_value(wu_csv *csv, const wu_array_info *info, const void *data)
{
    if (info->dtype == WU_STR) {
        char text[WU_CELL_MAX];
        wu_value_text(info, data, text);
        wu_csv_put_cell(csv, text);
        return;
    }
    begin_cell(csv);
    reserve(csv, WU_CELL_MAX);
    wu_value_text(info, data, csv->waiting + csv->n);
    csv->n += strlen(csv->waiting + csv->n);
}

tc_status wu_csv_end_line(wu_csv *csv, tc_err *err)
{
    csv->line_begun = false;
    put_char(csv, '\n');
    return csv->error == 0 ? TC_OK : fail_write(csv, err);
}
