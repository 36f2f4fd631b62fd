/*
 * The functions of texcell-validate: check (is a result well-formed and possible?), compare (are
 * two results equal?), verify (do items give the same values when they are computed again?), and
 * the same for the scripts of BOINC's script_validator. All input is untrusted.
 */
#ifndef VAL_H
#define VAL_H

#include "app/analysis/analysis.h"
#include "app/base/os.h"
#include "app/base/sha256.h"

enum { VAL_MAX_MIB = 1 << 24 }; /* the largest value of --max-memory, in MiB */

/* How val_check uses the pixels of the work unit: which items it computes again, and with which
 * limits. */
typedef struct val_verification {
    bool blind;      /* only the pixels of items that are computed again are used */
    double fraction; /* share of the items that is computed again, at least one item. 0: only items
                        that are in doubt */
    double chance; /* probability that `fraction` is applied to a result at all: above 0, up to 1 */
    double alone;  /* replaces `fraction`, with chance 1, for a result of a submission with a quorum
                      of one */
    bool seeded;   /* the caller has set `seed`; otherwise val_draw_seed draws it */
    uint64_t seed; /* decides which items and pixels are chosen */
    unsigned threads;   /* >= 1 */
    double max_seconds; /* limit for computing items again; TC_TRY_LATER if it is exceeded. 0: there
                           is no limit */
    uint64_t max_memory; /* bytes for computing one item again, and for the rows of one item;
                            TC_NO_MEMORY if more are needed. 0: computing has no limit, and the
                            limit of rows is an_rows_bytes */
} val_verification;

/* Draws options->seed from the system's random numbers, unless `seeded`. Called after the result
 * has arrived, so that no host can know the seed beforehand. */
tc_status val_draw_seed(val_verification *options, tc_err *err);

/* Checks whether the file `result` is a result of the work unit as texcell writes them: identity,
 * analysis, parameters and items of the unit; exactly the arrays that the analysis gives; values
 * that are possible for the items. TC_BAD_INPUT: the message names the first fault. `verification`:
 * how the pixels are checked and which items are computed again (TC_NO_MATCH: an item gives other
 * values); NULL: neither is done. Prints to stdout what was computed again and, where `fraction` is
 * applied, the probability of catching a forger. Memory: one item at a time. */
tc_status val_check(const an_unit *unit, const char *result, const val_verification *verification,
                    tc_err *err);

/* Checks only the form of a result, not its values. Used for a work unit whose items' sizes are not
 * known. max_memory: bytes for the rows of an item; 0: AN_ROWS_BYTES (512 MiB). */
tc_status val_check_form(const an_unit *unit, const char *result, uint64_t max_memory, tc_err *err);

/* Compares the content of two results (not the bytes of the files). TC_NO_MATCH: it differs;
 * unless `quiet`, the first differences are printed to stdout, with array, item and feature.
 * TC_BAD_INPUT: a result is not well-formed. */
tc_status val_compare(const char *a, const char *b, bool quiet, tc_err *err);

/* The folders that script-init and script-compare use. */
typedef struct val_places {
    const char *workunits;  /* the work units, with or without the folders of BOINC's fan-out */
    const char *accepted;   /* records of accepted uploads and of their work units' SHA-256; NULL:
                               no records */
    const char *quarantine; /* refused uploads are moved here; NULL: they stay where they are */
    const char *alone;      /* has a file for each submission with a quorum of one; NULL: it is not
                               known which these are */
    const char *private;    /* private copies of uploads (val_private_folder) */
} val_places;

/* val_check and val_compare for the scripts that BOINC's script_validator calls. An upload's name
 * contains the name of its work unit. TC_TRY_LATER: the host that sent the file is not to blame,
 * since the file cannot be read now, or its work unit is not found. With places->accepted,
 * val_script_init records the upload as accepted, and val_script_compare requires that both uploads
 * were accepted.
 * *lasting is set to true if the work unit is missing from a folder that can be read, or is
 * damaged: waiting does not change that. */
tc_status val_script_init(const val_places *places, const char *result,
                          const val_verification *verification, bool *lasting, tc_err *err);
tc_status val_script_compare(const val_places *places, const char *a, const char *b, tc_err *err);
/* Returns whether the upload was lost when the server was restored from a backup: it does not
 * exist, and the folder `lost`, next to `accepted`, has a file with its result's name.
 * texcell-again --lost makes such a file for each result that hosts had at that time, since its
 * upload may have reached the old server. */
bool val_server_lost(const val_places *places, const char *result);
/* Returns whether both uploads are unchanged since they were accepted, and have the same bytes, so
 * that the results match and need not be compared. */
bool val_same_uploads(const val_places *places, const char *a, const char *b);

/* --- uploads (upload.c) ---------------------------------------------------------------------- */

/* The content of an upload when it was read; the upload itself may change later. */
typedef struct val_copy {
    char *path; /* path of the copy in the private folder; owned. NULL: no copy was made */
    uint64_t size;
    char sha256[TC_SHA256_TEXT];
} val_copy;

