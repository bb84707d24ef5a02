// SPDX-License-Identifier: Apache-2.0
#include "chips/gpu.h"

#include <inttypes.h>
#include <string.h>

// Compute capability, shared memory and second-level cache: NVIDIA, CUDA C++ Programming Guide, "Technical
// Specifications per Compute Capability", and the architectures' white papers.
static const struct gpu {
    const char *name;
    int major, minor;
    int64_t shared_per_core, l2_bytes;
    double clock_ghz;
    int fpus_per_core;
    const char *description;
} gpus[] = {
    {"a100", 8, 0, 164 << 10, 40 << 20, 1.41, 64, "NVIDIA A100-SXM4-80GB"},
    {"h100", 9, 0, 228 << 10, 50 << 20, 1.98, 128, "NVIDIA H100 80GB HBM3"},
    {"h200", 9, 0, 228 << 10, 50 << 20, 1.98, 128, "NVIDIA H200"},
    {"b200", 10, 0, 228 << 10, 126 << 20, 1.965, 128, "NVIDIA B200"},
    {"l4", 8, 9, 100 << 10, 48 << 20, 2.04, 128, "NVIDIA L4"},
};

bool chip_gpu_config(const struct chip *chip, struct str *out)
{
    const struct gpu *g = NULL;
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++) {
        if (strcmp(gpus[i].name, chip->name) == 0)
            g = &gpus[i];
    }
    if (!g)
        return false;
    // A block may have all of a core's shared memory but 1 KiB, and 48 KiB without asking.
    str_addf(
        out,
        "gpu_device_info { threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152 "
        "shared_memory_per_core: %" PRId64 " shared_memory_per_block_optin: %" PRId64
        " threads_per_core_limit: %d core_count: %d fpus_per_core: %d block_dim_limit_x: 2147483647 "
        "block_dim_limit_y: 65535 block_dim_limit_z: 65535 memory_bandwidth: %.0f l2_cache_size: %" PRId64
        " clock_rate_ghz: %g device_memory_size: %.0f registers_per_core_limit: 65536 registers_per_block_limit: "
        "65536 cuda_compute_capability { major: %d minor: %d } } platform_name: \"CUDA\" dnn_version_info { major: 9 "
        "minor: 10 } device_description_str: \"%s\"",
        g->shared_per_core, g->shared_per_core - 1024, g->major == 8 && g->minor == 9 ? 1536 : 2048,
        chip->cores_per_chip, g->fpus_per_core, chip->bandwidth.value, g->l2_bytes, g->clock_ghz, chip->memory.value,
        g->major, g->minor, g->description);
    return true;
}
