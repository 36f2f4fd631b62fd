/*
 * texcell_validator, a validator for BOINC. BOINC's script_validator starts a script for each
 * result; this validator starts the scripts of --init_script and --compare_script once, with
 * --many, and writes a line to them for each result, or pair of results (texcell-validate --help).
 * texcell_validator.mk links this file with BOINC's validator.
 */
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <regex>
#include <string>
#include <vector>
#include <fcntl.h>
#include <mysql.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boinc_db.h>
#include <error_numbers.h>
#include <sched_config.h>
#include <sched_msgs.h>
#include <sched_util.h>
#include <validate_util.h>
#include <validate_util2.h>
#include <validator.h>

namespace
{

// A script in the project's folder bin that runs as a child process. For each line that it reads,
// it writes a line with an exit code.
class Script
{
  public:
    // Starts the script bin/NAME. Returns false if it cannot be started.
    bool set(const char *name)
    {
        path = std::string("../bin/") + name;
        return start();
    }

    bool is_set() const
    {
        return !path.empty();
    }

    // Sends these files (paths separated by tabs) to the script, and returns the exit code that it
    // answers. If the script has ended, which it should not, it is started once more.
    int ask(const std::string &files)
    {
        int code = 0;

        if (!read_answer(files, code) && !(start() && read_answer(files, code))) {
            log_messages.printf(MSG_CRITICAL, "%s does not answer\n", path.c_str());
            exit(1); // nothing was decided; bin/start --cron starts the validator again
        }
        return code;
    }

  private:
    std::string path;
    pid_t child = -1;
    FILE *script_input = NULL, *script_output = NULL;

    bool start()
    {
        int input_pipe[2], output_pipe[2];

        if (script_input != NULL) {
            fclose(script_input);
            fclose(script_output);
            script_input = script_output = NULL;
            waitpid(child, NULL, 0);
        }
        // O_CLOEXEC: the other script must not inherit these ends of the pipes, or this script's
        // input would stay open, and the script run on, after the end of this process.
        if (pipe2(input_pipe, O_CLOEXEC) != 0 || pipe2(output_pipe, O_CLOEXEC) != 0)
            return false;
        child = fork();
        if (child == 0) {
            signal(SIGPIPE, SIG_DFL);
            dup2(input_pipe[0], 0);
            dup2(output_pipe[1], 1);
            execl(path.c_str(), path.c_str(), "--many", (char *)NULL);
            _exit(127); // as a shell does if a command cannot be started
        }
        close(input_pipe[0]);
        close(output_pipe[1]);
        script_input = fdopen(input_pipe[1], "w");
        script_output = fdopen(output_pipe[0], "r");
        return child > 0 && script_input != NULL && script_output != NULL;
    }

