/* Unit tests of items' outputs and of result files. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/make_zip.h"
#include "workunits/format/result.h"

/* A job without a work unit file, and settings of how its items' outputs are made. */
typedef struct fixture {
    char *folder, *path;
    wu_job job;
    wu_item items[3];
    int loads;         /* number of calls of read_item */
    size_t fail_at;    /* index of the item that cannot be read; 99: none */
    const char *fault; /* what make_item does wrong with the last item, or "" */
    double share;      /* the share of the work that was last reported to record_share(); 0: none */
} fixture;

static tc_err err;
static char name_a[] = "a", name_b[] = "bb", name_c[] = "c-c", job_path[] = "wu.zip",
            analysis[] = "glcm";

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    MUST(f != NULL);
    f->folder = make_folder();
    f->path = join_path(f->folder, "r.npz");
    f->items[0].name = name_a;
    f->items[1].name = name_b;
    f->items[2].name = name_c;
    f->job = (wu_job){ .path = job_path,
                       .file_size = 123456,
                       .file_crc = 0xbeef,
                       .file_sha256 = "5a5a",
                       .analysis = analysis,
                       .n_items = 3,
                       .items = f->items };
    f->fail_at = 99;
    f->fault = "";
    memset(&err, 0, sizeof err);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    remove_folder(f->folder);
    free(f->path);
    free(f);
    return 0;
}

/* --- the output of an item ------------------------------------------------------------------- */

static void adds_zeroed_arrays(void **state)
{
    (void)state;
    wu_output out = { 0 };
    void *data = NULL;
    const uint64_t shape[] = { 3, 5 }, none[] = { 0, 5 };
    for (unsigned i = 0; i < 20; i++) {
        char name[8];
        snprintf(name, sizeof name, "x%u", i);
        assert_int_equal(wu_output_add(&out, WU_ROWS, name, WU_I32, 0, 2, shape, &data, &err),
                         TC_OK);
        assert_int_equal(out.n, i + 1);
        assert_string_equal(out.arrays[i].info.name, name);
        assert_ptr_equal(out.arrays[i].data, data);
        for (unsigned k = 0; k < 15; k++)
            assert_int_equal(((int32_t *)data)[k], 0);
        memset(data, 0xff, 60);
    }
    assert_int_equal(wu_output_add(&out, WU_PER_ITEM, "empty", WU_F64, 0, 2, none, &data, &err),
                     TC_OK);
    assert_null(data);
    wu_output_free(&out);
    assert_int_equal(out.n, 0);
    assert_null(out.arrays);
}

static void refuses_bad_arrays(void **state)
{
    (void)state;
    wu_output out = { 0 };
    void *data = NULL;
    const uint64_t shape[] = { 3, (uint64_t)1 << 62, 1, 1, 1, 1 };
    assert_int_equal(wu_output_add(&out, WU_ROWS, "x", WU_I32, 0, 0, shape, &data, &err),
                     TC_INTERNAL);
    assert_int_equal(wu_output_add(&out, WU_ROWS, "x", WU_I32, 0, 6, shape, &data, &err),
                     TC_INTERNAL);
    assert_int_equal(wu_output_add(&out, WU_ROWS, "x", WU_I32, 0, 2, shape, &data, &err),
                     TC_INTERNAL);
    assert_int_equal(wu_output_add(&out, WU_ROWS, "x", WU_STR, 0, 1, shape, &data, &err),
                     TC_INTERNAL);
    assert_int_equal(wu_output_add(&out, WU_ROWS, "x", (wu_dtype)9, 0, 1, shape, &data, &err),
                     TC_INTERNAL);
    assert_non_null(strstr(err.message, "array x "));
    assert_int_equal(out.n, 0);
    wu_output_free(&out);
}

/* --- results --------------------------------------------------------------------------------- */

/* Makes the output of an item: "rows" with index + 1 rows, "tags" with one row (item 1 has none),
 * and two pictures. */
