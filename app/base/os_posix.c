/* Implements os.h for Linux, macOS and other POSIX systems. */
#include "config.h" /* first: defines _GNU_SOURCE */

#include "app/base/os.h"

#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include "app/base/files.h"

extern char **environ;

/* --- files ----------------------------------------------------------------------------------- */

int os_open(const char *path, os_access access)
{
    static const int flags[] = { [OS_READ] = O_RDONLY | O_NONBLOCK,
                                 [OS_NEW] = O_WRONLY | O_CREAT | O_EXCL,
                                 [OS_OVERWRITE] = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW,
                                 [OS_OVERWRITE_PRIVATE] = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW,
                                 [OS_UPDATE] = O_RDWR | O_CREAT | O_NOFOLLOW,
                                 [OS_APPEND] = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW };

    return open(path, flags[access] | O_CLOEXEC, access == OS_OVERWRITE_PRIVATE ? 0600 : 0666);
}

ptrdiff_t os_read_at(int fd, void *data, size_t n, uint64_t at)
{
    return pread(fd, data, n, (off_t)at);
}

ptrdiff_t os_write_at(int fd, const void *data, size_t n, uint64_t at)
{
    return pwrite(fd, data, n, (off_t)at);
}

bool os_sync(int fd)
{
    return fsync(fd) == 0;
}

bool os_sync_written(int fd, uint64_t from, uint64_t to)
{
    assert(from <= to);
#if defined SYS_sync_file_range && __SIZEOF_LONG__ == 8
    /* The file is divided into blocks of 128 KiB. Starts to write to the disk the blocks that this
     * piece has completed, and waits until all earlier blocks are written. */
    const uint64_t block = 1 << 17, begin = from / block * block, end = to / block * block;

    /* Kernels and file systems that cannot do this are no error. */
    return begin == end ||
           ((begin == 0 || syscall(SYS_sync_file_range, fd, (off_t)0, (off_t)begin,
                                   SYNC_FILE_RANGE_WAIT_BEFORE) == 0) &&
            syscall(SYS_sync_file_range, fd, (off_t)begin, (off_t)(end - begin),
                    SYNC_FILE_RANGE_WRITE) == 0) ||
           errno == ENOSYS || errno == EPERM || errno == EINVAL || errno == ESPIPE;
#else
    return from >> 22 == to >> 22 || os_sync(fd); /* syncs once every 4 MiB */
#endif
}

bool os_reserve(int fd, uint64_t size)
{
#ifdef __linux__
    return fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)size) == 0;
#else
    (void)fd;
    (void)size;
    return false;
#endif
}

bool os_lock(int fd)
{
    return flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

bool os_replace(const char *from, const char *to)
{
    char *folder;
    int fd;

    if (rename(from, to) != 0)
        return false;
    folder = tc_folder_of(to);
    fd = folder == NULL ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd); /* not an error if it fails: some file systems cannot sync folders */
        close(fd);
    }
    free(folder);
    return true;
}

/* Whether both describe the same file. */
static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool os_same_file(const char *a, const char *b)
{
    struct stat sa, sb;

    return stat(a, &sa) == 0 && stat(b, &sb) == 0 && is_same(&sa, &sb);
}

bool os_path_refers_to(const char *path, int fd)
{
    struct stat by_path, by_descriptor;

    return lstat(path, &by_path) == 0 && fstat(fd, &by_descriptor) == 0 &&
           is_same(&by_path, &by_descriptor);
}

#ifdef __APPLE__
#define CONTENT_TIME(info) ((info)->st_mtimespec)
#define INODE_TIME(info) ((info)->st_ctimespec)
#else
#define CONTENT_TIME(info) ((info)->st_mtim)
#define INODE_TIME(info) ((info)->st_ctim)
#endif

bool os_file_version(int fd, char text[OS_VERSION_TEXT])
{
    /* Seconds after a change until a further change certainly gets another time: file systems store
     * times in steps of up to two seconds. */
    enum { SETTLED_SECONDS = 3 };
    struct stat info;
    struct timespec now;

    if (fstat(fd, &info) != 0 || clock_gettime(CLOCK_REALTIME, &now) != 0)
        return false;
    const struct timespec content = CONTENT_TIME(&info), inode = INODE_TIME(&info);

    snprintf(text, OS_VERSION_TEXT, "%llx:%llx:%llx:%llx.%lx:%llx.%lx",
             (unsigned long long)info.st_dev, (unsigned long long)info.st_ino,
             (unsigned long long)info.st_size, (unsigned long long)content.tv_sec,
             (unsigned long)content.tv_nsec, (unsigned long long)inode.tv_sec,
             (unsigned long)inode.tv_nsec);
    return now.tv_sec - content.tv_sec >= SETTLED_SECONDS &&
           now.tv_sec - inode.tv_sec >= SETTLED_SECONDS;
}

