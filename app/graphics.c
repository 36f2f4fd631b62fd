/*
 * texcell_graphics: shows the work of texcell in a window or, with --fullscreen, as a screensaver.
 * BOINC's Manager starts it in the task's slot folder. It reads the picture that texcell writes
 * there (VIEW_FILE), and writes a file (VIEW_WATCHED) as long as it runs, since texcell writes the
 * picture only while that file is new (view.h). Whatever happens to this program, the task
 * continues.
 */
#include <GL/freeglut.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "app/base/files.h"
#include "app/base/os.h"
#include "app/view.h"

enum {
    TEXTURE_SIDE = 512, /* pixels; a power of two, which old drivers require */
    READ_MS = 1000,     /* milliseconds between two readings of VIEW_FILE */
    LINE = 24,          /* height of a line of text, in pixels */
    MARGIN = 16,        /* width of the window's empty border, in pixels */
    TEXT_LINES = 8      /* lines of text below the picture */
};
/* The progress is animated: a bright band moves down the picture to the row that the work has
 * reached (a sweep), and is then invisible for a while. */
enum {
    FRAME_MS = 100,    /* milliseconds of a frame */
    SWEEP_FRAMES = 20, /* frames of a sweep */
    REST_FRAMES = 40,  /* frames without the band after a sweep */
    BAND = 24          /* height of the band, in pixels */
};
/* The time left is shown only after the progress was observed for this number of seconds. */
#define LEAST_SEEN 5.0

/* The program's state. It is global, as GLUT passes no user data to its callbacks. */
static struct {
    view_file file; /* the last valid file */
    bool has_file;
    unsigned n_regions;    /* number of connected regions where the analysis has found something */
    double share;          /* share of the picture's pixels where it has found something, 0 to 1 */
    double first_seconds;  /* the time (tc_seconds) when this task's first file was read */
    double first_fraction; /* the fraction of the task that was done according to that file */
    unsigned frame;        /* number of the animation's current frame, from 0 */
    GLuint texture;
    int width, height; /* size of the window, in pixels */
    bool fullscreen;
    int mouse_x, mouse_y; /* the mouse's first position; -1: not known yet */
} show = { .mouse_x = -1 };

/* The RGB colours of objects that the analysis has found. */
enum { HUES = 6 };
static const unsigned char hues[HUES][3] = {
    { 255, 96, 64 },  { 255, 200, 48 },  { 96, 220, 96 },
    { 64, 200, 255 }, { 128, 128, 255 }, { 255, 112, 200 }
};

/* Sets rgb to the colour of a pixel: its grey value, mixed with a hue where something is found
 * (found > 0). If is_amount is set, `found` is an amount, which shifts the colour from grey to
 * orange; otherwise it selects one of the hues. */
static void mix_colour(unsigned grey, unsigned found, bool is_amount, unsigned char rgb[3])
{
    for (int i = 0; i < 3; i++) {
        /* The share of the hue in the colour, 0 to 255. */
        const unsigned part = is_amount ? found : found > 0 ? 112 /* 44% */ : 0;
        const unsigned hue = is_amount ? hues[1][i] : hues[found % HUES][i];

        rgb[i] = (unsigned char)((grey * (255 - part) + hue * part) / 255);
    }
}

/* Copies the picture into the texture. */
static void fill_texture(void)
{
    static unsigned char pixels[VIEW_SIDE * VIEW_SIDE][3];
    const view_file *const f = &show.file;

    for (size_t i = 0; i < (size_t)f->nx * f->ny; i++)
        mix_colour(f->grey[i], f->found[i], f->amounts != 0, pixels[i]);
    glBindTexture(GL_TEXTURE_2D, show.texture);
    glTexSubImage2D(GL_TEXTURE_2D, 0, 0, 0, (GLsizei)f->nx, (GLsizei)f->ny, GL_RGB,
                    GL_UNSIGNED_BYTE, pixels);
}

/* --- the file -------------------------------------------------------------------------------- */

