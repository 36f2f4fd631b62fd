#include "workunits/format/archive.h"

#include <errno.h>
#include <minizip/unzip.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

/* deflate's best case is 258 bytes out of two bits; FORMAT.md and png_io.c
 * use the same bound. */
#define MAX_DEFLATE_RATIO 1032u

enum { CHUNK = 1 << 16, FLAG_ENCRYPTED = 0x0001, FLAG_STRONG_ENCRYPTION = 0x0040,
       FLAG_MASKED_DIRECTORY = 0x2000,
       LOCAL_HEADER = 30,           /* bytes before a member's data, without name and extra field */
       DIRECTORY_ENTRY = 46,        /* bytes of an entry without its name, extra field and comment */
       END_RECORD = 22,             /* without the comment */
       ZIP64_END = 56 + 20,         /* in front of it, for many members */
       COUNT_UNKNOWN = 0xffff };    /* minizip writes this count for any larger one */

struct wu_unzip {
    const wu_archive *archive;
    unzFile zip;
    bool in_member;
    size_t index;            /* of the member being read */
    uint64_t done;           /* bytes of it read so far */
};

/* --- text for messages -------------------------------------------------------- */

wu_quoted wu_quote(const char *text)
{
    wu_quoted q;
    const size_t room = sizeof q.text - 4;
    size_t n = 0;
    for (; text[n] != '\0' && n < room; n++) {
        const char c = text[n];
        q.text[n] = (char)(c >= 0x20 && c < 0x7f ? c : '?');
    }
    memcpy(q.text + n, text[n] != '\0' ? "..." : "", text[n] != '\0' ? 4 : 1);
    return q;
}

/* --- the file as a whole ------------------------------------------------------- */

/* Opens a regular file; anything else could block or have no end. */
static tc_status open_regular(const char *path, FILE **out, uint64_t *size, tc_err *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: cannot open: %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return tc_fail(err, TC_BAD_INPUT, "%s: is a folder, not a file", path);
    if (!S_ISREG(st.st_mode))
        return tc_fail(err, TC_BAD_INPUT, "%s: not a regular file", path);
    *out = fopen(path, "rb");
    if (*out == NULL)
        return tc_fail(err, TC_BAD_INPUT, "%s: cannot open: %s", path, strerror(errno));
    *size = (uint64_t)st.st_size;
    return TC_OK;
}

tc_status wu_file_crc(const char *path, uint32_t *crc, uint64_t *size, tc_err *err)
{
    unsigned char *buf = NULL;
    FILE *file = NULL;
    uint64_t expected = 0, total = 0;
    uLong sum = crc32(0, NULL, 0);
    tc_status st = open_regular(path, &file, &expected, err);
    if (st != TC_OK)
        return st;
    buf = malloc(CHUNK);
    if (buf == NULL) {
        st = tc_no_memory(err, "a read buffer");
        goto cleanup;
    }
    for (size_t n; (n = fread(buf, 1, CHUNK, file)) > 0; total += n)
        sum = crc32(sum, buf, (uInt)n);
    if (ferror(file))
        st = tc_fail(err, TC_BAD_INPUT, "%s: cannot read: %s", path, strerror(errno));
    *crc = (uint32_t)sum;
    *size = total;
cleanup:
    free(buf);
    (void)fclose(file);
    return st;
}

