/* Reads untrusted ZIP archives. */
#include "config.h"

#include "workunits/format/archive.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#ifdef HAVE_LIBDEFLATE
#include <libdeflate.h>
#endif

#include "app/base/array.h"
#include "app/base/crc32.h"
#include "app/base/files.h"

/* The most bytes that one byte of deflate data can decompress to: at best two bits become 258
 * bytes. FORMAT.md and png_io.c use the same bound. */
#define MAX_DEFLATE_RATIO 1032u

enum {
    CHUNK = 1 << 16,      /* bytes of a member that are read from the file at a time */
    LIST_CHUNK = 1 << 14, /* bytes of the list of members that are read at a time */
    /* Limits of inflate_rest, which decompresses a member in one call: */
    MAX_WHOLE = 64 << 20, /* the most bytes of a member of which no byte has been returned */
    MAX_REST = 4 << 20,   /* the most bytes of a member of which bytes have been returned; also the
                             most compressed bytes of any member */
    MAX_RETURNED = 1 << 10, /* the most bytes that may have been returned before */
    PADDING = 64, /* bytes after a member that libdeflate may read: it copies byte by byte what the
                     last bytes of its input stand for, which can be kilobytes of labels */
    /* Bits of a member's flags: */
    FLAG_ENCRYPTED = 0x0001,
    FLAG_DESCRIPTOR = 0x0008,
    FLAG_STRONG_ENCRYPTION = 0x0040,
    FLAG_MASKED_DIRECTORY = 0x2000,
    PLAIN_VERSION = 20, /* 10 times the version of ZIP that a reader of texcell's members needs */
    LOCAL_HEADER = 30,  /* bytes of a member's local header, without name and extra field */
    ENTRY = 46,         /* bytes of an entry in the list, without name, extra field and comment */
    SHARED = 26, /* bytes of the fields that local headers and entries have in common: from byte 4
                    of a local header on, from byte 6 of an entry on */
    END_RECORD = 22,       /* bytes of the end record, without the comment */
    END64 = 56,            /* bytes of the ZIP64 end record, which archives of many members have */
    LOCATOR = 20,          /* bytes of the ZIP64 locator between ZIP64 end record and end record */
    MAX_COMMENT = 0xffff,  /* the most bytes of the comment after the end record */
    COUNT_UNKNOWN = 0xffff /* the end record's count of members if there are 65535 or more */
};

/* A reader of members. A deflated member is decompressed by z. */
struct wu_unzip {
    const wu_archive *archive;
    const tc_poll *poll; /* passed to tc_call_poll before every read */
    z_stream z;
    bool in_member;      /* a member is being read: the following fields are about this member */
    size_t index;        /* index of the member */
    uint64_t n_returned; /* number of the member's bytes that have been returned */
    uint64_t taken;      /* number of the member's compressed bytes that have been read */
    bool ended;          /* the member's deflate stream has ended */
    uint32_t crc;        /* CRC of the bytes returned so far or, if the member is stored without
                            compression, of the bytes read from the file so far */
#ifdef HAVE_LIBDEFLATE
    struct libdeflate_decompressor *inflater; /* NULL until inflate_rest needs it */
#endif
    /* Buffer for bytes of the member as they are in the file, with room for PADDING bytes */
    unsigned char compressed[CHUNK + PADDING];
};

/* --- the file as a whole --------------------------------------------------------------------- */

static tc_status refuse_changed(const wu_archive *a, tc_err *err)
{
    return tc_fail(err, TC_BAD_INPUT, "%s: the file has changed since it was checked", a->path);
}

/* Reads exactly n bytes from the offset `at` on. TC_BAD_INPUT: the file has become shorter since it
 * was opened. */
static tc_status read_at(const wu_archive *a, uint64_t at, void *buf, size_t n, tc_err *err)
{
    size_t got;
    const tc_status status = tc_read_at(a->fd, a->path, at, buf, n, &got, err);
    return status == TC_OK && got < n ? refuse_changed(a, err) : status;
}

/* Adds bytes [from, to) of the file to *crc and to sha256; either may be NULL. */
static tc_status add_to_digests(const wu_archive *a, uint64_t from, uint64_t to, uint32_t *crc,
                                tc_sha256 *sha256, tc_err *err)
{
    unsigned char *const buf = malloc(CHUNK);
    tc_status status = buf == NULL ? tc_no_memory(err, "a read buffer") : TC_OK;
    for (uint64_t at = from; status == TC_OK && at < to; at += CHUNK) {
        const size_t n = to - at < CHUNK ? (size_t)(to - at) : CHUNK;
        status = read_at(a, at, buf, n, err);
        if (crc != NULL)
            *crc = tc_crc32(*crc, buf, n);
        if (status == TC_OK && sha256 != NULL)
            tc_sha256_add(sha256, buf, n);
        status = status == TC_OK ? tc_call_poll(a->poll, err) : status;
    }
    free(buf);
    return status;
}

