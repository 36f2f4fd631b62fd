/*
 * An OpenCL library that misbehaves in one call and otherwise passes all calls on to the system's
 * library. The program loads it if TEXCELL_OPENCL_LIBRARY names it.
 *
 *   FALSE_DRIVER=CALL:N:HOW   selects the misbehaviour at the N-th call of CALL, from 1: segv,
 *                             abort, exit, hang, term (SIGTERM, then a crash), thread (another
 *                             thread crashes), ftz (denormal numbers are flushed to zero from then
 *                             on)
 *   FALSE_DRIVER_COUNTS=FILE  gets, at exit, a line "CALL TIMES" for each function
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "opencl/loader.h"

static ocl_api real;

/* The number of calls of each function so far. */
#define COUNTER_STATUS(name, parameters, arguments) unsigned long name;
#define COUNTER_OBJECT(type, name, parameters, arguments) unsigned long name;
static struct {
    OCL_CALLS(COUNTER_STATUS, COUNTER_STATUS, COUNTER_OBJECT, COUNTER_STATUS)
} calls;

static void *crash(void *unused)
{
    (void)unused;
    raise(SIGSEGV);
    return NULL;
}

/* Misbehaves in the way HOW of FALSE_DRIVER. */
static void misbehave(const char *how)
{
    pthread_t thread;

    if (strcmp(how, "term") == 0)
        kill(getpid(), SIGTERM);
    if (strcmp(how, "segv") == 0 || strcmp(how, "term") == 0)
        crash(NULL);
    else if (strcmp(how, "abort") == 0)
        abort();
    else if (strcmp(how, "exit") == 0)
        exit(0);
    else if (strcmp(how, "thread") == 0 && pthread_create(&thread, NULL, crash, NULL) == 0)
        pthread_join(thread, NULL);
#ifdef __SSE__
    else if (strcmp(how, "ftz") == 0)
        _mm_setcsr(_mm_getcsr() | 0x8040); /* flush to zero, and denormals are zero */
#endif
    else
        for (;;)
            pause();
}

/* Misbehaves if FALSE_DRIVER selects this call, which is the call number `times` of the function.
 * "load" and "unload" stand for loading and unloading this library. */
static void called(const char *name, unsigned long times)
{
    const char *const request = getenv("FALSE_DRIVER");
    const size_t length = strlen(name);
    char *end;

    if (request == NULL || strncmp(request, name, length) != 0 || request[length] != ':')
        return;
    if (strtoul(request + length + 1, &end, 10) == times && *end == ':')
        misbehave(end + 1);
}

#define FALSE_STATUS(name, parameters, arguments)   \
    CL_API_ENTRY cl_int CL_API_CALL name parameters \
    {                                               \
        called(#name, ++calls.name);                \
        return real.name arguments;                 \
    }
#define FALSE_OBJECT(type, name, parameters, arguments) \
    CL_API_ENTRY type CL_API_CALL name parameters       \
    {                                                   \
        called(#name, ++calls.name);                    \
        return real.name arguments;                     \
    }
OCL_CALLS(FALSE_STATUS, FALSE_STATUS, FALSE_OBJECT, FALSE_STATUS)

__attribute__((constructor)) static void begin(void)
{
    void *const library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);

    called("load", 1);
    if (library == NULL)
        return;
#define FIND_STATUS(name, parameters, arguments) *(void **)&real.name = dlsym(library, #name);
#define FIND_OBJECT(type, name, parameters, arguments) *(void **)&real.name = dlsym(library, #name);
    OCL_CALLS(FIND_STATUS, FIND_STATUS, FIND_OBJECT, FIND_STATUS)
}

__attribute__((destructor)) static void end(void)
{
    const char *const path = getenv("FALSE_DRIVER_COUNTS");
    FILE *const file = path != NULL ? fopen(path, "w") : NULL;

    called("unload", 1);
    if (file == NULL)
        return;
#define TELL_STATUS(name, parameters, arguments) fprintf(file, #name " %lu\n", calls.name);
#define TELL_OBJECT(type, name, parameters, arguments) fprintf(file, #name " %lu\n", calls.name);
    OCL_CALLS(TELL_STATUS, TELL_STATUS, TELL_OBJECT, TELL_STATUS)
    fclose(file);
}