static tc_status make_item(const fixture *f, size_t index, wu_output *out, tc_err *e)
{
    void *data = NULL;
    const bool last = index == 2;
    const char *fault = last ? f->fault : "";
    const uint64_t rows[] = { index + 1, strcmp(fault, "columns") == 0 ? 3 : 2 },
                   one[] = { index != 1 }, own[] = { 2 };
    char name[64];
    if (index == f->fail_at)
        return tc_fail(e, TC_BAD_INPUT, "spool: gone");
    MUST(wu_output_add(out, WU_ROWS, strcmp(fault, "name") == 0 ? "Rows" : "rows",
                       strcmp(fault, "type") == 0 ? WU_I64 : WU_F64, 0, 2, rows, &data,
                       e) == TC_OK);
    if (strcmp(fault, "type") != 0) {
        for (size_t i = 0; i < rows[0] * rows[1]; i++)
            ((double *)data)[i] = (double)(100 * index + i);
    }
    if (strcmp(fault, "fewer") == 0)
        return TC_OK;
    MUST(wu_output_add(out, WU_ROWS, "tags", WU_STR, strcmp(fault, "width") == 0 ? 2 : 1, 1, one,
                       &data, e) == TC_OK);
    if (one[0] > 0)
        *(uint32_t *)data = 'A' + (uint32_t)index;
    snprintf(name, sizeof name, "labels_%s",
             strcmp(fault, "own") == 0 ? "bb" : f->items[index].name);
    MUST(wu_output_add(out, strcmp(fault, "once") == 0 ? WU_ONCE : WU_PER_ITEM, name, WU_U8, 0, 1,
                       own, &data, e) == TC_OK);
    memcpy(data, "\x01\x02", 2);
    snprintf(name, sizeof name, "map_%s", f->items[index].name);
    MUST(wu_output_add(out, WU_PER_ITEM, name, WU_U8, 0, 1, own, &data, e) == TC_OK);
    memcpy(data, "\x03\x04", 2);
    if (strcmp(fault, "more") == 0)
        MUST(wu_output_add(out, WU_ROWS, "extra", WU_U8, 0, 1, own, &data, e) == TC_OK);
    return TC_OK;
}

/* Compresses an array in the same way as the spool; `take` gets the compressed bytes. */
static wu_compressed pack(const wu_out_array *a, wu_receive_fn take, void *taker)
{
    wu_compressor *p = NULL;
    wu_compressed compressed;
    int ok = 0;
    MUST(wu_compressor_create(WU_NPZ_LEVEL, 1, "spool", take, taker, &p, &err) == TC_OK);
    MUST(wu_npz_begin_compressing(p, "spool", &a->info, &err) == TC_OK);
    MUST(wu_compressor_write(p, a->data, (size_t)wu_array_bytes(&a->info, &ok), &err) == TC_OK);
    MUST(wu_compressor_end(p, &compressed, &err) == TC_OK);
    wu_compressor_free(&p);
    return compressed;
}

/* A callback that discards bytes. */
static tc_status drop(void *user, const void *data, size_t n, tc_err *e)
{
    (void)user;
    (void)data;
    (void)n;
    (void)e;
    return TC_OK;
}

/* Callback that reads an item's output as from the spool: WU_PER_ITEM arrays have no data. */
static tc_status read_item(void *user, size_t index, const char *only, wu_output *out, tc_err *e)
{
    (void)only;
    fixture *f = user;
    const tc_status status = make_item(f, index, out, e);
    f->loads++;
    for (size_t i = 0; status == TC_OK && i < out->n; i++) {
        wu_out_array *const a = &out->arrays[i];
        if (a->kind == WU_PER_ITEM) {
            a->compressed = pack(a, drop, NULL);
            a->compressed.size += strcmp(f->fault, "size") == 0;
            free(a->data);
            a->data = NULL;
        }
    }
    return status;
}

