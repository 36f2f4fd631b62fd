/*
 * The seam between texcell and BOINC. Everything the program wants of BOINC
 * goes through these functions; bw_boinc.cpp implements them over the BOINC
 * API, bw_null.c without BOINC (signals and the clock instead of a client).
 * Exactly one of the two is linked. app/run.c and app/main.c are the callers.
 *
 * There is one job a process, as in BOINC itself, so the functions take no
 * handle.
 */
#ifndef BW_H
#define BW_H

#include <stdbool.h>
#include <stddef.h>

#include "app/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bw_options {
    double checkpoint_every;   /* seconds between checkpoints without a client; <= 0: 60 */
    bool standalone_command;   /* "texcell run": no client even in a BOINC build */
} bw_options;

/* What the client wants of the task, and what it assigned to it. */
typedef struct bw_gpu {
    bool assigned;             /* the client runs this task as a GPU task */
    char vendor[16];           /* "NVIDIA", "ATI", "intel_gpu", ... the client's gpu_type */
    int opencl_index;          /* index among that vendor's OpenCL devices; -1 unknown */
    int device_number;         /* the client's device number; -1 unknown */
} bw_gpu;

typedef enum bw_request {
    BW_GO_ON = 0,
    BW_QUIT,                   /* leave now; state is on disk or goes there first */
    BW_ABORT                   /* the work is not wanted any more */
} bw_request;

/* Starts the conversation with the client. With a client, stdout/stderr are as
 * the client set them. threads > 1 asks for BOINC's multi-thread mode. */
tc_status bw_init(const bw_options *options, bool multi_thread, tc_err *err);
/* True when a BOINC client runs this process. */
bool bw_has_client(void);
/* Resolves a logical file name to a physical one; caller frees *path. */
tc_status bw_resolve(const char *logical, char **path, tc_err *err);
/* CPUs the client allots to the task (>= 1); 0 when unknown. */
int bw_ncpus(void);
/* The assigned GPU. */
void bw_get_gpu(bw_gpu *gpu);

/* fraction in [0,1] of the whole job. */
void bw_fraction_done(double fraction);
/* True when a checkpoint should be written now. After true the caller writes
 * one (or fails to) and MUST call bw_checkpoint_completed. */
bool bw_time_to_checkpoint(void);
void bw_checkpoint_completed(void);
/* A stretch that must not be interrupted by suspend or quit; nests. */
void bw_begin_critical(void);
void bw_end_critical(void);
/* What the client (or, without one, a signal) wants now. While the client has
 * suspended the task this call does not return until it goes on or ends. */
bw_request bw_poll(void);
/* Why bw_poll answered BW_QUIT or BW_ABORT, in plain words ("the client asked
 * to quit", "no heartbeat from the client", "interrupted by signal 2"). */
const char *bw_why(void);

/* Ends the process so that the client starts it again after delay seconds.
 * reason: a non-empty sentence shown to the volunteer. Does not return. */
void bw_temporary_exit(int delay, const char *reason);
/* Ends the process with an exit code; message (may be NULL) is for the
 * volunteer, shown by the client when code is not 0. Does not return. */
void bw_finish(int code, const char *message);

#ifdef __cplusplus
}
#endif

#endif
