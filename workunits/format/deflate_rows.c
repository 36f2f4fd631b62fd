/* Deflates rows of equal words: matches with the word before and with the row above alone. */
#include "workunits/format/deflate_rows.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The alphabets of RFC 1951. */
enum {
    END = 256,    /* of a block */
    LENGTH = 257, /* the first symbol of a match, whose length is 3 */
    LONGEST_SYMBOL = 285,
    LITERALS = 286, /* with the lengths of matches */
    DISTANCES = 30,
    CODES = 19, /* of which the lengths of codes are written */
    SHORT_ZEROS = 17,
    LONG_ZEROS = 18,
    SHORTEST = 3,
    LONGEST = 258,    /* bytes of a match */
    WINDOW = 1 << 15, /* how far back one can lie */
    CODE_BITS = 15,
    CODES_BITS = 7,
};

enum {
    MAX_TOKENS = 1 << 14,
    WORTH = 8, /* zlib may make less of what does not become so many times smaller */
};

struct wu_row_deflater {
    uint32_t tokens[MAX_TOKENS]; /* a literal, or length << 16 | distance - 1 */
    size_t n;
    uint32_t literals[LITERALS], distances[DISTANCES]; /* how often each symbol comes */
};

wu_row_deflater *wu_row_deflater_create(void)
{
    return malloc(sizeof(wu_row_deflater));
}

/* --- what repeats ---------------------------------------------------------------------------- */

/* A symbol with the bits that follow it. */
typedef struct symbol {
    unsigned code, extra, bits;
} symbol;

/* Of the codes that come 2^step for each number of extra bits. */
static symbol find_symbol(unsigned value, unsigned step)
{
    unsigned bits = 0;
    while (value >> bits >= 2u << step)
        bits++;
    return (symbol){ (bits << step) + (value >> bits), value & ((1u << bits) - 1), bits };
}

static symbol length_symbol(size_t length)
{
    symbol s = { LONGEST_SYMBOL, 0, 0 };
    if (length < LONGEST) {
        s = find_symbol((unsigned)length - SHORTEST, 2);
        s.code += LENGTH;
    }
    return s;
}

/* How many bytes are those that stand `back` before them, `most` at most. */
static size_t count_same(const unsigned char *data, size_t back, size_t most)
{
    const unsigned char *const from = data - back;
    size_t n = 0;
    while (n + 8 <= most && memcmp(data + n, from + n, 8) == 0)
        n += 8;
    while (n < most && data[n] == from[n])
        n++;
    return n;
}

static bool add_token(wu_row_deflater *d, uint32_t token)
{
    if (d->n == MAX_TOKENS)
        return false;
    d->tokens[d->n++] = token;
    return true;
}

static bool add_match(wu_row_deflater *d, size_t length, size_t back)
{
    bool good = true;
    while (good && length > 0) {
        const size_t left = length < LONGEST ? 0 : length - LONGEST;
        /* What is left is a match, too. */
        const size_t part = left > 0 && left < SHORTEST ? LONGEST - SHORTEST : length - left;
        good = add_token(d, (uint32_t)(part << 16 | (back - 1)));
        d->literals[length_symbol(part).code]++;
        d->distances[find_symbol((unsigned)back - 1, 1).code]++;
        length -= part;
    }
    return good;
}

static bool add_literal(wu_row_deflater *d, unsigned char byte)
{
    d->literals[byte]++;
    return add_token(d, byte);
}

/* False: there are too many tokens. */
static bool find_tokens(wu_row_deflater *d, wu_row_layout layout, const unsigned char *data,
                        size_t n, size_t before)
{
    const size_t backs[] = { layout.word, layout.row, layout.row - layout.word };
    bool good = true;
    d->n = 0;
    memset(d->literals, 0, sizeof d->literals);
    memset(d->distances, 0, sizeof d->distances);
    d->literals[END] = 1;
    for (size_t at = 0; good && at < n;) {
        size_t best = 0, back = 0;
        for (size_t i = 0; i < sizeof backs / sizeof *backs; i++) {
            const bool reaches = backs[i] > 0 && backs[i] <= WINDOW && backs[i] <= before + at;
            const size_t same = reaches ? count_same(data + at, backs[i], n - at) : 0;
            if (same > best) {
                best = same;
                back = backs[i];
            }
        }
        good = best < SHORTEST ? add_literal(d, data[at]) : add_match(d, best, back);
        at += best < SHORTEST ? 1 : best;
    }
    return good;
}