/* Callback that passes the compressed bytes of an item's array to `take`. */
static tc_status copy_array(void *user, size_t index, const char *array, wu_receive_fn take,
                            void *taker, tc_err *e)
{
    const fixture *f = user;
    wu_output out = { 0 };
    MUST(make_item(f, index, &out, e) == TC_OK);
    pack(wu_output_find(&out, array), take, taker);
    wu_output_free(&out);
    return strcmp(f->fault, "gone") == 0 ? tc_fail(e, TC_IO, "spool: gone") : TC_OK;
}

/* Checks and records the progress of writing, which grows from 1/9 of an item's share to 1. */
static void record_share(void *user, double share)
{
    fixture *f = user;
    assert_true(f->share > 0 ? share >= f->share
                             : share == 0 || fabs(share * 9 * (double)f->job.n_items - 1) < 1e-9);
    f->share = share;
}

/* Declares the arrays of make_item; "tags" may have any number of rows. */
static void declare_arrays(const fixture *f, wu_output *once, wu_output *item)
{
    static const char *const columns[] = { "x", "y" };
    static const wu_declaration whole[] = { { "column_names", WU_STR, WU_TITLES, "table",
                                              .width = 3, .rows = 2 } },
                                own[] = { { "rows", WU_F64, WU_VALUE, "table", .n_axes = 1,
                                            .axes = { { .n = 2, .words = columns } } },
                                          { "tags", WU_STR, WU_VALUE, "tags", "tag", .width = 1 },
                                          { "labels_{item}", WU_U8, WU_LABELS, .table = "table" },
                                          { "map_{item}", WU_U8, WU_MAP, .title = "m" } };
    MUST(wu_output_declare(once, whole, 1, NULL, &err) == TC_OK);
    MUST(wu_output_allocate(once, 0, &err) == TC_OK);
    wu_utf8_to_ucs4("x", wu_output_data(once, "column_names"), 3);
    wu_utf8_to_ucs4("y", (uint32_t *)wu_output_data(once, "column_names") + 3, 3);
    MUST(wu_output_declare(item, own, 4, &f->items[0], &err) == TC_OK);
}

static tc_status write_result(fixture *f)
{
    wu_output once = { 0 }, declared = { 0 };
    json_t *parameters = json_pack("{s:i, s:[f]}", "b", 1, "a", 0.5);
    declare_arrays(f, &once, &declared);
    f->share = 0;
    const wu_result_source source = { f, read_item, copy_array };
    const wu_write_progress written = { record_share, f };
    const tc_status status =
        wu_result_write(f->path, &f->job, parameters, &once, &declared, &source, &written, &err);
    assert_true(status != TC_OK || f->share == 1);
    wu_output_free(&once);
    wu_output_free(&declared);
    json_decref(parameters);
    return status;
}

static void *load(wu_npz_reader *r, const char *name)
{
    void *data = NULL;
    assert_true(wu_npz_find_array(r, name) >= 0);
    assert_int_equal(wu_npz_load_array(r, (size_t)wu_npz_find_array(r, name), &data, &err), TC_OK);
    return data;
}