    // Sends a line to the script, and sets `code` to its answer. Returns false if the script has
    // ended.
    bool read_answer(const std::string &files, int &code)
    {
        char line[32];

        return fprintf(script_input, "%s\n", files.c_str()) > 0 && fflush(script_input) == 0 &&
               fgets(line, sizeof line, script_output) != NULL && sscanf(line, "%d", &code) == 1;
    }
};

Script init, compare;

// --- statements for the database ----------------------------------------------------------------

// BOINC's validator gives hosts and users their credit before it records that a result is valid. It
// uses separate statements, logs statements that fail, and continues. So its statements are
// collected here, and executed in one transaction when the unit is decided. The transaction waits
// for the disk once. It changes rows in the same order for all units, to avoid deadlocks. If the
// database ends it because of another transaction, it is executed again.
unsigned long unit_id = 0;                   // the unit that is being decided; 0: none
std::vector<std::string> statements_of_unit; // the collected statements
MYSQL *connection = NULL;

RESULT last_result; // the last result, other than the canonical result, that init_result received
std::vector<RESULT> lost_results; // results of the unit that cannot be judged, since the server
                                  // lost their uploads or the canonical result's upload
int original_target = 0;          // the unit's target_nresults before BOINC's validator changed it
double restore_time = 0;          // when texcell-backup restored the database; 0: never
const char *const RESTORED = "../texcell/restored"; // the file with that time

enum { TRIES = 100 }; // how often a transaction is tried

// MariaDB's error numbers.
enum { LOCK_WAIT_TIMEOUT = 1205, DEADLOCK = 1213, DUPLICATE = 1062 };

bool begins_with(const std::string &text, const char *start)
{
    return text.compare(0, strlen(start), start) == 0;
}

// Returns a text that identifies the table and the row that a statement writes: "update TABLE where
// ...".
std::string row_of(const std::string &sql)
{
    const size_t where = sql.rfind(" where ");

    return sql.substr(0, sql.find(" set ")) + (where == std::string::npos ? "" : sql.substr(where));
}

// The order in which the statements of a transaction are executed: by table and row.
bool precedes(const std::string &a, const std::string &b)
{
    return row_of(a) < row_of(b);
}

// Changes a statement that sets host_app_version.consecutive_valid: if another validator has reset
// the value to 0 since this one read it, the statement must not undo that.
void preserve_reset(std::string &sql)
{
    const std::string column = "consecutive_valid=";
    const size_t at = sql.find(column);

    if (at == std::string::npos || !begins_with(sql, "update host_app_version "))
        return;
    const size_t start = at + column.size(), end = sql.find_first_not_of("0123456789", start);
    sql.replace(start, end - start,
                "LEAST(consecutive_valid+1, " + sql.substr(start, end - start) + ")");
}

// If a statement sets an average credit, changes it so that the database computes the average, by
// the formula of BOINC's update_average(), from the row as it is when the statement is executed:
// another validator may have added credit since this one read the row. A row without an average yet
// gets the value that BOINC computed.
void use_sql_average(std::string &sql)
{
    static const std::regex written("total(_credit|)=total\\1\\+([^,]*), expavg\\1=([^,]*), "
                                    "expavg_time=([^, ]*)");
    std::smatch m;
    char decay[200];

    if (!std::regex_search(sql, m, written))
        return;
    const std::string average = "expavg" + m.str(1), credit = m.str(2), now = m.str(4);
    snprintf(decay, sizeof decay, "GREATEST(%s-expavg_time, 0)*%.15e", now.c_str(),
             M_LN2 / CREDIT_HALF_LIFE);
    const std::string x = decay;
    // x is the decay exponent: ln 2 times the time passed / half-life. share is (1-exp(-x))/x,
    // whose limit is 1 if no time has passed.
    const std::string share = "IF(" + x + ">1e-6, (1-EXP(-(" + x + ")))/(" + x + "), 1)";
    snprintf(decay, sizeof decay, "%.15e", M_LN2 / CREDIT_HALF_LIFE * SECONDS_IN_DAY); // of one day
    sql = m.prefix().str() + "total" + m.str(1) + "=total" + m.str(1) + "+" + credit + ", " +
          average + "=IF(expavg_time>0, " + average + "*EXP(-(" + x + "))+(" + credit + ")*" +
          decay + "*" + share + ", " + m.str(3) + "), expavg_time=GREATEST(expavg_time, " + now +
          ")" + m.suffix().str();
}

// Begins to collect statements for the unit g_wup, unless it has begun.
void begin()
{
    if (unit_id == g_wup->id)
        return;
    unit_id = g_wup->id;
    original_target = g_wup->target_nresults;
    statements_of_unit.clear();
    lost_results.clear();
}

// Appends the paths of the result's files to `files`, separated by tabs. Returns 0, or BOINC's
// error code, or -1 if a path contains a line break, which the scripts cannot read.
int add_file(const RESULT &result, std::string &files)
{
    std::vector<std::string> paths;
    const int retval = get_output_file_paths(result, paths);

    if (retval != 0)
        return retval;
    if (!files.empty())
        files += '\t';
    for (size_t i = 0; i < paths.size(); i++)
        files += (i > 0 ? "\t" : "") + paths[i];
    return files.find('\n') == std::string::npos ? 0 : -1;
}

} // namespace

