/* Writes the pictures of a report's page: each item's own picture as PNG and, drawn over it as SVG,
 * the outlines and numbers of the regions and the points that were found. The reader can hide
 * these. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/os.h"
#include "app/base/pool.h"
#include "workunits/tools/canvas.h"
#include "workunits/tools/outline.h"
#include "workunits/tools/report.h"

enum {
    MAX_PANELS = 32,   /* the most slices of a stack that are shown */
    SOME_PANELS = 9,   /* the same if there are many stacks, so that ALL_PANELS would allow fewer */
    ALL_PANELS = 64,   /* approximate number of slices that are shown of all stacks together */
    MAX_NUMBERS = 400, /* a figure of more regions has no numbers, which would be illegible */
    COLOURS = 6,       /* colours of outlines: the classes c0 to c5 of page.css */
    COLOUR_STOPS = 9   /* number of colours that define a colour bar; browsers interpolate */
};

/* A panel: the picture of an image, of a slice, or of the maximum projection of a stack along z. */
typedef struct panel {
    uint32_t z;     /* index of the slice; 0 for images */
    bool projected; /* the panel is the maximum projection */
    void *samples;  /* [sy][sx][channels] samples of the scaled-down picture, of 8 or 16 bits as in
                       the picture itself; owned; NULL if there is no picture */
} panel;

/* An item as the page shows it: each pixel of the page stands for step x step pixels of the item.
 */
typedef struct shown_item {
    const wu_report *r;
    size_t item;
    const wu_item *head;   /* the item in the work unit; NULL if the work unit was not given */
    wu_picture_info info;  /* size and type of a slice before it is scaled down */
    uint32_t nx, ny, nz;   /* size of the item; nz is 0 if no picture shows the item */
    uint32_t step, sx, sy; /* sx x sy: size of a panel in pixels of the page */
    unsigned channels;
    unsigned lo, hi; /* the sample values that are shown as black and as white */
    uint8_t *bytes;  /* [sy][sx][3]: buffer for the picture being written */
    size_t n_panels;
    panel panels[MAX_PANELS + 1];
} shown_item;

/* --- the item and its panels ----------------------------------------------------------------- */

static bool has_points(const wu_report *r)
{
    for (size_t t = 0; t < r->tables->n; t++)
        if (r->points[t].dims > 0)
            return true;
    return false;
}

/* Chooses the panels. An image has one. A stack has evenly spaced slices; if there are points, the
 * first panel is the projection. */
static void choose_panels(shown_item *s)
{
    const size_t room = ALL_PANELS / (s->r->n_items * s->r->n_variants);
    const uint32_t most = room > MAX_PANELS    ? MAX_PANELS
                          : room < SOME_PANELS ? SOME_PANELS
                                               : (uint32_t)room,
                   n = s->nz < most ? s->nz : most;
    if (s->nz > 1 && has_points(s->r))
        s->panels[s->n_panels++].projected = true;
    for (uint32_t i = 0; i < n; i++)
        /* All slices, or the middle slices of n equal parts of the stack. */
        s->panels[s->n_panels++].z =
            n == s->nz ? i : (uint32_t)((2 * (uint64_t)i + 1) * s->nz / (2 * (uint64_t)n));
}

/* Chooses step, sx and sy, such that the pictures of all panels on the page stay small enough. */
static void choose_step(shown_item *s)
{
    s->step = wu_shrink_step(&s->info, s->r->n_items * s->r->n_variants * s->n_panels);
    s->sx = (s->nx + s->step - 1) / s->step;
    s->sy = (s->ny + s->step - 1) / s->step;
}

/* Returns the item with its size and type, which are read from the work unit or from a picture in
 * the result; nz is 0 if there is neither. */
static shown_item shown_item_of(const wu_report *r, size_t item)
{
    const wu_array_info *const info = wu_first_picture(r->file, item);
    const wu_thumbnail *const thumbnail = wu_report_thumbnail(r, item);
    shown_item s = { .r = r,
                     .item = item,
                     .head = r->images != NULL ? &r->images->items[item] : NULL,
                     .channels = 1,
                     .hi = 255 };
    if (s.head != NULL) {
        s.nx = s.head->nx;
        s.ny = s.head->ny;
        s.nz = s.head->nz;
        s.channels = thumbnail != NULL ? thumbnail->channels : s.head->channels;
    } else if (info != NULL) {
        s.nx = (uint32_t)info->shape[info->ndim - 1];
        s.ny = (uint32_t)info->shape[info->ndim - 2];
        s.nz = info->ndim == 3 ? (uint32_t)info->shape[0] : 1;
    }
    s.info = (wu_picture_info){
        .nx = s.nx, .ny = s.ny, .bits = s.head != NULL ? s.head->bits : 8, .channels = s.channels
    };
    return s;
}

