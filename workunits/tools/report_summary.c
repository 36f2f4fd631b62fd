/* Writes the head of a report's page: how many objects were found, and a row for each image with
 * its counts, sizes and mark; and the same numbers as CSV files. Decides the mark of each image. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/analysis.h"
#include "app/base/sort.h"
#include "workunits/tools/pages.h"
#include "workunits/tools/report.h"
#include "workunits/tools/tools.h"

/* A note is printed if the areas of the objects are at least this many times the areas that the
 * objects have at half of their contrast to the background. */
static const double least_excess = 1.1;

enum { MOST_MEASURED = 6 }; /* the most columns of the table of images that the page's head shows */

/* Statistics of the objects (rows of summary.table) of an image, a group, or all images. */
typedef struct object_stats {
    uint64_t rows;      /* number of objects */
    uint64_t at_border; /* number of objects cut by the border */
    uint64_t measured;  /* number of objects whose size is a number */
    double quartile[3]; /* quartiles of the sizes */
    double diameter[3]; /* the diameters of circles or balls of these sizes */
    double count;       /* number of objects that the analysis reports, or `rows` if it does not
                           report a number */
    double counts[3];   /* only set for a group: quartiles of the counts of its images */
} object_stats;

/* The images of one folder. The page compares the groups with each other; find_mark compares each
 * image with the rest of its group. */
typedef struct group {
    size_t first;       /* index of the group's first image */
    size_t images;      /* number of images */
    size_t wrong;       /* number of images whose mark is "wrong?" */
    double usual_count; /* median count of the images that are not wrong; NaN: too few of them */
    double usual_size;  /* median of the median sizes of these images; NaN: too few of them */
} group;

typedef struct wu_summary {
    const wu_report *r;
    const wu_table *table;     /* the table with a row for each object in the images, or NULL */
    const wu_table *per_image; /* the table with a row for each image, or NULL */
    long size, border; /* indices of the columns of `table` with the size of an object and whether
                          the border cuts it; -1: there is none */
    unsigned power;    /* 2: sizes are areas, 3: volumes, 0: no diameter is shown */
    char length[16];   /* the unit of diameters */
    object_stats *item_stats; /* [file->n_items] statistics of each image */
    object_stats all; /* statistics of all images together; count and at_border are not set */
    size_t n_groups;  /* 1 if there are no groups to compare: see find_groups */
    group *groups;    /* [file->n_items], of which n_groups are used */
    object_stats *group_stats; /* [file->n_items] statistics of each group; n_groups are used */
    size_t *group_index;       /* [file->n_items] index of each image's group */
    size_t shared; /* length of the folder name with which the sources of all images begin */
    bool grouped;  /* whether some images lie in a folder below the shared one; if so, the table has
                      a column with these folders */
    double excess; /* the median, over the images, of the ratio of the objects' areas to their areas
                      at half of the contrast; 0 if it is unknown */
} summary;

/* --- words ----------------------------------------------------------------------------------- */

const char *wu_report_object_word(const wu_table *table)
{
    return strcmp(table->name, "regions") == 0 || strcmp(table->name, "points") == 0 ? "cells"
                                                                                     : table->name;
}

bool wu_report_has_fill(const wu_report *r)
{
    const json_t *const parameters = json_object_get(wu_npz_json(r->file->npz), "parameters");
    return json_is_true(json_object_get(parameters, "fill"));
}

bool wu_report_has_stacks(const wu_report *r)
{
    const wu_array_info *const first = r->file->n_items > 0 ? wu_first_picture(r->file, 0) : NULL;
    return r->images != NULL ? r->images->items[0].is_stack : first != NULL && first->ndim == 3;
}

/* The units "voxel" and "pixel" are both replaced by "voxel" for stacks, by "pixel" for images. */
const char *wu_report_unit(const wu_report *r, const wu_table *table, size_t column,
                           char title[WU_TITLE_MAX])
{
    const wu_column *const c = &table->columns[column];
    const wu_declaration *const d = table->arrays[c->array].declared;
    static const char grey[] = "mean grey value";
    const char *unit = wu_column_unit(table, column);
    wu_declaration_title(d, c->element, 0, title);
    if (unit != NULL && (strcmp(unit, "voxel") == 0 || strcmp(unit, "pixel") == 0))
        unit = wu_report_has_stacks(r) ? "voxel" : "pixel";
    /* The title mean alone would be unclear: it is replaced by "mean grey value", which makes the
     * unit needless. "mean grey" is replaced, too. */
    if (unit != NULL && strcmp(unit, "grey values") == 0 &&
        strncmp(title, grey, strlen(title)) == 0 && strcspn(grey, " ") == strlen(title)) {
        snprintf(title, WU_TITLE_MAX, "%s", grey);
        return NULL;
    }
    /* The title "voxels" is also the unit. */
    if (unit != NULL && strcmp(title, "voxels") == 0)
        return NULL;
    /* "_um3" at the end of a title is removed, since the unit has the same meaning. */
    const size_t length = strlen(title), um3 = strlen("_um3");
    if (unit != NULL && length > um3 && strcmp(title + length - um3, "_um3") == 0)
        title[length - um3] = '\0';
    /* "_voxels" at the end of a title is removed, too. */
    const size_t n = strlen(title), end = strlen("_voxels");
    if (unit != NULL && n > end && strcmp(title + n - end, "_voxels") == 0)
        title[n - end] = '\0';
    return unit;
}

/* Unknown units are copied unchanged, since a file may declare any unit. */
void wu_report_unit_text(const char *unit, char *out, size_t size)
{
    static const char *const words[][2] = {
        { "pixel", "px" }, { "voxel", "voxels" }, { "um", "\xc2\xb5m" }, { "", "" }
    };
    size_t i = 0;
    while (strncmp(unit, words[i][0], strlen(words[i][0])) != 0)
        i++;
    const char *const power = unit + strlen(words[i][0]); /* "", "^2" or "^3" in known units */
    const bool known = words[i][0][0] != '\0' && (power[0] == '\0' || power[0] == '^');
    snprintf(out, size, "%s%s", known ? words[i][1] : unit,
             known && power[0] == '^' ? power[1] == '2' ? "\xc2\xb2" : "\xc2\xb3" : "");
}

void wu_report_put_title(const wu_report *r, const wu_table *table, size_t column)
{
    char title[WU_TITLE_MAX];
    const char *const unit = wu_report_unit(r, table, column, title);
    if (wu_report_put_feature_title(r->page, table, column))
        return;
    wu_page_text(r->page, title);
    if (unit != NULL) {
        char text[64];
        wu_report_unit_text(unit, text, sizeof text);
        wu_page_printf(r->page, " <small>");
        wu_page_text(r->page, text);
        wu_page_printf(r->page, "</small>");
    }
}

/* Returns the length of the folder name, with its '/', with which the sources of all items begin,
 * or 0 if they have no folder in common. */
static size_t shared_folder(const wu_result_file *file)
{
    size_t shared = 0;
    const char *const source = file->item_sources != NULL ? file->item_sources[0] : "";
    for (size_t i = 0; source[i] != '\0'; i++) {
        for (size_t k = 0; k < file->n_items; k++)
            if (strncmp(file->item_sources[k], source, i + 1) != 0)
                return shared;
        shared = source[i] == '/' ? i + 1 : shared;
    }
    return shared;
}

