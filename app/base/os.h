/* The interface to the operating system: functions that are neither in C11 nor among the POSIX
 * functions that all supported systems have (descriptors, stat, unlink, clock_gettime, threads). It
 * is implemented by os_*.c, the only files that depend on the system.
 *
 * Paths and names are UTF-8. A function that fails sets errno, on every system. */
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

/* How os_open opens a file. All but OS_READ and OS_NEW refuse a symbolic link. */
typedef enum os_access {
    OS_READ,              /* an existing file for reading; does not wait for the writer of a pipe */
    OS_NEW,               /* a new file for writing; EEXIST if the name exists */
    OS_OVERWRITE,         /* for writing; created, or emptied if it exists */
    OS_OVERWRITE_PRIVATE, /* like OS_OVERWRITE, but only this user can access a file that is created
                           */
    OS_UPDATE,            /* for reading and writing; created if missing, its content kept */
    OS_APPEND             /* for writing at the end; created if missing */
} os_access;

/* Opens a file. Returns a descriptor, to be closed with close(), or -1 (errno). Child processes do
 * not inherit the descriptor, line ends are not converted, and the file can be renamed and removed
 * while it is open. */
int os_open(const char *path, os_access access);
/* Read or write n bytes at offset `at`, as pread and pwrite do. Return the number of bytes, which
 * may be less than n, or -1 (errno). */
ptrdiff_t os_read_at(int fd, void *data, size_t n, uint64_t at);
ptrdiff_t os_write_at(int fd, const void *data, size_t n, uint64_t at);
/* Waits until the file's content is on the disk. Returns false (errno) on an error. */
bool os_sync(int fd);
/* Brings a growing file to the disk while it is written, so that the final os_sync takes little
 * time. To be called after each of several consecutive writes. from, to: the offsets where this
 * write began and ended. Waits if much of the file is not on the disk yet. Returns false if a part
 * could not be written to the disk. */
bool os_sync_written(int fd, uint64_t from, uint64_t to);
/* Reserves disk space so that the file can grow to `size` bytes; its length does not change.
 * Returns false if the file system cannot do so, or is full. */
bool os_reserve(int fd, uint64_t size);
/* Locks the file until it is closed. Returns false if another process has locked it; true also if
 * the file system has no locks. */
bool os_lock(int fd);
/* Renames `from` to `to`, replacing an existing file atomically, and makes the new name durable
 * where the file system can. Returns false (errno) on an error. */
bool os_replace(const char *from, const char *to);
enum { OS_VERSION_TEXT = 128 }; /* bytes of the text that os_file_version writes */
/* Writes a text without spaces that identifies the present content of the open file: after a
 * change of the content, the function writes another text. The text consists of device, inode,
 * size, and the times of the last changes of content and inode, in nanoseconds. Returns false if
 * the file has changed within the last seconds, so that a further change might leave the same
 * times, or if the system has no such numbers. */
bool os_file_version(int fd, char text[OS_VERSION_TEXT]);
/* Whether both names refer to the same existing file. */
bool os_same_file(const char *a, const char *b);
/* Whether the content of file a was changed later than that of file b, to the precision of the file
 * system. Returns false if one does not exist. */
bool os_is_newer(const char *a, const char *b);
/* Whether the name still refers to the opened file, and is not a symbolic link to it. */
bool os_path_refers_to(const char *path, int fd);

/* Kinds of files; OS_NOTHING: there is no file, or it is inaccessible; OS_FILE: a regular file. */
typedef enum os_kind { OS_NOTHING, OS_FILE, OS_FOLDER, OS_OTHER } os_kind;
/* The kind of a file; a symbolic link is followed. A folder's name may end in a separator. */
os_kind os_kind_of(const char *path);
/* The kind of a file without following symbolic links; a link is OS_OTHER. */
os_kind os_kind_of_link(const char *path);

/* --- names and folders ----------------------------------------------------------------------- */

/* Returns the last part of a path, the part after the last separator; "" if the path ends in a
 * separator. */
