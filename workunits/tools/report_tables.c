/* Writes the tables of a report's page, and the values that its figures are drawn from. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "workunits/tools/report.h"

enum {
    MAX_ROWS = 1000,     /* the most rows of a table on the page; the CSV files have all rows */
    MAX_COLUMNS = 40,    /* the most columns of a table on the page */
    MAX_DRAWN = 100,     /* the most columns whose values are written for figures */
    MAX_VALUES = 500000, /* the most values of a table that are written for figures; of a larger
                            table, evenly spaced rows are written */
    LEAST_ROWS = 2,      /* tables with fewer rows have no figures: there is nothing to compare */
    RANKS = 3,           /* number of values of rank_of */
    ROW_RANKS = 4        /* number of values of table_rank_of */
};

/* The result's declaration of the array that the column belongs to. */
static const wu_declaration *declared_of(const wu_table *table, size_t column)
{
    return table->arrays[table->columns[column].array].declared;
}

/* Whether the column is a coordinate in the picture, whose distribution is of little interest. */
static bool is_coordinate(const wu_declaration *d, size_t element)
{
    static const char *const words[] = { "z", "y", "x", "z0", "y0", "x0", "z1", "y1", "x1" };
    /* axes[0].words: the names of the elements of a row, if the declaration gives names */
    if (d->n_axes != 1 || d->axes[0].words == NULL || element >= d->axes[0].n)
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(d->axes[0].words[element], words[i]) == 0)
            return true;
    return false;
}

/* Whether another column has the same values in micrometres. */
static bool has_um(const wu_table *table, const wu_column *column)
{
    for (size_t c = 0; c < table->n_columns; c++)
        if (table->columns[c].in_um && table->columns[c].array == column->array &&
            table->columns[c].element == column->element)
            return true;
    return false;
}

/* --- columns --------------------------------------------------------------------------------- */

/* Adds the values of all rows to spreads[0] to spreads[n - 1], one for each of the first n columns.
 * Of a wu_histogram, only the least value, the greatest value and the number of values are used. */
static tc_status add_to_spreads(const wu_report *r, const wu_table *table, size_t n,
                                wu_histogram *spreads, tc_err *err)
{
    TC_AUTO(wu_cursor_close) wu_cursor cursor;
    tc_status status = wu_cursor_open(r->file, table, &cursor, err);
    while (wu_cursor_next(&cursor, &status, err))
        for (size_t c = 0; c < n; c++)
            wu_histogram_add(&spreads[c], wu_cursor_number(&cursor, c), false /* no histogram */);
    return status;
}

/* Whether a column can be left out, because one of these applies: the column has no numbers; the
 * table has several rows, and the column has the same number in all of them; the table has one row,
 * with the number 0; the column has no meaning with these pictures or parameters. rows: number of
 * rows. s: least value, greatest value and number of values of the column. */
static bool is_uninformative(const wu_report *r, const wu_table *table, uint64_t rows,
                             size_t column, const wu_histogram *s)
{
    const char *const title = declared_of(table, column)->title;
    if (rows == 0 || wu_column_dtype(table, column) == WU_STR)
        return false;
    if (declared_of(table, column)->role == WU_KEY)
        return false;
    /* For an image, "measure" of the analysis levelset is a number of pixels, which another column
     * has, too. */
    if (title != NULL && strcmp(title, "measure") == 0 && !wu_report_has_stacks(r))
        return true;
    /* With the parameter "fill", the analysis volume does not use the threshold. */
    if (title != NULL && strcmp(title, "threshold") == 0 && wu_report_has_fill(r))
        return true;
    return s->n == 0 ||
           (s->n == rows && s->least == s->most &&
            (rows >= LEAST_ROWS || (s->most == 0 && wu_column_dtype(table, column) != WU_BOOL)));
}

/* Whether the values are less important than measurements: settings that the analysis chose from
 * the picture, the score of a point, or numbers of voxels (another column has the volume). */
