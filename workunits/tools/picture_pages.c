/* Decides which pages of a file are read, from its metadata (wu_metadata) and the number of its
 * pages. Sets remarks about doubtful metadata, or refuses the file with the reason and the remedy.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/os.h"
#include "workunits/format/job.h"
#include "workunits/tools/picture_format.h"

/* The texts of the bits of wu_remark, in their order. Each text is printed after "FILE: " and is
 * about that file. "Taken" means that something becomes the pixels of the item. A "text" is a
 * description in the file, and "times" are time points. */
const char *const wu_remarks[WU_REMARKS] = {
    "its lookup table (palette) is only for display; the samples are taken",
    "its palette has the colours of a picture; the colours that it shows are taken",
    "says that 0 is white; its values are inverted, so that 0 is black",
    "is to be shown with an inverting lookup table; the samples are taken, as ImageJ measures them",
    "shows 0 as white or in a colour; other values are inside, or labels, whatever their colours",
    "holds smaller copies of its picture (a pyramid); the full picture is taken",
    "says that it holds more times than it does; the times that are there are taken",
    "has more pages than its text describes; all are taken as slices",
    "its text describes a picture of another size, and is ignored",
    "its text is not read: it is not well-formed XML; the pages are taken as slices",
    "has stray bytes between its segments; all samples could be read",
    "has a colour profile (ICC), which changes nothing: samples are taken as they are stored",
    "is put together from several files, as its OME-XML says",
    "says that it is one of several files of one picture; each is taken by itself, ordered by name",
    "its calibration is not a straight line; the samples are taken without it",
    "contains more images (pages, or frames of an animation) than are read",
    "states the size of a pixel in an unknown unit, so it is not used; --spacing sets it",
    "says that another page follows, where there is none; the pages that are there are taken",
    "states another number of bits than its type has; the size of the file agrees with the type",
    "its slope is infinite; the samples are taken without it",
    "does not say where its samples begin: right after its header, as the size of the file shows",
    "does not say what its pages are: taken as slices; if they are channels, --channel N takes one",
    "does not say what its pages are: they are taken as channels",
};

/* --- metadata and pages ---------------------------------------------------------------------- */

/* The number of planes that the metadata describe. */
static uint64_t planes_described(const wu_metadata *metadata)
{
    return metadata->channels * metadata->frames * metadata->slices;
}

/* Whether the metadata describe a single plane. */
static bool describes_one_plane(const wu_metadata *metadata)
{
    return metadata->channels == 1 && metadata->frames == 1 && metadata->slices == 1;
}

/* The lengths of the axes that are longer than 1, for messages: "2 channels of 5 slices". */
typedef struct axes_text {
    char text[120];
} axes_text;

static axes_text axes_in_words(const wu_metadata *metadata)
{
    const struct {
        uint64_t n;
        const char *name;
    } all[] = { { metadata->channels, "channels" },
                { metadata->frames, "times" },
                { metadata->slices, "slices" } };
    axes_text s = { "" };
    for (size_t i = 0; i < 3; i++)
        if (all[i].n > 1 || (i == 2 && s.text[0] == '\0'))
            snprintf(s.text + strlen(s.text), sizeof s.text - strlen(s.text), "%s%llu %s",
                     s.text[0] != '\0' ? " of " : "", (unsigned long long)all[i].n, all[i].name);
    return s;
}

/* The number of pages, for messages: "4 pages". */
static axes_text pages_in_words(const wu_picture *picture)
{
    axes_text s;
    snprintf(s.text, sizeof s.text, "%llu page%s", (unsigned long long)picture->n_pages,
             picture->n_pages == 1 ? "" : "s");
    return s;
}

/* Returns TC_BAD_INPUT with a message that the number of pages is not the number of planes that the
 * metadata describe. metadata.by names the kind of metadata, such as "its OME-XML". */
