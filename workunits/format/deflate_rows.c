/*
 * Deflates rows of words (samples or pixels), which all have the same number of bytes. Terms are
 * those of RFC 1951 (deflate): a match repeats a number of bytes (its length) that occurred a
 * number of bytes before (its distance). Searches for matches only at the word before and in the
 * row above; or, with layout.matches_anywhere, at the last position that began with the same bytes
 * and, for words of three bytes (pixels in colour), at the last equal pixel.
 */
#include "workunits/format/deflate_rows.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Symbols and limits of RFC 1951. */
enum {
    END = 256,            /* symbol of the end of a block */
    LENGTH = 257,         /* first symbol of the length of a match: for length 3 */
    LONGEST_SYMBOL = 285, /* symbol of a match of LONGEST bytes */
    LITERALS = 286,       /* number of symbols of the code of literals (bytes) and lengths */
    DISTANCES = 30,       /* number of symbols of the code of distances */
    CODES = 19,           /* number of symbols of the code that encodes the bit lengths of the other
                             two codes ("code length code") */
    SHORT_ZEROS = 17,     /* its symbol for 3 to 10 zeros */
    LONG_ZEROS = 18,      /* its symbol for 11 to 138 zeros */
    SHORTEST = 3,         /* bytes of the shortest match */
    LONGEST = 258,        /* bytes of the longest match */
    WINDOW = 1 << 15,     /* largest distance */
    CODE_BITS = 12,       /* longest code that is used here; RFC 1951 allows 15 bits */
    CODES_BITS = 7,       /* longest code of a symbol of the code length code */
};

enum {
    MAX_SEQUENCES = 1 << 14, /* the most sequences of a block */
    MAX_LITERALS = 1 << 15,  /* the most literals of a block */
    STEP = 4,   /* a match is searched for every STEP bytes, and found if STEP bytes are equal */
    EIGHT = 8,  /* bytes that load_eight reads */
    GROUP = 64, /* words whose matches are searched for at a time */
    PIXEL = 3,  /* bytes of a word that is a pixel in colour */
    PIXEL_BITS = 12,     /* bits of the hash of a pixel */
    NEAR = 1 << 10,      /* wu_row_deflater.near of the first block */
    MATCH_BITS = 8,      /* a match of one pixel takes about MATCH_BITS + log2(distance) bits */
    MOST_SAME = 1 << 15, /* the most bytes that count_same counts */
    HASH_BITS = 15,      /* bits of the hash of a position's first bytes */
};

/* A number of literals, and the match that follows them. */
typedef struct sequence {
    uint16_t length;         /* length of the match; 0 if no match follows the literals */
    uint16_t literals, back; /* number of literals; distance of the match */
    uint16_t back_symbol;    /* symbol of the distance */
} sequence;

struct wu_row_deflater {
    /* Positions in the stream modulo 2^16, used only if layout.matches_anywhere is set: */
    uint16_t places[1 << HASH_BITS];  /* for each hash, the last position of bytes with this hash */
    uint16_t pixels[1 << PIXEL_BITS]; /* for each hash of a pixel, the last position of a sequence
                                         that begins with such a pixel */
    uint16_t begin;                   /* the position of the first byte of `data` */
    /* The greatest distance of a match of one pixel in the current block; if it is less than NEAR,
     * no such matches are searched for. */
    size_t near;
    /* The current block: */
    sequence sequences[MAX_SEQUENCES];
    size_t n, n_literals; /* number of sequences, and of literals in them */
    uint32_t literals[LITERALS], distances[DISTANCES]; /* how often each symbol occurs */
    /* Further counts of literals. Consecutive literals are counted in different tables, so that an
     * addition need not wait for the one before. */
    uint32_t bytes[3][256];
    uint32_t lengths[LONGEST + 1]; /* how often each length of a match occurs; a match longer than
                                      LONGEST counts as its parts (first_part_length) */
};

wu_row_deflater *wu_row_deflater_create(void)
{
    return calloc(1, sizeof(wu_row_deflater));
}

/* --- matches --------------------------------------------------------------------------------- */

/* A symbol (`code`), and the number `extra` that follows it in `bits` bits. */
typedef struct symbol {
    unsigned code, extra, bits;
} symbol;

/* Returns the symbol for a value, in an alphabet with 2^step symbols for each number of extra bits
 * (4 for lengths, 2 for distances: RFC 1951, section 3.2.5). */
static symbol find_symbol(unsigned value, unsigned step)
{
    const unsigned bits = ((unsigned)__builtin_clz(value | 1u << step) ^ 31) - step;
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

static unsigned distance_symbol(size_t back)
{
    return find_symbol((unsigned)back - 1, 1).code;
}

#ifdef __SSE2__
/* Returns 0xff in each byte in which the 16 bytes at a and b are equal. */
static inline __m128i compare16(const unsigned char *a, const unsigned char *b)
{
    return _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(const void *)a),
                          _mm_loadu_si128((const __m128i *)(const void *)b));
}