/* Sets `out` to the name of the image's group: the first folder of its source below the shared
 * folder, or "". */
static void group_of(const summary *s, size_t item, char *out, size_t size)
{
    const wu_result_file *const file = s->r->file;
    const char *const below =
        file->item_sources != NULL ? file->item_sources[item] + s->shared : "";
    const size_t n = strcspn(below, "/");
    snprintf(out, size, "%.*s", below[n] == '/' ? (int)n : 0, below);
}

/* Sorts the images into groups by their folders. If each image has a folder of its own, or if there
 * are more than MOST_GROUPS folders, all images are in one group. */
static tc_status find_groups(summary *s, tc_err *err)
{
    enum { MOST_GROUPS = 100 };
    const size_t n = s->r->file->n_items;
    s->groups = calloc(n + 1, sizeof *s->groups);
    s->group_stats = calloc(n + 1, sizeof *s->group_stats);
    s->group_index = calloc(n + 1, sizeof *s->group_index);
    if (s->groups == NULL || s->group_stats == NULL || s->group_index == NULL)
        return tc_no_memory(err, "images");
    for (size_t i = 0; i < n && s->n_groups <= MOST_GROUPS; i++) {
        char name[256], other[256];
        size_t k = 0;
        group_of(s, i, name, sizeof name);
        s->grouped = s->grouped || name[0] != '\0';
        for (; k < s->n_groups; k++) {
            group_of(s, s->groups[k].first, other, sizeof other);
            if (strcmp(name, other) == 0)
                break;
        }
        if (k == s->n_groups)
            s->groups[s->n_groups++].first = i;
        s->group_index[i] = k;
        s->groups[k].images++;
    }
    if (s->n_groups == n || s->n_groups > MOST_GROUPS) {
        memset(s->group_index, 0, n * sizeof *s->group_index);
        s->groups[0].images = n;
        s->n_groups = 1;
    }
    return TC_OK;
}

static bool has_groups(const summary *s)
{
    return s->n_groups > 1 && s->table != NULL;
}

/* --- numbers --------------------------------------------------------------------------------- */

/* The size of an object, and the image and group that contain the object. */
typedef struct measure {
    uint32_t item, group;
    double value;
} measure;

static int compare_values(const void *a, const void *b)
{
    const double m = *(const double *)a, n = *(const double *)b;
    return m < n ? -1 : m > n;
}

static int compare_measures(const void *a, const void *b)
{
    return compare_values(&((const measure *)a)->value, &((const measure *)b)->value);
}

/* Returns the diameter of the circle (power 2) or ball (power 3) of this size, or the size itself
 * if power is 0. */
static double diameter_of(double size, unsigned power)
{
    static const double pi = 3.14159265358979323846;
    return power == 0 ? size : power == 2 ? 2 * sqrt(size / pi) : cbrt(6 * size / pi);
}

/* The q-quantile of the diameters (diameter_of) of n sorted sizes, interpolated linearly between
 * the two nearest diameters. stride: bytes from one size to the next. */
static double quantile(const double *sorted, size_t n, size_t stride, double q, unsigned power)
{
    const double at = q * (double)(n - 1);
    const size_t i = (size_t)at, k = i + 1 < n ? i + 1 : i;
    const double a = *(const double *)(const void *)((const char *)sorted + i * stride),
                 b = *(const double *)(const void *)((const char *)sorted + k * stride);
    const double from = diameter_of(a, power), to = diameter_of(b, power);
    return from + (to - from) * (at - (double)i);
}

long wu_report_find_column(const wu_table *table, const char *name)
{
    char title[WU_TITLE_MAX];
    for (size_t c = 0; table != NULL && c < table->n_columns; c++) {
        wu_column_title(table, c, title);
        if (strcmp(title, name) == 0)
            return (long)c;
    }
    return -1;
}

/* The column with the size of objects, in the best unit that the table has, or -1. */
static long size_column(const wu_table *table)
{
    static const char *const names[] = { "area_um2", "area", "volume", "voxels" };
    long at = -1;
    for (size_t i = 0; at < 0 && i < sizeof names / sizeof *names; i++)
        at = wu_report_find_column(table, names[i]);
    return at;
}

/* Counts the objects of each image and the objects at its border, and collects the sizes that are
 * finite: sets measures[0] to measures[*n - 1]. measures: room for all rows; *n must be 0 before.
 */
static tc_status read_rows(const summary *s, measure *measures, size_t *n, tc_err *err)
{
    TC_AUTO(wu_cursor_close) wu_cursor cursor;
    tc_status status = wu_cursor_open(s->r->file, s->table, &cursor, err);
    while (wu_cursor_next(&cursor, &status, err)) {
        const double value = s->size < 0 ? NAN : wu_cursor_number(&cursor, (size_t)s->size);
        s->item_stats[cursor.item].rows++;
        if (isfinite(value))
            measures[(*n)++] =
                (measure){ (uint32_t)cursor.item, (uint32_t)s->group_index[cursor.item], value };
        if (s->border >= 0)
            s->item_stats[cursor.item].at_border +=
                wu_cursor_number(&cursor, (size_t)s->border) > 0;
    }
    return status;
}

/* Sets the quartiles of n > 0 measures, which are sorted by their values. */
static void find_quartiles(const summary *s, const measure *sorted, size_t n, object_stats *f)
{
    f->measured = n;
    for (int q = 0; q < 3; q++) {
        f->quartile[q] = quantile(&sorted->value, n, sizeof *sorted, (q + 1) * 0.25, 0);
        f->diameter[q] = quantile(&sorted->value, n, sizeof *sorted, (q + 1) * 0.25, s->power);
    }
}

static uint32_t item_of_measure(const void *m)
{
    return ((const measure *)m)->item;
}

static uint32_t group_of_measure(const void *m)
{
    return ((const measure *)m)->group;
}

/* Sets the quartiles in stats[k] from the measures whose key is k. The measures must be sorted by
 * their values; this function sorts them by key, stably. */
static tc_status find_quartiles_by_key(const summary *s, measure *measures, size_t n,
                                       uint32_t (*key)(const void *m), object_stats *stats,
                                       tc_err *err)
{
    return_if_error(tc_sort_by_key(measures, n, sizeof *measures, key, NULL, NULL, err));
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && key(&measures[end]) == key(&measures[i]);)
            end++;
        find_quartiles(s, &measures[i], end - i, &stats[key(&measures[i])]);
    }
    return TC_OK;
}

/* Sets the quartiles of sizes of each image, each group and all images. */
static tc_status find_sizes(summary *s, tc_err *err)
{
    TC_AUTOFREE measure *const measures =
        s->table->rows < SIZE_MAX / sizeof *measures
            ? malloc((size_t)s->table->rows * sizeof *measures + 1)
            : NULL;
    size_t n = 0;
    return_if_error(measures == NULL ? tc_no_memory(err, s->table->name)
                                     : read_rows(s, measures, &n, err));
    /* The measures need to be sorted by value only once, since the sorts by group and by item,
     * which follow, are stable. */
    return_if_error(tc_sort(measures, n, sizeof *measures, compare_measures, NULL, err));
    if (n > 0)
        find_quartiles(s, measures, n, &s->all);
    return_if_error(find_quartiles_by_key(s, measures, n, group_of_measure, s->group_stats, err));
    return find_quartiles_by_key(s, measures, n, item_of_measure, s->item_stats, err);
}

