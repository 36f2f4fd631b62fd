/* CRC-32 as in ZIP, PNG and zlib; on many processors as fast as memory can be read. */
#ifndef TC_CRC32_H
#define TC_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Returns the CRC of data whose first part has the CRC `crc` (0 if there is no first part) and
 * whose remaining n bytes are `data`. */
uint32_t tc_crc32(uint32_t crc, const void *data, size_t n);

#endif
