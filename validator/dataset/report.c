/*
 * Writes the data set as an HTML page: progress, refused results with their reasons, the newest
 * items, and histograms. The page is one file, so that a cron job can publish it. It is safe to
 * publish: the data set has no information about hosts and users, put_without_folders removes the
 * paths of the server's folders from messages, and names are escaped for HTML.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/os.h"
#include "validator/dataset/dataset.h"
#include "workunits/format/csv.h"
#include "workunits/format/page.h"

enum {
    MAX_REFUSED = 100,   /* greatest number of rows of the table of refused results */
    MAX_DAYS = 60,       /* greatest number of bars in the chart of units a day */
    MAX_ROWS = 100000,   /* greatest number of rows of a table from which histograms are made */
    MAX_HISTOGRAMS = 24, /* greatest number of histograms of a table */
    MAX_COLUMNS = 4 * MAX_HISTOGRAMS, /* only the first MAX_COLUMNS columns of a table are read;
                                         some of them get no histogram */
    MIN_ROWS = 8,                     /* a table with fewer rows gets no histograms */
    MAX_ITEMS = 24,                   /* number of newest items that are shown */
    PICTURE_SIDE = 160 /* approximate length of the longer side of an item's picture, in pixels */
};

/* The state of writing the page. */
typedef struct report_writer {
    const val_dataset *ds;
    const char *store; /* the folder of kept results */
    wu_page page;
} report_writer;

/* --- text ------------------------------------------------------------------------------------ */

/* Writes text without the server's folders: each word that contains a slash is shortened to the
 * part after its last slash. A word that ends with a slash is written as it is. */
static void put_without_folders(report_writer *r, const char *text)
{
    char word[512];
    while (text != NULL && *text != '\0') {
        const size_t n = strcspn(text, " \t\n"), keep = n < sizeof word ? n : sizeof word - 1;
        memcpy(word, text, keep);
        word[keep] = '\0';
        const char *const slash = strrchr(word, '/');
        wu_page_text(&r->page, slash != NULL && slash[1] != '\0' ? slash + 1 : word);
        text += n;
        if (*text != '\0')
            wu_page_printf(&r->page, " ");
        text += *text != '\0';
    }
}

/* Returns a column's text, or "" for NULL. */
static const char *column_text(sqlite3_stmt *row, int column)
{
    const char *const text = (const char *)sqlite3_column_text(row, column);
    return text != NULL ? text : "";
}

/* Writes the rows of a query as an HTML table, with the names of its columns as titles.
 * path_columns: if bit i is set, column i is written by put_without_folders. */
static tc_status put_query(report_writer *r, unsigned path_columns, const char *query, tc_err *err)
{
    wu_page *const page = &r->page;
    TC_AUTO(val_sql_close) sqlite3_stmt *stmt = NULL;
    tc_status status = val_sql_prepare(r->ds, &stmt, err, "%s", query);
    return_if_error(status);
    wu_page_printf(page, "<div class=scroll><table><thead><tr>");
    for (int i = 0; i < sqlite3_column_count(stmt); i++)
        wu_page_printf(page, "<th>%s</th>", sqlite3_column_name(stmt, i));
    wu_page_printf(page, "</tr></thead><tbody>\n");
    while (val_sql_next(r->ds, stmt, &status, err)) {
        wu_page_printf(page, "<tr>");
        for (int i = 0; i < sqlite3_column_count(stmt); i++) {
            wu_page_printf(page, sqlite3_column_type(stmt, i) == SQLITE_INTEGER ? "<td class=n>"
                                                                                : "<td>");
            if ((path_columns >> i & 1) != 0)
                put_without_folders(r, column_text(stmt, i));
            else
                wu_page_text(page, column_text(stmt, i));
            wu_page_printf(page, "</td>");
        }
        wu_page_printf(page, "</tr>\n");
    }
    wu_page_printf(page, "</tbody></table></div>\n");
    return status;
}

/* Sets *out to the integer that a query returns. */
static tc_status get_number(const report_writer *r, const char *query, int64_t *out, tc_err *err)
{
    TC_AUTO(val_sql_close) sqlite3_stmt *stmt = NULL;
    tc_status status = val_sql_prepare(r->ds, &stmt, err, "%s", query);
    (void)val_sql_next(r->ds, stmt, &status, err);
    if (status == TC_OK)
        *out = sqlite3_column_int64(stmt, 0);
    return status;
}

/* --- progress -------------------------------------------------------------------------------- */