bool os_is_newer(const char *a, const char *b)
{
    struct stat sa, sb;

    if (stat(a, &sa) != 0 || stat(b, &sb) != 0)
        return false;
    const struct timespec ta = CONTENT_TIME(&sa), tb = CONTENT_TIME(&sb);

    return ta.tv_sec > tb.tv_sec || (ta.tv_sec == tb.tv_sec && ta.tv_nsec > tb.tv_nsec);
}

static os_kind kind_of(mode_t mode)
{
    return S_ISREG(mode) ? OS_FILE : S_ISDIR(mode) ? OS_FOLDER : OS_OTHER;
}

os_kind os_kind_of(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 ? kind_of(info.st_mode) : OS_NOTHING;
}

os_kind os_kind_of_link(const char *path)
{
    struct stat info;

    return lstat(path, &info) == 0 ? kind_of(info.st_mode) : OS_NOTHING;
}

/* --- names and folders ----------------------------------------------------------------------- */

bool os_is_separator(char c)
{
    return c == '/';
}

const char *os_base_name(const char *path)
{
    const char *const slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

char *os_absolute_path(const char *path)
{
    return realpath(path, NULL);
}

bool os_make_folder(const char *path)
{
    return mkdir(path, 0777) == 0;
}

bool os_make_private_folder(const char *path)
{
    return mkdir(path, 0700) == 0;
}

void os_remove_old_folder(const char *parent, const char *name, unsigned age)
{
    const int place = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int fd =
        place < 0 ? -1 : openat(place, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *const folder = fd < 0 ? NULL : fdopendir(fd);
    struct stat info;

    if (folder != NULL && fstat(fd, &info) == 0 && info.st_uid == geteuid() &&
        difftime(time(NULL), info.st_mtime) > age) {
        for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
            (void)unlinkat(fd, entry->d_name, 0); /* fails for "." and ".." */
        (void)unlinkat(place, name, AT_REMOVEDIR);
    }
    if (folder != NULL)
        closedir(folder);
    else if (fd >= 0)
        close(fd);
    if (place >= 0)
        close(place);
}

bool os_is_writable_folder(const char *path)
{
    struct stat info;

    if (stat(path, &info) == 0 && !S_ISDIR(info.st_mode)) {
        errno = ENOTDIR;
        return false;
    }
    return access(path, W_OK | X_OK) == 0;
}

/* --- the process ----------------------------------------------------------------------------- */

void os_init_process(void)
{
    int fd;

    /* If a standard stream is closed, the next file that is opened would get its number, and this
     * program's messages would go into that file. Opening /dev/null fills these numbers. */
    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
    signal(SIGXFSZ, SIG_IGN); /* writing beyond the limit on file sizes fails with EFBIG */
    signal(SIGPIPE, SIG_IGN); /* writing to a closed pipe fails with EPIPE */
#ifdef __GLIBC__
    /* By default glibc keeps freed blocks of up to 32 MiB for reuse, and calloc (os_alloc_zeroed)
     * has to clear them; new memory from the kernel is already zero. From these sizes on, freed
     * memory goes back to the kernel. One arena: threads share the freed memory. */
    mallopt(M_MMAP_THRESHOLD, 4 << 20);
    mallopt(M_TRIM_THRESHOLD, 8 << 20);
    mallopt(M_ARENA_MAX, 1);
#endif
}

void os_exit_now(int code)
{
    _exit(code);
}

void os_set_stop_handler(void (*stop)(int number))
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGXCPU };

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (signal(numbers[i], stop) == SIG_IGN)
            signal(numbers[i], SIG_IGN); /* it was ignored (for example by nohup) and stays so */
}

void os_exit_by_signal(int number)
{
    signal(number, SIG_DFL);
    raise(number);
}

/* The command line and environment of os_restart. */
static struct {
    char **argv, **envp; /* the last element of envp before NULL is `note` */
    char note[512];      /* the environment variable that os_restart sets, as VARIABLE=VALUE */
} start_copy;

