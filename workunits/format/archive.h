/*
 * Reading an untrusted ZIP: the one place where work units and
 * results are decompressed. wu_archive_read lists and checks the members, and
 * wu_unzip reads them one after another.
 *
 * A ZIP says most things twice or three times, and readers differ in what they
 * believe. Here all of it must agree: the end record (and a ZIP64 one in front of
 * it), the list of members, the header in front of each member, the sizes and the
 * deflate streams. So no other program sees anything else in a file than texcell.
 *
 * What is refused: a file that is not a ZIP, is cut short or goes on after its
 * end; names that are not plain relative paths of printable ASCII; two members
 * of one name; encryption; methods other than store and deflate; sizes that the
 * compressed bytes cannot hold; members that share their bytes in the file; files
 * and members of 4 GiB or more.
 *
 * TC_BAD_INPUT is said of bytes alone. What the system cannot do now is
 * TC_TRY_LATER or TC_NO_MEMORY.
 */
#ifndef WU_ARCHIVE_H
#define WU_ARCHIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "app/base/poll.h"
#include "app/base/sha256.h"
#include "workunits/format/json_text.h"

/* Limits of every archive; FORMAT.md states them. */
#define WU_MAX_ARCHIVE ((uint64_t)0xfffffffe) /* bytes of the file, or of a member */
#define WU_MAX_MEMBERS ((uint64_t)1 << 20)
#define WU_MAX_MEMBER_NAME 512u                /* bytes */
#define WU_MAX_JSON ((uint64_t)64 << 20)       /* bytes of a JSON member */
#define WU_MAX_JSON_VALUES ((uint64_t)1 << 21) /* values in a JSON member */

typedef struct wu_member {
    char *name;
    bool is_folder;      /* the name ends with '/' and there are no data */
    uint64_t size;       /* bytes decompressed */
    uint32_t crc;        /* of the decompressed bytes */
    bool is_deflated;    /* or stored */
    uint64_t compressed; /* bytes in the file ... */
    uint64_t data;       /* ... and where they begin */
    uint32_t header;     /* bytes of the header in front of them; 0: it has an extra field */
    uint32_t header_crc; /* of the header; of none 0 */
} wu_member;

typedef struct wu_member_name {
    const char *name; /* the member's */
    size_t index;     /* of the member */
} wu_member_name;

typedef struct wu_archive {
    char *path;
    int fd; /* the file, open for as long as the archive is: always the same one */
    uint64_t file_size;
    bool is_plain; /* nothing in it but members, each described in the same way everywhere */
    bool has_plain_fields; /* versions, flags and attributes as texcell writes them */
    size_t n;
    wu_member *members;      /* in the archive's own order */
    wu_member_name *by_name; /* the same, sorted by name */
    const tc_poll *poll;     /* asked while it is read; NULL: none */
} wu_archive;

/* Lists and checks the archive at path, of up to max_members; no member is
 * decompressed yet. *out is the caller's; poll (may be NULL) must outlive it. TC_BAD_INPUT
 * with the file and the member at fault. */
tc_status wu_archive_read(const char *path, uint64_t max_members, const tc_poll *poll,
                          wu_archive **out, tc_err *err);
void wu_archive_destroy(wu_archive **archive);
/* The index of a member (folders are none), or -1. O(log n). */
long wu_archive_find(const wu_archive *archive, const char *name);
/* What of the file texcell would not have written, or NULL: there must be nothing
 * between and behind the members (comments, extra fields, gaps), and everything
 * that is said twice must be the same. Time stamps and compression are free. */
const char *wu_archive_untidy(const wu_archive *archive);
/* CRC-32 of the whole file, all of whose members are read to their ends, before or later: what is
 * stored is known by its own, and not read again. TC_BAD_INPUT if the file is shorter than it was.
 */
tc_status wu_archive_crc_of_read(const wu_archive *archive, uint32_t *crc, tc_err *err);
/* CRC-32 (crc may be NULL) and SHA-256 of the whole file, for which it is read. */
tc_status wu_archive_digest(const wu_archive *archive, uint32_t *crc, char sha256[TC_SHA256_TEXT],
                            tc_err *err);

typedef struct wu_unzip wu_unzip;

/* For reading members; the archive and the poll, which each read asks, must outlive it. One archive
 * may have several, in several threads, whose poll is NULL. TC_BAD_INPUT if the file has changed
 * its size since it was listed. */
tc_status wu_unzip_open(const wu_archive *archive, const tc_poll *poll, wu_unzip **out,
                        tc_err *err);
/* Turns to a member; the one before it need not have been read to its end. */
void wu_unzip_begin(wu_unzip *z, size_t index);
/* Reads up to n bytes. *n_read is 0 only at the end (or for n = 0), where size
 * and CRC have been checked, and that the compressed data end there. */
tc_status wu_unzip_read(wu_unzip *z, void *buf, size_t n, size_t *n_read, tc_err *err);
/* Reads what is left of the member, for the sake of its CRC. */
tc_status wu_unzip_drain(wu_unzip *z, tc_err *err);
/* Reads member `index` whole as JSON, an object without duplicate keys, within
 * the limits. *out is the caller's. Faults are given with line and column. */
tc_status wu_unzip_json(wu_unzip *z, size_t index, uint64_t max_bytes, uint64_t max_values,
                        json_t **out, tc_err *err);
const wu_archive *wu_unzip_archive(const wu_unzip *z);
void wu_unzip_close(wu_unzip **z);

#endif
