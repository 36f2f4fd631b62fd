/* Writes the texture features of a report's page as a table with a row, not a column, for each
 * feature: there may be hundreds of features, and each row also has an explanation. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "workunits/tools/report.h"

enum { MOST_IMAGES = 12 }; /* the most images that have a column; the CSV file has all images */

/* The name and the meaning of each feature. */
static const char *const meanings[][2] = {
    { "asm", "uniformity: 1 for a single grey, small for many different pairs (energy squared)" },
    { "contrast", "how much neighbours differ, large differences counting most; 0: all are equal" },
    { "correlation", "how well a grey predicts its neighbour: 1 fully, 0 not at all" },
    { "variance", "how far greys are spread around their mean" },
    { "idm", "smoothness: 1 where neighbours are equal (inverse difference moment, homogeneity)" },
    { "sum_average", "how bright it is: the mean of the sum of two neighbours' greys" },
    { "sum_variance", "how far the sums of two neighbours are spread" },
    { "sum_entropy", "disorder of the sums of two neighbours" },
    { "entropy", "disorder: 0 for a single grey, large where all pairs are equally frequent" },
    { "difference_variance", "how unequal the steps between neighbours are" },
    { "difference_entropy", "disorder of the steps between neighbours" },
    { "imc1", "how much a grey tells about its neighbour: 0 nothing, -1 everything" },
    { "imc2", "how much a grey tells about its neighbour: 0 nothing, near 1 everything" },
    { "joint_maximum", "share of the most frequent pair of greys" },
    { "joint_average", "how bright it is: the mean grey level of the pairs" },
    { "difference_average", "the mean step between neighbours (dissimilarity)" },
    { "inverse_difference", "smoothness: 1 where neighbours are equal" },
    { "inverse_difference_normalised", "smoothness, whatever the number of levels" },
    { "inverse_difference_moment_normalised", "smoothness, whatever the number of levels" },
    { "inverse_variance", "large where many neighbours differ slightly" },
    { "autocorrelation", "how bright, and how fine or coarse: the mean product of neighbours" },
    { "cluster_tendency", "how far pairs gather in groups of like greys" },
    { "cluster_shade", "whether dark (positive) or bright (negative) pairs prevail" },
    { "cluster_prominence",
      "how far single pairs lie from the others; small where greys are alike" },
};

/* Returns the meaning of a feature, or "" if it is not in the list. */
static const char *meaning_of(const char *feature)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (strcmp(meanings[i][0], feature) == 0)
            return meanings[i][1];
    return "";
}

/* Returns the table's only array, if its last two axes are the features and their statistics, with
 * the mean as the first statistic; else NULL. */
static const wu_declaration *features_of(const wu_table *table)
{
    const wu_declaration *const d = table->n_arrays == 1 ? table->arrays[0].declared : NULL;
    if (d == NULL || table->has_item_array || d->n_axes < 2 ||
        table->arrays[0].info->dtype != WU_F64)
        return NULL;
    const wu_axis *const feature = &d->axes[d->n_axes - 2], *const last = feature + 1;
    return feature->name != NULL && strcmp(feature->name, "feature") == 0 &&
                   feature->words != NULL && last->words != NULL &&
                   strcmp(last->words[0], "mean") == 0
               ? d
               : NULL;
}

/* Writes a cell for each axis but the last two, such as grey levels and distance. The cell contains
 * the word or number that names the element's position on this axis. element: index in a row of the
 * array. */
static void put_entries(wu_page *page, const wu_declaration *d, uint64_t element)
{
    uint64_t at[WU_MAX_AXES]; /* the position on each axis */
    for (unsigned i = d->n_axes; i-- > 0; element /= d->axes[i].n)
        at[i] = element % d->axes[i].n;
    for (unsigned i = 0; i + 2 < d->n_axes; i++) {
        const wu_axis *const axis = &d->axes[i];
        wu_page_printf(page, "<td class=n>");
        if (axis->words != NULL)
            wu_page_text(page, axis->words[at[i]]);
        else
            wu_page_printf(page, "%u",
                           axis->numbers != NULL ? axis->numbers[at[i]] : (unsigned)at[i]);
        wu_page_printf(page, "</td>");
    }
}

