/* Writes and reads NPZ files (ZIP archives of NumPy arrays) piece by piece. */
#include "workunits/format/npz.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "app/base/os.h"
#include "app/base/text.h"
#include "workunits/format/archive.h"
#include "workunits/format/json_text.h"
#include "workunits/format/new_file.h"
#include "workunits/format/zip_writer.h"

#define RESULT_JSON "result.json"
#define NPY_SUFFIX ".npy"
/* The most bytes of result.json, which consists mainly of the items' names and sources. */
#define MAX_RESULT_JSON ((uint64_t)32 << 20)
#define MAX_RESULT_VALUES ((uint64_t)1 << 19) /* the most JSON values in result.json */
#define DEFAULT_MAX_BYTES ((uint64_t)4 << 30) /* the most decompressed bytes of an array */
#define MAX_WIDTH 65536u                      /* the most characters of an element of type WU_STR */

enum {
    NPY_PREFIX = 10,      /* bytes of magic, version 1.0 and length of the header text */
    NPY_ALIGN = 64,       /* the length of prefix and text is a multiple of this */
    NPY_TEXT_MAX = 512,   /* the longest header text that is written or accepted */
    COPY_BLOCK = 1 << 20, /* bytes that wu_npz_copy reads at a time */
    KEPT_ARRAY = 4 << 20, /* the most bytes of an array that keep_array keeps */
    KEPT = 16 << 20       /* the most bytes of all arrays that keep_array keeps */
};

static const char npy_magic[] = "\x93NUMPY\x01"; /* the terminating 0 is the minor version */

/* --- dtypes and sizes ------------------------------------------------------------------------ */

/* The types of fixed size: NumPy's name, and the size in bytes. The name of WU_STR, which is not in
 * this list, is <U followed by the width. */
static const struct {
    const char *descr;
    size_t size;
} dtypes[] = {
    [WU_BOOL] = { "|b1", 1 }, [WU_U8] = { "|u1", 1 },  [WU_I32] = { "<i4", 4 },
    [WU_I64] = { "<i8", 8 },  [WU_F32] = { "<f4", 4 }, [WU_F64] = { "<f8", 8 },
};

size_t wu_dtype_size(wu_dtype dtype, uint32_t width)
{
    if (dtype == WU_STR)
        return (size_t)width * 4;
    return (unsigned)dtype < WU_STR ? dtypes[dtype].size : 0;
}

/* Returns the product of `element` and the lengths of the axes. Sets *ok to 0 if the product
 * overflows, else to 1. The check replaces a length of 0 by 1, so that strides that a program
 * computes from the shape cannot overflow either. */
static uint64_t checked_count(const wu_array_info *info, uint64_t element, int *ok)
{
    uint64_t bound = element > 0 ? element : 1, count = element;
    *ok = 1;
    for (unsigned i = 0; i < info->ndim; i++) {
        const uint64_t n = info->shape[i] > 0 ? info->shape[i] : 1;
        if (bound > INT64_MAX / n) {
            *ok = 0;
            return 0;
        }
        bound *= n;
        count *= info->shape[i];
    }
    return count;
}

uint64_t wu_array_count(const wu_array_info *info, int *ok)
{
    return checked_count(info, 1, ok);
}

uint64_t wu_array_bytes(const wu_array_info *info, int *ok)
{
    return checked_count(info, wu_dtype_size(info->dtype, info->width), ok);
}

/* Whether type and shape are valid. If they are, sets *bytes to the size of the data. */
static bool info_ok(const wu_array_info *info, uint64_t *bytes)
{
    int ok = 0;
    if (info->ndim < 1 || info->ndim > WU_MAX_NDIM || (unsigned)info->dtype > WU_STR)
        return false;
    if (info->dtype == WU_STR ? info->width < 1 || info->width > MAX_WIDTH : info->width != 0)
        return false;
    *bytes = wu_array_bytes(info, &ok);
    return ok != 0;
}

/* Whether a name of an array is valid. Programs that unpack the NPZ use it as the name of a file,
 * so it must not contain characters that are special in paths. */
static bool array_name_ok(const char *name, size_t length)
{
    if (length == 0 || length > WU_MAX_MEMBER_NAME - strlen(NPY_SUFFIX) || name[0] == '.')
        return false;
    for (size_t i = 0; i < length; i++) {
        const char c = name[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '.' || c == '_' || c == '-'))
            return false;
    }
    return true;
}

/* --- the .npy header ------------------------------------------------------------------------- */

/* Writes the header's text exactly as NumPy does, without padding; a shape of one axis has a comma
 * at its end. Returns its length. */