/* --- codes ----------------------------------------------------------------------------------- */

typedef struct code {
    uint8_t lengths[LITERALS];
    uint16_t bits[LITERALS]; /* the first to be written lowest */
} code;

/* The symbols that come, the rarest first. */
static size_t sort_symbols(const uint32_t *counts, size_t n, uint16_t *sorted)
{
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = used;
        if (counts[i] == 0)
            continue;
        for (; at > 0 && counts[sorted[at - 1]] > counts[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = (uint16_t)i;
        used++;
    }
    return used;
}

/* Huffman's lengths; the greatest of them. */
static unsigned find_lengths(const uint32_t *counts, size_t n, uint8_t *lengths)
{
    enum { NODES = 2 * LITERALS };
    uint16_t sorted[LITERALS], parents[NODES] = { 0 };
    uint32_t weights[NODES];
    uint8_t depths[NODES];
    const size_t leaves = sort_symbols(counts, n, sorted);
    size_t leaf = 0, node = leaves, end = leaves;
    unsigned most = leaves == 1;
    memset(lengths, 0, n);
    for (size_t i = 0; i < leaves; i++)
        weights[i] = counts[sorted[i]];
    for (; end + 1 < 2 * leaves; end++) {
        weights[end] = 0;
        for (int i = 0; i < 2; i++) {
            const bool is_leaf = leaf < leaves && (node == end || weights[leaf] <= weights[node]);
            const size_t least = is_leaf ? leaf++ : node++;
            weights[end] += weights[least];
            parents[least] = (uint16_t)end;
        }
    }
    for (size_t i = end; i-- > 0;) {
        depths[i] = i + 1 == end ? (uint8_t)most : (uint8_t)(depths[parents[i]] + 1);
        most = depths[i] > most ? depths[i] : most;
        if (i < leaves)
            lengths[sorted[i]] = depths[i];
    }
    return most;
}

static uint16_t reverse_bits(unsigned value, unsigned n)
{
    unsigned out = 0;
    for (unsigned i = 0; i < n; i++)
        out |= (value >> i & 1) << (n - 1 - i);
    return (uint16_t)out;
}

/* With no code longer than `limit`: what is rare counts for more until they fit. */
static void make_code(const uint32_t *counts, size_t n, unsigned limit, code *c)
{
    uint32_t evened[LITERALS];
    unsigned next = 0;
    memcpy(evened, counts, n * sizeof *counts);
    while (find_lengths(evened, n, c->lengths) > limit)
        for (size_t i = 0; i < n; i++)
            evened[i] = (evened[i] + 1) / 2;
    for (unsigned length = 1; length <= limit; length++, next *= 2)
        for (size_t i = 0; i < n; i++)
            if (c->lengths[i] == length)
                c->bits[i] = reverse_bits(next++, length);
}

/* --- writing --------------------------------------------------------------------------------- */

typedef struct bit_writer {
    unsigned char *to;
    size_t n, room; /* bytes; n > room: it does not fit */
    uint64_t waiting;
    unsigned n_waiting;
} bit_writer;

static void put_bits(bit_writer *w, unsigned value, unsigned n)
{
    w->waiting |= (uint64_t)value << w->n_waiting;
    for (w->n_waiting += n; w->n_waiting >= 8; w->n_waiting -= 8) {
        if (w->n < w->room)
            w->to[w->n] = (unsigned char)w->waiting;
        w->n++;
        w->waiting >>= 8;
    }
}

static void put_code(bit_writer *w, const code *c, size_t i)
{
    put_bits(w, c->bits[i], c->lengths[i]);
}

static size_t count_used(const code *c, size_t n, size_t least)
{
    while (n > least && c->lengths[n - 1] == 0)
        n--;
    return n;
}

/* The lengths of both codes, runs of zeros shortened. */
static void put_codes(bit_writer *w, const code *literals, const code *distances)
{
    static const uint8_t order[CODES] = { 16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                          11, 4,  12, 3, 13, 2, 14, 1, 15 };
    const size_t n = count_used(literals, LITERALS, LENGTH),
                 m = count_used(distances, DISTANCES, 1);
    uint8_t all[LITERALS + DISTANCES];
    symbol written[LITERALS + DISTANCES];
    uint32_t counts[CODES] = { 0 };
    size_t n_written = 0, n_codes = CODES;
    code c;
    memcpy(all, literals->lengths, n);
    memcpy(all + n, distances->lengths, m);
    for (size_t at = 0, zeros; at < n + m; at += zeros < SHORTEST ? 1 : zeros) {
        for (zeros = 0; at + zeros < n + m && all[at + zeros] == 0 && zeros < 138;)
            zeros++;
        symbol *const s = &written[n_written++];
        *s = zeros < SHORTEST ? (symbol){ all[at], 0, 0 }
             : zeros < 11     ? (symbol){ SHORT_ZEROS, (unsigned)zeros - SHORTEST, 3 }
                              : (symbol){ LONG_ZEROS, (unsigned)zeros - 11, 7 };
        counts[s->code]++;
    }
    make_code(counts, CODES, CODES_BITS, &c);
    while (n_codes > 4 && c.lengths[order[n_codes - 1]] == 0)
        n_codes--;
    put_bits(w, (unsigned)n - LENGTH, 5);
    put_bits(w, (unsigned)m - 1, 5);
    put_bits(w, (unsigned)n_codes - 4, 4);
    for (size_t i = 0; i < n_codes; i++)
        put_bits(w, c.lengths[order[i]], 3);
    for (size_t i = 0; i < n_written; i++) {
        put_code(w, &c, written[i].code);
        put_bits(w, written[i].extra, written[i].bits);
    }
}

static void put_match(bit_writer *w, const code *literals, const code *distances, uint32_t token)
{
    const symbol length = length_symbol(token >> 16), back = find_symbol(token & (WINDOW - 1), 1);
    put_code(w, literals, length.code);
    put_bits(w, length.extra, length.bits);
    put_code(w, distances, back.code);
    put_bits(w, back.extra, back.bits);
}

static void put_tokens(bit_writer *w, const wu_row_deflater *d)
{
    code literals, distances;
    make_code(d->literals, LITERALS, CODE_BITS, &literals);
    make_code(d->distances, DISTANCES, CODE_BITS, &distances);
    put_codes(w, &literals, &distances);
    for (size_t i = 0; i < d->n; i++)
        if (d->tokens[i] >> 16 == 0)
            put_code(w, &literals, d->tokens[i]);
        else
            put_match(w, &literals, &distances, d->tokens[i]);
    put_code(w, &literals, END);
}

size_t wu_deflate_rows(wu_row_deflater *d, wu_row_layout layout, const unsigned char *data,
                       size_t n, size_t before, bool last, unsigned char *out, size_t room)
{
    const size_t worth = n / WORTH < room ? n / WORTH : room;
    bit_writer w = { .to = out, .room = worth };
    assert(layout.word > 0 && layout.row % layout.word == 0);
    if (!find_tokens(d, layout, data, n, before))
        return 0;
    put_bits(&w, last ? 5 : 4, 3); /* with codes of its own */
    put_tokens(&w, d);
    if (!last)
        put_bits(&w, 0, 3);
    put_bits(&w, 0, (8 - w.n_waiting) % 8);
    if (!last)
        put_bits(&w, 0xffff0000, 32); /* a stored block of no bytes */
    return w.n <= w.room ? w.n : 0;
}
