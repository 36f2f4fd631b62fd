/* Writes and reads the checkpoint file. The spool, which the checkpoint refers to, is another file:
 * it has the outputs of the items that are done. */
#include "app/checkpoint.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/base/crc32.h"
#include "app/base/files.h"
#include "app/base/os.h"

/* The file's header: little-endian, without padding. The state follows it. */
typedef struct header {
    char magic[8];    /* "TEXCKPT" */
    uint32_t version; /* CHECKPOINT_VERSION */
    uint32_t job_crc; /* this and the next five fields: as in struct checkpoint */
    uint64_t job_size;
    char analysis[16];
    uint64_t item;
    uint64_t spool_size;
    uint64_t state_size;
    uint32_t spool_crc;  /* as in struct checkpoint */
    uint32_t state_crc;  /* CRC-32 of the state */
    uint32_t reserved;   /* 0 */
    uint32_t header_crc; /* CRC-32 of the header's bytes before this field */
} header;

_Static_assert(sizeof(header) == 80, "the header of a checkpoint has 80 bytes");

static const char magic[8] = "TEXCKPT";

/* The name of the file that a checkpoint is written to before it is renamed; the caller frees it.
 */
static char *temporary_path(const char *path)
{
    const size_t size = strlen(path) + sizeof ".tmp";
    char *const temporary = malloc(size);

    if (temporary != NULL)
        snprintf(temporary, size, "%s.tmp", path);
    return temporary;
}

/* Fails with a message about errno. */
static tc_status cannot_write(const char *path, tc_err *err)
{
    return tc_fail(err, TC_IO, "%s: cannot be written: %s", path, strerror(errno));
}

/* Writes the state to its position after the header, and sets *crc, which must be 0 before, to the
 * state's CRC-32. */
static tc_status write_state(int fd, const char *path, const unsigned char *state, size_t size,
                             uint32_t *crc, const tc_poll *poll, tc_err *err)
{
    for (size_t at = 0, n; at < size; at += n) {
        n = size - at < TC_POLL_BLOCK ? size - at : TC_POLL_BLOCK;
        *crc = tc_crc32(*crc, state + at, n);
        if (!tc_write_at(fd, sizeof(header) + at, state + at, n))
            return_if_error(cannot_write(path, err));
        else if (at + n < size)
            return_if_error(tc_call_poll(poll, err));
    }
    return TC_OK;
}

tc_status checkpoint_write(const char *path, const checkpoint *c, const void *state,
                           const tc_poll *poll, tc_err *err)
{
    assert(c->state_size == 0 || state != NULL);
    char *const temporary = temporary_path(path);
    header h = { .version = CHECKPOINT_VERSION,
                 .job_crc = c->job_crc,
                 .job_size = c->job_size,
                 .item = c->item,
                 .spool_size = c->spool_size,
                 .state_size = c->state_size,
                 .spool_crc = c->spool_crc };
    tc_status status = TC_OK;
    int fd;

    if (temporary == NULL)
        return tc_no_memory(err, "a file name");
    memcpy(h.magic, magic, sizeof h.magic);
    memcpy(h.analysis, c->analysis, sizeof h.analysis);
    /* OS_UPDATE does not truncate the file, for which checkpoint_reserve may have reserved
     * space. */
    fd = os_open(temporary, OS_UPDATE);
    if (fd < 0) {
        status = tc_fail(err, TC_IO, "%s: cannot be created: %s", temporary, strerror(errno));
        goto end;
    }
    status = write_state(fd, temporary, state, (size_t)c->state_size, &h.state_crc, poll, err);
    h.header_crc = tc_crc32(0, &h, offsetof(header, header_crc));
    if (status == TC_OK && (!tc_write_at(fd, 0, &h, sizeof h) ||
                            ftruncate(fd, (off_t)(sizeof h + c->state_size)) != 0 || !os_sync(fd)))
        status = cannot_write(temporary, err);
    if (close(fd) != 0 && status == TC_OK)
        status = cannot_write(temporary, err);
    if (status == TC_OK && !os_replace(temporary, path))
        status = tc_fail(err, TC_IO, "%s: cannot be renamed: %s", temporary, strerror(errno));
    if (status != TC_OK)
        unlink(temporary);
end:
    free(temporary);
    return status;
}

