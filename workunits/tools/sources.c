#include "workunits/tools/sources.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "app/base/files.h"
#include "workunits/format/job.h"
#include "workunits/tools/tools.h"

/* --- names ------------------------------------------------------------------------ */

int wu_natural_compare(const char *a, const char *b)
{
    const char *p = a, *q = b;
    while (*p != '\0' && *q != '\0') {
        if (isdigit((unsigned char)*p) && isdigit((unsigned char)*q)) {
            p += strspn(p, "0");
            q += strspn(q, "0");
            const size_t n = strspn(p, "0123456789"), m = strspn(q, "0123456789");
            if (n != m)
                return n < m ? -1 : 1;
            const int order = memcmp(p, q, n);
            if (order != 0)
                return order;
            p += n;
            q += m;
        } else if (*p != *q) {
            return (unsigned char)*p < (unsigned char)*q ? -1 : 1;
        } else {
            p++;
            q++;
        }
    }
    if (*p != *q)
        return *p == '\0' ? -1 : 1;
    return strcmp(a, b);    /* 01 and 1 are the same number, but not the same file */
}

static int compare_names(const void *a, const void *b)
{
    return wu_natural_compare(*(const char *const *)a, *(const char *const *)b);
}

/* Whether a folder's entry is a picture, by the end of its name. */
static bool is_picture_name(const char *name)
{
    static const char *const ends[] = { ".png", ".jpg", ".jpeg", ".tif", ".tiff" };
    const size_t n = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const size_t m = strlen(ends[i]);
        if (n > m && strcasecmp(name + n - m, ends[i]) == 0)
            return true;
    }
    return false;
}

/* The last part of a path, of a file without its extension. Owned by the caller. */
static char *base_name(const char *path, bool is_folder)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    size_t dot = end;
    while (!is_folder && dot > begin && path[dot] != '.')
        dot--;
    if (dot > begin)
        end = dot;
    return strndup(path + begin, end - begin);
}

static char *join_path(const char *folder, const char *name)
{
    const size_t n = strlen(folder), m = strlen(name);
    const bool slash = n > 0 && folder[n - 1] != '/';
    char *path = malloc(n + m + 2);
    if (path != NULL)
        snprintf(path, n + m + 2, "%s%s%s", folder, slash ? "/" : "", name);
    return path;
}

/* A name for the item: the base name with what wu_name_ok refuses replaced by
 * '_' and, if `taken` has it already, with _2, _3, ... `taken` maps names to
 * the last number tried with them. Owned by the caller; NULL: no memory. */
static char *make_name(const char *base, json_t *taken)
{
    char name[WU_MAX_NAME + 1];
    size_t n = 0;
    for (; base[n] != '\0' && n < WU_MAX_NAME; n++) {
        const unsigned char c = (unsigned char)base[n];
        const bool good = c < 128 && (isalnum(c) || c == '_' || c == '-' || (c == '.' && n > 0));
        name[n] = '_';
        if (good)
            name[n] = base[n];
    }
    if (n == 0)
        name[n++] = '_';
    name[n] = '\0';

    char unique[WU_MAX_NAME + 1];
    memcpy(unique, name, n + 1);
    json_int_t number = 1;
    const json_t *seen = json_object_get(taken, name);
    if (seen != NULL) {
        number = json_integer_value(seen);
        do {
            char suffix[24];
            const int m = snprintf(suffix, sizeof suffix, "_%lld", (long long)++number);
            const size_t keep = n + (size_t)m > WU_MAX_NAME ? WU_MAX_NAME - (size_t)m : n;
            snprintf(unique + keep, sizeof unique - keep, "%s", suffix);
        } while (json_object_get(taken, unique) != NULL);
        if (json_object_set_new(taken, name, json_integer(number)) != 0)
            return NULL;
    }
    if (json_object_set_new(taken, unique, json_integer(1)) != 0)
        return NULL;
    return strdup(unique);
}

/* --- lists of files ----------------------------------------------------------------- */

static void free_files(char **files, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(files[i]);
    free(files);
}

static void free_pages(wu_pages *pages)
{
    free_files(pages->files, pages->n_files);
    *pages = (wu_pages){ 0 };
}

