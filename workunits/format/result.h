/*
 * What an analysis hands over for an item (wu_output), and the result file
 * that is put together from all items. workunits/FORMAT.md specifies the file.
 */
#ifndef WU_RESULT_H
#define WU_RESULT_H

#include "workunits/format/declared.h"
#include "workunits/format/job.h"

#define WU_RESULT_FORMAT_NAME "texcell-result"
#define WU_RESULT_FORMAT_VERSION 3
#define WU_RESULT_JSON "result.json"

typedef enum wu_array_kind {
    WU_ROWS, /* concatenated along axis 0 over all items, in item order */
    WU_OWN,  /* an array of this item alone; its name contains the item's */
    WU_ONCE  /* the same for the whole result (feature names) */
} wu_array_kind;

typedef struct wu_out_array {
    wu_array_info info;
    wu_array_kind kind;
    wu_declared declared; /* nothing in an array that was added */
    void *data;           /* owned, unless lent */
    bool lent;
    wu_compressed
        compressed; /* of an array whose data are elsewhere, and compressed; else of size 0 */
} wu_out_array;

typedef struct wu_output {
    size_t n;
    wu_out_array *arrays;
    size_t room; /* for so many */
} wu_output;

/* A number of rows that is not known yet. */
#define WU_ANY_LENGTH UINT64_MAX

/* Adds n arrays without data. Their shapes follow from what is declared: a picture has
 * the item's size, a table one row an item, or WU_ANY_LENGTH if its WU_ITEM array came
 * before; arrays of the whole result have `rows` (there the item may be NULL). Names and
 * titles are copied; what else is pointed to (const tables, parameters) must outlive the
 * output. Every item of a job must declare the same. */
tc_status wu_output_declare(wu_output *out, const wu_declared *declared, size_t n,
                            const wu_item *item, tc_err *err);
/* Adds an array that is not declared, and gives *data, zeroed memory of its size to
 * fill in (owned by the output; NULL for an empty array). width is for WU_STR only. */
tc_status wu_output_add(wu_output *out, wu_array_kind kind, const char *name, wu_dtype dtype,
                        uint32_t width, unsigned ndim, const uint64_t *shape, void **data,
                        tc_err *err);
/* Adds an array whose data are elsewhere, and compressed: wu_npz_begin_compressed. */
tc_status wu_output_add_compressed(wu_output *out, const wu_array_info *info,
                                   const wu_compressed *compressed, tc_err *err);
/* Gives a declared array its data, which stay the caller's and must be there until
 * the output is freed. */
void wu_output_lend(wu_out_array *array, const void *data);
/* Gives every other declared array its data, zeroed (NULL for an empty array), and
 * those of WU_ANY_LENGTH `rows` rows. */
tc_status wu_output_allocate(wu_output *out, uint64_t rows, tc_err *err);
/* The array of that name, or NULL. */
wu_out_array *wu_output_find(const wu_output *out, const char *name);
/* Its data; the array must be there. */
void *wu_output_data(const wu_output *out, const char *name);
/* Copies what is lent, so that it need not stay. */
tc_status wu_output_keep(wu_output *out, tc_err *err);
void wu_output_free(wu_output *out);

/* Where a result's items are (the spool). */
typedef struct wu_result_source {
    void *user;
    /* The output of item `index` again: its WU_OWN arrays, compressed, and all others, or with
     * `only` of these that one alone. On success *out is the callee's to fill, the caller's to
     * free. */
    tc_status (*read)(void *user, size_t index, const char *only, wu_output *out, tc_err *err);
    /* Hands the compressed bytes of an item's array to `take`. */
    tc_status (*copy)(void *user, size_t index, const char *array, wu_take take, void *taker,
                      tc_err *err);
} wu_result_source;

/* Called with the share of something that has been written: 0 to 1. */
typedef struct wu_written {
    void (*report)(void *user, double share);
    void *user;
} wu_written;

/* Compressed bytes that are copied take as long as one that is compressed. */
enum { WU_COPIED = 16 };

/* result.json, of a job that wu_job_identify has been asked of. once: the arrays of the whole
 * result; declared: those of an item. The caller's; NULL: no memory. */
json_t *wu_result_json(const wu_job *job, const json_t *parameters, const wu_output *once,
                       const wu_output *declared);

/* Adds the array item_names, as wide as the longest, and where any item says how large its pixels
 * are item_spacing: [items, 3], z, y, x in micrometres, NaN for what is not said, and for z of a
 * picture. */
tc_status wu_add_item_names(const wu_job *job, wu_output *out, tc_err *err);

/* Writes the result of a job that wu_job_identify has been asked of: result.json, the WU_ONCE
 * arrays, item_names, the WU_ROWS arrays, the WU_OWN arrays. declared: an item's arrays, without
 * data. written: may be NULL. Memory: of one item what is not compressed. */
tc_status wu_result_write(const char *path, const wu_job *job, const json_t *parameters,
                          const wu_output *once, const wu_output *declared,
                          const wu_result_source *source, const wu_written *written, tc_err *err);

#endif