static tc_status load_item(wu_report *r, size_t item, shown_item *s, tc_err *err)
{
    *s = shown_item_of(r, item);
    if (s->nz == 0)
        return TC_OK;
    choose_panels(s);
    choose_step(s);
    s->bytes = malloc((size_t)s->sx * s->sy * 3);
    return s->bytes == NULL ? tc_no_memory(err, r->page->path) : TC_OK;
}

/* Sets *index to the item's array of the declared pictures `d` (labels, mask or map), and checks
 * its size. */
static tc_status find_picture(const shown_item *s, const wu_declaration *d, size_t *index,
                              tc_err *err)
{
    const wu_result_file *const file = s->r->file;
    return_if_error(wu_find_declared_array(file, d, file->item_names[s->item], index, err));
    const wu_array_info *const info = wu_npz_array_info(file->npz, *index);
    if (info->shape[info->ndim - 1] != s->nx || info->shape[info->ndim - 2] != s->ny ||
        (info->ndim == 3 ? info->shape[0] : 1) != s->nz)
        return tc_fail(err, TC_BAD_INPUT, "%s: %s: its size differs from the item's", file->path,
                       info->name);
    return TC_OK;
}

static void unload_item(shown_item *s)
{
    for (size_t i = 0; i < s->n_panels; i++)
        free(s->panels[i].samples);
    free(s->bytes);
}

/* Returns the index of the voxel in the middle of the square of voxels that pixel `at` of the page
 * covers. The pixel shows this voxel if values cannot be averaged, such as labels. */
static size_t voxel_of(const shown_item *s, size_t at, uint32_t z)
{
    const uint32_t x = (uint32_t)(at % s->sx) * s->step + s->step / 2,
                   y = (uint32_t)(at / s->sx) * s->step + s->step / 2;
    return ((size_t)z * s->ny + (y < s->ny ? y : s->ny - 1)) * s->nx + (x < s->nx ? x : s->nx - 1);
}

/* --- the item's own picture ------------------------------------------------------------------ */

static unsigned sample_at(const shown_item *s, const void *samples, size_t at)
{
    return s->head->bits == 16 ? ((const uint16_t *)samples)[at] : ((const uint8_t *)samples)[at];
}

static tc_status shrink_picture(const shown_item *s, const void *samples, panel *p, tc_err *err)
{
    return wu_shrink_picture(&s->info, s->step, samples, s->r->page->path, &p->samples, err);
}

/* Sets the samples of all panels. Takes them from the thumbnail that pack kept, if there is one;
 * otherwise reads the work unit slice by slice. */
static tc_status load_panels(shown_item *s, tc_err *err)
{
    const size_t n = (size_t)s->nx * s->ny, bytes = n * s->channels * (s->head->bits / 8);
    panel *const projected = s->panels[0].projected ? &s->panels[0] : NULL;
    wu_thumbnail *const thumbnail = wu_report_thumbnail(s->r, s->item);
    if (thumbnail != NULL) {
        s->panels[0].samples = thumbnail->small;
        thumbnail->small = NULL;
        return TC_OK;
    }
    TC_AUTOFREE uint8_t *const slice = malloc(bytes);
    TC_AUTOFREE uint8_t *const most = calloc(1, projected != NULL ? bytes : 1); /* the projection */
    if (slice == NULL || most == NULL)
        return tc_no_memory(err, s->r->page->path);
    for (uint32_t z = 0, next = projected != NULL; z < s->nz; z++) {
        const bool wanted = next < s->n_panels && s->panels[next].z == z;
        if (!wanted && projected == NULL)
            continue;
        return_if_error(wu_item_decode_slice(s->r->images, s->item, z, slice, err));
        for (size_t i = 0; projected != NULL && i < n; i++) {
            if (sample_at(s, slice, i) <= sample_at(s, most, i))
                continue;
            if (s->head->bits == 16)
                ((uint16_t *)(void *)most)[i] = ((uint16_t *)(void *)slice)[i];
            else
                most[i] = slice[i];
        }
        if (wanted)
            return_if_error(shrink_picture(s, slice, &s->panels[next++], err));
    }
    return projected != NULL ? shrink_picture(s, most, projected, err) : TC_OK;
}

/* Chooses the sample values that are shown as black and as white. For pictures of 8 bits they are 0
 * and 255. For pictures of 16 bits, and for dark grey pictures of 8 bits, they are the least sample
 * and a sample that at most 1 in 200 samples exceeds; a note on the page then states both. */
