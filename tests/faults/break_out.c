/*
 * Preloaded into a program, acts for a stranger who has taken it over: when it reads from a file
 * whose name has BREAK_AT in it for the first time, tries whatever would do harm outside, to
 * the file and in the folder that BREAK_VICTIM and BREAK_FOLDER name. Says on stderr what
 * succeeded, and how much was tried.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int tried;

static void outcome(const char *what, long result)
{
    tried++;
    if (result >= 0)
        dprintf(2, "broke out: %s\n", what);
}
#define TRY(call) outcome(#call, call)

static long listed(const char *folder)
{
    DIR *const dir = opendir(folder);

    return dir == NULL ? -1 : closedir(dir);
}

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

static long peeked(pid_t pid)
{
    char byte;
    struct iovec to = { &byte, 1 },
                 from = { (void *)(uintptr_t)&environ, 1 }; /* the parent is the same program */

    return process_vm_readv(pid, &to, 1, &from, 1, 0);
}

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

static void look(int fd)
{
    static atomic_int done;
    const char *const at = getenv("BREAK_AT");
    char link[40], path[4096];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    if (at == NULL || strstr(path, at) == NULL || atomic_exchange(&done, 1))
        return;
    try_files(getenv("BREAK_VICTIM"), getenv("BREAK_FOLDER"));
    try_others(getenv("BREAK_VICTIM"));
    dprintf(2, "tried: %d\n", tried);
}

#define PREAD(name, type)                                  \
    ssize_t name(int fd, void *data, size_t n, type at)    \
    {                                                      \
        static ssize_t (*next)(int, void *, size_t, type); \
        if (next == NULL)                                  \
            *(void **)&next = dlsym(RTLD_NEXT, #name);     \
        look(fd);                                          \
        return next(fd, data, n, at);                      \
    }
PREAD(pread, off_t)
PREAD(pread64, off64_t)
