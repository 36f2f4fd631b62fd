/*
 * Tests the filter of system calls that os_confine.c makes for this processor. No call is made: an
 * interpreter runs the filter for each system call with several arguments. Prints a line for each
 * wrong answer; the last line has the number of calls tested.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
#endif
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>

static int take_filter(int option, ...);
#define prctl take_filter
#include "app/base/os_confine.c" /* NOLINT(bugprone-suspicious-include) */
#undef prctl

enum {
    LEVELS = 4,     /* combinations of the rights OS_CALLS_MODIFY_FILES and OS_CALLS_LOCK_FILES */
    CALLS = 1024,   /* numbers of system calls */
    CONDITIONAL = 4 /* as in allowed_calls.h */
};

static struct sock_filter program[4096]; /* the filter */
static unsigned length;                  /* its number of instructions */
static unsigned faults, asked;           /* numbers of wrong answers, and of all */

/* Replaces prctl in os_confine.c: keeps the filter in `program`, and does not install it. */
static int take_filter(int option, ...)
{
    va_list args;

    va_start(args, option);
    if (option == PR_SET_SECCOMP) {
        (void)va_arg(args, int);
        const struct sock_fprog *const p = va_arg(args, struct sock_fprog *);

        length = p->len;
        for (unsigned i = 0; i < length; i++)
            program[i] = p->filter[i];
    }
    va_end(args);
    return 0;
}

/* Returns the filter's answer, or 0xdead if it is no valid program. */
static uint32_t answer(const struct seccomp_data *data)
{
    uint32_t a = 0;

    for (unsigned at = 0; at < length; at++) {
        const struct sock_filter *const i = &program[at];
        bool is;

        switch (i->code) {
        case BPF_LD | BPF_W | BPF_ABS: a = ((const uint32_t *)data)[i->k / 4]; continue;
        case BPF_RET | BPF_K: return i->k;
        case BPF_JMP | BPF_JEQ | BPF_K: is = a == i->k; break;
        case BPF_JMP | BPF_JGE | BPF_K: is = a >= i->k; break;
        case BPF_JMP | BPF_JGT | BPF_K: is = a > i->k; break;
        case BPF_JMP | BPF_JSET | BPF_K: is = (a & i->k) != 0; break;
        default: return 0xdead;
        }
        at += is ? i->jt : i->jf;
    }
    return 0xdead;
}

/* Answers of the filter that are errors. */
#define NO (SECCOMP_RET_ERRNO | EPERM)
#define PIPE (SECCOMP_RET_ERRNO | ESPIPE)

/* Reports a wrong answer. level: the rights of the process, as bits of OS_CALLS_. */
static void expect(const char *what, unsigned level, uint32_t found, uint32_t right)
{
    asked++;
    if (found == right)
        return;
    faults++;
    printf("confined for %u: %s: %#x, not %#x\n", level, what, found, right);
}

/* Returns the filter's answer for a system call. ASK takes the arguments one by one. */
static uint32_t ask(long number, const uint64_t args[6])
{
    struct seccomp_data data = { .nr = (int)number, .arch = (unsigned)PROCESSOR };

    for (int i = 0; i < 6; i++)
        data.args[i] = args[i];
    return answer(&data);
}
#define ASK(number, ...) ask(number, (const uint64_t[6]){ __VA_ARGS__ })

/* Calls that need no right, or a right in `level`, are allowed, and all others are refused whatever
 * their arguments are. Conditional calls are tested by the functions below. */
