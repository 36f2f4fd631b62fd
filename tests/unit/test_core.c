/* Unit tests of the integer arithmetic that CPU and OpenCL devices share, and of other basics. */
#include "config.h" /* first: defines _GNU_SOURCE */

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>
#include <zlib.h>

#include "app/base/crc32.h"

/* core.h is included a second time as OpenCL C, with its functions renamed from tc_ to cl_. The
 * built-in functions of OpenCL C are defined here. */
#define __OPENCL_VERSION__ 120
#define uchar uint8_t
#define ushort uint16_t
#define uint uint32_t
#define ulong uint64_t
#define __global
#define clz(a) __builtin_clzll(a)
#define mul_hi(a, b) ((uint64_t)(((unsigned __int128)(a) * (b)) >> 64))
#define tc_u8 cl_u8
#define tc_u16 cl_u16
#define tc_u32 cl_u32
#define tc_u64 cl_u64
#define tc_i32 cl_i32
#define tc_i64 cl_i64
#define tc_index cl_index
#define tc_divisor cl_divisor
#define tc_div cl_div
#define tc_div_round cl_div_round
#define tc_div_q32 cl_div_q32
#define tc_ratio_q32 cl_ratio_q32
#define tc_sqrt_floor cl_sqrt_floor
#define tc_sqrt_round cl_sqrt_round
#include "app/base/sha256.h"
#include "app/base/text.h"
#include "app/analysis/common/core.h"
#undef __OPENCL_VERSION__
#undef uchar
#undef ushort
#undef uint
#undef ulong
#undef __global
#undef clz
#undef mul_hi
#undef tc_u8
#undef tc_u16
#undef tc_u32
#undef tc_u64
#undef tc_i32
#undef tc_i64
#undef tc_index
#undef tc_divisor
#undef tc_div
#undef tc_div_round
#undef tc_div_q32
#undef tc_ratio_q32
#undef tc_sqrt_floor
#undef tc_sqrt_round
#undef TC_GLOBAL
#undef TC_CONSTANT
#undef TC_MIN
#undef TC_MAX
#undef TC_ABS
#undef TC_INLINE
#undef TC_ALWAYS_INLINE
#undef tc_mulhi
#undef tc_clz64
#undef AN_CORE_H

#include "app/analysis/common/real.h"
#include "app/analysis/glcm/glcm.h"
#include "app/base/os.h"
#include "tests/unit/scratch.h"

typedef unsigned __int128 u128;

enum { TRIALS = 200000 };

/* State of the random generator random_bits() (xorshift64*), which reset_seed() sets before each
 * test. */
static uint64_t seed;

static uint64_t random_bits(void)
{
    seed ^= seed >> 12;
    seed ^= seed << 25;
    seed ^= seed >> 27;
    return seed * 0x2545F4914F6CDD1DU;
}

/* Returns a random number whose length in bits is random, from 0 to `bits`. */
static uint64_t random_up_to_bits(unsigned bits)
{
    const unsigned n = (unsigned)(random_bits() % (bits + 1));

    return n == 0 ? 0 : random_bits() >> (64 - n);
}

/* Returns a divisor from 1 to 2^bits - 1: a power of two or its neighbour, or a random number. */
static uint64_t random_divisor(unsigned bits)
{
    uint64_t d = random_up_to_bits(bits);

    if (random_bits() % 4 == 0)
        d = ((uint64_t)1 << (random_bits() % bits)) + random_bits() % 3 - 1;
    return d == 0 || (bits < 64 && d >> bits != 0) ? 1 : d;
}

static int reset_seed(void **state)
{
    (void)state;
    seed = 20250101;
    return 0;
}

static cl_divisor cl_form(tc_divisor d)
{
    return (cl_divisor){ d.rec, d.den, d.shift };
}

/* Returns the quotient, rounded to the nearest integer, halves up. */
static u128 nearest(u128 num, u128 den)
{
    return num / den + (num % den >= den - num % den ? 1 : 0);
}

/* --- core.h ---------------------------------------------------------------------------------- */

