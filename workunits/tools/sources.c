/* Turns the files and folders of a command line into the items of a work unit. */
#include "workunits/tools/sources.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "app/base/compose.h"
#include "app/base/files.h"
#include "app/base/os.h"
#include "app/base/text.h"
#include "workunits/format/job.h"
#include "workunits/tools/export.h"
#include "workunits/tools/tools.h"

/* --- names ----------------------------------------------------------------------------------- */

int wu_natural_compare(const char *a, const char *b)
{
    const char *p = a, *q = b; /* p - a need not be q - b, since leading zeros are skipped */
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
    return strcmp(a, b); /* 01 and 1 are the same number, but not the same file */
}

static int compare_names(const void *a, const void *b)
{
    return wu_natural_compare(*(const char *const *)a, *(const char *const *)b);
}

/* Whether a folder's entry is a picture, by the end of its name. */
static bool is_picture_name(const char *name)
{
    static const char *const ends[] = { ".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".tif",   ".tiff",
                                        ".btf", ".tf8", ".lsm",  ".stk", ".nii",  ".nii.gz" };
    const size_t n = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const size_t m = strlen(ends[i]);
        if (n > m && strcasecmp(name + n - m, ends[i]) == 0)
            return true;
    }
    return false;
}

/* Returns the index at which the extension of the file name path[begin, end) begins, or `end` if
 * the name has none. ".nii.gz" counts as one extension. A dot as the first character of the name
 * does not begin an extension. */
static size_t extension_of(const char *path, size_t begin, size_t end)
{
    static const char compressed[] = ".nii.gz";
    const size_t n = sizeof compressed - 1;
    if (end - begin > n && strncasecmp(path + end - n, compressed, n) == 0)
        return end - n;
    size_t dot = end;
    while (dot > begin && path[dot] != '.')
        dot--;
    return dot > begin ? dot : end;
}

/* Values of the arguments is_folder and folder of the functions below. */
enum { A_FILE = false, A_FOLDER = true };

/* Returns the last part of a path: the name of a folder, or of a file without its extension. Owned
 * by the caller; NULL if there is no memory. */
static char *base_name(const char *path, bool is_folder)
{
    size_t end = strlen(path);
    while (end > 1 && os_is_separator(path[end - 1]))
        end--;
    size_t begin = end;
    while (begin > 0 && !os_is_separator(path[begin - 1]))
        begin--;
    return tc_strndup(path + begin, (is_folder ? end : extension_of(path, begin, end)) - begin);
}

static char *join_path(const char *folder, const char *name)
{
    const size_t n = strlen(folder), m = strlen(name);
    const bool slash = n > 0 && !os_is_separator(folder[n - 1]);
    char *path = malloc(n + m + 2);
    if (path != NULL)
        snprintf(path, n + m + 2, "%s%s%s", folder, slash ? "/" : "", name);
    return path;
}

/* Makes the name of an item from that of its file: characters that wu_is_item_name refuses become
 * '_', and a name that is too long is cut. Returns true if the two names are equal. */
static bool clean_name(const char *base, char name[WU_MAX_NAME + 1])
{
    size_t n = 0;
    for (; n < WU_MAX_NAME && base[n] != '\0'; n++) {
        const unsigned char c = (unsigned char)base[n];
        const bool allowed = c < 128 && (isalnum(c) || c == '_' || c == '-' || (c == '.' && n > 0));
        name[n] = '_';
        if (allowed)
            name[n] = base[n];
    }
    if (n == 0)
        name[n++] = '_';
    name[n] = '\0';
    return strcmp(base, name) == 0;
}

/* A name in lower case. Names that differ only in case must not both be used, because they would be
 * one file on Windows and macOS. */
typedef struct folded_name {
    char text[WU_MAX_NAME + 1];
} folded_name;

static folded_name fold_case(const char *name)
{
    folded_name out = { "" };
    for (size_t i = 0; i < WU_MAX_NAME && name[i] != '\0'; i++)
        out.text[i] = (char)tolower((unsigned char)name[i]);
    return out;
}

/* Makes a unique name: `name` or, if it is in use already, `name` with _2, _3, ... appended. taken:
 * maps each name in use, in lower case, to the last number that was appended to it; the unique name
 * is added. Owned by the caller; NULL if there is no memory. */
static char *make_name(const char *name, json_t *taken)
{
    const size_t n = strlen(name);
    char unique[WU_MAX_NAME + 1];
    memcpy(unique, name, n + 1);
    json_int_t number = 1;
    const json_t *seen = json_object_get(taken, fold_case(name).text);
    if (seen != NULL) {
        number = json_integer_value(seen);
        do {
            char suffix[24];
            const int m = snprintf(suffix, sizeof suffix, "_%lld", (long long)++number);
            const size_t keep = n + (size_t)m > WU_MAX_NAME ? WU_MAX_NAME - (size_t)m : n;
            snprintf(unique + keep, sizeof unique - keep, "%s", suffix);
        } while (json_object_get(taken, fold_case(unique).text) != NULL);
        if (json_object_set_new(taken, fold_case(name).text, json_integer(number)) != 0)
            return NULL;
    }
    if (json_object_set_new(taken, fold_case(unique).text, json_integer(1)) != 0)
        return NULL;
    return strdup(unique);
}

enum { SOME_NAMES = 3 }; /* how many changed names are printed; the rest are only counted */

/* Names the items whose file names can be used unchanged. If `others` is true, also names all items
 * that still have no name, and prints notes about them. */
static tc_status assign_names(wu_sources *all, json_t *taken, bool others, tc_err *err)
{
    size_t changed = 0; /* number of items that got another name than their files */
    for (size_t i = 0; i < all->n; i++) {
        wu_source *const item = &all->items[i];
        char name[WU_MAX_NAME + 1];
        char *const base = item->name != NULL       ? NULL
                           : item->raw_name != NULL ? strdup(item->raw_name)
                                                    : base_name(item->path, item->is_folder);
        if (base != NULL)
            tc_compose_accents(base);
        const bool usable = base != NULL && clean_name(base, name) &&
                            json_object_get(taken, fold_case(name).text) == NULL;
        const bool named = item->name != NULL; /* by the call before this one */
        const bool is_to_be_named = usable || others;
        const bool no_memory = !named && base == NULL;
        if (!named && !no_memory && is_to_be_named)
            item->name = make_name(name, taken);
        free(base);
        if (no_memory || (is_to_be_named && item->name == NULL))
            return tc_no_memory(err, "an item's name");
        if (!named && others && ++changed <= SOME_NAMES)
            wu_print_note("%s: is called %s in the tables", item->path,
                          wu_item_title_of(item->name, item->path).text);
    }
    if (changed > SOME_NAMES)
        wu_print_note(
            "%zu more items have other names than their files; texcell-wu show lists both",
            changed - SOME_NAMES);
    return TC_OK;
}

/* Names all items. Items whose file names can be used unchanged are named first. Otherwise
 * "p 2.png", which becomes p_2, would take the name of "p_2.png", which comes after it. */
static tc_status name_items(wu_sources *all, tc_err *err)
{
    json_auto_t *taken = json_object();
    return_if_error(taken == NULL
                        ? tc_no_memory(err, "the list of names")
                        : assign_names(all, taken, false /* unchanged names only */, err));
    return assign_names(all, taken, true /* all others */, err);
}

/* Reads the file given to --names. Line i becomes the raw_name of item i (the name before
 * characters are replaced) and its base (the name by which its mask is found). */
