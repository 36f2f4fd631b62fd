/* The program texcell-validate: its command line and exit codes. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/base/command.h"
#include "app/base/os.h"
#include "app/base/text.h"
#include "validator/check/val.h"
#include "workunits/format/csv.h"
#include "workunits/format/json_text.h"
#include "workunits/format/png_io.h"

#define PROGRAM "texcell-validate"
#define WORKUNITS "../download"

enum {
    LINE_MOST = 1 << 14,     /* bytes of a line of standard input (--many) */
    MAX_THREADS = 1024,      /* the largest value of --threads */
    MAX_SECONDS = 1000000000 /* the largest value of --max-seconds and --wait */
};

static const char usage[] =
    "usage: texcell-validate check [OPTION]... WU.zip RESULT.npz\n"
    "       texcell-validate compare A.npz B.npz\n"
    "       texcell-validate verify --fraction F [OPTION]... WU.zip RESULT.npz\n"
    "       texcell-validate script-init [--workunits DIR] [--accepted DIR]\n"
    "                        [--quarantine DIR] [--fraction F] [OPTION]... RESULT\n"
    "       texcell-validate script-compare [--accepted DIR] RESULT RESULT\n"
    "       texcell-validate script-init|script-compare [OPTION]... --many\n"
    "       texcell-validate --help | --version\n"
    "\n"
    "check    Is the result well-formed, of this work unit, and possible? Looks at\n"
    "         some pixels of some items, and computes suspect items again.\n"
    "compare  Have two results the same content? If not: the first differences.\n"
    "verify   Checks, and computes the share F of the items again (above 0, up to 1;\n"
    "         at least one): are they the same? Prints the chance that this detects\n"
    "         a forged result.\n"
    "  --no-pixels       look at no pixels except those of items that are computed\n"
    "  --seed N          choose the items and pixels that were chosen when N was\n"
    "                    printed (default: at random)\n"
    "  --threads N       compute with N threads (default: 1)\n"
    "  --max-seconds S   exit with 3 if computing takes longer\n"
    "  --max-memory MIB  refuse a result whose rows of an item take more (2); exit\n"
    "                    with 3 if computing an item again takes more\n"
    "  --accepted DIR    record the SHA-256 of WU.zip in DIR; compute it only if\n"
    "                    WU.zip has changed since it was recorded\n"
    "\n"
    "script-init, script-compare: check (with --fraction: verify) and compare for\n"
    "BOINC's script_validator. RESULT is the path of an upload, named\n"
    "WORKUNIT_0_r123_0. Its work unit is WORKUNIT.zip in DIR or in a folder of DIR\n"
    "(BOINC's fan-out), as staged for create_work --wu_name WORKUNIT.\n"
    "  --accepted DIR   script-init also records there the SHA-256 of what it\n"
    "                   accepts, and script-compare requires the same\n"
    "  --quarantine DIR script-init moves refused uploads to DIR, and keeps at most\n"
    "                   the newest 1,000 and 1 GiB: BOINC never deletes them\n"
    "  --wait S         if the answer is \"later\", script-init tries again for S\n"
    "                   seconds, unless the work unit is missing or damaged,\n"
    "                   or a file may not be read (default: 0)\n"
    "  --chance P       with --fraction: compute items again only for this share of\n"
    "                   the results, chosen at random\n"
    "  --alone DIR --fraction-alone F  use F in place of --fraction for a unit whose\n"
    "                   submission has a file of its name in DIR (texcell-submit\n"
    "                   writes one for a quorum of one)\n"
    "  --workunits DIR  (default: ../download, as script_validator runs in\n"
    "                   PROJECT/tmp_HOST)\n"
    "  --many           for many results: reads RESULT, or two with a tab between,\n"
    "                   from each line of standard input, and answers with a line\n"
    "                   that has the exit code; all else goes to standard error\n"
    "\n"
    "Exit codes: 0 yes, 1 bad usage (also no file, or one too many), 2 not a valid\n"
    "result, 3 try again later (also a file that is not there, a damaged work unit),\n"
    "4 no match. To script_validator 0 is valid or a match, 3 try again later, all\n"
    "else invalid or no match.\n";

