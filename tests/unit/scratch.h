/*
 * Scratch folders and files for tests. A failure ends the test program.
 */
#ifndef SCRATCH_H
#define SCRATCH_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MUST(condition) ((condition) ? (void)0 : must_failed(#condition, __FILE__, __LINE__))

static inline void must_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "# %s:%d: %s\n", file, line, condition);
    abort();
}

/* Makes a new folder and returns its path, which remove_folder frees. */
static inline char *make_folder(void)
{
    const char *tmp = getenv("TMPDIR");
    const size_t size = strlen(tmp != NULL ? tmp : "/tmp") + sizeof "/texcell-test-XXXXXX";
    char *path = malloc(size);
    MUST(path != NULL);
    snprintf(path, size, "%s/texcell-test-XXXXXX", tmp != NULL ? tmp : "/tmp");
    MUST(mkdtemp(path) != NULL);
    return path;
}

/* Removes a folder with the files in it (it has no subfolders), and frees the path. */
static inline void remove_folder(char *path)
{
    DIR *dir = opendir(path);
    MUST(dir != NULL);
    for (const struct dirent *e; (e = readdir(dir)) != NULL;)
        unlinkat(dirfd(dir), e->d_name, 0);
    closedir(dir);
    rmdir(path);
    free(path);
}

/* Returns the number of files in a folder. */
static inline int count_files(const char *path)
{
    int n = 0;
    DIR *dir = opendir(path);
    MUST(dir != NULL);
    for (const struct dirent *e; (e = readdir(dir)) != NULL;)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    return n;
}

static inline char *join_path(const char *folder, const char *name)
{
    const size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    MUST(path != NULL);
    snprintf(path, size, "%s/%s", folder, name);
    return path;
}

static inline void write_file(const char *path, const void *data, size_t n)
{
    FILE *file = fopen(path, "wb");
    MUST(file != NULL && fwrite(data, 1, n, file) == n && fclose(file) == 0);
}

#endif
