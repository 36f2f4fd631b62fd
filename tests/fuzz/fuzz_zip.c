/* A libFuzzer mutator for ZIP files: it changes the contents of members and corrects checksums. */
#define _GNU_SOURCE /* memfd_create, memmem */
#include "tests/fuzz/fuzz_zip.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/fuzz/fuzz_fail.h"
#include "tests/fuzz/fuzz_files.h"
#include "workunits/format/archive.h"

/* libFuzzer's own mutator, and the one that libFuzzer calls instead if a target defines it. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

enum {
    MEMBER_MAX = 1 << 18, /* bytes of the largest member that is mutated */
    GROWTH = 256          /* bytes by which a mutation may make a member larger */
};

const char *fuzz_file(const uint8_t *data, size_t size)
{
    return files_input(data, size);
}

/* Writes two files into the input's folder, to which an input may refer: COMPANION, with the text
 * below, and AGAIN, a copy of the input. */
static void put_others(int fd)
{
    enum { COMPANION = 98, AGAIN = 99 };
    static const char text[] =
        "<OME UUID=\"urn:uuid:3\"><Image><Pixels SizeX=\"4\" SizeY=\"3\" SizeZ=\"2\" SizeC=\"1\" "
        "SizeT=\"1\" DimensionOrder=\"XYZCT\"><TiffData "
        "IFD=\"0\"><UUID>urn:uuid:2</UUID></TiffData>"
        "<TiffData IFD=\"0\" FirstZ=\"1\"><UUID "
        "FileName=\"99\">urn:uuid:4</UUID></TiffData></Pixels>"
        "</Image></OME>";
    const int companion = memfd_create("companion", MFD_CLOEXEC);
    if (companion < 0 || pwrite(companion, text, sizeof text - 1, 0) < 0 ||
        dup2(companion, COMPANION) < 0 || dup2(fd, AGAIN) < 0)
        abort();
    close(companion);
}

const char *fuzz_system_file(const uint8_t *data, size_t size)
{
    static char path[64];
    static int fd = -1;
    const bool may = fuzz_may_fail(false);
    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        put_others(fd);
    }
    if (fd < 0 || pwrite(fd, data, size, 0) != (ssize_t)size || ftruncate(fd, (off_t)size) != 0)
        abort();
    (void)fuzz_may_fail(may);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return path;
}

/* --- the mutator ----------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Corrects the CRCs of all chunks of a PNG. */
static void mend_png(uint8_t *data, size_t size)
{
    for (size_t at = 8; at + 12 <= size;) {
        const size_t n = (size_t)data[at] << 24 | (size_t)data[at + 1] << 16 |
                         (size_t)data[at + 2] << 8 | data[at + 3];
        if (n > size - at - 12)
            return;
        const uLong crc = crc32(0, data + at + 4, (uInt)n + 4);
        for (int i = 0; i < 4; i++)
            data[at + 8 + n + (size_t)i] = (uint8_t)(crc >> (24 - 8 * i));
        at += n + 12;
    }
}

/* Decompresses a member into `to` (MEMBER_MAX + GROWTH bytes); returns the number of bytes written,
 * or 0 if the member cannot be decompressed. */
static size_t unpacked(const wu_archive *a, size_t index, uint8_t *to)
{
    wu_unzip *z = NULL;
    size_t n = 0, got = 1;
    if (a->members[index].size > MEMBER_MAX || wu_unzip_open(a, NULL, &z, NULL) != TC_OK)
        return 0;
    wu_unzip_begin(z, index);
    while (got > 0 && wu_unzip_read(z, to + n, MEMBER_MAX + GROWTH - n, &got, NULL) == TC_OK)
        n += got;
    wu_unzip_close(&z);
    return got == 0 ? n : 0;
}

/* Replaces `old` bytes at offset `at` by m bytes. Returns the new length. */
static size_t replace(uint8_t *data, size_t n, size_t at, size_t old, const void *bytes, size_t m)
{
    if (n - old + m > MEMBER_MAX + GROWTH)
        return n;
    memmove(data + at + m, data + at + old, n - at - old);
    memcpy(data + at, bytes, m);
    return n - old + m;
}

/* Finds the first JSON value that begins after *at. Sets *at to the value's beginning, and returns
 * its end. */