typedef enum verb { CHECK, COMPARE, VERIFY, SCRIPT_INIT, SCRIPT_COMPARE, VERBS } verb;

/* The verbs of the command line, the number of files that each takes, and the answer that is
 * printed for TC_OK. */
static const struct {
    const char *name;
    int n_files;
    const char *yes;
} verbs[VERBS] = {
    [CHECK] = { "check", 2, "valid" },
    [COMPARE] = { "compare", 2, "match" },
    [VERIFY] = { "verify", 2, "valid" },
    [SCRIPT_INIT] = { "script-init", 1, "valid" },
    [SCRIPT_COMPARE] = { "script-compare", 2, "match" },
};

/* The command line, and the current question: a check or comparison of the files c->files. */
typedef struct command {
    verb verb;
    val_places places;
    char *private; /* path of the folder for private copies of uploads; owned; places.private points
                      to the same string once the folder exists */
    val_verification verification;
    double wait;   /* seconds for which script-init is repeated instead of "try again later" */
    bool many;     /* the names of the files are read from standard input */
    FILE *answers; /* where --many writes exit codes; NULL without --many */
    char **files;  /* [verbs[verb].n_files] the files of the current question */
    bool lasting;  /* set by val_script_init: the work unit is missing or damaged, so that trying
                      again soon would not help */
} command;

/* The exit code of the child process if the answer is "try again later", and would be the same if
 * the question were asked again soon. The parent process replaces it by 3. */
enum { EXIT_NO_RETRY = 67 };

/* --- the command line ------------------------------------------------------------------------ */

static tc_status refuse_file_count(const command *c, int given, tc_err *err)
{
    const int n = verbs[c->verb].n_files;

    return tc_fail(err, TC_USAGE, "%s: takes %d file%s, %d given", verbs[c->verb].name, n,
                   n == 1 ? "" : "s", given);
}

/* Reads the options and files of the verb c->verb, and checks their number. */
static tc_status read_command(int argc, char **argv, command *c, tc_err *err)
{
    val_verification *const v = &c->verification;
    uint64_t threads = 1, mib = 0;
    bool by_chance = false;
    /* One bit for each verb. */
    enum { C = 1 << CHECK, V = 1 << VERIFY, I = 1 << SCRIPT_INIT, SC = 1 << SCRIPT_COMPARE };
    const struct {
        unsigned verbs; /* bits C, V, I, SC: the verbs that have this option */
        tc_option option;
    } all[] = {
        { I | SC, { "many", 0, TC_FLAG, .to = &c->many } },
        { I, { "workunits", 0, TC_TEXT, .to = &c->places.workunits } },
        { I, { "quarantine", 0, TC_TEXT, .to = &c->places.quarantine } },
        { I, { "alone", 0, TC_TEXT, .to = &c->places.alone } },
        { I, { "fraction-alone", 0, TC_NUMBER, .to = &v->alone, .most = 1 } },
        { I | V | C | SC, { "accepted", 0, TC_TEXT, .to = &c->places.accepted } },
        { I, { "wait", 0, TC_NUMBER, .to = &c->wait, .most = MAX_SECONDS } },
        { I, { "chance", 0, TC_NUMBER, .to = &v->chance, .most = 1, .given = &by_chance } },
        { I | V, { "fraction", 0, TC_NUMBER, .to = &v->fraction, .most = 1 } },
        { I | V | C, { "no-pixels", 0, TC_FLAG, .to = &v->blind } },
        { I | V | C,
          { "seed", 0, TC_COUNT, .to = &v->seed, .most = UINT64_MAX, .given = &v->seeded } },
        { I | V | C, { "threads", 0, TC_COUNT, .to = &threads, .least = 1, .most = MAX_THREADS } },
        { I | V | C, { "max-seconds", 0, TC_NUMBER, .to = &v->max_seconds, .most = MAX_SECONDS } },
        { I | V | C, { "max-memory", 0, TC_COUNT, .to = &mib, .least = 1, .most = VAL_MAX_MIB } },
    };
    tc_option own[sizeof all / sizeof all[0] + 1] = { { .name = NULL } };
    size_t n = 0;

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].verbs >> c->verb & 1) /* the verb has this option */
            own[n++] = all[i].option;
    const char *const name = verbs[c->verb].name;
    int n_files;
    return_if_error(tc_read_options(argc, argv, own, &n_files, err));
    v->threads = (unsigned)threads;
    v->max_memory = mib << 20;
    if (c->many && n_files > 0)
        return tc_fail(err, TC_USAGE, "%s: with --many, files are named on standard input only",
                       name);
    if (!c->many && n_files != verbs[c->verb].n_files)
        return refuse_file_count(c, n_files, err);
    if ((c->verb == VERIFY || by_chance) && v->fraction == 0)
        return tc_fail(err, TC_USAGE, "%s: --fraction is missing", name);
    c->files = argv + 1;
    return TC_OK;
}

