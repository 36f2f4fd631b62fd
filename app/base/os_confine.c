/*
 * Confines a process before it reads an untrusted file: closes inherited descriptors on all
 * systems, and on Linux restricts access to files (Landlock) and the allowed system calls
 * (seccomp).
 */
#include "config.h"

#include "app/base/os.h"

#include <errno.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/syscall.h>
#endif

/* --- descriptors ----------------------------------------------------------------------------- */

#if defined(_WIN32)
void os_close_inherited(void)
{
}
#else
void os_close_inherited(void)
{
    enum {
        CLOSE_RANGE = 436, /* the number of the system call close_range, on all processors */
        FIRST = STDERR_FILENO + 1,
        MOST = 1 << 20 /* the highest descriptor that is closed if close_range is missing */
    };
    const long limit = sysconf(_SC_OPEN_MAX);

#if defined(__linux__)
    if (syscall(CLOSE_RANGE, FIRST, ~0U, 0) == 0)
        return;
#endif
    for (int fd = FIRST; fd < (limit > 0 && limit < MOST ? limit : MOST); fd++)
        close(fd);
}
#endif

#if defined(__linux__) && !defined(TC_UNCONFINED) && (defined(__x86_64__) || defined(__aarch64__))

#include <asm/ioctls.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

/* --- files: Landlock -------------------------------------------------------------------------
 *
 * Landlock's constants are repeated here, as the headers of the build system may lack them. They
 * are the same on all processors. */

/* Numbers of Landlock's system calls. */
enum {
    CREATE_RULESET = 444, /* landlock_create_ruleset */
    ADD_RULE = 445,       /* landlock_add_rule */
    RESTRICT_SELF = 446   /* landlock_restrict_self */
};
enum {
    ASK_VERSION = 1, /* a flag of CREATE_RULESET: it returns Landlock's version */
    PATH_RULE = 1    /* the kind of a rule for a folder and everything in it */
};

/* Access rights, as bits (LANDLOCK_ACCESS_FS_...). FILE_RIGHTS are the rights that a rule for a
 * file may contain; all other rights are only for folders. */
enum {
    EXECUTE = 1,
    WRITE_FILE = 1 << 1,
    READ_FILE = 1 << 2,
    READ_DIR = 1 << 3,
    REMOVE_FILE = 1 << 5,
    MAKE_DIR = 1 << 7,
    MAKE_REG = 1 << 8,
    TRUNCATE = 1 << 14,
    FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
};

/* struct landlock_ruleset_attr. */
typedef struct ruleset {
    uint64_t files, net, scope; /* bits of rights that are denied unless a rule allows them */
} ruleset;

/* struct landlock_path_beneath_attr: allows rights for the opened file or folder `fd`. */
typedef struct __attribute__((packed)) rule {
    uint64_t allowed;
    int32_t fd;
} rule;

unsigned os_landlock_version(void)
{
    const long version = syscall(CREATE_RULESET, NULL, 0, ASK_VERSION);

    return version > 0 ? (unsigned)version : 0;
}

/* Returns all rights that a version of Landlock can deny: for files; for TCP (3: bind and connect);
 * and for abstract sockets and signals of other processes (3). last[version]: the number of the
 * highest bit of the rights for files. */
static ruleset all_rights(unsigned version)
{
    const int last[] = { 0, 12, 13, 14, 14, 15 }; /* the same for all versions from 5 on */
    const unsigned available = version < 5 ? version : 5;

    /* (2 << last) - 1: all bits up to bit `last`. */
    return (ruleset){ ((uint64_t)2 << last[available]) - 1, version >= 4 ? 3 : 0,
                      version >= 6 ? 3 : 0 };
}

/* Whether opening a path failed because nothing accessible exists there; such a path needs no rule.
 */
static bool is_inaccessible(int error)
{
    return error == ENOENT || error == ENOTDIR || error == EACCES || error == ELOOP ||
           error == ENAMETOOLONG;
}

/* Adds a rule for a path to the ruleset `set`. available: the rights that this version of Landlock
 * has. */
