/*
 * The arrays that an analysis makes for an item (wu_output), and the writer of result files, which
 * contain the arrays of all items. workunits/FORMAT.md specifies the file.
 */
#ifndef WU_RESULT_H
#define WU_RESULT_H

#include "workunits/format/declared.h"
#include "workunits/format/job.h"

#define WU_RESULT_FORMAT_NAME "texcell-result"
#define WU_RESULT_FORMAT_VERSION 3
#define WU_RESULT_JSON "result.json"

/* How an item's array enters the result. */
typedef enum wu_array_kind {
    WU_ROWS,     /* the result has one array for all items: the items' arrays in their order,
                    concatenated along axis 0 */
    WU_PER_ITEM, /* the result has such an array for each item; the item's name is in its name */
    WU_ONCE      /* the result has this array once, such as the names of features */
} wu_array_kind;

/* An array of an item's output. */
typedef struct wu_out_array {
    wu_array_info info;
    wu_array_kind kind;
    wu_declaration declared;  /* empty if the array was added by wu_output_add... */
    void *data;               /* owned, unless lent */
    bool lent;                /* the caller of wu_output_lend owns the data */
    wu_compressed compressed; /* sizes and CRC, if wu_output_add_compressed added the array;
                                 otherwise its size is 0 */
} wu_out_array;

/* The arrays of an item, or of the whole result. */
typedef struct wu_output {
    size_t n;
    wu_out_array *arrays;
    size_t room; /* allocated elements of `arrays` */
} wu_output;

/* Stands for the number of rows in an array's shape while this number is not known. */
#define WU_ANY_LENGTH UINT64_MAX

/* Adds n arrays, as declared, without data. A picture has the item's size. An array of a table has
 * one row for the item, or WU_ANY_LENGTH rows if the table's WU_ITEM array was declared before it.
 * An array of the whole result has declared.rows rows; `item` may be NULL if all arrays are of this
 * kind. Names are copied; everything else that the declarations point to must outlive the output.
 * All items of a job must have the same declarations. */
tc_status wu_output_declare(wu_output *out, const wu_declaration *declared, size_t n,
                            const wu_item *item, tc_err *err);
/* Adds an array without a declaration. Sets *data to its zeroed data, to be filled by the caller
 * and owned by the output; to NULL if the array is empty. width: for WU_STR; otherwise 0. */
tc_status wu_output_add(wu_output *out, wu_array_kind kind, const char *name, wu_dtype dtype,
                        uint32_t width, unsigned ndim, const uint64_t *shape, void **data,
                        tc_err *err);
/* Adds an array whose data are compressed (see wu_npz_begin_compressed) and not in memory. */
tc_status wu_output_add_compressed(wu_output *out, const wu_array_info *info,
                                   const wu_compressed *compressed, tc_err *err);
/* Sets the data of a declared array to memory of the caller, which must remain valid until the
 * output is freed. */
void wu_output_lend(wu_out_array *array, const void *data);
/* Allocates zeroed data for every declared array that has none (NULL if it is empty), after
 * replacing WU_ANY_LENGTH by `rows`. */
tc_status wu_output_allocate(wu_output *out, uint64_t rows, tc_err *err);
/* Returns the array of this name, or NULL if there is none. */
wu_out_array *wu_output_find(const wu_output *out, const char *name);
/* The data of the array of this name, which must exist. */
void *wu_output_data(const wu_output *out, const char *name);
/* Replaces lent data by copies that the output owns. */
tc_status wu_output_copy_lent(wu_output *out, tc_err *err);
void wu_output_free(wu_output *out);

/* Functions that provide the arrays of a result's items; in texcell they read the spool, the file
 * of finished items. */
typedef struct wu_result_source {
    void *user;
    /* Reads the output of item `index`: its WU_PER_ITEM arrays without data, since their data are
     * compressed, and its other arrays with data. If `only` is not NULL, reads of the other arrays
     * only the one of this name. The caller frees *out after success. */
    tc_status (*read)(void *user, size_t index, const char *only, wu_output *out, tc_err *err);
    /* Passes the compressed bytes of an item's array to `take`, with the argument `taker`. */
    tc_status (*copy)(void *user, size_t index, const char *array, wu_receive_fn take, void *taker,
                      tc_err *err);
} wu_result_source;

/* A callback for progress: the share of the result, 0 to 1, that has been written. */
typedef struct wu_write_progress {
    void (*report)(void *user, double share);
    void *user;
} wu_write_progress;

/* Copying this many compressed bytes takes as long as compressing one byte. */
enum { WU_COPY_SPEEDUP = 16 };

/* Makes the JSON of result.json. wu_job_compute_sha256 must have been called for the job. once: the
 * WU_ONCE arrays; declared: the arrays of an item. The caller owns the reference, which is NULL if
 * there is no memory. */
json_t *wu_result_json(const wu_job *job, const json_t *parameters, const wu_output *once,
                       const wu_output *declared);

/* Adds the array item_names, and, if the size of pixels is known for any item, item_spacing:
 * [items, 3], z, y, x in micrometres, with NaN for unknown sizes and for z of a picture. */
tc_status wu_add_item_names(const wu_job *job, wu_output *out, tc_err *err);

/* Writes the result of a job: result.json, the WU_ONCE arrays, item_names, the WU_ROWS arrays, the
 * WU_PER_ITEM arrays. wu_job_compute_sha256 must have been called for the job. declared: an item's
 * arrays, without data. written: may be NULL. Needs memory for the arrays of one item, except the
 * compressed ones. */
tc_status wu_result_write(const char *path, const wu_job *job, const json_t *parameters,
                          const wu_output *once, const wu_output *declared,
                          const wu_result_source *source, const wu_write_progress *written,
                          tc_err *err);

#endif