static tc_status choose_greys(shown_item *s, tc_err *err)
{
    const size_t n = (size_t)s->sx * s->sy * s->channels;
    uint64_t *const histogram = calloc(65536, sizeof *histogram), above = 0;
    unsigned lo = 0, hi = 65535;
    if (histogram == NULL)
        return tc_no_memory(err, s->r->page->path);
    for (size_t k = 0; k < s->n_panels; k++)
        for (size_t i = 0; i < n; i++)
            histogram[sample_at(s, s->panels[k].samples, i)]++;
    while (lo < 65535 && histogram[lo] == 0)
        lo++;
    while (hi > lo && (above += histogram[hi]) * 200 <= n * s->n_panels)
        hi--;
    free(histogram);
    if (s->head->bits == 8 && (s->channels != 1 || hi >= 128))
        return TC_OK;
    s->lo = lo;
    s->hi = hi;
    wu_page_printf(s->r->page, "<p class=note>Greys are shown from %u (black) to %u (white).</p>\n",
                   lo, hi > lo ? hi : lo + 1); /* as byte_of shows them */
    return TC_OK;
}

/* The brightness, 0 to 255, with which a sample is shown. */
static uint8_t byte_of(const shown_item *s, unsigned sample)
{
    const unsigned range = s->hi > s->lo ? s->hi - s->lo : 1,
                   above_black = sample < s->lo ? 0 : sample - s->lo,
                   scaled = range == 255 ? above_black : above_black * 255 / range;
    return (uint8_t)(scaled < 255 ? scaled : 255);
}

/* The brightness of pixel `at` of the page: the mean over its channels, or a light grey if the
 * panel has no picture. */
static uint8_t grey_of(const shown_item *s, const panel *p, size_t at)
{
    enum { LIGHT = 214 };
    unsigned sum = 0;
    if (p->samples == NULL)
        return LIGHT;
    for (unsigned c = 0; c < s->channels; c++)
        sum += sample_at(s, p->samples, at * s->channels + c);
    return byte_of(s, sum / s->channels);
}

/* Writes s->bytes as an image element of the CSS class `layer`. */
static tc_status put_image(shown_item *s, const char *layer, unsigned channels, tc_err *err)
{
    wu_page *const page = s->r->page;
    wu_page_printf(page, "<image class=%s width=\"%u\" height=\"%u\" href=\"", layer,
                   s->sx * s->step, s->sy * s->step);
    const tc_status status =
        wu_page_picture(page, page->path, s->sx, s->sy, channels, s->bytes, err);
    wu_page_printf(page, "\"/>");
    return status;
}

static tc_status put_picture(shown_item *s, const panel *p, tc_err *err)
{
    for (size_t i = 0; p->samples != NULL && i < (size_t)s->sx * s->sy * s->channels; i++)
        s->bytes[i] = byte_of(s, sample_at(s, p->samples, i));
    return p->samples != NULL ? put_image(s, "own", s->channels, err) : TC_OK;
}

/* --- outlines -------------------------------------------------------------------------------- */

/* State of writing an outline as an SVG path. */
typedef struct pen {
    const shown_item *s;
    int64_t x, y;   /* the end of the path, in the item's pixels; x < 0 if the path is empty */
    char text[512]; /* buffer; its first n bytes are not written to the page yet */
    size_t n;
} pen;

static void flush_pen(pen *p)
{
    (void)fwrite(p->text, 1, p->n, p->s->r->page->file);
    p->n = 0;
}

/* Appends `text` and then the number. The last character of `text` is passed to
 * wu_format_number. */
static void put_pen_number(pen *p, const char *text, int64_t number)
{
    const size_t n = strlen(text) - 1;
    if (sizeof p->text - p->n < n + WU_NUMBER_TEXT)
        flush_pen(p);
    memcpy(p->text + p->n, text, n);
    p->n += n;
    p->n += wu_format_number(text[n], number, p->text + p->n);
}

/* Converts a coordinate from pixels of the page to the item's pixels. n: the item's size along this
 * axis. */
static int64_t item_pixel(int64_t at, uint32_t step, uint32_t n)
{
    return at * step < n ? at * step : n;
}

/* Continues the path to the corner (x, y), in pixels of the page. A wu_corner function; user: a
 * pen. */
static void draw_to(void *user, int64_t x, int64_t y)
{
    pen *const p = user;
    x = item_pixel(x, p->s->step, p->s->nx);
    y = item_pixel(y, p->s->step, p->s->ny);
    if (p->x >= 0) { /* h and v draw a horizontal or vertical line of a given length */
        put_pen_number(p, y == p->y ? "h" : "v", y == p->y ? x - p->x : y - p->y);
    } else {
        put_pen_number(p, " d=\"M", x);
        put_pen_number(p, " ", y);
    }
    p->x = x;
    p->y = y;
}

