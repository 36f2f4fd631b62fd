/* texcell-wu report: writes a result as one HTML page. */
#include "config.h"

#include "workunits/tools/confine.h"
#include "workunits/tools/report.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/command.h"
#include "workunits/format/json_text.h"
#include "workunits/tools/notes.h"
#include "workunits/tools/tools.h"

const char wu_report_help[] =
    "usage: texcell-wu report RESULT.npz [--images WU.zip] -o PAGE.html\n"
    "\n"
    "Writes a result as one page for any browser, which needs no network: a row for\n"
    "each image with counts, sizes and a mark (ok, look, wrong?), histograms of any\n"
    "column, images or folders compared, each picture with what was found on it,\n"
    "maps with their scales, tables that sort, the parameters, and what to cite.\n"
    "\n"
    "  -o, --output PAGE.html  the page; an older one is replaced\n"
    "  --images WU.zip         the work unit of the result: its pictures are shown\n"
    "  --items N               pictures of the first N images (default: 200)\n"
    "\n"
    "Large pictures are made smaller so that the page stays below some 20 MB.\n"
    "Outlines require labels: pack with --param labels=true.\n";

/* The values of options, and the path of the result. */
typedef struct report_options {
    const char *result, *output, *images;
    uint64_t items;
} report_options;

static tc_status parse_options(int argc, char **argv, report_options *o, tc_err *err)
{
    const tc_option options[] = { { "output", 'o', TC_TEXT, .to = &o->output },
                                  { "images", 0, TC_TEXT, .to = &o->images },
                                  { "items", 0, TC_COUNT, .to = &o->items, .most = 10000 },
                                  { .name = NULL } };
    int n_files;
    return_if_error(tc_read_options(argc, argv, options, &n_files, err));
    if (n_files != 1)
        return tc_fail(err, TC_USAGE, "report: takes one RESULT.npz, %d given", n_files);
    if (o->output == NULL)
        return tc_fail(err, TC_USAGE, "report: -o PAGE.html is missing");
    o->result = argv[1];
    return TC_OK;
}

/* --- the parts of a page --------------------------------------------------------------------- */

/* Returns the string of this key in result.json, or "" if there is none. */
static const char *text_of(const wu_report *r, const char *key)
{
    const char *const text = json_string_value(json_object_get(wu_npz_json(r->file->npz), key));
    return text != NULL ? text : "";
}

/* Writes the checkboxes that show and hide the layers of the pictures. */
static void put_switches(wu_page *page)
{
    /* For each layer, the value of data-layer, by which page.js finds it, and the text of the
     * checkbox. "own": the analysed pictures themselves. */
    static const char *const layers[][2] = { { "outlines", "outlines" },
                                             { "points", "points" },
                                             { "numbers", "numbers" },
                                             { "scale", "scale bars" },
                                             { "own", "pictures" } };
    wu_page_printf(page, "<nav class=switches>");
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        wu_page_printf(page, "<label><input type=checkbox checked data-layer=%s> %s</label> ",
                       layers[i][0], layers[i][1]);
    wu_page_printf(page, "<label><input type=checkbox data-two> two pictures side by side</label> "
                         "<label>brighter <input type=range data-brightness min=0 max=4 step=0.25 "
                         "value=0></label></nav>\n");
}

/* Writes the explanation of the outlines or circles over the pictures. */
static void put_legend(const wu_report *r)
{
    /* What is drawn: outlines of labels (of the work unit or the result), outlines of masks,
     * circles at points. */
    bool labels = r->images != NULL && r->images->n_items > 0 && r->images->items[0].n_labels > 0,
         mask = false, points = false;
    for (size_t i = 0; i < r->file->n_declared; i++) {
        labels = labels || r->file->declared[i].role == WU_LABELS;
        mask = mask || r->file->declared[i].role == WU_MASK;
        points = points || r->file->declared[i].role == WU_POSITION;
    }
    points = points && !labels && !mask; /* if there are outlines, circles are not explained */
    if (r->colour[0] != '\0') {
        wu_page_printf(r->page, "<p class=note>The pictures show what was analysed: ");
        wu_page_text(r->page, r->colour);
        wu_page_printf(r->page, ".</p>\n");
    }
    if (!labels && !mask && !points)
        return;
    wu_page_printf(r->page, "<p class=note>Over each picture lies what was found: %s.%s%s</p>\n",
                   points   ? "circles of the radius that was looked for"
                   : labels ? "outlines, whose colours only tell neighbours apart"
                            : "the outline of the mask",
                   labels ? " Numbers are those of the tables." : "",
                   labels
                       ? " A click on an outline shows its row, and a click on a row its outline."
                   : points ? " A click on a circle shows its row, and a click on a row its circle."
                            : "");
}

