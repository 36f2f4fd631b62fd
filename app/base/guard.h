/*
 * Protects the program against a foreign library, an OpenCL driver, that may crash, hang or end the
 * process. Every call into the library is enclosed by tc_guard_enter and tc_guard_leave. While the
 * guard is active (from tc_guard_activate to tc_guard_deactivate), three kinds of faults call the
 * function that was passed to tc_guard_activate: a fatal signal in any thread, an exit() by the
 * library, and a call that does not return. That function cannot keep the process alive, but it
 * decides how the process ends: with a message, by restarting the program, or with a message to the
 * BOINC client.
 *
 * There is one guard per process. All functions are for the main thread.
 */
#ifndef TC_GUARD_H
#define TC_GUARD_H

#include <stdbool.h>

#include "app/base/background.h"

enum {
    TC_GUARD_SECONDS = 50, /* the longest duration of a call; compiling a kernel on a slow processor
                              takes some seconds */
    TC_GUARD_TICK_MS =
        50 /* the time between two checks of the call by the second thread, in milliseconds */
};

/* Handles a fault by ending the process; must not return. how: a sentence such as "clFinish crashed
 * (signal 11)", valid until the process ends. It is called in a signal handler, in an exit handler
 * or in another thread, while the library may be in any state, so it may use only functions that
 * are safe in a signal handler. */
typedef void tc_guard_fault_handler(const char *how);

/* Activates the guard: from now on a fault calls `handler`. TC_NO_MEMORY: the second thread or the
 * exit handler could not be created. */
tc_status tc_guard_activate(tc_guard_fault_handler *handler, tc_err *err);
/* Installs the guard's signal handlers again, as the library may have replaced them. Does nothing
 * unless the guard is active. */
void tc_guard_reinstall_handlers(void);
/* Asks the BOINC client, in place of the main thread, whether the program must be suspended or must
 * end. Ends the process if it must end; returns true if it must be suspended. The guard's thread
 * calls this about every TC_GUARD_TICK_MS while one library call lasts longer than that, or while
 * many short calls keep the main thread from asking the client itself (tc_guard_record_poll). While
 * the result is true, the guard stops the main thread for nine tenths of the time, not all the
 * time, as the main thread may hold a lock that other threads wait for. */
typedef bool tc_guard_poll(void);
/* Sets the function that the guard calls as described above, until tc_guard_deactivate. Does
 * nothing unless the guard is active. background: threads that are paused while the program is
 * suspended; may be NULL. launch_ms: the usual duration of a launch. During a call that waits for a
 * launch (waits_for_launch of tc_guard_enter), `poll` is not called before twice this time, since
 * ending the process would lose the launch's work. */
void tc_guard_set_poll(tc_guard_poll *poll, tc_background *background, double launch_ms);
/* Records that the main thread has just asked the client itself. */
void tc_guard_record_poll(void);
/* Deactivates the guard: from now on a fault ends the process as it would without a guard. */
void tc_guard_deactivate(void);

/* These two enclose every call into the library. call: the name of the library's function, a string
 * constant. waits_for_launch: the call waits until a kernel launch is completed, and so does a part
 * of the job's work.
 * tc_guard_leave also resets this thread's floating-point environment to the default: a driver that
 * was linked with -ffast-math changes it.
 */
void tc_guard_enter(const char *call, bool waits_for_launch);
void tc_guard_leave(void);

/* Ends the process like exit(code), and with this exit code even if the library's own exit handlers
 * crash or hang. */
void tc_guard_exit(int code) __attribute__((noreturn));

#endif