static tc_status read_names(wu_sources *all, tc_err *err)
{
    char line[1024];
    size_t n = 0;
    FILE *const file = fopen(all->names, "rb");
    if (file == NULL)
        return tc_fail(err, tc_open_error_status(errno), "%s: cannot be opened: %s", all->names,
                       strerror(errno));
    tc_status status = TC_OK;
    for (; status == TC_OK && fgets(line, sizeof line, file) != NULL; n++) {
        line[strcspn(line, "\r\n")] = '\0';
        if (n >= all->n)
            continue;
        wu_source *const item = &all->items[n];
        free(item->raw_name);
        free(item->base);
        item->raw_name = strdup(line);
        item->base = strdup(line);
        if (item->raw_name == NULL || item->base == NULL)
            status = tc_no_memory(err, "an item's name");
    }
    fclose(file);
    return status != TC_OK || n == all->n
               ? status
               : tc_fail(err, TC_BAD_INPUT, "%s: has %zu lines, but there are %zu items to name",
                         all->names, n, all->n);
}

/* Returns the path without empty parts, without ".", and without each ".." and the folder before
 * it. Separators become '/', and tc_make_printable replaces characters that cannot be printed.
 * Owned by the caller; NULL if there is no memory. */
static char *plain_path(const char *path)
{
    char *const out = malloc(strlen(path) + 1);
    size_t n = 0;
    while (out != NULL && *path != '\0') {
        size_t part = 0;
        while (path[part] != '\0' && !os_is_separator(path[part]))
            part++;
        const size_t next = part + (path[part] != '\0');
        if (part == 2 && strncmp(path, "..", part) == 0) {
            /* ".." removes the last part of `out`, with its '/'. */
            for (n -= n > 0; n > 0 && out[n - 1] != '/'; n--)
                ;
        } else if (part > 1 || (part == 1 && path[0] != '.')) {
            memcpy(out + n, path, next);
            n += next;
            if (next > part)
                out[n - 1] = '/';
        }
        path += next;
    }
    if (out == NULL)
        return NULL;
    out[n - (n > 0 && out[n - 1] == '/')] = '\0';
    return tc_make_printable(out);
}

char *wu_recorded_path(const char *path, bool follow)
{
    char *const from = follow ? os_absolute_path(path) : NULL;
    char *const working = from == NULL && !os_is_separator(path[0]) ? os_absolute_path(".") : NULL;
    char *const all = from != NULL      ? strdup(from)
                      : working != NULL ? join_path(working, path)
                                        : strdup(path);
    char *const plain = all == NULL ? NULL : plain_path(all);
    free(from);
    free(working);
    free(all);
    return plain;
}

/* Sets the source of each item: the end of its path, beginning with the name of the innermost
 * folder that contains all items. The path before this folder is left out, as it would disclose
 * names of folders on this computer. */
static tc_status name_sources(wu_sources *all, tc_err *err)
{
    size_t common = 0; /* length of the common beginning of all paths; it ends after a '/' */
    size_t n_absolute = 0;
    bool has_parent = false;
    for (size_t i = 0; i < all->n; i++) {
        n_absolute += os_is_separator(all->items[i].path[0]);
        has_parent = has_parent || strncmp(all->items[i].path, "..", 2) == 0;
    }
    /* Absolute and relative paths, or paths with "..", can be compared only as absolute ones. */
    const bool make_absolute = has_parent || (n_absolute > 0 && n_absolute < all->n);
    for (size_t i = 0; i < all->n; i++) {
        const char *const given = all->items[i].path;
        char *const path = all->items[i].source =
            make_absolute ? wu_recorded_path(given, false /* links are kept */) : plain_path(given);
        const char *const first = all->items[0].source, *const slash = path == NULL
                                                                           ? NULL
                                                                           : strrchr(path, '/');
        if (path == NULL)
            return tc_no_memory(err, "the source of an item");
        /* Shortens `common` by whole folders until all paths so far begin with it. */
        common = i == 0 ? (slash == NULL ? 0 : (size_t)(slash + 1 - path)) : common;
        while (strncmp(first, path, common) != 0)
            for (common--; common > 0 && first[common - 1] != '/'; common--)
                ;
    }
    if (common > 0) /* the name of the innermost common folder itself is not left out */
        for (common--; common > 0 && all->items[0].source[common - 1] != '/'; common--)
            ;
    for (size_t i = 0; i < all->n; i++) {
        char *const path = all->items[i].source;
        const size_t n = strlen(path),
                     from = n - common > WU_MAX_SOURCE ? n - WU_MAX_SOURCE : common;
        memmove(path, path + from, n - from + 1);
        tc_make_printable(
            path); /* a path that is too long may have been cut within a UTF-8 character */
    }
    return TC_OK;
}

/* --- lists of files -------------------------------------------------------------------------- */

static void free_files(char **files, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(files[i]);
    free(files);
}

static void free_pages(wu_page_files *pages)
{
    free_files(pages->files, pages->n_files);
    *pages = (wu_page_files){ 0 };
}