/* Writes the outline that begins at pixel `at` of the page. */
static void put_outline_path(const shown_item *s, const wu_label_grid *g, size_t at)
{
    pen p = { .s = s, .x = -1, .y = -1 };
    const uint32_t label = g->label[at];
    put_pen_number(&p, "<path class=c", label % COLOURS);
    put_pen_number(&p, " data-k=", label);
    wu_outline_follow(g, (int64_t)(at % s->sx), (int64_t)(at / s->sx), draw_to, &p);
    flush_pen(&p);
    fputs("z\"/>", s->r->page->file);
}

/* Writes each region's number at its centroid, unless there are too many regions. */
static tc_status put_numbers(const shown_item *s, const wu_label_grid *g, tc_err *err)
{
    enum { ROOM = 4 * MAX_NUMBERS }; /* number of entries of the hash table `found` */
    /* The regions, in a hash table with open addressing. */
    struct {
        uint32_t label;
        uint64_t n;    /* pixels of the region; 0: the entry is unused */
        uint64_t x, y; /* sums of the pixels' coordinates */
    } *const found = calloc(ROOM, sizeof *found);
    size_t different = 0; /* number of regions found so far */
    if (found == NULL)
        return tc_no_memory(err, s->r->page->path);
    for (size_t i = 0; i < (size_t)s->sx * s->sy && different <= MAX_NUMBERS; i++) {
        size_t at = g->label[i] * (size_t)2654435761u % ROOM; /* Knuth's multiplicative hash */
        if (g->label[i] == 0)
            continue;
        while (found[at].n > 0 && found[at].label != g->label[i])
            at = (at + 1) % ROOM;
        different += found[at].n++ == 0;
        found[at].label = g->label[i];
        found[at].x += i % s->sx;
        found[at].y += i / s->sx;
    }
    wu_page_printf(s->r->page, "<g class=numbers>");
    for (size_t i = 0; i < ROOM && different <= MAX_NUMBERS; i++)
        if (found[i].n > 0)
            wu_page_printf(s->r->page,
                           "<text x=\"%" PRIu64 "\" y=\"%" PRIu64 "\">%" PRIu32 "</text>",
                           found[i].x * s->step / found[i].n + s->step / 2,
                           found[i].y * s->step / found[i].n + s->step / 2, found[i].label);
    wu_page_printf(s->r->page, "</g>");
    free(found);
    return TC_OK;
}

/* Returns the index of the table with this name, or r->tables->n if there is none. */
static size_t table_named(const wu_report *r, const char *name)
{
    size_t t = 0;
    while (name != NULL && t < r->tables->n && strcmp(r->tables->tables[t].name, name) != 0)
        t++;
    return t;
}

/* A label picture or a mask that is shown as outlines. */
typedef struct layer {
    bool labels;    /* a label picture; else a mask of 0 and 1 */
    size_t table;   /* index of the table that has a row for each label, or r->tables->n */
    uint32_t *grid; /* [n_panels][sy][sx] for each pixel of the page, the label or mask value in the
                       middle of its square; owned */
} layer;

/* Writes the outlines of panel k from the top down, until they fill the bytes that are reserved for
 * them: half of WU_REPORT_BYTES, shared equally by all panels of the page. */
static tc_status put_outlines(shown_item *s, const layer *l, size_t k, tc_err *err)
{
    const size_t n = (size_t)s->sx * s->sy;
    wu_page *const page = s->r->page;
    TC_AUTOFREE bool *const seen = calloc(n, sizeof *seen);
    const wu_label_grid g = { s->sx, s->sy, l->grid + k * n, seen };
    if (seen == NULL)
        return tc_no_memory(err, page->path);
    const long start = ftell(page->file),
               room =
                   (long)(WU_REPORT_BYTES / 2 / (s->r->n_items * s->r->n_variants * s->n_panels));
    size_t i = 0, drawn = 0;
    wu_page_printf(page, "<g class=\"outlines %s\" data-t=%zu>", l->labels ? "many" : "one",
                   l->table);
    for (bool full = false; i < n && !full; i++)
        if (wu_outline_begins(&g, (int64_t)(i % s->sx), (int64_t)(i / s->sx))) {
            put_outline_path(s, &g, i);
            /* The room is checked after every 64 outlines, since ftell is a system call. */
            full = ++drawn % 64 == 0 && ftell(page->file) - start >= room;
        }
    wu_page_printf(page, "</g>");
    if (l->labels)
        return_if_error(put_numbers(s, &g, err));
    if (i < n)
        wu_page_printf(page,
                       "<text class=cut x=\"%u\" y=\"%u\">no room for the outlines below</text>",
                       s->nx / 50, (unsigned)(i / s->sx) * s->step);
    return TC_OK;
}

