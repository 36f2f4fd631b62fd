/*
 * The interface between texcell and BOINC. All communication with BOINC goes through these
 * functions; app/main.c, run.c and item.c call them.
 *
 * There are two implementations: bw_boinc.cpp communicates with a BOINC client through the BOINC
 * API; bw_null.c is for a program without a client (signals and the clock take the client's place).
 * bw_init chooses one: bw_boinc.cpp if the program was built with it, was not started as a command
 * ("texcell run"), and was started in a slot folder; otherwise bw_null.c.
 *
 * There is one job per process, as in BOINC itself, so the functions take no handle. Only the main
 * thread may call them, except for bw_poll_from_thread, bw_temporary_exit_now and bw_signal_caught.
 *
 * Rules for the job's loop:
 *  - Nothing interrupts the program between two calls of bw_poll: BOINC's
 *    runtime library only records the client's requests and does not act on them. So bw_poll must
 *    be called about every 50 ms, whatever the program does, while all worker threads are idle or
 *    paused and no launch is running on a device. It takes a tenth of a microsecond.
 *  - When bw_poll returns BW_QUIT: sync the device, write a checkpoint, call
 *    bw_checkpoint_completed if that succeeded, then bw_exit_on_request. The
 *    client kills a task that needs longer than 60 seconds for this.
 *  - When it returns BW_ABORT: call bw_exit_on_request at once.
 *  - After BW_QUIT or BW_ABORT never call bw_finish: the client would consider
 *    the job finished.
 */
#ifndef BW_H
#define BW_H

#include <stdbool.h>
#include <stddef.h>

#include "app/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define BW_NORETURN __attribute__((noreturn))
#else
#define BW_NORETURN
#endif

/* How bw_init is to start. */
typedef struct bw_options {
    double checkpoint_every; /* seconds between checkpoints if there is no client; <= 0 means 60 */
    bool standalone_command; /* started as "texcell run": do not look for a client */
} bw_options;

/* The GPU that the client assigned to the task. */
typedef struct bw_gpu {
    bool assigned;     /* the client runs this task on a GPU; false: the fields below have their
                          defaults */
    char vendor[64];   /* the client's gpu_type: "NVIDIA", "ATI", "intel_gpu", "apple_gpu", or else
                          the vendor's name in OpenCL */
    int opencl_index;  /* index among that vendor's OpenCL devices; -1: unknown */
    int device_number; /* the client's device number; -1: unknown */
    bool while_used;   /* true: the client runs GPU tasks at any time (it does not report whether
                          somebody is using the computer); false: only while nobody uses it */
} bw_gpu;

/* The client's data about the task. */
typedef struct bw_task {
    char version[16]; /* the number of the project's application version, such as "1.01"; "" without
                         a client */
    char client[24];  /* the client's version, such as "7.20.5"; "" without a client */
    double seconds_before; /* seconds for which the task ran before this start, as counted by the
                              client */
    char folder[256]; /* the project's folder, for files that are kept after the task; "" without a
                         client */
} bw_task;

/* The volunteer whose computer does the work, for texcell_graphics; "" and 0 where unknown. */
typedef struct bw_volunteer {
    char user[256], team[256], project[256];
    double host_credit; /* total credit of this computer */
} bw_volunteer;

typedef enum bw_request {
    BW_CONTINUE = 0,
    BW_QUIT, /* exit now, after writing a checkpoint */
    BW_ABORT /* exit now; the work is not needed any more */
} bw_request;

/* Starts the communication with the client, or without a client installs handlers for SIGINT,
 * SIGTERM and SIGHUP and starts the checkpoint clock. Must be called once, before any thread is
 * created and any file is read. With a client, stderr is the task's log and stdout is discarded. If
 * BOINC's runtime library does not start, the process exits temporarily. */
void bw_init(const bw_options *options);
/* Whether bw_init will find a client, unless standalone_command is set. */
bool bw_in_slot(void);
/* Whether this process is a task of a BOINC client. */
bool bw_has_client(void);
/* Resolves a logical file name to a physical one; the caller frees *path. Without a client the two
 * are equal. */