static bool allow_path(int set, uint64_t available, const char *path, os_access_right may)
{
    static const uint64_t rights[] = { [OS_MAY_LIST] = READ_DIR,
                                       [OS_MAY_READ] = READ_DIR | READ_FILE,
                                       [OS_MAY_WRITE] = READ_DIR | READ_FILE | WRITE_FILE |
                                                        TRUNCATE | REMOVE_FILE | MAKE_DIR |
                                                        MAKE_REG };
    rule r = { rights[may] & available, open(path, O_PATH | O_CLOEXEC) };
    struct stat info;
    bool good;

    if (r.fd < 0)
        return is_inaccessible(errno);
    good = fstat(r.fd, &info) == 0;
    if (good && !S_ISDIR(info.st_mode))
        r.allowed &= FILE_RIGHTS;
    good = good && (r.allowed == 0 || syscall(ADD_RULE, set, PATH_RULE, &r, 0) == 0);
    close(r.fd);
    return good;
}

/* Denies all access to files except in `places`, and to /dev/urandom. */
static bool confine_files(const os_place *places)
{
    const unsigned version = os_landlock_version();
    const ruleset all = all_rights(version);
    int set;
    bool good;

    if (version == 0)
        return true;
    set = (int)syscall(CREATE_RULESET, &all, sizeof all, 0);
    good = set >= 0 && allow_path(set, all.files, "/dev/urandom", OS_MAY_READ);
    for (; good && places->may != OS_MAY_NOTHING; places++)
        good = places->path == NULL || allow_path(set, all.files, places->path, places->may);
    good = good && syscall(RESTRICT_SELF, set, 0) == 0;
    if (set >= 0)
        close(set);
    return good;
}

/* --- system calls: seccomp ------------------------------------------------------------------- */

/* PROCESSOR: the architecture that the kernel reports to the filter for this program's system
 * calls. RSEQ: the number of the system call rseq. */
#if defined(__x86_64__)
enum { PROCESSOR = AUDIT_ARCH_X86_64, RSEQ = 334 };
#else
enum { PROCESSOR = (int)AUDIT_ARCH_AARCH64, RSEQ = 293 };
#endif

/* The arguments with which a system call is allowed. */
typedef enum check {
    ANY,          /* any arguments */
    OWN_PROCESS,  /* kill, tgkill: signals to this process, as abort() sends one */
    READ_LIMITS,  /* prlimit64: reads the limits of this process */
    NEW_THREAD,   /* clone: creates a thread */
    NO_SUCH_CALL, /* clone3: never allowed, as its flags are in memory, which a filter cannot read.
                     The call fails with ENOSYS, and the C library then calls clone instead */
    TERMINAL_QUERY,   /* ioctl: asks whether a descriptor is a terminal, and for the terminal's size
                       */
    DESCRIPTOR_FLAGS, /* fcntl: a descriptor's flags, and with OS_CALLS_LOCK_FILES also file locks
                       */
    OPEN_FLAGS, /* open: for reading; with OS_CALLS_MODIFY_FILES also for writing, except new files
                       with set-user-ID, set-group-ID or sticky bit */
    OPENAT_FLAGS, /* openat: the arguments that OPEN_FLAGS allows for open */
    NO_STREAM, /* the first argument is not a standard stream. For a standard stream the call fails
                  with ESPIPE, as for a pipe, so that a log file cannot be overwritten */
    MAP_NO_STREAM, /* mmap: without a descriptor, or with one that is not a standard stream */
    SAFE_ADVICE,   /* madvise: all but the advice that makes memory fail on purpose */
    SAME_PROCESS   /* sched_getaffinity: of this process (0) */
} check;

/* A system call, and the check of its arguments. The call is allowed only if all bits of `calls`
 * (OS_CALLS_...) are set in the argument `calls` of os_confine. */
typedef struct call {
    unsigned number, check, calls;
} call;