/* Sets the count of each image to the value in the analysis' column of counts or, if there is no
 * such column, to the number of the image's objects. */
static tc_status find_counts(const summary *s, tc_err *err)
{
    long column = wu_report_find_column(s->per_image, "count");
    TC_AUTO(wu_cursor_close) wu_cursor cursor = { 0 };
    column = column < 0 ? wu_report_find_column(s->per_image, s->table->name) : column;
    for (size_t i = 0; i < s->r->file->n_items; i++)
        s->item_stats[i].count = (double)s->item_stats[i].rows;
    if (column < 0)
        return TC_OK;
    tc_status status = wu_cursor_open(s->r->file, s->per_image, &cursor, err);
    while (wu_cursor_next(&cursor, &status, err))
        s->item_stats[cursor.item].count = wu_cursor_number(&cursor, (size_t)column);
    return status;
}

/* Sorts the values, and returns their median, or NaN if there are fewer than LEAST. */
static double median_of(double *values, size_t n)
{
    enum { LEAST = 5 }; /* the fewest values whose median is meaningful */
    qsort(values, n, sizeof *values, compare_values);
    return n >= LEAST ? quantile(values, n, sizeof *values, 0.5, 0) : NAN;
}

/* Whether the image gets the mark "wrong?": what was found in it is most likely wrong. */
static bool is_wrong(const summary *s, size_t item, const wu_count_doubt *found_doubt)
{
    return found_doubt->labels || found_doubt->noise || found_doubt->smooth || found_doubt->blunt ||
           s->r->notes[item] != NULL || (found_doubt->frame != NULL && found_doubt->wide);
}

/* Computes for each group the sums and the quartiles of its images' counts, and the medians over
 * the images that are not wrong, with which find_mark compares each image. */
static tc_status find_group_medians(const summary *s, const wu_count_doubt *found_doubt,
                                    tc_err *err)
{
    const size_t n = s->r->file->n_items;
    TC_AUTOFREE double *const counts = malloc(n * sizeof *counts + 1);
    TC_AUTOFREE double *const sizes = malloc(n * sizeof *sizes + 1);
    TC_AUTOFREE double *const right_counts = malloc(n * sizeof *right_counts + 1);
    if (counts == NULL || sizes == NULL || right_counts == NULL)
        return tc_no_memory(err, "images");
    for (size_t g = 0; g < s->n_groups; g++) {
        group *const current = &s->groups[g];
        size_t c = 0, k = 0, m = 0; /* how many counts, sizes and right_counts there are */
        for (size_t i = 0; i < n; i++) {
            if (s->group_index[i] != g)
                continue;
            counts[c++] = s->item_stats[i].count;
            s->group_stats[g].count += s->item_stats[i].count;
            s->group_stats[g].at_border += s->item_stats[i].at_border;
            if (is_wrong(s, i, &found_doubt[i])) {
                current->wrong++;
                continue;
            }
            right_counts[m++] = s->item_stats[i].count;
            if (s->item_stats[i].measured > 0)
                sizes[k++] = s->item_stats[i].quartile[1];
        }
        current->usual_count = median_of(right_counts, m);
        qsort(counts, c, sizeof *counts, compare_values);
        for (int q = 0; q < 3; q++)
            s->group_stats[g].counts[q] = quantile(counts, c, sizeof *counts, (q + 1) * 0.25, 0);
        current->usual_size = median_of(sizes, k);
    }
    return TC_OK;
}

/* If sizes are areas or volumes, sets s->power and s->length (the unit without its exponent), so
 * that diameters are shown. Does nothing if sizes are counts of voxels: the sides of a voxel may
 * differ, so that a diameter in voxels has no meaning. */
static void find_length(summary *s)
{
    char title[WU_TITLE_MAX], length[16];
    const char *const unit = wu_report_unit(s->r, s->table, (size_t)s->size, title);
    const size_t n = unit != NULL ? strcspn(unit, "^") : 0;
    if (n == 0 || n >= sizeof length || unit[n] == '\0')
        return;
    s->power = unit[n + 1] == '2' ? 2 : 3;
    snprintf(length, sizeof length, "%.*s", (int)n, unit);
    wu_report_unit_text(length, s->length, sizeof s->length);
}

/* Fills the summary except the marks: finds the tables and groups, and computes counts and sizes.
 */
static tc_status open_summary(wu_report *r, summary *s, tc_err *err)
{
    *s = (summary){ .r = r, .size = -1, .border = -1 };
    s->item_stats = calloc(r->file->n_items + 1, sizeof *s->item_stats);
    if (s->item_stats == NULL)
        return tc_no_memory(err, "images");
    for (size_t i = r->tables->n; i-- > 0;) {
        const wu_table *const t = &r->tables->tables[i];
        if (t->has_item_array)
            s->table = t;
        else
            s->per_image = t;
    }
    s->shared = r->file->n_items > 0 ? shared_folder(r->file) : 0;
    return_if_error(find_groups(s, err));
    if (s->table == NULL)
        return TC_OK;
    s->size = size_column(s->table);
    s->border = wu_report_find_column(s->table, "border");
    if (s->size >= 0)
        find_length(s);
    return_if_error(find_sizes(s, err));
    return find_counts(s, err);
}

void wu_report_free_summary(wu_report *r)
{
    summary *const s = r->summary;
    if (s == NULL)
        return;
    free(s->groups);
    free(s->group_stats);
    free(s->group_index);
    free(s->item_stats);
    free(s);
}

/* --- marks ----------------------------------------------------------------------------------- */

/* Whether the survey shows that an item has few grey values; if so, sets `text` to a note about it.
 * params NULL: the analysis has no note_survey function. */
static bool has_few_greys(const an_analysis *analysis, const void *params, const wu_item *item,
                          const an_survey *survey, char *text, size_t size)
{
    return params != NULL ? analysis->note_survey(params, item, survey, text, size)
                          : wu_has_few_greys(survey, text, size);
}

/* Sets `text` to the note that pack prints about an image's grey values, or "". known: the survey
 * (least, greatest and number of different grey values) of the image. If it is NULL, reads the
 * pixels row by row until there are too many different grey values for a note. */
static tc_status read_greys(const wu_report *r, size_t index, const an_survey *known, char *text,
                            size_t size, tc_err *err)
{
    const char *const name =
        json_string_value(json_object_get(wu_npz_json(r->file->npz), "analysis"));
    const an_analysis *const analysis = name != NULL ? an_find_analysis(name) : NULL;
    an_survey survey = { .lo = UINT32_MAX };
    void *params = NULL;
    text[0] = '\0';
    if (r->images == NULL || index >= r->n_items || analysis == NULL)
        return TC_OK;
    const wu_item *const item = &r->images->items[index];
    const wu_picture_info row = {
        .nx = item->nx, .ny = 1, .bits = item->bits, .channels = item->channels
    };
    const size_t bytes = (size_t)item->nx * item->channels * (item->bits / 8);
    uint8_t *const slice = malloc(known != NULL ? 1 : item->ny * bytes);
    tc_status status =
        slice == NULL ? tc_no_memory(err, r->page->path)
        : analysis->note_survey != NULL
            ? an_parse_params(analysis, json_object_get(wu_npz_json(r->file->npz), "parameters"),
                              "parameters", &params, err)
            : TC_OK;
    bool few = status == TC_OK; /* the grey values so far are few, or all the same */
    if (known != NULL && few)
        few = known->lo < known->hi && has_few_greys(analysis, params, item, known, text, size);
    for (uint32_t z = 0; known == NULL && z < item->nz && few && status == TC_OK; z++) {
        status = wu_item_decode_slice(r->images, index, z, slice, err);
        for (uint32_t y = 0; y < item->ny && few && status == TC_OK; y++) {
            wu_survey_greys(slice + y * bytes, &row, &survey);
            few = survey.lo >= survey.hi ||
                  has_few_greys(analysis, params, item, &survey, text, size);
        }
    }
    known = known != NULL ? known : &survey;
    if (status == TC_OK && known->lo == known->hi)
        snprintf(text, size, "%s", AN_SAME_GREY);
    else if (!few)
        text[0] = '\0';
    free(slice);
    an_params_free(analysis, &params);
    return status == TC_BAD_INPUT ? TC_OK : status; /* a picture that cannot be read has no note */
}

