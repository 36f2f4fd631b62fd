/*
 * Implements os.h for Windows 10 and later, compiled with MinGW-w64. The programs' manifest
 * (windows.rc) makes UTF-8 the code page of all functions that take char strings, including those
 * of the C library.
 */
#include "app/base/os.h"

#include <assert.h>
#include <direct.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* ntsecapi.h needs windows.h before it. */
#include <windows.h>

#include <ntsecapi.h>

/* --- errors ---------------------------------------------------------------------------------- */

/* Sets errno for an error code of Windows. Always returns false, so that a caller can write `return
 * fail_with(error)`. */
static bool fail_with(DWORD error)
{
    static const struct {
        DWORD from;
        int to;
    } table[] = { { ERROR_FILE_NOT_FOUND, ENOENT },
                  { ERROR_PATH_NOT_FOUND, ENOENT },
                  { ERROR_BAD_NETPATH, ENOENT },
                  { ERROR_INVALID_NAME, EINVAL },
                  { ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG },
                  { ERROR_FILE_EXISTS, EEXIST },
                  { ERROR_ALREADY_EXISTS, EEXIST },
                  { ERROR_DISK_FULL, ENOSPC },
                  { ERROR_HANDLE_DISK_FULL, ENOSPC },
                  { ERROR_TOO_MANY_OPEN_FILES, EMFILE },
                  { ERROR_NOT_ENOUGH_MEMORY, ENOMEM },
                  { ERROR_OUTOFMEMORY, ENOMEM },
                  { ERROR_DIRECTORY, ENOTDIR },
                  { ERROR_ACCESS_DENIED, EACCES },
                  { ERROR_SHARING_VIOLATION, EACCES },
                  { ERROR_LOCK_VIOLATION, EACCES },
                  { ERROR_WRITE_PROTECT, EROFS } };

    errno = EIO;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].from == error)
            errno = table[i].to;
    return false;
}

/* Returns the Windows handle of a descriptor. */
static HANDLE handle_of(int fd)
{
    return (HANDLE)_get_osfhandle(fd); /* NOLINT(performance-no-int-to-ptr) */
}

/* --- files ----------------------------------------------------------------------------------- */

/* Other processes may read, write, rename and remove an open file. */
enum { SHARE_ALL = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE };

int os_open(const char *path, os_access access)
{
    static const struct {
        DWORD access, how;
        int flags;
    } modes[] = { [OS_READ] = { GENERIC_READ, OPEN_EXISTING, _O_RDONLY },
                  [OS_NEW] = { GENERIC_WRITE, CREATE_NEW, _O_WRONLY },
                  [OS_OVERWRITE] = { GENERIC_WRITE, CREATE_ALWAYS, _O_WRONLY },
                  [OS_OVERWRITE_PRIVATE] = { GENERIC_WRITE, CREATE_ALWAYS, _O_WRONLY },
                  [OS_UPDATE] = { GENERIC_READ | GENERIC_WRITE, OPEN_ALWAYS, _O_RDWR },
                  [OS_APPEND] = { FILE_APPEND_DATA | FILE_READ_ATTRIBUTES, OPEN_ALWAYS,
                                  _O_WRONLY | _O_APPEND } };
    const HANDLE file = CreateFileA(path, modes[access].access, SHARE_ALL, NULL, modes[access].how,
                                    FILE_ATTRIBUTE_NORMAL, NULL);
    int fd;

    if (file == INVALID_HANDLE_VALUE) {
        const DWORD error = GetLastError();

        fail_with(error);
        if (error == ERROR_ACCESS_DENIED && os_kind_of(path) == OS_FOLDER)
            errno = EISDIR;
        return -1;
    }
    fd = _open_osfhandle((intptr_t)file, modes[access].flags | _O_BINARY | _O_NOINHERIT);
    if (fd < 0)
        CloseHandle(file);
    return fd;
}

