/* texcell-wu pack: uses properties that picture files record, such as the size of pixels, and
 * prints notes about those that it does not use. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "workunits/tools/pack_about.h"
#include "workunits/tools/tools.h"

/* The items that a note is about. The note is printed once, with the first item and the number of
 * items. */
typedef struct tally {
    const wu_source *first;
    size_t n;
} tally;

static void count_item(tally *t, const wu_source *item)
{
    t->first = t->n++ == 0 ? item : t->first;
}

static void print_note(const tally *t, const char *text)
{
    char more[40] = "";
    if (t->n > 1)
        snprintf(more, sizeof more, " (and %zu more)", t->n - 1);
    if (t->n > 0)
        wu_print_note("%s%s: %s", t->first->pages.files[0], more, text);
}

/* A size in words: "0.5, 0.2, 0.2 micrometres (z, y, x)"; without z if that is 0. */
typedef struct size_text {
    char text[120];
} size_text;

static size_text size_in_words(const double um[3])
{
    size_text s;
    if (um[0] > 0)
        snprintf(s.text, sizeof s.text, "%.6g, %.6g, %.6g micrometres (z, y, x)", um[0], um[1],
                 um[2]);
    else
        snprintf(s.text, sizeof s.text, "%.6g, %.6g micrometres (y, x)", um[1], um[2]);
    return s;
}

/* Whether two sizes (z, y, x) differ by more than 1% along an axis where both are known (> 0). */
static bool is_different(const double a[3], const double b[3])
{
    bool found = false;
    for (int i = 0; i < 3; i++)
        found = found || (a[i] > 0 && b[i] > 0 && fabs(a[i] - b[i]) > 0.01 * b[i]);
    return found;
}

/* Sets item->um to the size `given` or, if none was given, to the size that the file records. given
 * and um: z, y, x in micrometres. given[2] is 0 if no size was given; given[0] is 0 if only y and x
 * were given, and negative if a single number was given. um: 0 if the size is unknown; um[0] is 0
 * also for images. */
static tc_status choose_size(wu_source *item, const double given[3], tc_err *err)
{
    const double *const file = item->pages.about.um;
    const bool none = given[2] == 0;
    item->um[1] = none ? file[1] : given[1];
    item->um[2] = none ? file[2] : given[2];
    item->um[0] = !item->is_stack ? 0 : given[0] > 0 ? given[0] : file[0];
    if (item->is_stack && given[0] < 0)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: is a stack, and --spacing has one number, which does not say how far "
                       "its slices are apart; give --spacing Z,Y,X, %g,%g,%g if voxels are cubes",
                       item->pages.files[0], given[1], given[1], given[1]);
    if (item->is_stack && !none && item->um[0] == 0)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: is a stack, and neither --spacing nor the file says how far its slices "
                       "are apart; give --spacing Z,Y,X",
                       item->pages.files[0]);
    if (item->is_stack &&
        item->um[0] == 0) /* the three sizes of a stack are all known, or none is */
        item->um[1] = item->um[2] = 0;
    return TC_OK;
}

/* Prints the remarks (wu_remark) about the files that make up the items: pictures, masks and
 * labels. Prints each remark once, with its first file and the number of files. Leaves out items
 * that have a fault. */
static void print_remarks(const wu_sources *sources)
{
    for (size_t k = 0; k < WU_REMARKS; k++) {
        const char *first = NULL;
        size_t n = 0;
        for (size_t i = 0; i < sources->n; i++) {
            const wu_source *const item = &sources->items[i];
            const wu_page_files *const all[] = { &item->pages, &item->mask, &item->labels };
            /* Whether an earlier item, the first time of the file, has the same file. */
            const bool repeated = item->pages.want.time > 1;
            for (size_t m = 0; item->fault == NULL && !repeated && m < 3; m++)
                if (all[m]->n_files > 0 && (all[m]->about.remarks >> k & 1) != 0) {
                    first = n++ == 0 ? all[m]->files[0] : first;
                }
        }
        if (n > 1)
            wu_print_note("%s (and %zu more): %s", first, n - 1, wu_remarks[k]);
        else if (n == 1)
            wu_print_note("%s: %s", first, wu_remarks[k]);
    }
}