/* --- commands -------------------------------------------------------------------------------- */

/* Checks that the files exist. If one does not, returns TC_TRY_LATER, since a misspelt path says
 * nothing about a result. */
static tc_status check_files_exist(const command *c, tc_err *err)
{
    for (int i = 0; i < verbs[c->verb].n_files; i++) {
        const os_kind kind = os_kind_of(c->files[i]);

        if (kind != OS_FILE)
            return tc_fail(err, TC_TRY_LATER, "%.600s: %s", c->files[i],
                           kind == OS_FOLDER    ? "is a folder"
                           : kind == OS_NOTHING ? "there is no such file"
                                                : "is not a regular file");
    }
    return TC_OK;
}

/* Runs check or verify. If the work unit has a fault, returns TC_TRY_LATER, since the result is not
 * to blame. */
static tc_status check_result(const command *c, tc_err *err)
{
    TC_AUTO(an_unit_free) an_unit unit = { .job = NULL };
    if (an_unit_read_heads(c->files[0], &unit, err) != TC_OK ||
        val_job_sha256(c->places.accepted, unit.job, err) != TC_OK)
        return TC_TRY_LATER;

    return val_check(&unit, c->files[1], &c->verification, err);
}

/* Runs the verb for the files c->files. */
static tc_status do_command(command *c, tc_err *err)
{
    return_if_error(val_draw_seed(&c->verification, err));
    switch (c->verb) {
    case CHECK:
    case VERIFY: return check_result(c, err);
    case COMPARE: return val_compare(c->files[0], c->files[1], false, err);
    case SCRIPT_INIT:
        return val_script_init(&c->places, c->files[0], &c->verification, &c->lasting, err);
    case SCRIPT_COMPARE: return val_script_compare(&c->places, c->files[0], c->files[1], err);
    case VERBS: break;
    }
    return tc_fail(err, TC_INTERNAL, "no such command");
}

/* Runs the command and prints its answer. */
static tc_status answer_question(command *c, tc_err *err)
{
    /* If memory ran out while JSON was read, the status becomes TC_NO_MEMORY. */
    const tc_status status = wu_json_check_memory(do_command(c, err), err);

    if (status == TC_OK)
        printf("%s\n", verbs[c->verb].yes);
    if (status == TC_NO_MATCH) {
        val_private_hide_path(c->private, err->message);
        printf("no match: %s\n", tc_make_printable(err->message));
        err->message[0] = '\0'; /* the caller prints no error */
    }
    return status;
}

/* Puts the upload's path before a message that does not name it, such as "out of memory": the
 * validator's log does not show otherwise which result the message is about. */
static void name_upload(const char *upload, tc_err *err)
{
    char message[TC_ERR_MAX];

    if (err->message[0] == '\0' || strstr(err->message, os_base_name(upload)) != NULL)
        return;
    snprintf(message, sizeof message, "%s", err->message);
    snprintf(err->message, sizeof err->message, "%.600s: %.400s", upload, message);
}

/* Confines the child process, runs script-init or script-compare in it, and returns its exit code.
 * A function for val_run_child; user: the command. */
