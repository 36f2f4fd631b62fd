/* Chooses the pictures from which an analysis suggests parameters. Prints and saves the suggestion,
 * and writes it into a report's page. */
#include "workunits/tools/suggest.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/os.h"
#include "workunits/format/json_text.h"
#include "workunits/tools/pages.h"
#include "workunits/tools/tools.h"

/* --- pictures to look at --------------------------------------------------------------------- */

enum { MOST_SIDE = AN_MIDDLE_SIDE }; /* the most pixels of a side of a picture for the analysis */

/* The grey value of pixel (x, y) of a page. */
static uint32_t grey_of(const void *page, const wu_picture_info *info, size_t x, size_t y)
{
    const size_t at = y * info->nx + x;
    const uint8_t *const bytes = page;
    if (info->bits == 16)
        return ((const uint16_t *)page)[at];
    return info->channels == 3
               ? (uint32_t)(bytes[3 * at] + bytes[3 * at + 1] + bytes[3 * at + 2]) / 3
               : bytes[at];
}

/* Allocates a grey picture of nx x ny pixels and describes it as an item. The caller frees *out by
 * wu_pixels_free. */
static tc_status make_picture(uint32_t nx, uint32_t ny, const wu_picture_info *info, wu_item *item,
                              wu_pixels *out, tc_err *err)
{
    const size_t n = (size_t)nx * ny;
    *out = (wu_pixels){ .nx = nx, .ny = ny, .nz = 1, .bits = info->bits };
    *item = (wu_item){ .name = item->name,
                       .nx = nx,
                       .ny = ny,
                       .nz = 1,
                       .n_images = 1,
                       .bits = info->bits,
                       .channels = 1,
                       .spacing = { 1, 1, 1 } };
    if (info->bits == 16)
        out->u16 = malloc(n * sizeof *out->u16);
    else
        out->u8 = malloc(n);
    return out->u16 != NULL || out->u8 != NULL ? TC_OK : tc_no_memory(err, "a picture");
}

static void put_grey(wu_pixels *px, size_t i, uint32_t grey)
{
    if (px->u16 != NULL)
        px->u16[i] = (uint16_t)grey;
    else
        px->u8[i] = (uint8_t)grey;
}

/* Copies the middle of a page, with sides of at most MOST_SIDE pixels, as grey. */
static tc_status copy_middle(const void *page, const wu_picture_info *info, wu_item *item,
                             wu_pixels *out, tc_err *err)
{
    const uint32_t nx = info->nx < MOST_SIDE ? info->nx : MOST_SIDE,
                   ny = info->ny < MOST_SIDE ? info->ny : MOST_SIDE;
    const uint32_t x0 = (info->nx - nx) / 2, y0 = (info->ny - ny) / 2;
    const tc_status status = make_picture(nx, ny, info, item, out, err);
    for (size_t i = 0; status == TC_OK && i < (size_t)nx * ny; i++)
        put_grey(out, i, grey_of(page, info, x0 + i % nx, y0 + i / nx));
    return status;
}

/* Copies the whole page as grey, reduced to sides of at most MOST_SIDE pixels: each pixel is the
 * mean of k x k pixels. The last rows and columns are left out if they do not fill a square. k is
 * at most the shorter side, so that a very narrow page keeps sides of more than MOST_SIDE pixels.
 */
static tc_status copy_whole(const void *page, const wu_picture_info *info, wu_item *item,
                            wu_pixels *out, tc_err *err)
{
    const uint32_t longer = info->nx > info->ny ? info->nx : info->ny,
                   shorter = info->nx < info->ny ? info->nx : info->ny,
                   wanted = (longer + MOST_SIDE - 1) / MOST_SIDE,
                   k = wanted < shorter ? wanted : shorter;
    const uint32_t nx = info->nx / k, ny = info->ny / k;
    const tc_status status = make_picture(nx, ny, info, item, out, err);
    for (size_t i = 0; status == TC_OK && i < (size_t)nx * ny; i++) {
        uint64_t sum = 0;
        for (size_t j = 0; j < (size_t)k * k; j++)
            sum += grey_of(page, info, i % nx * k + j % k, i / nx * k + j / k);
        put_grey(out, i, (uint32_t)(sum / ((uint64_t)k * k)));
    }
    return status;
}

/* Reads the item's middle page (or its only one). The middle of this page becomes picture i of
 * `out`; the whole page, reduced, becomes picture i of `whole`. */
static tc_status add_picture(wu_source *source, an_pictures *out, an_pictures *whole, size_t i,
                             tc_err *err)
{
    wu_page_reader reader = { .item = source, .kind = WU_KIND_IMAGE, .quiet = true };
    wu_page_buffer buffer = { 0 };
    wu_picture_info info;
    tc_status status = TC_OK;
    for (uint32_t z = 0; status == TC_OK && z <= source->pages.info.nz / 2; z++)
        status = wu_page_next(&reader, &buffer, &info, err);
    wu_page_reader_close(&reader);
    out->items[i].name = whole->items[i].name = source->name;
    if (status == TC_OK)
        status = copy_middle(buffer.data, &info, &out->items[i], &out->pixels[i], err);
    if (status == TC_OK)
        status = copy_whole(buffer.data, &info, &whole->items[i], &whole->pixels[i], err);
    free(buffer.data);
    return status;
}

