/* The tables of a report: how the values of each column are spread, and rows to look at. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "workunits/tools/report.h"

enum {
    MAX_ROWS = 1000,
    MAX_COLUMNS = 40, /* on the page; the CSV files have all */
    MAX_HISTOGRAMS = 24,
    LEAST_ROWS = 8 /* fewer are read faster than a histogram */
};

static size_t shown_columns(const wu_table *table)
{
    return table->n_columns < MAX_COLUMNS ? table->n_columns : MAX_COLUMNS;
}

static const wu_declared *declared_of(const wu_table *table, size_t column)
{
    return table->arrays[table->columns[column].array].declared;
}

/* Where something lies in its picture: how that is spread says little. */
static bool is_coordinate(const wu_declared *d, size_t element)
{
    static const char *const words[] = { "z", "y", "x", "z0", "y0", "x0", "z1", "y1", "x1" };
    if (d->n_axes != 1 || d->axes[0].words == NULL || element >= d->axes[0].n)
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(d->axes[0].words[element], words[i]) == 0)
            return true;
    return false;
}

/* The same value in micrometres has a column of its own. */
static bool has_um(const wu_table *table, const wu_column *column)
{
    for (size_t c = 0; c < table->n_columns; c++)
        if (table->columns[c].in_um && table->columns[c].array == column->array &&
            table->columns[c].element == column->element)
            return true;
    return false;
}

/* The columns whose values are spread in a way that people look at; how many. */
static size_t choose_histograms(const wu_table *table, size_t chosen[MAX_HISTOGRAMS])
{
    size_t n = 0;
    for (size_t c = 0; c < table->n_columns && n < MAX_HISTOGRAMS; c++) {
        const wu_column *const column = &table->columns[c];
        const wu_declared *const d = declared_of(table, c);
        if (d->role == WU_VALUE && table->arrays[column->array].info->dtype != WU_BOOL &&
            !is_coordinate(d, column->element) && (column->in_um || !has_um(table, column)))
            chosen[n++] = c;
    }
    return n;
}

/* --- histograms ------------------------------------------------------------------------------ */

/* Goes through the table once: for the range of each column, or, binned, for how its values
 * are spread over the range. */
static tc_status look_through(const wu_report *r, const wu_table *table, const size_t *chosen,
                              size_t n, wu_spread *spreads, bool binned, tc_err *err)
{
    wu_cursor cursor;
    bool more = true;
    tc_status status = wu_cursor_open(r->file, table, &cursor, err);
    while (status == TC_OK) {
        status = wu_cursor_next(&cursor, &more, err);
        if (status != TC_OK || !more)
            break;
        for (size_t i = 0; i < n; i++) {
            const wu_array_info *info;
            const void *const value = wu_cursor_value(&cursor, chosen[i], &info);
            wu_spread_look(&spreads[i], wu_value_number(info, value), binned);
        }
    }
    wu_cursor_close(&cursor);
    return status;
}

/* "pixel^2" and "um^3" as people write them. */
static void put_unit(wu_page *page, const char *unit)
{
    char out[64] = "";
    for (size_t n = 0; *unit != '\0' && n + 4 < sizeof out; n = strlen(out)) {
        const bool micro = strncmp(unit, "um", 2) == 0,
                   power = unit[0] == '^' && (unit[1] == '2' || unit[1] == '3');
        snprintf(out + n, sizeof out - n, "%s",
                 micro   ? "\xc2\xb5m"
                 : power ? unit[1] == '2' ? "\xc2\xb2" : "\xc2\xb3"
                         : (const char[]){ unit[0], '\0' });
        unit += micro || power ? 2 : 1;
    }
    wu_page_put(page, " <small>");
    wu_page_text(page, out);
    wu_page_put(page, "</small>");
}

static void put_title(wu_page *page, const wu_table *table, size_t column)
{
    char title[WU_TITLE_MAX], plain[WU_TITLE_MAX];
    const bool in_um = table->columns[column].in_um;
    const char *const unit = declared_of(table, column)->unit;
    wu_column_title(table, column, title);
    wu_title(declared_of(table, column), table->columns[column].element, 0, plain);
    wu_page_text(page, plain);
    if (in_um)
        put_unit(page, strcmp(title + strlen(plain), "_um2") == 0 ? "um^2" : "um");
    else if (unit != NULL)
        put_unit(page, unit);
}

static void put_histogram(wu_page *page, const wu_table *table, size_t column, const wu_spread *s)
{
    wu_page_put(page, "<figure class=hist><figcaption>");
    put_title(page, table, column);
    wu_page_put(page, "</figcaption>");
    wu_page_histogram(page, s);
    wu_page_put(page, "</figure>\n");
}

static tc_status put_histograms(wu_report *r, const wu_table *table, tc_err *err)
{
    size_t chosen[MAX_HISTOGRAMS];
    const size_t n = choose_histograms(table, chosen);
    wu_spread *const spreads = calloc(MAX_HISTOGRAMS, sizeof *spreads);
    tc_status status = spreads == NULL ? tc_no_memory(err, r->page->path)
                                       : look_through(r, table, chosen, n, spreads, false, err);
    if (status == TC_OK)
        status = look_through(r, table, chosen, n, spreads, true, err);
    wu_page_put(r->page, "<div class=hists>\n");
    for (size_t i = 0; status == TC_OK && i < n; i++)
        if (spreads[i].n > 2 && spreads[i].most > spreads[i].least)
            put_histogram(r->page, table, chosen[i], &spreads[i]);
    wu_page_put(r->page, "</div>\n");
    free(spreads);
    return status;
}

/* --- rows ------------------------------------------------------------------------------------ */

void wu_report_head(wu_report *r, const wu_table *table, bool variants)
{
    wu_page_put(r->page,
                variants ? "<thead><tr><th>variant</th><th>item</th>" : "<thead><tr><th>item</th>");
    if (r->file->item_sources != NULL)
        wu_page_put(r->page, "<th>source</th>");
    for (size_t c = 0; c < shown_columns(table); c++) {
        wu_page_put(r->page, wu_column_dtype(table, c) == WU_STR ? "<th>" : "<th class=n>");
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
    } else if (info->dtype == WU_BOOL) {
        wu_page_put(page, "<td class=n data-v=%s>%s", text, text[0] == '1' ? "yes" : "no");
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
    wu_page_put(page, " <small>%" PRIu64 " row%s</small></h2>\n", table->rows,
                table->rows == 1 ? "" : "s");
    if (table->rows >= LEAST_ROWS)
        status = put_histograms(r, table, err);
    if (table->rows > MAX_ROWS || table->n_columns > MAX_COLUMNS) {
        wu_page_put(page,
                    "<p class=note>%d rows and %d columns at most are shown here; texcell-wu "
                    "export writes all "
                    "%zu columns of all rows as ",
                    MAX_ROWS, MAX_COLUMNS, table->n_columns);
        wu_page_text(page, table->name);
        wu_page_put(page, ".csv.</p>\n");
    }
    wu_page_put(page, "<div class=scroll><table data-t=%zu>\n",
                (size_t)(table - r->tables->tables));
    wu_report_head(r, table, false);
    wu_page_put(page, "<tbody>\n");
    if (status == TC_OK)
        status = wu_report_rows(r, table, NULL, err);
    wu_page_put(page, "</tbody></table></div>\n</section>\n");
    return status;
}