static void joins_items(void **state)
{
    fixture *f = *state;
    wu_npz_reader *r = NULL;
    static const char *const order[] = { "column_names", "item_names", "rows",      "tags",
                                         "labels_a",     "map_a",      "labels_bb", "map_bb",
                                         "labels_c-c",   "map_c-c" };
    const double rows[6][2] = { { 0, 1 },     { 100, 101 }, { 102, 103 },
                                { 200, 201 }, { 202, 203 }, { 204, 205 } };
    assert_int_equal(write_result(f), TC_OK);
    assert_int_equal(count_files(f->folder), 1);
    assert_int_equal(wu_npz_open(f->path, NULL, &r, &err), TC_OK);
    assert_int_equal(wu_npz_array_count(r), 10);
    for (size_t i = 0; i < 10; i++)
        assert_string_equal(wu_npz_array_info(r, i)->name, order[i]);

    double *values = load(r, "rows");
    assert_int_equal(wu_npz_array_info(r, 2)->shape[0], 6);
    assert_memory_equal(values, rows, sizeof rows);
    free(values);
    uint32_t *tags = load(r, "tags");
    assert_int_equal(wu_npz_array_info(r, 3)->shape[0], 2);
    assert_int_equal(tags[0], 'A');
    assert_int_equal(tags[1], 'C');
    free(tags);
    uint32_t *names = load(r, "item_names");
    const uint32_t expected[3][3] = { { 'a' }, { 'b', 'b' }, { 'c', '-', 'c' } };
    assert_int_equal(wu_npz_array_info(r, 1)->width, 3);
    assert_memory_equal(names, expected, sizeof expected);
    free(names);
    char *own = load(r, "map_bb");
    assert_memory_equal(own, "\x03\x04", 2);
    free(own);

    json_t *json = json_pack(
        "{s:s, s:i, s:s, s:{s:i, s:[f]}, s:[s,s,s], s:{s:s, s:i, s:s}, s:o}", "format",
        "texcell-result", "version", 3, "analysis", "glcm", "parameters", "b", 1, "a", 0.5, "items",
        "a", "bb", "c-c", "workunit", "crc32", "0000beef", "size", 123456, "sha256", "5a5a",
        "arrays",
        json_loads("[{\"array\":\"column_names\",\"role\":\"titles\",\"table\":\"table\"},"
                   "{\"array\":\"rows\",\"role\":\"value\",\"table\":\"table\","
                   "\"axes\":[{\"values\":[\"x\",\"y\"]}]},"
                   "{\"array\":\"tags\",\"role\":\"value\",\"table\":\"tags\",\"title\":\"tag\"},"
                   "{\"array\":\"labels_{item}\",\"role\":\"labels\",\"table\":\"table\"},"
                   "{\"array\":\"map_{item}\",\"role\":\"map\",\"title\":\"m\"}]",
                   0, NULL));
    assert_non_null(json);
    json_t *seen = json_deep_copy(wu_npz_json(r));
    assert_true(json_equal(seen, json));
    json_decref(seen);
    json_decref(json);
    wu_npz_reader_close(&r);
}

static void writes_same_bytes(void **state)
{
    fixture *f = *state;
    assert_int_equal(write_result(f), TC_OK);
    bytes a = read_file(f->path);
    assert_int_equal(write_result(f), TC_OK);
    bytes b = read_file(f->path);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.data, b.data, a.n);
    free(a.data);
    free(b.data);
}

/* Items are read once for the shapes, once for each array of rows (WU_ROWS), and once for the
 * WU_PER_ITEM arrays; a single item is read only once. */
static void loads_items_once(void **state)
{
    fixture *f = *state;
    assert_int_equal(write_result(f), TC_OK);
    assert_true(f->loads <= 3 * (1 + 2 + 1));
    f->loads = 0;
    f->job.n_items = 1;
    assert_int_equal(write_result(f), TC_OK);
    assert_int_equal(f->loads, 1);
}

static void refuses_items_that_differ(void **state)
{
    fixture *f = *state;
    static const char *const faults[] = { "columns", "type", "name", "width",
                                          "fewer",   "more", "own",  "once" };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        f->fault = faults[i];
        if (write_result(f) != TC_INTERNAL)
            fail_msg("accepted: %s", faults[i]);
        assert_non_null(strstr(err.message, "r.npz: item c-c: array "));
        assert_int_equal(count_files(f->folder), 0);
    }
}

static void returns_errors_of_source(void **state)
{
    fixture *f = *state;
    for (f->fail_at = 0; f->fail_at < 3; f->fail_at++) {
        assert_int_equal(write_result(f), TC_BAD_INPUT);
        assert_string_equal(err.message, "spool: gone");
        assert_int_equal(count_files(f->folder), 0);
    }
    f->fault = "gone";
    assert_int_equal(write_result(f), TC_IO);
    assert_int_equal(count_files(f->folder), 0);
    f->fault = "size";
    assert_int_equal(write_result(f), TC_INTERNAL);
    assert_non_null(
        strstr(err.message, "r.npz: array labels_a differs from the array that was compressed"));
    assert_int_equal(count_files(f->folder), 0);
}

