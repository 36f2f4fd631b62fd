// Implements bw_side.h for a task of a BOINC client, by the BOINC API. This file is C++,
// as a part of that API has C++ linkage.
//
// BOINC's runtime library ("the runtime") is started with direct_process_action = 0: its timer
// thread reads the client's messages, sends this program's and sets flags, but never suspends or
// ends this process. The program acts on the flags in bw_poll, when no other thread works and no
// launch is running on a device. docs/dev/BOINC.md describes the consequences.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#include <sys/stat.h>
#include <unistd.h>

#include <boinc_api.h>
#include <common_defs.h>
#include <error_numbers.h>
#include <filesys.h>
#include <util.h>

extern "C" {
#include "app/base/status.h"
}
#include "app/base/files.h"
#include "app/base/os.h"
#include "wrapper/bw_side.h"

// Replaces boinc_sleep, by which the runtime's timer thread sleeps. The library's function waits
// until a time of the wall clock: if the clock is set back by an hour, the thread does not
// communicate with the client for an hour. A shared library calls the program's boinc_sleep,
// defined below, instead of the library's function. A static library would call the library's
// function rather than this weak one, so the linker's option --wrap redirects its calls to
// __wrap__Z11boinc_sleepd (configure.ac).
extern "C" void __wrap__Z11boinc_sleepd(double seconds);
void __wrap__Z11boinc_sleepd(double seconds)
{
    const double end = tc_seconds() + seconds;
    for (double left = seconds; left > 0; left = end - tc_seconds())
        os_sleep(left);
}

#ifdef BW_OWN_SLEEP // not on Windows, where the library's function is correct
__attribute__((weak)) void boinc_sleep(double seconds)
{
    __wrap__Z11boinc_sleepd(seconds);
}
#endif