static tc_status refuse_count(const wu_picture *picture, tc_err *err)
{
    return tc_fail(
        err, TC_BAD_INPUT,
        "%s: %s says that it holds %s, but it has %s: it is cut short, or was changed by "
        "a program that kept its text; save it again with the program that made it, or as "
        "OME-TIFF with Fiji",
        picture->path, picture->metadata.by, axes_in_words(&picture->metadata).text,
        pages_in_words(picture).text);
}

/* Discards the metadata, which describe another picture, and with them the size of a voxel in
 * micrometres (about.um). others, series: see wu_metadata; 1 stands for a file that has neither
 * further axes nor further pictures. */
static void discard_metadata(wu_picture *picture)
{
    wu_metadata *const metadata = &picture->metadata;
    metadata->by = NULL;
    metadata->channels = metadata->frames = metadata->slices = 1;
    metadata->others = metadata->series = 1;
    metadata->images = 0;
    free(metadata->planes);
    metadata->planes = NULL;
    metadata->n_planes = 0;
    memset(picture->about.um, 0, sizeof picture->about.um);
}

/* Makes the file's own pages the slices, although its metadata name other files of the same
 * picture. Of the metadata, only the size of a voxel is used. */
static void use_own_pages(wu_picture *picture)
{
    double um[3];
    memcpy(um, picture->about.um, sizeof um);
    discard_metadata(picture);
    memcpy(picture->about.um, um, sizeof um);
    picture->metadata.slices = picture->n_pages;
    picture->about.remarks |= WU_REMARK_FILE_ALONE;
}

/* Whether time is the slowest axis in the order of planes, apart from axes of length 1. */
static bool times_are_last(const wu_metadata *metadata)
{
    const char *const at = strchr(metadata->order, 't');
    if (at == NULL)
        return false;
    for (const char *axis = at + 1; *axis != '\0'; axis++)
        if ((*axis == 'z' ? metadata->slices : metadata->channels) > 1)
            return false;
    return true;
}

/* Removes time points from the end of the series until a plane of the last one exists. A recording
 * that was stopped early has no planes of the later time points. */
static void drop_times(wu_picture *picture)
{
    wu_metadata *const metadata = &picture->metadata;
    const size_t planes_a_time = (size_t)(metadata->channels * metadata->slices);
    while (metadata->frames > 1) {
        size_t n_missing = 0; /* number of missing planes before the first one that exists */
        const wu_plane *const last =
            metadata->planes + planes_a_time * (size_t)(metadata->frames - 1);
        while (n_missing < planes_a_time && last[n_missing].page == WU_NO_PAGE)
            n_missing++;
        if (n_missing < planes_a_time)
            break;
        metadata->frames--;
        picture->about.remarks |= WU_REMARK_FEWER_TIMES;
    }
}

bool wu_pages_are_channels(const wu_picture *picture, unsigned samples)
{
    return picture->want.channel > 0 && !picture->want.colour && samples == 1;
}

/* Checks that the lengths of the axes agree with the number of pages. If they do not, two
 * corrections are possible: if the metadata describe a single plane, the pages are slices (or
 * channels); if time is the last axis, and the number of pages is a multiple of the planes of one
 * time point, fewer time points were recorded. Returns TC_BAD_INPUT if neither applies. */