const char *os_base_name(const char *path);
/* Whether c separates the parts of a path. */
bool os_is_separator(char c);
/* Returns the absolute path, which the caller frees; NULL (errno) on an error. */
char *os_absolute_path(const char *path);
bool os_make_folder(const char *path);
/* Makes a folder that only this user can access. */
bool os_make_private_folder(const char *path);
/* Whether this user may create files in the folder, as far as the system can determine that without
 * creating one. */
bool os_is_writable_folder(const char *path);

/* Called for an entry of a folder, except "." and "..". may_be_folder: false if the entry is known
 * not to be a folder. A result other than 0 ends the list. */
typedef int os_entry_visitor(void *user, const char *name, bool may_be_folder);
/* Calls `each` for every entry of the folder, in no particular order. Returns the last result of
 * `each`, or -1 (errno) if the folder could not be read. If `each` is NULL, only checks that the
 * folder can be opened. */
int os_list(const char *folder, os_entry_visitor *each, void *user);

/* Removes the folder `name` in `parent`, and the files in it, if this user owns it and it was last
 * changed more than `age` seconds ago. If `name` is a symbolic link, nothing is removed. */
void os_remove_old_folder(const char *parent, const char *name, unsigned age);

/* --- the process ----------------------------------------------------------------------------- */

/* To be called first in main. Opens missing standard streams, makes them binary, and lets writes to
 * a full disk or a closed pipe fail instead of ending the process. */
void os_init_process(void);
/* Ends the process immediately: runs no exit handlers, neither the program's nor a library's, and
 * flushes nothing. Safe in a signal handler. */
void os_exit_now(int code) __attribute__((noreturn));
/* From now on stop(number) is called, in a signal handler, when a person or the system's shutdown
 * asks the program to end. number: the signal's number. If `stop` calls signal(number, SIG_DFL),
 * the next such signal ends the process. */
void os_set_stop_handler(void (*stop)(int number));
/* On systems where a parent process can tell the end by a signal from an exit with an error: ends
 * the process by the signal `number`. On other systems the function does nothing, and returns. */
void os_exit_by_signal(int number);
/* Stores a copy of argv (main's) and of the environment for os_restart, which cannot allocate
 * memory. variable: the name of the environment variable that os_restart sets. Returns false if
 * there is not enough memory. */
bool os_prepare_restart(char **argv, const char *variable);
/* Replaces this process by the same program with the same command line; the environment variable of
 * os_prepare_restart is set to `value`. Returns only if that fails. Safe in a signal handler. */
void os_restart(const char *value);
/* Calls work(user) in a child process (in this process where the system has no fork) and waits for
 * the child. Returns its exit code and sets *ended_by to 0; if a signal ended the child, returns 0
 * and sets *ended_by to the signal. Returns -1 (errno) if the child could not be started. The child
 * inherits no descriptors. Its standard input is empty. Its standard output and standard error are
 * copied to the same streams of this process, without control characters and up to a fixed number
 * of bytes, so that one input file cannot fill a log. On Linux the child is killed when this
 * process ends. */
int os_run_child(int (*work)(void *user), void *user, int *ended_by);
/* Runs another program and waits for it. words: its command line, ended by NULL; words[0] is the
 * program's name, which is looked for in this program's folder, then on the search path. A signal
 * that asks this process to stop is forwarded to the program. Returns the exit code and sets
 * *ended_by as os_run_child does. */
int os_run_program(char *const *words, int *ended_by);
/* From now on no file that this process writes may become longer than `bytes`: writing fails with
 * EFBIG. Does nothing on Windows. */
void os_limit_files(uint64_t bytes);
/* Closes all descriptors except the standard streams: the parent process may have left some open,
 * such as a network connection. */
