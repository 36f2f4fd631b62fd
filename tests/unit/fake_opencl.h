/*
 * A make-believe OpenCL for unit tests: platforms and devices described by
 * plain tables, every call able to fail, every object counted.
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
    cl_int list_error;  /* what clGetDeviceIDs answers, if not 0 */
    bool gpus_reversed; /* lists its GPUs in another order when asked for GPUs alone */
} fake_platform;

/* The world that the fake's functions see and what they note down. */
typedef struct fake_world {
    fake_platform *platforms;
    unsigned count;
    cl_int platforms_error;
    unsigned calls;          /* that can fail, so far */
    unsigned fail_at;        /* this one fails; 0: none */
    int live;                /* objects made and not released */
    char build_options[512]; /* of the last build */
    bool build_fails;
    unsigned build_ms;          /* how long one from source takes */
    unsigned sources, binaries; /* programs made from these */
    bool binary_refused;        /* where a program is made from it */
    bool binary_fails;          /* where that is built */
    const char *build_log;
    unsigned launches;
    cl_ulong start_ns, end_ns; /* what profiling answers */
    cl_int event_state;        /* what clGetEventInfo answers */
    unsigned event_polls;
    const tc_background *background; /* how often it was up then; may be NULL */
    unsigned up;
} fake_world;

extern fake_world fake;

/* Empties the world and gives the table of the fake's functions. */
ocl_api fake_api(fake_platform *platforms, unsigned count);

/* A device with nothing wrong with it. */
fake_device fake_gpu(const char *name, const char *vendor, cl_uint units, cl_uint mhz);

#endif