/* --- points, scale --------------------------------------------------------------------------- */

/* The greatest width of a figure in pixels of the screen. */
static double widest_figure(const shown_item *s)
{
    enum {
        ENLARGED = 4, /* most pixels of the screen per pixel of the picture */
        LEAST = 160   /* but a figure may always have this width */
    };
    return fmax((double)ENLARGED * s->nx, LEAST);
}

/* Sets `radii` to the radius with which the analysis searched for points, in pixels along z, y and
 * x, or to 0 if the analysis has no radius. */
static void find_radii(const shown_item *s, double radii[3])
{
    const double radius =
        s->r->radii != NULL
            ? s->r->radii[s->item]
            : json_number_value(json_object_get(
                  json_object_get(wu_npz_json(s->r->file->npz), "parameters"), "radius"));
    for (int i = 0; i < 3; i++)
        radii[i] = s->head != NULL && s->head->has_spacing ? radius / s->head->spacing[i] : radius;
}

/* Writes the item's points as circles with the radius of find_radii. In a slice of a stack, writes
 * the sections of balls with this radius. If there is no radius, writes the points within half a
 * slice of the panel's slice as dots. */
static void put_points(const shown_item *s, const panel *p)
{
    const wu_report *const r = s->r;
    const uint32_t longer = s->nx > s->ny ? s->nx : s->ny;
    double radii[3];
    find_radii(s, radii);
    const double dot = fmax(longer / 150.0, 1);
    for (size_t t = 0; t < r->tables->n; t++) {
        const wu_points *const points = &r->points[t];
        if (points->dims == 0)
            continue;
        wu_page_printf(s->r->page, "<g class=points data-t=%zu>", t);
        for (uint64_t i = 0; i < points->n; i++) {
            const double *const at = points->position + i * points->dims;
            /* away: distance of the point from the slice, in slices; off: the same in radii */
            const double y = at[points->dims - 2], x = at[points->dims - 1],
                         away = p->projected || points->dims < 3 ? 0 : fabs(at[0] - p->z),
                         off = away <= 0.5 ? 0 : away / radii[0];
            if (points->item[i] != (int64_t)s->item ||
                !(y >= -1 && y <= s->ny && x >= -1 && x <= s->nx) || !(off < 1))
                continue;
            const double part = sqrt(1 - off * off); /* radius of the section in radii */
            wu_page_printf(s->r->page,
                           "<ellipse data-k=%" PRIu64
                           " cx=\"%.1f\" cy=\"%.1f\" rx=\"%.1f\" ry=\"%.1f\"/>",
                           i + 1, x + 0.5, y + 0.5, radii[2] > 0 ? part * radii[2] : dot,
                           radii[1] > 0 ? part * radii[1] : dot);
        }
        wu_page_printf(s->r->page, "</g>");
    }
}

/* The font size of the texts of a figure, in pixels of the picture. */
static double font_size(const shown_item *s)
{
    enum { LEAST = 20 }; /* pixels of the screen */
    const uint32_t longer = s->nx > s->ny ? s->nx : s->ny;
    return fmax(longer / 32.0, LEAST * s->nx / widest_figure(s));
}

/* The height, in pixels of the picture, of the strip below it that has the scale bar; 0 if the size
 * of a pixel is not known. */
static double scale_height(const shown_item *s)
{
    const bool known = s->head != NULL && (s->head->has_spacing || s->head->has_pixel);
    return known ? font_size(s) : 0;
}

/* Writes a scale bar. Its length is the largest of 1, 2 or 5 times a power of ten micrometres that
 * is at most a quarter of the width. */
static void put_scale(const shown_item *s)
{
    const double high = scale_height(s);
    if (high == 0)
        return;
    /* um: micrometres per pixel along x; power: the largest power of ten that is at most `most` */
    const double um = s->head->has_pixel ? s->head->pixel[1] : s->head->spacing[2],
                 most = um * s->nx / 4, power = pow(10, floor(log10(most)));
    const double length = most >= 5 * power ? 5 * power : most >= 2 * power ? 2 * power : power;
    wu_page_printf(s->r->page,
                   "<rect class=strip y=\"%u\" width=\"%u\" height=\"%.1f\"/><g class=scale>"
                   "<rect y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"/>"
                   "<text x=\"%.1f\" y=\"%.1f\">%g &#181;m</text></g>",
                   s->ny, s->nx, high, s->ny + 0.4 * high, length / um, 0.3 * high,
                   length / um + 0.4 * high, s->ny + 0.8 * high, length);
}