/* Writes the head of the page: the numbers of units, items, refused results and failed units. */
static tc_status put_head(report_writer *r, tc_err *err)
{
    static const char *const counts[][2] = {
        { "units", "SELECT count(*) FROM units" },
        { "items", "SELECT count(*) FROM items" },
        { "refused", "SELECT count(*) FROM refused" },
        { "failed", "SELECT count(*) FROM failed" },
    };
    wu_page_printf(&r->page, "<header><h1>Data set</h1>\n<p class=headline>");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        int64_t n = 0;
        return_if_error(get_number(r, counts[i][1], &n, err));
        wu_page_printf(&r->page, "<span><strong>%" PRId64 "</strong> %s</span>", n, counts[i][0]);
    }
    wu_page_printf(&r->page, "</p>\n<p class=note>As of %s</p></header>\n<main>\n",
                   val_current_time().text);
    return TC_OK;
}

/* Draws a bar chart with the number of units of each of the last MAX_DAYS days on which units were
 * stored. */
static tc_status put_days(report_writer *r, tc_err *err)
{
    TC_AUTO(val_sql_close) sqlite3_stmt *stmt = NULL;
    int64_t most = 1; /* the greatest number of units of a day */
    return_if_error(get_number(r,
                               "SELECT coalesce(max(n), 1) FROM (SELECT count(*) AS n FROM units "
                               "GROUP BY substr(stored, 1, 10))",
                               &most, err));
    tc_status status = val_sql_prepare(
        r->ds, &stmt, err,
        "SELECT * FROM (SELECT substr(stored, 1, 10) AS day, count(*) FROM units GROUP BY day "
        "ORDER BY day DESC LIMIT %d) ORDER BY day",
        MAX_DAYS);
    return_if_error(status);
    wu_page_printf(
        &r->page,
        "<p class=note>Units a day, on the last %d days with units</p>\n<figure class=curve>"
        "<svg viewBox=\"0 0 %d 100\" preserveAspectRatio=none role=img aria-label=days>",
        MAX_DAYS, MAX_DAYS * 10);
    for (int x = 0; val_sql_next(r->ds, stmt, &status, err); x += 10) {
        /* The highest bar has 98 % of the chart's height. */
        const double height = 98.0 * (double)sqlite3_column_int64(stmt, 1) / (double)most;
        wu_page_printf(&r->page, "<rect x=\"%d\" y=\"%.1f\" width=\"9\" height=\"%.1f\"><title>", x,
                       100 - height, height);
        wu_page_text(&r->page, column_text(stmt, 0));
        wu_page_printf(&r->page, ": %" PRId64 "</title></rect>",
                       (int64_t)sqlite3_column_int64(stmt, 1));
    }
    wu_page_printf(&r->page, "</svg></figure>\n");
    return status;
}

/* Writes the numbers of units of each analysis, the chart of days, and the refused and failed
 * units. */
static tc_status put_progress(report_writer *r, tc_err *err)
{
    wu_page_printf(&r->page, "<section>\n<h2>Progress</h2>\n");
    return_if_error(put_query(r, 0,
                              "SELECT analysis, count(*) AS units, sum(n_items) AS items, "
                              "min(stored) AS first, max(stored) AS last "
                              "FROM units GROUP BY analysis ORDER BY analysis",
                              err));
    return_if_error(put_days(r, err));
    /* The note is about the table below it, which has at most MAX_REFUSED rows, newest first. */
    wu_page_printf(&r->page,
                   "</section>\n<section>\n<h2>Refused and failed</h2>\n<p class=note>The last %d. "
                   "The files of refused results are kept.</p>\n",
                   MAX_REFUSED);
    return_if_error(
        put_query(r, 1u << 2, /* column 2, the reason, may contain paths */
                  "SELECT kind, name AS unit, reason, stored FROM refused UNION ALL SELECT "
                  "'failed', name, reasons, stored FROM failed "
                  "ORDER BY stored DESC LIMIT 100",
                  err));
    wu_page_printf(&r->page, "</section>\n");
    return TC_OK;
}

/* --- histograms ------------------------------------------------------------------------------- */

/* Whether a column gets a histogram. Coordinates and the columns that number rows, items or objects
 * get none, as their distributions say little. */