/* num: below 2^63. */
static void check_division(uint64_t num, uint32_t den)
{
    const tc_divisor d = tc_divisor_of(den);

    assert_int_equal(tc_div(num, d), num / den);
    assert_int_equal(cl_div(num, cl_form(d)), num / den);
    if (num < ((uint64_t)1 << 63) - den / 2) {
        assert_int_equal(tc_div_round(num, d), (uint64_t)nearest(num, den));
        assert_int_equal(cl_div_round(num, cl_form(d)), (uint64_t)nearest(num, den));
    }
}

static void divides_integers(void **state)
{
    static const uint64_t edges[] = { 0,
                                      1,
                                      2,
                                      3,
                                      5,
                                      0x7fffffff,
                                      0x80000000,
                                      0x80000001,
                                      0xffffffff,
                                      0x100000000,
                                      0x3fffffffffffffff,
                                      0x4000000000000000,
                                      INT64_MAX - 1,
                                      INT64_MAX };
    enum { N = sizeof edges / sizeof edges[0] };

    (void)state;
    for (size_t i = 0; i < N; i++)
        for (size_t j = 1; j < N && edges[j] <= UINT32_MAX; j++)
            check_division(edges[i], (uint32_t)edges[j]);
    for (int i = 0; i < TRIALS; i++) {
        const uint32_t den = (uint32_t)random_divisor(32);
        const uint64_t whole = random_up_to_bits(63) / den * den;

        check_division(random_up_to_bits(63), den);
        check_division(whole, den);
        check_division(whole - (whole > 0), den);
        check_division(whole + (den - 1 <= INT64_MAX - whole ? den - 1 : 0), den);
        check_division(whole + (den / 2 <= INT64_MAX - whole ? den / 2 : 0), den);
    }
}

static void divides_in_q32(void **state)
{
    (void)state;
    for (int i = 0; i < TRIALS; i++) {
        const tc_divisor d = tc_divisor_of((uint32_t)random_divisor(31));
        /* The quotient must be below 2^32, so that it fits 64 bits in units of 2^-32. */
        const uint64_t most = (uint64_t)((((u128)d.den << 32) - d.den) & INT64_MAX);
        const uint64_t some[] = { 0,
                                  1,
                                  random_up_to_bits(64) % (most + 1),
                                  most,
                                  d.den / 2,
                                  (uint64_t)1 << 31,
                                  ((uint64_t)1 << 31) - 1 };

        for (size_t k = 0; k < sizeof some / sizeof some[0]; k++) {
            const uint64_t num = some[k] > most ? most : some[k];
            const u128 want = nearest((u128)num << 32, d.den);

            assert_int_equal(tc_div_q32(num, d), (uint64_t)want);
            assert_int_equal(cl_div_q32(num, cl_form(d)), (uint64_t)want);
        }
    }
}

static void check_ratio(uint64_t num, uint64_t den)
{
    const u128 want = nearest((u128)num << 32, den);

    assert_int_equal(tc_ratio_q32(num, den), (uint64_t)want);
    assert_int_equal(cl_ratio_q32(num, den), (uint64_t)want);
}

static void computes_ratios(void **state)
{
    (void)state;
    for (int i = 0; i < TRIALS; i++) {
        const uint64_t den = random_divisor(62);
        const uint64_t num = random_bits() % (den + 1);

        check_ratio(num, den);
        check_ratio(0, den);
        check_ratio(1, den);
        check_ratio(den, den);
        check_ratio(den - 1, den);
        check_ratio(den / 2, den);
        /* A quotient near a half. */
        check_ratio((uint64_t)(((u128)(2 * (num & 0xffffffff) + 1) * den >> 33) % (den + 1)), den);
    }
    check_ratio(((uint64_t)1 << 62) - 1, ((uint64_t)1 << 62) - 1);
    check_ratio(((uint64_t)1 << 62) - 2, ((uint64_t)1 << 62) - 1);
}

