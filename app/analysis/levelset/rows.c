/*
 * levelset: compiles rows_body.h for vectors of each width and for single voxels, and chooses the
 * widest vectors that the processor has.
 */
#include "app/analysis/levelset/rows.h"

#include <assert.h>
#include <string.h>

#include "app/analysis/levelset/core.h"
#if defined __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

/* --- rows and scratch memory ----------------------------------------------------------------- */

/* Pointers to a row of a box and to its neighbours along y and z, each from the box's first column
 * on. In the names, u is the next row, l the previous one, so yu is the next row along y. A
 * neighbour outside the picture is replaced by the row itself, so that one-sided differences across
 * the border are 0. For central differences (names that begin with c) both neighbours are replaced
 * in rows at the border. */
typedef struct row_set {
    const float *p; /* phi of the row itself */
    const float *yu, *yl, *zu, *zl;
    const float *cyu, *cyl, *czu, *czl;
    const float *data, *stop; /* ls_fields.data; ls_fields.stop, or NULL */
    float *out;
} row_set;

static inline size_t index_of(const ls_fields *f, uint32_t x, uint32_t y, uint32_t z)
{
    return ((size_t)z * f->ny + y) * f->nx + x;
}

static inline row_set row_set_at(const ls_fields *f, uint32_t x, uint32_t y, uint32_t z)
{
    const size_t at = index_of(f, x, y, z), row = f->nx, plane = (size_t)f->nx * f->ny;
    const float *const p = f->phi + at;
    const bool y_inner = y > 0 && y + 1 < f->ny, z_inner = z > 0 && z + 1 < f->nz;

    return (row_set){ .p = p,
                      .yu = y + 1 < f->ny ? p + row : p,
                      .yl = y > 0 ? p - row : p,
                      .zu = z + 1 < f->nz ? p + plane : p,
                      .zl = z > 0 ? p - plane : p,
                      .cyu = y_inner ? p + row : p,
                      .cyl = y_inner ? p - row : p,
                      .czu = z_inner ? p + plane : p,
                      .czl = z_inner ? p - plane : p,
                      .data = f->data + at,
                      .stop = f->stop != NULL ? f->stop + at : NULL,
                      .out = f->out + at };
}

/* Scratch memory of a step. A "face value" is the result of ls_face (real.h) for the face between
 * two adjacent voxels. All arrays have rows of scratch_pitch floats. */
typedef struct buffers {
    float *fx, *dx; /* face values between the voxels of a row, and the differences of phi there */
    float *yl, *yu; /* face values between a row and the previous and next row along y */
    float *zl, *zu; /* [rows]: face values between a plane and the previous and next plane. In a
                       picture they are all 0, so there is only one row */
    size_t z_pitch; /* elements from one row of zl to the next; 0: there is one row */
    float *cx[2];   /* [rows + 2]: central differences along x, of a plane and the next one */
} buffers;

/* Returns the number of floats from one row to the next in scratch memory, for a box w voxels wide.
 */
static inline size_t scratch_pitch(uint32_t w)
{
    return ((size_t)w + 1 + LS_PAD + 15) / 16 * 16;
}

size_t ls_scratch_floats(uint32_t nx, uint32_t ny)
{
    /* Rows: 4 for fx, dx, yl and yu; ny each for zl and zu; ny + 2 for each element of cx. */
    return scratch_pitch(nx) * (4 + 2 * (size_t)ny + 2 * ((size_t)ny + 2));
}

static inline buffers cut_scratch(float *s, uint32_t w, uint32_t h, bool is_picture)
{
    assert((uintptr_t)s % 64 == 0);
    const size_t pitch = scratch_pitch(w);
    float *const planes = s + 4 * pitch, *const central = planes + 2 * pitch * h;

    return (buffers){ .fx = s,
                      .dx = s + pitch,
                      .yl = s + 2 * pitch,
                      .yu = s + 3 * pitch,
                      .zl = planes,
                      .zu = planes + pitch * h,
                      .z_pitch = is_picture ? 0 : pitch,
                      .cx = { central, central + pitch * ((size_t)h + 2) } };
}

static inline void swap(float **a, float **b)
{
    float *const t = *a;

    *a = *b;
    *b = t;
}

/* --- one voxel at a time --------------------------------------------------------------------- */

/* real.h and rows_body.h say what each of the macros must do. */
#define LS_INLINE static inline LS_TARGET
#define LS_TARGET
#define LANES 1u
#define LS_REAL float
#define LS_INT int32_t
#define LS_NAME(name) scalar_##name
#define LS_C(c) (c)
#define LS_LOAD(p) (*(p))
#define LS_STORE(p, v) (*(p) = (v))
#define LS_SQRT(a) __builtin_sqrtf(a)
#define LS_POS(a) ((a) > 0 ? (a) : 0.0f)
#define LS_SIGN(a) ((a) > 0 ? 1.0f : -1.0f)
#define LS_ABS(a) __builtin_fabsf(a)
#define LS_MAX(m, a) ((a) > (m) ? (a) : (m))
#define LS_BELOW0(a) ((a) < 0 ? -1 : 0)
#define LS_LANE(v, i) (v)
#include "app/analysis/levelset/rows_body.h"

static const ls_simd scalar = { "scalar", 1, NULL, scalar_step_box, scalar_apply };

/* --- vectors --------------------------------------------------------------------------------- */

#if defined __x86_64__

