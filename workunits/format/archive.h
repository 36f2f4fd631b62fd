/*
 * Reading a ZIP that a stranger made: the one place where work units and
 * results are unpacked. wu_archive_read lists and checks the members, and
 * wu_unzip reads them one after another. minizip does the unpacking; this adds
 * the checks that hostile input needs.
 *
 * What is refused: a file that is not a ZIP, is cut short or goes on after its
 * end; names that are not plain relative paths of printable ASCII; two members
 * of one name; encryption; methods other than store and deflate; sizes that the
 * packed bytes cannot hold; members that share their bytes in the file; files
 * and members of 4 GiB or more (minizip 1.1, as Debian has it, misreads the
 * ZIP64 sizes of members on 64-bit systems).
 */
#ifndef WU_ARCHIVE_H
#define WU_ARCHIVE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "app/base/status.h"

/* Limits of every archive; FORMAT.md states them. */
#define WU_MAX_ARCHIVE ((uint64_t)0xfffffffe)    /* bytes of the file, or of a member */
#define WU_MAX_MEMBERS ((uint64_t)1 << 20)
#define WU_MAX_MEMBER_NAME 512u                 /* bytes */
#define WU_MAX_JSON ((uint64_t)64 << 20)        /* bytes of a JSON member */
#define WU_MAX_JSON_VALUES ((uint64_t)1 << 21)  /* values in a JSON member */

typedef struct wu_member {
    char *name;
    bool is_folder;          /* the name ends with '/' and there are no data */
    uint64_t size;           /* bytes unpacked */
    uint32_t crc;            /* of the unpacked bytes */
    uint64_t directory_pos;  /* where minizip finds its entry ... */
    uint64_t directory_index;/* ... and which entry that is */
} wu_member;

typedef struct wu_member_name {
    const char *name;        /* the member's */
    size_t index;            /* of the member */
} wu_member_name;

typedef struct wu_archive {
    char *path;
    uint64_t file_size;
    uint64_t plain_size;     /* that the file has if there is nothing in it but members */
    size_t n;
    wu_member *members;      /* in the archive's own order */
    wu_member_name *by_name; /* the same, sorted by name */
} wu_archive;

/* Lists and checks the archive at path; no member is unpacked yet. *out is the
 * caller's. TC_BAD_INPUT with the file and the member at fault. */
tc_status wu_archive_read(const char *path, wu_archive **out, tc_err *err);
void wu_archive_destroy(wu_archive **archive);
/* The index of a member (folders are none), or -1. O(log n). */
long wu_archive_find(const wu_archive *archive, const char *name);

typedef struct wu_unzip wu_unzip;

/* Opens the file again to read members; the archive must outlive it.
 * TC_BAD_INPUT if the file has gone or changed its size since it was listed. */
tc_status wu_unzip_open(const wu_archive *archive, wu_unzip **out, tc_err *err);
/* Turns to a member; the one before it need not have been read to its end. */
tc_status wu_unzip_begin(wu_unzip *z, size_t index, tc_err *err);
/* Reads up to n bytes. *n_read is 0 only at the end (or for n = 0), where size
 * and CRC have been checked. */
tc_status wu_unzip_read(wu_unzip *z, void *buf, size_t n, size_t *n_read, tc_err *err);
/* Reads what is left of the member, for the sake of its CRC. */
tc_status wu_unzip_drain(wu_unzip *z, tc_err *err);
/* Reads member `index` whole as JSON, an object without duplicate keys. *out is
 * the caller's. Faults are given with line and column. */
tc_status wu_unzip_json(wu_unzip *z, size_t index, json_t **out, tc_err *err);
void wu_unzip_close(wu_unzip **z);

/* Text from a file made fit for a message: control and non-ASCII bytes become
 * '?', and long text is cut ("..."). Use: wu_quote(text).text. */
typedef struct wu_quoted {
    char text[132];
} wu_quoted;
wu_quoted wu_quote(const char *text);

/* CRC-32 and size of a whole file. TC_BAD_INPUT if it is not a regular file
 * that can be read. */
tc_status wu_file_crc(const char *path, uint32_t *crc, uint64_t *size, tc_err *err);

#endif