/* Returns the largest r with (r - 1/2)^2 <= a, by bisection. */
static uint64_t root_of(uint64_t a)
{
    uint64_t lo = 0, hi = (uint64_t)1 << 32;

    while (lo < hi) {
        const uint64_t r = lo + (hi - lo + 1) / 2;

        if ((u128)(2 * r - 1) * (2 * r - 1) <= (u128)a * 4)
            lo = r;
        else
            hi = r - 1;
    }
    return lo;
}

static void check_root(uint64_t a)
{
    const uint64_t want = root_of(a);

    assert_int_equal(tc_sqrt_round(a), want);
    assert_int_equal(cl_sqrt_round(a), want);
}

static void check_around(uint64_t a)
{
    for (int i = -2; i <= 2; i++)
        check_root(a + (uint64_t)(int64_t)i);
}

static void computes_roots(void **state)
{
    (void)state;
    for (uint64_t a = 0; a < 1000; a++)
        check_root(a);
    for (uint64_t a = 0; a < 1000; a++)
        check_root(UINT64_MAX - a);
    for (int i = 0; i < TRIALS / 4; i++) {
        const uint64_t r = i < 100 ? UINT32_MAX - (uint64_t)i : random_up_to_bits(32);

        check_around(r * r);
        check_around(r * r + r); /* where rounding changes */
        check_around(((uint64_t)1 << 53) +
                     random_up_to_bits(20)); /* beyond the precision of double */
        check_root(random_up_to_bits(64));
    }
}

/* --- tables of glcm, against mpmath ---------------------------------------------------------- */

enum { ASKED = 1000 };

/* Computes, for each value v, the integer nearest to `formula` (Python, in m.mpf v), with a Python
 * that has mpmath. */
static void compute_by_mpmath(const char *formula, const uint64_t *values, size_t n, u128 *answers)
{
    const char *const python = getenv("PYTHON") != NULL ? getenv("PYTHON") : "python3";
    char *const folder = make_folder(), *const path = join_path(folder, "values");
    char command[1024];
    size_t got = 0;
    FILE *file;

    file = fopen(path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < n; i++)
        fprintf(file, "%llu\n", (unsigned long long)values[i]);
    assert_int_equal(fclose(file), 0);
    snprintf(command, sizeof command,
             "'%s' -c 'import mpmath as m\nm.mp.prec = 400\n"
             "for v in open(\"%s\"):\n    v = m.mpf(int(v))\n    print(\"%%x\" %% "
             "int(m.nint(%s)))' 2>&1",
             python, path, formula);
    file = popen(command, "r");
    assert_non_null(file);
    for (unsigned long long hi, lo; got < n; got++) {
        char digits[80], padded[33];

        if (fscanf(file, "%79s", digits) != 1 || strlen(digits) > 32 ||
            strspn(digits, "0123456789abcdef") != strlen(digits))
            break;
        memset(padded, '0', 32);
        memcpy(padded + 32 - strlen(digits), digits, strlen(digits) + 1);
        lo = strtoull(padded + 16, NULL, 16);
        padded[16] = '\0';
        hi = strtoull(padded, NULL, 16);
        answers[got] = (u128)hi << 64 | lo;
    }
    pclose(file);
    free(path);
    remove_folder(folder);
    if (got != n)
        fail_msg("%s gives no values: has it mpmath?", python);
}

static void check_within(u128 got, u128 want, unsigned units)
{
    if ((got > want ? got - want : want - got) > units)
        fail_msg("off by more than %u units", units);
}

static void computes_logarithms(void **state)
{
    uint64_t k[ASKED];
    u128 want[ASKED];

    (void)state;
    for (size_t i = 0; i < ASKED; i++)
        k[i] = i < 300 ? i + 1 : i < 364 ? (uint64_t)1 << (i - 300) : random_up_to_bits(64) | 1;
    k[ASKED - 1] = UINT64_MAX;
    compute_by_mpmath("m.log(v, 2) * 2**80", k, ASKED, want);
    for (size_t i = 0; i < ASKED; i++)
        check_within(tc_log2_q80(k[i]), want[i], 2);
}

/* The fast logarithms have the same bits as the slow ones: for all small numbers, for those near
 * powers of two, and for some others. */
