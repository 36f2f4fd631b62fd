/*
 * two_readers UNIT RESULT SEED N FOLDER: makes N archives from a right result by changing the
 * structure of the ZIP file, and checks them against the work unit. For each accepted archive I it
 * writes to FOLDER the archive (I.npz) and a copy with the arrays that texcell read from it
 * (I.copy.npz): another reader must find the same in both (two_readers.py). Prints the number of
 * accepted archives.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "validator/check/val.h"
#include "workunits/format/npz.h"

#define MUST(x)                                             \
    do {                                                    \
        if (!(x)) {                                         \
            fprintf(stderr, "line %d: %s\n", __LINE__, #x); \
            exit(2);                                        \
        }                                                   \
    } while (0)

enum {
    MAX = 64,      /* largest number of members of an archive */
    LOCAL = 30,    /* bytes of a local header, without the name */
    ENTRY = 46,    /* bytes of an entry of the central directory, without the name */
    END = 22,      /* bytes of an end record, without the comment */
    ROOM = 1 << 20 /* bytes of the largest archive */
};

typedef struct bytes {
    unsigned char *p;
    size_t n;
} bytes;

/* A member; serialise() writes its parts in the order of a ZIP file. */
typedef struct member {
    unsigned char local[LOCAL], entry[ENTRY]; /* the local header; the directory entry */
    bytes local_name, name;   /* the name after the local header; after the directory entry */
    bytes local_extra, extra; /* the extra field of the local header; of the directory entry */
    bytes comment, data;
    bytes gap;  /* bytes before the local header */
    long shift; /* added to the offset that the directory entry gives */
} member;

typedef struct archive {
    size_t n, order[MAX], n_order; /* order: indices of the members in the directory's order */
    member m[MAX];
    bytes before_list; /* bytes between the last member and the central directory */
    bytes before_end;  /* bytes between the central directory and the end record */
    bytes comment;     /* the archive's comment */
    bytes behind;      /* bytes after the comment */
    unsigned char end[END];
    long end_shift[3]; /* added to the end record's count, size and offset */
    int zip64;         /* ZIP64 records: 0: none; 1: right; 2 to 7: each with another error */
} archive;

static uint64_t state; /* the random generator's state, never 0 */

/* Returns a random number below n (xorshift64). */
static unsigned rnd(unsigned n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 11) % n;
}

/* Returns the little-endian number of n bytes at p. */
static unsigned get(const unsigned char *p, unsigned n)
{
    unsigned v = 0;
    while (n-- > 0)
        v = v << 8 | p[n];
    return v;
}

/* Writes v as a little-endian number of n bytes to p. */
static void set(unsigned char *p, uint64_t v, unsigned n)
{
    for (; n > 0; n--, v >>= 8)
        *p++ = (unsigned char)v;
}

static bytes copy(const void *p, size_t n)
{
    bytes b = { malloc(n + 1), n };
    MUST(b.p != NULL);
    memcpy(b.p, p, n);
    return b;
}

static void replace(bytes *b, const void *p, size_t n)
{
    const bytes new = copy(p, n);
    free(b->p);
    *b = new;
}

/* --- reading and writing --------------------------------------------------------------------- */

/* Splits a file that texcell wrote into its parts: it has no extra fields, comments or gaps. The
 * archive has copies, which release() frees. */
static archive parse(const bytes *file)
{
    archive a = { 0 };
    const unsigned char *const end = file->p + file->n - END, *e = file->p + get(end + 16, 4);
    memcpy(a.end, end, END);
    for (; e < end; a.n++) {
        member *const m = &a.m[a.n];
        const unsigned char *const local = file->p + get(e + 42, 4);
        const size_t name = get(e + 28, 2);
        MUST(a.n < MAX);
        memcpy(m->local, local, LOCAL);
        memcpy(m->entry, e, ENTRY);
        m->name = copy(e + ENTRY, name);
        m->local_name = copy(local + LOCAL, name);
        m->data = copy(local + LOCAL + name, get(e + 20, 4));
        a.order[a.n_order++] = a.n;
        e += ENTRY + name;
    }
    return a;
}

static void release(archive *a)
{
    for (size_t i = 0; i < a->n; i++) {
        member *const m = &a->m[i];
        bytes *const all[] = { &m->local_name, &m->name, &m->local_extra, &m->extra,
                               &m->comment,    &m->data, &m->gap };
        for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
            free(all[k]->p);
    }
    free(a->before_list.p);
    free(a->before_end.p);
    free(a->comment.p);
    free(a->behind.p);
}

