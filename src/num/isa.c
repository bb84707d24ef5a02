// SPDX-License-Identifier: Apache-2.0
#include "num/isa.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[ISA_COUNT] = {"portable", "neon", "avx2", "avx512", "avx512_bf16", "amx"};

const char *isa_name(enum isa i)
{
    return (unsigned)i < ISA_COUNT ? names[i] : "unknown";
}

#if defined(__x86_64__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

// Which registers the operating system saves (XCR0).
static unsigned saved_registers(void)
{
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static bool all(unsigned word, unsigned bits)
{
    return (word & bits) == bits;
}

// Tiles are 8 KB of registers, for which Linux makes room in a process only when it asks (since 5.16).
static bool may_use_tiles(void)
{
    enum { REQUEST = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}

bool isa_available(enum isa i)
{
    enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24, AMX_INT8 = 1 << 25, VNNI = 1 << 11 };
    if (i == ISA_PORTABLE)
        return true;
    if (i == ISA_NEON || i >= ISA_COUNT)
        return false;
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !all(c, bit_OSXSAVE | bit_AVX | bit_F16C | bit_FMA))
        return false;
    unsigned saved = saved_registers();
    unsigned a7, b7, c7, d7;
    if (!all(saved, 0x6) || !__get_cpuid_count(7, 0, &a7, &b7, &c7, &d7) || !all(b7, bit_AVX2))
        return false;
    if (i == ISA_AVX2)
        return true;
    if (!all(saved, 0xe6) || !all(b7, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL))
        return false;
    if (i == ISA_AVX512)
        return true;
    // Leaf 7 gives in a the number of its subleaves.
    if (a7 < 1 || !__get_cpuid_count(7, 1, &a, &b, &c, &d) || !all(a, bit_AVX512BF16))
        return false;
    return i == ISA_AVX512_BF16 ||
           (all(saved, 0x60000) && all(c7, VNNI) && all(d7, AMX_BF16 | AMX_TILE | AMX_INT8) && may_use_tiles());
}

#elif defined(__aarch64__)

bool isa_available(enum isa i)
{
    return i == ISA_PORTABLE || i == ISA_NEON;
}

#else

bool isa_available(enum isa i)
{
    return i == ISA_PORTABLE;
}

#endif

static atomic_int in_force = -1;

static enum isa choose(void)
{
    const char *named = getenv("ASSAY_ISA");
    enum isa best = ISA_PORTABLE;
    for (int i = 0; i < ISA_COUNT; i++) {
        if (!isa_available((enum isa)i))
            continue;
        best = (enum isa)i;
        if (named && strcmp(named, names[i]) == 0)
            break;
    }
    return best;
}

enum isa isa_in_force(void)
{
    int i = atomic_load(&in_force);
    if (i < 0) {
        i = (int)choose(); // two threads that come here at once find the same
        atomic_store(&in_force, i);
    }
    return (enum isa)i;
}

bool isa_force(enum isa i)
{
    if (!isa_available(i))
        return false;
    atomic_store(&in_force, (int)i);
    return true;
}