tc_status bw_resolve(const char *logical, char **path, tc_err *err);
/* Returns the number of CPUs that the client assigns to the task (>= 1); 0 if unknown. */
int bw_ncpus(void);
/* Returns the number of CPUs that the volunteer currently allows for all tasks together ("use at
 * most N% of the CPUs"), which may change at any time; 0 if there is no limit or it is unknown. */
int bw_cpu_limit(void);
/* Fills *gpu. If no GPU is assigned, its texts are "", its numbers -1, and both flags false. */
void bw_get_gpu(bw_gpu *gpu);

/* Fills *task. Without a client, its texts are "" and seconds_before is 0. */
void bw_get_task(bw_task *task);

/* Fills *volunteer. Without a client, its texts are "" and host_credit is 0. */
void bw_get_volunteer(bw_volunteer *volunteer);

/* Reports the fraction of the job that is done, in [0, 1] except for rounding errors. The client
 * reads it about once a second. */
void bw_fraction_done(double fraction);
/* Whether a checkpoint is due. If so, the caller must write one, and then call
 * bw_checkpoint_completed or bw_checkpoint_failed. */
bool bw_time_to_checkpoint(void);
/* Reports that a checkpoint is on disk, so that a later restart does not lose the CPU time until
 * now. Must be called also after a checkpoint that was not due, such as the one before
 * bw_exit_on_request. */
void bw_checkpoint_completed(void);
/* Reports that a checkpoint could not be written, for example because the disk is full. The
 * checkpoint becomes due again after a while. */
void bw_checkpoint_failed(void);
/* Returns the request of the client or of a signal. While the client has suspended the task, this
 * function does not return until the task is resumed or ended. After BW_QUIT or BW_ABORT it always
 * returns the same request. */
bw_request bw_poll(void);
/* Returns the total time, in seconds, that bw_poll has slept because the task was suspended. */
double bw_suspended_seconds(void);
/* Returns the number of the signal that asked the program to end; 0 before such a signal. Safe in a
 * signal handler. */
int bw_signal_caught(void);
/* A replacement for bw_poll, to be called by another thread while the main thread is in a long
 * library call, such as compiling a kernel. If the client or a signal requests to end the process,
 * prints a line on stderr and ends it as bw_exit_on_request does, without writing a checkpoint.
 * Otherwise returns whether the task is suspended. */
bool bw_poll_from_thread(void);
/* Returns the reason of bw_poll's BW_QUIT or BW_ABORT: "the client asked to quit", "the client is
 * gone", "interrupted by signal 2" and the like; "" before that. */
const char *bw_request_reason(void);

/* Ends the process after BW_QUIT or BW_ABORT: the client later restarts a task that quit, and
 * discards one that was aborted; without a client the exit code is 3 (TC_TRY_LATER). Flushes
 * the streams and runs no exit handlers. */
void bw_exit_on_request(void) BW_NORETURN;
/* Ends the process so that the client starts it again later: the first time after five minutes, the
 * next 23 times after an hour, then once a day; completing a checkpoint begins this series again.
 * reason: a non-empty sentence that is shown to the volunteer, at the second exit of the series
 * also among the client's notices. Without a client: exits with code 3 (TC_TRY_LATER). */
void bw_temporary_exit(const char *reason) BW_NORETURN;
/* Ends the process at once so that the client starts it again after `delay` seconds, 0 to 86400.
 * (If the file for the client cannot be written, the process ends a minute later, and is started
 * again without delay.) Safe in a signal handler; flushes and frees nothing. reason: a line of up
 * to 250 characters. alert: show the reason in the client's notices. */
void bw_temporary_exit_now(int delay, const char *reason, bool alert) BW_NORETURN;
/* Ends the process with an exit code. With a client, the job then counts as done if the code is 0,
 * otherwise as failed.
 * message (may be NULL): written to the client's log, for the volunteer. Devices
 * and files must be closed before. With a client this takes two seconds, as it waits until the last
 * status messages are sent. */
void bw_finish(int code, const char *message) BW_NORETURN;

#ifdef __cplusplus
}
#endif

#endif