/* Whether the text ends with a NUL within `size` bytes. */
static bool is_text(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

/* Whether the file is complete and valid. It may be read while it is being written, or another
 * program may have written it. */
static bool is_whole(const view_file *f)
{
    const size_t from = offsetof(view_file, nx);
    const bw_volunteer *const v = &f->volunteer;

    return memcmp(f->magic, VIEW_MAGIC, sizeof f->magic) == 0 &&
           f->crc == (uint32_t)crc32_z(crc32_z(0, NULL, 0), (const unsigned char *)f + from,
                                       sizeof *f - from) &&
           f->nx >= 1 && f->nx <= VIEW_SIDE && f->ny >= 1 && f->ny <= VIEW_SIDE &&
           f->fraction >= 0 && f->fraction <= 1 && is_text(f->analysis, sizeof f->analysis) &&
           is_text(f->name, sizeof f->name) && is_text(f->about, sizeof f->about) &&
           is_text(v->user, sizeof v->user) && is_text(v->team, sizeof v->team) &&
           is_text(v->project, sizeof v->project);
}

/* Sets the connected region of nonzero pixels that contains the pixel `at` to zero. */
static void clear_region(uint8_t *found, uint32_t nx, uint32_t ny, uint32_t at)
{
    static uint32_t stack[VIEW_SIDE * VIEW_SIDE];
    size_t n = 0;

    stack[n++] = at;
    found[at] = 0;
    while (n > 0) {
        const uint32_t i = stack[--n], x = i % nx, y = i / nx;
        const uint32_t next[4] = { i - 1, i + 1, i - nx, i + nx };
        const bool exists[4] = { x > 0, x + 1 < nx, y > 0, y + 1 < ny };

        for (int k = 0; k < 4; k++)
            if (exists[k] && found[next[k]] > 0) {
                found[next[k]] = 0;
                stack[n++] = next[k];
            }
    }
}

/* Computes show.share, and show.n_regions unless `found` contains amounts. Counts connected regions
 * rather than different values of `found`, as an object may have several values while the analysis
 * runs. */
static void measure_found(void)
{
    static uint8_t found[VIEW_SIDE * VIEW_SIDE];
    const uint32_t nx = show.file.nx, ny = show.file.ny;
    uint32_t pixels = 0;

    memcpy(found, show.file.found, sizeof found);
    for (uint32_t i = 0; i < nx * ny; i++)
        pixels += found[i] > 0;
    show.share = (double)pixels / (nx * ny);
    show.n_regions = 0;
    for (uint32_t i = 0; i < nx * ny && show.file.amounts == 0; i++)
        if (found[i] > 0) {
            clear_region(found, nx, ny, i);
            show.n_regions++;
        }
}

/* Reads the file, and shows it if it is valid. */
static void read_view(void)
{
    static view_file next; /* too large for some stacks */
    const int fd = os_open(VIEW_FILE, OS_READ);
    const bool read = fd >= 0 && os_read_at(fd, &next, sizeof next, 0) == (ptrdiff_t)sizeof next;

    if (fd >= 0)
        close(fd);
    if (!read || !is_whole(&next))
        return;
    /* If the fraction decreases, another task has begun or the task has restarted. */
    if (!show.has_file || next.fraction < show.file.fraction) {
        show.first_seconds = tc_seconds();
        show.first_fraction = next.fraction;
    }
    show.file = next;
    show.has_file = true;
    measure_found();
    fill_texture();
}

/* Writes the file by which texcell sees that it is being watched. */
static void write_watched_file(void)
{
    const int fd = os_open(VIEW_WATCHED, OS_OVERWRITE);

    if (fd < 0)
        return;
    (void)tc_write_at(fd, 0, "1", 1);
    close(fd);
}

/* --- drawing --------------------------------------------------------------------------------- */

/* Returns the share of the current item that is done, 0 to 1, assuming that all items take equally
 * long. */
static double item_fraction(const view_file *f)
{
    const double done = f->fraction * (double)f->n_items - (double)f->item;

    return done < 0 ? 0 : done > 1 ? 1 : done;
}

/* Draws the moving band over the picture. x, y: the picture's upper left corner; w, h: its size. */
static void draw_band(double x, double y, double w, double h)
{
    /* The row that the work has reached, and the band's lower and upper edge, from y on. */
    const double to = h * item_fraction(&show.file), at = to * (show.frame + 1) / SWEEP_FRAMES,
                 from = at > BAND ? at - BAND : 0;

    if (show.frame >= SWEEP_FRAMES)
        return;
    glEnable(GL_BLEND);
    glBegin(GL_QUADS);
    glColor4f(1, 1, 1, 0);
    glVertex2d(x, y + from);
    glVertex2d(x + w, y + from);
    glColor4f(1, 1, 1, 0.6F);
    glVertex2d(x + w, y + at);
    glVertex2d(x, y + at);
    glEnd();
    glDisable(GL_BLEND);
}

/* Draws the picture as large as fits above the text, with its aspect ratio kept. */
static void draw_picture(void)
{
    const view_file *const f = &show.file;
    const double room_x = show.width - 2 * MARGIN,
                 room_y = show.height - 2 * MARGIN - TEXT_LINES * LINE;
    const double scale = room_x / f->nx < room_y / f->ny ? room_x / f->nx : room_y / f->ny;
    const double w = f->nx * scale, h = f->ny * scale, x = (show.width - w) / 2,
                 y = MARGIN + (room_y - h) / 2;
    /* The part of the texture that the picture fills. */
    const double u = (double)f->nx / TEXTURE_SIDE, v = (double)f->ny / TEXTURE_SIDE;

    if (scale <= 0)
        return;
    glEnable(GL_TEXTURE_2D);
    glColor3f(1, 1, 1);
    glBegin(GL_QUADS);
    glTexCoord2d(0, 0);
    glVertex2d(x, y);
    glTexCoord2d(u, 0);
    glVertex2d(x + w, y);
    glTexCoord2d(u, v);
    glVertex2d(x + w, y + h);
    glTexCoord2d(0, v);
    glVertex2d(x, y + h);
    glEnd();
    glDisable(GL_TEXTURE_2D);
    draw_band(x, y, w, h);
}

/* Draws the progress bar at height y. */
static void draw_bar(double y)
{
    const double x0 = MARGIN, x1 = show.width - MARGIN;
    const double part[2] = { 1, show.file.fraction }; /* the background, the bar */

    for (int i = 0; i < 2; i++) {
        glColor3f(i == 0 ? 0.2F : 0.4F, i == 0 ? 0.2F : 0.8F, i == 0 ? 0.25F : 0.5F);
        glRectd(x0, y, x0 + (x1 - x0) * part[i], y + 6);
    }
}

/* Converts UTF-8 in place to ISO 8859-1, which GLUT's fonts use; '?' for other characters. */
static void convert_to_latin(unsigned char *text)
{
    unsigned char *to = text;

    for (const unsigned char *c = text; *c != '\0'; c++) {
        /* U+0080 to U+00FF, the upper half of ISO 8859-1, are the two-byte characters that begin
         * with 0xc2 or 0xc3. */
        const bool is_latin = (*c == 0xc2 || *c == 0xc3) && (c[1] & 0xc0) == 0x80;

        if (is_latin) {
            *to++ = (unsigned char)((*c & 3) << 6 | (c[1] & 0x3f));
            c++;
        } else if ((*c & 0xc0) != 0x80) /* not a continuation byte */
            *to++ = *c >= ' ' && *c < 0x7f ? *c : '?';
    }
    *to = '\0';
}

/* Draws a line of text, cut off if it does not fit; returns its width. */
static int draw_text_at(double x, double y, const char *text)
{
    unsigned char line[700];
    size_t n;

    snprintf((char *)line, sizeof line, "%s", text);
    convert_to_latin(line);
    n = strlen((char *)line);
    while (n > 0 && glutBitmapLength(GLUT_BITMAP_HELVETICA_18, line) > show.width - MARGIN - x)
        line[--n] = '\0';
    glColor3f(0.9F, 0.9F, 0.9F);
    glRasterPos2d(x, y);
    glutBitmapString(GLUT_BITMAP_HELVETICA_18, line);
    return glutBitmapLength(GLUT_BITMAP_HELVETICA_18, line);
}

/* Draws a line of text at the left margin. */
static void draw_text(double y, const char *text)
{
    draw_text_at(MARGIN, y, text);
}

/* Draws a small square of a colour for the legend. Returns the x coordinate at which text may
 * follow. */
static double draw_swatch(double x, double y, const unsigned char rgb[3])
{
    enum { SIDE = 12 };

    if (x + SIDE < show.width - MARGIN) {
        glColor3ub(rgb[0], rgb[1], rgb[2]);
        glRectd(x, y - SIDE, x + SIDE, y);
    }
    return x + SIDE + 4;
}

/* Draws the legend, which explains the colours. */
static void draw_legend(double y)
{
    const bool amounts = show.file.amounts != 0;
    const unsigned char white[3] = { 230, 230, 230 };
    double x = MARGIN;

    for (unsigned i = 0; i < HUES; i++) {
        unsigned char rgb[3];
        /* Amounts 0, 51, ... 255; or objects of all hues (HUES is added as 0 means no object). */
        mix_colour(160, amounts ? 51 * i : i + HUES, amounts, rgb);
        x = draw_swatch(x, y, rgb);
    }
    x += 4 + draw_text_at(x + 4, y, amounts ? "amount found, low to high" : "objects found") + 20;
    x = draw_swatch(x, y, white);
    draw_text_at(x + 4, y, "progress in this picture");
}

/* Writes the estimated remaining time, such as ", about 1:05:00 left", which is computed from the
 * progress since first_seconds; or "" before an estimate is possible. */
static void describe_time_left(char *out, size_t size)
{
    const double seen = tc_seconds() - show.first_seconds,
                 done = show.file.fraction - show.first_fraction,
                 left = done > 0 ? (1 - show.file.fraction) * seen / done : 0;
    const unsigned long s = left < 1e9 ? (unsigned long)left : 1000000000;

    out[0] = '\0';
    if (seen < LEAST_SEEN || !(done > 0))
        return;
    if (s >= 100 * 3600UL)
        snprintf(out, size, ", about %lu days left", s / 86400);
    else
        snprintf(out, size, ", about %lu:%02lu:%02lu left", s / 3600, s / 60 % 60, s % 60);
}

/* Writes the line of text with the number of regions found and their share of the picture. */
static void describe_found(char *out, size_t size)
{
    if (show.file.amounts != 0)
        snprintf(out, size, "Found so far: in %.0f%% of the picture", 100 * show.share);
    else
        snprintf(out, size, "Found so far: in %u place%s, %.0f%% of the picture", show.n_regions,
                 show.n_regions == 1 ? "" : "s", 100 * show.share);
}

/* Draws the progress bar and the lines of text below the picture. */
static void draw_texts(void)
{
    const view_file *const f = &show.file;
    const bw_volunteer *const v = &f->volunteer;
    double y = show.height - TEXT_LINES * LINE;
    char line[800], left[64];

    draw_bar(y);
    y += LINE + 6;
    describe_time_left(left, sizeof left);
    snprintf(line, sizeof line, "texcell %s: %s (%llu of %llu), %.1f%% of the task%s", f->analysis,
             f->name, (unsigned long long)f->item + 1, (unsigned long long)f->n_items,
             100 * f->fraction, left);
    draw_text(y, line);
    describe_found(line, sizeof line);
    draw_text(y += LINE, line);
    draw_legend(y += LINE);
    if (f->about[0] != '\0')
        draw_text(y += LINE, f->about);
    if (v->user[0] == '\0')
        return;
    snprintf(line, sizeof line, "%s: %s%s%s", v->project, v->user, v->team[0] != '\0' ? ", " : "",
             v->team);
    draw_text(y += LINE, line);
    snprintf(line, sizeof line, "This computer has done work for %.0f credits. Thank you!",
             v->host_credit);
    draw_text(y + LINE, line);
}

/* GLUT's display callback: draws the whole window. */
static void draw(void)
{
    glClear(GL_COLOR_BUFFER_BIT);
    if (show.has_file) {
        draw_picture();
        draw_texts();
    } else {
        draw_text(show.height / 2.0, "texcell: waiting for the task to write its picture");
    }
    glutSwapBuffers();
}

/* --- events ---------------------------------------------------------------------------------- */

/* GLUT's reshape callback. Coordinates are pixels of the window, from its upper left corner on. */
static void resize(int width, int height)
{
    show.width = width > 0 ? width : 1;
    show.height = height > 0 ? height : 1;
    glViewport(0, 0, show.width, show.height);
    glMatrixMode(GL_PROJECTION);
    glLoadIdentity();
    glOrtho(0, show.width, show.height, 0, -1, 1);
    glMatrixMode(GL_MODELVIEW);
    glLoadIdentity();
}

/* Called every READ_MS: tells texcell that it is being watched, and reads its picture. */
static void on_timer(int unused)
{
    (void)unused;
    write_watched_file();
    read_view();
    glutPostRedisplay();
    glutTimerFunc(READ_MS, on_timer, 0);
}

/* Called every FRAME_MS: moves the band. */
static void on_frame(int unused)
{
    (void)unused;
    show.frame = (show.frame + 1) % (SWEEP_FRAMES + REST_FRAMES);
    if (show.frame <= SWEEP_FRAMES) /* frame SWEEP_FRAMES erases the band */
        glutPostRedisplay();
    glutTimerFunc(FRAME_MS, on_frame, 0);
}

/* A screensaver ends at any key, a window at Escape or q. */
static void on_key(unsigned char code, int x, int y)
{
    (void)x;
    (void)y;
    if (show.fullscreen || code == 27 /* Escape */ || code == 'q')
        glutLeaveMainLoop();
}

/* A screensaver ends at a click. */
static void click(int button, int state, int x, int y)
{
    (void)button;
    (void)state;
    (void)x;
    (void)y;
    if (show.fullscreen)
        glutLeaveMainLoop();
}

/* A screensaver ends when the mouse moves from its first position, which GLUT may report without
 * any motion when the window appears. */
static void on_motion(int x, int y)
{
    const bool far = abs(x - show.mouse_x) > 8 || abs(y - show.mouse_y) > 8; /* in pixels */

    if (show.fullscreen && show.mouse_x >= 0 && far)
        glutLeaveMainLoop();
    if (show.mouse_x < 0) {
        show.mouse_x = x;
        show.mouse_y = y;
    }
}

/* Creates the texture that holds the picture. */
static void begin_texture(void)
{
    glGenTextures(1, &show.texture);
    glBindTexture(GL_TEXTURE_2D, show.texture);
    glPixelStorei(GL_UNPACK_ALIGNMENT, 1);
    glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_LINEAR);
    glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
    glTexImage2D(GL_TEXTURE_2D, 0, GL_RGB, TEXTURE_SIDE, TEXTURE_SIDE, 0, GL_RGB, GL_UNSIGNED_BYTE,
                 NULL);
}