static const call allowed[] = {
    /* reading files, and memory: the most frequent calls first */
    { SYS_read, ANY, 0 },
    { SYS_pread64, ANY, 0 },
    { SYS_write, ANY, 0 },
    { SYS_mmap, MAP_NO_STREAM, 0 },
    { SYS_munmap, ANY, 0 },
    { SYS_brk, ANY, 0 },
    { SYS_mremap, ANY, 0 },
    { SYS_futex, ANY, 0 },
    { SYS_madvise, SAFE_ADVICE, 0 },
    { SYS_mprotect, ANY, 0 },
    { SYS_openat, OPENAT_FLAGS, 0 },
    { SYS_close, ANY, 0 },
    { SYS_lseek, NO_STREAM, 0 },
    { SYS_dup, NO_STREAM, 0 },
    { SYS_fstat, ANY, 0 },
    { SYS_newfstatat, ANY, 0 },
    { SYS_writev, ANY, 0 },
    { SYS_ioctl, TERMINAL_QUERY, 0 },
    { SYS_fcntl, DESCRIPTOR_FLAGS, 0 },
    { SYS_getdents64, ANY, 0 },
    { SYS_faccessat, ANY, 0 },
    { 439 /* faccessat2 */, ANY, 0 },
    { SYS_readlinkat, ANY, 0 },
    { SYS_getcwd, ANY, 0 },
    /* creating and changing files */
    { SYS_pwrite64, NO_STREAM, OS_CALLS_MODIFY_FILES },
    { SYS_ftruncate, NO_STREAM, OS_CALLS_MODIFY_FILES },
    { SYS_fsync, ANY, OS_CALLS_MODIFY_FILES },
    { SYS_fdatasync, ANY, OS_CALLS_MODIFY_FILES },
    { SYS_mkdirat, ANY, OS_CALLS_MODIFY_FILES },
    { SYS_unlinkat, ANY, OS_CALLS_MODIFY_FILES },
    { SYS_renameat, ANY, OS_CALLS_MODIFY_FILES },
    { SYS_renameat2, ANY, OS_CALLS_MODIFY_FILES },
    { SYS_flock, ANY, OS_CALLS_LOCK_FILES },
    /* threads, time, signals, this process */
    { SYS_clone, NEW_THREAD, 0 },
    { 435 /* clone3 */, NO_SUCH_CALL, 0 },
    { SYS_set_robust_list, ANY, 0 },
    { RSEQ, ANY, 0 },
    { SYS_sched_yield, ANY, 0 },
    { SYS_sched_getaffinity, SAME_PROCESS, 0 },
    { SYS_exit, ANY, 0 },
    { SYS_exit_group, ANY, 0 },
    { SYS_nanosleep, ANY, 0 },
    { SYS_clock_nanosleep, ANY, 0 },
    { SYS_restart_syscall, ANY, 0 },
    { SYS_clock_gettime, ANY, 0 },
    { SYS_gettimeofday, ANY, 0 },
    { SYS_rt_sigaction, ANY, 0 },
    { SYS_rt_sigprocmask, ANY, 0 },
    { SYS_rt_sigreturn, ANY, 0 },
    { SYS_sigaltstack, ANY, 0 },
    { SYS_tgkill, OWN_PROCESS, 0 },
    { SYS_kill, OWN_PROCESS, 0 },
    { SYS_getpid, ANY, 0 },
    { SYS_gettid, ANY, 0 },
    { SYS_getuid, ANY, 0 },
    { SYS_geteuid, ANY, 0 },
    { SYS_prlimit64, READ_LIMITS, 0 },
    { SYS_getrandom, ANY, 0 },
    { SYS_sysinfo, ANY, 0 },
#if defined(__x86_64__)
    { SYS_open, OPEN_FLAGS, 0 },
    { SYS_stat, ANY, 0 },
    { SYS_lstat, ANY, 0 },
    { SYS_access, ANY, 0 },
    { SYS_readlink, ANY, 0 },
    { SYS_getrlimit, ANY, 0 },
    { SYS_time, ANY, 0 },
    { SYS_mkdir, ANY, OS_CALLS_MODIFY_FILES },
    { SYS_unlink, ANY, OS_CALLS_MODIFY_FILES },
    { SYS_rmdir, ANY, OS_CALLS_MODIFY_FILES },
    { SYS_rename, ANY, OS_CALLS_MODIFY_FILES },
#endif
};

/* The most instructions of a filter. */
enum { MOST_FILTER = 512 };

/* A seccomp filter of n instructions. For each allowed system call it compares the number; the
 * instructions after the comparison check the arguments and return `allow` or `deny`. The last two
 * arguments of BPF_JUMP are the numbers of instructions that are skipped if the comparison is true,
 * and if it is false. */
