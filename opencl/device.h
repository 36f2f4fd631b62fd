/*
 * OpenCL devices: which there are, which one to use, and holding one open.
 *
 * Three steps, so that each can be tested by itself: list what there is
 * (ocl_enumerate), choose (ocl_choose, pure), open (ocl_device_open). A caller
 * that wants a device uses ocl_device_find, which does them in turn.
 *
 * A failure of OpenCL is always TC_DEVICE, with a message that begins with the
 * device's name: the caller may then go on without a device.
 */
#ifndef OCL_DEVICE_H
#define OCL_DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "opencl/loader.h"

/* The least local memory that a device must have; kernels may count on it. */
enum { OCL_LOCAL_FLOOR = 16 * 1024 };
/* The least work-group size that a device must allow, in all and along y. */
enum { OCL_GROUP_FLOOR = 64, OCL_ROWS_FLOOR = 8 };

/* What a device says of itself. Strings are ASCII, trimmed, cut if too long. */
typedef struct ocl_info {
    unsigned platform_index; /* P of "P:D" */
    unsigned device_index;   /* D: among all devices of the platform */
    int gpu_index;           /* among the platform's GPUs and accelerators, -1 if not one */
    cl_platform_id platform;
    cl_device_id id; /* NULL: the platform's devices cannot be listed */
    char platform_name[64];
    char name[96];
    char vendor[64];
    char driver[64];
    cl_device_type type;
    cl_uint compute_units;
    cl_uint clock_mhz;
    cl_ulong global_bytes;
    cl_ulong max_alloc_bytes; /* the largest single buffer */
    cl_ulong local_bytes;     /* for one work-group */
    size_t max_group;         /* work-items of a group: in all, and along x */
    cl_device_fp_config single_fp;
    bool doubles;       /* has double precision, which in OpenCL is always IEEE 754's ... */
    bool doubles_wrong; /* ... but it computes wrongly with it, as a self-test found */
    char refusal[160];  /* why it cannot be used; "" if it can */
} ocl_info;

typedef enum ocl_request_kind {
    OCL_REQUEST_AUTO,    /* the best GPU or accelerator; never a CPU */
    OCL_REQUEST_CPU,     /* no OpenCL */
    OCL_REQUEST_ANY,     /* the best device, an OpenCL CPU if need be */
    OCL_REQUEST_INDEX,   /* P:D */
    OCL_REQUEST_ASSIGNED /* the one the BOINC client assigned */
} ocl_request_kind;

typedef struct ocl_request {
    ocl_request_kind kind;
    unsigned platform, device; /* OCL_REQUEST_INDEX */
    /* OCL_REQUEST_ASSIGNED, as in the client's init_data.xml: */
    char vendor[64];   /* gpu_type */
    int opencl_index;  /* gpu_opencl_dev_index, -1 if not given */
    int device_number; /* gpu_device_num, -1 if not given */
} ocl_request;

/* Reads a --device argument, "auto", "cpu", "opencl" or "P:D", into an
 * otherwise zeroed request. TC_USAGE if it is none of these. */
tc_status ocl_request_parse(const char *spec, ocl_request *request, tc_err *err);

/*
 * Lists every device of every platform, in the order of OpenCL. Devices that
 * cannot be used are in the list, with the reason. A platform that fails to
 * list its devices has one entry without a device.
 * *list: count entries, the caller frees it; NULL when there are none.
 * TC_DEVICE: OpenCL has no platform at all, or fails to list them.
 */
tc_status ocl_enumerate(const ocl_api *api, ocl_info **list, size_t *count, tc_err *err);

/* What to say of a device without doubles: it "has no" or "computes wrongly in" double
 * precision. */
const char *ocl_doubles_lack(const ocl_info *info);