static void ask_about_table(unsigned level)
{
    static const struct {
        int number;
        unsigned needs;
    } named[] = {
#define CALL(name, needs) { SYS_##name, needs },
#include "tests/faults/allowed_calls.h"
    };
    char what[40];

    for (int number = 0; number < CALLS; number++) {
        unsigned needs = 64; /* a right that no process has: the call is not in the table */

        for (size_t i = 0; i < sizeof named / sizeof *named; i++)
            if (named[i].number == number)
                needs = named[i].needs;
        snprintf(what, sizeof what, "call %d", number);
        if ((needs & ~(unsigned)CONDITIONAL & ~level) != 0)
            for (int bit = 0; bit < 65; bit++) {
                const uint64_t x = bit < 64 ? (uint64_t)1 << bit : 0;

                expect(what, level, ASK(number, x, x, x, x, x, x), NO);
                expect(what, level, ASK(number, ~x, ~x, ~x, ~x, ~x, ~x), NO);
            }
        else if (!(needs & CONDITIONAL))
            expect(what, level, ASK(number, 0), SECCOMP_RET_ALLOW);
    }
}

static void ask_about_open(unsigned level)
{
    const uint32_t made = level & 1 ? SECCOMP_RET_ALLOW : NO;

    expect("openat for reading", level, ASK(SYS_openat, 0, 0, O_RDONLY | O_CLOEXEC, ~0ull),
           SECCOMP_RET_ALLOW);
    expect("openat of a folder", level, ASK(SYS_openat, 0, 0, O_RDONLY | O_DIRECTORY),
           SECCOMP_RET_ALLOW);
    expect("openat for writing", level, ASK(SYS_openat, 0, 0, O_WRONLY), made);
    expect("openat for both", level, ASK(SYS_openat, 0, 0, O_RDWR), made);
    expect("openat, emptied", level, ASK(SYS_openat, 0, 0, O_TRUNC), made);
    expect("openat, made", level, ASK(SYS_openat, 0, 0, O_RDWR | O_CREAT, 0666), made);
    expect("openat, no name", level, ASK(SYS_openat, 0, 0, O_RDWR | O_TMPFILE, 0600), made);
    for (uint64_t special = 01000; special <= 04000; special *= 2) {
        expect("openat, set-user-ID", level,
               ASK(SYS_openat, 0, 0, O_WRONLY | O_CREAT, special | 0755), NO);
        expect("openat, set-user-ID, no name", level,
               ASK(SYS_openat, 0, 0, O_WRONLY | O_TMPFILE, special | 0755), NO);
    }
#if defined(SYS_open)
    expect("open for reading", level, ASK(SYS_open, 0, O_RDONLY, ~0ull), SECCOMP_RET_ALLOW);
    expect("open for writing", level, ASK(SYS_open, 0, O_WRONLY), made);
    expect("open, set-user-ID", level, ASK(SYS_open, 0, O_WRONLY | O_CREAT, 04755), NO);
#endif
}

static void ask_about_streams(unsigned level)
{
    for (uint64_t fd = 0; fd < 3; fd++)
        for (uint64_t upper = 0; upper < 2; upper++) {
            const uint64_t same = upper << 32 | fd; /* the kernel ignores the upper half */

            expect("lseek of a standard stream", level, ASK(SYS_lseek, same), PIPE);
            expect("dup of one", level, ASK(SYS_dup, same), PIPE);
            expect("pwrite to one", level, ASK(SYS_pwrite64, same), level & 1 ? PIPE : NO);
            expect("ftruncate of one", level, ASK(SYS_ftruncate, same), level & 1 ? PIPE : NO);
            expect("mmap of one", level, ASK(SYS_mmap, 0, 4096, PROT_READ, MAP_SHARED, same), NO);
        }
    expect("lseek", level, ASK(SYS_lseek, 3), SECCOMP_RET_ALLOW);
    expect("mmap of a file", level, ASK(SYS_mmap, 0, 4096, PROT_READ, MAP_PRIVATE, 3),
           SECCOMP_RET_ALLOW);
    expect("mmap of none", level,
           ASK(SYS_mmap, 0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, ~0ull),
           SECCOMP_RET_ALLOW);
}

