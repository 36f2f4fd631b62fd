// The side with a client, over the BOINC API. The project's only C++ file: a
// part of that API has C++ linkage.
//
// The runtime gets direct_process_action = 0: its timer thread reads the
// client's messages, sends ours and sets flags, but never stops or ends this
// process. We act on the flags in boinc_poll, where no other thread works and
// no launch is under way. docs/dev/BOINC.md says what follows from that.
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

// The runtime's timer thread sleeps by this. The library's own waits for a time of the clock of
// the day: for an hour, without a word with the client, where that clock is set back by an hour. A
// shared library takes a program's function in place of its own; for a static one, whose own wins
// over a weak one, the linker puts in the one that is wrapped around it (configure.ac).
extern "C" void __wrap__Z11boinc_sleepd(double seconds);
void __wrap__Z11boinc_sleepd(double seconds)
{
    const double end = tc_seconds() + seconds;
    for (double left = seconds; left > 0; left = end - tc_seconds())
        os_sleep(left);
}

#ifdef BW_OWN_SLEEP // not on Windows, where the library's sleeps as long as it is asked to
__attribute__((weak)) void boinc_sleep(double seconds)
{
    __wrap__Z11boinc_sleepd(seconds);
}
#endif

namespace
{

// Ends the process without exit handlers: an OpenCL driver's may hang or
// crash. The slot's lock is a lock of the system's and ends with the process.
void leave(int code)
{
    fflush(nullptr);
    os_exit_now(code);
}

// The files that carry a message to the client hold one line of it, which the
// client reads into 256 bytes. An empty reason would hide the whole file.
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

// CPU time of the task, all its runs together, as of its last checkpoint.
double kept_cpu_time;
double retry_at; // of tc_seconds, after a checkpoint that failed; 0: none did

// A file that a stop needs, written at the start, when there is room for it.
const char spare_file[] = "exit_spare";
enum { SPARE_ROOM = 512 };

void make_spare(void)
{
    char room[SPARE_ROOM];
    const int fd = os_open(spare_file, OS_OVER);
    memset(room, '\n', sizeof room);
    if (fd >= 0) {
        // Without it a stop has to find room itself.
        const ssize_t written = write(fd, room, sizeof room);
        (void)written;
        close(fd);
    }
}

// Makes a file of these texts, each of 250 characters at most, out of the spare one. Safe in a
// signal handler.
bool leave_file(const char *name, const char *const *texts, int n)
{
    const int fd = os_open(spare_file, OS_KEEP);
    off_t size = 0;
    bool whole = fd >= 0;
    for (int i = 0; whole && i < n; i++) {
        const size_t length = strnlen(texts[i], 250);
        whole = write(fd, texts[i], length) == static_cast<ssize_t>(length);
        size += static_cast<off_t>(length);
    }
    whole = whole && ftruncate(fd, size) == 0;
    if (fd >= 0 && close(fd) != 0)
        whole = false;
    unlink(name); // Windows renames onto nothing
    return whole && rename(spare_file, name) == 0;
}

// What boinc_temporary_exit writes, which does not look whether the disk has taken it: without
// the file an exit counts as a failure, and the client starts the task again without delay.
// Safe in a signal handler.
bool leave_exit_file(int delay, const char *reason, bool alert)
{
    char digits[12] = "";
    char *first = digits + sizeof digits - 1;
    do
        *--first = static_cast<char>('0' + delay % 10);
    while ((delay /= 10) > 0);
    const char *const texts[] = { first, "\n", reason, "\n", alert ? "notice\n" : "" };
    return leave_file(TEMPORARY_EXIT_FILE, texts, 5);
}

bool leave_finish_file(void)
{
    const char *const texts[] = { "0\n" };
    return leave_file(BOINC_FINISH_CALLED_FILE, texts, 1);
}

bw_request boinc_side_asked(const char **why, bool *suspended);
void boinc_side_exit_on_request(bw_request request);

// Rests for a second; leaves where the client wants that meanwhile.
void rest(void)
{
    const char *why;
    bool suspended;
    const bw_request request = boinc_side_asked(&why, &suspended);
    if (request != BW_GO_ON || bw_signal_caught())
        boinc_side_exit_on_request(request);
    os_sleep(1);
}

// How often in a row, and for how many seconds then. A client gives up a task that has left a
// hundred times without a checkpoint.
const char waits_file[] = "waits";
const int hour = 3600;

void boinc_side_temporary_exit(const char *reason)
{
    const uint64_t times = tc_count_in_file(waits_file);
    const int delay = times <= 1 ? 300 : times <= 24 ? hour : 24 * hour;
    const std::string line = one_line(reason);
    while (!leave_exit_file(delay, line.c_str(), times == 2))
        rest();
    leave(0);
}

// Where the text's first line ends.
size_t line_end(const char *text, size_t n)
{
    const void *const newline = memchr(text, '\n', n);
    return newline ? static_cast<size_t>(static_cast<const char *>(newline) - text) + 1 : n;
}

// A task that is started again every minute says the same every minute. The client reports the last
// 63 KiB; of those that were the first lines tell most. In place, as the disk may be full.
void shorten_log(void)
{
    enum { MOST = 48 << 10, KEPT = 16 << 10 };
    static const char mark[] = "texcell: older lines are left out here\n";
    char first[KEPT], last[KEPT];
    struct stat info;
    const int fd = os_open(STDERR_FILE, OS_KEEP);
    if (fd < 0)
        return;
    if (fstat(fd, &info) == 0 && info.st_size > MOST && tc_read_all_at(fd, 0, first, KEPT) &&
        tc_read_all_at(fd, static_cast<uint64_t>(info.st_size) - KEPT, last, KEPT)) {
        const size_t half = KEPT / 2, keep = half + line_end(first + half, half),
                     skip = line_end(last, half), n = sizeof mark - 1, left = KEPT - skip;
        const bool shortened = tc_write_at(fd, keep, mark, n) &&
                               tc_write_at(fd, keep + n, last + skip, left) &&
                               ftruncate(fd, static_cast<off_t>(keep + n + left)) == 0;
        (void)shortened; // else it stays as long as it was
    }
    close(fd);
}

// A client does not wait until its files in the slot, which name the task's own, are on the disk.
// The runtime would take an empty one for the task's own file. From 8.2 on a client makes what is
// missing again only where the third file is missing too.
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
    // On Windows: our worker threads have this priority within the low class
    // that the client gives the process; the main thread must not lag behind.
    o.normal_thread_priority = 1;
    // A failure that came back would end in an exit code, hence a failed job.
    if (boinc_init_options(&o) != 0)
        boinc_side_temporary_exit("the BOINC runtime does not start");
    // Without the memory that it shares with the client it would go on alone, and neither
    // suspend nor show progress.
    if (boinc_is_standalone())
        boinc_side_temporary_exit("the client's shared memory cannot be opened");
    make_spare();
    refuse_empty_links();
    APP_INIT_DATA data;
    boinc_get_init_data(data);
    kept_cpu_time = data.wu_cpu_time;
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

// The client writes init_data.xml anew when its user changes a preference. The runtime's reader
// would count the CPU time of the earlier runs anew.
int boinc_side_cpu_limit(void)
{
    static double asked_at = -2;
    static time_t last;
    static int limit;
    struct stat now;
    if (tc_seconds() - asked_at < 1)
        return limit;
    asked_at = tc_seconds();
    // Within its second it may be written once more.
    if (stat(INIT_DATA_FILE, &now) != 0 || (now.st_mtime == last && time(nullptr) > last + 2))
        return limit;
    FILE *const file = boinc_fopen(INIT_DATA_FILE, "r");
    APP_INIT_DATA data;
    if (file && parse_init_data_file(file, data) == 0) {
        const double share = data.global_prefs.max_ncpus_pct / 100;
        const int cpus = static_cast<int>(data.host_info.p_ncpus * share);
        limit = !(share > 0 && share < 1) || data.host_info.p_ncpus <= 0 ? 0 : cpus < 1 ? 1 : cpus;
        last = now.st_mtime;
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
    // A path that does not fit is none.
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
    // The project's folder has the name of its address.
    snprintf(volunteer->project, sizeof volunteer->project, "%s", os_last_part(data.project_dir));
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
    unlink(waits_file);
    boinc_checkpoint_completed();
    boinc_wu_cpu_time(kept_cpu_time);
}

// The runtime has no word for this. Out of the critical section that it has
// begun; until a checkpoint is completed it finds that it is time for one.
void boinc_side_checkpoint_failed(void)
{
    retry_at = tc_seconds() + 60;
    boinc_end_critical_section();
}

bw_request boinc_side_asked(const char **why, bool *suspended)
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
    return BW_GO_ON;
}

void boinc_side_exit_on_request(bw_request request)
{
    if (request == BW_ABORT)
        leave(EXIT_ABORTED_BY_CLIENT);
    // The timer thread would send the CPU time as of the checkpoint just
    // written only at its next full second.
    double cpu_time = 0;
    boinc_wu_cpu_time(cpu_time);
    const double fraction = boinc_get_fraction_done(); // -1 before the first
    boinc_report_app_status(cpu_time, kept_cpu_time, fraction > 0 ? fraction : 0);
    // The client starts a task that a signal ended again without counting it
    // among those that keep exiting for no reason.
    const int number = bw_signal_caught();
    if (number) {
        fflush(nullptr);
        os_end_as_stopped(number);
    }
    leave(0);
}

void boinc_side_leave_now(int delay, const char *reason, bool alert)
{
    if (!leave_exit_file(delay, reason, alert)) {
        os_sleep(60);
        os_end_as_stopped(SIGTERM); // which the client does not count
    }
    os_exit_now(0);
}

// Runs before a driver's exit handlers, which were registered earlier: the client takes a task that
// is still there five minutes after its finish file for one that failed.
int finish_code;
void leave_at_exit(void)
{
    leave(finish_code);
}

void boinc_side_finish(int code, const char *message)
{
    // A failure needs no file, the exit code tells of it.
    while (code == 0 && !leave_finish_file())
        rest();
    finish_code = code;
    (void)atexit(leave_at_exit);
    if (message)
        boinc_finish_message(code, one_line(message).c_str(), false);
    else
        boinc_finish(code);
    leave(code);
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
    boinc_side_asked,
    boinc_side_exit_on_request,
    boinc_side_temporary_exit,
    boinc_side_leave_now,
    boinc_side_finish,
};

} // namespace

// The runtime itself would go on without this file, but only after it had
// left a lock file and a stderr.txt in a folder that is no slot.
extern "C" const bw_side *bw_boinc_side(void)
{
    return boinc_file_exists(INIT_DATA_FILE) ? &boinc_side : nullptr;
}