static void add(bytes *out, const void *p, size_t n)
{
    MUST(out->n + n <= ROOM);
    if (n > 0)
        memcpy(out->p + out->n, p, n);
    out->n += n;
}

/* Appends the ZIP64 end record and its locator. begin, size: offset and length of the central
 * directory. a->zip64 from 2 on selects an error: 2: the count, 3: the size, 4: the offset, 5: the
 * locator's offset, 6 and 7: a gap before or after the locator. */
static void add_zip64(const archive *a, bytes *out, size_t begin, size_t size)
{
    unsigned char record[56] = "PK\6\6", locator[20] = "PK\6\7";
    const size_t at = out->n;
    set(record + 4, 44, 8);
    set(record + 12, 45, 2);
    set(record + 14, 45, 2);
    set(record + 24, a->n_order + (a->zip64 == 2), 8);
    set(record + 32, a->n_order + (a->zip64 == 2), 8);
    set(record + 40, size - (a->zip64 == 3), 8);
    set(record + 48, begin + (a->zip64 == 4), 8);
    set(locator + 8, at + (a->zip64 == 5), 8);
    set(locator + 16, 1, 4);
    add(out, record, sizeof record);
    add(out, "gap", a->zip64 == 6 ? 3 : 0);
    add(out, locator, sizeof locator);
    add(out, "gap", a->zip64 == 7 ? 3 : 0);
}

/* Replaces the bytes in `out` by the archive as a file. */
static void serialise(const archive *a, bytes *out)
{
    size_t at[MAX];
    unsigned char end[END];
    out->n = 0;
    for (size_t i = 0; i < a->n; i++) {
        const member *const m = &a->m[i];
        add(out, m->gap.p, m->gap.n);
        at[i] = out->n;
        add(out, m->local, LOCAL);
        add(out, m->local_name.p, m->local_name.n);
        add(out, m->local_extra.p, m->local_extra.n);
        add(out, m->data.p, m->data.n);
    }
    add(out, a->before_list.p, a->before_list.n);
    const size_t begin = out->n;
    for (size_t i = 0; i < a->n_order; i++) {
        const member *const m = &a->m[a->order[i]];
        unsigned char entry[ENTRY];
        memcpy(entry, m->entry, ENTRY);
        set(entry + 42, at[a->order[i]] + (size_t)m->shift, 4);
        add(out, entry, ENTRY);
        add(out, m->name.p, m->name.n);
        add(out, m->extra.p, m->extra.n);
        add(out, m->comment.p, m->comment.n);
    }
    const size_t size = out->n - begin;
    if (a->zip64 > 0)
        add_zip64(a, out, begin, size);
    add(out, a->before_end.p, a->before_end.n);
    memcpy(end, a->end, END);
    set(end + 8, a->n_order + (size_t)a->end_shift[0], 2);
    set(end + 10, a->n_order + (size_t)a->end_shift[0], 2);
    set(end + 12, size + (size_t)a->end_shift[1], 4);
    set(end + 16, begin + (size_t)a->end_shift[2], 4);
    add(out, end, END);
    add(out, a->comment.p, a->comment.n);
    add(out, a->behind.p, a->behind.n);
}

/* --- changes --------------------------------------------------------------------------------- */

/* Returns a new value for a field: near the old one, a special one, or with one bit flipped. */
static unsigned value(unsigned old)
{
    static const unsigned some[] = { 0, 1, 2, 8, 20, 45, 0x20, 0x800, 0xffff, 0xffffffff };
    switch (rnd(4)) {
    case 0: return old + 1;
    case 1: return old - 1;
    case 2: return some[rnd(sizeof some / sizeof *some)];
    default: return old ^ 1u << rnd(32);
    }
}

/* Changes a random field that both headers of a member have. where: 0: in the local header, 1: in
 * the directory entry, 2: in both, to the same value. */
static void change_field(member *m, unsigned where)
{
    static const struct {
        unsigned local, size; /* offset in the local header, 2 less than in the entry; bytes */
    } fields[] = { { 4, 2 },  { 6, 2 },  { 8, 2 },  { 10, 2 }, { 12, 2 },
                   { 14, 4 }, { 18, 4 }, { 22, 4 }, { 26, 2 }, { 28, 2 } };
    const unsigned f = rnd(sizeof fields / sizeof *fields), at = fields[f].local,
                   size = fields[f].size;
    const unsigned new = value(get(m->local + at, size));
    if (where != 1)
        set(m->local + at, new, size);
    if (where != 0)
        set(m->entry + at + 2, new, size);
}