static inline bool is_same32(const unsigned char *a, const unsigned char *b)
{
    return _mm_movemask_epi8(_mm_and_si128(compare16(a, b), compare16(a + 16, b + 16))) == 0xffff;
}
#endif

/* The index, in memory, of the first byte of v that is not 0; v != 0. */
static size_t first_nonzero(uint64_t v)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return (size_t)__builtin_ctzll(v) / 8;
#else
    return (size_t)__builtin_clzll(v) / 8;
#endif
}

/* Returns the number of bytes from `data` on that equal the bytes at the distance `back`. Counts at
 * most `most` bytes, and at most MOST_SAME. */
static size_t count_same(const unsigned char *data, size_t back, size_t most)
{
    const unsigned char *const from = data - back;
    size_t n = 0;
    most = most < MOST_SAME ? most : MOST_SAME;
#ifdef __SSE2__
    while (n + 32 <= most && is_same32(data + n, from + n))
        n += 32;
#endif
    for (uint64_t a, b; n + sizeof a <= most; n += sizeof a) {
        memcpy(&a, data + n, sizeof a);
        memcpy(&b, from + n, sizeof b);
        if (a != b)
            return n + first_nonzero(a ^ b);
    }
    while (n < most && data[n] == from[n])
        n++;
    return n;
}

/* A match that is longer than LONGEST is written in parts. Returns the length of the first part of
 * the `left` bytes, chosen such that the rest is empty or long enough for a match. */
static size_t first_part_length(size_t left)
{
    return left <= LONGEST ? left : left < LONGEST + SHORTEST ? LONGEST - SHORTEST : LONGEST;
}

/* Appends a sequence, and counts its match; the caller counts its literals. length, back: length
 * and distance of the match. length is 0 if there is no match. */
static inline void add_sequence(wu_row_deflater *d, size_t literals, size_t length, size_t back)
{
    const unsigned code = length > 0 ? distance_symbol(back) : 0;
    assert(length <= UINT16_MAX);
    d->sequences[d->n++] =
        (sequence){ (uint16_t)length, (uint16_t)literals, (uint16_t)back, (uint16_t)code };
    d->n_literals += literals;
    if (length == 0)
        return;
    uint32_t *const distance = &d->distances[code];
    for (size_t part; length > LONGEST; length -= part) {
        part = first_part_length(length);
        d->lengths[part]++;
        ++*distance;
    }
    d->lengths[length]++;
    ++*distance;
}

/* Counts the bytes from data[at] to data[end - 1], if there are any, as literals. */
static void count_between(wu_row_deflater *d, const unsigned char *data, size_t at, size_t end)
{
    for (; at + 4 <= end; at += 4) { /* four tables in turn */
        d->literals[data[at]]++;
        for (size_t k = 0; k < 3; k++)
            d->bytes[k][data[at + k + 1]]++;
    }
    for (; at < end; at++)
        d->literals[data[at]]++;
}

/* Whether the STEP bytes at `data` equal the bytes at the distance `back`. */
static bool is_same(const unsigned char *data, size_t back)
{
    return memcmp(data, data - back, STEP) == 0;
}

/* A match: bytes [at, at + length) equal the bytes at the distance `back`. */
typedef struct match {
    size_t at, length, back;
} match;

/* Returns the longest match at one of the distances `backs` that contains data[at] and begins at
 * `from` or later; its length is 0 if there is none. n: bytes of data; before: number of bytes
 * before data that a match may refer to. */
static match find_match(const size_t *backs, size_t n_backs, const unsigned char *data, size_t from,
                        size_t at, size_t n, size_t before)
{
    match best = { .length = 0 };
    for (size_t i = 0; i < n_backs; i++) {
        match m = { at, 0, backs[i] };
        if (m.back > before + at || !is_same(data + at, m.back))
            continue;
        while (m.at > from && m.at + before > m.back &&
               data[m.at - 1] == *(data + m.at - 1 - m.back))
            m.at--;
        /* This match is longer than the best one only if more + 1 bytes from data[at] on are equal.
         * The last STEP bytes of these are compared first. */
        const size_t back_part = at - m.at,
                     more = best.length > back_part ? best.length - back_part : 0;
        if (more >= STEP && (more >= n - at || !is_same(data + at + more + 1 - STEP, m.back)))
            continue;
        m.length = at - m.at + count_same(data + at, m.back, n - at);
        best = m.length > best.length ? m : best;
    }
    return best;
}

