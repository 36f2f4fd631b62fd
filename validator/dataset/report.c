/*
 * Writes the data set as an HTML page: progress, what was refused and why, histograms of numbers,
 * and the newest items. The page needs no other file, so that it can be published by a cron job. It
 * shows nothing about hosts and users (the data set has nothing about them) and no folder of the
 * server, and names are escaped.
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
    MOST_REFUSED = 100, /* rows of the table of refused results */
    MOST_DAYS = 60,     /* bars of the chart of units a day */
    MOST_ROWS = 100000, /* rows of a table from which histograms are made */
    MOST_COLUMNS = 24,  /* histograms of a table; four times as many columns are read */
    LEAST_ROWS = 8,     /* a table with fewer rows gets no histograms */
    MOST_ITEMS = 24,    /* newest items */
    MOST_SIDE = 160     /* pixels of the longer side of an item's picture, about */
};

typedef struct reporting {
    const val_dataset *ds;
    const char *store; /* the folder of kept results */
    wu_page page;
} reporting;

/* --- text ------------------------------------------------------------------------------------ */

/* Writes text without the server's folders: of each word only the part after its last slash, unless
 * the word ends with that slash. */
static void put_plain(reporting *r, const char *text)
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
            wu_page_put(&r->page, " ");
        text += *text != '\0';
    }
}

static const char *text_of(sqlite3_stmt *row, int column)
{
    const char *const text = (const char *)sqlite3_column_text(row, column);
    return text != NULL ? text : "";
}

/* Writes the rows of a query as an HTML table, with the names of its columns as titles. plain: if
 * bit i is set, column i may contain paths of folders (put_plain). */
static tc_status put_query(reporting *r, unsigned plain, const char *query, tc_err *err)
{
    wu_page *const page = &r->page;
    TC_AUTO(val_sql_close) sqlite3_stmt *stmt = NULL;
    tc_status status = val_sql_prepare(r->ds, &stmt, err, "%s", query);
    return_if_error(status);
    wu_page_put(page, "<div class=scroll><table><thead><tr>");
    for (int i = 0; i < sqlite3_column_count(stmt); i++)
        wu_page_put(page, "<th>%s</th>", sqlite3_column_name(stmt, i));
    wu_page_put(page, "</tr></thead><tbody>\n");
    while (val_sql_next(r->ds, stmt, &status, err)) {
        wu_page_put(page, "<tr>");
        for (int i = 0; i < sqlite3_column_count(stmt); i++) {
            wu_page_put(page,
                        sqlite3_column_type(stmt, i) == SQLITE_INTEGER ? "<td class=n>" : "<td>");
            if ((plain >> i & 1) != 0)
                put_plain(r, text_of(stmt, i));
            else
                wu_page_text(page, text_of(stmt, i));
            wu_page_put(page, "</td>");
        }
        wu_page_put(page, "</tr>\n");
    }
    wu_page_put(page, "</tbody></table></div>\n");
    return status;
}

static tc_status get_number(const reporting *r, const char *query, int64_t *out, tc_err *err)
{
    TC_AUTO(val_sql_close) sqlite3_stmt *stmt = NULL;
    tc_status status = val_sql_prepare(r->ds, &stmt, err, "%s", query);
    (void)val_sql_next(r->ds, stmt, &status, err);
    if (status == TC_OK)
        *out = sqlite3_column_int64(stmt, 0);
    return status;
}

/* --- progress -------------------------------------------------------------------------------- */

static tc_status put_head(reporting *r, tc_err *err)
{
    static const char *const counted[][2] = {
        { "units", "SELECT count(*) FROM units" },
        { "items", "SELECT count(*) FROM items" },
        { "refused", "SELECT count(*) FROM refused" },
        { "given up", "SELECT count(*) FROM failed" },
    };
    wu_page_put(&r->page, "<header><h1>Data set</h1>\n<p class=headline>");
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
        int64_t n = 0;
        return_if_error(get_number(r, counted[i][1], &n, err));
        wu_page_put(&r->page, "<span><strong>%" PRId64 "</strong> %s</span>", n, counted[i][0]);
    }
    wu_page_put(&r->page, "</p>\n<p class=note>As of %s</p></header>\n<main>\n", val_now().text);
    return TC_OK;
}

