/*
 * Reads work units: ZIP archives of job.json and pictures. workunits/FORMAT.md specifies the file.
 *
 * Reading has two stages, so that pixels need memory only for one item at a time: wu_job_read
 * checks the whole archive (structure, every member's CRC, job.json, every picture's header) and
 * keeps only the description; wu_item_load decodes the pixels of one item. All input is untrusted:
 * a size in the file is used for an allocation only after it was checked against the limits below
 * and against what the compressed bytes can hold.
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

/* Limits of a work unit, from FORMAT.md. archive.h has those of all archives. */
#define WU_MAX_SIDE 65535u                /* pixels of width and height, and number of slices */
#define WU_MAX_VOXELS ((uint64_t)1 << 30) /* pixels or voxels of one item */
#define WU_MAX_ITEMS 100000u
#define WU_MAX_NAME 128u                 /* bytes of an item's name */
#define WU_MAX_SOURCE 1024u              /* bytes of an item's source */
#define WU_MAX_SOURCES ((size_t)8 << 20) /* bytes of all sources together */
#define WU_MAX_ABOUT 500u                /* bytes of wu_job.about */
#define WU_MAX_LABEL 16777215u           /* largest label of an object: 24 bits */

/* An image or a stack of a work unit. */
typedef struct wu_item {
    char *name;    /* unique; letters, digits, '.', '_', '-' */
    char *source;  /* path of the file or folder from which the item was made, in UTF-8, or NULL if
                      it  is unknown */
    bool is_stack; /* the item is a "stack" (3D), not an "image" (2D) */
    size_t n_images; /* number of PNG members with the pixels: the slices of a stack, or for an
                        image the strips that it is cut into (1 if it is not cut) */
    char **images;   /* [n_images] names of these members: slices, or strips from top to bottom. The
                        list is owned; the names belong to the archive */
    size_t n_masks;  /* number of slices or strips of the mask; 0 if there is no mask. An image and
                        its mask may be cut into different strips */
    char **masks;    /* [n_masks] names of members, like `images` */
    size_t n_labels; /* number of slices or strips of the label picture, like n_masks */
    char **labels;   /* [n_labels] names of members, like `images` */
    uint32_t n_objects; /* the number of different labels except 0 */
    bool has_spacing;   /* the item is a stack, and `spacing` is known */
    double spacing[3];  /* for a stack: size of a voxel, z, y, x in micrometres; 1, 1, 1 if it is
                           unknown */
    bool has_pixel;     /* the item is an image, and the size of its pixels (`pixel`) is known */
    double pixel[2]; /* for an image: size of a pixel, y, x in micrometres; not used by analyses */
    uint32_t nx, ny, nz;       /* width, height, slices (1 for an image) */
    unsigned bits;             /* bits of a sample: 8 or 16 */
    unsigned channels;         /* 1 (grey) or 3 (RGB), as stored in the file */
    uint64_t compressed_bytes; /* size of the item's pictures, masks and labels in the file; 0 if
                                  the item is not from a file */
} wu_item;

/* A work unit: the content of job.json, without the pixels of its items. */
typedef struct wu_job {
    char *path; /* the path given to wu_job_read */
    /* The identity of the file: size, CRC-32 and SHA-256. */
    uint64_t file_size;
    uint32_t file_crc;
    char file_sha256[TC_SHA256_TEXT]; /* "" until wu_job_compute_sha256 has set it */
    char *analysis;     /* the name of the analysis; an analysis of this name need not exist */
    char *about;        /* UTF-8 text for volunteers about the purpose of the work, or NULL */
    json_t *parameters; /* an object (owned) */
    size_t n_items;
    wu_item *items;
    struct wu_archive *archive; /* the list of members (archive.h) */
    struct wu_png_info *heads; /* [archive->n] headers of the pictures that items name (png_io.h) */
    bool only_heads;           /* the job was read by wu_job_read_heads */
    unsigned threads; /* number of threads that decode pixels, set by the caller; 0 means one */
} wu_job;

/* The pixels of one item, with x fastest, then y, then z. Colours are converted to (R + G + B) / 3,
 * rounded down. */