/* What minizip would not say or not notice about the file as a whole. */
static tc_status check_head(const char *path, uint64_t *size, tc_err *err)
{
    unsigned char head[4];
    FILE *file = NULL;
    tc_status st = open_regular(path, &file, size, err);
    if (st != TC_OK)
        return st;
    const size_t n = fread(head, 1, sizeof head, file);
    const int failed = ferror(file), saved = errno;
    (void)fclose(file);
    if (failed)
        return tc_fail(err, TC_BAD_INPUT, "%s: cannot read: %s", path, strerror(saved));
    if (n == 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: the file is empty", path);
    if (n == 4 && memcmp(head, "PK\5\6", 4) == 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: the ZIP archive has no members", path);
    if (n < 4 || memcmp(head, "PK\3\4", 4) != 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: not a ZIP archive", path);
    if (*size > WU_MAX_ARCHIVE)
        return tc_fail(err, TC_BAD_INPUT, "%s: larger than 4 GiB", path);
    return TC_OK;
}

static uint64_t little_endian(const unsigned char *p, unsigned n)
{
    uint64_t value = 0;
    while (n-- > 0)
        value = value << 8 | p[n];
    return value;
}

/* The end record and its comment must be the last thing in the file: minizip
 * overlooks a few missing bytes, and anything that follows. *list_end is where
 * the list of members has to end: at the end record, or at the ZIP64 one. */
static tc_status check_end(const char *path, uint64_t comment, uint64_t *list_end, tc_err *err)
{
    enum { LOCATOR = 20, RECORD = 22 };
    unsigned char tail[LOCATOR + RECORD];
    const unsigned char *record = tail + LOCATOR;
    FILE *file = NULL;
    uint64_t size = 0;
    bool good = false;
    tc_status st = open_regular(path, &file, &size, err);
    if (st != TC_OK)
        return st;
    if (size >= sizeof tail + comment &&
        fseeko(file, (off_t)(size - comment - sizeof tail), SEEK_SET) == 0 &&
        fread(tail, 1, sizeof tail, file) == sizeof tail)
        good = memcmp(record, "PK\5\6", 4) == 0 && little_endian(record + 20, 2) == comment;
    (void)fclose(file);
    if (!good)
        return tc_fail(err, TC_BAD_INPUT, "%s: the ZIP archive is truncated or damaged: it does not end where "
                       "its last record ends", path);
    *list_end = memcmp(tail, "PK\6\7", 4) == 0 ? little_endian(tail + 8, 8) : size - comment - RECORD;
    return TC_OK;
}

/* --- the list of members ---------------------------------------------------------- */

/* Why a name may not be in an archive, or NULL. Nothing here is ever unpacked
 * to a path, but other tools will do so with the same file. */
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

/* Why a member cannot be read, or NULL. */
static const char *member_fault(const unz_file_info64 *info)
{
    if (info->uncompressed_size > WU_MAX_ARCHIVE || info->compressed_size > WU_MAX_ARCHIVE)
        return "it is larger than 4 GiB";
    if (info->flag & (FLAG_ENCRYPTED | FLAG_STRONG_ENCRYPTION | FLAG_MASKED_DIRECTORY))
        return "it is encrypted";
    if (info->compression_method != 0 && info->compression_method != Z_DEFLATED)
        return "its compression method is neither store nor deflate";
    if (info->compression_method == 0 && info->compressed_size != info->uncompressed_size)
        return "it is stored, but its two sizes differ";
    if (info->uncompressed_size / MAX_DEFLATE_RATIO > info->compressed_size)
        return "it claims to unpack to more bytes than deflate can hold";
    return NULL;
}

/* *packed is the sum of the packed sizes so far, *next the place in the file
 * where the entry after this one must be. */
static tc_status add_member(wu_archive *a, unzFile zip, uint64_t *packed, uint64_t *next, tc_err *err)
{
    char name[WU_MAX_MEMBER_NAME + 2];
    unz_file_info64 info;
    unz64_file_pos pos;
    memset(name, 0, sizeof name);
    if (unzGetCurrentFileInfo64(zip, &info, name, sizeof name - 1, NULL, 0, NULL, 0) != UNZ_OK ||
        unzGetFilePos64(zip, &pos) != UNZ_OK)
        return tc_fail(err, TC_BAD_INPUT, "%s: damaged: its list of members cannot be read after %zu", a->path, a->n);
    const char *fault = name_fault(name, info.size_filename);
    if (fault == NULL)
        fault = member_fault(&info);
    if (fault == NULL && info.compressed_size > a->file_size - *packed)
        fault = "it overlaps another member, or the file is cut short";
    const bool is_folder = fault == NULL && name[info.size_filename - 1] == '/';
    if (is_folder && info.uncompressed_size != 0)
        fault = "it is a folder with data";
    if (fault != NULL)
        return tc_fail(err, TC_BAD_INPUT, "%s: member \"%s\" is refused: %s", a->path,
                       wu_quote(name).text, fault);
    *packed += info.compressed_size;
    wu_member *m = &a->members[a->n];
    m->name = strdup(name);
    if (m->name == NULL)
        return tc_no_memory(err, "the list of members");
    m->is_folder = is_folder;
    m->size = info.uncompressed_size;
    m->crc = (uint32_t)info.crc;
    m->directory_pos = pos.pos_in_zip_directory;
    m->directory_index = pos.num_of_file;
    *next = pos.pos_in_zip_directory + DIRECTORY_ENTRY + info.size_filename + info.size_file_extra +
            info.size_file_comment;
    a->plain_size += LOCAL_HEADER + DIRECTORY_ENTRY + 2 * info.size_filename + info.compressed_size;
    a->n++;
    return TC_OK;
}

static tc_status too_many(const wu_archive *a, tc_err *err)
{
    return tc_fail(err, TC_BAD_INPUT, "%s: more than %llu members", a->path, (unsigned long long)WU_MAX_MEMBERS);
}

/* Room for one more member; the directory's own count is only a claim, so the
 * list grows with what was really found. */
static tc_status reserve_member(wu_archive *a, size_t *room, tc_err *err)
{
    if (a->n < *room)
        return TC_OK;
    const size_t more = *room == 0 ? 64 : *room * 2;
    wu_member *members = realloc(a->members, more * sizeof *members);
    if (members == NULL)
        return tc_no_memory(err, "the list of members");
    a->members = members;
    *room = more;
    return TC_OK;
}

/* Goes through the list to its very end, so that no member stays unseen that
 * other programs would find, whatever the count in the end record says. */
static tc_status list_members(wu_archive *a, unzFile zip, tc_err *err)
{
    unz_global_info64 global;
    size_t room = 0;
    uint64_t packed = 0, next = 0, end = 0;
    int rc = unzGetGlobalInfo64(zip, &global);
    tc_status st = check_end(a->path, rc == UNZ_OK ? global.size_comment : 0, &end, err);
    if (st == TC_OK && global.number_entry > WU_MAX_MEMBERS)
        st = too_many(a, err);
    while (st == TC_OK && rc == UNZ_OK && next < end) {
        rc = a->n == 0 ? unzGoToFirstFile(zip) : unzGoToNextFile(zip);
        if (rc != UNZ_OK)
            break;
        st = a->n < WU_MAX_MEMBERS ? reserve_member(a, &room, err) : too_many(a, err);
        if (st == TC_OK)
            st = add_member(a, zip, &packed, &next, err);
    }
    if (st == TC_OK && (rc != UNZ_OK || next != end))
        st = tc_fail(err, TC_BAD_INPUT, "%s: damaged: its list of members cannot be read after %zu", a->path, a->n);
    if (st == TC_OK && a->n != global.number_entry && !(global.number_entry == COUNT_UNKNOWN && a->n > COUNT_UNKNOWN))
        st = tc_fail(err, TC_BAD_INPUT, "%s: damaged: it should have %llu members, but has %zu", a->path,
                     (unsigned long long)global.number_entry, a->n);
    a->plain_size += END_RECORD + (a->n > COUNT_UNKNOWN ? ZIP64_END : 0);
    return st;
}

static int compare_names(const void *a, const void *b)
{
    const wu_member_name *const na = a, *const nb = b;
    return strcmp(na->name, nb->name);
}

/* Sorts the names once, so that a look-up is a binary search. */
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
            return tc_fail(err, TC_BAD_INPUT, "%s: two members are named \"%s\"", a->path, a->by_name[i].name);
    }
    return TC_OK;
}

tc_status wu_archive_read(const char *path, wu_archive **out, tc_err *err)
{
    unzFile zip = NULL;
    uint64_t size = 0;
    *out = NULL;
    tc_status st = check_head(path, &size, err);
    if (st != TC_OK)
        return st;
    wu_archive *a = calloc(1, sizeof *a);
    if (a == NULL || (a->path = strdup(path)) == NULL) {
        st = tc_no_memory(err, "an archive");
        goto cleanup;
    }
    a->file_size = size;
    zip = unzOpen64(path);
    if (zip == NULL) {
        st = tc_fail(err, TC_BAD_INPUT, "%s: the ZIP archive is truncated or damaged: no list of members at its end",
                     path);
        goto cleanup;
    }
    st = list_members(a, zip, err);
    if (st == TC_OK)
        st = sort_names(a, err);
cleanup:
    if (zip != NULL)
        unzClose(zip);
    if (st == TC_OK)
        *out = a;
    else
        wu_archive_destroy(&a);
    return st;
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

/* --- reading members -------------------------------------------------------------- */

static tc_status changed(const wu_archive *a, tc_err *err)
{
    return tc_fail(err, TC_BAD_INPUT, "%s: the file has changed since it was checked", a->path);
}

tc_status wu_unzip_open(const wu_archive *archive, wu_unzip **out, tc_err *err)
{
    uint64_t size = 0;
    FILE *file = NULL;
    *out = NULL;
    tc_status st = open_regular(archive->path, &file, &size, err);
    if (st != TC_OK)
        return st;
    (void)fclose(file);
    if (size != archive->file_size)
        return changed(archive, err);
    wu_unzip *z = calloc(1, sizeof *z);
    if (z == NULL)
        return tc_no_memory(err, "an archive");
    z->archive = archive;
    z->zip = unzOpen64(archive->path);
    if (z->zip == NULL) {
        wu_unzip_close(&z);
        return changed(archive, err);
    }
    *out = z;
    return TC_OK;
}

static void leave_member(wu_unzip *z)
{
    if (z->in_member)
        unzCloseCurrentFile(z->zip);
    z->in_member = false;
}

tc_status wu_unzip_begin(wu_unzip *z, size_t index, tc_err *err)
{
    const wu_archive *a = z->archive;
    const wu_member *m = &a->members[index];
    unz64_file_pos pos = { .pos_in_zip_directory = m->directory_pos, .num_of_file = m->directory_index };
    char name[WU_MAX_MEMBER_NAME + 2];
    unz_file_info64 info;
    leave_member(z);
    memset(name, 0, sizeof name);
    if (unzGoToFilePos64(z->zip, &pos) != UNZ_OK ||
        unzGetCurrentFileInfo64(z->zip, &info, name, sizeof name - 1, NULL, 0, NULL, 0) != UNZ_OK ||
        info.uncompressed_size != m->size || (uint32_t)info.crc != m->crc || strcmp(name, m->name) != 0)
        return changed(a, err);
    const int rc = unzOpenCurrentFile(z->zip);
    if (rc == UNZ_INTERNALERROR || rc == Z_MEM_ERROR)
        return tc_no_memory(err, "unpacking");
    if (rc != UNZ_OK)
        return tc_fail(err, TC_BAD_INPUT, "%s: member \"%s\" is corrupt: its header and the list of members disagree",
                       a->path, m->name);
    z->in_member = true;
    z->index = index;
    z->done = 0;
    return TC_OK;
}

static tc_status end_member(wu_unzip *z, tc_err *err)
{
    const wu_member *m = &z->archive->members[z->index];
    z->in_member = false;
    const int rc = unzCloseCurrentFile(z->zip);
    if (z->done != m->size)
        return tc_fail(err, TC_BAD_INPUT, "%s: member \"%s\" is corrupt: its data end after %llu of %llu bytes",
                       z->archive->path, m->name, (unsigned long long)z->done,
                       (unsigned long long)m->size);
    if (rc != UNZ_OK)
        return tc_fail(err, TC_BAD_INPUT, "%s: member \"%s\" is corrupt: its CRC is wrong",
                       z->archive->path, m->name);
    return TC_OK;
}

tc_status wu_unzip_read(wu_unzip *z, void *buf, size_t n, size_t *n_read, tc_err *err)
{
    const unsigned largest = 1u << 30; /* minizip counts in int */
    *n_read = 0;
    if (!z->in_member || n == 0)
        return TC_OK;
    const int got = unzReadCurrentFile(z->zip, buf, n < largest ? (unsigned)n : largest);
    if (got == 0)
        return end_member(z, err);
    if (got < 0) {
        leave_member(z);
        if (got == Z_MEM_ERROR)
            return tc_no_memory(err, "unpacking");
        return tc_fail(err, TC_BAD_INPUT, "%s: member \"%s\" is corrupt: it does not unpack",
                       z->archive->path, z->archive->members[z->index].name);
    }
    z->done += (unsigned)got;
    *n_read = (size_t)got;
    return TC_OK;
}

tc_status wu_unzip_drain(wu_unzip *z, tc_err *err)
{
    unsigned char *buf = malloc(CHUNK);
    if (buf == NULL)
        return tc_no_memory(err, "unpacking");
    tc_status st;
    size_t n;
    do
        st = wu_unzip_read(z, buf, CHUNK, &n, err);
    while (st == TC_OK && n > 0);
    free(buf);
    return st;
}

void wu_unzip_close(wu_unzip **z)
{
    if (*z == NULL)
        return;
    leave_member(*z);
    if ((*z)->zip != NULL)
        unzClose((*z)->zip);
    free(*z);
    *z = NULL;
}

/* --- JSON members -------------------------------------------------------------------- */

/* An upper bound for the values in a JSON text. A parsed value takes up to a
 * few hundred bytes where its text took two, so they are counted first. */
static uint64_t count_values(const char *text, size_t n)
{
    uint64_t count = 1;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        const char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == ',' || c == '[' || c == '{') {
            count++;
        }
    }
    return count;
}