void checkpoint_reserve(const char *path, uint64_t state_size)
{
    char *const temporary = temporary_path(path);
    const int fd = temporary == NULL ? -1 : os_open(temporary, OS_UPDATE);

    if (fd >= 0) {
        (void)os_reserve(fd, sizeof(header) + state_size);
        close(fd);
    }
    free(temporary);
}

void checkpoint_remove(const char *path)
{
    char *const temporary = temporary_path(path);

    unlink(path);
    if (temporary != NULL)
        unlink(temporary);
    free(temporary);
}

/* The reason for which checkpoint_read returns TC_NO_MATCH. */
static const char other_unit[] = "is of another work unit";

/* Returns why the checkpoint with this header cannot be used for the job `expected`, or NULL if it
 * can. */
static const char *check_header(const header *h, const checkpoint *expected, uint64_t file_size)
{
    if (memcmp(h->magic, magic, sizeof magic) != 0)
        return "is not a checkpoint";
    if (h->version != CHECKPOINT_VERSION)
        return "is of another version of texcell";
    if (tc_crc32(0, h, offsetof(header, header_crc)) != h->header_crc)
        return "is corrupt";
    if (h->job_crc != expected->job_crc || h->job_size != expected->job_size ||
        memcmp(h->analysis, expected->analysis, sizeof h->analysis) != 0)
        return other_unit;
    if (file_size - sizeof *h != h->state_size)
        return "is incomplete";
    return NULL;
}

/* Reads the state that follows the header into *state, and checks its CRC-32. The caller frees
 * *state, also after a failure. */
static tc_status read_state(int fd, const char *path, const header *h, void **state,
                            const tc_poll *poll, tc_err *err)
{
    const size_t size = (size_t)h->state_size;
    uint32_t crc = 0;
    tc_status status = TC_OK;

    if (size == 0)
        return TC_OK;
    *state = os_alloc_zeroed(size);
    if (*state == NULL)
        return tc_no_memory(err, "the state of the checkpoint");
    for (size_t at = 0, n; status == TC_OK && at < size; at += n) {
        unsigned char *const block = (unsigned char *)*state + at;

        n = size - at < TC_POLL_BLOCK ? size - at : TC_POLL_BLOCK;
        if (!tc_read_all_at(fd, sizeof *h + at, block, n))
            return tc_fail(err, TC_BAD_INPUT, "%s: is incomplete", path);
        crc = tc_crc32(crc, block, n);
        status = tc_call_poll(poll, err);
    }
    return status == TC_OK && crc != h->state_crc
               ? tc_fail(err, TC_BAD_INPUT, "%s: is corrupt", path)
               : status;
}

tc_status checkpoint_read(const char *path, const checkpoint *expected, checkpoint *c, void **state,
                          const tc_poll *poll, tc_err *err)
{
    const int fd = os_open(path, OS_READ);
    struct stat info;
    const char *fault;
    tc_status status;
    header h;

    *state = NULL;
    if (fd < 0) {
        const int error = errno;

        if (error == ENOENT)
            return TC_MORE; /* no checkpoint: the whole job remains to be done */
        status = tc_fail(err, TC_BAD_INPUT, "%s: cannot be opened: %s", path, strerror(error));
        /* These errors are temporary, so they are no reason to discard the checkpoint. */
        return error == ENOMEM || error == EMFILE || error == ENFILE ? TC_TRY_LATER : status;
    }
    if (fstat(fd, &info) != 0 || !tc_read_all_at(fd, 0, &h, sizeof h)) {
        status = tc_fail(err, TC_BAD_INPUT, "%s: is incomplete", path);
        goto end;
    }
    fault = check_header(&h, expected, (uint64_t)info.st_size);
    if (fault != NULL) {
        status =
            tc_fail(err, fault == other_unit ? TC_NO_MATCH : TC_BAD_INPUT, "%s: %s", path, fault);
        goto end;
    }
    status = read_state(fd, path, &h, state, poll, err);
    *c = *expected;
    c->item = h.item;
    c->spool_size = h.spool_size;
    c->spool_crc = h.spool_crc;
    c->state_size = h.state_size;
end:
    close(fd);
    if (status != TC_OK) {
        free(*state);
        *state = NULL;
    }
    return status;
}
