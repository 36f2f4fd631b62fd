/*
 * Handles crashes, hangs and exits of the OpenCL driver (app/base/guard.h), so that only the work
 * since the last checkpoint is lost. A command restarts itself and continues on the CPU; a task of
 * a BOINC client exits temporarily, so that the client starts it again later.
 */
#ifndef APP_DRIVER_FAULT_H
#define APP_DRIVER_FAULT_H

#include "app/base/guard.h"

/* For a command, to be called first in main: stores the command line and environment for a restart.
 * Fails only with TC_NO_MEMORY. */
tc_status driver_fault_init(char **argv, tc_err *err);
/* Returns the sentence about the fault after which this command restarted itself; the command must
 * then use the CPU. NULL if it was not restarted. */
const char *driver_fault_restart_reason(void);

/* The functions for tc_guard_activate. how: a sentence about the fault. None of them returns. */
void driver_fault_restart(const char *how);        /* "run": restarts */
void driver_fault_exit(const char *how);           /* "devices", "selftest": exits with code 3 */
void driver_fault_temporary_exit(const char *how); /* a client's task: exits temporarily */

/* Must be called after the device has worked without a fault: resets the count of a task's
 * consecutive faults. */
void driver_fault_reset_count(void);

#endif