/* Appends a path, which the list owns afterwards; on failure the path is freed. */
static tc_status add_file(wu_page_files *pages, char *path, tc_err *err)
{
    /* The capacity is doubled whenever n is a power of two. */
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

wu_page_files *wu_page_files_of(wu_source *item, wu_kind kind)
{
    return kind == WU_KIND_IMAGE  ? &item->pages
           : kind == WU_KIND_MASK ? &item->mask
                                  : &item->labels;
}

tc_status wu_page_files_add(wu_page_files *pages, const char *path, tc_err *err)
{
    return add_file(pages, strdup(path), err);
}

/* Returns 1 if the path is a folder, 0 if it is something else, -1 if it does not exist. */
static int is_folder(const char *path)
{
    const os_kind kind = os_kind_of(path);
    return kind == OS_NOTHING ? -1 : kind == OS_FOLDER;
}

/* The paths of the entries of a folder. Hidden entries are left out; each list is in natural order
 * (wu_natural_compare). */
typedef struct listing {
    wu_page_files pictures, folders, others;
} listing;

static void free_listing(listing *in)
{
    free_pages(&in->pictures);
    free_pages(&in->folders);
    free_pages(&in->others);
}

/* State of list_entries, which fills a listing. */
typedef struct lister {
    const char *folder;
    listing *out;
    tc_err *err;
    tc_status status;
} lister;

/* Adds an entry of the folder to the listing. A function for os_list; user: a lister. */
static int list_entry(void *user, const char *name, bool may_be_folder)
{
    lister *const l = user;
    if (name[0] == '.')
        return 0;
    char *const path = join_path(l->folder, name);
    wu_page_files *list = &l->out->others;
    if (may_be_folder && path != NULL &&
        os_kind_of_link(path) == OS_FOLDER) /* links are not followed: they may form cycles */
        list = &l->out->folders;
    else if (is_picture_name(name))
        list = &l->out->pictures;
    l->status = add_file(list, path, l->err);
    return l->status != TC_OK;
}

/* Returns an object whose keys are the lines of the file. Owned by the caller; NULL if there is no
 * memory. */
static json_t *read_lines(FILE *file)
{
    char line[1024]; /* a line is the name of a file: at most 255 bytes */
    json_t *lines = json_object();
    while (lines != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\r\n")] = '\0';
        /* _nocheck: file names need not be UTF-8 */
        if (json_object_set_new_nocheck(lines, line, json_true()) != 0) {
            json_decref(lines);
            lines = NULL;
        }
    }
    return lines;
}

/* Moves the pictures that texcell-wu export wrote (they are listed in the folder's file
 * WU_EXPORT_LIST) from in->pictures to in->others. They stay if the folder has no other pictures
 * and was named on the command line (`named`). */
static tc_status leave_out_exported(const char *folder, bool named, listing *in, tc_err *err)
{
    wu_page_files *const all = &in->pictures;
    wu_page_files kept = { 0 }, exported = { 0 };
    char *const path = join_path(folder, WU_EXPORT_LIST);
    FILE *const list = path == NULL ? NULL : fopen(path, "rb");
    tc_status status = path == NULL ? tc_no_memory(err, "a list of files") : TC_OK;
    free(path);
    if (list == NULL)
        return status;
    json_t *const names = read_lines(list);
    fclose(list);
    if (names == NULL)
        return tc_no_memory(err, "a list of files");
    for (size_t i = 0; i < all->n_files && status == TC_OK; i++) {
        const bool is_exported = json_object_get(names, os_base_name(all->files[i])) != NULL;
        status = add_file(is_exported ? &exported : &kept, strdup(all->files[i]), err);
    }
    json_decref(names);
    if (status == TC_OK && (kept.n_files > 0 || !named)) {
        for (size_t i = 0; i < exported.n_files && status == TC_OK; i++)
            status = add_file(&in->others, strdup(exported.files[i]), err);
        const wu_page_files before = *all;
        *all = kept;
        kept = before;
    }
    free_pages(&kept);
    free_pages(&exported);
    return status;
}

/* If a name of n bytes ends with a word for masks or label pictures, such as "mask", returns the
 * length of this word, else 0. drawn: whether also to find words such as "overlay", for pictures in
 * which labels are drawn. whole: true if the name must be the word alone; false if '_', '-', '.' or
 * a blank must precede the word. */
static size_t mask_word_length(const char *name, size_t n, bool drawn, bool whole)
{
    static const char *const words[] = { "masks",         "mask",         "labels",   "label",
                                         "ground_truth",  "groundtruth",  "truth",    "gt",
                                         "segmentations", "segmentation", "seg",      "flows",
                                         "outlines",      "outline",      "overlays", "overlay",
                                         "cp_output" };
    enum { N_MASK_WORDS = 11 }; /* the words before "flows"; the others are for drawn labels */
    for (size_t i = 0; i < (drawn ? sizeof words / sizeof words[0] : N_MASK_WORDS); i++) {
        const size_t m = strlen(words[i]);
        if (n >= m && (n == m) == whole && strncasecmp(name + n - m, words[i], m) == 0 &&
            (whole || strchr("_-. ", name[n - m - 1]) != NULL))
            return m;
    }
    return 0;
}

/* If `base` is the base name of a mask or label picture ("a_mask", "a_cp_masks"), returns the
 * length of the base name of the picture that it belongs to ("a"), else 0. drawn: as for
 * mask_word_length.
 */
static size_t masked_length(const char *base, bool drawn)
{
    static const char cellpose[] = "_cp";
    const size_t n = strlen(base), m = mask_word_length(base, n, drawn, false /* not whole */),
                 c = sizeof cellpose - 1;
    if (m == 0 || n == m + 1) /* without a mask word, or nothing but "_" before it */
        return 0;
    const size_t left = n - m - 1;
    return left > c && strncmp(base + left - c, cellpose, c) == 0 ? left - c : left;
}

/* Removes from in->pictures the files that are named like the mask or label picture of another file
 * (X_mask.png next to X.png): if they became items, their objects would be counted a second time.
 */
static tc_status leave_out_masks(const char *folder, listing *in, wu_sources *out, tc_err *err)
{
    wu_page_files *const all = &in->pictures;
    wu_page_files kept = { 0 }, masks = { 0 };
    json_t *const bases = json_object(); /* names of files need not be UTF-8 */
    tc_status status = bases == NULL ? tc_no_memory(err, "a list of files") : TC_OK;
    for (size_t i = 0; i < all->n_files && status == TC_OK; i++) {
        char *const base = base_name(all->files[i], A_FILE);
        if (base == NULL || json_object_set_new_nocheck(bases, base, json_true()) != 0)
            status = tc_no_memory(err, "a list of files");
        free(base);
    }
    for (size_t i = 0; i < all->n_files && status == TC_OK; i++) {
        char *const base = base_name(all->files[i], A_FILE);
        if (base != NULL)
            base[masked_length(base, true /* drawn */)] = '\0';
        status = base == NULL ? tc_no_memory(err, "a list of files")
                              : add_file(json_object_get(bases, base) != NULL ? &masks : &kept,
                                         strdup(all->files[i]), err);
        free(base);
    }
    if (status == TC_OK && masks.n_files > 0) {
        const wu_page_files before = *all;
        wu_print_note("%s: left out: %zu files named like masks or label pictures of others, "
                      "such as %s; to use them, name them on the command line",
                      folder, masks.n_files, os_base_name(masks.files[0]));
        if (out->masks_in == NULL)
            out->masks_in = strdup(folder);
        *all = kept;
        kept = before;
    }
    json_decref(bases);
    free_pages(&kept);
    free_pages(&masks);
    return status;
}

/* Removes folders of masks from in->folders: a folder "masks" next to pictures or to a folder with
 * a name like "images", and a folder "a_masks" next to "a". */
static tc_status leave_out_mask_folders(listing *in, tc_err *err)
{
    static const char *const images[] = { "im", "pic", "photo", "raw" }; /* beginnings of names */
    wu_page_files *const all = &in->folders;
    wu_page_files kept = { 0 };
    bool next_to = in->pictures.n_files > 0; /* next to pictures, or to a folder of images */
    tc_status status = TC_OK;
    for (size_t i = 0; i < all->n_files; i++)
        for (size_t k = 0; k < sizeof images / sizeof images[0]; k++)
            next_to = next_to ||
                      strncasecmp(os_base_name(all->files[i]), images[k], strlen(images[k])) == 0;
    for (size_t i = 0; i < all->n_files && status == TC_OK; i++) {
        const char *const name = os_base_name(all->files[i]);
        const size_t part = masked_length(name, true /* drawn */);
        bool mask =
            next_to && mask_word_length(name, strlen(name), true /* drawn */, true /* whole */) > 0;
        for (size_t k = 0; k < all->n_files && part > 0; k++)
            mask = mask || (strncmp(os_base_name(all->files[k]), name, part) == 0 &&
                            os_base_name(all->files[k])[part] == '\0');
        if (mask)
            wu_print_note(
                "%s: left out: its name is that of masks or label pictures of others; to use it, "
                "name it on the command line",
                all->files[i]);
        else
            status = add_file(&kept, strdup(all->files[i]), err);
    }
    free_pages(all);
    *all = kept;
    return status;
}

/* Lists a folder's entries. The caller frees *out by free_listing, also after a failure. */
static tc_status list_entries(const char *folder, listing *out, tc_err *err)
{
    lister l = { .folder = folder, .out = out, .err = err, .status = TC_OK };
    *out = (listing){ .pictures = { 0 } };
    if (os_list(folder, list_entry, &l) < 0)
        return tc_fail(err, tc_open_error_status(errno), "%s: cannot be opened: %s", folder,
                       strerror(errno));
    return_if_error(l.status);
    wu_page_files *const lists[] = { &out->pictures, &out->folders, &out->others };
    for (size_t i = 0; i < 3; i++)
        if (lists[i]->n_files > 0)
            qsort(lists[i]->files, lists[i]->n_files, sizeof *lists[i]->files, compare_names);
    return TC_OK;
}

/* Returns TC_USAGE if the folder has pictures and is the one into which analyse writes. */
static tc_status refuse_output(const wu_sources *all, const char *folder, const listing *in,
                               tc_err *err)
{
    if (in->pictures.n_files == 0 || all->output == NULL || !os_same_file(folder, all->output))
        return TC_OK;
    return tc_fail(err, TC_USAGE,
                   "pack: -o %s: holds pictures that are read, such as %s: give another folder, or "
                   "a new one in it",
                   all->output, os_base_name(in->pictures.files[0]));
}

/* Prints a note that lists the entries of a folder that do not become items. */
static void note_left_out(const char *folder, const listing *in, bool recursive)
{
    const size_t n_folders = recursive ? 0 : in->folders.n_files,
                 n = in->others.n_files + n_folders;
    char text[400] = "";
    size_t named = 0;
    for (size_t i = 0, at = 0; i < n && named == i && at + 100 < sizeof text; i++) {
        const char *const path =
            i < n_folders ? in->folders.files[i] : in->others.files[i - n_folders];
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%.80s%s", i > 0 ? ", " : "",
                               os_base_name(path), i < n_folders ? "/" : "");
        named++;
    }
    if (n > 0 && named < n)
        snprintf(text + strlen(text), sizeof text - strlen(text), " and %zu more", n - named);
    bool links = false;
    for (size_t i = 0; !links && i < in->others.n_files; i++)
        links = os_kind_of(in->others.files[i]) == OS_FOLDER;
    if (n > 0)
        wu_print_note_of_file(folder, "left out: %s%s%s", text,
                              n_folders > 0 ? " (--recursive takes the pictures in folders)" : "",
                              links ? " (links to folders are not followed: name them)" : "");
}