/* Reads eight bytes as a number, the first byte being the lowest. */
static inline uint64_t load_eight(const unsigned char *p)
{
    return p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 |
           (uint64_t)p[4] << 32 | (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 |
           (uint64_t)p[7] << 56;
}

/* A hash is the highest bits of a product with this odd number (2^64 divided by the golden ratio),
 * which depend on all bits of the other factor. */
#define HASH UINT64_C(0x9e3779b97f4a7c15)

/* Returns the distance from an earlier position to a position, both modulo 2^16, if the distance is
 * at most WINDOW; otherwise returns some number from 1 to WINDOW. */
static size_t distance_from(unsigned position, unsigned earlier)
{
    return ((position - earlier - 1) & (WINDOW - 1)) + 1;
}

/* For each of n <= GROUP words from `data` on, looks up the last position with the same first bytes
 * (the bytes in `mask`), and sets backs[k] to its distance. Returns a number in which bit k is set
 * if there is such a position for word k. position: the position of data[0] in the stream; most:
 * the greatest distance. No branch depends on the data, because processors could not predict it. */
static inline uint64_t find_last_positions(uint16_t *places, const unsigned char *data, size_t word,
                                           uint64_t mask, size_t n, unsigned position, size_t most,
                                           uint16_t *backs)
{
    uint64_t found = 0;
    unsigned char hits[GROUP] = { 0 };
    for (size_t k = 0; k < n; k++, data += word, position += (unsigned)word) {
        const uint64_t bytes = load_eight(data) & mask;
        uint16_t *const place = &places[bytes * HASH >> (64 - HASH_BITS)];
        const size_t back = (uint16_t)(position - *place), invalid = back - 1 >= most;
        const uint64_t other = load_eight(data - (back & (invalid - 1))); /* data, if invalid */
        *place = (uint16_t)position;
        backs[k] = (uint16_t)back;
        hits[k] = (((other ^ bytes) & mask) | invalid) == 0;
    }
    for (size_t k = 0; k < GROUP; k += EIGHT) /* the product collects the eight lowest bits */
        found |= (load_eight(hits + k) * UINT64_C(0x0102040810204080) >> 56) << k;
    return found;
}

/* The same as find_last_positions for words of three bytes, and faster, as `word` and `mask` (two
 * words) are constants. */
__attribute__((noinline)) static uint64_t find_last_positions_rgb(uint16_t *places,
                                                                  const unsigned char *data,
                                                                  size_t n, unsigned position,
                                                                  size_t most, uint16_t *backs)
{
    return find_last_positions(places, data, PIXEL, UINT64_MAX >> 16, n, position, most, backs);
}

/* For each of n pixels from `data` on, looks up the last position that began with the same two
 * pixels (six bytes), and sets backs[k] to its distance, or to 0 if there is none. position: the
 * position of data[0] in the stream. At least WINDOW bytes must precede data[0]. */
__attribute__((noinline)) static void find_pairs(uint16_t *places, const unsigned char *data,
                                                 size_t n, unsigned position, uint16_t *backs)
{
    for (size_t k = 0; k < n; k++, data += PIXEL, position += PIXEL) {
        const uint64_t bytes = load_eight(data) << 16; /* the first six bytes */
        uint16_t *const place = &places[bytes * HASH >> (64 - HASH_BITS)];
        const size_t back = distance_from(position, *place);
        *place = (uint16_t)position;
        backs[k] = load_eight(data - back) << 16 == bytes ? (uint16_t)back : 0;
    }
}

/* Returns the number of words of the match at `data`, whose first `fewest` words are known to be
 * the same. most: the most bytes that the match may have. At least EIGHT bytes must follow `data`.
 */
static inline size_t count_words_same(const unsigned char *data, size_t back, size_t word,
                                      size_t fewest, size_t most)
{
    const uint64_t differing = load_eight(data) ^ load_eight(data - back);
    size_t same = EIGHT;
    if (differing != 0 && word == PIXEL) /* eight bytes are fewer than three pixels: two match */
        return fewest;
    if (differing != 0)
        same = (size_t)__builtin_ctzll(differing) / 8;
    else if (most > EIGHT)
        same += count_same(data + EIGHT, back, most - EIGHT);
    return (same < most ? same : most) / word;
}

/* Counts the bytes of some words as literals: of the words at data + k * word whose bit k is set in
 * `words`. */
static void count_words(wu_row_deflater *d, const unsigned char *data, size_t word, uint64_t words)
{
    for (; words != 0; words &= words - 1) {
        const unsigned char *const at = data + (size_t)__builtin_ctzll(words) * word;
        d->literals[at[0]]++;
        if (word > 1)
            d->bytes[0][at[1]]++;
        if (word > 2)
            d->bytes[1][at[2]]++;
        for (size_t i = 3; i < word; i++)
            d->bytes[2][at[i]]++;
    }
}

/* Adds the matches of n words from data[at] on, and counts the literals between the matches. backs,
 * found: the output of find_last_positions; fewest: number of words of the shortest match; from:
 * the index at which the next literals begin; end: the index at which matches must end. Returns the
 * new value of `from`. */
static size_t add_group(wu_row_deflater *d, size_t word, size_t fewest, const unsigned char *data,
                        size_t at, size_t n, const uint16_t *backs, uint64_t found, size_t from,
                        size_t end)
{
    uint64_t left = UINT64_MAX >> (GROUP - n); /* bit k: word k is not in a match */
    if (from > at)
        left = from - at < n * word ? left >> (from - at) / word << (from - at) / word : 0;
    while ((found & left) != 0) {
        const size_t k = (size_t)__builtin_ctzll(found & left), begin = at + k * word,
                     same = count_words_same(data + begin, backs[k], word, fewest, end - begin);
        const uint64_t all = same < GROUP ? (UINT64_C(1) << same) - 1 : UINT64_MAX;
        add_sequence(d, begin - from, same * word, backs[k]);
        from = begin + same * word;
        left &= ~(all << k);
    }
    count_words(d, data + at, word, left);
    return from;
}

/* Does the work of add_group for pixels. Adds the matches of two pixels or more that find_pairs has
 * found. For each pixel between these, adds a match with the last equal pixel that is in d->pixels,
 * if its distance is at most d->near. No branch depends on whether a match has one or two pixels,
 * because processors could not predict it. backs: the output of find_pairs. */
__attribute__((noinline)) static size_t add_pixels(wu_row_deflater *d, const unsigned char *data,
                                                   size_t at, size_t n, const uint16_t *backs,
                                                   size_t from, size_t end)
{
    const unsigned char *pixel = data + at, *const group_end = pixel + n * PIXEL;
    const unsigned begin = d->begin;
    const size_t near = d->near;
    sequence *const first = d->sequences + d->n, *to = first;
    size_t literals = from < at ? at - from : 0, n_literals = literals, pairs = 0, longer = 0;
    if (from > at) {
        pixel += from - at;
        backs += (from - at) / PIXEL;
    }
    while (pixel < group_end) {
        const uint64_t bytes = load_eight(pixel);
        const unsigned here = begin + (unsigned)(pixel - data);
        uint16_t *const place = &d->pixels[(bytes << 40) * HASH >> (64 - PIXEL_BITS)];
        /* is_pair: 1 if pair_back > 0, else 0. back: pair_back, or the distance in d->pixels. */
        const size_t pair_back = *backs, is_pair = (0 - (uint64_t)pair_back) >> 63,
                     back = pair_back + (distance_from(here, *place) & (is_pair - 1));
        const uint64_t differing = load_eight(pixel - back) ^ bytes;
        *place = (uint16_t)here;
        if (differing << 40 != 0 || back > (near | is_pair * WINDOW)) { /* no pixel matches */
            d->literals[pixel[0]]++;
            d->bytes[0][pixel[1]]++;
            d->bytes[1][pixel[2]]++;
            literals += PIXEL;
            n_literals += PIXEL;
            pixel += PIXEL;
            backs++;
        } else if (differing == 0) {
            const size_t left = (size_t)(data + end - pixel),
                         same =
                             left <= EIGHT
                                 ? left / PIXEL
                                 : (EIGHT + count_same(pixel + EIGHT, back, left - EIGHT)) / PIXEL;
            d->n = (size_t)(to++ - d->sequences);
            add_sequence(d, literals, same * PIXEL, back);
            n_literals -= literals; /* add_sequence has added them to d->n_literals */
            literals = 0;
            longer++;
            pixel += same * PIXEL;
            backs += same;
        } else {
            const unsigned code = distance_symbol(back);
            const size_t same = 1 + is_pair;
            *to++ = (sequence){ (uint16_t)(same * PIXEL), (uint16_t)literals, (uint16_t)back,
                                (uint16_t)code };
            d->distances[code]++;
            literals = 0;
            pairs += is_pair;
            pixel += same * PIXEL;
            backs += same;
        }
    }
    d->lengths[(size_t)2 * PIXEL] += (uint32_t)pairs;
    d->lengths[PIXEL] += (uint32_t)((size_t)(to - first) - pairs - longer);
    d->n = (size_t)(to - d->sequences);
    d->n_literals += n_literals - literals;
    return (size_t)(pixel - data) - literals;
}

/* Does the work of find_sequences if layout.matches_anywhere is set. Matches consist of whole words
 * within a row, since if one byte of a word repeats, mostly all of its bytes do. If the length of a
 * row is not a multiple of the word's, the excess bytes are at the beginning of the row, where PNG
 * has the number of the filter. */
static size_t find_anywhere(wu_row_deflater *d, wu_row_layout layout, const unsigned char *data,
                            size_t at, size_t n, size_t before)
{
    const size_t word = layout.word, lead = layout.row % word, in_row = at % layout.row,
                 least = (STEP + word - 1) / word * word; /* bytes of the shortest match */
    const uint64_t mask = UINT64_MAX >> (64 - 8 * least);
    /* from: the index at which the next literals begin; counted: the index up to which literals
     * have been counted. */
    size_t from = at, counted = at, row_end = at - in_row + layout.row;
    uint16_t backs[GROUP];
    at += in_row < lead ? lead - in_row : (layout.row - in_row) % word;
    while (at + EIGHT <= n && d->n + GROUP < MAX_SEQUENCES &&
           d->n_literals + at + GROUP * word <= MAX_LITERALS + from) {
        if (at + least > row_end) {
            at = row_end + lead;
            row_end += layout.row;
            continue;
        }
        const size_t end = row_end < n ? row_end : n,
                     last = n - EIGHT < end - least ? n - EIGHT : end - least,
                     m = last - at < GROUP * word ? (last - at) / word + 1 : GROUP,
                     most = before + at < WINDOW ? before + at : WINDOW;
        const unsigned position = d->begin + (unsigned)at;
        count_between(d, data, counted > from ? counted : from, at);
        if (word == PIXEL && most == WINDOW && d->near >= NEAR) {
            find_pairs(d->places, data + at, m, position, backs);
            from = add_pixels(d, data, at, m, backs, from, end);
        } else {
            const uint64_t found =
                word == PIXEL
                    ? find_last_positions_rgb(d->places, data + at, m, position, most, backs)
                    : find_last_positions(d->places, data + at, word, mask, m, position, most,
                                          backs);
            from = add_group(d, word, least / word, data, at, m, backs, found, from, end);
        }
        at += m * word;
        counted = at;
    }
    /* The block ends here, at the last words or when it is full: the rest becomes literals. */
    const size_t end = at + EIGHT > n ? n : at;
    if (end <= from)
        return from;
    count_between(d, data, counted > from ? counted : from, end);
    add_sequence(d, end - from, 0, 0);
    return end;
}

/* Lists the distances at which matches are searched for: one word, one row, and one row less one
 * word. Distances larger than WINDOW are left out. Returns their number. */
static size_t list_backs(wu_row_layout layout, size_t backs[3])
{
    const size_t all[] = { layout.word, layout.row, layout.row - layout.word };
    size_t n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] > 0 && all[i] <= WINDOW)
            backs[n++] = all[i];
    return n;
}