void os_close_inherited(void);
/* The rights of a confined process to a file, or to a folder and everything below it. */
typedef enum os_access_right {
    OS_MAY_NOTHING, /* ends a list of places */
    OS_MAY_LIST,    /* list the folder's entries */
    OS_MAY_READ,
    OS_MAY_WRITE /* read, write, create and remove */
} os_access_right;
/* A place and the process's rights there. */
typedef struct os_place {
    const char *path; /* NULL, or a name that does not exist, allows nothing */
    os_access_right may;
} os_place;
/* Further rights of a confined process, as bits. It may always read files, compute in threads, and
 * write to standard output and standard error. */
enum {
    OS_CALLS_MODIFY_FILES = 1, /* write, create, rename and remove files */
    OS_CALLS_LOCK_FILES = 2    /* lock files */
};
/* Confines this process, which must have a single thread, and its later threads, for good. From now
 * on the process can open only files in `places`; files that are open remain so. It can make only
 * the system calls that `calls` (OS_CALLS_...) allows: it cannot start programs or processes,
 * create sockets or affect other processes. To standard output and standard error it can only
 * append: if they are files, it cannot overwrite what they contain. Standard input becomes empty.
 * Also returns true where the system supports only a part of this, or nothing: see
 * os_landlock_version. Returns false (errno) on an error; the process may then be partly confined.
 */
bool os_confine(const os_place *places, unsigned calls);
/* Returns the version of the kernel's Landlock interface, by which os_confine restricts access to
 * files; 0 if os_confine cannot restrict it. */
unsigned os_landlock_version(void);
/* A signal's name for messages; never NULL. */
const char *os_signal_name(int number);

/* From now on caught(number) is called for the signals of faults (a bad address, an illegal
 * instruction, abort()), in the thread with the fault. If `caught` returns, the process ends as it
 * would have without it. Another call of this function installs the handlers again, in case a
 * library has replaced them. */
void os_set_fault_handler(void (*caught)(int number));
/* Unblocks the signals of this thread, which os_create_thread has blocked, so that a fault in it is
 * caught. */
void os_unblock_faults(void);

/* Stops another thread for `seconds` (less than 1), whatever it is doing. Locks that the thread
 * holds remain locked during this time. */
void os_pause_thread(pthread_t thread, double seconds);
/* Creates a thread in which all signals are blocked, so that the main thread receives the signals
 * of the process. Returns false if the thread could not be created. */
bool os_create_thread(pthread_t *thread, void *(*work)(void *user), void *user);

/* --- the machine ----------------------------------------------------------------------------- */

/* Sleeps for `seconds`, exact to a fraction of a millisecond; a signal ends it earlier. */
void os_sleep(double seconds);
/* Returns the number of processors that this process may use; at least 1. */
unsigned os_processors(void);
/* Fills `out` with n random bytes of the system. Returns false if the system has none. */
bool os_random(void *out, size_t n);
/* Returns the width in columns of the terminal on standard error; 0 if it is unknown or standard
 * error is not a terminal. */
size_t os_terminal_columns(void);

/* Allocates zeroed memory for a large array of which nearly all elements will be written. Uses huge
 * pages if possible, as the kernel takes long to provide many small pages. The caller frees the
 * memory with free(). Returns NULL if there is not enough memory. */
void *os_alloc_zeroed(size_t bytes);
/* Returns to the system the freed memory that the C library keeps for later. */
void os_trim_memory(void);
/* Allocates zeroed memory at an address that is a multiple of 64, to be freed with os_free_aligned.
 * NULL if there is not enough memory. */
void *os_alloc_aligned(size_t bytes);
void os_free_aligned(void *memory);

/* --- libraries ------------------------------------------------------------------------------- */

/* The file name of the OpenCL library, which loads the drivers. */
extern const char os_opencl_library_name[];
/* Opens a shared library by its name, from the system's own folders, or by its path; if name is
 * NULL, the program itself. Returns NULL if it cannot be opened. */
void *os_open_library(const char *name);
/* The address of a function of a library; NULL if the library has no function of this name. */
typedef void (*os_function)(void);
os_function os_find_function(void *library, const char *name);

#if defined(__cplusplus)
}
#endif

#endif