static bool is_secondary(const wu_declaration *d)
{
    static const char *const titles[] = { "threshold", "window",       "min_area",
                                          "bright",    "radius",       "iterations_run",
                                          "voxels",    "voxel_volume", "score" };
    for (size_t i = 0; d->title != NULL && i < sizeof titles / sizeof *titles; i++)
        if (strcmp(d->title, titles[i]) == 0)
            return true;
    return false;
}

/* Returns the rank by which columns are sorted: 0 for measurements and the means of texture
 * features; 1 for other statistics of features, for values in pixels if another column has them in
 * micrometres, and for settings; 2 for positions and for columns that are not values. */
static int rank_of(const wu_table *table, size_t column)
{
    const wu_column *const c = &table->columns[column];
    const wu_declaration *const d = declared_of(table, column);
    const wu_axis *const last = d->n_axes > 0 ? &d->axes[d->n_axes - 1] : NULL;
    if (d->role != WU_VALUE || is_coordinate(d, c->element))
        return 2;
    if (is_secondary(d))
        return 1;
    if (last != NULL && last->words != NULL && last->n > 0 && strcmp(last->words[0], "mean") == 0 &&
        c->element % last->n != 0)
        return 1;
    return c->in_um || !has_um(table, c) ? 0 : 1;
}

tc_status wu_report_list_columns(const wu_report *r, const wu_table *table, size_t **out, size_t *n,
                                 tc_err *err)
{
    TC_AUTOFREE wu_histogram *const spreads = calloc(table->n_columns + 1, sizeof *spreads);
    size_t *const all = calloc(table->n_columns + 1, sizeof *all);
    *n = 0;
    *out = all;
    return_if_error(spreads == NULL || all == NULL
                        ? tc_no_memory(err, r->page->path)
                        : add_to_spreads(r, table, table->n_columns, spreads, err));
    for (int rank = 0; rank < RANKS; rank++)
        for (size_t c = 0; c < table->n_columns; c++)
            if (rank_of(table, c) == rank && wu_column_dtype(table, c) != WU_STR &&
                declared_of(table, c)->role != WU_KEY &&
                !is_uninformative(r, table, table->rows, c, &spreads[c]))
                all[(*n)++] = c;
    return TC_OK;
}

/* The rank by which the columns of a table on the page are sorted: 0 for texts and keys, which name
 * the row, and rank_of + 1 for the others. */
static int table_rank_of(const wu_table *table, size_t column)
{
    return wu_column_dtype(table, column) == WU_STR || declared_of(table, column)->role == WU_KEY
               ? 0
               : 1 + rank_of(table, column);
}

/* Chooses the columns of table t for the page. For one result they are sorted by table_rank_of; for
 * variants they stay in the table's order, and the first column is always chosen. Sets *out to the
 * indices of the *n columns, to be freed by free(), also after a failure. */
static tc_status choose_columns(const wu_report *reports, size_t n_variants, size_t t, size_t **out,
                                size_t *n, tc_err *err)
{
    const wu_table *const table = &reports[0].tables->tables[t];
    const bool variants = n_variants > 1;
    size_t n_columns = table->n_columns;
    uint64_t rows = 0;
    for (size_t k = 0; k < n_variants; k++) {
        const wu_table *const other = &reports[k].tables->tables[t];
        n_columns = other->n_columns < n_columns ? other->n_columns : n_columns;
        rows += other->rows;
    }
    TC_AUTOFREE wu_histogram *const spreads = calloc(n_columns + 1, sizeof *spreads);
    size_t *const chosen = calloc(MAX_COLUMNS, sizeof *chosen);
    *n = 0;
    *out = chosen;
    if (spreads == NULL || chosen == NULL)
        return tc_no_memory(err, reports[0].page->path);
    for (size_t k = 0; k < n_variants; k++)
        return_if_error(
            add_to_spreads(&reports[k], &reports[k].tables->tables[t], n_columns, spreads, err));
    for (int rank = 0; rank < (variants ? 1 : ROW_RANKS); rank++)
        for (size_t c = 0; c < n_columns && *n < MAX_COLUMNS; c++)
            if ((variants && c == 0) ||
                ((variants || table_rank_of(table, c) == rank) &&
                 !is_uninformative(&reports[0], table, rows, c, &spreads[c])))
                chosen[(*n)++] = c;
    return TC_OK;
}

