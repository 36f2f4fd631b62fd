/*
 * The table of functions that each implementation of bw.h provides (called a side). Only for files
 * in this folder. Each function except `get_request` implements the function of bw.h whose name is
 * bw_ followed by the function's name.
 */
#ifndef BW_SIDE_H
#define BW_SIDE_H

#include "wrapper/bw.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bw_side {
    bool has_client;
    void (*init)(const bw_options *options);
    tc_status (*resolve)(const char *logical, char **path, tc_err *err);
    int (*ncpus)(void);
    int (*cpu_limit)(void);
    void (*get_gpu)(bw_gpu *gpu);
    void (*get_volunteer)(bw_volunteer *volunteer);
    void (*get_task)(bw_task *task);
    void (*fraction_done)(double fraction);
    bool (*time_to_checkpoint)(void);
    void (*checkpoint_completed)(void);
    void (*checkpoint_failed)(void);
    /* Returns the client's current request, without waiting. May be called by any thread. With
     * BW_QUIT and BW_ABORT sets *why to a string constant; with BW_CONTINUE sets *suspended. */
    bw_request (*get_request)(const char **why, bool *suspended);
    void (*exit_on_request)(bw_request request);
    void (*temporary_exit)(const char *reason);
    void (*temporary_exit_now)(int delay, const char *reason, bool alert);
    void (*finish)(int code, const char *message);
} bw_side;

extern const bw_side bw_null_side;
/* Returns the implementation by the BOINC API if this process was started in a slot folder,
 * otherwise NULL. Exists only in a build with BOINC. */
const bw_side *bw_boinc_side(void);

#ifdef __cplusplus
}
#endif

#endif