/* Draws a bar for each of the last days on which units were stored. */
static tc_status put_days(reporting *r, tc_err *err)
{
    TC_AUTO(val_sql_close) sqlite3_stmt *stmt = NULL;
    int64_t most = 1;
    return_if_error(get_number(r,
                               "SELECT coalesce(max(n), 1) FROM (SELECT count(*) AS n FROM units "
                               "GROUP BY substr(stored, 1, 10))",
                               &most, err));
    tc_status status = val_sql_prepare(
        r->ds, &stmt, err,
        "SELECT * FROM (SELECT substr(stored, 1, 10) AS day, count(*) FROM units GROUP BY day "
        "ORDER BY day DESC LIMIT %d) ORDER BY day",
        MOST_DAYS);
    return_if_error(status);
    wu_page_put(&r->page,
                "<p class=note>Units a day, the last %d days that had any</p>\n<figure class=curve>"
                "<svg viewBox=\"0 0 %d 100\" preserveAspectRatio=none role=img aria-label=days>",
                MOST_DAYS, MOST_DAYS * 10);
    for (int x = 0; val_sql_next(r->ds, stmt, &status, err); x += 10) {
        const double height = 98.0 * (double)sqlite3_column_int64(stmt, 1) / (double)most;
        wu_page_put(&r->page, "<rect x=\"%d\" y=\"%.1f\" width=\"9\" height=\"%.1f\"><title>", x,
                    100 - height, height);
        wu_page_text(&r->page, text_of(stmt, 0));
        wu_page_put(&r->page, ": %" PRId64 "</title></rect>",
                    (int64_t)sqlite3_column_int64(stmt, 1));
    }
    wu_page_put(&r->page, "</svg></figure>\n");
    return status;
}

static tc_status put_progress(reporting *r, tc_err *err)
{
    wu_page_put(&r->page, "<section>\n<h2>Progress</h2>\n");
    return_if_error(put_query(r, 0,
                              "SELECT analysis, count(*) AS units, sum(n_items) AS items, "
                              "min(stored) AS first, max(stored) AS last "
                              "FROM units GROUP BY analysis ORDER BY analysis",
                              err));
    return_if_error(put_days(r, err));
    wu_page_put(&r->page,
                "</section>\n<section>\n<h2>Refused and given up</h2>\n<p class=note>The last %d. "
                "Of those refused the file is kept.</p>\n",
                MOST_REFUSED);
    return_if_error(
        put_query(r, 4,
                  "SELECT kind, name AS unit, reason, stored FROM refused UNION ALL SELECT "
                  "'given up', name, reasons, stored FROM failed "
                  "ORDER BY stored DESC LIMIT 100",
                  err));
    wu_page_put(&r->page, "</section>\n");
    return TC_OK;
}

/* --- histograms ------------------------------------------------------------------------------- */

/* Returns whether a column gets a histogram: not coordinates and numbers of rows, whose
 * distributions say little. */
static bool is_shown(const char *column)
{
    static const char *const ends[] = { "x", "y", "z", "x0", "y0", "z0", "x1", "y1", "z1" };
    const size_t all = strlen(column),
                 n = all > 3 && strcmp(column + all - 3, "_um") == 0 ? all - 3 : all;
    if (strcmp(column, "item") == 0 || strcmp(column, "n") == 0 || strcmp(column, "label") == 0)
        return false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t m = strlen(ends[i]);
        if (n >= m && strncmp(column + n - m, ends[i], m) == 0 &&
            (n == m || column[n - m - 1] == '_'))
            return false;
    }
    return true;
}

/* Reads all rows and passes the numbers of each column to wu_spread_look. binned: as there. */
static tc_status look_through(const reporting *r, sqlite3_stmt *rows, wu_spread *spreads,
                              bool binned, tc_err *err)
{
    tc_status status = TC_OK;
    sqlite3_reset(rows);
    while (val_sql_next(r->ds, rows, &status, err))
        for (int i = 0; i < sqlite3_column_count(rows) && i < MOST_COLUMNS * 4; i++)
            if (sqlite3_column_type(rows, i) == SQLITE_INTEGER ||
                sqlite3_column_type(rows, i) == SQLITE_FLOAT)
                wu_spread_look(&spreads[i], sqlite3_column_double(rows, i), binned);
    return status;
}

/* Draws the histograms of a table. of: what is added to the number of rows (which group). */
static tc_status put_spreads(reporting *r, const char *table, sqlite3_stmt *rows, const char *of,
                             tc_err *err)
{
    TC_AUTOFREE wu_spread *const spreads = calloc((size_t)MOST_COLUMNS * 4, sizeof *spreads);
    int shown = 0;
    uint64_t n = 0;
    if (spreads == NULL)
        return tc_no_memory(err, table);
    return_if_error(look_through(r, rows, spreads, false, err));
    for (int i = 0; i < MOST_COLUMNS * 4; i++)
        n = spreads[i].n > n ? spreads[i].n : n;
    if (n < LEAST_ROWS)
        return TC_OK;
    return_if_error(look_through(r, rows, spreads, true, err));
    wu_page_put(&r->page, "<h3>");
    wu_page_text(&r->page, table);
    wu_page_put(&r->page, "</h3>\n<p class=note>Of %" PRIu64 " rows%s</p>\n<div class=hists>\n", n,
                of);
    for (int i = 0; i < sqlite3_column_count(rows) && i < MOST_COLUMNS * 4 && shown < MOST_COLUMNS;
         i++) {
        if (spreads[i].n < 2 || spreads[i].most <= spreads[i].least ||
            !is_shown(sqlite3_column_name(rows, i)))
            continue;
        shown++;
        wu_page_put(&r->page, "<figure class=hist><figcaption>");
        wu_page_text(&r->page, sqlite3_column_name(rows, i));
        wu_page_put(&r->page, "</figcaption>");
        wu_page_histogram(&r->page, &spreads[i]);
        wu_page_put(&r->page, "</figure>\n");
    }
    wu_page_put(&r->page, "</div>\n");
    return TC_OK;
}