static void fast_logarithms_are_equal(void **state)
{
    tc_log2_cache *logs = tc_log2_cache_create();

    (void)state;
    assert_non_null(logs);
    for (int twice = 0; twice < 2; twice++)
        for (uint64_t k = 1; k < 10000; k++)
            assert_true(tc_log2_cache_get(logs, k) == tc_log2_q80(k));
    for (int i = 0; i < 50000; i++) {
        const uint64_t k = i < 99 ? ((uint64_t)1 << i / 3) + (uint64_t)(i % 3) - (i >= 3)
                                  : (uint64_t)random_up_to_bits(32);

        if (k > 0 && k >> 32 == 0)
            assert_true(tc_log2_cache_get(logs, k) == tc_log2_q80(k));
    }
    tc_log2_cache_destroy(&logs);
    assert_null(logs);
}

static void computes_exponentials(void **state)
{
    uint64_t t[ASKED];
    u128 want[ASKED];
    glcm_tables tables;

    (void)state;
    assert_int_equal(glcm_tables_init(40, 4, &tables, NULL), TC_OK);
    for (size_t i = 0; i < ASKED; i++)
        t[i] = i % 3 == 0   ? random_up_to_bits(62)
               : i % 3 == 1 ? random_bits() >> 2
                            : (random_bits() >> 56) << 54;
    t[0] = 0;
    t[1] = 1;
    t[2] = ((uint64_t)1 << 62) - 1;
    t[3] = (uint64_t)1 << 62; /* exp(-16) */
    t[4] = ((uint64_t)1 << 38) - 1;
    for (size_t i = 0; i < ASKED; i++)
        t[i] = t[i] > (uint64_t)1 << 62 ? (uint64_t)1 << 62 : t[i];
    compute_by_mpmath("m.exp(-v / m.mpf(2)**58) * m.mpf(2)**63", t, ASKED, want);
    assert_int_equal(glcm_exp_neg(0, tables.exp_table), (uint64_t)1 << 63);
    for (size_t i = 0; i < ASKED; i++)
        check_within(glcm_exp_neg(t[i], tables.exp_table), want[i], 8);
    glcm_tables_free(&tables);
}

/* The table f60 of k log2 k: f60(ab) = a f60(b) + b f60(a) exactly, and its values are right. */
static void builds_additive_tables(void **state)
{
    enum { FBITS = 44 };
    static const uint64_t PAIRS = 5000;
    uint64_t k[ASKED];
    u128 want[ASKED];
    glcm_tables t;

    (void)state;
    assert_int_equal(glcm_tables_init(FBITS, PAIRS, &t, NULL), TC_OK);
    assert_int_equal(t.f60[0], 0);
    assert_int_equal(t.f60[1], 0);
    assert_int_equal(t.f[2], (uint64_t)2 << FBITS);
    for (uint64_t a = 1; a <= 2 * PAIRS; a++)
        for (uint64_t b = 1; a * b <= 2 * PAIRS; b++)
            assert_int_equal(t.f60[a * b], a * t.f60[b] + b * t.f60[a]);
    for (uint64_t i = 1; i <= PAIRS; i++) {
        assert_int_equal(tc_div(INT64_MAX, t.divisors[i].n), INT64_MAX / i);
        assert_int_equal(tc_div(INT64_MAX, t.divisors[i].n2), INT64_MAX / (i * i));
        assert_int_equal(tc_div(INT64_MAX, t.divisors[i].n4), INT64_MAX / (4 * i * i));
    }
    for (size_t i = 0; i < ASKED; i++)
        k[i] = 1 + random_bits() % (2 * PAIRS);
    k[0] = 2 * PAIRS;
    compute_by_mpmath("v * m.log(v, 2) * 2**60", k, ASKED, want);
    for (size_t i = 0; i < ASKED; i++) {
        /* Each of up to 13 prime factors is rounded by up to half a unit, times k. */
        const unsigned slack = (unsigned)(7 * k[i]);

        const int64_t off = (int64_t)(t.f60[k[i]] - (uint64_t)want[i]); /* modulo 2^64 */

        assert_in_range(off < 0 ? -off : off, 0, slack);
        check_within(t.f[k[i]], want[i] >> (60 - FBITS), 1 + (slack >> (60 - FBITS)));
        check_within(t.f12[k[i]], want[i] >> 48, 1);
    }
    glcm_tables_free(&t);
}

