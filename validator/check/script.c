/*
 * Answers the questions of BOINC's script_validator, which calls the commands script-init and
 * script-compare in the project's folder tmp_HOST with the paths of uploads. An upload's name
 * contains the name of its work unit.
 */
#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/base/files.h"
#include "app/base/os.h"
#include "app/base/text.h"
#include "validator/check/val.h"
#include "workunits/format/csv.h"

/* --- files that cannot be read now ----------------------------------------------------------- */

/* Returns whether a file that cannot be found is lost: its folder can be read. If the folder cannot
 * be read, its disk may not be mounted. */
static bool is_lost(const char *path)
{
    char *const folder = tc_folder_of(path);
    const bool opens = folder != NULL && os_list(folder, NULL, NULL) == 0;

    free(folder);
    return opens;
}

/* Returns the error that a file cannot be read now. error: the value of errno. */
static tc_status fail_read(const char *path, int error, tc_err *err)
{
    return tc_fail(err, TC_TRY_LATER, "%.600s: cannot be read now: %s", path, strerror(error));
}

tc_status val_check_exists(const char *path, tc_err *err)
{
    const int fd = os_open(path, OS_READ);
    const int error = errno;

    if (fd < 0 && error == ENOENT && is_lost(path))
        return tc_fail(err, TC_BAD_INPUT, "%.600s: there is no such file", path);
    if (fd < 0)
        return fail_read(path, error, err);
    close(fd);
    return TC_OK;
}

tc_status val_confirm_fault(tc_status first, tc_status again, tc_err *err)
{
    assert(err != NULL);
    char found[TC_ERR_MAX];

    if (again == first || first == TC_OK)
        return first;
    snprintf(found, sizeof found, "%s", err->message);
    return tc_fail(err, TC_TRY_LATER, "%.700s; but not when it was read again", found);
}

/* --- the work unit of an upload -------------------------------------------------------------- */

/* If the name of *n characters ends with "_", `prefix` and digits, shortens *n by this ending.
 * Otherwise returns false, and changes nothing. */
static bool drop_number(const char *name, size_t *n, const char *prefix)
{
    const size_t length = strlen(prefix);
    size_t at = *n;

    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9')
        at--;
    if (at == *n || at < length + 1 || strncmp(name + at - length, prefix, length) != 0 ||
        name[at - length - 1] != '_')
        return false;
    *n = at - length - 1;
    return true;
}

/* BOINC names an upload WORKUNIT_RESULT_rRANDOM_FILE, where RESULT, RANDOM and FILE are numbers;
 * old servers leave out _rRANDOM. */
size_t val_workunit_length(const char *name)
{
    size_t n = strlen(name);

    if (!drop_number(name, &n, ""))
        return 0;
    drop_number(name, &n, "r");
    return drop_number(name, &n, "") ? n : 0;
}

/* If the file FOLDER/PART/NAME.zip exists, sets *path to its path, owned by the caller; else to
 * NULL. length: the length of NAME. */
static tc_status find_in_part(const char *folder, const char *part, const char *name, size_t length,
                              char **path, tc_err *err)
{
    const size_t size = strlen(folder) + strlen(part) + length + sizeof "//.zip";
    tc_status status = TC_OK;

    *path = malloc(size);
    if (*path == NULL)
        return tc_no_memory(err, "a file name");
    snprintf(*path, size, "%s/%s/%.*s.zip", folder, part, (int)length, name);
    if (access(*path, F_OK) == 0)
        return TC_OK;
    if (errno != ENOENT && errno != ENOTDIR)
        status = fail_read(*path, errno, err);
    free(*path);
    *path = NULL;
    return status;
}

/* The search for a work unit's file NAME.zip in the subfolders of a folder. */
typedef struct search {
    const char *folder, *name; /* `name` begins with NAME, */
    size_t length;             /* which has this length */
    char *path;                /* of the file; NULL until it is found */
    tc_status status;
    tc_err *err;
} search;