/* --- figures --------------------------------------------------------------------------------- */

/* For a stack, begins a group of figures of which the page shows one at a time, chosen by a slider.
 */
static void begin_stack(const shown_item *s)
{
    if (s->nz > 1)
        wu_page_printf(s->r->page, "<div class=stack>\n");
}

static void end_stack(const shown_item *s)
{
    if (s->nz > 1)
        wu_page_printf(s->r->page, "</div>\n");
}

static void begin_figure(const shown_item *s, const char *title)
{
    wu_page_printf(s->r->page,
                   "<figure style=\"max-width:%.0fpx\"><svg viewBox=\"0 0 %u %.6g\" "
                   "font-size=\"%.4g\" role=img aria-label=\"",
                   widest_figure(s), s->nx, s->ny + scale_height(s), font_size(s));
    wu_page_text(s->r->page, title);
    wu_page_printf(s->r->page, "\">");
}

static void end_figure(const shown_item *s, const panel *p, const char *title)
{
    if (s->nz > 1 || title[0] != '\0') {
        wu_page_printf(s->r->page, "<figcaption>");
        wu_page_text(s->r->page, title);
        if (p->projected)
            wu_page_printf(s->r->page, " largest greys of all %u slices", s->nz);
        else if (s->nz > 1)
            wu_page_printf(s->r->page, " slice %u of %u", p->z + 1, s->nz);
        wu_page_printf(s->r->page, "</figcaption>");
    }
    wu_page_printf(s->r->page, "</figure>\n");
}

/* The layers of the item: the labels and masks of the result, and the labels of the work unit. */
typedef struct layers {
    size_t n;
    layer *all;
} layers;

/* Returns the index of the table with a key column, which contains labels, or r->tables->n if there
 * is none. */
static size_t table_of_keys(const wu_report *r)
{
    for (size_t t = 0; t < r->tables->n; t++)
        for (size_t i = 0; i < r->tables->tables[t].n_arrays; i++)
            if (r->tables->tables[t].arrays[i].declared->role == WU_KEY)
                return t;
    return r->tables->n;
}

static tc_status add_layer(const shown_item *s, layers *l, bool labels, size_t table, tc_err *err)
{
    layer *const to = &l->all[l->n++];
    *to = (layer){ labels, table, calloc(s->n_panels * s->sx * s->sy, sizeof *to->grid) };
    return to->grid == NULL ? tc_no_memory(err, s->r->page->path) : TC_OK;
}

/* Adds the labels of the work unit as a layer, if it has any. */
static tc_status load_own_labels(const shown_item *s, layers *l, tc_err *err)
{
    const size_t n = (size_t)s->sx * s->sy;
    wu_pixels pixels;
    if (s->head == NULL || s->head->n_labels == 0)
        return TC_OK;
    return_if_error(add_layer(s, l, true /* labels */, table_of_keys(s->r), err));
    return_if_error(wu_item_load(s->r->images, s->item, &pixels, err));
    for (size_t i = 0; i < n * s->n_panels; i++)
        l->all[l->n - 1].grid[i] = pixels.labels[voxel_of(s, i % n, s->panels[i / n].z)];
    wu_pixels_free(&pixels);
    return TC_OK;
}

bool wu_row_is_sampled(const wu_sample_grid *to, uint32_t y)
{
    const uint32_t middle = y / to->step * to->step + to->step / 2;
    return y == (middle < to->ny ? middle : to->ny - 1);
}

void wu_sample_row(const wu_sample_grid *to, uint32_t y, const void *row, bool labels)
{
    assert(y < to->ny && to->grid != NULL);
    const uint32_t at = y / to->step;
    if (!wu_row_is_sampled(to, y))
        return;
    for (uint32_t i = 0; i < to->sx; i++) {
        const uint32_t wanted = i * to->step + to->step / 2,
                       x = wanted < to->nx ? wanted : to->nx - 1;
        to->grid[(size_t)at * to->sx + i] =
            labels ? ((const uint32_t *)row)[x] : ((const uint8_t *)row)[x] != 0;
    }
}

static wu_sample_grid sampling_of(const shown_item *s, uint32_t *grid)
{
    return (wu_sample_grid){ s->nx, s->ny, s->step, s->sx, s->sy, grid };
}