/* Reads only the bytes around stored members, whose CRCs are known, and combines all CRCs. at: the
 * offset up to which *crc is complete. */
tc_status wu_archive_crc_of_read(const wu_archive *a, uint32_t *crc, tc_err *err)
{
    uint64_t at = 0;
    tc_status status = TC_OK;
    *crc = 0;
    for (size_t i = 0; status == TC_OK && i < a->n; i++) {
        const wu_member *const m = &a->members[i];
        if (m->is_folder || m->is_deflated || m->compressed > INT32_MAX || m->data < at)
            continue; /* the bytes of this member are read together with the next gap */
        /* Whether nothing but the local header lies between `at` and the data. */
        if (m->data - at == m->header)
            *crc = (uint32_t)crc32_combine(*crc, m->header_crc, (z_off_t)m->header);
        else
            status = add_to_digests(a, at, m->data, crc, NULL, err);
        *crc = (uint32_t)crc32_combine(*crc, m->crc, (z_off_t)m->compressed);
        at = m->data + m->compressed;
    }
    return status == TC_OK ? add_to_digests(a, at, a->file_size, crc, NULL, err) : status;
}

tc_status wu_archive_digest(const wu_archive *a, uint32_t *crc, char sha256[TC_SHA256_TEXT],
                            tc_err *err)
{
    tc_sha256 sum;
    if (crc != NULL)
        *crc = 0;
    tc_sha256_begin(&sum);
    const tc_status status = add_to_digests(a, 0, a->file_size, crc, &sum, err);
    tc_sha256_end(&sum, sha256);
    return status;
}

