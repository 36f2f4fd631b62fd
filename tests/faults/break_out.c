/*
 * A library to be preloaded into a program; it acts like an attacker who controls the program. When
 * the program first reads byte BREAK_FROM or later of a file whose name contains BREAK_AT, the
 * library tries every call that would do harm outside: to the file BREAK_VICTIM, in the folder
 * BREAK_FOLDER, and elsewhere. It prints the successful calls and the number of tries to stderr.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int tried; /* number of tries */

/* Counts a try, and prints it if it succeeded (result >= 0). */
static void outcome(const char *what, long result)
{
    tried++;
    if (result >= 0)
        dprintf(2, "broke out: %s\n", what);
}
#define TRY(call) outcome(#call, call)

/* Opens a folder for listing. The functions below return -1 if they are prevented, else 0 or more.
 */
static long listed(const char *folder)
{
    DIR *const dir = opendir(folder);

    return dir == NULL ? -1 : closedir(dir);
}

/* Runs a program. */
static long started(const char *program)
{
    const pid_t child = fork();
    int status = 0;

    if (child == 0) {
        execl(program, program, (char *)NULL);
        _exit(99);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
                   WEXITSTATUS(status) == 0
               ? 0
               : -1;
}

/* Reads a byte of another process's memory. */
static long peeked(pid_t pid)
{
    char byte;
    struct iovec to = { &byte, 1 },
                 from = { (void *)(uintptr_t)&environ, 1 }; /* the same address in the parent */

    return process_vm_readv(pid, &to, 1, &from, 1, 0);
}

/* Tries to open, make, change and delete files. */
static void try_files(const char *victim, const char *folder)
{
    char made[4096], memory[64];

    snprintf(made, sizeof made, "%s/made", folder);
    snprintf(memory, sizeof memory, "/proc/%d/mem", (int)getppid());
    TRY(open(victim, O_RDONLY));
    TRY(open(victim, O_WRONLY));
    TRY(open(victim, O_RDONLY | O_TRUNC));
    TRY(open("/etc/passwd", O_RDONLY));
    TRY(open(memory, O_RDWR));
    TRY(open(made, O_WRONLY | O_CREAT, 0666));
    TRY(open(folder, O_RDWR | O_TMPFILE, 0666));
    TRY(mkdir(made, 0777));
    TRY(symlink("/", made));
    TRY(mkfifo(made, 0666));
    TRY(link(victim, made));
    TRY(rename(victim, made));
    TRY(truncate(victim, 0));
    TRY(chmod(victim, 0777));
    TRY(utimensat(AT_FDCWD, victim, NULL, 0));
    TRY(unlink(victim));
    TRY(listed("/"));
    TRY(listed(folder));
}

static void *in_a_thread(void *path)
{
    TRY(open(path, O_RDONLY));
    TRY(socket(AF_INET, SOCK_STREAM, 0));
    return NULL;
}

/* Tries sockets, programs, other processes, and the same from a thread. */
static void try_others(const char *victim)
{
    pthread_t thread;
    int pair[2];

    TRY(socket(AF_INET, SOCK_STREAM, 0));
    TRY(socket(AF_INET, SOCK_DGRAM, 0));
    TRY(socket(AF_UNIX, SOCK_STREAM, 0));
    TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    TRY(syscall(425 /* io_uring_setup */, 1, NULL) >= 0 || errno == EFAULT ? 0 : -1);
    TRY(started("/bin/true"));
    TRY(kill(getppid(), 0));
    TRY(syscall(SYS_tgkill, getppid(), getppid(), 0));
    TRY(peeked(getppid()));
    if (pthread_create(&thread, NULL, in_a_thread, (void *)(uintptr_t)victim) == 0)
        pthread_join(thread, NULL);
}

/* Tries descriptors that the parent process has left open (BREAK_INHERITED and the next two), and
 * all sockets. */
static void try_descriptors(void)
{
    const char *const first = getenv("BREAK_INHERITED");
    struct stat info;
    enum { DESCRIPTORS = 1024 };

    for (int i = 0; i < 3; i++)
        TRY(fcntl(atoi(first) + i, F_GETFD));
    for (int fd = 0; fd < DESCRIPTORS; fd++)
        if (fstat(fd, &info) == 0)
            TRY(S_ISSOCK(info.st_mode) ? 0 : -1);
}

/* Makes the kernel send the process pid a signal that ends it whenever there is input. */
static long owned(pid_t pid)
{
    int ends[2];
    const int fd = pipe(ends) == 0 ? ends[0] : 2;

    (void)fcntl(fd, 10 /* F_SETSIG */, SIGKILL);
    return fcntl(fd, F_SETOWN, pid);
}

static long in_new_spaces(void)
{
    const long child = syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0);

    if (child == 0)
        _exit(0);
    return child;
}

