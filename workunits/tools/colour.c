/*
 * Converts colours to grey: a channel, or the amount of a stain. Stains are separated by the method
 * of A. C. Ruifrok and D. A. Johnston ("Quantification of histochemical staining by color
 * deconvolution", Analytical and Quantitative Cytology and Histology 23 (2001), 291): the optical
 * density of a pixel is the sum of the optical densities of its stains. Pixels are computed in
 * integers. Only the inverse of the matrix of stains is computed in floating point, by sums,
 * products and quotients. So every computer gets the same bytes.
 */
#include "workunits/tools/colour.h"

#include <assert.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/common/real.h"
#include "workunits/format/json_text.h"

enum { STAINS = 3 }; /* greatest number of stains in a set */

/* Two or three stains. row[i]: the optical densities of stain i for red, green and blue. If there
 * are two stains, name[2] is NULL. */
typedef struct stain_set {
    const char *name[STAINS];
    double row[STAINS][3];
} stain_set;

/* Optical densities of stains for red, green and blue, from the article. */
static const double hematoxylin[3] = { 0.650, 0.704, 0.286 }, eosin[3] = { 0.072, 0.990, 0.105 },
                    dab[3] = { 0.268, 0.570, 0.776 };

static void set_stain(stain_set *set, size_t i, const char *name, const double row[3])
{
    set->name[i] = name;
    memcpy(set->row[i], row, sizeof set->row[i]);
}

/* Reads a file of stains. *json owns the names in *out; the caller frees it by json_decref, also
 * after a failure. */
static tc_status read_stains(const char *path, json_t **json, stain_set *out, tc_err *err)
{
    json_error_t where;
    const char *name;
    json_t *list;
    size_t n = 0;
    *json = wu_json_load_file(path, JSON_REJECT_DUPLICATES, &where);
    if (*json == NULL)
        return tc_fail(err, TC_BAD_INPUT, "%s: line %d: %s", path, where.line, where.text);
    bool good =
        json_is_object(*json) && json_object_size(*json) >= 2 && json_object_size(*json) <= STAINS;
    json_object_foreach(*json, name, list) {
        double row[3] = { 0, 0, 0 };
        good = good && json_is_array(list) && json_array_size(list) == 3;
        for (size_t c = 0; good && c < 3; c++) {
            row[c] = json_number_value(json_array_get(list, c));
            /* Optical densities of stains are of the order of 1. */
            good = json_is_number(json_array_get(list, c)) && fabs(row[c]) <= 10;
        }
        if (good)
            set_stain(out, n++, name, row);
    }
    return good
               ? TC_OK
               : tc_fail(err, TC_BAD_INPUT,
                         "%s: must be two or three stains, {\"NAME\": [red, green, blue], ...}, as "
                         "densities",
                         path);
}

/* Sets `out` to the column of the inverse matrix that gives the amount of stain k from the
 * densities of red, green and blue, by Cramer's rule. If there are only two stains, the third row
 * of the matrix is the cross product of their rows. It takes up the part of a pixel's densities
 * that is no mixture of the two stains. Returns false if the matrix is (nearly) singular. */
static bool invert_stains(const stain_set *set, size_t k, double out[3])
{
    double m[3][3];
    memcpy(m, set->row, sizeof m);
    /* The rows of m are stains, its columns c are colours. */
    for (size_t c = 0; set->name[2] == NULL && c < 3; c++)
        m[2][c] = m[0][(c + 1) % 3] * m[1][(c + 2) % 3] - m[0][(c + 2) % 3] * m[1][(c + 1) % 3];
    const double *const a = m[(k + 1) % 3], *const b = m[(k + 2) % 3];
    double det = 0;
    for (size_t c = 0; c < 3; c++) {
        out[c] = a[(c + 1) % 3] * b[(c + 2) % 3] - a[(c + 2) % 3] * b[(c + 1) % 3];
        det += m[k][c] * out[c];
    }
    for (size_t c = 0; c < 3; c++)
        out[c] /= det;
    return fabs(det) > 1e-3; /* also false if a division by 0 made `out` infinite or NaN */
}

/* Sets density[v] to -log10(v / 255) times 2^16, computed from integer logarithms to base 2; the
 * density of the value 0 is taken as 6. */
static void make_densities(int32_t density[256])
{
    static const uint64_t log10_of_2 = 1292913986; /* log10(2) times 2^32 */
    density[0] = 6 << 16;
    for (uint64_t v = 1; v < 256; v++) {
        /* log2(255 / v) times 2^28, from logarithms times 2^80 */
        const uint64_t log2 = (uint64_t)((tc_log2_q80(255) - tc_log2_q80(v)) >> 52);
        /* from units of 2^-28 to 2^-16, rounded */
        density[v] = (int32_t)(((log2 * log10_of_2 >> 32) + (1 << 11)) >> 12);
    }
}