/*
 * Chooses from the list; *chosen becomes an index into it. Pure.
 *
 * The client's numbers: gpu_opencl_dev_index is the position among the GPUs
 * and accelerators of one platform, whoever made them; every platform with such
 * a device of the right vendor is a candidate, and gpu_device_num (which counts
 * a vendor's devices through all platforms) decides between several. For
 * vendors that the client has no type of its own for, gpu_type is the vendor's
 * name as OpenCL gives it, and the index counts that vendor's devices through
 * all platforms. Clients before 7.0.12 give gpu_device_num alone.
 *
 * TC_DEVICE: nothing suits, or the one asked for is refused; the message says
 * why. TC_INTERNAL for OCL_REQUEST_CPU, which wants no device.
 */
tc_status ocl_choose(const ocl_info *list, size_t count, const ocl_request *request, size_t *chosen,
                     tc_err *err);

/* Paces (work.h) of a worker, in the order in which they are made. */
enum { OCL_MOST_PACES = 32 };

/* Where the time on a device went, for benchmarks; milliseconds. */
typedef struct ocl_times {
    double kernels;   /* batches of launches, by the device's own clock */
    double longest;   /* of them */
    double build;     /* compiling programs */
    double transfers; /* copies to and from, with what they waited for */
    uint64_t bytes;   /* that were copied */
} ocl_times;

/* An open device: a context and one in-order queue with profiling. Belongs to
 * one thread at a time. */
typedef struct ocl_device {
    ocl_api api;
    ocl_info info;
    cl_context context;
    cl_command_queue queue;
    uint64_t memory_used;     /* bytes of the buffers held now */
    ocl_times times;          /* since it was opened */
    uint64_t memory_limit;    /* the most they may come to: half of global_bytes */
    double share;             /* of the time that launches may take; 1, or 0: all of it */
    const char *cache_folder; /* a folder for compiled programs (program_cache.h), which the caller
                                 keeps; NULL: none */
    bool cache_used;          /* a program came from there */
    int contract_off;         /* whether compilers take that flag: 1 yes, -1 no, 0 not known */
    uint32_t kernels;         /* of an analysis that are compiled (an_analysis.kernels): those
                                 that a job and its self-tests take, so that both have the same
                                 programs */
    struct ocl_programs *programs; /* that were built: made and freed by program.c */
    void (*free_programs)(struct ocl_device *device);
    size_t group_limit; /* of a kernel that was launched in larger groups; 0: none was */
    double rested_at;   /* clock, ms: they have had no more than that then */
    /* What the paces of a job's items have come to, as a multiple of what they began with; 0:
     * nothing is known. The next item's begin there. */
    const void *paces_of; /* the job's parameters */
    double grown[OCL_MOST_PACES];
    struct tc_background *background; /* lifted while this thread sleeps; may be NULL */
    /* Of the host that copy what goes to and fro; 0: the driver does (staging.h) */
    unsigned threads;
    struct ocl_staging *staging; /* made and freed by staging.c */
    void (*free_staging)(struct ocl_device *device);
} ocl_device;

/* Opens a device of the list. *device: free with ocl_device_close. */
tc_status ocl_device_open(const ocl_api *api, const ocl_info *info, ocl_device **device,
                          tc_err *err);

/* Loads OpenCL, lists, chooses, opens. For OCL_REQUEST_CPU: TC_OK and *device is
 * NULL. The self-test (selftest.h) is the caller's next step. */
tc_status ocl_device_find(const ocl_request *request, ocl_device **device, tc_err *err);

/* Waits for what is under way, releases everything; *device becomes NULL. */
void ocl_device_close(ocl_device **device);

/* TC_DEVICE with the message "DEVICE NAME: CALL: ERROR NAME". */
tc_status ocl_fail(const ocl_device *device, const char *call, cl_int code, tc_err *err);

/* `texcell devices`: a list for people of every OpenCL device: P:D, name,
 * vendor, driver, memory, usable or why not. A machine without OpenCL gets a
 * sentence that says so and TC_OK. Whether `out` has taken it is for the caller to see. */
tc_status ocl_list_devices(FILE *out, tc_err *err);

#endif