/* 4 lanes: SSE2, which every x86-64 processor has. */
typedef int32_t int32x4 __attribute__((vector_size(16)));
#define LS_TARGET
#define LANES 4u
#define LS_REAL __m128
#define LS_INT int32x4
#define LS_NAME(name) sse2_##name
#define LS_C(c) _mm_set1_ps(c)
#define LS_LOAD(p) _mm_loadu_ps(p)
#define LS_STORE(p, v) _mm_storeu_ps(p, v)
#define LS_SQRT(a) _mm_sqrt_ps(a)
#define LS_POS(a) _mm_max_ps(a, _mm_setzero_ps())
#define LS_SIGN(a) \
    _mm_or_ps(LS_C(1.0f), _mm_andnot_ps(_mm_cmpgt_ps(a, _mm_setzero_ps()), LS_C(-0.0f)))
#define LS_ABS(a) _mm_andnot_ps(LS_C(-0.0f), a)
#define LS_MAX(m, a) _mm_max_ps(a, m) /* the second operand of _mm_max_ps if either is NaN */
#define LS_BELOW0(a) ((int32x4)_mm_cmplt_ps(a, _mm_setzero_ps()))
#define LS_LANE(v, i) ((v)[i])
#include "app/analysis/levelset/rows_body.h"

/* 8 lanes: AVX2. Without "fma", as no multiplication and addition may be fused. */
typedef int32_t int32x8 __attribute__((vector_size(32)));
#define LS_TARGET __attribute__((target("avx2")))
#define LANES 8u
#define LS_REAL __m256
#define LS_INT int32x8
#define LS_NAME(name) avx2_##name
#define LS_C(c) _mm256_set1_ps(c)
#define LS_LOAD(p) _mm256_loadu_ps(p)
#define LS_STORE(p, v) _mm256_storeu_ps(p, v)
#define LS_SQRT(a) _mm256_sqrt_ps(a)
#define LS_POS(a) _mm256_max_ps(a, _mm256_setzero_ps())
#define LS_SIGN(a)           \
    _mm256_or_ps(LS_C(1.0f), \
                 _mm256_andnot_ps(_mm256_cmp_ps(a, _mm256_setzero_ps(), _CMP_GT_OQ), LS_C(-0.0f)))
#define LS_ABS(a) _mm256_andnot_ps(LS_C(-0.0f), a)
#define LS_MAX(m, a) _mm256_max_ps(a, m)
#define LS_BELOW0(a) ((int32x8)_mm256_cmp_ps(a, _mm256_setzero_ps(), _CMP_LT_OQ))
#define LS_LANE(v, i) ((v)[i])
#include "app/analysis/levelset/rows_body.h"

/* 16 lanes: AVX-512F. Clang 18, and no other version, also requires the target "evex512". */
typedef int32_t int32x16 __attribute__((vector_size(64)));
#if defined __clang__ && __clang_major__ == 18
#define LS_TARGET __attribute__((target("avx512f,evex512")))
#else
#define LS_TARGET __attribute__((target("avx512f")))
#endif
#define LANES 16u
#define LS_REAL __m512
#define LS_INT int32x16
#define LS_NAME(name) avx512_##name
#define LS_C(c) _mm512_set1_ps(c)
#define LS_LOAD(p) _mm512_loadu_ps(p)
#define LS_STORE(p, v) _mm512_storeu_ps(p, v)
#define LS_SQRT(a) _mm512_sqrt_ps(a)
#define LS_POS(a) _mm512_max_ps(a, _mm512_setzero_ps())
#define LS_SIGN(a)                                                                          \
    _mm512_mask_mov_ps(LS_C(-1.0f), _mm512_cmp_ps_mask(a, _mm512_setzero_ps(), _CMP_GT_OQ), \
                       LS_C(1.0f))
#define LS_ABS(a) _mm512_abs_ps(a)
#define LS_MAX(m, a) _mm512_max_ps(a, m)
#define LS_BELOW0(a) \
    ((int32x16)_mm512_maskz_set1_epi32(_mm512_cmp_ps_mask(a, _mm512_setzero_ps(), _CMP_LT_OQ), -1))
#define LS_LANE(v, i) ((v)[i])
#include "app/analysis/levelset/rows_body.h"

static const ls_simd sse2 = { "sse2", 4, &scalar, sse2_step_box, sse2_apply };
static const ls_simd avx2 = { "avx2", 8, &sse2, avx2_step_box, avx2_apply };
static const ls_simd avx512 = { "avx512", 16, &avx2, avx512_step_box, avx512_apply };

/* Returns the control register XCR0, whose bits state which registers the operating system saves
 * for a thread; 0 if the processor does not have it. (__builtin_cpu_supports of GCC and clang needs
 * a library that not every compiler has.) */
static uint32_t saved_registers(void)
{
    const unsigned osxsave = 1u << 27;
    unsigned a, b, c, d;

    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & osxsave) == 0)
        return 0;
    __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return a;
}

/* The bits are described in Intel's manual, volume 1, chapters 14.3 and 15.2. ymm and zmm are the
 * bits of XCR0 that must all be set before these registers may be used; has_avx2 and has_avx512f
 * are bits of ebx of CPUID leaf 7. */
const ls_simd *ls_simd_best(void)
{
    const uint32_t saved = saved_registers(), ymm = 0x06, zmm = 0xe6;
    const unsigned has_avx2 = 1u << 5, has_avx512f = 1u << 16;
    unsigned a, b = 0, c, d;

    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return &sse2;
    if ((saved & zmm) == zmm && (b & has_avx512f) != 0)
        return &avx512;
    return (saved & ymm) == ymm && (b & has_avx2) != 0 ? &avx2 : &sse2;
}

#else

const ls_simd *ls_simd_best(void)
{
    return &scalar;
}

#endif

const ls_simd *ls_simd_fit(const ls_simd *best, uint32_t w)
{
    while (best->lanes > w && best->narrower != NULL)
        best = best->narrower;
    return best;
}
