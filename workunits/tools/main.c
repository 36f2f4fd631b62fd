/* The main program of texcell-wu (packs pictures into work units, shows and exports results), and
 * its notes and progress on stderr. */
#include "config.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/base/command.h"
#include "app/base/notes.h"
#include "app/base/os.h"
#include "app/base/text.h"
#include "workunits/tools/tools.h"
#include "workunits/format/png_io.h"

static const char help[] =
    "usage: texcell-wu analyse --analysis NAME [OPTION]... -o DIR INPUT...\n"
    "       texcell-wu pack --analysis NAME [OPTION]... -o WU.zip INPUT...\n"
    "       texcell-wu show [--all | --needs] FILE\n"
    "       texcell-wu export [--images WU.zip] RESULT.npz -o DIR\n"
    "       texcell-wu report RESULT.npz [--images WU.zip] -o PAGE.html\n"
    "       texcell-wu parameters [--json] [NAME]\n"
    "       texcell-wu --help | --version\n"
    "\n"
    "analyse     pictures to tables and a page to look at, in one command\n"
    "pack        pictures to a work unit for texcell\n"
    "show        a work unit or a result in readable form\n"
    "export      tables and pictures of a result\n"
    "report      a result as a page to look at\n"
    "parameters  the parameters of an analysis\n"
    "\n"
    "texcell-wu VERB --help has the options of each.\n"
    "\n"
    "Exit codes: 0 done, 1 bad usage, 2 bad input, 3 try again later, 70 a fault\n"
    "of this program.\n";

/* This mutex is held while notes or progress are printed, and protects the variables below. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tc_notes notes; /* the notes of wu_print_note_of_file so far */
static bool drawn;     /* the last line of the terminal is a line of progress */

/* Erases the line of progress, if there is one. "\033[K" clears a terminal's line from the cursor
 * on. */
static void clear_progress(void)
{
    if (drawn)
        fputs("\r\033[K", stderr);
    drawn = false;
}

static void print_note(char *text)
{
    clear_progress();
    fprintf(stderr, "texcell-wu: note: %s\n", tc_make_printable(text));
}

void wu_print_note(const char *format, ...)
{
    char text[TC_ERR_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pthread_mutex_lock(&lock);
    print_note(text);
    pthread_mutex_unlock(&lock);
}

void wu_print_note_of_file(const char *path, const char *format, ...)
{
    char text[TC_ERR_MAX], whole[2 * TC_ERR_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(whole, sizeof whole, "%s: %s", path, text);
    pthread_mutex_lock(&lock);
    if (tc_notes_add(&notes, text))
        print_note(whole);
    pthread_mutex_unlock(&lock);
}

/* Prints that the note `text` is about `more` further files as well. differ: the numbers in some of
 * their notes differ from those in `text`. A function for tc_notes_end. */
static void print_more(void *user, size_t more, bool differ, const char *text)
{
    char whole[2 * TC_ERR_MAX];
    (void)user;
    snprintf(whole, sizeof whole, "the same of %zu more file%s%s: %s", more, more == 1 ? "" : "s",
             differ ? ", with other numbers" : "", text);
    print_note(whole);
}

void wu_print_note_counts(void)
{
    pthread_mutex_lock(&lock);
    tc_notes_end(&notes, print_more, NULL);
    pthread_mutex_unlock(&lock);
}

void wu_show_progress(const char *what, size_t done, size_t n)
{
    static double shown; /* when the line was last printed, in seconds */
    const double time = tc_seconds();
    if (isatty(STDERR_FILENO) != 1)
        return;
    pthread_mutex_lock(&lock);
    if (done >= n) {
        clear_progress();
    } else if (time - shown >= 0.1) {
        fprintf(stderr, "\r%s: %zu of %zu\033[K", what, done, n);
        fflush(stderr);
        shown = time;
        drawn = true;
    }
    pthread_mutex_unlock(&lock);
}

/* Sets `text` to the names of the libraries in this build, for --version. */
static void name_libraries(char *text, size_t size)
{
    static const char formats[] =
#ifdef HAVE_JPEG
        ", libjpeg"
#endif
#ifdef HAVE_TIFF
        ", libtiff"
#endif
        "";
    wu_library_versions(text, size);
    const size_t n = strlen(text);
    snprintf(text + n, size - n, "%s", formats);
}

int main(int argc, char **argv)
{
    static const tc_verb verbs[] = { { "analyse", wu_analyse, wu_analyse_help },
                                     { "analyze", wu_analyse, wu_analyse_help },
                                     { "pack", wu_pack, wu_pack_help },
                                     { "show", wu_show, wu_show_help },
                                     { "export", wu_export, wu_export_help },
                                     { "report", wu_report_verb, wu_report_help },
                                     { "parameters", wu_parameters, wu_parameters_help },
                                     { .name = NULL } };
    static const tc_program program = {
        .name = "texcell-wu", .help = help, .verbs = verbs, .libraries = name_libraries
    };

    os_close_inherited();
    const int code = tc_main(&program, argc, argv);
    wu_print_note_counts();
    return code;
}