/* Replaces *b by bytes that a reader should ignore: noise, or a copy of the file's end record, of
 * its central directory with the end record, or a ZIP64 locator, which a reader may search for. */
static void insert_ignored(bytes *b, const bytes *file)
{
    unsigned char some[300];
    const size_t n = 1 + rnd(sizeof some);
    for (size_t i = 0; i < n; i++)
        some[i] = (unsigned char)rnd(256);
    switch (rnd(4)) {
    case 0: replace(b, some, n); break;
    case 1: replace(b, file->p + file->n - END, END); break;
    case 2:
        replace(b, file->p + get(file->p + file->n - 6, 4),
                file->n - get(file->p + file->n - 6, 4));
        break;
    default: replace(b, "PK\6\7\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0", 20); break;
    }
}

/* Compresses the member's data again: in another valid way, with wrong lengths, or with other
 * data. */
static void repack(member *m)
{
    const size_t size = get(m->entry + 24, 4), packed = get(m->entry + 20, 4);
    unsigned char *plain, *out;
    z_stream z = { 0 };
    if (size == 0 || size > ROOM / 4 || packed > m->data.n ||
        (get(m->entry + 10, 2) == 0 && size > packed))
        return; /* the member was changed before and cannot be decompressed */
    plain = malloc(size + 64);
    out = malloc(2 * size + 1024);
    MUST(plain != NULL && out != NULL);
    memset(plain, 0, size);
    z.next_in = m->data.p;
    z.avail_in = (uInt)packed;
    z.next_out = plain;
    z.avail_out = (uInt)size;
    if (get(m->entry + 10, 2) == 0) {
        memcpy(plain, m->data.p, size);
    } else {
        MUST(inflateInit2(&z, -MAX_WBITS) == Z_OK);
        (void)inflate(&z, Z_FINISH);
        inflateEnd(&z);
    }
    const unsigned how = rnd(6);
    size_t n = size;
    if (how == 0)
        plain[rnd((unsigned)size)] ^= (unsigned char)(1 << rnd(8)); /* other data, with their CRC */
    if (how == 1)
        memset(plain + n++, 'x', 1); /* longer than the headers say */
    const unsigned crc = (unsigned)crc32(0, plain, (uInt)size);
    z = (z_stream){
        .next_in = plain, .avail_in = (uInt)n, .next_out = out, .avail_out = (uInt)(2 * size + 1024)
    };
    MUST(deflateInit2(&z, (int)rnd(10), Z_DEFLATED, -MAX_WBITS, 8, (int)rnd(5)) == Z_OK);
    if (how == 2) {
        z.avail_in /= 2; /* in two blocks */
        (void)deflate(&z, Z_FULL_FLUSH);
        z.avail_in = (uInt)(n - n / 2);
    }
    (void)deflate(&z, how == 3 ? Z_SYNC_FLUSH : Z_FINISH); /* how 3: without a last block */
    size_t made = z.total_out;
    deflateEnd(&z);
    if (how == 4) /* how 4: with bytes after the last block */
        memcpy(out + made, "hidden", 6), made += 6;
    replace(&m->data, out, made);
    for (int i = 0; i < 2; i++) {
        unsigned char *const p = i == 0 ? m->local + 8 : m->entry + 10;
        set(p, Z_DEFLATED, 2);
        set(p + 6, crc, 4);
        set(p + 10, made, 4);
    }
    free(plain);
    free(out);
}