/* Writes the item's note. If the page shows a single image, its note is not written here: it is
 * part of the image's mark in the summary. */
static void put_note(const wu_report *r, size_t item)
{
    if (r->notes[item] == NULL || (r->file->n_items == 1 && r->n_variants == 1))
        return;
    wu_page_printf(r->page, "<p><strong>Note:</strong> ");
    wu_page_text(r->page, r->notes[item]);
    wu_page_printf(r->page, "</p>\n");
}

/* Begins the section of an item, and writes its name and size, which it takes from the item in the
 * work unit. Small pictures, which are enlarged 4 times, get narrow sections: several of them fit
 * side by side. */
static void put_item_head(wu_report *r, size_t item)
{
    enum {
        SMALL = 544,     /* greatest width of a narrow section, in pixels of the screen */
        LEAST_TILE = 240 /* least width of a section */
    };
    wu_page *const page = r->page;
    const wu_item *const unit_item = r->images != NULL ? &r->images->items[item] : NULL;
    const wu_thumbnail *const thumbnails = wu_report_thumbnail(r, item);
    wu_page_printf(page, "<section class=item id=i%zu", item);
    if (r->n_variants == 1 && unit_item != NULL && 4 * unit_item->nx <= SMALL)
        wu_page_printf(page, " style=\"width:min(100%%,%upx)\"",
                       4 * unit_item->nx > LEAST_TILE ? 4 * unit_item->nx : LEAST_TILE);
    wu_page_printf(page, ">\n<h3>");
    wu_page_text(page, wu_result_item_title(r->file, item).text);
    wu_page_printf(page, "</h3>\n<p class=note>");
    if (r->file->item_sources != NULL && r->file->item_sources[item][0] != '\0') {
        wu_page_text(page, r->file->item_sources[item]);
        wu_page_printf(page, ", ");
    }
    if (unit_item != NULL && unit_item->is_stack)
        wu_page_printf(page, "%u &#215; %u &#215; %u voxels", unit_item->nx, unit_item->ny,
                       unit_item->nz);
    else if (unit_item != NULL)
        wu_page_printf(page, "%u &#215; %u pixels", unit_item->nx, unit_item->ny);
    if (unit_item != NULL)
        wu_page_printf(page, " of %u bits%s", unit_item->bits,
                       (thumbnails != NULL ? thumbnails->channels : unit_item->channels) == 3
                           ? ", colour"
                           : "");
    if (unit_item != NULL && unit_item->has_spacing)
        wu_page_printf(page, ", %.6g &#215; %.6g &#215; %.6g &#181;m (z, y, x)",
                       unit_item->spacing[0], unit_item->spacing[1], unit_item->spacing[2]);
    if (unit_item != NULL && unit_item->has_pixel)
        wu_page_printf(page, ", a pixel of %.6g &#215; %.6g &#181;m (y, x)", unit_item->pixel[0],
                       unit_item->pixel[1]);
    wu_page_printf(page, "</p>\n");
}

/* Writes a section for each item whose picture is shown. */
static tc_status put_items(wu_report *r, tc_err *err)
{
    wu_page *const page = r->page;
    wu_page_printf(page, "<h2>Pictures</h2>\n");
    put_switches(page);
    put_legend(r);
    if (r->n_items < r->file->n_items)
        wu_page_printf(page,
                       "<p class=note>The first %zu of %zu images; --items N shows more.</p>\n",
                       r->n_items, r->file->n_items);
    for (size_t i = 0; i < r->n_items; i++) {
        put_item_head(r, i);
        put_note(r, i);
        return_if_error(wu_report_put_figures(r, i, err));
        wu_page_printf(page, "</section>\n");
    }
    return TC_OK;
}

/* Writes a row for each parameter in `values`, and recursively for the parameters of each object in
 * it. where: "" for the outermost object; for an object that is the value of a parameter, the key
 * of this parameter and a dot, such as "init.". */
static tc_status put_rows(wu_page *page, const an_param *table, const json_t *values,
                          const char *where, tc_err *err)
{
    for (const an_param *p = table; p->key != NULL; p++) {
        const json_t *const value = json_object_get(values, p->key);
        char within[80];
        if (value == NULL)
            continue;
        snprintf(within, sizeof within, "%s%s.", where, p->key);
        if (p->type == AN_OBJECT && json_is_object(value)) {
            return_if_error(put_rows(page, p->keys, value, within, err));
            continue;
        }
        TC_AUTOFREE char *const text =
            json_is_string(value) ? strdup(json_string_value(value))
                                  : json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        if (text == NULL)
            return tc_no_memory(err, page->path);
        wu_page_printf(page, "<tr><td>%s%s</td><td>", where, p->key);
        wu_page_text(page, text);
        wu_page_printf(page, "</td><td>%s</td><td class=help>",
                       p->unit != NULL && !json_is_null(value) ? p->unit : "");
        wu_page_text(page, p->help);
        wu_page_printf(page, "</td></tr>\n");
    }
    return TC_OK;
}