/* Looks for the file in an entry of the folder. Returns nonzero to end the search. A function for
 * os_list; user: a search. */
static int search_entry(void *user, const char *part, bool may_be_folder)
{
    search *const s = user;

    if (part[0] != '.' && may_be_folder)
        s->status = find_in_part(s->folder, part, s->name, s->length, &s->path, s->err);
    return s->status != TC_OK || s->path != NULL;
}

/* Searches the folder and its subfolders: BOINC distributes downloads over up to 1,024 of them by a
 * hash of the name. */
tc_status val_find_workunit(const char *folder, const char *result, char **path, tc_err *err)
{
    const char *const name = os_base_name(result);
    const size_t length = val_workunit_length(name);
    search s = { .folder = folder, .name = name, .length = length, .err = err };

    *path = NULL;
    if (length == 0)
        return tc_fail(err, TC_BAD_INPUT,
                       "%.600s: not the name of an upload (WORKUNIT_0_r123_0), so its work unit "
                       "cannot be found",
                       result);
    s.status = find_in_part(folder, ".", name, length, &s.path, err);
    if (s.status == TC_OK && s.path == NULL && os_list(folder, search_entry, &s) < 0) {
        if (errno == ENOENT)
            return tc_fail(err, TC_BAD_INPUT, "%.600s: there is no such folder", folder);
        return fail_read(folder, errno, err);
    }
    *path = s.path;
    if (s.status == TC_OK && s.path == NULL)
        return tc_fail(err, TC_BAD_INPUT,
                       "%.400s: the work unit %.*s.zip is not there, nor in its folders", folder,
                       length < 300 ? (int)length : 300, name);
    return s.status;
}

/* --- the two scripts ------------------------------------------------------------------------- */

/* Reads the work unit of a result. If it is missing or damaged, returns TC_TRY_LATER, since it is
 * the server's own file, and the result may be valid. *lasting: as in val_script_init. */
static tc_status read_workunit(const char *folder, const char *result, an_unit *unit, bool *lasting,
                               tc_err *err)
{
    char *path = NULL;
    tc_status status = val_find_workunit(folder, result, &path, err);

    if (status == TC_OK)
        status = an_unit_read_heads(path, unit, err);
    free(path);
    /* If the folder does not exist, its disk may be mounted later. */
    *lasting = *lasting || (status == TC_BAD_INPUT && os_kind_of(folder) == OS_FOLDER);
    return status == TC_BAD_INPUT ? TC_TRY_LATER : status;
}

/* Returns whether the upload's submission has a quorum of one. The name of a work unit is the
 * submission's name, which may be followed by "_" and a number. */
static bool is_alone(const char *folder, const char *result)
{
    const char *const name = os_base_name(result);
    size_t n = val_workunit_length(name);
    bool found = false;

    for (int attempt = 0; !found && n > 0 && attempt < 2; attempt++) {
        char *const submission = tc_strndup(name, n);
        char *const path = submission == NULL ? NULL : wu_join_path(folder, submission, "");

        found = path != NULL && os_kind_of(path) == OS_FILE;
        free(path);
        free(submission);
        if (!drop_number(name, &n, ""))
            break;
    }
    return found;
}

bool val_server_lost(const val_places *places, const char *result)
{
    const char *const name = os_base_name(result);
    char *const folder = places->accepted == NULL ? NULL : tc_folder_of(places->accepted);
    size_t n = strlen(name);
    char *copy = NULL, *path = NULL;
    bool lost = false;

    if (folder != NULL && drop_number(name, &n, "")) {
        drop_number(name, &n, "r");
        copy = tc_strndup(name, n);
        path = copy == NULL ? NULL : wu_join_path(folder, "lost/", copy);
        lost = path != NULL && os_kind_of(path) == OS_FILE &&
               val_check_exists(result, NULL) == TC_BAD_INPUT;
    }
    free(path);
    free(copy);
    free(folder);
    return lost;
}

/* Checks an upload as script-init does. identified: the folder of the records with the work units'
 * SHA-256, or NULL if the SHA-256 is to be computed. */
