/*
 * What becomes of a run when the OpenCL driver crashes, hangs or ends the process
 * (app/base/guard.h): no more is lost than since the last checkpoint. A command starts itself
 * anew and goes on with the CPU; a client's task leaves for a while, so that the client starts it
 * again.
 */
#ifndef APP_DRIVER_FAULT_H
#define APP_DRIVER_FAULT_H

#include "app/base/guard.h"

/* For a command: what the program was started with. Call it first in main. TC_NO_MEMORY. */
tc_status driver_fault_init(char **argv, tc_err *err);
/* What ended this command's predecessor, or NULL: then the CPU is to go on. */
const char *driver_fault_before(void);

/* For tc_guard_up. */
void driver_fault_restart(const char *how); /* a command that works */
void driver_fault_leave(const char *how);   /* a command that only looks at devices: exit code 3 */
void driver_fault_wait(const char *how);    /* a client's task, in its slot folder */

/* The device has worked: the faults of a task that come from now on are not in a row
 * with those before. */
void driver_fault_forget(void);

#endif