/* Returns the structure by which an offset in a file is passed to ReadFile and WriteFile. */
static OVERLAPPED overlapped_at(uint64_t at)
{
    return (OVERLAPPED){ .Offset = (DWORD)at, .OffsetHigh = (DWORD)(at >> 32) };
}

/* Returns the number of bytes to transfer by one call of ReadFile or WriteFile: n, but at most 1
 * GiB, as these functions take a 32-bit number. */
static DWORD at_most(size_t n)
{
    return n < 1 << 30 ? (DWORD)n : 1 << 30;
}

ptrdiff_t os_read_at(int fd, void *data, size_t n, uint64_t at)
{
    OVERLAPPED where = overlapped_at(at);
    DWORD done = 0;

    if (ReadFile(handle_of(fd), data, at_most(n), &done, &where) ||
        GetLastError() == ERROR_HANDLE_EOF)
        return (ptrdiff_t)done;
    fail_with(GetLastError());
    return -1;
}

ptrdiff_t os_write_at(int fd, const void *data, size_t n, uint64_t at)
{
    OVERLAPPED where = overlapped_at(at);
    DWORD done = 0;

    if (WriteFile(handle_of(fd), data, at_most(n), &done, &where))
        return (ptrdiff_t)done;
    fail_with(GetLastError());
    return -1;
}

bool os_sync(int fd)
{
    return FlushFileBuffers(handle_of(fd)) || fail_with(GetLastError());
}

bool os_sync_written(int fd, uint64_t from, uint64_t to)
{
    assert(from <= to);
    return from >> 22 == to >> 22 || os_sync(fd); /* syncs once every 4 MiB */
}

bool os_reserve(int fd, uint64_t size)
{
    (void)fd; /* not done: Windows releases reserved space when the file is closed */
    (void)size;
    return false;
}

bool os_lock(int fd)
{
    /* Locks a byte far beyond the file's end: a lock of existing bytes would keep others from
     * reading them. */
    OVERLAPPED where = overlapped_at((uint64_t)1 << 62);

    return LockFileEx(handle_of(fd), LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0,
                      &where) ||
           (GetLastError() != ERROR_LOCK_VIOLATION && GetLastError() != ERROR_IO_PENDING);
}

/* FILE_RENAME_INFO of Windows 10 1607 for FileRenameInfoEx, which the headers lack. It can replace
 * a file that another process has open, as rename does on other systems. */
typedef struct rename_info {
    DWORD flags;
    HANDLE root;
    DWORD length; /* bytes of `name` */
    WCHAR name[32768];
} rename_info;
enum {
    RENAME_INFO_EX = 22, /* FileRenameInfoEx */
    RENAME_REPLACE = 1,  /* a flag: an existing file is replaced */
    RENAME_POSIX = 2     /* a flag: an existing file is replaced even if it is open */
};

/* Renames `from` to `to` even if another process has `to` open. */
static bool replace_open_file(const char *from, const char *to)
{
    rename_info *const info = calloc(1, sizeof *info);
    WCHAR *const wide = calloc(32768, sizeof *wide); /* `to` in UTF-16 */
    bool done = false;

    /* 32768: the most characters of a path in Windows, with the NUL. */
    if (info != NULL && wide != NULL && MultiByteToWideChar(CP_UTF8, 0, to, -1, wide, 32768) > 0) {
        const DWORD n = GetFullPathNameW(wide, 32768, info->name, NULL);
        const HANDLE file =
            CreateFileA(from, DELETE | SYNCHRONIZE, SHARE_ALL, NULL, OPEN_EXISTING, 0, NULL);

        info->flags = RENAME_REPLACE | RENAME_POSIX;
        info->length = n * (DWORD)sizeof(WCHAR);
        done = n > 0 && n < 32768 && file != INVALID_HANDLE_VALUE &&
               SetFileInformationByHandle(file, (FILE_INFO_BY_HANDLE_CLASS)RENAME_INFO_EX, info,
                                          sizeof *info);
        if (file != INVALID_HANDLE_VALUE)
            CloseHandle(file);
    }
    free(info);
    free(wide);
    return done;
}