/* For a cut table: where is an SQL condition that selects the rows of its first group of keys, and
 * `said` names that group. For other tables both are empty. size: of both buffers. */
static tc_status first_group(const reporting *r, const char *table, char *where, char *said,
                             size_t size, tc_err *err)
{
    TC_AUTO(val_sql_close) sqlite3_stmt *stmt = NULL;
    where[0] = said[0] = '\0';
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
            continue;
        snprintf(where + strlen(where), size - strlen(where), "%s \"%s\" = %lld",
                 where[0] == '\0' ? " WHERE" : " AND", name,
                 (long long)sqlite3_column_int64(stmt, i));
        snprintf(said + strlen(said), size - strlen(said), ", %s %lld", name,
                 (long long)sqlite3_column_int64(stmt, i));
    }
    return TC_OK;
}

/* Draws the histograms of each table whose rows belong to items. */
static tc_status put_tables(reporting *r, tc_err *err)
{
    TC_AUTO(val_sql_close) sqlite3_stmt *names = NULL;
    tc_status status = val_sql_item_tables(r->ds, &names, err);
    wu_page_put(&r->page, "<section>\n<h2>How numbers are spread</h2>\n");
    while (val_sql_next(r->ds, names, &status, err)) {
        char where[300], said[300];
        TC_AUTO(val_sql_close) sqlite3_stmt *rows = NULL;
        const char *const name = text_of(names, 0);
        return_if_error(first_group(r, name, where, said, sizeof where, err));
        return_if_error(val_sql_prepare(r->ds, &rows, err, "SELECT * FROM \"%w\"%s LIMIT %d", name,
                                        where, MOST_ROWS));
        return_if_error(put_spreads(r, name, rows, said, err));
    }
    wu_page_put(&r->page, "</section>\n");
    return status;
}

/* --- pictures of the newest items ------------------------------------------------------------- */

/* Gives a label its colour; label 0, the background, is dark. */
static void colour_label(uint32_t label, uint8_t rgb[3])
{
    const uint32_t mixed = label * 2654435761u;
    for (int c = 0; c < 3; c++)
        rgb[c] = label == 0 ? 24 : (uint8_t)(96 + (mixed >> (8 + 8 * c) & 127));
}

/* Draws nx pixels of a row of the array as RGB, from every step-th value. lo, hi: the values of a
 * map that become black and white. */
static void draw_row(const wu_declared *d, const void *row, uint32_t nx, uint32_t step, double lo,
                     double hi, uint8_t *out)
{
    for (uint32_t x = 0; x < nx; x++) {
        const size_t at = (size_t)x * step;
        uint8_t *const rgb = out + 3 * (size_t)x;
        double grey = d->role == WU_MASK ? 230.0 * (((const uint8_t *)row)[at] != 0) + 20 : 0;
        if (d->role == WU_MAP) {
            const double value = (double)((const float *)row)[at];
            grey = isfinite(value) && hi > lo ? 255 * (value - lo) / (hi - lo) : 0;
        }
        rgb[0] = rgb[1] = rgb[2] = (uint8_t)grey;
        if (d->role == WU_LABELS)
            colour_label(((const uint32_t *)row)[at], rgb);
    }
}