static int answer_in_child(void *user)
{
    command *const c = user;
    const val_verification *const v = &c->verification;
    const double begin = tc_seconds();
    tc_err err = { "" };
    bool no_retry;
    int code;
    tc_status status;

    status = val_confine_uploads(&c->places, c->files, verbs[c->verb].n_files, NULL,
                                 OS_CALLS_MODIFY_FILES, &err);
    if (status == TC_OK)
        status = answer_question(c, &err);
    no_retry =
        (status == TC_TRY_LATER && c->lasting) || (status == TC_NO_MEMORY && v->max_memory > 0) ||
        (status == TC_TRY_LATER && v->max_seconds > 0 && tc_seconds() - begin >= v->max_seconds);
    val_private_hide_path(c->private, err.message);
    name_upload(c->files[0], &err);
    /* An internal error of this program is no fault of the host that sent the file. */
    code = tc_report_failure(PROGRAM, status == TC_INTERNAL ? TC_TRY_LATER : status, &err);
    return no_retry ? EXIT_NO_RETRY : code;
}

/* Returns whether this process has no permission to read the file. */
static bool is_forbidden(const char *path)
{
    const int fd = os_open(path, OS_READ);
    const bool forbidden = fd < 0 && (errno == EACCES || errno == EPERM);

    if (fd >= 0)
        close(fd);
    return forbidden;
}

/* Returns whether the upload or its work unit may not be read, which waiting does not change. This
 * is not asked in the child process: its confinement forbids a file that was not there before. */
static bool may_not_read(const command *c)
{
    char *unit = NULL;
    const bool forbidden =
        is_forbidden(c->files[0]) ||
        (val_find_workunit(c->places.workunits, c->files[0], &unit, NULL) == TC_OK &&
         is_forbidden(unit));

    free(unit);
    return forbidden;
}

/* Answers in a child process. While the answer is "try again later", tries again for up to c->wait
 * seconds: BOINC would ask only hours later, and send another copy of the task. Moves a refused
 * upload to the quarantine folder. */
static tc_status answer_in_time(command *c, int *code, tc_err *err)
{
    const double until = tc_seconds() + c->wait;
    double pause = 1;
    int ended_by;
    tc_status status = val_run_child(answer_in_child, c, c->files[0], code, &ended_by, err);

    while ((status != TC_OK || *code == 3) && tc_seconds() + pause <= until && !may_not_read(c)) {
        os_sleep(pause);
        pause *= 2;
        status = val_run_child(answer_in_child, c, c->files[0], code, &ended_by, err);
    }
    if (*code == EXIT_NO_RETRY)
        *code = 3;
    if (status == TC_OK && c->places.quarantine != NULL && (*code == 2 || *code == 4)) {
        tc_err why = { "" };

        /* The child process is confined and cannot move files there. */
        if (val_quarantine(c->places.quarantine, c->files[0], &why) != TC_OK)
            fprintf(stderr, PROGRAM ": note: %s; the upload was not moved\n",
                    tc_make_printable(why.message));
    }
    return status;
}

/* Answers one question of script_validator, about one result or two. Sets *code to the exit code to
 * be reported. */
static tc_status answer_script(command *c, int *code, tc_err *err)
{
    tc_status status;

    *code = 0;
    if (c->verb == SCRIPT_COMPARE && val_same_uploads(&c->places, c->files[0], c->files[1])) {
        printf("%s\n", verbs[c->verb].yes);
        return TC_OK;
    }
    if (c->verb == SCRIPT_INIT && val_server_lost(&c->places, c->files[0])) {
        tc_err why = { "" };

        *code = tc_report_failure(
            PROGRAM,
            tc_fail(&why, TC_TRY_LATER,
                    "%.600s: the server lost this upload; run bin/texcell-again --lost",
                    c->files[0]),
            &why);
        return TC_OK;
    }
    status = val_private_folder(&c->private, err);
    c->places.private = c->private;
    if (status == TC_OK)
        status = answer_in_time(c, code, err);
    val_private_remove(&c->private);
    return status;
}

/* Splits a line of standard input at tabs, and sets `files` to its first two names. Returns the
 * number of names. */
