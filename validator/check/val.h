/*
 * texcell-validate: is a result well-formed and possible (check), are two
 * results equal (compare), does the work, done again, give the same (verify).
 * All input is hostile.
 */
#ifndef VAL_H
#define VAL_H

#include "app/analysis/analysis.h"
#include "app/base/os.h"
#include "app/base/sha256.h"

enum { VAL_MAX_MIB = 1 << 24 }; /* that --max-memory may say */

/* Looking at the pixels of the work unit, and doing some of the items again on this machine. */
typedef struct val_verification {
    bool blind;      /* pixels are not looked at */
    double fraction; /* of the items: is computed again, at least one. 0: only what is in doubt */
    double chance;   /* that this is done to a result at all, above 0 up to 1 */
    double alone;  /* instead, of a result that is compared with no other; chance does not matter */
    bool seeded;   /* the seed is given; else val_seed draws it */
    uint64_t seed; /* which items and pixels */
    unsigned threads;    /* >= 1 */
    double max_seconds;  /* for computing; 0: any time. TC_TRY_LATER when it is over */
    uint64_t max_memory; /* bytes for computing one item, and for its rows; 0: any, and what is
                            planned for rows. TC_NO_MEMORY: more */
} val_verification;

/* Draws the seed from the system's randomness, unless it is given: when the result is there,
 * so that nobody can know it before. */
tc_status val_seed(val_verification *options, tc_err *err);

/* Whether `result` is a result of the work unit as texcell writes them: its
 * identity, analysis, parameters, items, the arrays that the analysis gives and
 * nothing else, with values that the items can give. TC_BAD_INPUT with the first
 * fault. With `verification` (or NULL) the items' pixels are looked at besides, and some items
 * computed again: TC_NO_MATCH if one gives something else. Prints seed, items and the
 * probability of catching a forger to stdout, where a fraction is given. Memory: one item's. */
tc_status val_check(const an_unit *unit, const char *result, const val_verification *verification,
                    tc_err *err);

/* The form alone, whatever the values are: for a work unit of which the sizes of
 * the items are not known. max_memory: bytes for the rows of an item; 0: half a GiB. */
tc_status val_check_form(const an_unit *unit, const char *result, uint64_t max_memory, tc_err *err);

/* Whether two results have equal content (not: equal bytes of the files).
 * TC_NO_MATCH: they have not; the first differences are printed to stdout, unless `quiet`,
 * named by array, item and feature. TC_BAD_INPUT: one is not well-formed. */
tc_status val_compare(const char *a, const char *b, bool quiet, tc_err *err);

/* Where the two scripts find and leave what. */
typedef struct val_places {
    const char *workunits;  /* the folder of the work units, with or without BOINC's fan-out */
    const char *accepted;   /* for records of what was accepted; NULL: there are none */
    const char *quarantine; /* for uploads that are refused; NULL: they stay */
    const char *alone;      /* has a file for each submission with a quorum of one; NULL: unknown */
    const char *private;    /* for copies, val_private_folder */
} val_places;

/* val_check and val_compare as scripts of BOINC's script_validator. TC_TRY_LATER
 * for what is no fault of the computer that sent the file: it cannot be read
 * now, or its work unit is not found; the name of the upload tells which one it is. What is
 * compared must be what was accepted. */
tc_status val_script_init(const val_places *places, const char *result,
                          const val_verification *verification, tc_err *err);
tc_status val_script_compare(const val_places *places, const char *a, const char *b, tc_err *err);
/* Whether the upload is not there and the folder `lost`, next to `accepted`, has a file with its
 * result's name: texcell-again --lost puts one there for each result that is out when the server is
 * restored, as the old server may have had its upload. */
bool val_server_lost(const val_places *places, const char *result);
/* Whether two uploads are what was accepted, and the same bytes: they match, and nothing else is to
 * be done. */
bool val_same_uploads(const val_places *places, const char *a, const char *b);

/* --- uploads (upload.c) ---------------------------------------------------------------------- */

/* An upload as it was when it was read. */
typedef struct val_copy {
    char *path; /* of the copy, within the private folder; owned */
    uint64_t size;
    char sha256[TC_SHA256_TEXT];
} val_copy;

/* Makes a folder for copies, in TMPDIR or /tmp. The process that starts the child process removes
 * it with all that is in it, whatever becomes of the child. */
tc_status val_private_folder(char **folder, tc_err *err);
void val_private_remove(char **folder);
/* Takes the folder out of a message: what is left is the upload's name. */
void val_private_hide(const char *folder, char *message);
/* Reads an upload once. val_copy_free also after a failure. TC_BAD_INPUT: it is no regular file. */
tc_status val_copy_upload(const char *folder, const char *upload, val_copy *out, tc_err *err);
void val_copy_free(val_copy *copy);
/* The bytes of an open file, of which messages say `from`, to the file `out`, or where that is
 * below 0 nowhere; copy->size and sha256 are what was read. */
tc_status val_copy_bytes(int in, const char *from, int out, val_copy *copy, tc_err *err);
/* The same without a copy: size and SHA-256. */
tc_status val_read_upload(const char *upload, val_copy *out, tc_err *err);
/* Records that an upload was accepted as it was copied. */
tc_status val_remember(const char *folder, const char *upload, const val_copy *copy, tc_err *err);
/* Whether it still is what was accepted: TC_NO_MATCH. *known: there is a record of it. */
tc_status val_recall(const char *folder, const char *upload, const val_copy *copy, bool *known,
                     tc_err *err);
/* Forgets the uploads of its work unit. */
void val_forget(const char *folder, const char *upload);
/* Takes a refused upload away from where BOINC never deletes it, into a folder (made if need be)
 * that keeps 1,000 files and 1 GiB, the newest. What is no file is removed. */
void val_quarantine(const char *folder, const char *upload);

/* What the two scripts and the assimilator's share. Runs work(user) in a process
 * of its own, so that a fault of this program does not count against the file it
 * stumbled over. *code is what work gave. TC_TRY_LATER with *ended_by: a signal
 * ended it. TC_TRY_LATER with 0: no process could be started. */
tc_status val_run_child(int (*work)(void *user), void *user, const char *file, int *code,
                        int *ended_by, tc_err *err);
/* From now on this process opens nothing but these places (os_confine). TC_TRY_LATER: that could
 * not be done. */
tc_status val_confine(const os_place *places, unsigned calls, tc_err *err);
/* The same with what uploads (n of them, up to 2) and their work units need, and the places'
 * folders, which are made if need be. more: places besides, or NULL. */
enum { VAL_PLACES = 16 };
tc_status val_confine_uploads(const val_places *places, char *const *uploads, int n,
                              const os_place *more, unsigned calls, tc_err *err);
/* Appends to the text whether files are closed off here. */
void val_say_confined(char *text, size_t size);
/* Whether an upload is there. TC_BAD_INPUT: it is not, in a folder that is;
 * TC_TRY_LATER: the server cannot tell. */
tc_status val_is_there(const char *path, tc_err *err);
/* A fault that was found in a file is believed if it is found again, in the file opened and
 * read anew: `again`. Else TC_TRY_LATER, since it is the server that is at fault. */
tc_status val_found_twice(tc_status first, tc_status again, tc_err *err);
/* Length of the work unit's name in the name of an upload, WORKUNIT_0_r123_0;
 * 0: it is not such a name. */
size_t val_workunit_length(const char *name);
/* Looks for the work unit of an upload. *path is the caller's. TC_BAD_INPUT: it is not
 * there; TC_TRY_LATER: the server cannot tell. */
tc_status val_find_workunit(const char *folder, const char *result, char **path, tc_err *err);

#endif
