/* Files in the memory of the process, which replace the kernel's for the fuzz targets. */
#define _GNU_SOURCE
#include "tests/fuzz/fuzz_files.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int __real_open(const char *path, int flags, ...);
ssize_t __real_pread(int fd, void *p, size_t n, off_t at);
ssize_t __real_pwrite(int fd, const void *p, size_t n, off_t at);
int __real_ftruncate(int fd, off_t n);
int __real_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __real_close(int fd);
int __real_fstat(int fd, struct stat *info);
int __real_stat(const char *path, struct stat *info);
int __real_lstat(const char *path, struct stat *info);
int __real_unlink(const char *path);
int __real_flock(int fd, int operation);
int __wrap_close(int fd);
int __wrap_fstat(int fd, struct stat *info);
int __wrap_stat(const char *path, struct stat *info);
int __wrap_lstat(const char *path, struct stat *info);
int __wrap_unlink(const char *path);
int __wrap_flock(int fd, int operation);

enum {
    FILES = 8,                       /* largest number of files */
    DESCRIPTORS = 16,                /* largest number of open files */
    FIRST = 1 << 20,                 /* the first descriptor; the system's are smaller */
    THE_FOLDER = FIRST + DESCRIPTORS /* the descriptor of FILES_FOLDER */
};
static const size_t room = (size_t)1 << 26; /* bytes of the largest file */

typedef struct file {
    char name[64];   /* "": the file was deleted, or the entry is free */
    unsigned opened; /* number of open descriptors */
    uint8_t *p;      /* the file's bytes: own, or the input */
    uint8_t *own;    /* memory of `room` bytes; NULL if the entry was never written to */
    size_t size;
} file;