/* Writes an array as a small picture; of a stack its middle slice. */
static tc_status put_picture(reporting *r, const wu_result_file *file, const wu_declared *d,
                             size_t index, tc_err *err)
{
    const wu_array_info *const info = wu_npz_info(file->npz, index);
    const uint32_t nx = (uint32_t)info->shape[info->ndim - 1],
                   ny = (uint32_t)info->shape[info->ndim - 2];
    const uint64_t slice = info->ndim == 3 ? info->shape[0] / 2 : 0;
    const uint32_t step = 1 + (nx > ny ? nx : ny) / MOST_SIDE, sx = (nx + step - 1) / step,
                   sy = (ny + step - 1) / step;
    const size_t row_bytes = (size_t)nx * wu_dtype_size(info->dtype, info->width);
    TC_AUTOFREE uint8_t *const out = malloc((size_t)sx * sy * 3);
    TC_AUTOFREE char *data = NULL;
    double lo = INFINITY, hi = -INFINITY;
    return_if_error(out == NULL ? tc_no_memory(err, file->path)
                                : wu_npz_load(file->npz, index, (void **)&data, err));
    const char *const first = data == NULL ? NULL : data + slice * ny * row_bytes;
    for (size_t i = 0; d->role == WU_MAP && i < (size_t)nx * ny; i++) {
        const double value = (double)((const float *)(const void *)first)[i];
        lo = isfinite(value) ? fmin(lo, value) : lo;
        hi = isfinite(value) ? fmax(hi, value) : hi;
    }
    for (uint32_t y = 0; y < sy; y++)
        draw_row(d, first + (size_t)y * step * row_bytes, sx, step, lo, hi,
                 out + (size_t)y * sx * 3);
    wu_page_put(&r->page,
                "<figure class=thumb><svg viewBox=\"0 0 %u %u\"><image width=\"%u\" "
                "height=\"%u\" href=\"",
                sx, sy, sx, sy);
    return_if_error(wu_page_picture(&r->page, file->path, sx, sy, 3, out, err));
    wu_page_put(&r->page, "\"/></svg></figure>");
    return TC_OK;
}

/* Writes the first picture of an item that a kept result has. A file that cannot be read is left
 * out, since files may have been moved. */
static tc_status put_kept(reporting *r, const char *kept, const char *item, tc_err *err)
{
    enum { MOST_BYTES = 1 << 28 };
    wu_result_file file = { 0 };
    tc_status status = TC_OK;
    char *const path = wu_path_in(r->store, kept, "");
    if (path == NULL)
        return tc_no_memory(err, kept);
    const bool good =
        os_last_part(kept) == kept && wu_result_file_open(path, NULL, &file, NULL) == TC_OK;
    for (size_t i = 0; good && status == TC_OK && i < file.n_declared; i++) {
        size_t index;
        int ok = 1;
        if (!wu_is_picture(file.declared[i].role) ||
            wu_find_declared(&file, &file.declared[i], item, &index, NULL) != TC_OK)
            continue;
        if (wu_array_bytes(wu_npz_info(file.npz, index), &ok) <= MOST_BYTES && ok)
            status = put_picture(r, &file, &file.declared[i], index, err);
        break;
    }
    wu_result_file_close(&file);
    free(path);
    return status;
}

static tc_status put_newest(reporting *r, tc_err *err)
{
    wu_page *const page = &r->page;
    TC_AUTO(val_sql_close) sqlite3_stmt *stmt = NULL;
    tc_status status = val_sql_prepare(r->ds, &stmt, err,
                                       "SELECT items.name, units.name, analysis, stored, kept FROM "
                                       "items JOIN units ON units.id = items.unit "
                                       "ORDER BY items.id DESC LIMIT %d",
                                       MOST_ITEMS);
    wu_page_put(page, "<section>\n<h2>Newest items</h2>\n<div class=thumbs>\n");
    while (val_sql_next(r->ds, stmt, &status, err)) {
        wu_page_put(page, "<div>");
        if (sqlite3_column_type(stmt, 4) == SQLITE_TEXT)
            status = put_kept(r, text_of(stmt, 4), text_of(stmt, 0), err);
        wu_page_put(page, "<p>");
        wu_page_text(page, text_of(stmt, 0));
        wu_page_put(page, "</p><p class=note>");
        wu_page_text(page, text_of(stmt, 2));
        wu_page_put(page, ", ");
        put_plain(r, text_of(stmt, 1));
        wu_page_put(page, ", ");
        wu_page_text(page, text_of(stmt, 3));
        wu_page_put(page, "</p></div>\n");
    }
    wu_page_put(page, "</div>\n</section>\n");
    return status;
}

/* --- the page --------------------------------------------------------------------------------- */

static tc_status put_page(reporting *r, tc_err *err)
{
    return_if_error(put_head(r, err));
    return_if_error(put_progress(r, err));
    return_if_error(put_newest(r, err));
    return_if_error(put_tables(r, err));
    wu_page_put(&r->page, "</main>\n");
    return TC_OK;
}

tc_status val_report(const val_dataset *ds, const char *store, const char *output, tc_err *err)
{
    reporting r = { .ds = ds, .store = store };
    tc_status status = wu_page_open(output, "Data set", &r.page, err);

    if (status == TC_OK)
        status = put_page(&r, err);
    return wu_page_close(&r.page, status, err);
}