/* Writes the parameters, how to repeat the analysis, and what to cite. analysis: NULL if this
 * program does not know the analysis that the result names. */
static tc_status put_parameters(wu_report *r, const an_analysis *analysis, tc_err *err)
{
    wu_page *const page = r->page;
    const json_t *const parameters = json_object_get(wu_npz_json(r->file->npz), "parameters");
    TC_AUTOFREE char *const text = wu_json_text(parameters, WU_JSON_LAYOUT);
    if (text == NULL)
        return tc_no_memory(err, "parameters");
    wu_page_printf(page, "<section>\n<h2>Parameters as run</h2>\n");
    if (analysis != NULL) {
        wu_page_printf(page,
                       "<div class=scroll><table "
                       "class=parameters><thead><tr><th>parameter</th><th>value</th><th>unit</th>"
                       "<th>what it is</th></tr></thead><tbody>\n");
        return_if_error(put_rows(page, analysis->parameters, parameters, "", err));
        wu_page_printf(page, "</tbody></table></div>\n");
    }
    wu_page_printf(page, "<details><summary>To repeat, with this as parameters.json: texcell-wu "
                         "analyse --analysis ");
    wu_page_text(page, text_of(r, "analysis"));
    wu_page_printf(page, " --defaults --params parameters.json -o NEW PICTURES</summary>\n<pre>");
    wu_page_text(page, text);
    wu_page_printf(page, "</pre></details>\n<h2>To cite</h2>\n<p>");
    if (analysis != NULL && analysis->cite != NULL) {
        wu_page_text(page, analysis->cite);
        wu_page_printf(page, "</p>\n<p>");
    }
    wu_page_printf(page, "texcell %s, ", VERSION);
    wu_page_text(page, text_of(r, "analysis"));
    wu_page_printf(page,
                   ". The same pictures and parameters give the same numbers, to the last bit, "
                   "on every computer.</p>\n"
                   "</section>\n");
    return TC_OK;
}

/* Writes the tables that the page does not show further up: all but the table of features, and the
 * table of the images if the summary has all its columns. Also writes the values of all tables, for
 * the figures. */
static tc_status put_tables(wu_report *r, tc_err *err)
{
    enum { SUMMARY_COLUMNS = 6 }; /* the most columns that the summary shows */
    for (size_t i = 0; i < r->tables->n; i++) {
        const wu_table *const table = &r->tables->tables[i];
        const bool shown_above = wu_report_has_features(table) ||
                                 (!table->has_item_array && table->n_columns <= SUMMARY_COLUMNS);
        if (!shown_above)
            return_if_error(wu_report_put_table(r, table, err));
        return_if_error(wu_report_put_values(r, table, err));
    }
    return TC_OK;
}

/* Finds the marks and writes everything between the head and the end of the page. */
static tc_status put_page(wu_report *r, tc_err *err)
{
    wu_page *const page = r->page;
    const an_analysis *const analysis = an_find_analysis(text_of(r, "analysis"));
    wu_page_printf(page, "<header><h1>");
    wu_page_text(page, text_of(r, "analysis"));
    wu_page_printf(page, "</h1>\n<p>");
    if (analysis != NULL)
        wu_page_text(page, analysis->summary);
    if (text_of(r, "about")[0] != '\0') {
        wu_page_printf(page, "</p>\n<p>");
        wu_page_text(page, text_of(r, "about"));
    }
    wu_page_printf(page, "</p>\n");
    wu_page_printf(page, "</header>\n<main>\n");
    enum { FEW = 4 }; /* with at most FEW images, the pictures come before the plots of values */
    const char *const plots = "<section id=plots hidden></section>\n";
    return_if_error(wu_report_find_marks(r, err));
    return_if_error(wu_report_put_summary(r, err));
    for (size_t i = 0; i < r->tables->n; i++)
        if (wu_report_has_features(&r->tables->tables[i]))
            return_if_error(wu_report_put_features(r, &r->tables->tables[i], err));
    wu_page_printf(page, "%s", r->file->n_items > FEW ? plots : "");
    return_if_error(put_items(r, err));
    wu_page_printf(page, "%s", r->file->n_items > FEW ? "" : plots);
    return_if_error(put_tables(r, err));
    if (r->suggestion != NULL)
        return_if_error(wu_suggest_put(r->suggestion, page, err));
    return_if_error(put_parameters(r, analysis, err));
    wu_page_printf(page, "</main>\n");
    return TC_OK;
}

