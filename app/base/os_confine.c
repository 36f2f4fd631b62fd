/* What a process gives up before it reads a stranger's file. Linux has the means; elsewhere nothing
 * is given up. */
#include "config.h"

#include "app/base/os.h"

#include <errno.h>

#if defined(__linux__) && !defined(TC_UNCONFINED) && (defined(__x86_64__) || defined(__aarch64__))

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* --- files: Landlock ------------------------------------------------------------------------
 *
 * Its numbers are the same on all processors. Headers of the system that the program is built on
 * may not have them yet. */

enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446 };
enum { ASK_VERSION = 1, BELOW_A_PATH = 1 };

enum {
    EXECUTE = 1,
    WRITE_FILE = 1 << 1,
    READ_FILE = 1 << 2,
    READ_DIR = 1 << 3,
    REMOVE_FILE = 1 << 5,
    MAKE_DIR = 1 << 7,
    MAKE_REG = 1 << 8,
    TRUNCATE = 1 << 14,
    OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
};

typedef struct ruleset {
    uint64_t files, net, scope; /* what is refused unless a rule allows it */
} ruleset;

typedef struct __attribute__((packed)) rule {
    uint64_t allowed;
    int32_t fd;
} rule;

unsigned os_confines(void)
{
    const long version = syscall(CREATE_RULESET, NULL, 0, ASK_VERSION);

    return version > 0 ? (unsigned)version : 0;
}

/* All that a version knows: of files, of TCP, of signals and sockets without a name in the file
 * system. */
static ruleset all_rights(unsigned version)
{
    const int last[] = { 0, 12, 13, 14, 14, 15 };
    const unsigned known = version < 5 ? version : 5;

    return (ruleset){ ((uint64_t)2 << last[known]) - 1, version >= 4 ? 3 : 0,
                      version >= 6 ? 3 : 0 };
}

/* A name that leads nowhere needs no rule. */
static bool leads_nowhere(int error)
{
    return error == ENOENT || error == ENOTDIR || error == EACCES || error == ELOOP ||
           error == ENAMETOOLONG;
}

static bool allow(int set, uint64_t known, const char *path, os_may may)
{
    static const uint64_t rights[] = { [OS_MAY_LIST] = READ_DIR,
                                       [OS_MAY_READ] = READ_DIR | READ_FILE,
                                       [OS_MAY_WRITE] = READ_DIR | READ_FILE | WRITE_FILE |
                                                        TRUNCATE | REMOVE_FILE | MAKE_DIR |
                                                        MAKE_REG };
    rule r = { rights[may] & known, open(path, O_PATH | O_CLOEXEC) };
    struct stat info;
    bool good;

    if (r.fd < 0)
        return leads_nowhere(errno);
    good = fstat(r.fd, &info) == 0;
    if (good && !S_ISDIR(info.st_mode))
        r.allowed &= OF_FILES;
    good = good && (r.allowed == 0 || syscall(ADD_RULE, set, BELOW_A_PATH, &r, 0) == 0);
    close(r.fd);
    return good;
}

static bool confine_files(const os_place *places)
{
    const unsigned version = os_confines();
    const ruleset all = all_rights(version);
    int set;
    bool good;

    if (version == 0)
        return true;
    set = (int)syscall(CREATE_RULESET, &all, sizeof all, 0);
    good = set >= 0 && allow(set, all.files, "/dev/urandom", OS_MAY_READ);
    for (; good && places->may != OS_MAY_NOTHING; places++)
        good = places->path == NULL || allow(set, all.files, places->path, places->may);
    good = good && syscall(RESTRICT_SELF, set, 0) == 0;
    if (set >= 0)
        close(set);
    return good;
}

/* --- all else: seccomp ----------------------------------------------------------------------- */

#if defined(__x86_64__)
enum { PROCESSOR = AUDIT_ARCH_X86_64 };
#else
enum { PROCESSOR = (int)AUDIT_ARCH_AARCH64 };
#endif

/* Sockets, programs, other processes, what Landlock does not know of files, and doors of the kernel
 * that have often stood open. */
static const unsigned refused[] = {
    SYS_socket,
    SYS_socketpair,
    SYS_connect,
    SYS_execve,
    SYS_execveat,
    SYS_ptrace,
    SYS_tkill,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    424 /* pidfd_send_signal */,
    425 /* io_uring_setup */,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_truncate,
    SYS_fchmodat,
    452 /* fchmodat2 */,
    SYS_fchownat,
    SYS_utimensat,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_bpf,
    SYS_keyctl,
    SYS_add_key,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_unshare,
    SYS_setns,
    SYS_mount,
    SYS_umount2,
    SYS_chroot,
#if defined(__x86_64__)
    SYS_chmod,
    SYS_chown,
    SYS_lchown,
    SYS_utime,
    SYS_utimes,
    SYS_futimesat,
#endif
};

static bool confine_calls(void)
{
    enum { X32 = 0x40000000 };
    const struct sock_filter no = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    const struct sock_filter begin[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)PROCESSOR, 1, 0),
        no,
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32, 0, 1),
        no
    };
    /* A process may send itself a signal: abort() does. */
    const struct sock_filter end[] = {
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_kill, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)getpid(), 1, 0),
        no,
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
    };
    struct sock_filter filter[sizeof begin / sizeof *begin + sizeof end / sizeof *end +
                              2 * sizeof refused / sizeof *refused];
    struct sock_fprog program = { .filter = filter };

    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++)
        filter[program.len++] = begin[i];
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        filter[program.len++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused[i], 0, 1);
        filter[program.len++] = no;
    }
    for (size_t i = 0; i < sizeof end / sizeof *end; i++)
        filter[program.len++] = end[i];
    /* A kernel without it says EINVAL. */
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 || errno == EINVAL;
}

bool os_confine(const os_place *places)
{
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && confine_files(places) && confine_calls();
}

#else

unsigned os_confines(void)
{
    return 0;
}

bool os_confine(const os_place *places)
{
    (void)places;
    return true;
}

#endif
