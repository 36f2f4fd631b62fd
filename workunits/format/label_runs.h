/*
 * The runs of labels in the pictures of a result, in a file next to it: who reads the labels right
 * after they were computed need not decompress them. A file that is lost or damaged costs time
 * alone.
 */
#ifndef WU_LABEL_RUNS_H
#define WU_LABEL_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* RESULT.npz.labels; the caller frees. NULL: no memory. */
char *wu_label_runs_path(const char *result);

/* So many pixels have the label; the next row goes on with what is left. */
typedef struct wu_label_run {
    uint32_t n, label;
} wu_label_run;

/* Where the run of equal labels that begins at i ends; i < n. */
static inline size_t wu_label_run_end(const uint32_t *labels, size_t i, size_t n)
{
    enum { AT_ONCE = 16 };
    typedef uint64_t lanes __attribute__((vector_size(16), aligned(4), may_alias));
    const uint32_t label = labels[i];
    const uint64_t two = label * UINT64_C(0x100000001);

    for (; n - i >= AT_ONCE; i += AT_ONCE) {
        const lanes *const v = (const lanes *)(const void *)(labels + i);
        const lanes other = (v[0] ^ two) | (v[1] ^ two) | (v[2] ^ two) | (v[3] ^ two);

        if ((other[0] | other[1]) != 0)
            break;
    }
    while (n - i >= 4 && ((labels[i] ^ label) | (labels[i + 1] ^ label) | (labels[i + 2] ^ label) |
                          (labels[i + 3] ^ label)) == 0)
        i += 4;
    while (i < n && labels[i] == label)
        i++;
    return i;
}

typedef struct wu_run_writer wu_run_writer;

/* NULL: the file cannot be written, and there is none. */
wu_run_writer *wu_run_writer_open(const char *path);
/* A picture: begin, any number of adds, end with the CRC that the result has of its array. What is
 * begun anew is dropped. Of pictures that are large, or whose runs are short, none are kept. */
void wu_run_writer_begin(wu_run_writer *w);
void wu_run_writer_add(wu_run_writer *w, const uint32_t *labels, size_t n);
void wu_run_writer_end(wu_run_writer *w, uint32_t crc);
void wu_run_writer_close(wu_run_writer **w);

typedef struct wu_run_reader wu_run_reader;

/* NULL: there is no file. */
wu_run_reader *wu_run_reader_open(const char *path);
/* The runs of a picture of so many pixels whose array has this CRC, which are as many together;
 * free(). NULL: they are not there. From any thread. */
wu_label_run *wu_run_reader_load(const wu_run_reader *r, uint32_t crc, uint64_t pixels, size_t *n);
void wu_run_reader_close(wu_run_reader **r);

#endif