/* --- the order of slices --------------------------------------------------------------------- */

/* Finds the number of the slice in a file name. This is the number after a z that begins a word
 * ("a_z01_c2"); it may have decimals ("z1.5") and, if is_signed, a minus sign. If there is no such
 * z, it is the last number of the name. The number is name[*at, *at + *n); *n is 0 if the name has
 * no number. Returns whether the number follows a z. */
static bool find_number(const char *name, size_t length, bool is_signed, size_t *at, size_t *n)
{
    static const char digits[] = "0123456789";
    *at = *n = 0;
    for (size_t i = 0; i < length; i += *n > 0 && *at == i ? *n : 1) {
        if (!isdigit((unsigned char)name[i]))
            continue;
        /* begin: where the number begins, with its sign; the z must be just before. */
        const size_t begin = i - (is_signed && i > 0 && name[i - 1] == '-');
        *at = i;
        *n = strspn(name + i, digits);
        if (begin == 0 || (name[begin - 1] != 'z' && name[begin - 1] != 'Z') ||
            (begin > 1 && isalnum((unsigned char)name[begin - 2])))
            continue;
        const size_t end = i + *n,
                     n_decimals = name[end] == '.' ? strspn(name + end + 1, digits) : 0;
        *at = begin;
        /* Digits after a dot are decimals only if they do not end the name. */
        *n = end - begin + (n_decimals > 0 && end + n_decimals < length ? n_decimals + 1 : 0);
        return true;
    }
    return false;
}

/* The file of a slice, and the number in its name. */
typedef struct slice {
    char *path;       /* not owned */
    const char *name; /* the last part of path */
    size_t length;    /* length of the name without its extension */
    size_t at, n;     /* offset and length of the number in the name (find_number) */
    double value;     /* the value of the number */
    bool follows_z;   /* the number follows a z */
} slice;

static slice read_slice(char *path, bool is_signed)
{
    slice s = { .path = path, .name = os_base_name(path) };
    double unit = 0; /* 10 to the power of the number of decimals; 0 before the decimal point */
    s.length = extension_of(s.name, 0, strlen(s.name));
    s.follows_z = find_number(s.name, s.length, is_signed, &s.at, &s.n);
    for (size_t i = s.at; i < s.at + s.n; i++) {
        const bool digit = isdigit((unsigned char)s.name[i]) != 0;
        s.value = digit ? 10 * s.value + (s.name[i] - '0') : s.value;
        unit = s.name[i] == '.' ? 1 : digit ? 10 * unit : unit;
    }
    s.value *= (s.n > 0 && s.name[s.at] == '-' ? -1 : 1);
    s.value /= unit > 0 ? unit : 1;
    return s;
}

/* Whether a '-' between a z and its number is a minus sign. It is one if some names have it and
 * others do not; if all names have it, it is only a separator. */
static bool are_signed(const wu_page_files *pictures)
{
    bool signed_too = false, without = false;
    for (size_t i = 0; i < pictures->n_files; i++) {
        const bool is_unsigned = read_slice(pictures->files[i], false /* not signed */).follows_z;
        without = without || is_unsigned;
        signed_too = signed_too ||
                     (!is_unsigned && read_slice(pictures->files[i], true /* signed */).follows_z);
    }
    return signed_too && without;
}

static int compare_slices(const void *a, const void *b)
{
    const slice *const s = a, *const t = b;
    return s->value != t->value ? (s->value < t->value ? -1 : 1)
                                : wu_natural_compare(s->path, t->path);
}

/* Prints a note if the numbers of the slices have gaps. The slices must be sorted by number. */
static void note_missing(const char *folder, const slice *slices, size_t n)
{
    enum { FEW = 3 }; /* the most missing numbers that are printed */
    char text[120] = "";
    double step = 0;    /* the least difference of successive numbers */
    double missing = 0; /* how many numbers are missing */
    for (size_t i = 1; i < n; i++) {
        const double difference = slices[i].value - slices[i - 1].value;
        step = difference > 0 && (step == 0 || difference < step) ? difference : step;
    }
    for (size_t i = 1; i < n && step > 0; i++) {
        const double steps = (slices[i].value - slices[i - 1].value) / step;
        if (fabs(steps - round(steps)) > 1e-3)
            return; /* the slices are not evenly spaced */
        for (int k = 1; k < round(steps) && missing + k <= FEW; k++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%.9g",
                     text[0] != '\0' ? ", " : "", slices[i - 1].value + k * step);
        missing += round(steps) > 1 ? round(steps) - 1 : 0;
    }
    if (n > 2 && missing > FEW)
        wu_print_note_of_file(folder, "slices are missing, by the files' names: %s and %.0f more",
                              text, missing - FEW);
    else if (n > 2 && missing > 0)
        wu_print_note_of_file(folder, "%s missing, by the files' names: %s",
                              missing > 1 ? "slices are" : "a slice is", text);
}

/* Sorts the slices by their numbers, if their names differ only in the number. noted: the folder
 * that a note about missing numbers names, or NULL if no note is to be printed. */
static tc_status order_slices(wu_page_files *pictures, const char *noted, tc_err *err)
{
    const size_t n = pictures->n_files;
    const bool is_signed = are_signed(pictures);
    TC_AUTOFREE slice *const slices = malloc(n * sizeof *slices + 1);
    bool same = n > 0;
    if (slices == NULL)
        return tc_no_memory(err, "a list of files");
    for (size_t i = 0; same && i < n; i++) {
        const slice s = slices[i] = read_slice(pictures->files[i], is_signed), first = slices[0];
        const size_t rest = s.length - s.at - s.n;
        same = s.n > 0 && s.at == first.at && memcmp(s.name, first.name, s.at) == 0 &&
               rest == first.length - first.at - first.n &&
               memcmp(s.name + s.at + s.n, first.name + first.at + first.n, rest) == 0;
    }
    if (!same)
        return TC_OK;
    qsort(slices, n, sizeof *slices, compare_slices);
    for (size_t i = 0; i < n; i++)
        pictures->files[i] = slices[i].path;
    if (noted != NULL)
        note_missing(noted, slices, n);
    return TC_OK;
}

/* Sets pages->files to the pictures in a folder, sorted as slices. TC_BAD_INPUT: the folder has no
 * pictures. */
static tc_status list_folder(const char *folder, wu_page_files *pages, tc_err *err)
{
    TC_AUTO(free_listing) listing in;
    return_if_error(list_entries(folder, &in, err));
    if (in.pictures.n_files == 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: no .png, .jpg, .tif or .nii files in this folder",
                       folder);
    pages->files = in.pictures.files;
    pages->n_files = in.pictures.n_files;
    in.pictures = (wu_page_files){ 0 };
    return order_slices(pages, NULL, err);
}