static const char *const mark_words[] = { "ok", "look", "wrong?" }; /* indexed by wu_mark.level */

void wu_report_put_mark(wu_page *page, const wu_mark *mark)
{
    assert(mark->level >= 0 && mark->level <= 2);
    const char *const word = mark_words[mark->level];
    wu_page_printf(page, "<td class=why data-v=%d><strong class=%.*s>%s</strong>", mark->level,
                   (int)strcspn(word, "?"), word, word);
    if (mark->why[0] != '\0') {
        wu_page_printf(page, " <small>");
        wu_page_text(page, mark->why);
        wu_page_printf(page, "</small>");
    }
    wu_page_printf(page, "</td>");
}

/* Whether the parameters were suggested from the pictures, and the suggestion has a doubt. */
static bool has_doubt(const summary *s)
{
    return s->r->suggestion != NULL && s->r->suggestion->doubt[0] != '\0';
}

/* Whether the frame around the field of view was counted as a cell. This is so if the parameter
 * "polarity" (whether cells are dark or bright) is the frame's. */
static bool is_frame_counted(const summary *s, const wu_count_doubt *found_doubt)
{
    const json_t *const parameters = json_object_get(wu_npz_json(s->r->file->npz), "parameters");
    const char *const polarity = json_string_value(json_object_get(parameters, "polarity"));
    return found_doubt->frame != NULL && polarity != NULL &&
           strcmp(polarity, found_doubt->frame) == 0;
}

/* Whether the picture is smoothed enough, so that a larger "smooth" is not worth a suggestion: the
 * parameter is 2 or more, or does not exist. */
static bool is_smooth(const summary *s)
{
    const json_t *const smooth =
        json_object_get(json_object_get(wu_npz_json(s->r->file->npz), "parameters"), "smooth");
    return smooth == NULL || json_number_value(smooth) >= 2;
}

/* Returns a suggestion of a parameter with which dimmer objects are counted as well. */
static const char *lower_threshold(const summary *s)
{
    const json_t *const parameters = json_object_get(wu_npz_json(s->r->file->npz), "parameters");
    return json_is_integer(json_object_get(parameters, "offset_percent"))
               ? "try --param offset_percent=5"
               : "try another --param threshold";
}

/* Sets the mark of an image. Its reason is the first one below that applies; the most serious come
 * first. The reason that many objects are cut by the border is appended to another one. stopped:
 * whether the analysis reached its limit of iterations before it converged. doubt: the text from
 * find_doubt. */
static void find_mark(const summary *s, size_t item, bool stopped,
                      const wu_count_doubt *found_doubt, const char *doubt, wu_mark *mark)
{
    enum {
        ENOUGH = 8, /* the fewest objects that allow statistics of sizes */
        MANY = 20 /* with MANY objects or more, noise is named as the reason even if the result has
                     a note */
    };
    char *const why = mark->why;
    const size_t size = sizeof mark->why;
    const object_stats *const f = &s->item_stats[item];
    const group *const others = &s->groups[s->group_index[item]];
    const char *const which = s->n_groups > 1 ? "its group" : "all images";
    why[0] = '\0';

    const bool noise_alone = found_doubt->noise && (s->r->notes[item] == NULL || f->rows >= MANY);
    if (strcmp(doubt, AN_SAME_GREY) == 0)
        snprintf(why, size, "%s", AN_SAME_GREY);
    else if (found_doubt->labels)
        snprintf(why, size,
                 "looks like a label picture, with a value for each of its objects: these are "
                 "measured by objects, which takes it as --labels");
    else if (noise_alone)
        snprintf(why, size,
                 "most of what was counted stands out no more than noise does: there may be no "
                 "%s in this picture%s",
                 wu_report_object_word(s->table),
                 is_smooth(s) ? "" : "; if there are: --param smooth=2");
    else if (found_doubt->smooth)
        snprintf(why, size,
                 "nothing in this picture has an edge: grey values change only gradually, as with "
                 "uneven light; there may be no %s in it",
                 s->table != NULL ? wu_report_object_word(s->table) : "object");
    else if (found_doubt->blunt && s->r->notes[item] == NULL)
        snprintf(why, size,
                 "the outline of what covers much of the picture follows no edge, as in uneven "
                 "light: try another --param polarity, or --param background={}");
    else if (is_frame_counted(s, found_doubt))
        snprintf(why, size,
                 "the frame of one grey value around the field was taken for %s: try --param "
                 "polarity=%s; if the field has %s %s, crop the picture, or give --mask",
                 wu_report_object_word(s->table),
                 strcmp(found_doubt->frame, "dark") == 0 ? "bright" : "dark", found_doubt->frame,
                 wu_report_object_word(s->table));
    else if (found_doubt->frame != NULL && (found_doubt->wide || s->r->notes[item] != NULL))
        snprintf(why, size,
                 "a frame of one grey value surrounds the field, which hides the %s: crop the "
                 "picture, or give --mask",
                 wu_report_object_word(s->table));
    else if (s->r->notes[item] != NULL)
        snprintf(why, size, "%s", s->r->notes[item]);
    else if (found_doubt->wide)
        snprintf(why, size,
                 "%s of a quarter of the picture were looked for: try another --param radius",
                 wu_report_object_word(s->table));
    else if (found_doubt->drawn)
        snprintf(why, size,
                 "some of what was counted has edges of a single pixel, as letters, scale bars and "
                 "hot pixels have: crop the picture, or give --mask; against hot pixels try a "
                 "larger --param min_area");
    else if (stopped)
        snprintf(why, size, "the outline still moved: try a larger --param iterations");
    else if (doubt[0] != '\0')
        snprintf(why, size, "%s", doubt);
    else if (f->rows > 0 && f->measured == 0 && s->all.measured > 0)
        snprintf(why, size,
                 "the size of a pixel is not known for this image, but for others: its objects are "
                 "not in the medians; give --spacing");
    else if (has_doubt(s) && s->r->file->n_items == 1)
        snprintf(why, size, "%s", s->r->suggestion->doubt);
    else if (s->r->suggestion != NULL && s->r->suggestion->each_doubt != NULL)
        snprintf(why, size, "%s", s->r->suggestion->each_doubt);
    else if (found_doubt->cubes)
        snprintf(why, size,
                 "the size of voxels is not known, so they were taken for cubes: give --spacing "
                 "Z,Y,X");
    else if (f->count > 3 * others->usual_count || f->count < others->usual_count / 3)
        snprintf(why, size, "%.0f, where the median of %s is %.0f: compare the pictures", f->count,
                 which, round(others->usual_count));
    else if (f->measured > 0 && (f->quartile[1] > 2.5 * others->usual_size ||
                                 f->quartile[1] < others->usual_size / 2.5))
        snprintf(why, size, "sizes unlike those of the other images%s: compare the pictures",
                 s->n_groups > 1 ? " of its group" : "");
    else if (item < s->r->n_items && s->r->outlined[item].merged > 0)
        snprintf(why, size,
                 "%zu of %zu regions, large and indented, look like several cells each: compare "
                 "the outlines; try --analysis voting, Cellpose or StarDist",
                 s->r->outlined[item].merged, s->r->outlined[item].n);
    else if (item < s->r->n_items && s->r->outlined[item].several > 0)
        snprintf(why, size,
                 "%zu of %zu regions are so much larger than the median that they may be several "
                 "cells each: compare the outlines; try --analysis voting, Cellpose or StarDist",
                 s->r->outlined[item].several, s->r->outlined[item].n);
    else if (found_doubt->missed > 0)
        snprintf(why, size,
                 "%zu places as large as the %zu %s stand out, but less, and were not counted: %s",
                 found_doubt->missed, (size_t)f->rows, wu_report_object_word(s->table),
                 lower_threshold(s));
    mark->level = is_wrong(s, item, found_doubt) ? 2 : why[0] != '\0';
    if (mark->level == 2 || f->rows < ENOUGH || f->at_border * 2 <= f->rows)
        return;
    const size_t n = strlen(why);
    snprintf(why + n, size - n, "%smore than half of the %s are cut by the border: %s%s",
             n > 0 ? "; also: " : "", wu_report_object_word(s->table),
             n > 0 ? "" : "the count holds; ",
             f->rows - f->at_border >= ENOUGH ? "for sizes alone try --param exclude_border=true"
                                              : "their sizes are those of the visible parts");
    mark->level = 1;
}