static size_t end_of_value(const uint8_t *text, size_t n, size_t *at)
{
    int depth = 0;
    size_t i;
    while (*at < n && strchr(":,[", text[*at]) == NULL)
        ++*at;
    for (++*at; *at < n && strchr(" \n", text[*at]) != NULL;)
        ++*at;
    for (i = *at; i < n && (depth > 0 || strchr(",]}\n", text[i]) == NULL); i++) {
        if (text[i] == '"')
            while (++i < n && text[i] != '"')
                i += text[i] == '\\';
        else
            depth += (text[i] == '[' || text[i] == '{') - (text[i] == ']' || text[i] == '}');
    }
    return i;
}

/* Replaces a JSON value by another value of the text, or by one of a list. The bits of `random`
 * select both. Returns the new length. */
static size_t mutate_json(uint8_t *text, size_t n, unsigned random)
{
    static const char *const others[] = { "null",
                                          "true",
                                          "0",
                                          "1",
                                          "-1",
                                          "3",
                                          "1e999",
                                          "0.5",
                                          "9223372036854775808",
                                          "\"\"",
                                          "\"a/b\"",
                                          "[]",
                                          "[1,2]",
                                          "{}",
                                          "\"\\u00e9\"",
                                          "[\"a\",\"b\"]",
                                          "\"x\",\"about\":\"y\"",
                                          "\"x\",\"source\":\"z\"" };
    uint8_t copy[1024];
    size_t at = random % n, from = (random >> 8) % n;
    const size_t end = end_of_value(text, n, &at), until = end_of_value(text, n, &from),
                 m = until - from;
    const char *const other = others[random % (sizeof others / sizeof *others)];
    if (at >= n || end > n || end < at)
        return n;
    if ((random >> 4 & 1) == 0 || from >= n || until > n || m > sizeof copy)
        return replace(text, n, at, end - at, other, strlen(other));
    memcpy(copy, text + from, m);
    return replace(text, n, at, end - at, copy, m);
}

/* Changes the number of rows of an .npy array by -1 to 2, or its type to another one of the same
 * size. head: bytes of its header. Returns the new length. */
static size_t mutate_array(uint8_t *data, size_t n, size_t head, unsigned random)
{
    static const char types[][4] = { "<f8", "<i8", "|b1", "|u1", "<f4", "<i4" };
    char text[32];
    uint8_t *const type = memmem(data, head, "'descr': '", 10),
                   *shape = memmem(data, head, "'shape': (", 10);
    if (type == NULL || shape == NULL || data + head - shape < 24)
        return n;
    for (size_t i = 0; (random & 1) != 0 && i < sizeof types / sizeof *types; i++)
        if (memcmp(type + 10, types[i], 3) == 0) {
            memcpy(type + 10, types[i ^ 1], 3); /* the other type of the pair */
            return n;
        }
    shape += 10;
    const size_t old = (size_t)strtoul((const char *)shape, NULL, 10),
                 rows = old + (random >> 1) % 4 - 1;
    const size_t row = old > 0 ? (n - head) / old : 8,
                 digits = strspn((const char *)shape, "0123456789");
    const size_t m = (size_t)snprintf(text, sizeof text, "%zu", rows);
    const size_t end = (size_t)(data + head - shape) - 1;
    if (rows > old + 2 || head + rows * row > MEMBER_MAX || digits == 0 || digits > end || m > end)
        return n;
    /* Blanks at the end of the header keep its length. */
    memmove(shape + m, shape + digits, end - (digits > m ? digits : m));
    memcpy(shape, text, m);
    if (m < digits)
        memset(shape + end - (digits - m), ' ', digits - m);
    for (; n < head + rows * row; n++)
        data[n] = n >= head + row ? data[n - row] : 0;
    return head + rows * row;
}

/* Changes a member: its JSON, array or PNG, depending on its name, or single bytes. */
static size_t mutate_member(const char *name, uint8_t *data, size_t n, unsigned random)
{
    const size_t head = n > 10 && ends_with(name, ".npy") ? 10u + data[8] + 256u * data[9] : n;
    if (head < n && (random & 3) == 1)
        return mutate_array(data, n, head, random >> 2);
    if (head < n && (random & 3) != 0) {
        (void)LLVMFuzzerMutate(data + head, n - head, n - head);
        return n;
    }
    if (ends_with(name, ".json") && (random & 3) != 0)
        return mutate_json(data, n, random >> 2);
    n = LLVMFuzzerMutate(data, n, n + GROWTH);
    if (ends_with(name, ".png"))
        mend_png(data, n);
    return n;
}