/* --- headers of pictures --------------------------------------------------------------------- */

/* The word for a picture of this kind in messages. */
static const char *kind_word(wu_kind kind)
{
    return kind == WU_KIND_LABELS ? "label picture" : "mask";
}

/* Adds to the set `parts` the paths of the other files that hold pages of this picture, since such
 * a file is not a picture of its own. Does nothing if `parts` is NULL. */
static tc_status add_parts(json_t *parts, const wu_picture *picture, tc_err *err)
{
    char *const *paths;
    const size_t n = wu_picture_others(picture, &paths);
    for (size_t i = 0; parts != NULL && i < n; i++)
        if (json_object_set_new_nocheck(parts, paths[i], json_true()) != 0)
            return tc_no_memory(err, "a list of files");
    return TC_OK;
}

/* Reads the headers of all files, checks that together the files can be one item, and sets
 * pages->info and pages->about. slices: whether each file must have a single page. exact: whether
 * to refuse JPEG files, whose values are not exact. parts: as for add_parts. */
static tc_status inspect_files(wu_page_files *pages, bool slices, bool exact, json_t *parts,
                               tc_err *err)
{
    pages->want.alone = slices; /* of an OME-TIFF that is a slice, read no pages in other files */
    for (size_t i = 0; i < pages->n_files; i++) {
        const char *path = pages->files[i];
        wu_picture *picture = NULL;
        tc_status status = wu_picture_open(path, &pages->want, &picture, err);
        if (status != TC_OK)
            return status;
        const wu_picture_info page = *wu_picture_get_info(picture);
        const unsigned earlier_remarks = i == 0 ? 0 : pages->about.remarks;
        if (i == 0)
            pages->about = *wu_picture_get_about(picture);
        pages->about.remarks = earlier_remarks | wu_picture_get_about(picture)->remarks;
        status = add_parts(parts, picture, err);
        const bool lossy = strcmp(wu_picture_format(picture), "JPEG") == 0;
        wu_picture_close(&picture);
        if (status != TC_OK)
            return status;
        wu_picture_info *all = &pages->info;
        if (exact && lossy)
            return tc_fail(err, TC_BAD_INPUT,
                           "%s: a %s cannot be a JPEG, which changes values; use PNG or TIFF", path,
                           kind_word(pages->want.kind));
        if (slices && page.nz != 1)
            return tc_fail(err, TC_BAD_INPUT,
                           "%s: has %u pages; each slice of a stack must be a file of one page",
                           path, page.nz);
        if (i == 0) {
            *all = page;
            continue;
        }
        if (page.nx != all->nx || page.ny != all->ny || page.bits != all->bits)
            return tc_fail(err, TC_BAD_INPUT,
                           "%s: is %u x %u of %u bits, but %s is %u x %u of %u bits; "
                           "the slices of a stack must agree",
                           path, page.nx, page.ny, page.bits, pages->files[0], all->nx, all->ny,
                           all->bits);
        if (page.channels > all->channels)
            all->channels = page.channels;
        all->chosen = all->chosen || page.chosen;
        all->nz = (uint32_t)(i + 1);
        if (all->nz > WU_MAX_SIDE || (uint64_t)all->nx * all->ny * all->nz > WU_MAX_VOXELS)
            return tc_fail(err, TC_BAD_INPUT,
                           "%s: %u and more slices of %u x %u pixels are too many for a work unit",
                           path, all->nz, all->nx, all->ny);
    }
    return TC_OK;
}

/* --- items ----------------------------------------------------------------------------------- */

tc_status wu_source_keep_fault(wu_source *item, tc_status status, tc_err *err)
{
    assert(item->fault == NULL);
    if (status != TC_BAD_INPUT)
        return status;
    item->fault = strdup(err->message);
    return item->fault == NULL ? tc_no_memory(err, "a message") : TC_OK;
}

/* Calls inspect_files for the item's pictures, and checks max_pixels. TC_BAD_INPUT becomes the
 * item's fault. */
static tc_status inspect_item(const wu_sources *all, wu_source *item, bool slices, json_t *parts,
                              tc_err *err)
{
    const wu_picture_info *const info = &item->pages.info;
    tc_status status = inspect_files(&item->pages, slices, false /* JPEG, too */, parts, err);
    const uint64_t pixels = (uint64_t)info->nx * info->ny * info->nz;
    if (status == TC_OK && all->max_pixels > 0 && pixels > all->max_pixels)
        status =
            tc_fail(err, TC_BAD_INPUT, "%s: has %llu pixels, more than --max-pixels %llu",
                    item->path, (unsigned long long)pixels, (unsigned long long)all->max_pixels);
    return wu_source_keep_fault(item, status, err);
}

/* State of wu_sources_find. */
typedef struct finder {
    wu_sources *out;
    bool stacks, recursive; /* as for wu_sources_find */
    json_t *parts; /* set of the paths of files whose pages belong to the picture of another file */
    size_t n_parts;      /* how many of the files in `parts` were left out */
    json_t *found_paths; /* set of the full paths of pictures, and of folders that became stacks */
    size_t n_repeated;   /* how often a path that is in `found_paths` already was given again */
} finder;

/* Adds the path of a picture or stack to f->found_paths. Sets *repeated to whether the picture is
 * an item already, by this or another path. With --names, *repeated is always false: the file of
 * names has a line for each picture given, also for repeated ones. */
static tc_status check_repeated(finder *f, const char *path, bool *repeated, tc_err *err)
{
    TC_AUTOFREE char *const full = os_absolute_path(path);
    const char *const key = full == NULL ? path : full;
    *repeated = f->out->names == NULL && json_object_get(f->found_paths, key) != NULL;
    if (*repeated && f->n_repeated++ == 0)
        wu_print_note("%s: is given more than once, and used once", path);
    return json_object_set_new_nocheck(f->found_paths, key, json_true()) == 0
               ? TC_OK
               : tc_no_memory(err, "a list of files");
}

/* Appends a new item for the file or folder `path`. key becomes item->base, which owns it; after a
 * failure it is freed. */
static tc_status add_item(finder *f, const char *path, char *key, bool folder, wu_source **item,
                          tc_err *err)
{
    wu_sources *out = f->out;
    wu_source new = { .base = key,
                      .path = strdup(path),
                      .is_folder = folder,
                      .is_stack = folder,
                      .labels_array = -1,
                      .pages.want = f->out->want };
    tc_status status = new.base == NULL || new.path == NULL ? tc_no_memory(err, "an item") : TC_OK;
    if (status == TC_OK && out->n >= WU_MAX_ITEMS)
        status = tc_fail(err, TC_BAD_INPUT, "%s: more than %u items", path, WU_MAX_ITEMS);
    if (status == TC_OK && (out->n & (out->n - 1)) == 0) { /* as in add_file */
        wu_source *bigger = realloc(out->items, (out->n == 0 ? 1 : 2 * out->n) * sizeof *bigger);
        if (bigger == NULL)
            status = tc_no_memory(err, "the list of items");
        else
            out->items = bigger;
    }
    if (status != TC_OK) {
        free(new.base);
        free(new.path);
        return status;
    }
    *item = &out->items[out->n++];
    **item = new;
    return TC_OK;
}

/* Returns the name of one time: "NAME_t03" for time 3, if there are 10 to 99 times. Owned by the
 * caller; NULL if there is no memory. */
static char *name_time(const char *name, unsigned long time, unsigned long n_times)
{
    const size_t room = strlen(name) + 32;
    char *const out = malloc(room);
    if (out != NULL)
        snprintf(out, room, "%s_t%0*lu", name, snprintf(NULL, 0, "%lu", n_times), time);
    return out;
}

