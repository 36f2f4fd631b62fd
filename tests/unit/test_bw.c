/*
 * Unit tests of wrapper/bw.h that need no BOINC client; tests/client has the others. bw has the
 * state of one job per process, so each test runs in a child process, in a new folder.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/scratch.h"
#include "wrapper/bw.h"

/* Seconds that are added to the readings of the steady and of the wall clock; the linker's --wrap
 * replaces both clocks. */
static double steady_ahead, wall_ahead;

double __real_tc_seconds(void);
double __wrap_tc_seconds(void);

double __wrap_tc_seconds(void)
{
    return __real_tc_seconds() + steady_ahead;
}

time_t __real_time(time_t *to);
time_t __wrap_time(time_t *to);

time_t __wrap_time(time_t *to)
{
    const time_t now = __real_time(NULL) + (time_t)wall_ahead;
    if (to)
        *to = now;
    return now;
}

/* cmocka cannot be used in the child process: a failed check is printed, and the child exits with a
 * code that no test expects. */
enum { CHILD_FAILED = 99 };
#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stdout, "# %s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            fflush(stdout);                                                           \
            _exit(CHILD_FAILED);                                                      \
        }                                                                             \
    } while (0)

static char *folder; /* the child's folder */

/* Runs body in a child process; returns its wait status. The folder stays for the test, which must
 * call remove_folder. */
static int in_child(void (*body)(void))
{
    folder = make_folder();
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (chdir(folder) != 0)
            _exit(CHILD_FAILED);
        signal(SIGINT, SIG_DFL); /* SIGINT is ignored if the test was started in the background */
        body();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void assert_exits(void (*body)(void), int code)
{
    const int status = in_child(body);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), code);
}

static void assert_killed(void (*body)(void), int number)
{
    const int status = in_child(body);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), number);
}

