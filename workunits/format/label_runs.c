/* Writes and reads a file that has the labels of a result as runs of equal labels. */
#include "workunits/format/label_runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/base/array.h"
#include "app/base/crc32.h"
#include "app/base/files.h"

enum {
    WAITING = 1 << 13,      /* number of runs that are written at a time */
    MOST_PIXELS = 1 << 24,  /* the most pixels of a picture that is kept */
    LEAST_PIXELS_A_RUN = 16 /* the least average length of a picture's runs, in pixels. A picture
                               with shorter runs is not kept, because reading the runs takes as long
                               as decompressing the labels */
};

/* The header before the runs of a picture. */
typedef struct head {
    char magic[4];
    uint32_t array_crc; /* CRC-32 of the result's array */
    uint32_t pixels;    /* number of pixels */
    uint32_t n;         /* number of runs */
    uint32_t runs_crc;  /* CRC-32 of the runs */
} head;

static const char magic[4] = "TXLR";

char *wu_label_runs_path(const char *result)
{
    const size_t room = strlen(result) + sizeof ".labels";
    char *const path = malloc(room);
    if (path != NULL)
        snprintf(path, room, "%s.labels", result);
    return path;
}

/* --- writing --------------------------------------------------------------------------------- */

/* A file of runs that is being written. */
struct wu_run_writer {
    int fd;
    uint64_t at; /* offset in the file of the current picture's header */
    head head;
    bool is_kept;      /* the current picture is kept, so far: it is not too large, its runs are not
                          too short, and no write has failed */
    wu_label_run last; /* the current picture's last run, which the next labels may continue */
    size_t n_waiting;  /* number of runs that are not written to the file yet */
    wu_label_run waiting[WAITING];
};

wu_run_writer *wu_run_writer_open(const char *path)
{
    wu_run_writer *w = calloc(1, sizeof *w);
    if (w == NULL)
        return NULL;
    w->fd = -1;
    if (tc_open_locked(path, path, &w->fd, NULL) != TC_OK || ftruncate(w->fd, 0) != 0)
        wu_run_writer_close(&w);
    return w;
}

void wu_run_writer_begin(wu_run_writer *w)
{
    w->head = (head){ .n = 0 };
    w->last = (wu_label_run){ .n = 0 };
    w->n_waiting = 0;
    w->is_kept = true;
}

/* Writes the waiting runs to the file. */
static void write_waiting(wu_run_writer *w)
{
    const size_t bytes = w->n_waiting * sizeof *w->waiting;
    const uint64_t at = w->at + sizeof w->head + (uint64_t)w->head.n * sizeof *w->waiting;
    w->head.runs_crc = tc_crc32(w->head.runs_crc, w->waiting, bytes);
    w->is_kept = w->is_kept && tc_write_at(w->fd, at, w->waiting, bytes);
    w->head.n += (uint32_t)w->n_waiting;
    w->n_waiting = 0;
}

/* Adds the last run, if there is one, to the waiting runs. */
static void end_run(wu_run_writer *w)
{
    if (w->last.n == 0)
        return;
    w->waiting[w->n_waiting++] = w->last;
    if (w->n_waiting == WAITING)
        write_waiting(w);
}

void wu_run_writer_add(wu_run_writer *w, const uint32_t *labels, size_t n)
{
    w->is_kept = w->is_kept && n <= MOST_PIXELS - w->head.pixels &&
                 w->head.n <= MOST_PIXELS / LEAST_PIXELS_A_RUN;
    if (!w->is_kept)
        return;
    w->head.pixels += (uint32_t)n;
    for (size_t i = 0, end; i < n; i = end) {
        end = wu_label_run_end(labels, i, n);
        if (labels[i] != w->last.label || w->last.n == 0) {
            end_run(w);
            w->last = (wu_label_run){ .label = labels[i] };
        }
        w->last.n += (uint32_t)(end - i);
    }
}

void wu_run_writer_end(wu_run_writer *w, uint32_t crc)
{
    end_run(w);
    write_waiting(w);
    memcpy(w->head.magic, magic, sizeof magic);
    w->head.array_crc = crc;
    if (w->is_kept && w->head.n <= w->head.pixels / LEAST_PIXELS_A_RUN &&
        tc_write_at(w->fd, w->at, &w->head, sizeof w->head))
        w->at += sizeof w->head + (uint64_t)w->head.n * sizeof *w->waiting;
}

void wu_run_writer_close(wu_run_writer **writer)
{
    wu_run_writer *const w = *writer;
    if (w == NULL)
        return;
    if (w->fd >= 0)
        close(w->fd);
    free(w);
    *writer = NULL;
}

/* --- reading --------------------------------------------------------------------------------- */

/* The header of a picture, and the offset in the file at which its runs begin. */
typedef struct picture_place {
    head head;
    uint64_t at;
} picture_place;

/* An open file of runs. */
struct wu_run_reader {
    int fd;
    size_t n, room;        /* number of pictures in the file; allocated elements of `places` */
    picture_place *places; /* [n] */
};

/* Whether bytes read from a file are a valid header. */
static bool is_head(const head *h)
{
    return memcmp(h->magic, magic, sizeof magic) == 0 && h->pixels <= MOST_PIXELS &&
           h->n <= h->pixels / LEAST_PIXELS_A_RUN;
}

wu_run_reader *wu_run_reader_open(const char *path)
{
    wu_run_reader *r = calloc(1, sizeof *r);
    uint64_t size;
    head h;
    if (r == NULL)
        return NULL;
    r->fd = -1;
    if (tc_open_regular(path, &r->fd, &size, NULL) != TC_OK)
        wu_run_reader_close(&r);
    for (uint64_t at = 0; r != NULL && tc_read_all_at(r->fd, at, &h, sizeof h) && is_head(&h);) {
        picture_place *const grown = tc_array_grow(r->places, r->n, &r->room, sizeof *grown);
        if (grown == NULL)
            break;
        r->places = grown;
        r->places[r->n++] = (picture_place){ h, at + sizeof h };
        at += sizeof h + (uint64_t)h.n * sizeof(wu_label_run);
    }
    return r;
}

/* Reads the runs of a picture. Returns NULL if they are damaged, or there is no memory. */
static wu_label_run *load_runs(const wu_run_reader *r, const picture_place *p)
{
    const size_t bytes = p->head.n * sizeof(wu_label_run);
    wu_label_run *const runs = malloc(bytes + 1);
    uint64_t pixels = 0;
    if (runs == NULL || !tc_read_all_at(r->fd, p->at, runs, bytes) ||
        tc_crc32(0, runs, bytes) != p->head.runs_crc) {
        free(runs);
        return NULL;
    }
    for (size_t i = 0; i < p->head.n; i++)
        pixels += runs[i].n;
    if (pixels == p->head.pixels)
        return runs;
    free(runs);
    return NULL;
}

wu_label_run *wu_run_reader_load(const wu_run_reader *r, uint32_t crc, uint64_t pixels, size_t *n)
{
    for (size_t i = 0; r != NULL && i < r->n; i++)
        if (r->places[i].head.array_crc == crc && r->places[i].head.pixels == pixels) {
            *n = r->places[i].head.n;
            return load_runs(r, &r->places[i]);
        }
    return NULL;
}

void wu_run_reader_close(wu_run_reader **reader)
{
    wu_run_reader *const r = *reader;
    if (r == NULL)
        return;
    if (r->fd >= 0)
        close(r->fd);
    free(r->places);
    free(r);
    *reader = NULL;
}