/* --- values for the figures, which page.js draws --------------------------------------------- */

/* Writes a column's values as a hidden element, whose attribute data-of is the index of the table.
 * values: n values, which are `stride` elements apart in memory. */
static void put_values(wu_report *r, const wu_table *table, size_t column, const double *values,
                       size_t n, size_t stride)
{
    char title[WU_TITLE_MAX], unit[64] = "";
    const char *const declared_unit = wu_report_unit(r, table, column, title); /* sets title, too */
    wu_page *const page = r->page;
    if (declared_unit != NULL)
        wu_report_unit_text(declared_unit, unit, sizeof unit);
    wu_page_printf(page, "<div hidden class=values data-of=%zu data-rank=%d data-unit=\"",
                   (size_t)(table - r->tables->tables), rank_of(table, column));
    wu_page_text(page, unit);
    wu_page_printf(page, "\" data-title=\"");
    wu_page_text(page, title);
    wu_page_printf(page, "\">");
    for (size_t i = 0; i < n; i++)
        wu_page_value(page, values[i * stride]);
    wu_page_printf(page, "</div>\n");
}

/* Reads every step-th row into values[row][column], and the index of its item into items[row]. Adds
 * the number of these rows to *kept. */
static tc_status read_values(const wu_report *r, const wu_table *table, const size_t *columns,
                             size_t n, uint64_t step, double *values, size_t *items, size_t *kept,
                             tc_err *err)
{
    TC_AUTO(wu_cursor_close) wu_cursor cursor;
    tc_status status = wu_cursor_open(r->file, table, &cursor, err);
    while (wu_cursor_next(&cursor, &status, err)) {
        if (cursor.row % step != 0)
            continue;
        for (size_t i = 0; i < n; i++)
            values[*kept * n + i] = wu_cursor_number(&cursor, columns[i]);
        items[(*kept)++] = cursor.item;
    }
    return status;
}

/* Writes hidden elements: one of the class "of" with the index of each row's item, and one for each
 * of the n columns with its values. Their attribute data-of is the index of the table. If the table
 * has more than MAX_VALUES values, writes only every step-th row. */
static tc_status put_all_values(wu_report *r, const wu_table *table, const size_t *columns,
                                size_t n, tc_err *err)
{
    const uint64_t most = MAX_VALUES / n, step = 1 + table->rows / most,
                   rows = table->rows / step + 1;
    TC_AUTOFREE double *const values = calloc((size_t)rows * n, sizeof *values);
    TC_AUTOFREE size_t *const items = calloc((size_t)rows, sizeof *items);
    size_t kept = 0;
    if (values == NULL || items == NULL)
        return tc_no_memory(err, r->page->path);
    return_if_error(read_values(r, table, columns, n, step, values, items, &kept, err));
    wu_page_printf(r->page, "<div hidden class=of data-of=%zu data-step=%" PRIu64 " data-name=\"",
                   (size_t)(table - r->tables->tables), step);
    wu_page_text(r->page, table->has_item_array ? wu_report_object_word(table) : "images");
    wu_page_printf(r->page, "\">");
    for (size_t i = 0; i < kept; i++)
        wu_page_number(r->page, ' ', (int64_t)items[i]);
    wu_page_printf(r->page, "</div>\n");
    for (size_t i = 0; i < n; i++)
        if (wu_column_dtype(table, columns[i]) != WU_BOOL)
            put_values(r, table, columns[i], values + i, kept, n);
    return TC_OK;
}

