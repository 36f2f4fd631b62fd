/*
 * The seam to the operating system: what C11 and the part of POSIX that every system has
 * (descriptors, stat, unlink, clock_gettime, threads) leave open. os_posix.c and os_windows.c
 * are behind it, and they alone know which system it is.
 *
 * Paths and names are UTF-8. What fails says why in errno, on every system.
 */
#ifndef OS_H
#define OS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* --- files ----------------------------------------------------------------------------------- */

typedef enum os_access {
    OS_READ,    /* what is there; does not wait for the other end of a pipe */
    OS_NEW,     /* for writing; EEXIST where it is there */
    OS_OVER,    /* for writing, made if need be, emptied; a link is refused, as by the next three */
    OS_PRIVATE, /* the same, and made for nobody but this user */
    OS_KEEP,    /* for reading and writing, made if need be */
    OS_APPEND   /* for writing at the end, made if need be */
} os_access;

/* A descriptor, for close(); -1: errno. Programs started from this one do not get it, bytes go
 * through as they are, and while it is open the file can be renamed and removed. */
int os_open(const char *path, os_access access);
/* As pread and pwrite. */
ptrdiff_t os_read_at(int fd, void *data, size_t n, uint64_t at);
ptrdiff_t os_write_at(int fd, const void *data, size_t n, uint64_t at);
/* Whether the file's bytes are on the disk now. */
bool os_sync(int fd);
/* After a write from `from` to `to`, the next after what was written before: waits where much is
 * not on the disk yet, so that no os_sync takes long. false: some could not be put there. */
bool os_write_out(int fd, uint64_t from, uint64_t to);
/* Sets room on the disk aside for the file up to this size, without making it longer. false: the
 * file system cannot, or has none. */
bool os_reserve(int fd, uint64_t size);
/* Locks the file until it is closed. false: another process has it locked. true also where
 * the file system has no locks. */
bool os_lock(int fd);
/* Gives the file FROM the name TO, which it takes from another file in one step, and makes
 * that last, where the file system can. */
bool os_replace(const char *from, const char *to);
/* Whether both names lead to one file, which is there. */
bool os_same_file(const char *a, const char *b);
/* Whether the name leads to the file that was opened, and not by way of a link. */
bool os_still_named(const char *path, int fd);

typedef enum os_kind { OS_NOTHING, OS_FILE, OS_FOLDER, OS_OTHER } os_kind;
/* What is there under this name; a folder's may end in a separator. */
os_kind os_kind_of(const char *path);
/* The same where a link is a thing of its own. */
os_kind os_kind_of_link(const char *path);

/* --- names and folders ----------------------------------------------------------------------- */

/* The last part of a path; "" where it ends in a separator. */
const char *os_last_part(const char *path);
bool os_is_separator(char c);
/* The path from the root on; the caller frees. NULL: errno. */
char *os_full_path(const char *path);
bool os_make_folder(const char *path);
/* The same, for nobody but this user. */
bool os_make_private_folder(const char *path);
/* Whether files may be made in the folder. */
bool os_folder_takes_files(const char *path);

/* An entry of a folder, but for "." and "..". may_be_folder: false where it is known that it
 * is none. What is not 0 ends the list. */
typedef int os_entry(void *user, const char *name, bool may_be_folder);
/* Each entry, in no order; the last answer of `each` (NULL: the folder is only opened), or -1:
 * errno says why the folder could not be read. */
int os_list(const char *folder, os_entry *each, void *user);

/* --- the process ----------------------------------------------------------------------------- */

/* First of all: standard streams that are there and take bytes as they are; a full disk and a
 * closed pipe are errors of a write, not the end of the process. */
void os_begin(void);
/* Ends the process at once: no exit handlers, neither ours nor a library's, nothing flushed.
 * Safe in a signal handler. */
void os_exit_now(int code) __attribute__((noreturn));
/* stop(number) is called when a person, or the system that goes down, wants the program to
 * end; after it has set signal(number, SIG_DFL) the next time ends it. */
void os_on_stop(void (*stop)(int number));
/* Ends the process as that would have ended it, where whoever started it can tell this from an
 * error; else returns. */
void os_end_as_stopped(int number);
/* Keeps what os_restart needs, which is to be called in any state of the process: argv is
 * main's. false: no memory. */
bool os_keep_start(char **argv, const char *variable);
/* Runs the program anew in place of this process, with the command line that it had and
 * `value` as the environment's variable. Returns where that fails. Safe in a signal handler. */