/* Writes the titles. images: the number of images that have a column. */
static void put_head(const wu_report *r, const wu_declaration *d, size_t images)
{
    wu_page *const page = r->page;
    wu_page_printf(page, "<thead><tr><th>feature</th><th>what it says</th>");
    for (unsigned i = 0; i + 2 < d->n_axes; i++) {
        wu_page_printf(page, "<th class=n>");
        wu_page_text(page, d->axes[i].name != NULL ? d->axes[i].name : "");
        wu_page_printf(page, "</th>");
    }
    for (size_t i = 0; i < images; i++) {
        wu_page_printf(page, "<th class=n>");
        wu_page_text(page, wu_result_item_title(r->file, i).text);
        wu_page_printf(page, "</th>");
    }
    wu_page_printf(page, "</tr></thead>\n<tbody>\n");
}

/* Writes the table's head and rows. */
static tc_status put_features(const wu_report *r, const wu_table *table, const wu_declaration *d,
                              tc_err *err)
{
    const size_t images = r->file->n_items < MOST_IMAGES ? r->file->n_items : MOST_IMAGES,
                 elements = (size_t)wu_declaration_elements(d);
    const wu_axis *const feature = &d->axes[d->n_axes - 2];
    const uint32_t statistics = d->axes[d->n_axes - 1].n;
    double *const values = calloc(images * elements + 1, sizeof *values);
    wu_npz_stream *stream = NULL;
    tc_status status = values == NULL
                           ? tc_no_memory(err, table->name)
                           : wu_npz_stream_open(r->file->npz, table->arrays[0].index, &stream, err);
    if (status == TC_OK)
        status = wu_npz_stream_read(stream, values, images * elements * sizeof *values, err);
    wu_npz_stream_close(&stream);
    put_head(r, d, images);
    /* Every statistics-th element is a mean, the first statistic of a feature. */
    for (size_t e = 0; status == TC_OK && e < elements; e += statistics) {
        const char *const name = feature->words[e / statistics % feature->n];
        wu_page_printf(r->page, "<tr><td>");
        wu_page_text(r->page, name);
        wu_page_printf(r->page, "</td><td class=help>%s</td>", meaning_of(name));
        put_entries(r->page, d, e);
        for (size_t i = 0; i < images; i++) {
            const double value = values[i * elements + e];
            wu_page_printf(r->page, "<td class=n data-v=%.17g>", value);
            wu_report_put_number(r->page, value);
            wu_page_printf(r->page, "</td>");
        }
        wu_page_printf(r->page, "</tr>\n");
    }
    free(values);
    return status;
}

/* Writes, for the column glcm_L32_d01_contrast_mean, "contrast" and in small type "L32 d01 mean".
 */
bool wu_report_put_feature_title(wu_page *page, const wu_table *table, size_t column)
{
    const wu_declaration *const d = features_of(table);
    char title[WU_TITLE_MAX];
    if (d == NULL)
        return false;
    wu_column_title(table, column, title);
    const wu_axis *const feature = &d->axes[d->n_axes - 2], *const last = feature + 1;
    const char *const name = feature->words[table->columns[column].element / last->n % feature->n];
    /* The title is PREFIX_KEYS_NAME_STATISTIC: the array's title, the keys ("L32_d01"), the feature
     * and the statistic. prefix and suffix: lengths of "PREFIX_" and "_STATISTIC". */
    const size_t length = strlen(title), n = strlen(name),
                 suffix = strlen(last->words[table->columns[column].element % last->n]) + 1,
                 prefix = d->title != NULL ? strlen(d->title) + 1 : 0;
    if (length < prefix + n + suffix)
        return false;
    for (char *at = title; (at = strchr(at, '_')) != NULL;)
        *at = ' ';
    wu_page_text(page, name);
    wu_page_printf(page, " <small>");
    title[length - suffix - n] = '\0'; /* ends the keys; keeps the blank after them */
    wu_page_text(page, title + prefix);
    wu_page_text(page, title + length - suffix + 1);
    wu_page_printf(page, "</small>");
    return true;
}

bool wu_report_has_features(const wu_table *table)
{
    return features_of(table) != NULL;
}

tc_status wu_report_put_features(wu_report *r, const wu_table *table, tc_err *err)
{
    const wu_declaration *const d = features_of(table);
    wu_page *const page = r->page;
    assert(d != NULL);
    wu_page_printf(page,
                   "<section class=table>\n<h2>Features</h2>\n<p class=note>Means over the "
                   "directions%s. All statistics of all images, with all digits, are in ",
                   r->file->n_items > MOST_IMAGES ? ", of the first images" : "");
    wu_page_text(page, table->name);
    wu_page_printf(page, ".csv (texcell-wu export).</p>\n"
                         "<div class=scroll><table class=parameters>\n");
    const tc_status status = put_features(r, table, d, err);
    wu_page_printf(page, "</tbody></table></div>\n</section>\n");
    return status;
}
