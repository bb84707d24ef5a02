// SPDX-License-Identifier: Apache-2.0
// Fewer page faults where much memory is filled from its beginning to its end.
#ifndef BASE_HUGEPAGES_H
#define BASE_HUGEPAGES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

// Asks for pages of 2 MiB for what lies whole in the memory, when it is at least 4 MiB: of less, what the last page
// takes beyond what is used would show. Where the machine has none to give nothing changes; memory that is never
// touched still takes none.
static inline void want_huge_pages(void *memory, size_t bytes)
{
    const uintptr_t page = (uintptr_t)2 << 20;
    uintptr_t begin = ((uintptr_t)memory + page - 1) & ~(page - 1), end = ((uintptr_t)memory + bytes) & ~(page - 1);
    if (bytes >= 2 * page && end > begin)
        madvise((void *)begin, end - begin, MADV_HUGEPAGE); // NOLINT(performance-no-int-to-ptr)
}

#endif
