/*
 * The system calls that a confined process may make, listed independently of os_confine.c:
 * CALL(NAME, NEEDS). NEEDS is a sum of bits: the rights that the process must have for this call
 * (1: to make files, 2: to lock files), and CONDITIONAL if only some arguments are allowed.
 */
#define CONDITIONAL 4
/* Numbers that old headers of the kernel lack. */
#if !defined(SYS_rseq)
#if defined(__x86_64__)
#define SYS_rseq 334
#else
#define SYS_rseq 293
#endif
#endif
#if !defined(SYS_clone3)
#define SYS_clone3 435
#endif
#if !defined(SYS_faccessat2)
#define SYS_faccessat2 439
#endif
CALL(read, 0)
CALL(write, 0)
CALL(writev, 0)
CALL(pread64, 0)
CALL(close, 0)
CALL(fstat, 0)
CALL(newfstatat, 0)
CALL(lseek, CONDITIONAL)
CALL(dup, CONDITIONAL)
CALL(openat, CONDITIONAL)
CALL(getdents64, 0)
CALL(faccessat, 0)
CALL(faccessat2, 0)
CALL(readlinkat, 0)
CALL(getcwd, 0)
CALL(ioctl, CONDITIONAL)
CALL(fcntl, CONDITIONAL)
CALL(mmap, CONDITIONAL)
CALL(munmap, 0)
CALL(mremap, 0)
CALL(mprotect, 0)
CALL(madvise, CONDITIONAL)
CALL(brk, 0)
CALL(clone, CONDITIONAL)
CALL(clone3, CONDITIONAL)
CALL(set_robust_list, 0)
CALL(rseq, 0)
CALL(futex, 0)
CALL(exit, 0)
CALL(exit_group, 0)
CALL(sched_yield, 0)
CALL(sched_getaffinity, CONDITIONAL)
CALL(nanosleep, 0)
CALL(clock_nanosleep, 0)
CALL(restart_syscall, 0)
CALL(clock_gettime, 0)
CALL(gettimeofday, 0)
CALL(rt_sigaction, 0)
CALL(rt_sigprocmask, 0)
CALL(rt_sigreturn, 0)
CALL(sigaltstack, 0)
CALL(kill, CONDITIONAL)
CALL(tgkill, CONDITIONAL)
CALL(getpid, 0)
CALL(gettid, 0)
CALL(getuid, 0)
CALL(geteuid, 0)
CALL(prlimit64, CONDITIONAL)
CALL(getrandom, 0)
CALL(sysinfo, 0)
CALL(fsync, 1)
CALL(fdatasync, 1)
CALL(mkdirat, 1)
CALL(unlinkat, 1)
CALL(renameat, 1)
CALL(renameat2, 1)
CALL(pwrite64, 1 | CONDITIONAL)
CALL(ftruncate, 1 | CONDITIONAL)
CALL(flock, 2)
#if defined(__x86_64__)
CALL(open, CONDITIONAL)
CALL(stat, 0)
CALL(lstat, 0)
CALL(access, 0)
CALL(readlink, 0)
CALL(getrlimit, 0)
CALL(time, 0)
CALL(mkdir, 1)
CALL(unlink, 1)
CALL(rmdir, 1)
CALL(rename, 1)
#endif
#undef CALL
#undef CONDITIONAL