/* --- the page -------------------------------------------------------------------------------- */

/* Rounds to `digits` significant digits; halves are rounded away from zero, as page.js does. */
static double round_to(double value, int digits)
{
    assert(digits >= 0);
    if (value == 0 || !isfinite(value))
        return value;
    /* scale: the power of 10 that makes `digits` digits of the value integral */
    const double scale = pow(10, digits - 1 - floor(log10(fabs(value)))),
                 rounded = round(value * scale) / scale;
    return isfinite(rounded) ? rounded : value;
}

void wu_report_put_number(wu_page *page, double value)
{
    if (isnan(value))
        wu_page_printf(page, "&#8211;"); /* an en dash */
    else if ((fabs(value) >= 1000 || value == floor(value)) && fabs(value) < 1e15)
        wu_page_printf(page, "%.0f", round(value));
    else
        wu_page_printf(page, "%.4g", round_to(value, 4));
}

/* Writes the line with the number of objects, the number of images and the median diameter. */
static void put_headline(const summary *s)
{
    wu_page *const page = s->r->page;
    const size_t n = s->r->file->n_items;
    const char *const kind = wu_report_has_stacks(s->r) ? "stack" : "image";
    wu_page_printf(page, "<p class=headline>");
    for (size_t i = 0; i < s->r->tables->n; i++)
        if (s->r->tables->tables[i].has_item_array) {
            wu_page_printf(page, "<span><strong>%" PRIu64 "</strong> ",
                           s->r->tables->tables[i].rows);
            char word[64];
            snprintf(word, sizeof word, "%s", wu_report_object_word(&s->r->tables->tables[i]));
            const size_t end = strlen(word) - 1;
            if (s->r->tables->tables[i].rows == 1 && word[end] == 's')
                word[end] = '\0';
            wu_page_text(page, word);
            wu_page_printf(page, "</span>");
        }
    wu_page_printf(page, "<span><strong>%zu</strong> %s%s</span>", n, kind, n == 1 ? "" : "s");
    if (s->power > 0 && s->all.measured > 0) {
        char share[32] = "";
        if (s->all.measured <
            s->table->rows) /* the size of a pixel is not known for the other objects */
            snprintf(share, sizeof share, " of %" PRIu64, s->all.measured);
        wu_page_printf(
            page,
            "<span><strong>%.3g</strong> %s median diameter%s (half of them from %.3g to "
            "%.3g)</span>",
            round_to(s->all.diameter[1], 3), s->length, share, round_to(s->all.diameter[0], 3),
            round_to(s->all.diameter[2], 3));
    }
    wu_page_printf(page, "</p>\n");
}

/* Writes the titles of the cells that put_found writes. */
static void put_found_head(const summary *s)
{
    wu_page *const page = s->r->page;
    if (s->power > 0)
        wu_page_printf(page,
                       "<th class=n title=\"of the %s of the same size\">median diameter "
                       "<small>%s (quartiles)</small></th>",
                       s->power == 2 ? "circle" : "ball", s->length);
    if (s->size >= 0) {
        wu_page_printf(page, "<th class=n>median ");
        wu_report_put_title(s->r, s->table, (size_t)s->size);
        wu_page_printf(page, " <small>(quartiles)</small></th>");
    }
    if (s->border >= 0)
        wu_page_printf(page, "<th class=n>at the border</th>");
}

/* Writes the title of the column of counts. */
static void put_word_head(const summary *s)
{
    wu_page_printf(s->r->page, "<th class=n>");
    wu_page_text(s->r->page, wu_report_object_word(s->table));
    wu_page_printf(s->r->page, "</th>");
}

static void put_head(const summary *s, const size_t *columns, size_t n)
{
    wu_page *const page = s->r->page;
    wu_page_printf(page, "<thead><tr><th>%s</th>%s", wu_report_has_stacks(s->r) ? "stack" : "image",
                   s->grouped ? "<th>group</th>" : "");
    if (s->table != NULL)
        put_word_head(s);
    wu_page_printf(page, "<th>mark</th>");
    if (s->table != NULL)
        put_found_head(s);
    for (size_t i = 0; i < n; i++) {
        wu_page_printf(page, "<th class=n>");
        wu_report_put_title(s->r, s->per_image, columns[i]);
        wu_page_printf(page, "</th>");
    }
    wu_page_printf(page, "</tr></thead>\n<tbody>\n");
}

/* Writes a size or a count with three significant digits, or as a whole number from 100 on. */
static void put_size(wu_page *page, double value)
{
    if (value >= 100)
        wu_page_printf(page, "%.0f", round(value));
    else
        wu_page_printf(page, "%.3g", round_to(value, 3));
}

/* Writes a cell with the median and, in small type, the other quartiles. If the quartiles are not
 * known, writes a dash. */
static void put_quartiles(wu_page *page, const double quartile[3], bool known)
{
    if (!known) {
        wu_page_printf(page, "<td class=n data-v=nan>&#8211;</td>");
        return;
    }
    wu_page_printf(page, "<td class=n data-v=%.17g>", quartile[1]);
    put_size(page, quartile[1]);
    wu_page_printf(page, " <small>");
    put_size(page, quartile[0]);
    wu_page_printf(page, "&#8211;");
    put_size(page, quartile[2]);
    wu_page_printf(page, "</small></td>");
}

