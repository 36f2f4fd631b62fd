/* The tables of a report: how the values of each column are spread, and rows to look at. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "workunits/tools/report.h"

enum {
    MAX_ROWS = 1000, MAX_COLUMNS = 40, /* on the page; the CSV files have all */
    MAX_HISTOGRAMS = 24, LEAST_ROWS = 8,   /* fewer are read faster than a histogram */
    BINS = 24
};

/* The finite values of a column. */
typedef struct spread {
    uint64_t n;
    double least, most, sum;
    uint64_t bins[BINS];
} spread;

static size_t shown_columns(const wu_table *table)
{
    return table->n_columns < MAX_COLUMNS ? table->n_columns : MAX_COLUMNS;
}

static size_t shown_histograms(const wu_table *table)
{
    return table->n_columns < MAX_HISTOGRAMS ? table->n_columns : MAX_HISTOGRAMS;
}

static const wu_declared *declared_of(const wu_table *table, size_t column)
{
    return table->arrays[table->columns[column].array].declared;
}

/* --- histograms ------------------------------------------------------------------------------ */

static void look(spread *s, double value, bool binned)
{
    if (!isfinite(value))
        return;
    if (binned) {
        const size_t bin = (size_t)((value - s->least) / (s->most - s->least) * BINS);
        s->bins[bin < BINS ? bin : BINS - 1]++;
        return;
    }
    s->least = s->n == 0 || value < s->least ? value : s->least;
    s->most = s->n == 0 || value > s->most ? value : s->most;
    s->sum += value;
    s->n++;
}

/* Goes through the table once: for the range of each column, or, binned, for how its values
 * are spread over the range. */
static tc_status look_through(const wu_report *r, const wu_table *table, spread *spreads, bool binned, tc_err *err)
{
    wu_cursor cursor;
    bool more = true;
    tc_status status = wu_cursor_open(r->file, table, &cursor, err);
    while (status == TC_OK) {
        status = wu_cursor_next(&cursor, &more, err);
        if (status != TC_OK || !more)
            break;
        for (size_t c = 0; c < shown_histograms(table); c++) {
            const wu_array_info *info;
            const void *const value = wu_cursor_value(&cursor, c, &info);
            look(&spreads[c], wu_value_number(info, value), binned);
        }
    }
    wu_cursor_close(&cursor);
    return status;
}

static void put_title(wu_page *page, const wu_table *table, size_t column)
{
    char title[WU_TITLE_MAX];
    wu_column_title(table, column, title);
    wu_page_text(page, title);
    if (declared_of(table, column)->unit != NULL && !table->columns[column].in_um) {
        wu_page_put(page, " <small>");
        wu_page_text(page, declared_of(table, column)->unit);
        wu_page_put(page, "</small>");
    }
}

static void put_histogram(wu_page *page, const wu_table *table, size_t column, const spread *s)
{
    uint64_t most = 1;
    for (size_t b = 0; b < BINS; b++)
        most = s->bins[b] > most ? s->bins[b] : most;
    wu_page_put(page, "<figure class=hist><figcaption>");
    put_title(page, table, column);
    wu_page_put(page, "</figcaption><svg viewBox=\"0 0 %d 40\" preserveAspectRatio=none role=img aria-label=histogram>",
                BINS * 10);
    for (size_t b = 0; b < BINS; b++) {
        const double height = 39.0 * (double)s->bins[b] / (double)most;
        if (s->bins[b] > 0)
            wu_page_put(page, "<rect x=\"%zu\" y=\"%.1f\" width=\"9\" height=\"%.1f\"><title>%" PRIu64 "</title></rect>", b * 10,
                        39 - height, height + 1, s->bins[b]);
    }
    wu_page_put(page, "</svg><div class=ends><span>%.3g</span><span>mean %.3g</span><span>%.3g</span></div></figure>\n",
                s->least, s->sum / (double)s->n, s->most);
}

static tc_status put_histograms(wu_report *r, const wu_table *table, tc_err *err)
{
    spread *const spreads = calloc(MAX_HISTOGRAMS, sizeof *spreads);
    tc_status status = spreads == NULL ? tc_no_memory(err, r->page->path) : look_through(r, table, spreads, false, err);
    if (status == TC_OK)
        status = look_through(r, table, spreads, true, err);
    wu_page_put(r->page, "<div class=hists>\n");
    for (size_t c = 0; status == TC_OK && c < shown_histograms(table); c++)
        if (declared_of(table, c)->role == WU_VALUE && spreads[c].n > 2 && spreads[c].most > spreads[c].least)
            put_histogram(r->page, table, c, &spreads[c]);
    wu_page_put(r->page, "</div>\n");
    free(spreads);
    return status;
}

/* --- rows ------------------------------------------------------------------------------------- */