/* A sum of up to 2^14 table entries is recovered from its two parts, low and coarse. */
static void joins_sums(void **state)
{
    (void)state;
    for (int i = 0; i < TRIALS; i++) {
        const int fbits = 33 + (int)(random_bits() % 26);
        /* The sum is below 2^20, as those of k log2 k are for n < 2^14, so that the result fits 64
         * bits. */
        const unsigned bits =
            60 + (unsigned)(random_bits() % (fbits > 44 ? 64 - (unsigned)fbits + 1 : 21));
        const u128 sum = ((u128)random_bits() << 64 | random_bits()) >> (128 - bits);
        const int64_t slip = (int64_t)(random_bits() % 32769) - 16384;
        const uint64_t coarse = (uint64_t)(sum >> 48) + (uint64_t)slip;

        assert_int_equal(glcm_join_sums((uint64_t)sum, coarse, fbits),
                         (uint64_t)(sum >> (60 - fbits)));
    }
}

/* --- whole windows --------------------------------------------------------------------------- */

/* Features of matrices for which the right values are known. */
static void computes_simple_windows(void **state)
{
    static const int64_t one = (int64_t)1 << 32;
    int64_t feature[GLCM_FEATURES];
    uint32_t pairs[16] = { 0 };
    tc_log2_cache *logs = tc_log2_cache_create();
    glcm_tables t;

    (void)state;
    assert_int_equal(glcm_tables_init(44, 100, &t, NULL), TC_OK);
    assert_false(glcm_matrix_features(pairs, 4, &t, logs, feature));
    pairs[5] = 40; /* of level 2 with itself */
    assert_true(glcm_matrix_features(pairs, 4, &t, logs, feature));
    for (int i = 0; i < GLCM_FEATURES; i++) {
        const int64_t want = i == GLCM_ASM || i == GLCM_CORRELATION || i == GLCM_IDM ? one
                             : i == GLCM_SUM_AVERAGE                                 ? 4 * one
                                                                                     : 0;

        assert_int_equal(feature[i], want);
    }
    /* Levels 1 and 3 alternate: each pair has both. */
    memset(pairs, 0, sizeof pairs);
    pairs[2] = 30;
    assert_true(glcm_matrix_features(pairs, 4, &t, logs, feature));
    assert_int_equal(feature[GLCM_ASM], one / 2);
    assert_int_equal(feature[GLCM_CONTRAST], 4 * one);
    assert_int_equal(feature[GLCM_CORRELATION], -one);
    assert_int_equal(feature[GLCM_VARIANCE], one);
    assert_int_equal(feature[GLCM_IDM], (one + 2) / 5);
    assert_int_equal(feature[GLCM_SUM_AVERAGE], 4 * one);
    assert_int_equal(feature[GLCM_SUM_VARIANCE], 0);
    assert_int_equal(feature[GLCM_SUM_ENTROPY], 0);
    assert_int_equal(feature[GLCM_ENTROPY], one);
    assert_int_equal(feature[GLCM_DIFFERENCE_VARIANCE], 0);
    assert_int_equal(feature[GLCM_DIFFERENCE_ENTROPY], 0);
    assert_int_equal(feature[GLCM_IMC1], -one);
    /* The levels are independent: the mutual information is exactly 0. */
    pairs[0] = pairs[10] = 15;
    assert_true(glcm_matrix_features(pairs, 4, &t, logs, feature));
    assert_int_equal(feature[GLCM_CORRELATION], 0);
    assert_int_equal(feature[GLCM_ENTROPY], 2 * one);
    assert_int_equal(feature[GLCM_IMC1], 0);
    assert_int_equal(feature[GLCM_IMC2], 0);
    glcm_tables_free(&t);
    tc_log2_cache_destroy(&logs);
}