static tc_status parse_json(const char *where, const char *name, const char *text, size_t n,
                            json_t **out, tc_err *err)
{
    json_error_t fault;
    if (count_values(text, n) > WU_MAX_JSON_VALUES)
        return tc_fail(err, TC_BAD_INPUT, "%s: %s: more than %llu values", where, name,
                       (unsigned long long)WU_MAX_JSON_VALUES);
    json_t *json = json_loadb(text, n, JSON_REJECT_DUPLICATES, &fault);
    if (json == NULL && json_error_code(&fault) == json_error_out_of_memory)
        return tc_no_memory(err, name);
    if (json == NULL)
        return tc_fail(err, TC_BAD_INPUT, "%s: %s: line %d, column %d: %s", where, name, fault.line,
                       fault.column, wu_quote(fault.text).text);
    if (!json_is_object(json)) {
        json_decref(json);
        return tc_fail(err, TC_BAD_INPUT, "%s: %s: must be a JSON object", where, name);
    }
    *out = json;
    return TC_OK;
}

tc_status wu_unzip_json(wu_unzip *z, size_t index, json_t **out, tc_err *err)
{
    const wu_archive *a = z->archive;
    const wu_member *m = &a->members[index];
    *out = NULL;
    if (m->size > WU_MAX_JSON)
        return tc_fail(err, TC_BAD_INPUT, "%s: %s: %llu bytes, more than the limit of %llu", a->path,
                       m->name, (unsigned long long)m->size, (unsigned long long)WU_MAX_JSON);
    tc_status st = wu_unzip_begin(z, index, err);
    if (st != TC_OK)
        return st;
    char *text = malloc((size_t)m->size + 1);
    if (text == NULL)
        return tc_no_memory(err, m->name);
    size_t total = 0, n = 0;
    do {
        /* The byte beyond the size makes the last read see the end. */
        st = wu_unzip_read(z, text + total, (size_t)m->size + 1 - total, &n, err);
        total += n;
    } while (st == TC_OK && n > 0);
    if (st == TC_OK)
        st = parse_json(a->path, m->name, text, total, out, err);
    free(text);
    return st;
}