/* Finds the sequences of the block that begins at data[at]. Returns the index of the block's end.
 * n: bytes of data; before: number of bytes before `data` that a match may refer to. */
static size_t find_sequences(wu_row_deflater *d, wu_row_layout layout, const unsigned char *data,
                             size_t at, size_t n, size_t before)
{
    size_t backs[3];
    const size_t n_backs = list_backs(layout, backs);
    d->n = d->n_literals = 0;
    memset(d->literals, 0, sizeof d->literals);
    memset(d->distances, 0, sizeof d->distances);
    memset(d->bytes, 0, sizeof d->bytes);
    memset(d->lengths, 0, sizeof d->lengths);
    d->literals[END] = 1;
    if (layout.matches_anywhere)
        at = find_anywhere(d, layout, data, at, n, before);
    while (!layout.matches_anywhere && at < n && d->n < MAX_SEQUENCES &&
           d->n_literals < MAX_LITERALS) {
        const size_t room = MAX_LITERALS - d->n_literals, to = n - at < room ? n : at + room;
        match m = { .length = 0 };
        size_t i = at;
        /* For noise, nearly all of the time is spent in this loop. */
        for (; i + STEP <= to && m.length == 0; i += STEP)
            m = find_match(backs, n_backs, data, at, i, n, before);
        m.at = m.length > 0 ? m.at : to;
        count_between(d, data, at, m.at);
        add_sequence(d, m.at - at, m.length, m.back);
        at = m.at + m.length;
    }
    for (size_t i = 0; i < 256; i++)
        d->literals[i] += d->bytes[0][i] + d->bytes[1][i] + d->bytes[2][i];
    for (size_t i = SHORTEST; i <= LONGEST; i++)
        d->literals[length_symbol(i).code] += d->lengths[i];
    return at;
}