/* --- the whole report ------------------------------------------------------------------------ */

/* Loads the points of each table and, if the analysis found a radius for each item, the radii. */
static tc_status load_points(wu_report *r, tc_err *err)
{
    r->points = calloc(r->tables->n + 1, sizeof *r->points);
    if (r->points == NULL)
        return tc_no_memory(err, "the points");
    for (size_t i = 0; i < r->tables->n; i++)
        return_if_error(wu_points_load(r->file, &r->tables->tables[i], &r->points[i], err));
    const long radius = wu_npz_find_array(r->file->npz, "radius"); /* index of the array, or < 0 */
    const wu_array_info *const info =
        radius < 0 ? NULL : wu_npz_array_info(r->file->npz, (size_t)radius);
    void *radii = NULL;
    if (info != NULL && info->dtype == WU_F64 && info->ndim == 1 &&
        info->shape[0] == r->file->n_items)
        return_if_error(wu_npz_load_array(r->file->npz, (size_t)radius, &radii, err));
    r->radii = radii;
    return TC_OK;
}

tc_status wu_report_open(wu_report *r, const char *result, const char *images,
                         wu_thumbnail *thumbnails, uint64_t items, tc_err *err)
{
    wu_result_file *const file = calloc(1, sizeof *file);
    wu_tables *const tables = calloc(1, sizeof *tables);
    *r = (wu_report){
        .file = file, .tables = tables, .thumbnails = thumbnails, .n_variants = 1, .colour = ""
    };
    if (file == NULL || tables == NULL)
        return tc_no_memory(err, result);
    return_if_error(wu_result_file_open(result, NULL, file, err));
    TC_AUTOFREE char *const runs_path = wu_label_runs_path(result);
    r->runs = runs_path != NULL ? wu_run_reader_open(runs_path) : NULL;
    r->n_items = file->n_items < items ? file->n_items : (size_t)items;
    if (images != NULL)
        return_if_error(wu_open_unit_of_result(file, images, thumbnails != NULL, &r->images, err));
    return_if_error(wu_tables_find(file, tables, err));
    return_if_error(wu_notes_read(file, &r->notes, err));
    return load_points(r, err);
}

void wu_report_close(wu_report *r)
{
    for (size_t i = 0; r->points != NULL && i < r->tables->n; i++)
        wu_points_free(&r->points[i]);
    free(r->points);
    free(r->radii);
    if (r->tables != NULL)
        wu_tables_free(r->tables);
    free(r->tables);
    wu_report_free_summary(r);
    free(r->marks);
    for (size_t i = 0; r->outlined != NULL && i < r->n_items; i++)
        free(r->outlined[i].runs);
    free(r->outlined);
    wu_run_reader_close(&r->runs);
    if (r->file != NULL)
        wu_notes_free(r->notes, r->file->n_items);
    wu_job_destroy(&r->images);
    if (r->file != NULL)
        wu_result_file_close(r->file);
    free(r->file);
}

wu_thumbnail *wu_report_thumbnail(const wu_report *r, size_t item)
{
    return r->thumbnails != NULL && r->images != NULL && item < r->n_items &&
                   r->thumbnails[item].channels > 0
               ? &r->thumbnails[item]
               : NULL;
}

tc_status wu_report_write_page(wu_report *r, const char *output, const char *colour,
                               const an_suggestion *suggestion, tc_err *err)
{
    wu_page page;
    r->page = &page;
    r->colour = colour;
    r->suggestion = suggestion;
    tc_status status = wu_page_open(output, r->file->path, &page, err);
    if (status == TC_OK)
        status = put_page(r, err);
    status = wu_page_close(&page, status, err);
    r->page = NULL;
    return status;
}

tc_status wu_report_write(const char *result, const char *images, const char *output,
                          uint64_t items, tc_err *err)
{
    TC_AUTO(wu_report_close) wu_report r;
    return_if_error(wu_report_open(&r, result, images, NULL, items, err));
    return wu_report_write_page(&r, output, "", NULL, err);
}

/* --- the page of a sweep, that is, of an analysis with several variants of the parameters ------
 */

/* Writes the page of n variants. reports: the open reports of the variants, which share the page.
 */