/* Returns the name of the item's file: the last part of its path. */
static const char *file_of(const wu_source *source)
{
    const char *const slash = strrchr(source->path, '/');
    return slash != NULL ? slash + 1 : source->path;
}

/* Compares two wu_source * for qsort: by the names of their files, then by their order in memory.
 */
static int compare_files(const void *a, const void *b)
{
    const wu_source *const x = *(wu_source *const *)a, *const y = *(wu_source *const *)b;
    const int names = wu_natural_compare(file_of(x), file_of(y));
    return names != 0 ? names : (x > y) - (x < y);
}

/* Chooses the items whose pictures are passed to the analysis, at even intervals in the natural
 * order of file names. The folders are ignored, so that sorting pictures into folders does not
 * change the suggested parameters. out: the middles of the pictures; whole: the reduced pictures.
 */
static tc_status choose_pictures(wu_sources *sources, an_pictures *out, an_pictures *whole,
                                 tc_err *err)
{
    tc_status status = TC_OK;
    const size_t n = sources->n < AN_MAX_PICTURES ? sources->n : AN_MAX_PICTURES;
    TC_AUTOFREE wu_source **const sorted = calloc(sources->n + 1, sizeof(wu_source *));
    *out = (an_pictures){ .n = 0, .unit = 1, .threads = os_processors() };
    if (sorted == NULL)
        return tc_no_memory(err, "a look at the pictures");
    for (size_t i = 0; i < sources->n; i++)
        sorted[i] = &sources->items[i];
    qsort(sorted, sources->n, sizeof(wu_source *), compare_files);
    for (size_t k = 0; status == TC_OK && k < n; k++) {
        wu_source *const source = sorted[n == 1 ? 0 : k * (sources->n - 1) / (n - 1)];
        if (source->fault != NULL)
            continue;
        status = wu_source_keep_fault(source, add_picture(source, out, whole, out->n, err), err);
        if (source->fault != NULL)
            continue;
        out->n++;
        out->of_stacks = out->of_stacks || source->is_stack;
        out->unit = source->is_stack && source->um[2] > 0 ? source->um[2] : 1;
    }
    whole->n = out->n;
    whole->threads = out->threads;
    out->whole = whole;
    if (status == TC_OK && out->n == 0)
        status =
            tc_fail(err, TC_BAD_INPUT, "pack: none of the %zu pictures looked at can be used", n);
    return status;
}

/* --- the suggestion -------------------------------------------------------------------------- */

/* Whether the text needs no quotes in a shell's command line. */
static bool is_plain(const char *text)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,:+-=";
    return text[strspn(text, plain)] == '\0';
}

char *wu_param_text(const char *key, const json_t *value)
{
    const size_t flags = JSON_ENCODE_ANY | JSON_REAL_PRECISION(15) | JSON_COMPACT;
    char *const json =
        json_is_string(value) ? strdup(json_string_value(value)) : json_dumps(value, flags);
    /* 4: a quote in the value is written as four characters, '\'' */
    const size_t room = json != NULL ? sizeof "--param ''=" + strlen(key) + 4 * strlen(json) : 0;
    char *const text = json != NULL ? malloc(room) : NULL;
    if (text != NULL) {
        const char *const quote = is_plain(json) ? "" : "'";
        size_t n = (size_t)snprintf(text, room, "--param %s%s=", quote, key);
        for (const char *at = json; *at != '\0'; at++)
            n += (size_t)snprintf(text + n, room - n, *at == '\'' ? "'\\''" : "%c", *at);
        snprintf(text + n, room - n, "%s", quote);
    }
    free(json);
    return text;
}

tc_status wu_suggest_print(const an_suggestion *s, const char *otherwise, tc_err *err)
{
    const char *key;
    json_t *value;
    wu_print_note("a look at the pictures suggests%s",
                  json_object_size(s->parameters) == 0 ? " nothing that was not given" : otherwise);
    json_object_foreach(s->parameters, key, value) {
        char *const text = wu_param_text(key, value);
        if (text == NULL)
            return tc_no_memory(err, "a suggestion");
        fprintf(stderr, "    %s\n", text);
        free(text);
    }
    if (s->doubt[0] != '\0')
        wu_print_note("%s", s->doubt);
    return TC_OK;
}

tc_status wu_suggest_save(const an_suggestion *s, const char *path, tc_err *err)
{
    wu_new_file out = { .path = NULL };
    json_t *const json = json_pack("{s:O, s:s, s:s*}", "parameters", s->parameters, "doubt",
                                   s->doubt, "each", s->each_doubt);
    tc_status status = json == NULL ? tc_no_memory(err, path) : wu_new_file_open(path, &out, err);
    if (status == TC_OK && json_dumpf(json, out.file, JSON_INDENT(2)) != 0)
        status = tc_fail(err, TC_IO, "%s: cannot be written", path);
    json_decref(json);
    return wu_new_file_close(&out, status, err);
}