bool os_prepare_restart(char **argv, const char *variable)
{
    const size_t length = strlen(variable);
    size_t words = 0, n = 0, n_envp = 0; /* elements of argv, environ and start_copy.envp */

    while (argv[words] != NULL)
        words++;
    while (environ[n] != NULL)
        n++;
    /* argv is copied, as tc_read_options will reorder it. */
    start_copy.argv = calloc(words + 1, sizeof *start_copy.argv);
    start_copy.envp = calloc(n + 2, sizeof *start_copy.envp); /* 2 more: `note` and NULL */
    if (start_copy.argv == NULL || start_copy.envp == NULL)
        return false;
    for (size_t i = 0; i < words; i++)
        start_copy.argv[i] = argv[i];
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], variable, length) != 0 || environ[i][length] != '=')
            start_copy.envp[n_envp++] = environ[i];
    start_copy.envp[n_envp] = start_copy.note;
    snprintf(start_copy.note, sizeof start_copy.note, "%s=", variable);
    return true;
}

void os_restart(const char *value)
{
    enum { DESCRIPTORS = 1024 }; /* higher descriptors are unlikely */
    size_t n = strnlen(start_copy.note, sizeof start_copy.note);

    while (*value != '\0' && n + 1 < sizeof start_copy.note)
        start_copy.note[n++] = *value++;
    start_copy.note[n] = '\0';
    /* Lets execve close a library's files. Closing them here would break threads of the library
     * that still run. */
    for (int fd = STDERR_FILENO + 1; fd < DESCRIPTORS; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    execve("/proc/self/exe", start_copy.argv, start_copy.envp);
    execve(start_copy.argv[0], start_copy.argv, start_copy.envp);
}

/* Waits until the child process ends; returns its exit code and sets *ended_by as os_run_child
 * does. Returns -1 if the child was not started (child < 0). */
static int wait_for_child(pid_t child, int *ended_by)
{
    int status = 0;
    pid_t ended;

    *ended_by = 0;
    do
        ended = child < 0 ? -1 : waitpid(child, &status, 0);
    while (ended < 0 && child > 0 && errno == EINTR);
    if (ended < 0)
        return -1;
    *ended_by = WIFEXITED(status) ? 0 : WTERMSIG(status);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

/* Standard output or standard error of a child process. */
typedef struct stream {
    FILE *to;    /* this process's stream that the bytes are copied to */
    int ends[2]; /* the pipe from the child: [0] for reading, [1] for writing; -1: closed */
    size_t left; /* the number of bytes that may still be copied; further bytes are dropped */
} stream;

enum { STREAMS = 2 };           /* number of streams: standard output and standard error */
enum { STREAM_MOST = 1 << 18 }; /* the most bytes of one stream that are copied */

/* Closes an end of a pipe unless it is closed already. */
static void close_end(int *end)
{
    if (*end >= 0)
        close(*end);
    *end = -1;
}

/* Called in the child process: makes the pipes the standard streams of this process, and closes all
 * other descriptors. empty: the read end of a pipe without a writer, which becomes standard input.
 * Returns false on an error. */
static bool use_streams(int empty, const stream *streams)
{
    bool good = dup2(empty, STDIN_FILENO) >= 0;

    for (int i = 0; good && i < STREAMS; i++)
        good = dup2(streams[i].ends[1], fileno(streams[i].to)) >= 0;
    os_close_inherited();
    return good;
}

/* Copies the bytes that the child has written to a stream, with '?' for control characters. Closes
 * the pipe if the child has closed it. */
static void copy_bytes(stream *s)
{
    char bytes[4096];
    const ssize_t n = read(s->ends[0], bytes, sizeof bytes);
    const size_t passed = n < 0 ? 0 : (size_t)n < s->left ? (size_t)n : s->left;

    if (n == 0 || (n < 0 && errno != EINTR))
        close_end(&s->ends[0]);
    for (size_t i = 0; i < passed; i++)
        if (iscntrl((unsigned char)bytes[i]) && bytes[i] != '\n' && bytes[i] != '\t')
            bytes[i] = '?';
    s->left -= passed;
    (void)fwrite(bytes, 1, passed, s->to); /* tc_report_failure checks for errors */
}

/* Copies the bytes that the child writes to both streams until it has closed them. */
static void copy_streams(stream *streams)
{
    while (streams[0].ends[0] >= 0 || streams[1].ends[0] >= 0) {
        struct pollfd polled[STREAMS];

        for (int i = 0; i < STREAMS; i++)
            polled[i] = (struct pollfd){ .fd = streams[i].ends[0], .events = POLLIN };
        if (poll(polled, STREAMS, -1) < 0 && errno != EINTR)
            return;
        for (int i = 0; i < STREAMS; i++)
            if (polled[i].fd >= 0 && polled[i].revents != 0)
                copy_bytes(&streams[i]);
    }
}

/* On Linux, makes the kernel kill this process when its parent process ends, even if the parent is
 * killed. On other systems this process would continue. Returns false if the parent has already
 * ended. */
static bool die_with_parent(pid_t parent)
{
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    return getppid() == parent;
}

int os_run_child(int (*work)(void *user), void *user, int *ended_by)
{
    const pid_t parent = getpid();
    stream streams[STREAMS] = { { stdout, { -1, -1 }, STREAM_MOST },
                                { stderr, { -1, -1 }, STREAM_MOST } };
    pid_t child = -1;
    int empty[2] = { -1, -1 }, error; /* the child's standard input: a pipe without a writer */

    fflush(stdout);
    if (pipe(empty) == 0 && pipe(streams[0].ends) == 0 && pipe(streams[1].ends) == 0)
        child = fork();
    error = errno; /* the error of pipe or fork, which the calls below may overwrite */
    if (child == 0)
        exit(die_with_parent(parent) && use_streams(empty[0], streams) ? work(user) : EXIT_FAILURE);
    close_end(&empty[0]);
    close_end(&empty[1]);
    for (int i = 0; i < STREAMS; i++)
        close_end(&streams[i].ends[1]);
    if (child > 0)
        copy_streams(streams);
    for (int i = 0; i < STREAMS; i++)
        close_end(&streams[i].ends[0]);
    errno = error;
    return wait_for_child(child, ended_by);
}

static volatile sig_atomic_t child_pid; /* the child of os_run_program */

/* A signal handler that forwards a stop signal to the child. On Ctrl-C the terminal sends SIGINT to
 * both processes, and a second SIGINT would end the child at once, so SIGINT is forwarded as
 * SIGTERM. */
static void forward_signal(int number)
{
    kill(child_pid, number == SIGINT ? SIGTERM : number);
}

int os_run_program(char *const *words, int *ended_by)
{
    char path[4096];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    pid_t child = -1;
    size_t at;
    int error;

    /* Replaces the last part of this program's path by words[0]. */
    path[n > 0 ? n : 0] = '\0';
    at = (size_t)(os_base_name(path) - path);
    snprintf(path + at, sizeof path - at, "%s", words[0]);
    fflush(stdout);
    error =
        posix_spawnp(&child, access(path, X_OK) == 0 ? path : words[0], NULL, NULL, words, environ);
    if (error != 0) {
        errno = error;
        return -1;
    }
    child_pid = child;
    os_set_stop_handler(forward_signal);
    error = wait_for_child(child, ended_by);
    os_set_stop_handler(SIG_DFL);
    return error;
}

void os_limit_files(uint64_t bytes)
{
    const rlim_t most = (rlim_t)bytes;
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur <= most)
        return;
    limit.rlim_cur = most;
    (void)signal(SIGXFSZ, SIG_IGN); /* so that write() fails */
    setrlimit(RLIMIT_FSIZE, &limit);
}

const char *os_signal_name(int number)
{
    return strsignal(number);
}

static void (*on_fault)(int number); /* the argument of os_set_fault_handler */

/* A signal handler that calls on_fault, and if on_fault returns ends the process by the signal. */
static void handle_fault_signal(int number)
{
    on_fault(number);
    signal(number, SIG_DFL);
    raise(number);
}

void os_set_fault_handler(void (*caught)(int number))
{
    static const int fatal[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS };
    static char memory[64 * 1024]; /* the handler's stack, as the thread's may have overflowed */
    const stack_t stack = { .ss_sp = memory, .ss_size = sizeof memory };
    const struct sigaction action = { .sa_handler = handle_fault_signal,
                                      .sa_flags = SA_ONSTACK | SA_NODEFER };

    on_fault = caught;
    sigaltstack(&stack, NULL);
    for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++)
        sigaction(fatal[i], &action, NULL);
}

