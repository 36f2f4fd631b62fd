/*
 * Reads untrusted ZIP archives. All work units and results are decompressed here: wu_archive_read
 * lists and checks the members, and wu_unzip reads them.
 *
 * A ZIP contains most facts two or three times, and programs differ in which copy they use. Here
 * all copies must agree: those in the end record (and the ZIP64 end record before it), in the list
 * of members (central directory), in the header before each member's data (local header), and the
 * lengths of the deflate streams. So every other program finds the same contents in the file as
 * texcell.
 *
 * Rejected are: a file that is not a ZIP, is cut short or continues after its end; names that are
 * not plain relative paths of printable ASCII; two members with the same name; encryption; methods
 * other than store and deflate; sizes that the compressed bytes cannot have; members that overlap
 * in the file; files and members of 4 GiB or more.
 *
 * TC_BAD_INPUT is returned only because of the file's contents. Failures of the system are
 * TC_TRY_LATER or TC_NO_MEMORY.
 */
#ifndef WU_ARCHIVE_H
#define WU_ARCHIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "app/base/poll.h"
#include "app/base/sha256.h"
#include "workunits/format/json_text.h"

/* Limits of all archives, from FORMAT.md. */
#define WU_MAX_ARCHIVE ((uint64_t)0xfffffffe)  /* bytes of the file; also of a member */
#define WU_MAX_MEMBERS ((uint64_t)1 << 20)     /* number of members */
#define WU_MAX_MEMBER_NAME 512u                /* bytes of a member's name */
#define WU_MAX_JSON ((uint64_t)64 << 20)       /* bytes of a JSON member */
#define WU_MAX_JSON_VALUES ((uint64_t)1 << 21) /* values in a JSON member */

/* A member of an archive. */
typedef struct wu_member {
    char *name;
    bool is_folder;      /* the name ends with '/' and there are no data */
    uint64_t size;       /* number of decompressed bytes */
    uint32_t crc;        /* CRC-32 of the decompressed bytes */
    bool is_deflated;    /* false if the member is stored without compression */
    uint64_t compressed; /* bytes of the member's data in the file */
    uint64_t data;       /* offset of the member's data in the file */
    uint32_t header;     /* bytes of the local header; 0 if the header has an extra field */
    uint32_t header_crc; /* CRC-32 of the local header; 0 if `header` is 0 */
} wu_member;

/* An entry of the list of members that is sorted by name. */
typedef struct wu_member_name {
    const char *name; /* the member's name; not owned */
    size_t index;     /* the member's index */
} wu_member_name;

/* An open archive. */
typedef struct wu_archive {
    char *path;
    int fd; /* the file, which stays open, so that it cannot be replaced by another one */
    uint64_t file_size;
    bool is_plain; /* the file has nothing besides members, and each member's header is the same as
                      its entry in the list */
    bool has_plain_fields; /* versions, flags and attributes of all members are as texcell writes
                              them */
    size_t n;
    wu_member *members;      /* in the order of the archive's list */
    wu_member_name *by_name; /* sorted by name */
    const tc_poll *poll;     /* passed to tc_call_poll while the file is read; may be NULL */
} wu_archive;

/* Lists and checks the archive at `path` without decompressing its members. TC_BAD_INPUT: the
 * archive breaks a rule above, or has more than max_members members; the message names the file and
 * the member. Sets *out to the archive, to be freed by wu_archive_destroy. poll: may be NULL; must
 * outlive the archive. */
tc_status wu_archive_read(const char *path, uint64_t max_members, const tc_poll *poll,
                          wu_archive **out, tc_err *err);
void wu_archive_destroy(wu_archive **archive);
/* Returns the index of the member of this name, or -1 if there is none or it is a folder. Takes
 * O(log n) time. */
long wu_archive_find(const wu_archive *archive, const char *name);
/* Returns how the file differs from one that texcell writes, as the predicate of a sentence, or
 * NULL if it does not differ. The file must have nothing besides the members (no comments, extra
 * fields or gaps), and a member's header and its entry in the list must be the same. Time stamps
 * and compression are not compared. */
const char *wu_archive_form_fault(const wu_archive *archive);
/* Computes the CRC-32 of the whole file. Does not read stored members, but uses the CRCs in the
 * list of members. So the result is right only if all members are also read to their ends, before
 * or afterwards, which checks these CRCs. TC_BAD_INPUT: the file has become shorter. */
tc_status wu_archive_crc_of_read(const wu_archive *archive, uint32_t *crc, tc_err *err);
/* Reads the whole file and computes its CRC-32 (unless crc is NULL) and SHA-256. */
tc_status wu_archive_digest(const wu_archive *archive, uint32_t *crc, char sha256[TC_SHA256_TEXT],
                            tc_err *err);

/* Reads members one after another. */
typedef struct wu_unzip wu_unzip;

/* Makes a reader of members, *out, to be closed by wu_unzip_close. The archive and the poll must
 * outlive the reader. Several threads may read the same archive, each with a wu_unzip of its own.
 * poll: passed to tc_call_poll before each read; may be NULL. TC_BAD_INPUT: the size of the file
 * has changed since wu_archive_read. */
tc_status wu_unzip_open(const wu_archive *archive, const tc_poll *poll, wu_unzip **out,
                        tc_err *err);
/* Begins reading a member. The previous member need not have been read to its end. */
void wu_unzip_begin(wu_unzip *z, size_t index);
/* Reads up to n bytes of the member, and sets *n_read to their number. *n_read is 0 only if n is 0
 * or at the end of the member. In the latter case, the member's size, its CRC and the end of the
 * compressed data have been checked. */
tc_status wu_unzip_read(wu_unzip *z, void *buf, size_t n, size_t *n_read, tc_err *err);
/* Reads the rest of the member, to check its CRC. */
tc_status wu_unzip_drain(wu_unzip *z, tc_err *err);
/* Reads member `index` as JSON, which must be an object without duplicate keys, of at most
 * max_bytes bytes and max_values values. Sets *out to it; the caller owns the reference. Messages
 * state the line and column. */
tc_status wu_unzip_json(wu_unzip *z, size_t index, uint64_t max_bytes, uint64_t max_values,
                        json_t **out, tc_err *err);
const wu_archive *wu_unzip_archive(const wu_unzip *z);
void wu_unzip_close(wu_unzip **z);

#endif
