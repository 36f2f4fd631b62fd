/*
 * Keeps the label pictures of a result as runs of equal labels in a file next to the result, so
 * that a program that reads the labels soon after they were computed need not decompress them. If
 * the file is lost or damaged, the labels are read from the result instead, which takes longer.
 */
#ifndef WU_LABEL_RUNS_H
#define WU_LABEL_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The path of the file with the runs of a result: RESULT.npz.labels. To be freed by the caller;
 * NULL if there is no memory. */
char *wu_label_runs_path(const char *result);

/* A run: n successive pixels, in raster order, with the same label. It may continue in the next
 * row. */
typedef struct wu_label_run {
    uint32_t n, label;
} wu_label_run;

/* The end of the run of equal labels that begins at i < n: the index of the next different label,
 * or n. */
static inline size_t wu_label_run_end(const uint32_t *labels, size_t i, size_t n)
{
    enum { AT_ONCE = 16 }; /* labels compared in a step */
    typedef uint64_t lanes __attribute__((vector_size(16), aligned(4), may_alias));
    const uint32_t label = labels[i];
    const uint64_t two = label * UINT64_C(0x100000001); /* the label in both halves */

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

/* Creates the file of runs. Returns NULL if it cannot be written. */
wu_run_writer *wu_run_writer_open(const char *path);
/* To write a picture, call wu_run_writer_begin, then wu_run_writer_add any number of times, then
 * wu_run_writer_end with the CRC-32 of the picture's array in the result. A picture that was not
 * ended is dropped when the next one begins. A picture that is large, or whose runs are short, is
 * not written. */
void wu_run_writer_begin(wu_run_writer *w);
void wu_run_writer_add(wu_run_writer *w, const uint32_t *labels, size_t n);
void wu_run_writer_end(wu_run_writer *w, uint32_t crc);
void wu_run_writer_close(wu_run_writer **w);

typedef struct wu_run_reader wu_run_reader;

/* Opens the file of runs. Returns NULL if it does not exist. */
wu_run_reader *wu_run_reader_open(const char *path);
/* Returns the runs of the picture with this number of pixels whose array has this CRC-32, to be
 * freed by free(), and sets *n to their number. Returns NULL if the file does not have this
 * picture. May be called from any thread. */
wu_label_run *wu_run_reader_load(const wu_run_reader *r, uint32_t crc, uint64_t pixels, size_t *n);
void wu_run_reader_close(wu_run_reader **r);

#endif