static tc_status check_counts(wu_picture *picture, tc_err *err)
{
    wu_metadata *const metadata = &picture->metadata;
    const uint64_t n = picture->n_pages;
    if (metadata->images > 1 && describes_one_plane(metadata))
        metadata->slices = metadata->images;
    /* `small`: the lengths do not exceed `most`, so that the product of all does not overflow. */
    const uint64_t most = metadata->planes != NULL ? UINT32_MAX : n;
    const bool small = metadata->channels <= most && metadata->frames <= most &&
                       metadata->slices <= most && metadata->channels * metadata->frames <= most;
    if (metadata->images > 1 && small && metadata->images != planes_described(metadata))
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: %s says that it holds %llu images, but also %s; set them right in Fiji "
                       "(Image > Properties) and save it again",
                       picture->path, metadata->by, (unsigned long long)metadata->images,
                       axes_in_words(metadata).text);
    if (metadata->planes != NULL)
        drop_times(picture);
    if (metadata->planes != NULL || (small && planes_described(metadata) == n))
        return TC_OK;
    if (describes_one_plane(metadata)) {
        if (metadata->cut && n > 1)
            return tc_fail(err, TC_BAD_INPUT,
                           "%s: says that another page follows its %llu pages, beyond the end of "
                           "the file: it is cut short; copy it once more, or save the pages that "
                           "are there with Fiji",
                           picture->path, (unsigned long long)n);
        const bool channels =
            metadata->by == NULL && wu_pages_are_channels(picture, picture->samples.channels);
        if (channels)
            metadata->channels = n;
        else
            metadata->slices = n;
        picture->about.remarks |= metadata->by != NULL ? WU_REMARK_EXTRA_PAGES
                                  : channels           ? WU_REMARK_TAKEN_AS_CHANNELS
                                  : picture->want.kind == WU_KIND_IMAGE ? WU_REMARK_TAKEN_AS_SLICES
                                                                        : 0;
        return TC_OK;
    }
    /* n + 1 stands for any number that is too large. */
    const uint64_t planes_a_time = metadata->channels <= n && metadata->slices <= n
                                       ? metadata->channels * metadata->slices
                                       : n + 1;
    if (metadata->frames == 1 || planes_a_time >= n || n % planes_a_time != 0 ||
        n / planes_a_time > metadata->frames || !times_are_last(metadata))
        return refuse_count(picture, err);
    metadata->frames = n / planes_a_time;
    picture->about.remarks |= WU_REMARK_FEWER_TIMES;
    return TC_OK;
}

/* Checks the metadata. If they contradict the file's pages, refuses the file, or corrects or
 * discards the metadata. */
static tc_status check_metadata(wu_picture *picture, tc_err *err)
{
    wu_metadata *const metadata = &picture->metadata;
    if (metadata->refusal[0] != '\0')
        return tc_fail(err, TC_BAD_INPUT, "%s: %s", picture->path, metadata->refusal);
    if (picture->ignores_metadata)
        return TC_OK;
    if (metadata->channels == 0 || metadata->frames == 0 || metadata->slices == 0)
        return refuse_count(picture, err);
    if (picture->want.alone && metadata->n_files > 0) {
        use_own_pages(picture);
        return TC_OK;
    }
    if (metadata->nx > 0 &&
        (metadata->nx != picture->info.nx || metadata->ny != picture->info.ny)) {
        if (picture->n_pages > 1)
            return tc_fail(
                err, TC_BAD_INPUT,
                "%s: %s says that planes have %llu x %llu pixels, but they have %u x %u; "
                "save it again with the program that made it, or with Fiji",
                picture->path, metadata->by, (unsigned long long)metadata->nx,
                (unsigned long long)metadata->ny, picture->info.nx, picture->info.ny);
        discard_metadata(picture);
        picture->about.remarks |= WU_REMARK_TEXT_IGNORED;
    }
    if (metadata->series > 1 &&
        picture->n_pages == 1) { /* the other pictures are in files that the metadata do not name */
        discard_metadata(picture);
        picture->about.remarks |= WU_REMARK_FILE_ALONE;
    }
    if (metadata->series > 1)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: holds %llu pictures (series of OME); save each to a file of its own: "
                       "Fiji (File > Import > Bio-Formats) opens them one by one",
                       picture->path, (unsigned long long)metadata->series);
    if (metadata->others > 1)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: %s describes %llu planes along an axis that is no channel, time or "
                       "slice (%s); save each to a file of its own",
                       picture->path, metadata->by, (unsigned long long)metadata->others,
                       metadata->other);
    return check_counts(picture, err);
}

/* --- the planes that are wanted -------------------------------------------------------------- */

/* The number of pages from one plane to the next along an axis: 'c', 't' or 'z'. */
static uint64_t stride_of(const wu_metadata *metadata, char axis)
{
    uint64_t stride = 1;
    for (const char *at = metadata->order; *at != axis && *at != '\0'; at++)
        stride *= *at == 'c'   ? metadata->channels
                  : *at == 't' ? metadata->frames
                               : metadata->slices;
    return stride;
}