static const char help[] =
    "usage: texcell_graphics [--fullscreen] [X11 option]...\n"
    "\n"
    "Shows the work of the texcell that runs in this folder: in a window, which\n"
    "Escape or q closes, or as a screensaver. The BOINC client's Manager starts it in\n"
    "the slot of a task. Whatever happens to this program, the task continues.\n"
    "\n"
    "  --fullscreen  run as a screensaver, which ends at any key, click or motion\n";

int main(int argc, char **argv)
{
    os_init_process();
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        fputs(help, stdout);
        return 0;
    }
    /* glutInit removes its own options from argv. Without a display it prints an error and ends the
     * program. */
    glutInit(&argc, argv);
    for (int i = 1; i < argc; i++)
        show.fullscreen = show.fullscreen || strcmp(argv[i], "--fullscreen") == 0;
    glutInitDisplayMode(GLUT_DOUBLE | GLUT_RGB);
    glutInitWindowSize(640, 640);
    glutSetOption(GLUT_ACTION_ON_WINDOW_CLOSE, GLUT_ACTION_GLUTMAINLOOP_RETURNS);
    glutCreateWindow("texcell");
    if (show.fullscreen) {
        glutFullScreen();
        glutSetCursor(GLUT_CURSOR_NONE);
    }
    begin_texture();
    glutDisplayFunc(draw);
    glutReshapeFunc(resize);
    glutKeyboardFunc(on_key);
    glutMouseFunc(click);
    glutPassiveMotionFunc(on_motion);
    resize(glutGet(GLUT_WINDOW_WIDTH), glutGet(GLUT_WINDOW_HEIGHT));
    glBlendFunc(GL_SRC_ALPHA, GL_ONE_MINUS_SRC_ALPHA);
    on_timer(0);
    on_frame(0);
    glutMainLoop();
    return 0;
}