/* Computes the sums that a sliding window would have for these ordered pairs. */
static uint32_t sums_of(const uint64_t *counts, unsigned levels, const glcm_tables *t, glcm_sums *s)
{
    uint64_t marginal[8] = { 0 }, sum[16] = { 0 }, difference[8] = { 0 };
    uint64_t s1 = 0, ss = 0, d1 = 0, d2 = 0, e2 = 0, idm = 0, fxy = 0, fxy12 = 0, fx = 0, fx12 = 0,
             n2 = 0;

    memset(s, 0, sizeof *s);
    for (unsigned a = 0; a < levels; a++) {
        for (unsigned b = 0; b < levels; b++) {
            const uint64_t c = counts[a * levels + b], d = a > b ? a - b : b - a;

            n2 += c;
            marginal[a] += c;
            sum[a + b] += c;
            difference[d] += c;
            s1 += c * (a + b);
            ss += c * (a + b) * (a + b);
            d1 += c * d;
            d2 += c * d * d;
            e2 += c * c;
            idm += c * t->idm[d];
            fxy += t->f60[c];
            fxy12 += t->f12[c];
        }
    }
    for (unsigned a = 0; a < levels; a++) {
        fx += t->f60[marginal[a]];
        fx12 += t->f12[marginal[a]];
        s->fd += t->f[difference[a] / 2];
    }
    for (unsigned a = 0; a < 2 * levels; a++)
        s->fs += t->f[sum[a] / 2];
    s->sum = s1 / 2 | (ss / 2) << GLCM_PACK_SHIFT;
    s->difference = (glcm_pair64){ d1 / 2 | (d2 / 2) << GLCM_PACK_SHIFT, idm / 2 };
    s->marginal = (glcm_pair64){ fx, fx12 };
    s->cell = (glcm_pair64){ fxy, e2 / 2 | fxy12 << GLCM_E2_BITS };
    return (uint32_t)(n2 / 2);
}

/* Features computed from a window's sums agree with those from a matrix. */
static void features_agree(void **state)
{
    enum { PAIRS = 4000 };
    glcm_tables t;
    tc_log2_cache *logs = tc_log2_cache_create();

    (void)state;
    assert_int_equal(glcm_tables_init(44, PAIRS, &t, NULL), TC_OK);
    for (int trial = 0; trial < 20000; trial++) {
        const unsigned levels = 2 + (unsigned)(random_bits() % 7),
                       bits = (unsigned)(random_bits() % 7);
        int64_t window[GLCM_FEATURES], matrix[GLCM_FEATURES];
        uint64_t counts[64] = { 0 };
        uint32_t pairs[64] = { 0 };
        glcm_sums sums;
        uint32_t n;

        for (unsigned a = 0; a < levels; a++)
            for (unsigned b = a; b < levels; b++) {
                pairs[a * levels + b] = (uint32_t)random_up_to_bits(bits);
                counts[a * levels + b] = counts[b * levels + a] =
                    (1 + (a == b)) * (uint64_t)pairs[a * levels + b];
            }
        n = sums_of(counts, levels, &t, &sums);
        assert_int_equal(glcm_matrix_features(pairs, levels, &t, logs, matrix), n > 0);
        if (n == 0)
            continue;
        glcm_features(&sums, n, t.divisors[n], t.f, t.f60, t.fbits, t.exp_table, window);
        for (int i = 0; i < GLCM_FEATURES; i++)
            if (llabs(window[i] - matrix[i]) > 4) /* 1e-9 */
                fail_msg("%s: %lld and %lld", cooc_names[i], (long long)window[i],
                         (long long)matrix[i]);
    }
    glcm_tables_free(&t);
    tc_log2_cache_destroy(&logs);
}