static bool has_histogram(const char *column)
{
    static const char *const ends[] = { "x", "y", "z", "x0", "y0", "z0", "x1", "y1", "z1" };
    const size_t length = strlen(column),
                 n = length > 3 && strcmp(column + length - 3, "_um") == 0 ? length - 3 : length;
    if (strcmp(column, "item") == 0 || strcmp(column, "n") == 0 || strcmp(column, "label") == 0)
        return false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t m = strlen(ends[i]);
        /* The column is a coordinate, or its name ends with "_" and a coordinate. */
        if (n >= m && strncmp(column + n - m, ends[i], m) == 0 &&
            (n == m || column[n - m - 1] == '_'))
            return false;
    }
    return true;
}

/* Reads all rows, and adds the numbers in column i to histograms[i]. All rows must be read twice:
 * first with `binned` false, to find the range of each column, then with `binned` true, to count
 * the values in the bins. */
static tc_status scan_rows(const report_writer *r, sqlite3_stmt *rows, wu_histogram *histograms,
                           bool binned, tc_err *err)
{
    tc_status status = TC_OK;
    sqlite3_reset(rows);
    while (val_sql_next(r->ds, rows, &status, err))
        for (int i = 0; i < sqlite3_column_count(rows) && i < MAX_COLUMNS; i++)
            if (sqlite3_column_type(rows, i) == SQLITE_INTEGER ||
                sqlite3_column_type(rows, i) == SQLITE_FLOAT)
                wu_histogram_add(&histograms[i], sqlite3_column_double(rows, i), binned);
    return status;
}

/* Draws the histograms of a table. group: says which rows of the table `rows` has, in the form
 * ", KEY VALUE"; it is printed after "Of N rows". "": `rows` has rows of all kinds. */
static tc_status put_histograms(report_writer *r, const char *table, sqlite3_stmt *rows,
                                const char *group, tc_err *err)
{
    TC_AUTOFREE wu_histogram *const histograms = calloc(MAX_COLUMNS, sizeof *histograms);
    int n_drawn = 0;
    uint64_t n = 0;
    if (histograms == NULL)
        return tc_no_memory(err, table);
    return_if_error(scan_rows(r, rows, histograms, false /* ranges */, err));
    for (int i = 0; i < MAX_COLUMNS; i++)
        n = histograms[i].n > n ? histograms[i].n : n;
    if (n < MIN_ROWS)
        return TC_OK;
    return_if_error(scan_rows(r, rows, histograms, true /* histograms */, err));
    wu_page_printf(&r->page, "<h3>");
    wu_page_text(&r->page, table);
    wu_page_printf(&r->page, "</h3>\n<p class=note>Of %" PRIu64 " rows%s</p>\n<div class=hists>\n",
                   n, group);
    for (int i = 0; i < sqlite3_column_count(rows) && i < MAX_COLUMNS && n_drawn < MAX_HISTOGRAMS;
         i++) {
        if (histograms[i].n < 2 || histograms[i].most <= histograms[i].least ||
            !has_histogram(sqlite3_column_name(rows, i)))
            continue;
        n_drawn++;
        wu_page_printf(&r->page, "<figure class=hist><figcaption>");
        wu_page_text(&r->page, sqlite3_column_name(rows, i));
        wu_page_printf(&r->page, "</figcaption>");
        wu_page_histogram(&r->page, &histograms[i]);
        wu_page_printf(&r->page, "</figure>\n");
    }
    wu_page_printf(&r->page, "</div>\n");
    return TC_OK;
}

/* A table is "cut" (val_cut_axes) if it has several rows for each item: one row for each
 * combination of values of its key columns. The table NAME_groups lists these combinations. For a
 * cut table: sets `where` to an SQL condition that selects the rows of the first combination, and
 * `group` to text that names this combination. For other tables both become "". size: bytes of each
 * buffer. */
static tc_status select_first_group(const report_writer *r, const char *table, char *where,
                                    char *group, size_t size, tc_err *err)
{
    TC_AUTO(val_sql_close) sqlite3_stmt *stmt = NULL;
    where[0] = group[0] = '\0';
    tc_status status = val_sql_prepare(
        r->ds, &stmt, err,
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = %Q || '_groups'", table);
    if (!val_sql_next(r->ds, stmt, &status, err))
        return status;
    val_sql_close(&stmt);
    status = val_sql_prepare(r->ds, &stmt, err, "SELECT * FROM \"%w_groups\" LIMIT 1", table);
    if (!val_sql_next(r->ds, stmt, &status, err))
        return status;
    for (int i = 0; i < sqlite3_column_count(stmt); i++) {
        const char *const name = sqlite3_column_name(stmt, i);
        if (name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] != '\0')
            continue; /* such a name is not texcell's, and would have to be escaped */
        snprintf(where + strlen(where), size - strlen(where), "%s \"%s\" = %lld",
                 where[0] == '\0' ? " WHERE" : " AND", name,
                 (long long)sqlite3_column_int64(stmt, i));
        snprintf(group + strlen(group), size - strlen(group), ", %s %lld", name,
                 (long long)sqlite3_column_int64(stmt, i));
    }
    return TC_OK;
}

