#include "app/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "app/base/files.h"

/* The header as it lies in the file: little-endian, no padding. */
typedef struct header {
    char magic[8];
    uint32_t version;
    uint32_t job_crc;
    uint64_t job_size;
    char analysis[16];
    uint64_t item;
    uint64_t spool_size;
    uint64_t state_size;
    uint32_t spool_crc;
    uint32_t state_crc;
    uint32_t reserved;
    uint32_t header_crc;     /* of all bytes before it */
} header;

_Static_assert(sizeof(header) == 80, "the header of a checkpoint has 80 bytes");

static const char magic[8] = "TEXCKPT";

/* CRC-32 of any number of bytes. */
static uint32_t crc_of(const void *data, size_t n)
{
    return (uint32_t)crc32_z(crc32_z(0, NULL, 0), data, n);
}

/* Where a checkpoint is written before it is renamed; caller frees. */
static char *temporary_of(const char *path)
{
    const size_t size = strlen(path) + sizeof ".tmp";
    char *const temporary = malloc(size);

    if (temporary != NULL)
        snprintf(temporary, size, "%s.tmp", path);
    return temporary;
}

tc_status checkpoint_write(const char *path, const checkpoint *c, const void *state, tc_err *err)
{
    char *const temporary = temporary_of(path);
    header h = {
        .version = CHECKPOINT_VERSION, .job_crc = c->job_crc, .job_size = c->job_size,
        .item = c->item, .spool_size = c->spool_size, .state_size = c->state_size,
        .spool_crc = c->spool_crc, .state_crc = crc_of(state, (size_t)c->state_size)
    };
    tc_status st = TC_OK;
    int fd;

    if (temporary == NULL)
        return tc_no_memory(err, "a file name");
    memcpy(h.magic, magic, sizeof h.magic);
    memcpy(h.analysis, c->analysis, sizeof h.analysis);
    h.header_crc = crc_of(&h, offsetof(header, header_crc));
    fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0) {
        st = tc_fail(err, TC_IO, "%s: cannot be created: %s", temporary, strerror(errno));
        goto end;
    }
    if (!tc_write_at(fd, 0, &h, sizeof h) || !tc_write_at(fd, sizeof h, state, (size_t)c->state_size) || fsync(fd) != 0)
        st = tc_fail(err, TC_IO, "%s: cannot be written: %s", temporary, strerror(errno));
    if (close(fd) != 0 && st == TC_OK)
        st = tc_fail(err, TC_IO, "%s: cannot be written: %s", temporary, strerror(errno));
    if (st == TC_OK && rename(temporary, path) != 0)
        st = tc_fail(err, TC_IO, "%s: cannot be renamed: %s", temporary, strerror(errno));
    if (st == TC_OK)
        tc_sync_folder_of(path);
    else
        unlink(temporary);
end:
    free(temporary);
    return st;
}

void checkpoint_remove(const char *path)
{
    char *const temporary = temporary_of(path);

    unlink(path);
    if (temporary != NULL)
        unlink(temporary);
    free(temporary);
}

/* Why this header will not do, or NULL. */
static const char *fault_of(const header *h, const checkpoint *whose, uint64_t file_size)
{
    if (memcmp(h->magic, magic, sizeof magic) != 0)
        return "is not a checkpoint";
    if (h->version != CHECKPOINT_VERSION)
        return "is of another version of texcell";
    if (crc_of(h, offsetof(header, header_crc)) != h->header_crc)
        return "is corrupt";
    if (h->job_crc != whose->job_crc || h->job_size != whose->job_size ||
        memcmp(h->analysis, whose->analysis, sizeof h->analysis) != 0)
        return "is of another work unit";
    if (file_size - sizeof *h != h->state_size)
        return "is torn";
    return NULL;
}

static tc_status read_state(FILE *file, const char *path, const header *h, void **state, tc_err *err)
{
    if (h->state_size == 0)
        return TC_OK;
    *state = malloc((size_t)h->state_size);
    if (*state == NULL)
        return tc_no_memory(err, "the state of the checkpoint");
    if (fread(*state, 1, (size_t)h->state_size, file) != h->state_size)
        return tc_fail(err, TC_BAD_INPUT, "%s: is torn", path);
    if (crc_of(*state, (size_t)h->state_size) != h->state_crc)
        return tc_fail(err, TC_BAD_INPUT, "%s: is corrupt", path);
    return TC_OK;
}

tc_status checkpoint_read(const char *path, const checkpoint *whose, checkpoint *c, void **state, tc_err *err)
{
    FILE *const file = fopen(path, "rb");
    struct stat info;
    const char *fault;
    tc_status st;
    header h;

    *state = NULL;
    if (file == NULL) {
        if (errno == ENOENT)
            return TC_MORE;
        return tc_fail(err, TC_BAD_INPUT, "%s: cannot be opened: %s", path, strerror(errno));
    }
    if (fstat(fileno(file), &info) != 0 || fread(&h, sizeof h, 1, file) != 1) {
        st = tc_fail(err, TC_BAD_INPUT, "%s: is torn", path);
        goto end;
    }
    fault = fault_of(&h, whose, (uint64_t)info.st_size);
    if (fault != NULL) {
        st = tc_fail(err, TC_BAD_INPUT, "%s: %s", path, fault);
        goto end;
    }
    st = read_state(file, path, &h, state, err);
    *c = *whose;
    c->item = h.item;
    c->spool_size = h.spool_size;
    c->spool_crc = h.spool_crc;
    c->state_size = h.state_size;
end:
    fclose(file);
    if (st != TC_OK) {
        free(*state);
        *state = NULL;
    }
    return st;
}
