/*
 * A fake OpenCL for unit tests: tables describe platforms and devices, every call can be made to
 * fail, and objects are counted.
 */
#ifndef FAKE_OPENCL_H
#define FAKE_OPENCL_H

#include <stdbool.h>
#include <stdint.h>

#include "app/base/background.h"
#include "opencl/loader.h"

typedef struct fake_device {
    const char *name, *vendor, *driver, *version, *c_version, *profile;
    cl_device_type type;
    cl_uint units, mhz;
    cl_ulong global_bytes, max_alloc, local_bytes;
    size_t max_group, max_x, max_y;
    cl_bool available, compiler, little;
    cl_device_fp_config single_fp;
} fake_device;

typedef struct fake_platform {
    const char *name, *version;
    fake_device *devices;
    unsigned count;
    cl_int list_error;  /* error of clGetDeviceIDs; 0: none */
    bool gpus_reversed; /* whether a query for GPUs alone lists them in reverse order */
} fake_platform;

/* What the fake's functions return, and what they record. */
typedef struct fake_world {
    fake_platform *platforms;
    unsigned count;
    cl_int platforms_error;  /* error of clGetPlatformIDs; 0: none */
    unsigned calls;          /* calls that can fail, so far */
    unsigned fail_at;        /* number of the call that fails; 0: none */
    int live;                /* objects that were made and not released */
    char build_options[512]; /* options of the last build */
    bool build_fails;
    unsigned build_ms;          /* milliseconds of a build from source */
    unsigned sources, binaries; /* programs made from sources, and from binaries */
    bool binary_refused;        /* whether making a program from a binary fails */
    bool binary_fails;          /* whether building a program from a binary fails */
    const char *build_log;
    unsigned launches;
    cl_ulong start_ns, end_ns;       /* profiling times of every event */
    cl_int event_state;              /* state of an event from the third clGetEventInfo on */
    unsigned event_polls;            /* calls of clGetEventInfo */
    const tc_background *background; /* the background threads that `up` counts; may be NULL */
    unsigned up; /* calls of clGetEventInfo while background threads were allowed to work */
} fake_world;

extern fake_world fake;

/* Resets `fake` and returns the fake's functions. */
ocl_api fake_api(fake_platform *platforms, unsigned count);

/* Returns a GPU that texcell accepts. */
fake_device fake_gpu(const char *name, const char *vendor, cl_uint units, cl_uint mhz);

#endif