/* Whether the wanted pages are a time series, with one page for each time point. Otherwise they are
 * the slices of one time point. */
static bool pages_are_times(const wu_picture *picture)
{
    return picture->want.time == 0 && picture->metadata.slices <= 1;
}

/* Returns the file and the page in which the k-th of the wanted planes is stored. The wanted planes
 * are those of one channel, and either the slices of one time or all times. */
static wu_plane plane_of(const wu_picture *picture, uint64_t k)
{
    const wu_metadata *const metadata = &picture->metadata;
    const uint64_t time = picture->want.time > 0 ? picture->want.time - 1 : 0;
    const uint64_t c = metadata->channels > 1 ? picture->want.channel - 1 : 0;
    const uint64_t t = pages_are_times(picture) ? k : time, z = pages_are_times(picture) ? 0 : k;
    if (metadata->planes != NULL)
        return metadata->planes[c + metadata->channels * (z + metadata->slices * t)];
    const uint64_t page =
        c * stride_of(metadata, 'c') + t * stride_of(metadata, 't') + z * stride_of(metadata, 'z');
    return (wu_plane){ 0, (uint32_t)page };
}

/* Checks that all wanted planes, and the files that contain them, exist. */
static tc_status check_planes(const wu_picture *picture, tc_err *err)
{
    const wu_metadata *const metadata = &picture->metadata;
    uint32_t checked_file = 0; /* the file of the plane before, which exists */
    for (uint32_t k = 0; metadata->planes != NULL && k < picture->info.nz; k++) {
        const wu_plane plane = plane_of(picture, k);
        if (plane.page == WU_NO_PAGE)
            return tc_fail(err, TC_BAD_INPUT,
                           "%s: %s says that it holds %s, but plane %u of these is missing (the "
                           "file has %s); save it again with the program that made it",
                           picture->path, metadata->by, axes_in_words(metadata).text, k + 1,
                           pages_in_words(picture).text);
        /* The metadata list all files of the picture; without one of them it is incomplete. */
        if (plane.file > 0 && plane.file != checked_file &&
            os_kind_of(metadata->files[plane.file - 1]) != OS_FILE)
            return tc_fail(err, TC_BAD_INPUT,
                           "%s: %s says that it is one of %zu files that are one picture, of which "
                           "%s is not there; put them in one folder, or take this one's own pages "
                           "with --stack and the folder that it is in",
                           picture->path, metadata->by, metadata->n_files + 1,
                           os_base_name(metadata->files[plane.file - 1]));
        checked_file = plane.file;
    }
    return TC_OK;
}

tc_status wu_picture_refuse_colour(const wu_picture *picture, uint64_t channels, tc_err *err)
{
    return tc_fail(err, TC_BAD_INPUT,
                   "%s: has %llu channels, which are not red, green and blue; --channel N, from 1, "
                   "takes one",
                   picture->path, (unsigned long long)channels);
}

/* Masks and label pictures must have a single channel; --channel applies only to images. */
const char *wu_channel_advice(const wu_picture *picture)
{
    return picture->want.kind == WU_KIND_IMAGE ? "--channel N takes one of them"
           : picture->want.kind == WU_KIND_MASK
               ? "a mask has one: save that one to a file of its own"
               : "a label picture has one: save that one to a file of its own";
}