/* --- codes ----------------------------------------------------------------------------------- */

/* A Huffman code. */
typedef struct code {
    uint8_t lengths[LITERALS]; /* number of bits of each symbol; 0 if the symbol does not occur */
    uint16_t bits[LITERALS];   /* the bits of each symbol; the first bit is the lowest */
} code;

/* Sorts the symbols whose count is not 0, the rarest first and equal counts by symbol. Returns
 * their number. A radix sort: by the lowest byte of the counts, then by each higher one. */
static size_t sort_symbols(const uint32_t *counts, size_t n, uint16_t *sorted)
{
    uint16_t other[LITERALS], *from = other, *to = sorted;
    uint32_t most = 0;
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        from[used] = (uint16_t)i;
        used += counts[i] > 0;
        most = counts[i] > most ? counts[i] : most;
    }
    for (unsigned shift = 0; shift == 0 || (shift < 32 && most >> shift > 0); shift += 8) {
        /* places[b]: the number of symbols of byte b, then the index of the next one in `to` */
        uint16_t places[256] = { 0 };
        for (size_t i = 0; i < used; i++)
            places[counts[from[i]] >> shift & 255]++;
        for (size_t k = 0, end = 0; k < 256; k++) {
            const size_t next = end + places[k];
            places[k] = (uint16_t)end;
            end = next;
        }
        for (size_t i = 0; i < used; i++)
            to[places[counts[from[i]] >> shift & 255]++] = from[i];
        uint16_t *const swapped = from;
        from = to;
        to = swapped;
    }
    if (from != sorted)
        memcpy(sorted, from, used * sizeof *sorted);
    return used;
}