/* Writes the cells of diameters, sizes, and objects at the border. */
static void put_found(const summary *s, const object_stats *f)
{
    wu_page *const page = s->r->page;
    if (s->power > 0)
        put_quartiles(page, f->diameter, f->measured > 0);
    if (s->size >= 0)
        put_quartiles(page, f->quartile, f->measured > 0);
    if (s->border >= 0)
        wu_page_printf(page, "<td class=n>%" PRIu64 "</td>", f->at_border);
}

/* Writes the row of an image. cursor: at the image's row of s->per_image, if there is such a table.
 * columns: [n] indices of the columns of s->per_image to be written. */
static void put_row(const summary *s, size_t item, wu_cursor *cursor, const size_t *columns,
                    size_t n)
{
    wu_page *const page = s->r->page;
    char folder[256];
    group_of(s, item, folder, sizeof folder);
    wu_page_printf(page, "<tr data-image=%zu data-group=\"", item);
    wu_page_text(page, folder);
    wu_page_printf(page, item < s->r->n_items ? "\"><td><a href=\"#i%zu\">" : "\"><td><a>", item);
    wu_page_text(page, wu_result_item_title(s->r->file, item).text);
    wu_page_printf(page, "</a></td>");
    if (s->grouped) {
        wu_page_printf(page, "<td>");
        wu_page_text(page, folder);
        wu_page_printf(page, "</td>");
    }
    if (s->table != NULL)
        wu_page_printf(page, "<td class=n>%.0f</td>", s->item_stats[item].count);
    wu_report_put_mark(page, &s->r->marks[item]);
    if (s->table != NULL)
        put_found(s, &s->item_stats[item]);
    for (size_t i = 0; i < n; i++) {
        const wu_array_info *info;
        const void *const value = wu_cursor_value(cursor, columns[i], &info);
        wu_report_put_cell(s->r, s->per_image, columns[i], info, value);
    }
    wu_page_printf(page, "</tr>\n");
}

/* Sets `text` to a doubt about an image's grey values or about the outlines of its regions, or "".
 * Adds 1 to *n_ragged if the outlines are ragged. */
static tc_status find_doubt(const summary *s, size_t item, const wu_count_doubt *doubt,
                            size_t *n_ragged, char *text, size_t size, tc_err *err)
{
    const wu_thumbnail *const thumbnail = wu_report_thumbnail(s->r, item);
    const an_survey *known = thumbnail != NULL ? &thumbnail->survey
                             : doubt->surveyed ? &doubt->survey
                                               : NULL;
    const bool ragged = item < s->r->n_items && s->r->outlined[item].ragged;
    return_if_error(read_greys(s->r, item, known, text, size, err));
    *n_ragged += ragged;
    if (ragged && text[0] == '\0')
        snprintf(text, size,
                 "most outlines are ragged (parts of cells, or several?): try --param smooth=2, or "
                 "Cellpose");
    return TC_OK;
}

/* Sets s->excess to the median of `excess` over the images in which it is known. Images that get
 * the mark "wrong?" are left out. */
static tc_status find_excess(summary *s, const wu_count_doubt *found_doubt, tc_err *err)
{
    const size_t n = s->r->file->n_items;
    size_t known = 0;
    TC_AUTOFREE double *const values = malloc(n * sizeof *values + 1);
    if (values == NULL)
        return tc_no_memory(err, "images");
    for (size_t i = 0; i < n; i++)
        if (found_doubt[i].excess > 0 && !is_wrong(s, i, &found_doubt[i]))
            values[known++] = found_doubt[i].excess;
    qsort(values, known, sizeof *values, compare_values);
    s->excess = known > 0 ? values[known / 2] : 0;
    return TC_OK;
}

/* If s->excess is least_excess or more, sets `text` to a note about it and returns true. */
static bool describe_excess(const summary *s, char *text, size_t size)
{
    if (s->excess < least_excess)
        return false;
    snprintf(text, size,
             "areas are %.0f%% larger (median) than at half of the contrast: outlines of small or "
             "blurred %s lie where these begin to differ from the background; for sizes try "
             "--param threshold=otsu --param smooth=0",
             100 * (s->excess - 1), wu_report_object_word(s->table));
    return true;
}

/* Sets the marks of all images, and prints notes with the numbers of doubtful ones. */
static tc_status find_marks(summary *s, wu_mark *marks, size_t *n_ragged, tc_err *err)
{
    const long converged = wu_report_find_column(s->per_image, "converged");
    TC_AUTO(wu_cursor_close) wu_cursor cursor = { 0 };
    char doubt[sizeof marks->why];
    size_t n_noise = 0;
    TC_AUTOFREE wu_count_doubt *const found_doubt =
        calloc(s->r->file->n_items + 1, sizeof *found_doubt);
    if (found_doubt == NULL)
        return tc_no_memory(err, "marks");
    tc_status status = wu_report_find_doubts(s->r, found_doubt, err);
    if (status == TC_OK && converged >= 0)
        status = wu_cursor_open(s->r->file, s->per_image, &cursor, err);
    /* Until find_mark is called, level 1 says that the analysis of this image did not converge. */
    while (converged >= 0 && wu_cursor_next(&cursor, &status, err))
        marks[cursor.item].level = wu_cursor_number(&cursor, (size_t)converged) == 0;
    return_if_error(status);
    if (s->table != NULL)
        return_if_error(find_group_medians(s, found_doubt, err));
    for (size_t i = 0; i < s->r->file->n_items; i++) {
        return_if_error(find_doubt(s, i, &found_doubt[i], n_ragged, doubt, sizeof doubt, err));
        const bool same_grey = strcmp(doubt, AN_SAME_GREY) == 0;
        if (same_grey && s->r->notes[i] != NULL) {
            free(s->r->notes[i]);
            s->r->notes[i] = strdup(doubt);
            if (s->r->notes[i] == NULL)
                return tc_no_memory(err, "notes");
        }
        find_mark(s, i, marks[i].level == 1, &found_doubt[i], doubt, &marks[i]);
        n_noise += found_doubt[i].noise && !same_grey;
    }
    size_t wrong = 0;
    for (size_t g = 0; g < s->n_groups; g++)
        wrong += s->groups[g].wrong;
    if (wrong > 0 && has_groups(s) && s->r->n_variants == 1)
        wu_print_note("%zu of %zu images are marked wrong?, and are in the sums of their groups: "
                      "marked_wrong in groups.csv",
                      wrong, s->r->file->n_items);
    return_if_error(find_excess(s, found_doubt, err));
    if (describe_excess(s, doubt, sizeof doubt) && s->r->n_variants == 1)
        wu_print_note("%s", doubt);
    if (n_noise > 0 && s->r->n_variants == 1)
        wu_print_note(
            "%zu of %zu images: most of what was counted stands out no more than noise does",
            n_noise, s->r->file->n_items);
    return TC_OK;
}

tc_status wu_report_find_marks(wu_report *r, tc_err *err)
{
    assert(r->summary == NULL);
    size_t n_ragged = 0;
    TC_AUTOFREE size_t *const counts = calloc(r->file->n_items + 1, sizeof *counts);
    summary *const s = r->summary = calloc(1, sizeof *s);
    r->marks = calloc(r->file->n_items + 1, sizeof *r->marks);
    if (counts == NULL || s == NULL || r->marks == NULL)
        return tc_no_memory(err, "marks");
    return_if_error(open_summary(r, s, err));
    for (size_t i = 0; i < r->n_items; i++)
        counts[i] = s->table != NULL ? (size_t)s->item_stats[i].rows : 0;
    return_if_error(wu_report_find_outlines(r, counts, err));
    return_if_error(find_marks(s, r->marks, &n_ragged, err));
    if (n_ragged > 0 && r->n_variants == 1)
        wu_print_note(
            "%zu of %zu images: most outlines are ragged, so that parts of cells, or several, "
            "may be counted; look at them on the page",
            n_ragged, r->file->n_items);
    return TC_OK;
}