/* If the file is in use, tries again for five seconds: virus scanners and indexers open new files
 * for a moment, and some of them prevent other programs from renaming the file meanwhile. */
bool os_replace(const char *from, const char *to)
{
    for (unsigned tries = 0;; tries++) {
        DWORD error;

        if (MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH))
            return true;
        error = GetLastError();
        if (error != ERROR_ACCESS_DENIED && error != ERROR_SHARING_VIOLATION)
            return fail_with(error);
        if (replace_open_file(from, to))
            return true;
        if (tries == 50) /* 50 * 100 ms = 5 s */
            return fail_with(error);
        Sleep(100);
    }
}

/* Sets *info, which contains the numbers that identify a file. Returns false if they cannot be read
 * or `file` is invalid. */
static bool identify(HANDLE file, BY_HANDLE_FILE_INFORMATION *info)
{
    return file != INVALID_HANDLE_VALUE && GetFileInformationByHandle(file, info);
}

/* Sets *info as identify does, for the file at `path`. flags: further flags of CreateFile. */
static bool identify_path(const char *path, DWORD flags, BY_HANDLE_FILE_INFORMATION *info)
{
    const HANDLE file = CreateFileA(path, 0, SHARE_ALL, NULL, OPEN_EXISTING,
                                    flags | FILE_FLAG_BACKUP_SEMANTICS, NULL);
    const bool identified = identify(file, info);

    if (file != INVALID_HANDLE_VALUE)
        CloseHandle(file);
    return identified;
}

/* Whether both describe the same file. */
static bool is_same(const BY_HANDLE_FILE_INFORMATION *a, const BY_HANDLE_FILE_INFORMATION *b)
{
    return a->dwVolumeSerialNumber == b->dwVolumeSerialNumber &&
           a->nFileIndexHigh == b->nFileIndexHigh && a->nFileIndexLow == b->nFileIndexLow;
}

bool os_same_file(const char *a, const char *b)
{
    BY_HANDLE_FILE_INFORMATION ia, ib;

    return identify_path(a, 0, &ia) && identify_path(b, 0, &ib) && is_same(&ia, &ib);
}

bool os_is_newer(const char *a, const char *b)
{
    BY_HANDLE_FILE_INFORMATION ia, ib;

    return identify_path(a, 0, &ia) && identify_path(b, 0, &ib) &&
           CompareFileTime(&ia.ftLastWriteTime, &ib.ftLastWriteTime) > 0;
}

bool os_path_refers_to(const char *path, int fd)
{
    BY_HANDLE_FILE_INFORMATION by_path, by_handle;

    return identify_path(path, FILE_FLAG_OPEN_REPARSE_POINT, &by_path) &&
           identify(handle_of(fd), &by_handle) && is_same(&by_path, &by_handle);
}

bool os_file_version(int fd, char text[OS_VERSION_TEXT])
{
    (void)fd;
    text[0] = '\0';
    return false; /* Windows has no time of the last change that programs cannot set */
}

os_kind os_kind_of(const char *path)
{
    const DWORD attributes = GetFileAttributesA(path);

    if (attributes == INVALID_FILE_ATTRIBUTES) {
        fail_with(GetLastError());
        return OS_NOTHING;
    }
    return attributes & FILE_ATTRIBUTE_DEVICE      ? OS_OTHER
           : attributes & FILE_ATTRIBUTE_DIRECTORY ? OS_FOLDER
                                                   : OS_FILE;
}

os_kind os_kind_of_link(const char *path)
{
    const DWORD attributes = GetFileAttributesA(path);
    const bool is_link =
        attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0;

    return is_link ? OS_OTHER : os_kind_of(path);
}

/* --- names and folders ----------------------------------------------------------------------- */

bool os_is_separator(char c)
{
    return c == '/' || c == '\\';
}

const char *os_base_name(const char *path)
{
    const char *part = path;

    for (const char *c = path; *c != '\0'; c++)
        if (os_is_separator(*c) || (*c == ':' && c == path + 1 /* after a drive's letter */))
            part = c + 1;
    return part;
}

