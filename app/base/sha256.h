/*
 * SHA-256 (FIPS 180-4): whether two contents are the same, where somebody would like them
 * to look so.
 */
#ifndef TC_SHA256_H
#define TC_SHA256_H

#include <stddef.h>
#include <stdint.h>

/* Adds n blocks of 64 bytes. */
typedef void tc_sha256_blocks(uint32_t state[8], const unsigned char *blocks, size_t n);

typedef struct tc_sha256 {
    tc_sha256_blocks *add;
    uint32_t state[8];
    uint64_t bytes; /* so far */
    unsigned char block[64];
} tc_sha256;

/* The digest in hexadecimal, with its NUL. */
enum { TC_SHA256_TEXT = 65 };

/* What every processor does. */
tc_sha256_blocks tc_sha256_portable;

void tc_sha256_begin(tc_sha256 *s);
void tc_sha256_add(tc_sha256 *s, const void *data, size_t n);
void tc_sha256_end(tc_sha256 *s, char text[TC_SHA256_TEXT]);

#endif