/* Appends a path, which is owned by the list from then on, even on failure. */
static tc_status add_file(wu_pages *pages, char *path, tc_err *err)
{
    /* Room doubles at each power of two. */
    const size_t n = pages->n_files;
    if (path != NULL && (n & (n - 1)) == 0) {
        char **bigger = realloc(pages->files, (n == 0 ? 1 : 2 * n) * sizeof *bigger);
        if (bigger == NULL) {
            free(path);
            path = NULL;
        } else {
            pages->files = bigger;
        }
    }
    if (path == NULL)
        return tc_no_memory(err, "a list of files");
    pages->files[pages->n_files++] = path;
    return TC_OK;
}

/* 1 a folder, 0 something else, -1 not there. */
static int is_folder(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return -1;
    return S_ISDIR(st.st_mode) ? 1 : 0;
}

/* The pictures in a folder, in natural order, as pages->files; there may be
 * none. *others counts what else is in it, hidden files aside. */
static tc_status list_entries(const char *folder, wu_pages *pages, size_t *others, tc_err *err)
{
    *others = 0;
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return tc_fail(err, tc_open_fault(errno), "%s: cannot be opened: %s", folder, strerror(errno));
    tc_status status = TC_OK;
    while (status == TC_OK) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (entry == NULL) {
            if (errno != 0)
                status = tc_fail(err, TC_BAD_INPUT, "%s: cannot be read: %s", folder, strerror(errno));
            break;
        }
        if (entry->d_name[0] == '.')
            continue;
        if (is_picture_name(entry->d_name))
            status = add_file(pages, join_path(folder, entry->d_name), err);
        else
            ++*others;
    }
    closedir(dir);
    if (status == TC_OK && pages->n_files > 0)
        qsort(pages->files, pages->n_files, sizeof *pages->files, compare_names);
    return status;
}

