/* Stores compiled programs in a folder, and loads them again. */
#include "opencl/program_cache.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/base/files.h"
#include "app/base/os.h"
#include "app/base/sha256.h"

enum {
    PATH_ROOM = 4096, /* bytes of the longest path, with its NUL */
    NAME_DIGITS = 32, /* digits of the key in a file's name */
    /* Bytes of a file's head: two SHA-256 digests as text, which are the key and the digest of the
     * program that follows. */
    HEAD = 2 * (TC_SHA256_TEXT - 1)
};
/* The largest file that is stored or loaded. */
#define MOST_BYTES ((size_t)64 << 20)

static const char prefix[] = "texcell_kernels_";

static void add_text(tc_sha256 *sum, const char *text)
{
    tc_sha256_add(sum, text, strlen(text) + 1);
}

/* The key: SHA-256 of all that a compiled program depends on. */
static void key_of(const ocl_device *device, const ocl_program_source *of, char key[TC_SHA256_TEXT])
{
    const ocl_info *const info = &device->info;
    const char *const made_for[] = { info->platform_name, info->vendor, info->name, info->driver,
                                     of->flags };
    tc_sha256 sum;

    tc_sha256_begin(&sum);
    for (size_t i = 0; i < sizeof made_for / sizeof made_for[0]; i++)
        add_text(&sum, made_for[i]);
    for (size_t i = 0; i < of->count; i++)
        add_text(&sum, of->lines[i]);
    tc_sha256_end(&sum, key);
}

/* Sets `path` to FOLDER/texcell_kernels_KEY.SUFFIX. false: it is too long. */
static bool path_of(const ocl_device *device, const char *key, const char *suffix,
                    char path[PATH_ROOM])
{
    const int n = snprintf(path, PATH_ROOM, "%s/%s%.*s.%s", device->cache_folder, prefix,
                           NAME_DIGITS, key, suffix);

    return n > 0 && n < PATH_ROOM;
}

static void digest_of(const unsigned char *data, size_t n, char digest[TC_SHA256_TEXT])
{
    tc_sha256 sum;

    tc_sha256_begin(&sum);
    tc_sha256_add(&sum, data, n);
    tc_sha256_end(&sum, digest);
}

/* --- loading --------------------------------------------------------------------------------- */

/* Returns the file's bytes, which the caller frees, and sets *bytes to their number; NULL if the
 * file cannot be read or its head is wrong. */
static unsigned char *read_file(const char *path, const char *key, size_t *bytes)
{
    unsigned char *data = NULL;
    char digest[TC_SHA256_TEXT];
    uint64_t size = 0;
    size_t got = 0;
    tc_err ignored;
    int fd;

    if (tc_open_regular(path, &fd, &size, &ignored) != TC_OK)
        return NULL;
    if (size > HEAD && size <= MOST_BYTES)
        data = malloc((size_t)size);
    if (data != NULL && tc_read_at(fd, path, 0, data, (size_t)size, &got, &ignored) != TC_OK)
        got = 0;
    close(fd);
    if (data != NULL && got == size) {
        digest_of(data + HEAD, got - HEAD, digest);
        if (memcmp(data, key, HEAD / 2) == 0 && memcmp(data + HEAD / 2, digest, HEAD / 2) == 0) {
            *bytes = got;
            return data;
        }
    }
    free(data);
    return NULL;
}

/* Makes a program from its compiled form; NULL if the driver rejects it. */
static cl_program build_binary(ocl_device *device, const unsigned char *binary, size_t bytes,
                               const char *flags)
{
    cl_int taken = CL_SUCCESS, code = CL_SUCCESS;
    cl_program made = device->api.clCreateProgramWithBinary(device->context, 1, &device->info.id,
                                                            &bytes, &binary, &taken, &code);

    if (made == NULL)
        return NULL;
    if (code == CL_SUCCESS && taken == CL_SUCCESS &&
        device->api.clBuildProgram(made, 1, &device->info.id, flags, NULL, NULL) == CL_SUCCESS)
        return made;
    device->api.clReleaseProgram(made);
    return NULL;
}