/* Makes one random change of the archive's structure. file: the unchanged archive. */
static void change(archive *a, const bytes *file)
{
    member *const m = &a->m[rnd((unsigned)a->n)];
    const unsigned i = rnd((unsigned)a->n_order), k = rnd((unsigned)a->n_order);
    const size_t swap = a->order[i];
    bytes *places[] = { &m->gap, &a->before_list, &a->before_end, &a->comment, &a->behind };
    switch (rnd(20)) {
    case 0:
    case 1:
    case 2: change_field(m, 0); break;
    case 3:
    case 4:
    case 5: change_field(m, 1); break;
    case 6:
    case 7: change_field(m, 2); break;
    case 8:
        a->order[i] = a->order[k];
        a->order[k] = swap;
        break;
    case 9:
        if (a->n_order < MAX)
            a->order[a->n_order++] = swap;
        break;
    case 10:
        memmove(a->order + i, a->order + i + 1, (--a->n_order - i) * sizeof *a->order);
        a->n_order += a->n_order == 0;
        break;
    case 11: insert_ignored(places[rnd(5)], file); break;
    case 12:
        insert_ignored(&m->comment, file);
        set(m->entry + 32, m->comment.n, 2);
        break;
    case 13:
        insert_ignored(&m->extra, file);
        set(m->entry + 30, m->extra.n, 2);
        break;
    case 14:
        insert_ignored(&m->local_extra, file);
        set(m->local + 28, m->local_extra.n, 2);
        break;
    case 15: a->end_shift[rnd(3)] += (long)rnd(3) - 1; break;
    case 16: a->zip64 = 1 + (int)rnd(7); break;
    case 17: repack(m); break;
    case 18: m->shift += rnd(2) ? (long)rnd(200) - 100 : 1; break;
    default:
        if (rnd(2))
            m->name.p[rnd((unsigned)m->name.n)] = (unsigned char)rnd(128);
        else
            set(m->entry + 34 + rnd(8), rnd(256), 1);
    }
}

/* Corrects the length of the archive's comment, so that some archives are accepted. */
static void correct_comment(archive *a)
{
    set(a->end + 20, a->comment.n, 2);
}

static void write_file(const char *path, const bytes *b)
{
    FILE *file = fopen(path, "wb");
    MUST(file != NULL && fwrite(b->p, 1, b->n, file) == b->n && fclose(file) == 0);
}

static bytes read_file(const char *path)
{
    bytes b = { malloc(ROOM), 0 };
    FILE *file = fopen(path, "rb");
    MUST(b.p != NULL && file != NULL);
    b.n = fread(b.p, 1, ROOM, file);
    fclose(file);
    return b;
}

/* Copies the accepted archive `from` to I.npz in the folder, and what texcell reads from it to
 * I.copy.npz. */
static void keep(const char *folder, unsigned long i, const char *from)
{
    char path[512], copied[512];
    wu_npz_reader *r = NULL;
    wu_npz_writer *w = NULL;
    const bytes b = read_file(from);
    snprintf(path, sizeof path, "%s/%lu.npz", folder, i);
    snprintf(copied, sizeof copied, "%s/%lu.copy.npz", folder, i);
    write_file(path, &b);
    MUST(wu_npz_open(path, NULL, &r, NULL) == TC_OK && wu_npz_create(copied, &w, NULL) == TC_OK &&
         wu_npz_copy(w, r, NULL) == TC_OK && wu_npz_close(&w, NULL) == TC_OK);
    wu_npz_reader_close(&r);
    free(b.p);
}

int main(int argc, char **argv)
{
    an_unit unit;
    char path[512];
    unsigned long accepted = 0, same = 0;
    MUST(argc == 6 && an_unit_read(argv[1], &unit, NULL) == TC_OK);
    const bytes file = read_file(argv[2]);
    const unsigned long seed = strtoul(argv[3], NULL, 10), n = strtoul(argv[4], NULL, 10);
    bytes out = { malloc(ROOM), 0 };
    const int fd = memfd_create("trial", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (unsigned long i = seed; i < seed + n; i++) {
        archive a = parse(&file);
        state = (i + 1) * 0x9e3779b97f4a7c15u;
        for (unsigned k = 1 + rnd(3); k > 0; k--)
            change(&a, &file);
        correct_comment(&a);
        serialise(&a, &out);
        release(&a);
        if (out.n == file.n && memcmp(out.p, file.p, file.n) == 0) {
            same++;
            continue;
        }
        MUST(ftruncate(fd, 0) == 0 && pwrite(fd, out.p, out.n, 0) == (ssize_t)out.n);
        tc_err err = { "" };
        const tc_status status = val_check(&unit, path, NULL, &err);
        if (status != TC_OK && status != TC_BAD_INPUT) {
            fprintf(stderr, "%lu: status %d: %s\n", i, (int)status, err.message);
            return 2;
        }
        if (status == TC_OK) {
            accepted++;
            keep(argv[5], i, path);
        }
    }
    close(fd);
    printf("%lu changed, %lu accepted\n", n - same, accepted);
    an_unit_free(&unit);
    free(file.p);
    free(out.p);
    return 0;
}
