/*
 * The seam between texcell and BOINC. Everything the program wants of BOINC
 * goes through these functions; app/main.c, run.c and item.c are the callers.
 *
 * Behind it stand two sides: bw_boinc.cpp speaks with a client through the
 * BOINC API, bw_null.c is for a program by itself (signals and the clock
 * instead of a client). bw_init chooses once: the BOINC side when the program
 * was built with it, was not given a command of its own ("texcell run") and
 * was started in a slot folder; the other side in every other case.
 *
 * There is one job a process, as in BOINC itself, so the functions take no
 * handle. They belong to the main thread: no other thread may call them, but for bw_listen.
 *
 * The rules of the loop:
 *  - Nothing interrupts the program between two calls of bw_poll: BOINC's
 *    runtime is made to record the client's requests and to act on none. So
 *    bw_poll must be called often, about every 50 ms whatever is being done, and with
 *    all worker threads idle or paused, and no launch on a device under way. It costs
 *    a tenth of a microsecond.
 *  - When bw_poll answers BW_QUIT: sync, write a checkpoint, call
 *    bw_checkpoint_completed if that went well, then bw_exit_on_request. The
 *    client kills a task that needs longer than 60 seconds for this.
 *  - When it answers BW_ABORT: bw_exit_on_request at once.
 *  - After BW_QUIT or BW_ABORT never call bw_finish: the client would take
 *    the job for done.
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

typedef struct bw_options {
    double checkpoint_every; /* seconds between checkpoints without a client; <= 0: 60 */
    bool standalone_command; /* "texcell run": no client even in a BOINC build */
} bw_options;

/* What the client assigned to the task. */
typedef struct bw_gpu {
    bool assigned;     /* the client runs this task as a GPU task */
    char vendor[64];   /* the client's gpu_type: "NVIDIA", "ATI", "intel_gpu",
                          "apple_gpu", else the vendor as OpenCL names it */
    int opencl_index;  /* index among that vendor's OpenCL devices; -1 unknown */
    int device_number; /* the client's device number; -1 unknown */
    bool while_used;   /* the client lets GPU tasks work while somebody uses the computer, and does
                          not say when that is; else nobody is there while one works */
} bw_gpu;

/* Whose task it is. */
typedef struct bw_task {
    char version[16]; /* of the application in the project, "1.01"; "" without a client */
    char client[24];  /* the client's, "7.20.5" */
    /* That the task has run before this start, as the client counts; 0: none */
    double seconds_before;
    char folder[256]; /* the project's, for what is to outlast the task; "" without a client */
} bw_task;

/* Whose work it is, for those who watch it; "" and 0 where nobody says. */
typedef struct bw_volunteer {
    char user[256], team[256], project[256];
    double host_credit; /* of this computer, in all */
} bw_volunteer;

typedef enum bw_request {
    BW_GO_ON = 0,
    BW_QUIT, /* leave now; state is on disk or goes there first */
    BW_ABORT /* the work is not wanted any more */
} bw_request;

/* Starts the conversation with the client, or without one catches SIGINT,
 * SIGTERM and SIGHUP and starts the checkpoint clock. Call it once, before any
 * thread is made and any file read. With a client, stderr is the task's and
 * stdout leads nowhere, as the client set them. Under a client whose runtime does not start, it
 * ends the process for a while instead of returning. */
void bw_init(const bw_options *options);
/* Whether bw_init finds a client, if the command line is not a command's. */
bool bw_in_slot(void);
/* True when this process is a task of a BOINC client. */
bool bw_has_client(void);
/* Resolves a logical file name to a physical one; the caller frees *path.
 * Without a client a name stands for itself. */
tc_status bw_resolve(const char *logical, char **path, tc_err *err);
/* CPUs the client allots to the task (>= 1); 0 when unknown. */
int bw_ncpus(void);
/* CPUs that the volunteer lets all tasks have now ("use at most N% of the CPUs"), which may change
 * at any time; 0: there is no such limit, or it is unknown. */
int bw_cpu_limit(void);
/* The assigned GPU; without one: not assigned, "", -1, -1. */
void bw_get_gpu(bw_gpu *gpu);

/* The task; without a client "", "", 0, "". */
void bw_get_task(bw_task *task);

void bw_get_volunteer(bw_volunteer *volunteer);

/* fraction in [0,1], to rounding, of the whole job. The client shows it about once a second. */
void bw_fraction_done(double fraction);
/* True when a checkpoint should be written now. After true the caller MUST
 * call bw_checkpoint_completed or bw_checkpoint_failed. */
bool bw_time_to_checkpoint(void);
/* A checkpoint is on disk: the client takes the CPU time until now for kept.
 * Also right after one that nobody asked for, such as the one before
 * bw_exit_on_request. */
void bw_checkpoint_completed(void);
/* There is none, the disk being full perhaps. It is time again in a while. */
void bw_checkpoint_failed(void);
/* What the client, or a signal, wants now. While the client has suspended the
 * task this call does not return until it goes on or ends. Once it has
 * answered BW_QUIT or BW_ABORT it goes on doing so. */
bw_request bw_poll(void);
/* Seconds that bw_poll has slept in all, the task being suspended. */
double bw_asleep(void);
/* The number of the signal that wants the program to end, 0 before one. Safe in a signal
 * handler. */
int bw_signal_caught(void);
/* For another thread, while the main thread is in a library's call that lasts, such as translating
 * a kernel: ends the process, if it is to end, as bw_exit_on_request does after a line on stderr;
 * what is on disk stays as it is. Else whether the task is suspended. */
bool bw_listen(void);
/* Why bw_poll answered BW_QUIT or BW_ABORT, in plain words ("the client asked
 * to quit", "the client is gone", "interrupted by signal 2"); "" before. */
const char *bw_why(void);

/* Ends the process after BW_QUIT or BW_ABORT in the way that its cause wants:
 * the client starts a task that quit again, and drops one that it aborted;
 * without a client the exit code is that of TC_TRY_LATER. Flushes the streams
 * and runs no exit handlers. */
void bw_exit_on_request(void) BW_NORETURN;
/* Ends the process so that the client starts it again after a while: five minutes at first, then an
 * hour, after a day of these a day, until there is a checkpoint. reason: a non-empty sentence shown
 * to the volunteer; the second time in a row among the client's notices. Without a client: exits
 * with the code of TC_TRY_LATER. */
void bw_temporary_exit(const char *reason) BW_NORETURN;
/* The same after delay seconds (0..86400), at once (a minute later where the disk takes no word to
 * the client), safe in a signal handler: nothing is flushed or given back, reason is at most a line
 * of 250 characters. alert: the volunteer is to see it among the client's notices. */
void bw_leave_now(int delay, const char *reason, bool alert) BW_NORETURN;
/* Ends the process with an exit code, for good: with a client the job counts
 * as done (0) or failed. message (may be NULL) goes to the client's log, for
 * the volunteer. Give GPU and files back first. Takes two seconds with a
 * client: the last status messages go out. */
void bw_finish(int code, const char *message) BW_NORETURN;

#ifdef __cplusplus
}
#endif

#endif
