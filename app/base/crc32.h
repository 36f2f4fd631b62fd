/* CRC-32, that of ZIP, PNG and zlib, as fast as memory gives the bytes where the processor can. */
#ifndef TC_CRC32_H
#define TC_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* That of the bytes with this CRC (none: 0), followed by n more. */
uint32_t tc_crc32(uint32_t crc, const void *data, size_t n);

#endif