/* Rejects a file that does not begin with the local header of a ZIP member. */
static tc_status check_head(const wu_archive *a, tc_err *err)
{
    unsigned char head[4];
    size_t n;
    return_if_error(tc_read_at(a->fd, a->path, 0, head, sizeof head, &n, err));
    if (n == 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: the file is empty", a->path);
    if (n == 4 && memcmp(head, "PK\5\6", 4) == 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: the ZIP archive has no members", a->path);
    if (n == 4 && (memcmp(head, "\x89PNG", 4) == 0 || memcmp(head, "\xff\xd8\xff", 3) == 0 ||
                   memcmp(head, "II*", 4) == 0 || memcmp(head, "MM\0*", 4) == 0))
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: a picture, not a work unit or result: see texcell-wu analyse --help",
                       a->path);
    if (n < 4 || memcmp(head, "PK\3\4", 4) != 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: not a ZIP archive", a->path);
    if (a->file_size > WU_MAX_ARCHIVE)
        return tc_fail(err, TC_BAD_INPUT, "%s: larger than 4 GiB", a->path);
    return TC_OK;
}

/* The unsigned little-endian number in the n bytes at p. The functions below read the fields of
 * ZIP's records with it; their offsets and lengths are in PKWARE's APPNOTE.TXT, section 4.3. */
static uint64_t read_little_endian(const unsigned char *p, unsigned n)
{
    uint64_t value = 0;
    while (n-- > 0)
        value = value << 8 | p[n];
    return value;
}

/* The position of the list of members, from the records at the end of the file. */
typedef struct directory {
    uint64_t begin, end; /* offsets in the file */
    uint64_t count;      /* number of members */
    bool is_plain;       /* the archive has no comment */
    bool has_zip64;      /* there is a ZIP64 end record */
} directory;

/* Reads the ZIP64 end record and its locator, which must be directly before the end record at the
 * offset `at`. Some programs find the ZIP64 end record by the locator, others by its position, and
 * some use it only if a number does not fit into the end record. So locator, position and both
 * records must agree, or the function returns false. tail: as in read_end. */
static bool read_zip64(const unsigned char *tail, uint64_t at, directory *d)
{
    const unsigned char *const record = tail, *const locator = tail + END64,
                               *const end = locator + LOCATOR;
    const uint64_t count = read_little_endian(record + 32, 8),
                   old_count = read_little_endian(end + 10, 2);
    const uint64_t size = read_little_endian(record + 40, 8),
                   begin = read_little_endian(record + 48, 8);
    const uint64_t record_at = at - LOCATOR - END64;
    if (read_little_endian(locator + 4, 4) != 0 ||
        read_little_endian(locator + 8, 8) != record_at || read_little_endian(locator + 16, 4) != 1)
        return false;
    /* The record's field for its own size does not count the 12 bytes up to this field. */
    if (memcmp(record, "PK\6\6", 4) != 0 || read_little_endian(record + 4, 8) != END64 - 12 ||
        read_little_endian(record + 16, 8) != 0 || read_little_endian(record + 24, 8) != count)
        return false;
    if (old_count != COUNT_UNKNOWN && old_count != count)
        return false;
    if (read_little_endian(end + 12, 4) != size || read_little_endian(end + 16, 4) != begin ||
        begin + size != record_at)
        return false;
    *d = (directory){ .begin = begin, .end = record_at, .count = count, .has_zip64 = true };
    return true;
}

/* Reads the end record at the offset `at`, which is followed by a comment of `comment` bytes. tail:
 * the bytes of the file from END64 + LOCATOR bytes before the end record on; bytes before the
 * beginning of the file are zeros. Returns false if something is inconsistent. */
static bool read_end(const unsigned char *tail, uint64_t at, uint64_t comment, directory *d)
{
    const unsigned char *const end = tail + END64 + LOCATOR;
    const uint64_t size = read_little_endian(end + 12, 4), begin = read_little_endian(end + 16, 4);
    if (read_little_endian(end + 4, 4) != 0 || read_little_endian(end + 20, 2) != comment ||
        read_little_endian(end + 8, 2) != read_little_endian(end + 10, 2))
        return false;
    if (memcmp(tail + END64, "PK\6\7", 4) == 0)
        return read_zip64(tail, at, d);
    *d = (directory){ .begin = begin, .end = at, .count = read_little_endian(end + 8, 2) };
    return begin + size == at; /* the list ends where the end record begins */
}

/* Finds the list of members by the last end record in the file, as other programs do. The file must
 * end with this record and its comment. */
static tc_status find_directory(const wu_archive *a, directory *d, tc_err *err)
{
    enum {
        BEFORE = END64 + LOCATOR, /* bytes in front of the end record that are read */
        MOST = BEFORE + END_RECORD + MAX_COMMENT /* the most bytes that are read */
    };
    unsigned char *const tail = calloc(1, BEFORE + MOST);
    if (tail == NULL)
        return tc_no_memory(err, "the end of an archive");
    const size_t n = a->file_size < MOST ? (size_t)a->file_size : MOST;
    unsigned char *const read = tail + BEFORE; /* preceded by zeros */
    tc_status status = read_at(a, a->file_size - n, read, n, err);
    size_t at = n < END_RECORD ? 0 : n - END_RECORD;
    while (at > 0 && memcmp(read + at, "PK\5\6", 4) != 0)
        at--;
    if (status == TC_OK &&
        (at == 0 || !read_end(read + at - BEFORE, a->file_size - n + at, n - at - END_RECORD, d)))
        status =
            tc_fail(err, TC_BAD_INPUT,
                    "%s: the ZIP archive is truncated or damaged: it does not end with a valid end "
                    "record",
                    a->path);
    d->is_plain = n - at == END_RECORD;
    free(tail);
    return status;
}

/* --- the list of members --------------------------------------------------------------------- */

/* Returns why a member must not have this name, or NULL if the name is valid. texcell never uses
 * the name as a path, but programs that unpack the same file do. */
static const char *name_fault(const char *name, size_t length)
{
    if (length == 0)
        return "its name is empty";
    if (length > WU_MAX_MEMBER_NAME)
        return "its name is too long";
    for (size_t i = 0; i < length; i++) {
        const unsigned char c = (unsigned char)name[i];
        if (c < 0x20 || c >= 0x7f)
            return "its name has characters that are not printable ASCII";
        if (c == '\\')
            return "its name has a backslash";
    }
    if (name[0] == '/')
        return "its name is an absolute path";
    if (length >= 2 && name[1] == ':')
        return "its name begins with a drive letter";
    for (const char *part = name; part != NULL;) {
        const char *slash = strchr(part, '/');
        const size_t n = slash != NULL ? (size_t)(slash - part) : strlen(part);
        if ((n == 1 && part[0] == '.') || (n == 2 && memcmp(part, "..", 2) == 0))
            return "its name has '.' or '..' as a part, which leads out of the archive";
        if (n == 0 && slash != NULL)
            return "its name has an empty part";
        part = slash != NULL ? slash + 1 : NULL;
    }
    return NULL;
}

/* An entry of the list of members. */
typedef struct entry {
    unsigned char bytes[ENTRY + WU_MAX_MEMBER_NAME + 1]; /* the entry with its name and a NUL */
    unsigned version, flags, method;
    uint32_t crc;
    uint64_t compressed, size;     /* bytes of data */
    uint64_t name, extra, comment; /* lengths of these fields in bytes */
    uint64_t offset;               /* offset of the local header in the file */
} entry;

static void parse_entry(entry *e)
{
    const unsigned char *const p = e->bytes;
    e->version = (unsigned)read_little_endian(p + 6, 2);
    e->flags = (unsigned)read_little_endian(p + 8, 2);
    e->method = (unsigned)read_little_endian(p + 10, 2);
    e->crc = (uint32_t)read_little_endian(p + 16, 4);
    e->compressed = read_little_endian(p + 20, 4);
    e->size = read_little_endian(p + 24, 4);
    e->name = read_little_endian(p + 28, 2);
    e->extra = read_little_endian(p + 30, 2);
    e->comment = read_little_endian(p + 32, 2);
    e->offset = read_little_endian(p + 42, 4);
}

/* Returns why a member cannot be read, or NULL if it can. */
static const char *member_fault(const entry *e)
{
    const bool is_folder = e->name > 0 && e->bytes[ENTRY + e->name - 1] == '/';
    if (e->size > WU_MAX_ARCHIVE || e->compressed > WU_MAX_ARCHIVE)
        return "it is larger than 4 GiB";
    if (e->offset > WU_MAX_ARCHIVE)
        return "it begins more than 4 GiB after the start of the file";
    if (e->flags & (FLAG_ENCRYPTED | FLAG_STRONG_ENCRYPTION | FLAG_MASKED_DIRECTORY))
        return "it is encrypted";
    if (e->method != 0 && e->method != Z_DEFLATED)
        return "its compression method is neither store nor deflate";
    if (e->method == 0 && e->compressed != e->size)
        return "it is stored, but its two sizes differ";
    if (e->size / MAX_DEFLATE_RATIO > e->compressed)
        return "it claims to decompress to more bytes than deflate can hold";
    return is_folder && e->size != 0 ? "it is a folder with data" : NULL;
}

/* The state of listing an archive. */
typedef struct listing {
    wu_archive *a;
    directory d;
    size_t room;         /* allocated elements of a->members */
    uint64_t at;         /* offset of the next entry in the file */
    uint64_t compressed; /* the sum of the compressed sizes so far */
    uint64_t next;       /* end of the last member's data: where the next member should begin */
    uint64_t read_at;    /* offset of the bytes in `read` in the file */
    size_t n_read;       /* bytes in `read` */
    unsigned char read[LIST_CHUNK]; /* [n_read] a part of the list */
} listing;

static tc_status refuse_list(const wu_archive *a, tc_err *err)
{
    return tc_fail(err, TC_BAD_INPUT, "%s: damaged: its list of members cannot be read after %zu",
                   a->path, a->n);
}

/* Reads the entry at l->at, and advances l->at. */
static tc_status next_entry(listing *l, entry *e, tc_err *err)
{
    const uint64_t left = l->d.end - l->at, most = sizeof e->bytes - 1;
    const size_t n = (size_t)(left < most ? left : most);
    if (l->at + n > l->read_at + l->n_read) {
        l->read_at = l->at;
        l->n_read = left < LIST_CHUNK ? (size_t)left : LIST_CHUNK;
        return_if_error(read_at(l->a, l->at, l->read, l->n_read, err));
    }
    memset(e->bytes, 0, sizeof e->bytes);
    memcpy(e->bytes, l->read + (l->at - l->read_at), n);
    parse_entry(e);
    if (left < ENTRY || memcmp(e->bytes, "PK\1\2", 4) != 0 ||
        e->name + e->extra + e->comment > left - ENTRY)
        return refuse_list(l->a, err);
    l->at += ENTRY + e->name + e->extra + e->comment;
    e->bytes[ENTRY + (e->name < WU_MAX_MEMBER_NAME ? e->name : WU_MAX_MEMBER_NAME)] = '\0';
    return TC_OK;
}

/* Whether the size or CRC at `local`, in a local header, equals the value `listed` in the list of
 * members. It may also be 0, if the member has a descriptor with this value after its data. */
static bool same_number(const entry *e, const unsigned char *local, uint64_t listed)
{
    const uint64_t number = read_little_endian(local, 4);
    return number == listed || (number == 0 && (e->flags & FLAG_DESCRIPTOR) != 0);
}

/* Reads and checks a member's local header, and sets data, header and header_crc of *m. Sets
 * *is_plain to whether there is no gap before the header, the member has no extra field or comment,
 * and the header's fields are equal to the fields in the list of members. */
static tc_status read_local(const listing *l, const entry *e, wu_member *m, bool *is_plain,
                            tc_err *err)
{
    unsigned char local[LOCAL_HEADER + WU_MAX_MEMBER_NAME];
    const char *const name = (const char *)e->bytes + ENTRY;
    uint64_t extra = 0;
    bool good = e->offset < l->d.begin && l->d.begin - e->offset >= LOCAL_HEADER + e->name;
    if (good) {
        return_if_error(read_at(l->a, e->offset, local, LOCAL_HEADER + (size_t)e->name, err));
        extra = read_little_endian(local + 28, 2);
        m->data = e->offset + LOCAL_HEADER + e->name + extra;
        m->header = extra == 0 ? LOCAL_HEADER + (uint32_t)e->name : 0;
        m->header_crc = tc_crc32(0, local, m->header);
        /* Whether the sizes are in a ZIP64 field. This field is not read: the sizes in the list of
         * members are used. */
        const bool elsewhere = read_little_endian(local + 18, 4) == UINT32_MAX &&
                               read_little_endian(local + 22, 4) == UINT32_MAX;
        good = memcmp(local, "PK\3\4", 4) == 0 && read_little_endian(local + 8, 2) == e->method &&
               (read_little_endian(local + 6, 2) & FLAG_ENCRYPTED) == 0 &&
               same_number(e, local + 14, e->crc) &&
               (elsewhere || (same_number(e, local + 18, e->compressed) &&
                              same_number(e, local + 22, e->size))) &&
               read_little_endian(local + 26, 2) == e->name &&
               memcmp(local + LOCAL_HEADER, name, e->name) == 0;
    }
    if (!good)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: member \"%s\" is corrupt: its header and the list of members disagree",
                       l->a->path, wu_quote(name).text);
    if (m->data > l->d.begin || e->compressed > l->d.begin - m->data)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: member \"%s\" is corrupt: it does not end before the list of members",
                       l->a->path, wu_quote(name).text);
    *is_plain = e->offset == l->next && extra + e->extra + e->comment == 0 &&
                memcmp(local + 4, e->bytes + 6, SHARED) == 0;
    return TC_OK;
}

