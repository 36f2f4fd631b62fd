/*
 * Lists the OpenCL devices, chooses one, and opens it.
 *
 * Each of the three steps can be tested by itself: list the devices (ocl_enumerate_devices), choose
 * one (ocl_choose_device, a pure function), open it (ocl_device_open). ocl_device_find does all
 * three.
 *
 * A failure of OpenCL is always TC_DEVICE, with a message that begins with the device's name: the
 * caller may then go on without a device.
 */
#ifndef OCL_DEVICE_H
#define OCL_DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "opencl/loader.h"

/* The least resources that a device must have; kernels rely on them. */
enum {
    OCL_MIN_LOCAL_BYTES = 16 * 1024, /* bytes of local memory */
    OCL_MIN_GROUP = 64,              /* work-items of a work-group */
    OCL_MIN_GROUP_ROWS = 8           /* work-items of a work-group along y */
};

/* A device's properties as the driver reports them. Strings are printable ASCII, trimmed, and
 * truncated if too long. */
typedef struct ocl_info {
    unsigned platform_index; /* P of "P:D", the name of a device on the command line */
    unsigned device_index;   /* D of "P:D": its position among all devices of the platform */
    int gpu_index; /* its position among the platform's GPUs and accelerators; -1: it is neither */
    cl_platform_id platform;
    cl_device_id id; /* NULL if the platform does not report its devices */
    char platform_name[64];
    char name[96];
    char vendor[64];
    char driver[64];
    cl_device_type type;
    cl_uint compute_units;
    cl_uint clock_mhz;
    cl_ulong global_bytes;
    cl_ulong max_alloc_bytes; /* the largest single buffer */
    cl_ulong local_bytes;     /* local memory of one work-group */
    size_t max_group;         /* the most work-items of a work-group: in all, and along x */
    cl_device_fp_config single_fp;
    bool doubles;       /* the device has double precision (IEEE 754's, as OpenCL requires) */
    bool doubles_wrong; /* its double precision failed a self-test, and doubles was set to false */
    char refusal[160];  /* why the device cannot be used; "" if it can */
} ocl_info;

typedef enum ocl_request_kind {
    OCL_REQUEST_AUTO,    /* the best GPU or accelerator; never a CPU */
    OCL_REQUEST_CPU,     /* no OpenCL */
    OCL_REQUEST_ANY,     /* the best device; a CPU if there is no other */
    OCL_REQUEST_INDEX,   /* device D of platform P */
    OCL_REQUEST_ASSIGNED /* the device that the BOINC client assigned */
} ocl_request_kind;

typedef struct ocl_request {
    ocl_request_kind kind;
    unsigned platform, device; /* P and D of OCL_REQUEST_INDEX */
    /* For OCL_REQUEST_ASSIGNED, from the client's init_data.xml: */
    char vendor[64];   /* gpu_type */
    int opencl_index;  /* gpu_opencl_dev_index, -1 if not given */
    int device_number; /* gpu_device_num, -1 if not given */
} ocl_request;

/* Converts a --device argument, "auto", "cpu", "opencl" or "P:D", to a request; the members that
 * the argument does not determine are 0 or -1. TC_USAGE if it is none of these. */
tc_status ocl_request_parse(const char *spec, ocl_request *request, tc_err *err);

/*
 * Lists every device of every platform, in the order in which OpenCL lists them. Devices that
 * cannot be used are in the list, with the reason (refusal). A platform that fails to list its
 * devices has one entry, whose id is NULL.
 * *list: count entries, the caller frees it; NULL if there are none.
 * TC_DEVICE: OpenCL has no platform at all, or fails to list them.
 */
tc_status ocl_enumerate_devices(const ocl_api *api, ocl_info **list, size_t *count, tc_err *err);

/* For messages about a device whose doubles is false: "has no" or "computes wrongly in", to be
 * followed by "double precision". */
const char *ocl_describe_no_doubles(const ocl_info *info);