static void ask_about_processes(unsigned level)
{
    enum { THREAD = 0x3d0f00 }; /* the flags with which the C library makes a thread */
    const uint64_t self = (uint64_t)getpid();

    expect("a thread", level, ASK(SYS_clone, THREAD), SECCOMP_RET_ALLOW);
    expect("fork", level, ASK(SYS_clone, 0x01200011), NO);
    for (int bit = 0; bit < 32; bit++)
        if (!((THREAD | CLONE_DETACHED) >> bit & 1)) {
            expect("a thread with more", level, ASK(SYS_clone, THREAD | (uint64_t)1 << bit), NO);
            expect("a process with more", level, ASK(SYS_clone, 17 | (uint64_t)1 << bit), NO);
        }
    expect("clone3", level, ASK(SYS_clone3, 0), SECCOMP_RET_ERRNO | ENOSYS);
    for (int way = 0; way < 2; way++) {
        const long call = way ? SYS_kill : SYS_tgkill;

        expect("a signal to itself", level, ASK(call, self), SECCOMP_RET_ALLOW);
        expect("to another process", level, ASK(call, self + 1), NO);
        expect("to its group", level, ASK(call, 0), NO);
        expect("to all", level, ASK(call, ~0ull), NO);
    }
    expect("limits, read", level, ASK(SYS_prlimit64, 0, 7, 0, 4096), SECCOMP_RET_ALLOW);
    expect("limits, set", level, ASK(SYS_prlimit64, 0, 7, 4096, 0), NO);
    expect("limits, set far away", level, ASK(SYS_prlimit64, 0, 7, 1ull << 32, 0), NO);
    expect("limits of another", level, ASK(SYS_prlimit64, 1, 7, 0, 4096), NO);
    expect("processors", level, ASK(SYS_sched_getaffinity, 0, 128, 4096), SECCOMP_RET_ALLOW);
    expect("processors of another", level, ASK(SYS_sched_getaffinity, 1, 128, 4096), NO);
}

static void ask_about_requests(unsigned level)
{
    static const int of_terminal[] = { 0x5401 /* TCGETS */, 0x5413 /* TIOCGWINSZ */ },
                     of_fcntl[] = { 1, 2, 3 }, of_locks[] = { 5, 6, 7 };

    for (uint64_t request = 0; request < 1 << 16; request++) {
        const bool is = (int)request == of_terminal[0] || (int)request == of_terminal[1];

        expect("ioctl", level, ASK(SYS_ioctl, 1, request), is ? SECCOMP_RET_ALLOW : NO);
    }
    for (int command = 0; command < 2048; command++) {
        bool is = false;

        for (int i = 0; i < 3; i++)
            is = is || command == of_fcntl[i] || ((level & 2) && command == of_locks[i]);
        expect("fcntl", level, ASK(SYS_fcntl, 3, (uint64_t)command), is ? SECCOMP_RET_ALLOW : NO);
    }
    expect("madvise", level, ASK(SYS_madvise, 0, 4096, 14), SECCOMP_RET_ALLOW);
    expect("madvise, broken memory", level, ASK(SYS_madvise, 0, 4096, 100), NO);
    expect("madvise, broken memory", level, ASK(SYS_madvise, 0, 4096, 101), NO);
}

static void ask_about_processors(unsigned level)
{
    static const unsigned others[] = { AUDIT_ARCH_I386, AUDIT_ARCH_X86_64, AUDIT_ARCH_ARM,
                                       AUDIT_ARCH_AARCH64, AUDIT_ARCH_RISCV64 };

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        for (int number = 0; number < CALLS && others[i] != (unsigned)PROCESSOR; number++)
            expect("another processor's call", level,
                   answer(&(struct seccomp_data){ .nr = number, .arch = others[i] }), 0x80000000u);
    for (int number = 0; number < CALLS; number++)
        expect("x32", level, ASK(number | 0x40000000), 0x80000000u);
}

int main(void)
{
    for (unsigned level = 0; level < LEVELS; level++) {
        confine_calls(level);
        ask_about_table(level);
        ask_about_open(level);
        ask_about_streams(level);
        ask_about_processes(level);
        ask_about_requests(level);
        ask_about_processors(level);
    }
    printf("%u asked, %u wrong, %u instructions\n", asked, faults, length);
    return faults > 0;
}
