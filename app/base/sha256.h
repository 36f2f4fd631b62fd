/*
 * SHA-256 (FIPS 180-4), for comparing data where someone may have tried to make different data look
 * the same.
 */
#ifndef TC_SHA256_H
#define TC_SHA256_H

#include <stddef.h>
#include <stdint.h>

/* Updates the hash state with n blocks of 64 bytes. */
typedef void tc_sha256_blocks(uint32_t state[8], const unsigned char *blocks, size_t n);

typedef struct tc_sha256 {
    tc_sha256_blocks *add; /* the implementation for this processor */
    uint32_t state[8];
    uint64_t bytes;          /* the number of bytes added so far */
    unsigned char block[64]; /* the last bytes % 64 bytes added, which do not fill a block yet */
} tc_sha256;

/* The size of a digest as hexadecimal text, with its NUL. */
enum { TC_SHA256_TEXT = 65 };

/* The implementation in portable C, for processors without SHA instructions. */
tc_sha256_blocks tc_sha256_portable;

/* Begins a digest. */
void tc_sha256_begin(tc_sha256 *s);
/* Adds n bytes to the data of the digest. */
void tc_sha256_add(tc_sha256 *s, const void *data, size_t n);
/* Writes the digest of all data added as hexadecimal text; then only tc_sha256_begin may follow. */
void tc_sha256_end(tc_sha256 *s, char text[TC_SHA256_TEXT]);

#endif