static tc_status put_sweep(const wu_variant *variants, wu_report *reports, size_t n, tc_err *err)
{
    wu_page *const page = reports[0].page;
    wu_page_printf(page, "<header><h1>");
    wu_page_text(page, text_of(&reports[0], "analysis"));
    wu_page_printf(
        page,
        "</h1>\n<p>%zu variants of its parameters, on the same pictures</p></header>\n<main>\n", n);
    const wu_tables *const tables = reports[0].tables;
    for (size_t k = 0; k < n; k++)
        return_if_error(wu_report_find_marks(&reports[k], err));
    wu_report_put_variant_sums(reports, variants, n);
    for (size_t t = 0; t < tables->n; t++)
        if (!tables->tables[t].has_item_array)
            return_if_error(wu_report_put_variants(reports, variants, n, t, err));
    wu_page_printf(page, "<h2>Pictures</h2>\n");
    put_switches(page);
    put_legend(&reports[0]);
    for (size_t i = 0; i < reports[0].n_items; i++) {
        put_item_head(&reports[0], i);
        wu_page_printf(page, "<div class=variants>\n");
        for (size_t k = 0; k < n; k++) {
            wu_page_printf(page, "<div><h4>");
            wu_page_text(page, variants[k].name);
            wu_page_printf(page, "</h4>\n");
            put_note(&reports[k], i);
            return_if_error(wu_report_put_figures(&reports[k], i, err));
            wu_page_printf(page, "</div>\n");
        }
        wu_page_printf(page, "</div>\n</section>\n");
    }
    wu_page_printf(page,
                   "<section>\n<h2>Files of the variants</h2>\n<p class=note>Each variant's work "
                   "unit and result are in a folder of their own next to this page. To analyse "
                   "more pictures with the parameters of a variant, pass its --param to texcell-wu "
                   "analyse.</p>\n<pre>");
    for (size_t k = 0; k < n; k++) {
        wu_page_text(page, variants[k].unit);
        wu_page_printf(page, "\n");
    }
    wu_page_printf(page, "</pre>\n</section>\n</main>\n");
    return TC_OK;
}

tc_status wu_report_sweep(const wu_variant *variants, size_t n, const char *output,
                          const char *colour, tc_err *err)
{
    assert(n >= 1);
    TC_AUTOFREE wu_report *const reports = calloc(n, sizeof *reports);
    wu_page page = { .file = NULL };
    tc_status status = reports == NULL ? tc_no_memory(err, output) : TC_OK;
    for (size_t k = 0; status == TC_OK && k < n; k++) {
        status = wu_report_open(&reports[k], variants[k].result, variants[k].unit, NULL,
                                WU_REPORT_ITEMS, err);
        reports[k].page = &page;
        reports[k].colour = colour;
        reports[k].n_variants = n;
    }
    if (status == TC_OK)
        status = wu_page_open(output, "sweep", &page, err);
    if (status == TC_OK)
        status = put_sweep(variants, reports, n, err);
    status = wu_page_close(&page, status, err);
    for (size_t k = 0; status == TC_OK && k < n; k++)
        status = wu_report_write_marks_csv(&reports[k], variants[k].output_folder,
                                           true /* columns.csv, too */, err);
    for (size_t k = 0; reports != NULL && k < n; k++)
        wu_report_close(&reports[k]);
    return status;
}

tc_status wu_write_marks(const char *result, const char *unit, const char *suggested,
                         const char *folder, bool columns, tc_err *err)
{
    wu_page page = { .path = (char *)(uintptr_t)folder }; /* for messages */
    TC_AUTO(an_suggestion_free) an_suggestion suggestion = { .parameters = NULL };
    TC_AUTO(wu_report_close) wu_report r;
    return_if_error(wu_report_open(&r, result, unit, NULL, WU_REPORT_ITEMS, err));
    r.page = &page;
    if (suggested != NULL)
        return_if_error(wu_suggest_load(suggested, &suggestion, err));
    r.suggestion = suggested != NULL ? &suggestion : NULL;
    return_if_error(wu_report_find_marks(&r, err));
    return wu_report_write_marks_csv(&r, folder, columns, err);
}

tc_status wu_report_verb(int argc, char **argv, tc_err *err)
{
    report_options o = { .items = WU_REPORT_ITEMS };
    return_if_error(parse_options(argc, argv, &o, err));
    return_if_error(wu_confine(
        (char *[]){ (char *)(uintptr_t)o.result, (char *)(uintptr_t)o.images }, 2, o.output, err));
    return_if_error(wu_report_write(o.result, o.images, o.output, o.items, err));
    printf("%s\n", o.output);
    return TC_OK;
}