tc_status wu_report_put_values(wu_report *r, const wu_table *table, tc_err *err)
{
    size_t *columns = NULL, n = 0;
    tc_status status = wu_report_list_columns(r, table, &columns, &n, err);
    n = n < MAX_DRAWN ? n : MAX_DRAWN;
    if (status == TC_OK && n > 0 && table->rows >= LEAST_ROWS)
        status = put_all_values(r, table, columns, n, err);
    free(columns);
    return status;
}

/* --- rows ------------------------------------------------------------------------------------ */

/* Whether the tables have a column with the path of each image's file. If there is a single image,
 * the column is left out, because the page's section about this image states the path. */
static bool has_sources(const wu_report *r)
{
    return r->file->item_sources != NULL && r->file->n_items > 1;
}

/* Writes the row of titles. variants: whether the rows are those of several results, so that there
 * are two more columns, the variant and the mark. columns: [n] indices of the columns shown. */
static void put_head(wu_report *r, const wu_table *table, bool variants, const size_t *columns,
                     size_t n)
{
    wu_page_printf(r->page, variants ? "<thead><tr><th>variant</th><th>image</th>"
                                     : "<thead><tr><th>image</th>");
    if (has_sources(r))
        wu_page_printf(r->page, "<th>source</th>");
    if (variants)
        wu_page_printf(r->page, "<th>mark</th>");
    for (size_t i = 0; i < n; i++) {
        wu_page_printf(r->page,
                       wu_column_dtype(table, columns[i]) == WU_STR ? "<th>" : "<th class=n>");
        wu_report_put_title(r, table, columns[i]);
        wu_page_printf(r->page, "</th>");
    }
    wu_page_printf(r->page, "</tr></thead>\n");
}

void wu_report_put_cell(const wu_report *r, const wu_table *table, size_t column,
                        const wu_array_info *info, const void *data)
{
    wu_page *const page = r->page;
    char text[WU_CELL_MAX];
    wu_value_text(info, data, text);
    if (info->dtype == WU_STR) {
        wu_page_printf(page, "<td>");
        wu_page_text(page, text);
    } else if (info->dtype == WU_BOOL) {
        wu_page_printf(page, "<td class=n data-v=%s>%s", text, text[0] == '1' ? "yes" : "no");
    } else if (info->dtype == WU_F32 || info->dtype == WU_F64) {
        wu_page_printf(page, "<td class=n data-v=\"%s\">", text);
        if (is_coordinate(declared_of(table, column), table->columns[column].element))
            wu_page_printf(page, "%.1f", wu_value_number(info, data));
        else
            wu_report_put_number(page, wu_value_number(info, data));
    } else {
        wu_page_printf(page, "<td class=n>%s", text);
    }
    wu_page_printf(page, "</td>");
}

/* Begins a row. Its attribute data-k is the number that the object has in pictures: the key (label)
 * or, without one, the number of the row. */
static void put_row_start(wu_page *page, wu_cursor *cursor)
{
    char key[WU_CELL_MAX];
    snprintf(key, sizeof key, "%" PRIu64, cursor->row + 1);
    for (size_t c = 0; c < cursor->table->n_columns; c++)
        if (declared_of(cursor->table, c)->role == WU_KEY)
            wu_cursor_text(cursor, c, key);
    wu_page_printf(page, "<tr data-i=%zu data-k=\"", cursor->item);
    wu_page_text(page, key);
    wu_page_printf(page, "\">");
}

/* Writes a row. variant: the name of the variant, for the first cell, or NULL if the table has no
 * cells for it. The name of an image becomes a link to the image's section, if there is one: the
 * page has sections for the first r->n_items images only. */