static void allocates_what_was_declared(void **state)
{
    static const wu_declaration list[] = {
        { "count", WU_I64, WU_VALUE, "items", .title = "count" },
        { "thing_item", WU_I64, WU_ITEM, .table = "things" },
        { "thing", WU_F64, WU_VALUE, "things", .n_axes = 1, .axes = { { .n = 3, .array = "k" } } },
        { "flat", WU_F64, WU_VALUE, "flat", .n_axes = 2,
          .axes = { { .n = 3, .array = "k" }, { .n = 4, .array = "k" } } },
        { "deep", WU_F64, WU_VALUE, "deep", .n_axes = 2,
          .axes = { { .n = 3, .array = "k" }, { .n = 4, .array = "k" } }, .separate_axes = true },
        { "map_{item}_x", WU_F32, WU_MAP, .title = "x" },
        { "names", WU_STR, WU_TITLES, "things", .width = 3, .rows = 7 },
    };
    static const wu_declaration text = { "text", WU_STR, WU_VALUE, .table = "items" }, huge = {
        "huge",      WU_F64,
        WU_ITEM,     "huge",
        .n_axes = 2, .axes = { { .n = 1U << 31, .array = "k" }, { .n = 1U << 30, .array = "k" } }
    };
    char item_name[] = "b{item}b";
    const wu_item item = { .name = item_name, .nx = 5, .ny = 4, .nz = 2, .is_stack = true };
    static const struct {
        wu_array_kind kind;
        unsigned ndim;
        uint64_t shape[3];
    } wanted[] = {
        { WU_ROWS, 1, { 1 } },     { WU_ROWS, 1, { 6 } },       { WU_ROWS, 2, { 6, 3 } },
        { WU_ROWS, 2, { 1, 12 } }, { WU_ROWS, 3, { 1, 3, 4 } }, { WU_PER_ITEM, 3, { 2, 4, 5 } },
        { WU_ONCE, 1, { 7 } },
    };
    wu_output out = { .n = 0 };
    (void)state;
    assert_int_equal(wu_output_declare(&out, list, 7, &item, &err), TC_OK);
    assert_int_equal(wu_output_declare(&out, &text, 1, &item, &err), TC_INTERNAL);
    assert_int_equal(out.n, 7);
    assert_true(out.arrays[2].info.shape[0] == WU_ANY_LENGTH);
    assert_null(wu_output_data(&out, "thing"));
    assert_int_equal(wu_output_allocate(&out, 6, &err), TC_OK);
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(out.arrays[i].kind, wanted[i].kind);
        assert_int_equal(out.arrays[i].info.ndim, wanted[i].ndim);
        assert_memory_equal(out.arrays[i].info.shape, wanted[i].shape,
                            wanted[i].ndim * sizeof(uint64_t));
        assert_string_equal(out.arrays[i].declared.name, list[i].name);
    }
    ((double *)wu_output_data(&out, "thing"))[17] = 1;
    assert_null(wu_output_find(&out, "things"));
    assert_non_null(wu_output_find(&out, "map_b{item}b_x"));
    assert_string_equal(out.arrays[5].declared.title, "x");
    wu_output_free(&out);
    assert_int_equal(wu_output_declare(&out, &huge, 1, &item, &err), TC_OK);
    assert_int_equal(wu_output_allocate(&out, (uint64_t)1 << 40, &err), TC_INTERNAL);
    wu_output_free(&out);
    assert_int_equal(wu_output_declare(&out, list + 1, 2, &item, &err), TC_OK);
    assert_int_equal(wu_output_allocate(&out, 0, &err), TC_OK);
    assert_null(wu_output_data(&out, "thing"));
    wu_output_free(&out);
}