/* Makes a private folder for copies, in TMPDIR or /tmp. The caller owns *folder. The parent process
 * makes and removes it (val_private_remove, with all files in it), so that it is removed even if
 * the child process crashes. */
tc_status val_private_folder(char **folder, tc_err *err);
void val_private_remove(char **folder);
/* Removes this user's private folders that are older than a day; processes that were killed have
 * left them. */
void val_private_clean(void);
/* Removes the private folder's path from a message, so that it names the upload instead. */
void val_private_hide_path(const char *folder, char *message);
/* Copies an upload into `folder`, reading it once. val_copy_free must be called, also after a
 * failure. TC_BAD_INPUT: the upload is not a regular file. */
tc_status val_copy_upload(const char *folder, const char *upload, val_copy *out, tc_err *err);
void val_copy_free(val_copy *copy);
/* Copies the bytes of the open file `in` to the open file `out`; if out < 0, only reads them. from:
 * the name of `in` in messages. Sets copy->size and copy->sha256. */
tc_status val_copy_bytes(int in, const char *from, int out, val_copy *copy, tc_err *err);
/* Reads an upload without copying it: sets size and sha256, and path to NULL. */
tc_status val_read_upload(const char *upload, val_copy *out, tc_err *err);
/* Records in the folder `folder` (val_places.accepted) that an upload was accepted as `copy`. */
tc_status val_record_accepted(const char *folder, const char *upload, const val_copy *copy,
                              tc_err *err);
/* Checks whether the upload, now read as `copy`, is unchanged since it was accepted. TC_NO_MATCH:
 * it has changed. Sets *known to whether there is a record of the upload. */
tc_status val_check_accepted(const char *folder, const char *upload, const val_copy *copy,
                             bool *known, tc_err *err);
/* Sets job->file_sha256 like wu_job_compute_sha256. If folder (val_places.accepted) is not NULL,
 * the SHA-256 is recorded there, and computed only if the file has changed since it was
 * recorded. */
tc_status val_job_sha256(const char *folder, wu_job *job, tc_err *err);
/* Removes the records of this upload's work unit and of all its uploads. */
void val_remove_records(const char *folder, const char *upload);
/* Removes the records of the work unit with this name, and of all its uploads. */
void val_forget_unit(const char *folder, const char *workunit);
/* Moves a refused upload into a folder (which is made if necessary) that keeps the newest files, up
 * to 1,000 and 1 GiB; BOINC itself never deletes refused uploads. An upload that is not a regular
 * file is removed. After a failure the upload is unchanged. */
tc_status val_quarantine(const char *folder, const char *upload, tc_err *err);

/* The following functions are shared by the two scripts and texcell-assimilate. */

/* Runs work(user) in a child process, so that a crash is not counted as a fault of the file that is
 * read. file: the name of this file in messages. Sets *code to what `work` returned. Returns
 * TC_TRY_LATER if the signal *ended_by has ended the child or, with *ended_by 0, if no process
 * could be started. */
tc_status val_run_child(int (*work)(void *user), void *user, const char *file, int *code,
                        int *ended_by, tc_err *err);
/* Confines this process: from now on it can open nothing but these places (os_confine). calls:
 * OS_CALLS_... TC_TRY_LATER: it could not be confined. */
tc_status val_confine(const os_place *places, unsigned calls, tc_err *err);
/* The most elements, with the end, of the list that val_confine_uploads makes. */
enum { VAL_MAX_PLACES = 16 };
/* Confines this process to the folders of `places` (`accepted` is made if necessary), the n uploads
 * (at most 2) and their work units, and the places `more`, which ends with OS_MAY_NOTHING, or is
 * NULL. */
tc_status val_confine_uploads(const val_places *places, char *const *uploads, int n,
                              const os_place *more, unsigned calls, tc_err *err);
/* Appends to the text (a buffer of `size` bytes) whether files are read confined on this system. */
void val_describe_confinement(char *text, size_t size);
/* Checks whether an upload exists. TC_BAD_INPUT: its folder can be read and does not have it;
 * TC_TRY_LATER: it cannot be read now, such as when a disk is not mounted. */
tc_status val_check_exists(const char *path, tc_err *err);
/* Confirms a fault: `first` and `again` are the results of two checks, each of which has opened
 * and read the file anew. Returns `first` if it is TC_OK or both are equal; else TC_TRY_LATER,
 * since then the fault is the server's. */
tc_status val_confirm_fault(tc_status first, tc_status again, tc_err *err);
/* Returns the length of the work unit's name at the start of an upload's name, such as
 * WORKUNIT_0_r123_0. Returns 0 if this is not the name of an upload. */
size_t val_workunit_length(const char *name);
/* Finds the work unit's file of the upload `result` in `folder` or in one of its folders. The
 * caller owns *path. TC_BAD_INPUT: there is none; TC_TRY_LATER: the folders cannot be read now. */
tc_status val_find_workunit(const char *folder, const char *result, char **path, tc_err *err);

#endif
