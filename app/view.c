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

/* VIEW_PAUSE_SECONDS: between two pictures at least. VIEW_WATCHED_SECONDS: how long after the last
 * change of VIEW_WATCHED texcell_graphics is taken to be running. */
enum { VIEW_PAUSE_SECONDS = 2, VIEW_WATCHED_SECONDS = 5 };
/* Pictures may take one VIEW_SHARE-th of the time. */
#define VIEW_SHARE 200

bool view_wanted(view *v)
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

/* Draws the image, or the stack's middle slice: every n-th pixel in x and y, stretched to 0 to 255,
 * and what has been found there. */
static void draw(view_file *f, const an_analysis *analysis, const an_work *work, const void *state)
{
    const wu_pixels *const px = work->pixels;
    const uint32_t longest = px->nx > px->ny ? px->nx : px->ny,
                   every = (longest + VIEW_SIDE - 1) / VIEW_SIDE;
    const size_t slice = (size_t)(px->nz / 2) * px->nx * px->ny;
    unsigned lo = UINT16_MAX, hi = 0;

    f->nx = (px->nx + every - 1) / every;
    f->ny = (px->ny + every - 1) / every;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t y = 0; y < f->ny; y++)
            for (uint32_t x = 0; x < f->nx; x++) {
                const size_t at = slice + (size_t)y * every * px->nx + (size_t)x * every,
                             to = (size_t)y * f->nx + x;
                const unsigned grey = wu_grey(px, at);

                lo = grey < lo ? grey : lo;
                hi = grey > hi ? grey : hi;
                if (pass == 0)
                    continue;
                f->grey[to] = (uint8_t)((grey - lo) * 255 / (hi > lo ? hi - lo : 1));
                if (analysis->found != NULL)
                    f->found[to] = analysis->found(work, state, at);
            }
}

/* Copies a text, cut off to size - 1 bytes; NULL: "". */
static void put_text(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from != NULL ? from : "");
}

static void write_file(view_file *f)
{
    const size_t from = offsetof(view_file, nx);
    const int fd = os_open(VIEW_FILE, OS_OVER);

    if (fd < 0)
        return;
    memcpy(f->magic, VIEW_MAGIC, sizeof f->magic);
    f->crc =
        (uint32_t)crc32_z(crc32_z(0, NULL, 0), (const unsigned char *)f + from, sizeof *f - from);
    /* If the file is cut off, its reader sees that by the CRC. */
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
    f->amounts = analysis->found_amounts;
    put_text(f->analysis, sizeof f->analysis, job->analysis);
    put_text(f->name, sizeof f->name, work->item->name);
    put_text(f->about, sizeof f->about, job->about);
    bw_get_volunteer(&f->volunteer);
    draw(f, analysis, work, state);
    write_file(f);
    free(f);
    const double now = tc_seconds(), pause = VIEW_SHARE * (now - v->began);

    v->next = now + (pause > VIEW_PAUSE_SECONDS ? pause : VIEW_PAUSE_SECONDS);
}