/* Computes a Huffman code with lengths of at most `limit` for n symbols, `sorted` by their
 * `counts`. Adds to of_length[k] the number of codes of length k. Codes that are longer than the
 * limit are shortened to it. Then the longest codes below the limit are lengthened until all codes
 * fit, that is, until the sum of 2^-length is at most 1. */
static void count_lengths(const uint32_t *counts, const uint16_t *sorted, size_t n, unsigned limit,
                          unsigned of_length[CODE_BITS + 1])
{
    /* Nodes 0 to n - 1 are the leaves, that is, the symbols; the root is the last node. */
    enum { NODES = 2 * LITERALS };
    uint16_t parents[NODES] = { 0 };
    uint32_t weights[NODES];
    uint8_t depths[NODES];
    size_t leaf = 0, node = n, end = n;
    unsigned all = 0; /* sum of 2^(limit - length) over all codes; at most 2^limit fit */
    for (size_t i = 0; i < n; i++)
        weights[i] = counts[sorted[i]];
    for (; end + 1 < 2 * n; end++) {
        weights[end] = 0;
        for (int i = 0; i < 2; i++) {
            const bool is_leaf = leaf < n && (node == end || weights[leaf] <= weights[node]);
            const size_t least = is_leaf ? leaf++ : node++;
            weights[end] += weights[least];
            parents[least] = (uint16_t)end;
        }
    }
    for (size_t i = end; i-- > 0;) {
        /* The root has depth 0; but a single symbol needs one bit. */
        const unsigned depth = i + 1 == end ? n == 1 : depths[parents[i]] + 1u;
        depths[i] = (uint8_t)(depth < limit ? depth : limit);
        if (i < n) {
            of_length[depths[i]]++;
            all += 1u << (limit - depths[i]);
        }
    }
    for (; all > 1u << limit; all--) {
        unsigned length = limit - 1;
        while (of_length[length] == 0)
            length--;
        /* A code of `length` bits becomes two of one bit more: itself and one of `limit` bits. */
        of_length[length]--;
        of_length[length + 1] += 2;
        of_length[limit]--;
    }
}

/* Reverses the order of the n <= 16 lowest bits: swaps neighbouring bits, pairs, groups of four and
 * bytes. */
static uint16_t reverse_bits(unsigned value, unsigned n)
{
    value = (value & 0x5555) << 1 | (value >> 1 & 0x5555);
    value = (value & 0x3333) << 2 | (value >> 2 & 0x3333);
    value = (value & 0x0f0f) << 4 | (value >> 4 & 0x0f0f);
    value = (value & 0x00ff) << 8 | value >> 8;
    return (uint16_t)(value >> (16 - n));
}

/* Makes a code of n symbols with lengths of at most `limit`. */
static void make_code(const uint32_t *counts, size_t n, unsigned limit, code *c)
{
    uint16_t sorted[LITERALS];
    unsigned of_length[CODE_BITS + 1] = { 0 }, next[CODE_BITS + 1] = { 0 };
    size_t at = sort_symbols(counts, n, sorted);
    assert(limit <= CODE_BITS);
    count_lengths(counts, sorted, at, limit, of_length);
    memset(c->lengths, 0, n);
    for (unsigned length = 1; length <= limit; length++)
        for (unsigned i = 0; i < of_length[length]; i++)
            c->lengths[sorted[--at]] = (uint8_t)length;
    /* The first code of each length: RFC 1951, section 3.2.2. */
    for (unsigned length = 2; length <= limit; length++)
        next[length] = 2 * (next[length - 1] + of_length[length - 1]);
    for (size_t i = 0; i < n; i++)
        if (c->lengths[i] > 0)
            c->bits[i] = reverse_bits(next[c->lengths[i]]++, c->lengths[i]);
}

/* --- writing --------------------------------------------------------------------------------- */