/* Draws the histograms of each table whose rows belong to items. */
static tc_status put_all_histograms(report_writer *r, tc_err *err)
{
    TC_AUTO(val_sql_close) sqlite3_stmt *names = NULL;
    tc_status status = val_sql_item_tables(r->ds, &names, err);
    wu_page_printf(&r->page, "<section>\n<h2>Histograms</h2>\n");
    while (val_sql_next(r->ds, names, &status, err)) {
        char where[300], group[300];
        TC_AUTO(val_sql_close) sqlite3_stmt *rows = NULL;
        const char *const name = column_text(names, 0);
        return_if_error(select_first_group(r, name, where, group, sizeof where, err));
        return_if_error(val_sql_prepare(r->ds, &rows, err, "SELECT * FROM \"%w\"%s LIMIT %d", name,
                                        where, MAX_ROWS));
        return_if_error(put_histograms(r, name, rows, group, err));
    }
    wu_page_printf(&r->page, "</section>\n");
    return status;
}

/* --- pictures of the newest items ------------------------------------------------------------- */

/* Sets rgb to the colour of a label; label 0, the background, is dark. */
static void colour_label(uint32_t label, uint8_t rgb[3])
{
    const uint32_t hash = label * 2654435761u; /* Knuth's multiplicative hash */
    for (int c = 0; c < 3; c++)
        /* bits of the hash, from 96 to 223, so that all labels are brighter than the background */
        rgb[c] = label == 0 ? 24 : (uint8_t)(96 + (hash >> (8 + 8 * c) & 127));
}

/* Draws nx pixels of a row of the array as RGB, from every step-th value. lo, hi: the values that
 * become black and white, if the array is a map. */
static void draw_row(const wu_declaration *d, const void *row, uint32_t nx, uint32_t step,
                     double lo, double hi, uint8_t *out)
{
    for (uint32_t x = 0; x < nx; x++) {
        const size_t index = (size_t)x * step;
        uint8_t *const rgb = out + 3 * (size_t)x;
        /* A mask is shown in two greys: 250 inside, 20 outside. */
        double grey = d->role == WU_MASK ? 230.0 * (((const uint8_t *)row)[index] != 0) + 20 : 0;
        if (d->role == WU_MAP) {
            const double value = (double)((const float *)row)[index];
            grey = isfinite(value) && hi > lo ? 255 * (value - lo) / (hi - lo) : 0;
        }
        rgb[0] = rgb[1] = rgb[2] = (uint8_t)grey;
        if (d->role == WU_LABELS)
            colour_label(((const uint32_t *)row)[index], rgb);
    }
}

/* Writes an array as a small picture; if it is a stack, its middle slice. */
static tc_status put_picture(report_writer *r, const wu_result_file *file, const wu_declaration *d,
                             size_t index, tc_err *err)
{
    const wu_array_info *const info = wu_npz_array_info(file->npz, index);
    const uint32_t nx = (uint32_t)info->shape[info->ndim - 1],
                   ny = (uint32_t)info->shape[info->ndim - 2];
    const uint64_t slice = info->ndim == 3 ? info->shape[0] / 2 : 0;
    /* Every step-th pixel is drawn; sx and sy are the width and height of the drawing. */
    const uint32_t step = 1 + (nx > ny ? nx : ny) / PICTURE_SIDE, sx = (nx + step - 1) / step,
                   sy = (ny + step - 1) / step;
    const size_t row_bytes = (size_t)nx * wu_dtype_size(info->dtype, info->width);
    TC_AUTOFREE uint8_t *const out = malloc((size_t)sx * sy * 3);
    TC_AUTOFREE char *data = NULL;
    double lo = INFINITY, hi = -INFINITY;
    return_if_error(out == NULL ? tc_no_memory(err, file->path)
                                : wu_npz_load_array(file->npz, index, (void **)&data, err));
    const char *const first = data == NULL ? NULL : data + slice * ny * row_bytes;
    for (size_t i = 0; d->role == WU_MAP && i < (size_t)nx * ny; i++) {
        const double value = (double)((const float *)(const void *)first)[i];
        lo = isfinite(value) ? fmin(lo, value) : lo;
        hi = isfinite(value) ? fmax(hi, value) : hi;
    }
    for (uint32_t y = 0; y < sy; y++)
        draw_row(d, first + (size_t)y * step * row_bytes, sx, step, lo, hi,
                 out + (size_t)y * sx * 3);
    wu_page_printf(&r->page,
                   "<figure class=thumb><svg viewBox=\"0 0 %u %u\"><image width=\"%u\" "
                   "height=\"%u\" href=\"",
                   sx, sy, sx, sy);
    return_if_error(wu_page_picture(&r->page, file->path, sx, sy, 3, out, err));
    wu_page_printf(&r->page, "\"/></svg></figure>");
    return TC_OK;
}