static tc_status put_rows(const summary *s, const size_t *columns, size_t n, tc_err *err)
{
    TC_AUTO(wu_cursor_close) wu_cursor cursor = { 0 };
    tc_status status = TC_OK;
    if (s->per_image != NULL)
        status = wu_cursor_open(s->r->file, s->per_image, &cursor, err);
    for (size_t i = 0; i < s->r->file->n_items; i++) {
        if (s->per_image != NULL && !wu_cursor_next(&cursor, &status, err))
            break;
        put_row(s, i, &cursor, columns, n);
    }
    return status;
}

/* The worst mark of the images of group g, or of all images (`all`). Its reason is the number of
 * images with this mark. */
static wu_mark worst_mark(const summary *s, size_t g, bool all)
{
    wu_mark mark = { .level = 0 };
    size_t n = 0;
    for (size_t i = 0; i < s->r->file->n_items; i++) {
        const int level = all || s->group_index[i] == g ? s->r->marks[i].level : 0;
        n = level > mark.level ? 1 : n + (level == mark.level);
        mark.level = level > mark.level ? level : mark.level;
    }
    if (mark.level > 0)
        snprintf(mark.why, sizeof mark.why, "%zu of %zu", n,
                 all ? s->r->file->n_items : s->groups[g].images);
    return mark;
}

/* Writes a table with a row for each group, if there are groups. */
static void put_groups(const summary *s)
{
    wu_page *const page = s->r->page;
    if (!has_groups(s))
        return;
    wu_page_printf(page,
                   "<h2>Groups</h2>\n<div class=scroll><table class=groups>\n"
                   "<thead><tr><th>group</th><th class=n>%ss</th>",
                   wu_report_has_stacks(s->r) ? "stack" : "image");
    put_word_head(s);
    wu_page_printf(page, "<th>mark</th><th class=n>median ");
    wu_page_text(page, wu_report_object_word(s->table));
    wu_page_printf(page, " of a%s <small>(quartiles)</small></th>",
                   wu_report_has_stacks(s->r) ? " stack" : "n image");
    put_found_head(s);
    wu_page_printf(page, "</tr></thead>\n<tbody>\n");
    for (size_t g = 0; g < s->n_groups; g++) {
        char name[256];
        group_of(s, s->groups[g].first, name, sizeof name);
        wu_page_printf(page, "<tr><td>");
        wu_page_text(page, name[0] != '\0' ? name : "(none)");
        wu_page_printf(page, "</td><td class=n>%zu</td><td class=n>%.0f</td>", s->groups[g].images,
                       s->group_stats[g].count);
        const wu_mark mark = worst_mark(s, g, false /* this group */);
        wu_report_put_mark(page, &mark);
        put_quartiles(page, s->group_stats[g].counts, true);
        put_found(s, &s->group_stats[g]);
        wu_page_printf(page, "</tr>\n");
    }
    wu_page_printf(page, "</tbody></table></div>\n");
}

/* Writes the row of a variant. first: whether to write the head of the table before it. */
static void put_variant(const summary *s, const char *name, bool first)
{
    wu_page *const page = s->r->page;
    object_stats all = s->all;
    for (size_t g = 0; g < s->n_groups; g++) {
        all.count += s->group_stats[g].count;
        all.at_border += s->group_stats[g].at_border;
    }
    if (first) {
        wu_page_printf(page, "<div class=scroll><table class=images>\n<thead><tr><th>variant</th>");
        put_word_head(s);
        wu_page_printf(page, "<th>mark</th>");
        put_found_head(s);
        wu_page_printf(page, "</tr></thead>\n<tbody>\n");
    }
    wu_page_printf(page, "<tr><td>");
    wu_page_text(page, name);
    wu_page_printf(page, "</td><td class=n>%.0f</td>", all.count);
    const wu_mark mark = worst_mark(s, 0, true /* all images */);
    wu_report_put_mark(page, &mark);
    put_found(s, &all);
    wu_page_printf(page, "</tr>\n");
}

void wu_report_put_variant_sums(wu_report *reports, const wu_variant *variants, size_t n)
{
    size_t put = 0;
    for (size_t k = 0; k < n; k++) {
        assert(reports[k].summary != NULL);
        if (reports[k].summary->table != NULL)
            put_variant(reports[k].summary, variants[k].name, put++ == 0);
    }
    if (put > 0)
        wu_page_printf(reports[0].page, "</tbody></table></div>\n");
}

/* Chooses the columns of s->per_image for the summary, at most MOST_MEASURED. Leaves out the count,
 * which the summary has in any case, and columns that are the same for all images. */
static tc_status choose_columns(const summary *s, size_t *columns, size_t *n, tc_err *err)
{
    char title[WU_TITLE_MAX];
    TC_AUTOFREE size_t *all = NULL;
    size_t n_all = 0;
    *n = 0;
    if (s->per_image != NULL)
        return_if_error(wu_report_list_columns(s->r, s->per_image, &all, &n_all, err));
    for (size_t i = 0; i < n_all && *n < MOST_MEASURED; i++) {
        wu_column_title(s->per_image, all[i], title);
        if (s->table == NULL || (strcmp(title, "count") != 0 && strcmp(title, s->table->name) != 0))
            columns[(*n)++] = all[i];
    }
    return TC_OK;
}

tc_status wu_report_put_summary(wu_report *r, tc_err *err)
{
    assert(r->summary != NULL);
    const summary *const s = r->summary;
    size_t columns[MOST_MEASURED], n = 0;
    return_if_error(choose_columns(s, columns, &n, err));
    put_headline(s);
    if (has_doubt(s) && r->file->n_items > 1) {
        wu_page_printf(r->page, "<p class=doubt><strong class=look>look</strong> ");
        wu_page_text(r->page, r->suggestion->doubt);
        wu_page_printf(r->page, "</p>\n");
    }
    char excess[sizeof r->marks->why];
    if (describe_excess(s, excess, sizeof excess)) {
        wu_page_printf(r->page, "<p class=note>");
        wu_page_text(r->page, excess);
        wu_page_printf(r->page, "</p>\n");
    }
    wu_page_printf(r->page, "<div class=scroll><table class=images>\n");
    put_head(s, columns, n);
    return_if_error(put_rows(s, columns, n, err));
    wu_page_printf(r->page, "</tbody></table></div>\n");
    put_groups(s);
    return TC_OK;
}

/* --- as CSV files ---------------------------------------------------------------------------- */

/* Writes the lines of items.csv. own: the result's own table of items, whose columns come before
 * the mark; NULL if the result has none. */