tc_status wu_suggest_load(const char *path, an_suggestion *out, tc_err *err)
{
    json_error_t fault;
    json_t *const json = wu_json_load_file(path, 0, &fault);
    const char *const doubt = json_string_value(json_object_get(json, "doubt"));
    *out = (an_suggestion){ .parameters = json }; /* the whole JSON, which owns out->each_doubt */
    if (doubt == NULL)
        return tc_fail(err, TC_BAD_INPUT, "%s: is not a file that pack --suggested has written",
                       path);
    snprintf(out->doubt, sizeof out->doubt, "%s", doubt);
    out->each_doubt = json_string_value(json_object_get(json, "each"));
    return TC_OK;
}

tc_status wu_suggest(const an_analysis *analysis, wu_sources *sources, json_t *parameters,
                     an_suggestion *out, tc_err *err)
{
    assert(analysis->suggest != NULL && json_is_object(parameters));
    an_pictures pictures = { .n = 0 }, whole = { .n = 0 };
    *out = (an_suggestion){ .parameters = json_object() };
    if (out->parameters == NULL)
        return tc_no_memory(err, "a suggestion");
    tc_status status = choose_pictures(sources, &pictures, &whole, err);
    if (status == TC_OK)
        status = analysis->suggest(&pictures, parameters, out, err);
    if (status == TC_OK && json_object_update(parameters, out->parameters) != 0)
        status = tc_no_memory(err, "parameters");
    for (size_t i = 0; i < pictures.n; i++) {
        wu_pixels_free(&pictures.pixels[i]);
        wu_pixels_free(&whole.pixels[i]);
    }
    return status;
}

/* --- on the page ----------------------------------------------------------------------------- */

/* Size of a curve's SVG picture, in SVG's units. */
enum { WIDTH = 320, HEIGHT = 120 };

/* Writes a curve as a figure, a line or bars, with a vertical line at c->mark, the suggested value.
 */
static void put_curve(wu_page *page, const an_curve *c)
{
    double most = 0;
    const double first = c->x[0], last = c->x[c->n - 1], range = last > first ? last - first : 1;
    for (size_t i = 0; i < c->n; i++)
        most = c->y[i] > most ? c->y[i] : most;
    wu_page_printf(page, "<figure class=curve><figcaption>");
    wu_page_text(page, c->title);
    wu_page_printf(page,
                   "</figcaption><svg viewBox=\"0 0 %d %d\" preserveAspectRatio=none role=img "
                   "aria-label=curve>",
                   WIDTH, HEIGHT);
    if (!c->bars)
        wu_page_printf(page, "<path class=line d=\"M");
    for (size_t i = 0; i < c->n; i++) {
        const double x = (c->x[i] - first) / range * WIDTH,
                     y = most > 0 ? c->y[i] / most * (HEIGHT - 4) : 0,
                     bar = (double)WIDTH / (double)c->n;
        if (c->bars)
            wu_page_printf(page, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>",
                           (double)i * bar, HEIGHT - y, bar * 0.9, y);
        else
            wu_page_printf(page, "%s%.1f %.1f", i > 0 ? "L" : "", x, HEIGHT - y);
    }
    if (!c->bars)
        wu_page_printf(page, "\"/>");
    wu_page_printf(page,
                   "<path class=mark d=\"M%.1f 0v%d\"/></svg><div "
                   "class=ends><span>%.4g</span><span>%s</span><span>%.4g</span></div></figure>\n",
                   (c->mark - first) / range * WIDTH, HEIGHT, first, c->x_name, last);
}

tc_status wu_suggest_put(const an_suggestion *s, wu_page *page, tc_err *err)
{
    const char *key;
    json_t *value;
    wu_page_printf(page, "<section class=suggested>\n<h2>Suggested by the pictures</h2>\n<p>");
    wu_page_text(page, s->why);
    if (s->doubt[0] != '\0') {
        wu_page_printf(page, "</p>\n<p><strong>Warning:</strong> ");
        wu_page_text(page, s->doubt);
    }
    wu_page_printf(
        page, "</p>\n<p class=note>Look at what was found above; --sweep tries "
              "values around these. What was given on the command line is not changed.</p>\n<pre>");
    json_object_foreach(s->parameters, key, value) {
        char *const text = wu_param_text(key, value);
        if (text == NULL)
            return tc_no_memory(err, page->path);
        wu_page_text(page, text);
        wu_page_printf(page, "\n");
        free(text);
    }
    wu_page_printf(page, "</pre>\n<div class=curves>\n");
    for (size_t i = 0; i < s->n_curves; i++)
        put_curve(page, &s->curves[i]);
    wu_page_printf(page, "</div>\n</section>\n");
    return TC_OK;
}