static tc_status check_upload(const val_places *places, const char *identified, const char *result,
                              const val_verification *verification, bool *lasting, tc_err *err)
{
    val_verification how = *verification;
    TC_AUTO(an_unit_free) an_unit unit = { .job = NULL };
    TC_AUTO(val_copy_free) val_copy copy = { .path = NULL };
    tc_status status = val_check_exists(result, err);

    if (status == TC_OK)
        status = val_copy_upload(places->private, result, &copy, err);
    if (status == TC_OK)
        status = read_workunit(places->workunits, result, &unit, lasting, err);
    if (status == TC_OK && val_job_sha256(identified, unit.job, err) != TC_OK)
        status = TC_TRY_LATER;
    if (places->alone != NULL && verification->alone > 0 && is_alone(places->alone, result)) {
        how.fraction = how.alone;
        how.chance = 1;
    }
    return_if_error(status);
    return_if_error(val_check(&unit, copy.path, &how, err));
    return places->accepted != NULL ? val_record_accepted(places->accepted, result, &copy, err)
                                    : TC_OK;
}

tc_status val_script_init(const val_places *places, const char *result,
                          const val_verification *verification, bool *lasting, tc_err *err)
{
    const tc_status status =
        check_upload(places, places->accepted, result, verification, lasting, err);
    val_verification same = *verification; /* for the second check, which confirms TC_BAD_INPUT */

    same.fraction = same.alone = 0; /* computing items again is not needed to confirm it */
    return status == TC_BAD_INPUT
               ? val_confirm_fault(status, check_upload(places, NULL, result, &same, lasting, NULL),
                                   err)
               : status;
}

/* Copies an upload, and checks that it is the file that was accepted. TC_TRY_LATER: it is another
 * file, which script-init has to check first. */
static tc_status copy_accepted(const val_places *places, const char *upload, val_copy *copy,
                               tc_err *err)
{
    bool known = true;
    tc_status status = val_check_exists(upload, err);

    if (status == TC_OK)
        status = val_copy_upload(places->private, upload, copy, err);
    if (status == TC_OK && places->accepted != NULL) {
        status = val_check_accepted(places->accepted, upload, copy, &known, err);
        if (status == TC_OK && !known)
            status = tc_fail(err, TC_TRY_LATER, "%.600s: there is no record that it was accepted",
                             upload);
        status = status == TC_NO_MATCH ? TC_TRY_LATER : status;
    }
    return status;
}

/* Compares two uploads as script-compare does. quiet: differences are not printed. */
static tc_status compare_uploads(const val_places *places, const char *a, const char *b, bool quiet,
                                 tc_err *err)
{
    val_copy one = { .path = NULL }, other = { .path = NULL };
    tc_status status = copy_accepted(places, a, &one, err);

    if (status == TC_OK)
        status = copy_accepted(places, b, &other, err);
    if (status == TC_OK)
        status = val_compare(one.path, other.path, quiet, err);
    val_copy_free(&one);
    val_copy_free(&other);
    return status;
}

tc_status val_script_compare(const val_places *places, const char *a, const char *b, tc_err *err)
{
    const tc_status status = compare_uploads(places, a, b, true /* quiet */, NULL);

    return status == TC_OK
               ? status
               : val_confirm_fault(compare_uploads(places, a, b, false, err), status, err);
}

bool val_same_uploads(const val_places *places, const char *a, const char *b)
{
    const char *const uploads[] = { a, b };
    val_copy read[2];                                    /* sizes and SHA-256 of the uploads */
    bool good = places->accepted != NULL, known = false; /* good: all files so far are accepted */

    for (int i = 0; good && i < 2; i++)
        good = val_read_upload(uploads[i], &read[i], NULL) == TC_OK &&
               val_check_accepted(places->accepted, uploads[i], &read[i], &known, NULL) == TC_OK &&
               known;
    return good && read[0].size == read[1].size && strcmp(read[0].sha256, read[1].sha256) == 0;
}