/* Whether all programs treat the member alike. This is so if the entry has the usual version, no
 * flags, volume 0 and no DOS attributes, and if its Unix mode (the high 16 bits of the attributes)
 * is 0 or that of a regular file (type 8), not of a link, folder or device. */
static bool has_plain_fields(const entry *e)
{
    const uint64_t attributes = read_little_endian(e->bytes + 38, 4), type = attributes >> 28;
    return e->version == PLAIN_VERSION && e->flags == 0 &&
           read_little_endian(e->bytes + 34, 2) == 0 /* volume */ && (type == 0 || type == 8) &&
           (attributes & 0xffff) == 0;
}

/* Allocates memory for one more member. The list grows with the members that are found, since the
 * count in the end record cannot be trusted. */
static tc_status reserve_member(listing *l, tc_err *err)
{
    wu_member *const members = tc_array_grow(l->a->members, l->a->n, &l->room, sizeof *members);
    if (members == NULL)
        return tc_no_memory(err, "the list of members");
    l->a->members = members;
    return TC_OK;
}

/* Reads and checks the next member of the list. */
static tc_status add_member(listing *l, tc_err *err)
{
    wu_archive *const a = l->a;
    entry e;
    wu_member found = { .data = 0 };
    bool is_plain = false;
    return_if_error(next_entry(l, &e, err));
    const char *const name = (const char *)e.bytes + ENTRY;
    const char *fault = name_fault(name, e.name);
    if (fault == NULL)
        fault = member_fault(&e);
    if (fault == NULL && e.compressed > a->file_size - l->compressed)
        fault = "it overlaps another member, or the file is cut short";
    if (fault != NULL)
        return tc_fail(err, TC_BAD_INPUT, "%s: member \"%s\" is refused: %s", a->path,
                       wu_quote(name).text, fault);
    return_if_error(read_local(l, &e, &found, &is_plain, err));
    return_if_error(reserve_member(l, err));
    wu_member *const m = &a->members[a->n];
    *m = (wu_member){ .name = strdup(name),
                      .is_folder = name[e.name - 1] == '/',
                      .is_deflated = e.method != 0,
                      .size = e.size,
                      .crc = e.crc,
                      .compressed = e.compressed,
                      .data = found.data,
                      .header = found.header,
                      .header_crc = found.header_crc };
    if (m->name == NULL)
        return tc_no_memory(err, "the list of members");
    a->n++;
    l->compressed += e.compressed;
    l->next = found.data + e.compressed;
    a->is_plain = a->is_plain && is_plain;
    a->has_plain_fields = a->has_plain_fields && has_plain_fields(&e);
    return TC_OK;
}