static tc_status write_item_rows(const summary *s, const wu_table *own, wu_csv *out, tc_err *err)
{
    TC_AUTO(wu_cursor_close) wu_cursor cursor = { 0 };
    const wu_array_info *info;
    char folder[256];
    tc_status status = own != NULL ? wu_cursor_open(s->r->file, own, &cursor, err) : TC_OK;
    for (size_t i = 0; status == TC_OK && i < s->r->file->n_items; i++) {
        if (own != NULL && !wu_cursor_next(&cursor, &status, err))
            break;
        wu_export_put_item_cells(s->r->file, i, out);
        for (size_t c = 0; own != NULL && c < own->n_columns; c++) {
            const void *const value = wu_cursor_value(&cursor, c, &info);
            wu_csv_put_value(out, info, value);
        }
        group_of(s, i, folder, sizeof folder);
        if (s->grouped)
            wu_csv_put_cell(out, folder);
        wu_csv_put_cell(out, mark_words[s->r->marks[i].level]);
        wu_csv_put_cell(out, s->r->marks[i].why);
        status = wu_csv_end_line(out, err);
    }
    return status;
}

static tc_status write_items(const summary *s, const char *folder, tc_err *err)
{
    const wu_table *const table =
        s->per_image != NULL && wu_is_items_table(s->per_image) ? s->per_image : NULL;
    wu_csv out = { 0 };
    tc_status status = wu_export_open_csv(folder, "items", &out, err);
    if (status == TC_OK) {
        wu_export_put_title_cells(s->r->file, table, &out);
        if (s->grouped)
            wu_csv_put_cell(&out, "group");
        wu_csv_put_cell(&out, "mark");
        wu_csv_put_cell(&out, "why");
        status = wu_csv_end_line(&out, err);
    }
    if (status == TC_OK)
        status = write_item_rows(s, table, &out, err);
    return wu_csv_close(&out, status, err);
}

/* Writes the title of a column of groups.csv to `out`. If `columns` is not NULL, writes the line
 * that describes the column in columns.csv instead. */
static tc_status put_title(wu_csv *out, wu_csv *columns, const char *title, const char *unit,
                           tc_err *err)
{
    if (columns != NULL)
        return wu_export_put_column_line(columns, "groups", title, unit, err);
    wu_csv_put_cell(out, title);
    return TC_OK;
}

/* Writes the titles of all columns of groups.csv to `out`, or the lines that describe them in
 * columns.csv to `columns` (as put_title does). */
static tc_status put_group_titles(const summary *s, wu_csv *out, wu_csv *columns, tc_err *err)
{
    static const char *const words[] = { "q1", "median", "q3" };
    const bool pixel = strcmp(s->length, "px") == 0, voxel = strcmp(s->length, "voxels") == 0;
    const char *const counts[] = { "group", wu_report_has_stacks(s->r) ? "stacks" : "images",
                                   "marked_wrong", wu_report_object_word(s->table), "at_border" };
    char size[WU_TITLE_MAX], title[WU_TITLE_MAX + 16];
    const size_t n_counts = s->border >= 0 ? 5 : 4; /* without a column "border", not at_border */
    for (size_t i = 0; i < n_counts; i++)
        return_if_error(put_title(out, columns, counts[i], NULL, err));
    for (size_t q = 0; q < 3; q++) {
        /* %.5s: "stack" or "image", without the s */
        snprintf(title, sizeof title, "%s_%s_per_%.5s", words[q], counts[3], counts[1]);
        return_if_error(put_title(out, columns, title, NULL, err));
    }
    for (size_t q = 0; q < 3 && s->power > 0; q++) {
        snprintf(title, sizeof title, "%s_diameter%s", words[q], pixel || voxel ? "" : "_um");
        return_if_error(put_title(out, columns, title,
                                  pixel   ? "pixel"
                                  : voxel ? "voxel"
                                          : "um",
                                  err));
    }
    for (size_t q = 0; q < 3 && s->size >= 0; q++) {
        wu_column_title(s->table, (size_t)s->size, size);
        snprintf(title, sizeof title, "%s_%s", words[q], size);
        return_if_error(
            put_title(out, columns, title, wu_column_unit(s->table, (size_t)s->size), err));
    }
    return TC_OK;
}

bool wu_result_has_groups(wu_result_file *file, const wu_tables *tables)
{
    const wu_report r = { .file = file };
    summary s = { .r = &r, .shared = file->n_items > 0 ? shared_folder(file) : 0 };
    tc_err err;
    for (size_t i = 0; i < tables->n; i++)
        s.table = tables->tables[i].has_item_array ? &tables->tables[i] : s.table;
    const bool has = find_groups(&s, &err) == TC_OK && has_groups(&s);
    free(s.groups);
    free(s.group_stats);
    free(s.group_index);
    return has;
}

/* Writes three quartiles to three cells, or nan if they are not known. */
static void put_quartile_cells(wu_csv *out, const double quartile[3], bool known)
{
    static const wu_array_info f64 = { .dtype = WU_F64 };
    const double none = NAN;
    for (size_t q = 0; q < 3; q++)
        wu_csv_put_value(out, &f64, known ? &quartile[q] : &none);
}

/* Writes the cells of a line of groups.csv. */
static void put_group(const summary *s, const char *name, const group *g, const object_stats *f,
                      wu_csv *out)
{
    const double counts[] = { (double)g->images, (double)g->wrong, f->count, (double)f->at_border };
    char text[32];
    wu_csv_put_cell(out, name);
    for (size_t i = 0; i < (s->border >= 0 ? 4 : 3); i++) {
        snprintf(text, sizeof text, "%.0f", counts[i]);
        wu_csv_put_cell(out, text);
    }
    put_quartile_cells(out, f->counts, true);
    if (s->power > 0)
        put_quartile_cells(out, f->diameter, f->measured > 0);
    if (s->size >= 0)
        put_quartile_cells(out, f->quartile, f->measured > 0);
}

/* Writes columns.csv: the units of the columns of all tables, and of the columns that only
 * items.csv and groups.csv have. */
static tc_status write_columns(const summary *s, const char *folder, tc_err *err)
{
    static const char *const titles[] = { "group", "mark", "why" };
    wu_csv out = { 0 };
    tc_status status = wu_export_open_columns_csv(s->r->tables, folder, &out, err);
    for (size_t i = s->grouped ? 0 : 1; i < 3 && status == TC_OK; i++)
        status = wu_export_put_column_line(&out, "items", titles[i], NULL, err);
    if (status == TC_OK && has_groups(s))
        status = put_group_titles(s, NULL, &out, err);
    return wu_csv_close(&out, status, err);
}

static tc_status write_groups(const summary *s, const char *folder, tc_err *err)
{
    wu_csv out = { 0 };
    tc_status status = wu_export_open_csv(folder, "groups", &out, err);
    if (status == TC_OK)
        status = put_group_titles(s, &out, NULL, err);
    if (status == TC_OK)
        status = wu_csv_end_line(&out, err);
    for (size_t g = 0; status == TC_OK && g < s->n_groups; g++) {
        char name[256];
        group_of(s, s->groups[g].first, name, sizeof name);
        put_group(s, name, &s->groups[g], &s->group_stats[g], &out);
        status = wu_csv_end_line(&out, err);
    }
    return wu_csv_close(&out, status, err);
}

tc_status wu_report_write_marks_csv(wu_report *r, const char *folder, bool columns, tc_err *err)
{
    assert(r->summary != NULL);
    const summary *const s = r->summary;
    return_if_error(write_items(s, folder, err));
    if (columns)
        return_if_error(write_columns(s, folder, err));
    if (has_groups(s))
        return_if_error(write_groups(s, folder, err));
    return wu_export_finish_list(folder, err);
}