/* Writes an item's first picture from the kept result `file_name`. If this file cannot be read,
 * nothing is written, since somebody may have moved it. */
static tc_status put_item_picture(report_writer *r, const char *file_name, const char *item,
                                  tc_err *err)
{
    enum { MOST_BYTES = 1 << 28 }; /* larger arrays are not drawn */
    wu_result_file file = { 0 };
    tc_status status = TC_OK;
    char *const path = wu_join_path(r->store, file_name, "");
    if (path == NULL)
        return tc_no_memory(err, file_name);
    /* A name with a folder in it would lead out of the store. */
    const bool good = os_base_name(file_name) == file_name &&
                      wu_result_file_open(path, NULL, &file, NULL) == TC_OK;
    for (size_t i = 0; good && status == TC_OK && i < file.n_declared; i++) {
        size_t index;
        int ok = 1;
        if (!wu_is_picture(file.declared[i].role) ||
            wu_find_declared_array(&file, &file.declared[i], item, &index, NULL) != TC_OK)
            continue;
        if (wu_array_bytes(wu_npz_array_info(file.npz, index), &ok) <= MOST_BYTES && ok)
            status = put_picture(r, &file, &file.declared[i], index, err);
        break;
    }
    wu_result_file_close(&file);
    free(path);
    return status;
}

/* Writes the newest items, with a picture of each item whose result was kept. */
static tc_status put_newest(report_writer *r, tc_err *err)
{
    wu_page *const page = &r->page;
    TC_AUTO(val_sql_close) sqlite3_stmt *stmt = NULL;
    tc_status status = val_sql_prepare(r->ds, &stmt, err,
                                       "SELECT items.name, units.name, analysis, stored, kept FROM "
                                       "items JOIN units ON units.id = items.unit "
                                       "ORDER BY items.id DESC LIMIT %d",
                                       MAX_ITEMS);
    wu_page_printf(page, "<section>\n<h2>Newest items</h2>\n<div class=thumbs>\n");
    while (val_sql_next(r->ds, stmt, &status, err)) {
        wu_page_printf(page, "<div>");
        if (sqlite3_column_type(stmt, 4) == SQLITE_TEXT)
            status = put_item_picture(r, column_text(stmt, 4), column_text(stmt, 0), err);
        wu_page_printf(page, "<p>");
        wu_page_text(page, column_text(stmt, 0));
        wu_page_printf(page, "</p><p class=note>");
        wu_page_text(page, column_text(stmt, 2));
        wu_page_printf(page, ", ");
        put_without_folders(r, column_text(stmt, 1));
        wu_page_printf(page, ", ");
        wu_page_text(page, column_text(stmt, 3));
        wu_page_printf(page, "</p></div>\n");
    }
    wu_page_printf(page, "</div>\n</section>\n");
    return status;
}

/* --- the page --------------------------------------------------------------------------------- */

static tc_status put_page(report_writer *r, tc_err *err)
{
    return_if_error(put_head(r, err));
    return_if_error(put_progress(r, err));
    return_if_error(put_newest(r, err));
    return_if_error(put_all_histograms(r, err));
    wu_page_printf(&r->page, "</main>\n");
    return TC_OK;
}

tc_status val_report(const val_dataset *ds, const char *store, const char *output, tc_err *err)
{
    report_writer r = { .ds = ds, .store = store };
    tc_status status = wu_page_open(output, "Data set", &r.page, err);

    if (status == TC_OK)
        status = put_page(&r, err);
    return wu_page_close(&r.page, status, err);
}