/* Chooses a device from the list, and sets *chosen to its index in the list. A pure function.
 *
 * OCL_REQUEST_ASSIGNED: the client's gpu_opencl_dev_index is the position among the GPUs and
 * accelerators of one platform, of whatever vendor. The client does not report the platform: every
 * platform whose device at that position is of the vendor is a candidate. If there are several
 * candidates, gpu_device_num decides, which counts the vendor's devices across all platforms. For a
 * vendor for which the client has no type, gpu_type is the vendor's name as OpenCL reports it, and
 * gpu_opencl_dev_index counts that vendor's devices across all platforms. Clients before 7.0.12
 * report gpu_device_num alone.
 *
 * TC_DEVICE: no device suits, or the requested one cannot be used; the message says why.
 * TC_INTERNAL for OCL_REQUEST_CPU, which requests no device. */
tc_status ocl_choose_device(const ocl_info *list, size_t count, const ocl_request *request,
                            size_t *chosen, tc_err *err);

/* The most paces (work.h) of a worker whose growth is passed on to the worker of the next item. */
enum { OCL_MOST_PACES = 32 };

/* For benchmarks: how long a device was used, in milliseconds. */
typedef struct ocl_times {
    double kernels;   /* all batches of launches, by the device's clock */
    double longest;   /* the longest batch of launches */
    double build;     /* compiling programs */
    double transfers; /* copies to and from the device, with the launches that they waited for */
    uint64_t bytes;   /* bytes copied to and from the device */
} ocl_times;

/* An open device: a context and one in-order queue with profiling. Belongs to
 * one thread at a time. */
typedef struct ocl_device {
    ocl_api api;
    ocl_info info;
    cl_context context;
    cl_command_queue queue;
    uint64_t memory_used;  /* bytes of the buffers that exist now */
    ocl_times times;       /* how long the device was used since it was opened */
    uint64_t memory_limit; /* the most that memory_used may become: half of global_bytes */
    double share;          /* share of the elapsed time that launches may take; 1 or 0: all of it */
    const char *cache_folder; /* folder of compiled programs (program_cache.h), the caller's string;
                                 NULL: they are not stored */
    bool cache_used;          /* a program was loaded from cache_folder */
    int contract_off;         /* whether the compiler accepts -ffp-contract=off: 1 yes, -1 no,
                                 0 not known */
    uint32_t kernels;         /* the groups of kernels that the job uses, as bits
                                 (an_analysis.kernels); programs are compiled with these alone, in
                                 self-tests too, so that the job's own programs are tested */
    struct ocl_programs *programs; /* programs built so far; allocated and freed by program.c; may
                                      be NULL */
    void (*free_programs)(struct ocl_device *device);
    size_t group_limit;    /* the largest work-group of a kernel, set when a launch in larger groups
                              failed; else 0 */
    double next_launch_ms; /* time (ocl_clock_ms) from which on the next launch may begin, so that
                         launches take no more than `share` of the time */
    /* For each pace, the factor by which earlier items of this job have raised it above its first
     * guess (ocl_pace_begin in worker.h); 0 if not known. */
    double growth[OCL_MOST_PACES];
    const void *growth_params;        /* the parameters of the job to which `growth` belongs */
    struct tc_background *background; /* threads that run while this one sleeps; may be NULL */
    unsigned threads; /* threads of the host that copy to and from pinned memory (staging.h); 0: the
                         driver copies by itself */
    struct ocl_staging *staging; /* allocated and freed by staging.c; may be NULL */
    void (*free_staging)(struct ocl_device *device);
} ocl_device;

/* Opens a device of ocl_enumerate_devices's list. *device: free with ocl_device_close. */
tc_status ocl_device_open(const ocl_api *api, const ocl_info *info, ocl_device **device,
                          tc_err *err);

/* Loads OpenCL, lists the devices, chooses one, and opens it. For OCL_REQUEST_CPU: TC_OK, and
 * *device is NULL. The caller runs the self-tests (backends.h) next. */
tc_status ocl_device_find(const ocl_request *request, ocl_device **device, tc_err *err);

/* Waits for the queue to finish, releases everything, and sets *device to NULL. */
void ocl_device_close(ocl_device **device);

/* Returns TC_DEVICE with the message "DEVICE NAME: CALL: ERROR NAME". */
tc_status ocl_fail(const ocl_device *device, const char *call, cl_int code, tc_err *err);

/* `texcell devices`: prints every OpenCL device: P:D, name, vendor, driver, memory, and whether it
 * is usable or why not. Without OpenCL, prints a sentence that says so, and returns TC_OK. The
 * caller checks `out` for write errors. */
tc_status ocl_list_devices(FILE *out, tc_err *err);

#endif