/* The first file is the input. */
static file files[FILES] = { { .name = FILES_FOLDER "/input" } };
static file *descriptors[DESCRIPTORS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Sets errno and returns -1. */
static int fault(int why)
{
    errno = why;
    return -1;
}

/* Returns whether a path is in FILES_FOLDER. */
static bool is_ours(const char *path)
{
    return strncmp(path, FILES_FOLDER "/", sizeof FILES_FOLDER) == 0;
}

static file *find(const char *path)
{
    for (size_t i = 0; i < FILES; i++)
        if (strcmp(files[i].name, path) == 0)
            return &files[i];
    return NULL;
}

/* Returns the file of a descriptor, or NULL if the descriptor is the system's. */
static file *file_of(int fd)
{
    return fd < FIRST || fd >= THE_FOLDER ? NULL : descriptors[fd - FIRST];
}

/* Makes an empty file in a free entry. */
static file *make(const char *path)
{
    file *f = files + 1;
    while (f < files + FILES && (f->name[0] != '\0' || f->opened > 0))
        f++;
    if (f == files + FILES || strlen(path) >= sizeof f->name)
        abort();
    if (f->own == NULL)
        f->own = mmap(NULL, room, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f->own == MAP_FAILED)
        abort();
    strcpy(f->name, path);
    f->p = f->own;
    f->size = 0;
    return f;
}

/* Opens a file as open() does with these flags. Returns its descriptor, or -1 with errno. */
static int describe(const char *path, int flags)
{
    file *f = find(path);
    int i = 0;
    if (f == NULL && (flags & O_CREAT) == 0)
        return fault(ENOENT);
    if (f != NULL && (flags & O_EXCL) != 0)
        return fault(EEXIST);
    if (f == NULL)
        f = make(path);
    if ((flags & O_TRUNC) != 0)
        f->size = 0;
    while (i < DESCRIPTORS && descriptors[i] != NULL)
        i++;
    if (i == DESCRIPTORS)
        abort();
    descriptors[i] = f;
    f->opened++;
    return FIRST + i;
}

const char *files_input(const uint8_t *data, size_t size)
{
    files[0].p = (uint8_t *)(uintptr_t)data;
    files[0].size = size;
    return files[0].name;
}

void files_put(const char *path, const uint8_t *data, size_t size)
{
    file *f = find(path);
    if (f == NULL)
        f = make(path);
    if (f->own == NULL || size > room)
        abort();
    memcpy(f->own, data, size);
    f->size = size;
}

int files_open(const char *path, int flags, int permissions)
{
    if (strcmp(path, FILES_FOLDER) == 0)
        return THE_FOLDER;
    if (!is_ours(path))
        return __real_open(path, flags, permissions);
    pthread_mutex_lock(&lock);
    const int fd = describe(path, flags);
    pthread_mutex_unlock(&lock);
    return fd;
}

ssize_t files_pread(int fd, void *p, size_t n, off_t at)
{
    const file *const f = file_of(fd);
    if (f == NULL)
        return __real_pread(fd, p, n, at);
    const size_t from = (uint64_t)at > f->size ? f->size : (size_t)at, left = f->size - from;
    n = n < left ? n : left;
    if (n > 0)
        memcpy(p, f->p + from, n);
    return (ssize_t)n;
}

/* Sets the size of a file; added bytes are 0. Returns 0, or -1 with errno. */
static int resize(file *f, uint64_t size)
{
    if (f->own == NULL)
        abort();
    if (size > room)
        return fault(ENOSPC);
    if (size > f->size)
        memset(f->own + f->size, 0, size - f->size);
    f->size = size;
    return 0;
}

ssize_t files_pwrite(int fd, const void *p, size_t n, off_t at)
{
    file *const f = file_of(fd);
    if (f == NULL)
        return __real_pwrite(fd, p, n, at);
    if (n > room || ((uint64_t)at + n > f->size && resize(f, (uint64_t)at + n) != 0))
        return fault(ENOSPC);
    if (n > 0)
        memcpy(f->own + at, p, n);
    return (ssize_t)n;
}

int files_ftruncate(int fd, off_t n)
{
    file *const f = file_of(fd);
    return f == NULL ? __real_ftruncate(fd, n) : resize(f, (uint64_t)n);
}

int files_fsync(int fd)
{
    return file_of(fd) == NULL && fd != THE_FOLDER ? __real_fsync(fd) : 0;
}

int files_rename(const char *from, const char *to)
{
    if (!is_ours(from))
        return __real_rename(from, to);
    file *const f = find(from), *const old = find(to);
    if (f == NULL)
        return fault(ENOENT);
    if (old != NULL)
        old->name[0] = '\0';
    if (strlen(to) >= sizeof f->name)
        abort();
    strcpy(f->name, to);
    return 0;
}

/* --- calls that never fail on purpose --------------------------------------------------------- */

int __wrap_close(int fd)
{
    file *const f = file_of(fd);
    if (fd == THE_FOLDER)
        return 0;
    if (f == NULL)
        return __real_close(fd);
    pthread_mutex_lock(&lock);
    descriptors[fd - FIRST] = NULL;
    f->opened--;
    pthread_mutex_unlock(&lock);
    return 0;
}

/* Answers stat() for a file; NULL: the file does not exist. */
static int inform(const file *f, struct stat *info)
{
    if (f == NULL)
        return fault(ENOENT);
    *info = (struct stat){ .st_dev = 1,
                           .st_ino = (ino_t)(f - files + 1),
                           .st_mode = S_IFREG | 0600,
                           .st_nlink = 1,
                           .st_size = (off_t)f->size };
    return 0;
}

int __wrap_fstat(int fd, struct stat *info)
{
    const file *const f = file_of(fd);
    return f == NULL ? __real_fstat(fd, info) : inform(f, info);
}

int __wrap_stat(const char *path, struct stat *info)
{
    return is_ours(path) ? inform(find(path), info) : __real_stat(path, info);
}

int __wrap_lstat(const char *path, struct stat *info)
{
    return is_ours(path) ? inform(find(path), info) : __real_lstat(path, info);
}

int __wrap_unlink(const char *path)
{
    file *const f = is_ours(path) ? find(path) : NULL;
    if (!is_ours(path))
        return __real_unlink(path);
    if (f == NULL)
        return fault(ENOENT);
    f->name[0] = '\0';
    return 0;
}

int __wrap_flock(int fd, int operation)
{
    return file_of(fd) == NULL ? __real_flock(fd, operation) : 0;
}