char *os_absolute_path(const char *path)
{
    return _fullpath(NULL, path, 0);
}

bool os_make_folder(const char *path)
{
    return _mkdir(path) == 0;
}

/* Callers make such folders in the user's temporary folder, which only that user can access. */
bool os_make_private_folder(const char *path)
{
    return os_make_folder(path);
}

/* An os_entry_visitor: removes the file `name` in the folder. */
static int remove_file_of(void *folder, const char *name, bool may_be_folder)
{
    char path[2 * MAX_PATH];

    (void)may_be_folder;
    snprintf(path, sizeof path, "%s/%s", (const char *)folder, name);
    (void)_unlink(path);
    return 0;
}

/* The owner is not checked, as everything in the user's temporary folder belongs to that user. */
void os_remove_old_folder(const char *parent, const char *name, unsigned age)
{
    char path[MAX_PATH];
    struct stat info;

    snprintf(path, sizeof path, "%s/%s", parent, name);
    if (os_kind_of_link(path) != OS_FOLDER || stat(path, &info) != 0 ||
        difftime(time(NULL), info.st_mtime) <= age)
        return;
    (void)os_list(path, remove_file_of, path);
    (void)_rmdir(path);
}

bool os_is_writable_folder(const char *path)
{
    const bool good = os_kind_of(path) != OS_NOTHING;

    if (!good)
        errno = ENOENT;
    return good; /* permissions are not checked: creating the first file does so */
}

/* --- the process ----------------------------------------------------------------------------- */

void os_init_process(void)
{
    DWORD mode;
    const HANDLE errors = GetStdHandle(STD_ERROR_HANDLE);

    for (int fd = 0; fd <= 2; fd++) { /* the standard streams */
        if (_get_osfhandle(fd) < 0)
            (void)_open("NUL", fd == 0 ? _O_RDONLY : _O_WRONLY);
        (void)_setmode(fd, _O_BINARY);
    }
    /* When a driver crashes or a disk is missing, Windows shall not show a message box that waits
     * for a person. */
    SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX | SEM_NOOPENFILEERRORBOX);
    if (GetConsoleMode(errors, &mode)) {
        SetConsoleOutputCP(CP_UTF8);
        SetConsoleMode(errors, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
    }
}

void os_exit_now(int code)
{
    /* ExitProcess is not used: it would call the exit functions of libraries, and a driver's may
     * hang. */
    TerminateProcess(GetCurrentProcess(), (UINT)code);
    for (;;)
        Sleep(INFINITE);
}

static void (*on_stop)(int number); /* the argument of os_set_stop_handler */

/* Windows calls this function in a new thread. For events other than Ctrl-C and Ctrl-Break (a
 * closed console, logging off, shutting down) Windows kills the process when the function returns,
 * or after some seconds; so the function waits instead of returning. */
static BOOL WINAPI handle_stop(DWORD event)
{
    static LONG n_events;

    if (InterlockedIncrement(&n_events) > 1)
        return FALSE; /* from the second event on, Windows ends the process */
    on_stop(SIGINT);
    if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT)
        Sleep(INFINITE);
    return TRUE;
}

void os_set_stop_handler(void (*stop)(int number))
{
    on_stop = stop;
    SetConsoleCtrlHandler(handle_stop, TRUE);
}

/* Does nothing: Windows has no signals, and a BOINC client counts any exit code but 0 as an error
 * of the task. */
void os_exit_by_signal(int number)
{
    (void)number;
}

static const char *restart_variable; /* the environment variable that os_restart sets */

bool os_prepare_restart(char **argv, const char *variable)
{
    (void)argv;
    restart_variable = variable;
    return true;
}

/* Windows has no exec: this process starts the new one, waits for it and ends with its exit code.
 */