tc_status wu_picture_choose_pages(wu_picture *picture, tc_err *err)
{
    const wu_metadata *const metadata = &picture->metadata;
    const wu_picture_want *const want = &picture->want;
    tc_status status = check_metadata(picture, err);
    if (status != TC_OK || picture->ignores_metadata)
        return status;
    if (metadata->channels > 1 && want->channel == 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: holds %llu channels as pages; %s", picture->path,
                       (unsigned long long)metadata->channels, wu_channel_advice(picture));
    if (metadata->channels > 1 && want->colour)
        return wu_picture_refuse_colour(picture, metadata->channels, err);
    if (metadata->channels > 1 && want->channel > metadata->channels)
        return tc_fail(err, TC_BAD_INPUT, "%s: has %llu channels; %u is none of them",
                       picture->path, (unsigned long long)metadata->channels, want->channel);
    /* The time point was chosen when the file was first read; it then had at least this many. */
    if (want->time > metadata->frames)
        return tc_fail(err, TC_BAD_INPUT, "%s: changed while it was being packed", picture->path);
    const uint64_t n = pages_are_times(picture) ? metadata->frames : metadata->slices;
    if (n > WU_MAX_SIDE || (uint64_t)picture->info.nx * picture->info.ny * n > WU_MAX_VOXELS)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: %llu pages of %u x %u pixels are too many for a work unit",
                       picture->path, (unsigned long long)n, picture->info.nx, picture->info.ny);
    picture->info.nz = (uint32_t)n;
    picture->info.chosen = metadata->channels > 1; /* the pages are those of the wanted channel */
    picture->about.channels = (unsigned long)metadata->channels;
    picture->about.frames = (unsigned long)metadata->frames;
    picture->about.slices = (unsigned long)metadata->slices;
    if (metadata->n_files > 0 && metadata->planes != NULL)
        picture->about.remarks |= WU_REMARK_JOINED_FILES;
    return check_planes(picture, err);
}

/* The other files with planes of this picture; none if the file's own pages are the picture. */
size_t wu_picture_others(const wu_picture *picture, char *const **paths)
{
    *paths = picture->metadata.files;
    return picture->want.alone ? 0 : picture->metadata.n_files;
}

/* --- decoding -------------------------------------------------------------------------------- */

/* Opens metadata.files[file - 1] as picture->other, unless it is open already, and checks that it
 * has the size and type of the picture. */
static tc_status open_other(wu_picture *picture, uint32_t file, tc_err *err)
{
    const char *const path = picture->metadata.files[file - 1];
    if (picture->other != NULL && picture->other_file == file)
        return TC_OK;
    wu_picture_close(&picture->other);
    return_if_error(wu_picture_open_part(path, &picture->want, &picture->other, err));
    const wu_samples *const a = &picture->samples, *const b = &picture->other->samples;
    picture->other_file = file;
    if (picture->decoder == picture->other->decoder &&
        picture->info.nx == picture->other->info.nx &&
        picture->info.ny == picture->other->info.ny && a->type == b->type && a->bits == b->bits &&
        a->channels == b->channels)
        return TC_OK;
    wu_picture_close(&picture->other);
    /* All files that together are one picture must have planes of the same size and type. */
    return tc_fail(err, TC_BAD_INPUT,
                   "%s: differs from %s, with which it is one picture, in size or type", path,
                   picture->path);
}

/* Decodes a page that the metadata declare to be a plane. */
static tc_status decode_plane(wu_picture *from, uint32_t page, void *samples, tc_err *err)
{
    if (page >= from->n_pages)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: has %llu pages, but its metadata name page %u as a plane", from->path,
                       (unsigned long long)from->n_pages, page + 1);
    /* `next` decodes the page with this number, which need not follow the page before. */
    return from->decoder->next(from, page, samples, err);
}

tc_status wu_picture_decode(wu_picture *picture, uint32_t k, void *samples, tc_err *err)
{
    assert(k < picture->info.nz);
    const wu_plane plane = plane_of(picture, k);
    tc_err other;
    if (plane.file == 0)
        return decode_plane(picture, plane.page, samples, err);
    tc_status status = open_other(picture, plane.file, &other);
    if (status == TC_OK)
        status = decode_plane(picture->other, plane.page, samples, &other);
    if (status != TC_OK)
        return tc_fail(err, status, "%s: one of its files: %s", picture->path, other.message);
    picture->alpha_dropped = picture->alpha_dropped || picture->other->alpha_dropped;
    picture->premultiplied = picture->premultiplied || picture->other->premultiplied;
    return TC_OK;
}