void os_restart(const char *value);
/* Calls work(user) in a process of its own, or here where there is no such thing; its exit
 * code. -1: it could not be started, errno; 0 with *ended_by: the signal that ended it. It gets no
 * descriptor of this one: its standard input is empty, and what it writes comes through pipes, no
 * more of it than a log should take for one file, and without control characters. On Linux it is
 * killed when this process ends. */
int os_run_child(int (*work)(void *user), void *user, int *ended_by);
/* Runs a program of this one's folder, or else on the search path, until it ends; words: its
 * command line, the program's name first, ended by NULL. What asks this one to stop stops that one.
 * Its exit code and *ended_by as above. */
int os_run_program(char *const *words, int *ended_by);
/* From now on no file that this process writes may become longer than `bytes`: writing fails with
 * EFBIG. Does nothing on Windows. */
void os_limit_files(uint64_t bytes);
/* Closes all descriptors but the standard streams: whoever started this process may have left it
 * a connection of its own. */
void os_close_inherited(void);
/* What a confined process may do with a file, or with a folder and all that is below it. */
typedef enum os_may {
    OS_MAY_NOTHING, /* ends a list of places */
    OS_MAY_LIST,    /* read names in the folder */
    OS_MAY_READ,
    OS_MAY_WRITE /* read, write, make and remove */
} os_may;
typedef struct os_place {
    const char *path; /* NULL, or a name that leads nowhere, allows nothing */
    os_may may;
} os_place;
/* What a confined process does besides reading files, computing in threads, and writing to standard
 * output and standard error: bits. */
enum {
    OS_CALLS_MAKE = 1, /* writes, makes, renames and removes files */
    OS_CALLS_LOCK = 2  /* locks them */
};
/* From now on this process, which has one thread, and its later threads open nothing but these
 * places and what they have open, and make no system calls but those on a list for `calls`: they
 * start no program and no process, make no socket, touch no other process, and write at the end of
 * standard output and standard error alone. Standard input is empty. There is no way back. true
 * also where the system cannot, or not all of it: see os_confines. false: errno, and it is unknown
 * how far it went. */
bool os_confine(const os_place *places, unsigned calls);
/* The version of the means by which files are closed off; 0: os_confine does not close them off. */
unsigned os_confines(void);
/* In words; never NULL. */
const char *os_signal_name(int number);

/* From now on caught(number) is called, in the thread where it happens, on what would end the
 * process for a fault: a bad address, an illegal instruction, abort(). Where it returns, the
 * process ends as it would have. Called again it takes handlers back that somebody has put in
 * between. */
void os_catch_faults(void (*caught)(int number));
/* From now on a fault of this thread can be caught, whatever os_thread has made of it. */
void os_let_faults_in(void);

/* Makes another thread rest for less than a second, whatever it is doing. What it has locked stays
 * locked meanwhile. */
void os_rest(pthread_t thread, double seconds);
/* A thread that no signal reaches, so that those for the program find its main thread.
 * false: there is none. */
bool os_thread(pthread_t *thread, void *(*work)(void *user), void *user);

/* --- the machine ----------------------------------------------------------------------------- */

/* Rests for so long, to a fraction of a millisecond, or less where a signal comes. */
void os_sleep(double seconds);
/* That this process may use. */
unsigned os_processors(void);
bool os_random(void *out, size_t n);
/* Of the terminal that standard error is; 0: unknown, or none. */
size_t os_terminal_columns(void);

/* Zeroed memory for something large that is written to nearly everywhere: in huge pages
 * where there are any, as a page at a time takes the kernel long. NULL; free. */
void *os_zeroed(size_t bytes);
/* Gives back what was freed and is kept for later. */
void os_trim_memory(void);
/* Zeroed memory at a multiple of 64 bytes, for os_aligned_free. NULL. */
void *os_aligned(size_t bytes);
void os_aligned_free(void *memory);

/* --- libraries ------------------------------------------------------------------------------- */

/* The library that finds OpenCL's drivers. */
extern const char os_opencl[];
/* A library by its name, from where the system keeps its own, or by its path; NULL names the
 * program itself. NULL: it cannot be opened. */
void *os_library(const char *name);
/* A function of it, or NULL. */
typedef void (*os_function)(void);
os_function os_library_function(void *library, const char *name);

#if defined(__cplusplus)
}
#endif

#endif
