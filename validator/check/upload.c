/*
 * Private copies of uploads, and records of accepted uploads. An upload may change, since BOINC
 * accepts a file again if a host sends it again. So an upload is read once, into a private copy,
 * and the SHA-256 of an accepted upload is recorded. The SHA-256 of a work unit's file is recorded,
 * too, as computing it takes longer than all other checks of a result.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "app/base/files.h"
#include "app/base/os.h"
#include "app/base/text.h"
#include "validator/check/val.h"
#include "workunits/format/archive.h"
#include "workunits/format/csv.h"

enum {
    BLOCK = 1 << 16,     /* bytes that are copied at a time */
    RECORD_MAX = 1 << 16 /* size of the buffer for the end of a record and a NUL */
};

/* --- private copies -------------------------------------------------------------------------- */

/* The beginning of the names of private folders. */
#define PRIVATE_PREFIX "texcell-"

/* Returns the folder in which private folders are made. */
static const char *private_place(void)
{
    const char *const place = getenv("TMPDIR");

    return place != NULL && place[0] != '\0' ? place : "/tmp";
}

tc_status val_private_folder(char **folder, tc_err *err)
{
    char name[40];
    uint64_t number;

    *folder = NULL;
    if (!os_random(&number, sizeof number))
        return tc_fail(err, TC_TRY_LATER, "the system provides no random numbers: %s",
                       strerror(errno));
    snprintf(name, sizeof name, PRIVATE_PREFIX "%016" PRIx64, number);
    *folder = wu_join_path(private_place(), name, "");
    if (*folder == NULL)
        return tc_no_memory(err, name);
    if (!os_make_private_folder(*folder)) /* fails if the folder exists; nobody can guess its name
                                             to make it beforehand */
        return tc_fail(err, TC_TRY_LATER, "%.600s: cannot be made: %s", *folder, strerror(errno));
    return TC_OK;
}

/* Removes a file of the folder. A function for os_list; user: the folder's path. */
static int remove_entry(void *user, const char *name, bool may_be_folder)
{
    char *const path = wu_join_path(user, name, "");

    (void)may_be_folder;
    if (path != NULL)
        unlink(path);
    free(path);
    return 0;
}

void val_private_remove(char **folder)
{
    if (*folder != NULL && os_list(*folder, remove_entry, *folder) == 0)
        rmdir(*folder);
    free(*folder);
    *folder = NULL;
}

/* Removes an entry of the folder if it is a private folder older than a day. A function for
 * os_list; user: the folder's path. */
static int clean_entry(void *user, const char *name, bool may_be_folder)
{
    enum { DAY = 86400 };
    static const char begin[] = PRIVATE_PREFIX;
    const size_t n = sizeof begin - 1;

    if (may_be_folder && strncmp(name, begin, n) == 0 && strlen(name) == n + 16 &&
        strspn(name + n, "0123456789abcdef") == 16)
        os_remove_old_folder(user, name, DAY);
    return 0;
}

void val_private_clean(void)
{
    char *const place = strdup(private_place());

    if (place != NULL)
        (void)os_list(place, clean_entry, place);
    free(place);
}

void val_private_hide_path(const char *folder, char *message)
{
    const size_t n =
        folder == NULL || message == NULL ? 0 : strlen(folder) + 1; /* with the slash */
    char *at;

    while (n > 0 && (at = strstr(message, folder)) != NULL && strlen(at) >= n)
        memmove(at, at + n, strlen(at + n) + 1);
}

tc_status val_copy_bytes(int in, const char *from, int out, val_copy *copy, tc_err *err)
{
    unsigned char *const block = malloc(BLOCK);
    tc_sha256 sum;
    size_t got = 1;
    tc_status status = block == NULL ? tc_no_memory(err, from) : TC_OK;

    tc_sha256_begin(&sum);
    while (status == TC_OK && got > 0) {
        status = tc_read_at(in, from, copy->size, block, BLOCK, &got, err);
        /* If out < 0, the bytes are only read, for their number and SHA-256. */
        if (status == TC_OK && out >= 0 && !tc_write_at(out, copy->size, block, got))
            status = tc_fail(err, TC_TRY_LATER, "%.600s: cannot be written: %s", copy->path,
                             strerror(errno));
        if (status == TC_OK) {
            tc_sha256_add(&sum, block, got);
            copy->size += got;
        }
    }
    tc_sha256_end(&sum, copy->sha256);
    free(block);
    return status;
}