/* Restricts the item to one time of its file. time: its number, from 1 on. key: the base of the
 * file (make_key), to which the time is appended. */
static tc_status select_time(wu_source *item, const char *key, unsigned long time, tc_err *err)
{
    char *const name = base_name(item->path, A_FILE);
    const unsigned long n = item->pages.about.frames;
    free(item->base);
    item->pages.want.time = time;
    item->base = name_time(key, time, n);
    item->raw_name = name == NULL ? NULL : name_time(name, time, n);
    free(name);
    return item->base == NULL || item->raw_name == NULL ? tc_no_memory(err, "an item") : TC_OK;
}

/* Replaces the last item, a file of several times, by one item for each time. */
static tc_status split_times(finder *f, tc_err *err)
{
    const size_t first = f->out->n - 1;
    char *const key = f->out->items[first].base, *const path = f->out->items[first].path;
    const unsigned long n = f->out->items[first].pages.about.frames;
    wu_picture_info info = f->out->items[first].pages.info;
    info.nz = (uint32_t)f->out->items[first].pages.about.slices;
    f->out->items[first].base = NULL;
    tc_status status = TC_OK;
    for (unsigned long time = 1; status == TC_OK && time <= n; time++) {
        wu_source *item = &f->out->items[first];
        if (time > 1)
            status = add_item(f, path, strdup(key), A_FILE, &item, err);
        if (status == TC_OK && time > 1) {
            item->pages.about = f->out->items[first].pages.about;
            status = add_file(&item->pages, strdup(path), err);
        }
        if (status != TC_OK)
            break;
        item->pages.info = info;
        item->is_stack = info.nz > 1;
        status = select_time(item, key, time, err);
    }
    free(key);
    return status;
}

/* Adds the items of a picture file: one or, if the file holds several times, one for each time.
 * key: the base of the file; owned by this function. from_folder: whether the command line names a
 * folder that contains the file, and not the file itself. */
static tc_status add_picture(finder *f, const char *path, char *key, bool from_folder, tc_err *err)
{
    wu_source *item = NULL;
    if (json_object_get(f->parts, path) != NULL) {
        f->n_parts++;
        free(key);
        return TC_OK;
    }
    bool repeated;
    tc_status status = check_repeated(f, path, &repeated, err);
    if (status != TC_OK || repeated) {
        free(key);
        return status;
    }
    status = add_item(f, path, key, A_FILE, &item, err);
    if (status == TC_OK)
        status = add_file(&item->pages, strdup(path), err);
    if (status == TC_OK)
        status = inspect_item(f->out, item, false /* no slices */, f->parts, err);
    if (status != TC_OK || item->fault != NULL)
        return status;
    if (item->pages.about.frames > 1 && (!f->stacks || item->pages.about.slices > 1))
        return split_times(f, err);
    item->is_stack = item->pages.info.nz > 1;
    if (f->stacks && !item->is_stack && !from_folder)
        return tc_fail(err, TC_USAGE,
                       "pack: %s is one picture; with --stack give the folder that "
                       "holds the slices",
                       path);
    return TC_OK;
}

/* Returns the folder's path. If it ends with "." or "..", which cannot name an item, returns the
 * absolute path. Owned by the caller; NULL if there is no memory. */
static char *named_folder(const char *path)
{
    char *base = base_name(path, A_FOLDER);
    const bool dots = base != NULL && (strcmp(base, ".") == 0 || strcmp(base, "..") == 0);
    free(base);
    return dots ? os_absolute_path(path) : strdup(path);
}

/* Appends a new item for a folder of slices. key: as for add_item. */
static tc_status add_stack_item(finder *f, const char *folder, char *key, wu_source **item,
                                tc_err *err)
{
    char *const named = named_folder(folder);
    if (named == NULL) {
        free(key);
        return tc_no_memory(err, folder);
    }
    const tc_status status = add_item(f, named, key, A_FOLDER, item, err);
    free(named);
    return status;
}

/* Adds a new item whose slices are the pictures; the list `pictures` is empty afterwards. */
static tc_status add_stack(finder *f, const char *folder, char *key, wu_page_files *pictures,
                           tc_err *err)
{
    wu_source *item = NULL;
    return_if_error(add_stack_item(f, folder, key, &item, err));
    return_if_error(order_slices(pictures, folder, err));
    item->pages.files = pictures->files;
    item->pages.n_files = pictures->n_files;
    *pictures = (wu_page_files){ 0 };
    return inspect_item(f->out, item, true /* slices */, NULL, err);
}

/* Returns the base of an item, by which its mask is found. This is the path of the item within the
 * folder `input` (if the item is a file, without the extension) or, if `path` is the input itself,
 * the name of the input. Owned by the caller; NULL if there is no memory. */
static char *make_key(const char *input, const char *path, bool folder)
{
    const size_t n = strlen(path);
    size_t from = strlen(input);
    while (os_is_separator(path[from]))
        from++;
    if (from >= n)
        return base_name(path, folder);
    return tc_strndup(path + from,
                      (folder ? n : extension_of(path, (size_t)(os_base_name(path) - path), n)) -
                          from);
}

/* --- slices of several stacks in a folder ---------------------------------------------------- */

/* Returns the name of a slice's series: the file name without its extension, with '*' in place of
 * the slice's number. Owned by the caller; NULL if there is no memory. */
static char *series_of(const char *path, bool is_signed)
{
    char *const name = base_name(path, A_FILE);
    size_t at, n;
    if (name == NULL)
        return NULL;
    find_number(name, strlen(name), is_signed, &at, &n);
    if (n > 0) {
        memmove(name + at + 1, name + at + n, strlen(name + at + n) + 1);
        name[at] = '*';
    }
    return name;
}

/* Changes the name of a series into that of an item, in place: "a_z*_c2" becomes "a_c2". */
static void name_series(char *series)
{
    char *const star = strchr(series, '*');
    size_t keep = star == NULL ? strlen(series) : (size_t)(star - series);
    if (keep > 0 && (series[keep - 1] == 'z' || series[keep - 1] == 'Z') &&
        (keep == 1 || !isalnum((unsigned char)series[keep - 2])))
        keep--;
    while (keep > 0 && strchr("_-. ", series[keep - 1]) != NULL)
        keep--;
    if (star != NULL)
        memmove(series + keep, star + 1, strlen(star + 1) + 1);
}

/* Sorts the pictures of a folder into series. Returns an object that maps the name of each series
 * to the list of its pictures' indices. Owned by the caller; NULL if there is no memory. */
