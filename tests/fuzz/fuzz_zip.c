#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#include "tests/fuzz/fuzz_zip.h"

#include <minizip/zip.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "workunits/format/archive.h"

/* libFuzzer's. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

enum { MEMBER_MAX = 1 << 18, GROWTH = 256 };

void fuzz_file_open(fuzz_file *file, const uint8_t *data, size_t size)
{
    file->fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (file->fd < 0 || write(file->fd, data, size) != (ssize_t)size)
        abort();
    snprintf(file->path, sizeof file->path, "/proc/self/fd/%d", file->fd);
}

void fuzz_file_close(fuzz_file *file)
{
    close(file->fd);
}

/* --- the mutator ------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Gives every chunk of a PNG the CRC it should have. */
static void mend_png(uint8_t *data, size_t size)
{
    for (size_t at = 8; at + 12 <= size;) {
        const size_t n = (size_t)data[at] << 24 | (size_t)data[at + 1] << 16 | (size_t)data[at + 2] << 8 | data[at + 3];
        if (n > size - at - 12)
            return;
        const uLong crc = crc32(0, data + at + 4, (uInt)n + 4);
        for (int i = 0; i < 4; i++)
            data[at + 8 + n + (size_t)i] = (uint8_t)(crc >> (24 - 8 * i));
        at += n + 12;
    }
}

/* A member's bytes, some of them changed; free(). NULL if it does not unpack. */
static uint8_t *mutated_member(wu_unzip *z, const wu_archive *a, size_t index, bool mutate, size_t *size)
{
    const wu_member *m = &a->members[index];
    size_t n = 0, got = 0;
    if (m->size > MEMBER_MAX)
        return NULL;
    uint8_t *data = malloc((size_t)m->size + GROWTH);
    if (data == NULL)
        return NULL;
    wu_unzip_begin(z, index);
    do {
        if (wu_unzip_read(z, data + n, (size_t)m->size + 1 - n, &got, NULL) != TC_OK) {
            free(data);
            return NULL;
        }
        n += got;
    } while (got > 0);
    if (mutate) {
        n = LLVMFuzzerMutate(data, n, (size_t)m->size + GROWTH);
        if (ends_with(m->name, ".png"))
            mend_png(data, n);
    }
    *size = n;
    return data;
}

/* The archive again with one member changed, in the memory file `out`. */
static bool repack(const wu_archive *a, const fuzz_file *out, size_t chosen, unsigned seed)
{
    const zip_fileinfo when = { .tmz_date = { .tm_mday = 1, .tm_year = 1980 } };
    wu_unzip *z = NULL;
    bool good = wu_unzip_open(a, NULL, &z, NULL) == TC_OK;
    zipFile zip = good ? zipOpen64(out->path, APPEND_STATUS_CREATE) : NULL;
    for (size_t i = 0; i < a->n && zip != NULL; i++) {
        size_t size = 0;
        uint8_t *data = mutated_member(z, a, i, i == chosen, &size);
        const bool store = (seed >> 20 & 3) == 0;
        good = data != NULL &&
               zipOpenNewFileInZip(zip, a->members[i].name, &when, NULL, 0, NULL, 0, NULL, store ? 0 : Z_DEFLATED,
                                   store ? 0 : 6) == ZIP_OK &&
               zipWriteInFileInZip(zip, data, (unsigned)size) == ZIP_OK && zipCloseFileInZip(zip) == ZIP_OK && good;
        free(data);
    }
    if (zip != NULL)
        zipClose(zip, NULL);
    wu_unzip_close(&z);
    return good && zip != NULL;
}

/* --- TIFF --------------------------------------------------------------------------- */

static uint32_t number(const uint8_t *p, size_t n, bool big)
{
    uint32_t value = 0;
    for (size_t i = 0; i < n; i++)
        value |= (uint32_t)p[big ? n - 1 - i : i] << 8 * i;
    return value;
}