void os_unblock_faults(void)
{
    sigset_t none;

    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
}

static volatile long sleep_ns; /* how long sleep_in_handler sleeps, in nanoseconds */

/* The handler of SIGURG. */
static void sleep_in_handler(int unused)
{
    const struct timespec time = { 0, sleep_ns };
    const int before = errno;

    (void)unused;
    nanosleep(&time, NULL);
    errno = before;
}

/* Sends the thread SIGURG, whose handler sleeps. This signal is rarely used, and by default it is
 * ignored. */
void os_pause_thread(pthread_t thread, double seconds)
{
    assert(seconds >= 0 && seconds < 1);
    const struct sigaction action = { .sa_handler = sleep_in_handler, .sa_flags = SA_RESTART };

    sleep_ns = (long)(seconds * 1e9);
    if (sigaction(SIGURG, &action, NULL) == 0)
        pthread_kill(thread, SIGURG);
}

bool os_create_thread(pthread_t *thread, void *(*work)(void *user), void *user)
{
    /* The size of the stack in bytes; analyses use up to 24 KiB of it. It is less than a huge page
     * (2 MiB): where the system uses huge pages automatically, a larger stack would occupy a whole
     * huge page from the start. */
    const size_t stack = (size_t)1 << 20;
    pthread_attr_t attributes;
    sigset_t all, before;
    int code;

    if (pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setstacksize(&attributes, stack);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    code = pthread_create(thread, &attributes, work, user);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return code == 0;
}

/* --- the machine ----------------------------------------------------------------------------- */

void os_sleep(double seconds)
{
    const time_t whole = (time_t)seconds;
    const struct timespec time = { whole, (long)((seconds - (double)whole) * 1e9) };

    if (seconds > 0)
        nanosleep(&time, NULL);
}

unsigned os_processors(void)
{
#ifdef CPU_COUNT
    cpu_set_t set; /* the processors that this process may use */

    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return (unsigned)CPU_COUNT(&set);
#endif
    const long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : (unsigned)n;
}

bool os_random(void *out, size_t n)
{
    const int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    const bool good = fd >= 0 && read(fd, out, n) == (ssize_t)n;

    if (fd >= 0)
        close(fd);
    return good;
}

size_t os_terminal_columns(void)
{
    struct winsize size = { 0 };

    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

#ifdef MADV_HUGEPAGE
/* Allocates zeroed memory that begins at the start of a huge page: otherwise the number of huge
 * pages that it occupies, and so the peak memory, would vary. */
static void *zeroed_huge_pages(size_t bytes)
{
    const size_t huge = (size_t)2 << 20, page = (size_t)sysconf(_SC_PAGESIZE),
                 pages = bytes / page * page; /* bytes of all whole pages */
    char *const memory = aligned_alloc(huge, (bytes + huge - 1) / huge * huge);

    if (memory == NULL)
        return NULL;
    /* The kernel replaces the pages by zeroed ones at their next use. */
    if (madvise(memory, pages, MADV_DONTNEED) != 0)
        memset(memory, 0, pages);
    memset(memory + pages, 0, bytes - pages);
    /* This is only advice, so failure does not matter. */
    (void)madvise(memory, pages, MADV_HUGEPAGE);
    return memory;
}
#endif

void *os_alloc_zeroed(size_t bytes)
{
#ifdef MADV_HUGEPAGE
    /* least: two huge pages. most: avoids an overflow in zeroed_huge_pages. */
    const size_t least = (size_t)4 << 20, most = SIZE_MAX / 2;

    if (bytes >= least && bytes <= most)
        return zeroed_huge_pages(bytes);
#endif
    return calloc(1, bytes);
}

void os_trim_memory(void)
{
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

void *os_alloc_aligned(size_t bytes)
{
    const size_t whole = (bytes + 63) / 64 * 64;
    void *const memory = aligned_alloc(64, whole);

    return memory == NULL ? NULL : memset(memory, 0, whole);
}

void os_free_aligned(void *memory)
{
    free(memory);
}

/* --- libraries ------------------------------------------------------------------------------- */

#ifdef __APPLE__
const char os_opencl_library_name[] = "/System/Library/Frameworks/OpenCL.framework/OpenCL";
#else
const char os_opencl_library_name[] = "libOpenCL.so.1";
#endif

void *os_open_library(const char *name)
{
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

os_function os_find_function(void *library, const char *name)
{
    /* POSIX requires that dlsym's result can be used as a function pointer. memcpy avoids a cast
     * from an object pointer to a function pointer, which ISO C leaves undefined. */
    void *const object = dlsym(library, name);
    os_function function = NULL;

    _Static_assert(sizeof function == sizeof object, "POSIX function pointers are object-sized");
    memcpy(&function, &object, sizeof function);
    return function;
}