static void put_row(wu_report *r, wu_cursor *cursor, const char *variant, const size_t *columns,
                    size_t n)
{
    const bool has_section = cursor->item < r->n_items;
    put_row_start(r->page, cursor);
    if (variant != NULL) {
        wu_page_printf(r->page, "<td>");
        wu_page_text(r->page, variant);
        wu_page_printf(r->page, "</td>");
    }
    wu_page_printf(r->page, has_section ? "<td><a href=\"#i%zu\">" : "<td>", cursor->item);
    wu_page_text(r->page, wu_result_item_title(r->file, cursor->item).text);
    wu_page_printf(r->page, has_section ? "</a></td>" : "</td>");
    if (has_sources(r)) {
        wu_page_printf(r->page, "<td>");
        wu_page_text(r->page, r->file->item_sources[cursor->item]);
        wu_page_printf(r->page, "</td>");
    }
    if (variant != NULL)
        wu_report_put_mark(r->page, &r->marks[cursor->item]);
    for (size_t i = 0; i < n; i++) {
        const wu_array_info *info;
        const void *const value = wu_cursor_value(cursor, columns[i], &info);
        wu_report_put_cell(r, cursor->table, columns[i], info, value);
    }
    wu_page_printf(r->page, "</tr>\n");
}

static tc_status put_rows(wu_report *r, const wu_table *table, const char *variant,
                          const size_t *columns, size_t n, tc_err *err)
{
    TC_AUTO(wu_cursor_close) wu_cursor cursor;
    tc_status status = wu_cursor_open(r->file, table, &cursor, err);
    for (uint64_t i = 0; i < MAX_ROWS && wu_cursor_next(&cursor, &status, err); i++)
        put_row(r, &cursor, variant, columns, n);
    return status;
}

tc_status wu_report_put_table(wu_report *r, const wu_table *table, tc_err *err)
{
    wu_page *const page = r->page;
    const char *const name = table->has_item_array ? wu_report_object_word(table) : "images";
    size_t *columns = NULL, n = 0;
    tc_status status = choose_columns(r, 1, (size_t)(table - r->tables->tables), &columns, &n, err);
    wu_page_printf(page, "<section class=table>\n<h2>");
    wu_page_text(page, name);
    wu_page_printf(page, " <small>%" PRIu64 " row%s</small></h2>\n<p class=note>", table->rows,
                   table->rows == 1 ? "" : "s");
    if (table->rows > MAX_ROWS)
        wu_page_printf(page, "The first %d rows. ", MAX_ROWS);
    if (n < table->n_columns)
        wu_page_printf(page, "%zu of %zu columns%s. ", n, table->n_columns,
                       n == MAX_COLUMNS  ? ""
                       : table->rows > 1 ? "; those left out are the same in all rows, or not used"
                                         : "; those left out are 0, or not used");
    wu_page_printf(page, "All rows and columns, with all digits, are in ");
    wu_page_text(page, table->name);
    wu_page_printf(page, ".csv (texcell-wu export).</p>\n<div class=scroll><table data-t=%zu>\n",
                   (size_t)(table - r->tables->tables));
    if (status == TC_OK) {
        put_head(r, table, false /* no variants */, columns, n);
        wu_page_printf(page, "<tbody>\n");
        status = put_rows(r, table, NULL, columns, n, err);
    }
    wu_page_printf(page, "</tbody></table></div>\n</section>\n");
    free(columns);
    return status;
}

tc_status wu_report_put_variants(wu_report *reports, const wu_variant *variants, size_t n_variants,
                                 size_t t, tc_err *err)
{
    assert(n_variants >= 1 && t < reports[0].tables->n);
    wu_page *const page = reports[0].page;
    const wu_table *const table = &reports[0].tables->tables[t];
    size_t *columns = NULL, n = 0;
    tc_status status = choose_columns(reports, n_variants, t, &columns, &n, err);
    wu_page_printf(page,
                   "<section class=table>\n<h2>Images</h2>\n<div class=scroll><table class=images "
                   "data-t=%zu>\n",
                   t);
    put_head(&reports[0], table, true /* variants */, columns, n);
    wu_page_printf(page, "<tbody>\n");
    for (size_t k = 0; status == TC_OK && k < n_variants; k++)
        status =
            put_rows(&reports[k], &reports[k].tables->tables[t], variants[k].name, columns, n, err);
    wu_page_printf(page, "</tbody></table></div>\n</section>\n");
    free(columns);
    return status;
}