static void titles_columns(void **state)
{
    static const char *const features[] = { "contrast", "sum_average" }, *const ends[] = { "y0",
                                                                                           "x0" };
    static const unsigned levels[] = { 16, 64 }, distances[] = { 1, 3, 20 };
    const wu_declaration texture = { .title = "t",
                                     .n_axes = 3,
                                     .axes = { { "levels", 2, .numbers = levels, .prefix = "L" },
                                               { "distance", 3, .numbers = distances, .prefix = "d",
                                                 .digits = 2 },
                                               { "feature", 2, .words = features } } };
    const wu_declaration box = { .title = "bbox",
                                 .n_axes = 1,
                                 .axes = { { .n = 2, .words = ends } } },
                         place = { .n_axes = 1, .axes = { { .n = 2, .words = ends } } },
                         plain = { .title = "area" };
    char title[WU_TITLE_MAX];
    (void)state;
    assert_int_equal(wu_declaration_elements(&texture), 12);
    assert_int_equal(wu_declaration_elements(&plain), 1);
    wu_declaration_title(&texture, 0, 0, title);
    assert_string_equal(title, "t_L16_d01_contrast");
    wu_declaration_title(&texture, 11, 0, title);
    assert_string_equal(title, "t_L64_d20_sum_average");
    wu_declaration_title(&texture, 8, 2, title);
    assert_string_equal(title, "contrast");
    wu_declaration_title(&box, 1, 0, title);
    assert_string_equal(title, "bbox_x0");
    wu_declaration_title(&place, 1, 0, title);
    assert_string_equal(title, "x0");
    wu_declaration_title(&plain, 0, 0, title);
    assert_string_equal(title, "area");
}

static void refuses_wrong_constants(void **state)
{
    fixture *f = *state;
    wu_output once = { 0 }, declared = { 0 };
    void *data = NULL;
    const uint64_t n = 2;
    json_t *parameters = json_object();
    declare_arrays(f, &once, &declared);
    MUST(wu_output_add(&once, WU_ROWS, "x", WU_U8, 0, 1, &n, &data, &err) == TC_OK);
    once.arrays[1].declared = (wu_declaration){ .name = "x" };
    const wu_result_source source = { f, read_item, copy_array };
    assert_int_equal(
        wu_result_write(f->path, &f->job, parameters, &once, &declared, &source, NULL, &err),
        TC_INTERNAL);
    wu_output_free(&once);
    assert_int_equal(count_files(f->folder), 0);
    /* A result without constants is possible; one without memory for the parameters is not. */
    wu_npz_reader *r = NULL;
    assert_int_equal(
        wu_result_write(f->path, &f->job, parameters, &once, &declared, &source, NULL, &err),
        TC_OK);
    assert_int_equal(wu_npz_open(f->path, NULL, &r, &err), TC_OK);
    assert_int_equal(json_object_size(json_object_get(wu_npz_json(r), "parameters")), 0);
    wu_npz_reader_close(&r);
    assert_int_equal(wu_result_write(f->path, &f->job, NULL, &once, &declared, &source, NULL, &err),
                     TC_NO_MEMORY);
    wu_output_free(&declared);
    json_decref(parameters);
}

/* --- declarations ---------------------------------------------------------------------------- */