typedef struct bit_writer {
    unsigned char *to;
    size_t n, room;   /* bytes written, and allocated; n > room if the output does not fit */
    uint64_t waiting; /* the n_waiting bits that are not written yet; the next bit is the lowest */
    unsigned n_waiting;
} bit_writer;

/* Writes eight bytes, the lowest first. */
static inline void store_eight(unsigned char *to, uint64_t v)
{
    to[0] = (unsigned char)v;
    to[1] = (unsigned char)(v >> 8);
    to[2] = (unsigned char)(v >> 16);
    to[3] = (unsigned char)(v >> 24);
    to[4] = (unsigned char)(v >> 32);
    to[5] = (unsigned char)(v >> 40);
    to[6] = (unsigned char)(v >> 48);
    to[7] = (unsigned char)(v >> 56);
}

/* Writes the complete bytes in w->waiting, at most seven. Always writes eight bytes if there is
 * room, which is faster; the excess bytes are overwritten later. */
static inline void flush_bits(bit_writer *w)
{
    assert(w->n_waiting < 64); /* a shift by 64 bits is undefined */
    const unsigned n = w->n_waiting / 8;
    if (w->n + 8 <= w->room)
        store_eight(w->to + w->n, w->waiting);
    else if (w->n + n <= w->room)
        for (unsigned i = 0; i < n; i++)
            w->to[w->n + i] = (unsigned char)(w->waiting >> 8 * i);
    w->n += n;
    w->waiting >>= 8 * n;
    w->n_waiting -= 8 * n;
}

static inline void add_bits(bit_writer *w, uint64_t value, unsigned n)
{
    w->waiting |= value << w->n_waiting;
    w->n_waiting += n;
}

static void put_bits(bit_writer *w, unsigned value, unsigned n)
{
    add_bits(w, value, n);
    flush_bits(w);
}

static void put_code(bit_writer *w, const code *c, size_t i)
{
    put_bits(w, c->bits[i], c->lengths[i]);
}

/* Returns the number of symbols up to the last one that occurs, but at least `least`. */
static size_t count_used(const code *c, size_t n, size_t least)
{
    while (n > least && c->lengths[n - 1] == 0)
        n--;
    return n;
}

/* Writes the lengths of both codes, themselves encoded by a third code, in which one symbol can
 * stand for a run of zeros (RFC 1951, section 3.2.7). */
