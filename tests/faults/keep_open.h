/*
 * For libraries that are preloaded into a program that closes all descriptors it inherits:
 * KEEP_OPEN is the descriptor of the library that stays open, or -1. Replaces syscall().
 */
#include <stdarg.h>
#include <sys/syscall.h>

long syscall(long number, ...)
{
    enum { CLOSE_RANGE = 436 };
    static long (*next)(long, ...);
    va_list ap;
    long a[6];

    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "syscall");
    va_start(ap, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(ap, long);
    va_end(ap);
    if (number != CLOSE_RANGE || KEEP_OPEN < (int)a[0])
        return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (KEEP_OPEN > (int)a[0])
        (void)next(number, a[0], (long)KEEP_OPEN - 1, 0L);
    return next(number, (long)KEEP_OPEN + 1, ~0L, 0L);
}