wu_sample_grid wu_report_sample_grid(const wu_report *r, size_t item)
{
    assert(item < r->n_items);
    shown_item s = shown_item_of(r, item);
    if (s.nz != 1)
        return (wu_sample_grid){ .sx = 0 };
    choose_panels(&s);
    choose_step(&s);
    return sampling_of(&s, NULL);
}

/* Samples the array `index` of the result into the layer's grid, reading some rows at a time. */
static tc_status load_rows(const shown_item *s, const layer *l, size_t index, tc_err *err)
{
    const size_t bytes = (size_t)s->nx * (l->labels ? sizeof(uint32_t) : 1);
    const uint32_t most = (uint32_t)(((size_t)1 << 18) / bytes + 1); /* rows: about 256 KiB */
    TC_AUTOFREE uint8_t *const rows = malloc(most * bytes);
    TC_AUTO(wu_npz_stream_close) wu_npz_stream *stream = NULL;
    size_t k = s->panels[0].projected;
    return_if_error(rows == NULL ? tc_no_memory(err, s->r->page->path)
                                 : wu_npz_stream_open(s->r->file->npz, index, &stream, err));
    for (uint32_t z = 0; z < s->nz; z++) {
        const bool wanted = k < s->n_panels && s->panels[k].z == z;
        const wu_sample_grid to = sampling_of(s, l->grid + (wanted ? k : 0) * s->sx * s->sy);
        for (uint32_t y = 0, n; y < s->ny; y += n) {
            n = s->ny - y < most ? s->ny - y : most;
            return_if_error(wu_npz_stream_read(stream, rows, n * bytes, err));
            for (uint32_t i = 0; wanted && i < n; i++)
                wu_sample_row(&to, y + i, rows + i * bytes, l->labels);
        }
        k += wanted;
    }
    return wu_npz_stream_end(stream, err);
}

/* Fills the grid with the sampled labels that wu_report_find_marks kept as runs, each a label and
 * its number of repetitions. Frees the runs. */
static void fill_from_kept(wu_outlines *kept, uint32_t *grid)
{
    for (size_t i = 0; i < kept->n_runs; i++)
        for (uint32_t k = 0; k < kept->runs[i].n; k++)
            *grid++ = kept->runs[i].label;
    free(kept->runs);
    kept->runs = NULL;
}

/* Loads all layers of the item. free_layers must be called, also after a failure. */
static tc_status load_layers(const shown_item *s, layers *l, tc_err *err)
{
    const wu_result_file *const file = s->r->file;
    /* One element more than the declarations, for the labels of the work unit. */
    *l = (layers){ 0, calloc(file->n_declared + 1, sizeof *l->all) };
    if (l->all == NULL)
        return tc_no_memory(err, s->r->page->path);
    for (size_t i = 0; i < file->n_declared; i++) {
        const wu_declaration *const d = &file->declared[i];
        if (d->role != WU_LABELS && d->role != WU_MASK)
            continue;
        size_t index;
        return_if_error(find_picture(s, d, &index, err));
        return_if_error(add_layer(s, l, d->role == WU_LABELS, table_named(s->r, d->table), err));
        wu_outlines *const kept = &s->r->outlined[s->item];
        if (d->role == WU_LABELS && kept->runs != NULL)
            fill_from_kept(kept, l->all[l->n - 1].grid);
        else
            return_if_error(load_rows(s, &l->all[l->n - 1], index, err));
    }
    return load_own_labels(s, l, err);
}

static void free_layers(layers *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->all[i].grid);
    free(l->all);
}

/* State of load_parts, which decodes the work unit's picture (part 0) and the result's layers (part
 * 1) at the same time. */
typedef struct load_call {
    shown_item *s;
    layers *l;
    tc_status status[2];
    tc_err err[2];
} load_call;

/* Loads part 0 or 1. A function for an_pool_run; user: a `load_call`. */
static void load_part(void *user, unsigned thread, size_t part)
{
    load_call *const d = user;
    (void)thread;
    if (part == 1)
        d->status[1] = load_layers(d->s, d->l, &d->err[1]);
    else if (d->s->head != NULL)
        d->status[0] = load_panels(d->s, &d->err[0]);
}

/* Loads the panels' pictures and the layers, at the same time if the item is large. */
static tc_status load_parts(shown_item *s, layers *l, tc_err *err)
{
    const uint64_t worth_a_thread = 1 << 20, /* voxels; smaller items are loaded by one thread */
        n = (uint64_t)s->nx * s->ny * s->nz;
    load_call d = { .s = s, .l = l };
    an_pool *pool = NULL;
    const tc_status status =
        an_pool_create(n > worth_a_thread && os_processors() > 1 ? 2 : 1, &pool, err);
    if (status != TC_OK)
        return status;
    an_pool_run(pool, load_part, &d, 2);
    an_pool_destroy(&pool);
    const size_t first = d.status[0] != TC_OK ? 0 : 1;
    return d.status[first] == TC_OK ? TC_OK
                                    : tc_fail(err, d.status[first], "%s", d.err[first].message);
}

