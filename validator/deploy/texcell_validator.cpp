/*
 * What script_validator does, by one process for many results: the scripts of --init_script and
 * --compare_script are started once, with --many, and asked a line for each result, or two
 * (texcell-validate --help). Linked with BOINC's validator by texcell_validator.mk.
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

class Script
{
  public:
    bool set(const char *name)
    {
        path = std::string("../bin/") + name;
        return start();
    }

    bool is_set() const
    {
        return !path.empty();
    }

    // The exit code for these files. A script that has ended, which it never should, is started
    // once more.
    int ask(const std::string &files)
    {
        int code = 0;

        if (!answered(files, code) && !(start() && answered(files, code))) {
            log_messages.printf(MSG_CRITICAL, "%s does not answer\n", path.c_str());
            exit(1); // nothing was decided; bin/start --cron starts the validator again
        }
        return code;
    }

  private:
    std::string path;
    pid_t child = -1;
    FILE *to = NULL, *from = NULL;

    bool start()
    {
        int there[2], back[2];

        if (to != NULL) {
            fclose(to);
            fclose(from);
            to = from = NULL;
            waitpid(child, NULL, 0);
        }
        // No other script has an end of them: each ends with this process.
        if (pipe2(there, O_CLOEXEC) != 0 || pipe2(back, O_CLOEXEC) != 0)
            return false;
        child = fork();
        if (child == 0) {
            signal(SIGPIPE, SIG_DFL);
            dup2(there[0], 0);
            dup2(back[1], 1);
            execl(path.c_str(), path.c_str(), "--many", (char *)NULL);
            _exit(127);
        }
        close(there[0]);
        close(back[1]);
        to = fdopen(there[1], "w");
        from = fdopen(back[0], "r");
        return child > 0 && to != NULL && from != NULL;
    }

    bool answered(const std::string &files, int &code)
    {
        char line[32];

        return fprintf(to, "%s\n", files.c_str()) > 0 && fflush(to) == 0 &&
               fgets(line, sizeof line, from) != NULL && sscanf(line, "%d", &code) == 1;
    }
};

Script init, compare;

// --- what is written of a unit ------------------------------------------------------------------

// BOINC's validator gives hosts and users their credit before it notes that a result is valid, a
// statement at a time, logs what fails, and goes on. So its statements are collected, and written
// when the unit is decided: in one transaction, which waits for the disk once, the rows of all
// units in the same order, again whole where the database ends it for another's sake.
unsigned long unit_id = 0; // that is being decided; 0: none
std::vector<std::string> writes;
MYSQL *connection = NULL;

// The last result that was looked at to be judged, and those that cannot be, as the server lost
// their uploads or that of the canonical result, with which they are compared; and the copies that
// the unit is to have without them.
RESULT judged;
std::vector<RESULT> lost;
int target = 0;
double restored = 0; // when texcell-backup put the database back; 0: never
const char *const RESTORED = "../texcell/restored";

enum { TRIES = 100, LOCK_WAIT_TIMEOUT = 1205, DEADLOCK = 1213, DUPLICATE = 1062 };

bool begins_with(const std::string &text, const char *start)
{
    return text.compare(0, strlen(start), start) == 0;
}

// The table and the row that a statement writes.
std::string row_of(const std::string &sql)
{
    const size_t where = sql.rfind(" where ");

    return sql.substr(0, sql.find(" set ")) + (where == std::string::npos ? "" : sql.substr(where));
}

bool precedes(const std::string &a, const std::string &b)
{
    return row_of(a) < row_of(b);
}

// Another validator may have taken a host's trust away since this one read it.
void keep_distrust(std::string &sql)
{
    const std::string column = "consecutive_valid=";
    const size_t at = sql.find(column);

    if (at == std::string::npos || !begins_with(sql, "update host_app_version "))
        return;
    const size_t start = at + column.size(), end = sql.find_first_not_of("0123456789", start);
    sql.replace(start, end - start,
                "LEAST(consecutive_valid+1, " + sql.substr(start, end - start) + ")");
}

// BOINC's update_average() of the row as it is when it is written: another validator may have added
// to it since this one read it. What stands for a row without an average yet is BOINC's own.
void keep_average(std::string &sql)
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
    // (1-exp(-x))/x, which is 1 in the limit of no time that has passed.
    const std::string share = "IF(" + x + ">1e-6, (1-EXP(-(" + x + ")))/(" + x + "), 1)";
    snprintf(decay, sizeof decay, "%.15e", M_LN2 / CREDIT_HALF_LIFE * SECONDS_IN_DAY);
    sql = m.prefix().str() + "total" + m.str(1) + "=total" + m.str(1) + "+" + credit + ", " +
          average + "=IF(expavg_time>0, " + average + "*EXP(-(" + x + "))+(" + credit + ")*" +
          decay + "*" + share + ", " + m.str(3) + "), expavg_time=GREATEST(expavg_time, " + now +
          ")" + m.suffix().str();
}

void begin()
{
    if (unit_id == g_wup->id)
        return;
    unit_id = g_wup->id;
    target = g_wup->target_nresults;
    writes.clear();
    lost.clear();
}

// The result's one file behind what `files` has already. 0: it can be asked for.
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

// The linker puts these in the place of the database's and of BOINC's, for BOINC's validator alone.
extern "C" int __real_mysql_query(MYSQL *mysql, const char *sql);
extern "C" int __wrap_mysql_query(MYSQL *mysql, const char *sql)
{
    const std::string text = sql;

    // What is counted of app versions is no one's credit, and BOINC looks whether it was written.
    if (unit_id == 0 || begins_with(text, "update app_version ") ||
        (!begins_with(text, "update ") && !begins_with(text, "insert ")))
        return __real_mysql_query(mysql, sql);
    connection = mysql;
    writes.push_back(text);
    keep_distrust(writes.back());
    keep_average(writes.back());
    return 0;
}

extern "C" my_ulonglong __real_mysql_affected_rows(MYSQL *mysql);
extern "C" my_ulonglong __wrap_mysql_affected_rows(MYSQL *mysql)
{
    return unit_id != 0 && !writes.empty() ? 1 : __real_mysql_affected_rows(mysql);
}

// 0, or the database's number for what failed, and nothing is written.
static unsigned write_all()
{
    std::vector<std::string> statements = { "START TRANSACTION" };

    statements.insert(statements.end(), writes.begin(), writes.end());
    statements.push_back("COMMIT");
    for (const std::string &sql : statements) {
        if (__real_mysql_query(connection, sql.c_str()) == 0)
            continue;
        const unsigned error = mysql_errno(connection);
        if (error == DUPLICATE && begins_with(sql, "insert "))
            continue; // another has made the row
        log_messages.printf(MSG_NORMAL, "[WU#%lu] not written: %s\n", unit_id,
                            mysql_error(connection));
        __real_mysql_query(connection, "ROLLBACK");
        return error;
    }
    return 0;
}

// Of a unit of which not all can be written nothing is: the next validator decides on it. Where it
// is the connection that was lost, even the end may have been written.
static void write_unit()
{
    std::stable_sort(writes.begin(), writes.end(), precedes);
    for (int i = 0; i < TRIES; i++) {
        const unsigned error = write_all();
        if (error == 0)
            return;
        if (error != DEADLOCK && error != LOCK_WAIT_TIMEOUT)
            break;
        usleep(1000 + random() % 20000);
    }
    log_messages.printf(MSG_CRITICAL, "[WU#%lu] cannot be written\n", unit_id);
    exit(1);
}

// The last of a unit.
#define UPDATE _ZN21DB_VALIDATOR_ITEM_SET15update_workunitER8WORKUNIT
#define JOIN(a, b) a##b
#define NAMED(a, b) JOIN(a, b)

extern "C" int NAMED(__real_, UPDATE)(DB_VALIDATOR_ITEM_SET *set, WORKUNIT &unit);
extern "C" int NAMED(__wrap_, UPDATE)(DB_VALIDATOR_ITEM_SET *set, WORKUNIT &unit)
{
    if (unit_id != unit.id) // of which nothing else was to be decided
        return NAMED(__real_, UPDATE)(set, unit);
    for (RESULT &result : lost) {
        // Neither its host's error nor a copy that counts: the transitioner makes another.
        result.outcome = RESULT_OUTCOME_CLIENT_DETACHED;
        result.validate_state = VALIDATE_STATE_NO_CHECK;
        set->update_result(result);
    }
    if (unit.canonical_resultid == 0 && (!lost.empty() || unit.error_mask != 0)) {
        unit.target_nresults = target;
        unit.transition_time = time(NULL);
    }
    const int retval = NAMED(__real_, UPDATE)(set, unit);
    if (retval == 0)
        write_unit();
    unit_id = 0;
    return retval;
}

// Whether there is no such file in a folder that is there.
static bool is_gone(const std::string &path)
{
    return access(path.c_str(), F_OK) != 0 && errno == ENOENT &&
           access(path.substr(0, path.rfind('/')).c_str(), R_OK | X_OK) == 0;
}

// What BOINC knows and the scripts do not: VAL_RESULT_TRANSIENT_ERROR where nothing can be said of
// the result, and that is no fault of its host's; else 0.
static int look_at_unit(const RESULT &result, const std::string &upload)
{
    char unit[4096];
    const std::string name = std::string(g_wup->name) + ".zip";

    if (result.sent_time < restored && is_gone(upload)) {
        log_messages.printf(MSG_NORMAL, "[RESULT#%lu %s] the server lost it\n",
                            (unsigned long)result.id, result.name);
        lost.push_back(judged);
        return VAL_RESULT_TRANSIENT_ERROR;
    }
    if (dir_hier_path(name.c_str(), config.download_dir, config.uldl_dir_fanout, unit) == 0 &&
        is_gone(unit)) {
        log_messages.printf(MSG_CRITICAL, "%s: the work unit is not there\n", unit);
        return VAL_RESULT_TRANSIENT_ERROR;
    }
    return 0;
}

int validate_handler_init(int argc, char **argv)
{
    FILE *const file = fopen(RESTORED, "r");

    if (file != NULL) {
        if (fscanf(file, "%lf", &restored) != 1)
            restored = 0;
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
        judged = result;
    // BOINC's remote job submission knows no credit: as texcell-submit has it, 200 for a day of 1
    // GFLOPS. In parts of which all sums are exact: six digits before the point, ten behind it.
    if (g_wup->canonical_credit == 0)
        g_wup->canonical_credit = g_wup->rsc_fpops_est * 200 / 86400e9;
    g_wup->canonical_credit = std::max(1.0, std::round(g_wup->canonical_credit * 1024)) / 1024;
    int retval = add_file(result, files);
    if (retval == 0)
        retval = look_at_unit(result, files);
    const int code = retval != 0 ? 0 : init.ask(files);

    if (code != 0)
        log_messages.printf(MSG_NORMAL, "[RESULT#%lu %s] init script: %d\n",
                            (unsigned long)result.id, result.name, code);
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
    return code == VAL_RESULT_TRANSIENT_ERROR ? code : 0;
}

int cleanup_result(const RESULT &, void *)
{
    return 0;
}

// As releases before 2026 call them.
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
