/*
 * What script_validator does, by one process for many results: the scripts of --init_script and
 * --compare_script are started once, with --many, and asked a line for each result, or two
 * (texcell-validate --help). Linked with BOINC's validator by texcell_validator.mk.
 */
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boinc_db.h>
#include <error_numbers.h>
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

// Whatever is written of a unit is there, or nothing: BOINC's validator gives hosts and users their
// credit before it notes that a result is valid, and gave it twice when it was killed in between.
// It also waits for the disk once.
bool begun = false;

void begin()
{
    if (!begun && boinc_db.start_transaction() != 0) {
        log_messages.printf(MSG_CRITICAL, "no transaction can be begun\n");
        exit(1);
    }
    begun = true;
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

// The last that is written of a unit; the linker puts it in the place of BOINC's, for BOINC's
// validator alone.
#define UPDATE _ZN21DB_VALIDATOR_ITEM_SET15update_workunitER8WORKUNIT
#define JOIN(a, b) a##b
#define NAMED(a, b) JOIN(a, b)

extern "C" int NAMED(__real_, UPDATE)(DB_VALIDATOR_ITEM_SET *set, WORKUNIT &unit);
extern "C" int NAMED(__wrap_, UPDATE)(DB_VALIDATOR_ITEM_SET *set, WORKUNIT &unit)
{
    int retval = NAMED(__real_, UPDATE)(set, unit);

    if (retval == 0 && begun)
        retval = boinc_db.commit_transaction();
    if (retval != 0) {
        log_messages.printf(MSG_CRITICAL, "[WU#%lu] cannot be written: %d\n",
                            (unsigned long)unit.id, retval);
        exit(1); // with it all of the unit
    }
    begun = false;
    return 0;
}

int validate_handler_init(int argc, char **argv)
{
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
    // BOINC's remote job submission knows no credit: as texcell-submit has it, 200 for a day of 1
    // GFLOPS.
    if (g_wup != NULL && g_wup->canonical_credit == 0)
        g_wup->canonical_credit = g_wup->rsc_fpops_est * 200 / 86400e9;
    const int retval = add_file(result, files);
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