tc_status val_copy_upload(const char *folder, const char *upload, val_copy *out, tc_err *err)
{
    uint64_t size = 0;
    int in = -1, to = -1;
    tc_status status;

    *out = (val_copy){ .path = wu_join_path(folder, os_base_name(upload), "") };
    status = out->path == NULL ? tc_no_memory(err, upload) : TC_OK;
    if (status == TC_OK)
        status = tc_open_regular(upload, &in, &size, err);
    if (status == TC_OK) {
        to = os_open(out->path, OS_OVERWRITE_PRIVATE);
        if (to < 0)
            status = tc_fail(err, TC_TRY_LATER, "%.600s: cannot be written: %s", out->path,
                             strerror(errno));
    }
    if (status == TC_OK)
        status = val_copy_bytes(in, upload, to, out, err);
    if (in >= 0)
        close(in);
    if (to >= 0)
        close(to);
    return status;
}

tc_status val_read_upload(const char *upload, val_copy *out, tc_err *err)
{
    uint64_t size = 0;
    int in = -1;
    tc_status status = tc_open_regular(upload, &in, &size, err);

    *out = (val_copy){ .path = NULL };
    if (status == TC_OK)
        status = val_copy_bytes(in, upload, -1, out, err);
    if (in >= 0)
        close(in);
    return status;
}

void val_copy_free(val_copy *copy)
{
    free(copy->path);
    copy->path = NULL;
}

/* --- records of work units and accepted uploads -----------------------------------------------
 *
 * Each work unit has a record, a file with a line for each accepted upload: SHA-256, size, name. A
 * record may also have a line about the work unit's own file. This line has the version of the work
 * unit's file (os_file_version) in place of the name; texcell-submit writes such lines, too. If
 * several lines are about one upload, the last line counts. Records are not synced to the disk:
 * after a power cut an upload may have no record, and is then checked again. */

/* Returns the path of a work unit's record, owned by the caller. name: its first n bytes are the
 * name of the work unit. Returns NULL if there is no memory. */
static char *record_path(const char *folder, const char *name, size_t n)
{
    char *const unit = tc_strndup(name, n);
    char *const path = unit == NULL ? NULL : wu_join_path(folder, unit, "");

    free(unit);
    return path;
}

/* Returns the path of the record of an upload's work unit, owned by the caller. Returns NULL if
 * there is no memory. */
static char *record_path_of_upload(const char *folder, const char *upload)
{
    const char *const name = os_base_name(upload);
    const size_t n = val_workunit_length(name);

    return record_path(folder, name, n > 0 ? n : strlen(name));
}

/* Reads the last RECORD_MAX - 1 bytes of a record, or all if it is shorter. Sets text to "" if
 * there is no record. */
static tc_status read_record(const char *path, char text[RECORD_MAX], tc_err *err)
{
    uint64_t size = 0;
    size_t got = 0;
    int fd = -1;
    tc_status status = tc_open_regular(path, &fd, &size, err);

    if (status == TC_OK)
        status = tc_read_at(fd, path, size < RECORD_MAX ? 0 : size - (RECORD_MAX - 1), text,
                            RECORD_MAX - 1, &got, err);
    if (fd >= 0)
        close(fd);
    text[status == TC_OK ? got : 0] = '\0';
    return status == TC_BAD_INPUT && os_kind_of(path) == OS_NOTHING ? TC_OK : status;
}

/* Returns the last line of a record (`text`) that ends with the name in `subject`, or NULL if there
 * is no such line. subject: the path of an upload, or the version of the work unit's own file. */