typedef struct filter {
    struct sock_filter code[MOST_FILTER];
    unsigned short n;
} filter;

static const struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                                deny = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);

/* Appends an instruction. */
static void add_op(filter *f, struct sock_filter instruction)
{
    if (f->n < MOST_FILTER)
        f->code[f->n++] = instruction;
}

typedef enum half { LOWER, UPPER } half;

/* Appends an instruction that loads a half (32 bits) of argument number `argument`; LOWER suffices
 * if the argument is an int. */
static void add_load(filter *f, unsigned argument, half which)
{
    /* An argument has 8 bytes, little-endian. */
    const size_t at =
        offsetof(struct seccomp_data, args) + (size_t)8 * argument + (which == UPPER ? 4 : 0);

    add_op(f, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)at));
}

/* Appends a comparison of the loaded value with `operand`; if it is true, the filter returns
 * `answer`. */
static void add_if(filter *f, unsigned short comparison, unsigned operand,
                   struct sock_filter answer)
{
    add_op(f, (struct sock_filter)BPF_JUMP(BPF_JMP | comparison | BPF_K, operand, 0, 1));
    add_op(f, answer);
}

/* Appends the check of open or openat. flags: the index of the system call's argument with the
 * flags; the argument after it is the mode. calls: the argument of os_confine. */
static void add_open_check(filter *f, unsigned flags, unsigned calls)
{
    enum {
        TMPFILE = 020000000, /* O_TMPFILE without the bit of O_DIRECTORY */
        SPECIAL = 07000      /* set-user-ID, set-group-ID and sticky bit */
    };
    add_load(f, flags, LOWER);
    if (calls & OS_CALLS_MODIFY_FILES) {
        /* The mode matters only if a file may be created. */
        add_op(f,
               (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_CREAT | TMPFILE, 1, 0));
        add_op(f, allow);
        add_load(f, flags + 1, LOWER);
        add_if(f, BPF_JSET, SPECIAL, deny);
    } else {
        add_if(f, BPF_JSET, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | TMPFILE, deny);
    }
    add_op(f, allow);
}

/* Appends the check of fcntl's command, its second argument. */
static void add_fcntl_check(filter *f, unsigned calls)
{
    static const unsigned flags[] = { F_GETFD, F_SETFD, F_GETFL },
                          locks[] = { F_GETLK, F_SETLK, F_SETLKW };

    add_load(f, 1, LOWER);
    for (size_t i = 0; i < 3; i++)
        add_if(f, BPF_JEQ, flags[i], allow);
    for (size_t i = 0; (calls & OS_CALLS_LOCK_FILES) && i < 3; i++)
        add_if(f, BPF_JEQ, locks[i], allow);
    add_op(f, deny);
}

