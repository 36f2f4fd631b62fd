/*
 * An OpenCL.dll without devices, which misbehaves when devices are listed. The environment variable
 * FALSE_DRIVER selects how: segv, abort, exit, thread (another thread crashes), hang.
 */
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#include "opencl/loader.h"

static DWORD WINAPI crash(void *unused)
{
    (void)unused;
    *(volatile int *)8 = 1;
    return 0;
}

static cl_int misbehave(void)
{
    const char *const set = getenv("FALSE_DRIVER");
    const char *const how = set == NULL ? "" : set;

    if (strcmp(how, "segv") == 0)
        crash(NULL);
    else if (strcmp(how, "abort") == 0)
        abort();
    else if (strcmp(how, "exit") == 0)
        exit(0);
    else if (strcmp(how, "thread") == 0)
        WaitForSingleObject(CreateThread(NULL, 0, crash, NULL, 0, NULL), INFINITE);
    else if (strcmp(how, "hang") == 0)
        Sleep(INFINITE);
    return CL_OUT_OF_HOST_MEMORY;
}

#define STATUS(name, parameters, arguments)                  \
    __declspec(dllexport) cl_int CL_API_CALL name parameters \
    {                                                        \
        return misbehave();                                  \
    }
#define OBJECT(type, name, parameters, arguments)          \
    __declspec(dllexport) type CL_API_CALL name parameters \
    {                                                      \
        misbehave();                                       \
        return NULL;                                       \
    }
OCL_CALLS(STATUS, STATUS, OBJECT, STATUS)