static const char *find_line(const char *text, const char *subject)
{
    const char *const name = os_base_name(subject), *last = NULL;
    const size_t n = strlen(name);

    for (const char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1)
        if ((size_t)(end - line) > n && strncmp(end - n, name, n) == 0 &&
            end[-1 - (ptrdiff_t)n] == ' ')
            last = line;
    return last;
}

/* Writes a line of a record into `out`, a buffer of `room` bytes. subject: as for find_line. */
static void write_line(const char sha256[TC_SHA256_TEXT], uint64_t size, const char *subject,
                       char *out, size_t room)
{
    snprintf(out, room, "%s %" PRIu64 " %s\n", sha256, size, os_base_name(subject));
}

/* Appends a line to the record `path` in `folder`. subject: as for find_line. Returns false, with
 * errno set, after a failure. */
static bool append_line(const char *folder, const char *path, const char sha256[TC_SHA256_TEXT],
                        uint64_t size, const char *subject)
{
    char line[600] = "\n"; /* ends a line that a crash of the system may have left incomplete */
    int fd = os_open(path, OS_APPEND);

    write_line(sha256, size, subject, line + 1, sizeof line - 1);
    if (fd < 0 && errno == ENOENT && wu_make_folder(folder, NULL) == TC_OK)
        fd = os_open(path, OS_APPEND);
    if (fd < 0)
        return false;
    /* Written by one call, since another validator may be writing to the same record. */
    const bool good = write(fd, line, strlen(line)) == (ssize_t)strlen(line);
    const int error = errno;

    close(fd);
    errno = error;
    return good;
}

tc_status val_record_accepted(const char *folder, const char *upload, const val_copy *copy,
                              tc_err *err)
{
    TC_AUTOFREE char *const path = record_path_of_upload(folder, upload);

    if (path == NULL)
        return tc_no_memory(err, upload);
    if (!append_line(folder, path, copy->sha256, copy->size, upload))
        return tc_fail(err, TC_TRY_LATER, "%.600s: cannot be written: %s", path, strerror(errno));
    return TC_OK;
}

tc_status val_check_accepted(const char *folder, const char *upload, const val_copy *copy,
                             bool *known, tc_err *err)
{
    char *const path = record_path_of_upload(folder, upload), *const text = malloc(RECORD_MAX);
    char want[600];
    const char *line = NULL;
    tc_status status =
        path == NULL || text == NULL ? tc_no_memory(err, upload) : read_record(path, text, err);

    if (status == TC_OK)
        line = find_line(text, upload);
    *known = line != NULL;
    write_line(copy->sha256, copy->size, upload, want, sizeof want);
    if (line != NULL && strncmp(line, want, strlen(want)) != 0)
        status = tc_fail(err, TC_NO_MATCH, "%.600s: has changed since it was accepted", upload);
    free(path);
    free(text);
    return status;
}

/* Returns the path of the record of a work unit, owned by the caller. Returns NULL if there is no
 * memory. */
static char *record_path_of_job(const char *folder, const wu_job *job)
{
    const char *const name = os_base_name(job->path), *const end = strrchr(name, '.');

    return record_path(folder, name,
                       end != NULL && end > name ? (size_t)(end - name) : strlen(name));
}

/* Sets job->file_sha256 from the line about this version of the file, if there is one. */
static void recall_unit(const char *record, const char *version, wu_job *job)
{
    TC_AUTOFREE char *const text = malloc(RECORD_MAX);
    const char *const line =
        text == NULL || read_record(record, text, NULL) != TC_OK ? NULL : find_line(text, version);

    if (line != NULL && strspn(line, "0123456789abcdef") == TC_SHA256_TEXT - 1)
        memcpy(job->file_sha256, line, TC_SHA256_TEXT - 1);
}