typedef struct wu_pixels {
    uint32_t nx, ny, nz;
    unsigned bits;          /* 8 if the grey values are in u8, 16 if they are in u16 */
    uint8_t *u8;            /* [nz*ny*nx], or NULL */
    uint16_t *u16;          /* [nz*ny*nx], or NULL */
    uint8_t *mask;          /* [nz*ny*nx] 0 or 1; NULL if there is no mask */
    uint32_t *labels;       /* [nz*ny*nx] 0 (no object) to WU_MAX_LABEL; NULL if there are none */
    uint32_t largest_label; /* the largest value in `labels` */
} wu_pixels;

/* Whether a length in micrometres can be the size of a voxel or pixel: from 1 femtometre to 1
 * kilometre. */
static inline bool wu_is_voxel_size(double um)
{
    return um > 1e-9 && um < 1e9;
}

/* The grey value of pixel i = (z * ny + y) * nx + x. */
static inline uint32_t wu_grey_value(const wu_pixels *pixels, size_t i)
{
    return pixels->bits == 8 ? pixels->u8[i] : pixels->u16[i];
}

/* Reads and checks a work unit. Sets *out to the job, to be freed by wu_job_destroy; to NULL after
 * a failure. TC_BAD_INPUT: the message names the file and the wrong key or member. */
tc_status wu_job_read(const char *path, wu_job **out, tc_err *err);
/* Like wu_job_read, but with a poll, which must outlive the job. This function, and later all
 * functions that read the job's file or write its result, pass it to tc_call_poll. */
tc_status wu_job_read_polled(const char *path, const tc_poll *poll, wu_job **out, tc_err *err);

/* Like wu_job_read, but reads only the headers of pictures. For callers that need only some
 * pictures and the job's identity. Damage in a picture's data is found only when the picture is
 * decoded, or by wu_job_read_rest. */
tc_status wu_job_read_heads(const char *path, wu_job **out, tc_err *err);
/* Reads all members of a job from wu_job_read_heads, to check them. TC_BAD_INPUT: a member is
 * damaged.
 */
tc_status wu_job_read_rest(const wu_job *job, tc_err *err);

/* Computes the SHA-256, by reading the file once more. TC_BAD_INPUT: the file has changed since it
 * was first read. */
tc_status wu_job_compute_sha256(wu_job *job, tc_err *err);
/* The identity as results contain it: {"crc32": ..., "size": ..., "sha256": ...};
 * wu_job_compute_sha256 must have been called. The caller owns the reference; NULL if there is no
 * memory. */
json_t *wu_job_identity_json(const wu_job *job);

/* Frees the job and sets *job to NULL; *job may be NULL already. */
void wu_job_destroy(wu_job **job);

/* Decodes the pixels of item `index` into *out, to be freed by wu_pixels_free. TC_INTERNAL: there
 * is no such item. */
tc_status wu_item_load(const wu_job *job, size_t index, wu_pixels *out, tc_err *err);
/* Like wu_item_load, but decodes only the mask and the labels, of an image or of slice z of a
 * stack: out->nz is 1. */
tc_status wu_item_load_regions(const wu_job *job, size_t index, uint32_t z, wu_pixels *out,
                               tc_err *err);
/* Like wu_item_load, for a thread other than the main thread. poll: used in place of the job's
 * poll; several threads may pass it to tc_call_poll at the same time. */
tc_status wu_item_load_in_background(const wu_job *job, size_t index, const tc_poll *poll,
                                     wu_pixels *out, tc_err *err);
void wu_pixels_free(wu_pixels *pixels);
/* Returns the most bytes of memory that decoding an item takes with one thread, including its
 * pixels. Sets *thread_bytes to the additional memory for each further thread. At most one thread
 * per member is used. */
uint64_t wu_item_loading_bytes(const wu_item *item, uint64_t *thread_bytes);

/* Decodes slice z of an item (0 for an image) without converting it. samples: a buffer for
 * ny * nx * channels samples, each of wu_item.bits bits. */
tc_status wu_item_decode_slice(const wu_job *job, size_t index, uint32_t z, void *samples,
                               tc_err *err);

/* Whether an item may have this name, which becomes part of the names of arrays and files: 1 to
 * WU_MAX_NAME letters, digits, '.', '_' and '-', the first not '.'. */
bool wu_is_item_name(const char *name);

/* Whether a text has 1 to `most` bytes and no control characters, as a source (WU_MAX_SOURCE) and
 * wu_job.about (WU_MAX_ABOUT) must. */
bool wu_is_text_line(const char *text, size_t most);

#endif