/* Declarations are the same after they were written and read. */
static void reads_declarations(void **state)
{
    static const char *const words[] = { "y", "x" };
    static const unsigned numbers[] = { 16, 64 };
    const wu_declaration list[] = {
        { "features", WU_F64, WU_VALUE, "features", "glcm", "um^3", .n_axes = 3,
          .axes = { { "levels", 2, .numbers = numbers, .prefix = "L", .digits = 2 },
                    { "offset", 9, .array = "offsets" },
                    { .n = 2, .words = words } } },
        { "offsets", WU_I32, WU_KEYS, .n_axes = 1, .axes = { { .n = 2, .words = words } } },
        { "region_item", WU_I64, WU_ITEM, .table = "regions" },
        { "map_{item}_L64_-1_2", WU_F32, WU_MAP, .title = "contrast, offset (-1,2)" },
    };
    json_t *const json = json_array();
    wu_declaration *read = NULL;
    size_t n = 0;
    (void)state;
    for (size_t i = 0; i < 4; i++)
        MUST(json_array_append_new(json, wu_declaration_json(&list[i])) == 0);
    assert_int_equal(wu_declarations_read(json, "r.npz: result.json", &read, &n, &err), TC_OK);
    assert_int_equal(n, 4);
    for (size_t i = 0; i < n; i++) {
        json_t *const again = wu_declaration_json(&read[i]);
        assert_true(json_equal(again, json_array_get(json, i)));
        json_decref(again);
    }
    assert_int_equal(read[0].axes[0].numbers[1], 64);
    assert_string_equal(read[0].axes[2].words[1], "x");
    wu_declarations_free(read, n);
    json_decref(json);
}

/* Wrong declarations, as a malicious file may have: one entry is wrong, or they are not a list. */
static void refuses_declarations(void **state)
{
    /* NOLINTBEGIN(bugprone-suspicious-missing-comma): long strings are in two parts */
    static const char *const bad[] = {
        "{}",
        "[1]",
        "[{}]",
        "[{\"array\":\"x\"}]",
        "[{\"array\":\"x\",\"role\":\"boss\"}]",
        "[{\"array\":7,\"role\":\"value\"}]",
        "[{\"array\":\"../x\",\"role\":\"value\"}]",
        "[{\"array\":\"X\",\"role\":\"value\"}]",
        "[{\"array\":\"\",\"role\":\"value\"}]",
        "[{\"array\":\"x\",\"role\":\"value\",\"more\":1}]",
        "[{\"array\":\"x\",\"role\":\"value\",\"table\":3}]",
        "[{\"array\":\"x\",\"role\":\"value\",\"table\":\"a/b\"}]",
        "[{\"array\":\"x\",\"role\":\"item\"}]",
        "[{\"array\":\"x\",\"role\":\"value\",\"title\":\"=1+1\"}]",
        "[{\"array\":\"x\",\"role\":\"value\",\"unit\":\"\\u001b[2J\"}]",
        "[{\"array\":\"x\",\"role\":\"map\"}]",
        "[{\"array\":\"{item}\",\"role\":\"map\"}]",
        "[{\"array\":\"../{item}\",\"role\":\"map\"}]",
        "[{\"array\":\"m_{item}/x\",\"role\":\"map\"}]",
        "[{\"array\":\"m_{item}{item}\",\"role\":\"map\"}]",
        "[{\"array\":\"m_{item}\",\"role\":\"map\",\"axes\":[{\"values\":[\"a\"]}]}]",
        "[{\"array\":\"x\",\"role\":\"place\",\"table\":\"t\"}]",
        "[{\"array\":\"x\",\"role\":\"place\",\"table\":\"t\",\"axes\":[{\"values\":[\"y\"]}]}]",
        "[{\"array\":\"x\",\"role\":\"value\",\"axes\":[]}]",
        "[{\"array\":\"x\",\"role\":\"value\",\"axes\":[1]}]",
        "[{\"array\":\"x\",\"role\":\"value\",\"axes\":[{\"values\":[]}]}]",
        "[{\"array\":\"x\",\"role\":\"value\",\"axes\":[{\"values\":[\"a\",1]}]}]",
        "[{\"array\":\"x\",\"role\":\"value\",\"axes\":[{\"values\":[\"A\"]}]}]",
        "[{\"array\":\"x\",\"role\":\"value\",\"axes\":[{\"name\":\"d\",\"prefix\":\"d\","
        "\"values\":[-1]}]}]",
        "[{\"array\":\"x\",\"role\":\"value\",\"axes\":[{\"name\":\"d\",\"prefix\":\"d\","
        "\"values\":[4294967296]}]}]",
        "[{\"array\":\"x\",\"role\":\"value\",\"axes\":[{\"prefix\":\"d\",\"values\":[1]}]}]",
        "[{\"array\":\"x\",\"role\":\"value\",\"axes\":[{\"name\":\"d\",\"values\":[1]}]}]",
        "[{\"array\":\"x\",\"role\":\"value\",\"axes\":[{\"name\":\"d\",\"prefix\":\"%n\","
        "\"values\":[1]}]}]",
        "[{\"array\":\"x\",\"role\":\"value\",\"axes\":[{\"name\":\"d\",\"prefix\":\"d\","
        "\"digits\":10,\"values\":[1]}]}]",
        "[{\"array\":\"x\",\"role\":\"value\",\"axes\":[{\"array\":\"k\",\"values\":[\"a\"],"
        "\"name\":\"d\"}]}]",
        "[{\"array\":\"x\",\"role\":\"value\",\"axes\":[{\"array\":\"k\"}]}]",
    };
    /* NOLINTEND(bugprone-suspicious-missing-comma) */
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *const json = json_loads(bad[i], 0, NULL);
        wu_declaration *read = NULL;
        size_t n = 0;
        MUST(json != NULL);
        if (wu_declarations_read(json, "r.npz: result.json", &read, &n, &err) != TC_BAD_INPUT)
            fail_msg("accepted: %s", bad[i]);
        assert_non_null(strstr(err.message, "r.npz: result.json: "));
        wu_declarations_free(read, n);
        json_decref(json);
    }
}