/* Sets `out` for the options --stain and --stains. */
static tc_status choose_stain(const char *stain, const char *stains, wu_colour *out, tc_err *err)
{
    /* The grey value 255 means a density of 1.5, at which a thirtieth of the light is transmitted.
     * Few pixels have a higher density, and the densities of nuclei, 0.2 to 0.5, become clearly
     * different grey values. */
    static const double grey_per_density = 170;
    stain_set set = { .name = { NULL } };
    json_t *json = NULL;
    double column[3];
    size_t k = 0;
    tc_status status = TC_OK;
    const bool he = strcmp(stains, "he") == 0;
    if (he || strcmp(stains, "hdab") == 0) {
        set_stain(&set, 0, "hematoxylin", hematoxylin);
        set_stain(&set, 1, he ? "eosin" : "dab", he ? eosin : dab);
    } else {
        status = read_stains(stains, &json, &set, err);
    }
    while (status == TC_OK && k < STAINS &&
           (set.name[k] == NULL || strcmp(set.name[k], stain) != 0))
        k++;
    if (status == TC_OK && k == STAINS)
        status = tc_fail(err, TC_USAGE, "pack: --stain %s: is not one of --stains %s (%s, %s%s%s)",
                         stain, stains, set.name[0], set.name[1], set.name[2] != NULL ? ", " : "",
                         set.name[2] != NULL ? set.name[2] : "");
    else if (status == TC_OK && !invert_stains(&set, k, column))
        status =
            tc_fail(err, TC_BAD_INPUT, "%s: the stains are too much alike to be separated", stains);
    for (size_t c = 0; status == TC_OK && c < 3; c++)
        out->weight[c] = (int64_t)floor(column[c] * grey_per_density * 65536 + 0.5); /* rounded */
    json_decref(json);
    make_densities(out->density);
    out->is_stain = true;
    out->option = "--stain";
    return status;
}

tc_status wu_colour_choose(const char *channel, const char *stain, const char *stains,
                           wu_colour *out, tc_err *err)
{
    static const char *const names[] = { "grey", "red", "green", "blue" };
    *out = (wu_colour){ .option = NULL };
    if ((stain != NULL) != (stains != NULL))
        return tc_fail(err, TC_USAGE,
                       "pack: --stain NAME and --stains he, hdab or FILE.json go together");
    if (stain != NULL && channel != NULL)
        return tc_fail(err, TC_USAGE, "pack: --channel and --stain exclude each other");
    if (stain != NULL)
        return choose_stain(stain, stains, out, err);
    if (channel == NULL)
        return TC_OK;
    while (out->channel < 4 && strcmp(channel, names[out->channel]) != 0)
        out->channel++;
    out->option = "--channel";
    /* A colour is named; "grey" (0) names none, and asks for the mean. */
    out->is_name = out->channel > 0 && out->channel < 4;
    if (out->channel < 4)
        return TC_OK;
    char *end;
    const unsigned long number = strtoul(channel, &end, 10);
    out->channel = (unsigned)number;
    return channel[0] >= '1' && channel[0] <= '9' && *end == '\0' && number <= 65535
               ? TC_OK
               : tc_fail(err, TC_USAGE,
                         "pack: --channel %s: must be grey, red, green, blue, or a number from 1",
                         channel);
}

/* The grey value of a pixel of three samples: the mean of red, green and blue, rounded down; or the
 * amount of the stain, rounded and limited to 0..255. If a channel was chosen, its pages have only
 * this channel, and no pixel gets here. */
static uint8_t grey_of(const wu_colour *colour, const uint8_t *rgb)
{
    int64_t sum = (int64_t)1 << 31; /* 0.5 in units of 2^-32, for rounding */
    if (!colour->is_stain)
        return (uint8_t)((rgb[0] + rgb[1] + rgb[2]) / 3);
    for (size_t c = 0; c < 3; c++)
        sum += colour->weight[c] * colour->density[rgb[c]];
    return sum < 0 ? 0 : sum >> 32 > 255 ? 255 : (uint8_t)(sum >> 32);
}

void wu_colour_apply(const wu_colour *colour, uint8_t *data, wu_picture_info *info)
{
    assert(info->bits == 8 || info->channels == 1);
    const size_t n = (size_t)info->nx * info->ny;
    /* A page of one channel is grey already. Only a stain changes it, and only if it has 8 bits. */
    if (info->channels == 1 && (info->bits != 8 || !colour->is_stain))
        return;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *const pixel = data + i * info->channels;
        const uint8_t rgb[3] = { pixel[0], pixel[info->channels == 3 ? 1 : 0],
                                 pixel[info->channels == 3 ? 2 : 0] };
        data[i] = grey_of(colour, rgb);
    }
    info->channels = 1;
}