/* Reads the list up to its end, even if the count in the end record is smaller, so that no member
 * that other programs would find is missed. */
static tc_status list_members(wu_archive *a, uint64_t max_members, tc_err *err)
{
    listing l = { .a = a };
    tc_status status = find_directory(a, &l.d, err);
    a->is_plain = a->has_plain_fields = true;
    l.at = l.d.begin;
    while (status == TC_OK && l.at < l.d.end && l.d.count <= max_members && a->n <= max_members)
        status = tc_call_poll(a->poll, err) == TC_OK ? add_member(&l, err) : TC_TRY_LATER;
    if (status == TC_OK && (l.d.count > max_members || a->n > max_members))
        return tc_fail(err, TC_BAD_INPUT, "%s: more than %llu members", a->path,
                       (unsigned long long)max_members);
    /* Archives without a ZIP64 end record may have more members than their count can express. */
    if (status == TC_OK && a->n != l.d.count &&
        !(l.d.count == COUNT_UNKNOWN && a->n > COUNT_UNKNOWN && !l.d.has_zip64))
        status = tc_fail(err, TC_BAD_INPUT, "%s: damaged: it should have %llu members, but has %zu",
                         a->path, (unsigned long long)l.d.count, a->n);
    a->is_plain = a->is_plain && l.next == l.d.begin && l.d.is_plain &&
                  l.d.has_zip64 == (a->n > COUNT_UNKNOWN);
    return status;
}