static void set_number(uint8_t *p, size_t n, bool big, uint32_t value)
{
    for (size_t i = 0; i < n; i++)
        p[big ? n - 1 - i : i] = (uint8_t)(value >> 8 * i);
}

/* Gives one entry of one directory another tag, type, count or value that readers know, or leads to another page.
 * Whether it is a TIFF that has one. */
static bool mutate_tiff(uint8_t *data, size_t size, unsigned seed)
{
    static const uint16_t tags[] = { 254, 256, 257, 258, 259, 262, 270, 273, 274, 277, 278, 279, 282, 284, 296, 317, 320, 322, 323,
                                     324, 325, 338, 339, 347, 530, 32997 };
    static const uint32_t values[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 24, 32, 64, 100, 255, 256, 32773, 32946, 65535, 65536,
                                       1u << 30, UINT32_MAX };
    const bool big = size > 8 && memcmp(data, "MM\0*", 4) == 0;
    if (size <= 8 || (!big && memcmp(data, "II*\0", 4) != 0))
        return false;
    size_t at = number(data + 4, 4, big), n = 0;
    for (unsigned page = seed >> 4 & 3;; page--) {
        if (at + 2 > size || (n = number(data + at, 2, big)) == 0 || at + 2 + 12 * n + 4 > size)
            return false;
        const size_t next = number(data + at + 2 + 12 * n, 4, big);
        if (page == 0 || next == 0)
            break;
        at = next;
    }
    uint8_t *const entry = data + at + 2 + 12 * ((seed >> 6) % n);
    const uint32_t value = values[(seed >> 16) % (sizeof values / sizeof values[0])];
    switch (seed >> 13 & 7) {
    case 0: set_number(entry, 2, big, tags[(seed >> 16) % (sizeof tags / sizeof tags[0])]); break;
    case 1: set_number(entry + 2, 2, big, (seed >> 16) % 19); break;
    case 2: set_number(entry + 4, 4, big, value); break;
    case 3: set_number(data + at + 2 + 12 * n, 4, big, seed & 1 << 12 ? (uint32_t)at : value); break;
    default: set_number(entry + 8, number(entry + 2, 2, big) == 3 ? 2 : 4, big, value);
    }
    return true;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    fuzz_file in, out;
    wu_archive *a = NULL;
    size_t result = 0;
    if (seed % 3 == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    if (size > 8 && memcmp(data, "\x89PNG\r\n\x1a\n", 8) == 0) {
        size = LLVMFuzzerMutate(data, size, max_size);
        mend_png(data, size);
        return size;
    }
    if (mutate_tiff(data, size, seed))
        return size;
    fuzz_file_open(&in, data, size);
    fuzz_file_open(&out, data, 0);
    if (wu_archive_read(in.path, WU_MAX_MEMBERS, NULL, &a, NULL) == TC_OK && a->n > 0 && repack(a, &out, (seed >> 4) % a->n, seed)) {
        struct stat st;
        if (fstat(out.fd, &st) == 0 && (size_t)st.st_size <= max_size &&
            pread(out.fd, data, (size_t)st.st_size, 0) == (ssize_t)st.st_size)
            result = (size_t)st.st_size;
    }
    wu_archive_destroy(&a);
    fuzz_file_close(&in);
    fuzz_file_close(&out);
    return result > 0 ? result : LLVMFuzzerMutate(data, size, max_size);
}

static char folder[] = "/dev/shm/texcell-fuzz-XXXXXX";

static void remove_folder(void)
{
    char command[sizeof folder + 16];

    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0)
        abort();
}

const char *fuzz_folder(void)
{
    if (mkdtemp(folder) == NULL) {
        strcpy(folder, "/tmp/texcell-fuzz-XXXXXX");
        if (mkdtemp(folder) == NULL)
            abort();
    }
    if (atexit(remove_folder) != 0)
        abort();
    return folder;
}