/* Appends the check of a system call's arguments. calls: the argument of os_confine. */
static void add_check(filter *f, check what, unsigned calls)
{
    enum {
        /* The flags with which the C library creates a thread. */
        THREAD = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                 CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | CLONE_DETACHED,
        BROKEN_MEMORY = 100,       /* MADV_HWPOISON; MADV_SOFT_OFFLINE is 101 */
        TCGETS2_ = (int)0x802c542a /* TCGETS2, whose definition needs struct termios2 */
    };

    switch (what) {
    case ANY: add_op(f, allow); break;
    case OWN_PROCESS:
        add_load(f, 0, LOWER);
        add_if(f, BPF_JEQ, (unsigned)getpid(), allow);
        add_op(f, deny);
        break;
    case READ_LIMITS:
        add_load(f, 0, LOWER);
        add_op(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0));
        add_op(f, deny);
        /* Argument 2 points to new limits; it must be NULL. */
        add_load(f, 2, UPPER);
        add_op(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0));
        add_op(f, deny);
        add_load(f, 2, LOWER);
        add_if(f, BPF_JEQ, 0, allow);
        add_op(f, deny);
        break;
    case NEW_THREAD:
        add_load(f, 0, LOWER);
        add_if(f, BPF_JSET, ~(unsigned)THREAD, deny);
        add_if(f, BPF_JSET, CLONE_THREAD, allow);
        add_op(f, deny);
        break;
    case NO_SUCH_CALL:
        add_op(f, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS));
        break;
    case TERMINAL_QUERY:
        add_load(f, 1, LOWER);
        add_if(f, BPF_JEQ, TCGETS, allow);
        add_if(f, BPF_JEQ, (unsigned)TCGETS2_, allow);
        add_if(f, BPF_JEQ, TIOCGWINSZ, allow);
        add_op(f, deny);
        break;
    case DESCRIPTOR_FLAGS: add_fcntl_check(f, calls); break;
    case OPEN_FLAGS: add_open_check(f, 1, calls); break;
    case OPENAT_FLAGS: add_open_check(f, 2, calls); break;
    case NO_STREAM:
        add_load(f, 0, LOWER);
        add_if(f, BPF_JGT, STDERR_FILENO, allow);
        add_op(f, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ESPIPE));
        break;
    case MAP_NO_STREAM:
        add_load(f, 3, LOWER);
        add_if(f, BPF_JSET, MAP_ANONYMOUS, allow);
        add_load(f, 4, LOWER);
        add_if(f, BPF_JGT, STDERR_FILENO, allow);
        add_op(f, deny);
        break;
    case SAFE_ADVICE:
        add_load(f, 2, LOWER);
        add_if(f, BPF_JGE, BROKEN_MEMORY, deny);
        add_op(f, allow);
        break;
    case SAME_PROCESS:
        add_load(f, 0, LOWER);
        add_if(f, BPF_JEQ, 0, allow);
        add_op(f, deny);
        break;
    }
}

/* Writes the whole filter. It kills the process at a system call of another architecture, and
 * denies each system call that is not in `allowed`. calls: the argument of os_confine. */
static void write_filter(filter *f, unsigned calls)
{
    enum { X32 = 0x40000000 }; /* a bit of all system calls of the x32 ABI */
    /* Kernels without KILL_PROCESS kill only the thread. */
    const struct sock_filter end = BPF_STMT(BPF_RET | BPF_K, 0x80000000U /* KILL_PROCESS */);

    f->n = 0;
    add_op(f, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                           offsetof(struct seccomp_data, arch)));
    add_op(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)PROCESSOR, 1, 0));
    add_op(f, end);
    add_op(f, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                           offsetof(struct seccomp_data, nr)));
    /* A debugger sets the number -1 to skip a system call. */
    add_if(f, BPF_JEQ, UINT32_MAX, allow);
    add_if(f, BPF_JGE, X32, end);
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        const call *const c = &allowed[i];
        unsigned short jump;

        if ((c->calls & calls) != c->calls)
            continue;
        jump = f->n;
        add_op(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, c->number, 0, 0));
        add_check(f, (check)c->check, calls);
        /* If the number differs, skips all instructions that were appended since. */
        f->code[jump].jf = (unsigned char)(f->n - jump - 1);
    }
    add_op(f, deny);
}

/* Installs the filter of system calls. */
static bool confine_calls(unsigned calls)
{
    filter f;
    struct sock_fprog program = { .filter = f.code };

    write_filter(&f, calls);
    program.len = f.n;
    if (f.n == MOST_FILTER) { /* the filter may be cut off */
        errno = E2BIG;
        return false;
    }
    /* EINVAL means that the kernel does not support seccomp filters, which is accepted. */
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 || errno == EINVAL;
}

/* Replaces standard input, which may be a terminal or a daemon's connection, by an empty pipe.
 * /dev/null is not used, as it may be missing (in a chroot). */
static bool close_input(void)
{
    int ends[2];

    if (pipe(ends) != 0)
        return false;
    const bool good = dup2(ends[0], STDIN_FILENO) == STDIN_FILENO;

    if (ends[0] != STDIN_FILENO)
        close(ends[0]);
    close(ends[1]);
    return good;
}

bool os_confine(const os_place *places, unsigned calls)
{
    return close_input() && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && confine_files(places) &&
           confine_calls(calls);
}

#else

unsigned os_landlock_version(void)
{
    return 0;
}

bool os_confine(const os_place *places, unsigned calls)
{
    (void)places;
    (void)calls;
    return true;
}

#endif