/* A declaration that no reader could use is refused when it is written, with array and axis in the
 * message. */
static void refuses_unusable_declarations(void **unused)
{
    static const unsigned numbers[] = { 1, 2 };
    static const char *const words[] = { "a", NULL };
    static const struct {
        wu_axis axis;
        const char *fault;
    } odd[] = {
        { { .name = "x", .n = 2 }, "array a: axis 1 has neither words nor numbers nor an array" },
        { { .name = "x", .n = 2, .numbers = numbers },
          "array a: axis 1 has numbers, but no prefix" },
        { { .name = "x", .n = 1, .words = words, .prefix = "d" },
          "array a: axis 1 has a prefix, but no numbers" },
        { { .name = "x", .n = 2, .words = words }, "array a: axis 1 has fewer words than entries" },
        { { .name = "x", .n = 0, .words = words }, "array a: axis 1 has no entries" },
        { { .name = "x", .n = 1, .words = words, .array = "b" },
          "array a: axis 1 has more than one of words, numbers and an array" },
    };

    (void)unused;
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        wu_declaration d = { "a",     WU_F64,      WU_VALUE,
                             "items", .n_axes = 2, .axes = { { "y", 1, .words = words } } };
        wu_output out = { .n = 0 };
        tc_err error;

        d.axes[1] = odd[i].axis;
        assert_int_equal(wu_output_declare(&out, &d, 1, NULL, &error), TC_INTERNAL);
        assert_string_equal(error.message, odd[i].fault);
        wu_output_free(&out);
    }
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = { cmocka_unit_test(adds_zeroed_arrays),
                                        cmocka_unit_test(refuses_bad_arrays),
                                        cmocka_unit_test(allocates_what_was_declared),
                                        cmocka_unit_test(titles_columns),
                                        IN_FOLDER(joins_items),
                                        IN_FOLDER(writes_same_bytes),
                                        IN_FOLDER(loads_items_once),
                                        IN_FOLDER(refuses_items_that_differ),
                                        IN_FOLDER(returns_errors_of_source),
                                        IN_FOLDER(refuses_wrong_constants),
                                        cmocka_unit_test(reads_declarations),
                                        cmocka_unit_test(refuses_declarations),
                                        cmocka_unit_test(refuses_unusable_declarations) };
    return cmocka_run_group_tests_name("result", tests, NULL, NULL);
}