cl_program ocl_program_cache_load(ocl_device *device, const ocl_program_source *of)
{
    char key[TC_SHA256_TEXT], path[PATH_ROOM], being_tried[PATH_ROOM];
    cl_program program = NULL;
    size_t bytes = 0;

    if (device->cache_folder == NULL)
        return NULL;
    key_of(device, of, key);
    if (!path_of(device, key, "bin", path) || !path_of(device, key, "tried", being_tried) ||
        os_kind_of_link(path) != OS_FILE)
        return NULL;
    unlink(being_tried);
    if (rename(path, being_tried) != 0)
        return NULL;
    unsigned char *const data = read_file(being_tried, key, &bytes);

    if (data != NULL)
        program = build_binary(device, data + HEAD, bytes - HEAD, of->flags);
    free(data);
    device->cache_used = device->cache_used || program != NULL;
    if (program == NULL || rename(being_tried, path) != 0)
        unlink(being_tried);
    return program;
}

/* --- storing --------------------------------------------------------------------------------- */

typedef struct listing {
    const char *folder;
    size_t count;           /* stored programs seen so far */
    char oldest[PATH_ROOM]; /* path of the oldest of them; "" if none was seen yet */
    time_t since;           /* when the oldest was modified */
    bool remove;            /* delete every stored program that is seen */
} listing;

/* For os_list: counts a file of the folder if its name is that of a stored program. */
static int visit_file(void *user, const char *name, bool may_be_folder)
{
    listing *const l = user;
    char path[PATH_ROOM];
    struct stat info;

    (void)may_be_folder;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0 ||
        snprintf(path, sizeof path, "%s/%s", l->folder, name) >= (int)sizeof path ||
        stat(path, &info) != 0)
        return 0;
    l->count++;
    if (l->remove)
        unlink(path);
    if (l->oldest[0] == '\0' || info.st_mtime < l->since) {
        memcpy(l->oldest, path, sizeof path);
        l->since = info.st_mtime;
    }
    return 0;
}

static listing list_cache(const ocl_device *device, bool remove)
{
    listing l = { .folder = device->cache_folder, .remove = remove };

    os_list(device->cache_folder, visit_file, &l);
    return l;
}

/* Deletes the oldest stored programs until there is room for one more within OCL_CACHE_MOST. */
static void make_room(const ocl_device *device)
{
    listing l;

    while ((l = list_cache(device, false)).count >= OCL_CACHE_MOST && unlink(l.oldest) == 0)
        ;
}

/* Returns HEAD undefined bytes, which the caller fills, followed by the program's compiled form;
 * NULL if the driver has none. Sets *bytes to the size of both together. The caller frees them. */
static unsigned char *binary_of(ocl_device *device, cl_program program, size_t *bytes)
{
    size_t size = 0;

    if (device->api.clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL) !=
            CL_SUCCESS ||
        size == 0 || size > MOST_BYTES - HEAD)
        return NULL;
    unsigned char *const data = malloc(HEAD + size);
    unsigned char *at = data != NULL ? data + HEAD : NULL;

    *bytes = HEAD + size;
    if (at == NULL || device->api.clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof at, &at,
                                                   NULL) == CL_SUCCESS)
        return data;
    free(data);
    return NULL;
}

/* Writes the file under a temporary name and renames it, so that it exists only when it is
 * complete. */
static void write_file(const char *path, const char *temporary, const unsigned char *data,
                       size_t bytes)
{
    unlink(temporary);
    const int fd = os_open(temporary, OS_NEW);

    if (fd < 0)
        return;
    const bool written = tc_write_at(fd, 0, data, bytes);

    if (close(fd) != 0 || !written || rename(temporary, path) != 0)
        unlink(temporary);
}

void ocl_program_cache_store(ocl_device *device, const ocl_program_source *of, cl_program program,
                             double build_ms)
{
    char key[TC_SHA256_TEXT], digest[TC_SHA256_TEXT], path[PATH_ROOM], temporary[PATH_ROOM];
    size_t bytes = 0;

    if (device->cache_folder == NULL || build_ms < OCL_CACHE_SLOW_MS)
        return;
    key_of(device, of, key);
    if (!path_of(device, key, "bin", path) || !path_of(device, key, "new", temporary))
        return;
    unsigned char *const data = binary_of(device, program, &bytes);

    if (data == NULL)
        return;
    digest_of(data + HEAD, bytes - HEAD, digest);
    memcpy(data, key, HEAD / 2);
    memcpy(data + HEAD / 2, digest, HEAD / 2);
    make_room(device);
    write_file(path, temporary, data, bytes);
    free(data);
}

void ocl_program_cache_clear(ocl_device *device)
{
    if (device->cache_folder != NULL)
        list_cache(device, true);
    if (device->programs != NULL) /* some may have been loaded from the folder */
        device->free_programs(device);
    device->cache_folder = NULL;
    device->cache_used = false;
}