tc_status wu_use_recorded_sizes(wu_sources *sources, const double given[3], tc_err *err)
{
    /* The kinds of notes, which are printed below. */
    enum {
        TIMES,      /* the pages are times, but are used as slices */
        TURNED,     /* the file says to rotate or mirror the picture */
        OTHER_SIZE, /* the size that the file records differs from --spacing */
        NO_Z,       /* the file of a stack records the size of a pixel only: it is not used */
        OWN_SIZE,   /* the size of a voxel is the one that the file records */
        FLAT,       /* --spacing has a z, but the item is an image */
        OBLONG,     /* the pixels are not square */
        KINDS       /* number of kinds */
    };
    tally notes[KINDS] = { { NULL, 0 } };
    tc_status status = TC_OK;
    for (size_t i = 0; i < sources->n && status == TC_OK; i++) {
        wu_source *const item = &sources->items[i];
        const wu_picture_about *const about = &item->pages.about;
        if (item->fault != NULL)
            continue;
        status = wu_source_keep_fault(item, choose_size(item, given, err), err);
        if (about->frames > 1 && about->slices <= 1 && item->pages.info.nz > 1)
            count_item(&notes[TIMES], item);
        if (about->orientation != 1)
            count_item(&notes[TURNED], item);
        if (given[0] > 0 && !item->is_stack)
            count_item(&notes[FLAT], item);
        /* The comparison is exact, as is the one that decides whether tables get lengths in
         * micrometres. */
        if (!item->is_stack && item->um[1] != item->um[2])
            count_item(&notes[OBLONG], item);
        if (given[2] > 0 && is_different(about->um, item->um))
            count_item(&notes[OTHER_SIZE], item);
        else if (given[2] == 0 && item->is_stack && about->um[2] > 0)
            count_item(&notes[item->um[0] > 0 ? OWN_SIZE : NO_Z], item);
    }
    if (status != TC_OK)
        return status;
    char text[400];
    print_note(&notes[TIMES],
               "says that its pages are a series of times; with --stack they are the "
               "slices of a stack, without --stack each becomes an item");
    print_note(&notes[TURNED],
               "its orientation tag (Exif) says to rotate or mirror it for display; texcell takes "
               "the pixels as they are stored, and coordinates refer to these. If that matters, "
               "save a rotated copy");
    if (notes[OTHER_SIZE].n > 0)
        snprintf(text, sizeof text,
                 "says that a %s is %s, but --spacing says %s and takes precedence",
                 notes[OTHER_SIZE].first->is_stack ? "voxel" : "pixel",
                 size_in_words(notes[OTHER_SIZE].first->pages.about.um).text,
                 size_in_words(notes[OTHER_SIZE].first->um).text);
    print_note(&notes[OTHER_SIZE], text);
    if (notes[NO_Z].n > 0)
        snprintf(text, sizeof text,
                 "says that a pixel is %s, but not how far slices are apart: sizes are in "
                 "voxels; give --spacing Z,Y,X",
                 size_in_words(notes[NO_Z].first->pages.about.um).text);
    print_note(&notes[NO_Z], text);
    if (notes[OWN_SIZE].n > 0)
        snprintf(text, sizeof text,
                 "a voxel is %s, as the file says; to use another size, give --spacing Z,Y,X",
                 size_in_words(notes[OWN_SIZE].first->um).text);
    print_note(&notes[OWN_SIZE], text);
    print_note(&notes[FLAT],
               "is a picture, not a stack: the first number of --spacing Z,Y,X is ignored");
    if (notes[OBLONG].n > 0)
        snprintf(text, sizeof text,
                 "a pixel is %.9g micrometres high and %.9g wide, as %s. Because it is not square, "
                 "perimeters, axes and diameters are given in pixels only; their columns in um "
                 "hold nan",
                 notes[OBLONG].first->um[1], notes[OBLONG].first->um[2],
                 given[2] > 0 ? "--spacing Y,X says (one number, with a decimal point, sets both)"
                              : "the file says");
    print_note(&notes[OBLONG], text);
    print_remarks(sources);
    return TC_OK;
}