// The linker's --wrap makes BOINC's validator call the functions __wrap_... below instead of the
// database's functions and BOINC's update_workunit.
extern "C" int __real_mysql_query(MYSQL *mysql, const char *sql);
extern "C" int __wrap_mysql_query(MYSQL *mysql, const char *sql)
{
    const std::string text = sql;

    // Statistics of app versions are written at once: they do not affect credit, and BOINC checks
    // whether they were written.
    if (unit_id == 0 || begins_with(text, "update app_version ") ||
        (!begins_with(text, "update ") && !begins_with(text, "insert ")))
        return __real_mysql_query(mysql, sql);
    connection = mysql;
    statements_of_unit.push_back(text);
    preserve_reset(statements_of_unit.back());
    use_sql_average(statements_of_unit.back());
    return 0;
}

// For a collected statement BOINC gets 1, as if it had changed a row.
extern "C" my_ulonglong __real_mysql_affected_rows(MYSQL *mysql);
extern "C" my_ulonglong __wrap_mysql_affected_rows(MYSQL *mysql)
{
    return unit_id != 0 && !statements_of_unit.empty() ? 1 : __real_mysql_affected_rows(mysql);
}

// Executes the collected statements in a transaction. Returns 0, or MariaDB's error number of the
// statement that failed; then nothing is written.
static unsigned write_all()
{
    std::vector<std::string> statements = { "START TRANSACTION" };

    statements.insert(statements.end(), statements_of_unit.begin(), statements_of_unit.end());
    statements.push_back("COMMIT");
    for (const std::string &sql : statements) {
        if (__real_mysql_query(connection, sql.c_str()) == 0)
            continue;
        const unsigned error = mysql_errno(connection);
        if (error == DUPLICATE && begins_with(sql, "insert "))
            continue; // another validator has inserted the row
        log_messages.printf(MSG_NORMAL, "[WU#%lu] not written: %s\n", unit_id,
                            mysql_error(connection));
        __real_mysql_query(connection, "ROLLBACK");
        return error;
    }
    return 0;
}

// Writes the unit. If that fails, nothing is written, and this process exits; the validator that is
// started next decides on the unit again. (If the connection was lost, the COMMIT may have been
// executed.)
static void write_unit()
{
    std::stable_sort(statements_of_unit.begin(), statements_of_unit.end(), precedes);
    for (int i = 0; i < TRIES; i++) {
        const unsigned error = write_all();
        if (error == 0)
            return;
        if (error != DEADLOCK && error != LOCK_WAIT_TIMEOUT)
            break;
        usleep(1000 + random() % 20000); // 1 to 21 ms
    }
    log_messages.printf(MSG_CRITICAL, "[WU#%lu] cannot be written\n", unit_id);
    exit(1);
}

// The mangled name of DB_VALIDATOR_ITEM_SET::update_workunit, BOINC's last call for a unit.
#define UPDATE _ZN21DB_VALIDATOR_ITEM_SET15update_workunitER8WORKUNIT
// NAMED(a, UPDATE) is the name a followed by that mangled name.
#define JOIN(a, b) a##b
#define NAMED(a, b) JOIN(a, b)

extern "C" int NAMED(__real_, UPDATE)(DB_VALIDATOR_ITEM_SET *set, WORKUNIT &unit);
extern "C" int NAMED(__wrap_, UPDATE)(DB_VALIDATOR_ITEM_SET *set, WORKUNIT &unit)
{
    if (unit_id != unit.id) // no result of this unit was judged
        return NAMED(__real_, UPDATE)(set, unit);
    for (RESULT &result : lost_results) {
        // With these values the result counts neither as an error of the host nor as one of the
        // copies wanted, so that the transitioner makes another copy.
        result.outcome = RESULT_OUTCOME_CLIENT_DETACHED;
        result.validate_state = VALIDATE_STATE_NO_CHECK;
        set->update_result(result);
    }
    if (unit.canonical_resultid == 0 && (!lost_results.empty() || unit.error_mask != 0)) {
        unit.target_nresults = original_target;
        unit.transition_time = time(NULL);
    }
    const int retval = NAMED(__real_, UPDATE)(set, unit);
    if (retval == 0)
        write_unit();
    unit_id = 0;
    return retval;
}

// Returns whether a file does not exist in a folder that can be read.
static bool is_gone(const std::string &path)
{
    return access(path.c_str(), F_OK) != 0 && errno == ENOENT &&
           access(path.substr(0, path.rfind('/')).c_str(), R_OK | X_OK) == 0;
}

