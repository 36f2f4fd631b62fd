/* Stores compiled OpenCL programs in a folder, and loads them again. */
#include "opencl/program_cache.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/base/files.h"
#include "app/base/os.h"
#include "app/base/sha256.h"

enum {
    PATH_ROOM = 4096, /* bytes of the longest path, NUL included */
    NAME_DIGITS = 32, /* digits of the key in a file's name */
    /* Bytes of a file's head: two SHA-256 digests as text, which are the key and the digest of the
     * program that follows. */
    HEAD = 2 * (TC_SHA256_TEXT - 1)
};
/* The size, in bytes, of the largest file that is stored or loaded. */
#define MOST_BYTES ((size_t)64 << 20)

static const char prefix[] = "texcell_kernels_";

/* Adds the text and its NUL to the digest. */
static void add_text(tc_sha256 *sum, const char *text)
{
    tc_sha256_add(sum, text, strlen(text) + 1);
}

/* Sets `key` to the SHA-256 of all that a compiled program depends on: the device, the driver, the
 * flags and the source. */
static void make_key(const ocl_device *device, const ocl_program_source *source,
                     char key[TC_SHA256_TEXT])
{
    const ocl_info *const info = &device->info;
    const char *const properties[] = { info->platform_name, info->vendor, info->name, info->driver,
                                       source->flags };
    tc_sha256 sum;

    tc_sha256_begin(&sum);
    for (size_t i = 0; i < sizeof properties / sizeof properties[0]; i++)
        add_text(&sum, properties[i]);
    for (size_t i = 0; i < source->count; i++)
        add_text(&sum, source->lines[i]);
    tc_sha256_end(&sum, key);
}

/* Sets `path` to FOLDER/texcell_kernels_KEY.SUFFIX. Returns false if the path is too long. */
static bool make_path(const ocl_device *device, const char *key, const char *suffix,
                      char path[PATH_ROOM])
{
    const int n = snprintf(path, PATH_ROOM, "%s/%s%.*s.%s", device->cache_folder, prefix,
                           NAME_DIGITS, key, suffix);

    return n > 0 && n < PATH_ROOM;
}

/* Sets `digest` to the SHA-256 of n bytes. */
static void make_digest(const unsigned char *data, size_t n, char digest[TC_SHA256_TEXT])
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
    size_t n_read = 0;
    tc_err ignored;
    int fd;

    if (tc_open_regular(path, &fd, &size, &ignored) != TC_OK)
        return NULL;
    if (size > HEAD && size <= MOST_BYTES)
        data = malloc((size_t)size);
    if (data != NULL && tc_read_at(fd, path, 0, data, (size_t)size, &n_read, &ignored) != TC_OK)
        n_read = 0;
    close(fd);
    if (data != NULL && n_read == size) {
        make_digest(data + HEAD, n_read - HEAD, digest);
        if (memcmp(data, key, HEAD / 2) == 0 && memcmp(data + HEAD / 2, digest, HEAD / 2) == 0) {
            *bytes = n_read;
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
    cl_int binary_status = CL_SUCCESS, code = CL_SUCCESS;
    cl_program program = device->api.clCreateProgramWithBinary(
        device->context, 1, &device->info.id, &bytes, &binary, &binary_status, &code);

    if (program == NULL)
        return NULL;
    if (code == CL_SUCCESS && binary_status == CL_SUCCESS &&
        device->api.clBuildProgram(program, 1, &device->info.id, flags, NULL, NULL) == CL_SUCCESS)
        return program;
    device->api.clReleaseProgram(program);
    return NULL;
}

cl_program ocl_program_cache_load(ocl_device *device, const ocl_program_source *source)
{
    char key[TC_SHA256_TEXT], path[PATH_ROOM], tried_path[PATH_ROOM];
    cl_program program = NULL;
    size_t bytes = 0;

    if (device->cache_folder == NULL)
        return NULL;
    make_key(device, source, key);
    if (!make_path(device, key, "bin", path) || !make_path(device, key, "tried", tried_path) ||
        os_kind_of_link(path) != OS_FILE)
        return NULL;
    /* The file is renamed while the driver loads it. If the driver crashes, the file keeps the new
     * name and is not used again. */
    unlink(tried_path);
    if (rename(path, tried_path) != 0)
        return NULL;
    unsigned char *const data = read_file(tried_path, key, &bytes);

    if (data != NULL)
        program = build_binary(device, data + HEAD, bytes - HEAD, source->flags);
    free(data);
    device->cache_used = device->cache_used || program != NULL;
    if (program == NULL || rename(tried_path, path) != 0)
        unlink(tried_path);
    return program;
}

/* --- storing --------------------------------------------------------------------------------- */

/* What visit_file collects about the folder's files. */
typedef struct cache_list {
    const char *folder;
    size_t count;           /* number of stored programs found */
    char oldest[PATH_ROOM]; /* path of the oldest stored program; "" before one is found */
    time_t oldest_time;     /* when the oldest one was modified */
    bool remove;            /* whether visit_file deletes every stored program that it finds */
} cache_list;

/* For os_list: counts a file of the folder if its name is the name of a stored program. */
static int visit_file(void *user, const char *name, bool may_be_folder)
{
    cache_list *const l = user;
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
    if (l->oldest[0] == '\0' || info.st_mtime < l->oldest_time) {
        memcpy(l->oldest, path, sizeof path);
        l->oldest_time = info.st_mtime;
    }
    return 0;
}

/* Counts the stored programs and finds the oldest one; deletes all of them if `remove` is set. */
static cache_list list_cache(const ocl_device *device, bool remove)
{
    cache_list l = { .folder = device->cache_folder, .remove = remove };

    os_list(device->cache_folder, visit_file, &l);
    return l;
}

/* Deletes the oldest stored programs until there is room for one more within OCL_CACHE_MOST. */
static void make_room(const ocl_device *device)
{
    cache_list l;

    while ((l = list_cache(device, /* remove */ false)).count >= OCL_CACHE_MOST &&
           unlink(l.oldest) == 0)
        ;
}

/* Returns HEAD undefined bytes, which the caller fills, followed by the program's compiled form;
 * NULL if the driver has none. Sets *bytes to the size of both together. The caller frees them. */
static unsigned char *read_binary(ocl_device *device, cl_program program, size_t *bytes)
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

/* Writes the file under a temporary name and renames it, so that the file `path` is always
 * complete. Errors are ignored. */
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

void ocl_program_cache_store(ocl_device *device, const ocl_program_source *source,
                             cl_program program, double build_ms)
{
    char key[TC_SHA256_TEXT], digest[TC_SHA256_TEXT], path[PATH_ROOM], temporary[PATH_ROOM];
    size_t bytes = 0;

    if (device->cache_folder == NULL || build_ms < OCL_CACHE_MIN_BUILD_MS)
        return;
    make_key(device, source, key);
    if (!make_path(device, key, "bin", path) || !make_path(device, key, "new", temporary))
        return;
    unsigned char *const data = read_binary(device, program, &bytes);

    if (data == NULL)
        return;
    make_digest(data + HEAD, bytes - HEAD, digest);
    memcpy(data, key, HEAD / 2);
    memcpy(data + HEAD / 2, digest, HEAD / 2);
    make_room(device);
    write_file(path, temporary, data, bytes);
    free(data);
}

void ocl_program_cache_clear(ocl_device *device)
{
    if (device->cache_folder != NULL)
        list_cache(device, /* remove */ true);
    if (device->programs != NULL) /* some may have been loaded from the folder */
        device->free_programs(device);
    device->cache_folder = NULL;
    device->cache_used = false;
}