void os_restart(const char *value)
{
    enum { DESCRIPTORS = 512 }; /* higher descriptors are unlikely */
    static char program[32768];
    STARTUPINFOA start = { .cb = sizeof start };
    PROCESS_INFORMATION process;
    DWORD code = 0;

    SetEnvironmentVariableA(restart_variable, value);
    /* Closes this process's files, as their locks would keep the new process from opening them. */
    for (int fd = 3; fd < DESCRIPTORS; fd++)
        if (_get_osfhandle(fd) >= 0)
            CloseHandle(handle_of(fd));
    if (GetModuleFileNameA(NULL, program, sizeof program) == 0 ||
        !CreateProcessA(program, GetCommandLineA(), NULL, NULL, TRUE, 0, NULL, NULL, &start,
                        &process))
        return;
    SetConsoleCtrlHandler(NULL, TRUE); /* Ctrl-C is handled by the new process */
    WaitForSingleObject(process.hProcess, INFINITE);
    GetExitCodeProcess(process.hProcess, &code);
    os_exit_now((int)code);
}

int os_run_child(int (*work)(void *user), void *user, int *ended_by)
{
    *ended_by = 0;
    return work(user);
}

void os_limit_files(uint64_t bytes)
{
    (void)bytes;
}

/* Appends a word to a command line of `size` bytes at most, quoted so that the new program's C
 * library splits the line into the same words: a backslash is put before each quote, and before
 * each backslash of a sequence that precedes a quote or the word's end. */
static void add_word(char *line, size_t size, const char *word)
{
    size_t n = strlen(line);

    /* A backslash may be added for each character; 4 more: space, two quotes, NUL. */
    if (n + 2 * strlen(word) + 4 > size)
        return;
    if (n > 0)
        line[n++] = ' ';
    line[n++] = '"';
    for (; *word != '\0'; word++) {
        const char next_char = word[strspn(word, "\\")]; /* after a sequence of backslashes */

        if (*word == '"' || (*word == '\\' && (next_char == '"' || next_char == '\0')))
            line[n++] = '\\';
        line[n++] = *word;
    }
    line[n++] = '"';
    line[n] = '\0';
}

int os_run_program(char *const *words, int *ended_by)
{
    enum { LINE = 32768 };
    STARTUPINFOA start = { .cb = sizeof start };
    PROCESS_INFORMATION process;
    DWORD code = 0;
    char *const line = calloc(1, LINE), *const path = calloc(1, LINE);
    bool good = line != NULL && path != NULL;

    *ended_by = 0;
    if (good) {
        size_t at;

        GetModuleFileNameA(NULL, path, LINE - 1);
        at = (size_t)(os_base_name(path) - path);
        snprintf(path + at, LINE - at, "%s.exe", words[0]);
        for (size_t i = 0; words[i] != NULL; i++)
            add_word(line, LINE, words[i]);
        fflush(stdout);
        good = CreateProcessA(os_kind_of(path) == OS_FILE ? path : NULL, line, NULL, NULL, TRUE, 0,
                              NULL, NULL, &start, &process) ||
               fail_with(GetLastError());
    }
    free(line);
    free(path);
    if (!good)
        return -1;
    SetConsoleCtrlHandler(NULL, TRUE); /* Ctrl-C is handled by the child */
    WaitForSingleObject(process.hProcess, INFINITE);
    GetExitCodeProcess(process.hProcess, &code);
    SetConsoleCtrlHandler(NULL, FALSE);
    CloseHandle(process.hProcess);
    CloseHandle(process.hThread);
    return (int)code;
}

const char *os_signal_name(int number)
{
    (void)number;
    return "a fault";
}

static void (*on_fault)(int number); /* the argument of os_set_fault_handler */

/* Windows calls this function for exceptions that no code has handled, so not for exceptions that a
 * driver throws and catches itself. */