const char *wu_archive_form_fault(const wu_archive *a)
{
    if (!a->is_plain)
        return "holds more than its members: comments, extra fields or bytes between them, or "
               "headers that differ from its list of members";
    return a->has_plain_fields ? NULL
                               : "has a member with a version, flags or attributes that other "
                                 "programs may not accept";
}

static int compare_names(const void *a, const void *b)
{
    const wu_member_name *const na = a, *const nb = b;
    return strcmp(na->name, nb->name);
}

/* Makes a->by_name, for binary searches. TC_BAD_INPUT: two names are equal. */
static tc_status sort_names(wu_archive *a, tc_err *err)
{
    a->by_name = malloc((a->n + 1) * sizeof *a->by_name);
    if (a->by_name == NULL)
        return tc_no_memory(err, "the list of members");
    for (size_t i = 0; i < a->n; i++)
        a->by_name[i] = (wu_member_name){ a->members[i].name, i };
    qsort(a->by_name, a->n, sizeof *a->by_name, compare_names);
    for (size_t i = 1; i < a->n; i++) {
        if (strcmp(a->by_name[i - 1].name, a->by_name[i].name) == 0)
            return tc_fail(err, TC_BAD_INPUT, "%s: two members are named \"%s\"", a->path,
                           a->by_name[i].name);
    }
    return TC_OK;
}

tc_status wu_archive_read(const char *path, uint64_t max_members, const tc_poll *poll,
                          wu_archive **out, tc_err *err)
{
    *out = NULL;
    wu_archive *a = calloc(1, sizeof *a);
    if (a == NULL)
        return tc_no_memory(err, "an archive");
    a->fd = -1;
    a->poll = poll;
    a->path = strdup(path);
    tc_status status = a->path == NULL ? tc_no_memory(err, "an archive")
                                       : tc_open_regular(path, &a->fd, &a->file_size, err);
    if (status == TC_OK)
        status = check_head(a, err);
    if (status == TC_OK)
        status = list_members(a, max_members, err);
    if (status == TC_OK)
        status = sort_names(a, err);
    if (status == TC_OK)
        *out = a;
    else
        wu_archive_destroy(&a);
    return status;
}

void wu_archive_destroy(wu_archive **archive)
{
    wu_archive *a = *archive;
    if (a == NULL)
        return;
    for (size_t i = 0; i < a->n; i++)
        free(a->members[i].name);
    free(a->members);
    free(a->by_name);
    if (a->fd >= 0)
        close(a->fd);
    free(a->path);
    free(a);
    *archive = NULL;
}