/* Durations are formatted in words. */
static void formats_durations(void **state)
{
    static const struct {
        double seconds;
        const char *text;
    } known[] = {
        { 0, "under a second" },          { 3e-5, "under a second" },  { 0.999, "under a second" },
        { 1.2, "about 1 second" },        { 7.4, "about 7 seconds" },  { 13, "about 15 seconds" },
        { 54, "about 50 seconds" },       { 57, "about 1 minute" },    { 100, "about 2 minutes" },
        { 2405, "about 40 minutes" },     { 3400, "about 1 hour" },    { 40000, "about 10 hours" },
        { 200000, "about 2 days" },       { 864000, "about 10 days" }, { 1e9, "about 30 years" },
        { 1e300, "about 1000000 years" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        char text[TC_DURATION_SIZE];

        tc_format_duration(known[i].seconds, text);
        assert_string_equal(text, known[i].text);
    }
}

/* SHA-256 of NIST's examples (FIPS 180-2, appendix B), added in pieces of several lengths. */
static void computes_sha256(void **state)
{
    static const struct {
        const char *text, *digest;
        int times;
    } known[] = {
        { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", 1 },
        { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", 1 },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1", 1 },
        { "a", "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0", 1000000 },
        { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
          "aaaaaaaaaaaa",
          "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0", 10000 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        for (int portable = 0; portable < 2; portable++) {
            char text[TC_SHA256_TEXT];
            tc_sha256 s;

            tc_sha256_begin(&s);
            s.add = portable ? tc_sha256_portable : s.add;
            for (int k = 0; k < known[i].times; k++)
                tc_sha256_add(&s, known[i].text, strlen(known[i].text));
            tc_sha256_end(&s, text);
            assert_string_equal(text, known[i].digest);
        }
    }
}

/* The CRC-32 is that of zlib, for data of any length and alignment, in one piece or two. */
static void computes_crc32(void **state)
{
    unsigned char data[1100];
    uint32_t v = 1;

    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)((v = v * 1664525 + 1013904223) >> 24);
    assert_int_equal(tc_crc32(0, NULL, 0), 0);
    assert_int_equal(tc_crc32(7, NULL, 0), 7);
    assert_int_equal(tc_crc32(0, "123456789", 9), 0xcbf43926);
    for (size_t n = 1; n < sizeof data - 16; n++)
        for (size_t from = 0; from < 16; from += 5) {
            const uint32_t all = (uint32_t)crc32_z(0, data + from, n);

            assert_int_equal(tc_crc32(0, data + from, n), all);
            assert_int_equal(
                tc_crc32(tc_crc32(0, data + from, n / 3), data + from + n / 3, n - n / 3), all);
        }
}

/* Private folders and files cannot be read by others, whatever the umask is. */
static void makes_private_files(void **unused)
{
    char *const folder = make_folder();
    char inner[4096], file[4096];
    struct stat info;
    const mode_t before = umask(0);
    int fd;

    (void)unused;
    snprintf(inner, sizeof inner, "%s/x", folder);
    snprintf(file, sizeof file, "%s/y", folder);
    assert_true(os_make_private_folder(inner) && stat(inner, &info) == 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    fd = os_open(file, OS_OVERWRITE_PRIVATE);
    assert_true(fd >= 0 && fstat(fd, &info) == 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    close(fd);
    umask(before);
    rmdir(inner);
    remove_folder(folder);
}

/* Only the processors that this process may use are counted. */
static void counts_processors(void **unused)
{
    cpu_set_t all, one;
    size_t first = 0;

    (void)unused;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    assert_int_equal(os_processors(), CPU_COUNT(&all));
    while (!CPU_ISSET(first, &all))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(os_processors(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

int main(void)
{
#define SEEDED(test) cmocka_unit_test_setup(test, reset_seed)
    const struct CMUnitTest tests[] = {
        SEEDED(divides_integers),
        SEEDED(divides_in_q32),
        SEEDED(computes_ratios),
        SEEDED(computes_roots),
        SEEDED(computes_logarithms),
        SEEDED(fast_logarithms_are_equal),
        SEEDED(computes_exponentials),
        SEEDED(builds_additive_tables),
        SEEDED(joins_sums),
        SEEDED(computes_simple_windows),
        SEEDED(features_agree),
        cmocka_unit_test(formats_durations),
        cmocka_unit_test(computes_sha256),
        cmocka_unit_test(computes_crc32),
        cmocka_unit_test(makes_private_files),
        cmocka_unit_test(counts_processors),
    };
    return cmocka_run_group_tests_name("core", tests, NULL, NULL);
}
