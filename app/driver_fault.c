/* Ends or restarts the program after a fault of the OpenCL driver: see driver_fault.h. */
#include "app/driver_fault.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/base/files.h"
#include "app/base/os.h"
#include "wrapper/bw.h"

/* The environment variable by which the fault is passed to the restarted command. */
static const char variable[] = "TEXCELL_DRIVER_FAULT";

/* A file in the slot folder with one byte for each consecutive fault. */
static const char fault_file[] = "driver_faults";

enum {
    IN_A_ROW = 3,      /* from this number of consecutive faults on, a task waits LONG_WAIT */
    SHORT_WAIT = 300,  /* seconds that a task waits after fewer faults */
    LONG_WAIT = 86400, /* seconds that a task waits after IN_A_ROW faults or more */
    TEXT = 512         /* bytes of a message's buffer */
};

static bool is_removed; /* this process has removed fault_file */

/* Appends text to the string `out`, a buffer of TEXT bytes. Safe in a signal handler, unlike
 * snprintf. */
static void append_text(char out[TEXT], const char *text)
{
    size_t n = strnlen(out, TEXT - 1);

    while (*text != '\0' && n + 1 < TEXT)
        out[n++] = *text++;
    out[n] = '\0';
}

/* Writes text to stderr without a buffer; errors are ignored. Safe in a signal handler. */
static void write_stderr(const char *text)
{
    const ssize_t done = write(STDERR_FILENO, text, strlen(text));

    (void)done;
}

/* Prints `what` followed by `how` as a line on stderr, in place of a progress bar. Safe in a signal
 * handler. */
static void print_fault(const char *what, const char *how)
{
    char line[TEXT] = "";

    append_text(line, isatty(STDERR_FILENO) ? "\r\033[K" : "");
    append_text(line, what);
    append_text(line, how);
    append_text(line, "\n");
    write_stderr(line);
}

tc_status driver_fault_init(char **argv, tc_err *err)
{
    return os_prepare_restart(argv, variable) ? TC_OK : tc_no_memory(err, "the command line");
}

const char *driver_fault_restart_reason(void)
{
    return getenv(variable);
}

void driver_fault_restart(const char *how)
{
    if (bw_signal_caught()) {
        print_fault("texcell: stopped, and the OpenCL driver failed; the same command goes on "
                    "from here: ",
                    how);
        os_exit_now(tc_exit_code(TC_TRY_LATER));
    }
    os_restart(how);
    print_fault("texcell: error: the OpenCL driver failed; --device cpu does without it: ", how);
    os_exit_now(tc_exit_code(TC_DEVICE));
}

void driver_fault_exit(const char *how)
{
    print_fault("texcell: error: the OpenCL driver failed: ", how);
    os_exit_now(tc_exit_code(TC_DEVICE));
}

void driver_fault_temporary_exit(const char *how)
{
    const bool often =
        tc_increment_file_counter(fault_file) >= IN_A_ROW; /* also counts this fault */
    char reason[TEXT] = "";

    if (often)
        append_text(reason,
                    "the OpenCL driver fails again and again; update it, or take the device "
                    "from BOINC with "
                    "exclude_gpu");
    else
        append_text(reason, "the OpenCL driver failed");
    append_text(reason, ": ");
    append_text(reason, how);
    print_fault("texcell: error: ", reason);
    bw_temporary_exit_now(often ? LONG_WAIT : SHORT_WAIT, reason, often);
}

void driver_fault_reset_count(void)
{
    if (!is_removed)
        unlink(fault_file);
    is_removed = true;
}