// Checks for faults that the scripts cannot see. Returns VAL_RESULT_TRANSIENT_ERROR if the result
// cannot be judged because of a fault of the server, else 0.
static int check_unit_files(const RESULT &result, const std::string &upload)
{
    char unit[4096];
    const std::string name = std::string(g_wup->name) + ".zip";

    if (result.sent_time < restore_time && is_gone(upload)) {
        log_messages.printf(MSG_NORMAL, "[RESULT#%lu %s] the server lost it\n",
                            (unsigned long)result.id, result.name);
        lost_results.push_back(last_result);
        return VAL_RESULT_TRANSIENT_ERROR;
    }
    if (dir_hier_path(name.c_str(), config.download_dir, config.uldl_dir_fanout, unit) == 0 &&
        is_gone(unit)) {
        log_messages.printf(MSG_CRITICAL, "%s: the work unit is missing\n", unit);
        return VAL_RESULT_TRANSIENT_ERROR;
    }
    return 0;
}

int validate_handler_init(int argc, char **argv)
{
    FILE *const file = fopen(RESTORED, "r");

    if (file != NULL) {
        if (fscanf(file, "%lf", &restore_time) != 1)
            restore_time = 0;
        fclose(file);
    }
    srandom(getpid());
    signal(SIGPIPE, SIG_IGN);
    for (int i = 1; i + 1 < argc; i++)
        if ((is_arg(argv[i], "init_script") && !init.set(argv[i + 1])) ||
            (is_arg(argv[i], "compare_script") && !compare.set(argv[i + 1])))
            return 1;
    if (init.is_set() && compare.is_set())
        return 0;
    log_messages.printf(MSG_CRITICAL, "--init_script and --compare_script are needed\n");
    return 1;
}

void validate_handler_usage()
{
    fprintf(stderr,
            "    --init_script NAME         in bin/, for texcell-validate script-init --many\n"
            "    --compare_script NAME      in bin/, for texcell-validate script-compare --many\n");
}

int init_result(const RESULT &result, void *&)
{
    std::string files;

    begin();
    if (result.id != g_wup->canonical_resultid)
        last_result = result;
    // Units of BOINC's remote job submission have no credit yet. They get as much as those of
    // texcell-submit: 200 for a day (86400 s) of 1 GFLOPS. Credit is rounded to a multiple of
    // 1/1024, at least 1/1024, so that all sums are exact.
    if (g_wup->canonical_credit == 0)
        g_wup->canonical_credit = g_wup->rsc_fpops_est * 200 / 86400e9;
    g_wup->canonical_credit = std::max(1.0, std::round(g_wup->canonical_credit * 1024)) / 1024;
    int retval = add_file(result, files);
    if (retval == 0)
        retval = check_unit_files(result, files);
    const int code = retval != 0 ? 0 : init.ask(files);

    if (code != 0)
        log_messages.printf(MSG_NORMAL, "[RESULT#%lu %s] init script: %d\n",
                            (unsigned long)result.id, result.name, code);
    // -1: the result is not valid.
    return retval != 0 ? retval : code == 0 || code == VAL_RESULT_TRANSIENT_ERROR ? code : -1;
}

int compare_results(RESULT &one, void *, const RESULT &other, void *, bool &match)
{
    std::string files;
    int retval = add_file(one, files);

    if (retval == 0)
        retval = add_file(other, files);
    if (retval != 0)
        return retval;
    const int code = compare.ask(files);
    match = code == 0;
    return code == VAL_RESULT_TRANSIENT_ERROR ? code : 0; // 0: `match` is set
}

int cleanup_result(const RESULT &, void *)
{
    return 0;
}

// The signatures that BOINC releases before 2026 call.
int init_result(RESULT &result, void *&data)
{
    return init_result(const_cast<const RESULT &>(result), data);
}

int compare_results(RESULT &one, void *mine, RESULT &other, void *its, bool &match)
{
    return compare_results(one, mine, const_cast<const RESULT &>(other), its, match);
}

int cleanup_result(RESULT &result, void *data)
{
    return cleanup_result(const_cast<const RESULT &>(result), data);
}
