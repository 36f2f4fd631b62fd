/*
 * Protects against a foreign library that may crash, hang or end the process: an OpenCL
 * driver. Calls into it are marked with tc_guard_enter and tc_guard_leave. While the
 * guard is up, what would end the process (a fatal signal in any thread, an exit()
 * that is not ours) and a call that does not return end in the function that tc_guard_up
 * was given. It cannot save the process; it decides how the process ends: with a message,
 * in the program anew, or with a word to the client.
 *
 * One guard a process, used by the main thread.
 */
#ifndef TC_GUARD_H
#define TC_GUARD_H

#include <stdbool.h>

#include "app/base/background.h"

/* How long a call may take. Translating a kernel on a slow processor takes some seconds. */
enum { TC_GUARD_SECONDS = 50, TC_GUARD_TICK_MS = 50 };

/* What to do about a fault; must not return. how: one sentence ("clFinish crashed
 * (signal 11)"), which is there until the process ends. Called in a signal handler, in an
 * exit handler or in another thread, with the library in any state: only functions
 * that are safe in a signal handler. */
typedef void tc_guard_act(const char *how);

/* From now on a fault calls act. TC_NO_MEMORY: no thread. */
tc_status tc_guard_up(tc_guard_act *act, tc_err *err);
/* If the guard is up: puts back its handlers, which the library may have taken for itself. */
void tc_guard_again(void);
/* Called in another thread, about every TC_GUARD_TICK_MS of a call that lasts longer than that, or
 * of shorter ones between which the program has not asked by itself (tc_guard_heard) for some time:
 * ends the process if that is wanted. true: the program is to sleep; then the calling thread gets a
 * tenth of its time, rather than none, as it may have locked what others wait for. */
typedef bool tc_guard_ask(void);
/* If the guard is up, and until it is down. background: paused while the program is to sleep; may
 * be NULL. launch_ms: calls that are a part of the work are left alone for twice as long, since
 * what they do would be lost. */
void tc_guard_listen(tc_guard_ask *ask, tc_background *background, double launch_ms);
/* The program has asked by itself what the other thread would. */
void tc_guard_heard(void);
/* From now on a fault is a fault again. */
void tc_guard_down(void);

/* Around every call into the library. call: its name, a constant. is_work: it waits for a launch, a
 * part of the work. Leaving also sets this thread's floating-point environment back to the default
 * one: a driver that was linked for speed changes it. */
void tc_guard_enter(const char *call, bool is_work);
void tc_guard_leave(void);

/* Ends the process as exit(code) does, but whatever the library's own exit handlers do: they
 * may crash or hang, and the code is the same. */
void tc_guard_exit(int code) __attribute__((noreturn));

#endif