static json_t *sort_series(const wu_page_files *pictures)
{
    json_t *const all = json_object();
    const bool is_signed = are_signed(pictures);
    for (size_t i = 0; all != NULL && i < pictures->n_files; i++) {
        char *const series = series_of(pictures->files[i], is_signed);
        json_t *list = series == NULL ? NULL : json_object_get(all, series);
        if (series != NULL && list == NULL && (list = json_array()) != NULL &&
            json_object_set_new_nocheck(all, series, list) != 0)
            list = NULL;
        free(series);
        if (list == NULL || json_array_append_new(list, json_integer((json_int_t)i)) != 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

/* Whether the pictures are of several stacks: several series, each with several slices. */
static bool are_several_stacks(json_t *all)
{
    const char *name;
    json_t *list;
    bool several = json_object_size(all) > 1;
    json_object_foreach(all, name, list)
        several = several && json_array_size(list) > 1;
    return several;
}

/* Adds one series of a folder as an item. name: the name of the series; list: the indices of its
 * pictures. */
static tc_status add_series(finder *f, const char *input, const char *folder, const char *name,
                            const json_t *list, wu_page_files *pictures, tc_err *err)
{
    wu_page_files slices = { 0 };
    wu_source *item = NULL;
    const json_t *index;
    size_t i;
    char *const path = join_path(folder, name), *const called = strdup(name);
    tc_status status = path == NULL || called == NULL ? tc_no_memory(err, folder) : TC_OK;
    json_array_foreach(list, i, index)
        if (status == TC_OK)
            status = wu_page_files_add(&slices, pictures->files[json_integer_value(index)], err);
    if (status == TC_OK)
        status = order_slices(&slices, path, err);
    if (status == TC_OK) {
        name_series(called);
        char *const key = make_key(input, path, A_FOLDER);
        if (key != NULL)
            snprintf(key + (os_base_name(key) - key), strlen(os_base_name(key)) + 1, "%s", called);
        status = add_item(f, path, key, A_FOLDER, &item, err);
    }
    if (status == TC_OK) {
        item->raw_name = called;
        item->pages.files = slices.files;
        item->pages.n_files = slices.n_files;
        status = inspect_item(f->out, item, true /* slices */, NULL, err);
    } else {
        free_pages(&slices);
        free(called);
    }
    free(path);
    return status;
}

/* Adds the pictures of a folder as one stack or, if there are several series, as one stack for each
 * series. */
static tc_status add_stacks(finder *f, const char *input, const char *folder,
                            wu_page_files *pictures, tc_err *err)
{
    json_t *const all = sort_series(pictures), *list;
    const char *name;
    tc_status status = all == NULL ? tc_no_memory(err, folder) : TC_OK;
    const bool several = status == TC_OK && are_several_stacks(all);
    if (several) {
        wu_print_note("%s: the pictures are of %zu stacks, recognised by their names", folder,
                      json_object_size(all));
        json_object_foreach(all, name, list)
            if (status == TC_OK)
                status = add_series(f, input, folder, name, list, pictures, err);
    }
    json_decref(all);
    return several || status != TC_OK
               ? status
               : add_stack(f, folder, make_key(input, folder, A_FOLDER), pictures, err);
}

/* Adds the pictures of a folder as items or, with f->stacks, as the slices of stacks. With
 * f->recursive, also does so for the folders in it. input: the path on the command line; folder:
 * this path or a folder in it. */
static tc_status add_folder(finder *f, const char *input, const char *folder, tc_err *err)
{
    TC_AUTO(free_listing) listing in;
    return_if_error(list_entries(folder, &in, err));
    return_if_error(leave_out_exported(folder, strcmp(folder, input) == 0, &in, err));
    return_if_error(refuse_output(f->out, folder, &in, err));
    return_if_error(leave_out_masks(folder, &in, f->out, err));
    note_left_out(folder, &in, f->recursive);
    if (f->recursive)
        return_if_error(leave_out_mask_folders(&in, err));
    bool repeated = false;
    if (f->stacks && in.pictures.n_files > 0)
        return_if_error(check_repeated(f, folder, &repeated, err));
    if (f->stacks && in.pictures.n_files > 0 && !repeated)
        return_if_error(add_stacks(f, input, folder, &in.pictures, err));
    for (size_t i = 0; !f->stacks && i < in.pictures.n_files; i++)
        return_if_error(add_picture(f, in.pictures.files[i],
                                    make_key(input, in.pictures.files[i], A_FILE),
                                    true /* from a folder */, err));
    for (size_t i = 0; f->recursive && i < in.folders.n_files; i++)
        return_if_error(add_folder(f, input, in.folders.files[i], err));
    return TC_OK;
}

/* Adds the items of a file or folder that was named on the command line. */
static tc_status add_input(finder *f, const char *input, tc_err *err)
{
    const size_t before = f->out->n, repeated = f->n_repeated;
    const int folder = is_folder(input);
    if (folder < 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: %s", input, strerror(errno));
    if (folder == 0)
        return add_picture(f, input, base_name(input, A_FILE), false /* from no folder */, err);
    tc_status status = add_folder(f, input, input, err);
    if (status == TC_OK && f->out->n == before && f->n_repeated == repeated)
        status =
            tc_fail(err, TC_BAD_INPUT, "%s: no .png, .jpg, .tif or .nii files in this folder%s",
                    input, f->recursive ? " or in the folders in it" : "");
    if (status != TC_BAD_INPUT || !f->stacks)
        return status;
    /* With stacks, a folder that cannot be used becomes an item with a fault, and other inputs are
     * still checked. */
    wu_source *item = NULL;
    tc_err other;
    const tc_status added = add_stack_item(f, input, base_name(input, A_FOLDER), &item, &other);
    return added == TC_OK ? wu_source_keep_fault(item, status, err) : status;
}

/* --- masks and labels ------------------------------------------------------------------------ */

/* The folder that --mask or --labels names. */
typedef struct mask_folder {
    const wu_sources *all; /* the items that the masks or labels belong to */
    const char *path;
    wu_kind kind;
    wu_page_files files; /* the pictures in the folder; n_files may be 0 */
    json_t *by_key;      /* maps base names to lists of indices into `files`; for example "X" to the
                            indices of X.png and X_mask.png */
} mask_folder;

/* Adds to the key's list in masks->by_key the index that the next file in masks->files will have.
 * _nocheck is used since file names need not be UTF-8. */
static tc_status index_mask(mask_folder *masks, const char *key, tc_err *err)
{
    json_t *list = json_object_get(masks->by_key, key);
    if (list == NULL && json_object_set_new_nocheck(masks->by_key, key, json_array()) == 0)
        list = json_object_get(masks->by_key, key);
    return json_array_append_new(list, json_integer((json_int_t)masks->files.n_files)) == 0
               ? TC_OK
               : tc_no_memory(err, "the list of masks");
}

/* Adds the pictures of `folder`, which is masks->path or a folder in it. */
static tc_status add_mask_files(mask_folder *masks, const char *folder, bool recursive, tc_err *err)
{
    listing in;
    tc_status status = list_entries(folder, &in, err);
    if (status == TC_OK)
        status = refuse_output(masks->all, folder, &in, err);
    for (size_t i = 0; i < in.pictures.n_files && status == TC_OK; i++) {
        char *const key = make_key(masks->path, in.pictures.files[i], A_FILE);
        status = key == NULL ? tc_no_memory(err, "the list of masks") : index_mask(masks, key, err);
        const size_t part = key == NULL ? 0 : masked_length(key, false /* not drawn */);
        if (status == TC_OK && part > 0) {
            key[part] = '\0';
            status = index_mask(masks, key, err);
        }
        free(key);
        if (status == TC_OK)
            status = add_file(&masks->files, strdup(in.pictures.files[i]), err);
    }
    for (size_t i = 0; recursive && i < in.folders.n_files && status == TC_OK; i++)
        status = add_mask_files(masks, in.folders.files[i], true, err);
    free_listing(&in);
    return status;
}

/* Returns the file that masks->by_key lists for the item, or NULL. If it lists several files, the
 * item's own picture (which may be in the same folder) is ignored. Sets *other to a second file, or
 * NULL. */
static const char *look_up(const mask_folder *masks, const wu_source *item, const char **other)
{
    const json_t *const list = json_object_get(masks->by_key, item->base), *index;
    const char *found = NULL, *own = NULL;
    size_t i;
    *other = NULL;
    json_array_foreach(list, i, index) {
        const char *const file = masks->files.files[json_integer_value(index)];
        if (json_array_size(list) > 1 && os_same_file(file, item->pages.files[0]))
            own = file;
        else if (found == NULL)
            found = file;
        else
            *other = file;
    }
    return found != NULL ? found : own;
}

/* Fails with TC_BAD_INPUT, because no mask was found for the item. The message says which names
 * were looked for, and names a file that is in the folder, if possible one that begins with the
 * item's base. */
static tc_status refuse_missing(const mask_folder *masks, const wu_source *item, tc_err *err)
{
    const char *const word = kind_word(masks->kind), *const base = os_base_name(item->base),
                      *const end = masks->kind == WU_KIND_LABELS ? "_labels" : "_mask";
    const size_t n = masks->files.n_files;
    char rename[160] = "";
    size_t like = 0; /* index of the file that begins with the item's base; n if there is none */
    for (bool is_like = false; like < n && !is_like; like += !is_like) {
        TC_AUTOFREE char *const key = make_key(masks->path, masks->files.files[like], A_FILE);
        is_like = key != NULL && strncmp(key, item->base, strlen(item->base)) == 0 &&
                  !os_same_file(masks->files.files[like], item->pages.files[0]);
    }
    if (like < n)
        snprintf(rename, sizeof rename, "; if that is the right file, rename it to %.100s%s", base,
                 end);
    return tc_fail(err, TC_BAD_INPUT,
                   "%s: no %s for %s: a picture%s called %s or %s%s was looked for%s%s%s%s",
                   masks->path, word, item->name, item->is_stack ? " or folder" : "", item->base,
                   item->base, end, n == 0 ? "" : ", but there is ",
                   n == 0 ? "" : os_base_name(masks->files.files[like < n ? like : 0]),
                   n > 1 && like == n ? ", ..." : "", rename);
}

/* Finds the files of an item's mask or labels. Sets *slices to whether each slice is a file of its
 * own. only_item: whether there is no other item, so that the slices may be in masks->path itself.
 */
static tc_status find_mask(const mask_folder *masks, wu_source *item, bool only_item, bool *slices,
                           tc_err *err)
{
    wu_page_files *const pages = wu_page_files_of(item, masks->kind);
    TC_AUTOFREE char *sub = join_path(masks->path, item->base);
    if (sub == NULL)
        return tc_no_memory(err, masks->path);
    const char *other, *const found = look_up(masks, item, &other);
    *slices = item->is_stack && is_folder(sub) == 1;
    if (*slices)
        return list_folder(sub, pages, err);
    if (other != NULL)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: two %ss for %s: %s and %s; leave one of them in the folder",
                       masks->path, kind_word(masks->kind), item->name, os_base_name(found),
                       os_base_name(other));
    if (found != NULL)
        return wu_page_files_add(pages, found, err);
    *slices = item->is_stack && only_item;
    return *slices ? list_folder(masks->path, pages, err) : refuse_missing(masks, item, err);
}

/* Checks that the headers of the item's mask or labels agree with those of its pictures. */
static tc_status check_matching(wu_source *item, wu_kind kind, bool slices, tc_err *err)
{
    wu_page_files *const pages = wu_page_files_of(item, kind);
    pages->want.kind = kind;
    return_if_error(inspect_files(pages, slices, true /* no JPEG */, NULL, err));
    const wu_picture_info *a = &pages->info, *b = &item->pages.info;
    if (a->nx != b->nx || a->ny != b->ny || a->nz != b->nz)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: the %s is %u x %u of %u page(s), but %s is %u x %u of %u page(s)",
                       pages->files[0], kind_word(kind), a->nx, a->ny, a->nz, item->pages.files[0],
                       b->nx, b->ny, b->nz);
    return TC_OK;
}

/* Checks that no two items have the same base, by which masks and labels are found. */
static tc_status check_bases(const wu_sources *all, wu_kind kind, tc_err *err)
{
    json_auto_t *seen = json_object();
    if (seen == NULL)
        return tc_no_memory(err, "the list of names");
    for (size_t i = 0; i < all->n; i++) {
        const char *base = all->items[i].base;
        if (all->items[i].fault != NULL)
            continue;
        if (json_object_get(seen, base) != NULL)
            return tc_fail(err, TC_BAD_INPUT,
                           "%s: another input is called %s too, so their %ss "
                           "cannot be distinguished",
                           all->items[i].pages.files[0], base, kind_word(kind));
        else if (json_object_set_new_nocheck(seen, base, json_true()) != 0)
            return tc_no_memory(err, "the list of names");
    }
    return TC_OK;
}

tc_status wu_sources_add_matching(wu_sources *all, const char *mask, wu_kind kind, bool recursive,
                                  tc_err *err)
{
    const int folder = is_folder(mask);
    if (folder < 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: %s", mask, strerror(errno));
    if (folder == 0) {
        if (all->n != 1)
            return tc_fail(err, TC_USAGE, "pack: one %s file for %zu items; give a folder of %ss",
                           kind_word(kind), all->n, kind_word(kind));
        if (all->items[0].fault != NULL)
            return TC_OK;
        tc_status status = wu_page_files_add(wu_page_files_of(&all->items[0], kind), mask, err);
        if (status == TC_OK)
            status = check_matching(&all->items[0], kind, false /* no slices */, err);
        return wu_source_keep_fault(&all->items[0], status, err);
    }
    mask_folder masks = { .all = all, .path = mask, .kind = kind, .by_key = json_object() };
    tc_status status =
        masks.by_key == NULL ? tc_no_memory(err, "the list of masks") : check_bases(all, kind, err);
    if (status == TC_OK)
        status = add_mask_files(&masks, mask, recursive, err);
    for (size_t i = 0; i < all->n && status == TC_OK; i++) {
        wu_source *const item = &all->items[i];
        bool slices = false;
        if (item->fault != NULL)
            continue;
        status = find_mask(&masks, item, all->n == 1, &slices, err);
        if (status == TC_OK)
            status = check_matching(item, kind, slices, err);
        status = wu_source_keep_fault(item, status, err);
    }
    free_pages(&masks.files);
    json_decref(masks.by_key);
    return status;
}

tc_status wu_sources_find(char **inputs, size_t n_inputs, bool stacks, bool recursive,
                          const char *mask, wu_sources *out, tc_err *err)
{
    assert(n_inputs > 0);
    *out = (wu_sources){
        .max_pixels = out->max_pixels, .want = out->want, .names = out->names, .output = out->output
    };
    finder f = { .out = out,
                 .stacks = stacks,
                 .recursive = recursive,
                 .parts = json_object(),
                 .found_paths = json_object() };
    tc_status status =
        f.parts == NULL || f.found_paths == NULL ? tc_no_memory(err, "a list of files") : TC_OK;
    for (size_t i = 0; i < n_inputs && status == TC_OK; i++)
        status = add_input(&f, inputs[i], err);
    if (f.n_parts > 0)
        wu_print_note("%zu files are parts of other files' pictures, and are not read as pictures",
                      f.n_parts);
    if (f.n_repeated > 1)
        wu_print_note("%zu more pictures are given more than once", f.n_repeated - 1);
    json_decref(f.parts);
    json_decref(f.found_paths);
    return_if_error(status);
    if (out->names != NULL)
        return_if_error(read_names(out, err));
    return_if_error(name_items(out, err));
    return_if_error(name_sources(out, err));
    return mask != NULL ? wu_sources_add_matching(out, mask, WU_KIND_MASK, recursive, err) : TC_OK;
}

void wu_sources_free(wu_sources *sources)
{
    for (size_t i = 0; i < sources->n + sources->n_left_out; i++) {
        wu_source *item = &sources->items[i];
        free(item->kept_labels);
        free(item->fault);
        free(item->name);
        free(item->raw_name);
        free(item->base);
        free(item->path);
        free(item->source);
        free_pages(&item->pages);
        free_pages(&item->mask);
        free_pages(&item->labels);
    }
    free(sources->items);
    free(sources->masks_in);
    *sources = (wu_sources){ 0 };
}

void wu_sources_drop_faulty(wu_sources *sources)
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