static LONG WINAPI handle_exception(EXCEPTION_POINTERS *what)
{
    switch (what->ExceptionRecord->ExceptionCode) {
    case EXCEPTION_ILLEGAL_INSTRUCTION:
    case EXCEPTION_PRIV_INSTRUCTION: on_fault(SIGILL); break;
    case EXCEPTION_INT_DIVIDE_BY_ZERO: on_fault(SIGFPE); break;
    default: on_fault(SIGSEGV); break;
    }
    return EXCEPTION_EXECUTE_HANDLER; /* ends the process without a message box */
}

/* The handler of SIGABRT. */
static void handle_abort(int number)
{
    on_fault(number);
}

void os_set_fault_handler(void (*caught)(int number))
{
    on_fault = caught;
    SetUnhandledExceptionFilter(handle_exception);
    signal(SIGABRT, handle_abort);
}

void os_unblock_faults(void)
{
}

/* Between SuspendThread and ResumeThread, no function may be called that needs a lock, as the
 * suspended thread may hold it. */
void os_pause_thread(pthread_t thread, double seconds)
{
    assert(seconds >= 0 && seconds < 1);
    const HANDLE handle = pthread_gethandle(thread);

    if (SuspendThread(handle) == (DWORD)-1)
        return;
    Sleep((DWORD)(seconds * 1e3));
    ResumeThread(handle);
}

bool os_create_thread(pthread_t *thread, void *(*work)(void *user), void *user)
{
    return pthread_create(thread, NULL, work, user) == 0;
}

/* --- the machine ----------------------------------------------------------------------------- */

/* Sleep() is exact only to 15.6 ms, so a high-resolution timer is used if the system has one. */
void os_sleep(double seconds)
{
    enum { HIGH_RESOLUTION = 2 }; /* since Windows 10 1803; the headers lack it */
    const LARGE_INTEGER time = { .QuadPart = -(LONGLONG)(seconds * 1e7) }; /* units of 100 ns;
                                                                             negative: from now */
    HANDLE timer;

    if (seconds <= 0)
        return;
    timer = CreateWaitableTimerExW(NULL, NULL, HIGH_RESOLUTION, TIMER_MODIFY_STATE | SYNCHRONIZE);
    if (timer != NULL && SetWaitableTimer(timer, &time, 0, NULL, NULL, FALSE))
        WaitForSingleObject(timer, INFINITE);
    else
        Sleep((DWORD)(seconds * 1e3) + 1);
    if (timer != NULL)
        CloseHandle(timer);
}

unsigned os_processors(void)
{
    const DWORD n = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);

    return n < 1 ? 1 : (unsigned)n;
}

bool os_random(void *out, size_t n)
{
    return RtlGenRandom(out, (ULONG)n);
}

size_t os_terminal_columns(void)
{
    CONSOLE_SCREEN_BUFFER_INFO info;

    return GetConsoleScreenBufferInfo(GetStdHandle(STD_ERROR_HANDLE), &info)
               ? (size_t)(info.srWindow.Right - info.srWindow.Left + 1)
               : 0;
}

void *os_alloc_zeroed(size_t bytes)
{
    return calloc(1, bytes);
}

void os_trim_memory(void)
{
}

void *os_alloc_aligned(size_t bytes)
{
    void *const memory = _aligned_malloc(bytes > 0 ? bytes : 1, 64);

    return memory == NULL ? NULL : memset(memory, 0, bytes);
}

void os_free_aligned(void *memory)
{
    _aligned_free(memory);
}

/* --- libraries ------------------------------------------------------------------------------- */

const char os_opencl_library_name[] = "OpenCL.dll";

/* A library that is given by its name alone is loaded from the system's folder, not from the
 * program's folder or the current folder, where anybody may have put one. */
void *os_open_library(const char *name)
{
    if (name == NULL)
        return GetModuleHandleA(NULL);
    return LoadLibraryExA(name, NULL,
                          *os_base_name(name) != '\0' && os_base_name(name) != name
                              ? LOAD_WITH_ALTERED_SEARCH_PATH
                              : LOAD_LIBRARY_SEARCH_SYSTEM32);
}

os_function os_find_function(void *library, const char *name)
{
    return (os_function)GetProcAddress(library, name);
}