static void write_text(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

static void assert_file_is(const char *name, const char *text)
{
    char *path = join_path(folder, name), content[512];
    FILE *f = fopen(path, "r");
    free(path);
    assert_non_null(f);
    content[fread(content, 1, sizeof content - 1, f)] = 0;
    fclose(f);
    assert_string_equal(content, text);
}

/* Initialises bw as a command does, without a client. checkpoint_every: as in bw_options. */
static void start(double checkpoint_every)
{
    const bw_options options = { .checkpoint_every = checkpoint_every, .standalone_command = true };
    bw_init(&options);
    CHECK(!bw_has_client());
}

static void sleep_ms(long ms)
{
    const struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
    nanosleep(&t, NULL);
}

/* --- without a client ------------------------------------------------------------------------- */

static void nothing_assigned(void)
{
    start(0);
    CHECK(bw_ncpus() == 0);
    bw_gpu gpu;
    memset(&gpu, 7, sizeof gpu);
    bw_get_gpu(&gpu);
    CHECK(!gpu.assigned && gpu.vendor[0] == 0 && gpu.opencl_index == -1 && gpu.device_number == -1);
    char *path = NULL;
    CHECK(bw_resolve("a name.zip", &path, NULL) == TC_OK);
    CHECK(strcmp(path, "a name.zip") == 0);
    free(path);
    CHECK(strcmp(bw_request_reason(), "") == 0);
    bw_fraction_done(0.5);
    CHECK(bw_poll() == BW_CONTINUE);
}

static void test_nothing_assigned(void **state)
{
    (void)state;
    assert_exits(nothing_assigned, 0);
    remove_folder(folder);
}

static void quits_into_a_file(void)
{
    CHECK(freopen("out", "w", stdout));
    start(0);
    CHECK(bw_poll() == BW_CONTINUE);
    CHECK(strcmp(bw_request_reason(), "") == 0);
    raise(SIGTERM);
    CHECK(bw_poll() == BW_QUIT);
    CHECK(bw_poll() == BW_QUIT);
    CHECK(strlen(bw_request_reason()) > 10);
    printf("kept");
    bw_exit_on_request();
}

static void test_quit(void **state)
{
    (void)state;
    assert_exits(quits_into_a_file, tc_exit_code(TC_TRY_LATER));
    assert_file_is("out", "kept");
    remove_folder(folder);
}

static void checkpoints_by_the_clock(void)
{
    start(0.2);
    CHECK(!bw_time_to_checkpoint());
    sleep_ms(250);
    CHECK(bw_time_to_checkpoint());
    CHECK(bw_time_to_checkpoint());
    bw_checkpoint_completed();
    CHECK(!bw_time_to_checkpoint());
}

static void checkpoints_each_minute(void)
{
    start(-1);
    sleep_ms(50);
    CHECK(!bw_time_to_checkpoint());
}

static void test_checkpoints(void **state)
{
    (void)state;
    assert_exits(checkpoints_by_the_clock, 0);
    remove_folder(folder);
    assert_exits(checkpoints_each_minute, 0);
    remove_folder(folder);
}

static void one_signal_asks_to_quit(void)
{
    start(0);
    raise(SIGTERM);
    CHECK(bw_poll() == BW_QUIT);
    CHECK(strcmp(bw_request_reason(), "interrupted by signal 15") == 0);
    bw_exit_on_request();
}

static void two_signals_end_it(void)
{
    start(0);
    raise(SIGINT);
    raise(SIGINT);
}

static void nohup_stays(void)
{
    signal(SIGHUP, SIG_IGN);
    start(0);
    raise(SIGHUP);
    CHECK(bw_poll() == BW_CONTINUE);
}

static void test_signals(void **state)
{
    (void)state;
    assert_exits(one_signal_asks_to_quit, tc_exit_code(TC_TRY_LATER));
    remove_folder(folder);
    assert_killed(two_signals_end_it, SIGINT);
    remove_folder(folder);
    assert_exits(nohup_stays, 0);
    remove_folder(folder);
}

static void finishes(void)
{
    start(0);
    bw_finish(2, "bad input");
}

static void leaves_for_a_while(void)
{
    start(0);
    bw_temporary_exit("the device is busy");
}

static void test_ends(void **state)
{
    (void)state;
    assert_exits(finishes, 2);
    remove_folder(folder);
    assert_exits(leaves_for_a_while, tc_exit_code(TC_TRY_LATER));
    remove_folder(folder);
}

/* --- command or task -------------------------------------------------------------------------- */

/* init_data.xml, by which the client describes a task; %d: slot_period. */
static const char slot_file[] =
    "<app_init_data>\n<app_name>texcell</app_name>\n<slot>0</slot>\n<shm_key>-1</shm_key>\n"
    "<gpu_type>intel_gpu</gpu_type>\n<gpu_device_num>2</gpu_device_num>\n"
    "<gpu_opencl_dev_index>1</gpu_opencl_dev_index>\n<gpu_usage>1</gpu_usage>\n"
    "<ncpus>3.900000</ncpus>\n<checkpoint_period>%d</checkpoint_period>\n</app_init_data>\n";
static int slot_period = 60; /* seconds between checkpoints */

static void make_slot(void)
{
    char text[sizeof slot_file + 16];
    snprintf(text, sizeof text, slot_file, slot_period);
    write_text("init_data.xml", text);
}

static void command_in_a_slot(void)
{
    make_slot();
    start(0);
    CHECK(access("boinc_lockfile", F_OK) != 0);
    CHECK(access("stderr.txt", F_OK) != 0);
}

static void no_command_outside_a_slot(void)
{
    const bw_options options = { .standalone_command = false };
    bw_init(&options);
    CHECK(!bw_has_client());
    CHECK(access("boinc_lockfile", F_OK) != 0);
    CHECK(access("stderr.txt", F_OK) != 0);
}

static void test_no_client(void **state)
{
    (void)state;
    assert_exits(command_in_a_slot, 0);
    remove_folder(folder);
    assert_exits(no_command_outside_a_slot, 0);
    remove_folder(folder);
}

#ifdef BW_WITH_BOINC
/* Makes an empty file for the messages that client and task exchange. */
static void make_channels(void)
{
    FILE *const file = fopen("boinc_mmap_file", "wb");
    CHECK(file != NULL && ftruncate(fileno(file), (off_t)8 * 1024) == 0 && fclose(file) == 0);
}

/* Starts in a slot whose client sends nothing; BOINC's library reads and writes the slot's files.
 */
static void start_in_a_slot(void)
{
    make_slot();
    make_channels();
    write_text("workunit", "<soft_link>../../projects/p/wu_1.zip</soft_link>\n");
    const bw_options options = { .standalone_command = false };
    bw_init(&options);
    CHECK(bw_has_client());
}

static void task_without_channels(void)
{
    const bw_options options = { .standalone_command = false };
    make_slot();
    bw_init(&options);
}

static void reads_the_slot(void)
{
    start_in_a_slot();
    char *path = NULL;
    CHECK(bw_resolve("workunit", &path, NULL) == TC_OK);
    CHECK(strcmp(path, "../../projects/p/wu_1.zip") == 0);
    free(path);
    CHECK(bw_ncpus() == 3);
    bw_gpu gpu;
    bw_get_gpu(&gpu);
    CHECK(gpu.assigned && strcmp(gpu.vendor, "intel_gpu") == 0);
    CHECK(gpu.opencl_index == 1 && gpu.device_number == 2);
    CHECK(bw_poll() == BW_CONTINUE);
    CHECK(!bw_time_to_checkpoint());
}

/* A checkpoint fails, as on a full disk, and the clock is set back by a day before the next try. */
static void task_tries_its_checkpoint_again(void)
{
    start_in_a_slot();
    for (int i = 0; i < 100 && !bw_time_to_checkpoint(); i++)
        sleep_ms(100);
    bw_checkpoint_failed();
    CHECK(!bw_time_to_checkpoint());
    wall_ahead -= 24 * 3600;
    steady_ahead += 59;
    CHECK(!bw_time_to_checkpoint());
    steady_ahead += 2;
    CHECK(bw_time_to_checkpoint());
    bw_checkpoint_completed();
}

static void task_leaves_for_a_while(void)
{
    start_in_a_slot();
    bw_temporary_exit("the device\nis busy");
}

/* Each temporary exit adds a character to the file "waits". After the first exit the task waits for
 * an hour, the second exit also notifies the user, and after 24 exits the task waits for a day. */
static void task_leaves_again(void)
{
    write_text("waits", "x");
    task_leaves_for_a_while();
}

static void task_leaves_for_a_day(void)
{
    write_text("waits", "xxxxxxxxxxxxxxxxxxxxxxxx");
    task_leaves_for_a_while();
}

/* A checkpoint resets the count of temporary exits. */
static void task_leaves_after_a_checkpoint(void)
{
    start_in_a_slot();
    write_text("waits", "xxx");
    bw_checkpoint_completed();
    bw_temporary_exit("the device\nis busy");
}

/* If the file for a temporary exit cannot be made, the client would count the exit as a failure:
 * the task waits instead of exiting. */
static void task_cannot_leave(void)
{
    start_in_a_slot();
    CHECK(mkdir("boinc_temporary_exit", 0700) == 0);
    raise(SIGTERM);
    bw_temporary_exit("the device\nis busy");
}

static void task_gives_no_reason(void)
{
    start_in_a_slot();
    bw_temporary_exit(" ");
}

static void task_finishes(void)
{
    start_in_a_slot();
    bw_finish(2, "wu.zip: job.json: \"analysis\" is missing\n");
}

static void task_gets_a_signal(void)
{
    start_in_a_slot();
    raise(SIGTERM);
    CHECK(bw_poll() == BW_QUIT);
    bw_checkpoint_completed();
    bw_exit_on_request();
}

static void test_slot(void **state)
{
    (void)state;
    assert_exits(task_without_channels, 0);
    assert_file_is("boinc_temporary_exit", "300\nthe client's shared memory cannot be opened\n");
    remove_folder(folder);
    assert_exits(reads_the_slot, 0);
    remove_folder(folder);
    slot_period = 1;
    assert_exits(task_tries_its_checkpoint_again, 0);
    remove_folder(folder);
    slot_period = 60;
    assert_exits(task_leaves_for_a_while, 0);
    assert_file_is("boinc_temporary_exit", "300\nthe device is busy\n");
    remove_folder(folder);
    assert_exits(task_leaves_again, 0);
    assert_file_is("boinc_temporary_exit", "3600\nthe device is busy\nnotice\n");
    remove_folder(folder);
    assert_exits(task_leaves_for_a_day, 0);
    assert_file_is("boinc_temporary_exit", "86400\nthe device is busy\n");
    remove_folder(folder);
    assert_exits(task_leaves_after_a_checkpoint, 0);
    assert_file_is("boinc_temporary_exit", "300\nthe device is busy\n");
    remove_folder(folder);
    assert_killed(task_cannot_leave, SIGTERM);
    remove_folder(folder);
    assert_exits(task_gives_no_reason, 0);
    assert_file_is("boinc_temporary_exit", "300\nno reason given\n");
    remove_folder(folder);
    assert_exits(task_finishes, 2);
    assert_file_is("boinc_finish_called", "2\nwu.zip: job.json: \"analysis\" is missing \n\n");
    remove_folder(folder);
    assert_killed(task_gets_a_signal, SIGTERM);
    remove_folder(folder);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_assigned),
        cmocka_unit_test(test_quit),
        cmocka_unit_test(test_checkpoints),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_no_client),
#ifdef BW_WITH_BOINC
        cmocka_unit_test(test_slot),
#endif
    };
    return cmocka_run_group_tests_name("bw", tests, NULL, NULL);
}