/* The output. full: whether some bytes did not fit. */
typedef struct bytes {
    uint8_t *p;
    size_t n, room;
    bool full;
} bytes;

/* Appends n bytes. */
static void put(bytes *to, const void *from, size_t n)
{
    to->full = to->full || n > to->room - to->n;
    if (to->full)
        return;
    memcpy(to->p + to->n, from, n);
    to->n += n;
}

/* Appends a little-endian number of n bytes. */
static void put_number(bytes *to, uint64_t value, size_t n)
{
    for (; n > 0; n--, value >>= 8)
        put(to, &(uint8_t){ (uint8_t)value }, 1);
}

/* Appends the fields that a member's local header and its central directory entry have in common:
 * from the version needed to extract to the length of the extra field. */
static void put_shared(bytes *to, const wu_member *m)
{
    put_number(to, 20, 2);
    put_number(to, 0, 2);
    put_number(to, m->is_deflated ? Z_DEFLATED : 0, 2);
    put_number(to, 0x210000, 4); /* 1980-01-01 */
    put_number(to, m->crc, 4);
    put_number(to, m->compressed, 4);
    put_number(to, m->size, 4);
    put_number(to, strlen(m->name), 2);
    put_number(to, 0, 2);
}

/* Compresses (or stores) the changed content of a member; returns the number of bytes. */
static size_t packed(wu_member *m, const uint8_t *data, size_t n, bool store,
                     uint8_t to[2 * MEMBER_MAX])
{
    static z_stream z;
    m->is_deflated = !store;
    m->size = n;
    m->crc = (uint32_t)crc32(0, data, (uInt)n);
    if (z.state == NULL &&
        deflateInit2(&z, 1, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        abort();
    (void)deflateReset(&z);
    z.next_in = (uint8_t *)(uintptr_t)data;
    z.avail_in = (uInt)n;
    z.next_out = to;
    z.avail_out = 2 * MEMBER_MAX;
    if (store)
        memcpy(to, data, n);
    else if (deflate(&z, Z_FINISH) != Z_STREAM_END)
        abort();
    m->compressed = store ? n : z.total_out;
    return (size_t)m->compressed;
}

/* Writes the archive a, whose file is `in`, to *out with member `chosen` changed. Returns the
 * number of bytes, or 0 if that fails. */
static size_t repack(const wu_archive *a, const uint8_t *in, size_t chosen, unsigned seed,
                     bytes *out)
{
    static uint8_t member[MEMBER_MAX + GROWTH], small[2 * MEMBER_MAX];
    const unsigned random = seed * 2654435761u >> 8, order = random >> 20;
    const size_t last = order == 0 ? a->n - 1 : a->n;
    size_t n = unpacked(a, chosen, member), begin[256], list;
    if (n == 0 || a->n > sizeof begin / sizeof *begin)
        return 0;
    n = mutate_member(a->members[chosen].name, member, n, random);
    n = packed(&a->members[chosen], member, n, (seed >> 20 & 3) == 0, small);
    /* One time in eight the changed member is moved to the end or left out. */
    if (order < 2) {
        const wu_member to_end = a->members[chosen];
        memmove(&a->members[chosen], &a->members[chosen + 1], (a->n - 1 - chosen) * sizeof to_end);
        chosen = a->n - 1;
        a->members[chosen] = to_end;
    }
    for (size_t i = 0; i < last; i++) {
        const wu_member *const m = &a->members[i];
        begin[i] = out->n;
        put(out, "PK\3\4", 4);
        put_shared(out, m);
        put(out, m->name, strlen(m->name));
        put(out, i == chosen ? small : in + m->data, (size_t)m->compressed);
    }
    list = out->n;
    for (size_t i = 0; i < last; i++) {
        const wu_member *const m = &a->members[i];
        put(out, "PK\1\2\24", 6);
        put_shared(out, m);
        put_number(out, 0, 8);
        put_number(out, 0, 2);
        put_number(out, begin[i], 4);
        put(out, m->name, strlen(m->name));
    }
    const size_t size = out->n - list;
    put(out, "PK\5\6\0\0\0", 8);
    put_number(out, last, 2);
    put_number(out, last, 2);
    put_number(out, size, 4);
    put_number(out, list, 4);
    put_number(out, 0, 2);
    return out->full ? 0 : out->n;
}

/* --- TIFF ------------------------------------------------------------------------------------ */

/* Returns the number of n bytes at p. big: whether the most significant byte is first. */
static uint32_t number(const uint8_t *p, size_t n, bool big)
{
    uint32_t value = 0;
    for (size_t i = 0; i < n; i++)
        value |= (uint32_t)p[big ? n - 1 - i : i] << 8 * i;
    return value;
}

static void set_number(uint8_t *p, size_t n, bool big, uint32_t value)
{
    for (size_t i = 0; i < n; i++)
        p[big ? n - 1 - i : i] = (uint8_t)(value >> 8 * i);
}

/* Changes tag, type, count or value of an entry in a directory of a TIFF, or the link to another
 * page. Returns whether the input is a TIFF with an entry. */
static bool mutate_tiff(uint8_t *data, size_t size, unsigned seed)
{
    /* Tags that readers use, and values with a meaning in them or at the limits of numbers. */
    static const uint16_t tags[] = { 254, 256, 257, 258, 259, 262, 270, 273,  274,
                                     277, 278, 279, 282, 284, 296, 317, 320,  322,
                                     323, 324, 325, 338, 339, 347, 530, 32997 };
    static const uint32_t values[] = { 0,   1,   2,     3,     4,     5,     6,        7,
                                       8,   9,   12,    16,    24,    32,    64,       100,
                                       255, 256, 32773, 32946, 65535, 65536, 1u << 30, UINT32_MAX };
    const bool big = size > 8 && memcmp(data, "MM\0*", 4) == 0;
    if (size <= 8 || (!big && memcmp(data, "II*\0", 4) != 0))
        return false;
    size_t at = number(data + 4, 4, big), n = 0;
    for (unsigned page = seed >> 4 & 3;; page--) {
        if (at + 2 > size || (n = number(data + at, 2, big)) == 0 || at + 2 + 12 * n + 4 > size)
            return false;
        const size_t next = number(data + at + 2 + 12 * n, 4, big);
        if (page == 0 || next == 0)
            break;
        at = next;
    }
    uint8_t *const entry = data + at + 2 + 12 * ((seed >> 6) % n);
    const uint32_t value = values[(seed >> 16) % (sizeof values / sizeof values[0])];
    switch (seed >> 13 & 7) {
    case 0: set_number(entry, 2, big, tags[(seed >> 16) % (sizeof tags / sizeof tags[0])]); break;
    case 1: set_number(entry + 2, 2, big, (seed >> 16) % 19); break;
    case 2: set_number(entry + 4, 4, big, value); break;
    case 3:
        set_number(data + at + 2 + 12 * n, 4, big, seed & 1 << 12 ? (uint32_t)at : value);
        break;
    default: set_number(entry + 8, number(entry + 2, 2, big) == 3 ? 2 : 4, big, value);
    }
    return true;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    static uint8_t room[1 << 20];
    bytes out = { .p = room, .room = max_size < sizeof room ? max_size : sizeof room };
    wu_archive *a = NULL;
    size_t result = 0;
    if (seed % 3 == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    if (size > 8 && memcmp(data, "\x89PNG\r\n\x1a\n", 8) == 0) {
        size = LLVMFuzzerMutate(data, size, max_size);
        mend_png(data, size);
        return size;
    }
    if (mutate_tiff(data, size, seed))
        return size;
    if (wu_archive_read(fuzz_file(data, size), WU_MAX_MEMBERS, NULL, &a, NULL) == TC_OK && a->n > 0)
        result = repack(a, data, (seed >> 4) % a->n, seed, &out);
    wu_archive_destroy(&a);
    if (result == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    memcpy(data, room, result);
    return result;
}

static char folder[] = "/dev/shm/texcell-fuzz-XXXXXX";

static void remove_folder(void)
{
    char command[sizeof folder + 16];

    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0)
        abort();
}

const char *fuzz_folder(void)
{
    if (mkdtemp(folder) == NULL) {
        strcpy(folder, "/tmp/texcell-fuzz-XXXXXX");
        if (mkdtemp(folder) == NULL)
            abort();
    }
    if (atexit(remove_folder) != 0)
        abort();
    return folder;
}