static void put_codes(bit_writer *w, const code *literals, const code *distances)
{
    /* The order in which the lengths of the third code are written. */
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

/* In an entry of the tables below, the bits to write are below bit NUMBER, and their number is in
 * the bits from NUMBER on. */
enum { NUMBER = 24 };

/* The bits of a distance are add + ((distance - 1) << bits): the bits of its symbol, then the extra
 * bits. bits: number of bits of the symbol; all_bits: number including the extra bits. */
typedef struct distance_entry {
    int32_t add;
    uint8_t bits, all_bits;
} distance_entry;

/* The bits of each literal, of each length of a match (with its extra bits), and of each symbol for
 * distances. */
typedef struct tables {
    uint32_t bytes[256], lengths[LONGEST + 1];
    distance_entry distances[DISTANCES];
} tables;

static uint32_t entry_of(const code *c, symbol s)
{
    const unsigned n = c->lengths[s.code];
    return c->bits[s.code] | (uint32_t)s.extra << n | (uint32_t)(n + s.bits) << NUMBER;
}

static void make_tables(const code *literals, const code *distances, tables *t)
{
    for (unsigned i = 0; i < 256; i++)
        t->bytes[i] = entry_of(literals, (symbol){ i, 0, 0 });
    for (size_t n = SHORTEST; n <= LONGEST; n++)
        t->lengths[n] = entry_of(literals, length_symbol(n));
    for (unsigned i = 0; i < DISTANCES; i++) {
        /* The distances with this symbol, less 1, are `least` and the following 2^extra - 1. */
        const unsigned extra = i < 4 ? 0 : i / 2 - 1, least = i < 4 ? i : (2 + i % 2) << extra,
                       bits = distances->lengths[i];
        t->distances[i] = (distance_entry){ distances->bits[i] - (int32_t)(least << bits),
                                            (uint8_t)bits, (uint8_t)(bits + extra) };
    }
}

static inline void add_entry(bit_writer *w, uint32_t entry)
{
    add_bits(w, entry & ((1u << NUMBER) - 1), entry >> NUMBER);
}

/* Writes n literals. Flushes after every four: the bits of four, and the up to 7 bits that a flush
 * leaves, fit into bit_writer.waiting. */
static inline void put_literals(bit_writer *w, const tables *t, const unsigned char *data, size_t n)
{
    for (; n > 3; n -= 4, data += 4) {
        for (size_t k = 0; k < 4; k++)
            add_entry(w, t->bytes[data[k]]);
        flush_bits(w);
    }
    if (n == 0)
        return;
    add_entry(w, t->bytes[data[0]]);
    add_entry(w, n > 1 ? t->bytes[data[1]] : 0); /* an entry 0 adds no bits */
    add_entry(w, n > 2 ? t->bytes[data[2]] : 0);
    flush_bits(w);
}

/* Adds a part of the match of a sequence, or the whole match. length: the length of this part. */
static inline void add_match(bit_writer *w, const tables *t, const sequence *s, size_t length)
{
    const distance_entry *const e = &t->distances[s->back_symbol];
    const uint64_t distance = (uint64_t)(e->add + ((int64_t)(s->back - 1) << e->bits));
    const uint32_t entry = t->lengths[length];
    add_bits(w, (entry & ((1u << NUMBER) - 1)) | distance << (entry >> NUMBER),
             (entry >> NUMBER) + e->all_bits);
}

/* Writes the matches from sequence s on. Stops at the first sequence that has literals or that has
 * no match of at most LONGEST bytes, or when less than eight bytes of room are left. Returns the
 * sequence at which it stops, or `end`. Adds the lengths of the matches to *data. */
static inline const sequence *put_matches(bit_writer *w, const tables *t, const sequence *s,
                                          const sequence *end, const unsigned char **data)
{
    for (; s < end && s->literals == 0 && s->length - 1u < LONGEST && w->n + 8 <= w->room; s++) {
        add_match(w, t, s, s->length);
        store_eight(w->to + w->n, w->waiting);
        w->n += w->n_waiting / 8;
        w->waiting >>= w->n_waiting & 56; /* whole bytes: 8 * (n_waiting / 8) */
        w->n_waiting &= 7;
        *data += s->length;
    }
    return s;
}

/* Returns the distance up to which a match of one pixel takes at most about as many bits as three
 * literals. Literals are assumed to take as many bits as in the block with these counts and code
 * lengths. The distance is used for the next block. */
static size_t find_near(const uint32_t counts[256], const uint8_t lengths[256])
{
    uint64_t n = 0, bits = 0;
    for (size_t i = 0; i < 256; i++) {
        n += counts[i];
        bits += (uint64_t)counts[i] * lengths[i];
    }
    const uint64_t pixel = n > 0 ? PIXEL * bits / n : UINT64_MAX;
    return pixel <= MATCH_BITS ? 0 : pixel >= MATCH_BITS + 15 ? WINDOW : 1u << (pixel - MATCH_BITS);
}

/* Writes a block: the codes, then the sequences. data: the first byte of the block. */
static void put_block(bit_writer *writer, wu_row_deflater *d, const unsigned char *data)
{
    code literals, distances;
    tables t;
    make_code(d->literals, LITERALS, CODE_BITS, &literals);
    make_code(d->distances, DISTANCES, CODE_BITS, &distances);
    put_codes(writer, &literals, &distances);
    make_tables(&literals, &distances, &t);
    bit_writer w = *writer; /* a local copy, which the compiler can keep in registers */
    for (const sequence *s = d->sequences, *const end = s + d->n; w.n <= w.room; s++) {
        s = put_matches(&w, &t, s, end, &data);
        if (s == end)
            break;
        put_literals(&w, &t, data, s->literals);
        data += s->literals + s->length;
        size_t left = s->length;
        for (size_t part; left > 0; left -= part) {
            part = first_part_length(left);
            add_match(&w, &t, s, part);
            flush_bits(&w);
        }
    }
    *writer = w;
    put_code(writer, &literals, END);
    d->near = find_near(d->literals, literals.lengths);
}

size_t wu_deflate_rows(wu_row_deflater *d, wu_row_layout layout, const unsigned char *data,
                       size_t n, size_t before, bool last, unsigned char *out, size_t room)
{
    bit_writer w = { .to = out, .room = room };
    size_t at = 0;
    assert(layout.word > 0 && layout.row >= layout.word);
    if (layout.matches_anywhere && before == 0) {
        memset(d->places, 0, sizeof d->places);
        memset(d->pixels, 0, sizeof d->pixels);
        d->near = NEAR;
        d->begin = 0;
    }
    do {
        const unsigned char *const block = data + at;
        at = find_sequences(d, layout, data, at, n, before);
        put_bits(&w, last && at == n ? 5 : 4, 3); /* block with codes of its own; 1: the last one */
        put_block(&w, d, block);
    } while (at < n && w.n <= w.room);
    d->begin = (uint16_t)(d->begin + n);
    /* Output that continues ends at a byte boundary, with a stored block of no bytes: header,
     * padding, length 0 and its complement. */
    if (!last)
        put_bits(&w, 0, 3);
    put_bits(&w, 0, (8 - w.n_waiting) % 8);
    if (!last)
        put_bits(&w, 0xffff0000, 32);
    return w.n <= w.room ? w.n : 0;
}