/* Tries calls without file names. own: descriptor of a file that the program reads. */
static void try_calls(int own, const char *folder)
{
    const pid_t parent = getppid();
    struct rlimit none = { 0, 0 };
    struct sched_param idle = { 0 };
    cpu_set_t one;
    char special[4096], blank = ' ';

    snprintf(special, sizeof special, "%s/special", folder);
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    TRY(shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600));
    TRY(msgget(IPC_PRIVATE, IPC_CREAT | 0600));
    TRY(syscall(SYS_mq_open, "texcell", O_CREAT | O_RDWR, 0600, NULL));
    TRY(prlimit(parent, RLIMIT_CORE, &none, NULL));
    TRY(setrlimit(RLIMIT_CORE, &none));
    TRY(setpriority(PRIO_PROCESS, (id_t)parent, 19));
    TRY(sched_setaffinity(parent, sizeof one, &one));
    TRY(sched_setscheduler(parent, SCHED_IDLE, &idle));
    TRY(fchmod(own, 0666));
    TRY(fchown(own, (uid_t)-1, (gid_t)-1));
    TRY(open(special, O_WRONLY | O_CREAT, 06777));
    TRY(ioctl(2, TIOCSTI, &blank) == 0 || errno != EPERM ? 0 : -1);
    TRY(owned(parent));
    TRY(in_new_spaces());
    TRY(syscall(430 /* fsopen */, "tmpfs", 0));
    TRY(syscall(434 /* pidfd_open */, parent, 0));
    TRY(inotify_init());
    TRY(prctl(PR_SET_NAME, "other"));
    TRY(syscall(SYS_memfd_create, "x", 0));
    /* Standard output and error may be files, such as the log of a daemon. */
    for (int fd = 0; fd < 3; fd++) {
        TRY(ftruncate(fd, 0));
        TRY(lseek(fd, 0, SEEK_SET));
        TRY(dup(fd));
        TRY(pwrite(fd, "x", 1, 0));
        TRY(mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0);
    }
}

/* Makes every system call that the program may not make according to allowed_calls.h. BREAK_CALLS:
 * the rights that the program has, as bits (NEEDS in allowed_calls.h). */
static void try_table(void)
{
    static const struct {
        int number;
        unsigned needs;
    } named[] = {
#define CALL(name, needs) { SYS_##name, needs },
#include "allowed_calls.h"
    };
    const char *const calls = getenv("BREAK_CALLS");
    /* These two calls are left out: no filter can refuse them, and the kernel kills a process that
     * makes them unless it has set a probe there. */
    enum { URETPROBE = 335, UPROBE = 336 };
    enum { NUMBERS = 1024, CONDITIONAL = 4 };
    char what[40];

    for (int number = 0; number < NUMBERS; number++) {
        bool may = number == URETPROBE || number == UPROBE;

        for (size_t i = 0; i < sizeof named / sizeof *named; i++)
            may = may || (named[i].number == number &&
                          (named[i].needs & ~(unsigned)CONDITIONAL & ~(unsigned)atoi(calls)) == 0);
        if (may)
            continue;
        snprintf(what, sizeof what, "call %d", number);
        outcome(what,
                syscall(number, -1L, -1L, -1L, -1L, -1L, -1L) == -1 && errno == EPERM ? -1 : 0);
    }
}

static void look(int fd, int64_t place)
{
    static atomic_int done;
    const char *const at = getenv("BREAK_AT"), *const from = getenv("BREAK_FROM");
    char link[40], path[4096];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    if (at == NULL || strstr(path, at) == NULL || (from != NULL && place < atol(from)) ||
        atomic_exchange(&done, 1))
        return;
    try_files(getenv("BREAK_VICTIM"), getenv("BREAK_FOLDER"));
    try_others(getenv("BREAK_VICTIM"));
    /* Without confinement the further tries could harm other programs: a test sets BREAK_CALLS only
     * if the program is confined. */
    if (getenv("BREAK_CALLS") != NULL) {
        try_descriptors();
        try_calls(fd, getenv("BREAK_FOLDER"));
        try_table();
    }
    dprintf(2, "tried: %d\n", tried);
}

#define PREAD(name, type)                                  \
    ssize_t name(int fd, void *data, size_t n, type at)    \
    {                                                      \
        static ssize_t (*next)(int, void *, size_t, type); \
        if (next == NULL)                                  \
            *(void **)&next = dlsym(RTLD_NEXT, #name);     \
        look(fd, at);                                      \
        return next(fd, data, n, at);                      \
    }
PREAD(pread, off_t)
PREAD(pread64, off64_t)