/* Writes a figure for each panel: the picture with the outlines, points and scale bar over it. */
static tc_status put_panels(shown_item *s, const layers *l, tc_err *err)
{
    begin_stack(s);
    for (size_t k = 0; k < s->n_panels; k++) {
        const panel *const p = &s->panels[k];
        begin_figure(s, wu_result_item_title(s->r->file, s->item).text);
        return_if_error(put_picture(s, p, err));
        for (size_t i = 0; !p->projected && i < l->n; i++)
            return_if_error(put_outlines(s, &l->all[i], k, err));
        put_points(s, p);
        put_scale(s);
        wu_page_printf(s->r->page, "</svg>");
        end_figure(s, p, "");
    }
    end_stack(s);
    return TC_OK;
}

/* --- maps ------------------------------------------------------------------------------------ */

/* Writes the colour bar of a map, from its least to its greatest value. */
static void put_bar(wu_page *page, double least, double most)
{
    wu_page_printf(page,
                   "<div class=bar><span>%.4g</span><i style=\"background:linear-gradient(to right",
                   least);
    for (int i = 0; i < COLOUR_STOPS; i++) {
        const wu_rgb c = wu_colour_map(most > least ? i / (COLOUR_STOPS - 1.0) : 0.5);
        wu_page_printf(page, ",#%02x%02x%02x", c.r, c.g, c.b);
    }
    wu_page_printf(page, ")\"></i><span>%.4g</span></div>\n", most);
}

/* Fills s->bytes with the map's colours where it is finite, else with the picture's greys. */
static void colour_panel(shown_item *s, const panel *p, const float *values, double least,
                         double most)
{
    for (size_t i = 0; i < (size_t)s->sx * s->sy; i++) {
        const double value = (double)values[voxel_of(s, i, p->z)];
        const uint8_t grey = grey_of(s, p, i);
        const wu_rgb c = !isfinite(value)
                             ? (wu_rgb){ grey, grey, grey }
                             : wu_colour_map(most > least ? (value - least) / (most - least) : 0.5);
        s->bytes[3 * i] = c.r;
        s->bytes[3 * i + 1] = c.g;
        s->bytes[3 * i + 2] = c.b;
    }
}

/* Writes a figure for each slice of a map. */
static tc_status put_map(shown_item *s, const wu_declaration *d, tc_err *err)
{
    double least = INFINITY, most = -INFINITY;
    TC_AUTOFREE void *data = NULL;
    size_t index;
    return_if_error(find_picture(s, d, &index, err));
    return_if_error(wu_npz_load_array(s->r->file->npz, index, &data, err));
    for (size_t i = 0; i < (size_t)s->nx * s->ny * s->nz; i++) {
        const double value = (double)((const float *)data)[i];
        least = isfinite(value) && value < least ? value : least;
        most = isfinite(value) && value > most ? value : most;
    }
    begin_stack(s);
    for (size_t k = 0; k < s->n_panels; k++) {
        if (s->panels[k].projected)
            continue;
        begin_figure(s, d->title != NULL ? d->title : d->name);
        colour_panel(s, &s->panels[k], data, least, most);
        return_if_error(put_image(s, "map", 3, err));
        put_scale(s);
        wu_page_printf(s->r->page, "</svg>");
        if (least <= most)
            put_bar(s->r->page, least, most);
        end_figure(s, &s->panels[k], d->title != NULL ? d->title : d->name);
    }
    end_stack(s);
    return TC_OK;
}

tc_status wu_report_put_figures(wu_report *r, size_t item, tc_err *err)
{
    assert(item < r->n_items && r->n_variants >= 1);
    TC_AUTO(unload_item) shown_item s;
    TC_AUTO(free_layers) layers l = { 0, NULL };
    return_if_error(load_item(r, item, &s, err));
    if (s.n_panels == 0)
        return TC_OK;
    return_if_error(load_parts(&s, &l, err));
    if (s.head != NULL)
        return_if_error(choose_greys(&s, err));
    wu_page_printf(r->page, "<div class=figures>\n");
    return_if_error(put_panels(&s, &l, err));
    for (size_t i = 0; i < r->file->n_declared; i++)
        if (r->file->declared[i].role == WU_MAP)
            return_if_error(put_map(&s, &r->file->declared[i], err));
    wu_page_printf(r->page, "</div>\n");
    return TC_OK;
}
