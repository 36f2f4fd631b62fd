/* Writes the small picture that texcell_graphics shows: see view.h. */
#include "app/view.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "app/base/files.h"
#include "app/base/os.h"

enum {
    VIEW_PAUSE_SECONDS = 2,   /* the shortest time between two pictures */
    VIEW_WATCHED_SECONDS = 5, /* texcell_graphics is assumed to run until this time after it last
                                 wrote the file VIEW_WATCHED */
    VIEW_SHARE = 200          /* at most 1 / VIEW_SHARE of the run time is spent on pictures */
};

bool view_is_due(view *v)
{
    struct stat info;
    const double now = tc_seconds();

    if (now < v->next)
        return false;
    v->began = now;
    v->next = now + VIEW_PAUSE_SECONDS;
    return stat(VIEW_WATCHED, &info) == 0 &&
           difftime(time(NULL), info.st_mtime) <= VIEW_WATCHED_SECONDS;
}

/* Fills f->grey and f->found from every interval-th pixel, in x and y, of the image or of the
 * stack's middle slice. The grey values are scaled to 0 to 255; the first pass finds their range
 * (lo to hi). */
static void reduce_picture(view_file *f, const an_analysis *analysis, const an_work *work,
                           const void *state)
{
    const wu_pixels *const px = work->pixels;
    const uint32_t longest = px->nx > px->ny ? px->nx : px->ny,
                   interval = (longest + VIEW_SIDE - 1) / VIEW_SIDE;
    const size_t slice = (size_t)(px->nz / 2) * px->nx * px->ny;
    unsigned lo = UINT16_MAX, hi = 0;

    f->nx = (px->nx + interval - 1) / interval;
    f->ny = (px->ny + interval - 1) / interval;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t y = 0; y < f->ny; y++)
            for (uint32_t x = 0; x < f->nx; x++) {
                const size_t at = slice + (size_t)y * interval * px->nx + (size_t)x * interval,
                             to = (size_t)y * f->nx + x;
                const unsigned grey = wu_grey_value(px, at);

                lo = grey < lo ? grey : lo;
                hi = grey > hi ? grey : hi;
                if (pass == 0)
                    continue;
                f->grey[to] = (uint8_t)((grey - lo) * 255 / (hi > lo ? hi - lo : 1));
                if (analysis->preview != NULL)
                    f->found[to] = analysis->preview(work, state, at);
            }
}

/* Copies at most size - 1 bytes of a text and a NUL. from: the text; NULL is copied as "". */
static void copy_text(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from != NULL ? from : "");
}

/* Sets the magic and the CRC, and writes VIEW_FILE. */
static void write_file(view_file *f)
{
    const size_t from = offsetof(view_file, nx);
    const int fd = os_open(VIEW_FILE, OS_OVERWRITE);

    if (fd < 0)
        return;
    memcpy(f->magic, VIEW_MAGIC, sizeof f->magic);
    f->crc =
        (uint32_t)crc32_z(crc32_z(0, NULL, 0), (const unsigned char *)f + from, sizeof *f - from);
    /* After an error the CRC in the file is wrong, so the reader ignores the file. */
    (void)tc_write_at(fd, 0, f, sizeof *f);
    close(fd);
}

void view_write(view *v, const an_analysis *analysis, const an_work *work, const void *state,
                double fraction, size_t item, const wu_job *job)
{
    assert(item < job->n_items);
    view_file *const f = calloc(1, sizeof *f);

    if (f == NULL)
        return;
    f->fraction = fraction;
    f->item = item;
    f->n_items = job->n_items;
    f->amounts = analysis->preview_amounts;
    copy_text(f->analysis, sizeof f->analysis, job->analysis);
    copy_text(f->name, sizeof f->name, work->item->name);
    copy_text(f->about, sizeof f->about, job->about);
    bw_get_volunteer(&f->volunteer);
    reduce_picture(f, analysis, work, state);
    write_file(f);
    free(f);
    /* Pauses for VIEW_SHARE times as long as this picture took. */
    const double now = tc_seconds(), pause = VIEW_SHARE * (now - v->began);

    v->next = now + (pause > VIEW_PAUSE_SECONDS ? pause : VIEW_PAUSE_SECONDS);
}