long wu_archive_find(const wu_archive *a, const char *name)
{
    size_t lo = 0, hi = a->n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        const size_t index = a->by_name[mid].index;
        const int order = strcmp(name, a->by_name[mid].name);
        if (order == 0)
            return a->members[index].is_folder ? -1 : (long)index;
        if (order < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return -1;
}

/* --- reading members ------------------------------------------------------------------------- */

/* Returns TC_BAD_INPUT with a message that the member being read is corrupt, and why. */
TC_FORMAT(3, 4)
static tc_status fail_corrupt(const wu_unzip *z, tc_err *err, const char *format, ...)
{
    char why[160];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return tc_fail(err, TC_BAD_INPUT, "%s: member \"%s\" is corrupt: %s", z->archive->path,
                   z->archive->members[z->index].name, why);
}

tc_status wu_unzip_open(const wu_archive *archive, const tc_poll *poll, wu_unzip **out, tc_err *err)
{
    struct stat file_info;
    *out = NULL;
    if (fstat(archive->fd, &file_info) != 0)
        return tc_fail(err, TC_TRY_LATER, "%s: cannot read: %s", archive->path, strerror(errno));
    if ((uint64_t)file_info.st_size != archive->file_size)
        return refuse_changed(archive, err);
    wu_unzip *z = calloc(1, sizeof *z);
    if (z == NULL || inflateInit2(&z->z, -MAX_WBITS) != Z_OK) {
        free(z);
        return tc_no_memory(err, "decompressing");
    }
    z->archive = archive;
    z->poll = poll;
    *out = z;
    return TC_OK;
}

const wu_archive *wu_unzip_archive(const wu_unzip *z)
{
    return z->archive;
}

void wu_unzip_begin(wu_unzip *z, size_t index)
{
    assert(index < z->archive->n);
    z->in_member = true;
    z->index = index;
    z->n_returned = z->taken = 0;
    z->ended = false;
    z->crc = 0;
    z->z.avail_in = 0;
    (void)inflateReset(&z->z);
}

/* Reads the next compressed bytes of the member, if there are any, to z->compressed. */
static tc_status fill_buffer(wu_unzip *z, const wu_member *m, tc_err *err)
{
    const uint64_t left = m->compressed - z->taken;
    const size_t part = left < CHUNK ? (size_t)left : CHUNK;
    const tc_status status =
        part == 0 ? TC_OK : read_at(z->archive, m->data + z->taken, z->compressed, part, err);
    if (status == TC_OK) {
        z->taken += part;
        z->z.next_in = z->compressed;
        z->z.avail_in = (uInt)part;
    }
    return status;
}

/* Reads up to n bytes of a stored member. Requests for CHUNK bytes or more are read directly to
 * `buf`, smaller ones through the buffer z->compressed. z->crc becomes the CRC of all bytes of the
 * member that have been read from the file. */
static tc_status read_stored(wu_unzip *z, const wu_member *m, void *buf, size_t n, size_t *got,
                             tc_err *err)
{
    tc_status status = TC_OK;
    if (z->z.avail_in == 0 && n >= CHUNK) {
        return_if_error(read_at(z->archive, m->data + z->taken, buf, n, err));
        z->taken += n;
        *got = n;
        z->crc = tc_crc32(z->crc, buf, n);
        return TC_OK;
    }
    if (z->z.avail_in == 0) {
        status = fill_buffer(z, m, err);
        if (status != TC_OK)
            return status;
        z->crc = tc_crc32(z->crc, z->compressed, z->z.avail_in);
    }
    *got = n < z->z.avail_in ? n : z->z.avail_in;
    memcpy(buf, z->z.next_in, *got);
    z->z.next_in += *got;
    z->z.avail_in -= (uInt)*got;
    return TC_OK;
}

/* Decompresses up to n bytes with zlib. Sets *got to the number of bytes, which is less than n only
 * at the end of the stream. */
static tc_status inflate_part(wu_unzip *z, const wu_member *m, void *buf, size_t n, size_t *got,
                              tc_err *err)
{
    int rc = Z_OK;
    z->z.next_out = buf;
    z->z.avail_out = (uInt)n;
    while (!z->ended && z->z.avail_out > 0 && rc == Z_OK) {
        return_if_error(z->z.avail_in == 0 ? fill_buffer(z, m, err) : TC_OK);
        rc = inflate(&z->z, Z_NO_FLUSH);
        z->ended = rc == Z_STREAM_END;
    }
    *got = n - z->z.avail_out;
    if (rc == Z_MEM_ERROR)
        return tc_no_memory(err, "decompressing");
    return rc == Z_OK || z->ended ? TC_OK : fail_corrupt(z, err, "it does not decompress");
}

#ifdef HAVE_LIBDEFLATE
/* Decompresses the rest of a member to `buf` with libdeflate, which takes half the time of zlib. If
 * some bytes have been returned before, decompresses the whole member once more, to a copy. Returns
 * false if the member exceeds the limits or after an error: inflate_part must then decompress the
 * rest, or report the error. */
static bool inflate_rest(wu_unzip *z, const wu_member *m, unsigned char *buf)
{
    const bool is_whole = z->n_returned == 0;
    if (m->size > (is_whole ? MAX_WHOLE : MAX_REST) || m->compressed > MAX_REST ||
        z->n_returned > MAX_RETURNED)
        return false;
    if (z->inflater == NULL)
        z->inflater = libdeflate_alloc_decompressor();
    if (is_whole && z->taken == 0 && m->compressed <= CHUNK && fill_buffer(z, m, NULL) != TC_OK)
        return false;
    /* Whether all compressed bytes are in z->compressed. */
    const bool in_buffer = z->taken == m->compressed && z->taken <= CHUNK;
    TC_AUTOFREE unsigned char *const read =
        in_buffer ? NULL : calloc((size_t)m->compressed + PADDING, 1);
    TC_AUTOFREE unsigned char *const copy = is_whole ? NULL : malloc((size_t)m->size);
    const unsigned char *const from = in_buffer ? z->compressed : read;
    unsigned char *const whole = is_whole ? buf : copy;
    size_t used = 0, made = 0;
    const bool good =
        from != NULL && whole != NULL && z->inflater != NULL &&
        (in_buffer || read_at(z->archive, m->data, read, (size_t)m->compressed, NULL) == TC_OK) &&
        libdeflate_deflate_decompress_ex(z->inflater, from, (size_t)m->compressed + PADDING, whole,
                                         (size_t)m->size, &used, &made) == LIBDEFLATE_SUCCESS &&
        used == m->compressed && made == m->size;
    if (!good)
        return false;
    if (!is_whole)
        memcpy(buf, whole + z->n_returned, (size_t)(m->size - z->n_returned));
    z->ended = true;
    z->taken = m->compressed;
    z->z.avail_in = 0;
    return true;
}
#else
static bool inflate_rest(wu_unzip *z, const wu_member *m, unsigned char *buf)
{
    (void)z, (void)m, (void)buf;
    return false;
}
#endif

/* Checks the end of a member after its last byte was returned: the stream must end, no compressed
 * bytes may be left, and the CRC must be right. */
static tc_status end_member(wu_unzip *z, const wu_member *m, tc_err *err)
{
    unsigned char beyond;
    size_t got = 0;
    z->in_member = false;
    if (z->n_returned != m->size)
        return fail_corrupt(z, err, "its data end after %llu of %llu bytes",
                            (unsigned long long)z->n_returned, (unsigned long long)m->size);
    if (m->is_deflated)
        return_if_error(inflate_part(z, m, &beyond, 1, &got, err));
    if (got > 0 || (m->is_deflated && (z->taken != m->compressed || z->z.avail_in > 0)))
        return_if_error(fail_corrupt(z, err, "its data do not end after %llu bytes",
                                     (unsigned long long)m->size));
    if (z->crc != m->crc)
        return fail_corrupt(z, err, "its CRC is wrong");
    return TC_OK;
}

tc_status wu_unzip_read(wu_unzip *z, void *buf, size_t n, size_t *n_read, tc_err *err)
{
    const size_t largest = (size_t)1 << 30; /* zlib's counters are unsigned int */
    *n_read = 0;
    if (!z->in_member || n == 0)
        return TC_OK;
    tc_status status = tc_call_poll(z->poll, err);
    const wu_member *const m = &z->archive->members[z->index];
    const uint64_t left = m->size - z->n_returned;
    size_t part = n < largest ? n : largest, got = 0;
    part = left < part ? (size_t)left : part;
    if (status == TC_OK && m->is_deflated && part > 0 && part == left && inflate_rest(z, m, buf))
        got = part;
    else if (status == TC_OK && part > 0)
        status = (m->is_deflated ? inflate_part : read_stored)(z, m, buf, part, &got, err);
    if (status != TC_OK) {
        z->in_member = false;
        return status;
    }
    if (got == 0)
        return end_member(z, m, err);
    if (m->is_deflated)
        z->crc = tc_crc32(z->crc, buf, got);
    z->n_returned += got;
    *n_read = got;
    return TC_OK;
}

tc_status wu_unzip_drain(wu_unzip *z, tc_err *err)
{
    unsigned char *buf = malloc(CHUNK);
    if (buf == NULL)
        return tc_no_memory(err, "decompressing");
    tc_status status;
    size_t n;
    do
        status = wu_unzip_read(z, buf, CHUNK, &n, err);
    while (status == TC_OK && n > 0);
    free(buf);
    return status;
}

void wu_unzip_close(wu_unzip **z)
{
    if (*z == NULL)
        return;
    (void)inflateEnd(&(*z)->z);
#ifdef HAVE_LIBDEFLATE
    libdeflate_free_decompressor((*z)->inflater);
#endif
    free(*z);
    *z = NULL;
}

tc_status wu_unzip_json(wu_unzip *z, size_t index, uint64_t max_bytes, uint64_t max_values,
                        json_t **out, tc_err *err)
{
    assert(index < z->archive->n);
    const wu_archive *a = z->archive;
    const wu_member *m = &a->members[index];
    *out = NULL;
    if (m->size > max_bytes)
        return tc_fail(err, TC_BAD_INPUT, "%s: %s: %llu bytes, more than the limit of %llu",
                       a->path, m->name, (unsigned long long)m->size,
                       (unsigned long long)max_bytes);
    char *text = malloc((size_t)m->size + 1);
    if (text == NULL)
        return tc_no_memory(err, m->name);
    size_t total = 0, n = 0;
    tc_status status;
    wu_unzip_begin(z, index);
    do {
        /* Requests one byte more than the member has, so that the last read checks its end. */
        status = wu_unzip_read(z, text + total, (size_t)m->size + 1 - total, &n, err);
        total += n;
    } while (status == TC_OK && n > 0);
    if (status == TC_OK)
        status = wu_json_parse(a->path, m->name, text, total, max_values, out, err);
    free(text);
    return status;
}