static size_t format_header(const wu_array_info *info, char text[NPY_TEXT_MAX])
{
    char descr[16];
    if (info->dtype == WU_STR)
        snprintf(descr, sizeof descr, "<U%" PRIu32, info->width);
    else
        snprintf(descr, sizeof descr, "%s", dtypes[info->dtype].descr);
    size_t n = (size_t)snprintf(text, NPY_TEXT_MAX,
                                "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (unsigned i = 0; i < info->ndim; i++)
        n += (size_t)snprintf(text + n, NPY_TEXT_MAX - n, "%s%" PRIu64, i > 0 ? ", " : "",
                              info->shape[i]);
    n += (size_t)snprintf(text + n, NPY_TEXT_MAX - n, "%s), }", info->ndim == 1 ? "," : "");
    return n;
}

/* Makes the header: prefix, text, spaces and a line feed. Returns its length, a multiple of
 * NPY_ALIGN. */
static size_t build_header(const wu_array_info *info, unsigned char out[NPY_PREFIX + NPY_TEXT_MAX])
{
    char text[NPY_TEXT_MAX];
    const size_t n = format_header(info, text);
    /* 1: the line feed; the sum is rounded up. */
    const size_t total = (NPY_PREFIX + n + 1 + NPY_ALIGN - 1) / NPY_ALIGN * NPY_ALIGN;
    memset(out, ' ', total);
    memcpy(out, npy_magic, 8);
    out[8] = (unsigned char)((total - NPY_PREFIX) & 0xff);
    out[9] = (unsigned char)((total - NPY_PREFIX) >> 8);
    memcpy(out + NPY_PREFIX, text, n);
    out[total - 1] = '\n';
    return total;
}

/* This function and the three below parse a part of the header's text at *p. On success they
 * advance *p and return true. */
static bool skip_literal(const char **p, const char *literal)
{
    const size_t n = strlen(literal);
    if (strncmp(*p, literal, n) != 0)
        return false;
    *p += n;
    return true;
}

/* Parses a decimal number up to `max` as Python prints it, without sign and leading zeros. */
static bool parse_number(const char **p, uint64_t max, uint64_t *out)
{
    const char *s = *p;
    uint64_t value = 0;
    if (*s < '0' || *s > '9' || (s[0] == '0' && s[1] >= '0' && s[1] <= '9'))
        return false;
    for (; *s >= '0' && *s <= '9'; s++) {
        const uint64_t digit = (uint64_t)(*s - '0');
        if (value > (max - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *p = s;
    *out = value;
    return true;
}

static bool parse_dtype(const char **p, wu_array_info *info)
{
    uint64_t width = 0;
    for (unsigned d = 0; d < WU_STR; d++) {
        if (skip_literal(p, dtypes[d].descr)) {
            info->dtype = (wu_dtype)d;
            return true;
        }
    }
    if (!skip_literal(p, "<U") || !parse_number(p, MAX_WIDTH, &width))
        return false;
    info->dtype = WU_STR;
    info->width = (uint32_t)width;
    return true;
}

/* Parses the lengths of the axes and the closing parenthesis: "5,)" or "5, 3)". */
static bool parse_shape(const char **p, wu_array_info *info)
{
    for (;;) {
        if (info->ndim == WU_MAX_NDIM || !parse_number(p, INT64_MAX, &info->shape[info->ndim]))
            return false;
        info->ndim++;
        if (info->ndim == 1 && skip_literal(p, ",)"))
            return true;
        if (info->ndim > 1 && skip_literal(p, ")"))
            return true;
        if (!skip_literal(p, ", "))
            return false;
    }
}

/* Parses the header's text, which must be exactly what NumPy writes for a C-ordered array of a type
 * in `dtypes` or of strings. (NumPy itself evaluates it as a Python expression.) `text` ends with a
 * NUL. */
static bool parse_header(const char *text, wu_array_info *info)
{
    const char *p = text;
    if (!skip_literal(&p, "{'descr': '") || !parse_dtype(&p, info) ||
        !skip_literal(&p, "', 'fortran_order': False, 'shape': (") || !parse_shape(&p, info) ||
        !skip_literal(&p, ", }"))
        return false;
    while (*p == ' ')
        p++;
    return p[0] == '\n' && p[1] == '\0';
}

/* --- the writer ------------------------------------------------------------------------------ */

struct wu_npz_writer {
    wu_new_file out;
    wu_zip_writer *zip;
    json_t *names; /* an object whose keys are the names of the members written so far */
    bool in_entry; /* a member was begun and not ended */
    uint64_t left; /* bytes of the current array that are not written yet */
};

tc_status wu_npz_create(const char *path, wu_npz_writer **out, tc_err *err)
{
    wu_npz_writer *const w = *out = calloc(1, sizeof *w);
    tc_status status = w == NULL || (w->names = json_object()) == NULL
                           ? tc_no_memory(err, "a result")
                           : wu_new_file_open(path, &w->out, err);
    if (status == TC_OK)
        status = wu_zip_create(fileno(w->out.file), w->out.path, WU_NPZ_LEVEL, &w->zip, err);
    if (status != TC_OK)
        wu_npz_abort(out);
    return status;
}

void wu_npz_use_threads(wu_npz_writer *w, unsigned threads)
{
    wu_zip_use_threads(w->zip, threads);
}

/* Begins a member; its name must be new. */
static tc_status begin_entry(wu_npz_writer *w, const char *name, tc_err *err)
{
    if (w->in_entry)
        return tc_fail(err, TC_INTERNAL, "%s: entry %s begins inside another", w->out.path, name);
    if (json_object_get(w->names, name) != NULL)
        return tc_fail(err, TC_INTERNAL, "%s: two entries are named %s", w->out.path, name);
    if (json_object_set_new(w->names, name, json_true()) != 0)
        return tc_no_memory(err, "a result");
    w->in_entry = true;
    return TC_OK;
}

static tc_status end_entry(wu_npz_writer *w, tc_err *err)
{
    w->in_entry = false;
    return wu_zip_end(w->zip, err);
}

/* The name, header and compression of a member that is an array. */
typedef struct npy_head {
    char member[WU_MAX_MEMBER_NAME + 1];            /* the member's name */
    unsigned char bytes[NPY_PREFIX + NPY_TEXT_MAX]; /* the .npy header, n bytes */
    size_t n;
    uint64_t data_bytes; /* bytes of the array's data, without the header */
    bool deflated;       /* the member is compressed */
    wu_row_layout rows;  /* the layout for wu_zip_expect_rows; rows.word is 0 if it is not used */
} npy_head;

/* Sets *head for an array. shown: the name of the NPZ in messages. Floating-point data are not
 * compressed. */
static tc_status make_head(const char *shown, const wu_array_info *info, npy_head *head,
                           tc_err *err)
{
    if (!array_name_ok(info->name, strlen(info->name)) || !info_ok(info, &head->data_bytes))
        return tc_fail(err, TC_INTERNAL, "%s: array %s has no valid name, type or shape", shown,
                       wu_quote(info->name).text);
    snprintf(head->member, sizeof head->member, "%s" NPY_SUFFIX, info->name);
    head->n = build_header(info, head->bytes);
    head->deflated = info->dtype != WU_F32 && info->dtype != WU_F64;
    head->rows = (wu_row_layout){ .word = 0 };
    if (head->deflated && info->ndim > 1 && head->data_bytes > 0) {
        head->rows.word = wu_dtype_size(info->dtype, info->width);
        head->rows.row = head->rows.word * (size_t)info->shape[info->ndim - 1];
    }
    return TC_OK;
}

tc_status wu_npz_begin(wu_npz_writer *w, const wu_array_info *info, tc_err *err)
{
    npy_head head;
    return_if_error(make_head(w->out.path, info, &head, err));
    return_if_error(begin_entry(w, head.member, err));
    w->left = head.data_bytes;
    return_if_error(
        wu_zip_begin(w->zip, head.member, head.deflated, head.data_bytes + head.n, err));
    if (head.rows.word > 0)
        return_if_error(wu_zip_expect_rows(w->zip, head.rows, err));
    return wu_zip_write(w->zip, head.bytes, head.n, err);
}

tc_status wu_npz_begin_compressing(wu_compressor *packer, const char *shown,
                                   const wu_array_info *info, tc_err *err)
{
    npy_head head;
    return_if_error(make_head(shown, info, &head, err));
    return_if_error(wu_compressor_begin(packer, head.deflated, head.data_bytes + head.n, err));
    if (head.rows.word > 0)
        return_if_error(wu_compressor_expect_rows(packer, head.rows, err));
    return wu_compressor_write(packer, head.bytes, head.n, err);
}

tc_status wu_npz_begin_compressed(wu_npz_writer *w, const wu_array_info *info,
                                  const wu_compressed *compressed, tc_err *err)
{
    npy_head head;
    return_if_error(make_head(w->out.path, info, &head, err));
    if (compressed->deflated != head.deflated || compressed->size != head.data_bytes + head.n)
        return tc_fail(err, TC_INTERNAL, "%s: array %s differs from the array that was compressed",
                       w->out.path, info->name);
    return_if_error(begin_entry(w, head.member, err));
    w->left = compressed->compressed;
    return wu_zip_begin_compressed(w->zip, head.member, compressed, err);
}

tc_status wu_npz_write(wu_npz_writer *w, const void *data, size_t n, tc_err *err)
{
    if (!w->in_entry || n > w->left)
        return tc_fail(err, TC_INTERNAL, "%s: more data were written than the array has",
                       w->out.path);
    w->left -= n;
    return wu_zip_write(w->zip, data, n, err);
}

tc_status wu_npz_end(wu_npz_writer *w, tc_err *err)
{
    if (!w->in_entry || w->left != 0)
        return tc_fail(err, TC_INTERNAL, "%s: fewer data were written than the array has",
                       w->out.path);
    return end_entry(w, err);
}

tc_status wu_npz_add_json(wu_npz_writer *w, const char *name, const json_t *json, tc_err *err)
{
    TC_AUTOFREE char *text = wu_json_text(json, WU_JSON_LAYOUT);
    if (text == NULL)
        return tc_no_memory(err, name);
    const size_t n = strlen(text);
    return_if_error(begin_entry(w, name, err));
    return_if_error(wu_zip_begin(w->zip, name, true, n + 1, err));
    return_if_error(wu_zip_write(w->zip, text, n, err));
    return_if_error(wu_zip_write(w->zip, "\n", 1, err));
    return end_entry(w, err);
}

static tc_status copy_array(wu_npz_writer *w, wu_npz_reader *r, size_t index, unsigned char *block,
                            tc_err *err)
{
    TC_AUTO(wu_npz_stream_close) wu_npz_stream *s = NULL;
    return_if_error(wu_npz_stream_open(r, index, &s, err));
    return_if_error(wu_npz_begin(w, wu_npz_array_info(r, index), err));
    while (wu_npz_stream_left(s) > 0) {
        const uint64_t left = wu_npz_stream_left(s);
        const size_t n = left < COPY_BLOCK ? (size_t)left : COPY_BLOCK;
        return_if_error(wu_npz_stream_read(s, block, n, err));
        return_if_error(wu_npz_write(w, block, n, err));
    }
    return_if_error(wu_npz_stream_end(s, err));
    return wu_npz_end(w, err);
}

tc_status wu_npz_copy(wu_npz_writer *w, wu_npz_reader *r, tc_err *err)
{
    TC_AUTOFREE unsigned char *const block = malloc(COPY_BLOCK);
    if (block == NULL)
        return tc_no_memory(err, "a result");
    return_if_error(wu_npz_add_json(w, RESULT_JSON, wu_npz_json(r), err));
    for (size_t i = 0; i < wu_npz_array_count(r); i++)
        return_if_error(copy_array(w, r, i, block, err));
    return TC_OK;
}

tc_status wu_npz_complete(wu_npz_writer *w, tc_err *err)
{
    if (w->in_entry)
        return tc_fail(err, TC_INTERNAL, "%s: closed inside an entry", w->out.path);
    const tc_status status = wu_zip_finish(w->zip, true, err);
    w->out.synced = status == TC_OK;
    return status;
}

tc_status wu_npz_close(wu_npz_writer **writer, tc_err *err)
{
    wu_npz_writer *const w = *writer;
    tc_status status = w->out.synced ? TC_OK : wu_npz_complete(w, err);
    status = wu_new_file_close(&w->out, status, err);
    wu_npz_abort(writer);
    return status;
}

void wu_npz_abort(wu_npz_writer **writer)
{
    wu_npz_writer *const w = *writer;
    if (w == NULL)
        return;
    wu_zip_free(&w->zip);
    wu_new_file_close(&w->out, TC_IO, NULL);
    json_decref(w->names);
    free(w);
    *writer = NULL;
}

/* --- the reader ------------------------------------------------------------------------------ */

typedef struct npz_array {
    wu_array_info info;
    size_t member;      /* index of the member in the archive */
    size_t header;      /* size of the .npy header in bytes; 0: not read yet
                           (wu_npz_limits.headers_later) */
    uint64_t bytes;     /* size of the data in bytes */
    void *_Atomic kept; /* the data, if keep_array keeps them for streams; else NULL */
} npz_array;

struct wu_npz_reader {
    wu_archive *archive;
    wu_unzip *_Atomic idle; /* a decompressor that no stream uses; NULL if there is none, so that
                               the next stream opens a new one */
    _Atomic uint64_t bytes_kept; /* the sum of the sizes of the arrays that keep_array keeps */
    wu_npz_limits limits;
    json_t *json; /* the content of result.json */
    size_t n;
    npz_array *arrays;     /* [n] */
    long *array_of_member; /* [archive->n] index in `arrays` of each member; -1 for result.json */
};

static tc_status array_fault(const wu_npz_reader *r, size_t member, tc_err *err, const char *fault)
{
    return tc_fail(err, TC_BAD_INPUT, "%s: member \"%s\": %s", r->archive->path,
                   r->archive->members[member].name, fault);
}

/* Reads exactly n bytes of the member. */
static tc_status read_exactly(const wu_npz_reader *r, wu_unzip *zip, size_t member, void *buf,
                              size_t n, tc_err *err)
{
    unsigned char *p = buf;
    while (n > 0) {
        size_t got = 0;
        return_if_error(wu_unzip_read(zip, p, n, &got, err));
        if (got == 0)
            return array_fault(r, member, err, "too short for an array");
        p += got;
        n -= got;
    }
    return TC_OK;
}

/* Reads the header of an array, and sets info (except its name), header and bytes of *array. */
static tc_status read_array_header(const wu_npz_reader *r, wu_unzip *zip, npz_array *array,
                                   tc_err *err)
{
    const size_t member = array->member;
    unsigned char prefix[NPY_PREFIX];
    char text[NPY_TEXT_MAX + 1];
    wu_unzip_begin(zip, member);
    return_if_error(read_exactly(r, zip, member, prefix, sizeof prefix, err));
    if (memcmp(prefix, npy_magic, 8) != 0)
        return array_fault(r, member, err, "not a NumPy array of format 1.0");
    const size_t n = prefix[8] | (size_t)prefix[9] << 8;
    if (n > NPY_TEXT_MAX)
        return array_fault(r, member, err, "its header is too long");
    return_if_error(read_exactly(r, zip, member, text, n, err));
    text[n] = '\0';
    if (!parse_header(text, &array->info))
        return array_fault(r, member, err,
                           "its header does not describe a C-ordered array of a supported type");
    if (!info_ok(&array->info, &array->bytes))
        return array_fault(r, member, err, "its shape is too large");
    if (r->archive->members[member].size - NPY_PREFIX - n != array->bytes)
        return array_fault(r, member, err, "its size is not what its header says");
    if (array->bytes > r->limits.array_bytes)
        return array_fault(r, member, err, "larger than the limit for an array");
    array->header = NPY_PREFIX + n;
    return TC_OK;
}

/* Returns the length of NAME if the member's name is "NAME.npy" and NAME is valid, else 0. */
static size_t array_name_length(const char *member)
{
    const size_t n = strlen(member), suffix = strlen(NPY_SUFFIX);
    if (n <= suffix || strcmp(member + n - suffix, NPY_SUFFIX) != 0 ||
        !array_name_ok(member, n - suffix))
        return 0;
    return n - suffix;
}

/* Appends a member, which must be an array, to r->arrays. Reads its header, unless
 * r->limits.headers_later is set. */
static tc_status read_member(wu_npz_reader *r, size_t member, tc_err *err)
{
    const wu_member *m = &r->archive->members[member];
    const size_t length = m->is_folder ? 0 : array_name_length(m->name);
    if (length == 0)
        return array_fault(r, member, err, "neither " RESULT_JSON " nor an array");
    npz_array *array = &r->arrays[r->n];
    array->member = member;
    array->info.name = tc_strndup(m->name, length);
    if (array->info.name == NULL)
        return tc_no_memory(err, "a result");
    r->array_of_member[member] = (long)r->n++;
    return r->limits.headers_later ? TC_OK : read_array_header(r, r->idle, array, err);
}

/* Reads result.json and the headers of all arrays. result.json is read first, so that a file in
 * which it is missing or invalid is rejected before the other members are read. */
static tc_status read_members(wu_npz_reader *r, tc_err *err)
{
    const wu_archive *const a = r->archive;
    const long json = wu_archive_find(a, RESULT_JSON);
    const char *fault = r->limits.canonical ? wu_archive_form_fault(a) : NULL;
    if (json < 0 && wu_archive_find(a, "job.json") >= 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: is a work unit, not a result", a->path);
    if (json < 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: no member \"" RESULT_JSON "\" in the archive",
                       a->path);
    if (fault == NULL && r->limits.canonical && json != 0)
        fault = RESULT_JSON " is not its first member";
    if (fault != NULL)
        return tc_fail(err, TC_BAD_INPUT, "%s: %s", a->path, fault);
    r->arrays = calloc(a->n, sizeof *r->arrays);
    r->array_of_member = calloc(a->n, sizeof *r->array_of_member);
    if (r->arrays == NULL || r->array_of_member == NULL)
        return tc_no_memory(err, "a result");
    wu_unzip *zip = NULL;
    return_if_error(wu_unzip_open(a, a->poll, &zip, err));
    r->idle = zip;
    return_if_error(
        wu_unzip_json(zip, (size_t)json, r->limits.json_bytes, MAX_RESULT_VALUES, &r->json, err));
    if (r->limits.canonical && wu_json_has_negative_zero(r->json))
        return tc_fail(err, TC_BAD_INPUT, "%s: " RESULT_JSON ": a zero has a sign", a->path);
    r->array_of_member[json] = -1;
    for (size_t i = 0; i < a->n; i++)
        if ((long)i != json)
            return_if_error(read_member(r, i, err));
    return TC_OK;
}

/* Returns the smaller of two limits. If `given` is 0, only `most` applies. */
static uint64_t limit_of(uint64_t given, uint64_t most)
{
    return given != 0 && given < most ? given : most;
}

tc_status wu_npz_open(const char *path, const wu_npz_limits *limits, wu_npz_reader **out,
                      tc_err *err)
{
    const wu_npz_limits given = limits != NULL ? *limits : (wu_npz_limits){ 0 };
    *out = NULL;
    wu_npz_reader *r = calloc(1, sizeof *r);
    if (r == NULL)
        return tc_no_memory(err, "a result");
    r->limits = (wu_npz_limits){ .array_bytes = limit_of(given.array_bytes, DEFAULT_MAX_BYTES),
                                 .members = limit_of(given.members, WU_MAX_MEMBERS),
                                 .json_bytes = limit_of(given.json_bytes, MAX_RESULT_JSON),
                                 .canonical = given.canonical,
                                 .headers_later = given.headers_later };
    tc_status status = wu_archive_read(path, r->limits.members, NULL, &r->archive, err);
    if (status == TC_OK)
        status = read_members(r, err);
    if (status == TC_OK)
        *out = r;
    else
        wu_npz_reader_close(&r);
    return status;
}

void wu_npz_reader_close(wu_npz_reader **reader)
{
    wu_npz_reader *r = *reader;
    if (r == NULL)
        return;
    for (size_t i = 0; i < r->n; i++) {
        free(r->arrays[i].info.name);
        free(r->arrays[i].kept);
    }
    free(r->arrays);
    free(r->array_of_member);
    json_decref(r->json);
    wu_unzip *zip = r->idle;
    wu_unzip_close(&zip);
    wu_archive_destroy(&r->archive);
    free(r);
    *reader = NULL;
}

size_t wu_npz_array_count(const wu_npz_reader *r)
{
    return r->n;
}

const wu_array_info *wu_npz_array_info(const wu_npz_reader *r, size_t index)
{
    assert(index < wu_npz_array_count(r));
    return &r->arrays[index].info;
}

uint32_t wu_npz_array_crc(const wu_npz_reader *r, size_t index)
{
    assert(index < wu_npz_array_count(r));
    return r->archive->members[r->arrays[index].member].crc;
}

long wu_npz_find_array(const wu_npz_reader *r, const char *name)
{
    char member[WU_MAX_MEMBER_NAME + 1];
    if (!array_name_ok(name, strlen(name)))
        return -1;
    snprintf(member, sizeof member, "%s" NPY_SUFFIX, name);
    const long index = wu_archive_find(r->archive, member);
    return index < 0 ? -1 : r->array_of_member[index];
}

const json_t *wu_npz_json(const wu_npz_reader *r)
{
    return r->json;
}

/* --- reading arrays -------------------------------------------------------------------------- */

struct wu_npz_stream {
    wu_npz_reader *r;
    const unsigned char *kept; /* if the array is in memory (keep_array), its data that have not
                                  been returned yet; else NULL, and `zip` reads the data */
    wu_unzip *zip;
    size_t member;
    uint64_t left;  /* number of bytes of data that have not been returned yet */
    size_t n_ahead; /* number of bytes read ahead, which are at the end of the buffer `ahead` */
    unsigned char ahead[1 << 13]; /* the buffer makes reading the short rows of tables fast */
};

/* Sets *zip to the idle decompressor, which is then no longer idle, or opens a new one. */
static tc_status obtain_zip(wu_npz_reader *r, wu_unzip **zip, tc_err *err)
{
    *zip = atomic_exchange(&r->idle, NULL);
    return *zip != NULL ? TC_OK : wu_unzip_open(r->archive, r->archive->poll, zip, err);
}

/* Makes the decompressor the idle one for the next stream, or closes it if there is one already. */
static void return_zip(wu_npz_reader *r, wu_unzip *zip)
{
    wu_unzip *none = NULL;
    if (!atomic_compare_exchange_strong(&r->idle, &none, zip))
        wu_unzip_close(&zip);
}

tc_status wu_npz_read_header(wu_npz_reader *r, size_t index, tc_err *err)
{
    assert(index < wu_npz_array_count(r));
    npz_array *const array = &r->arrays[index];
    wu_unzip *zip = NULL;
    if (array->header > 0)
        return TC_OK;
    return_if_error(obtain_zip(r, &zip, err));
    const tc_status status = read_array_header(r, zip, array, err);
    return_zip(r, zip);
    return status;
}

/* Opens a stream that reads the array from the file. */
static tc_status open_stream(wu_npz_reader *r, size_t index, wu_npz_stream **out, tc_err *err)
{
    unsigned char header[NPY_PREFIX + NPY_TEXT_MAX];
    const npz_array *array = &r->arrays[index];
    assert(array->header > 0);
    *out = NULL;
    wu_npz_stream *s = calloc(1, sizeof *s);
    if (s == NULL)
        return tc_no_memory(err, array->info.name);
    *s = (wu_npz_stream){ .r = r, .member = array->member, .left = array->bytes };
    tc_status status = obtain_zip(r, &s->zip, err);
    if (status == TC_OK) {
        wu_unzip_begin(s->zip, s->member);
        status = read_exactly(r, s->zip, s->member, header, array->header, err);
    }
    if (status == TC_OK)
        *out = s;
    else
        wu_npz_stream_close(&s);
    return status;
}

tc_status wu_npz_stream_read(wu_npz_stream *s, void *buf, size_t n, tc_err *err)
{
    unsigned char *to = buf;
    tc_status status = TC_OK;
    if (s->kept != NULL && n <= s->left) {
        if (n > 0) /* otherwise buf may be NULL */
            memcpy(buf, s->kept, n);
        s->kept += n;
        s->left -= n;
        return TC_OK;
    }
    if (s->kept != NULL)
        return array_fault(s->r, s->member, err, "too short for an array");
    while (status == TC_OK && n > 0) {
        const size_t room = sizeof s->ahead;
        if (s->n_ahead == 0 && n < room) {
            s->n_ahead = s->left < room ? (size_t)s->left : room;
            status = read_exactly(s->r, s->zip, s->member, s->ahead + room - s->n_ahead, s->n_ahead,
                                  err);
        }
        const size_t part = s->n_ahead == 0 || n < s->n_ahead ? n : s->n_ahead;
        if (status == TC_OK && s->n_ahead == 0) {
            status = read_exactly(s->r, s->zip, s->member, to, n, err);
        } else if (status == TC_OK) {
            memcpy(to, s->ahead + room - s->n_ahead, part);
            s->n_ahead -= part;
        }
        to += part;
        n -= part;
        s->left -= status == TC_OK ? part : 0;
    }
    return status;
}

uint64_t wu_npz_stream_left(const wu_npz_stream *s)
{
    return s->left;
}

tc_status wu_npz_stream_end(wu_npz_stream *s, tc_err *err)
{
    return s->kept != NULL ? TC_OK : wu_unzip_drain(s->zip, err);
}

void wu_npz_stream_close(wu_npz_stream **stream)
{
    wu_npz_stream *s = *stream;
    if (s == NULL)
        return;
    if (s->zip != NULL)
        return_zip(s->r, s->zip);
    free(s);
    *stream = NULL;
}

tc_status wu_npz_load_array_into(wu_npz_reader *r, size_t index, const wu_array_info *want,
                                 wu_npz_buffer *buffer, const void **data, tc_err *err)
{
    assert(index < wu_npz_array_count(r));
    const npz_array *const array = &r->arrays[index];
    npy_head head;
    *data = NULL;
    return_if_error(make_head(r->archive->path, want, &head, err));
    /* The header is read, too. It is read to an offset of `begin` bytes, which aligns the data. */
    const size_t header = array->header > 0 ? array->header : head.n,
                 begin = (NPY_ALIGN - header % NPY_ALIGN) % NPY_ALIGN,
                 bytes = header + (size_t)head.data_bytes, need = begin + bytes;
    if (strcmp(array->info.name, want->name) != 0 ||
        r->archive->members[array->member].size != bytes || head.data_bytes > r->limits.array_bytes)
        return TC_OK;
    wu_unzip *zip = NULL;
    if (buffer->room < need) {
        wu_npz_buffer_free(buffer);
        buffer->bytes = os_alloc_zeroed(need); /* uses huge pages of memory */
        if (buffer->bytes == NULL)
            return tc_no_memory(err, array->info.name);
        buffer->room = need;
    }
    return_if_error(obtain_zip(r, &zip, err));
    wu_unzip_begin(zip, array->member);
    tc_status status = read_exactly(r, zip, array->member, buffer->bytes + begin, bytes, err);
    if (status == TC_OK)
        status = wu_unzip_drain(zip, err);
    return_zip(r, zip);
    if (status == TC_OK &&
        (array->header > 0 || memcmp(buffer->bytes + begin, head.bytes, head.n) == 0))
        *data = buffer->bytes + begin + header;
    return status;
}

void wu_npz_buffer_free(wu_npz_buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (wu_npz_buffer){ .room = 0 };
}

tc_status wu_npz_load_array(wu_npz_reader *r, size_t index, void **data, tc_err *err)
{
    assert(index < wu_npz_array_count(r));
    const npz_array *array = &r->arrays[index];
    wu_npz_stream *s = NULL;
    *data = NULL;
    tc_status status = open_stream(r, index, &s, err);
    if (status != TC_OK)
        return status;
    void *buf = os_alloc_zeroed((size_t)array->bytes + 1); /* uses huge pages of memory */
    if (buf == NULL)
        status = tc_no_memory(err, array->info.name);
    if (status == TC_OK)
        status = wu_npz_stream_read(s, buf, (size_t)array->bytes, err);
    if (status == TC_OK)
        status = wu_npz_stream_end(s, err);
    wu_npz_stream_close(&s);
    if (status == TC_OK)
        *data = buf;
    else
        free(buf);
    return status;
}

/* Returns the data of array `index`, and keeps them for further streams, because tables are read
 * several times and libdeflate decompresses a whole array in half the time. Returns NULL if the
 * array is too large, if too many bytes are kept already, or if the data are damaged: the stream
 * then reads the file, and reports damage. */
static const void *keep_array(wu_npz_reader *r, size_t index)
{
    npz_array *const array = &r->arrays[index];
    void *kept = array->kept, *none = NULL;
    tc_err err;
    if (kept != NULL || array->bytes > KEPT_ARRAY)
        return kept;
    /* If another thread has stored the array in the meantime, `none` becomes that thread's copy. */
    if (atomic_fetch_add(&r->bytes_kept, array->bytes) + array->bytes <= KEPT &&
        wu_npz_load_array(r, index, &kept, &err) == TC_OK &&
        atomic_compare_exchange_strong(&array->kept, &none, kept))
        return kept;
    atomic_fetch_sub(&r->bytes_kept, array->bytes);
    free(kept);
    return none;
}

tc_status wu_npz_stream_open(wu_npz_reader *r, size_t index, wu_npz_stream **out, tc_err *err)
{
    assert(index < wu_npz_array_count(r));
    const npz_array *const array = &r->arrays[index];
    const void *const kept = keep_array(r, index);
    if (kept == NULL)
        return open_stream(r, index, out, err);
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return tc_no_memory(err, array->info.name);
    **out = (wu_npz_stream){ .r = r, .kept = kept, .member = array->member, .left = array->bytes };
    return TC_OK;
}

/* --- text ------------------------------------------------------------------------------------ */

/* Encodes a code point as UTF-8, or '?' if it is invalid. Returns the number of bytes. */
static size_t encode_utf8(uint32_t c, char out[4])
{
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        c = '?';
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    const size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    /* The high bits of the first byte, which give the number n of bytes. */
    static const unsigned char lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    out[0] = (char)(lead[n] | c);
    return n;
}

void wu_ucs4_to_utf8(const uint32_t *chars, uint32_t width, char *out, size_t out_size)
{
    size_t n = 0;
    if (out_size == 0)
        return;
    for (uint32_t i = 0; i < width && chars[i] != 0; i++) {
        char bytes[4];
        const size_t length = encode_utf8(chars[i], bytes);
        if (n + length >= out_size)
            break;
        memcpy(out + n, bytes, length);
        n += length;
    }
    out[n] = '\0';
}

long wu_utf8_to_ucs4(const char *text, uint32_t *out, uint32_t width)
{
    uint32_t n = 0;
    for (const char *p = text; *p != '\0'; n++) {
        uint32_t c = 0;
        const size_t used = tc_decode_utf8(p, &c);
        if (used == 0 || (out != NULL && n == width))
            return -1;
        if (out != NULL)
            out[n] = c;
        p += used;
    }
    if (out != NULL && n < width)
        memset(out + n, 0, (width - n) * sizeof *out);
    return (long)n;
}