/* The same where there must be a picture; what else is there gets a note. */
static tc_status list_folder(const char *folder, wu_pages *pages, tc_err *err)
{
    size_t others = 0;
    const tc_status status = list_entries(folder, pages, &others, err);
    if (status != TC_OK)
        return status;
    if (pages->n_files == 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: no .png, .jpg or .tif files in this folder", folder);
    if (others > 0)
        wu_note("%s: %zu %s not .png, .jpg or .tif left out", folder, others,
                others == 1 ? "entry that is" : "entries that are");
    return TC_OK;
}

/* --- what the headers say -------------------------------------------------------------- */

/* Reads the header of each file and checks that they make one item. slices:
 * each file must have a single page. */
static tc_status inspect(wu_pages *pages, bool slices, bool is_mask, tc_err *err)
{
    for (size_t i = 0; i < pages->n_files; i++) {
        const char *path = pages->files[i];
        wu_picture *picture = NULL;
        tc_status status = wu_picture_open(path, &picture, err);
        if (status != TC_OK)
            return status;
        const wu_picture_info page = *wu_picture_get_info(picture);
        const bool lossy = strcmp(wu_picture_format(picture), "JPEG") == 0;
        wu_picture_close(&picture);
        wu_picture_info *all = &pages->info;
        if (is_mask && lossy)
            return tc_fail(err, TC_BAD_INPUT, "%s: a mask cannot be a JPEG, which changes values; "
                           "use PNG or TIFF", path);
        if (slices && page.nz != 1)
            return tc_fail(err, TC_BAD_INPUT, "%s: has %u pages; each slice of a stack must be a "
                           "file of one", path, page.nz);
        if (i == 0) {
            *all = page;
            continue;
        }
        if (page.nx != all->nx || page.ny != all->ny || page.bits != all->bits)
            return tc_fail(err, TC_BAD_INPUT, "%s: is %u x %u of %u bits, but %s is %u x %u of %u; "
                           "the slices of a stack must agree", path, page.nx, page.ny, page.bits,
                           pages->files[0], all->nx, all->ny, all->bits);
        if (page.channels > all->channels)
            all->channels = page.channels;
        all->nz = (uint32_t)(i + 1);
        if (all->nz > WU_MAX_SIDE || (uint64_t)all->nx * all->ny * all->nz > WU_MAX_VOXELS)
            return tc_fail(err, TC_BAD_INPUT, "%s: %u and more slices of %u x %u pixels are too many "
                           "for a work unit", path, all->nz, all->nx, all->ny);
    }
    return TC_OK;
}

/* --- items -------------------------------------------------------------------------------- */

tc_status wu_source_keep_fault(wu_source *item, tc_status status, tc_err *err)
{
    if (status != TC_BAD_INPUT)
        return status;
    item->fault = strdup(err->message);
    return item->fault == NULL ? tc_no_memory(err, "a message") : TC_OK;
}

typedef struct finder {
    wu_sources *out;
    json_t *taken;            /* item names in use */
    bool stacks;
} finder;

/* A new item, with a base name from the path. */
static tc_status add_item(finder *f, const char *path, bool folder, wu_source **item, tc_err *err)
{
    wu_sources *out = f->out;
    if (out->n >= WU_MAX_ITEMS)
        return tc_fail(err, TC_BAD_INPUT, "%s: more than %u items", path, WU_MAX_ITEMS);
    if ((out->n & (out->n - 1)) == 0) {
        wu_source *bigger = realloc(out->items, (out->n == 0 ? 1 : 2 * out->n) * sizeof *bigger);
        if (bigger == NULL)
            return tc_no_memory(err, "the list of items");
        out->items = bigger;
    }
    *item = &out->items[out->n++];
    **item = (wu_source){ 0 };
    (*item)->base = base_name(path, folder);
    if ((*item)->base != NULL)
        (*item)->name = make_name((*item)->base, f->taken);
    return (*item)->name == NULL ? tc_no_memory(err, "an item's name") : TC_OK;
}

static tc_status add_picture(finder *f, const char *path, bool from_folder, tc_err *err)
{
    wu_source *item = NULL;
    tc_status status = add_item(f, path, false, &item, err);
    if (status == TC_OK)
        status = add_file(&item->pages, strdup(path), err);
    if (status == TC_OK)
        status = wu_source_keep_fault(item, inspect(&item->pages, false, false, err), err);
    if (status != TC_OK || item->fault != NULL)
        return status;
    item->is_stack = item->pages.info.nz > 1;
    if (f->stacks && !item->is_stack && !from_folder)
        return tc_fail(err, TC_USAGE, "pack: %s is one picture; with --stack give the folder that "
                       "holds the slices", path);
    return TC_OK;
}

/* A name for the folders "." and "..", which have none of their own. */
static char *named_folder(const char *path)
{
    char *base = base_name(path, true);
    const bool dots = base != NULL && (strcmp(base, ".") == 0 || strcmp(base, "..") == 0);
    free(base);
    return dots ? realpath(path, NULL) : strdup(path);
}

static tc_status add_stack(finder *f, const char *folder, tc_err *err)
{
    char *named = named_folder(folder);
    if (named == NULL)
        return tc_no_memory(err, folder);
    wu_source *item = NULL;
    tc_status status = add_item(f, named, true, &item, err);
    free(named);
    if (status == TC_OK) {
        item->is_stack = true;
        status = list_folder(folder, &item->pages, err);
        if (status == TC_OK)
            status = inspect(&item->pages, true, false, err);
        status = wu_source_keep_fault(item, status, err);
    }
    return status;
}

static tc_status add_input(finder *f, const char *input, tc_err *err)
{
    const int folder = is_folder(input);
    if (folder < 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: %s", input, strerror(errno));
    if (folder == 0)
        return add_picture(f, input, false, err);
    if (f->stacks)
        return add_stack(f, input, err);
    wu_pages found = { 0 };
    tc_status status = list_folder(input, &found, err);
    for (size_t i = 0; i < found.n_files && status == TC_OK; i++)
        status = add_picture(f, found.files[i], true, err);
    free_pages(&found);
    return status;
}

/* --- masks ---------------------------------------------------------------------------------- */

typedef struct mask_folder {
    const char *path;
    wu_pages files;           /* the pictures in it; may be none */
    json_t *by_base;          /* base name to index into files; -1: several have it */
} mask_folder;

static tc_status open_mask_folder(const char *path, mask_folder *masks, tc_err *err)
{
    *masks = (mask_folder){ path, { 0 }, json_object() };
    size_t others = 0;
    tc_status status = list_entries(path, &masks->files, &others, err);
    for (size_t i = 0; i < masks->files.n_files && status == TC_OK; i++) {
        char *base = base_name(masks->files.files[i], false);
        const bool again = base != NULL && json_object_get(masks->by_base, base) != NULL;
        /* Names of files need not be UTF-8, so nothing checks for that here. */
        if (base == NULL || json_object_set_new_nocheck(masks->by_base, base,
                                json_integer(again ? -1 : (json_int_t)i)) != 0)
            status = tc_no_memory(err, "the list of masks");
        free(base);
    }
    return status;
}

/* The files of one item's mask. *slices tells whether they are one file for
 * each slice. */
static tc_status find_mask(const mask_folder *masks, wu_source *item, bool only_item, bool *slices,
                           tc_err *err)
{
    char *sub = join_path(masks->path, item->base);
    if (sub == NULL)
        return tc_no_memory(err, masks->path);
    *slices = true;
    tc_status status = TC_OK;
    const json_t *found = json_object_get(masks->by_base, item->base);
    const json_int_t at = json_integer_value(found);
    if (item->is_stack && is_folder(sub) == 1) {
        status = list_folder(sub, &item->mask, err);
    } else if (found != NULL && at < 0) {
        status = tc_fail(err, TC_BAD_INPUT, "%s: two masks are called %s", masks->path, item->base);
    } else if (found != NULL) {
        *slices = false;
        status = add_file(&item->mask, strdup(masks->files.files[at]), err);
    } else if (item->is_stack && only_item) {
        status = list_folder(masks->path, &item->mask, err);
    } else {
        status = tc_fail(err, TC_BAD_INPUT, "%s: no mask for %s: a picture%s called %s was looked "
                         "for", masks->path, item->name, item->is_stack ? " or folder" : "",
                         item->base);
    }
    free(sub);
    return status;
}

static tc_status check_mask(wu_source *item, bool slices, tc_err *err)
{
    const tc_status status = inspect(&item->mask, slices, true, err);
    if (status != TC_OK)
        return status;
    const wu_picture_info *a = &item->mask.info, *b = &item->pages.info;
    if (a->nx != b->nx || a->ny != b->ny || a->nz != b->nz)
        return tc_fail(err, TC_BAD_INPUT, "%s: the mask is %u x %u of %u page(s), but %s is %u x %u "
                       "of %u", item->mask.files[0], a->nx, a->ny, a->nz, item->pages.files[0],
                       b->nx, b->ny, b->nz);
    return TC_OK;
}

/* Masks are found by base names, so those must differ. */
static tc_status check_bases(const wu_sources *all, tc_err *err)
{
    json_t *seen = json_object();
    tc_status status = seen == NULL ? tc_no_memory(err, "the list of names") : TC_OK;
    for (size_t i = 0; i < all->n && status == TC_OK; i++) {
        const char *base = all->items[i].base;
        if (all->items[i].fault != NULL)
            continue;
        if (json_object_get(seen, base) != NULL)
            status = tc_fail(err, TC_BAD_INPUT, "%s: another input is called %s too, so their masks "
                             "cannot be told apart", all->items[i].pages.files[0], base);
        else if (json_object_set_new_nocheck(seen, base, json_true()) != 0)
            status = tc_no_memory(err, "the list of names");
    }
    json_decref(seen);
    return status;
}

static tc_status add_masks(wu_sources *all, const char *mask, tc_err *err)
{
    const int folder = is_folder(mask);
    if (folder < 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: %s", mask, strerror(errno));
    if (folder == 0) {
        if (all->n != 1)
            return tc_fail(err, TC_USAGE, "pack: one mask file for %zu items; give a folder of "
                           "masks", all->n);
        if (all->items[0].fault != NULL)
            return TC_OK;
        const tc_status status = add_file(&all->items[0].mask, strdup(mask), err);
        return status == TC_OK ? check_mask(&all->items[0], false, err) : status;
    }
    mask_folder masks = { 0 };
    tc_status status = check_bases(all, err);
    if (status == TC_OK)
        status = open_mask_folder(mask, &masks, err);
    for (size_t i = 0; i < all->n && status == TC_OK; i++) {
        wu_source *const item = &all->items[i];
        bool slices = false;
        if (item->fault != NULL)
            continue;
        status = find_mask(&masks, item, all->n == 1, &slices, err);
        if (status == TC_OK)
            status = check_mask(item, slices, err);
        status = wu_source_keep_fault(item, status, err);
    }
    free_pages(&masks.files);
    json_decref(masks.by_base);
    return status;
}

tc_status wu_sources_find(char **inputs, size_t n_inputs, bool stacks, const char *mask,
                          wu_sources *out, tc_err *err)
{
    *out = (wu_sources){ 0 };
    finder f = { out, json_object(), stacks };
    if (f.taken == NULL)
        return tc_no_memory(err, "the list of names");
    tc_status status = TC_OK;
    for (size_t i = 0; i < n_inputs && status == TC_OK; i++)
        status = add_input(&f, inputs[i], err);
    json_decref(f.taken);
    if (status == TC_OK && mask != NULL)
        status = add_masks(out, mask, err);
    return status;
}

void wu_sources_free(wu_sources *sources)
{
    for (size_t i = 0; i < sources->n + sources->n_left_out; i++) {
        wu_source *item = &sources->items[i];
        free(item->fault);
        free(item->name);
        free(item->base);
        free_pages(&item->pages);
        free_pages(&item->mask);
    }
    free(sources->items);
    *sources = (wu_sources){ 0 };
}

/* --- pages ------------------------------------------------------------------------------------ */

static tc_status open_next_file(wu_page_reader *reader, tc_err *err)
{
    const wu_pages *pages = reader->pages;
    if (reader->next_file >= pages->n_files)
        return tc_fail(err, TC_INTERNAL, "%s: has no more pages", pages->files[0]);
    const char *path = pages->files[reader->next_file++];
    const tc_status status = wu_picture_open(path, &reader->picture, err);
    if (status != TC_OK)
        return status;
    const wu_picture_info *now = wu_picture_get_info(reader->picture);
    const uint32_t expected = pages->n_files == 1 ? pages->info.nz : 1;
    if (now->nx != pages->info.nx || now->ny != pages->info.ny || now->nz != expected
        || now->bits != pages->info.bits || now->channels > pages->info.channels)
        return tc_fail(err, TC_BAD_INPUT, "%s: changed while it was being packed", path);
    reader->left = now->nz;
    return TC_OK;
}

tc_status wu_page_next(wu_page_reader *reader, wu_page_buffer *buffer, wu_picture_info *info,
                       tc_err *err)
{
    tc_status status = TC_OK;
    if (reader->picture == NULL)
        status = open_next_file(reader, err);
    if (status != TC_OK)
        return status;
    *info = *wu_picture_get_info(reader->picture);
    info->nz = 1;
    const size_t bytes = wu_picture_page_bytes(info);
    if (bytes > buffer->size) {
        free(buffer->data);
        buffer->data = malloc(bytes);
        buffer->size = buffer->data == NULL ? 0 : bytes;
        if (buffer->data == NULL)
            return tc_no_memory(err, reader->pages->files[reader->next_file - 1]);
    }
    status = wu_picture_next(reader->picture, buffer->data, err);
    if (status != TC_OK || --reader->left > 0)
        return status;
    const char *note = wu_picture_note(reader->picture);
    if (note != NULL && !reader->quiet)
        wu_note("%s: %s", reader->pages->files[reader->next_file - 1], note);
    wu_picture_close(&reader->picture);
    return TC_OK;
}

void wu_page_reader_close(wu_page_reader *reader)
{
    wu_picture_close(&reader->picture);
}

static tc_status decode_pages(const wu_pages *pages, wu_page_buffer *buffer, tc_err *err)
{
    wu_page_reader reader = { .pages = pages, .quiet = true };
    wu_picture_info info;
    tc_status status = TC_OK;
    for (uint32_t z = 0; z < pages->info.nz && status == TC_OK; z++)
        status = wu_page_next(&reader, buffer, &info, err);
    wu_page_reader_close(&reader);
    return status;
}

tc_status wu_sources_decode(wu_sources *sources, tc_err *err)
{
    wu_page_buffer buffer = { 0 };
    tc_status status = TC_OK;
    for (size_t i = 0; i < sources->n && status == TC_OK; i++) {
        wu_source *const item = &sources->items[i];
        if (item->fault != NULL)
            continue;
        status = decode_pages(&item->pages, &buffer, err);
        if (status == TC_OK && item->mask.n_files > 0)
            status = decode_pages(&item->mask, &buffer, err);
        status = wu_source_keep_fault(item, status, err);
    }
    free(buffer.data);
    return status;
}

void wu_sources_leave_out(wu_sources *sources)
{
    size_t n = 0;
    for (size_t i = 0; i < sources->n; i++) {
        const wu_source item = sources->items[i];
        if (item.fault != NULL)
            continue;
        sources->items[i] = sources->items[n];
        sources->items[n++] = item;
    }
    sources->n_left_out += sources->n - n;
    sources->n = n;
}