void wu_report_head(wu_report *r, const wu_table *table, bool variants)
{
    wu_page_put(r->page, variants ? "<thead><tr><th>variant</th><th>item</th>" : "<thead><tr><th>item</th>");
    if (r->file->item_sources != NULL)
        wu_page_put(r->page, "<th>source</th>");
    for (size_t c = 0; c < shown_columns(table); c++) {
        wu_page_put(r->page, "<th>");
        put_title(r->page, table, c);
        wu_page_put(r->page, "</th>");
    }
    wu_page_put(r->page, "</tr></thead>\n");
}

/* A number as people read it; data-v has it whole, for who sorts. */
static void put_cell(wu_page *page, const wu_array_info *info, const void *data)
{
    char text[WU_CELL_MAX];
    wu_value_text(info, data, text);
    if (info->dtype == WU_STR) {
        wu_page_put(page, "<td>");
        wu_page_text(page, text);
    } else if (info->dtype == WU_F32 || info->dtype == WU_F64) {
        wu_page_put(page, "<td class=n data-v=\"%s\">%.6g", text, wu_value_number(info, data));
    } else {
        wu_page_put(page, "<td class=n>%s", text);
    }
    wu_page_put(page, "</td>");
}

/* The row's number in pictures: its key, or which row of the table it is. */
static void put_row_start(wu_page *page, wu_cursor *cursor)
{
    char key[WU_CELL_MAX];
    snprintf(key, sizeof key, "%" PRIu64, cursor->row + 1);
    for (size_t c = 0; c < cursor->table->n_columns; c++)
        if (declared_of(cursor->table, c)->role == WU_KEY)
            wu_cursor_text(cursor, c, key);
    wu_page_put(page, "<tr data-i=%zu data-k=\"", cursor->item);
    wu_page_text(page, key);
    wu_page_put(page, "\">");
}

static void put_row(wu_report *r, wu_cursor *cursor, const char *variant)
{
    const bool pictured = cursor->item < r->n_items;
    put_row_start(r->page, cursor);
    if (variant != NULL) {
        wu_page_put(r->page, "<td>");
        wu_page_text(r->page, variant);
        wu_page_put(r->page, "</td>");
    }
    wu_page_put(r->page, pictured ? "<td><a href=\"#i%zu\">" : "<td>", cursor->item);
    wu_page_text(r->page, r->file->item_names[cursor->item]);
    wu_page_put(r->page, pictured ? "</a></td>" : "</td>");
    if (r->file->item_sources != NULL) {
        wu_page_put(r->page, "<td>");
        wu_page_text(r->page, r->file->item_sources[cursor->item]);
        wu_page_put(r->page, "</td>");
    }
    for (size_t c = 0; c < shown_columns(cursor->table); c++) {
        const wu_array_info *info;
        const void *const value = wu_cursor_value(cursor, c, &info);
        put_cell(r->page, info, value);
    }
    wu_page_put(r->page, "</tr>\n");
}

tc_status wu_report_rows(wu_report *r, const wu_table *table, const char *variant, tc_err *err)
{
    wu_cursor cursor;
    bool more = true;
    tc_status status = wu_cursor_open(r->file, table, &cursor, err);
    for (uint64_t i = 0; status == TC_OK && i < MAX_ROWS; i++) {
        status = wu_cursor_next(&cursor, &more, err);
        if (status != TC_OK || !more)
            break;
        put_row(r, &cursor, variant);
    }
    wu_cursor_close(&cursor);
    return status;
}

tc_status wu_report_table(wu_report *r, const wu_table *table, tc_err *err)
{
    wu_page *const page = r->page;
    tc_status status = TC_OK;
    wu_page_put(page, "<section class=table>\n<h2>");
    wu_page_text(page, table->name);
    wu_page_put(page, " <small>%" PRIu64 " row%s</small></h2>\n", table->rows, table->rows == 1 ? "" : "s");
    if (table->rows >= LEAST_ROWS)
        status = put_histograms(r, table, err);
    if (table->rows > MAX_ROWS || table->n_columns > MAX_COLUMNS) {
        wu_page_put(page, "<p class=note>%d rows and %d columns at most are shown here; texcell-wu export writes all "
                          "%zu columns of all rows as ", MAX_ROWS, MAX_COLUMNS, table->n_columns);
        wu_page_text(page, table->name);
        wu_page_put(page, ".csv.</p>\n");
    }
    wu_page_put(page, "<div class=scroll><table data-t=%zu>\n", (size_t)(table - r->tables->tables));
    wu_report_head(r, table, false);
    wu_page_put(page, "<tbody>\n");
    if (status == TC_OK)
        status = wu_report_rows(r, table, NULL, err);
    wu_page_put(page, "</tbody></table></div>\n</section>\n");
    return status;
}
