/*
 * The work unit: a ZIP with job.json and PNG images. workunits/FORMAT.md
 * specifies the file; this is its reader.
 *
 * Reading is in two stages so that memory does not grow with the number of
 * items: wu_job_read checks the whole archive (structure, every member's CRC,
 * job.json, every PNG header) and keeps only the description; wu_item_load
 * decodes one item's pixels. All input is hostile: nothing is allocated from a
 * claimed size before that size was checked against the limits below and
 * against what the compressed bytes could possibly hold.
 */
#ifndef WU_JOB_H
#define WU_JOB_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "app/base/poll.h"
#include "app/base/sha256.h"

#define WU_FORMAT_NAME "texcell-workunit"
#define WU_FORMAT_VERSION 3

/* Limits of a work unit; FORMAT.md states them, and those of every archive
 * (workunits/format/archive.h). */
#define WU_MAX_SIDE 65535u                /* width, height, slices */
#define WU_MAX_VOXELS ((uint64_t)1 << 30) /* pixels or voxels of one item */
#define WU_MAX_ITEMS 100000u
#define WU_MAX_NAME 128u    /* bytes of an item's name */
#define WU_MAX_SOURCE 1024u /* of its source; all sources together: */
#define WU_MAX_SOURCES ((size_t)8 << 20)
#define WU_MAX_ABOUT 500u      /* of what the work is for */
#define WU_MAX_LABEL 16777215u /* largest label of an object: 24 bits */

typedef struct wu_item {
    char *name;    /* unique; letters, digits, '.', '_', '-' */
    char *source;  /* which file or folder it was made of, UTF-8; NULL: not said */
    bool is_stack; /* "stack" (3D) rather than "image" (2D) */
    /* Slices of a stack; of an image 1, or its strips from the top to the bottom */
    size_t n_images;
    char **images;  /* members of the archive; the list is owned, the names are the archive's */
    size_t n_masks; /* 0 (no mask), or slices or strips; an image's and its mask's may differ */
    char **masks;
    size_t n_labels; /* as masks */
    char **labels;
    uint32_t n_objects; /* how many different labels there are, 0 aside */
    bool has_spacing;
    double spacing[3]; /* of a stack: z, y, x in micrometres; 1,1,1 when absent */
    bool has_pixel;
    double pixel[2];           /* of an image: y, x in micrometres; nothing is computed from it */
    uint32_t nx, ny, nz;       /* width, height, slices (1 for an image) */
    unsigned bits;             /* 8 or 16 per sample */
    unsigned channels;         /* 1 grey, 3 RGB, as stored in the file */
    uint64_t compressed_bytes; /* of its pictures, masks and labels in the file; 0 of an item that
                              is in none */
} wu_item;

typedef struct wu_job {
    char *path;         /* as given to wu_job_read */
    uint64_t file_size; /* with CRC-32 and SHA-256 of all bytes of the file: its identity */
    uint32_t file_crc;
    char file_sha256[TC_SHA256_TEXT]; /* "" until wu_job_identify */
    char *analysis;                   /* the name; not checked against any table here */
    char *about;        /* what the work is for, for volunteers, UTF-8; NULL: not said */
    json_t *parameters; /* an object (owned) */
    size_t n_items;
    wu_item *items;
    struct wu_archive *archive; /* the list of members (workunits/format/archive.h) */
    struct wu_png_info
        *heads;       /* per member: of a picture that an item names (workunits/format/png_io.h) */
    bool only_heads;  /* of pictures were read */
    unsigned threads; /* that decode pixels; 0 is 1, and any number may be put in */
} wu_job;

/* The pixels of one item: grey, 8 or 16 bit, x fastest, then y, then z. RGB
 * has become (R+G+B)/3 in integers. */
typedef struct wu_pixels {
    uint32_t nx, ny, nz;
    unsigned bits;    /* 8: u8 holds the data; 16: u16 does */
    uint8_t *u8;      /* nx*ny*nz, or NULL */
    uint16_t *u16;    /* nx*ny*nz, or NULL */
    uint8_t *mask;    /* nx*ny*nz of 0 or 1, or NULL without a mask */
    uint32_t *labels; /* nx*ny*nz of 0 (no object) to WU_MAX_LABEL, or NULL without labels */
    uint32_t largest_label;
} wu_pixels;

/* The grey value of pixel i in that order. */
static inline uint32_t wu_grey(const wu_pixels *pixels, size_t i)
{
    return pixels->bits == 8 ? pixels->u8[i] : pixels->u16[i];
}

/* Reads and checks a work unit. On success *out is the caller's, to be freed
 * with wu_job_destroy. TC_BAD_INPUT with a message naming the file and the key
 * or member at fault otherwise (TC_NO_MEMORY where that is the cause). */
tc_status wu_job_read(const char *path, wu_job **out, tc_err *err);
/* The same under a poll, which is asked by whatever reads or writes for this job from now
 * on, too, and outlives it. */
tc_status wu_job_read_polled(const char *path, const tc_poll *poll, wu_job **out, tc_err *err);

/* The same, but of a picture its header is read alone: for who reads a few of them, and identifies
 * the job. A damaged picture is found when it is read; wu_job_read_rest reads all. */
tc_status wu_job_read_heads(const char *path, wu_job **out, tc_err *err);
/* TC_BAD_INPUT: a member of a job of wu_job_read_heads is damaged. */
tc_status wu_job_read_rest(const wu_job *job, tc_err *err);

/* Finds the SHA-256: reads the file once more, which must be what it was when it was first read
 * (TC_BAD_INPUT). */
tc_status wu_job_identify(wu_job *job, tc_err *err);
/* The identity as results have it: {"crc32": ..., "size": ..., "sha256": ...}, of a job that
 * wu_job_identify has been asked of. The caller's; NULL: no memory. */
json_t *wu_job_identity(const wu_job *job);

/* Frees the job and sets *job to NULL; *job may be NULL already. */
void wu_job_destroy(wu_job **job);

/* Decodes item `index` (TC_INTERNAL: there is none). *out is filled; wu_pixels_free releases it. */
tc_status wu_item_load(const wu_job *job, size_t index, wu_pixels *out, tc_err *err);
/* The same in parallel with the main thread, as long as poll lets it, which may be asked by several
 * threads at a time. */
tc_status wu_item_load_in_background(const wu_job *job, size_t index, const tc_poll *poll,
                                     wu_pixels *out, tc_err *err);
void wu_pixels_free(wu_pixels *pixels);
/* Bytes that decoding an item takes in memory at the peak, its pixels included, and *thread_bytes
 * more for each thread after the first; no more threads decode it than it has members. */
uint64_t wu_item_loading_bytes(const wu_item *item, uint64_t *thread_bytes);

/* Decodes one slice of an item (0: an image) as it is stored: ny * nx * channels
 * samples of item's bits, for which the caller has room. */
tc_status wu_item_image(const wu_job *job, size_t index, uint32_t z, void *samples, tc_err *err);

/* True for a name that may stand in result arrays and file names:
 * 1..WU_MAX_NAME of letters, digits, '.', '_', '-', not beginning with '.'. */
bool wu_name_ok(const char *name);

/* True for what may be a source, or with WU_MAX_ABOUT what is about the work: 1 to `most` bytes
 * without control characters. */
bool wu_line_ok(const char *text, size_t most);

#endif