namespace
{

// Ends the process without calling exit handlers, as the exit handler of an OpenCL driver may hang
// or crash. The operating system releases the lock of the slot folder.
void exit_now(int code)
{
    fflush(nullptr);
    os_exit_now(code);
}

// Shortens the text to one line of up to 250 characters: the client reads a message from a file as
// one line, into a buffer of 256 bytes. It ignores a file with an empty message, so an empty text
// is replaced.
std::string one_line(const char *text)
{
    std::string line(text ? text : "");
    if (line.size() > 250)
        line.resize(250);
    for (char &c : line)
        if (c == '\n' || c == '\r')
            c = ' ';
    return line.find_first_not_of(" \t") == std::string::npos ? "no reason given" : line;
}

// CPU time in seconds of all runs of the task until its last checkpoint.
double checkpoint_cpu_time;

// The earliest time (tc_seconds) of the next checkpoint after one that failed; 0 otherwise.
double retry_at;

// A file that is written at the start, so that it occupies space on the disk. When the task exits,
// the message to the client is written into this file and the file is renamed, which works even if
// the disk is full by then.
const char spare_file[] = "exit_spare";
enum { SPARE_ROOM = 512 }; // bytes of the file

void make_spare_file(void)
{
    char room[SPARE_ROOM];
    const int fd = os_open(spare_file, OS_OVERWRITE);
    memset(room, '\n', sizeof room);
    if (fd >= 0) {
        // A failure is ignored: without this file exiting only needs free space on the disk.
        const ssize_t written = write(fd, room, sizeof room);
        (void)written;
        close(fd);
    }
}

// Writes the n texts, each of up to 250 characters, into the spare file and renames it to `name`.
// Safe in a signal handler.
bool write_exit_file(const char *name, const char *const *texts, int n)
{
    const int fd = os_open(spare_file, OS_UPDATE);
    off_t size = 0;
    bool complete = fd >= 0;
    for (int i = 0; complete && i < n; i++) {
        const size_t length = strnlen(texts[i], 250);
        complete = write(fd, texts[i], length) == static_cast<ssize_t>(length);
        size += static_cast<off_t>(length);
    }
    complete = complete && ftruncate(fd, size) == 0;
    if (fd >= 0 && close(fd) != 0)
        complete = false;
    unlink(name); // Windows cannot rename onto an existing file
    return complete && rename(spare_file, name) == 0;
}

// Writes the file that requests a temporary exit of `delay` seconds. Replaces boinc_temporary_exit,
// which does not check whether the file could be written. Without the file, the exit counts as a
// failure, and the client restarts the task without delay. alert: the client shows the reason as a
// notice. Safe in a signal handler.
bool request_temporary_exit(int delay, const char *reason, bool alert)
{
    char digits[12] = "";
    char *first = digits + sizeof digits - 1;
    do
        *--first = static_cast<char>('0' + delay % 10);
    while ((delay /= 10) > 0);
    const char *const texts[] = { first, "\n", reason, "\n", alert ? "notice\n" : "" };
    return write_exit_file(TEMPORARY_EXIT_FILE, texts, 5);
}

// Writes the file by which the client recognizes that the task has finished.
bool write_finish_file(void)
{
    const char *const texts[] = { "0\n" };
    return write_exit_file(BOINC_FINISH_CALLED_FILE, texts, 1);
}

bw_request boinc_side_get_request(const char **why, bool *suspended);
void boinc_side_exit_on_request(bw_request request);

// Sleeps for a second. If the client requests the process to end, or a signal was caught, ends it
// instead.
void wait_a_second(void)
{
    const char *why;
    bool suspended;
    const bw_request request = boinc_side_get_request(&why, &suspended);
    if (request != BW_CONTINUE || bw_signal_caught())
        boinc_side_exit_on_request(request);
    os_sleep(1);
}

// A file that counts consecutive temporary exits (tc_increment_file_counter). The longer the
// series, the longer the delay, as the client aborts a task after a hundred exits without a
// checkpoint.
const char exit_count_file[] = "waits";
const int hour = 3600;

void boinc_side_temporary_exit(const char *reason)
{
    const uint64_t n_exits = tc_increment_file_counter(exit_count_file);
    const int delay = n_exits <= 1 ? 300 : n_exits <= 24 ? hour : 24 * hour; // in seconds
    const std::string line = one_line(reason);
    while (!request_temporary_exit(delay, line.c_str(), n_exits == 2))
        wait_a_second();
    exit_now(0);
}

// Returns the number of bytes of the first line of a text of n bytes, including its newline; n if
// there is no newline.
size_t first_line_length(const char *text, size_t n)
{
    const void *const newline = memchr(text, '\n', n);
    return newline ? static_cast<size_t>(static_cast<const char *>(newline) - text) + 1 : n;
}

// Shortens a long stderr log. A task that is restarted every minute fills the log with the same
// lines. The client reports only the log's last 63 KiB, but the first lines are the most useful. So
// this keeps the first lines and the last lines, up to PART bytes each. It writes in place, as the
// disk may be full.
void shorten_log(void)
{
    enum { MOST = 48 << 10, PART = 16 << 10 }; // bytes; a log of up to MOST bytes is not shortened
    static const char marker[] = "texcell: older lines are left out here\n";
    char first[PART], last[PART];
    struct stat info;
    const int fd = os_open(STDERR_FILE, OS_UPDATE);
    if (fd < 0)
        return;
    if (fstat(fd, &info) == 0 && info.st_size > MOST && tc_read_all_at(fd, 0, first, PART) &&
        tc_read_all_at(fd, static_cast<uint64_t>(info.st_size) - PART, last, PART)) {
        // keep: bytes kept at the start, up to the first line end after half of PART; skip: bytes
        // of `last` before its first line end; n: bytes of the marker; left: bytes kept at the end.
        const size_t half = PART / 2, keep = half + first_line_length(first + half, half),
                     skip = first_line_length(last, half), n = sizeof marker - 1,
                     left = PART - skip;
        const bool shortened = tc_write_at(fd, keep, marker, n) &&
                               tc_write_at(fd, keep + n, last + skip, left) &&
                               ftruncate(fd, static_cast<off_t>(keep + n + left)) == 0;
        (void)shortened; // a failure is ignored: the log stays long
    }
    close(fd);
}

// Handles link files that a power failure has emptied. For each of the task's files the client
// writes a small file ("soft link") with its path into the slot, and does not sync it; the runtime
// would treat an empty link as the task's file itself. This function removes empty links and exits
// temporarily, so that the client makes them again; from version 8.2 on the client does so only if
// boinc_setup_complete is missing, too.
void refuse_empty_links(void)
{
    bool any = false;
    for (const char *link : { "workunit", "result" }) {
        struct stat info;
        if (stat(link, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == 0)
            any = unlink(link) == 0 || any;
    }
    if (!any)
        return;
    unlink("boinc_setup_complete");
    boinc_side_temporary_exit("a power failure has emptied a file of the client's");
}

void boinc_side_init(const bw_options *)
{
    shorten_log();
    BOINC_OPTIONS o;
    memset(&o, 0, sizeof o);
    boinc_options_defaults(o);
    o.direct_process_action = 0;
    // On Windows: the main thread gets the same priority as the worker threads, within the low
    // priority class of the process. Otherwise the main thread would be slower than they are.
    o.normal_thread_priority = 1;
    // An error must not be returned: the exit code would make the job fail.
    if (boinc_init_options(&o) != 0)
        boinc_side_temporary_exit("the BOINC runtime does not start");
    // Without the memory that is shared with the client the runtime works in standalone mode: the
    // task could not be suspended and would report no progress.
    if (boinc_is_standalone())
        boinc_side_temporary_exit("the client's shared memory cannot be opened");
    make_spare_file();
    refuse_empty_links();
    APP_INIT_DATA data;
    boinc_get_init_data(data);
    checkpoint_cpu_time = data.wu_cpu_time;
}

tc_status boinc_side_resolve(const char *logical, char **path, tc_err *err)
{
    std::string physical;
    const int failed = boinc_resolve_filename_s(logical, physical);
    if (failed)
        return tc_fail(err, TC_BAD_INPUT, "%s: BOINC does not resolve this name: error %d", logical,
                       failed);
    *path = static_cast<char *>(malloc(physical.size() + 1));
    if (!*path)
        return tc_no_memory(err, "a file name");
    memcpy(*path, physical.c_str(), physical.size() + 1);
    return TC_OK;
}

int boinc_side_ncpus(void)
{
    APP_INIT_DATA data;
    boinc_get_init_data(data);
    if (!(data.ncpus > 0 && data.ncpus < 1e6))
        return 0;
    return data.ncpus < 1 ? 1 : static_cast<int>(data.ncpus);
}

// Reads init_data.xml again, at most once a second, as the client rewrites it when the volunteer
// changes a preference. The runtime's own function for this would also reset the CPU time of
// earlier runs.
int boinc_side_cpu_limit(void)
{
    static double checked_at = -2; // so that the first call reads the file
    static time_t last_change;
    static int limit;
    struct stat info;
    if (tc_seconds() - checked_at < 1)
        return limit;
    checked_at = tc_seconds();
    // A file that was changed within the last two seconds is read again, as it may change once
    // more with the same time stamp.
    if (stat(INIT_DATA_FILE, &info) != 0 ||
        (info.st_mtime == last_change && time(nullptr) > last_change + 2))
        return limit;
    FILE *const file = boinc_fopen(INIT_DATA_FILE, "r");
    APP_INIT_DATA data;
    if (file && parse_init_data_file(file, data) == 0) {
        const double share = data.global_prefs.max_ncpus_pct / 100;
        const int cpus = static_cast<int>(data.host_info.p_ncpus * share);
        // 0: no limit, or it is unknown.
        limit = !(share > 0 && share < 1) || data.host_info.p_ncpus <= 0 ? 0 : cpus < 1 ? 1 : cpus;
        last_change = info.st_mtime;
    }
    if (file)
        fclose(file);
    return limit;
}

void boinc_side_get_gpu(bw_gpu *gpu)
{
    APP_INIT_DATA data;
    boinc_get_init_data(data);
    memset(gpu, 0, sizeof *gpu);
    gpu->opencl_index = -1;
    gpu->device_number = -1;
    if (!data.gpu_type[0])
        return;
    gpu->assigned = true;
    snprintf(gpu->vendor, sizeof gpu->vendor, "%s", data.gpu_type);
    gpu->opencl_index = data.gpu_opencl_dev_index;
    gpu->device_number = data.gpu_device_num;
    gpu->while_used =
        data.global_prefs.run_if_user_active && data.global_prefs.run_gpu_if_user_active;
}

void boinc_side_get_task(bw_task *task)
{
    APP_INIT_DATA data;
    boinc_get_init_data(data);
    memset(task, 0, sizeof *task);
    snprintf(task->version, sizeof task->version, "%d.%02d", data.app_version / 100,
             data.app_version % 100);
    snprintf(task->client, sizeof task->client, "%d.%d.%d", data.major_version, data.minor_version,
             data.release);
    task->seconds_before = data.starting_elapsed_time;
    // A path that is too long is left out.
    if (strlen(data.project_dir) < sizeof task->folder)
        snprintf(task->folder, sizeof task->folder, "%s", data.project_dir);
}

void boinc_side_get_volunteer(bw_volunteer *volunteer)
{
    APP_INIT_DATA data;
    boinc_get_init_data(data);
    memset(volunteer, 0, sizeof *volunteer);
    snprintf(volunteer->user, sizeof volunteer->user, "%s", data.user_name);
    snprintf(volunteer->team, sizeof volunteer->team, "%s", data.team_name);
    // The name of the project's folder is made from the project's address.
    snprintf(volunteer->project, sizeof volunteer->project, "%s", os_base_name(data.project_dir));
    volunteer->host_credit = data.host_total_credit;
}

void boinc_side_fraction_done(double fraction)
{
    boinc_fraction_done(fraction);
}

bool boinc_side_time_to_checkpoint(void)
{
    if (tc_seconds() < retry_at)
        return false;
    return boinc_time_to_checkpoint() != 0;
}

void boinc_side_checkpoint_completed(void)
{
    retry_at = 0;
    unlink(exit_count_file);
    boinc_checkpoint_completed();
    boinc_wu_cpu_time(checkpoint_cpu_time);
}

// The runtime has no function for a failed checkpoint. boinc_time_to_checkpoint has begun a
// critical section, which must end here. Until a checkpoint is completed, boinc_time_to_checkpoint
// continues to return true, so retry_at delays the next attempt.
void boinc_side_checkpoint_failed(void)
{
    retry_at = tc_seconds() + 60; // a minute later
    boinc_end_critical_section();
}

bw_request boinc_side_get_request(const char **why, bool *suspended)
{
    BOINC_STATUS status;
    memset(&status, 0, sizeof status);
    boinc_get_status(&status);
    *suspended = status.suspended != 0;
    if (status.abort_request) {
        *why = "the client aborted the task";
        return BW_ABORT;
    }
    if (status.quit_request) {
        *why = "the client asked to quit";
        return BW_QUIT;
    }
    if (status.no_heartbeat) {
        *why = "the client is gone";
        return BW_QUIT;
    }
    return BW_CONTINUE;
}

void boinc_side_exit_on_request(bw_request request)
{
    if (request == BW_ABORT)
        exit_now(EXIT_ABORTED_BY_CLIENT);
    // Reports the CPU time of the last checkpoint, which was just written: the timer thread would
    // report it only at its next full second.
    double cpu_time = 0;
    boinc_wu_cpu_time(cpu_time);
    const double fraction = boinc_get_fraction_done(); // -1: none reported yet
    boinc_report_app_status(cpu_time, checkpoint_cpu_time, fraction > 0 ? fraction : 0);
    // The client restarts a task that was ended by a signal, without counting this as an exit for
    // no reason.
    const int number = bw_signal_caught();
    if (number) {
        fflush(nullptr);
        os_exit_by_signal(number);
    }
    exit_now(0);
}

void boinc_side_temporary_exit_now(int delay, const char *reason, bool alert)
{
    if (!request_temporary_exit(delay, reason, alert)) {
        os_sleep(60);
        os_exit_by_signal(SIGTERM); // the client does not count this as an exit for no reason
    }
    os_exit_now(0);
}

// An exit handler that ends the process before a driver's exit handlers run, which were registered
// earlier: the client considers a task failed if it still runs five minutes after its finish file.
int finish_code;
void exit_without_handlers(void)
{
    exit_now(finish_code);
}

void boinc_side_finish(int code, const char *message)
{
    // After a failure no file is needed, as the client sees the exit code.
    while (code == 0 && !write_finish_file())
        wait_a_second();
    finish_code = code;
    (void)atexit(exit_without_handlers);
    if (message)
        boinc_finish_message(code, one_line(message).c_str(), false);
    else
        boinc_finish(code);
    exit_now(code);
}

const bw_side boinc_side = {
    true,
    boinc_side_init,
    boinc_side_resolve,
    boinc_side_ncpus,
    boinc_side_cpu_limit,
    boinc_side_get_gpu,
    boinc_side_get_volunteer,
    boinc_side_get_task,
    boinc_side_fraction_done,
    boinc_side_time_to_checkpoint,
    boinc_side_checkpoint_completed,
    boinc_side_checkpoint_failed,
    boinc_side_get_request,
    boinc_side_exit_on_request,
    boinc_side_temporary_exit,
    boinc_side_temporary_exit_now,
    boinc_side_finish,
};

} // namespace

// A slot folder contains init_data.xml. Without it the runtime would work in standalone mode, but
// would create a lock file and stderr.txt in this folder.
extern "C" const bw_side *bw_boinc_side(void)
{
    return boinc_file_exists(INIT_DATA_FILE) ? &boinc_side : nullptr;
}