tc_status val_job_sha256(const char *folder, wu_job *job, tc_err *err)
{
    const int fd = job->archive->fd;
    char version[OS_VERSION_TEXT], after[OS_VERSION_TEXT];
    TC_AUTOFREE char *const record =
        folder != NULL && os_file_version(fd, version) ? record_path_of_job(folder, job) : NULL;

    if (record != NULL)
        recall_unit(record, version, job);
    if (job->file_sha256[0] != '\0')
        return TC_OK;
    return_if_error(wu_job_compute_sha256(job, err));
    if (record != NULL && os_file_version(fd, after) && strcmp(version, after) == 0)
        /* If it cannot be written, the next result's check computes the SHA-256 again. */
        (void)append_line(folder, record, job->file_sha256, job->file_size, version);
    return TC_OK;
}

/* Removes a record, and frees its path, which may be NULL. */
static void remove_record(char *path)
{
    if (path != NULL)
        unlink(path);
    free(path);
}

/* The record of the upload's work unit has the lines of all uploads of this work unit. */
void val_remove_records(const char *folder, const char *upload)
{
    remove_record(record_path_of_upload(folder, upload));
}

/* Does the same as val_remove_records, but for the name of a work unit. */
void val_forget_unit(const char *folder, const char *workunit)
{
    const char *const name = os_base_name(workunit);

    remove_record(record_path(folder, name, strlen(name)));
}

/* --- refused uploads -------------------------------------------------------------------------- */

/* The most files, and the most bytes, that the quarantine folder keeps. */
enum { MOST_REFUSED = 1000 };
static const uint64_t most_refused_bytes = (uint64_t)1 << 30;

/* The number and bytes of the files in a folder, and the oldest file. */
typedef struct file_count {
    const char *folder;
    char *oldest; /* path of the oldest file; owned */
    time_t time;  /* when this file was last changed */
    uint64_t bytes;
    size_t files;
} file_count;

/* Adds an entry of the folder to the count. A function for os_list; user: a file_count. */
static int count_file(void *user, const char *name, bool may_be_folder)
{
    file_count *const count = user;
    char *const path = wu_join_path(count->folder, name, "");
    struct stat info;

    (void)may_be_folder;
    if (path == NULL || os_kind_of_link(path) != OS_FILE || stat(path, &info) != 0) {
        free(path);
        return 0;
    }
    count->files++;
    count->bytes += (uint64_t)info.st_size;
    if (count->oldest != NULL && count->time <= info.st_mtime) {
        free(path);
        return 0;
    }
    free(count->oldest);
    count->oldest = path;
    count->time = info.st_mtime;
    return 0;
}

/* Removes the oldest files until the folder has at most MOST_REFUSED files and most_refused_bytes.
 */
static void delete_excess_files(const char *folder)
{
    bool over = true;

    while (over) {
        file_count count = { .folder = folder };

        over = os_list(folder, count_file, &count) == 0 &&
               (count.files > MOST_REFUSED || count.bytes > most_refused_bytes) &&
               count.oldest != NULL && unlink(count.oldest) == 0;
        free(count.oldest);
    }
}

/* Moves an upload into a folder on another disk, where rename is not possible: copies it, then
 * removes the original. path: the new path of the file. */
static tc_status move_by_copying(const char *folder, const char *upload, const char *path,
                                 tc_err *err)
{
    val_copy copy = { .path = NULL };

    unlink(path);
    const tc_status status = val_copy_upload(folder, upload, &copy, err);
    (void)unlink(status == TC_OK ? upload : path);
    val_copy_free(&copy);
    return status;
}

tc_status val_quarantine(const char *folder, const char *upload, tc_err *err)
{
    const os_kind kind = os_kind_of_link(upload);
    TC_AUTOFREE char *const path = wu_join_path(folder, os_base_name(upload), "");

    if (path == NULL)
        return tc_no_memory(err, upload);
    if (kind == OS_NOTHING)
        return TC_OK;
    if (kind != OS_FILE) {
        remove(upload);
        return TC_OK;
    }
    return_if_error(wu_make_folder(folder, err));
    if (rename(upload, path) != 0) {
        if (errno != EXDEV)
            return tc_fail(err, TC_TRY_LATER, "%.500s: cannot be moved to %.400s: %s", upload,
                           folder, strerror(errno));
        return_if_error(move_by_copying(folder, upload, path, err));
    }
    delete_excess_files(folder);
    return TC_OK;
}