static int split_line(char *line, char *files[2])
{
    int n = 0;

    line[strcspn(line, "\n")] = '\0';
    for (char *at = strtok(line, "\t"); at != NULL; at = strtok(NULL, "\t"))
        if (n++ < 2)
            files[n - 1] = at;
    return n;
}

/* Runs --many: answers a question for each line of standard input. Only exit codes are written to
 * standard output. */
static tc_status script_many(command *c, tc_err *err)
{
    const int to = dup(STDOUT_FILENO);
    FILE *const answers = to < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ? NULL : fdopen(to, "w");
    char line[LINE_MOST], *files[2];
    bool good = answers != NULL;

    /* Standard input must be unbuffered. Otherwise a child process could inherit buffered input,
     * and change the position of the parent's standard input when it exits. */
    (void)setvbuf(stdin, NULL, _IONBF, 0);
    c->files = files;
    c->answers = answers;
    while (good && fgets(line, sizeof line, stdin) != NULL) {
        /* The rest of a longer line would be read as the next question. */
        if (strchr(line, '\n') == NULL && !feof(stdin))
            return tc_fail(err, TC_USAGE, "%s: a line of standard input is too long",
                           verbs[c->verb].name);
        tc_err why = { "" };
        const int n = split_line(line, files);
        int code;
        const tc_status status = n == verbs[c->verb].n_files ? answer_script(c, &code, &why)
                                                             : refuse_file_count(c, n, &why);

        if (status != TC_OK)
            code = tc_report_failure(PROGRAM, status, &why);
        good = fflush(stdout) == 0 && fprintf(answers, "%d\n", code) > 0 && fflush(answers) == 0;
    }
    c->files = NULL;
    if (!good)
        tc_fail(err, TC_IO, "standard output: cannot be written: %s", strerror(errno));
    if (answers != NULL)
        fclose(answers);
    return good ? TC_OK : TC_IO;
}

/* Runs any verb: check, compare and verify in this process, the scripts in child processes. */
static tc_status run(int argc, char **argv, tc_err *err)
{
    command c = { .places = { .workunits = WORKUNITS }, .verification = { .chance = 1 } };
    int code;
    tc_status status;

    while (strcmp(verbs[c.verb].name, argv[0]) != 0)
        c.verb++;
    return_if_error(read_command(argc, argv, &c, err));
    if (c.verb != SCRIPT_INIT && c.verb != SCRIPT_COMPARE) {
        return_if_error(check_files_exist(&c, err));
        if (c.places.accepted != NULL)
            return_if_error(wu_make_folder(c.places.accepted, err));
        if (c.places.accepted != NULL && !os_is_writable_folder(c.places.accepted))
            return tc_fail(err, TC_IO, "%.600s: cannot be written: %s", c.places.accepted,
                           strerror(errno));
        status = val_confine((os_place[]){ { c.files[0], OS_MAY_READ },
                                           { c.files[1], OS_MAY_READ },
                                           { c.places.accepted, OS_MAY_WRITE },
                                           { .may = OS_MAY_NOTHING } },
                             c.places.accepted != NULL ? OS_CALLS_MODIFY_FILES : 0, err);
        return status == TC_OK ? answer_question(&c, err) : status;
    }
    val_private_clean();
    if (c.many)
        return script_many(&c, err);
    return_if_error(answer_script(&c, &code, err));
    /* An error only if standard output could not be written. */
    const int output_code = tc_report_failure(PROGRAM, TC_OK, err);

    exit(code != 0 ? code : output_code); /* the child process has printed why */
}

static void describe_libraries(char *text, size_t size)
{
    wu_library_versions(text, size);
    val_describe_confinement(text, size);
}

int main(int argc, char **argv)
{
    static const tc_verb table[] = { { "check", run, NULL },          { "compare", run, NULL },
                                     { "verify", run, NULL },         { "script-init", run, NULL },
                                     { "script-compare", run, NULL }, { .name = NULL } };
    static const tc_program program = { PROGRAM, usage, table, describe_libraries, NULL, false };

    os_close_inherited();
    return tc_main(&program, argc, argv);
}
