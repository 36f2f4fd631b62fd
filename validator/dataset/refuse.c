/*
 * What the data set has besides the units: files that are kept, results that
 * were refused, work units that failed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/base/files.h"
#include "validator/check/val.h"
#include "validator/dataset/dataset.h"
#include "workunits/format/csv.h"
#include "workunits/format/new_file.h"

#define REFUSED "refused" /* the folder for them */

enum { COPY_NAME = 256 };

/* --- files ----------------------------------------------------------------------------------- */

tc_status val_keep_file(const char *from, const char *folder, const char *name, tc_err *err)
{
    val_copy copy = { .path = wu_path_in(folder, name, "") };
    wu_new_file out = { .file = NULL };
    uint64_t size;
    int in = -1;
    tc_status status = copy.path == NULL ? tc_no_memory(err, name) : wu_make_folder(folder, err);

    if (status == TC_OK)
        status = tc_open_regular(from, &in, &size, err);
    if (status == TC_OK)
        status = wu_new_file_open(copy.path, &out, err);
    if (status == TC_OK)
        status = val_copy_bytes(in, from, fileno(out.file), &copy, err);
    status = wu_new_file_close(&out, status, err);
    if (in >= 0)
        close(in);
    val_copy_free(&copy);
    return status == TC_BAD_INPUT ? TC_IO : status; /* it was there a moment ago */
}

/* --- refused results ------------------------------------------------------------------------- */

/* The name of a refused file's copy: with half of the SHA-256 of its bytes, so that two
 * of one name do not replace each other. */
static tc_status name_of_copy(const val_delivery *d, char name[COPY_NAME], tc_err *err)
{
    val_copy read;
    const tc_status status = val_read_upload(d->result, &read, err);

    /* Room for ".tmp" in the 255 bytes that file systems allow. */
    snprintf(name, COPY_NAME, "%.210s.%.32s", d->result_name, read.sha256);
    return status == TC_BAD_INPUT ? TC_IO
                                  : status; /* it was read a moment ago: the server's disk */
}

/* Keeps the file as *kept, "refused/NAME", in the folder; NULL where there is no
 * file. */
static tc_status keep_refused(const val_delivery *d, char **kept, tc_err *err)
{
    char name[COPY_NAME];
    char *folder;
    struct stat info;
    tc_status status;

    *kept = NULL;
    if (stat(d->result, &info) != 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? TC_OK
                   : tc_fail(err, TC_TRY_LATER, "%s: cannot read: %s", d->result, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return TC_OK;
    status = name_of_copy(d, name, err);
    if (status != TC_OK)
        return status;
    folder = wu_path_in(d->folder, REFUSED, "");
    *kept = wu_path_in(REFUSED, name, "");
    status =
        folder == NULL || *kept == NULL ? tc_no_memory(err, name) : wu_make_folder(d->folder, err);
    if (status == TC_OK)
        status = val_keep_file(d->result, folder, name, err);
    free(folder);
    return status;
}

tc_status val_refuse(const val_dataset *ds, const val_delivery *d, const char *kind,
                     const char *reason, char **kept, tc_err *err)
{
    /* Before the data set is locked: a copy without a row harms nobody, and is made once. */
    tc_status status = keep_refused(d, kept, err);

    if (status == TC_OK)
        status = val_begin(ds, err);
    if (status != TC_OK)
        return status;
    status =
        val_sql(ds, err,
                "INSERT OR IGNORE INTO refused(kind, reason, name, wu_id, result, kept, stored) "
                "VALUES(%Q, %Q, %Q, %lld, %Q, %Q, %Q)",
                kind, reason, d->name, (long long)d->wu_id, d->result_name, *kept, val_now().text);
    return val_end(ds, status, err);
}

/* --- failed work units ----------------------------------------------------------------------- */

tc_status val_record_failure(const val_dataset *ds, const val_failure *f, tc_err *err)
{
    /* BOINC's WU_ERROR_*, by bit. */
    static const char *const reasons[] = {
        "could not be sent", "too many errors", "too many results without agreement",
        "too many results",  "cancelled",       "no canonical result"
    };
    enum { N = sizeof reasons / sizeof reasons[0] };
    char text[256] = "";
    tc_status status = val_begin(ds, err);

    if (status != TC_OK)
        return status;
    for (size_t i = 0; i < N; i++)
        if (f->error_mask >> i & 1)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s",
                     text[0] == '\0' ? "" : ", ", reasons[i]);
    /* Said again with another mask, the last counts; the time stays the first. */
    status = val_sql(
        ds, err,
        "INSERT INTO failed(wu_id, name, batch, error_mask, reasons, stored) "
        "VALUES(%lld, %Q, %lld, %lld, %Q, %Q) ON CONFLICT DO UPDATE SET batch = excluded.batch, "
        "error_mask = excluded.error_mask, reasons = excluded.reasons",
        (long long)f->wu_id, f->name, (long long)f->batch, (long long)f->error_mask, text,
        val_now().text);
    return val_end(ds, status, err);
}
