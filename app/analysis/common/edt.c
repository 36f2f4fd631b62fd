/* Computes the exact squared Euclidean distance transform, one axis after the other: see edt.h. */
#include "app/analysis/common/edt.h"

#include <assert.h>
#include <string.h>

/* Passes along y and z transform this many adjacent lines of pixels at a time, so that whole cache
 * lines are read. */
enum { COLUMNS = 16 };
/* The least number of pixels in a part of the first pass. */
enum { ROWS_PIXELS = 1 << 16 };

/* The scratch memory of a part: copies of COLUMNS lines, in which the pixels of a line are
 * contiguous, and the parabolas of an envelope (edt_core.h). */
typedef struct scratch {
    uint32_t *line;          /* [COLUMNS][length]: squared distances */
    uint8_t *side;           /* [COLUMNS][length]: 1 for pixels of the mask */
    edt_parabola *parabolas; /* [length + 2] */
} scratch;

/* The length of the longest line along y or z. */
static size_t longest_side(const edt_job *job)
{
    return job->nz > job->ny ? job->nz : job->ny;
}

size_t edt_scratch_bytes(const edt_job *job)
{
    const size_t n = longest_side(job);

    return n * COLUMNS * (sizeof(uint32_t) + 1) + (n + 2) * sizeof(edt_parabola);
}

/* Divides the scratch memory of a part. */
static scratch divide_scratch(const edt_job *job, void *memory)
{
    const size_t n = longest_side(job);
    scratch s;

    s.parabolas = memory;
    s.line = (uint32_t *)(void *)(s.parabolas + n + 2);
    s.side = (uint8_t *)(s.line + n * COLUMNS);
    return s;
}

/* The number of rows in a part of the first pass. */
static size_t rows_of_part(const edt_job *job)
{
    return ROWS_PIXELS / job->nx + 1;
}

size_t edt_parts(const edt_job *job, unsigned pass)
{
    assert(pass < (job->nz > 1 ? 3u : 2u) && job->nx <= 65535 && job->ny <= 65535 &&
           job->nz <= 65535);
    const size_t blocks = ((size_t)job->nx + COLUMNS - 1) / COLUMNS;
    const size_t rows = (size_t)job->ny * job->nz;

    if (pass == 0)
        return (rows + rows_of_part(job) - 1) / rows_of_part(job);
    return blocks * (pass == 1 ? job->nz : job->ny);
}

/* --- along x --------------------------------------------------------------------------------- */

/* Does the first pass for a row of n pixels. */
static void first_pass_row(const uint8_t *mask, uint32_t n, edt_sides sides, uint32_t *out)
{
    for (uint32_t a = 0, b; a < n; a = b) {
        const int inside = mask[a] != 0;

        for (b = a + 1; b < n && (mask[b] != 0) == inside; b++)
            ;
        if (!inside && sides == EDT_INSIDE)
            memset(out + a, 0, (b - a) * sizeof *out);
        else
            for (uint32_t x = a; x < b; x++)
                out[x] = edt_run_distance(x, a, b, n);
    }
}

/* Does a part of the first pass. */
static void first_pass(const edt_job *job, size_t part)
{
    const size_t rows = (size_t)job->ny * job->nz, per_part = rows_of_part(job);
    const size_t end = rows - part * per_part < per_part ? rows : (part + 1) * per_part;

    for (size_t y = part * per_part; y < end; y++)
        first_pass_row(job->mask + y * job->nx, job->nx, job->sides, job->out + y * job->nx);
}

/* --- along y and z --------------------------------------------------------------------------- */

/* Transforms the run [a,b) of a line of n pixels, in place. A run consists of adjacent pixels of
 * one side (of the mask or of the background). */
static void later_pass_run(uint32_t *d2, uint32_t a, uint32_t b, uint32_t n, const edt_line *line)
{
    edt_envelope e;

    if (b - a == 1 && (a > 0 || b < n)) {
        /* The run's neighbour in this line is on the other side, at the distance 1, and no distance
         * to the other side is less. */
        d2[a] = 1;
        return;
    }
    e = edt_begin(line, a, b);
    for (uint32_t u = a; u < b; u++)
        edt_add(line, &e, u, d2[u]);
    edt_end(line, &e, b, n);
    for (uint32_t end = b; e.count > 0; end = edt_stored(line, &e, e.count).start) {
        const edt_parabola p = edt_stored(line, &e, --e.count);

        for (uint32_t u = p.start; u < end; u++)
            d2[u] = edt_value(p.height, p.site, u);
    }
}

/* Transforms a line of n pixels, in place, run by run. side: for each pixel, 1 if it is in the
 * mask, else 0. */
static void later_pass_line(uint32_t *d2, const uint8_t *side, uint32_t n, edt_sides sides,
                            const edt_line *line)
{
    for (uint32_t a = 0, b; a < n; a = b) {
        for (b = a + 1; b < n && side[b] == side[a]; b++)
            ;
        if (side[a] || sides == EDT_BOTH)
            later_pass_run(d2, a, b, n, line);
    }
}

/* Transforms `width` (at most COLUMNS) adjacent lines of n pixels. The first line begins at index
 * `first`; `stride` is the distance between the indices of two pixels of a line. */
static void later_pass_block(const edt_job *job, size_t first, size_t width, size_t stride,
                             uint32_t n, const scratch *s)
{
    const edt_line line = { s->parabolas };

    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < width; c++) {
            s->line[c * n + i] = job->out[first + i * stride + c];
            s->side[c * n + i] = job->mask[first + i * stride + c] != 0;
        }
    for (size_t c = 0; c < width; c++)
        later_pass_line(s->line + c * n, s->side + c * n, n, job->sides, &line);
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < width; c++)
            job->out[first + i * stride + c] = s->line[c * n + i];
}

void edt_part(const edt_job *job, unsigned pass, size_t part, void *memory)
{
    assert(part < edt_parts(job, pass));
    const size_t blocks = ((size_t)job->nx + COLUMNS - 1) / COLUMNS;
    const size_t block = part % blocks, plane = (size_t)job->nx * job->ny;
    const size_t x = block * COLUMNS;
    const size_t width = job->nx - x < COLUMNS ? job->nx - x : COLUMNS;
    const scratch s = divide_scratch(job, memory);

    if (pass == 0)
        first_pass(job, part);
    else if (pass == 1)
        later_pass_block(job, part / blocks * plane + x, width, job->nx, job->ny, &s);
    else
        later_pass_block(job, part / blocks * job->nx + x, width, plane, job->nz, &s);
}
